//! The report in a real browser: it opens without an error, draws its charts, responds to the
//! reader, fits a phone, and loads nothing from a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes::ALL;
use bimetal_core::units::Nanoseconds;
use bimetal_measure::durations::Cdf;
use bimetal_measure::response_time::{CdfByKind, ResponseTimeRecorder};
use bimetal_sim::lifetime::Unknown;
use bimetal_sim::metrics::{AmountOverTime, Gauge, LatencyOverTime};
use bimetal_sim::over_share::{PointOverShare, SHARES};
use bimetal_sim::results::Document;
use serde_json::Value;

#[path = "../src/report/fixture.rs"]
mod fixture;

/// An address that is requested only if the page loads something. The name in the address cannot be
/// resolved.
const OUTSIDE: &str = "http://report.invalid/outside.png";

/// Script that looks for what lies outside its place in the frames, with all values shown in turn.
const FIT: &str = r#"addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement;
    const boxOf = node => node.getBoundingClientRect();
    const result = { outside: [], wide: [], covered: [], charts: [] };
    const send = (node, name, pointerType) => node.dispatchEvent(new view.PointerEvent(name, { pointerType }));
    const look = box => { if (boxOf(box).left < 0 || boxOf(box).right > root.clientWidth) result.wide.push(box.textContent); };
    for (const details of page.querySelectorAll("details")) details.open = true;
    for (const figure of page.querySelectorAll("figure:not([hidden])")) {
      const axis = figure.querySelector(".axis") && boxOf(figure.querySelector(".axis"));
      if (axis) result.charts.push(axis.width / boxOf(figure).width);
      for (const point of figure.querySelectorAll(".point")) {
        const { left, right } = boxOf(point);
        if (right < axis.left || left > axis.right) result.outside.push(point.dataset.label);
        send(point, "pointerenter", "mouse");
        look(figure.querySelector(".readout"));
        send(point, "pointerleave", "mouse");
      }
      if (figure.querySelector(".line")) {
        const plot = figure.querySelector(".plot"), box = plot.querySelector(".readout");
        send(plot, "pointerdown", "touch");
        look(box);
        send(plot, "pointerleave", "touch");
        result.after_touch = !box.hidden;
        send(plot, "pointerleave", "mouse");
        result.after_mouse = !box.hidden;
      }
      for (const text of figure.querySelectorAll(".bar-text")) {
        const [a, b] = [boxOf(text), boxOf(text.previousSibling)];
        if (a.left < b.right && b.left < a.right && a.top + 4 < b.bottom && b.top + 4 < a.bottom) result.covered.push(text.textContent);
      }
    }
    const table = page.querySelector(".comparison");
    result.first_column = table && boxOf(table.querySelector("tbody th")).width / table.closest(".scroll").clientWidth;
    result.free = [...page.querySelectorAll(".grid text")].filter(text => text.textContent === "$0").length;
    result.hatched = page.querySelectorAll('#life pattern').length;
    result.lives = page.querySelector('#life')?.textContent;
    result.together = [...page.querySelectorAll(".together")].map(text => text.textContent);
    result.groups = [...page.querySelectorAll(".plot")].every(plot => plot.getAttribute("role") === "group");
    return { ...result, width: root.clientWidth, page_width: root.scrollWidth, errors: root.dataset.errors ?? null };
  });
  document.getElementById("found").textContent = JSON.stringify(found);
});"#;

/// Returns a browser that may be used; `None`, after a printed message, if no browser is installed.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: no chromium");
    }
    found
}

/// Returns an empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The folder may be left over from an earlier run.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for tests can be written");
    folder
}

