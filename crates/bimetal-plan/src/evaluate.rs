//! One option run over the workload, exactly as `simulate` runs the same drives, sizes and
//! settings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use bimetal_core::block_map::GRANTED_BYTES_PER_BLOCK;
use bimetal_core::layout::{LayoutError, Role};
use bimetal_core::scheme::{Holds, SchemeError};
use bimetal_core::units::Bytes;
use bimetal_core::volume::VolumeError;
use bimetal_measure::response_time::ResponseTimes;
use bimetal_measure::text::{decimal, short};
use bimetal_sim::block_layer::BlockLayerSettings;
use bimetal_sim::figures::{note_lives, run_of};
use bimetal_sim::findings::{NoChoice, address_end, depends_on_place};
use bimetal_sim::lifetime::{self, KnownWear, Life, Repeated, Unknown};
use bimetal_sim::limits::{Limits, Which};
use bimetal_sim::ownership::{Owned, Terms};
use bimetal_sim::results::{Run, RunSpeed, Series};
use bimetal_sim::setup::{Choices, Setup, SetupError};
use bimetal_sim::simulator::{Play, Replay, SimulationError, simulate_within};
use bimetal_sim::survey::Survey;
use bimetal_sim::workload::{Workload, WorkloadError};
use bimetal_trace::Request;
use serde_json::Value;

use crate::advice::Confidence;
use crate::budget::{Budget, CARBON, Metric, at};
use crate::catalogue::Kind;
use crate::grid::Candidate;
use crate::parts::{Measured, Parts};
use crate::proof::Refuted;
use crate::variation::Variation;

/// Beginning of the reason for options whose block map is too large for a plan.
pub(crate) const MAP_TOO_LARGE: &str = "a map of every block of its SSD takes";

/// Largest amount of memory for the block map of an option, in bytes.
const MAP_BYTES_MAX: f64 = (160 << 20) as f64;

/// Bytes per SSD block above which a scheme has large tables in addition to its block map and
/// recency list. Large tables fill with every address that the workload touches. A scheme whose
/// address ranges can change their homes has a table of all ranges. Options with large tables run
/// one at a time.
const SLIM_BYTES_PER_BLOCK: f64 = 36.0;
static LARGE: Mutex<()> = Mutex::new(());

fn has_large_tables(candidate: &Candidate) -> bool {
    candidate.scheme.memory_bytes_per_block > SLIM_BYTES_PER_BLOCK
        || candidate.scheme.members.iter().any(|(_, holds)| *holds == Holds::Ranges)
}

/// A workload in memory, with its survey.
pub struct Load {
    /// The requests. If untouched addresses are left out, the requests have the compacted
    /// addresses.
    pub requests: Vec<Request>,
    /// Survey of the requests.
    pub survey: Survey,
    /// Number of requests played before measurement begins.
    pub warmup_requests: u64,
    /// Number of measured reads and of measured writes.
    measured: Measured,
    /// Parts of the measured requests; `None` if these are too few.
    parts: OnceLock<Option<Parts>>,
}

impl Load {
    /// Reads all of `workload`. Calls `progress` now and then with the number of requests read.
    ///
    /// # Errors
    /// Returns the errors of the workload's reader.
    pub fn read(
        workload: &dyn Workload,
        common: &Choices,
        warmup: f64,
        progress: &dyn Fn(u64),
    ) -> Result<Self, WorkloadError> {
        let survey = Survey::of(workload, common.block, progress)?;
        let mut requests = workload.open()?.collect::<Result<Vec<Request>, _>>()?;
        if common.compact {
            requests.iter_mut().for_each(|request| *request = survey.compacted.place(request, common.block));
        }
        Ok(Self::new(requests, survey, warmup))
    }

    /// Creates a load of `requests`, which `survey` describes.
    pub fn new(requests: Vec<Request>, survey: Survey, warmup: f64) -> Self {
        let warmup_requests = (survey.requests as f64 * warmup) as u64;
        Self::measured_from(requests, survey, warmup_requests)
    }

    /// Returns the number of the first request in the second half of the measured requests.
    pub fn half(&self) -> u64 {
        self.warmup_requests + (self.requests.len() as u64 - self.warmup_requests) / 2
    }

