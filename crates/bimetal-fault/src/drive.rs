//! A drive in memory: stores sectors, answers in any order, and fails as its [`Plan`] says.
//!
//! An operation takes effect when it completes. A read may see concurrent writes, sector by sector.
//! A failed write leaves each of its sectors with the old content, with the new content, or
//! unreadable. The drive knows the changes since the last flush ([`Drive::is_stable`]). A [power
//! cut](Drive::power_cut) may lose these changes.

use std::collections::{BTreeMap, BTreeSet};

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Nanoseconds, SectorRange};

use crate::content::Content;
use crate::older::Older;
use crate::payload::{Sector, Tags};
use crate::random::Random;
use crate::write_cache::{Change, Manner, WriteCache};

/// Rate of each kind of fault of a drive: a rate of n is one fault in n operations; 0 is no fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Reads that fail once and would succeed when retried.
    pub read_error: u64,
    /// Writes that leave their sectors old, new or unreadable until they are written again.
    pub write_error: u64,
    /// Reads and writes that transfer only a part of their range.
    pub short: u64,
    /// Flushes that fail and make nothing stable.
    pub flush_error: u64,
    /// Set if no later flush makes the changes stable that a failed flush did not make stable.
    /// After such a failed flush the drive, or a layer above the drive, takes the data for written.
    pub forgets: bool,
    /// Operations that take seconds.
    pub stuck: u64,
    /// Set if the drive cannot discard.
    pub no_discard: bool,
    /// Number of the operation from which on the drive refuses writes. Data that was written before
    /// stays readable.
    pub refuses_from: Option<u64>,
    /// Set if the drive also refuses flushes once it refuses writes.
    pub refuses_flushes: bool,
    /// Lie of the drive, such as a write that is acknowledged and dropped. No scheme survives a
    /// lie, and the tester must notice each lie.
    pub lie: Option<Lie>,
}

/// Lie of a drive: a violation of its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Acknowledges a write and drops the written content.
    DropsWrites,
    /// Stores a write at a wrong address.
    SwapsWrites,
    /// Returns the content from before the last write.
    ReadsStale,
    /// Acknowledges a flush and makes nothing stable.
    DropsFlushes,
    /// Acknowledges a write of which only the first half is stored.
    TearsWrites,
}

struct InFlight {
    operation: Operation<Tags>,
    due: Nanoseconds,
    /// Number of changes completed when the operation began.
    begun: u64,
}

/// An operation that has ended.
pub struct Ended {
    /// The operation.
    pub operation: Operation<Tags>,
    /// Completion for the engine.
    pub completion: Completion<Tags>,
    /// Sectors that the operation made unreadable.
    pub spoilt: Vec<u64>,
}

/// See the [module](self).
pub struct Drive {
    capacity: u64,
    plan: Plan,
    latency: Nanoseconds,
    content: Content,
    unreadable: BTreeSet<u64>,
    /// Number of completed changes, and number of the last change that a flush made stable.
    changes: u64,
    stable: u64,
    /// Ranges of changes that no flush makes stable any more: after the change with the first
    /// number, up to the change with the second.
    forgotten: Vec<(u64, u64)>,
    in_flight: Vec<InFlight>,
    /// Number of operations started.
    started: u64,
    /// Time that operations took longer because the drive was stuck.
    stuck_for: Nanoseconds,
    /// Changes that a power cut may lose, in cases with power cuts.
    cache: Option<WriteCache>,
    gone: bool,
    /// Content from before the last write, for a drive whose lie is to return old content.
    before: BTreeMap<u64, Sector>,
    /// Older content of sectors, if a case needs older content.
    older: Option<Older>,
}

