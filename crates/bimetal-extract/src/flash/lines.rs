//! Lines through pages: latency and overhead of reads and writes as Konanki has them (thesis, section 5.2), for drives
//! that show nothing finer. L = n·RL + C: of ten times for n pages the least counts, since it had nothing else in its way.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, SECTOR_BYTES};

use super::Drive;
use crate::ExtractError;
use crate::figures::{Figures, quoted};
use crate::statistics::{Line, line};

/// Pages of a point of the line: of writes, with one in front of them, at most a small block.
const PAGES: [u64; 6] = [1, 2, 3, 4, 6, 7];
/// How often each is tried.
const TRIES: usize = 10;
/// Places that are looked at for one where writes need not copy.
const PLACES: usize = 256;

/// Measures what lines show; `buffered` says that writes finish in memory.
pub(super) fn measure(drive: &mut Drive<'_, '_>, buffered: bool, figures: &mut Figures) -> Result<(), ExtractError> {
    drive.prober.step("lines through pages", 0.5);
    let page = page(drive)?;
    let at_once = at_once(drive, page)?;
    let serial = at_once < 1.3;
    let how = "L = n·RL + C through the least response times of 6 sizes";
    let put = |figures: &mut Figures, names: [&str; 2], line: Line| {
        // Pages of several dies come at once: then C is what a page takes.
        let (each, once) = if serial { (line.slope, line.intercept) } else { (line.intercept + line.slope, 0.0) };
        let error = line.slope_error + if serial { 0.0 } else { line.intercept_error };
        figures.number(names[0], each.max(0.0) / 1e3, error / 1e3, how);
        figures.number(names[1], once.max(0.0) / 1e3, line.intercept_error / 1e3, how);
    };
    put(figures, ["read_us", "read_overhead_us"], drive.least(OpKind::Read, page)?);
    if drive.prober.writes {
        put(figures, ["program_us", "write_overhead_us"], drive.least(OpKind::Write, page)?);
        let how = "whether what was just written reads faster than the rest";
        figures.found("write_buffer", quoted(if buffered { "8MiB" } else { "off" }), how);
    } else {
        figures.assumed("program_us", "600.0", "only writing shows it");
        figures.assumed("write_overhead_us", "20.0", "only writing shows it");
        figures.assumed("write_buffer", quoted("8MiB"), "only writing shows it");
    }
    let dies = if serial { 1 } else { (at_once.round() as u64).clamp(2, 64) };
    let how = format!("32 reads at once are {at_once:.1} times as fast as one by one");
    figures.found("timing", quoted(if serial { "serial" } else { "parallel" }), how.clone());
    figures.found("channels", dies.to_string(), how);
    figures.assumed("dies_per_channel", "1", "not told apart from channels");
    figures.assumed("planes_per_die", "1", "a page here is what a die reads at once");
    figures.found("page_size", quoted(&Bytes(page * SECTOR_BYTES).to_string()), "where reads take a step longer");
    figures.assumed("mapping_unit", quoted(&Bytes(page * SECTOR_BYTES).to_string()), "as the page");
    figures.assumed("cell", quoted("mlc"), "timing alone does not show it");
    figures.assumed("channel_mb_per_s", "1000000.0", "in read_us and program_us");
    figures.assumed("link_mb_per_s", "1000000.0", "in read_us and program_us");
    figures.assumed("power_loss_protection", quoted("off"), "timing alone does not show it");
    figures.assumed("erase_us", "2000.0", "no erase was told apart");
    figures.assumed("pages_per_block", "64", "no erase was told apart");
    Ok(())
}

/// Sectors up to which a read takes as long as one of a single granule: a page.
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
    // Where nothing ever takes longer, the usual.
    Ok(if page >= 128 { drive.prober.grain.max(8) } else { page })
}

/// How many times as fast reads are with 32 at once.
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
    /// The line through the least response times over pages.
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

    /// A place where a write has a block made free, for what lies behind it, too. On a used drive that is so where
    /// a block more is in use than the data need; elsewhere each write copies.
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
