//! Flash: what a controller, its link and its dies take, by which commands disturb each other.
//!
//! Read in the order of the measurement: `link.rs` (the controller without the flash), `dies.rs` (rows, dies, channels, by
//! reads), `programs.rs` (programming, flush, write buffer), `erases.rs`, `wear.rs` (spare area, by random writes on a
//! used drive), `layer.rs` (which translation layer fits best). A drive that shows no dies (one thing at a time, or only
//! reading allowed) gets Konanki's lines through pages (thesis, section 5.2), in `lines.rs`.

mod dies;
mod erases;
mod layer;
mod lines;
mod link;
mod programs;
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

/// How long the drive is left alone, so that it has nothing left to do for itself.
const SETTLE_NS: u64 = 30_000_000;
/// Stripes in the range that is overwritten.
const STRIPES: u64 = 2048;

/// A flash drive that is measured.
pub(crate) struct Drive<'p, 'a> {
    prober: &'p mut Prober<'a>,
    /// What is written once, in order, and then only read: where it begins, and its sectors.
    region: (u64, u64),
    /// What is overwritten in order: where it begins, its sectors, and where it goes on.
    scratch: (u64, u64, u64),
    /// Nanoseconds of a read beside the flash: constant, and for each sector.
    outside: (f64, f64),
    /// Nanoseconds from when a write has come in to when it is done.
    write_overhead: f64,
}

impl<'p, 'a> Drive<'p, 'a> {
    fn new(prober: &'p mut Prober<'a>) -> Self {
        let (sectors, grain) = (prober.sectors, prober.grain);
        let part = (sectors / 8).min(1 << 17) / grain * grain;
        let at = |fraction: u64| sectors / 8 * fraction / 2048 * 2048 / grain * grain;
        Self { prober, region: (at(1), part), scratch: (at(4), part, 0), outside: (0.0, 0.0), write_overhead: 0.0 }
    }

    /// Whether two reads at once would show that their dies lie on one channel: the second row must still wait for it when command and
    /// link have let it through.
    fn channels_show(&self, dies: &Dies, controller: &Controller) -> bool {
        let transfer = (dies.row / dies.unit) as f64 * dies.line.slope;
        let hidden = self.outside.1 * dies.row as f64 + controller.command;
        dies.row > dies.unit && transfer - hidden > 0.06 * (dies.line.intercept + transfer)
    }

    /// What a read of so many sectors takes beside the flash.
    fn outside_ns(&self, sectors: u64) -> f64 {
        self.outside.0 + self.outside.1 * sectors as f64
    }

    /// A place in what was written before.
    fn old_place(&mut self) -> u64 {
        let (start, sectors) = self.region;
        start + self.prober.random((sectors / 128).max(1)) * 128.min(sectors) / self.prober.grain * self.prober.grain
    }

    /// The next `sectors` sectors of what may be overwritten, in order.
    fn next_scratch(&mut self, sectors: u64) -> u64 {
        let (start, size, at) = self.scratch;
        let at = if at + sectors > size { 0 } else { at };
        self.scratch.2 = at + sectors;
        start + at
    }

    /// Goes on at a place at which units, pages and rows begin.
    fn align_scratch(&mut self) {
        self.scratch.2 = self.scratch.2.next_multiple_of(2048);
    }

    /// From now on so many stripes of rows are overwritten, in order.
    fn overwrite_in_rows(&mut self, dies: &Dies) {
        let stripe = dies.dies * dies.row;
        let most = (self.prober.sectors - self.scratch.0) / 2 / stripe * stripe;
        self.scratch = (self.scratch.0, (STRIPES * stripe).min(most).max(dies.row), 0);
    }

    fn settle(&mut self) {
        self.prober.pause(SETTLE_NS);
    }

    /// Writes the region, in order, and lets the drive come to rest.
    fn fill(&mut self) -> Result<(), ExtractError> {
        let (start, sectors) = self.region;
        let step = 256.min(sectors);
        for at in (0..sectors / step).map(|at| at * step) {
            self.prober.run(OpKind::Write, start + at, step, false)?;
            self.prober.done(at as f64 / sectors as f64);
        }
        self.prober.run(OpKind::Flush, 0, 0, false)?;
        // A drive that need not wait for the flash to say that all is safe still has it to write.
        self.prober.pause(20 * SETTLE_NS);
        Ok(())
    }
}

