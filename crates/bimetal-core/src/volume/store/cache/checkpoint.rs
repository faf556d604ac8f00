//! A checkpoint: writes the changed pages of the slot table, then a pair of superblocks. First
//! copies are stable before second copies are written, so a power cut tears at most one copy of a
//! page.
//!
//! The caller drives a checkpoint: [`step`](Checkpoint::step) returns the next write or flush.

use super::Cache;
use crate::block_map::BlockMap;
use crate::journal::SLOTS_PER_TABLE_PAGE;
use crate::journal::ring::Pending;
use crate::journal::superblock::{Pair, Superblock};
use crate::journal::table::{self, Writer};
use crate::journal::turns::{COPIES, TURNS};
use crate::operation::Status;
use crate::units::SectorRange;
use crate::volume::damage::Lost;

/// Table pages of one operation.
const TABLE_PAGES_MAX: u32 = 64;
/// Writes of table pages under way at once.
const TABLE_OPERATIONS_MAX: u32 = 4;

/// A checkpoint under way.
#[derive(Default)]
pub(in crate::volume) struct Checkpoint {
    phase: Phase,
    superblock: Option<Superblock>,
    /// The marks that the superblock refers to.
    marks: Option<Vec<u8>>,
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Table,
    FlushingTable,
    SecondTable,
    Flushing,
    /// Writes a pair of superblocks. The number in this phase counts the copies whose write has
    /// begun.
    Superblock(usize),
    /// Writes the marks for the second superblock of the pair.
    SecondMarks,
}

/// The next step of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::volume) enum Step {
    /// Write metadata. `bytes` of a write is empty in a volume without data.
    Write { place: Place, fua: bool, bytes: Vec<u8> },
    /// Flush the member with the metadata.
    Flush,
    /// Operations under way must end first.
    Wait,
    /// The checkpoint has ended.
    End,
}

/// The place of a write of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::volume) enum Place {
    /// Sectors of the slot table or of the marks.
    Sectors(SectorRange),
    /// A copy of a superblock of a turn.
    Superblock { turn: u64, copy: usize },
}

/// The state of the volume that a checkpoint writes.
pub(in crate::volume) struct Facts<'a> {
    pub(in crate::volume) map: &'a BlockMap,
    pub(in crate::volume) pending: &'a Pending,
    pub(in crate::volume) lost: &'a Lost,
    /// The newest durable superblock.
    pub(in crate::volume) newest: &'a Superblock,
    pub(in crate::volume) carries_data: bool,
}

impl Facts<'_> {
    /// Returns the generation of the pages that the checkpoint writes.
    fn generation(&self) -> u64 {
        table::generation(self.newest.sequence + 1, Writer::Checkpoint)
    }
}

impl Checkpoint {
    /// Takes the end of an operation.
    pub(in crate::volume) fn note(&mut self, status: Status) {
        self.failed |= !matches!(status, Status::Done | Status::Unsupported);
    }