impl Drive {
    /// Creates an empty drive of `capacity` sectors whose operations take around `latency`.
    pub fn new(capacity: u64, latency: Nanoseconds, plan: Plan) -> Self {
        Self {
            capacity,
            plan,
            latency,
            content: Content::default(),
            unreadable: BTreeSet::new(),
            changes: 0,
            stable: 0,
            forgotten: Vec::new(),
            in_flight: Vec::new(),
            started: 0,
            stuck_for: Nanoseconds::ZERO,
            cache: None,
            gone: false,
            before: BTreeMap::new(),
            older: None,
        }
    }

    /// Makes the drive remember the older content of its sectors outside of `home`.
    pub fn with_older_content(mut self, home: SectorRange) -> Self {
        self.older = Some(Older::outside(home));
        self
    }

    /// Returns the content of a sector before its last `writes` writes; `None` if the drive has not
    /// kept this content.
    pub fn older(&self, sector: u64, writes: usize) -> Option<&Sector> {
        self.older.as_ref()?.get(sector, writes)
    }

    /// Makes the drive remember from now on the changes that a [power cut](Self::power_cut) may
    /// lose.
    pub fn with_write_cache(mut self) -> Self {
        self.cache = Some(WriteCache::default());
        self
    }

    /// Cuts the power. Operations in flight are forgotten and may have been stored in part. Any
    /// part of the unflushed changes is lost. The remaining content is stable. Returns the manner
    /// of the cut, and the sectors that are unreadable because the cut has lost the write that had
    /// repaired these sectors.
    ///
    /// # Panics
    ///
    /// Panics if the drive was made without [a write cache](Self::with_write_cache).
    pub fn power_cut(&mut self, random: &mut Random) -> (Manner, Vec<u64>) {
        let under_way = std::mem::take(&mut self.in_flight);
        let mut landing = Vec::new();
        for InFlight { operation, .. } in under_way {
            let Command { kind, range, .. } = operation.command;
            if self.gone
                || self.is_refusing()
                || !kind.changes_content()
                || (kind == OpKind::Discard && self.plan.no_discard)
            {
                continue;
            }
            self.changes += 1;
            let mut change = Change::new(self.changes);
            let written = kind == OpKind::Write;
            change.push_all(range.start.0, if written { operation.payload } else { Tags::zeroes(range.len) });
            landing.push(change);
        }
        let cache = self.cache.as_mut().expect("a drive that loses power has a write cache");
        let (manner, unreadable) = cache.cut(&mut self.content, landing, random);
        self.unreadable.extend(&unreadable);
        self.stable = self.changes;
        self.forgotten.clear();
        (manner, unreadable)
    }

    /// Returns the size in sectors.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of completed changes of the content.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns true if the drive has vanished.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Replaces the plan of faults. Returns the previous plan.
    pub fn replace_plan(&mut self, plan: Plan) -> Plan {
        std::mem::replace(&mut self.plan, plan)
    }

    /// Ends passing faults. Lasting faults remain.
    pub fn calm(&mut self) {
        let Plan { lie, no_discard, forgets, refuses_from, refuses_flushes, .. } = self.plan;
        self.plan = Plan { lie, no_discard, forgets, refuses_from, refuses_flushes, ..Plan::default() };
    }

    /// Returns true if the drive refuses writes.
    pub fn is_refusing(&self) -> bool {
        self.plan.refuses_from.is_some_and(|from| self.started >= from)
    }

    /// Returns the content of a sector.
    pub fn content(&self, sector: u64) -> Sector {
        self.content.sector(sector)
    }

    /// Returns true if the content of a sector is `value`.
    pub fn holds(&self, sector: u64, value: &Sector) -> bool {
        self.content.get(sector).map_or(*value == Sector::Zero, |(content, _)| content == value)
    }

    /// Returns true if the content of a sector would survive a power cut.
    pub fn is_stable(&self, sector: u64) -> bool {
        self.content.change(sector) <= self.stable && !self.is_forgotten(sector)
    }

