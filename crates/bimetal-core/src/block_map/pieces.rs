//! Pieces: in a log, a block may lie in several slots, each with the newest content of some of its
//! eighths.
//!
//! A partial overwrite appends a piece with the eighths that it writes. Older pieces keep only the
//! eighths that the new piece lacks; a piece without eighths leaves the block map. So the masks of
//! a block's pieces never overlap, their order need not be recorded, and there are at most eight.
//!
//! The index has one piece of a block. Each piece except the last has a link to the next piece in
//! place of the block's number; the last piece has the number. So a further piece takes
//! [`BYTES_PER_FURTHER_PIECE`], and a cache, which has no further pieces, pays nothing.

use std::ops::Deref;

use super::{BLOCK_LIMIT, BlockMap, Chunk, DIRTY, Entry, LINKED, Packed, Slot, hash, packed, stored};
use crate::block::{Block, ValidMask};

/// Resident bytes of each piece except the first of its block: its entry, and the two bits "in use"
/// and "dirty" with their summaries.
pub const BYTES_PER_FURTHER_PIECE: f64 = size_of::<Packed>() as f64 + 0.5;

/// Largest number of pieces of a block: one for each eighth.
const PIECES_MAX: usize = 8;

/// Pieces of one block, in order of the first eighth of each.
#[derive(Clone, Copy)]
pub struct Pieces {
    found: [(Slot, Entry); PIECES_MAX],
    count: usize,
}

impl Pieces {
    const NOTHING: (Slot, Entry) =
        (Slot(0), Entry { block: Block(0), valid: ValidMask::NONE, dirty: false, checksum: 0 });

    const fn none() -> Self {
        Self { found: [Self::NOTHING; PIECES_MAX], count: 0 }
    }

    /// Returns the pieces of a block with at most one piece.
    fn of(one: Option<(Slot, Entry)>) -> Self {
        let mut pieces = Self::none();
        one.into_iter().for_each(|(slot, entry)| pieces.push(slot, entry));
        pieces
    }

    fn push(&mut self, slot: Slot, entry: Entry) {
        self.found[self.count] = (slot, entry);
        self.count += 1;
    }

    /// Returns the pieces whose slots `left_out` does not match.
    fn without(&self, left_out: impl Fn(Slot) -> bool) -> Self {
        let mut stays = Self::none();
        self.iter().filter(|(slot, _)| !left_out(*slot)).for_each(|&(slot, entry)| stays.push(slot, entry));
        stays
    }

    /// Returns the eighths of all pieces together.
    pub fn valid(&self) -> ValidMask {
        self.iter().fold(ValidMask::NONE, |valid, (_, entry)| valid.union(entry.valid))
    }
}

impl Deref for Pieces {
    type Target = [(Slot, Entry)];

    fn deref(&self) -> &Self::Target {
        &self.found[..self.count]
    }
}

/// Returns the slot of the next piece of the block, if there is one.
pub(super) fn next(chunks: &[Option<Chunk>], slot: u32) -> Option<u32> {
    let own = stored(chunks, slot);
    (own.state == LINKED).then_some(own.block_low)
}

/// Returns a linked piece with the number of its block, which is read from the last piece.
#[cold]
pub(super) fn resolved(chunks: &[Option<Chunk>], own: Packed) -> Packed {
    let mut last = own;
    while last.state == LINKED {
        last = stored(chunks, last.block_low);
    }
    Packed { block_low: last.block_low, block_high: last.block_high, state: DIRTY, ..own }
}

impl BlockMap {
    /// Returns all pieces of `block`: no piece if the block is only at its home, and one piece in a
    /// cache.
    pub fn pieces(&self, block: Block) -> Pieces {
        let mut pieces = Pieces::none();
        let mut at = self.get(block).map(|(slot, _)| slot.0);
        while let Some(slot) = at {
            if let Some(entry) = self.in_slot(Slot(slot)) {
                pieces.push(Slot(slot), entry);
            }
            at = next(&self.chunks, slot);
        }
        pieces.found[..pieces.count].sort_unstable_by_key(|(_, entry)| entry.valid.span().0);
        pieces
    }

