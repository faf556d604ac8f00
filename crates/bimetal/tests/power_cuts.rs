//! Real processes and real file systems over a volume whose server is killed at random moments. The
//! drives lose all content that was not flushed. After each restart the file system is clean and
//! every synced file is complete.
//!
//! The tests use the volume as a user without a kernel module does: server, nbdfuse, loop device,
//! mkfs, mount. `BIMETAL_SOAK=N` kills N times for each file system, `BIMETAL_SOAK_SEED=N` at other
//! moments. Everything that was mounted is unmounted at the end.

mod support;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::LoopDevice;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// Number of kills for each file system, unless the environment sets another.
const KILLS: u64 = 2;
/// Longest time of one step, after which the test fails.
const LIMIT: Duration = Duration::from_secs(60);

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the reason for which the test cannot run on this machine; `None` if it can run.
fn obstacle(programs: &[&str]) -> Option<String> {
    let missing = programs.iter().find(|program| {
        !Command::new("which").arg(program).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    });
    if let Some(program) = missing {
        return Some(format!("no {program}"));
    }
    if !rustix::process::geteuid().is_root() {
        return Some("not root: nothing can be mounted".into());
    }
    (!Path::new("/dev/fuse").exists()).then(|| "no /dev/fuse".into())
}

fn skip(reason: &str) {
    assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "{reason}");
    println!("skipped: {reason}");
}

/// Runs a program to its end, or kills it after [`LIMIT`].
fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let limit = LIMIT.as_secs().to_string();
    let output = Command::new("timeout").args(["--kill-after=5", &limit, program]).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {}: {}\n{text}{errors}", arguments.join(" "), output.status)))
}

fn must(program: &str, arguments: &[&str]) -> String {
    run(program, arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// A folder with drives, and the server over these drives.
struct Volume {
    directory: PathBuf,
    server: Option<Child>,
}

impl Volume {
    fn create(name: &str, options: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-cuts-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("mount")).expect("a folder for the test");
        let volume = Self { directory, server: None };
        for (drive, mib) in [("ssd.img", 600), ("hdd.img", 600)] {
            File::create(volume.path(drive)).and_then(|file| file.set_len(mib << 20)).expect("a drive");
        }
        let mut command = volume.bimetal("create");
        command.arg("cuts").args(options).args(DRIVES).stdout(Stdio::null());
        assert!(command.status().expect("bimetal starts").success(), "the volume is made");
        volume
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn bimetal(&self, command: &str) -> Command {
        let mut bimetal = Command::new(BIMETAL);
        bimetal.arg(command).current_dir(&self.directory);
        bimetal.env("XDG_STATE_HOME", self.path("state")).env("XDG_RUNTIME_DIR", self.path("run"));
        bimetal
    }

    /// Starts the server, and waits until clients can connect.
    fn serve(&mut self) {
        let mut command = self.bimetal("serve");
        command.args(["cuts", "--nbd", &format!("unix:{}", self.text("nbd.sock"))]);
        let mut server = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut output = server.stdout.take().expect("its output");
        self.server = Some(server);
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') && output.read(&mut byte).expect("its output") == 1 {
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.starts_with("ready cuts "), "the server says {line:?}");
    }

    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The volume as a block device: nbdfuse makes a file of the volume, and the loop driver makes a
/// device of the file.
struct Device {
    fuse: Child,
    file: String,
    /// The mount lasts until drop; then the loop device is removed before the file below it.
    device: Option<LoopDevice>,
}

impl Device {
    fn attach(volume: &Volume) -> Self {
        let file = volume.text("disk");
        File::create(&file).expect("a place for the file");
        let uri = format!("nbd+unix:///?socket={}", volume.text("nbd.sock"));
        let fuse = Command::new("nbdfuse").args([&file, &uri]).spawn().expect("nbdfuse starts");
        let begun = Instant::now();
        while fs::metadata(&file).map_or(0, |metadata| metadata.len()) == 0 {
            assert!(begun.elapsed() < LIMIT, "nbdfuse shows no disk");
            std::thread::sleep(Duration::from_millis(20));
        }
        let device = LoopDevice::over(Path::new(&file), &["--direct-io=on"]).expect("a loop device");
        Self { fuse, file, device: Some(device) }
    }

    fn path(&self) -> &str {
        self.device.as_ref().map_or("", |device| &device.0)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(self.device.take());
        let _ = run("fusermount3", &["-u", "-z", &self.file]);
        let _ = self.fuse.kill();
        let _ = self.fuse.wait();
    }
}

struct Mount {
    at: String,
}

impl Mount {
    fn new(volume: &Volume, device: &Device) -> Self {
        let at = volume.text("mount");
        must("mount", &[device.path(), &at]);
        Self { at }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if run("umount", &[&self.at]).is_err() {
            let _ = run("umount", &["-l", &self.at]);
        }
    }
}

/// Files that were synced, with their content.
type Synced = Arc<Mutex<Vec<(PathBuf, Vec<u8>)>>>;

/// Returns the files of this project's sources.
fn source_tree() -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "toml") {
                let content = fs::read(&path).expect("a source");
                files.push((path.strip_prefix(&root).expect("it lies there").to_owned(), content));
            }
        }
    }
    files.sort();
    files
}

