//! Spare, slipped and remapped sectors: assignment of addresses to the sectors of a zone.
//!
//! The sectors of a zone are numbered along its tracks in order of address. A *unit* (track,
//! cylinder, range of cylinders or the whole zone) keeps some of its sectors as spares. A bad
//! sector is *slipped* (the sector is skipped, and the addresses after the sector move up by one)
//! or *remapped* (another sector takes the address).

use serde::Deserialize;

use crate::profile::BadFigure;

use super::super::profile::ZoneFigures;

/// Position of the spares of a zone, and meaning of `spares`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sparing {
    /// No spares.
    #[default]
    None,
    /// Whole tracks at the end of the zone; slips and remaps count tracks, too.
    Tracks,
    /// Spare sectors at the end of each track.
    TrackEnd,
    /// Spare sectors at the end of each cylinder.
    CylinderEnd,
    /// Spare sectors at the end of each cylinder in addition to the slipped sectors; the zone's
    /// capacity is smaller by the slipped sectors.
    CylinderEndBesideSlips,
    /// Spare sectors at the start of each cylinder.
    CylinderStart,
    /// Spare sectors at the start of each cylinder in addition to the slipped sectors; the zone's
    /// capacity is smaller by the slipped sectors.
    CylinderStartBesideSlips,
    /// Spare sectors at the end of each range of `sparing_range` cylinders; a last range that is
    /// not whole has no spares.
    RangeEnd,
    /// Spare sectors at the end of the zone, the slipped sectors included.
    ZoneEnd,
    /// Spare sectors at the end of the zone in addition to the slipped sectors; the zone's capacity
    /// is smaller by the slipped sectors.
    ZoneEndBesideSlips,
    /// No spares in a zone, whose capacity is smaller by its slipped sectors: the spares lie at the
    /// end of the drive.
    DriveEnd,
}

/// Consecutive sectors of a zone with consecutive addresses: first sector, and number of sectors.
pub(super) type Piece = (u64, u64);

/// Tracks, heads and sectors per track of a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) tracks: u64,
    pub(super) heads: u64,
    pub(super) sectors_per_track: u64,
}

impl Extent {
    fn sectors(&self) -> u64 {
        self.tracks * self.sectors_per_track
    }

    /// Returns the number of sectors in a unit of spares.
    fn unit(&self, sparing: Sparing, range: u64) -> u64 {
        match sparing {
            Sparing::TrackEnd => self.sectors_per_track,
            Sparing::CylinderEnd
            | Sparing::CylinderEndBesideSlips
            | Sparing::CylinderStart
            | Sparing::CylinderStartBesideSlips => self.sectors_per_track * self.heads,
            Sparing::RangeEnd => self.sectors_per_track * self.heads * range,
            _ => self.sectors(),
        }
    }
}

/// Returns the pieces of a zone in order of address.
///
/// # Errors
/// Refuses spares, slips, remaps or reserved sectors that the zone does not have.
pub(super) fn pieces(
    zone: &ZoneFigures,
    extent: Extent,
    sparing: Sparing,
    range_cylinders: u32,
) -> Result<Vec<Piece>, BadFigure> {
    check(zone, extent, sparing)?;
    let mut pieces = if sparing == Sparing::None && zone.slips.is_empty() {
        vec![(0, extent.sectors())]
    } else {
        pieces_of_units(zone, extent, sparing, u64::from(range_cylinders))
    };
    drop_front(&mut pieces, zone.reserved);
    for &(bad, replacement) in &zone.remaps {
        let (bad, replacement, length) = match sparing {
            Sparing::Tracks => {
                (bad * extent.sectors_per_track, replacement * extent.sectors_per_track, extent.sectors_per_track)
            }
            _ => (bad, replacement, 1),
        };
        remap(&mut pieces, bad, replacement, length);
    }
    if pieces.is_empty() {
        return Err(BadFigure::new("zones", "a zone without a sector", "spares and reserved sectors that leave some"));
    }
    Ok(pieces)
}

