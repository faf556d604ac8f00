//! Ageing: files that lie in one piece each are scattered over the device, as by years of use.
//!
//! A file system that has been in use for long has no large free ranges left. Later writes go to
//! gaps, so a file consists of fragments that lie far from each other. No rule says how many
//! fragments a file has: the number depends on the file system, on its fill and on its use. The
//! rule of this module is this:
//!
//! - Each extent of a file is cut into fragments. The lengths of fragments are geometrically
//!   distributed in steps of a page, with a given mean. A file shorter than its first fragment
//!   stays whole.
//! - Free space is cut in the same way, into about as many fragments as files are.
//! - All fragments are put in random order, and laid one after the other over the ranges that files
//!   and free space had. At the end of a range, a fragment is cut once more.
//!
//! No two bytes get the same place, and ranges that no line of the map of files names stay
//! unchanged, such as the metadata of the file system. A request becomes one request for each
//! fragment that it touches, all at its time of arrival; each has the whole recorded response time.

use std::io::{self, Write};

use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::Request;
use crate::analysis::{FREE, FileMap};

/// Mean length of a fragment, if no other length is given.
pub const FRAGMENT: Bytes = Bytes::from_kib(64);

/// Sectors of a page, in which the lengths of fragments are counted.
const PAGE_SECTORS: u64 = 8;

/// Largest number of fragments of files: 2 TiB of files in fragments of 64 KiB, and some 3 GiB of
/// memory.
const FRAGMENTS_MAX: u64 = 1 << 25;

/// Reasons for which files cannot be scattered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AgeingError {
    /// The map of files has no extent of a file.
    #[error("the map has no file, so nothing can be scattered: expected lines offset,length,path, as place -o writes")]
    NoFile,
    /// An extent does not begin or end at a sector.
    #[error("'{path}' has the bytes from {start} to {end}: expected whole sectors of 512 bytes")]
    PartOfSector {
        /// Path of the file, or the mark of free space.
        path: String,
        /// First byte of the extent.
        start: u64,
        /// Byte after the extent.
        end: u64,
    },
    /// The files are so large that their fragments do not fit into memory.
    #[error("the files have {0}: expected at most {1}")]
    TooLarge(Bytes, Bytes),
}

/// A fragment at its old and at its new place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fragment {
    from: u64,
    sectors: u64,
    to: u64,
    /// Number of the file's extent in the map of files; `None` for free space.
    file: Option<u32>,
}

/// Files scattered over a device.
#[derive(Clone, Debug)]
pub struct Ageing {
    /// Fragments by old place.
    fragments: Vec<Fragment>,
    /// Paths by number of the extent.
    paths: Vec<String>,
}

/// An extent of the map of files, in sectors.
struct Range {
    start: u64,
    end: u64,
    file: Option<u32>,
}

impl Ageing {
    /// Scatters the files of a map of files, in fragments of this mean length. The same seed gives
    /// the same places.
    ///
    /// # Errors
    /// The map of files has no file, too large files, or an extent with a part of a sector.
    pub fn new(map: &FileMap, seed: u64, fragment: Bytes) -> Result<Self, AgeingError> {
        let ranges = ranges(map)?;
        let sum = |of_file: bool| -> u64 {
            ranges.iter().filter(|range| range.file.is_some() == of_file).map(|range| range.end - range.start).sum()
        };
        let (files, free) = (sum(true), sum(false));
        let mean = (fragment.get() / SECTOR_BYTES).max(PAGE_SECTORS);
        if files / mean > FRAGMENTS_MAX {
            let bytes = |sectors: u64| Bytes(sectors.saturating_mul(SECTOR_BYTES));
            return Err(AgeingError::TooLarge(bytes(files), bytes(FRAGMENTS_MAX.saturating_mul(mean))));
        }
        let mut random = Pcg64::seed_from_u64(seed);
        let mean_free = mean.max((u128::from(free) * u128::from(mean) / u128::from(files.max(1))) as u64);
        let mut pieces = Vec::new();
        for range in &ranges {
            cut(range, if range.file.is_some() { mean } else { mean_free }, &mut random, &mut pieces);
        }
        shuffle(&mut pieces, &mut random);
        let mut fragments = lay(&pieces, &ranges);
        fragments.sort_unstable_by_key(|fragment| fragment.from);
        Ok(Self { fragments, paths: map.extents().map(|(_, _, path)| path.to_owned()).collect() })
    }

