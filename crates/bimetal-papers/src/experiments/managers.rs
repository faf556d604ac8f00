//! Claims of the storage managers' paper.
//!
//! Our choices, where the paper leaves something open:
//! - PCMark Vantage's eight sets of requests are not public. The seven shipped traces with writes
//!   take their place, one request after another. The score is MB/s, its mean a geometric mean.
//! - The eight tasks of `application-mix` stand for the eight sets, too, each a set of its own.
//! - Each trace is played twice; the second pass is measured, because a manager learns from the
//!   first.
//! - Where the managers' SSD holds all addresses, their scores are also measured with an SSD of
//!   512 MiB, a twelfth of the recorded disk.
//! - PCMark's number of requests under way is not public. The disk's score is also measured with 4
//!   requests under way.
//! - Scores are scaled so that the SSD alone scores 25,000, as in the paper. Prices follow from the
//!   paper's scores and its scores for each dollar: SSD 25,000 / 223, disk 5,000 / 77, manager
//!   score / budget less the SSD.

mod figures;

use bimetal_core::operation::OpKind;
use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;
use bimetal_sim::simulator::Replay;
use rayon::prelude::*;

use super::{CLOSED, ExperimentsError, Note, Plan, Tried, Values, geometric_mean, mean, percent, ratio, tried};
use crate::traces::{DESKTOPS, Loaded, MARK, SERVERS, Traces, is_shipped};

pub(super) use figures::figures;

/// Drives of table 2.
const SSD: &str = "ocz-solid-3-60gb";
const HDD: &str = "wd-caviar-blue-wd10ealx-1tb";

/// Score of the SSD alone (Lee and others, figure 6).
const SSD_SCORE: f64 = 25_000.0;
/// Prices that follow from figures 6 and 8.
const SSD_USD: f64 = SSD_SCORE / 223.0;
const HDD_USD: f64 = 5_000.0 / 77.0;

/// A manager of the paper.
struct Manager {
    scheme: &'static str,
    /// Score and budget of the paper, from which the price follows.
    paper: [f64; 2],
}

impl Manager {
    /// Returns the price of the manager in dollars.
    fn usd(&self) -> f64 {
        self.paper[0] / self.paper[1] - SSD_USD
    }
}

/// Managers of the paper, best first.
const MANAGERS: [Manager; 3] = [
    Manager { scheme: "smart-response", paper: [20_000.0, 74.0] },
    Manager { scheme: "hyperduo", paper: [11_000.0, 76.0] },
    Manager { scheme: "hddboost", paper: [10_000.0, 67.0] },
];

