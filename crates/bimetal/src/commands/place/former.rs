//! Places of files at the time of a trace.
//!
//! A trace has addresses. A trace that was recorded before files moved has the addresses from which
//! the files came, and the journal of the moves has these places. Read by the present places of the
//! files, such a trace would send hot files back: other files may lie at their former places.
//!
//! 1. A file that has moved since lay at the place in its first note after the trace.
//! 2. A file that was made since lay nowhere.
//! 3. Any other file lay where it lies now, except at the former places of moved files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use bimetal_mover::BLOCK_BYTES;
use bimetal_mover::file_system::FOLDER;
use bimetal_mover::history::{FileKey, History};
use bimetal_mover::journal::Journal;
use bimetal_trace::file_system::PlacedFile;

use super::relocated::Piece;
use crate::error::Error;
use crate::output::note;

/// Files and free space, as (first byte, length), at the time of a trace.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) files: Vec<PlacedFile>,
    pub(super) free: Vec<(u64, u64)>,
    /// Number of files that have moved since.
    pub(super) moved: usize,
    /// Number of files that were made since.
    pub(super) newer: usize,
    /// Former ranges of moved files, each with the range that has its content now.
    pub(super) pieces: Vec<Piece>,
}

impl Places {
    /// Prints the number of files that lay elsewhere, or were not there.
    pub(super) fn tell(&self, trace: &Path) {
        let trace = trace.display();
        if self.moved > 0 {
            note(format_args!(
                "{trace}: {} files have moved since it was recorded: it is read by the places from which they came",
                self.moved
            ));
        }
        if self.newer > 0 {
            note(format_args!("{trace}: {} files are newer than it: its requests count for none of them", self.newer));
        }
    }
}

/// Returns the places at the time of `trace`; `None` if the present places are these places. The
/// trace is as old as its last change.
///
/// # Errors
/// The journal of moves cannot be read, or does not reach back to the time of the trace.
pub(super) fn places_of(
    trace: &Path,
    root: &Path,
    files: &[PlacedFile],
    free: &[(u64, u64)],
) -> Result<Option<Places>, Error> {
    let recorded = fs::metadata(trace).and_then(|metadata| metadata.modified()).ok();
    let Some(recorded) = recorded.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) else { return Ok(None) };
    let history = Journal::history_in(&root.join(FOLDER))?;
    if history.is_undated() {
        return Err(Error::new(format!(
            "{}: an earlier version of bimetal has moved files and noted no times in {}, so the places at the time of a \
             trace are unknown: run `bimetal place --apply` or `--undo` once without a trace, then record a trace",
            trace.display(),
            root.join(FOLDER).display()
        )));
    }
    if !history.is_known_at(recorded.as_nanos()) {
        return Err(Error::new(format!(
            "{}: files have moved at times that the journal in {} no longer has, or never had: expected a trace that \
             was recorded after the last run of bimetal place --apply",
            trace.display(),
            root.join(FOLDER).display()
        )));
    }
    Ok(places_at(recorded.as_nanos(), &history, files, free))
}

/// Returns the places at `time`, in nanoseconds since 1970; `None` if the present places are these
/// places.
fn places_at(time: u128, history: &History, files: &[PlacedFile], free: &[(u64, u64)]) -> Option<Places> {
    let newer = files.iter().filter(|file| file.born > time).count();
    let noted = history.places_at(time);
    if noted.is_empty() && newer == 0 {
        return None;
    }
    let number_of: HashMap<FileKey, usize> =
        files.iter().enumerate().map(|(number, file)| ((file.inode, file.born), number)).collect();
    let mut places = Places { newer, ..Places::default() };
    let mut former: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
    // A place that two notes claim belongs to the file that left the place first: the other file
    // has come there later.
    let mut taken = Ranges::default();
    for note in noted {
        let number = number_of.get(&note.key()).copied();
        let present = number.map(|number| Present::of(&files[number]));
        let (mut at, mut extents, before) = (0, Vec::new(), places.pieces.len());
        for extent in note.extents() {
            let (start, length) = (extent.physical.start * BLOCK_BYTES, extent.physical.len * BLOCK_BYTES);
            for (first, length) in taken.take(start, length) {
                extents.push((first, length));
                if let Some(present) = &present {
                    present.pieces(at + (first - start), first, length, &mut places.pieces);
                }
            }
            at += length;
        }
        if let Some(number) = number {
            places.moved += usize::from(places.pieces.len() > before);
            former.insert(number, extents);
        }
    }
    let rest = |ranges: &[(u64, u64)]| ranges.iter().flat_map(|&(start, length)| taken.rest(start, length)).collect();
    places.free = rest(free);
    places.files = files.to_vec();
    for (number, file) in places.files.iter_mut().enumerate() {
        file.extents = match former.remove(&number) {
            Some(extents) => extents,
            None if file.born > time => Vec::new(),
            None => rest(&file.extents),
        };
    }
    Some(places)
}

