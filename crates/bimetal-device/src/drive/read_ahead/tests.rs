//! Runs of reads over a drive in memory: answers from pieces equal the content of the drive.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

use super::*;

const MIB: u64 = 2048;
const CAPACITY: u64 = 64 * MIB;

/// Drive in memory: an operation ends when it is collected.
#[derive(Default)]
struct Inside {
    /// Content of each sector: the number that fills it.
    sectors: Vec<u8>,
    taken: Vec<Operation<Buffers>>,
    reads: Vec<SectorRange>,
    /// Sector that cannot be read.
    bad: Option<u64>,
    /// Set while no operation ends.
    stopped: bool,
}

impl Inside {
    fn carry_out(&mut self, operation: Operation<Buffers>) -> Completion<Buffers> {
        let Operation { token, command: Command { kind, range, .. }, payload, .. } = operation;
        let at = range.start.0 as usize..range.end().0 as usize;
        let is_bad = self.bad.is_some_and(|bad| at.contains(&(bad as usize)));
        let (mut status, mut content) = (Status::Done, Buffers::empty());
        match kind {
            OpKind::Read if is_bad => status = Status::MediaError,
            OpKind::Read => {
                let bytes: Vec<u8> = self.sectors[at].iter().flat_map(|&number| [number; 512]).collect();
                content = Buffers::from_metadata(&bytes);
            }
            _ => {
                self.sectors[at].iter_mut().zip(payload.to_metadata().chunks(512)).for_each(|(to, from)| *to = from[0])
            }
        }
        Completion { token, status, payload: content }
    }
}

struct Memory(Arc<Mutex<Inside>>, OwnedFd);

impl Drive for Memory {
    fn submit(&mut self, operation: Operation<Buffers>) {
        let mut inside = self.0.lock().unwrap();
        if operation.command.kind == OpKind::Read {
            inside.reads.push(operation.command.range);
        }
        inside.taken.push(operation);
    }

