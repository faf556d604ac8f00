//! `anand`: chains of blocks that keep offsets (Ban, US patent 5,937,425, of M-Systems, later
//! SanDisk), as described in Konanki's thesis, section 4.1, figures 4.4 and 4.5.
//!
//! A virtual unit is a chain of physical units. A page is written to the first unit of its chain
//! that is clean at the page's offset. So the last unit of the chain that is not clean at this
//! offset holds the newest version. A chain of `chain_length_max` units that needs another unit is
//! folded: its valid pages are copied into its last unit, and the other units are erased. All units
//! are used before any unit is erased, because free units are taken in turn.
//!
//! A read goes through the chain (Konanki, figure 4.5): it "sequentially searches" the chain
//! (section 2.1), so it "might read several pages to find the right page" (section 3.1). Each unit
//! up to the newest version costs the sensing of a page. The clean page after the newest version
//! ends the search, and also costs the sensing of a page. A chain of one unit is not searched.
//! Writes and folds need no search to find their place. (Our choice: the thesis gives a search no
//! cost of its own.)
//!
//! Errors in the figures of the thesis: the offset is the offset of p', not of v. The units that
//! may be lacking ("no free virtual units") are physical units. Figure 4.5 does not cover the case
//! that every unit of the chain is dirty at the offset: the last unit holds the page. Of chains of
//! equal length, the longest chain is the chain of the lowest virtual unit.

use std::collections::{BTreeSet, VecDeque};

use super::log_block::check_uses;
use super::striped::{Striped, logical_blocks};
use super::{DieLayer, Info};
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};
use crate::profile::BadFigure;

pub(crate) const INFO: Info = Info {
    name: "anand",
    whole_pages: true,
    reserve: |_| 0,
    make: |setup| {
        let longest = setup.profile.chain_length_max;
        if longest == 0 {
            return Err(BadFigure::new("chain_length_max", longest, "at least 1 unit in a chain"));
        }
        let (geometry, logical) = (setup.geometry, logical_blocks(&setup.geometry));
        Ok(Box::new(Striped::new(setup, || Anand::new(logical, &geometry, longest as usize))))
    },
};

struct Anand {
    per_block: u32,
    length_max: usize,
    /// Physical units by virtual unit.
    chains: Vec<Vec<u32>>,
    /// Chains of more than one unit: sorted by length, and at equal length by virtual unit from the
    /// highest down.
    by_length: BTreeSet<(usize, u32)>,
    free: VecDeque<u32>,
}

impl Anand {
    fn new(virtual_units: u32, geometry: &crate::flash::geometry::Geometry, length_max: usize) -> Self {
        Self {
            per_block: geometry.units_per_block(),
            length_max,
            chains: vec![Vec::new(); virtual_units as usize],
            by_length: BTreeSet::new(),
            free: (0..geometry.blocks_per_plane).collect(),
        }
    }

    /// Adds the next free unit to the chain of `v`, and returns the unit.
    fn extend(&mut self, v: u32) -> u32 {
        let Some(unit) = self.free.pop_front() else { unreachable!("the caller saw a free unit") };
        let chain = &mut self.chains[v as usize];
        self.by_length.remove(&(chain.len(), !v));
        chain.push(unit);
        if chain.len() > 1 {
            self.by_length.insert((chain.len(), !v));
        }
        unit
    }

    fn fold_longest_chain(&mut self, nand: &mut Nand) {
        match self.by_length.last() {
            Some(&(_, v)) => self.fold(!v, nand),
            // There are at least as many physical units as virtual units, and a virtual unit here
            // has none.
            None => unreachable!("no free unit, no chain to fold"),
        }
    }

    fn fold(&mut self, v: u32, nand: &mut Nand) {
        let chain = std::mem::take(&mut self.chains[v as usize]);
        self.by_length.remove(&(chain.len(), !v));
        let Some((&last, others)) = chain.split_last() else { return };
        for offset in 0..self.per_block {
            let to = Place { block: last, offset };
            let newest = others.iter().rev().map(|&block| Place { block, offset }).find(|place| !nand.is_clean(*place));
            if let Some(from) = newest
                && nand.is_clean(to)
                && nand.is_live(v * self.per_block + offset)
            {
                nand.copy(from, to, Cause::Merge);
            }
        }
        for &unit in others {
            nand.erase(unit, Cause::Merge);
            self.free.push_back(unit);
        }
        self.chains[v as usize] = vec![last];
    }

