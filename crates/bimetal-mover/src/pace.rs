//! The rate of moves, and idle moments of the device.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest time that a move waits for an idle moment. A run that has waited so long ends.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(600);
/// Longest sleep; after each sleep, a wait checks for a signal to stop.
const NAP: Duration = Duration::from_millis(200);

/// Reasons for which a run ends before its last move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A signal has stopped the program.
    Stopped,
    /// The device was not idle for ten minutes.
    NeverIdle,
}

/// Pace at which blocks move.
#[derive(Debug)]
pub struct Pace<'a> {
    /// Bytes a second; `None` without a limit.
    rate: Option<u64>,
    /// Time without requests to the device after which it is idle; `None` without a wait.
    idle: Option<Duration>,
    /// The device's counters of requests.
    counters: PathBuf,
    stop: &'a AtomicBool,
    next: Instant,
}

impl<'a> Pace<'a> {
    /// Returns a pace for the device with the folder `device` in `/sys`.
    pub fn new(rate: Option<u64>, idle: Option<Duration>, device: &std::path::Path, stop: &'a AtomicBool) -> Self {
        Self { rate, idle, counters: device.join("stat"), stop, next: Instant::now() }
    }

    /// Returns true if moves wait for idle moments.
    pub(crate) fn waits_for_idle(&self) -> bool {
        self.idle.is_some()
    }

    /// Returns the reason to end the run now, if there is one.
    pub(crate) fn check(&self) -> Result<(), Ended> {
        if self.stop.load(Ordering::Relaxed) { Err(Ended::Stopped) } else { Ok(()) }
    }

    /// Waits until `bytes` more may move.
    pub(crate) fn wait(&mut self, bytes: u64) -> Result<(), Ended> {
        self.check()?;
        if let Some(idle) = self.idle {
            self.wait_for_idle(idle)?;
        }
        if let Some(rate) = self.rate {
            while Instant::now() < self.next {
                sleep(NAP.min(self.next.saturating_duration_since(Instant::now())));
                self.check()?;
            }
            let time = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            self.next = self.next.max(Instant::now()) + time;
        }
        Ok(())
    }

    /// Waits until the device has had no request for the time `idle`.
    fn wait_for_idle(&self, idle: Duration) -> Result<(), Ended> {
        let begun = Instant::now();
        let mut counters = fs::read_to_string(&self.counters).unwrap_or_default();
        let mut quiet_since = Instant::now();
        while quiet_since.elapsed() < idle {
            self.check()?;
            if begun.elapsed() > IDLE_WAIT_MAX {
                return Err(Ended::NeverIdle);
            }
            sleep(NAP.min(idle));
            let now = fs::read_to_string(&self.counters).unwrap_or_default();
            if now != counters {
                counters = now;
                quiet_since = Instant::now();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn rate_bounds_the_bytes_a_second() {
        let stop = AtomicBool::new(false);
        let mut pace = Pace::new(Some(10 << 20), None, std::path::Path::new("/nowhere"), &stop);
        let begun = Instant::now();
        // The first piece does not wait, and each further piece waits for the piece before it.
        (0..3).for_each(|_| pace.wait(1 << 20).unwrap());
        assert!(begun.elapsed() >= Duration::from_millis(199), "{:?}", begun.elapsed());
    }

    #[test]
    fn signal_ends_a_wait() {
        let stop = AtomicBool::new(true);
        let mut pace = Pace::new(Some(1), None, std::path::Path::new("/nowhere"), &stop);
        assert_eq!(pace.wait(1 << 30), Err(Ended::Stopped));
    }

    /// Counters that change are requests of others, so the device counts as idle only once the
    /// counters no longer change.
    #[test]
    fn device_is_idle_only_when_its_counters_rest() {
        let folder = TestFolder::new("pace");
        let stop = AtomicBool::new(false);
        let mut pace = Pace::new(None, Some(Duration::from_millis(150)), &folder.0, &stop);
        let begun = Instant::now();
        let counters = folder.0.join("stat");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for count in 0..20 {
                    fs::write(&counters, count.to_string()).unwrap();
                    sleep(Duration::from_millis(20));
                }
            });
            pace.wait(1).unwrap();
        });
        assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    }
}
