//! MixCP, the capacity planner of MixedStore, as the paper of MixedStore describes it (section 4).
//! Two regressions predict an SSD's mean response time (equation 2) and its rate of block erases
//! (equation 3). The predictors of both regressions are five averages of a workload. MixCP buys the
//! cheapest SSD that keeps the budgets by these predictions (equation 1).
//!
//! MixCP treats the SSD as a black box. [`training`] simulates synthetic workloads on the SSD and
//! [`regression`] explains the measurements. [`plan`](plan()) answers a question with the
//! regressions without simulation. The crate `bimetal-papers` measures the paper's tables and
//! figures anew. The predictions are no more exact than the paper's, so errors are printed beside
//! the figures.
//!
//! Read first: [`Model`] below.

pub mod plan;
pub mod regression;
pub mod training;

pub use plan::plan;

use bimetal_core::operation::OpKind;
use bimetal_models::profile::{Body, Profile, ProfileError};
use bimetal_trace::Request;
use bimetal_trace::synthetic::SpecError;

use crate::budget::years_of_wear;
use regression::{Design, Fit, RegressionError, fit_significant};
use training::{Sample, Spans};

/// Averages of a workload from which MixCP predicts the behaviour of an SSD (MixedStore, section
/// 4.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Characteristics {
    /// Share of the requests that start where the previous request of their device and direction
    /// ended.
    pub sequentiality: f64,
    /// Mean size of a request in sectors.
    pub request_sectors: f64,
    /// Mean time between arrivals in milliseconds.
    pub interarrival_ms: f64,
    /// Working set divided by the size of the flash.
    pub utilisation: f64,
    /// Share of reads among the requests. The paper uses the ratio of reads to writes, which is
    /// infinite without writes.
    pub read_fraction: f64,
}

impl Characteristics {
    /// Names of the averages, in the order of [`values`](Self::values).
    pub const NAMES: [&'static str; 5] =
        ["sequentiality", "request_sectors", "interarrival_ms", "utilisation", "read_fraction"];

    /// Returns the averages as an observation of a regression.
    pub fn values(&self) -> [f64; 5] {
        [self.sequentiality, self.request_sectors, self.interarrival_ms, self.utilisation, self.read_fraction]
    }

    /// Returns the averages of `requests`, whose working set fills the share `utilisation` of the
    /// flash. Only reads and writes count.
    pub fn of(requests: &[Request], utilisation: f64) -> Self {
        let (mut reads, mut all, mut sequential, mut sectors) = (0u64, 0u64, 0u64, 0u64);
        let mut ends = std::collections::BTreeMap::new();
        for request in requests {
            if !matches!(request.kind, OpKind::Read | OpKind::Write | OpKind::WriteZeroes) {
                continue;
            }
            let is_read = request.kind == OpKind::Read;
            let end = ends.insert((request.device, is_read), request.range.end());
            all += 1;
            reads += u64::from(is_read);
            sequential += u64::from(end == Some(request.range.start));
            sectors += request.range.len.0;
        }
        let count = all.max(1) as f64;
        let span = match (requests.first(), requests.last()) {
            (Some(first), Some(last)) => last.arrival.saturating_sub(first.arrival).as_millis_f64(),
            _ => 0.0,
        };
        Self {
            sequentiality: sequential as f64 / count,
            request_sectors: sectors as f64 / count,
            interarrival_ms: span / all.saturating_sub(1).max(1) as f64,
            utilisation,
            read_fraction: reads as f64 / count,
        }
    }
}

/// Behaviour of an SSD under a workload, measured or predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour {
    /// Mean response time in milliseconds.
    pub response_ms: f64,
    /// Blocks erased per second, counted in blocks of the whole drive.
    pub erases_per_s: f64,
}

impl Behaviour {
    /// Returns the years until the rated cycles of `profile`, with `size` sectors, are used up.
    /// `None` if no block is erased, or if the drive cannot have that size.
    pub fn life_years(&self, profile: &Profile, size: bimetal_core::units::Sectors) -> Option<f64> {
        let Body::Flash(flash) = &profile.body else { return None };
        let geometry = flash.geometry(profile.capacity, Some(size)).ok()?;
        let cycles = geometry.physical_bytes().0 as f64 * f64::from(flash.rated_cycles);
        let erased = self.erases_per_s * training::block_bytes(flash);
        (erased > 0.0).then(|| years_of_wear(cycles, erased))
    }
}

