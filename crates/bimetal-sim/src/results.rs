//! The document that `simulate` and `compare` give: what is asked of a run, in the names and the nesting that scripts
//! depend on.
//!
//! Every key of the contract is always there. A figure that does not apply is null, never 0, and so is one that is no
//! finite number; an object whose figures do not apply (the SSD of `hdd-only`) keeps its keys, each of them null. Keys
//! may be added, never renamed. Order is the order of the fields; maps are sorted: the same run gives the same bytes.
//!
//! Everything but [`RunSpeed`] is a function of input and seed. [`Document::to_json`] is the one place that rounds:
//! figures keep [`FIGURE_DIGITS`] significant digits and points of a curve [`CURVE_DIGITS`], beyond what any model
//! means, so that the last bit of another machine's logarithm does not show.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::findings::Finding;

/// Significant digits of a figure in JSON.
pub const FIGURE_DIGITS: usize = 9;

/// Significant digits of an element of an array (a point of a curve) in JSON.
pub const CURVE_DIGITS: usize = 6;

/// What `simulate` (one run) and `compare` (a run a scheme) print with `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// The version of Bimetal that made it.
    pub bimetal: String,
    /// The command line that made it, as a shell takes it; null when a library made it.
    pub command: Option<String>,
    /// The options in force, wherever they came from: `block`, `warmup`, `replay`, `seed` and the like, and `set` with
    /// everything that was set.
    pub options: BTreeMap<String, String>,
    /// The workload, as it was simulated (after `--limit` and `--device`, warm-up included).
    pub trace: TraceSummary,
    /// What to know before the figures.
    pub findings: Vec<Finding>,
    /// One run a scheme, in the order asked for.
    pub runs: Vec<Run>,
}

/// What was read of the trace.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TraceSummary {
    /// The file, or the name of the embedded sample.
    pub name: String,
    /// Its format, by the name that `--format` takes.
    pub format: String,
    /// Reads + writes + flushes + discards.
    pub requests: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Discard requests.
    pub discards: u64,
    /// Bytes that the reads ask for.
    pub read_bytes: u64,
    /// Bytes that the writes bring.
    pub write_bytes: u64,
    /// Distinct blocks touched, in bytes.
    pub footprint_bytes: u64,
    /// From the first arrival to the last, in seconds.
    pub duration_s: f64,
    /// Lines that could not be read and were counted instead (`--skip-bad-lines`).
    pub skipped_lines: u64,
    /// The first byte behind the highest address touched, over all units laid one after another: a wrong unit of
    /// address shows here first.
    pub address_end_bytes: Option<u64>,
}

/// One scheme over the trace.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Run {
    /// The scheme.
    pub scheme: String,
    /// Profile of the SSD; null where the scheme has none.
    pub ssd: Option<String>,
    /// Profile of the HDD; null where the scheme has none.
    pub hdd: Option<String>,
    /// Size of the SSD (all of them).
    pub ssd_bytes: Option<u64>,
    /// Size of the HDD (all of them).
    pub hdd_bytes: Option<u64>,
    /// What the volume offers its user.
    pub exported_bytes: u64,
    /// The scheme's parameters, as `--set` takes them.
    pub settings: BTreeMap<String, String>,
    /// Everything else that was not given: sizes, drives, format, preconditioning.
    pub assumed: BTreeMap<String, String>,
    /// From arrival to completion.
    pub response_time_ms: ResponseTimes,
    /// What was finished per second.
    pub throughput: Throughput,
    /// Requests arrived and not finished, averaged over time.
    pub queue_depth_mean: Option<f64>,
    /// Requests arrived and not finished, at most.
    pub queue_depth_max: Option<u64>,
    /// Share of the time at which some request had waited for more than a second.
    pub behind_fraction: Option<f64>,
    /// What the block layer made of the trace's requests; null where there is none.
    pub block_layer: Option<BlockLayerFigures>,
    /// 1 − blocks written to the home / blocks written by the host (Griffin 3.2); `griffin` and `ssd-only` only.
    pub write_savings: Option<f64>,
    /// Fraction of read blocks served by the log (Griffin 3.2); `griffin` and `ssd-only` only.
    pub read_penalty: Option<f64>,
    /// Share of blocks that the SSD served, of schemes in which it is a choice.
    pub ssd_hit_ratio: HitRatio,
    /// Background moves by batches.
    pub migration: MigrationSummary,
    /// Share of pages written to the SSD that follow the adjacent page in the order written (Griffin 6.2).
    pub ssd_write_sequentiality: Option<f64>,
    /// Blocks that went past the cache, by reason.
    pub bypass: BTreeMap<String, u64>,
    /// How well a scheme's own forecast of response times did; null where it makes none.
    pub prediction_error: Option<PredictionError>,
    /// The drives, added up by kind.
    pub devices: Devices,
    /// The drives, one by one.
    pub members: Vec<Member>,
    /// What it costs.
    pub cost: Cost,
    /// How fast the simulation was: the only part that differs between two runs of the same.
    pub run: RunSpeed,
    /// Curves for the plots.
    pub series: Series,
}

