//! Compares the analysis with a reference model that is slow, keeps everything, and follows the
//! definitions literally.

use std::collections::{BTreeMap, HashMap};

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_trace::Request;
use bimetal_trace::analysis::{Analysis, Analyzer, TopBlocks, Within};
use proptest::prelude::*;

const BLOCK_SECTORS: u64 = 8;
const SECOND: u64 = 1_000_000_000;

#[derive(Default)]
struct Twin {
    requests: Vec<Request>,
    /// Every access to a block, in order: (time, is it a write).
    accesses: BTreeMap<(u32, u64), Vec<(u64, bool)>>,
}

impl Twin {
    fn of(requests: &[Request]) -> Self {
        let mut twin = Self { requests: requests.to_vec(), ..Self::default() };
        for request in requests.iter().filter(|request| transfers(request)) {
            for sector in request.range.start.get()..request.range.end().get() {
                let accesses = twin.accesses.entry((request.device, sector / BLOCK_SECTORS)).or_default();
                let first_of_block = sector == request.range.start.get() || sector % BLOCK_SECTORS == 0;
                if first_of_block {
                    accesses.push((request.arrival.get(), request.kind == OpKind::Write));
                }
            }
        }
        twin
    }

    fn block_ios(&self, write: bool) -> usize {
        self.accesses.values().flatten().filter(|access| access.1 == write).count()
    }

    fn write_runs(&self) -> usize {
        let runs = |accesses: &Vec<(u64, bool)>| {
            (0..accesses.len()).filter(|&i| accesses[i].1 && (i == 0 || !accesses[i - 1].1)).count()
        };
        self.accesses.values().map(runs).sum()
    }

    /// Returns the intervals between a write and the next access to its block, if that access is a
    /// write (or a read).
    fn intervals(&self, to_write: bool) -> Vec<u64> {
        let mut intervals = Vec::new();
        for accesses in self.accesses.values() {
            for pair in accesses.windows(2) {
                if pair[0].1 && pair[1].1 == to_write {
                    intervals.push(pair[1].0 - pair[0].0);
                }
            }
        }
        intervals
    }

    /// Returns writes and reads of each written block, most overwritten first, then by device and
    /// block.
    fn ranking(&self) -> Vec<(u64, u64)> {
        let count =
            |accesses: &Vec<(u64, bool)>, write| accesses.iter().filter(|access| access.1 == write).count() as u64;
        let mut blocks: Vec<_> =
            self.accesses.iter().map(|(key, all)| (count(all, true), *key, count(all, false))).collect();
        blocks.retain(|(writes, ..)| *writes > 0);
        blocks.sort_by_key(|(writes, key, _)| (std::cmp::Reverse(*writes), *key));
        blocks.into_iter().map(|(writes, _, reads)| (writes, reads)).collect()
    }

    fn sequential(&self, write: bool) -> usize {
        let mut ends = HashMap::new();
        let mut count = 0;
        for request in self.requests.iter().filter(|request| transfers(request)) {
            let is_write = request.kind == OpKind::Write;
            let before = ends.insert((request.device, is_write), request.range.end());
            count += usize::from(is_write == write && before == Some(request.range.start));
        }
        count
    }
}

