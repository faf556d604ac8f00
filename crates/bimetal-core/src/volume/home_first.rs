//! The order of home and journal. A record says that home has a block's newest content, or that the
//! loss of a block has ended. The record must not be stable before home is stable: after a power
//! cut, home's older content would pass for the newest.
//!
//! - A write or a range that makes such a record is written through (FUA) at home. The records of
//!   the write or range gather only when home has answered.
//! - Home is stable before every record of a move. So a move flushes home before it changes the
//!   block map.
//! - A record of a block whose slot was clean needs no order: home already has the content.

use super::Volume;
use crate::block::BlockRun;
use crate::payload::Payload;

impl<P: Payload> Volume<P> {
    /// Returns true if a change of `run` at home makes a record that must not be stable before home
    /// is stable. A change of home that makes a dirty slot old is written through.
    pub(super) fn home_goes_first(&self, run: BlockRun) -> bool {
        let ends_a_loss = || self.damage.lost.between(run.first.0, run.end()).next().is_some();
        P::CARRIES_DATA && (self.log_is_in_use() || ends_a_loss() || self.has_dirty(run))
    }

    /// Returns true if a block of `run` has newer content in a slot than at home. Looks at the
    /// entries of the block map or at the blocks of the run, whichever are fewer.
    fn has_dirty(&self, run: BlockRun) -> bool {
        let map = &self.view.map;
        if map.dirty_blocks() == 0 {
            return false;
        }
        if map.len() < run.count {
            let within = run.first.0..run.end();
            return map.occupied().any(|(_, entry)| entry.dirty && within.contains(&entry.block.0));
        }
        run.blocks().any(|block| map.get(block).is_some_and(|(_, entry)| entry.dirty))
    }
}
