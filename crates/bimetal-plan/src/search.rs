//! The search: the cheapest option that keeps every budget.
//!
//! The search takes options by price. The search ends at the first price at which an option keeps
//! the budgets, because a dearer option cannot win. Some options break a budget for certain before
//! any run ([`crate::bounds`]). Slow options are recognised early: a run stops once a broken budget
//! is certain ([`bimetal_sim::limits`]). The lifetime of flash costs several runs. So among options
//! of one price, the search computes the lifetime in order of speed, until an option keeps all
//! budgets. All these shortcuts are exact: an exhaustive search chooses the same option.
//!
//! Among options of one price that keep the budgets, the fastest proven option wins: its worst
//! window and its shortest lifetime keep the budgets, too. So options are proved in order of speed,
//! until an option is proven ([`crate::proof`]). Slower options cannot win from then on, and their
//! runs stop early. If no option is proven, the fastest option wins. The first response time with a
//! budget is compared. If two options are equally fast, the option with the better mean wins, and
//! then the option that is earlier in the grid.
//!
//! On a large catalogue, a sure search takes few options of each price after a number of runs
//! (`price_steps.rs`).
//!
//! The cheapest options above the winner's price are run, too, because a little more money may buy
//! much more speed. Slower options of the winner's price are judged, because they may last longer.
//!
//! Runs of a batch run side by side, one for each core. The results of a batch steer the next
//! batch, so the answer does not depend on the number of cores.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bimetal_core::layout::Role;
use bimetal_core::units::counted_are;
use bimetal_measure::text::{price, short};
use bimetal_sim::simulator::SimulationError;
use rayon::prelude::*;

use crate::advice::Confidence;
use crate::bounds::Bounds;
use crate::break_even::way;
use crate::budget::{Budget, Metric};
use crate::evaluate::{Evaluator, Figures, Outcome};
use crate::grid::Candidate;
use crate::growth::Growth;
use crate::price_steps::{NOT_RUN, PriceSteps, RUNS_MAX};
use crate::progress::{Progress, Stage, Steps};
use crate::proof::{Proof, Refuted, Runs};

/// Path of the mean of all response times.
const MEAN: &str = "response_time_ms.all.mean";

/// Beginning of the reason for options that were not run because of their price.
pub const MORE_EXPENSIVE: &str = "more expensive than the best option";

/// Number of options that run side by side before the search looks at their results.
pub(crate) const BATCH: usize = 16;

/// Number of options after which the search for the cheapest one of a way to build ends: it ends
/// with all options of one price.
const RIVALS_MAX: usize = 12;

/// Largest number of options of the winner's price, and of the next price, that are run for
/// alternatives to the winner.
const ALTERNATIVES_MAX: usize = 8;

/// Largest number of options of one scheme of which it is found out whether they can be built.
pub(crate) const BUILT_MAX: usize = 1000;

/// Reason for options that lose to a faster option of the same price.
const SLOWER: &str = "slower than another option of the same price that keeps all budgets";

/// Beginning of the reason for options whose runs were stopped because they lose to a faster option
/// of the same price.
const TOO_SLOW: &str = "slower than other options of the same price: not";

/// Number of options whose flash lifetime is computed side by side.
const LIVES_BATCH: usize = 2;

/// An option and its results.
#[derive(Clone)]
pub struct Tried {
    /// The option.
    pub candidate: Candidate,
    /// Outcome of the option's run, if the option was run.
    pub outcome: Option<Outcome>,
    /// Budgets that the option breaks, or the reason for which it was not run. The list is empty if
    /// the option keeps every budget checked so far.
    pub reasons: Vec<String>,
    /// Set once every budget was checked, including budgets that cost extra runs.
    pub(crate) judged: bool,
}

impl Tried {
    /// Returns the figures of the option, if it ran to its end.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Some(Outcome::Done(figures)) => Some(figures),
            _ => None,
        }
    }

    /// Returns true if the option keeps every budget.
    pub fn keeps_all(&self) -> bool {
        self.judged && self.reasons.is_empty() && self.figures().is_some()
    }

    pub(crate) fn left_out(candidate: Candidate, reason: String) -> Self {
        Self { candidate, outcome: None, reasons: vec![reason], judged: false }
    }

    /// Returns true if the worst ends of the option's figures are known to keep every budget;
    /// `None` if the worst ends were not computed.
    pub fn is_proven(&self) -> Option<bool> {
        let figures = self.figures()?;
        let refuted = figures.refuted.as_ref().map(|_| false);
        figures.confidence.as_ref().map(|confidence| confidence.proven).or(refuted)
    }

    /// Returns the reason for which the option is not proven; `None` if the option is proven or was
    /// not examined.
    pub fn why_unproven(&self) -> Option<String> {
        let figures = self.figures()?;
        let unproven = figures.confidence.as_ref().filter(|confidence| !confidence.proven);
        let verdict = unproven.map(|confidence| confidence.explained());
        verdict.or_else(|| Some(figures.refuted.as_ref()?.0.clone()))
    }

    /// Gives an option that may still keep every budget the reason for which it is not looked at
    /// any more.
    fn note_slower(&mut self) {
        if self.is_pending() {
            self.reasons.push(SLOWER.to_owned());
        }
    }

    /// Records the reason for which the option is not proven, where the worst ends of the ranges
    /// count.
    fn note_refuted(&mut self, refuted: Refuted) {
        self.reasons.push(refuted.0.clone());
        if let Some(Outcome::Done(figures)) = &mut self.outcome {
            figures.refuted = Some(refuted);
        }
    }

    /// Returns true if the option was left out only because another option of its price is faster.
    fn is_slower(&self) -> bool {
        matches!(self.reasons.as_slice(), [reason] if reason == SLOWER || reason.starts_with(TOO_SLOW))
    }

    /// Returns true if the option may still keep every budget.
    fn is_pending(&self) -> bool {
        !self.judged && self.reasons.is_empty() && self.figures().is_some()
    }
}

