//! The report in a real browser: it opens without an error, draws its charts, responds to the
//! reader, fits a phone, and loads nothing from a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes::ALL;
use bimetal_core::units::Nanoseconds;
use bimetal_measure::response_time::ResponseTimeRecorder;
use bimetal_sim::metrics::{AmountOverTime, Gauge, LatencyOverTime};
use bimetal_sim::results::Document;
use serde_json::Value;

#[path = "../src/report/fixture.rs"]
mod fixture;

/// An address that is requested only if the page loads something. The name in the address cannot be
/// resolved.
const OUTSIDE: &str = "http://report.invalid/outside.png";

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

/// Returns a page with the report in frames as wide as a phone, a small and a large desktop. The
/// page uses the report as a reader would, and records its findings.
fn harness(report: &str) -> String {
    let source = report.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width| format!("<iframe width=\"{width}\" height=\"900\" srcdoc=\"{source}\"></iframe>");
    format!(
        "<!doctype html><meta charset=\"utf-8\"><body>{}{}{}<pre id=\"found\"></pre><script>{}</script>",
        frame(360),
        frame(1024),
        frame(1440),
        include_str!("report_reader.js")
    )
}

/// Returns the findings of `report_reader.js`, one value per frame.
fn read_as_a_reader(browser: &Path, folder: &Path, report: &str) -> Vec<Value> {
    fs::write(folder.join("harness.html"), harness(report)).expect("the folder for tests can be written");
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
