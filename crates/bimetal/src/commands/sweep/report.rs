//! `bimetal sweep report`: a page with small charts over two axes of a sweep, one bar a scheme.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bimetal_core::units::Bytes;
use bimetal_plan::budget;
use bimetal_plan::sweep::store::Store;
use clap::Args;
use serde_json::Value;

use crate::error::Error;
use crate::output::{OutputFile, note};
use crate::report::escape::html as escaped;
use crate::report::page;
use crate::report::palette::ink_of;

/// Axis of the traces.
const TRACES: &str = "traces";
/// Name for a missing axis: its only row or column has all jobs.
const NO_AXIS: &str = "";
/// Axes that become no rows and columns by themselves: schemes are bars, and a bar is a mean over
/// seeds.
const NEVER_CHOSEN: [&str; 2] = ["scheme", "seed"];
/// Value of an axis for a job without such an option.
const DEFAULT: &str = "default";

/// Sizes of a small chart: width of the names, of the longest bar and of all, height of a bar.
const NAMES: f64 = 110.0;
const LONGEST: f64 = 130.0;
const WIDTH: f64 = 370.0;
const BAR: f64 = 20.0;

/// Options of the page.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder of the results
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The file of the page [default: report.html in DIR]
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// The figure that the bars show: a dotted path of `simulate --json`
    #[arg(long, value_name = "PATH", default_value = "response_time_ms.all.mean")]
    figure: String,
    /// The axis of the rows: traces, an option, or set.KEY [default: the axis with most values]
    #[arg(long, value_name = "AXIS")]
    rows: Option<String>,
    /// The axis of the columns [default: the axis with the next most values]
    #[arg(long, value_name = "AXIS")]
    columns: Option<String>,
}

/// Job with its place on each axis.
struct Point {
    places: BTreeMap<String, String>,
    scheme: String,
    value: f64,
}

/// Writes the page of the sweep in a folder.
///
/// # Errors
/// The folder is not the folder of a sweep, or an axis or the figure is unknown.
pub(super) fn write(arguments: &Arguments) -> Result<(), Error> {
    let store = Store::open(&arguments.folder)?;
    store.assemble()?;
    let [lines, ..] = store.outputs();
    let text = fs::read_to_string(&lines).map_err(|error| Error::new(format!("{}: {error}", lines.display())))?;
    let results: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let points: Vec<Point> = results.iter().filter_map(|result| point(result, &arguments.figure)).collect();
    if points.is_empty() {
        return Err(Error::new(format!(
            "--figure {}: no result has such a number: expected a dotted path of `bimetal simulate --json`, like \
             response_time_ms.all.p99, and a sweep with results",
            arguments.figure
        )));
    }
    let axes = chosen(&points, [arguments.rows.as_deref(), arguments.columns.as_deref()])?;
    let content = content(&points, &axes, &arguments.figure, results.len());
    let path = arguments.output.clone().unwrap_or_else(|| store.folder().join("report.html"));
    let name = shown(&arguments.folder);
    let mut file = OutputFile::create(&path)?;
    file.write_all(page::html(&name, "sweep", &escaped(&arguments.figure), &content).as_bytes())?;
    file.finish()?;
    note(format_args!("the report is in {}", path.display()));
    Ok(())
}

fn shown(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Returns the place and the figure of a result; `None` if the job has no such figure.
fn point(result: &Value, figure: &str) -> Option<Point> {
    let value = budget::at(result.get("run")?, figure)?.as_f64()?;
    let job = result.get("job")?;
    let pairs = |key: &str, prefix: &str| {
        let map = job.get(key).and_then(Value::as_object).into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        map.map(|(name, value)| (format!("{prefix}{name}"), text(value))).collect::<Vec<_>>()
    };
    let traces: Vec<&str> = result.get(TRACES)?.as_array()?.iter().filter_map(Value::as_str).collect();
    let scheme = job.get("scheme")?.as_str()?.to_owned();
    let mut places: BTreeMap<String, String> = pairs("options", "").into_iter().chain(pairs("set", "set.")).collect();
    places.insert(TRACES.to_owned(), traces.join(" "));
    Some(Point { places, scheme, value })
}

/// Returns the value of an axis for a job.
fn place<'a>(point: &'a Point, axis: &str) -> &'a str {
    point.places.get(axis).map_or(DEFAULT, String::as_str)
}

