//! Confidence in the answer, and its sensitivity to changes. For the confidence, the winning option
//! runs over windows of the trace and over its second half. For the sensitivity, the option runs
//! with a fifth more load, with a fifth less load, and with an SSD of half the size.

use bimetal_core::block::BlockSize;
use bimetal_core::layout::Role;
use bimetal_core::units::counted_are;
use bimetal_measure::text::{short, short_years};
use bimetal_sim::findings::answered_by_faster_device;
use bimetal_sim::lifetime::Life;
use bimetal_sim::limits::Limits;
use bimetal_sim::simulator::{Replay, SimulationError};
use rayon::prelude::*;
use serde::Serialize;

use crate::answer;
use crate::budget::{Budget, Metric};
use crate::conditions::condition_of;
use crate::evaluate::{Evaluator, Figures, Load, Outcome, drive_writes};
use crate::grid::Candidate;
use crate::halves;
use crate::parts::Parts;
use crate::proof::{Runs, refuted_by_life};
use crate::think::WithThinkTimes;
use crate::variation::Variation;

/// Confidence in the answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Confidence {
    /// Number of measured requests.
    pub requests: u64,
    /// Number of windows, of equally many requests, from which the error is estimated; 0 if the
    /// trace is too short.
    pub windows: u64,
    /// Spread of each budgeted figure of the run, and spread of the lifetime of the flash.
    pub budgets: Vec<Spread>,
    /// Set if every budget is kept even at the worst end of its figure's range.
    pub proven: bool,
    /// Further notes, in sentences.
    pub notes: Vec<String>,
}

/// A figure over parts of the trace.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// Text of the budget.
    pub budget: String,
    /// The figure over the whole trace.
    pub predicted: Option<f64>,
    /// Half the width of the 95 % interval of the mean of the windows.
    pub error: Option<f64>,
    /// Smallest figure of any window.
    pub least: Option<f64>,
    /// Largest figure of any window.
    pub most: Option<f64>,
    /// Figure of the first half alone.
    pub first_half: Option<f64>,
    /// Figure of the second half, with the first half played before the second half.
    pub second_half: Option<f64>,
    /// Set if the second half keeps the budget.
    pub kept_in_second_half: bool,
    /// Number of windows that keep the budget, and number of windows; null for a lifetime.
    pub kept_in_windows: Option<(u64, u64)>,
    /// Worst figure of the whole trace, of any window, of the second half, and of the range of a
    /// lifetime.
    pub short_end: Option<f64>,
    /// Set if the worst figure keeps the budget.
    pub proven: bool,
    /// Set if the budget breaks once writes wait until they are stable: a volatile write cache
    /// answers them earlier, and a power cut may lose them.
    pub needs_volatile_cache: bool,
    /// Set if the budget breaks once the data are spread over the whole volume.
    pub needs_data_together: bool,
    /// Set if the budget limits a response time, and the trace has no times.
    #[serde(skip)]
    pub(crate) lacks_times: bool,
}

/// Effect of a change.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// Name of the change.
    pub change: String,
    /// Budgeted figures, by their names.
    pub figures: Vec<(String, Option<f64>)>,
    /// Years until the flash is worn out; null if it never wears out or if there is no flash.
    pub lifetime_years: Option<f64>,
    /// Shortest life that the trace leaves possible, in years; null as `lifetime_years`.
    pub lifetime_least_years: Option<f64>,
    /// Set if every budget is still kept over the whole trace.
    pub keeps_budgets: bool,
    /// Budgets that break, or the reason for which the budgets are not proven to be kept.
    pub reasons: Vec<String>,
}

impl Sensitivity {
    /// Returns the life as text: `5.8 years`, `3.5 to 5.8 years`, or `3.5 years or more`; `None`
    /// without a life.
    pub fn life(&self) -> Option<String> {
        let Some(years) = self.lifetime_years.map(short_years) else {
            return self.lifetime_least_years.map(|least| format!("{} years or more", short_years(least)));
        };
        let least = self.lifetime_least_years.map(short_years).filter(|least| *least != years);
        Some(format!("{}{years} years", least.map_or_else(String::new, |least| format!("{least} to "))))
    }

    /// Returns the verdict on the budgets as text.
    pub fn verdict(&self) -> String {
        let reasons = self.reasons.join("; ");
        match (self.keeps_budgets, reasons.is_empty()) {
            (true, true) => "keeps the budgets".to_owned(),
            (true, false) => format!("keeps the budgets over the whole trace, but: {reasons}"),
            (false, _) => reasons,
        }
    }
}

