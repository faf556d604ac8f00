//! Impossible metadata: bytes anywhere in it are changed, and its checksums made right again.

use bimetal_core::journal::{PAGE_SECTORS, marks_pages};
use bimetal_core::layout::SlotKind;
use bimetal_core::operation::{Command, OpKind, Operation, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::{RecoveryError, Volume};

use super::{CACHES, Raw, World};

/// Bytes of a page's checksum, which covers all other bytes.
const CHECKSUM: std::ops::Range<usize> = 28..32;
/// Size of an entry of the slot table, whose last two bytes check the other bytes.
const PLACE_BYTES: usize = 16;
const PAGE_BYTES: usize = PAGE_SECTORS as usize * 512;
/// First bytes of the kinds of pages that have a checksum.
pub(crate) const MAGICS: [&[u8; 4]; 4] = [b"BIms", b"BImj", b"BImt", b"BIpl"];

/// Schemes with other kinds of metadata, besides [`CACHES`](super::CACHES).
pub(crate) const OTHERS: [(&str, &[(&str, &str)]); 4] =
    [("combo", &[("strategy", "frequency")]), ("hyperduo", &[]), ("mixedstore", &[]), ("os-managed", &[])];

/// Returns a volume with changes of every kind, stopped without a close.
pub(crate) fn written(scheme: &'static str, settings: &[(&'static str, &'static str)]) -> World {
    let mut world = World::new(scheme, settings);
    for life in 1..3u8 {
        let mut volume = world.recover(&[]).unwrap();
        for step in 0..60u64 {
            let start = (step * 7919) % 900 * 8;
            world.write(&mut volume, start + step % 2, 8 - step % 2 * 3, life);
            match step % 10 {
                3 => drop(world.request(&mut volume, OpKind::Discard, start, Raw::empty(), 24)),
                7 => world.flush(&mut volume),
                _ => {}
            }
        }
        world.flush(&mut volume);
        world.write(&mut volume, 16, 8, life);
    }
    world
}

/// Returns [`written`] for one of all schemes, chosen by a number.
pub(crate) fn written_by(scheme: usize) -> World {
    let all = CACHES.len() + OTHERS.len();
    let (scheme, settings) = CACHES.into_iter().chain(OTHERS).nth(scheme % all).expect("it is one of them");
    written(scheme, settings)
}

/// Returns the first sectors of all pages of metadata that were written, by member.
pub(crate) fn pages(world: &World) -> Vec<(usize, u64)> {
    let in_memory = world.content.iter().enumerate();
    let begins = in_memory.flat_map(|(member, content)| content.iter().map(move |(at, sector)| (member, *at, sector)));
    let known = |sector: &[u8; 512]| MAGICS.iter().any(|magic| sector.starts_with(*magic));
    let mut pages: Vec<_> = begins.filter(|(.., sector)| known(sector)).map(|(member, at, _)| (member, at)).collect();
    if let Some(region) = world.with_layout(|layout| layout.metadata) {
        let (member, first) = (usize::from(region.member.0), region.first_sector);
        let all = (0..region.sectors / PAGE_SECTORS).map(|page| first + page * PAGE_SECTORS);
        pages.extend(all.filter(|at| world.content[member].contains_key(at)).map(|at| (member, at)));
    }
    pages.sort_unstable();
    pages.dedup();
    pages
}

fn page_at(world: &World, member: usize, at: u64) -> Vec<u8> {
    let content = &world.content[member];
    (at..at + PAGE_SECTORS).flat_map(|at| content.get(&at).copied().unwrap_or([0; 512])).collect()
}

/// Writes a page to its place, with right checksums.
pub(crate) fn put(world: &mut World, &(member, at): &(usize, u64), mut page: Vec<u8>) {
    if MAGICS.iter().any(|magic| page.starts_with(*magic)) {
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&page[..CHECKSUM.start]), &page[CHECKSUM.end..]);
        page[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    } else {
        for place in page.chunks_exact_mut(PLACE_BYTES).filter(|place| place.iter().any(|&byte| byte != 0)) {
            let check = crc32c::crc32c(&place[..PLACE_BYTES - 2]) as u16;
            place[PLACE_BYTES - 2..].copy_from_slice(&check.to_le_bytes());
        }
    }
    for (sector, bytes) in page.as_chunks::<512>().0.iter().enumerate() {
        world.content[member].insert(at + sector as u64, *bytes);
    }
    name_marks(world);
}