/// Present ranges of a file, by the bytes of its content.
struct Present(Vec<(u64, u64, u64)>);

impl Present {
    fn of(file: &PlacedFile) -> Self {
        let mut at = 0;
        let range = |&(start, length): &(u64, u64)| {
            at += length;
            (at - length, start, length)
        };
        Self(file.extents.iter().map(range).collect())
    }

    /// Adds the pieces for the `length` bytes of content from the byte `at` on, which lay at
    /// `former`. Content at its former place needs no piece.
    fn pieces(&self, at: u64, former: u64, length: u64, pieces: &mut Vec<Piece>) {
        let first = self.0.partition_point(|&(byte, _, length)| byte + length <= at);
        for &(byte, start, len) in self.0[first..].iter().take_while(|&&(byte, ..)| byte < at + length) {
            let (from, end) = (byte.max(at), (byte + len).min(at + length));
            let piece = Piece { from: former + (from - at), to: start + (from - byte), bytes: end - from };
            if piece.from != piece.to {
                pieces.push(piece);
            }
        }
    }
}

/// Ranges of bytes that lie apart: the end of each range by its first byte.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Returns the parts of a range that are in none of the ranges, as (first byte, length).
    fn rest(&self, start: u64, length: u64) -> Vec<(u64, u64)> {
        let end = start + length;
        let mut next = self.0.range(..=start).next_back().map_or(start, |(_, &before)| before.max(start));
        let mut rest = Vec::new();
        for (&first, &last) in self.0.range(start..end) {
            if next < first {
                rest.push((next, first - next));
            }
            next = next.max(last);
        }
        if next < end {
            rest.push((next, end - next));
        }
        rest
    }

    /// Adds a range, and returns the parts of the range that were in none of the ranges.
    fn take(&mut self, start: u64, length: u64) -> Vec<(u64, u64)> {
        let rest = self.rest(start, length);
        self.0.extend(rest.iter().map(|&(first, length)| (first, first + length)));
        rest
    }
}

#[cfg(test)]
mod tests {
    use bimetal_mover::journal::Origin;

    use super::*;

    const BLOCK: u64 = BLOCK_BYTES;

    /// Returns a file that was made at the time 5, with extents in blocks.
    fn file(inode: u64, extents: &[(u64, u64)]) -> PlacedFile {
        let extents = bytes(extents);
        PlacedFile { path: inode.to_string(), inode, born: 5, extents, is_program: false }
    }

    fn bytes(blocks: &[(u64, u64)]) -> Vec<(u64, u64)> {
        blocks.iter().map(|&(start, length)| (start * BLOCK, length * BLOCK)).collect()
    }

    fn moved(inode: u64, time: u128, extents: &[(u64, u64, u64)]) -> Origin {
        let (path, extents) = (inode.to_string().into(), extents.to_vec());
        Origin { inode, born: 5, time: Some(time), undone: false, path, boundary: 100, extents }
    }

    fn at(time: u128, notes: &[Origin], files: &[PlacedFile], free: &[(u64, u64)]) -> Option<Places> {
        places_at(time, &notes.iter().cloned().collect(), files, &bytes(free))
    }

    /// Returns the extents of all files, in bytes.
    fn extents(places: &Places) -> Vec<&[(u64, u64)]> {
        places.files.iter().map(|file| file.extents.as_slice()).collect()
    }

