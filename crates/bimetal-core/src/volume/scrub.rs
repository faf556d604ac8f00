//! Scrub: reads everything off home and compares it with its checksums, while the volume serves.
//! Pages of metadata come first ([`scrub_pages`](super::scrub_pages)).
//!
//! A scrub reads in order of slot, a few adjacent blocks at a time, within its rate in bytes a
//! second. While a request uses the drive, fewer reads are under way. A block is read again alone
//! before it counts as bad. A bad copy is dropped if home has the same content, and another slot is
//! filled from home. Until the other slot is filled, home serves the block. If only the slot had
//! the content, the bad copy stays, and the block is reported. The next read of the block is an
//! error, and a write ends the error. For a mirror the copies are compared
//! ([`scrub_copies`](super::scrub_copies)). Then home is compared with clean copies
//! ([`scrub_home`](super::scrub_home)). At the end, a scrub waits until pages of metadata are
//! written again, and reads these pages once more.

use std::collections::{BTreeMap, VecDeque};

use super::bad_block::{BadBlock, Outcome};
use super::mend_pages::Mended;
use super::metadata_pages::Pages;
use super::operations::purpose;
use super::scrub_home::{READ_BLOCKS, Search};
use super::{Job, TaskId, Volume};
use crate::block::{Block, BlockRun};
use crate::block_map::{Entry, Slot};
use crate::label::report::Kind;
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::units::{Bytes, Nanoseconds, Sectors};

/// Reads under way at once. While a request uses the drive, [`READS_WHEN_BUSY`] is the limit.
const READS_MAX: u32 = 2;
const READS_WHEN_BUSY: u32 = 1;
/// Number of times that a block is read again before it counts as bad.
const READ_TRIES: u8 = 2;
/// Bad blocks that are listed; further bad blocks are only counted.
const NAMED_MAX: usize = 4096;
/// Number of times that pages are put back in one scrub, at most.
const PUT_BACK_MAX: u32 = 1000;
/// Pause of a scrub after a page was put back.
const PUT_BACK_PAUSE: Nanoseconds = Nanoseconds::from_millis(100);
/// Pause of a scrub that found no clean copy in the blocks that it searched.
const SEARCH_PAUSE: Nanoseconds = Nanoseconds::from_millis(10);
/// Largest number of errors of the block map that are listed; further errors are only counted.
const WRONG_MAX: usize = 100;

/// Progress and findings of a scrub.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scrub {
    /// Number of blocks that were read.
    pub blocks_read: u64,
    /// Approximate number of blocks off home that are still to be read or compared with home.
    pub blocks_left: u64,
    /// The first bad blocks.
    pub bad: Vec<BadBlock>,
    /// Number of bad blocks.
    pub bad_blocks: u64,
    /// Number of bad blocks that are lost, or whose copies differ and no copy is known to be right.
    pub lost_blocks: u64,
    /// Time at which the scrub began.
    pub began: Nanoseconds,
    /// Time at which the scrub ended, once it has ended.
    pub ended: Option<Nanoseconds>,
    /// Set once the scrub has ended.
    pub finished: bool,
    /// Set if blocks or pages of metadata were left unread: a drive is gone or fails every read, or
    /// the volume was closed.
    pub interrupted: bool,
    /// Number of bad pages of metadata on each member.
    pub bad_pages: BTreeMap<MemberId, u64>,
    /// Number of these pages on each member that were still bad at the end of the scrub.
    pub pages_left_bad: BTreeMap<MemberId, u64>,
}

/// The scrub under way or the last scrub, and the check of slots whose read failed.
#[derive(Default)]
pub(super) struct Scrubber {
    scrubbing: Option<Scrubbing>,
    /// Set while slots are being read again, each alone, after a read of several slots failed.
    looking: bool,
    /// Bad pages of metadata that are being written again.
    pub(super) mended: Mended,
}

