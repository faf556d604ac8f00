//! Layout of sectors: zones, tracks, skew, spare and moved sectors; maps addresses to places and
//! back.
//!
//! [`Layout`] is the whole layout. `zones.rs` checks or makes the zones, and `sparing.rs` decides
//! which of their sectors carry addresses. No part of this folder moves or takes time.

mod sparing;
mod zones;

use bimetal_core::units::Sectors;
use serde::Deserialize;

pub use sparing::Sparing;

use super::profile::{HddProfile, ZoneFigures};
use crate::profile::BadFigure;

/// Order in which addresses run over the tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Cylinder by cylinder, always from the first head to the last.
    #[default]
    Cylinder,
    /// Cylinder by cylinder, on every second cylinder from the last head to the first, so that a
    /// change of cylinder needs no change of head.
    Serpentine,
    /// As the serpentine order, but each zone starts with the first head.
    SerpentineInZone,
    /// Band by band: over the `band_cylinders` cylinders of a band on the first head, back over
    /// them on the next head, and so on. Current drives have this order, because a change to the
    /// next cylinder takes less time than a change of head.
    HeadMajor,
}

/// Place of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Index of the zone, 0 outermost.
    pub zone: u32,
    /// Number of the track within the zone, in order of address.
    pub track: u32,
    /// Number of the cylinder, 0 outermost.
    pub cylinder: u32,
    /// Number of the head.
    pub head: u32,
    /// Number of the sector on the track.
    pub sector: u32,
    /// Index of the run of consecutive sectors.
    run: u32,
    /// Angle at which the track starts, in nanoseconds since the index mark.
    track_angle_ns: u64,
}

/// Cylinders with the same number of sectors per track, prepared for fast look-up.
#[derive(Clone, Debug)]
struct Zone {
    first_cylinder: u32,
    tracks: u32,
    sectors_per_track: u32,
    /// Nanoseconds that a sector takes to pass under the head.
    sector_ns: f64,
    /// Angle of the first sector, in nanoseconds since the index mark.
    first_angle_ns: u64,
    /// Thousandths of a sector by which a track is rotated against the previous track on the same
    /// cylinder.
    track_skew: u64,
    /// Thousandths of a sector by which the first track of a cylinder is rotated against the last
    /// track of the previous cylinder.
    cylinder_skew: u64,
}

/// Run of sectors that are consecutive both on the tracks of a zone and in address.
#[derive(Clone, Copy, Debug)]
struct Run {
    first_lbn: u64,
    /// Number, within the zone, of the run's first sector.
    first_sector: u64,
    zone: u32,
}

/// Layout of a drive. Angles are nanoseconds of rotation since the index mark.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<Zone>,
    /// Runs in order of address.
    runs: Vec<Run>,
    sectors: u64,
    heads: u32,
    mapping: Mapping,
    band_cylinders: u32,
    revolution_ns: u64,
    cylinders: u32,
}

impl Layout {
    /// Returns the layout that `profile` describes for a drive of `own` sectors. If `needed` is
    /// more, each zone gets more cylinders, by the same factor. If no skew is given, tracks are
    /// skewed so that a write that continues over a switch finds its sector just behind the head.
    ///
    /// # Errors
    /// Refuses zones that overlap, leave gaps or hold less than `own`, and rates that no track can
    /// have. Refuses spare or bad sectors outside their zone, and too many cylinders.
    pub fn new(profile: &HddProfile, own: Sectors, needed: Sectors) -> Result<Self, BadFigure> {
        let figures = zones::zones(profile, own)?;
        let layout = Self::of_zones(profile, &figures, (1, 1))?;
        if layout.sectors() < own {
            let expected = format!("at most the {} bytes that its zones hold", layout.sectors().bytes().0);
            return Err(BadFigure::new("capacity", own.bytes().0, expected));
        }
        if needed <= own {
            return Ok(layout);
        }
        // Spares may take more than their share of the addition; then a little more is added.
        let mut wanted = needed.0;
        loop {
            let layout = Self::of_zones(profile, &figures, (wanted, own.0))?;
            if layout.sectors() >= needed {
                return Ok(layout);
            }
            wanted = wanted.saturating_add(needed.0 / 64 + 1);
        }
    }

    fn of_zones(profile: &HddProfile, figures: &[ZoneFigures], factor: (u64, u64)) -> Result<Self, BadFigure> {
        let mut layout = Self {
            zones: Vec::new(),
            runs: Vec::new(),
            sectors: 0,
            heads: profile.heads,
            mapping: profile.mapping,
            band_cylinders: profile.band_cylinders,
            revolution_ns: (60e9 / profile.rpm).round() as u64,
            cylinders: 0,
        };
        for zone in figures {
            layout.push_zone(zone, factor, profile)?;
        }
        Ok(layout)
    }