    /// Adds the requests that `request` becomes to `out`: one for each range of neighbouring
    /// sectors.
    pub fn requests(&self, request: &Request, out: &mut Vec<Request>) {
        let (mut at, end) = (request.range.start.0, request.range.end().0);
        if at == end {
            out.push(*request);
        }
        let first = out.len();
        let mut next = self.fragments.partition_point(|fragment| fragment.from + fragment.sectors <= at);
        while at < end {
            let fragment = self.fragments.get(next);
            let (to, until) = match fragment {
                Some(fragment) if fragment.from <= at => {
                    next += 1;
                    (fragment.to + (at - fragment.from), end.min(fragment.from + fragment.sectors))
                }
                Some(fragment) => (at, end.min(fragment.from)),
                None => (at, end),
            };
            let len = until - at;
            match out[first..].last_mut().filter(|last| last.range.end().0 == to) {
                Some(last) => last.range.len.0 += len,
                None => out.push(Request { range: SectorRange::new(to, len), ..*request }),
            }
            at = until;
        }
    }

    /// Returns the extents of the scattered files and of free space, in order of address: first
    /// byte, length, and path or [`FREE`].
    pub fn extents(&self) -> Vec<(u64, u64, &str)> {
        let name = |file: Option<u32>| {
            file.and_then(|file| self.paths.get(file as usize)).map_or(FREE, |path: &String| path.as_str())
        };
        let mut by_place: Vec<&Fragment> = self.fragments.iter().collect();
        by_place.sort_unstable_by_key(|fragment| fragment.to);
        let mut extents: Vec<(u64, u64, &str)> = Vec::new();
        for fragment in by_place {
            let (start, length) = (fragment.to * SECTOR_BYTES, fragment.sectors * SECTOR_BYTES);
            let path = name(fragment.file);
            match extents.last_mut().filter(|(first, bytes, last)| first + *bytes == start && *last == path) {
                Some((_, bytes, _)) => *bytes += length,
                None => extents.push((start, length, path)),
            }
        }
        extents
    }

    /// Writes the map of files with the scattered files, as [`FileMap::read`] takes it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write_map(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "offset,length,path")?;
        for (start, length, path) in self.extents() {
            if path.starts_with('"') || path != path.trim() {
                writeln!(out, "{start},{length},\"{}\"", path.replace('"', "\"\""))?;
            } else {
                writeln!(out, "{start},{length},{path}")?;
            }
        }
        Ok(())
    }
}

/// Returns the ranges of files and of free space by address.
fn ranges(map: &FileMap) -> Result<Vec<Range>, AgeingError> {
    let whole = |start: u64, end: u64, path: &str, file| {
        if start.is_multiple_of(SECTOR_BYTES) && end.is_multiple_of(SECTOR_BYTES) {
            return Ok(Range { start: start / SECTOR_BYTES, end: end / SECTOR_BYTES, file });
        }
        Err(AgeingError::PartOfSector { path: path.to_owned(), start, end })
    };
    let files = map.extents().zip(0..).map(|((start, end, path), file)| whole(start, end, path, Some(file)));
    let free = map.free().map(|(start, end)| whole(start, end, FREE, None));
    let mut ranges = files.chain(free).collect::<Result<Vec<_>, _>>()?;
    if ranges.iter().all(|range| range.file.is_none()) {
        return Err(AgeingError::NoFile);
    }
    ranges.sort_unstable_by_key(|range| range.start);
    Ok(ranges)
}

/// Cuts a range into fragments of this mean length, in sectors.
fn cut(range: &Range, mean: u64, random: &mut Pcg64, pieces: &mut Vec<Fragment>) {
    let mut at = range.start;
    while at < range.end {
        let sectors = length(mean, random).min(range.end - at);
        pieces.push(Fragment { from: at, sectors, to: at, file: range.file });
        at += sectors;
    }
}

/// Draws a length in whole pages, geometrically distributed.
fn length(mean: u64, random: &mut Pcg64) -> u64 {
    let pages = mean as f64 / PAGE_SECTORS as f64;
    // From above 0 to 1.
    let unit = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let drawn = if pages <= 1.0 { 0.0 } else { (unit.ln() / (1.0 - 1.0 / pages).ln()).floor() };
    // Saturates, like the longest draw.
    (drawn as u64).saturating_add(1).saturating_mul(PAGE_SECTORS)
}

