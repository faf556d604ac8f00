//! Mapping table from logical to physical units: two levels, u32 entries, resident only where it
//! was changed.
//!
//! Entries of units that no write or discard has touched are computed from the [`Layout`] that
//! preconditioning left.

use super::precondition::Layout;
use super::state::archive::{self, Archive, Inconsistent};

/// Value of an address without data.
pub(crate) const NONE: u32 = u32::MAX;

/// Number of entries in a chunk.
pub(crate) const CHUNK_UNITS: u32 = 1024;

/// Mapping table of the places of logical units.
pub(crate) struct Mapping {
    chunks: Vec<Option<Box<[u32; CHUNK_UNITS as usize]>>>,
    /// Bit for each chunk that is not resident and maps nothing, whatever the layout contains.
    cleared: Vec<u64>,
    units: u32,
    resident: u64,
}

impl Mapping {
    /// Creates the mapping table of `units` logical units, in the places of the layout.
    pub(crate) fn new(units: u32) -> Self {
        let count = units.div_ceil(CHUNK_UNITS) as usize;
        let mut chunks = Vec::new();
        chunks.resize_with(count, || None);
        Self { chunks, cleared: vec![0; count.div_ceil(64)], units, resident: 0 }
    }

    #[inline]
    fn is_cleared(&self, chunk: u32) -> bool {
        self.cleared[chunk as usize / 64] >> (chunk % 64) & 1 == 1
    }

    /// Returns the physical unit that holds `unit`, or [`NONE`].
    #[inline]
    pub(crate) fn get(&self, unit: u32, layout: &Layout) -> u32 {
        let number = unit / CHUNK_UNITS;
        match &self.chunks[number as usize] {
            Some(chunk) => chunk[(unit % CHUNK_UNITS) as usize],
            None if self.is_cleared(number) => NONE,
            None => layout.locate(unit),
        }
    }

    /// Returns the entry of `unit`, to be changed.
    #[inline]
    pub(crate) fn entry(&mut self, unit: u32, layout: &Layout) -> &mut u32 {
        let number = unit / CHUNK_UNITS;
        if self.chunks[number as usize].is_none() {
            self.make_resident(number, layout);
        }
        match &mut self.chunks[number as usize] {
            Some(chunk) => &mut chunk[(unit % CHUNK_UNITS) as usize],
            None => unreachable!("the chunk was made above"),
        }
    }

    #[cold]
    fn make_resident(&mut self, number: u32, layout: &Layout) {
        let mut chunk = Box::new([NONE; CHUNK_UNITS as usize]);
        if !self.is_cleared(number) {
            for (offset, entry) in chunk.iter_mut().enumerate() {
                *entry = layout.locate(number * CHUNK_UNITS + offset as u32);
            }
        }
        self.cleared[number as usize / 64] &= !(1 << (number % 64));
        self.chunks[number as usize] = Some(chunk);
        self.resident += 1;
    }

    /// Unmaps the units from `start` up to `end`, and calls `unmapped` with each run of physical
    /// units that held them (its first unit, and their number). Untouched units are unmapped by
    /// whole runs of the layout, not one at a time.
    pub(crate) fn unmap(&mut self, start: u32, end: u32, layout: &Layout, mut unmapped: impl FnMut(u32, u32)) {
        let mut unit = self.end_of_cleared(start, end);
        while unit < end {
            let untouched = self.untouched_from(unit, end);
            if untouched > unit {
                layout.for_each_run(unit, untouched, &mut unmapped);
                for number in unit / CHUNK_UNITS..untouched.div_ceil(CHUNK_UNITS) {
                    self.cleared[number as usize / 64] |= 1 << (number % 64);
                }
                unit = self.end_of_cleared(untouched, end);
                continue;
            }
            let number = unit / CHUNK_UNITS;
            let chunk_start = number * CHUNK_UNITS;
            let stop = end.min(chunk_start.saturating_add(CHUNK_UNITS));
            let whole = unit == chunk_start && (stop - unit == CHUNK_UNITS || stop == self.units);
            // A chunk that is not resident is untouched: cleared chunks were skipped.
            let untouched = self.chunks[number as usize].is_none();
            if untouched && (unit..stop).any(|unit| layout.locate(unit) != NONE) {
                self.make_resident(number, layout);
            }
            if let Some(chunk) = &mut self.chunks[number as usize] {
                for entry in &mut chunk[(unit - chunk_start) as usize..(stop - chunk_start) as usize] {
                    if *entry != NONE {
                        unmapped(std::mem::replace(entry, NONE), 1);
                    }
                }
            }
            if whole {
                self.cleared[number as usize / 64] |= 1 << (number % 64);
                self.resident -= u64::from(self.chunks[number as usize].take().is_some());
            }
            unit = self.end_of_cleared(stop, end);
        }
    }

