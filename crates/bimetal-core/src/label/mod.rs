//! Labels: how a drive says which volume it belongs to, as what, and who the others are.
//!
//! Here live the label itself, its form on a drive ([`page`]), the [`places`] of its copies, and the rules by which labels
//! that were found somewhere make a volume or are refused ([`assembly`]), how drives change their sizes ([`resize`]), and
//! what each has done in its [`lifetime`], and the [`report`] of what is lost. A label is static identity: what changes with every write, and whether a
//! volume is clean, is the engine's and stands in pages of its own in the same tail. No drive is opened here, and no
//! clock read: times are handed in. Read first: [`Label`].

pub mod assembly;
pub mod lifetime;
pub mod page;
pub mod places;
pub mod report;
pub mod resize;

use std::fmt;
use std::str::FromStr;

use crate::block::BlockSize;
use crate::guard::Area;
use crate::layout::{LABEL_SECTORS, MemberId, MemberInfo, Role};
use crate::units::{Bytes, Sectors};

/// What a volume or a member is called for ever, whatever it is named or plugged into: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A UUID (version 4) of 128 random bits.
    pub const fn from_random(mut bits: [u8; 16]) -> Self {
        bits[6] = bits[6] & 0x0f | 0x40;
        bits[8] = bits[8] & 0x3f | 0x80;
        Self(bits)
    }

    /// Both halves in one number, by which pages of the engine say which volume they belong to.
    pub fn identity(self) -> u64 {
        let (low, high) = self.0.split_at(8);
        let half = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        half(low) ^ half(high)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// A member as the labels of its volume tell of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberLabel {
    /// Its own.
    pub uuid: Uuid,
    /// What it is for.
    pub role: Role,
    /// How large it was when it was labelled. The volume uses no more of it.
    pub size: Sectors,
    /// The profile of the drive that it plays, where a file is to be as slow as a drive.
    pub emulates: Option<String>,
    /// The last [`writing`](Label::writing) of labels that it was there for.
    pub seen_in: u64,
    /// The writing that it carried before that: what it still carries if the labels were not all written.
    pub carried: u64,
    /// When it was last there, in seconds since 1970.
    pub last_seen: u64,
}

/// Where the beginning of a guarded drive is ([`crate::guard`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// In its own place: the drive may be read without Bimetal.
    Down,
    /// In two copies at the drive's end; in its place stands a header that says so.
    Up,
}

/// The form of the engine's pages on the members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Format {
    /// Each piece of metadata once.
    One,
    /// Each piece of metadata twice.
    Two,
}

impl Format {
    /// The form that new volumes begin with.
    pub const NEWEST: Self = Self::Two;

    /// As a number, for messages.
    pub const fn number(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// What stands on every member. Two members of a volume have labels that differ in nothing but [`index`](Self::index).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The volume's UUID.
    pub volume: Uuid,
    /// The volume's name.
    pub name: String,
    /// Which of the members carries this label.
    pub index: MemberId,
    /// All members, in the volume's order.
    pub members: Vec<MemberLabel>,
    /// The scheme's name.
    pub scheme: String,
    /// What was set, as `--set` takes it: key and value.
    pub settings: Vec<(String, String)>,
    /// The volume's block size.
    pub block: BlockSize,
    /// What each unit must at least hold; empty: one unit.
    pub units: Vec<Sectors>,
    /// The member that has a guard, and where that is; none where no single drive is home of everything that another
    /// may have newer.
    pub guard: Option<(MemberId, Guard)>,
    /// Whether sizes are being changed ([`resize`]): the members are of no use until that is done.
    pub resizing: bool,
    /// The form of the engine's pages.
    pub format: Format,
    /// Whether every member without a guard ends 64 KiB earlier for the engine, so that a second copy of the label lies
    /// before the last 64 KiB of every drive.
    pub second_tail: bool,
    /// Compatible features of later programs, a bit each: kept as they are. This program knows none.
    pub compatible: u32,
    /// Rises by one with every writing of the labels.
    pub generation: u64,
    /// A random number for each writing of the labels. Two halves of a volume that go on apart reach the same
    /// generation, and not the same writing.
    pub writing: u64,
    /// When this generation was written, in seconds since 1970.
    pub written: u64,
    /// Name and version of the program that made the volume.
    pub created_by: String,
}

/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;

/// What a drive of `size` can be used for, a multiple of 4 KiB, so that its tail is aligned whatever its sectors are.
pub const fn usable(size: Bytes) -> Sectors {
    Sectors(size.sectors().0 / PAGE_SECTORS * PAGE_SECTORS)
}

/// The first sector of the tail of a member of `capacity`, or `None` where it is smaller than a tail.
pub const fn tail_start(capacity: Sectors) -> Option<Sectors> {
    match capacity.0.checked_sub(LABEL_SECTORS) {
        Some(start) => Some(Sectors(start)),
        None => None,
    }
}

impl Label {
    /// The member that carries this label.
    pub fn own(&self) -> &MemberLabel {
        &self.members[usize::from(self.index.0)]
    }

