//! Labels: the page on each drive that names its volume, its role, and the other members.
//!
//! This folder has the label itself, its form on a drive ([`page`]) and the [`places`] of its
//! copies. [`assembly`] has the rules by which labels that were found make a volume or are refused,
//! and [`resize`] the steps by which drives change their sizes. The folder also has the totals of
//! each drive ([`lifetime`]) and the [`report`] of lost content. A label is static identity. Facts
//! that change with writes, such as whether a volume is clean, belong to the engine. Facts that
//! change are kept by the engine in its own pages, in the same tail as the label. No drive is
//! opened here, and no clock is read: callers pass times in. Read first: [`Label`].

mod area;
pub mod assembly;
pub mod lifetime;
pub mod page;
pub mod places;
pub mod report;
pub mod resize;

use std::fmt;
use std::str::FromStr;

use crate::block::BlockSize;
use crate::layout::{LABEL_SECTORS, MemberId, MemberInfo, Role};
use crate::units::{Bytes, Sectors};
pub use area::{Area, GUARDED};

/// The permanent identity of a volume or a member, independent of its name and its connection: 128
/// random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Returns a UUID (version 4) of 128 random bits.
    pub const fn from_random(bits: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bits).into_uuid().into_bytes())
    }

    /// Returns both halves of the UUID combined into one number, by which pages of the engine name
    /// their volume.
    pub fn identity(self) -> u64 {
        let (low, high) = self.0.split_at(8);
        let half = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        half(low) ^ half(high)
    }

    /// Returns the number by which the engine names the drive of a member; never 0.
    pub fn drive(self) -> u32 {
        let identity = self.identity();
        (identity as u32 ^ (identity >> 32) as u32).max(1)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_bytes(self.0).fmt(f)
    }
}

/// A member as described by the labels of its volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberLabel {
    /// The member's UUID.
    pub uuid: Uuid,
    /// The member's role.
    pub role: Role,
    /// Size of the member when it was labelled. The volume uses no more than this size.
    pub size: Sectors,
    /// The profile of the drive that a file emulates, if the member is a file that is to be as slow
    /// as a drive.
    pub emulates: Option<String>,
    /// The last [`writing`](Label::writing) of labels at which the member was present.
    pub seen_in: u64,
    /// The writing that the member carried before its last writing, and still carries if the labels
    /// were not all written.
    pub carried: u64,
    /// Time at which the member was last present, in seconds since 1970.
    pub last_seen: u64,
}

/// The place of a guarded drive's beginning ([`crate::guard`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// The beginning of the drive lies in its own place: the drive may be read without Bimetal.
    Down,
    /// The beginning lies in two copies at the drive's end, and a header with a notice stands in
    /// its place.
    Up,
}

/// The format of the engine's pages on the members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Format {
    /// The format in which each page of metadata is stored once.
    One,
    /// The format in which each page of metadata is stored twice.
    Two,
}

impl Format {
    /// The format of new volumes.
    pub const NEWEST: Self = Self::Two;