/// A scrub under way.
struct Scrubbing {
    found: Scrub,
    /// Pages of metadata that are still to be read.
    pages_left: VecDeque<Pages>,
    /// Number of reads of pages of metadata under way.
    reads_of_pages: u32,
    /// Number of pages that were put back to be read once more.
    put_back: u32,
    /// Bad pages that are to be read again at the end of the scrub.
    mended: Vec<Pages>,
    /// Set once the mended pages are being read again.
    verifies: bool,
    next: Slot,
    /// The block that is compared next, of a mirror, or of home with clean copies.
    next_block: Block,
    reads: u32,
    /// Bytes read in a second at most. `next_at` is the time from which the next read may begin.
    rate: Option<Bytes>,
    next_at: Nanoseconds,
}

/// A read of a scrub.
pub(crate) struct ScrubJob {
    /// The adjacent slots of the read, with their entries as they were when the read began.
    entries: Vec<(Slot, Entry)>,
    /// The slots that are to be read again, each alone. The last slot of the list is being read.
    again: Vec<(Slot, Entry)>,
    tries_left: u8,
    /// Set if the slots are checked for a failed read, not for a scrub.
    for_read: bool,
}

/// A step of a scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// No step is possible now.
    Wait,
    /// All reads have ended.
    Ended,
    /// The next blocks are to be read.
    Read,
}

impl Scrubber {
    /// Begins a scrub of these pages of metadata and of `blocks` blocks, or lets the scrub under
    /// way go on at the higher of the two rates.
    fn begin(&mut self, now: Nanoseconds, rate: Option<Bytes>, pages: VecDeque<Pages>, blocks: u64) {
        match self.under_way() {
            Some(scrubbing) => {
                let faster = rate.is_none_or(|rate| scrubbing.rate.is_some_and(|before| rate > before));
                if faster {
                    (scrubbing.rate, scrubbing.next_at) = (rate, now);
                }
            }
            None => {
                let found = Scrub { blocks_left: blocks, began: now, ..Scrub::default() };
                let (next, next_block) = (Slot(0), Block(0));
                self.scrubbing = Some(Scrubbing {
                    found,
                    pages_left: pages,
                    reads_of_pages: 0,
                    put_back: 0,
                    mended: Vec::new(),
                    verifies: false,
                    next,
                    next_block,
                    reads: 0,
                    rate,
                    next_at: now,
                });
            }
        }
    }

    fn under_way(&mut self) -> Option<&mut Scrubbing> {
        self.scrubbing.as_mut().filter(|scrubbing| !scrubbing.found.finished)
    }

    /// Returns the next step. The reads of a scrub that has no block left (`over`) end once none is
    /// under way. At most `reads_max` reads are under way.
    fn step(&mut self, now: Nanoseconds, over: bool, reads_max: u32) -> Step {
        let Some(scrubbing) = self.under_way() else { return Step::Wait };
        if over {
            let ends = scrubbing.reads == 0;
            scrubbing.found.interrupted |= ends && scrubbing.found.blocks_left > 0;
            return if ends { Step::Ended } else { Step::Wait };
        }
        if scrubbing.reads >= reads_max || scrubbing.next_at > now { Step::Wait } else { Step::Read }
    }

    /// Takes the beginning of a read of `bytes` bytes.
    fn read_begun(&mut self, now: Nanoseconds, bytes: Bytes) {
        if let Some(scrubbing) = &mut self.scrubbing {
            scrubbing.read(now, bytes);
        }
    }

    /// Notes that no block is left to read. Returns true if all reads have ended.
    fn nothing_left(&mut self) -> bool {
        let Some(scrubbing) = &mut self.scrubbing else { return false };
        scrubbing.found.blocks_left = 0;
        scrubbing.reads == 0
    }

    /// Begins to read the mended pages again. Returns false if there are none, or if they were read
    /// again already.
    fn begin_verifying(&mut self) -> bool {
        let Some(scrubbing) = self.under_way().filter(|scrubbing| !scrubbing.mended.is_empty()) else { return false };
        (scrubbing.verifies, scrubbing.put_back) = (true, 0);
        scrubbing.pages_left = std::mem::take(&mut scrubbing.mended).into();
        true
    }

    fn end(&mut self, now: Nanoseconds) {
        if let Some(scrubbing) = self.under_way() {
            scrubbing.found.interrupted |= !scrubbing.pages_left.is_empty() || !scrubbing.mended.is_empty();
            (scrubbing.found.finished, scrubbing.found.ended) = (true, Some(now));
        }
    }

