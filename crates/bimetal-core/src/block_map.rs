//! The block map: for each block off home, the slot with the block's newest content.
//!
//! A block that is not in the block map is only at its home. Memory is bounded by the number of
//! blocks off home, not by the size of a drive. Entries lie in chunks that exist while a slot in
//! them is in use, and are found by slot. A set of these chunks lets a search of all entries skip
//! the empty rest of a large log. A hash index of slot numbers finds the entries by block.
//! An entry is 12 bytes and the index at most 11.5 ([`BYTES_PER_BLOCK`]).
//!
//! In a simulation, a mirror can exist before the first request. The mirror's first copies lie in
//! the slots with their blocks' numbers. An unchanged first copy takes one bit
//! ([`GRANTED_BYTES_PER_BLOCK`]).
//!
//! In a cache, a block has one slot. In a log, a block may have several *pieces* (`pieces.rs`),
//! each in a slot of its own and linked to the next. Only the first piece is in the index.

mod pieces;

use hashbrown::HashTable;

use crate::bit_set::BitSet;
use crate::block::{Block, BlockRun, ValidMask};
use crate::delta_set::DeltaSet;
use crate::mixing::folded;
pub use pieces::{BYTES_PER_FURTHER_PIECE, Pieces};

/// Room for one block off home: a cache slot or a position in a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Slot(pub u32);

/// Resident bytes of the block map for each slot in use, in the worst case: 12 for the entry, and 5
/// for a bucket of the index at the lowest load to which a doubling leads (7/16). The two bits "in
/// use" and "dirty", with their summaries, take a quarter of a byte each.
pub const BYTES_PER_BLOCK: f64 = 12.0 + 5.0 * 16.0 / 7.0 + 0.5;

/// Resident bytes of a simulation for each granted copy that has not changed: the bit of its slot,
/// which is taken, and the bit's summaries. Measured on mirrors of 2 and 4 TB: 0.144 and 0.155.
pub const GRANTED_BYTES_PER_BLOCK: f64 = 0.16;

/// Content of a slot: a block, or a part of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Block whose content the slot holds.
    pub block: Block,
    /// Eighths whose newest content is in the slot. The rest of the block is at home, or in other
    /// pieces in a log.
    pub valid: ValidMask,
    /// Set if the slot has content that home lacks.
    pub dirty: bool,
    /// CRC32C of the whole slot as it was written, with zeroes for the eighths that were not valid.
    pub checksum: u32,
}

/// An [`Entry`] in its compact form.
#[derive(Clone, Copy)]
struct Packed {
    block_low: u32,
    checksum: u32,
    block_high: u8,
    valid: u8,
    state: u8,
}

const EMPTY: u8 = 0;
const CLEAN: u8 = 1;
const DIRTY: u8 = 2;
/// State of a piece that is not the last of its block: `block_low` is the slot of the next piece.
/// The last piece has the block's number.
const LINKED: u8 = 3;
const CHUNK: usize = 4096;

/// Number of parts in which the index is built; each part fits a processor's cache.
const INDEX_PARTS: u64 = 4096;

/// Limit of block numbers in an entry: 4 PiB of 4 KiB blocks.
pub const BLOCK_LIMIT: u64 = 1 << 40;

struct Chunk {
    entries: Box<[Packed; CHUNK]>,
    used: u32,
}

/// Block map: the slots, and the blocks in the slots.
pub struct BlockMap {
    chunks: Vec<Option<Chunk>>,
    /// Numbers of the chunks that exist.
    chunks_in_use: BitSet,
    index: HashTable<u32>,
    /// Blocks with clean, whole copies in the slots of the same number, granted at the start of a
    /// simulation.
    granted: DeltaSet,
    granted_end: u32,
    dirty: BitSet,
    slots: u32,
    /// Largest number of blocks that are off home at once.
    blocks_max: u32,
    /// Number of pieces that are not the first of their block.
    further: u32,
}

/// Number of neighbouring blocks that are neighbours in the index as well. So the blocks of a
/// request cost one cache miss together.
const NEIGHBOURS: u64 = 16;

#[inline]
fn hash(block: Block) -> u64 {
    let (group, place) = (block.0 / NEIGHBOURS, block.0 % NEIGHBOURS);
    let mixed = folded(group);
    // The lowest bits choose the position in the index. By the highest seven bits, the table tells
    // neighbours apart without a look at their entries.
    (mixed - mixed % NEIGHBOURS + place) ^ (place << 60)
}

