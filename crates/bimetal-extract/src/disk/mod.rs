//! Measures a hard disk, its rotation and its arm, by the times at which reads and writes end.
//!
//! Read in the order of the measurement: `spindle.rs` (the revolution, and the angle of a sector),
//! `track.rs` (sectors along a track, and its end), `zones.rs`, `geometry.rs` (heads and
//! cylinders), `seek.rs`, `buffer.rs`, `queue.rs`. Each step needs only the results of earlier
//! steps. When the time is over, the remaining figures are assumed and marked as such.

mod buffer;
mod geometry;
mod queue;
mod seek;
mod spindle;
mod track;
mod zones;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{SECTOR_BYTES, Sectors};

use crate::figures::{Extraction, Figures, Kind, quoted};
use crate::prober::Prober;
use crate::{ExtractError, Options};
use geometry::Geometry;
use seek::{Move, Taken};
use spindle::Turning;

/// Measures the disk behind `prober`.
///
/// # Errors
/// Fails if a command fails, if nothing turns, or if there is no time for the least: rotation, one
/// track and a seek.
pub(crate) fn extract(prober: &mut Prober<'_>, options: &Options) -> Result<Extraction, ExtractError> {
    let no_time = |what| ExtractError::NoTime { budget: options.budget, what };
    if !prober.step("rotation", 0.06) {
        return Err(no_time("the rotation"));
    }
    let spindle = spindle::measure(prober)?;
    let mut figures = Figures::default();
    let rpm = 60e9 / spindle.period;
    let how = format!("times between the ends of {} pairs of reads of the same sector", spindle.reads);
    figures.number("rpm", rpm, rpm * spindle.error / spindle.period, how);

    let mut turning = Turning::new(prober, spindle);
    if !turning.prober.step("zones", 0.45) {
        return Err(no_time("the zones"));
    }
    let spans = zones::measure(&mut turning)?;
    turning.prober.step("heads and skews", 0.6);
    let geometry = geometry::measure(&mut turning, &spans)?;
    figures.found(
        "heads",
        geometry.heads.to_string(),
        match geometry.heads {
            1 => "all track changes are alike, so a track counts as a cylinder",
            _ => "share of track changes with the larger skew",
        },
    );
    if let Some(sectors) = turning.prober.larger_physical_sector() {
        figures.reported("physical_sector", quoted(&Sectors(sectors).bytes().to_string()));
    }
    if geometry.zones.iter().any(|zone| zone.spares > 0) {
        figures.found(
            "sparing",
            quoted("cylinder-end"),
            "cylinders have fewer addresses than their tracks have sectors",
        );
    }
    let base = command(&mut turning, &geometry, &mut figures)?;
    seeks(&mut turning, &geometry, base.0, &mut figures)?;
    let cached = caches(&mut turning, &geometry, base.1, &mut figures);
    turning.prober.unless_late(cached)?;
    figures.assume_missing(&[("cache", "0"), ("read_segments", "0"), ("read_ahead", "0"), ("write_cache", "\"off\"")]);

    let mut extraction = Extraction {
        kind: Kind::Hdd,
        capacity_bytes: turning.prober.capacity().bytes().0,
        figures: figures.0,
        trusted: true,
        zones: geometry.zones.iter().map(geometry::Zone::figure).collect(),
        notes: Vec::new(),
        commands: 0,
        seconds: 0.0,
    };
    let ordered = order(turning.prober, &mut extraction);
    turning.prober.unless_late(ordered)?;
    let mut figures = Figures(extraction.figures);
    figures.assume_missing(&[("scheduler", "\"fcfs\""), ("queue_depth", "1")]);
    extraction.figures = figures.0;
    Ok(extraction)
}

/// Measures the time of a command beside the medium, as figures of the electronics. Returns two
/// times: of a read of one granule beside the seek, in nanoseconds, with its error, and of a sector
/// on the interface.
fn command(
    turning: &mut Turning<'_, '_>,
    geometry: &Geometry,
    figures: &mut Figures,
) -> Result<(Taken, f64), ExtractError> {
    turning.prober.step("electronics", 0.62);
    let grain = turning.prober.grain as f64;
    let zone = geometry.zone(geometry.cylinders() / 2);
    let pitch = turning.spindle.period / f64::from(zone.sectors_per_track);
    if let Some(line) = turning.electronics()? {
        let (overhead, bus) = (line.intercept.max(0.0), line.slope);
        let how = "line through the shortest of ten response times of reads from the buffer, of 5 sizes";
        figures.number("command_overhead_ms", overhead / 1e6, line.intercept_error / 1e6, how);
        let rate = SECTOR_BYTES as f64 * 1e3 / bus;
        figures.number("bus_mb_per_s", rate, rate * line.slope_error / bus, how);
        return Ok((Taken { ns: overhead + grain * (pitch + bus), error: line.intercept_error }, bus));
    }
    // Without a buffer a sector on the same track can be read as soon as the command is decoded.
    let stay = turning.reach(geometry, Move::Stay, OpKind::Read)?;
    let stay = stay.unwrap_or(Taken { ns: 1e5 + grain * pitch, error: 1e5 });
    let overhead = (stay.ns - grain * pitch).max(0.0);
    figures.number(
        "command_overhead_ms",
        overhead / 1e6,
        stay.error / 1e6,
        "earliest time at which another sector of a track can be read",
    );
    figures.assumed("bus_mb_per_s", "300.0", "only a drive with a buffer shows this figure");
    Ok((stay, 0.0))
}

