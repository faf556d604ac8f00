//! The planner answers this question: which SSD to buy, of which size, under which scheme, for how
//! many years, at what price.
//!
//! A [`budget`] is a limit that an option must keep. A [`catalogue`] lists the drives for sale. The
//! [`grid`] combines these drives with the schemes of the registry into all options. [`evaluate`]
//! runs one option over the workload, exactly as `simulate` does. [`search`] finds the cheapest
//! option that keeps every budget, without a run of every option. [`bimetal_sim::lifetime`]
//! estimates how long the option's flash lasts, [`advice`] estimates how certain the answer is, and
//! [`break_even`] computes the prices at which the answer changes. [`answer`] is the document that
//! the planner produces. [`drives`] holds figures and prices of drives on the market. No module of
//! this crate decides where a block lies or how long a drive takes.
//!
//! [`mixcp`] answers by regression, as the paper MixedStore (2008) does. [`sweep`] is the other
//! grid: every combination that a file lists, without a budget. [`fleet`] chooses from the results
//! of a sweep, for many volumes with one budget.
//!
//! Read first: [`plan()`] below, then [`search`].

pub mod advice;
pub mod alternatives;
pub mod answer;
pub mod bounds;
pub mod break_even;
pub mod budget;
mod bursts;
pub mod catalogue;
mod check;
mod closest;
pub mod conditions;
pub mod create;
pub mod drives;
pub mod evaluate;
mod falling;
pub mod fleet;
pub mod grid;
pub mod growth;
pub mod halves;
pub mod kernel;
pub mod mixcp;
mod parts;
mod price_steps;
mod progress;
pub mod proof;
mod rated_workload;
pub mod search;
pub mod sweep;
#[cfg(test)]
mod tests;
mod think;
pub mod variation;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bimetal_core::scheme::SchemeInfo;
use bimetal_measure::text::{price, short};
use bimetal_sim::experiment::{peak_rss_bytes, summary_of};
use bimetal_sim::findings::{self, Considered};
use bimetal_sim::lifetime::KnownWear;
use bimetal_sim::results::{Run, TraceSummary};
use bimetal_sim::setup::{Choices, SetupError, controller_usd};
use bimetal_sim::simulator::{Replay, SimulationError};
use bimetal_sim::survey::Survey;
use bimetal_sim::workload::{Workload, WorkloadError};

use alternatives::next_best;
use answer::{Answer, Closest, Described, Effort, Rejected};
use bounds::Bounds;
use break_even::BreakEven;
use budget::{Budget, BudgetError, Metric};
use catalogue::{Catalogue, Kind};
pub use check::ParameterError;
use check::check;
use evaluate::{Evaluator, Load, MAP_TOO_LARGE, Outcome};
use grid::Grid;
use growth::{Growth, grown};
use progress::Steps;
pub use progress::{Progress, Stage};
use proof::refuted_by_life;
use search::{Search, Tried};
use think::WithThinkTimes;

/// Question to the planner.
pub struct Question<'a> {
    /// The workload.
    pub workload: &'a dyn Workload,
    /// Drives for sale, with their prices.
    pub catalogue: Catalogue,
    /// Catalogue of drives for a separate log. `None` if the log lies on the HDD.
    pub logs: Option<Catalogue>,
    /// Schemes to consider.
    pub schemes: Vec<&'static SchemeInfo>,
    /// Budgets that an option must keep.
    pub budgets: Vec<Budget>,
    /// Choices that all options share. Drives and sizes among these choices are ignored.
    pub common: Choices,
    /// Growth of the load; `None` for no growth.
    pub growth: Option<Growth>,
    /// Parameters to vary, and their values.
    pub vary: Vec<(String, Vec<String>)>,
    /// Times at which requests are issued.
    pub replay: Replay,
    /// Share of the requests that is played before measurement begins.
    pub warmup: f64,
    /// Set to run every option to its end.
    pub exhaustive: bool,
    /// Set to plan on the first half of the requests only. The second half then tests the plan.
    pub holdout: bool,
    /// Set to leave insignificant predictors out of MixCP's regressions.
    pub significant: bool,
    /// Set to use the worst end of each range, so that the answer is proven.
    pub sure: bool,
}

