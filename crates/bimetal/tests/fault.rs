//! The seeds of `bimetal fault`: the start of a run, and the line that reports it.

use std::process::{Command, Output};

fn fault(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bimetal"));
    command.args(["fault", "--scheme", "ssd-only"]).args(arguments).output().expect("the program runs")
}

fn lines(arguments: &[&str]) -> Vec<String> {
    let output = fault(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn totals_for_programs_are_those_of_the_table() {
    let table = lines(&["--seeds", "2"]).join("\n");
    let document: serde_json::Value =
        serde_json::from_str(&lines(&["--seeds", "2", "--json"]).join("\n")).expect("one document");
    assert_eq!((&document["schema"], &document["from"]), (&"bimetal/fault/2".into(), &0.into()));
    let scheme = &document["schemes"][0];
    assert_eq!(scheme["scheme"], "ssd-only");
    for total in [format!("{} requests", scheme["requests"]), format!("{} power cuts", scheme["power_cuts"])] {
        assert!(table.contains(&total), "{total}: {table}");
    }
}

/// Returns the start that a run printed first.
fn start(lines: &[String]) -> u64 {
    let number = lines.first().and_then(|line| line.strip_prefix("seeds from ")).expect("the start comes first");
    number.parse().expect("the start is a number")
}

/// Two runs over the same seeds do the same, so the sums over all seeds are the sums of the parts.
#[test]
fn seeds_go_on_from_zero_behind_the_greatest() {
    let around = lines(&["--from", "18446744073709551615", "--seeds", "3"]);
    assert_eq!(start(&around), u64::MAX);
    let requests = |lines: &[String]| {
        let line = lines.iter().find(|line| line.contains(" requests ")).expect("a line for the scheme");
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|&word| word == "requests").expect("requests are counted");
        words[at - 1].parse::<u64>().expect("a number of requests")
    };
    let greatest = lines(&["--seed", "18446744073709551615"]);
    let first = lines(&["--seeds", "2"]);
    assert!(!greatest[0].starts_with("seeds from"), "a seed alone has no start");
    assert_eq!(start(&first), 0);
    assert_eq!(requests(&around), requests(&greatest) + requests(&first));
}

#[test]
fn random_start_is_printed_and_repeats_the_run() {
    let random = lines(&["--from", "random", "--seeds", "2"]);
    let again = lines(&["--from", &start(&random).to_string(), "--seeds", "2"]);
    assert_eq!(random, again);
    let other = lines(&["--from", "random", "--seeds", "2"]);
    assert_ne!(start(&random), start(&other), "one in 2^64");
}

#[test]
fn start_that_is_no_number_is_refused() {
    let output = fault(&["--from", "here"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("expected a whole number"), "{told}");
}
