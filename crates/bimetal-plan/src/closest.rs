//! Where nothing keeps the budgets: the options that break them least, and what would have to give way.
//!
//! How far off an option is: for each budget that it breaks, how many times over it its figure is (of a lower limit: how many
//! times below), all multiplied. Twice the price is as far off as twice the response time. Options that cost no more than
//! they may are offered beside those that do: the ones say what the money gives, the others what the other budgets cost.
//!
//! Options are run with all budgets wider, by as much as may be broken before they are further off than those that would be
//! offered without them, so that most stop early; the first few, one of each scheme, run to their end. Parameters that are not at
//! their defaults are tried of what would be offered.

use std::cmp::Ordering;
use std::collections::HashMap;

use bimetal_sim::simulator::SimulationError;
use rayon::prelude::*;

use crate::budget::{Budget, Metric, short};
use crate::evaluate::{Figures, Outcome};
use crate::grid::Candidate;
use crate::progress::{Stage, Steps};
use crate::search::{BATCH, Search, Tried};

/// Options that are offered within the price, and as many beyond it.
const OFFERED: usize = 2;

/// How far off an option is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Off {
    /// Budgets that are broken without a factor that could say by how much: those of which limit or figure is 0.
    without_factor: u32,
    /// By how many times the others are broken, multiplied.
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

    /// How many times over all budgets are, multiplied; nothing where one of them has no factor.
    pub(crate) fn times(self) -> Option<f64> {
        (self.without_factor == 0).then_some(self.times)
    }
}

/// A budget that an option breaks.
pub(crate) struct Broken<'b> {
    budget: &'b Budget,
    /// The figure, where there is one.
    value: Option<f64>,
    /// How many times over (or below) the limit it is.
    factor: f64,
    /// Whether it is so when the load has grown, and better now.
    when_grown: bool,
}

impl Broken<'_> {
    /// What the budget would have to be.
    pub(crate) fn relaxed(&self) -> String {
        let Self { budget, value, factor, .. } = self;
        let side = if budget.is_upper() { "over" } else { "below" };
        let times = if factor.is_finite() { format!(" ({} times {side})", short(*factor)) } else { String::new() };
        format!("{budget} to {}{}{times}", budget.show(*value), self.when())
    }

    fn reason(&self) -> String {
        self.budget.broken_by(self.value) + self.when()
    }

    fn when(&self) -> &'static str {
        if self.when_grown { " when the load has grown" } else { "" }
    }
}

/// Each of `budgets` that an option with these figures breaks, now or when its load has grown.
pub(crate) fn broken<'b>(figures: &Figures, budgets: &'b [Budget]) -> Vec<Broken<'b>> {
    let worst = |budget: &'b Budget| {
        let of = |figures: &Figures, when_grown| {
            let value = figures.of(budget);
            let broken = figures.breaks(budget).is_some();
            broken.then(|| Broken { budget, value, factor: budget.excess(value), when_grown })
        };
        // The life under growing load is among the figures of now.
        let grown = figures.grown.as_deref().filter(|_| budget.metric != Metric::Lifetime);
        let (now, grown) = (of(figures, false), grown.and_then(|grown| of(grown, true)));
        match (now, grown) {
            (Some(now), Some(grown)) if grown.factor > now.factor => Some(grown),
            (now, grown) => now.or(grown),
        }
    };
    budgets.iter().filter_map(worst).collect()
}

/// How far off an option is that breaks these budgets.
pub(crate) fn off(broken: &[Broken<'_>]) -> Off {
    Off::of(broken.iter().map(|broken| broken.factor))
}

/// Of options whose figures are known, the numbers in the grid of those that are nearest.
pub(crate) fn among(tried: &[Tried], budgets: &[Budget]) -> Vec<usize> {
    let mut nearest = Nearest::default();
    (0..tried.len()).for_each(|at| nearest.add(tried, at, budgets));
    nearest.0.into_iter().map(|(_, at)| tried[at].candidate.index).collect()
}

/// The nearest options so far, in order: of each scheme on each choice of drives one.
#[derive(Default)]
struct Nearest(Vec<(Off, usize)>);

impl Nearest {
    /// Takes option number `at` of `tried` in, if it is one of them.
    fn add(&mut self, tried: &[Tried], at: usize, budgets: &[Budget]) {
        let Some(figures) = tried[at].figures() else { return };
        let own = off(&broken(figures, budgets));
        let place = |off: Off, at: usize| (off, tried[at].candidate.cost_usd, tried[at].candidate.index);
        let before = |one: (Off, f64, usize), other: (Off, f64, usize)| {
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2))
        };
        match self.0.iter().position(|&(_, other)| builds_alike(&tried[at].candidate, &tried[other].candidate)) {
            Some(twin) if before(place(own, at), place(self.0[twin].0, self.0[twin].1)).is_ge() => return,
            Some(twin) => drop(self.0.remove(twin)),
            None => {}
        }
        self.0.push((own, at));
        self.0.sort_by(|&(one, at), &(other, other_at)| before(place(one, at), place(other, other_at)));
        self.0.truncate(OFFERED);
    }

    /// How far off an option may be to become one of them; nothing: as far as it likes.
    fn worst(&self) -> Option<Off> {
        self.0.get(OFFERED - 1).map(|(off, _)| *off)
    }
}

/// The same scheme on the same drives.
fn builds_alike(one: &Candidate, other: &Candidate) -> bool {
    one.scheme.name == other.scheme.name && one.drives == other.drives
}

