//! Moves on a real ext4 and a real XFS, mounted from a file by a loop device. Skipped on a machine
//! on which nothing can be mounted.

#[path = "../../bimetal/tests/support/mod.rs"]
mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bimetal_mover::file_system::{FOLDER, FileSystem};
use bimetal_mover::journal::Journal;
use bimetal_mover::kernel::{Extent, extents};
use bimetal_mover::mover::{Mover, Report, Request, Settings};
use bimetal_mover::pace::{Ended, Pace};
use bimetal_mover::runs::{Run, Runs, total};
use bimetal_mover::{BLOCK_BYTES, MoverError, Side};
use bimetal_trace::file_system::born;
use rustix::fs::{FallocateFlags, fallocate};
use support::LoopDevice;

/// First block of the HDD: the SSD has 96 MiB, less than a group of ext4.
const BOUNDARY: u64 = (96 << 20) / BLOCK_BYTES;
const WHOLE: std::ops::Range<u64> = 0..1 << 32;

/// A file system of 1 GiB, mounted until drop.
struct Mounted {
    kind: &'static str,
    folder: PathBuf,
    device: Option<LoopDevice>,
    stop: AtomicBool,
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Copies a program that the test then starts. Another process writes the copy: a file that this
/// process opens for writing is open, too, in each child that another test has just forked, and
/// until that child has begun its own program, no program can be started from the file.
fn copy_program(from: &str, to: &Path) {
    assert!(succeeds("cp", &[from, &to.to_string_lossy()]), "{from} is copied to {}", to.display());
}

impl Mounted {
    /// Returns a mounted ext4; `None`, with a message, where that is not possible.
    fn new(name: &str, options: &[&str]) -> Option<Self> {
        Self::of("ext4", &[&["-q", "-F", "-b", "4096"], options].concat(), name)
    }

    /// Returns a mounted XFS; `None`, with a message, where that is not possible.
    fn xfs(name: &str) -> Option<Self> {
        if !succeeds("mkfs.xfs", &["-V"]) {
            println!("skipped: no mkfs.xfs here (package xfsprogs)");
            return None;
        }
        Self::of("xfs", &["-q", "-f"], name)
    }

    fn of(kind: &'static str, options: &[&str], name: &str) -> Option<Self> {
        let memory = Path::new("/dev/shm");
        let below = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = below.join(format!("bimetal-mover-{kind}-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("mount")).ok()?;
        let image = folder.join("image");
        let made = File::create(&image).and_then(|file| file.set_len(1 << 30)).is_ok();
        let image = image.to_string_lossy().into_owned();
        let made = made && succeeds(&format!("mkfs.{kind}"), &[options, &[&image]].concat());
        let device = made.then(|| LoopDevice::over(Path::new(&image), &[])).flatten();
        let mount = folder.join("mount").to_string_lossy().into_owned();
        let is_mounted = device.as_ref().is_some_and(|device| succeeds("mount", &[&device.0, &mount]));
        let mounted = Self { kind, folder, device, stop: AtomicBool::new(false) };
        if !is_mounted {
            println!("skipped: no {kind} can be mounted here");
            assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none());
            return None;
        }
        Some(mounted)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join("mount").join(name)
    }

    /// Writes a file whose bytes depend on its name.
    fn write(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content(name, bytes)).expect("there is room for a file");
        File::open(&path).and_then(|file| file.sync_all()).expect("it can be synced");
        path
    }

    fn sync(&self) {
        let root = File::open(self.path("")).expect("it is mounted");
        rustix::fs::syncfs(root).expect("it can be synced");
    }

    fn file_system(&self) -> FileSystem {
        FileSystem::of(&[self.path("")]).expect("it is mounted")
    }

    /// Returns the names in the folder of the state, in order.
    fn state(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path(FOLDER)).expect("the folder is there");
        let names = entries.map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn settings(&self) -> Settings<'_> {
        let pace = Pace::new(None, None, Path::new("/nowhere"), &self.stop);
        Settings { boundary: BOUNDARY, verify: true, pace }
    }

