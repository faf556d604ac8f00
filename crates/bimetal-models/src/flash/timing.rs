//! How long the parts of a flash drive take.

use bimetal_core::units::Nanoseconds;
use serde::Deserialize;

/// Whether the dies of a drive work at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parallelism {
    /// Each die and each channel has its own busy time.
    #[default]
    Parallel,
    /// One operation at a time in the whole drive, in the order in which they are asked for; a request is done when all
    /// that it caused is. With constant latencies this is the flash module of Konanki's thesis (table 4.1).
    Serial,
}

/// Times of the NAND and of the channel to it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NandTiming {
    /// To sense a row (tR).
    pub read: Nanoseconds,
    /// To program a row (tPROG), by page type, and how many types there are; rows of a block take turns.
    pub programs: ([Nanoseconds; 4], u32),
    /// To program a row with one bit a cell.
    pub slc_program: Nanoseconds,
    /// To stop a program or an erase for a read that the host waits for; `None`: the read waits.
    pub suspend: Option<Nanoseconds>,
    /// To erase a block (tBERS).
    pub erase: Nanoseconds,
    /// To move one mapping unit over the channel.
    pub unit_transfer: Nanoseconds,
    /// With serial timing: what a read takes before it is processed.
    pub read_setup: Nanoseconds,
    /// With serial timing: what a write takes before it is processed.
    pub write_setup: Nanoseconds,
    /// Whether dies work at the same time.
    pub parallelism: Parallelism,
}

/// Times of the controller and of the link to the host. The link is full duplex; each direction serves one command
/// after another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostTiming {
    /// Added to each read: firmware and protocol, overlapping with other commands.
    pub read_overhead: Nanoseconds,
    /// Added to each write, flush and discard.
    pub write_overhead: Nanoseconds,
    /// Time for which a command occupies its direction of the link, beside its data: the inverse of the drive's
    /// largest rate of commands.
    pub command: Nanoseconds,
    /// Bytes that the link moves in a second, each way; 0: no limit.
    pub link_bytes_per_second: u64,
    /// Added to a flush once the write buffer is drained, for the drive's own tables; with power-loss protection the
    /// whole cost of a flush.
    pub flush: Nanoseconds,
}

impl HostTiming {
    /// For how long a command that moves `bytes` occupies the link.
    pub(crate) fn link_time(&self, bytes: u64) -> Nanoseconds {
        let data = if self.link_bytes_per_second == 0 {
            0
        } else {
            (u128::from(bytes) * 1_000_000_000 / u128::from(self.link_bytes_per_second)) as u64
        };
        Nanoseconds(self.command.0 + data)
    }
}
