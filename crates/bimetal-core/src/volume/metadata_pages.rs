//! Pages of metadata that a scrub reads and mends.

use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;

/// Adjacent pages of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Pages {
    State { home: MemberId, turn: u64, copy: usize },
    Superblock { turn: u64, copy: usize },
    Table { first: u32, count: u32, copy: usize },
    Index { first: u64, count: u32, copy: usize },
    Places { number: usize, copy: usize },
}

impl Pages {
    /// Returns the other copy of these pages.
    pub(super) fn other_copy(mut self) -> Self {
        let (Self::State { copy, .. }
        | Self::Superblock { copy, .. }
        | Self::Table { copy, .. }
        | Self::Index { copy, .. }
        | Self::Places { copy, .. }) = &mut self;
        *copy = 1 - *copy;
        self
    }

    /// Returns each page alone.
    pub(super) fn each(self) -> impl Iterator<Item = Self> {
        let count = match self {
            Self::Table { count, .. } | Self::Index { count, .. } => count,
            _ => 1,
        };
        (0..count).map(move |at| match self {
            Self::Table { first, copy, .. } => Self::Table { first: first + at, count: 1, copy },
            Self::Index { first, copy, .. } => Self::Index { first: first + u64::from(at), count: 1, copy },
            one => one,
        })
    }
}

/// Returns the bytes of a read of metadata; no bytes if the read failed.
pub(super) fn bytes_read<P: Payload>(status: Status, payload: &P) -> Vec<u8> {
    if status == Status::Done { payload.to_metadata() } else { Vec::new() }
}