    /// Notes that something is left unread.
    fn interrupt(&mut self) {
        if let Some(scrubbing) = self.under_way() {
            scrubbing.found.interrupted = true;
        }
    }

    /// Counts the end of a read of `blocks` blocks. An `interrupted` read left blocks unread.
    pub(super) fn read_ended(&mut self, blocks: u64, interrupted: bool) {
        if let Some(scrubbing) = &mut self.scrubbing {
            scrubbing.reads -= 1;
            scrubbing.found.blocks_read += blocks;
            scrubbing.found.blocks_left = scrubbing.found.blocks_left.saturating_sub(blocks);
            scrubbing.found.interrupted |= interrupted;
        }
    }

    /// Counts the end of a comparison of home with `copies` clean copies.
    pub(super) fn home_compared(&mut self, copies: u64) {
        if let Some(scrubbing) = &mut self.scrubbing {
            scrubbing.reads -= 1;
            scrubbing.found.blocks_left = scrubbing.found.blocks_left.saturating_sub(copies);
        }
    }

    /// Notes a bad block. A block of several pieces counts once, if `has_pieces`.
    fn found(&mut self, bad: BadBlock, has_pieces: bool) {
        let Some(Scrubbing { found, .. }) = &mut self.scrubbing else { return };
        if has_pieces && found.bad.iter().any(|known| known.block == bad.block) {
            return;
        }
        found.bad_blocks += 1;
        found.lost_blocks += u64::from(!bad.home_has_it());
        if found.bad.len() < NAMED_MAX {
            found.bad.push(bad);
        }
    }

    /// Takes the next pages of metadata of the scrub.
    pub(super) fn next_pages(&mut self) -> Option<Pages> {
        self.under_way()?.pages_left.pop_front()
    }

    /// Delays the next read for `bytes` of a page that is read again, as the rate requires.
    pub(super) fn page_read_again(&mut self, now: Nanoseconds, bytes: Bytes) {
        if let Some(scrubbing) = self.under_way() {
            scrubbing.read(now, bytes);
        }
    }

    /// Counts the beginning of a read of metadata.
    pub(super) fn read_of_pages_begun(&mut self) {
        if let Some(scrubbing) = &mut self.scrubbing {
            scrubbing.reads += 1;
            scrubbing.reads_of_pages += 1;
        }
    }

    /// Counts the end of a read of metadata. `interrupted`: blocks may be left unread.
    pub(super) fn read_of_pages_ended(&mut self, interrupted: bool) {
        if let Some(scrubbing) = &mut self.scrubbing {
            scrubbing.reads_of_pages -= 1;
        }
        self.read_ended(0, interrupted);
    }

    /// Returns true if a scrub has not judged all pages of metadata yet.
    pub(super) fn is_at_pages(&self) -> bool {
        self.has_pages_left() || self.scrubbing.as_ref().is_some_and(|scrubbing| scrubbing.reads_of_pages > 0)
    }

    /// Notes a bad page of `member`. Returns true if the page is to be mended: it is bad for the
    /// first time.
    pub(super) fn found_bad_page(&mut self, pages: Pages, member: MemberId) -> bool {
        let Some(scrubbing) = self.under_way() else { return false };
        let found = &mut scrubbing.found;
        if scrubbing.verifies {
            *found.pages_left_bad.entry(member).or_default() += 1;
            return false;
        }
        *found.bad_pages.entry(member).or_default() += 1;
        scrubbing.mended.push(pages);
        true
    }

    /// Notes pages of `member` that cannot be read. The pages of a member that is gone are no
    /// longer part of the volume.
    pub(super) fn pages_unread(&mut self, pages: Pages, member: MemberId, is_gone: bool) {
        if is_gone {
            return;
        }
        if self.under_way().is_some_and(|scrubbing| scrubbing.verifies) {
            self.found_bad_page(pages, member);
        }
        self.interrupt();
    }

    /// Puts a page back that was written whenever it was read, and pauses: a write may take a
    /// while. Returns false if pages were put back too often: then the page counts as bad.
    pub(super) fn put_back(&mut self, now: Nanoseconds, pages: Pages) -> bool {
        let Some(scrubbing) = self.under_way() else { return true };
        scrubbing.put_back += 1;
        scrubbing.next_at = scrubbing.next_at.max(now.saturating_add(PUT_BACK_PAUSE));
        let is_put_back = scrubbing.put_back <= PUT_BACK_MAX;
        if is_put_back {
            scrubbing.pages_left.push_back(pages);
        }
        is_put_back
    }