    /// Returns requests `from` to `to` (exclusive) as a workload without warm-up.
    pub fn alone(whole: &Self, from: u64, to: u64) -> Self {
        Self::measured_from(whole.requests[from as usize..to as usize].to_vec(), whole.survey.clone(), 0)
    }

    /// Returns the part of `whole` before request `to`, measured from request `from` on.
    pub fn part(whole: &Self, from: u64, to: u64) -> Self {
        Self::measured_from(whole.requests[..to as usize].to_vec(), whole.survey.clone(), from)
    }

    fn measured_from(requests: Vec<Request>, survey: Survey, warmup_requests: u64) -> Self {
        let measured = Measured::of(&requests[warmup_requests.min(requests.len() as u64) as usize..]);
        Self { requests, survey, warmup_requests, measured, parts: OnceLock::new() }
    }

    /// Returns the number of measured requests of a kind.
    pub fn measured(&self, which: Which) -> u64 {
        self.measured.count(which)
    }

    /// Returns the parts of the measured requests; `None` if these are too few.
    pub(crate) fn parts(&self) -> Option<&Parts> {
        let cut = || Parts::of(&self.requests, self.warmup_requests, self.half());
        self.parts.get_or_init(cut).as_ref()
    }
}

/// Result of running an option.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The option ran to its end.
    Done(Box<Figures>),
    /// The option was certain to break a limit before its end.
    Stopped {
        /// Number of requests finished before the run was stopped.
        finished: u64,
        /// Text of the broken limit.
        broken: String,
    },
    /// The option cannot be built, for this reason.
    Impossible(String),
}

/// Figures of an option.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The run, without its series and with the prices of the catalogue.
    pub(crate) run: Run,
    /// The same run as JSON, for budgets that name a figure by its path.
    pub(crate) document: Value,
    /// Response times of each part of the trace; none if the trace is too short for parts.
    pub(crate) parts: Vec<ResponseTimes>,
    /// Number of requests of the trace.
    pub(crate) requests: u64,
    /// Lifetime of each flash drive, if it was computed.
    pub lives: Option<Vec<Life>>,
    /// Range of the lifetime before it was widened by the halves of the trace. Only the ranges of
    /// examined options are widened, so this range compares with those of other options.
    pub(crate) range_before_halves: Option<(f64, f64)>,
    /// Price of the option in US dollars.
    pub cost_usd: f64,
    /// Energy in joules over the run; `None` if a profile has no power figures.
    pub energy_j: Option<f64>,
    /// Figures under the grown load, if the load grows.
    pub grown: Option<Box<Figures>>,
    /// Length of the measured part of the run in seconds; `None` if the run takes no time.
    pub span_s: Option<f64>,
    /// Facts about the drives that the cost of ownership needs, and its terms.
    pub owned: Option<(Owned, Terms)>,
    /// Set if the scheme wrote nothing home, because the trace ends before a timer of the scheme.
    pub puts_off_all_work: bool,
    /// Confidence in the figures, if it was computed.
    pub confidence: Option<Box<Confidence>>,
    /// Reason for which the option is not proven, if a proof failed.
    pub refuted: Option<Refuted>,
    /// Budgets that break under each variation of the trace that may change the figures; `None` if
    /// that was not found out.
    pub broken_when: Option<BTreeMap<Variation, BTreeSet<String>>>,
    /// Worst ends of the ranges of budgeted figures, by the names of their budgets, if the plan
    /// uses the worst ends.
    pub short_ends: BTreeMap<String, f64>,
}

impl Figures {
    fn new(mut run: Run, candidate: &Candidate, span_s: f64) -> Self {
        // A search keeps the figures of many options and does not use their curves over time.
        run.series = Series::default();
        price(&mut run, candidate);
        let energy_j = run.members.iter().map(|member| member.figures.energy_j()).sum();
        let span_s = Some(span_s).filter(|span| *span > 0.0);
        Self { energy_j, span_s, cost_usd: candidate.cost_usd, ..Self::of_run(run) }
    }

    /// Returns the figures of `run` alone.
    pub(crate) fn of_run(run: Run) -> Self {
        let mut figures = Self::default();
        figures.set_run(run);
        figures
    }

    /// Returns the run, without its series and with the prices of the catalogue.
    pub fn run(&self) -> &Run {
        &self.run
    }

    fn set_run(&mut self, run: Run) {
        self.document = serde_json::to_value(&run).unwrap_or_default();
        self.run = run;
    }

