//! Mechanisms behind the errors of MixedStore's table 3. One average of a workload takes several
//! values, and prediction and simulation are compared at each value.

use bimetal_core::units::Bytes;
use bimetal_plan::mixcp::regression::Design;
use bimetal_plan::mixcp::training::{measure_with_median, sized};
use bimetal_plan::mixcp::{Behaviour, Characteristics, ModelError, relative};
use rayon::prelude::*;

use super::{LISTED, Subject};
use crate::claims::{Unit, short};

/// Sizes in sectors of W2: up to half of the training set's largest size.
const SIZES: [f64; 5] = [2.5, 6.57, 16.9, 32.0, 48.0];

/// Utilisations of W3, and the size in sectors of small writes beside its own size.
const UTILISATIONS: [f64; 3] = [0.2, 0.7, 0.94];
const SMALL: f64 = 16.9;

/// Sizes in sectors and times between arrivals in milliseconds of W5.
const WORN_SIZES: [f64; 2] = [6.57, 16.9];
const WORN_GAPS: [f64; 2] = [320.0, 80.0];

/// Number of simulated workloads.
pub(super) const RUNS: usize = SIZES.len() + 2 * UTILISATIONS.len() + WORN_SIZES.len() + WORN_GAPS.len();

/// Predicted and simulated behaviour under a workload.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// Averages of the generated workload.
    pub workload: Characteristics,
    /// Behaviour predicted by equations 2 and 3.
    pub predicted: Behaviour,
    /// Behaviour simulated on the SSD alone.
    pub simulated: Behaviour,
    /// Median of the simulated response times in milliseconds.
    pub median_ms: f64,
}

/// Observations that explain the errors of table 3.
#[derive(Clone, Debug)]
pub struct Mechanisms {
    /// W2 with several sizes.
    pub w2: Vec<Observation>,
    /// W3 with several utilisations: its large writes, and small writes.
    pub w3: [Vec<Observation>; 2],
    /// W5 with several sizes, and with several times between arrivals.
    pub w5: [Vec<Observation>; 2],
}

impl Mechanisms {
    /// Simulates the workloads on `flash` bytes. Calls `over` after each.
    pub(super) fn observe(subject: &Subject, flash: Bytes, over: &(dyn Fn() + Sync)) -> Result<Self, ModelError> {
        let [_, w2, w3, _, w5, _] = LISTED.map(|listed| listed.workload);
        let observe = |base: Characteristics, values: &[f64], set: fn(&mut Characteristics, f64)| {
            let workloads = values.par_iter().with_max_len(1).map(|value| {
                let mut workload = base;
                set(&mut workload, *value);
                let observation = observation(subject, flash, &workload)?;
                over();
                Ok(observation)
            });
            workloads.collect::<Result<Vec<_>, ModelError>>()
        };
        let small = Characteristics { request_sectors: SMALL, ..w3 };
        let by_utilisation = |base| observe(base, &UTILISATIONS, |workload, value| workload.utilisation = value);
        let by_size = |base, sizes: &[f64]| observe(base, sizes, |workload, value| workload.request_sectors = value);
        Ok(Self {
            w2: by_size(w2, &SIZES)?,
            w3: [by_utilisation(w3)?, by_utilisation(small)?],
            w5: [by_size(w5, &WORN_SIZES)?, observe(w5, &WORN_GAPS, |workload, gap| workload.interarrival_ms = gap)?],
        })
    }

    /// Returns the error of the response time of W2 with each size, and the size as text.
    pub fn errors_of_w2(&self) -> Vec<(String, f64)> {
        let size = |point: &Observation| format!("with {} sectors", short(point.workload.request_sectors));
        errors(&self.w2, size, |behaviour| behaviour.response_ms)
    }

