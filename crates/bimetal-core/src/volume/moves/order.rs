//! The order in which a move takes its blocks: by address, over the whole move (Griffin 5.4).
//!
//! A move holds one batch of blocks in memory. Batches of consecutive addresses write home in order
//! of address from the first block to the last. From an SSD any batch is read at the cost of
//! reading its own blocks. A log on a disk is read once for each batch, over the part of the log in
//! which the batch's blocks lie. Many batches of a random workload would therefore read the whole
//! log many times. Three rules bound the number of reads of the log. If batches of the usual size
//! would read too much, larger batches are taken. If the largest batches read too much, too, the
//! blocks are sorted outside of memory. The log is read once in its own order, in *runs* of one
//! batch each. Each run is written in order of address to a free part of the log
//! ([`runs`](super::runs)). Then a batch reads one piece of each run. Without room for runs, the
//! log is cut into *stretches*. The batches of a stretch are sorted by address among themselves,
//! and a stretch is as long as the bound allows.

use std::collections::VecDeque;
use std::ops::Range;

use crate::block::Block;
use crate::block_map::Slot;
use crate::volume::log_index::Position;

/// Number of blocks that pass under the head in the time of a jump to another position: 1 MiB of
/// 4 KiB blocks, which a disk transfers while it seeks and turns.
const JUMP_BLOCKS: u64 = 256;
/// Largest cost of a move that sorts by runs, as a multiple of one read of its blocks in order: a
/// read of the log, a write and a read of the runs, and half a read for the jumps between runs.
const SORTED_MAX: f64 = 3.5;
/// Number of runs up to which a move is sorted at any cost. Each run is read from once in each
/// batch: these 64 jumps take half a second.
const RUNS_ANYWAY: usize = 8;

/// A block to be moved.
#[derive(Clone, Copy)]
pub(super) struct ToMove {
    pub(super) block: Block,
    pub(super) slot: Slot,
    /// Slot from which the block is read: `slot`, or the place of its copy in a run.
    pub(super) place: Slot,
}

impl ToMove {
    /// Returns a block that is read from its own slot.
    pub(super) fn new(block: Block, slot: Slot) -> Self {
        Self { block, slot, place: slot }
    }
}

/// Bounds of the batches of a log on a disk.
pub(super) struct Bounds {
    /// Blocks of a batch: the usual number, and the largest.
    pub(super) batch_blocks: [usize; 2],
    /// Largest cost of a stretch's reads, as a multiple of one read of the stretch in order.
    pub(super) reads_max: f64,
    /// Free blocks of the log that runs may take.
    pub(super) scratch_blocks: usize,
}

/// Blocks that a move has left, in the order of the move.
#[derive(Default)]
pub(super) struct MoveOrder {
    blocks: Vec<ToMove>,
    steps: VecDeque<Step>,
    /// Blocks of a batch that is written home from runs.
    batch_blocks: usize,
    /// Range of `blocks` in the run that is being made.
    run: Range<usize>,
}

/// A step of a move. The blocks of a step are a part of the blocks of the move, in order.
#[derive(Clone)]
enum Step {
    /// Writes a batch home, in order of address.
    Home(Range<usize>),
    /// Makes a run of a batch, which is in order of position. `into` is the run's place in the
    /// scratch part of the log.
    Run { batch: Range<usize>, into: usize },
    /// Sorts a stretch whose runs have been made by address, and cuts it into batches.
    Merge(Range<usize>),
}

/// A batch of a move.
pub(super) enum Batch {
    /// Blocks to be written home.
    Home(Vec<ToMove>),
    /// Blocks of a run, and its place in the scratch part of the log.
    Run(Vec<ToMove>, usize),
}

impl MoveOrder {
    /// Returns the order by address alone.
    pub(super) fn by_address(mut blocks: Vec<ToMove>, batch_blocks: usize) -> Self {
        blocks.sort_unstable_by_key(|to_move| to_move.block);
        let steps = batches_of(0..blocks.len(), batch_blocks).map(Step::Home).collect();
        Self { blocks, steps, ..Self::default() }
    }