/// Returns the values of an axis.
fn values<'a>(points: &'a [Point], axis: &str) -> BTreeSet<&'a str> {
    points.iter().map(|point| place(point, axis)).collect()
}

/// Returns the names of all axes.
fn axes(points: &[Point]) -> BTreeSet<&str> {
    points.iter().flat_map(|point| point.places.keys().map(String::as_str)).collect()
}

/// Returns the axes of the rows and of the columns: the axes that were asked for, or the axes with
/// most values.
fn chosen(points: &[Point], wanted: [Option<&str>; 2]) -> Result<[String; 2], Error> {
    let known = axes(points);
    if let Some(unknown) = wanted.into_iter().flatten().find(|axis| !known.contains(axis)) {
        return Err(Error::unknown("axis", unknown, known));
    }
    if let [Some(rows), Some(columns)] = wanted
        && rows == columns
    {
        let others: Vec<&str> = known.iter().copied().filter(|axis| *axis != rows).collect();
        return Err(Error::new(format!(
            "--rows {rows} --columns {rows}: expected two axes, the columns one of {}",
            others.join(", ")
        )));
    }
    let is_free = |axis: &&str| !NEVER_CHOSEN.contains(axis) && !wanted.contains(&Some(*axis));
    let mut free: Vec<&str> = known.iter().copied().filter(is_free).collect();
    free.sort_by_key(|axis| std::cmp::Reverse(values(points, axis).len()));
    let mut free = free.into_iter();
    Ok(wanted.map(|axis| axis.or_else(|| free.next()).unwrap_or(NO_AXIS).to_owned()))
}

/// Returns the axes in which the jobs of at least one bar differ, apart from the seed.
fn averaged<'a>(points: &'a [Point], [rows, columns]: &[String; 2]) -> BTreeSet<&'a str> {
    let differ = |axis: &str| {
        let mut seen = BTreeMap::new();
        points.iter().any(|point| {
            let bar = (place(point, rows), place(point, columns), point.scheme.as_str());
            *seen.entry(bar).or_insert(place(point, axis)) != place(point, axis)
        })
    };
    axes(points).into_iter().filter(|axis| !NEVER_CHOSEN.contains(axis) && differ(axis)).collect()
}

/// Jobs of each scheme in one small chart.
type Panel<'a> = BTreeMap<&'a str, Vec<&'a Point>>;

/// Returns the names of the axes of each scheme. A scheme without an SSD has no `ssd-size`.
fn axes_of_schemes(points: &[Point]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut axes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for point in points {
        axes.entry(&point.scheme).or_default().extend(point.places.keys().map(String::as_str));
    }
    axes
}

/// Returns the schemes that lack a job beside another scheme of the chart: a job with the same
/// trace, size and settings, as far as both schemes have these axes.
fn partial<'a>(panel: &Panel<'a>, axes: &BTreeMap<&str, BTreeSet<&str>>) -> BTreeSet<&'a str> {
    let lacks = |own: &str, other: &str| {
        let common: Vec<&str> = axes[own].intersection(&axes[other]).copied().collect();
        let places = |scheme: &str| -> BTreeSet<Vec<&str>> {
            panel[scheme].iter().map(|point| common.iter().map(|axis| place(point, axis)).collect()).collect()
        };
        !places(other).is_subset(&places(own))
    };
    panel.keys().copied().filter(|own| panel.keys().any(|other| lacks(own, other))).collect()
}

