//! Spare area, by the cost of random writes on a used drive: L = n·WL + k·EL (Konanki, section
//! 5.2). The copies and erases of a write follow from the part of the flash that the host does not
//! see.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;

use super::Drive;
use crate::figures::{Extraction, Figure, Figures, quoted};
use crate::prober::Prober;
use crate::target::ModelTarget;
use crate::{ExtractError, Options};

/// Number of random writes that are timed together.
const WRITES: usize = 2500;
/// Largest number of batches: on any drive, and on a large drive, whose model would take much
/// memory.
const BATCHES: (usize, usize) = (24, 4);
/// Number of writes before the batches, to see how long a batch takes.
const PILOT: usize = 50;
/// Part of the budget after which no further batches are begun.
const SAMPLE_MAX: f64 = 0.1;
/// Number of sectors of a large drive: 64 GiB.
const LARGE: u64 = 1 << 27;
/// Number of writes at a time.
const DEPTH: usize = 16;

/// Random writes on the drive in its original state.
pub(super) struct Sample {
    writes: Vec<(OpKind, u64, u64)>,
    /// Nanoseconds of the last batch; `None` if no batch took longer than the first; no garbage had
    /// to be collected in that case.
    took: Option<f64>,
}

/// Writes at random places, until a batch takes as long as the batch before.
pub(super) fn sample(drive: &mut Drive<'_, '_>) -> Result<Sample, ExtractError> {
    let unit = drive.prober.grain.max(8);
    let most = if drive.prober.sectors > LARGE { BATCHES.1 } else { BATCHES.0 };
    let (mut writes, mut times) = (Vec::new(), Vec::new());
    // A slow drive needs its time for other figures.
    let started = drive.prober.used();
    let first: Vec<_> = (0..PILOT).map(|_| (OpKind::Write, drive.prober.anywhere(unit) / unit * unit, unit)).collect();
    drive.prober.batch(&first, DEPTH)?;
    let batch = (drive.prober.used() - started) * (WRITES / PILOT) as f64;
    writes.extend(first);
    while times.len() < most && drive.prober.used() + batch < SAMPLE_MAX {
        let anywhere = |_| (OpKind::Write, drive.prober.anywhere(unit) / unit * unit, unit);
        let batch: Vec<_> = (0..WRITES).map(anywhere).collect();
        times.push(last_writes(drive.prober, &batch)?);
        drive.prober.done(times.len() as f64 / most as f64);
        writes.extend(batch);
    }
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    drive.settle();
    Ok(Sample { writes, took: times.last().copied().filter(|last| *last > 1.3 * least) })
}

/// Measures the spare factor, and completes the figures with figures that timing does not show.
pub(super) fn measure(
    drive: &mut Drive<'_, '_>,
    sample: Option<&Sample>,
    extraction: &mut Extraction,
) -> Result<(), ExtractError> {
    let mut figures = Figures(extraction.figures.clone());
    figures.assumed("rated_cycles", "3000", "response times do not show this figure");
    let maps_units = figures.text("ftl").is_none();
    let time = drive.prober.step("spare area", 0.9);
    let known = sample.and_then(|sample| Some((&sample.writes, sample.took?)));
    let times = ["program_us", "erase_us", "pages_per_block", "write_buffer"];
    let times_known = times.into_iter().all(|key| figures.is_measured(key));
    let Some((writes, measured)) = known.filter(|_| time && maps_units && times_known) else {
        let why = match (maps_units, times_known) {
            (true, true) => "usual for drives: too few random writes to measure the figure",
            (true, false) => {
                "usual for drives: random writes show the figure only if times of programs and erases and the write \
                 buffer are known"
            }
            (false, _) => "usual for drives",
        };
        figures.assumed("spare_factor", "0.07", why);
        extraction.figures = figures.0;
        return Ok(());
    };
    extraction.figures = figures.0.clone();
    let mut trial = figures.0.clone();
    let mut spare = Figures::default();
    spare.assumed("spare_factor", "0.07", "on trial");
    trial.append(&mut spare.0);
    let profile = crate::read_back(&Extraction { figures: trial, ..extraction.clone() })?;
    let (mut low, mut high) = (0.01_f64, 0.5_f64);
    for step in 0..8 {
        if drive.prober.is_late() {
            drive.prober.leave_out("spare area");
            figures.assumed("spare_factor", "0.07", "no time");
            extraction.figures = figures.0;
            return Ok(());
        }
        drive.prober.done(f64::from(step) / 8.0);
        let middle = low.midpoint(high);
        // More spare area means fewer copies.
        match simulated(&profile, &[("spare_factor", &format!("{middle:.5}"))], writes)? {
            Some(time) if time < measured => high = middle,
            _ => low = middle,
        }
    }
    let factor = low.midpoint(high);
    let value = format!("{factor:.4}");
    let plain = simulated(&profile, &[("spare_factor", &value), ("erase_us", "0")], writes)?;
    let share = plain.map_or(0.0, |plain| (1.0 - plain / measured).max(0.0));
    let each = measured / WRITES as f64 / 1e3;
    let how = format!(
        "random writes everywhere take {each:.2} us each on the used drive, {:.1} % of it for erases; on the model \
         with this factor, too",
        share * 100.0
    );
    figures.number("spare_factor", factor, (high - low).max(0.03 * factor), how);
    extraction.figures = figures.0;
    Ok(())
}

/// Returns the nanoseconds that the last of `writes` took.
fn last_writes(prober: &mut Prober<'_>, writes: &[(OpKind, u64, u64)]) -> Result<f64, ExtractError> {
    let (first, second) = writes.split_at(writes.len() - WRITES);
    prober.batch(first, DEPTH)?;
    let times = prober.batch(second, DEPTH)?;
    let from = times.iter().map(|timed| timed.from).min().unwrap_or(0);
    Ok((times.iter().map(|timed| timed.to).max().unwrap_or(0) - from) as f64)
}

/// Returns the nanoseconds that the last of `writes` take on a used model with `changes`; `None` if
/// no such drive is possible.
fn simulated(
    profile: &Profile,
    changes: &[(&str, &str)],
    writes: &[(OpKind, u64, u64)],
) -> Result<Option<f64>, ExtractError> {
    let mut profile = profile.clone();
    let all = SectorRange { start: Sectors::ZERO, len: profile.capacity };
    if profile.set_all(changes.iter().copied()).is_err() {
        return Ok(None);
    }
    let Ok(model) = profile.build_preconditioned(None, Precondition::Random, all, 0) else { return Ok(None) };
    let mut target = ModelTarget::new(model);
    let mut report = |_| {};
    let options = Options { writes: true, budget: Nanoseconds::MAX, seed: 0 };
    last_writes(&mut Prober::new(&mut target, &options, &mut report), writes).map(Some)
}

/// Adds figures that are assumed if nothing was written.
pub(super) fn without_writes(figures: &mut Vec<Figure>) {
    let mut assumed = Figures::default();
    assumed.assumed("rated_cycles", "3000", "response times do not show this figure");
    assumed.assumed("spare_factor", "0.07", "only writes show it");
    assumed.assumed("ftl", quoted("page"), "only writes show it");
    figures.append(&mut assumed.0);
}
