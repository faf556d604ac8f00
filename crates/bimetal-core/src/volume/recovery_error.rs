//! The reasons for which a volume cannot be recovered.

use crate::layout::{MemberId, Role};

/// Reasons for which a volume cannot be recovered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// A member that is home of blocks is missing.
    #[error("member {} ({}) is missing, and it is home of the volume's blocks", member.0, role.name())]
    HomeMissing {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
    },
    /// A member with newest content is missing, or was taken out while it had the newest content of
    /// some blocks.
    #[error(
        "member {} ({}) is needed: it has newer content than the other members{}; connect it, or give its content up \
         with `bimetal serve --accept-loss`", member.0, role.name(),
        if *migrating { ", and a migration was under way, so the content of the other members is of different ages" } else { "" }
    )]
    Needed {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
        /// Set if a migration was under way, so that the blocks at home are of different ages.
        migrating: bool,
    },
    /// A member is missing or was taken out, and the other members have everything.
    #[error("member {} ({}) is missing or was taken out, and is not needed: the other members have all content", member.0, role.name())]
    LeftOut {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
    },
    /// A member lacks the metadata of this volume.
    #[error(
        "member {} ({}) lacks the volume's {}", member.0, role.name(),
        if *rescuable { "state: if it was overwritten, `bimetal rescue` writes a new state" } else { "superblock" }
    )]
    Unformatted {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
        /// Set if the state of a home is missing, which a rescue can write anew; the superblocks of
        /// slots are missing otherwise.
        rescuable: bool,
    },
    /// A page of metadata cannot be read.
    #[error("member {} ({}): the metadata at sector {sector} cannot be read", member.0, role.name())]
    Unreadable {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
        /// The sector of the page.
        sector: u64,
    },
    /// The metadata is of version 1 of the format.
    #[error(
        "member {} ({}) has on-disk format 1, and this program serves format 2: drain the volume with the bimetal \
         that served it last, then run `bimetal upgrade`", member.0, role.name()
    )]
    Version1 {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
    },
    /// Metadata is damaged in a way that no power cut causes.
    #[error("member {} ({}): {what}", member.0, role.name())]
    Damaged {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
        /// The damage, in words.
        what: &'static str,
    },
    /// A part of the metadata is damaged in both copies, and all other metadata is sound.
    #[error(
        "member {} ({}): {what}; `bimetal serve --accept-loss` serves the content that the intact metadata lists, and \
         gives up the rest", member.0, role.name()
    )]
    PartDamaged {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
        /// The damage, in words.
        what: &'static str,
    },
    /// The content of a member cannot be used, and the volume can be served without the member.
    #[error("{error}; `bimetal serve --accept-loss` serves the volume without the content that only this member has")]
    Unusable {
        /// The reason for which the content of the member cannot be used.
        error: Box<RecoveryError>,
    },
    /// A member failed while it was read.
    #[error("member {} ({}) failed during recovery", member.0, role.name())]
    Failed {
        /// The member.
        member: MemberId,
        /// Role of the member.
        role: Role,
    },
}

impl RecoveryError {
    /// Returns the inner error of [`Unusable`](Self::Unusable), and any other error as it is.
    pub fn cause(&self) -> &Self {
        if let Self::Unusable { error } = self { error } else { self }
    }

    /// Returns true if the content of a member is at fault.
    pub(super) fn is_of_content(&self) -> bool {
        matches!(self, Self::Unformatted { .. } | Self::Unreadable { .. } | Self::Damaged { .. })
    }

    /// Adds, to the text of an error about damaged content, what the owner can do.
    pub(super) fn with_remedy(self) -> Self {
        Self::Unusable { error: Box::new(self) }
    }
}
