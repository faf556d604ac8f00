//! Proof that an option keeps the budgets in each part of the trace: in every window, in the second
//! half, and over the shortest lifetime.
//!
//! A proof costs some ten runs, and a search may have to prove many options of one price. So a
//! proof ends at the first part that breaks a budget. A range of the lifetime that is already known
//! comes first, because it costs no run. The next part is the part that refuted another option of
//! this price: the busiest part of a trace refutes most options. The other parts run side by side,
//! and a run stops once it breaks a budget for certain.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bimetal_core::units::counted_are;
use bimetal_sim::simulator::SimulationError;
use rayon::prelude::*;

use crate::advice::{self, Confidence, Parts};
use crate::budget::{Budget, Metric};
use crate::evaluate::{Evaluator, Figures};
use crate::grid::Candidate;

/// Reason for which an option is not proven.
#[derive(Clone, Debug, PartialEq)]
pub struct Refuted {
    /// Number of the part of the trace that breaks a budget; `None` if no part of the trace does.
    pub(crate) part: Option<usize>,
    /// The reason, as a clause.
    pub reason: String,
}

impl Refuted {
    fn without_part(reason: String) -> Self {
        Self { part: None, reason }
    }
}

/// Figures of an option over a part of the trace, or the reason for which the part refutes the
/// option.
type Played = Result<Option<Box<Figures>>, String>;

/// Figures of an option over each part of the trace.
type Runs = Vec<Option<Box<Figures>>>;

/// Parts of a trace, none of which breaks a budget, and the figures over each part.
pub(crate) type PlayedParts = (Parts, Runs);

/// Proves an option.
pub(crate) struct Proof<'a> {
    pub(crate) evaluator: &'a Evaluator<'a>,
    pub(crate) candidate: &'a Candidate,
    pub(crate) budgets: &'a [Budget],
    /// Part of the trace that refuted another option.
    pub(crate) likely: Option<usize>,
    /// Number of runs so far.
    pub(crate) count: &'a AtomicU64,
}

