//! The order of home and journal. A record says that home has a block's newest content, or that the
//! loss of a block has ended. The record must not be stable before home is stable: after a power
//! cut, home's older content would pass for the newest.
//!
//! - A write or a range with such a record is written through (FUA) at home. The records of the
//!   write or range gather only when home has answered.
//! - Every record of a move is of this kind. So a move flushes home before it changes the block
//!   map.
//! - A record of a block whose slot was clean needs no order: home had the content before.

use super::Volume;
use crate::block::BlockRun;
use crate::payload::Payload;

impl<P: Payload> Volume<P> {
    /// Returns true if a change of `run` at home will make a record that must not be stable before
    /// home is stable. Such a change is written through.
    pub(super) fn home_goes_first(&self, run: BlockRun) -> bool {
        let ends_a_loss = || self.damage.lost.between(run.first.0, run.end()).next().is_some();
        P::CARRIES_DATA && (self.log_is_in_use() || ends_a_loss() || self.has_dirty(run))
    }

    /// Returns true if a block of `run` has newer content in a slot than at home. Looks at the
    /// block map or at the run, whichever is smaller.
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
