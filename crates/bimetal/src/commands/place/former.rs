//! Places of files at the time of a trace.
//!
//! A trace has addresses. A trace that was recorded before files moved has the addresses from which
//! the files came, and the journal of the moves has these places. Read by the present places of the
//! files, such a trace would send hot files back: other files may lie at their former places.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use bimetal_mover::BLOCK_BYTES;
use bimetal_mover::file_system::FOLDER;
use bimetal_mover::journal::Journal;
use bimetal_trace::file_system::PlacedFile;

/// Files and free space, as (first byte, length), at the time of a trace.
pub(super) struct Places {
    pub(super) files: Vec<PlacedFile>,
    pub(super) free: Vec<(u64, u64)>,
    /// Number of files that have moved since.
    pub(super) moved: usize,
}

/// Returns the places at the time of `trace`; `None` if no file below `root` has moved since. The
/// trace is as old as its last change.
pub(super) fn places_at(trace: &Path, root: &Path, files: &[PlacedFile], free: &[(u64, u64)]) -> Option<Places> {
    let recorded = fs::metadata(trace).and_then(|metadata| metadata.modified()).ok()?;
    let (origins, noted) = Journal::notes_in(&root.join(FOLDER))?;
    if recorded >= noted {
        return None;
    }
    let bytes = |extents: &[(u64, u64, u64)]| -> Vec<(u64, u64)> {
        extents.iter().map(|&(_, start, len)| (start * BLOCK_BYTES, len * BLOCK_BYTES)).collect()
    };
    let by_inode: HashMap<u64, Vec<(u64, u64)>> =
        origins.iter().map(|origin| (origin.inode, bytes(&origin.extents))).collect();
    let (mut former, mut moved, mut taken) = (files.to_vec(), 0, Vec::new());
    for file in &mut former {
        if let Some(extents) = by_inode.get(&file.inode) {
            file.extents.clone_from(extents);
            moved += 1;
            taken.extend(extents);
        }
    }
    (moved > 0).then(|| Places { files: former, free: without(free, taken), moved })
}

/// Returns `ranges` without the bytes of `taken`. The ranges lie apart from each other.
fn without(ranges: &[(u64, u64)], mut taken: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    taken.sort_unstable();
    let (mut left, mut next) = (Vec::new(), 0);
    for (first, length) in ranges {
        let (mut first, end) = (first, first + length);
        while next < taken.len() && taken[next].0 + taken[next].1 <= first {
            next += 1;
        }
        for &(start, length) in taken[next..].iter().take_while(|&&(start, _)| start < end) {
            if first < start {
                left.push((first, start - first));
            }
            first = first.max(start + length);
        }
        if first < end {
            left.push((first, end - first));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_bytes_are_cut_out_of_ranges() {
        let free = [(0, 10), (20, 10), (40, 10)];
        assert_eq!(without(&free, vec![(22, 4)]), [(0, 10), (20, 2), (26, 4), (40, 10)]);
        assert_eq!(without(&free, vec![(5, 40)]), [(0, 5), (45, 5)]);
        assert_eq!(without(&free, vec![(10, 10)]), free);
        assert_eq!(without(&free, vec![(44, 6), (0, 3), (5, 2)]), [(3, 2), (7, 3), (20, 10), (40, 4)]);
    }
}