/// Reasons for which MixCP has no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The drive cannot be made as small as the training requires.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A workload cannot be generated.
    #[error(transparent)]
    Workload(#[from] SpecError),
    /// The training set does not determine the coefficients.
    #[error("{drive}: {of}: {error}")]
    Regression {
        /// The drive.
        drive: String,
        /// Name of the predicted figure.
        of: &'static str,
        /// Error of the regression.
        error: RegressionError,
    },
    /// The drive is not an SSD.
    #[error("{0} is not a flash drive: MixCP is a model of SSDs")]
    NoFlash(String),
    /// The trace has no arrival times, or is replayed without arrival times.
    #[error("MixCP predicts from the mean time between arrivals: expected a trace with times, replayed with them")]
    NoArrivals,
    /// MixCP does not support the named flag.
    #[error("MixCP plans for the present load: leave out {0}, or take --model simulate")]
    NotKnown(&'static str),
    /// MixCP does not predict the budgeted figure.
    #[error(
        "budget '{0}': MixCP knows only the mean response time, the lifetime and the price: leave this budget out, or \
         take --model simulate"
    )]
    NotPredicted(String),
}

/// The regressions for a drive: response time (equation 2) and erase rate (equation 3).
#[derive(Clone, Debug)]
pub struct Model {
    /// Name of the drive's profile.
    pub drive: String,
    /// Translation layer of the drive.
    pub ftl: String,
    /// Spans of the characteristics of the training workloads.
    pub spans: Spans,
    /// Equation 2: the logarithm of the mean response time in milliseconds.
    pub response: Fit,
    /// Equation 3: the logarithm of the number of blocks erased per second.
    pub erases: Fit,
    /// The two most correlated predictors of the training set, and their correlation.
    pub correlation: (&'static str, &'static str, f64),
    /// Variance inflation factors of the predictors: 1 for a predictor that is independent of the
    /// other predictors.
    pub inflation: [f64; 5],
    /// Number of workloads with erases, from which equation 3 is fitted.
    pub wearing: usize,
}

impl Model {
    /// Fits both equations to `samples` of `profile`, drawn from `spans`. Uses only the significant
    /// predictors if `significant` is set.
    ///
    /// # Errors
    /// Returns an error if the samples do not determine the coefficients: too few samples, or
    /// predictors that depend on each other.
    pub fn fit(profile: &Profile, spans: Spans, samples: &[Sample], significant: bool) -> Result<Self, ModelError> {
        let worn: Vec<&Sample> = samples.iter().filter(|sample| sample.measured.erases_per_s > 0.0).collect();
        let all: Vec<&Sample> = samples.iter().collect();
        let (design, response) = fit_one(profile, "response time", &all, significant, |measured| measured.response_ms)?;
        let (_, erases) = fit_one(profile, "erase rate", &worn, significant, |measured| measured.erases_per_s)?;
        let ftl = profile.figures().find(|(key, ..)| *key == "ftl").map_or_else(String::new, |(_, value, _)| value);
        Ok(Self {
            drive: profile.name.clone(),
            ftl: ftl.trim_matches('"').to_owned(),
            spans,
            response,
            erases,
            correlation: design.strongest_correlation(),
            inflation: design.inflation(),
            wearing: worn.len(),
        })
    }

    /// Returns the predicted behaviour of the drive under `workload`.
    pub fn predict(&self, workload: &Characteristics) -> Behaviour {
        let predictors = workload.values();
        Behaviour {
            response_ms: self.response.predict(&predictors).exp(),
            erases_per_s: self.erases.predict(&predictors).exp(),
        }
    }

    /// Returns the mean relative errors over `samples`: of the response time, and of the erase rate
    /// for samples with erases.
    pub fn errors(&self, samples: &[Sample]) -> (f64, f64) {
        let mean = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        let both = samples.iter().map(|sample| (self.predict(&sample.workload), sample.measured));
        let response = both.clone().map(|(told, seen)| relative(told.response_ms, seen.response_ms));
        let worn = both.filter(|(_, seen)| seen.erases_per_s > 0.0);
        (
            mean(response.collect()),
            mean(worn.map(|(told, seen)| relative(told.erases_per_s, seen.erases_per_s)).collect()),
        )
    }
}

/// Returns the relative error of a prediction.
pub fn relative(predicted: f64, measured: f64) -> f64 {
    (predicted - measured).abs() / measured
}

/// Fits one of the equations: the logarithm of `figure` as a function of the characteristics, which
/// must be independent.
fn fit_one(
    profile: &Profile,
    of: &'static str,
    samples: &[&Sample],
    significant: bool,
    figure: impl Fn(&Behaviour) -> f64,
) -> Result<(Design<5>, Fit), ModelError> {
    let because = |error| ModelError::Regression { drive: profile.name.clone(), of, error };
    let rows: Vec<[f64; 5]> = samples.iter().map(|sample| sample.workload.values()).collect();
    let logarithms: Vec<f64> = samples.iter().map(|sample| figure(&sample.measured).ln()).collect();
    let design = Design::new(Characteristics::NAMES, &rows).map_err(because)?;
    design.check_independent().map_err(because)?;
    let fit = match significant {
        true => fit_significant(Characteristics::NAMES, &rows, &logarithms),
        false => design.fit(&logarithms),
    };
    let fit = fit.map_err(because)?;
    Ok((design, fit))
}

#[cfg(test)]
mod tests;