/// Rank of an option among the options of the same price.
pub(crate) struct Place {
    /// The values compared: the first response time that has a budget, and the mean.
    first: f64,
    mean: f64,
    index: usize,
}

impl Place {
    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.first.total_cmp(&other.first).then(self.mean.total_cmp(&other.mean));
        by_time.then(self.index.cmp(&other.index))
    }
}

/// The search.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// Evaluator that runs the options.
    pub evaluator: &'a Evaluator<'a>,
    /// Evaluator of the grown load, if the load grows.
    pub grown: Option<(&'a Evaluator<'a>, Growth)>,
    /// Budgets that an option must keep.
    pub budgets: &'a [Budget],
    /// Limits that no run of an option can beat.
    pub bounds: &'a Bounds,
    /// Receiver of the number of decided options.
    pub progress: &'a dyn Progress,
    /// Number of runs so far.
    pub simulations: &'a AtomicU64,
    /// Set to use the worst ends of the ranges.
    pub sure: bool,
}

impl Search<'_> {
    /// Runs every candidate to its end.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn exhaustive(&self, candidates: Vec<Candidate>) -> Result<Vec<Tried>, SimulationError> {
        let steps = Steps::of(self.progress, Stage::Search, candidates.len() as u64);
        let run = |candidate| {
            let mut tried = self.try_one(candidate, &[], true)?;
            self.judge(&mut tried)?;
            self.look_at_flash(&mut tried)?;
            steps.over();
            Ok(tried)
        };
        let tried: Result<Vec<Tried>, SimulationError> = candidates.into_par_iter().with_max_len(1).map(run).collect();
        let mut tried = tried?;
        self.prove(&mut tried)?;
        Ok(tried)
    }

    /// Runs candidates by price until the best option is known. Gives all dearer candidates the
    /// reason for which they were left out.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn cheapest_first(&self, candidates: Vec<Candidate>) -> Result<Vec<Tried>, SimulationError> {
        self.cheapest_first_by(if self.sure { RUNS_MAX } else { u64::MAX }, candidates)
    }

    /// As [`cheapest_first`](Self::cheapest_first), with all options of a price up to `runs_max`
    /// runs, and then with few.
    pub(crate) fn cheapest_first_by(
        &self,
        runs_max: u64,
        mut candidates: Vec<Candidate>,
    ) -> Result<Vec<Tried>, SimulationError> {
        candidates.sort_by(|one, other| one.cost_usd.total_cmp(&other.cost_usd).then(one.index.cmp(&other.index)));
        let steps = Steps::of(self.progress, Stage::Search, candidates.len() as u64);
        let mut tried: Vec<Tried> = Vec::new();
        let mut rest = candidates.into_iter().peekable();
        let mut price_steps = PriceSteps::default();
        while let Some(cost) = rest.peek().map(|candidate| candidate.cost_usd) {
            if let Some(best) = self.best(&tried) {
                let least = best.candidate.cost_usd;
                let why = format!("{MORE_EXPENSIVE}, which costs {}", price(least));
                tried.extend(rest.by_ref().map(|candidate| Tried::left_out(candidate, why.clone())));
                break;
            }
            let mut group = Vec::new();
            while rest.peek().is_some_and(|candidate| candidate.cost_usd == cost) {
                group.extend(rest.next());
            }
            let goes_in_steps = self.simulations.load(Relaxed) >= runs_max;
            if goes_in_steps {
                let others;
                (group, others) = price_steps.take(group);
                others.iter().for_each(|_| steps.over());
                tried.extend(others.into_iter().map(|other| Tried::left_out(other, NOT_RUN.to_owned())));
            }
            group.sort_by_key(|candidate: &Candidate| (candidate.variant, candidate.index));
            let group_begins = tried.len();
            self.try_group(group, &mut tried, &steps)?;
            if goes_in_steps {
                price_steps.note(&tried[group_begins..]);
            }
        }
        Ok(tried)
    }

    /// Runs options of one price in batches, each scheme with its defaults first. Once an option is
    /// proven, slower options stop early.
    fn try_group(
        &self,
        group: Vec<Candidate>,
        tried: &mut Vec<Tried>,
        steps: &Steps<'_>,
    ) -> Result<(), SimulationError> {
        let group_begins = tried.len();
        for batch in group.chunks(BATCH) {
            let rivals = self.fastest_proven_as_budget(&tried[group_begins..]);
            let runs: Result<Vec<Tried>, _> = batch
                .par_iter()
                .with_max_len(1)
                .map(|candidate| {
                    let tried = self.try_one(candidate.clone(), rivals.as_slice(), false);
                    steps.over();
                    tried
                })
                .collect();
            tried.extend(runs?);
            self.judge_the_fastest(&mut tried[group_begins..])?;
        }
        tried[group_begins..].iter_mut().for_each(Tried::note_slower);
        Ok(())
    }

    /// Judges pending options of one price, the fastest first. Stops once no pending option is fast
    /// enough to win.
    fn judge_the_fastest(&self, group: &mut [Tried]) -> Result<(), SimulationError> {
        loop {
            self.prove(group)?;
            let enough = fastest_proven(&self.contenders(group)).map(|tried| self.place(tried));
            let mut pending: Vec<&mut Tried> = group.iter_mut().filter(|tried| tried.is_pending()).collect();
            pending.retain(|tried| enough.as_ref().is_none_or(|enough| self.place(tried).cmp(enough).is_lt()));
            if pending.is_empty() {
                return Ok(());
            }
            pending.sort_by(|one, other| self.place(one).cmp(&self.place(other)));
            pending.truncate(LIVES_BATCH);
            pending.into_par_iter().with_max_len(1).try_for_each(|tried| self.judge(tried))?;
        }
    }

    /// Proves the options of the lowest price that keep the budgets, the fastest first, until one
    /// is proven.
    fn prove(&self, tried: &mut [Tried]) -> Result<(), SimulationError> {
        loop {
            let contenders = self.contenders(tried);
            let mut unproven = contenders.iter().take_while(|tried| tried.is_proven() != Some(true));
            let unknown = unproven.find(|tried| tried.is_proven().is_none()).map(|tried| tried.candidate.index);
            let Some(next) = unknown else { return Ok(()) };
            tried
                .iter_mut()
                .filter(|tried| tried.candidate.index == next)
                .try_for_each(|tried| self.prove_one(tried))?;
        }
    }

    /// Proves or refutes an option that keeps the budgets.
    pub(crate) fn prove_one(&self, tried: &mut Tried) -> Result<(), SimulationError> {
        let Tried { candidate, outcome: Some(Outcome::Done(figures)), .. } = tried else { return Ok(()) };
        match self.proof(candidate).find(figures)? {
            Ok(confidence) => figures.confidence = Some(Box::new(confidence)),
            Err(refuted) => figures.refuted = Some(refuted),
        }
        Ok(())
    }

    fn proof<'p>(&'p self, candidate: &'p Candidate) -> Proof<'p> {
        let Self { evaluator, budgets, .. } = *self;
        Proof { evaluator, candidate, budgets, count: self.simulations }
    }

    /// Returns the options that may win: of the lowest price at which the budgets are kept, the
    /// fastest first.
    fn contenders<'t>(&self, tried: &'t [Tried]) -> Vec<&'t Tried> {
        let kept = || tried.iter().filter(|tried| tried.keeps_all());
        let lowest = kept().map(|tried| tried.candidate.cost_usd).min_by(f64::total_cmp);
        let mut contenders: Vec<&Tried> = kept().filter(|tried| Some(tried.candidate.cost_usd) == lowest).collect();
        contenders.sort_by(|one, other| self.place(one).cmp(&self.place(other)));
        contenders
    }

    /// Returns the rank of an option among the options of the same price.
    pub(crate) fn place(&self, tried: &Tried) -> Place {
        let mean = tried.figures().and_then(|figures| figures.at(MEAN)).unwrap_or(f64::INFINITY);
        Place { first: self.first_response_time(tried), mean, index: tried.candidate.index }
    }

    /// Judges slower options of the winner's price, up to `ALTERNATIVES_MAX` of them, each scheme
    /// with its defaults. Regression: an option with a longer life was offered for more money, and
    /// the same option cost as much as the winner with a cheaper disk.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn same_price(&self, tried: &mut [Tried]) -> Result<(), SimulationError> {
        let Some(cost_usd) = self.best(tried).map(|best| best.candidate.cost_usd) else { return Ok(()) };
        let of_price = |tried: &&mut Tried| tried.candidate.cost_usd == cost_usd && tried.candidate.variant == 0;
        let slower = tried.iter_mut().filter(of_price).filter(|tried| tried.is_slower());
        let slower: Vec<&mut Tried> = slower.take(ALTERNATIVES_MAX).collect();
        slower.into_par_iter().with_max_len(1).try_for_each(|tried| {
            if tried.figures().is_none() {
                *tried = self.try_one(tried.candidate.clone(), &[], false)?;
            } else {
                tried.reasons.clear();
            }
            self.judge(tried)
        })
    }

    /// Runs the cheapest options with an SSD that cost more than the winner: up to
    /// `ALTERNATIVES_MAX` options of one price, each scheme with its defaults. The results show a
    /// faster option for a little more money, under whatever scheme.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn next_price(&self, tried: &mut [Tried]) -> Result<(), SimulationError> {
        if self.best(tried).is_none() {
            return Ok(());
        }
        let is_for_price = |tried: &Tried| {
            tried.outcome.is_none() && tried.reasons.iter().all(|reason| reason.starts_with(MORE_EXPENSIVE))
        };
        let can_win = |tried: &Tried| {
            let Tried { candidate, .. } = tried;
            let certain = || self.too_dear(candidate).or_else(|| self.bounds.excludes(candidate, self.budgets));
            certain().or_else(|| self.evaluator.why_impossible(candidate)).is_none()
        };
        let mut dearer: Vec<&mut Tried> = tried
            .iter_mut()
            .filter(|tried| tried.candidate.variant == 0 && tried.candidate.drive(Role::Ssd).is_some())
            .filter(|tried| is_for_price(tried))
            .collect();
        dearer.sort_by(|one, other| {
            let by_price = one.candidate.cost_usd.total_cmp(&other.candidate.cost_usd);
            by_price.then(one.candidate.index.cmp(&other.candidate.index))
        });
        let mut dearer = dearer.into_iter().take(BUILT_MAX).skip_while(|tried| !can_win(tried));
        let Some(first) = dearer.next() else { return Ok(()) };
        let cost_usd = first.candidate.cost_usd;
        let others = dearer.take_while(|tried| tried.candidate.cost_usd == cost_usd).filter(|tried| can_win(tried));
        let mut group: Vec<&mut Tried> = std::iter::once(first).chain(others).take(ALTERNATIVES_MAX).collect();
        self.fastest_of(&mut group).map(|_| ())
    }

    /// Runs the winner's scheme and settings on the other SSDs, which were left out for their
    /// price. The results of these runs show the figures that a higher price would buy. A scheme
    /// without an SSD is run on the other disks instead.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn dearer(&self, tried: &mut [Tried]) -> Result<(), SimulationError> {
        let Some(best) = self.best(tried).map(|best| best.candidate.clone()) else { return Ok(()) };
        let same_disk =
            |other: &Candidate| best.drive(Role::Ssd).is_none() || best.drive(Role::Hdd) == other.drive(Role::Hdd);
        let same = |other: &Candidate| {
            other.scheme.name == best.scheme.name && other.settings == best.settings && same_disk(other)
        };
        let left_out = |tried: &&mut Tried| {
            tried.outcome.is_none() && same(&tried.candidate) && self.too_dear(&tried.candidate).is_none()
        };
        let options: Vec<&mut Tried> = tried.iter_mut().filter(left_out).collect();
        options.into_par_iter().with_max_len(1).try_for_each(|tried| {
            *tried = self.try_one(tried.candidate.clone(), &[], false)?;
            self.judge(tried)
        })
    }

    /// Finds the cheapest option that keeps the budgets for each way to build that is not the
    /// winner's: SSDs alone, disks alone, or both. Returns the grid numbers of these options.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn rivals(&self, tried: &mut [Tried]) -> Result<Vec<usize>, SimulationError> {
        let Some(best) = self.best(tried).map(|best| way(&best.candidate)) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for wanted in [(true, false), (false, true), (true, true)] {
            if wanted != best {
                found.extend(self.rival(tried, wanted)?);
            }
        }
        Ok(found)
    }

    /// Finds the cheapest option built in one way, and of one price the fastest, among options that
    /// keep the budgets and the cheapest options that were left out for their price.
    fn rival(&self, tried: &mut [Tried], wanted: (bool, bool)) -> Result<Option<usize>, SimulationError> {
        let mut options: Vec<&mut Tried> = tried
            .iter_mut()
            .filter(|tried| way(&tried.candidate) == wanted && tried.candidate.variant == 0)
            .filter(|tried| tried.keeps_all() || tried.outcome.is_none() && self.too_dear(&tried.candidate).is_none())
            .collect();
        options.sort_by(|one, other| {
            let by_price = one.candidate.cost_usd.total_cmp(&other.candidate.cost_usd);
            by_price.then(one.candidate.index.cmp(&other.candidate.index))
        });
        let mut looked_at = 0;
        for group in options.chunk_by_mut(|one, other| one.candidate.cost_usd == other.candidate.cost_usd) {
            if looked_at >= RIVALS_MAX {
                break;
            }
            looked_at += group.len();
            if let Some(found) = self.fastest_of(group)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Runs the options of one price, and judges them in order of speed. Returns the grid number of
    /// the first that keeps the budgets.
    pub(crate) fn fastest_of(&self, group: &mut [&mut Tried]) -> Result<Option<usize>, SimulationError> {
        group.par_iter_mut().with_max_len(1).try_for_each(|tried| {
            if tried.outcome.is_none() {
                **tried = self.try_one(tried.candidate.clone(), &[], false)?;
            }
            Ok::<_, SimulationError>(())
        })?;
        group.sort_by(|one, other| self.place(one).cmp(&self.place(other)));
        let mut found = None;
        for tried in group.iter_mut() {
            self.judge(tried)?;
            self.look_at_flash(tried)?;
            if tried.keeps_all() {
                found = Some(tried.candidate.index);
                break;
            }
        }
        group.iter_mut().for_each(|tried| tried.note_slower());
        Ok(found)
    }

    /// Finds, for each scheme without a run, the cheapest option that can be built. The cheaper
    /// options of the scheme get the reason for which they cannot be built instead of their price.
    /// If the reason does not depend on the drives, all options of the scheme have this reason.
    pub fn name_the_impossible(&self, tried: &mut [Tried]) {
        let ran = |tried: &&Tried| matches!(tried.outcome, Some(Outcome::Done(_) | Outcome::Stopped { .. }));
        let with_runs: BTreeSet<&str> = tried.iter().filter(ran).map(|tried| tried.candidate.scheme.name).collect();
        let mut left_out: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, Tried { candidate, outcome, .. }) in tried.iter().enumerate() {
            if outcome.is_none() && !with_runs.contains(candidate.scheme.name) {
                left_out.entry(candidate.scheme.name).or_default().push(at);
            }
        }
        for mut options in left_out.into_values() {
            options.sort_by(|&one, &other| {
                let (one, other) = (&tried[one].candidate, &tried[other].candidate);
                one.cost_usd.total_cmp(&other.cost_usd).then(one.index.cmp(&other.index))
            });
            let of_scheme = self.evaluator.why_impossible_on_any_drives(&tried[options[0]].candidate);
            let looked_at = if of_scheme.is_some() { options.len() } else { BUILT_MAX };
            for &at in options.iter().take(looked_at) {
                let why = of_scheme.clone().or_else(|| self.evaluator.why_impossible(&tried[at].candidate));
                let Some(why) = why else { break };
                (tried[at].reasons, tried[at].outcome) = (vec![why.clone()], Some(Outcome::Impossible(why)));
            }
        }
    }

    /// Runs an option to its end, or until it breaks a budget of the user or of `rivals`. Checks
    /// only the budgets that the run itself can decide.
    pub(crate) fn try_one(
        &self,
        candidate: Candidate,
        rivals: &[Budget],
        to_its_end: bool,
    ) -> Result<Tried, SimulationError> {
        let certain = || self.too_dear(&candidate).or_else(|| self.bounds.excludes(&candidate, self.budgets));
        if let Some(reason) = (!to_its_end).then(certain).flatten() {
            return Ok(Tried::left_out(candidate, reason));
        }
        let limits: Vec<Budget> = match to_its_end {
            true => Vec::new(),
            false => self.budgets.iter().chain(rivals).cloned().collect(),
        };
        let of_parts = if self.sure && !to_its_end { self.budgets } else { &[] };
        let outcome = self.evaluator.run(&candidate, self.evaluator.limits_of(&limits, of_parts))?;
        let outcome = match outcome {
            Outcome::Done(figures) => match self.evaluator.why_too_short(&figures) {
                Some(why) => Outcome::Impossible(why),
                None => Outcome::Done(figures),
            },
            other => other,
        };
        self.count(1);
        let reasons = match &outcome {
            Outcome::Impossible(why) => vec![why.clone()],
            Outcome::Stopped { finished, broken } => {
                let all = self.evaluator.load.requests.len();
                let rival = rivals.iter().any(|rival| rival.text == *broken);
                let what = if rival { TOO_SLOW } else { "breaks" };
                vec![format!("{what} {broken}, which was certain after {finished} of {all} requests")]
            }
            Outcome::Done(figures) => {
                let others = self.budgets.iter().filter(|budget| !budget.needs_lives());
                others.filter_map(|budget| figures.breaks(budget)).collect()
            }
        };
        Ok(Tried { candidate, outcome: Some(outcome), reasons, judged: false })
    }

    pub(crate) fn count(&self, runs: u64) {
        self.simulations.fetch_add(runs, Relaxed);
    }

    /// Checks the budgets that cost extra runs: flash lifetime and, if the load grows, the grown
    /// load. Skips options that already break a budget. If the worst ends of the ranges count, the
    /// parts of the trace are checked first: a lifetime costs more than all parts.
    pub(crate) fn judge(&self, tried: &mut Tried) -> Result<(), SimulationError> {
        if !tried.is_pending() {
            return Ok(());
        }
        tried.judged = true;
        let runs = self.check_parts(tried)?;
        if !tried.reasons.is_empty() {
            return Ok(());
        }
        let of_life = |budget: &&Budget| budget.needs_lives();
        if self.grown.is_some() || self.budgets.iter().any(|budget| of_life(&budget)) {
            self.look_at_flash(tried)?;
        }
        let Tried { candidate, outcome: Some(Outcome::Done(figures)), reasons, .. } = tried else { return Ok(()) };
        reasons.extend(self.judge_grown(candidate, figures)?);
        reasons.extend(self.budgets.iter().filter(of_life).filter_map(|budget| figures.breaks(budget)));
        if self.sure && reasons.is_empty() {
            match self.proof(candidate).find_by(&runs, figures)? {
                Ok(confidence) => *reasons = self.judge_short_ends(figures, confidence),
                Err(refuted) => tried.note_refuted(refuted),
            }
        }
        Ok(())
    }

    /// Checks the parts of the trace if the worst ends of the ranges count. If a part refutes the
    /// option, the option gets the reason.
    fn check_parts(&self, tried: &mut Tried) -> Result<Runs, SimulationError> {
        let Some(figures) = tried.figures().filter(|_| self.sure) else { return Ok(Runs::new()) };
        Ok(self.proof(&tried.candidate).check_parts(figures)?.unwrap_or_else(|refuted| {
            tried.note_refuted(refuted);
            Runs::new()
        }))
    }

    /// Returns the budgets that the worst end of their figure's range breaks, and the budgets that
    /// cannot be proven.
    fn judge_short_ends(&self, figures: &mut Figures, confidence: Confidence) -> Vec<String> {
        figures.go_by_short_ends(&confidence, self.budgets);
        let broken = self.budgets.iter().filter_map(|budget| figures.breaks(budget));
        let requests = counted_are(confidence.requests, "request");
        let lacking = confidence.lacks(figures, self.budgets);
        let lacking = lacking.into_iter().map(|budget| format!("{requests} too few to be sure of {budget}"));
        let reasons = broken.map(|reason| format!("at the short end {reason}")).chain(lacking).collect();
        figures.confidence = Some(Box::new(confidence));
        reasons
    }

    /// Computes the flash lifetime of a judged option that ran to its end, unless it is known.
    pub(crate) fn look_at_flash(&self, tried: &mut Tried) -> Result<(), SimulationError> {
        let Tried { candidate, outcome: Some(Outcome::Done(figures)), judged: true, reasons } = tried else {
            return Ok(());
        };
        if figures.lives.is_none() {
            self.count(1);
            match self.evaluator.lives(candidate) {
                Ok(lives) => figures.set_lives(lives),
                Err(error @ SimulationError::Failed { .. }) => {
                    reasons.push(format!("in a repetition of the workload: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Computes the flash lifetime of every option that keeps all budgets.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn look_at_flash_of_all(&self, tried: &mut [Tried]) -> Result<(), SimulationError> {
        let kept: Vec<&mut Tried> = tried.iter_mut().filter(|tried| tried.keeps_all()).collect();
        kept.into_par_iter().with_max_len(1).try_for_each(|tried| self.look_at_flash(tried))
    }

    /// Returns the budgets that break under the grown load. Replaces lifetimes by lifetimes under
    /// growing load.
    fn judge_grown(&self, candidate: &Candidate, figures: &mut Figures) -> Result<Vec<String>, SimulationError> {
        let Some((evaluator, growth)) = &self.grown else { return Ok(Vec::new()) };
        let when = format!("after {} years of growth", short(growth.years));
        let mut grown = match evaluator.run(candidate, evaluator.limits(self.budgets))? {
            Outcome::Done(grown) => grown,
            Outcome::Stopped { broken, .. } => return Ok(vec![format!("{when} breaks {broken}")]),
            Outcome::Impossible(why) => return Ok(vec![format!("{when}: {why}")]),
        };
        self.count(2);
        let ends = evaluator.lives(candidate)?;
        if let Some(mut lives) = figures.lives.take() {
            growth.shorten(&mut lives, &ends);
            figures.set_lives(lives);
        }
        grown.set_lives(ends);
        let others = self.budgets.iter().filter(|budget| !budget.is_of_all_years());
        let reasons = others.filter_map(|budget| grown.breaks(budget)).map(|reason| format!("{when}: {reason}"));
        let reasons = reasons.collect();
        figures.grown = Some(grown);
        Ok(reasons)
    }

    pub(crate) fn too_dear(&self, candidate: &Candidate) -> Option<String> {
        let limits = self.budgets.iter().filter(|budget| budget.metric == Metric::Cost);
        let broken = |budget: &&Budget| !budget.kept_by(Some(candidate.cost_usd));
        limits.clone().find(broken).map(|budget| budget.broken_by(Some(candidate.cost_usd)))
    }

    /// Returns the winning option.
    pub fn best<'t>(&self, tried: &'t [Tried]) -> Option<&'t Tried> {
        winner(&self.contenders(tried))
    }

    /// Returns the options that keep every budget, the best first.
    pub fn ranked<'t>(&self, tried: &'t [Tried]) -> Vec<&'t Tried> {
        let mut kept: Vec<&Tried> = tried.iter().filter(|tried| tried.keeps_all()).collect();
        kept.sort_by(|one, other| {
            let by_price = one.candidate.cost_usd.total_cmp(&other.candidate.cost_usd);
            by_price.then_with(|| self.place(one).cmp(&self.place(other)))
        });
        let best = self.best(tried).map(|best| best.candidate.index);
        if let Some(at) = kept.iter().position(|tried| Some(tried.candidate.index) == best) {
            kept[..=at].rotate_right(1);
        }
        kept
    }

    /// Returns the response time that decides between options of one price: the first response time
    /// with an upper budget, or otherwise the mean.
    pub fn first_response_budget(&self) -> Budget {
        let limited = self.budgets.iter().find(|budget| budget.response_limit().is_some()).cloned();
        limited.unwrap_or_else(|| Budget {
            text: "mean".to_owned(),
            metric: Metric::Path(MEAN.to_owned()),
            side: crate::budget::Side::AtMost,
            limit: f64::INFINITY,
        })
    }

    fn first_response_time(&self, tried: &Tried) -> f64 {
        tried.figures().and_then(|figures| figures.of(&self.first_response_budget())).unwrap_or(f64::INFINITY)
    }

    /// Returns a budget that an option keeps if it is fast enough to win among the options of its
    /// price; `None` while no option is proven.
    fn fastest_proven_as_budget(&self, group: &[Tried]) -> Option<Budget> {
        let proven = fastest_proven(&self.contenders(group))?;
        let value = Some(self.first_response_time(proven)).filter(|value| value.is_finite())?;
        let first = self.first_response_budget();
        let text = format!("{}<={}", first.name(), first.show(Some(value)));
        Some(Budget { text, side: crate::budget::Side::AtMost, limit: value, ..first })
    }
}

/// Returns the winner among options of one price that keep the budgets, the fastest first: the
/// fastest that is proven, or else the fastest.
fn winner<'t>(contenders: &[&'t Tried]) -> Option<&'t Tried> {
    fastest_proven(contenders).or_else(|| contenders.first().copied())
}

