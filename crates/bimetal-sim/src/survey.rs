//! First pass over a workload: its properties, which are known before drives are chosen for the
//! workload.
//!
//! Memory grows with the addresses touched: a bit for each block, in chunks of 4096 blocks that are
//! allocated when touched.

use std::collections::{BTreeMap, VecDeque};

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_trace::Request;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::workload::glance::phase_of;
use crate::workload::{Workload, WorkloadError};

/// Properties of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Number of requests.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes, write-zeroes included.
    pub writes: u64,
    /// Number of writes that must be stable when they complete.
    pub forced_writes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of discards.
    pub discards: u64,
    /// Bytes discarded.
    pub discarded_bytes: Bytes,
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Bytes written.
    pub write_bytes: Bytes,
    /// Number of distinct blocks touched.
    pub footprint_blocks: u64,
    /// Time from the first arrival to the last.
    pub duration: Nanoseconds,
    /// Largest time of which all times between arrivals are multiples, in nanoseconds.
    pub common_step_ns: u64,
    /// Number of reads and writes of whole blocks, by their first sector within a block.
    pub phases: Vec<u64>,
    /// Sector of the recording at which a block begins.
    pub grid: u64,
    /// Number of blocks in reads, where each block counts as often as it is read.
    pub read_blocks: u64,
    /// Number of blocks in reads that no earlier request has accessed.
    pub first_read_blocks: u64,
    /// Largest number of bytes written within [`BURST`].
    pub burst_bytes: Bytes,
    /// Number of requests whose response time was recorded.
    pub answered: u64,
    /// Number of random reads whose response time was recorded.
    pub answered_random_reads: u64,
    /// Number of the random reads that were answered within 0.5 ms.
    pub quick_random_reads: u64,
    /// Number of short reads and writes that continue the one before them within a millisecond.
    pub continuing: u64,
    /// First sector after the highest sector touched, for each device of the trace.
    pub address_end: BTreeMap<u32, Sectors>,
    /// Numbering of the touched chunks, with which untouched chunks can be left out.
    pub compacted: Compaction,
}

/// Dense numbering of the chunks that a workload touches, device by device in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    chunks: BTreeMap<(u32, u64), u64>,
}

/// Length of a burst of writes.
pub const BURST: Nanoseconds = Nanoseconds::from_seconds(30);

/// Response time below which no hard disk reads at random.
const QUICK: Nanoseconds = Nanoseconds(500_000);
/// Distance from the last request beyond which a read is random, because a drive reads ahead less
/// far.
const RANDOM_FROM: u64 = Bytes::from_mib(4).sectors().0;

/// Coarsest tick of a clock that is accepted.
const CLOCK_MAX: Nanoseconds = Nanoseconds::from_seconds(1);
/// Number of requests below which nothing can be concluded about the clock from the times.
const CLOCK_REQUESTS_MIN: u64 = 16;

/// Length from which a request is not short: Linux sends a file read ahead in requests of this
/// length.
const SHORT_BELOW: Sectors = Bytes::from_kib(64).sectors();
/// Time within which a block layer that merges requests has both of them.
const CONTINUES_WITHIN: Nanoseconds = Nanoseconds::from_millis(1);

/// Number of blocks in a chunk.
const CHUNK_BLOCKS: u64 = 4096;

/// Memory that a run takes for each block that the workload touches: the most among all schemes.
/// Measured with 1.5 million blocks at random, half of them written: smq 155 bytes, smart-response
/// 57, griffin 11.
const RUN_BYTES_PER_BLOCK: u64 = 160;

/// Memory that a run takes for any workload: 23 to 70 MiB were measured.
const RUN_BYTES: Bytes = Bytes::from_mib(64);

struct Chunk {
    bits: Box<[u64; CHUNK_BLOCKS as usize / 64]>,
}

