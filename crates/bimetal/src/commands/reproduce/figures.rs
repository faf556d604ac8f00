//! Drawings of the papers' figures: the paper's points hollow, ours filled, each with its place.

use bimetal_papers::figure::{Axis, Curve, Figure, Origin, Scale, Shape};

use crate::report::escape::html as escaped;
use crate::report::plot::{self, Mark, Series, svg};
use crate::report::sections::capital;

/// Colours of the style sheet.
const COLOURS: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];

/// Returns the figures of a paper, in their order.
pub(super) fn drawn(figures: &[&Figure]) -> String {
    let figures: String = figures.iter().map(|figure| one(figure)).collect();
    format!(
        "<h3>Figures</h3>\n<p>Hollow points, outlined bars and dashed lines are the paper's. Each is a number in the \
         paper's text, from the place in its legend; nothing is read off a drawing. Filled bars, lines and dots are \
         ours.</p>\n<div class=\"drawings\">\n{figures}</div>\n"
    )
}

fn one(figure: &Figure) -> String {
    let Figure { paper, number, title, x, y, curves, note } = figure;
    let bars = curves.iter().filter(|curve| curve.shape == Shape::Bars).count();
    let mut nth = 0;
    let mut series = Vec::new();
    for curve in curves {
        series.push(Series {
            colour: colour(curve),
            mark: mark(curve, nth, bars),
            points: curve.points.iter().copied().filter(|point| is_drawn(*point, [x, y])).collect(),
            right: false,
        });
        nth += usize::from(curve.shape == Shape::Bars);
    }
    let values = |pick: fn(&(f64, f64)) -> f64| series.iter().flat_map(|of| of.points.iter().map(pick)).collect();
    let mut heights: Vec<f64> = values(|point| point.1);
    if bars > 0 && is_logarithmic(y) {
        // Every bar has a height.
        heights.extend(heights.iter().copied().reduce(f64::min).map(|low| low / 2.0));
    }
    let (across, up) = (axis(x, values(|point| point.0)), axis(y, heights));
    let legend: Vec<String> = curves.iter().map(in_legend).collect();
    let label = escaped(&format!("{}, {number}: {title}", paper.name()));
    format!(
        "<figure><h4>{}: {}</h4>\n{}<figcaption><p class=\"key\">{}</p>\n<p>{}</p></figcaption></figure>\n",
        capital(number),
        escaped(title),
        svg(&label, &across, &up, None, &series),
        legend.join(" "),
        escaped(note)
    )
}

fn colour(curve: &Curve) -> &'static str {
    COLOURS[curve.colour % COLOURS.len()]
}

/// Returns the mark of a curve, whose bars are the `nth` of `of`.
fn mark(curve: &Curve, nth: usize, of: usize) -> Mark {
    let is_paper = matches!(curve.origin, Origin::Paper(_));
    match curve.shape {
        Shape::Line if is_paper => Mark::DashedLine,
        Shape::Line => Mark::Line,
        Shape::Points if is_paper => Mark::Rings,
        Shape::Points => Mark::Discs,
        Shape::Bars if is_paper => Mark::HollowBars { nth, of },
        Shape::Bars => Mark::Bars { nth, of },
    }
}

/// Returns true if a point has a place on the axes: a logarithm of zero has none.
fn is_drawn((across, up): (f64, f64), [x, y]: [&Axis; 2]) -> bool {
    let has_place = |value: f64, axis: &Axis| value.is_finite() && (value > 0.0 || !is_logarithmic(axis));
    has_place(across, x) && has_place(up, y)
}

fn is_logarithmic(axis: &Axis) -> bool {
    matches!(axis.scale, Scale::Logarithmic)
}

/// Returns the axis of a chart that has all `values`.
fn axis(axis: &Axis, values: Vec<f64>) -> plot::Axis {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match &axis.scale {
        Scale::Names(names) => plot::Axis::named(axis.name, names.clone()),
        Scale::Logarithmic if low.is_finite() => plot::Axis::logarithmic(axis.name, low, high),
        Scale::Logarithmic => plot::Axis::logarithmic(axis.name, 1.0, 10.0),
        Scale::Linear => plot::Axis::reaching(axis.name, low, high),
    }
}

fn in_legend(curve: &Curve) -> String {
    let (hollow, place) = match curve.origin {
        Origin::Paper(place) => (" hollow", format!(" ({place})")),
        Origin::Ours => ("", String::new()),
    };
    let nothing = if curve.points.is_empty() { ": no point" } else { "" };
    let name = escaped(&format!("{}{place}{nothing}", curve.name));
    format!("<span class=\"scheme {}{hollow}\">{name}</span>", colour(curve))
}

#[cfg(test)]
mod tests {
    use bimetal_papers::claims::Paper;

    use super::*;

    fn figure(x: Scale, y: Scale, curves: Vec<Curve>) -> Figure {
        let axis = |name, scale| Axis { name, scale };
        let (x, y) = (axis("time, s", x), axis("share, %", y));
        Figure { paper: Paper::Griffin, number: "figure 3", title: "Times", x, y, curves, note: "A note.".to_owned() }
    }

    fn curve(origin: Origin, shape: Shape, points: &[(f64, f64)]) -> Curve {
        Curve { name: "D-1A".to_owned(), origin, shape, colour: 2, points: points.to_vec() }
    }

    #[test]
    fn paper_is_hollow_and_names_its_place() {
        let points = [(30.0, 68.0), (60.0, 74.0)];
        let paper = curve(Origin::Paper("table 3"), Shape::Points, &points);
        let ours = curve(Origin::Ours, Shape::Line, &points);
        let drawn = one(&figure(Scale::Logarithmic, Scale::Linear, vec![paper, ours]));
        assert_eq!((drawn.matches("<circle").count(), drawn.matches("<polyline").count()), (2, 1));
        assert!(drawn.contains("<span class=\"scheme c2 hollow\">D-1A (table 3)</span>"), "{drawn}");
        assert!(drawn.contains("<span class=\"scheme c2\">D-1A</span>"), "{drawn}");
        for text in ["Figure 3: Times", ">time, s<", ">share, %<", "A note."] {
            assert!(drawn.contains(text), "{text}: {drawn}");
        }
    }

    #[test]
    fn bars_of_one_name_stand_side_by_side() {
        let names = Scale::Names(vec!["all".to_owned(), "reads".to_owned()]);
        let curves = [Origin::Paper("table 1"), Origin::Ours].map(|of| curve(of, Shape::Bars, &[(0.0, 1.0)]));
        let drawn = one(&figure(names, Scale::Linear, curves.into()));
        let lefts: Vec<f64> =
            drawn.split("<rect x=\"").skip(1).map(|rect| rect.split('"').next().unwrap().parse().unwrap()).collect();
        assert_eq!(lefts.len(), 2);
        assert!(lefts[0] + 50.0 < lefts[1], "{lefts:?}");
    }

    /// A logarithm of zero was drawn at minus infinity.
    #[test]
    fn point_without_a_logarithm_is_left_out() {
        let ours = curve(Origin::Ours, Shape::Points, &[(0.0, 5.0), (10.0, 0.0), (10.0, 5.0)]);
        let drawn = one(&figure(Scale::Logarithmic, Scale::Logarithmic, vec![ours]));
        assert_eq!(drawn.matches("<circle").count(), 1);
        let nothing = one(&figure(Scale::Logarithmic, Scale::Linear, vec![curve(Origin::Ours, Shape::Line, &[])]));
        assert!(
            nothing.contains("D-1A: no point") && !nothing.contains("NaN") && !nothing.contains("inf"),
            "{nothing}"
        );
    }
}
