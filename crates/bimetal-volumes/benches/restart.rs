//! Recovery time of a volume after a crash, and memory of its map, with a full cache or log. The
//! metadata of 100 GiB of slots is written directly to sparse files.
//!
//! Run `cargo bench -p bimetal-volumes --bench restart [-- GIB]`.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use bimetal_core::block::{Block, BlockSize, ValidMask};
use bimetal_core::block_map::{Entry, Slot};
use bimetal_core::journal::record::{self, Kind, PageHeader, RECORDS_PER_PAGE, Record};
use bimetal_core::journal::superblock::Superblock;
use bimetal_core::journal::table::{self, Digest, TableHeader};
use bimetal_core::journal::{self, COPIES};
use bimetal_core::layout::{LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::operation::{Command, OpKind, Operation, Token};
use bimetal_core::payload::Payload;
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, SectorRange};
use bimetal_core::volume::{self, Recovery, VolumeConfig};
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::file::DriveFile;
use bimetal_device::drive::{self, Drive, Engine};
use bimetal_volumes::startup;

/// Number of table pages in one write.
const PAGES_AT_ONCE: u64 = 1024;

fn main() {
    let gib = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(100);
    println!("{:>15} {:>9} {:>12} {:>10} {:>12}", "scheme", "cache GiB", "blocks", "seconds", "MiB per GiB");
    let schemes =
        [("smart-response", vec![("mode", "maximized")]), ("hybrid-disk", Vec::new()), ("griffin", Vec::new())];
    for (scheme, given) in schemes {
        run(scheme, &given, gib);
    }
}