    /// Returns the order for a log on a disk. `position` gives the place of a slot.
    pub(super) fn of_log_on_disk(
        mut blocks: Vec<ToMove>,
        bounds: &Bounds,
        position: impl Fn(Slot) -> Position,
    ) -> Self {
        blocks.sort_unstable_by_key(|to_move| position(to_move.place));
        let [usual, largest] = bounds.batch_blocks;
        let stretch =
            |from: usize, batch_blocks| stretch_of(&blocks[from..], batch_blocks, bounds.reads_max, &position);
        let is_all = |batch_blocks| stretch(0, batch_blocks) == blocks.len();
        let suits_usual = is_all(usual);
        let batch_blocks = if suits_usual { usual } else { largest };
        let suits_largest = usual < largest && is_all(largest);
        if !(suits_usual || suits_largest)
            && let Some(sorted) = sorted_stretch(&blocks, batch_blocks, bounds, &position)
        {
            return Self::by_runs(blocks, batch_blocks, sorted);
        }
        let mut ends = vec![0];
        while let Some(&from) = ends.last().filter(|end| **end < blocks.len()) {
            ends.push(from + stretch(from, batch_blocks));
        }
        let mut steps = VecDeque::new();
        for ends in ends.windows(2) {
            blocks[ends[0]..ends[1]].sort_unstable_by_key(|to_move| to_move.block);
            steps.extend(batches_of(ends[0]..ends[1], batch_blocks).map(Step::Home));
        }
        Self { blocks, steps, ..Self::default() }
    }

    /// Returns the order by runs for stretches of `sorted` blocks, which are in order of position.
    fn by_runs(blocks: Vec<ToMove>, batch_blocks: usize, sorted: usize) -> Self {
        let mut steps = VecDeque::new();
        for stretch in batches_of(0..blocks.len(), sorted) {
            let from = stretch.start;
            let run = |batch: Range<usize>| Step::Run { into: batch.start - from, batch };
            steps.extend(batches_of(stretch.clone(), batch_blocks).map(run));
            steps.push_back(Step::Merge(stretch));
        }
        Self { blocks, steps, batch_blocks, run: 0..0 }
    }

    /// Returns the number of blocks that the runs of a stretch take in the log.
    pub(super) fn scratch_blocks(&self) -> usize {
        let length = |step: &Step| if let Step::Merge(stretch) = step { stretch.len() } else { 0 };
        self.steps.iter().map(length).max().unwrap_or(0)
    }

    /// Returns the blocks that are still to be moved, in order.
    pub(super) fn left(&self) -> impl Iterator<Item = ToMove> {
        self.steps.iter().filter_map(Step::leaves).flat_map(|range| &self.blocks[range]).copied()
    }

    /// Takes the blocks that are left, in their present memory.
    pub(super) fn into_left(mut self) -> Vec<ToMove> {
        let mut kept = 0;
        for range in self.steps.iter().filter_map(Step::leaves) {
            let blocks = range.len();
            self.blocks.copy_within(range, kept);
            kept += blocks;
        }
        self.blocks.truncate(kept);
        self.blocks
    }

    /// Takes the next batch.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        loop {
            match self.steps.pop_front()? {
                Step::Home(batch) => return Some(Batch::Home(self.blocks[batch].to_vec())),
                Step::Run { batch, into } => {
                    self.run = batch.clone();
                    return Some(Batch::Run(self.blocks[batch].to_vec(), into));
                }
                Step::Merge(stretch) => {
                    self.blocks[stretch.clone()].sort_unstable_by_key(|to_move| to_move.block);
                    let batches = batches_of(stretch, self.batch_blocks).rev();
                    batches.for_each(|batch| self.steps.push_front(Step::Home(batch)));
                }
            }
        }
    }

    /// Takes the batch with `block`, or the batch with the next higher address, or the batch with
    /// the lowest address. If runs are still to be made, the next run is taken.
    pub(super) fn next_batch_at(&mut self, block: Block) -> Option<Batch> {
        let distance = |step: &Step| {
            let Step::Home(batch) = step else { return (false, Block(0)) };
            let (first, last) = (self.blocks[batch.start].block, self.blocks[batch.end - 1].block);
            (last < block, first.max(block))
        };
        let (at, _) = self.steps.iter().enumerate().min_by_key(|(_, step)| distance(step))?;
        let step = self.steps.remove(at)?;
        self.steps.push_front(step);
        self.next_batch()
    }

    /// Records the places of the blocks in the run that was made. `places` has the slot and place
    /// of each block in the run, in order of block and slot.
    pub(super) fn run_is_made(&mut self, places: impl Iterator<Item = (Slot, Slot)>) {
        let run = &mut self.blocks[std::mem::take(&mut self.run)];
        run.sort_unstable_by_key(|to_move| (to_move.block, to_move.slot));
        let mut places = places.peekable();
        for to_move in run {
            if let Some((_, place)) = places.next_if(|(slot, _)| *slot == to_move.slot) {
                to_move.place = place;
            }
        }
    }
}