/// Reasons for which a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The workload cannot be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A setting for all options is not possible.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The totals of a run contradict each other.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// Budgets contradict each other.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A parameter cannot be varied or set as asked.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A lifetime is budgeted, but the requests have no times.
    #[error(
        "{budget}: the life of flash needs times, and this replay uses no times (--replay closed, or a trace \
         without times): expected a trace with times and --replay timed or think; `bimetal record` records one. Or leave \
         this budget out"
    )]
    NeedsTimes {
        /// The budget.
        budget: String,
    },
    /// A plan is to be sure of a response time, but the requests have no times.
    #[error(
        "--sure with {budget}: the trace has no times, so no option is sure to keep a limit on response times: \
         expected a trace with times; `bimetal record` records one. Or leave --sure out"
    )]
    SureNeedsTimes {
        /// The budget.
        budget: String,
    },
    /// A budget limits a figure that only a closed replay has.
    #[error("{budget}: only a closed replay has a score: expected --replay closed:DEPTH beside it")]
    NeedsClosedReplay {
        /// The budget.
        budget: String,
    },
    /// The catalogue has no drives for any of the schemes.
    #[error("{catalogue}: no scheme of this plan can be built from its drives: {missing}")]
    NothingToBuy {
        /// The catalogue.
        catalogue: String,
        /// Text that names the missing kind of drive.
        missing: &'static str,
    },
    /// MixCP has no model for the question.
    #[error(transparent)]
    Model(#[from] mixcp::ModelError),
    /// The trace has neither reads nor writes.
    #[error("the trace has no read and no write to plan for, only {discards} discards and {flushes} flushes")]
    NothingToDo {
        /// Number of discards in the trace.
        discards: u64,
        /// Number of flushes in the trace.
        flushes: u64,
    },
}

/// The answer, and the values that a text about it needs.
pub struct Planned {
    /// The answer as a document.
    pub answer: Answer,
    /// All options with their results. Options that keep the budgets come first, the best in front.
    pub tried: Vec<Tried>,
    /// Number of options that keep every budget.
    pub kept: usize,
    /// Positions in `tried` of the Pareto front, the cheapest first. No other option beats the
    /// options of the front in price, latency, lifetime and energy at once.
    pub front: Vec<usize>,
    /// Response time that decides between options of the same price.
    pub latency: Budget,
    /// Budgets that an option must keep.
    pub budgets: Vec<Budget>,
    /// Growth of the load; `None` for no growth.
    pub growth: Option<Growth>,
    /// Set if the plan was made on the first half of the requests only.
    pub holdout: bool,
}

impl Planned {
    /// Returns a clause about an option that keeps the budgets.
    pub fn keeps(&self, tried: &Tried) -> String {
        keeps(tried, &self.budgets, self.holdout)
    }

    /// Formats `value` as a figure of the budget with this text or name.
    pub fn show(&self, budget: &str, value: Option<f64>) -> String {
        let mut known = self.budgets.iter().chain([&self.latency]);
        let budget = known.find(|known| known.text == budget || known.name() == budget);
        match (budget, value) {
            (Some(Budget { metric: Metric::Lifetime, .. }), None) => "unlimited".to_owned(),
            (_, None) => "–".to_owned(),
            (Some(budget), value) => budget.show(value),
            (None, Some(value)) => short(value),
        }
    }

    /// Returns the figures by which options are compared: the response time and every other
    /// budgeted figure of a run.
    pub fn compared(&self) -> Vec<&Budget> {
        let mut compared = vec![&self.latency];
        for budget in &self.budgets {
            if budget.is_of_run() && compared.iter().all(|known| known.metric != budget.metric) {
                compared.push(budget);
            }
        }
        compared
    }

    /// Returns a sentence with the winner's figures under the grown load; `None` without growth.
    pub fn after_growth(&self) -> Option<String> {
        let (growth, (_, figures)) = (self.growth?, self.best()?);
        let grown = figures.grown.as_deref()?;
        let shown: Vec<String> = self
            .compared()
            .into_iter()
            .map(|budget| format!("{} {}", budget.name(), budget.show(grown.of(budget))))
            .collect();
        let has_flash = figures.lives.as_ref().is_some_and(|lives| !lives.is_empty());
        let life = if has_flash { "; the life above is that under the growing load" } else { "" };
        let (years, times) = (short(growth.years), (growth.factor() * 100.0).round() / 100.0);
        let shown = shown.join(", ");
        Some(format!("after {years} years of growth, {} times the load: {shown}{life}", short(times)))
    }

