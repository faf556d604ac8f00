//! `simple`: Griffin's upper bound of erasures (section 6.3): coarse block mapping, in which a
//! write to a page that cannot be overwritten erases the block.
//!
//! The paper does not describe the other pages of the block: in this layer these pages are read
//! before the erase. The pages before the written page are programmed again at once. The pages
//! after the written page wait in the controller's memory, so that a write that continues at the
//! next page finds clean pages: a sequential run erases a block once. The waiting pages are
//! programmed when a write to another place follows. The page that was written last is continued in
//! parts of 4 KiB without an erase, once for each further part.

use super::striped::Striped;
use super::{DieLayer, Info};
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};

pub(crate) const INFO: Info = Info {
    name: "simple",
    whole_pages: true,
    reserve: |_| 0,
    make: |setup| {
        let parts = (setup.geometry.page_bytes / PART_BYTES).max(1);
        Ok(Box::new(Striped::new(setup, || Simple { open: None, last: None, parts, parts_left: 0 })))
    },
};

/// Bytes of a part of a page that hosts write at a time.
const PART_BYTES: u32 = 4096;

struct Simple {
    /// The page that follows the last written page of the block that was erased last. The pages of
    /// the block from that page on wait in memory, or are clean.
    open: Option<Place>,
    /// The page that was written last, and the number of its parts that may follow.
    last: Option<Place>,
    parts_left: u32,
    parts: u32,
}

impl Simple {
    fn open_behind(&mut self, place: Place, pages: u32, nand: &Nand) {
        let offset = place.offset + pages;
        self.open = (offset < nand.pages_per_block()).then_some(Place { offset, ..place });
    }

    fn close(&mut self, nand: &mut Nand) {
        if let Some(place) = self.open.take() {
            nand.program_held(place, Cause::Merge);
        }
    }
}

impl DieLayer for Simple {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        let mut page = start;
        while page < end {
            let place = self.locate(page, nand);
            if self.last == Some(place) && self.parts_left > 0 {
                self.parts_left -= 1;
                nand.overwrite(place, page);
                page += 1;
                continue;
            }
            (self.last, self.parts_left) = (Some(place), self.parts - 1);
            if self.open == Some(place) {
                nand.overwrite(place, page);
                self.open_behind(place, 1, nand);
                page += 1;
                continue;
            }
            self.close(nand);
            if nand.is_clean(place) {
                nand.program(place, page);
                page += 1;
                continue;
            }
            let pages = (end - page).min(nand.pages_per_block() - place.offset);
            nand.rewrite_up_to(place.block, place.offset, page, page + pages, Cause::Merge);
            self.open_behind(place, pages, nand);
            self.last = Some(Place { offset: place.offset + pages - 1, ..place });
            page += pages;
        }
    }

    fn locate(&self, page: u32, nand: &Nand) -> Place {
        nand.own_place(page)
    }

    fn is_in_memory(&self, page: u32, nand: &Nand) -> bool {
        let place = nand.own_place(page);
        self.open.is_some_and(|open| open.block == place.block && open.offset <= place.offset)
    }

    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked {
        let per_block = nand.pages_per_block();
        // Number of the page after the last written one, from 1 on; 0 if no block is open.
        let mut open = self.open.map_or(0, |place| place.block * per_block + place.offset + 1);
        archive.number(&mut open, u64::from(nand.blocks()) * u64::from(per_block))?;
        let place = |page: u32| Place { block: page / per_block, offset: page % per_block };
        self.open = open.checked_sub(1).map(place);
        let mut last = self.last.map_or(0, |place| place.block * per_block + place.offset + 1);
        archive.number(&mut last, u64::from(nand.blocks()) * u64::from(per_block))?;
        self.last = last.checked_sub(1).map(place);
        archive.number(&mut self.parts_left, u64::from(self.parts) - 1)?;
        Ok(())
    }

    fn check(&self, nand: &Nand) -> Checked {
        nand.check_own_places()?;
        ensure(self.open.is_none_or(|place| place.offset > 0), || "a block is open that was not written".to_owned())
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}
