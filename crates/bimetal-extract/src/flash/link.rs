//! The controller: what the link, a command, and the way through the drive take, without the flash.
//!
//! What was just written is still in the controller's memory, so reading it right away leaves the flash out. The line through
//! response times over sectors gives the link (slope) and the overheads (intercept), as Konanki's thesis (section 5.2)
//! has it for pages: of ten times each, the least counts.

use bimetal_core::operation::OpKind;

use super::Drive;
use crate::ExtractError;
use crate::statistics::{Line, line, median};

/// Sizes for a line, in granules.
const SIZES: [u64; 5] = [1, 8, 16, 32, 64];
/// How often each is tried; the least time counts.
const TRIES: usize = 10;
/// Reads at once to see how fast commands follow each other.
const AT_ONCE: usize = 64;

/// What was found of the controller.
pub(super) struct Controller {
    /// Reads out of memory, over sectors.
    pub(super) reads: Line,
    /// Writes into it, over sectors.
    pub(super) writes: Line,
    /// Nanoseconds for which a command occupies the link beside its data.
    pub(super) command: f64,
}

impl Drive<'_, '_> {
    /// Whether what was just written is still in the controller's memory.
    pub(super) fn has_buffer(&mut self) -> Result<bool, ExtractError> {
        let sectors = self.prober.grain.max(8);
        let (mut old, mut fresh) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            let lbn = self.prober.anywhere(128) / 128 * 128;
            old.push(self.prober.read(lbn, sectors)?.ns());
            let lbn = self.next_scratch(sectors);
            self.prober.run(OpKind::Write, lbn, sectors, false)?;
            fresh.push(self.prober.read(lbn, sectors)?.ns());
        }
        Ok(median(&mut fresh) < 0.7 * median(&mut old))
    }

    /// Measures the controller of a drive with a write buffer.
    pub(super) fn controller(&mut self) -> Result<Controller, ExtractError> {
        let grain = self.prober.grain;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for size in SIZES {
            let sectors = size * grain;
            let (mut read, mut write) = (f64::MAX, f64::MAX);
            for _ in 0..TRIES {
                let lbn = self.next_scratch(sectors);
                write = write.min(self.prober.run(OpKind::Write, lbn, sectors, false)?.ns());
                read = read.min(self.prober.read(lbn, sectors)?.ns());
                self.settle();
            }
            reads.push((sectors as f64, read));
            writes.push((sectors as f64, write));
        }
        let (reads, writes) = (line(&reads), line(&writes));
        let lbn = self.next_scratch(grain);
        self.prober.run(OpKind::Write, lbn, grain, false)?;
        let times = self.prober.batch(&[(OpKind::Read, lbn, grain); AT_ONCE], AT_ONCE)?;
        let (first, last) = times.iter().fold((u64::MAX, 0), |(low, high), time| (low.min(time.to), high.max(time.to)));
        let apart = (last - first) as f64 / (AT_ONCE - 1) as f64;
        let command = (apart - grain as f64 * reads.slope.max(0.0)).clamp(0.0, reads.intercept.max(0.0));
        Ok(Controller { reads, writes, command })
    }
}
