//! Findings that a reader of the figures needs first: sentences above the table.

use serde::Serialize;

use crate::results::Run;

/// Share of the time behind the trace from which on a run counts as saturated.
const SATURATED_SHARE: f64 = 0.1;

/// Fact that qualifies the figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Finding {
    /// Name for scripts.
    pub id: String,
    /// Severity: `note` or `warning`.
    pub severity: String,
    /// Sentence for the reader.
    pub text: String,
    /// Advice to the reader.
    pub remedy: Option<String>,
    /// Part of the run or of the trace that is affected, from 0 to 1.
    pub share: Option<f64>,
}

impl Finding {
    fn new(id: &str, severity: &str, text: String, remedy: &str, share: Option<f64>) -> Self {
        Self { id: id.to_owned(), severity: severity.to_owned(), text, remedy: Some(remedy.to_owned()), share }
    }

    /// Reports that the requests are queue events, recorded as a file system submits them, before
    /// the block layer.
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

    /// Returns the line above a table.
    pub fn line(&self) -> String {
        let remedy = self.remedy.as_ref().map_or_else(String::new, |remedy| format!(" ({remedy})"));
        format!("{}: {}{remedy}", self.severity, self.text)
    }
}

/// Returns the findings about `runs`.
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
