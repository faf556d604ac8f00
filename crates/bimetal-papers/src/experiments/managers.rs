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
//! - Scores are scaled so that the SSD alone scores 25,000, as in the paper. Prices follow from the
//!   paper's scores and its scores for each dollar: SSD 25,000 / 223, disk 5,000 / 77, manager
//!   score / budget less the SSD.

mod figures;

use bimetal_core::operation::OpKind;
use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;
use rayon::prelude::*;

use super::{CLOSED, ExperimentsError, Note, Plan, Values, geometric_mean, mean, percent, ratio};
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

fn scores(values: &mut Values, names: &Names, traces: &[Loaded]) -> Result<(), ExperimentsError> {
    let twice: Vec<Loaded> = traces.iter().map(twice).collect();
    let set = |scheme, settings: &'static [(&'static str, &'static str)]| -> Result<Vec<Run>, ExperimentsError> {
        let plan = || Plan::new(scheme).ssd(SSD).hdd(HDD).set(settings).warmup(0.5);
        twice.par_iter().with_max_len(1).map(|trace| plan().play(trace, CLOSED)).collect()
    };
    let play = |scheme| set(scheme, &[]);
    let (ssd, hdd) = (play("ssd-only")?, play("hdd-only")?);
    let relative = |runs: &[Run]| geometric_mean(runs.iter().zip(&ssd).map(|(run, ssd)| ratio(rate(run), rate(ssd))));
    let of_hdd = relative(&hdd);
    values.explain(names.disk, of_hdd, format!("{}; {}", by_direction(&hdd, &ssd), other_disks(&twice, &ssd)?))?;
    let per_dollar = of_hdd.map(|hdd| HDD_USD / (SSD_USD * hdd));
    let faster = of_hdd.map_or_else(String::new, |hdd| format!("{:.1}", 1.0 / hdd));
    values.explain(names.per_dollar, per_dollar, format!("the SSD is {faster} times as fast as the disk"))?;
    let (mut budgets, mut all_scores) = (Vec::new(), Vec::new());
    for (manager, claims) in MANAGERS.iter().zip(names.managers) {
        let runs = play(manager.scheme)?;
        let score = relative(&runs);
        let budget = score.map(|score| score * SSD_SCORE / (manager.usd() + SSD_USD));
        let hits = mean(runs.iter().map(|run| run.ssd_hit_ratio.read));
        let mut mechanism =
            format!("the SSD serves {} of the blocks read; {}", percent(hits), by_direction(&runs, &ssd));
        if manager.scheme == "smart-response" {
            let all = percent(relative(&set(manager.scheme, &[("stream_bypass", "off")])?));
            mechanism += &format!("; {all} if streams are cached too");
        }
        if let Some(size) = names.small_ssd.filter(|_| manager.scheme != "smart-response") {
            let small = small_ssd(manager.scheme, size, &twice, &ssd)?;
            mechanism += &format!("; {small} with an SSD of {} MiB, on a disk of 6 GiB", size.get() >> 20);
        }
        values.explain(claims[0], score, mechanism)?;
        values.explain(claims[1], budget, "the budget is the score by prices computed from the paper's scores and budgets, so it says what the score says".to_owned())?;
        budgets.push(budget);
        all_scores.push(score);
    }
    order(values, names.order, &all_scores)?;
    values.explain(
        names.best,
        ratio(budgets[1], budgets[0]),
        "the budgets are the scores by prices computed from the paper's scores and budgets, so they say what the scores say".to_owned(),
    )
}

/// Returns the score of the disk relative to the SSD with the reads alone, and with a disk that
/// does not cache writes, as text. `all` has the SSD's runs.
fn other_disks(traces: &[Loaded], all: &[Run]) -> Result<String, ExperimentsError> {
    let reads = traces.iter().map(|trace| {
        let requests = trace.requests.iter().filter(|request| request.kind == OpKind::Read).copied().collect();
        Loaded { requests, queue_events: trace.queue_events, compact: trace.compact }
    });
    let reads: Vec<Loaded> = reads.filter(|trace| !trace.requests.is_empty()).collect();
    let play = |plan: fn() -> Plan| -> Result<Vec<Run>, ExperimentsError> {
        reads.par_iter().with_max_len(1).map(|trace| plan().warmup(0.5).play(trace, CLOSED)).collect()
    };
    let (ssd, hdd) = (play(|| Plan::new("ssd-only").ssd(SSD))?, play(|| Plan::new("hdd-only").hdd(HDD))?);
    let score = geometric_mean(hdd.iter().zip(&ssd).map(|(hdd, ssd)| ratio(rate(hdd), rate(ssd))));
    let writes_through = || Plan::new("hdd-only").hdd(HDD).set(&[("hdd.write_cache", "off")]);
    let through = traces.par_iter().with_max_len(1).map(|trace| writes_through().warmup(0.5).play(trace, CLOSED));
    let through: Vec<Run> = through.collect::<Result<_, ExperimentsError>>()?;
    let through = geometric_mean(through.iter().zip(all).map(|(hdd, ssd)| ratio(rate(hdd), rate(ssd))));
    Ok(format!("{} if only the reads are played, {} without the disk's write cache", percent(score), percent(through)))
}

/// Returns the score of a manager with a small SSD, relative to the SSD that holds all addresses,
/// as text.
fn small_ssd(scheme: &'static str, size: Bytes, traces: &[Loaded], ssd: &[Run]) -> Result<String, ExperimentsError> {
    let plan = || Plan::new(scheme).ssd(SSD).ssd_size(size).hdd(HDD).warmup(0.5);
    let runs = traces.par_iter().with_max_len(1).map(|trace| plan().play(trace, CLOSED));
    let runs: Vec<Run> = runs.collect::<Result<_, ExperimentsError>>()?;
    Ok(percent(geometric_mean(runs.iter().zip(ssd).map(|(run, ssd)| ratio(rate(run), rate(ssd))))))
}

/// Notes the number of pairs in which the scores have the paper's order.
fn order(values: &mut Values, name: &'static str, scores: &[Option<f64>]) -> Result<(), ExperimentsError> {
    let scores: Option<Vec<f64>> = scores.iter().copied().collect();
    let pairs = scores.as_deref().map(|scores| pairs_in_order(scores) as f64);
    let each = MANAGERS.iter().zip(scores.iter().flatten());
    let each = each.map(|(manager, score)| format!("{} {}", manager.scheme, percent(Some(*score))));
    let each = each.collect::<Vec<_>>().join(", ");
    values.explain(name, pairs, format!("scores relative to the SSD: {each}; each has its mechanism above"))
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
