//! `fast`: log blocks that all logical blocks share (Lee, Park, Chung, Lee, Park and Song, "A log
//! buffer-based flash translation layer using fully-associative sector translation", ACM TECS 2007:
//! FAST).
//!
//! Pages keep their offset in data blocks. A page that is clean in its data block is written to the
//! data block. Any other page that begins a block is written to a new log block for sequential
//! writes (SW), and the pages that continue this page follow in the same log block. All other pages
//! are written to the shared log blocks for random writes (RW), page after page. An SW block
//! becomes the data block: unchanged when it is full (switch merge), otherwise after the remaining
//! pages are copied into it (partial merge). When RW blocks run out, the oldest RW block is merged
//! and erased: each logical block with a valid page in this RW block is copied into a new data
//! block (full merge).
//!
//! The SW block is merged before one of its pages is written again, and the page is written to an
//! RW block. So the content of the SW block is always the newest.

use std::collections::VecDeque;

use super::log_block::{check_frontier, check_uses, log_blocks_of_die};
use super::striped::{Striped, logical_blocks};
use super::{DieLayer, Info};
use crate::flash::mapping::NONE;
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};

/// Smallest number of log blocks: the SW block, an RW block, and the target of a full merge.
const LOG_BLOCKS_MIN: u32 = 3;

pub(crate) const INFO: Info = Info {
    name: "fast",
    whole_pages: true,
    reserve: |_| LOG_BLOCKS_MIN,
    make: |setup| {
        let (geometry, logical) = (setup.geometry, logical_blocks(&setup.geometry));
        let logs = log_blocks_of_die(setup, LOG_BLOCKS_MIN)?;
        Ok(Box::new(Striped::new(setup, || Fast::new(logical, logs, geometry.units_per_block()))))
    },
};

/// Log block for sequential writes.
struct Sequential {
    block: u32,
    /// Logical block whose pages the SW block has, from offset 0 up to `next`.
    owner: u32,
    next: u32,
}

struct Fast {
    per_block: u32,
    log_blocks: u32,
    /// Data blocks by logical block.
    data: Vec<u32>,
    sw: Option<Sequential>,
    /// RW blocks, the oldest first; the last block is written from page `rw_next` on.
    rw: VecDeque<u32>,
    rw_next: u32,
    /// Page of an RW block with the newest version, by logical page, or [`NONE`].
    in_rw: Vec<u32>,
    free: VecDeque<u32>,
}

impl Fast {
    fn new(logical: u32, log_blocks: u32, per_block: u32) -> Self {
        Self {
            per_block,
            log_blocks,
            data: (0..logical).collect(),
            sw: None,
            rw: VecDeque::new(),
            rw_next: per_block,
            in_rw: vec![NONE; (logical * per_block) as usize],
            free: (logical..logical + log_blocks).collect(),
        }
    }

    fn take_free_block(&mut self) -> u32 {
        self.free.pop_front().unwrap_or_else(|| unreachable!("merges keep blocks free"))
    }

    fn release(&mut self, block: u32, nand: &mut Nand) {
        nand.erase(block, Cause::Merge);
        self.free.push_back(block);
    }

    /// Copies the newest versions of the pages of `b` from offset `from` on into `block`, which
    /// becomes the data block of `b`.
    fn move_data(&mut self, b: u32, from: u32, block: u32, nand: &mut Nand) {
        for offset in from..self.per_block {
            let page = b * self.per_block + offset;
            let place = self.locate(page, nand);
            if nand.is_live(page) && !nand.is_clean(place) {
                nand.copy(place, Place { block, offset }, Cause::Merge);
            }
            self.in_rw[page as usize] = NONE;
        }
        let old = std::mem::replace(&mut self.data[b as usize], block);
        self.release(old, nand);
    }

    /// Performs a switch merge or partial merge.
    fn merge_sw(&mut self, nand: &mut Nand) {
        if let Some(Sequential { block, owner, next }) = self.sw.take() {
            self.move_data(owner, next, block, nand);
        }
    }

    /// Performs full merges of all valid pages in the oldest RW block.
    fn merge_oldest_rw(&mut self, nand: &mut Nand) {
        let Some(victim) = self.rw.pop_front() else { return };
        for offset in 0..self.per_block {
            let place = Place { block: victim, offset };
            let page = nand.holder(place);
            if page == NONE || self.in_rw[page as usize] != victim * self.per_block + offset {
                continue;
            }
            let b = page / self.per_block;
            if self.sw.as_ref().is_some_and(|sw| sw.owner == b) {
                self.merge_sw(nand);
            } else {
                let block = self.take_free_block();
                self.move_data(b, 0, block, nand);
            }
        }
        self.release(victim, nand);
    }

