//! Cells of one die, page by page, for the flash translation layers of the papers.
//!
//! The medium enforces its rules with assertions: only a clean page is programmed, only a whole
//! block is erased. In this file a block is one physical block in every plane of the die; its pages
//! are numbered row by row.

use std::collections::BTreeMap;

use super::geometry::Geometry;
use super::mapping::NONE;
use super::operation::{Cause, NandKind, NandOp};
use super::state::archive::{Archive, Checked, ERASES_MAX, ensure};

/// Page of the medium: its block, and its number in the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Number of the block in the die.
    pub(crate) block: u32,
    /// Number of the page in the block.
    pub(crate) offset: u32,
}

#[derive(Clone, Default)]
struct Block {
    erases: u32,
    /// Erases before time zero, which `erases` includes.
    erases_before: u32,
    /// Number of pages that are not clean.
    dirty: u32,
    /// Logical pages for which the pages were programmed, or [`NONE`]; absent while the block was
    /// never programmed.
    pages: Option<Box<[u32]>>,
    /// Versions of the content of each page.
    #[cfg(test)]
    versions: Vec<u32>,
}

/// Medium of one die.
pub(crate) struct Nand {
    blocks: Vec<Block>,
    pages_per_block: u32,
    pages_per_row: u32,
    planes: u32,
    /// Set if copies stay inside the die.
    copy_back: bool,
    /// Bit for each logical page, set if the page has data of the host.
    live: Vec<u64>,
    logical_pages: u32,
    operations: Vec<NandOp>,
    copied: u64,
    refused: u64,
    /// Version of the next pages of the host.
    #[cfg(test)]
    pub(crate) version: u32,
}

impl Nand {
    /// Creates the erased medium of one die of `geometry`, whose mapping unit is a page, with
    /// `logical_pages` without data.
    pub(crate) fn new(geometry: &Geometry, logical_pages: u32, copy_back: bool) -> Self {
        debug_assert_eq!(geometry.units_per_page(), 1);
        Self {
            blocks: vec![Block::default(); geometry.blocks_per_plane as usize],
            pages_per_block: geometry.units_per_block(),
            pages_per_row: geometry.units_per_row(),
            planes: geometry.planes_per_die,
            copy_back,
            live: vec![0; logical_pages.div_ceil(64) as usize],
            logical_pages,
            operations: Vec::new(),
            copied: 0,
            refused: 0,
            #[cfg(test)]
            version: 0,
        }
    }

    /// Returns the number of blocks in the die.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Returns the number of logical pages.
    pub(crate) fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// Returns the number of pages in a block.
    pub(crate) fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// Returns the place with the same number as the logical page. FTLs without a mapping table
    /// keep the page in this place.
    pub(crate) fn own_place(&self, page: u32) -> Place {
        Place { block: page / self.pages_per_block, offset: page % self.pages_per_block }
    }

    /// Checks that every programmed page lies in its [own place](Self::own_place).
    pub(crate) fn check_own_places(&self) -> Checked {
        for block in 0..self.blocks() {
            for offset in 0..self.pages_per_block {
                let place = Place { block, offset };
                let in_place = self.is_clean(place) || self.own_place(self.holder(place)) == place;
                ensure(in_place, || format!("{place:?} holds a page of another place"))?;
            }
        }
        Ok(())
    }

    /// Returns true if a page may be programmed.
    pub(crate) fn is_clean(&self, place: Place) -> bool {
        self.holder(place) == NONE
    }

    /// Returns the logical page for which a page was programmed, outdated or not; [`NONE`] if the
    /// page is clean.
    pub(crate) fn holder(&self, Place { block, offset }: Place) -> u32 {
        self.blocks[block as usize].pages.as_ref().map_or(NONE, |pages| pages[offset as usize])
    }

    /// Returns true if the page exists and was programmed for logical page `page`.
    pub(crate) fn holds(&self, place: Place, page: u32) -> bool {
        place.block < self.blocks() && place.offset < self.pages_per_block && self.holder(place) == page
    }