    /// Returns a sentence about the options that may be closer than the closest options offered,
    /// and were not run; `None` if there are none.
    pub fn closest_left_out(&self) -> Option<String> {
        let left_out = self.answer.closest_left_out;
        (left_out > 0).then(|| {
            format!(
                "{} that may be closer were not run: `--schemes` and a shorter `--catalog` leave fewer to run",
                bimetal_core::units::counted(left_out, "further option")
            )
        })
    }

    /// Returns a sentence about the options that were not run and may keep the budgets for less
    /// money; `None` if there are none.
    pub fn not_run(&self) -> Option<String> {
        let (not_run, best) = (self.answer.not_run, self.best());
        let may = if best.is_some() { "that may be cheaper" } else { "that may keep the budgets" };
        (not_run > 0).then(|| {
            format!(
                "{} {may} were not run: after {} runs, the search took one option a scheme in steps of {} % of the \
                 price; `--schemes` and a shorter `--catalog` leave fewer to run, and `--exhaustive` runs all",
                bimetal_core::units::counted(not_run, "option"),
                price_steps::RUNS_MAX,
                short(((price_steps::PRICE_STEP - 1.0) * 100.0).round())
            )
        })
    }

    /// Returns a sentence about the options left out because their map is too large, with a command
    /// that helps.
    pub fn left_out_for_their_map(&self) -> Option<String> {
        let too_large =
            |tried: &&Tried| matches!(&tried.outcome, Some(Outcome::Impossible(why)) if why.starts_with(MAP_TOO_LARGE));
        let left_out: Vec<&str> =
            self.tried.iter().filter(too_large).map(|tried| tried.candidate.scheme.name).collect();
        let schemes: BTreeSet<&str> = left_out.iter().copied().collect();
        let schemes: Vec<&str> = schemes.into_iter().collect();
        (!left_out.is_empty()).then(|| {
            format!(
                "{} options of {} are left out: their map of every block of the SSD takes more memory than a plan \
                 gives an option; try them with `bimetal simulate`",
                left_out.len(),
                schemes.join(" and ")
            )
        })
    }

    /// Adds the prices at which the winner and each option of `rivals`, by its number, cost the
    /// same.
    fn note_break_even(&mut self, rivals: &[usize]) {
        let Some((best, _)) = self.best() else { return };
        let rivals = rivals.iter().filter_map(|&index| self.tried.iter().find(|tried| tried.candidate.index == index));
        let found = rivals.flat_map(|rival| {
            let name = answer::name(&rival.candidate);
            break_even::between(best, &rival.candidate, &name)
        });
        let found: Vec<BreakEven> = found.collect();
        if let Some(best) = &mut self.answer.best {
            best.break_even = found;
        }
    }

    /// Returns the winning option and its figures.
    fn best(&self) -> Option<(&grid::Candidate, &evaluate::Figures)> {
        let best = self.tried.first().filter(|tried| tried.keeps_all())?;
        Some((&best.candidate, best.figures()?))
    }
}

