//! What a reader of the figures has to know before them: sentences above the table.

use serde::Serialize;

use crate::results::Run;

/// The share of the time behind from which on a run counts as saturated.
const SATURATED_SHARE: f64 = 0.1;

/// One thing to know.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Finding {
    /// A name for scripts.
    pub id: String,
    /// `note` or `warning`.
    pub severity: String,
    /// The sentence.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// How much of the run or of the trace it is about, from 0 to 1.
    pub share: Option<f64>,
}

impl Finding {
    fn new(id: &str, severity: &str, text: String, remedy: &str, share: Option<f64>) -> Self {
        Self { id: id.to_owned(), severity: severity.to_owned(), text, remedy: Some(remedy.to_owned()), share }
    }

    /// The requests are queue events: what a file system asks for, before the block layer.
    pub fn queue_events(merged: bool) -> Self {
        let (done, remedy) = if merged {
            (
                "merged them on their way to the drive, as Linux does",
                "--merge off plays them as they are, --event issue takes the issue events of a trace that has them",
            )
        } else {
            ("was left out: a drive got them as they are", "--merge on merges them as Linux does")
        };
        let text = format!("The trace's requests are queue events; the block layer {done}.");
        Self::new("queue-events", if merged { "note" } else { "warning" }, text, remedy, None)
    }

    /// The line above a table.
    pub fn line(&self) -> String {
        let remedy = self.remedy.as_ref().map_or_else(String::new, |remedy| format!(" ({remedy})"));
        format!("{}: {}{remedy}", self.severity, self.text)
    }
}

/// What `runs` tell of themselves.
pub fn of(runs: &[Run]) -> Vec<Finding> {
    runs.iter().filter_map(saturated).collect()
}

fn saturated(run: &Run) -> Option<Finding> {
    let share = run.behind_fraction.filter(|&share| share >= SATURATED_SHARE)?;
    let text = format!(
        "{} was behind for {:.0} % of the time: a request had waited for more than a second, up to {} waited at once. \
         The trace was recorded on something faster.",
        run.scheme,
        share * 100.0,
        run.queue_depth_max.unwrap_or(0)
    );
    Some(Finding::new("saturated", "warning", text, "--speedup below 1 or --replay closed", Some(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturated_runs_are_named_with_their_share_and_their_queue() {
        let run = |scheme: &str, share| Run {
            scheme: scheme.to_owned(),
            behind_fraction: share,
            queue_depth_max: Some(312),
            ..Run::default()
        };
        let runs = [run("ssd-only", Some(0.02)), run("hdd-only", Some(0.43)), run("raid0", None)];
        let findings = of(&runs);
        assert_eq!(findings.len(), 1);
        let line = findings[0].line();
        assert!(
            line.starts_with("warning: hdd-only was behind for 43 % of the time") && line.contains("up to 312"),
            "{line}"
        );
        assert!(line.contains("recorded on something faster") && findings[0].share == Some(0.43), "{line}");
    }
}