    /// Returns the eighths of `block` that are off home.
    pub fn valid_of(&self, block: Block) -> ValidMask {
        match self.get(block) {
            None => ValidMask::NONE,
            Some((_, entry)) if self.further == 0 || entry.valid == ValidMask::ALL => entry.valid,
            Some(_) => self.pieces(block).valid(),
        }
    }

    /// Makes `slot`, which is in a log, the newest place of the eighths in `entry`. Returns the
    /// block's pieces that left the block map, with their former entries.
    pub(crate) fn insert_piece(&mut self, slot: Slot, entry: Entry) -> Pieces {
        assert!(entry.block.0 < BLOCK_LIMIT, "block {} is beyond what the map addresses", entry.block.0);
        assert!(!entry.valid.is_empty(), "block {} would be off home with nothing valid", entry.block.0);
        let entry = Entry { dirty: true, ..entry };
        let old = self.get(entry.block);
        if self.further == 0 && old.is_none_or(|(_, old)| entry.valid.contains(old.valid)) {
            // The block has at most one piece, and the new piece takes its place.
            self.insert(slot, entry);
            return Pieces::of(old);
        }
        self.fill(slot, &entry);
        self.settle(slot, entry.block, |_| true)
    }

    /// Builds the index over [loaded](Self::load) pieces. If several pieces have an eighth of a
    /// block, the piece for which `is_newer` is true keeps the eighth.
    pub(crate) fn build_index_of_pieces(&mut self, is_newer: impl Fn(Slot, Slot) -> bool) {
        for (slot, block) in self.in_order_of_index() {
            self.settle(slot, block, |other| is_newer(slot, other));
        }
    }

    /// Adds `slot`, which is filled, to the pieces of `block` in the index. Each eighth keeps its
    /// newest place. Returns the earlier pieces that left the index.
    fn settle(&mut self, slot: Slot, block: Block, is_newer_than: impl Fn(Slot) -> bool) -> Pieces {
        let others = self.pieces(block);
        let mut left = Pieces::none();
        let mut valid = packed(&self.chunks, slot.0).entry().map_or(ValidMask::NONE, |entry| entry.valid);
        for &(other, entry) in others.iter() {
            if !is_newer_than(other) {
                valid = valid.without(entry.valid);
            } else if valid.contains(entry.valid) {
                left.push(other, entry);
            } else {
                self.narrow(other, entry.valid.without(valid), entry.checksum);
            }
        }
        self.take_out_of_index(block);
        left.iter().for_each(|&(other, _)| self.clear(other.0));
        let mut stays = others.without(|other| left.iter().any(|&(left, _)| left == other));
        if valid.is_empty() {
            self.clear(slot.0);
        } else {
            self.place_mut(slot).valid = valid.0;
            stays.push(slot, Pieces::NOTHING.1);
        }
        self.link(block, &stays);
        self.further = self.further - beside_first(others.count) + beside_first(stays.count);
        left
    }

    /// Takes one piece of a block out of the block map, and returns it. `None` if the block map has
    /// no entry in `slot`.
    pub(crate) fn remove_piece(&mut self, slot: Slot) -> Option<Entry> {
        let entry = self.in_slot(slot)?;
        if self.further == 0 {
            let removed = self.remove(entry.block);
            debug_assert_eq!(removed, Some(slot), "a block with one piece lies in one slot");
            return Some(entry);
        }
        let pieces = self.pieces(entry.block);
        let stays = pieces.without(|other| other == slot);
        self.take_out_of_index(entry.block);
        self.clear(slot.0);
        self.link(entry.block, &stays);
        self.further = self.further - beside_first(pieces.count) + beside_first(stays.count);
        Some(entry)
    }