/// Counter of a workload's requests.
pub struct Surveyor {
    block: BlockSize,
    survey: Survey,
    chunks: HashMap<(u32, u64), Chunk, FixedState>,
    first_arrival: Option<Nanoseconds>,
    /// Bytes written in each second of the last [`BURST`].
    burst: VecDeque<(u64, u64)>,
    /// End of the last request of each device.
    last_end: BTreeMap<u32, u64>,
    /// Last short read or write of each device.
    last_short: BTreeMap<u32, Request>,
}

impl Surveyor {
    /// Creates a counter with blocks of this size.
    pub fn new(block: BlockSize) -> Self {
        let chunks = HashMap::with_hasher(FixedState::with_seed(0));
        let survey = Survey { phases: vec![0; block.sectors() as usize], ..Survey::default() };
        Self {
            block,
            survey,
            chunks,
            first_arrival: None,
            burst: VecDeque::new(),
            last_end: BTreeMap::new(),
            last_short: BTreeMap::new(),
        }
    }

    /// Counts a request.
    pub fn note(&mut self, request: &Request) {
        let survey = &mut self.survey;
        survey.requests += 1;
        survey.answered += u64::from(request.response.is_some());
        let first = *self.first_arrival.get_or_insert(request.arrival);
        survey.duration = survey.duration.max(request.arrival.saturating_sub(first));
        if survey.common_step_ns != 1 {
            survey.common_step_ns = common_divisor(survey.common_step_ns, request.arrival.0.abs_diff(first.0));
        }
        match request.kind {
            OpKind::Read => {
                survey.reads += 1;
                survey.read_bytes += request.range.len.bytes();
                self.count_answer(request);
            }
            OpKind::Write | OpKind::WriteZeroes => {
                survey.writes += 1;
                survey.forced_writes += u64::from(request.fua);
                survey.write_bytes += request.range.len.bytes();
                self.count_burst(request);
            }
            OpKind::Flush => survey.flushes += 1,
            OpKind::Discard => {
                // A discard may be of any size.
                let bytes = Bytes(request.range.len.0.saturating_mul(SECTOR_BYTES));
                survey.discards += 1;
                survey.discarded_bytes = survey.discarded_bytes.saturating_add(bytes);
            }
            OpKind::Hint => {}
        }
        self.count_continuing(request);
        let survey = &mut self.survey;
        if request.range.is_empty() {
            survey.address_end.entry(request.device).or_default();
            return;
        }
        self.last_end.insert(request.device, request.range.end().0);
        let end = survey.address_end.entry(request.device).or_default();
        *end = (*end).max(request.range.end());
        if request.kind != OpKind::Discard {
            self.count_phase(request);
            let before = self.survey.footprint_blocks;
            self.touch(request);
            if request.kind == OpKind::Read {
                self.survey.read_blocks += self.block.touched(request.range).count;
                self.survey.first_read_blocks += self.survey.footprint_blocks - before;
            }
        }
    }

    fn count_answer(&mut self, request: &Request) {
        let Some(response) = request.response else { return };
        let last = self.last_end.get(&request.device);
        if last.is_some_and(|last| last.abs_diff(request.range.start.0) > RANDOM_FROM) {
            self.survey.answered_random_reads += 1;
            self.survey.quick_random_reads += u64::from(response < QUICK);
        }
    }

    fn count_continuing(&mut self, request: &Request) {
        let is_short = matches!(request.kind, OpKind::Read | OpKind::Write) && request.range.len < SHORT_BELOW;
        let before = if is_short {
            self.last_short.insert(request.device, *request)
        } else {
            self.last_short.remove(&request.device);
            None
        };
        let continues = before.is_some_and(|before| {
            let soon = request.arrival.saturating_sub(before.arrival) <= CONTINUES_WITHIN;
            soon && before.kind == request.kind && before.range.end() == request.range.start
        });
        self.survey.continuing += u64::from(continues);
    }

