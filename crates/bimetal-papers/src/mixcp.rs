//! Tables 3 and 4 and figures 6 and 7 of MixedStore's section 4, repeated. The tables and figures
//! compare the paper's values, the predictions of equations 2 and 3 for the model of the SSD, and
//! simulation.
//!
//! The paper leaves some inputs open. The choices here:
//! - The SSD has the cycles of table 4, and all of its map in memory.
//! - Financial is the workload of table 3 (W5). The utilisation of 0.91 is taken to be that of the
//!   flash that the planner chose, 1 GB. The ratios of the lifetimes in table 4 fit this
//!   utilisation.
//! - The life of a MixedStore is that of the last quarter of its requests. A life counts only if
//!   the requests in front of this quarter fill the flash: new flash needs no collection.
//!   Beside these lives, the lives of Financial are counted from new flash on.
//! - Of TPC-H, only the averages in table 2 are known. TPC-H gets the same working set as
//!   Financial.

mod cache;
mod mechanisms;

use std::sync::atomic::{AtomicU64, Ordering};

use bimetal_core::layout::Role;
use bimetal_core::schemes;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_models::profile::Profile;
use bimetal_plan::catalogue::{Kind, Offer};
use bimetal_plan::evaluate::{Evaluator, Figures, Load, Outcome};
use bimetal_plan::grid::Candidate;
use bimetal_plan::mixcp::training::{self, Sample, Spans, WORKLOADS, measure, sized, small};
use bimetal_plan::mixcp::{Behaviour, Characteristics, Model, ModelError};
use bimetal_sim::lifetime::KnownWear;
use bimetal_sim::limits::Limits;
use bimetal_sim::setup::Choices;
use bimetal_sim::simulator::{Replay, SimulationError};
use bimetal_sim::workload::WorkloadError;
use bimetal_trace::Request;
use bimetal_trace::synthetic::{Generator, Interarrival, WorkloadSpec};
use cache::Wanted;
use rayon::prelude::*;

use crate::claims::Paper;
use crate::figure::{Axis, Curve, Figure};

pub use cache::Cache;
pub use mechanisms::{Mechanisms, Observation};

/// SSD and disk of the paper.
const DRIVE: &str = "super-talent-32gb";
const DISK: &str = "ibm-ultrastar-36z15-36gb";

/// Cycles that table 4 assumes, and memory for all of DFTL's mapping table. The paper does not give
/// the size of the memory for the mapping table. With less memory, a small drive writes fewer
/// translation pages than a large drive.
const SETTINGS: [(&str, &str); 2] = [("rated_cycles", "10000"), ("map_cache", "128MiB")];

/// Amount of work: less is quicker, and less exact.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Number of workloads in the training set.
    pub workloads: usize,
    /// Number of held-out workloads, used only to measure the errors.
    pub held_out: usize,
    /// Size of the flash that MixCP chooses in table 4.
    pub chosen: Bytes,
    /// Number of requests of a simulated MixedStore, whose last quarter is measured.
    pub mixed_requests: u64,
    /// Number of workloads of table 4: Financial alone, or TPC-H as well.
    pub provisioned: usize,
}

impl Scale {
    /// Sizes and numbers of requests that the paper used.
    pub const PAPER: Self = Self {
        workloads: WORKLOADS,
        held_out: 100,
        chosen: Bytes(1_000_000_000),
        mixed_requests: 1_200_000,
        provisioned: 2,
    };
}

/// A workload of table 3.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Name of the workload in the table.
    pub name: &'static str,
    /// Averages of the workload. About reads in its workloads, the paper states only that W1 to W4
    /// have writes alone.
    pub workload: Characteristics,
    /// Errors of response time and erase rate in per cent in the paper, for the rows that have
    /// these errors.
    pub paper_error: (Option<f64>, Option<f64>),
}

const fn listed(name: &'static str, averages: [f64; 5], paper_error: (Option<f64>, Option<f64>)) -> Listed {
    let [sequentiality, request_sectors, utilisation, interarrival_ms, read_fraction] = averages;
    let workload = Characteristics { sequentiality, request_sectors, interarrival_ms, utilisation, read_fraction };
    Listed { name, workload, paper_error }
}

