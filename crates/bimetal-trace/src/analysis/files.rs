//! Maps ranges of the device to files, and finds the most overwritten files (Griffin table 2,
//! section 4.4).

use std::io::{BufRead, BufReader};

use bimetal_core::units::{Bytes, Nanoseconds};
use serde::Serialize;

use super::figures::{QUOTED_SECONDS, Within};

/// Text that stands for free space in a map, in the place of a path.
pub const FREE: &str = "<free>";

/// First bytes of content compressed by zstd.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Largest number of files that are listed as most overwritten.
const LISTED_FILES: usize = 20;

/// Reasons for which a map of files cannot be used. An error names the file, the line, its content,
/// and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum FileMapError {
    /// The file cannot be read.
    #[error("{name}: {source}")]
    Read {
        /// Name of the map's file.
        name: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A line is not a range and a path.
    #[error(
        "{name}:{line}: '{text}': expected offset,length,path with the first two in bytes, like 1048576,4096,/etc/fstab"
    )]
    Line {
        /// Name of the map's file.
        name: String,
        /// Number of the line, from 1.
        line: usize,
        /// Content of the line.
        text: String,
    },
    /// Two lines claim the same bytes.
    #[error(
        "{name}:{line}: the range of '{path}' overlaps that of '{other}' in line {other_line}: expected ranges that belong to one file each"
    )]
    Overlap {
        /// Name of the map's file.
        name: String,
        /// Number of the line, from 1.
        line: usize,
        /// Path in the line.
        path: String,
        /// Number of the earlier line that claims the same bytes.
        other_line: usize,
        /// Path in the earlier line.
        other: String,
    },
}

#[derive(Clone, Debug)]
struct Extent {
    start: u64,
    end: u64,
    file: usize,
    line: usize,
}

/// Ranges of one device and the files they belong to.
#[derive(Clone, Debug)]
pub struct FileMap {
    /// Extents of files by start, without overlaps.
    extents: Vec<Extent>,
    paths: Vec<String>,
    /// Extents of free space, which belong to no file, by start.
    free: Vec<Extent>,
}

impl FileMap {
    /// Reads lines `offset,length,path`, offset and length in bytes; a first line with just these
    /// words is a header. A path may contain commas, or stand in double quotes. A file may have
    /// several lines; a byte belongs to one file only. A line with the path [`FREE`] is free space.
    /// Ranges in no line are taken to belong to the file system itself. Errors use `name` as the
    /// name of the map. The lines may be compressed by zstd.
    ///
    /// # Errors
    /// Fails if the map cannot be read, if a line is malformed, or if two lines overlap.
    pub fn read(name: &str, mut lines: impl BufRead) -> Result<Self, FileMapError> {
        let failed = |source| FileMapError::Read { name: name.to_owned(), source };
        if !lines.fill_buf().map_err(failed)?.starts_with(&ZSTD_MAGIC) {
            return Self::read_lines(name, lines);
        }
        let unpacked = zstd::Decoder::with_buffer(lines).map_err(failed)?;
        Self::read_lines(name, BufReader::new(unpacked))
    }

    fn read_lines(name: &str, lines: impl BufRead) -> Result<Self, FileMapError> {
        let mut map = Self { extents: Vec::new(), paths: Vec::new(), free: Vec::new() };
        let mut index_of_path = std::collections::BTreeMap::new();
        for (index, text) in lines.lines().enumerate() {
            let text = text.map_err(|source| FileMapError::Read { name: name.to_owned(), source })?;
            let text = text.trim_end();
            if text.is_empty() || (index == 0 && text == "offset,length,path") {
                continue;
            }
            let line = index + 1;
            let (start, end, path) = parse_line(text).ok_or_else(|| FileMapError::Line {
                name: name.to_owned(),
                line,
                text: text.to_owned(),
            })?;
            if path == FREE {
                map.free.extend((start < end).then_some(Extent { start, end, file: usize::MAX, line }));
                continue;
            }
            let file = *index_of_path.entry(path).or_insert_with_key(|path| {
                map.paths.push(path.clone());
                map.paths.len() - 1
            });
            if start < end {
                map.extents.push(Extent { start, end, file, line });
            }
        }
        map.extents.sort_unstable_by_key(|extent| (extent.start, extent.line));
        map.free.sort_unstable_by_key(|extent| (extent.start, extent.line));
        map.refuse_overlaps(name)?;
        Ok(map)
    }