impl Packed {
    const NOTHING: Self = Self { block_low: 0, checksum: 0, block_high: 0, valid: 0, state: EMPTY };

    #[inline]
    fn block(&self) -> Block {
        Block(u64::from(self.block_low) | u64::from(self.block_high) << 32)
    }

    #[inline]
    fn entry(&self) -> Option<Entry> {
        (self.state != EMPTY).then(|| Entry {
            block: self.block(),
            valid: ValidMask(self.valid),
            dirty: self.state == DIRTY,
            checksum: self.checksum,
        })
    }
}

/// Returns the entry in `slot`, with the number of its block.
#[inline]
fn packed(chunks: &[Option<Chunk>], slot: u32) -> Packed {
    let own = stored(chunks, slot);
    if own.state == LINKED { pieces::resolved(chunks, own) } else { own }
}

/// Returns the entry in `slot` as stored, possibly with a link instead of the block's number.
#[inline]
fn stored(chunks: &[Option<Chunk>], slot: u32) -> Packed {
    match chunks.get(slot as usize / CHUNK) {
        Some(Some(chunk)) => chunk.entries[slot as usize % CHUNK],
        _ => Packed::NOTHING,
    }
}

/// Returns the slots of `chunks` from the slot `from` on.
fn slots_of_chunks(chunks: impl Iterator<Item = u32>, from: Slot) -> impl Iterator<Item = Slot> {
    chunks.flat_map(move |number| {
        let first = number * CHUNK as u32;
        (from.0.saturating_sub(first)..CHUNK as u32).map(move |place| Slot(first + place))
    })
}

impl BlockMap {
    /// Returns the empty map over `slots` slots.
    pub(crate) fn new(slots: u32) -> Self {
        let count = slots.div_ceil(CHUNK as u32);
        Self {
            chunks: (0..count).map(|_| None).collect(),
            chunks_in_use: BitSet::new(count),
            index: HashTable::new(),
            granted: DeltaSet::empty(0),
            granted_end: 0,
            dirty: BitSet::new(slots),
            slots,
            blocks_max: slots,
            further: 0,
        }
    }

    /// Returns the empty map over `slots` slots for a volume of `blocks` blocks. A log may have far
    /// more slots than the volume has blocks.
    pub(crate) fn of_volume(slots: u32, blocks: u64) -> Self {
        let blocks_max = blocks.min(u64::from(slots)) as u32;
        Self { blocks_max, ..Self::new(slots) }
    }

    /// Returns an empty map in place of this map.
    pub(crate) fn emptied(&self) -> Self {
        Self { blocks_max: self.blocks_max, ..Self::new(self.slots) }
    }

    /// Gives the first `blocks` blocks clean copies in the slots with their numbers. The block map
    /// must be empty.
    pub(crate) fn grant(&mut self, blocks: u32) {
        assert!(self.is_empty() && blocks <= self.slots, "{blocks} copies for {} slots", self.slots);
        (self.granted, self.granted_end) = (DeltaSet::full(blocks), blocks);
    }

    #[inline]
    fn is_granted(&self, number: u64) -> bool {
        number < u64::from(self.granted_end) && self.granted.contains(number as u32)
    }

    fn granted_entry(number: u32) -> Entry {
        Entry { block: Block(u64::from(number)), valid: ValidMask::ALL, dirty: false, checksum: 0 }
    }

    /// Revokes the granted copy `number`. Returns true if the copy was still granted.
    #[inline]
    fn take_back(&mut self, number: u64) -> bool {
        self.is_granted(number) && self.granted.remove(number as u32)
    }

    /// Returns the runs of granted copies in `blocks`.
    pub(crate) fn granted_runs(&self, blocks: BlockRun) -> impl Iterator<Item = BlockRun> {
        let end = blocks.end().min(self.granted_end.into()) as u32;
        let next = move |from: u64| {
            let first = self.granted.next_member(u32::try_from(from).ok()?).filter(|&first| first < end)?;
            let gap = self.granted.next_gap(first).map_or(end, |gap| gap.min(end));
            Some(BlockRun { first: Block(first.into()), count: (gap - first).into() })
        };
        std::iter::successors(next(blocks.first.0), move |run| next(run.end()))
    }

