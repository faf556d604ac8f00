//! Traces without reads and writes, such as a trace of discards alone: no figure compares schemes.

use super::Finding;
use crate::survey::Survey;

pub(super) fn of(survey: &Survey) -> Option<Finding> {
    if survey.requests == 0 || survey.reads + survey.writes > 0 {
        return None;
    }
    let text = "The trace has no reads and no writes, so there are no response times and no hits, and no scheme is a \
                choice.";
    Some(Finding::new("no-accesses", "warning", text.to_owned(), "a trace with reads or writes", None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_of_discards_alone_is_told() {
        let discards = Survey { requests: 3, discards: 3, ..Survey::default() };
        assert_eq!(of(&discards).map(|found| found.id), Some("no-accesses".to_owned()));
        assert_eq!(of(&Survey { reads: 1, requests: 4, ..discards.clone() }), None);
        assert_eq!(of(&Survey { writes: 1, requests: 4, ..discards }), None);
        assert_eq!(of(&Survey::default()), None, "no trace was read");
    }
}