fn check(zone: &ZoneFigures, extent: Extent, sparing: Sparing) -> Result<(), BadFigure> {
    let bad = |figure: &str, value: u64, most: u64| {
        let value = format!("{figure} {value} in the zone from cylinder {}", zone.first_cylinder);
        Err(BadFigure::new("zones", value, format!("at most {most}, because the zone has no more")))
    };
    let named = if sparing == Sparing::Tracks { extent.tracks } else { extent.sectors() };
    if let Some(&slip) = zone.slips.iter().find(|slip| **slip >= named) {
        return bad("slips", slip, named - 1);
    }
    if zone.slips.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(BadFigure::new("zones", "slips out of order", "slips that rise"));
    }
    for &(from, to) in &zone.remaps {
        if from.max(to) >= named {
            return bad("remaps", from.max(to), named - 1);
        }
    }
    if zone.reserved >= extent.sectors() {
        return bad("reserved", zone.reserved, extent.sectors() - 1);
    }
    let most = match sparing {
        Sparing::None | Sparing::DriveEnd => u64::MAX,
        Sparing::Tracks => extent.tracks - 1,
        _ => extent.unit(sparing, 1) - 1,
    };
    if zone.spares > most { bad("spares", zone.spares, most) } else { Ok(()) }
}

/// Returns the sectors of each unit that are neither slipped nor spare.
fn pieces_of_units(zone: &ZoneFigures, extent: Extent, sparing: Sparing, range: u64) -> Vec<Piece> {
    let slips: Vec<Piece> = match sparing {
        Sparing::Tracks => {
            zone.slips.iter().map(|&track| (track * extent.sectors_per_track, extent.sectors_per_track)).collect()
        }
        _ => zone.slips.iter().map(|&sector| (sector, 1)).collect(),
    };
    let mut pieces = Vec::new();
    let unit = extent.unit(sparing, range);
    let mut first = 0;
    while first < extent.sectors() {
        let length = unit.min(extent.sectors() - first);
        let slipped = &slips[slips.partition_point(|slip| slip.0 < first)..];
        let slipped = &slipped[..slipped.partition_point(|slip| slip.0 < first + length)];
        let slipped_sectors: u64 = slipped.iter().map(|slip| slip.1).sum();
        let (skip, spares) = match sparing {
            Sparing::None | Sparing::DriveEnd => (0, slipped_sectors),
            Sparing::Tracks => (0, zone.spares * extent.sectors_per_track),
            Sparing::RangeEnd if length < unit => (0, slipped_sectors),
            // A slipped sector takes a spare's place: the addresses in front of it move down.
            Sparing::CylinderStart => (zone.spares.saturating_sub(slipped_sectors).min(length), zone.spares),
            Sparing::CylinderStartBesideSlips => (zone.spares.min(length), zone.spares + slipped_sectors),
            Sparing::ZoneEndBesideSlips | Sparing::CylinderEndBesideSlips => (0, zone.spares + slipped_sectors),
            _ => (0, zone.spares),
        };
        let usable = length.saturating_sub(spares);
        push_unit(&mut pieces, first + skip, first + length, usable, slipped);
        first += length;
    }
    pieces
}

/// Appends, of the sectors from `first` to before `end`, the first `usable` that are not slipped.
fn push_unit(pieces: &mut Vec<Piece>, first: u64, end: u64, mut usable: u64, slipped: &[Piece]) {
    let mut at = first;
    for &(slip, length) in slipped.iter().chain([&(end, 0)]) {
        let run = slip.saturating_sub(at).min(usable);
        push(pieces, at, run);
        usable -= run;
        at = at.max(slip + length);
    }
}

fn push(pieces: &mut Vec<Piece>, start: u64, length: u64) {
    match pieces.last_mut() {
        _ if length == 0 => {}
        Some(last) if last.0 + last.1 == start => last.1 += length,
        _ => pieces.push((start, length)),
    }
}

fn drop_front(pieces: &mut Vec<Piece>, mut sectors: u64) {
    pieces.retain_mut(|piece| {
        let dropped = sectors.min(piece.1);
        *piece = (piece.0 + dropped, piece.1 - dropped);
        sectors -= dropped;
        piece.1 > 0
    });
}

