//! `bimetal serve` on files: the content that clients read, also after a stop, after a kill, and
//! without a drive.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::LoopDevice;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// A directory with drives and with the program's own state.
struct Place(PathBuf);

/// A running server; killed at the end of the test if it still runs.
struct Running {
    child: Child,
    /// The `ready` line that the server printed.
    ready: String,
}

impl Place {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-serve-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a folder for the test");
        Self(directory)
    }

    /// Makes a file, or changes the size of an existing file.
    fn file(&self, name: &str, mib: u64) {
        let file = File::options().create(true).truncate(false).write(true).open(self.0.join(name));
        file.and_then(|file| file.set_len(mib << 20)).expect("a file for the test");
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
        // The server is started without `timeout`, so that signals reach it.
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

    /// Runs commands of qemu-io; each pattern read must be the pattern that was written.
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
        let limit = Instant::now() + Duration::from_secs(120);
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

/// A volume with a missing drive is served only with `--degraded`, and only if the missing drive is
/// not needed.
#[test]
fn incomplete_volume_is_served_only_with_degraded_flag() {
    if !has("qemu-io") {
        return;
    }
    let place = Place::new("degraded");
    let serve_without = |mode: &str| {
        place.file("ssd", 32);
        place.file("hdd", 48);
        place.succeed(&format!("create tank --force --scheme smart-response --ssd ssd --hdd hdd --set mode={mode}"));
        let running = place.serve("serve tank");
        // The blocks are not adjacent: a stream of writes would bypass the cache.
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

    // Written back: the newest content is lost with the drive.
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
        ("unix:ssd", "is not a socket"),
    ] {
        let message = place.refuse(&format!("serve tank --nbd {endpoint}"));
        assert!(message.contains(expected), "{message}");
    }
    let message = place.refuse("serve tank --nbd tcp:127.0.0.1:0 --tls-certificates nowhere --tls-verify-peer");
    assert!(message.contains("nowhere/server-cert.pem"), "{message}");
    assert!(place.refuse("serve tank --tls-certificates nowhere").contains("--nbd tcp:HOST:PORT"));
    let mut running = place.serve("serve tank --nbd tcp:127.0.0.1:0 --insecure-tcp");
    assert!(running.uri().starts_with("nbd://127.0.0.1:"), "{}", running.ready);
    assert!(Path::new("/proc").join(running.child.id().to_string()).exists());
    let mut greeting = [0; 8];
    let address = running.uri().trim_start_matches("nbd://").trim_end_matches("/tank").to_owned();
    std::net::TcpStream::connect(address).and_then(|mut stream| stream.read_exact(&mut greeting)).expect("it serves");
    assert_eq!(&greeting, b"NBDMAGIC");
    running.child.kill().expect("it runs");
}

/// Regression: a server asked for a stop before the change, and the change was then refused.
#[test]
fn served_volume_refuses_settings_of_simulations() {
    for (number, (scheme, setting, expected)) in [
        ("mixedstore", "wear_levelling=adaptive", "a real drive keeps its own wear levelling"),
        ("mixedstore", "idle_periods=profiled", "expected idle_periods=detected"),
        ("griffin", "migration=instant", "expected migration=timed"),
    ]
    .into_iter()
    .enumerate()
    {
        let place = Place::new(&format!("simulated{number}"));
        place.file("ssd", 64);
        place.file("hdd", 128);
        place.succeed(&format!("create tank --force --scheme {scheme} --ssd ssd --hdd hdd"));
        let refused = || place.refuse(&format!("set tank {setting}"));
        let is_refused =
            |text: &str| text.contains("only a simulation can follow this setting") && text.contains(expected);
        let running = place.serve("serve tank");
        assert!(is_refused(&refused()), "{}", refused());
        assert_eq!(running.terminate(), 0);
        assert!(is_refused(&refused()), "{}", refused());
    }
}

/// Drives that became larger are used with their old size. After a resize the volume uses these
/// drives up to their end.
#[test]
fn grown_drives_are_used_to_their_end_after_a_resize() {
    if !has("qemu-io") {
        return;
    }
    for (scheme, home, other) in [("smart-response --set mode=maximized", "hdd", "ssd"), ("griffin", "ssd", "hdd")] {
        let place = Place::new("grown");
        place.file(other, 32);
        place.file(home, 48);
        place.succeed(&format!("create tank --scheme {scheme} --ssd ssd --hdd hdd"));
        let running = place.serve("serve tank");
        running.qemu_io(&["write -P 0x51 0 1M", "write -P 0x52 40M 64k", "flush"]);
        assert_eq!(running.terminate(), 0);
        place.succeed("resize tank");
        // The header of an attached home was once taken for a file system in the way.
        let message = place.refuse(&format!("resize tank --{home}-size 44MiB"));
        assert!(message.contains("bimetal drain tank --detach"), "{message}");
        place.file(home, 96);
        // The volume has its old size. The grown drive's label is found at the position that the
        // other drive's label records.
        let running = place.serve("serve tank");
        running.qemu_io(&["read -P 0x51 0 1M", "read -P 0x52 40M 64k", "write -P 0x53 1M 4k", "flush"]);
        let message = place.refuse("resize tank");
        assert!(message.contains("is being served"), "{message}");
        assert_eq!(running.terminate(), 0);
        place.file(other, 64);
        let name = format!("./{home}");
        assert!(place.refuse(&format!("resize {name}")).contains("bimetal drain tank --detach"));
        place.succeed(&format!("drain {name} --detach"));
        place.succeed(&format!("resize {name}"));
        let running = place.serve("serve tank");
        running.qemu_io(&[
            "read -P 0x51 0 1M",
            "read -P 0x53 1M 4k",
            "read -P 0x52 40M 64k",
            "write -P 0x54 90M 1M",
            "flush",
        ]);
        running.kill();
        let running = place.serve("serve tank");
        running.qemu_io(&["read -P 0x54 90M 1M", "read -P 0x52 40M 64k"]);
        assert_eq!(running.terminate(), 0);

        // The other drive uses less again, and is then cut off behind the used part.
        place.succeed("drain tank --detach");
        place.succeed(&format!("resize tank --{other}-size 24MiB"));
        let running = place.serve("serve tank");
        running.qemu_io(&["read -P 0x54 90M 1M", "write -P 0x55 2M 64k", "flush"]);
        assert_eq!(running.terminate(), 0);
        place.file(other, 24);
        let running = place.serve("serve tank");
        running.qemu_io(&["read -P 0x54 90M 1M", "read -P 0x55 2M 64k", "read -P 0x51 0 1M"]);
        assert_eq!(running.terminate(), 0);
    }
}

/// Regression: when both drives of a volume had grown for the second time, no label recorded the
/// new positions of their labels. `status`, `serve` and `resize` reported "no drive with a label of
/// volume" and named no remedy.
#[test]
fn grown_drives_are_found_by_name() {
    let place = Place::new("grown-twice");
    let grow = |mib| ["ssd", "hdd"].into_iter().for_each(|name| place.file(name, mib));
    grow(64);
    place.succeed("create tank --scheme hybrid-disk --ssd ssd --hdd hdd");
    for (mib, forgotten) in [(80, false), (112, false), (144, true)] {
        grow(mib);
        if forgotten {
            fs::remove_file(place.0.join("state/bimetal/sizes")).expect("sizes are remembered");
        }
        place.succeed("status tank");
        let running = place.serve("serve tank");
        assert_eq!(running.terminate(), 0);
        place.succeed("drain tank --detach");
        place.succeed("resize tank");
    }
    let output = place.bimetal("status tank --json").output().expect("bimetal starts");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(json["members"][0]["bytes"], 144 << 20);
}

#[test]
fn a_drive_alone_that_has_grown_is_found_by_its_path() {
    if !has("qemu-io") {
        return;
    }
    let place = Place::new("alone");
    place.file("ssd", 32);
    place.succeed("create tank --scheme ssd-only --ssd ssd");
    let running = place.serve("serve tank");
    running.qemu_io(&["write -P 0x61 0 1M", "flush"]);
    assert_eq!(running.terminate(), 0);
    place.file("ssd", 80);
    place.succeed("status tank");
    let running = place.serve("serve ./ssd");
    running.qemu_io(&["read -P 0x61 0 1M"]);
    assert_eq!(running.terminate(), 0);
    place.succeed("resize ./ssd");
    let running = place.serve("serve tank");
    running.qemu_io(&["read -P 0x61 0 1M", "write -P 0x62 79M 64k", "flush", "read -P 0x62 79M 64k"]);
    assert_eq!(running.terminate(), 0);
    place.succeed("resize tank");
    assert!(place.refuse("resize tank --ssd-size 81MiB").contains("make the drive larger first"));
    assert!(place.refuse("resize tank --hdd-size 8MiB").contains("no drive with the role 'hdd'"));
    assert!(place.refuse("resize tank --ssd-size 64KiB").contains("too small"));
    assert!(place.refuse("resize tank --ssd-size 81916KiB").contains("too near"));
}

/// A resize is refused if blocks would change their place or a file system would lose its end.
#[test]
fn resize_that_moves_blocks_or_cuts_ext4_is_refused() {
    if !has("mkfs.ext4") {
        return;
    }
    let place = Place::new("cut-off");
    for name in ["ssd", "hdd", "solid"] {
        place.file(name, 32);
    }
    place.succeed("create both --scheme combo --ssd ssd --hdd hdd");
    place.file("ssd", 64);
    assert!(place.refuse("resize both").contains("only the last of them"));
    place.file("hdd", 64);
    assert!(place.refuse("resize ./ssd --ssd-size 32MiB --hdd-size 16MiB").contains("only enlarged"));
    place.succeed("resize ./ssd --ssd-size 32MiB");

    let made = Command::new("mkfs.ext4").args(["-q", "-F", "solid", "24m"]).current_dir(&place.0).status();
    assert!(made.expect("mkfs.ext4 runs").success());
    place.succeed("create one --scheme ssd-only --ssd solid");
    let message = place.refuse("resize one --ssd-size 20MiB");
    assert!(message.contains("resize2fs"), "{message}");
    place.succeed("resize one --ssd-size 28MiB");
}

/// Drives with sectors of 4 KiB serve and recover, alone and together with drives with smaller
/// sectors.
#[test]
fn drives_with_4_kib_sectors_serve_and_recover() {
    if !has("qemu-io") {
        return;
    }
    let cases = [
        ("smart-response --set mode=maximized", ["ssd"].as_slice()),
        ("smart-response --set mode=maximized", &["ssd", "hdd"]),
        ("griffin --set timeout=200ms", &["hdd"]),
        ("hybrid-disk", &["ssd", "hdd"]),
    ];
    for (number, (scheme, large)) in cases.into_iter().enumerate() {
        let place = Place::new("sectors");
        place.file("ssd", 32);
        place.file("hdd", 48);
        let device = |file: &&str| LoopDevice::over(&place.0.join(file), &["--sector-size", "4096", "--direct-io=on"]);
        let Some(loops) = large.iter().map(device).collect::<Option<Vec<LoopDevice>>>() else {
            assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "no loop device with sectors of 4 KiB");
            println!("skipped: no loop device with sectors of 4 KiB");
            return;
        };
        let path = |file: &str| large.iter().position(|name| *name == file).map_or(file, |at| &loops[at].0).to_owned();
        let (ssd, hdd) = (path("ssd"), path("hdd"));
        // Every process on this machine sees a loop device, and volumes are found by name.
        let name = format!("sectors-{}-{number}", std::process::id());
        place.succeed(&format!("create {name} --scheme {scheme} --ssd {ssd} --hdd {hdd}"));
        let serve = format!("serve {}", loops[0].0);
        let running = place.serve(&serve);
        running.qemu_io(&["write -P 0x71 0 1M", "write -P 0x72 8M 4k", "write -f -P 0x73 9M 12k", "flush"]);
        // The export offers no smaller requests: qemu reads around the written part.
        running.qemu_io(&["write -P 0x74 1024 512", "read -P 0x74 1024 512", "read -P 0x71 1536 2k", "flush"]);
        running.kill();
        let running = place.serve(&serve);
        running.qemu_io(&[
            "read -P 0x74 1024 512",
            "read -P 0x71 4k 1020k",
            "read -P 0x72 8M 4k",
            "read -P 0x73 9M 12k",
        ]);
        assert_eq!(running.terminate(), 0, "{scheme}");
        place.succeed(&format!("drain {} --detach", loops[0].0));
        let home = if scheme.starts_with("griffin") { "ssd" } else { "hdd" };
        let home = fs::read(place.0.join(home)).expect("the home");
        assert!(
            home[4096..1 << 20].iter().all(|&byte| byte == 0x71) && home[8 << 20] == 0x72,
            "{scheme}: home is plain"
        );
    }
}