    /// Returns the error of the response time of W3 with each utilisation, for large writes and for
    /// small writes.
    pub fn errors_of_w3(&self) -> Vec<(String, f64)> {
        let text = |point: &Observation| {
            let Characteristics { request_sectors, utilisation, .. } = point.workload;
            format!("with {} sectors at a utilisation of {}", short(request_sectors), short(utilisation))
        };
        self.w3.iter().flat_map(|points| errors(points, text, |behaviour| behaviour.response_ms)).collect()
    }

    /// Returns the error of the erase rate of W5 with each size and each time between arrivals.
    pub fn errors_of_w5_erases(&self) -> Vec<(String, f64)> {
        let text = |point: &Observation| {
            let Characteristics { request_sectors, interarrival_ms, .. } = point.workload;
            format!("with {} sectors every {} ms", short(request_sectors), short(interarrival_ms))
        };
        self.w5.iter().flat_map(|points| errors(points, text, |behaviour| behaviour.erases_per_s)).collect()
    }

    /// Returns the simulated response times of W2 as a sentence.
    pub fn of_w2(&self) -> String {
        let points = &self.w2;
        let (slope, r2) = line(points).unwrap_or_default();
        format!(
            "simulated, {} sectors take {} ms; the line through these times rises by {slope:.4} ms a sector, with R² \
             {}; equation 2 is exponential in the size",
            all(points, |point| point.workload.request_sectors),
            all(points, |point| point.simulated.response_ms),
            Unit::Share.text(r2),
        )
    }

    /// Returns the simulated and predicted response times of W3 as a sentence.
    pub fn of_w3(&self) -> String {
        let [large, small] = &self.w3;
        let size = |points: &[Observation]| points.first().map_or(0.0, |point| point.workload.request_sectors);
        format!(
            "at utilisations of {}, {} sectors take {} ms on average and {} ms in the median, {} sectors take {} ms; \
             equation 2 predicts {} and {} ms",
            all(large, |point| point.workload.utilisation),
            short(size(large)),
            all(large, |point| point.simulated.response_ms),
            all(large, |point| point.median_ms),
            short(size(small)),
            all(small, |point| point.simulated.response_ms),
            all(large, |point| point.predicted.response_ms),
            all(small, |point| point.predicted.response_ms),
        )
    }

    /// Returns the growth of W5's erase rate as a sentence.
    pub fn of_w5_erases(&self) -> String {
        let [sizes, gaps] = &self.w5;
        let grown = |points: &[Observation], figure: fn(&Observation) -> f64| {
            let (first, last) = (points.first().map_or(1.0, figure), points.last().map_or(1.0, figure));
            short(last / first)
        };
        let each = |points: &[Observation]| {
            format!(
                "{} times the bytes a second, {} times the erases and by equation 3 {} times",
                grown(points, |point| point.workload.request_sectors / point.workload.interarrival_ms),
                grown(points, |point| point.simulated.erases_per_s),
                grown(points, |point| point.predicted.erases_per_s)
            )
        };
        format!(
            "with {} sectors, {}; with {} ms between arrivals, {}",
            all(sizes, |point| point.workload.request_sectors),
            each(sizes),
            all(gaps, |point| point.workload.interarrival_ms),
            each(gaps)
        )
    }
}

/// Returns the error of a predicted figure in each observation, and the workload as text.
fn errors(
    points: &[Observation],
    text: impl Fn(&Observation) -> String,
    figure: fn(&Behaviour) -> f64,
) -> Vec<(String, f64)> {
    let error = |point: &Observation| relative(figure(&point.predicted), figure(&point.simulated));
    points.iter().map(|point| (text(point), error(point))).collect()
}

fn observation(subject: &Subject, flash: Bytes, workload: &Characteristics) -> Result<Observation, ModelError> {
    let (sample, median_ms) = measure_with_median(&sized(&subject.profile, flash)?, flash, workload, 3)?;
    let predicted = subject.model.predict(&sample.workload);
    Ok(Observation { workload: sample.workload, predicted, simulated: sample.measured, median_ms })
}