/// Returns the table of small charts, as HTML.
fn content(points: &[Point], [rows, columns]: &[String; 2], figure: &str, jobs: usize) -> String {
    let mut panels: BTreeMap<(&str, &str), Panel<'_>> = BTreeMap::new();
    for point in points {
        let panel = panels.entry((place(point, rows), place(point, columns))).or_default();
        panel.entry(&point.scheme).or_default().push(point);
    }
    let axes = axes_of_schemes(points);
    let charts: BTreeMap<_, Vec<Bar<'_>>> =
        panels.iter().map(|(place, panel)| (*place, bars_of(panel, &partial(panel, &axes)))).collect();
    let head: String = in_order(points, columns).iter().map(|value| heading("col", columns, value)).collect();
    let mut body = String::new();
    for row in in_order(points, rows) {
        // Workloads differ by orders of magnitude, so each row has its own scale.
        let of_row = charts.iter().filter(|((of, _), _)| *of == row).flat_map(|(_, bars)| bars);
        let most = of_row.map(|bar| bar.value).fold(0.0, f64::max);
        let cells = in_order(points, columns).into_iter().map(|column| {
            let bars = charts.get(&(row, column)).map(Vec::as_slice).unwrap_or_default();
            let label = format!("{}, {}", named(rows, row), named(columns, column));
            format!("<td>{}</td>", panel(&label, bars, most))
        });
        // Writing to a string cannot fail.
        let _ = writeln!(body, "<tr>{}{}</tr>", heading("row", rows, row), cells.collect::<String>());
    }
    let is_uneven = charts.values().flatten().any(|bar| bar.is_partial);
    let averaged: Vec<&str> = averaged(points, &[rows.clone(), columns.clone()]).into_iter().collect();
    let averaged = match averaged.as_slice() {
        [] => String::new(),
        axes => format!(" Some bars are means over several values of: {}.", escaped(&axes.join(", "))),
    };
    format!(
        "<p class=\"workload\">{} of {jobs} jobs have this figure. A bar is the mean over all jobs of its scheme in its \
         place.{averaged}{} The charts of a row have one scale.</p>\n</header>\n<main>\n<section aria-label=\"{}\">\
         <div class=\"scroll\"><table><thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div></section>\n\
         </main>",
        points.len(),
        if is_uneven { UNLIKE } else { "" },
        escaped(figure),
    )
}

/// Returns the bars of a small chart. A bar has the mean over the jobs of its scheme.
fn bars_of<'a>(panel: &Panel<'a>, partial: &BTreeSet<&str>) -> Vec<Bar<'a>> {
    let mean = |jobs: &[&Point]| jobs.iter().map(|point| point.value).sum::<f64>() / jobs.len() as f64;
    let bar = |(scheme, jobs): (&&'a str, &Vec<&Point>)| Bar {
        scheme,
        value: mean(jobs),
        is_partial: partial.contains(scheme),
    };
    panel.iter().map(bar).collect()
}

const UNLIKE: &str = " A bar marked (partial) lacks a trace, size or setting that another bar beside it has, so do not \
                      compare the two.";

/// A bar of a small chart.
struct Bar<'a> {
    scheme: &'a str,
    value: f64,
    /// Set if another bar beside it has a job that this bar lacks.
    is_partial: bool,
}

impl Bar<'_> {
    /// Returns the text behind the bar.
    fn text(&self) -> String {
        format!("{}{}", figure_text(self.value), if self.is_partial { " (partial)" } else { "" })
    }
}

/// Returns the values of an axis, numbers in order of size.
fn in_order<'a>(points: &'a [Point], axis: &str) -> Vec<&'a str> {
    let mut values: Vec<&str> = values(points, axis).into_iter().collect();
    let number = |value: &str| value.trim_end_matches('%').parse::<f64>().unwrap_or(f64::INFINITY);
    values.sort_by(|one, other| number(one).total_cmp(&number(other)).then(one.cmp(other)));
    values
}

