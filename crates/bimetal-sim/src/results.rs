//! Document that `simulate` and `compare` print, in the names and the nesting on which scripts
//! depend.
//!
//! Every key of the contract is always present. A figure that does not apply or is not finite is
//! null, never 0. An object whose figures do not apply (the SSD of `hdd-only`) keeps its keys, and
//! each of these keys is null. Keys may be added, never renamed. Keys are in the order of the
//! fields, and maps are sorted, so the same run gives the same bytes.
//!
//! The whole document but [`RunSpeed`] is a function of input and seed. Figures that a server
//! reports, too, are figures of `bimetal-measure`.

use std::collections::BTreeMap;

use bimetal_measure::json::{to_compact_json, to_json};
use bimetal_measure::response_time::{CdfByKind, ResponseTimes};
use bimetal_measure::throughput::Throughput;
use bimetal_measure::volume::{HitRatio, Migration};
use bimetal_models::endurance::LimitedBy;
use serde::Serialize;

use crate::findings::{Finding, NoChoice};
use crate::lifetime::Unknown;
use crate::over_share::PointOverShare;
use crate::setup::Sizing;

/// Document that `simulate` (one run) and `compare` (a run for each scheme) print with `--json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Document {
    /// Version of Bimetal that made the document.
    pub bimetal: String,
    /// Command line that made the document, as a shell takes it; null when a library made it.
    pub command: Option<String>,
    /// Options in force, given or default: `block`, `warmup`, `replay`, `seed` and the like, and
    /// `set` with all settings.
    pub options: BTreeMap<String, String>,
    /// Workload as simulated (after `--limit` and `--device`, warm-up included).
    pub trace: TraceSummary,
    /// Findings that a reader needs before the figures.
    pub findings: Vec<Finding>,
    /// Runs of the schemes, in the order in which they were requested: first runs with drives on
    /// sale or of given sizes, then runs with a share.
    pub runs: Vec<Run>,
    /// Runs of a comparison that no other run beats, the cheapest first; null in documents that
    /// compare nothing.
    pub choices: Option<Vec<ChosenRun>>,
    /// Run that is surely cheaper to own than the choice that is the cheapest to buy; null if there
    /// is none.
    pub cheaper_to_own: Option<CheaperRun>,
    /// Schemes that cannot be built with the drives of this comparison.
    pub left_out: Vec<LeftOut>,
    /// Figures of each scheme over the SSD's share of the footprint; empty unless they were
    /// requested, for example by a report.
    pub over_share: Vec<PointOverShare>,
}

impl Document {
    /// Returns the runs with whole drives or given sizes, and the runs with a share of the working
    /// set. Figures are compared within one block.
    pub fn blocks(&self) -> (&[Run], &[Run]) {
        let first = self.runs.first().map(|run| run.sizing);
        let other = self.runs.iter().position(|run| run.sizing == Sizing::Share && first != Some(Sizing::Share));
        self.runs.split_at(other.unwrap_or(self.runs.len()))
    }

    /// Returns the schemes that are left out, each reason once.
    pub fn reasons_left_out(&self) -> Vec<&LeftOut> {
        let mut once: Vec<&LeftOut> = Vec::new();
        for scheme in &self.left_out {
            if !once.iter().any(|known| known.label == scheme.label && known.reason == scheme.reason) {
                once.push(scheme);
            }
        }
        once
    }
}

/// Run that no other run of a comparison beats. A run is beaten if a run that costs no more is as
/// fast and its SSD lasts as long. The cheapest choice has no limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChosenRun {
    /// Index of the run in [`Document::runs`], from 0.
    pub run: usize,
    /// Name of the scheme with its settings, as in [`Run::label`].
    pub label: String,
    /// Purpose of the choice in words, like `for a p99 below 20.0 ms`.
    pub purpose: String,
    /// Milliseconds below which the p99 of this choice lies, and of no cheaper choice.
    pub p99_below_ms: Option<f64>,
    /// Milliseconds below which the mean of this choice lies, and of no cheaper choice.
    pub mean_below_ms: Option<f64>,
    /// Years that the SSD of this choice surely lasts longer, and of no cheaper choice.
    pub outlasts_years: Option<f64>,
}

