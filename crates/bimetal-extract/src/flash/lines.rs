//! Lines through pages: latency and overhead of reads and writes as in Konanki's thesis (section
//! 5.2), for drives that do not show their rows and dies. L = n·RL + C: of ten times for n pages
//! the least time counts, because no other work delayed that read.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, SECTOR_BYTES};

use super::Drive;
use crate::ExtractError;
use crate::figures::{Figures, quoted};
use crate::statistics::{Line, line, median, quantile};

/// Numbers of pages at which a time is measured; a line is fitted to these times. Writes, with one
/// page in front of them, fill at most a small block.
const PAGES: [u64; 6] = [1, 2, 3, 4, 6, 7];
/// Number of tries for each time.
const TRIES: usize = 10;
/// Smallest speed-up of simultaneous reads that overlap. A drive that does one operation at a time
/// has a speed-up of 1.
const AT_ONCE_MIN: f64 = 1.05;
/// Smallest time of a page, in nanoseconds, and greatest error of a time as a part of the time: a
/// line beyond these limits does not describe pages of flash.
const PAGE_NS_MIN: f64 = 1e3;
const LINE_ERROR_MAX: f64 = 0.1;
/// Number of pages that are read for the time of one page.
const PAGES_READ: usize = 40;
/// Number of places that are examined for a place at which writes need not copy.
const PLACES: usize = 256;

/// Measures the figures that lines show. If the drive does one operation at a time, the lines give
/// the figures. If the drive overlaps commands, channels and dies, only sums are known: the total
/// time for a page stands for the flash.
pub(super) fn measure(drive: &mut Drive<'_, '_>, figures: &mut Figures) -> Result<(), ExtractError> {
    drive.prober.step("lines through pages", 0.5);
    let page = page(drive)?;
    let grain = drive.prober.grain;
    let at_once = at_once(drive, grain)?;
    let serial = at_once < AT_ONCE_MIN;
    let dies = if serial { 1 } else { (at_once.round() as u64).clamp(2, 64) };
    let how = format!("32 reads at once are {at_once:.1} times as fast as one by one");
    figures.found("timing", quoted(if serial { "serial" } else { "parallel" }), how.clone());
    let size = quoted(&Bytes(page * SECTOR_BYTES).to_string());
    let reads = drive.least(OpKind::Read, page)?;
    let writes = if drive.prober.writes { Some(drive.least(OpKind::Write, page)?) } else { None };
    if serial {
        figures.found("channels", "1", how);
        figures.found("page_size", size.clone(), "request size at which the time of a read rises by a step");
    } else {
        figures.assumed("channels", dies.to_string(), how);
        figures.assumed(
            "page_size",
            size.clone(),
            "request size at which the time of a read rises by a step; dies that work at once \
                                                    hide it",
        );
    }
    times(serial, ["read_us", "read_overhead_us"], reads, figures);
    if let Some(writes) = writes {
        times(serial, ["program_us", "write_overhead_us"], writes, figures);
        let how = "data just written reads no faster than older data";
        match serial {
            true => figures.found("write_buffer", quoted("off"), how),
            false => figures.assumed("write_buffer", quoted("off"), how),
        }
    } else {
        figures.assumed("program_us", "600.0", "only writes show it");
        figures.assumed("write_overhead_us", "20.0", "only writes show it");
        figures.assumed("write_buffer", quoted("8MiB"), "only writes show it");
    }
    figures.assumed("dies_per_channel", "1", "not separable from channels");
    figures.assumed("planes_per_die", "1", "a page here is the unit that a die reads at once");
    figures.assumed("mapping_unit", size, "same as the page");
    for (key, value, why) in UNSEEN {
        figures.assumed(key, value, why);
    }
    Ok(())
}

/// Measures the time of a read in the flash, and the number of simultaneous reads. Used for drives
/// whose controller was measured, but not their rows of pages.
pub(super) fn beside(drive: &mut Drive<'_, '_>, figures: &mut Figures) -> Result<(), ExtractError> {
    drive.prober.step("reads of the flash", 0.5);
    let mut times = Vec::new();
    for _ in 0..PAGES_READ {
        let lbn = drive.old_place();
        times.push(drive.flash_ns(lbn, drive.prober.grain)?);
    }
    let (low, middle) = (quantile(&mut times, 0.1), median(&mut times));
    let why = "a read of the flash, with the transfer over the channel";
    if middle - low < 0.01 * middle {
        figures.number("read_us", middle / 1e3, (middle - low) / 1e3, why);
    } else {
        figures.assumed("read_us", format!("{:.2}", middle / 1e3), format!("{why}; they differ by more than 1 %"));
    }
    let at_once = at_once(drive, drive.prober.grain)?;
    let dies = (at_once.round() as u64).clamp(1, 64);
    figures.assumed(
        "channels",
        dies.to_string(),
        format!("32 reads at once are {at_once:.1} times as fast as one by one"),
    );
    figures.assumed("channel_mb_per_s", "1000000.0", "included in read_us");
    if let Some(shown) = drive.map_reads {
        super::map_figures(shown, figures);
    }
    let why = "the ends of rows cannot be seen, and this figure follows from them";
    for (key, value) in super::USUAL {
        if figures.text(key).is_none() {
            figures.assumed(key, value, why);
        }
    }
    figures.assumed("page_size", quoted("16KiB"), why);
    Ok(())
}

