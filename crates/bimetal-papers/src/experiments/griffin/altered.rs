//! Traces of which one property was changed: they show whether the property causes a difference to
//! the paper.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_trace::Request;
use bimetal_trace::analysis::Analysis;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::analysis;
use crate::experiments::{ExperimentsError, Tried, percent, tried, tried_away};
use crate::traces::Loaded;

/// Sectors of a block of 4 KiB.
const BLOCK_SECTORS: u64 = 8;

/// Sectors of the largest write that counts as small: 16 KiB.
const SMALL_SECTORS: u64 = 32;

/// Time after which a backup reads what was written.
const DAY: Nanoseconds = Nanoseconds::from_seconds(24 * 3600);

/// A property that is changed.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// Only writes of at most 16 KiB are left.
    Small,
    /// A read is left out if a buffer cache of so many MiB holds all of its blocks.
    Cached(usize),
    /// A time without arrivals lasts at most so many seconds.
    Pauses(u64),
    /// All times between arrivals are so many times as long.
    Slower(u64),
    /// The blocks that are written only once are not written.
    WithoutOnce,
    /// The blocks that are written exactly twice are not written.
    WithoutTwice,
    /// The trace is cut into so many parts of equal time, and no part touches a block of another.
    Parts(u64),
    /// The minutes that read most blocks after a write, so many of them, read nothing.
    WithoutMinutes(usize),
    /// The trace is played so many times in a row.
    Repeated(u64),
    /// A backup, a day after the trace, reads each block that was written.
    Backup,
    /// The blocks that are never written are not read.
    WithoutUnwritten,
    /// The requests come in random order, at the times of the trace.
    Shuffled,
}

impl Change {
    pub(super) fn text(self) -> String {
        match self {
            Self::Small => "without writes above 16 KiB".to_owned(),
            Self::Cached(mib) if mib % 1024 == 0 => format!("behind a buffer cache of {} GiB", mib / 1024),
            Self::Cached(mib) => format!("behind a buffer cache of {mib} MiB"),
            Self::Pauses(seconds) => format!("with pauses of at most {seconds} s"),
            Self::Slower(times) => format!("if all requests come {times} times as slowly"),
            Self::WithoutOnce => "without blocks that are written only once".to_owned(),
            Self::WithoutTwice => "without blocks that are overwritten only once".to_owned(),
            Self::Parts(count) => format!("in recordings of 1/{count} of the length"),
            Self::WithoutMinutes(1) => "without the minute that reads most written blocks".to_owned(),
            Self::WithoutMinutes(minutes) => format!("without the {minutes} minutes that read most written blocks"),
            Self::Repeated(times) => format!("if each trace is played {times} times"),
            Self::Backup => "if a backup a day later reads each block that was written".to_owned(),
            Self::WithoutUnwritten => "without the reads of blocks that are never written".to_owned(),
            Self::Shuffled => "with the requests of each trace in random order".to_owned(),
        }
    }

    /// Returns the change with the value that a figure has then.
    pub(super) fn tried(self, value: Option<f64>) -> Tried {
        match self {
            Self::Parts(_) => tried_away(self.text(), value),
            _ => tried(self.text(), value),
        }
    }

    /// Returns the trace with the property changed.
    pub(super) fn of(self, trace: &Loaded) -> Loaded {
        let all = &trace.requests;
        let requests = match self {
            Self::Small => all.iter().filter(|request| is_small(request)).copied().collect(),
            Self::Cached(mib) => cached(all, mib * 256),
            Self::Pauses(seconds) => shortened(all, Nanoseconds::from_seconds(seconds)),
            Self::Slower(times) => slowed(all, times),
            Self::WithoutOnce => without_blocks(all, OpKind::Write, |writes| writes == 1),
            Self::WithoutTwice => without_blocks(all, OpKind::Write, |writes| writes == 2),
            Self::Parts(count) => parted(all, count),
            Self::WithoutMinutes(minutes) => without_minutes(all, minutes),
            Self::Repeated(times) => repeated(all, times),
            Self::Backup => backed_up(all),
            Self::WithoutUnwritten => without_blocks(all, OpKind::Read, |writes| writes == 0),
            Self::Shuffled => shuffled(all),
        };
        Loaded { requests, queue_events: trace.queue_events, compact: trace.compact }
    }
}

