//! Leave-one-out table of the drives with a segmented buffer.
//!
//! Each rule of the model that its authors chose is chosen anew for each drive, on the other six
//! drives of DiskSim's validation set. The table of docs/hdd-model.md is the output of
//! `cargo run --release -p bimetal-sim --example leave_one_out`. The traces of the measured drives
//! stand in `../shared/validation/disksim`; without them the program says so and ends.

use bimetal_core::units::Nanoseconds;
use bimetal_models::hdd::SegmentedHdd;
use bimetal_models::profile::Profile;
use bimetal_sim::validation::{Agreement, Pace, Sample, read_validate_trace, replay};

/// Measured drives, with DiskSim's rms demerit in milliseconds.
const DRIVES: [(&str, f64); 7] = [
    ("barracuda", 0.347863),
    ("cheetah4LP", 0.318228),
    ("ibm18es", 0.136072),
    ("atlas10k", 0.267525),
    ("hp_c2247a", 0.089288),
    ("hp_c3323a", 0.305182),
    ("dec_rz26", 0.340575),
];

/// Data of a write that the drive needs before it writes the first sector: a share of the write, or
/// the drive's low water mark (`None`). The first entry is DiskSim's rule.
const SHARES: [(Option<f64>, &str); 6] = [
    (Some(0.0), "first sector"),
    (Some(0.25), "1/4"),
    (Some(0.5), "1/2"),
    (Some(0.75), "3/4"),
    (Some(1.0), "all"),
    (None, "low water mark"),
];

/// Choice of all rules. Equal results leave a rule as DiskSim's parameter file has it.
#[derive(Clone, Copy)]
struct Choice {
    /// Index in [`SHARES`].
    share: usize,
    /// Set if the flags for zero-latency access are followed.
    zero_latency: bool,
    /// Set if the flag for sectors that pass before the requested sectors is followed.
    free_sectors: bool,
}

fn choices() -> Vec<Choice> {
    let mut choices = Vec::new();
    for zero_latency in [true, false] {
        for free_sectors in [true, false] {
            choices.extend((0..SHARES.len()).map(|share| Choice { share, zero_latency, free_sectors }));
        }
    }
    choices
}

/// Returns the rms demerit of the drive under `choice`.
fn demerit_ms(name: &str, choice: Choice, samples: &[Sample]) -> f64 {
    let profile = Profile::load(&format!("disksim-{name}")).expect("a built-in profile is tested");
    let figures = profile.hdd().expect("a disk");
    let mut controller = figures.controller.clone().expect("a drive with a segmented buffer");
    controller.write_watermark = SHARES[choice.share].0.unwrap_or(controller.write_watermark);
    controller.zero_latency_read &= choice.zero_latency;
    controller.zero_latency_write &= choice.zero_latency;
    controller.keeps_free_sectors &= choice.free_sectors;
    let mut drive = SegmentedHdd::new(figures, &controller, profile.capacity, profile.capacity).expect("a valid drive");
    let simulated: Vec<Nanoseconds> = replay(&mut drive, samples, Pace::Closed);
    let measured: Vec<_> = samples.iter().map(|sample| sample.measured).collect();
    Agreement::of(&measured, &simulated).expect("a trace with requests").rms_demerit_ms
}

fn main() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/validation/disksim");
    let choices = choices();
    // Demerits by drive and choice.
    let mut demerits: Vec<Vec<f64>> = Vec::new();
    for (name, _) in DRIVES {
        let file = format!("{folder}/{name}.trace");
        let Ok(text) = std::fs::read_to_string(&file) else {
            println!("skipped: no {file}");
            return;
        };
        let samples = read_validate_trace(&text, name).expect("a trace of DiskSim").expect("a trace of DiskSim");
        demerits.push(choices.iter().map(|choice| demerit_ms(name, *choice, &samples)).collect());
    }
    let shipped = choices
        .iter()
        .position(|choice| SHARES[choice.share].0.is_none() && choice.zero_latency && choice.free_sectors);
    println!(
        "| drive | DiskSim | as shipped | chosen on the other six | data before the first sector | zero latency | free sectors |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (left_out, (name, disksim_ms)) in DRIVES.iter().enumerate() {
        let chosen = chosen_without(left_out, &demerits);
        let Choice { share, zero_latency, free_sectors } = choices[chosen];
        let on = |on: bool| if on { "on" } else { "off" };
        println!(
            "| {name} | {disksim_ms:.3} | {:.3} | {:.3} | {} | {} | {} |",
            demerits[left_out][shipped.expect("the shipped rules are a choice")],
            demerits[left_out][chosen],
            SHARES[share].1,
            on(zero_latency),
            on(free_sectors)
        );
    }
}

/// Returns the choice with the least mean logarithm of the demerit over all drives but `left_out`.
/// A choice must be better by more than rounding to replace an earlier one.
fn chosen_without(left_out: usize, demerits: &[Vec<f64>]) -> usize {
    let score = |choice: usize| -> f64 {
        let others = demerits.iter().enumerate().filter(|(drive, _)| *drive != left_out);
        others.map(|(_, of_drive)| of_drive[choice].ln()).sum()
    };
    let mut best = 0;
    for choice in 1..demerits[left_out].len() {
        if score(choice) < score(best) - 1e-9 {
            best = choice;
        }
    }
    best
}