    fn write_sw(&mut self, p: u32, nand: &mut Nand) {
        let Some(sw) = &mut self.sw else { return };
        nand.program(Place { block: sw.block, offset: sw.next }, p);
        sw.next += 1;
        self.in_rw[p as usize] = NONE;
        if sw.next == self.per_block {
            self.merge_sw(nand);
        }
    }

    fn write_rw(&mut self, p: u32, nand: &mut Nand) {
        if self.rw_next == self.per_block {
            // One block stays free for full merges, and one for the SW block.
            while self.free.len() <= 1 + usize::from(self.sw.is_none()) {
                self.merge_oldest_rw(nand);
            }
            let block = self.take_free_block();
            self.rw.push_back(block);
            self.rw_next = 0;
        }
        let Some(&block) = self.rw.back() else { unreachable!("it was opened above") };
        nand.program(Place { block, offset: self.rw_next }, p);
        self.in_rw[p as usize] = block * self.per_block + self.rw_next;
        self.rw_next += 1;
    }

    fn write_page(&mut self, p: u32, nand: &mut Nand) {
        let (b, offset) = (p / self.per_block, p % self.per_block);
        let in_place = Place { block: self.data[b as usize], offset };
        let owner = self.sw.as_ref().filter(|sw| sw.owner == b).map(|sw| sw.next);
        if nand.is_clean(in_place) && self.in_rw[p as usize] == NONE && owner.is_none_or(|next| offset >= next) {
            nand.program(in_place, p);
        } else if offset == 0 {
            self.merge_sw(nand);
            let block = self.take_free_block();
            self.sw = Some(Sequential { block, owner: b, next: 0 });
            self.write_sw(p, nand);
        } else if owner == Some(offset) {
            self.write_sw(p, nand);
        } else {
            if owner.is_some() {
                self.merge_sw(nand);
            }
            self.write_rw(p, nand);
        }
    }
}

impl DieLayer for Fast {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        (start..end).for_each(|p| self.write_page(p, nand));
    }

    fn locate(&self, page: u32, _: &Nand) -> Place {
        let (b, offset) = (page / self.per_block, page % self.per_block);
        match (self.in_rw[page as usize], &self.sw) {
            (NONE, Some(sw)) if sw.owner == b && offset < sw.next => Place { block: sw.block, offset },
            (NONE, _) => Place { block: self.data[b as usize], offset },
            (place, _) => Place { block: place / self.per_block, offset: place % self.per_block },
        }
    }

    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked {
        let (blocks, logical) = (nand.blocks(), self.data.len() as u32);
        archive.table(&mut self.data, u64::from(blocks) - 1)?;
        archive.queue(&mut self.free, blocks.into(), blocks)?;
        archive.queue(&mut self.rw, blocks.into(), blocks)?;
        archive.number(&mut self.rw_next, self.per_block.into())?;
        archive.places(&mut self.in_rw, blocks * self.per_block)?;
        archive.option(&mut self.sw, || Sequential { block: 0, owner: 0, next: 0 })?;
        if let Some(sw) = &mut self.sw {
            archive.number(&mut sw.block, u64::from(blocks) - 1)?;
            archive.number(&mut sw.owner, u64::from(logical) - 1)?;
            archive.number(&mut sw.next, u64::from(self.per_block) - 1)?;
        }
        Ok(())
    }

    fn check(&self, nand: &Nand) -> Checked {
        let logs = self.rw.iter().copied().chain(self.sw.as_ref().map(|sw| sw.block));
        check_uses(self.data.iter().copied().chain(logs.clone()), self.free.iter().copied(), nand)?;
        let free = self.free.len();
        ensure(free > usize::from(self.sw.is_none()), || "no block free for a merge".to_owned())?;
        ensure(free + logs.count() == self.log_blocks as usize, || format!("{free} blocks are free"))?;
        match self.rw.back() {
            Some(block) => check_frontier(*block, self.rw_next, nand)?,
            None => ensure(self.rw_next == self.per_block, || "no RW block is open".to_owned())?,
        }
        self.sw.as_ref().map_or(Ok(()), |sw| check_frontier(sw.block, sw.next, nand))?;
        for (page, &place) in (0..).zip(&self.in_rw).filter(|(_, place)| **place != NONE) {
            let place = Place { block: place / self.per_block, offset: place % self.per_block };
            let in_rw = self.rw.contains(&place.block) && nand.holds(place, page);
            ensure(in_rw, || format!("page {page} is in no RW block"))?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        (self.data.capacity() + self.in_rw.capacity() + self.rw.capacity() + self.free.capacity()) as u64 * 4
    }
}