/// Run with the lowest cost of a year, of which even the highest possible cost is well below the
/// lowest possible cost of the choice that is the cheapest to buy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheaperRun {
    /// Index of the run in [`Document::runs`], from 0.
    pub run: usize,
    /// Name of the scheme with its settings, as in [`Run::label`].
    pub label: String,
}

/// Scheme that cannot be built with the drives of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// Name of the scheme.
    pub scheme: String,
    /// Name of the scheme with the settings of this entry alone, as in [`Run::label`].
    pub label: String,
    /// Origin of the drives' sizes.
    pub sizing: Sizing,
    /// Reason, in a sentence.
    pub reason: String,
}

/// Summary of the trace that was read.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TraceSummary {
    /// Name of the file, or of the embedded sample.
    pub name: String,
    /// Format of the trace, by the name that `--format` takes.
    pub format: String,
    /// Number of reads + writes + flushes + discards.
    pub requests: u64,
    /// Number of read requests.
    pub reads: u64,
    /// Number of write requests.
    pub writes: u64,
    /// Number of flush requests.
    pub flushes: u64,
    /// Number of discard requests.
    pub discards: u64,
    /// Bytes that the reads request.
    pub read_bytes: u64,
    /// Bytes that the writes carry.
    pub write_bytes: u64,
    /// Distinct blocks touched, in bytes.
    pub footprint_bytes: u64,
    /// Time from the first arrival to the last, in seconds.
    pub duration_s: f64,
    /// Number of lines that could not be read and were skipped (`--skip-bad-lines`).
    pub skipped_lines: u64,
    /// First byte after the highest address touched, over all units laid one after another. A
    /// wrong unit of address in the trace shows first in this figure.
    pub address_end_bytes: Option<u64>,
    /// Number of devices whose addresses are laid one after another; null if it was not counted.
    pub devices: Option<u64>,
    /// Bytes that the volume must hold: the capacity asked for, or the recorded device's size; null
    /// if neither is known.
    pub capacity_bytes: Option<u64>,
}

/// Run of one scheme over the trace.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Run {
    /// Name of the scheme.
    pub scheme: String,
    /// Name of the scheme with the settings of this run alone, like `griffin:timeout=30s`; this
    /// label differs between the runs of a comparison.
    pub label: String,
    /// Origin of the drives' sizes: `sold`, `share` or `given`.
    pub sizing: Sizing,
    /// Profile of the SSD; null if the scheme has no SSD.
    pub ssd: Option<String>,
    /// Profile of the HDD; null if the scheme has no HDD.
    pub hdd: Option<String>,
    /// Size of the SSD (the sum of all SSDs).
    pub ssd_bytes: Option<u64>,
    /// Size of the HDD (the sum of all HDDs).
    pub hdd_bytes: Option<u64>,
    /// Bytes that the volume offers its user.
    pub exported_bytes: u64,
    /// Parameters of the scheme, as `--set` takes them.
    pub settings: BTreeMap<String, String>,
    /// All values that were not given, apart from the scheme's settings: sizes, drives, format,
    /// precondition.
    pub assumed: BTreeMap<String, String>,
    /// Response times, from arrival to completion.
    pub response_time_ms: ResponseTimes,
    /// Finished work per second.
    pub throughput: Throughput,
    /// Number of requests arrived and not finished, averaged over time.
    pub queue_depth_mean: Option<f64>,
    /// Greatest number of requests arrived and not finished.
    pub queue_depth_max: Option<u64>,
    /// Share of the time at which a request had waited for more than a second.
    pub behind_fraction: Option<f64>,
    /// Seconds from the end of the warm-up until a request had waited for more than a second for
    /// the first time; null if no request waited so long.
    pub behind_since_s: Option<f64>,
    /// Effect of the block layer on the trace's requests; null without a block layer.
    pub block_layer: Option<BlockLayerFigures>,
    /// 1 − blocks written to the home / blocks written by the host (Griffin 3.2); `griffin` and
    /// `ssd-only` only.
    pub write_savings: Option<f64>,
    /// Fraction of read blocks served by the log (Griffin 3.2); `griffin` and `ssd-only` only.
    pub read_penalty: Option<f64>,
    /// Share of blocks that the SSD served, for schemes that can choose between drives.
    pub ssd_hit_ratio: HitRatio,
    /// Background moves, by batches.
    pub migration: Migration,
    /// Share of pages written to the SSD that follow the adjacent page in the order written
    /// (Griffin 6.2).
    pub ssd_write_sequentiality: Option<f64>,
    /// Number of blocks that bypassed the cache, by reason.
    pub bypass: BTreeMap<String, u64>,
    /// Error of a scheme's own forecast of response times; null if the scheme makes no forecast.
    pub prediction_error: Option<PredictionError>,
    /// Figures of the drives, summed by kind.
    pub devices: Devices,
    /// Figures of each drive.
    pub members: Vec<Member>,
    /// Reason for which the run is not offered as a choice; null if the run is a choice. A price
    /// that is not known is not such a reason here.
    pub no_choice: Option<NoChoice>,
    /// Cost of the volume.
    pub cost: Cost,
    /// Speed of the simulation: the only part of the document that differs between two equal runs.
    pub run: RunSpeed,
    /// Curves for the plots.
    pub series: Series,
}