    #[test]
    fn file_lay_where_the_next_move_found_it() {
        let notes = [moved(1, 10, &[(0, 200, 4)]), moved(1, 20, &[(0, 50, 4)])];
        let files = [file(1, &[(300, 4)]), file(2, &[(10, 4)])];
        let free = [(200, 8), (50, 4)];
        let first = at(9, &notes, &files, &free).unwrap();
        assert_eq!(extents(&first), [bytes(&[(200, 4)]), bytes(&[(10, 4)])]);
        assert_eq!((first.moved, first.free), (1, bytes(&[(204, 4), (50, 4)])));
        let between = at(10, &notes, &files, &free).unwrap();
        assert_eq!(extents(&between)[0], bytes(&[(50, 4)]));
        assert_eq!(between.free, bytes(&[(200, 8)]));
        assert!(at(20, &notes, &files, &free).is_none(), "the trace is newer than all moves");
    }

    #[test]
    fn former_place_is_cut_out_of_other_files() {
        let notes = [moved(1, 10, &[(0, 200, 4)]), moved(2, 11, &[(0, 202, 4)])];
        let files = [file(1, &[(20, 4)]), file(2, &[(30, 4)]), file(3, &[(198, 10)])];
        let places = at(9, &notes, &files, &[]).unwrap();
        // The second file came to the blocks 202 and 203 only after the first had left them.
        assert_eq!(extents(&places), [bytes(&[(200, 4)]), bytes(&[(204, 2)]), bytes(&[(198, 2), (206, 2)])]);
    }

    #[test]
    fn file_that_was_made_later_lay_nowhere() {
        let newer = PlacedFile { born: 12, ..file(2, &[(200, 4)]) };
        let files = [file(1, &[(20, 4)]), newer.clone()];
        let places = at(9, &[moved(1, 10, &[(0, 200, 4)])], &files, &[]).unwrap();
        assert_eq!((extents(&places), places.newer), (vec![&bytes(&[(200, 4)])[..], &[]], 1));
        let places = at(9, &[], &[newer], &[]).unwrap();
        assert_eq!((extents(&places), places.moved), (vec![&[][..]], 0), "no file has moved");
    }

    #[test]
    fn reused_inode_has_no_place_of_the_deleted_file() {
        let reused = PlacedFile { born: 12, ..file(1, &[(20, 4)]) };
        let places = at(9, &[moved(1, 10, &[(0, 200, 4)])], &[reused], &[]).unwrap();
        assert_eq!((extents(&places), places.moved), (vec![&[][..]], 0));
    }

    #[test]
    fn noted_file_that_never_moved_does_not_count() {
        let files = [file(1, &[(200, 4), (210, 2)])];
        let places = at(9, &[moved(1, 10, &[(0, 200, 4)])], &files, &[]).unwrap();
        assert_eq!((places.moved, places.pieces), (0, vec![]));
    }

    #[test]
    fn pieces_lead_from_former_to_present_ranges() {
        let files = [file(1, &[(50, 3), (70, 3)])];
        let places = at(9, &[moved(1, 10, &[(0, 200, 2), (2, 300, 4)])], &files, &[]).unwrap();
        let piece = |from, to, blocks| Piece { from: from * BLOCK, to: to * BLOCK, bytes: blocks * BLOCK };
        assert_eq!(places.pieces, [piece(200, 50, 2), piece(300, 52, 1), piece(301, 70, 3)]);
    }

    #[test]
    fn taken_bytes_are_cut_out_of_ranges() {
        let mut taken = Ranges::default();
        assert_eq!(taken.take(10, 10), [(10, 10)]);
        assert_eq!(taken.take(5, 10), [(5, 5)]);
        assert_eq!(taken.take(40, 5), [(40, 5)]);
        assert_eq!(taken.rest(0, 50), [(0, 5), (20, 20), (45, 5)]);
        assert_eq!(taken.rest(20, 20), [(20, 20)]);
        assert_eq!((taken.rest(12, 3), taken.rest(5, 15)), (vec![], vec![]));
    }
}
