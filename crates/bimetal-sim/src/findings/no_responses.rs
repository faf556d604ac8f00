//! Finding about a replay with think times of a trace without response times: the host's own time
//! is not known.

use super::Finding;
use crate::survey::Survey;

/// Share of requests without a response time from which on the finding is given. Below this share
/// the finding is not given, because recorders miss a few completions.
const SHARE_MIN: f64 = 0.01;
/// Share of requests without a response from which on the finding is a warning.
const SHARE_WARNING: f64 = 0.5;

pub(super) fn of(survey: &Survey) -> Option<Finding> {
    Finding::no_response_times(survey.requests, survey.answered)
}

impl Finding {
    /// Reports that requests have no response times, which a replay with think times needs:
    /// `answered` is the number of requests that have a response time. `None` if nearly all
    /// requests have a response time.
    pub fn no_response_times(requests: u64, answered: u64) -> Option<Self> {
        let share = requests.saturating_sub(answered) as f64 / requests.max(1) as f64;
        if share < SHARE_MIN {
            return None;
        }
        let text = format!(
            "{:.0} % of the requests have no recorded response time. Each counts as answered at once: the next request \
             waits for it, and then for the whole time between their arrivals, as if the host had thought that long. So \
             fewer requests are under way together, and the replay takes longer, than if all answers were known.",
            share * 100.0
        );
        let remedy = "a trace with response times (`bimetal record` records them), or --replay timed";
        let severity = if share >= SHARE_WARNING { "warning" } else { "note" };
        Some(Self::new("no-response-times", severity, text, remedy, Some(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_without_response_times_is_told() {
        let survey = |requests, answered| Survey { requests, answered, ..Survey::default() };
        let found = of(&survey(200, 0)).expect("none is answered");
        assert_eq!((found.severity.as_str(), found.share), ("warning", Some(1.0)));
        assert!(found.text.starts_with("100 % of the requests have no"), "{}", found.text);
        let few = of(&survey(200, 198)).expect("a hundredth is not");
        assert_eq!((few.severity.as_str(), few.share), ("note", Some(0.01)));
        assert_eq!(of(&survey(200, 199)), None);
        assert_eq!(of(&survey(0, 0)), None);
    }
}