    /// Returns the number of pages of `block` that are not clean.
    pub(crate) fn dirty(&self, block: u32) -> u32 {
        self.blocks[block as usize].dirty
    }

    /// Returns true if the host has data in a logical page.
    pub(crate) fn is_live(&self, page: u32) -> bool {
        self.live[page as usize / 64] >> (page % 64) & 1 == 1
    }

    /// Records that the host has data in a logical page.
    pub(crate) fn set_live(&mut self, page: u32) {
        self.live[page as usize / 64] |= 1 << (page % 64);
    }

    /// Records that the host has no more data in the logical pages from `start` up to `end`.
    pub(crate) fn clear(&mut self, start: u32, end: u32) {
        let mut page = start;
        while page < end {
            let stop = end.min((page / 64 + 1).saturating_mul(64));
            let count = stop - page;
            let mask = if count == 64 { u64::MAX } else { ((1 << count) - 1) << (page % 64) };
            self.live[page as usize / 64] &= !mask;
            page = stop;
        }
    }

    /// Reads a page for the host.
    pub(crate) fn read(&mut self, place: Place) {
        self.sense(place, Cause::Host, 1);
    }

    /// Reads a page only to see whether it is clean: none of its data crosses the channel.
    pub(crate) fn look_at(&mut self, place: Place) {
        self.sense(place, Cause::Translation, 0);
    }

    /// Programs data of the host for logical page `page` into a clean page.
    pub(crate) fn program(&mut self, place: Place, page: u32) {
        assert!(self.is_clean(place), "{place:?} is programmed for page {page} but not clean");
        self.overwrite(place, page);
    }

    /// Programs a page as [`program`](Self::program) does, even if the page is not clean; only
    /// layers that are bounds (`ideal`) use it.
    pub(crate) fn overwrite(&mut self, place: Place, page: u32) {
        self.set_live(page);
        #[cfg(test)]
        let version = self.version;
        self.store(
            place,
            page,
            #[cfg(test)]
            version,
        );
        self.emit_program(place, Cause::Host, 1);
    }

    /// Moves the content of `from` into the clean page `to`.
    pub(crate) fn copy(&mut self, from: Place, to: Place, cause: Cause) {
        let page = self.holder(from);
        assert!(page != NONE && self.is_clean(to), "{from:?} is copied to {to:?}");
        let units = u32::from(!self.copy_back);
        self.sense(from, cause, units);
        #[cfg(test)]
        let version = self.blocks[from.block as usize].versions[from.offset as usize];
        self.store(
            to,
            page,
            #[cfg(test)]
            version,
        );
        self.emit_program(to, cause, units);
        self.copied += 1;
    }

    /// Erases a block with any content. A clean block is not erased again.
    pub(crate) fn erase(&mut self, block: u32, cause: Cause) {
        if self.dirty(block) == 0 {
            return;
        }
        let erased = &mut self.blocks[block as usize];
        erased.dirty = 0;
        if let Some(pages) = &mut erased.pages {
            pages.fill(NONE);
        }
        self.count_erase(block, cause);
    }

    /// Counts an erase of `block`, which keeps its content; only layers that are bounds (`ideal`)
    /// use it.
    pub(crate) fn count_erase(&mut self, block: u32, cause: Cause) {
        self.blocks[block as usize].erases += 1;
        self.operations.push(NandOp { pages: self.planes, ..operation(NandKind::Erase, cause, block) });
    }

    /// Writes the logical pages from `start` up to `end`, which belong to the pages of `block` from
    /// `offset` on. The block is read into memory, erased and programmed again, so that its other
    /// pages keep their places.
    pub(crate) fn rewrite(&mut self, block: u32, offset: u32, start: u32, end: u32, cause: Cause) {
        self.rewrite_up_to(block, offset, start, end, cause);
        self.program_held(Place { block, offset: offset + (end - start) }, cause);
    }