    /// Appends one zone, its cylinders multiplied by the fraction `factor` and rounded up.
    fn push_zone(&mut self, zone: &ZoneFigures, factor: (u64, u64), profile: &HddProfile) -> Result<(), BadFigure> {
        let cylinders = u128::from(zone.last_cylinder - zone.first_cylinder + 1) * u128::from(factor.0);
        let cylinders = cylinders.div_ceil(u128::from(factor.1));
        let first_cylinder = self.cylinders + zone.unused_cylinders;
        if (u128::from(first_cylinder) + cylinders) * u128::from(self.heads) > u128::from(u32::MAX / 2) {
            let expected = format!("a size that {} heads can hold in 2^31 tracks", self.heads);
            return Err(BadFigure::new("capacity", Sectors(factor.0), expected));
        }
        let (cylinders, sectors) = (cylinders as u32, zone.sectors_per_track);
        let sector_ns = self.revolution_ns as f64 / f64::from(sectors);
        let in_sectors = |skew_ns: f64| ((skew_ns + 2.0) / sector_ns).ceil();
        let thousandths = |skew: f64| (skew * 1000.0).round() as u64 % (u64::from(sectors) * 1000);
        let (track_ns, cylinder_ns) = zones::switch_times_ns(profile)?;
        let first_angle_ns = match (zone.first_angle, self.zones.last()) {
            (Some(angle), _) => (angle * sector_ns).round() as u64 % self.revolution_ns,
            (None, Some(before)) => self.track_angle_ns(before, before.tracks),
            (None, None) => 0,
        };
        let tracks = cylinders * self.heads;
        let made = Zone {
            first_cylinder,
            tracks,
            sectors_per_track: sectors,
            sector_ns,
            first_angle_ns,
            track_skew: thousandths(zone.track_skew.unwrap_or_else(|| in_sectors(track_ns))),
            cylinder_skew: thousandths(zone.cylinder_skew.unwrap_or_else(|| in_sectors(cylinder_ns))),
        };
        let extent = sparing::Extent {
            tracks: u64::from(tracks),
            heads: u64::from(self.heads),
            sectors_per_track: u64::from(sectors),
        };
        for (first_sector, length) in sparing::pieces(zone, extent, profile.sparing, profile.sparing_range)? {
            self.runs.push(Run { first_lbn: self.sectors, first_sector, zone: self.zones.len() as u32 });
            self.sectors += length;
        }
        self.zones.push(made);
        self.cylinders = first_cylinder + cylinders;
        Ok(())
    }

    /// Returns the number of cylinders, including those without data.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Returns true if addresses rise with the cylinder.
    pub fn is_cylinder_major(&self) -> bool {
        self.mapping != Mapping::HeadMajor
    }

    /// Returns the nanoseconds of one revolution.
    #[inline]
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    /// Returns the number of sectors with an address: at least the requested capacity.
    pub fn sectors(&self) -> Sectors {
        Sectors(self.sectors)
    }

    /// Returns the place of the sector at `lbn`.
    #[inline]
    pub fn place(&self, lbn: u64) -> Place {
        debug_assert!(lbn < self.sectors, "sector {lbn} is not on the drive");
        let run = self.runs.partition_point(|run| run.first_lbn <= lbn) - 1;
        self.place_in_run(run, lbn)
    }

    /// Returns the place of the sector at `lbn`, which follows the sectors of `place`: in the same
    /// run, or in the next run.
    #[inline]
    pub fn place_behind(&self, place: &Place, lbn: u64) -> Place {
        let run = place.run as usize + usize::from(lbn >= self.run_end(place.run as usize));
        self.place_in_run(run, lbn)
    }

    #[inline]
    fn place_in_run(&self, index: usize, lbn: u64) -> Place {
        let run = &self.runs[index];
        let zone = &self.zones[run.zone as usize];
        let offset = run.first_sector + (lbn - run.first_lbn);
        let track = offset / u64::from(zone.sectors_per_track);
        let sector = (offset - track * u64::from(zone.sectors_per_track)) as u32;
        let (cylinder, head) = self.track_place(zone, track as u32);
        Place {
            zone: run.zone,
            track: track as u32,
            cylinder: zone.first_cylinder + cylinder,
            head,
            sector,
            run: index as u32,
            track_angle_ns: self.track_angle_ns(zone, track as u32),
        }
    }

