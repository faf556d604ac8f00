//! `bimetal rescue` after real programs that write over drives (mkfs, wipefs, sfdisk, mkswap), on
//! image files and on devices.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use support::LoopDevice;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");
const BLOCK: u64 = 4096;
/// Size of the HDD; mkfs.xfs takes no less than 300 MiB.
const HDD_MIB: u64 = 320;
const SSD_MIB: u64 = 32;
/// Distance, in blocks of the home drive, between the blocks with known content.
const HOME_EVERY: u64 = 40;
/// Distance, in blocks of the volume, between the blocks that are newer on the SSD.
const DIRTY_EVERY: u64 = 81;

/// A directory with a volume whose SSD has dirty blocks, and the volume's name. All tests see a
/// loop device, so the name is unique. Command lines and messages of a test have `box` in place of
/// this name.
struct Place(PathBuf, String);

impl Place {
    /// Makes the volume and stops it: home has content in every [`HOME_EVERY`]th block, the SSD
    /// newer content in every [`DIRTY_EVERY`]th block.
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-rescue-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let place = Self(directory, format!("{name}-{}", std::process::id()));
        for (drive, mib) in [("ssd.img", SSD_MIB), ("hdd.img", HDD_MIB)] {
            File::create(place.0.join(drive)).and_then(|file| file.set_len(mib << 20)).unwrap();
        }
        let hdd = place.open("hdd.img");
        for block in (0..HDD_MIB * 256).step_by(HOME_EVERY as usize) {
            hdd.write_all_at(&content(block, "home"), block * BLOCK).unwrap();
        }
        let set = "--set mode=maximized --set idle=1h --set stream_bypass=off";
        place.succeed(&format!("create box --scheme smart-response {set} --ssd ssd.img --hdd hdd.img"));
        let served = place.serve();
        let mut disk = place.disk();
        for block in place.dirty() {
            disk.write(block * BLOCK, &content(block, "dirty"));
        }
        disk.flush();
        drop(disk);
        served.stop();
        assert_eq!(place.json()["dirty_bytes"], place.dirty().count() as u64 * BLOCK);
        place
    }

    /// Returns the dirty blocks, which home lacks; block 0 is the first.
    fn dirty(&self) -> impl Iterator<Item = u64> {
        (0..self.blocks()).step_by(DIRTY_EVERY as usize)
    }

    /// Returns the blocks with known content that only home has.
    fn home(&self) -> impl Iterator<Item = u64> {
        (0..self.blocks()).step_by(HOME_EVERY as usize).filter(|block| block % DIRTY_EVERY != 0)
    }

    /// Returns the size of the volume in blocks. The volume ends before the guard's area and two
    /// tails.
    fn blocks(&self) -> u64 {
        (HDD_MIB - 3) * 256
    }

    fn open(&self, name: &str) -> File {
        File::options().read(true).write(true).open(self.0.join(name)).unwrap()
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "120", BIMETAL]).args(line.replace("box", &self.1).split_whitespace());
        self.with_directories(&mut command).output().unwrap()
    }

    fn text(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace(&self.1, "box")
    }

    fn with_directories<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(&self.0)
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env("XDG_RUNTIME_DIR", self.0.join("run"))
    }

    fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", self.text(&output.stderr));
        self.text(&output.stdout)
    }

    fn refuse(&self, line: &str) -> String {
        let output = self.run(line);
        let message = self.text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {message}");
        message
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.succeed("status box --json")).unwrap()
    }

    fn serve(&self) -> Served {
        let mut command = Command::new(BIMETAL);
        command.args(["serve", &self.1]).stdout(Stdio::piped());
        let mut child = self.with_directories(&mut command).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{line}");
        Served(child)
    }

    fn disk(&self) -> Disk {
        Disk::connect(&self.0.join(format!("run/bimetal/{}.sock", self.1)), &self.1)
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        ["ssd.img", "hdd.img"].map(|drive| fs::read(self.0.join(drive)).unwrap()).into()
    }

    /// Serves the volume and checks every block that was only on the SSD. Returns the share of
    /// home's own blocks that read right.
    fn share_of_home_that_is_left(&self) -> f64 {
        let served = self.serve();
        let mut disk = self.disk();
        for block in self.dirty() {
            assert!(disk.read(block * BLOCK) == content(block, "dirty"), "block {block} was on the SSD");
        }
        let right = self.home().filter(|&block| disk.read(block * BLOCK) == content(block, "home")).count();
        drop(disk);
        served.stop();
        right as f64 / self.home().count() as f64
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the content of a block: its writer and its number, repeated.
fn content(block: u64, writer: &str) -> Vec<u8> {
    format!("{writer} {block:>15} ").into_bytes().into_iter().cycle().take(BLOCK as usize).collect()
}

/// A running server; ended when it is dropped.
struct Served(Child);

impl Served {
    fn stop(mut self) {
        Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of the block device.
struct Disk(UnixStream);

impl Disk {
    fn connect(path: &std::path::Path, export: &str) -> Self {
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

    fn ask(&mut self, kind: u16, offset: u64, len: usize, data: &[u8]) {
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
        assert_eq!(reply[4..8], [0; 4], "an error at {offset}");
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(1, offset, data.len(), data);
    }

    fn flush(&mut self) {
        self.ask(3, 0, 0, &[]);
    }

    fn read(&mut self, offset: u64) -> Vec<u8> {
        self.ask(0, offset, BLOCK as usize, &[]);
        let mut data = vec![0; BLOCK as usize];
        self.0.read_exact(&mut data).unwrap();
        data
    }
}

/// Prints the reason for which a test is skipped.
fn skipped(reason: &str) {
    assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "{reason}");
    println!("skipped: {reason}");
}

/// Runs a program over a drive of the volume, over a loop device if `as_device` is set. Returns
/// false if this machine does not permit the loop device.
fn overwrite(place: &Place, drive: &str, line: &str, as_device: bool) -> bool {
    let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
    if Command::new("which").arg(program).stdout(Stdio::null()).status().is_ok_and(|status| !status.success()) {
        skipped(&format!("no {program}"));
        return false;
    }
    let device = as_device.then(|| LoopDevice::over(&place.0.join(drive), &[]));
    if let Some(None) = device {
        skipped("no loop device can be made");
        return false;
    }
    let device = device.flatten();
    let target = device.as_ref().map_or(drive, |device| &device.0);
    let run = format!("{program} {arguments} {target} </dev/null");
    let run = if program == "sfdisk" { format!("echo ',,' | {program} {arguments} {target}") } else { run };
    let output = Command::new("sh").args(["-c", &run]).current_dir(&place.0).output().unwrap();
    drop(device);
    assert!(output.status.success(), "{run}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

/// A program that overwrites the home drive, and the expected outcome.
struct Case {
    name: &'static str,
    line: &'static str,
    as_device: bool,
    /// Set if content on the drive still proves that it is the member.
    proven: bool,
    /// Smallest and greatest share of home's own blocks that is left.
    left: [f64; 2],
}

/// Goes through an operator's steps: status, a dry run that changes nothing, the rescue, and a
/// check of every block.
fn go_through(case: &Case) {
    let place = Place::new(case.name);
    if !overwrite(&place, "hdd.img", case.line, case.as_device) {
        return;
    }
    let status = place.json();
    let meaning = status["meaning"].as_str().unwrap();
    assert!(meaning.contains("bimetal rescue box"), "{}: {meaning}", case.name);
    let refused = place.refuse("serve box");
    assert!(refused.contains("bimetal rescue"), "{}: {refused}", case.name);

    let options = if case.proven { "" } else { " --member hdd=hdd.img --force" };
    if !case.proven {
        let unproven = place.refuse("rescue box");
        assert!(unproven.contains("has its size and no label") && unproven.contains("--force"), "{unproven}");
        let unproven = place.refuse("rescue box --member hdd=hdd.img");
        assert!(unproven.contains("nothing on it proves that it is hdd"), "{unproven}");
    }
    let before = place.bytes();
    let told = place.succeed(&format!("rescue box --dry-run{options}"));
    assert!(place.bytes() == before, "{}: a dry run changes nothing", case.name);
    assert!(told.contains("nothing was written") && told.contains("would write"), "{told}");
    let told = place.succeed(&format!("rescue box{options}"));
    println!("{} ({}): {told}", case.name, case.line);
    assert!(told.contains("box: rescued") && told.contains("newer than home; a checksum proves each block"), "{told}");
    assert!(!case.proven || !told.contains("because of --force"), "{told}");

    let dirty = place.dirty().count() as u64 * BLOCK;
    let status = place.json();
    assert_eq!(status["dirty_bytes"], dirty, "{}", case.name);
    // Regression: a home that had been wiped was called sound after the rescue.
    assert_eq!(status["accepted_losses"][0]["what"], "proof", "{}: {status}", case.name);
    let meaning = status["meaning"].as_str().unwrap();
    assert!(meaning.contains("nothing proves that it is whole") && !meaning.contains("safe"), "{meaning}");
    let again = place.succeed("rescue box");
    assert!(again.contains("nothing to rescue"), "{again}");
    let left = place.share_of_home_that_is_left();
    println!("{}: {:.1} % of home's own is left", case.name, left * 100.0);
    assert!((case.left[0]..=case.left[1]).contains(&left), "{}: {left}", case.name);
}

#[test]
fn wipefs_and_mkswap_on_an_image_lose_nothing() {
    for (name, line) in [("wipefs", "wipefs -q -a"), ("mkswap", "mkswap -q")] {
        go_through(&Case { name, line, as_device: false, proven: true, left: [1.0, 1.0] });
    }
}

#[test]
fn sfdisk_on_an_image_loses_nothing() {
    for (name, line) in [("sfdisk", "sfdisk -q"), ("sfdisk-gpt", "sfdisk -q -X gpt")] {
        go_through(&Case { name, line, as_device: false, proven: true, left: [1.0, 1.0] });
    }
}

#[test]
fn mkfs_ext4_on_an_image_leaves_the_ssd_s_blocks() {
    go_through(&Case {
        name: "ext4-image",
        line: "mkfs.ext4 -q -F",
        as_device: false,
        proven: false,
        left: [0.0, 0.01],
    });
}

#[test]
fn mkfs_ext4_without_discard_leaves_most_of_home() {
    let line = "mkfs.ext4 -q -F -E nodiscard";
    go_through(&Case { name: "ext4-kept", line, as_device: false, proven: true, left: [0.85, 0.999] });
}

#[test]
fn mkfs_xfs_on_an_image_leaves_what_it_does_not_write() {
    go_through(&Case { name: "xfs-image", line: "mkfs.xfs -q -f", as_device: false, proven: true, left: [0.5, 0.999] });
}

#[test]
fn mkfs_on_a_device_leaves_what_it_does_not_discard() {
    let case = |name, line, proven, left| Case { name, line, as_device: true, proven, left };
    go_through(&case("ext4-device", "mkfs.ext4 -q -F", false, [0.0, 0.01]));
    go_through(&case("ext4-device-kept", "mkfs.ext4 -q -F -E nodiscard", true, [0.85, 0.999]));
    go_through(&case("xfs-device", "mkfs.xfs -q -f", false, [0.0, 0.01]));
    go_through(&case("xfs-device-kept", "mkfs.xfs -q -f -K", true, [0.5, 0.999]));
}

#[test]
fn wipefs_and_partitions_on_a_device_lose_nothing() {
    for (name, line) in
        [("wipefs-device", "wipefs -q -a"), ("mkswap-device", "mkswap -q"), ("sfdisk-device", "sfdisk -q -X gpt")]
    {
        go_through(&Case { name, line, as_device: true, proven: true, left: [1.0, 1.0] });
    }
}

/// Regression: with all copies of the SSD's label zeroed, no command could reach its dirty slots.
#[test]
fn ssd_without_any_label_is_found_by_its_map() {
    let place = Place::new("ssd-labels");
    let ssd = place.open("ssd.img");
    for at in [64 << 10, 128 << 10] {
        ssd.write_all_at(&[0; 16 << 10], (SSD_MIB << 20) - at + (32 << 10)).unwrap();
    }
    let meaning = place.json()["meaning"].as_str().unwrap().to_owned();
    assert!(meaning.contains("ssd is missing. ") && meaning.contains("bimetal rescue box"), "{meaning}");
    let told = place.succeed("rescue box");
    assert!(told.contains("pages of its map name the volume") && told.contains("box: rescued"), "{told}");
    assert_eq!(place.share_of_home_that_is_left(), 1.0);
}

/// Regression: the SSD had been replaced, the former SSD had lost its label, and the new SSD was
/// missing. A rescue took the former SSD, whose pages name the volume, and its old content counted.
/// The superblock now names its drive.
#[test]
fn rescue_takes_no_ssd_that_was_replaced() {
    let place = Place::new("replaced");
    let wipe = |name: &str| {
        let ssd = place.open(name);
        for at in [64 << 10, 128 << 10] {
            ssd.write_all_at(&[0; 16 << 10], (SSD_MIB << 20) - at + (32 << 10)).unwrap();
        }
    };
    let served = place.serve();
    place.succeed("detach box");
    served.stop();
    File::create(place.0.join("new.img")).and_then(|file| file.set_len(SSD_MIB << 20)).unwrap();
    place.succeed("attach box new.img");
    let served = place.serve();
    let mut disk = place.disk();
    disk.write(0, &content(0, "newest"));
    disk.flush();
    drop(disk);
    served.stop();
    wipe("ssd.img");
    fs::rename(place.0.join("new.img"), place.0.join("away")).unwrap();
    for line in ["rescue box", "rescue box --member ssd=ssd.img"] {
        let message = place.refuse(line);
        assert!(message.contains("ssd.img: was ssd of volume 'box' until another drive replaced it"), "{message}");
    }
    fs::rename(place.0.join("away"), place.0.join("new.img")).unwrap();
    wipe("new.img");
    let told = place.succeed("rescue box --member ssd=new.img");
    assert!(told.contains("its superblock names the member's drive"), "{told}");
    let served = place.serve();
    assert_eq!(place.disk().read(0), content(0, "newest"));
    served.stop();
}

/// On the SSD, `wipefs` finds nothing to erase, and `mkswap` writes over the first slot, whose
/// checksum shows it.
#[test]
fn mkswap_over_the_ssd_costs_a_block_that_is_named() {
    let place = Place::new("ssd-swap");
    if !overwrite(&place, "ssd.img", "wipefs -q -a", false) {
        return;
    }
    assert_eq!(place.share_of_home_that_is_left(), 1.0);
    overwrite(&place, "ssd.img", "mkswap -q", false);
    assert!(place.succeed("rescue box").contains("nothing to rescue"));
    let output = place.run("check box --scrub");
    assert_eq!(output.status.code(), Some(3), "damage is listed");
    assert!(output.stderr.is_empty(), "the answer stands on standard output, once");
    let message = place.text(&output.stdout);
    assert!(message.contains("1 bad block; 1 without a good copy"), "{message}");
}

/// Regression: `dump` left out marks. `dump` printed of places, totals and reports only that they
/// exist.
#[test]
fn dump_prints_every_kind_of_page_with_its_fields() {
    let place = Place::new("dump");
    let lines = |place: &Place| -> Vec<serde_json::Value> {
        place.succeed("dump box").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of = |lines: &[serde_json::Value], kind: &str| -> Vec<serde_json::Value> {
        lines.iter().filter(|line| line["kind"] == kind).cloned().collect()
    };
    let cache = lines(&place);
    for kind in ["label", "state", "superblock", "ring", "table", "lifetime"] {
        let copies = of(&cache, kind);
        assert!(copies.len() > 1 && copies.iter().all(|line| line["sector"].is_u64()), "{kind}: {copies:?}");
    }
    assert!(of(&cache, "lifetime").iter().any(|line| line["written_bytes"].as_u64() > Some(0)), "totals of the SSD");
    place.succeed("drain box --detach");
    for drive in ["ssd.img", "hdd.img"] {
        File::create(place.0.join(drive)).and_then(|file| file.set_len(16 << 20)).unwrap();
    }
    place.succeed("create other --scheme combo --set strategy=access --ssd ssd.img --hdd hdd.img");
    let text = place.succeed("dump other");
    let combo: Vec<_> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places = of(&combo, "places");
    assert_eq!(places.len(), 2, "a page in two copies");
    assert_eq!((&places[0]["version"], &places[0]["places"][1]), (&0.into(), &1.into()));
    assert_ne!(of(&combo, "state")[0]["places"], 0, "the state records the digest of the table");
}

/// Regression: `status` did not report a page of metadata that is damaged in both copies. `status`
/// showed a volume that cannot be served as "stopped".
#[test]
fn status_says_why_stopped_volume_cannot_be_served() {
    let place = Place::new("status");
    // Regression: a directory with the volume's name counted as the path of a drive.
    fs::create_dir(place.0.join(&place.1)).unwrap();
    let text = place.succeed("dump box");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ssd = place.open("ssd.img");
    let tables = lines.iter().filter(|line| line["kind"] == "table" && line["index"] == 0);
    for line in tables {
        ssd.write_all_at(&[0xa5; 4096], line["sector"].as_u64().unwrap() * 512).unwrap();
    }
    let status = place.json();
    let meaning = status["meaning"].as_str().unwrap();
    assert!(meaning.contains("cannot be served as it is") && meaning.contains("--accept-loss"), "{meaning}");
    assert!(status["dirty_bytes"].is_null(), "{status}");
}

/// A drained volume's home is a plain disk. Later content of this disk belongs to its user, and no
/// volume is written over this content.
#[test]
fn rescue_leaves_the_file_system_on_a_plain_disk_alone() {
    let place = Place::new("plain");
    place.succeed("drain box --detach");
    if !overwrite(&place, "hdd.img", "mkfs.ext4 -q -F -E nodiscard", false) {
        return;
    }
    let before = place.bytes();
    assert!(place.refuse("serve box").contains("`bimetal rescue box`"));
    let message = place.refuse("rescue box");
    assert!(message.contains("was a plain disk") && message.contains("carries ext4"), "{message}");
    assert!(place.bytes() == before, "nothing is written");
}

/// Regression: a refused `attach` recovered the volume before the refusal. The recovery before the
/// refusal raised the guard over a plain disk, and wrote labels and superblocks.
#[test]
fn refused_attach_writes_nothing() {
    let place = Place::new("refused");
    let before = place.bytes();
    assert!(place.refuse("attach box other.img").contains("is online"));
    assert!(place.bytes() == before, "an attached volume");
    place.succeed("drain box --detach");
    let (before, text) = (place.bytes(), vec![0x42; 64 << 20]);
    fs::write(place.0.join("other.img"), text).unwrap();
    place.succeed("create third --scheme ssd-only --ssd other.img --force");
    fs::remove_file(place.0.join("ssd.img")).unwrap();
    let message = place.refuse("attach hdd.img other.img");
    assert!(message.contains("is labelled as a drive of volume 'third'"), "{message}");
    assert!(fs::read(place.0.join("hdd.img")).unwrap() == before[1], "a plain disk");
}

/// Regression: the newest state of a volume whose ranges move was damaged in both copies. Rescue
/// wrote a state older than the state of the other drive, whose digest of the table of places then
/// counted.
#[test]
fn rescued_state_is_newer_than_those_of_other_drives() {
    let place = Place::new("state");
    for drive in ["s.img", "h.img"] {
        File::create(place.0.join(drive)).and_then(|file| file.set_len(16 << 20)).unwrap();
    }
    place.succeed("create moved --scheme combo --set strategy=access --ssd s.img --hdd h.img");
    let states = |drive: &str| -> Vec<(u64, u64, u64)> {
        let text = place.succeed("dump moved");
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let of = lines.filter(|line| line["kind"] == "state" && line["member"] == drive);
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        of.map(|line| (number(&line["sector"]), number(&line["sequence"]), number(&line["places"]))).collect()
    };
    let newest = states("ssd").iter().map(|state| state.1).max().unwrap();
    for (sector, sequence, _) in states("ssd") {
        if sequence == newest {
            place.open("s.img").write_all_at(&[0xa5; 4096], sector * 512).unwrap();
        }
    }
    place.succeed("rescue moved");
    let others = states("hdd").iter().map(|state| state.1).max().unwrap();
    assert!(states("ssd").iter().all(|&(_, sequence, places)| sequence > others && places == 0));
}

/// Regression: the status of a stopped volume said "everything is at home", although no copy of its
/// table of places could be read, and a rescue found every page intact.
#[test]
fn status_tells_of_an_unreadable_table_of_places() {
    let place = Place::new("places");
    for drive in ["s.img", "h.img"] {
        File::create(place.0.join(drive)).and_then(|file| file.set_len(16 << 20)).unwrap();
    }
    place.succeed("create moved --scheme combo --set strategy=access --ssd s.img --hdd h.img");
    assert!(place.succeed("status moved").contains("everything is at home"));
    let text = place.succeed("dump moved");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    for table in lines.filter(|line| line["kind"] == "places") {
        place.open("h.img").write_all_at(&[0xa5; 4096], table["sector"].as_u64().unwrap() * 512).unwrap();
    }
    let status = place.succeed("status moved");
    assert!(status.contains("cannot be served as it is") && !status.contains("everything is at home"), "{status}");
    let told = place.succeed("rescue moved --dry-run");
    assert!(told.contains("the map of blocks cannot be read") && !told.contains("nothing to rescue"), "{told}");
}

/// Regression: a drained volume's home was a plain disk, and `resize2fs` made its file system as
/// large as the image. The next `serve` wrote its header's area and labels over files at the end.
#[test]
fn grown_file_system_of_a_plain_disk_is_not_written_over() {
    let place = Place::new("grown");
    place.succeed("drain box --detach");
    if !overwrite(&place, "hdd.img", "mkfs.ext4 -V", false) {
        return;
    }
    // The file system ends in front of the labels.
    let blocks = (HDD_MIB << 20) / BLOCK - 32;
    let make = format!("sh -c 'mkfs.ext4 -q -F -E nodiscard -b 4096 hdd.img {blocks}'");
    assert!(overwrite(&place, "hdd.img", &make, false));
    let before = place.bytes();
    let message = place.refuse("serve box");
    assert!(message.contains("carries ext4 of") && message.contains("Shrink it first"), "{message}");
    place.succeed("check box --scrub");
    assert!(place.bytes() == before, "nothing is written");
}

/// The same as the test before, with partitions instead of a file system: the last partition ends
/// after the volume's end.
#[test]
fn grown_partitions_of_a_plain_disk_are_not_written_over() {
    for (table, behind_mib, fits) in [("dos", 0, false), ("gpt", 0, false), ("gpt", 3, true)] {
        let place = Place::new(&format!("grown-{table}-{behind_mib}"));
        place.succeed("drain box --detach");
        // The table is made on a file of its own, so that no backup of it lies over the labels.
        let make = format!(
            "sh -c 'truncate -s {}M table.img && printf \"label: {table}\\nstart=2048\\n\" | sfdisk -q table.img && dd \
             if=table.img of=hdd.img bs=64k count=1 conv=notrunc status=none'",
            HDD_MIB - behind_mib
        );
        if !overwrite(&place, "hdd.img", "sfdisk --version", false) {
            return;
        }
        assert!(overwrite(&place, "hdd.img", &make, false));
        let before = place.bytes();
        if fits {
            place.succeed("drain box");
            continue;
        }
        let message = place.refuse("serve box");
        assert!(message.contains("partitions up to byte") && message.contains("--sizelimit"), "{message}");
        assert!(place.bytes() == before, "nothing is written");
    }
}

/// A program that wipes the last 64 KiB destroys both first pages of a label. The drive is found by
/// the second copy.
#[test]
fn wiped_end_of_either_drive_is_rescued() {
    for (drive, mib) in [("ssd.img", SSD_MIB), ("hdd.img", HDD_MIB)] {
        let place = Place::new(&format!("end-of-{drive}"));
        place.open(drive).write_all_at(&[0; 64 << 10], (mib << 20) - (64 << 10)).unwrap();
        let status = place.json();
        assert_eq!(status["state"], "incomplete");
        assert!(
            status["members"].as_array().unwrap().iter().any(|member| member["state"] == "overwritten"),
            "{status}"
        );
        assert!(place.refuse("serve box").contains("`bimetal rescue box`"));
        assert!(place.refuse("drain box").contains("`bimetal rescue box`"));
        let told = place.succeed("rescue box");
        assert!(told.contains("the second copy of the label is intact"), "{told}");
        assert_eq!(place.share_of_home_that_is_left(), 1.0);
    }
}

/// Regression: an interrupted rescue had written the label and not the loss of proof. The next
/// rescue found nothing to rescue, and the status said that everything was at home.
#[test]
fn interrupted_rescue_keeps_the_loss_of_proof() {
    let place = Place::new("interrupted");
    let tail = (HDD_MIB << 20) - (64 << 10);
    place.open("hdd.img").write_all_at(&[0; 64 << 10], tail).unwrap();
    // The system ends the rescue at its first write to the pages of the label.
    let limit = format!("--fsize={}", tail + 8 * BLOCK);
    let rescue = ["-k", "1", "120", "prlimit", &limit, BIMETAL, "rescue", &place.1];
    let mut command = Command::new("timeout");
    let ended = place.with_directories(command.args(rescue)).output().unwrap();
    assert!(!ended.status.success(), "{}", place.text(&ended.stdout));
    let mut magic = [0; 4];
    place.open("hdd.img").read_exact_at(&mut magic, tail + 4 * BLOCK).unwrap();
    assert_eq!(&magic, b"BIrp", "the report of the loss comes before the label");
    place.succeed("rescue box");
    let status = place.json();
    let losses = status["accepted_losses"].as_array().unwrap();
    assert!(losses.len() == 1 && losses[0]["what"] == "proof", "{status}");
}

/// Damage of any one page of the newest label costs nothing.
#[test]
fn any_one_damaged_page_of_a_label_costs_nothing() {
    let place = Place::new("one-page");
    let tail = (SSD_MIB << 20) - (64 << 10);
    for at in [tail + 8 * BLOCK, tail + 9 * BLOCK, tail - 8 * BLOCK, tail - 7 * BLOCK] {
        let ssd = place.open("ssd.img");
        let mut byte = [0];
        ssd.read_exact_at(&mut byte, at + 100).unwrap();
        ssd.write_all_at(&[!byte[0]], at + 100).unwrap();
        assert_eq!(place.share_of_home_that_is_left(), 1.0, "page at {at}");
        // Starting and stopping the server has written the page again.
        let (mut magic, mut mended) = ([0; 4], [0]);
        ssd.read_exact_at(&mut magic, at).unwrap();
        ssd.read_exact_at(&mut mended, at + 100).unwrap();
        assert_eq!(&magic, b"BIml");
        assert_ne!(mended[0], !byte[0], "page at {at}");
    }
}

/// A drive without proof is not taken. A drive of another volume, or a drive that was taken out of
/// the volume, is never taken.
#[test]
fn rescue_takes_no_drive_that_is_not_the_member() {
    let place = Place::new("refused");
    for (name, mib) in [("a.img", SSD_MIB), ("b.img", HDD_MIB)] {
        File::create(place.0.join(name)).and_then(|file| file.set_len(mib << 20)).unwrap();
    }
    place.succeed("create other-box --scheme smart-response --ssd a.img --hdd b.img");
    assert!(place.refuse("rescue box --member disk=b.img").contains("expected hdd, ssd"));
    assert!(place.refuse("rescue box --member hdd=b.img").contains("hdd.img has the label of hdd"));
    fs::rename(place.0.join("hdd.img"), place.0.join("away")).unwrap();
    assert!(
        place.refuse("rescue box --member hdd=b.img --force").contains("is a labelled drive of volume 'other-box'")
    );
    assert!(place.refuse("rescue box").contains("hdd of volume 'box' is missing"));
    File::create(place.0.join("small.img")).and_then(|file| file.set_len(1 << 20)).unwrap();
    assert!(place.refuse("rescue box --member hdd=small.img --force").contains("expected the drive that was hdd"));
}