    fn run(&self, requests: &[Request]) -> Report {
        self.run_with(BOUNDARY, requests)
    }

    fn run_with(&self, boundary: u64, requests: &[Request]) -> Report {
        let file_system = self.file_system();
        let settings = Settings { boundary, ..self.settings() };
        let mover = Mover::open(&file_system, settings).expect("files can be moved here");
        mover.run(requests, &|_| {}).expect("the run ends well")
    }

    fn check_file_system(mut self) {
        // A program that another test starts has this test's files open for a moment.
        let path = self.path("").to_string_lossy().into_owned();
        let unmounted = (0..100).any(|_| {
            let ended = succeeds("umount", &[&path]);
            if !ended {
                std::thread::sleep(Duration::from_millis(50));
            }
            ended
        });
        assert!(unmounted, "{path} stays busy");
        let device = self.device.take().expect("it was mounted");
        let (checker, options) = if self.kind == "xfs" { ("xfs_repair", "-n") } else { ("e2fsck", "-fn") };
        let checked = Command::new(checker).args([options, &device.0]).output().expect("the checker runs");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }

    /// Moves a part of a new file of 128 MiB to the SSD, as large as the free room on the SSD.
    fn fill_ssd(&self) {
        let path = self.path("fill");
        let file = File::create(&path).expect("there is room");
        fallocate(&file, FallocateFlags::empty(), 0, 128 << 20).expect("there is room");
        let free = self.file_system().free().expect("ext4 reports free space");
        let room: Vec<Run> = free.iter().filter_map(|run| run.on(Side::Ssd, BOUNDARY)).collect();
        let (mut left, mut only) = (total(&room), Vec::new());
        for part in extents_of(&path) {
            let Some(outside) = part.physical.on(Side::Hdd, BOUNDARY).and_then(|run| part.part(run)) else { continue };
            let len = outside.physical.len.min(left);
            only.push(Run::new(outside.logical, len));
            left -= len;
        }
        self.run(&[Request { only: Some(only), ..to(Side::Ssd, &path) }]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path("")).output();
        drop(self.device.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn content(name: &str, bytes: usize) -> Vec<u8> {
    let mut state = name.bytes().fold(7u64, |state, byte| state.wrapping_mul(31).wrapping_add(byte.into()));
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn has_content(path: &Path, name: &str, bytes: usize) -> bool {
    fs::read(path).expect("it is there") == content(name, bytes)
}

fn to(side: Side, path: &Path) -> Request {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    let (inode, born) = (metadata.ino(), born(&metadata));
    Request { path: path.to_owned(), inode, born, to: side, only: None, aims: Vec::new() }
}

fn all_to<'a>(side: Side, paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<Request> {
    paths.into_iter().map(|path| to(side, path)).collect()
}

fn extents_of(path: &Path) -> Vec<Extent> {
    extents(&File::open(path).expect("it is there"), WHOLE).expect("both report extents")
}

/// Returns the number of blocks on the SSD and on the HDD.
fn blocks_of(path: &Path) -> [u64; 2] {
    let count = |side| extents_of(path).iter().filter_map(|at| at.physical.on(side, BOUNDARY)).map(|run| run.len).sum();
    [count(Side::Ssd), count(Side::Hdd)]
}

/// Returns the place of the other drive in the result of [`blocks_of`].
fn wrong(side: Side) -> usize {
    usize::from(side == Side::Ssd)
}

/// Inode number, length and time of the last write of a file.
type About = (u64, u64, i64, i64);

/// Files of all sizes that move together, with their state before the first move.
struct Files<'a> {
    mounted: &'a Mounted,
    paths: Vec<PathBuf>,
    sizes: [usize; 6],
    before: Vec<About>,
}

impl<'a> Files<'a> {
    fn of(mounted: &'a Mounted, largest: usize) -> Self {
        let sizes = [1, 4096, 5000, 70_000, 900_000, largest];
        let paths: Vec<PathBuf> = (0..).zip(sizes).map(|(at, size)| mounted.write(&Self::name(at), size)).collect();
        let before = paths.iter().map(Self::about).collect();
        Self { mounted, paths, sizes, before }
    }

    fn name(at: usize) -> String {
        format!("f{at}")
    }

    fn about(path: &PathBuf) -> About {
        let metadata = fs::metadata(path).expect("it is there");
        (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
    }

    /// Moves all files, and asserts that they lie on the drive with their content.
    fn move_to(&self, side: Side) {
        let report = self.mounted.run(&all_to(side, &self.paths));
        assert_eq!(report.skipped, []);
        for (at, (path, size)) in self.paths.iter().zip(self.sizes).enumerate() {
            let name = Self::name(at);
            assert_eq!(blocks_of(path)[wrong(side)], 0, "{name} has blocks on the wrong drive");
            assert!(has_content(path, &name, size), "{name}");
        }
    }

    /// Asserts that the files have the inodes, lengths and times that they had before.
    fn assert_same(&self) {
        assert_eq!(self.paths.iter().map(Self::about).collect::<Vec<_>>(), self.before);
    }

    /// Returns the number of blocks on the SSD and on the HDD, for each file.
    fn blocks(&self) -> Vec<[u64; 2]> {
        self.paths.iter().map(|path| blocks_of(path)).collect()
    }
}

#[test]
fn files_move_and_keep_content_times_and_inode() {
    let Some(mounted) = Mounted::new("keep", &[]) else { return };
    let files = Files::of(&mounted, 30 << 20);
    for side in [Side::Hdd, Side::Ssd, Side::Hdd, Side::Ssd] {
        files.move_to(side);
    }
    files.assert_same();
    mounted.check_file_system();
}

#[test]
fn run_leaves_no_donor_and_restores_the_allocator() {
    let Some(mounted) = Mounted::new("traces", &[]) else { return };
    let path = mounted.write("file", 8 << 20);
    let device = mounted.device.as_ref().expect("it is mounted").0.replace("/dev/", "");
    let setting = PathBuf::from(format!("/sys/fs/ext4/{device}/mb_stream_req"));
    let before = fs::read_to_string(&setting).expect("ext4 has the setting");
    mounted.run(&[to(Side::Ssd, &path)]);
    let report = mounted.run(&[to(Side::Hdd, &path)]);
    assert_eq!((blocks_of(&path), report.bytes(), report.verified), ([0, 2048], 8 << 20, 1));
    assert_eq!(fs::read_to_string(&setting).expect("ext4 has the setting"), before);
    assert_eq!(mounted.state(), ["lock", "moves"]);
    mounted.check_file_system();
}

#[test]
fn undo_brings_files_back_and_keeps_only_the_journal() {
    let Some(mounted) = Mounted::new("undo", &[]) else { return };
    let names: Vec<String> = (0..50).map(|number| format!("f{number}")).collect();
    let files: Vec<PathBuf> = names.iter().map(|name| mounted.write(name, 60_000)).collect();
    let places = |files: &[PathBuf]| files.iter().map(|path| blocks_of(path)).collect::<Vec<_>>();
    let before = places(&files);
    mounted.run(&all_to(Side::Hdd, &files));
    mounted.run(&all_to(Side::Ssd, &files));
    mounted.run(&all_to(Side::Hdd, &files[..25]));
    fs::remove_file(&files[0]).expect("a file may go before its move is undone");
    let file_system = mounted.file_system();
    let mover = Mover::open(&file_system, mounted.settings()).expect("files can be moved here");
    let report = mover.undo(&|_| {}).expect("the run ends well");
    assert_eq!(places(&files[1..]), before[1..]);
    assert_eq!((report.skipped.as_slice(), report.removed), (&[][..], 1), "a file that is gone has not failed");
    assert_eq!(mounted.state(), ["lock", "moves"]);
    for (path, name) in files.iter().zip(&names).skip(1) {
        assert!(has_content(path, name, 60_000), "{name}");
    }
    mounted.check_file_system();
}

/// Regression: a renamed file counted as removed, so its move could never be undone, and so did
/// each file of a file system that was mounted at another place.
#[test]
fn undo_finds_a_file_below_its_new_name() {
    let Some(mounted) = Mounted::new("renamed", &[]) else { return };
    let file = mounted.write("file", 60_000);
    let before = blocks_of(&file);
    let side = if before[0] > 0 { Side::Hdd } else { Side::Ssd };
    mounted.run(&[to(side, &file)]);
    assert_ne!(blocks_of(&file), before);
    fs::create_dir(mounted.path("folder")).expect("there is room");
    let renamed = mounted.path("folder/other");
    fs::rename(&file, &renamed).expect("it is there");
    mounted.write("file", 9000);
    let file_system = mounted.file_system();
    let mover = Mover::open(&file_system, mounted.settings()).expect("files can be moved here");
    let report = mover.undo(&|_| {}).expect("the run ends well");
    assert!(report.skipped.is_empty(), "{:?}", report.skipped);
    assert_eq!(blocks_of(&renamed), before);
    assert!(has_content(&renamed, "file", 60_000));
    mounted.check_file_system();
}

/// Regression: a file stayed open for writing from its preparation to the end of its batch, and no
/// program can be started whose file is open for writing.
#[test]
fn program_can_be_started_while_its_batch_is_moved() {
    let Some(mounted) = Mounted::new("program", &[]) else { return };
    let program = mounted.path("true");
    copy_program("/bin/true", &program);
    let other = mounted.write("other", 8 << 20);
    mounted.sync();
    mounted.run(&all_to(Side::Hdd, &[program.clone(), other.clone()]));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start = || {
            let (mut started, mut busy) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                let is_started = Command::new(&program).status().is_ok();
                (started, busy) = (started + u32::from(is_started), busy + u32::from(!is_started));
            }
            (started, busy)
        };
        let starter = scope.spawn(start);
        let pace = Pace::new(Some(4 << 20), None, Path::new("/nowhere"), &mounted.stop);
        let file_system = mounted.file_system();
        let mover = Mover::open(&file_system, Settings { boundary: BOUNDARY, verify: false, pace });
        mover
            .expect("files can be moved here")
            .run(&all_to(Side::Ssd, &[program.clone(), other]), &|_| {})
            .expect("it runs");
        stop.store(true, Ordering::Relaxed);
        let (started, busy) = starter.join().expect("it starts programs");
        assert!(busy * 20 <= started, "{busy} starts failed in some two seconds, {started} did not");
    });
}

