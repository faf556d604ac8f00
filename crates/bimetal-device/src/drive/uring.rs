//! Drive whose operations are carried out by the kernel's ring. One system call begins many
//! operations, and their completions are in shared memory.

#![allow(unsafe_code, reason = "the ring is told addresses of memory that it reads and writes later")]

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use bimetal_core::operation::{Completion, Operation};
use bimetal_core::units::{SectorRange, Sectors};
use io_uring::types::{Fd, Fixed, FsyncFlags};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use slab::Slab;

use super::file::DriveFile;
use super::job::{Job, PartsLeft, Step};
use super::pool::Pool;
use super::room::Waiting;
use super::{Drive, Failure};
use crate::buffer::arena::{ARENAS_MAX, Arenas};
use crate::buffer::{Buffers, Filling};

/// Maximum of calls in the ring; further calls wait. With this limit of operations neither queue of
/// the ring overflows.
const ENTRIES: u32 = 256;
/// User data of the helper's event in the ring, in place of the key of a job.
const HELPER: u64 = u64::MAX;
/// `RWF_DSYNC`: the write is stable when it completes.
const DSYNC: u32 = 0x2;

/// Drive whose operations are carried out by the kernel's ring.
pub struct Uring {
    ring: IoUring,
    file: Arc<DriveFile>,
    jobs: Slab<Entry>,
    /// Memory of small reads. The first `registered` regions are registered with the ring, which
    /// spares the kernel the work of finding their pages for each read.
    arenas: Arenas,
    registered: usize,
    /// Cleared when the kernel refuses a region.
    registers: bool,
    /// Completions of operations that needed no system call.
    ended: Vec<Completion<Buffers>>,
    /// Thread for calls that the ring lacks: discards of block devices. The thread is started at
    /// the first such call.
    helper: Option<Pool>,
    /// Set while the ring polls the helper's event.
    helper_polled: bool,
    /// Jobs whose next call waits for a place in the kernel's ring.
    waiting: VecDeque<usize>,
    /// Jobs that have found no room in the file system, and are tried again.
    without_room: Waiting<usize>,
    in_ring: usize,
    unsubmitted: usize,
}

/// Job, with the list of its parts that the kernel reads. The list lives as long as the call.
struct Entry {
    job: Job,
    parts: Vec<IoSlice<'static>>,
}

const FILE: Fixed = Fixed(0);

impl Uring {
    /// Makes a ring for `file`.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no ring, or refuses to make a ring.
    pub fn new(file: Arc<DriveFile>) -> io::Result<Self> {
        let ring = IoUring::builder().setup_coop_taskrun().build(ENTRIES).or_else(|_| IoUring::new(ENTRIES))?;
        ring.submitter().register_files(&[file.as_fd().as_raw_fd()])?;
        // Kernels before 5.13 have no table of buffers.
        let registers = ring.submitter().register_buffers_sparse(ARENAS_MAX as u32).is_ok();
        Ok(Self {
            ring,
            file,
            jobs: Slab::with_capacity(ENTRIES as usize),
            arenas: Arenas::default(),
            registered: 0,
            registers,
            ended: Vec::new(),
            helper: None,
            helper_polled: false,
            waiting: VecDeque::new(),
            without_room: Waiting::default(),
            in_ring: 0,
            unsubmitted: 0,
        })
    }

    /// Begins the next call of a job, or ends the job.
    fn advance(&mut self, key: usize) {
        // One place is reserved for the helper's event.
        if self.in_ring + 1 >= ENTRIES as usize {
            return self.waiting.push_back(key);
        }
        let Entry { job, parts } = &mut self.jobs[key];
        let entry = match job.step(&self.file) {
            None => {
                let entry = self.jobs.remove(key);
                return self.ended.push(entry.job.end());
            }
            Some(Step::Read { offset, bytes, arena }) => {
                let (start, len) = (bytes.as_mut_ptr(), bytes.len() as u32);
                match arena.filter(|&arena| usize::from(arena) < self.registered) {
                    Some(arena) => opcode::ReadFixed::new(FILE, start, len, arena).offset(offset).build(),
                    None => opcode::Read::new(FILE, start, len).offset(offset).build(),
                }
            }
            Some(Step::Write { offset, parts: left, fua }) => write(offset, left, fua, parts),
            Some(Step::Sync) => opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build(),
            Some(Step::Allocate { mode, offset, len }) => {
                opcode::Fallocate::new(FILE, len).offset(offset).mode(mode as i32).build()
            }
            Some(Step::DiscardDevice { .. }) => return self.hand_over(key),
        };
        self.push(entry.user_data(key as u64));
    }

