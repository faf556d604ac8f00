//! `ideal`: Griffin's lower bound of erasures (Griffin's section 6.3): a perfect layer that erases
//! as many blocks as the written pages fill, pages / pages of a block, and moves nothing. Erases
//! rotate over all blocks of a die.
//!
//! No real layer can work as `ideal` does, because `ideal` overwrites pages in place.

use super::striped::Striped;
use super::{DieLayer, Info};
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};

pub(crate) const INFO: Info = Info {
    name: "ideal",
    whole_pages: true,
    reserve: |_| 0,
    make: |setup| Ok(Box::new(Striped::new(setup, || Ideal { written: 0, next: 0 }))),
};

struct Ideal {
    /// Number of pages written since the last erase.
    written: u32,
    /// Block that is erased next.
    next: u32,
}

impl DieLayer for Ideal {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        for page in start..end {
            nand.overwrite(self.locate(page, nand), page);
            self.written += 1;
            if self.written == nand.pages_per_block() {
                nand.count_erase(self.next, Cause::Collection);
                (self.written, self.next) = (0, (self.next + 1) % nand.blocks());
            }
        }
    }

    fn locate(&self, page: u32, nand: &Nand) -> Place {
        Place { block: page / nand.pages_per_block(), offset: page % nand.pages_per_block() }
    }

    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked {
        archive.number(&mut self.written, u64::from(nand.pages_per_block()) - 1)?;
        archive.number(&mut self.next, u64::from(nand.blocks()) - 1)
    }

    fn check(&self, nand: &Nand) -> Checked {
        ensure(self.written < nand.pages_per_block(), || format!("{} pages since the last erase", self.written))
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}