#[test]
fn file_fills_the_gaps_where_no_run_fits() {
    let Some(mounted) = Mounted::new("gaps", &[]) else { return };
    let big = mounted.write("big", 8 << 20);
    mounted.run(&[to(Side::Hdd, &big)]);
    // Small files and one large file fill the SSD, and every other small file is removed.
    let small: Vec<PathBuf> = (0..2000).map(|number| mounted.path(&format!("s{number}"))).collect();
    small.iter().for_each(|path| fs::write(path, content("small", 16_384)).expect("there is room"));
    mounted.sync();
    mounted.run(&all_to(Side::Ssd, &small));
    mounted.fill_ssd();
    small.iter().step_by(2).for_each(|path| fs::remove_file(path).expect("it is there"));
    mounted.sync();
    let report = mounted.run(&[to(Side::Ssd, &big)]);
    assert_eq!((report.skipped.as_slice(), blocks_of(&big)), (&[][..], [2048, 0]));
    let count = extents_of(&big).len();
    assert!(count > 100 && report.split == 1, "gaps of 16 KiB make many extents, not {count}");
    assert!(has_content(&big, "big", 8 << 20));
    mounted.check_file_system();
}

/// Regression: the first group of each flex group gives no blocks to a request of a power of two,
/// and a file of 1 MiB has 256 blocks. So 46 of 109 files moved that fit on the SSD, and one more
/// in each further run.
#[test]
fn files_fill_the_first_group_of_a_flex_group() {
    let Some(mounted) = Mounted::new("group", &[]) else { return };
    fs::create_dir(mounted.path("d")).expect("there is room");
    let names: Vec<String> = (0..130).map(|at| format!("d/{at}.so")).collect();
    let files: Vec<PathBuf> = names.iter().map(|name| mounted.write(name, 1 << 20)).collect();
    let boundary = (150 << 20) / BLOCK_BYTES;
    let is_on_ssd = |path: &&PathBuf| extents_of(path).iter().all(|at| at.physical.end() <= boundary);
    let free = mounted.file_system().free().expect("ext4 reports free space");
    let mut free: Runs = free.iter().filter_map(|run| run.on(Side::Ssd, boundary)).collect();
    let outside = files.iter().filter(|path| !is_on_ssd(path));
    let requests: Vec<Request> = outside
        .map(|path| Request { aims: free.take(256).expect("the SSD has room"), ..to(Side::Ssd, path) })
        .collect();
    assert!(requests.len() > 100);
    mounted.run_with(boundary, &requests);
    assert_eq!(files.iter().filter(is_on_ssd).count(), 130);
    for (file, name) in files.iter().zip(&names) {
        assert!(has_content(file, name, 1 << 20), "{name}");
    }
    mounted.check_file_system();
}