/// Makes the superblocks of a cache record the present checksums of its marks.
fn name_marks(world: &mut World) {
    let layout = world.with_layout(Clone::clone);
    let cache = layout.slots.filter(|slots| slots.kind == SlotKind::Cache);
    let Some((_, region)) = cache.zip(layout.metadata) else { return };
    let member = usize::from(region.member.0);
    let area = marks_pages(layout.total_blocks()) * PAGE_SECTORS;
    for turn in 0..2 {
        let superblock = region.first_sector + turn * PAGE_SECTORS;
        let mut page = page_at(world, member, superblock);
        if !page.starts_with(MAGICS[0]) || page[52] != 1 {
            continue;
        }
        let first = region.first_sector + region.sectors - (2 - turn) * area;
        let marks: Vec<u8> =
            (first..first + area).step_by(PAGE_SECTORS as usize).flat_map(|at| page_at(world, member, at)).collect();
        page[48..52].copy_from_slice(&crc32c::crc32c(&marks).to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&page[..CHECKSUM.start]), &page[CHECKSUM.end..]);
        page[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        for (sector, bytes) in page.as_chunks::<512>().0.iter().enumerate() {
            world.content[member].insert(superblock + sector as u64, *bytes);
        }
    }
}

/// Changes a byte of a page, and makes its checksum right again.
pub(crate) fn edit(world: &mut World, page: &(usize, u64), byte: usize, value: u8) {
    let mut bytes = page_at(world, page.0, page.1);
    bytes[byte] = value;
    put(world, page, bytes);
}

/// Returns pseudo-random bytes.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(|_| next()).take(len).collect()
}

/// Returns a page of noise of one of the kinds with a checksum, or of entries of the slot table.
/// The header of such a page is the volume's. With `near`, most fields are small, so that recovery
/// follows more of the fields.
pub(crate) fn forge(world: &World, (member, at): (usize, u64), kind: usize, seed: u64, near: bool) -> Vec<u8> {
    let mut page = noise(seed, PAGE_BYTES);
    if near {
        // Small numbers in most fields, little-endian.
        page.iter_mut().enumerate().filter(|(at, _)| at % 8 > 1).for_each(|(_, byte)| *byte = 0);
    }
    let Some(magic) = MAGICS.get(kind % (MAGICS.len() + 1)) else { return page };
    let old = page_at(world, member, at);
    page[..4].copy_from_slice(*magic);
    if MAGICS.iter().any(|magic| old.starts_with(*magic)) {
        page[4..16].copy_from_slice(&old[4..16]);
        if near {
            page[16..28].copy_from_slice(&old[16..28]);
        }
    } else {
        page[4..6].copy_from_slice(&1u16.to_le_bytes());
        page[8..16].copy_from_slice(&world.identity.to_le_bytes());
    }
    page
}

/// Issues a request, and accepts any answer.
fn ask(world: &mut World, volume: &mut Volume<Raw>, kind: OpKind, range: SectorRange) {
    world.requests += 1;
    let payload = if kind == OpKind::Write { Raw::zeroes(range.len) } else { Raw::empty() };
    let command = Command { kind, range, fua: false };
    volume.submit(world.now, Operation { token: Token(world.requests), target: 0, command, payload });
    world.serve(volume);
    world.pass(volume, Nanoseconds::from_seconds(2));
    assert!(volume.next_finished().is_some(), "{kind:?} {range:?} never ends");
}

fn serve_all(world: &mut World, volume: &mut Volume<Raw>) {
    let sectors = world.with_layout(|layout| layout.units[0].count) * 8;
    for start in (0..sectors.min(8000)).step_by(800) {
        ask(world, volume, OpKind::Read, SectorRange::new(start, 800.min(sectors - start)));
    }
    for step in 0..60 {
        ask(world, volume, OpKind::Write, SectorRange::new(step * 7919 % 900 * 8, 8));
    }
    ask(world, volume, OpKind::Discard, SectorRange::new(0, 2000));
    ask(world, volume, OpKind::Flush, SectorRange::new(0, 0));
}

/// Changes bytes of a volume's metadata, each by its page, its place and the new value. Checks that
/// recovery ends with an error or with a volume that serves. Recovery must never panic, and no
/// request may stay open.
pub(crate) fn survive(scheme: usize, edits: impl IntoIterator<Item = (usize, usize, u8)>) {
    let mut world = written_by(scheme);
    let pages = pages(&world);
    for (page, byte, value) in edits {
        edit(&mut world, &pages[page % pages.len()], byte % PAGE_BYTES, value);
    }
    let _ = answer_comes(&mut world);
}

/// Recovers and serves the members. An error must come before anything is written.
pub(crate) fn answer_comes(world: &mut World) -> Result<(), RecoveryError> {
    let changes = world.changes;
    match world.recover(&[]) {
        Ok(mut volume) => {
            serve_all(world, &mut volume);
            volume.close(world.now);
            world.serve(&mut volume);
            world.pass(&mut volume, Nanoseconds::from_seconds(2));
            assert!(volume.is_closed(), "it never closes");
            drop(volume);
            let _ = world.recover(&[]);
            Ok(())
        }
        Err(error) => {
            assert_eq!(world.changes, changes, "a recovery wrote before it refused: {error}");
            Err(error)
        }
    }
}
