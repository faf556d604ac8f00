//! Scrub: what lies off home is read and held against its checksum, while the volume serves.
//!
//! In order of slot, a few adjacent blocks at a time; fewer reads at once while a request uses the drive. A block is read
//! alone and again before it counts as bad. A bad copy that home has too is given up, so that home serves; where only the
//! slot had the content it stays, and the block is named: the next read of it is an error, and a write heals it.

use super::operations::purpose;
use super::{Job, Store, TaskId, Volume};
use crate::block::Block;
use crate::block_map::{Entry, Slot};
use crate::label::report::Kind;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::units::{Nanoseconds, Sectors};

/// Blocks of one read: 512 KiB of 4 KiB blocks bound how long a request waits behind it.
const READ_BLOCKS: usize = 128;
/// Reads at once, and while a request uses the drive.
const READS_MAX: u32 = 2;
const READS_WHEN_BUSY: u32 = 1;
/// How often a block is read again.
const READ_TRIES: u8 = 2;
/// Bad blocks that are named; the others are counted.
const NAMED_MAX: usize = 4096;
/// What is wrong with the map that is named.
const WRONG_MAX: usize = 100;

/// A block whose copy off home is bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlock {
    /// Which, in the volume's flat address space.
    pub block: Block,
    /// Whether home has its content: then the copy is given up, and nothing is lost.
    pub home_has_it: bool,
}

/// How far a scrub is, and what it found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scrub {
    /// Blocks that were read.
    pub blocks_read: u64,
    /// Blocks off home that are still to be read, about.
    pub blocks_left: u64,
    /// The first bad blocks.
    pub bad: Vec<BadBlock>,
    /// How many there are.
    pub bad_blocks: u64,
    /// When it began.
    pub began: Nanoseconds,
    /// When it ended, if it has.
    pub ended: Option<Nanoseconds>,
    /// Whether it has ended.
    pub finished: bool,
    /// Whether it ended early because the drive is gone.
    pub interrupted: bool,
}

/// A scrub under way.
pub(super) struct Scrubbing {
    found: Scrub,
    next: Slot,
    reads: u32,
}

/// A read of it.
pub(crate) struct ScrubJob {
    /// What the slots held when it began, adjacent.
    entries: Vec<(Slot, Entry)>,
    /// Those that are to be read again, alone: the first of them is being read.
    again: Vec<(Slot, Entry)>,
    tries_left: u8,
    /// Whether a read that failed has them looked at, and no scrub.
    for_read: bool,
}

impl<P: Payload> Volume<P> {
    /// Begins to read everything off home. One that is under way goes on.
    pub fn scrub(&mut self, now: Nanoseconds) {
        self.set_time(now);
        if self.scrubbing.as_ref().is_none_or(|scrubbing| scrubbing.found.finished) {
            let found = Scrub { blocks_left: self.view.map.len(), began: now, ..Scrub::default() };
            self.scrubbing = Some(Scrubbing { found, next: Slot(0), reads: 0 });
        }
        self.pump();
    }

    /// How far the last scrub is, if there was any.
    pub fn scrub_progress(&self) -> Option<&Scrub> {
        self.scrubbing.as_ref().map(|scrubbing| &scrubbing.found)
    }

    /// Begins the next read, if there is one to begin now; whether there was.
    pub(super) fn scrub_on(&mut self) -> bool {
        let ending = self.is_closing();
        let slots_there = self.view.slots_readable();
        let Some(scrubbing) = self.scrubbing.as_mut().filter(|scrubbing| !scrubbing.found.finished) else {
            return false;
        };
        let over = ending || !slots_there || !P::CARRIES_DATA || matches!(self.store, Store::HomeOnly);
        if over && scrubbing.reads == 0 {
            scrubbing.found.finished = true;
            scrubbing.found.ended = Some(self.view.now);
            scrubbing.found.interrupted = scrubbing.found.blocks_left > 0;
            return true;
        }
        if over {
            return false;
        }
        let reads = scrubbing.reads;
        let busy = self.view.member(self.member_of_slots()).foreground > 0;
        if reads >= if busy { READS_WHEN_BUSY } else { READS_MAX } {
            return false;
        }
        let entries = self.next_to_scrub();
        let Some(scrubbing) = &mut self.scrubbing else { return false };
        let Some(&(first, _)) = entries.first() else {
            let ended = scrubbing.reads == 0;
            scrubbing.found.finished |= ended;
            scrubbing.found.ended = Some(self.view.now).filter(|_| ended);
            scrubbing.found.blocks_left = 0;
            return ended;
        };
        scrubbing.reads += 1;
        let count = entries.len() as u64;
        let task = self.begin_task(Job::Running);
        self.read_to_scrub(task, first, count);
        self.put_job(
            task,
            Job::Scrub(ScrubJob { entries, again: Vec::new(), tries_left: READ_TRIES, for_read: false }),
        );
        true
    }

    /// The next slots in use that are adjacent; what a log still has in memory is passed over.
    fn next_to_scrub(&mut self) -> Vec<(Slot, Entry)> {
        let mut entries: Vec<(Slot, Entry)> = Vec::new();
        let Some(scrubbing) = &mut self.scrubbing else { return entries };
        let mut at = scrubbing.next.0;
        while at < self.view.map.slots() && entries.len() < READ_BLOCKS {
            let slot = Slot(at);
            let in_memory = matches!(&self.store, Store::Log(log) if log.in_memory(slot).is_some());
            match self.view.map.in_slot(slot).filter(|_| !in_memory) {
                Some(entry) => entries.push((slot, entry)),
                None if entries.is_empty() => {}
                None => break,
            }
            at += 1;
        }
        scrubbing.next = Slot(at);
        entries
    }

