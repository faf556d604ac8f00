//! `bimetal create` and `status` on files: refusals and their messages, content that stays, and the
//! search for a volume.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bimetal_device::probe::probe;
use support::LoopDevice;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// A directory with drives and with the program's own state.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bimetal-create-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a folder for the test");
        Self(directory)
    }

    fn file(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.0.join(name);
        File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("a file for the test");
        path
    }

    /// Runs a program in the directory; `None` if the program is not installed.
    fn tool(&self, program: &str, arguments: &[&str]) -> Option<Output> {
        match Command::new(program).args(arguments).current_dir(&self.0).output() {
            Ok(output) => {
                assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
                Some(output)
            }
            Err(_) => {
                assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "no {program}");
                println!("skipped: no {program}");
                None
            }
        }
    }

    fn run(&self, line: &str) -> Output {
        Command::new(BIMETAL)
            .args(line.split_whitespace())
            .current_dir(&self.0)
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env("XDG_RUNTIME_DIR", self.0.join("run"))
            .output()
            .expect("bimetal starts")
    }

    /// Runs the command, which must succeed, and returns its output.
    fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs the command, which must be refused, and returns its message.
    fn refuse(&self, line: &str) -> String {
        let output = self.run(line);
        let message = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{line}: {message}");
        message
    }

    /// Returns the whole content of a drive.
    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).expect("a drive of the test")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const CREATE: &str = "create mail --scheme smart-response --ssd ssd.img --hdd hdd.img";

fn with_drives(name: &str) -> Place {
    let place = Place::new(name);
    place.file("ssd.img", 16);
    place.file("hdd.img", 64);
    place
}

/// The output of `create` names the exported size, the role of each drive, and the loss of the
/// worst crash. `status` shows the volume.
#[test]
fn created_volume_prints_export_roles_and_worst_crash() {
    let place = with_drives("says");
    let text = place.succeed(&format!("{CREATE} --set mode=maximized"));
    assert!(text.starts_with("mail: "), "{text}");
    for expected in
        ["exported (", "hdd  hdd.img: home of every address", "ssd  ssd.img: ", "of slots", "worst crash  loses "]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let status = place.succeed("status mail");
    assert!(status.starts_with("mail: smart-response, stopped\n"), "{status}");
    assert!(status.contains("/ssd.img") && status.contains("mode=maximized"), "{status}");
    let json = place.succeed("status ssd.img --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["members"][0]["id"], &json["members"][0]["role"]), (&"hdd".into(), &"home".into()));
    assert_eq!(json["members"][1]["state"], "present");
}

/// A dry run says what `create` says, refuses what it refuses, and leaves every byte of the drives
/// as it was.
#[test]
fn dry_run_prints_the_volume_and_writes_nothing() {
    let place = with_drives("dry");
    place.succeed(&CREATE.replace("mail", "old"));
    let message = place.refuse(&format!("{CREATE} --dry-run"));
    assert!(message.contains("volume 'old'"), "{message}");
    let before = ["ssd.img", "hdd.img"].map(|name| fs::read(place.0.join(name)).expect("a drive"));
    let dry = place.succeed(&format!("{CREATE} --force --dry-run"));
    let after = ["ssd.img", "hdd.img"].map(|name| fs::read(place.0.join(name)).expect("a drive"));
    assert!(before == after, "a dry run has written");
    assert!(place.refuse("status mail").contains("no drive with a label"));
    let emulated = "create slow --scheme smart-response --ssd ssd.img --hdd-size 64MiB --dry-run --force \
                    --hdd emulate:seagate-barracuda-7200.12-1tb:new.img";
    assert!(place.succeed(emulated).contains("as slow as seagate-barracuda-7200.12-1tb"));
    assert!(!place.0.join("new.img").exists(), "a dry run has left a file");
    let made = place.succeed(&format!("{CREATE} --force"));
    let (dry, made) =
        (dry.replace("Nothing was written (--dry-run).", ""), made.replace("Serve it with: bimetal serve mail", ""));
    assert_eq!(dry, made);
}

/// Returns the JSON document that a command prints; its schema must have the command's name.
fn json(place: &Place, line: &str) -> serde_json::Value {
    let text = place.succeed(line);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}"));
    let name = line.split_whitespace().next().expect("a command");
    assert_eq!(document["schema"], format!("bimetal/{name}/2"), "{line}");
    document
}

