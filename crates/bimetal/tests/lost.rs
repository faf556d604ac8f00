//! Content that is lost or bad, with the real program: every command reports it, over restarts,
//! until it is acknowledged.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::LoopDevice;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");
const BLOCK: usize = 4096;

/// A directory with drives and with the program's own state.
struct Place {
    folder: PathBuf,
    /// Name of the volume that commands call `box`.
    volume: String,
}

impl Place {
    fn new(name: &str, create: &str) -> Self {
        Self::with_volume("box", name, create)
    }

    fn with_volume(volume: &str, name: &str, create: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-lost-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let place = Self { folder: directory, volume: volume.to_owned() };
        for (drive, mib) in [("ssd.img", 64), ("hdd.img", 64)] {
            File::create(place.folder.join(drive)).and_then(|file| file.set_len(mib << 20)).unwrap();
        }
        place.answer(&format!("create box --ssd ssd.img --hdd hdd.img {create}"), 0);
        place
    }

    fn command(&self, line: &str) -> Command {
        let mut command = if line.starts_with("serve") { Command::new(BIMETAL) } else { Command::new("timeout") };
        if !line.starts_with("serve") {
            command.args(["-k", "1", "60", BIMETAL]);
        }
        command
            .args(line.split_whitespace().map(|word| if word == "box" { &self.volume } else { word }))
            .current_dir(&self.folder)
            .env("XDG_STATE_HOME", self.folder.join("state"))
            .env("XDG_RUNTIME_DIR", self.folder.join("run"))
            .env("SUDO_USER", "operator");
        command
    }

