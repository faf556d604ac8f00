//! `bimetal reproduce mixcp`: repeats section 4 of the MixedStore paper: tables 3 and 4, figures 6
//! and 7.

use std::fmt::Write as _;

use bimetal_core::units::Bytes;
use bimetal_measure::text::decimal;
use bimetal_papers::mixcp::{Compared, Point, Provisioned, Reproduction, Scale, reproduce};
use bimetal_plan::mixcp::{Characteristics, relative};

use super::Shown;
use super::claims::wrapped;
use super::figures::drawn;
use super::values::Value;
use crate::error::Error;
use crate::progress::Stages;
use crate::report::plot::{Axis, Mark, Series, svg};

/// Returns all results, as text and as charts.
pub(super) fn figures() -> Result<Shown, Error> {
    let bar = Stages::default();
    let again = reproduce(&Scale::PAPER, &super::cache(), &|done, all| bar.show("runs", Some(all), done))?;
    drop(bar);
    Ok(shown(&again))
}

fn shown(again: &Reproduction) -> Shown {
    let mut text = model(again);
    text += &table_3(again);
    text += &table_4(again);
    text += &figure_6(again);
    text += &figure_7(again);
    let charts = [
        "<p>The text of the paper has no point of figures 5 to 7; the charts show ours.</p>\n".to_owned(),
        figure_5_chart(again),
        drawn(&[&again.table_4_figure()]),
        figure_6_charts(again),
        figure_7_charts(again),
    ];
    Shown { text, charts: charts.concat(), values: values(again) }
}

/// Returns all results as values.
fn values(again: &Reproduction) -> Vec<Value> {
    let Reproduction { model, errors, workloads, .. } = again;
    let mut values = Vec::new();
    let r2 = [model.response.adjusted_r2, model.erases.adjusted_r2];
    let held_out = format!("{} held-out workloads", workloads[1]);
    let sets = [("training set", errors[0], Some(0.25)), (held_out.as_str(), errors[1], None)];
    for (at, of) in ["response time", "erase rate"].into_iter().enumerate() {
        let adjusted = format!("adjusted R² of the {of}");
        values.push(Value::new("4.4", "training set", &adjusted, "share", Some(0.9), r2[at]));
        for (subject, both, paper) in sets {
            let error = if at == 0 { both.0 } else { both.1 };
            values.push(Value::new("4.4", subject, &format!("mean error of the {of}"), "share", paper, error));
        }
    }
    for row in &again.table_3 {
        let (ms, erases) = row.listed.paper_error;
        let share = |percent: Option<f64>| percent.map(|percent| percent / 100.0);
        let quantities = [("response time", "ms", share(ms)), ("erase rate", "erases/s", share(erases))];
        for ((of, unit, paper), (told, seen)) in quantities.into_iter().zip(both(&row.compared)) {
            let mut push = |quantity: &str, unit, paper, ours| {
                values.push(Value::new("table 3", row.listed.name, quantity, unit, paper, ours));
            };
            push(&format!("{of}, predicted"), unit, None, told);
            push(&format!("{of}, simulated"), unit, None, seen);
            push(&format!("error of the {of}"), "share", paper, relative(told, seen));
        }
    }
    again.table_4.iter().for_each(|row| of_provisioned_row(row, &mut values));
    for Point { faster, flash, compared } in &again.figure_7 {
        let subject = format!("Financial, {faster} times as fast, {}", decimal(flash.0));
        let [ms, _] = both(compared);
        for (of, unit, (told, seen)) in [("response time", "ms", ms), ("life", "years", compared.years)] {
            for (how, ours) in [("predicted", told), ("simulated", seen)] {
                values.push(Value::new("figure 7", &subject, &format!("{of}, {how}"), unit, None, ours));
            }
        }
    }
    values
}

/// Returns response time and erase rate, each predicted and simulated.
fn both(Compared { predicted, simulated, .. }: &Compared) -> [(f64, f64); 2] {
    [(predicted.response_ms, simulated.response_ms), (predicted.erases_per_s, simulated.erases_per_s)]
}

