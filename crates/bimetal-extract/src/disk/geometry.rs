//! Cylinders: number of heads, rotation of tracks against each other, and places of cylinders.

use bimetal_core::units::Sectors;

use super::spindle::{Spindle, Turning};
use super::track::Track;
use super::zones::Span;
use crate::ExtractError;
use crate::figures::ZoneFigure;
use crate::statistics::median;

/// Number of tracks that are examined to find the heads: enough for two passes over the most heads
/// on the market.
const TRACKS: usize = 44;

/// Measured layout of the drive.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) heads: u32,
    pub(super) zones: Vec<Zone>,
}

/// Zone, in cylinders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone {
    pub(super) start: u64,
    pub(super) first_cylinder: u32,
    pub(super) cylinders: u32,
    pub(super) sectors_per_track: u32,
    /// Number of sectors in each cylinder that have no address.
    pub(super) spares: u32,
    pub(super) track_skew: u32,
    pub(super) cylinder_skew: u32,
    pub(super) rate_error: f64,
}

impl Zone {
    fn sectors_per_cylinder(&self, heads: u32) -> u64 {
        u64::from(self.sectors_per_track) * u64::from(heads) - u64::from(self.spares)
    }

    pub(super) fn figure(&self) -> ZoneFigure {
        ZoneFigure {
            first_cylinder: self.first_cylinder,
            last_cylinder: self.first_cylinder + self.cylinders - 1,
            sectors_per_track: self.sectors_per_track,
            track_skew: self.track_skew,
            cylinder_skew: self.cylinder_skew,
            spares: self.spares,
            rate_error: self.rate_error,
        }
    }
}

impl Geometry {
    /// Returns the number of cylinders.
    pub(super) fn cylinders(&self) -> u32 {
        self.zones.last().map_or(0, |zone| zone.first_cylinder + zone.cylinders)
    }

    /// Returns the skews in nanoseconds: the times within which a change of track, and of cylinder,
    /// must be done for a stream to lose no turn.
    pub(super) fn skews_ns(&self, period: f64) -> (f64, f64) {
        let least = |skew: fn(&Zone) -> u32| {
            let skews =
                self.zones.iter().map(|zone| f64::from(skew(zone)) * period / f64::from(zone.sectors_per_track));
            skews.fold(f64::MAX, f64::min)
        };
        (least(|zone| zone.track_skew), least(|zone| zone.cylinder_skew))
    }

    /// Returns the zone of a cylinder.
    pub(super) fn zone(&self, cylinder: u32) -> &Zone {
        let at = self.zones.partition_point(|zone| zone.first_cylinder <= cylinder);
        &self.zones[at.saturating_sub(1)]
    }

    /// Returns the first address of a cylinder.
    pub(super) fn lbn(&self, cylinder: u32) -> u64 {
        let zone = self.zone(cylinder);
        zone.start + u64::from(cylinder - zone.first_cylinder) * zone.sectors_per_cylinder(self.heads)
    }
}

/// Part of the budget of time after which no further zones' skews are measured, because seeks must
/// be measured as well.
const SKEWS_UNTIL: f64 = 0.6;

/// Measures heads and skews, and divides `spans` into cylinders.
pub(super) fn measure(turning: &mut Turning<'_, '_>, spans: &[Span]) -> Result<Geometry, ExtractError> {
    // The place is away from the ends of the drive, in the largest zone.
    let widest = spans.iter().max_by_key(|span| span.end - span.start).expect("a drive has a zone");
    let tracks = turning.walk(widest.start.midpoint(widest.end), TRACKS)?;
    let pitch = turning.spindle.period / f64::from(widest.sectors_per_track);
    let heads = heads_of(&tracks, pitch, turning.spindle.noise);
    let mut geometry = Geometry { heads, zones: Vec::new() };
    for (at, span) in spans.iter().enumerate() {
        let late = turning.prober.is_past(SKEWS_UNTIL, "the skews of some zones");
        let tracks = match at {
            _ if late => Vec::new(),
            _ => turning.walk(span.start.midpoint(span.end), 2 * heads as usize)?,
        };
        push_zone(&mut geometry, span, &tracks, &turning.spindle);
        turning.prober.done((at + 1) as f64 / spans.len() as f64);
    }
    hold_all(&mut geometry, turning.prober.capacity());
    Ok(geometry)
}

/// Returns the number of heads: the interval between larger jumps, which occur at the end of each
/// cylinder. The result is one head if all jumps are alike.
fn heads_of(tracks: &[Track], pitch: f64, noise: f64) -> u32 {
    let Some(split) = split_of(tracks, pitch, noise) else { return 1 };
    let large: Vec<usize> = (0..tracks.len()).filter(|at| tracks[*at].jump > split).collect();
    let mut gaps: Vec<f64> = large.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let heads = median(&mut gaps);
    let regular = gaps.iter().filter(|gap| **gap == heads).count();
    if heads >= 2.0 && regular * 3 >= gaps.len() * 2 { heads as u32 } else { 1 }
}

