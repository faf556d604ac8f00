//! Griffin's figures 1 to 9. The points of the paper are those of its tables and sentences; of the
//! curves themselves, the text has no points.
//!
//! Our choices, beside those of the claims:
//! - Figures 3, 5 and 9 are drawn over `desktop`, the only shipped trace that is longer than the
//!   timeouts.
//! - Figure 4 has the means over the shipped desktops and the shipped servers.

use bimetal_sim::results::Run;
use rayon::prelude::*;

use super::{COMPOSITE, DESKTOPS, FAST_LOG, INSTANT, LOG, Loaded, MLC, Plan, SERVERS, SLC, TIMED, Traces};
use super::{alone, analysis, each, erases, griffin, logged_on, settled};
use crate::claims::Paper;
use crate::experiments::{ExperimentsError, mean, ratio};
use crate::figure::{Axis, Curve, Figure, Shape, bars, distribution, in_percent};

/// Text for a figure whose curves the text of the paper does not have.
const NO_CURVE: &str = "The text of the paper has no other point of this figure.";

/// Intervals in seconds in the columns of table 3, and the row of D-1A: write after write, read
/// after write.
const TABLE_3_WAW: [(f64, f64); 4] = [(30.0, 68.0), (60.0, 74.0), (900.0, 84.0), (3600.0, 88.0)];
const TABLE_3_RAW: [(f64, f64); 4] = [(30.0, 15.0), (60.0, 18.0), (900.0, 53.0), (3600.0, 65.0)];

/// Overwrites and reads in the top 1 % of the blocks: D-1A in table 1, and the mean of the desktops
/// in section 4.3.
const TOP_D_1A: [(f64, f64); 2] = [(0.0, 87.0), (1.0, 4.0)];
const TOP_MEAN: [(f64, f64); 2] = [(0.0, 70.0), (1.0, 2.7)];

/// Thresholds of overwrites of figure 4. The text does not name the paper's.
const OVERWRITES: [(&str, f64); 4] = [("0", 0.0), ("0.25", 25.0), ("0.5", 50.0), ("0.75", 75.0)];

/// Timeouts of figure 5. Of the paper's, the text names 900 to 3600 s.
const TIMEOUTS: [(&str, f64); 6] =
    [("30s", 30.0), ("60s", 60.0), ("300s", 300.0), ("900s", 900.0), ("1800s", 1800.0), ("3600s", 3600.0)];

/// Read thresholds of figure 6, between the 1 % and the 10 % that section 6.1.2 names.
const THRESHOLDS: [(&str, f64); 4] = [("0.01", 1.0), ("0.02", 2.0), ("0.05", 5.0), ("0.1", 10.0)];

pub(in crate::experiments) fn figures(traces: &Traces) -> Result<Vec<Figure>, ExperimentsError> {
    let (desktops, servers) = (traces.all_shipped(&DESKTOPS)?, traces.all_shipped(&SERVERS)?);
    let long = traces.shipped("desktop")?;
    let mut figures = analysed(&desktops, &servers, &long)?;
    figures.extend(selective(&desktops, &servers)?);
    figures.extend(timeouts(&long)?);
    figures.extend(thresholds(&desktops, &long)?);
    let settled = |traces: &[Loaded]| traces.iter().map(settled).collect::<Vec<_>>();
    figures.push(sequentiality(&settled(&desktops), &settled(&servers))?);
    figures.push(erasures(&settled(&desktops), &super::settled(&long))?);
    figures.push(latencies(&super::settled(&long))?);
    Ok(figures)
}

fn figure(number: &'static str, title: &'static str, [x, y]: [Axis; 2], curves: Vec<Curve>, note: &str) -> Figure {
    Figure { paper: Paper::Griffin, number, title, x, y, curves, note: note.to_owned() }
}