    /// Returns the end of the cleared chunks from `unit` on, at most `end`.
    fn end_of_cleared(&self, unit: u32, end: u32) -> u32 {
        let first_unit = |chunk: u32| u64::from(chunk) * u64::from(CHUNK_UNITS);
        let mut number = unit / CHUNK_UNITS;
        while first_unit(number) < end.into() && self.is_cleared(number) {
            let all_of_word = number.is_multiple_of(64) && self.cleared[number as usize / 64] == u64::MAX;
            number += if all_of_word { 64 } else { 1 };
        }
        first_unit(number).clamp(unit.into(), end.into()) as u32
    }

    /// Returns the end of the untouched whole chunks from `unit` on, before `end`.
    fn untouched_from(&self, unit: u32, end: u32) -> u32 {
        let mut stop = unit;
        while stop.is_multiple_of(CHUNK_UNITS) && stop < end {
            let number = stop / CHUNK_UNITS;
            let next = self.units.min(stop.saturating_add(CHUNK_UNITS));
            if next > end || self.chunks[number as usize].is_some() || self.is_cleared(number) {
                break;
            }
            stop = next;
        }
        stop
    }

    /// Writes the runs of units that have moved from their places in the layout, and whose places
    /// are consecutive. An empty run marks the end.
    pub(crate) fn save(&self, bytes: &mut Vec<u8>, layout: &Layout) {
        let (mut run, mut end) = (Run { start: 0, len: 0, physical: NONE }, (0, 0));
        for number in 0..self.chunks.len() as u32 {
            let start = number * CHUNK_UNITS;
            let stop = self.units.min(start.saturating_add(CHUNK_UNITS));
            match &self.chunks[number as usize] {
                Some(chunk) => {
                    for (unit, &physical) in (start..stop).zip(chunk.iter()) {
                        if physical != layout.locate(unit) && !run.joins(unit, 1, physical) {
                            end = run.save(bytes, end);
                            run = Run { start: unit, len: 1, physical };
                        }
                    }
                }
                None if self.is_cleared(number) && !run.joins(start, stop - start, NONE) => {
                    end = run.save(bytes, end);
                    run = Run { start, len: stop - start, physical: NONE };
                }
                None => {}
            }
        }
        end = run.save(bytes, end);
        Run { start: end.0, len: 0, physical: NONE }.write(bytes, end);
    }

    /// Reads the runs that [`save`](Self::save) wrote. Calls `each` with the first unit of each
    /// run, the first unit after it, and the place of the first unit or [`NONE`].
    pub(crate) fn restore(
        &mut self,
        archive: &mut Archive,
        layout: &Layout,
        mut each: impl FnMut(u32, u32, u32) -> Result<(), Inconsistent>,
    ) -> Result<(), Inconsistent> {
        let Archive::Reading(bytes) = archive else { return Ok(()) };
        let mut end = (0, 0);
        loop {
            let run = Run::read(bytes, end, self.units)?;
            if run.len == 0 {
                return Ok(());
            }
            let stop = run.start + run.len;
            each(run.start, stop, run.physical)?;
            if run.physical == NONE {
                self.unmap(run.start, stop, layout, |_, _| ());
            } else {
                for (unit, physical) in (run.start..stop).zip(run.physical..) {
                    *self.entry(unit, layout) = physical;
                }
            }
            end = run.end(end);
        }
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.chunks.capacity() as u64 * 8
            + self.cleared.capacity() as u64 * 8
            + self.resident * u64::from(CHUNK_UNITS) * 4
    }
}

