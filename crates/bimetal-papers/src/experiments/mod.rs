//! Experiments that measure Bimetal's value for every claim of `crate::claims`.
//!
//! One file for each paper. An experiment takes the paper's parameters; if the paper leaves a
//! parameter open, the head of the experiment's file states our choice. Our choices were made
//! before the values were seen, unless the row says that a choice was fitted. Every experiment is
//! deterministic. `causes` has the rule by which a change explains a difference.

mod causes;
mod combo;
mod griffin;
mod konanki;
mod managers;
mod mixedstore;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bimetal_core::schemes;
use bimetal_core::units::Bytes;
use bimetal_models::profile::{Profile, ProfileError};
use bimetal_plan::mixcp::ModelError;
use bimetal_sim::experiment::{Experiment, ExperimentError, NoProgress};
use bimetal_sim::results::Run;
use bimetal_sim::setup::{Choices, DriveChoice, Size};
use bimetal_sim::simulator::Replay;
use bimetal_trace::TraceError;
use bimetal_trace::age::AgeingError;
use bimetal_trace::analysis::{Analysis, Analyzer, BlockSizeError, FileMapError};
use bimetal_trace::synthetic::SpecError;
use rayon::prelude::*;

use causes::mechanism;

use crate::claims::{Claim, Paper, Verdict, Workload};
use crate::figure::Figure;
use crate::mixcp::{Cache, PaperError};
use crate::traces::{Loaded, PUBLIC_DESKTOPS, Traces, is_shipped};

pub(crate) use causes::{Tried, tried, tried_away};

/// Reasons for which the experiments cannot be run. Except for a bad public trace, each reason is a
/// defect of Bimetal.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentsError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The map of files cannot be read.
    #[error(transparent)]
    Files(#[from] FileMapError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] ExperimentError),
    /// A profile is refused.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The regression cannot be trained.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The planner's tables cannot be repeated.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// A workload is impossible.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Files cannot be scattered.
    #[error(transparent)]
    Ageing(#[from] AgeingError),
    /// A block size is impossible.
    #[error(transparent)]
    Block(#[from] BlockSizeError),
    /// A trace is not shipped.
    #[error("trace '{0}' is not shipped")]
    NotShipped(String),
    /// A run has no figure that a claim needs.
    #[error("claim '{0}' has no figure")]
    NoFigure(String),
}

/// Part of the long experiments that is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// The whole experiments.
    Full,
    /// All long experiments except the training of the planner's regression, which takes most of
    /// the time.
    WithoutTraining,
}

/// Measured value of a claim, with what was tried to explain a difference.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// The value; `None` if a choice of ours decides the verdict, and `facts` says which.
    pub(crate) ours: Option<f64>,
    /// Changes that may explain a difference.
    pub(crate) tried: Vec<Tried>,
    /// Other figures of the same runs, which explain nothing by themselves; may be empty.
    pub(crate) facts: String,
}

/// Measured values by the name of the claim.
pub(crate) type Values = BTreeMap<&'static str, Measured>;

