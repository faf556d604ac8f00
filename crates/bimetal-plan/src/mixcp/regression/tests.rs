use proptest::prelude::*;

use super::*;

/// Longley's employment data (1967), the usual test of a regression's precision, with the certified
/// values of NIST.
const LONGLEY: [[f64; 7]; 16] = [
    [60323.0, 83.0, 234289.0, 2356.0, 1590.0, 107608.0, 1947.0],
    [61122.0, 88.5, 259426.0, 2325.0, 1456.0, 108632.0, 1948.0],
    [60171.0, 88.2, 258054.0, 3682.0, 1616.0, 109773.0, 1949.0],
    [61187.0, 89.5, 284599.0, 3351.0, 1650.0, 110929.0, 1950.0],
    [63221.0, 96.2, 328975.0, 2099.0, 3099.0, 112075.0, 1951.0],
    [63639.0, 98.1, 346999.0, 1932.0, 3594.0, 113270.0, 1952.0],
    [64989.0, 99.0, 365385.0, 1870.0, 3547.0, 115094.0, 1953.0],
    [63761.0, 100.0, 363112.0, 3578.0, 3350.0, 116219.0, 1954.0],
    [66019.0, 101.2, 397469.0, 2904.0, 3048.0, 117388.0, 1955.0],
    [67857.0, 104.6, 419180.0, 2822.0, 2857.0, 118734.0, 1956.0],
    [68169.0, 108.4, 442769.0, 2936.0, 2798.0, 120445.0, 1957.0],
    [66513.0, 110.8, 444546.0, 4681.0, 2637.0, 121950.0, 1958.0],
    [68655.0, 112.6, 482704.0, 3813.0, 2552.0, 123366.0, 1959.0],
    [69564.0, 114.2, 502601.0, 3931.0, 2514.0, 125368.0, 1960.0],
    [69331.0, 115.7, 518173.0, 4806.0, 2572.0, 127852.0, 1961.0],
    [70551.0, 116.9, 554894.0, 4007.0, 2827.0, 130081.0, 1962.0],
];

const CERTIFIED: [(f64, f64); 7] = [
    (-3_482_258.634_595_82, 890_420.383_607_373),
    (15.061_872_271_373_3, 84.914_925_774_766_9),
    (-0.358_191_792_925_910_E-1, 0.334_910_077_722_432E-1),
    (-2.020_229_803_816_83, 0.488_399_681_651_699),
    (-1.033_226_867_173_59, 0.214_274_163_161_675),
    (-0.511_041_056_535_807E-1, 0.226_073_200_069_370),
    (1_829.151_464_613_55, 455.478_499_142_212),
];

const CERTIFIED_R2: f64 = 0.995_479_004_577_296;

#[test]
fn longleys_data_give_the_certified_figures() {
    let rows: Vec<[f64; 6]> = LONGLEY.iter().map(|row| std::array::from_fn(|column| row[column + 1])).collect();
    let values: Vec<f64> = LONGLEY.iter().map(|row| row[0]).collect();
    let design = Design::new(["x1", "x2", "x3", "x4", "x5", "x6"], &rows).unwrap();
    let fit = design.fit(&values).unwrap();
    let coefficients = std::iter::once(fit.intercept).chain(fit.slopes.iter().copied());
    let errors = std::iter::once(fit.intercept_error).chain(fit.slope_errors.iter().copied());
    for ((coefficient, error), certified) in coefficients.zip(errors).zip(CERTIFIED) {
        assert!((coefficient / certified.0 - 1.0).abs() < 1e-9, "{coefficient} {certified:?}");
        assert!((error / certified.1 - 1.0).abs() < 1e-9, "{error} {certified:?}");
    }
    assert!((fit.deviation / 304.854_073_561_965 - 1.0).abs() < 1e-9, "{}", fit.deviation);
    let adjusted = 1.0 - (1.0 - CERTIFIED_R2) * 15.0 / 9.0;
    assert!((fit.adjusted_r2 - adjusted).abs() < 1e-9, "{}", fit.adjusted_r2);
    // The data are known for their dependent predictors. The literature gives 758.98 as the
    // variance inflation factor of the year.
    assert!((design.inflation()[5] - 758.98).abs() < 0.01, "{:?}", design.inflation());
    let error = design.check_independent().unwrap_err().to_string();
    assert!(error.contains("x6 depend on each other"), "{error}");
    let (one, other, correlation) = design.strongest_correlation();
    assert_eq!((one, other), ("x2", "x6"), "{correlation}");
}

