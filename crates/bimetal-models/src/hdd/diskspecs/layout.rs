//! Reads layout and mechanics from the `.model` file and its `.seek` file.

use std::fmt::Write as _;

use toml::Value as Toml;

use super::fields::Fields;
use super::parser::Value;
use super::{DiskspecsError, Draft};

const CYLINDERS_MAX: u64 = 10_000_000;

/// Returns the seek file that the mechanical part names, if its curve has measured points.
pub(super) fn seek_file<'a>(model: &Fields<'a>) -> Result<Option<&'a str>, DiskspecsError> {
    let mechanics = model.block("Mechanical Model", "dm_mech_g1")?;
    match mechanics.word("Seek type") {
        Some("extracted") => mechanics.source("Full seek curve").map(Some),
        _ => Ok(None),
    }
}

/// Writes the plain figures into `draft`, and returns the tables of the zones.
pub(super) fn write(
    model: &Fields<'_>,
    seek: Option<(&str, &str)>,
    draft: &mut Draft,
) -> Result<String, DiskspecsError> {
    let mechanics = model.block("Mechanical Model", "dm_mech_g1")?;
    let layout = model.block("Layout Model", "dm_layout_g1")?;
    let source = "mechanical part of the .model file";
    draft.set("rpm", mechanics.number("Rotation speed (in rpms)", 100.0, 100_000.0)?, source);
    draft.set("heads", model.whole("Number of data surfaces", 1, 1000)? as i64, "data surfaces in the .model file");
    let head_switch = mechanics.number("Head switch time", 0.0, 1000.0)?;
    let settle = mechanics.optional("Add. write settling delay", -100.0, 1000.0)?.unwrap_or(0.0);
    write_seek(&mechanics, seek, draft)?;
    draft.set("head_switch_ms", head_switch, source);
    draft.set(
        "write_settle_ms",
        settle,
        "added to the positioning of a write, as the .model file says; may be negative",
    );
    let mapping = match layout.whole("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => "cylinder",
        1 => "serpentine-in-zone",
        _ => "serpentine",
    };
    draft.set("mapping", mapping, "mapping scheme of the .model file");
    let scheme = layout.whole("Sparing scheme used", 0, 10)?;
    let sparing = match scheme {
        0 => "none",
        1 => "tracks",
        2 => "cylinder-end",
        3 => "track-end",
        4 => "cylinder-end-beside-slips",
        5 => "cylinder-start",
        6 => "cylinder-start-beside-slips",
        7 => "drive-end",
        8 => "range-end",
        9 => "zone-end",
        _ => "zone-end-beside-slips",
    };
    draft.set("sparing", sparing, "sparing scheme of the .model file");
    if scheme == 8 {
        draft.set(
            "sparing_range",
            layout.whole("Rangesize for sparing", 1, CYLINDERS_MAX)? as i64,
            "range size of the .model file",
        );
    }
    zones(&layout)
}

fn write_seek(mechanics: &Fields<'_>, seek: Option<(&str, &str)>, draft: &mut Draft) -> Result<(), DiskspecsError> {
    let points = |points: Vec<(u32, f64)>| {
        let pair = |(distance, ms): (u32, f64)| Toml::Array(vec![Toml::from(i64::from(distance)), Toml::from(ms)]);
        Toml::Array(points.into_iter().map(pair).collect())
    };
    if let Some((text, file)) = seek {
        draft.set("seek_points", points(seek_points(text, file)?), "extracted seek curve: the .seek file");
        return Ok(());
    }
    let single = |key| mechanics.number(key, 0.0, 1000.0);
    match mechanics.word("Seek type") {
        Some(kind @ ("hpl" | "hplplus10")) => {
            let first = match kind {
                "hpl" if mechanics.numbers_with_sign("HPL seek equation values")?.get(5) == Some(&-1.0) => Vec::new(),
                "hpl" => vec![single("Single cylinder seek time")?],
                _ => mechanics.numbers("First ten seek times")?,
            };
            let first: Vec<_> = (1..).zip(first).collect();
            if !first.is_empty() {
                draft.set("seek_points", points(first), "first seek times in the .model file");
            }
            draft.set("seek_formula", formula(mechanics)?, "HPL seek equation in the .model file");
        }
        Some("linear" | "3-point curve" | "curve" | "threePointLine" | "threePointCurve") => {
            let source = "seek times in the .model file";
            draft.set("seek_track_to_track_ms", single("Single cylinder seek time")?, source);
            draft.set("seek_average_ms", single("Average seek time")?, source);
            draft.set("seek_full_stroke_ms", single("Full strobe seek time")?, source);
        }
        Some("constant") => {
            let ms = single("Constant seek time").or_else(|_| single("Average seek time"))?;
            draft.set("seek_points", points(vec![(1, ms)]), "constant seek time in the .model file");
        }
        _ => return Err(mechanics.bad("Seek type", "extracted, hpl, hplplus10, linear, curve or constant")),
    }
    Ok(())
}

