//! One operation on a drive as a sequence of system calls: the next call, and the meaning of each
//! result.
//!
//! A [`Job`] makes no call itself: a thread or the kernel's ring (io_uring) makes the call. This
//! module has the rules for short transfers (the missing bytes are requested again) and for
//! commands that a drive does not support. The module also maps each error to a [`Status`].

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{SECTOR_BYTES, SectorRange, Sectors};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::file::DriveFile;
use super::room;
use crate::buffer::{Buffers, Filling, Slice};

/// Maximum of parts in one call: the limit of the kernel.
const PARTS_MAX: usize = 1024;
/// Maximum of bytes in one call, so that a large operation does not delay other operations.
const CALL_BYTES_MAX: u64 = 32 << 20;
/// Maximum number of times that an interrupted call is repeated.
const RETRIES_MAX: u32 = 1000;

/// A system call. `arena` is the number of the drive's region that has the bytes of a read.
pub(super) enum Step<'a> {
    Read { offset: u64, bytes: &'a mut [u8], arena: Option<u16> },
    Write { offset: u64, parts: PartsLeft<'a>, fua: bool },
    Sync,
    Allocate { mode: u32, offset: u64, len: u64 },
    DiscardDevice { offset: u64, len: u64 },
}

/// Parts of the payload that are still to be written, up to the limits of one call.
#[derive(Clone)]
pub(super) struct PartsLeft<'a> {
    parts: &'a [Slice],
    skip: usize,
    bytes_left: u64,
    parts_left: usize,
}

impl PartsLeft<'_> {
    /// Returns the number of bytes in the parts.
    pub(super) fn bytes(&self) -> u64 {
        self.clone().map(|part| part.len() as u64).sum()
    }
}

impl<'a> Iterator for PartsLeft<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.parts.split_first()?;
        if self.bytes_left == 0 || self.parts_left == 0 {
            return None;
        }
        let bytes = &first.bytes()[self.skip..];
        let taken = bytes.len().min(self.bytes_left as usize);
        (self.parts, self.skip) = (rest, 0);
        self.bytes_left -= taken as u64;
        self.parts_left -= 1;
        Some(&bytes[..taken])
    }
}

enum Data {
    Nothing,
    /// Buffer of a read, and the number of bytes at its beginning that precede the requested range.
    Into(Filling, u64),
    From(Buffers),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Zeroes or discards a range by one call.
    Range,
    /// Reads or writes bytes.
    Transfer,
    Sync,
    End(Status),
}

/// An operation under way.
pub(super) struct Job {
    token: Token,
    command: Command,
    /// Range of the calls, in bytes: the operation's range, widened or narrowed to the drive's
    /// alignment.
    offset: u64,
    len: u64,
    done: u64,
    data: Data,
    stage: Stage,
    retries: u32,
    /// Error of the last call that found no room, until it is taken; and the number of such calls.
    no_room: Option<Errno>,
    without_room: u32,
}

impl Job {
    pub(super) fn new(operation: Operation<Buffers>, file: &DriveFile) -> Self {
        Self::with_memory(operation, file, Filling::new)
    }

    /// Makes a job; `memory` takes the buffer of a read.
    pub(super) fn with_memory(
        operation: Operation<Buffers>,
        file: &DriveFile,
        memory: impl FnOnce(usize) -> Filling,
    ) -> Self {
        let Operation { token, command, payload, .. } = operation;
        let range = command.range;
        let outside = range.checked_end().is_none_or(|end| end > file.capacity());
        let (offset, len) = if outside { (0, 0) } else { (range.start.bytes().0, range.len.bytes().0) };
        let mut job = Self {
            token,
            command,
            offset,
            len,
            done: 0,
            data: Data::Nothing,
            stage: Stage::Range,
            retries: 0,
            no_room: None,
            without_room: 0,
        };
        job.stage = match command.kind {
            _ if outside => Stage::End(Status::OutOfRange),
            OpKind::Flush => Stage::Sync,
            OpKind::Hint => Stage::End(Status::Unsupported),
            _ if len == 0 => Stage::End(Status::Done),
            OpKind::Read => job.begin_read(file, memory),
            OpKind::Write | OpKind::WriteZeroes if !job.is_aligned(file) => Stage::End(Status::Unsupported),
            OpKind::Write => job.begin_write(payload, file),
            OpKind::WriteZeroes if file.zeroes_ranges() => Stage::Range,
            OpKind::WriteZeroes => job.begin_zeroes(),
            OpKind::Discard => job.begin_discard(file),
        };
        job
    }

