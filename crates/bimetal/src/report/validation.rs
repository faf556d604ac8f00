//! The page of `bimetal validate`: the distributions of measured and of simulated response times,
//! drawn without a script.

use bimetal_core::units::Nanoseconds;

use super::escape::html as escaped;
use super::page;
use super::plot::{Axis, Mark, Series, svg};

/// Content of the page.
pub(crate) struct Compared<'a> {
    /// File of the trace.
    pub(crate) trace: &'a str,
    /// Description of the drive, and of the fitted parameters.
    pub(crate) drive: &'a str,
    /// The figures as text.
    pub(crate) text: &'a str,
    /// The charts.
    pub(crate) curves: Vec<Curves>,
}

/// A chart: its name, the measured responses, the simulated responses.
pub(crate) type Curves = (&'static str, Vec<Nanoseconds>, Vec<Nanoseconds>);

/// Number of points of a drawn curve.
const POINTS: usize = 400;

/// Returns the page, self-contained.
pub(crate) fn html(compared: &Compared<'_>) -> String {
    let charts: String =
        compared.curves.iter().map(|(name, measured, simulated)| chart(name, measured, simulated)).collect();
    let trace = escaped(compared.trace);
    let content = format!(
        "<p class=\"workload\">{drive}</p>\n</header>\n\
         <main>\n<section aria-labelledby=\"figures\"><h2 id=\"figures\">Figures</h2>\n\
         <div class=\"scroll\"><pre tabindex=\"0\">{text}</pre></div>\n\
         <p>The rms demerit is the root-mean-square horizontal distance of the curves below. Errors are measured minus \
         simulated.</p></section>\n<section aria-labelledby=\"charts\"><h2 id=\"charts\">Response times</h2>\n{charts}\
         </section>\n</main>",
        drive = escaped(compared.drive),
        text = escaped(compared.text),
    );
    let heading = format!("Measured and simulated: <span class=\"file\">{trace}</span>");
    page::html(compared.trace, "validation", &heading, &content)
}

/// Returns response times in milliseconds at evenly spaced fractions of the requests.
fn quantiles(responses: &[Nanoseconds]) -> Vec<(f64, f64)> {
    let mut sorted = responses.to_vec();
    sorted.sort_unstable();
    (0..=POINTS)
        .map(|point| {
            let share = point as f64 / POINTS as f64;
            let index = ((share * sorted.len() as f64) as usize).min(sorted.len() - 1);
            (sorted[index].as_millis_f64().max(0.001), share)
        })
        .collect()
}

fn chart(name: &str, measured: &[Nanoseconds], simulated: &[Nanoseconds]) -> String {
    let series = [("c1", Mark::Line, measured), ("c0", Mark::DashedLine, simulated)]
        .map(|(colour, mark, responses)| Series { colour, mark, points: quantiles(responses), right: false });
    let all = || series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.001, f64::max).max(0.002));
    let shares = Axis { ticks: vec![0.0, 0.25, 0.5, 0.75, 1.0], ..Axis::linear("", 1.0) };
    let label = format!("{name}: distributions of measured and simulated response times");
    format!(
        "<figure><h3>{name}</h3><figcaption><p><span class=\"scheme c1\">measured</span> <span class=\"scheme c0 \
         hollow\">simulated</span>: fraction of requests with a shorter response time, over milliseconds</p></figcaption>\n\
         {}</figure>\n",
        svg(&label, &Axis::logarithmic("response time, ms", low, high), &shares, None, &series)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(trace: &str) -> String {
        let responses = |factor: u64| (1..200).map(|n| Nanoseconds(n * factor)).collect::<Vec<_>>();
        html(&Compared {
            trace,
            drive: "a drive",
            text: "figures < these",
            curves: vec![("All requests", responses(70_000), responses(80_000))],
        })
    }

    #[test]
    fn both_distributions_are_drawn_and_nothing_is_loaded() {
        let page = page("a.trace");
        assert_eq!(page.matches("<polyline").count(), 2);
        assert!(
            !page.contains("<script") && !page.contains("http:") && !page.contains("https:") && !page.contains("NaN")
        );
        assert!(page.contains("figures &lt; these"));
    }

    #[test]
    fn the_name_of_a_file_becomes_no_markup() {
        assert!(!page("<img src=x>").contains("<img"));
    }
}