/// A file that does not fit is left where it is, with its reason, and the next file moves.
#[test]
fn file_without_room_stays_and_the_next_file_moves() {
    let Some(mounted) = Mounted::new("room", &[]) else { return };
    let (big, small) = (mounted.write("big", 60 << 20), mounted.write("small", 9000));
    mounted.run(&[to(Side::Hdd, &big), to(Side::Hdd, &small)]);
    assert_eq!([blocks_of(&big)[0], blocks_of(&small)[0]], [0, 0]);
    let other = mounted.write("other", 70 << 20);
    mounted.run(&[to(Side::Ssd, &other)]);
    assert_eq!(blocks_of(&other)[1], 0);
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos();
    let report = mounted.run(&[to(Side::Ssd, &big), to(Side::Ssd, &small)]);
    let reasons: Vec<&str> = report.skipped.iter().map(|(_, reason)| reason.as_str()).collect();
    assert_eq!(reasons, ["the file system gave no free place on the SSD"]);
    assert_eq!((blocks_of(&big)[0], blocks_of(&small)), (0, [3, 0]));
    let history = Journal::history_in(&mounted.path(FOLDER)).expect("the journal is there");
    let noted: Vec<&Path> = history.places_at(begun).iter().map(|note| note.path.as_path()).collect();
    assert_eq!(noted, [&small], "a file without a place is not noted");
    assert!(has_content(&big, "big", 60 << 20));
    mounted.check_file_system();
}

