//! A label as it lies on a drive: a page of 4 KiB, little-endian, versioned, with a CRC32C over the
//! whole page.
//!
//! Two turns are written alternately, each in two places ([`CopyPlace`]). Of all readable pages,
//! the label is the page with the highest generation; a torn page counts as never written. Behind
//! the header of fixed fields lie members, units and texts, each with its length.
//!
//! Version 2 has feature flags behind the header. The program refuses a drive with an incompatible
//! feature that it does not know, and keeps unknown compatible features as they are. A label that
//! needs no features is written as version 1.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::places::CopyPlace;
use super::{Format, Guard, Label, MemberLabel, Uuid, check_name};
use crate::block::BlockSize;
use crate::layout::{MemberId, Role};
use crate::units::{Bytes, Sectors};

/// Bytes of a label page.
pub const PAGE_BYTES: usize = 4096;

const MAGIC: u32 = 0x6c6d_4942; // "BIml"
/// The newest version that this program reads and writes.
pub const VERSION: u16 = 2;
/// The version without feature flags.
const VERSION_WITHOUT_FEATURES: u16 = 1;
/// Size limit of a drive: its size in bytes must fit a number of 64 bits.
const SIZE_MAX: Sectors = Bytes(u64::MAX).sectors();

/// The fixed fields at the beginning of a page.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: U32,
    version: U16,
    guard: u8,
    guarded: u8,
    generation: U64,
    written: U64,
    block: U32,
    checksum: U32,
    volume: [u8; 16],
    writing: U64,
    index: U16,
    members: U16,
    units: U16,
    settings: U16,
}

/// The fields that follow the header in a page of version 2.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default)]
#[repr(C)]
struct Features {
    compatible: U32,
    incompatible: U32,
}

/// A member; the profile that it emulates follows as a text.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MemberHead {
    uuid: [u8; 16],
    role: u8,
    zero: u8,
    size: U64,
    seen_in: U64,
    carried: U64,
    last_seen: U64,
}

const CHECKSUM_AT: usize = offset_of!(Header, checksum);
const CHECKSUM_END: usize = CHECKSUM_AT + size_of::<U32>();

/// Incompatible feature: the engine uses 64 KiB less of every member without a guard.
const SECOND_TAIL: u32 = 1;
/// Incompatible feature: the engine's pages are of format 2.
const FORMAT_2: u32 = 2;
const KNOWN: u32 = SECOND_TAIL | FORMAT_2;

/// Reasons for which a page is not a label, or no label for this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The page does not begin as a label does: it was never written, or has another content.
    #[error("no Bimetal label")]
    NotALabel,
    /// The page is torn or damaged.
    #[error("a Bimetal label with a wrong checksum")]
    Checksum,
    /// The page is undamaged, but of a version that this program does not know.
    #[error("a Bimetal label of version {0}, but this program reads versions up to {VERSION}: use a newer bimetal")]
    Version(u16),
    /// The page is undamaged, but has an incompatible feature that this program does not know.
    #[error(
        "a Bimetal label with the incompatible feature of bit {0}, which this program does not know: use a newer bimetal"
    )]
    Feature(u32),
    /// The page is undamaged, but has an impossible field.
    #[error("a Bimetal label with an invalid {0}")]
    Field(&'static str),
}

/// The reason for which a label does not fit its page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the label needs {needed} bytes and has room for {PAGE_BYTES}: use fewer or shorter settings")]
pub struct TooLongError {
    /// Bytes that the label would take.
    pub needed: usize,
}

/// A page of a drive, and its place.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Turn of the page.
    pub turn: usize,
    /// Place of the page.
    pub place: CopyPlace,
    /// The content of the page.
    pub page: &'a [u8; PAGE_BYTES],
}

/// The label of a drive, and the turn for the next label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    /// The newest label in the pages.
    pub label: Label,
    /// The turn of the next generation: not the turn of this label.
    pub next_turn: usize,
    /// Set if only second copies can be read: both first pages are lost, for instance because
    /// another program has written over the pages.
    pub by_second_copy: bool,
}

