//! A chart drawn without a script: axes, lines, dots, rings and bars, as SVG.

use std::fmt::Write as _;

use super::escape::html as escaped;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 380.0;
/// Space for the axes: left, right, top and bottom.
const MARGIN: [f64; 4] = [80.0, 56.0, 44.0, 58.0];

/// Most ticks whose names find room below a chart on a telephone.
const NAMED_TICKS: usize = 12;
/// Most ticks of a logarithmic axis that all have names.
const NAMED_POWERS: usize = 8;

/// Height of the names of ticks below the horizontal axis.
const NAME_BELOW: f64 = 22.0;

/// Most names of bars that find room in one line below a chart on a telephone. More names stand in
/// two lines by turns, and the second constant is the space between these lines.
const NAMES_IN_LINE: usize = 4;
const LINE: f64 = 26.0;

/// Width of all bars at a whole number, as a part of the distance to the next whole number. The
/// second constant is the smallest height of a bar.
const BARS_WIDE: f64 = 0.8;
const BAR_HEIGHT_MIN: f64 = 1.5;

/// An axis: its name, its two ends, and its ticks.
pub(crate) struct Axis {
    pub(crate) name: &'static str,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) logarithmic: bool,
    pub(crate) ticks: Vec<f64>,
    /// Names of the ticks; empty if the ticks are numbers.
    pub(crate) names: Vec<String>,
}

impl Axis {
    /// Returns an axis from 0 to `high`, extended to a round number, with four to ten ticks.
    pub(crate) fn linear(name: &'static str, high: f64) -> Self {
        let high = high.max(1e-9);
        let power = 10_f64.powf(high.log10().floor());
        let step = [0.1, 0.2, 0.5, 1.0, 2.0].map(|part| part * power).into_iter().find(|step| high / step <= 10.0);
        let step = step.unwrap_or(power);
        let count = (high / step).ceil();
        let ticks = (0..=count as u32).map(|tick| round(f64::from(tick) * step)).collect();
        Self { name, low: 0.0, high: count * step, logarithmic: false, ticks, names: Vec::new() }
    }

    /// Returns an axis that has 0, `low` and `high`, in round steps.
    pub(crate) fn reaching(name: &'static str, low: f64, high: f64) -> Self {
        let axis = Self::linear(name, high.max(-low).max(1e-9));
        if low >= 0.0 || !low.is_finite() {
            return axis;
        }
        let step = axis.ticks[1];
        let (first, last) = ((low / step).floor() as i32, (high.max(0.0) / step).ceil() as i32);
        let ticks = (first..=last).map(|tick| round(f64::from(tick) * step)).collect();
        Self { low: f64::from(first) * step, high: f64::from(last).max(1.0) * step, ticks, ..axis }
    }

    /// Returns an axis with a name at 0, 1, 2 and so on, for bars.
    pub(crate) fn named(name: &'static str, names: Vec<String>) -> Self {
        let ticks: Vec<f64> = (0_u32..).zip(&names).map(|(tick, _)| f64::from(tick)).collect();
        Self { name, low: -0.5, high: ticks.len() as f64 - 0.5, logarithmic: false, ticks, names }
    }