#[test]
fn sparse_and_linked_files_move_and_others_have_a_reason() {
    let Some(mounted) = Mounted::new("kinds", &["-O", "inline_data"]) else { return };
    let sparse = mounted.path("sparse");
    let places = [0, 1 << 20, 1 << 30, 1 << 40];
    let file = File::create(&sparse).expect("there is room");
    for at in places {
        file.write_all_at(&content("sparse", 10_000), at).expect("there is room");
    }
    fallocate(&file, FallocateFlags::KEEP_SIZE, 2 << 30, 1 << 20).expect("there is room");
    drop(file);
    let (plain, linked) = (mounted.write("plain", 50_000), mounted.path("linked"));
    fs::hard_link(&plain, &linked).expect("ext4 has hard links");
    let (fixed, tiny, other) = (mounted.write("fixed", 50_000), mounted.write("tiny", 40), mounted.write("other", 9));
    assert!(succeeds("chattr", &["+i", &fixed.to_string_lossy()]));
    let program = mounted.path("program");
    copy_program("/bin/sleep", &program);
    let mut running = Command::new(&program).arg("60").spawn().expect("it runs");
    for side in [Side::Hdd, Side::Ssd] {
        let mut requests = all_to(side, [&sparse, &plain, &linked, &fixed, &tiny]);
        // The name of another file now.
        requests.push(Request { path: other.clone(), ..to(side, &plain) });
        requests.push(to(side, &program));
        let report = mounted.run(&requests);
        assert_eq!([&sparse, &plain].map(|path| blocks_of(path)[wrong(side)]), [0, 0]);
        let mut reasons: Vec<&str> = report.skipped.iter().map(|(_, reason)| reason.as_str()).collect();
        reasons.sort_unstable();
        let expected = [
            "a program that is running",
            "another file has its name now",
            "content in the inode",
            "immutable (chattr +i)",
        ];
        assert_eq!(reasons, expected);
    }
    running.kill().and_then(|()| running.wait()).expect("it ends");
    assert!(succeeds("chattr", &["-i", &fixed.to_string_lossy()]));
    let mut shown = vec![0; 10_000];
    let file = File::open(&sparse).expect("it is there");
    for at in places {
        file.read_exact_at(&mut shown, at).expect("it has content");
        assert!(shown == content("sparse", 10_000));
    }
    drop(file);
    assert!(fs::metadata(&sparse).expect("it is there").blocks() < 3000, "holes stay holes");
    mounted.check_file_system();
}

