//! Trees of volumes on the command line: the manual's file, its figures, and the messages for a
//! wrong file.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn bimetal(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bimetal"))
        .args(arguments)
        .current_dir(docs().join("composition.in"))
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn the_page_shows_the_file_that_is_run() {
    let page = std::fs::read_to_string(docs().join("composition.md")).unwrap();
    let file = std::fs::read_to_string(docs().join("composition.in/trees.toml")).unwrap();
    assert!(page.contains(&format!("```toml\n{file}```")), "the page and its file differ");
}

/// Every leaf of a tree reports its energy and wear. A setting applies to the volume with whose
/// name the setting begins.
#[test]
fn every_leaf_of_a_tree_has_energy_wear_and_settings() {
    let (status, json, error) =
        bimetal(&["compare", "--config", "trees.toml", "--limit", "20000", "--set", "left.timeout=60s", "--json"]);
    assert_eq!(status, 0, "{error}");
    let document: Value = serde_json::from_str(&json).unwrap();
    let run = |name: &str| {
        let runs = document["runs"].as_array().unwrap();
        runs.iter().find(|run| run["scheme"] == name).unwrap_or_else(|| panic!("{name} has run"))
    };
    let mirror = run("mirror");
    assert_eq!(mirror["settings"]["left.timeout"], "60s");
    assert_eq!(mirror["settings"]["right.timeout"], "300s");
    let members = mirror["members"].as_array().unwrap();
    let places: Vec<_> = members.iter().map(|member| format!("{}/{}", member["volume"], member["id"])).collect();
    assert_eq!(places.join(" ").replace('"', ""), "left/flash-a left/disk-a right/flash-b right/disk-b");
    for member in members {
        assert!(member["energy_j"].as_f64().unwrap() > 0.0, "{member}");
    }
    let written = |id: &str| {
        let member = members.iter().find(|member| member["id"] == id).unwrap();
        member["write_bytes"].as_u64().unwrap()
    };
    assert!(written("disk-a") > 0 && written("disk-b") > 0, "both logs take every write");
    let chain = run("chain");
    let qlc = chain["members"].as_array().unwrap().iter().find(|member| member["id"] == "qlc").unwrap();
    assert_eq!(qlc["volume"], "spared");
    assert!(qlc["flash"]["erase_count"].is_object());
    assert!(chain["ssd_hit_ratio"]["write"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_a_mirror_reads_and_writes_adds_up() {
    let (_, json, error) = bimetal(&["compare", "--schemes", "hdd-only,raid0,raid1", "--limit", "5000", "--json"]);
    let document: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{error}"));
    let runs = document["runs"].as_array().unwrap();
    let sum = |run: &Value, key: &str| {
        let members = run["members"].as_array().unwrap().iter();
        members.map(|member| member[key].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let [alone, striped, mirrored] = runs.as_slice() else { panic!("three runs") };
    let (reads, writes) = (sum(alone, "read_bytes")[0], sum(alone, "write_bytes")[0]);
    let (read, written) = (sum(striped, "read_bytes"), sum(striped, "write_bytes"));
    assert_eq!((read[0] + read[1], written[0] + written[1]), (reads, writes));
    assert!(read[0] > 0 && read[1] > 0);
    let (read, written) = (sum(mirrored, "read_bytes"), sum(mirrored, "write_bytes"));
    assert_eq!((read[0] + read[1], written), (reads, vec![writes, writes]));
    assert!(read[0] > 0 && read[1] > 0, "reads go to both: {read:?}");
    assert_eq!(mirrored["members"][1]["id"], "hdd2");
}

/// One log serves two SSDs. Writes faster than `log_rate` bypass the log.
#[test]
fn shared_log_of_two_ssds_is_bypassed_above_log_rate() {
    let directory = std::env::temp_dir().join(format!("bimetal-two-ssds-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("tree.toml");
    let text = "[volume.pair]\nscheme='griffin'\nmembers={ ssd=['a','b'], log='disk' }\n\
                [drive.a]\nprofile='intel-x25-e-32gb'\nsize='1GiB'\n[drive.b]\nprofile='intel-x25-e-32gb'\n\
                size='8GiB'\n[drive.disk]\nprofile='toshiba-mg10-20tb'\nsize='4GiB'\n";
    std::fs::write(&file, text).unwrap();
    let run = |bypass: &str| {
        let (log_bypass, path) = (format!("log_bypass={bypass}"), file.to_str().unwrap());
        let settings = ["--set", &log_bypass, "--set", "log_rate=256KiB", "--set", "timeout=60s", "--json"];
        let (status, json, error) = bimetal(&[&["compare", "--config", path], settings.as_slice()].concat());
        assert_eq!(status, 0, "{error}");
        let mut document: Value = serde_json::from_str(&json).unwrap();
        document["runs"][0].take()
    };
    let written = |run: &Value| -> Vec<u64> {
        let members = run["members"].as_array().unwrap();
        members.iter().map(|member| member["write_bytes"].as_u64().unwrap()).collect()
    };
    let (off, on) = (run("off"), run("on"));
    assert!(off["bypass"].as_object().unwrap().is_empty(), "{}", off["bypass"]);
    assert!(on["bypass"]["log-rate"].as_u64().unwrap() > 0, "{}", on["bypass"]);
    assert!(written(&off)[0] + written(&off)[1] > 0, "what was logged migrates: {:?}", written(&off));
    assert!(written(&on)[2] < written(&off)[2], "less goes to the log");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_wrong_file_or_flag_says_what_was_expected() {
    let directory = std::env::temp_dir().join(format!("bimetal-trees-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("tree.toml");
    let path = file.to_str().unwrap();
    let refused = |text: &str, arguments: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let (status, _, error) = bimetal(&[&["compare", "--config", path, "--limit", "5000"], arguments].concat());
        assert_eq!(status, 1, "{error}");
        error
    };
    let small = "[volume.pair]\nscheme='raid1'\nmembers=['a','b']\n[drive.a]\nprofile='intel-x25-e-32gb'\n\
                 [drive.b]\nprofile='intel-x25-e-32gb'\nsize='2MiB'\n";
    let error = refused(small, &[]);
    assert!(error.contains("volume 'pair': raid1: member 'b' has 2 MiB: expected at least "), "{error}");
    assert!(error.contains("give it a larger size"), "{error}");
    let error = refused(&small.replace("'b']", "'c']"), &[]);
    assert!(error.contains("tree.toml: volume 'pair': key 'members': unknown member 'c'"), "{error}");
    let fits = small.replace("2MiB", "8GiB");
    let error = refused(&fits, &["--ssd", "intel-x25-e-32gb"]);
    assert!(error.contains("--ssd: only volumes of --config run"), "{error}");
    let error = refused(&fits, &["--set", "pair.strip=4KiB"]);
    assert!(error.contains("volume 'pair': raid1 has no parameter 'strip'"), "{error}");
    let cached = "[volume.fast]\nscheme='smart-response'\nmembers={ssd='s',hdd='h'}\n[drive.s]\nprofile='wd-blue-sn5000'\n\
                  size='10PiB'\n[drive.h]\nprofile='wd-red-plus'\n";
    let error = refused(cached, &[]);
    assert!(error.contains("fast: drive s: wd-blue-sn5000: capacity = 10240TiB: expected a size of"), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
    let (status, _, error) = bimetal(&["simulate", "trees.toml", "--config", "trees.toml"]);
    assert_eq!(status, 1);
    assert!(error.contains("expected one volume that is not a member of another, found 2"), "{error}");
}
