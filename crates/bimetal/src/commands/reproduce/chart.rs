//! Charts of the claims: for each figure and table of a paper, the points of the paper and the
//! points that this program measures.

use std::fmt::Write as _;

use bimetal_papers::claims::{Expected, Verdict};
use bimetal_papers::experiments::Answer;

use crate::report::escape::html as escaped;

/// Width of a scale in pixels of a telephone, on which text keeps its size.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 58.0;
/// Left and right end of a scale.
const SCALE: [f64; 2] = [16.0, 344.0];
/// Height of the scale, and of the names of its ticks below.
const MIDDLE: f64 = 26.0;
const NAMES: f64 = 52.0;
/// Part of a scale beyond the largest value.
const MARGIN: f64 = 0.08;
/// Largest number of steps between ticks.
const STEPS: f64 = 4.0;

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
         and the dot is ours: filled where it agrees, hollow where it does not. A dashed line marks the value without \
         any effect.</p>\n<div class=\"scales\">\n",
    );
    for place in places {
        let of_place = answers.iter().filter(|answer| answer.claim.place == place);
        let claims: String = of_place.map(|answer| claim(paper, answer)).collect();
        let _ = writeln!(text, "<figure><h3>{}</h3>\n{claims}</figure>", escaped(place));
    }
    text + "</div>\n"
}

/// Returns a claim with its values as text, and its scale.
fn claim(paper: &str, answer: &Answer) -> String {
    let claim = answer.claim;
    let expected = claim.expected.text(claim.unit);
    let ours = answer.ours.map_or_else(|| "not run".to_owned(), |ours| claim.unit.text(ours));
    format!(
        "<p>{says}<br><small>{workload}: the paper <b>{expected}</b>, ours <b>{ours}</b></small></p>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">{scale}</svg>\n",
        says = escaped(claim.says),
        workload = escaped(&claim.workload.to_string()),
        expected = escaped(&expected),
        label = escaped(&format!("{paper}, {}: {expected} in the paper, ours {ours}", claim.says)),
        scale = scale(answer),
    )
}

/// Returns the scale of a claim: ticks with their unit, band, bar, dot, and the value without any
/// effect.
fn scale(answer: &Answer) -> String {
    let claim = answer.claim;
    let number = claim.expected.number();
    let (lowest, highest) = claim.expected.agreeing();
    let (low, high) = ends(answer);
    let at = |value: f64| SCALE[0] + (value.clamp(low, high) - low) / (high - low) * (SCALE[1] - SCALE[0]);
    let mut drawing = ticks(low, high).into_iter().fold(String::new(), |mut drawing, tick| {
        let (x, name) = (at(tick), escaped(&claim.unit.text(tick)));
        let _ = write!(
            drawing,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{MIDDLE}\" y2=\"{}\" stroke=\"var(--soft)\"/>\
             <text x=\"{x:.1}\" y=\"{NAMES}\" text-anchor=\"middle\">{name}</text>",
            MIDDLE + 12.0
        );
        drawing
    });
    let _ = write!(
        drawing,
        "<line x1=\"{}\" x2=\"{}\" y1=\"{MIDDLE}\" y2=\"{MIDDLE}\" stroke=\"var(--soft)\"/>\
         <rect x=\"{from:.1}\" y=\"{}\" width=\"{wide:.1}\" height=\"12\" fill=\"var(--rule)\"/>",
        SCALE[0],
        SCALE[1],
        MIDDLE - 6.0,
        from = at(lowest),
        wide = at(highest) - at(lowest),
    );
    if let Expected::Change { without, .. } = claim.expected {
        drawing += &no_effect(at(without));
    }
    let _ = write!(
        drawing,
        "<rect x=\"{:.1}\" y=\"{}\" width=\"3\" height=\"18\" class=\"c0\" fill=\"var(--own)\"/>",
        at(number) - 1.5,
        MIDDLE - 9.0
    );
    drawing + &answer.ours.map_or_else(String::new, |ours| dot(at(ours), answer.verdict))
}

