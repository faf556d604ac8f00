//! The order in which a move takes its blocks: by address, over the whole move (Griffin 5.4).
//!
//! A move holds one batch of blocks in memory. Batches of consecutive addresses write home in order
//! of address from the first block to the last. From an SSD any batch is read at the cost of its
//! own blocks. A log on a disk is read once for each batch, over the part of the log in which the
//! batch's blocks lie. Many batches of a random workload would so read the whole log many times.
//! Two rules bound these reads. If batches of the usual size would read too much, larger batches
//! are taken. If the largest batches read too much, too, the log is cut into *stretches*. The
//! batches of a stretch are sorted by address among themselves, and a stretch is as long as the
//! bound allows.

use std::collections::VecDeque;
use std::ops::Range;

use crate::block::Block;
use crate::block_map::Slot;
use crate::volume::log_tail::Position;

/// Blocks that pass in the time of a jump to another position: 1 MiB of 4 KiB blocks, which a disk
/// transfers while it seeks and turns.
const JUMP_BLOCKS: u64 = 256;

/// A block to be moved.
#[derive(Clone, Copy)]
pub(super) struct ToMove {
    pub(super) block: Block,
    pub(super) slot: Slot,
}

/// Bounds of the batches of a log on a disk.
pub(super) struct Bounds {
    /// Blocks of a batch: the usual number, and the largest.
    pub(super) batch_blocks: [usize; 2],
    /// Largest cost of a stretch's reads, as a multiple of one read of the stretch in order.
    pub(super) reads_max: f64,
}

/// Blocks that a move has left, in the order of the move.
#[derive(Default)]
pub(super) struct MoveOrder {
    blocks: Vec<ToMove>,
    /// Ranges of `blocks`, each in order of address.
    batches: VecDeque<Range<usize>>,
}

impl MoveOrder {
    /// Returns the order by address alone.
    pub(super) fn by_address(mut blocks: Vec<ToMove>, batch_blocks: usize) -> Self {
        blocks.sort_unstable_by_key(|to_move| to_move.block);
        let batches = batches_of(0..blocks.len(), batch_blocks).collect();
        Self { blocks, batches }
    }

    /// Returns the order for a log on a disk. `position` gives the place of a slot.
    pub(super) fn of_log_on_disk(
        mut blocks: Vec<ToMove>,
        bounds: &Bounds,
        position: impl Fn(Slot) -> Position,
    ) -> Self {
        blocks.sort_unstable_by_key(|to_move| position(to_move.slot));
        let [usual, largest] = bounds.batch_blocks;
        let stretch =
            |from: usize, batch_blocks| stretch_of(&blocks[from..], batch_blocks, bounds.reads_max, &position);
        let all = usual == largest || stretch(0, usual) == blocks.len();
        let batch_blocks = if all { usual } else { largest };
        let mut ends = vec![0];
        while let Some(&from) = ends.last().filter(|end| **end < blocks.len()) {
            ends.push(from + stretch(from, batch_blocks));
        }
        let mut batches = VecDeque::new();
        for ends in ends.windows(2) {
            blocks[ends[0]..ends[1]].sort_unstable_by_key(|to_move| to_move.block);
            batches.extend(batches_of(ends[0]..ends[1], batch_blocks));
        }
        Self { blocks, batches }
    }

    /// Returns the blocks that are left, in order.
    pub(super) fn left(&self) -> impl Iterator<Item = ToMove> {
        self.batches.iter().flat_map(|batch| &self.blocks[batch.clone()]).copied()
    }

    /// Takes the blocks that are left, in their present memory.
    pub(super) fn into_left(mut self) -> Vec<ToMove> {
        let mut kept = 0;
        for batch in &self.batches {
            self.blocks.copy_within(batch.clone(), kept);
            kept += batch.len();
        }
        self.blocks.truncate(kept);
        self.blocks
    }