    /// Returns true if a failed flush was to make the content of a sector stable, or if the drive
    /// vanished before the content was stable. Only another write of the sector, with a flush after
    /// it, makes its content stable.
    pub fn is_forgotten(&self, sector: u64) -> bool {
        is_in(&self.forgotten, self.content.change(sector))
    }

    /// Returns true if a failed flush may make the drive forget content, or has done so.
    pub fn may_forget(&self) -> bool {
        self.plan.forgets && self.plan.flush_error > 0 || !self.forgotten.is_empty()
    }

    /// Returns the sectors that a power cut may take back in spite of a successful flush, because
    /// an earlier flush failed.
    pub fn forgotten(&self) -> BTreeSet<u64> {
        self.missing(&self.forgotten)
    }

    /// Returns the forgotten sectors for which the last failed flush is the reason.
    pub fn forgotten_last(&self) -> BTreeSet<u64> {
        self.missing(&self.forgotten[self.forgotten.len().saturating_sub(1)..])
    }

    fn missing(&self, changes: &[(u64, u64)]) -> BTreeSet<u64> {
        let cache = self.cache.iter().filter(|_| !changes.is_empty());
        cache.flat_map(|cache| cache.missing(|change| is_in(changes, change))).collect()
    }

    /// Returns true if a sector cannot be read until it is written again.
    pub fn is_unreadable(&self, sector: u64) -> bool {
        self.unreadable.contains(&sector)
    }

    /// Makes a sector unreadable until it is written again.
    pub fn spoil(&mut self, sector: u64) {
        self.unreadable.insert(sector);
    }

    /// Changes the content of a sector without an error.
    pub fn rot(&mut self, sector: u64) {
        self.replace(sector, Sector::Rotten(sector as u32));
    }

    /// Replaces the content of a sector, on the medium too, without a write.
    pub fn replace(&mut self, sector: u64, value: Sector) {
        if let Some(cache) = &mut self.cache {
            cache.set_stable(sector, value.clone(), self.changes);
        }
        self.content.set(sector, value, 0);
    }

    /// Makes the drive vanish: all operations in flight, and all later operations, end as
    /// [`Status::Gone`].
    pub fn vanish(&mut self) {
        self.gone = true;
        self.forgotten.push((self.stable, self.changes));
    }

    /// Makes a drive that had vanished answer again, with the content that it had. No flush covers
    /// the changes that were not stable when it vanished.
    pub fn come_back(&mut self) {
        self.gone = false;
    }

    /// Carries out some of the changes under way, of which the host does not learn.
    pub fn carry_out_some(&mut self, random: &mut Random) {
        let changes = |in_flight: &&InFlight| in_flight.operation.command.kind == OpKind::Write;
        let under_way = self.in_flight.iter().filter(changes).map(|in_flight| in_flight.operation.clone());
        for operation in under_way.collect::<Vec<_>>() {
            if random.one_in(2) && !self.is_refusing() {
                // What becomes unreadable here stays so, as at any write.
                self.write(&operation, random, &mut Vec::new());
            }
        }
    }

    /// Makes all content of the drive stable, as if its power had stayed on.
    pub fn keep_unflushed(&mut self) {
        self.stable = self.changes;
        self.forgotten.clear();
        if let Some(cache) = &mut self.cache {
            cache.flush(self.stable, |_| false);
        }
    }

    /// Returns an operation in flight that shares a sector with `range` and is of a `wanted` kind.
    pub fn under_way(&self, range: SectorRange, wanted: impl Fn(OpKind) -> bool) -> Option<&Operation<Tags>> {
        let mut operations = self.in_flight.iter().map(|in_flight| &in_flight.operation);
        operations.find(|other| wanted(other.command.kind) && other.command.range.overlaps(range))
    }

    /// Returns the number of operations in flight.
    pub fn busy(&self) -> usize {
        self.in_flight.len()
    }