impl Run {
    /// Returns a run without figures, whose label is the name of its scheme.
    pub fn named(scheme: &str) -> Self {
        Self { scheme: scheme.to_owned(), label: scheme.to_owned(), ..Self::default() }
    }
}

/// Effect of the block layer on the requests of a trace, warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockLayerFigures {
    /// Number of requests of the trace.
    pub queued: u64,
    /// Number of requests to the drive.
    pub issued: u64,
    /// Mean bytes of a read or write to the drive.
    pub mean_issued_bytes: Option<f64>,
    /// Mean milliseconds of a read or write to the drive, from the arrival of the first request of
    /// the trace that is a part of this read or write.
    pub mean_ms: Option<f64>,
    /// Largest size of a request to the drive in KiB.
    pub max_sectors_kb: u64,
    /// Scheduler: `mq-deadline` or `none`.
    pub scheduler: String,
    /// Largest number of requests that the drive has at once.
    pub queue_depth: u32,
}

/// Error of a scheme's own forecast of response times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictionError {
    /// Mean absolute error.
    pub mean_ms: f64,
    /// Coefficient of determination.
    pub r2: f64,
    /// Mean absolute error of a baseline that predicts the last value again (MixedStore, figure 9).
    pub last_value_mean_ms: f64,
    /// Mean absolute error of the regression alone. The predictions are made by the last value
    /// whenever it predicted better than the regression.
    pub regression_mean_ms: f64,
    /// Share of the predictions that the regression made.
    pub by_regression: f64,
    /// Share of the variance of the training phase that the regression explains; null before there
    /// is a regression.
    pub training_r2: Option<f64>,
    /// Coefficients of the regression by name; empty before there is a regression.
    pub coefficients: BTreeMap<String, Coefficient>,
}

/// Coefficient of a regression.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Coefficient {
    /// Increase of the forecast if the term increases by one.
    pub value: f64,
    /// Standard error; null for a term that follows from others or never varied.
    pub standard_error: Option<f64>,
}

/// Figures of the drives, summed by kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Devices {
    /// Figures of all SSDs; each figure is null without an SSD.
    pub ssd: SsdFigures,
    /// Figures of all HDDs; each figure is null without an HDD.
    pub hdd: HddFigures,
}

/// Figures of an SSD.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SsdFigures {
    /// Number of read operations.
    pub reads: Option<u64>,
    /// Number of write operations.
    pub writes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Half the 95 % interval of `write_bytes`; given only for the sum over all SSDs.
    pub write_bytes_pm: Option<f64>,
    /// Share of the time in which the drive was busy.
    pub busy_fraction: Option<f64>,
    /// Energy in joules.
    pub energy_j: Option<f64>,
    /// Figures of the flash inside the drive.
    pub flash: FlashFigures,
}

