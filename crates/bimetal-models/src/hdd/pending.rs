//! A command on its way through the drive.

use bimetal_core::operation::{OpKind, Token};

/// A command that has not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Names it.
    pub token: Token,
    /// What it does.
    pub kind: OpKind,
    /// Whether it must be on the medium when it finishes.
    pub fua: bool,
    /// Its first sector.
    pub start: u64,
    /// How many sectors.
    pub sectors: u64,
    /// When the electronics have understood it, and the arm may move for it.
    pub ready_ns: u64,
}

impl Pending {
    /// The first sector behind it.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start + self.sectors
    }
}
