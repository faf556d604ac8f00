//! House rules that a compiler cannot check.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A crate or module, and the crates or modules that it may use.
type Arrows = (&'static str, &'static [&'static str]);

/// The crates, from the lowest up, and the crates that each may depend on. docs/architecture.md has
/// the picture.
const CRATES: &[Arrows] = &[
    ("bimetal-core", &[]),
    ("bimetal-measure", &["bimetal-core"]),
    ("bimetal-models", &["bimetal-core"]),
    ("bimetal-trace", &["bimetal-core"]),
    // Files lie where a trace's map of files says.
    ("bimetal-mover", &["bimetal-trace"]),
    ("bimetal-fault", &["bimetal-core"]),
    ("bimetal-sim", &["bimetal-core", "bimetal-measure", "bimetal-models", "bimetal-trace"]),
    ("bimetal-plan", &["bimetal-core", "bimetal-measure", "bimetal-models", "bimetal-sim", "bimetal-trace"]),
    (
        "bimetal-papers",
        &["bimetal-core", "bimetal-measure", "bimetal-models", "bimetal-plan", "bimetal-sim", "bimetal-trace"],
    ),
    // Emulated drives have the times of a model.
    ("bimetal-device", &["bimetal-core", "bimetal-models"]),
    // The status of a volume has figures and lifetimes, as a simulation does.
    ("bimetal-volumes", &["bimetal-core", "bimetal-device", "bimetal-measure", "bimetal-models"]),
    // Recordings of requests are traces.
    ("bimetal-serve", &["bimetal-core", "bimetal-device", "bimetal-measure", "bimetal-trace", "bimetal-volumes"]),
    // `extract` opens drives as the server does.
    ("bimetal-extract", &["bimetal-core", "bimetal-device", "bimetal-models"]),
    (
        "bimetal",
        &[
            "bimetal-core",
            "bimetal-device",
            "bimetal-extract",
            "bimetal-fault",
            "bimetal-measure",
            "bimetal-models",
            "bimetal-mover",
            "bimetal-papers",
            "bimetal-plan",
            "bimetal-serve",
            "bimetal-sim",
            "bimetal-trace",
            "bimetal-volumes",
        ],
    ),
];

/// The modules of bimetal-core, from the lowest up, and the modules that each may import.
const ROOMS: &[Arrows] = &[
    ("units", &[]),
    ("bit_set", &[]),
    ("delta_set", &["bit_set"]),
    ("mixing", &[]),
    ("operation", &["units"]),
    ("payload", &["units"]),
    ("settings", &["units"]),
    ("block", &["units"]),
    ("member", &["block", "units"]),
    ("block_map", &["bit_set", "block", "delta_set", "mixing"]),
    // Records of the journal name slots of the map.
    ("journal", &["bit_set", "block", "block_map", "units"]),
    // The table of places lies in pages of the journal's form.
    ("places", &["block", "journal", "member", "units"]),
    // A layout leaves room for the journal and for the table of places.
    ("layout", &["block", "journal", "member", "places", "units"]),
    ("label", &["block", "journal", "layout", "units"]),
    ("guard", &["label", "operation", "payload", "units"]),
    ("scheme", &["block", "block_map", "layout", "operation", "settings", "units"]),
    (
        "policies",
        &["bit_set", "block", "block_map", "delta_set", "layout", "mixing", "operation", "scheme", "settings", "units"],
    ),
    (
        "schemes",
        &[
            "bit_set",
            "block",
            "block_map",
            "layout",
            "mixing",
            "operation",
            // Combo chooses the ranges that change their places.
            "places",
            "policies",
            "scheme",
            "settings",
            "units",
        ],
    ),
    // A volume calls its scheme by the trait: it imports no scheme and no policy.
    (
        "volume",
        &[
            "bit_set",
            "block",
            "block_map",
            "delta_set",
            "journal",
            // Findings of bad content go into the report.
            "label",
            "layout",
            "operation",
            "payload",
            "places",
            "scheme",
            "settings",
            "units",
        ],
    ),
    ("tree", &["layout", "operation", "payload", "scheme", "units", "volume"]),
];

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
fn every_crate_states_the_workspace_licence_and_lints() {
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

/// Compares the arrows that exist with `allowed`, in which no arrow may point up.
fn assert_arrows(allowed: &[Arrows], found: &BTreeMap<String, BTreeMap<String, String>>) {
    for (row, (name, uses)) in allowed.iter().enumerate() {
        let below: BTreeSet<&str> = allowed[..row].iter().map(|(name, _)| *name).collect();
        let above = uses.iter().find(|used| !below.contains(*used));
        assert!(above.is_none(), "the table lets {name} use {}, which is not below it", above.unwrap_or(&""));
    }
    let listed: BTreeSet<&str> = allowed.iter().map(|(name, _)| *name).collect();
    let there: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(listed, there, "the table in tests/house.rs (left) lists all that there is (right)");
    for (name, uses) in allowed {
        let found = &found[*name];
        for (used, place) in found {
            assert!(
                uses.contains(&used.as_str()),
                "{place}: {name} uses {used}, which the table in tests/house.rs does not allow: move the code, or add the \
                 arrow to the table and to docs/architecture.md, with its reason"
            );
        }
        let unused = uses.iter().find(|used| !found.contains_key(**used));
        assert!(unused.is_none(), "{name} no longer uses {}: take it out of the table", unused.unwrap_or(&""));
    }
}

/// Returns the crates of this workspace that a manifest names as dependencies, except for tests.
fn dependencies_in(manifest: &str) -> BTreeSet<String> {
    let mut counts = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-");
        } else if counts && line.starts_with("bimetal") {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn crates_depend_only_on_the_crates_in_the_table() {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).expect("there are crates") {
        let entry = entry.expect("there are crates");
        let name = entry.file_name().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).expect("every crate has a manifest");
        let place = format!("crates/{name}/Cargo.toml");
        let uses = dependencies_in(&manifest).into_iter().map(|used| (used, place.clone())).collect();
        found.insert(name, uses);
    }
    assert_arrows(CRATES, &found);
}

/// Regression: the key of a sweep left out the crate that computes percentiles, so results of two
/// builds were mixed.
#[test]
fn key_of_a_sweep_has_the_sources_of_every_crate_behind_it() {
    let script = fs::read_to_string(root().join("crates/bimetal/build.rs")).expect("the build has a script");
    let mut behind = vec!["bimetal-plan".to_owned()];
    for at in 0.. {
        let Some(name) = behind.get(at).cloned() else { break };
        assert!(script.contains(&format!("\"../{name}/src\"")), "{name} is missing in SOURCES of build.rs");
        let manifest = root().join("crates").join(&name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("every crate has a manifest");
        let new: Vec<String> = dependencies_in(&manifest).into_iter().filter(|used| !behind.contains(used)).collect();
        behind.extend(new);
    }
    assert!(behind.len() > 4, "{behind:?}");
}

/// Returns the lines of a source file that are code of the program: no comments, and nothing from
/// the file's tests on.
fn lines_of_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("mod tests {").next().unwrap_or_default();
    code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns the modules that a line names by their paths from the crate's root.
fn rooms_in(line: &str) -> impl Iterator<Item = &str> {
    line.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// Finds the modules below a crate's root, and the modules that each names in its code.
fn modules_below(source: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (name, text) in below(source, &[".rs"]) {
        let path = name.strip_prefix(source).expect("the path begins with the folder").trim_end_matches("/mod.rs");
        let modules: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        if ["lib", "testing"].contains(&modules[0]) || modules.last().is_some_and(|last| last.ends_with("tests")) {
            continue;
        }
        let uses = found.entry(modules[0].to_owned()).or_default();
        for (at, line) in lines_of_code(&text) {
            let to_the_root = "super::".repeat(modules.len());
            assert!(!line.contains(&to_the_root), "{name}:{}: name a module from the root as crate::…", at + 1);
            for used in rooms_in(line).filter(|used| *used != modules[0]) {
                assert!(!used.is_empty(), "{name}:{}: one line for each module that is imported", at + 1);
                uses.entry(used.to_owned()).or_insert_with(|| format!("{name}:{}", at + 1));
            }
        }
    }
    found
}

#[test]
fn core_modules_import_only_the_modules_in_the_table() {
    assert_arrows(ROOMS, &modules_below("crates/bimetal-core/src/"));
}

/// Returns the modules that use each other in a circle, and the modules that use them, with the
/// places.
fn circles(mut modules: BTreeMap<String, BTreeMap<String, String>>) -> BTreeMap<String, BTreeMap<String, String>> {
    loop {
        let names: BTreeSet<String> = modules.keys().cloned().collect();
        modules.values_mut().for_each(|uses| uses.retain(|used, _| names.contains(used)));
        let before = modules.len();
        modules.retain(|_, uses| !uses.is_empty());
        if modules.len() == before {
            return modules;
        }
    }
}

#[test]
fn modules_of_drives_volumes_and_server_form_no_circle() {
    for name in ["bimetal-device", "bimetal-volumes", "bimetal-serve"] {
        let modules = modules_below(&format!("crates/{name}/src/"));
        assert!(modules.len() > 4, "{name}: {modules:?}");
        let circles = circles(modules);
        assert!(circles.is_empty(), "{name}: modules use each other in a circle: {circles:#?}");
    }
}

/// Returns the modules of `volume/` that a line names, in a file from which `to_the_volume` leads
/// to the module `volume`.
fn volume_modules_in<'a>(line: &'a str, to_the_volume: &str) -> impl Iterator<Item = &'a str> {
    let rests = line.split("crate::volume::").skip(1).chain(line.split(to_the_volume).skip(1));
    let names = rests.flat_map(|rest| {
        let list = rest.strip_prefix('{').and_then(|list| list.split('}').next());
        list.unwrap_or(rest.split([';', ',']).next().unwrap_or_default()).split(", ")
    });
    names.map(|name| name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default())
}

#[test]
fn modules_of_the_volume_form_no_circle() {
    let source = "crates/bimetal-core/src/volume/";
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (name, text) in below(source, &[".rs"]) {
        let path = name.strip_prefix(source).expect("the path begins with the folder").trim_end_matches("/mod.rs");
        let modules: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        if modules[0] == "mod" || modules.last().is_some_and(|last| last.ends_with("tests")) {
            continue;
        }
        let uses = found.entry(modules[0].to_owned()).or_default();
        for (at, line) in lines_of_code(&text) {
            for used in volume_modules_in(line, &"super::".repeat(modules.len())).filter(|used| *used != modules[0]) {
                uses.entry(used.to_owned()).or_insert_with(|| format!("{name}:{}", at + 1));
            }
        }
    }
    assert!(found.len() > 40 && found["scrub"].contains_key("scrub_home"), "{found:?}");
    let circles = circles(found);
    assert!(circles.is_empty(), "modules of the volume use each other in a circle: {circles:#?}");
}

#[test]
fn circle_of_modules_is_found_and_a_line_of_them_is_none() {
    let uses = |used: &str| BTreeMap::from([(used.to_owned(), "place".to_owned())]);
    let line = BTreeMap::from([("server".to_owned(), uses("metrics")), ("metrics".to_owned(), BTreeMap::new())]);
    assert!(circles(line.clone()).is_empty());
    let mut circle = line;
    circle.insert("metrics".to_owned(), uses("server"));
    assert_eq!(circles(circle).len(), 2);
}

#[test]
fn arrows_are_found_in_code_and_not_in_tests_or_comments() {
    let text = "//! [`crate::tree`]\nuse crate::units::Bytes;\nfn f(v: &crate::volume::Volume) {}\n\
                #[cfg(test)]\nmod tests {\n    use crate::schemes;\n}\n";
    let rooms: Vec<&str> = lines_of_code(text).flat_map(|(_, line)| rooms_in(line)).collect();
    assert_eq!(rooms, ["units", "volume"]);
    let manifest = "[package]\nname = \"bimetal-x\"\n[dependencies]\nbimetal-core.workspace = true\nserde = \"1\"\n\
                    bimetal-sim = { path = \"x\" }\n[dev-dependencies]\nbimetal-fault.workspace = true\n";
    assert_eq!(dependencies_in(manifest), ["bimetal-core", "bimetal-sim"].map(str::to_owned).into());
}

/// Returns the names in backquotes, outside blocks of text.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    let text = page.split("```").step_by(2);
    text.flat_map(|text| text.lines()).flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn architecture_page_names_only_files_and_functions_that_exist() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("there is a page of the architecture");
    let sources = below("crates", &[".rs"]);
    let (mut paths, mut functions) = (0, 0);
    for name in quoted(&page) {
        if name.ends_with(".rs") {
            let exists = ["", "crates/bimetal-core/src/"].iter().any(|folder| {
                let path = format!("{folder}{name}");
                sources.iter().any(|(source, _)| *source == path)
            });
            assert!(exists, "docs/architecture.md names {name}, which does not exist");
            paths += 1;
        } else if let Some(function) = name.strip_suffix("()") {
            let forms = [format!("fn {function}("), format!("fn {function}<")];
            let exists = sources.iter().any(|(_, text)| forms.iter().any(|form| text.contains(form)));
            assert!(exists, "docs/architecture.md names {name}, and no function has that name");
            functions += 1;
        }
    }
    assert!(paths > 50 && functions > 50, "{paths} files and {functions} functions are named");
}

#[test]
fn architecture_page_shows_each_crate_and_core_module() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("there is a page of the architecture");
    let words: BTreeSet<&str> =
        page.split(|letter: char| !letter.is_alphanumeric() && !"_-".contains(letter)).collect();
    for (name, _) in CRATES.iter().chain(ROOMS) {
        assert!(words.contains(name), "docs/architecture.md does not show {name}");
    }
}

