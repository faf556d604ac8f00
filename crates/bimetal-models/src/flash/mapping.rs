//! The map from logical to physical units: two levels, u32 entries, resident only where it was changed.
//!
//! What no write or discard has touched is computed from the [`Layout`] that preconditioning left behind.

use super::precondition::Layout;

/// No unit: an address without data.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries of a chunk.
pub(crate) const CHUNK_UNITS: u32 = 1024;

/// Where each logical unit lies.
pub(crate) struct Mapping {
    chunks: Vec<Option<Box<[u32; CHUNK_UNITS as usize]>>>,
    /// A bit for each chunk that is not resident and maps nothing, whatever the layout says.
    cleared: Vec<u64>,
    units: u32,
    resident: u64,
}

impl Mapping {
    /// The map of `units` logical units, as the layout has them.
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

    /// The physical unit that holds `unit`, or [`NONE`].
    #[inline]
    pub(crate) fn get(&self, unit: u32, layout: &Layout) -> u32 {
        let number = unit / CHUNK_UNITS;
        match &self.chunks[number as usize] {
            Some(chunk) => chunk[(unit % CHUNK_UNITS) as usize],
            None if self.is_cleared(number) => NONE,
            None => layout.locate(unit),
        }
    }

    /// The entry of `unit`, to be changed.
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

    /// Unmaps the units from `start` up to `end` and calls `unmapped` with each run of physical units that they held
    /// (its first, and how many). Untouched stretches go by the layout's runs, not unit by unit.
    pub(crate) fn unmap(&mut self, start: u32, end: u32, layout: &Layout, mut unmapped: impl FnMut(u32, u32)) {
        let mut unit = start;
        while unit < end {
            let untouched = self.untouched_from(unit, end);
            if untouched > unit {
                layout.for_each_run(unit, untouched, &mut unmapped);
                for number in unit / CHUNK_UNITS..untouched.div_ceil(CHUNK_UNITS) {
                    self.cleared[number as usize / 64] |= 1 << (number % 64);
                }
                unit = untouched;
                continue;
            }
            let number = unit / CHUNK_UNITS;
            let chunk_start = number * CHUNK_UNITS;
            let stop = end.min(chunk_start.saturating_add(CHUNK_UNITS));
            let whole = unit == chunk_start && (stop - unit == CHUNK_UNITS || stop == self.units);
            if self.chunks[number as usize].is_none() && !self.is_cleared(number) {
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
            unit = stop;
        }
    }

    /// Where the whole chunks from `unit` on, before `end`, that are as the layout has them, end.
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

    /// Bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.chunks.capacity() as u64 * 8
            + self.cleared.capacity() as u64 * 8
            + self.resident * u64::from(CHUNK_UNITS) * 4
    }
}