    /// Returns each extent with its first byte, the byte after its last, and its file's path, in
    /// order of address.
    pub fn extents(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        self.extents.iter().map(|extent| (extent.start, extent.end, self.paths[extent.file].as_str()))
    }

    /// Returns each range of free space with its first byte and the byte after its last, in order
    /// of address.
    pub fn free(&self) -> impl Iterator<Item = (u64, u64)> {
        self.free.iter().map(|extent| (extent.start, extent.end))
    }

    fn path(&self, extent: &Extent) -> String {
        self.paths.get(extent.file).map_or_else(|| "free space".to_owned(), String::clone)
    }

    fn refuse_overlaps(&self, name: &str) -> Result<(), FileMapError> {
        let mut all: Vec<&Extent> = self.extents.iter().chain(&self.free).collect();
        all.sort_unstable_by_key(|extent| (extent.start, extent.line));
        for pair in all.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            if second.start < first.end {
                return Err(FileMapError::Overlap {
                    name: name.to_owned(),
                    line: second.line,
                    path: self.path(second),
                    other_line: first.line,
                    other: self.path(first),
                });
            }
        }
        Ok(())
    }

    /// Returns the file of a block: the first file with a byte in the block.
    fn file_of(&self, block: u64, block_bytes: Bytes) -> Option<usize> {
        let start = block.saturating_mul(block_bytes.get());
        let end = start.saturating_add(block_bytes.get());
        let extent = self.extents.get(self.extents.partition_point(|extent| extent.end <= start))?;
        (extent.start < end).then_some(extent.file)
    }
}

/// Greatest end of an extent: offsets of the operating system have a sign.
const END_MAX: u64 = i64::MAX as u64;

fn parse_line(text: &str) -> Option<(u64, u64, String)> {
    let mut fields = text.splitn(3, ',');
    let start: u64 = fields.next()?.trim().parse().ok()?;
    let length: u64 = fields.next()?.trim().parse().ok()?;
    let path = fields.next()?.trim();
    let quoted = path.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let path = quoted.map_or_else(|| path.to_owned(), |inner| inner.replace("\"\"", "\""));
    let end = start.checked_add(length).filter(|&end| end <= END_MAX)?;
    (!path.is_empty()).then_some((start, end, path))
}

/// Figures of one of the most overwritten files.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FileFigures {
    /// Path in the map.
    pub path: String,
    /// Number of writes to blocks of the file that had been written before.
    pub overwrites: u64,
    /// Number of block writes to the file.
    pub block_writes: u64,
    /// Number of block reads of the file.
    pub block_reads: u64,
    /// As [`Analysis::waw`](super::Analysis::waw), for the blocks of the file.
    pub waw: Option<Within>,
    /// As [`Analysis::raw`](super::Analysis::raw), for the blocks of the file.
    pub raw: Option<Within>,
}

/// Counts of intervals by the bounds of the tables alone, because a map may name a million files.
#[derive(Clone, Copy, Default)]
struct QuotedIntervals {
    within: [u64; QUOTED_SECONDS.len()],
    total: u64,
}

impl QuotedIntervals {
    fn add(&mut self, interval: Nanoseconds) {
        self.total += 1;
        for (count, seconds) in self.within.iter_mut().zip(QUOTED_SECONDS) {
            *count += u64::from(interval <= Nanoseconds::from_seconds(seconds));
        }
    }

    fn shares(&self) -> Option<Within> {
        (self.total > 0).then(|| Within::new(self.within.map(|count| count as f64 / self.total as f64)))
    }
}

#[derive(Clone, Copy, Default)]
struct FileCounts {
    overwrites: u64,
    writes: u64,
    reads: u64,
    waw: QuotedIntervals,
    raw: QuotedIntervals,
}

/// Counter of accesses by file.
pub(super) struct FileCounter {
    map: FileMap,
    block_bytes: Bytes,
    counts: Vec<FileCounts>,
}

impl FileCounter {
    pub(super) fn new(map: FileMap, block_bytes: Bytes) -> Self {
        let counts = vec![FileCounts::default(); map.paths.len()];
        Self { map, block_bytes, counts }
    }

