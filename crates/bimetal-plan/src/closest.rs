//! Closest options: if no option keeps the budgets, the options that break them least, and the
//! budgets to relax.
//!
//! The distance of an option is a product over its broken budgets. Each broken budget contributes
//! the factor by which the figure exceeds an upper limit or falls below a lower limit. So twice the
//! price counts as the same distance as twice the response time. The planner offers options within
//! the price budget and, beside them, dearer options. The options within the price budget show the
//! best figures for that price. The more expensive options show the price at which the other
//! budgets can be kept.
//!
//! Options run with all budgets widened up to the distance of the worst offered option. Most runs
//! of the search for the closest options therefore stop early. The first few options, one for each
//! scheme, run to their end. Above the price budget, further options of each scheme follow, in
//! steps of the price: such an option soon shows the price at which the other budgets can be kept.
//! No option with a higher price can then be closer. Parameters with other values than their
//! defaults are tried only for the options that would be offered.
//!
//! A large catalogue has more options than a user waits for. So the search ends after a
//! [number of runs](WORK_MAX), and the answer says how many options were left out that may be
//! closer.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use bimetal_measure::text::short;
use bimetal_sim::simulator::SimulationError;
use rayon::prelude::*;

use crate::break_even;
use crate::budget::{Budget, Metric};
use crate::evaluate::{Figures, Outcome};
use crate::grid::Candidate;
use crate::progress::{Stage, Steps};
use crate::search::{BATCH, BUILT_MAX, Search, Tried};

/// Number of options offered within the price budget, and of options offered above that budget.
const OFFERED: usize = 2;

/// Work after which the search leaves the other options out, within the price budget and above that
/// budget each: runs, where a judged option counts as [`JUDGED`] runs. If the worst ends of the
/// ranges count, few options are near enough to shorten the search, so a quarter must do.
const WORK_MAX: u64 = 6400;

/// Number of runs that an option costs whose lifetime is computed.
const JUDGED: u64 = 40;

/// Factor between the prices of the options of a scheme that run first above the price budget.
const PRICE_STEP: f64 = 1.1;

/// Distance of an option from the budgets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Off {
    /// Number of broken budgets without a factor, because the limit or the figure is 0.
    without_factor: u32,
    /// Product of the factors of the other broken budgets.
    times: f64,
}

impl Off {
    fn of(factors: impl Iterator<Item = f64>) -> Self {
        factors.fold(Self { without_factor: 0, times: 1.0 }, |off, factor| match factor.is_finite() {
            true => Self { times: off.times * factor.max(1.0), ..off },
            false => Self { without_factor: off.without_factor + 1, ..off },
        })
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.without_factor.cmp(&other.without_factor).then(self.times.total_cmp(&other.times))
    }

    /// Returns the product of all factors; `None` if a broken budget has no factor.
    pub(crate) fn times(self) -> Option<f64> {
        (self.without_factor == 0).then_some(self.times)
    }
}

/// Budget that an option breaks.
pub(crate) struct Broken<'b> {
    budget: &'b Budget,
    /// Figure of the option, if the figure exists.
    value: Option<f64>,
    /// Lower end of a lifetime's range, if it is below the figure.
    least: Option<f64>,
    /// Factor by which the figure exceeds an upper limit or falls below a lower limit.
    factor: f64,
    /// Set if the figure is measured under the grown load, where the figure is worse than under
    /// today's load.
    when_grown: bool,
}

impl Broken<'_> {
    /// Returns a text with the limit that the option would keep.
    pub(crate) fn relaxed(&self) -> String {
        let Self { budget, value, least, factor, .. } = self;
        let side = if budget.is_upper() { "over" } else { "below" };
        let times = if factor.is_finite() { format!(" ({} times {side})", short(*factor)) } else { String::new() };
        let least = least.map_or_else(String::new, |least| format!("; its least life is {}", budget.show(Some(least))));
        format!("{budget} to {}{}{times}{least}", budget.show(*value), self.when())
    }

    /// Returns true if the option has the figure. No limit helps an option without it.
    pub(crate) fn has_figure(&self) -> bool {
        self.value.is_some()
    }

    /// Returns a text with the figure that breaks the budget.
    pub(crate) fn reason(&self) -> String {
        self.budget.broken_by(self.value) + self.when()
    }

    fn when(&self) -> &'static str {
        if self.when_grown { " when the load has grown" } else { "" }
    }
}

