//! The training set: synthetic workloads over the five characteristics, on the SSD alone, simulated.
//!
//! The drive is made small, so that some ten thousand requests overwrite all of it, in such a way that it behaves as the whole
//! one ([`small`]). A workload begins on a drive in the steady state of random writes over the working set, overwrites the
//! working set twice with its own writes, and is measured from then on: a model is to know what a drive does in its life, and
//! not in its first minute.

use bimetal_core::operation::{Command, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_models::flash::{FlashProfile, Precondition};
use bimetal_models::profile::{Body, Profile};
use bimetal_models::{DeviceModel, Finished};
use bimetal_trace::Request;
use bimetal_trace::synthetic::{Generator, Interarrival, SizeMix, SpecError, WorkloadSpec};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rayon::prelude::*;

use super::{Behaviour, Characteristics, ModelError};

/// Workloads in the training set of the paper (section 4.4).
pub const WORKLOADS: usize = 900;

/// The smallest and the largest drive that stands for the real one.
const DRIVE: (Bytes, Bytes) = (Bytes(64 << 20), Bytes(128 << 20));

/// Blocks that a plane of it should have: the collector's reserve is then a small part of the spare area, as on the whole drive.
const BLOCKS_PER_PLANE: u32 = 128;

/// How often the working set is overwritten before anything is measured.
const PASSES: u64 = 2;

/// Bytes that are written while it is measured, and between how many requests.
const MEASURED_BYTES: u64 = 48 << 20;
const MEASURED_REQUESTS: (u64, u64) = (2_000, 20_000);

/// Addresses of generated workloads are multiples of this.
const ALIGNMENT: u64 = 4096;

/// From where to where each characteristic goes in a training set, evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spans {
    /// Share of sequential requests.
    pub sequentiality: (f64, f64),
    /// Mean size in sectors.
    pub request_sectors: (f64, f64),
    /// Mean time between arrivals in milliseconds.
    pub interarrival_ms: (f64, f64),
    /// Working set over flash.
    pub utilisation: (f64, f64),
    /// Share of reads.
    pub read_fraction: (f64, f64),
}

impl Spans {
    /// Those of the paper's table 3 with room on both sides: it has 0.03 to 0.7, 6.6 to 116 sectors, 80 to 322 ms (which figure 7
    /// divides by 8), 0.58 to 0.94.
    pub const PAPER: Self = Self {
        sequentiality: (0.0, 0.9),
        request_sectors: (2.0, 128.0),
        interarrival_ms: (20.0, 400.0),
        utilisation: (0.2, 0.95),
        read_fraction: (0.0, 0.9),
    };

    /// The paper's, moved to where `workload` is: ten times as fast at one end as at the other, and up to twice its requests.
    pub fn around(workload: &Characteristics) -> Self {
        let third = 10_f64.sqrt();
        Self {
            interarrival_ms: (workload.interarrival_ms / third, workload.interarrival_ms * third),
            request_sectors: (2.0, f64::max(Self::PAPER.request_sectors.1, 2.0 * workload.request_sectors)),
            ..Self::PAPER
        }
    }

    /// In the order of [`Characteristics::NAMES`].
    pub fn all(&self) -> [(f64, f64); 5] {
        [self.sequentiality, self.request_sectors, self.interarrival_ms, self.utilisation, self.read_fraction]
    }

