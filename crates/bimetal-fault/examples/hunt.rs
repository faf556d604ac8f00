//! Runs cases one after another to hunt for defects. `hunt SCHEME FIRST COUNT [KIND] [trace]`
//! prints each failure at once.
//!
//! KIND is one of:
//! - `faults`: without power cuts, the default;
//! - `calm`: `faults` without faults;
//! - `cuts`: with power cuts;
//! - `refusals`: with a member that refuses writes;
//! - `damage`: with pages damaged at rest;
//! - `scrubs`: with scrubs;
//! - `all`: all of these except `calm`;
//! - `tree`: trees of volumes.
//!
//! `trace` prints every request and operation.

use bimetal_core::schemes;
use bimetal_fault::tree::run_tree_case;
use bimetal_fault::{CaseKind, Options, run_seed};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let word = |at: usize| arguments.get(at).map_or("", String::as_str);
    let number = |at: usize| word(at).parse().unwrap_or(0u64);
    let kind = word(4);
    let only = CaseKind::ALL.into_iter().find(|known| known.name() == kind);
    let only = only.or((kind != "all").then_some(CaseKind::Faults));
    let trace = arguments.iter().any(|word| word == "trace");
    let options = Options { faults: kind != "calm", trace, only, ..Options::default() };
    std::panic::set_hook(Box::new(|info| eprintln!("  {info}")));
    for scheme in schemes::every().filter(|scheme| word(1) == scheme.name || word(1) == "all") {
        let mut failed = 0;
        for seed in (0..number(3)).map(|index| number(2).wrapping_add(index)) {
            eprint!("\r{} {seed}", scheme.name);
            let outcome = if kind == "tree" { run_tree_case(scheme, seed) } else { run_seed(scheme, seed, options) };
            if let Err(failure) = outcome {
                failed += 1;
                println!("\n#### {failure}");
            }
        }
        println!("\n{}: {failed} of {} failed", scheme.name, number(3));
    }
}