/// A trace analysed as it is, and with each of several changes.
pub(super) struct Altered {
    pub(super) plain: Analysis,
    changed: Vec<(Change, Analysis)>,
    /// Share of the reads of blocks written before that a buffer cache leaves.
    left: Option<f64>,
}

impl Altered {
    pub(super) fn of(trace: &Loaded, changes: &[Change]) -> Result<Self, ExperimentsError> {
        let all = reads_after_writes(&trace.requests) as f64;
        let (mut changed, mut left) = (Vec::new(), None);
        for change in changes {
            let altered = change.of(trace);
            if matches!(change, Change::Cached(_)) && all > 0.0 {
                left = Some(reads_after_writes(&altered.requests) as f64 / all);
            }
            changed.push((*change, analysis(&altered)?));
        }
        Ok(Self { plain: analysis(trace)?, changed, left })
    }

    /// Returns the trace with its first changes alone, so many of them.
    pub(super) fn first(&self, changes: usize) -> Self {
        let changed = self.changed.iter().take(changes).cloned().collect();
        Self { plain: self.plain.clone(), changed, left: self.left }
    }

    /// Returns each change, with the analysis of the changed trace.
    pub(super) fn changes(&self) -> impl Iterator<Item = &(Change, Analysis)> {
        self.changed.iter()
    }

    /// Returns a figure with each change.
    pub(super) fn figures(&self, figure: impl Fn(&Analysis) -> Option<f64>) -> Vec<Tried> {
        self.changed.iter().map(|(change, analysis)| change.tried(figure(analysis))).collect()
    }

    /// Returns the share of the reads after writes that a buffer cache leaves, as text.
    pub(super) fn left(&self) -> String {
        self.left.map_or_else(String::new, |left| format!("the cache leaves {} of these reads", percent(Some(left))))
    }
}

fn is_small(request: &Request) -> bool {
    request.kind != OpKind::Write || request.range.len.0 <= SMALL_SECTORS
}

/// Returns the blocks that a request touches.
pub(super) fn blocks(request: &Request) -> std::ops::Range<u64> {
    let moves_data = matches!(request.kind, OpKind::Read | OpKind::Write) && request.range.len.0 > 0;
    let end = if moves_data { request.range.end().0.div_ceil(BLOCK_SECTORS) } else { 0 };
    request.range.start.0 / BLOCK_SECTORS..end
}

/// Leaves out the reads whose blocks are all among the last `capacity` blocks that were used.
fn cached(requests: &[Request], capacity: usize) -> Vec<Request> {
    let (mut last_use, mut uses, mut number) = (HashMap::new(), VecDeque::new(), 0_u64);
    let mut left = Vec::new();
    for request in requests {
        let is_held = request.kind == OpKind::Read && blocks(request).all(|block| last_use.contains_key(&block));
        for block in blocks(request) {
            last_use.insert(block, number);
            uses.push_back((block, number));
            number += 1;
            while last_use.len() > capacity {
                // Only the latest use of a block counts.
                let Some((oldest, used)) = uses.pop_front() else { break };
                if last_use.get(&oldest).is_some_and(|latest| *latest == used) {
                    last_use.remove(&oldest);
                }
            }
        }
        if !is_held {
            left.push(*request);
        }
    }
    left
}

/// Shortens each time between two arrivals to `longest`.
fn shortened(requests: &[Request], longest: Nanoseconds) -> Vec<Request> {
    let (mut before, mut now) =
        (requests.first().map(|request| request.arrival).unwrap_or_default(), Nanoseconds::ZERO);
    let moved = requests.iter().map(|request| {
        now += request.arrival.saturating_sub(before).min(longest);
        before = request.arrival;
        Request { arrival: now, ..*request }
    });
    moved.collect()
}

/// Makes each time between two arrivals `times` as long.
fn slowed(requests: &[Request], times: u64) -> Vec<Request> {
    let slower = |request: &Request| Request { arrival: Nanoseconds(request.arrival.0 * times), ..*request };
    requests.iter().map(slower).collect()
}

