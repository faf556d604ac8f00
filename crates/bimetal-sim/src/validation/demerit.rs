//! Rms demerit figure: the root-mean-square horizontal distance between two distributions of
//! response times.
//!
//! The figure is defined by Ruemmler and Wilkes ("An Introduction to Disk Drive Modeling", IEEE
//! Computer, March 1994). The demerit figure is computed as in DiskSim's validation, bins and
//! rounding included, so that the figures compare digit by digit.

use bimetal_core::units::Nanoseconds;

/// Number of bins in a distribution; the last bin has no upper edge.
const BINS: usize = 1750;

/// Number of points at which the distributions are inverted.
const POINTS: u32 = 10_000;

/// Distribution of response times: rows of microseconds and the fraction of requests below, as
/// printed with six decimals, up to the first row at 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    rows: Vec<(f64, f64)>,
}

impl Curve {
    /// Returns the distribution of `responses`, of which there is at least one.
    pub fn new(responses: &[Nanoseconds]) -> Self {
        assert!(!responses.is_empty(), "a distribution of nothing");
        let mut micros: Vec<u64> = responses.iter().map(|response| response.0 / 1000).collect();
        micros.sort_unstable();
        let mut rows = Vec::new();
        for edge in edges() {
            let below = micros.partition_point(|value| *value < edge);
            let fraction = (below as f64 / micros.len() as f64 * 1e6).round() / 1e6;
            rows.push((edge as f64, fraction));
            if fraction >= 1.0 {
                return Self { rows };
            }
        }
        // Times after the last edge are put at the longest response time.
        let last = micros[micros.len() - 1] as f64;
        rows.push((last.max(rows[rows.len() - 1].0 + 1.0), 1.0));
        Self { rows }
    }

    /// Returns microseconds and the fraction of requests below, in order.
    pub fn rows(&self) -> &[(f64, f64)] {
        &self.rows
    }

    /// Returns the microseconds below which the fraction `p` lies, by interpolation up to the first
    /// row that reaches `p`. `from` is an earlier row, and is moved to this row.
    fn inverse_us(&self, p: f64, from: &mut usize) -> f64 {
        while *from + 1 < self.rows.len() && self.rows[*from].1 < p {
            *from += 1;
        }
        let (edge, fraction) = self.rows[*from];
        let Some((before, fraction_before)) = from.checked_sub(1).map(|row| self.rows[row]) else { return edge };
        before + (edge - before) * (p - fraction_before) / (fraction - fraction_before)
    }
}

/// Returns the edges: Upper edges of the bins: 0, and then each edge 1 µs and a hundredth above the
/// edge before.
fn edges() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0_u64), |edge| Some(edge + 1 + edge / 100)).take(BINS)
}

/// Returns the rms demerit between two distributions, in milliseconds.
pub fn rms_demerit_ms(measured: &Curve, simulated: &Curve) -> f64 {
    let (mut p, mut sum, mut points) = (0.0, 0.0, 0_u32);
    let (mut measured_row, mut simulated_row) = (0, 0);
    let step = 1.0 / f64::from(POINTS);
    while points < POINTS {
        p += step;
        let distance = simulated.inverse_us(p, &mut simulated_row) - measured.inverse_us(p, &mut measured_row);
        sum += distance * distance;
        points += 1;
    }
    (sum / f64::from(POINTS)).sqrt() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(micros: &[u64]) -> Curve {
        Curve::new(&micros.iter().map(|us| Nanoseconds::from_micros(*us)).collect::<Vec<_>>())
    }

    #[test]
    fn bins_are_a_microsecond_wide_at_first_and_then_a_hundredth() {
        let edges: Vec<u64> = edges().collect();
        assert_eq!(edges.len(), 1750);
        assert_eq!(&edges[..3], [0, 1, 2]);
        assert_eq!(&edges[99..103], [99, 100, 102, 104]);
        // A time of 10,000 µs falls in a bin of about 0.1 ms.
        let bin = edges.partition_point(|edge| *edge <= 10_000);
        assert!((95..=105).contains(&(edges[bin] - edges[bin - 1])));
    }

    #[test]
    fn one_response_lies_on_the_line_through_its_bin() {
        // For 50 µs: F(50) = 0, F(51) = 1, so the inverse at p is 50 + p.
        let one = curve(&[50]);
        assert_eq!(one.rows().last(), Some(&(51.0, 1.0)));
        let mut row = 0;
        assert!((one.inverse_us(0.25, &mut row) - 50.25).abs() < 1e-9);
        // A second curve 10 µs further on is 10 µs away at each p.
        assert!((rms_demerit_ms(&one, &curve(&[60])) - 0.010).abs() < 1e-9);
    }

    #[test]
    fn the_distance_is_squared_before_the_mean() {
        // Half of the requests agree, half are 30 µs apart: √(½ · 30²) µs.
        let demerit = rms_demerit_ms(&curve(&[10, 50]), &curve(&[10, 80]));
        assert!((demerit - 0.030 / 2_f64.sqrt()).abs() < 2e-6, "{demerit}");
        // The order of the requests does not matter, and the distance of a curve from itself is
        // zero.
        assert_eq!(rms_demerit_ms(&curve(&[10, 50, 90]), &curve(&[90, 10, 50])), 0.0);
    }

    #[test]
    fn a_response_behind_the_last_edge_counts() {
        let last = edges().last().unwrap();
        let far = curve(&[10, last + 1000]);
        assert!(rms_demerit_ms(&far, &curve(&[10, 10])) > 0.5 * last as f64 / 1e3);
    }
}