/// Regression: `strategy=type` was accepted without a map and served, but moved nothing
/// and printed no message.
#[test]
fn served_volume_moves_by_a_map_that_is_refreshed() {
    let place = Place::new("files");
    place.file("ssd.img", 64);
    place.file("hdd.img", 256);
    let create = "create box --scheme combo --set strategy=type --set idle=10ms --ssd ssd.img --hdd hdd.img";
    let refused = place.refuse(create);
    assert!(refused.contains("strategy=type") && refused.contains("--files MAP.csv"), "{refused}");
    let mib = |mib: u64| mib << 20;
    let map = |more: &str| {
        let text = format!("0,{},<free>\n{},{},/usr/bin/tool\n{more}", mib(8), mib(100), mib(4));
        fs::write(place.0.join("new.csv"), text).expect("a file for the test");
        fs::rename(place.0.join("new.csv"), place.0.join("map.csv")).expect("a file for the test");
    };
    let beyond = format!("{},{},/other/drive\n", mib(300), mib(100));
    map(&beyond);
    let refused = place.refuse(&format!("{create} --files map.csv"));
    assert!(refused.contains("map.csv: the map ends at 419430400 bytes, and the volume has 3"), "{refused}");
    map("");
    place.succeed(&format!("{create} --files map.csv"));
    map(&beyond);
    let refused = place.refuse("serve box --files map.csv");
    assert!(refused.contains("map.csv: the map ends at 419430400 bytes, and the volume has 3"), "{refused}");
    map("");
    let server = place.serve("serve box --files map.csv");
    // Waits until this many bytes have come to the SSD. For each MiB, one range comes and another
    // leaves, and each move is recorded on the SSD by four pages of state.
    let wait_for = |moved: u64| {
        let bytes = moved + moved / mib(1) * 8 * 4096;
        let limit = Instant::now() + Duration::from_secs(120);
        loop {
            let status = place.bimetal("status box --json").output().expect("bimetal starts").stdout;
            let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
            let written = &status["members"][0]["write_bytes"];
            if written.as_u64() == Some(bytes) {
                return;
            }
            assert!(Instant::now() < limit, "{written} bytes were written to the SSD, expected {bytes}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    wait_for(mib(4));
    map(&format!("{},{},/usr/lib/libc.so.6\n", mib(150), mib(2)));
    wait_for(mib(6));
    assert_eq!(server.terminate(), 0);
}

/// Returns true if a write of 1 MiB at `at` goes to the SSD of the volume `box`, false if it goes
/// to the disk. Pages of a file system's metadata are much smaller than such a write.
fn goes_to_ssd(place: &Place, running: &Running, at: &str) -> bool {
    let written = || {
        let status = place.bimetal("status box --json").output().expect("bimetal starts").stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
        let member = |role: &str| {
            let members = status["members"].as_array().expect("members");
            let member = members.iter().find(|member| member["role"] == role).expect("a member of the role");
            member["write_bytes"].as_u64().expect("bytes")
        };
        [member("cache"), member("home")]
    };
    let before = written();
    running.qemu_io(&[&format!("write {at} 1M")]);
    let after = written();
    let [ssd, hdd] = [0, 1].map(|member| after[member] - before[member] >= 1 << 20);
    assert_ne!(ssd, hdd, "{at}: one of the drives has the write");
    ssd
}

/// A large write goes to flash only if its addresses are pinned. A list of pins replaces the list
/// before, and is in force after a restart.
#[test]
fn pins_of_a_served_volume_change_by_set() {
    if !has("qemu-io") {
        return;
    }
    let place = Place::new("pins");
    place.file("ssd", 64);
    place.file("hdd", 256);
    place.succeed("create box --scheme hybrid-disk --ssd ssd --hdd hdd");
    let running = place.serve("serve box");
    assert!(!goes_to_ssd(&place, &running, "128M"));
    place.succeed("set box pin=128MiB-129MiB");
    assert!(goes_to_ssd(&place, &running, "128M"));
    place.succeed("set box pin=64MiB-65MiB");
    assert!(place.refuse("set box pin=0-200MiB").contains("expected at most half of the flash"));
    assert!(!goes_to_ssd(&place, &running, "129M"));
    assert_eq!(running.terminate(), 0);
    let running = place.serve("serve box");
    assert!(goes_to_ssd(&place, &running, "64M"));
    assert!(!goes_to_ssd(&place, &running, "66M"));
    assert_eq!(running.terminate(), 0);
}

/// Writes to addresses that the map calls free space or a file go to the disk, and metadata goes to
/// the SSD.
#[test]
fn served_volume_finds_metadata_by_a_map_that_is_refreshed() {
    if !has("qemu-io") {
        return;
    }
    let place = Place::new("metadata");
    place.file("ssd", 64);
    place.file("hdd", 256);
    let mib = |mib: u64| mib << 20;
    let map = |film: u64| {
        let text = format!("0,{},<free>\n{},{},/films/one.mkv\n", mib(100), mib(film), mib(4));
        fs::write(place.0.join("new.csv"), text).expect("a file for the test");
        fs::rename(place.0.join("new.csv"), place.0.join("map.csv")).expect("a file for the test");
    };
    map(120);
    let settings = "--set metadata=on --set write_threshold=off --set flush_period=off";
    place.succeed(&format!("create box --scheme os-managed {settings} --ssd ssd --hdd hdd --files map.csv"));
    let running = place.serve("serve box --files map.csv");
    let goes = |at: &str| goes_to_ssd(&place, &running, at);
    assert_eq!(["10M", "121M", "200M"].map(goes), [false, false, true]);
    map(204);
    let limit = Instant::now() + Duration::from_secs(120);
    while goes("205M") {
        assert!(Instant::now() < limit, "the new map is not in force");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(goes("208M"), "behind the film");
    assert_eq!(running.terminate(), 0);
}