    /// Returns the first address after a run.
    #[inline]
    fn run_end(&self, run: usize) -> u64 {
        self.runs.get(run + 1).map_or(self.sectors, |next| next.first_lbn)
    }

    /// Returns the number of sectors from `place`, whose address is `lbn`, that are consecutive on
    /// its track and in address; at least one.
    #[inline]
    pub fn consecutive(&self, place: &Place, lbn: u64) -> u64 {
        let on_track = u64::from(self.zones[place.zone as usize].sectors_per_track - place.sector);
        on_track.min(self.run_end(place.run as usize) - lbn)
    }

    /// Returns the first address on the track of `place`, and the first address after the track.
    /// Both returned addresses are limited to the addresses that are consecutive around `lbn`,
    /// including slipped sectors between, but without remapped sectors.
    pub fn track_bounds(&self, place: &Place, lbn: u64) -> (u64, u64) {
        let sectors = u64::from(self.zones[place.zone as usize].sectors_per_track);
        let track = (u64::from(place.track) * sectors, u64::from(place.track + 1) * sectors);
        let on_track = |run: &Run| run.zone == place.zone && (track.0..track.1).contains(&run.first_sector);
        let mut first = place.run as usize;
        while first > 0 && on_track(&self.runs[first]) && self.last_is_from(first - 1, place.zone, track.0) {
            first -= 1;
        }
        let mut last = place.run as usize;
        while last + 1 < self.runs.len() && self.run_end(last) > lbn && on_track(&self.runs[last + 1]) {
            last += 1;
        }
        let low = &self.runs[first];
        let start = low.first_lbn + track.0.saturating_sub(low.first_sector);
        let high = &self.runs[last];
        (start, self.run_end(last).min(high.first_lbn + (track.1 - high.first_sector)))
    }

    /// Returns true if the last sector of a run lies in `zone`, at the zone's sector `from` or
    /// after it.
    fn last_is_from(&self, run: usize, zone: u32, from: u64) -> bool {
        let length = self.run_end(run) - self.runs[run].first_lbn;
        self.runs[run].zone == zone && self.runs[run].first_sector + length > from
    }

    /// Returns cylinder, counted from the first of the zone, and head of a track.
    #[inline]
    fn track_place(&self, zone: &Zone, track: u32) -> (u32, u32) {
        if self.mapping == Mapping::HeadMajor {
            return self.track_place_in_band(zone, track);
        }
        let cylinder = track / self.heads;
        let turn = track - cylinder * self.heads;
        (cylinder, if self.runs_backwards(zone, cylinder) { self.heads - 1 - turn } else { turn })
    }

    /// Returns true if addresses run from the last head to the first on a cylinder, counted from
    /// the first of its zone.
    #[inline]
    fn runs_backwards(&self, zone: &Zone, cylinder: u32) -> bool {
        match self.mapping {
            Mapping::Cylinder | Mapping::HeadMajor => false,
            Mapping::Serpentine => (zone.first_cylinder + cylinder) % 2 == 1,
            Mapping::SerpentineInZone => cylinder % 2 == 1,
        }
    }

    fn track_place_in_band(&self, zone: &Zone, track: u32) -> (u32, u32) {
        let band = track / (self.band_cylinders * self.heads);
        let first = band * self.band_cylinders;
        // The last band may be narrower.
        let width = self.band_cylinders.min(zone.tracks / self.heads - first);
        let within = track - first * self.heads;
        let (head, step) = (within / width, within % width);
        (first + if head % 2 == 1 { width - 1 - step } else { step }, head)
    }

    /// Returns the track, counted within its zone, of a cylinder counted from the zone's first, and
    /// a head.
    fn track(&self, zone: &Zone, cylinder: u32, head: u32) -> u32 {
        if self.mapping == Mapping::HeadMajor {
            let first = cylinder / self.band_cylinders * self.band_cylinders;
            let width = self.band_cylinders.min(zone.tracks / self.heads - first);
            let step = if head % 2 == 1 { width - 1 - (cylinder - first) } else { cylinder - first };
            return first * self.heads + head * width + step;
        }
        cylinder * self.heads + if self.runs_backwards(zone, cylinder) { self.heads - 1 - head } else { head }
    }

