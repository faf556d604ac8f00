//! Commands on their way through the drive.

use bimetal_core::operation::{OpKind, Token};

/// Command that has not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Token of the command.
    pub token: Token,
    /// Operation of the command.
    pub kind: OpKind,
    /// Set if the command's data must be on the medium when the command finishes.
    pub fua: bool,
    /// First sector of the command.
    pub start: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Time at which the electronics have decoded the command, after which the arm may move for the
    /// command.
    pub ready_ns: u64,
}

impl Pending {
    /// Returns the first sector after the command.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start + self.sectors
    }
}