    /// Returns true if pages of metadata are left to read.
    fn has_pages_left(&self) -> bool {
        self.scrubbing.as_ref().is_some_and(|scrubbing| !scrubbing.found.finished && !scrubbing.pages_left.is_empty())
    }

    /// Returns true if a block was read since the scrub began.
    fn has_read(&self) -> bool {
        self.scrubbing.as_ref().is_some_and(|scrubbing| scrubbing.found.blocks_read > 0)
    }

    /// Returns the time at which the rate allows the next read, if this time is later than `now`.
    fn goes_on_at(&self, now: Nanoseconds) -> Option<Nanoseconds> {
        let scrubbing = self.scrubbing.as_ref().filter(|scrubbing| !scrubbing.found.finished)?;
        Some(scrubbing.next_at).filter(|&at| at > now)
    }
}

impl Scrubbing {
    /// Delays the next read for `bytes` being read now, as the rate requires.
    fn read(&mut self, now: Nanoseconds, bytes: Bytes) {
        if let Some(rate) = self.rate {
            let takes = u128::from(bytes.0) * 1_000_000_000 / u128::from(rate.0.max(1));
            self.next_at = self.next_at.max(now).saturating_add(Nanoseconds(takes as u64));
        }
    }
}

impl<P: Payload> Volume<P> {
    /// Begins to read everything off home, or all copies of a mirror, at most `rate` bytes a
    /// second. A scrub under way goes on, at the higher of the two rates.
    pub fn scrub(&mut self, now: Nanoseconds, rate: Option<Bytes>) {
        self.set_time(now);
        let blocks = match self.view.layout.is_mirrored() {
            true => self.view.layout.total_blocks(),
            false => self.view.map.slots_in_use() + self.copies_to_compare(),
        };
        let pages = self.pages_to_scrub();
        // A checkpoint takes over the journal's pages, which no scrub reads.
        self.scrub.mended.wants_checkpoint = P::CARRIES_DATA && self.store.cache().is_some();
        self.scrub.begin(now, rate, pages, blocks);
        self.pump();
    }

    /// Returns the progress of the last scrub; `None` if the volume was never scrubbed.
    pub fn scrub_progress(&self) -> Option<&Scrub> {
        self.scrub.scrubbing.as_ref().map(|scrubbing| &scrubbing.found)
    }

    /// Begins the next read if it is due. Returns true if the scrub took a step.
    pub(super) fn scrub_on(&mut self) -> bool {
        let now = self.view.now;
        let is_mirrored = self.view.layout.is_mirrored();
        // A volume without readable slots has states.
        let has_pages = P::CARRIES_DATA && !self.is_closing() && self.scrub.has_pages_left();
        let over = !has_pages && self.must_scrub_end();
        let slots = self.view.layout.slots.map(|slots| slots.member);
        let busy = !is_mirrored && !over && slots.is_some_and(|slots| self.view.member(slots).foreground > 0);
        // A comparison holds writes back, so only one runs at a time.
        let reads_max = if busy || is_mirrored { READS_WHEN_BUSY } else { READS_MAX };
        match self.scrub.step(now, over, reads_max) {
            Step::Wait => false,
            Step::Ended => self.end_scrub(),
            Step::Read => {
                if let Some(bytes) = self.scrub_pages() {
                    self.scrub.read_begun(now, bytes);
                    return true;
                }
                if has_pages {
                    // The last pages were on members that cannot be read. A checkpoint may be due.
                    return true;
                }
                let read = if is_mirrored { self.compare_next() } else { self.scrub_next() };
                let Some(count) = read.or_else(|| self.compare_next_home()) else {
                    return self.scrub.nothing_left() && self.end_scrub();
                };
                self.scrub.read_begun(now, Bytes(count * self.view.layout.block.bytes().0));
                true
            }
        }
    }

