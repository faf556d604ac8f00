//! Multiple linear regression by least squares, with figures of its reliability: standard errors,
//! adjusted R², and the dependence of the predictors on each other.
//!
//! Predictors are centred and scaled to length one before the decomposition. Without this scaling,
//! the different magnitudes of predictors, such as a hundred sectors and a share of a tenth, would
//! cost precision. The decomposition is QR by Householder's reflections, which is exact to the last
//! digits and takes a known number of steps. A decomposition by iterated singular values was less
//! exact: coefficients were off in the seventh digit.

use nalgebra::{DMatrix, DVector};

/// Length of a residual, relative to its predictor, up to which the predictor counts as dependent.
const DEPENDENT: f64 = 1e-9;

/// Variance inflation factor (the usual limit) above which a predictor's coefficient has no
/// meaning. Such a predictor follows too closely from the other predictors.
pub const INFLATION_MAX: f64 = 10.0;

/// Reasons for which a regression fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegressionError {
    /// There are not more observations than coefficients.
    #[error("{observations} workloads do not determine {coefficients} coefficients: train on at least {}", coefficients + 1)]
    TooFew {
        /// Number of observations.
        observations: usize,
        /// Number of coefficients.
        coefficients: usize,
    },
    /// A value is infinite or not a number.
    #[error("{what} of workload {observation} is {value}: expected a finite number")]
    NotFinite {
        /// Name of the predictor, or of the predicted figure.
        what: String,
        /// Number of the observation, from 1.
        observation: usize,
        /// The value.
        value: f64,
    },
    /// A predictor has the same value in every observation.
    #[error("{predictor} is {value} in every workload, so its effect cannot be determined: vary it, or leave it out")]
    Constant {
        /// Name of the predictor.
        predictor: String,
        /// Value of the predictor.
        value: f64,
    },
    /// Predictors depend on each other.
    #[error(
        "{} depend on each other (variance inflation {inflation:.3e}: expected at most {INFLATION_MAX}), so their \
         effects cannot be separated: vary them independently, or leave one out",
        predictors.join(" and ")
    )]
    Collinear {
        /// Names of the dependent predictors.
        predictors: Vec<String>,
        /// Largest variance inflation factor; infinite if the dependence is exact.
        inflation: f64,
    },
}

