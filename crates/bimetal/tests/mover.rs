//! `bimetal place --apply` on a real ext4 and a real XFS while a writer is at work and the program
//! is killed.
//!
//! `BIMETAL_SOAK=N` makes 10,000 files and kills N times, `BIMETAL_SOAK_SEED=N` at other moments.

mod support;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bimetal_trace::file_system::free_space;
use serde_json::Value;
use support::LoopDevice;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// Longest time of a run.
const LIMIT: Duration = Duration::from_secs(600);

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// A file system, mounted until drop.
struct Mounted {
    kind: &'static str,
    folder: PathBuf,
    device: Option<LoopDevice>,
}

impl Mounted {
    fn new(name: &str, bytes: u64) -> Option<Self> {
        Self::of("ext4", &["-q", "-F", "-b", "4096"], name, bytes)
    }

    fn of(kind: &'static str, options: &[&str], name: &str, bytes: u64) -> Option<Self> {
        let memory = Path::new("/dev/shm");
        let below = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = below.join(format!("bimetal-place-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("mount")).ok()?;
        let image = folder.join("image").to_string_lossy().into_owned();
        let is_made = File::create(&image).and_then(|file| file.set_len(bytes)).is_ok()
            && succeeds(&format!("mkfs.{kind}"), &[options, &[&image]].concat());
        let device = is_made.then(|| LoopDevice::over(Path::new(&image), &[])).flatten();
        let mounted = Self { kind, folder, device };
        let device = mounted.device.as_ref().map(|device| device.0.clone()).unwrap_or_default();
        if !succeeds("mount", &[&device, &mounted.root()]) {
            println!("skipped: no {kind} can be mounted here");
            assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none());
            return None;
        }
        Some(mounted)
    }

    fn root(&self) -> String {
        self.folder.join("mount").to_string_lossy().into_owned()
    }

    fn write(&self, name: &str, bytes: usize) {
        let path = self.folder.join("mount").join(name);
        fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("there is room");
        fs::write(path, content(name, bytes)).expect("there is room");
    }

    fn is_whole(&self, name: &str, bytes: usize) -> bool {
        fs::read(self.folder.join("mount").join(name)).expect("it is there") == content(name, bytes)
    }

    fn place(&self, options: &[&str]) -> Output {
        Command::new(BIMETAL).args(["place", &self.root()]).args(options).output().expect("the program runs")
    }

    fn place_json(&self, options: &[&str]) -> Value {
        let run = self.place(&[options, &["--json"]].concat());
        let document: Value = serde_json::from_slice(&run.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
        assert_eq!(run.status.code(), Some(if is_whole(&document) { 0 } else { 3 }), "{document}");
        document
    }

    fn check_file_system(mut self) {
        assert!(succeeds("umount", &[&self.root()]));
        let device = self.device.take().expect("it was mounted");
        let (checker, options) = if self.kind == "xfs" { ("xfs_repair", "-n") } else { ("e2fsck", "-fn") };
        let checked = Command::new(checker).args([options, &device.0]).output().expect("the checker runs");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root()).output();
        drop(self.device.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn content(name: &str, bytes: usize) -> Vec<u8> {
    let mut state = name.bytes().fold(7u64, |state, byte| state.wrapping_mul(31).wrapping_add(byte.into()));
    let mut bytes_of = Vec::with_capacity(bytes + 8);
    while bytes_of.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes_of.extend((state ^ state >> 29).to_le_bytes());
    }
    bytes_of.truncate(bytes);
    bytes_of
}

fn files_in(document: &Value, total: &str) -> u64 {
    document.pointer(total).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {total} in {document}"))
}

/// Returns true if all that was asked for has come about.
fn is_whole(document: &Value) -> bool {
    let no_room = document.pointer("/plan/no_room/files").and_then(Value::as_u64).unwrap_or(0);
    let moved = &document["moved"];
    let all_moved = || moved["ended"].is_null() && moved["skipped"].as_array().is_some_and(Vec::is_empty);
    moved.is_null() || (all_moved() && no_room == 0)
}

#[test]
fn programs_move_to_the_ssd_and_back() {
    let Some(mounted) = Mounted::new("apply", 1 << 30) else { return };
    let names: Vec<String> = (0..40).map(|number| format!("lib/l{number}.so")).collect();
    names.iter().for_each(|name| mounted.write(name, 100_000));
    mounted.write("notes.txt", 3_000_000);
    mounted.write("lib/left-out.so", 3000);
    let ssd = ["--ssd-size", "64MiB", "--exclude", "left-*"];
    let before = mounted.place_json(&ssd);
    assert_eq!((files_in(&before, "/plan/to_ssd/files"), files_in(&before, "/excluded")), (40, 1));
    assert!(before["moved"].is_null(), "a dry run is the default");
    let applied = mounted.place_json(&[&ssd[..], &["--apply", "--verify"]].concat());
    assert_eq!(files_in(&applied, "/moved/to_ssd/files"), 40);
    assert_eq!(files_in(&applied, "/moved/verified"), 40);
    let after = mounted.place_json(&ssd);
    assert_eq!((files_in(&after, "/plan/to_ssd/files"), files_in(&after, "/totals/move_to_ssd/files")), (0, 0));
    let undone = mounted.place_json(&["--undo"]);
    assert_eq!(files_in(&undone, "/moved/to_hdd/files"), 40);
    assert_eq!(files_in(&mounted.place_json(&ssd), "/totals/move_to_ssd/files"), 40);
    assert!(names.iter().all(|name| mounted.is_whole(name, 100_000)));
    let again = mounted.place(&["--undo"]);
    let message = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && message.contains("nothing to undo"), "{message}");
    mounted.check_file_system();
}

#[test]
fn list_chooses_files_and_less_wanted_files_leave() {
    let Some(mounted) = Mounted::new("list", 1 << 30) else { return };
    (0..20).for_each(|number| mounted.write(&format!("a{number}"), 1 << 20));
    (0..20).for_each(|number| mounted.write(&format!("b{number}"), 1 << 20));
    let list = |letter: &str| {
        let path = mounted.folder.join(letter);
        let lines: Vec<String> = (0..20).map(|number| format!("{}/{letter}{number}\n", mounted.root())).collect();
        fs::write(&path, lines.concat()).expect("there is room");
        path.to_string_lossy().into_owned()
    };
    let (a, b) = (list("a"), list("b"));
    let options = |list| ["--strategy", "list", "--list", list, "--ssd-size", "48MiB", "--apply"];
    let first = mounted.place_json(&options(&a));
    let moved = files_in(&first, "/moved/to_ssd/files");
    assert!(moved > 5, "{first}");
    let second = mounted.place_json(&options(&b));
    assert!(files_in(&second, "/moved/to_hdd/files") > 0, "the files of the other list leave the SSD: {second}");
    assert!(files_in(&second, "/moved/to_ssd/files") > 5, "{second}");
    for number in 0..20 {
        assert!(["a", "b"].iter().all(|letter| mounted.is_whole(&format!("{letter}{number}"), 1 << 20)));
    }
    mounted.check_file_system();
}

/// Regression: 57 files left the SSD at once, 33 files found a place there, and the status was 0.
/// If no file finds a place on the SSD, files stop leaving the SSD after 8 MiB and a round.
#[test]
fn files_leave_the_ssd_only_while_others_find_a_place() {
    let Some(mounted) = Mounted::new("in-vain", 1 << 30) else { return };
    let list = |letter: &str| {
        (0..60).for_each(|number| mounted.write(&format!("{letter}{number}"), 3_000_000));
        let path = mounted.folder.join(letter);
        let lines: Vec<String> = (0..60).map(|number| format!("{}/{letter}{number}\n", mounted.root())).collect();
        fs::write(&path, lines.concat()).expect("there is room");
        path.to_string_lossy().into_owned()
    };
    let lists = [list("a"), list("b")];
    for round in 0..2 {
        let options = ["--strategy", "list", "--ssd-size", "200MiB", "--apply", "--list", &lists[round % 2]];
        let moved = &mounted.place_json(&options)["moved"];
        let [left, came] = ["/to_hdd/bytes", "/to_ssd/bytes"].map(|total| files_in(moved, total));
        assert!(left.saturating_sub(came) <= 40 << 20, "{moved}");
    }
    mounted.check_file_system();
}

/// Regression: a run that a signal cut short ended with status 0.
#[test]
fn signal_amid_moves_ends_the_run_as_a_signal_ends_others() {
    use std::os::unix::process::ExitStatusExt;
    let Some(mounted) = Mounted::new("signal", 1 << 30) else { return };
    (0..40).for_each(|number| mounted.write(&format!("lib/l{number}.so"), 1 << 20));
    let mut command = Command::new(BIMETAL);
    command.args(["place", &mounted.root(), "--apply", "--ssd-size", "100MiB", "--rate", "2MiB"]);
    let child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    std::thread::sleep(Duration::from_secs(2));
    assert!(succeeds("kill", &["-TERM", &child.id().to_string()]));
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.signal(), Some(15), "{:?}", ended.status);
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(told.contains("ended early  stopped by a signal"), "{told}");
    mounted.check_file_system();
}

/// Regression: a trace of a larger device was taken: requests beyond the end of this device counted
/// for nothing, and the other requests counted for files that they had never touched.
#[test]
fn trace_of_a_larger_device_is_refused_and_nothing_moves() {
    let Some(mounted) = Mounted::new("other", 1 << 30) else { return };
    mounted.write("lib/first.so", 30_000_000);
    let trace = mounted.folder.join("trace.csv");
    let lines = (0..4000).map(|number| format!("{number},0,read,{},8,0,\n", number * 1024));
    let head = "time_ns,device,op,lba,sectors,fua,response_ns\n";
    fs::write(&trace, head.to_owned() + &lines.collect::<String>()).expect("there is room");
    let trace = trace.to_string_lossy().into_owned();
    let options = ["--ssd-size", "64MiB", "--strategy", "frequency", "--trace", &trace, "--apply"];
    let refused = mounted.place(&options);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("expected a trace of this device"), "{message}");
    assert!(!mounted.folder.join("mount/.bimetal-place").exists(), "nothing has moved");
    mounted.check_file_system();
}