/// Puts the pieces in random order, each order as likely as any other.
fn shuffle(pieces: &mut [Fragment], random: &mut Pcg64) {
    for at in (1..pieces.len()).rev() {
        let other = ((u128::from(random.next_u64()) * (at as u128 + 1)) >> 64) as usize;
        pieces.swap(at, other);
    }
}

/// Lays the pieces one after the other over the ranges, which have as many sectors.
fn lay(pieces: &[Fragment], ranges: &[Range]) -> Vec<Fragment> {
    let mut laid = Vec::with_capacity(pieces.len() + ranges.len());
    let mut rooms = ranges.iter().map(|range| (range.start, range.end)).filter(|(start, end)| start < end);
    let mut room = rooms.next();
    for piece in pieces {
        let mut left = *piece;
        while let Some((start, end)) = room.filter(|_| left.sectors > 0) {
            let sectors = left.sectors.min(end - start);
            laid.push(Fragment { sectors, to: start, ..left });
            left = Fragment { from: left.from + sectors, sectors: left.sectors - sectors, ..left };
            room = if start + sectors < end { Some((start + sectors, end)) } else { rooms.next() };
        }
    }
    laid
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bimetal_core::operation::OpKind;
    use bimetal_core::units::Nanoseconds;
    use proptest::prelude::*;

    use super::*;

    fn map(lines: &[(u64, u64, &str)]) -> FileMap {
        let text: String = lines.iter().map(|(start, length, path)| format!("{start},{length},{path}\n")).collect();
        FileMap::read("map.csv", text.as_bytes()).unwrap()
    }

    fn read(start: u64, len: u64) -> Request {
        let range = SectorRange::new(start, len);
        let (arrival, response) = (Nanoseconds(7), Some(Nanoseconds(9)));
        Request { arrival, device: 0, kind: OpKind::Read, fua: false, range, response }
    }

    fn aged(ageing: &Ageing, start: u64, len: u64) -> Vec<Request> {
        let mut out = Vec::new();
        ageing.requests(&read(start, len), &mut out);
        out
    }

    /// Ranges of a random map in pages: lengths, and the owner of each range: no owner, free space,
    /// or one of three files.
    fn layouts() -> impl Strategy<Value = Vec<(u64, u8)>> {
        prop::collection::vec((1_u64..60, 0_u8..5), 1..25)
    }

    proptest! {
        /// Each sector of the map of files gets a place of the same map, and no two sectors get the
        /// same place. The aged map names the right file at each place. Sectors that no line of the
        /// map names keep their places.
        #[test]
        fn scattered_sectors_are_a_permutation(layout in layouts(), seed in any::<u64>(), pages in 1_u64..30) {
            const PATHS: [&str; 5] = ["", FREE, "a", "b", "c"];
            let (mut lines, mut owner, mut at) = (Vec::new(), BTreeMap::new(), 0);
            for (length, kind) in layout {
                let path = PATHS[usize::from(kind)];
                if !path.is_empty() {
                    lines.push((at * 4096, length * 4096, path));
                    (at * 8..(at + length) * 8).for_each(|sector| _ = owner.insert(sector, path));
                }
                at += length;
            }
            let map = map(&lines);
            let Ok(ageing) = Ageing::new(&map, seed, Bytes(pages * 4096)) else {
                prop_assert!(owner.values().all(|path| *path == FREE));
                return Ok(());
            };
            let mut owner_after = BTreeMap::new();
            for (start, length, path) in ageing.extents() {
                (start / 512..(start + length) / 512).for_each(|sector| _ = owner_after.insert(sector, path));
            }
            let mut places = BTreeSet::new();
            for sector in 0..at * 8 {
                let single = aged(&ageing, sector, 1);
                prop_assert_eq!(single.len(), 1);
                let place = single[0].range.start.0;
                prop_assert!(places.insert(place));
                prop_assert_eq!(owner.get(&sector), owner_after.get(&place));
                prop_assert!(owner.contains_key(&sector) || place == sector);
            }
            prop_assert_eq!(owner_after.len(), owner.len());
            // A request of all sectors has the places of each, in order.
            let whole = aged(&ageing, 0, at * 8);
            let sectors: Vec<u64> = whole.iter().flat_map(|part| part.range.start.0..part.range.end().0).collect();
            let each: Vec<u64> = (0..at * 8).map(|sector| aged(&ageing, sector, 1)[0].range.start.0).collect();
            prop_assert_eq!(sectors, each);
            prop_assert!(whole.windows(2).all(|pair| pair[0].range.end() != pair[1].range.start));
            prop_assert!(whole.iter().all(|part| part.arrival == Nanoseconds(7) && part.response == Some(Nanoseconds(9))));
        }
    }

    #[test]
    fn fragments_have_the_mean_that_was_asked_for() {
        let map = map(&[(0, 64 << 20, "film"), (64 << 20, 192 << 20, FREE)]);
        for fragment in [Bytes::from_kib(16), FRAGMENT, Bytes::from_kib(256)] {
            let ageing = Ageing::new(&map, 1, fragment).unwrap();
            let expected = (64 << 20) as f64 / fragment.get() as f64;
            let places: Vec<u64> =
                ageing.fragments.iter().filter(|part| part.file.is_some()).map(|part| part.to * SECTOR_BYTES).collect();
            let fragments = places.len() as f64;
            assert!((fragments / expected - 1.0).abs() < 0.2, "{fragments} fragments, {expected} expected");
            // Fragments are spread over files and free space alike.
            let beyond = places.iter().filter(|place| **place >= 64 << 20).count() as f64;
            assert!((beyond / fragments - 0.75).abs() < 0.08, "{beyond} of {fragments}");
        }
    }

    #[test]
    fn seed_decides_the_places_and_nothing_else() {
        let map = map(&[(0, 1 << 20, "a"), (1 << 20, 1 << 20, FREE)]);
        let extents = |seed| {
            let ageing = Ageing::new(&map, seed, FRAGMENT).unwrap();
            ageing.extents().iter().map(|(start, length, path)| format!("{start},{length},{path}")).collect::<Vec<_>>()
        };
        assert_eq!(extents(3), extents(3));
        assert_ne!(extents(3), extents(4));
    }

    #[test]
    fn map_of_scattered_files_is_read_again() {
        let text = "0,40960,\"\"\"quoted\"\"\"\n40960,8192,\" blank\"\n49152,4096,comma, here\n53248,81920,<free>\n";
        let before = FileMap::read("map.csv", text.as_bytes()).unwrap();
        let ageing = Ageing::new(&before, 5, Bytes(4096)).unwrap();
        let mut written = Vec::new();
        ageing.write_map(&mut written).unwrap();
        let after = FileMap::read("aged.csv", written.as_slice()).unwrap();
        let bytes = |map: &FileMap| {
            let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
            map.extents().for_each(|(start, end, path)| *bytes.entry(path.to_owned()).or_default() += end - start);
            (bytes, map.free().map(|(start, end)| end - start).sum::<u64>())
        };
        assert_eq!(bytes(&before), bytes(&after));
    }

    #[test]
    fn flush_and_a_request_beyond_the_map_stay() {
        let ageing = Ageing::new(&map(&[(4096, 4096, "a"), (8192, 8192, FREE)]), 1, FRAGMENT).unwrap();
        assert_eq!(aged(&ageing, 0, 0), [read(0, 0)]);
        assert_eq!(aged(&ageing, 1 << 30, 64), [read(1 << 30, 64)]);
        assert_eq!(aged(&ageing, 0, 8), [read(0, 8)]);
    }

    #[test]
    fn map_that_cannot_be_scattered_is_refused() {
        let error = |lines: &[(u64, u64, &str)]| Ageing::new(&map(lines), 1, FRAGMENT).unwrap_err().to_string();
        assert!(error(&[]).contains("no file") && error(&[(0, 4096, FREE)]).contains("place -o"));
        assert_eq!(error(&[(0, 100, "a")]), "'a' has the bytes from 0 to 100: expected whole sectors of 512 bytes");
        assert!(error(&[(0, 1 << 62, "a")]).starts_with("the files have "));
        // Much free space costs no memory.
        let sparse = Ageing::new(&map(&[(0, 1 << 20, "a"), (1 << 20, 1 << 61, FREE)]), 1, FRAGMENT).unwrap();
        assert!(sparse.fragments.len() < 1000, "{}", sparse.fragments.len());
    }
}