/// Figures of the flash inside an SSD.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FlashFigures {
    /// Number of pages programmed for the host.
    pub pages_programmed_host: Option<u64>,
    /// Number of pages programmed by garbage collection.
    pub pages_programmed_gc: Option<u64>,
    /// Number of pages programmed, by cause.
    pub pages_programmed_by_cause: BTreeMap<String, u64>,
    /// Bytes programmed for all causes / bytes that the host wrote to the drive.
    pub write_amplification: Option<f64>,
    /// Half the 95 % interval of `write_amplification`.
    pub write_amplification_pm: Option<f64>,
    /// Number of blocks erased.
    pub erases: Option<u64>,
    /// Number of blocks erased, by cause.
    pub erases_by_cause: BTreeMap<String, u64>,
    /// Number of erases per second of virtual time.
    pub erase_rate_per_s: Option<f64>,
    /// Distribution of the erases over the blocks.
    pub erase_count: EraseCount,
    /// Number of blocks by number of erases; null after a warm-up, and for several drives together.
    pub blocks_by_erases: Option<BTreeMap<u32, u64>>,
    /// Seconds that dies were at work, by cause; two dies at a time count twice.
    pub die_busy_s_by_cause: BTreeMap<String, f64>,
    /// Seconds that commands waited for a die, by the cause of the operation that occupied the die.
    /// A command that waits for two dies at once counts twice.
    pub wait_s_by_cause: BTreeMap<String, f64>,
    /// Joules by use; empty if the profile has no power figures.
    pub energy_j_by_operation: BTreeMap<String, f64>,
    /// Lifetime in years: the shorter of two lifetimes, by the writes that the maker warrants and
    /// by the rated cycles. If the lifetime is null, `lifetime_unknown` has the reason.
    pub lifetime_years: Option<f64>,
    /// Limit that ends the life first.
    pub lifetime_limited_by: Option<LimitedBy>,
    /// Years until the writes that the maker warrants (TBW) are used up; null if unknown.
    pub lifetime_years_warranted: Option<f64>,
    /// Years until the rated cycles are used up, at the rate of erases in steady state. Ten erases
    /// of a block with one bit in each cell are assumed to use up one cycle.
    pub lifetime_years_cycles: Option<f64>,
    /// Shortest and longest lifetime that the trace leaves possible; null if not computed.
    pub lifetime_range_years: Option<(f64, f64)>,
    /// Limit that ends the shortest of these lives; null if not computed.
    pub lifetime_shortest_limited_by: Option<LimitedBy>,
    /// Reason for which the lifetime is unknown; null if it is known.
    pub lifetime_unknown: Option<Unknown>,
    /// Drive writes a day: bytes written a day, as a multiple of the drive's size; of several
    /// drives, the largest figure. Null without times.
    pub dwpd: Option<f64>,
    /// Lifetime in years until the most worn block has used up its cycles; null with
    /// `lifetime_unlimited`.
    pub lifetime_worst_block_years: Option<f64>,
    /// Set if no block was erased in the run, and no lifetime is known.
    pub lifetime_unlimited: Option<bool>,
}

/// Distribution of the erases over the blocks of the flash.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct EraseCount {
    /// Erases of the least erased block.
    pub min: Option<u64>,
    /// Mean over all blocks.
    pub mean: Option<f64>,
    /// Erases of the most erased block.
    pub max: Option<u64>,
    /// Standard deviation over all blocks.
    pub stddev: Option<f64>,
}

/// Figures of an HDD.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct HddFigures {
    /// Number of read operations.
    pub reads: Option<u64>,
    /// Number of write operations.
    pub writes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Share of the time in which the drive was busy.
    pub busy_fraction: Option<f64>,
    /// Half the 95 % interval of `busy_fraction`; given only for all HDDs together.
    pub busy_fraction_pm: Option<f64>,
    /// Head time, in seconds for each second of the run; given only for all HDDs together.
    pub disk_head_time: Option<HeadTimeFigures>,
    /// Energy in joules.
    pub energy_j: Option<f64>,
    /// Number of operations that moved the arm.
    pub seeks: Option<u64>,
    /// Number of times that the spindle was stopped.
    pub spin_downs: Option<u64>,
    /// Size of the staging area of a shingled disk; null for a disk with conventional recording.
    pub staging_area_bytes: Option<u64>,
    /// Number of bands that a shingled disk wrote anew; null for a disk with conventional
    /// recording.
    pub bands_cleaned: Option<u64>,
}

/// Seconds in which the arms of disks move, or sectors pass or are waited for, for each second of
/// the run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct HeadTimeFigures {
    /// Mean over the whole run.
    pub mean: Option<f64>,
    /// Mean over the busiest ten minutes, with windows counted from the start; null in a shorter
    /// run.
    pub peak_10min: Option<f64>,
}

