//! Body of the fuzzer of saved states: for any bytes, a drive is restored completely or not at all.

use super::{DriveState, decode, encode};
use crate::flash::ftl;
use crate::profile::Profile;

/// Keys and values of the policies that the small drives use, in addition to all layers.
const KINDS: &[(&str, &str)] = &[
    ("gc", "greedy"),
    ("gc", "fifo"),
    ("gc", "cost-benefit"),
    ("gc", "d-choices:3"),
    ("wear_levelling", "static"),
    ("wear_levelling", "dynamic"),
];

/// Returns small drives of every layer and policy.
pub fn drives() -> Vec<Profile> {
    let layers = ftl::ALL.iter().map(|info| ("ftl", info.name));
    let drives = layers.chain(KINDS.iter().copied()).map(|(key, value)| {
        let mut drive = Profile::load("intel-x25-m-80gb")?;
        let shape = [("channels", "1"), ("dies_per_channel", "2"), ("planes_per_die", "1"), ("blocks_per_plane", "12")];
        let rest = [("pages_per_block", "8"), ("page_size", "4096"), ("spare_factor", "0.5"), ("map_cache", "64")];
        drive.set_all(shape.into_iter().chain(rest).chain([(key, value)]))?;
        Ok(drive)
    });
    drives.filter_map(Result::<_, crate::profile::ProfileError>::ok).collect()
}

/// Reads `data` as a file. After that, the first byte of `data` chooses one of [`drives`], and the
/// other bytes are read as the state of that drive. Content that is accepted is consistent, and
/// saving it again gives the same bytes.
///
/// # Panics
/// Content that is not a state was restored.
pub fn restore_any(data: &[u8]) {
    if let Ok(drives) = decode(data) {
        assert_eq!(decode(&encode(&drives)).as_deref(), Ok(drives.as_slice()));
    }
    let Some((&choice, tables)) = data.split_first() else { return };
    let drives = drives();
    let drive = &drives[usize::from(choice) % drives.len()];
    if let Ok(mut restored) = drive.restore_flash(None, tables) {
        restored.check();
        let saved = restored.save();
        let mut again = drive.restore_flash(None, &saved).expect("what was saved is restored");
        assert_eq!(again.save(), saved);
        let file = [DriveState { drive: "ssd".to_owned(), tables: saved }];
        assert_eq!(decode(&encode(&file)).as_deref(), Ok(file.as_slice()));
    }
}
