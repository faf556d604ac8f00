//! What a volume counts. Blocks count once per request that touches them.

use std::collections::BTreeMap;

use crate::scheme::Reason;
use crate::units::{Bytes, Nanoseconds};

/// Counters of a volume since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that arrived, and that finished.
    pub arrived: u64,
    /// Requests that finished, well or with an error.
    pub finished: u64,
    /// Requests that finished with an error.
    pub failed: u64,
    /// Blocks that requests read.
    pub read_blocks: u64,
    /// Blocks that requests wrote.
    pub written_blocks: u64,
    /// Of the blocks read, those whose newest content (or part of it) was off home.
    pub read_blocks_from_slots: u64,
    /// Of the blocks written, those that went to a slot (alone, or besides home).
    pub written_blocks_to_slots: u64,
    /// For each member: blocks read of which a part came from it.
    pub read_blocks_by_member: Vec<u64>,
    /// For each member: blocks that requests wrote to it.
    pub written_blocks_by_member: Vec<u64>,
    /// Blocks that requests or moves wrote to their home. A block that was written to both counts once.
    pub home_blocks_written: u64,
    /// Migrations begun, blocks and bytes they moved, and when the first and the last began.
    pub migrations: Migrations,
    /// Blocks copied into slots because they were read, or because the scheme had them fetched.
    pub promoted_blocks: u64,
    /// Ranges of addresses that got another home.
    pub relocated_ranges: u64,
    /// Clean copies given up.
    pub evicted_blocks: u64,
    /// Blocks that did not go where the scheme usually puts them, by reason.
    pub bypassed_blocks: BTreeMap<Reason, u64>,
    /// For each member: bytes the engine wrote for itself.
    pub metadata_bytes: Vec<Bytes>,
    /// Commits of the journal, and checkpoints.
    pub commits: u64,
    /// Checkpoints of the slot table.
    pub checkpoints: u64,
    /// Requests that had to wait because enough others were under way, for a block that another request changed, for a
    /// move, for free slots or for room in the log's buffer.
    pub waited: u64,
    /// Reads served from home because the copy in a slot could not be read.
    pub reads_repaired: u64,
    /// Blocks that were read from slots and did not have their checksum.
    pub checksum_errors: u64,
}

/// How often everything dirty, or a part of it, was moved home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// How many began. A trigger's whole batch is one.
    pub count: u64,
    /// Blocks they moved.
    pub blocks: u64,
    /// Bytes they moved: only what was valid.
    pub bytes: Bytes,
    /// When the first began.
    pub first_at: Nanoseconds,
    /// When the last began.
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

    /// Mean time from the beginning of one migration to that of the next; `None` below two.
    pub fn mean_interval(&self) -> Option<Nanoseconds> {
        (self.count >= 2).then(|| Nanoseconds((self.last_at - self.first_at).0 / (self.count - 1)))
    }
}
