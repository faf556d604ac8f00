//! Times of the trace in whole seconds, shared by several requests.

use super::Finding;
use crate::workload::spread::Within;

impl Finding {
    /// Reports that the times of the trace are whole seconds, and how its requests were spread over
    /// their seconds.
    pub fn whole_seconds(spread: Option<Within>) -> Self {
        let (text, remedy) = match spread {
            Some(Within::Random { .. }) => (
                "The trace's times are whole seconds; the requests of each second arrive at random times of the \
                 second. Bursts within a second are not known, so waits may be longer than shown.",
                "--seed draws other times, --runs adds runs with bursts, --times as-is plays the requests of a second at \
                 once",
            ),
            Some(Within::Equal) => (
                "The trace's times are whole seconds; the requests of each second arrive at equal distances. A disk \
                 never has several of them at once, so it cannot sort them, and looks slower than it is.",
                "--times spread",
            ),
            None => (
                "The trace's times are whole seconds: the requests of a second arrive at once, so response times \
                 measure their queue.",
                "--times spread",
            ),
        };
        Self::new("whole-seconds", if spread.is_some() { "note" } else { "warning" }, text.to_owned(), remedy, None)
    }

    /// Reports that the times of a trace that is not played are whole seconds.
    pub(super) fn recorded_in_whole_seconds() -> Self {
        let text = "The trace's times are whole seconds, so the times between its requests are known to a second only.";
        let remedy = "simulate, compare and plan spread the requests of each second over it";
        Self::new("whole-seconds", "note", text.to_owned(), remedy, None)
    }
}