    fn count_burst(&mut self, request: &Request) {
        let second = request.arrival.0 / Nanoseconds::from_seconds(1).0;
        let written = request.range.len.bytes().0;
        match self.burst.back_mut() {
            Some((last, bytes)) if *last >= second => *bytes += written,
            _ => self.burst.push_back((second, written)),
        }
        let seconds = BURST.0 / Nanoseconds::from_seconds(1).0;
        while self.burst.front().is_some_and(|&(first, _)| first + seconds <= second) {
            self.burst.pop_front();
        }
        let bytes = self.burst.iter().map(|&(_, bytes)| bytes).sum();
        self.survey.burst_bytes = self.survey.burst_bytes.max(Bytes(bytes));
    }

    fn count_phase(&mut self, request: &Request) {
        if request.kind == OpKind::Hint {
            return;
        }
        if let Some(phase) = phase_of(request.range.start.0, request.range.len.0, self.block) {
            self.survey.phases[phase as usize] += 1;
        }
    }

    fn touch(&mut self, request: &Request) {
        let run = self.block.touched(request.range);
        let mut block = run.first.0;
        while block < run.end() {
            let number = block / CHUNK_BLOCKS;
            let chunk = self
                .chunks
                .entry((request.device, number))
                .or_insert_with(|| Chunk { bits: Box::new([0; CHUNK_BLOCKS as usize / 64]) });
            let end = run.end().min((number + 1) * CHUNK_BLOCKS);
            for block in block..end {
                let at = (block % CHUNK_BLOCKS) as usize;
                let bit = 1 << (at % 64);
                self.survey.footprint_blocks += u64::from(chunk.bits[at / 64] & bit == 0);
                chunk.bits[at / 64] |= bit;
            }
            block = end;
        }
    }

    /// Returns the survey.
    pub fn finish(self) -> Survey {
        let mut survey = self.survey;
        let mut touched: Vec<(u32, u64)> = self.chunks.into_keys().collect();
        touched.sort_unstable();
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for (device, number) in touched {
            let dense = next.entry(device).or_default();
            survey.compacted.chunks.insert((device, number), *dense);
            *dense += 1;
        }
        survey
    }
}

/// Returns the greatest common divisor; the divisor of 0 and another number is the other number.
pub(crate) fn common_divisor(one: u64, other: u64) -> u64 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Returns the tick of the clock that recorded `requests`, whose times are multiples of `step_ns`.
pub(crate) fn clock_of(step_ns: u64, requests: u64) -> Nanoseconds {
    if requests < CLOCK_REQUESTS_MIN { Nanoseconds(1) } else { Nanoseconds(step_ns).clamp(Nanoseconds(1), CLOCK_MAX) }
}

impl Survey {
    /// Returns true if the trace has no times: all of its requests come at once.
    pub fn is_timeless(&self) -> bool {
        self.requests > 1 && self.duration.0 == 0
    }

    /// Predicts the memory that the simulation of one scheme takes, without the requests of the
    /// trace. The memory depends on the blocks that the workload touches, and hardly on the sizes
    /// of the drives.
    pub fn predicted_memory(&self) -> Bytes {
        RUN_BYTES + Bytes(self.footprint_blocks.saturating_mul(RUN_BYTES_PER_BLOCK))
    }

    /// Reads a whole workload.
    ///
    /// # Errors
    /// Fails with the error of the reader.
    pub fn of(workload: &dyn Workload, block: BlockSize, progress: &dyn Fn(u64)) -> Result<Self, WorkloadError> {
        let mut surveyor = Surveyor::new(block);
        for request in workload.open()? {
            surveyor.note(&request?);
            if surveyor.survey.requests.is_multiple_of(65_536) {
                progress(surveyor.survey.requests);
            }
        }
        Ok(Self { grid: workload.grid(), ..surveyor.finish() })
    }

    /// Returns the tick of the clock that recorded the trace: the largest time, up to a second, of
    /// which all times are multiples. The recording machine's clock may have been coarser.
    pub fn clock(&self) -> Nanoseconds {
        clock_of(self.common_step_ns, self.requests)
    }

