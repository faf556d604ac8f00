//! Zones of a profile: checked as given, or made from the two rates of a data sheet.

use bimetal_core::units::Sectors;

use super::super::profile::{HddProfile, ZoneFigures};
use super::Mapping;
use crate::profile::BadFigure;

/// Returns the zones of `profile` for a drive of `own` sectors.
///
/// # Errors
/// Refuses zones that overlap or leave gaps, and rates that no track can have.
pub(super) fn zones(profile: &HddProfile, own: Sectors) -> Result<Vec<ZoneFigures>, BadFigure> {
    match &profile.zones {
        Some(zones) => check_zones(zones, profile).map(<[_]>::to_vec),
        None => zones_from_rates(profile, own),
    }
}

/// Returns the longest times of a change of track and of cylinder, which the skew must cover.
pub(super) fn switch_times_ns(profile: &HddProfile) -> Result<(f64, f64), BadFigure> {
    let settle = profile.write_settle_ms.max(0.0);
    let seek = profile.seek_to_next_ms()?;
    let track = profile.head_switch_ms + settle;
    Ok((track * 1e6, track.max(seek + settle) * 1e6))
}

fn check_zones<'a>(zones: &'a [ZoneFigures], profile: &HddProfile) -> Result<&'a [ZoneFigures], BadFigure> {
    for (key, given) in [
        ("zone_count", profile.zone_count.is_some()),
        ("outer_mb_per_s", profile.outer_mb_per_s.is_some()),
        ("inner_mb_per_s", profile.inner_mb_per_s.is_some()),
    ] {
        if given {
            return Err(BadFigure::new(key, "given", "nothing, because the zones are given one by one"));
        }
    }
    let mut next = 0_u32;
    for (index, zone) in zones.iter().enumerate() {
        let bad = |expected: String| {
            let value = format!("cylinders {} to {} in zone {index}", zone.first_cylinder, zone.last_cylinder);
            Err(BadFigure::new("zones", value, expected))
        };
        let first = next.saturating_add(zone.unused_cylinders);
        if zone.first_cylinder != first {
            let fault = if zone.first_cylinder < first { "overlap" } else { "leave a gap" };
            return bad(format!("first_cylinder = {first}, because zones may not {fault}"));
        }
        if !(zone.first_cylinder..u32::MAX).contains(&zone.last_cylinder) {
            return bad("last_cylinder not below first_cylinder, and below 2^32 - 1".to_owned());
        }
        check_sectors_per_track("zones", zone.sectors_per_track)?;
        let physical = profile.physical_sector.0;
        if u64::from(zone.sectors_per_track) % physical.sectors().0.max(1) != 0 {
            return bad(format!("sectors_per_track that make whole sectors of physical_sector = {physical}"));
        }
        next = zone.last_cylinder + 1;
    }
    Ok(zones)
}

fn check_sectors_per_track(key: &'static str, sectors: u32) -> Result<(), BadFigure> {
    if (1..=1_000_000).contains(&sectors) {
        return Ok(());
    }
    Err(BadFigure::new(key, format!("{sectors} sectors per track"), "1 to 1000000 sectors per track"))
}

/// Makes zones of equal numbers of cylinders that together hold `own` sectors, with rates that fall
/// evenly from the outer to the inner zone.
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
    let track_pass_ns = track_pass_ns(profile)?;
    // A track holds whole physical sectors.
    let physical = profile.physical_sector.0.sectors().0.max(1) as f64;
    let sectors_per_track = |rate: f64| (rate * 1e6 * track_pass_ns / 1e9 / 512.0 / physical).round() * physical;
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
            ..ZoneFigures::default()
        })
        .collect())
}

/// Returns the nanoseconds in which a track passes under the head on average, with its share of the
/// time of switches.
fn track_pass_ns(profile: &HddProfile) -> Result<f64, BadFigure> {
    let (track_ns, cylinder_ns) = switch_times_ns(profile)?;
    let (heads, revolution_ns) = (f64::from(profile.heads), 60e9 / profile.rpm);
    Ok(match profile.mapping {
        Mapping::HeadMajor => revolution_ns + cylinder_ns,
        _ => revolution_ns + ((heads - 1.0) * track_ns + cylinder_ns) / heads,
    })
}
