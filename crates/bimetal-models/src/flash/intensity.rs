//! Compares the host's rate of writes with the rate that the drive is planned for. Adaptive wear
//! levelling depends on the comparison.

use bimetal_core::units::{Bytes, Nanoseconds};

/// Length of the windows over which writes are summed. Shorter bursts are not prolonged activity.
const WINDOW: Nanoseconds = Nanoseconds::from_seconds(10);

/// Sum of writes by window of time.
pub(crate) struct Intensity {
    /// Bytes in a window above which the host writes more than planned.
    planned: f64,
    window: u64,
    bytes: u64,
    /// Bytes of the previous window.
    before: u64,
    intense: bool,
}

impl Intensity {
    /// Creates a sum without writes; `bytes_per_second` are planned for.
    pub(crate) fn new(bytes_per_second: f64) -> Self {
        Self { planned: bytes_per_second * WINDOW.as_seconds_f64(), window: 0, bytes: 0, before: 0, intense: false }
    }

    /// Adds `bytes` that the host writes at `now`. Returns true if the host wrote more than planned
    /// in this window or in the previous window; `None` if the answer has not changed.
    pub(crate) fn wrote(&mut self, now: Nanoseconds, bytes: Bytes) -> Option<bool> {
        let window = now.0 / WINDOW.0;
        if window != self.window {
            self.before = if window == self.window + 1 { self.bytes } else { 0 };
            (self.window, self.bytes) = (window, 0);
        }
        self.bytes += bytes.0;
        let intense = self.bytes.max(self.before) as f64 > self.planned;
        (std::mem::replace(&mut self.intense, intense) != intense).then_some(intense)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_intense_until_a_window_without_one_has_passed() {
        let mut intensity = Intensity::new(100.0);
        let at = |seconds| Nanoseconds::from_seconds(seconds);
        assert_eq!(intensity.wrote(at(1), Bytes(1000)), None);
        assert_eq!(intensity.wrote(at(2), Bytes(1)), Some(true));
        assert_eq!(intensity.wrote(at(11), Bytes(500)), None, "the window before was intense");
        assert_eq!(intensity.wrote(at(21), Bytes(500)), Some(false));
        assert_eq!(intensity.wrote(at(22), Bytes(501)), Some(true));
        assert_eq!(intensity.wrote(at(60), Bytes(1)), Some(false));
    }
}
