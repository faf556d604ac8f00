//! Operations on a range of sectors, and their completions: the type that crosses every boundary of
//! Bimetal.
//!
//! A request to a volume and an operation on one of its members have the same shape. So a volume
//! can itself be a member of another volume (RAID, chains). Only the `target` differs: the target
//! is a unit in a request, and a member in an operation.

use crate::units::{SectorRange, Sectors};

/// The effect of an operation on its range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// Returns the bytes of the range.
    Read,
    /// Stores bytes; with `fua` they are stable when the operation completes.
    Write,
    /// Makes every write stable that completed before the flush. The range of a flush is empty.
    Flush,
    /// Tells the drive that the content is no longer needed.
    Discard,
    /// Stores zeroes; the operation has no payload.
    WriteZeroes,
    /// Asks the drive's translation layer for the sectors in the most outdated flash blocks. The
    /// hint's range gives the first position to ask about, and the largest number of sectors to
    /// return. Real drives answer [`Status::Unsupported`].
    Hint,
}

impl OpKind {
    /// Returns true if the content of the range may differ after the operation.
    #[inline]
    pub const fn changes_content(self) -> bool {
        matches!(self, OpKind::Write | OpKind::Discard | OpKind::WriteZeroes)
    }
}

/// The outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// The operation was done completely.
    Done,
    /// The medium could not read or store the content. The sectors of a failed write have undefined
    /// content until they are written again.
    MediaError,
    /// Only this many sectors were done, from the start of the range.
    Short(u32),
    /// The drive is gone. Every operation under way on the drive ends with this status.
    Gone,
    /// The drive does not know this kind of operation.
    Unsupported,
    /// The range lies outside the unit.
    OutOfRange,
}

/// Names an operation until its completion. A token is never reused within a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// An operation without its payload: all that a device model or a scheduler needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    /// The effect on the range.
    pub kind: OpKind,
    /// The range; empty for a flush.
    pub range: SectorRange,
    /// Set for a write that must be stable when it completes (force unit access).
    pub fua: bool,
}

impl Command {
    /// A flush.
    pub const FLUSH: Self =
        Self { kind: OpKind::Flush, range: SectorRange { start: Sectors::ZERO, len: Sectors::ZERO }, fua: false };
}

/// An operation with its payload: a request to a volume, or an operation of a volume on a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation<P> {
    /// Name of the operation until it completes.
    pub token: Token,
    /// Target of a request to a volume: the number of the unit. Target of an operation of a volume:
    /// the number of the member.
    pub target: u16,
    /// The effect and the range.
    pub command: Command,
    /// The content that a write stores; empty otherwise.
    pub payload: P,
}

/// The end of an [`Operation`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion<P> {
    /// The token of the operation.
    pub token: Token,
    /// The outcome.
    pub status: Status,
    /// The content that a read with [`Status::Done`] returned; empty otherwise.
    pub payload: P,
}
