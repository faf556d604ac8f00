//! Head time of disks: the time in which arms move, or sectors pass or are waited for.
//!
//! A fleet of disks is sized by its head time, and by the head time of its busiest ten minutes
//! (Wong et al., "Baleen: ML Admission & Prefetching for Flash Caches", FAST 2024).

use bimetal_core::units::Nanoseconds;

/// Length of a window.
const WINDOW: Nanoseconds = Nanoseconds::from_seconds(600);

/// Head time of all disks in windows of ten minutes.
#[derive(Clone, Debug)]
pub struct HeadTime {
    /// Start of the window that is open.
    opened: Nanoseconds,
    /// Head time of all disks from time zero until the window was opened.
    until_then: Nanoseconds,
    /// Head time of the busiest window that is closed.
    peak: Option<Nanoseconds>,
}

impl HeadTime {
    /// Opens the first window at `start`. `total` is the head time of all disks from time zero
    /// until `start`.
    pub fn new(start: Nanoseconds, total: Nanoseconds) -> Self {
        Self { opened: start, until_then: total, peak: None }
    }

    /// Returns true if the open window ends at `now` or before.
    #[inline]
    pub fn is_due(&self, now: Nanoseconds) -> bool {
        now >= self.opened + WINDOW
    }

    /// Closes the windows that end at `now` or before. The disks have `total` of head time so far;
    /// the disks had no event since the end of the first of these windows.
    pub fn close(&mut self, now: Nanoseconds, total: Nanoseconds) {
        let windows = now.saturating_sub(self.opened).0 / WINDOW.0;
        if windows == 0 {
            return;
        }
        self.peak = self.peak.max(Some(total.saturating_sub(self.until_then)));
        self.opened += Nanoseconds(windows * WINDOW.0);
        self.until_then = total;
    }

    /// Returns the seconds of head time a second in the busiest window; `None` if no window was
    /// closed.
    pub fn peak(&self) -> Option<f64> {
        self.peak.map(|peak| peak.0 as f64 / WINDOW.0 as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_that_of_the_busiest_ten_minutes() {
        let seconds = Nanoseconds::from_seconds;
        let mut head_time = HeadTime::new(seconds(100), seconds(7));
        assert!(!head_time.is_due(seconds(699)) && head_time.is_due(seconds(700)));
        assert_eq!(head_time.peak(), None, "a shorter run has no ten minutes");
        head_time.close(seconds(700), seconds(67));
        assert_eq!(head_time.peak(), Some(0.1));
        head_time.close(seconds(2600), seconds(367));
        assert_eq!(head_time.peak(), Some(0.5), "the windows without events had no head time");
        assert!(!head_time.is_due(seconds(3099)) && head_time.is_due(seconds(3100)));
        head_time.close(seconds(3100), seconds(397));
        assert_eq!(head_time.peak(), Some(0.5));
    }
}
