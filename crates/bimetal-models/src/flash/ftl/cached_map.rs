//! Part of a mapping table in the controller's memory: entries in a segmented LRU, as in DFTL.
//!
//! A new entry is put at the front of the probationary segment. An entry that is used again moves
//! to the front of the protected segment, whose last entry returns to the front of the probationary
//! segment. The last entry of the probationary segment is evicted.

use crate::flash::mapping::NONE;
use crate::flash::sparse::SparseArray;
use crate::flash::state::archive::{Archive, Checked, ensure};

const PROBATIONARY: usize = 0;
const PROTECTED: usize = 1;

struct Entry {
    unit: u32,
    previous: u32,
    next: u32,
    segment: usize,
    /// Set if the page of the mapping table on flash does not have the entry yet.
    dirty: bool,
}

#[derive(Clone, Copy)]
struct Segment {
    first: u32,
    last: u32,
    len: u32,
}

/// Cached entries, by unit.
pub(crate) struct CachedMap {
    capacity: u32,
    protected_max: u32,
    entries: Vec<Entry>,
    free: Vec<u32>,
    segments: [Segment; 2],
    /// Number of the entry by unit, or [`NONE`].
    entry_of: SparseArray<u32>,
}

impl CachedMap {
    /// Creates a cache without entries for `units` units. The cache has room for `capacity`
    /// entries, at least 2, of which half are protected.
    pub(crate) fn new(units: u32, capacity: u32) -> Self {
        let nothing = Segment { first: NONE, last: NONE, len: 0 };
        Self {
            capacity,
            protected_max: capacity / 2,
            entries: Vec::new(),
            free: Vec::new(),
            segments: [nothing; 2],
            entry_of: SparseArray::new(units),
        }
    }

    /// Uses the entry of `unit`. Returns true if the entry is cached.
    pub(crate) fn use_entry(&mut self, unit: u32) -> bool {
        let Some(number) = self.entry(unit) else { return false };
        self.unlink(number);
        self.link(number, PROTECTED);
        if self.segments[PROTECTED].len > self.protected_max {
            let demoted = self.segments[PROTECTED].last;
            self.unlink(demoted);
            self.link(demoted, PROBATIONARY);
        }
        true
    }

    /// Caches the entry of `unit`, which must not be cached. Returns the unit of an evicted entry
    /// that was dirty.
    pub(crate) fn insert(&mut self, unit: u32) -> Option<u32> {
        let mut lost = None;
        if self.len() >= self.capacity {
            let number = self.segments[PROBATIONARY].last;
            debug_assert_ne!(number, NONE, "half of the entries are not protected");
            let leaving = &self.entries[number as usize];
            lost = leaving.dirty.then_some(leaving.unit);
            self.remove(number);
        }
        let entry = Entry { unit, previous: NONE, next: NONE, segment: PROBATIONARY, dirty: false };
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        *self.entry_of.get_mut(unit, |_| NONE) = number;
        self.link(number, PROBATIONARY);
        lost
    }

    /// Marks the entry of `unit` as changed. Returns true if the entry is cached.
    pub(crate) fn set_dirty(&mut self, unit: u32) -> bool {
        let Some(number) = self.entry(unit) else { return false };
        self.entries[number as usize].dirty = true;
        true
    }

    /// Marks the cached entries of the units from `start` up to `end` as written to flash.
    pub(crate) fn set_clean(&mut self, start: u32, end: u32) {
        for (_, &number) in self.entry_of.resident_in(start, end).filter(|(_, number)| **number != NONE) {
            self.entries[number as usize].dirty = false;
        }
    }

    /// Drops the entries of the units from `start` up to `end`.
    pub(crate) fn forget(&mut self, start: u32, end: u32) {
        let numbers = self.entry_of.resident_in(start, end).map(|(_, number)| *number);
        let numbers: Vec<u32> = numbers.filter(|number| *number != NONE).collect();
        numbers.into_iter().for_each(|number| self.remove(number));
    }

    fn entry(&self, unit: u32) -> Option<u32> {
        self.entry_of.get(unit).copied().filter(|number| *number != NONE)
    }

    fn len(&self) -> u32 {
        self.segments[PROBATIONARY].len + self.segments[PROTECTED].len
    }

    fn remove(&mut self, number: u32) {
        self.unlink(number);
        *self.entry_of.get_mut(self.entries[number as usize].unit, |_| NONE) = NONE;
        self.free.push(number);
    }