/// Returns the label that counts among the pages at the end of `size`. Unreadable pages are left
/// out.
///
/// A second copy counts if the label in the second copy puts a second copy in this place. While a
/// first page can be read, second copies count only where the first page puts second copies, and
/// only for the drive that the first page names. If first pages name different drives, the drive
/// that more pages name counts.
///
/// # Errors
/// No page can be read: the more telling error of the two first pages. The second kind of error: a
/// page is of a later version, so it is unknown which page counts.
pub fn read<'a>(size: Sectors, pages: impl IntoIterator<Item = Seen<'a>>) -> Result<Current, PageError> {
    let (mut first, mut second, mut why) = (Vec::new(), Vec::new(), PageError::NotALabel);
    let mut later = None;
    for Seen { turn, place, page } in pages {
        match decode(page) {
            Ok(label) if place == CopyPlace::First => first.push((turn, place, label)),
            Ok(label) if label.second_copy(size) == place => second.push((turn, place, label)),
            Ok(_) => {}
            Err(error @ (PageError::Version(_) | PageError::Feature(_))) => match place {
                CopyPlace::First => return Err(error),
                _ => later = later.or(Some(error)),
            },
            Err(error) if place == CopyPlace::First && why == PageError::NotALabel => why = error,
            Err(_) => {}
        }
    }
    let by_second_copy = first.is_empty();
    if by_second_copy && let Some(error) = later {
        return Err(error);
    }
    if let Some(leader) = leader(&first, &second, size).cloned() {
        let is_same = |label: &Label| identity(label) == identity(&leader);
        first.retain(|(.., label)| is_same(label));
        second.retain(|(_, place, label)| is_same(label) && may_lie(&leader, size, *place));
    }
    first.append(&mut second);
    let (turn, _, label) = newest(&first).cloned().ok_or(why)?;
    Ok(Current { label, next_turn: 1 - (turn & 1), by_second_copy })
}

/// Returns the newest label in the first pages of the drive that most of these pages name. Another
/// drive's label may have been written to one of these pages by mistake. The other pages outvote
/// such a page: before a drive becomes another member, all its first pages are zeroed.
fn leader<'a>(first: &'a [Read], second: &[Read], size: Sectors) -> Option<&'a Label> {
    let pages_of = |label: &Label| {
        let same = |other: &Label| identity(other) == identity(label);
        let copies = second.iter().filter(|(_, place, other)| same(other) && may_lie(label, size, *place));
        first.iter().filter(|(.., other)| same(other)).count() + copies.count()
    };
    first.iter().rev().map(|(.., label)| label).max_by_key(|label| (pages_of(label), label.generation))
}

/// Returns true if `place` can have a second copy beside `label` in a first page.
fn may_lie(label: &Label, size: Sectors, place: CopyPlace) -> bool {
    [label.second_copy(size), CopyPlace::InTail].contains(&place)
}

/// Returns the volume and the member that a label names.
fn identity(label: &Label) -> (Uuid, Uuid) {
    (label.volume, label.own().uuid)
}

/// A label, with the turn and the place of its page.
type Read = (usize, CopyPlace, Label);

/// Returns the label of the highest generation, the first of several.
fn newest(labels: &[Read]) -> Option<&Read> {
    labels.iter().rev().max_by_key(|(.., label)| label.generation)
}

