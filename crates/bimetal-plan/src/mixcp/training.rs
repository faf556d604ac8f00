//! The training set: synthetic workloads over the five characteristics, simulated on the SSD alone.
//!
//! The drive is made small, so that some ten thousand requests overwrite all of it, and still
//! behaves like the whole drive ([`small`]). A workload begins in the steady state of random writes
//! over the working set. The workload then overwrites the working set twice with its own writes,
//! and is measured after that. So the model learns the behaviour of a used drive, not of a new
//! drive.

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

/// Number of workloads in the training set of the paper (MixedStore, section 4.4).
pub const WORKLOADS: usize = 900;

/// Smallest and largest size of the drive that stands for the real drive.
const DRIVE: (Bytes, Bytes) = (Bytes(64 << 20), Bytes(128 << 20));

/// Blocks that a plane of the small drive should have. With so many blocks the collector's reserve
/// is a small part of the spare area, as on the whole drive.
const BLOCKS_PER_PLANE: u32 = 128;

/// Number of times that the working set is overwritten before measurement.
const PASSES: u64 = 2;

/// Bytes written during measurement, and the limits of the number of measured requests.
const MEASURED_BYTES: u64 = 48 << 20;
const MEASURED_REQUESTS: (u64, u64) = (2_000, 20_000);

/// Alignment of the addresses of generated workloads, in bytes.
const ALIGNMENT: u64 = 4096;

/// Span of each characteristic in a training set. Values are drawn uniformly from the span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spans {
    /// Share of sequential requests.
    pub sequentiality: (f64, f64),
    /// Mean size in sectors.
    pub request_sectors: (f64, f64),
    /// Mean time between arrivals in milliseconds.
    pub interarrival_ms: (f64, f64),
    /// Working set divided by the size of the flash.
    pub utilisation: (f64, f64),
    /// Share of reads.
    pub read_fraction: (f64, f64),
}

impl Spans {
    /// Spans of the paper's table 3, with room on both sides. The table has sequentialities of 0.03
    /// to 0.7, sizes of 6.6 to 116 sectors, and utilisations of 0.58 to 0.94. The times in table 3
    /// are 80 to 322 ms, which figure 7 divides by 8.
    pub const PAPER: Self = Self {
        sequentiality: (0.0, 0.9),
        request_sectors: (2.0, 128.0),
        interarrival_ms: (20.0, 400.0),
        utilisation: (0.2, 0.95),
        read_fraction: (0.0, 0.9),
    };

    /// Returns the paper's spans, shifted so that they include `workload`. Arrivals are ten times
    /// as fast at one end of their span as at the other end. Requests are at most twice as large as
    /// the requests of the workload.
    pub fn around(workload: &Characteristics) -> Self {
        let third = 10_f64.sqrt();
        Self {
            interarrival_ms: (workload.interarrival_ms / third, workload.interarrival_ms * third),
            request_sectors: (2.0, f64::max(Self::PAPER.request_sectors.1, 2.0 * workload.request_sectors)),
            ..Self::PAPER
        }
    }

    /// Returns the spans in the order of [`Characteristics::NAMES`].
    pub fn all(&self) -> [(f64, f64); 5] {
        [self.sequentiality, self.request_sectors, self.interarrival_ms, self.utilisation, self.read_fraction]
    }

    fn draw(&self, random: &mut Pcg64) -> Characteristics {
        let [sequentiality, request_sectors, interarrival_ms, utilisation, read_fraction] =
            self.all().map(|(low, high)| low + (high - low) * (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        Characteristics { sequentiality, request_sectors, interarrival_ms, utilisation, read_fraction }
    }
}

/// A training workload, and the behaviour of the drive under this workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Characteristics of the generated workload, which differ a little from the requested
    /// characteristics.
    pub workload: Characteristics,
    /// Simulated behaviour.
    pub measured: Behaviour,
}

/// Simulates `count` workloads drawn from `spans` on `profile` made small, one per core. The result
/// does not depend on the number of cores. Calls `progress` after each workload.
///
/// # Errors
/// Returns an error if the drive is not flash, or cannot be made small.
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

/// Returns `profile` as a drive that is quick to overwrite, and its size. The size is the smallest
/// that keeps all dies with enough blocks. If no size has enough blocks, the returned size is the
/// largest size that is quick enough to overwrite.
///
/// # Errors
/// Returns an error if the drive is not flash, or cannot be made small.
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

/// Scales the figures of `profile` that are proportional to a drive's size down to `size`: the
/// memory for DFTL's map and the SLC cache. The size itself is not part of a profile: the caller
/// gives it when the drive is built.
///
/// # Errors
/// Returns an error if the drive is not flash, or a scaled figure is invalid.
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
        Body::Hdd(_) | Body::Cloud(_) => Err(ModelError::NoFlash(profile.name.clone())),
    }
}