    /// Starts an operation.
    pub fn start(&mut self, now: Nanoseconds, operation: Operation<Tags>, random: &mut Random) {
        let mut latency = random.around(self.latency);
        if random.one_in(50) {
            latency = Nanoseconds(latency.0 * 50);
        }
        if random.one_in(self.plan.stuck) {
            let longer = random.around(Nanoseconds::from_seconds(5));
            latency += longer;
            self.stuck_for += longer;
        }
        self.started += 1;
        self.in_flight.push(InFlight { operation, due: now + latency, begun: self.changes });
    }

    /// Delays the operation that started last by `longer`, as a stuck drive would. Returns the time
    /// at which the operation is due.
    ///
    /// # Panics
    ///
    /// Panics if no operation is under way.
    pub fn delay_last(&mut self, longer: Nanoseconds) -> Nanoseconds {
        let last = self.in_flight.last_mut().expect("an operation that started just now");
        last.due += longer;
        self.stuck_for += longer;
        last.due
    }

    /// Returns the time that operations took longer because the drive was stuck.
    pub fn stuck_for(&self) -> Nanoseconds {
        self.stuck_for
    }

    /// Returns the time at which the next operation ends.
    pub fn next_due(&self) -> Option<Nanoseconds> {
        self.in_flight.iter().map(|in_flight| in_flight.due).min()
    }

    /// Ends the operation that is due first.
    pub fn end_next(&mut self, random: &mut Random) -> Option<Ended> {
        let first = self.in_flight.iter().enumerate().min_by_key(|(_, in_flight)| in_flight.due)?.0;
        let InFlight { operation, begun, .. } = self.in_flight.swap_remove(first);
        let mut spoilt = Vec::new();
        let kind = operation.command.kind;
        let refused = kind.changes_content() || (kind == OpKind::Flush && self.plan.refuses_flushes);
        let (status, payload) = if self.gone {
            (Status::Gone, Tags::empty())
        } else if refused && self.is_refusing() {
            (Status::MediaError, Tags::empty())
        } else {
            match kind {
                OpKind::Read => self.read(operation.command.range, random),
                OpKind::Write => (self.write(&operation, random, &mut spoilt), Tags::empty()),
                OpKind::WriteZeroes => (self.write(&operation, random, &mut spoilt), Tags::empty()),
                OpKind::Discard => (self.discard(operation.command.range, random), Tags::empty()),
                OpKind::Flush => (self.flush(begun, random), Tags::empty()),
                OpKind::Hint => (Status::Unsupported, Tags::empty()),
            }
        };
        let completion = Completion { token: operation.token, status, payload };
        Some(Ended { operation, completion, spoilt })
    }

    fn read(&mut self, range: SectorRange, random: &mut Random) -> (Status, Tags) {
        let sectors = range.start.0..range.end().0;
        if random.one_in(self.plan.read_error) || self.unreadable.range(sectors.clone()).next().is_some() {
            return (Status::MediaError, Tags::empty());
        }
        if random.one_in(self.plan.short) {
            return (Status::Short(random.below(range.len.0) as u32), Tags::empty());
        }
        let stale = self.plan.lie == Some(Lie::ReadsStale) && random.one_in(4);
        let newer = self.under_way(range, |kind| matches!(kind, OpKind::Write | OpKind::WriteZeroes)).cloned();
        let sector = |at: u64, random: &mut Random| match &newer {
            Some(other) if random.one_in(2) && contains(other.command.range, at) => value_of(other, at),
            _ if stale => self.before.get(&at).cloned().unwrap_or_else(|| self.content(at)),
            _ => self.content(at),
        };
        (Status::Done, sectors.map(|at| sector(at, random)).collect())
    }