/// What the block layer made of the requests of a trace, warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockLayerFigures {
    /// Requests of the trace.
    pub queued: u64,
    /// Requests to the drive.
    pub issued: u64,
    /// Bytes of a read or write to the drive.
    pub mean_issued_bytes: Option<f64>,
    /// Milliseconds that a read or write to the drive took, from the arrival of the first request that is a part of it.
    pub mean_ms: Option<f64>,
    /// KiB of a request to the drive, at most.
    pub max_sectors_kb: u64,
    /// `mq-deadline` or `none`.
    pub scheduler: String,
    /// Requests that the drive has at once.
    pub queue_depth: u32,
}

/// Response times in milliseconds; `all` is reads and writes together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ResponseTimes {
    /// Reads and writes.
    pub all: Distribution,
    /// Reads.
    pub read: Distribution,
    /// Writes.
    pub write: Distribution,
}

/// Mean, percentiles and maximum; all null where there was no request of the kind. Mean and maximum are exact, a
/// percentile is at most 0.1 % too high.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Distribution {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90 % are no longer.
    pub p90: Option<f64>,
    /// 95 % are no longer.
    pub p95: Option<f64>,
    /// 99 % are no longer.
    pub p99: Option<f64>,
    /// 99.9 % are no longer.
    pub p999: Option<f64>,
    /// 99.99 % are no longer.
    pub p9999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// What was finished per second, from the first arrival to the last completion.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Throughput {
    /// Requests per second.
    pub iops: Option<f64>,
    /// Megabytes (10⁶ bytes) read and written per second.
    pub mb_per_s: Option<f64>,
}

/// Share of blocks that the SSD served.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct HitRatio {
    /// Of the blocks read.
    pub read: Option<f64>,
    /// Of the blocks written.
    pub write: Option<f64>,
}

/// Background moves; a trigger's whole batch counts once.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MigrationSummary {
    /// Batches; null where the scheme never moves anything.
    pub count: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// Seconds between the starts of two batches that follow each other; null with fewer than two.
    pub mean_interval_s: Option<f64>,
    /// Bytes of a batch; null when there was none.
    pub mean_bytes: Option<f64>,
}

/// A scheme's own forecast of response times against what happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictionError {
    /// Mean absolute error.
    pub mean_ms: f64,
    /// Coefficient of determination.
    pub r2: f64,
    /// Mean absolute error of a baseline that predicts the last value again (MixedStore, figure 9).
    pub last_value_mean_ms: f64,
    /// Mean absolute error of the regression alone, which the last value replaces where that did better.
    pub regression_mean_ms: f64,
    /// Share of the predictions that the regression made.
    pub by_regression: f64,
    /// Share of the variance of the training phase that the regression explains; null before it was made.
    pub training_r2: Option<f64>,
    /// The regression's coefficients by name; empty before it was made.
    pub coefficients: BTreeMap<String, Coefficient>,
}

/// A coefficient of a regression.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Coefficient {
    /// What one more of its term adds.
    pub value: f64,
    /// Its standard error; null for a term that follows from others or never varied.
    pub standard_error: Option<f64>,
}