/// Opens `page` of `folder`. Returns the document after its scripts have run, and the network log.
fn open(browser: &Path, folder: &Path, page: &str) -> (String, Value) {
    let log = folder.join(format!("{page}.net-log.json"));
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"])
        .args(["--virtual-time-budget=10000", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join(format!("{page}.profile")).display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("file://{}", folder.join(page).display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = fs::read_to_string(log).expect("the browser wrote its network log");
    (
        String::from_utf8(output.stdout).expect("a page is UTF-8"),
        serde_json::from_str(&log).expect("the network log is whole"),
    )
}

/// Returns the network addresses that a page requested. Requests of the browser itself have no
/// initiator and are left out.
fn requests_of_pages(log: &Value) -> Vec<&str> {
    let start = &log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"];
    assert!(start.is_number(), "the network log has no such event any more");
    log["events"]
        .as_array()
        .expect("the network log has events")
        .iter()
        .filter(|event| event["type"] == *start && event["params"]["initiator"] != "not an origin")
        .filter_map(|event| event["params"]["url"].as_str())
        .filter(|url| !["file:", "data:", "blob:", "about:", "chrome:"].iter().any(|own| url.starts_with(own)))
        .collect()
}

/// Returns a page with the report in frames of the given widths, and a script that uses the frames
/// and records its findings.
fn harness(report: &str, widths: &[u32], script: &str) -> String {
    let source = report.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width| format!("<iframe width=\"{width}\" height=\"900\" srcdoc=\"{source}\"></iframe>");
    let frames: String = widths.iter().map(frame).collect();
    format!("<!doctype html><meta charset=\"utf-8\"><body>{frames}<pre id=\"found\"></pre><script>{script}</script>")
}

/// Returns the findings of `report_reader.js` in frames as wide as a phone, a small and a large
/// desktop, one value per frame.
fn read_as_a_reader(browser: &Path, folder: &Path, report: &str) -> Vec<Value> {
    read_by(browser, folder, &harness(report, &[360, 1024, 1440], include_str!("report_reader.js")))
}

/// Returns the findings of [`FIT`] in frames as wide as a phone and a desktop, one value per frame.
fn fit(browser: &Path, folder: &Path, report: &str) -> Vec<Value> {
    read_by(browser, folder, &harness(report, &[390, 1440], FIT))
}

fn read_by(browser: &Path, folder: &Path, harness: &str) -> Vec<Value> {
    fs::write(folder.join("harness.html"), harness).expect("the folder for tests can be written");
    let (page, _) = open(browser, folder, "harness.html");
    let found =
        page.rsplit("<pre id=\"found\">").next().and_then(|rest| rest.split("</pre>").next()).expect("findings");
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found:?}"))
}

#[test]
fn the_report_opens_without_an_error_and_without_a_request() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_opens");
    fs::write(folder.join("report.html"), bimetal::report::html(&fixture::document())).expect("written");
    let (page, log) = open(&browser, &folder, "report.html");
    let root = page.split("<head>").next().expect("a head");
    assert!(!root.contains("data-errors"), "{root}");
    assert!(root.contains("data-charts=\"7\""), "{root}");
    assert_eq!(requests_of_pages(&log), [""; 0]);
}

#[test]
fn a_page_that_asks_a_network_would_be_found_out() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_asks");
    fs::write(folder.join("asks.html"), format!("<!doctype html><img src=\"{OUTSIDE}\">")).expect("written");
    let (_, log) = open(&browser, &folder, "asks.html");
    assert_eq!(requests_of_pages(&log), [OUTSIDE]);
    // The report's own policy blocks the request even if foreign markup gets in.
    let report =
        bimetal::report::html(&fixture::document()).replace("<body>", &format!("<body><img src=\"{OUTSIDE}\">"));
    fs::write(folder.join("report.html"), report).expect("written");
    let (_, log) = open(&browser, &folder, "report.html");
    assert_eq!(requests_of_pages(&log), [""; 0]);
}

/// Every chart draws marks for each choice of the reader, at the width of a phone and of a desktop.
#[test]
fn every_chart_draws_marks_on_phone_and_desktop() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_reader");
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&fixture::document())) {
        assert_eq!(found["errors"], Value::Null, "{found}");
        let charts = found["charts"].as_array().expect("charts");
        assert!(charts.len() >= 7 + 2 + 1 + 4, "{found}");
        for chart in charts {
            let marks = chart["marks"].as_u64().expect("a count");
            let of_some = ["savings", "time dirty", "erases"].iter().any(|name| chart["chart"] == *name);
            let expected = if of_some { 2 } else { 5 };
            assert!(marks >= expected, "{chart} at {}", found["width"]);
            assert_eq!(chart["bad"], 0, "a mark has no finite place: {chart} at {}", found["width"]);
        }
        assert!(found["page_width"].as_u64() <= found["width"].as_u64(), "the page scrolls sideways: {found}");
    }
}