    fn draw(&self, random: &mut Pcg64) -> Characteristics {
        let [sequentiality, request_sectors, interarrival_ms, utilisation, read_fraction] =
            self.all().map(|(low, high)| low + (high - low) * (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        Characteristics { sequentiality, request_sectors, interarrival_ms, utilisation, read_fraction }
    }
}

/// A workload and what the drive did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The workload as it came out, not as it was asked for.
    pub workload: Characteristics,
    /// What was simulated.
    pub measured: Behaviour,
}

/// `count` workloads drawn from `spans`, simulated on `profile` made small, one a core. The same on any number of cores.
/// `progress` is told of each that is over.
///
/// # Errors
/// The drive is no flash, or cannot be made small.
pub fn samples(
    profile: &Profile,
    spans: &Spans,
    count: usize,
    seed: u64,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Sample>, ModelError> {
    let (drive, size) = small(profile)?;
    let workloads = (0..count).into_par_iter().with_max_len(1).map(|number| {
        let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number as u64);
        let sample = measure(&drive, size, &spans.draw(&mut Pcg64::seed_from_u64(seed)), seed);
        progress();
        sample
    });
    workloads.collect()
}

/// `profile` as a drive that is quick to overwrite, and its size: the smallest that keeps all dies with blocks enough,
/// or the largest that is quick enough.
///
/// # Errors
/// The drive is no flash, or cannot be made small.
pub fn small(profile: &Profile) -> Result<(Profile, Bytes), ModelError> {
    let flash = flash_of(profile)?;
    let dies = flash.channels * flash.dies_per_channel * flash.planes_per_die;
    let keeps_all = |size: &Bytes| {
        flash.geometry(profile.capacity, Some(size.sectors())).is_ok_and(|geometry| {
            let own = geometry.channels * geometry.dies_per_channel * geometry.planes_per_die;
            own == dies
                && geometry.blocks_per_plane >= BLOCKS_PER_PLANE
                && geometry.pages_per_block == flash.pages_per_block
        })
    };
    let sizes = std::iter::successors(Some(DRIVE.0), |size| Some(Bytes(size.0 * 2)));
    let size = sizes.take_while(|size| size.0 <= DRIVE.1.0).find(keeps_all).unwrap_or(DRIVE.1);
    Ok((sized(profile, size)?, size))
}

/// `profile` with what grows with a drive in proportion to `size`: the memory for DFTL's map and the cache of single bits.
/// Its own size is no part of a profile, and is to be given when it is built.
///
/// # Errors
/// The drive is no flash, or is left without what it needs.
pub fn sized(profile: &Profile, size: Bytes) -> Result<Profile, ModelError> {
    let flash = flash_of(profile)?;
    let part = size.0 as f64 / profile.capacity.bytes().0 as f64;
    let mut sized = profile.clone();
    let map_cache = (flash.map_cache.0.0 as f64 * part) as u64;
    sized.set("map_cache", &Bytes(map_cache.max(16)).to_string())?;
    if let Some((_, cache, _)) = profile.figures().find(|(key, ..)| *key == "slc_cache")
        && let Ok(cache) = cache.trim_matches('"').parse::<Bytes>()
    {
        let whole = (cache.0 as f64 * part) as u64 / ALIGNMENT * ALIGNMENT;
        sized.set("slc_cache", &Bytes(whole).to_string())?;
    }
    Ok(sized)
}

fn flash_of(profile: &Profile) -> Result<&FlashProfile, ModelError> {
    match &profile.body {
        Body::Flash(flash) => Ok(flash),
        Body::Hdd(_) => Err(ModelError::NoFlash(profile.name.clone())),
    }
}

/// Bytes of a block of the whole drive.
pub fn block_bytes(flash: &FlashProfile) -> f64 {
    f64::from(flash.pages_per_block) * flash.page_size.0.0 as f64
}

/// Simulates a workload with these characteristics on `profile` made `size` large, alone.
///
/// # Errors
/// The drive is no flash or cannot have that size, or the workload does not fit on it.
pub fn measure(profile: &Profile, size: Bytes, wanted: &Characteristics, seed: u64) -> Result<Sample, ModelError> {
    let footprint = footprint(size, wanted.utilisation);
    let sizes = sizes_around(wanted.request_sectors)?;
    let bytes = wanted.request_sectors * 512.0;
    let writes = |bytes_written: u64| (bytes_written as f64 / bytes).ceil();
    let common = WorkloadSpec {
        size: sizes,
        sequential: wanted.sequentiality,
        interarrival: Interarrival::Poisson(Nanoseconds((wanted.interarrival_ms * 1e6) as u64)),
        ..WorkloadSpec::new(1, footprint)
    };
    let warmup = writes(footprint.0 * PASSES) as u64;
    let measured = writes(MEASURED_BYTES) / (1.0 - wanted.read_fraction).max(0.01);
    let measured = (measured as u64).clamp(MEASURED_REQUESTS.0, MEASURED_REQUESTS.1);
    let phases = [
        WorkloadSpec { requests: warmup, read_fraction: 0.0, ..common.clone() },
        WorkloadSpec { requests: measured, read_fraction: wanted.read_fraction, ..common },
    ];
    let requests: Vec<Request> = Generator::new(&phases, seed)?.collect();
    let flash = flash_of(profile)?;
    let geometry = flash.geometry(profile.capacity, Some(size.sectors()));
    let physical = geometry.map_or(0.0, |geometry| geometry.physical_bytes().0 as f64);
    let used = SectorRange::new(0, footprint.sectors().0);
    let drive = profile.build_preconditioned(Some(size.sectors()), Precondition::Random, used, seed)?;
    let (response_ms, erases_per_block_s) = Alone::new(drive, &requests, warmup as usize).play();
    let workload = Characteristics::of(&requests[warmup as usize..], footprint.0 as f64 / size.0 as f64);
    let erases_per_s = erases_per_block_s * physical / block_bytes(flash);
    Ok(Sample { workload, measured: Behaviour { response_ms, erases_per_s } })
}

/// A working set that fills this part of a drive of `size`.
pub(super) fn footprint(size: Bytes, utilisation: f64) -> Bytes {
    Bytes((size.0 as f64 * utilisation) as u64 / ALIGNMENT * ALIGNMENT)
}

/// Sizes of four kinds whose mean is `sectors`: from a fourth of it to twice, the small ones as frequent as the large.
pub(super) fn sizes_around(sectors: f64) -> Result<SizeMix, SpecError> {
    let one = |part: f64| (sectors * part).round().max(1.0) as u64 * 512;
    let mix = [0.25, 0.5, 1.25, 2.0].map(|part| format!("{}B:0.25", one(part)));
    mix.join(",").parse()
}

/// A drive without a volume.
struct Alone<'a> {
    model: Box<dyn DeviceModel>,
    requests: &'a [Request],
    /// The request from which on is measured.
    first: usize,
    /// Milliseconds of all measured requests, and how many of them are over.
    response_ms: f64,
    count: usize,
    finished: Vec<Finished>,
}

