//! `plan --model mixcp`: equation 1 of the paper, with regressions in place of simulations.
//!
//! The model predicts the SSD that serves the whole workload. The SSD is alone (`ssd-only`), or in
//! a MixedStore together with a disk, whose price is added (`mixedstore`). The model covers no
//! other schemes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use bimetal_core::layout::Role;
use bimetal_core::units::Bytes;
use bimetal_measure::text::short;
use bimetal_models::profile::{Body, Profile};
use bimetal_sim::experiment::peak_rss_bytes;
use bimetal_sim::results::Run;
use bimetal_sim::setup::Setup;
use bimetal_sim::simulator::Replay;

use super::regression::{Fit, Significance};
use super::training::{self, Spans, WORKLOADS};
use super::{Behaviour, Characteristics, Model, ModelError};
use crate::advice::{Confidence, Sensitivity};
use crate::answer::Effort;
use crate::bounds::Bounds;
use crate::budget::{Budget, Metric};
use crate::closest;
use crate::evaluate::{Evaluator, Figures, Load, Outcome};
use crate::grid::Candidate;
use crate::progress::{Progress, Stage, Steps};
use crate::search::{Search, Tried};
use crate::{PlanError, Planned, Question, candidates_of, check, planned, refuse_nothing, sorted};
use bimetal_sim::lifetime::{KnownWear, Life};

/// Schemes that the model covers.
const SCHEMES: [&str; 2] = ["ssd-only", MIXEDSTORE];
const MIXEDSTORE: &str = "mixedstore";

/// Settings that a plan gives to MixedStore's controller, and the value of `regulation`: the milder
/// of the paper's two settings.
const FOR_CONTROLLER: [&str; 4] = ["regulation", "expected_erases", "expected_life", "wear_model"];
const REGULATION: &str = "25%";

/// Lifetime in years above which a plan does not set `expected_life`.
const LIFE_YEARS_MAX: f64 = 500.0;

/// Profile and size of the SSD of a predictable option, or the reason for which the option cannot
/// be predicted.
type Known = Result<(Profile, Bytes), String>;

/// A model, and its errors on its training set: of the response time and of the erase rate.
struct Trained {
    model: Model,
    errors: (f64, f64),
}

/// The question, reduced to the SSD.
struct Asked<'a> {
    question: &'a Question<'a>,
    load: &'a Load,
    /// Averages of the measured requests. Each option sets its own utilisation.
    workload: Characteristics,
    working_set: u64,
    /// Factor by which the workload is played faster than recorded.
    speedup: f64,
}

/// Answers `question` by MixCP.
///
/// # Errors
/// Returns the errors of [`crate::plan()`]. Also refuses a workload without arrival times, and a
/// drive that cannot be trained on. Refuses growth, a holdout, and budgets of figures that the
/// model does not predict.
pub fn plan(question: &Question<'_>, progress: &dyn Progress) -> Result<Planned, PlanError> {
    let began = Instant::now();
    let Replay::Timed { speedup } = question.replay else { return Err(ModelError::NoArrivals.into()) };
    if question.growth.is_some() {
        return Err(ModelError::NotKnown("--growth").into());
    }
    if question.holdout {
        return Err(ModelError::NotKnown("--holdout").into());
    }
    if let Some(budget) = question.budgets.iter().find(|budget| !is_predicted(budget)) {
        return Err(ModelError::NotPredicted(budget.text.clone()).into());
    }
    check(question)?;
    let load = Load::read(question.workload, &question.common, question.warmup, &|read| progress.read(read))?;
    refuse_nothing(&load)?;
    let candidates = candidates_of(question, &load.survey)?;
    let measured = &load.requests[load.warmup_requests as usize..];
    let mut workload = Characteristics::of(measured, 0.0);
    workload.interarrival_ms /= speedup;
    if workload.interarrival_ms <= 0.0 {
        return Err(ModelError::NoArrivals.into());
    }
    let working_set = load.survey.footprint_blocks * question.common.block.bytes().0;
    let asked = Asked { question, load: &load, workload, working_set, speedup };
    let options: Vec<(Candidate, Known)> =
        candidates.into_iter().map(|candidate| (candidate.clone(), asked.known(&candidate))).collect();
    let models = asked.train(&options, progress)?;
    let tried: Vec<Tried> =
        options.into_iter().map(|(candidate, known)| asked.judge(candidate, known, &models)).collect();
    let known_wear = KnownWear::default();
    let evaluator = Evaluator {
        load: &load,
        common: &question.common,
        replay: question.replay,
        known_wear: &known_wear,
        variation: Default::default(),
    };
    let bounds = Bounds::of(&load, &question.common, question.replay, &[], &[]);
    let search = Search {
        evaluator: &evaluator,
        bounds: &bounds,
        grown: None,
        budgets: &question.budgets,
        progress,
        simulations: &AtomicU64::new(0),
        sure: false,
    };
    let simulations = (models.len() * WORKLOADS) as u64;
    let effort = Effort { options: tried.len() as u64, simulations, ..Effort::default() };
    let nearest = match search.best(&tried) {
        Some(_) => Vec::new(),
        None => closest::among(&tried, &question.budgets),
    };
    let mut planned = planned(question, &load, &search, sorted(&search, tried), &nearest, effort);
    if let Some((candidate, _)) = planned.best() {
        let candidate = candidate.clone();
        planned.answer.confidence = Some(asked.confidence(&candidate, &models));
        planned.answer.sensitivity = asked.sensitivity(&candidate, &models);
    }
    planned.answer.run.wall_s = began.elapsed().as_secs_f64();
    planned.answer.run.peak_rss_bytes = peak_rss_bytes();
    Ok(planned)
}

