//! Decides whether a map of files can belong to the device of a trace.
//!
//! A map names the free space of its file system, and nobody reads free space that was not written
//! before: it has no content. So a map is another device's if many reads of blocks that the trace
//! has not written fall into its free space, or if it reaches beyond the device that was recorded.
//! Reads of the device's end are left out: a system that starts looks there for labels of volumes.
//! The share of the blocks in files decides nothing: files that come and go within a trace are in
//! no map.

use std::collections::HashSet;
use std::fmt;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, SECTOR_BYTES};

use super::files::FileMap;
use crate::Request;

/// Size of a block in which reads and writes are counted.
const BLOCK: u64 = 4096;

/// Least number of blocks read from which a share is judged.
const READ_MIN: u64 = 256;

/// Share of the blocks read from which on a map is refused. The maps of this project have at most
/// 0.3 % with their own traces.
const REFUSED: f64 = 0.2;

/// Share of the blocks read from which on the user is told: files that were deleted between the
/// trace and the map were in space that is free now.
const DOUBTED: f64 = 0.01;

/// Size of the device's end that is searched for labels, and therefore left out.
const SEARCHED: u64 = 1 << 20;

/// Counts the reads of a trace that read space that is free in the map of files of the trace.
#[derive(Debug)]
pub struct MapCheck {
    /// Free ranges in bytes, by start.
    free: Vec<(u64, u64)>,
    /// End of the last range of the map.
    end: u64,
    written: HashSet<u64>,
    requests: usize,
    device: Option<u32>,
    /// Set if the trace has several devices, of which a map describes one.
    has_several: bool,
    read: u64,
    in_free: u64,
}

/// Reason for which a map can hardly belong to a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mismatch {
    /// The map reaches beyond the end of the device that was recorded.
    Beyond {
        /// End of the map's last range.
        end: Bytes,
        /// Size of the recorded device.
        device: Bytes,
    },
    /// Many reads fall into free space.
    Free {
        /// Share of the blocks that were read, without those written before.
        share: f64,
    },
}

impl Mismatch {
    /// Returns true if the map must be refused; otherwise the user gets a warning.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Beyond { .. } => true,
            Self::Free { share } => *share >= REFUSED,
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beyond { end, device } => {
                write!(f, "the map ends at {end}, and the trace's device has {device}")
            }
            Self::Free { share } => write!(
                f,
                "{:.1} % of the blocks that the trace reads, and has not written before, are free space in the map",
                share * 100.0
            ),
        }
    }
}

impl MapCheck {
    /// Most requests that are looked at.
    pub const REQUESTS_MAX: usize = 1_000_000;
    /// Most written blocks that are kept in memory, and most blocks of one request. Requests after
    /// these are not looked at.
    const WRITTEN_MAX: usize = 1 << 20;

    /// Returns a check of a map.
    pub fn new(map: &FileMap) -> Self {
        let free: Vec<(u64, u64)> = map.free().collect();
        let ends = map.extents().map(|(_, end, _)| end).chain(free.iter().map(|(_, end)| *end));
        let end = ends.max().unwrap_or(0);
        Self::of_free(free, end)
    }

    /// Returns a check of free ranges, by start, in bytes; `end` is the end of the last range that
    /// is known.
    pub fn of_free(free: Vec<(u64, u64)>, end: u64) -> Self {
        Self { free, end, written: HashSet::new(), requests: 0, device: None, has_several: false, read: 0, in_free: 0 }
    }

    /// Counts a request, in the order of the trace.
    pub fn count(&mut self, request: &Request) {
        self.has_several |= *self.device.get_or_insert(request.device) != request.device;
        self.requests += 1;
        if self.requests > Self::REQUESTS_MAX || self.free.is_empty() {
            return;
        }
        let first = request.range.start.0.saturating_mul(SECTOR_BYTES) / BLOCK;
        let end = request.range.end().0.saturating_mul(SECTOR_BYTES).div_ceil(BLOCK);
        if request.kind == OpKind::Discard {
            return;
        }
        if self.written.len() as u64 + end.saturating_sub(first) > Self::WRITTEN_MAX as u64 {
            self.requests = Self::REQUESTS_MAX;
            return;
        }
        match request.kind {
            OpKind::Write | OpKind::WriteZeroes => self.written.extend(first..end),
            OpKind::Read => (first..end).for_each(|block| self.read(block)),
            OpKind::Flush | OpKind::Discard | OpKind::Hint => {}
        }
    }

    fn read(&mut self, block: u64) {
        let left = self.end.saturating_sub(block.saturating_mul(BLOCK));
        let is_searched = (1..=SEARCHED).contains(&left);
        if !is_searched && !self.written.contains(&block) {
            self.read += 1;
            self.in_free += u64::from(is_free(&self.free, block));
        }
    }

    /// Returns the reason for which the map can hardly belong to the trace, whose device has
    /// `device` bytes, if the trace tells.
    pub fn mismatch(&self, device: Option<Bytes>) -> Option<Mismatch> {
        if self.has_several {
            return None;
        }
        if let Some(device) = device.filter(|device| self.end > device.get()) {
            return Some(Mismatch::Beyond { end: Bytes(self.end), device });
        }
        let share = self.in_free as f64 / self.read.max(1) as f64;
        (self.read >= READ_MIN && share >= DOUBTED).then_some(Mismatch::Free { share })
    }
}