impl<'a> Alone<'a> {
    fn new(model: Box<dyn DeviceModel>, requests: &'a [Request], first: usize) -> Self {
        Self { model, requests, first, response_ms: 0.0, count: 0, finished: Vec::new() }
    }

    /// The mean response time in milliseconds, and how often a block is erased in a second on average.
    fn play(mut self) -> (f64, f64) {
        let mut before = (0.0, Nanoseconds::ZERO);
        for (number, request) in self.requests.iter().enumerate() {
            self.advance(request.arrival);
            if number == self.first {
                before = (self.erased(request.arrival), request.arrival);
            }
            let command = Command { kind: request.kind, range: request.range, fua: false };
            self.model.submit(request.arrival, Token(number as u64), command);
        }
        let mut now = self.requests.last().map_or(Nanoseconds::ZERO, |request| request.arrival);
        let (erased, span) = (self.erased(now) - before.0, (now - before.1).as_seconds_f64());
        while self.count < self.requests.len() - self.first {
            let Some(at) = self.model.next_event() else { break };
            now = now.max(at);
            self.advance(now);
        }
        (self.response_ms / self.count.max(1) as f64, erased / span.max(f64::MIN_POSITIVE))
    }

    fn advance(&mut self, now: Nanoseconds) {
        self.model.advance(now, &mut self.finished);
        for finished in self.finished.drain(..) {
            let number = finished.token.0 as usize;
            if number >= self.first {
                self.response_ms += finished.at.saturating_sub(self.requests[number].arrival).as_millis_f64();
                self.count += 1;
            }
        }
    }

    /// Erases of a block on average.
    fn erased(&self, now: Nanoseconds) -> f64 {
        self.model.statistics(now).flash.map_or(0.0, |flash| flash.erase_count.mean)
    }
}