    /// Rewrites a block as [`rewrite`](Self::rewrite) does, but keeps the pages after the written
    /// pages in memory, so that a later write can replace them.
    pub(crate) fn rewrite_up_to(&mut self, block: u32, offset: u32, start: u32, end: u32, cause: Cause) {
        let behind = offset + (end - start);
        let kept: Vec<(u32, u32)> = (0..self.pages_per_block)
            .filter(|at| !(offset..behind).contains(at))
            .map(|at| (at, self.holder(Place { block, offset: at })))
            .filter(|&(_, page)| page != NONE && self.is_live(page))
            .collect();
        #[cfg(test)]
        let versions = self.blocks[block as usize].versions.clone();
        for offset in 0..self.pages_per_block {
            if !self.is_clean(Place { block, offset }) {
                self.sense(Place { block, offset }, cause, 1);
            }
        }
        self.erase(block, cause);
        for (at, page) in kept {
            let place = Place { block, offset: at };
            self.store(
                place,
                page,
                #[cfg(test)]
                versions[at as usize],
            );
            if at < offset {
                self.emit_program(place, cause, 1);
                self.copied += 1;
            }
        }
        for (offset, page) in (offset..behind).zip(start..end) {
            self.program(Place { block, offset }, page);
        }
    }

    /// Programs the pages that [`rewrite_up_to`](Self::rewrite_up_to) kept in memory, from `from`
    /// to the end of its block. Pages that were discarded during the program stay clean.
    pub(crate) fn program_held(&mut self, from: Place, cause: Cause) {
        for offset in from.offset..self.pages_per_block {
            let place = Place { offset, ..from };
            let page = self.holder(place);
            if page == NONE {
                continue;
            }
            if self.is_live(page) {
                self.emit_program(place, cause, 1);
                self.copied += 1;
            } else {
                self.make_clean(place);
            }
        }
    }

    fn make_clean(&mut self, place: Place) {
        let block = &mut self.blocks[place.block as usize];
        if let Some(pages) = &mut block.pages
            && std::mem::replace(&mut pages[place.offset as usize], NONE) != NONE
        {
            block.dirty -= 1;
        }
    }

    /// Marks a page as programmed for logical page `page` before time zero.
    pub(crate) fn preset(&mut self, place: Place, page: u32) {
        self.set_live(page);
        self.store(
            place,
            page,
            #[cfg(test)]
            0,
        );
    }

