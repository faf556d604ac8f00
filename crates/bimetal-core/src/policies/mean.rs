//! Mean of measured times.

/// Mean of times in milliseconds.
#[derive(Default)]
pub(crate) struct Mean {
    count: u64,
    sum_ms: f64,
}

impl Mean {
    /// Adds a time.
    pub(crate) fn add(&mut self, ms: f64) {
        self.count += 1;
        self.sum_ms += ms;
    }

    /// Returns the number of times.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; 0 if there is no time.
    pub(crate) fn ms(&self) -> f64 {
        self.sum_ms / self.count.max(1) as f64
    }
}