/// Leaves out blocks from all requests of a kind: those whose number of writes `leaves`.
fn without_blocks(requests: &[Request], kind: OpKind, leaves: impl Fn(u64) -> bool) -> Vec<Request> {
    let mut writes = HashMap::<u64, u64>::new();
    for block in requests.iter().filter(|request| request.kind == OpKind::Write).flat_map(blocks) {
        *writes.entry(block).or_default() += 1;
    }
    let mut left = Vec::new();
    for request in requests {
        if request.kind != kind {
            left.push(*request);
            continue;
        }
        let stays = |block: &u64| !leaves(writes.get(block).copied().unwrap_or_default());
        let stays: Vec<u64> = blocks(request).filter(stays).collect();
        for run in stays.chunk_by(|block, next| block + 1 == *next) {
            let range = SectorRange::new(run[0] * BLOCK_SECTORS, run.len() as u64 * BLOCK_SECTORS);
            left.push(Request { range, ..*request });
        }
    }
    left
}

/// Moves the requests of each of `count` parts of the time to addresses of their own.
fn parted(requests: &[Request], count: u64) -> Vec<Request> {
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else { return Vec::new() };
    let length = (last.arrival.saturating_sub(first.arrival).0 + 1).div_ceil(count);
    let end = requests.iter().map(|request| request.range.end().0).max().unwrap_or_default();
    let stride = end.next_multiple_of(BLOCK_SECTORS);
    let moved = requests.iter().map(|request| {
        let part = request.arrival.saturating_sub(first.arrival).0 / length;
        let range = SectorRange::new(request.range.start.0 + part * stride, request.range.len.0);
        Request { range, ..*request }
    });
    moved.collect()
}

/// Counts the reads of blocks whose access before was a write.
pub(super) fn reads_after_writes(requests: &[Request]) -> u64 {
    let (mut written, mut count) = (HashSet::new(), 0);
    for request in requests {
        for block in blocks(request) {
            if request.kind == OpKind::Write {
                written.insert(block);
            } else {
                count += u64::from(written.remove(&block));
            }
        }
    }
    count
}

/// Leaves out the reads of the minutes in which most blocks are read after a write.
fn without_minutes(requests: &[Request], minutes: usize) -> Vec<Request> {
    let minute = |request: &Request| request.arrival.0 / 60_000_000_000;
    let (mut written, mut reads) = (HashSet::new(), BTreeMap::<u64, u64>::new());
    for request in requests {
        for block in blocks(request) {
            if request.kind == OpKind::Write {
                written.insert(block);
            } else if written.remove(&block) {
                *reads.entry(minute(request)).or_default() += 1;
            }
        }
    }
    let mut reads: Vec<(u64, u64)> = reads.into_iter().collect();
    reads.sort_by_key(|(minute, blocks)| (std::cmp::Reverse(*blocks), *minute));
    let most: HashSet<u64> = reads.into_iter().take(minutes).map(|(minute, _)| minute).collect();
    let stays = |request: &&Request| request.kind != OpKind::Read || !most.contains(&minute(request));
    requests.iter().filter(stays).copied().collect()
}

/// Returns the requests so many times in a row.
fn repeated(requests: &[Request], times: u64) -> Vec<Request> {
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else { return Vec::new() };
    let length = last.arrival.saturating_sub(first.arrival).0;
    let later = |time: u64| {
        requests.iter().map(move |request| {
            let arrival = Nanoseconds(request.arrival.0 + time * length);
            Request { arrival, ..*request }
        })
    };
    (0..times).flat_map(later).collect()
}

/// Returns the requests, and a day later a read of each block that was written.
fn backed_up(requests: &[Request]) -> Vec<Request> {
    let (mut all, Some(last)) = (requests.to_vec(), requests.last()) else { return Vec::new() };
    let writes = requests.iter().filter(|request| request.kind == OpKind::Write);
    let written: BTreeSet<u64> = writes.flat_map(blocks).collect();
    all.extend(written.into_iter().map(|block| Request {
        arrival: last.arrival + DAY,
        kind: OpKind::Read,
        range: SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS),
        response: None,
        ..*last
    }));
    all
}

