//! Figures for the agreement of simulated response times with measured ones.

use bimetal_core::units::Nanoseconds;

use super::demerit::{Curve, rms_demerit_ms};

/// Agreement of a model with a drive. Errors are measured minus simulated response times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Agreement {
    /// Number of requests.
    pub requests: u64,
    /// Root-mean-square horizontal distance of the two distributions: see [`rms_demerit_ms`].
    pub rms_demerit_ms: f64,
    /// Root of the mean squared error, request by request.
    pub per_request_rms_ms: f64,
    /// Median of the errors without their signs.
    pub median_abs_error_ms: f64,
    /// Mean of the errors.
    pub mean_error_ms: f64,
    /// Largest vertical distance of the two distributions (Kolmogorov and Smirnov).
    pub ks_distance: f64,
    /// Mean of the measured response times.
    pub measured_mean_ms: f64,
    /// Mean of the simulated response times.
    pub simulated_mean_ms: f64,
}

impl Agreement {
    /// Compares responses that correspond pairwise; `None` if there are no responses.
    pub fn of(measured: &[Nanoseconds], simulated: &[Nanoseconds]) -> Option<Self> {
        assert_eq!(measured.len(), simulated.len(), "responses belong together pairwise");
        if measured.is_empty() {
            return None;
        }
        let count = measured.len() as f64;
        let errors: Vec<f64> =
            measured.iter().zip(simulated).map(|(m, s)| m.as_millis_f64() - s.as_millis_f64()).collect();
        let mean = |responses: &[Nanoseconds]| responses.iter().map(|r| r.as_millis_f64()).sum::<f64>() / count;
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let middle = sizes.len() / 2;
        Some(Self {
            requests: measured.len() as u64,
            rms_demerit_ms: rms_demerit_ms(&Curve::new(measured), &Curve::new(simulated)),
            per_request_rms_ms: (errors.iter().map(|error| error * error).sum::<f64>() / count).sqrt(),
            median_abs_error_ms: if sizes.len() % 2 == 1 {
                sizes[middle]
            } else {
                (sizes[middle - 1] + sizes[middle]) / 2.0
            },
            mean_error_ms: errors.iter().sum::<f64>() / count,
            ks_distance: ks_distance(measured, simulated),
            measured_mean_ms: mean(measured),
            simulated_mean_ms: mean(simulated),
        })
    }
}

fn ks_distance(a: &[Nanoseconds], b: &[Nanoseconds]) -> f64 {
    let sorted = |responses: &[Nanoseconds]| {
        let mut sorted = responses.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let (a, b) = (sorted(a), sorted(b));
    let (mut i, mut j, mut largest) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        i += a[i..].partition_point(|value| *value <= at);
        j += b[j..].partition_point(|value| *value <= at);
        largest = largest.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(values: &[u64]) -> Vec<Nanoseconds> {
        values.iter().map(|value| Nanoseconds::from_millis(*value)).collect()
    }

    #[test]
    fn figures_of_a_small_case_worked_out_by_hand() {
        // Errors are -1, 0, 1, 4: rms √(18/4), median of 0 1 1 4 is 1, mean 1.
        let agreement = Agreement::of(&millis(&[1, 5, 8, 10]), &millis(&[2, 5, 7, 6])).unwrap();
        assert_eq!(agreement.requests, 4);
        assert!((agreement.per_request_rms_ms - 4.5_f64.sqrt()).abs() < 1e-12);
        assert!((agreement.median_abs_error_ms - 1.0).abs() < 1e-12);
        assert!((agreement.mean_error_ms - 1.0).abs() < 1e-12);
        assert!((agreement.measured_mean_ms - 6.0).abs() < 1e-12 && (agreement.simulated_mean_ms - 5.0).abs() < 1e-12);
        // At 7 ms, half of the measured and all of the simulated are done.
        assert!((agreement.ks_distance - 0.5).abs() < 1e-12);
        assert_eq!(Agreement::of(&[], &[]), None);
    }

    #[test]
    fn equal_responses_agree() {
        let responses = millis(&[3, 1, 1, 9]);
        let agreement = Agreement::of(&responses, &responses).unwrap();
        assert_eq!((agreement.rms_demerit_ms, agreement.per_request_rms_ms, agreement.ks_distance), (0.0, 0.0, 0.0));
    }
}
