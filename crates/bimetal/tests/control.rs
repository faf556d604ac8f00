//! Commands that maintain a volume, run with the real program: status, drain, detach, set, with and
//! without a server.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use support::{LoopDevice, is_no};

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// A directory with drives and with the program's own state.
struct Place(PathBuf);

impl Place {
    fn new(name: &str, scheme: &str) -> Self {
        Self::with_volume(name, scheme, "box")
    }

    fn with_volume(name: &str, scheme: &str, volume: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-control-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let place = Self(directory);
        for (drive, mib) in [("ssd.img", 64), ("hdd.img", 64)] {
            File::create(place.0.join(drive)).and_then(|file| file.set_len(mib << 20)).unwrap();
        }
        place.succeed(&format!("create {volume} --scheme {scheme} --ssd ssd.img --hdd hdd.img"));
        place
    }

    /// Returns a command that ends within a minute. A server is started without `timeout`, so that
    /// a signal reaches the server alone.
    fn command(&self, line: &str) -> Command {
        let mut command = if line.starts_with("serve") { Command::new(BIMETAL) } else { Command::new("timeout") };
        if !line.starts_with("serve") {
            command.args(["-k", "1", "60", BIMETAL]);
        }
        command
            .args(line.split_whitespace())
            .current_dir(&self.0)
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env("XDG_RUNTIME_DIR", self.0.join("run"));
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refuse(&self, line: &str) -> String {
        let output = self.run(line);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {message}");
        message
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.succeed("status box --json")).unwrap()
    }

    /// Serves the volume until 4 KiB at its beginning are flushed, and kills the server.
    fn crash_after_flush(&self) {
        let served = self.serve("");
        let mut disk = self.disk();
        disk.write(0, &[1; 4096]);
        disk.flush();
        served.signal("-KILL");
    }

    /// Serves the volume.
    fn serve(&self, options: &str) -> Served {
        self.serve_drive("box", options)
    }

    fn serve_drive(&self, drive: &str, options: &str) -> Served {
        self.serve_volume("box", drive, options)
    }