/// Returns the requests in random order. The first arrival stays the first, and so on: a request
/// takes the arrival of the request whose place it has.
fn shuffled(requests: &[Request]) -> Vec<Request> {
    let (mut random, mut all) = (Pcg64::seed_from_u64(1), requests.to_vec());
    for place in (1..all.len()).rev() {
        all.swap(place, (random.next_u64() % (place as u64 + 1)) as usize);
    }
    all.iter_mut().zip(requests).for_each(|(request, place)| request.arrival = place.arrival);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(seconds: u64, kind: OpKind, block: u64) -> Request {
        let range = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
        Request { arrival: Nanoseconds::from_seconds(seconds), device: 0, kind, fua: false, range, response: None }
    }

    fn changed(change: Change, requests: Vec<Request>) -> Vec<(u64, u64)> {
        let requests = change.of(&Loaded::generated(requests)).requests;
        requests
            .iter()
            .map(|request| (request.arrival.0 / 1_000_000_000, request.range.start.0 / BLOCK_SECTORS))
            .collect()
    }

    #[test]
    fn cache_holds_the_blocks_used_last() {
        let (read, write) = (OpKind::Read, OpKind::Write);
        let all = vec![
            request(0, write, 1),
            request(1, read, 2),
            request(2, read, 1),
            request(3, read, 3),
            request(4, read, 2),
        ];
        let left = cached(&all, 2);
        // The read of block 1 makes block 2 the oldest, which block 3 displaces.
        assert_eq!(left.iter().map(|request| request.arrival.0 / 1_000_000_000).collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert_eq!(cached(&all, 3).len(), 3);
    }

    #[test]
    fn changes_keep_the_order_and_the_addresses() {
        let (read, write) = (OpKind::Read, OpKind::Write);
        let all = || vec![request(0, write, 1), request(100, read, 1), request(101, read, 9)];
        assert_eq!(changed(Change::Pauses(10), all()), [(0, 1), (10, 1), (11, 9)]);
        assert_eq!(changed(Change::Slower(3), all()), [(0, 1), (300, 1), (303, 9)]);
        assert_eq!(changed(Change::WithoutMinutes(1), all()), [(0, 1)]);
        assert_eq!(reads_after_writes(&all()), 1);
        let (times, mut blocks): (Vec<u64>, Vec<u64>) = changed(Change::Shuffled, all()).into_iter().unzip();
        assert_ne!(blocks, [1, 1, 9]);
        blocks.sort_unstable();
        assert_eq!((times, blocks), (vec![0, 100, 101], vec![1, 1, 9]), "the requests change places");
        let large = Request { range: SectorRange::new(0, SMALL_SECTORS + 1), ..request(0, write, 0) };
        let twice = vec![request(0, write, 1), request(1, write, 2), request(2, write, 1), request(3, read, 1)];
        assert_eq!(changed(Change::WithoutTwice, twice.clone()), [(1, 2), (3, 1)]);
        assert_eq!(changed(Change::WithoutOnce, twice.clone()), [(0, 1), (2, 1), (3, 1)]);
        // The trace ends after 3 s, so the second half begins after 1.5 s.
        assert_eq!(changed(Change::Parts(2), twice), [(0, 1), (1, 2), (2, 1 + 3), (3, 1 + 3)]);
        let run = Request { range: SectorRange::new(8, 32), ..request(0, write, 0) };
        let cut = Change::WithoutTwice.of(&Loaded::generated(vec![run, request(1, write, 3)])).requests;
        let ranges: Vec<_> = cut.iter().map(|request| (request.range.start.0, request.range.len.0)).collect();
        assert_eq!(ranges, [(8, 16), (32, 8)], "adjacent blocks stay one write");
        assert_eq!(changed(Change::Small, vec![large, request(1, write, 4)]), [(1, 4)]);
    }

    #[test]
    fn trace_is_repeated_behind_its_end() {
        let (read, write) = (OpKind::Read, OpKind::Write);
        let all = vec![request(5, write, 1), request(7, read, 9)];
        assert_eq!(changed(Change::Repeated(3), all), [(5, 1), (7, 9), (7, 1), (9, 9), (9, 1), (11, 9)]);
        assert!(changed(Change::Repeated(3), Vec::new()).is_empty());
    }

    #[test]
    fn backup_reads_each_written_block_once() {
        let (read, write) = (OpKind::Read, OpKind::Write);
        let all = vec![request(0, write, 3), request(1, write, 1), request(2, write, 3), request(3, read, 9)];
        let later = 3 + 24 * 3600;
        assert_eq!(changed(Change::Backup, all)[3..], [(3, 9), (later, 1), (later, 3)]);
        assert!(changed(Change::Backup, Vec::new()).is_empty());
    }

    #[test]
    fn reads_of_written_blocks_stay() {
        let (read, write) = (OpKind::Read, OpKind::Write);
        let run = Request { range: SectorRange::new(8, 24), ..request(0, read, 0) };
        let all = vec![run, request(1, write, 2), request(2, read, 5)];
        assert_eq!(changed(Change::WithoutUnwritten, all), [(0, 2), (1, 2)]);
    }
}