    /// Returns the first unit in the chain of `v` that is clean at `offset`.
    fn clean_unit(&self, v: u32, offset: u32, nand: &Nand) -> Option<u32> {
        self.chains[v as usize].iter().copied().find(|&block| nand.is_clean(Place { block, offset }))
    }
}

impl DieLayer for Anand {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        for p in start..end {
            let (v, offset) = (p / self.per_block, p % self.per_block);
            if self.chains[v as usize].is_empty() {
                if self.free.is_empty() {
                    self.fold_longest_chain(nand);
                }
                self.extend(v);
            }
            if let Some(block) = self.clean_unit(v, offset, nand) {
                nand.program(Place { block, offset }, p);
                continue;
            }
            let length = self.chains[v as usize].len();
            if (self.free.is_empty() || length >= self.length_max) && length > 1 {
                self.fold(v, nand);
            }
            let length = self.chains[v as usize].len();
            if !self.free.is_empty() && length < self.length_max {
                let block = self.extend(v);
                nand.program(Place { block, offset }, p);
            } else {
                nand.rewrite(self.chains[v as usize][0], offset, p, p + 1, Cause::Merge);
            }
        }
    }

    fn locate(&self, page: u32, nand: &Nand) -> Place {
        let (v, offset) = (page / self.per_block, page % self.per_block);
        let chain = &self.chains[v as usize];
        // Konanki, figure 4.5: the unit before the first that is clean there, or the last unit.
        let clean = chain.iter().position(|&block| nand.is_clean(Place { block, offset }));
        Place { block: chain[clean.unwrap_or(chain.len()) - 1], offset }
    }

    fn search(&self, page: u32, nand: &mut Nand) {
        let (v, offset) = (page / self.per_block, page % self.per_block);
        let newest = self.locate(page, nand).block;
        let mut found = false;
        for &block in &self.chains[v as usize] {
            if block == newest {
                found = true;
                continue;
            }
            nand.look_at(Place { block, offset });
            if found {
                break;
            }
        }
    }

    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked {
        let mut lengths: Vec<u32> = self.chains.iter().map(|chain| chain.len() as u32).collect();
        archive.table(&mut lengths, self.length_max as u64)?;
        for (chain, length) in self.chains.iter_mut().zip(lengths) {
            chain.resize(length as usize, 0);
            archive.table(chain, u64::from(nand.blocks()) - 1)?;
        }
        let longer = (0..).zip(&self.chains).filter(|(_, chain)| chain.len() > 1);
        self.by_length = longer.map(|(v, chain)| (chain.len(), !v)).collect();
        archive.queue(&mut self.free, nand.blocks().into(), nand.blocks())
    }

    fn check(&self, nand: &Nand) -> Checked {
        check_uses(self.chains.iter().flatten().copied(), self.free.iter().copied(), nand)?;
        let longest = self.chains.iter().map(Vec::len).max().unwrap_or(0);
        ensure(longest <= self.length_max, || format!("a chain of {longest} units"))?;
        let longer = self.chains.iter().filter(|chain| chain.len() > 1).count();
        ensure(self.by_length.len() == longer, || format!("{longer} chains of more than one unit"))?;
        let units = self.chains.iter().map(Vec::len).sum::<usize>() + self.free.len();
        ensure(units == nand.blocks() as usize, || format!("{units} units in chains and free ones"))?;
        for page in (0..nand.logical_pages()).filter(|page| nand.is_live(*page)) {
            let (v, offset) = (page / self.per_block, page % self.per_block);
            let written = self.chains[v as usize].first().is_some_and(|&block| !nand.is_clean(Place { block, offset }));
            ensure(written, || format!("page {page} is in no unit of its chain"))?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let chains: usize = self.chains.iter().map(|chain| size_of::<Vec<u32>>() + chain.capacity() * 4).sum();
        (chains + self.by_length.len() * 24 + self.free.capacity() * 4) as u64
    }
}