    /// Takes the next batch.
    pub(super) fn next_batch(&mut self) -> Option<&[ToMove]> {
        let batch = self.batches.pop_front()?;
        Some(&self.blocks[batch])
    }

    /// Takes the batch with `block`, or else the batch with the next higher address, or else the
    /// batch with the lowest.
    pub(super) fn next_batch_at(&mut self, block: Block) -> Option<&[ToMove]> {
        let distance = |batch: &Range<usize>| {
            let (first, last) = (self.blocks[batch.start].block, self.blocks[batch.end - 1].block);
            (last < block, first.max(block))
        };
        let (at, _) = self.batches.iter().enumerate().min_by_key(|(_, batch)| distance(batch))?;
        let batch = self.batches.remove(at)?;
        Some(&self.blocks[batch])
    }
}

fn batches_of(all: Range<usize>, batch_blocks: usize) -> impl Iterator<Item = Range<usize>> {
    let end = all.end;
    all.step_by(batch_blocks.max(1)).map(move |from| from..end.min(from.saturating_add(batch_blocks.max(1))))
}

/// Returns the number of blocks in the first stretch of `blocks`, which are in order of position. A
/// stretch has whole batches, unless it has all blocks.
fn stretch_of(blocks: &[ToMove], batch_blocks: usize, reads_max: f64, position: &impl Fn(Slot) -> Position) -> usize {
    let length = |batches: usize| batches.saturating_mul(batch_blocks.max(1)).min(blocks.len());
    // A batch reads the stretch at most once, so `reads_max` batches are within the bound.
    let mut batches = reads_max.max(1.0) as usize;
    while length(batches) < blocks.len()
        && reads_of(&blocks[..length(2 * batches)], batch_blocks, position) <= reads_max
    {
        batches *= 2;
    }
    length(batches)
}

