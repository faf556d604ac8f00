//! Closed blocks with an invalid unit, stored densely: for policies that need more than the fewest
//! valid units.

use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::mapping::NONE;
use crate::flash::precondition::Layout;

/// Valid units of each closed block with an invalid unit.
pub(crate) struct Candidates {
    units_per_block: u32,
    /// Number of valid units by block, or [`NONE`] while the block is not a candidate.
    valid: Vec<u32>,
}

/// Effect of reporting a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The block becomes a candidate.
    Added,
    /// The block was a candidate before.
    Kept,
    /// The block has no invalid unit.
    Full,
}

impl Candidates {
    /// Returns the candidates of `geometry` in the state of `layout`. Calls `added` with die, block
    /// and valid units of each candidate, oldest first.
    pub(crate) fn new(geometry: &Geometry, layout: &Layout, mut added: impl FnMut(u32, u32, u32)) -> Self {
        let units_per_block = geometry.units_per_block();
        let mut valid = vec![NONE; geometry.blocks() as usize];
        for die in 0..geometry.dies() {
            let first = die * geometry.blocks_per_plane;
            for level in layout.levels().iter().filter(|level| level.valid < units_per_block) {
                for block in first + level.first_block..first + level.first_block + level.blocks {
                    valid[block as usize] = level.valid;
                    added(die, block, level.valid);
                }
            }
        }
        Self { units_per_block, valid }
    }

    /// Reports that `block` has `valid` valid units.
    pub(crate) fn report(&mut self, block: u32, valid: u32) -> Change {
        if valid >= self.units_per_block {
            return Change::Full;
        }
        match std::mem::replace(&mut self.valid[block as usize], valid) {
            NONE => Change::Added,
            _ => Change::Kept,
        }
    }

    /// Replaces the candidates by those of a restored state.
    pub(crate) fn replace(&mut self, known: &Known) {
        self.valid.fill(NONE);
        for (block, valid) in (0..known.dies).flat_map(|die| known.candidates(die)) {
            self.valid[block as usize] = valid;
        }
    }

    /// Returns the valid units of a candidate.
    pub(crate) fn valid(&self, block: u32) -> u32 {
        self.valid[block as usize]
    }

    /// Removes `block` from the candidates.
    pub(crate) fn remove(&mut self, block: u32) {
        self.valid[block as usize] = NONE;
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.valid.capacity() as u64 * 4
    }
}