/// Figures that lines never show, with substitutes and reasons.
const UNSEEN: [(&str, &str, &str); 6] = [
    ("cell", "\"mlc\"", "timing alone does not show this figure"),
    ("channel_mb_per_s", "1000000.0", "included in read_us and program_us"),
    ("link_mb_per_s", "1000000.0", "included in read_us and program_us"),
    ("power_loss_protection", "\"off\"", "timing alone does not show this figure"),
    ("erase_us", "2000.0", "no erase was seen"),
    ("pages_per_block", "64", "no erase was seen"),
];

/// Adds the time of a page and the overhead by `line`.
fn times(serial: bool, [page, overhead]: [&str; 2], line: Line, figures: &mut Figures) {
    if serial && (line.slope < PAGE_NS_MIN || line.slope_error > LINE_ERROR_MAX * line.slope) {
        let why = "the least times of 6 sizes make no line: the drive copies a block for nearly every write";
        figures.assumed(page, format!("{:.2}", (line.intercept + line.slope).max(PAGE_NS_MIN) / 1e3), why);
        figures.assumed(overhead, "0.0", why);
        return;
    }
    if serial {
        let how = "L = n·RL + C through the least response times of 6 sizes";
        figures.number(page, line.slope.max(0.0) / 1e3, line.slope_error / 1e3, how);
        figures.number(overhead, line.intercept.max(0.0) / 1e3, line.intercept_error / 1e3, how);
        return;
    }
    let each = format!("{:.2}", (line.intercept + line.slope).max(0.0) / 1e3);
    figures.assumed(page, each, "the whole time of a page, with command, link and channel, which are not separable");
    figures.assumed(overhead, "0.0", "included in the time of a page");
}

/// Returns the number of sectors up to which a read takes as long as a read of a single granule: a
/// page.
fn page(drive: &mut Drive<'_, '_>) -> Result<u64, ExtractError> {
    let mut page = drive.prober.grain;
    let least = |drive: &mut Drive<'_, '_>, sectors: u64| -> Result<f64, ExtractError> {
        let mut least = f64::MAX;
        for _ in 0..TRIES {
            let lbn = drive.old_place();
            least = least.min(drive.prober.read(lbn, sectors)?.ns());
        }
        Ok(least)
    };
    let single = least(drive, page)?;
    while page < 128 && least(drive, page + drive.prober.grain)? < 1.03 * single {
        page *= 2;
    }
    // If no read ever takes longer, the usual size is taken.
    Ok(if page >= 128 { drive.prober.grain.max(8) } else { page })
}

/// Returns the speed-up of reads with 32 at a time.
fn at_once(drive: &mut Drive<'_, '_>, page: u64) -> Result<f64, ExtractError> {
    let reads: Vec<_> = (0..128).map(|_| (OpKind::Read, drive.old_place(), page)).collect();
    let mut length = |depth: usize| -> Result<f64, ExtractError> {
        let times = drive.prober.batch(&reads, depth)?;
        let first = times.iter().map(|timed| timed.from).min().unwrap_or(0);
        Ok((times.iter().map(|timed| timed.to).max().unwrap_or(0) - first) as f64)
    };
    Ok(length(1)? / length(32)?.max(1.0))
}

impl Drive<'_, '_> {
    /// Returns the line through the least response times, over the number of pages.
    fn least(&mut self, kind: OpKind, page: u64) -> Result<Line, ExtractError> {
        let clean = if kind == OpKind::Read { 0 } else { self.clean_place(page)? };
        let mut points = Vec::new();
        for pages in PAGES {
            let mut least = f64::MAX;
            for _ in 0..TRIES {
                let lbn = match kind {
                    OpKind::Read => self.old_place(),
                    _ => {
                        self.prober.run(kind, clean, page, false)?;
                        clean + page
                    }
                };
                least = least.min(self.prober.run(kind, lbn, pages * page, false)?.ns());
            }
            points.push((pages as f64, least));
        }
        Ok(line(&points))
    }

    /// Returns a place at which a write makes the drive use a free block, also for the pages after
    /// this place. On a used drive this happens where one more block is in use than the data need;
    /// at other places each write copies a block.
    fn clean_place(&mut self, page: u64) -> Result<u64, ExtractError> {
        let (mut best, mut least) = (0, f64::MAX);
        for _ in 0..PLACES {
            let lbn = self.prober.anywhere(128 + 8 * page) / 128 * 128;
            self.prober.run(OpKind::Write, lbn, page, false)?;
            let behind = self.prober.run(OpKind::Write, lbn + page, page, false)?.ns();
            if behind < least {
                (best, least) = (lbn, behind);
            }
            if self.prober.is_late() {
                break;
            }
        }
        Ok(best)
    }
}