fn seeks(
    turning: &mut Turning<'_, '_>,
    geometry: &Geometry,
    base: Taken,
    figures: &mut Figures,
) -> Result<(), ExtractError> {
    turning.prober.step("seeks", 0.8);
    let mut distances = seek::distances(geometry.cylinders());
    // The longest and the shortest come first, so that a budget that is used up leaves a curve.
    let spread = |distances: &mut Vec<u32>| {
        let (even, odd): (Vec<_>, Vec<_>) = distances.iter().rev().enumerate().partition(|(at, _)| at % 2 == 0);
        *distances = even.into_iter().chain(odd).map(|(_, distance)| *distance).collect();
        let shortest = distances.iter().position(|distance| *distance == 1).unwrap_or(0);
        distances.swap(0, shortest);
    };
    spread(&mut distances);
    let (track_ns, cylinder_ns) = geometry.skews_ns(turning.spindle.period);
    let mut reads = curve(turning, geometry, &distances, OpKind::Read, base)?;
    within_first(&mut reads, cylinder_ns);
    list(figures, "seek_points", &reads, "reads at various distances");
    let head = if geometry.heads > 1 { turning.reach(geometry, Move::Head, OpKind::Read) } else { Ok(None) };
    let head = turning.prober.unless_late(head)?.flatten();
    let head = head.map(|taken| within(less(taken, base), track_ns));
    match head {
        Some(taken) => {
            figures.number("head_switch_ms", taken.ns / 1e6, taken.error / 1e6, "reads under the previous head");
        }
        None => {
            let next = reads.first().map_or(0.0, |(_, taken)| taken.ns);
            figures.assumed("head_switch_ms", format!("{:.5}", next / 1e6), "same as a seek to the next cylinder");
        }
    }
    if turning.prober.writes && turning.prober.step("write seeks", 0.88) {
        let written = write_seeks(turning, geometry, &distances, (base, head), (track_ns, cylinder_ns), figures);
        turning.prober.unless_late(written)?;
    }
    Ok(())
}

/// Measures seeks of writes past the cache: their additional time on the track, and their curve.
/// `known` are the time of a read beside a seek, and of a switch of heads; `skews` are the skews of
/// tracks and cylinders in nanoseconds.
fn write_seeks(
    turning: &mut Turning<'_, '_>,
    geometry: &Geometry,
    distances: &[u32],
    known: (Taken, Option<Taken>),
    skews: (f64, f64),
    figures: &mut Figures,
) -> Result<(), ExtractError> {
    let ((base, head), (track_ns, cylinder_ns)) = (known, skews);
    // Writes are of whole sectors of the medium, which take longer to pass than a granule of reads.
    let more = (turning.prober.write_grain - turning.prober.grain) as f64;
    let sectors_per_track = geometry.zone(geometry.cylinders() / 2).sectors_per_track;
    let base = Taken { ns: base.ns + more * turning.spindle.period / f64::from(sectors_per_track), ..base };
    let mut settle = Taken { ns: 0.0, error: 0.0 };
    if let Some(head) = head
        && let Some(write) = turning.reach(geometry, Move::Head, OpKind::Write)?
    {
        let write = within(less(write, base), track_ns);
        let longer = Taken { ns: write.ns - head.ns, error: write.error + head.error };
        // A time below its error counts as zero.
        if longer.ns.abs() > 2.0 * longer.error {
            settle = longer;
            figures.number(
                "write_settle_ms",
                settle.ns / 1e6,
                settle.error / 1e6,
                "writes past the cache, under the previous head",
            );
        }
    }
    let after = Taken { ns: base.ns + settle.ns, error: base.error + settle.error };
    let mut writes = curve(turning, geometry, distances, OpKind::Write, after)?;
    within_first(&mut writes, cylinder_ns - settle.ns);
    list(figures, "write_seek_points", &writes, "as for seek_points, with writes past the cache");
    Ok(())
}

/// Returns `taken` minus `base`.
fn less(taken: Taken, base: Taken) -> Taken {
    Taken { ns: (taken.ns - base.ns).max(0.0), error: taken.error + base.error }
}

/// Shortens a time a little above a skew to the skew, as a stream that crosses the skew loses no
/// turn.
fn within(taken: Taken, skew_ns: f64) -> Taken {
    let almost = taken.ns > skew_ns - 20.0 && taken.ns < skew_ns + 4.0 * taken.error + 20_000.0;
    if almost { Taken { ns: (skew_ns - 20.0).max(0.0), ..taken } } else { taken }
}

