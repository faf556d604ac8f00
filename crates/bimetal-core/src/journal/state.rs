//! The state of a volume, kept on its home members: the facts that matter when another member is
//! missing. The state has two turns at the beginning of a member's tail, each written twice
//! ([`turns`]). A state that adds a fact about other members' content is written in both turns, one
//! turn after the other. So no fact is lost if both copies of a turn revert to an earlier state.
//!
//! [`turns`]: super::turns

use super::format::{StatePage, view, view_mut};
use super::page::{self, Page, PageError, VERSION_1};
use super::turns::{Found, NoneHolds, Repair, TURNS, Turns};
use crate::block::{Block, BlockRun};

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Number of the state; its lowest bit is its turn.
    pub sequence: u64,
    /// Members that were detached or failed, a bit each; the content of these members is old.
    pub failed: u64,
    /// Set while the slots may hold content that home lacks, so that the member with the slots must
    /// be present.
    pub dirty: bool,
    /// Set while a migration writes home: without the log, home has a part of the migrated blocks
    /// only.
    pub migrating: bool,
    /// Set while the member with the slots is read-only, so that its block map cannot change.
    /// Regions of the volume whose entries in the block map of the read-only member no longer
    /// count.
    pub refusing: Option<Left>,
    /// Digest of the versions of all pages of the table of places; 0: not recorded. The digest
    /// proves that no page of the table of places came back from an earlier time in both copies.
    pub places: u64,
}

/// Regions of a volume that were evacuated from a read-only member: home has all blocks of these
/// regions, and the block map on the read-only member no longer counts for these blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left(Box<[u8; LEFT_BYTES]>);

/// Bytes of the bits of regions that have left.
pub(super) const LEFT_BYTES: usize = page::PAGE_BYTES - 512;
/// Blocks of a region at least.
const REGION_BLOCKS_MIN: u64 = 64;

/// Returns the number of blocks of a region that is evacuated as a whole, in a volume of `blocks`
/// blocks.
pub const fn left_region_blocks(blocks: u64) -> u64 {
    let least = blocks.div_ceil(8 * LEFT_BYTES as u64);
    if least < REGION_BLOCKS_MIN { REGION_BLOCKS_MIN } else { least }
}

/// Returns the region of `block`, in a volume of `blocks` blocks.
pub const fn left_region_of(block: Block, blocks: u64) -> u32 {
    (block.0 / left_region_blocks(blocks)) as u32
}

/// Returns the blocks of a region, in a volume of `blocks` blocks.
pub fn left_region(region: u32, blocks: u64) -> BlockRun {
    let size = left_region_blocks(blocks);
    let first = u64::from(region) * size;
    BlockRun { first: Block(first), count: size.min(blocks - first) }
}

impl Default for Left {
    fn default() -> Self {
        Self(Box::new([0; LEFT_BYTES]))
    }
}

impl Left {
    /// Returns true if the blocks of `region` have left.
    pub fn contains(&self, region: u32) -> bool {
        self.0[region as usize / 8] & 1 << (region % 8) != 0
    }

    /// Returns true if a region has left that has not left by `earlier`.
    fn has_more_than(&self, earlier: Option<&Self>) -> bool {
        let before = |at: usize| earlier.map_or(0, |earlier| earlier.0[at]);
        self.0.iter().enumerate().any(|(at, &bits)| bits & !before(at) != 0)
    }

    /// Records that the blocks of `region` have left.
    pub fn insert(&mut self, region: u32) {
        self.0[region as usize / 8] |= 1 << (region % 8);
    }
}

const MAGIC: u32 = 0x746d_4942; // "BImt"

/// Number of states by which an absent member may be ahead of the present members, at most. After a
/// crash the absent member may be the only member that has the newest states.
pub(crate) const AHEAD_MAX: u64 = 16;

impl State {
    /// Raises the sequence, so that the next states are newer than any state of an absent member.
    /// The turn stays.
    pub fn pass_by_absent(&mut self) {
        self.sequence += AHEAD_MAX;
    }

    /// Returns the state's turn, 0 or 1.
    pub fn turn(&self) -> u64 {
        self.sequence & 1
    }

    /// Returns two facts. The first fact is true if recovery with the state `earlier` would take
    /// content for the newest that is old by this state, or refuse a member that serves again. The
    /// second fact is true if the digests of the table of places differ.
    pub(crate) fn tells_more_than(&self, earlier: &Self) -> (bool, bool) {
        let left = self.refusing.is_some() && self.refusing != earlier.refusing;
        let members = left || self.dirty && !earlier.dirty || self.failed != earlier.failed;
        (members, self.places != earlier.places)
    }

    /// Returns true if content of `members`, a bit each, is old by this state and counts by the
    /// state `earlier`.
    pub(crate) fn takes_out_more_than(&self, earlier: &Self, members: u64) -> bool {
        let before = earlier.refusing.as_ref();
        let left = self.refusing.as_ref().is_some_and(|left| left.has_more_than(before));
        left || self.failed & !earlier.failed & members != 0
    }