/// The `N` observed predictors with their names, decomposed.
pub struct Design<const N: usize> {
    names: [&'static str; N],
    means: [f64; N],
    /// Euclidean lengths of the predictors' columns after their means were subtracted.
    lengths: [f64; N],
    /// Orthonormal basis of the space that the columns span, centred and of length one.
    basis: DMatrix<f64>,
    /// Coordinates of the columns in the orthonormal basis: upper triangular.
    triangle: DMatrix<f64>,
    correlations: DMatrix<f64>,
}

impl<const N: usize> Design<N> {
    /// Decomposes `rows`, each an observation.
    ///
    /// # Errors
    /// Returns an error for too few rows, a value that is not a finite number, or a constant
    /// predictor. An exact dependence between predictors is an error, too.
    pub fn new(names: [&'static str; N], rows: &[[f64; N]]) -> Result<Self, RegressionError> {
        let coefficients = N + 1;
        if rows.len() <= coefficients {
            return Err(RegressionError::TooFew { observations: rows.len(), coefficients });
        }
        for (observation, row) in rows.iter().enumerate() {
            finite(row.iter().copied().zip(names), observation)?;
        }
        let mean = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
        let means: [f64; N] = std::array::from_fn(mean);
        let mut columns = DMatrix::from_fn(rows.len(), N, |row, column| rows[row][column] - means[column]);
        let mut lengths = [0.0; N];
        for (column, length) in lengths.iter_mut().enumerate() {
            *length = columns.column(column).norm();
            if *length <= DEPENDENT * means[column].abs() * (rows.len() as f64).sqrt() {
                return Err(RegressionError::Constant { predictor: names[column].to_owned(), value: rows[0][column] });
            }
            columns.column_mut(column).unscale_mut(*length);
        }
        let correlations = columns.transpose() * &columns;
        let (basis, triangle) = columns.qr().unpack();
        let design = Self { names, means, lengths, basis, triangle, correlations };
        match design.triangle.diagonal().amin() > DEPENDENT {
            true => Ok(design),
            false => Err(design.collinear(f64::INFINITY)),
        }
    }

    /// Returns the variance inflation factor of each predictor: 1 for a predictor that is
    /// independent of the other predictors.
    pub fn inflation(&self) -> [f64; N] {
        let inverse = self.inverse();
        std::array::from_fn(|predictor| inverse[(predictor, predictor)])
    }

    /// Returns the two most correlated predictors, and their correlation.
    pub fn strongest_correlation(&self) -> (&'static str, &'static str, f64) {
        let pairs = (0..N).flat_map(|one| (0..one).map(move |other| (other, one)));
        let strongest =
            pairs.max_by(|one, other| self.correlations[*one].abs().total_cmp(&self.correlations[*other].abs()));
        strongest.map_or(("", "", 0.0), |pair| (self.names[pair.0], self.names[pair.1], self.correlations[pair]))
    }

    /// Refuses predictors that depend too much on each other for their coefficients to mean
    /// anything.
    ///
    /// # Errors
    /// Returns an error for a variance inflation factor above [`INFLATION_MAX`]. The error names
    /// the dependent predictors.
    pub fn check_independent(&self) -> Result<(), RegressionError> {
        let worst = self.inflation().into_iter().fold(1.0, f64::max);
        if worst > INFLATION_MAX { Err(self.collinear(worst)) } else { Ok(()) }
    }

    /// Returns an error that names the predictors in the linear combination of least length.
    fn collinear(&self, inflation: f64) -> RegressionError {
        let directions = self.correlations.clone().symmetric_eigen();
        let least = directions.eigenvectors.column(directions.eigenvalues.imin());
        let weights: Vec<f64> = least.iter().map(|weight| weight.abs()).collect();
        let most = weights.iter().copied().fold(0.0, f64::max);
        let taking_part = self.names.iter().zip(&weights).filter(|(_, weight)| **weight > most / 10.0);
        let predictors = taking_part.map(|(name, _)| (*name).to_owned()).collect();
        RegressionError::Collinear { predictors, inflation }
    }

    /// Returns the inverse of the correlation matrix.
    fn inverse(&self) -> DMatrix<f64> {
        let columns = self.solve(&DMatrix::identity(N, N));
        &columns * columns.transpose()
    }

    /// Solves the triangular system for `values` on the right-hand side.
    fn solve(&self, values: &DMatrix<f64>) -> DMatrix<f64> {
        self.triangle.solve_upper_triangular(values).expect("no predictor follows from the others: `new` refused that")
    }

    /// Fits the plane to `values`, one per observation.
    ///
    /// # Errors
    /// Returns an error for a value that is not a finite number.
    ///
    /// # Panics
    /// Panics if the number of values is not the number of observations. A call with such arguments
    /// is a defect of the caller.
    pub fn fit(&self, values: &[f64]) -> Result<Fit, RegressionError> {
        assert_eq!(values.len(), self.basis.nrows(), "a value for each observation");
        for (observation, value) in values.iter().enumerate() {
            finite([(*value, "what is predicted")], observation)?;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let centred = DMatrix::from_iterator(values.len(), 1, values.iter().map(|value| value - mean));
        let explained = self.basis.transpose() * &centred;
        let standardised = self.solve(&explained);
        let unexplained = (&centred - &self.basis * &explained).norm_squared();
        let degrees = count - (N + 1) as f64;
        let variance = unexplained / degrees;
        let slopes: [f64; N] = std::array::from_fn(|at| standardised[at] / self.lengths[at]);
        let inverse = self.inverse();
        let centre = DVector::from_fn(N, |at, _| self.means[at] / self.lengths[at]);
        let of_intercept = 1.0 / count + (&inverse * &centre).dot(&centre);
        let of_slopes = (0..N).map(|at| inverse[(at, at)].sqrt() / self.lengths[at]);
        let deviation = variance.sqrt();
        let total = centred.norm_squared();
        let adjusted_r2 = if total > 0.0 { 1.0 - variance / (total / (count - 1.0)) } else { 0.0 };
        Ok(Fit {
            intercept: mean - slopes.iter().zip(self.means).map(|(slope, mean)| slope * mean).sum::<f64>(),
            slopes: slopes.to_vec(),
            intercept_error: deviation * of_intercept.sqrt(),
            slope_errors: of_slopes.map(|one| deviation * one).collect(),
            deviation,
            adjusted_r2,
        })
    }
}

/// Fits the plane to `values` over `rows`, without insignificant predictors. Insignificant
/// predictors are removed one at a time, the least significant first (backward elimination). A
/// predictor that was removed has a slope of 0.
///
/// # Errors
/// Returns the errors of [`Design::new`] and [`Design::fit`].
pub fn fit_significant<const N: usize>(
    names: [&'static str; N],
    rows: &[[f64; N]],
    values: &[f64],
) -> Result<Fit, RegressionError> {
    let mut kept: Vec<usize> = (0..N).collect();
    loop {
        let fit = fit_of(names, rows, values, &kept)?;
        match fit.least_significant().filter(|_| kept.len() > 1) {
            Some(out) => drop(kept.remove(out)),
            None => return Ok(fit.widened::<N>(&kept)),
        }
    }
}

/// Fits the plane over the predictors at the positions in `kept` alone.
fn fit_of<const N: usize>(
    names: [&'static str; N],
    rows: &[[f64; N]],
    values: &[f64],
    kept: &[usize],
) -> Result<Fit, RegressionError> {
    match kept.len() {
        1 => fit_some::<N, 1>(names, rows, values, kept),
        2 => fit_some::<N, 2>(names, rows, values, kept),
        3 => fit_some::<N, 3>(names, rows, values, kept),
        4 => fit_some::<N, 4>(names, rows, values, kept),
        _ => Design::new(names, rows)?.fit(values),
    }
}

fn fit_some<const N: usize, const K: usize>(
    names: [&'static str; N],
    rows: &[[f64; N]],
    values: &[f64],
    kept: &[usize],
) -> Result<Fit, RegressionError> {
    let rows: Vec<[f64; K]> = rows.iter().map(|row| std::array::from_fn(|at| row[kept[at]])).collect();
    Design::new(std::array::from_fn(|at| names[kept[at]]), &rows)?.fit(values)
}

fn finite<'a>(values: impl IntoIterator<Item = (f64, &'a str)>, observation: usize) -> Result<(), RegressionError> {
    match values.into_iter().find(|(value, _)| !value.is_finite()) {
        Some((value, what)) => {
            Err(RegressionError::NotFinite { what: what.to_owned(), observation: observation + 1, value })
        }
        None => Ok(()),
    }
}

/// Plane fitted to observations: an intercept, and a slope for each predictor.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Predicted value if all predictors are 0.
    pub intercept: f64,
    /// Increase of the prediction per unit of each predictor.
    pub slopes: Vec<f64>,
    /// Standard error of the intercept.
    pub intercept_error: f64,
    /// Standard error of each slope.
    pub slope_errors: Vec<f64>,
    /// Estimated standard deviation of the residuals ε.
    pub deviation: f64,
    /// Share of the variance that the fit explains, corrected for the number of predictors; 0 if
    /// the values are constant.
    pub adjusted_r2: f64,
}

/// Significance of a predictor in a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// The slope differs from 0 at the 95 % level.
    Significant,
    /// The slope does not differ from 0 at the 95 % level.
    Insignificant,
    /// The predictor was left out.
    LeftOut,
}

impl Significance {
    /// Returns a mark to print after the slope; empty for a significant predictor.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Significant => "",
            Self::Insignificant => " (not significant)",
            Self::LeftOut => " (left out)",
        }
    }
}