/// Workloads of table 3, and Financial of table 2.
const LISTED: [Listed; 6] = [
    listed("W1", [0.10, 41.54, 0.89, 322.18, 0.0], (None, None)),
    listed("W2", [0.70, 16.90, 0.89, 79.90, 0.0], (Some(4.0), None)),
    listed("W3", [0.30, 115.71, 0.94, 80.24, 0.0], (Some(21.0), None)),
    listed("W4", [0.70, 115.44, 0.58, 319.74, 0.0], (None, None)),
    listed("W5 (Financial)", [0.03, 6.57, 0.91, 164.49, 0.09], (Some(55.0), Some(55.0))),
    listed("Financial, table 2", [0.02, 8.76, 0.91, 133.50, 0.09], (None, None)),
];

/// Financial of table 3.
const FINANCIAL: Characteristics = LISTED[4].workload;

/// TPC-H of table 2.
const TPC_H: Characteristics = Characteristics {
    sequentiality: 0.18,
    request_sectors: 25.64,
    interarrival_ms: 155.56,
    utilisation: FINANCIAL.utilisation,
    read_fraction: 0.95,
};

/// Rows of table 4: provisioning of the flash, its size relative to the chosen size, and the
/// lifetimes of Financial and TPC-H in years.
const PROVISIONED: [(&str, f64, [Option<f64>; 2]); 3] = [
    ("over", 2.0, [Some(52.69), Some(97.50)]),
    ("MixCP", 1.0, [Some(7.29), Some(21.65)]),
    ("under", 0.5, [Some(2.67), None]),
];

/// Share of a MixedStore's requests that is played before measuring.
const WARMUP: f64 = 0.75;

/// Parts of a MixedStore's requests over which the life of new flash is counted.
const NEW: [u64; 2] = [2, 1];

/// Life of the flash in a run's results. The paper counts rated cycles alone.
const YEARS: &str = "devices.ssd.flash.lifetime_years_cycles";

/// Flash sizes of figure 7 relative to the chosen size, and factors by which requests arrive
/// faster.
const SIZES: [f64; 5] = [1.0, 1.25, 1.5, 2.0, 3.0];
const FASTER: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

/// Sectors of a request below which a training workload is a workload of small requests.
pub(crate) const SMALL: f64 = 16.0;

/// Predicted and simulated behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Behaviour predicted by equations 2 and 3.
    pub predicted: Behaviour,
    /// Behaviour simulated on the SSD alone.
    pub simulated: Behaviour,
    /// Lifetime of the flash in years, from the prediction and from the simulation.
    pub years: (f64, f64),
}

/// A row of table 3.
#[derive(Clone, Debug)]
pub struct Row {
    /// Workload of the row.
    pub listed: Listed,
    /// Prediction and simulation of the workload.
    pub compared: Compared,
}

/// A row of table 4 and figure 6.
#[derive(Clone, Debug)]
pub struct Provisioned {
    /// The workload.
    pub workload: &'static str,
    /// Provisioning of the flash: over, MixCP or under.
    pub name: &'static str,
    /// Size of the flash.
    pub flash: Bytes,
    /// Lifetime in years in the paper.
    pub paper_years: Option<f64>,
    /// Results of the SSD that serves the whole workload; `None` if the working set does not fit.
    pub alone: Option<Compared>,
    /// Results of a MixedStore of this SSD and a disk.
    pub mixed: Mixed,
}

/// Results of a simulated MixedStore.
#[derive(Clone, Copy, Debug)]
pub struct Mixed {
    /// Mean response time in milliseconds.
    pub response_ms: f64,
    /// Lifetime of the flash in years, infinite if nothing is erased. `None` if the flash was not
    /// full when measuring began.
    pub years: Option<f64>,
    /// Share of the written blocks that the flash stored.
    pub flash_share: f64,
}

