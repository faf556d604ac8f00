//! A figure of a paper: the paper's points, as far as its text has them, beside the values of this
//! program.
//!
//! The papers are here as text, without their drawings. A point of a paper comes from a sentence, a
//! table or a caption, and names this place. If the text has no points of a curve, the figure has
//! no points for the curve, and a note. The points stand in the files of `crate::experiments`.

use crate::claims::Paper;

/// A figure with its axes and curves.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Paper of the figure.
    pub paper: Paper,
    /// Number of the figure in the paper, like `figure 5(a)`.
    pub number: &'static str,
    /// Subject of the figure.
    pub title: &'static str,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves of the paper and of this program.
    pub curves: Vec<Curve>,
    /// Text below the figure: what the text of the paper lacks, and our choices.
    pub note: String,
}

/// Axis of a figure.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Quantity and unit.
    pub name: &'static str,
    /// Division of the axis.
    pub scale: Scale,
}

/// Division of an axis.
#[derive(Clone, Debug)]
pub enum Scale {
    /// From 0, in equal steps.
    Linear,
    /// In powers of ten.
    Logarithmic,
    /// Names at 0, 1, 2 and so on, for bars.
    Names(Vec<String>),
}

impl Axis {
    /// Returns an axis from 0 in equal steps.
    pub(crate) const fn linear(name: &'static str) -> Self {
        Self { name, scale: Scale::Linear }
    }

    /// Returns an axis in powers of ten.
    pub(crate) const fn logarithmic(name: &'static str) -> Self {
        Self { name, scale: Scale::Logarithmic }
    }

    /// Returns an axis with names for bars.
    pub(crate) fn names(name: &'static str, names: &[&str]) -> Self {
        Self { name, scale: Scale::Names(names.iter().map(|name| (*name).to_owned()).collect()) }
    }
}

/// Shape of a curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Points joined by a line.
    Line,
    /// Single points.
    Points,
    /// Bars over the names of the horizontal axis.
    Bars,
}

/// Origin of a curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The paper, with the sentence, table or figure that has the points.
    Paper(&'static str),
    /// This run of the program.
    Ours,
}

/// Points of one kind.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Origin of the points.
    pub origin: Origin,
    /// Shape in which the points are drawn.
    pub shape: Shape,
    /// Number of the colour. A curve of the paper has the colour of the curve of this program that
    /// it belongs to.
    pub colour: usize,
    /// Points by the horizontal axis.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Returns points of the paper.
    pub(crate) fn paper(name: &str, place: &'static str, colour: usize, points: &[(f64, f64)]) -> Self {
        let (name, points) = (format!("{name}, the paper"), points.to_vec());
        Self { name, origin: Origin::Paper(place), shape: Shape::Points, colour, points }
    }

    /// Returns a line of this program.
    pub(crate) fn ours(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), origin: Origin::Ours, shape: Shape::Line, colour, points }
    }

    /// Returns the curve in another shape.
    pub(crate) fn drawn_as(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }
}

/// Returns bars over the names 0, 1, 2 and so on; a value that is missing has no bar.
pub(crate) fn bars(values: &[Option<f64>]) -> Vec<(f64, f64)> {
    (0_u32..).zip(values).filter_map(|(at, value)| Some((f64::from(at), (*value)?))).collect()
}

/// Returns a share as a value in per cent.
pub(crate) fn in_percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

/// Returns a distribution as points in per cent over its first column times `scale`.
pub(crate) fn distribution(points: Option<&Vec<[f64; 2]>>, scale: f64) -> Vec<(f64, f64)> {
    points.into_iter().flatten().map(|[at, share]| (at * scale, share * 100.0)).collect()
}

/// Largest number of points of a distribution in a chart.
const POINTS: usize = 400;

/// Returns a distribution of response times in per cent over milliseconds.
pub(crate) fn response_times(cdf: &bimetal_measure::durations::Cdf) -> Vec<(f64, f64)> {
    let all = cdf.requests.last().copied().unwrap_or(1).max(1) as f64;
    let last = cdf.ms.len().saturating_sub(1);
    let step = cdf.ms.len().div_ceil(POINTS).max(1);
    let points = cdf.ms.iter().zip(&cdf.requests).enumerate();
    let points = points.filter(|(at, (ms, _))| (at % step == 0 || *at == last) && **ms > 0.0);
    let mut points: Vec<(f64, f64)> = points.map(|(_, (ms, requests))| (*ms, *requests as f64 / all * 100.0)).collect();
    // Before its first time, a distribution is at 0.
    if let Some(&(first, _)) = points.first() {
        points.insert(0, (first, 0.0));
    }
    points
}

#[cfg(test)]
mod tests {
    use bimetal_measure::durations::Cdf;

    use super::*;

    #[test]
    fn bars_keep_their_places_if_a_value_is_missing() {
        assert_eq!(bars(&[Some(2.0), None, Some(3.0)]), [(0.0, 2.0), (2.0, 3.0)]);
    }

    #[test]
    fn distribution_of_many_times_keeps_its_last_point() {
        let ms = (1..=1001).map(f64::from).collect();
        let points = response_times(&Cdf { ms, requests: (1..=1001).collect() });
        assert!(points.len() <= POINTS + 2 && points[0] == (1.0, 0.0), "{}", points.len());
        assert_eq!(points.last(), Some(&(1001.0, 100.0)));
    }
}
