//! Where each sector lies: zones, tracks, skew; from an address to a place and back.

use bimetal_core::units::Sectors;
use serde::Deserialize;

use super::profile::{HddProfile, ZoneFigures};
use crate::profile::BadFigure;

/// How addresses run over the tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mapping {
    /// Cylinder by cylinder, always from the first head to the last.
    #[default]
    Cylinder,
    /// Cylinder by cylinder, on every other one from the last head to the first, so that a change of cylinder needs no
    /// change of head.
    Serpentine,
}

/// The place of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Index of its zone, 0 outermost.
    pub zone: u32,
    /// Its track, counted within the zone in order of address.
    pub track: u32,
    /// Its cylinder, 0 outermost.
    pub cylinder: u32,
    /// Its head.
    pub head: u32,
    /// Its sector on the track.
    pub sector: u32,
}

/// Cylinders with the same number of sectors per track, made ready for fast look-up.
#[derive(Clone, Debug)]
struct Zone {
    first_lbn: u64,
    end_lbn: u64,
    first_cylinder: u32,
    tracks: u32,
    sectors_per_track: u32,
    /// Nanoseconds that a sector passes under the head.
    sector_ns: f64,
    /// Angle of the first sector, in nanoseconds since the index mark.
    first_angle_ns: u64,
    /// By how much a track is turned against the one before on the same cylinder.
    track_skew_ns: u64,
    /// By how much the first track of a cylinder is turned against the last of the one before.
    cylinder_skew_ns: u64,
}

/// The layout of a drive. Angles are nanoseconds of rotation since the index mark.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<Zone>,
    heads: u32,
    mapping: Mapping,
    revolution_ns: u64,
    cylinders: u32,
}

impl Layout {
    /// The layout that `profile` describes for a drive of `own` sectors, with more cylinders in each zone, by the same
    /// factor, where `needed` is more. Tracks are skewed so that a write that runs on over a switch finds its sector
    /// just behind the head.
    ///
    /// # Errors
    /// Zones that overlap, leave gaps or hold less than `own`, rates that no track can have, too many cylinders.
    pub fn new(profile: &HddProfile, own: Sectors, needed: Sectors) -> Result<Self, BadFigure> {
        let revolution_ns = (60e9 / profile.rpm).round() as u64;
        let figures = match &profile.zones {
            Some(zones) => check_zones(zones, profile, own)?.to_vec(),
            None => zones_from_rates(profile, own)?,
        };
        let factor = (needed.0.max(own.0), own.0);
        let mut layout =
            Self { zones: Vec::new(), heads: profile.heads, mapping: profile.mapping, revolution_ns, cylinders: 0 };
        for zone in &figures {
            layout.push_zone(zone, factor, profile)?;
        }
        Ok(layout)
    }

    /// Appends one zone, its cylinders multiplied by the fraction `factor` and rounded up.
    fn push_zone(&mut self, zone: &ZoneFigures, factor: (u64, u64), profile: &HddProfile) -> Result<(), BadFigure> {
        let cylinders = u128::from(zone.last_cylinder - zone.first_cylinder + 1) * u128::from(factor.0);
        let cylinders = cylinders.div_ceil(u128::from(factor.1));
        if (u128::from(self.cylinders) + cylinders) * u128::from(self.heads) > u128::from(u32::MAX / 2) {
            let expected = format!("a size that {} heads can hold in 2^31 tracks", self.heads);
            return Err(BadFigure::new("capacity", Sectors(factor.0), expected));
        }
        let (cylinders, sectors) = (cylinders as u32, zone.sectors_per_track);
        let sector_ns = self.revolution_ns as f64 / f64::from(sectors);
        let in_sectors = |skew_ns: f64| ((skew_ns + 2.0) / sector_ns).ceil() as u32;
        let (track_ns, cylinder_ns) = switch_times_ns(profile);
        let skew_ns = |skew: u32| (f64::from(skew) * sector_ns).round() as u64 % self.revolution_ns;
        let (first_lbn, first_angle_ns) = match self.zones.last() {
            None => (0, 0),
            Some(before) => (before.end_lbn, self.track_angle_ns(before, before.tracks)),
        };
        let tracks = cylinders * self.heads;
        self.zones.push(Zone {
            first_lbn,
            end_lbn: first_lbn + u64::from(tracks) * u64::from(sectors),
            first_cylinder: self.cylinders,
            tracks,
            sectors_per_track: sectors,
            sector_ns,
            first_angle_ns,
            track_skew_ns: skew_ns(zone.track_skew.unwrap_or_else(|| in_sectors(track_ns))),
            cylinder_skew_ns: skew_ns(zone.cylinder_skew.unwrap_or_else(|| in_sectors(cylinder_ns))),
        });
        self.cylinders += cylinders;
        Ok(())
    }

