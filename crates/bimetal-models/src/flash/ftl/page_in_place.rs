//! `page-in-place`: the page level layer without wear levelling of Konanki's thesis ("Modeling of
//! hybrid hard disks in Disksim", section 4.1, figure 4.1). A logical page is the physical page of
//! the same number.
//!
//! A clean page is written directly. If a page of a request is dirty, its block is read into memory
//! and erased. The block is then written back with the request's pages in it, once for each
//! request. `prewrite_probability` is the share of all pages that are dirty at first.
//!
//! In the thesis as printed, `pageswritten` is the number of the last page minus `(i + 1)`, which
//! never advances on a one-page write. In this layer `pageswritten` is the number of pages up to
//! the end of the block or of the request.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::striped::{Striped, logical_blocks};
use super::{DieLayer, Info};
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked};

pub(crate) const INFO: Info = Info {
    name: "page-in-place",
    whole_pages: true,
    reserve: |_| 0,
    make: |setup| {
        let mut striped = Striped::new(setup, || PageInPlace);
        let probability = setup.profile.prewrite_probability;
        let mut random = Pcg64::seed_from_u64(setup.seed);
        let pages = logical_blocks(&setup.geometry) * setup.geometry.units_per_block();
        striped.for_each_die(|_, _, nand| {
            for page in 0..if probability > 0.0 { pages } else { 0 } {
                let place = nand.own_place(page);
                if f64::from(random.next_u32()) < probability * 2f64.powi(32) && nand.is_clean(place) {
                    nand.preset(place, page);
                }
            }
        });
        Ok(Box::new(striped))
    },
};

/// Layer without any state of its own.
struct PageInPlace;

impl DieLayer for PageInPlace {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        let per_block = nand.pages_per_block();
        let mut i = start;
        while i < end {
            let (block, offset) = (i / per_block, i % per_block);
            let pages_written = (end - i).min(per_block - offset);
            let offsets = offset..offset + pages_written;
            if offsets.clone().all(|offset| nand.is_clean(Place { block, offset })) {
                for (offset, page) in offsets.zip(i..) {
                    nand.program(Place { block, offset }, page);
                }
            } else {
                nand.rewrite(block, offset, i, i + pages_written, Cause::Merge);
            }
            i += pages_written;
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
