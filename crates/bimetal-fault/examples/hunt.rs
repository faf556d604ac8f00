//! Runs cases one after another, for hunting: `hunt SCHEME FIRST COUNT [calm|trace]` prints each failure as it
//! comes, and with `trace` everything that happens.

use bimetal_core::schemes;
use bimetal_fault::{Options, run_case};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let faults = arguments.get(4).is_none_or(|word| word != "calm");
    let trace = arguments.get(4).is_some_and(|word| word == "trace");
    std::panic::set_hook(Box::new(|info| eprintln!("  {info}")));
    for scheme in
        schemes::every().filter(|scheme| arguments.get(1).is_some_and(|name| name == scheme.name || name == "all"))
    {
        let mut failed = 0;
        for seed in number(2)..number(2) + number(3) {
            eprint!("\r{} {seed}", scheme.name);
            if let Err(failure) = run_case(scheme, seed, Options { faults, trace, ..Options::default() }) {
                failed += 1;
                println!("\n#### {failure}");
            }
        }
        println!("\n{}: {failed} of {} failed", scheme.name, number(3));
    }
}
