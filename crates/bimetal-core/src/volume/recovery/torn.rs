//! Blocks whose newest content a power cut left unwritten.
//!
//! A record ends the loss of a block that was written again. If the content that was written is not
//! in its slot, the loss has not ended: reads would return older content, and no error. Content
//! that was written later may still be on the drive. So the newest record of the loss is kept, and
//! counts for eighths that were not written since.

use std::collections::BTreeMap;

use crate::block::{Block, ValidMask};

#[derive(Clone, Copy, Default)]
struct Unwritten {
    /// Eighths whose newest content is not in its slot.
    eighths: ValidMask,
    /// Position in the log of the newest such slot; 0 in a cache.
    position: u64,
    /// Eighths of the block that the newest later record lists as lost; `None` without such a
    /// record.
    lost: Option<ValidMask>,
}

/// Blocks with eighths whose newest content is not in its slot.
#[derive(Default)]
pub(super) struct Torn(BTreeMap<u64, Unwritten>);

impl Torn {
    /// Notes that the newest content of eighths of `block` is not in its slot, which has a position
    /// in a log.
    pub(super) fn tear(&mut self, block: Block, eighths: ValidMask, position: u64) {
        let unwritten = self.0.entry(block.0).or_default();
        unwritten.position = unwritten.position.max(position);
        unwritten.eighths = unwritten.eighths.union(eighths);
    }

    /// Takes a record that the eighths `recorded` of a block are lost, while the eighths `lost` are
    /// known to be lost. Returns the eighths that are lost after the record.
    pub(super) fn lost(&mut self, block: Block, recorded: ValidMask, lost: ValidMask) -> ValidMask {
        let Some(unwritten) = self.0.get_mut(&block.0) else { return recorded };
        unwritten.lost = Some(recorded);
        recorded.union(unwritten.eighths.intersection(lost))
    }

    /// Takes sound content of eighths of a block, while the eighths `lost` are known to be lost.
    /// Returns the eighths that are lost after the record.
    pub(super) fn written(&mut self, block: Block, eighths: ValidMask, lost: ValidMask) -> ValidMask {
        let Some(unwritten) = self.0.get_mut(&block.0) else { return lost };
        unwritten.eighths = unwritten.eighths.without(eighths);
        let left = unwritten.lost.map_or(lost, |recorded| recorded.union(unwritten.eighths.intersection(lost)));
        if unwritten.eighths.is_empty() {
            self.0.remove(&block.0);
        }
        left
    }

    /// Returns the blocks from `first` to before `end` whose slots all lie before a position.
    pub(super) fn between(&self, first: u64, end: u64, before: u64) -> Vec<Block> {
        let blocks = self.0.range(first..end.max(first)).filter(|(_, unwritten)| unwritten.position < before);
        blocks.map(|(&block, _)| Block(block)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: ValidMask = ValidMask::ALL;
    const NONE: ValidMask = ValidMask::NONE;
    const BLOCK: Block = Block(7);

    #[test]
    fn loss_ends_by_its_record_if_nothing_is_torn() {
        let mut torn = Torn::default();
        assert_eq!(torn.written(BLOCK, ALL, ALL), ALL, "the record follows");
        assert_eq!(torn.lost(BLOCK, NONE, ALL), NONE);
    }

    #[test]
    fn loss_goes_on_until_content_is_there() {
        let mut torn = Torn::default();
        torn.tear(BLOCK, ALL, 5);
        assert_eq!(torn.lost(BLOCK, ValidMask(1), ALL), ALL, "what ended the loss is not there");
        assert_eq!(torn.lost(BLOCK, NONE, ALL), ALL);
        assert_eq!(torn.between(7, 8, 6), [BLOCK]);
        assert_eq!(torn.between(7, 8, 5), [], "the slot lies behind");
        assert_eq!(torn.written(BLOCK, ALL, ALL), NONE);
        assert_eq!(torn.between(0, 100, 100), []);
    }

    #[test]
    fn eighths_that_were_written_since_are_not_lost() {
        let mut torn = Torn::default();
        torn.tear(BLOCK, ValidMask(0b0011), 5);
        assert_eq!(torn.lost(BLOCK, ValidMask(0b1000), ValidMask(0b1111)), ValidMask(0b1011));
        assert_eq!(torn.written(BLOCK, ValidMask(0b0001), ValidMask(0b1011)), ValidMask(0b1010));
        assert_eq!(torn.written(BLOCK, ValidMask(0b0010), ValidMask(0b1010)), ValidMask(0b1000));
    }

    #[test]
    fn content_without_a_record_of_the_loss_leaves_it() {
        let mut torn = Torn::default();
        torn.tear(BLOCK, ALL, 5);
        assert_eq!(torn.written(BLOCK, ALL, ValidMask(0b11)), ValidMask(0b11));
    }
}