    /// Ends a scrub whose reads have ended: waits for writes of bad pages, reads these pages again,
    /// and ends. Returns true if the scrub took a step.
    fn end_scrub(&mut self) -> bool {
        if !self.view.slots_online() {
            // A member that refuses writes keeps the pages of its ring as they are.
            self.scrub.mended.wants_checkpoint = false;
        }
        if !self.is_closing() {
            if self.is_mending() {
                return false;
            }
            if self.scrub.begin_verifying() {
                return true;
            }
        }
        self.scrub.end(self.view.now);
        true
    }

    /// Returns true if there is nothing to scrub, or if the content cannot be read.
    fn must_scrub_end(&self) -> bool {
        // Failed reads of clients do not keep a scrub from trying the rest.
        let began = self.scrub.has_read();
        let dead = |member: MemberId| began && self.is_unreadable(member);
        let readable = match self.view.layout.slots {
            _ if self.view.layout.is_mirrored() => {
                self.copies_there().next().is_some() && !self.copies_there().any(dead)
            }
            Some(slots) => self.view.slots_readable() && !dead(slots.member),
            None => false,
        };
        self.is_closing() || !readable || !P::CARRIES_DATA
    }

    /// Returns the time at which the scrub's rate allows the next read.
    pub(super) fn scrub_goes_on_at(&self) -> Option<Nanoseconds> {
        self.scrub.goes_on_at(self.view.now)
    }

    /// Begins to read the next blocks off home. Returns the number of blocks that the next read
    /// compares; `None` if no block is left.
    fn scrub_next(&mut self) -> Option<u64> {
        let entries = self.next_to_scrub();
        let &(first, _) = entries.first()?;
        let count = entries.len() as u64;
        self.scrub.scrubbing.as_mut()?.reads += 1;
        let task = self.begin_task(Job::Running);
        self.read_to_scrub(task, first, count);
        self.put_job(
            task,
            Job::Scrub(ScrubJob { entries, again: Vec::new(), tries_left: READ_TRIES, for_read: false }),
        );
        Some(count)
    }

    /// Begins to compare the next blocks of a mirror. Returns the number of blocks that the next
    /// read compares; `None` if no block is left.
    fn compare_next(&mut self) -> Option<u64> {
        let total = self.view.layout.total_blocks();
        let scrubbing = self.scrub.scrubbing.as_mut()?;
        let first = scrubbing.next_block;
        let count = (READ_BLOCKS as u64).min(total.saturating_sub(first.0));
        if count == 0 {
            return None;
        }
        scrubbing.next_block = Block(first.0 + count);
        scrubbing.reads += 1;
        self.begin_comparing(first, count);
        Some(count)
    }

    /// Begins to compare the next clean copies with home, once no slot is being read. Returns the
    /// number of blocks of home that are read, or 0 if the scrub waits; `None` if no copy is left.
    fn compare_next_home(&mut self) -> Option<u64> {
        let from = self.scrub.scrubbing.as_ref()?.next_block;
        match self.search_clean_copies(from) {
            Search::Over => None,
            Search::NotBefore(block) => {
                let at = self.view.now.saturating_add(SEARCH_PAUSE);
                let scrubbing = self.scrub.scrubbing.as_mut()?;
                scrubbing.next_block = block;
                scrubbing.next_at = scrubbing.next_at.max(at);
                Some(0)
            }
            Search::Found(run) => {
                if !self.home_can_be_read(run.first) {
                    self.scrub.interrupt();
                    return None;
                }
                let scrubbing = self.scrub.scrubbing.as_mut()?;
                scrubbing.next_block = Block(run.end());
                scrubbing.reads += 1;
                self.begin_home_comparison(run);
                Some(run.count)
            }
        }
    }

