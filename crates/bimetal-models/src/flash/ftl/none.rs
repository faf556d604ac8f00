//! `none`: the bare medium (Konanki's thesis, section 3.1), for hosts that manage flash themselves.
//!
//! A read only reads and a write only programs, each at its own address. A discard erases the
//! blocks that it covers wholly, and leaves all other blocks alone. A write to a page that was
//! programmed since its block was erased ends with a media error, and changes nothing.

use super::striped::Striped;
use super::{DieLayer, Info};
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};

pub(crate) const INFO: Info =
    Info { name: "none", whole_pages: true, reserve: |_| 0, make: |setup| Ok(Box::new(Striped::new(setup, || Raw))) };

/// Layer without any state of its own.
struct Raw;

impl DieLayer for Raw {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        for page in start..end {
            let place = self.locate(page, nand);
            if nand.is_clean(place) {
                nand.program(place, page);
            } else {
                nand.refuse();
            }
        }
    }

    fn locate(&self, page: u32, nand: &Nand) -> Place {
        Place { block: page / nand.pages_per_block(), offset: page % nand.pages_per_block() }
    }

    fn trim(&mut self, start: u32, end: u32, nand: &mut Nand) {
        let per_block = nand.pages_per_block();
        for block in start.div_ceil(per_block)..end / per_block {
            nand.clear(block * per_block, (block + 1) * per_block);
            nand.erase(block, Cause::Host);
        }
    }

    fn transfer(&mut self, _: &Nand, _: &mut Archive) -> Checked {
        Ok(())
    }

    fn check(&self, nand: &Nand) -> Checked {
        for block in 0..nand.blocks() {
            for offset in 0..nand.pages_per_block() {
                let place = Place { block, offset };
                let page = block * nand.pages_per_block() + offset;
                let in_place = nand.is_clean(place) || nand.holder(place) == page && nand.is_live(page);
                ensure(in_place, || format!("{place:?} holds a page of another place"))?;
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}