#[test]
fn the_report_answers_to_its_reader() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_answers");
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&fixture::document())) {
        let readout = found["readout"].as_str().expect("a text");
        assert!(readout.contains("within ") && readout.contains("griffin"), "{readout}");
        assert_eq!(found["lines_without_griffin"], 5);
        assert_eq!(found["cheapest_first"], "hdd-only");
        assert_eq!(found["dearest_first"], "griffin");
        // combo has no write savings: runs without the figure come last.
        assert_eq!(found["most_saved_first"], "griffin");
    }
}

/// Regression: between two simulated sizes, the cursor said the figures of one size as those of a
/// third. And at the right end of the slowest requests it said 99.95 % for all requests.
#[test]
fn cursor_says_only_what_was_measured() {
    let Some(browser) = browser() else { return };
    let mut document = fixture::document();
    for run in &document.runs {
        let sizes = SHARES.into_iter().filter(|&percent| run.label != "griffin" || percent != 30);
        document.over_share.extend(sizes.map(|percent| PointOverShare {
            scheme: run.scheme.clone(),
            label: run.label.clone(),
            percent,
            ssd_bytes: Some(percent << 20),
            mean_ms: Some(100.0 / percent as f64),
            p99_ms: None,
            read_hit_ratio: None,
            lifetime_years: None,
            lifetime_least_years: None,
        }));
    }
    let size = |percent| format!("an SSD of {percent} %");
    for found in read_as_a_reader(&browser, &folder("report_cursor"), &bimetal::report::html(&document)) {
        assert_eq!(found["sizes"], Value::from(SHARES.map(size).to_vec()), "{found}");
        assert_eq!(found["sizes_by_key"], Value::from([30, 10, 30].map(size).to_vec()), "{found}");
        assert_eq!(found["missing_size"], 1, "griffin has no run with this size: {found}");
        let slowest = found["slowest"].as_str().expect("a text");
        assert!(slowest.contains("100 %") && !slowest.contains("99."), "{slowest}");
    }
}

/// Returns a document with every scheme, with figures as wide as those of real runs.
fn document_of_all_schemes() -> Document {
    let mut document = fixture::document();
    let shapes = document.runs.clone();
    let run = |(at, info): (usize, &&SchemeInfo)| {
        let mut run = shapes[at % shapes.len()].clone();
        (run.scheme, run.label) = (info.name.into(), info.name.into());
        for times in [&mut run.response_time_ms.read, &mut run.response_time_ms.write, &mut run.response_time_ms.all] {
            (times.mean, times.mean_pm) = (times.mean.map(|_| 0.0704 + at as f64), Some(0.0007));
            (times.p99, times.p99_pm) = (times.p99.map(|_| 1214.0 + at as f64), Some(384.0));
        }
        run
    };
    document.runs = ALL.iter().enumerate().map(run).collect();
    document
}

/// The last columns of the comparison were cut off at 1440 pixels. Narrower pages scroll the table
/// within its box.
#[test]
fn comparison_fits_desktop_and_scrolls_elsewhere() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_table");
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document_of_all_schemes())) {
        let tables = found["whole"]["tables"].as_array().expect("tables");
        assert_eq!(tables.len(), 1, "{found}");
        assert_eq!(tables[0]["scrolls"], true, "{found}");
        assert!(found["width"] != 1440 || tables[0]["over"] == 0, "the table is cut: {}", tables[0]);
        assert!(found["page_width"].as_u64() <= found["width"].as_u64(), "the page scrolls sideways: {found}");
    }
}

