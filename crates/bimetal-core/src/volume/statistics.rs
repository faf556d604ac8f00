//! Counters of a volume. A block counts once for each request that touches it.

use std::collections::BTreeMap;

use crate::scheme::Reason;
use crate::units::{Bytes, Nanoseconds};

/// Counters of a volume since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that finished, successfully or with an error.
    pub finished: u64,
    /// Requests that finished with an error.
    pub failed: u64,
    /// Blocks that requests read.
    pub read_blocks: u64,
    /// Blocks that requests wrote.
    pub written_blocks: u64,
    /// Blocks read whose newest content, or a part of the newest content, was off home.
    pub read_blocks_from_slots: u64,
    /// Blocks written to a slot, alone or besides home.
    pub written_blocks_to_slots: u64,
    /// Blocks read at least in part from each member.
    pub read_blocks_by_member: Vec<u64>,
    /// Blocks that requests wrote to each member.
    pub written_blocks_by_member: Vec<u64>,
    /// Blocks that requests or moves wrote to their home. A block written to home and to a slot
    /// counts once.
    pub home_blocks_written: u64,
    /// Migrations begun.
    pub migrations: Migrations,
    /// Blocks copied into slots because a request read them or the scheme fetched them.
    pub promoted_blocks: u64,
    /// Ranges of addresses that moved to another home.
    pub relocated_ranges: u64,
    /// Clean copies evicted.
    pub evicted_blocks: u64,
    /// Blocks that bypassed their usual place, by reason.
    pub bypassed_blocks: BTreeMap<Reason, u64>,
    /// Bytes of metadata that the engine wrote to each member.
    pub metadata_bytes: Vec<Bytes>,
    /// Commits of the journal.
    pub commits: u64,
    /// Commits that began while no task waited for a commit.
    pub unasked_commits: u64,
    /// Checkpoints of the slot table.
    pub checkpoints: u64,
    /// Requests that had to wait: for other requests, for a block that another request changed, for
    /// a move, for free slots, or for room in the log's buffer.
    pub waited: u64,
    /// Reads served from home, or from a newer slot, because the copy in a slot could not be read.
    pub reads_repaired: u64,
    /// Blocks read from slots whose checksum did not match.
    pub checksum_errors: u64,
}

/// Moves that wrote back all dirty blocks, or some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// Number of migrations begun. All blocks that one trigger migrates count as one migration.
    pub count: u64,
    /// Blocks moved.
    pub blocks: u64,
    /// Bytes that migrations moved; of a block only the valid eighths count.
    pub bytes: Bytes,
    /// Time at which the first migration began.
    pub first_at: Nanoseconds,
    /// Time at which the last migration began.
    pub last_at: Nanoseconds,
}

impl Statistics {
    pub(crate) fn new(members: usize) -> Self {
        Self {
            read_blocks_by_member: vec![0; members],
            written_blocks_by_member: vec![0; members],
            metadata_bytes: vec![Bytes::ZERO; members],
            ..Self::default()
        }
    }

    pub(crate) fn bypassed(&mut self, reason: Reason, blocks: u64) {
        *self.bypassed_blocks.entry(reason).or_default() += blocks;
    }
}

impl Migrations {
    pub(crate) fn begin(&mut self, now: Nanoseconds) {
        if self.count == 0 {
            self.first_at = now;
        }
        self.last_at = now;
        self.count += 1;
    }

    /// Returns the mean time from the beginning of one migration to the beginning of the next;
    /// `None` before the second migration.
    pub fn mean_interval(&self) -> Option<Nanoseconds> {
        (self.count >= 2).then(|| Nanoseconds((self.last_at - self.first_at).0 / (self.count - 1)))
    }
}