/// Verdict on budgets that are not proven, and are not kept in a number of windows either.
pub(crate) const NOT_PROVEN: &str = "not proven";

/// Computes the confidence in `candidate`, whose figures over the whole trace are `figures`. Widens
/// the range of the option's flash lifetime by the lifetime under each half.
///
/// # Errors
/// Returns an error if the totals of a run contradict each other.
pub fn confidence(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    figures: &mut Figures,
    budgets: &[Budget],
) -> Result<Confidence, SimulationError> {
    if figures.requests != evaluator.load.requests.len() as u64 {
        let run = evaluator.run(candidate, Limits::default())?;
        figures.parts = if let Outcome::Done(whole) = run { whole.parts } else { Vec::new() };
    }
    let spans = evaluator.load.parts().map_or(&[][..], |parts| &parts.spans);
    let needs_runs = budgets.iter().any(Budget::needs_runs_of_parts);
    let run = |&span: &(u64, u64)| if needs_runs { run_over(evaluator, candidate, span) } else { Ok(None) };
    let runs: Result<Runs, SimulationError> = spans.par_iter().with_max_len(1).map(run).collect();
    of_parts(evaluator, candidate, figures, budgets, &runs?)
}

/// Computes the confidence from the response times of all parts of the trace, and from `runs` over
/// the parts for other figures.
///
/// # Errors
/// Returns an error if the totals of a run contradict each other.
pub(crate) fn of_parts(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    figures: &mut Figures,
    budgets: &[Budget],
    runs: &Runs,
) -> Result<Confidence, SimulationError> {
    let load = evaluator.load;
    let requests = load.requests.len() as u64 - load.warmup_requests;
    let mut confidence = Confidence { requests, ..Confidence::default() };
    let Some(parts) = load.parts() else {
        confidence.proven = confidence.lacks(figures, budgets).is_empty();
        confidence.note(evaluator, figures, budgets);
        return Ok(confidence);
    };
    let &Parts { count, student, .. } = parts;
    confidence.windows = count;
    let (first, second) = (parts.first_half(), parts.first_half() + 1);
    let is_timeless = load.survey.is_timeless();
    for budget in budgets.iter().filter(|budget| budget.is_of_run()) {
        let value = |part: usize| match budget.is_response_time() {
            true => figures.response_time_in(part, budget),
            false => runs[part].as_ref().and_then(|figures| figures.of(budget)),
        };
        // A window without the figure, such as the hits of reads where nothing is read, decides
        // nothing.
        let windows: Vec<f64> = (0..first).filter_map(value).collect();
        let with_figure = windows.len() as u64;
        // An option without the figure keeps every upper limit on it: a disk has no write
        // amplification.
        let has_none = figures.predicted(budget).is_none() && budget.is_upper();
        let kept = windows.iter().filter(|&&value| budget.kept_by(Some(value))).count() as u64;
        let all = windows.iter().copied().chain(value(second)).chain(figures.predicted(budget));
        let short_end = all.reduce(|one, other| if budget.is_upper() { one.max(other) } else { one.min(other) });
        confidence.budgets.push(Spread {
            budget: budget.text.clone(),
            predicted: figures.predicted(budget),
            error: error_of_mean(&windows, count, student),
            least: windows.iter().copied().reduce(f64::min),
            most: windows.iter().copied().reduce(f64::max),
            first_half: value(first),
            second_half: value(second),
            kept_in_second_half: value(second).is_none_or(|value| budget.kept_by(Some(value))),
            kept_in_windows: (with_figure > 0).then_some((kept, with_figure)),
            short_end,
            proven: (with_figure > 0 || has_none)
                && kept == with_figure
                && budget.kept_by(short_end)
                && !(is_timeless && budget.is_response_time()),
            needs_volatile_cache: false,
            needs_data_together: false,
            lacks_times: is_timeless && budget.is_response_time(),
        });
    }
    let has_flash = figures.lives.as_ref().is_some_and(|lives| !lives.is_empty());
    let of_life: Vec<&Budget> = budgets.iter().filter(|budget| budget.needs_lives()).collect();
    if has_flash && !of_life.is_empty() {
        confidence.budgets.extend(life_in_halves(evaluator, candidate, figures, &of_life)?);
    }
    confidence.proven =
        confidence.budgets.iter().all(|spread| spread.proven) && confidence.lacks(figures, budgets).is_empty();
    confidence.note(evaluator, figures, budgets);
    Ok(confidence)
}