/// Two schemes of one colour were one curve to the reader, and some labels lay nearer to a foreign
/// curve than to their own.
#[test]
fn all_schemes_differ_in_colour_and_bear_their_names() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_colours");
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document_of_all_schemes())) {
        assert_eq!(found["errors"], Value::Null, "{found}");
        let whole = &found["whole"];
        assert_eq!(whole["faults"].as_array().expect("faults"), &[Value::Null; 0], "at {}", found["width"]);
        assert!(whole["keys"].as_u64() >= Some(2 * ALL.len() as u64), "{whole}");
        let schemes = whole["colours"].as_object().expect("colours");
        assert_eq!(schemes.len(), ALL.len(), "{schemes:?}");
        let mut colours: Vec<&str> = Vec::new();
        for (scheme, everywhere) in schemes {
            let everywhere = everywhere.as_array().expect("colours");
            assert!(everywhere.len() >= 2 && everywhere.iter().all(|colour| *colour == everywhere[0]), "{schemes:?}");
            let colour = everywhere[0].as_str().expect("a colour");
            assert!(!colours.contains(&colour), "{scheme}: {schemes:?}");
            colours.push(colour);
        }
    }
}

/// Charts without a single mark stood beside the others.
#[test]
fn charts_without_data_give_a_reason_in_their_place() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_absent");
    let mut document = fixture::document();
    for run in &mut document.runs {
        run.write_savings = run.write_savings.map(|_| 0.0);
        run.read_penalty = run.read_penalty.map(|_| 0.0);
        let erases = &mut run.devices.ssd.flash.blocks_by_erases;
        *erases = erases.as_ref().map(|_| [(0, 4000), (1, 3)].into());
    }
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document)) {
        let whole = &found["whole"];
        assert_eq!(whole["empty"], Value::Array(Vec::new()), "{found}");
        let absent: Vec<_> = whole["absent"].as_array().expect("reasons").iter().filter_map(Value::as_str).collect();
        assert_eq!(absent.len(), 2, "{absent:?}");
        assert!(absent[0].starts_with("Write savings against read penalty: No scheme"), "{absent:?}");
        assert!(absent[1].starts_with("How erases are spread over the blocks: Fewer than 1 %"), "{absent:?}");
    }
}

#[test]
fn a_document_without_figures_makes_a_page_without_errors() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_empty");
    let mut document = fixture::document();
    let bare = bimetal_sim::results::Run::named("ssd-only");
    document.runs = vec![bare.clone(), bare];
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document)) {
        assert_eq!(found["errors"], Value::Null, "{found}");
        assert!(found["charts"].as_array().expect("charts").iter().all(|chart| chart["says"] != ""), "{found}");
    }
}

#[test]
fn write_savings_are_told_where_nothing_was_read() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_write_only");
    let mut document = fixture::document();
    document.runs.iter_mut().for_each(|run| run.read_penalty = None);
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document)) {
        let charts = found["charts"].as_array().expect("charts");
        let says = charts.iter().find(|chart| chart["chart"] == "savings").expect("the chart")["says"].as_str();
        assert!(
            says.is_some_and(|says| says.starts_with("No block was read") && says.contains("griffin 59.4 %")),
            "{found}"
        );
    }
}

#[test]
fn a_trace_of_a_single_request_is_drawn_too() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_single");
    let mut times = ResponseTimeRecorder::new();
    times.record_read(Nanoseconds::from_micros(90));
    let mut latency = LatencyOverTime::new(Nanoseconds::ZERO);
    latency.record(Nanoseconds::ZERO, Nanoseconds::from_micros(90));
    let mut written = AmountOverTime::new(Nanoseconds::ZERO);
    written.record(Nanoseconds::ZERO, 4096);
    let mut depth = Gauge::new(Nanoseconds::ZERO, 1);
    depth.record(Nanoseconds::from_micros(90), 0);
    let mut document = fixture::document();
    document.runs.truncate(2);
    for run in &mut document.runs {
        run.response_time_ms = times.response_times();
        run.series.response_time_cdf = times.cdf();
        run.series.latency = latency.series();
        run.series.queue_depth = Some(depth.series());
        run.series.ssd_written = Some(written.series());
        run.series.dirty = None;
    }
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document)) {
        assert_eq!(found["errors"], Value::Null, "{found}");
        for chart in found["charts"].as_array().expect("charts") {
            assert_eq!(chart["bad"], 0, "{chart}");
            // Without writes, without dirty blocks and without a log three charts have no marks;
            // all other charts have some.
            let absent = chart["says"] == "No writes in this trace."
                || chart["chart"] == "time dirty"
                || chart["chart"] == "savings";
            assert_eq!(chart["marks"] == 0, absent, "{chart}");
        }
    }
}

