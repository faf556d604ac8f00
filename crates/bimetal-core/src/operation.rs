//! What crosses every boundary of Bimetal: an operation on a range of sectors, and its completion.
//!
//! A request to a volume and an operation on one of its members have the same shape, so that a
//! volume can itself be a member of another (RAID, chains): only the `target` means a unit in one case and a member
//! in the other.

use crate::units::{SectorRange, Sectors};

/// What an operation does to its range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// Returns the bytes of the range.
    Read,
    /// Stores bytes; with `fua` they are stable when the operation completes.
    Write,
    /// Makes every write that completed before it stable. Its range is empty.
    Flush,
    /// Says that the content is no longer needed.
    Discard,
    /// Stores zeroes without carrying them.
    WriteZeroes,
    /// Asks the drive's translation layer which sectors, from the start of the range on and at most as many as it is long, lie in
    /// blocks of which the most is outdated. Real drives answer [`Status::Unsupported`].
    Hint,
}

impl OpKind {
    /// Whether the content of the range may differ afterwards.
    #[inline]
    pub const fn changes_content(self) -> bool {
        matches!(self, OpKind::Write | OpKind::Discard | OpKind::WriteZeroes)
    }
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// All of it was done.
    Done,
    /// The medium could not read or keep it; the content of a failed write is undefined until it is written again.
    MediaError,
    /// Only this many sectors were done, from the start of the range.
    Short(u32),
    /// The drive is no longer there. Everything in flight on it ends this way.
    Gone,
    /// The drive does not know this kind of operation.
    Unsupported,
    /// The range lies outside the unit.
    OutOfRange,
}

/// Names an operation until its completion. Never reused within a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// An operation without its payload: all that a device model or a scheduler needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    /// What it does.
    pub kind: OpKind,
    /// Where; empty for a flush.
    pub range: SectorRange,
    /// A write that must be stable when it completes (force unit access).
    pub fua: bool,
}

impl Command {
    /// A flush.
    pub const FLUSH: Self =
        Self { kind: OpKind::Flush, range: SectorRange { start: Sectors::ZERO, len: Sectors::ZERO }, fua: false };
}

/// An operation with its payload: a request to a volume, or what a volume asks of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation<P> {
    /// Its name until it completes.
    pub token: Token,
    /// The unit, by number, where this is a request to a volume; the member where it comes from one.
    pub target: u16,
    /// What and where.
    pub command: Command,
    /// What a write stores; empty otherwise.
    pub payload: P,
}

/// The end of an [`Operation`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion<P> {
    /// Which operation.
    pub token: Token,
    /// How it ended.
    pub status: Status,
    /// What a read that is [`Status::Done`] returned; empty otherwise.
    pub payload: P,
}