/// Traces of reads of files, and their use.
impl Mounted {
    /// Writes a trace with as many reads of each file, at the present places of the files.
    fn trace(&self, name: &str, reads: &[(&str, u64)]) -> String {
        let mut lines = String::from("time_ns,device,op,lba,sectors,fua,response_ns\n");
        let mut time = 0u64;
        for &(file, count) in reads {
            let place = self.extents(file);
            let blocks: Vec<u64> = place.iter().flat_map(|&(start, len)| start / 4096..(start + len) / 4096).collect();
            for number in 0..count {
                let block = blocks[number as usize * 7919 % blocks.len()];
                time += 10_000_000;
                lines += &format!("{time},0,read,{},8,0,\n", block * 8);
            }
        }
        let path = self.folder.join(name);
        fs::write(&path, lines).expect("there is room");
        // Clocks of files are coarse, and the next change of the files must be later.
        std::thread::sleep(Duration::from_millis(50));
        path.to_string_lossy().into_owned()
    }

    /// Returns the extents of a file, in bytes.
    fn extents(&self, name: &str) -> Vec<(u64, u64)> {
        assert!(succeeds("sync", &["-f", &self.root()]));
        let path = self.folder.join("mount").join(name);
        let found = bimetal_trace::file_system::files_below(&path, |_| false).expect("ext4 reports extents");
        found.files[0].extents.clone()
    }