/// Computes the lifetime of the flash under each half alone, repeated. Widens the ranges in
/// `figures` to include the values of both halves. Returns the spread of each of `budgets`, which
/// are limits on figures of the lifetime.
fn life_in_halves(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    figures: &mut Figures,
    budgets: &[&Budget],
) -> Result<Vec<Spread>, SimulationError> {
    let load = evaluator.load;
    let (half, end) = (load.half(), load.requests.len() as u64);
    let lives = |(from, to)| {
        let load = Load::alone(load, from, to);
        let evaluator = Evaluator { load: &load, ..*evaluator };
        evaluator.lives(candidate)
    };
    let halves: Result<Vec<Vec<Life>>, SimulationError> =
        [(load.warmup_requests, half), (half, end)].into_par_iter().with_max_len(1).map(lives).collect();
    let halves = halves?;
    figures.note_range_before_halves();
    // Lifetimes under growing load are shorter than those of the halves, which do not grow.
    for life in figures.lives.iter_mut().flatten().filter(|_| figures.grown.is_none()) {
        for half in halves.iter().flatten() {
            let limited_by = half.limited_by.or(half.shortest_limited_by);
            life.may_be(half.years_or_least().filter(|_| half.member == life.member), limited_by);
        }
    }
    let spread = |budget: &&Budget| match budget.metric {
        Metric::DriveWrites => drive_writes_in_halves(figures, &halves, budget),
        Metric::Ownership(_) => cost_of_year_in_halves(figures, &halves, budget),
        _ => lifetime_in_halves(figures, &halves, budget),
    };
    Ok(budgets.iter().map(spread).collect())
}

fn lifetime_in_halves(figures: &Figures, halves: &[Vec<Life>], budget: &Budget) -> Spread {
    let years = |life: &Life| life.years_or_least().unwrap_or(f64::INFINITY);
    let halves: Vec<Option<f64>> = halves.iter().map(|lives| lives.iter().map(years).reduce(f64::min)).collect();
    let finite = |years: Option<f64>| years.filter(|years| years.is_finite());
    let kept_in_second_half = halves[1].is_none_or(|years| budget.kept_by(Some(years)));
    let (short_end, long_end) = figures.life_range();
    Spread {
        budget: budget.text.clone(),
        predicted: finite(figures.life_years()).or(finite(short_end)),
        error: None,
        least: finite(short_end),
        most: finite(long_end),
        first_half: finite(halves[0]),
        second_half: finite(halves[1]),
        kept_in_second_half,
        kept_in_windows: None,
        short_end: finite(short_end),
        proven: kept_in_second_half && budget.kept_by(short_end),
        needs_volatile_cache: false,
        needs_data_together: false,
        lacks_times: false,
    }
}

fn drive_writes_in_halves(figures: &Figures, halves: &[Vec<Life>], budget: &Budget) -> Spread {
    let halves: Vec<Option<f64>> = halves.iter().map(|lives| drive_writes(lives)).collect();
    over_halves(budget, figures.predicted(budget), &halves, &[])
}

/// Returns the spread of the cost of a year: with the lives of each half, and with the shortest and
/// the longest lives that the trace leaves possible.
fn cost_of_year_in_halves(figures: &Figures, halves: &[Vec<Life>], budget: &Budget) -> Spread {
    let of_half = |lives: &Vec<Life>| {
        let years = |life: &Life| lives.iter().find(|half| half.member == life.member).and_then(|half| half.years);
        figures.usd_per_year_if(|life| years(life).or(life.years))
    };
    let halves: Vec<Option<f64>> = halves.iter().map(of_half).collect();
    // Costs under growing load are higher than those of the halves, which do not grow.
    let grows = figures.grown.is_some();
    let at_end = |end: fn((f64, f64)) -> f64| figures.usd_per_year_if(|life| life.range_years.map(end).or(life.years));
    let ends = [at_end(|range| range.0), at_end(|range| range.1)];
    let spread = over_halves(budget, figures.predicted(budget), if grows { &[None, None] } else { &halves }, &ends);
    Spread { first_half: halves[0], second_half: halves[1], ..spread }
}