/// Returns true if the whole block lies in a range of `free`.
fn is_free(free: &[(u64, u64)], block: u64) -> bool {
    let (start, end) = (block.saturating_mul(BLOCK), block.saturating_add(1).saturating_mul(BLOCK));
    let before = free.partition_point(|(first, _)| *first <= start);
    before.checked_sub(1).and_then(|at| free.get(at)).is_some_and(|(_, last)| end <= *last)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::path::Path;

    use bimetal_core::units::{Nanoseconds, SectorRange};

    use super::*;
    use crate::{OpenOptions, Trace};

    fn request(kind: OpKind, block: u64, blocks: u64) -> Request {
        let range = SectorRange::new(block * 8, blocks * 8);
        Request { arrival: Nanoseconds::ZERO, device: 0, kind, fua: false, range, response: None }
    }

    /// Returns a check of a map whose second thousand blocks are free.
    fn check() -> MapCheck {
        let text = format!("0,{0},/a\n{0},{0},<free>\n", 1000 * BLOCK);
        MapCheck::new(&FileMap::read("map.csv", text.as_bytes()).unwrap())
    }

    fn share(requests: &[Request]) -> Option<Mismatch> {
        let mut check = check();
        requests.iter().for_each(|request| check.count(request));
        check.mismatch(None)
    }

    #[test]
    fn reads_of_free_space_tell_another_devices_map() {
        let (inside, outside) = (request(OpKind::Read, 0, 1000), request(OpKind::Read, 1000, 250));
        assert_eq!(share(&[inside]), None);
        let refused = share(&[inside, outside]).unwrap();
        assert!(refused == (Mismatch::Free { share: 0.2 }) && refused.is_refused(), "{refused:?}");
        assert!(refused.to_string().starts_with("20.0 % of the blocks"), "{refused}");
        let doubted = share(&[inside, request(OpKind::Read, 1000, 50)]).unwrap();
        assert!(!doubted.is_refused(), "{doubted:?}");
        assert_eq!(share(&[request(OpKind::Read, 1000, READ_MIN - 1)]), None, "too few reads prove nothing");
    }

    #[test]
    fn blocks_that_were_written_before_tell_nothing() {
        for write in [OpKind::Write, OpKind::WriteZeroes] {
            assert_eq!(share(&[request(write, 1000, 900), request(OpKind::Read, 1000, 900)]), None);
        }
        assert!(share(&[request(OpKind::Read, 1000, 900), request(OpKind::Write, 1000, 900)]).is_some());
    }

    /// Regression: the map of `boot` was doubted with its own trace. At each start, the guest read
    /// the last 512 KiB of its disk, which are free, in search of labels.
    #[test]
    fn reads_of_the_end_of_the_device_tell_nothing() {
        let inside = request(OpKind::Read, 0, 1000);
        let searched = SEARCHED / BLOCK;
        assert_eq!(share(&[inside, request(OpKind::Read, 2000 - searched, searched)]), None);
        let before = request(OpKind::Read, 2000 - 2 * searched, searched);
        assert!(share(&[inside, before]).is_some_and(|found| found.is_refused()));
    }

    #[test]
    fn map_beyond_the_end_of_the_device_is_refused() {
        let size = Bytes(2000 * BLOCK);
        assert_eq!(check().mismatch(Some(size)), None);
        let refused = check().mismatch(Some(Bytes(size.get() - 1))).unwrap();
        assert!(matches!(refused, Mismatch::Beyond { end, .. } if end == size) && refused.is_refused(), "{refused:?}");
    }

    #[test]
    fn trace_of_several_devices_is_not_judged() {
        let other = Request { device: 1, ..request(OpKind::Read, 1000, 900) };
        assert_eq!(share(&[request(OpKind::Read, 1000, 900), other]), None);
    }

    /// Each map of the project is checked with each trace of the project that has a map: no own map
    /// is refused or doubted, and most others are refused.
    #[test]
    fn no_map_of_the_project_is_refused_with_its_own_trace() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        let names = [
            "application-mix",
            "boot",
            "browser-start",
            "desktop",
            "office-start",
            "postmark",
            "program-start",
            "unpack",
        ];
        let maps = names.map(|name| {
            let path = folder.join(format!("{name}.files.csv.zst"));
            FileMap::read(name, BufReader::new(std::fs::File::open(path).unwrap())).unwrap()
        });
        let (mut refused, mut noted) = (0, 0);
        for trace_name in names {
            let path = folder.join(format!("{trace_name}.bin.zst"));
            let trace = Trace::open(path, &OpenOptions::default()).unwrap();
            let device = trace.capacity();
            let requests: Vec<Request> = trace.map(Result::unwrap).collect();
            for (map_name, map) in names.iter().zip(&maps) {
                let mut check = MapCheck::new(map);
                requests.iter().for_each(|request| check.count(request));
                let found = check.mismatch(device);
                if *map_name == trace_name {
                    assert_eq!(found, None, "{map_name}");
                }
                refused += usize::from(found.is_some_and(|found| found.is_refused()));
                noted += usize::from(found.is_some_and(|found| !found.is_refused()));
            }
        }
        println!(
            "of {} pairs of different recordings, {refused} are refused and {noted} noted",
            names.len() * (names.len() - 1)
        );
        assert_eq!((refused, noted), (39, 6));
    }
}
