//! Flash: times of a controller, its link and its dies, measured by commands that disturb each
//! other.
//!
//! Read the files in the order of the measurement. `link.rs`: the controller without the flash.
//! `dies.rs`: rows, dies and channels, by reads. `map.rs`: whether the layer's mapping table is in
//! memory. `programs.rs`: programming, flush and write buffer. `erases.rs`: erases. `wear.rs`: the
//! spare area, by random writes on a used drive. `layer.rs`: the translation layer with the best
//! fit. `used.rs`: the layer and the erases of a used drive without a buffer.
//!
//! Some drives show no dies, because they do one operation at a time or only reads are allowed.
//! `lines.rs` measures these drives by Konanki's lines through pages (thesis, section 5.2).

mod dies;
mod erases;
mod layer;
mod lines;
mod link;
mod map;
mod programs;
mod used;
mod wear;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, SECTOR_BYTES};

use crate::figures::{Extraction, Figures, Kind, quoted};
use crate::prober::Prober;
use crate::{ExtractError, Options};
use dies::Dies;
use erases::Erases;
use link::Controller;
use programs::Programs;
use wear::Sample;

/// Time without commands after which the drive has finished its own work.
const SETTLE_NS: u64 = 30_000_000;
/// Part of the budget in which the region is written; `REGION_MIN` is its least number of sectors:
/// 4 MiB.
const FILL_MAX: f64 = 0.08;
const REGION_MIN: u64 = 1 << 13;
/// Greatest part by which times to program rows may differ and still follow the types of pages.
const SPREAD_MAX: f64 = 0.03;
/// Largest number of checks, half a second apart, of whether a drive has come to rest; `REST_MAX`
/// is the part of the budget for them.
const RESTS_MAX: usize = 40;
const REST_MAX: f64 = 0.03;
/// Number of stripes in the range that is overwritten.
const STRIPES: u64 = 2048;

/// Flash drive that is measured.
pub(crate) struct Drive<'p, 'a> {
    prober: &'p mut Prober<'a>,
    /// Range that is written once, in order, and then only read: its start, and its sectors.
    region: (u64, u64),
    /// Range that is overwritten in order: its start, its sectors, and the next position.
    scratch: (u64, u64, u64),
    /// Nanoseconds of a read in addition to its time in the flash: constant, and for each sector.
    outside: (f64, f64),
    /// Nanoseconds for which a command occupies the link in addition to its data.
    command: f64,
    /// Nanoseconds from the arrival of a write to its end.
    write_overhead: f64,
    /// Number of first reads, of 64, that read a part of the layer's mapping table; `None` if the
    /// mapping table is in memory.
    map_reads: Option<usize>,
}

impl<'p, 'a> Drive<'p, 'a> {
    fn new(prober: &'p mut Prober<'a>) -> Self {
        let (sectors, grain) = (prober.sectors, prober.grain);
        let part = (sectors / 8).min(1 << 17) / grain * grain;
        let at = |fraction: u64| sectors / 8 * fraction / 2048 * 2048 / grain * grain;
        let (region, scratch) = ((at(1), part), (at(4), part, 0));
        Self { prober, region, scratch, outside: (0.0, 0.0), command: 0.0, write_overhead: 0.0, map_reads: None }
    }

    /// Returns true if two simultaneous reads would show that their dies lie on one channel. The
    /// second row must still wait for the channel after its command and its data could have passed
    /// the link.
    fn channels_show(&self, dies: &Dies) -> bool {
        let transfer = (dies.row / dies.unit) as f64 * dies.line.slope;
        let hidden = self.occupied_ns(dies.row);
        self.map_reads.is_none() && dies.row > dies.unit && transfer - hidden > 0.06 * (dies.line.intercept + transfer)
    }

    /// Returns the time for which a command with `sectors` sectors occupies the link.
    fn occupied_ns(&self, sectors: u64) -> f64 {
        self.command + self.outside.1 * sectors as f64
    }

    /// Returns the time of a read of `sectors` sectors without its time in the flash.
    fn outside_ns(&self, sectors: u64) -> f64 {
        self.outside.0 + self.outside.1 * sectors as f64
    }

    /// Returns a place in the region that was written before.
    fn old_place(&mut self) -> u64 {
        let (start, sectors) = self.region;
        start + self.prober.random((sectors / 128).max(1)) * 128.min(sectors) / self.prober.grain * self.prober.grain
    }

