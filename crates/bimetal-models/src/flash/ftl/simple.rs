//! `simple`: Griffin's upper bound of erasures (section 6.3): coarse block mapping, where a write to a page that cannot be
//! overwritten erases the block.
//!
//! The paper does not say what happens to the other pages of the block: here they are read before the erase and
//! programmed again in their place, so that each page that is overwritten costs an erase, also in a long request.

use super::striped::Striped;
use super::{DieLayer, Info};
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked};

pub(crate) const INFO: Info = Info {
    name: "simple",
    whole_pages: true,
    reserve: |_| 0,
    make: |setup| Ok(Box::new(Striped::new(setup, || Simple))),
};

/// There is nothing to remember.
struct Simple;

impl DieLayer for Simple {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        for page in start..end {
            let place = self.locate(page, nand);
            if nand.is_clean(place) {
                nand.program(place, page);
            } else {
                nand.rewrite(place.block, place.offset, page, page + 1, Cause::Merge);
            }
        }
    }

    fn locate(&self, page: u32, nand: &Nand) -> Place {
        nand.own_place(page)
    }

    fn transfer(&mut self, _: &Nand, _: &mut Archive) -> Checked {
        Ok(())
    }

    fn check(&self, nand: &Nand) -> Checked {
        nand.check_own_places()
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}
