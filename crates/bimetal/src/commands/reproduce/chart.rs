//! Charts of the claims: for each figure and table of a paper, the points of the paper and the
//! points that this program measures.

use std::fmt::Write as _;

use bimetal_papers::claims::Verdict;
use bimetal_papers::experiments::Answer;

use crate::report::escape::html as escaped;

const WIDTH: f64 = 820.0;
/// Height of a claim: a line of text, and the scale below it.
const ROW: f64 = 46.0;
/// Left and right end of a scale.
const SCALE: [f64; 2] = [8.0, 640.0];
/// Part of a scale beyond the largest value.
const MARGIN: f64 = 0.08;

/// Returns a chart for each figure and table that has claims, in the order of the claims.
pub(super) fn charts(paper: &str, answers: &[&Answer]) -> String {
    let mut places: Vec<&str> = Vec::new();
    for answer in answers {
        if !places.contains(&answer.claim.place) {
            places.push(answer.claim.place);
        }
    }
    let mut text = String::from(
        "<p>Each claim has a scale of its own. The bar is the paper's value, the band has the values that agree with it, \
         and the dot is ours: filled where it agrees, hollow where it does not. Behind each scale stand the paper's \
         value and ours.</p>\n",
    );
    for place in places {
        let of_place: Vec<&Answer> = answers.iter().copied().filter(|answer| answer.claim.place == place).collect();
        let _ = writeln!(
            text,
            "<figure><h3>{place}</h3>\n{}</figure>",
            svg(&format!("{paper}, {place}: the paper's values beside ours"), &of_place),
            place = escaped(place),
        );
    }
    text
}

fn svg(label: &str, answers: &[&Answer]) -> String {
    let mut drawing = String::new();
    for (row, answer) in (0_u32..).zip(answers) {
        drawing += &claim(f64::from(row) * ROW, answer);
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\" \
         style=\"width:100%;height:auto;fill:var(--soft);font-size:12px\">{drawing}</svg>",
        ROW * answers.len() as f64,
        escaped(label)
    )
}

/// Returns a claim with its scale, from the height `top` on.
fn claim(top: f64, answer: &Answer) -> String {
    let claim = answer.claim;
    let number = claim.expected.number();
    let (lowest, highest) = claim.expected.agreeing();
    let known = [Some(0.0), Some(number), answer.ours].into_iter().flatten();
    let (low, high) = known
        .chain([lowest, highest].into_iter().filter(|bound| bound.is_finite()))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    // A bound of 0 that is kept has no extent.
    let room = if high > low { (high - low) * MARGIN } else { 1.0 };
    let (low, high) = (if low < 0.0 { low - room } else { low }, high + room);
    let at = |value: f64| SCALE[0] + (value.clamp(low, high) - low) / (high - low) * (SCALE[1] - SCALE[0]);
    let (line, middle) = (top + 14.0, top + 30.0);
    let (ours, dot) = match answer.ours {
        Some(ours) => (claim.unit.text(ours), dot(at(ours), middle, answer.verdict)),
        None => ("not run".to_owned(), String::new()),
    };
    format!(
        "<text x=\"{0}\" y=\"{line:.1}\">{says}</text>\
         <line x1=\"{0}\" x2=\"{1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"var(--rule)\"/>\
         <rect x=\"{from:.1}\" y=\"{2:.1}\" width=\"{wide:.1}\" height=\"12\" fill=\"var(--rule)\"/>\
         <rect x=\"{paper:.1}\" y=\"{3:.1}\" width=\"3\" height=\"18\" class=\"c0\" fill=\"var(--own)\"/>{dot}\
         <text x=\"{4}\" y=\"{5:.1}\">{expected} / {ours}</text>",
        SCALE[0],
        SCALE[1],
        middle - 6.0,
        middle - 9.0,
        SCALE[1] + 12.0,
        middle + 4.0,
        says = escaped(&format!("{} ({})", claim.says, claim.workload)),
        from = at(lowest),
        wide = at(highest) - at(lowest),
        paper = at(number) - 1.5,
        expected = escaped(&claim.expected.text(claim.unit)),
    )
}

fn dot(x: f64, y: f64, verdict: Verdict) -> String {
    let fill = if verdict == Verdict::Agrees { "var(--own)" } else { "var(--paper)" };
    format!(
        "<circle class=\"c1\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{fill}\" stroke=\"var(--own)\" stroke-width=\"2\"/>"
    )
}

#[cfg(test)]
mod tests {
    use bimetal_papers::claims::{Claim, Paper};

    use super::*;

    fn answer(claim: &'static Claim, ours: Option<f64>) -> Answer {
        let verdict = ours.map_or(Verdict::NotRun, |ours| claim.expected.verdict(ours));
        Answer { paper: Paper::Griffin, claim, ours, verdict, mechanism: None }
    }

    /// Returns the numbers of an attribute of all elements with this beginning.
    fn numbers(drawn: &str, element: &str, attribute: &str) -> Vec<f64> {
        let elements = drawn.split(element).skip(1);
        let value = |element: &str| element.split(&format!(" {attribute}=\"")).nth(1)?.split('"').next()?.parse().ok();
        elements.filter_map(value).collect()
    }

    /// Regression: a value equal to the paper's value lies on the paper's bar, within the band; a
    /// value of half the size lies to the left of the bar.
    #[test]
    fn dot_lies_on_the_bar_exactly_if_the_values_are_equal() {
        for claim in Paper::ALL.into_iter().flat_map(Paper::claims) {
            let number = claim.expected.number();
            let drawn = super::claim(0.0, &answer(claim, Some(number)));
            let (dot, bar) = (numbers(&drawn, "<circle", "cx")[0], numbers(&drawn, "<rect", "x")[1] + 1.5);
            assert!((dot - bar).abs() < 0.2, "{}: {drawn}", claim.name);
            let (band, wide) = (numbers(&drawn, "<rect", "x")[0], numbers(&drawn, "<rect", "width")[0]);
            assert!(band <= dot + 0.2 && dot <= band + wide + 0.2, "{}: {drawn}", claim.name);
            if number > 0.0 {
                let half = super::claim(0.0, &answer(claim, Some(number / 2.0)));
                let bar = numbers(&half, "<rect", "x")[1] + 1.5;
                assert!(numbers(&half, "<circle", "cx")[0] < bar - 20.0, "{}: {half}", claim.name);
            }
        }
    }

    #[test]
    fn each_place_has_one_chart_with_all_its_claims() {
        let answers: Vec<Answer> = Paper::Griffin.claims().iter().map(|claim| answer(claim, Some(1e9))).collect();
        let all: Vec<&Answer> = answers.iter().collect();
        let drawn = charts("griffin", &all);
        assert_eq!(drawn.matches("<h3>table 1</h3>").count(), 1);
        assert_eq!(drawn.matches("<circle").count(), answers.len());
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert!(numbers(&drawn, "<circle", "cx").iter().all(|x| (SCALE[0]..=SCALE[1]).contains(x)));
        let nothing = answer(&Paper::Griffin.claims()[0], None);
        assert_eq!(charts("griffin", &[&nothing]).matches("<circle").count(), 0);
    }
}
