//! Steps of the price, in which a sure search goes on after a number of runs.
//!
//! Under `--sure`, few options of a large catalogue keep the budgets, and each option needs a run.
//! The cheapest that keeps them may lie behind ten thousand others. So after [`RUNS_MAX`] runs the
//! search takes one option a scheme in steps of the price, each with its defaults. The answer then
//! keeps the budgets, and the planner says how many options were not run that may be cheaper.

use std::collections::BTreeMap;

use crate::evaluate::Outcome;
use crate::grid::Candidate;
use crate::search::Tried;

/// Reason for options that were not run because the search had made its number of runs.
pub(crate) const NOT_RUN: &str = "not run: the search took one option a scheme in steps of the price";

/// Number of runs after which a sure search goes on in steps of the price: some minutes on two
/// cores.
pub(crate) const RUNS_MAX: u64 = 2400;

/// Factor between the prices of the options of a scheme that run after this number.
pub(crate) const PRICE_STEP: f64 = 1.05;

/// State of a search that goes in steps of the price.
#[derive(Default)]
pub(crate) struct PriceSteps {
    /// Price from which on the next option of a scheme runs.
    next_usd: BTreeMap<&'static str, f64>,
}

impl PriceSteps {
    /// Divides the options of one price into those to run and the others.
    pub(crate) fn take(&self, group: Vec<Candidate>) -> (Vec<Candidate>, Vec<Candidate>) {
        group.into_iter().partition(|candidate| {
            let next = self.next_usd.get(candidate.scheme.name).copied().unwrap_or_default();
            candidate.variant == 0 && candidate.cost_usd >= next
        })
    }

    /// Takes note of options that were tried. An option that cannot be built makes no step.
    pub(crate) fn note(&mut self, tried: &[Tried]) {
        let ran = |tried: &&Tried| matches!(tried.outcome, Some(Outcome::Done(_) | Outcome::Stopped { .. }));
        for Tried { candidate, .. } in tried.iter().filter(ran) {
            self.next_usd.insert(candidate.scheme.name, candidate.cost_usd * PRICE_STEP);
        }
    }
}

impl Tried {
    /// Returns true if the option was not run because the search had made its number of runs.
    pub(crate) fn was_not_run(&self) -> bool {
        self.outcome.is_none() && self.reasons.iter().any(|reason| reason == NOT_RUN)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use bimetal_core::schemes;
    use bimetal_core::units::Bytes;
    use bimetal_sim::lifetime::KnownWear;
    use bimetal_sim::setup::Choices;
    use bimetal_sim::simulator::Replay;
    use bimetal_trace::Request;
    use bimetal_trace::synthetic::{Generator, WorkloadSpec};

    use crate::bounds::Bounds;
    use crate::budget::Budget;
    use crate::catalogue::Catalogue;
    use crate::evaluate::{Evaluator, Load};
    use crate::grid::Grid;
    use crate::search::Search;
    use crate::tests::Nobody;

    /// A sure search over 17,000 options that no cheap option ended had no answer in ten minutes.
    #[test]
    fn search_goes_in_steps_of_the_price_after_its_runs() {
        let spec = WorkloadSpec::new(300, Bytes::from_mib(64));
        let requests: Vec<Request> = Generator::new(&[spec], 1).unwrap().collect();
        let (common, known_wear) = (Choices::default(), KnownWear::default());
        let load = Load::read(&requests, &common, 0.0, &|_| {}).unwrap();
        let replay = Replay::Timed { speedup: 1.0 };
        let evaluator =
            Evaluator { load: &load, common: &common, replay, known_wear: &known_wear, variation: Default::default() };
        let budgets = [Budget::parse("ssd_hit_ratio.read>0.9999").unwrap()];
        let schemes = [schemes::find("smart-response").unwrap()];
        let catalogue = Catalogue::parse(
            "[[drive]]\nmodel = \"intel-x25-e-32gb\"\nsizes = [\"1024MiB\", \"1025MiB\", \"1026MiB\", \"1027MiB\"]\n\
             prices_usd = [20, 20, 21, 30]\ndate = \"d\"\nsource = \"s\"\n\
             [[drive]]\nmodel = \"seagate-barracuda-7200.12-1tb\"\nsizes = [\"1TB\"]\nprices_usd = [10]\n\
             date = \"d\"\nsource = \"s\"\n",
            "shop",
        )
        .unwrap();
        let candidates = Grid::of(&schemes, &catalogue).candidates();
        let simulations = AtomicU64::new(0);
        let bounds = Bounds::of(&load, &common, replay, &[], &[]);
        let search = Search {
            evaluator: &evaluator,
            bounds: &bounds,
            grown: None,
            budgets: &budgets,
            progress: &Nobody,
            simulations: &simulations,
            sure: true,
        };
        let run = |runs_max: u64| {
            simulations.store(0, Relaxed);
            let tried = search.cheapest_first_by(runs_max, candidates.clone()).unwrap();
            let ran = tried.iter().filter(|tried| tried.outcome.is_some());
            let ran: Vec<(f64, usize)> = ran.map(|tried| (tried.candidate.cost_usd, tried.candidate.variant)).collect();
            let not_run = tried.iter().filter(|tried| tried.was_not_run()).count();
            assert_eq!(ran.len() + not_run, candidates.len());
            ran
        };
        let defaults = |ran: Vec<(f64, usize)>| {
            assert!(ran.iter().all(|(_, variant)| *variant == 0));
            ran.into_iter().map(|(cost_usd, _)| cost_usd).collect::<Vec<f64>>()
        };
        assert_eq!(run(u64::MAX).len(), candidates.len());
        assert_eq!(defaults(run(0)), [30.0, 30.0, 40.0], "31 is no step above 30, and 40 is");
    }
}
