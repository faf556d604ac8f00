//! Comparison of a scheme with itself under other settings: figures, tables and report.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ENTRIES: &str = "griffin,griffin:read_window=7:timeout=500ms,smart-response,smart-response:replacement=clock";

fn compare(arguments: &[&str]) -> String {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.bin.zst");
    let output = Command::new(env!("CARGO_BIN_EXE_bimetal"))
        .arg("compare")
        .arg(trace)
        .args(["--limit", "3000"])
        .args(arguments)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints UTF-8")
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
