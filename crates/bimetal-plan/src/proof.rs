//! Proof that an option keeps the budgets in each part of the trace: in every window, in the second
//! half, and over the shortest lifetime.
//!
//! The response times of all parts come from the run over the whole trace, so they cost nothing.
//! A range of the lifetime that is already known costs nothing, either. Budgets of other figures
//! cost a run for each part. These runs are made side by side, and a proof ends at the first part
//! that breaks a budget.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bimetal_core::units::counted_are;
use bimetal_sim::simulator::SimulationError;
use rayon::prelude::*;

use crate::advice::{self, Confidence};
use crate::budget::{Budget, Metric};
use crate::evaluate::{Evaluator, Figures};
use crate::grid::Candidate;
use crate::parts::Parts;

/// Reason for which an option is not proven, as a clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Refuted(pub String);

/// Figures of an option over each part of the trace. `None` for a part without figures, and for all
/// parts if only response times have budgets. No parts if the trace is too short for them.
pub(crate) type Runs = Vec<Option<Box<Figures>>>;

/// Figures of an option over a part of the trace, or the reason for which the part refutes the
/// option.
type Played = Result<Option<Box<Figures>>, Refuted>;

/// Proves an option.
pub(crate) struct Proof<'a> {
    pub(crate) evaluator: &'a Evaluator<'a>,
    pub(crate) candidate: &'a Candidate,
    pub(crate) budgets: &'a [Budget],
    /// Number of runs so far.
    pub(crate) count: &'a AtomicU64,
}

impl Proof<'_> {
    /// Checks the figures of a run over all parts of the trace. `figures` are those of the run over
    /// the whole trace. Returns the first part in the order of the proof that breaks a budget.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn check_parts(&self, figures: &Figures) -> Result<Result<Runs, Refuted>, SimulationError> {
        let Some(parts) = self.evaluator.load.parts() else { return Ok(Ok(Runs::new())) };
        let of_times = |budget: &&Budget| budget.is_response_time();
        let in_parts = parts.that_must_keep().find_map(|part| {
            let mut budgets = self.budgets.iter().filter(of_times);
            budgets.find_map(|budget| refuted_in(parts, part, budget, figures.response_time_in(part, budget)))
        });
        match in_parts {
            Some(refuted) => Ok(Err(refuted)),
            None if self.budgets.iter().any(Budget::needs_runs_of_parts) => self.runs(parts),
            None => Ok(Ok(vec![None; parts.spans.len()])),
        }
    }

    /// Returns the confidence in the option, whose figures over the whole trace are `figures`, or
    /// the reason for which the option is not proven.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn find(&self, figures: &mut Figures) -> Result<Result<Confidence, Refuted>, SimulationError> {
        if let Some(reason) = refuted_by_life(figures, self.budgets) {
            return Ok(Err(Refuted(reason)));
        }
        match self.check_parts(figures)? {
            Ok(runs) => self.find_by(&runs, figures),
            Err(refuted) => Ok(Err(refuted)),
        }
    }

    /// Returns the same by the figures of parts that were [checked](Self::check_parts).
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn find_by(
        &self,
        runs: &Runs,
        figures: &mut Figures,
    ) -> Result<Result<Confidence, Refuted>, SimulationError> {
        let Self { evaluator, candidate, budgets, .. } = *self;
        let confidence = advice::of_parts(evaluator, candidate, figures, budgets, runs)?;
        if confidence.proven {
            return Ok(Ok(confidence));
        }
        if evaluator.load.parts().is_none() {
            let requests = counted_are(confidence.requests, "request");
            let lacking: Vec<&str> =
                confidence.lacks(figures, budgets).into_iter().map(|budget| budget.text.as_str()).collect();
            return Ok(Err(Refuted(format!("{requests} too few to be sure of {}", lacking.join(" and ")))));
        }
        let reason = refuted_by_life(figures, self.budgets);
        let reason = reason.unwrap_or_else(|| {
            let of_life = budgets.iter().any(Budget::needs_lives);
            let what = if of_life {
                "a half of the trace breaks a budget of the life"
            } else {
                "not every part of the trace keeps the budgets"
            };
            what.to_owned()
        });
        Ok(Err(Refuted(reason)))
    }

    /// Runs the option over all parts. Returns the first part in the order of the proof that breaks
    /// a budget.
    fn runs(&self, parts: &Parts) -> Result<Result<Runs, Refuted>, SimulationError> {
        // The first half need not keep the budgets, so it runs last.
        let in_turn: Vec<usize> = parts.that_must_keep().chain([parts.first_half()]).collect();
        let refuted_in_turn = AtomicUsize::new(usize::MAX);
        let played: Result<Vec<Option<Played>>, SimulationError> = in_turn
            .par_iter()
            .enumerate()
            .with_max_len(1)
            .map(|(turn, &part)| {
                // An earlier turn decides, whichever part ends first.
                if refuted_in_turn.load(Relaxed) < turn {
                    return Ok(None);
                }
                let played = self.play(parts, part)?;
                if played.is_err() {
                    refuted_in_turn.fetch_min(turn, Relaxed);
                }
                Ok(Some(played))
            })
            .collect();
        let mut runs: Runs = vec![None; in_turn.len()];
        for (turn, (part, played)) in in_turn.iter().zip(played?).enumerate() {
            match played {
                Some(Err(refuted)) => {
                    self.count.fetch_add(turn as u64 + 1, Relaxed);
                    return Ok(Err(refuted));
                }
                Some(Ok(run)) => runs[*part] = run,
                None => {}
            }
        }
        self.count.fetch_add(in_turn.len() as u64, Relaxed);
        Ok(Ok(runs))
    }

    /// Runs the option over one part.
    fn play(&self, parts: &Parts, part: usize) -> Result<Played, SimulationError> {
        let figures = advice::run_over(self.evaluator, self.candidate, parts.spans[part])?;
        let budgets = self.budgets.iter().filter(|budget| part != parts.first_half() && budget.needs_runs_of_parts());
        let value = |budget: &Budget| figures.as_ref().and_then(|figures| figures.of(budget));
        let refuted = { budgets }.find_map(|budget| refuted_in(parts, part, budget, value(budget)));
        Ok(refuted.map_or(Ok(figures), Err))
    }
}