/// Griffin's figures 1 to 3.
fn analysed(desktops: &[Loaded], servers: &[Loaded], long: &Loaded) -> Result<Vec<Figure>, ExperimentsError> {
    let names = DESKTOPS.iter().chain(&["desktop"]).chain(&SERVERS);
    let all = desktops.iter().chain([long]).chain(servers).map(analysis).collect::<Result<Vec<_>, _>>()?;
    let mut curves: Vec<Curve> = (0..)
        .zip(names.clone().zip(&all))
        .map(|(colour, (name, trace))| {
            let points = distribution(trace.overwrite_cdf.as_ref(), 100.0);
            Curve::ours(name, colour, points.into_iter().filter(|(blocks, _)| *blocks > 0.0).collect())
        })
        .collect();
    curves.push(Curve::paper("D-1A, a desktop", "table 1", 0, &[(1.0, 87.0)]));
    curves.push(Curve::paper("S-EXCH, a server", "section 4.3", 5, &[(1.0, 33.5)]));
    let axes = [Axis::logarithmic("% of the written blocks, most overwritten first"), Axis::linear("% of overwrites")];
    let spatial = figure("figure 1", "Distribution of overwrites over blocks", axes, curves, NO_CURVE);
    let mut tops = vec![
        Curve::paper("D-1A", "table 1", 0, &TOP_D_1A).drawn_as(Shape::Bars),
        Curve::paper("mean of 12 desktops", "section 4.3", 1, &TOP_MEAN).drawn_as(Shape::Bars),
    ];
    for (colour, (name, trace)) in (2..).zip(names.zip(&all).take(DESKTOPS.len() + 1)) {
        let parts = [trace.overwrites_in_top_1pct, trace.reads_in_top_1pct].map(in_percent);
        tops.push(Curve::ours(name, colour, bars(&parts)).drawn_as(Shape::Bars));
    }
    let axes = [Axis::names("in the most overwritten 1 % of the blocks", &["overwrites", "reads"]), Axis::linear("%")];
    let note = "The paper draws the writes and reads of each of these blocks; its text has only their sums.";
    let top = figure("figure 2", "Writes and reads of the most overwritten blocks", axes, tops, note);
    let of_long = &all[DESKTOPS.len()];
    let within = |points: Vec<(f64, f64)>| points.into_iter().filter(|(seconds, _)| *seconds >= 1.0).collect();
    let curves = vec![
        Curve::ours("write after write, desktop", 0, within(distribution(of_long.waw_cdf.as_ref(), 1.0))),
        Curve::ours("read after write, desktop", 2, within(distribution(of_long.raw_cdf.as_ref(), 1.0))),
        Curve::paper("write after write, D-1A", "table 3", 0, &TABLE_3_WAW),
        Curve::paper("read after write, D-1A", "table 3", 2, &TABLE_3_RAW),
    ];
    let axes = [Axis::logarithmic("interval, s"), Axis::linear("% of the intervals")];
    Ok(vec![spatial, top, figure("figure 3", "Intervals after a write", axes, curves, NO_CURVE)])
}

/// Griffin's figure 4: selective caching, without migrations.
fn selective(desktops: &[Loaded], servers: &[Loaded]) -> Result<[Figure; 2], ExperimentsError> {
    let runs = |traces: &[Loaded]| -> Result<Vec<(f64, Vec<Run>)>, ExperimentsError> {
        let at = |(setting, percent): &(&str, f64)| {
            let settings = [INSTANT, ("timeout", "off"), ("read_threshold", "off"), ("overwrite_threshold", *setting)];
            Ok((*percent, each(traces, || griffin(&settings))?))
        };
        OVERWRITES.iter().map(at).collect()
    };
    let (desktops, servers) = (runs(desktops)?, runs(servers)?);
    let curves = |of: fn(&Run) -> Option<f64>| -> Vec<Curve> {
        let mean_of = |(at, runs): &(f64, Vec<Run>)| Some((*at, mean(runs.iter().map(of))? * 100.0));
        [("mean of desktops", 0, &desktops), ("mean of servers", 2, &servers)]
            .map(|(name, colour, runs)| Curve::ours(name, colour, runs.iter().filter_map(mean_of).collect()))
            .into()
    };
    let axes = |y| [Axis::linear("threshold of overwrites, %"), Axis::linear(y)];
    let note = "The text of the paper has no point of this figure. At 0, every write goes to the log.";
    Ok([
        figure(
            "figure 4(a)",
            "Savings of selective caching",
            axes("% of writes saved"),
            curves(|r| r.write_savings),
            note,
        ),
        figure("figure 4(b)", "Reads from the log", axes("% of reads"), curves(|run| run.read_penalty), note),
    ])
}

