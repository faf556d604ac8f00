//! Hot reads of MixedStore's controller (section 5): small data that is read often while it is on
//! the disk. Hot data moves to flash in idle periods.

use crate::block::BlockRun;
use crate::mixing::GOLDEN_RATIO;
use crate::scheme::FETCH_BLOCKS_MAX;

/// Number of reads from which on a block is hot.
const HOT_READS: u8 = 4;
/// Number of blocks whose reads are counted, and number of runs that wait to be fetched.
const HOT_TABLE: usize = 1 << 16;
const HOT_QUEUE: usize = 1024;

/// Blocks that are read often while they are on the disk: a small table whose entries are
/// overwritten on collisions.
pub(crate) struct HotReads {
    table: Vec<(u32, u8)>,
    queue: Vec<BlockRun>,
}

impl Default for HotReads {
    fn default() -> Self {
        Self { table: vec![(u32::MAX, 0); HOT_TABLE], queue: Vec::new() }
    }
}

impl HotReads {
    /// Notes a read of `run`, which is small.
    pub(crate) fn read(&mut self, run: BlockRun) {
        let key = run.first.0.wrapping_mul(GOLDEN_RATIO);
        let (at, tag) = ((key >> 48) as usize % HOT_TABLE, key as u32);
        let entry = &mut self.table[at];
        *entry = if entry.0 == tag { (tag, entry.1.saturating_add(1)) } else { (tag, 1) };
        if entry.1 >= HOT_READS && self.queue.len() < HOT_QUEUE {
            entry.1 = 0;
            self.queue.push(BlockRun { count: run.count.min(FETCH_BLOCKS_MAX), ..run });
        }
    }

    /// Returns true if no run is to be fetched.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the run that became hot last.
    pub(crate) fn pop(&mut self) -> Option<BlockRun> {
        self.queue.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    /// Blocks that share an entry in the table of hot reads are told apart by their tag.
    #[test]
    fn blocks_of_one_place_in_the_table_do_not_count_together() {
        let place = |block: u64| block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let other = (1..).find(|&block| place(block) == place(0)).unwrap();
        let run = |block| BlockRun { first: Block(block), count: 1 };
        let mut hot = HotReads::default();
        for _ in 0..HOT_READS {
            hot.read(run(0));
            hot.read(run(other));
        }
        assert!(hot.queue.is_empty(), "neither was read four times without the other in between");
        (1..HOT_READS).for_each(|_| hot.read(run(other)));
        assert_eq!(hot.queue, [run(other)]);
    }
}