fn formula(mechanics: &Fields<'_>) -> Result<Toml, DiskspecsError> {
    const KEY: &str = "HPL seek equation values";
    let values = mechanics.numbers_with_sign(KEY)?;
    let [limit, root_constant, root_factor, line_constant, line_factor, ..] = values[..] else {
        return Err(mechanics.bad(KEY, "at least five numbers"));
    };
    let pair = |a: f64, b: f64| Toml::Array(vec![Toml::from(a), Toml::from(b)]);
    let mut table = toml::Table::new();
    table.insert("linear_from".to_owned(), Toml::from(limit as i64));
    table.insert("root_ms".to_owned(), pair(root_constant, root_factor));
    table.insert("linear_ms".to_owned(), pair(line_constant, line_factor));
    Ok(Toml::Table(table))
}

/// Parses the lines `cylinders, milliseconds` after the first line, which holds their number.
fn seek_points(text: &str, file: &str) -> Result<Vec<(u32, f64)>, DiskspecsError> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |expected: &str| DiskspecsError::Syntax {
            file: file.to_owned(),
            line: index + 1,
            found: line.trim().chars().take(60).collect(),
            expected: expected.to_owned(),
        };
        let mut numbers = line.split([',', ' ', '\t']).filter(|field| !field.trim().is_empty());
        let distance =
            numbers.next().and_then(|field| field.trim().parse::<u32>().ok()).filter(|distance| *distance > 0);
        let ms = numbers.next().and_then(|field| field.trim().parse::<f64>().ok());
        let (Some(distance), Some(ms)) = (distance, ms.filter(|ms| (0.0..=1000.0).contains(ms))) else {
            return Err(bad("cylinders from 1 on, a comma, and 0 to 1000 ms"));
        };
        if points.last().is_some_and(|last| last.0 >= distance) {
            return Err(bad("a distance above the one before: the points must be sorted"));
        }
        points.push((distance, ms));
    }
    if points.is_empty() {
        return Err(DiskspecsError::Syntax {
            file: file.to_owned(),
            line: 1,
            found: String::new(),
            expected: "at least one point after the first line".to_owned(),
        });
    }
    Ok(points)
}

fn zones(layout: &Fields<'_>) -> Result<String, DiskspecsError> {
    let mut text = String::new();
    let mut next = 0;
    let revolutions = layout.word("Skew units") == Some("revolutions");
    for value in layout.list("Zones")? {
        let Value::Block(block) = value else { return Err(layout.bad("Zones", "blocks 'dm_layout_g1_zone { … }'")) };
        let zone = Fields::new(block, layout.file);
        let first = zone.whole("First cylinder number", 0, CYLINDERS_MAX)?;
        let last = zone.whole("Last cylinder number", first, CYLINDERS_MAX)?;
        if first < next {
            return Err(zone.bad("First cylinder number", &format!("{next} or more: zones may not overlap")));
        }
        let sectors = zone.whole("Blocks per track", 1, 1_000_000)?;
        let in_sectors = |key| -> Result<f64, DiskspecsError> {
            let revolutions = revolutions || zone.word("Skew units") == Some("revolutions");
            let scale = if revolutions { sectors as f64 } else { 1.0 };
            Ok((zone.optional(key, 0.0, 1e6)?.unwrap_or(0.0) * scale).rem_euclid(sectors as f64))
        };
        let _ = writeln!(text, "\n[[zones]]\nfirst_cylinder = {first}\nlast_cylinder = {last}");
        if first > next {
            let _ = writeln!(text, "unused_cylinders = {}", first - next);
        }
        let _ = writeln!(text, "sectors_per_track = {sectors}");
        let _ = writeln!(text, "track_skew = {:?}", in_sectors("Skew for track switch")?);
        let _ = writeln!(text, "cylinder_skew = {:?}", in_sectors("Skew for cylinder switch")?);
        let _ = writeln!(text, "first_angle = {:?}", in_sectors("Offset of first block")?);
        for (key, name) in [("Empty space at zone front", "reserved"), ("Number of spares", "spares")] {
            let value = zone.optional(key, 0.0, 1e12)?.unwrap_or(0.0);
            if value > 0.0 {
                let _ = writeln!(text, "{name} = {value}");
            }
        }
        let mut slips = zone.whole_numbers("slips")?;
        slips.sort_unstable();
        slips.dedup();
        if !slips.is_empty() {
            let _ = writeln!(text, "slips = {slips:?}");
        }
        write_remaps(&zone, &mut text)?;
        next = last + 1;
    }
    Ok(text)
}

fn write_remaps(zone: &Fields<'_>, text: &mut String) -> Result<(), DiskspecsError> {
    let defects = zone.whole_numbers("defects")?;
    if !defects.len().is_multiple_of(2) {
        return Err(zone.bad("defects", "pairs of a defect and its replacement"));
    }
    // Some files list a sector as its own replacement, which has no effect.
    let remaps: Vec<_> = defects.chunks(2).filter(|pair| pair[0] != pair[1]).map(<[_]>::to_vec).collect();
    if !remaps.is_empty() {
        let _ = writeln!(text, "remaps = {remaps:?}");
    }
    Ok(())
}