#[test]
fn commands_that_change_a_volume_tell_programs_their_result() {
    let place = with_drives("json");
    let create = "create mail --scheme smart-response --ssd ssd.img --hdd hdd.img --json";
    let planned = json(&place, &format!("{create} --dry-run"));
    assert!(place.refuse("status mail").contains("mail"), "nothing was written");
    let created = json(&place, create);
    for (document, dry_run) in [(&planned, true), (&created, false)] {
        assert_eq!((&document["volume"], &document["dry_run"]), (&"mail".into(), &dry_run.into()));
        assert_eq!(document["members"][0]["member"], "hdd", "{document}");
        assert_eq!(document["exported_bytes"], created["exported_bytes"]);
    }
    let set = json(&place, "set mail move_rate=1MiB --json");
    assert_eq!(
        (&set["volume"], &set["message"]),
        (&"mail".into(), &"move_rate=1MiB takes effect at the next start".into())
    );
    let drained = json(&place, "drain mail --json");
    assert!(drained["message"].as_str().is_some_and(|text| text.contains("home")), "{drained}");
    let resized = json(&place, "resize mail --json");
    assert_eq!(resized["exported_bytes"], created["exported_bytes"]);
    assert!(resized["members"][0]["used_bytes"].as_u64() > Some(0), "{resized}");
    assert!(json(&place, "upgrade mail --json")["message"].as_str().is_some_and(|text| text.contains("already")));
    assert!(json(&place, "acknowledge mail --json")["message"].is_string());
}

#[test]
fn drives_are_found_by_their_labels_wherever_they_went() {
    let place = with_drives("found");
    place.succeed(CREATE);
    let elsewhere = place.0.join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    for (name, new) in [("ssd.img", "a"), ("hdd.img", "b")] {
        fs::rename(place.0.join(name), elsewhere.join(new)).expect("a drive moves");
    }
    let status = place.succeed("status elsewhere/b");
    assert!(status.contains("elsewhere/a") && status.contains("stopped"), "{status}");
    fs::remove_file(elsewhere.join("a")).expect("a drive goes");
    let status = place.succeed("status elsewhere/b");
    assert!(status.contains("incomplete") && status.contains("missing, last seen"), "{status}");
}

#[test]
fn a_clone_is_refused_and_named() {
    let place = with_drives("clone");
    place.succeed(CREATE);
    fs::copy(place.0.join("hdd.img"), place.0.join("copy.img")).expect("a copy");
    let message = place.refuse("status copy.img");
    assert!(message.contains("both carry the label of volume 'mail', member hdd"), "{message}");
    assert!(message.contains("hdd.img") && message.contains("copy.img"), "{message}");
}

#[test]
fn a_drive_of_another_size_is_refused() {
    let place = with_drives("size");
    place.succeed(CREATE);
    let bytes = place.bytes("hdd.img");
    // The beginning is cut off; the label at the end stays.
    fs::write(place.0.join("hdd.img"), &bytes[1 << 20..]).expect("a drive");
    let message = place.refuse("status hdd.img");
    assert!(message.contains("with 64MiB, and has 63MiB now"), "{message}");
}

#[test]
fn what_is_labelled_already_is_refused_until_it_is_forced() {
    let place = with_drives("labelled");
    place.succeed(CREATE);
    place.file("other.img", 64);
    let message = place.refuse("create news --scheme smart-response --ssd ssd.img --hdd other.img");
    assert!(message.contains("ssd.img: is labelled as a drive of volume 'mail' already. --force"), "{message}");
    let message = place.refuse("create mail --scheme smart-response --ssd ssd.img --hdd other.img --force");
    assert!(message.contains("volume 'mail' exists already"), "{message}");
    place.succeed("create news --scheme smart-response --ssd ssd.img --hdd other.img --force");
    let status = place.succeed("status hdd.img");
    assert!(status.contains("mail: smart-response, incomplete"), "{status}");
    // The same drives are used again, so the names do not clash.
    place.succeed("create news --scheme smart-response --ssd ssd.img --hdd other.img --force");
}

#[test]
fn a_refusal_changes_nothing_on_any_drive() {
    let place = with_drives("nothing");
    place.succeed(CREATE);
    place.file("other.img", 64);
    let before = (place.bytes("ssd.img"), place.bytes("other.img"));
    place.refuse("create news --scheme smart-response --ssd ssd.img --hdd other.img");
    assert!(before == (place.bytes("ssd.img"), place.bytes("other.img")));
}

