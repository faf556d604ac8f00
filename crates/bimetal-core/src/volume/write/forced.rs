//! Writes with FUA: they end once their content is stable.

use super::{WriteJob, access_masks};
use crate::block::Block;
use crate::operation::Status;
use crate::payload::Payload;
use crate::volume::{TaskId, Volume};

impl<P: Payload> Volume<P> {
    /// Ends the change of a write with FUA whose content is placed, if no later change can come
    /// before it. Content that is appended to a log later stands behind it in the log. A later
    /// change that goes home is forced there as long as the log has dirty content of the block.
    pub(super) fn end_forced_change(&mut self, task: TaskId) {
        if self.is_log() {
            self.leave_ordering(task);
        }
    }

    /// Returns the status of a write that is placed. A part of a write with FUA may have been lost
    /// with the drive of its slots.
    pub(super) fn status_if_forced(&self, job: &WriteJob<P>) -> Status {
        if job.worst() != Status::Done {
            return job.worst();
        }
        let size = self.view.layout.block;
        let is_lost = |block: Block| {
            let (touched, _) = access_masks(size, job.sectors, block);
            !self.view.map.valid_of(block).intersection(touched).is_empty()
        };
        let lost = job.fua && !self.view.map.is_empty() && !self.view.slots_readable();
        if lost && size.touched(job.sectors).blocks().any(is_lost) { Status::Gone } else { Status::Done }
    }
}
