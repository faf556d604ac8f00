//! Experiment: a workload under several schemes, each on a core of its own, with one document as
//! its result.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bimetal_core::block::BlockSize;
use bimetal_core::scheme::SchemeInfo;
use bimetal_models::flash::state::DriveState;
use bimetal_trace::Request;
use rayon::prelude::*;

use crate::block_layer::BlockLayerSettings;
use crate::disturbance::Disturbance;
use crate::figures;
use crate::findings::{self, Finding, NoChoice};
use crate::hints;
use crate::keys::check_keys_with;
use crate::lifetime::{self, KnownWear, Life, Recording, Repeated};
use crate::limits::Limits;
use crate::over_share::{PointOverShare, SHARES};
use crate::ownership::Owned;
use crate::results::{Document, LeftOut, Run, RunSpeed, TraceSummary};
use crate::scheme_choice::SchemeChoice;
use crate::setup::{Choices, DefaultSize, Setup, SetupError, Sizing};
use crate::simulator::{Measured, Play, Replay, SimulationError, Simulator, simulate_watched};
use crate::survey::Survey;
use crate::tree::VolumeChoice;
use crate::uncertainty::{self, Sample};
use crate::warmup::{Curve, WINDOWS, WarmUp};
use crate::workload::{Requests, Workload, WorkloadError};

/// Number of requests between two reports of the progress of a run.
const COUNTED_TOGETHER: u64 = 8192;

/// Experiment to be run.
pub struct Experiment<'a> {
    /// Workload to be played.
    pub workload: &'a dyn Workload,
    /// Schemes, in the order of the result.
    pub schemes: Vec<SchemeChoice>,
    /// Trees of volumes, which run after the schemes.
    pub trees: Vec<VolumeChoice>,
    /// Drives, sizes and settings.
    pub choices: Choices,
    /// Times at which requests are issued.
    pub replay: Replay,
    /// Share of the requests that is played before figures are measured.
    pub warmup: f64,
    /// Callback for the state in which each run leaves its flash drives.
    pub keep: Option<&'a (dyn Fn(Vec<DriveState>) + Sync)>,
}

/// Subject of one run.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Scheme(&'a SchemeChoice),
    Tree(&'a VolumeChoice),
}

impl Subject<'_> {
    /// Returns the name of the scheme, or of the tree's outermost volume.
    fn name(&self) -> &str {
        match self {
            Self::Scheme(choice) => choice.scheme.name,
            Self::Tree(tree) => &tree.name,
        }
    }

    /// Returns a rank of the time that a run takes: the longest runs have the highest rank.
    /// MixedStore computes a regression for each request. Of the other schemes, those that move the
    /// most content take longest, and a drive that is alone takes the least time.
    fn length(&self) -> u8 {
        match self.name() {
            "mixedstore" => 4,
            "hyperduo" | "hddboost" => 3,
            "combo" | "hybrid-disk" | "os-managed" => 1,
            "hdd-only" | "ssd-only" => 0,
            _ => 2,
        }
    }

    /// Returns the text that distinguishes this subject from all others.
    fn label(&self) -> String {
        match self {
            Self::Scheme(choice) => choice.to_string(),
            Self::Tree(tree) => tree.name.clone(),
        }
    }

    /// Returns `choices` with the settings of this subject alone.
    fn applied<'a>(&self, choices: &'a Choices) -> Cow<'a, Choices> {
        match self {
            Self::Scheme(choice) => choice.applied(choices),
            Self::Tree(_) => Cow::Borrowed(choices),
        }
    }
}

/// Result of one run.
enum Outcome {
    Ran(Box<Run>),
    LeftOut(LeftOut),
    /// The subject has no run with a share: its run with whole drives is the same.
    AsSold,
    /// Figures of a disturbed run; none if its drives cannot be built or wear out.
    Disturbed(Option<Box<Sample>>),
}

/// One run to be played: its subject, its choices, and its disturbance.
type Task<'a> = (Subject<'a>, &'a Choices, Option<Disturbance>);

/// Reasons for which an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The workload cannot be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A run cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A run ended early.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// No scheme can be built.
    #[error("no scheme of this comparison can be built with these drives:{0}")]
    NothingToRun(String),
}