impl Search<'_> {
    /// Where nothing keeps the budgets: finds what breaks them least, and gives its numbers in the grid, the nearest first.
    ///
    /// # Errors
    /// A run that does not add up.
    pub fn closest(&self, tried: &mut [Tried]) -> Result<Vec<usize>, SimulationError> {
        let possible = |tried: &Tried| !matches!(tried.outcome, Some(Outcome::Impossible(_)));
        let within = |tried: &Tried| self.too_dear(&tried.candidate).is_none();
        let options: Vec<usize> = (0..tried.len()).filter(|&at| possible(&tried[at])).collect();
        let steps = Steps::of(self.progress, Stage::Closest, options.len() as u64);
        let (within, beyond): (Vec<usize>, Vec<usize>) = options.into_iter().partition(|&at| within(&tried[at]));
        let mut offered = Vec::new();
        for options in [within, beyond] {
            let (defaults, others): (Vec<usize>, Vec<usize>) =
                options.into_iter().partition(|&at| tried[at].candidate.variant == 0);
            let mut nearest = Nearest::default();
            self.nearest(tried, self.in_turns(tried, defaults), &mut nearest, &steps)?;
            let offered_with = |at: &usize| {
                nearest.0.iter().any(|(_, near)| builds_alike(&tried[*near].candidate, &tried[*at].candidate))
            };
            let others = others.into_iter().filter(offered_with).collect();
            self.nearest(tried, others, &mut nearest, &steps)?;
            offered.extend(nearest.0);
        }
        offered.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(offered.into_iter().map(|(_, at)| tried[at].candidate.index).collect())
    }

    /// Looks among `options` for what is nearer than what `nearest` has.
    fn nearest(
        &self,
        tried: &mut [Tried],
        options: Vec<usize>,
        nearest: &mut Nearest,
        steps: &Steps<'_>,
    ) -> Result<(), SimulationError> {
        for batch in options.chunks(BATCH) {
            let worst = nearest.worst();
            let runs: Result<Vec<Option<Tried>>, _> = batch
                .par_iter()
                .with_max_len(1)
                .map(|&at| {
                    let room = self.room(&tried[at].candidate, worst).filter(|_| !self.knows_all_of(&tried[at]));
                    let run = room.map_or(Ok(None), |room| self.within(&tried[at].candidate, room));
                    steps.over();
                    run
                })
                .collect();
            for (&at, run) in batch.iter().zip(runs?) {
                if let Some(run) = run {
                    tried[at] = run;
                }
                if self.knows_all_of(&tried[at]) {
                    nearest.add(tried, at, self.budgets);
                }
            }
        }
        Ok(())
    }

    /// In which order options are looked at: first one of each scheme, then by what is known of how far off they are.
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
        let mut of_scheme: HashMap<&str, usize> = HashMap::new();
        let turn = |at: &usize| {
            let turn = of_scheme.entry(tried[*at].candidate.scheme.name).or_default();
            *turn += 1;
            *turn
        };
        let turns: Vec<usize> = options.iter().map(turn).collect();
        let (first, rest): (Vec<_>, Vec<_>) = options.into_iter().zip(turns).partition(|(_, turn)| *turn == 1);
        first.into_iter().chain(rest).map(|(at, _)| at).collect()
    }

    /// How far off an option is at least: by its price.
    fn least(&self, candidate: &Candidate) -> Off {
        let limits = self.budgets.iter().filter(|budget| budget.metric == Metric::Cost);
        Off::of(limits.map(|budget| budget.excess(Some(candidate.cost_usd))))
    }

    /// By how many times an option may break the other budgets and still be nearer than `worst`; nothing: it is not.
    fn room(&self, candidate: &Candidate, worst: Option<Off>) -> Option<f64> {
        let least = self.least(candidate);
        let Some(worst) = worst else { return Some(f64::INFINITY) };
        match least.without_factor.cmp(&worst.without_factor) {
            Ordering::Equal => Some(worst.times / least.times).filter(|room| *room >= 1.0),
            // It is nearer, by however much it breaks the others, if it keeps one of those that have no factor.
            Ordering::Less => Some(f64::INFINITY),
            Ordering::Greater => None,
        }
    }

    /// Whether all that budgets ask is known of an option.
    fn knows_all_of(&self, tried: &Tried) -> bool {
        let asks_life = self.budgets.iter().any(|budget| budget.metric == Metric::Lifetime);
        let knows = |figures: &Figures| {
            (figures.lives.is_some() || !asks_life) && (figures.grown.is_some() || self.grown.is_none())
        };
        tried.judged && tried.figures().is_some_and(knows)
    }

    /// Runs an option unless it breaks a budget by more than `room`.
    fn within(&self, candidate: &Candidate, room: f64) -> Result<Option<Tried>, SimulationError> {
        let others = self.budgets.iter().filter(|budget| budget.metric != Metric::Cost);
        let wider: Vec<Budget> = others.map(|budget| budget.wider(room)).collect();
        let search = Search { budgets: &wider, ..*self };
        let mut tried = search.try_one(candidate.clone(), &[], false)?;
        search.judge(&mut tried)?;
        let Some(figures) = tried.figures().filter(|_| tried.keeps_all()) else { return Ok(None) };
        tried.reasons = broken(figures, self.budgets).iter().map(Broken::reason).collect();
        Ok(Some(tried))
    }
}
