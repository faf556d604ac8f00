//! Staging area of a shingled disk: conventional tracks to which writes are appended, and the table
//! of the addresses whose content they have.
//!
//! The area is a ring. Sectors are appended at its head. At its tail the oldest sectors leave, once
//! the staging area no longer has the newest content of their addresses.

use std::collections::{BTreeMap, VecDeque};

/// Run of addresses that were appended together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Appended {
    start: u64,
    end: u64,
    /// Number of sectors that the ring had taken before this run.
    at: u64,
}

/// Newest content of a run of addresses: its end, and its place as in [`Appended`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Newest {
    end: u64,
    at: u64,
}

/// Part of a range of addresses: on the shingled tracks, or in the staging area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First address.
    pub start: u64,
    /// Address after the last address of the piece.
    pub end: u64,
    /// Sector of the staging area that has the content of the piece's first address; `None` if the
    /// piece is not staged.
    pub staged_at: Option<u64>,
}

/// Staging area.
#[derive(Clone, Debug)]
pub struct Staging {
    sectors: u64,
    /// Number of sectors that the ring has taken since time zero.
    head: u64,
    /// Number of sectors that have left the ring since time zero.
    tail: u64,
    ring: VecDeque<Appended>,
    newest: BTreeMap<u64, Newest>,
}

impl Staging {
    /// Makes an empty staging area of this size.
    pub fn new(sectors: u64) -> Self {
        Self { sectors, head: 0, tail: 0, ring: VecDeque::new(), newest: BTreeMap::new() }
    }

    /// Returns the sectors at the end of the ring that a write of `sectors` would leave unused,
    /// because a write is not divided.
    fn skipped(&self, sectors: u64) -> u64 {
        let left = self.sectors - self.head % self.sectors;
        if sectors > left { left } else { 0 }
    }

    /// Returns true if `sectors` can be appended.
    pub fn has_room(&self, sectors: u64) -> bool {
        self.head - self.tail + self.skipped(sectors) + sectors <= self.sectors
    }

    /// Returns true if nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Returns the number of sectors that were appended so far, as a time for
    /// [`forget_older`](Self::forget_older).
    pub fn appended(&self) -> u64 {
        self.head
    }

    /// Appends the newest content of the addresses from `start` to before `end`, for which there is
    /// room. Returns the first sector of the staging area that the content takes.
    pub fn append(&mut self, start: u64, end: u64) -> u64 {
        debug_assert!(self.has_room(end - start));
        self.head += self.skipped(end - start);
        let at = self.head;
        self.forget(start, end);
        self.newest.insert(start, Newest { end, at });
        self.ring.push_back(Appended { start, end, at });
        self.head += end - start;
        at % self.sectors
    }