/// The drives, added up by kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Devices {
    /// All SSDs; every figure null where there is none.
    pub ssd: SsdFigures,
    /// All HDDs; every figure null where there is none.
    pub hdd: HddFigures,
}

/// What an SSD did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SsdFigures {
    /// Read operations.
    pub reads: Option<u64>,
    /// Write operations.
    pub writes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Share of the time in which it had work.
    pub busy_fraction: Option<f64>,
    /// Energy in joules.
    pub energy_j: Option<f64>,
    /// Inside the drive.
    pub flash: FlashFigures,
}

/// What happened inside an SSD.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FlashFigures {
    /// Pages programmed for the host.
    pub pages_programmed_host: Option<u64>,
    /// Pages programmed by garbage collection.
    pub pages_programmed_gc: Option<u64>,
    /// Pages programmed, by cause.
    pub pages_programmed_by_cause: BTreeMap<String, u64>,
    /// Bytes programmed, all causes / bytes the host wrote to the drive.
    pub write_amplification: Option<f64>,
    /// Blocks erased.
    pub erases: Option<u64>,
    /// Blocks erased, by cause.
    pub erases_by_cause: BTreeMap<String, u64>,
    /// Erases per second of virtual time.
    pub erase_rate_per_s: Option<f64>,
    /// How the erases lie over the blocks.
    pub erase_count: EraseCount,
    /// How many blocks were erased how often, by erases; null after a warm-up, and of several drives together.
    pub blocks_by_erases: Option<BTreeMap<u32, u64>>,
    /// Seconds that dies were at work, by cause; two at a time count twice.
    pub die_busy_s_by_cause: BTreeMap<String, f64>,
    /// Seconds that commands waited for a die, by the cause of what it did meanwhile; a command that waits for two dies at
    /// once counts twice.
    pub wait_s_by_cause: BTreeMap<String, f64>,
    /// Joules by what they were used for; empty where the profile gives no power figures.
    pub energy_j_by_operation: BTreeMap<String, f64>,
    /// Blocks × rated cycles / erase rate; null with `lifetime_unlimited` when nothing was erased.
    pub lifetime_years: Option<f64>,
    /// The same, until the most worn block has used up its cycles.
    pub lifetime_worst_block_years: Option<f64>,
    /// Nothing was erased, so that the rated cycles last for ever at this load.
    pub lifetime_unlimited: Option<bool>,
}

/// How the erases lie over the blocks of the flash.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct EraseCount {
    /// Of the least erased block.
    pub min: Option<u64>,
    /// Over all blocks.
    pub mean: Option<f64>,
    /// Of the most erased block.
    pub max: Option<u64>,
    /// Standard deviation over all blocks.
    pub stddev: Option<f64>,
}

/// What an HDD did.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct HddFigures {
    /// Read operations.
    pub reads: Option<u64>,
    /// Write operations.
    pub writes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Share of the time in which it had work.
    pub busy_fraction: Option<f64>,
    /// Energy in joules.
    pub energy_j: Option<f64>,
    /// Operations that moved the arm.
    pub seeks: Option<u64>,
    /// Times the spindle was stopped.
    pub spin_downs: Option<u64>,
}

/// One drive of the volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// Its id, as `--member` takes it.
    pub id: String,
    /// The volume that it is a member of, where there are several.
    pub volume: Option<String>,
    /// Its role in the scheme: `home`, `cache`, `log`…
    pub role: String,
    /// Its profile.
    pub profile: String,
    /// Its size.
    pub bytes: u64,
    /// Metadata of the scheme written to it.
    pub metadata_bytes: u64,
    /// What it did: the keys of an SSD or of an HDD.
    #[serde(flatten)]
    pub figures: MemberFigures,
    /// Where the figures of its profile come from.
    pub provenance: Provenance,
}

/// What a member did, by its kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MemberFigures {
    /// It is an SSD.
    Ssd(Box<SsdFigures>),
    /// It is an HDD.
    Hdd(HddFigures),
}

