//! Spreads logical pages over the dies, row by row. Each die has a [`DieLayer`] of its own.

use std::collections::BTreeMap;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::{Counters, DieLayer, Placed, Setup, TranslationLayer};
use crate::flash::geometry::Geometry;
use crate::flash::nand::Nand;
use crate::flash::operation::NandOp;
use crate::flash::precondition::Precondition;
use crate::flash::state::archive::{Archive, Checked, ensure};

struct Die<F> {
    layer: F,
    nand: Nand,
}

/// Translation layer for a whole drive, made of layers for each die.
pub(crate) struct Striped<F> {
    geometry: Geometry,
    row: u32,
    dies: Vec<Die<F>>,
    counters: Counters,
    refused: u64,
}

/// Returns the number of logical pages that each die of `geometry` has to hold.
pub(crate) fn pages_of_die(geometry: &Geometry) -> u32 {
    let row = geometry.units_per_row();
    geometry.logical_units.div_ceil(row).div_ceil(geometry.dies()) * row
}

/// Returns the number of logical blocks in each die of `geometry`.
pub(crate) fn logical_blocks(geometry: &Geometry) -> u32 {
    pages_of_die(geometry).div_ceil(geometry.units_per_block())
}

impl<F: DieLayer> Striped<F> {
    /// Creates the drive of `setup`, with a layer from `make` in each die, and preconditions the
    /// drive by writes.
    pub(crate) fn new(setup: &Setup, make: impl Fn() -> F) -> Self {
        let geometry = setup.geometry;
        let copy_back = setup.profile.copy_back();
        let pages = logical_blocks(&geometry) * geometry.units_per_block();
        let dies = (0..geometry.dies()).map(|_| Die { layer: make(), nand: Nand::new(&geometry, pages, copy_back) });
        let dies = dies.collect();
        let row = geometry.units_per_row();
        let mut striped = Self { geometry, row, dies, counters: Counters::default(), refused: 0 };
        striped.precondition(setup);
        striped
    }

    /// Writes all pages once in order, and for the random state as many pages again at random.
    /// After preconditioning, wear and counters start at zero.
    fn precondition(&mut self, setup: &Setup) {
        if setup.precondition == Precondition::Clean || setup.restored {
            return;
        }
        let mut operations = Vec::new();
        let mut write = |striped: &mut Self, start, end| {
            striped.write_request(start, end, &mut operations);
            operations.clear();
        };
        let (start, end) = (setup.start, setup.start + setup.units);
        let step = self.geometry.units_per_block() * self.geometry.dies();
        for at in (start..end).step_by(step as usize) {
            write(self, at, end.min(at.saturating_add(step)));
        }
        if setup.precondition == Precondition::Random {
            let mut random = Pcg64::seed_from_u64(setup.seed);
            for _ in start..end {
                let page = start + ((u64::from(random.next_u32()) * u64::from(setup.units)) >> 32) as u32;
                write(self, page, page + 1);
            }
        }
        self.dies.iter_mut().for_each(|die| die.nand.start_over());
        (self.counters, self.refused) = (Counters::default(), 0);
    }

    /// Calls `each` with every die.
    pub(crate) fn for_each_die(&mut self, mut each: impl FnMut(u32, &mut F, &mut Nand)) {
        for (number, die) in self.dies.iter_mut().enumerate() {
            each(number as u32, &mut die.layer, &mut die.nand);
        }
    }

    /// Returns the die of a logical page, and the page within this die.
    #[cfg(test)]
    fn local(&self, unit: u32) -> (u32, u32) {
        let (row, dies) = (unit / self.row, self.dies.len() as u32);
        (row % dies, row / dies * self.row + unit % self.row)
    }

    /// Calls `each` with every die that has pages of `start..end`, and with the range of its own
    /// pages.
    fn split(&self, start: u32, end: u32, mut each: impl FnMut(u32, u32, u32)) {
        if start >= end {
            return;
        }
        let dies = self.dies.len() as u32;
        let (first, last) = (start / self.row, (end - 1) / self.row);
        for row in first..=last.min(first + dies - 1) {
            let last_here = row + (last - row) / dies * dies;
            let from = row / dies * self.row + if row == first { start % self.row } else { 0 };
            let behind = if last_here == last { (end - 1) % self.row + 1 } else { self.row };
            each(row % dies, from, last_here / dies * self.row + behind);
        }
    }

    /// Appends the operations of a die.
    fn gather(&mut self, die: u32, operations: &mut Vec<NandOp>) {
        let nand = &mut self.dies[die as usize].nand;
        for mut operation in nand.operations() {
            operation.die = die;
            operation.block += die * self.geometry.blocks_per_plane;
            self.counters.count(&operation);
            operations.push(operation);
        }
        let (copied, refused) = nand.take_counts();
        self.counters.moved_units += copied;
        self.counters.host_units -= refused;
        self.refused += refused;
    }
}