    fn write(&mut self, operation: &Operation<Tags>, random: &mut Random, spoilt: &mut Vec<u64>) -> Status {
        let range = operation.command.range;
        let fails = random.one_in(self.plan.write_error);
        let short = random.one_in(self.plan.short);
        let mut done = if short { random.below(range.len.0) } else { range.len.0 };
        self.changes += 1;
        let mut shift = 0;
        match self.plan.lie {
            Some(Lie::DropsWrites) if random.one_in(10) => done = 0,
            Some(Lie::TearsWrites) if random.one_in(10) => done /= 2,
            Some(Lie::SwapsWrites) if random.one_in(10) && range.end().0 + 8 <= self.capacity => shift = 8,
            _ => {}
        }
        let mut change = Change::new(self.changes);
        let mut values = operation.payload.iter();
        for at in range.start.0..range.start.0 + done {
            let value = values.next().unwrap_or_default();
            let at = at + shift;
            match if fails { random.below(3) } else { 0 } {
                0 => self.store(at, value, operation.command.fua, &mut change),
                1 => {}
                _ => {
                    self.unreadable.insert(at);
                    spoilt.push(at);
                }
            }
        }
        self.remember(change);
        if fails {
            Status::MediaError
        } else if short {
            Status::Short(done as u32)
        } else {
            Status::Done
        }
    }

    fn store(&mut self, at: u64, value: Sector, stable: bool, change: &mut Change) {
        if let Some(cache) = &mut self.cache {
            if stable {
                cache.set_stable(at, value.clone(), self.changes);
            } else {
                change.push(at, value.clone());
            }
        }
        let old = self.content.set(at, value, if stable { 0 } else { self.changes });
        if self.plan.lie == Some(Lie::ReadsStale) {
            self.before.insert(at, old);
        } else if let Some(older) = &mut self.older {
            older.push(at, old);
        }
        if !self.unreadable.is_empty() && self.unreadable.remove(&at) && !stable {
            change.repaired.push(at);
        }
    }

    fn remember(&mut self, change: Change) {
        if let Some(cache) = &mut self.cache {
            cache.keep(change);
        }
    }

    fn discard(&mut self, range: SectorRange, random: &mut Random) -> Status {
        if self.plan.no_discard {
            return Status::Unsupported;
        }
        if random.one_in(self.plan.write_error) {
            return Status::MediaError;
        }
        // A drive may zero discarded sectors, keep them, or do either sector by sector.
        let manner = random.below(3);
        self.changes += 1;
        let mut change = Change::new(self.changes);
        for at in range.start.0..range.end().0 {
            if manner == 0 || (manner == 1 && random.one_in(2)) {
                self.store(at, Sector::Zero, false, &mut change);
            }
        }
        self.remember(change);
        Status::Done
    }

    fn flush(&mut self, begun: u64, random: &mut Random) -> Status {
        if random.one_in(self.plan.flush_error) {
            if self.plan.forgets {
                self.forgotten.push((self.stable, begun));
            }
            return Status::MediaError;
        }
        if self.plan.lie != Some(Lie::DropsFlushes) {
            self.stable = self.stable.max(begun);
            if let Some(cache) = &mut self.cache {
                cache.flush(self.stable, |change| is_in(&self.forgotten, change));
            }
        }
        Status::Done
    }
}

fn is_in(changes: &[(u64, u64)], change: u64) -> bool {
    changes.iter().any(|&(after, up_to)| after < change && change <= up_to)
}

fn contains(range: SectorRange, at: u64) -> bool {
    range.start.0 <= at && at < range.end().0
}

