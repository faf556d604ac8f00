//! Ranges that change their homes, as a store: nothing is in slots. A place that was left is not
//! used again while a task may read it.

use super::Kind;
use crate::block::BlockRun;
use crate::block_map::Slot;
use crate::volume::log_tail::NoRoom;
use crate::volume::space::Serial;

/// The places that ranges left, and the range whose home may be in either of two places.
#[derive(Default)]
pub(in crate::volume) struct Ranges {
    /// The places that were left, each with the first task that cannot be reading the place.
    left: Vec<(u32, Serial)>,
    /// Range that may be in either of two places after a crash.
    frozen: Option<BlockRun>,
}

impl Ranges {
    /// Notes that a range left `place`; `next` is the serial of the next task.
    pub(in crate::volume) fn leave(&mut self, place: u32, next: Serial) {
        self.left.push((place, next));
    }

    /// Returns true if a task may still read `place`, which a range left.
    pub(in crate::volume) fn may_be_read(&self, place: u32, oldest: Serial) -> bool {
        self.left.iter().any(|&(left, since)| left == place && since > oldest)
    }

    /// Forgets the places that no task reads any more.
    pub(in crate::volume) fn forget_read(&mut self, oldest: Serial) {
        self.left.retain(|&(_, since)| since > oldest);
    }

    /// Keeps requests from changing `blocks` from now on, because the blocks may lie in two places.
    pub(in crate::volume) fn freeze(&mut self, blocks: BlockRun) {
        self.frozen = Some(blocks);
    }

    /// Returns true if `blocks` may lie in two places, so that neither place may change.
    pub(in crate::volume) fn is_frozen(&self, blocks: BlockRun) -> bool {
        self.frozen.is_some_and(|frozen| frozen.overlaps(blocks))
    }
}

impl<P> Kind<P> for Ranges {
    fn has_slots(&self) -> bool {
        false
    }

    fn take_room(&mut self, _count_max: u64, _online: bool) -> Result<(Option<Slot>, u64), NoRoom> {
        panic!("the scheme places a write in slots that its layout does not have");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    #[test]
    fn left_place_is_in_use_until_older_tasks_have_ended() {
        let mut ranges = Ranges::default();
        ranges.leave(3, 10);
        assert!(ranges.may_be_read(3, 9) && !ranges.may_be_read(4, 9));
        assert!(!ranges.may_be_read(3, 10));
        ranges.forget_read(9);
        assert!(ranges.may_be_read(3, 9));
        ranges.forget_read(10);
        assert!(!ranges.may_be_read(3, 9));
    }

    #[test]
    fn frozen_range_may_not_change() {
        let run = |first, count| BlockRun { first: Block(first), count };
        let mut ranges = Ranges::default();
        assert!(!ranges.is_frozen(run(0, 99)));
        ranges.freeze(run(8, 8));
        assert!(ranges.is_frozen(run(15, 1)) && !ranges.is_frozen(run(16, 8)) && !ranges.is_frozen(run(0, 8)));
    }
}