    /// How many cylinders it has.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Nanoseconds of one revolution.
    #[inline]
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    /// Sectors on all tracks: at least the capacity that was asked for.
    pub fn sectors(&self) -> Sectors {
        Sectors(self.zones.last().map_or(0, |zone| zone.end_lbn))
    }

    /// Where the sector at `lbn` lies.
    #[inline]
    pub fn place(&self, lbn: u64) -> Place {
        debug_assert!(lbn < self.sectors().0, "sector {lbn} is not on the drive");
        let index = self.zones.partition_point(|zone| zone.end_lbn <= lbn);
        let zone = &self.zones[index];
        let offset = lbn - zone.first_lbn;
        let track = offset / u64::from(zone.sectors_per_track);
        let sector = (offset - track * u64::from(zone.sectors_per_track)) as u32;
        self.place_on_track(index, track as u32, sector)
    }

    #[inline]
    fn place_on_track(&self, index: usize, track: u32, sector: u32) -> Place {
        let cylinder = self.zones[index].first_cylinder + track / self.heads;
        let turn = track % self.heads;
        let backwards = self.mapping == Mapping::Serpentine && cylinder % 2 == 1;
        let head = if backwards { self.heads - 1 - turn } else { turn };
        Place { zone: index as u32, track, cylinder, head, sector }
    }

    /// The address of the sector at cylinder, head and sector; `None` where there is none.
    pub fn lbn(&self, cylinder: u32, head: u32, sector: u32) -> Option<u64> {
        let zone = self.zones.iter().rev().find(|zone| zone.first_cylinder <= cylinder)?;
        if cylinder >= self.cylinders || head >= self.heads || sector >= zone.sectors_per_track {
            return None;
        }
        let backwards = self.mapping == Mapping::Serpentine && cylinder % 2 == 1;
        let turn = if backwards { self.heads - 1 - head } else { head };
        let track = u64::from(cylinder - zone.first_cylinder) * u64::from(self.heads) + u64::from(turn);
        Some(zone.first_lbn + track * u64::from(zone.sectors_per_track) + u64::from(sector))
    }

    /// The first sector of the track that follows; `None` behind the last.
    #[inline]
    pub fn next_track(&self, place: &Place) -> Option<Place> {
        if place.track + 1 < self.zones[place.zone as usize].tracks {
            return Some(self.place_on_track(place.zone as usize, place.track + 1, 0));
        }
        let next = place.zone as usize + 1;
        (next < self.zones.len()).then(|| self.place_on_track(next, 0, 0))
    }

    /// Sectors on the track of `place`.
    #[inline]
    pub fn sectors_per_track(&self, place: &Place) -> u32 {
        self.zones[place.zone as usize].sectors_per_track
    }

    /// Nanoseconds that a sector of the track of `place` takes to pass.
    #[inline]
    pub fn sector_ns(&self, place: &Place) -> f64 {
        self.zones[place.zone as usize].sector_ns
    }

    /// Nanoseconds from the start of a track of that zone to the start of `sector`; of the sector behind the last, a
    /// whole revolution.
    #[inline]
    pub fn offset_ns(&self, place: &Place, sector: u32) -> u64 {
        // Rounded to the nearest, so that the sector behind the last is a revolution away to the nanosecond.
        (f64::from(sector) * self.zones[place.zone as usize].sector_ns + 0.5) as u64
    }

    /// The angle at which `place` starts.
    #[inline]
    pub fn angle_ns(&self, place: &Place) -> u64 {
        let zone = &self.zones[place.zone as usize];
        let angle = self.track_angle_ns(zone, place.track) + self.offset_ns(place, place.sector);
        if angle >= self.revolution_ns { angle - self.revolution_ns } else { angle }
    }

    /// The angle of the first sector of the zone's track `track`.
    #[inline]
    fn track_angle_ns(&self, zone: &Zone, track: u32) -> u64 {
        let cylinder_changes = u64::from(track / self.heads);
        let head_changes = u64::from(track) - cylinder_changes;
        (zone.first_angle_ns + head_changes * zone.track_skew_ns + cylinder_changes * zone.cylinder_skew_ns)
            % self.revolution_ns
    }
}

/// What a change of track and of cylinder take at most: what the skew must cover.
fn switch_times_ns(profile: &HddProfile) -> (f64, f64) {
    let settle = profile.write_settle_ms;
    let seek = profile.read_seek().track_to_track_ms.max(profile.write_seek().track_to_track_ms);
    let track = profile.head_switch_ms + settle;
    (track * 1e6, track.max(seek + settle) * 1e6)
}