/// Moves the addresses of the `length` sectors from `bad` on to the sectors from `replacement` on.
/// A remap to itself, as in some parameter files, changes nothing.
fn remap(pieces: &mut Vec<Piece>, bad: u64, replacement: u64, length: u64) {
    if bad == replacement {
        return;
    }
    let Some(index) = pieces.iter().position(|piece| (piece.0..piece.0 + piece.1).contains(&bad)) else { return };
    let (start, all) = pieces[index];
    let length = length.min(start + all - bad);
    let parts = [(start, bad - start), (replacement, length), (bad + length, start + all - bad - length)];
    pieces.splice(index..=index, parts.into_iter().filter(|part| part.1 > 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { tracks: 4, heads: 2, sectors_per_track: 10 };

    fn zone(spares: u64, slips: &[u64], remaps: &[(u64, u64)], reserved: u64) -> ZoneFigures {
        ZoneFigures { spares, slips: slips.to_vec(), remaps: remaps.to_vec(), reserved, ..ZoneFigures::default() }
    }

    #[test]
    fn each_scheme_leaves_its_own_sectors_out() {
        let plain = zone(2, &[], &[], 0);
        for (sparing, expected) in [
            (Sparing::None, vec![(0, 40)]),
            (Sparing::Tracks, vec![(0, 20)]),
            (Sparing::TrackEnd, vec![(0, 8), (10, 8), (20, 8), (30, 8)]),
            (Sparing::CylinderEnd, vec![(0, 18), (20, 18)]),
            (Sparing::CylinderEndBesideSlips, vec![(0, 18), (20, 18)]),
            (Sparing::CylinderStart, vec![(2, 18), (22, 18)]),
            (Sparing::CylinderStartBesideSlips, vec![(2, 18), (22, 18)]),
            (Sparing::RangeEnd, vec![(0, 18), (20, 18)]),
            (Sparing::ZoneEnd, vec![(0, 38)]),
            (Sparing::ZoneEndBesideSlips, vec![(0, 38)]),
            (Sparing::DriveEnd, vec![(0, 40)]),
        ] {
            assert_eq!(pieces(&plain, EXTENT, sparing, 1).unwrap(), expected, "{sparing:?}");
        }
    }

    /// A slipped sector moves the addresses after it up by one sector, within its unit of sparing.
    #[test]
    fn slipped_sector_shifts_later_addresses_of_its_unit() {
        let slipped = zone(2, &[3, 5], &[], 0);
        for (sparing, expected) in [
            (Sparing::TrackEnd, vec![(0, 3), (4, 1), (6, 12), (20, 8), (30, 8)]),
            (Sparing::CylinderEnd, vec![(0, 3), (4, 1), (6, 32)]),
            (Sparing::CylinderEndBesideSlips, vec![(0, 3), (4, 1), (6, 12), (20, 18)]),
            (Sparing::CylinderStart, vec![(0, 3), (4, 1), (6, 14), (22, 18)]),
            (Sparing::CylinderStartBesideSlips, vec![(2, 1), (4, 1), (6, 14), (22, 18)]),
            (Sparing::ZoneEnd, vec![(0, 3), (4, 1), (6, 34)]),
            (Sparing::ZoneEndBesideSlips, vec![(0, 3), (4, 1), (6, 32)]),
            (Sparing::DriveEnd, vec![(0, 3), (4, 1), (6, 34)]),
        ] {
            assert_eq!(pieces(&slipped, EXTENT, sparing, 1).unwrap(), expected, "{sparing:?}");
        }
        let track = zone(2, &[1], &[], 0);
        assert_eq!(pieces(&track, EXTENT, Sparing::Tracks, 1).unwrap(), [(0, 10), (20, 10)]);
    }

    /// Reserved sectors have no address. The address of a remapped sector lies at another place.
    #[test]
    fn reserved_sectors_have_no_address_and_remapped_ones_move() {
        let both = zone(2, &[], &[(20, 38), (30, 30)], 4);
        assert_eq!(pieces(&both, EXTENT, Sparing::ZoneEnd, 1).unwrap(), [(4, 16), (38, 1), (21, 17)]);
    }

    #[test]
    fn what_the_zone_does_not_have_is_refused() {
        for bad in
            [zone(2, &[40], &[], 0), zone(2, &[5, 3], &[], 0), zone(2, &[], &[(0, 40)], 0), zone(40, &[], &[], 0)]
        {
            assert_eq!(pieces(&bad, EXTENT, Sparing::ZoneEnd, 1).unwrap_err().key, "zones");
        }
        assert!(pieces(&zone(0, &[], &[], 40), EXTENT, Sparing::None, 1).is_err());
    }
}