    /// Returns the address of the sector at cylinder, head and sector; `None` if the sector has no
    /// address.
    pub fn lbn(&self, cylinder: u32, head: u32, sector: u32) -> Option<u64> {
        let index = self.zones.iter().rposition(|zone| zone.first_cylinder <= cylinder)?;
        let zone = &self.zones[index];
        let cylinder = cylinder - zone.first_cylinder;
        if cylinder >= zone.tracks / self.heads || head >= self.heads || sector >= zone.sectors_per_track {
            return None;
        }
        let number =
            u64::from(self.track(zone, cylinder, head)) * u64::from(zone.sectors_per_track) + u64::from(sector);
        self.runs.iter().enumerate().filter(|(_, run)| run.zone as usize == index).find_map(|(at, run)| {
            let offset = number.checked_sub(run.first_sector)?;
            let lbn = run.first_lbn + offset;
            (lbn < self.run_end(at)).then_some(lbn)
        })
    }

    /// Returns true if two sectors are on one track.
    pub fn is_one_track(&self, lbn: u64, other: u64) -> bool {
        let (place, other) = (self.place(lbn), self.place(other));
        (place.cylinder, place.head) == (other.cylinder, other.head)
    }

    /// Returns the number of sectors on the track of `place`.
    #[inline]
    pub fn sectors_per_track(&self, place: &Place) -> u32 {
        self.zones[place.zone as usize].sectors_per_track
    }

    /// Returns the nanoseconds that a sector on the track of `place` takes to pass.
    #[inline]
    pub fn sector_ns(&self, place: &Place) -> f64 {
        self.zones[place.zone as usize].sector_ns
    }

    /// Returns the nanoseconds from the start of a track in the zone of `place` to the start of
    /// `sector`. For the sector after the last sector of a track, the time is a whole revolution.
    #[inline]
    pub fn offset_ns(&self, place: &Place, sector: u32) -> u64 {
        // The value is rounded to the nearest, so that the sector after the last is exactly a
        // revolution away.
        (f64::from(sector) * self.zones[place.zone as usize].sector_ns + 0.5) as u64
    }

    /// Returns the angle at which `place` starts.
    #[inline]
    pub fn angle_ns(&self, place: &Place) -> u64 {
        let angle = place.track_angle_ns + self.offset_ns(place, place.sector);
        if angle >= self.revolution_ns { angle - self.revolution_ns } else { angle }
    }

