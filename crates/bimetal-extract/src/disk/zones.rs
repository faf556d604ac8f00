//! Zones: places at which the number of sectors on a track changes.

use super::spindle::Turning;
use crate::ExtractError;

/// Number of places at which sectors per track are measured before the intervals between them are
/// divided further.
const PLACES: u64 = 64;
/// Smallest number of sectors to which the start of a zone is narrowed.
const FINEST: u64 = 1 << 15;

/// Measurement at a place.
#[derive(Clone, Copy, Debug)]
struct Place {
    lbn: u64,
    sectors_per_track: u32,
    /// Error of `sectors_per_track`.
    error: f64,
}

impl Place {
    fn is_like(&self, other: &Self) -> bool {
        let apart = f64::from(self.sectors_per_track.abs_diff(other.sectors_per_track));
        apart <= (2.0 * (self.error + other.error)).floor()
    }
}

/// Range of tracks with the same number of sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// First address of the range.
    pub(super) start: u64,
    /// First address after the range.
    pub(super) end: u64,
    /// Error of the start.
    pub(super) unsure: u64,
    /// Number of sectors in each track.
    pub(super) sectors_per_track: u32,
    /// Error of `sectors_per_track`.
    pub(super) error: f64,
}

/// Part of the budget of time after which zones are no longer refined, because heads and seeks must
/// be measured as well.
const ZONES_UNTIL: f64 = 0.45;
const BORDERS: &str = "where zones begin";

/// Returns the zones of the drive, as exact as time permits.
pub(super) fn measure(turning: &mut Turning<'_, '_>) -> Result<Vec<Span>, ExtractError> {
    let sectors = turning.prober.sectors;
    let mut places: Vec<Place> = Vec::new();
    for at in 0..PLACES {
        // The order of the places keeps them evenly spread if the budget is used up.
        let lbn = sectors / PLACES * (at.reverse_bits() >> (64 - PLACES.ilog2())) + sectors / PLACES / 2;
        if places.is_empty() || !turning.prober.is_past(ZONES_UNTIL, BORDERS) {
            places.push(place(turning, lbn)?);
        }
        turning.prober.done(0.3 * at as f64 / PLACES as f64);
    }
    places.sort_by_key(|place| place.lbn);
    let mut known = vec![places[0]];
    let pairs = places.len().max(2) - 1;
    for (at, pair) in places.windows(2).enumerate() {
        divide(turning, pair[0], pair[1], sectors / FINEST, &mut known)?;
        known.push(pair[1]);
        turning.prober.done(0.3 + 0.7 * at as f64 / pairs as f64);
    }
    Ok(spans(&known, sectors))
}

fn place(turning: &mut Turning<'_, '_>, lbn: u64) -> Result<Place, ExtractError> {
    let stretch = turning.stretch(lbn)?;
    let sectors = turning.spindle.period / stretch.pitch;
    let error = sectors * stretch.error / stretch.pitch;
    // A track has whole sectors of the medium.
    let unit = turning.prober.larger_physical_sector().unwrap_or(1);
    let sectors_per_track = (sectors / unit as f64).round() as u32 * unit as u32;
    Ok(Place { lbn: stretch.lbn, sectors_per_track, error })
}

/// Measures between two places that differ, until they are close together.
fn divide(
    turning: &mut Turning<'_, '_>,
    low: Place,
    high: Place,
    finest: u64,
    known: &mut Vec<Place>,
) -> Result<(), ExtractError> {
    let middle = low.lbn.midpoint(high.lbn);
    let least = finest.max(4 * u64::from(low.sectors_per_track));
    let known_well = low.is_like(&high) || high.lbn.saturating_sub(low.lbn) < least;
    if known_well || turning.prober.is_past(ZONES_UNTIL, BORDERS) {
        return Ok(());
    }
    let between = place(turning, middle)?;
    if between.lbn <= low.lbn || between.lbn >= high.lbn {
        return Ok(());
    }
    divide(turning, low, between, finest, known)?;
    known.push(between);
    divide(turning, between, high, finest, known)
}

/// Joins adjacent equal places into spans. A zone starts half-way between the last different place
/// and its own first measured place.
fn spans(known: &[Place], sectors: u64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut group: Vec<Place> = Vec::new();
    let (mut start, mut unsure) = (0, 0);
    let close = |group: &[Place], start: u64, end: u64, unsure: u64| {
        // The place with the least error represents all.
        let best = group.iter().min_by(|a, b| a.error.total_cmp(&b.error)).expect("a group has places");
        Span { start, end, unsure, sectors_per_track: best.sectors_per_track, error: best.error }
    };
    for place in known {
        if let Some(last) = group.last().filter(|last| !last.is_like(place)) {
            let end = last.lbn.midpoint(place.lbn);
            spans.push(close(&group, start, end, unsure));
            (start, unsure) = (end, (place.lbn - last.lbn) / 2);
            group.clear();
        }
        group.push(*place);
    }
    spans.push(close(&group, start, sectors, unsure));
    spans
}
