//! Both kinds of drive over a file: written data is read again, ranges are zeroed, errors are
//! statuses.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{SECTOR_BYTES, SectorRange, Sectors};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::file::DriveFile;
use super::{Drive, Engine, attach};
use crate::buffer::Buffers;

pub(super) const FILE_SECTORS: u64 = 4096;

/// File that is removed at the end of the test.
pub(super) struct Temporary(pub(super) PathBuf);

impl Temporary {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bimetal-drive-{}-{number}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        file.set_len(FILE_SECTORS * SECTOR_BYTES).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) fn operation(kind: OpKind, start: u64, payload: Buffers, len: u64, fua: bool) -> Operation<Buffers> {
    let command = Command { kind, range: SectorRange::new(start, len), fua };
    Operation { token: Token(start), target: 0, command, payload }
}

/// Runs operations, all at once, and returns their completions in order of token.
pub(super) fn run(drive: &mut dyn Drive, operations: Vec<Operation<Buffers>>) -> Vec<Completion<Buffers>> {
    let count = operations.len();
    operations.into_iter().for_each(|operation| drive.submit(operation));
    let mut ended = Vec::new();
    while ended.len() < count {
        drive.start();
        drive.collect(&mut ended);
        if ended.len() < count {
            let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
            let ready = poll(&mut [PollFd::from_borrowed_fd(drive.event(), PollFlags::IN)], Some(&limit));
            assert_ne!(ready, Ok(0), "{} of {count} operations never ended", count - ended.len());
        }
    }
    assert_eq!(drive.under_way(), 0);
    ended.sort_by_key(|completion| completion.token);
    ended
}

pub(super) fn pattern(seed: u64, sectors: u64) -> Buffers {
    let bytes: Vec<u8> = (0..sectors * SECTOR_BYTES).map(|at| (at / 512 + at * 7 + seed * 31) as u8).collect();
    Buffers::from_metadata(&bytes)
}

/// Runs a check on both kinds of drive, each over its own file; the ring is skipped if the kernel
/// has none.
fn on_both(check: impl Fn(&mut dyn Drive, &Temporary)) {
    for engine in [Engine::Uring, Engine::Pool] {
        let temporary = Temporary::new();
        let file = DriveFile::open(&temporary.0).unwrap();
        assert_eq!(file.capacity(), Sectors(FILE_SECTORS));
        match attach(file, engine) {
            Ok(mut drive) => check(drive.as_mut(), &temporary),
            Err(error) => println!("skipped: no io_uring ({error})"),
        }
    }
}

#[test]
fn what_is_written_is_read_again_also_in_many_parts() {
    on_both(|drive, temporary| {
        let scattered = (0..1500).fold(Buffers::empty(), |mut all, seed| {
            all.join(pattern(seed, 1));
            all
        });
        let unit = u64::from(drive.logical_block()) / SECTOR_BYTES;
        let len = 1500 / unit * unit;
        let written = scattered.slice(Sectors(0), Sectors(len));
        let ends = run(drive, vec![operation(OpKind::Write, unit * 3, written.clone(), len, true)]);
        assert_eq!(ends[0].status, Status::Done);
        let ends = run(drive, vec![operation(OpKind::Read, unit * 3, Buffers::empty(), len, false)]);
        assert_eq!(ends[0].status, Status::Done);
        assert!(ends[0].payload == written);
        let bytes = fs::read(&temporary.0).unwrap();
        let mut expected = vec![0; written.bytes() as usize];
        written.copy_to(&mut expected);
        assert!(bytes[(unit * 3 * SECTOR_BYTES) as usize..].starts_with(&expected));
    });
}

