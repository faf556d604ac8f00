//! Translation layer with the best fit among the models. The same writes go to the drive and to a
//! model of each layer with the measured figures, as Konanki (section 5.2) determined the layer of
//! his stick.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::{Body, Profile};

use super::{Drive, used};
use crate::figures::{Extraction, Figures, quoted};
use crate::prober::{Prober, Timed};
use crate::statistics::median;
use crate::target::ModelTarget;
use crate::{ExtractError, Options};

/// Translation layers with which the measurement compares the drive. The bounds `ideal` and
/// `simple`, and the bare medium, are not drives.
const LAYERS: [&str; 8] = ["page", "dftl", "page-in-place", "block", "log-block", "fast", "anand", "fmax"];
/// Numbers of pages in a block that are tried if erases did not show the number.
const BLOCKS: [u64; 6] = [8, 16, 32, 64, 128, 256];
/// Number of sectors that are overwritten: 4 MiB.
const WINDOW: u64 = 1 << 13;
/// Number of writes of each kind.
const WRITES: u64 = 600;
/// Smallest share of a write's duration that an erase must add to count; anything less is noise.
const ERASE_MIN: f64 = 0.1;
/// Greatest mean error of a layer's times at which the drive may have the layer.
const OFF_MAX: f64 = 0.1;
/// Greatest mean error with which a layer is also tried on places that have a spare block.
const RIVAL_MAX: f64 = 0.5;
/// Mean error below which a layer is accepted and no other is tried.
const OFF_GOOD: f64 = 0.05;
/// Ratio of errors below which a layer is better than another.
const ALIKE: f64 = 0.8;
/// Largest number of copied pages for which a model is filled. Layers that map whole pages are not
/// tried on a drive that needs more copies, because the filling would take long.
const COPIES_MAX: u64 = 20_000_000;
/// Figures that were measured on the assumption of page mapping.
const OF_PAGE_MAPPING: [&str; 9] = [
    "page_size",
    "planes_per_die",
    "pages_per_block",
    "program_us",
    "erase_us",
    "flush_us",
    "power_loss_protection",
    "write_buffer",
    "spare_factor",
];
/// Two erase times, whose difference gives the number of erases of a write.
const ERASE_US: [f64; 2] = [1000.0, 2000.0];

/// Number of sectors of the models on which the places of `used.rs` are tried: 32 MiB.
const USED_MODEL: u64 = 1 << 16;
/// Random starts of the models of a used drive, which differ in the number of free units.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Fit of a layer.
#[derive(Clone, Copy)]
struct Fit {
    layer: &'static str,
    state: Precondition,
    pages: Option<u64>,
    erase_us: Option<f64>,
    off: f64,
}

/// Determines the layer, and the figures that follow from it if erases were not observed before:
/// their time, and the pages of a block.
pub(super) fn measure(drive: &mut Drive<'_, '_>, extraction: &mut Extraction) -> Result<(), ExtractError> {
    let mut figures = Figures(extraction.figures.clone());
    if figures.text("ftl").is_some() {
        return Ok(());
    }
    if !figures.is_measured("program_us") {
        figures.assumed("ftl", quoted("page"), "the time to program is not known, so the layer cannot be seen");
        extraction.figures = figures.0;
        return Ok(());
    }
    let window = WINDOW.min(drive.region.1);
    let page = figures.sectors("page_size");
    if !drive.prober.step("translation layer", 0.98) {
        figures.assumed("ftl", quoted("page"), "no time");
        extraction.figures = figures.0;
        return Ok(());
    }
    let writes = script(drive.prober, window, page);
    let start = drive.region.0;
    let placed: Vec<_> = writes.iter().map(|(kind, lbn, sectors)| (*kind, start + lbn, *sectors)).collect();
    let measured = response_times(drive.prober, &placed)?;
    // If each write waits for the flash, erases show in response times.
    let unseen = figures.text("write_buffer") == Some("off");
    let mut trial = Figures(figures.0.clone());
    trial.assume_missing(&[("rated_cycles", "3000"), ("spare_factor", "0.07"), ("ftl", "\"page\"")]);
    let trial = trial.0;
    let profile = crate::read_back(&Extraction { figures: trial, ..extraction.clone() })?;
    let blocks: Vec<Option<u64>> = if unseen { BLOCKS.map(Some).to_vec() } else { vec![None] };
    let trial = Trial { profile: &profile, writes: &writes, measured: &measured, window };
    let best = best_of(drive.prober, &trial, &blocks)?;
    match best {
        Some((fit, rivals)) => {
            let other = another(&fit, &rivals);
            let (fit, other) = match unseen && (other.is_some() || fit.off > OFF_MAX) {
                true => trial.of_used_drive(drive.prober, &rivals, page)?.unwrap_or((fit, other)),
                false => (fit, other),
            };
            conclude(&mut figures, &fit, other);
            if unseen && figures.text("timing") == Some("serial") {
                let note = used::erases_note(drive.prober, &figures);
                extraction.notes.extend(drive.prober.unless_late(note)?.flatten());
            }
        }
        None => figures.assumed("ftl", quoted("page"), "no layer of the models could be tried"),
    }
    extraction.figures = figures.0;
    Ok(())
}