    /// Takes `block` out of the index, while its pieces are still linked.
    fn take_out_of_index(&mut self, block: Block) {
        let chunks = &self.chunks;
        if let Ok(found) = self.index.find_entry(hash(block), |&slot| packed(chunks, slot).block() == block) {
            found.remove();
        }
    }

    /// Links `pieces`, whose slots are filled, as the pieces of `block`, and puts the first of them
    /// into the index.
    fn link(&mut self, block: Block, pieces: &Pieces) {
        let (Some(&(first, _)), Some(&(last, _))) = (pieces.first(), pieces.last()) else { return };
        for pair in pieces.windows(2) {
            let place = self.place_mut(pair[0].0);
            (place.state, place.block_low, place.block_high) = (LINKED, pair[1].0.0, 0);
        }
        let place = self.place_mut(last);
        (place.block_low, place.block_high) = (block.0 as u32, (block.0 >> 32) as u8);
        if place.state == LINKED {
            place.state = DIRTY;
        }
        self.point_to(block, first.0);
    }

    /// Puts `slot`, from which all pieces of `block` are linked, into the index.
    pub(super) fn point_to(&mut self, block: Block, slot: u32) {
        let chunks = &self.chunks;
        self.index.insert_unique(hash(block), slot, |&slot| hash(packed(chunks, slot).block()));
    }
}