/// Returns `label` as a page.
///
/// # Errors
/// The texts of the label are too long for its page.
pub fn encode(label: &Label) -> Result<[u8; PAGE_BYTES], TooLongError> {
    let mut out = Vec::with_capacity(PAGE_BYTES);
    let features = features_of(label);
    out.extend(header_of(label, features.is_some()).as_bytes());
    out.extend(features.as_ref().map_or(&[][..], IntoBytes::as_bytes));
    for text in [&label.name, &label.scheme, &label.created_by] {
        put_text(&mut out, text);
    }
    for member in &label.members {
        let head = MemberHead {
            uuid: member.uuid.0,
            role: role_number(member.role),
            zero: 0,
            size: member.size.0.into(),
            seen_in: member.seen_in.into(),
            carried: member.carried.into(),
            last_seen: member.last_seen.into(),
        };
        out.extend(head.as_bytes());
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
    seal(&mut page);
    Ok(page)
}

fn header_of(label: &Label, has_features: bool) -> Header {
    let [guard, guarded] = guard_bytes(label.guard);
    let count = |count: usize| U16::new(count as u16);
    Header {
        magic: MAGIC.into(),
        version: if has_features { VERSION } else { VERSION_WITHOUT_FEATURES }.into(),
        guard: guard | if label.resizing { RESIZING } else { 0 },
        guarded,
        generation: label.generation.into(),
        written: label.written.into(),
        block: (label.block.bytes().0 as u32).into(),
        checksum: 0.into(),
        volume: label.volume.0,
        writing: label.writing.into(),
        index: label.index.0.into(),
        members: count(label.members.len()),
        units: count(label.units.len()),
        settings: count(label.settings.len()),
    }
}

/// Returns the features of a label, if it has any.
fn features_of(label: &Label) -> Option<Features> {
    let format = if label.format == Format::Two { FORMAT_2 } else { 0 };
    let incompatible = format | if label.second_tail { SECOND_TAIL } else { 0 };
    let features = Features { compatible: label.compatible.into(), incompatible: incompatible.into() };
    (label.compatible != 0 || incompatible != 0).then_some(features)
}

/// Returns the label in `page`.
///
/// # Errors
/// The page holds no label for this program.
pub fn decode(page: &[u8; PAGE_BYTES]) -> Result<Label, PageError> {
    let mut reader = Reader { rest: page };
    let header: Header = reader.take("header")?;
    if header.magic != MAGIC {
        return Err(PageError::NotALabel);
    }
    if header.checksum != checksum_of(page) {
        return Err(PageError::Checksum);
    }
    let features = match header.version.get() {
        VERSION_WITHOUT_FEATURES => Features::default(),
        VERSION => reader.take("features")?,
        later => return Err(PageError::Version(later)),
    };
    let incompatible = features.incompatible.get();
    if incompatible & !KNOWN != 0 {
        return Err(PageError::Feature((incompatible & !KNOWN).trailing_zeros()));
    }
    let [name, scheme, created_by] = [reader.text("name")?, reader.text("scheme")?, reader.text("program")?];
    let label = Label {
        volume: Uuid(header.volume),
        name,
        index: MemberId(header.index.get()),
        members: (0..header.members.get()).map(|_| reader.member()).collect::<Result<_, _>>()?,
        scheme,
        units: (0..header.units.get())
            .map(|_| reader.take("unit").map(|unit: U64| Sectors(unit.get())))
            .collect::<Result<_, _>>()?,
        settings: (0..header.settings.get()).map(|_| reader.setting()).collect::<Result<_, _>>()?,
        block: BlockSize::new(Bytes(header.block.get().into())).map_err(|_| PageError::Field("block size"))?,
        guard: guard_of([header.guard & !RESIZING, header.guarded]).ok_or(PageError::Field("guard"))?,
        resizing: header.guard & RESIZING != 0,
        format: if incompatible & FORMAT_2 == 0 { Format::One } else { Format::Two },
        second_tail: incompatible & SECOND_TAIL != 0,
        compatible: features.compatible.get(),
        generation: header.generation.get(),
        writing: header.writing.get(),
        written: header.written.get(),
        created_by,
    };
    check(&label)?;
    Ok(label)
}

/// Checks the conditions that hold for every label that this program writes.
fn check(label: &Label) -> Result<(), PageError> {
    check_name(&label.name).map_err(|_| PageError::Field("name"))?;
    if usize::from(label.index.0) >= label.members.len() {
        return Err(PageError::Field("index"));
    }
    // A guard on a drive without room for it would be taken for no guard.
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
    fn take<T: FromBytes>(&mut self, field: &'static str) -> Result<T, PageError> {
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| PageError::Field(field))?;
        self.rest = rest;
        Ok(value)
    }

    fn text(&mut self, field: &'static str) -> Result<String, PageError> {
        let length: U16 = self.take(field)?;
        let (text, rest) = self.rest.split_at_checked(length.get().into()).ok_or(PageError::Field(field))?;
        self.rest = rest;
        String::from_utf8(text.to_vec()).map_err(|_| PageError::Field(field))
    }

    fn member(&mut self) -> Result<MemberLabel, PageError> {
        let head: MemberHead = self.take("member")?;
        Ok(MemberLabel {
            uuid: Uuid(head.uuid),
            role: role_of(head.role).ok_or(PageError::Field("role"))?,
            size: Sectors(head.size.get()),
            seen_in: head.seen_in.get(),
            carried: head.carried.get(),
            last_seen: head.last_seen.get(),
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
    // A text too long for its length field is too long for the page, which is noticed at the end.
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

fn checksum_of(page: &[u8; PAGE_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page[..CHECKSUM_AT]), &page[CHECKSUM_END..])
}

/// Sets the checksum of a page that is otherwise complete.
fn seal(page: &mut [u8; PAGE_BYTES]) {
    let checksum = checksum_of(page);
    page[CHECKSUM_AT..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
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

/// Bit of the guard's byte that is set while sizes change.
const RESIZING: u8 = 0x80;

/// Returns the guard's state and its member, as bytes.
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
    use crate::label::Area;
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
            (second_tail, compatible) in any::<(bool, u32)>(),
            format in prop_oneof![Just(Format::One), Just(Format::Two)],
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
                volume, name, index, members, scheme, settings, block, units, guard, resizing, format, second_tail, compatible,
                generation, writing, written, created_by,
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
            // Short counts and lengths reach further code than random ones.
            for byte in bytes.iter_mut().skip(48) {
                *byte %= short.max(1);
            }
            page.copy_from_slice(&bytes);
            let _ = decode(&page);
            page[0..4].copy_from_slice(&MAGIC.to_le_bytes());
            for version in 1..=VERSION {
                page[4..6].copy_from_slice(&version.to_le_bytes());
                // Unknown features would end decoding early, so only known ones are kept.
                page[68] &= KNOWN as u8;
                page[69..72].fill(0);
                seal(&mut page);
                if let Ok(label) = decode(&page) {
                    // A label that passes can be used and written again.
                    prop_assert_eq!(decode(&encode(&label).unwrap()), Ok(label.of(label.index)));
                }
            }
        }
    }

    fn sealed(mut page: [u8; PAGE_BYTES], at: usize, bytes: &[u8]) -> [u8; PAGE_BYTES] {
        page[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut page);
        page
    }

    /// Reads the first pages of a drive, in the order of turns, without second copies.
    fn first(pages: [&[u8; PAGE_BYTES]; 2]) -> Result<Current, PageError> {
        let seen = pages.into_iter().enumerate();
        read(label().own().size, seen.map(|(turn, page)| Seen { turn, place: CopyPlace::First, page }))
    }

    /// Of two label pages the page with the higher generation counts. A torn page does not count.
    #[test]
    fn label_page_of_higher_generation_counts_unless_torn() {
        let old = label();
        let new = old.next(2000, 12, []);
        let (old_page, new_page) = (encode(&old).unwrap(), encode(&new).unwrap());
        let mut torn = new_page;
        torn[512..].fill(0);
        torn[600] = 7;
        let empty = [0; PAGE_BYTES];
        let current = |label: &Label, next_turn| Ok(Current { label: label.clone(), next_turn, by_second_copy: false });
        assert_eq!(first([&old_page, &new_page]), current(&new, 0));
        assert_eq!(first([&new_page, &old_page]), current(&new, 1));
        assert_eq!(first([&old_page, &torn]), current(&old, 1));
        assert_eq!(first([&empty, &old_page]), current(&old, 0));
        assert_eq!(first([&empty, &empty]), Err(PageError::NotALabel));
        assert_eq!(first([&empty, &torn]), Err(PageError::Checksum));
    }

    #[test]
    fn a_label_of_a_later_version_is_never_taken_for_an_old_one() {
        let page = encode(&label()).unwrap();
        let later = sealed(page, 4, &3u16.to_le_bytes());
        assert_eq!(first([&page, &later]), Err(PageError::Version(3)));
        let mut features = label();
        features.second_tail = true;
        let newer = sealed(encode(&features).unwrap(), 68, &(SECOND_TAIL | 1 << 5).to_le_bytes());
        assert_eq!(first([&page, &newer]), Err(PageError::Feature(5)));
        let message = PageError::Feature(5).to_string();
        assert!(message.contains("bit 5") && message.contains("use a newer bimetal"), "{message}");
    }

    /// Checks the bytes of `label()` as the first version of the program wrote them.
    #[test]
    fn version_1_label_reads_as_before() {
        let mut page = [0; PAGE_BYTES];
        let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
        let member = |uuid: u8, role: u8, mib: u64| {
            let numbers: Vec<u8> = [mib << 11, 11, 0, 1000].into_iter().flat_map(u64::to_le_bytes).collect();
            [&[uuid; 16][..], &[role, 0], &numbers, &text("")].concat()
        };
        let bytes = [
            &b"BIml\x01\0"[..],
            &[0, 0],
            &1u64.to_le_bytes(),
            &1000u64.to_le_bytes(),
            &4096u32.to_le_bytes(),
            &[0; 4],
            &[9; 16],
            &11u64.to_le_bytes(),
            &[0, 0, 2, 0, 0, 0, 2, 0],
            &text("mail"),
            &text("griffin"),
            &text("bimetal 0.1.0"),
            &member(1, 1, 8),
            &member(2, 2, 64),
            &text("timeout=30s"),
            &text("hdd.volatile_cache=on"),
        ]
        .concat();
        page[..bytes.len()].copy_from_slice(&bytes);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&page[..28]), &page[32..]);
        page[28..32].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(decode(&page), Ok(label()));
        // A volume with such a label also stays readable for the first version.
        assert_eq!(encode(&label()), Ok(page));
    }

    #[test]
    fn unknown_compatible_feature_survives_another_writing() {
        let mut label = label();
        label.compatible = 1 << 31 | 4;
        let read = decode(&encode(&label).unwrap()).unwrap();
        let next = read.next(2000, 12, []).of(MemberId(1));
        assert_eq!(decode(&encode(&next).unwrap()).unwrap().compatible, 1 << 31 | 4);
    }

    #[test]
    fn second_copy_counts_only_where_its_label_has_it() {
        let mut label = label();
        label.second_tail = true;
        let (page, size) = (encode(&label).unwrap(), label.own().size);
        for place in CopyPlace::ALL {
            let found = read(size, [Seen { turn: 1, place, page: &page }]);
            let by_second_copy = place != CopyPlace::First;
            match place {
                CopyPlace::First | CopyPlace::BeforeTail => {
                    assert_eq!(found, Ok(Current { label: label.clone(), next_turn: 0, by_second_copy }));
                }
                _ => assert_eq!(found, Err(PageError::NotALabel)),
            }
        }
        // At another end the page would belong to something else.
        let other = Sectors(size.0 + 128);
        let seen = Seen { turn: 0, place: CopyPlace::BeforeTail, page: &page };
        assert_eq!(read(other, [seen]), Err(PageError::NotALabel));
    }

    /// A client may write a page that looks like a label to the place of a second copy, and the
    /// page changes nothing.
    #[test]
    fn forged_second_copy_is_not_counted_beside_a_first() {
        let mut label = label();
        (label.index, label.guard) = (MemberId(1), Some((MemberId(1), Guard::Up)));
        let mut forged = label.next(3000, 13, []);
        (forged.guard, forged.second_tail) = (None, true);
        let (page, forged) = (encode(&label).unwrap(), encode(&forged).unwrap());
        let seen = [
            Seen { turn: 0, place: CopyPlace::First, page: &page },
            Seen { turn: 1, place: CopyPlace::BeforeTail, page: &forged },
        ];
        assert_eq!(read(label.own().size, seen).map(|current| current.label), Ok(label));
    }

    /// A drive of a test: pages by their first sector.
    #[derive(Clone)]
    struct Drive {
        size: Sectors,
        pages: std::collections::BTreeMap<u64, [u8; PAGE_BYTES]>,
    }

    impl Drive {
        fn read(&self) -> Result<Current, PageError> {
            let seen = self.pages.iter().filter_map(|(&sector, page)| {
                let (turn, place) = CopyPlace::at(self.size, sector)?;
                Some(Seen { turn, place, page })
            });
            read(self.size, seen)
        }

        /// Writes the next turn, and cuts the writing in the middle of page number `cut`.
        fn write(&mut self, label: &Label, cut: usize) {
            let turn = self.read().map_or(0, |current| current.next_turn);
            let page = encode(label).unwrap();
            for (number, at) in label.pages(self.size, turn).enumerate().take(cut + 1) {
                let old = self.pages.entry(at.start.0).or_insert([0; PAGE_BYTES]);
                // A torn page has the new header and the old rest.
                let written = if number == cut { 48 } else { PAGE_BYTES };
                old[..written].copy_from_slice(&page[..written]);
            }
        }
    }

    proptest! {
        /// Cuts writings anywhere, and tears the page at each cut. After the cuts one page of the
        /// drive is damaged, or the last 64 KiB are wiped. The label is the newest that was written
        /// whole, or a label whose writing was cut short.
        #[test]
        fn newest_label_survives_cuts_and_the_loss_of_a_page(
            cuts in proptest::collection::vec(0usize..3, 1..8),
            kind in 0usize..3,
            damaged: prop::sample::Index,
            wiped: bool,
        ) {
            let mut label = label();
            label.index = MemberId(1);
            label.guard = (kind == 1).then_some((MemberId(1), Guard::Up));
            label.second_tail = kind == 2;
            let size = label.own().size;
            let mut drive = Drive { size, pages: Default::default() };
            drive.write(&label, 2);
            let mut whole = label.generation;
            let mut cut_short = false;
            for cut in cuts {
                label = label.next(2000, label.writing + 1, []);
                drive.write(&label, cut);
                let found = drive.read().unwrap();
                // The new label counts from its first page on; before that, the previous label
                // does.
                prop_assert_eq!(found.label.generation, if cut == 0 { whole } else { label.generation });
                prop_assert!(!found.by_second_copy);
                cut_short = cut < 2;
                if cut > 0 {
                    whole = label.generation;
                }
                label = found.label;
            }
            if cut_short {
                // A label whose writing was cut short is written again, as at every start.
                label = label.next(2000, label.writing + 1, []);
                drive.write(&label, 2);
                whole = label.generation;
            }
            let tail = size.0 - 128;
            if wiped && kind != 0 {
                drive.pages.retain(|&sector, _| sector < tail);
            } else {
                let at = *damaged.get(&drive.pages.keys().copied().collect::<Vec<_>>());
                drive.pages.get_mut(&at).unwrap()[40] ^= 1;
            }
            let found = drive.read().unwrap();
            prop_assert_eq!(found.label.generation, whole);
            prop_assert_eq!(found.by_second_copy, wiped && kind != 0);
            // The next two writings repair the damaged page.
            for _ in 0..2 {
                label = label.next(3000, label.writing + 1, []);
                drive.write(&label, 2);
            }
            prop_assert!(drive.pages.values().all(|page| decode(page).is_ok()));
        }
    }

    /// A drive wrote the label of another member, or of another volume, to the place of a label.
    /// Regression: the newest page counted, so the drive was taken for a copy of another member,
    /// and the volume was refused.
    #[test]
    fn label_of_another_drive_is_outvoted_in_any_page() {
        for (guard, second_tail) in [(None, false), (None, true), (Some((MemberId(1), Guard::Up)), true)] {
            let mut label = Label { index: MemberId(1), guard, second_tail, ..label() };
            let mut drive = Drive { size: label.own().size, pages: Default::default() };
            drive.write(&label, 2);
            label = label.next(2000, 12, []);
            drive.write(&label, 2);
            let other_volume = Label { volume: Uuid([7; 16]), ..label.next(3000, 13, []) };
            assert_eq!(drive.pages.len(), 4);
            for foreign in [label.of(MemberId(0)), label.next(3000, 13, []).of(MemberId(0)), other_volume] {
                let page = encode(&foreign).unwrap();
                for &at in drive.pages.keys() {
                    let mut damaged = drive.clone();
                    damaged.pages.insert(at, page);
                    assert_eq!(damaged.read().map(|current| current.label), Ok(label.clone()), "sector {at}");
                    damaged.write(&label.next(4000, 14, []), 2);
                    damaged.write(&label.next(4000, 15, []), 2);
                    assert!(damaged.pages.values().all(|now| *now != page), "the next writings repair the page");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut label = label();
        label.settings = vec![("note".into(), "x".repeat(5000))];
        assert!(encode(&label).unwrap_err().needed > 5000);
    }
}