/// A writer appends and overwrites while its file moves back and forth.
#[test]
fn open_file_that_grows_moves_safely() {
    let Some(mounted) = Mounted::new("growing", &[]) else { return };
    let path = mounted.write("log", 1 << 20);
    let stop = AtomicBool::new(false);
    let mut expected = content("log", 1 << 20);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut file = OpenOptions::new().append(true).open(&path).expect("it is there");
            let over = OpenOptions::new().write(true).open(&path).expect("it is there");
            let numbers = (0u32..).take_while(|_| !stop.load(Ordering::Relaxed));
            for number in numbers {
                let text = number.to_le_bytes().repeat(700);
                file.write_all(&text).expect("there is room");
                expected.extend(&text);
                let at = (number as usize * 7919) % (expected.len() - 4000);
                over.write_all_at(&text, at as u64).expect("it has these bytes");
                expected[at..at + text.len()].copy_from_slice(&text);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for side in [Side::Hdd, Side::Ssd].repeat(5) {
            mounted.run(&[to(side, &path)]);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the writer ends well");
    });
    assert!(fs::read(&path).expect("it is there") == expected);
    mounted.check_file_system();
}

#[test]
fn signal_ends_a_run_between_files() {
    let Some(mounted) = Mounted::new("signal", &[]) else { return };
    let path = mounted.write("file", 1 << 20);
    let before = blocks_of(&path);
    mounted.stop.store(true, Ordering::Relaxed);
    let report = mounted.run(&[to(Side::Hdd, &path)]);
    assert_eq!((report.ended, blocks_of(&path)), (Some(Ended::Stopped), before));
}

#[test]
fn second_run_at_the_same_time_is_refused() {
    let Some(mounted) = Mounted::new("lock", &[]) else { return };
    let file_system = mounted.file_system();
    let first = Mover::open(&file_system, mounted.settings()).expect("files can be moved here");
    assert!(matches!(Mover::open(&file_system, mounted.settings()), Err(MoverError::Busy { .. })));
    drop(first);
    assert!(Mover::open(&file_system, mounted.settings()).is_ok());
}

#[test]
fn other_file_systems_are_refused_with_their_kind() {
    let refused = FileSystem::of(&["/proc".into()]).and_then(|file_system| file_system.check());
    let message = refused.expect_err("nothing moves there").to_string();
    assert_eq!(message, "/proc: its file system is proc: expected ext4 or xfs, whose files move while mounted");
    let message = FileSystem::of(&["/proc".into(), "/sys".into()]).expect_err("two file systems").to_string();
    assert!(message.starts_with("/sys lies on another file system than /proc"), "{message}");
    let Some(small) = Mounted::new("small-blocks", &["-b", "1024"]) else { return };
    let message = small.file_system().check().expect_err("pages have four blocks").to_string();
    assert!(message.contains("blocks of 1024 bytes: expected 4096"), "{message}");
}

/// A file does not move on XFS within two seconds of its last write.
fn wait_until_quiet() {
    std::thread::sleep(Duration::from_millis(2100));
}

