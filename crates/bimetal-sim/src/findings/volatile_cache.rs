//! Traces without flushes over drives with a volatile write cache. Such a drive answers writes
//! before they are stable, so the response times hold for a host that may lose its last writes.

use super::Finding;
use crate::results::Run;
use crate::survey::Survey;

/// Returns the keys of the write caches that are on because the disks' profiles say so.
pub fn volatile_caches(run: &Run) -> impl Iterator<Item = &str> {
    let caches = run.assumed.iter().filter(|(key, value)| key.ends_with(".write_cache") && value.starts_with("on"));
    caches.map(|(key, _)| key.as_str())
}

/// Returns true if a disk of the run answers writes before they are stable, and the trace has no
/// flushes that wait for them. Forced writes wait until they are stable.
pub fn answers_before_stable(survey: &Survey, run: &Run) -> bool {
    survey.flushes == 0 && survey.writes > survey.forced_writes && volatile_caches(run).next().is_some()
}

pub(super) fn of(survey: &Survey, runs: &[Run]) -> Option<Finding> {
    if !runs.iter().any(|run| answers_before_stable(survey, run)) {
        return None;
    }
    let text = "The trace has no flushes, so a disk's write cache answers writes before they are stable: a power cut \
                would lose the last writes, and a host that flushes waits longer.";
    let remedy = "--set hdd.write_cache=off for the times of stable writes, or a trace with flushes";
    Some(Finding::new("volatile-cache", "note", text.to_owned(), remedy, None))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn writes_that_no_flush_makes_stable_are_told() {
        let survey = |writes, flushes| Survey { writes, flushes, ..Survey::default() };
        let with = |key: &str, value: &str| {
            let mut disk = run("hdd-only", 0);
            disk.assumed.insert(key.to_owned(), value.to_owned());
            [run("ssd-only", 1 << 30), disk]
        };
        let cached = with("hdd.write_cache", "on (the profile's)");
        assert_eq!(of(&survey(9, 0), &cached).map(|found| found.id), Some("volatile-cache".to_owned()));
        assert_eq!(of(&survey(9, 1), &cached), None, "flushes make writes stable");
        assert_eq!(of(&survey(0, 0), &cached), None, "nothing is written");
        let forced = Survey { forced_writes: 9, ..survey(9, 0) };
        assert_eq!(of(&forced, &cached), None, "each write waits until it is stable");
        assert_eq!(of(&survey(9, 0), &with("hdd.write_cache", "off (the profile's)")), None);
        assert_eq!(of(&survey(9, 0), &with("hdd.size", "on sale")), None);
    }
}