fn within_first(curve: &mut [(u32, Taken)], skew_ns: f64) {
    if let Some((1, taken)) = curve.first_mut() {
        *taken = within(*taken, skew_ns);
    }
}

fn list(figures: &mut Figures, key: &str, curve: &[(u32, Taken)], how: &str) {
    let worst = curve.iter().map(|(_, taken)| taken.error).fold(0.0, f64::max);
    let points: Vec<(u32, f64)> = curve.iter().map(|(distance, taken)| (*distance, taken.ns / 1e6)).collect();
    let how = format!("{how}, {} distances; the largest error of a point", points.len());
    figures.number_list(key, &points, worst / 1e6, how);
}

/// Returns seek times by distance, from short to long.
fn curve(
    turning: &mut Turning<'_, '_>,
    geometry: &Geometry,
    distances: &[u32],
    kind: OpKind,
    base: Taken,
) -> Result<Vec<(u32, Taken)>, ExtractError> {
    let mut curve = Vec::new();
    for (at, distance) in distances.iter().enumerate() {
        if turning.prober.is_late() && curve.len() > 2 {
            turning.prober.left_out.push("some seek distances");
            break;
        }
        let taken = turning.reach(geometry, Move::Cylinders(*distance), kind);
        if curve.len() > 2 && matches!(taken, Err(ExtractError::NoTime { .. })) {
            turning.prober.unless_late(taken)?;
            break;
        }
        if let Some(taken) = taken? {
            curve.push((*distance, less(taken, base)));
        }
        turning.prober.done(at as f64 / distances.len() as f64);
    }
    curve.sort_by_key(|(distance, _)| *distance);
    Ok(curve)
}

fn caches(
    turning: &mut Turning<'_, '_>,
    geometry: &Geometry,
    bus: f64,
    figures: &mut Figures,
) -> Result<(), ExtractError> {
    let time = turning.prober.step("cache and read-ahead", 0.95);
    let (mut segments, mut ahead) = (0, 0);
    if turning.spindle.hit_ns > 0.0 && time {
        let fewest = geometry.zones.iter().map(|zone| zone.sectors_per_track).min().unwrap_or(1);
        ahead = turning.read_ahead(turning.spindle.period / f64::from(fewest))?;
        segments = if ahead > 0 { turning.segments()? } else { 0 };
    }
    let (ahead_bytes, grain) = (ahead * SECTOR_BYTES, turning.prober.grain * SECTOR_BYTES);
    let mut cache = (segments * ahead_bytes, segments * grain);
    let mut writes = None;
    if turning.prober.writes && time {
        let cached = turning.caches_writes()?;
        writes = Some(cached);
        if cached {
            let (room, error) = turning.write_room(bus)?;
            cache = (cache.0 + room * SECTOR_BYTES, cache.1 + error * SECTOR_BYTES);
        }
    }
    if time {
        figures.size(
            "cache",
            cache.0,
            cache.1,
            "segments times read-ahead, and the size of writes that it takes at \
                                                 once",
        );
        figures.found("read_segments", segments.to_string(), "number of places that are still in the buffer");
        figures.size(
            "read_ahead",
            ahead_bytes,
            grain,
            "distance after a read up to which sectors are in the buffer a while later",
        );
    } else {
        figures.assumed("cache", "0", "no time");
        figures.assumed("read_segments", "0", "no time");
        figures.assumed("read_ahead", "0", "no time");
    }
    match writes {
        Some(true) => figures.found("write_cache", quoted("on"), "writes end long before writes past the cache do"),
        Some(false) => figures.found("write_cache", quoted("off"), "writes take as long as writes past the cache"),
        None => figures.assumed("write_cache", quoted("off"), "only writes show this figure"),
    }
    Ok(())
}

/// Measures scheduler and queue depth.
fn order(prober: &mut Prober<'_>, extraction: &mut Extraction) -> Result<(), ExtractError> {
    let time = prober.step("order of service", 0.99);
    let mut figures = Figures(extraction.figures.clone());
    let mut with = |scheduler: &str, depth: usize, how: &str, known: bool| {
        let kind = if known { Figures::found } else { Figures::assumed };
        kind(&mut figures, "scheduler", quoted(scheduler), how.to_owned());
        kind(&mut figures, "queue_depth", depth.to_string(), how.to_owned());
    };
    if !time {
        with("fcfs", 1, "no time", false);
        extraction.figures = figures.0;
        return Ok(());
    }
    let mut trial = extraction.clone();
    let mut without = Figures::default();
    without.assumed("scheduler", quoted("fcfs"), "on trial");
    without.assumed("queue_depth", "1", "on trial");
    trial.figures = figures.0.iter().cloned().chain(without.0).collect();
    let fit = queue::measure(prober, &trial)?;
    let how = format!(
        "best fit of the known orders: reads of a batch end as on the model, ± {:.1} % of their time",
        fit.off * 100.0
    );
    let kind = Figures::found;
    kind(&mut figures, "scheduler", quoted(fit.scheduler), how.clone());
    kind(&mut figures, "queue_depth", fit.depth.to_string(), how);
    extraction.figures = figures.0;
    Ok(())
}
