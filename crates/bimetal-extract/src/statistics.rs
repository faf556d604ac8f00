//! Statistics: lines, quantiles and medians.

/// Returns the value below which the fraction `part` of `values` lies, and sorts `values`. Zero
/// without values.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
}

/// Returns the median of `values`, and sorts `values`.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// Straight line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) slope: f64,
    pub(crate) intercept: f64,
    /// Distance of the points from the line, root mean square.
    pub(crate) residual: f64,
    /// Standard error of the slope.
    pub(crate) slope_error: f64,
    /// Standard error of the intercept.
    pub(crate) intercept_error: f64,
}

/// Returns the line of least squares through points; a level line for a single point.
pub(crate) fn line(points: &[(f64, f64)]) -> Line {
    let n = points.len().max(1) as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    let intercept = my - slope * mx;
    let squares: f64 = points.iter().map(|p| (p.1 - intercept - slope * p.0).powi(2)).sum();
    let free = (n - 2.0).max(1.0);
    let sigma = (squares / free).sqrt();
    let slope_error = if sxx > 0.0 { sigma / sxx.sqrt() } else { 0.0 };
    let intercept_error = if sxx > 0.0 { sigma * (1.0 / n + mx * mx / sxx).sqrt() } else { sigma };
    Line { slope, intercept, residual: (squares / n).sqrt(), slope_error, intercept_error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_fits_points_and_reports_their_residual() {
        let exact = line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]);
        assert!((exact.slope - 2.0).abs() < 1e-12 && (exact.intercept - 3.0).abs() < 1e-12);
        assert!(exact.residual < 1e-12 && exact.slope_error < 1e-12);
        let rough = line(&[(0.0, 1.0), (1.0, -1.0), (2.0, 1.0), (3.0, -1.0)]);
        assert!(rough.residual > 0.8 && rough.slope_error > 0.1);
        assert_eq!(line(&[(3.0, 4.0)]).intercept, 4.0);
    }

    #[test]
    fn quantiles_are_values_that_are_there() {
        let mut values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!((quantile(&mut values, 0.0), median(&mut values), quantile(&mut values, 1.0)), (1.0, 3.0, 5.0));
        assert_eq!(median(&mut []), 0.0);
    }
}
