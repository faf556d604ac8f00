//! Seeks: times of the arm over distances, without the rotation that follows.
//!
//! A read at `to` right behind a read at `from` takes the command, the seek, and the wait until the
//! sector passes. The response time of the second read is thus the first time after command and
//! seek at which the sector passes. So command and seek together take at most the response time,
//! and more than the response time less a revolution. Sectors at other angles narrow this range to
//! one sector.

use bimetal_core::operation::OpKind;

use super::geometry::Geometry;
use super::spindle::Turning;
use crate::ExtractError;

/// Largest number of pairs of reads for one distance.
const ROUNDS: usize = 20;

/// Duration with its error, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Taken {
    pub(super) ns: f64,
    pub(super) error: f64,
}

/// Movement from one track to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    /// The arm moves outwards by this number of cylinders.
    Cylinders(u32),
    /// To the previous head, on the same cylinder.
    Head,
    /// No movement: on the same track.
    Stay,
}

/// Returns the distances at which the curve is measured: dense where it bends.
pub(super) fn distances(cylinders: u32) -> Vec<u32> {
    let most = cylinders.saturating_sub(1).max(1);
    let mut distances: Vec<u32> = Vec::new();
    let mut at = 1.0_f64;
    while at < f64::from(most) / 8.0 {
        distances.push(at as u32);
        at = (at * 1.5).max(at + 1.0);
    }
    distances.extend((2..=16).map(|part| (u64::from(most) * part / 16) as u32).filter(|at| *at > 0));
    distances.dedup();
    distances
}

impl Turning<'_, '_> {
    /// Measures the time until a sector elsewhere can be read (or written so that the write
    /// bypasses the cache), from the end of the previous read: command, seek, and the sector
    /// itself.
    pub(super) fn reach(
        &mut self,
        geometry: &Geometry,
        what: Move,
        kind: OpKind,
    ) -> Result<Option<Taken>, ExtractError> {
        let is_write = kind == OpKind::Write;
        let grain = if is_write { self.prober.write_grain } else { self.prober.grain };
        let mut responses: Vec<f64> = Vec::new();
        for _ in 0..ROUNDS {
            let Some((from, to, sectors)) = self.pair(geometry, what) else { return Ok(None) };
            let pitch = self.spindle.period / f64::from(sectors);
            let offset = self.prober.random(u64::from(sectors) / grain) * grain;
            let reference = self.angle_of(to + offset)?;
            let before = self.prober.read(from, self.prober.grain)?;
            if self.is_hit(before) {
                continue;
            }
            let wanted = match self.narrowed(&responses) {
                Some((low, high)) if high - low < 1.2 * pitch * grain as f64 => break,
                Some((low, high)) => low.midpoint(high),
                None => 0.0,
            };
            let ahead = self.spindle.angle(before.to as f64 + wanted - reference) / pitch / grain as f64;
            let sector = (offset + ahead.round() as u64 * grain) % (u64::from(sectors) / grain * grain).max(grain);
            let lbn =
                if is_write { self.prober.aligned_to_write(to + sector) } else { self.prober.aligned(to + sector) };
            let timed = self.prober.run(kind, lbn, grain, is_write)?;
            if is_write || !self.is_hit(timed) {
                responses.push(timed.ns());
            }
        }
        Ok(self.narrowed(&responses).map(|(low, high)| Taken { ns: low.midpoint(high), error: (high - low) / 2.0 }))
    }

    /// Returns a starting place, the start of the target track, and the sectors of this track.
    fn pair(&mut self, geometry: &Geometry, what: Move) -> Option<(u64, u64, u32)> {
        let distance = match what {
            Move::Cylinders(distance) => distance,
            Move::Head | Move::Stay => 0,
        };
        let places = geometry.cylinders().checked_sub(distance).filter(|places| *places > 0)?;
        let cylinder = self.prober.random(u64::from(places)) as u32;
        let sectors = geometry.zone(cylinder).sectors_per_track;
        let far = geometry.zone(cylinder + distance).sectors_per_track;
        let (to, mut from) = (geometry.lbn(cylinder), geometry.lbn(cylinder + distance));
        if what == Move::Head {
            from += u64::from(sectors);
        }
        from += self.prober.random(u64::from(far));
        let fits = to + u64::from(sectors) + self.prober.write_grain <= self.prober.sectors;
        fits.then(|| (self.prober.aligned(from), self.prober.aligned(to), sectors))
    }

    /// Returns the range of times within which the drive becomes ready, as `responses` show. Each
    /// response implies that the drive is ready before it, but not a whole revolution before it. If
    /// responses disagree, the majority counts.
    fn narrowed(&self, responses: &[f64]) -> Option<(f64, f64)> {
        let says = |at: f64| responses.iter().filter(|high| at <= **high && at > **high - self.spindle.period).count();
        let mut ends: Vec<f64> =
            responses.iter().flat_map(|high| [*high, *high - self.spindle.period]).filter(|end| *end >= 0.0).collect();
        ends.push(0.0);
        ends.sort_by(f64::total_cmp);
        let pieces = ends.windows(2).filter(|pair| pair[1] > pair[0]).map(|pair| (pair[0], pair[1]));
        let best = pieces.max_by_key(|(low, high)| says(low.midpoint(*high)))?;
        (!responses.is_empty()).then_some(best)
    }
}
