//! Places of files at an earlier time, from the notes of the journal.
//!
//! A file has a note for each of its moves, with its extents before the move. So the place of a
//! file at a time T is the place in its first note after T. A file without a note after T has not
//! moved since T, and lies at its present place.
//!
//! The notes of an earlier version have no time, and only the first move of a file had a note. The
//! rule for such notes is: no place before the journal was next opened is known. A file's first
//! note still tells an undo the drive from which the file came.

use std::collections::HashSet;

use crate::journal::Origin;

/// Inode number of a file, and the time of its creation.
pub type FileKey = (u64, u128);

/// Notes of moves, the oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct History {
    pub(crate) notes: Vec<Origin>,
    /// Time from which on all moves have notes; 0 if no move is without a note, `NEVER` if moves
    /// of an unknown time have notes.
    pub(crate) since: u128,
}

/// Time from which on places are known, if no place is known.
pub(crate) const NEVER: u128 = u128::MAX;

impl FromIterator<Origin> for History {
    fn from_iter<T: IntoIterator<Item = Origin>>(notes: T) -> Self {
        let mut history = Self::default();
        notes.into_iter().for_each(|note| history.add(note));
        history
    }
}

impl History {
    /// Adds the note of a move. A note without a time makes all earlier places unknown.
    pub(crate) fn add(&mut self, note: Origin) {
        if note.time.is_none() {
            self.since = NEVER;
        }
        self.notes.push(note);
    }

    /// Returns the first note of each file that no undo has brought back, the oldest first: the
    /// original places.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        let mut seen = HashSet::new();
        self.notes.iter().filter(move |note| !note.undone && seen.insert(note.key()))
    }

    /// Returns true if the places at `time`, in nanoseconds since 1970, are known.
    pub fn is_known_at(&self, time: u128) -> bool {
        time >= self.since
    }

    /// Returns the place at `time` of each file that has moved since, in order of the notes.
    /// Files that were made later have no place.
    pub fn places_at(&self, time: u128) -> Vec<&Origin> {
        let mut seen = HashSet::new();
        let is_later = |note: &&Origin| note.time.is_some_and(|noted| noted > time) && note.born <= time;
        self.notes.iter().filter(is_later).filter(|note| seen.insert(note.key())).collect()
    }

    /// Returns true if no time is known from which on all moves have notes: an earlier version has
    /// moved files.
    pub fn is_undated(&self) -> bool {
        self.since == NEVER
    }

    /// Drops the oldest notes that no undo needs, until the rest of these take at most `bytes`, by
    /// the size that `size_of` returns. Drops nothing if they take at most `bytes_max`. Returns
    /// true if notes were dropped.
    pub(crate) fn shorten(&mut self, bytes_max: usize, bytes: usize, size_of: impl Fn(&Origin) -> usize) -> bool {
        let of_origins: usize = self.origins().map(&size_of).sum();
        let mut left = self.notes.iter().map(&size_of).sum::<usize>() - of_origins;
        if left <= bytes_max {
            return false;
        }
        let mut needed: HashSet<FileKey> = self.origins().map(Origin::key).collect();
        let mut since = self.since;
        self.notes.retain(|note| {
            let is_origin = !note.undone && needed.remove(&note.key());
            if is_origin || left <= bytes {
                return true;
            }
            left -= size_of(note);
            since = since.max(note.time.unwrap_or(0));
            false
        });
        self.since = since;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BORN: u128 = 5;

    fn note(inode: u64, time: Option<u128>, start: u64) -> Origin {
        let extents = vec![(0, start, 4)];
        Origin { inode, born: BORN, time, undone: false, path: "a file".into(), boundary: 100, extents }
    }

    fn of(notes: impl IntoIterator<Item = Origin>) -> History {
        notes.into_iter().collect()
    }

    /// Returns the inode number and first block of each place.
    fn places(history: &History, time: u128) -> Vec<(u64, u64)> {
        history.places_at(time).iter().map(|note| (note.inode, note.extents[0].1)).collect()
    }

    #[test]
    fn place_at_a_time_is_that_of_the_next_move() {
        let history = of([note(1, Some(10), 200), note(2, Some(10), 300), note(1, Some(20), 50)]);
        assert_eq!(places(&history, 9), [(1, 200), (2, 300)]);
        assert_eq!(places(&history, 10), [(1, 50)], "between two rounds of moves");
        assert_eq!(places(&history, 20), []);
        assert!(history.is_known_at(0));
    }

    #[test]
    fn undone_move_still_tells_the_former_place() {
        let mut history = of([note(1, Some(10), 200), note(1, Some(20), 50)]);
        history.notes.iter_mut().for_each(|note| note.undone = true);
        assert_eq!(history.origins().count(), 0);
        assert_eq!((places(&history, 5), places(&history, 15)), (vec![(1, 200)], vec![(1, 50)]));
        history.add(note(1, Some(30), 210));
        assert_eq!(history.origins().map(|origin| origin.extents[0].1).collect::<Vec<_>>(), [210]);
    }

    #[test]
    fn file_of_a_later_birth_has_no_earlier_place() {
        let history = of([note(1, Some(10), 200), Origin { born: 15, ..note(1, Some(20), 50) }]);
        assert_eq!(places(&history, 7), [(1, 200)], "another file with the inode number");
        assert_eq!(places(&history, BORN - 1), []);
    }

    #[test]
    fn notes_without_a_time_make_places_unknown() {
        let mut history = of([note(1, None, 200)]);
        assert!(!history.is_known_at(u128::from(u64::MAX)));
        assert_eq!(history.origins().count(), 1, "an undo knows the place");
        history.since = 30;
        history.add(note(1, Some(40), 50));
        assert!(!history.is_known_at(29) && history.is_known_at(30));
        assert_eq!(places(&history, 30), [(1, 50)]);
    }

    #[test]
    fn oldest_notes_are_dropped_unless_an_undo_needs_them() {
        let mut history = of((1..=6).map(|time| note(time as u64 % 2, Some(time * 10), time as u64)));
        assert!(!history.shorten(4, 2, |_| 1), "of six notes, an undo needs two");
        assert!(history.shorten(3, 2, |_| 1));
        let left: Vec<u64> = history.notes.iter().map(|note| note.extents[0].1).collect();
        assert_eq!(left, [1, 2, 5, 6], "the first notes of both files, and the latest");
        assert!(!history.is_known_at(39) && history.is_known_at(40));
        assert_eq!(places(&history, 40), [(1, 5), (0, 6)]);
    }
}
