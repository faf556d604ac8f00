//! Figures of an analysis, under the names of the command line's JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::files::FileFigures;
use super::popularity::TopBlocks;

/// Bounds of intervals, in seconds, for which Griffin's tables 3 and 5 give shares.
pub(super) const QUOTED_SECONDS: [u64; 4] = [30, 60, 900, 3600];

/// Shares of intervals no longer than 30, 60, 900 and 3600 seconds: a row of Griffin table 3.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Within {
    /// Share of intervals no longer than 30 s.
    #[serde(rename = "30")]
    pub s30: f64,
    /// Share of intervals no longer than 60 s.
    #[serde(rename = "60")]
    pub s60: f64,
    /// Share of intervals no longer than 900 s.
    #[serde(rename = "900")]
    pub s900: f64,
    /// Share of intervals no longer than 3600 s.
    #[serde(rename = "3600")]
    pub s3600: f64,
}

impl Within {
    pub(super) fn new([s30, s60, s900, s3600]: [f64; QUOTED_SECONDS.len()]) -> Self {
        Self { s30, s60, s900, s3600 }
    }
}

/// Workload in figures. `None` (null in JSON) if a figure does not apply: no reads, no overwrites,
/// no times.
///
/// Blocks have the size [`block_bytes`](Self::block_bytes); a request counts once for each block
/// that it touches. Blocks of different devices are different blocks. Unless stated otherwise, a
/// figure covers reads and writes. Flushes and discards count in [`requests`](Self::requests) and
/// as arrivals, and change no block.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Analysis {
    /// Number of requests: reads + writes + flushes + discards.
    pub requests: u64,
    /// Number of read requests.
    pub reads: u64,
    /// Number of write requests.
    pub writes: u64,
    /// Number of flush requests.
    pub flushes: u64,
    /// Number of discards, and of writes of zeroes without payload.
    pub discards: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Number of devices in the trace.
    pub devices: u64,
    /// Size of a block; 4096 for figures that are to compare with a paper's.
    pub block_bytes: u64,
    /// Number of accesses to blocks ("Number of 4 KB I/Os", Griffin table 1).
    pub block_ios: u64,
    /// Share of the block accesses that are reads (Griffin table 1).
    pub read_fraction: Option<f64>,
    /// Share of the requests that are reads (MixedStore table 2).
    pub request_read_fraction: Option<f64>,
    /// Mean size of a request (MixedStore table 2).
    pub mean_request_bytes: Option<f64>,
    /// Mean time between the arrivals of two successive requests, of any kind and device
    /// (MixedStore table 2).
    pub mean_interarrival_ms: Option<f64>,
    /// Time from the first arrival to the last (Griffin table 1).
    pub duration_s: Option<f64>,
    /// Distinct blocks read or written, in bytes.
    pub footprint_bytes: u64,
    /// End of the highest range read, written or discarded on any device: the least size that a
    /// device must have.
    pub address_end_bytes: u64,
    /// Share of the requests that start where the previous request of the same device and direction
    /// ended ("Sequentiality", MixedStore table 2).
    pub sequential_fraction: Option<f64>,
    /// Share of the write requests that are not sequential in the sense of the share of sequential
    /// requests ("Randomness", Konanki tables 5.2 and 5.4).
    pub random_write_fraction: Option<f64>,
    /// Number of requests by size. The key of a bin is its largest size in sectors, a power of two;
    /// a bin holds the sizes above half of its key (Konanki tables 5.1 and 5.3, there as
    /// fractions).
    pub request_size_sectors: BTreeMap<u64, u64>,
    /// Share of the requests that start and end on a block border.
    pub aligned_fraction: Option<f64>,
    /// Share of block writes that an ideal write cache keeps from home: 1 − (runs of writes to a
    /// block uninterrupted by a read of it) / block writes (Griffin section 3.2, table 1).
    pub max_write_savings: Option<f64>,
    /// Share of all overwrites (writes to a block written before) that fall in the ceil(1 %) most
    /// overwritten of the written blocks. Of equally overwritten blocks the lower device and block
    /// number ranks first (Griffin section 4.3, table 1).
    pub overwrites_in_top_1pct: Option<f64>,
    /// Share of the block reads that read the most overwritten blocks (Griffin section 4.3, table
    /// 1).
    pub reads_in_top_1pct: Option<f64>,
    /// Write after write: shares, no longer than a bound, of the intervals between two successive
    /// accesses to a block that are both writes (Griffin section 4.4, table 3).
    pub waw: Option<Within>,
    /// Read after write: shares, no longer than a bound, of the intervals between a write and the
    /// next access to its block, if that access is a read (Griffin section 4.4, table 3).
    pub raw: Option<Within>,
    /// Pairs of a share of the written blocks, most overwritten first, and the share of overwrites
    /// in these blocks (Griffin figure 1).
    pub overwrite_cdf: Option<Vec<[f64; 2]>>,
    /// The ceil(1 %) most overwritten blocks by falling rank in at most a hundred groups, with the
    /// writes and reads of each group (Griffin figure 2).
    pub top1pct_histogram: Option<Vec<TopBlocks>>,
    /// Pairs of a time in seconds and the share of the write-after-write intervals no longer than
    /// this time (Griffin figure 3).
    pub waw_cdf: Option<Vec<[f64; 2]>>,
    /// Pairs of a time in seconds and the share of the read-after-write intervals no longer than
    /// this time (Griffin figure 3).
    pub raw_cdf: Option<Vec<[f64; 2]>>,
    /// The twenty most overwritten files of the map (Griffin table 2), or fewer if fewer files were
    /// overwritten. `None` without a map, and for a trace of several devices, because a map
    /// describes one device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileFigures>>,
}