impl<F: DieLayer> TranslationLayer for Striped<F> {
    fn write(&mut self, unit: u32, operations: &mut Vec<NandOp>) -> Placed {
        self.write_request(unit, unit + 1, operations);
        Placed::New
    }

    fn write_request(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) -> u32 {
        let mut parts = Vec::new();
        self.split(start, end, |die, from, to| parts.push((die, from, to)));
        let refused = self.refused;
        for (die, from, to) in parts {
            let Die { layer, nand } = &mut self.dies[die as usize];
            layer.write(from, to, nand);
            self.counters.host_units += u64::from(to - from);
            self.gather(die, operations);
        }
        end - start - (self.refused - refused) as u32
    }

    fn flush(&mut self, _: &mut Vec<NandOp>) {}

    fn read(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        let mut parts = Vec::new();
        self.split(start, end, |die, from, to| parts.push((die, from, to)));
        for (die, from, to) in parts {
            let Die { layer, nand } = &mut self.dies[die as usize];
            for page in from..to {
                if nand.is_live(page) && !layer.is_in_memory(page, nand) {
                    let place = layer.locate(page, nand);
                    layer.search(page, nand);
                    nand.read(place);
                }
            }
            self.gather(die, operations);
        }
    }

    fn trim(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        let mut parts = Vec::new();
        self.split(start, end, |die, from, to| parts.push((die, from, to)));
        for (die, from, to) in parts {
            let Die { layer, nand } = &mut self.dies[die as usize];
            layer.trim(from, to, nand);
            self.gather(die, operations);
        }
    }

    fn programmed(&mut self, _: &NandOp) {}

    fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    #[cfg(test)]
    fn locate(&self, unit: u32) -> Option<u32> {
        let (number, page) = self.local(unit);
        let Die { layer, nand } = &self.dies[number as usize];
        nand.is_live(page).then(|| {
            let place = layer.locate(page, nand);
            assert_eq!(nand.holder(place), page, "page {page} of die {number} is not where the layer says");
            let block = number * self.geometry.blocks_per_plane + place.block;
            block * self.geometry.units_per_block() + place.offset
        })
    }

    #[cfg(test)]
    fn set_version(&mut self, version: u32) -> bool {
        self.dies.iter_mut().for_each(|die| die.nand.version = version);
        true
    }

    #[cfg(test)]
    fn version(&self, unit: u32) -> Option<u32> {
        let (number, page) = self.local(unit);
        let Die { layer, nand } = &self.dies[number as usize];
        nand.is_live(page).then(|| nand.version_at(layer.locate(page, nand)))
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn erases_of_blocks(&self) -> BTreeMap<u32, u64> {
        let mut histogram = BTreeMap::new();
        self.dies.iter().for_each(|die| die.nand.add_erases(&mut histogram));
        histogram
    }

    fn most_cycles(&self) -> f64 {
        self.dies.iter().map(|die| die.nand.most_erases()).max().unwrap_or(0).into()
    }

    fn memory_bytes(&self) -> u64 {
        self.dies.iter().map(|die| die.nand.memory_bytes() + die.layer.memory_bytes()).sum()
    }

    fn transfer(&mut self, archive: &mut Archive) -> Checked {
        for Die { layer, nand } in &mut self.dies {
            nand.transfer(archive)?;
            layer.transfer(nand, archive)?;
        }
        if archive.is_reading() {
            (self.counters, self.refused) = (Counters::default(), 0);
            self.check()?;
        }
        Ok(())
    }

    fn check(&self) -> Checked {
        for (number, Die { layer, nand }) in self.dies.iter().enumerate() {
            nand.check()?;
            layer.check(nand)?;
            for page in (0..nand.logical_pages()).filter(|page| nand.is_live(*page)) {
                let found = nand.holds(layer.locate(page, nand), page);
                ensure(found, || format!("page {page} of die {number} is not where the layer says"))?;
            }
        }
        let counters = &self.counters;
        let pages: u64 = counters.pages_programmed.iter().sum();
        let written = counters.host_units + counters.moved_units;
        ensure(written == pages, || format!("{written} units written, {pages} pages programmed"))?;
        let erases: u64 = self.dies.iter().map(|die| die.nand.erases()).sum();
        let counted: u64 = counters.blocks_erased.iter().sum();
        ensure(erases == counted, || format!("{erases} erases of blocks, {counted} counted"))
    }
}