#[test]
fn xfs_files_move_and_undo_brings_them_back() {
    let Some(mounted) = Mounted::xfs("keep") else { return };
    let files = Files::of(&mounted, 12 << 20);
    let first = files.blocks();
    for side in [Side::Hdd, Side::Ssd, Side::Hdd] {
        wait_until_quiet();
        files.move_to(side);
    }
    files.assert_same();
    wait_until_quiet();
    let file_system = mounted.file_system();
    let mover = Mover::open(&file_system, mounted.settings()).expect("files can be moved here");
    let report = mover.undo(&|_| {}).expect("the run ends well");
    assert_eq!(report.skipped, []);
    assert_eq!(files.blocks(), first);
    assert_eq!(mounted.state(), ["lock", "moves"]);
    mounted.check_file_system();
}

#[test]
fn xfs_file_that_cannot_swap_stays_with_a_reason() {
    let Some(mounted) = Mounted::xfs("stay") else { return };
    let sparse = mounted.path("sparse");
    let file = File::create(&sparse).expect("there is room");
    file.write_all_at(&[7; 4096], 1 << 20).expect("there is room");
    drop(file);
    let shared = mounted.write("shared", 50_000);
    assert!(succeeds("cp", &["--reflink=always", &shared.to_string_lossy(), &mounted.path("copy").to_string_lossy()]));
    mounted.sync();
    wait_until_quiet();
    let written = mounted.write("written", 50_000);
    let files = [sparse, shared, written];
    for side in [Side::Hdd, Side::Ssd] {
        let report = mounted.run(&all_to(side, &files));
        // A file that lies there already is not looked at.
        for (path, reason) in &report.skipped {
            let expected = if path.ends_with("written") { "written a moment ago" } else { "sparse, or shares blocks" };
            assert!(reason.starts_with(expected), "{}: {reason}", path.display());
        }
        assert_eq!(report.bytes(), 0);
    }
    assert!(has_content(&files[1], "shared", 50_000) && has_content(&files[2], "written", 50_000));
    mounted.check_file_system();
}

/// A writer changes a file again and again, with pauses in which the file may move. No write is
/// lost, whatever the moment of the swap. Regression: a run ended with the alarm that the content
/// differs and nobody wrote: the write had come while the content was read for the second checksum,
/// and the times compared were the times before the reading.
#[test]
fn xfs_file_that_is_written_meanwhile_loses_nothing() {
    let Some(mounted) = Mounted::xfs("writer") else { return };
    const BLOCKS: usize = 2048;
    let path = mounted.write("written", BLOCKS * 4096);
    let done = AtomicBool::new(false);
    let (written, moved) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let file = OpenOptions::new().write(true).open(&path).expect("it is there");
            let mut written = vec![0_u64; BLOCKS];
            let mut round = 0_u64;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                let block = round as usize * 7919 % BLOCKS;
                file.write_all_at(&round.to_le_bytes().repeat(512), block as u64 * 4096).expect("there is room");
                written[block] = round;
                // From 1.9 to 2.4 s: some writes come while the copy is made.
                std::thread::sleep(Duration::from_millis(1900 + round * 97 % 500));
            }
            written
        });
        let (mut moved, mut side) = (0, Side::Hdd);
        for _ in 0..25 {
            let report = mounted.run(&[to(side, &path)]);
            if report.bytes() > 0 || report.skipped.is_empty() {
                moved += u64::from(report.bytes() > 0);
                side = if side == Side::Hdd { Side::Ssd } else { Side::Hdd };
            }
            std::thread::sleep(Duration::from_millis(90));
        }
        done.store(true, Ordering::Relaxed);
        (writer.join().expect("the writer ends well"), moved)
    });
    println!("moved {moved} times");
    let expected = content("written", BLOCKS * 4096);
    let now = fs::read(&path).expect("it is there");
    for (block, round) in written.into_iter().enumerate() {
        let range = block * 4096..(block + 1) * 4096;
        let block_content = if round == 0 { expected[range.clone()].to_vec() } else { round.to_le_bytes().repeat(512) };
        assert!(now[range] == block_content, "block {block} of round {round}");
    }
    mounted.check_file_system();
}
