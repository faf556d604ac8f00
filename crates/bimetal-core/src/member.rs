//! Members: the drives or volumes that a volume uses, under the names that all modules of the
//! engine use.

use crate::block::BlockRun;
use crate::units::Sectors;

/// A member, by its index in the list that the volume was made with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub u16);

/// The part that a member plays for the volume. The engine knows no more about a member than its
/// role.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The fast drive.
    Ssd,
    /// The large drive.
    Hdd,
    /// A drive that only holds a log.
    Log,
}

impl Role {
    /// Returns the name of the role on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Ssd => "ssd",
            Role::Hdd => "hdd",
            Role::Log => "log",
        }
    }
}

/// A member as described to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberInfo {
    /// The member's role.
    pub role: Role,
    /// Size of the member.
    pub capacity: Sectors,
}

/// Blocks whose home is one run of sectors on one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HomeExtent {
    /// The blocks.
    pub blocks: BlockRun,
    /// The member.
    pub member: MemberId,
    /// First sector of the region on the member.
    pub first_sector: u64,
}