#[test]
fn one_predictor_has_the_textbooks_formula() {
    let rows = [[1.0], [2.0], [4.0], [7.0], [11.0]];
    let values = [2.0, 2.5, 5.0, 6.5, 12.0];
    let (mx, my) = (5.0, 5.6);
    let sxx: f64 = rows.iter().map(|[x]| (x - mx) * (x - mx)).sum();
    let sxy: f64 = rows.iter().zip(values).map(|([x], y)| (x - mx) * (y - my)).sum();
    let slope = sxy / sxx;
    let intercept = my - slope * mx;
    let residuals: f64 = rows.iter().zip(values).map(|([x], y)| (y - intercept - slope * x).powi(2)).sum();
    let deviation = (residuals / 3.0).sqrt();
    let fit = Design::new(["x"], &rows).unwrap().fit(&values).unwrap();
    for (own, formula) in [
        (fit.slopes[0], slope),
        (fit.intercept, intercept),
        (fit.deviation, deviation),
        (fit.slope_errors[0], deviation / sxx.sqrt()),
        (fit.intercept_error, deviation * (1.0 / 5.0 + mx * mx / sxx).sqrt()),
    ] {
        assert!((own - formula).abs() < 1e-12, "{own} {formula}");
    }
    assert!((fit.predict(&[3.0]) - (intercept + 3.0 * slope)).abs() < 1e-12);
}

#[test]
fn what_cannot_be_told_apart_is_refused_and_named() {
    let said = |rows: &[[f64; 3]]| Design::new(["size", "rate", "reads"], rows).err().map(|error| error.to_string());
    let exact: Vec<[f64; 3]> =
        (0..20).map(|n| f64::from(n * n % 17)).zip(0..).map(|(x, n)| [x, f64::from(n), 2.0 * x + 5.0]).collect();
    let message = said(&exact).unwrap();
    assert!(message.starts_with("size and reads depend on each other (variance inflation inf"), "{message}");
    assert!(message.ends_with("vary them independently, or leave one out"), "{message}");
    let constant: Vec<[f64; 3]> = (0..20).map(|n| [f64::from(n), 0.3, f64::from(n * n)]).collect();
    assert!(said(&constant).unwrap().starts_with("rate is 0.3"), "{:?}", said(&constant));
    assert!(said(&exact[..4]).unwrap().contains("4 workloads do not determine 4 coefficients: train on at least 5"));
    let mut infinite = exact;
    infinite[2][1] = f64::INFINITY;
    assert!(said(&infinite).unwrap().contains("rate of workload 3 is inf: expected a finite number"));
    let near: Vec<[f64; 2]> = (0..20).map(|n| [f64::from(n), f64::from(n) + f64::from(n % 3) / 10.0]).collect();
    let design = Design::new(["one", "other"], &near).unwrap();
    assert!(design.check_independent().unwrap_err().to_string().starts_with("one and other depend on each other"));
    assert!(design.fit(&[f64::NAN; 20]).is_err());
}

/// Computes coefficients by Gaussian elimination of the normal equations, as a textbook does.
fn normal_equations(rows: &[[f64; 3]], values: &[f64]) -> Vec<f64> {
    let mut system = [[0.0; 5]; 4];
    for (row, value) in rows.iter().zip(values) {
        let row = [1.0, row[0], row[1], row[2], *value];
        for (line, factor) in system.iter_mut().zip(row) {
            line.iter_mut().zip(row).for_each(|(own, other)| *own += factor * other);
        }
    }
    for pivot in 0..4 {
        let largest = (pivot..4).max_by(|one, other| system[*one][pivot].abs().total_cmp(&system[*other][pivot].abs()));
        system.swap(pivot, largest.unwrap());
        let of_pivot = system[pivot];
        for (_, line) in system.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            let factor = line[pivot] / of_pivot[pivot];
            line.iter_mut().zip(of_pivot).for_each(|(own, other)| *own -= factor * other);
        }
    }
    (0..4).map(|at| system[at][4] / system[at][at]).collect()
}