    /// Takes a run of granted copies out of the block map. Returns the first of their slots, which
    /// are adjacent, and the number of these slots.
    pub(crate) fn revoke(&mut self, run: BlockRun) -> (Slot, u32) {
        let slots = run.first.0 as u32..run.end() as u32;
        let (first, count) = (slots.start, slots.len() as u32);
        let revoked = self.granted.remove_run(slots);
        assert!(revoked == count, "{revoked} copies of {count} were granted from block {first} on");
        (Slot(first), count)
    }

    /// Makes room in the index for every block that can be off home, so that the index does not
    /// grow while a volume is served.
    pub(crate) fn reserve_all(&mut self) {
        let chunks = &self.chunks;
        self.index.reserve(self.blocks_max as usize, |&slot| hash(packed(chunks, slot).block()));
    }

    /// Puts an entry into an empty slot of a map whose index is [built](Self::build_index) later.
    pub(crate) fn load(&mut self, slot: Slot, entry: Entry) {
        self.fill(slot, &entry);
    }

    /// Removes the entry that [`load`](Self::load) put into `slot`, if the entry exists.
    pub(crate) fn unload(&mut self, slot: Slot) {
        if self.in_slot(slot).is_some() {
            self.clear(slot.0);
        }
    }

    /// Loads an entry like [`load`](Self::load), in place of the slot's present entry.
    pub(crate) fn reload(&mut self, slot: Slot, entry: Entry) {
        self.unload(slot);
        self.load(slot, entry);
    }

    /// Builds the index over the loaded entries. If two slots claim one block, the second slot
    /// keeps the block if it `is_newer` than the first. Returns the slots that lost their block;
    /// these slots are empty now.
    ///
    /// The index is filled in the order in which it lies in memory, part by part. In random order,
    /// each of some hundred million blocks would miss the processor's cache.
    pub(crate) fn build_index(&mut self, is_newer: impl Fn(Slot, Slot) -> bool) -> Vec<Slot> {
        let mut twice = Vec::new();
        for (slot, block) in self.in_order_of_index() {
            let chunks = &self.chunks;
            match self.index.find_mut(hash(block), |&other| packed(chunks, other).block() == block) {
                Some(other) if is_newer(slot, Slot(*other)) => twice.push(Slot(std::mem::replace(other, slot.0))),
                Some(_) => twice.push(slot),
                None => {
                    self.index.insert_unique(hash(block), slot.0, |&slot| hash(packed(chunks, slot).block()));
                }
            }
        }
        twice.iter().for_each(|slot| self.clear(slot.0));
        twice
    }

    /// Makes room in the index. Returns the loaded entries in the order in which the index lies in
    /// memory.
    fn in_order_of_index(&mut self) -> impl Iterator<Item = (Slot, Block)> + use<> {
        self.reserve_all();
        let places = (self.index.capacity() as u64 * 8 / 7).next_power_of_two();
        let shift = places.ilog2().saturating_sub(INDEX_PARTS.ilog2());
        let part = |block: Block| ((hash(block) & (places - 1)) >> shift) as usize;
        let mut ends = vec![0; INDEX_PARTS as usize];
        self.occupied().for_each(|(_, entry)| ends[part(entry.block)] += 1);
        let mut total = 0;
        for end in &mut ends {
            total += std::mem::replace(end, total);
        }
        let mut sorted = vec![(0u32, 0u32, 0u32); total];
        for (slot, entry) in self.occupied() {
            let at = &mut ends[part(entry.block)];
            sorted[*at] = (slot.0, entry.block.0 as u32, (entry.block.0 >> 32) as u32);
            *at += 1;
        }
        let block = |low, high| Block(u64::from(low) | u64::from(high) << 32);
        sorted.into_iter().map(move |(slot, low, high): (u32, u32, u32)| (Slot(slot), block(low, high)))
    }

    /// Returns the number of blocks in the block map.
    pub fn len(&self) -> u64 {
        self.index.len() as u64 + u64::from(self.granted.len())
    }

    /// Returns the number of slots that hold content of a block. In a log, a block may have several
    /// slots.
    pub fn slots_in_use(&self) -> u64 {
        self.len() + u64::from(self.further)
    }