/// Unpacks the tree again and again and syncs each file, until a write fails or `stop` is set.
fn unpack(mount: &Path, round: u64, synced: &Synced, stop: &AtomicBool) -> io::Result<()> {
    let tree = source_tree();
    for pass in 0.. {
        let top = mount.join(format!("tree-{round}-{pass}"));
        for (name, content) in &tree {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let path = top.join(name);
            let folder = path.parent().expect("a file lies in a folder");
            fs::create_dir_all(folder)?;
            let mut file = File::create(&path)?;
            file.write_all(content)?;
            file.sync_all()?;
            File::open(folder)?.sync_all()?;
            let below = path.strip_prefix(mount).expect("it lies there").to_owned();
            synced.lock().expect("no thread panicked").push((below, content.clone()));
        }
    }
    Ok(())
}

fn check(mount: &Path, synced: &Synced) {
    for (name, content) in synced.lock().expect("no thread panicked").iter() {
        let found = fs::read(mount.join(name)).unwrap_or_else(|error| panic!("{}: {error}", name.display()));
        assert!(found == *content, "{} was synced and is not what was written", name.display());
    }
}

/// Kills the server at random moments under a file system, and checks the file system after each
/// restart.
fn survives(name: &str, options: &[&str], make: &[&str], look: &[&str]) {
    if let Some(reason) = obstacle(&["nbdfuse", "fusermount3", "losetup", "mount", "timeout", make[0], look[0]]) {
        return skip(&reason);
    }
    let kills = environment("BIMETAL_SOAK").unwrap_or(KILLS);
    let mut random = environment("BIMETAL_SOAK_SEED").unwrap_or(1);
    let mut volume = Volume::create(name, options);
    volume.serve();
    {
        let device = Device::attach(&volume);
        must(make[0], &[&make[1..], &[device.path()]].concat());
    }
    let synced = Synced::default();
    for round in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cut(&mut volume, round, Duration::from_millis(300 + (random >> 33) % 1500), &synced);
        volume.serve();
        let device = Device::attach(&volume);
        {
            // Mounting replays the file system's own journal.
            let mount = Mount::new(&volume, &device);
            check(Path::new(&mount.at), &synced);
        }
        must(look[0], &[&look[1..], &[device.path()]].concat());
    }
    let files = synced.lock().expect("no thread panicked").len();
    println!("{name}: {kills} kills, {files} synced files, all there");
    assert!(files > 0, "nothing was synced before the server was killed");
}

/// Unpacks the tree, and kills the server after the time `after`.
fn cut(volume: &mut Volume, round: u64, after: Duration, synced: &Synced) {
    let device = Device::attach(volume);
    let mount = Mount::new(volume, &device);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (at, synced, stop) = (PathBuf::from(&mount.at), Arc::clone(synced), Arc::clone(&stop));
        std::thread::spawn(move || unpack(&at, round, &synced, &stop))
    };
    std::thread::sleep(after);
    volume.kill();
    stop.store(true, Ordering::Relaxed);
    // The write under way fails, as at a real power cut.
    let _ = writer.join().expect("the writer ends");
}

/// Drives that keep unflushed content in the server's memory: killing the server is a power cut.
const DRIVES: &[&str] = &[
    "--ssd",
    "emulate:samsung-970-evo-plus-500gb:ssd.img",
    "--hdd",
    "emulate:seagate-cheetah-15k.5-73gb:hdd.img",
    "--set",
    "ssd.volatile_cache=on",
    "--set",
    "hdd.volatile_cache=on",
];

const GRIFFIN: &[&str] = &["--scheme", "griffin", "--set", "timeout=300ms"];

const SMART_RESPONSE: &[&str] = &["--scheme", "smart-response", "--set", "mode=maximized"];

#[test]
fn ext4_survives_kills_of_its_server() {
    survives("ext4", GRIFFIN, &["mkfs.ext4", "-q", "-F"], &["e2fsck", "-fn"]);
}

#[test]
fn xfs_survives_kills_of_its_server() {
    survives("xfs", SMART_RESPONSE, &["mkfs.xfs", "-q", "-f"], &["xfs_repair", "-n"]);
}
