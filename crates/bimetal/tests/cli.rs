//! The contract of the command line: help and messages, word for word; traces on standard input.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

#[test]
fn help_and_messages_are_what_they_were() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

#[test]
fn the_commands_of_readme_and_manual_do_what_they_say() {
    trycmd::TestCases::new().case("../../README.md").case("../../docs/*.md");
}

/// Returns a trace of this project.
fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/office-server.bin.zst")
}

/// Runs the program with `input` on its standard input, a pipe.
fn piped(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(BIMETAL);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    // A program that stops early closes the pipe.
    let _ = pipe.write_all(input);
    drop(pipe);
    child.wait_with_output().expect("the program ends")
}

/// Returns the JSON of a command without the differences between two runs: the name of the trace,
/// the command line, and the time that the run took.
fn figures(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    document["trace"]["name"].take();
    document["command"].take();
    document.pointer_mut("/runs/0/run").map(serde_json::Value::take);
    document
}

#[test]
fn piped_trace_gives_the_figures_of_the_file() {
    let path = sample().display().to_string();
    let content = fs::read(&path).expect("the sample");
    for command in [&["analyze", "--json"][..], &["simulate", "--scheme", "hdd-only", "--json"]] {
        let piped = piped(&[&command[..1], &["-"], &command[1..]].concat(), &content);
        let mut of_file = Command::new(BIMETAL);
        let of_file = of_file.arg(command[0]).arg(&path).args(&command[1..]).output().expect("the program runs");
        assert!(figures(&piped) == figures(&of_file), "{command:?}: other figures than of the file");
    }
}

#[test]
fn piped_trace_is_converted_and_a_redirected_file_too() {
    let directory = std::env::temp_dir().join(format!("bimetal-piped-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a folder for the test");
    let (one, other) = (directory.join("piped.csv"), directory.join("redirected.csv"));
    let output = piped(&["convert", "-", &one.display().to_string()], &fs::read(sample()).expect("the sample"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let input = File::open(sample()).expect("the sample");
    let status = Command::new(BIMETAL).arg("convert").arg("-").arg(&other).stdin(input).status();
    assert!(status.expect("the program runs").success());
    let text = fs::read_to_string(&one).expect("the trace");
    assert_eq!(text.lines().count(), 53_806 + 1, "all requests of the sample, and the header");
    assert_eq!(text, fs::read_to_string(&other).expect("the trace"));
    fs::remove_dir_all(directory).expect("the folder is removed");
}

#[test]
fn standard_input_without_a_trace_is_refused_by_its_name() {
    for (command, input, expected) in [
        (&["analyze", "-"][..], &b""[..], "standard input: is empty, expected a trace of block I/O"),
        (&["compare", "-"], b"", "standard input: is empty, expected a trace of block I/O"),
        (&["analyze", "-"], b"Dear diary,\n", "standard input: unknown format: line 1 is 'Dear diary,'"),
        (&["validate", "-", "--hdd", "disksim-ibm18es"], b"", "standard input: expected a file"),
    ] {
        let output = piped(command, input);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {told}");
        assert!(told.starts_with(&format!("error: {expected}")), "{command:?}: {told}");
    }
}

/// A script finds out from the first key of a document its kind, and whether the script knows its
/// schema.
#[test]
fn json_documents_begin_with_their_schema() {
    let trace = sample().display().to_string();
    let trace = trace.as_str();
    let page = include_str!("../../../docs/json.md");
    for (name, arguments) in [
        ("schemes", vec!["schemes", "--json"]),
        ("formats", vec!["formats", "--json"]),
        ("profiles", vec!["profiles", "--json"]),
        ("catalog", vec!["catalog", "show", "--json"]),
        ("analyze", vec!["analyze", trace, "--json"]),
        ("mrc", vec!["mrc", trace, "--sizes", "1MiB", "--json"]),
        ("simulate", vec!["simulate", trace, "--scheme", "hdd-only", "--json"]),
        ("plan", vec!["plan", trace, "--schemes", "hdd-only", "--json"]),
        ("compare", vec!["compare", trace, "--schemes", "hdd-only", "--json"]),
        ("reproduce", vec!["reproduce", "combo", "--json"]),
        ("compare-traces", vec!["compare", trace, trace, "--schemes", "hdd-only", "--json"]),
    ] {
        assert!(page.contains(&format!("`bimetal/{name}/2`")), "docs/json.md does not name {name}");
        let output = Command::new(BIMETAL).args(&arguments).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let begin = format!("{{\n  \"schema\": \"bimetal/{name}/2\",\n");
        assert!(text.starts_with(&begin), "{arguments:?}: {text:.200}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{arguments:?}");
    }
}

/// Regression: a program whose standard error could not be written, because its file system was
/// full, ended with a panic in place of the status of its error.
#[test]
fn error_that_cannot_be_printed_keeps_its_status() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
    let status = Command::new(BIMETAL).args(["analyze", "no-such-trace"]).stderr(full).status().expect("it starts");
    assert_eq!(status.code(), Some(1));
}
