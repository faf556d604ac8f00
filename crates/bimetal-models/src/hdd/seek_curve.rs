//! Seek times of the arm by number of cylinders.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::profile::{HddProfile, SeekFigures, SeekFormula};
use crate::profile::BadFigure;

/// Seek curve of an arm.
#[derive(Clone, PartialEq, Debug)]
pub enum SeekCurve {
    /// Curve through a data sheet's three figures.
    Fitted(FittedCurve),
    /// Nanoseconds by distance, from measured points or a formula.
    Listed(Vec<u64>),
}

impl SeekCurve {
    /// Returns the seek times over distances that `profile` gives for writes or reads, on an arm
    /// with `cylinders` cylinders.
    ///
    /// # Errors
    /// Refuses a profile without seek times, with two kinds of seek times, or with times through
    /// which no curve passes.
    pub fn new(profile: &HddProfile, write: bool, cylinders: u32) -> Result<Self, BadFigure> {
        const READ: [&str; 3] = ["seek_track_to_track_ms", "seek_average_ms", "seek_full_stroke_ms"];
        const WRITE: [&str; 3] = ["write_seek_track_to_track_ms", "write_seek_average_ms", "write_seek_full_stroke_ms"];
        let figures = if write { profile.write_seek() } else { profile.read_seek() };
        let points = match &profile.write_seek_points {
            Some(_) if profile.seek_points.is_none() => {
                return Err(BadFigure::new("write_seek_points", "given", "nothing, because seek_points are not given"));
            }
            Some(points) if write => Some(points.as_slice()),
            _ => profile.seek_points.as_deref(),
        };
        match (figures, points, profile.seek_formula) {
            (Some(figures), None, None) => {
                FittedCurve::fit(figures, cylinders, if write { WRITE } else { READ }).map(Self::Fitted)
            }
            (None, None, None) => {
                let given = [profile.seek_track_to_track_ms, profile.seek_average_ms, profile.seek_full_stroke_ms];
                let missing = given.iter().position(Option::is_none).unwrap_or(0);
                Err(BadFigure::new(
                    READ[missing],
                    "nothing",
                    "a time, because neither seek_points nor seek_formula is given",
                ))
            }
            (Some(_), ..) => Err(BadFigure::new(
                if points.is_some() { "seek_points" } else { "seek_formula" },
                "given",
                "nothing, because the three seek times are given",
            )),
            (None, points, formula) => Self::listed(points.unwrap_or_default(), formula, cylinders),
        }
    }

    fn listed(points: &[(u32, f64)], formula: Option<SeekFormula>, cylinders: u32) -> Result<Self, BadFigure> {
        check_points(points, formula.is_some())?;
        let last = points.last().map_or(0, |point| point.0);
        let time_ms = |distance: u32| match formula {
            _ if distance == 0 => 0.0,
            Some(formula) if distance > last => {
                let d = f64::from(distance);
                let (constant, factor) =
                    if distance < formula.linear_from { formula.root_ms } else { formula.linear_ms };
                constant + factor * if distance < formula.linear_from { d.sqrt() } else { d }
            }
            _ => on_line(points, distance),
        };
        let times_ns = (0..cylinders.max(4)).map(|distance| (time_ms(distance) * 1e6).round() as u64).collect();
        Ok(Self::Listed(times_ns))
    }

    /// Returns the nanoseconds over `distance` cylinders.
    #[inline]
    pub fn time_ns(&self, distance: u32) -> u64 {
        match self {
            Self::Fitted(curve) => curve.time_ns(distance),
            Self::Listed(times_ns) => times_ns[distance as usize],
        }
    }
}

/// Returns the value at `distance` of the line through the two neighbouring points, or through the
/// last two.
fn on_line(points: &[(u32, f64)], distance: u32) -> f64 {
    let behind = points.partition_point(|point| point.0 < distance).min(points.len() - 1);
    let (d2, t2) = points[behind];
    if behind == 0 {
        return t2;
    }
    let (d1, t1) = points[behind - 1];
    t1 + (t2 - t1) * f64::from(distance - d1) / f64::from(d2 - d1)
}

fn check_points(points: &[(u32, f64)], formula: bool) -> Result<(), BadFigure> {
    let bad = |value: String, expected: &str| Err(BadFigure::new("seek_points", value, expected));
    if points.is_empty() && !formula {
        return bad("nothing".to_owned(), "at least one point");
    }
    if let Some(pair) = points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return bad(format!("{} after {}", pair[1].0, pair[0].0), "distances that rise");
    }
    match points.iter().find(|(distance, ms)| *distance == 0 || !(0.0..=1000.0).contains(ms)) {
        Some((distance, ms)) => bad(format!("[{distance}, {ms}]"), "at least 1 cylinder, and 0 to 1000 ms"),
        None => Ok(()),
    }
}

/// Seek curve c + a·√(d − 1) + b·(d − 1) over `d` cylinders, as in Lee and Katz, "An Analytic
/// Performance Model of Disk Arrays" (SIGMETRICS 1993), section 4. The root stands for the arm that
/// accelerates and brakes, the linear term for the arm at full speed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FittedCurve {
    /// Nanoseconds to the next cylinder.
    shortest_ns: f64,
    root_ns: f64,
    linear_ns: f64,
}