/// Answers `question`.
///
/// # Errors
/// Returns an error for invalid input. If no option keeps the budgets, the result is still an
/// answer and not an error.
pub fn plan(question: &Question<'_>, progress: &dyn Progress) -> Result<Planned, PlanError> {
    let began = Instant::now();
    check(question)?;
    let whole = Load::read(question.workload, &question.common, question.warmup, &|read| progress.read(read))?;
    let first_half = question.holdout.then(|| Load::part(&whole, whole.warmup_requests, whole.half()));
    let load = first_half.as_ref().unwrap_or(&whole);
    refuse_nothing(load)?;
    let timed = question.budgets.iter().find(|budget| question.sure && budget.is_response_time());
    if let Some(budget) = timed.filter(|_| load.survey.is_timeless()) {
        return Err(PlanError::SureNeedsTimes { budget: budget.to_string() });
    }
    let candidates = candidates_of(question, &load.survey)?;
    let options = candidates.len() as u64;
    let known_wear = KnownWear::default();
    let evaluator = Evaluator {
        load,
        common: &question.common,
        replay: question.replay,
        known_wear: &known_wear,
        variation: Default::default(),
    };
    let grown = question.growth.map(|growth| Ok::<_, WorkloadError>((grown_load(question, load, growth)?, growth)));
    let grown = grown.transpose()?;
    let grown_evaluator = grown.as_ref().map(|(load, _)| Evaluator { load, ..evaluator });
    let bounds = Bounds::of(load, &question.common, question.replay, &question.budgets, &candidates);
    let simulations = AtomicU64::new(0);
    let search = Search {
        evaluator: &evaluator,
        bounds: &bounds,
        grown: grown_evaluator.as_ref().zip(question.growth),
        budgets: &question.budgets,
        progress,
        simulations: &simulations,
        sure: question.sure,
    };
    let mut tried = match question.exhaustive {
        true => search.exhaustive(candidates)?,
        false => search.cheapest_first(candidates)?,
    };
    let nearest = match search.best(&tried) {
        Some(_) => closest::Found::default(),
        None => search.closest(&mut tried)?,
    };
    let (nearest, closest_left_out) = (nearest.indices, nearest.left_out);
    let hybrid = search.closest_hybrid(&mut tried)?;
    let steps = Steps::of(progress, Stage::Confidence, 3);
    if !question.exhaustive {
        search.same_price(&mut tried)?;
        search.next_price(&mut tried)?;
        search.dearer(&mut tried)?;
        search.look_at_flash_of_all(&mut tried)?;
    }
    let rivals = search.rivals(&mut tried)?;
    search.name_the_impossible(&mut tried);
    steps.over();
    let (mut confidence, mut sensitivity) = (None, Vec::new());
    let best = search.best(&tried).map(|best| best.candidate.index);
    if let Some(best) = tried.iter_mut().find(|tried| Some(tried.candidate.index) == best)
        && let Tried { candidate, outcome: Some(Outcome::Done(figures)), .. } = best
    {
        let whole = Evaluator { load: &whole, ..evaluator };
        // The proof of the search is of the first half under `holdout`, and of figures that are not
        // yet replaced by their worst ends under `sure`.
        let proof = figures.confidence.take().filter(|_| !question.holdout && !question.sure);
        let mut found = match proof {
            Some(proof) => *proof,
            None => advice::confidence(&whole, candidate, figures, &question.budgets)?,
        };
        found.note(&whole, figures, &question.budgets);
        figures.confidence = Some(Box::new(found.clone()));
        confidence = Some(found);
        steps.over();
        let latency = search.first_response_budget();
        sensitivity = advice::sensitivity(&evaluator, candidate, &question.budgets, &latency)?;
        if question.growth.is_some() {
            sensitivity.iter_mut().for_each(|change| change.change += ", before growth");
        }
    }
    let nearest_option = nearest.first().and_then(|&index| tried.iter().find(|tried| tried.candidate.index == index));
    if let Some(nearest) = nearest_option {
        sensitivity.extend(advice::think_times_of(&evaluator, &nearest.candidate, &question.budgets)?);
    }
    let with_think_times = search.with_think_times(&tried)?;
    if let Some(found) = &with_think_times {
        sensitivity.push(advice::of_cheaper_options(found, &question.budgets, &search.first_response_budget()));
    }
    let (mut tried, kept) = sorted(&search, tried);
    search.look_at_conditions(&mut tried[..kept])?;
    let noted = tried[..kept].first().and_then(|best| best.figures()?.confidence.as_deref().cloned());
    confidence = noted.or(confidence);
    let effort = Effort { options, ..Effort::default() };
    let broken_in_linux = search.broken_in_linux(&tried)?;
    let mut planned = planned(question, &whole, &search, (tried, kept), &nearest, effort);
    if let Some((broken, best)) = broken_in_linux.zip(planned.answer.best.as_mut()) {
        best.kernel_commands.clear();
        planned.answer.findings.push(answer::linux_breaks_budgets(&broken, &best.scheme));
    }
    let offers = || planned.tried.iter().flat_map(|tried| &tried.candidate.drives);
    let kinds = [Kind::Ssd, Kind::Hdd].into_iter().filter(|&kind| offers().any(|(_, offer)| offer.kind == kind));
    let changed = answer::prices_have_changed(&planned.answer.catalogue.oldest_price, &kinds.collect::<Vec<_>>());
    planned.answer.findings.extend(changed);
    (planned.answer.confidence, planned.answer.sensitivity) = (confidence, sensitivity);
    let hybrid = hybrid.and_then(|index| planned.tried.iter().find(|tried| tried.candidate.index == index));
    planned.answer.closest_hybrid =
        hybrid.and_then(|tried| Closest::of(tried, &question.budgets, question.common.block));
    if let Some(WithThinkTimes::Keeps(tried)) = &with_think_times {
        planned.answer.with_think_times = Some(Described::of(tried, &question.budgets, question.common.block));
    }
    planned.answer.closest_left_out = closest_left_out;
    planned.note_break_even(&rivals);
    planned.answer.run.simulations = simulations.load(Ordering::Relaxed);
    planned.answer.run.wall_s = began.elapsed().as_secs_f64();
    planned.answer.run.peak_rss_bytes = peak_rss_bytes();
    Ok(planned)
}

