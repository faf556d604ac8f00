//! The report: one HTML file that works offline and loads nothing from a network.
//!
//! The parts that need no script (the answer, the tables, the configuration) are written by this
//! folder as HTML, so that they can be read and printed without scripts. The charts are drawn in
//! the page by `assets/charts.js`, which is independent of storage. The data of the charts is the
//! JSON document itself, which the page carries; `assets/page.js` chooses the data of each chart.
//! This folder simulates nothing. Every text that comes from a file passes through `escape.rs`.
//!
//! The charts are SVG that this program makes itself. Charting libraries take from fifty kilobytes
//! to four megabytes. The small libraries draw on a canvas, which a screen reader cannot read and
//! which does not follow the reader's dark mode.
//!
//! Read first: [`html`], then `headline.rs`.

pub(crate) mod columns;
pub(crate) mod escape;
#[cfg(test)]
pub(crate) mod fixture;
mod headline;
pub(crate) mod page;
pub(crate) mod palette;
pub(crate) mod plan;
pub(crate) mod plot;
pub(crate) mod sections;
pub(crate) mod validation;

use bimetal_measure::text;
use bimetal_sim::results::{Document, Run};

use crate::choices::Choices;
use escape::{html as escaped, json_in_script};
use sections::label;

const STYLE: &str = include_str!("assets/report.css");
const CHARTS: &str = include_str!("assets/charts.js");
const PAGE: &str = include_str!("assets/page.js");

/// Script that catches the errors of later scripts, tells the reader, and records them in the page
/// for tests.
const ERRORS: &str = r#"addEventListener("error", event => {
  const page = document.documentElement;
  page.dataset.errors = (page.dataset.errors ? page.dataset.errors + "\n" : "") + (event.message || "a part of the page could not be loaded");
});"#;

/// Returns the report on `document` as a self-contained page.
pub fn html(whole: &Document) -> String {
    // Answers, charts and configurations are of the first block; the other has a table.
    let first = Document { runs: whole.blocks().0.to_vec(), ..whole.clone() };
    let document = &first;
    let runs = &document.runs;
    let title = format!("{} – Bimetal", document.trace.name);
    let configurations: String = (0..runs.len()).map(|index| sections::configuration(document, index)).collect();
    let several = runs.len() > 1;
    format!(
        "<!doctype html>\n\
         <html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src \
         'nonce-bimetal'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n<script nonce=\"bimetal\">{ERRORS}</script>\n</head>\n<body>\n\
         <header>\n<p class=\"kicker\">Bimetal {version} · {kind}</p>\n<h1>{heading}</h1>\n<p class=\"workload\">{workload}</p>\n\
         </header>\n<main>\n{answer}\
         <section aria-labelledby=\"figures\"><h2 id=\"figures\">{figures}</h2>\n{comparison}\n</section>\n\
         <section aria-labelledby=\"charts\" id=\"chart-section\"><h2 id=\"charts\">Charts</h2>\n\
         <noscript><p>The charts need JavaScript; everything else on this page does not.</p></noscript>\n\
         <div id=\"legend\" role=\"group\" aria-label=\"Schemes shown in the charts\"></div>\n<div id=\"plots\"></div>\n\
         <ul id=\"absent\" hidden></ul>\n</section>\n\
         <section aria-labelledby=\"trace\"><h2 id=\"trace\">What was read</h2>\n\
         <p>Look here first if a figure surprises you: a wrong unit of time, size or address shows.</p>\n{trace}\n</section>\n\
         <section aria-labelledby=\"runs\"><h2 id=\"runs\">How each was run</h2>\n{configurations}</section>\n\
         {command}\
         </main>\n<footer><p>Made by Bimetal {version}. Prices and drive figures are those of the profiles named \
         above.</p></footer>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script type=\"application/json\" id=\"inks\">{inks}</script>\n\
         <script nonce=\"bimetal\">\n{CHARTS}</script>\n<script nonce=\"bimetal\">\n{PAGE}</script>\n</body>\n</html>\n",
        title = escaped(&title),
        version = escaped(&document.bimetal),
        kind = if several { "comparison of schemes" } else { "simulation of a scheme" },
        heading = heading(document),
        workload = workload(document),
        answer = answer(document),
        figures = if several { "Side by side" } else { "Figures" },
        comparison = sections::comparisons(whole),
        trace = sections::trace(document),
        command = command(document),
        data = json_in_script(&whole.to_compact_json()),
        inks = json_in_script(&inks_json(document)),
    )
}

fn heading(document: &Document) -> String {
    let trace = format!("<span class=\"file\">{}</span>", escaped(&document.trace.name));
    match document.runs.as_slice() {
        [run] => format!("{} on {trace}", escaped(&run.label)),
        runs => format!("{} schemes on {trace}", runs.len()),
    }
}

fn workload(document: &Document) -> String {
    let trace = &document.trace;
    format!(
        "{} requests in {}: {} read, {} written, {} of distinct blocks.",
        text::count(trace.requests),
        text::span(trace.duration_s),
        text::bytes(trace.read_bytes),
        text::bytes(trace.write_bytes),
        text::bytes(trace.footprint_bytes)
    )
}