#[test]
fn markup_in_a_name_stays_text() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_markup");
    let mut document = fixture::document();
    let evil = "</script><img src=x onerror=\"document.documentElement.dataset.errors='ran'\"><b id=evil>".to_owned();
    document.trace.name.clone_from(&evil);
    document.runs[0].label.clone_from(&evil);
    document.runs[0].settings.insert(evil.clone(), evil);
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document)) {
        assert_eq!(found["errors"], Value::Null, "{found}");
        assert_eq!(found["intruders"], 0, "{found}");
    }
}

/// Asserts that nothing is cut, covered or beside its chart in a frame of [`fit`].
fn assert_fits(found: &Value) {
    assert_eq!(found["errors"], Value::Null, "{found}");
    assert!(found["page_width"].as_u64() <= found["width"].as_u64(), "the page scrolls sideways: {found}");
    for fault in ["outside", "wide", "covered"] {
        assert_eq!(found[fault], Value::Array(Vec::new()), "{fault}: {found}");
    }
    let charts = found["charts"].as_array().expect("charts");
    assert!(!charts.is_empty() && charts.iter().all(|share| share.as_f64() > Some(0.5)), "{found}");
    assert_eq!(found["groups"], true, "{found}");
}

/// Catalogue with two drives that cost nothing, because the reader has them already.
const SHOP: &str = r#"
[[drive]]
model = "intel-x25-e-32gb"
sizes = ["512MiB", "8GiB"]
prices_usd = [0, 200]
date = "2026-11"
source = "the test"
[[drive]]
model = "seagate-barracuda-7200.12-1tb"
sizes = ["1TB"]
prices_usd = [0]
date = "2026-11"
source = "the test"
"#;

/// Returns the page of a plan that buys in `shop`.
fn plan_page(folder: &Path, shop: &str) -> String {
    let [catalog, report] = ["shop.toml", "plan.html"].map(|name| folder.join(name));
    fs::write(&catalog, shop).expect("the folder for tests can be written");
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/browser.bin.zst");
    let output = Command::new(env!("CARGO_BIN_EXE_bimetal"))
        .args(["plan", trace, "--limit", "300", "--schemes", "ssd-only,hdd-only,bcache", "--exhaustive"])
        // The few requests end before the default delay.
        .args(["--set", "writeback_delay=1ms"])
        .arg("--catalog")
        .arg(catalog)
        .arg("--report")
        .arg(&report)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(report).expect("the report is there")
}

/// Options that cost nothing lay more than a chart's width beside the chart, and the texts of all
/// options were cut on phones.
#[test]
fn plan_with_free_drives_fits_phone_and_desktop() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_plan");
    for found in fit(&browser, &folder, &plan_page(&folder, SHOP)) {
        assert_fits(&found);
        assert_eq!(found["free"], 2, "each chart has a mark for what costs nothing: {found}");
    }
}

#[test]
fn plan_with_prices_has_no_mark_for_what_is_free() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_plan_prices");
    let shop = SHOP.replace("[0, 200]", "[20, 200]").replace("[0]", "[50]");
    for found in fit(&browser, &folder, &plan_page(&folder, &shop)) {
        assert_fits(&found);
        assert_eq!(found["free"], 0, "{found}");
    }
}

/// Labels that carry settings made the page scroll sideways, left no room for the figures beside
/// the first column, and pushed lines out of their charts.
#[test]
fn long_labels_fit_phone_and_desktop() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_long_labels");
    let mut document = fixture::document();
    document.runs[3].label = "smart-response:mode=maximized:idle=1h".into();
    document.runs[5].label = "griffin:timeout=30s:read_window=50:migration_size=1GiB:log_rate=100MiB".into();
    for found in fit(&browser, &folder, &bimetal::report::html(&document)) {
        assert_fits(&found);
        assert!(found["first_column"].as_f64() < Some(0.6), "{found}");
    }
}

/// A finger that was lifted took the values of a chart with it.
#[test]
fn values_stay_when_a_finger_is_lifted() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_touch");
    for found in fit(&browser, &folder, &bimetal::report::html(&fixture::document())) {
        assert_fits(&found);
        assert_eq!((&found["after_touch"], &found["after_mouse"]), (&true.into(), &false.into()), "{found}");
    }
}