/// Refuses a workload without reads and writes.
fn refuse_nothing(load: &Load) -> Result<(), PlanError> {
    let Survey { reads, writes, discards, flushes, .. } = load.survey;
    if reads + writes == 0 { Err(PlanError::NothingToDo { discards, flushes }) } else { Ok(()) }
}

/// Returns every option that can be bought.
fn candidates_of(question: &Question<'_>, survey: &Survey) -> Result<Vec<grid::Candidate>, PlanError> {
    let candidates = grid_of(question, survey)?.candidates();
    if candidates.is_empty() {
        let missing = if question.catalogue.of_kind(Kind::Ssd).is_empty() { "it has no SSD" } else { "it has no HDD" };
        return Err(PlanError::NothingToBuy { catalogue: question.catalogue.name.clone(), missing });
    }
    Ok(candidates)
}

fn grid_of<'a>(question: &'a Question<'_>, survey: &Survey) -> Result<Grid<'a>, PlanError> {
    let logs = question.logs.as_ref().map(|logs| logs.offers.iter().collect()).unwrap_or_default();
    let price = |info: &&'static SchemeInfo| Ok((info.name, controller_usd(&question.common, info.name)?));
    let controller_usd = question.schemes.iter().map(price).collect::<Result<_, SetupError>>()?;
    Ok(Grid {
        schemes: &question.schemes,
        ssds: question.catalogue.of_kind(Kind::Ssd),
        hdds: question.catalogue.of_kind(Kind::Hdd),
        several: question.catalogue.several(question.common.least_size(survey)),
        logs,
        set: &question.common.settings,
        vary: &question.vary,
        controller_usd,
    })
}

/// Returns the load after growth.
fn grown_load(question: &Question<'_>, load: &Load, growth: Growth) -> Result<Load, WorkloadError> {
    let requests = grown(&load.requests, &load.survey, growth.factor());
    // A first half has the warm-up of the whole trace.
    let warmup = load.warmup_requests as f64 / load.requests.len().max(1) as f64;
    Load::read(&requests, &question.common, warmup, &|_| {})
}

/// Returns a clause about an option that keeps the budgets, over the first half only if `holdout`
/// is set.
fn keeps(tried: &Tried, budgets: &[Budget], holdout: bool) -> String {
    let by_life = || refuted_by_life(tried.figures()?, budgets);
    let condition = tried.condition().map_or_else(String::new, |condition| format!(", {condition}"));
    match (tried.why_unproven().or_else(by_life), holdout) {
        (None, false) => format!("keeps the budgets{condition}"),
        (None, true) => format!("keeps the budgets over the first half{condition}"),
        (Some(why), false) => format!("keeps the budgets over the whole trace, but: {why}"),
        (Some(why), true) => format!("keeps the budgets over the first half, but within this half: {why}"),
    }
}

/// Returns the options that keep the budgets, the best in front, with their number, and all other
/// options behind them.
fn sorted(search: &Search<'_>, mut tried: Vec<Tried>) -> (Vec<Tried>, usize) {
    let ranked: Vec<usize> = search.ranked(&tried).iter().map(|tried| tried.candidate.index).collect();
    let place = |tried: &Tried| ranked.iter().position(|&index| index == tried.candidate.index);
    tried.sort_by_key(|tried| (place(tried).unwrap_or(usize::MAX), tried.candidate.index));
    (tried, ranked.len())
}