    fn read_to_scrub(&mut self, task: TaskId, first: Slot, count: u64) {
        let command = Command { kind: OpKind::Read, range: self.slot_sectors(first, count), fua: false };
        self.issue(task, purpose::BACKGROUND, self.member_of_slots(), command, P::empty());
    }

    /// A read has ended.
    pub(super) fn note_scrub(&mut self, task: TaskId, mut job: ScrubJob, status: Status, payload: &P) {
        let block = self.view.layout.block.sectors();
        let is_sound = |at: usize, entry: &Entry| {
            let from = Sectors(at as u64 * block);
            status == Status::Done && payload.slice(from, Sectors(block)).checksum() == entry.checksum
        };
        if job.again.is_empty() {
            let (sound, mut bad): (Vec<_>, Vec<_>) =
                job.entries.iter().enumerate().partition(|(at, (_, entry))| is_sound(*at, entry));
            sound.into_iter().for_each(|(_, (slot, entry))| self.slot_is_sound(entry.block, *slot));
            bad.reverse();
            job.again = bad.into_iter().map(|(_, &found)| found).collect();
        } else if let Some(&(slot, entry)) = job.again.last() {
            let sound = is_sound(0, &entry);
            if !sound && job.tries_left > 0 && status != Status::Gone {
                job.tries_left -= 1;
            } else {
                job.again.pop();
                job.tries_left = READ_TRIES;
                if sound {
                    self.slot_is_sound(entry.block, slot);
                } else if status != Status::Gone {
                    self.note_bad(slot, &entry, status, job.for_read);
                }
            }
        }
        match job.again.last() {
            Some(&(slot, _)) if self.view.slots_readable() => {
                self.read_to_scrub(task, slot, 1);
                self.put_job(task, Job::Scrub(job));
            }
            _ if job.for_read => {
                self.troubles.looking = false;
                self.end_task(task);
            }
            _ => {
                if let Some(scrubbing) = &mut self.scrubbing {
                    scrubbing.reads -= 1;
                    scrubbing.found.blocks_read += job.entries.len() as u64;
                    let left = scrubbing.found.blocks_left.saturating_sub(job.entries.len() as u64);
                    scrubbing.found.blocks_left = left;
                }
                self.end_task(task);
            }
        }
    }

    /// The copy in `slot` is not what was written. If it was written again meanwhile, nobody will ask for it any more.
    fn note_bad(&mut self, slot: Slot, entry: &Entry, status: Status, for_read: bool) {
        if self.view.map.in_slot(slot).as_ref() != Some(entry) {
            return;
        }
        self.statistics.checksum_errors += u64::from(status == Status::Done);
        let kind = match status {
            _ if !for_read => Kind::Scrub,
            Status::Done => Kind::Checksum,
            _ => Kind::Unreadable,
        };
        let home_has_it = !entry.dirty;
        if let Some(scrubbing) = self.scrubbing.as_mut().filter(|_| !for_read) {
            scrubbing.found.bad_blocks += 1;
            if scrubbing.found.bad.len() < NAMED_MAX {
                scrubbing.found.bad.push(BadBlock { block: entry.block, home_has_it });
            }
        }
        self.slot_is_bad(slot, entry, kind, true);
    }

    /// Reads slots again, one by one, that could not be read together. While others are being looked at these are passed over: the next
    /// read of them tells again.
    pub(super) fn look_again(&mut self, entries: Vec<(Slot, Entry)>) {
        let Some(&(slot, _)) = entries.last().filter(|_| !self.troubles.looking && self.view.slots_readable()) else {
            return;
        };
        self.troubles.looking = true;
        let task = self.begin_task(Job::Running);
        self.read_to_scrub(task, slot, 1);
        self.put_job(
            task,
            Job::Scrub(ScrubJob { entries: Vec::new(), again: entries, tries_left: READ_TRIES, for_read: true }),
        );
    }

    /// What is wrong with the map in `count` slots from `from` on, in words; at most some of it. It holds at any time, so
    /// anything here is a fault of the program or of the machine's memory.
    pub fn check_slots(&self, from: Slot, count: u32) -> Vec<String> {
        let mut wrong = Vec::new();
        let end = from.0.saturating_add(count).min(self.view.map.slots());
        for slot in (from.0..end).map(Slot) {
            let Some(entry) = self.view.map.in_slot(slot) else { continue };
            let Entry { block, valid, dirty, .. } = entry;
            let place = || format!("slot {} (block {})", slot.0, block.0);
            if block.0 >= self.view.layout.total_blocks() {
                wrong.push(format!("{}: there is no such block", place()));
            }
            if self.view.map.get(block).map(|(found, _)| found) != Some(slot) {
                wrong.push(format!("{}: the index does not lead to it", place()));
            }
            if valid.is_empty() {
                wrong.push(format!("{}: nothing in it is valid", place()));
            }
            if (self.view.map.next_dirty(slot) == Some(slot)) != dirty {
                wrong.push(format!("{}: it is dirty in one list only", place()));
            }
            if wrong.len() >= WRONG_MAX {
                break;
            }
        }
        wrong
    }
}
