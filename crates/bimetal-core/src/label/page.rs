//! A label as it lies on a drive: a page of 4 KiB, little-endian, versioned, with a CRC32C over all of it.
//!
//! Two pages are written in turn; of two that can be read the higher generation is the label, and a torn one is as if
//! it had never been written. Behind the header of fixed fields come members, units and texts, each with its length.

use super::{Guard, Label, MemberLabel, Uuid, check_name};
use crate::block::BlockSize;
use crate::layout::{MemberId, Role};
use crate::units::{Bytes, Sectors};

/// Bytes of a label page.
pub const PAGE_BYTES: usize = 4096;

const MAGIC: u32 = 0x6c6d_4942; // "BIml"
/// The version of the form that this program writes, and the only one that it reads.
pub const VERSION: u16 = 1;
const CHECKSUM_AT: usize = 28;
/// No drive is larger: its size in bytes is a number.
const SIZE_MAX: Sectors = Bytes(u64::MAX).sectors();

/// Why a page is no label, or none for us.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// It does not begin as a label does: never written, or something else.
    #[error("no Bimetal label")]
    NotALabel,
    /// Torn or damaged.
    #[error("a Bimetal label with a wrong checksum")]
    Checksum,
    /// Whole, but of a version that this program does not know.
    #[error("a Bimetal label of version {0}, and this program reads version {VERSION}: use a newer bimetal")]
    Version(u16),
    /// Whole, but with a field that cannot be.
    #[error("a Bimetal label whose {0} cannot be")]
    Field(&'static str),
}

/// Why a label does not fit its page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the label needs {needed} bytes and has {PAGE_BYTES}: use fewer or shorter settings")]
pub struct TooLongError {
    /// What it would take.
    pub needed: usize,
}

/// The label of a drive, and where the next one is to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    /// The newer one of the two pages.
    pub label: Label,
    /// Which page the next generation goes to: not the one that holds this label.
    pub next_page: usize,
}

/// Of the two pages of a drive, in their order, the one that holds.
///
/// # Errors
/// Neither can be read: why the more telling one of the two cannot; or one is of a later version, and then
/// nobody knows which of the two holds.
pub fn read(pages: [&[u8; PAGE_BYTES]; 2]) -> Result<Current, PageError> {
    match pages.map(decode) {
        [Err(PageError::Version(version)), _] | [_, Err(PageError::Version(version))] => {
            Err(PageError::Version(version))
        }
        [Ok(first), Ok(second)] if second.generation > first.generation => Ok(Current { label: second, next_page: 0 }),
        [Ok(label), _] => Ok(Current { label, next_page: 1 }),
        [_, Ok(label)] => Ok(Current { label, next_page: 0 }),
        [Err(PageError::NotALabel), Err(second)] => Err(second),
        [Err(first), Err(_)] => Err(first),
    }
}