    pub(super) fn write(&mut self, block: u64, effect: super::blocks::WriteEffect) {
        if let Some(file) = self.map.file_of(block, self.block_bytes) {
            let counts = &mut self.counts[file];
            counts.writes += 1;
            counts.overwrites += u64::from(effect.overwrite);
            effect.after_write.into_iter().for_each(|interval| counts.waw.add(interval));
        }
    }

    pub(super) fn read(&mut self, block: u64, after_write: Option<Nanoseconds>) {
        if let Some(file) = self.map.file_of(block, self.block_bytes) {
            let counts = &mut self.counts[file];
            counts.reads += 1;
            after_write.into_iter().for_each(|interval| counts.raw.add(interval));
        }
    }

    /// Returns the most overwritten files, most overwritten first, equal files by path. Without
    /// times there are no intervals.
    pub(super) fn finish(self, has_times: bool) -> Vec<FileFigures> {
        let mut files: Vec<FileFigures> = (self.map.paths.into_iter().zip(self.counts))
            .filter(|(_, counts)| counts.overwrites > 0)
            .map(|(path, counts)| FileFigures {
                path,
                overwrites: counts.overwrites,
                block_writes: counts.writes,
                block_reads: counts.reads,
                waw: counts.waw.shares().filter(|_| has_times),
                raw: counts.raw.shares().filter(|_| has_times),
            })
            .collect();
        files.sort_by(|a, b| b.overwrites.cmp(&a.overwrites).then_with(|| a.path.cmp(&b.path)));
        files.truncate(LISTED_FILES);
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Bytes = Bytes(4096);

    fn read(text: &str) -> Result<FileMap, FileMapError> {
        FileMap::read("map.csv", text.as_bytes())
    }

    fn path_of(map: &FileMap, block: u64) -> Option<&str> {
        map.file_of(block, BLOCK).map(|file| map.paths[file].as_str())
    }

    #[test]
    fn blocks_belong_to_the_file_whose_bytes_they_hold() {
        let map = read("offset,length,path\n8192,4096,/a\n0,4096,/b\n16384,100,\"/c, \"\"old\"\"\"\n40960,8192,/a\n")
            .unwrap();
        let paths: Vec<_> = (0..13).map(|block| path_of(&map, block)).collect();
        let (a, b, c) = (Some("/a"), Some("/b"), Some("/c, \"old\""));
        assert_eq!(paths, [b, None, a, None, c, None, None, None, None, None, a, a, None]);
    }

    #[test]
    fn a_block_of_several_files_belongs_to_the_first() {
        let map = read("100,100,/first\n200,9000,/second\n").unwrap();
        assert_eq!((path_of(&map, 0), path_of(&map, 1)), (Some("/first"), Some("/second")));
    }

    #[test]
    fn malformed_lines_are_named() {
        for text in ["1,2", "x,1,/a", "1,-1,/a", "1,1,", "18446744073709551615,1,/a", "9223372036854775807,1,/a"] {
            let error = read(&format!("offset,length,path\n{text}\n")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("map.csv:2: '{text}': expected offset,length,path")), "{error}");
        }
    }

    #[test]
    fn two_files_cannot_own_the_same_bytes() {
        let error = read("0,4096,/a\n4096,4096,/b\n8191,2,/c\n").unwrap_err().to_string();
        assert!(error.contains("map.csv:3: the range of '/c' overlaps that of '/b' in line 2"), "{error}");
        let error = read("0,4096,/a\n1024,4096,<free>\n").unwrap_err().to_string();
        assert!(error.contains("map.csv:2: the range of 'free space' overlaps that of '/a' in line 1"), "{error}");
    }

    #[test]
    fn free_space_is_no_file_and_a_compressed_map_is_read() {
        let text = "8192,4096,<free>\n0,4096,/a\n16384,4096,<free>\n";
        for bytes in [text.as_bytes().to_vec(), zstd::encode_all(text.as_bytes(), 3).unwrap()] {
            let map = FileMap::read("map.csv", bytes.as_slice()).unwrap();
            assert_eq!(map.extents().collect::<Vec<_>>(), [(0, 4096, "/a")]);
            assert_eq!(map.free().collect::<Vec<_>>(), [(8192, 12_288), (16_384, 20_480)]);
        }
    }
}
