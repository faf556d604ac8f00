//! Times of the trace in whole seconds, shared by several requests.

use super::Finding;

impl Finding {
    /// Reports that the times of the trace are whole seconds. `spread` is set if its requests were
    /// spread over their seconds.
    pub fn whole_seconds(spread: bool) -> Self {
        let (text, remedy) = if spread {
            (
                "The trace's times are whole seconds; the requests of each second were spread over it.",
                "--times as-is plays them at once, --times poisson at random times of their second",
            )
        } else {
            (
                "The trace's times are whole seconds: the requests of a second arrive at once, so response times \
                 measure their queue.",
                "--times spread",
            )
        };
        Self::new("whole-seconds", if spread { "note" } else { "warning" }, text.to_owned(), remedy, None)
    }
}