    /// Takes memory for a read of `len` bytes.
    fn memory(&mut self, len: usize) -> Filling {
        let Some(filling) = self.arenas.take(len) else { return Filling::new(len) };
        while self.registers && self.registered < self.arenas.len() {
            // A limit on locked memory may refuse a region. Later regions are not tried, so all
            // regions up to `registered` are registered.
            self.registers = self.register(self.registered);
            self.registered += usize::from(self.registers);
        }
        filling
    }

    /// Registers a region for small reads with the ring. Returns true if the kernel has the region.
    fn register(&self, arena: usize) -> bool {
        let (start, bytes) = self.arenas.region(arena);
        // SAFETY: the memory is initialised, and nothing writes to it during the call.
        let region = [IoSlice::new(unsafe { std::slice::from_raw_parts(start, bytes) })];
        // SAFETY: an `IoSlice` has the form of the system's `iovec`.
        let list = unsafe { std::slice::from_raw_parts(region.as_ptr().cast(), region.len()) };
        // SAFETY: the region is as old as the arenas, which are dropped after the ring.
        unsafe { self.ring.submitter().register_buffers_update(arena as u32, list, None) }.is_ok()
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the memory behind the entry's pointers belongs to a job. The job stays in the
        // table until the call has ended, and dropping the drive waits for the call.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the ring has room for what is counted in it");
        self.in_ring += 1;
        self.unsubmitted += 1;
    }

    /// Submits the pushed entries to the kernel, and waits for `wanted` calls to end. Entries that
    /// the kernel does not take now stay in the ring for the next call.
    fn enter(&mut self, wanted: usize) {
        match self.ring.submit_and_wait(wanted) {
            Ok(taken) => self.unsubmitted = self.unsubmitted.saturating_sub(taken),
            Err(error) => {
                let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY, Errno::NOMEM];
                let passing = passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
                assert!(passing, "io_uring of '{}' failed: {error}", self.file.name());
            }
        }
    }

    fn next_end(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Takes the results in the ring, and continues their jobs.
    fn reap(&mut self) {
        while let Some(entry) = self.next_end() {
            self.in_ring -= 1;
            if entry.user_data() == HELPER {
                self.helper_polled = false;
                self.collect_helper();
                continue;
            }
            let key = entry.user_data() as usize;
            let result = match entry.result() {
                count @ 0.. => Ok(count as u64),
                error => Err(Errno::from_raw_os_error(-error)),
            };
            let job = &mut self.jobs[key].job;
            job.note(result, &self.file);
            match job.take_no_room() {
                Some((errno, tries)) => self.without_room.hold(key, errno, tries),
                None => {
                    if result.is_ok() && job.needs_room() {
                        self.without_room.found_room();
                    }
                    self.advance(key);
                }
            }
        }
        for _ in 0..self.waiting.len() {
            let Some(key) = self.waiting.pop_front() else { break };
            self.advance(key);
        }
    }

    /// Passes a job to the helper thread. If no thread can be started, the job ends with the status
    /// "unsupported".
    fn hand_over(&mut self, key: usize) {
        let mut job = self.jobs.remove(key).job;
        if self.helper.is_none() {
            self.helper = Pool::with_threads(Arc::clone(&self.file), 1).ok();
        }
        match &mut self.helper {
            Some(helper) => {
                helper.submit_job(job);
                self.poll_helper();
            }
            None => {
                job.note(Err(Errno::OPNOTSUPP), &self.file);
                self.ended.push(job.end());
            }
        }
    }

    fn poll_helper(&mut self) {
        let Some(helper) = self.helper.as_ref().filter(|helper| helper.under_way() > 0 && !self.helper_polled) else {
            return;
        };
        let event = Fd(helper.event().as_raw_fd());
        self.helper_polled = true;
        self.push(opcode::PollAdd::new(event, PollFlags::IN.bits().into()).build().user_data(HELPER));
    }

    fn collect_helper(&mut self) {
        if let Some(helper) = &mut self.helper {
            helper.collect(&mut self.ended);
        }
        self.poll_helper();
    }
}

