//! Cheaper options that keep the budgets with think times.
//!
//! A trace that was recorded on a flash drive has requests that come as fast as the flash drive
//! answered them. On a hard disk these requests wait for each other, and the disk breaks every
//! limit of a response time. Played with think times, the same disk may keep the limits. So options
//! with a hard disk that cost less than the best option, and that only a response time excludes,
//! are played again with think times, the cheapest first.

use bimetal_core::layout::Role;
use bimetal_sim::findings::answered_by_faster_device;
use bimetal_sim::simulator::{Replay, SimulationError};

use crate::bounds::Bounds;
use crate::budget::Budget;
use crate::closest::broken;
use crate::evaluate::{Evaluator, Outcome};
use crate::grid::Candidate;
use crate::search::{BATCH, Search, Tried};

/// Largest number of options that are played with think times.
const PLAYED_MAX: usize = 4 * BATCH;

/// Result of a replay of cheaper options with think times.
pub(crate) enum WithThinkTimes {
    /// The cheapest option that keeps the budgets.
    Keeps(Box<Tried>),
    /// None of this number of options, the cheapest, keeps the budgets.
    NoneOf(usize),
}

impl Search<'_> {
    /// Plays the cheaper options with think times, each scheme with its default settings. `None` if
    /// the trace was not recorded on a faster device, or if no option is to be played.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn with_think_times(&self, tried: &[Tried]) -> Result<Option<WithThinkTimes>, SimulationError> {
        let Evaluator { load, common, replay, .. } = *self.evaluator;
        let Replay::Timed { speedup } = replay else { return Ok(None) };
        if !answered_by_faster_device(&load.survey) {
            return Ok(None);
        }
        let mut options = self.excluded_by_response_times(tried);
        options.truncate(PLAYED_MAX);
        if options.is_empty() {
            return Ok(None);
        }
        let replay = Replay::Think { speedup };
        let evaluator = Evaluator { replay, ..*self.evaluator };
        let grown = self.grown.map(|(grown, growth)| (Evaluator { replay, ..*grown }, growth));
        let bounds = Bounds::of(load, common, replay, self.budgets, &options);
        let grown = grown.as_ref().map(|(grown, growth)| (grown, *growth));
        let search = Search { evaluator: &evaluator, grown, bounds: &bounds, ..*self };
        let found = options
            .chunk_by(|one, other| one.cost_usd == other.cost_usd)
            .find_map(|group| search.fastest_proved(group).transpose())
            .transpose()?;
        Ok(Some(found.map_or(WithThinkTimes::NoneOf(options.len()), |found| WithThinkTimes::Keeps(Box::new(found)))))
    }

    /// Returns the options with a hard disk that cost less than the best option, and that only
    /// response times exclude, the cheapest first.
    fn excluded_by_response_times(&self, tried: &[Tried]) -> Vec<Candidate> {
        let most = self.best(tried).map_or(f64::INFINITY, |best| best.candidate.cost_usd);
        let others: Vec<Budget> =
            self.budgets.iter().filter(|budget| budget.response_limit().is_none()).cloned().collect();
        let only_response_times = |tried: &Tried| match &tried.outcome {
            Some(Outcome::Done(figures)) => {
                let known = |budget: &&Budget| !budget.needs_lives() || figures.lives.is_some();
                let known: Vec<Budget> = others.iter().filter(known).cloned().collect();
                broken(figures, &known).is_empty()
            }
            Some(Outcome::Stopped { .. }) => true,
            Some(Outcome::Impossible(_)) => false,
            None => self.bounds.excludes(&tried.candidate, &others).is_none(),
        };
        let mut options: Vec<Candidate> = tried
            .iter()
            .filter(|tried| tried.candidate.cost_usd < most && tried.candidate.variant == 0)
            .filter(|tried| tried.candidate.drive(Role::Hdd).is_some() && self.too_dear(&tried.candidate).is_none())
            .filter(|tried| only_response_times(tried))
            .map(|tried| tried.candidate.clone())
            .collect();
        options.sort_by(|one, other| one.cost_usd.total_cmp(&other.cost_usd).then(one.index.cmp(&other.index)));
        options
    }

    /// Returns the fastest option of one price that keeps the budgets, with its proof.
    fn fastest_proved(&self, group: &[Candidate]) -> Result<Option<Tried>, SimulationError> {
        let left_out = |candidate: &Candidate| Tried::left_out(candidate.clone(), String::new());
        let mut group: Vec<Tried> = group.iter().map(left_out).collect();
        let found = self.fastest_of(&mut group.iter_mut().collect::<Vec<_>>())?;
        let mut found = group.into_iter().find(|tried| Some(tried.candidate.index) == found);
        if let Some(found) = &mut found {
            self.prove_one(found)?;
        }
        Ok(found)
    }
}