/// Returns the answer, its reasons, and the cautions.
fn answer(document: &Document) -> String {
    let summary = headline::summary(document);
    let (warnings, notes) = sections::by_severity(&document.findings);
    let left_out = document.reasons_left_out();
    let left_out =
        left_out.iter().map(|left| format!("{} is left out: {}.", escaped(&left.label), escaped(&left.reason)));
    let lines = warnings.into_iter().chain(headline::cautions(document)).chain(left_out).chain(notes);
    let cautions = sections::findings(&lines.collect::<Vec<_>>());
    let cards: String = headline::answers(document)
        .iter()
        .filter(|_| document.runs.len() > 1)
        .map(|answer| {
            format!(
                "<article><h3>{}</h3><p class=\"winner\">{}</p><p>{}</p></article>\n",
                answer.question, answer.winner, answer.reason
            )
        })
        .collect();
    if summary.is_empty() && cautions.is_empty() {
        return String::new();
    }
    format!(
        "<section aria-label=\"Answer\"><p class=\"summary\">{summary}</p>\n<p class=\"drives\">{}</p>\n{}{cautions}<div class=\"answers\">{cards}</div></section>\n",
        headline::drives(&document.runs),
        headline::choices(document)
    )
}

fn command(document: &Document) -> String {
    document.command.as_deref().map_or_else(String::new, |command| {
        format!(
            "<section aria-labelledby=\"command\"><h2 id=\"command\">The command that made this</h2>\n\
             <div class=\"command\"><pre id=\"command-text\" tabindex=\"0\">{}</pre><button type=\"button\" id=\"copy\" hidden>Copy\
             </button></div></section>\n",
            escaped(command)
        )
    })
}

/// Runs that the charts show at first, if the comparison has no more.
const SHOWN_MAX: usize = 6;

/// Returns, for each run, true if the charts show it at first: every run of a few, or else the runs
/// to choose, the drives alone, and then the fastest runs that are a choice, until the charts are
/// full. Readers add the others by their buttons.
fn shown_first(document: &Document) -> Vec<bool> {
    let runs = &document.runs;
    let Some(choices) = Choices::of(runs, None).filter(|_| runs.len() > SHOWN_MAX) else {
        return vec![true; runs.len()];
    };
    let is_alone = |run: &Run| matches!(run.scheme.as_str(), "ssd-only" | "hdd-only");
    let is_choice = |at: usize| choices.best.iter().any(|choice| choice.run == at);
    let mut shown: Vec<bool> = runs.iter().enumerate().map(|(at, run)| is_alone(run) || is_choice(at)).collect();
    let mean = |at: usize| runs[at].response_time_ms.all.mean.unwrap_or(f64::INFINITY);
    let mut rest: Vec<usize> = (0..runs.len()).filter(|at| !shown[*at] && runs[*at].no_choice.is_none()).collect();
    rest.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
    let count = shown.iter().filter(|shown| **shown).count();
    for at in rest.into_iter().take(SHOWN_MAX.saturating_sub(count)) {
        shown[at] = true;
    }
    shown
}