    /// Returns the next adjacent slots in use. Blocks that a log still has in memory are skipped.
    fn next_to_scrub(&mut self) -> Vec<(Slot, Entry)> {
        let mut entries: Vec<(Slot, Entry)> = Vec::new();
        let Some(scrubbing) = &mut self.scrub.scrubbing else { return entries };
        let mut at = scrubbing.next.0;
        while at < self.view.map.slots() && entries.len() < READ_BLOCKS {
            let slot = Slot(at);
            let in_memory = self.store.kind().in_memory(slot).is_some();
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

    pub(super) fn read_to_scrub(&mut self, task: TaskId, first: Slot, count: u64) {
        let command = Command { kind: OpKind::Read, range: self.slot_sectors(first, count), fua: false };
        self.issue(task, purpose::BACKGROUND, self.member_of_slots(), command, P::empty());
    }

    /// Handles the end of a read.
    pub(super) fn note_scrub(&mut self, task: TaskId, mut job: ScrubJob, status: Status, payload: &P) {
        let block = self.view.layout.block.sectors();
        let is_sound = |at: usize, entry: &Entry| {
            let from = Sectors(at as u64 * block);
            status == Status::Done && payload.slice(from, Sectors(block)).checksum() == entry.checksum
        };
        if job.again.is_empty() {
            let (sound, mut bad): (Vec<_>, Vec<_>) =
                job.entries.iter().enumerate().partition(|(at, (_, entry))| is_sound(*at, entry));
            sound.into_iter().for_each(|(_, (slot, entry))| self.damage.slot_is_sound(entry.block, *slot));
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
                    self.damage.slot_is_sound(entry.block, slot);
                } else if status != Status::Gone {
                    self.note_bad(slot, &entry, status, job.for_read);
                }
            }
        }
        match job.again.last() {
            Some(&(slot, _)) if self.view.slots_readable() && !self.is_unreadable(self.member_of_slots()) => {
                self.read_to_scrub(task, slot, 1);
                self.put_job(task, Job::Scrub(job));
            }
            _ if job.for_read => {
                self.scrub.looking = false;
                self.end_task(task);
            }
            _ => {
                self.scrub.read_ended(job.entries.len() as u64, !job.again.is_empty());
                self.end_task(task);
            }
        }
    }

    /// Reports a bad copy in `slot`, unless the slot has other content by now.
    fn note_bad(&mut self, slot: Slot, entry: &Entry, status: Status, for_read: bool) {
        if !self.still_holds(slot, entry) {
            return;
        }
        self.statistics.checksum_errors += u64::from(status == Status::Done);
        let kind = match status {
            _ if !for_read => Kind::Scrub,
            Status::Done => Kind::Checksum,
            _ => Kind::Unreadable,
        };
        if !for_read {
            let outcome = if entry.dirty { Outcome::NoGoodCopy } else { Outcome::GivenUp };
            self.note_found(BadBlock { block: entry.block, outcome });
        }
        self.slot_is_bad(slot, entry, kind, true);
        if !for_read && !entry.dirty && self.view.slots_online() {
            // Another slot gets the content: the drive may be unable to store anything in this one.
            self.fetch(BlockRun { first: entry.block, count: 1 });
        }
    }

    /// Reads slots again, each alone, after a read of several slots failed. If other slots are
    /// being read again already, these slots are skipped, because the next read of them fails
    /// again.
    pub(super) fn look_again(&mut self, entries: Vec<(Slot, Entry)>) {
        let Some(&(slot, _)) = entries.last().filter(|_| !self.scrub.looking && self.view.slots_readable()) else {
            return;
        };
        self.scrub.looking = true;
        let task = self.begin_task(Job::Running);
        self.read_to_scrub(task, slot, 1);
        self.put_job(
            task,
            Job::Scrub(ScrubJob { entries: Vec::new(), again: entries, tries_left: READ_TRIES, for_read: true }),
        );
    }

    /// Counts the end of a comparison of `blocks` blocks.
    pub(super) fn note_scrubbed(&mut self, blocks: u64) {
        self.scrub.read_ended(blocks, false);
    }

    pub(super) fn note_found(&mut self, bad: BadBlock) {
        let has_pieces = self.view.map.pieces(bad.block).len() > 1;
        self.scrub.found(bad, has_pieces);
    }

