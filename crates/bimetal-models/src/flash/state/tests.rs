//! Tests of saved states: a state is small if little was touched, is refused for another drive, and
//! is read completely or not at all.

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use proptest::prelude::*;

use super::fuzz::{drives, restore_any};
use super::*;
use crate::DeviceModel;
use crate::flash::Flash;
use crate::profile::Profile;

/// Issues `count` writes of 4 KiB over the drive, then waits for all except those that stay in its
/// buffer.
fn write(drive: &mut dyn DeviceModel, count: u64) {
    let (capacity, mut done) = (drive.capacity().0, Vec::new());
    for at in 0..count {
        let start = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (capacity / 8) * 8;
        let command = Command { kind: OpKind::Write, range: SectorRange::new(start, 8), fua: false };
        drive.submit(Nanoseconds(at), Token(at), command);
        drive.advance(Nanoseconds(at), &mut done);
    }
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut done);
    }
    assert_eq!(done.len() as u64, count);
}

/// Returns a drive of a few blocks after `count` writes.
fn written(profile: &Profile, count: u64) -> Flash {
    let crate::profile::Body::Flash(flash) = &profile.body else { panic!("{} is no flash", profile.name) };
    let used = SectorRange::new(0, profile.capacity.0);
    let mut drive = Flash::new(flash, profile.capacity, None, Precondition::Random, used, 7).unwrap();
    write(&mut drive, count);
    drive
}

/// Returns true unless the profile is the raw medium, which refuses some writes.
fn is_managed(profile: &Profile) -> bool {
    !profile.figures().any(|(key, value, _)| key == "ftl" && value.contains("none"))
}

#[test]
fn saved_state_of_a_barely_used_large_drive_is_small() {
    let profile = Profile::load("samsung-970-evo-plus-500gb").unwrap();
    let size = Bytes::from_gib(1024).sectors();
    for precondition in [Precondition::Clean, Precondition::Sequential, Precondition::Random] {
        let used = SectorRange::new(0, size.0);
        let mut drive = profile.build_preconditioned(Some(size), precondition, used, 1).unwrap();
        write(drive.as_mut(), 1000);
        let tables = drive.save_state().unwrap();
        eprintln!("{precondition:?}: {} bytes for 1000 scattered writes", tables.len());
        assert!(tables.len() < 40_000, "{precondition:?}: {} bytes", tables.len());
        assert_eq!(profile.restore(Some(size), &tables).unwrap().save_state(), Some(tables));
    }
}

#[test]
fn what_waits_in_the_buffer_is_still_there_after_a_restore() {
    let profile = Profile::load("intel-x25-m-80gb").unwrap();
    let mut drive = written(&profile, 1001);
    let mut restored = profile.restore_flash(None, &drive.save()).unwrap();
    write(&mut restored, 3);
    restored.submit(Nanoseconds::from_seconds(9), Token(9), Command::FLUSH);
    let mut done = Vec::new();
    restored.advance(Nanoseconds::MAX, &mut done);
    assert_eq!(done.len(), 1);
    restored.check();
}

#[test]
fn a_state_of_another_drive_is_refused_by_the_key_that_differs() {
    let profile = Profile::load("intel-x25-m-80gb").unwrap();
    let tables = written(&profile, 10).save();
    for (key, value, expected) in [
        ("ftl", "anand", "ftl = anand: expected page, as in the run that saved the state"),
        ("gc", "d-choices:10", "gc = d-choices:10: expected greedy,"),
        ("spare_factor", "0.2", "spare_factor = 0.2: expected "),
        ("pages_per_block", "256", "pages_per_block = 256: expected 128,"),
        ("capacity", "40GB", "capacity = 40000000000: expected 80"),
        ("wear_levelling", "static", "wear_levelling = static: expected none,"),
    ] {
        let mut other = profile.clone();
        other.set(key, value).unwrap();
        let error = other.restore(None, &tables).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut other = profile.clone();
    other.set_all([("read_us", "90"), ("rated_cycles", "7000"), ("write_buffer", "1MiB")]).unwrap();
    other.restore(None, &tables).unwrap();
    let hdd = Profile::load(crate::profile::DEFAULT_HDD).unwrap();
    assert!(hdd.restore(None, &tables).err().unwrap().to_string().contains("only a flash drive"));
}

#[test]
fn a_file_that_is_none_or_not_as_it_was_written_is_refused() {
    let drives = [
        DriveState { drive: "ssd".to_owned(), tables: vec![1, 2, 3] },
        DriveState { drive: "log".to_owned(), tables: Vec::new() },
    ];
    let file = encode(&drives);
    assert_eq!(decode(&file).as_deref(), Ok(drives.as_slice()));
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 0x10;
        assert!(decode(&bad).is_err(), "byte {at}");
        assert!(decode(&file[..at]).is_err(), "cut at {at}");
    }
    assert_eq!(decode(b"a file of something else"), Err(StateError::NoState));
    let mut later = file.clone();
    later[4] = 3;
    assert_eq!(decode(&later), Err(StateError::Version(3)));
    let twice = encode(&[drives[0].clone(), drives[0].clone()]);
    assert!(decode(&twice).unwrap_err().to_string().contains("two drives with the name ssd"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A saved state whose bytes were changed is refused, or gives a drive that can go on.
    #[test]
    fn changed_state_is_refused_or_gives_a_working_drive(
        choice in any::<prop::sample::Index>(), writes in 0..400u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3), cut in 0..20usize,
    ) {
        let drives = drives();
        let choice = choice.index(drives.len());
        let writes = if is_managed(&drives[choice]) { writes } else { 0 };
        let mut tables = written(&drives[choice], writes).save();
        for (at, value) in &changes {
            let at = at.index(tables.len());
            tables[at] = *value;
        }
        tables.truncate(tables.len() - cut.saturating_sub(17).min(tables.len()));
        restore_any(&[&[choice as u8], tables.as_slice()].concat());
        if let Ok(mut restored) = drives[choice].restore_flash(None, &tables)
            && is_managed(&drives[choice])
        {
            write(&mut restored, 2000);
            restored.check();
        }
    }
}
