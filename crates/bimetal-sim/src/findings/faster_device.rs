//! Traces that were recorded on a device faster than a hard disk. The requests of such a trace
//! arrive as soon as the fast device has answered earlier requests. A hard disk would still be busy
//! at this time.

use super::Finding;
use crate::results::Run;
use crate::survey::Survey;

/// Share of quick random reads from which on the device counts as faster than a hard disk. A hard
/// disk's own cache answers some reads that fast, too.
const QUICK_SHARE: f64 = 0.5;
/// Smallest number of random reads from which a share is computed.
const READS_MIN: u64 = 100;

/// Name of the finding.
pub const FASTER_DEVICE: &str = "recorded-on-faster-device";

/// Returns true if the device that recorded the trace was faster than a hard disk.
pub fn answered_by_faster_device(survey: &Survey) -> bool {
    survey.answered_random_reads >= READS_MIN && share(survey) >= QUICK_SHARE
}

fn share(survey: &Survey) -> f64 {
    survey.quick_random_reads as f64 / survey.answered_random_reads.max(1) as f64
}

pub(super) fn of(survey: &Survey, runs: &[Run]) -> Option<Finding> {
    of_trace(survey).filter(|_| runs.iter().any(|run| run.hdd.is_some()))
}

/// Returns the finding for whoever may simulate a hard disk.
pub(super) fn of_trace(survey: &Survey) -> Option<Finding> {
    let share = share(survey);
    answered_by_faster_device(survey).then(|| {
        let text = format!(
            "The trace was recorded on a device faster than a hard disk: it answered {:.0} % of the random reads within \
             0.5 ms. Its requests come faster than users of a hard disk would send them.",
            share * 100.0
        );
        let remedy = "--replay think: each request waits for the answers that it waited for when it was recorded";
        Finding::new(FASTER_DEVICE, "note", text, remedy, Some(share))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_that_answers_most_random_reads_at_once_is_named() {
        let survey = |answered, quick| Survey {
            answered_random_reads: answered,
            quick_random_reads: quick,
            ..Survey::default()
        };
        let runs = [Run::default(), Run { hdd: Some("seagate-exos-x18-18tb".to_owned()), ..Run::default() }];
        let found = of(&survey(1000, 870), &runs).expect("the device is faster");
        assert!(found.text.contains("answered 87 % of the random reads within"), "{}", found.text);
        assert_eq!((found.id.as_str(), found.share), ("recorded-on-faster-device", Some(0.87)));
        assert_eq!(of(&survey(1000, 499), &runs), None);
        assert_eq!(of(&survey(99, 99), &runs), None);
        // Without a hard disk the question does not arise.
        assert_eq!(of(&survey(1000, 870), &runs[..1]), None);
    }
}