/// Returns the spread of a figure: its value over the whole trace, over each of its `halves`, and
/// `other` values that it may have.
fn over_halves(budget: &Budget, predicted: Option<f64>, halves: &[Option<f64>], other: &[Option<f64>]) -> Spread {
    let all = || halves.iter().chain(other).copied().chain([predicted]).flatten();
    let (least, most) = (all().reduce(f64::min), all().reduce(f64::max));
    let short_end = if budget.is_upper() { most } else { least };
    Spread {
        budget: budget.text.clone(),
        predicted,
        error: None,
        least,
        most,
        first_half: halves[0],
        second_half: halves[1],
        kept_in_second_half: halves[1].is_none_or(|value| budget.kept_by(Some(value))),
        kept_in_windows: None,
        short_end,
        proven: budget.kept_by(short_end),
        needs_volatile_cache: false,
        needs_data_together: false,
        lacks_times: false,
    }
}

impl Confidence {
    /// Writes the notes from `figures`. Lifetimes that were computed after the proof change the
    /// notes.
    pub(crate) fn note(&mut self, evaluator: &Evaluator<'_>, figures: &Figures, budgets: &[Budget]) {
        let Self { requests, windows, .. } = *self;
        self.notes = notes(figures, budgets);
        if windows == 0 {
            self.notes.push(format!(
                "{} too few to estimate the error of the response times",
                counted_are(requests, "request")
            ));
        }
        if evaluator.load.survey.is_timeless() && budgets.iter().any(Budget::is_response_time) {
            self.notes.push("the trace has no times, so that no response time is proven".to_owned());
        }
        let broken = self.budgets.iter().filter(|spread| !spread.kept_in_second_half);
        let why = |spread: &Spread| spread.why_broken(budgets, evaluator.load, evaluator.common.block);
        let why: Vec<String> = broken.filter_map(why).collect();
        self.notes.extend(why);
    }

    /// Returns true if a budget cannot be proven by any option, because the trace has no times.
    pub fn lacks_times(&self) -> bool {
        self.budgets.iter().any(|spread| spread.lacks_times)
    }

    /// Returns the spread of a budget's figure.
    pub fn of(&self, budget: &Budget) -> Option<&Spread> {
        self.budgets.iter().find(|spread| spread.budget == budget.text)
    }

    /// Takes back the proof of each of `budgets` that the worst figure breaks: the proof was of
    /// wider limits.
    pub(crate) fn tighten(&mut self, budgets: &[Budget]) {
        for spread in &mut self.budgets {
            let budget = budgets.iter().find(|budget| budget.text == spread.budget);
            if budget.is_some_and(|budget| !budget.kept_by(spread.short_end)) {
                (spread.proven, spread.kept_in_windows, spread.kept_in_second_half) = (false, None, false);
            }
        }
        self.proven &= self.budgets.iter().all(|spread| spread.proven);
    }

    /// Returns the budgets that need a proof, and for which the trace is too short.
    pub(crate) fn lacks<'b>(&self, figures: &Figures, budgets: &'b [Budget]) -> Vec<&'b Budget> {
        let wears = figures.lives.as_ref().is_some_and(|lives| !lives.is_empty());
        let needs = |budget: &&Budget| budget.is_of_run() || (budget.needs_lives() && wears);
        budgets.iter().filter(needs).filter(|budget| self.of(budget).is_none()).collect()
    }

    /// Returns the verdict on all budgets: kept, kept under a condition, kept in some windows, or
    /// not proven.
    pub fn verdict(&self) -> String {
        let windows = |spread: &Spread| spread.kept_in_windows.filter(|(kept, of)| kept < of && !spread.proven);
        let open = self.budgets.iter().filter(|spread| !spread.proven);
        let fewest = open.clone().map(windows).collect::<Option<Vec<_>>>().and_then(|kept| kept.into_iter().min());
        let verdict = match (self.proven, fewest) {
            (true, _) => "kept".to_owned(),
            (false, Some((kept, of))) => format!("kept in {kept} of {of} windows"),
            (false, None) => return NOT_PROVEN.to_owned(),
        };
        let needs = |wanted| self.budgets.iter().any(|spread| spread.needs(wanted));
        under(verdict, condition_of(needs))
    }

    /// Returns the verdict. If budgets are not proven, each such budget follows with its reason.
    pub fn explained(&self) -> String {
        let verdict = self.verdict();
        if verdict != NOT_PROVEN {
            return verdict;
        }
        let why: Vec<String> = self.budgets.iter().filter_map(Spread::why_unproven).collect();
        let why = if why.is_empty() { "the trace is too short".to_owned() } else { why.join("; ") };
        format!("{verdict} ({why})")
    }
}

/// Returns a verdict under a condition.
fn under(verdict: String, condition: Option<String>) -> String {
    match condition {
        Some(condition) => format!("{verdict}, {condition}"),
        None => verdict,
    }
}