/// Griffin's figure 5: a timeout alone.
fn timeouts(long: &Loaded) -> Result<[Figure; 2], ExperimentsError> {
    let none = griffin(&alone("off", "off")).play(long, TIMED)?.write_savings;
    let runs = TIMEOUTS.par_iter().with_max_len(1);
    let runs = runs.map(|(timeout, seconds)| Ok((*seconds, griffin(&alone(timeout, "off")).play(long, TIMED)?)));
    let runs: Vec<(f64, Run)> = runs.collect::<Result<_, ExperimentsError>>()?;
    let points = |of: &dyn Fn(&Run) -> Option<f64>| -> Vec<(f64, f64)> {
        runs.iter().filter_map(|(seconds, run)| Some((*seconds, of(run)? * 100.0))).collect()
    };
    let bound = |name, height| {
        Curve::paper(name, "section 6.1.2", 1, &[(900.0, height), (3600.0, height)]).drawn_as(Shape::Line)
    };
    let savings = vec![
        Curve::ours("desktop", 0, points(&|run| ratio(run.write_savings, none))),
        bound("nearly all traces: above the line", 80.0),
    ];
    let penalties =
        vec![Curve::ours("desktop", 0, points(&|run| run.read_penalty)), bound("most traces: below the line", 20.0)];
    let axes = |y| [Axis::logarithmic("timeout, s"), Axis::linear(y)];
    let note = "The text of the paper gives bounds, and no point.";
    Ok([
        figure("figure 5(a)", "Savings with a timeout", axes("% of savings without migration"), savings, note),
        figure("figure 5(b)", "Reads from the log with a timeout", axes("% of reads"), penalties, note),
    ])
}

/// Griffin's figure 6: a read threshold alone.
fn thresholds(desktops: &[Loaded], long: &Loaded) -> Result<[Figure; 2], ExperimentsError> {
    let runs = THRESHOLDS.par_iter().with_max_len(1).map(|(threshold, percent)| {
        let settings = alone("off", threshold);
        let mut runs = each(desktops, || griffin(&settings))?;
        runs.push(griffin(&settings).play(long, TIMED)?);
        Ok((*percent, runs))
    });
    let runs: Vec<(f64, Vec<Run>)> = runs.collect::<Result<_, ExperimentsError>>()?;
    let of = |trace: usize, figure: &dyn Fn(&Run) -> Option<f64>| -> Vec<(f64, f64)> {
        runs.iter().filter_map(|(percent, runs)| Some((*percent, figure(&runs[trace])?))).collect()
    };
    let (mut savings, mut intervals) = (Vec::new(), Vec::new());
    for (number, name) in DESKTOPS.into_iter().chain(["desktop"]).enumerate() {
        savings.push(Curve::ours(name, number, of(number, &|run| in_percent(run.write_savings))));
        let between = of(number, &|run| run.migration.mean_interval_s);
        // A threshold that fires less than twice has no time between migrations.
        if !between.is_empty() {
            intervals.push(Curve::ours(name, number, between));
        }
    }
    intervals.push(Curve::paper("S-PRXY1, the shortest", "section 6.1.2", 7, &[(1.0, 6.0)]));
    let x = || Axis::linear("read threshold, %");
    let no_point = "The text of the paper has no point: with 1 %, savings are similar to those of timeouts.";
    let left_out = "A trace in which no threshold fires twice has no curve.";
    Ok([
        figure(
            "figure 6(a)",
            "Savings with a read threshold",
            [x(), Axis::linear("% of writes saved")],
            savings,
            no_point,
        ),
        figure(
            "figure 6(b)",
            "Time between migrations with a read threshold",
            [x(), Axis::logarithmic("s")],
            intervals,
            &format!("{NO_CURVE} {left_out}"),
        ),
    ])
}

