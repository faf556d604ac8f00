//! Times of the parts of a flash drive.

use bimetal_core::units::Nanoseconds;
use serde::Deserialize;

/// Parallelism of the dies of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parallelism {
    /// Each die and each channel has its own busy time.
    #[default]
    Parallel,
    /// The whole drive performs one operation at a time (serial timing), in the order of
    /// submission. A request is done when all operations that it caused are done. With constant
    /// latencies this is the flash module of Konanki's thesis (table 4.1).
    Serial,
}

/// Times of the NAND and of its channel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NandTiming {
    /// Time to sense a row (tR).
    pub read: Nanoseconds,
    /// Times to program a row (tPROG), by page type, and number of types; rows of a block take
    /// turns.
    pub programs: ([Nanoseconds; 4], u32),
    /// Time to program a row with one bit in each cell.
    pub slc_program: Nanoseconds,
    /// Time to stop a program or an erase for a read that the host waits for; `None` if the read
    /// waits.
    pub suspend: Option<Nanoseconds>,
    /// Time to erase a block (tBERS).
    pub erase: Nanoseconds,
    /// Time to move one mapping unit over the channel.
    pub unit_transfer: Nanoseconds,
    /// With serial timing: overhead of a read before its first page is read.
    pub read_setup: Nanoseconds,
    /// With serial timing: overhead of a write before its first page is written.
    pub write_setup: Nanoseconds,
    /// Parallelism of the dies.
    pub parallelism: Parallelism,
}

/// Times of the controller and of the link to the host. The link is full duplex; and each direction
/// serves one command at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostTiming {
    /// Time added to each read: firmware and protocol, overlapping with other commands.
    pub read_overhead: Nanoseconds,
    /// Time added to each write, flush and discard.
    pub write_overhead: Nanoseconds,
    /// Direction of the link that reads use.
    pub reads: LinkTiming,
    /// Direction of the link that writes, flushes and discards use.
    pub writes: LinkTiming,
    /// Time added to a flush once the write buffer is drained, for the drive's own tables. With
    /// power-loss protection this time is the whole cost of a flush.
    pub flush: Nanoseconds,
}

/// Times of one direction of the link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkTiming {
    /// Time for which a command occupies the direction, in addition to the time of its data.
    pub command: Nanoseconds,
    /// Bytes that cross the link in a second; 0: no limit.
    pub bytes_per_second: u64,
}

impl LinkTiming {
    /// Returns the direction in which a command takes `command_us` microseconds in addition to the
    /// time of its data, at `mb_per_s` times 10^6 bytes a second.
    pub(crate) fn new(command_us: f64, mb_per_s: f64) -> Self {
        Self { command: micros(command_us), bytes_per_second: (mb_per_s * 1e6) as u64 }
    }

    /// Returns the time for which a command that moves `bytes` occupies the direction.
    pub(crate) fn time(&self, bytes: u64) -> Nanoseconds {
        let data = if self.bytes_per_second == 0 {
            0
        } else {
            (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second)) as u64
        };
        Nanoseconds(self.command.0 + data)
    }
}

/// Returns a time of a profile, given in microseconds.
pub(crate) fn micros(value: f64) -> Nanoseconds {
    Nanoseconds((value * 1e3).round() as u64)
}
