//! Synthetic workloads: requests drawn from a seed to a specification, in successive phases.
//!
//! This folder holds [`WorkloadSpec`] with the mini-languages of its parts, and [`Generator`],
//! which draws the requests. This folder has no code that reads a trace. The same specification and
//! seed always give the same requests: the random numbers are PCG-64's, and a test pins the stream.
//! Memory does not grow with the footprint or the number of requests.
//!
//! Read first: `spec.rs`, then one file for each part: `sizes.rs`, `interarrival.rs`, `skew.rs`.

mod interarrival;
mod random;
mod sizes;
mod skew;
mod spec;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::Request;
use interarrival::GapSource;
use random::unit;
use sizes::SizeSource;
use skew::PlaceSource;

pub use interarrival::Interarrival;
pub use sizes::SizeMix;
pub use skew::Skew;
pub use spec::{SpecError, WorkloadSpec};

/// Generator of the requests of a workload: an iterator in order of time.
///
/// The first request arrives at 0. The first request of each further phase arrives after the last
/// request of the phase before; the time between the two is drawn for the new phase. For each
/// request the generator draws the time since the previous request, read or write, the size, and
/// whether the request is sequential. A sequential request starts where the previous request of its
/// direction in the phase ended. Any other request, and any request that would exceed the
/// footprint, starts at a place drawn by the skew, on a multiple of 4 KiB. All requests are to
/// device 0.
pub struct Generator {
    /// Phases that have not begun, the next phase last.
    waiting: Vec<Phase>,
    phase: Phase,
    clock: Option<Nanoseconds>,
}

impl Generator {
    /// Creates the workload of `phases`, in this order, from `seed`.
    ///
    /// # Errors
    /// Fails if there is no phase, or if a phase is impossible: a fraction outside 0 to 1, a
    /// footprint smaller than a request.
    pub fn new(phases: &[WorkloadSpec], seed: u64) -> Result<Self, SpecError> {
        let mut waiting = Vec::with_capacity(phases.len());
        for (index, spec) in phases.iter().enumerate() {
            let number = (phases.len() > 1).then_some(index + 1);
            spec.check().map_err(|error| SpecError { phase: number, ..error })?;
            waiting.push(Phase::new(spec, seed, index as u64));
        }
        waiting.reverse();
        match waiting.pop() {
            Some(phase) => Ok(Self { waiting, phase, clock: None }),
            None => Err(SpecError::new("phase", "none", "at least one [[phase]]")),
        }
    }

    fn remaining(&self) -> u64 {
        self.waiting.iter().fold(self.phase.remaining, |sum, phase| sum.saturating_add(phase.remaining))
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.phase.remaining == 0 {
            self.phase = self.waiting.pop()?;
        }
        // The gap before the very first request is drawn too, so that bursts have the same length
        // in every phase.
        let gap = self.phase.gaps.draw(&mut self.phase.random);
        let arrival = self.clock.map_or(Nanoseconds::ZERO, |last| last.saturating_add(gap));
        self.clock = Some(arrival);
        Some(self.phase.request(arrival))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = usize::try_from(self.remaining());
        (remaining.unwrap_or(usize::MAX), remaining.ok())
    }
}

/// Phase under way.
struct Phase {
    remaining: u64,
    random: Pcg64,
    gaps: GapSource,
    sizes: SizeSource,
    places: PlaceSource,
    footprint: Sectors,
    read_fraction: f64,
    sequential: f64,
    /// End of the last read; `write_end` is the end of the last write. At the start no request fits
    /// after the end of the last read or of the last write.
    read_end: Sectors,
    write_end: Sectors,
}

impl Phase {
    /// Creates the phase of a checked specification, the `index`th of its workload.
    fn new(spec: &WorkloadSpec, seed: u64, index: u64) -> Self {
        // The golden ratio keeps the streams of neighbouring seeds and of neighbouring phases
        // apart.
        let seed = spec.seed.unwrap_or_else(|| seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let footprint = spec.footprint.sectors();
        Self {
            remaining: spec.requests,
            random: Pcg64::seed_from_u64(seed),
            gaps: GapSource::new(spec.interarrival),
            sizes: SizeSource::new(&spec.size),
            places: PlaceSource::new(spec.skew, footprint, spec.size.largest().sectors()),
            footprint,
            read_fraction: spec.read_fraction,
            sequential: spec.sequential,
            read_end: footprint,
            write_end: footprint,
        }
    }

    fn request(&mut self, arrival: Nanoseconds) -> Request {
        self.remaining -= 1;
        let is_read = unit(&mut self.random) < self.read_fraction;
        let len = self.sizes.draw(&mut self.random);
        let is_sequential = unit(&mut self.random) < self.sequential;
        let last_end = if is_read { self.read_end } else { self.write_end };
        let start = if is_sequential && last_end + len <= self.footprint {
            last_end
        } else {
            self.places.draw(len, &mut self.random)
        };
        let range = SectorRange { start, len };
        *(if is_read { &mut self.read_end } else { &mut self.write_end }) = range.end();
        let kind = if is_read { OpKind::Read } else { OpKind::Write };
        Request { arrival, device: 0, kind, fua: false, range, response: None }
    }
}

#[cfg(test)]
mod tests;
