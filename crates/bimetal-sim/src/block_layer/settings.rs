//! Keys of the block layer: `--set block.max_sectors_kb=512`.

use std::str::FromStr;

use super::{BlockLayerSettings, Scheduler};
use crate::setup::{Choices, Setup, SetupError};

/// Names of the keys.
pub const KEYS: [&str; 3] = ["max_sectors_kb", "scheduler", "queue_depth"];

/// Largest number of requests that a plain SSD takes at once: the limit of NVMe.
const QUEUE_DEPTH_FLASH: u32 = 1023;
/// Largest number of requests that a volume of several members takes at once: the limit of Linux's
/// `nbd`. Only a plain disk behind SATA has the limit of 32. An array of equal drives that the
/// catalogue offers as one (`md`, LVM) has the limit of its drives.
const QUEUE_DEPTH_VOLUME: u32 = 128;

impl BlockLayerSettings {
    /// Returns the block layer of a run; `None` if `choices` has no block layer. Keys that are not
    /// set have the defaults of Linux: 32 requests for a plain disk (SATA), 1023 for a plain SSD
    /// (NVMe), 128 for a volume of several members (`nbd`); `mq-deadline` if a drive is a
    /// disk, and otherwise `none`.
    ///
    /// # Errors
    /// Refuses an impossible value of a key.
    pub fn chosen(choices: &Choices, setup: &Setup) -> Result<Option<Self>, SetupError> {
        let has_disk = setup.drives.iter().any(|drive| drive.profile.hdd().is_some());
        let settings = Self::read(&choices.settings, setup.drives.len(), has_disk)?;
        Ok(choices.merge.then_some(settings))
    }

    fn read(settings: &[(String, String)], drives: usize, has_disk: bool) -> Result<Self, SetupError> {
        let mut chosen = match has_disk {
            true => Self::default(),
            false => Self { scheduler: Scheduler::None, queue_depth: QUEUE_DEPTH_FLASH, ..Self::default() },
        };
        if drives > 1 {
            chosen.queue_depth = QUEUE_DEPTH_VOLUME;
        }
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
        let set = |pairs: &[(&str, &str)], drives, has_disk| {
            let pairs: Vec<_> = pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            BlockLayerSettings::read(&pairs, drives, has_disk).map_err(|error| error.to_string())
        };
        let expected = BlockLayerSettings { max_sectors: 1024, scheduler: Scheduler::None, queue_depth: 32 };
        let keys = [
            ("block.max_sectors_kb", "512"),
            ("block.scheduler", "none"),
            ("block.queue_depth", "32"),
            ("ssd.ftl", "dftl"),
        ];
        assert_eq!(set(&keys, 2, true), Ok(expected));
        let shape = |drives, has_disk| set(&[], drives, has_disk).map(|chosen| (chosen.scheduler, chosen.queue_depth));
        assert_eq!(shape(1, false), Ok((Scheduler::None, 1023)));
        assert_eq!(shape(1, true), Ok((Scheduler::MqDeadline, 32)));
        assert_eq!(shape(2, true), Ok((Scheduler::MqDeadline, 128)));
        assert_eq!(shape(2, false), Ok((Scheduler::None, 128)));
        let refusal = |key, value| set(&[(key, value)], 1, true).unwrap_err();
        assert_eq!(refusal("block.scheduler", "bfq"), "--set block.scheduler=bfq: expected mq-deadline or none");
        assert!(refusal("block.max_sectors_kb", "0").contains("KiB, from 4"));
        assert!(refusal("block.queue_depth", "x").contains("requests, from 1"));
    }
}