    /// Applies the strategy `frequency` to a trace, and returns the number of files moved to
    /// each drive.
    fn apply(&self, trace: &str, more: &[&str]) -> (u64, u64) {
        let options = ["--strategy", "frequency", "--ssd-size", "64MiB", "--trace", trace, "--apply"];
        let document = self.place_json(&[&options[..], more].concat());
        (files_in(&document, "/moved/to_ssd/files"), files_in(&document, "/moved/to_hdd/files"))
    }

    fn is_on_ssd(&self, name: &str) -> bool {
        self.extents(name).iter().all(|&(start, len)| start + len <= 64 << 20)
    }
}

/// Size of a file of which the SSD of 64 MiB has room for one.
const ALMOST: usize = 36 << 20;

/// Regression: the second run of the same command took the time of the first run's last write to
/// the journal for the time of the moves, and moved the hot file back.
#[test]
fn same_trace_moves_nothing_the_second_time() {
    let Some(mounted) = Mounted::new("twice", 1 << 30) else { return };
    ["hot.dat", "cold.dat"].iter().for_each(|name| mounted.write(name, ALMOST));
    let first = mounted.trace("first.csv", &[("hot.dat", 500)]);
    assert_eq!(mounted.apply(&first, &[]).0, 1);
    let second = mounted.trace("second.csv", &[("hot.dat", 1000), ("cold.dat", 300)]);
    for _ in 0..2 {
        let moved = mounted.apply(&second, &[]);
        assert_eq!((moved, mounted.is_on_ssd("hot.dat")), ((0, 0), true));
    }
    // The trace from before the moves is still read by the former places.
    assert_eq!(mounted.apply(&first, &[]), (0, 0));
    mounted.check_file_system();
}