/// Adds the values of a row of table 4 and figure 6.
fn of_provisioned_row(row: &Provisioned, values: &mut Vec<Value>) {
    let subject = format!("{}, {}", row.workload, decimal(row.flash.0));
    let mut push = |place, quantity: &str, unit, paper, ours| {
        values.push(Value::new(place, &subject, quantity, unit, paper, ours));
    };
    if let Some(all) = &row.alone {
        let [(told, seen), _] = both(all);
        push("table 4", "life of the SSD alone, predicted", "years", None, all.years.0);
        push("table 4", "life of the SSD alone, simulated", "years", None, all.years.1);
        push("figure 6", "response time of the SSD alone, predicted", "ms", None, told);
        push("figure 6", "response time of the SSD alone, simulated", "ms", None, seen);
    }
    let years = row.mixed.years.unwrap_or(f64::NAN);
    push("table 4", "life of a MixedStore, simulated", "years", row.paper_years, years);
    push("figure 6", "response time of a MixedStore, simulated", "ms", None, row.mixed.response_ms);
}

/// Returns a number of years as text; from 1000 years on, the exact number has no meaning.
fn years(years: f64) -> String {
    if years < 1000.0 { format!("{years:.2}") } else { "over 1000".to_owned() }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

// Writing to a string cannot fail, here and in all functions below.

fn model(again: &Reproduction) -> String {
    let Reproduction { model, errors, workloads, .. } = again;
    let mut text = format!(
        "{}, ftl={}, trained on {} simulated workloads ({} of them wear it) on a drive of {}\n\n",
        model.drive, model.ftl, workloads[0], model.wearing, again.trained_on
    );
    let _ = writeln!(text, "{:34} {:>15} {:>15}   the paper", "", "response time", "erase rate");
    let (response, erases) = (&model.response, &model.erases);
    let of_both = [(response.adjusted_r2, erases.adjusted_r2), errors[0], errors[1]];
    let held_out = format!("mean error, {} held out", workloads[1]);
    let names = ["adjusted R²", "mean error, training set", held_out.as_str()];
    for ((name, both), paper) in names.into_iter().zip(of_both).zip(["about 90 %", "about 25 %", ""]) {
        let line = format!("{name:34} {:>15} {:>15}   {paper}", percent(both.0), percent(both.1));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "\n{:30} {:>38} {:>38}", "coefficients ± standard errors", "ln ms", "ln erases/s");
    let rows = |fit: &bimetal_plan::mixcp::regression::Fit| -> Vec<String> {
        let slopes = fit.slopes.iter().zip(&fit.slope_errors).enumerate();
        let slopes = slopes.map(|(at, (value, error))| (value, error, fit.significance(at).mark()));
        let all = std::iter::once((&fit.intercept, &fit.intercept_error, "")).chain(slopes);
        all.map(|(value, error, mark)| format!("{value:.5} ± {error:.5}{mark}")).collect()
    };
    let names = std::iter::once("1").chain(Characteristics::NAMES);
    for ((name, one), other) in names.zip(rows(response)).zip(rows(erases)) {
        let _ = writeln!(text, "{name:30} {one:>38} {other:>38}");
    }
    let (one, other, correlation) = model.correlation;
    let inflation: Vec<String> = model.inflation.iter().map(|factor| format!("{factor:.2}")).collect();
    let _ = writeln!(
        text,
        "\nPredictors are independent: the strongest correlation is {correlation:.2} ({one}, {other}), variance\ninflation {} \
         (above 10, training is refused).",
        inflation.join(", ")
    );
    text
}

fn table_3(again: &Reproduction) -> String {
    let mut text = format!(
        "\nTable 3: error of the model\n{:20} {:>9} {:>9} {:>7} {:>7}   {:>9} {:>9} {:>7} {:>7}\n",
        "", "ms", "simulated", "error", "paper", "erases/s", "simulated", "error", "paper"
    );
    for row in &again.table_3 {
        let Compared { predicted, simulated, .. } = row.compared;
        let paper = |error: Option<f64>| error.map_or_else(|| "-".to_owned(), |error| format!("{error:.0} %"));
        let _ = writeln!(
            text,
            "{:20} {:>9.3} {:>9.3} {:>7} {:>7}   {:>9.3} {:>9.3} {:>7} {:>7}",
            row.listed.name,
            predicted.response_ms,
            simulated.response_ms,
            percent(relative(predicted.response_ms, simulated.response_ms)),
            paper(row.listed.paper_error.0),
            predicted.erases_per_s,
            simulated.erases_per_s,
            percent(relative(predicted.erases_per_s, simulated.erases_per_s)),
            paper(row.listed.paper_error.1),
        );
    }
    text += "The paper's Financial has two sets of averages: table 3's (W5: 3.3 KB, 164 ms, 3 % sequential) and table\n2's \
             (4.4 KB, 134 ms, 2 %, and 9 % reads, which this program uses for both rows). Both workloads are\n\
             synthetic in this experiment; the first 10,000 requests of the published Financial1, which tests use,\n\
             have 41 % reads and 26 ms.\n";
    let of = &again.mechanisms;
    let rows = [("W2's time", of.of_w2()), ("W3's time", of.of_w3()), ("W5's erases", of.of_w5_erases())];
    text + &rows.map(|(error, mechanism)| wrapped(&format!("{error}: {mechanism}"), "→ ")).concat()
}

/// Returns a table with a row for each provisioned system. `last` is the heading of the fourth
/// column of `cells`.
fn of_provisioned(
    again: &Reproduction,
    heading: &str,
    last: [&str; 2],
    cells: impl Fn(&Provisioned) -> [String; 4],
) -> String {
    let line = |first: [&str; 3], cells: [&str; 4]| {
        let ([workload, name, flash], [a, b, c, d]) = (first, cells);
        let line = format!("{workload:10} {name:6} {flash:>7} {a:>12} {b:>12} {c:>12} {d:>10}");
        format!("{}\n", line.trim_end())
    };
    let mut text = format!("\n{heading}\n");
    text += &line(["", "", "flash"], ["SSD alone,", "SSD alone,", "MixedStore,", last[0]]);
    text += &line(["", "", ""], ["predicted", "simulated", "simulated", last[1]]);
    for row in &again.table_4 {
        text += &line([row.workload, row.name, &decimal(row.flash.0)], cells(row).each_ref().map(String::as_str));
    }
    text
}

/// Returns a figure of the row's SSD alone, or "-" if no SSD alone was provisioned.
fn alone(row: &Provisioned, figure: impl Fn(&Compared) -> String) -> String {
    row.alone.as_ref().map_or_else(|| "-".to_owned(), figure)
}

fn table_4(again: &Reproduction) -> String {
    let heading = "Table 4: years until blocks of 10,000 cycles are worn out";
    let table = of_provisioned(again, heading, ["the paper", ""], |row| {
        [
            alone(row, |all| years(all.years.0)),
            alone(row, |all| years(all.years.1)),
            row.mixed.years.map_or_else(|| "-".to_owned(), years),
            row.paper_years.map_or_else(|| "-".to_owned(), years),
        ]
    });
    table
        + "Financial is W5, its working set 0.91 GB: the utilisation of 0.91 is taken to be that of the flash that\nMixCP chose. \
           TPC-H has table 2's averages and the same working set, which the paper does not give.\nThe MixedStore's life is \
           that of full flash; \"-\": the requests do not fill it.\n"
}

fn figure_6(again: &Reproduction) -> String {
    let heading = "Figure 6: mean response time in ms, and what the flash of the MixedStore takes";
    let table = of_provisioned(again, heading, ["of the", "writes"], |row| {
        [
            alone(row, |all| format!("{:.3}", all.predicted.response_ms)),
            alone(row, |all| format!("{:.3}", all.simulated.response_ms)),
            format!("{:.3}", row.mixed.response_ms),
            percent(row.mixed.flash_share),
        ]
    });
    table + "The paper: the flash that MixCP chose is nearly as fast as twice as much, for TPC-H just as fast.\n"
}

fn figure_7(again: &Reproduction) -> String {
    let mut text = format!(
        "\nFigure 7: Financial arrives faster, on flash of several sizes (SSD alone)\n{:>4} {:>8} {:>9} {:>9} {:>7}   {:>9} {:>9} {:>7}\n",
        "rate", "flash", "ms", "simulated", "error", "years", "simulated", "error"
    );
    for Point { faster, flash, compared } in &again.figure_7 {
        let Compared { predicted, simulated, years: (told, seen) } = compared;
        let _ = writeln!(
            text,
            "{:>4} {:>8} {:>9.3} {:>9.3} {:>7}   {:>9} {:>9} {:>7}",
            format!("×{faster}"),
            decimal(flash.0),
            predicted.response_ms,
            simulated.response_ms,
            percent(relative(predicted.response_ms, simulated.response_ms)),
            years(*told),
            years(*seen),
            percent(relative(*told, *seen)),
        );
    }
    text += "The paper: what was planned for ×1 keeps neither the response time nor the life when the rate doubles.\n";
    text
}

/// Returns the chart of the paper's figure 5: predictions for workloads that the model was not
/// trained on, plotted against the measured values.
fn figure_5_chart(again: &Reproduction) -> String {
    let chart = |title: &str, axes: [&'static str; 2], points: Vec<(f64, f64)>| {
        let all = || points.iter().flat_map(|(seen, told)| [*seen, *told]);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let (x, y) = (Axis::logarithmic(axes[0], low, high), Axis::logarithmic(axes[1], low, high));
        let right = Series {
            colour: "c0",
            mark: Mark::DashedLine,
            points: vec![(x.low, x.low), (x.high, x.high)],
            right: false,
        };
        let dots = Series { colour: "c2", mark: Mark::Dots, points, right: false };
        format!(
            "<figure><h3>{title} – the paper's figure 5</h3><figcaption><p><span class=\"scheme c2\">predicted</span> (upwards) over simulated, of \
             workloads that the model was not trained on; on the <span class=\"scheme c0\">dashed line</span> it would be right\
             </p></figcaption>\n{}</figure>\n",
            svg(title, &x, &y, None, &[right, dots])
        )
    };
    let worn = again.held_out.iter().filter(|(_, seen)| seen.erases_per_s > 0.0);
    chart(
        "Response time",
        ["simulated ms", "predicted ms"],
        again.held_out.iter().map(|(told, seen)| (seen.response_ms, told.response_ms)).collect(),
    ) + &chart(
        "Erase rate",
        ["simulated erases a second", "predicted erases a second"],
        worn.map(|(told, seen)| (seen.erases_per_s, told.erases_per_s)).collect(),
    )
}

/// Returns the charts of figure 6: mean response times over the size of the flash, for the SSD
/// alone and for a MixedStore with this SSD.
fn figure_6_charts(again: &Reproduction) -> String {
    let chart = |workload: &str| {
        let rows: Vec<&Provisioned> = again.table_4.iter().filter(|row| row.workload == workload).collect();
        let size = |row: &Provisioned| row.flash.0 as f64 / 1e9;
        let alone = |figure: fn(&Compared) -> f64| -> Vec<(f64, f64)> {
            rows.iter().filter_map(|row| Some((size(row), figure(row.alone.as_ref()?)))).collect()
        };
        let told = alone(|all| all.predicted.response_ms);
        let seen = alone(|all| all.simulated.response_ms);
        let mixed: Vec<(f64, f64)> = rows.iter().map(|row| (size(row), row.mixed.response_ms)).collect();
        let all = || told.iter().chain(&seen).chain(&mixed);
        let low = all().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
        let high = all().map(|(_, ms)| *ms).fold(0.0, f64::max);
        let most = rows.iter().map(|row| size(row)).fold(0.0, f64::max);
        let series =
            |colour, mark, points: &[(f64, f64)]| Series { colour, mark, points: points.to_vec(), right: false };
        let all_series = [
            series("c0", Mark::DashedLine, &told),
            series("c2", Mark::Line, &seen),
            series("c2", Mark::Dots, &seen),
            series("c4", Mark::Line, &mixed),
            series("c4", Mark::Dots, &mixed),
        ];
        let title = format!("{workload}: response time over flash size");
        format!(
            "<figure><h3>{title} – the paper's figure 6</h3><figcaption><p>Mean ms of the SSD alone, <span class=\"scheme \
             c0\">predicted</span> (dashed) and <span class=\"scheme c2\">simulated</span>, and of a <span class=\"scheme \
             c4\">MixedStore</span> with a disk</p></figcaption>\n{}</figure>\n",
            svg(&title, &Axis::linear("flash, GB", most), &Axis::logarithmic("ms", low, high), None, &all_series)
        )
    };
    let mut workloads: Vec<&str> = again.table_4.iter().map(|row| row.workload).collect();
    workloads.dedup();
    workloads.into_iter().map(chart).collect()
}

/// Returns the charts of figure 7: for each rate a line of predictions and dots of simulations.
fn figure_7_charts(again: &Reproduction) -> String {
    const COLOURS: [&str; 4] = ["c0", "c1", "c2", "c3"];
    let gigabytes = |flash: Bytes| flash.0 as f64 / 1e9;
    let rates: Vec<f64> = again.figure_7.iter().map(|point| point.faster).fold(Vec::new(), |mut rates, rate| {
        if !rates.contains(&rate) {
            rates.push(rate);
        }
        rates
    });
    let chart = |title: &str, name: &'static str, part: &str, figure: fn(&Compared) -> (f64, f64)| {
        let all = || again.figure_7.iter().map(|point| (point, figure(&point.compared)));
        let (low, high) = all().fold((f64::INFINITY, 0.0_f64), |(low, high), (_, (told, seen))| {
            (low.min(told).min(seen), high.max(told).max(seen))
        });
        let most = again.figure_7.iter().map(|point| gigabytes(point.flash)).fold(0.0, f64::max);
        let mut series = Vec::new();
        let mut legend = Vec::new();
        for (&rate, colour) in rates.iter().zip(COLOURS) {
            let of_rate = || all().filter(move |(point, _)| point.faster == rate);
            let told = of_rate().map(|(point, both)| (gigabytes(point.flash), both.0)).collect();
            let seen = of_rate().map(|(point, both)| (gigabytes(point.flash), both.1)).collect();
            series.push(Series { colour, mark: Mark::Line, points: told, right: false });
            series.push(Series { colour, mark: Mark::Dots, points: seen, right: false });
            legend.push(format!("<span class=\"scheme {colour}\">×{rate}</span>"));
        }
        format!(
            "<figure><h3>{title} – the paper's figure 7({part})</h3><figcaption><p>Financial, arriving {}; lines: predicted, dots: \
             simulated on the SSD alone</p></figcaption>\n{}</figure>\n",
            legend.join(" "),
            svg(title, &Axis::linear("flash, GB", most), &Axis::logarithmic(name, low, high), None, &series)
        )
    };
    chart("Response time over flash size", "ms", "a", |all| (all.predicted.response_ms, all.simulated.response_ms))
        + &chart("Life over flash size", "years", "b", |all| all.years)
}