/// Receiver of the progress of an experiment. `total` is the number of requests of all runs.
pub trait Progress: Sync {
    /// Reports the number of requests that the survey has read.
    fn surveyed(&self, requests: u64);
    /// Reports that all runs together have issued `requests` of `total`.
    fn simulated(&self, requests: u64, total: u64);
}

/// Receiver that ignores all reports.
pub struct NoProgress;

impl Progress for NoProgress {
    fn surveyed(&self, _requests: u64) {}
    fn simulated(&self, _requests: u64, _total: u64) {}
}

impl Experiment<'_> {
    /// Runs every scheme and returns the document. `describe` completes the facts that only the
    /// reader of the trace knows (name, format, skipped lines).
    ///
    /// # Errors
    /// Returns the first error in the order of the schemes.
    pub fn run(
        &self,
        progress: &dyn Progress,
        describe: impl FnOnce(&Survey, TraceSummary) -> TraceSummary,
    ) -> Result<Document, ExperimentError> {
        self.check()?;
        let survey = Survey::of(self.workload, self.choices.block, &|read| progress.surveyed(read))?;
        self.run_surveyed(&survey, progress, describe)
    }

    /// Sets the warm-up after which every cache is warm ([`crate::warmup`]), To find it, each
    /// scheme with a cache is played once. Returns the survey of the workload, and a finding about
    /// the warm-up.
    ///
    /// # Errors
    /// Returns the errors of [`run`](Self::run).
    pub fn find_warmup(&mut self, progress: &dyn Progress) -> Result<(Survey, Finding), ExperimentError> {
        self.check()?;
        let survey = Survey::of(self.workload, self.choices.block, &|read| progress.surveyed(read))?;
        let share = Choices { default_size: DefaultSize::TENTH, ..self.choices.clone() };
        let both = [&self.choices, &share];
        let blocks = if self.has_share_block() { &both[..] } else { &both[..1] };
        let caches = self.schemes.iter().filter(|choice| findings::is_cache(choice.scheme));
        let subjects = caches.map(Subject::Scheme).chain(self.trees.iter().map(Subject::Tree));
        let runs: Vec<(Subject<'_>, &Choices)> =
            blocks.iter().flat_map(|choices| subjects.clone().map(move |subject| (subject, *choices))).collect();
        let warm = |&(subject, choices): &(Subject<'_>, &Choices)| self.warm_up_of(subject, choices, &survey);
        let found = runs.par_iter().with_max_len(1).map(warm).collect::<Result<Vec<_>, _>>()?;
        let named = runs.iter().zip(found).filter_map(|((subject, _), warm)| Some((subject.label(), warm?)));
        // The first of several, so that the text does not depend on luck.
        let longest = named.reduce(|one, other| if other.1.fraction > one.1.fraction { other } else { one });
        let finding = Finding::warm_up(longest.as_ref().map(|(label, warm)| (label.as_str(), *warm)));
        self.warmup = longest.map_or(0.0, |(_, warm)| warm.fraction);
        Ok((survey, finding))
    }

    /// Plays one scheme or tree and returns its warm-up; `None` if the scheme cannot be built, or
    /// if its flash wears out.
    fn warm_up_of(
        &self,
        subject: Subject<'_>,
        choices: &Choices,
        survey: &Survey,
    ) -> Result<Option<WarmUp>, ExperimentError> {
        let choices = &*subject.applied(choices);
        let Ok(Some(mut setup)) = self.own_setup(subject, choices, survey) else { return Ok(None) };
        let play = self.prepare(&mut setup, choices, &|| self.requests(survey, 0))?;
        let (mut curve, mut windows) = (Curve::default(), 0);
        let mut watch = |setup: &Setup, submitted: u64| {
            if submitted * WINDOWS as u64 >= (windows + 1) * survey.requests {
                windows = submitted * WINDOWS as u64 / survey.requests;
                curve.note(setup);
            }
        };
        match simulate_watched(&mut setup, self.requests(survey, 0)?, play, &mut watch) {
            Ok(_) => Ok(Some(curve.warm_up())),
            Err(SimulationError::Failed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if each scheme also runs with a share of the working set.
    fn has_share_block(&self) -> bool {
        self.choices.also_share && self.choices.sizing() == Sizing::Sold
    }

    /// Returns the schemes of the experiment, without the trees.
    fn own_schemes(&self) -> impl Iterator<Item = &'static SchemeInfo> {
        self.schemes.iter().map(|choice| choice.scheme)
    }

    /// Checks the names of settings and drives, before the workload is read.
    fn check(&self) -> Result<(), ExperimentError> {
        let schemes: Vec<_> = self.own_schemes().chain(self.trees.iter().flat_map(VolumeChoice::schemes)).collect();
        let mut named: Vec<&str> = self.trees.iter().flat_map(VolumeChoice::names).collect();
        if self.schemes.is_empty() {
            // The drives of trees also check the settings for all drives of their kind.
            named.extend(["ssd", "hdd"]);
        }
        check_keys_with(&schemes, &self.choices, &named)?;
        let mut outermost = self.own_schemes().chain(self.trees.iter().map(|tree| tree.scheme));
        if !self.choices.hints.is_empty() && !outermost.any(|scheme| hints::has_use(scheme, &self.choices.hints)) {
            let error =
                if self.choices.hints.are_pins() { SetupError::NoUseForPins } else { SetupError::NoUseForHints };
            return Err(error.into());
        }
        Ok(())
    }

    /// Runs like [`run`](Self::run), over a workload that was surveyed before. One scheme alone
    /// runs on the thread of the caller.
    ///
    /// # Errors
    /// Returns the errors of [`run`](Self::run).
    pub fn run_surveyed(
        &self,
        survey: &Survey,
        progress: &dyn Progress,
        describe: impl FnOnce(&Survey, TraceSummary) -> TraceSummary,
    ) -> Result<Document, ExperimentError> {
        self.check()?;
        let whole = &self.choices;
        let share = Choices { default_size: DefaultSize::TENTH, ..self.choices.clone() };
        let schemes = self.schemes.iter().map(Subject::Scheme);
        let trees = self.trees.iter().map(Subject::Tree);
        let again = schemes.clone().filter(|_| self.has_share_block());
        let subjects: Vec<(Subject<'_>, &Choices)> = schemes
            .chain(trees)
            .map(|subject| (subject, whole))
            .chain(again.map(|subject| (subject, &share)))
            .collect();
        let other_shares = self.other_shares();
        let disturbances = (1..whole.runs).map(|number| Some(Disturbance::new(whole.seed, number)));
        let disturbances: Vec<Option<Disturbance>> = std::iter::once(None).chain(disturbances).collect();
        let with_each = |&(subject, choices)| disturbances.iter().map(move |with| (subject, choices, *with));
        let tasks: Vec<Task<'_>> = subjects.iter().flat_map(with_each).collect();
        let runs = tasks.len() + other_shares.len() * self.schemes.len();
        let total = survey.requests * runs as u64;
        let issued = AtomicU64::new(0);
        let count = |requests: u64| {
            let before = issued.fetch_add(requests, Ordering::Relaxed);
            progress.simulated(before + requests, total);
        };
        let run = |task: &Task<'_>| self.outcome_of(*task, survey, &count);
        let outcomes: Vec<Result<Outcome, ExperimentError>> = match tasks.as_slice() {
            [only] => vec![run(only)],
            several => longest_first(several, |(subject, ..)| subject.length(), run),
        };
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let outcomes = with_uncertainty(outcomes, disturbances.len());
        let (mut runs, left_out) = sorted(outcomes, self.schemes.len() + self.trees.len())?;
        let over_share = self.over_share(&other_shares, &runs, survey, &count)?;
        let capacity = self.choices.capacity;
        let capacity_bytes = capacity.map(|capacity| capacity.0);
        let trace = describe(survey, TraceSummary { capacity_bytes, ..summary_of(survey, self.choices.block) });
        let any_price = runs.iter().any(|run| run.cost.total_usd.is_some());
        for run in &mut runs {
            let of_price = NoChoice::of_price(run).filter(|_| any_price);
            run.no_choice = NoChoice::of(run, &trace, self.replay).or(of_price);
        }
        let (command, options) = (None, self.options());
        let findings = findings::of(survey, &runs, self.choices.block, self.replay, capacity.unwrap_or_default());
        let bimetal = env!("CARGO_PKG_VERSION").to_owned();
        let nothing_chosen = Document::default();
        Ok(Document { bimetal, command, options, trace, findings, runs, left_out, over_share, ..nothing_chosen })
    }

    /// Returns each share of the working set except a tenth, as a percentage and with its choices,
    /// if figures for several shares are asked for.
    fn other_shares(&self) -> Vec<(u64, Choices)> {
        let choices = &self.choices;
        if !choices.over_share || !self.has_share_block() {
            return Vec::new();
        }
        let sizes = SHARES.map(|percent| (percent, DefaultSize::Share { percent }));
        let others = sizes.into_iter().filter(|(_, size)| *size != DefaultSize::TENTH);
        others.map(|(percent, default_size)| (percent, Choices { default_size, ..choices.clone() })).collect()
    }

    /// Runs each scheme with the other shares and returns the figures of each scheme, by its share.
    /// A scheme without a share has the figures of its run with whole drives.
    fn over_share(
        &self,
        other_shares: &[(u64, Choices)],
        runs: &[Run],
        survey: &Survey,
        count: &(dyn Fn(u64) + Sync),
    ) -> Result<Vec<PointOverShare>, ExperimentError> {
        let whole = |label: &str| runs.iter().find(|run| run.label == label);
        let of_scheme = |scheme| other_shares.iter().map(move |(percent, choices)| (scheme, *percent, choices));
        let points: Vec<(&SchemeChoice, u64, &Choices)> = self.schemes.iter().flat_map(of_scheme).collect();
        let play = |&(scheme, percent, choices): &(&SchemeChoice, u64, &Choices)| {
            Ok(match self.run_one(Subject::Scheme(scheme), choices, survey, count) {
                Ok(Some(run)) => Some(PointOverShare::of(&run, percent)),
                Ok(None) => whole(&scheme.to_string()).map(|run| PointOverShare::of(run, percent)),
                // A small drive may not hold the scheme, or wear out, where a larger one does not.
                Err(ExperimentError::Setup(_) | ExperimentError::Simulation(SimulationError::Failed { .. })) => None,
                Err(error) => return Err(error),
            })
        };
        let labels: Vec<String> = self.schemes.iter().map(SchemeChoice::to_string).collect();
        let length = |&(scheme, ..): &(&SchemeChoice, u64, &Choices)| Subject::Scheme(scheme).length();
        let played: Vec<Result<_, ExperimentError>> = longest_first(&points, length, play);
        let mut played = played.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
        if !other_shares.is_empty() {
            let share = |label: &str| runs.iter().find(|run| run.label == label && run.sizing == Sizing::Share);
            let tenths = labels.iter().filter_map(|label| share(label).or_else(|| whole(label)));
            played.extend(tenths.map(|run| PointOverShare::of(run, 10)));
        }
        let place = |point: &PointOverShare| labels.iter().position(|label| *label == point.label);
        played.sort_by_key(|point| (place(point), point.percent));
        Ok(played)
    }

    /// Runs one scheme or tree. A scheme that cannot be built is left out, unless it is the only
    /// scheme.
    fn outcome_of(
        &self,
        (subject, choices, disturbance): Task<'_>,
        survey: &Survey,
        count: &(dyn Fn(u64) + Sync),
    ) -> Result<Outcome, ExperimentError> {
        if let Some(disturbance) = disturbance {
            return self.disturbed(subject, choices, disturbance, survey, count).map(Outcome::Disturbed);
        }
        let is_alone = self.schemes.len() + self.trees.len() == 1;
        match self.run_one(subject, choices, survey, count) {
            Err(ExperimentError::Setup(error)) if !is_alone && error.is_of_the_drives() => {
                count(survey.requests);
                let scheme = subject.name().to_owned();
                let reason = error.to_string();
                let reason = reason.strip_prefix(&format!("{scheme}: ")).map_or_else(|| reason.clone(), str::to_owned);
                Ok(Outcome::LeftOut(LeftOut { scheme, label: subject.label(), sizing: choices.sizing(), reason }))
            }
            Err(error) => Err(error),
            Ok(run) => Ok(run.map_or(Outcome::AsSold, Outcome::Ran)),
        }
    }

    /// Runs one scheme or tree with a disturbance and returns the figures that have an uncertainty.
    /// Returns no figures if the undisturbed run has no result either, or if flash wears out.
    fn disturbed(
        &self,
        subject: Subject<'_>,
        choices: &Choices,
        disturbance: Disturbance,
        survey: &Survey,
        count: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<Box<Sample>>, ExperimentError> {
        let choices = &*subject.applied(choices);
        // An error is that of the undisturbed run, which reports it.
        let Ok(Some(mut setup)) = self.own_setup(subject, choices, survey) else {
            count(survey.requests);
            return Ok(None);
        };
        let disturbance = disturbance.with(choices);
        setup.start = disturbance.start();
        let shifts = disturbance.shifts(&setup, choices, survey);
        let requests = || self.requests(survey, disturbance.drawing());
        let open = || Ok(disturbance.disturb(requests()?, shifts.clone(), survey.clock()));
        let mut simulator = self.begin(&mut setup, choices, &open, survey)?;
        match play(&mut simulator, open()?, survey, count) {
            Ok(measured) => {
                let run = figures::run_of(simulator.setup(), &measured, self.replay, RunSpeed::default());
                Ok(Some(Box::new(Sample::of(&run))))
            }
            Err(SimulationError::Failed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs one scheme or tree. Returns no run if the choices ask for shares of drives and this
    /// subject has whole drives nevertheless, because its run with whole drives is the same.
    fn run_one(
        &self,
        subject: Subject<'_>,
        choices: &Choices,
        survey: &Survey,
        count: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<Box<Run>>, ExperimentError> {
        let choices = &*subject.applied(choices);
        let Some(mut setup) = self.own_setup(subject, choices, survey)? else {
            count(survey.requests);
            return Ok(None);
        };
        let (workload, known_wear) = (Compacted { experiment: self, survey }, KnownWear::default());
        let load = || Repeated::surveyed(&workload, survey, self.replay, &known_wear);
        let load = choices.steady_wear.then(load).transpose()?;
        let recording = load.filter(|_| self.keep.is_none());
        let recording = recording.and_then(|load| Recording::beside_run(&mut setup, choices, load));
        let began = Instant::now();
        let mut simulator = self.begin(&mut setup, choices, &|| self.requests(survey, 0), survey)?;
        let measured = play(&mut simulator, self.requests(survey, 0)?, survey, count)?;
        let wall_s = began.elapsed().as_secs_f64();
        let speed = RunSpeed {
            wall_s: Some(wall_s),
            requests_per_s: Some(survey.requests as f64 / wall_s),
            peak_rss_bytes: peak_rss_bytes(),
        };
        let run = figures::run_of(simulator.setup(), &measured, self.replay, speed);
        let mut run = Run { label: subject.label(), ..run };
        let owned = Owned::of(simulator.setup(), &measured);
        let recording = recording.filter(|recording| recording.can_follow(&simulator));
        let followed = recording.map(|recording| recording.lives(&mut simulator, 1, choices));
        if let Some(keep) = self.keep {
            keep(setup.save_states());
        }
        drop(setup);
        if let Some(load) = load {
            let lives = match followed {
                Some(lives) => lives,
                None => {
                    let again = || setup_of(subject, choices, survey).ok();
                    lifetime::lives(setup_of(subject, choices, survey)?, &again, choices, load)
                }
            };
            figures::note_lives(&mut run, &known_lives(lives)?);
        }
        owned.note(&mut run, choices.ownership);
        Ok(Some(Box::new(run)))
    }

    /// Begins a run over `setup`; `open` returns the requests of the workload, from the first on.
    fn begin<'a, 's>(
        &'a self,
        setup: &'s mut Setup,
        choices: &Choices,
        open: &dyn Fn() -> Result<Requests<'a>, WorkloadError>,
        survey: &Survey,
    ) -> Result<Simulator<'s>, ExperimentError> {
        let warmup_requests = (survey.requests as f64 * self.warmup) as u64;
        let play = Play { warmup_requests, ..self.prepare(setup, choices, open)? };
        Ok(Simulator::new(setup, play, Limits::default())?)
    }

    /// Gives the scheme the knowledge of the future that it needs, and returns the parameters of a
    /// play without a warm-up.
    fn prepare<'a>(
        &'a self,
        setup: &mut Setup,
        choices: &Choices,
        open: &dyn Fn() -> Result<Requests<'a>, WorkloadError>,
    ) -> Result<Play, ExperimentError> {
        let block_layer = BlockLayerSettings::chosen(choices, setup)?;
        if block_layer.is_some() && setup.needs_foresight() {
            return Err(SetupError::ForeseesOtherRequests { scheme: setup.name.clone() }.into());
        }
        setup.foresee_uses(open)?;
        setup.foresee_idle(self.replay, open)?;
        Ok(Play { replay: self.replay, warmup_requests: 0, block_layer })
    }

    /// Returns the drives and the volume of a subject; `None` if the choices ask for shares of
    /// drives and this subject has whole drives nevertheless.
    fn own_setup(
        &self,
        subject: Subject<'_>,
        choices: &Choices,
        survey: &Survey,
    ) -> Result<Option<Setup>, ExperimentError> {
        let setup = setup_of(subject, choices, survey)?;
        let is_own = self.choices.default_size == choices.default_size || setup.has_share();
        Ok(is_own.then_some(setup))
    }

    /// Returns the options in force for every run, for the document.
    fn options(&self) -> BTreeMap<String, String> {
        let choices = &self.choices;
        let set = choices.settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
        [
            ("block", choices.block.bytes().to_string()),
            ("compact", choices.compact.to_string()),
            ("power_price", choices.ownership.usd_per_kwh.to_string()),
            ("years", choices.ownership.years.to_string()),
            ("merge", if choices.merge { "on" } else { "off" }.to_owned()),
            ("replay", self.replay.to_string()),
            ("runs", choices.runs.max(1).to_string()),
            ("seed", choices.seed.to_string()),
            ("set", set),
            ("warmup", self.warmup.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    fn requests(&self, survey: &Survey, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        let requests = self.workload.open_drawn(drawing)?;
        if !self.choices.compact {
            return Ok(requests);
        }
        let (compaction, block) = (survey.compacted.clone(), self.choices.block);
        let place = move |request: Request| compaction.place(&request, block);
        Ok(Box::new(requests.map(move |request| request.map(&place))))
    }
}

/// Runs all `items` on all cores, the longest first: at the end, cores wait for each other only as
/// long as a short run takes. Returns the results in the order of `items`.
fn longest_first<T: Sync, R: Send>(items: &[T], length: impl Fn(&T) -> u8, run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut order: Vec<(usize, &T)> = items.iter().enumerate().collect();
    order.sort_by_key(|(_, item)| Reverse(length(item)));
    // A bridge gives out its items one by one in their order; a slice would be cut into halves.
    let mut results: Vec<(usize, R)> = order.into_iter().par_bridge().map(|(at, item)| (at, run(item))).collect();
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Plays `requests` to their end. Reports to `count` how many requests were issued since its last
/// call.
fn play(
    simulator: &mut Simulator<'_>,
    requests: Requests<'_>,
    survey: &Survey,
    count: &(dyn Fn(u64) + Sync),
) -> Result<Measured, SimulationError> {
    let mut counted = 0;
    simulator.play_all(requests, &mut |_, issued| {
        if issued.is_multiple_of(COUNTED_TOGETHER) {
            count(issued - std::mem::replace(&mut counted, issued));
        }
    })?;
    let measured = simulator.finish()?;
    count(survey.requests - counted);
    Ok(measured)
}

/// Returns the lifetimes of the flash in steady state; none if the workload cannot be repeated.
fn known_lives(lives: Result<Vec<Life>, SimulationError>) -> Result<Vec<Life>, ExperimentError> {
    match lives {
        // The scheme knows the future of one round only, or worn flash refuses a later round.
        Err(SimulationError::NoForesight { .. } | SimulationError::Failed { .. }) => Ok(Vec::new()),
        lives => Ok(lives?),
    }
}

/// Returns the scheme or tree with its drives.
fn setup_of(subject: Subject<'_>, choices: &Choices, survey: &Survey) -> Result<Setup, SetupError> {
    match subject {
        Subject::Scheme(choice) => Setup::new(choice.scheme, choices, survey),
        Subject::Tree(tree) => {
            let scheme = || subject.name().to_owned();
            if let Some(policies) = &choices.outside {
                return Err(SetupError::NoUseForPolicy { scheme: scheme(), policy: policies.name.clone() });
            }
            if let Some(director) = &choices.director {
                return Err(SetupError::NoUseForDirector { scheme: scheme(), director: director.name.clone() });
            }
            Setup::of_tree(tree, choices, survey)
        }
    }
}

/// Returns the undisturbed outcomes, with the uncertainty from the disturbed outcomes. Each subject
/// has `each` outcomes, the undisturbed outcome first.
fn with_uncertainty(outcomes: Vec<Outcome>, each: usize) -> Vec<Outcome> {
    let (mut kept, mut outcomes) = (Vec::new(), outcomes.into_iter());
    while let Some(mut outcome) = outcomes.next() {
        let disturbed = outcomes.by_ref().take(each - 1).map(|outcome| match outcome {
            Outcome::Disturbed(sample) => sample.map(|sample| *sample),
            Outcome::Ran(_) | Outcome::LeftOut(_) | Outcome::AsSold => None,
        });
        // Runs that are missing would make the rest look certain.
        let samples: Option<Vec<Sample>> = disturbed.collect::<Vec<_>>().into_iter().collect();
        if let (Outcome::Ran(run), Some(samples)) = (&mut outcome, samples) {
            uncertainty::note(run, &samples);
        }
        kept.push(outcome);
    }
    kept
}

/// Sorts outcomes into runs and schemes that are left out, each in order. The first `whole`
/// outcomes are outcomes with whole drives.
fn sorted(outcomes: Vec<Outcome>, whole: usize) -> Result<(Vec<Run>, Vec<LeftOut>), ExperimentError> {
    let (mut runs, mut left_out): (Vec<Run>, Vec<LeftOut>) = (Vec::new(), Vec::new());
    let mut places: Vec<Option<usize>> = Vec::new();
    // Without a share, the second block would repeat the first.
    let played_again = outcomes.iter().skip(whole).any(|outcome| matches!(outcome, Outcome::Ran(_)));
    for (at, outcome) in outcomes.into_iter().enumerate() {
        let run = match outcome {
            Outcome::Ran(run) => Some(*run),
            Outcome::LeftOut(scheme) => {
                left_out.push(scheme);
                None
            }
            Outcome::AsSold => {
                let sold = at.checked_sub(whole).and_then(|at| places[at]);
                sold.map(|place| Run { sizing: Sizing::Share, ..runs[place].clone() })
            }
            Outcome::Disturbed(_) => None,
        };
        places.push(run.is_some().then_some(runs.len()));
        runs.extend(run);
    }
    let whole_runs = places.iter().take(whole).flatten().count();
    if !played_again {
        runs.truncate(whole_runs);
    }
    if runs.is_empty() && !left_out.is_empty() {
        let reasons = left_out.iter().map(|LeftOut { label, reason, .. }| format!("\n  {label}: {reason}"));
        return Err(ExperimentError::NothingToRun(reasons.collect()));
    }
    Ok((runs, left_out))
}

/// Workload of an experiment, with the addresses that its runs see.
struct Compacted<'a> {
    experiment: &'a Experiment<'a>,
    survey: &'a Survey,
}

impl Workload for Compacted<'_> {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        self.experiment.requests(self.survey, drawing)
    }

    fn grid(&self) -> u64 {
        self.experiment.workload.grid()
    }
}

/// Returns the survey in the form of the document.
pub fn summary_of(survey: &Survey, block: BlockSize) -> TraceSummary {
    let end: u64 = survey.address_end.values().map(|end| end.0.next_multiple_of(block.sectors())).sum();
    TraceSummary {
        requests: survey.requests,
        reads: survey.reads,
        writes: survey.writes,
        flushes: survey.flushes,
        discards: survey.discards,
        read_bytes: survey.read_bytes.0,
        write_bytes: survey.write_bytes.0,
        footprint_bytes: survey.footprint_blocks * block.bytes().0,
        duration_s: survey.duration.as_seconds_f64(),
        address_end_bytes: Some(end * bimetal_core::units::SECTOR_BYTES),
        devices: Some(survey.address_end.len() as u64),
        ..TraceSummary::default()
    }
}

/// Returns the largest resident memory of this process so far; `None` if the system does not report
/// it.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Regression: a comparison on two cores ended with its longest run alone on one core.
    #[test]
    fn longest_run_begins_first_and_results_keep_their_order() {
        let begun = Mutex::new(Vec::new());
        let run = |&length: &u8| {
            begun.lock().unwrap().push(length);
            length * 10
        };
        let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let results = one_core.install(|| longest_first(&[1, 3, 0, 2], |&length| length, run));
        assert_eq!(results, [10, 30, 0, 20]);
        assert_eq!(*begun.lock().unwrap(), [3, 2, 1, 0]);
    }
}