#[test]
fn a_file_that_somebody_has_locked_is_refused_even_with_force() {
    let place = with_drives("locked");
    let ssd = File::open(place.0.join("ssd.img")).expect("a drive");
    rustix::fs::flock(&ssd, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    let message = place.refuse(&format!("{CREATE} --force"));
    assert!(message.contains("ssd.img: is in use, so it cannot be a drive of a volume"), "{message}");
    drop(ssd);
    place.succeed(CREATE);
}

/// An ext4 that ends before Bimetal's metadata stays on its drive. A longer ext4 is refused with a
/// command that makes room.
#[test]
fn ext4_stays_if_it_ends_early_and_is_refused_otherwise() {
    let place = with_drives("ext4");
    if place.tool("mkfs.ext4", &["-q", "hdd.img"]).is_none() {
        return;
    }
    let message = place.refuse(CREATE);
    assert!(message.contains("hdd.img: carries ext4 of 67108864 bytes"), "{message}");
    let (_, remedy) = message.trim().rsplit_once("Make the file larger first: truncate ").expect("a remedy");
    place.tool("truncate", &remedy.split(' ').collect::<Vec<_>>());
    let text = place.succeed(CREATE);
    assert!(text.contains("the ext4 on it stays, as the content of the volume"), "{text}");
    place.tool("e2fsck", &["-fn", "hdd.img"]);
}

/// Regression: Regression: `resize2fs` cuts an image file off at the end of the file system. So the
/// remedy "shrink it first" on the page led to the same refusal until `truncate` gave the file its
/// end back. The test runs the commands of the message as they stand in the message.
#[test]
fn ext4_in_a_file_is_shrunk_as_the_message_says() {
    let place = with_drives("shrink");
    if place.tool("mkfs.ext4", &["-q", "hdd.img"]).is_none() {
        return;
    }
    let message = place.refuse(CREATE);
    let (_, commands) = message.split_once("Shrink it first: ").expect("a remedy");
    let (commands, _) = commands.split_once(" (").expect("the commands end before what they do");
    // No user is present to answer the questions of e2fsck.
    let commands = commands.replace("e2fsck -f", "e2fsck -fp");
    place.tool("sh", &["-c", &commands]);
    assert_eq!(place.bytes("hdd.img").len(), 64 << 20);
    let text = place.succeed(CREATE);
    assert!(text.contains("the ext4 on it stays, as the content of the volume"), "{text}");
    place.tool("e2fsck", &["-fn", "hdd.img"]);
}

#[test]
fn an_xfs_on_a_cache_drive_is_in_the_way() {
    let place = with_drives("xfs");
    place.file("ssd.img", 400);
    if place.tool("mkfs.xfs", &["-q", "ssd.img"]).is_none() {
        return;
    }
    let message = place.refuse(CREATE);
    assert!(
        message.contains("ssd.img: carries xfs, and the volume would overwrite it. --force erases it"),
        "{message}"
    );
    let text = place.succeed(&format!("{CREATE} --force"));
    assert!(text.contains("what lay on it is erased (xfs)"), "{text}");
    assert_eq!(&place.bytes("ssd.img")[..4], [0; 4]);
}

#[test]
fn a_whole_disk_with_gpt_is_refused_for_its_backup_too() {
    let place = with_drives("gpt");
    fs::write(place.0.join("table"), "label: gpt\nsize=20M\n").expect("a table");
    if place.tool("sh", &["-c", "command -v sfdisk || PATH=$PATH:/sbin:/usr/sbin command -v sfdisk"]).is_none() {
        return;
    }
    place.tool("sh", &["-c", "PATH=$PATH:/sbin:/usr/sbin sfdisk -q hdd.img < table"]);
    let message = place.refuse(CREATE);
    assert!(message.contains("hdd.img: carries GPT partitions") && message.contains("lsblk"), "{message}");
    // The table at the beginning is erased; the backup remains.
    let disk = fs::OpenOptions::new().write(true).open(place.0.join("hdd.img")).expect("a drive");
    disk.write_all_at(&[0; 1 << 15], 0).expect("written");
    let message = place.refuse(CREATE);
    assert!(message.contains("hdd.img: carries GPT partitions"), "{message}");
}

#[test]
fn wrong_drives_and_settings_are_named() {
    let place = with_drives("wrong");
    place.file("tiny.img", 0);
    let create = |rest: &str| place.refuse(&format!("create mail --scheme {rest}"));
    let cases = [
        ("griffin --ssd ssd.img", "scheme griffin needs a drive that holds the log: give it with --hdd PATH"),
        ("griffin --ssd ssd.img --hdd ./ssd.img", "are the same drive"),
        ("griffin --ssd ssd.img --hdd none.img", "(a file is made with: truncate -s 64G none.img)"),
        ("griffin --ssd ssd.img --hdd tiny.img", "the hdd drive of 0 B is too small"),
        ("griffin --ssd ssd.img --hdd hdd.img --set timeot=3s", "griffin has no parameter 'timeot'"),
        ("griffin --ssd ssd.img --hdd hdd.img --set migration=instant", "only a simulation can follow this setting"),
        (
            "smart-response --ssd ssd.img --hdd hdd.img --set replacement=belady",
            "only a simulation can follow this setting",
        ),
        (
            "hybrid-disk --ssd ssd.img --hdd hdd.img --set in_place=on",
            "only a simulation can follow this setting: with in_place=on a block is overwritten at its place on flash and no journal",
        ),
        (
            "mixedstore --ssd ssd.img --hdd hdd.img --set wear_levelling=adaptive",
            "wear_levelling=adaptive acts in a simulation only: a real drive keeps its own wear levelling: leave --set",
        ),
        (
            "mixedstore --ssd ssd.img --hdd hdd.img --set wear_levelling=static",
            "wear_levelling=static acts in a simulation only",
        ),
        (
            "combo --ssd ssd.img --hdd hdd.img --set strategy=access --set moves=instant",
            "only a simulation can follow this setting",
        ),
        ("os-managed --ssd ssd.img --hdd hdd.img --set metadata=on", "expected --files MAP.csv beside it"),
        (
            "griffin --ssd ssd.img --hdd hdd.img --set hdd.volatile_cache=on",
            "is a real drive, and only emulated drives have settings",
        ),
        ("hdd-only --ssd ssd.img --hdd hdd.img", "does not use ssd.img"),
        ("grifin --ssd ssd.img --hdd hdd.img", "did you mean 'griffin'?"),
        ("griffin --ssd ssd.img --hdd emulate:nothing:hdd.img", "nothing"),
        ("griffin --ssd ssd.img --hdd /dev/null", "/dev/null: is a character device"),
    ];
    for (rest, expected) in cases {
        let message = create(rest);
        assert!(message.contains(expected), "{rest}: {message}");
    }
    let message = place.refuse("create a/b --scheme griffin --ssd ssd.img --hdd hdd.img");
    assert!(message.contains("'a/b' is not a volume's name"), "{message}");
}

#[test]
fn an_emulated_drive_is_kept_in_the_label_with_its_settings() {
    let place = with_drives("emulated");
    let hdd = "emulate:seagate-barracuda-7200.12-1tb:hdd.img";
    let line = format!("create mail --scheme griffin --ssd ssd.img --hdd {hdd} --set hdd.volatile_cache=on");
    let text = place.succeed(&line);
    assert!(text.contains("as slow as seagate-barracuda-7200.12-1tb"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&place.succeed("status mail --json")).expect("JSON");
    assert_eq!(json["members"][1]["profile"], "seagate-barracuda-7200.12-1tb");
    assert_eq!(json["settings"]["hdd.volatile_cache"], "on");
}

#[test]
fn a_block_device_in_use_is_refused_and_a_free_one_is_found() {
    let place = with_drives("device");
    let Some(device) = LoopDevice::over(&place.0.join("hdd.img"), &[]) else {
        println!("skipped: no loop device may be made here");
        return;
    };
    let message = place.refuse(CREATE);
    assert!(message.contains("hdd.img is a part of /dev/loop"), "{message}");
    // Every test on this machine sees the device, so its volume has a unique name.
    let name = format!("device-{}", std::process::id());
    let create = format!("create {name} --scheme smart-response --ssd ssd.img --hdd {}", device.0);
    if place.tool("mkfs.ext4", &["-q", "-b", "4096", &device.0, "15000"]).is_some() {
        let at = place.0.join("mounted");
        fs::create_dir(&at).expect("a folder");
        let mounted = Command::new("mount").arg(&device.0).arg(&at).status();
        if mounted.is_ok_and(|status| status.success()) {
            let message = place.refuse(&format!("{create} --force"));
            place.tool("umount", &[&at.display().to_string()]);
            assert!(message.contains(&format!("{} is mounted at {}", device.0, at.display())), "{message}");
        }
    }
    place.succeed(&create);
    let status = place.succeed(&format!("status {name}"));
    assert!(status.contains(&device.0), "{status}");
}

/// Regression: a command that searches for a volume opens each block device exclusively for an
/// instant. Another command that searched at the same instant reported that another program uses
/// the device.
#[test]
fn a_block_device_that_others_only_look_at_is_free() {
    let place = with_drives("looks");
    let Some(device) = LoopDevice::over(&place.0.join("hdd.img"), &[]) else {
        println!("skipped: no loop device may be made here");
        return;
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let found = probe(Path::new(&device.0)).expect("the device is there");
                    assert!(found.uses.is_empty(), "{:?}", found.uses);
                }
            });
        }
    });
}
