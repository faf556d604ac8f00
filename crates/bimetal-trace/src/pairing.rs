//! Finds the completion of each request, for its response time: in formats that record requests and
//! completions, and in live recordings.
//!
//! Requests wait, in order, until the first of them is complete or has waited longer than a
//! [`Patience`]. A request without a completion by that time is handed out without a response time.
//! A completion ends the oldest request with exactly its range. If no request has exactly this
//! range (requests were merged or split on their way to the drive), each sector of the completion
//! is covered in one of the requests that overlap the completion. A request is complete once every
//! sector of it is covered.
//!
//! A drive may return an issued request to the queue. The request's second issue is no request of
//! its own.
//!
//! A file system on a partition queues requests for the partition, and the disk completes them,
//! with sectors of the disk. So a device that queues and never completes is a part of the device
//! with the same major number that completes its requests.
//!
//! Further facts, as seen on Linux 6.18:
//!
//! * A flush is queued as `FWS 0 + 0`, issued as `FF 0 + 0`, completed as `FF −1 + 0`. One flush of
//!   the drive may serve several queued flushes; each of them then completes as `WS 0 + 0`. If the
//!   trace lacks the completions `WS 0 + 0`, the drive's flushes complete the queued flushes, in
//!   order.
//! * A write with a preflush (`FWFS`) is a flush and a write when it is queued, and is issued in
//!   parts. The write completes as a write, and once more with length 0 when it is stable. No event
//!   reports the end of the flush of such a write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

use crate::entry::{Entry, Moment};

/// Time that a FUA write waits for the completion of length 0. Drives with native force unit access
/// give no such completion.
const PATIENCE_STABLE: Nanoseconds = Nanoseconds::from_seconds(2);

/// Limits for requests that wait for their completions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Largest number of requests that may wait.
    pub(crate) requests: usize,
    /// Longest wait, in the time of the trace.
    pub(crate) time: Nanoseconds,
}

/// Class of completion that a request waits for. Requests of one class pair with the same
/// completions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    Read,
    /// Writes, and writes of zeroes: not all tools tell the two apart.
    Write,
    Discard,
    Hint,
    /// A flush that was issued to the drive.
    IssuedFlush,
    /// A flush that was queued, before the drive has done a flush for it.
    QueuedFlush,
    /// A queued flush for which the drive has done a flush. The completion of such a queued flush
    /// may still come.
    ServedFlush,
    /// A FUA write that has completed as a write. A completion of length 0 reports that the write
    /// is stable.
    UnstableWrite,
}

/// Number of classes with sectors, which are the first of [`Class`].
const CLASSES_WITH_SECTORS: usize = 4;

impl Class {
    fn of_data(kind: OpKind) -> Self {
        match kind {
            OpKind::Read => Class::Read,
            OpKind::Write | OpKind::WriteZeroes => Class::Write,
            OpKind::Discard => Class::Discard,
            OpKind::Hint => Class::Hint,
            OpKind::Flush => unreachable!("a flush has no data"),
        }
    }

    fn of_request(entry: &Entry) -> Self {
        match (entry.kind, entry.moment) {
            (OpKind::Flush, Moment::Queued) => Class::QueuedFlush,
            (OpKind::Flush, _) => Class::IssuedFlush,
            (kind, _) => Class::of_data(kind),
        }
    }
}

struct Waiting {
    /// The request with its response time so far, which is final once it waits for no completion.
    entry: Entry,
    /// Number of sectors whose completion was not seen.
    open_sectors: u64,
    /// Class of completion that the request waits for; `None` if the request waits for no
    /// completion.
    class: Option<Class>,
}