/// Lives of new flash.
#[derive(Clone, Debug)]
pub struct FromNew {
    /// Number of requests over which the lives are counted.
    pub requests: u64,
    /// Lifetime in years by the provisioning of the flash.
    pub years: Vec<(&'static str, f64)>,
}

/// A point of figure 7.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Factor by which requests arrive faster.
    pub faster: f64,
    /// Size of the flash.
    pub flash: Bytes,
    /// Prediction and simulation at this point.
    pub compared: Compared,
}

/// Results of all repeated tables and figures.
pub struct Reproduction {
    /// The model, trained on as many workloads as in the paper.
    pub model: Model,
    /// Size of the drive on which the model was trained.
    pub trained_on: Bytes,
    /// Mean errors of response time and erase rate, on the training set and on held-out workloads.
    pub errors: [(f64, f64); 2],
    /// Mean error of the response time over the training workloads of small requests.
    pub error_of_small: f64,
    /// Number of workloads in the training set and in the held-out set.
    pub workloads: [usize; 2],
    /// Predicted and measured behaviour of the held-out workloads, drawn in figure 5.
    pub held_out: Vec<(Behaviour, Behaviour)>,
    /// Rows of MixedStore's table 3.
    pub table_3: Vec<Row>,
    /// Rows of MixedStore's table 4 and figure 6.
    pub table_4: Vec<Provisioned>,
    /// Lives of Financial's flash, counted from new flash on.
    pub lives_from_new: Vec<FromNew>,
    /// Points of MixedStore's figure 7.
    pub figure_7: Vec<Point>,
    /// Mechanisms behind the errors of table 3.
    pub mechanisms: Mechanisms,
}

impl Reproduction {
    /// Returns table 4 as a figure: lifetimes over the size of the flash.
    pub fn table_4_figure(&self) -> Figure {
        let mut curves = Vec::new();
        for (workload, colour) in [("Financial", 0), ("TPC-H", 2)] {
            let rows: Vec<&Provisioned> = self.table_4.iter().filter(|row| row.workload == workload).collect();
            let points = |years: fn(&Provisioned) -> Option<f64>| -> Vec<(f64, f64)> {
                let known = rows.iter().filter_map(|row| Some((row.flash.0 as f64 / 1e9, years(row)?)));
                known.filter(|(_, years)| years.is_finite()).collect()
            };
            curves.push(Curve::ours(workload, colour, points(|row| row.mixed.years)));
            curves.push(Curve::paper(workload, "table 4", colour, &points(|row| row.paper_years)));
        }
        Figure {
            paper: Paper::MixedStore,
            number: "table 4",
            title: "Life of the flash of a MixedStore",
            x: Axis::linear("flash, GB"),
            y: Axis::logarithmic("years"),
            curves,
            note: "Ours is a simulated MixedStore. A life that is not finite, or of flash that did not fill, has no point."
                .to_owned(),
        }
    }
}

/// Reasons for which the paper cannot be repeated. Each reason of this kind is a defect of Bimetal.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// The model cannot be trained on the drive.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The workload cannot be surveyed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The totals of a simulated MixedStore contradict each other.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A MixedStore cannot be built.
    #[error("a MixedStore with {0} of flash: {1}")]
    Impossible(Bytes, String),
}

/// Repeats the paper's tables and figures, with training sets that `cache` keeps. Calls `progress`
/// with the number of finished runs and of all runs.
///
/// # Errors
/// Returns no error that a user can cause.
pub fn reproduce(
    scale: &Scale,
    cache: &Cache,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Reproduction, PaperError> {
    let profile = drive()?;
    let provisioned = (scale.provisioned + NEW.len()) * PROVISIONED.len();
    let compared = LISTED.len() + mechanisms::RUNS + provisioned + SIZES.len() * FASTER.len();
    let runs = scale.workloads + scale.held_out + compared;
    let done = AtomicU64::new(0);
    let over = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, runs as u64);
    let training = |count, seed| cache.samples(Wanted { profile: &profile, spans: &Spans::PAPER, count, seed }, &over);
    let (samples, held_out) = (training(scale.workloads, 1)?, training(scale.held_out, 2)?);
    let model = Model::fit(&profile, Spans::PAPER, &samples, false)?;
    let trained_on = small(&profile)?.1;
    let subject = Subject { profile, model, chosen: scale.chosen };
    let table_3 = subject.table_3(trained_on, &over)?;
    let mechanisms = Mechanisms::observe(&subject, trained_on, &over)?;
    let figure_7 = subject.figure_7(&over)?;
    let table_4 = subject.table_4(scale, &over)?;
    let lives_from_new = subject.lives_from_new(scale, &over)?;
    let small: Vec<Sample> = samples.iter().filter(|sample| sample.workload.request_sectors < SMALL).copied().collect();
    let told = |sample: &Sample| (subject.model.predict(&sample.workload), sample.measured);
    Ok(Reproduction {
        errors: [subject.model.errors(&samples), subject.model.errors(&held_out)],
        error_of_small: subject.model.errors(&small).0,
        workloads: [samples.len(), held_out.len()],
        held_out: held_out.iter().map(told).collect(),
        trained_on,
        table_3,
        table_4,
        lives_from_new,
        figure_7,
        mechanisms,
        model: subject.model,
    })
}