    /// Returns true if every block is only at its home.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty() && self.granted.len() == 0
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the number of blocks whose newest content is not at home.
    pub fn dirty_blocks(&self) -> u32 {
        // Blocks with several pieces are in a log, where every slot is dirty.
        self.dirty.len() - self.further
    }

    /// Returns the number of slots with content that home lacks.
    pub(crate) fn dirty_slots(&self) -> u32 {
        self.dirty.len()
    }

    /// Returns the slot and entry of `block`, or `None` if the block is only at its home. In a log:
    /// one of the block's [pieces](Self::pieces).
    #[inline]
    pub fn get(&self, block: Block) -> Option<(Slot, Entry)> {
        if self.is_granted(block.0) {
            return Some((Slot(block.0 as u32), Self::granted_entry(block.0 as u32)));
        }
        if self.index.is_empty() {
            return None;
        }
        let slot = *self.index.find(hash(block), |&slot| packed(&self.chunks, slot).block() == block)?;
        let entry = packed(&self.chunks, slot).entry()?;
        Some((Slot(slot), entry))
    }

    /// Returns the entry in `slot`, if the slot has the newest content of any part of a block.
    #[inline]
    pub fn in_slot(&self, slot: Slot) -> Option<Entry> {
        if self.is_granted(u64::from(slot.0)) {
            return Some(Self::granted_entry(slot.0));
        }
        packed(&self.chunks, slot.0).entry()
    }

    /// Returns the first dirty slot at or after `from`.
    pub fn next_dirty(&self, from: Slot) -> Option<Slot> {
        self.dirty.next_member(from.0).map(Slot)
    }

    /// Returns all slots in use, in order of slot.
    pub fn occupied(&self) -> impl Iterator<Item = (Slot, Entry)> {
        self.occupied_from(Slot(0))
    }

    /// Returns the slots in use from `from` on, in order of slot.
    pub(crate) fn occupied_from(&self, from: Slot) -> impl Iterator<Item = (Slot, Entry)> {
        slots_of_chunks(self.occupied_chunks(from.0 / CHUNK as u32), from)
            .filter_map(|slot| Some((slot, self.in_slot(slot)?)))
    }

    /// Returns the slots in use from `from` on, in order of slot, without the granted copies.
    pub(crate) fn filled_from(&self, from: Slot) -> impl Iterator<Item = (Slot, Entry)> {
        let next = |from: u32| self.chunks_in_use.next_member(from);
        let chunks = std::iter::successors(next(from.0 / CHUNK as u32), move |&number| next(number + 1));
        slots_of_chunks(chunks, from).filter_map(|slot| Some((slot, packed(&self.chunks, slot.0).entry()?)))
    }

    /// Returns true if `block` is in the block map, and not by a granted copy.
    pub(crate) fn is_filled(&self, block: Block) -> bool {
        !self.is_granted(block.0) && self.get(block).is_some()
    }

    /// Returns the number of blocks in the block map, without the granted copies.
    pub(crate) fn filled(&self) -> u64 {
        self.index.len() as u64
    }

    /// Returns the chunks with slots in use, from chunk `from` on. Nearly all chunks of a large
    /// cache or log may be empty, and the search takes no step for an empty chunk.
    fn occupied_chunks(&self, from: u32) -> impl Iterator<Item = u32> {
        let next = move |from: u32| {
            let first = from.checked_mul(CHUNK as u32)?;
            let granted = self.granted.next_member(first).map(|slot| slot / CHUNK as u32);
            self.chunks_in_use.next_member(from).into_iter().chain(granted).min()
        };
        std::iter::successors(next(from), move |&number| next(number + 1))
    }

    /// Makes `slot` the place of the newest content of `entry.block`. Returns the block's former
    /// slot.
    pub(crate) fn insert(&mut self, slot: Slot, entry: Entry) -> Option<Slot> {
        assert!(entry.block.0 < BLOCK_LIMIT, "block {} is beyond what the map addresses", entry.block.0);
        assert!(!entry.valid.is_empty(), "block {} would be off home with nothing valid", entry.block.0);
        let was_granted = self.take_back(entry.block.0).then_some(Slot(entry.block.0 as u32));
        assert!(was_granted != Some(slot), "slot {} was overwritten in place", slot.0);
        self.fill(slot, &entry);
        let chunks = &self.chunks;
        let found = self.index.find_mut(hash(entry.block), |&old| packed(chunks, old).block() == entry.block);
        let old = match found {
            Some(at) => Some(std::mem::replace(at, slot.0)),
            None => {
                self.index.insert_unique(hash(entry.block), slot.0, |&slot| hash(packed(chunks, slot).block()));
                None
            }
        };
        if let Some(old) = old {
            assert!(old != slot.0, "slot {old} was overwritten in place");
            self.clear(old);
        }
        old.map(Slot).or(was_granted)
    }