/// Receiver of measured values.
pub(crate) trait Note {
    /// Notes the value of a claim.
    fn note(&mut self, claim: &'static str, ours: Option<f64>) -> Result<(), ExperimentsError>;
    /// Notes the value of a claim, the changes that may explain a difference, and other figures of
    /// the runs.
    fn explain(
        &mut self,
        claim: &'static str,
        ours: Option<f64>,
        tried: Vec<Tried>,
        facts: String,
    ) -> Result<(), ExperimentsError>;
    /// Notes that a choice of ours decides the verdict on a claim, so that nothing is tested.
    fn undecided(&mut self, claim: &'static str, reason: String);
}

impl Note for Values {
    fn note(&mut self, claim: &'static str, ours: Option<f64>) -> Result<(), ExperimentsError> {
        self.explain(claim, ours, Vec::new(), String::new())
    }

    fn explain(
        &mut self,
        claim: &'static str,
        ours: Option<f64>,
        tried: Vec<Tried>,
        facts: String,
    ) -> Result<(), ExperimentsError> {
        let ours = ours.filter(|ours| ours.is_finite()).ok_or_else(|| ExperimentsError::NoFigure(claim.to_owned()))?;
        self.insert(claim, Measured { ours: Some(ours), tried, facts });
        Ok(())
    }

    fn undecided(&mut self, claim: &'static str, reason: String) {
        self.insert(claim, Measured { facts: reason, ..Measured::default() });
    }
}

/// A claim with our value.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Paper of the claim.
    pub paper: Paper,
    /// The claim.
    pub claim: &'static Claim,
    /// Our value; `None` if nothing was measured.
    pub ours: Option<f64>,
    /// Verdict on our value.
    pub verdict: Verdict,
    /// Measured mechanism of a difference, or the reason for which nothing was measured or tested;
    /// `None` for a claim that agrees.
    pub mechanism: Option<String>,
}

/// Reason of a claim that was not measured because the planner's regression was not trained.
pub const NEEDS_TRAINING: &str = "needs the training of the regression";

/// Measures every claim of some papers, several papers at a time, with training sets that `cache`
/// keeps. Calls `progress` with the number of finished papers.
///
/// # Errors
/// A public trace cannot be read. Other errors are defects of Bimetal.
pub fn answers(
    papers: &[Paper],
    traces: &Traces,
    effort: Effort,
    cache: &Cache,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Answer>, ExperimentsError> {
    let done = AtomicU64::new(0);
    let all = papers.par_iter().with_max_len(1).map(|paper| {
        let answers = answer(*paper, traces, effort, cache);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        answers
    });
    Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Measures every claim of a paper.
fn answer(paper: Paper, traces: &Traces, effort: Effort, cache: &Cache) -> Result<Vec<Answer>, ExperimentsError> {
    let values = match paper {
        Paper::Griffin => griffin::measure(traces)?,
        Paper::Managers => managers::measure(traces)?,
        Paper::Combo => combo::measure(traces)?,
        Paper::Konanki => konanki::measure()?,
        Paper::MixedStore => mixedstore::measure(traces, effort, cache)?,
    };
    paper.claims().iter().map(|claim| judged(paper, claim, values.get(claim.name), traces, effort)).collect()
}

/// Measures the figures of some papers, several papers at a time. Calls `progress` with the number
/// of finished papers.
///
/// # Errors
/// As [`answers`].
pub fn figures(
    papers: &[Paper],
    traces: &Traces,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Figure>, ExperimentsError> {
    let done = AtomicU64::new(0);
    let all = papers.par_iter().with_max_len(1).map(|paper| {
        let figures = match paper {
            Paper::Griffin => griffin::figures(traces),
            Paper::Managers => managers::figures(traces),
            Paper::Combo => combo::figures(traces),
            Paper::Konanki => konanki::figures(),
            Paper::MixedStore => mixedstore::figures(),
        };
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        figures
    });
    Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Text for a direction whose size the paper does not give, so that nothing is to be explained.
const NO_SIZE: &str = "the paper gives no size of the effect";

fn judged(
    paper: Paper,
    claim: &'static Claim,
    measured: Option<&Measured>,
    traces: &Traces,
    effort: Effort,
) -> Result<Answer, ExperimentsError> {
    let Some(measured) = measured else {
        let reason = reason(claim, traces, effort).ok_or_else(|| ExperimentsError::NoFigure(claim.name.to_owned()))?;
        return Ok(Answer { paper, claim, ours: None, verdict: Verdict::NotRun, mechanism: Some(reason) });
    };
    let verdict = measured.ours.map_or(Verdict::Undecided, |ours| claim.verdict(ours));
    let mechanism = match verdict {
        Verdict::Agrees => None,
        Verdict::Fitted => claim.fitted().map(str::to_owned),
        Verdict::ByDefinition => claim.definition().map(str::to_owned),
        Verdict::DirectionOnly if claim.expected.is_direction() => Some(NO_SIZE.to_owned()),
        Verdict::DirectionOnly | Verdict::DoesNot => Some(mechanism(claim, measured)),
        Verdict::Undecided | Verdict::NotRun => Some(measured.facts.clone()),
    };
    Ok(Answer { paper, claim, ours: measured.ours, verdict, mechanism })
}

/// Returns the reason for which a claim was not measured; `None` if it was measured.
fn reason(claim: &Claim, traces: &Traces, effort: Effort) -> Option<String> {
    let missing = |file: &str| !traces.folder.as_ref().is_some_and(|folder| folder.join(file).exists());
    match claim.workload {
        Workload::None(reason) => Some(reason.to_owned()),
        Workload::Recorded(name) if !is_shipped(name) => Some(format!("needs the recording {name}")),
        Workload::Public(file) if missing(file) => Some(format!("needs {file} (--traces)")),
        Workload::PublicDesktops if PUBLIC_DESKTOPS.iter().any(|file| missing(file)) => {
            Some(format!("needs {} (--traces)", PUBLIC_DESKTOPS.join(", ")))
        }
        _ if effort == Effort::WithoutTraining && claim.name.starts_with("mixcp-") => Some(NEEDS_TRAINING.to_owned()),
        _ => None,
    }
}

/// Replay at the times of a trace.
pub(crate) const TIMED: Replay = Replay::Timed { speedup: 1.0 };

/// Replay of one request after another.
pub(crate) const CLOSED: Replay = Replay::Closed { depth: 1 };

/// A run to be made: a scheme over drives, with settings.
#[derive(Clone, Default)]
pub(crate) struct Plan {
    pub(crate) scheme: &'static str,
    pub(crate) choices: Choices,
    pub(crate) warmup: f64,
}

impl Plan {
    /// Returns the plan of a scheme, named as on the command line.
    pub(crate) fn new(scheme: &'static str) -> Self {
        Self { scheme, ..Self::default() }
    }

    pub(crate) fn ssd(mut self, profile: &str) -> Self {
        self.choices.ssd.profile = Some(profile.to_owned());
        self
    }

    pub(crate) fn ssd_size(mut self, bytes: Bytes) -> Self {
        self.choices.ssd.size = Some(Size::Bytes(bytes));
        self
    }

    pub(crate) fn hdd(mut self, profile: &str) -> Self {
        self.choices.hdd.profile = Some(profile.to_owned());
        self
    }

    pub(crate) fn member(mut self, id: &str, profile: &str) -> Self {
        let drive = DriveChoice { profile: Some(profile.to_owned()), size: None };
        self.choices.members.push((id.to_owned(), drive));
        self
    }

    pub(crate) fn set(mut self, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.choices.settings.extend(settings);
        self
    }

    pub(crate) fn warmup(mut self, share: f64) -> Self {
        self.warmup = share;
        self
    }

    /// Plays a trace.
    pub(crate) fn play(mut self, trace: &Loaded, replay: Replay) -> Result<Run, ExperimentsError> {
        self.choices.merge = trace.queue_events;
        self.choices.compact = trace.compact;
        let members = self.choices.members.iter_mut().map(|(_, drive)| drive);
        for drive in members.chain([&mut self.choices.ssd, &mut self.choices.hdd]) {
            // A paper's drive has its whole size, unless the plan gives one.
            if let (Some(profile), None) = (&drive.profile, drive.size) {
                drive.size = Some(Size::Bytes(Profile::load(profile)?.capacity.bytes()));
            }
        }
        let scheme = schemes::find(self.scheme).ok_or_else(|| ExperimentsError::NoFigure(self.scheme.to_owned()))?;
        let (choices, warmup) = (self.choices, self.warmup);
        let workload = &trace.requests;
        let experiment = Experiment {
            workload,
            schemes: vec![scheme.into()],
            trees: Vec::new(),
            choices,
            replay,
            warmup,
            keep: None,
        };
        let mut document = experiment.run(&NoProgress, |_, summary| summary)?;
        document.runs.pop().ok_or_else(|| ExperimentsError::NoFigure(self.scheme.to_owned()))
    }
}

/// Notes a value that depends on a choice of ours: several values are tried, and the middle value
/// counts if the verdict is the same for all of them; of an even number, the later of the two in
/// the middle. If the verdicts differ, the choice would decide, and the claim is undecided. `each`
/// says which values were tried.
pub(crate) fn decide(
    values: &mut Values,
    name: &'static str,
    ours: &[Option<f64>],
    each: &str,
    tried: Vec<Tried>,
) -> Result<(), ExperimentsError> {
    let missing = || ExperimentsError::NoFigure(name.to_owned());
    let mut claims = Paper::ALL.into_iter().flat_map(Paper::claims);
    let claim = claims.find(|claim| claim.name == name).ok_or_else(missing)?;
    let ours: Vec<f64> = ours.iter().copied().collect::<Option<_>>().ok_or_else(missing)?;
    let texts: Vec<String> = ours.iter().map(|value| claim.unit.text(*value)).collect();
    let all = format!("{} {each}", texts.join(", "));
    let mut verdicts = ours.iter().map(|value| claim.verdict(*value));
    let first = verdicts.next();
    if verdicts.all(|verdict| Some(verdict) == first) {
        return values.explain(name, ours.get(ours.len() / 2).copied(), tried, all);
    }
    values.undecided(name, format!("the paper leaves open what decides: {all}"));
    Ok(())
}

/// Returns the arithmetic mean of the figures that exist.
pub(crate) fn mean(figures: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let figures: Vec<f64> = figures.into_iter().flatten().collect();
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}

/// Returns the geometric mean; `None` if a figure is missing.
pub(crate) fn geometric_mean(figures: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let logarithms: Vec<f64> = figures.into_iter().map(|figure| Some(figure?.ln())).collect::<Option<_>>()?;
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

/// Returns the analysis of a trace, in blocks of 4 KiB.
pub(crate) fn analysis(trace: &Loaded) -> Result<Analysis, ExperimentsError> {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4))?;
    trace.requests.iter().for_each(|request| analyzer.request(request));
    Ok(analyzer.finish())
}

/// Returns one figure divided by another; `None` if a figure is missing, or the other is 0.
pub(crate) fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).map(|(one, other)| one / other).filter(|ratio| ratio.is_finite())
}

/// Returns a share as text.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| crate::claims::Unit::Share.text(share))
}

#[cfg(test)]
mod tests {
    use super::causes::NOT_MEASURED;
    use super::*;