    /// Returns the JSON value at a dotted path. Prices come from the catalogue.
    pub(crate) fn value(&self, path: &str) -> Option<&Value> {
        at(&self.document, path)
    }

    /// Returns the figure at a dotted path. Prices come from the catalogue.
    pub fn at(&self, path: &str) -> Option<f64> {
        self.value(path).and_then(Value::as_f64)
    }

    /// Returns the years until the first flash drive is worn out: infinity if none wears out,
    /// `None` if lifetimes were not computed, or cannot be computed without times.
    pub fn life_years(&self) -> Option<f64> {
        let lives = self.lives.as_ref()?;
        if lives.iter().any(|life| life.unknown == Some(Unknown::NeedsTimes)) {
            return None;
        }
        Some(lives.iter().map(Life::years_or_more).fold(f64::INFINITY, f64::min))
    }

    /// Takes over the lifetimes in steady state, as `simulate` has them in its figures.
    pub fn set_lives(&mut self, lives: Vec<Life>) {
        let mut run = std::mem::take(&mut self.run);
        note_lives(&mut run, &lives);
        if let Some((owned, terms)) = &self.owned {
            owned.note(&mut run, *terms);
        }
        self.set_run(run);
        self.lives = Some(lives);
    }

    /// Returns the cost of a year with lives of `years` in place of the lives in steady state;
    /// `None` if a cost is not known.
    pub(crate) fn usd_per_year_if(&self, years: impl Fn(&Life) -> Option<f64>) -> Option<f64> {
        let (owned, terms) = self.owned.as_ref()?;
        let mut run = self.run.clone();
        let lives = self.lives.iter().flatten().map(|life| Life {
            warranted_years: years(life),
            cycles_years: None,
            ..life.clone()
        });
        note_lives(&mut run, &lives.collect::<Vec<_>>());
        owned.note(&mut run, *terms);
        run.cost.usd_per_year
    }

    /// Returns the cost of a year with the shortest lives that the trace leaves possible; `None` if
    /// lives were not computed, or a cost is not known.
    pub(crate) fn usd_per_year_most(&self) -> Option<f64> {
        self.lives.as_ref()?;
        self.run.cost.usd_per_year_most
    }

    /// Returns the shortest and the longest time until the first flash drive is worn out: infinity
    /// if none wears out, `None` if lifetimes were not computed.
    pub fn life_range(&self) -> (Option<f64>, Option<f64>) {
        let end = |end: &dyn Fn(&Life) -> f64| {
            let lives = self.life_years().and(self.lives.as_ref())?;
            Some(lives.iter().map(end).fold(f64::INFINITY, f64::min))
        };
        let range = |life: &Life| life.range_years.unwrap_or((life.years_or_more(), life.years_or_more()));
        (end(&|life| range(life).0), end(&|life| range(life).1))
    }

    /// Returns the lifetime's range as the whole trace alone gives it, for comparison with options
    /// that were not examined; `None` if lifetimes were not computed.
    pub(crate) fn life_range_of_whole(&self) -> Option<(f64, f64)> {
        let (least, most) = self.life_range();
        self.range_before_halves.or(least.zip(most))
    }

    /// Keeps the range of the lifetime, which the halves of the trace are about to widen.
    pub(crate) fn note_range_before_halves(&mut self) {
        self.range_before_halves = self.life_range_of_whole();
    }

    /// Makes [`Self::of`] return the worst ends of the ranges of the figures that `budgets` limit.
    pub(crate) fn go_by_short_ends(&mut self, confidence: &Confidence, budgets: &[Budget]) {
        let short_end = |budget: &Budget| Some((budget.name(), confidence.of(budget)?.short_end?));
        self.short_ends = budgets.iter().filter_map(short_end).collect();
    }

    /// Returns the figure that `budget` limits, or the worst end of its range if the plan uses the
    /// worst ends.
    pub fn of(&self, budget: &Budget) -> Option<f64> {
        self.short_ends.get(&budget.name()).copied().or_else(|| self.predicted(budget))
    }

    /// Returns the response time of a part of the trace that `budget` limits; `None` if `budget`
    /// limits another figure, or the part has no request of the kind.
    pub(crate) fn response_time_in(&self, part: usize, budget: &Budget) -> Option<f64> {
        let path = budget.response_time_path()?;
        at(&serde_json::to_value(self.parts.get(part)?).ok()?, path)?.as_f64()
    }

