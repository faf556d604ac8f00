//! d-choices: chooses the best of d randomly drawn closed blocks, each with an invalid unit (Van
//! Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid
//! state drives", SIGMETRICS 2013).

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::VictimSelection;
use super::candidates::{Candidates, Change};
use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::mapping::NONE;
use crate::flash::precondition::Layout;
use crate::flash::state::archive::{Archive, Checked};

/// Candidates of each die in no order: O(1) for every change, O(d) for a choice.
pub(crate) struct DChoices {
    draws: u32,
    units_per_block: u32,
    random: Pcg64,
    /// Number of random numbers drawn so far.
    drawn: u64,
    candidates: Candidates,
    /// Candidates by die.
    lists: Vec<Vec<u32>>,
    /// Position of each block in its list, or [`NONE`].
    positions: Vec<u32>,
}

impl DChoices {
    /// Returns the candidates of a drive in the state of `layout`. Each choice draws `draws`
    /// candidates at random, beginning with `seed`.
    pub(crate) fn new(geometry: &Geometry, layout: &Layout, draws: u32, seed: u64) -> Self {
        let mut lists = vec![Vec::new(); geometry.dies() as usize];
        let mut positions = vec![NONE; geometry.blocks() as usize];
        let candidates = Candidates::new(geometry, layout, |die, block, _| {
            positions[block as usize] = lists[die as usize].len() as u32;
            lists[die as usize].push(block);
        });
        Self {
            draws,
            units_per_block: geometry.units_per_block(),
            random: Pcg64::seed_from_u64(seed),
            drawn: 0,
            candidates,
            lists,
            positions,
        }
    }

    fn report(&mut self, die: u32, block: u32, valid: u32) {
        if self.candidates.report(block, valid) == Change::Added {
            let list = &mut self.lists[die as usize];
            self.positions[block as usize] = list.len() as u32;
            list.push(block);
        }
    }
}

impl DChoices {
    fn remove(&mut self, die: u32, block: u32) {
        let list = &mut self.lists[die as usize];
        let position = std::mem::replace(&mut self.positions[block as usize], NONE);
        list.swap_remove(position as usize);
        if let Some(moved) = list.get(position as usize) {
            self.positions[*moved as usize] = position;
        }
        self.candidates.remove(block);
    }
}

impl VictimSelection for DChoices {
    fn closed(&mut self, die: u32, block: u32, valid: u32, _: bool) {
        self.report(die, block, valid);
    }

    fn invalidated(&mut self, die: u32, block: u32, _: u32, after: u32) {
        self.report(die, block, after);
    }

    fn pick(&mut self, die: u32, _: &dyn Fn(u32) -> bool) -> Option<u32> {
        let list = &self.lists[die as usize];
        let len = list.len() as u64;
        self.drawn += u64::from(self.draws.max(1));
        let drawn = (0..self.draws.max(1)).filter_map(|_| {
            let index = (u64::from(self.random.next_u32()) * len) >> 32;
            list.get(index as usize).copied()
        });
        let block = drawn.min_by_key(|block| self.candidates.valid(*block))?;
        self.remove(die, block);
        Some(block)
    }

    fn taken(&mut self, die: u32, block: u32, valid: u32) {
        if valid < self.units_per_block {
            self.remove(die, block);
        }
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        archive.number(&mut self.drawn, u64::MAX >> 1)?;
        for (die, list) in (0..).zip(&mut self.lists) {
            archive.list(list, known.blocks_per_die.into(), known.blocks_of(die).end)?;
            Known::check_order(list, known.candidates(die).map(|(block, _)| block), "collectable")?;
        }
        if archive.is_reading() {
            self.random.advance(self.drawn.into());
            self.candidates.replace(known);
            self.positions.fill(NONE);
            for (position, block) in self.lists.iter().flat_map(|list| (0..).zip(list)) {
                self.positions[*block as usize] = position;
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let listed: usize = self.lists.iter().map(Vec::capacity).sum();
        self.candidates.memory_bytes() + (self.positions.capacity() + listed) as u64 * 4
    }
}
