//! Comparison of a scheme with itself under other settings: figures, tables and report.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ENTRIES: &str = "griffin,griffin:read_window=7:timeout=500ms,smart-response,smart-response:replacement=clock";

fn compare(arguments: &[&str]) -> String {
    let (output, errors, is_done) = try_to_compare(arguments);
    assert!(is_done, "{arguments:?}: {errors}");
    output
}

/// Returns what a comparison printed, on standard output and on standard error, and if it
/// succeeded.
fn try_to_compare(arguments: &[&str]) -> (String, String, bool) {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.bin.zst");
    let output = Command::new(env!("CARGO_BIN_EXE_bimetal"))
        .arg("compare")
        .arg(trace)
        .args(["--limit", "3000"])
        .args(arguments)
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
    (text(output.stdout), text(output.stderr), output.status.success())
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&compare(&[arguments, &["--json"]].concat())).expect("JSON")
}

/// Returns the runs with a label, without the label and the speed of the simulation.
fn runs(document: &Value, label: &str) -> Vec<Value> {
    let runs = document["runs"].as_array().expect("runs").iter().filter(|run| run["label"] == label);
    let bare = runs.map(|run| {
        let mut run = run.clone();
        let keys = run.as_object_mut().expect("an object");
        assert!(keys.remove("label").is_some() && keys.remove("run").is_some());
        run
    });
    bare.collect()
}

#[test]
fn entry_with_settings_equals_a_run_with_set_alone() {
    // The settings of an entry precede `--set`.
    let common = ["--runs", "2", "--set", "read_window=50"];
    let together = json(&[&common[..], &["--schemes", ENTRIES]].concat());
    let alone = [
        ("griffin:read_window=7:timeout=500ms", "griffin", ["griffin.timeout=500ms", "read_window=7"]),
        ("griffin", "griffin", ["read_window=50", "read_window=50"]),
        ("smart-response:replacement=clock", "smart-response", ["replacement=clock", "replacement=clock"]),
    ];
    for (label, scheme, [one, two]) in alone {
        let apart = json(&["--runs", "2", "--schemes", scheme, "--set", one, "--set", two]);
        let (entry, wanted) = (runs(&together, label), runs(&apart, scheme));
        assert_eq!(entry.len(), 2, "{label} stands in both blocks");
        assert!(entry.iter().all(|run| run["scheme"] == scheme));
        // One scheme alone without a share has one block.
        assert!(wanted.iter().zip(&entry).all(|(wanted, entry)| wanted == entry), "{label}");
        assert!(!wanted.is_empty());
    }
    let figure = |label: &str| runs(&together, label)[0]["migration"]["count"].clone();
    assert_ne!(figure("griffin"), figure("griffin:read_window=7:timeout=500ms"), "the settings have an effect");
}

#[test]
fn tables_and_report_tell_the_entries_apart() {
    let page = std::env::temp_dir().join(format!("bimetal-entries-{}.html", std::process::id()));
    let path = page.to_str().expect("a path in UTF-8");
    let document = json(&["--runs", "1", "--schemes", ENTRIES, "--report", path]);
    let text = std::fs::read_to_string(&page).expect("the report");
    std::fs::remove_file(&page).expect("the report is there");
    let points = document["over_share"].as_array().expect("points");
    for label in ENTRIES.split(',') {
        assert_eq!(text.matches(&format!("<tr data-run=\"{}\">", label_place(label))).count(), 2, "{label}");
        // A long name may be broken into lines.
        let ends = ["</b></th>", "</span></b></th>"];
        assert!(ends.iter().any(|end| text.contains(&format!(">{label}{end}"))), "{label}");
        let percents: Vec<_> = points.iter().filter(|point| point["label"] == label).map(|at| &at["percent"]).collect();
        assert_eq!(percents, [1, 3, 10, 30, 100], "{label}");
    }
    let csv = compare(&["--runs", "1", "--schemes", ENTRIES, "--csv"]);
    let rows: Vec<&str> = csv.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(rows, ENTRIES.split(',').chain(ENTRIES.split(',')).collect::<Vec<_>>());
    let table = compare(&["--runs", "1", "--schemes", ENTRIES]);
    assert!(table.contains("\ngriffin:read_window=7:timeout=500ms\n"), "a long label has its own line\n{table}");
}

/// Regression: a scheme that could not be built was missing from the tables of other programs,
/// without a word.
#[test]
fn scheme_that_is_left_out_of_a_table_is_named() {
    for form in ["--csv", "--markdown"] {
        let flags = ["--runs", "1", "--ssd-size", "50MiB", "--schemes", "griffin,bcache", form];
        let (table, errors, is_done) = try_to_compare(&flags);
        assert!(is_done && table.contains("bcache") && !table.contains("griffin"), "{table}");
        assert!(errors.contains("left out: griffin: "), "{errors}");
    }
}

/// Regression: a setting of a scheme that does not run, and a log for a scheme without one, had no
/// effect, and nothing said so.
/// Regression: with several traces, no line said what to choose, neither over a trace nor over all.
#[test]
fn comparison_over_several_traces_says_what_to_choose() {
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/office-server.bin.zst");
    let table = compare(&[other.to_str().expect("UTF-8"), "--schemes", "hdd-only,ssd-only", "--runs", "2"]);
    assert_eq!(table.matches("what to choose").count(), 2, "{table}");
    let (_, means) = table.split_once("geometric means over 2 traces").expect("a table over all traces");
    assert!(means.contains("a choice on") && means.contains("2 of 2"), "{means}");
}