/// A trace from the time between two rounds of moves is read by the places after the first round.
/// After an undo, all traces are still read by the places of their time.
#[test]
fn trace_between_two_rounds_is_read_by_its_own_places() {
    let Some(mounted) = Mounted::new("rounds", 1 << 30) else { return };
    ["a.dat", "b.dat"].iter().for_each(|name| mounted.write(name, ALMOST));
    let before = mounted.trace("before.csv", &[("a.dat", 500)]);
    assert_eq!(mounted.apply(&before, &[]).0, 1);
    let between = mounted.trace("between.csv", &[("a.dat", 500)]);
    let list = mounted.folder.join("list");
    fs::write(&list, format!("{}/b.dat\n", mounted.root())).expect("there is room");
    let list = list.to_string_lossy().into_owned();
    mounted.place_json(&["--strategy", "list", "--list", &list, "--ssd-size", "64MiB", "--apply"]);
    assert!(!mounted.is_on_ssd("a.dat") && mounted.is_on_ssd("b.dat"), "the second round has exchanged both");
    for trace in [&before, &between] {
        let options = ["--strategy", "frequency", "--ssd-size", "64MiB", "--trace", trace];
        let uses = |document: &Value, name: &str| {
            let files = document["files"].as_array().expect("a list").iter();
            let mut named = files.filter(|file| file["path"].as_str().is_some_and(|path| path.ends_with(name)));
            named.next().expect("the file is listed")["uses"]["accesses"].as_u64()
        };
        let read = mounted.place_json(&options);
        assert_eq!((uses(&read, "a.dat"), uses(&read, "b.dat")), (Some(500), Some(0)), "{trace}");
    }
    assert!(mounted.place(&["--undo"]).status.success());
    let read = mounted.place_json(&["--strategy", "frequency", "--ssd-size", "64MiB", "--trace", &between]);
    assert_eq!(files_in(&read, "/totals/to_ssd/files"), 1, "the undo has kept the places: {read}");
    mounted.check_file_system();
}

/// A journal of an earlier version has no times of moves, so a trace may be older than the moves.
#[test]
fn journal_without_times_refuses_traces_until_a_run() {
    let Some(mounted) = Mounted::new("times", 1 << 30) else { return };
    mounted.write("hot.dat", 4 << 20);
    let state = mounted.folder.join("mount/.bimetal-place");
    fs::create_dir(&state).expect("there is room");
    let line = r#"{"file":{"inode":9,"born":7,"path":"/x","boundary":100,"extents":[[0,200,4]]}}"#;
    fs::write(state.join("moves"), format!("{line}\n")).expect("there is room");
    let trace = || mounted.trace("trace.csv", &[("hot.dat", 500)]);
    let old = trace();
    let options = ["--strategy", "frequency", "--ssd-size", "64MiB", "--trace", &old];
    for (more, reason) in [(&[][..], "noted no times"), (&["--apply"], "recorded after the last run")] {
        let refused = mounted.place(&[&options[..], more].concat());
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && message.contains(reason), "{message}");
        assert!(!mounted.is_on_ssd("hot.dat"));
    }
    assert_eq!(mounted.apply(&trace(), &[]), (1, 0), "the run with --apply has dated the journal");
    mounted.check_file_system();
}