/// Returns, as JSON, the name, the colour and the dashing of each run, for the scripts that draw,
/// and whether the charts show the run at first and the page advises to choose it.
fn inks_json(document: &Document) -> String {
    let inks = palette::inks(&document.runs);
    let shown = shown_first(document);
    let choices = Choices::of(&document.runs, None).filter(|_| document.runs.len() > 1);
    let is_chosen = |at| choices.iter().flat_map(|choices| &choices.best).any(|choice| choice.run == at);
    let entries: Vec<_> = inks
        .iter()
        .enumerate()
        .map(|(index, ink)| {
            let (label, shown, chosen) = (label(&document.runs, index), shown[index], is_chosen(index));
            serde_json::json!({
                "label": label, "colour": ink.colour, "dashed": ink.dashed, "shown": shown, "chosen": chosen
            })
        })
        .collect();
    serde_json::Value::from(entries).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_sim::findings::Finding;

    /// Fourteen curves in one chart were a heap, and the two drives alone were no comparison.
    #[test]
    fn charts_begin_with_choices_drives_alone_and_fastest() {
        let mut document = fixture::document();
        assert_eq!(shown_first(&document), vec![true; document.runs.len()], "a few are all shown");
        let mut slow = document.runs[0].clone();
        (slow.scheme, slow.label, slow.cost.total_usd) = ("bcache".into(), "bcache".into(), Some(1e6));
        slow.response_time_ms.all.mean = Some(1e6);
        document.runs.extend([slow.clone(), slow]);
        let shown = shown_first(&document);
        assert_eq!(shown.iter().filter(|shown| **shown).count(), SHOWN_MAX, "{shown:?}");
        assert_eq!(shown[document.runs.len() - 2..], [false, false], "they cost more and gain nothing");
        let alone = document.runs.iter().position(|run| run.scheme == "hdd-only").expect("it is compared");
        assert!(shown[alone]);
    }

    /// Regression: the charts began with the curve of a scheme that is no choice, because its
    /// figures hold for the few addresses of the trace alone.
    #[test]
    fn charts_do_not_begin_with_runs_that_are_no_choice() {
        let mut document = fixture::document();
        let mut fast = document.runs[0].clone();
        (fast.scheme, fast.label, fast.cost.total_usd) = ("combo".into(), "combo".into(), Some(1e6));
        fast.response_time_ms.all.mean = Some(1e-6);
        fast.no_choice = Some(bimetal_sim::findings::NoChoice::TooFewAddresses);
        document.runs.splice(0..0, [fast.clone(), fast]);
        let shown = shown_first(&document);
        assert_eq!((shown[0], shown[1]), (false, false), "{shown:?}");
    }

    #[test]
    fn nothing_that_comes_from_a_file_becomes_markup() {
        let evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";
        let mut document = fixture::document();
        document.trace.name = evil.into();
        document.trace.format = evil.into();
        document.command = Some(evil.into());
        let run = &mut document.runs[0];
        run.label = evil.into();
        run.settings.insert(evil.into(), evil.into());
        run.assumed.insert(evil.into(), evil.into());
        run.bypass.insert(evil.into(), 1);
        let member = &mut run.members[0];
        (member.id, member.role, member.profile) = (evil.into(), evil.into(), evil.into());
        member.provenance.description = Some(evil.into());
        member.provenance.source = Some(evil.into());
        member.provenance.price_source = Some(evil.into());
        let page = html(&document);
        let scripts = page.matches("<script").count();
        assert_eq!(scripts, html(&fixture::document()).matches("<script").count());
        assert_eq!(page.matches("</script").count(), scripts);
        assert!(!page.contains("<img"));
    }

    #[test]
    fn findings_stand_above_the_figures() {
        let mut document = fixture::document();
        let [id, severity, text] = ["misaligned", "warning", "90 % of <requests>"].map(str::to_owned);
        document.findings = vec![Finding { id, severity, text, remedy: Some("--align 7".into()), share: None }];
        let page = html(&document);
        let line = "<p class=\"caution\">warning: 90 % of &lt;requests&gt; (--align 7)</p>";
        let (found, figures) = (page.find(line), page.find("id=\"figures\""));
        assert!(found.is_some() && found < figures, "{found:?} {figures:?}");
    }

    /// Six findings filled half of the first screen.
    #[test]
    fn findings_beyond_two_are_folded_warnings_first() {
        let mut document = fixture::document();
        document.runs.truncate(1);
        document.trace.skipped_lines = 0;
        let findings = [("note", "small"), ("warning", "large"), ("warning", "larger"), ("warning", "largest")];
        document.findings = findings
            .map(|(severity, text)| Finding { severity: severity.into(), text: text.into(), ..Finding::default() })
            .into();
        let page = html(&document);
        let (open, folded) = page.split_once("<details class=\"more\">").expect("some are folded");
        assert!(open.contains(">warning: large<") && open.contains(">warning: larger<"), "{open}");
        assert!(folded.starts_with("<summary>2 more findings, with a warning</summary>"), "{folded}");
        assert!(folded.find(">warning: largest<") < folded.find(">note: small<"), "{folded}");
    }

    #[test]
    fn long_names_may_be_broken_into_lines() {
        let mut document = fixture::document();
        document.runs[0].label = "smart-response:mode=maximized".into();
        let page = html(&document);
        assert!(page.contains("<span class=\"long\">smart-response:mode=maximized</span></b>"));
        assert!(!page.contains("<span class=\"long\">hdd-only"));
    }

    #[test]
    fn the_data_in_the_page_are_the_document() {
        let mut document = fixture::document();
        document.trace.name = "a</script>b".into();
        let page = html(&document);
        let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).expect("the data");
        let read: serde_json::Value = serde_json::from_str(data).expect("valid JSON");
        assert_eq!(read, serde_json::from_str::<serde_json::Value>(&document.to_json()).unwrap());
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = html(&fixture::document());
        // The namespace of SVG is a name and never opened. An address that begins with `#` is in
        // the page itself.
        let page = page.replace("http://www.w3.org/2000/svg", "").replace("url(#", "");
        for load in ["http:", "https:", " src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import(", "WebSocket"]
        {
            assert!(!page.contains(load), "the page has {load}");
        }
    }

    #[test]
    fn the_same_document_gives_the_same_page() {
        assert_eq!(html(&fixture::document()), html(&fixture::document()));
    }

    #[test]
    fn one_run_is_shown_without_a_contest() {
        let mut document = fixture::document();
        document.runs.truncate(1);
        let page = html(&document);
        assert!(page.contains("ssd-only on <span class=\"file\">"));
        assert!(!page.contains("Choose "));
        assert!(!page.contains("class=\"best\""));
    }

    #[test]
    fn the_configuration_of_each_run_is_there() {
        let page = html(&fixture::document());
        assert!(page.contains("<code>--set timeout=900s</code>"));
        assert!(page.contains("<code>precondition=sequential</code>"));
        assert!(page.contains("no data sheet") && page.contains("2026-01-01"));
        assert!(page.contains("278 GiB, of 280 GiB exported"));
        assert!(page.contains("bimetal compare traces/mail-server.csv.zst --schemes all"));
    }
}