/// Measures the flash drive behind `prober`.
///
/// # Errors
/// A command fails, or there is no time for the first figures.
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
        let layer = layer::measure(&mut drive, &mut extraction);
        let layer = layer.and_then(|()| wear::measure(&mut drive, used.flatten().as_ref(), &mut extraction));
        drive.prober.unless_late(layer)?;
    } else {
        wear::without_writes(&mut extraction.figures);
    }
    let mut figures = Figures(extraction.figures);
    figures.assume_missing(&[("rated_cycles", "3000"), ("spare_factor", "0.07"), ("ftl", "\"page\"")]);
    extraction.figures = figures.0;
    Ok(extraction)
}

/// Measures controller, dies and writes into `figures`; gives random writes on the drive as it was found.
fn parts(drive: &mut Drive<'_, '_>, figures: &mut Figures) -> Result<Option<Sample>, ExtractError> {
    drive.prober.step("the first reads", 0.05);
    let (mut found, mut used) = (None, None);
    let buffered = drive.prober.writes && drive.has_buffer()?;
    if buffered {
        // Before more is written: on the drive as it was used.
        used = Some(wear::sample(drive)?);
        drive.fill()?;
        drive.prober.step("controller and link", 0.1);
        let controller = drive.controller()?;
        drive.outside = (controller.reads.intercept.max(0.0), controller.reads.slope.max(0.0));
        drive.write_overhead = (controller.writes.intercept - controller.command).max(0.0);
        drive.prober.step("dies and channels", 0.2);
        found = drive.dies()?.map(|dies| (controller, dies));
    } else if drive.prober.writes {
        drive.fill()?;
    }
    match found {
        Some((controller, dies)) => {
            link_figures(drive, &controller, figures);
            die_figures(&dies, drive.channels_show(&dies, &controller), figures);
            writing(drive, &dies, figures)?;
        }
        None => lines::measure(drive, buffered, figures)?,
    }
    Ok(used)
}

fn link_figures(drive: &Drive<'_, '_>, controller: &Controller, figures: &mut Figures) {
    let Controller { reads, writes, command } = controller;
    let how = "line through the least of ten response times of reads right after the write, of 5 sizes";
    let rate = SECTOR_BYTES as f64 * 1e3 / reads.slope.max(1e-3);
    let rate = rate.clamp(0.01, 1e6);
    figures.number("link_mb_per_s", rate, rate * (reads.slope_error / reads.slope.max(1e-3)).min(1.0), how);
    let error = reads.intercept_error / 1e3;
    figures.number("command_us", command / 1e3, error, "how fast 64 reads of one sector at once follow each other");
    figures.number("read_overhead_us", (drive.outside.0 - command).max(0.0) / 1e3, error, how);
    let how = "line through the least of ten response times of writes into the buffer, of 5 sizes";
    figures.number("write_overhead_us", drive.write_overhead / 1e3, writes.intercept_error / 1e3, how);
}

fn die_figures(dies: &Dies, channels_show: bool, figures: &mut Figures) {
    let (channels, each) = (dies.channels.to_string(), (dies.dies / dies.channels).to_string());
    if channels_show || dies.channels < dies.dies {
        let how = "which pairs of reads at once disturb each other";
        figures.found("channels", channels, how);
        figures.found("dies_per_channel", each, how);
    } else {
        let why = format!(
            "{} dies are measured; a row crosses its channel faster than the next command and its data come, so dies on one channel are \
             not told from dies on several",
            dies.dies
        );
        figures.assumed("channels", channels, why.clone());
        figures.assumed("dies_per_channel", each, why);
    }
    figures.found(
        "mapping_unit",
        quoted(&Bytes(dies.unit * SECTOR_BYTES).to_string()),
        "where reads take a step longer",
    );
    if dies.row <= dies.unit {
        let both = dies.line.intercept + dies.line.slope;
        let how = "response times of reads of a row, the transfer included: a row of a single unit shows only the sum";
        figures.number("read_us", both.max(0.0) / 1e3, dies.line.intercept_error / 1e3, how);
        figures.assumed("channel_mb_per_s", "1000000.0", "in read_us: a row of a single unit shows only the sum");
        return;
    }
    let (read, transfer) = (dies.line.intercept, dies.line.slope);
    let how = "line through response times of reads over the units of a row";
    figures.number("read_us", read.max(0.0) / 1e3, dies.line.intercept_error / 1e3, how);
    let rate = (dies.unit * SECTOR_BYTES) as f64 * 1e3 / transfer.max(1e-3);
    let error = rate * (dies.line.slope_error / transfer.max(1e-3)).min(1.0);
    figures.number("channel_mb_per_s", rate.clamp(0.01, 1e6), error, how);
}

