//! Repeated runs under disturbances: their uncertainty, and the properties that disturbances do not
//! change.

use std::path::Path;

use bimetal_core::schemes;
use bimetal_core::units::Bytes;
use bimetal_sim::experiment::{Experiment, NoProgress};
use bimetal_sim::results::{Document, Run, RunSpeed};
use bimetal_sim::setup::{Choices, DriveChoice, Size};
use bimetal_sim::simulator::Replay;
use bimetal_sim::workload::Workload;
use bimetal_trace::synthetic::{Generator, WorkloadSpec};
use bimetal_trace::{OpenOptions, Request, Trace};

const TIMED: Replay = Replay::Timed { speedup: 1.0 };

fn run(workload: &dyn Workload, names: &[&str], replay: Replay, choices: Choices) -> Document {
    let schemes = names.iter().map(|name| schemes::find(name).expect("it is in the list").into()).collect();
    let experiment = Experiment { workload, schemes, trees: Vec::new(), choices, replay, warmup: 0.0, keep: None };
    let mut document = experiment.run(&NoProgress, |_, trace| trace).expect("the run is possible");
    document.runs.iter_mut().for_each(|run| run.run = RunSpeed::default());
    document
}

fn generated() -> Vec<Request> {
    let spec = WorkloadSpec { read_fraction: 0.6, ..WorkloadSpec::new(2000, Bytes::from_mib(64)) };
    Generator::new(&[spec], 1).expect("a possible workload").collect()
}

fn choices(runs: u32, seed: u64) -> Choices {
    Choices { runs, seed, ..Choices::default() }
}

/// Returns the figures without their uncertainty.
fn without_intervals(document: &Document) -> String {
    let lines = document.to_json();
    let kept = lines.lines().filter(|line| !line.contains("_pm\":") && !line.contains("\"runs\": \""));
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn printed_figures_are_those_of_the_undisturbed_run() {
    let names: Vec<&str> = schemes::ALL.iter().map(|scheme| scheme.name).collect();
    let workload = generated();
    let one = run(&workload, &names, TIMED, choices(1, 0));
    let five = run(&workload, &names, TIMED, choices(5, 0));
    assert_eq!(without_intervals(&one), without_intervals(&five));
    assert!(one.runs.iter().all(|run| run.response_time_ms.all.mean_pm.is_none()));
    assert!(five.runs.iter().all(|run| run.response_time_ms.all.mean_pm.is_some()));
}

#[test]
fn equal_seeds_give_equal_intervals_with_any_threads() {
    let workload = generated();
    let text = |threads: usize, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| run(&workload, &["griffin", "smq"], TIMED, choices(4, seed)).to_json())
    };
    let one = text(1, 0);
    assert_eq!(one, text(3, 0));
    assert_ne!(one, text(1, 5));
}

/// In a closed replay arrivals have no times; places and platters are disturbed all the same.
#[test]
fn closed_replay_has_intervals_too() {
    let document = run(&generated(), &["hdd-only"], Replay::Closed { depth: 1 }, choices(3, 0));
    let times = document.runs[0].response_time_ms.all;
    let share = times.mean_pm.expect("an interval") / times.mean.expect("a mean");
    assert!((1e-6..0.2).contains(&share), "{share}");
}

/// Regression: with `bcache` on a tenth of the footprint of `pgbench`, 280 KiB more SSD (1 %)
/// changed the mean from 49 to 63 ms, and the table printed three digits of both means. The sizes
/// here are those at which today's models of drives show it: the mean falls from 68 to 50 ms.
#[test]
fn figure_that_a_few_kib_change_has_a_wide_interval() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/pgbench.bin.zst");
    let requests: Result<Vec<Request>, _> =
        Trace::open(&path, &OpenOptions::default()).expect("the trace opens").collect();
    let requests = requests.expect("the trace is whole");
    let mean = |bytes: u64| -> (Run, f64, f64) {
        let ssd = DriveChoice { profile: None, size: Some(Size::Bytes(Bytes(bytes))) };
        let mut document = run(&requests, &["bcache"], TIMED, Choices { ssd, ..choices(5, 0) });
        let times = document.runs[0].response_time_ms.all;
        (document.runs.remove(0), times.mean.expect("a mean"), times.mean_pm.expect("an interval"))
    };
    let (_, small, small_half) = mean(31_154_176);
    let (_, large, _) = mean(31_440_896);
    assert!((large / small - 1.0).abs() > 0.2, "{small} and {large} ms");
    assert!(small_half > (large - small).abs(), "{small} ± {small_half} ms, and {large} ms");
    let plain = run(&requests, &["hdd-only"], TIMED, choices(5, 0)).runs[0].response_time_ms.all;
    assert!(plain.mean_pm < plain.mean.map(|mean| mean / 5.0), "not every figure is uncertain: {plain:?}");
}
