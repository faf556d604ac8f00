//! `bimetal reproduce wear-leveling`: figures 5.7 and 5.8 of Konanki's thesis.

use std::fmt::Write as _;

use bimetal_papers::wear_levelling::{FIGURES, Figure, LAYERS};

use super::Shown;
use crate::error::Error;
use crate::report::plot::{Axis, Mark, Series, svg};

/// Number of characters of a full bar.
const BAR: f64 = 50.0;

/// Seed of the request sizes.
const SEED: u64 = 1;

/// Colour of each layer of [`LAYERS`].
const COLOURS: [&str; LAYERS.len()] = ["c0", "c1", "c2", "c3"];

/// Returns both figures: for each layer, the part of all blocks with each number of erases.
pub(super) fn figures() -> Result<Shown, Error> {
    let mut shown = Shown::default();
    for figure in FIGURES {
        let Figure { title, claim, .. } = figure;
        let _ = writeln!(shown.text, "{title}\n  the paper: {}", claim.replace("; ", ";\n             "));
        let mut layers = Vec::new();
        for (name, ftl) in LAYERS {
            let percent = figure.percent_by_erases(ftl, SEED)?;
            let _ = writeln!(shown.text, "  {name} (ftl={ftl}): blocks by times erased");
            for (erases, percent) in &percent {
                let bar = "#".repeat((percent / 100.0 * BAR).round() as usize);
                let line = format!("    {erases:3}  {percent:7.3} %  {bar}");
                let _ = writeln!(shown.text, "{}", line.trim_end());
            }
            layers.push(percent);
        }
        shown.text.push('\n');
        shown.charts += &chart(title, claim, &layers);
    }
    Ok(shown)
}

/// Returns the chart of one figure: the layers side by side for each number of erases.
fn chart(title: &str, claim: &str, layers: &[Vec<(u32, f64)>]) -> String {
    let most = layers.iter().flatten().map(|(erases, _)| *erases).max().unwrap_or(0);
    let x = Axis {
        name: "times a block was erased",
        low: -0.5,
        high: f64::from(most) + 0.5,
        logarithmic: false,
        ticks: (0..=most).map(f64::from).collect(),
    };
    let series: Vec<Series> = (0..)
        .zip(layers)
        .zip(COLOURS)
        .map(|((nth, percent), colour)| Series {
            colour,
            mark: Mark::Bars { nth, of: layers.len() },
            points: percent.iter().map(|(erases, percent)| (f64::from(*erases), *percent)).collect(),
            right: false,
        })
        .collect();
    let names =
        LAYERS.iter().zip(COLOURS).map(|((name, _), colour)| format!("<span class=\"scheme {colour}\">{name}</span>"));
    format!(
        "<figure><h3>{title}</h3><figcaption><p>Per cent of all blocks by times erased, under {}. The paper: {claim}.</p>\
         </figcaption>\n{}</figure>\n",
        names.collect::<Vec<_>>().join(", "),
        svg(title, &x, &Axis::linear("% of the blocks", 100.0), None, &series)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_drawn_for_every_layer() {
        let Shown { text, charts } = figures().unwrap();
        for ((name, _), colour) in LAYERS.into_iter().zip(COLOURS) {
            assert_eq!(text.matches(&format!("  {name} (")).count(), 2, "{text}");
            assert_eq!(charts.matches(&format!("<g class=\"{colour}\"")).count(), 2, "{charts}");
        }
        assert!(text.contains("      0  100.000 %  ##################################################\n"), "{text}");
    }
}
