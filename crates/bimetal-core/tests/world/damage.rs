//! Metadata that cannot be: bytes anywhere in it are changed, and its checksums made right again.

use bimetal_core::journal::PAGE_SECTORS;
use bimetal_core::operation::{Command, OpKind, Operation, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::Volume;

use super::{CACHES, Raw, World};

/// Where a page has its checksum, and what it covers: everything else.
const CHECKSUM: std::ops::Range<usize> = 28..32;
/// A place of the slot table, whose last two bytes check the others.
const PLACE_BYTES: usize = 16;

/// Schemes with other kinds of metadata, beside those that keep what home does not have.
pub(crate) const OTHERS: [(&str, &[(&str, &str)]); 4] =
    [("combo", &[("strategy", "frequency")]), ("hyperduo", &[]), ("mixedstore", &[]), ("os-managed", &[])];

/// A volume with changes of every kind that was stopped at once.
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

/// The first sectors of all pages of metadata that were written, by member.
pub(crate) fn pages(world: &World) -> Vec<(usize, u64)> {
    let in_memory = world.content.iter().enumerate();
    let begins = in_memory.flat_map(|(member, content)| content.iter().map(move |(at, sector)| (member, *at, sector)));
    let known = |sector: &[u8; 512]| matches!(&sector[..4], b"BIms" | b"BImj" | b"BImt");
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

/// Changes a byte of a page, and makes its checksum right again.
pub(crate) fn edit(world: &mut World, &(member, at): &(usize, u64), byte: usize, value: u8) {
    let content = &mut world.content[member];
    let mut page: Vec<u8> =
        (at..at + PAGE_SECTORS).flat_map(|at| content.get(&at).copied().unwrap_or([0; 512])).collect();
    page[byte] = value;
    if page.starts_with(b"BIm") {
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&page[..CHECKSUM.start]), &page[CHECKSUM.end..]);
        page[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    } else {
        let place = &mut page[byte / PLACE_BYTES * PLACE_BYTES..][..PLACE_BYTES];
        let check = crc32c::crc32c(&place[..PLACE_BYTES - 2]) as u16;
        place[PLACE_BYTES - 2..].copy_from_slice(&check.to_le_bytes());
    }
    for (sector, bytes) in page.as_chunks::<512>().0.iter().enumerate() {
        content.insert(at + sector as u64, *bytes);
    }
}

/// Asks, and takes whatever answer comes.
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

/// Changes bytes of a volume's metadata, each by its page, its place and the new value, and sees what comes of it: an error
/// that says so, or a volume that serves; never a panic, and never a request without an end.
pub(crate) fn survive(scheme: usize, edits: impl IntoIterator<Item = (usize, usize, u8)>) {
    let all = CACHES.len() + OTHERS.len();
    let (scheme, settings) = CACHES.into_iter().chain(OTHERS).nth(scheme % all).expect("it is one of them");
    let mut world = written(scheme, settings);
    let pages = pages(&world);
    for (page, byte, value) in edits {
        edit(&mut world, &pages[page % pages.len()], byte % (PAGE_SECTORS as usize * 512), value);
    }
    if let Ok(mut volume) = world.recover(&[]) {
        serve_all(&mut world, &mut volume);
        volume.close(world.now);
        world.serve(&mut volume);
        world.pass(&mut volume, Nanoseconds::from_seconds(2));
        assert!(volume.is_closed(), "it never closes");
        drop(volume);
        let _ = world.recover(&[]);
    }
}