/// The page that says `label`.
///
/// # Errors
/// The texts in it are too long.
pub fn encode(label: &Label) -> Result<[u8; PAGE_BYTES], TooLongError> {
    let mut out = Vec::with_capacity(PAGE_BYTES);
    out.extend(MAGIC.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    let [guard, member] = guard_bytes(label.guard);
    out.extend([guard | if label.resizing { RESIZING } else { 0 }, member]);
    out.extend(label.generation.to_le_bytes());
    out.extend(label.written.to_le_bytes());
    out.extend((label.block.bytes().0 as u32).to_le_bytes());
    out.extend([0; 4]);
    out.extend(label.volume.0);
    out.extend(label.writing.to_le_bytes());
    for count in [usize::from(label.index.0), label.members.len(), label.units.len(), label.settings.len()] {
        out.extend((count as u16).to_le_bytes());
    }
    for text in [&label.name, &label.scheme, &label.created_by] {
        put_text(&mut out, text);
    }
    for member in &label.members {
        out.extend(member.uuid.0);
        out.extend([role_number(member.role), 0]);
        for number in [member.size.0, member.seen_in, member.carried, member.last_seen] {
            out.extend(number.to_le_bytes());
        }
        put_text(&mut out, member.emulates.as_deref().unwrap_or(""));
    }
    for unit in &label.units {
        out.extend(unit.0.to_le_bytes());
    }
    for (key, value) in &label.settings {
        put_text(&mut out, &format!("{key}={value}"));
    }
    if out.len() > PAGE_BYTES {
        return Err(TooLongError { needed: out.len() });
    }
    let mut page = [0; PAGE_BYTES];
    page[..out.len()].copy_from_slice(&out);
    let checksum = checksum_of(&page);
    page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    Ok(page)
}

/// The label that `page` says.
///
/// # Errors
/// It says none.
pub fn decode(page: &[u8; PAGE_BYTES]) -> Result<Label, PageError> {
    let mut reader = Reader { rest: page };
    if reader.u32("magic")? != MAGIC {
        return Err(PageError::NotALabel);
    }
    let version = reader.u16("version")?;
    let [guard, guarded] = reader.array("guard")?;
    let (generation, written) = (reader.u64("generation")?, reader.u64("time")?);
    let (block, checksum) = (reader.u32("block size")?, reader.u32("checksum")?);
    if checksum != checksum_of(page) {
        return Err(PageError::Checksum);
    }
    if version != VERSION {
        return Err(PageError::Version(version));
    }
    let volume = Uuid(reader.array("volume")?);
    let writing = reader.u64("writing")?;
    let [index, members, units, settings] = {
        let mut count = || reader.u16("number of members, units or settings");
        [count()?, count()?, count()?, count()?]
    };
    let [name, scheme, created_by] = [reader.text("name")?, reader.text("scheme")?, reader.text("program")?];
    let label = Label {
        volume,
        name,
        index: MemberId(index),
        members: (0..members).map(|_| reader.member()).collect::<Result<_, _>>()?,
        scheme,
        units: (0..units).map(|_| reader.u64("unit").map(Sectors)).collect::<Result<_, _>>()?,
        settings: (0..settings).map(|_| reader.setting()).collect::<Result<_, _>>()?,
        block: BlockSize::new(Bytes(block.into())).map_err(|_| PageError::Field("block size"))?,
        guard: guard_of([guard & !RESIZING, guarded]).ok_or(PageError::Field("guard"))?,
        resizing: guard & RESIZING != 0,
        generation,
        writing,
        written,
        created_by,
    };
    check(&label)?;
    Ok(label)
}

/// What is true of every label that this program writes.
fn check(label: &Label) -> Result<(), PageError> {
    check_name(&label.name).map_err(|_| PageError::Field("name"))?;
    if usize::from(label.index.0) >= label.members.len() {
        return Err(PageError::Field("index"));
    }
    // A guard on a drive that has no room for one would be taken for none.
    if label
        .guard
        .is_some_and(|(member, _)| member.0 as usize >= label.members.len() || label.area_of(member).is_none())
    {
        return Err(PageError::Field("guard"));
    }
    if label.units.iter().any(|&unit| unit > SIZE_MAX) {
        return Err(PageError::Field("unit"));
    }
    for (at, member) in label.members.iter().enumerate() {
        if label.members[..at].iter().any(|other| other.uuid == member.uuid) {
            return Err(PageError::Field("list of members"));
        }
        if member.size > SIZE_MAX {
            return Err(PageError::Field("size"));
        }
    }
    Ok(())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take(&mut self, count: usize, field: &'static str) -> Result<&[u8], PageError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(PageError::Field(field))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], PageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    fn u16(&mut self, field: &'static str) -> Result<u16, PageError> {
        self.array(field).map(u16::from_le_bytes)
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, PageError> {
        self.array(field).map(u32::from_le_bytes)
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, PageError> {
        self.array(field).map(u64::from_le_bytes)
    }

    fn text(&mut self, field: &'static str) -> Result<String, PageError> {
        let length = self.u16(field)?;
        let bytes = self.take(usize::from(length), field)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| PageError::Field(field))
    }

    fn member(&mut self) -> Result<MemberLabel, PageError> {
        let uuid = Uuid(self.array("member")?);
        let [role, _] = self.array("role")?;
        Ok(MemberLabel {
            uuid,
            role: role_of(role).ok_or(PageError::Field("role"))?,
            size: Sectors(self.u64("size")?),
            seen_in: self.u64("writing")?,
            carried: self.u64("writing")?,
            last_seen: self.u64("time")?,
            emulates: Some(self.text("profile")?).filter(|profile| !profile.is_empty()),
        })
    }

    fn setting(&mut self) -> Result<(String, String), PageError> {
        let text = self.text("setting")?;
        let (key, value) = text.split_once('=').ok_or(PageError::Field("setting"))?;
        Ok((key.to_owned(), value.to_owned()))
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // A text too long for its length is too long for the page, which is noticed at the end.
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

fn checksum_of(page: &[u8; PAGE_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page[..CHECKSUM_AT]), &page[CHECKSUM_AT + 4..])
}

const fn role_number(role: Role) -> u8 {
    match role {
        Role::Ssd => 1,
        Role::Hdd => 2,
        Role::Log => 3,
    }
}

const fn role_of(number: u8) -> Option<Role> {
    match number {
        1 => Some(Role::Ssd),
        2 => Some(Role::Hdd),
        3 => Some(Role::Log),
        _ => None,
    }
}

/// A bit beside the guard's number.
const RESIZING: u8 = 0x80;

/// Where the guard is, and whose it is.
fn guard_bytes(guard: Option<(MemberId, Guard)>) -> [u8; 2] {
    match guard {
        None => [0, 0],
        Some((member, Guard::Down)) => [1, member.0 as u8],
        Some((member, Guard::Up)) => [2, member.0 as u8],
    }
}

fn guard_of([state, member]: [u8; 2]) -> Option<Option<(MemberId, Guard)>> {
    let member = MemberId(member.into());
    match state {
        0 if member.0 == 0 => Some(None),
        1 => Some(Some((member, Guard::Down))),
        2 => Some(Some((member, Guard::Up))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Area;
    use crate::label::tests::label;
    use proptest::prelude::*;

    prop_compose! {
        fn any_member()(
            uuid: [u8; 16],
            role in prop_oneof![Just(Role::Ssd), Just(Role::Hdd), Just(Role::Log)],
            size in 0..=SIZE_MAX.0,
            emulates in proptest::option::of("[a-z0-9-]{1,20}"),
            (seen_in, carried, last_seen) in any::<(u64, u64, u64)>(),
        ) -> MemberLabel {
            MemberLabel { uuid: Uuid(uuid), role, size: Sectors(size), emulates, seen_in, carried, last_seen }
        }
    }

    prop_compose! {
        fn any_label()(
            volume: [u8; 16],
            name in "[a-z0-9][a-zA-Z0-9._-]{0,63}",
            scheme in "[a-z-]{0,20}",
            mut members in proptest::collection::vec(any_member(), 1..6),
            settings in proptest::collection::vec(("[a-z_.]{1,20}", "[ -~]{0,40}"), 0..10),
            block in 0u32..=8,
            units in proptest::collection::vec(0..=SIZE_MAX.0, 0..3),
            guard in prop_oneof![Just(None), Just(Some(Guard::Down)), Just(Some(Guard::Up))],
            (generation, writing, written) in any::<(u64, u64, u64)>(),
            created_by in ".{0,30}",
            resizing: bool,
            index: prop::sample::Index,
        ) -> Label {
            for (at, member) in members.iter_mut().enumerate() {
                member.uuid.0[0] = at as u8;
            }
            let index = MemberId(index.index(members.len()) as u16);
            let units = units.into_iter().map(Sectors).collect();
            let block = BlockSize::new(Bytes::from_kib(4 << block)).unwrap();
            let volume = Uuid(volume);
            let guard = guard.map(|guard| (index, guard)).filter(|_| Area::on(members[usize::from(index.0)].size).is_some());
            Label {
                volume, name, index, members, scheme, settings, block, units, guard, resizing, generation, writing, written, created_by,
            }
        }
    }

    proptest! {
        #[test]
        fn a_label_reads_back(label in any_label()) {
            let page = encode(&label).unwrap();
            prop_assert_eq!(decode(&page), Ok(label));
        }

        #[test]
        fn any_flipped_bit_is_noticed(label in any_label(), at in 0..PAGE_BYTES, bit in 0u8..8) {
            let mut page = encode(&label).unwrap();
            page[at] ^= 1 << bit;
            prop_assert!(decode(&page).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES), short: u8) {
            let mut page = [0; PAGE_BYTES];
            // Short counts and lengths lead further in than random ones.
            for byte in bytes.iter_mut().skip(48) {
                *byte %= short.max(1);
            }
            page.copy_from_slice(&bytes);
            let _ = decode(&page);
            page[0..4].copy_from_slice(&MAGIC.to_le_bytes());
            page[4..6].copy_from_slice(&VERSION.to_le_bytes());
            let checksum = checksum_of(&page);
            page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(label) = decode(&page) {
                // What passes can be used and written again.
                prop_assert_eq!(decode(&encode(&label).unwrap()), Ok(label.of(label.index)));
            }
        }
    }

    #[test]
    fn of_two_pages_the_higher_generation_holds_and_a_torn_one_does_not_count() {
        let old = label();
        let new = old.next(2000, 12, []);
        let (old_page, new_page) = (encode(&old).unwrap(), encode(&new).unwrap());
        let mut torn = new_page;
        torn[512..].fill(0);
        torn[600] = 7;
        let empty = [0; PAGE_BYTES];
        let current = |label: &Label, next_page| Ok(Current { label: label.clone(), next_page });
        assert_eq!(read([&old_page, &new_page]), current(&new, 0));
        assert_eq!(read([&new_page, &old_page]), current(&new, 1));
        assert_eq!(read([&old_page, &torn]), current(&old, 1));
        assert_eq!(read([&empty, &old_page]), current(&old, 0));
        assert_eq!(read([&empty, &empty]), Err(PageError::NotALabel));
        assert_eq!(read([&empty, &torn]), Err(PageError::Checksum));
    }

    #[test]
    fn a_label_of_a_later_version_is_never_taken_for_an_old_one() {
        let page = encode(&label()).unwrap();
        let mut later = page;
        later[4..6].copy_from_slice(&2u16.to_le_bytes());
        let checksum = checksum_of(&later);
        later[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(read([&page, &later]), Err(PageError::Version(2)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut label = label();
        label.settings = vec![("note".into(), "x".repeat(5000))];
        assert!(encode(&label).unwrap_err().needed > 5000);
    }
}