/// Griffin's figure 7.
fn sequentiality(desktops: &[Loaded], servers: &[Loaded]) -> Result<Figure, ExperimentsError> {
    let plans: [fn() -> Plan; 2] = [|| griffin(&COMPOSITE), || Plan::new("ssd-only").ssd(MLC)];
    let [with, without] = plans.map(|plan| -> Result<Vec<Option<f64>>, ExperimentsError> {
        let runs = each(desktops, plan)?.into_iter().chain(each(servers, plan)?);
        Ok(runs.map(|run| in_percent(run.ssd_write_sequentiality)).collect())
    });
    let (mut with, without) = (with?, without?);
    let gain = mean(with.iter().zip(&without).map(|(with, without)| Some((*with)? - (*without)?)));
    with.push(gain);
    let names: Vec<&str> = DESKTOPS.into_iter().chain(SERVERS).chain(["mean gain"]).collect();
    let last = names.len() as f64 - 1.0;
    let curves = vec![
        Curve::ours("SSD alone", 1, bars(&without)).drawn_as(Shape::Bars),
        Curve::ours("with Griffin", 0, bars(&with)).drawn_as(Shape::Bars),
        Curve::paper("mean gain", "section 1", 0, &[(last, 15.0)]).drawn_as(Shape::Bars),
    ];
    let axes = [Axis::names("trace", &names), Axis::linear("% of page writes in order")];
    Ok(figure("figure 7", "Writes to the SSD in order", axes, curves, NO_CURVE))
}

/// Griffin's figure 8.
fn erasures(desktops: &[Loaded], long: &Loaded) -> Result<Figure, ExperimentsError> {
    let names: Vec<&str> = DESKTOPS.into_iter().chain(["desktop"]).collect();
    let mut curves = Vec::new();
    for (colour, ftl, name) in [(0, "ideal", "ideal layer"), (2, "simple", "simple layer")] {
        let setting = [("ssd.ftl", ftl)];
        let plans: [&(dyn Fn() -> Plan + Sync); 2] =
            [&|| griffin(&COMPOSITE).set(&setting), &|| Plan::new("ssd-only").ssd(MLC).set(&setting)];
        let [with, without] = plans.map(|plan| -> Result<Vec<Run>, ExperimentsError> {
            let mut runs = each(desktops, plan)?;
            runs.push(plan().play(long, TIMED)?);
            Ok(runs)
        });
        let (with, without) = (with?, without?);
        let saved = with.iter().zip(&without);
        let saved = saved.map(|(with, without)| Some((1.0 - ratio(erases(with), erases(without))?) * 100.0));
        curves.push(Curve::ours(name, colour, bars(&saved.collect::<Vec<_>>())).drawn_as(Shape::Bars));
    }
    let bound = [(-0.4, 50.0), (names.len() as f64 - 0.6, 50.0)];
    let half = Curve::paper("life at least doubled: half of the erases", "section 1", 1, &bound);
    curves.push(half.drawn_as(Shape::Line));
    let axes = [Axis::names("trace", &names), Axis::linear("% of erases saved")];
    let note = "The text of the paper has no bar of this figure.";
    Ok(figure("figure 8", "Erases saved under two translation layers", axes, curves, note))
}

/// Griffin's figure 9: four logs.
fn latencies(long: &Loaded) -> Result<Figure, ExperimentsError> {
    let logs = [("7200 rpm disk", LOG), ("10,000 rpm disk", FAST_LOG), ("MLC SSD", MLC), ("SLC SSD", SLC)];
    let alone = Plan::new("ssd-only").ssd(MLC).play(long, TIMED)?;
    let runs = logs.par_iter().with_max_len(1).map(|(_, log)| logged_on(log).play(long, TIMED));
    let runs: Vec<Run> = runs.collect::<Result<_, ExperimentsError>>()?;
    let means = |run: &Run| {
        let times = &run.response_time_ms;
        [times.all.mean, times.read.mean, times.write.mean]
    };
    let mut curves = vec![Curve::paper("7200 rpm disk", "section 6.4", 0, &[(0.0, 0.44)]).drawn_as(Shape::Bars)];
    for (colour, ((name, _), run)) in [0, 1, 2, 3].into_iter().zip(logs.iter().zip(&runs)) {
        let relative = means(run).into_iter().zip(means(&alone)).map(|(with, without)| ratio(with, without));
        curves.push(Curve::ours(name, colour, bars(&relative.collect::<Vec<_>>())).drawn_as(Shape::Bars));
    }
    let axes = [Axis::names("requests", &["all", "reads", "writes"]), Axis::linear("latency, SSD alone = 1")];
    let note =
        format!("{NO_CURVE} Ours is drawn over desktop; the paper's mean is over two stretches of its desktops.");
    Ok(figure("figure 9", "Latency with four kinds of log", axes, curves, &note))
}
