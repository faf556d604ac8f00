//! Uncertainty of figures: half a 95 % interval, from runs with [disturbances](crate::disturbance).
//!
//! The figures of the first run, which is undisturbed, are printed. Of 20 runs that differ only by
//! disturbances, 19 have a figure within ± of the printed figure. ± is Student's *t* for 95 % times
//! the root of the mean square distance of the disturbed runs from the printed figure. The distance
//! is measured from the printed figure and not from the mean of the disturbed runs, so that a
//! figure that is exceptional by chance has a large ±, too.
//!
//! The largest distance would be too small an interval. With four disturbed runs the largest
//! distance includes a further run in only four cases of five, and it grows with the number of
//! runs. *t* accounts for a small number of runs: 12.7 with one disturbed run, 2.78 with four.
//! Differences of response times are not normally distributed. If the figures of runs form two
//! groups, ± is larger than the distance between the groups, as it should be.
//!
//! A figure leads another if their difference exceeds the root of the sum of the squares of the two
//! ±. Figures are positive, and the values of an unstable figure are mostly larger than its printed
//! value. So the interval reaches less far down than up: 29 ± 84 reaches up to 113, and down to 7.4
//! (29 divided by 1 + 84 / 29), never below 0.

use bimetal_measure::durations::Distribution;
use bimetal_measure::response_time::ResponseTimes;
use bimetal_measure::volume::HitRatio;

use crate::results::Run;

/// Student's t for a two-sided interval of 95 %, by the number of degrees of freedom from 1 on.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Student's t for more degrees of freedom.
const T_MANY: f64 = 1.96;

/// Figures of a disturbed run.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    response_time_ms: ResponseTimes,
    ssd_hit_ratio: HitRatio,
    ssd_write_bytes: Option<f64>,
    write_amplification: Option<f64>,
    hdd_busy_fraction: Option<f64>,
}

impl Sample {
    /// Returns the figures of `run`.
    pub(crate) fn of(run: &Run) -> Self {
        Self {
            response_time_ms: run.response_time_ms,
            ssd_hit_ratio: run.ssd_hit_ratio,
            ssd_write_bytes: run.devices.ssd.write_bytes.map(|bytes| bytes as f64),
            write_amplification: run.devices.ssd.flash.write_amplification,
            hdd_busy_fraction: run.devices.hdd.busy_fraction,
        }
    }
}

/// Returns half the interval around `figure` from the figure in each disturbed run; `None` if a run
/// lacks the figure.
fn half_interval(figure: Option<f64>, others: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let figure = figure?;
    let (mut squares, mut count) = (0.0, 0usize);
    for other in others {
        squares += (other? - figure).powi(2);
        count += 1;
    }
    let t = T.get(count.checked_sub(1)?).copied().unwrap_or(T_MANY);
    Some(t * (squares / count as f64).sqrt()).filter(|half| half.is_finite())
}

/// Sets the uncertainty of the figures of `run` from disturbed runs; without such runs there is no
/// uncertainty.
pub(crate) fn note(run: &mut Run, others: &[Sample]) {
    let times = &mut run.response_time_ms;
    note_distribution(&mut times.all, others, |sample| &sample.response_time_ms.all);
    note_distribution(&mut times.read, others, |sample| &sample.response_time_ms.read);
    note_distribution(&mut times.write, others, |sample| &sample.response_time_ms.write);
    note_distribution(&mut times.flush, others, |sample| &sample.response_time_ms.flush);
    let own = Sample::of(run);
    let of = |figure: fn(&Sample) -> Option<f64>| half_interval(figure(&own), others.iter().map(figure));
    run.ssd_hit_ratio.read_pm = of(|sample| sample.ssd_hit_ratio.read);
    run.ssd_hit_ratio.write_pm = of(|sample| sample.ssd_hit_ratio.write);
    run.devices.ssd.write_bytes_pm = of(|sample| sample.ssd_write_bytes);
    run.devices.ssd.flash.write_amplification_pm = of(|sample| sample.write_amplification);
    run.devices.hdd.busy_fraction_pm = of(|sample| sample.hdd_busy_fraction);
}