/// Drive of the volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// Name of the drive, as `--member` takes it.
    pub id: String,
    /// Volume that the drive is a member of, if the run has several volumes.
    pub volume: Option<String>,
    /// Role in the scheme: `home`, `cache`, `log`…
    pub role: String,
    /// Profile of the drive.
    pub profile: String,
    /// Size of the drive, or of all drives that are used as one.
    pub bytes: u64,
    /// Number of equal drives that are bought and used as one.
    pub drives: u64,
    /// Size of the drives that are bought: more than `bytes` if only a part of a drive is used. The
    /// price and the lifetime are those of the whole drives.
    pub bought_bytes: u64,
    /// Bytes of the scheme's metadata written to the drive.
    pub metadata_bytes: u64,
    /// Figures of the drive: the keys of an SSD or of an HDD.
    #[serde(flatten)]
    pub figures: MemberFigures,
    /// Sources of the figures of its profile.
    pub provenance: Provenance,
}

#[cfg(test)]
impl Member {
    /// Returns a disk at home with these figures.
    pub(crate) fn of_disk(figures: HddFigures) -> Self {
        Self {
            id: "hdd".to_owned(),
            volume: None,
            role: "home".to_owned(),
            profile: "p".to_owned(),
            bytes: 4096,
            drives: 1,
            bought_bytes: 4096,
            metadata_bytes: 0,
            figures: MemberFigures::Hdd(figures),
            provenance: Provenance::default(),
        }
    }
}

/// Figures of a member, by kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MemberFigures {
    /// Figures of an SSD.
    Ssd(Box<SsdFigures>),
    /// Figures of an HDD.
    Hdd(HddFigures),
}

impl MemberFigures {
    /// Returns the bytes written to the drive.
    pub fn write_bytes(&self) -> Option<u64> {
        match self {
            Self::Ssd(figures) => figures.write_bytes,
            Self::Hdd(figures) => figures.write_bytes,
        }
    }

    /// Returns the energy of the drive in joules.
    pub fn energy_j(&self) -> Option<f64> {
        match self {
            Self::Ssd(figures) => figures.energy_j,
            Self::Hdd(figures) => figures.energy_j,
        }
    }

    /// Returns the share of the time during which the drive was busy.
    pub fn busy_fraction(&self) -> Option<f64> {
        match self {
            Self::Ssd(figures) => figures.busy_fraction,
            Self::Hdd(figures) => figures.busy_fraction,
        }
    }
}

/// Sources of a profile and its price, as the profile gives them.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Provenance {
    /// Description of the drive.
    pub description: Option<String>,
    /// Source of the figures.
    pub source: Option<String>,
    /// Price at the size used.
    pub price_usd: Option<f64>,
    /// Source of the price.
    pub price_source: Option<String>,
    /// Date of the price.
    pub price_date: Option<String>,
}

/// Cost of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Cost {
    /// Price of all SSDs; null if the scheme has none or the profile has no price.
    pub ssd_usd: Option<f64>,
    /// Price of all HDDs; null if the scheme has none or the profile has no price.
    pub hdd_usd: Option<f64>,
    /// Price of the controller: `--set controller_usd=`, or for one scheme alone `--set
    /// hyperduo.controller_usd=`.
    pub controller_usd: Option<f64>,
    /// Sum of all prices; null if the price of a drive is not known.
    pub total_usd: Option<f64>,
    /// Total per exported gigabyte (10⁹ bytes).
    pub usd_per_gb: Option<f64>,
    /// Score: MB/s under closed replay; null in a replay at the times of the trace.
    pub score: Option<f64>,
    /// Score / total.
    pub score_per_usd: Option<f64>,
    /// Score / controller, storage managers figure 8; null if the controller costs nothing.
    pub score_per_manager_usd: Option<f64>,
    /// Score / (controller + SSD), storage managers eq. 1.
    pub budget: Option<f64>,
    /// Mean cost of a year of ownership: drives, their successors and energy
    /// ([`ownership`](crate::ownership)); null if a price, a failure rate, a power or a lifetime is
    /// not known.
    pub usd_per_year: Option<f64>,
    /// Cost of a year with the shortest lives that the trace leaves possible.
    pub usd_per_year_most: Option<f64>,
    /// Probability that data are lost within a year by failures of drives; null if a failure rate
    /// is not known, or volumes are members of volumes.
    pub loss_probability_per_year: Option<f64>,
    /// Carbon dioxide (equivalent) that making the drives set free, in kg: the lowest and the
    /// highest that sources give; null for a share of a drive and for a cloud volume.
    pub embodied_carbon_kg: Option<[f64; 2]>,
}