    /// Returns the next `sectors` sectors of the range that is overwritten in order.
    fn next_scratch(&mut self, sectors: u64) -> u64 {
        let (start, size, at) = self.scratch;
        let at = if at + sectors > size { 0 } else { at };
        self.scratch.2 = at + sectors;
        start + at
    }

    /// Moves to the next position at which units, pages and rows begin.
    fn align_scratch(&mut self) {
        self.scratch.2 = self.scratch.2.next_multiple_of(2048);
    }

    /// Sets the range that is overwritten to whole stripes of rows, from its start.
    fn overwrite_in_rows(&mut self, dies: &Dies) {
        let stripe = dies.dies * dies.row;
        let most = (self.prober.sectors - self.scratch.0) / 2 / stripe * stripe;
        self.scratch = (self.scratch.0, (STRIPES * stripe).min(most).max(dies.row), 0);
    }

    fn settle(&mut self) {
        self.prober.pause(SETTLE_NS);
    }

    /// Writes the region, in order, and lets the drive come to rest. On a slow drive the region
    /// shrinks to the part that is written within its share of the budget.
    fn fill(&mut self) -> Result<(), ExtractError> {
        let (start, sectors) = self.region;
        let (step, until) = (256.min(sectors), self.prober.used() + FILL_MAX);
        for at in (0..sectors / step).map(|at| at * step) {
            if at >= REGION_MIN && self.prober.used() > until {
                self.region.1 = at;
                break;
            }
            self.prober.run(OpKind::Write, start + at, step, false)?;
            self.prober.done(at as f64 / sectors as f64);
        }
        self.prober.run(OpKind::Flush, 0, 0, false)?;
        self.rest()
    }

    /// Waits until reads of one place take equal times: a drive may still have to write data that
    /// it reported as safe, or to collect garbage.
    fn rest(&mut self) -> Result<(), ExtractError> {
        let until = self.prober.used() + REST_MAX;
        for _ in 0..RESTS_MAX {
            self.prober.pause(20 * SETTLE_NS);
            // The part of the mapping table that the first read fetched is in memory for the
            // others.
            self.prober.read(self.region.0, self.prober.grain)?;
            let (mut least, mut most) = (f64::MAX, 0.0_f64);
            for _ in 0..8 {
                let ns = self.prober.read(self.region.0, self.prober.grain)?.ns();
                (least, most) = (least.min(ns), most.max(ns));
            }
            // On a busy machine no two reads take equal times.
            if most < 1.05 * least || self.prober.used() > until {
                break;
            }
        }
        Ok(())
    }
}

/// Measures the flash drive behind `prober`.
///
/// # Errors
/// Fails if a command fails, or if there is no time for the first figures.
pub(crate) fn extract(prober: &mut Prober<'_>, options: &Options) -> Result<Extraction, ExtractError> {
    let mut drive = Drive::new(prober);
    let mut figures = Figures::default();
    let parts = parts(&mut drive, &mut figures);
    let used = drive.prober.unless_late(parts)?;
    if figures.0.iter().all(|figure| figure.error.is_none()) {
        return Err(ExtractError::NoTime { budget: options.budget, what: "the first figure" });
    }
    if used.is_none() {
        assume_parts(&mut figures);
    }
    let mut extraction = Extraction {
        kind: Kind::Flash,
        capacity_bytes: drive.prober.capacity().bytes().0,
        figures: figures.0,
        trusted: true,
        zones: Vec::new(),
        notes: Vec::new(),
        commands: 0,
        seconds: 0.0,
    };
    if drive.prober.writes {
        let wear = wear::measure(&mut drive, used.flatten().as_ref(), &mut extraction);
        let layer = wear.and_then(|()| layer::measure(&mut drive, &mut extraction));
        drive.prober.unless_late(layer)?;
    } else {
        wear::without_writes(&mut extraction.figures);
    }
    let mut figures = Figures(extraction.figures);
    figures.assume_missing(&[("rated_cycles", "3000"), ("spare_factor", "0.07"), ("ftl", "\"page\"")]);
    extraction.figures = figures.0;
    Ok(extraction)
}