    /// Regression: a claim that agreed at 20,000 requests and disagreed at 5,000 counted as
    /// agreeing, although the paper gives no number of requests.
    #[test]
    fn claim_is_undecided_if_a_choice_decides_the_verdict() {
        let mut values = Values::new();
        let name = "konanki-firefox-anand";
        decide(&mut values, name, &[Some(0.95), Some(0.9), Some(0.48)], "with more requests", Vec::new()).unwrap();
        assert!(values[name].ours.is_none(), "{values:?}");
        let claim = Paper::Konanki.claims().iter().find(|claim| claim.name == name).unwrap();
        let answer = judged(Paper::Konanki, claim, values.get(name), &Traces::default(), Effort::Full).unwrap();
        assert_eq!(answer.verdict, Verdict::Undecided);
        assert!(answer.mechanism.unwrap().contains("95 %, 90 %, 48 % with more requests"));
        decide(&mut values, name, &[Some(0.55), Some(0.5), Some(0.48)], "with more requests", Vec::new()).unwrap();
        assert_eq!(values[name].ours, Some(0.5));
        decide(&mut values, name, &[Some(0.55), Some(0.48)], "with more requests", Vec::new()).unwrap();
        assert_eq!(values[name].ours, Some(0.48), "the later of the two in the middle");
    }