/// Returns the bytes of a block of the whole drive.
pub fn block_bytes(flash: &FlashProfile) -> f64 {
    f64::from(flash.pages_per_block) * flash.page_size.0.0 as f64
}

/// Simulates a workload with the given characteristics on `profile` with `size` bytes; the drive is
/// used without a volume.
///
/// # Errors
/// Returns an error if the drive is not flash or cannot have that size, or the workload does not
/// fit on it.
pub fn measure(profile: &Profile, size: Bytes, wanted: &Characteristics, seed: u64) -> Result<Sample, ModelError> {
    Ok(measure_with_median(profile, size, wanted, seed)?.0)
}

/// Does as [`measure`]. Returns the median response time in milliseconds, too.
///
/// # Errors
/// Returns the same errors as [`measure`].
pub fn measure_with_median(
    profile: &Profile,
    size: Bytes,
    wanted: &Characteristics,
    seed: u64,
) -> Result<(Sample, f64), ModelError> {
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
    let (mut times_ms, erases_per_block_s) = Alone::new(drive, &requests, warmup as usize).play();
    let response_ms = times_ms.iter().sum::<f64>() / times_ms.len().max(1) as f64;
    times_ms.sort_by(f64::total_cmp);
    let median_ms = times_ms.get(times_ms.len() / 2).copied().unwrap_or_default();
    let workload = Characteristics::of(&requests[warmup as usize..], footprint.0 as f64 / size.0 as f64);
    let erases_per_s = erases_per_block_s * physical / block_bytes(flash);
    Ok((Sample { workload, measured: Behaviour { response_ms, erases_per_s } }, median_ms))
}

/// Returns the bytes of a working set that fills the share `utilisation` of a drive.
pub fn footprint(size: Bytes, utilisation: f64) -> Bytes {
    Bytes((size.0 as f64 * utilisation) as u64 / ALIGNMENT * ALIGNMENT)
}

/// Returns a mix of four request sizes whose mean is `sectors`: a fourth, a half, five fourths and
/// twice the mean, all equally frequent.
pub fn sizes_around(sectors: f64) -> Result<SizeMix, SpecError> {
    let one = |part: f64| (sectors * part).round().max(1.0) as u64 * 512;
    let mix = [0.25, 0.5, 1.25, 2.0].map(|part| format!("{}B:0.25", one(part)));
    mix.join(",").parse()
}

/// A drive without a volume, under a workload.
struct Alone<'a> {
    model: Box<dyn DeviceModel>,
    requests: &'a [Request],
    /// Number of the first measured request.
    first: usize,
    /// Response times of the finished measured requests, in milliseconds.
    times_ms: Vec<f64>,
    finished: Vec<Finished>,
}

impl<'a> Alone<'a> {
    fn new(model: Box<dyn DeviceModel>, requests: &'a [Request], first: usize) -> Self {
        Self { model, requests, first, times_ms: Vec::new(), finished: Vec::new() }
    }

    /// Plays all requests. Returns the response times in milliseconds, and the mean erases per
    /// block and second.
    fn play(mut self) -> (Vec<f64>, f64) {
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
        while self.times_ms.len() < self.requests.len() - self.first {
            let Some(at) = self.model.next_event() else { break };
            now = now.max(at);
            self.advance(now);
        }
        (self.times_ms, erased / span.max(f64::MIN_POSITIVE))
    }

    fn advance(&mut self, now: Nanoseconds) {
        self.model.advance(now, &mut self.finished);
        for finished in self.finished.drain(..) {
            let number = finished.token.0 as usize;
            if number >= self.first {
                self.times_ms.push(finished.at.saturating_sub(self.requests[number].arrival).as_millis_f64());
            }
        }
    }

    /// Returns the mean number of erases per block, in rated cycles.
    fn erased(&self, now: Nanoseconds) -> f64 {
        self.model.statistics(now).flash.map_or(0.0, |flash| flash.cycles_used)
    }
}