    fn is_aligned(&self, file: &DriveFile) -> bool {
        let unit = u64::from(file.logical_block());
        self.offset.is_multiple_of(unit) && self.len.is_multiple_of(unit)
    }

    /// Begins a read of at least the range. An unaligned range is widened, and the surplus is left
    /// out of the answer.
    fn begin_read(&mut self, file: &DriveFile, memory: impl FnOnce(usize) -> Filling) -> Stage {
        let unit = u64::from(file.logical_block());
        let before = self.offset % unit;
        self.offset -= before;
        self.len = (self.len + before).next_multiple_of(unit);
        self.data = Data::Into(memory(self.len as usize), before);
        Stage::Transfer
    }

    fn begin_write(&mut self, payload: Buffers, file: &DriveFile) -> Stage {
        assert_eq!(payload.bytes(), self.len, "a write carries what its range says");
        let unit = file.logical_block() as usize;
        // Direct I/O requires that each part begins and ends on a multiple of the drive's unit.
        // Parts always do if the unit is 512 bytes. For larger units, parts are gathered: the only
        // place where written data is copied.
        let fits = |part: &Slice| {
            (part.bytes().as_ptr() as usize).is_multiple_of(unit) && part.bytes().len().is_multiple_of(unit)
        };
        self.data = Data::From(if !file.is_direct() || payload.parts().iter().all(fits) {
            payload
        } else {
            let mut filling = Filling::new(self.len as usize);
            payload.copy_to(filling.bytes_mut());
            Buffers::from(filling.share())
        });
        Stage::Transfer
    }

    fn begin_zeroes(&mut self) -> Stage {
        self.data = Data::From(Buffers::zeroes(Sectors(self.len / SECTOR_BYTES)));
        Stage::Transfer
    }

    /// Begins a discard of the aligned blocks within the range. The rest keeps its content, as
    /// discarding allows.
    fn begin_discard(&mut self, file: &DriveFile) -> Stage {
        let unit = u64::from(file.logical_block());
        let start = self.offset.next_multiple_of(unit);
        let end = (self.offset + self.len) / unit * unit;
        if start >= end {
            return Stage::End(Status::Done);
        }
        (self.offset, self.len) = (start, end - start);
        Stage::Range
    }

