//! A progress bar with rate and time left, for what takes longer than two seconds on a terminal.

use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How often the bar is drawn while nothing is done.
const TICK: Duration = Duration::from_secs(1);

/// How long a command may take before it shows a bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar on standard error; silent where that is no terminal, and in the first two seconds.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// A bar up to `total` of `unit` (`requests`, `bytes`); without a total it only counts.
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
        // The templates above are well formed; should one not be, the default style does.
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // The bar is drawn anew in a moment: a line that cannot be written is no loss.
                let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
            }));
        }
        Self { bar, started: Instant::now(), shown: false }
    }

    /// `done` of the total are done. Cheap enough for every few thousand requests.
    pub fn set(&mut self, done: u64) {
        if !self.shown && self.started.elapsed() >= PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            // The time that is left goes on also where a step takes long.
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