    /// Returns the figure over the whole trace that `budget` limits.
    pub fn predicted(&self, budget: &Budget) -> Option<f64> {
        match &budget.metric {
            // The carbon of making drives is known as a range only.
            Metric::Ownership(path) if path == CARBON => self.value(path)?.as_array()?.last()?.as_f64(),
            Metric::Path(path) | Metric::Ownership(path) => self.at(path),
            Metric::Lifetime => self.life_years(),
            Metric::DriveWrites => drive_writes(self.lives.as_deref()?),
            Metric::Cost => Some(self.cost_usd),
            Metric::Energy => self.energy_j,
            Metric::Power => Some(self.energy_j? / self.span_s?),
        }
    }

    /// Returns the reason for which the figures break `budget`, or `None` if the figures keep the
    /// budget.
    pub fn breaks(&self, budget: &Budget) -> Option<String> {
        let value = self.of(budget);
        match (&budget.metric, value) {
            (Metric::Energy | Metric::Power, None) => {
                return Some(format!("a drive's profile has no power figures, so {budget} cannot be checked"));
            }
            (Metric::Ownership(path), None) => {
                return Some(format!("{path} is not known of these drives, so {budget} cannot be checked"));
            }
            _ => {}
        }
        let broken = !budget.kept_by(value);
        broken.then(|| budget.broken_by(value))
    }
}

/// Returns the drive writes a day of the flash drive with the most drive writes a day; `None`
/// without such a drive.
pub(crate) fn drive_writes(lives: &[Life]) -> Option<f64> {
    lives.iter().filter_map(|life| life.dwpd).reduce(f64::max)
}

/// Runs options over a workload.
pub struct Evaluator<'a> {
    /// The workload.
    pub load: &'a Load,
    /// Choices that all options share.
    pub common: &'a Choices,
    /// Times at which requests are issued.
    pub replay: Replay,
    /// Wear figures of drives that are already known.
    pub known_wear: &'a KnownWear,
    /// Change of the requests in [runs](Self::run). Lifetimes are those of the recorded requests.
    pub variation: Variation,
}