impl Spread {
    /// Returns the lowest and the highest of all figures of which [`Self::short_end`] is the worst:
    /// over the whole trace, over each window, and over the second half.
    pub fn range(&self) -> (Option<f64>, Option<f64>) {
        let all = || [self.least, self.most, self.predicted, self.short_end].into_iter().flatten();
        let windows = self.least.and(self.most);
        (windows.and_then(|_| all().reduce(f64::min)), windows.and_then(|_| all().reduce(f64::max)))
    }

    /// Returns the verdict on the budget: kept, kept under a condition, kept in some windows, or
    /// not proven.
    pub fn verdict(&self) -> String {
        let verdict = match self.kept_in_windows {
            _ if self.proven => "kept".to_owned(),
            Some((kept, of)) if kept < of => format!("kept in {kept} of {of} windows"),
            _ => return NOT_PROVEN.to_owned(),
        };
        under(verdict, condition_of(|wanted| self.needs(wanted)))
    }

    /// Returns true if the budget breaks under `variation`.
    fn needs(&self, variation: Variation) -> bool {
        match variation {
            Variation::Recorded => false,
            Variation::ForcedWrites => self.needs_volatile_cache,
            Variation::Spread => self.needs_data_together,
        }
    }

    /// Notes that the budget breaks under `variation`, or not.
    pub(crate) fn note(&mut self, variation: Variation, breaks: bool) {
        match variation {
            Variation::Recorded => {}
            Variation::ForcedWrites => self.needs_volatile_cache = breaks,
            Variation::Spread => self.needs_data_together = breaks,
        }
    }

    /// Returns the budget with the reason for which it is not proven; `None` if it is proven.
    fn why_unproven(&self) -> Option<String> {
        let budget = Some(&self.budget).filter(|_| !self.proven)?;
        Some(match self.kept_in_windows {
            Some((kept, of)) if kept < of => format!("{budget} in {kept} of {of} windows"),
            _ if !self.kept_in_second_half => format!("the second half breaks {budget}"),
            _ if self.lacks_times => format!("{budget}: the trace has no times"),
            _ if self.short_end.is_some() => format!("the worst end of the range breaks {budget}"),
            _ => format!("{budget}: the trace is too short"),
        })
    }

    /// Returns a sentence about the factor by which the second half breaks the budget, and the
    /// reason.
    fn why_broken(&self, budgets: &[Budget], load: &Load, block: BlockSize) -> Option<String> {
        let budget = budgets.iter().find(|budget| budget.text == self.budget)?;
        let times = short((budget.excess(self.second_half) * 100.0).round() / 100.0);
        let over = if budget.is_upper() { "over" } else { "below" };
        Some(format!(
            "in the second half {} is {}, {times} times {over} the limit of {budget}; {}",
            budget.name(),
            budget.show(self.second_half),
            halves::difference(&load.requests, load.half() as usize, block)
        ))
    }
}

