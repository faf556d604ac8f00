//! A drive that cannot keep up with the times of the trace: its response times measure the queue.

use super::Finding;
use crate::results::Run;

/// Share of the time behind the trace from which on a run counts as saturated.
const SATURATED_SHARE: f64 = 0.1;

pub(super) fn of(runs: &[Run]) -> impl Iterator<Item = Finding> {
    runs.iter().filter_map(saturated)
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
        let findings: Vec<Finding> = of(&runs).collect();
        assert_eq!(findings.len(), 1);
        let line = findings[0].line();
        assert!(
            line.starts_with("warning: hdd-only was behind for 43 % of the time") && line.contains("up to 312"),
            "{line}"
        );
        assert!(line.contains("recorded on something faster") && findings[0].share == Some(0.43), "{line}");
    }
}