    /// Returns an axis from `low` to `high`, extended a little at both ends, with ticks at 1, 2 and
    /// 5 times the powers of ten.
    pub(crate) fn logarithmic(name: &'static str, low: f64, high: f64) -> Self {
        let (low, high) =
            (10_f64.powf((low.log10() * 2.0).floor() / 2.0), 10_f64.powf((high.log10() * 2.0).ceil() / 2.0));
        let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let ticks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| round(step * 10_f64.powi(power))));
        let ticks = ticks.filter(|tick| (low * 0.999..=high * 1.001).contains(tick)).collect();
        Self { name, low, high, logarithmic: true, ticks, names: Vec::new() }
    }

    /// Returns true if a tick has no name on a telephone, because there are many ticks. A
    /// logarithmic axis then keeps the names of the powers of ten.
    fn is_minor(&self, number: usize) -> bool {
        let count = self.ticks.len();
        if self.logarithmic && count > NAMED_POWERS {
            return !format!("{:e}", self.ticks[number]).starts_with("1e");
        }
        self.names.is_empty() && !number.is_multiple_of(count.div_ceil(NAMED_TICKS).max(1))
    }

    /// Returns the number of lines in which the names of the ticks stand.
    fn lines(&self) -> usize {
        if self.names.len() > NAMES_IN_LINE { 2 } else { 1 }
    }

    /// Returns the name of a tick, and the line in which the name stands.
    fn tick(&self, number: usize, tick: f64) -> (String, usize) {
        let name = self.names.get(number).map_or_else(|| tick.to_string(), |name| escaped(name));
        (name, number % self.lines())
    }

    /// Returns the position of a value between the ends, as a part of the axis.
    fn part(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// Returns `value` rounded to seven significant digits: 0.2 and not 0.20000000000000001.
fn round(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// Shape in which points are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Line,
    DashedLine,
    Dots,
    /// Dots that are large enough to stand alone.
    Discs,
    /// Rings: points of a paper, large enough to be seen on a line.
    Rings,
    /// Bars that stand on the axis: the `nth` of `of` bars that stand side by side at each whole
    /// number.
    Bars {
        nth: usize,
        of: usize,
    },
    /// Bars like [`Mark::Bars`], of which only the outline is drawn.
    HollowBars {
        nth: usize,
        of: usize,
    },
}

/// Points of one kind.
pub(crate) struct Series {
    /// Class of the style sheet that colours the series, `c0` to `c13`.
    pub(crate) colour: &'static str,
    pub(crate) mark: Mark,
    pub(crate) points: Vec<(f64, f64)>,
    /// Set if the series belongs to the second vertical axis.
    pub(crate) right: bool,
}

/// Returns the chart as an SVG element. `label` describes the chart to readers who do not see it.
pub(crate) fn svg(label: &str, x: &Axis, left: &Axis, right: Option<&Axis>, series: &[Series]) -> String {
    let at_x = |value: f64| MARGIN[0] + x.part(value) * (WIDTH - MARGIN[0] - MARGIN[1]);
    let at_y = |axis: &Axis, value: f64| HEIGHT - MARGIN[3] - axis.part(value) * (HEIGHT - MARGIN[2] - MARGIN[3]);
    let height = HEIGHT + (x.lines() - 1) as f64 * LINE;
    let mut drawing = String::new();
    for (number, tick) in x.ticks.iter().enumerate() {
        let at = at_x(*tick);
        let class = if x.is_minor(number) { " class=\"minor\"" } else { "" };
        let (top, bottom) = (MARGIN[2], HEIGHT - MARGIN[3]);
        let (name, line) = x.tick(number, *tick);
        let _ = write!(
            drawing,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"var(--rule)\"/>\
             <text{class} x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            bottom + NAME_BELOW + line as f64 * LINE
        );
    }
    for (axis, is_left) in [(Some(left), true), (right, false)] {
        let Some(axis) = axis else { continue };
        for tick in &axis.ticks {
            let at = at_y(axis, *tick);
            let (start, end) = (MARGIN[0], WIDTH - MARGIN[1]);
            if is_left {
                let _ = write!(
                    drawing,
                    "<line x1=\"{start}\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"var(--rule)\"/>"
                );
            }
            let (beside, anchor) = if is_left { (start - 8.0, "end") } else { (end + 8.0, "start") };
            let _ =
                write!(drawing, "<text x=\"{beside}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{tick}</text>", at + 4.0);
        }
    }
    for (axis, at, anchor) in [(Some(left), 4.0, "start"), (right, WIDTH - 4.0, "end")] {
        let Some(axis) = axis else { continue };
        let _ = write!(drawing, "<text x=\"{at}\" y=\"22\" text-anchor=\"{anchor}\">{}</text>", axis.name);
    }
    for Series { colour, mark, points, right: is_right } in series {
        let axis = if *is_right { right.unwrap_or(left) } else { left };
        let places = points.iter().map(|(x, y)| (at_x(*x), at_y(axis, *y)));
        let unit = at_x(1.0) - at_x(0.0);
        let ground = at_y(axis, if axis.logarithmic { axis.low } else { 0.0_f64.max(axis.low) });
        drawing += &marks(colour, *mark, &places.collect::<Vec<_>>(), [unit, ground]);
    }
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\" \
         style=\"width:100%;height:auto;fill:var(--soft);font-size:12px\">{drawing}\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></svg>",
        WIDTH / 2.0,
        height - 6.0,
        x.name,
    )
}