fn observations() -> impl Strategy<Value = (Vec<[f64; 3]>, Vec<f64>)> {
    let row = (0.0..1.0, 1.0..128.0, 10.0..400.0).prop_map(|(one, two, three)| [one, two, three]);
    prop::collection::vec((row, -5.0..5.0), 8..60).prop_map(|all| all.into_iter().unzip())
}

proptest! {
    #[test]
    fn the_coefficients_are_those_of_the_normal_equations((rows, values) in observations()) {
        let design = Design::new(["a", "b", "c"], &rows).unwrap();
        prop_assume!(design.check_independent().is_ok());
        let fit = design.fit(&values).unwrap();
        let twin = normal_equations(&rows, &values);
        let own = std::iter::once(fit.intercept).chain(fit.slopes.iter().copied());
        for (own, twin) in own.zip(twin) {
            prop_assert!((own - twin).abs() < 1e-8 * twin.abs().max(1.0), "{own} {twin}");
        }
    }

    #[test]
    fn what_was_made_of_known_coefficients_gives_them_back(
        (rows, _) in observations(),
        known in prop::array::uniform4(-3.0..3.0f64),
    ) {
        let design = Design::new(["a", "b", "c"], &rows).unwrap();
        prop_assume!(design.check_independent().is_ok());
        let value = |row: &[f64; 3]| known[0] + known[1] * row[0] + known[2] * row[1] + known[3] * row[2];
        let values: Vec<f64> = rows.iter().map(value).collect();
        let fit = design.fit(&values).unwrap();
        let own = std::iter::once(fit.intercept).chain(fit.slopes.iter().copied());
        for (own, known) in own.zip(known) {
            prop_assert!((own - known).abs() < 1e-9, "{own} {known}");
        }
        let varies = values.iter().any(|value| (value - values[0]).abs() > 1e-3);
        prop_assert!(!varies || fit.adjusted_r2 > 0.999_999, "{}", fit.adjusted_r2);
    }

    /// No neighbouring plane fits better: a step along any coefficient increases the sum of
    /// squares.
    #[test]
    fn no_plane_near_by_explains_more((rows, values) in observations()) {
        let design = Design::new(["a", "b", "c"], &rows).unwrap();
        prop_assume!(design.check_independent().is_ok());
        let fit = design.fit(&values).unwrap();
        let squares = |fit: &Fit| rows.iter().zip(&values).map(|(row, value)| (value - fit.predict(row)).powi(2)).sum::<f64>();
        let least = squares(&fit);
        for at in 0..3 {
            for step in [-1.0, 1.0] {
                let mut other = fit.clone();
                other.slopes[at] += step * fit.slope_errors[at].max(1e-6);
                prop_assert!(squares(&other) >= least, "{at}: {} {least}", squares(&other));
            }
        }
    }
}

/// Two of five predictors are independent of the values. These two predictors are marked and left
/// out, and the other coefficients are as if these predictors had never been used.
#[test]
fn insignificant_predictors_are_marked_and_left_out() {
    let noise = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
    let rows: Vec<[f64; 5]> = (0..400u64).map(|at| std::array::from_fn(|of| noise(at * 5 + of as u64 + 1))).collect();
    let values: Vec<f64> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| 1.0 + 2.0 * row[0] - 3.0 * row[2] + row[4] + noise(90_000 + at as u64))
        .collect();
    let names = ["a", "b", "c", "d", "e"];
    let whole = Design::new(names, &rows).unwrap().fit(&values).unwrap();
    let marked = |fit: &Fit| -> Vec<Significance> { (0..5).map(|at| fit.significance(at)).collect() };
    use Significance::{Insignificant, LeftOut, Significant};
    assert_eq!(marked(&whole), [Significant, Insignificant, Significant, Insignificant, Significant]);
    let left = fit_significant(names, &rows, &values).unwrap();
    assert_eq!(marked(&left), [Significant, LeftOut, Significant, LeftOut, Significant]);
    for (at, slope) in [(0, 2.0), (2, -3.0), (4, 1.0)] {
        assert!((left.slopes[at] - slope).abs() < 4.0 * left.slope_errors[at], "{left:?}");
    }
}
