//! Requests that were recorded above the block layer, which merges requests before a drive gets
//! them.

use super::Finding;

impl Finding {
    /// Reports that the requests are queue events, recorded as a file system submits them, before
    /// the block layer.
    pub fn queue_events(merged: bool) -> Self {
        let (done, remedy) = if merged {
            (
                "merged them on their way to the drive, as Linux does",
                "--merge off plays them unmerged; --event issue takes the issue events, if the trace has any",
            )
        } else {
            ("was left out: the drives got these requests unmerged", "--merge on merges them as Linux does")
        };
        let text = format!("The trace's requests are queue events; the block layer {done}.");
        Self::new("queue-events", if merged { "note" } else { "warning" }, text, remedy, None)
    }

    /// Reports that the requests of a trace that is not played are queue events.
    pub(super) fn recorded_as_queue_events() -> Self {
        let text =
            "The trace's requests are queue events: the block layer merges some of them before a drive gets them.";
        let remedy =
            "simulate, compare and plan merge them; --event issue takes the issue events, if the trace has any";
        Self::new("queue-events", "note", text.to_owned(), remedy, None)
    }
}
