//! Metrics of a running server for Prometheus, and the dashboard that uses them.

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use bimetal_device::drive::Engine;
use common::{Plan, serve};

const PLAN: Plan = Plan { scheme: "griffin", settings: &[], ssd_mib: 64, hdd_mib: 32, engine: Engine::Auto };

fn fetch(url: &str, path: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

/// Returns the value of the line that begins with `line`.
fn value(page: &str, line: &str) -> f64 {
    let found =
        page.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_else(|| panic!("no {line} in {page}"));
    found.trim().parse().unwrap()
}

#[test]
fn everything_that_moves_is_on_the_page() {
    let running = serve(PLAN);
    let mut disk = running.connect();
    (0..10).for_each(|at| disk.write(at << 16, &[1; 8192]));
    (0..3).for_each(|at| drop(disk.read(at << 16, 4096)));
    disk.flush();
    let page = fetch(&running.metrics, "/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{page}");
    assert!(page.ends_with("# EOF\n"));
    let volume = "volume=\"disk\"";
    assert_eq!(value(&page, &format!("bimetal_state{{{volume},state=\"serving\"}}")), 1.0);
    assert_eq!(value(&page, &format!("bimetal_dirty_bytes{{{volume}}}")), 80.0 * 1024.0);
    assert_eq!(value(&page, &format!("bimetal_request_bytes_total{{{volume},kind=\"write\"}}")), 80.0 * 1024.0);
    let kind = format!("{volume},kind=\"read\"");
    assert_eq!(value(&page, &format!("bimetal_request_duration_seconds_count{{{kind}}}")), 3.0);
    assert_eq!(
        value(&page, &format!("bimetal_request_duration_seconds_bucket{{{volume},le=\"+Inf\",kind=\"read\"}}")),
        3.0
    );
    assert!(value(&page, &format!("bimetal_request_duration_seconds_sum{{{kind}}}")) > 0.0);
    assert!(
        value(&page, &format!("bimetal_member_bytes_total{{{volume},member=\"hdd\",kind=\"write\"}}")) >= 80.0 * 1024.0
    );
    assert_eq!(value(&page, &format!("bimetal_member_up{{{volume},member=\"ssd\"}}")), 1.0);
    assert!(fetch(&running.metrics, "/").starts_with("HTTP/1.1 404"));
    running.stop();
}

/// Returns the names of metrics in a text: `bimetal_` and the characters after it.
fn names(text: &str) -> BTreeSet<String> {
    let of =
        |part: &str| part.chars().take_while(|&sign| sign.is_ascii_alphanumeric() || sign == '_').collect::<String>();
    text.split("bimetal_").skip(1).map(|part| format!("bimetal_{}", of(part))).collect()
}

#[test]
fn the_dashboard_names_metrics_that_are_there() {
    let dashboard = include_str!("../../../contrib/grafana/bimetal.json");
    let json: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(json["panels"].as_array().unwrap().len() >= 8);
    // Metrics that exist only if a value is known or an event has happened.
    let sometimes = [
        "bimetal_bypassed_blocks_total",
        "bimetal_flash_end_of_life_timestamp_seconds",
        "bimetal_last_scrub_timestamp_seconds",
    ];
    let running = serve(PLAN);
    let mut disk = running.connect();
    disk.write(0, &[1; 8192]);
    disk.read(0, 8192);
    let there = names(&fetch(&running.metrics, "/metrics"));
    for name in names(dashboard) {
        assert!(there.contains(&name) || sometimes.contains(&name.as_str()), "no metric {name}");
    }
    for name in sometimes {
        assert!(
            include_str!("../src/metrics.rs").contains(name.trim_start_matches("bimetal_").trim_end_matches("_total"))
        );
    }
    running.stop();
}
