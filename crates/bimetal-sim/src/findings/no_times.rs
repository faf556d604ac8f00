//! Traces without times: the rate of their requests is not known.

use super::Finding;
use crate::survey::Survey;

pub(super) fn of(survey: &Survey) -> Option<Finding> {
    survey.is_timeless().then(|| {
        let text = "The trace has no times, so nothing tells how fast its requests came: queues, timers, idle time \
                    and years of life mean nothing here.";
        let remedy = "compare hits and bytes written; record a trace with times for the rest";
        Finding::new("no-times", "warning", text.to_owned(), remedy, None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::Nanoseconds;

    #[test]
    fn trace_whose_requests_share_one_time_has_no_times() {
        let survey =
            |requests, nanoseconds| Survey { requests, duration: Nanoseconds(nanoseconds), ..Survey::default() };
        assert_eq!(of(&survey(2, 0)).map(|found| found.id), Some("no-times".to_owned()));
        assert_eq!(of(&survey(2, 1)), None);
        assert_eq!(of(&survey(1, 0)), None);
        assert_eq!(of(&survey(0, 0)), None);
    }
}