    fn start(&mut self) {}

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        let mut inside = self.0.lock().unwrap();
        if !inside.stopped {
            for operation in std::mem::take(&mut inside.taken) {
                ended.push(inside.carry_out(operation));
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        false
    }

    fn under_way(&self) -> usize {
        self.0.lock().unwrap().taken.len()
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }

    fn logical_block(&self) -> u32 {
        512
    }

    fn describe(&self) -> String {
        "memory".into()
    }
}

struct Bench {
    inside: Arc<Mutex<Inside>>,
    drive: ReadAhead,
    tokens: u64,
}

impl Bench {
    fn new() -> Self {
        let sectors = (0..CAPACITY).map(|sector| (sector / 8 + sector / 2048) as u8).collect();
        let inside = Arc::new(Mutex::new(Inside { sectors, ..Inside::default() }));
        let memory = Memory(Arc::clone(&inside), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        // High bit set: drives that wrap this one may mark tokens of their own.
        Self { inside, drive: ReadAhead::new(Box::new(memory), Sectors(CAPACITY)), tokens: 1 << 63 }
    }

    fn submit(&mut self, kind: OpKind, start: u64, len: u64, payload: Buffers) {
        self.tokens += 1;
        let command = Command { kind, range: SectorRange::new(start, len), fua: false };
        self.drive.submit(Operation { token: Token(self.tokens), target: 0, command, payload });
    }

    fn collect(&mut self) -> Vec<Completion<Buffers>> {
        let mut ended = Vec::new();
        self.drive.collect(&mut ended);
        ended
    }

    /// Reads a range and checks the read content. Returns the number of reads that the drive in
    /// memory received.
    fn read(&mut self, start: u64, len: u64) -> usize {
        let before = self.inside.lock().unwrap().reads.len();
        self.submit(OpKind::Read, start, len, Buffers::empty());
        let ended = self.collect();
        assert_eq!((ended.len(), self.drive.under_way()), (1, 0));
        self.is_right(&ended[0], start, len);
        self.inside.lock().unwrap().reads.len() - before
    }

    fn is_right(&self, ended: &Completion<Buffers>, start: u64, len: u64) {
        assert_eq!((ended.status, ended.payload.sectors()), (Status::Done, Sectors(len)));
        let bytes = ended.payload.to_metadata();
        let inside = self.inside.lock().unwrap();
        for (at, part) in bytes.chunks(512).enumerate() {
            let expected = inside.sectors[start as usize + at];
            assert_eq!((part[0], part[511]), (expected, expected), "sector {at} of {len} from {start} on");
        }
    }
}

fn filled(number: u8, sectors: u64) -> Buffers {
    Buffers::from_metadata(&vec![number; sectors as usize * 512])
}

#[test]
fn who_reads_in_order_is_answered_from_what_was_read_ahead() {
    let mut bench = Bench::new();
    bench.read(0, MIB);
    assert_eq!(bench.read(MIB, MIB), 1 + 4, "itself, and as much ahead as the run has come");
    for at in 2..60 {
        bench.read(at * MIB, MIB);
    }
    let reads = bench.inside.lock().unwrap().reads.clone();
    let large = reads.iter().filter(|range| range.len.0 == MIB).count();
    assert_eq!(large, 2, "the first two");
    let read: u64 = reads.iter().map(|range| range.len.0).sum();
    assert_eq!(read, CAPACITY, "nothing twice");
    assert!(bench.drive.kept <= Sectors(4 * MIB));
}

#[test]
fn who_reads_here_and_there_is_left_alone() {
    let mut bench = Bench::new();
    for at in 0..200 {
        assert_eq!(bench.read((at * 7919 * 8) % (CAPACITY - 8), 8), 1);
    }
    assert!(bench.drive.pieces.is_empty());
}

/// Two runs: the second begins within the range read ahead of the first, and not at the boundary of
/// a piece.
#[test]
fn what_lies_in_overlapping_pieces_of_two_runs_is_read_once() {
    let mut bench = Bench::new();
    bench.read(0, MIB);
    bench.read(MIB, MIB);
    bench.read(6 * MIB + 700, 300);
    bench.read(6 * MIB + 1000, 3000);
    for at in 2..12 {
        bench.read(at * MIB, MIB);
    }
}

proptest! {
    // A case reads hundreds of MiB.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// Runs that cross each other, with writes among them: each read returns the content of memory.
    #[test]
    fn whoever_reads_what_after_which_write_gets_what_is_there(
        steps in proptest::collection::vec((0usize..6, 1u64..3000, 0u8..12), 1..120),
    ) {
        let mut bench = Bench::new();
        let mut next = [0, 3 * MIB + 100, 5 * MIB, 9 * MIB + 1, 700, 20 * MIB];
        for (run, len, kind) in steps {
            let start = next[run] % (CAPACITY - len);
            if kind == 0 {
                bench.submit(OpKind::Write, start, len, filled(len as u8, len));
                prop_assert_eq!(bench.collect().len(), 1);
            } else {
                bench.read(start, len);
            }
            next[run] = if kind == 1 { start * 7 } else { start + len };
        }
    }
}

#[test]
fn what_is_written_into_what_was_read_ahead_is_what_is_read() {
    let mut bench = Bench::new();
    (0..4).for_each(|at| assert!(bench.read(at * MIB, MIB) > 0 || at > 1));
    bench.submit(OpKind::Write, 5 * MIB + 100, 10, filled(200, 10));
    assert_eq!(bench.collect().len(), 1);
    for at in 4..8 {
        bench.read(at * MIB, MIB);
    }
}

#[test]
fn a_change_on_its_way_is_never_overtaken() {
    let mut bench = Bench::new();
    bench.read(0, MIB);
    bench.inside.lock().unwrap().stopped = true;
    // A piece over this write would hold the content from before the write.
    bench.submit(OpKind::Write, 3 * MIB, 8, filled(201, 8));
    bench.submit(OpKind::Read, MIB, MIB, Buffers::empty());
    assert!(bench.drive.pieces.iter().all(|(_, piece)| piece.range.end().0 <= 3 * MIB));
    // A write into a piece that is being read ahead; the write begins and ends before the piece
    // arrives.
    bench.submit(OpKind::Write, 2 * MIB + 8, 8, filled(202, 8));
    assert!(bench.drive.pieces.iter().any(|(_, piece)| !piece.usable));
    bench.inside.lock().unwrap().stopped = false;
    assert_eq!(bench.collect().len(), 3);
    bench.read(2 * MIB, MIB);
    bench.read(3 * MIB, MIB);
}

/// A read waits for read-ahead pieces under way. If the read-ahead of a part fails, the client's
/// read of the part is sent to the drive.
#[test]
fn read_waits_for_pieces_under_way_and_retries_failed_ones() {
    let mut bench = Bench::new();
    bench.read(0, MIB);
    bench.inside.lock().unwrap().stopped = true;
    bench.submit(OpKind::Read, MIB, MIB, Buffers::empty());
    bench.submit(OpKind::Read, 2 * MIB, MIB, Buffers::empty());
    bench.submit(OpKind::Read, 3 * MIB, MIB, Buffers::empty());
    assert!(bench.collect().is_empty());
    {
        let mut inside = bench.inside.lock().unwrap();
        (inside.stopped, inside.bad) = (false, Some(3 * MIB + 5));
    }
    let mut ended = bench.collect();
    ended.extend(bench.collect());
    ended.sort_by_key(|completion| completion.token);
    assert_eq!(ended.len(), 3);
    bench.is_right(&ended[0], MIB, MIB);
    bench.is_right(&ended[1], 2 * MIB, MIB);
    assert_eq!(ended[2].status, Status::MediaError, "as the drive itself says");
    assert_eq!(bench.drive.under_way(), 0);
}

#[test]
fn many_runs_share_what_is_kept() {
    let mut bench = Bench::new();
    for at in 0..3 {
        for run in 0..12 {
            bench.read((run * 5 + at) * MIB, MIB);
        }
    }
    assert!(bench.drive.kept <= KEPT_MAX, "{:?}", bench.drive.kept);
    let pieces: u64 = bench.drive.pieces.iter().map(|(_, piece)| piece.range.len.0).sum();
    assert_eq!(Sectors(pieces), bench.drive.kept);
    // The newest run has room although other runs left pieces behind.
    let before = bench.inside.lock().unwrap().reads.len();
    bench.read(3 * MIB, MIB);
    assert!(bench.inside.lock().unwrap().reads.len() > before);
}