/// Returns the first proven option.
fn fastest_proven<'t>(contenders: &[&'t Tried]) -> Option<&'t Tried> {
    contenders.iter().copied().find(|tried| tried.is_proven() == Some(true))
}

#[cfg(test)]
mod tests {
    use bimetal_core::schemes;
    use bimetal_core::units::{Bytes, Nanoseconds};
    use bimetal_sim::lifetime::KnownWear;
    use bimetal_sim::results::Run;
    use bimetal_sim::setup::Choices;
    use bimetal_sim::simulator::Replay;
    use bimetal_trace::Request;
    use bimetal_trace::synthetic::{Generator, Interarrival, Skew, WorkloadSpec};
    use proptest::prelude::*;

    use super::*;
    use crate::advice::Confidence;
    use crate::catalogue::Catalogue;
    use crate::evaluate::Load;
    use crate::tests::Nobody;
    use crate::{Planned, Question, plan};

    /// Returns a catalogue of SSDs with these sizes and prices, and one disk.
    fn shop(ssds: &[(u64, u32)]) -> Catalogue {
        let mut text = String::new();
        for (kind, (mib, usd)) in ssds.iter().enumerate() {
            let model = ["intel-x25-e-32gb", "micron-c200-60gb", "samsung-970-evo-plus-500gb"][kind % 3];
            // Each SSD is 1 MiB larger than the SSD before, so that no size is sold twice.
            let mib = mib + kind as u64;
            text += &format!(
                "[[drive]]\nmodel = \"{model}\"\nsizes = [\"{mib}MiB\"]\nprices_usd = [{usd}]\ndate = \"d\"\nsource = \"s\"\n"
            );
        }
        text += "[[drive]]\nmodel = \"seagate-barracuda-7200.12-1tb\"\nsizes = [\"1TB\"]\nprices_usd = [10]\ndate = \"d\"\nsource = \"s\"\n";
        Catalogue::parse(&text, "shop").unwrap()
    }