/// Returns the reason for which a part of the trace with this figure breaks `budget`; `None` if it
/// keeps the budget. A part without the figure decides nothing.
fn refuted_in(parts: &Parts, part: usize, budget: &Budget, value: Option<f64>) -> Option<Refuted> {
    let broken = value.is_some() && !budget.kept_by(value);
    broken.then(|| Refuted(format!("in {} {}", parts.name(part), budget.broken_by(value))))
}

/// Returns the reason for which the lower end of the lifetime breaks one of `budgets`, which may
/// limit the cost of a year. Returns `None` if the lower end breaks no budget, or is not known.
pub(crate) fn refuted_by_life(figures: &Figures, budgets: &[Budget]) -> Option<String> {
    figures.lives.as_ref().filter(|lives| !lives.is_empty())?;
    let with_least = |budget: &Budget| match &budget.metric {
        Metric::Lifetime => Some(("at the lower end of its range", figures.life_range().0?)),
        Metric::Ownership(_) if budget.needs_lives() => Some(("with the shortest life", figures.usd_per_year_most()?)),
        _ => None,
    };
    budgets.iter().find_map(|budget| {
        let (when, value) = with_least(budget)?;
        let broken = !budget.kept_by(Some(value));
        broken.then(|| format!("{when} {}", budget.broken_by(Some(value))))
    })
}

#[cfg(test)]
mod tests {
    use bimetal_core::schemes;
    use bimetal_core::units::{Bytes, Nanoseconds};
    use bimetal_sim::lifetime::KnownWear;
    use bimetal_sim::limits::Limits;
    use bimetal_sim::setup::Choices;
    use bimetal_sim::simulator::Replay;
    use bimetal_trace::Request;
    use bimetal_trace::synthetic::{Generator, Interarrival, WorkloadSpec};

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::evaluate::{Load, Outcome};
    use crate::grid::Grid;
    use crate::tests::SHOP;

    /// Reads one second apart, and at the end one millisecond apart: a disk keeps up with all of
    /// the windows but the last.
    fn busy_at_the_end() -> Vec<Request> {
        let phase = |requests, gap| WorkloadSpec {
            read_fraction: 1.0,
            interarrival: Interarrival::Poisson(Nanoseconds::from_millis(gap)),
            ..WorkloadSpec::new(requests, Bytes::from_mib(64))
        };
        Generator::new(&[phase(950, 1000), phase(50, 1)], 1).unwrap().collect()
    }