/// Returns each of `budgets` that these figures break, now or under the grown load.
pub(crate) fn broken<'b>(figures: &Figures, budgets: &'b [Budget]) -> Vec<Broken<'b>> {
    let worst = |budget: &'b Budget| {
        let of = |figures: &Figures, when_grown| {
            let value = figures.of(budget);
            let broken = figures.breaks(budget).is_some();
            let least = figures.life_range().0.filter(|least| value.is_some_and(|value| *least < value));
            let least = least.filter(|_| budget.metric == Metric::Lifetime);
            broken.then(|| Broken { budget, value, least, factor: budget.excess(value), when_grown })
        };
        // Today's figures of all years include the growth.
        let grown = figures.grown.as_deref().filter(|_| !budget.is_of_all_years());
        let (now, grown) = (of(figures, false), grown.and_then(|grown| of(grown, true)));
        match (now, grown) {
            (Some(now), Some(grown)) if grown.factor > now.factor => Some(grown),
            (now, grown) => now.or(grown),
        }
    };
    budgets.iter().filter_map(worst).collect()
}

/// Returns the distance of an option that breaks these budgets.
pub(crate) fn off(broken: &[Broken<'_>]) -> Off {
    Off::of(broken.iter().map(|broken| broken.factor))
}

/// Returns the grid numbers of the nearest options among those with known figures.
pub(crate) fn among(tried: &[Tried], budgets: &[Budget]) -> Vec<usize> {
    let mut nearest = Nearest::default();
    (0..tried.len()).for_each(|at| nearest.add(tried, at, budgets));
    nearest.0.into_iter().map(|(_, at)| tried[at].candidate.index).collect()
}

/// Options nearest to the budgets so far, in order, with at most one option per scheme and choice
/// of drives.
#[derive(Default)]
struct Nearest(Vec<(Off, usize)>);

impl Nearest {
    /// Adds option number `at` of `tried` if it is among the nearest.
    fn add(&mut self, tried: &[Tried], at: usize, budgets: &[Budget]) {
        let Some(figures) = tried[at].figures() else { return };
        let own = off(&broken(figures, budgets));
        let place = |off: Off, at: usize| (off, tried[at].candidate.cost_usd, tried[at].candidate.index);
        let before = |one: (Off, f64, usize), other: (Off, f64, usize)| {
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2))
        };
        match self.0.iter().position(|&(_, other)| tried[at].candidate.builds_as(&tried[other].candidate)) {
            Some(twin) if before(place(own, at), place(self.0[twin].0, self.0[twin].1)).is_ge() => return,
            Some(twin) => drop(self.0.remove(twin)),
            None => {}
        }
        self.0.push((own, at));
        self.0.sort_by(|&(one, at), &(other, other_at)| before(place(one, at), place(other, other_at)));
        self.0.truncate(OFFERED);
    }

    /// Returns the distance below which an option joins the nearest options; `None` if any distance
    /// does.
    fn worst(&self) -> Option<Off> {
        self.0.get(OFFERED - 1).map(|(off, _)| *off)
    }
}

/// The closest options.
#[derive(Default)]
pub struct Found {
    /// Grid numbers of the closest options, the nearest option first.
    pub indices: Vec<usize>,
    /// Number of options that may be closer and were left out.
    pub left_out: u64,
}

/// Outcome of the run of an option.
struct Near {
    /// The option; `None` if it breaks a budget by too much.
    tried: Option<Tried>,
    /// Set if the option's lifetime was computed.
    was_judged: bool,
}

/// State of the search for the closest options of a group.
struct Progressed {
    nearest: Nearest,
    /// Number of runs that may still be made.
    work_left: u64,
    /// Number of options that may be closer and were left out.
    left_out: u64,
}

impl Progressed {
    fn up_to(work_max: u64) -> Self {
        Self { nearest: Nearest::default(), work_left: work_max, left_out: 0 }
    }
}