    /// Inputs that a quick search and an exhaustive search share.
    struct Asked {
        requests: Vec<Request>,
        catalogue: Catalogue,
        budgets: Vec<Budget>,
        growth: Option<Growth>,
        warmup: f64,
        sure: bool,
    }

    fn planned(asked: &Asked, exhaustive: bool) -> Planned {
        let question = Question {
            workload: &asked.requests,
            catalogue: asked.catalogue.clone(),
            logs: None,
            schemes: schemes::ALL.to_vec(),
            budgets: asked.budgets.clone(),
            common: Choices::default(),
            growth: asked.growth,
            vary: Vec::new(),
            replay: Replay::Timed { speedup: 1.0 },
            warmup: asked.warmup,
            exhaustive,
            holdout: false,
            significant: false,
            sure: asked.sure,
        };
        plan(&question, &Nobody).unwrap()
    }

    /// Returns an option that keeps every budget, with this result of its proof.
    fn proved(index: usize, proven: Option<bool>) -> Tried {
        let confidence = proven.map(|proven| Box::new(Confidence { proven, ..Confidence::default() }));
        let figures = Figures { confidence, ..Figures::default() };
        let (scheme, drives, settings) = (schemes::find("bcache").unwrap(), Vec::new(), Vec::new());
        let candidate = Candidate { index, variant: 0, scheme, drives, settings, cost_usd: 1.0 };
        let outcome = Some(Outcome::Done(Box::new(figures)));
        Tried { candidate, outcome, reasons: Vec::new(), judged: true }
    }