    /// The same label as another member carries it.
    pub fn of(&self, member: MemberId) -> Self {
        assert!(usize::from(member.0) < self.members.len(), "volume '{}' has no member {}", self.name, member.0);
        Self { index: member, ..self.clone() }
    }

    /// The next generation, written at `now` (seconds since 1970) while the members in `present` are there, each with
    /// the writing that it carries. `writing` is a random number.
    pub fn next(&self, now: u64, writing: u64, present: impl IntoIterator<Item = (MemberId, u64)>) -> Self {
        let mut label = Self { generation: self.generation.saturating_add(1), writing, written: now, ..self.clone() };
        for (id, carried) in present {
            let member = &mut label.members[usize::from(id.0)];
            (member.seen_in, member.carried, member.last_seen) = (writing, carried, now);
        }
        label
    }

    /// Whether a member was there when this label was written.
    pub fn was_there(&self, member: MemberId) -> bool {
        self.members[usize::from(member.0)].seen_in == self.writing
    }

    /// The members as a scheme lays them out: a guarded one ends before its guard's area, another one before its tail where
    /// members have a second one.
    pub fn member_infos(&self) -> Vec<MemberInfo> {
        let second_tail = if self.second_tail { LABEL_SECTORS } else { 0 };
        let infos = self.members.iter().enumerate().map(|(at, member)| {
            let plain = Sectors(member.size.0.saturating_sub(second_tail));
            let area = self.area_of(MemberId(at as u16));
            MemberInfo { role: member.role, capacity: area.map_or(plain, |area| area.capacity()) }
        });
        infos.collect()
    }

    /// Where the beginning of `member` lies while the guard is up, if it has one.
    pub fn area_of(&self, member: MemberId) -> Option<Area> {
        let guarded = self.guard.is_some_and(|(guarded, _)| guarded == member);
        guarded.then(|| Area::on(self.members[usize::from(member.0)].size)).flatten()
    }

    /// The scheme's settings, as `--set` takes them: those that are not about a drive (`hdd.volatile_cache`).
    pub fn scheme_settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let settings = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        settings.filter(|(key, _)| !key.contains('.'))
    }

    /// The settings of the drives with `role`, without the role before the key.
    pub fn drive_settings(&self, role: Role) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().filter_map(move |(key, value)| {
            let key = key.strip_prefix(role.name())?.strip_prefix('.')?;
            Some((key, value.as_str()))
        })
    }

    /// How a user knows a member: its role, and its place among those of that role where there are several.
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

/// Why something cannot be the name of a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' cannot be the name of a volume: expected 1 to {NAME_MAX} letters, digits, '.', '_' or '-', the first a \
         letter or digit"
)]
pub struct NameError(pub String);

/// Bytes in the name of a volume: it names a socket and fits a line.
pub const NAME_MAX: usize = 64;

/// Whether `name` can be the name of a volume: what follows from it (a socket, a lock, a metric) is named after it.
///
/// # Errors
/// It cannot.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if begins && name.len() <= NAME_MAX && name.bytes().all(allowed) { Ok(()) } else { Err(NameError(name.to_owned())) }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let refuse = || UuidError(text.to_owned());
        let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b'-').collect();
        let mut bytes = [0; 16];
        if digits.len() != 2 * bytes.len() {
            return Err(refuse());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0).ok_or_else(refuse)? << 4 | digit(1).ok_or_else(refuse)?) as u8;
        }
        Ok(Self(bytes))
    }
}

/// A text that is no UUID.
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

    #[test]
    fn a_uuid_reads_as_it_is_printed_and_its_identity_takes_all_of_it() {
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