    /// Returns the devices, in the order in which they become units.
    pub fn devices(&self) -> Vec<u32> {
        self.address_end.keys().copied().collect()
    }
}

impl Compaction {
    /// Returns the request at its place when untouched chunks are left out. Only a discard can have
    /// addresses in untouched chunks: these addresses are left out of its range, too, which may
    /// become empty.
    pub fn place(&self, request: &Request, block: BlockSize) -> Request {
        let chunk_sectors = CHUNK_BLOCKS * block.sectors();
        let (start, end) = (request.range.start.0, request.range.end().0);
        let number = |sector: u64| sector / chunk_sectors;
        let of_range = (request.device, number(start))..=(request.device, number(end.max(start + 1) - 1));
        // Chunks are numbered in order of address, so the touched chunks of a range stay together.
        let mut touched = self.chunks.range(of_range);
        let Some((&(_, first), &dense_first)) = touched.next() else {
            return Request { range: SectorRange::default(), ..*request };
        };
        let (&(_, last), &dense_last) = touched.next_back().unwrap_or((&(request.device, first), &dense_first));
        let start = dense_first * chunk_sectors + start.max(first * chunk_sectors) % chunk_sectors;
        let last_len = (end - last * chunk_sectors).min(chunk_sectors);
        let range = SectorRange::new(start, (dense_last * chunk_sectors + last_len).saturating_sub(start));
        Request { range, ..*request }
    }