/// Returns the entry that writes the remaining bytes; `list` holds the parts for the kernel if
/// there are several.
fn write(offset: u64, left: PartsLeft<'_>, fua: bool, list: &mut Vec<IoSlice<'static>>) -> squeue::Entry {
    let flags = if fua { DSYNC } else { 0 };
    let mut parts = left.clone();
    if let (Some(only), None) = (parts.next(), parts.next()) {
        let write = opcode::Write::new(FILE, only.as_ptr(), only.len() as u32);
        return write.offset(offset).rw_flags(flags as _).build();
    }
    list.clear();
    // SAFETY: the bytes are shared with the job, which stays in the table until the call has ended.
    // The list is read only during the call.
    let lasting = |part| IoSlice::new(unsafe { std::mem::transmute::<&[u8], &'static [u8]>(part) });
    list.extend(left.map(lasting));
    let write = opcode::Writev::new(FILE, list.as_ptr().cast(), list.len() as u32);
    write.offset(offset).rw_flags(flags as _).build()
}

impl Drive for Uring {
    fn submit(&mut self, operation: Operation<Buffers>) {
        let file = Arc::clone(&self.file);
        let job = Job::with_memory(operation, &file, |len| self.memory(len));
        let key = self.jobs.insert(Entry { job, parts: Vec::new() });
        self.advance(key);
    }

    fn start(&mut self) {
        if self.unsubmitted > 0 {
            self.enter(0);
        }
    }

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        self.reap();
        for key in self.without_room.take_due() {
            self.advance(key);
        }
        // Jobs with a further call continue now.
        self.start();
        ended.append(&mut self.ended);
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty() || !self.ring.completion().is_empty() || self.without_room.is_due()
    }

    fn take_failures(&mut self) -> Vec<Failure> {
        self.file.take_failures()
    }

    fn no_room(&self) -> Option<Errno> {
        self.without_room.errno()
    }

    fn due(&self) -> Option<Instant> {
        self.without_room.due()
    }

    fn under_way(&self) -> usize {
        self.jobs.len() + self.ended.len() + self.helper.as_ref().map_or(0, Pool::under_way)
    }

    fn event(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps the descriptor open as long as `self` lives.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        self.file.hole(range)
    }

    fn logical_block(&self) -> u32 {
        self.file.logical_block()
    }

    fn describe(&self) -> String {
        let cache = if self.file.is_direct() { "O_DIRECT" } else { "the page cache" };
        format!("io_uring, {cache}")
    }
}

impl Drop for Uring {
    /// Waits for calls under way, because the kernel would otherwise continue to use their memory.
    fn drop(&mut self) {
        // Jobs that wait for room are in no call of the kernel.
        while self.jobs.len() > self.without_room.len() || !self.waiting.is_empty() {
            self.enter(1);
            self.reap();
        }
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::{OpKind, Status};
    use bimetal_core::payload::Payload;

    use super::super::tests::{Temporary, operation, pattern, run};
    use super::*;

    const READS: u64 = 300;

    /// Makes a ring over a file with content; `None` if the kernel has no ring.
    fn ring(temporary: &Temporary) -> Option<Uring> {
        let file = DriveFile::open(&temporary.0).unwrap();
        let mut ring =
            Uring::new(Arc::new(file)).inspect_err(|error| println!("skipped: no io_uring ({error})")).ok()?;
        let writes = (0..READS).map(|at| operation(OpKind::Write, at * 8, pattern(at, 8), 8, false)).collect();
        assert!(run(&mut ring, writes).iter().all(|end| end.status == Status::Done));
        Some(ring)
    }

    /// Reads every block once, all at once and from the last to the first, and checks the content.
    fn read_backwards(ring: &mut Uring) -> Vec<Completion<Buffers>> {
        let reads = (0..READS).rev().map(|at| operation(OpKind::Read, at * 8, Buffers::empty(), 8, false)).collect();
        let mut ends = run(ring, reads);
        for (at, end) in (0..).zip(&ends) {
            assert!(end.status == Status::Done && end.payload == pattern(at, 8), "block {at}");
        }
        ends.reverse();
        ends
    }

    /// The answer to a request of 300 pieces is sent in 5 parts: 64 pieces have room in a region.
    #[test]
    fn small_reads_lie_side_by_side_in_their_order() {
        let temporary = Temporary::new();
        let Some(mut ring) = ring(&temporary) else { return };
        let mut whole = Buffers::empty();
        read_backwards(&mut ring).into_iter().for_each(|end| whole.join(end.payload));
        assert_eq!(whole.parts().len(), 5);
        assert_eq!(ring.registered, if ring.registers { 5 } else { 0 });
    }

    /// A read must not change content that an earlier read has returned and somebody still holds.
    #[test]
    fn held_content_is_not_overwritten_by_later_reads() {
        let temporary = Temporary::new();
        let Some(mut ring) = ring(&temporary) else { return };
        let held: Vec<_> = (0..10).flat_map(|_| read_backwards(&mut ring)).collect();
        for end in held {
            assert!(end.payload == pattern(end.token.0 / 8, 8), "block {}", end.token.0 / 8);
        }
        assert_eq!(ring.arenas.len(), ARENAS_MAX, "reads beyond the regions had memory of their own");
        read_backwards(&mut ring);
    }

    /// A limit on locked memory may leave some or all regions unregistered.
    #[test]
    fn reads_into_unregistered_regions_are_ordinary_reads() {
        let temporary = Temporary::new();
        for registered in [0, 2] {
            let Some(mut ring) = ring(&temporary) else { return };
            let taken: Vec<_> = (0..registered * 4).map(|_| ring.memory(64 << 10)).collect();
            drop(taken);
            ring.registers = false;
            read_backwards(&mut ring);
            assert!(ring.registered <= registered && ring.arenas.len() == 5);
        }
    }
}