/// Number of standard errors by which a slope must differ from 0: the 95 % level with hundreds of
/// observations.
const SIGNIFICANT: f64 = 1.96;

impl Fit {
    /// Returns the significance of predictor number `at`.
    pub fn significance(&self, at: usize) -> Significance {
        let (slope, error) = (self.slopes[at], self.slope_errors[at]);
        match slope.abs() < SIGNIFICANT * error {
            _ if slope == 0.0 && error == 0.0 => Significance::LeftOut,
            true => Significance::Insignificant,
            false => Significance::Significant,
        }
    }

    /// Returns the position of the least significant among the insignificant predictors.
    fn least_significant(&self) -> Option<usize> {
        let ratio = |at: &usize| (self.slopes[*at] / self.slope_errors[*at]).abs();
        let insignificant = (0..self.slopes.len()).filter(|at| self.significance(*at) == Significance::Insignificant);
        insignificant.min_by(|one, other| ratio(one).total_cmp(&ratio(other)))
    }

    /// Returns the fit with slopes and errors of 0 for the predictors that are not in `kept`.
    fn widened<const N: usize>(self, kept: &[usize]) -> Self {
        let wide = |narrow: &[f64]| {
            let place = |at| kept.iter().position(|kept| *kept == at).map_or(0.0, |from| narrow[from]);
            (0..N).map(place).collect()
        };
        Self { slopes: wide(&self.slopes), slope_errors: wide(&self.slope_errors), ..self }
    }

    /// Returns the prediction for values of the predictors.
    pub fn predict(&self, predictors: &[f64]) -> f64 {
        self.intercept + self.slopes.iter().zip(predictors).map(|(slope, value)| slope * value).sum::<f64>()
    }
}

#[cfg(test)]
mod tests;