/// Measures controller, dies and writes into `figures`. Returns random writes on the drive in its
/// original state.
fn parts(drive: &mut Drive<'_, '_>, figures: &mut Figures) -> Result<Option<Sample>, ExtractError> {
    drive.prober.step("the first reads", 0.05);
    let mut used = None;
    if drive.prober.writes {
        let buffered = drive.has_buffer()?;
        if buffered {
            // The sample is taken before more is written, on the drive in its original state.
            used = Some(wear::sample(drive)?);
        }
        drive.fill()?;
        if buffered && buffered_parts(drive, figures)? {
            return Ok(used);
        }
    }
    lines::measure(drive, figures)?;
    Ok(used)
}

/// Measures a drive with a write buffer. Returns false if the drive shows too little for further
/// measurements.
fn buffered_parts(drive: &mut Drive<'_, '_>, figures: &mut Figures) -> Result<bool, ExtractError> {
    drive.prober.step("controller and link", 0.1);
    let Some(controller) = drive.controller()? else { return Ok(false) };
    drive.outside = (controller.reads.intercept.max(0.0), controller.reads.slope.max(0.0));
    drive.command = controller.command;
    drive.write_overhead = (controller.writes.intercept - controller.command).max(0.0);
    link_figures(drive, &controller, figures);
    drive.prober.step("dies and channels", 0.2);
    drive.map_reads = drive.map_reads()?;
    drive.rest()?;
    match drive.dies()? {
        Some(dies) => dies_figures(drive, &dies, figures)?,
        None => lines::beside(drive, figures)?,
    }
    Ok(true)
}

/// Measures the figures that follow from rows and dies.
fn dies_figures(drive: &mut Drive<'_, '_>, dies: &Dies, figures: &mut Figures) -> Result<(), ExtractError> {
    die_figures(dies, drive.channels_show(dies), figures);
    figures.found("timing", quoted("parallel"), "reads of different dies do not wait for each other");
    drive.prober.step("programming", 0.35);
    drive.align_scratch();
    let programs = drive.programs(dies)?;
    match (drive.map_reads, programs) {
        (None, Some(programs)) => writing(drive, dies, programs, figures)?,
        (map_reads, programs) => writes_hidden(dies, programs, map_reads, figures),
    }
    Ok(())
}

fn link_figures(drive: &Drive<'_, '_>, controller: &Controller, figures: &mut Figures) {
    let Controller { reads, writes, command } = controller;
    let how = "line through the least of ten response times of reads right after the write, of 5 sizes";
    let rate = SECTOR_BYTES as f64 * 1e3 / reads.slope.max(1e-3);
    let rate = rate.clamp(0.01, 1e6);
    figures.number("link_mb_per_s", rate, rate * (reads.slope_error / reads.slope.max(1e-3)).min(1.0), how);
    let error = reads.intercept_error / 1e3;
    figures.number("command_us", command / 1e3, error, "intervals of 64 simultaneous reads of one sector");
    figures.number("read_overhead_us", (drive.outside.0 - command).max(0.0) / 1e3, error, how);
    let how = "line through the least of ten response times of writes into the buffer, of 5 sizes";
    figures.number("write_overhead_us", drive.write_overhead / 1e3, writes.intercept_error / 1e3, how);
}

fn die_figures(dies: &Dies, channels_show: bool, figures: &mut Figures) {
    let (channels, each) = (dies.channels.to_string(), (dies.dies / dies.channels).to_string());
    if channels_show {
        let how = "pairs of simultaneous reads that disturb each other";
        figures.found("channels", channels, how);
        figures.found("dies_per_channel", each, how);
    } else {
        let why = format!(
            "{} dies are measured; rows cross their channel faster than the next command comes, or maps are read in \
             between, so dies on one channel and dies on several cannot be told apart",
            dies.dies
        );
        figures.assumed("channels", channels, why.clone());
        figures.assumed("dies_per_channel", each, why);
    }
    figures.found(
        "mapping_unit",
        quoted(&Bytes(dies.unit * SECTOR_BYTES).to_string()),
        "request size at which the time of a read rises by a step",
    );
    if dies.row <= dies.unit {
        let both = dies.line.intercept + dies.line.slope;
        let how = "response times of reads of a row, transfer included: a row of a single unit shows only the sum";
        figures.number("read_us", both.max(0.0) / 1e3, dies.line.intercept_error / 1e3, how);
        figures.assumed(
            "channel_mb_per_s",
            "1000000.0",
            "included in read_us: a row of a single unit shows only the \
                                                          sum",
        );
        return;
    }
    let (read, transfer) = (dies.line.intercept, dies.line.slope);
    let how = "line through response times of reads over the units of a row";
    figures.number("read_us", read.max(0.0) / 1e3, dies.line.intercept_error / 1e3, how);
    let rate = (dies.unit * SECTOR_BYTES) as f64 * 1e3 / transfer.max(1e-3);
    let error = rate * (dies.line.slope_error / transfer.max(1e-3)).min(1.0);
    figures.number("channel_mb_per_s", rate.clamp(0.01, 1e6), error, how);
}