impl Proof<'_> {
    /// Plays all parts of the trace. Returns `None` if the trace is too short for parts, and the
    /// first part in the order of the proof that breaks a budget.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn play_parts(&self) -> Result<Result<Option<PlayedParts>, Refuted>, SimulationError> {
        let Some(parts) = Parts::of(self.evaluator.load) else { return Ok(Ok(None)) };
        Ok(self.runs(&parts)?.map(|runs| Some((parts, runs))))
    }

    /// Returns the confidence in the option, whose figures over the whole trace are `figures`, or
    /// the reason for which the option is not proven.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn find(&self, figures: &mut Figures) -> Result<Result<Confidence, Refuted>, SimulationError> {
        if let Some(reason) = refuted_by_life(figures, self.budgets) {
            return Ok(Err(Refuted::without_part(reason)));
        }
        match self.play_parts()? {
            Ok(parts) => self.find_by(parts, figures),
            Err(refuted) => Ok(Err(refuted)),
        }
    }

    /// Returns the same by parts that were [played](Self::play_parts).
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn find_by(
        &self,
        parts: Option<PlayedParts>,
        figures: &mut Figures,
    ) -> Result<Result<Confidence, Refuted>, SimulationError> {
        let Self { evaluator, candidate, budgets, .. } = *self;
        let Some((parts, runs)) = parts else {
            let confidence = advice::confidence(evaluator, candidate, figures, budgets)?;
            let requests = counted_are(confidence.requests, "request");
            let lacking: Vec<&str> =
                confidence.lacks(figures, budgets).into_iter().map(|budget| budget.text.as_str()).collect();
            let too_few = format!("{requests} too few to be sure of {}", lacking.join(" and "));
            return Ok(if confidence.proven { Ok(confidence) } else { Err(Refuted::without_part(too_few)) });
        };
        let confidence = advice::of_parts(evaluator, candidate, figures, budgets, &parts, runs)?;
        if confidence.proven {
            return Ok(Ok(confidence));
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
        Ok(Err(Refuted::without_part(reason)))
    }

    /// Returns the runs over all parts, or the first part in the order of the proof that breaks a
    /// budget.
    fn runs(&self, parts: &Parts) -> Result<Result<Runs, Refuted>, SimulationError> {
        let all = parts.spans.len();
        let likely = self.likely.filter(|part| *part < all && *part != parts.first_half());
        let mut runs: Runs = vec![None; all];
        if let Some(part) = likely {
            self.count.fetch_add(1, Relaxed);
            match self.play(parts, part)? {
                Ok(run) => runs[part] = run,
                Err(reason) => return Ok(Err(Refuted { part: Some(part), reason })),
            }
        }
        // The first half need not keep the budgets, so it runs last.
        let mut others: Vec<usize> = (0..all).filter(|part| Some(*part) != likely).collect();
        others.sort_by_key(|part| *part == parts.first_half());
        let refuted_in_turn = AtomicUsize::new(usize::MAX);
        let played: Result<Vec<Option<Played>>, SimulationError> = others
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
        for (turn, (part, played)) in others.iter().zip(played?).enumerate() {
            match played {
                Some(Err(reason)) => {
                    self.count.fetch_add(turn as u64 + 1, Relaxed);
                    return Ok(Err(Refuted { part: Some(*part), reason }));
                }
                Some(Ok(run)) => runs[*part] = run,
                None => {}
            }
        }
        self.count.fetch_add(others.len() as u64, Relaxed);
        Ok(Ok(runs))
    }

    /// Plays one part. Stops once the part breaks a budget for certain.
    fn play(&self, parts: &Parts, part: usize) -> Result<Played, SimulationError> {
        let is_free = part == parts.first_half();
        let limits: &[Budget] = if is_free { &[] } else { self.budgets };
        let played = advice::part(self.evaluator, self.candidate, parts.spans[part], limits)?;
        let named = |reason: String| format!("in {} {reason}", parts.name(part));
        let figures = match played {
            Ok(figures) => figures,
            Err(broken) => return Ok(Err(named(format!("it breaks {broken}")))),
        };
        // A part without the figure decides nothing.
        let breaks = |budget: &&Budget| {
            let value = figures.as_ref().and_then(|figures| figures.of(budget));
            budget.is_of_run() && value.is_some() && !budget.kept_by(value)
        };
        let broken = self.budgets.iter().filter(|_| !is_free).find(breaks);
        Ok(match broken {
            Some(budget) => {
                let value = figures.as_ref().and_then(|figures| figures.of(budget));
                Err(named(budget.broken_by(value)))
            }
            None => Ok(figures),
        })
    }
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
        let evaluator = Evaluator { load: &load, common: &common, replay, known_wear: &known_wear };
        let budgets = [Budget::parse("p90<25ms").unwrap(), Budget::lifetime("1y").unwrap()];
        let find = |scheme: &str, likely, life: Option<(f64, f64)>| {
            let candidate = option(scheme);
            let Ok(Outcome::Done(mut figures)) = evaluator.run(&candidate, Limits::default()) else { panic!() };
            figures.set_lives(evaluator.lives(&candidate).unwrap());
            figures.lives.iter_mut().flatten().for_each(|known| known.range_years = life.or(known.range_years));
            let runs = AtomicU64::new(0);
            let proof = Proof { evaluator: &evaluator, candidate: &candidate, budgets: &budgets, likely, count: &runs };
            let found = proof.find(&mut figures).unwrap();
            let whole = advice::confidence(&evaluator, &candidate, &mut figures, &budgets).unwrap();
            assert_eq!(found.is_ok(), whole.proven, "{scheme}");
            (found.err(), runs.load(Relaxed))
        };
        let (refuted, runs) = find("hdd-only", None, None);
        let refuted = refuted.expect("the last window breaks the budget");
        assert_eq!((refuted.part, runs), (Some(9), 10));
        assert!(refuted.reason.starts_with("in window 10 of 10 "), "{}", refuted.reason);
        assert!(refuted.reason.contains("breaks p90<25ms"), "{}", refuted.reason);
        assert_eq!(find("hdd-only", Some(9), None), (Some(refuted), 1));
        assert_eq!(find("ssd-only", Some(9), None), (None, 12));
        let (refuted, runs) = find("ssd-only", None, Some((0.5, 9.0)));
        let expected = "at the lower end of its range lifetime 0.5 years breaks lifetime>=1y";
        assert_eq!((refuted.map(|refuted| refuted.reason), runs), (Some(expected.to_owned()), 0));
    }
}