/// Everything that takes writing.
fn writing(drive: &mut Drive<'_, '_>, dies: &Dies, figures: &mut Figures) -> Result<(), ExtractError> {
    figures.found("timing", quoted("parallel"), "reads of different dies do not wait for each other");
    drive.prober.step("programming", 0.35);
    drive.align_scratch();
    let mut programs = drive.programs(dies)?;
    let pages = drive.pages_of_row(dies)?;
    let page = page_of(dies.row, pages);
    drive.overwrite_in_rows(dies);
    let erases = if drive.prober.step("erases", 0.65) { drive.erases(dies, programs.longest())? } else { None };
    let transfer = (dies.row / dies.unit) as f64 * dies.line.slope;
    let row = drive.row_ns(dies)?;
    // Collection takes its time too; but where reads wait for a small part of it only, they stop what a die does.
    let stops = row > 6.0 * (programs.longest() + transfer);
    if stops {
        programs = Programs { by_type: vec![(row - transfer).max(0.0)], error: 0.1 * row };
        figures.assumed("suspend_us", "30.0", "reads do not wait for a row, so they stop it");
    }
    program_figures(&programs, stops, figures);
    erase_figures(erases.filter(|_| !stops), figures);
    let mean = programs.mean();
    let (flush, waits) = drive.flush(dies, page, mean)?;
    if dies.row > dies.unit {
        figures.number("flush_us", flush / 1e3, programs.error / 1e3, "flushes behind one unit, less its programming");
    } else {
        let why = "a unit fills a row, which is programmed while the flush is under way";
        figures.assumed("flush_us", format!("{:.1}", flush / 1e3), why);
    }
    page_figures(dies, page, waits, figures);
    let protected = if waits { "off" } else { "on" };
    figures.found("power_loss_protection", quoted(protected), "whether a flush waits for the flash");
    let buffer = if drive.prober.step("write buffer", 0.75) { drive.buffer(dies, mean)? } else { None };
    let least = 2 * dies.row * SECTOR_BYTES;
    match buffer.map(|sectors| (sectors * SECTOR_BYTES).max(least)) {
        Some(bytes) => {
            figures.size("write_buffer", bytes, dies.row * SECTOR_BYTES, "what came in before a burst had to wait");
        }
        None => {
            let usual = Bytes(least.max(1 << 23)).to_string();
            figures.assumed("write_buffer", quoted(&usual), "no burst had to wait for room");
        }
    }
    Ok(())
}

/// Pages and planes of a row: units that are flushed one by one show them, if a flush waits until the flash has them.
fn page_figures(dies: &Dies, page: u64, waits: bool, figures: &mut Figures) {
    let (size, planes) = (quoted(&Bytes(page * SECTOR_BYTES).to_string()), (dies.row / page).to_string());
    if waits {
        let how = "where rows end, and how many units that were flushed one by one lie on one";
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
    let how = "when reads of all dies behind a row end";
    if stops {
        let why = "reads stop what a die programs, so that it is not seen: how fast rows follow each other, collection and erases \
                   included, is a bound";
        figures.assumed("program_us", format!("{:.1}", programs.mean().max(0.0) / 1e3), why);
    } else {
        figures.number("program_us", programs.mean().max(0.0) / 1e3, programs.error / 1e3, how);
    }
    let types = programs.by_type.len();
    if types == 1 {
        figures.assumed("cell", quoted("tlc"), "all rows take alike");
        return;
    }
    let times: Vec<String> = programs.by_type.iter().map(|ns| format!("{:.2}", ns / 1e3)).collect();
    figures.found("program_us_by_type", quoted(&times.join(",")), format!("{how}: they repeat after {types} rows"));
    let cell = ["slc", "mlc", "tlc", "qlc"][types.clamp(1, 4) - 1];
    figures.found("cell", quoted(cell), "how many types of pages take turns");
}

/// Sectors of a page, a power of two, of a row that has so many.
fn page_of(row: u64, pages: u64) -> u64 {
    let page = row / pages;
    if page.is_power_of_two() { page } else { 1 << row.trailing_zeros() }
}

fn erase_figures(erases: Option<Erases>, figures: &mut Figures) {
    match erases {
        Some(erases) => {
            let how = format!("{} erases, between the reads behind a row", erases.seen);
            figures.number("erase_us", erases.ns / 1e3, erases.error / 1e3, how);
            figures.found(
                "pages_per_block",
                erases.rows.to_string(),
                "rows that a die writes from one erase to the next",
            );
        }
        None => {
            figures.assumed("erase_us", "3000.0", "no erase was seen");
            figures.assumed("pages_per_block", "256", "no erase was seen");
        }
    }
}

/// What a drive has where there was no time to measure it: usual figures, on few dies, which also a small drive has.
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