    fn answer(name: &str, measured: &Measured) -> Answer {
        let mut claims =
            Paper::ALL.into_iter().flat_map(|paper| paper.claims().iter().map(move |claim| (paper, claim)));
        let (paper, claim) = claims.find(|(_, claim)| claim.name == name).unwrap();
        judged(paper, claim, Some(measured), &Traces::default(), Effort::Full).unwrap()
    }

    #[test]
    fn row_says_why_its_claim_does_not_count() {
        let of = |name, ours| {
            let measured = Measured { ours: Some(ours), tried: Vec::new(), facts: "a figure".to_owned() };
            let answer = answer(name, &measured);
            (answer.verdict, answer.mechanism.unwrap_or_default())
        };
        assert_eq!(of("griffin-fig9-10k", 0.5), (Verdict::DirectionOnly, NO_SIZE.to_owned()));
        let not_measured = format!("{NOT_MEASURED}; a figure");
        assert_eq!(of("griffin-fig9-10k", 1.0), (Verdict::DoesNot, not_measured.clone()));
        assert_eq!(of("griffin-savings", 0.2), (Verdict::DirectionOnly, not_measured));
        assert_eq!(of("griffin-savings", 0.5), (Verdict::Agrees, String::new()));
        let (verdict, why) = of("griffin-wwwrww", 0.6);
        assert!(verdict == Verdict::ByDefinition && why.contains("oracle"), "{why}");
    }

    #[test]
    fn figure_that_is_missing_or_infinite_is_an_error() {
        let mut values = Values::new();
        assert!(values.note("griffin-savings", None).is_err());
        assert!(values.note("griffin-savings", Some(f64::INFINITY)).is_err());
        assert!(decide(&mut values, "konanki-dia-anand", &[Some(1.0), None, Some(1.0)], "", Vec::new()).is_err());
        assert!(values.is_empty());
    }

    #[test]
    fn public_trace_that_is_missing_is_named() {
        let claim = Paper::Griffin.claims().iter().find(|claim| claim.name == "griffin-raw-900s").unwrap();
        let answer = judged(Paper::Griffin, claim, None, &Traces::default(), Effort::Full).unwrap();
        assert_eq!(answer.verdict, Verdict::NotRun);
        assert_eq!(answer.mechanism.as_deref(), Some("needs diskmon-mayun.tsv.xz (--traces)"));
        // A claim that should have been measured is an error, never "not run".
        let claim = &Paper::Griffin.claims()[0];
        assert!(judged(Paper::Griffin, claim, None, &Traces::default(), Effort::Full).is_err());
    }
}