    /// Returns the next call, or `None` when the operation has ended.
    pub(super) fn step(&mut self, file: &DriveFile) -> Option<Step<'_>> {
        let (offset, len) = (self.offset + self.done, self.len - self.done);
        Some(match self.stage {
            Stage::End(_) => return None,
            Stage::Sync => Step::Sync,
            Stage::Range if self.command.kind == OpKind::WriteZeroes => {
                let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                Step::Allocate { mode: mode.bits(), offset, len }
            }
            Stage::Range if file.is_block_device() => Step::DiscardDevice { offset, len },
            Stage::Range => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Step::Allocate { mode: mode.bits(), offset, len }
            }
            Stage::Transfer => match &mut self.data {
                Data::Nothing => unreachable!("a transfer has data"),
                Data::Into(filling, _) => {
                    let end = self.done + len.min(CALL_BYTES_MAX);
                    let arena = filling.arena();
                    Step::Read { offset, bytes: &mut filling.bytes_mut()[self.done as usize..end as usize], arena }
                }
                Data::From(buffers) => {
                    Step::Write { offset, parts: parts_left(buffers, self.done), fua: self.command.fua }
                }
            },
        })
    }

    /// Takes the result of the last system call of the job.
    pub(super) fn note(&mut self, result: Result<u64, Errno>, file: &DriveFile) {
        self.stage = match (result, self.stage) {
            (_, Stage::End(_)) => unreachable!("an operation that has ended makes no call"),
            (Err(Errno::INTR | Errno::AGAIN), stage) if self.retries < RETRIES_MAX => {
                self.retries += 1;
                stage
            }
            (Ok(_), Stage::Sync) => Stage::End(Status::Done),
            (Ok(_), Stage::Range) => self.end_of_transfer(),
            (Ok(count), Stage::Transfer) => self.transferred(count, file),
            (Err(error), Stage::Range) if is_unsupported(error) => self.range_unsupported(file),
            (Err(error), stage) if room::is_no_room(error) && stage != Stage::Sync => {
                self.no_room = Some(error);
                self.without_room += 1;
                stage
            }
            (Err(error), _) => {
                file.note_failure(self.command, error);
                Stage::End(status_of(error, file))
            }
        };
    }

    /// Takes the error of the last call, if it found no room, with the number of such calls. After
    /// such an error the next call is made later.
    pub(super) fn take_no_room(&mut self) -> Option<(Errno, u32)> {
        Some((self.no_room.take()?, self.without_room))
    }

    /// Returns true if the operation may need room in the file system.
    pub(super) fn needs_room(&self) -> bool {
        matches!(self.command.kind, OpKind::Write | OpKind::WriteZeroes)
    }

    fn transferred(&mut self, count: u64, file: &DriveFile) -> Stage {
        self.done += count;
        if self.done >= self.len {
            return self.end_of_transfer();
        }
        // Requests the rest again, from the last position that direct I/O accepts. A call that did
        // not get beyond that position would not get further the next time.
        let rest = self.done - self.done % u64::from(file.logical_block());
        if rest + count <= self.done || count == 0 {
            let before = if let Data::Into(_, before) = self.data { before } else { 0 };
            return Stage::End(Status::Short((self.done.saturating_sub(before) / SECTOR_BYTES) as u32));
        }
        self.done = rest;
        Stage::Transfer
    }

    fn end_of_transfer(&self) -> Stage {
        let unstable = self.command.fua && self.command.kind != OpKind::Write;
        if unstable { Stage::Sync } else { Stage::End(Status::Done) }
    }

    fn range_unsupported(&mut self, file: &DriveFile) -> Stage {
        if self.command.kind == OpKind::Discard {
            return Stage::End(Status::Unsupported);
        }
        file.cannot_zero_ranges();
        self.begin_zeroes()
    }

    /// Returns the completion, once there is no further step.
    pub(super) fn end(self) -> Completion<Buffers> {
        let Stage::End(status) = self.stage else { unreachable!("the operation is under way") };
        let payload = match self.data {
            Data::Into(filling, before) if status == Status::Done => {
                let SectorRange { len, .. } = self.command.range;
                Buffers::from(filling.share().part(before as usize, len.bytes().0 as usize))
            }
            _ => Buffers::empty(),
        };
        Completion { token: self.token, status, payload }
    }
}

fn parts_left(buffers: &Buffers, done: u64) -> PartsLeft<'_> {
    let mut parts = buffers.parts();
    let mut skip = done as usize;
    while let Some((first, rest)) = parts.split_first()
        && skip >= first.bytes().len()
    {
        skip -= first.bytes().len();
        parts = rest;
    }
    PartsLeft { parts, skip, bytes_left: CALL_BYTES_MAX, parts_left: PARTS_MAX }
}

/// Returns true if the drive does not support the call on a range.
fn is_unsupported(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOTTY, Errno::INVAL].contains(&error)
}

/// Returns the status for an error. An unexpected error is an error of the medium, so only the
/// request fails and not the drive.
fn status_of(error: Errno, file: &DriveFile) -> Status {
    match error {
        Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM | Errno::SHUTDOWN => Status::Gone,
        _ if file.is_gone() => Status::Gone,
        Errno::OPNOTSUPP | Errno::NOSYS => Status::Unsupported,
        _ => Status::MediaError,
    }
}
