//! Buffer on board: cost of a command without the medium, length of read-ahead, number of streams,
//! and room for writes.

use bimetal_core::operation::OpKind;

use super::spindle::Turning;
use crate::ExtractError;
use crate::prober::Timed;
use crate::statistics::{Line, line, median};

/// Longest read-ahead that is searched for, in sectors: 64 MiB.
const AHEAD_MAX: u64 = 1 << 17;
/// Largest number of segments that are searched for.
const SEGMENTS_MAX: u64 = 4096;
/// Largest number of sectors written to fill the write cache: 1 GiB.
const FILL_MAX: u64 = 1 << 21;
/// Largest number of sectors of a write to the write cache.
const PIECE_MAX: u64 = 128;

impl Turning<'_, '_> {
    /// Returns the line through response times of reads from the buffer over their sectors: command
    /// and interface. `None` without a buffer.
    pub(super) fn electronics(&mut self) -> Result<Option<Line>, ExtractError> {
        if self.spindle.hit_ns == 0.0 {
            return Ok(None);
        }
        let mut points = Vec::new();
        for grains in [1, 4, 16, 64, 128] {
            let sectors = grains * self.prober.grain;
            let mut least = f64::MAX;
            for _ in 0..10 {
                let lbn = self.prober.anywhere(sectors);
                self.prober.read(lbn, sectors)?;
                least = least.min(self.prober.read(lbn, sectors)?.ns());
            }
            // A read of a sector that the buffer does not hold takes another turn.
            if least < 0.5 * self.spindle.period {
                points.push((sectors as f64, least));
            }
        }
        Ok(Some(line(&points)).filter(|line| points.len() > 1 && line.slope > 0.0))
    }

    /// Returns the number of sectors, from the start of a read on, that the drive reads ahead.
    pub(super) fn read_ahead(&mut self, pitch: f64) -> Result<u64, ExtractError> {
        let grain = self.prober.grain;
        let is_there = |turning: &mut Self, ahead: u64| -> Result<bool, ExtractError> {
            loop {
                let lbn = turning.prober.anywhere(ahead + grain);
                turning.leave(lbn)?;
                // The buffer may still have the sector from an earlier read. A read from the buffer
                // begins no read-ahead.
                let first = turning.prober.read(lbn, grain)?;
                if turning.is_hit(first) && !turning.prober.is_late() {
                    continue;
                }
                // The pause varies by a part of a turn. Otherwise a sector just missed could pass
                // at the same moment each time.
                let turn = turning.prober.random(turning.spindle.period as u64);
                turning.prober.pause((2.0 * pitch * ahead as f64 + 3.0 * turning.spindle.period) as u64 + turn);
                let timed = turning.prober.read(lbn + ahead, grain)?;
                return Ok(timed.ns() < 1.1 * turning.spindle.buffered_ns + 4.0 * turning.spindle.noise);
            }
        };
        // By chance the buffer may have the sector from an earlier read, so two of three tries
        // count.
        let is_there = |turning: &mut Self, ahead: u64| -> Result<bool, ExtractError> {
            let (one, other) = (is_there(turning, ahead)?, is_there(turning, ahead)?);
            if one == other { Ok(one) } else { is_there(turning, ahead) }
        };
        let most = AHEAD_MAX.min(self.prober.sectors / 4);
        largest(self, 1, most / grain, &mut |turning, grains| is_there(turning, grains * grain))
            .map(|grains| grains.map_or(0, |grains| (grains + 1) * grain))
    }

    /// Returns the number of places that the buffer keeps.
    pub(super) fn segments(&mut self) -> Result<u64, ExtractError> {
        let kept = |turning: &mut Self, places: u64| -> Result<bool, ExtractError> {
            let grain = turning.prober.grain;
            let first = turning.prober.anywhere(grain);
            turning.prober.read(first, grain)?;
            for _ in 1..places {
                turning.leave(first)?;
            }
            let timed = turning.prober.read(first, grain)?;
            Ok(turning.is_hit(timed))
        };
        // By chance the buffer may have one of the places from before, so two of three tries count.
        let mut kept = |turning: &mut Self, places: u64| -> Result<bool, ExtractError> {
            let (one, other) = (kept(turning, places)?, kept(turning, places)?);
            if one == other { Ok(one) } else { kept(turning, places) }
        };
        largest(self, 1, SEGMENTS_MAX, &mut kept).map(Option::unwrap_or_default)
    }

    /// Returns true if writes finish before they are on the medium, by the medians of both kinds of
    /// writes.
    pub(super) fn caches_writes(&mut self) -> Result<bool, ExtractError> {
        let (mut plain, mut through) = (Vec::new(), Vec::new());
        for _ in 0..9 {
            let grain = self.prober.write_grain;
            let lbn = self.prober.anywhere_to_write(grain);
            through.push(self.prober.run(OpKind::Write, lbn, grain, true)?.ns());
            let lbn = self.prober.anywhere_to_write(grain);
            plain.push(self.prober.run(OpKind::Write, lbn, grain, false)?.ns());
        }
        self.prober.run(OpKind::Flush, 0, 0, false)?;
        Ok(median(&mut plain) < 0.4 * median(&mut through))
    }

    /// Returns the sectors of writes that the buffer takes, with their error; `bus` is the time of
    /// a sector on the interface.
    pub(super) fn write_room(&mut self, bus: f64) -> Result<(u64, u64), ExtractError> {
        let grain = self.prober.write_grain;
        // The piece is short enough to occupy the interface for an eighth of a turn.
        let piece = ((self.spindle.period / 8.0 / bus.max(1.0)) as u64).clamp(grain, PIECE_MAX) / grain * grain;
        self.prober.run(OpKind::Flush, 0, 0, false)?;
        let from = self.prober.now();
        let mut taken = 0;
        let filled = loop {
            let timed = self.write_piece(piece)?;
            if timed.ns() > 0.3 * self.spindle.period || taken * piece >= FILL_MAX || self.prober.is_late() {
                break timed.from;
            }
            taken += 1;
        };
        // From here on each write waits until earlier writes have left the buffer.
        let behind = self.prober.now();
        const MORE: u64 = 40;
        for _ in 0..MORE {
            self.write_piece(piece)?;
        }
        let each = (self.prober.now() - behind) as f64 / MORE as f64;
        let left = (filled - from) as f64 / each.max(1.0);
        self.prober.run(OpKind::Flush, 0, 0, false)?;
        let room = (taken as f64 - left).max(1.0) * piece as f64;
        Ok((room as u64, ((1.0 + left.sqrt()) * piece as f64) as u64))
    }

    fn write_piece(&mut self, sectors: u64) -> Result<Timed, ExtractError> {
        let lbn = self.prober.anywhere_to_write(sectors);
        self.prober.run(OpKind::Write, lbn, sectors, false)
    }
}

/// Returns the largest number up to `most` for which `holds` is true. A condition that is true for
/// a number must be true for all smaller numbers. `None` if the condition is false for `first`.
fn largest<T>(
    turning: &mut T,
    first: u64,
    most: u64,
    holds: &mut dyn FnMut(&mut T, u64) -> Result<bool, ExtractError>,
) -> Result<Option<u64>, ExtractError> {
    let (mut yes, mut no) = (0, first.min(most));
    while holds(turning, no)? {
        yes = no;
        if no == most {
            return Ok(Some(yes));
        }
        no = (no * 2).min(most);
    }
    if yes == 0 {
        return Ok(None);
    }
    while no - yes > 1 {
        let middle = yes.midpoint(no);
        if holds(turning, middle)? {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Ok(Some(yes))
}
