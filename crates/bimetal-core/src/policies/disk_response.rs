//! Prediction of a disk's response time from the operations before (MixedStore, section 5.2).

use super::mean::Mean;

/// Number of disk operations over which the recent mean response time of the disk is taken.
const RECENT_DISK: f64 = 32.0;

/// Mean response time of the disk.
#[derive(Default)]
pub(crate) struct DiskResponse {
    /// Mean of the training phase (MixedStore, section 5.2).
    trained: Mean,
    /// Mean of the recent operations, as an average in which old operations count less.
    recent_ms: f64,
    count: u64,
}

impl DiskResponse {
    /// Counts an operation that took `ms`, as one of the training phase if `trains` is set.
    pub(crate) fn served(&mut self, ms: f64, trains: bool) {
        self.count += 1;
        self.recent_ms += (ms - self.recent_ms) / (self.count as f64).min(RECENT_DISK);
        if trains {
            self.trained.add(ms);
        }
    }

    /// Returns the prediction, once an operation was measured. Response times measured while the
    /// disk's queue was long do not predict the response of an idle disk.
    pub(crate) fn predict_ms(&self, is_idle: bool) -> Option<f64> {
        let recent = (self.count > 0).then_some(self.recent_ms)?;
        Some(if is_idle && self.trained.count() > 0 { recent.min(self.trained.ms()) } else { recent })
    }
}