    /// Serves `volume`; `named` is the volume's name or the path of a drive.
    fn serve_volume(&self, volume: &str, named: &str, options: &str) -> Served {
        let mut child = self
            .command(&format!("serve {named} {options}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("ready {volume} ")), "{line}");
        Served(child)
    }

    fn disk(&self) -> Disk {
        Disk::connect(&self.0.join("run/bimetal/box.sock"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server; killed when it is dropped.
struct Served(Child);

impl Served {
    /// Waits for the server's end, and returns its standard error.
    fn wait(mut self) -> String {
        assert!(self.0.wait().unwrap().success());
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// A client of the block device that writes and flushes.
struct Disk(UnixStream);

impl Disk {
    fn connect(path: &std::path::Path) -> Self {
        Self::connect_to(path, "box")
    }

    fn connect_to(path: &std::path::Path, export: &str) -> Self {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle without zeroes; then NBD_OPT_EXPORT_NAME.
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(1u32.to_be_bytes());
        hello.extend((export.len() as u32).to_be_bytes());
        hello.extend(export.as_bytes());
        socket.write_all(&hello).unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        Self(socket)
    }

    fn ask(&mut self, kind: u16, offset: u64, data: &[u8]) {
        self.send(kind, offset, data.len(), data);
    }

    fn send(&mut self, kind: u16, offset: u64, len: usize, data: &[u8]) {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(0u16.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend([0; 8]);
        request.extend(offset.to_be_bytes());
        request.extend((len as u32).to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4], "an error");
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(1, offset, data);
    }

    fn flush(&mut self) {
        self.ask(3, 0, &[]);
    }

    fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.send(0, offset, len, &[]);
        let mut data = vec![0; len];
        self.0.read_exact(&mut data).unwrap();
        data
    }
}

#[test]
fn a_served_volume_is_asked_drained_and_ends_as_a_plain_disk() {
    let place = Place::new("served", "griffin");
    let text = place.succeed("status box");
    assert!(text.starts_with("box: griffin, stopped\n  everything is at home\n"), "{text}");
    // A refused command leaves the home a plain disk.
    let far = format!("unix:{}/nodir/x.sock", place.0.display());
    for (wrong, said) in [
        ("--metrics 9464".to_owned(), "expected HOST:PORT of this machine"),
        (format!("--nbd {far}"), "does not exist: make it"),
        ("--nbd tcp:0.0.0.0:0".to_owned(), "give certificates"),
    ] {
        assert!(place.refuse(&format!("serve box {wrong}")).contains(said), "{wrong}");
        assert_eq!(place.json()["state"], "stopped");
    }
    let served = place.serve("--metrics 127.0.0.1:0");
    let mut disk = place.disk();
    (0..50).for_each(|at| disk.write(at * 8192, &[at as u8 + 1; 4096]));
    disk.flush();
    let json = place.json();
    assert_eq!((&json["state"], &json["dirty_bytes"]), (&"serving".into(), &(50 * 4096).into()));
    let text = place.succeed("status ssd.img");
    assert!(text.contains("dirty    200KiB, dirty for at most"), "{text}");
    assert!(text.contains("50 writes, p50 "), "{text}");
    assert!(place.refuse("drain nobody").contains("no drive with a label of volume 'nobody'"));
    let message = place.refuse("drain box --detach");
    assert!(message.contains("1 client is connected to 'box'"), "{message}");
    drop(disk);
    let text = place.succeed("drain box --detach");
    assert!(text.contains("home has everything"), "{text}");
    // When the command has ended, the home drive is a plain disk.
    let home = fs::read(place.0.join("ssd.img")).unwrap();
    (0..50).for_each(|at| assert_eq!(home[at * 8192], at as u8 + 1));
    let said = served.wait();
    assert!(said.contains("metrics of 'box' are at http://127.0.0.1:"), "{said}");
    assert!(said.contains("ssd is a plain disk now"), "{said}");
    assert_eq!(place.json()["dirty_bytes"], 0);
    // The home stays a plain disk: a check does not make it a member in use again.
    let before = fs::read(place.0.join("ssd.img")).unwrap();
    assert!(place.succeed("check box --scrub").contains("there is nothing to check"));
    assert_eq!(place.succeed("status box").lines().next(), Some("box: griffin, stopped"));
    assert!(fs::read(place.0.join("ssd.img")).unwrap() == before);
}

#[test]
fn what_was_given_up_with_a_drive_is_not_called_safe() {
    let place = Place::new("given-up", "bcache");
    place.crash_after_flush();
    fs::remove_file(place.0.join("ssd.img")).unwrap();
    assert!(place.refuse("serve hdd.img --degraded").contains("needed"));
    let served = place.serve_drive("hdd.img", "--accept-loss");
    let meaning = place.json()["meaning"].as_str().unwrap().to_owned();
    assert!(meaning.contains("was given up (--accept-loss)") && !meaning.contains("is lost with it"), "{meaning}");
    served.signal("-TERM");
    assert!(served.wait().contains("was given up (--accept-loss)"));
}

#[test]
fn reattached_volume_serves_writes_made_to_the_plain_disk() {
    for scheme in ["smart-response", "hybrid-disk", "bcache", "dataplex", "hddboost"] {
        let place = Place::new("plain", scheme);
        let served = place.serve("");
        let mut disk = place.disk();
        for at in 0..20 {
            disk.write(at * 8192, &[1; 4096]);
            disk.flush();
            (0..3).for_each(|_| assert_eq!(disk.read(at * 8192, 4096), [1; 4096]));
        }
        drop(disk);
        place.succeed("drain box --detach");
        served.wait();
        let plain = File::options().write(true).open(place.0.join("hdd.img")).unwrap();
        (0..20).for_each(|at| plain.write_all_at(&[2; 4096], at * 8192).unwrap());
        drop(plain);
        let _served = place.serve("");
        let mut disk = place.disk();
        (0..20).for_each(|at| assert_eq!(disk.read(at * 8192, 4096), [2; 4096], "{scheme}"));
    }
}

#[test]
fn stopped_volume_drains_and_home_needs_no_other_drive() {
    let place = Place::new("stopped", "hybrid-disk");
    let served = place.serve("");
    let mut disk = place.disk();
    (0..50).for_each(|at| disk.write(at * 8192, &[at as u8 + 1; 4096]));
    disk.flush();
    served.signal("-KILL");
    drop(served);
    let text = place.succeed("status box");
    assert!(text.contains("some content may be only off home"), "{text}");
    assert!(text.contains("dirty    200KiB that home does not have"), "{text}");
    assert_eq!(place.json()["dirty_bytes"], 50 * 4096, "a look changes nothing");
    let text = place.succeed("drain box");
    assert!(text.contains("home has everything"), "{text}");
    let home = fs::read(place.0.join("hdd.img")).unwrap();
    (0..50).for_each(|at| assert_eq!(home[at * 8192], at as u8 + 1));
    assert!(place.refuse("set box move_rate=0").contains("expected a size of at least 64KiB, or off"));
    fs::create_dir(place.0.join("shelf")).unwrap();
    fs::rename(place.0.join("hdd.img"), place.0.join("shelf/hdd.img")).unwrap();
    let message = place.refuse("serve ssd.img");
    assert!(message.contains("is home of blocks, and the volume cannot be served without it"), "{message}");
    fs::rename(place.0.join("shelf/hdd.img"), place.0.join("hdd.img")).unwrap();
    fs::remove_file(place.0.join("ssd.img")).unwrap();
    let text = place.succeed("status hdd.img");
    assert!(text.contains("everything is at home, on the connected drives"), "{text}");
    assert!(
        place.json()["wear"].as_array().is_some_and(Vec::is_empty),
        "what a drive that is not there has done is not known"
    );
}

#[test]
fn slow_drain_reports_progress_before_its_first_batch_ends() {
    let place = Place::new("slowly", "hybrid-disk");
    let served = place.serve("");
    let mut disk = place.disk();
    (0..96).for_each(|at| disk.write(at * 8192, &[1; 4096]));
    disk.flush();
    place.succeed("set box move_rate=64KiB");
    let mut drain = place.command("drain box").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut seen = Vec::new();
    while drain.try_wait().unwrap().is_none() {
        seen.extend(place.json()["drain"]["done_bytes"].as_u64().filter(|&done| 0 < done && done < 96 * 4096));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(seen.is_sorted() && seen.first() < seen.last(), "{seen:?}");
    drop((served, disk));
}

#[test]
fn a_cache_is_detached_while_a_client_goes_on() {
    let place = Place::new("detach", "smart-response");
    assert!(place.refuse("detach box").contains("not being served"));
    let served = place.serve("");
    let mut disk = place.disk();
    disk.write(0, &[1; 4096]);
    disk.flush();
    let text = place.succeed("detach box");
    assert!(text.contains("the other drive is detached"), "{text}");
    // The detached drive is not in use any more.
    File::open(place.0.join("ssd.img")).unwrap().try_lock().unwrap();
    disk.write(0, &[2; 4096]);
    disk.flush();
    assert_eq!(place.json()["state"], "degraded");
    served.signal("-TERM");
    served.wait();
}

#[test]
fn drive_that_is_home_of_blocks_cannot_be_detached() {
    let place = Place::new("home", "os-managed");
    let _served = place.serve("");
    // The units are the disk unit and the SSD's flash unit.
    let mut units = ["box", "box.1"].map(|name| Disk::connect_to(&place.0.join("run/bimetal/box.sock"), name));
    units.iter_mut().for_each(|unit| unit.write(0, &[1; 4096]));
    units[0].flush();
    assert!(place.refuse("detach box").contains("every drive is home of blocks"));
    assert!(place.refuse("attach box new.img").contains("every drive of this volume is home of blocks"));
    for unit in &mut units {
        assert_eq!(unit.read(0, 4096), [1; 4096]);
        unit.write(0, &[2; 4096]);
        unit.flush();
    }
    assert_eq!(place.json()["state"], "serving");
}

/// A stopped process still holds its socket. The message reports that a server does not answer, not
/// that no server runs.
#[test]
fn silent_server_is_distinguished_from_an_absent_one() {
    let place = Place::new("silent", "griffin");
    let served = place.serve("");
    served.signal("-STOP");
    let message = place.refuse("status box");
    served.signal("-CONT");
    assert!(message.contains("no answer of the server for 10 s"), "{message}");
    assert_eq!(place.json()["state"], "serving");
}

#[test]
fn what_is_served_is_recorded_and_analysed() {
    let place = Place::new("trace", "hybrid-disk");
    let _served = place.serve("");
    let mut disk = place.disk();
    disk.write(0, &[1; 4096]);
    assert!(place.refuse("trace stop box").contains("no recording is under way"));
    assert!(place.refuse("trace start box nowhere/at.bin").contains("nowhere/at.bin"));
    let message = place.refuse("trace start box hdd.img");
    assert!(message.contains("hdd.img' exists already: choose another name"), "{message}");
    place.succeed("trace start box live.bin");
    assert!(place.refuse("trace start box other.bin").contains("are being recorded already"));
    (0..40).for_each(|at| disk.write(at * 8192, &[1; 4096]));
    disk.flush();
    assert_eq!(place.json()["trace"]["requests"], 41);
    let text = place.succeed("trace stop box");
    assert!(text.starts_with("41 requests are in ") && text.ends_with("live.bin\n"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&place.succeed("analyze live.bin --json")).unwrap();
    assert_eq!((&json["block_ios"], &json["read_fraction"]), (&40.into(), &0.0.into()));
    assert_eq!(json["footprint_bytes"], 40 * 4096);
    assert!(place.json()["trace"].is_null());
}

#[test]
fn new_drive_replaces_a_detached_or_missing_cache() {
    let place = Place::new("attach", "hybrid-disk");
    let served = place.serve("");
    let mut disk = place.disk();
    disk.write(0, &[1; 4096]);
    assert!(place.refuse("attach box new.img").contains("is online: run `bimetal detach` first"));
    place.succeed("detach box");
    File::create(place.0.join("new.img")).and_then(|file| file.set_len(32 << 20)).unwrap();
    let message = place.refuse("attach box new.img");
    assert!(message.contains("has 33554432 bytes, and the drive that it replaces had 67108864"), "{message}");
    assert!(message.contains("stop the server to attach a drive of any size"), "{message}");
    File::create(place.0.join("new.img")).and_then(|file| file.set_len(64 << 20)).unwrap();
    let text = place.succeed("attach box new.img");
    assert!(text.contains("new.img is attached, and empty"), "{text}");
    disk.write(8192, &[2; 4096]);
    disk.flush();
    let json = place.json();
    assert_eq!((&json["state"], &json["dirty_bytes"]), (&"serving".into(), &4096.into()));
    assert!(json["members"][1]["path"].as_str().unwrap().ends_with("new.img"), "{json}");
    served.signal("-KILL");
    drop((served, disk));
    // The labels name the new drive, and the old drive is not a member of the volume any more.
    assert!(place.refuse("status ssd.img").contains("has been replaced"));
    assert!(place.succeed("status box").contains("new.img"));
    let served = place.serve("");
    assert_eq!(place.json()["dirty_bytes"], 4096);
    place.succeed("drain box --detach");
    served.wait();
    // A missing drive can be replaced without a server, too.
    fs::remove_file(place.0.join("new.img")).unwrap();
    let text = place.succeed("attach hdd.img ssd.img --force");
    assert!(text.contains("ssd.img is attached, and empty"), "{text}");
    let served = place.serve("");
    place.disk().write(0, &[3; 4096]);
    assert_eq!((&place.json()["state"], &place.json()["dirty_bytes"]), (&"serving".into(), &4096.into()));
    drop(served);
}

/// A detached drive is not needed. The detached drive may be attached again, or be replaced by a
/// smaller or larger drive.
#[test]
fn detached_drive_is_optional_and_replaced_at_any_size() {
    for scheme in ["hybrid-disk", "griffin"] {
        let place = Place::new("sizes", scheme);
        let off = if scheme == "griffin" { "hdd.img" } else { "ssd.img" };
        let served = place.serve("");
        place.disk().write(0, &[1; 4096]);
        place.succeed("detach box");
        served.signal("-TERM");
        served.wait();
        // The detached drive is not needed, connected or not.
        assert_eq!(place.json()["state"], "stopped, attached");
        drop(place.serve(""));
        fs::rename(place.0.join(off), place.0.join("aside")).unwrap();
        assert_eq!(place.json()["state"], "stopped, attached");
        let text = place.succeed("status box");
        assert!(text.contains("let go   missing, last seen"), "{text}");
        drop(place.serve(""));
        // The detached drive is attached again: first to the server that detached it, then without
        // a server.
        fs::rename(place.0.join("aside"), place.0.join(off)).unwrap();
        let served = place.serve("");
        place.succeed(&format!("attach box {off}"));
        place.succeed("detach box");
        served.signal("-KILL");
        drop(served);
        place.succeed(&format!("attach box {off}"));
        let served = place.serve("");
        assert_eq!(place.json()["state"], "serving");
        place.succeed("detach box");
        drop(served);
        // The new drive is smaller, with the old drive still connected. Then it is larger, first
        // during service and then without a server.
        for (name, mib, live) in [("small.img", 32, false), ("more.img", 96, true), ("most.img", 128, false)] {
            File::create(place.0.join(name)).and_then(|file| file.set_len(mib << 20)).unwrap();
            let served = live.then(|| place.serve(""));
            place.succeed(&format!("attach box {name}"));
            drop(served);
            let served = place.serve("");
            assert_eq!(place.json()["state"], "serving", "{scheme} {name}");
            let used = place.json()["members"]
                .as_array()
                .unwrap()
                .iter()
                .map(|member| member["bytes"].as_u64().unwrap())
                .collect::<Vec<_>>();
            assert!(used.contains(&(if live { 32 } else { mib } << 20)), "{used:?}");
            let mut disk = place.disk();
            assert_eq!(disk.read(0, 4096), [1; 4096]);
            disk.write(8192, &[2; 4096]);
            disk.flush();
            served.signal("-KILL");
            drop((served, disk));
            let served = place.serve_drive(name, "");
            assert_eq!(place.disk().read(8192, 4096), [2; 4096], "{scheme} {name}");
            place.succeed("detach box");
            drop(served);
        }
    }
}

#[test]
fn an_older_copy_of_a_drive_is_not_taken_for_the_drive() {
    let write = |place: &Place, byte| {
        let mut disk = place.disk();
        disk.write(0, &[byte; 4096]);
        disk.flush();
    };
    let stop = |served: Served| {
        served.signal("-TERM");
        served.wait();
    };
    for (name, while_serving, killed) in [("copied", false, false), ("killed", false, true), ("hot", true, false)] {
        for drive in ["ssd.img", "hdd.img"] {
            let place = Place::new(name, "hybrid-disk");
            let (drive, copy, original) = (place.0.join(drive), place.0.join("copy"), place.0.join("original"));
            let served = place.serve("");
            write(&place, 1);
            if while_serving {
                fs::copy(&drive, &copy).unwrap();
                write(&place, 2);
                stop(served);
            } else {
                stop(served);
                fs::copy(&drive, &copy).unwrap();
                let served = place.serve("");
                write(&place, 2);
                if killed {
                    served.signal("-KILL");
                } else {
                    stop(served);
                }
            }
            fs::rename(&drive, &original).unwrap();
            fs::rename(&copy, &drive).unwrap();
            let message = place.refuse("serve box");
            assert!(message.contains("or one is an older copy"), "{name}: {message}");
            fs::rename(&original, &drive).unwrap();
            let _served = place.serve("");
            assert_eq!(place.disk().read(0, 4096), [2; 4096], "{name}");
        }
    }
}

#[test]
fn foreign_write_over_home_is_refused_without_accept_loss() {
    let place = Place::new("overwritten", "hybrid-disk");
    place.crash_after_flush();
    let home = File::options().write(true).open(place.0.join("hdd.img")).unwrap();
    home.write_all_at(&[7; 4096], 4096).unwrap();
    for command in ["serve box", "drain box", "check box"] {
        let message = place.refuse(command);
        assert!(message.contains("sector 8 of the drive was written while its volume was attached"), "{message}");
        assert!(message.contains("`bimetal serve --accept-loss` restores it"), "{message}");
    }
    let served = place.serve("--accept-loss");
    assert_eq!(place.disk().read(0, 8192), [[1; 4096], [0; 4096]].concat());
    let loss = place.json()["accepted_losses"][0].clone();
    assert_eq!((&loss["drive"], &loss["what"]), (&"hdd".into(), &"foreign".into()));
    place.succeed("drain box --detach");
    let said = served.wait();
    assert!(said.contains("another program had overwritten the beginning"), "{said}");
    assert_eq!(fs::read(place.0.join("hdd.img")).unwrap()[..8192], [[1; 4096], [0; 4096]].concat());
}

#[test]
fn a_flipped_bit_is_found_while_serving_and_without_a_server() {
    let place = Place::new("check", "hybrid-disk");
    let served = place.serve("");
    let mut disk = place.disk();
    (0..300).for_each(|at| disk.write(at * 8192, &[at as u8; 4096]));
    disk.flush();
    assert_eq!(place.succeed("check box"), "the map is consistent\n");
    assert!(place.succeed("check box --scrub").contains("300 blocks off home: all checksums match"));
    let ssd = fs::read(place.0.join("ssd.img")).unwrap();
    let at = ssd.chunks(4096).position(|block| block == [77; 4096]).unwrap() * 4096 + 1234;
    let drive = File::options().write(true).open(place.0.join("ssd.img")).unwrap();
    drive.write_all_at(&[79], at as u64).unwrap();
    drive.sync_all().unwrap();
    let output = place.run("check box --scrub");
    assert_eq!(output.status.code(), Some(3), "the answer is no");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("300 blocks off home read, 1 bad block"), "{text}");
    assert!(text.contains(&format!("unit 0 byte {}: 4096 bytes, no good copy", 77 * 8192)), "{text}");
    served.signal("-TERM");
    served.wait();
    let output = place.run("check box --scrub --json");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["bad_blocks"], &json["bad"][0]["offset_bytes"]), (&1.into(), &(77 * 8192).into()));
    // Home has older content at this block, and on a plain disk nothing would show that.
    drop(disk);
    let served = place.serve("");
    for drain in ["drain box --detach", "drain box", "detach box"] {
        let ended = place.run(drain);
        assert!(is_no(&ended, "are lost, and home has older content there"), "{drain}: {ended:?}");
    }
    assert_eq!(place.json()["state"], "serving");
    // The report of the check matches what a reader gets, and a write replaces the lost block.
    place.disk().write(77 * 8192, &[5; 4096]);
    let output = place.run("check box --scrub");
    assert_eq!(output.status.code(), Some(3), "that it was lost is listed until somebody acknowledges it");
    assert!(String::from_utf8(output.stdout).unwrap().contains("rewritten"));
    place.succeed("acknowledge box");
    assert!(place.succeed("check box --scrub").contains("blocks off home: all checksums match"));
    place.succeed("drain box --detach");
    served.wait();
    assert_eq!(fs::read(place.0.join("hdd.img")).unwrap()[77 * 8192..][..4096], [5; 4096]);
}

#[test]
fn parameters_change_while_serving_or_after_a_drain() {
    let place = Place::new("set", "griffin");
    let served = place.serve("");
    let mut disk = place.disk();
    (0..10).for_each(|at| disk.write(at * 8192, &[1; 4096]));
    assert_eq!(place.json()["settings"]["migration_size"], "off");
    assert!(place.refuse("set box log_buffer=0").contains("cannot change while the volume is served"));
    assert!(place.refuse("set box migration_siz=1MiB").contains("has no parameter 'migration_siz'"));
    assert!(place.refuse("set box timeout=soon").contains("timeout=soon is not possible"));
    assert_eq!(place.succeed("set box griffin.move_rate=50MiB"), "move_rate=50MiB is in force\n");
    assert_eq!(place.succeed("set box migration_size=40KiB"), "migration_size=40KiB is in force\n");
    // The log already has enough blocks for the new trigger.
    let begun = std::time::Instant::now();
    while place.json()["dirty_bytes"] != 0 {
        assert!(begun.elapsed().as_secs() < 120, "{}", place.json());
    }
    assert_eq!(place.json()["migration"]["bytes"], 40 << 10);
    assert!(place.json()["wear"][0]["rated_life_years"].is_null());
    assert!(place.refuse("set box ssd.rated_writes=much").contains("ssd.rated_writes: "));
    place.succeed("set box ssd.rated_writes=150TB");
    assert!(place.json()["wear"][0]["rated_life_years"].as_f64().unwrap() > 0.0);
    disk.write(0, &[2; 4096]);
    disk.flush();
    let worn = |place: &Place| place.json()["wear"][0]["lifetime_write_bytes"].as_u64().unwrap();
    let written = worn(&place);
    assert!(written >= 40 << 10, "{written}");
    served.signal("-TERM");
    served.wait();
    // The total of written bytes survives the server's end, and grows during the next service.
    assert!(worn(&place) >= written);
    assert_eq!(place.json()["settings"]["migration_size"], "40KiB");
    assert_eq!(place.json()["settings"]["ssd.rated_writes"], "150TB");
    assert!(place.refuse("set box log_buffer=64KiB").contains("run `bimetal drain box` first"));
    assert!(place.succeed("set box migration_size=off").contains("takes effect at the next start"));
    place.succeed("drain box");
    place.succeed("set box log_buffer=64KiB");
    let served = place.serve("");
    assert_eq!(place.json()["settings"]["log_buffer"], "64KiB");
    assert!(worn(&place) > written, "the drain has written, too");
    assert!(place.json()["wear"][0]["rated_used"].as_f64().unwrap() > 0.0);
    drop(served);
}

/// Returns true if this process may mount and take loop devices. Without root the function prints
/// that the test is skipped.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "not root");
        println!("skipped: not root: nothing can be mounted");
    }
    root
}

/// Runs a program for its output; `None` if the program fails.
fn tool(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// Command that undoes a step at the end of a test, whether or not the test passes.
struct Undo(Vec<String>);

impl Drop for Undo {
    fn drop(&mut self) {
        let _ = Command::new(&self.0[0]).args(&self.0[1..]).status();
    }
}

/// Regression: when the file system below the SSD's file was full, the SSD was detached for good,
/// and no message named the errno.
#[test]
fn full_file_system_is_waited_for() {
    if !is_root() {
        return;
    }
    let place = Place::new("full", "hybrid-disk");
    let room = place.0.join("room");
    fs::create_dir(&room).unwrap();
    let path = room.to_str().unwrap().to_owned();
    if tool("mount", &["-t", "tmpfs", "-o", "size=24m", "tmpfs", &path]).is_none() {
        println!("skipped: no tmpfs can be mounted");
        return;
    }
    let _undo = Undo(vec!["umount".into(), "-l".into(), path]);
    File::create(room.join("ssd.img")).and_then(|file| file.set_len(64 << 20)).unwrap();
    fs::remove_file(place.0.join("ssd.img")).unwrap();
    place.succeed("create box --scheme hybrid-disk --set idle=1h --ssd room/ssd.img --hdd hdd.img --force");
    fs::write(room.join("filler"), vec![1; 12 << 20]).unwrap();
    let served = place.serve("");
    let socket = place.0.join("run/bimetal/box.sock");
    let writer = std::thread::spawn(move || {
        let mut disk = Disk::connect(&socket);
        (0..4000).for_each(|at| disk.write(at * 8192, &[(at % 250) as u8 + 1; 4096]));
        disk.flush();
        disk
    });
    let status = || place.json();
    let begun = std::time::Instant::now();
    while !status()["meaning"].as_str().unwrap().contains("No space left on device (28)") {
        assert!(begun.elapsed().as_secs() < 120, "{}", status());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(!writer.is_finished());
    // Stored content stays readable.
    assert_eq!(place.disk().read(0, 4096), [1; 4096]);
    assert_eq!(status()["members"][1]["state"], "online");
    fs::remove_file(room.join("filler")).unwrap();
    let mut disk = writer.join().unwrap();
    (0..4000).for_each(|at| assert_eq!(disk.read(at * 8192, 4096), [(at % 250) as u8 + 1; 4096], "block {at}"));
    let now = status();
    assert_eq!((&now["state"], &now["members"][1]["errors"]), (&"serving".into(), &0.into()), "{now}");
    assert!(!now["meaning"].as_str().unwrap().contains("No space left"), "{now}");
    drop(disk);
    served.signal("-TERM");
    let said = served.wait();
    assert!(said.contains("its file system is full: No space left on device (28)"), "{said}");
    assert!(said.contains("the file system has space again"), "{said}");
}

/// Regression: a clean SSD that was read-only for a while was detached at once at the start. Such
/// an SSD had to be attached anew, empty.
#[test]
fn read_only_cache_is_not_let_go_at_start() {
    if !is_root() {
        return;
    }
    // Other tests see the loop device, and they have a volume named `box`, so this volume has
    // another name.
    let place = Place::with_volume("read-only", "smart-response", "deck");
    let connect = || Disk::connect_to(&place.0.join("run/bimetal/deck.sock"), "deck");
    let state =
        || serde_json::from_str::<serde_json::Value>(&place.succeed("status deck --json")).unwrap()["state"].clone();
    let served = place.serve_volume("deck", "deck", "");
    let mut disk = connect();
    (0..50).for_each(|at| disk.write(at * 8192, &[1; 4096]));
    (0..50).for_each(|at| drop((disk.read(at * 8192, 4096), disk.read(at * 8192, 4096))));
    drop(disk);
    place.succeed("drain deck");
    served.signal("-TERM");
    served.wait();
    // The image is renamed to a path that no label records. So the loop device is found as the
    // drive, and not the file below it.
    let image = place.0.join("image").to_str().unwrap().to_owned();
    fs::rename(place.0.join("ssd.img"), &image).unwrap();
    let Some(made) = LoopDevice::over(Path::new(&image), &[]) else {
        println!("skipped: no loop device");
        return;
    };
    let device = made.0.clone();
    tool("blockdev", &["--setro", &device]).expect("blockdev");
    let before = fs::read(&image).unwrap();
    let message = place.refuse("serve deck");
    assert!(message.contains(&format!("ssd ({device}) is set read-only")), "{message}");
    assert!(message.contains(&format!("blockdev --setrw {device}")) && message.contains("--degraded"), "{message}");
    assert!(before == fs::read(&image).unwrap(), "something was written there");
    tool("blockdev", &["--setrw", &device]).expect("blockdev");
    let served = place.serve_volume("deck", "deck", "");
    assert_eq!(state(), "serving");
    assert_eq!(connect().read(0, 4096), [1; 4096]);
    served.signal("-TERM");
    served.wait();

    // Without the SSD, home changes, and the SSD's content is old from then on.
    tool("blockdev", &["--setro", &device]).expect("blockdev");
    let served = place.serve_volume("deck", "deck", "--degraded");
    let mut disk = connect();
    (0..50).for_each(|at| disk.write(at * 8192, &[2; 4096]));
    disk.flush();
    drop(disk);
    served.signal("-TERM");
    served.wait();
    tool("blockdev", &["--setrw", &device]).expect("blockdev");
    let served = place.serve_volume("deck", "deck", "--degraded");
    let text = place.succeed(&format!("attach deck {device}"));
    assert!(text.contains("is attached, and empty"), "{text}");
    let mut disk = connect();
    for _ in 0..3 {
        (0..50).for_each(|at| assert_eq!(disk.read(at * 8192, 4096), [2; 4096], "block {at}"));
    }
    assert_eq!(state(), "serving");
    drop((disk, served));
}

#[test]
fn scrub_on_schedule_is_reported_and_remembered() {
    let place = Place::new("scrubs", "hybrid-disk");
    assert!(place.refuse("serve box --scrub-every 7d --scrub-rate 1KiB").contains("at least 64KiB"));
    let served = place.serve("--scrub-every 1s --scrub-rate 1MiB --metrics 127.0.0.1:0");
    let mut disk = place.disk();
    (0..400).for_each(|at| disk.write(at * 8192, &[(at % 250) as u8 + 1; 4096]));
    disk.flush();
    let begun = std::time::Instant::now();
    let mut under_way = false;
    // The scrub that counts began after all writes: it reads 1.6 MiB at 1 MiB per second.
    while !under_way || place.json()["last_scrub"]["blocks_read"] != 400 {
        let now = place.json();
        under_way |= now["scrub"]["left_bytes"].as_u64().is_some_and(|left| left > 0);
        assert!(begun.elapsed().as_secs() < 120, "{now}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let last = place.json()["last_scrub"].clone();
    assert!(last["took_s"].as_f64().unwrap() > 0.8, "{last}");
    assert_eq!((&last["bad_blocks"], &last["read_bytes"]), (&0.into(), &(400 * 4096).into()));
    let text = place.succeed("status box");
    assert!(text.contains("1600KiB read in") && text.contains("no bad block"), "{text}");
    drop(disk);
    served.signal("-TERM");
    served.wait();
    // The volume is stopped and served again; a week has not passed.
    let noted = place.json()["last_scrub"].clone();
    assert!(noted["at_s"].as_u64().unwrap() >= last["at_s"].as_u64().unwrap(), "{noted}");
    let served = place.serve("--scrub-every 7d");
    let now = place.json();
    assert_eq!(now["last_scrub"], noted);
    let next = now["next_scrub_s"].as_f64().unwrap();
    assert!((7.0 * 86_400.0 - 120.0..=7.0 * 86_400.0).contains(&next), "{next}");

    // A scrub on demand counts as well, and reports bad blocks.
    let ssd = fs::read(place.0.join("ssd.img")).unwrap();
    let at = ssd.chunks(4096).position(|block| block == [77; 4096]).unwrap() * 4096;
    let drive = File::options().write(true).open(place.0.join("ssd.img")).unwrap();
    drive.write_all_at(&[1], at as u64).and_then(|()| drive.sync_all()).unwrap();
    assert_eq!(place.run("check box --scrub").status.code(), Some(3), "the answer is no");
    let last = place.json()["last_scrub"].clone();
    assert_eq!((&last["bad_blocks"], &last["lost_blocks"]), (&1.into(), &1.into()), "{last}");
    served.signal("-TERM");
    let said = served.wait();
    assert!(said.contains("a scrub has found bad blocks: 1 of 400, 1 of them without a good copy"), "{said}");
    let text = place.succeed("status box");
    assert!(text.contains("bad blocks: 1, of which 1 have no good copy"), "{text}");
}

/// Serves with a run-time directory that does not exist yet, and with a socket for a group. The
/// variable that names the directory's place is set once, and absent once.
#[test]
fn unprivileged_user_serves_for_a_group() {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return;
    }
    let place = Place::new("user", "hybrid-disk");
    let user = 65_534;
    let of_user = PathBuf::from(format!("/tmp/bimetal-{user}"));
    let was_there = of_user.exists();
    for name in ["", "ssd.img", "hdd.img", "state", "state/bimetal", "state/bimetal/files", "state/bimetal/files.lock"]
    {
        chown(place.0.join(name), Some(user), Some(user)).unwrap();
    }
    for name in ["state/bimetal/sizes", "state/bimetal/sizes.lock"] {
        chown(place.0.join(name), Some(user), Some(user)).unwrap();
    }
    // Another user may have no access to the program's directory.
    let reachable = Command::new(BIMETAL).arg("--version").uid(user).gid(user).output().is_ok();
    if !reachable {
        println!("skipped: user {user} cannot run {BIMETAL}");
        return;
    }
    for with_variable in [true, false] {
        let run = if with_variable { place.0.join("xdg/bimetal") } else { of_user.clone() };
        let mut command = place.command("serve box --socket-mode 0660 --socket-group nogroup --clients-max 1");
        if with_variable {
            command.env("XDG_RUNTIME_DIR", place.0.join("xdg"));
        } else {
            command.env_remove("XDG_RUNTIME_DIR");
        }
        let mut child =
            command.uid(user).gid(user).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let served = Served(child);
        assert!(line.starts_with("ready box "), "{line}: {}", served.wait());
        let mode = |path: &std::path::Path| fs::symlink_metadata(path).map(|found| (found.uid(), found.mode() & 0o777));
        assert_eq!(mode(&run).unwrap(), (user, 0o700));
        assert_eq!(mode(&run.join("box.sock")).unwrap(), (user, 0o660));
        assert_eq!(mode(&run.join("box.control")).unwrap(), (user, 0o600));
        let _first = Disk::connect(&run.join("box.sock"));
        let mut second = UnixStream::connect(run.join("box.sock")).unwrap();
        second.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x03box").unwrap();
        let mut rest = Vec::new();
        let _ = second.read_to_end(&mut rest);
        assert_eq!(rest.len(), 18, "the greeting, and the end");
        served.signal("-TERM");
        let said = served.wait();
        assert!(said.contains("a client was refused: 1 are connected, and --clients-max=1 allows no more"), "{said}");
    }
    if !was_there {
        let _ = fs::remove_dir_all(of_user);
    }
}
