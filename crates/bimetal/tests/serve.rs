//! `bimetal serve` on files: what clients get, and what is there again after a stop, a kill, and without a drive.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// A directory with drives in it, and with what the program remembers.
struct Place(PathBuf);

/// A running server; killed at the end of the test if it still runs.
struct Running {
    child: Child,
    /// The line that says that it is ready.
    ready: String,
}

impl Place {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-serve-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a folder for the test");
        Self(directory)
    }

    fn file(&self, name: &str, mib: u64) {
        File::create(self.0.join(name)).and_then(|file| file.set_len(mib << 20)).expect("a file for the test");
    }

    fn bimetal(&self, line: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "60", BIMETAL]).args(line.split_whitespace()).current_dir(&self.0);
        command.env("XDG_STATE_HOME", self.0.join("state")).env("XDG_RUNTIME_DIR", self.0.join("run"));
        command
    }

    fn succeed(&self, line: &str) {
        let output = self.bimetal(line).output().expect("bimetal starts");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn refuse(&self, line: &str) -> String {
        let output = self.bimetal(line).output().expect("bimetal starts");
        assert_eq!(output.status.code(), Some(1), "{line}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).expect("text")
    }

    fn serve(&self, line: &str) -> Running {
        // Not through timeout, so that signals reach the server itself.
        let mut command = Command::new(BIMETAL);
        command.args(line.split_whitespace()).current_dir(&self.0).stdout(Stdio::piped());
        command.env("XDG_STATE_HOME", self.0.join("state")).env("XDG_RUNTIME_DIR", self.0.join("run"));
        let mut child = command.spawn().expect("bimetal starts");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("its output is ours");
        BufReader::new(stdout).read_line(&mut ready).expect("it says when it is ready");
        Running { child, ready }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Running {
    fn uri(&self) -> &str {
        self.ready.split_whitespace().nth(2).unwrap_or_else(|| panic!("'{}' has no URI", self.ready))
    }

    /// Runs commands of qemu-io; patterns must be what was written.
    fn qemu_io(&self, lines: &[&str]) {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "60", "qemu-io", "-f", "raw", "-t", "none"]);
        for line in lines {
            command.args(["-c", line]);
        }
        let output = command.arg(self.uri()).output().expect("qemu-io runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && !text.contains("failed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn terminate(mut self) -> i32 {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
        let limit = Instant::now() + Duration::from_secs(30);
        while Instant::now() < limit {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code().expect("it ends by itself");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not stop");
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has(program: &str) -> bool {
    if Command::new(program).arg("--version").output().is_ok() {
        return true;
    }
    assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "no {program}");
    println!("skipped: no {program}");
    false
}

#[test]
fn what_was_flushed_is_there_after_a_kill_under_every_scheme() {
    if !has("qemu-io") {
        return;
    }
    let schemes = [
        ("ssd-only", "--ssd ssd"),
        ("smart-response", "--ssd ssd --hdd hdd --set mode=maximized"),
        ("hybrid-disk", "--ssd ssd --hdd hdd"),
        ("griffin", "--ssd ssd --hdd hdd --set timeout=200ms"),
    ];
    for (scheme, drives) in schemes {
        let place = Place::new(scheme);
        place.file("ssd", 32);
        place.file("hdd", 48);
        place.succeed(&format!("create tank --scheme {scheme} {drives}"));
        let running = place.serve("serve tank");
        assert!(running.ready.starts_with("ready tank nbd+unix:///tank?socket="), "{}", running.ready);
        running.qemu_io(&["write -P 0x31 0 1M", "write -P 0x32 512 512", "write -f -P 0x33 2M 8k", "flush"]);
        running.kill();
        for _ in 0..2 {
            let running = place.serve("serve ./ssd");
            running.qemu_io(&[
                "read -P 0x31 0 512",
                "read -P 0x32 512 512",
                "read -P 0x31 1k 1023k",
                "read -P 0x33 2M 8k",
            ]);
            running.kill();
        }
        let running = place.serve("serve tank");
        running.qemu_io(&["read -P 0x33 2M 8k", "write -P 0x34 3M 64k"]);
        assert_eq!(running.terminate(), 0);
        let running = place.serve("serve tank");
        running.qemu_io(&["read -P 0x34 3M 64k", "read -P 0x31 4k 1020k"]);
        assert_eq!(running.terminate(), 0);
    }
}

#[test]
fn a_volume_has_one_server_at_a_time() {
    let place = Place::new("one");
    place.file("ssd", 32);
    place.succeed("create tank --scheme ssd-only --ssd ssd");
    let running = place.serve("serve tank --nbd unix:a.sock");
    let message = place.refuse("serve tank --nbd unix:b.sock");
    assert!(message.contains("volume 'tank' is in use by process"), "{message}");
    assert_eq!(running.terminate(), 0);
    assert!(!place.0.join("a.sock").exists());
    let again = place.serve("serve tank --nbd unix:a.sock");
    assert_eq!(again.terminate(), 0);
}

#[test]
fn a_volume_that_is_not_whole_is_served_only_with_leave_and_only_if_nothing_is_needed() {
    if !has("qemu-io") {
        return;
    }
    let place = Place::new("degraded");
    let serve_without = |mode: &str| {
        place.file("ssd", 32);
        place.file("hdd", 48);
        place.succeed(&format!("create tank --force --scheme smart-response --ssd ssd --hdd hdd --set mode={mode}"));
        let running = place.serve("serve tank");
        // Not one after the other: what is written in a stream passes a cache by.
        running.qemu_io(&["write -P 0x41 4M 4k", "write -P 0x41 1M 4k", "write -P 0x41 3M 4k", "flush"]);
        running.kill();
        fs::remove_file(place.0.join("ssd")).expect("it was there");
        place.refuse("serve ./hdd")
    };
    // Written through: home has everything.
    let message = serve_without("enhanced");
    assert!(message.contains("ssd") && message.contains("is missing") && message.contains("--degraded"), "{message}");
    let running = place.serve("serve ./hdd --degraded");
    running.qemu_io(&["read -P 0x41 1M 4k", "read -P 0x41 4M 4k", "write -P 0x42 0 64k", "flush"]);
    assert_eq!(running.terminate(), 0);

    // Written back: the newest content is gone with the drive.
    serve_without("maximized");
    let message = place.refuse("serve ./hdd --degraded");
    assert!(message.contains("is needed"), "{message}");
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    let place = Place::new("refused");
    place.file("ssd", 32);
    assert!(place.refuse("serve ./ssd").contains("ssd"));
    assert!(place.refuse("serve nobody").contains("nobody"));
    place.succeed("create tank --scheme ssd-only --ssd ssd");
    for (endpoint, expected) in [
        ("tcp:127.0.0.1:0", "--insecure-tcp"),
        ("tcp:0.0.0.0:0 --insecure-tcp", "expected 127.0.0.1"),
        ("somewhere", "expected unix:PATH or tcp:HOST:PORT"),
        ("unix:ssd", "is no socket"),
    ] {
        let message = place.refuse(&format!("serve tank --nbd {endpoint}"));
        assert!(message.contains(expected), "{message}");
    }
    let mut running = place.serve("serve tank --nbd tcp:127.0.0.1:0 --insecure-tcp");
    assert!(running.uri().starts_with("nbd://127.0.0.1:"), "{}", running.ready);
    assert!(Path::new("/proc").join(running.child.id().to_string()).exists());
    let mut greeting = [0; 8];
    let address = running.uri().trim_start_matches("nbd://").trim_end_matches("/tank").to_owned();
    std::net::TcpStream::connect(address).and_then(|mut stream| stream.read_exact(&mut greeting)).expect("it serves");
    assert_eq!(&greeting, b"NBDMAGIC");
    running.child.kill().expect("it runs");
}