fn note_distribution(own: &mut Distribution, others: &[Sample], of: fn(&Sample) -> &Distribution) {
    let undisturbed = *own;
    let half = |figure: fn(&Distribution) -> Option<f64>| {
        half_interval(figure(&undisturbed), others.iter().map(|sample| figure(of(sample))))
    };
    own.mean_pm = half(|times| times.mean);
    own.p50_pm = half(|times| times.p50);
    own.p90_pm = half(|times| times.p90);
    own.p95_pm = half(|times| times.p95);
    own.p99_pm = half(|times| times.p99);
    own.p999_pm = half(|times| times.p999);
    own.p9999_pm = half(|times| times.p9999);
    own.max_pm = half(|times| times.max);
}

/// Returns true if two figures, each with its ±, differ by more than chance explains.
pub fn differ(one: (f64, Option<f64>), other: (f64, Option<f64>)) -> bool {
    let (smaller, larger) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    let up = smaller.1.unwrap_or(0.0);
    let half = larger.1.unwrap_or(0.0);
    let down = if larger.0 > 0.0 { half / (1.0 + half / larger.0) } else { half };
    larger.0 - smaller.0 > up.hypot(down)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(figure: f64, others: &[f64]) -> Option<f64> {
        half_interval(Some(figure), others.iter().copied().map(Some))
    }

    #[test]
    fn half_interval_is_t_times_the_root_mean_square_distance() {
        assert_eq!(half(10.0, &[10.0, 10.0]), Some(0.0));
        assert_eq!(half(10.0, &[11.0]), Some(12.706));
        let four = half(10.0, &[11.0, 9.0, 13.0, 7.0]).unwrap();
        assert!((four - 2.776 * 5.0_f64.sqrt()).abs() < 1e-9, "{four}");
        // A figure beside all others is uncertain, though the others agree.
        assert!(half(318.0, &[123.0, 123.0, 124.0, 122.0]).unwrap() > 195.0);
        assert!((half(0.0, &[1.0; 40]).unwrap() - 1.96).abs() < 1e-9);
    }

    #[test]
    fn missing_figure_has_no_interval() {
        assert_eq!(half(1.0, &[]), None);
        assert_eq!(half_interval(None, [Some(1.0)].into_iter()), None);
        assert_eq!(half_interval(Some(1.0), [Some(1.0), None].into_iter()), None);
    }

    #[test]
    fn figures_differ_beyond_both_intervals() {
        assert!(differ((10.0, Some(3.0)), (16.0, Some(4.0))));
        assert!(!differ((10.0, Some(3.0)), (14.0, Some(4.0))));
        // An unstable figure is far above a small one all the same.
        assert!(differ((29.1, Some(84.0)), (0.08, Some(0.002))) && !differ((29.1, Some(84.0)), (8.0, Some(0.1))));
        assert!(differ((1.0, None), (1.1, None)) && !differ((1.0, None), (1.0, None)));
    }

    /// Of many runs that differ only by chance, 19 of 20 lie within ±, and not fewer.
    #[test]
    fn interval_holds_a_further_run_19_times_of_20() {
        use rand_core::Rng;
        let mut random = rand_pcg::Pcg64Mcg::new(5);
        // The sum of 12 uniform numbers is nearly normal.
        let mut normal = || (0..12).map(|_| f64::from(random.next_u32()) / f64::from(u32::MAX)).sum::<f64>() - 6.0;
        for disturbed in [1, 4, 9] {
            let mut held = 0;
            for _ in 0..20_000 {
                let figure = normal();
                let others: Vec<f64> = (0..disturbed).map(|_| normal()).collect();
                held += u32::from((normal() - figure).abs() <= half(figure, &others).unwrap());
            }
            assert!((19_000..=19_700).contains(&held), "{held} of 20000 with {disturbed}");
        }
    }
}