/// Speed of the simulation itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RunSpeed {
    /// Seconds on the wall clock.
    pub wall_s: Option<f64>,
    /// Number of requests simulated per second on the wall clock.
    pub requests_per_s: Option<f64>,
    /// Largest amount of memory that the process has held so far.
    pub peak_rss_bytes: Option<u64>,
}

/// Curves of a run, in columns: the elements of the arrays of an object correspond by position.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Series {
    /// Distribution of response times.
    pub response_time_cdf: CdfByKind,
    /// Response times over time, by arrival.
    pub latency: LatencySeries,
    /// Bytes written to the SSD in each bucket; null if the scheme has no SSD.
    pub ssd_written: Option<TimeSeries>,
    /// Bytes off home or not yet written home, averaged over each bucket; null if the scheme never
    /// has such bytes.
    pub dirty: Option<TimeSeries>,
    /// Number of requests arrived and not finished, averaged over each bucket.
    pub queue_depth: Option<TimeSeries>,
}

/// Response times over time: buckets of equal width, by the time of arrival.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LatencySeries {
    /// Start of the first bucket, in seconds since the first request of the trace.
    pub start_s: f64,
    /// Width of a bucket in seconds.
    pub bucket_s: f64,
    /// Number of requests that arrived in the bucket.
    pub requests: Vec<u64>,
    /// Mean response time in milliseconds; null in a bucket without requests.
    pub mean_ms: Vec<Option<f64>>,
    /// 99th percentile, at most 6.3 % too high; null in a bucket without requests.
    pub p99_ms: Vec<Option<f64>>,
}

/// Quantity over time: buckets of equal width.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TimeSeries {
    /// Start of the first bucket, in seconds since the first request of the trace.
    pub start_s: f64,
    /// Width of a bucket in seconds.
    pub bucket_s: f64,
    /// Values of the buckets.
    pub values: Vec<f64>,
}