/// Measures everything that needs writes.
fn writing(
    drive: &mut Drive<'_, '_>,
    dies: &Dies,
    mut programs: Programs,
    figures: &mut Figures,
) -> Result<(), ExtractError> {
    let pages = drive.pages_of_row(dies)?;
    let page = page_of(dies.row, pages);
    drive.overwrite_in_rows(dies);
    let erases = if drive.prober.step("erases", 0.65) { drive.erases(dies, programs.longest())? } else { None };
    let transfer = (dies.row / dies.unit) as f64 * dies.line.slope;
    let row = drive.row_ns(dies)?;
    // Collection takes time, too. But if reads wait for only a small part of it, they stop the
    // die's work.
    let stops = row > 6.0 * (programs.longest() + transfer);
    if stops {
        programs = Programs { by_type: vec![(row - transfer).max(0.0)], error: 0.1 * row };
        figures.assumed("suspend_us", "30.0", "reads do not wait for a row, so they stop it");
    }
    program_figures(&programs, stops, figures);
    erase_figures(erases.filter(|_| !stops), figures);
    let mean = programs.mean();
    let (flush, waits) = drive.flush(dies, page, mean)?;
    figures.number(
        "flush_us",
        flush / 1e3,
        programs.error / 1e3,
        "flushes after a write of one unit, less its programming",
    );
    page_figures(dies, page, waits, figures);
    let protected = if waits { "off" } else { "on" };
    figures.found("power_loss_protection", quoted(protected), "effect of a flush: it waits for the flash, or not");
    let buffer = if drive.prober.step("write buffer", 0.75) { drive.buffer(dies, mean)? } else { None };
    let least = 2 * dies.row * SECTOR_BYTES;
    match buffer {
        Some(held) => {
            let (bytes, error) = (held.sectors * SECTOR_BYTES, held.programmed.max(dies.row) * SECTOR_BYTES);
            let how = "data that arrived before a burst had to wait, less the data that the dies can have programmed";
            figures.size("write_buffer", bytes.max(least), error, how);
        }
        None => {
            let usual = Bytes(least.max(1 << 23)).to_string();
            figures.assumed(
                "write_buffer",
                quoted(&usual),
                "no burst had to wait for room, even after as much data: the dies program about as fast as data \
                 arrives",
            );
        }
    }
    Ok(())
}

/// Adds the translation layer, as the number of reads that read the mapping table suggests.
fn map_figures(shown: usize, figures: &mut Figures) {
    let how = format!(
        "{shown} of 64 first reads of a place took a read more than the second: a part of the map was not in memory"
    );
    figures.found("ftl", quoted("dftl"), how);
    figures.assumed("map_cache", quoted("1MiB"), "the part of the map that is in memory is not measured");
}

/// Adds the figures that are known if no program time can be seen, or if the layer's mapping table
/// lies on flash. The drive's own writes of its mapping table delay reads, so that rows, blocks and
/// erases cannot be measured.
fn writes_hidden(dies: &Dies, programs: Option<Programs>, map_reads: Option<usize>, figures: &mut Figures) {
    let why = match map_reads {
        Some(shown) => {
            map_figures(shown, figures);
            "parts of the map are written in between, so the time cannot be seen"
        }
        None => "no written row kept its die from reading",
    };
    match programs {
        Some(programs) => program_figures(&programs, false, figures),
        None => {
            figures.assumed("program_us", "600.0", why);
            figures.assumed("cell", quoted("tlc"), why);
        }
    }
    let page = page_of(dies.row, 1);
    for (key, value) in [
        ("page_size", quoted(&Bytes(page * SECTOR_BYTES).to_string())),
        ("planes_per_die", (dies.row / page).to_string()),
        ("erase_us", "3000.0".to_owned()),
        ("pages_per_block", "64".to_owned()),
        ("flush_us", "500.0".to_owned()),
        ("power_loss_protection", quoted("off")),
        ("write_buffer", quoted(&Bytes((8 * dies.dies * dies.row * SECTOR_BYTES).max(1 << 16)).to_string())),
    ] {
        figures.assumed(key, value, why);
    }
}

