//! Conditions of a verdict: budgets that an option keeps only while a power cut may lose the last
//! writes, or while the data lie together on the disk.
//!
//! The options that an answer names run once more with each [variation](Variation) of the trace
//! that may change their figures. An option that then breaks a budget keeps the budget under a
//! condition, and its verdict says so.

use std::collections::BTreeSet;

use bimetal_sim::simulator::SimulationError;
use rayon::prelude::*;

use crate::advice::{self, Spread};
use crate::alternatives::{cheapest_to_own, next_best};
use crate::answer::pareto;
use crate::budget::Budget;
use crate::evaluate::{Evaluator, Figures, Outcome};
use crate::search::{Search, Tried};
use crate::variation::Variation;

/// Runs of a proof over the halves of a trace, besides those over its windows.
const HALVES: u64 = 2;

/// Returns the condition under which a verdict holds, as the end of a clause; `needs` tells if a
/// budget breaks under a variation. Returns `None` without a condition.
pub(crate) fn condition_of(needs: impl Fn(Variation) -> bool) -> Option<String> {
    let needed = Variation::CHANGES.into_iter().filter(|variation| needs(*variation));
    let conditions: Vec<&str> = needed.map(Variation::condition).collect();
    (!conditions.is_empty()).then(|| format!("if {}", conditions.join(", and ")))
}

impl Tried {
    /// Returns true if the option breaks a budget under `variation`; `None` if that was not found
    /// out.
    pub fn needs(&self, variation: Variation) -> Option<bool> {
        let broken = self.figures()?.broken_when.as_ref()?;
        broken.get(&variation).map(|broken| !broken.is_empty())
    }

    /// Returns the condition under which the option keeps the budgets, as the end of a clause.
    pub(crate) fn condition(&self) -> Option<String> {
        condition_of(|variation| self.needs(variation) == Some(true))
    }
}

/// Returns the texts of the budgets that `figures` break.
fn broken_by(figures: &Figures, budgets: &[Budget]) -> BTreeSet<String> {
    budgets.iter().filter(|budget| figures.breaks(budget).is_some()).map(|budget| budget.text.clone()).collect()
}

/// Returns true if a window or the second half breaks the budget.
fn breaks_in_a_part(spread: &Spread) -> bool {
    let breaks_in_window = spread.kept_in_windows.is_some_and(|(kept, all)| kept < all);
    breaks_in_window || (spread.second_half.is_some() && !spread.kept_in_second_half)
}

impl Search<'_> {
    /// Finds the budgets that break under each variation, for each of the `kept` options that an
    /// answer names: the best, the alternatives to it, and the Pareto front.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn look_at_conditions(&self, kept: &mut [Tried]) -> Result<(), SimulationError> {
        let latency = self.first_response_budget();
        let all: Vec<&Tried> = kept.iter().collect();
        let named = pareto(&all, &latency).into_iter().chain(all.first().copied());
        let named = named.chain(next_best(kept, &latency)).chain(cheapest_to_own(kept));
        let named: Vec<usize> = named.map(|tried| tried.candidate.index).collect();
        let named: Vec<&mut Tried> = kept.iter_mut().filter(|tried| named.contains(&tried.candidate.index)).collect();
        named.into_par_iter().with_max_len(1).try_for_each(|tried| self.look_at_conditions_of(tried))
    }

    fn look_at_conditions_of(&self, tried: &mut Tried) -> Result<(), SimulationError> {
        for variation in Variation::CHANGES {
            let broken = self.broken_under(variation, tried)?;
            if let (Some(broken), Some(Outcome::Done(figures))) = (broken, &mut tried.outcome) {
                figures.note_broken(variation, broken);
            }
        }
        Ok(())
    }

    /// Returns the budgets that an option breaks under `variation`, now or under the grown load;
    /// `None` if the variation cannot be played.
    fn broken_under(&self, variation: Variation, tried: &Tried) -> Result<Option<BTreeSet<String>>, SimulationError> {
        let Tried { candidate, outcome: Some(Outcome::Done(figures)), .. } = tried else { return Ok(None) };
        let budgets: Vec<Budget> = self.budgets.iter().filter(|budget| budget.is_of_run()).cloned().collect();
        let choices = candidate.choices(self.evaluator.common);
        if budgets.is_empty() || !variation.matters(candidate, self.evaluator.load, &choices) {
            return Ok(Some(BTreeSet::new()));
        }
        let evaluator = Evaluator { variation, ..*self.evaluator };
        self.count(1);
        // A run that ends at its first broken budget would leave out the others.
        let outcome = evaluator.run(candidate, evaluator.limits(&[]))?;
        let Outcome::Done(mut varied) = outcome else { return Ok(None) };
        let mut broken = broken_by(&varied, &budgets);
        let is_proven = figures.confidence.as_ref().is_some_and(|confidence| confidence.proven);
        if is_proven && broken.len() < budgets.len() {
            // A proven option keeps its budgets in each part of the trace.
            let parts = advice::confidence(&evaluator, candidate, &mut varied, &budgets)?;
            let needs_runs = parts.windows > 0 && budgets.iter().any(Budget::needs_runs_of_parts);
            self.count(if needs_runs { parts.windows + HALVES } else { 0 });
            broken.extend(parts.budgets.into_iter().filter(breaks_in_a_part).map(|spread| spread.budget));
        }
        if let Some((grown, _)) = self.grown {
            let evaluator = Evaluator { variation, ..*grown };
            self.count(1);
            let Outcome::Done(varied) = evaluator.run(candidate, evaluator.limits(&[]))? else { return Ok(None) };
            broken.extend(broken_by(&varied, &budgets));
        }
        Ok(Some(broken))
    }
}

impl Figures {
    fn note_broken(&mut self, variation: Variation, broken: BTreeSet<String>) {
        for spread in self.confidence.iter_mut().flat_map(|confidence| &mut confidence.budgets) {
            spread.note(variation, broken.contains(&spread.budget));
        }
        self.broken_when.get_or_insert_default().insert(variation, broken);
    }
}