/// Returns the layer with the best fit, as far as time permits, and all fits within [`RIVAL_MAX`],
/// the best first. Each layer is tried on a model of a used and of a clean drive, with each of
/// `blocks` as pages of a block. A trial takes computing time only, and sends no commands to the
/// drive. No other layer is tried after a good fit.
fn best_of(
    prober: &mut Prober<'_>,
    trial: &Trial<'_>,
    blocks: &[Option<u64>],
) -> Result<Option<(Fit, Vec<Fit>)>, ExtractError> {
    let states = [Precondition::Random, Precondition::Clean];
    let (mut fits, all) = (Vec::<Fit>::new(), LAYERS.len() * blocks.len() * states.len());
    let variants = LAYERS.into_iter().flat_map(|layer| blocks.iter().map(move |pages| (layer, *pages)));
    let variants = variants.flat_map(|(layer, pages)| states.map(|state| (layer, pages, state)));
    for (at, (layer, pages, state)) in variants.enumerate() {
        if prober.is_past(1.0, "some translation layers") {
            break;
        }
        prober.done(at as f64 / all as f64);
        let Some(fit) = trial.fit(layer, pages, state)? else { continue };
        let enough = fit.pages.is_none() && fit.off < OFF_GOOD;
        fits.push(fit);
        if enough {
            break;
        }
    }
    let least = fits.iter().map(|fit| fit.off).fold(f64::MAX, f64::min);
    // Of equal fits, the first is chosen.
    let Some(at) = fits.iter().position(|fit| fit.off <= least / ALIKE) else { return Ok(None) };
    let best = fits[at];
    let mut rivals: Vec<Fit> = fits.into_iter().filter(|fit| fit.off <= RIVAL_MAX).collect();
    rivals.sort_by(|one, two| one.off.total_cmp(&two.off));
    Ok(Some((best, rivals)))
}

/// Returns a layer that fits as well as the layer of `best`, but is another layer.
fn another(best: &Fit, fits: &[Fit]) -> Option<&'static str> {
    let other = fits.iter().find(|fit| fit.layer != best.layer && fit.off <= best.off.max(OFF_GOOD) / ALIKE);
    other.map(|fit| fit.layer)
}

fn conclude(figures: &mut Figures, fit: &Fit, other: Option<&str>) {
    let off = fit.off * 100.0;
    let how = format!("best fit of all layers: response times are {off:.1} % off in the mean");
    match other {
        _ if fit.off > OFF_MAX && fit.pages.is_none() => {
            let why = format!("no layer of the models fits: {} is {off:.1} % off in the mean", fit.layer);
            figures.assumed("ftl", quoted("page"), why);
        }
        _ if fit.off > OFF_MAX => {
            figures.assumed("ftl", quoted(fit.layer), format!("{how}, so the drive has another layer"))
        }
        Some(other) => figures.assumed("ftl", quoted(fit.layer), format!("{how}, and {other} fits equally well")),
        None => figures.found("ftl", quoted(fit.layer), how),
    }
    if fit.pages.is_none() && fit.off <= OFF_MAX && fit.layer != "page" && other != Some("page") {
        figures.doubt(&OF_PAGE_MAPPING, "the drive does not map pages as expected, so the figure cannot be seen");
    }
    if !figures.is_measured("ftl") {
        figures.doubt(
            &["spare_factor"],
            "random writes show the figure only with the drive's layer, and no layer of the models fits",
        );
    }
    // Without an erase blocks do not show either: the assumed figure stays.
    let (Some(pages), Some(erase_us)) = (fit.pages, fit.erase_us) else { return };
    let is_measured = figures.is_measured("ftl");
    let mut replace = |key: &str, value: String, how: &str| {
        figures.0.retain(|figure| figure.key != key);
        match is_measured {
            true => figures.found(key, value, how),
            false => {
                figures.assumed(key, value, "best of the values that were tried, with a layer that is not the drive's")
            }
        }
    };
    replace("pages_per_block", pages.to_string(), "fits best, with the translation layer");
    let how = "additional time of writes for each erase that they cause on the model";
    replace("erase_us", format!("{erase_us:.2}"), how);
}