impl Document {
    /// Returns the document as JSON: objects indented, arrays on one line, floats rounded
    /// ([`bimetal_measure::json`]), and a line end at the end.
    ///
    /// # Panics
    /// The function never panics: keys are strings, and writing to memory does not fail.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Returns the document as JSON on one line, for programs.
    pub fn to_compact_json(&self) -> String {
        to_compact_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_measure::durations::Cdf;
    use serde_json::Value;

    fn document() -> Document {
        let trace = TraceSummary { name: "t".into(), format: "msr".into(), requests: 3, ..TraceSummary::default() };
        let member = Member {
            id: "ssd".into(),
            volume: None,
            role: "home".into(),
            profile: "p".into(),
            bytes: 4096,
            drives: 1,
            bought_bytes: 4096,
            metadata_bytes: 0,
            figures: MemberFigures::Ssd(Box::default()),
            provenance: Provenance::default(),
        };
        let run = Run { members: vec![member], ..Run::named("griffin") };
        Document {
            bimetal: "0.1.0".into(),
            command: None,
            options: BTreeMap::new(),
            trace,
            findings: Vec::new(),
            runs: vec![run],
            choices: None,
            cheaper_to_own: None,
            left_out: Vec::new(),
            over_share: Vec::new(),
        }
    }

    fn parsed(document: &Document) -> Value {
        serde_json::from_str(&document.to_json()).expect("valid JSON")
    }

    fn keys(value: &Value) -> Vec<&str> {
        let mut keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys
    }

    /// Asserts that each of `expected` (blank-separated) is a key of `value`.
    fn assert_has(value: &Value, expected: &str) {
        let keys = keys(value);
        for key in expected.split_whitespace() {
            assert!(keys.contains(&key), "no key {key} in {keys:?}");
        }
    }

    /// Every key of the documented JSON is printed, even if it has no value.
    #[test]
    fn document_has_every_key_even_without_a_value() {
        let value = parsed(&document());
        assert_has(&value, "bimetal trace runs");
        assert_has(
            &value["trace"],
            "name format requests reads writes flushes discards read_bytes write_bytes footprint_bytes duration_s \
             skipped_lines",
        );
        let run = &value["runs"][0];
        assert_has(
            run,
            "scheme label ssd hdd ssd_bytes hdd_bytes exported_bytes settings assumed response_time_ms throughput \
             queue_depth_mean write_savings read_penalty ssd_hit_ratio migration ssd_write_sequentiality bypass \
             prediction_error devices members cost run",
        );
        for kind in ["all", "read", "write"] {
            assert_has(&run["response_time_ms"][kind], "mean p50 p90 p95 p99 p999 p9999 max");
        }
        assert_has(&run["throughput"], "iops mb_per_s");
        assert_has(&run["ssd_hit_ratio"], "read write");
        assert_has(&run["migration"], "count bytes mean_interval_s mean_bytes");
        let ssd = "reads writes read_bytes write_bytes busy_fraction energy_j flash";
        assert_has(&run["devices"]["ssd"], ssd);
        assert_has(
            &run["devices"]["ssd"]["flash"],
            "pages_programmed_host pages_programmed_gc pages_programmed_by_cause write_amplification erases \
             erases_by_cause erase_rate_per_s erase_count lifetime_years lifetime_limited_by lifetime_years_warranted lifetime_years_cycles \
             lifetime_range_years lifetime_shortest_limited_by lifetime_unknown dwpd lifetime_worst_block_years lifetime_unlimited",
        );
        assert_has(&run["devices"]["ssd"]["flash"]["erase_count"], "min mean max stddev");
        assert_has(
            &run["devices"]["hdd"],
            "reads writes read_bytes write_bytes busy_fraction disk_head_time energy_j seeks spin_downs",
        );
        assert_has(&run["members"][0], "id role profile bytes metadata_bytes");
        assert_has(&run["members"][0], ssd);
        assert_has(
            &run["cost"],
            "ssd_usd hdd_usd controller_usd total_usd usd_per_gb score score_per_usd score_per_manager_usd budget usd_per_year \
             usd_per_year_most loss_probability_per_year",
        );
        assert_has(&run["run"], "wall_s requests_per_s peak_rss_bytes");
    }

    #[test]
    fn a_figure_that_does_not_apply_is_null_and_never_zero() {
        let mut document = document();
        document.runs[0].queue_depth_mean = Some(f64::NAN);
        let value = parsed(&document);
        let run = &value["runs"][0];
        for figure in [
            &run["write_savings"],
            &run["prediction_error"],
            &run["response_time_ms"]["read"]["p99"],
            &run["devices"]["hdd"]["seeks"],
            &run["queue_depth_mean"],
        ] {
            assert!(figure.is_null(), "{figure}");
        }
    }

    /// The test pins the one place that rounds all floats: figures have more digits than points of
    /// a curve.
    #[test]
    fn figures_are_rounded_finer_than_curve_points() {
        let mut document = document();
        document.trace.duration_s = 604_800.123_456_789;
        document.runs[0].write_savings = Some(0.1 + 0.2);
        document.runs[0].series.response_time_cdf.all =
            Cdf { ms: vec![1.234_567_89, 0.0], requests: vec![123_456_789] };
        let text = document.to_json();
        assert!(text.contains("\"duration_s\": 604800.123,"), "{text}");
        assert!(text.contains("\"write_savings\": 0.3,"), "{text}");
        assert!(text.contains("\"ms\": [1.23457,0.0]"), "{text}");
        assert!(text.contains("\"requests\": [123456789]"), "{text}");
        assert_eq!(document.to_compact_json().lines().count(), 1);
        assert_eq!(parsed(&document), serde_json::from_str::<Value>(&document.to_compact_json()).unwrap());
    }

    #[test]
    fn keys_stand_in_the_order_of_the_contract() {
        let text = document().to_json();
        let places: Vec<_> = ["\"bimetal\"", "\"trace\"", "\"runs\"", "\"scheme\"", "\"response_time_ms\"", "\"cost\""]
            .iter()
            .map(|key| text.find(key).expect("the key is there"))
            .collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}