impl Asked<'_> {
    /// Returns the SSD of an option as it would be built, or the reason for which the model does
    /// not cover the option.
    fn known(&self, candidate: &Candidate) -> Known {
        if !SCHEMES.contains(&candidate.scheme.name) {
            return Err(format!("MixCP is a model of an SSD: it supports {} only", SCHEMES.join(" and ")));
        }
        if candidate.settings.iter().any(|(key, _)| !FOR_CONTROLLER.contains(&key.as_str())) {
            return Err("MixCP supports no settings of a scheme".to_owned());
        }
        let choices = candidate.choices(&self.question.common);
        let setup = Setup::new(candidate.scheme, &choices, &self.load.survey).map_err(|error| error.to_string())?;
        let ssd = setup.drives.iter().find(|drive| drive.role == Role::Ssd);
        let ssd = ssd.ok_or_else(|| "it has no SSD".to_owned())?;
        if self.working_set > ssd.size.0 {
            return Err(format!("the working set, {}, is larger than the SSD", Bytes(self.working_set)));
        }
        Ok((ssd.profile.clone(), ssd.size))
    }

    /// Trains a model of each drive.
    fn train(
        &self,
        options: &[(Candidate, Known)],
        progress: &dyn Progress,
    ) -> Result<BTreeMap<String, Trained>, ModelError> {
        let known = options.iter().filter_map(|(candidate, known)| Some((candidate, known.as_ref().ok()?)));
        let drives: BTreeMap<&str, &Profile> =
            known.map(|(candidate, (profile, _))| (drive_of(candidate), profile)).collect();
        let (spans, seed) = (Spans::around(&self.workload), self.question.common.seed);
        let steps = Steps::of(progress, Stage::Training, (drives.len() * WORKLOADS) as u64);
        let train = |(name, profile): (&str, &Profile)| {
            let samples = training::samples(profile, &spans, WORKLOADS, seed, &|| steps.over())?;
            let model = Model::fit(profile, spans, &samples, self.question.significant)?;
            Ok((name.to_owned(), Trained { errors: model.errors(&samples), model }))
        };
        drives.into_iter().map(train).collect()
    }

    fn workload_on(&self, size: Bytes) -> Characteristics {
        Characteristics { utilisation: self.working_set as f64 / size.0 as f64, ..self.workload }
    }

    /// Judges an option by the model's predictions.
    fn judge(&self, mut candidate: Candidate, known: Known, models: &BTreeMap<String, Trained>) -> Tried {
        let (profile, size) = match known {
            Ok(known) => known,
            Err(reason) => return Tried::left_out(candidate, reason),
        };
        let model = &models[drive_of(&candidate)].model;
        let told = model.predict(&self.workload_on(size));
        let figures = self.figures(&candidate, &profile, size, told);
        let reasons = self.question.budgets.iter().filter_map(|budget| figures.breaks(budget)).collect();
        for (key, value) in self.for_controller(&candidate, model, told, figures.life_years()) {
            if !candidate.settings.iter().any(|(given, _)| *given == key) {
                candidate.settings.push((key.to_owned(), value));
            }
        }
        Tried { candidate, outcome: Some(Outcome::Done(Box::new(figures))), reasons, judged: true }
    }

    /// Returns the targets for MixedStore's controller (section 5.4): the predicted erase rate and
    /// lifetime. Adds the lifetime model itself, for a drive that does not report its wear.
    fn for_controller(
        &self,
        candidate: &Candidate,
        model: &Model,
        told: Behaviour,
        life_years: Option<f64>,
    ) -> Vec<(&'static str, String)> {
        let wears = self.load.survey.writes > 0 && told.erases_per_s > 0.0;
        let Some(Body::Flash(flash)) = self.known(candidate).ok().map(|(profile, _)| profile.body) else {
            return Vec::new();
        };
        if candidate.scheme.name != MIXEDSTORE || !wears {
            return Vec::new();
        }
        let day = told.erases_per_s * training::block_bytes(&flash) * 86_400.0;
        let Fit { intercept, slopes, .. } = &model.erases;
        let numbers = std::iter::once(intercept - told.erases_per_s.ln()).chain(slopes.iter().copied());
        let numbers: Vec<String> = numbers.map(|number| format!("{number:.5e}")).collect();
        let values = [
            Some(REGULATION.to_owned()),
            Some(format!("{}", day.ceil().max(1.0) as u64)),
            life_years.filter(|years| (0.001..LIFE_YEARS_MAX).contains(years)).map(|years| format!("{years:.3}y")),
            Some(numbers.join(":")),
        ];
        FOR_CONTROLLER.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?))).collect()
    }

    fn figures(&self, candidate: &Candidate, profile: &Profile, size: Bytes, told: Behaviour) -> Figures {
        let survey = &self.load.survey;
        let wears = survey.writes > 0;
        let written = survey.write_bytes.0 as f64 * self.speedup / survey.duration.as_seconds_f64().max(1e-9);
        let erased = match &profile.body {
            Body::Flash(flash) => told.erases_per_s * training::block_bytes(flash),
            Body::Hdd(_) | Body::Cloud(_) => 0.0,
        };
        let written = if wears { written } else { 0.0 };
        let life = Life::at_rates(Role::Ssd.name(), profile, size, written, erased / written);
        let mut run = Run { settings: candidate.all_settings(), ..Run::named(candidate.scheme.name) };
        run.response_time_ms.all.mean = Some(told.response_ms);
        Figures { lives: Some(vec![life]), cost_usd: candidate.cost_usd, ..Figures::of_run(run) }
    }

    fn confidence(&self, candidate: &Candidate, models: &BTreeMap<String, Trained>) -> Confidence {
        let measured = self.load.requests.len() as u64 - self.load.warmup_requests;
        let mut confidence = Confidence { requests: measured, ..Confidence::default() };
        let Ok((_, size)) = self.known(candidate) else { return confidence };
        let Trained { model, errors } = &models[drive_of(candidate)];
        confidence.notes.push(format!(
            "predicted by MixCP, from {WORKLOADS} simulated workloads on {} alone (ftl={}): adjusted R² {:.2} and mean error {:.0} % for \
             the response time, {:.2} and {:.0} % for the erase rate",
            model.drive,
            model.ftl,
            model.response.adjusted_r2,
            errors.0 * 100.0,
            model.erases.adjusted_r2,
            errors.1 * 100.0
        ));
        for (of, fit) in [("response time", &model.response), ("erase rate", &model.erases)] {
            let marked = Characteristics::NAMES.iter().enumerate().map(|(at, name)| (name, fit.significance(at)));
            let marked = marked.filter(|(_, significance)| *significance != Significance::Significant);
            let marked: Vec<String> =
                marked.map(|(name, significance)| format!("{name}{}", significance.mark())).collect();
            if !marked.is_empty() {
                confidence.notes.push(format!("insignificant predictors of the {of}: {}", marked.join(", ")));
            }
        }
        let own = self.workload_on(size);
        let characteristics = Characteristics::NAMES.iter().zip(own.values()).zip(model.spans.all());
        confidence.notes.extend(characteristics.filter(|((_, value), (low, high))| value < low || value > high).map(
            |((name, value), (low, high))| {
                format!("{name} {} is outside of the training set, {} to {}", short(value), short(low), short(high))
            },
        ));
        confidence
    }

    /// Predicts the effects of a fifth more load, a fifth less load, and half the SSD.
    fn sensitivity(&self, candidate: &Candidate, models: &BTreeMap<String, Trained>) -> Vec<Sensitivity> {
        let Ok((profile, size)) = self.known(candidate) else { return Vec::new() };
        let changes = [
            ("a fifth more load", 1.2, size),
            ("a fifth less load", 0.8, size),
            ("half the SSD", 1.0, Bytes(size.0 / 2)),
        ];
        let changed = changes.into_iter().map(|(change, faster, size)| {
            let mut workload = self.workload_on(size);
            workload.interarrival_ms /= faster;
            let told = models[drive_of(candidate)].model.predict(&workload);
            let figures = self.figures(candidate, &profile, size, told);
            let budgets = &self.question.budgets;
            let reasons: Vec<String> = match workload.utilisation > 1.0 {
                true => vec!["the working set is larger than the SSD".to_owned()],
                false => budgets.iter().filter_map(|budget| figures.breaks(budget)).collect(),
            };
            let of_run = budgets.iter().filter(|budget| matches!(budget.metric, Metric::Path(_)));
            Sensitivity {
                change: change.to_owned(),
                figures: of_run.map(|budget| (budget.name(), figures.of(budget))).collect(),
                lifetime_years: figures.life_years().filter(|years| years.is_finite()),
                lifetime_least_years: None,
                keeps_budgets: reasons.is_empty(),
                reasons,
            }
        });
        changed.collect()
    }
}

/// Returns the catalogue's name of the SSD.
fn drive_of(candidate: &Candidate) -> &str {
    candidate.drive(Role::Ssd).map_or("", |offer| &offer.model)
}

/// Returns true if the model predicts the budgeted figure.
fn is_predicted(budget: &Budget) -> bool {
    match &budget.metric {
        Metric::Path(path) => path == "response_time_ms.all.mean",
        Metric::Lifetime | Metric::Cost => true,
        Metric::Ownership(_) | Metric::DriveWrites | Metric::Energy | Metric::Power => false,
    }
}