/// Returns writes in order, random writes, and repeated writes to few places, all within `window`
/// sectors from zero on; first the whole window once.
fn script(prober: &mut Prober<'_>, window: u64, page: u64) -> Vec<(OpKind, u64, u64)> {
    let pages = (window / page).max(1);
    let mut writes: Vec<u64> = (0..pages).collect();
    writes.extend((0..WRITES).map(|_| prober.random(pages)));
    writes.extend((0..WRITES / 2).map(|at| at % pages));
    writes.extend((0..WRITES / 2).map(|_| prober.random(pages.min(16))));
    writes.into_iter().map(|number| (OpKind::Write, number * page, page)).collect()
}

fn response_times(prober: &mut Prober<'_>, writes: &[(OpKind, u64, u64)]) -> Result<Vec<f64>, ExtractError> {
    let timed = writes.iter().map(|(kind, lbn, sectors)| prober.run(*kind, *lbn, *sectors, false));
    Ok(timed.collect::<Result<Vec<_>, _>>()?.into_iter().map(Timed::ns).collect())
}

/// Input of the trials of layers.
struct Trial<'a> {
    profile: &'a Profile,
    writes: &'a [(OpKind, u64, u64)],
    measured: &'a [f64],
    window: u64,
}

impl Trial<'_> {
    /// Returns the fit of one layer, on a used or clean drive; `None` if it makes no drive.
    fn fit(&self, layer: &'static str, pages: Option<u64>, state: Precondition) -> Result<Option<Fit>, ExtractError> {
        let mut simulated = Vec::new();
        let trials: &[f64] = if pages.is_some() { &ERASE_US } else { &[0.0] };
        for erase_us in trials {
            match self.simulate(layer, pages, state, pages.map(|_| *erase_us))? {
                Some(times) => simulated.push(times),
                None => return Ok(None),
            }
        }
        // The window is filled first; only later writes count.
        let from = self.measured.len() - 2 * WRITES as usize;
        let (measured, plain) = (&self.measured[from..], &simulated[0][from..]);
        let Some(slower) = simulated.get(1).map(|times| &times[from..]) else {
            return Ok(Some(Fit { layer, state, pages, erase_us: None, off: off(measured, plain.iter().copied()) }));
        };
        let per_erase = (ERASE_US[1] - ERASE_US[0]) * 1e3;
        let erases: Vec<f64> = slower.iter().zip(plain).map(|(one, other)| (one - other) / per_erase).collect();
        let without = plain.iter().zip(&erases).map(|(time, erases)| time - erases * ERASE_US[0] * 1e3);
        let without: Vec<f64> = without.collect();
        // The remaining time of each write that erases is divided by its erases. The median is
        // taken, as writes may erase on the drive and not on the model, or the reverse, if their
        // states differ.
        let left = measured.iter().zip(&without).zip(&erases).filter(|(_, erases)| **erases > 0.5);
        let mut each: Vec<f64> = left.map(|((measured, without), erases)| (measured - without) / erases).collect();
        let erase_ns = median(&mut each).max(0.0);
        let expected = without.iter().zip(&erases).map(|(time, erases)| time + erases * erase_ns);
        let write_ns = measured.iter().sum::<f64>() / measured.len().max(1) as f64;
        let erase_us = Some(erase_ns / 1e3).filter(|_| erase_ns > ERASE_MIN * write_ns);
        Ok(Some(Fit { layer, state, pages, erase_us, off: off(measured, expected) }))
    }

    /// Returns the layer that fits best among `rivals`, which fit about equally well, on the places
    /// of `used.rs`, and another layer with an equal fit; `None` if no time is left.
    fn of_used_drive(
        &self,
        prober: &mut Prober<'_>,
        rivals: &[Fit],
        page: u64,
    ) -> Result<Option<(Fit, Option<&'static str>)>, ExtractError> {
        let measured = used::response_times(prober, page);
        let Some(measured) = prober.unless_late(measured)? else { return Ok(None) };
        let mut fits = Vec::<Fit>::new();
        for rival in rivals {
            if fits.iter().any(|fit| (fit.layer, fit.state) == (rival.layer, rival.state)) {
                continue;
            }
            let mut models = Vec::new();
            for seed in SEEDS {
                let Some(mut target) =
                    self.model(rival.layer, rival.pages, rival.state, rival.erase_us, USED_MODEL, seed)
                else {
                    continue;
                };
                let options = Options { writes: true, budget: Nanoseconds::MAX, seed };
                models.push(used::response_times(&mut Prober::new(&mut target, &options, &mut |_| {}), page)?);
            }
            fits.push(Fit { off: used::least_off(&measured, &models), ..*rival });
        }
        fits.sort_by(|one, two| one.off.total_cmp(&two.off));
        let Some(&best) = fits.first() else { return Ok(None) };
        let other = another(&best, &fits);
        Ok(Some((best, other)))
    }

    /// Runs the writes on a model of a part of the drive, with another layer.
    fn simulate(
        &self,
        layer: &str,
        pages: Option<u64>,
        state: Precondition,
        erase_us: Option<f64>,
    ) -> Result<Option<Vec<f64>>, ExtractError> {
        let Some(mut target) = self.model(layer, pages, state, erase_us, 4 * self.window, 0) else { return Ok(None) };
        let mut report = |_| {};
        let options = Options { writes: true, budget: Nanoseconds::MAX, seed: 0 };
        response_times(&mut Prober::new(&mut target, &options, &mut report), self.writes).map(Some)
    }

    /// Returns a model of `sectors` sectors of the drive, with another layer; `None` if it makes no
    /// drive.
    fn model(
        &self,
        layer: &str,
        pages: Option<u64>,
        state: Precondition,
        erase_us: Option<f64>,
        sectors: u64,
        seed: u64,
    ) -> Option<ModelTarget> {
        let Body::Flash(flash) = &self.profile.body else { return None };
        let pages = pages.unwrap_or(u64::from(flash.pages_per_block));
        let dies = u64::from(flash.channels) * u64::from(flash.dies_per_channel);
        let block = flash.page_size.0.sectors().0 * u64::from(flash.planes_per_die) * pages * dies;
        // A part of the drive is enough, if it holds the window several times.
        let blocks = sectors.div_ceil(block).max(64);
        // Each page that is written may copy a block.
        let per_block = pages * u64::from(flash.planes_per_die);
        if !["page", "dftl"].contains(&layer) && dies * blocks * per_block * per_block > COPIES_MAX {
            return None;
        }
        let blocks = blocks.to_string();
        let mut profile = self.profile.clone();
        let (pages, erase) = (pages.to_string(), erase_us.unwrap_or(flash.erase_us).to_string());
        // The layer must be possible on the whole drive, too.
        let whole = [("ftl", layer), ("pages_per_block", &*pages), ("erase_us", &*erase)];
        if profile.set_all(whole).is_err() || profile.set("blocks_per_plane", &blocks).is_err() {
            return None;
        }
        let all = SectorRange { start: Sectors::ZERO, len: profile.capacity };
        profile.build_preconditioned(None, state, all, seed).ok().map(ModelTarget::new)
    }
}

/// Returns the mean error of `expected`, as a fraction. Differences between the sorted times count
/// fully, and differences write by write count half.
fn off(measured: &[f64], expected: impl Iterator<Item = f64>) -> f64 {
    let total: f64 = measured.iter().sum();
    let expected: Vec<f64> = expected.collect();
    let apart = |one: &[f64], other: &[f64]| -> f64 { one.iter().zip(other).map(|(a, b)| (a - b).abs()).sum() };
    let single = apart(measured, &expected);
    let (mut one, mut other) = (measured.to_vec(), expected);
    one.sort_by(f64::total_cmp);
    other.sort_by(f64::total_cmp);
    (single + apart(&one, &other)) / 2.0 / total.max(1.0)
}
