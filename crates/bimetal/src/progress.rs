//! A progress bar with rate and remaining time, for work that takes longer than two seconds on a
//! terminal.

use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Interval at which the bar is redrawn without progress.
const TICK: Duration = Duration::from_secs(1);

/// Time after which a command shows its bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar on standard error. It is hidden in the first two seconds, and always where standard error
/// is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// Makes a bar up to `total` of `unit` (`requests`, `bytes`). Without a total the bar only
    /// counts.
    pub fn new(total: Option<u64>, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let (position, rate) = match unit {
            "bytes" => ("{binary_bytes}".to_owned(), "{binary_bytes_per_sec}".to_owned()),
            _ => (format!("{{human_pos}} {unit}"), format!("{{rate}} {unit}/s")),
        };
        let template = match total {
            Some(_) => format!("{{bar:30}} {{percent}} % {position}, {rate}, {{eta}} left"),
            None => format!("{{spinner}} {position}, {rate}, {{elapsed}}"),
        };
        // The templates above are well formed. If one were not, the default style would stay.
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // The bar is soon redrawn, so a failed write does no harm.
                let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
            }));
        }
        Self { bar, started: Instant::now(), shown: false }
    }

    /// Sets the number of units done. Cheap enough for a call every few thousand requests.
    pub fn set(&mut self, done: u64) {
        if !self.shown && self.started.elapsed() >= PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            // The remaining time counts down also during a long step.
            self.bar.enable_steady_tick(TICK);
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