fn check_zones<'a>(
    zones: &'a [ZoneFigures],
    profile: &HddProfile,
    own: Sectors,
) -> Result<&'a [ZoneFigures], BadFigure> {
    for (key, given) in [
        ("zone_count", profile.zone_count.is_some()),
        ("outer_mb_per_s", profile.outer_mb_per_s.is_some()),
        ("inner_mb_per_s", profile.inner_mb_per_s.is_some()),
    ] {
        if given {
            return Err(BadFigure::new(key, "given", "nothing, because the zones are given one by one"));
        }
    }
    let mut next = 0;
    let mut sectors = 0;
    for (index, zone) in zones.iter().enumerate() {
        let bad = |expected: String| {
            let value = format!("cylinders {} to {} in zone {index}", zone.first_cylinder, zone.last_cylinder);
            Err(BadFigure::new("zones", value, expected))
        };
        if zone.first_cylinder != next {
            let fault = if zone.first_cylinder < next { "overlap" } else { "leave a gap" };
            return bad(format!("first_cylinder = {next}, because zones may not {fault}"));
        }
        if !(zone.first_cylinder..u32::MAX).contains(&zone.last_cylinder) {
            return bad("last_cylinder not below first_cylinder, and below 2^32 - 1".to_owned());
        }
        check_sectors_per_track("zones", zone.sectors_per_track)?;
        next = zone.last_cylinder + 1;
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder + 1);
        sectors += cylinders * u64::from(profile.heads) * u64::from(zone.sectors_per_track);
    }
    if sectors < own.0 {
        let expected = format!("at most the {} bytes that its zones hold", Sectors(sectors).bytes().0);
        return Err(BadFigure::new("capacity", own.bytes().0, expected));
    }
    Ok(zones)
}

fn check_sectors_per_track(key: &'static str, sectors: u32) -> Result<(), BadFigure> {
    if (1..=1_000_000).contains(&sectors) {
        return Ok(());
    }
    Err(BadFigure::new(key, format!("{sectors} sectors per track"), "1 to 1000000 sectors per track"))
}

/// Zones of equal numbers of cylinders, whose rates fall evenly from the outer to the inner one, and which hold `own`.
fn zones_from_rates(profile: &HddProfile, own: Sectors) -> Result<Vec<ZoneFigures>, BadFigure> {
    let missing = |key| BadFigure::new(key, "nothing", "a figure, because no zones are given");
    let count = profile.zone_count.ok_or_else(|| missing("zone_count"))?;
    let outer = profile.outer_mb_per_s.ok_or_else(|| missing("outer_mb_per_s"))?;
    let inner = profile.inner_mb_per_s.ok_or_else(|| missing("inner_mb_per_s"))?;
    if !(1..=1000).contains(&count) {
        return Err(BadFigure::new("zone_count", count, "1 to 1000"));
    }
    if !(inner > 0.0 && inner <= outer) {
        return Err(BadFigure::new("inner_mb_per_s", inner, format!("above 0 and at most outer_mb_per_s = {outer}")));
    }
    let heads = f64::from(profile.heads);
    let (track_ns, cylinder_ns) = switch_times_ns(profile);
    let cylinder_pass_ns = heads * 60e9 / profile.rpm + (heads - 1.0) * track_ns + cylinder_ns;
    let sectors_per_track = |rate: f64| (rate * 1e6 * cylinder_pass_ns / 1e9 / heads / 512.0).round();
    let step = if count == 1 { 0.0 } else { (outer - inner) / f64::from(count - 1) };
    let mut sizes = Vec::new();
    for zone in 0..count {
        let sectors = sectors_per_track(outer - step * f64::from(zone)) as u32;
        check_sectors_per_track("outer_mb_per_s", sectors)?;
        sizes.push(sectors);
    }
    let sectors_of_one_cylinder_each: u64 =
        sizes.iter().map(|&sectors| u64::from(sectors) * u64::from(profile.heads)).sum();
    let cylinders = own.0.div_ceil(sectors_of_one_cylinder_each);
    let cylinders = u32::try_from(cylinders * u64::from(count)).map(|all| all / count).map_err(|_| {
        BadFigure::new("capacity", own.bytes().0, "a size that such tracks can hold on less than 2^32 cylinders")
    })?;
    Ok((0..count)
        .zip(sizes)
        .map(|(zone, sectors_per_track)| ZoneFigures {
            first_cylinder: zone * cylinders,
            last_cylinder: (zone + 1) * cylinders - 1,
            sectors_per_track,
            track_skew: None,
            cylinder_skew: None,
        })
        .collect())
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
                    let new_track = last.sector + 1 == layout.sectors_per_track(&last);
                    let expected = if new_track { layout.next_track(&last) } else { Some(Place { sector: last.sector + 1, ..last }) };
                    prop_assert_eq!(Some(place), expected);
                    if serpentine && place.cylinder != last.cylinder {
                        prop_assert_eq!(place.head, last.head, "a change of cylinder needs no change of head");
                    }
                }
                last = Some(place);
            }
            prop_assert_eq!(layout.next_track(&last.unwrap()), None);
            prop_assert_eq!(layout.lbn(layout.cylinders(), 0, 0), None);
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
