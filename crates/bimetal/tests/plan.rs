//! `bimetal plan`, as its users see it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn bimetal(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bimetal")).args(arguments).output().expect("the program runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = bimetal(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn refused(arguments: &[&str]) -> String {
    let output = bimetal(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn trace(name: &str) -> String {
    format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/{}.bin.zst"), name)
}

/// A folder of this test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bimetal-plan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder can be made");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// So many requests of a trace are enough.
const REQUESTS: &str = "300";

/// A small shop: two SSDs that are small enough for sizes to matter, and a disk.
const SHOP: &str = r#"
[[drive]]
model = "intel-x25-e-32gb"
sizes = ["128MiB", "512MiB", "8GiB"]
prices_usd = [20, 60, 200]
date = "2026-11"
source = "the test"
[[drive]]
model = "micron-c200-60gb"
sizes = ["256MiB", "8GiB"]
prices_usd = [25, 100]
date = "2026-11"
source = "the test"
[[drive]]
model = "seagate-barracuda-7200.12-1tb"
sizes = ["1TB"]
prices_usd = [50]
date = "2026-11"
source = "the test"
"#;

/// The `simulate` command that is exactly `option`.
fn simulate_arguments(trace: &str, option: &Value) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["simulate", trace, "--json", "--scheme", option["scheme"].as_str().unwrap()].map(str::to_owned).to_vec();
    for kind in ["ssd", "hdd"] {
        if let Some(model) = option[kind].as_str() {
            let bytes = option[format!("{kind}_bytes")].as_u64().unwrap();
            arguments.extend([format!("--{kind}"), model.to_owned(), format!("--{kind}-size"), bytes.to_string()]);
        }
    }
    for (key, value) in option["settings"].as_object().unwrap() {
        arguments.extend(["--set".to_owned(), format!("{key}={}", value.as_str().unwrap())]);
    }
    arguments
}

fn at<'a>(run: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(run, |value, key| &value[key])
}

/// Whether `simulate` says of `option` what the plan predicted.
fn check_prediction(trace: &str, option: &Value) {
    let arguments = [simulate_arguments(trace, option), ["--limit", REQUESTS].map(str::to_owned).to_vec()].concat();
    let document = json(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let run = &document["runs"][0];
    let predicted = option["predicted"].as_object().unwrap();
    assert!(predicted.len() > 10, "{predicted:?}");
    for (path, value) in predicted {
        assert_eq!(at(run, path), value, "{path} of {arguments:?}");
    }
}

#[test]
fn simulate_says_of_every_option_what_the_plan_predicted() {
    let folder = Folder::new("prediction");
    let (shop, trace) = (folder.file("shop.toml", SHOP), trace("browser"));
    let common = ["plan", &trace, "--catalog", &shop, "--latency", "mean<10s", "--limit", REQUESTS, "--json"];
    let plan = json(&[&common[..], &["--exhaustive"]].concat());
    let mut schemes: Vec<&str> = Vec::new();
    let pareto = plan["pareto"].as_array().unwrap();
    let rejected = plan["rejected"].as_array().unwrap();
    for option in [&plan["best"]].into_iter().chain(pareto).chain(rejected) {
        // One option of each scheme is enough, and one that was stopped early predicts nothing.
        let scheme = option["scheme"].as_str().unwrap();
        let ran = option["predicted"].as_object().is_some_and(|predicted| !predicted.is_empty());
        if ran && !schemes.contains(&scheme) {
            schemes.push(scheme);
            check_prediction(&trace, option);
        }
    }
    assert!(schemes.len() >= 3, "{schemes:?}");
}

#[test]
fn the_cheapest_first_search_chooses_what_the_exhaustive_one_does() {
    let folder = Folder::new("exhaustive");
    let shop = folder.file("shop.toml", SHOP);
    let trace = trace("browser");
    let common = ["plan", &trace, "--catalog", &shop, "--latency", "p99<500ms", "--lifetime", "1d", "--json"];
    let common = [&common[..], &["--schemes", "ssd-only,hdd-only,griffin", "--limit", REQUESTS]].concat();
    let quick = json(&common);
    let exhaustive = json(&[&common[..], &["--exhaustive"]].concat());
    assert!(!quick["best"].is_null());
    for key in ["scheme", "ssd", "ssd_bytes", "hdd", "settings", "cost_usd", "predicted"] {
        assert_eq!(quick["best"][key], exhaustive["best"][key], "{key}");
    }
}

#[test]
fn what_no_option_keeps_leaves_best_null_and_every_option_says_why() {
    let folder = Folder::new("impossible");
    let (shop, trace) = (folder.file("shop.toml", SHOP), trace("media-copy"));
    let common = ["plan", &trace, "--catalog", &shop, "--json", "--limit", "300"];
    for flags in [["--latency", "p99<1us"], ["--max-cost", "1"], ["--energy", "1mW"]] {
        let plan = json(&[&common[..], &flags].concat());
        assert!(plan["best"].is_null(), "{flags:?}: {}", plan["best"]);
        let rejected = plan["rejected"].as_array().unwrap();
        assert!(!rejected.is_empty());
        assert!(rejected.iter().all(|option| option["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
        let relax = &plan["closest"][0]["relax"];
        assert!(!relax.as_array().unwrap().is_empty(), "{flags:?}: {relax}");
    }
}

#[test]
fn input_that_makes_no_sense_is_refused() {
    let folder = Folder::new("refused");
    let trace = trace("media-copy");
    let empty = folder.file("empty.toml", "");
    assert!(refused(&["plan", &trace, "--catalog", &empty]).contains("the catalogue is empty"));
    let message = refused(&["plan", &trace, "--latency", "p99<5ms,p99>6ms"]);
    assert!(message.contains("contradict each other"), "{message}");
    let message = refused(&["plan", &trace, "--latency", "p98<5ms"]);
    assert!(message.contains("no figure 'p98'"), "{message}");
    let only_disk = folder.file("disk.toml", &SHOP[SHOP.find("[[drive]]\nmodel = \"seagate").unwrap()..]);
    let message = refused(&["plan", &trace, "--catalog", &only_disk, "--schemes", "ssd-only"]);
    assert!(message.contains("it has no SSD"), "{message}");
    assert!(Path::new(&only_disk).exists());
}

#[test]
fn a_trace_of_reads_wears_nothing_and_ten_requests_are_enough_to_plan_for() {
    let folder = Folder::new("small");
    let lines: String = (0..10).map(|i| format!("{},0,read,{},8,0,\n", i * 1_000_000, i * 16)).collect();
    let shop = folder.file("shop.toml", SHOP);
    let reads = folder.file("reads.csv", &format!("time_ns,device,op,lba,sectors,fua,response_ns\n{lines}"));
    let common = ["--catalog", &shop, "--latency", "p99<1s", "--lifetime", "5y", "--json"];
    let plan = json(&[&["plan", &reads, "--schemes", "ssd-only"][..], &common].concat());
    let life = &plan["best"]["lifetime"][0];
    assert_eq!((&life["years"], &life["unlimited"]), (&Value::Null, &Value::Bool(true)), "{life}");
    let text = bimetal(&["plan", &reads, "--schemes", "ssd-only", "--catalog", &shop]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("flash unlimited (nothing is erased)"));
}