fn run(name: &str, given: &[(&str, &str)], gib: u64) {
    let directory = std::env::temp_dir().join(format!("bimetal-restart-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the drives");
    let scheme = schemes::find(name).expect("a scheme that there is");
    let settings = Settings::new(scheme.name, scheme.parameters, given.iter().copied()).expect("its settings");
    let sizes = if name == "griffin" {
        [(Role::Ssd, 4 * gib), (Role::Hdd, gib)]
    } else {
        [(Role::Ssd, gib), (Role::Hdd, 4 * gib)]
    };
    let members = sizes.map(|(role, gib)| MemberInfo { role, capacity: Bytes(gib << 30).sectors() });
    let mut drives: Vec<Box<dyn Drive>> =
        sizes.iter().map(|(role, gib)| sparse(&directory.join(role.name()), gib << 30)).collect();
    let layout = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
    let config = VolumeConfig { scheme, settings: &settings, layout, identity: 1, drives: &[] };
    startup::format(volume::format(&config).expect("a volume"), &mut drives).expect("formatted drives");
    let blocks = if name == "griffin" { fill_index(&config, &mut drives) } else { fill_table(&config, &mut drives) };
    // After a restart nothing is being written back.
    for (role, _) in sizes {
        File::open(directory.join(role.name())).and_then(|file| file.sync_all()).expect("the drives are synced");
    }
    let before = resident_bytes();
    let begun = Instant::now();
    let recovery = Recovery::new(&config, &[]).expect("a recovery");
    let volume = startup::recover(recovery, &mut drives, |_, _| {}).expect("a volume");
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(volume.view().map.len(), blocks, "every block of the cache came back");
    let mib = (resident_bytes() - before) as f64 / f64::from(1 << 20) / gib as f64;
    println!("{name:>15} {gib:>9} {blocks:>12} {seconds:>10.2} {mib:>12.2}");
    let _ = std::fs::remove_dir_all(&directory);
}

fn sparse(path: &Path, bytes: u64) -> Box<dyn Drive> {
    File::create(path).and_then(|file| file.set_len(bytes)).expect("a sparse file");
    let file = DriveFile::open(path).expect("the file as a drive");
    drive::attach(file, Engine::default()).expect("a drive")
}

/// Fills every slot with a different block, far from the blocks of neighbouring slots; every other
/// one is dirty. Returns the number of blocks.
fn fill_table(config: &VolumeConfig<'_>, drives: &mut [Box<dyn Drive>]) -> u64 {
    let layout = (config.scheme.layout)(config.settings, &config.layout).expect("a layout");
    let (slots, metadata) = (layout.slots.expect("slots"), layout.metadata.expect("metadata"));
    let first = metadata.first_sector
        + journal::SUPERBLOCK_SECTORS
        + journal::ring_pages(u64::from(slots.count)) * journal::PAGE_SECTORS;
    // The second copy lies after the marks.
    let each = journal::cache_copy_sectors(u64::from(slots.count)) - journal::SUPERBLOCK_SECTORS
        + 2 * journal::marks_pages(layout.total_blocks()) * journal::PAGE_SECTORS;
    let block = scatter(layout.total_blocks());
    let entry = |slot: u64| Entry {
        block: block(slot),
        valid: ValidMask::ALL,
        dirty: slot.is_multiple_of(2),
        checksum: slot as u32,
    };
    let pages = journal::table_pages(u64::from(slots.count));
    let mut digest = Digest::default();
    for page in (0..pages).step_by(PAGES_AT_ONCE as usize) {
        let count = PAGES_AT_ONCE.min(pages - page);
        let mut bytes = Vec::new();
        for page in page..page + count {
            let header = TableHeader { volume: config.identity, index: page as u32, generation: 1, previous: 0 };
            digest.toggle(header.index, header.generation);
            let from = page * journal::SLOTS_PER_TABLE_PAGE;
            let entries = (from..from + journal::SLOTS_PER_TABLE_PAGE)
                .map(|slot| (slot < u64::from(slots.count)).then(|| entry(slot)));
            bytes.extend_from_slice(&table::encode_page(header, entries));
        }
        for copy in [first, first + each] {
            write(metadata.member, copy + page * journal::PAGE_SECTORS, &bytes, drives);
        }
    }
    let superblock = Superblock { table: digest.0, ..Superblock::first(config.identity, 0, 0).second() };
    for copy in 0..COPIES {
        let place = layout.superblock_place(superblock.turn(), copy).expect("a cache has superblocks");
        write(metadata.member, place.start.0, &superblock.encode(), drives);
    }
    u64::from(slots.count)
}

/// Fills the index of a log whose segments are full and stable. Returns the number of blocks in
/// them.
fn fill_index(config: &VolumeConfig<'_>, drives: &mut [Box<dyn Drive>]) -> u64 {
    const SEGMENT: u64 = 34;
    let layout = (config.scheme.layout)(config.settings, &config.layout).expect("a layout");
    let (slots, metadata) = (layout.slots.expect("slots"), layout.metadata.expect("metadata"));
    let block = scatter(layout.total_blocks());
    let segments = u64::from(slots.count) / SEGMENT - 1;
    let positions = (0..segments).flat_map(|segment| segment * SEGMENT + 1..(segment + 1) * SEGMENT - 1);
    let records: Vec<Record> = positions
        .map(|slot| Record::Map {
            block: block(slot),
            slot: Slot(slot as u32),
            valid: ValidMask::ALL,
            dirty: true,
            is_whole: false,
            checksum: 0,
        })
        .collect();
    let mut number = 0;
    let first = metadata.first_sector + journal::SUPERBLOCK_SECTORS;
    let each = journal::index_pages(u64::from(slots.count)) * journal::PAGE_SECTORS;
    for chunk in records.chunks(RECORDS_PER_PAGE * PAGES_AT_ONCE as usize) {
        let mut bytes = Vec::new();
        let begin = number;
        for page in chunk.chunks(RECORDS_PER_PAGE) {
            let header = PageHeader { volume: config.identity, number, life: 0, stable: segments * SEGMENT };
            bytes.extend_from_slice(&record::encode_page(Kind::Index, header, page));
            number += 1;
        }
        for copy in [first, first + each] {
            write(metadata.member, copy + begin * journal::PAGE_SECTORS, &bytes, drives);
        }
    }
    records.len() as u64
}

fn write(member: MemberId, sector: u64, bytes: &[u8], drives: &mut [Box<dyn Drive>]) {
    let range = SectorRange::new(sector, bytes.len() as u64 / 512);
    let command = Command { kind: OpKind::Write, range, fua: false };
    let write = Operation { token: Token(sector), target: member.0, command, payload: Buffers::from_metadata(bytes) };
    startup::format(vec![write], drives).expect("a write of metadata");
}

/// Returns a function that gives each slot a different block, far from the blocks of neighbouring
/// slots.
fn scatter(total: u64) -> impl Fn(u64) -> Block {
    let step =
        (total / 2..).find(|step| gcd(*step, total) == 1).expect("a step that is coprime to the number of blocks");
    move |slot| Block((u128::from(slot) * u128::from(step) % u128::from(total)) as u64)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.and_then(|pages| pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    resident.unwrap_or_default() * 4096
}