#[test]
fn lines_that_hide_each_other_are_named() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_together");
    let mut document = fixture::document();
    document.runs[2].series.response_time_cdf = document.runs[0].series.response_time_cdf.clone();
    for found in fit(&browser, &folder, &bimetal::report::html(&document)) {
        let sentences = found["together"].as_array().expect("sentences");
        let names_both = |sentence: &Value| {
            sentence.as_str().is_some_and(|sentence| sentence.contains("lie on each other: ssd-only and combo"))
        };
        assert!(sentences.iter().any(names_both), "{found}");
    }
}

/// Regression: two lines counted as one although the steps of most requests lay a fifth apart.
#[test]
fn steep_lines_that_lie_apart_are_not_named_as_one() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_apart");
    let mut document = fixture::document();
    let [slow, fast] = [120, 100].map(|microseconds| {
        let mut recorder = ResponseTimeRecorder::new();
        (0..950).for_each(|_| recorder.record_read(Nanoseconds(microseconds * 1000)));
        (0..50).for_each(|at| recorder.record_read(Nanoseconds::from_millis(10 + at * 200)));
        recorder.cdf()
    });
    (document.runs[0].series.response_time_cdf, document.runs[2].series.response_time_cdf) = (slow, fast);
    for found in fit(&browser, &folder, &bimetal::report::html(&document)) {
        let sentences = found["together"].to_string();
        assert!(!sentences.contains("ssd-only and combo"), "{sentences}");
    }
}

/// A life that nothing shortens was hatched like a life that nobody can tell.
#[test]
fn life_without_writes_is_unlimited_and_not_hatched() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_unlimited");
    let mut document = fixture::document();
    for (at, reason) in [(0, Unknown::NothingWritten), (5, Unknown::NothingErased)] {
        let flash = &mut document.runs[at].devices.ssd.flash;
        (flash.lifetime_years, flash.lifetime_unknown) = (None, Some(reason));
    }
    let flash = &mut document.runs[4].devices.ssd.flash;
    (flash.lifetime_years, flash.lifetime_unknown) = (None, Some(Unknown::OnlyNewData));
    flash.lifetime_range_years = Some((2.0, f64::INFINITY));
    for found in fit(&browser, &folder, &bimetal::report::html(&document)) {
        assert_eq!(found["hatched"], 1, "{found}");
        let lives = found["lives"].as_str().unwrap_or_default();
        assert!(lives.contains("unlimited: nothing is written") && lives.contains("2 years or more"), "{found}");
    }
}

/// Regression: within a time that one request of ten million exceeded were "100 %" of them.
#[test]
fn share_below_one_is_not_rounded_to_100_percent() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_rounding");
    let mut document = fixture::document();
    for run in &mut document.runs {
        let cdf = Cdf { ms: vec![1.0, 100.0], requests: vec![9_999_999, 10_000_000] };
        run.series.response_time_cdf = CdfByKind { all: cdf.clone(), read: cdf.clone(), write: cdf };
    }
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document)) {
        let readout = found["readout"].as_str().expect("a text");
        assert!(readout.contains("> 99.9999 %") && !readout.contains("100 %"), "{readout}");
    }
}

/// Axes without a line stood in the place of the reason.
#[test]
fn trace_of_flushes_has_a_reason_in_place_of_latencies() {
    let Some(browser) = browser() else { return };
    let folder = folder("report_flushes");
    let mut document = fixture::document();
    for run in &mut document.runs {
        let latency = &mut run.series.latency;
        latency.mean_ms.fill(None);
        latency.p99_ms.fill(None);
    }
    for found in read_as_a_reader(&browser, &folder, &bimetal::report::html(&document)) {
        assert_eq!(found["errors"], Value::Null, "{found}");
        for chart in found["charts"].as_array().expect("charts") {
            let is_latency = chart["chart"] == "time mean" || chart["chart"] == "time p99";
            assert_eq!(chart["says"] == "No scheme that is shown has this figure.", is_latency, "{chart}");
        }
    }
}