    /// Writes the entry of a slot that is not in use.
    fn fill(&mut self, slot: Slot, entry: &Entry) {
        assert!(!self.is_granted(u64::from(slot.0)), "slot {} holds its block already", slot.0);
        let chunk = self.chunks[slot.0 as usize / CHUNK].get_or_insert_with(|| {
            self.chunks_in_use.insert(slot.0 / CHUNK as u32);
            Chunk { entries: Box::new([Packed::NOTHING; CHUNK]), used: 0 }
        });
        let place = &mut chunk.entries[slot.0 as usize % CHUNK];
        assert!(place.state == EMPTY, "slot {} holds block {} already", slot.0, place.block().0);
        *place = Packed {
            block_low: entry.block.0 as u32,
            block_high: (entry.block.0 >> 32) as u8,
            checksum: entry.checksum,
            valid: entry.valid.0,
            state: if entry.dirty { DIRTY } else { CLEAN },
        };
        chunk.used += 1;
        if entry.dirty {
            self.dirty.insert(slot.0);
        }
    }

    /// Empties a slot, and frees the chunk of the slot if no other slot of the chunk is in use.
    fn clear(&mut self, slot: u32) {
        let place = &mut self.chunks[slot as usize / CHUNK];
        let chunk = place.as_mut().expect("a slot in use lies in a chunk");
        chunk.entries[slot as usize % CHUNK] = Packed::NOTHING;
        chunk.used -= 1;
        if chunk.used == 0 {
            *place = None;
            self.chunks_in_use.remove(slot / CHUNK as u32);
        }
        self.dirty.remove(slot);
    }

    /// Takes `block` out of the block map, so that it is only at its home. Returns the slot that
    /// the block had. In a log, takes one piece of the block out.
    pub(crate) fn remove(&mut self, block: Block) -> Option<Slot> {
        if self.take_back(block.0) {
            return Some(Slot(block.0 as u32));
        }
        let chunks = &self.chunks;
        let found = self.index.find_entry(hash(block), |&slot| packed(chunks, slot).block() == block).ok()?;
        let (slot, _) = found.remove();
        let next = pieces::next(&self.chunks, slot);
        self.clear(slot);
        if let Some(next) = next {
            self.further -= 1;
            self.point_to(block, next);
        }
        Some(Slot(slot))
    }

    /// Marks `slot` as clean: home has the slot's content.
    pub(crate) fn mark_clean(&mut self, slot: Slot) {
        if self.is_granted(u64::from(slot.0)) {
            return;
        }
        let place = self.place_mut(slot);
        assert!(place.state != LINKED, "slot {} of a log is clean", slot.0);
        place.state = CLEAN;
        self.dirty.remove(slot.0);
    }

    /// Records the eighths that `slot` holds of its block now. For slots that are overwritten in
    /// place only.
    pub(crate) fn rewrite(&mut self, slot: Slot, valid: ValidMask, dirty: bool) {
        assert!(!valid.is_empty() && !self.is_granted(u64::from(slot.0)));
        let place = self.place_mut(slot);
        assert!(place.state != LINKED, "slot {} of a log is overwritten in place", slot.0);
        place.valid = valid.0;
        place.state = if dirty { DIRTY } else { CLEAN };
        if dirty {
            self.dirty.insert(slot.0);
        } else {
            self.dirty.remove(slot.0);
        }
    }

    /// Reduces the entry of `slot` to the eighths `valid`, with the checksum of the reduced slot.
    pub(crate) fn narrow(&mut self, slot: Slot, valid: ValidMask, checksum: u32) {
        assert!(!valid.is_empty());
        if self.take_back(u64::from(slot.0)) {
            self.insert(slot, Self::granted_entry(slot.0));
        }
        let place = self.place_mut(slot);
        place.valid = valid.0;
        place.checksum = checksum;
    }

