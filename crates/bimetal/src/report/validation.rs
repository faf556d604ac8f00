//! The page of `bimetal validate`: the distributions of measured and of simulated response times, drawn without a script.

use std::fmt::Write as _;

use bimetal_core::units::Nanoseconds;

use super::STYLE;
use super::escape::html as escaped;

/// What the page shows.
pub(crate) struct Compared<'a> {
    /// The file of the trace.
    pub(crate) trace: &'a str,
    /// What the drive is.
    pub(crate) drive: &'a str,
    /// The figures as text.
    pub(crate) text: &'a str,
    /// Charts: what each shows, measured and simulated responses.
    pub(crate) curves: Vec<(&'static str, Vec<Nanoseconds>, Vec<Nanoseconds>)>,
}

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 380.0;
/// Space for the axes: left and bottom.
const MARGIN: (f64, f64) = (56.0, 44.0);
/// Points of a drawn curve.
const POINTS: usize = 400;

/// The page, self-contained.
pub(crate) fn html(compared: &Compared<'_>) -> String {
    let charts: String =
        compared.curves.iter().map(|(name, measured, simulated)| chart(name, measured, simulated)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src \
         data:; base-uri 'none'; form-action 'none'\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{trace} – Bimetal</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <p class=\"kicker\">Bimetal {version} · validation</p>\n\
         <h1>Measured and simulated: <span class=\"file\">{trace}</span></h1>\n<p class=\"workload\">{drive}</p>\n</header>\n\
         <main>\n<section aria-labelledby=\"figures\"><h2 id=\"figures\">Figures</h2>\n\
         <div class=\"scroll\"><pre tabindex=\"0\">{text}</pre></div>\n\
         <p>The rms demerit is the root-mean-square horizontal distance of the curves below. Errors are measured minus \
         simulated.</p></section>\n<section aria-labelledby=\"charts\"><h2 id=\"charts\">Response times</h2>\n{charts}\
         </section>\n</main>\n<footer><p>Made by Bimetal {version}.</p></footer>\n</body>\n</html>\n",
        trace = escaped(compared.trace),
        version = env!("CARGO_PKG_VERSION"),
        drive = escaped(compared.drive),
        text = escaped(compared.text),
    )
}

/// The response times of a fraction of the requests, in milliseconds, evenly spread.
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
    let curves = [("c1", "measured", quantiles(measured)), ("c0", "simulated", quantiles(simulated))];
    let all = || curves.iter().flat_map(|(_, _, points)| points.iter().map(|point| point.0));
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.001, f64::max).max(0.002));
    let (low, high) = (10_f64.powf((low.log10() * 2.0).floor() / 2.0), 10_f64.powf((high.log10() * 2.0).ceil() / 2.0));
    let x = |ms: f64| MARGIN.0 + (ms / low).ln() / (high / low).ln() * (WIDTH - MARGIN.0 - 16.0);
    let y = |share: f64| HEIGHT - MARGIN.1 - share * (HEIGHT - MARGIN.1 - 16.0);
    let mut drawing = String::new();
    for (share, label) in [(0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1")] {
        let _ = write!(
            drawing,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--rule)\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            MARGIN.0,
            WIDTH - 16.0,
            MARGIN.0 - 8.0,
            y(share) + 4.0,
            y = y(share),
        );
    }
    for tick in ticks(low, high) {
        let _ = write!(
            drawing,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"var(--rule)\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            y(0.0),
            y(1.0),
            y(0.0) + 18.0,
            x = x(tick),
        );
    }
    for (class, _, points) in &curves {
        let path: Vec<String> = points.iter().map(|(ms, share)| format!("{:.1},{:.1}", x(*ms), y(*share))).collect();
        let dash = if *class == "c1" { "" } else { " stroke-dasharray=\"6 3\"" };
        let _ = write!(
            drawing,
            "<polyline class=\"{class}\" points=\"{}\" fill=\"none\" stroke=\"var(--own)\" stroke-width=\"2\"{dash}/>",
            path.join(" ")
        );
    }
    format!(
        "<figure><h3>{name}</h3><figcaption><p><span class=\"scheme c1\">measured</span> <span class=\"scheme c0 \
         hollow\">simulated</span>: fraction of requests with a shorter response time, over milliseconds</p></figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name}: distributions of measured and simulated \
         response times\" style=\"width:100%;height:auto;fill:var(--soft);font-size:12px\">{drawing}\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">response time, ms</text></svg></figure>\n",
        WIDTH / 2.0,
        HEIGHT - 6.0,
    )
}

/// 1, 2 and 5 times the powers of ten between `low` and `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let mut ticks = Vec::new();
    for power in (low.log10().floor() as i32)..=(high.log10().ceil() as i32) {
        for step in [1.0, 2.0, 5.0] {
            // From its decimal text, so that a tick reads 0.2 and not 0.20000000000000001.
            let tick: f64 = format!("{step}e{power}").parse().unwrap_or(1.0);
            if tick >= low * 0.999 && tick <= high * 1.001 {
                ticks.push(tick);
            }
        }
    }
    ticks
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
