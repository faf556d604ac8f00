//! Rates of the models that are made from the rows of `drives/`, beside those of their data sheets:
//! `cargo run --release -p bimetal-plan --example data_sheets` lists each rate that differs, or
//! with words, all rates of the drives whose names contain one of them.

use bimetal_plan::drives::{built_in, model, rated};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (mut checked, mut wrong) = (0, 0);
    for drive in built_in().iter().flat_map(|file| &file.drives) {
        if !words.is_empty() && !words.iter().any(|word| drive.name.contains(word)) {
            continue;
        }
        for (at, size) in drive.sizes.iter().enumerate() {
            let profile = match model::profile(drive, at) {
                Ok(profile) => profile,
                Err(reason) => {
                    println!("{} {}: no model: {reason}", drive.name, size.text);
                    continue;
                }
            };
            let rates = match rated::measure(drive, at, &profile) {
                Ok(rates) => rates,
                Err(error) => {
                    println!("{} {}: {error}", drive.name, size.text);
                    continue;
                }
            };
            for rate in rates {
                checked += 1;
                wrong += usize::from(!rate.is_near());
                if !words.is_empty() || !rate.is_near() {
                    let (name, difference) = (&drive.name, 100.0 * rate.difference());
                    println!(
                        "{name} {}: {} = {:.0}, by its data sheet {} ({difference:+.0} %)",
                        size.text, rate.key, rate.model, rate.sheet
                    );
                }
            }
        }
    }
    println!("{wrong} of {checked} rates differ");
}