    /// Returns the angle of the first sector of the zone's track `track`.
    #[inline]
    fn track_angle_ns(&self, zone: &Zone, track: u32) -> u64 {
        let (head_changes, cylinder_changes) = match self.mapping {
            Mapping::Cylinder | Mapping::Serpentine | Mapping::SerpentineInZone => {
                (track - track / self.heads, track / self.heads)
            }
            Mapping::HeadMajor => (track / self.band_cylinders, track - track / self.band_cylinders),
        };
        let skew = u64::from(head_changes) * zone.track_skew + u64::from(cylinder_changes) * zone.cylinder_skew;
        let skew = skew % (u64::from(zone.sectors_per_track) * 1000);
        let angle = zone.first_angle_ns + (skew as f64 * zone.sector_ns / 1000.0).round() as u64;
        if angle >= self.revolution_ns { angle - self.revolution_ns } else { angle }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn profile(zones: &[(u32, u32)], heads: u32, mapping: &str) -> HddProfile {
        let mut first = 0;
        let mut text = String::new();
        for (cylinders, sectors) in zones {
            let last = first + cylinders - 1;
            text += &format!(
                "[[zones]]\nfirst_cylinder = {first}\nlast_cylinder = {last}\nsectors_per_track = {sectors}\n"
            );
            first += cylinders;
        }
        let text = format!(
            "rpm = 7200\nheads = {heads}\nmapping = '{mapping}'\n\
             seek_track_to_track_ms = 1\nseek_average_ms = 3\nseek_full_stroke_ms = 6\nhead_switch_ms = 1\n\
             command_overhead_ms = 0.1\nbus_mb_per_s = 300\ncache = 0\nread_segments = 0\nread_ahead = 0\n\
             write_cache = 'off'\nscheduler = 'fcfs'\nqueue_depth = 1\n{text}"
        );
        toml::from_str(&text).unwrap()
    }

    proptest! {
        #[test]
        fn every_sector_has_one_place_and_back(
            zones in proptest::collection::vec((1u32..20, 1u32..50), 1..6),
            heads in 1u32..7,
            serpentine: bool,
            factor in 1u64..4,
        ) {
            let figures = profile(&zones, heads, if serpentine { "serpentine" } else { "cylinder" });
            let own: u64 = zones.iter().map(|(cylinders, sectors)| u64::from(cylinders * heads * sectors)).sum();
            let layout = Layout::new(&figures, Sectors(own), Sectors(own * factor)).unwrap();
            prop_assert_eq!(layout.sectors(), Sectors(own * factor));
            let mut last: Option<Place> = None;
            for lbn in 0..own * factor {
                let place = layout.place(lbn);
                prop_assert_eq!(layout.lbn(place.cylinder, place.head, place.sector), Some(lbn));
                prop_assert!(layout.angle_ns(&place) < layout.revolution_ns());
                if let Some(last) = last {
                    prop_assert!(place.cylinder >= last.cylinder, "addresses rise with the cylinder");
                    prop_assert_eq!(layout.place_behind(&last, lbn), place);
                    if serpentine && place.cylinder != last.cylinder {
                        prop_assert_eq!(place.head, last.head, "a change of cylinder needs no change of head");
                    }
                }
                last = Some(place);
            }
            prop_assert!(last.is_some());
            prop_assert_eq!(layout.lbn(layout.cylinders(), 0, 0), None);
        }
    }

    const SPARING: [&str; 11] = [
        "none",
        "tracks",
        "track-end",
        "cylinder-end",
        "cylinder-end-beside-slips",
        "cylinder-start",
        "cylinder-start-beside-slips",
        "range-end",
        "zone-end",
        "zone-end-beside-slips",
        "drive-end",
    ];

    proptest! {
        /// Spare and bad sectors never give two addresses the same place.
        #[test]
        fn each_address_has_one_place_beside_spares_and_defects(
            zones in proptest::collection::vec((4u32..12, 12u32..40), 1..4),
            heads in 2u32..6,
            sparing in proptest::sample::select(&SPARING[..]),
            mapping in proptest::sample::select(vec!["cylinder", "serpentine", "serpentine-in-zone", "head-major"]),
            spares in 2u64..5,
            slips in proptest::collection::btree_set(0u64..7, 0..3),
            reserved in 0u64..30,
            remapped: bool,
        ) {
            let mut figures = profile(&zones, heads, mapping);
            figures.sparing = toml::Value::from(sparing).try_into().unwrap();
            (figures.sparing_range, figures.band_cylinders) = (2, 3);
            for zone in figures.zones.iter_mut().flatten() {
                (zone.spares, zone.reserved) = (spares, reserved);
                zone.slips = slips.iter().copied().collect();
                // If the spares lie at the end of the zone, the last spare replaces a bad sector.
                if remapped && sparing == "zone-end-beside-slips" {
                    let all = (zone.last_cylinder - zone.first_cylinder + 1) * heads * zone.sectors_per_track;
                    zone.remaps = vec![(35, u64::from(all) - 1)];
                }
            }
            let layout = Layout::new(&figures, Sectors(1), Sectors(1)).unwrap();
            let all: u64 = zones.iter().map(|(cylinders, sectors)| u64::from(cylinders * heads * sectors)).sum();
            prop_assert!(layout.sectors().0 <= all - reserved * zones.len() as u64);
            for lbn in 0..layout.sectors().0 {
                let place = layout.place(lbn);
                prop_assert_eq!(layout.lbn(place.cylinder, place.head, place.sector), Some(lbn), "{:?}", place);
                let consecutive = layout.consecutive(&place, lbn);
                prop_assert!(consecutive >= 1 && lbn + consecutive <= layout.sectors().0);
            }
        }
    }

    #[test]
    fn zones_with_a_gap_or_an_overlap_are_refused() {
        for (first, fault) in [(11, "leave a gap"), (9, "overlap")] {
            let mut figures = profile(&[(10, 5), (10, 4)], 2, "cylinder");
            figures.zones.as_mut().unwrap()[1].first_cylinder = first;
            let error = Layout::new(&figures, Sectors(100), Sectors(100)).unwrap_err();
            assert!(error.key == "zones" && error.expected.contains(fault), "{error:?}");
        }
        let mut figures = profile(&[(10, 5)], 2, "cylinder");
        let error = Layout::new(&figures, Sectors(101), Sectors(101)).unwrap_err();
        assert!(error.expected.contains("at most the 51200 bytes"), "{error:?}");
        figures.zones.as_mut().unwrap()[0].sectors_per_track = 0;
        assert!(Layout::new(&figures, Sectors(100), Sectors(100)).is_err());
    }

    #[test]
    fn a_size_that_needs_too_many_tracks_is_refused() {
        let figures = profile(&[(10, 5)], 2, "cylinder");
        let error = Layout::new(&figures, Sectors(100), Sectors(1 << 50)).unwrap_err();
        assert_eq!(error.key, "capacity");
    }
}