/// Where a profile and its price come from, in the profile's own words.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Provenance {
    /// The drive in words.
    pub description: Option<String>,
    /// Source of its figures.
    pub source: Option<String>,
    /// Its price at the size used.
    pub price_usd: Option<f64>,
    /// Source of the price.
    pub price_source: Option<String>,
    /// Date of the price.
    pub price_date: Option<String>,
}

/// What the volume costs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Cost {
    /// All SSDs; null where the scheme has none or the profile no price.
    pub ssd_usd: Option<f64>,
    /// All HDDs; null where the scheme has none or the profile no price.
    pub hdd_usd: Option<f64>,
    /// `--set controller_usd=`, or that of the scheme alone: `--set hyperduo.controller_usd=`.
    pub controller_usd: Option<f64>,
    /// All together; null if the price of a drive is not known.
    pub total_usd: Option<f64>,
    /// Per exported gigabyte (10⁹ bytes).
    pub usd_per_gb: Option<f64>,
    /// MB/s under closed replay; null when timed.
    pub score: Option<f64>,
    /// Score / total.
    pub score_per_usd: Option<f64>,
    /// Score / controller, storage managers figure 8; null where the controller costs nothing.
    pub score_per_controller_usd: Option<f64>,
    /// Score / (controller + SSD), storage managers eq. 1.
    pub budget: Option<f64>,
}

/// How fast the simulation itself was.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RunSpeed {
    /// Seconds on the wall clock.
    pub wall_s: Option<f64>,
    /// Requests simulated per second of it.
    pub requests_per_s: Option<f64>,
    /// Most memory that the process held so far.
    pub peak_rss_bytes: Option<u64>,
}

/// Curves of a run, in columns: the elements of two arrays of an object belong together by their position.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Series {
    /// Distribution of response times.
    pub response_time_cdf: CdfByKind,
    /// Response times over time, by arrival.
    pub latency: LatencySeries,
    /// Bytes written to the SSD in each bucket; null where there is no SSD.
    pub ssd_written: Option<TimeSeries>,
    /// Bytes off home or not yet written home, averaged over each bucket; null where the scheme has none.
    pub dirty: Option<TimeSeries>,
    /// Requests arrived and not finished, averaged over each bucket.
    pub queue_depth: Option<TimeSeries>,
}

/// The distribution of response times, by kind of request.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CdfByKind {
    /// Reads and writes.
    pub all: Cdf,
    /// Reads.
    pub read: Cdf,
    /// Writes.
    pub write: Cdf,
}

/// A cumulative distribution: `requests[i]` requests took at most `ms[i]`. Counts, not shares, so that the tail is exact.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Cdf {
    /// Response times in milliseconds, ascending.
    pub ms: Vec<f64>,
    /// How many took at most that; the last is all of them.
    pub requests: Vec<u64>,
}

/// Response times over time: buckets of equal width, by the time of arrival.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LatencySeries {
    /// When the first bucket begins, in seconds since the first request of the trace.
    pub start_s: f64,
    /// Width of a bucket in seconds.
    pub bucket_s: f64,
    /// Requests that arrived in the bucket.
    pub requests: Vec<u64>,
    /// Mean response time in milliseconds; null in a bucket without requests.
    pub mean_ms: Vec<Option<f64>>,
    /// 99th percentile, at most 6.3 % too high; null in a bucket without requests.
    pub p99_ms: Vec<Option<f64>>,
}

/// A quantity over time: buckets of equal width.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TimeSeries {
    /// When the first bucket begins, in seconds since the first request of the trace.
    pub start_s: f64,
    /// Width of a bucket in seconds.
    pub bucket_s: f64,
    /// One value a bucket.
    pub values: Vec<f64>,
}

impl Document {
    /// The document as JSON: objects indented, arrays on one line, floats rounded (see the head of this file), a line
    /// end behind it.
    ///
    /// # Panics
    /// Never: keys are strings, and memory does not fail to be written.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// The same on one line, for where a program reads it.
    pub fn to_compact_json(&self) -> String {
        to_json_with(self, RoundingFormatter::new(serde_json::ser::CompactFormatter))
    }
}