/// Returns the profile of the paper's SSD.
fn drive() -> Result<Profile, ModelError> {
    let mut profile = Profile::load(DRIVE)?;
    profile.set_all(SETTINGS)?;
    Ok(profile)
}

/// The SSD, its model and the flash size that MixCP chose.
struct Subject {
    profile: Profile,
    model: Model,
    chosen: Bytes,
}

impl Subject {
    fn table_3(&self, flash: Bytes, over: &(dyn Fn() + Sync)) -> Result<Vec<Row>, ModelError> {
        let rows = LISTED.par_iter().with_max_len(1).map(|listed| {
            let compared = self.compare(flash, &listed.workload)?;
            over();
            Ok(Row { listed: *listed, compared })
        });
        rows.collect()
    }

    fn figure_7(&self, over: &(dyn Fn() + Sync)) -> Result<Vec<Point>, ModelError> {
        let points: Vec<(f64, f64)> = FASTER.iter().flat_map(|faster| SIZES.map(|times| (*faster, times))).collect();
        let points = points.into_par_iter().with_max_len(1).map(|(faster, times)| {
            let flash = self.times(times);
            let compared = self.compare(flash, &on(&FINANCIAL, times, faster))?;
            over();
            Ok(Point { faster, flash, compared })
        });
        points.collect()
    }

    fn table_4(&self, scale: &Scale, over: &(dyn Fn() + Sync)) -> Result<Vec<Provisioned>, PaperError> {
        let workloads = [("Financial", FINANCIAL), ("TPC-H", TPC_H)];
        let rows = workloads.into_iter().take(scale.provisioned).enumerate();
        let rows: Vec<_> = rows.flat_map(|(column, workload)| PROVISIONED.map(|row| (column, workload, row))).collect();
        let rows = rows.into_par_iter().with_max_len(1).map(|(column, (workload, averages), (name, times, years))| {
            let (flash, on_flash) = (self.times(times), on(&averages, times, 1.0));
            let alone = (on_flash.utilisation <= 1.0).then(|| self.compare(flash, &on_flash)).transpose()?;
            let mixed = self.mixed(flash, &averages, scale.mixed_requests)?;
            over();
            Ok(Provisioned { workload, name, flash, paper_years: years[column], alone, mixed })
        });
        rows.collect()
    }

    /// Simulates the lives of table 4 for Financial, counted from new flash on.
    fn lives_from_new(&self, scale: &Scale, over: &(dyn Fn() + Sync)) -> Result<Vec<FromNew>, PaperError> {
        let life = |requests: u64, (name, times, _): (&'static str, f64, _)| -> Result<_, PaperError> {
            let figures = self.play(self.times(times), &FINANCIAL, requests, 0.0)?;
            over();
            Ok((name, figures.at(YEARS).unwrap_or(f64::INFINITY)))
        };
        let all = NEW.into_par_iter().with_max_len(1).map(|part| {
            let requests = scale.mixed_requests / part;
            let rows = PROVISIONED.into_par_iter().with_max_len(1).map(|row| life(requests, row));
            Ok(FromNew { requests, years: rows.collect::<Result<_, PaperError>>()? })
        });
        all.collect()
    }