fn heading(scope: &str, axis: &str, value: &str) -> String {
    let bytes = value.parse().ok().filter(|_| axis.ends_with("-size"));
    let value = bytes.map_or_else(|| value.to_owned(), |bytes| Bytes(bytes).rounded_down().to_string());
    format!("<th scope=\"{scope}\">{}</th>", escaped(&named(axis, &value)))
}

/// Returns the name of a row or column.
fn named(axis: &str, value: &str) -> String {
    if axis == NO_AXIS { "all jobs".to_owned() } else { format!("{axis} {value}") }
}

/// Returns a small chart: a bar for each scheme, with its name and its value.
fn panel(label: &str, bars: &[Bar<'_>], most: f64) -> String {
    let mut drawing = String::new();
    for (at, bar) in bars.iter().enumerate() {
        let (top, ink) = (at as f64 * BAR, ink_of(bar.scheme));
        let length = if most > 0.0 { (bar.value.max(0.0) / most * LONGEST).max(1.0) } else { 1.0 };
        let base = top + BAR * 0.7;
        // A dashed ink has a lighter bar.
        let opacity = if ink.dashed { 0.55 } else { 1.0 };
        let _ = write!(
            drawing,
            "<text x=\"0\" y=\"{base:.1}\">{}</text><g class=\"c{}\"><rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{length:.1}\" \
             height=\"{:.1}\" fill=\"var(--own)\" opacity=\"{opacity}\"/></g><text x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
            escaped(bar.scheme),
            ink.colour,
            top + 3.0,
            BAR - 6.0,
            NAMES + length + 6.0,
            bar.text(),
        );
    }
    let height = bars.len().max(1) as f64 * BAR;
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" \
         style=\"width:{WIDTH}px;max-width:100%;height:auto;fill:var(--soft);font-size:12px\">{drawing}</svg>",
        escaped(label)
    )
}

