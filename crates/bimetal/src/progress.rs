//! Progress of long work: on a terminal a bar with rate and remaining time, and elsewhere a line
//! after 1, 2, 4, 8 minutes and so on.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::output::note;

/// Interval at which the bar is redrawn without progress.
const TICK: Duration = Duration::from_secs(1);

/// Time after which a command shows its bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time after which the first line is printed where standard error is not a terminal. Each later
/// line is printed after twice the time of the line before.
const FIRST_LINE: Duration = Duration::from_secs(60);

/// A bar on standard error, hidden in the first two seconds. Where standard error is not a
/// terminal, lines are printed instead.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    total: Option<u64>,
    unit: String,
    started: Instant,
    shown: bool,
    /// Time of the next line; `None` on a terminal.
    next_line: Option<Instant>,
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
                let _ = match state.per_sec() {
                    slow if slow < 10.0 => write!(out, "{slow:.1}"),
                    rate => write!(out, "{}", HumanCount(rate as u64)),
                };
            }));
        }
        let started = Instant::now();
        let next_line = (!std::io::stderr().is_terminal()).then(|| started + FIRST_LINE);
        Self { bar, total, unit: unit.to_owned(), started, shown: false, next_line }
    }

    /// Sets the number of units done. The call is cheap enough for every few thousand requests.
    pub fn set(&mut self, done: u64) {
        if !self.shown && self.started.elapsed() >= PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            // The remaining time counts down also during a long step.
            self.bar.enable_steady_tick(TICK);
        }
        self.bar.set_position(done);
        if self.next_line.is_some_and(|at| Instant::now() >= at) {
            let elapsed = self.started.elapsed();
            self.next_line = Some(self.started + 2 * elapsed);
            let minutes = elapsed.as_secs() / 60;
            note(format_args!("{} after {minutes} min", counted(done, self.total, &self.unit)));
        }
    }
}

/// Returns the units done in words, like `40 % of 2,000 requests`.
fn counted(done: u64, total: Option<u64>, unit: &str) -> String {
    let amount = |count: u64| match unit {
        "bytes" => BinaryBytes(count).to_string(),
        _ => format!("{} {unit}", HumanCount(count)),
    };
    match total.filter(|total| *total > 0) {
        Some(total) => format!("{:.0} % of {}", done as f64 / total as f64 * 100.0, amount(total)),
        None => amount(done),
    }
}

/// Bars of work in stages, shown by any thread. A new unit, or a first total, begins a new stage.
#[derive(Debug, Default)]
pub(crate) struct Stages(Mutex<Option<(&'static str, bool, Progress)>>);

impl Stages {
    /// Shows `done` of `total` units, unless another thread is drawing the bar: the next step will
    /// show the newer numbers.
    pub(crate) fn show(&self, unit: &'static str, total: Option<u64>, done: u64) {
        let Ok(mut stage) = self.0.try_lock() else { return };
        if stage.as_ref().is_none_or(|(shown, counted, _)| (*shown, *counted) != (unit, total.is_some())) {
            // The old bar is cleared before the new bar is drawn.
            *stage = None;
        }
        stage.get_or_insert_with(|| (unit, total.is_some(), Progress::new(total, unit))).2.set(done);
    }
}

/// Receiver of the progress of any command, who may stop it.
pub trait Watch: bimetal_sim::experiment::Progress + bimetal_plan::Progress {
    /// Reports that `done` of `total` jobs of a sweep are finished.
    fn jobs(&self, done: u64, total: u64);

    /// Returns true if no further job of a sweep may begin.
    fn is_stopped(&self) -> bool {
        false
    }
}

impl Watch for Stages {
    fn jobs(&self, done: u64, total: u64) {
        self.show("jobs", Some(total), done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_the_share_or_else_the_number_of_units() {
        assert_eq!(counted(800, Some(2000), "requests"), "40 % of 2,000 requests");
        assert_eq!(counted(1 << 20, Some(4 << 20), "bytes"), "25 % of 4.00 MiB");
        assert_eq!(counted(12, None, "options"), "12 options");
        assert_eq!(counted(0, Some(0), "jobs"), "0 jobs");
    }
}
