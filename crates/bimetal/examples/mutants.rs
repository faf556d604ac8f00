//! Runs the program on mutants of all sample traces: `mutants PROGRAM COUNT [SEED] [FOLDER]`.
//!
//! Each mutant goes through `analyze`, `mrc`, `simulate`, `compare` and `plan`. A run may end with
//! status 0, or with 1 and a message (`plan` also with 3), within ten seconds and 1 GiB of memory.
//! Every other run is printed with the seed of its mutant, which stays in the folder. The last line
//! has the number of mutants, and the worst time and memory of each command.

#[path = "../tests/mutation/mod.rs"]
mod mutation;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use mutation::{COMMANDS, Mutator, TIME_MAX, run, samples, with_options};

/// Worst figures of the runs of one command.
#[derive(Clone, Copy, Default)]
struct Worst {
    took: Duration,
    took_by: u64,
    memory: u64,
    memory_by: u64,
    refused: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise| arguments.get(at).map_or(Some(otherwise), |text: &String| text.parse().ok());
    let (Some(program), Some(count), Some(first)) = (arguments.first(), number(1, 1000), number(2, 1)) else {
        eprintln!("usage: mutants PROGRAM [COUNT] [SEED] [FOLDER]");
        return ExitCode::from(2);
    };
    let folder = arguments.get(3).map_or_else(|| std::env::temp_dir().join("bimetal-mutants"), PathBuf::from);
    std::fs::create_dir_all(&folder).expect("a folder for mutants");
    println!("{count} mutants from seed {first}, in {}", folder.display());
    let faults = soak(Path::new(program), first, count, &folder);
    ExitCode::from(u8::from(faults > 0))
}

fn soak(program: &Path, first: u64, count: u64, folder: &Path) -> u64 {
    let samples = samples(folder);
    let mut worst = [Worst::default(); COMMANDS.len()];
    let mut faults = 0;
    for seed in first..first + count {
        let (sample, bytes) = Mutator::new(seed).mutant(&samples);
        let trace = folder.join(format!("mutant-{seed}"));
        std::fs::write(&trace, &bytes).expect("room for a mutant");
        let mut keep = false;
        for (arguments, worst) in COMMANDS.iter().zip(&mut worst) {
            let outcome = run(program, &with_options(arguments, seed), &trace, TIME_MAX);
            worst.refused += u64::from(outcome.status.code() == Some(1));
            (worst.took, worst.took_by) = (worst.took, worst.took_by).max((outcome.took, seed));
            (worst.memory, worst.memory_by) = (worst.memory, worst.memory_by).max((outcome.memory, seed));
            if let Some(fault) = outcome.fault(arguments[0] == "plan", TIME_MAX) {
                println!("seed {seed} ({}): {}: {fault}: {}", samples[sample].name, arguments[0], outcome.said.trim());
                (faults, keep) = (faults + 1, true);
            }
        }
        let _ = std::fs::remove_file(trace.with_extension("err"));
        if !keep {
            let _ = std::fs::remove_file(&trace);
        }
        if (seed - first + 1).is_multiple_of(1000) || seed + 1 == first + count {
            tell(seed - first + 1, faults, &worst);
        }
    }
    faults
}

fn tell(mutants: u64, faults: u64, worst: &[Worst]) {
    println!("{mutants} mutants, {faults} faults");
    for (arguments, worst) in COMMANDS.iter().zip(worst) {
        let Worst { took, took_by, memory, memory_by, refused } = *worst;
        let (seconds, mib) = (took.as_secs_f64(), memory >> 20);
        println!(
            "  {:<9} {refused} refused; at most {seconds:.2} s of processors (seed {took_by}) and {mib} MiB (seed {memory_by})",
            arguments[0]
        );
    }
}
