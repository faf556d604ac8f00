//! Keys of the block layer: `--set block.max_sectors_kb=512`.

use std::str::FromStr;

use super::{BlockLayerSettings, Scheduler};
use crate::setup::{Choices, Setup, SetupError};

/// Names of the keys.
pub const KEYS: [&str; 3] = ["max_sectors_kb", "scheduler", "queue_depth"];

/// Largest number of requests that a drive takes at once, if none of a volume's drives is a disk:
/// the limit of NVMe.
const QUEUE_DEPTH_FLASH: u32 = 1023;

impl BlockLayerSettings {
    /// Returns the block layer of a run; `None` if `choices` has no block layer. Keys that are not
    /// set have the defaults of Linux: `mq-deadline` and 32 requests (SATA) if a drive is a disk,
    /// and otherwise `none` and 1023 (NVMe).
    ///
    /// # Errors
    /// Refuses an impossible value of a key.
    pub fn chosen(choices: &Choices, setup: &Setup) -> Result<Option<Self>, SetupError> {
        let has_disk = setup.drives.iter().any(|drive| drive.profile.hdd().is_some());
        let settings = Self::read(&choices.settings, has_disk)?;
        Ok(choices.merge.then_some(settings))
    }

    fn read(settings: &[(String, String)], has_disk: bool) -> Result<Self, SetupError> {
        let mut chosen = match has_disk {
            true => Self::default(),
            false => Self { scheduler: Scheduler::None, queue_depth: QUEUE_DEPTH_FLASH, ..Self::default() },
        };
        for (key, value) in settings {
            match key.as_str() {
                "block.max_sectors_kb" => chosen.max_sectors = 2 * number(key, value, 4..=4 << 20)?,
                "block.queue_depth" => chosen.queue_depth = number(key, value, 1..=65_535)? as u32,
                "block.scheduler" => {
                    let refuse = |expected| SetupError::Value { key: key.clone(), value: value.clone(), expected };
                    chosen.scheduler = Scheduler::from_str(value).map_err(refuse)?;
                }
                _ => {}
            }
        }
        Ok(chosen)
    }
}

fn number(key: &str, value: &str, possible: std::ops::RangeInclusive<u64>) -> Result<u64, SetupError> {
    let expected = if key.ends_with("kb") { "KiB, from 4 to 4194304" } else { "requests, from 1 to 65535" };
    let refuse = || SetupError::Value { key: key.to_owned(), value: value.to_owned(), expected };
    value.parse().ok().filter(|number| possible.contains(number)).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_set_what_linux_calls_so_and_the_drives_the_rest() {
        let set = |pairs: &[(&str, &str)], has_disk| {
            let pairs: Vec<_> = pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            BlockLayerSettings::read(&pairs, has_disk).map_err(|error| error.to_string())
        };
        let expected = BlockLayerSettings { max_sectors: 1024, scheduler: Scheduler::None, queue_depth: 32 };
        let keys = [("block.max_sectors_kb", "512"), ("block.scheduler", "none"), ("ssd.ftl", "dftl")];
        assert_eq!(set(&keys, true), Ok(expected));
        let flash = set(&[], false).unwrap();
        assert_eq!((flash.scheduler, flash.queue_depth), (Scheduler::None, 1023));
        let error = set(&[("block.scheduler", "bfq")], true).unwrap_err();
        assert_eq!(error, "--set block.scheduler=bfq: expected mq-deadline or none");
        assert!(
            set(&[("block.max_sectors_kb", "0")], true).is_err() && set(&[("block.queue_depth", "x")], true).is_err()
        );
    }
}