    /// Runs a command, which must end with `status`, and returns its standard output.
    fn answer(&self, line: &str, status: i32) -> String {
        let Output { status: ended, stdout, stderr } = self.command(line).output().unwrap();
        let text = String::from_utf8(stdout).unwrap();
        assert_eq!(ended.code(), Some(status), "{line}: {text}{}", String::from_utf8_lossy(&stderr));
        text
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.answer("status box --json", 0)).unwrap()
    }

    fn serve(&self, line: &str) -> Served {
        let mut child =
            self.command(&format!("serve {line}")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with(&format!("ready {} ", self.volume)), "{ready}");
        Served(child)
    }

    fn disk(&self) -> Disk {
        Disk::connect(&self.folder.join(format!("run/bimetal/{}.sock", self.volume)))
    }

    /// Writes zeros over all blocks of a drive that consist of `byte` alone, and returns their
    /// number.
    fn rot(&self, drive: &str, byte: u8) -> u64 {
        let path = self.folder.join(drive);
        let file = File::options().write(true).open(&path).unwrap();
        let mut count = 0;
        for (at, block) in fs::read(&path).unwrap().chunks(BLOCK).enumerate() {
            if block == [byte; BLOCK] {
                file.write_all_at(&[0; BLOCK], (at * BLOCK) as u64).unwrap();
                count += 1;
            }
        }
        file.sync_all().unwrap();
        count
    }

    /// Damages pages of a drive's report. `pages` has their positions in the tail.
    fn damage_report(&self, drive: &str, pages: &[u64]) {
        let file = File::options().write(true).open(self.folder.join(drive)).unwrap();
        let tail = file.metadata().unwrap().len() - (64 << 10);
        pages.iter().for_each(|page| file.write_all_at(&[0xa5; 512], tail + page * BLOCK as u64).unwrap());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running server; killed when it is dropped.
struct Served(Child);

impl Served {
    /// Stops the server, and returns its standard error.
    fn stop(mut self) -> String {
        self.signal("-TERM");
        assert!(self.0.wait().unwrap().success());
        self.said()
    }

    fn kill(mut self) -> String {
        self.signal("-KILL");
        let _ = self.0.wait();
        self.said()
    }

    fn said(&mut self) -> String {
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
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of the block device.
struct Disk(UnixStream);

impl Disk {
    fn connect(path: &std::path::Path) -> Self {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle without zeroes; then NBD_OPT_EXPORT_NAME.
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(1u32.to_be_bytes());
        hello.extend(3u32.to_be_bytes());
        hello.extend(b"box");
        socket.write_all(&hello).unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        Self(socket)
    }

    /// Sends a request, and returns the bytes that were read; `None` for an error.
    fn ask(&mut self, kind: u16, offset: usize, len: usize, data: &[u8]) -> Option<Vec<u8>> {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(0u16.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend([0; 8]);
        request.extend((offset as u64).to_be_bytes());
        request.extend((len as u32).to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        let sound = reply[4..8] == [0; 4];
        let mut read = vec![0; if kind == 0 && sound { len } else { 0 }];
        self.0.read_exact(&mut read).unwrap();
        sound.then_some(read)
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        assert!(self.ask(1, offset, data.len(), data).is_some(), "a write at {offset}");
    }

    fn flush(&mut self) {
        assert!(self.ask(3, 0, 0, &[]).is_some(), "a flush");
    }

    fn read(&mut self, offset: usize, len: usize) -> Option<Vec<u8>> {
        self.ask(0, offset, len, &[])
    }
}

const LAZY: &str = "--scheme smart-response --set mode=maximized --set stream_bypass=off --set idle=1h";

/// Returns the page of metrics, and what the server said before it named the page.
fn metrics(said_by: &mut Served) -> (String, String) {
    let (mut line, mut said) = (String::new(), String::new());
    let mut lines = BufReader::new(said_by.0.stderr.as_mut().unwrap());
    while !line.contains("http://") {
        line.clear();
        lines.read_line(&mut line).unwrap();
        said += &line;
    }
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let mut page = TcpStream::connect(address).unwrap();
    page.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    page.read_to_string(&mut text).unwrap();
    (text, said)
}

/// Regression: half of the written content rots under the server. Reads failed, and status reported
/// that everything was safe.
#[test]
fn lost_content_is_told_until_it_is_acknowledged() {
    let place = Place::new("told", LAZY);
    let served = place.serve("box");
    let mut disk = place.disk();
    (0..64).for_each(|at| disk.write(at * BLOCK, &[7; BLOCK]));
    (64..128).for_each(|at| disk.write(at * BLOCK, &[9; BLOCK]));
    disk.flush();
    assert!(place.json()["meaning"].as_str().unwrap().contains("is safe"));
    assert_eq!(place.answer("check box", 0), "the map is consistent\n");
    assert_eq!(place.answer("acknowledge box", 0), "the report is empty: there is nothing to acknowledge\n");
    assert_eq!(place.rot("ssd.img", 7), 64);
    assert_eq!(disk.read(0, 128 * BLOCK), None, "the newest content is nowhere");
    assert_eq!(disk.read(64 * BLOCK, BLOCK).unwrap(), [9; BLOCK]);
    let told = |place: &Place| {
        let json = place.json();
        assert_eq!((&json["lost"]["blocks"], &json["lost"]["bytes"]), (&64.into(), &(64 * BLOCK).into()), "{json}");
        let finding = &json["lost"]["findings"][0];
        assert_eq!(
            (&finding["kind"], &finding["state"], &finding["drive"]),
            (&"checksum".into(), &"lost".into(), &"ssd".into())
        );
        assert_eq!((&finding["offset_bytes"], &finding["bytes"]), (&0.into(), &(64 * BLOCK).into()));
        assert!(json["checksum_errors"].as_u64().unwrap() >= 64, "{json}");
        let text = place.answer("status box", 0);
        assert!(
            text.contains("64 blocks are lost") && !text.contains("is safe") && !text.contains("has everything"),
            "{text}"
        );
        assert!(text.contains("lost      unit 0 byte 0, 256KiB (64 blocks): checksum on ssd"), "{text}");
        let text = place.answer("check box", 3);
        assert!(text.contains("64 lost blocks") && text.contains("unit 0 byte 0, 256KiB"), "{text}");
    };
    told(&place);
    // The last write before a crash is in doubt, so another write follows. Then the server is
    // killed, stopped, and started again.
    (0..2).for_each(|at| {
        disk.write((200 + at) * BLOCK, &[3; BLOCK]);
        disk.flush();
    });
    std::thread::sleep(Duration::from_millis(3000));
    let said = served.kill();
    assert!(said.contains("blocks 0 to 63 (bytes 0 to 262143) do not match their checksums"), "{said}");
    told(&place);
    let served = place.serve("box");
    told(&place);
    drop(disk);
    let said = served.stop();
    assert!(said.contains("64 blocks are lost"), "{said}");
    told(&place);
    // Once its first half is written again, it is not lost any more.
    let served = place.serve("box");
    let mut disk = place.disk();
    disk.write(0, &[1; 32 * BLOCK]);
    disk.flush();
    let json = place.json();
    assert_eq!((&json["lost"]["blocks"], &json["lost"]["other_blocks"]), (&32.into(), &32.into()), "{json}");
    let text = place.answer("acknowledge box", 0);
    assert!(
        text.starts_with("acknowledged: 32 lost blocks, 32 other bad blocks, 0 accepted losses; lost blocks stay lost"),
        "{text}"
    );
    assert_eq!(place.answer("acknowledge box", 0), "the report is empty: there is nothing to acknowledge\n");
    let acknowledged = |place: &Place| {
        let json = place.json();
        let lost = &json["lost"];
        assert_eq!(
            (&lost["blocks"], &lost["acknowledged_blocks"], &lost["other_blocks"]),
            (&32.into(), &32.into(), &0.into()),
            "{json}"
        );
        let line = &json["history"][0];
        assert!(line["text"].as_str().unwrap().starts_with("operator acknowledged 32 lost blocks"), "{json}");
        assert!(line["at_s"].as_u64().unwrap() > 1_600_000_000);
        let meaning = json["meaning"].as_str().unwrap();
        assert!(meaning.contains("32 blocks are lost, all acknowledged") && !meaning.contains("is safe"), "{meaning}");
    };
    acknowledged(&place);
    drop(disk);
    served.stop();
    acknowledged(&place);
    let served = place.serve("box");
    acknowledged(&place);
    // With good content everywhere, nothing is left to report.
    let mut disk = place.disk();
    disk.write(32 * BLOCK, &[2; 32 * BLOCK]);
    disk.flush();
    assert_eq!(place.json()["lost"]["blocks"], 0);
    assert!(place.json()["meaning"].as_str().unwrap().contains("is safe"));
    assert_eq!(place.answer("check box", 0), "the map is consistent\n");
    drop(disk);
    served.stop();
}

/// Recovery takes the last write before a crash for a write that never happened if its slot is bad:
/// home's older content is read then. The report records that the block was lost, and status shows
/// it.
#[test]
fn the_last_write_before_a_crash_is_not_forgotten() {
    let place = Place::new("last", LAZY);
    let served = place.serve("box");
    let mut disk = place.disk();
    disk.write(0, &[7; 8 * BLOCK]);
    disk.flush();
    place.rot("ssd.img", 7);
    assert_eq!(disk.read(0, 8 * BLOCK), None);
    std::thread::sleep(Duration::from_millis(3000));
    served.kill();
    drop(disk);
    let served = place.serve("box");
    let json = place.json();
    let finding = &json["lost"]["findings"][0];
    assert_eq!(finding["blocks"], 8, "{json}");
    assert!(["lost", "uncertain"].contains(&finding["state"].as_str().unwrap()), "{json}");
    let meaning = json["meaning"].as_str().unwrap();
    assert!(meaning.starts_with("8 blocks ") && !meaning.contains("is safe"), "{meaning}");
    place.answer("check box", 3);
    served.stop();
}

/// Returns the drives by name, with the number of their pages that were bad at the start.
fn bad_pages(status: &Value) -> Vec<(String, u64)> {
    let members = status["members"].as_array().unwrap().iter();
    let of =
        |member: &Value| (member["id"].as_str().unwrap().to_owned(), member["bad_metadata_pages"].as_u64().unwrap());
    let mut bad: Vec<_> = members.map(of).collect();
    bad.sort();
    bad
}

/// Damaged pages of metadata cost nothing, because another copy has their content. But a drive that
/// damages pages is told: by the server, its history, its status and its metrics.
#[test]
fn damaged_page_of_metadata_is_told_and_mended() {
    let place = Place::new("metadata", LAZY);
    let served = place.serve("box");
    let mut disk = place.disk();
    disk.write(0, &[7; 8 * BLOCK]);
    disk.flush();
    drop(disk);
    served.kill();
    let path = place.folder.join("ssd.img");
    let image = fs::read(&path).unwrap();
    let superblock = image.chunks(BLOCK).position(|page| page.starts_with(b"BIms")).expect("a cache has superblocks");
    let ssd = File::options().write(true).open(&path).unwrap();
    ssd.write_all_at(&[0xa5; 9], (superblock * BLOCK + 600) as u64).unwrap();
    let mut served = place.serve("box --metrics 127.0.0.1:0");
    assert_eq!(place.disk().read(0, 8 * BLOCK).unwrap(), [7; 8 * BLOCK]);
    let json = place.json();
    assert_eq!(bad_pages(&json), [("hdd".to_owned(), 0), ("ssd".to_owned(), 1)]);
    let line = json["history"][0]["text"].as_str().unwrap();
    assert!(line.starts_with("ssd: 1 page of metadata was bad at the start"), "{line}");
    let text = place.answer("status box", 0);
    assert!(text.contains("1 page of metadata bad in the last scrub, or else at the start"), "{text}");
    let (text, said) = metrics(&mut served);
    assert!(said.contains("1 page of metadata was bad"), "{said}");
    assert!(text.contains(r#"bad_metadata_pages{volume="box",member="ssd"} 1.0"#), "{text}");
    assert_eq!(place.answer("check box", 0), "the map is consistent\n", "nothing is lost");
    // A scrub after the start tells of the page, and refers to the status, which names the drive.
    let text = place.answer("check box --scrub", 3);
    assert!(text.contains("1 page of metadata was bad: `bimetal status` names the drive"), "{text}");
    assert_eq!(bad_pages(&place.json()), [("hdd".to_owned(), 0), ("ssd".to_owned(), 1)]);
    served.kill();
    let served = place.serve("box");
    let json = place.json();
    assert_eq!(bad_pages(&json), [("hdd".to_owned(), 0), ("ssd".to_owned(), 0)], "the page was written again");
    assert_eq!(json["history"].as_array().unwrap().len(), 1);
    // A page that is damaged under the server is found by a scrub.
    ssd.write_all_at(&[0xa5; 9], (superblock * BLOCK + 600) as u64).unwrap();
    let text = place.answer("check box --scrub", 3);
    assert!(text.contains("1 page of metadata was bad"), "{text}");
    assert_eq!(bad_pages(&place.json()), [("hdd".to_owned(), 0), ("ssd".to_owned(), 1)]);
    // The scrub wrote the page again.
    place.answer("check box --scrub", 0);
    assert_eq!(bad_pages(&place.json()), [("hdd".to_owned(), 0), ("ssd".to_owned(), 0)]);
    let said = served.stop();
    assert!(said.contains("a scrub found 1 page of metadata bad") && !said.contains("at the start"), "{said}");
    // The start for a check writes the page again. Regression: the check then ended with status 0.
    ssd.write_all_at(&[0xa5; 9], (superblock * BLOCK + 600) as u64).unwrap();
    let text = place.answer("check box --scrub", 3);
    assert!(text.contains("1 page of metadata was bad"), "{text}");
    place.answer("check box --scrub", 0);
}

/// Returns the numbers of the pages of an image that have a label.
fn pages_of_labels(image: &Path) -> Vec<u64> {
    let image = fs::read(image).unwrap();
    let labels = image.chunks(BLOCK).enumerate().filter(|(_, page)| page.starts_with(b"BIml"));
    labels.map(|(at, _)| at as u64).collect()
}

/// A label has two copies, so a bad page of it costs nothing. Regression: nobody told of it, and no
/// scrub read it.
#[test]
fn damaged_page_of_a_label_is_told_and_mended() {
    let place = Place::new("label", LAZY);
    place.serve("box").stop();
    let path = place.folder.join("hdd.img");
    let places = pages_of_labels(&path);
    assert_eq!(places.len(), 4, "two turns, twice each");
    let drive = File::options().write(true).open(&path).unwrap();
    let spoil = |page: u64, content: &[u8]| drive.write_all_at(content, page * BLOCK as u64).unwrap();
    for (number, &page) in places.iter().enumerate() {
        let served = place.serve("box");
        // A damaged page, and a page of zeroes.
        spoil(page, if number % 2 == 0 { &[0xa5; 9] } else { &[0; BLOCK] });
        let text = place.answer("check box --scrub", 3);
        assert!(text.contains("1 page of metadata was bad:"), "{text}");
        assert_eq!(bad_pages(&place.json()), [("hdd".to_owned(), 1), ("ssd".to_owned(), 0)]);
        assert_eq!(pages_of_labels(&path), places, "the page was written again");
        place.answer("check box --scrub", 0);
        let said = served.stop();
        assert!(said.contains("hdd") && said.contains("a scrub found 1 page of metadata bad: check"), "{said}");
        spoil(page, &[0xa5; 9]);
        let served = place.serve("box");
        assert_eq!(bad_pages(&place.json()), [("hdd".to_owned(), 1), ("ssd".to_owned(), 0)]);
        let said = served.stop();
        assert!(said.contains("1 page of metadata was bad at the start"), "{said}");
    }
}

/// Regression: a scrub read the labels from the system's memory, where the server had written them,
/// and not from the drive. And a drive that was attached while the volume was served counted as
/// damaged, because its label had been written in one turn alone.
#[test]
fn scrub_reads_labels_from_the_drive_itself() {
    // Every test on this machine sees the device, so its volume has a unique name.
    let place = Place::with_volume(&format!("direct-{}", std::process::id()), "direct", LAZY);
    // No label records this path, so the loop device is the drive.
    let image = place.folder.join("image");
    fs::rename(place.folder.join("hdd.img"), &image).unwrap();
    let Some(device) = LoopDevice::over(&image, &[]) else {
        println!("skipped: no loop device");
        return;
    };
    let served = place.serve("box");
    let places = pages_of_labels(&image);
    assert_eq!(places.len(), 4, "two turns, twice each");
    let drive = File::options().write(true).open(&image).unwrap();
    places.iter().for_each(|&page| drive.write_all_at(&[0xa5; BLOCK], page * BLOCK as u64).unwrap());
    drive.sync_all().unwrap();
    let text = place.answer("check box --scrub", 3);
    assert!(text.contains("4 pages of metadata were bad: "), "{text}");
    assert_eq!(pages_of_labels(&image), places, "the pages were written again");
    place.answer("check box --scrub", 0);
    place.answer("detach box", 0);
    File::create(place.folder.join("new.img")).and_then(|file| file.set_len(64 << 20)).unwrap();
    place.answer("attach box new.img", 0);
    place.answer("check box --scrub", 0);
    served.stop();
    drop(device);
}

/// Regression: a check joined a scrub on schedule that had read the page before it was damaged, and
/// said that all was well.
#[test]
fn check_reads_again_what_a_scrub_under_way_has_read() {
    let place = Place::new("joined", LAZY);
    let served = place.serve("box --scrub-every 1s --scrub-rate 64KiB");
    let mut disk = place.disk();
    (0..200).for_each(|at| disk.write(at * BLOCK, &[(at % 250) as u8 + 1; BLOCK]));
    disk.flush();
    let begun = std::time::Instant::now();
    // The states and superblocks come first, within half a second at this rate; then the slots.
    while place.json()["scrub"]["done_bytes"].as_u64().is_none_or(|done| done == 0) {
        assert!(begun.elapsed().as_secs() < 60, "no scrub begins");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The end of each scrub writes superblocks anew, and no state.
    let path = place.folder.join("hdd.img");
    let image = fs::read(&path).unwrap();
    let state = image.chunks(BLOCK).position(|page| page.starts_with(b"BImt")).expect("home has states");
    let hdd = File::options().write(true).open(&path).unwrap();
    hdd.write_all_at(&[0xa5; 9], (state * BLOCK + 600) as u64).unwrap();
    let text = place.answer("check box --scrub", 3);
    assert!(text.contains("1 page of metadata was bad"), "{text}");
    drop((disk, served));
}

/// Reads drop bad copies of content that home has; the report lists the bad copies nevertheless.
#[test]
fn repaired_copies_are_told_too() {
    let place = Place::new("repaired", "--scheme hybrid-disk");
    let served = place.serve("box");
    let mut disk = place.disk();
    (0..8).for_each(|at| disk.write(at * BLOCK, &[6; BLOCK]));
    disk.flush();
    place.answer("drain box", 0);
    (0..3).for_each(|_| assert_eq!(disk.read(0, 8 * BLOCK).unwrap(), [6; 8 * BLOCK]));
    let rotten = place.rot("ssd.img", 6);
    assert!(rotten > 0);
    assert_eq!(disk.read(0, 8 * BLOCK).unwrap(), [6; 8 * BLOCK], "home has it");
    let json = place.json();
    assert_eq!(
        (&json["lost"]["blocks"], &json["lost"]["findings"][0]["state"]),
        (&0.into(), &"repaired".into()),
        "{json}"
    );
    let meaning = json["meaning"].as_str().unwrap();
    assert!(
        meaning.contains("had bad content, and none of it is lost now") && !meaning.contains("is safe"),
        "{meaning}"
    );
    place.answer("check box", 3);
    place.answer("acknowledge box", 0);
    place.answer("check box --scrub", 0);
    assert!(place.json()["meaning"].as_str().unwrap().starts_with("everything is at home"));
    drop(disk);
    let said = served.stop();
    assert!(said.contains("home has the same content and serves it"), "{said}");
}

/// Regression: the superblock names 251 lost blocks at most, and status counted 248 instead of
/// 1,800.
#[test]
fn every_lost_block_is_counted_beyond_a_superblock() {
    let place = Place::new("many", LAZY);
    let served = place.serve("box");
    let mut disk = place.disk();
    (0..900).for_each(|at| disk.write(2 * at * BLOCK, &[7; BLOCK]));
    disk.flush();
    assert_eq!(place.rot("ssd.img", 7), 900);
    let text = place.answer("check box --scrub", 3);
    assert!(text.contains("900 blocks off home read, 900 bad blocks; 900 without a good copy"), "{text}");
    assert_eq!(place.json()["last_scrub"]["bad_blocks"], 900);
    place.answer("drain box", 3);
    for stopped in [false, true] {
        assert_eq!(place.json()["lost"]["blocks"], 900, "stopped: {stopped}");
        if !stopped {
            served.signal("-TERM");
            while place.json()["process"].is_number() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    drop(served);
    assert_eq!(place.json()["lost"]["unlisted_blocks"], 900 - 96);
    assert_eq!(place.json()["last_scrub"]["blocks_read"], 900);
    // A scrub finds the lost blocks again, and each block still counts once.
    let mut served = place.serve("box --metrics 127.0.0.1:0");
    assert!(place.answer("check box --scrub", 3).contains("900 lost blocks"));
    assert_eq!(place.json()["lost"]["blocks"], 900);
    let (page, _) = metrics(&mut served);
    assert!(page.contains("bimetal_lost_blocks{volume=\"box\"} 900.0"), "{page}");
    assert!(page.contains("bimetal_checksum_errors_total{volume=\"box\"} "), "{page}");
    assert!(page.contains("bimetal_last_scrub_timestamp_seconds{volume=\"box\"} 1"), "{page}");
    drop(disk);
}

/// Regression: Regression: `--accept-loss` was forgotten by the next restart, and status reported
/// that no content was lost with the drive.
#[test]
fn an_accepted_loss_is_told_until_it_is_acknowledged() {
    let place = Place::new("accepted", "--scheme bcache");
    let served = place.serve("box");
    let mut disk = place.disk();
    disk.write(0, &[7; 16 * BLOCK]);
    disk.flush();
    drop(disk);
    served.kill();
    fs::remove_file(place.folder.join("ssd.img")).unwrap();
    let served = place.serve("hdd.img --accept-loss");
    let told = || {
        let json = place.json();
        let meaning = json["meaning"].as_str().unwrap();
        assert!(meaning.contains("was given up (--accept-loss)"), "{meaning}");
        assert!(
            !meaning.contains("nothing is lost with it") && !meaning.contains("everything is at home"),
            "{meaning}"
        );
        let loss = &json["accepted_losses"][0];
        assert_eq!(
            (&loss["drive"], &loss["what"], &loss["blocks"]),
            (&"ssd".into(), &"content".into(), &Value::Null),
            "{json}"
        );
        let text = place.answer("status box", 0);
        assert!(
            text.contains("accepted loss of content that only ssd had, ") && !text.contains("home has everything"),
            "{text}"
        );
    };
    // Regression: check found nothing to say, so a timer that scrubs reported success.
    let checked = || {
        let text = place.answer("check box --scrub", 3);
        assert!(text.contains("1 accepted loss, not acknowledged"), "{text}");
    };
    checked();
    told();
    served.stop();
    told();
    checked();
    let served = place.serve("box");
    told();
    assert!(served.stop().contains("was given up (--accept-loss)"));
    // The loss is acknowledged without a server.
    let text = place.answer("acknowledge box", 0);
    assert_eq!(text, "acknowledged: 0 lost blocks, 0 other bad blocks, 1 accepted loss\n");
    let served = place.serve("box");
    let json = place.json();
    assert_eq!(json["accepted_losses"], Value::Array(vec![]));
    assert!(!json["meaning"].as_str().unwrap().contains("nothing is lost"), "{json}");
    assert!(json["history"][0]["text"].as_str().unwrap().contains("1 accepted loss"), "{json}");
    served.stop();
}

/// Pages of the report itself rot: a second copy or another drive replaces these pages. If no copy
/// of the report is left, status reports the missing report.
#[test]
fn a_damaged_report_never_hides_an_older_one() {
    let place = Place::new("damaged", LAZY);
    let served = place.serve("box");
    let mut disk = place.disk();
    disk.write(0, &[7; 8 * BLOCK]);
    disk.flush();
    place.rot("ssd.img", 7);
    assert_eq!(disk.read(0, 8 * BLOCK), None);
    drop(disk);
    served.stop();
    assert_eq!(place.json()["lost"]["blocks"], 8);
    place.damage_report("ssd.img", &[4, 5]);
    assert_eq!(place.json()["lost"]["blocks"], 8, "the second copies have it");
    place.damage_report("ssd.img", &[6, 7]);
    assert_eq!(place.json()["lost"]["blocks"], 8, "the other drive has it");
    place.damage_report("hdd.img", &[4, 5, 6, 7]);
    let json = place.json();
    assert_eq!(json["lost"]["incomplete"], true, "{json}");
    let meaning = json["meaning"].as_str().unwrap();
    assert!(meaning.contains("may lack findings"), "{meaning}");
    place.answer("check box", 3);
    place.answer("acknowledge box", 0);
    assert_eq!(place.json()["lost"]["incomplete"], false);
}

/// Regression: with both copies of its newest state damaged, status of a stopped volume used the
/// older state. That state said that all content was at home.
#[test]
fn status_never_takes_an_older_state_for_the_newest() {
    let place = Place::new("older-state", LAZY);
    let served = place.serve("box");
    let mut disk = place.disk();
    disk.write(0, &[7; 8 * BLOCK]);
    disk.flush();
    drop(disk);
    let path = place.folder.join("hdd.img");
    let number = |page: &[u8]| page.starts_with(b"BImt").then(|| u64::from_le_bytes(page[16..24].try_into().unwrap()));
    let numbers = || -> Vec<u64> { fs::read(&path).unwrap().chunks(4096).filter_map(number).collect() };
    // The state that records the first dirty block is written in both turns, the second time behind
    // the request's answer.
    let mut tries = 0;
    while numbers().iter().filter(|&&number| number > 1).count() < 4 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        tries += 1;
        assert!(tries < 6000, "{:?}", numbers());
    }
    served.kill();
    let meaning = || place.json()["meaning"].as_str().unwrap().to_owned();
    assert!(meaning().contains("some content may be only off home"), "{}", meaning());
    let newest = numbers().into_iter().max().expect("home has states");
    let mut home = fs::read(&path).unwrap();
    home.chunks_mut(4096).filter(|page| number(page) == Some(newest)).for_each(|page| page[100] ^= 1);
    fs::write(&path, home).unwrap();
    assert!(meaning().contains("unknown if everything is at home"), "{}", meaning());
}

/// Regression: a volume whose home fails every operation was shown as "serving", and its content as
/// "safe".
#[test]
fn a_dead_home_is_failed_and_not_serving() {
    let place = Place::new("dead", "--scheme griffin");
    // The home file is cut off behind its first MiB: reads after it fail.
    let served = place.serve("box");
    let mut disk = place.disk();
    assert_eq!(place.json()["state"], "serving");
    let home = File::options().write(true).open(place.folder.join("ssd.img")).unwrap();
    let len = home.metadata().unwrap().len();
    home.set_len(1 << 20).unwrap();
    (0..8).for_each(|at| assert_eq!(disk.read((8 << 20) + at * 8 * BLOCK, BLOCK), None));
    let begun = Instant::now();
    while place.json()["state"] != "failed" {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", place.json());
    }
    let json = place.json();
    let meaning = json["meaning"].as_str().unwrap();
    assert!(meaning.contains("ssd c") && !meaning.contains("is safe") && !meaning.contains("at its home"), "{meaning}");
    assert_ne!(json["members"][0]["state"], "online", "{json}");
    home.set_len(len).unwrap();
    drop(disk);
    assert!(served.kill().contains("ssd ("));
}

/// Regression: a drain answered that home is a plain disk, although the guard could not be lowered.
#[test]
fn drain_that_leaves_the_guard_up_is_no_success() {
    let place = Place::new("guarded", LAZY);
    for is_served in [true, false] {
        let served = is_served.then(|| place.serve("box"));
        if is_served {
            let mut disk = place.disk();
            disk.write(0, &[7; 8 * BLOCK]);
            disk.flush();
            // Another program writes where the notice of the guard stands.
            let home = File::options().write(true).open(place.folder.join("hdd.img")).unwrap();
            home.write_all_at(&[0xa5; 512], 8 * 512).unwrap();
        }
        // The server may not have noticed yet that the client is gone.
        let output = place.command("drain box --detach --force").output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(!is_served || message.contains("hdd is no plain disk"), "{message}");
        drop(served);
    }
}

/// The tails of drives move when drives grow, and the report moves with them.
#[test]
fn a_report_stays_when_drives_grow() {
    let place = Place::new("grown", "--scheme hybrid-disk");
    let served = place.serve("box");
    let mut disk = place.disk();
    disk.write(0, &[6; 8 * BLOCK]);
    disk.flush();
    place.answer("drain box", 0);
    (0..3).for_each(|_| assert_eq!(disk.read(0, 8 * BLOCK).unwrap(), [6; 8 * BLOCK]));
    assert!(place.rot("ssd.img", 6) > 0);
    assert_eq!(disk.read(0, 8 * BLOCK).unwrap(), [6; 8 * BLOCK]);
    drop(disk);
    served.stop();
    place.answer("drain box --detach", 0);
    let listed = place.json()["lost"].clone();
    assert_ne!(listed["other_blocks"], 0);
    for drive in ["ssd.img", "hdd.img"] {
        File::options().write(true).open(place.folder.join(drive)).and_then(|file| file.set_len(80 << 20)).unwrap();
    }
    place.answer("resize hdd.img", 0);
    assert_eq!(place.json()["lost"], listed);
    // The report is shown and acknowledged also for a plain disk, which no server may open.
    place.answer("check box", 3);
    place.answer("acknowledge box", 0);
    place.answer("check box", 0);
    assert!(!place.json()["history"].as_array().unwrap().is_empty());
}

/// Regression: a server that was asked to stop closed its socket while `status` asked. Status ended
/// with "Connection reset by peer" instead of showing the stopped volume.
#[test]
fn status_of_a_server_that_is_ending_waits_for_its_end() {
    let place = Place::new("ending", "--scheme bcache");
    let socket = place.folder.join("run/bimetal/box.control");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let ending = std::thread::spawn(move || {
        let (mut asked, _) = listener.accept().unwrap();
        // The socket is closed with a part of the request unread, so that the client gets a reset.
        asked.read_exact(&mut [0; 1]).unwrap();
        drop(asked);
        fs::remove_file(socket).unwrap();
    });
    assert_eq!(place.json()["meaning"], "everything is at home");
    ending.join().unwrap();
}
