//! `bimetal reproduce wear-leveling`: figures 5.7 and 5.8 of Konanki's thesis.

use std::fmt::Write as _;

use bimetal_papers::wear_levelling::{FIGURES, Figure, LAYERS};

use super::Shown;
use super::values::Value;
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
        let Figure { title, claim, paper, .. } = figure;
        let _ = writeln!(shown.text, "{title}\n  the paper: {}", claim.replace("; ", ";\n             "));
        let place = title.split(':').next().unwrap_or(title);
        let mut layers = Vec::new();
        for ((name, ftl), point) in LAYERS.into_iter().zip(paper) {
            let percent = figure.percent_by_erases(ftl, SEED)?;
            let _ = writeln!(shown.text, "  {name} (ftl={ftl}): blocks by times erased");
            for (erases, percent) in &percent {
                let bar = "#".repeat((percent / 100.0 * BAR).round() as usize);
                let line = format!("    {erases:3}  {percent:7.3} %  {bar}");
                let _ = writeln!(shown.text, "{}", line.trim_end());
                let of_paper = point.filter(|(at, _)| *at == f64::from(*erases)).map(|(_, percent)| percent);
                let quantity = format!("blocks erased {erases} times");
                shown.values.push(Value::new(place, name, &quantity, "%", of_paper, *percent));
            }
            layers.push(percent);
        }
        shown.text.push('\n');
        shown.charts += &chart(title, claim, &paper, &layers);
    }
    Ok(shown)
}

/// Returns the chart of one figure: the layers side by side for each number of erases, each beside
/// the thesis's point, if its text has one.
fn chart(title: &str, claim: &str, paper: &[Option<(f64, f64)>], layers: &[Vec<(u32, f64)>]) -> String {
    let most = layers.iter().flatten().map(|(erases, _)| *erases).max().unwrap_or(0);
    let x = Axis {
        low: -0.5,
        high: f64::from(most) + 0.5,
        ticks: (0..=most).map(f64::from).collect(),
        ..Axis::linear("times a block was erased", 1.0)
    };
    let known = paper.iter().zip(COLOURS).filter_map(|(point, colour)| Some(((*point)?, colour)));
    let known: Vec<((f64, f64), &str)> = known.collect();
    let of = layers.len() + known.len();
    let of_paper = (layers.len()..).zip(&known).map(|(nth, (point, colour))| Series {
        colour,
        mark: Mark::HollowBars { nth, of },
        points: vec![*point],
        right: false,
    });
    let ours = (0..).zip(layers).zip(COLOURS).map(|((nth, percent), colour)| Series {
        colour,
        mark: Mark::Bars { nth, of },
        points: percent.iter().map(|(erases, percent)| (f64::from(*erases), *percent)).collect(),
        right: false,
    });
    let series: Vec<Series> = ours.chain(of_paper).collect();
    let points = if known.is_empty() {
        "Its text has no bar of this figure."
    } else {
        "Outlined bars are the thesis's (section 5.4); its text has no other."
    };
    let names =
        LAYERS.iter().zip(COLOURS).map(|((name, _), colour)| format!("<span class=\"scheme {colour}\">{name}</span>"));
    format!(
        "<figure><h3>{title}</h3><figcaption><p>Per cent of all blocks by times erased, under {}. The paper: {claim}. \
         {points}</p>\
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
        let Shown { text, charts, .. } = figures().unwrap();
        for ((name, _), colour) in LAYERS.into_iter().zip(COLOURS) {
            assert_eq!(text.matches(&format!("  {name} (")).count(), 2, "{text}");
            assert_eq!(charts.matches(&format!("<g class=\"{colour}\" fill=\"var(--own)\"")).count(), 2, "{charts}");
        }
        assert_eq!(charts.matches("fill=\"var(--paper)\" stroke").count(), 2, "the thesis's points of figure 5.7");
        assert!(text.contains("      0  100.000 %  ##################################################\n"), "{text}");
    }
}