    /// Forgets the staged content of the addresses from `start` to before `end`: newer content is
    /// on the shingled tracks.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.forget_if(start, end, |_| true);
    }

    /// Forgets the content of these addresses that was staged before the area had taken `until`
    /// sectors.
    pub fn forget_older(&mut self, start: u64, end: u64, until: u64) {
        self.forget_if(start, end, |at| at < until);
    }

    fn forget_if(&mut self, start: u64, end: u64, is_meant: impl Fn(u64) -> bool) {
        let first = self.newest.range(..start).next_back().filter(|(_, run)| run.end > start);
        let from = first.map_or(start, |(from, _)| *from);
        let meant: Vec<(u64, Newest)> =
            self.newest.range(from..end).filter(|(_, run)| is_meant(run.at)).map(|(from, run)| (*from, *run)).collect();
        for (from, run) in meant {
            self.newest.remove(&from);
            if from < start {
                self.newest.insert(from, Newest { end: start, at: run.at });
            }
            if run.end > end {
                self.newest.insert(end, Newest { end: run.end, at: run.at + (end - from) });
            }
        }
        self.leave();
    }

    /// Lets the oldest sectors leave the ring as far as they are outdated.
    fn leave(&mut self) {
        while let Some(oldest) = self.ring.front()
            && self.newest_of(oldest).is_none()
        {
            self.ring.pop_front();
        }
        self.tail = self.ring.front().map_or(self.head, |oldest| oldest.at);
    }

    /// Returns the first address whose newest content is in the run `appended`.
    fn newest_of(&self, appended: &Appended) -> Option<u64> {
        let before = self.newest.range(..appended.start).next_back();
        let others = self.newest.range(appended.start..appended.end);
        let is_here = |&(_, run): &(&u64, &Newest)| {
            (appended.at..appended.at + (appended.end - appended.start)).contains(&run.at)
        };
        before.filter(|(_, run)| run.end > appended.start).into_iter().chain(others).find(is_here).map(|(at, _)| *at)
    }

    /// Returns the address that has been staged for the longest time.
    pub fn oldest(&self) -> Option<u64> {
        self.ring.front().and_then(|oldest| self.newest_of(oldest))
    }

    /// Returns the parts of the addresses from `start` to before `end`, in order.
    pub fn pieces(&self, start: u64, end: u64) -> Vec<Piece> {
        let first = self.newest.range(..=start).next_back().filter(|(_, run)| run.end > start);
        let from = first.map_or(start, |(from, _)| *from);
        let (mut pieces, mut at) = (Vec::with_capacity(1), start);
        for (&run_start, run) in self.newest.range(from..end) {
            let (staged, staged_end) = (run_start.max(start), run.end.min(end));
            if at < staged {
                pieces.push(Piece { start: at, end: staged, staged_at: None });
            }
            let staged_at = Some((run.at + (staged - run_start)) % self.sectors);
            pieces.push(Piece { start: staged, end: staged_end, staged_at });
            at = staged_end;
        }
        if at < end {
            pieces.push(Piece { start: at, end, staged_at: None });
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AREA: u64 = 64;
    const ADDRESSES: u64 = 48;

    /// Reference model of the staging area: the content of each address and each sector as a
    /// number.
    struct Reference {
        on_tracks: Vec<u64>,
        in_area: Vec<u64>,
        newest: Vec<u64>,
    }

    impl Reference {
        fn new() -> Self {
            let zero = |count: u64| vec![0; count as usize];
            Self { on_tracks: zero(ADDRESSES), in_area: zero(AREA), newest: zero(ADDRESSES) }
        }

        /// Checks that each address is found with its newest content.
        fn check(&self, staging: &Staging, start: u64, end: u64) {
            let mut next = start;
            for piece in staging.pieces(start, end) {
                assert!(piece.start == next && piece.end > piece.start, "{piece:?} after {next}");
                for address in piece.start..piece.end {
                    let place = piece.staged_at.map(|at| at + (address - piece.start));
                    let found = match place {
                        Some(at) => self.in_area[at as usize],
                        None => self.on_tracks[address as usize],
                    };
                    assert_eq!(found, self.newest[address as usize], "{address} in {piece:?}");
                }
                next = piece.end;
            }
            assert_eq!(next, end);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// A read finds the newest content of each address after appends, writes to the tracks and
        /// cleaning. Sectors that a write takes in the ring were free before.
        #[test]
        fn staging_finds_the_newest_content(
            steps in prop::collection::vec((0..4_u8, 0..ADDRESSES, 1..9_u64), 1..120),
        ) {
            let (mut staging, mut reference) = (Staging::new(AREA), Reference::new());
            for (number, (step, start, length)) in steps.into_iter().enumerate() {
                let (content, end) = (number as u64 + 1, (start + length).min(ADDRESSES));
                match step {
                    0 | 1 if staging.has_room(end - start) => {
                        let at = staging.append(start, end);
                        for address in start..end {
                            reference.in_area[(at + address - start) as usize] = content;
                            reference.newest[address as usize] = content;
                        }
                    }
                    2 => {
                        staging.forget(start, end);
                        for address in start as usize..end as usize {
                            reference.on_tracks[address] = content;
                            reference.newest[address] = content;
                        }
                    }
                    // The band of the oldest address is cleaned: 8 addresses.
                    _ => if let Some(oldest) = staging.oldest() {
                        let band = oldest / 8 * 8;
                        for address in band..band + 8 {
                            reference.on_tracks[address as usize] = reference.newest[address as usize];
                        }
                        staging.forget_older(band, band + 8, staging.appended());
                    },
                }
                reference.check(&staging, 0, ADDRESSES);
                reference.check(&staging, start, end);
                prop_assert_eq!(staging.is_empty(), staging.oldest().is_none());
            }
        }
    }

    #[test]
    fn content_staged_after_a_cleaning_began_stays() {
        let mut staging = Staging::new(AREA);
        staging.append(0, 4);
        let until = staging.appended();
        let newer = staging.append(2, 6);
        staging.forget_older(0, 8, until);
        let pieces = staging.pieces(0, 8);
        assert_eq!(pieces[1], Piece { start: 2, end: 6, staged_at: Some(newer) });
        assert_eq!((pieces.len(), pieces[0].staged_at, pieces[2].staged_at), (3, None, None));
    }

    #[test]
    fn room_comes_back_when_the_oldest_is_outdated() {
        let mut staging = Staging::new(16);
        for start in [0, 100, 200, 300] {
            staging.append(start, start + 4);
        }
        assert!(!staging.has_room(1));
        staging.forget(100, 104);
        assert!(!staging.has_room(1), "the ring leaves at its tail");
        staging.forget(0, 4);
        assert!(staging.has_room(8) && !staging.has_room(9));
        assert_eq!(staging.append(400, 408), 0);
        assert_eq!(staging.oldest(), Some(200));
    }
}