#[cfg(test)]
mod tests {
    use bimetal_papers::mixcp::Cache;

    use super::*;

    #[test]
    fn every_row_of_the_tables_and_every_figure_is_there() {
        let scale =
            Scale { workloads: 30, held_out: 8, chosen: Bytes::from_mib(64), mixed_requests: 4000, ..Scale::PAPER };
        let Shown { text, charts, values } = shown(&reproduce(&scale, &Cache::default(), &|_, _| {}).unwrap());
        for row in [
            "W1  ",
            "W4  ",
            "W5 (Financial)  ",
            "Financial, table 2  ",
            "TPC-H      under ",
            "  ×8 ",
            "read_fraction  ",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert_eq!(text.matches("Financial  MixCP ").count(), 2, "{text}");
        assert!(!text.contains("NaN") && text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert_eq!((charts.matches("<svg").count(), charts.matches("<figure>").count()), (7, 7));
        assert!(charts.contains("TPC-H, the paper (table 4)"), "{charts}");
        let of = |place: &str| values.iter().filter(|value| value.place == place).count();
        assert_eq!([of("4.4"), of("table 3"), of("table 4"), of("figure 6"), of("figure 7")], [6, 36, 14, 14, 80]);
        let paper = |quantity: &str| values.iter().find(|value| value.quantity == quantity && value.paper.is_some());
        assert_eq!(paper("life of a MixedStore, simulated").unwrap().paper, Some(52.69));
        assert_eq!(paper("error of the response time").unwrap().paper, Some(0.04));
    }
}