    /// Returns the format's number, for messages.
    pub const fn number(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// The label, which lies on every member. The labels of two members of a volume differ only in
/// [`index`](Self::index).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The volume's UUID.
    pub volume: Uuid,
    /// The volume's name.
    pub name: String,
    /// The member that carries this label.
    pub index: MemberId,
    /// All members, in the volume's order.
    pub members: Vec<MemberLabel>,
    /// The scheme's name.
    pub scheme: String,
    /// The settings, as `--set` takes them: key and value.
    pub settings: Vec<(String, String)>,
    /// The volume's block size.
    pub block: BlockSize,
    /// The minimum size of each unit; empty: one unit.
    pub units: Vec<Sectors>,
    /// The member that has a guard, and the guard's state. `None` if the blocks that another drive
    /// may have newer are at home on several drives.
    pub guard: Option<(MemberId, Guard)>,
    /// Set while sizes are being changed ([`resize`]): the volume cannot be used until the change
    /// is done.
    pub resizing: bool,
    /// The format of the engine's pages.
    pub format: Format,
    /// Set if the engine uses 64 KiB less of every member without a guard. With second tails, a
    /// second copy of the label lies before the last 64 KiB of every drive.
    pub second_tail: bool,
    /// Compatible features of later programs, a bit each: kept as they are. This program knows no
    /// compatible feature.
    pub compatible: u32,
    /// Number of the labels' writing; the number rises by one with each writing.
    pub generation: u64,
    /// A random number for each writing of the labels. Two halves of a volume that were served
    /// separately reach the same generation, but not the same writing.
    pub writing: u64,
    /// Time at which this generation was written, in seconds since 1970.
    pub written: u64,
    /// Name and version of the program that made the volume.
    pub created_by: String,
}

/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;

/// Returns the usable part of a drive of `size`, a multiple of 4 KiB, so that its tail is aligned
/// for any sector size.
pub const fn usable(size: Bytes) -> Sectors {
    Sectors(size.sectors().0 / PAGE_SECTORS * PAGE_SECTORS)
}

/// Returns the first sector of the tail of a member of `capacity`, or `None` if the member is
/// smaller than a tail.
pub const fn tail_start(capacity: Sectors) -> Option<Sectors> {
    match capacity.0.checked_sub(LABEL_SECTORS) {
        Some(start) => Some(Sectors(start)),
        None => None,
    }
}

impl Label {
    /// Returns the member that carries this label.
    pub fn own(&self) -> &MemberLabel {
        &self.members[usize::from(self.index.0)]
    }

    /// Returns this label in the form that another member carries.
    pub fn of(&self, member: MemberId) -> Self {
        assert!(usize::from(member.0) < self.members.len(), "volume '{}' has no member {}", self.name, member.0);
        Self { index: member, ..self.clone() }
    }

    /// Returns the next generation, written at `now` (seconds since 1970) while the members in
    /// `present` are there, each with the number of the label writing that it carries. `writing` is
    /// a random number that identifies the new label writing.
    pub fn next(&self, now: u64, writing: u64, present: impl IntoIterator<Item = (MemberId, u64)>) -> Self {
        let mut label = Self { generation: self.generation.saturating_add(1), writing, written: now, ..self.clone() };
        for (id, carried) in present {
            let member = &mut label.members[usize::from(id.0)];
            (member.seen_in, member.carried, member.last_seen) = (writing, carried, now);
        }
        label
    }

    /// Returns true if a member was present when this label was written.
    pub fn was_there(&self, member: MemberId) -> bool {
        self.members[usize::from(member.0)].seen_in == self.writing
    }

    /// Returns the members as a scheme lays them out: the guarded member ends before its guard's
    /// area. Another member ends before its tail if members have a second tail.
    pub fn member_infos(&self) -> Vec<MemberInfo> {
        let second_tail = if self.second_tail { LABEL_SECTORS } else { 0 };
        let infos = self.members.iter().enumerate().map(|(at, member)| {
            let plain = Sectors(member.size.0.saturating_sub(second_tail));
            let area = self.area_of(MemberId(at as u16));
            MemberInfo { role: member.role, capacity: area.map_or(plain, |area| area.capacity()) }
        });
        infos.collect()
    }

    /// Returns the number that names the drive of each member.
    pub fn drives(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.uuid.drive()).collect()
    }

    /// Returns the area for the beginning of `member` while the guard is up, if it has a guard.
    pub fn area_of(&self, member: MemberId) -> Option<Area> {
        let guarded = self.guard.is_some_and(|(guarded, _)| guarded == member);
        guarded.then(|| Area::on(self.members[usize::from(member.0)].size)).flatten()
    }

    /// Returns the scheme's settings, as `--set` takes them, without settings of a drive
    /// (`hdd.volatile_cache`).
    pub fn scheme_settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let settings = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        settings.filter(|(key, _)| !key.contains('.'))
    }

    /// Returns the settings of the drives with `role`, without the role before the key.
    pub fn drive_settings(&self, role: Role) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().filter_map(move |(key, value)| {
            let key = key.strip_prefix(role.name())?.strip_prefix('.')?;
            Some((key, value.as_str()))
        })
    }

    /// Returns a member's name for users: its role, with a number if several members have that
    /// role.
    pub fn member_name(&self, member: MemberId) -> String {
        member_name(&self.members, member)
    }
}