impl Search<'_> {
    /// Finds the options that break the budgets least.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn closest(&self, tried: &mut [Tried]) -> Result<Found, SimulationError> {
        self.closest_by(if self.sure { WORK_MAX / 4 } else { WORK_MAX }, tried)
    }

    /// As [`closest`](Self::closest), with at most `work_max` runs for options within the price
    /// budget, and as many for options above that budget.
    fn closest_by(&self, work_max: u64, tried: &mut [Tried]) -> Result<Found, SimulationError> {
        let possible = |tried: &Tried| !matches!(tried.outcome, Some(Outcome::Impossible(_)));
        let within = |tried: &Tried| self.too_dear(&tried.candidate).is_none();
        let options: Vec<usize> = (0..tried.len()).filter(|&at| possible(&tried[at])).collect();
        let steps = Steps::of(self.progress, Stage::Closest, options.len() as u64);
        let (within, beyond): (Vec<usize>, Vec<usize>) = options.into_iter().partition(|&at| within(&tried[at]));
        let (mut offered, mut left_out) = (Vec::new(), 0);
        for options in [within, beyond] {
            let (defaults, others): (Vec<usize>, Vec<usize>) =
                options.into_iter().partition(|&at| tried[at].candidate.variant == 0);
            let mut group = Progressed::up_to(work_max);
            self.nearest(tried, self.in_turns(tried, defaults), &mut group, &steps)?;
            let near = |at: &usize| {
                let builds = |(_, near): &(Off, usize)| tried[*near].candidate.builds_as(&tried[*at].candidate);
                group.nearest.0.iter().any(builds)
            };
            let others = others.into_iter().filter(near).collect();
            self.nearest(tried, others, &mut group, &steps)?;
            offered.extend(group.nearest.0);
            left_out += group.left_out;
        }
        offered.sort_by(|(one, _), (other, _)| one.cmp(other));
        let indices = offered.into_iter().map(|(_, at)| tried[at].candidate.index).collect();
        Ok(Found { indices, left_out })
    }

    /// Finds the hybrid that breaks the budgets least, if the best option has drives of one kind.
    /// Considers the cheapest option of each scheme that has an SSD and a hard disk and costs less
    /// than the best option. Returns the grid number of the hybrid.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn closest_hybrid(&self, tried: &mut [Tried]) -> Result<Option<usize>, SimulationError> {
        let is_hybrid = |candidate: &Candidate| break_even::way(candidate) == (true, true);
        let Some(best) = self.best(tried).filter(|best| !is_hybrid(&best.candidate)) else { return Ok(None) };
        let usd = best.candidate.cost_usd;
        let mut of_scheme: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, Tried { candidate, .. }) in tried.iter().enumerate() {
            if candidate.variant == 0 && candidate.cost_usd < usd && is_hybrid(candidate) {
                of_scheme.entry(candidate.scheme.name).or_default().push(at);
            }
        }
        let cheapest = of_scheme.into_values().filter_map(|mut options| {
            let usd = |at: usize| tried[at].candidate.cost_usd;
            options.sort_by(|&one, &other| usd(one).total_cmp(&usd(other)));
            // Options that were not run may be too small.
            options.into_iter().take(BUILT_MAX).find(|&at| match &tried[at].outcome {
                Some(outcome) => !matches!(outcome, Outcome::Impossible(_)),
                None => self.evaluator.why_impossible(&tried[at].candidate).is_none(),
            })
        });
        let options: Vec<usize> = cheapest.collect();
        let steps = Steps::of(self.progress, Stage::Closest, options.len() as u64);
        let mut group = Progressed::up_to(WORK_MAX);
        self.nearest(tried, options, &mut group, &steps)?;
        Ok(group.nearest.0.first().map(|(_, at)| tried[*at].candidate.index))
    }

    /// Simulates each of `options` that may be nearer than the options in `group`, until the work
    /// of the group is done.
    fn nearest(
        &self,
        tried: &mut [Tried],
        options: Vec<usize>,
        group: &mut Progressed,
        steps: &Steps<'_>,
    ) -> Result<(), SimulationError> {
        let mut options = options.into_iter().peekable();
        while options.peek().is_some() {
            let worst = group.nearest.worst();
            // Options that cannot be nearer, or are known, need no run and so no place in a batch.
            let mut batch: Vec<(usize, f64)> = Vec::new();
            while batch.len() < BATCH
                && let Some(at) = options.next()
            {
                match self.room(&tried[at].candidate, worst) {
                    Some(_) if self.knows_all_of(&tried[at]) => group.nearest.add(tried, at, self.budgets),
                    Some(_) if group.work_left == 0 => group.left_out += 1,
                    Some(room) => {
                        batch.push((at, room));
                        continue;
                    }
                    None => {}
                }
                steps.over();
            }
            let run = |&(at, room): &(usize, f64)| {
                let run = self.within(&tried[at].candidate, room);
                steps.over();
                run
            };
            let runs: Result<Vec<Near>, _> = batch.par_iter().with_max_len(1).map(run).collect();
            for (&(at, _), near) in batch.iter().zip(runs?) {
                let work = if near.was_judged { JUDGED } else { 1 };
                group.work_left = group.work_left.saturating_sub(work);
                if let Some(run) = near.tried {
                    tried[at] = run;
                    group.nearest.add(tried, at, self.budgets);
                }
            }
        }
        Ok(())
    }

    /// Returns the options in the order in which they run: first one per scheme, then one per
    /// scheme and step of the price above the price budget, then by known distance.
    fn in_turns(&self, tried: &[Tried], mut options: Vec<usize>) -> Vec<usize> {
        let late = |tried: &Tried| self.budgets.iter().map(|budget| self.bounds.late(&tried.candidate, budget)).max();
        let came_to = |tried: &Tried| match tried.outcome {
            Some(Outcome::Stopped { finished, .. }) => finished,
            _ => 0,
        };
        let key = |at: usize| (self.least(&tried[at].candidate), late(&tried[at]), came_to(&tried[at]));
        options.sort_by_cached_key(|&at| {
            let (least, late, came_to) = key(at);
            (least.without_factor, least.times.to_bits(), late, std::cmp::Reverse(came_to), at)
        });
        let mut next: HashMap<&str, f64> = HashMap::new();
        let begins_a_step = |at: &usize| {
            let Candidate { scheme, .. } = &tried[*at].candidate;
            let least = self.least(&tried[*at].candidate).times;
            let next = next.entry(scheme.name).or_insert(0.0);
            let begins = least >= *next;
            if begins {
                *next = least * PRICE_STEP;
            }
            begins
        };
        let (mut first, rest): (Vec<usize>, Vec<usize>) = options.into_iter().partition(begins_a_step);
        first.extend(rest);
        first
    }

    /// Returns a lower bound of an option's distance, from its price.
    fn least(&self, candidate: &Candidate) -> Off {
        let limits = self.budgets.iter().filter(|budget| budget.metric == Metric::Cost);
        Off::of(limits.map(|budget| budget.excess(Some(candidate.cost_usd))))
    }

    /// Returns the factor by which an option may break the other budgets and still be nearer than
    /// `worst`; `None` if it cannot be nearer.
    fn room(&self, candidate: &Candidate, worst: Option<Off>) -> Option<f64> {
        let least = self.least(candidate);
        let Some(worst) = worst else { return Some(f64::INFINITY) };
        match least.without_factor.cmp(&worst.without_factor) {
            Ordering::Equal => Some(worst.times / least.times).filter(|room| *room >= 1.0),
            // The option breaks fewer budgets without a factor. The option is nearer, by whatever
            // factor it breaks the other budgets.
            Ordering::Less => Some(f64::INFINITY),
            Ordering::Greater => None,
        }
    }

    /// Returns true if all figures of an option that the budgets need are known.
    fn knows_all_of(&self, tried: &Tried) -> bool {
        let asks_life = self.budgets.iter().any(|budget| budget.needs_lives());
        let knows = |figures: &Figures| {
            (figures.lives.is_some() || !asks_life) && (figures.grown.is_some() || self.grown.is_none())
        };
        tried.judged && tried.figures().is_some_and(knows)
    }

    /// Runs an option until it breaks a budget by more than the factor `room`.
    fn within(&self, candidate: &Candidate, room: f64) -> Result<Near, SimulationError> {
        let others = self.budgets.iter().filter(|budget| budget.metric != Metric::Cost);
        let wider: Vec<Budget> = others.map(|budget| budget.wider(room)).collect();
        let search = Search { budgets: &wider, ..*self };
        let mut tried = search.try_one(candidate.clone(), &[], false)?;
        search.judge(&mut tried)?;
        let figures = tried.figures();
        let was_judged = figures.is_some_and(|figures| figures.lives.is_some());
        let Some(figures) = figures.filter(|_| tried.keeps_all()) else {
            return Ok(Near { tried: None, was_judged });
        };
        let mut reasons: Vec<String> = broken(figures, self.budgets).iter().map(Broken::reason).collect();
        if self.sure && reasons.is_empty() {
            reasons.push("not proven: the trace is too short, or not every window keeps the budgets".to_owned());
        }
        tried.reasons = reasons;
        if let Some(Outcome::Done(figures)) = &mut tried.outcome
            && let Some(confidence) = &mut figures.confidence
        {
            confidence.tighten(self.budgets);
        }
        Ok(Near { tried: Some(tried), was_judged })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use bimetal_core::schemes;
    use bimetal_core::units::Bytes;
    use bimetal_sim::lifetime::KnownWear;
    use bimetal_sim::setup::Choices;
    use bimetal_sim::simulator::Replay;
    use bimetal_sim::survey::Survey;
    use bimetal_trace::Request;
    use bimetal_trace::synthetic::{Generator, WorkloadSpec};

    use super::*;
    use crate::bounds::Bounds;
    use crate::catalogue::Catalogue;
    use crate::evaluate::{Evaluator, Load};
    use crate::grid::Grid;
    use crate::tests::Nobody;

    /// A search that may make few runs offers what it has found, and counts the options that it
    /// left out.
    #[test]
    fn search_for_the_closest_ends_and_counts_what_it_left_out() {
        let requests: Vec<Request> =
            Generator::new(&[WorkloadSpec::new(500, Bytes::from_mib(32))], 1).unwrap().collect();
        let common = Choices::default();
        let survey = Survey::of(&requests, common.block, &|_| {}).unwrap();
        let load = Load::new(requests, survey, 0.0);
        let catalogue = Catalogue::parse(
            "[[drive]]\nmodel = \"intel-x25-e-32gb\"\nsizes = [\"1GiB\", \"2GiB\", \"4GiB\"]\n\
             prices_usd = [5, 8, 13]\ndate = \"d\"\nsource = \"s\"\n\
             [[drive]]\nmodel = \"seagate-barracuda-7200.12-1tb\"\nsizes = [\"1TB\"]\nprices_usd = [10]\ndate = \"d\"\nsource = \"s\"\n",
            "shop",
        )
        .unwrap();
        let candidates = Grid::of(schemes::ALL, &catalogue).candidates();
        let budgets = [Budget::cost(16.0), Budget::parse("p99<1us").unwrap()];
        let replay = Replay::Timed { speedup: 1.0 };
        let bounds = Bounds::of(&load, &common, replay, &budgets, &candidates);
        let (known_wear, simulations) = (KnownWear::default(), AtomicU64::new(0));
        let evaluator =
            Evaluator { load: &load, common: &common, replay, known_wear: &known_wear, variation: Default::default() };
        let search = Search {
            evaluator: &evaluator,
            grown: None,
            budgets: &budgets,
            bounds: &bounds,
            progress: &Nobody,
            simulations: &simulations,
            sure: false,
        };
        let closest_by = |work_max| {
            let mut tried: Vec<Tried> =
                candidates.iter().map(|one| Tried::left_out(one.clone(), "not run".to_owned())).collect();
            search.closest_by(work_max, &mut tried).unwrap()
        };
        let all = closest_by(u64::MAX);
        assert_eq!((all.indices.len(), all.left_out), (2 * OFFERED, 0));
        let some = closest_by(1);
        assert!(!some.indices.is_empty() && some.left_out > 0, "{:?} and {} left out", some.indices, some.left_out);
        assert_eq!((closest_by(0).indices.len(), closest_by(0).left_out > some.left_out), (0, true));
    }
}