/// Requests in order of time that wait for their completions.
pub(crate) struct Pairing {
    patience: Patience,
    waiting: VecDeque<Waiting>,
    /// Number of the first request in `waiting`.
    first: u64,
    /// Device, class, first sector and number of each request that waits for a completion.
    open: BTreeSet<(u32, Class, u64, u64)>,
    /// Device, class, first sector and length of the issued requests that went back to the queue.
    requeued: BTreeSet<(u32, Class, u64, u64)>,
    /// Devices of requests, and devices of completions.
    requesting: BTreeSet<u32>,
    completing: BTreeSet<u32>,
    /// Major and minor number of each device.
    names: BTreeMap<u32, (u32, u32)>,
    /// The disk of each partition.
    disks: BTreeMap<u32, u32>,
    /// Length of the longest range in `open`, by class. This length bounds how far before a
    /// completion an overlapping request may start.
    sectors_max: [u64; CLASSES_WITH_SECTORS],
    /// Numbers of the requests that a completion overlaps; kept to save allocations.
    touched: Vec<u64>,
    now: Nanoseconds,
    unpaired: u64,
}

impl Pairing {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            patience,
            waiting: VecDeque::new(),
            first: 0,
            open: BTreeSet::new(),
            requeued: BTreeSet::new(),
            requesting: BTreeSet::new(),
            completing: BTreeSet::new(),
            names: BTreeMap::new(),
            disks: BTreeMap::new(),
            sectors_max: [0; CLASSES_WITH_SECTORS],
            touched: Vec::new(),
            now: Nanoseconds::ZERO,
            unpaired: 0,
        }
    }

    /// Takes the next entry, a request or a completion, in order of time. Requests are all queued
    /// or all issued.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.now = entry.time;
        match entry.moment {
            Moment::Completed => {
                self.completing.insert(entry.device);
                self.complete(&entry);
            }
            Moment::Requeued => self.requeue(&entry),
            Moment::Only | Moment::Queued | Moment::Issued => {
                self.requesting.insert(entry.device);
                let device = self.disks.get(&entry.device).copied().unwrap_or(entry.device);
                self.arrive(Entry { device, ..entry });
            }
        }
    }

    /// Removes the earliest request once it is complete or has waited too long; if `all` is set,
    /// removes it in any case.
    pub(crate) fn pop(&mut self, all: bool) -> Option<Entry> {
        let head = self.waiting.front()?;
        if head.class.is_some() && !all && !self.is_given_up(head) {
            return None;
        }
        let number = self.first;
        self.become_class(number, None);
        let head = self.waiting.pop_front()?;
        self.first += 1;
        Some(head.entry)
    }

    /// Returns the number of requests handed out without a completion that might still have come.
    pub(crate) fn unpaired(&self) -> u64 {
        self.unpaired
    }

    fn is_given_up(&self, head: &Waiting) -> bool {
        let age = self.now.saturating_sub(head.entry.time);
        let age_when_done = head.entry.response.unwrap_or_default();
        self.waiting.len() > self.patience.requests
            || age > self.patience.time
            || (head.class == Some(Class::UnstableWrite) && age.saturating_sub(age_when_done) > PATIENCE_STABLE)
    }

    fn key(entry: &Entry) -> (u32, Class, u64, u64) {
        (entry.device, Class::of_request(entry), entry.range.start.0, entry.range.len.0)
    }

    /// Takes the return of an issued request to the queue.
    fn requeue(&mut self, entry: &Entry) {
        let key = Self::key(entry);
        if self.exact(key.0, key.1, entry.range).is_some() {
            self.requeued.insert(key);
        }
    }

    fn arrive(&mut self, entry: Entry) {
        let was_requeued = entry.moment == Moment::Issued && self.requeued.remove(&Self::key(&entry));
        if was_requeued && self.exact(entry.device, Class::of_request(&entry), entry.range).is_some() {
            return;
        }
        // Issued requests are already split: their flushes are requests of their own.
        if entry.preflush && entry.moment == Moment::Queued {
            let range = SectorRange::default();
            let flush = Entry { kind: OpKind::Flush, range, fua: false, preflush: false, ..entry };
            self.waiting.push_back(Waiting { entry: flush, open_sectors: 0, class: None });
        }
        let class = Class::of_request(&entry);
        if let Some(sectors_max) = self.sectors_max.get_mut(class as usize) {
            *sectors_max = (*sectors_max).max(entry.range.len.0);
        }
        let number = self.first + self.waiting.len() as u64;
        self.open.insert((entry.device, class, entry.range.start.0, number));
        self.waiting.push_back(Waiting { entry, open_sectors: entry.range.len.0, class: Some(class) });
    }

    fn complete(&mut self, completion: &Entry) {
        match (completion.kind, completion.range.is_empty()) {
            (OpKind::Flush, _) => self.complete_flush(completion),
            (_, true) => self.complete_without_sectors(completion),
            (_, false) => self.complete_sectors(completion),
        }
        if self.open.is_empty() {
            self.sectors_max = [0; CLASSES_WITH_SECTORS];
            self.requeued.clear();
        }
    }

    /// Handles a completed flush of the drive.
    fn complete_flush(&mut self, completion: &Entry) {
        if let Some(number) = self.oldest(completion.device, Class::IssuedFlush, None) {
            self.respond(number, completion, None);
        } else if let Some(number) = self.oldest(completion.device, Class::QueuedFlush, None) {
            self.respond(number, completion, Some(Class::ServedFlush));
        }
    }

    /// Handles a completion without sectors: a write has become stable, or a queued flush is done.
    fn complete_without_sectors(&mut self, completion: &Entry) {
        let device = completion.device;
        let number = self
            .oldest(device, Class::UnstableWrite, Some(completion.range.start.0))
            .or_else(|| self.oldest(device, Class::ServedFlush, None))
            .or_else(|| self.oldest(device, Class::QueuedFlush, None));
        if let Some(number) = number {
            self.respond(number, completion, None);
        }
    }

    /// Returns the number of the oldest open request with exactly this range.
    fn exact(&self, device: u32, class: Class, range: SectorRange) -> Option<u64> {
        let SectorRange { start, len } = range;
        let same_start = self.open.range((device, class, start.0, 0)..=(device, class, start.0, u64::MAX));
        same_start.map(|key| key.3).find(|&number| self.entry(number).range.len == len)
    }

    /// Returns true if a device was not seen before.
    pub(crate) fn is_unnamed(&self, device: u32) -> bool {
        !self.requesting.contains(&device) && !self.completing.contains(&device)
    }

    /// Takes the name of a device, such as `8,1`.
    pub(crate) fn name(&mut self, device: u32, name: &str) {
        let numbers = name.split_once(',').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        if let Some(numbers) = numbers {
            self.names.insert(device, numbers);
        }
    }

    /// Returns true if a device has the name of a partition of `disk`: the same major number, and a
    /// minor number above that of the disk. A SCSI disk has 16 minor numbers.
    fn is_named_as_part(&self, part: u32, disk: u32) -> bool {
        const SCSI_MAJOR: u32 = 8;
        let (Some((major, minor)), Some((of_disk, first))) = (self.names.get(&part), self.names.get(&disk)) else {
            return false;
        };
        let within = if *major == SCSI_MAJOR { 16 } else { u32::MAX };
        major == of_disk && minor > first && minor - first < within
    }

    /// Returns the number of the oldest open request with exactly the range of `completion`, of a
    /// device that may be a partition of the completing disk. Its requests belong to the disk from
    /// now on.
    fn exact_of_partition(&mut self, completion: &Entry) -> Option<u64> {
        let disk = completion.device;
        if self.requesting.contains(&disk) {
            return None;
        }
        let (class, range) = (Class::of_data(completion.kind), completion.range);
        let may_be_part = |part: &&u32| !self.completing.contains(part) && self.is_named_as_part(**part, disk);
        let parts = self.requesting.iter().filter(may_be_part);
        let mut found = parts.filter_map(|&part| Some((part, self.exact(part, class, range)?)));
        let (part, number) = found.next()?;
        if found.next().is_some() {
            return None;
        }
        self.disks.insert(part, disk);
        for (number, waiting) in (self.first..).zip(&mut self.waiting) {
            if waiting.entry.device == part {
                waiting.entry.device = disk;
                let (start, class) = (waiting.entry.range.start.0, waiting.class);
                if let Some(class) = class.filter(|&class| self.open.remove(&(part, class, start, number))) {
                    self.open.insert((disk, class, start, number));
                }
            }
        }
        Some(number)
    }

    fn complete_sectors(&mut self, completion: &Entry) {
        let (device, class) = (completion.device, Class::of_data(completion.kind));
        let start = completion.range.start;
        let exact = self.exact(device, class, completion.range);
        if let Some(number) = exact.or_else(|| self.exact_of_partition(completion)) {
            self.respond_to_data(number, completion);
            return;
        }
        let from = (device, class, start.0.saturating_sub(self.sectors_max[class as usize]), 0);
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        touched.extend(self.open.range(from..(device, class, completion.range.end().0, 0)).map(|key| key.3));
        // Sectors before `covered` are covered: two requests for the same sectors complete twice.
        let mut covered = start.0;
        for &number in &touched {
            let waiting = self.waiting_mut(number);
            let range = waiting.entry.range;
            let (from, to) = (range.start.0.max(covered), range.end().0.min(completion.range.end().0));
            if from < to {
                covered = to;
                waiting.open_sectors = waiting.open_sectors.saturating_sub(to - from);
                if waiting.open_sectors == 0 {
                    self.respond_to_data(number, completion);
                }
            }
        }
        self.touched = touched;
    }

    fn respond_to_data(&mut self, number: u64, completion: &Entry) {
        let Entry { kind, moment, fua, preflush, .. } = *self.entry(number);
        let must_be_stable = kind == OpKind::Write && moment == Moment::Queued && (fua || preflush);
        self.respond(number, completion, must_be_stable.then_some(Class::UnstableWrite));
    }

    /// Sets the response time of a request, which then waits for class `next`.
    fn respond(&mut self, number: u64, completion: &Entry, next: Option<Class>) {
        let entry = &mut self.waiting_mut(number).entry;
        entry.response = Some(completion.time.saturating_sub(entry.time));
        self.become_class(number, next);
    }

    fn become_class(&mut self, number: u64, next: Option<Class>) {
        let waiting = self.waiting_mut(number);
        let Entry { device, range, response, .. } = waiting.entry;
        if let Some(class) = std::mem::replace(&mut waiting.class, next) {
            let was_open = self.open.remove(&(device, class, range.start.0, number));
            debug_assert!(was_open);
            self.unpaired += u64::from(response.is_none());
        }
        if let Some(class) = next {
            self.open.insert((device, class, range.start.0, number));
        }
    }

    /// Returns the number of the oldest request of a class: of the requests from sector `start` on
    /// if `start` is given, and otherwise of a class without sectors.
    fn oldest(&self, device: u32, class: Class, start: Option<u64>) -> Option<u64> {
        let start = start.unwrap_or(SectorRange::default().start.0);
        self.open.range((device, class, start, 0)..=(device, class, start, u64::MAX)).next().map(|key| key.3)
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.waiting[(number - self.first) as usize].entry
    }

    fn waiting_mut(&mut self, number: u64) -> &mut Waiting {
        &mut self.waiting[(number - self.first) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{LineFormat, tracefs::Tracefs};

    const ENDLESS: Patience = Patience { requests: 1000, time: Nanoseconds(u64::MAX) };

    /// Pairs the requests seen at `moment`. Each line: microseconds, event, letters, sector,
    /// length.
    fn pair(moment: Moment, lines: &str) -> (Vec<Entry>, u64) {
        pair_with(ENDLESS, moment, lines)
    }

    fn pair_with(patience: Patience, moment: Moment, lines: &str) -> (Vec<Entry>, u64) {
        let mut reader = Tracefs::default();
        let mut pairing = Pairing::new(patience);
        let mut entries = Vec::new();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [at, event, letters, sector, len] = fields[..] else { panic!("{line}") };
            let between = if event == "bio_queue" { "" } else { "0 () " };
            let at: u64 = at.parse().unwrap();
            let (seconds, micros) = (5 + at / 1_000_000, at % 1_000_000);
            let text = format!(
                "x-1 [000] ..... {seconds}.{micros:06}: block_{event}: 7,0 {letters} {between}{sector} + {len} [x]"
            );
            let entry = reader.entry(text.as_bytes()).unwrap();
            if let Some(entry) = entry.filter(|entry| [moment, Moment::Completed].contains(&entry.moment)) {
                pairing.push(entry);
                entries.extend(std::iter::from_fn(|| pairing.pop(false)));
            }
        }
        entries.extend(std::iter::from_fn(|| pairing.pop(true)));
        assert!(pairing.open.is_empty());
        (entries, pairing.unpaired())
    }

    /// Returns kind, first sector and response in microseconds of each entry.
    fn seen(entries: &[Entry]) -> Vec<(OpKind, u64, Option<u64>)> {
        let micros = |response: Nanoseconds| response.0 / 1000;
        entries.iter().map(|entry| (entry.kind, entry.range.start.0, entry.response.map(micros))).collect()
    }

    use Moment::{Issued, Queued};
    use OpKind::{Flush, Read, Write, WriteZeroes};

    /// Returns the entries of these events: microseconds, device, moment, first sector.
    fn paired(events: &[(u64, u32, Moment, u64)]) -> Vec<(u32, u64, Option<u64>)> {
        let mut pairing = Pairing::new(ENDLESS);
        // A disk with two partitions, a second disk with one, and a device over all.
        (0..).zip(["8,0", "8,1", "8,2", "8,16", "8,17", "253,0"]).for_each(|(device, name)| pairing.name(device, name));
        let mut entries = Vec::new();
        for &(at, device, moment, sector) in events {
            let range = SectorRange::new(sector, 8);
            pairing.push(Entry { moment, ..Entry::request(at * 1000, device, Write, range) });
            entries.extend(std::iter::from_fn(|| pairing.pop(false)));
        }
        entries.extend(std::iter::from_fn(|| pairing.pop(true)));
        assert!(pairing.open.is_empty());
        entries
            .into_iter()
            .map(|entry| (entry.device, entry.range.start.0, entry.response.map(|ns| ns.0 / 1000)))
            .collect()
    }

    /// Regression: a request that the drive returned to the queue counted twice.
    #[test]
    fn requeued_request_counts_once() {
        let events = [
            (0, 0, Issued, 100),
            (10, 0, Moment::Requeued, 100),
            (20, 0, Issued, 200),
            (30, 0, Issued, 100),
            (50, 0, Moment::Completed, 100),
            (60, 0, Moment::Completed, 200),
            (70, 0, Issued, 100),
            (75, 0, Moment::Requeued, 300),
            (80, 0, Issued, 300),
        ];
        let stale = [(0, 0, Issued, 100), (1, 0, Moment::Requeued, 100), (2, 0, Issued, 900)];
        let merged = [(3, 0, Moment::Completed, 100), (4, 0, Issued, 100), (9, 0, Moment::Completed, 100)];
        let both: Vec<_> = stale.into_iter().chain(merged).collect();
        assert_eq!(paired(&both), [(0, 100, Some(3)), (0, 900, None), (0, 100, Some(5))], "a new request");
        let expected = [(0, 100, Some(50)), (0, 200, Some(40)), (0, 100, None), (0, 300, None)];
        assert_eq!(paired(&events), expected);
    }

    /// Regression: requests to partitions had no response times, and lay on devices of their own.
    #[test]
    fn request_to_a_partition_belongs_to_its_disk() {
        use Moment::Completed;
        let events = [
            (0, 1, Queued, 100),
            (5, 2, Queued, 900),
            (10, 1, Queued, 200),
            (20, 0, Completed, 100),
            (30, 0, Completed, 900),
            (40, 0, Completed, 200),
            (50, 2, Queued, 908),
            (60, 0, Completed, 908),
        ];
        let expected = [(0, 100, Some(20)), (0, 900, Some(25)), (0, 200, Some(30)), (0, 908, Some(10))];
        assert_eq!(paired(&events), expected);
        // A device that completes its own requests, or a disk that has requests, is no part.
        let others = [(0, 1, Queued, 50), (1, 1, Completed, 50), (2, 1, Queued, 100), (3, 0, Completed, 100)];
        assert_eq!(paired(&others), [(1, 50, Some(1)), (1, 100, None)]);
        let of_disk = [(0, 0, Queued, 50), (1, 1, Queued, 100), (2, 0, Completed, 100)];
        assert_eq!(paired(&of_disk), [(0, 50, None), (1, 100, None)]);
        // The partitions of two disks have equal requests, as in a mirror.
        let mirror = [(0, 1, Queued, 100), (0, 4, Queued, 100), (5, 3, Completed, 100), (7, 0, Completed, 100)];
        assert_eq!(paired(&mirror), [(0, 100, Some(7)), (3, 100, Some(5))]);
        // A device over several disks has another major number.
        let over = [(0, 5, Queued, 100), (5, 0, Completed, 100), (6, 5, Completed, 100)];
        assert_eq!(paired(&over), [(5, 100, Some(6))]);
    }

    #[test]
    fn completions_in_any_order_find_their_requests() {
        let events = "10 rq_issue R 0 8
                      11 rq_issue R 8 8
                      15 rq_complete R 8 8
                      19 rq_complete R 0 8";
        assert_eq!(seen(&pair(Issued, events).0), [(Read, 0, Some(9)), (Read, 8, Some(4))]);
    }

    #[test]
    fn merged_requests_are_done_when_the_one_they_became_is() {
        let events = "10 bio_queue WSM 160 8
                      12 bio_queue WSM 168 8
                      20 rq_issue WSM 160 16
                      30 rq_complete WSM 160 16";
        let (entries, unpaired) = pair(Queued, events);
        assert_eq!((seen(&entries), unpaired), (vec![(Write, 160, Some(20)), (Write, 168, Some(18))], 0));
    }

    #[test]
    fn a_split_request_is_done_with_its_last_piece() {
        let events = "10 bio_queue R 0 4000
                      11 rq_issue R 0 2560
                      12 rq_issue R 2560 1440
                      50 rq_complete R 2560 1440
                      90 rq_complete R 0 2560";
        let (entries, unpaired) = pair(Queued, events);
        assert_eq!((seen(&entries), unpaired), (vec![(Read, 0, Some(80))], 0));
        assert_eq!(seen(&pair(Issued, events).0), [(Read, 0, Some(79)), (Read, 2560, Some(38))]);
    }

    #[test]
    fn of_two_requests_for_the_same_sectors_the_older_is_done_first() {
        let events = "10 bio_queue R 64 8
                      12 bio_queue R 64 8
                      20 rq_complete R 64 8
                      50 rq_complete R 64 8";
        assert_eq!(seen(&pair(Queued, events).0), [(Read, 64, Some(10)), (Read, 64, Some(38))]);
        let merged = "10 bio_queue R 64 8
                      12 bio_queue R 64 8
                      13 bio_queue R 72 8
                      20 rq_complete R 64 16
                      50 rq_complete R 64 8";
        assert_eq!(seen(&pair(Queued, merged).0), [(Read, 64, Some(10)), (Read, 64, Some(38)), (Read, 72, Some(7))]);
    }

    /// A completion ends the request of its exact range before other requests that it overlaps.
    #[test]
    fn completion_ends_the_request_of_its_exact_range_first() {
        let events = "10 rq_issue R 0 8
                      11 rq_issue R 0 16
                      20 rq_complete R 0 16
                      30 rq_complete R 0 8";
        assert_eq!(seen(&pair(Issued, events).0), [(Read, 0, Some(20)), (Read, 0, Some(9))]);
    }

    #[test]
    fn two_flushes_that_one_flush_of_the_drive_serves_are_both_done() {
        let events = "10 bio_queue FWS 0 0
                      11 bio_queue FWS 0 0
                      12 rq_issue FF 0 0
                      40 rq_complete FF 18446744073709551615 0
                      41 rq_complete WS 0 0
                      43 rq_complete WS 0 0";
        let (entries, unpaired) = pair(Queued, events);
        assert_eq!((seen(&entries), unpaired), (vec![(Flush, 0, Some(31)), (Flush, 0, Some(32))], 0));
        assert_eq!(seen(&pair(Issued, events).0), [(Flush, 0, Some(28))]);
    }

    #[test]
    fn flushes_end_with_those_of_the_drive_where_nothing_else_tells() {
        let events = "10 bio_queue FWS 0 0
                      11 bio_queue FWS 0 0
                      40 rq_complete FF 18446744073709551615 0
                      60 rq_complete FF 18446744073709551615 0";
        assert_eq!(seen(&pair(Queued, events).0), [(Flush, 0, Some(30)), (Flush, 0, Some(49))]);
    }

    /// A journal commit is a flush and a write with FUA. The write is done when it is stable.
    #[test]
    fn journal_commit_is_a_flush_and_a_fua_write() {
        let events = "10 bio_queue FWFSM 800 8
                      11 rq_issue FF 0 0
                      20 rq_complete FF 18446744073709551615 0
                      21 rq_issue WSM 800 8
                      30 rq_complete WSM 800 8
                      31 rq_issue FF 0 0
                      40 rq_complete FF 18446744073709551615 0
                      41 rq_complete WSM 800 0";
        let (entries, unpaired) = pair(Queued, events);
        assert_eq!((seen(&entries), unpaired), (vec![(Flush, 0, None), (Write, 800, Some(31))], 0));
        assert!(entries[1].fua);
        let issued = [(Flush, 0, Some(9)), (Write, 800, Some(9)), (Flush, 0, Some(9))];
        assert_eq!(seen(&pair(Issued, events).0), issued);
    }

    /// A write that the drive itself makes stable waits two seconds for a second completion. Then
    /// the write keeps the time of the first completion.
    #[test]
    fn fua_write_waits_two_seconds_for_its_second_completion() {
        let events = "10 bio_queue WFS 800 8
                      30 rq_complete WFS 800 8
                      2000031 bio_queue R 0 8
                      2000041 rq_complete WS 800 0";
        assert_eq!(seen(&pair(Queued, events).0), [(Write, 800, Some(20)), (Read, 0, None)]);
        let sooner = events.replace("2000031", "1900031").replace("2000041", "1900041");
        assert_eq!(seen(&pair(Queued, &sooner).0), [(Write, 800, Some(1_900_031)), (Read, 0, None)]);
    }

    #[test]
    fn flushes_do_not_mix_with_data_of_the_same_sector() {
        let events = "10 bio_queue WS 0 8
                      11 bio_queue FWS 0 0
                      20 rq_complete WS 0 8
                      99 rq_complete WS 0 0";
        assert_eq!(seen(&pair(Queued, events).0), [(Write, 0, Some(10)), (Flush, 0, Some(88))]);
    }

    #[test]
    fn writes_of_zeroes_are_requests() {
        let events = "10 bio_queue NS 64 4096
                      11 rq_issue NS 64 4096
                      15 rq_complete NS 64 4096";
        assert_eq!(seen(&pair(Queued, events).0), [(WriteZeroes, 64, Some(5))]);
        assert_eq!(seen(&pair(Issued, events).0), [(WriteZeroes, 64, Some(4))]);
    }

    #[test]
    fn unmatched_completions_and_requests_stay_unpaired() {
        let events = "10 rq_complete R 0 8
                      11 rq_issue R 64 8
                      12 rq_complete W 64 8
                      13 rq_complete WS 64 0
                      14 rq_issue W 0 8
                      15 rq_complete W 0 8";
        let (entries, unpaired) = pair(Issued, events);
        assert_eq!((seen(&entries), unpaired), (vec![(Read, 64, None), (Write, 0, Some(1))], 1));
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_time() {
        let mut pairing = Pairing::new(ENDLESS);
        for number in 0..ENDLESS.requests as u64 + 5 {
            let entry = Entry::request(number, 0, Read, SectorRange::new(number * 8, 8));
            pairing.push(Entry { moment: Issued, ..entry });
            while pairing.pop(false).is_some() {}
        }
        assert_eq!((pairing.waiting.len(), pairing.unpaired()), (ENDLESS.requests, 5));

        let events = "10 rq_issue R 0 8
                      3000011 rq_issue R 8 8
                      3000012 rq_complete R 0 8";
        let patience = Patience { time: Nanoseconds::from_seconds(3), ..ENDLESS };
        assert_eq!(pair_with(patience, Issued, events), {
            let (mut entries, _) = pair(Issued, events);
            entries[0].response = None;
            (entries, 2)
        });
    }
}
