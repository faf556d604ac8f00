//! The commands that read a trace, on mutants of all sample traces. Each run ends within bounds of
//! time and memory, with figures or with a message. `make soak` runs 100,000 mutants through all of
//! them.

mod mutation;

use std::path::{Path, PathBuf};

use mutation::{COMMANDS, HANGING, Mutator, run, samples, with_options};

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// Number of mutants in the test; each runs through one of the commands, in turn.
const MUTANTS: u64 = 600;

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("bimetal-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn mutants_are_played_or_refused_within_bounds() {
    let folder = Folder::new("mutants");
    let samples = samples(&folder.0);
    let trace = folder.0.join("mutant");
    for seed in 1..=MUTANTS {
        let (sample, bytes) = Mutator::new(seed).mutant(&samples);
        std::fs::write(&trace, bytes).expect("room for a mutant");
        let arguments = with_options(COMMANDS[(seed % COMMANDS.len() as u64) as usize], seed);
        let outcome = run(Path::new(BIMETAL), &arguments, &trace, HANGING);
        if let Some(fault) = outcome.fault(arguments[0] == "plan", HANGING) {
            panic!("seed {seed} ({}): {}: {fault}: {}", samples[sample].name, arguments[0], outcome.said);
        }
    }
}

/// Regression: requests of 512 TiB in a trace of a few lines took 10 GiB and minutes, or failed.
/// The reasons were a mark for every region of home, an operation for every stripe, and a check of
/// every block.
#[test]
fn discards_of_any_size_cost_what_they_change() {
    let folder = Folder::new("discards");
    let trace = folder.0.join("trace");
    let mut text = String::from("time_ns,device,op,lba,sectors,fua,response_ns\n");
    for at in 0..300u64 {
        let operation = if at % 3 == 0 { "write" } else { "read" };
        text += &format!("{},0,{operation},{},8,0,\n", at * 1_000_000, at % 64 * 64);
    }
    text +=
        "400000000,0,discard,0,1099511627776,0,\n500000000,0,write,0,8,0,\n600000000,0,discard,8,1099511000000,0,\n";
    std::fs::write(&trace, text).expect("room for a trace");
    let schemes = [
        "hdd-only",
        "smart-response",
        "hybrid-disk",
        "griffin",
        "dataplex",
        "smq",
        "bcache",
        "writeboost",
        "hddboost",
        "hyperduo",
        "combo",
    ];
    let simulated = schemes.map(|scheme| vec!["simulate", "TRACE", "--scheme", scheme]);
    let others = [vec!["analyze", "TRACE"], vec!["plan", "TRACE", "--latency", "mean<1000s", "--schemes", "bcache"]];
    for arguments in simulated.iter().chain(&others) {
        let outcome = run(Path::new(BIMETAL), arguments, &trace, HANGING);
        let fault = outcome.fault(arguments[0] == "plan", HANGING);
        assert_eq!(fault, None, "{arguments:?}: {}", outcome.said);
        // Griffin's home is flash, and no flash drive is this large.
        let refused = outcome.said.contains("mapping units");
        assert!(outcome.status.success() || refused || arguments[0] == "plan", "{arguments:?}: {}", outcome.said);
    }
}

/// Regression: a discard of 4 TB was one operation for each range, which led to a panic.
#[test]
fn discard_of_a_whole_combo_drive_is_few_operations() {
    let folder = Folder::new("ranges");
    let trace = folder.0.join("trace");
    let text = "time_ns,device,op,lba,sectors,fua,response_ns\n0,0,write,0,8,0,\n1000000,0,discard,0,7814037168,0,\n\
                2000000,0,write,8,8,0,\n";
    std::fs::write(&trace, text).expect("room for a trace");
    let arguments = ["simulate", "TRACE", "--scheme", "combo", "--set", "strategy=frequency"];
    let outcome = run(Path::new(BIMETAL), &arguments, &trace, HANGING);
    assert_eq!(outcome.fault(false, HANGING), None, "{}", outcome.said);
    assert!(outcome.status.success(), "{}", outcome.said);
}

#[test]
fn transfers_above_256_mib_are_refused_or_skipped() {
    let folder = Folder::new("transfers");
    let trace = folder.0.join("trace");
    let text =
        "time_ns,device,op,lba,sectors,fua,response_ns\n0,0,read,8,8,0,\n5,0,write,8,524289,0,\n9,0,read,8,8,0,\n";
    std::fs::write(&trace, text).expect("room for a trace");
    for command in ["analyze", "mrc"] {
        let refused = run(Path::new(BIMETAL), &[command, "TRACE"], &trace, HANGING);
        assert_eq!(refused.status.code(), Some(1), "{}", refused.said);
        assert!(refused.said.contains(":3: size '524289 sectors': expected at most 524288 sectors (256 MiB)"));
        let skipped = run(Path::new(BIMETAL), &[command, "TRACE", "--skip-bad-lines"], &trace, HANGING);
        assert!(skipped.status.success() && skipped.said.contains("1 bad lines were skipped"), "{}", skipped.said);
    }
}