/// Returns the shapes of a series at `places`; one unit of the horizontal axis is `unit` wide, and
/// bars stand on the height `ground`.
fn marks(colour: &str, mark: Mark, places: &[(f64, f64)], [unit, ground]: [f64; 2]) -> String {
    let filled = |shapes: String| format!("<g class=\"{colour}\" fill=\"var(--own)\">{shapes}</g>");
    match mark {
        Mark::Dots => {
            filled(places.iter().map(|(x, y)| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.8\"/>")).collect())
        }
        Mark::Discs => {
            filled(places.iter().map(|(x, y)| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>")).collect())
        }
        Mark::Rings => {
            let ring = |(x, y): &(f64, f64)| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"/>");
            format!(
                "<g class=\"{colour}\" fill=\"var(--paper)\" stroke=\"var(--own)\" stroke-width=\"3\">{}</g>",
                places.iter().map(ring).collect::<String>()
            )
        }
        Mark::Bars { nth, of } | Mark::HollowBars { nth, of } => {
            let width = unit * BARS_WIDE / of as f64;
            let bars = places.iter().map(|(x, y)| {
                let x = x + width * (nth as f64 - of as f64 / 2.0);
                let high = (ground - y).abs().max(BAR_HEIGHT_MIN);
                // A bar of a value below zero hangs from the ground.
                let y = if *y > ground { ground } else { ground - high };
                format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{high:.1}\"/>")
            });
            let bars = bars.collect();
            if mark == (Mark::Bars { nth, of }) {
                return filled(bars);
            }
            format!("<g class=\"{colour}\" fill=\"var(--paper)\" stroke=\"var(--own)\" stroke-width=\"2\">{bars}</g>")
        }
        Mark::Line | Mark::DashedLine => {
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let dash = if mark == Mark::DashedLine { " stroke-dasharray=\"6 3\"" } else { "" };
            format!(
                "<polyline class=\"{colour}\" points=\"{}\" fill=\"none\" stroke=\"var(--own)\" stroke-width=\"2\"{dash}/>",
                path.join(" ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        assert_eq!(Axis::linear("", 23.0).ticks, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(Axis::linear("", 1.0).ticks.len(), 11);
        assert_eq!(Axis::logarithmic("", 0.15, 30.0).ticks, [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        for high in [0.003, 0.7, 9.99, 64.2, 110.0, 5e6] {
            let axis = Axis::linear("", high);
            assert!(axis.high >= high && (4..=12).contains(&axis.ticks.len()), "{high}: {:?}", axis.ticks);
        }
    }

    #[test]
    fn every_point_lies_within_the_chart() {
        let points: Vec<_> = (0..50).map(|n| (f64::from(n) / 49.0, f64::from(n * n))).collect();
        let series = |mark, right| Series { colour: "c0", mark, points: points.clone(), right };
        let (x, y) = (Axis::linear("x", 1.0), Axis::linear("y", 2401.0));
        let drawn = svg("a chart", &x, &y, Some(&y), &[series(Mark::Line, false), series(Mark::Dots, true)]);
        assert_eq!((drawn.matches("<circle").count(), drawn.matches("<polyline").count()), (50, 1));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf") && !drawn.contains("\"-"), "{drawn}");
    }

    #[test]
    fn names_of_many_ticks_leave_room_for_each_other() {
        let minor = |most: u32| {
            let ticks = (0..=most).map(f64::from).collect();
            let x = Axis { low: 0.0, high: f64::from(most), ticks, ..Axis::linear("x", 1.0) };
            svg("a chart", &x, &Axis::linear("y", 1.0), None, &[]).matches("class=\"minor\"").count()
        };
        assert_eq!(minor(10), 0);
        assert_eq!(minor(27), 18);
        let powers = Axis::logarithmic("x", 0.1, 10_000.0);
        let named =
            (0..powers.ticks.len()).filter(|number| !powers.is_minor(*number)).map(|number| powers.ticks[number]);
        assert_eq!(named.collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]);
    }

    /// Bars of one tick stand side by side on the axis. A very small bar still has the least
    /// visible height.
    #[test]
    fn bars_stand_side_by_side_with_a_minimal_height() {
        let x = Axis::named("x", vec!["one".to_owned(), "two".to_owned()]);
        let bars = |nth, part| Series {
            colour: "c0",
            mark: Mark::Bars { nth, of: 2 },
            points: vec![(1.0, part)],
            right: false,
        };
        let drawn = svg("a chart", &x, &Axis::linear("y", 100.0), None, &[bars(0, 100.0), bars(1, 0.001)]);
        let (middle, width) =
            (MARGIN[0] + 0.75 * (WIDTH - MARGIN[0] - MARGIN[1]), 0.2 * (WIDTH - MARGIN[0] - MARGIN[1]));
        for (left, top) in [(middle - width, MARGIN[2]), (middle, HEIGHT - MARGIN[3] - BAR_HEIGHT_MIN)] {
            let high = HEIGHT - MARGIN[3] - top;
            let bar = format!("<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{high:.1}\"/>");
            assert!(drawn.contains(&bar), "{bar} in {drawn}");
        }
    }

    /// Names of eight traces overlapped on a telephone.
    #[test]
    fn many_names_stand_in_two_lines_by_turns() {
        let heights = |count: usize| -> Vec<String> {
            let x = Axis::named("x", vec!["<name>".to_owned(); count]);
            let drawn = svg("a chart", &x, &Axis::linear("y", 1.0), None, &[]);
            let before =
                drawn.split(">&lt;name&gt;</text>").map(|text| text.rsplit(" y=\"").next().unwrap().to_owned());
            before.take(count).map(|text| text.split('"').next().unwrap().to_owned()).collect()
        };
        assert!(heights(NAMES_IN_LINE).windows(2).all(|pair| pair[0] == pair[1]));
        assert!(heights(NAMES_IN_LINE + 1).windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn points_of_a_paper_are_hollow() {
        let series = |mark| Series { colour: "c2", mark, points: vec![(1.0, 1.0)], right: false };
        let (x, y) = (Axis::named("x", vec!["one".to_owned(), "two".to_owned()]), Axis::linear("y", 1.0));
        let drawn = |mark| svg("a chart", &x, &y, None, &[series(mark)]);
        let hollow = "<g class=\"c2\" fill=\"var(--paper)\" stroke=\"var(--own)\"";
        assert!(drawn(Mark::Rings).contains(hollow) && drawn(Mark::HollowBars { nth: 0, of: 1 }).contains(hollow));
        assert!(!drawn(Mark::Bars { nth: 0, of: 1 }).contains(hollow));
    }

    /// A loss was drawn as a bar of no height.
    #[test]
    fn bar_below_zero_hangs_from_zero() {
        let x = Axis::named("x", vec!["one".to_owned()]);
        let y = Axis::reaching("y", -12.0, 30.0);
        assert!(y.low <= -12.0 && y.high >= 30.0 && y.ticks.contains(&0.0), "{:?}", y.ticks);
        let bar = |value| Series {
            colour: "c0",
            mark: Mark::Bars { nth: 0, of: 1 },
            points: vec![(0.0, value)],
            right: false,
        };
        let number = |value: f64, attribute: &str| -> f64 {
            let drawn = svg("a chart", &x, &y, None, &[bar(value)]);
            let rect = drawn.split("<rect").nth(1).unwrap().to_owned();
            rect.split(&format!(" {attribute}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!((number(10.0, "y") + number(10.0, "height") - number(-10.0, "y")).abs() < 0.2);
        assert!((number(10.0, "height") - number(-10.0, "height")).abs() < 0.2);
    }
}