    /// Of two options for one price, the plan named the one whose worst window broke the budget,
    /// because its mean was a little shorter.
    #[test]
    fn proven_option_wins_over_a_faster_one_of_its_price() {
        let best = |proofs: &[Option<bool>]| {
            let options: Vec<Tried> = proofs.iter().enumerate().map(|(index, proven)| proved(index, *proven)).collect();
            winner(&options.iter().collect::<Vec<_>>()).map(|tried| tried.candidate.index)
        };
        assert_eq!(best(&[Some(false), Some(true), Some(true)]), Some(1));
        assert_eq!(best(&[Some(false), Some(false)]), Some(0));
        assert_eq!(best(&[None]), Some(0));
        assert_eq!(best(&[]), None);
    }

    /// Six variants of one scheme took all the proofs, so a provable option of another scheme lost.
    #[test]
    fn proven_option_wins_behind_many_faster_ones() {
        let (requests, common, known_wear) = (Vec::<Request>::new(), Choices::default(), KnownWear::default());
        let load = Load::read(&requests, &common, 0.0, &|_| {}).unwrap();
        let replay = Replay::Timed { speedup: 1.0 };
        let evaluator =
            Evaluator { load: &load, common: &common, replay, known_wear: &known_wear, variation: Default::default() };
        let search = Search {
            evaluator: &evaluator,
            bounds: &Bounds::of(&load, &common, replay, &[], &[]),
            grown: None,
            budgets: &[Budget::parse("p99<20ms").unwrap()],
            progress: &Nobody,
            simulations: &AtomicU64::new(0),
            sure: false,
        };
        let option = |index: usize, proven: bool| {
            let mut option = proved(index, Some(proven));
            let Some(Outcome::Done(figures)) = &mut option.outcome else { panic!("it ran to its end") };
            let mut run = Run::named("hdd-only");
            (run.response_time_ms.all.p99, run.response_time_ms.all.mean) = (Some(index as f64 / 10.0), Some(1.0));
            **figures = Figures { confidence: figures.confidence.take(), ..Figures::of_run(run) };
            option
        };
        let mut options: Vec<Tried> = (0..40).map(|index| option(index, false)).collect();
        assert!(search.fastest_proven_as_budget(&options).is_none(), "a slower option may be proven");
        options[38] = option(38, true);
        assert_eq!(search.best(&options).map(|best| best.candidate.index), Some(38));
        assert_eq!(search.fastest_proven_as_budget(&options).map(|budget| budget.limit), Some(3.8));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

        #[test]
        fn quick_search_chooses_as_the_exhaustive_one(
            ssds in proptest::collection::vec((16u64..256, 0u32..100), 1..3),
            read_fraction in 0.0..1.0f64,
            gap_us in 500u64..20_000,
            seed in 0u64..1000,
            limit_ms in 0.05..40.0f64,
            figure in proptest::sample::select(vec!["p99", "mean", "p50", "max", "read.p95"]),
            years in 0.0..20.0f64,
            another in proptest::sample::select(vec!["", "ssd_hit_ratio.read>0.3", "write_savings>0.1", "energy"]),
            grows in proptest::bool::ANY,
            warmup in proptest::sample::select(vec![0.0, 0.3]),
            sure in proptest::bool::ANY,
        ) {
            let spec = WorkloadSpec {
                read_fraction,
                interarrival: Interarrival::Poisson(Nanoseconds::from_micros(gap_us)),
                skew: "zipf:0.9".parse::<Skew>().unwrap(),
                ..WorkloadSpec::new(300, Bytes::from_mib(64))
            };
            let requests: Vec<Request> = Generator::new(&[spec], seed).unwrap().collect();
            let mut budgets = vec![
                Budget::parse(&format!("{figure}<{limit_ms}ms")).unwrap(),
                Budget::lifetime(&format!("{}s", (years * 3e7) as u64 + 1)).unwrap(),
            ];
            budgets.extend(match another {
                "" => None,
                "energy" => Some(Budget::energy("7W").unwrap()),
                figure => Some(Budget::parse(figure).unwrap()),
            });
            let growth = grows.then(|| Growth::parse("10%/y", Some("2y")).unwrap());
            let asked = Asked { requests, catalogue: shop(&ssds), budgets, growth, warmup, sure };
            let (quick, exhaustive) = (planned(&asked, false), planned(&asked, true));
            let chosen = |planned: &Planned| {
                planned.answer.best.as_ref().map(|best| (best.create_command.clone(), best.ssd.clone(), best.ssd_bytes, best.cost_usd.to_bits()))
            };
            prop_assert_eq!(chosen(&quick), chosen(&exhaustive));
        }
    }
}