/// Any other document in the same form, as [`Document::to_json`] gives it.
///
/// # Panics
/// If it has keys that are no strings.
pub fn to_json(document: &impl Serialize) -> String {
    let mut text = to_json_with(document, RoundingFormatter::new(PrettyFormatter::new()));
    text.push('\n');
    text
}

fn to_json_with<F: Formatter>(document: &impl Serialize, formatter: RoundingFormatter<F>) -> String {
    let mut bytes = Vec::new();
    document
        .serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))
        .expect("a document has string keys and is written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// `value` with `digits` significant digits; a negative zero loses its sign.
pub fn round_to_digits(value: f64, digits: usize) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { 0.0 } else { value };
    }
    // Decimal formatting rounds correctly on every machine, which scaling by a power of ten does not.
    format!("{value:.*e}", digits - 1).parse().expect("a formatted float reads back")
}

/// Rounds floats, and keeps arrays on one line whatever `inner` does.
struct RoundingFormatter<F> {
    inner: F,
    /// For each open container, whether it is an array.
    open: Vec<bool>,
}

impl<F> RoundingFormatter<F> {
    fn new(inner: F) -> Self {
        Self { inner, open: Vec::new() }
    }
}

impl<F: Formatter> Formatter for RoundingFormatter<F> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let in_array = self.open.last().copied().unwrap_or(false);
        let rounded = round_to_digits(value, if in_array { CURVE_DIGITS } else { FIGURE_DIGITS });
        self.inner.write_f64(writer, rounded)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.push(true);
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.pop();
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.push(false);
        self.inner.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.pop();
        self.inner.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.inner.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn document() -> Document {
        let trace = TraceSummary { name: "t".into(), format: "msr".into(), requests: 3, ..TraceSummary::default() };
        let member = Member {
            id: "ssd".into(),
            volume: None,
            role: "home".into(),
            profile: "p".into(),
            bytes: 4096,
            metadata_bytes: 0,
            figures: MemberFigures::Ssd(Box::default()),
            provenance: Provenance::default(),
        };
        let run = Run { scheme: "griffin".into(), members: vec![member], ..Run::default() };
        Document {
            bimetal: "0.1.0".into(),
            command: None,
            options: BTreeMap::new(),
            trace,
            findings: Vec::new(),
            runs: vec![run],
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

    /// Whether every one of `expected` (blank-separated) is among the keys of `value`.
    fn assert_has(value: &Value, expected: &str) {
        let keys = keys(value);
        for key in expected.split_whitespace() {
            assert!(keys.contains(&key), "no key {key} in {keys:?}");
        }
    }

    #[test]
    fn every_key_of_the_contract_is_there_even_where_nothing_applies() {
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
            "scheme ssd hdd ssd_bytes hdd_bytes exported_bytes settings assumed response_time_ms throughput \
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
             erases_by_cause erase_rate_per_s erase_count lifetime_years lifetime_worst_block_years lifetime_unlimited",
        );
        assert_has(&run["devices"]["ssd"]["flash"]["erase_count"], "min mean max stddev");
        assert_has(
            &run["devices"]["hdd"],
            "reads writes read_bytes write_bytes busy_fraction energy_j seeks spin_downs",
        );
        assert_has(&run["members"][0], "id role profile bytes metadata_bytes");
        assert_has(&run["members"][0], ssd);
        assert_has(
            &run["cost"],
            "ssd_usd hdd_usd controller_usd total_usd usd_per_gb score score_per_usd score_per_controller_usd budget",
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

    #[test]
    fn floats_are_rounded_in_one_place_figures_finer_than_points_of_a_curve() {
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
    fn rounding_keeps_the_digits_asked_for() {
        assert_eq!(round_to_digits(123.456, 4), 123.5);
        assert_eq!(round_to_digits(-0.000_123_456, 3), -0.000_123);
        assert_eq!(round_to_digits(9.999_96, 5), 10.0);
        assert_eq!(round_to_digits(f64::MAX, 17), f64::MAX);
        assert!(round_to_digits(-0.0, 3).is_sign_positive());
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