    /// Returns the next step while `under_way` operations are under way.
    pub(in crate::volume) fn step(&mut self, under_way: u32, cache: &mut Cache, facts: &Facts<'_>) -> Step {
        loop {
            if let Some(write) = self.next_of_table(under_way, cache, facts) {
                return write;
            }
            if under_way > 0 {
                return Step::Wait;
            }
            let next = match self.phase {
                _ if self.failed => Some(Step::End),
                Phase::Table => self.flush(Phase::FlushingTable),
                Phase::FlushingTable => {
                    self.phase = Phase::SecondTable;
                    self.marks = cache.marks.encode();
                    self.superblock = Some(superblock_of(self.marks.as_deref(), cache, facts));
                    self.write_marks(cache)
                }
                Phase::SecondTable => self.flush(Phase::Flushing),
                Phase::Flushing => self.write_superblock(1, 0, facts),
                Phase::Superblock(COPIES) => {
                    self.phase = Phase::SecondMarks;
                    self.superblock = self.superblock.take().map(|first| first.second());
                    self.write_marks(cache)
                }
                Phase::SecondMarks => self.write_superblock(COPIES + 1, 0, facts),
                Phase::Superblock(begun) if begun < TURNS * COPIES => {
                    self.write_superblock(begun + 1, begun % COPIES, facts)
                }
                Phase::Superblock(_) => Some(Step::End),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Ends the checkpoint. Returns the superblock of the checkpoint, which is durable; `None` if
    /// the checkpoint failed.
    pub(in crate::volume) fn end(self, cache: &mut Cache, newest: &Superblock) -> Option<Superblock> {
        cache.checkpointing = false;
        let superblock = self.superblock.filter(|_| !self.failed);
        if superblock.is_some() {
            cache.ring.end_checkpoint(table::generation(newest.sequence + 1, Writer::Checkpoint));
        } else {
            cache.ring.abandon_checkpoint();
        }
        superblock
    }

    fn flush(&mut self, phase: Phase) -> Option<Step> {
        self.phase = phase;
        Some(Step::Flush)
    }

    /// Returns the next write of table pages of this phase, up to the limit of operations.
    fn next_of_table(&self, under_way: u32, cache: &mut Cache, facts: &Facts<'_>) -> Option<Step> {
        if self.failed || under_way >= TABLE_OPERATIONS_MAX {
            return None;
        }
        let (copy, pages) = match self.phase {
            Phase::Table => (0, cache.ring.next_table_pages(TABLE_PAGES_MAX)),
            Phase::SecondTable => (1, cache.ring.next_second_copies(TABLE_PAGES_MAX)),
            _ => return None,
        };
        let (first, count) = pages?;
        let place = Place::Sectors(cache.ring.table_place(first, count, copy));
        let bytes = if facts.carries_data { table_pages(first, count, cache, facts) } else { Vec::new() };
        Some(Step::Write { place, fua: false, bytes })
    }

    /// Writes the marks in the area of the superblock's turn. The marks of the first superblock are
    /// written beside the second copies of the slot table, and a flush follows; the marks of the
    /// second superblock are written through.
    fn write_marks(&self, cache: &Cache) -> Option<Step> {
        let turn = self.superblock.as_ref().map_or(0, Superblock::turn);
        let place = Place::Sectors(cache.ring.marks_place(turn));
        let bytes = self.marks.clone()?;
        Some(Step::Write { place, fua: self.phase == Phase::SecondMarks, bytes })
    }

    fn write_superblock(&mut self, begun: usize, copy: usize, facts: &Facts<'_>) -> Option<Step> {
        self.phase = Phase::Superblock(begun);
        let superblock = self.superblock.as_ref().expect("a checkpoint has its superblock when its table is written");
        let place = Place::Superblock { turn: superblock.turn(), copy };
        let bytes = if facts.carries_data { superblock.encode().to_vec() } else { Vec::new() };
        Some(Step::Write { place, fua: true, bytes })
    }
}

/// Returns the superblock that completes a checkpoint, and begins the second copies of the slot
/// table.
fn superblock_of(marks: Option<&[u8]>, cache: &mut Cache, facts: &Facts<'_>) -> Superblock {
    cache.ring.begin_second_copies();
    let (tail, table) = (cache.ring.tail_afterwards(), cache.ring.digest_afterwards(facts.generation()).0);
    Superblock { table, ..next_superblock(facts.newest, facts.lost, tail, marks.map(crc32c::crc32c)) }
}

/// Returns the first superblock of the pair after the `newest`, with the ring or log beginning at
/// `tail`.
pub(in crate::volume) fn next_superblock(
    newest: &Superblock,
    lost: &Lost,
    tail: u64,
    marks: Option<u32>,
) -> Superblock {
    let sequence = newest.sequence + 1;
    Superblock { sequence, pair: Pair::First, tail, marks, lost: lost.for_superblock(), ..newest.clone() }
}

fn table_pages(first: u32, count: u32, cache: &Cache, facts: &Facts<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in first..first + count {
        let start = index * SLOTS_PER_TABLE_PAGE as u32;
        let end = start + SLOTS_PER_TABLE_PAGE as u32;
        let header = cache.ring.table_header(facts.newest.volume, index, facts.generation());
        let entries = facts.pending.durable_entries(facts.map, start, end);
        bytes.extend_from_slice(&table::encode_page(header, entries));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::block_map::Slot;

    struct Scene {
        cache: Cache,
        map: BlockMap,
        pending: Pending,
        lost: Lost,
        newest: Superblock,
        checkpoint: Checkpoint,
    }

    impl Scene {
        /// A cache of 1000 slots, whose second and last table page changed, before a checkpoint.
        fn new() -> Self {
            let mut cache = Cache::new(0, (1000, 1), 1 << 20, false);
            [Slot(300), Slot(999)].into_iter().for_each(|slot| cache.ring.touch_slot(slot));
            cache.ring.begin_checkpoint();
            cache.checkpointing = true;
            Self {
                cache,
                map: BlockMap::new(1000),
                pending: Pending::default(),
                lost: Lost::default(),
                newest: Superblock::first(7, 1, 0).second(),
                checkpoint: Checkpoint::default(),
            }
        }

        fn step(&mut self, under_way: u32) -> Step {
            let Self { cache, map, pending, lost, newest, checkpoint } = self;
            let facts = Facts { map, pending, lost, newest, carries_data: true };
            checkpoint.step(under_way, cache, &facts)
        }

        /// Takes the next step, and returns it as a text. All operations before the step have
        /// ended.
        fn said(&mut self) -> String {
            match self.step(0) {
                Step::Write { place: Place::Superblock { turn, copy }, fua, .. } => {
                    format!("superblock {turn}.{copy} {fua}")
                }
                Step::Write { place: Place::Sectors(range), fua, .. } => {
                    let ring = &self.cache.ring;
                    let table = |copy| [1, 3].map(|page| ring.table_place(page, 1, copy)).contains(&range);
                    match () {
                        () if table(0) => "table".to_owned(),
                        () if table(1) => "second table".to_owned(),
                        () => format!("marks {fua}"),
                    }
                }
                other => format!("{other:?}"),
            }
        }
    }

    /// A power cut between any two steps of a checkpoint leaves a slot table and a superblock that
    /// belong together.
    #[test]
    fn checkpoint_makes_first_copies_stable_before_second_ones() {
        let mut scene = Scene::new();
        scene.cache.marks.ask_for(Block(5), &mut scene.pending);
        let steps: Vec<String> = (0..14).map(|_| scene.said()).collect();
        let superblocks =
            ["superblock 0.0 true", "superblock 0.1 true", "marks true", "superblock 1.0 true", "superblock 1.1 true"];
        assert_eq!(
            steps[..8],
            ["table", "table", "Flush", "marks false", "second table", "second table", "Flush", superblocks[0]]
        );
        assert_eq!(steps[8..], [superblocks[1], superblocks[2], superblocks[3], superblocks[4], "End", "End"]);
        let done = scene.checkpoint.end(&mut scene.cache, &scene.newest);
        assert!(done.is_some_and(|superblock| superblock.pair == Pair::Second && superblock.marks.is_some()));
        assert!(!scene.cache.checkpointing);
    }

    #[test]
    fn flush_waits_for_the_writes_of_the_table() {
        let mut scene = Scene::new();
        for under_way in 0..2 {
            assert!(matches!(scene.step(under_way), Step::Write { .. }), "up to four at once");
        }
        assert_eq!((scene.step(2), scene.step(1), scene.step(0)), (Step::Wait, Step::Wait, Step::Flush));
    }

    #[test]
    fn failed_write_ends_the_checkpoint_without_a_superblock() {
        let mut scene = Scene::new();
        scene.step(0);
        scene.checkpoint.note(Status::MediaError);
        assert_eq!((scene.step(1), scene.step(0)), (Step::Wait, Step::End));
        assert_eq!(scene.checkpoint.end(&mut scene.cache, &scene.newest), None);
    }

    #[test]
    fn checkpoint_without_marks_writes_none() {
        let mut scene = Scene::new();
        let steps: Vec<String> = (0..12).map(|_| scene.said()).collect();
        assert!(steps.iter().all(|step| !step.starts_with("marks")), "{steps:?}");
        assert_eq!(steps[11], "End");
    }
}