fn transfers(request: &Request) -> bool {
    matches!(request.kind, OpKind::Read | OpKind::Write)
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn within(intervals: &[u64]) -> Option<Within> {
    let share_of = |seconds| share(intervals.iter().filter(|ns| **ns <= seconds * SECOND).count(), intervals.len());
    Some(Within { s30: share_of(30)?, s60: share_of(60)?, s900: share_of(900)?, s3600: share_of(3600)? })
}

fn check_against_twin(requests: &[Request]) {
    let twin = Twin::of(requests);
    let analysis = analyse(requests);
    let of_kind = |kind| requests.iter().filter(|request| request.kind == kind).count();
    let (reads, writes) = (of_kind(OpKind::Read), of_kind(OpKind::Write));
    let (block_reads, block_writes) = (twin.block_ios(false), twin.block_ios(true));
    assert_eq!(analysis.requests, requests.len() as u64);
    assert_eq!((analysis.reads, analysis.writes), (reads as u64, writes as u64));
    assert_eq!(analysis.block_ios, (block_reads + block_writes) as u64);
    assert_eq!(analysis.read_fraction, share(block_reads, block_reads + block_writes));
    assert_eq!(analysis.request_read_fraction, share(reads, reads + writes));
    assert_eq!(analysis.footprint_bytes, twin.accesses.len() as u64 * 4096);
    assert_eq!(analysis.sequential_fraction, share(twin.sequential(false) + twin.sequential(true), reads + writes));
    assert_eq!(analysis.random_write_fraction, share(writes - twin.sequential(true), writes));
    assert_eq!(analysis.max_write_savings, share(block_writes - twin.write_runs(), block_writes));
    check_sizes(&analysis, requests);
    check_popularity(&analysis, &twin);
    check_times(&analysis, &twin);
}

fn check_sizes(analysis: &Analysis, requests: &[Request]) {
    let lengths: Vec<u64> = requests.iter().filter(|r| transfers(r)).map(|request| request.range.len.get()).collect();
    assert_eq!(analysis.request_size_sectors.values().sum::<u64>(), lengths.len() as u64);
    for (&bound, &count) in &analysis.request_size_sectors {
        let lower = if bound == 1 { 0 } else { bound / 2 };
        assert_eq!(count, lengths.iter().filter(|len| lower < **len && **len <= bound).count() as u64, "bin {bound}");
    }
    let aligned = requests.iter().filter(|r| {
        transfers(r) && r.range.start.get() % BLOCK_SECTORS == 0 && r.range.end().get() % BLOCK_SECTORS == 0
    });
    assert_eq!(analysis.aligned_fraction, share(aligned.count(), lengths.len()));
}

fn check_popularity(analysis: &Analysis, twin: &Twin) {
    let ranking = twin.ranking();
    let overwrites = |blocks: &[(u64, u64)]| blocks.iter().map(|(writes, _)| writes - 1).sum::<u64>() as usize;
    let reads = |blocks: &[(u64, u64)]| blocks.iter().map(|(_, reads)| reads).sum::<u64>() as usize;
    let top = &ranking[..ranking.len().div_ceil(100)];
    assert_eq!(analysis.overwrites_in_top_1pct, share(overwrites(top), overwrites(&ranking)));
    let reads_in_top = share(reads(top), twin.block_ios(false)).filter(|_| !ranking.is_empty());
    assert_eq!(analysis.reads_in_top_1pct, reads_in_top);
    let histogram = (!top.is_empty())
        .then(|| top.iter().map(|&(writes, reads)| TopBlocks { blocks: 1, writes, reads }).collect::<Vec<_>>());
    assert!(top.len() <= 100, "a small trace: every top block is a group of its own");
    assert_eq!(analysis.top1pct_histogram, histogram);
    for [blocks, held] in analysis.overwrite_cdf.iter().flatten() {
        let rank = (blocks * 1000.0).round() as usize * ranking.len();
        assert_eq!(share(overwrites(&ranking[..rank.div_ceil(1000)]), overwrites(&ranking)), Some(*held));
    }
}

fn check_times(analysis: &Analysis, twin: &Twin) {
    let (first, last) = match &twin.requests[..] {
        [] => (0, 0),
        [first, .., last] => (first.arrival.get(), last.arrival.get()),
        [only] => (only.arrival.get(), only.arrival.get()),
    };
    let has_times = last > first;
    let gaps = twin.requests.len().saturating_sub(1) as f64;
    assert_eq!(analysis.duration_s, has_times.then(|| (last - first) as f64 / 1e9));
    assert_eq!(analysis.mean_interarrival_ms, has_times.then(|| (last - first) as f64 / 1e6 / gaps));
    for (to_write, shares, cdf) in [(true, analysis.waw, &analysis.waw_cdf), (false, analysis.raw, &analysis.raw_cdf)] {
        let intervals = twin.intervals(to_write);
        assert_eq!(shares, within(&intervals).filter(|_| has_times));
        assert_eq!(cdf.is_some(), has_times && !intervals.is_empty());
        for [seconds, held] in cdf.iter().flatten() {
            let no_longer = intervals.iter().filter(|ns| **ns <= (seconds * 1e9).round() as u64).count();
            assert_eq!(share(no_longer, intervals.len()), Some(*held), "at {seconds} s");
        }
    }
}

fn analyse(requests: &[Request]) -> Analysis {
    let mut analyzer = Analyzer::new(Bytes(BLOCK_SECTORS * 512)).unwrap();
    requests.iter().for_each(|request| analyzer.request(request));
    analyzer.finish()
}

fn kinds() -> impl Strategy<Value = OpKind> {
    prop_oneof![
        10 => Just(OpKind::Write),
        8 => Just(OpKind::Read),
        1 => Just(OpKind::Flush),
        1 => Just(OpKind::Discard),
        1 => Just(OpKind::WriteZeroes),
    ]
}

/// Draws gaps between arrivals: none, short, and around the bounds at which shares are quoted.
fn gaps() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..SECOND,
        (prop::sample::select(vec![10, 30, 60, 300, 900, 3600]), 0..3u64).prop_map(|(s, off)| s * SECOND + off - 1),
    ]
}

/// Draws traces of up to 300 requests on a few blocks of three devices; some requests start at the
/// end of the previous request.
fn traces() -> impl Strategy<Value = Vec<Request>> {
    let request = (gaps(), 0..3u32, kinds(), any::<bool>(), 0..400u64, 1..40u64);
    prop::collection::vec(request, 0..300).prop_map(|steps| {
        let mut now = 0;
        let mut end = 0;
        let mut requests = Vec::new();
        for (gap, device, kind, follow, start, len) in steps {
            now += gap;
            let start = if follow { end } else { start };
            let range = if kind == OpKind::Flush { SectorRange::default() } else { SectorRange::new(start, len) };
            end = (start + len) % 400;
            let arrival = Nanoseconds(now);
            requests.push(Request { arrival, device: device * 7, kind, fua: false, range, response: None });
        }
        requests
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_analysis_agrees_with_its_twin_on_random_traces(requests in traces()) {
        check_against_twin(&requests);
    }

    #[test]
    fn the_analysis_agrees_with_its_twin_without_times(mut requests in traces()) {
        requests.iter_mut().for_each(|request| request.arrival = Nanoseconds::ZERO);
        check_against_twin(&requests);
    }
}
