//! How far a plan is.

use std::sync::atomic::{AtomicU64, Ordering};

/// A part of the work whose steps are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Options are tried, from the cheapest on.
    Search,
    /// Nothing keeps the budgets: options are looked at for the closest.
    Closest,
    /// What more money buys, how sure the winner is and what would change it.
    Confidence,
    /// Models are trained.
    Training,
}

/// Who is told how far a plan is.
pub trait Progress: Sync {
    /// So many requests of the trace have been read.
    fn read(&self, requests: u64);
    /// So many steps of so many of a stage are over; a stage begins with none.
    fn stepped(&self, stage: Stage, done: u64, of: u64);
}

/// The steps of a stage.
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

    /// One more is over.
    pub(crate) fn over(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(done <= self.of, "{done} steps of {}", self.of);
        self.progress.stepped(self.stage, done, self.of);
    }
}