/// Adds pages and planes of a row. Units that are flushed one by one show the pages and planes, if
/// a flush waits until the flash has the units.
fn page_figures(dies: &Dies, page: u64, waits: bool, figures: &mut Figures) {
    let (size, planes) = (quoted(&Bytes(page * SECTOR_BYTES).to_string()), (dies.row / page).to_string());
    if waits {
        let how = "ends of rows, and number of single flushed units in a row";
        figures.found("page_size", size, how);
        figures.found("planes_per_die", planes, how);
    } else {
        let why = format!(
            "a flush does not wait for the flash, so pages and planes of a row of {} are not told apart",
            Bytes(dies.row * SECTOR_BYTES)
        );
        figures.assumed("page_size", size, why.clone());
        figures.assumed("planes_per_die", planes, why);
    }
}

fn program_figures(programs: &Programs, stops: bool, figures: &mut Figures) {
    let how = "times at which reads of all dies end after a row";
    if stops {
        let why = "reads interrupt programming and hide its time; the intervals of rows, collection and erases \
                   included, are a bound";
        figures.assumed("program_us", format!("{:.1}", programs.mean().max(0.0) / 1e3), why);
    } else if programs.error > SPREAD_MAX * programs.mean() {
        let why = format!("the time differs from row to row by {:.0} us, for unknown reasons", programs.error / 1e3);
        figures.assumed("program_us", format!("{:.1}", programs.mean() / 1e3), why);
    } else {
        figures.number("program_us", programs.mean().max(0.0) / 1e3, programs.error / 1e3, how);
    }
    let types = programs.by_type.len();
    if types == 1 {
        figures.assumed("cell", quoted("tlc"), "all rows take the same time");
        return;
    }
    let times: Vec<String> = programs.by_type.iter().map(|ns| format!("{:.2}", ns / 1e3)).collect();
    figures.found("program_us_by_type", quoted(&times.join(",")), format!("{how}: times repeat after {types} rows"));
    let cell = ["slc", "mlc", "tlc", "qlc"][types.clamp(1, 4) - 1];
    figures.found("cell", quoted(cell), "number of page types that take turns");
}

/// Returns the number of sectors in a page, a power of two, of a row with `pages` pages.
fn page_of(row: u64, pages: u64) -> u64 {
    let page = row / pages;
    if page.is_power_of_two() { page } else { 1 << row.trailing_zeros() }
}

fn erase_figures(erases: Option<Erases>, figures: &mut Figures) {
    match erases {
        Some(erases) => {
            let how = format!("{} erases, seen between the reads after a row", erases.seen);
            figures.number("erase_us", erases.ns / 1e3, erases.error / 1e3, how);
            match erases.rows {
                Some(rows) => {
                    let how = "rows that a die writes from one erase to the next";
                    figures.found("pages_per_block", rows.to_string(), how);
                }
                None => figures.assumed("pages_per_block", "256", "other erases happened between the timed erases"),
            }
        }
        None => {
            figures.assumed("erase_us", "3000.0", "no erase was seen");
            figures.assumed("pages_per_block", "256", "no erase was seen");
        }
    }
}

/// Usual figures, which are assumed if there is no time to measure them: few dies, as in a small
/// drive.
const USUAL: [(&str, &str); 18] = [
    ("link_mb_per_s", "550.0"),
    ("command_us", "2.0"),
    ("read_overhead_us", "10.0"),
    ("write_overhead_us", "10.0"),
    ("channels", "2"),
    ("dies_per_channel", "1"),
    ("mapping_unit", "\"4KiB\""),
    ("read_us", "60.0"),
    ("channel_mb_per_s", "400.0"),
    ("timing", "\"parallel\""),
    ("planes_per_die", "1"),
    ("program_us", "600.0"),
    ("cell", "\"tlc\""),
    ("erase_us", "3000.0"),
    ("pages_per_block", "64"),
    ("flush_us", "50.0"),
    ("power_loss_protection", "\"off\""),
    ("write_buffer", "\"8MiB\""),
];

fn assume_parts(figures: &mut Figures) {
    // Pages hold whole units.
    let page = Bytes(figures.sectors("mapping_unit") * SECTOR_BYTES).max(Bytes::from_kib(16));
    figures.assume_missing(&[("page_size", &*quoted(&page.to_string()))]);
    figures.assume_missing(&USUAL);
}