#[test]
fn setting_and_member_without_a_scheme_are_refused() {
    for (flag, value, expected) in [
        ("--set", "griffin.timeout=30s", "--set griffin.timeout=30s: no scheme or drive of this run has that key"),
        ("--member", "log=wd-red-plus-4tb", "--member log: expected the id of a drive that a scheme of this run uses"),
    ] {
        let (_, errors, is_done) = try_to_compare(&["--runs", "1", "--schemes", "bcache", flag, value]);
        assert!(!is_done && errors.contains(expected), "{errors}");
        let (_, errors, is_done) = try_to_compare(&["--runs", "1", "--schemes", "bcache,griffin", flag, value]);
        assert!(is_done, "{errors}");
    }
}

/// Regression: a rented volume of SSDs stood among the HDDs, with its price and its writes.
#[test]
fn rented_volume_of_ssds_is_an_ssd() {
    let flags = ["--schemes", "smart-response", "--runs", "1", "--ssd", "aws-gp3-1tb", "--hdd", "aws-st1-1tb"];
    let run = json(&flags)["runs"][0].clone();
    assert_eq!((&run["ssd"], &run["hdd"]), (&"aws-gp3-1tb".into(), &"aws-st1-1tb".into()));
    assert!(run["cost"]["ssd_usd"].as_f64() > Some(0.0) && run["cost"]["usd_per_year"].is_number(), "{}", run["cost"]);
    let flash = &run["devices"]["ssd"]["flash"];
    assert_eq!((&flash["lifetime_unknown"], &flash["erases"]), (&"rented".into(), &Value::Null));
    assert_eq!(run["devices"]["hdd"]["disk_head_time"], Value::Null, "a provider's arm is not known");
    let series = run["series"]["ssd_written"]["values"].as_array().expect("a series");
    let written: f64 = series.iter().filter_map(Value::as_f64).sum();
    assert_eq!(Some(written), run["devices"]["ssd"]["write_bytes"].as_f64(), "writes of the SSD alone");
}

fn label_place(label: &str) -> usize {
    ENTRIES.split(',').position(|entry| entry == label).expect("an entry")
}

/// The size that is bought has its own figures. Regression: 2 TB had the price of the drive of 2
/// TB, and the speed and the warranty of the drive of 500 GB.
#[test]
fn bought_size_of_a_model_has_its_own_figures() {
    let of = |drive: &str| {
        let flags = ["--schemes", "ssd-only", "--runs", "1", "--capacity", "2TB", "--ssd", drive];
        let run = json(&flags)["runs"][0].clone();
        (run["response_time_ms"].clone(), run["devices"]["ssd"]["flash"].clone(), run["cost"].clone())
    };
    let (by_model, by_size, other) = (of("wd-blue-sn5000"), of("wd-blue-sn5000-2tb"), of("samsung-990-pro"));
    assert_eq!(by_model, by_size);
    assert!(by_model.0["all"]["mean"].is_number() && by_model != other);
}

/// An SSD without a price, as a catalogue of one's own may have it.
const WITHOUT_PRICE: &str = r#"
sources = { sheet = "a data sheet" }

[[drive]]
name = "no-price-1tb"
model = "No Price"
kind = "ssd"
sizes = ["1TB"]
cell = "TLC"
tbw_tb = [600]
warranty_years = 5
active_w = 5
idle_w = 1
sequential_read_mb_per_s = 3500
sequential_write_mb_per_s = 3000
write_rates = "steady"
random_read_iops = 500000
random_write_iops = 400000
sources = ["sheet"]
"#;

/// Regression: runs whose price is not known were listed as no choice, and had stars for the best
/// figures among the choices.
#[test]
fn run_without_a_price_beside_priced_runs_has_no_star() {
    let folder = std::env::temp_dir().join(format!("bimetal-no-price-{}", std::process::id()));
    let (catalog, config) = (folder.join("drives.toml"), folder.join("bimetal"));
    std::fs::create_dir_all(&config).expect("a folder for the test");
    std::fs::write(&catalog, WITHOUT_PRICE).expect("room for a catalogue");
    std::fs::write(config.join("config.toml"), format!("catalog = [{:?}]\n", catalog.to_string_lossy())).expect("room");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.bin.zst");
    let compared = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bimetal"));
        command.arg("compare").arg(&trace).args(["--limit", "300", "--runs", "1", "--schemes", "hdd-only,ssd-only"]);
        let output = command.args(["--ssd", "No Price"]).args(more).env("XDG_CONFIG_HOME", &folder).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints UTF-8")
    };
    let document: Value = serde_json::from_str(&compared(&["--json"])).expect("JSON");
    for run in document["runs"].as_array().expect("runs") {
        let expected = if run["scheme"] == "hdd-only" { Value::Null } else { "no-price".into() };
        assert_eq!(run["no_choice"], expected, "{}", run["scheme"]);
    }
    let table = compared(&[]);
    let starred: Vec<&str> = table.lines().filter(|line| line.contains('*')).collect();
    assert!(starred.iter().all(|line| !line.starts_with("ssd-only")), "{table}");
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
}