impl Evaluator<'_> {
    /// Returns the limits that `budgets` set on response times.
    pub fn limits(&self, budgets: &[Budget]) -> Limits {
        let mut limits = Limits::default();
        for budget in budgets {
            if let Some((which, figure, limit)) = budget.response_limit() {
                limits.add(which, figure, limit, self.load.measured(which), budget.text.clone());
            }
        }
        limits
    }

    /// Returns the limits that `budgets` set on response times over the whole trace, and the limits
    /// of `of_parts` in each part that must keep the budgets.
    pub(crate) fn limits_of(&self, budgets: &[Budget], of_parts: &[Budget]) -> Limits {
        let mut limits = self.limits(budgets);
        let Some(parts) = self.load.parts() else { return limits };
        for budget in of_parts {
            let Some((which, figure, limit)) = budget.response_limit() else { continue };
            for part in parts.that_must_keep() {
                let (requests, name) = (parts.measured[part].count(which), parts.name(part));
                let name = format!("{} in {name}", budget.text);
                limits.add_in(parts.numbers(part), which, figure, limit, requests, name);
            }
        }
        limits
    }

    /// Computes the lifetimes of the flash drives of `candidate`; no lifetimes if the option cannot
    /// be built.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub fn lives(&self, candidate: &Candidate) -> Result<Vec<Life>, SimulationError> {
        let choices = candidate.choices(self.common);
        let make = || Setup::new(candidate.scheme, &choices, &self.load.survey).ok();
        let Some(setup) = make() else { return Ok(Vec::new()) };
        let load = Repeated::of(&self.load.requests, self.replay, self.known_wear);
        lifetime::lives(setup, &make, &choices, load)
    }

    /// Returns the reason for which `figures` of a whole run say nothing about a longer time, if
    /// there is one.
    pub(crate) fn why_too_short(&self, figures: &Figures) -> Option<String> {
        figures.puts_off_all_work.then(|| {
            let seconds = short(self.load.survey.duration.as_seconds_f64());
            format!(
                "the trace of {seconds} s ends before its timer, and it wrote nothing home: a longer trace is needed"
            )
        })
    }

    /// Returns the reason for which no option of the candidate's scheme can be built, on whatever
    /// drives; `None` if there is no such reason.
    pub(crate) fn why_impossible_on_any_drives(&self, candidate: &Candidate) -> Option<String> {
        hangs_on_place(candidate, &candidate.choices(self.common), &self.load.survey)
    }

    /// Returns the reason for which `candidate` cannot be built; `None` if it can be built.
    pub(crate) fn why_impossible(&self, candidate: &Candidate) -> Option<String> {
        let _alone = has_large_tables(candidate).then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner));
        self.built(candidate, &candidate.choices(self.common)).err()
    }

    /// Builds the drives and the volume of `candidate`, and its block layer.
    ///
    /// # Errors
    /// Returns the reason for which the option cannot be built.
    fn built(&self, candidate: &Candidate, choices: &Choices) -> Result<(Setup, Option<BlockLayerSettings>), String> {
        if let Some(why) = too_large_a_map(candidate, choices) {
            return Err(why);
        }
        if let Some(why) = hangs_on_place(candidate, choices, &self.load.survey) {
            // Drives that are too small have this reason, and no other.
            if !is_clearly_large_enough(candidate, choices) {
                Setup::check_sizes(candidate.scheme, choices, &self.load.survey).map_err(why_not_built)?;
            }
            return Err(why);
        }
        let setup = Setup::new(candidate.scheme, choices, &self.load.survey).map_err(why_not_built)?;
        if let Some(reason) = setup.volume().why_only_simulated() {
            return Err(format!("no live volume can be made: {reason}"));
        }
        let block_layer = BlockLayerSettings::chosen(choices, &setup).map_err(|error| error.to_string())?;
        Ok((setup, block_layer))
    }

    /// Runs `candidate` until its end or until it breaks one of `limits`.
    ///
    /// # Errors
    /// Returns an error if the simulation's totals contradict each other, or no request is
    /// measured. Such an error is not caused by the option.
    pub fn run(&self, candidate: &Candidate, limits: Limits) -> Result<Outcome, SimulationError> {
        self.run_with(candidate, &candidate.choices(self.common), limits)
    }

    /// Runs `candidate` as [`run`](Self::run) does, with `choices` instead of its own.
    ///
    /// # Errors
    /// Returns the same errors as [`run`](Self::run).
    pub fn run_with(
        &self,
        candidate: &Candidate,
        choices: &Choices,
        limits: Limits,
    ) -> Result<Outcome, SimulationError> {
        let _alone = has_large_tables(candidate).then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut setup, block_layer) = match self.built(candidate, choices) {
            Ok(built) => built,
            Err(why) => return Ok(Outcome::Impossible(why)),
        };
        let play = Play { replay: self.replay, warmup_requests: self.load.warmup_requests, block_layer };
        let parts = self.load.parts().map(Parts::recorders).unwrap_or_default();
        let mut requests = self.load.requests.open()?;
        if self.variation != Variation::Recorded {
            let varied = self.variation.of(&self.load.survey, choices);
            requests = Box::new(requests.map(move |request| request.map(&varied)));
        }
        match simulate_within(&mut setup, requests, play, (limits, parts), &|_| {}) {
            Ok(mut measured) => {
                let span = (measured.end - measured.start).as_seconds_f64();
                let mut run = run_of(&setup, &measured, self.replay, RunSpeed::default());
                let (owned, terms) = (Owned::of(&setup, &measured), choices.ownership);
                owned.note(&mut run, terms);
                // The cost of a year needs the lives in steady state.
                run.cost.usd_per_year = None;
                let puts_off_all_work = run.no_choice == Some(NoChoice::NothingWrittenHome);
                let mut figures = Figures::new(run, candidate, span);
                // Several drives may be used as one, and the run has the energy of one.
                if figures.span_s.is_some() && figures.energy_j.is_some() {
                    figures.energy_j = owned.watts(&figures.run.members).map(|watts| watts * span);
                }
                figures.owned = Some((owned, terms));
                figures.parts = std::mem::take(&mut measured.parts);
                figures.requests = self.load.requests.len() as u64;
                Ok(Outcome::Done(Box::new(Figures { puts_off_all_work, ..figures })))
            }
            Err(SimulationError::LimitBroken { finished, broken }) => Ok(Outcome::Stopped { finished, broken }),
            Err(error @ SimulationError::Failed { .. }) => Ok(Outcome::Impossible(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

/// Words in the reason against an option with a drive that is too small.
const TOO_SMALL: &str = " is too small: expected at least ";

/// Returns true if an option cannot be built for the reason `why` that a drive is too small. The
/// reason says nothing about the scheme on a larger drive.
pub fn is_too_small(why: &str) -> bool {
    why.contains(TOO_SMALL)
}

/// Returns the reason for which an option cannot be built, with sizes in powers of ten.
fn why_not_built(error: SetupError) -> String {
    match error {
        SetupError::Volume {
            error: VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall { role, needed, reason, .. })),
            ..
        } => {
            format!("its {}{TOO_SMALL}{}{reason}", role.name().to_uppercase(), decimal(needed.0))
        }
        error => error.to_string(),
    }
}

/// Returns the reason for which the figures of an option say nothing about a volume of the capacity
/// asked for: they hold only for the addresses that the trace accesses.
fn hangs_on_place(candidate: &Candidate, choices: &Choices, survey: &Survey) -> Option<String> {
    let (capacity, end) = (choices.capacity?, address_end(survey));
    depends_on_place(candidate.scheme.name, capacity, end).then(|| {
        format!(
            "the trace accesses the first {} of {}, and the place of the data decides the figures: a trace of the whole \
             volume is needed",
            decimal(end.0),
            decimal(capacity.0)
        )
    })
}

/// Returns true if the disk alone holds the capacity asked for and a GiB of metadata, and the SSD
/// has a GiB. A check of these sizes would make tables of all ranges of the volume.
fn is_clearly_large_enough(candidate: &Candidate, choices: &Choices) -> bool {
    let has = |role, least: u64| candidate.drive(role).is_some_and(|drive| drive.size.0 >= least);
    let gib = Bytes::from_gib(1).0;
    has(Role::Hdd, choices.capacity.unwrap_or_default().0.saturating_add(gib)) && has(Role::Ssd, gib)
}

/// Returns the reason for which a block map takes more memory than allowed, or `None`. The check
/// applies to schemes that have an entry for every block of the SSD from the start, of some bits
/// each. The block map of schemes without such entries takes memory as the workload touches
/// addresses.
fn too_large_a_map(candidate: &Candidate, choices: &Choices) -> Option<String> {
    let has_map = candidate.scheme.memory_bytes_per_block > 0.0;
    let mirrors = has_map && candidate.scheme.members.contains(&(Role::Ssd, Holds::Ranges));
    let blocks = candidate.drive(Role::Ssd).filter(|_| mirrors)?.size.0 / choices.block.bytes().0;
    let bytes = blocks as f64 * GRANTED_BYTES_PER_BLOCK;
    let size = |bytes: f64| short(bytes / f64::from(1 << 20));
    (bytes > MAP_BYTES_MAX).then(|| {
        format!(
            "{MAP_TOO_LARGE} {} MiB of memory, and a plan gives each option {} MiB: simulate the option alone",
            size(bytes),
            size(MAP_BYTES_MAX)
        )
    })
}

/// Replaces the profiles' prices by the catalogue's.
fn price(run: &mut Run, candidate: &Candidate) {
    let sum = |kind| {
        let drives = candidate.drives.iter().filter(move |(_, offer)| offer.kind == kind).map(|(_, offer)| offer.usd);
        drives.reduce(|one, other| one + other)
    };
    let exported_gb = run.exported_bytes as f64 / 1e9;
    let cost = &mut run.cost;
    (cost.ssd_usd, cost.hdd_usd) = (sum(Kind::Ssd), sum(Kind::Hdd));
    cost.total_usd = Some(candidate.cost_usd);
    cost.usd_per_gb = (exported_gb > 0.0).then(|| candidate.cost_usd / exported_gb);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_reason_of_a_small_drive_is_too_small() {
        let layout =
            LayoutError::TooSmall { role: Role::Hdd, needed: Bytes(8 << 40), available: Bytes(4 << 40), reason: "" };
        let error = VolumeError::Scheme(SchemeError::Layout(layout));
        let why = why_not_built(SetupError::Volume { scheme: "combo", error });
        assert!(why.starts_with("its HDD is too small: ") && is_too_small(&why), "{why}");
        assert!(!is_too_small("the trace accesses the first 17 GB of 8 TB"));
    }
}
