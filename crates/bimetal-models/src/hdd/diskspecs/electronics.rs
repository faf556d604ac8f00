//! Reads electronics, buffer and bus from the `.diskspecs` file.

use std::fmt::Write as _;

use super::fields::Fields;
use super::{BusTimes, DiskspecsError, Draft};

/// Writes the plain figures into `draft`, and returns the table of the controller.
pub(super) fn write(specs: &Fields<'_>, bus: Option<BusTimes>, draft: &mut Draft) -> Result<String, DiskspecsError> {
    let own = specs.milliseconds("Bulk sector transfer time")?;
    let bus = match bus {
        Some(bus) => bus,
        None if own > 0.0 => BusTimes { read_ms: own, write_ms: own },
        None => return Err(DiskspecsError::BusRate { file: specs.file.to_owned() }),
    };
    let segments = specs.whole("Number of buffer segments", 1, 10_000)?;
    let size = specs.whole("Segment size (in blks)", 1, 100_000_000)?;
    let most = specs.optional("Maximum read-ahead (blks)", 0.0, 1e8)?.unwrap_or(0.0) as u64;
    let level = specs.whole("Fast write level", 0, 2)?;
    let rate = "the time of a sector on the bus";
    draft.set("bus_mb_per_s", rate_of(bus.read_ms), rate);
    draft.set("cache", (segments * size * 512) as i64, "number and size of the buffer segments");
    draft.set("read_segments", segments as i64, "number of buffer segments");
    draft.set("read_ahead", ((if most == 0 { size } else { most }) * 512) as i64, "maximum read-ahead");
    draft.set("write_cache", if level > 0 { "on" } else { "off" }, "fast write level");
    draft.set("scheduler", "fcfs", "one command at a time");
    draft.set("queue_depth", 1, "one command at a time");
    let mut text = "\n[controller]\n".to_owned();
    write_overheads(specs, &mut text)?;
    write_buffer(specs, level, &mut text)?;
    if bus.write_ms != bus.read_ms {
        let _ = writeln!(text, "write_bus_mb_per_s = {:?}", rate_of(bus.write_ms));
    }
    Ok(text)
}

/// Returns the rate, in 10^6 bytes a second, of a bus that takes `sector_ms` milliseconds a sector.
fn rate_of(sector_ms: f64) -> f64 {
    0.512 / sector_ms
}

fn write_overheads(specs: &Fields<'_>, text: &mut String) -> Result<(), DiskspecsError> {
    // A fixed time for each command, and a factor on all times.
    let scale = specs.optional("Time scale for overheads", 0.0, 1000.0)?.unwrap_or(1.0);
    let each = specs.milliseconds("Per-request overhead time")?;
    let ms = |key: &str| -> Result<f64, DiskspecsError> { Ok(specs.milliseconds(key)? * scale) };
    let kinds = ["Read hit", "Read miss", "Write hit", "Write miss"];
    let mut entries = Vec::new();
    for kind in kinds {
        for last in ["read", "write"] {
            let name = format!("{}_after_{last}", kind.to_lowercase().replace(' ', "_"));
            entries.push(format!("{name} = {:?}", (ms(&format!("{kind} over. after {last}"))? + each)));
        }
    }
    let _ = writeln!(text, "overheads_ms = {{ {} }}", entries.join(", "));
    for (key, name) in [
        ("Read completion overhead", "read_completion_ms"),
        ("Write completion overhead", "write_completion_ms"),
        ("Data preparation overhead", "data_preparation_ms"),
        ("First reselect overhead", "first_reselect_ms"),
        ("Other reselect overhead", "other_reselect_ms"),
        ("Read disconnect afterread", "read_disconnect_after_read_ms"),
        ("Read disconnect afterwrite", "read_disconnect_after_write_ms"),
        ("Write disconnect overhead", "write_disconnect_ms"),
    ] {
        let value = ms(key)?;
        if value > 0.0 {
            let _ = writeln!(text, "{name} = {value:?}");
        }
    }
    let minimum = specs.milliseconds("Minimum seek delay")?;
    if minimum > 0.0 {
        let _ = writeln!(text, "minimum_write_seek_ms = {minimum:?}");
    }
    if specs.flag("Extra write disconnect")? {
        let _ = writeln!(
            text,
            "extra_write_disconnect = {{ command_ms = {:?}, disconnect_ms = {:?}, between_ms = {:?}, \
             second_disconnect_ms = {:?}, seek_delay_ms = {:?} }}",
            ms("Extradisc command overhead")?,
            ms("Extradisc disconnect overhead")?,
            ms("Extradisc inter-disconnect delay")?,
            ms("Extradisc 2nd disconnect overhead")?,
            ms("Extradisc seek delta")?
        );
    }
    Ok(())
}

fn write_buffer(specs: &Fields<'_>, fast_write_level: u64, text: &mut String) -> Result<(), DiskspecsError> {
    let mode = match specs.whole("Buffer continuous read", 0, 4)? {
        0 => "none",
        1 => "track",
        2 => "cylinder",
        3 => "segment",
        _ => "next-track",
    };
    let _ = writeln!(text, "read_ahead_mode = \"{mode}\"");
    let least = specs.optional("Minimum read-ahead (blks)", 0.0, 1e8)?.unwrap_or(0.0);
    if least > 0.0 {
        let _ = writeln!(text, "minimum_read_ahead = {least}");
    }
    let watermark = specs.optional("High (read) water mark", 0.0, 1.0)?.unwrap_or(0.0);
    let _ = writeln!(text, "read_watermark = {watermark:?}");
    let watermark = specs.optional("Low (write) water mark", 0.0, 1.0)?.unwrap_or(0.0);
    if watermark > 0.0 {
        let _ = writeln!(text, "write_watermark = {watermark:?}");
    }
    for (key, name) in [
        ("Never disconnect", "never_disconnect"),
        ("Read-ahead on idle hit", "read_ahead_after_hit"),
        ("Read any free blocks", "keeps_free_sectors"),
        ("Immediate buffer read", "zero_latency_read"),
        ("Immediate buffer write", "zero_latency_write"),
        ("Stop prefetch in sector", "stops_in_sector"),
        ("Enable caching in buffer", "caches"),
        ("Allow read hits on write data", "read_hits_on_writes"),
        ("Combine seq writes", "combines_writes"),
    ] {
        let _ = writeln!(text, "{name} = {}", specs.flag(key)?);
    }
    let separate =
        specs.flag("Use separate write segment")? && specs.whole("Number of buffer segments", 1, 10_000)? > 1;
    let _ = writeln!(text, "separate_write_segment = {separate}");
    if fast_write_level > 0 {
        let _ = writeln!(text, "fast_writes = \"{}\"", if fast_write_level == 1 { "appending" } else { "all" });
    }
    Ok(())
}
