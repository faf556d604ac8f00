//! Tracks: distance between sectors, ends of tracks, and rotation of tracks against each other.
//!
//! Along a track the angle of a sector rises with its address, by the same amount for each sector.
//! At the end of a track the angle jumps by the skew.

use super::spindle::Turning;
use crate::ExtractError;

/// Stretch of a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Address on the stretch; `angle` is the angle of this address.
    pub(super) lbn: u64,
    pub(super) angle: f64,
    /// Nanoseconds of a sector.
    pub(super) pitch: f64,
    /// Standard error of the pitch.
    pub(super) error: f64,
    /// Number of sectors after `lbn` that are known to lie on the stretch.
    reach: u64,
    /// Set if the first four sectors agree. If the sectors differ, a track ends between them, or a
    /// read was late.
    sure: bool,
}

/// Whole track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    /// First address of the track.
    pub(super) start: u64,
    /// Number of addresses on the track.
    pub(super) sectors: u64,
    /// Nanoseconds by which the next track is rotated against this track.
    pub(super) jump: f64,
}

impl Turning<'_, '_> {
    /// Returns the distance of the angle of `lbn` from the line of `stretch`.
    fn off_line(&mut self, stretch: &Stretch, lbn: u64) -> Result<f64, ExtractError> {
        let expected = stretch.angle + stretch.pitch * (lbn as f64 - stretch.lbn as f64);
        let angle = self.angle_of(lbn)?;
        Ok(self.spindle.apart(angle - expected))
    }

    /// Returns the greatest distance from the line at which an angle counts as on the line: less
    /// than one sector if nothing disturbs.
    fn tolerance(&self, stretch: &Stretch) -> f64 {
        0.4 * stretch.pitch * self.prober.grain as f64 + 6.0 * self.spindle.noise
    }

    /// Measures the distance between the sectors around `lbn`.
    pub(super) fn stretch(&mut self, lbn: u64) -> Result<Stretch, ExtractError> {
        let step = self.prober.grain.max(8);
        let mut lbn = self.prober.aligned(lbn);
        let mut best: Option<Stretch> = None;
        for _ in 0..8 {
            // There is room for a long track after the place.
            lbn = self.prober.aligned(lbn.min(self.prober.sectors.saturating_sub(64 * step)));
            let found = self.stretch_from(lbn, step)?;
            if best.is_none_or(|best| found.error / found.pitch < best.error / best.pitch) {
                best = Some(found);
            }
            if found.sure && found.pitch * found.reach as f64 > self.spindle.period / 8.0 {
                break;
            }
            // A track ends just behind: the next track is there in full.
            lbn = found.lbn + 2 * found.reach;
        }
        let best = best.filter(|best| best.pitch > 0.0);
        best.ok_or_else(|| ExtractError::Unlike { what: format!("sectors around {lbn} lie on no track") })
    }

    fn stretch_from(&mut self, lbn: u64, step: u64) -> Result<Stretch, ExtractError> {
        // The last sector is read first, so that read-ahead never has the others.
        let mut angles = [0.0; 4];
        for at in (0..4).rev() {
            angles[at] = self.angle_of(lbn + at as u64 * step)?;
        }
        let jumps = [0, 1, 2].map(|at| self.spindle.angle(angles[at + 1] - angles[at]));
        // One of the three jumps may cross the end of a track.
        let mut sorted = jumps;
        let pitch = crate::statistics::median(&mut sorted) / step as f64;
        let agrees = |jump: f64| (jump - pitch * step as f64).abs() < 0.4 * pitch + 4.0 * self.spindle.noise;
        let first = jumps.iter().rposition(|jump| !agrees(*jump)).map_or(0, |at| at + 1);
        let sure = first == 0;
        let error = if first < 2 { (1.0 + 1.5 * self.spindle.noise) / step as f64 } else { pitch };
        let (lbn, angle) = (lbn + first as u64 * step, angles[first]);
        let mut stretch = Stretch { lbn, angle, pitch, error, reach: step, sure };
        if first == 3 {
            return Ok(stretch);
        }
        stretch.reach = (3 - first as u64) * step;
        loop {
            let next = 2 * stretch.reach;
            if stretch.lbn + next + self.prober.grain > self.prober.sectors {
                return Ok(stretch);
            }
            let off = self.off_line(&stretch, stretch.lbn + next)?;
            if off.abs() > self.tolerance(&stretch) {
                return Ok(stretch);
            }
            stretch.pitch += off / next as f64;
            stretch.reach = next;
            stretch.error = (1.0 + 1.5 * self.spindle.noise) / next as f64;
            if stretch.pitch * next as f64 > 0.4 * self.spindle.period {
                return Ok(stretch);
            }
        }
    }

    /// Returns the first address, from `stretch.lbn` on, that is on another track, and its distance
    /// from the line.
    fn end_of(&mut self, stretch: &Stretch) -> Result<(u64, f64), ExtractError> {
        let grain = self.prober.grain;
        let tolerance = self.tolerance(stretch);
        let turn = ((self.spindle.period / stretch.pitch).round() as u64).next_multiple_of(grain).max(grain);
        // Most tracks are full. Sectors behind are read first, so that read-ahead never has the
        // others.
        let full = stretch.lbn + turn;
        let mut behind = self.off_line(stretch, full)?;
        let is_full = self.off_line(stretch, full - grain)?.abs() <= tolerance;
        let (mut on, mut off) = if is_full { (full - grain, full) } else { (stretch.lbn, full) };
        while off - on > grain {
            let middle = on + (off - on) / grain / 2 * grain;
            let apart = self.off_line(stretch, middle)?;
            if apart.abs() <= tolerance {
                on = middle;
            } else {
                (off, behind) = (middle, apart);
            }
        }
        Ok((off, behind))
    }

    /// Returns `count` whole tracks from the first track that starts after `lbn`; fewer at the end
    /// of the drive.
    pub(super) fn walk(&mut self, lbn: u64, count: usize) -> Result<Vec<Track>, ExtractError> {
        let stretch = self.stretch(lbn)?;
        let mut tracks = Vec::new();
        let turn = (self.spindle.period / stretch.pitch) as u64 + 1;
        if stretch.lbn + 2 * turn + self.prober.grain > self.prober.sectors {
            return Ok(tracks);
        }
        let (mut start, _) = self.end_of(&stretch)?;
        let angle = self.angle_of(start)?;
        let mut line = Stretch { lbn: start, angle, ..stretch };
        while tracks.len() < count && start + 2 * turn + self.prober.grain <= self.prober.sectors {
            let (end, off) = self.end_of(&line)?;
            let jump = self.spindle.angle(off + (end - start) as f64 * stretch.pitch);
            tracks.push(Track { start, sectors: end - start, jump });
            let angle = self.spindle.angle(line.angle + jump);
            (start, line) = (end, Stretch { lbn: end, angle, ..stretch });
        }
        Ok(tracks)
    }
}