/// Makes the answer from the results of the [`sorted`] options. If no option keeps the budgets,
/// `nearest` holds the grid numbers of the options that break them least.
fn planned(
    question: &Question<'_>,
    load: &Load,
    search: &Search<'_>,
    (tried, count): (Vec<Tried>, usize),
    nearest: &[usize],
    effort: Effort,
) -> Planned {
    let latency = search.first_response_budget();
    let described = |tried: &Tried| Described::of(tried, &question.budgets, question.common.block);
    let kept: Vec<&Tried> = tried.iter().take(count).collect();
    let completed: Vec<&Tried> = tried.iter().filter(|tried| tried.figures().is_some()).collect();
    let nearest = nearest.iter().filter_map(|&index| tried.iter().find(|tried| tried.candidate.index == index));
    let offered = nearest.clone().next();
    let mut front = answer::pareto(if kept.is_empty() { &completed } else { &kept }, &latency);
    // The winner may be beaten by options that are a little better, but not proven.
    if let Some(winner) = kept.first().filter(|winner| !front.iter().any(|on| std::ptr::eq(*on, **winner))) {
        front.insert(0, winner);
    }
    let front_places = front.iter().filter_map(|&on| tried.iter().position(|tried| std::ptr::eq(tried, on))).collect();
    let best = tried.first().filter(|tried| tried.keeps_all());
    let not_best = |tried: &Tried| {
        let keeps = keeps(tried, &question.budgets, question.holdout);
        let reason = match (tried.reasons.is_empty(), best) {
            (true, Some(best)) if tried.candidate.cost_usd > best.candidate.cost_usd => {
                let more = tried.candidate.cost_usd - best.candidate.cost_usd;
                format!("{keeps}, and costs {} more", price(more))
            }
            (true, Some(best)) if best.is_proven() == Some(true) && tried.is_proven() == Some(false) => {
                format!("at the same price, {keeps}")
            }
            (true, _) => {
                format!("{keeps} at the same price, and is slower, or equal and later in the list")
            }
            (false, _) => tried.reasons.join("; "),
        };
        Rejected { option: described(tried), reason }
    };
    let answer = Answer {
        bimetal: env!("CARGO_PKG_VERSION").to_owned(),
        command: None,
        trace: TraceSummary {
            capacity_bytes: question.common.capacity.map(|capacity| capacity.0),
            ..summary_of(&load.survey, question.common.block)
        },
        findings: best.or(offered).or(tried.first()).map_or_else(Vec::new, |told| {
            let candidate = &told.candidate;
            let unknown = || Run { settings: candidate.all_settings(), ..Run::named(candidate.scheme.name) };
            let run = told.figures().map_or_else(unknown, |figures| figures.run().clone());
            let mut considered = Considered::default();
            for Tried { candidate, .. } in &tried {
                considered.add(candidate.scheme, candidate.drives.iter().map(|(role, _)| *role));
            }
            let mut found = findings::of_choice(&load.survey, &run, considered, question.common.block, question.replay);
            found.extend(told.figures().and_then(|figures| rated_workload::of(figures, question.replay)));
            found
        }),
        budgets: question.budgets.iter().map(|budget| budget.text.clone()).collect(),
        catalogue: question.catalogue.note(),
        best: best.map(described),
        next_best: next_best(&tried[..count], &latency).map(described),
        pareto: front.into_iter().map(described).collect(),
        rejected: tried.iter().skip(usize::from(best.is_some())).map(not_best).collect(),
        closest: nearest.filter_map(|tried| Closest::of(tried, &question.budgets, question.common.block)).collect(),
        closest_left_out: 0,
        not_run: tried.iter().filter(|tried| tried.was_not_run()).count() as u64,
        closest_hybrid: None,
        confidence: None,
        sensitivity: Vec::new(),
        with_think_times: None,
        run: effort,
    };
    let budgets = question.budgets.clone();
    let Question { growth, holdout, .. } = *question;
    Planned { answer, kept: count, tried, front: front_places, latency, budgets, growth, holdout }
}