impl FittedCurve {
    /// Returns the curve through a data sheet's three figures on an arm with `cylinders` cylinders.
    /// The curve meets the shortest and the longest seek, and has exactly the average over all
    /// pairs of different cylinders (a data sheet's average is this weighted mean; Lee and Katz
    /// take its integral). `keys` are the names of the three figures.
    ///
    /// # Errors
    /// Refuses figures through which no curve passes that rises with the distance.
    pub fn fit(figures: SeekFigures, cylinders: u32, keys: [&'static str; 3]) -> Result<Self, BadFigure> {
        let SeekFigures { track_to_track_ms: shortest, average_ms: average, full_stroke_ms: longest } = figures;
        if longest < shortest {
            return Err(BadFigure::new(keys[2], longest, format!("at least {} = {shortest}", keys[0])));
        }
        if cylinders < 4 {
            // There are two distances at most, which the shortest and the longest seek give.
            return Ok(Self { shortest_ns: shortest * 1e6, root_ns: 0.0, linear_ns: (longest - shortest) * 1e6 });
        }
        // Two equations for a and b, from the mean and the end of the curve less the shortest seek:
        // a·mean_root + b·mean_linear = average − c, and a·√end + b·end = longest − c.
        let end = f64::from(cylinders - 2);
        let (mean_root, mean_linear) = mean_root_and_distance(cylinders);
        let determinant = mean_root * end - mean_linear * end.sqrt();
        let (rise, mean_rise) = (longest - shortest, average - shortest);
        let root = (mean_rise * end - mean_linear * rise) / determinant;
        let linear = (mean_root * rise - mean_rise * end.sqrt()) / determinant;
        // The curve rises everywhere if it bends downwards and still rises at its end, or if it is
        // straight.
        let lowest = shortest + rise * mean_linear / end;
        let highest = shortest + rise * (2.0 * mean_root / end.sqrt() - mean_linear / end);
        let slack = 1e-9 * longest;
        if !(lowest - slack..=highest + slack).contains(&average) {
            let expected = format!(
                "{lowest:.3} to {highest:.3}, for a seek that rises from {} = {shortest} to {} = {longest}",
                keys[0], keys[2]
            );
            return Err(BadFigure::new(keys[1], average, expected));
        }
        Ok(Self { shortest_ns: shortest * 1e6, root_ns: root * 1e6, linear_ns: linear * 1e6 })
    }

    /// Returns the time of a seek over `distance` cylinders, in nanoseconds.
    #[inline]
    pub fn time_ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        let further = f64::from(distance - 1);
        (self.shortest_ns + self.root_ns * further.sqrt() + self.linear_ns * further) as u64
    }
}

/// Returns the means of √(d − 1) and of d − 1 over all pairs of different cylinders. Of n
/// cylinders, n − d pairs are d apart.
fn mean_root_and_distance(cylinders: u32) -> (f64, f64) {
    let n = f64::from(cylinders);
    // The mean distance is (n + 1) / 3.
    let mean_linear = (n + 1.0) / 3.0 - 1.0;
    if cylinders > 1_000_000 {
        // The sum equals its integral to seven digits, and would take long.
        return (8.0 / 15.0 * n.sqrt(), mean_linear);
    }
    let sum = || {
        let pairs = n * (n - 1.0) / 2.0;
        let roots: f64 = (2..cylinders).map(|d| f64::from(cylinders - d) * f64::from(d - 1).sqrt()).sum();
        roots / pairs
    };
    let mut known = MEAN_ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    (*known.entry(cylinders).or_insert_with(sum), mean_linear)
}

/// Means of roots already computed, by cylinders. The sums are kept because they are long, and a
/// search builds the same few disks hundreds of times.
static MEAN_ROOTS: Mutex<BTreeMap<u32, f64>> = Mutex::new(BTreeMap::new());

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = ["shortest", "average", "longest"];

    fn figures(shortest: f64, average: f64, longest: f64) -> SeekFigures {
        SeekFigures { track_to_track_ms: shortest, average_ms: average, full_stroke_ms: longest }
    }

    #[test]
    fn the_curve_meets_all_three_figures() {
        for (cylinders, shortest, average, longest) in
            [(50_000, 0.8, 8.5, 18.0), (300_000, 0.2, 3.5, 7.4), (1000, 1.0, 12.0, 20.0), (10, 1.0, 4.0, 8.0)]
        {
            let curve = FittedCurve::fit(figures(shortest, average, longest), cylinders, KEYS).unwrap();
            let pairs = f64::from(cylinders) * f64::from(cylinders - 1) / 2.0;
            let sum: f64 = (1..cylinders).map(|d| f64::from(cylinders - d) * curve.time_ns(d) as f64).sum();
            assert!((sum / pairs / 1e6 - average).abs() < 1e-3, "{cylinders}: {}", sum / pairs / 1e6);
            assert!((curve.time_ns(1) as f64 / 1e6 - shortest).abs() < 1e-3);
            assert!((curve.time_ns(cylinders - 1) as f64 / 1e6 - longest).abs() < 1e-3);
        }
    }

    #[test]
    fn a_longer_seek_never_takes_less() {
        // Averages at both ends of the possible range, where the curve is straight, or flat at its
        // end.
        for average in [7.0, 9.0, 11.9] {
            let curve = FittedCurve::fit(figures(1.0, average, 18.0), 20_000, KEYS).unwrap();
            assert!((1..19_998).all(|d| curve.time_ns(d) <= curve.time_ns(d + 1)), "{average}");
            assert_eq!(curve.time_ns(0), 0);
        }
    }

    #[test]
    fn figures_without_a_rising_curve_are_refused_with_the_range() {
        for (bad, key) in [
            (figures(9.0, 8.5, 18.0), "average"),
            (figures(1.0, 17.0, 18.0), "average"),
            (figures(2.0, 1.5, 1.0), "longest"),
        ] {
            let error = FittedCurve::fit(bad, 50_000, KEYS).unwrap_err();
            assert_eq!(error.key, key, "{error:?}");
            assert!(error.expected.contains("shortest = "), "{error:?}");
        }
    }
}