/// Names of the claims about one set of traces.
struct Names {
    disk: &'static str,
    per_dollar: &'static str,
    best: &'static str,
    order: &'static str,
    /// Size of an SSD that is smaller than the addresses; `None` if the paper's size is not larger.
    small_ssd: Option<Bytes>,
    /// Names of the claims about score and budget, for each of [`MANAGERS`].
    managers: [[&'static str; 2]; 3],
}

const SHIPPED: Names = Names {
    disk: "managers-hdd",
    per_dollar: "managers-per-dollar",
    best: "managers-best-budget",
    order: "managers-order",
    small_ssd: None,
    managers: [
        ["managers-srt", "managers-budget-srt"],
        ["managers-hyperduo", "managers-budget-hyperduo"],
        ["managers-hddboost", "managers-budget-hddboost"],
    ],
};

const MIX: Names = Names {
    disk: "managers-hdd-mix",
    per_dollar: "managers-per-dollar-mix",
    best: "managers-best-budget-mix",
    order: "managers-order-mix",
    small_ssd: Some(Bytes::from_mib(512)),
    managers: [
        ["managers-srt-mix", "managers-budget-srt-mix"],
        ["managers-hyperduo-mix", "managers-budget-hyperduo-mix"],
        ["managers-hddboost-mix", "managers-budget-hddboost-mix"],
    ],
};

/// Disk on which the eight tasks were recorded.
const MIX_DISK: Bytes = Bytes::from_gib(6);

pub(super) fn measure(traces: &Traces) -> Result<Values, ExperimentsError> {
    let mut values = Values::new();
    let names: Vec<&str> = DESKTOPS.into_iter().chain(SERVERS).collect();
    scores(&mut values, &SHIPPED, &traces.all_shipped(&names)?)?;
    if is_shipped("application-mix") {
        // In front of the first mark, memory forgets.
        let tasks: Vec<Loaded> = traces.pieces("application-mix", MIX_DISK, MARK)?.into_iter().skip(1).collect();
        scores(&mut values, &MIX, &tasks)?;
    }
    Ok(values)
}

/// Traces that play twice, and the runs of the SSD alone, to which all scores are relative.
struct Set {
    twice: Vec<Loaded>,
    ssd: Vec<Run>,
}

impl Set {
    fn of(traces: &[Loaded]) -> Result<Self, ExperimentsError> {
        let twice: Vec<Loaded> = traces.iter().map(twice).collect();
        let ssd = play(&twice, CLOSED, || Plan::new("ssd-only").ssd(SSD))?;
        Ok(Self { twice, ssd })
    }

    /// Returns the runs of a scheme with the paper's drives.
    fn runs(&self, scheme: &'static str, settings: &[(&str, &str)]) -> Result<Vec<Run>, ExperimentsError> {
        play(&self.twice, CLOSED, || Plan::new(scheme).ssd(SSD).hdd(HDD).set(settings))
    }

    /// Returns the score of some runs.
    fn score(&self, runs: &[Run]) -> Option<f64> {
        geometric_mean(runs.iter().zip(&self.ssd).map(|(run, ssd)| ratio(rate(run), rate(ssd))))
    }

    /// Returns the scores of the disk with the reads alone, without a cache of writes, and with
    /// several requests under way.
    fn other_disks(&self) -> Result<[(&'static str, Option<f64>); 3], ExperimentsError> {
        let reads = self.twice.iter().map(|trace| {
            let requests = trace.requests.iter().filter(|request| request.kind == OpKind::Read).copied().collect();
            Loaded { requests, queue_events: trace.queue_events, compact: trace.compact }
        });
        let reads: Vec<Loaded> = reads.filter(|trace| !trace.requests.is_empty()).collect();
        let drives = [Plan::new("hdd-only").hdd(HDD), Plan::new("ssd-only").ssd(SSD)];
        let both = |traces: &[Loaded], replay| -> Result<Option<f64>, ExperimentsError> {
            let [hdd, ssd] = drives.each_ref().map(|drive| play(traces, replay, || drive.clone()));
            let set = Self { twice: Vec::new(), ssd: ssd? };
            Ok(set.score(&hdd?))
        };
        let through = self.runs("hdd-only", &[("hdd.write_cache", "off")])?;
        Ok([
            ("if only the reads are played", both(&reads, CLOSED)?),
            ("without the disk's write cache", self.score(&through)),
            ("with 4 requests under way at a time", both(&self.twice, Replay::Closed { depth: 4 })?),
        ])
    }
}

/// Plays the second pass of each trace, several traces at a time.
fn play(traces: &[Loaded], replay: Replay, plan: impl Fn() -> Plan + Sync) -> Result<Vec<Run>, ExperimentsError> {
    traces.par_iter().with_max_len(1).map(|trace| plan().warmup(0.5).play(trace, replay)).collect()
}

fn scores(values: &mut Values, names: &Names, traces: &[Loaded]) -> Result<(), ExperimentsError> {
    let set = Set::of(traces)?;
    let hdd = set.runs("hdd-only", &[])?;
    let (score, others) = (set.score(&hdd), set.other_disks()?);
    let each = |of: fn(f64) -> f64| others.iter().map(|(change, score)| tried(*change, score.map(of))).collect();
    values.explain(names.disk, score, each(|score| score), by_direction(&hdd, &set.ssd))?;
    let faster = score.map_or_else(String::new, |hdd| format!("the SSD is {:.1} times as fast as the disk", 1.0 / hdd));
    values.explain(names.per_dollar, score.map(per_dollar), each(per_dollar), faster)?;
    let (mut plain, mut changed, mut budgets) = (Vec::new(), Vec::new(), Vec::new());
    for (manager, [claim, of_budget]) in MANAGERS.iter().zip(names.managers) {
        let runs = set.runs(manager.scheme, &[])?;
        let (score, other) = (set.score(&runs), changed_score(&set, manager.scheme, names.small_ssd)?);
        let each = |of: &dyn Fn(f64) -> f64| other.iter().map(|(text, score)| tried(text, score.map(of))).collect();
        let hits = percent(mean(runs.iter().map(|run| run.ssd_hit_ratio.read)));
        let facts = format!("the SSD serves {hits} of the blocks read; {}", by_direction(&runs, &set.ssd));
        values.explain(claim, score, each(&|score| score), facts)?;
        let budget = |score: f64| score * SSD_SCORE / (manager.usd() + SSD_USD);
        values.explain(of_budget, score.map(budget), each(&budget), String::new())?;
        let other = other.map_or(score, |(_, score)| score);
        budgets.push([score.map(budget), other.map(budget)]);
        plain.push(score);
        changed.push(other);
    }
    let text = changes(names.small_ssd);
    order(values, names.order, &plain, tried(&text, pairs(&changed)))?;
    let best = |at: usize| ratio(budgets[1][at], budgets[0][at]);
    values.explain(names.best, best(0), vec![tried(text, best(1))], String::new())
}

/// Returns the score a dollar of the SSD relative to a disk with this score.
fn per_dollar(score: f64) -> f64 {
    HDD_USD / (SSD_USD * score)
}

/// Returns the score of a manager with a change: Smart Response caches streams, too; another
/// manager has a small SSD.
fn changed_score(
    set: &Set,
    scheme: &'static str,
    small: Option<Bytes>,
) -> Result<Option<(String, Option<f64>)>, ExperimentsError> {
    if scheme == "smart-response" {
        let runs = set.runs(scheme, &[("stream_bypass", "off")])?;
        return Ok(Some((STREAMS.to_owned(), set.score(&runs))));
    }
    let Some(size) = small else { return Ok(None) };
    let runs = play(&set.twice, CLOSED, || Plan::new(scheme).ssd(SSD).ssd_size(size).hdd(HDD))?;
    Ok(Some((with_small_ssd(size), set.score(&runs))))
}

const STREAMS: &str = "if streams are cached too";

fn with_small_ssd(size: Bytes) -> String {
    format!("with an SSD of {} MiB", size.get() >> 20)
}

/// Returns all changes of the managers together, as text.
fn changes(small: Option<Bytes>) -> String {
    let small = small.map(|size| format!(", and {} for the other managers", with_small_ssd(size)));
    format!("{STREAMS}{}", small.unwrap_or_default())
}

/// Notes the number of pairs in which the scores have the paper's order.
fn order(
    values: &mut Values,
    name: &'static str,
    scores: &[Option<f64>],
    changed: Tried,
) -> Result<(), ExperimentsError> {
    let each = MANAGERS.iter().zip(scores).map(|(manager, score)| format!("{} {}", manager.scheme, percent(*score)));
    let each = each.collect::<Vec<_>>().join(", ");
    values.explain(name, pairs(scores), vec![changed], format!("scores relative to the SSD: {each}"))
}

/// Returns the number of pairs in the paper's order; `None` if a score is missing.
fn pairs(scores: &[Option<f64>]) -> Option<f64> {
    let scores: Vec<f64> = scores.iter().copied().collect::<Option<_>>()?;
    Some(pairs_in_order(&scores) as f64)
}

/// Returns the number of pairs whose first score is the higher one.
fn pairs_in_order(scores: &[f64]) -> usize {
    let lower = |at: usize| scores[at + 1..].iter().filter(|later| **later < scores[at]).count();
    (0..scores.len()).map(lower).sum()
}

/// Returns a trace that plays twice.
fn twice(trace: &Loaded) -> Loaded {
    let end = trace.requests.last().map(|request| request.arrival).unwrap_or_default();
    let later =
        trace.requests.iter().map(|request| bimetal_trace::Request { arrival: end + request.arrival, ..*request });
    let requests = trace.requests.iter().copied().chain(later).collect();
    Loaded { requests, queue_events: trace.queue_events, compact: trace.compact }
}

fn rate(run: &Run) -> Option<f64> {
    run.throughput.mb_per_s
}

/// Returns the speed of reads and of writes relative to the SSD alone, as text.
fn by_direction(runs: &[Run], ssd: &[Run]) -> String {
    let pairs = || runs.iter().zip(ssd);
    let reads = pairs().map(|(run, ssd)| ratio(ssd.response_time_ms.read.mean, run.response_time_ms.read.mean));
    let writes = pairs().map(|(run, ssd)| ratio(ssd.response_time_ms.write.mean, run.response_time_ms.write.mean));
    let text = |mean: Option<f64>| mean.map_or_else(|| "–".to_owned(), |mean| format!("{mean:.2}"));
    format!(
        "speed relative to the SSD: reads {}, writes {}",
        text(geometric_mean(reads.filter(Option::is_some))),
        text(geometric_mean(writes.filter(Option::is_some)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_count_if_the_first_score_is_the_higher_one() {
        assert_eq!(pairs_in_order(&[0.8, 0.5, 0.4]), 3);
        assert_eq!(pairs_in_order(&[0.43, 0.52, 0.35]), 2);
        assert_eq!(pairs_in_order(&[0.8, 0.9, 1.0]), 0);
        assert_eq!(pairs_in_order(&[0.8, 0.8]), 0);
    }
}