/// Returns a figure with four significant digits.
fn figure_text(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 6) };
    format!("{value:.*}", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(trace: &str, scheme: &str, size: Option<&str>, seed: &str, mean: f64) -> Value {
        let mut options = serde_json::Map::from_iter([("seed".to_owned(), seed.into())]);
        options.extend(size.map(|size| ("ssd-size".to_owned(), size.into())));
        serde_json::json!({
            "traces": [trace], "job": {"scheme": scheme, "options": options, "set": {}},
            "run": {"response_time_ms": {"all": {"mean": mean}}},
        })
    }

    fn points() -> Vec<Point> {
        let results = [
            result("a", "smq", Some("10%"), "1", 2.0),
            result("a", "smq", Some("10%"), "2", 4.0),
            result("a", "smq", Some("20%"), "1", 1.5),
            result("<b>", "hdd-only", None, "1", 6.0),
        ];
        results.iter().filter_map(|result| point(result, "response_time_ms.all.mean")).collect()
    }

    #[test]
    fn axes_are_those_with_most_values_or_those_asked_for() {
        let points = points();
        assert_eq!(chosen(&points, [None, None]).expect("axes"), ["ssd-size", "traces"]);
        assert_eq!(chosen(&points, [Some("traces"), None]).expect("axes"), ["traces", "ssd-size"]);
        let message = chosen(&points, [Some("trace"), None]).expect_err("no axis").to_string();
        assert!(message.contains("unknown axis 'trace': did you mean 'traces'?"), "{message}");
    }

    /// Regression: with traces as the only axis, traces were the rows and the columns, with empty
    /// charts outside the diagonal.
    #[test]
    fn traces_alone_are_rows_with_one_column() {
        let results = ["a", "b"].map(|trace| {
            serde_json::json!({
                "traces": [trace], "job": {"scheme": "smq", "options": {}, "set": {}}, "run": {"x": 1.0},
            })
        });
        let points: Vec<Point> = results.iter().filter_map(|result| point(result, "x")).collect();
        let axes = chosen(&points, [None, None]).expect("axes");
        assert_eq!(axes, ["traces", NO_AXIS]);
        let html = content(&points, &axes, "x", 2);
        assert_eq!(html.matches("<svg").count(), 2, "{html}");
        assert!(html.contains("<th scope=\"col\">all jobs</th>"), "{html}");
        assert_eq!(chosen(&points, [None, Some("traces")]).expect("axes"), [NO_AXIS, "traces"]);
    }

    /// Regression: a scheme that was left out for one of two traces had the mean of the other trace
    /// beside the means of both.
    #[test]
    fn bar_that_lacks_a_trace_of_its_neighbour_is_marked() {
        let marked = |results: &[Value], axis: &str| {
            let points: Vec<Point> =
                results.iter().filter_map(|result| point(result, "response_time_ms.all.mean")).collect();
            let html = content(&points, &[axis, NO_AXIS].map(str::to_owned), "x", results.len());
            assert_eq!(html.contains(UNLIKE), html.contains(" (partial)<"), "{html}");
            html.matches(" (partial)<").count()
        };
        let run = |trace: &str, scheme: &str| result(trace, scheme, Some("1MiB"), "0", 1.0);
        let fewer = [run("a", "smq"), run("b", "smq"), run("a", "bcache")];
        assert_eq!((marked(&fewer, "ssd-size"), marked(&fewer, "traces")), (1, 0));
        // Equal numbers of jobs over different traces.
        assert_eq!(marked(&[run("a", "smq"), run("b", "bcache")], "ssd-size"), 2);
        // A scheme without an SSD has no sizes, and only one scheme has a setting.
        let disk = result("a", "hdd-only", None, "0", 9.0);
        let larger = result("a", "smq", Some("2MiB"), "0", 1.0);
        let mut set = run("a", "griffin");
        set["job"]["set"]["timeout"] = "60s".into();
        let mut longer = set.clone();
        longer["job"]["set"]["timeout"] = "900s".into();
        let griffins = [result("a", "griffin", Some("2MiB"), "0", 1.0), set, longer];
        let all: Vec<Value> = [disk, larger, run("a", "smq")].into_iter().chain(griffins).collect();
        assert_eq!(marked(&all, "traces"), 0);
    }

    #[test]
    fn caption_names_the_axes_over_which_a_bar_averages() {
        let points = points();
        let caption = |axes: [&str; 2]| content(&points, &axes.map(str::to_owned), "x", 4);
        assert!(!caption(["traces", "ssd-size"]).contains("Some bars"), "seeds differ, and nothing else");
        let html = caption(["traces", NO_AXIS]);
        assert!(html.contains("Some bars are means over several values of: ssd-size."), "{html}");
        let html = caption([NO_AXIS, NO_AXIS]);
        assert!(html.contains("several values of: ssd-size."), "each scheme has one trace: {html}");
    }

    #[test]
    fn sizes_are_in_order_and_have_units() {
        let sizes = [Some("1073741824"), Some("67108864"), None];
        let results = sizes.map(|size| result("a", "smq", size, "1", 1.0));
        let points: Vec<Point> = results.iter().filter_map(|of| point(of, "response_time_ms.all.mean")).collect();
        assert_eq!(in_order(&points, "ssd-size"), ["67108864", "1073741824", DEFAULT]);
        assert_eq!(heading("col", "ssd-size", "67108864"), "<th scope=\"col\">ssd-size 64 MiB</th>");
    }

    #[test]
    fn bar_is_the_mean_over_the_jobs_of_its_place() {
        let html = content(&points(), &["traces".to_owned(), "ssd-size".to_owned()], "x", 5);
        assert!(html.contains("4 of 5 jobs have this figure"), "{html}");
        for expected in ["<text x=\"0\" y=\"14.0\">smq</text>", ">3.000</text>", ">1.500</text>", ">6.000</text>"] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        // The longest bar is the greatest mean of its row.
        assert_eq!((html.matches("width=\"130.0\"").count(), html.matches("width=\"65.0\"").count()), (2, 1), "{html}");
        assert_eq!(html.matches("<svg").count(), 2 * 3);
        assert!(!html.contains("<b>"), "{html}");
    }
}
