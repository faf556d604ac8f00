//! Drives of a volume from `create` to an open volume and back: labels, locks, and the guard of the
//! home drive.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bimetal_core::block::BlockSize;
use bimetal_core::label::Guard;
use bimetal_core::layout::{MemberId, Role};
use bimetal_core::operation::{Command as Drives, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::schemes;
use bimetal_core::units::{SectorRange, Sectors};
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::absent::Absent;
use bimetal_device::drive::file::DriveFile;
use bimetal_device::drive::{Drive, Engine, attach};
use bimetal_volumes::attach::{self, Options};
use bimetal_volumes::create::{Created, DriveChoice, Request, create};
use bimetal_volumes::find::{Labelled, Located, find};
use bimetal_volumes::held::{Held, HoldError};
use bimetal_volumes::report;
use bimetal_volumes::resize::{ResizeError, resize};
use bimetal_volumes::settings::{keep, needs_clean};
use bimetal_volumes::verdict::Verdict;

/// Variable with the directory of a test, which runs in its own process.
const PLACE: &str = "BIMETAL_TEST_PLACE";

/// Runs `body` in its own directory; `name` is the name of the test.
fn in_own_place(name: &str, body: impl FnOnce(&Path)) {
    if let Some(place) = std::env::var_os(PLACE) {
        return body(Path::new(&place));
    }
    let place = std::env::temp_dir().join(format!("bimetal-members-{name}-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a folder for the test");
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", name, "--nocapture"])
        .env(PLACE, &place)
        .env("XDG_STATE_HOME", place.join("state"))
        .env("XDG_RUNTIME_DIR", place.join("run"))
        .output()
        .expect("this test starts again");
    fs::remove_dir_all(&place).expect("the folder of the test goes");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn file(place: &Path, name: &str, mib: u64) -> PathBuf {
    let path = place.join(name);
    File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("a file for the test");
    path
}

fn volume(name: &str, scheme: &str, ssd: &Path, hdd: &Path) -> Created {
    create(&request(name, scheme, ssd, hdd)).expect("a volume")
}

fn request(name: &str, scheme: &str, ssd: &Path, hdd: &Path) -> Request {
    let choice = |role, path: &Path| DriveChoice { role, path: path.to_owned(), emulates: None };
    Request {
        name: name.to_owned(),
        scheme: schemes::find(scheme).expect("a scheme"),
        settings: Vec::new(),
        block: BlockSize::default(),
        drives: vec![choice(Role::Hdd, hdd), choice(Role::Ssd, ssd)],
        dry_run: false,
        force: false,
        created_by: "test".to_owned(),
    }
}

fn drives_of(held: &Held, located: &Located) -> Vec<Box<dyn Drive>> {
    let open = |(at, drive): (usize, Option<&Labelled>)| -> Box<dyn Drive> {
        let Some(drive) = drive else { return Box::new(Absent::new().expect("an absent drive")) };
        let file = DriveFile::open(&drive.probe.canonical).expect("a drive");
        held.wrap(MemberId(at as u16), attach(file, Engine::Pool).expect("a drive that can be worked"))
    };
    located.members().enumerate().map(open).collect()
}

/// Takes the volume and begins to use it, as a server does.
fn begin(volume: &str) -> Result<(Held, Vec<Box<dyn Drive>>), HoldError> {
    let located = find(volume).expect("found");
    let mut held = Held::take(&located)?;
    let mut drives = drives_of(&held, &located);
    held.begin(&mut drives)?;
    Ok((held, drives))
}

fn run(drive: &mut dyn Drive, kind: OpKind, range: SectorRange, payload: Buffers) -> Completion<Buffers> {
    let command = Drives { kind, range, fua: false };
    drive.submit(Operation { token: Token(1), target: 0, command, payload });
    drive.start();
    let mut ended = Vec::new();
    while ended.is_empty() {
        drive.collect(&mut ended);
        std::thread::yield_now();
    }
    ended.remove(0)
}

fn start_of(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    File::open(path).and_then(|file| file.read_exact_at(&mut bytes, 0)).expect("a drive");
    bytes
}

/// Regression: a command took labels that it had read before it locked the drives. Another command
/// had written them meanwhile, and its setting was lost.
#[test]
fn labels_that_changed_before_the_lock_are_refused() {
    in_own_place("labels_that_changed_before_the_lock_are_refused", |place| {
        volume("changing", "bcache", &file(place, "ssd", 16), &file(place, "hdd", 16));
        let before = find("changing").expect("found");
        let mut other = Held::take(&before).expect("nobody has it");
        keep(&mut other, "move_rate", "1MiB").expect("the labels are written");
        drop(other);
        assert!(matches!(Held::take(&before), Err(HoldError::Changed(name)) if name == "changing"));
        let held = Held::take(&find("changing").expect("found")).expect("the labels are those of today");
        assert!(held.label().scheme_settings().any(|setting| setting == ("move_rate", "1MiB")));
    });
}

/// Regression: a resize took labels that it had read before it locked the drives. Another resize
/// had ended meanwhile and the volume had been used, and its cache was emptied.
#[test]
fn resize_refuses_labels_that_changed_before_the_lock() {
    in_own_place("resize_refuses_labels_that_changed_before_the_lock", |place| {
        volume("resizing", "bcache", &file(place, "ssd", 16), &file(place, "hdd", 16));
        let mut before = find("resizing").expect("found");
        before.assembly.resizing = true;
        drop(begin("resizing").expect("begun"));
        let refused = resize(&before, &[]);
        assert!(matches!(&refused, Err(ResizeError::Hold(HoldError::Changed(_)))), "{refused:?}");
    });
}

/// Regression: `resize` named `attach` where `attach` named `resize`: the cache was lost amid a
/// resize.
#[test]
fn missing_drive_amid_a_resize_has_a_remedy() {
    in_own_place("missing_drive_amid_a_resize_has_a_remedy", |place| {
        let ssd = file(place, "ssd", 16);
        volume("halfway", "bcache", &ssd, &file(place, "hdd", 16));
        fs::remove_file(ssd).expect("the cache is lost");
        let mut located = find("halfway").expect("found by its home");
        let refused = |located: &Located| resize(located, &[]).expect_err("a drive is missing").to_string();
        let before = refused(&located);
        assert!(before.contains("run `bimetal attach` with another drive first"), "{before}");
        located.assembly.resizing = true;
        let amid = refused(&located);
        assert!(amid.contains("`bimetal create` and --force") && !amid.contains("attach"), "{amid}");
    });
}

/// Regression: a cache that had grown was taken for a blank drive, and its dirty blocks were lost.
#[test]
fn grown_member_is_no_blank_drive() {
    in_own_place("grown_member_is_no_blank_drive", |place| {
        let ssd = file(place, "ssd", 16);
        volume("first", "smart-response", &ssd, &file(place, "hdd", 64));
        File::options().write(true).open(&ssd).and_then(|file| file.set_len(24 << 20)).expect("a larger drive");
        fs::remove_file(place.join("state/bimetal/sizes")).expect("sizes are remembered");
        let mut other = request("second", "smart-response", &ssd, &file(place, "hdd2", 64));
        let refused = create(&other).expect_err("the drive has a label").to_string();
        assert!(refused.contains("is labelled as a drive of volume 'first' already"), "{refused}");
        other.force = true;
        create(&other).expect("the user allowed it");
        assert_eq!(find("second").expect("found").members().flatten().count(), 2);
    });
}

/// An open volume keeps its home from being taken for a plain drive. The guard hides the drive's
/// beginning until it is lowered.
#[test]
fn open_volume_guards_its_home_against_plain_use() {
    in_own_place("open_volume_guards_its_home_against_plain_use", |place| {
        let (ssd, hdd) = (file(place, "ssd", 16), file(place, "hdd", 64));
        let before = vec![0x42; 4 << 20];
        File::options().write(true).open(&hdd).and_then(|file| file.write_all_at(&before, 0)).expect("written");
        let created = volume("guarded", "smart-response", &ssd, &hdd);
        assert_eq!(created.label.guard, Some((MemberId(0), Guard::Down)));
        assert_eq!(start_of(&hdd), [0x42; 8]);

        let (held, mut drives) = begin("guarded").expect("begun");
        assert_eq!(held.label().guard, Some((MemberId(0), Guard::Up)));
        assert_eq!(start_of(&hdd), *b"-rom1fs-");
        let home = &mut drives[0];
        // Across the end of the redirected beginning.
        let range = SectorRange::new(2040, 16);
        let read = run(home.as_mut(), OpKind::Read, range, Buffers::empty());
        assert_eq!((read.status, read.payload.to_metadata()), (Status::Done, vec![0x42; 16 * 512]));
        let new = Buffers::from_metadata(&[0x77; 16 * 512]);
        assert_eq!(run(home.as_mut(), OpKind::Write, range, new).status, Status::Done);
        let flush = run(home.as_mut(), OpKind::Flush, SectorRange::default(), Buffers::empty());
        assert_eq!(flush.status, Status::Done);
        // As after a crash: nothing is closed, and the volume is found again with the guard up.
        drop((drives, held));
        let (mut held, mut drives) = begin(&ssd.display().to_string()).expect("begun again");
        assert_eq!(held.label().guard, Some((MemberId(0), Guard::Up)));
        let read = run(drives[0].as_mut(), OpKind::Read, range, Buffers::empty());
        assert_eq!(read.payload.to_metadata(), vec![0x77; 16 * 512]);
        drop(drives);
        held.lower_guard().expect("lowered");
        assert_eq!(held.label().guard, Some((MemberId(0), Guard::Down)));
        let mut bytes = vec![0; 4 << 20];
        File::open(&hdd).and_then(|file| file.read_exact_at(&mut bytes, 0)).expect("read");
        let mut expected = before;
        expected[2040 * 512..2056 * 512].fill(0x77);
        assert!(bytes == expected, "the drive is as it was, and what was written is in its place");
    });
}

#[test]
fn a_volume_in_use_is_not_opened_twice() {
    in_own_place("a_volume_in_use_is_not_opened_twice", |place| {
        volume("once", "smart-response", &file(place, "ssd", 16), &file(place, "hdd", 64));
        let located = find("once").expect("found");
        let held = Held::take(&located).expect("taken");
        let error = Held::take(&find("once").expect("found")).expect_err("refused").to_string();
        assert_eq!(error, format!("volume 'once' is in use by process {}: stop its server first", std::process::id()));
        drop(held);
        begin("once").expect("begun");
    });
}

#[test]
fn a_home_that_was_written_without_its_volume_is_not_used() {
    in_own_place("a_home_that_was_written_without_its_volume_is_not_used", |place| {
        let hdd = file(place, "hdd", 64);
        volume("foreign", "smart-response", &file(place, "ssd", 16), &hdd);
        drop(begin("foreign").expect("begun"));
        File::options().write(true).open(&hdd).and_then(|file| file.write_all_at(&[1; 512], 4096)).expect("written");
        let error = begin("foreign").err().expect("refused");
        assert!(matches!(error, HoldError::Guard { .. }), "{error}");
        assert!(
            error.to_string().contains("sector 8 of the drive was written while its volume was attached"),
            "{error}"
        );
    });
}

#[test]
fn a_member_that_is_missing_is_told_and_its_return_is_behind() {
    in_own_place("a_member_that_is_missing_is_told_and_its_return_is_behind", |place| {
        let (ssd, hdd) = (file(place, "ssd", 16), file(place, "hdd", 64));
        volume("alone", "smart-response", &ssd, &hdd);
        let away = place.join("away");
        fs::create_dir(&away).expect("a folder");
        fs::rename(&ssd, away.join("ssd")).expect("a drive goes");
        let located = find("alone").expect("found");
        assert_eq!(located.assembly.absent(&located.found())[0].member, "ssd");
        // Taking the volume does not make the missing drive outdated.
        drop(Held::take(&located).expect("taken"));
        fs::rename(away.join("ssd"), &ssd).expect("a drive comes back");
        assert_eq!(find("alone").expect("found").members().flatten().count(), 2);
        fs::rename(&ssd, away.join("ssd")).expect("a drive goes again");
        drop(begin("alone").expect("begun"));
        fs::rename(away.join("ssd"), &ssd).expect("a drive comes back");
        let located = find("alone").expect("found");
        let absent = located.assembly.absent(&located.found());
        assert_eq!(absent[0].behind.as_deref(), Some(ssd.to_str().expect("a path")));
    });
}

#[test]
fn a_scheme_that_spreads_its_addresses_has_no_guard() {
    in_own_place("a_scheme_that_spreads_its_addresses_has_no_guard", |place| {
        let hdd = file(place, "hdd", 64);
        let created = volume("spread", "combo", &file(place, "ssd", 16), &hdd);
        assert_eq!(created.label.guard, None);
        begin("spread").expect("begun");
        assert_eq!(start_of(&hdd), [0; 8]);
    });
}

fn tool(program: &str, arguments: &[&str], path: &Path) -> Option<String> {
    match Command::new(program).args(arguments).arg(path).output() {
        Ok(output) => {
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(_) => {
            assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "no {program}");
            println!("skipped: no {program}");
            None
        }
    }
}

/// An adopted file system is hidden while its volume is attached. The file system is intact after
/// the volume was detached.
#[test]
fn adopted_file_system_is_hidden_only_while_attached() {
    in_own_place("adopted_file_system_is_hidden_only_while_attached", |place| {
        let (ssd, hdd) = (file(place, "ssd", 16), file(place, "hdd", 64));
        if tool("mkfs.ext4", &["-q"], &hdd).is_none() {
            return;
        }
        File::options().write(true).open(&hdd).and_then(|file| file.set_len(68 << 20)).expect("a larger drive");
        let created = volume("adopted", "smart-response", &ssd, &hdd);
        assert!(matches!(created.drives[0].1, Verdict::Adopted { name: "ext4", .. }));
        let (mut held, drives) = begin("adopted").expect("begun");
        if let Some(text) = tool("blkid", &["-p", "-o", "value", "-s", "TYPE"], &hdd) {
            assert_eq!(text.trim(), "romfs");
        }
        assert_eq!(held.label().member_infos()[0].capacity, Sectors(68 * 2048 - 128 - 4096));
        drop(drives);
        held.lower_guard().expect("lowered");
        tool("e2fsck", &["-fn"], &hdd);
    });
}

/// Flips a bit in every page of `path` that begins with `magic`.
fn damage(path: &Path, magic: &[u8]) {
    let mut bytes = fs::read(path).expect("a drive");
    bytes.chunks_mut(4096).filter(|page| page.starts_with(magic)).for_each(|page| page[100] ^= 1);
    fs::write(path, bytes).expect("a drive");
}

/// Regression: a power cut between a recovery that gave content up and the first write of the
/// report left a volume whose status reported no loss. A start that may accept losses marks the
/// report as doubtful until the start is over.
#[test]
fn start_that_accepts_losses_leaves_a_doubt_until_its_end() {
    in_own_place("start_that_accepts_losses_leaves_a_doubt_until_its_end", |place| {
        let (ssd, hdd) = (file(place, "ssd", 16), file(place, "hdd", 64));
        volume("doubted", "smart-response", &ssd, &hdd);
        let located = || find("doubted").expect("found");
        let start = || attach::attach(&located(), Options { accept_loss: true, ..Options::default() }, |_, _| {});
        drop(start().expect("attached"));
        let report = report::of(&located());
        assert!(!report.doubtful && report.history().is_empty(), "nothing was given up: {report:?}");

        let sound = fs::read(&hdd).expect("a drive");
        damage(&hdd, b"BImt");
        assert!(start().is_err(), "nobody knows the state of home");
        let report = report::of(&located());
        assert!(report.doubtful, "the start did not come to its end");
        assert!(report.history()[0].text.contains("was interrupted"), "{:?}", report.history());

        // The next start does not know the losses of the interrupted start.
        fs::write(&hdd, sound).expect("a drive");
        drop(start().expect("attached"));
        assert!(report::of(&located()).doubtful, "the doubt lasts until it is acknowledged");
    });
}

/// Regression: an earlier build made volumes with a wear levelling that only a simulation has. This
/// build opens no such volume, and the setting that leaves the value asked for a drain first.
#[test]
fn volume_leaves_a_simulated_setting_without_a_drain() {
    in_own_place("volume_leaves_a_simulated_setting_without_a_drain", |place| {
        let (ssd, hdd) = (file(place, "ssd", 64), file(place, "hdd", 128));
        volume("levelled", "mixedstore", &ssd, &hdd);
        let needs = |key: &str, value: &str| needs_clean(&find("levelled").expect("found").assembly.label, key, value);
        let refused = |value: &str| needs("wear_levelling", value).expect_err("refused").to_string();
        let reason =
            "wear_levelling=adaptive: only a simulation can follow this setting: with wear_levelling=adaptive ";
        assert!(refused("adaptive").starts_with(reason), "{}", refused("adaptive"));
        let mut held = Held::take(&find("levelled").expect("found")).expect("taken");
        keep(&mut held, "wear_levelling", "adaptive").expect("written as the earlier build did");
        drop(held);
        assert!(refused("adaptive").starts_with(reason), "{}", refused("adaptive"));
        assert!(!needs("wear_levelling", "static").expect("possible"), "no drain is needed");
        assert!(needs("block", "8KiB").is_err(), "other keys are checked as before");
    });
}

/// Regression: a volume with two values that only a simulation follows could leave neither, because
/// each change was refused for the other value.
#[test]
fn volume_leaves_two_simulated_settings_in_turn() {
    in_own_place("volume_leaves_two_simulated_settings_in_turn", |place| {
        let (ssd, hdd) = (file(place, "ssd", 64), file(place, "hdd", 128));
        volume("both", "mixedstore", &ssd, &hdd);
        let needs = |key: &str, value: &str| needs_clean(&find("both").expect("found").assembly.label, key, value);
        let set = |key: &str, value: &str| {
            let mut held = Held::take(&find("both").expect("found")).expect("taken");
            keep(&mut held, key, value).expect("written as an earlier build did");
        };
        set("wear_levelling", "adaptive");
        set("idle_periods", "profiled");
        for (key, simulated, real) in
            [("idle_periods", "profiled", "detected"), ("wear_levelling", "adaptive", "static")]
        {
            let refused = needs(key, simulated).expect_err("the value stays").to_string();
            assert!(refused.contains(&format!("expected {key}={real}")), "{refused}");
        }
        assert!(needs("idle", "200ms").is_err(), "another key leaves no such value");
        assert!(!needs("idle_periods", "detected").expect("possible"), "no drain is needed");
        set("idle_periods", "detected");
        assert!(!needs("wear_levelling", "static").expect("possible"), "no drain is needed");
        set("wear_levelling", "static");
        assert!(attach::attach(&find("both").expect("found"), Options::default(), |_, _| {}).is_ok());
    });
}

/// Volumes of other builds may have values that only a simulation follows. Regression: the refusal
/// of most values named no remedy, and the remedy asked for a drain, for which the volume would
/// have to be opened.
#[test]
fn volume_with_a_simulated_value_is_refused_with_a_remedy() {
    in_own_place("volume_with_a_simulated_value_is_refused_with_a_remedy", |place| {
        let values = [
            ("mixedstore", "wear_levelling", "adaptive", "static"),
            ("mixedstore", "idle_periods", "profiled", "detected"),
            ("griffin", "migration", "instant", "timed"),
            ("smart-response", "replacement", "belady", "lru"),
            ("hybrid-disk", "in_place", "on", "off"),
        ];
        for (number, (scheme, key, simulated, real)) in values.into_iter().enumerate() {
            let name = format!("volume{number}");
            let (ssd, hdd) = (file(place, &format!("ssd{number}"), 64), file(place, &format!("hdd{number}"), 128));
            volume(&name, scheme, &ssd, &hdd);
            let located = || find(&name).expect("found");
            let set = |key: &str, value: &str| {
                let mut held = Held::take(&located()).expect("taken");
                keep(&mut held, key, value).expect("written");
            };
            set(key, simulated);
            let refused = attach::attach(&located(), Options::default(), |_, _| {}).err().expect("refused").to_string();
            assert!(refused.contains(&format!("{key}={simulated}")), "{scheme}: {refused}");
            assert!(refused.contains(&format!("{key}={real}")), "{scheme}: {refused}");
            assert!(refused.contains(&format!("`bimetal set {name} KEY=VALUE`")), "{scheme}: {refused}");
            let drains = needs_clean(&located().assembly.label, key, real).expect("possible");
            assert!(!drains, "{scheme}: {key}={real}");
            set(key, real);
            assert!(attach::attach(&located(), Options::default(), |_, _| {}).is_ok(), "{scheme}: {key}={real}");
        }
    });
}

/// Regression: the search of former ends spent its time on the first drives of the machine, and did
/// not reach a grown file behind them.
#[test]
fn grown_drives_are_found_behind_large_drives() {
    in_own_place("grown_drives_are_found_behind_large_drives", |place| {
        let members = ["ssd", "hdd"].map(|name| file(place, name, 64));
        let large = ["a", "b"].map(|name| file(place, name, 64 << 10));
        bimetal_volumes::registry::remember(&large).expect("files are remembered");
        volume("grown", "hybrid-disk", &members[0], &members[1]);
        for path in &members {
            let drive = File::options().write(true).open(path).expect("a drive");
            drive.set_len(80 << 20).expect("a larger drive");
        }
        fs::remove_file(place.join("state/bimetal/sizes")).expect("sizes are remembered");
        let located = find("grown").expect("the volume is found");
        assert_eq!(located.members().flatten().count(), 2);
    });
}