impl Step {
    /// Returns the blocks that this step, or batches cut from this step, write home.
    fn leaves(&self) -> Option<Range<usize>> {
        match self {
            Self::Home(blocks) | Self::Merge(blocks) => Some(blocks.clone()),
            Self::Run { .. } => None,
        }
    }
}

fn batches_of(all: Range<usize>, batch_blocks: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let end = all.end;
    let batch_blocks = batch_blocks.max(1);
    let number = all.len().div_ceil(batch_blocks);
    (0..number).map(move |at| {
        let from = all.start + at * batch_blocks;
        from..end.min(from.saturating_add(batch_blocks))
    })
}

/// Returns the length of stretches that are sorted by runs; `None` if stretches without runs are at
/// least as long. `blocks` are in order of position.
fn sorted_stretch(
    blocks: &[ToMove],
    batch_blocks: usize,
    bounds: &Bounds,
    position: &impl Fn(Slot) -> Position,
) -> Option<usize> {
    let batch = batch_blocks.max(1) as f64;
    let mut before = None;
    let in_order: u64 =
        blocks.iter().map(|to_move| cost(before.replace(position(to_move.slot)), position(to_move.slot))).sum();
    // One read of the log costs `spread` for each block that moves.
    let spread = in_order as f64 / blocks.len().max(1) as f64;
    // For n runs a stretch has n batches: n jumps to write the runs, and n for each batch.
    let by_cost = (((SORTED_MAX - 1.0) * spread - 2.0) * batch / JUMP_BLOCKS as f64 - 1.0).max(0.0) as usize;
    let anyway = if blocks.len() <= RUNS_ANYWAY * batch_blocks { RUNS_ANYWAY } else { 0 };
    let most = by_cost.max(anyway).saturating_mul(batch_blocks).min(bounds.scratch_blocks);
    let longer = most > stretch_of(blocks, batch_blocks, bounds.reads_max, position);
    // Stretches of one length leave no short one at the end.
    longer.then(|| blocks.len().div_ceil(blocks.len().div_ceil(most)))
}

