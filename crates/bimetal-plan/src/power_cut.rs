//! Budgets that an option keeps only while a power cut may lose the last writes.
//!
//! A disk with a volatile write cache answers writes before they are stable. If the trace has no
//! flushes, no response time shows how long a stable write takes. So the options that an answer
//! names run once more, with these caches off. An option that then breaks a budget keeps the budget
//! under a condition, and its verdict says so.

use bimetal_sim::findings::{answers_before_stable, volatile_caches};
use bimetal_sim::results::Run;
use bimetal_sim::setup::Choices;
use bimetal_sim::simulator::SimulationError;
use bimetal_sim::survey::Survey;
use rayon::prelude::*;

use crate::advice::{self, Spread};
use crate::alternatives::{cheapest_to_own, next_best};
use crate::answer::pareto;
use crate::budget::Budget;
use crate::evaluate::{Evaluator, Figures, Outcome};
use crate::search::{Search, Tried};

/// Condition of a verdict, as the end of a clause.
pub const CONDITION: &str = "if a power cut may lose the last writes";

/// Runs of a proof over the halves of a trace, besides those over its windows.
const HALVES: u64 = 2;

impl Tried {
    /// Returns true if the option breaks a budget once writes wait until they are stable; `None` if
    /// that was not found out.
    pub fn needs_volatile_cache(&self) -> Option<bool> {
        self.figures()?.broken_when_stable.as_ref().map(|broken| !broken.is_empty())
    }
}

/// Returns true if a window or the second half breaks the budget.
fn breaks_in_a_part(spread: &Spread) -> bool {
    let breaks_in_window = spread.kept_in_windows.is_some_and(|(kept, all)| kept < all);
    breaks_in_window || (spread.second_half.is_some() && !spread.kept_in_second_half)
}

/// Returns the settings with which the volatile write caches of `run` are off; no settings if the
/// run shows how long a stable write takes.
pub(crate) fn caches_off<'r>(survey: &Survey, run: &'r Run) -> Vec<(&'r str, &'static str)> {
    let caches = volatile_caches(run).filter(|_| answers_before_stable(survey, run));
    caches.map(|key| (key, "off")).collect()
}

/// Returns `common` with further `settings`.
pub(crate) fn with_settings(common: &Choices, settings: &[(&str, &str)]) -> Choices {
    let mut common = common.clone();
    common.settings.extend(settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())));
    common
}

impl Search<'_> {
    /// Finds the budgets that break without volatile write caches, for each of the `kept` options
    /// that an answer names: the best, the alternatives to it, and the Pareto front.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn look_at_write_caches(&self, kept: &mut [Tried]) -> Result<(), SimulationError> {
        let latency = self.first_response_budget();
        let all: Vec<&Tried> = kept.iter().collect();
        let named = pareto(&all, &latency).into_iter().chain(all.first().copied());
        let named = named.chain(next_best(kept, &latency)).chain(cheapest_to_own(kept));
        let named: Vec<usize> = named.map(|tried| tried.candidate.index).collect();
        let named: Vec<&mut Tried> = kept.iter_mut().filter(|tried| named.contains(&tried.candidate.index)).collect();
        named.into_par_iter().with_max_len(1).try_for_each(|tried| self.look_at_write_caches_of(tried))
    }

    fn look_at_write_caches_of(&self, tried: &mut Tried) -> Result<(), SimulationError> {
        let Tried { candidate, outcome: Some(Outcome::Done(figures)), .. } = tried else { return Ok(()) };
        let budgets: Vec<Budget> = self.budgets.iter().filter(|budget| budget.is_of_run()).cloned().collect();
        let mut broken = Vec::new();
        let caches = caches_off(&self.evaluator.load.survey, figures.run());
        if !budgets.is_empty() && !caches.is_empty() {
            let common = with_settings(self.evaluator.common, &caches);
            let evaluator = Evaluator { common: &common, ..*self.evaluator };
            self.count(1);
            // A run that ends at its first broken budget would leave out the others.
            let Outcome::Done(mut stable) = evaluator.run(candidate, evaluator.limits(&[]))? else { return Ok(()) };
            let breaks = |budget: &&Budget| stable.breaks(budget).is_some();
            broken = budgets.iter().filter(breaks).map(|budget| budget.text.clone()).collect();
            let is_proven = figures.confidence.as_ref().is_some_and(|confidence| confidence.proven);
            if is_proven && broken.len() < budgets.len() {
                // A proven option keeps its budgets in each part of the trace.
                let parts = advice::confidence(&evaluator, candidate, &mut stable, &budgets)?;
                let needs_runs = parts.windows > 0 && budgets.iter().any(Budget::needs_runs_of_parts);
                self.count(if needs_runs { parts.windows + HALVES } else { 0 });
                let more = parts.budgets.into_iter().filter(breaks_in_a_part).map(|spread| spread.budget);
                let more: Vec<String> = more.filter(|budget| !broken.contains(budget)).collect();
                broken.extend(more);
            }
        }
        figures.note_broken_when_stable(broken);
        Ok(())
    }
}

impl Figures {
    fn note_broken_when_stable(&mut self, broken: Vec<String>) {
        for spread in self.confidence.iter_mut().flat_map(|confidence| &mut confidence.budgets) {
            spread.needs_volatile_cache = broken.contains(&spread.budget);
        }
        self.broken_when_stable = Some(broken);
    }
}