    /// Returns the end of the addresses of each device when untouched chunks are left out.
    pub fn address_end(&self, block: BlockSize) -> BTreeMap<u32, Sectors> {
        let mut ends = BTreeMap::new();
        for (&(device, _), &dense) in &self.chunks {
            ends.insert(device, Sectors((dense + 1) * CHUNK_BLOCKS * block.sectors()));
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(device: u32, kind: OpKind, start: u64, sectors: u64) -> Request {
        let range = SectorRange::new(start, sectors);
        Request { arrival: Nanoseconds(start), device, kind, fua: false, range, response: None }
    }

    #[test]
    fn block_counts_once_per_device_however_often_touched() {
        let workload = vec![
            request(0, OpKind::Write, 4, 8),
            request(0, OpKind::Read, 9, 1),
            request(3, OpKind::Read, 0, 8),
            request(0, OpKind::Discard, 0, 1 << 40),
        ];
        let survey = Survey::of(&workload, BlockSize::default(), &|_| {}).unwrap();
        assert_eq!(survey.footprint_blocks, 3);
        assert_eq!((survey.requests, survey.reads, survey.writes, survey.discards), (4, 2, 1, 1));
        assert_eq!(survey.phases, [1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!((survey.read_blocks, survey.first_read_blocks), (2, 1), "sector 9 was written");
        assert_eq!(survey.devices(), [0, 3]);
        assert_eq!(survey.address_end[&3], Sectors(8));
    }

    #[test]
    fn clock_is_the_largest_step_of_all_times() {
        let clock = |times: &[u64]| {
            let at = |&ns: &u64| Request { arrival: Nanoseconds(ns), ..request(0, OpKind::Read, 0, 8) };
            let workload: Vec<Request> = times.iter().cycle().take(20).map(at).collect();
            Survey::of(&workload, BlockSize::default(), &|_| {}).unwrap().clock()
        };
        assert_eq!(clock(&[7, 1_000_007, 9_000_007, 13_000_007]), Nanoseconds(1_000_000));
        assert_eq!(clock(&[0, 15_625_000, 46_875_000]), Nanoseconds(15_625_000));
        assert_eq!(clock(&[0, 100, 301]), Nanoseconds(1));
        assert_eq!(clock(&[5, 5]), Nanoseconds(1), "no times");
        assert_eq!(clock(&[0, 3_600_000_000_000]), Nanoseconds::from_seconds(1));
    }

    /// A burst has the writes of 30 seconds, and neither earlier writes nor reads.
    #[test]
    fn burst_is_the_most_that_30_seconds_write() {
        let at = |seconds: u64, kind, sectors| Request {
            arrival: Nanoseconds::from_seconds(seconds),
            ..request(0, kind, 8 * seconds, sectors)
        };
        let burst =
            |requests: &[Request]| Survey::of(&requests.to_vec(), BlockSize::default(), &|_| {}).unwrap().burst_bytes;
        let first = [at(0, OpKind::Write, 8), at(29, OpKind::Write, 16), at(29, OpKind::Read, 800)];
        assert_eq!(burst(&first), Bytes(24 * 512));
        assert_eq!(burst(&[first[0], first[1], at(30, OpKind::Write, 4)]), Bytes(24 * 512));
        assert_eq!(burst(&[first[0], first[1], at(30, OpKind::WriteZeroes, 9)]), Bytes(25 * 512));
    }

    /// A read that follows the request before it may come from a disk's cache. Such a read tells
    /// nothing about the recorded drive.
    #[test]
    fn only_random_reads_with_response_times_tell_the_device() {
        let read = |start: u64, response: Option<u64>| Request {
            response: response.map(Nanoseconds::from_micros),
            ..request(0, OpKind::Read, start, 8)
        };
        let far = 1 << 20;
        let workload = vec![
            read(far, Some(100)),
            read(0, Some(100)),
            read(8, Some(100)),
            read(2 * far, None),
            read(0, Some(500)),
            read(8 + (4 << 11) + 1, Some(499)),
        ];
        let survey = Survey::of(&workload, BlockSize::default(), &|_| {}).unwrap();
        assert_eq!((survey.answered_random_reads, survey.quick_random_reads), (3, 2));
    }

    /// Compacted addresses are dense. Compaction keeps the order and the neighbours of addresses.
    #[test]
    fn compacted_addresses_are_dense_and_keep_their_order() {
        let far = 400 << 21;
        let workload = vec![request(0, OpKind::Write, 8, 8), request(0, OpKind::Write, far, 8)];
        let survey = Survey::of(&workload, BlockSize::default(), &|_| {}).unwrap();
        let block = BlockSize::default();
        assert_eq!(survey.compacted.place(&workload[0], block).range.start, Sectors(8));
        assert_eq!(survey.compacted.place(&workload[1], block).range.start, Sectors(4096 * 8));
        assert_eq!(survey.compacted.address_end(block)[&0], Sectors(2 * 4096 * 8));
    }

    /// Regression: a discard over untouched chunks kept its length, and so covered other data; a
    /// discard that began in an untouched chunk was lost.
    #[test]
    fn compacted_discard_covers_the_data_that_it_covered_before() {
        const CHUNK: u64 = 4096 * 8;
        let workload = vec![
            request(0, OpKind::Write, 0, 8),
            request(0, OpKind::Write, 1000 * CHUNK, 8),
            request(0, OpKind::Write, 1001 * CHUNK, 8),
        ];
        let survey = Survey::of(&workload, BlockSize::default(), &|_| {}).unwrap();
        let placed = |start, end| {
            let range =
                survey.compacted.place(&request(0, OpKind::Discard, start, end - start), BlockSize::default()).range;
            (range.start.0, range.end().0)
        };
        assert_eq!(placed(8, 10 * CHUNK), (8, CHUNK), "no data of chunk 1000");
        assert_eq!(placed(5 * CHUNK, 1000 * CHUNK + 4), (CHUNK, CHUNK + 4));
        assert_eq!(placed(0, 2000 * CHUNK), (0, 3 * CHUNK));
        assert_eq!(placed(1000 * CHUNK + 16, 1001 * CHUNK + 8), (CHUNK + 16, 2 * CHUNK + 8));
        let (start, end) = placed(5 * CHUNK, 900 * CHUNK);
        assert_eq!(start, end, "nothing was touched there");
    }
}
