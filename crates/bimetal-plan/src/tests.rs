//! Tests of whole plans, over small workloads.

use bimetal_core::schemes;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_trace::Request;
use bimetal_trace::synthetic::{Generator, Interarrival, WorkloadSpec};

use super::*;

/// Receiver of progress that shows none.
pub(crate) struct Nobody;

impl Progress for Nobody {
    fn read(&self, _: u64) {}
    fn stepped(&self, _: Stage, _: u64, _: u64) {}
}

/// Two SSDs and a disk.
pub(crate) const SHOP: &str = r#"
[[drive]]
model = "intel-x25-e-32gb"
sizes = ["128MiB", "512MiB"]
prices_usd = [20, 200]
date = "2026-11"
source = "the test"
[[drive]]
model = "seagate-barracuda-7200.12-1tb"
sizes = ["1TB"]
prices_usd = [50]
date = "2026-11"
source = "the test"
"#;

/// Returns the question for the cheapest of `schemes` that keeps `budgets`.
fn question<'a>(requests: &'a dyn Workload, schemes: &[&str], budgets: &[&str]) -> Question<'a> {
    Question {
        workload: requests,
        catalogue: Catalogue::parse(SHOP, "shop").unwrap(),
        logs: None,
        schemes: schemes.iter().map(|name| schemes::find(name).unwrap()).collect(),
        budgets: budgets.iter().map(|text| Budget::parse(text).unwrap()).collect(),
        common: Choices::default(),
        growth: None,
        vary: Vec::new(),
        replay: Replay::Timed { speedup: 1.0 },
        warmup: 0.0,
        exhaustive: false,
        holdout: false,
        significant: false,
        sure: false,
    }
}

/// Returns `requests` reads and writes that are `gap_ms` apart.
fn steady(requests: u64, gap_ms: u64) -> Vec<Request> {
    let spec = WorkloadSpec {
        read_fraction: 0.5,
        interarrival: Interarrival::Poisson(Nanoseconds::from_millis(gap_ms)),
        ..WorkloadSpec::new(requests, Bytes::from_mib(16))
    };
    Generator::new(&[spec], 1).unwrap().collect()
}

/// The plan reused the proof of the search, which is older than the lifetime: the warning about an
/// uncertain lifetime was missing.
#[test]
fn notes_of_a_reused_proof_are_those_of_an_exhaustive_plan() {
    let requests = steady(300, 20);
    let notes = |exhaustive| {
        let asked = Question { exhaustive, ..question(&requests, &["ssd-only"], &["p99<10s"]) };
        let planned = plan(&asked, &Nobody).unwrap();
        let confidence = planned.answer.confidence.expect("an option keeps the budget");
        assert!(confidence.proven);
        confidence.notes
    };
    let quick = notes(false);
    assert!(quick.iter().any(|note| note.contains("its lifetime is uncertain")), "{quick:?}");
    assert_eq!(quick, notes(true));
}

/// The answer said `relax` and named no budget: the options keep the budgets, and the trace is too
/// short to prove it.
#[test]
fn closest_option_without_a_broken_budget_has_a_reason() {
    let requests = steady(20, 20);
    let planned = plan(&Question { sure: true, ..question(&requests, &["ssd-only"], &["p99<10s"]) }, &Nobody).unwrap();
    assert_eq!(planned.kept, 0);
    let closest = planned.answer.closest.first().expect("it keeps the budget");
    assert_eq!(closest.advice(), "20 requests are too few to be sure of p99<10s");
}

/// Options were said to keep the budgets over the whole trace, of which only the first half was
/// played.
#[test]
fn options_of_a_holdout_keep_budgets_over_the_first_half_only() {
    let requests = steady(40, 20);
    let asked = Question { holdout: true, ..question(&requests, &["ssd-only", "hdd-only"], &["p99<10s"]) };
    let planned = plan(&asked, &Nobody).unwrap();
    let words: Vec<&str> = planned.answer.rejected.iter().map(|rejected| rejected.reason.as_str()).collect();
    let half = "keeps the budgets over the first half";
    assert!(words.iter().any(|words| words.contains(half)), "{words:?}");
    assert!(planned.tried.iter().take(planned.kept).all(|tried| planned.keeps(tried).starts_with(half)));
}

/// The requests of a fast device come faster than a disk answers them. A plan bought an SSD for
/// four times the price, and was silent about the disk that keeps the budget with think times.
#[test]
fn cheaper_disk_that_keeps_budgets_with_think_times_is_named() {
    let spec = WorkloadSpec {
        read_fraction: 1.0,
        interarrival: Interarrival::Poisson(Nanoseconds::from_millis(1)),
        ..WorkloadSpec::new(400, Bytes::from_mib(64))
    };
    let answered = |request| Request { response: Some(Nanoseconds::from_micros(100)), ..request };
    let requests: Vec<Request> = Generator::new(&[spec], 1).unwrap().map(answered).collect();
    let shop = SHOP.replace("prices_usd = [20, 200]", "prices_usd = [190, 200]");
    let asked = |budget: &'static str| Question {
        catalogue: Catalogue::parse(&shop, "shop").unwrap(),
        ..question(&requests, &["ssd-only", "hdd-only"], &[budget])
    };
    let named = |budget| {
        let answer = plan(&asked(budget), &Nobody).unwrap().answer;
        let best = answer.best.expect("the SSD keeps the budget").scheme;
        let faster = answer.findings.iter().any(|finding| finding.id == "recorded-on-faster-device");
        let changes = answer.sensitivity.into_iter().filter(|change| change.change.starts_with("with think times"));
        let changes: Vec<(String, bool)> = changes.map(|change| (change.change, change.keeps_budgets)).collect();
        (best, faster, changes, answer.with_think_times.map(|option| (option.scheme, option.cost_usd)))
    };
    let (best, faster, changes, option) = named("p99<60ms");
    assert_eq!((best.as_str(), faster, option), ("ssd-only", true, Some(("hdd-only".to_owned(), 50.0))));
    let expected = "with think times (--replay think), hdd-only on seagate-barracuda-7200.12 1 TB for $50";
    assert_eq!(changes, [(expected.to_owned(), true)]);
    // Not even with think times does a disk answer that fast.
    let (best, faster, changes, option) = named("p99<3ms");
    assert_eq!((best.as_str(), faster, option), ("ssd-only", true, None));
    assert!(changes.iter().all(|(_, keeps)| !keeps), "{changes:?}");
}