#[test]
fn more_operations_than_fit_at_once_all_end() {
    on_both(|drive, _| {
        let writes = (0..400).map(|at| operation(OpKind::Write, at * 8, pattern(at, 8), 8, false)).collect();
        assert!(run(drive, writes).iter().all(|end| end.status == Status::Done));
        let flush = Operation { command: Command::FLUSH, ..operation(OpKind::Flush, 0, Buffers::empty(), 0, false) };
        assert_eq!(run(drive, vec![flush])[0].status, Status::Done);
        let reads = (0..400).map(|at| operation(OpKind::Read, at * 8, Buffers::empty(), 8, false)).collect();
        for (at, end) in run(drive, reads).into_iter().enumerate() {
            assert!(end.payload == pattern(at as u64, 8), "block {at}");
        }
    });
}

#[test]
fn ranges_are_zeroed_and_discarded() {
    on_both(|drive, temporary| {
        run(drive, vec![operation(OpKind::Write, 0, pattern(1, 64), 64, false)]);
        let zero = operation(OpKind::WriteZeroes, 8, Buffers::empty(), 16, true);
        let discard = operation(OpKind::Discard, 32, Buffers::empty(), 8, false);
        for end in run(drive, vec![zero, discard]) {
            assert!(matches!(end.status, Status::Done | Status::Unsupported), "{:?}", end.status);
        }
        let bytes = fs::read(&temporary.0).unwrap();
        assert!(bytes[8 * 512..24 * 512].iter().all(|&byte| byte == 0));
        let mut before = vec![0; 64 * 512];
        pattern(1, 64).copy_to(&mut before);
        assert_eq!(bytes[..8 * 512], before[..8 * 512]);
        assert_eq!(bytes[24 * 512..32 * 512], before[24 * 512..32 * 512]);
        assert_eq!(bytes[40 * 512..64 * 512], before[40 * 512..]);
    });
}

#[test]
fn what_a_drive_cannot_do_is_a_status() {
    on_both(|drive, temporary| {
        let ends = run(
            drive,
            vec![
                operation(OpKind::Hint, 0, Buffers::empty(), 8, false),
                operation(OpKind::Read, FILE_SECTORS - 1, Buffers::empty(), 2, false),
                operation(OpKind::Read, u64::MAX, Buffers::empty(), 2, false),
            ],
        );
        let statuses: Vec<_> = ends.iter().map(|end| end.status).collect();
        assert_eq!(statuses, [Status::Unsupported, Status::OutOfRange, Status::OutOfRange]);
        // The file shrinks while it is open: the remaining part is read, and no data is invented.
        let file = fs::OpenOptions::new().write(true).open(&temporary.0).unwrap();
        file.set_len(8192).unwrap();
        let ends = run(drive, vec![operation(OpKind::Read, 8, Buffers::empty(), 16, false)]);
        assert_eq!(ends[0].status, Status::Short(8));
        assert_eq!(ends[0].payload.sectors(), Sectors::ZERO);
    });
}

/// A drive with larger logical blocks reports their size and refuses smaller writes. Smaller reads
/// work.
#[test]
fn drive_with_larger_sectors_refuses_smaller_writes() {
    on_both(|drive, temporary| {
        if drive.logical_block() == SECTOR_BYTES as u32 {
            return;
        }
        let file = fs::OpenOptions::new().write(true).open(&temporary.0).unwrap();
        file.write_all_at(&[5; 8192], 0).unwrap();
        let ends = run(drive, vec![operation(OpKind::Write, 1, pattern(1, 1), 1, false)]);
        assert_eq!(ends[0].status, Status::Unsupported);
        let ends = run(drive, vec![operation(OpKind::Read, 7, Buffers::empty(), 2, false)]);
        assert!(ends[0].payload == Buffers::from_metadata(&[5; 1024]));
    });
}

#[test]
fn what_is_no_drive_is_refused() {
    let error = DriveFile::open(std::path::Path::new("/dev/null")).unwrap_err().to_string();
    assert!(error.contains("'/dev/null' is neither a file nor a block device"), "{error}");
    let error = DriveFile::open(std::path::Path::new("/nonexistent/drive")).unwrap_err().to_string();
    assert!(error.contains("cannot open drive '/nonexistent/drive'"), "{error}");
}