/// Returns the content that `write` gives to sector `at` of its drive.
fn value_of(write: &Operation<Tags>, at: u64) -> Sector {
    let into = at - write.command.range.start.0;
    write.payload.at(into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::operation::Token;

    fn operation(kind: OpKind, start: u64, len: u64, request: u32) -> Operation<Tags> {
        let payload = if kind == OpKind::Write { Tags::written(request, start, len) } else { Tags::empty() };
        let command = Command { kind, range: SectorRange::new(start, len), fua: false };
        Operation { token: Token(u64::from(request)), target: 0, command, payload }
    }

    fn run(drive: &mut Drive, operation: Operation<Tags>, random: &mut Random) -> Completion<Tags> {
        drive.start(Nanoseconds::ZERO, operation, random);
        drive.end_next(random).unwrap().completion
    }

    #[test]
    fn what_was_written_reads_back_and_is_stable_after_a_flush() {
        let mut random = Random::new(1);
        let mut drive = Drive::new(1000, Nanoseconds(100), Plan::default());
        run(&mut drive, operation(OpKind::Write, 10, 8, 1), &mut random);
        assert!(!drive.is_stable(10));
        run(&mut drive, operation(OpKind::Flush, 0, 0, 2), &mut random);
        assert!(drive.is_stable(10));
        let read = run(&mut drive, operation(OpKind::Read, 12, 2, 3), &mut random);
        assert_eq!(read.payload, Tags::written(1, 12, 2));
    }

    #[test]
    fn a_flush_does_not_cover_what_completes_after_it_began() {
        let mut random = Random::new(1);
        let mut drive = Drive::new(1000, Nanoseconds(1), Plan::default());
        let begun = drive.changes;
        run(&mut drive, operation(OpKind::Write, 10, 8, 1), &mut random);
        assert_eq!(drive.flush(begun, &mut random), Status::Done);
        assert!(!drive.is_stable(10));
    }

    /// A power cut keeps flushed and forced writes and all operations under way end. Other writes
    /// may be lost, sector by sector.
    #[test]
    fn power_cut_keeps_flushed_and_forced_writes() {
        let mut random = Random::new(1);
        let mut untouched = 0;
        for _ in 0..200 {
            let mut drive = Drive::new(1000, Nanoseconds(100), Plan::default()).with_write_cache();
            run(&mut drive, operation(OpKind::Write, 10, 8, 1), &mut random);
            run(&mut drive, operation(OpKind::Flush, 0, 0, 2), &mut random);
            run(&mut drive, operation(OpKind::Write, 14, 8, 3), &mut random);
            let mut forced = operation(OpKind::Write, 100, 1, 4);
            forced.command.fua = true;
            run(&mut drive, forced, &mut random);
            drive.start(Nanoseconds::ZERO, operation(OpKind::Write, 12, 1, 5), &mut random);
            drive.power_cut(&mut random);
            assert_eq!((drive.busy(), drive.is_stable(14)), (0, true));
            let value = |at: u64, request: u32| Sector::Data { request, sector: at as u32 };
            assert_eq!((drive.content(10), drive.content(100)), (value(10, 1), value(100, 4)));
            assert!([value(12, 1), value(12, 5)].contains(&drive.content(12)));
            assert!([value(14, 1), value(14, 3)].contains(&drive.content(14)));
            assert!([Sector::Zero, value(20, 3)].contains(&drive.content(20)));
            untouched += u32::from(drive.content(20) == Sector::Zero);
        }
        assert!((20..180).contains(&untouched), "{untouched}");
    }

    #[test]
    fn a_spoilt_sector_is_an_error_until_it_is_written() {
        let mut random = Random::new(1);
        let mut drive = Drive::new(1000, Nanoseconds(1), Plan::default());
        drive.spoil(11);
        assert_eq!(run(&mut drive, operation(OpKind::Read, 8, 8, 1), &mut random).status, Status::MediaError);
        run(&mut drive, operation(OpKind::Write, 11, 1, 2), &mut random);
        assert_eq!(run(&mut drive, operation(OpKind::Read, 8, 8, 3), &mut random).status, Status::Done);
    }

    #[test]
    fn a_drive_that_vanished_says_so() {
        let mut random = Random::new(1);
        let mut drive = Drive::new(1000, Nanoseconds(1), Plan::default());
        drive.start(Nanoseconds::ZERO, operation(OpKind::Read, 0, 8, 1), &mut random);
        drive.vanish();
        assert_eq!(drive.end_next(&mut random).unwrap().completion.status, Status::Gone);
    }
}