    fn link(&mut self, number: u32, segment: usize) {
        let Segment { first, last, len } = &mut self.segments[segment];
        let second = std::mem::replace(first, number);
        *len += 1;
        match second {
            NONE => *last = number,
            second => self.entries[second as usize].previous = number,
        }
        let entry = &mut self.entries[number as usize];
        (entry.segment, entry.previous, entry.next) = (segment, NONE, second);
    }

    fn unlink(&mut self, number: u32) {
        let Entry { segment, previous, next, .. } = self.entries[number as usize];
        let Segment { first, last, len } = &mut self.segments[segment];
        *len -= 1;
        match previous {
            NONE => *first = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => *last = previous,
            next => self.entries[next as usize].previous = previous,
        }
    }

    /// Saves or restores the segments, each from its last entry on.
    pub(crate) fn transfer(&mut self, units: u32, archive: &mut Archive) -> Checked {
        for (segment, most) in [(PROBATIONARY, self.capacity), (PROTECTED, self.protected_max)] {
            let (mut members, mut dirty) = (Vec::new(), Vec::new());
            let mut number = self.segments[segment].last;
            while number != NONE {
                let entry = &self.entries[number as usize];
                members.push(entry.unit);
                dirty.push(u32::from(entry.dirty));
                number = entry.previous;
            }
            archive.list(&mut members, most.into(), units)?;
            dirty.resize(members.len(), 0);
            archive.table(&mut dirty, 1)?;
            for (unit, dirty) in members.into_iter().zip(dirty).filter(|_| archive.is_reading()) {
                ensure(self.entry(unit).is_none(), || format!("unit {unit} is cached twice"))?;
                ensure(self.len() < self.capacity, || "more entries are cached than there is room for".to_owned())?;
                let number = self.entries.len() as u32;
                self.entries.push(Entry { unit, previous: NONE, next: NONE, segment, dirty: dirty == 1 });
                *self.entry_of.get_mut(unit, |_| NONE) = number;
                self.link(number, segment);
            }
        }
        Ok(())
    }

    /// Checks the segments against the entries.
    pub(crate) fn check(&self) -> Checked {
        let full = self.len() <= self.capacity && self.segments[PROTECTED].len <= self.protected_max;
        ensure(full, || format!("{} entries are cached", self.len()))?;
        let used = self.entries.len() - self.free.len();
        ensure(used == self.len() as usize, || format!("{used} entries are in use"))?;
        for segment in [PROBATIONARY, PROTECTED] {
            let (mut number, mut before, mut len) = (self.segments[segment].first, NONE, 0);
            while number != NONE {
                let entry = &self.entries[number as usize];
                let linked = (entry.segment, entry.previous) == (segment, before);
                let found = linked && self.entry(entry.unit) == Some(number);
                ensure(found, || format!("the entry of unit {}", entry.unit))?;
                (before, number, len) = (number, entry.next, len + 1);
            }
            let ends = (self.segments[segment].last, self.segments[segment].len) == (before, len);
            ensure(ends, || format!("the end of segment {segment}"))?;
        }
        Ok(())
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.entries.capacity() as u64 * size_of::<Entry>() as u64
            + self.free.capacity() as u64 * 4
            + self.entry_of.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_twice_outlives_what_was_used_once() {
        let mut map = CachedMap::new(1000, 4);
        for unit in [1, 2] {
            assert!(!map.use_entry(unit));
            map.insert(unit);
            assert!(map.use_entry(unit));
        }
        for unit in 10..20 {
            map.insert(unit);
            map.check().unwrap();
        }
        assert!(map.use_entry(1) && map.use_entry(2) && map.use_entry(19) && map.use_entry(18) && !map.use_entry(17));
        map.check().unwrap();
    }

    #[test]
    fn only_dirty_entries_are_lost_when_they_leave() {
        let mut map = CachedMap::new(1000, 2);
        map.insert(1);
        map.insert(2);
        assert!(map.set_dirty(1) && map.set_dirty(2) && !map.set_dirty(3));
        map.set_clean(2, 3);
        assert_eq!([map.insert(3), map.insert(4)], [Some(1), None]);
        map.forget(0, 1000);
        map.check().unwrap();
        assert!(!map.use_entry(3));
    }
}
