//! `block`: block mapping, as in SmartMedia cards (Konanki's thesis, section 2.1). Pages keep their
//! offset in the block when a block moves to another physical block.
//!
//! A request to clean pages programs these pages. A request to a page that is not clean takes a
//! free block for each block that it touches. The pages of the request and the valid pages of the
//! old block are written to the free block in order, and the old block is erased.

use std::collections::VecDeque;

use super::log_block::check_uses;
use super::striped::{Striped, logical_blocks};
use super::{DieLayer, Info};
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};

pub(crate) const INFO: Info = Info {
    name: "block",
    whole_pages: true,
    reserve: |_| 1,
    make: |setup| {
        let (geometry, logical) = (setup.geometry, logical_blocks(&setup.geometry));
        Ok(Box::new(Striped::new(setup, || BlockMapping {
            per_block: geometry.units_per_block(),
            data: (0..logical).collect(),
            free: (logical..geometry.blocks_per_plane).collect(),
        })))
    },
};

struct BlockMapping {
    per_block: u32,
    /// Physical blocks by logical block.
    data: Vec<u32>,
    free: VecDeque<u32>,
}

impl BlockMapping {
    /// Writes pages of one block, of which at least one is not clean.
    fn replace(&mut self, start: u32, end: u32, nand: &mut Nand) {
        let b = start / self.per_block;
        let Some(block) = self.free.pop_front() else { unreachable!("each replacement gives a block back") };
        let old = std::mem::replace(&mut self.data[b as usize], block);
        for (offset, page) in (0..self.per_block).zip(b * self.per_block..) {
            let (from, to) = (Place { block: old, offset }, Place { block, offset });
            if (start..end).contains(&page) {
                nand.program(to, page);
            } else if !nand.is_clean(from) && nand.is_live(page) {
                nand.copy(from, to, Cause::Merge);
            }
        }
        nand.erase(old, Cause::Merge);
        self.free.push_back(old);
    }
}

impl DieLayer for BlockMapping {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        let mut p = start;
        while p < end {
            let stop = end.min((p / self.per_block + 1) * self.per_block);
            if (p..stop).all(|page| nand.is_clean(self.locate(page, nand))) {
                (p..stop).for_each(|page| nand.program(self.locate(page, nand), page));
            } else {
                self.replace(p, stop, nand);
            }
            p = stop;
        }
    }

    fn locate(&self, page: u32, _: &Nand) -> Place {
        Place { block: self.data[(page / self.per_block) as usize], offset: page % self.per_block }
    }

    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked {
        archive.table(&mut self.data, u64::from(nand.blocks()) - 1)?;
        archive.queue(&mut self.free, nand.blocks().into(), nand.blocks())
    }

    fn check(&self, nand: &Nand) -> Checked {
        check_uses(self.data.iter().copied(), self.free.iter().copied(), nand)?;
        let blocks = self.data.len() + self.free.len();
        ensure(blocks == nand.blocks() as usize, || format!("{blocks} blocks of data and free ones"))
    }

    fn memory_bytes(&self) -> u64 {
        (self.data.capacity() + self.free.capacity()) as u64 * 4
    }
}
