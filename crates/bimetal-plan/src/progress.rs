//! Progress reports of a plan.

use std::sync::atomic::{AtomicU64, Ordering};

/// Part of the work whose steps are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The search tries options, from the cheapest on.
    Search,
    /// No option keeps the budgets: the planner searches for the closest options.
    Closest,
    /// The planner evaluates dearer options, how certain the winner is, and its sensitivity to
    /// changes.
    Confidence,
    /// MixCP trains its models.
    Training,
}

/// Receiver of progress reports.
pub trait Progress: Sync {
    /// Reports the number of requests read from the trace so far.
    fn read(&self, requests: u64);
    /// Reports that `done` of `of` steps of a stage are finished. Each stage begins with a report
    /// of 0 steps.
    fn stepped(&self, stage: Stage, done: u64, of: u64);
}

/// Counter of a stage's steps.
pub(crate) struct Steps<'a> {
    progress: &'a dyn Progress,
    stage: Stage,
    done: AtomicU64,
    of: u64,
}

impl<'a> Steps<'a> {
    pub(crate) fn of(progress: &'a dyn Progress, stage: Stage, of: u64) -> Self {
        progress.stepped(stage, 0, of);
        Self { progress, stage, done: AtomicU64::new(0), of }
    }

    /// Counts one more finished step, and reports the number of finished steps.
    pub(crate) fn over(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(done <= self.of, "{done} steps of {}", self.of);
        self.progress.stepped(self.stage, done, self.of);
    }
}
