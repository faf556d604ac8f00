//! `fmax`: a primary and a replacement unit (Ban, US patent 5,937,425, of M-Systems), as described
//! in Konanki's thesis, section 4.1, figures 4.6 and 4.7.
//!
//! In the primary unit pages keep their offset. In the replacement unit a page takes any clean
//! place, searched from the page's offset on and wrapping around at the end. When the replacement
//! unit is full, both units are folded into a new primary unit.
//!
//! Errors in the figures of the thesis: the offset is the offset of p', not of v. Figure 4.6's last
//! branch writes to "the newly assigned primary unit", which is the replacement unit. A fold to
//! make room for page p' omits the old version of p', so that p' is written into the new primary
//! unit. The thesis folds "the first chain that has a replacement unit". Here this chain is the
//! chain that has had a replacement unit for the longest time. If it were the chain of the lowest
//! virtual unit, this chain would be folded each time, while other chains would keep their
//! replacement units forever.

use std::collections::VecDeque;

use super::log_block::check_uses;
use super::striped::{Striped, logical_blocks};
use super::{DieLayer, Info};
use crate::flash::mapping::NONE;
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};

/// Smallest number of free units at which a replacement unit may be assigned, so that a fold always
/// finds a free unit.
const FREE_UNITS_MIN: usize = 2;

pub(crate) const INFO: Info = Info {
    name: "fmax",
    whole_pages: true,
    reserve: |_| 0,
    make: |setup| {
        let (geometry, logical) = (setup.geometry, logical_blocks(&setup.geometry));
        Ok(Box::new(Striped::new(setup, || Fmax {
            per_block: geometry.units_per_block(),
            primary: vec![NONE; logical as usize],
            replacements: (0..logical).map(|_| None).collect(),
            free: (0..geometry.blocks_per_plane).collect(),
            assigned: VecDeque::new(),
        })))
    },
};

struct Replacement {
    block: u32,
    /// Page with the newest version for each offset of the virtual unit, or [`NONE`].
    newest: Vec<u32>,
}

struct Fmax {
    per_block: u32,
    /// Primary unit by virtual unit, or [`NONE`].
    primary: Vec<u32>,
    /// Replacement unit by virtual unit.
    replacements: Vec<Option<Box<Replacement>>>,
    free: VecDeque<u32>,
    /// Virtual units with a replacement unit, in the order of assignment.
    assigned: VecDeque<u32>,
}

impl Fmax {
    fn take_free_unit(&mut self) -> u32 {
        self.free.pop_front().unwrap_or_else(|| unreachable!("free units are counted before one is taken"))
    }

    /// Copies the valid pages of both units of `v` into a new primary unit, except the page at
    /// `but_for`.
    fn fold(&mut self, v: u32, but_for: Option<u32>, nand: &mut Nand) {
        let Some(replacement) = self.replacements[v as usize].take() else { return };
        self.assigned.retain(|assigned| *assigned != v);
        let block = self.take_free_unit();
        let primary = self.primary[v as usize];
        for (offset, newest) in (0..).zip(&replacement.newest) {
            let from = match *newest {
                NONE => Place { block: primary, offset },
                newest => Place { block: replacement.block, offset: newest },
            };
            if Some(offset) != but_for && !nand.is_clean(from) && nand.is_live(v * self.per_block + offset) {
                nand.copy(from, Place { block, offset }, Cause::Merge);
            }
        }
        self.primary[v as usize] = block;
        for old in [primary, replacement.block] {
            nand.erase(old, Cause::Merge);
            self.free.push_back(old);
        }
    }

    /// Writes page p, whose offset in the primary unit is dirty.
    fn replace(&mut self, p: u32, nand: &mut Nand) {
        let (v, offset) = (p / self.per_block, p % self.per_block);
        if let Some(replacement) = &mut self.replacements[v as usize] {
            let block = replacement.block;
            let mut pages = (offset..self.per_block).chain(0..offset);
            match pages.find(|&offset| nand.is_clean(Place { block, offset })) {
                Some(q) => {
                    nand.program(Place { block, offset: q }, p);
                    replacement.newest[offset as usize] = q;
                }
                None => {
                    self.fold(v, Some(offset), nand);
                    nand.program(Place { block: self.primary[v as usize], offset }, p);
                }
            }
        } else if self.free.len() < FREE_UNITS_MIN {
            nand.rewrite(self.primary[v as usize], offset, p, p + 1, Cause::Merge);
        } else {
            let block = self.take_free_unit();
            nand.program(Place { block, offset }, p);
            let mut newest = vec![NONE; self.per_block as usize];
            newest[offset as usize] = offset;
            self.replacements[v as usize] = Some(Box::new(Replacement { block, newest }));
            self.assigned.push_back(v);
        }
    }
}

impl DieLayer for Fmax {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        for p in start..end {
            let (v, offset) = (p / self.per_block, p % self.per_block);
            if self.primary[v as usize] == NONE {
                if self.free.len() < FREE_UNITS_MIN
                    && let Some(&first) = self.assigned.front()
                {
                    self.fold(first, None, nand);
                }
                self.primary[v as usize] = self.take_free_unit();
            }
            let place = Place { block: self.primary[v as usize], offset };
            if nand.is_clean(place) {
                nand.program(place, p);
            } else {
                self.replace(p, nand);
            }
        }
    }

    fn locate(&self, page: u32, _: &Nand) -> Place {
        let (v, offset) = ((page / self.per_block) as usize, page % self.per_block);
        match self.replacements[v].as_ref().map(|unit| (unit.block, unit.newest[offset as usize])) {
            Some((block, newest)) if newest != NONE => Place { block, offset: newest },
            _ => Place { block: self.primary[v], offset },
        }
    }

    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked {
        let (blocks, logical) = (nand.blocks(), self.primary.len() as u32);
        archive.places(&mut self.primary, blocks)?;
        archive.queue(&mut self.free, blocks.into(), blocks)?;
        archive.queue(&mut self.assigned, logical.into(), logical)?;
        for v in &self.assigned {
            let unit = self.replacements[*v as usize]
                .get_or_insert_with(|| Box::new(Replacement { block: 0, newest: vec![NONE; self.per_block as usize] }));
            archive.number(&mut unit.block, u64::from(blocks) - 1)?;
            archive.places(&mut unit.newest, self.per_block)?;
        }
        Ok(())
    }

    fn check(&self, nand: &Nand) -> Checked {
        let replacements = self.replacements.iter().flatten().map(|unit| unit.block);
        let used: Vec<u32> = self.primary.iter().copied().filter(|unit| *unit != NONE).chain(replacements).collect();
        check_uses(used.iter().copied(), self.free.iter().copied(), nand)?;
        let units = used.len() + self.free.len();
        ensure(units == nand.blocks() as usize, || format!("{units} units in chains and free ones"))?;
        let folds = self.assigned.is_empty() || !self.free.is_empty();
        ensure(folds, || "a fold finds no free unit".to_owned())?;
        let assigned = self.replacements.iter().flatten().count();
        ensure(assigned == self.assigned.len(), || format!("{assigned} replacement units are assigned"))?;
        let chained = self.assigned.iter().all(|v| self.primary[*v as usize] != NONE);
        ensure(chained, || "a replacement unit without a primary unit".to_owned())
    }

    fn memory_bytes(&self) -> u64 {
        let each = size_of::<Replacement>() as u64 + u64::from(self.per_block) * 4;
        (self.primary.capacity() * 4 + self.replacements.capacity() * 8 + self.free.capacity() * 4) as u64
            + self.assigned.len() as u64 * each
    }
}
