//! First pass over a workload: its properties, before drives are chosen for it.
//!
//! Memory grows with the addresses touched: a bit for each block, in chunks of 4096 blocks that are
//! allocated when touched.

use std::collections::BTreeMap;

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};
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
    /// Number of flushes.
    pub flushes: u64,
    /// Number of discards.
    pub discards: u64,
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Bytes written.
    pub write_bytes: Bytes,
    /// Number of distinct blocks touched.
    pub footprint_blocks: u64,
    /// Time from the first arrival to the last.
    pub duration: Nanoseconds,
    /// Number of reads and writes of whole blocks, by their first sector within a block.
    pub phases: Vec<u64>,
    /// Number of blocks in reads, each as often as it is read.
    pub read_blocks: u64,
    /// Number of blocks in reads whose first access is that read.
    pub first_read_blocks: u64,
    /// First sector behind the highest sector touched, for each device of the trace.
    pub address_end: BTreeMap<u32, Sectors>,
    /// Numbering of the touched chunks, by which untouched chunks can be left out.
    pub compacted: Compaction,
}

/// Dense numbering of the chunks that a workload touches, device by device in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    chunks: BTreeMap<(u32, u64), u64>,
}

/// Number of blocks in a chunk.
const CHUNK_BLOCKS: u64 = 4096;

struct Chunk {
    bits: Box<[u64; CHUNK_BLOCKS as usize / 64]>,
}

/// Counter of a workload's requests.
pub struct Surveyor {
    block: BlockSize,
    survey: Survey,
    chunks: HashMap<(u32, u64), Chunk, FixedState>,
    first_arrival: Option<Nanoseconds>,
}

impl Surveyor {
    /// Creates a counter with blocks of this size.
    pub fn new(block: BlockSize) -> Self {
        let chunks = HashMap::with_hasher(FixedState::with_seed(0));
        let survey = Survey { phases: vec![0; block.sectors() as usize], ..Survey::default() };
        Self { block, survey, chunks, first_arrival: None }
    }

    /// Counts a request.
    pub fn note(&mut self, request: &Request) {
        let survey = &mut self.survey;
        survey.requests += 1;
        let first = *self.first_arrival.get_or_insert(request.arrival);
        survey.duration = survey.duration.max(request.arrival.saturating_sub(first));
        match request.kind {
            OpKind::Read => {
                survey.reads += 1;
                survey.read_bytes += request.range.len.bytes();
            }
            OpKind::Write | OpKind::WriteZeroes => {
                survey.writes += 1;
                survey.write_bytes += request.range.len.bytes();
            }
            OpKind::Flush => survey.flushes += 1,
            OpKind::Discard => survey.discards += 1,
            OpKind::Hint => {}
        }
        if request.range.is_empty() {
            survey.address_end.entry(request.device).or_default();
            return;
        }
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

impl Survey {
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
        Ok(surveyor.finish())
    }

    /// Returns the devices, in the order in which they become units.
    pub fn devices(&self) -> Vec<u32> {
        self.address_end.keys().copied().collect()
    }
}

impl Compaction {
    /// Returns the request at its place when untouched chunks are left out. A discard in an
    /// untouched chunk becomes empty.
    pub fn place(&self, request: &Request, block: BlockSize) -> Request {
        let chunk_sectors = CHUNK_BLOCKS * block.sectors();
        let start = request.range.start.0;
        let Some(&dense) = self.chunks.get(&(request.device, start / chunk_sectors)) else {
            return Request { range: Default::default(), ..*request };
        };
        let mut moved = *request;
        moved.range.start = Sectors(dense * chunk_sectors + start % chunk_sectors);
        moved
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
    use bimetal_core::units::SectorRange;

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

    /// Compacted addresses are dense. They keep their order and their neighbours.
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
}
