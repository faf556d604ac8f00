//! Map of files: tells which file each sector belongs to, and which sectors are free. Sectors that
//! the map does not name are taken to belong to the file system: *undefined*, in the words of Combo
//! Drive (3.1).

use std::collections::HashMap;

use crate::bit_set::BitSet;
use crate::scheme::FileExtent;
use crate::units::SectorRange;

/// A part of a file.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: u64,
    end: u64,
    file: u32,
}

/// Files, by number, and their addresses.
#[derive(Default)]
pub struct FileMap {
    /// Parts of files in order of address, without overlaps.
    extents: Vec<Extent>,
    free: Vec<SectorRange>,
    files: Vec<File>,
}

#[derive(Clone, Copy, Default)]
struct File {
    sectors: u64,
    class: u32,
}

impl FileMap {
    /// Returns the map of files with `extents`; extents without a path are free space. `class_of`
    /// gives each extent the class by which the scheme sorts files.
    pub fn new(extents: &[FileExtent], class_of: impl Fn(&FileExtent) -> u32) -> Self {
        let mut map = Self::default();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for extent in extents {
            let FileExtent { path, sectors, .. } = extent;
            if path.is_empty() {
                map.free.push(*sectors);
                continue;
            }
            let file = *numbers.entry(path).or_insert_with(|| {
                map.files.push(File { sectors: 0, class: class_of(extent) });
                map.files.len() as u32 - 1
            });
            map.files[file as usize].sectors += sectors.len.0;
            map.extents.push(Extent { start: sectors.start.0, end: sectors.end().0, file });
        }
        map.extents.sort_unstable_by_key(|extent| extent.start);
        map
    }

    /// Returns true if the map of files names no file and no free space.
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty() && self.free.is_empty()
    }

    /// Returns the number of files in the map of files.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the class of a file.
    pub(crate) fn class(&self, file: u32) -> u32 {
        self.files[file as usize].class
    }

    /// Returns the number of sectors of a file.
    pub(crate) fn sectors(&self, file: u32) -> u64 {
        self.files[file as usize].sectors
    }

    /// Returns the parts of files in `range`, in order of address, each with its file.
    pub(crate) fn parts(&self, range: SectorRange) -> impl Iterator<Item = (u32, SectorRange)> {
        let (start, end) = (range.start.0, range.end().0);
        let first = self.extents.partition_point(|extent| extent.end <= start);
        self.extents[first..].iter().take_while(move |extent| extent.start < end).map(move |extent| {
            let from = extent.start.max(start);
            (extent.file, SectorRange::new(from, extent.end.min(end) - from))
        })
    }

    /// Returns all parts of all files, in order of address.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u32, SectorRange)> {
        self.extents.iter().map(|extent| (extent.file, SectorRange::new(extent.start, extent.end - extent.start)))
    }

    /// Returns the files that `range` touches, each once, with true if `range` covers the whole
    /// file.
    pub fn touched(&self, range: SectorRange) -> Vec<(u32, bool)> {
        let mut touched: Vec<(u32, u64)> = Vec::new();
        for (file, part) in self.parts(range) {
            match touched.iter_mut().find(|(other, _)| *other == file) {
                Some((_, sectors)) => *sectors += part.len.0,
                None => touched.push((file, part.len.0)),
            }
        }
        touched.into_iter().map(|(file, sectors)| (file, sectors == self.sectors(file))).collect()
    }

    /// Returns two sets of the first `count` ranges of `sectors` sectors each. The first set has
    /// the ranges with nothing but files and free space; the second has the ranges that are free.
    pub(crate) fn ranges(&self, count: u32, sectors: u64) -> (BitSet, BitSet) {
        let (mut known, mut free) = (vec![0u64; count as usize], vec![0u64; count as usize]);
        let spread = |range: SectorRange, sums: &mut Vec<u64>| {
            let (mut at, end) = (range.start.0, range.end().0.min(u64::from(count) * sectors));
            while at < end {
                let number = at / sectors;
                let next = end.min((number + 1) * sectors);
                sums[number as usize] += next - at;
                at = next;
            }
        };
        self.extents().for_each(|(_, range)| spread(range, &mut known));
        self.free.iter().for_each(|&range| spread(range, &mut free));
        let (mut movable, mut all_free) = (BitSet::new(count), BitSet::new(count));
        for range in 0..count {
            let (known, free) = (known[range as usize], free[range as usize]);
            if known + free == sectors {
                movable.insert(range);
            }
            if free == sectors {
                all_free.insert(range);
            }
        }
        (movable, all_free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> FileMap {
        let extent = |path: &str, start, len| FileExtent {
            path: path.into(),
            sectors: SectorRange::new(start, len),
            listed: None,
        };
        let extents = [extent("b", 24, 8), extent("a", 0, 16), extent("", 32, 16), extent("a", 48, 8)];
        FileMap::new(&extents, |extent| extent.path.len() as u32)
    }

    #[test]
    fn request_has_a_file_whole_only_with_all_its_extents() {
        let map = map();
        assert_eq!(map.touched(SectorRange::new(0, 24)), [(1, false)]);
        assert_eq!(map.touched(SectorRange::new(20, 12)), [(0, true)]);
        assert_eq!(map.touched(SectorRange::new(0, 64)), [(1, true), (0, true)]);
        assert_eq!(map.touched(SectorRange::new(16, 8)), []);
    }

    #[test]
    fn range_with_a_sector_that_nothing_names_is_not_movable() {
        let (movable, free) = map().ranges(8, 8);
        let members = |set: &BitSet| (0..8).filter(|&range| set.contains(range)).collect::<Vec<u32>>();
        assert_eq!((members(&movable), members(&free)), (vec![0, 1, 3, 4, 5, 6], vec![4, 5]));
        assert_eq!(members(&map().ranges(4, 16).0), [0, 2], "sectors 16 to 24, and those from 56 on, are undefined");
    }
}