/// Regression: a file with the inode number of a deleted file got the accesses to the deleted file.
#[test]
fn reused_inode_gets_no_access_to_the_deleted_file() {
    let Some(mounted) = Mounted::new("inode", 1 << 30) else { return };
    ["first.dat", "other.dat"].iter().for_each(|name| mounted.write(name, 4 << 20));
    let trace = mounted.trace("trace.csv", &[("first.dat", 500), ("other.dat", 300)]);
    assert_eq!(mounted.apply(&trace, &["--set", "frequent=400"]).0, 1);
    let first = mounted.folder.join("mount/first.dat");
    let inode = |path: &Path| fs::metadata(path).map(|metadata| metadata.ino()).expect("it is there");
    let deleted = inode(&first);
    fs::remove_file(first).expect("it is there");
    assert!(succeeds("sync", &["-f", &mounted.root()]));
    mounted.write("new.dat", 4 << 20);
    assert_eq!(inode(&mounted.folder.join("mount/new.dat")), deleted, "ext4 uses the number again");
    let options = ["--strategy", "frequency", "--ssd-size", "64MiB", "--trace", &trace, "--set", "frequent=400"];
    assert_eq!(files_in(&mounted.place_json(&options), "/totals/to_ssd/files"), 0);
    mounted.check_file_system();
}

/// Regression: a file that was made at the former place of another file got the accesses to the
/// other file. If the ranges of both files overlapped, the other file lost accesses.
#[test]
fn new_file_at_a_former_place_gets_no_access() {
    let Some(mounted) = Mounted::new("former", 1 << 30) else { return };
    ["first.dat", "before.dat", "hot.dat"].iter().for_each(|name| {
        mounted.write(name, 4 << 20);
        assert!(succeeds("sync", &["-f", &mounted.root()]));
    });
    let former = mounted.extents("hot.dat");
    let trace = mounted.trace("trace.csv", &[("hot.dat", 500)]);
    assert_eq!(mounted.apply(&trace, &[]).0, 1);
    // The new file begins before the former place, which is the second half of 8 MiB.
    fs::remove_file(mounted.folder.join("mount/before.dat")).expect("it is there");
    assert!(succeeds("sync", &["-f", &mounted.root()]));
    let overlaps = |name: &str| {
        let overlap =
            |&(start, len): &(u64, u64)| former.iter().any(|&(at, bytes)| start < at + bytes && at < start + len);
        mounted.extents(name).iter().any(overlap)
    };
    let names: Vec<String> = (0..60).map(|number| format!("new{number}")).collect();
    let name = names.iter().find(|name| {
        mounted.write(name, 12 << 20);
        overlaps(name)
    });
    assert!(name.is_some(), "a new file lies at the former place");
    let document = mounted.place_json(&["--strategy", "frequency", "--ssd-size", "64MiB", "--trace", &trace]);
    let files = document["files"].as_array().expect("a list").iter();
    let used = files.filter(|file| file["uses"]["accesses"].as_u64() > Some(0));
    let used: Vec<(bool, Option<u64>)> = used
        .map(|file| {
            let is_hot = file["path"].as_str().is_some_and(|path| path.ends_with("hot.dat"));
            (is_hot, file["uses"]["accesses"].as_u64())
        })
        .collect();
    assert_eq!(used, [(true, Some(500))]);
    let [now, placed] = ["/gain/mean_ms_now", "/gain/mean_ms_placed"].map(|mean| document.pointer(mean).cloned());
    assert!(now.is_some() && now == placed, "nothing is to be moved: {}", document["gain"]);
    mounted.check_file_system();
}