/// Returns the number of blocks that pass under the head in the time of a read at a position after
/// another position.
fn cost(from: Option<Position>, to: Position) -> u64 {
    from.map_or(JUMP_BLOCKS, |from| to.abs_diff(from).min(JUMP_BLOCKS))
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

/// Returns the cost of reading a stretch batch by batch, as a multiple of one read of the stretch
/// in order.
fn reads_of(stretch: &[ToMove], batch_blocks: usize, position: &impl Fn(Slot) -> Position) -> f64 {
    let mut addresses: Vec<Block> = stretch.iter().map(|to_move| to_move.block).collect();
    addresses.sort_unstable();
    let firsts: Vec<Block> = addresses.iter().step_by(batch_blocks.max(1)).copied().collect();
    drop(addresses);
    let mut read_up_to: Vec<Option<Position>> = vec![None; firsts.len()];
    let (mut in_order, mut in_batches, mut before) = (0, 0, None);
    for to_move in stretch {
        let at = position(to_move.place);
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
        blocks.into_iter().zip(slots).map(|(block, slot)| ToMove::new(Block(block), slot)).collect()
    }

    /// Returns the addresses in the order of the move, and the number of blocks in the first batch.
    fn order(blocks: &[ToMove], batch_blocks: [usize; 2]) -> (Vec<u64>, usize) {
        let order = ordered(blocks, batch_blocks, 0);
        let addresses = order.left().map(|to_move| to_move.block.0).collect();
        (addresses, order.steps.front().and_then(Step::leaves).map_or(0, |batch| batch.len()))
    }

    fn ordered(blocks: &[ToMove], batch_blocks: [usize; 2], scratch_blocks: usize) -> MoveOrder {
        let bounds = Bounds { batch_blocks, reads_max: 3.0, scratch_blocks };
        MoveOrder::of_log_on_disk(blocks.to_vec(), &bounds, |slot| u64::from(slot.0))
    }

    /// Returns the batches of a move: for a run its place, and the addresses.
    fn batches(mut order: MoveOrder) -> Vec<(Option<usize>, Vec<u64>)> {
        let of = |batch| match batch {
            Batch::Home(batch) => (None, batch),
            Batch::Run(batch, into) => (Some(into), batch),
        };
        let batches = std::iter::from_fn(|| order.next_batch().map(of));
        batches.map(|(into, batch)| (into, batch.iter().map(|to_move| to_move.block.0).collect())).collect()
    }

    fn addresses(batch: Option<Batch>) -> Vec<u64> {
        let Some(Batch::Home(batch)) = batch else { return Vec::new() };
        batch.iter().map(|to_move| to_move.block.0).collect()
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

    /// A reader goes on at higher addresses more often than at lower addresses.
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
        let left = order.into_left();
        assert_eq!(left.iter().map(|to_move| to_move.block.0).collect::<Vec<_>>(), [2, 3, 6, 7, 8, 9]);
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

    /// Runs are read in the order of the log. Then all blocks go home by address.
    #[test]
    fn scattered_blocks_are_sorted_by_runs_if_the_log_has_room() {
        let blocks = scattered(7000);
        let order = ordered(&blocks, [1000, 1000], 7000);
        assert_eq!(order.scratch_blocks(), 7000);
        let batches = batches(order);
        let places: Vec<_> = batches.iter().filter_map(|(into, _)| *into).collect();
        assert_eq!(places, [0, 1000, 2000, 3000, 4000, 5000, 6000]);
        let of = |runs: bool| batches.iter().filter(move |(into, _)| into.is_some() == runs).flat_map(|(_, of)| of);
        assert!(of(true).eq(blocks.iter().map(|to_move| &to_move.block.0)), "runs have the log's order");
        assert!(of(false).copied().eq(0..7000));
    }

    /// With room for 400 blocks, a log of 700 blocks is sorted in two stretches of 350 blocks.
    /// Without more room than for three batches, runs would gain nothing and are not made.
    #[test]
    fn stretches_are_sorted_by_runs_within_the_room_of_the_log() {
        let blocks = scattered(700);
        let order = ordered(&blocks, [100, 100], 400);
        assert_eq!(order.scratch_blocks(), 350);
        let home: Vec<u64> =
            batches(order).into_iter().filter(|(into, _)| into.is_none()).flat_map(|(_, of)| of).collect();
        assert!(home[..350].is_sorted() && home[350..].is_sorted() && !home.is_sorted());
        assert_eq!(ordered(&blocks, [100, 100], 300).scratch_blocks(), 0);
    }

    /// The number of jumps between runs grows with the square of the number of runs. Batches of 53
    /// MiB, of 64 MiB of memory, are sorted by at most 25 runs.
    #[test]
    fn runs_are_so_few_that_jumps_take_half_a_read() {
        let runs = |runs: u64, batch: usize| {
            let blocks = scattered(runs * batch as u64);
            let bounds = Bounds { batch_blocks: [batch; 2], reads_max: 3.0, scratch_blocks: usize::MAX };
            let stretch = sorted_stretch(&blocks, batch, &bounds, &|slot| u64::from(slot.0));
            stretch.map(|blocks| blocks.div_ceil(batch))
        };
        assert_eq!([25, 26].map(|of| runs(of, 13_500)), [Some(25), Some(13)], "two stretches of one length");
        assert_eq!([8, 9].map(|of| runs(of, 100)), [Some(8), None], "jumps would take longer than all else");
    }

    /// A block that was left out of its run is read from its slot.
    #[test]
    fn block_of_a_run_is_read_from_its_copy_once_it_is_there() {
        let mut order = ordered(&scattered(500), [100, 100], 500);
        let Some(Batch::Run(run, 0)) = order.next_batch() else { panic!("a run is first") };
        let mut made = run.clone();
        made.sort_by_key(|to_move| to_move.block);
        let left_out = made.remove(50);
        order.run_is_made(made.iter().zip(1000..).map(|(to_move, place)| (to_move.slot, Slot(place))));
        let left: Vec<ToMove> = order.left().filter(|left| run.iter().any(|of| of.block == left.block)).collect();
        let of_block = |block| left.iter().find(|to_move| to_move.block == block).map(|to_move| to_move.place.0);
        assert_eq!(of_block(left_out.block), Some(left_out.slot.0));
        assert!(made.iter().zip(1000..).all(|(to_move, place)| of_block(to_move.block) == Some(place)));
        assert_eq!(order.into_left().len(), 500, "a move that changes its order loses no block");
    }

    #[test]
    fn order_of_nothing_is_empty() {
        assert_eq!(order(&[], [10, 20]).0, [0; 0]);
    }
}