    /// Returns the errors of the block map in `count` slots from `from` on, in words; not
    /// necessarily all. The block map has no error at any time, so an error here is a fault of the
    /// program or of the machine's memory.
    pub fn check_slots(&self, from: Slot, count: u32) -> Vec<String> {
        let mut wrong = Vec::new();
        let end = from.0.saturating_add(count).min(self.view.map.slots());
        for slot in (from.0..end).map(Slot) {
            let Some(entry) = self.view.map.in_slot(slot) else { continue };
            let Entry { block, valid, dirty, .. } = entry;
            let place = || format!("slot {} (block {})", slot.0, block.0);
            if block.0 >= self.view.layout.total_blocks() {
                wrong.push(format!("{}: the block does not exist", place()));
            }
            let pieces = self.view.map.pieces(block);
            if !pieces.iter().any(|(found, _)| *found == slot) {
                wrong.push(format!("{}: the index of blocks does not lead to the slot", place()));
            }
            if pieces.iter().any(|(other, piece)| *other != slot && !piece.valid.intersection(valid).is_empty()) {
                wrong.push(format!("{}: another slot has some of the same eighths", place()));
            }
            if valid.is_empty() {
                wrong.push(format!("{}: the slot is in use without valid content", place()));
            }
            if (self.view.map.next_dirty(slot) == Some(slot)) != dirty {
                wrong.push(format!("{}: the two lists of dirty slots disagree about the slot", place()));
            }
            if wrong.len() >= WRONG_MAX {
                break;
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanoseconds = Nanoseconds::ZERO;

    fn begun(rate: Option<Bytes>, blocks: u64) -> Scrubber {
        let mut scrub = Scrubber::default();
        scrub.begin(NOW, rate, VecDeque::new(), blocks);
        scrub
    }

    fn progress(scrub: &Scrubber) -> &Scrub {
        &scrub.scrubbing.as_ref().expect("a scrub began").found
    }

    fn begin_read(scrub: &mut Scrubber, bytes: Bytes) {
        scrub.scrubbing.as_mut().expect("a scrub began").reads += 1;
        scrub.read_begun(NOW, bytes);
    }

    #[test]
    fn scrub_ends_after_its_last_read() {
        let mut scrub = begun(None, 256);
        assert_eq!(scrub.step(NOW, false, 1), Step::Read);
        begin_read(&mut scrub, Bytes::from_mib(1));
        assert_eq!(scrub.step(NOW, false, 1), Step::Wait, "one read at a time");
        assert!(!scrub.nothing_left(), "a read is under way");
        scrub.read_ended(256, false);
        assert!(scrub.nothing_left());
        scrub.end(NOW);
        assert_eq!(scrub.step(NOW, false, 1), Step::Wait);
        let Scrub { blocks_read, blocks_left, finished, interrupted, .. } = *progress(&scrub);
        assert_eq!((blocks_read, blocks_left, finished, interrupted), (256, 0, true, false));
    }

    #[test]
    fn scrub_that_is_over_early_was_interrupted() {
        let mut scrub = begun(None, 256);
        begin_read(&mut scrub, Bytes::from_mib(1));
        assert_eq!(scrub.step(NOW, true, 1), Step::Wait, "its read is under way");
        scrub.read_ended(128, false);
        assert_eq!(scrub.step(NOW, true, 1), Step::Ended);
        scrub.end(NOW);
        assert!(progress(&scrub).interrupted && progress(&scrub).finished);
    }

    #[test]
    fn rate_delays_the_next_read_and_only_a_higher_rate_replaces_it() {
        let mut scrub = begun(Some(Bytes::from_mib(1)), 999);
        begin_read(&mut scrub, Bytes::from_mib(2));
        let at = Nanoseconds::from_seconds(2);
        assert_eq!((scrub.goes_on_at(NOW), scrub.step(NOW, false, 9)), (Some(at), Step::Wait));
        scrub.begin(NOW, Some(Bytes(1)), VecDeque::new(), 999);
        assert_eq!(scrub.goes_on_at(NOW), Some(at));
        scrub.begin(NOW, None, VecDeque::new(), 999);
        assert_eq!((scrub.goes_on_at(NOW), scrub.step(NOW, false, 9)), (None, Step::Read));
    }

    #[test]
    fn block_of_several_bad_pieces_counts_once() {
        let mut scrub = begun(None, 9);
        let bad = BadBlock { block: Block(4), outcome: Outcome::NoGoodCopy };
        [true, true].into_iter().for_each(|has_pieces| scrub.found(bad, has_pieces));
        scrub.found(BadBlock { block: Block(5), outcome: Outcome::GivenUp }, false);
        assert_eq!((progress(&scrub).bad_blocks, progress(&scrub).lost_blocks), (2, 1));
    }
}
