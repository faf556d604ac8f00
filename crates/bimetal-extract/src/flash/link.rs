//! Controller: times of the link, of a command, and of the path through the drive, without the
//! flash.
//!
//! Data just written are still in the controller's memory, so that a read of them right away
//! excludes the flash. The line through response times over sectors gives the link (slope) and the
//! overheads (intercept), as in Konanki's thesis (section 5.2) for pages: of ten times at each
//! size, the least time counts.

use bimetal_core::operation::OpKind;

use super::Drive;
use crate::ExtractError;
use crate::statistics::{Line, line};

/// Sizes for a line, in granules.
const SIZES: [u64; 6] = [1, 4, 8, 16, 32, 64];
/// Number of tries for each time; the least time counts.
const TRIES: usize = 10;
/// Greatest ratio between the time of a read from memory and of the same read from the flash.
const MEMORY_MAX: f64 = 0.93;
/// Greatest distance, as a part of the response time, from the line through the times of smaller
/// sizes. A time farther from the line includes the flash.
const OFF_LINE: f64 = 0.03;
/// Number of simultaneous reads that show how fast commands follow each other.
const AT_ONCE: usize = 64;

/// Result of measuring the controller.
pub(super) struct Controller {
    /// Line of reads from memory, over sectors.
    pub(super) reads: Line,
    /// Line of writes into memory, over sectors.
    pub(super) writes: Line,
    /// Nanoseconds for which a command occupies the link in addition to its data.
    pub(super) command: f64,
}

impl Drive<'_, '_> {
    /// Returns true if data just written are still in the controller's memory. The data are read
    /// right after the write, and again later, and the two times are compared.
    pub(super) fn has_buffer(&mut self) -> Result<bool, ExtractError> {
        let sectors = self.prober.grain;
        let (mut fresh, mut later) = (f64::MAX, f64::MAX);
        for _ in 0..TRIES {
            let lbn = self.next_scratch(sectors.max(128));
            self.prober.run(OpKind::Write, lbn, sectors, false)?;
            fresh = fresh.min(self.prober.read(lbn, sectors)?.ns());
            self.prober.run(OpKind::Flush, 0, 0, false)?;
            self.settle();
            later = later.min(self.prober.read(lbn, sectors)?.ns());
        }
        Ok(fresh < MEMORY_MAX * later)
    }

    /// Measures the controller of a drive with a write buffer. `None` if the times are on no line,
    /// because the buffer holds too little.
    pub(super) fn controller(&mut self) -> Result<Option<Controller>, ExtractError> {
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
        let (Some(reads), Some(writes)) = (line_of_memory(reads), line_of_memory(writes)) else { return Ok(None) };
        let lbn = self.next_scratch(grain);
        self.prober.run(OpKind::Write, lbn, grain, false)?;
        let times = self.prober.batch(&[(OpKind::Read, lbn, grain); AT_ONCE], AT_ONCE)?;
        let (first, last) = times.iter().fold((u64::MAX, 0), |(low, high), time| (low.min(time.to), high.max(time.to)));
        let apart = (last - first) as f64 / (AT_ONCE - 1) as f64;
        let command = (apart - grain as f64 * reads.slope.max(0.0)).clamp(0.0, reads.intercept.max(0.0));
        Ok(Some(Controller { reads, writes, command }))
    }
}

/// Returns the line through times over sizes, without the largest sizes if the memory did not hold
/// them completely. `None` if even the smallest sizes are on no line.
fn line_of_memory(mut points: Vec<(f64, f64)>) -> Option<Line> {
    while points.len() > 4 {
        let Some((size, time)) = points.pop() else { break };
        let smaller = line(&points);
        if (time - smaller.intercept - smaller.slope * size).abs() <= OFF_LINE * time {
            points.push((size, time));
            break;
        }
    }
    let (line, longest) = (line(&points), points.iter().map(|point| point.1).fold(0.0, f64::max));
    Some(line).filter(|line| line.residual <= OFF_LINE * longest)
}
