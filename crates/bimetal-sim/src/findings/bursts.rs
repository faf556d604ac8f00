//! SSDs smaller than a burst of writes: the part of such a burst that does not fit waits for the
//! HDD.

use bimetal_core::layout::Role;
use bimetal_core::scheme::Holds;
use bimetal_core::schemes;
use bimetal_core::units::Bytes;
use bimetal_measure::text::short;

use super::{Finding, size};
use crate::results::Run;
use crate::simulator::Replay;
use crate::sizing::Sizing;
use crate::survey::{BURST, Survey};

/// Returns true if the SSD of a run holds writes for the HDD.
fn has_buffer(run: &Run) -> bool {
    let scheme = schemes::find(&run.scheme);
    scheme.is_some_and(|scheme| {
        [Holds::Cache, Holds::Log].iter().any(|&holds| scheme.members.contains(&(Role::Ssd, holds)))
    })
}

/// Returns the sizes of the SSDs with the runs that have them, as text: `5.0 MiB under bcache,
/// smq`.
fn sizes(runs: &[&Run]) -> String {
    let mut groups: Vec<(u64, Vec<&str>)> = Vec::new();
    for run in runs {
        let bytes = run.ssd_bytes.unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == bytes) {
            Some((_, names)) => names.push(&run.label),
            None => groups.push((bytes, vec![&run.label])),
        }
    }
    groups.sort_by_key(|&(bytes, _)| bytes);
    let text = groups.iter().map(|(bytes, names)| format!("{} under {}", size(*bytes), names.join(", ")));
    text.collect::<Vec<_>>().join("; ")
}

/// Returns the finding about SSDs that are smaller than a burst; `None` for a replay that does not
/// keep the times of the trace.
pub(super) fn of(survey: &Survey, runs: &[Run], replay: Replay) -> Option<Finding> {
    let Replay::Timed { speedup } = replay else { return None };
    let burst = survey.burst_bytes.0;
    let is_small = |run: &&Run| has_buffer(run) && run.ssd_bytes.is_some_and(|bytes| bytes < burst);
    let small = runs.iter().filter(is_small);
    // A reader buys whole drives, so these come first.
    let (shares, whole): (Vec<&Run>, Vec<&Run>) = small.partition(|run| run.sizing == Sizing::Share);
    let smaller = match (whole.is_empty(), shares.is_empty()) {
        (true, true) => return None,
        (false, true) => format!("The SSD has {}.", sizes(&whole)),
        (true, false) => format!("As a share of the working set, the SSD has {}.", sizes(&shares)),
        (false, false) => {
            format!("The SSD has {}. As a share of the working set, it has {}.", sizes(&whole), sizes(&shares))
        }
    };
    let text = format!(
        "A burst of writes is larger than the SSD: {} came within {} s. {smaller} The rest of a burst waits for \
         the HDD; a full cache that writes back first is slower than the HDD alone.",
        size(burst),
        short(BURST.as_seconds_f64() / speedup),
    );
    let enough = Bytes(burst.next_multiple_of(1 << 20));
    // Drives that hold the burst need no remedy: the runs with a share show smaller caches.
    let is_held = whole.is_empty() && runs.iter().any(|run| has_buffer(run) && run.sizing != Sizing::Share);
    let (severity, remedy) = match is_held {
        true => ("note", "the whole drives hold it".to_owned()),
        false => ("warning", format!("--ssd-size {enough} or more")),
    };
    Some(Finding::new("cache-smaller-than-bursts", severity, text, &remedy, None))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    const TIMED: Replay = Replay::Timed { speedup: 1.0 };

    #[test]
    fn caches_and_logs_smaller_than_a_burst_are_named() {
        let survey = Survey { burst_bytes: Bytes((10 << 20) - 5), ..Survey::default() };
        let runs = [run("ssd-only", 1 << 20), run("bcache", 9 << 20), run("smq", 10 << 20), run("writeboost", 5 << 20)];
        let found = of(&survey, &runs, TIMED).expect("two are smaller");
        assert!(found.text.contains("10.0 MiB came within 30 s"), "{}", found.text);
        assert!(found.text.contains("The SSD has 5.0 MiB under writeboost; 9.0 MiB under bcache."), "{}", found.text);
        assert_eq!(found.severity, "warning");
        assert_eq!(found.remedy.as_deref(), Some("--ssd-size 10MiB or more"));
        let faster = of(&survey, &runs, Replay::Timed { speedup: 20.0 }).expect("the burst is as large");
        assert!(faster.text.contains("10.0 MiB came within 1.5 s"), "{}", faster.text);
        assert_eq!(of(&survey, &[runs[0].clone(), runs[2].clone()], TIMED), None);
    }

    /// Regression: the sentence was about the smallest share, in words that a reader took for the
    /// whole drives.
    #[test]
    fn whole_drives_are_named_before_shares() {
        let survey = Survey { burst_bytes: Bytes(10 << 20), ..Survey::default() };
        let share = |scheme, bytes| Run { sizing: Sizing::Share, ..run(scheme, bytes) };
        let runs = [share("bcache", 1 << 20), run("smq", 9 << 20), share("smq", 1 << 20), run("bcache", 20 << 20)];
        let found = of(&survey, &runs, TIMED).expect("three are smaller");
        let named = "The SSD has 9.0 MiB under smq. As a share of the working set, it has 1.0 MiB under bcache, smq.";
        assert!(found.text.contains(named), "{}", found.text);
        assert_eq!(found.severity, "warning");
        let found = of(&survey, &runs[2..], TIMED).expect("one share is smaller");
        let named = "As a share of the working set, the SSD has 1.0 MiB under smq.";
        assert!(found.text.contains(named), "{}", found.text);
        assert_eq!((found.severity.as_str(), found.remedy.as_deref()), ("note", Some("the whole drives hold it")));
        let found = of(&survey, &runs[..1], TIMED).expect("a share is smaller");
        assert_eq!(found.severity, "warning", "no whole drive was tried");
    }
}
