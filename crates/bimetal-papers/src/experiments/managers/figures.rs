//! Figures 6 to 8 of the storage managers' paper.

use bimetal_sim::results::Run;
use rayon::prelude::*;

use super::{DESKTOPS, HDD, HDD_USD, Loaded, MANAGERS, MARK, MIX_DISK, Plan, SERVERS, SSD, SSD_SCORE, SSD_USD, Traces};
use super::{rate, twice};
use crate::claims::Paper;
use crate::experiments::{CLOSED, ExperimentsError, geometric_mean, ratio};
use crate::figure::{Axis, Curve, Figure, Shape, bars};

/// Schemes in the order of figure 6, each with its name.
const SCHEMES: [(&str, &str); 5] = [
    ("hdd-only", "HDD"),
    ("hddboost", "HDDBoost"),
    ("hyperduo", "HyperDuo"),
    ("smart-response", "Smart Response"),
    ("ssd-only", "SSD"),
];

/// Overall scores of section IV in thousands, in the order of [`SCHEMES`].
const SCORES: [Option<f64>; 5] = [Some(5.0), Some(10.0), Some(11.0), Some(20.0), Some(25.0)];

/// Scores a dollar of the drives, and budgets of the managers (section IV).
const PER_DOLLAR: [Option<f64>; 5] = [Some(77.0), Some(67.0), Some(76.0), Some(74.0), Some(223.0)];

pub(in crate::experiments) fn figures(traces: &Traces) -> Result<Vec<Figure>, ExperimentsError> {
    let names: Vec<&str> = DESKTOPS.into_iter().chain(SERVERS).collect();
    let shipped = played(&traces.all_shipped(&names)?)?;
    let tasks: Vec<Loaded> = traces.pieces("application-mix", MIX_DISK, MARK)?.into_iter().skip(1).collect();
    let mix = played(&tasks)?;
    let names = SCHEMES.map(|(_, name)| name);
    let both = [("7 shipped traces", 0, &shipped), ("application-mix", 2, &mix)];
    let chart = |number, title, y, place, paper: &[Option<f64>], value: &dyn Fn(usize, f64) -> f64| {
        let mut curves = vec![Curve::paper("score", place, 1, &bars(paper)).drawn_as(Shape::Bars)];
        for (name, colour, runs) in both {
            let scores = runs.iter().enumerate();
            let scores = scores.map(|(at, of)| geometric_mean(of.iter().copied()).map(|score| value(at, score)));
            curves.push(Curve::ours(name, colour, bars(&scores.collect::<Vec<_>>())).drawn_as(Shape::Bars));
        }
        let note = "Ours are MB/s relative to the SSD alone, whose score counts as the paper's 25,000.".to_owned();
        Figure { paper: Paper::Managers, number, title, x: Axis::names("", &names), y: Axis::linear(y), curves, note }
    };
    let score = |_: usize, relative: f64| relative * SSD_SCORE / 1000.0;
    let per_dollar = |at: usize, relative: f64| relative * SSD_SCORE / price(at);
    Ok(vec![
        chart("figure 6", "Overall score", "PCMark score, thousands", "section IV", &SCORES, &score),
        sets(&mix),
        chart(
            "figure 8",
            "Score a dollar; of managers, the budget of equation 1",
            "score a dollar",
            "section IV",
            &PER_DOLLAR,
            &per_dollar,
        ),
    ])
}

/// Returns the price of a scheme's hardware beside the disk, of the disk itself for the disk alone.
fn price(at: usize) -> f64 {
    let manager = MANAGERS.iter().find(|manager| manager.scheme == SCHEMES[at].0);
    match (manager, SCHEMES[at].0) {
        (Some(manager), _) => manager.usd() + SSD_USD,
        (None, "hdd-only") => HDD_USD,
        _ => SSD_USD,
    }
}

/// Plays every trace under every scheme; returns the speed relative to the SSD alone.
fn played(traces: &[Loaded]) -> Result<Vec<Vec<Option<f64>>>, ExperimentsError> {
    let twice: Vec<Loaded> = traces.iter().map(twice).collect();
    let runs = SCHEMES.map(|(scheme, _)| -> Result<Vec<Run>, ExperimentsError> {
        let plan = || Plan::new(scheme).ssd(SSD).hdd(HDD).warmup(0.5);
        twice.par_iter().with_max_len(1).map(|trace| plan().play(trace, CLOSED)).collect()
    });
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let ssd = runs.last().map_or(&[][..], Vec::as_slice);
    let relative = |of: &Vec<Run>| of.iter().zip(ssd).map(|(run, ssd)| ratio(rate(run), rate(ssd))).collect();
    Ok(runs.iter().map(relative).collect())
}

/// Figure 7: the score of each of the eight sets.
fn sets(mix: &[Vec<Option<f64>>]) -> Figure {
    let count = mix.first().map_or(0, Vec::len);
    let names: Vec<String> = (1..=count).map(|set| set.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let score = |relative: &Option<f64>| relative.map(|relative| relative * SSD_SCORE / 1000.0);
    let curves = [1, 4, 0, 2, 3].into_iter().zip(SCHEMES).zip(mix).map(|((colour, (_, name)), relative)| {
        let scores: Vec<_> = relative.iter().map(score).collect();
        Curve::ours(name, colour, bars(&scores)).drawn_as(Shape::Bars)
    });
    let note =
        "The text of the paper has no bar of this figure. It says that HyperDuo and HDDBoost are faster in set 2, \
                and similar in sets 1, 5, 7 and 8. Ours are the eight tasks of application-mix."
            .to_owned();
    Figure {
        paper: Paper::Managers,
        number: "figure 7",
        title: "Score of each set of requests",
        x: Axis::names("set", &names),
        y: Axis::linear("PCMark score, thousands; SSD alone = 25"),
        curves: curves.collect(),
        note,
    }
}
