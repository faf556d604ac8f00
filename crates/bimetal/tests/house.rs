//! House rules that a compiler cannot check.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Finds every file below `directory` whose name ends with one of `endings`, except in folders of
/// built or fetched files.
fn files(directory: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a folder of the project can be read") {
        let path = entry.expect("a folder of the project can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "node_modules", "corpus", "vendor"].contains(&name.as_str()) {
                files(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

fn below(directory: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(&root().join(directory), endings, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no {endings:?} in '{directory}'");
    let named = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        fs::read_to_string(&path).ok().map(|text| (name, text))
    };
    found.into_iter().filter_map(named).collect()
}

#[test]
fn the_core_knows_no_files_no_network_no_threads_and_no_clock() {
    for (name, text) in below("crates/bimetal-core/src", &[".rs"]) {
        for forbidden in ["std::fs", "std::net", "std::thread", "std::time", "std::process", "Instant", "SystemTime"] {
            let line = text.lines().find(|line| line.contains(forbidden) && !line.trim_start().starts_with("//"));
            assert!(line.is_none(), "{name} uses {forbidden}: {}", line.unwrap_or_default());
        }
    }
}

#[test]
fn no_source_file_is_longer_than_900_lines() {
    for (name, text) in below("crates", &[".rs"]) {
        let lines = text.lines().count();
        assert!(lines <= 900, "{name} has {lines} lines: split it by what its parts are about");
    }
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    // The words are put together here, so that this file does not match itself.
    let homes = [["/ro", "ot/"], ["/wo", "rk/"], ["/ho", "me/"], ["/Us", "ers/"]].map(|parts| parts.concat());
    for (name, text) in below("", &[".rs", ".toml", ".md", ".sh", ".py", ".js", "Makefile", "run", "test", "fuzz"]) {
        for home in &homes {
            let line = text.lines().find(|line| line.contains(home.as_str()));
            assert!(line.is_none(), "{name} names {home}: {}", line.unwrap_or_default());
        }
    }
}

#[test]
fn every_crate_states_the_licence_and_the_lints_of_the_workspace() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
    assert!(workspace.contains("license = \"MIT OR Apache-2.0\""));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = fs::read_to_string(root().join(licence)).expect("both licences are there");
        assert!(text.contains("The Bimetal authors"), "{licence}");
    }
    for entry in fs::read_dir(root().join("crates")).expect("there are crates") {
        let manifest = entry.expect("there are crates").path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("every crate has a manifest");
        assert!(text.contains("license.workspace = true"), "{} states no licence", manifest.display());
        assert!(text.contains("[lints]\nworkspace = true"), "{} has not the lints", manifest.display());
    }
}

#[test]
fn no_unfinished_code_and_no_ignored_test_is_left() {
    // The words are put together here, so that this file does not match itself.
    let forbidden = [["to", "do!("], ["unimple", "mented!("], ["#[ign", "ore"], ["FIX", "ME"], ["TO", "DO"]];
    for (name, text) in below("crates", &[".rs"]) {
        for word in forbidden.map(|parts| parts.concat()) {
            assert!(!text.contains(&word), "{name} has {word}");
        }
    }
}
