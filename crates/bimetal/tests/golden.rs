//! Images of volumes that earlier builds made: every build serves or upgrades such volumes.
//!
//! `golden/vN-KIND-DRIVE.zst` are drives of on-disk format N, one volume for each kind of store.
//! The volumes of format 1 were drained. The servers of the volumes of format 2 were killed (`kill
//! -9`). The volumes have the content of [`HELD`].

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// Content of the volumes: a byte value, its first position, and its number of repetitions.
const HELD: [(u8, u64, u64); 6] = [
    (17, 0, 64 << 10),
    (68, 64 << 10, 8 << 10),
    (34, 100 << 10, 12 << 10),
    (85, 200 << 10, 4 << 10),
    (51, 515 << 10, 3 << 10),
    (0, 518 << 10, 16 << 10),
];

/// A directory with the drives of a volume.
struct Place(PathBuf);

impl Place {
    /// Unpacks the drives `vFORMAT-KIND-*`.
    fn unpack(format: u32, kind: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-golden-{format}-{kind}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("run")).expect("a folder for the test");
        let place = Self(directory);
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        for drive in ["ssd", "hdd"] {
            let packed = golden.join(format!("v{format}-{kind}-{drive}.zst"));
            if let Ok(packed) = File::open(packed) {
                let bytes = zstd::decode_all(packed).expect("a golden image");
                fs::write(place.0.join(format!("{drive}.img")), bytes).expect("room for the image");
            }
        }
        place
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0);
        command.env("XDG_STATE_HOME", self.0.join("state")).env("XDG_RUNTIME_DIR", self.0.join("run"));
        command
    }

    fn run(&self, line: &str) -> (Option<i32>, String) {
        let mut command = self.command("timeout");
        let output = command.args(["-k", "1", "60", BIMETAL]).args(line.split_whitespace()).output();
        let output = output.expect("bimetal starts");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), said.concat())
    }

    /// Serves the volume, and checks that it has its content.
    fn serve_and_read(&self) {
        let (served, ready) = self.serve();
        let uri = ready.split_whitespace().nth(2).expect("a line that says where");
        for (byte, at, len) in HELD {
            let read = format!("read -P {byte} {at} {len}");
            let output = self.command("qemu-io").args(["-r", "-f", "raw", uri, "-c", &read]).output();
            let output = output.expect("qemu-io starts");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains(&format!("read {len}/{len} bytes")), "{read}: {said}");
            assert!(!said.contains("verification failed"), "{read}: {said}");
        }
        let (code, said) = self.run("status hdd.img");
        assert!(code == Some(0) && !said.contains("metadata bad"), "no page is bad: {said}");
        drop(served);
    }

    fn serve(&self) -> (Served, String) {
        let mut command = self.command(BIMETAL);
        let mut child = command.args(["serve", "hdd.img"]).stdout(Stdio::piped()).spawn().expect("bimetal starts");
        let stdout = child.stdout.take().expect("its output is ours");
        let served = Served(child);
        let mut ready = String::new();
        BufReader::new(stdout).read_line(&mut ready).expect("a line");
        assert!(ready.starts_with("ready "), "{ready}");
        (served, ready)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server; ended when it is dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn has_qemu_io() -> bool {
    let there = Command::new("qemu-io").arg("--version").output().is_ok();
    if !there {
        assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "qemu-io is missing");
        println!("skipped: qemu-io is missing (package qemu-utils)");
    }
    there
}

#[test]
fn drained_volumes_of_format_1_are_upgraded() {
    if !has_qemu_io() {
        return;
    }
    for kind in ["cache", "log"] {
        let place = Place::unpack(1, kind);
        let (code, said) = place.run("serve hdd.img");
        assert!(code == Some(1) && said.contains("bimetal upgrade"), "{kind}: {said}");
        let (code, said) = place.run("upgrade hdd.img");
        assert!(code == Some(0) && said.contains("has on-disk format 2 now"), "{kind}: {said}");
        place.serve_and_read();
        let (code, said) = place.run("upgrade hdd.img");
        assert!(code == Some(0) && said.contains("already"), "{kind}: {said}");
    }
}

#[test]
fn volumes_of_format_1_without_slots_are_served_as_they_are() {
    if !has_qemu_io() {
        return;
    }
    for kind in ["none", "ranges"] {
        let place = Place::unpack(1, kind);
        place.serve_and_read();
        // The second time, the volume has pages of both formats.
        place.serve_and_read();
    }
}

#[test]
fn volumes_of_format_2_are_recovered_after_a_crash() {
    if !has_qemu_io() {
        return;
    }
    for kind in ["none", "cache", "log", "ranges"] {
        let place = Place::unpack(2, kind);
        place.serve_and_read();
        let (code, said) = place.run("drain hdd.img");
        assert_eq!(code, Some(0), "{kind}: {said}");
        place.serve_and_read();
    }
}