    /// Returns the state as a page of the volume `volume`.
    pub fn encode(&self, volume: u64) -> Page {
        let mut bytes = page::begin(MAGIC, volume);
        let page: &mut StatePage = view_mut(&mut bytes);
        page.head.number = self.sequence.into();
        page.failed = self.failed.into();
        (page.dirty, page.migrating) = (self.dirty.into(), self.migrating.into());
        page.refusing = self.refusing.is_some().into();
        page.places = self.places.into();
        if let Some(left) = &self.refusing {
            page.left = *left.0;
        }
        page::seal(&mut bytes);
        bytes
    }

    /// Returns the volume, its state and the version of the format from a page.
    ///
    /// # Errors
    /// The page is not a state, is torn, or of a later version.
    pub fn decode(bytes: &Page) -> Result<(u64, Self, u16), PageError> {
        let (volume, version) = page::check_any(MAGIC, bytes)?;
        let page: &StatePage = view(bytes);
        let state = Self {
            sequence: page.head.number.get(),
            failed: page.failed.get(),
            dirty: page.dirty != 0,
            migrating: page.migrating != 0,
            refusing: (page.refusing != 0).then(|| Left(Box::new(page.left))),
            places: page.places.get(),
        };
        Ok((volume, state, version))
    }
}

/// The copies of the state on one home member, as they were found.
#[derive(Default)]
pub struct StateCopies(Turns<(State, u16)>);

impl StateCopies {
    /// Records a copy of a state of `volume`; `None` for a page that cannot be read.
    pub fn note(&mut self, turn: usize, copy: usize, page: Option<&Page>, volume: u64) {
        self.0.note(turn, copy, Self::found(turn, page, volume));
    }

    /// Returns the condition of a copy of a state of `volume`, with the state and its version.
    pub(crate) fn found(turn: usize, page: Option<&Page>, volume: u64) -> Found<(State, u16)> {
        Found::of(turn, page, |page| {
            let (of, state, version) = State::decode(page).ok()?;
            (of == volume).then_some((state.sequence, (state, version)))
        })
    }

    /// Returns the newest state. If a newer state may be lost, the second value is the highest
    /// number that the lost state may have.
    pub fn newest(&self) -> (Option<State>, Option<u64>) {
        let of_version_1 = self.0.newest_of_version_1().map(|(_, (state, _))| state.clone());
        if self.is_of_version_1() {
            return (of_version_1, None);
        }
        match self.0.newest() {
            Ok((_, (state, _))) => (Some(state.clone()), None),
            Err(NoneHolds::Damaged { at_most, .. }) => (of_version_1, at_most.map(|number| number + AHEAD_MAX)),
            Err(NoneHolds::Blank) => (None, None),
        }
    }

    /// Returns the copies that are not sound.
    pub(crate) fn unsound(&self) -> impl Iterator<Item = Repair> {
        self.0.unsound()
    }

    /// Returns the copies that differ from the other copy of their turn, each with the state that
    /// the copy must have.
    pub(crate) fn repairs(&self) -> Vec<(Repair, &State)> {
        let content = |repair: Repair| self.content(repair.turn).map(|state| (repair, state));
        self.0.repairs().into_iter().filter_map(content).collect()
    }

    /// Returns the newest state of a turn.
    pub(crate) fn content(&self, turn: usize) -> Option<&State> {
        self.0.content(turn).map(|(state, _)| state)
    }

    /// Returns true if all copies that were found are of version 1 of the format.
    pub fn is_of_version_1(&self) -> bool {
        (0..TURNS).filter_map(|turn| self.0.content(turn)).all(|(_, version)| *version == VERSION_1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Regression: a state in which a failed member serves again told no more than the state before
    /// it. The other turn was therefore never brought up to date, and with that turn alone recovery
    /// refused the member.
    #[test]
    fn state_tells_more_if_a_member_fails_or_serves_again() {
        let (sound, failed) = (State::default(), State { failed: 1, ..State::default() });
        assert_eq!(failed.tells_more_than(&sound), (true, false));
        assert_eq!(sound.tells_more_than(&failed), (true, false));
        assert_eq!(failed.tells_more_than(&failed), (false, false));
    }

    proptest! {
        #[test]
        fn a_state_reads_back(
            volume: u64,
            numbers: [u64; 3],
            flags: [bool; 2],
            left in proptest::option::of(proptest::collection::vec(0..8 * LEFT_BYTES as u32, 0..9)),
        ) {
            let refusing = left.map(|regions| {
                let mut left = Left::default();
                regions.iter().for_each(|&region| left.insert(region));
                assert!(regions.iter().all(|&region| left.contains(region)));
                left
            });
            let ([sequence, failed, places], [dirty, migrating]) = (numbers, flags);
            let state = State { sequence, failed, dirty, migrating, refusing, places };
            prop_assert_eq!(State::decode(&state.encode(volume)), Ok((volume, state, page::VERSION)));
        }

        #[test]
        fn every_block_has_its_region(blocks in 1u64..1 << 40, at: prop::sample::Index) {
            let block = Block(at.index(blocks as usize) as u64);
            let region = left_region_of(block, blocks);
            prop_assert!(region < 8 * LEFT_BYTES as u32);
            let run = left_region(region, blocks);
            prop_assert!((run.first.0..run.end()).contains(&block.0) && run.end() <= blocks);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), page::PAGE_BYTES)) {
            let _ = State::decode(&page::tests::disguise(MAGIC, &bytes));
        }
    }
}