/// A program that is written while `--watch` waits moves in a later round, and a signal ends the
/// wait at once.
#[test]
fn watch_moves_what_comes_later_and_ends_at_a_signal() {
    let Some(mounted) = Mounted::new("watch", 1 << 30) else { return };
    mounted.write("lib/first.so", 100_000);
    let ssd = ["--ssd-size", "64MiB"];
    let waits = || files_in(&mounted.place_json(&ssd), "/totals/move_to_ssd/files");
    assert_eq!(waits(), 1, "the first program lies on the HDD");
    let mut command = Command::new(BIMETAL);
    command.args(["place", &mounted.root(), "--apply", "--watch", "1s", "--rate", "20MiB"]).args(ssd);
    let mut watch = command.stdout(Stdio::null()).spawn().expect("the program runs");
    let begun = Instant::now();
    let mut until_moved = || {
        while waits() > 0 {
            assert!(watch.try_wait().expect("it is a child").is_none(), "it goes on until a signal");
            assert!(begun.elapsed() < LIMIT, "no round has moved the program");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until_moved();
    mounted.write("lib/second.so", 100_000);
    assert!(succeeds("sync", &["-f", &mounted.root()]));
    until_moved();
    assert!(succeeds("kill", &["-TERM", &watch.id().to_string()]));
    let status = watch.wait().expect("it ends");
    assert!(status.success(), "a signal ends the wait well: {status}");
    assert!(mounted.is_whole("lib/first.so", 100_000) && mounted.is_whole("lib/second.so", 100_000));
    let undone = mounted.place_json(&["--undo"]);
    assert_eq!(files_in(&undone, "/moved/to_hdd/files"), 2, "one undo takes back all rounds");
    mounted.check_file_system();
}

#[test]
fn kills_lose_no_byte_while_a_writer_works() {
    survives_kills("kills", "ext4", &["-q", "-F", "-b", "4096"]);
}

#[test]
fn kills_lose_no_byte_of_xfs_while_a_writer_works() {
    if succeeds("mkfs.xfs", &["-V"]) {
        survives_kills("xfs-kills", "xfs", &["-q", "-f"]);
    } else {
        println!("skipped: no mkfs.xfs here (package xfsprogs)");
    }
}

/// Regression: a run that followed a killed run found no room. The killed run's donor had been
/// freed, but ext4 reports freed blocks as free only after its next commit.
#[test]
fn space_of_a_deleted_file_is_free_at_once() {
    let Some(mounted) = Mounted::new("freed", 256 << 20) else { return };
    mounted.write("old.bin", 8 << 20);
    assert!(succeeds("sync", &["-f", &mounted.root()]));
    let free = || -> u64 {
        let ranges = free_space(Path::new(&mounted.root())).expect("ext4 reports its free space");
        ranges.iter().map(|&(_, bytes)| bytes).sum()
    };
    let before = free();
    fs::remove_file(mounted.folder.join("mount/old.bin")).expect("it is there");
    assert_eq!(free() - before, 8 << 20);
}

fn survives_kills(test: &str, kind: &'static str, options: &[&str]) {
    let kills = environment("BIMETAL_SOAK");
    // The SSD holds one half of the files, not both: files leave when others move in.
    let (count, kills, bytes, ssd) = match kills {
        Some(kills) => (10_000, kills, 4 << 30, "400MiB"),
        None => (300, 3, 1 << 30, "28MiB"),
    };
    let Some(mounted) = Mounted::of(kind, options, test, bytes) else { return };
    let size = |number: usize| [900, 5000, 30_000, 200_000][number % 4];
    let name =
        |number: usize| format!("d{}/f{number}.{}", number % 50, if number.is_multiple_of(2) { "so" } else { "txt" });
    (0..count).for_each(|number| mounted.write(&name(number), size(number)));
    assert!(succeeds("sync", &["-f", &mounted.root()]));
    // On XFS, a file does not move within two seconds of its last write.
    std::thread::sleep(if kind == "xfs" { Duration::from_millis(2100) } else { Duration::ZERO });
    let stop = AtomicBool::new(false);
    let path = mounted.folder.join("mount/written.so");
    mounted.write("written.so", 1 << 20);
    let mut random = environment("BIMETAL_SOAK_SEED").unwrap_or(1);
    let (mut killed, mut last, mut round, mut whole_run) = (0, Totals::default(), 0, None::<Duration>);
    let expected = std::thread::scope(|scope| {
        let stopper = Stopper(&stop);
        let writer = scope.spawn(|| write_until(&path, content("written.so", 1 << 20), &stop));
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Programs move in, then texts take their places, and so on: each run has work.
            let options = ["--apply", "--ssd-size", ssd, "--strategy", "list", "--list"];
            let list = mounted.folder.join("list");
            let lines = (0..count).filter(|number| number % 2 == round % 2);
            let lines = lines.map(|number| format!("{}/{}\n", mounted.root(), name(number)));
            fs::write(&list, lines.collect::<String>()).expect("there is room");
            let list = list.to_string_lossy().into_owned();
            let options = [&options[..], &[&list, "--exclude", "written.so"]].concat();
            if killed == kills {
                last.add(&mounted.place_json(&options));
                break;
            }
            // A moment within the time that a whole run has taken.
            let after = whole_run.map_or(LIMIT, |time| time.mul_f64((random >> 33) as f64 / f64::from(1u32 << 31)));
            match run_for(&mounted, &options, after) {
                None => killed += 1,
                Some(time) => whole_run = whole_run.or(Some(time)),
            }
            round += 1;
            assert!(round < 50 * kills as usize + 50, "the program ends before it can be killed");
        }
        drop(stopper);
        writer.join().expect("the writer ends well")
    });
    let whole = (0..count).filter(|&number| mounted.is_whole(&name(number), size(number))).count();
    assert_eq!(whole, count, "files with the content that was written");
    assert!(fs::read(&path).expect("it is there") == expected, "the file of the writer");
    println!("{killed} kills; {count} files equal; last run: {last:?}");
    let undone = mounted.place_json(&["--undo"]);
    println!("undo: {}", undone["moved"]);
    assert_eq!((0..count).filter(|&number| mounted.is_whole(&name(number), size(number))).count(), count);
    mounted.check_file_system();
}

#[derive(Debug, Default)]
#[allow(dead_code, reason = "printed")]
struct Totals {
    to_ssd: u64,
    to_hdd: u64,
    mib_per_second: f64,
}

impl Totals {
    fn add(&mut self, document: &Value) {
        self.to_ssd = files_in(document, "/moved/to_ssd/files");
        self.to_hdd = files_in(document, "/moved/to_hdd/files");
        self.mib_per_second = document["moved"]["bytes_per_second"].as_f64().unwrap_or(0.0) / f64::from(1 << 20);
    }
}

/// Stops the writer when the test ends, however it ends.
struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `bimetal place` and kills it after the time `after`. Returns the time of the run if it
/// ended before.
fn run_for(mounted: &Mounted, options: &[&str], after: Duration) -> Option<Duration> {
    let mut command = Command::new(BIMETAL);
    command.args(["place", &mounted.root()]).args(options).stdout(Stdio::null());
    let mut child = command.spawn().expect("the program runs");
    let begun = Instant::now();
    while begun.elapsed() < after {
        if let Some(status) = child.try_wait().expect("it is a child") {
            assert!(matches!(status.code(), Some(0 | 3)), "the run ends well, or some files stay: {status}");
            return Some(begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    None
}

/// Overwrites and appends to a file until `stop` is set. Returns its content.
fn write_until(path: &Path, mut content: Vec<u8>, stop: &AtomicBool) -> Vec<u8> {
    let file = OpenOptions::new().write(true).open(path).expect("it is there");
    let numbers = (0u32..).take_while(|_| !stop.load(Ordering::Relaxed));
    for number in numbers {
        let text = number.to_le_bytes().repeat(500);
        let at = if number.is_multiple_of(8) && content.len() < 64 << 20 {
            content.len()
        } else {
            number as usize * 7919 % (content.len() - text.len())
        };
        file.write_all_at(&text, at as u64).expect("there is room");
        content.resize(content.len().max(at + text.len()), 0);
        content[at..at + text.len()].copy_from_slice(&text);
        std::thread::sleep(Duration::from_millis(1));
    }
    content
}