/// Runs `candidate` over requests up to the end of `span`, measured from the first request of
/// `span` on. Returns the figures; `None` if the part has none.
pub(crate) fn run_over(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    (from, to): (u64, u64),
) -> Result<Option<Box<Figures>>, SimulationError> {
    let load = Load::part(evaluator.load, from, to);
    match (Evaluator { load: &load, ..*evaluator }).run(candidate, Limits::default()) {
        Ok(Outcome::Done(figures)) => Ok(Some(figures)),
        Ok(Outcome::Stopped { .. } | Outcome::Impossible(_)) | Err(SimulationError::NothingMeasured(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn error_of_mean(windows: &[f64], all: u64, student: f64) -> Option<f64> {
    if windows.len() < all as usize {
        return None;
    }
    let count = windows.len() as f64;
    let mean = windows.iter().sum::<f64>() / count;
    let variance = windows.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some(student * (variance / count).sqrt())
}

fn notes(figures: &Figures, budgets: &[Budget]) -> Vec<String> {
    let mut notes = Vec::new();
    for life in figures.lives.iter().flatten() {
        let Some((least, most)) = life.range_years else { continue };
        let years = |value: f64| short_years(value);
        if life.trace_too_short {
            let (least, most) = (years(least), years(most));
            let range = if least == most { most } else { format!("{least} to {most}") };
            notes.push(format!(
                "the trace writes less than the capacity of the {}, so its lifetime is uncertain: {range} years",
                life.member
            ));
        }
        if !life.converged {
            notes.push(format!("the wear of the {} did not converge within the rounds played", life.member));
        }
        let broken = budgets.iter().find(|budget| budget.metric == Metric::Lifetime && !budget.kept_by(Some(least)));
        if let Some(budget) = broken {
            // A rounded value may look as if it kept the budget.
            let (shown, limit) = (short(least), short(budget.limit));
            let shown = if shown == limit { format!("just under {shown}") } else { shown };
            notes.push(format!(
                "the {} may last only {shown} years, the lower bound of its lifetime, which would break {budget}",
                life.member
            ));
        }
    }
    notes
}

/// Computes the effects of a fifth more load, a fifth less load, half the SSD, and the variations
/// of the trace on `candidate`: on the budgeted figures of a run, or on the figure that `latency`
/// names if no budget is given.
///
/// # Errors
/// Returns an error if the totals of a run contradict each other.
pub fn sensitivity(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    budgets: &[Budget],
    latency: &Budget,
) -> Result<Vec<Sensitivity>, SimulationError> {
    let shown = shown(budgets, latency);
    let mut changes: Vec<(String, Replay, Candidate)> = Vec::new();
    if let Replay::Timed { speedup } = evaluator.replay {
        for (name, factor) in [("a fifth more load", 1.2), ("a fifth less load", 0.8)] {
            changes.push((name.to_owned(), Replay::Timed { speedup: speedup * factor }, candidate.clone()));
        }
        changes.extend(with_think_times(evaluator, speedup, candidate));
    }
    if let Some(half) = candidate.with_half_the_ssd() {
        changes.push(("half the SSD".to_owned(), evaluator.replay, half));
    }
    let rows = changes.into_par_iter().with_max_len(1).map(|(change, replay, candidate)| {
        changed(&Evaluator { replay, ..*evaluator }, change, &candidate, budgets, &shown)
    });
    let mut rows = rows.collect::<Result<Vec<Sensitivity>, SimulationError>>()?;
    for variation in Variation::CHANGES {
        let choices = candidate.choices(evaluator.common);
        if variation.matters(candidate, evaluator.load, &choices) {
            let change = variation.change().to_owned();
            rows.push(changed(&Evaluator { variation, ..*evaluator }, change, candidate, budgets, &shown)?);
        }
    }
    Ok(rows)
}

/// Returns the replay with think times as a change, if the trace was recorded on a faster drive:
/// then requests come faster than the option's drives answer, and budgets of response times break.
fn with_think_times(
    evaluator: &Evaluator<'_>,
    speedup: f64,
    candidate: &Candidate,
) -> Option<(String, Replay, Candidate)> {
    let has_hdd = candidate.drive(Role::Hdd).is_some();
    let is_faster = has_hdd && answered_by_faster_device(&evaluator.load.survey);
    is_faster.then(|| {
        let name = "requests that wait for the answers before them (--replay think)";
        (name.to_owned(), Replay::Think { speedup }, candidate.clone())
    })
}

/// Returns the effect of a replay with think times on an option that breaks `budgets`; nothing if
/// the trace was not recorded on a faster drive.
///
/// # Errors
/// Returns an error if the totals of a run contradict each other.
pub(crate) fn think_times_of(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    budgets: &[Budget],
) -> Result<Option<Sensitivity>, SimulationError> {
    let Replay::Timed { speedup } = evaluator.replay else { return Ok(None) };
    let Some((change, replay, candidate)) = with_think_times(evaluator, speedup, candidate) else { return Ok(None) };
    let shown: Vec<&Budget> = budgets.iter().filter(|budget| budget.is_of_run()).collect();
    let change = format!("{}, {change}", candidate.scheme.name);
    changed(&Evaluator { replay, ..*evaluator }, change, &candidate, budgets, &shown).map(Some)
}

/// Returns the effect of think times on cheaper options, as a change.
pub(crate) fn of_cheaper_options(found: &WithThinkTimes, budgets: &[Budget], latency: &Budget) -> Sensitivity {
    let with = "with think times (--replay think)";
    match found {
        WithThinkTimes::Keeps(tried) => {
            let figures = tried.figures();
            let of = |budget: &Budget| (budget.name(), figures.and_then(|figures| figures.of(budget)));
            Sensitivity {
                change: format!("{with}, {}", answer::name(&tried.candidate)),
                figures: shown(budgets, latency).into_iter().map(of).collect(),
                lifetime_years: figures.and_then(Figures::life_years).filter(|years| years.is_finite()),
                lifetime_least_years: figures
                    .and_then(|figures| figures.life_range().0)
                    .filter(|years| years.is_finite()),
                keeps_budgets: true,
                reasons: tried.why_unproven().into_iter().collect(),
            }
        }
        WithThinkTimes::NoneOf(options) => Sensitivity {
            change: match options {
                1 => format!("{with}, the cheapest option with a hard disk that costs less"),
                _ => format!("{with}, the {options} cheapest options with a hard disk that cost less"),
            },
            figures: Vec::new(),
            lifetime_years: None,
            lifetime_least_years: None,
            keeps_budgets: false,
            reasons: match options {
                1 => vec!["it does not keep the budgets".to_owned()],
                _ => vec!["none of them keeps the budgets".to_owned()],
            },
        },
    }
}

/// Returns the budgets of figures of a run, or `latency` without such a budget.
fn shown<'b>(budgets: &'b [Budget], latency: &'b Budget) -> Vec<&'b Budget> {
    let shown: Vec<&Budget> = budgets.iter().filter(|budget| budget.is_of_run()).collect();
    if shown.is_empty() { vec![latency] } else { shown }
}

fn changed(
    evaluator: &Evaluator<'_>,
    change: String,
    candidate: &Candidate,
    budgets: &[Budget],
    shown: &[&Budget],
) -> Result<Sensitivity, SimulationError> {
    let nothing = |reason: String, change: String| Sensitivity {
        change,
        figures: Vec::new(),
        lifetime_years: None,
        lifetime_least_years: None,
        keeps_budgets: false,
        reasons: vec![reason],
    };
    let mut figures = match evaluator.run(candidate, Limits::default())? {
        Outcome::Done(figures) => figures,
        Outcome::Stopped { broken, .. } => return Ok(nothing(broken, change)),
        Outcome::Impossible(why) => return Ok(nothing(why, change)),
    };
    figures.set_lives(evaluator.lives(candidate)?);
    let broken: Vec<String> = budgets.iter().filter_map(|budget| figures.breaks(budget)).collect();
    let keeps_budgets = broken.is_empty();
    let reasons = match keeps_budgets {
        true => refuted_by_life(&figures, budgets).into_iter().collect(),
        false => broken,
    };
    Ok(Sensitivity {
        change,
        figures: shown.iter().map(|budget| (budget.name(), figures.of(budget))).collect(),
        lifetime_years: figures.life_years().filter(|years| years.is_finite()),
        lifetime_least_years: figures.life_range().0.filter(|years| years.is_finite()),
        keeps_budgets,
        reasons,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_models::profile::Profile;

    /// The worst end of a lifetime range that breaks the budget is reported, and is not rounded up
    /// to the budget.
    #[test]
    fn short_end_of_a_lifetime_range_is_noted_unrounded() {
        let profile = Profile::load("intel-x25-m-80gb").unwrap();
        let mut life = Life::at_rates("ssd", &profile, profile.capacity.bytes(), 1.0, 1.0);
        life.range_years = Some((1.99999, 3.0));
        let figures = Figures { lives: Some(vec![life]), cost_usd: 1.0, ..Figures::default() };
        let notes = notes(&figures, &[Budget::lifetime("2y").unwrap()]);
        let expected =
            "the ssd may last only just under 2 years, the lower bound of its lifetime, which would break lifetime>=2y";
        assert_eq!(notes, [expected]);
    }

    fn spread(kept_in_windows: Option<(u64, u64)>, proven: bool) -> Spread {
        let (budget, none) = ("p99<5ms".to_owned(), None);
        let kept_in_second_half = true;
        Spread {
            budget,
            predicted: none,
            error: none,
            least: none,
            most: none,
            first_half: none,
            second_half: none,
            kept_in_second_half,
            kept_in_windows,
            short_end: none,
            proven,
            needs_volatile_cache: false,
            needs_data_together: false,
            lacks_times: false,
        }
    }

    /// Regression: a plan called an option kept that broke a budget. The option had been proved
    /// with all budgets widened.
    #[test]
    fn proof_of_a_wider_limit_is_taken_back() {
        let of = |worst_ms| Spread { short_end: Some(worst_ms), ..spread(Some((10, 10)), true) };
        let proved = |spread: Spread| Confidence { budgets: vec![spread], proven: true, ..Confidence::default() };
        let budgets = [Budget::parse("p99<5ms").unwrap()];
        for (worst_ms, verdict) in [(4.0, "kept"), (6.0, NOT_PROVEN)] {
            let mut confidence = proved(of(worst_ms));
            confidence.tighten(&budgets);
            assert_eq!((confidence.verdict().as_str(), confidence.proven), (verdict, verdict == "kept"));
        }
    }

    /// Regression: a plan printed `lifetime>=5y: kept` beside `may last 0.93 years only`.
    #[test]
    fn verdict_is_the_weakest_of_all_budgets() {
        let of = |budgets: Vec<Spread>| {
            let proven = budgets.iter().all(|spread| spread.proven);
            Confidence { budgets, proven, ..Confidence::default() }.verdict()
        };
        let (kept, seven) = (spread(Some((10, 10)), true), spread(Some((7, 10)), false));
        let (nine, life) = (spread(Some((9, 10)), false), spread(None, false));
        assert_eq!(of(vec![kept.clone()]), "kept");
        assert_eq!(of(vec![kept, nine.clone(), seven.clone()]), "kept in 7 of 10 windows");
        assert_eq!(of(vec![seven.clone(), life.clone()]), "not proven");
        assert_eq!(of(vec![spread(Some((10, 10)), false)]), "not proven");
        assert_eq!((seven.verdict(), life.verdict()), ("kept in 7 of 10 windows".to_owned(), "not proven".to_owned()));
    }

    /// Regression: a plan with several budgets printed `not proven`, and not of which budget.
    #[test]
    fn verdict_names_each_unproven_budget_and_the_reason() {
        let named = |budget: &str, spread: Spread| Spread { budget: budget.to_owned(), ..spread };
        let latency = named("p99<5ms", spread(Some((10, 10)), true));
        let life = named("lifetime>=5y", Spread { short_end: Some(0.9), ..spread(None, false) });
        let of = |budgets: &[&Spread]| {
            let budgets: Vec<Spread> = budgets.iter().copied().cloned().collect();
            Confidence { budgets, ..Confidence::default() }.explained()
        };
        assert_eq!(of(&[&latency, &life]), "not proven (the worst end of the range breaks lifetime>=5y)");
        let seven = named("mean<1ms", spread(Some((7, 10)), false));
        let both = "not proven (mean<1ms in 7 of 10 windows; the worst end of the range breaks lifetime>=5y)";
        assert_eq!((of(&[&seven, &life]).as_str(), of(&[&seven]).as_str()), (both, "kept in 7 of 10 windows"));
        let half = Spread { kept_in_second_half: false, ..life };
        assert_eq!(of(&[&half]), "not proven (the second half breaks lifetime>=5y)");
        assert_eq!(of(&[&named("p99<5ms", spread(None, false))]), "not proven (p99<5ms: the trace is too short)");
        let timeless = Spread { short_end: Some(0.084), lacks_times: true, ..spread(Some((10, 10)), false) };
        assert_eq!(of(&[&named("mean<1ms", timeless)]), "not proven (mean<1ms: the trace has no times)");
        assert_eq!(of(&[]), "not proven (the trace is too short)");
        assert_eq!(Confidence { proven: true, ..Confidence::default() }.explained(), "kept");
    }

    /// A plan printed `p99 822.1 ms (415 to 636)`: the range of the windows excludes the figure of
    /// the whole trace.
    #[test]
    fn range_of_a_figure_contains_the_figure_of_the_whole_trace() {
        let windows = Spread { least: Some(415.0), most: Some(636.0), ..spread(Some((4, 4)), true) };
        let whole = Spread { predicted: Some(822.1), short_end: Some(822.1), ..windows.clone() };
        assert_eq!((windows.range(), whole.range()), ((Some(415.0), Some(636.0)), (Some(415.0), Some(822.1))));
        assert_eq!(spread(None, false).range(), (None, None));
    }

    /// A lifetime without windows still needs a proof, and so does a response time from a trace
    /// that is too short for windows.
    #[test]
    fn budgets_of_a_short_trace_lack_a_proof() {
        let profile = Profile::load("intel-x25-m-80gb").unwrap();
        let lives = Some(vec![Life::at_rates("ssd", &profile, profile.capacity.bytes(), 1.0, 1.0)]);
        let figures = Figures { lives, ..Figures::default() };
        let budgets = [Budget::parse("p99<5ms").unwrap(), Budget::lifetime("2y").unwrap(), Budget::cost(5.0)];
        let confidence = Confidence { budgets: vec![spread(None, true)], ..Confidence::default() };
        let lacking = |figures: &Figures| {
            confidence.lacks(figures, &budgets).into_iter().map(|budget| budget.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(lacking(&figures), ["lifetime>=2y"]);
        assert!(lacking(&Figures::default()).is_empty(), "no flash wears out");
        assert_eq!(Confidence::default().lacks(&figures, &budgets).len(), 2);
    }
}