/// Returns the name of the test that begins at line `at`, if a test does.
fn test_at<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    lines[at].trim().starts_with("#[test]").then_some(())?;
    let name = |line: &&'a str| line.trim().strip_prefix("fn ")?.split(['(', '<']).next();
    lines[at + 1..].iter().take(6).find_map(name)
}

#[test]
fn test_names_have_at_most_60_characters() {
    for (name, text) in below("crates", &[".rs"]) {
        let lines: Vec<&str> = text.lines().collect();
        let tests = (0..lines.len()).filter_map(|at| test_at(&lines, at));
        let long: Vec<&str> = tests.filter(|test| test.len() > 60).collect();
        assert!(
            long.is_empty(),
            "{name}: a test's name says subject, verb and condition, its story is a comment: {long:?}"
        );
    }
}

#[test]
fn comments_have_at_most_100_columns() {
    let mut found = String::new();
    for (name, text) in below("crates", &[".rs"]) {
        let long = |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > 100;
        text.lines().filter(long).for_each(|line| found += &format!("{name}: {line}\n"));
    }
    assert!(found.is_empty(), "{found}");
}

/// The first word of a doc comment is the subject or the verb of the documented item. The one
/// sentence above the whole command line is a question.
#[test]
fn doc_comments_begin_with_their_subject_or_verb() {
    const NOT_FIRST: [&str; 10] = ["What", "Whether", "How", "Who", "That", "Where", "Which", "Why", "When", "If"];
    let is_doc = |line: &str| line.starts_with("/// ") || line.starts_with("//! ");
    for (name, text) in below("crates", &[".rs"]) {
        let mut before = "";
        for line in text.lines().map(str::trim_start) {
            let first = line.split_whitespace().nth(1).unwrap_or_default();
            let wrong = is_doc(line) && !is_doc(before) && NOT_FIRST.contains(&first);
            assert!(!wrong || line.starts_with("/// What will an SSD and an HDD"), "{name}: {line}");
            before = line;
        }
    }
}
