//! `bimetal extract` on files, and its refusals.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder beside the program, on a file system that can bypass the page cache.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let built = Path::new(env!("CARGO_BIN_EXE_bimetal")).parent().expect("the program's folder");
        let path = built.join(format!("extract-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// Writes a file of `mib` MiB.
    fn file(&self, name: &str, mib: usize) -> PathBuf {
        let path = self.0.join(name);
        let mut file = File::create(&path).expect("a file");
        let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        (0..mib).for_each(|_| file.write_all(&bytes).expect("room"));
        file.sync_all().expect("written");
        path
    }

    fn extract(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bimetal"));
        command.arg("extract").args(arguments).current_dir(&self.0).stdin(Stdio::null()).output().expect("it runs")
    }

    fn refused(&self, arguments: &[&str], expected: &str) {
        let output = self.extract(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns true if files in `folder` can be opened past the page cache.
fn is_direct(folder: &Folder) -> bool {
    let path = folder.file("try.img", 1);
    rustix::fs::open(&path, rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT, rustix::fs::Mode::empty()).is_ok()
}

fn skips(folder: &Folder) -> bool {
    let skips = !is_direct(folder);
    if skips {
        assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "no O_DIRECT in the build folder");
        println!("skipped: no O_DIRECT in the build folder");
    }
    skips
}

#[test]
fn a_file_is_measured_and_its_profile_is_taken() {
    let folder = Folder::new("measured");
    if skips(&folder) {
        return;
    }
    folder.file("drive.img", 64);
    for (output, more) in [("all.toml", &["--yes"][..]), ("read.toml", &["--read-only"][..])] {
        let mut arguments = vec!["drive.img", "-o", output, "--budget", "20s", "--json"];
        arguments.extend(more);
        let result = folder.extract(&arguments);
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        let document = String::from_utf8(result.stdout).expect("text");
        for key in ["\"kind\"", "\"figures\"", "\"error\"", "\"commands\"", "\"capacity_bytes\": 67108864"] {
            assert!(document.contains(key), "{key}: {document}");
        }
        // Any memory between program and drive can hold the whole file, so no figure is a drive's.
        assert!(document.contains("\"trusted\": false") && document.contains("NOT TO BE TRUSTED"), "{document}");
        assert!(!document.contains("\"measured"), "{document}");
        let profile = Command::new(env!("CARGO_BIN_EXE_bimetal"))
            .args(["profiles", output])
            .current_dir(&folder.0)
            .output()
            .expect("it runs");
        assert!(profile.status.success(), "{}", String::from_utf8_lossy(&profile.stderr));
        assert!(String::from_utf8_lossy(&profile.stdout).contains("not to be trusted"));
    }
}

#[test]
fn a_model_is_measured_by_its_name_and_comes_back() {
    let folder = Folder::new("model");
    let result = folder.extract(&["ibm-ultrastar-36z15-36gb", "-o", "again.toml"]);
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    for expected in ["a disk of 36.7 GB", "15000.0000", "Use it with: --hdd again.toml"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let trace =
        ["--requests", "2000", "--footprint", "1GiB", "--read-fraction", "0.7", "--size", "4KiB", "-o", "t.csv"];
    let program = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bimetal"));
        program.current_dir(&folder.0);
        program
    };
    let made = program().arg("generate").args(trace).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let used = program().args(["simulate", "t.csv", "--scheme", "hdd-only", "--hdd", "again.toml"]).output();
    let used = used.expect("it runs");
    assert!(used.status.success(), "{}", String::from_utf8_lossy(&used.stderr));
}

#[test]
fn reading_only_changes_nothing() {
    let folder = Folder::new("reading");
    if skips(&folder) {
        return;
    }
    let path = folder.file("drive.img", 32);
    let before = fs::read(&path).expect("it is there");
    let result = folder.extract(&["drive.img", "-o", "a.toml", "--read-only", "--budget", "20s"]);
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    assert!(before == fs::read(&path).expect("it is there"), "a byte was changed");
}

#[test]
fn a_drive_that_somebody_uses_can_be_read_and_that_is_said() {
    let folder = Folder::new("used");
    if skips(&folder) {
        return;
    }
    let lock = File::open(folder.file("drive.img", 32)).expect("it is there");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("nobody else has it");
    let result = folder.extract(&["drive.img", "-o", "a.toml", "--read-only", "--budget", "20s"]);
    let said = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.status.success() && said.contains("drive.img is in use"), "{said}");
}

#[test]
fn a_budget_is_kept() {
    let folder = Folder::new("budget");
    if skips(&folder) {
        return;
    }
    folder.file("drive.img", 64);
    let began = Instant::now();
    let result = folder.extract(&["drive.img", "-o", "a.toml", "--yes", "--budget", "3s"]);
    let (took, said) = (began.elapsed(), String::from_utf8_lossy(&result.stdout).into_owned());
    let error = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(took < Duration::from_secs(15), "{took:?}: {said}{error}");
    // All figures of a file may be measured in three seconds. On a machine that is busy with other
    // work, not even the first figures are.
    let assumed = said.contains("assumed, not measured");
    assert!(assumed || error.contains("give more time"), "{said}{error}");
}

#[test]
fn a_drive_of_a_volume_is_named_and_not_called_a_file_system() {
    let folder = Folder::new("member");
    if skips(&folder) {
        return;
    }
    for (name, mib) in [("ssd.img", 64), ("hdd.img", 128)] {
        fs::write(folder.0.join(name), []).expect("written");
        File::options().write(true).open(folder.0.join(name)).expect("a file").set_len(mib << 20).expect("room");
    }
    let volume = format!("extract-{}", std::process::id());
    let created = Command::new(env!("CARGO_BIN_EXE_bimetal"))
        .args(["create", &volume, "--scheme", "bcache", "--ssd", "ssd.img", "--hdd", "hdd.img"])
        .current_dir(&folder.0)
        .env("XDG_STATE_HOME", &folder.0)
        .env("XDG_RUNTIME_DIR", &folder.0)
        .output()
        .expect("it runs");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    for drive in ["ssd.img", "hdd.img"] {
        folder.refused(&[drive, "-o", "a.toml", "--yes"], &format!("is a drive of a Bimetal volume, '{volume}'"));
        folder.refused(&[drive, "-o", "a.toml", "--yes"], &format!("bimetal detach {volume}"));
    }
}

#[test]
fn what_may_not_be_measured_is_refused() {
    let folder = Folder::new("refused");
    if skips(&folder) {
        return;
    }
    let path = folder.file("drive.img", 32);
    folder.file("small.img", 1);
    fs::write(folder.0.join("there.toml"), "").expect("written");
    folder.refused(&["drive.img", "-o", "there.toml"], "exists already");
    folder.refused(&["drive.img", "-o", "a.toml"], "confirm with --yes, or give --read-only");
    folder.refused(&["small.img", "-o", "a.toml", "--yes"], "expected at least 16MiB");
    folder.refused(&["none.img/", "-o", "a.toml"], "none.img");
    folder.refused(&["/dev/null", "-o", "a.toml", "--yes"], "a character device");
    folder.refused(&["seagate-baracuda-7200.12-1tb", "-o", "a.toml"], "did you mean");
    folder.refused(&["drive.img", "-o", "no/where/a.toml", "--yes"], "cannot be written");
    folder.refused(&["drive.img", "-o", "a.toml", "--yes", "--budget", "1ns"], "give more time");
    let memory = format!("/dev/shm/bimetal-extract-{}.img", std::process::id());
    if fs::write(&memory, vec![1; 32 << 20]).is_ok() {
        folder.refused(&[&memory, "-o", "a.toml", "--yes"], "lies in the machine's memory (tmpfs)");
        fs::remove_file(&memory).expect("it is there");
    }
    // Magic number of an ext4 file system.
    let mut bytes = fs::read(&path).expect("it is there");
    bytes[..65536].fill(0);
    bytes[1080] = 0x53;
    bytes[1081] = 0xef;
    fs::write(&path, bytes).expect("written");
    folder.refused(&["drive.img", "-o", "a.toml", "--yes"], "--read-only measures what reads show");
    let lock = File::open(&path).expect("it is there");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("nobody else has it");
    folder.refused(&["drive.img", "-o", "a.toml", "--yes"], "is in use, so it cannot be written");
    assert!(!folder.0.join("a.toml").exists() && !folder.0.join("a.toml.partial").exists());
}