fn beside_first(pieces: usize) -> u32 {
    pieces.saturating_sub(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 5;

    /// Reference model: for each eighth of each block, the slot that was written last, or `None` if
    /// the eighth is at home.
    #[derive(Default)]
    struct Model([[Option<u32>; 8]; BLOCKS as usize]);

    impl Model {
        fn write(&mut self, block: u64, valid: ValidMask, slot: u32) {
            let eighths = self.0[block as usize].iter_mut().enumerate();
            eighths.filter(|(eighth, _)| valid.0 >> eighth & 1 == 1).for_each(|(_, place)| *place = Some(slot));
        }

        fn forget(&mut self, is_forgotten: impl Fn(u32) -> bool) {
            let places = self.0.iter_mut().flatten();
            places.filter(|place| place.is_some_and(&is_forgotten)).for_each(|place| *place = None);
        }

        /// Returns the slots that have eighths of `block`, with their masks.
        fn pieces(&self, block: u64) -> Vec<(u32, u8)> {
            let mut pieces: Vec<(u32, u8)> = Vec::new();
            for (eighth, slot) in self.0[block as usize].iter().enumerate() {
                let Some(slot) = *slot else { continue };
                match pieces.iter_mut().find(|(other, _)| *other == slot) {
                    Some((_, valid)) => *valid |= 1 << eighth,
                    None => pieces.push((slot, 1 << eighth)),
                }
            }
            pieces
        }
    }

    fn block(number: u64) -> Block {
        Block(number * 0x3_0000_0001)
    }

    fn piece(number: u64, valid: u8, slot: u32) -> Entry {
        Entry { block: block(number), valid: ValidMask(valid), dirty: true, checksum: slot }
    }

    fn assert_same(map: &BlockMap, model: &Model) {
        let (mut blocks, mut slots) = (0, 0);
        for number in 0..BLOCKS {
            let expected = model.pieces(number);
            let found = map.pieces(block(number));
            let as_found: Vec<(u32, u8)> = found.iter().map(|(slot, entry)| (slot.0, entry.valid.0)).collect();
            assert_eq!(as_found, expected, "block {number}");
            assert!(found.iter().all(|(slot, entry)| map.in_slot(*slot) == Some(*entry) && entry.checksum == slot.0));
            assert_eq!(map.get(block(number)).is_some(), !expected.is_empty());
            assert_eq!(map.valid_of(block(number)).0, expected.iter().fold(0, |valid, (_, mask)| valid | mask));
            blocks += u64::from(!expected.is_empty());
            slots += expected.len() as u64;
        }
        assert_eq!((map.len(), map.slots_in_use()), (blocks, slots));
        assert_eq!((u64::from(map.dirty_blocks()), u64::from(map.dirty_slots())), (blocks, slots));
        assert_eq!(map.occupied().count() as u64, slots);
    }

    proptest! {
        /// Pieces are written, removed one at a time or all of a block, and dropped before a
        /// position, as a log does. A model of each eighth must agree.
        #[test]
        fn map_keeps_the_newest_of_each_eighth(
            steps in proptest::collection::vec((0u8..8, 0..BLOCKS, 1u8.., any::<prop::sample::Index>()), 1..200),
        ) {
            let mut map = BlockMap::new(64 * 1024);
            let mut model = Model::default();
            let mut written: Vec<(u64, u8)> = Vec::new();
            for (step, number, valid, pick) in steps {
                match step {
                    0..=4 => {
                        let slot = written.len() as u32;
                        let before = model.pieces(number);
                        let left = map.insert_piece(Slot(slot), piece(number, valid, slot));
                        model.write(number, ValidMask(valid), slot);
                        let stays = model.pieces(number);
                        let mut gone = before;
                        gone.retain(|(slot, _)| !stays.iter().any(|(other, _)| other == slot));
                        let left: Vec<(u32, u8)> = left.iter().map(|(slot, entry)| (slot.0, entry.valid.0)).collect();
                        prop_assert_eq!(left, gone);
                        written.push((number, valid));
                    }
                    5 if !written.is_empty() => {
                        let slot = pick.index(written.len()) as u32;
                        let entry = map.remove_piece(Slot(slot));
                        prop_assert_eq!(entry.is_some(), model.0.iter().flatten().any(|place| *place == Some(slot)));
                        model.forget(|place| place == slot);
                    }
                    6 => {
                        while map.remove(block(number)).is_some() {}
                        model.0[number as usize] = [None; 8];
                    }
                    _ => {}
                }
                assert_same(&map, &model);
            }
        }

        /// A recovery loads the records of a log in any order. The recovery must find the same
        /// block map as a log that was appended to.
        #[test]
        fn loaded_pieces_are_those_that_were_appended(
            written in proptest::collection::vec((0..BLOCKS, 1u8..), 0..60),
        ) {
            let mut loaded = BlockMap::new(5000);
            let mut model = Model::default();
            for (slot, &(number, valid)) in written.iter().enumerate() {
                loaded.load(Slot(slot as u32), piece(number, valid, slot as u32));
                model.write(number, ValidMask(valid), slot as u32);
            }
            loaded.build_index_of_pieces(|slot, other| slot > other);
            assert_same(&loaded, &model);
        }
    }

    /// Eighty blocks of eight pieces have an index of eighty entries. Each piece of a block after
    /// the first costs at most 16 bytes of memory.
    #[test]
    fn further_piece_costs_its_entry_and_no_index() {
        const { assert!(BYTES_PER_FURTHER_PIECE <= 16.0) };
        let mut map = BlockMap::new(640);
        for write in 0..640 {
            map.insert_piece(Slot(write), piece(u64::from(write / 8), 1 << (write % 8), write));
        }
        assert_eq!((map.index.len(), map.slots_in_use(), map.len()), (80, 640, 80));
        assert!(map.index.capacity() < 160, "{}", map.index.capacity());
        assert!((0..80).all(|number| map.pieces(block(number)).valid() == ValidMask::ALL));
        (0..640).for_each(|slot| assert_eq!(map.in_slot(Slot(slot)).map(|entry| entry.checksum), Some(slot)));
    }

    #[test]
    fn block_has_at_most_a_piece_for_each_eighth() {
        let mut map = BlockMap::new(100);
        for write in 0..40 {
            map.insert_piece(Slot(write), piece(1, 1 << (write % 8), write));
            assert_eq!(map.pieces(block(1)).len() as u32, (write + 1).min(8));
        }
        assert_eq!((map.len(), map.slots_in_use(), map.dirty_blocks()), (1, 8, 1));
        let left = map.insert_piece(Slot(50), piece(1, 0xff, 50));
        assert_eq!((left.len(), map.slots_in_use()), (8, 1));
    }
}