    /// Returns the chosen flash size times a factor.
    fn times(&self, times: f64) -> Bytes {
        Bytes((self.chosen.0 as f64 * times) as u64)
    }

    /// Predicts and simulates the behaviour of the SSD alone, with `flash` bytes.
    fn compare(&self, flash: Bytes, workload: &Characteristics) -> Result<Compared, ModelError> {
        let sample = measure(&sized(&self.profile, flash)?, flash, workload, 3)?;
        let predicted = self.model.predict(&sample.workload);
        let years =
            |behaviour: Behaviour| behaviour.life_years(&self.profile, flash.sectors()).unwrap_or(f64::INFINITY);
        Ok(Compared { predicted, simulated: sample.measured, years: (years(predicted), years(sample.measured)) })
    }

    /// Simulates a MixedStore with `flash` bytes of flash.
    fn mixed(&self, flash: Bytes, averages: &Characteristics, requests: u64) -> Result<Mixed, PaperError> {
        let figures = self.play(flash, averages, requests, WARMUP)?;
        let figure = |path: &str| figures.at(path).unwrap_or(0.0);
        let (response_ms, flash_share) = (figure("response_time_ms.all.mean"), figure("ssd_hit_ratio.write"));
        let written = averages.request_sectors * 512.0 * (1.0 - averages.read_fraction) * requests as f64;
        let years = figures.at(YEARS).unwrap_or(f64::INFINITY);
        let years = (written * WARMUP >= flash.0 as f64).then_some(years);
        Ok(Mixed { response_ms, years, flash_share })
    }

    /// Plays requests over the working set on a MixedStore with `flash` bytes of flash. The share
    /// `warmup` of the requests is not measured.
    fn play(
        &self,
        flash: Bytes,
        averages: &Characteristics,
        requests: u64,
        warmup: f64,
    ) -> Result<Box<Figures>, PaperError> {
        let drive = sized(&self.profile, flash)?;
        let settings = ["rated_cycles", "map_cache"].map(|key| {
            let value = drive.figures().find(|(name, ..)| *name == key).map_or_else(String::new, |(_, value, _)| value);
            (format!("ssd.{key}"), value.trim_matches('"').to_owned())
        });
        let common = Choices { settings: settings.to_vec(), ..Choices::default() };
        let replay = Replay::Timed { speedup: 1.0 };
        let load = Load::read(&generated(averages, self.chosen, requests)?, &common, warmup, &|_| {})?;
        let evaluator = Evaluator {
            load: &load,
            common: &common,
            replay,
            known_wear: &KnownWear::default(),
            variation: Default::default(),
        };
        match evaluator.run(&mixed_candidate(flash), Limits::default())? {
            Outcome::Done(figures) => Ok(figures),
            Outcome::Stopped { broken, .. } => Err(PaperError::Impossible(flash, broken)),
            Outcome::Impossible(why) => Err(PaperError::Impossible(flash, why)),
        }
    }
}

fn mixed_candidate(flash: Bytes) -> Candidate {
    let offer = |model: &str, kind, size| Offer {
        model: model.to_owned(),
        kind,
        size,
        bought: size,
        drives: 1,
        usd: 0.0,
        date: String::new(),
        source: String::new(),
        cell: None,
    };
    let scheme = schemes::ALL.iter().find(|scheme| scheme.name == "mixedstore").expect("it is in the registry");
    let drives =
        vec![(Role::Ssd, offer(DRIVE, Kind::Ssd, flash)), (Role::Hdd, offer(DISK, Kind::Hdd, Bytes(36_700_000_000)))];
    Candidate { index: 0, variant: 0, scheme, drives, settings: Vec::new(), cost_usd: 0.0 }
}

/// Returns `workload` for flash that is `times` as large, with `faster` times as many requests a
/// second.
fn on(workload: &Characteristics, times: f64, faster: f64) -> Characteristics {
    Characteristics {
        utilisation: workload.utilisation / times,
        interarrival_ms: workload.interarrival_ms / faster,
        ..*workload
    }
}