/// Returns slope and adjusted R² of the line through the simulated times over the sizes.
fn line(points: &[Observation]) -> Option<(f64, f64)> {
    let sizes: Vec<[f64; 1]> = points.iter().map(|point| [point.workload.request_sectors]).collect();
    let times: Vec<f64> = points.iter().map(|point| point.simulated.response_ms).collect();
    let fit = Design::new(["request_sectors"], &sizes).ok()?.fit(&times).ok()?;
    Some((*fit.slopes.first()?, fit.adjusted_r2))
}

/// Returns a figure of all points as text.
fn all(points: &[Observation], figure: fn(&Observation) -> f64) -> String {
    points.iter().map(|point| short(figure(point))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an observation with these sectors, and predicted and simulated milliseconds.
    fn observed(request_sectors: f64, predicted_ms: f64, simulated_ms: f64) -> Observation {
        let behaviour = |response_ms| Behaviour { response_ms, erases_per_s: response_ms };
        let [_, w2, ..] = LISTED.map(|listed| listed.workload);
        Observation {
            workload: Characteristics { request_sectors, ..w2 },
            predicted: behaviour(predicted_ms),
            simulated: behaviour(simulated_ms),
            median_ms: 1.0,
        }
    }

    #[test]
    fn sentences_have_the_values_that_were_measured() {
        let points = vec![observed(10.0, 0.3, 0.2), observed(20.0, 0.4, 0.3), observed(30.0, 0.3, 0.4)];
        let mechanisms = Mechanisms {
            w2: points.clone(),
            w3: [points.clone(), points.clone()],
            w5: [points.clone(), points[..2].to_vec()],
        };
        let w2 = mechanisms.of_w2();
        assert!(
            w2.starts_with("simulated, 10, 20, 30 sectors") && w2.contains("0.0100 ms a sector, with R² 100 %"),
            "{w2}"
        );
        let errors = mechanisms.errors_of_w2();
        assert!(errors[0].0 == "with 10 sectors" && (errors[0].1 - 0.5).abs() < 1e-9, "{errors:?}");
        assert!((errors[2].1 - 0.25).abs() < 1e-9, "an error has no sign: {errors:?}");
        assert_eq!((mechanisms.errors_of_w3().len(), mechanisms.errors_of_w5_erases().len()), (6, 5));
        let w3 = mechanisms.of_w3();
        assert!(w3.contains("10 sectors take 0.2, 0.3, 0.4 ms on average and 1, 1, 1 ms in the median"), "{w3}");
        let w5 = mechanisms.of_w5_erases();
        assert!(
            w5.contains(
                "with 10, 20, 30 sectors, 3 times the bytes a second, 2 times the erases and by equation 3 1 times"
            ),
            "{w5}"
        );
        assert!(w5.ends_with("1.5 times the erases and by equation 3 1.33 times"), "{w5}");
    }

    /// The words of the sentences hold in simulation: the mean rises with the utilisation for large
    /// writes alone, while their median does not, and erases follow the bytes.
    #[test]
    fn simulated_workloads_behave_as_the_sentences_say() {
        let (subject, flash) = super::super::tests::subject(30);
        let Mechanisms { w2, w3: [large, small], w5 } = Mechanisms::observe(&subject, flash, &|| {}).unwrap();
        let mean = |points: &[Observation], at: usize| points[at].simulated.response_ms;
        assert!(mean(&large, 2) > 1.5 * mean(&large, 0), "{large:?}");
        assert!((large[2].median_ms / large[0].median_ms - 1.0).abs() < 0.05, "{large:?}");
        assert!((mean(&small, 2) / mean(&small, 0) - 1.0).abs() < 0.05, "{small:?}");
        assert!(line(&w2).is_some_and(|(_, r2)| r2 > 0.98), "{w2:?}");
        for points in w5 {
            assert!(points[1].simulated.erases_per_s > 2.0 * points[0].simulated.erases_per_s, "{points:?}");
        }
    }
}
