//! Runs cases one after another, for hunting: `hunt SCHEME FIRST COUNT [KIND] [trace]` prints each
//! failure as it comes.
//!
//! KIND is `faults` (without power cuts, the default), `calm` (`faults` without faults), `cuts`
//! (with power cuts), `refusal` (with a member that refuses writes), `seed` (`faults`, `cuts` and
//! `refusal`) or `tree`. `trace` prints every request and operation.

use bimetal_core::schemes;
use bimetal_fault::tree::run_tree_case;
use bimetal_fault::{Options, run_case, run_crash_case, run_refusal_case, run_seed};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let word = |at: usize| arguments.get(at).map_or("", String::as_str);
    let number = |at: usize| word(at).parse().unwrap_or(0u64);
    let kind = word(4);
    let options =
        Options { faults: kind != "calm", trace: arguments.iter().any(|word| word == "trace"), ..Options::default() };
    std::panic::set_hook(Box::new(|info| eprintln!("  {info}")));
    for scheme in schemes::every().filter(|scheme| word(1) == scheme.name || word(1) == "all") {
        let mut failed = 0;
        for seed in (0..number(3)).map(|index| number(2).wrapping_add(index)) {
            eprint!("\r{} {seed}", scheme.name);
            let outcome = match kind {
                "cuts" => run_crash_case(scheme, seed, options),
                "refusal" => run_refusal_case(scheme, seed, options),
                "seed" => run_seed(scheme, seed, options),
                "tree" => run_tree_case(scheme, seed),
                _ => run_case(scheme, seed, options),
            };
            if let Err(failure) = outcome {
                failed += 1;
                println!("\n#### {failure}");
            }
        }
        println!("\n{}: {failed} of {} failed", scheme.name, number(3));
    }
}