/// Returns requests with these averages, over the working set that fills the chosen flash to the
/// utilisation.
fn generated(averages: &Characteristics, chosen: Bytes, requests: u64) -> Result<Vec<Request>, ModelError> {
    let spec = WorkloadSpec {
        read_fraction: averages.read_fraction,
        size: training::sizes_around(averages.request_sectors)?,
        sequential: averages.sequentiality,
        interarrival: Interarrival::Poisson(Nanoseconds((averages.interarrival_ms * 1e6) as u64)),
        ..WorkloadSpec::new(requests, training::footprint(chosen, averages.utilisation))
    };
    Ok(Generator::new(&[spec], 5)?.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a drive with a model of few workloads, and the size on which it was trained.
    pub(super) fn subject(workloads: usize) -> (Subject, Bytes) {
        let profile = drive().unwrap();
        let samples = training::samples(&profile, &Spans::PAPER, workloads, 1, &|| {}).unwrap();
        let model = Model::fit(&profile, Spans::PAPER, &samples, false).unwrap();
        let flash = small(&profile).unwrap().1;
        (Subject { profile, model, chosen: flash }, flash)
    }

    /// Lifetimes came from one fill of the flash, in which little is collected: life on half the
    /// flash looked longer, and life on twice the flash shorter, than they stay.
    #[test]
    fn lifetime_is_measured_behind_the_first_fill() {
        let (subject, flash) = subject(20);
        let years = |requests| subject.mixed(flash, &FINANCIAL, requests).unwrap().years;
        // 44,000 requests write the flash once.
        assert_eq!(years(50_000), None);
        let [some, more] = [160_000, 320_000].map(|requests| years(requests).unwrap());
        assert!((some / more - 1.0).abs() < 0.1, "{some} {more}");
    }

    /// Repeats everything at a small scale. The trends of the paper's figures must still appear.
    /// Larger flash lasts longer. Faster arrivals wear flash more, and reads hardly wear the flash.
    #[test]
    fn reproduction_shows_the_trends_of_the_paper() {
        let scale =
            Scale { workloads: 40, held_out: 8, chosen: Bytes::from_mib(64), mixed_requests: 50_000, ..Scale::PAPER };
        let told = AtomicU64::new(0);
        let again = reproduce(&scale, &Cache::default(), &|done, all| {
            assert!(done <= all, "{done} of {all}");
            told.fetch_add(1, Ordering::Relaxed);
        });
        let again = again.unwrap();
        assert_eq!(told.into_inner(), 40 + 8 + 6 + 15 + 6 + 6 + 20);
        let years = again.lives_from_new.iter().map(|lives| [0, 1, 2].map(|at| lives.years[at].1));
        assert!(years.clone().all(|[over, chosen, under]| over > chosen && chosen > under), "{years:?}");
        assert_eq!((again.table_3.len(), again.table_4.len(), again.figure_7.len()), (6, 6, 20));
        let point = |faster: f64, times: f64| {
            let flash = (scale.chosen.0 as f64 * times) as u64;
            let found = again.figure_7.iter().find(|point| point.faster == faster && point.flash.0 == flash);
            found.unwrap().compared
        };
        let (usual, larger, faster) = (point(1.0, 1.0), point(1.0, 2.0), point(2.0, 1.0));
        assert!(larger.years.0 > usual.years.0 && larger.years.1 > usual.years.1, "{usual:?} {larger:?}");
        assert!(faster.years.0 < usual.years.0 && faster.years.1 < 0.7 * usual.years.1, "{usual:?} {faster:?}");
        let [over, chosen, under] = [0, 1, 2].map(|at| again.table_4[at].clone());
        assert!(under.alone.is_none(), "the working set does not fit");
        assert!(over.alone.unwrap().years.1 > 1.5 * chosen.alone.unwrap().years.1);
        assert!(
            over.mixed.years.is_none() && under.mixed.years > Some(0.0) && under.mixed.response_ms > 0.0,
            "{over:?} {under:?}"
        );
        let tpc_h = &again.table_4[4];
        assert!(tpc_h.alone.unwrap().years.1 > chosen.alone.unwrap().years.1, "{tpc_h:?}");
    }
}