fn member_name(members: &[MemberLabel], member: MemberId) -> String {
    let at = usize::from(member.0);
    let role = members[at].role;
    let same = |members: &[MemberLabel]| members.iter().filter(|other| other.role == role).count();
    if same(members) == 1 { role.name().to_owned() } else { format!("{}{}", role.name(), same(&members[..at])) }
}

/// The reason for which a text cannot be the name of a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a volume's name: expected 1 to {NAME_MAX} letters, digits, '.', '_' or '-', the first a letter or \
     digit"
)]
pub struct NameError(pub String);

/// Bytes in the name of a volume at most: a socket is named after the volume, and the name must fit
/// a line.
pub const NAME_MAX: usize = 64;

/// Checks that `name` can be the name of a volume: a socket, a lock and a metric are named after
/// it.
///
/// # Errors
/// The name cannot be the name of a volume.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if begins && name.len() <= NAME_MAX && name.bytes().all(allowed) { Ok(()) } else { Err(NameError(name.to_owned())) }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        uuid::Uuid::try_parse(text).map(|uuid| Self(uuid.into_bytes())).map_err(|_| UuidError(text.to_owned()))
    }
}

/// A text that is not a UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a UUID: expected 32 hexadecimal digits, with dashes or without")]
pub struct UuidError(String);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn label() -> Label {
        let member = |role, n: u8, mib| MemberLabel {
            uuid: Uuid([n; 16]),
            role,
            size: Bytes::from_mib(mib).sectors(),
            emulates: None,
            seen_in: 11,
            carried: 0,
            last_seen: 1000,
        };
        Label {
            volume: Uuid([9; 16]),
            name: "mail".into(),
            index: MemberId(0),
            members: vec![member(Role::Ssd, 1, 8), member(Role::Hdd, 2, 64)],
            scheme: "griffin".into(),
            settings: vec![("timeout".into(), "30s".into()), ("hdd.volatile_cache".into(), "on".into())],
            block: BlockSize::default(),
            units: vec![],
            guard: None,
            resizing: false,
            format: Format::One,
            second_tail: false,
            compatible: 0,
            generation: 1,
            writing: 11,
            written: 1000,
            created_by: "bimetal 0.1.0".into(),
        }
    }

    /// A UUID that was printed reads back the same. A change of any byte changes its identity.
    #[test]
    fn uuid_reads_as_printed_and_identity_uses_every_byte() {
        let uuid = Uuid::from_random(std::array::from_fn(|at| at as u8 * 17));
        assert_eq!(uuid.to_string(), "00112233-4455-4677-8899-aabbccddeeff");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
        assert!("0011".parse::<Uuid>().is_err());
        for at in 0..16 {
            let mut other = uuid;
            other.0[at] ^= 1;
            assert_ne!(other.identity(), uuid.identity());
        }
    }

    #[test]
    fn a_generation_says_who_was_there() {
        let next = label().next(2000, 12, [(MemberId(1), 11)]);
        assert_eq!((next.generation, next.written), (2, 2000));
        assert!(!next.was_there(MemberId(0)) && next.was_there(MemberId(1)));
        assert_eq!((next.members[0].last_seen, next.members[1].last_seen), (1000, 2000));
    }

    #[test]
    fn settings_of_drives_and_of_the_scheme_are_kept_apart() {
        let label = label();
        assert_eq!(label.scheme_settings().collect::<Vec<_>>(), [("timeout", "30s")]);
        assert_eq!(label.drive_settings(Role::Hdd).collect::<Vec<_>>(), [("volatile_cache", "on")]);
        assert_eq!(label.drive_settings(Role::Ssd).count(), 0);
    }

    #[test]
    fn a_name_is_one_that_a_file_can_have_too() {
        for name in ["mail", "a", "Mail-2.old_x", &"n".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "-x", ".x", "a/b", "a b", "ä", &"n".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn members_of_one_role_are_told_apart_by_their_place() {
        let mut label = label();
        assert_eq!(label.member_name(MemberId(1)), "hdd");
        label.members.push(label.members[0].clone());
        assert_eq!((label.member_name(MemberId(0)), label.member_name(MemberId(2))), ("ssd0".into(), "ssd1".into()));
    }
}