/// Run of consecutive units with consecutive places, or with no places.
struct Run {
    start: u32,
    len: u32,
    physical: u32,
}

impl Run {
    /// Lengthens the run by `len` units from `unit` on, if these units continue the run. Returns
    /// true if the units continue the run.
    fn joins(&mut self, unit: u32, len: u32, physical: u32) -> bool {
        let expected = if self.physical == NONE { NONE } else { self.physical + self.len };
        let joins = self.len > 0 && unit == self.start + self.len && physical == expected;
        self.len += if joins { len } else { 0 };
        joins
    }

    /// Returns the first unit after the run, and the first place after it. For a run without
    /// places, that is the place after the previous run, which ended at `end`.
    fn end(&self, end: (u32, u32)) -> (u32, u32) {
        (self.start + self.len, if self.physical == NONE { end.1 } else { self.physical + self.len })
    }

    /// Writes the run unless it is empty. Returns its end.
    fn save(&self, bytes: &mut Vec<u8>, end: (u32, u32)) -> (u32, u32) {
        if self.len == 0 {
            return end;
        }
        self.write(bytes, end);
        self.end(end)
    }

    fn write(&self, bytes: &mut Vec<u8>, end: (u32, u32)) {
        archive::append(bytes, (self.start - end.0).into());
        match self.physical {
            NONE => archive::append_run(bytes, (self.len.into(), end.1.into(), 0), end.1.into()),
            physical => archive::append_run(bytes, (self.len.into(), physical.into(), 1), end.1.into()),
        }
    }

    fn read(bytes: &mut &[u8], end: (u32, u32), units: u32) -> Result<Self, Inconsistent> {
        let start = u64::from(end.0).saturating_add(archive::take(bytes)?);
        let (len, physical, is_somewhere) = archive::take_run(bytes, end.1.into())?;
        let behind = start.saturating_add(len);
        let fits = behind <= units.into() && physical.saturating_add(len) <= NONE.into();
        archive::ensure(fits, || format!("units {start} to {behind} of {units}"))?;
        Ok(Self {
            start: start as u32,
            len: len as u32,
            physical: if is_somewhere == 1 { physical as u32 } else { NONE },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::flash::geometry::Geometry;
    use crate::flash::precondition::Precondition;
    use proptest::prelude::*;

    /// Units of more chunks than a word has bits, the last of them in part.
    const UNITS: u32 = 150 * CHUNK_UNITS + 17;

    fn layout(precondition: Precondition) -> Layout {
        let geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 700,
            pages_per_block: 256,
            page_bytes: 4096,
            unit_bytes: 4096,
            logical_units: UNITS,
        };
        Layout::new(precondition, &geometry, 0, UNITS, 3, 1)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Compares the table with a map of single units. Later discards skip what is unmapped
        /// already: a discard of a large drive takes time only for what it changes.
        #[test]
        fn unmap_tells_of_each_mapped_unit_once(
            is_written in any::<bool>(),
            steps in proptest::collection::vec((any::<bool>(), 0..UNITS, 0..UNITS), 1..12),
        ) {
            let layout = layout(if is_written { Precondition::Sequential } else { Precondition::Clean });
            let mut mapping = Mapping::new(UNITS);
            let places = (0..UNITS).map(|unit| (unit, layout.locate(unit))).filter(|&(_, place)| place != NONE);
            let mut model: BTreeMap<u32, u32> = places.collect();
            for (step, (unmaps, unit, len)) in (0..).zip(steps) {
                if unmaps {
                    let end = UNITS.min(unit.saturating_add(len));
                    let mut told = Vec::new();
                    mapping.unmap(unit, end, &layout, |place, count| told.extend(place..place + count));
                    let mut expected: Vec<u32> = model.range(unit..end).map(|(_, &place)| place).collect();
                    model.retain(|held, _| !(unit..end).contains(held));
                    told.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(told, expected);
                } else {
                    *mapping.entry(unit, &layout) = 1_000_000 + step;
                    model.insert(unit, 1_000_000 + step);
                }
                let wrong = (0..UNITS).find(|unit| mapping.get(*unit, &layout) != *model.get(unit).unwrap_or(&NONE));
                prop_assert_eq!(wrong, None);
            }
        }
    }
}