    fn place_mut(&mut self, slot: Slot) -> &mut Packed {
        let chunk = self.chunks[slot.0 as usize / CHUNK].as_mut().expect("a slot in use lies in a chunk");
        let place = &mut chunk.entries[slot.0 as usize % CHUNK];
        assert!(place.state != EMPTY, "slot {} is empty", slot.0);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// An entry takes 12 bytes. A block takes at most 32 bytes together with its replacement
    /// policy.
    #[test]
    fn block_map_takes_at_most_32_bytes_a_block_with_policy() {
        assert_eq!(size_of::<Packed>(), 12);
        const { assert!(BYTES_PER_BLOCK + crate::policies::lru::BYTES_PER_BLOCK <= 32.0) };
    }

    /// Regression: the index had room for each slot of a log that is twelve times as large as its
    /// volume. The index took 10 MiB for 131,072 blocks.
    #[test]
    fn index_has_room_for_the_blocks_of_the_volume() {
        for mut map in [BlockMap::of_volume(12 << 17, 1 << 17), BlockMap::of_volume(12 << 17, 1 << 17).emptied()] {
            map.reserve_all();
            let room = map.index.capacity();
            assert!((1 << 17..3 << 17).contains(&room), "{room}");
            (0..1 << 17).for_each(|at| {
                map.insert_piece(
                    Slot(at * 5),
                    Entry { block: Block(at.into()), valid: ValidMask::ALL, dirty: true, checksum: 0 },
                );
            });
            assert_eq!(map.index.capacity(), room);
        }
        let mut map = BlockMap::of_volume(100, 1 << 39);
        map.reserve_all();
        assert!(map.index.capacity() < 200, "a cache has at most a block in each slot");
    }

    /// Regression: each search looked at every chunk of a log, and a discard of a nearly empty log
    /// took milliseconds.
    #[test]
    fn search_of_slots_takes_no_step_for_an_empty_chunk() {
        const COUNT: u32 = 1 << 18;
        let chunks = |map: &BlockMap, from| map.occupied_chunks(from).collect::<Vec<_>>();
        let mut map = BlockMap::new(COUNT * CHUNK as u32);
        map.grant(2 * CHUNK as u32 + 1);
        assert_eq!(chunks(&map, 1), [1, 2]);
        let slot = |chunk, place| Slot(chunk * CHUNK as u32 + place);
        let entry = |number| Entry { block: Block(number), valid: ValidMask::ALL, dirty: false, checksum: 0 };
        // A recovery loads entries whose blocks are not in the index yet.
        for (number, slot) in [slot(9, 0), slot(9, 1), slot(4, 5), slot(COUNT - 1, 4095)].into_iter().enumerate() {
            map.load(slot, entry(1 << 30 | number as u64));
        }
        assert_eq!(chunks(&map, 0), [0, 1, 2, 4, 9, COUNT - 1]);
        assert_eq!(map.occupied_from(slot(9, 1)).map(|(slot, _)| slot.0).collect::<Vec<_>>(), [36_865, (1 << 30) - 1]);
        map.unload(slot(4, 5));
        map.unload(slot(9, 0));
        assert_eq!(chunks(&map, 3), [9, COUNT - 1]);
        map.unload(slot(9, 1));
        assert_eq!(chunks(&map, 3), [COUNT - 1]);
        (CHUNK as u64..=2 * CHUNK as u64).for_each(|number| {
            map.remove(Block(number));
        });
        assert_eq!(chunks(&map, 0), [0, COUNT - 1]);
        assert_eq!(chunks(&map, COUNT), []);
    }

    /// A map that is loaded at once equals a map that grew by insertions. A block that two slots
    /// claim stays in one slot.
    #[test]
    fn loaded_map_equals_grown_map_and_drops_duplicates() {
        let mut loaded = BlockMap::new(50_000);
        let mut grown = BlockMap::new(50_000);
        for slot in 0..40_000u32 {
            let block = Block(u64::from(slot) * 0x1_0000_0007 % (1 << 39));
            let entry = Entry { block, valid: ValidMask::ALL, dirty: slot % 3 == 0, checksum: slot };
            loaded.load(Slot(slot), entry);
            grown.insert(Slot(slot), entry);
        }
        let again = Entry { block: Block(0x1_0000_0007), valid: ValidMask::ALL, dirty: false, checksum: 0 };
        loaded.load(Slot(45_000), again);
        let twice = loaded.build_index(|slot, other| slot > other);
        assert_eq!(twice, [Slot(1)]);
        assert_eq!(loaded.in_slot(twice[0]), None);
        assert_eq!((loaded.len(), loaded.dirty_blocks()), (40_000, grown.dirty_blocks()));
        for slot in (0..40_000u32).filter(|&slot| slot != 1) {
            let block = grown.in_slot(Slot(slot)).unwrap().block;
            assert_eq!(loaded.get(block), grown.get(block));
        }
        assert!(loaded.get(Block(0x1_0000_0007)).is_some());
    }

    proptest! {
        /// Compares the map with a plain map: blocks are inserted, overwritten, narrowed, cleaned
        /// and removed.
        #[test]
        fn behaves_as_a_map(
            steps in proptest::collection::vec((0u8..5, 0u64..40, any::<u8>(), any::<bool>()), 1..400),
            granted in 0u32..40,
        ) {
            let mut map = BlockMap::new(64 * 1024);
            map.grant(granted);
            let mut model: BTreeMap<u64, (u32, Entry)> =
                (0..granted).map(|number| (u64::from(number), (number, BlockMap::granted_entry(number)))).collect();
            // Slots above the slots of the granted copies.
            let mut next_slot = 1u32;
            let spread = if granted > 0 { 1 } else { 0x3_0000_0001 };
            for (step, number, valid, dirty) in steps {
                let block = Block(number * spread);
                match step {
                    0 | 1 => {
                        let entry = Entry { block, valid: ValidMask(valid | 1), dirty, checksum: next_slot };
                        let old = map.insert(Slot(next_slot * 97), entry);
                        prop_assert_eq!(old.map(|slot| slot.0), model.get(&block.0).map(|(slot, _)| *slot));
                        model.insert(block.0, (next_slot * 97, entry));
                        next_slot += 1;
                    }
                    2 => {
                        let slot = map.remove(block);
                        prop_assert_eq!(slot.map(|slot| slot.0), model.remove(&block.0).map(|(slot, _)| slot));
                    }
                    3 if valid < 64 => {
                        let blocks = BlockRun { first: Block(number), count: u64::from(valid) };
                        let runs: Vec<BlockRun> = map.granted_runs(blocks).collect();
                        let is_within = |block: u64| (number..blocks.end()).contains(&block);
                        // A copy that was narrowed has an entry of its own.
                        let granted = |block: &u64| model.get(block).is_some_and(|(slot, entry)| {
                            u64::from(*slot) == *block && *entry == BlockMap::granted_entry(*slot)
                        });
                        let expected: Vec<u64> = (0..40).filter(|&block| is_within(block)).filter(granted).collect();
                        let found: Vec<u64> = runs.iter().flat_map(|run| run.blocks()).map(|block| block.0).collect();
                        prop_assert_eq!(found, expected);
                        prop_assert!(runs.windows(2).all(|runs| runs[0].end() < runs[1].first.0), "{:?}", runs);
                        for run in runs {
                            prop_assert_eq!(map.revoke(run), (Slot(run.first.0 as u32), run.count as u32));
                            run.blocks().for_each(|block| { model.remove(&block.0); });
                        }
                    }
                    _ => if let Some((slot, entry)) = model.get_mut(&block.0) {
                        map.mark_clean(Slot(*slot));
                        map.narrow(Slot(*slot), ValidMask(1), 7);
                        *entry = Entry { dirty: false, valid: ValidMask(1), checksum: 7, ..*entry };
                    }
                }
                prop_assert_eq!(map.len() as usize, model.len());
                prop_assert_eq!(map.dirty_blocks() as usize, model.values().filter(|(_, entry)| entry.dirty).count());
                for number in 0..40 {
                    let block = Block(number * spread);
                    let expected = model.get(&block.0).map(|(slot, entry)| (Slot(*slot), *entry));
                    prop_assert_eq!(map.get(block), expected);
                }
            }
            let mut expected: Vec<_> = model.values().map(|(slot, entry)| (Slot(*slot), *entry)).collect();
            expected.sort_by_key(|(slot, _)| *slot);
            prop_assert_eq!(map.occupied().collect::<Vec<_>>(), expected);
        }
    }
}