/// Returns the cost of reading a stretch batch by batch, as a multiple of one read of it in order.
fn reads_of(stretch: &[ToMove], batch_blocks: usize, position: &impl Fn(Slot) -> Position) -> f64 {
    let mut addresses: Vec<Block> = stretch.iter().map(|to_move| to_move.block).collect();
    addresses.sort_unstable();
    let firsts: Vec<Block> = addresses.iter().step_by(batch_blocks.max(1)).copied().collect();
    drop(addresses);
    let mut read_up_to: Vec<Option<Position>> = vec![None; firsts.len()];
    let (mut in_order, mut in_batches, mut before) = (0, 0, None);
    let cost = |from: Option<Position>, to: Position| from.map_or(JUMP_BLOCKS, |from| (to - from).min(JUMP_BLOCKS));
    for to_move in stretch {
        let at = position(to_move.slot);
        let batch = firsts.partition_point(|first| *first <= to_move.block) - 1;
        in_order += cost(before.replace(at), at);
        in_batches += cost(read_up_to[batch].replace(at), at);
    }
    in_batches as f64 / in_order.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `blocks` in the order in which they lie in the log.
    fn logged(blocks: impl IntoIterator<Item = u64>) -> Vec<ToMove> {
        let slots = (0..).map(Slot);
        blocks.into_iter().zip(slots).map(|(block, slot)| ToMove { block: Block(block), slot }).collect()
    }

    /// Returns the addresses in the order of the move, and the number of blocks in the first batch.
    fn order(blocks: &[ToMove], batch_blocks: [usize; 2]) -> (Vec<u64>, usize) {
        let bounds = Bounds { batch_blocks, reads_max: 3.0 };
        let order = MoveOrder::of_log_on_disk(blocks.to_vec(), &bounds, |slot| u64::from(slot.0));
        let addresses = order.left().map(|to_move| to_move.block.0).collect();
        (addresses, order.batches.front().map_or(0, Range::len))
    }

    fn addresses(batch: Option<&[ToMove]>) -> Vec<u64> {
        batch.unwrap_or_default().iter().map(|to_move| to_move.block.0).collect()
    }

    /// Returns every address below `count` once, far from its neighbours.
    fn scattered(count: u64) -> Vec<ToMove> {
        logged((0..count).map(|at| at * 7919 % count))
    }

    fn is_sorted(addresses: &[u64]) -> bool {
        addresses.is_sorted()
    }

    #[test]
    fn order_is_by_address_whatever_the_slots() {
        let mut order = MoveOrder::by_address(logged([5, 3, 9, 1, 7]), 2);
        assert_eq!(order.left().map(|to_move| to_move.slot.0).collect::<Vec<_>>(), [3, 1, 0, 4, 2]);
        assert_eq!(addresses(order.next_batch()), [1, 3]);
        assert_eq!(addresses(order.next_batch()), [5, 7]);
        assert_eq!(addresses(order.next_batch()), [9]);
        assert!(order.next_batch().is_none());
    }

    /// A reader goes on at higher addresses more often than at lower ones.
    #[test]
    fn batch_at_an_address_is_the_next_at_or_behind_it() {
        let mut order = MoveOrder::by_address(logged(0..10), 2);
        assert_eq!(addresses(order.next_batch_at(Block(5))), [4, 5]);
        assert_eq!(addresses(order.next_batch_at(Block(5))), [6, 7]);
        assert_eq!(addresses(order.next_batch_at(Block(9))), [8, 9]);
        assert_eq!(addresses(order.next_batch_at(Block(9))), [0, 1], "nothing is behind it");
        assert_eq!(order.left().map(|to_move| to_move.block.0).collect::<Vec<_>>(), [2, 3]);
        let mut order = MoveOrder::by_address(logged(0..10), 2);
        [4, 0].into_iter().for_each(|block| _ = order.next_batch_at(Block(block)));
        assert_eq!(addresses(Some(&order.into_left())), [2, 3, 6, 7, 8, 9]);
    }

    #[test]
    fn three_batches_of_scattered_blocks_are_one_stretch() {
        let (addresses, batch) = order(&scattered(30_000), [10_000, 20_000]);
        assert!(is_sorted(&addresses));
        assert_eq!(batch, 10_000, "three reads of the log are within the bound");
    }

    #[test]
    fn batch_is_larger_when_usual_ones_would_read_too_much() {
        let (addresses, batch) = order(&scattered(30_000), [5000, 10_000]);
        assert!(is_sorted(&addresses));
        assert_eq!(batch, 10_000);
    }

    /// Sixty batches of scattered blocks would read the log sixty times.
    #[test]
    fn stretch_ends_when_its_batches_read_too_much() {
        let (addresses, batch) = order(&scattered(60_000), [1000, 1000]);
        assert_eq!(batch, 1000);
        let stretches: Vec<&[u64]> = addresses.chunks(3000).collect();
        assert!(stretches.iter().all(|stretch| is_sorted(stretch)) && !is_sorted(&addresses));
    }

    /// Blocks written near each other in time, at adjacent addresses, cost no more in many batches
    /// than in one batch.
    #[test]
    fn blocks_that_lie_together_are_sorted_in_small_batches() {
        // Runs of 4000 blocks, each run scattered in itself, the last addresses first.
        let runs = (0..15).rev().flat_map(|run| (0..4000).map(move |at| run * 4000 + at * 7919 % 4000));
        let (addresses, batch) = order(&logged(runs), [1000, 10_000]);
        assert!(is_sorted(&addresses) && batch == 10_000, "four batches of a run read it four times: {batch}");
        let runs = (0..15).rev().flat_map(|run| (0..4000).map(move |at| run * 4000 + at * 7919 % 4000));
        let (addresses, batch) = order(&logged(runs), [2000, 10_000]);
        assert!(is_sorted(&addresses) && batch == 2000, "two batches of a run read it twice: {batch}");
    }

    #[test]
    fn order_of_nothing_is_empty() {
        assert_eq!(order(&[], [10, 20]).0, [0; 0]);
    }
}