    fn option(scheme: &str) -> Candidate {
        let catalogue = Catalogue::parse(SHOP, "shop").unwrap();
        Grid::of(&[schemes::find(scheme).unwrap()], &catalogue).candidates().remove(0)
    }

    /// Every proof of an option took all runs, also if the first of them refuted the option.
    #[test]
    fn proof_ends_at_the_first_part_that_refutes_the_option() {
        let (requests, common, known_wear) = (busy_at_the_end(), Choices::default(), KnownWear::default());
        let load = Load::read(&requests, &common, 0.0, &|_| {}).unwrap();
        let replay = Replay::Timed { speedup: 1.0 };
        let evaluator =
            Evaluator { load: &load, common: &common, replay, known_wear: &known_wear, variation: Default::default() };
        let find = |scheme: &str, figure: &str, life: Option<(f64, f64)>| {
            let budgets = [Budget::parse(figure).unwrap(), Budget::lifetime("1y").unwrap()];
            let candidate = option(scheme);
            let Ok(Outcome::Done(mut figures)) = evaluator.run(&candidate, Limits::default()) else { panic!() };
            figures.set_lives(evaluator.lives(&candidate).unwrap());
            figures.lives.iter_mut().flatten().for_each(|known| known.range_years = life.or(known.range_years));
            let runs = AtomicU64::new(0);
            let proof = Proof { evaluator: &evaluator, candidate: &candidate, budgets: &budgets, count: &runs };
            let found = proof.find(&mut figures).unwrap();
            let whole = advice::confidence(&evaluator, &candidate, &mut figures, &budgets).unwrap();
            assert_eq!(found.is_ok(), whole.proven, "{scheme}");
            (found.err(), runs.load(Relaxed))
        };
        let (refuted, runs) = find("hdd-only", "p90<25ms", None);
        let Refuted(reason) = refuted.expect("the last window breaks the budget");
        assert!(reason.starts_with("in window 10 of 10 p90 ") && reason.ends_with("breaks p90<25ms"), "{reason}");
        assert_eq!(runs, 0, "the run over the whole trace has the response times of its windows");
        assert_eq!(find("ssd-only", "p90<25ms", None), (None, 0));
        let (refuted, runs) = find("hdd-only", "throughput.iops<1.5", None);
        let Refuted(reason) = refuted.expect("the last window breaks the budget");
        assert!(reason.starts_with("in window 10 of 10 "), "{reason}");
        assert_eq!(runs, 10);
        assert_eq!(find("hdd-only", "throughput.iops<10", None), (None, 12));
        let (refuted, runs) = find("ssd-only", "p90<25ms", Some((0.5, 9.0)));
        let expected = "at the lower end of its range lifetime 0.5 years breaks lifetime>=1y";
        assert_eq!((refuted, runs), (Some(Refuted(expected.to_owned())), 0));
    }

    /// A run that ends at a limit of a part would have broken the limit there. The limits of the
    /// whole trace alone let the run go on to its end.
    #[test]
    fn run_ends_once_a_part_breaks_a_budget_for_certain() {
        let (requests, common, known_wear) = (busy_at_the_end(), Choices::default(), KnownWear::default());
        let load = Load::read(&requests, &common, 0.0, &|_| {}).unwrap();
        let replay = Replay::Timed { speedup: 1.0 };
        let evaluator =
            Evaluator { load: &load, common: &common, replay, known_wear: &known_wear, variation: Default::default() };
        let budgets = [Budget::parse("p90<25ms").unwrap()];
        let run = |limits| evaluator.run(&option("hdd-only"), limits).unwrap();
        let Outcome::Done(figures) = run(evaluator.limits(&budgets)) else {
            panic!("the whole trace keeps the budget")
        };
        assert!(figures.response_time_in(9, &budgets[0]).unwrap() > 25.0);
        let Outcome::Stopped { finished, broken } = run(evaluator.limits_of(&budgets, &budgets)) else { panic!() };
        assert_eq!(broken, "p90<25ms in window 10 of 10");
        assert!((900..1000).contains(&finished), "{finished} requests");
        let all_reads = [Budget::parse("read.p90<100s").unwrap(), Budget::parse("write.p90<1us").unwrap()];
        assert!(matches!(run(evaluator.limits_of(&all_reads, &all_reads)), Outcome::Done(_)));
    }
}