    /// Counts a request that the medium cannot serve.
    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
    }

    fn store(&mut self, place: Place, page: u32, #[cfg(test)] version: u32) {
        let count = self.pages_per_block as usize;
        let block = &mut self.blocks[place.block as usize];
        let pages = block.pages.get_or_insert_with(|| vec![NONE; count].into_boxed_slice());
        let held = std::mem::replace(&mut pages[place.offset as usize], page);
        block.dirty += u32::from(held == NONE);
        #[cfg(test)]
        {
            block.versions.resize(count, 0);
            block.versions[place.offset as usize] = version;
        }
    }

    /// Appends the operation that senses a page. Consecutive pages of one row are sensed by one
    /// command.
    fn sense(&mut self, Place { block, offset }: Place, cause: Cause, units: u32) {
        let row = offset / self.pages_per_row;
        if let Some(last) = self.operations.last_mut()
            && (last.kind, last.cause, last.block) == (NandKind::Read, cause, block)
        {
            last.commands += u32::from(last.programmed != row);
            (last.pages, last.units, last.programmed) = (last.pages + 1, last.units + units, row);
            return;
        }
        // While operations are collected, `programmed` of a read is the row that was sensed last.
        let read = NandOp { units, programmed: row, ..operation(NandKind::Read, cause, block) };
        self.operations.push(read);
    }

    /// Appends the operation that programs a page. The next page of the same row joins the same
    /// multi-plane command.
    fn emit_program(&mut self, Place { block, offset }: Place, cause: Cause, units: u32) {
        let host_units = u32::from(cause == Cause::Host);
        if !offset.is_multiple_of(self.pages_per_row)
            && let Some(last) = self.operations.last_mut()
            && (last.kind, last.cause, last.block) == (NandKind::Program, cause, block)
            && last.programmed == offset
        {
            (last.pages, last.units, last.programmed) = (last.pages + 1, last.units + units, offset + 1);
            last.host_units += host_units;
            return;
        }
        let program = operation(NandKind::Program, cause, block);
        self.operations.push(NandOp { units, host_units, programmed: offset + 1, ..program });
    }

    /// Takes the operations since the last call, in order.
    pub(crate) fn operations(&mut self) -> std::vec::Drain<'_, NandOp> {
        self.operations.drain(..)
    }

    /// Returns the numbers of pages moved and requests refused since the last call.
    pub(crate) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.copied), std::mem::take(&mut self.refused))
    }

    /// Makes all work so far count as work before time zero.
    pub(crate) fn start_over(&mut self) {
        self.operations.clear();
        (self.copied, self.refused) = (0, 0);
        self.blocks.iter_mut().for_each(|block| block.erases = 0);
    }

    /// Adds the blocks to `histogram` by their erases. Each block of the FTL stands for one
    /// physical block in each plane.
    pub(crate) fn add_erases(&self, histogram: &mut BTreeMap<u32, u64>) {
        for block in &self.blocks {
            *histogram.entry(block.erases).or_default() += u64::from(self.planes);
        }
    }

    /// Returns the version of a page's content.
    #[cfg(test)]
    pub(crate) fn version_at(&self, place: Place) -> u32 {
        self.blocks[place.block as usize].versions[place.offset as usize]
    }

    /// Returns the erases since time zero of the block with the most erases.
    pub(crate) fn most_erases(&self) -> u32 {
        self.blocks.iter().map(|block| block.erases - block.erases_before).max().unwrap_or(0)
    }

    /// Returns the erases since time zero, in all planes.
    pub(crate) fn erases(&self) -> u64 {
        let erases: u64 = self.blocks.iter().map(|block| u64::from(block.erases - block.erases_before)).sum();
        erases * u64::from(self.planes)
    }

    /// Saves or restores every page, the erases of every block, and the logical pages with data.
    pub(crate) fn transfer(&mut self, archive: &mut Archive) -> Checked {
        let mut erases: Vec<u32> = self.blocks.iter().map(|block| block.erases).collect();
        archive.table(&mut erases, ERASES_MAX)?;
        let mut written: Vec<u32> = self.blocks.iter().map(|block| u32::from(block.dirty > 0)).collect();
        archive.table(&mut written, 1)?;
        for (block, (erases, written)) in self.blocks.iter_mut().zip(erases.into_iter().zip(written)) {
            if archive.is_reading() {
                *block = Block { erases, erases_before: erases, ..Block::default() };
            }
            if written == 1 {
                let count = self.pages_per_block as usize;
                let pages = block.pages.get_or_insert_with(|| vec![NONE; count].into_boxed_slice());
                archive.places(pages, self.logical_pages)?;
                block.dirty = pages.iter().filter(|page| **page != NONE).count() as u32;
                ensure(block.dirty > 0, || "a block that was written and holds nothing".to_owned())?;
                #[cfg(test)]
                {
                    block.versions.resize(count, 0);
                    for (version, _) in block.versions.iter_mut().zip(pages).filter(|(_, page)| **page == NONE) {
                        *version = 0;
                    }
                    archive.table(&mut block.versions, NONE.into())?;
                }
            }
        }
        archive.bits(&mut self.live, self.logical_pages)
    }

    /// Checks the number of dirty pages of each block.
    pub(crate) fn check(&self) -> Checked {
        for (number, block) in self.blocks.iter().enumerate() {
            let dirty = block.pages.iter().flat_map(|pages| pages.iter()).filter(|page| **page != NONE).count();
            ensure(dirty as u32 == block.dirty, || format!("{dirty} dirty pages of block {number}"))?;
        }
        Ok(())
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let pages = self.blocks.iter().filter(|block| block.pages.is_some()).count() as u64;
        pages * u64::from(self.pages_per_block) * 4
            + self.blocks.capacity() as u64 * size_of::<Block>() as u64
            + self.live.capacity() as u64 * 8
    }
}

fn operation(kind: NandKind, cause: Cause, block: u32) -> NandOp {
    NandOp { pages: 1, block, ..NandOp::new(kind, cause) }
}