/// Returns the value that separates small jumps from large ones; `None` if all jumps are alike.
fn split_of(tracks: &[Track], pitch: f64, noise: f64) -> Option<f64> {
    let mut jumps: Vec<f64> = tracks.iter().map(|track| track.jump).collect();
    jumps.sort_by(f64::total_cmp);
    let widest = jumps.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0])))?;
    (widest[1] - widest[0] > 0.6 * pitch + 4.0 * noise).then(|| widest[0].midpoint(widest[1]))
}

fn push_zone(geometry: &mut Geometry, span: &Span, tracks: &[Track], spindle: &Spindle) {
    let heads = geometry.heads;
    let pitch = spindle.period / f64::from(span.sectors_per_track);
    let split = split_of(tracks, pitch, spindle.noise).filter(|_| heads > 1);
    let turn = |large: bool| {
        let of_kind = tracks.iter().filter(|track| split.is_none_or(|split| (track.jump > split) == large));
        let mut jumps: Vec<f64> = of_kind.map(|track| track.jump).collect();
        ((median(&mut jumps) / pitch).round() as u32) % span.sectors_per_track
    };
    let before = geometry.zones.last();
    let (track_skew, cylinder_skew) = match before {
        // Without time the zone has the skews of the zone before.
        Some(before) if tracks.is_empty() => (before.track_skew, before.cylinder_skew),
        _ => (turn(false), turn(true)),
    };
    let mut zone = Zone {
        start: span.start,
        first_cylinder: before.map_or(0, |before| before.first_cylinder + before.cylinders),
        cylinders: 1,
        sectors_per_track: span.sectors_per_track,
        spares: spares_of(span, tracks, heads),
        track_skew,
        cylinder_skew,
        rate_error: span.error / f64::from(span.sectors_per_track),
    };
    // Start of a cylinder, as it was observed.
    let seen = match split {
        Some(split) => tracks.windows(2).find(|pair| pair[0].jump > split).map(|pair| pair[1].start),
        None => tracks.first().map(|track| track.start),
    };
    let per_cylinder = zone.sectors_per_cylinder(heads);
    if let Some(before) = geometry.zones.last_mut() {
        zone.start = start_of(before, before.sectors_per_cylinder(heads), span, seen, per_cylinder);
        before.cylinders = ((zone.start - before.start) / before.sectors_per_cylinder(heads)).max(1) as u32;
        zone.first_cylinder = before.first_cylinder + before.cylinders;
    } else {
        zone.start = 0;
    }
    geometry.zones.push(zone);
}

/// Returns the start of a zone: near its observed start, and such that the previous zone has whole
/// cylinders. Of the possible starts the result is the start from which whole cylinders lead to the
/// cylinder observed at `seen`.
fn start_of(before: &Zone, per_before: u64, span: &Span, seen: Option<u64>, per_cylinder: u64) -> u64 {
    let about = (span.start.saturating_sub(before.start) + per_before / 2) / per_before;
    let near = (span.unsure / per_before + 2).min(about.saturating_sub(1));
    let starts = (about - near..=about + near).map(|cylinders| before.start + cylinders.max(1) * per_before);
    let best = starts.min_by_key(|start| {
        let rest = seen.map_or(0, |seen| seen.abs_diff(*start) % per_cylinder);
        (rest.min(per_cylinder - rest), start.abs_diff(span.start))
    });
    best.unwrap_or(span.start)
}

/// Returns the sectors that a cylinder of `span` lacks.
fn spares_of(span: &Span, tracks: &[Track], heads: u32) -> u32 {
    let cylinders = tracks.len() / heads as usize;
    if cylinders == 0 {
        return 0;
    }
    let whole = &tracks[..cylinders * heads as usize];
    let held: u64 = whole.iter().map(|track| track.sectors).sum();
    let full = whole.len() as u64 * u64::from(span.sectors_per_track);
    let missing = full.saturating_sub(held) / cylinders as u64;
    // If more than a tenth is missing, a track was misread instead of spared.
    if missing * 10 > u64::from(span.sectors_per_track) * u64::from(heads) { 0 } else { missing as u32 }
}

/// Extends the innermost zone by cylinders until the drive has its capacity.
fn hold_all(geometry: &mut Geometry, capacity: Sectors) {
    let heads = geometry.heads;
    let Some(last) = geometry.zones.last_mut() else { return };
    let needed = capacity.0.saturating_sub(last.start).div_ceil(last.sectors_per_cylinder(heads)).max(1);
    last.cylinders = needed as u32;
}