/// Returns the ends of a scale, which has 0, the paper's value, its band, and ours.
fn ends(answer: &Answer) -> (f64, f64) {
    let expected = answer.claim.expected;
    let (lowest, highest) = expected.agreeing();
    let without = if let Expected::Change { without, .. } = expected { Some(without) } else { None };
    let known = [Some(0.0), Some(expected.number()), without, answer.ours].into_iter().flatten();
    let (low, high) = known
        .chain([lowest, highest].into_iter().filter(|bound| bound.is_finite()))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    // A bound of 0 that is kept has no extent.
    let room = if high > low { (high - low) * MARGIN } else { 1.0 };
    (if low < 0.0 { low - room } else { low }, high + room)
}

/// Returns round values between both ends: multiples of 1, 2 or 5 times a power of ten.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let power = 10_f64.powf((high - low).log10().floor());
    let step = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0].map(|part| part * power).into_iter();
    let step = step.clone().find(|step| (high - low) / step <= STEPS).unwrap_or(power);
    let numbers = (low / step).ceil() as i64..=(high / step).floor() as i64;
    numbers.map(|number| number as f64 * step).collect()
}

/// Returns the mark of a value without any effect.
fn no_effect(x: f64) -> String {
    let (anchor, beside) = if x < WIDTH / 2.0 { ("start", x + 4.0) } else { ("end", x - 4.0) };
    format!(
        "<line class=\"without\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"2\" y2=\"{}\" stroke=\"var(--ink)\" \
         stroke-dasharray=\"3 3\"/><text x=\"{beside:.1}\" y=\"11\" text-anchor=\"{anchor}\">no effect</text>",
        MIDDLE + 12.0
    )
}

fn dot(x: f64, verdict: Verdict) -> String {
    let agrees = [Verdict::Agrees, Verdict::Fitted, Verdict::ByDefinition].contains(&verdict);
    let fill = if agrees { "var(--own)" } else { "var(--paper)" };
    format!(
        "<circle class=\"c1\" cx=\"{x:.1}\" cy=\"{MIDDLE}\" r=\"5\" fill=\"{fill}\" stroke=\"var(--own)\" \
         stroke-width=\"2\"/>"
    )
}

#[cfg(test)]
mod tests {
    use bimetal_papers::claims::{Claim, Paper};

    use super::*;

    fn answer(claim: &'static Claim, ours: Option<f64>) -> Answer {
        let verdict = ours.map_or(Verdict::NotRun, |ours| claim.verdict(ours));
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
            let drawn = scale(&answer(claim, Some(number)));
            let (dot, bar) = (numbers(&drawn, "<circle", "cx")[0], numbers(&drawn, "<rect", "x")[1] + 1.5);
            assert!((dot - bar).abs() < 0.2, "{}: {drawn}", claim.name);
            let (band, wide) = (numbers(&drawn, "<rect", "x")[0], numbers(&drawn, "<rect", "width")[0]);
            assert!(band <= dot + 0.2 && dot <= band + wide + 0.2, "{}: {drawn}", claim.name);
            if number > 0.0 {
                let half = scale(&answer(claim, Some(number / 2.0)));
                let bar = numbers(&half, "<rect", "x")[1] + 1.5;
                assert!(numbers(&half, "<circle", "cx")[0] < bar - 10.0, "{}: {half}", claim.name);
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

    #[test]
    fn changes_have_a_mark_where_nothing_has_an_effect() {
        for claim in Paper::ALL.into_iter().flat_map(Paper::claims) {
            let drawn = scale(&answer(claim, Some(claim.expected.number())));
            let Expected::Change { without, .. } = claim.expected else {
                assert!(!drawn.contains("no effect"), "{}", claim.name);
                continue;
            };
            let mark = numbers(&drawn, "<line class=\"without\"", "x1")[0];
            let unchanged = scale(&answer(claim, Some(without)));
            assert!((numbers(&unchanged, "<circle", "cx")[0] - mark).abs() < 0.2, "{}: {drawn}", claim.name);
        }
    }

    #[test]
    fn every_scale_has_ticks_with_their_unit() {
        for claim in Paper::ALL.into_iter().flat_map(Paper::claims) {
            let (low, high) = ends(&answer(claim, None));
            let ticks = ticks(low, high);
            assert!((2..=5).contains(&ticks.len()), "{}: {low} {high} {ticks:?}", claim.name);
            let drawn = scale(&answer(claim, None));
            assert!(ticks.iter().all(|tick| drawn.contains(&format!(">{}</text>", claim.unit.text(*tick)))), "{drawn}");
        }
    }
}
