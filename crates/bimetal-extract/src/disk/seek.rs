//! Seeks: how long the arm takes over a distance, without the rotation behind it.
//!
//! A read at `from`, and right behind it one at `to`: it takes the command, the seek, and what is left until the sector comes
//! round. So its response is the first time after command and seek at which the sector passes: what it took is shorter
//! than the response, and not shorter than that less a revolution. Sectors of other angles narrow it down to one sector.

use bimetal_core::operation::OpKind;

use super::geometry::Geometry;
use super::spindle::Turning;
use crate::ExtractError;

/// Pairs of reads for one distance at most.
const ROUNDS: usize = 20;

/// How long something takes, with its error, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Taken {
    pub(super) ns: f64,
    pub(super) error: f64,
}

/// From which track to which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    /// So many cylinders outwards.
    Cylinders(u32),
    /// To the head before, on the same cylinder.
    Head,
    /// Nowhere: on the same track.
    Stay,
}

/// The distances at which the curve is measured: dense where it bends.
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
    /// How long it takes until a sector elsewhere can be read (or written past the cache), from the end of the read
    /// before: command, seek, and the sector itself.
    pub(super) fn reach(
        &mut self,
        geometry: &Geometry,
        what: Move,
        kind: OpKind,
    ) -> Result<Option<Taken>, ExtractError> {
        let grain = self.prober.grain;
        let mut responses: Vec<f64> = Vec::new();
        for _ in 0..ROUNDS {
            let Some((from, to, sectors)) = self.pair(geometry, what) else { return Ok(None) };
            let pitch = self.spindle.period / f64::from(sectors);
            let offset = self.prober.random(u64::from(sectors) / grain) * grain;
            let reference = self.angle_of(to + offset)?;
            let before = self.prober.read(from, grain)?;
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
            let timed = self.prober.run(kind, self.prober.aligned(to + sector), grain, kind == OpKind::Write)?;
            if kind == OpKind::Write || !self.is_hit(timed) {
                responses.push(timed.ns());
            }
        }
        Ok(self.narrowed(&responses).map(|(low, high)| Taken { ns: low.midpoint(high), error: (high - low) / 2.0 }))
    }

    /// A place to come from, the start of the track to go to, and the sectors of that.
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
        let fits = to + u64::from(sectors) + self.prober.grain <= self.prober.sectors;
        fits.then(|| (self.prober.aligned(from), self.prober.aligned(to), sectors))
    }

    /// Between which times the drive is ready, by `responses`: each says that it is ready before it, but not a revolution
    /// earlier. Where some disagree, what most say.
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
