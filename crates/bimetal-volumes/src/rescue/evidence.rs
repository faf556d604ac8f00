//! Remains on a drive that another program has written to, and the proofs among them of the drive's
//! member. Nothing is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bimetal_core::guard::header::header;
use bimetal_core::guard::{Area, GUARDED};
use bimetal_core::journal::page::{self, PAGE_BYTES};
use bimetal_core::journal::superblock::Superblock;
use bimetal_core::journal::turns::{COPIES, TURNS};
use bimetal_core::label::{Guard, Label, tail_start};
use bimetal_core::layout::Layout;
use bimetal_core::units::{SECTOR_BYTES, SectorRange, Sectors};
use bimetal_device::probe::Probe;
use bimetal_device::signature::{self, Content};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::held::foreign_sector;
use crate::state;

/// Maximum of pages of the engine's metadata region that are read, from the first page on.
const MAP_PAGES: u64 = 256;
/// Number of pages in a tail for the state and its second copies.
const STATE_PAGES: u64 = 4;
/// Number of pages of a device that are read, evenly spread.
const SAMPLES: u64 = 256;

/// Amount of data in the part of a drive that belongs to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Filled {
    /// Amount in a file: the other bytes are in holes, discarded or never written.
    Holes {
        /// Number of bytes that are not in holes.
        bytes: u64,
        /// Number of all bytes.
        of: u64,
    },
    /// Amount on a device, by pages evenly spread over it: pages without data read as zeroes.
    Samples {
        /// Number of pages with data.
        pages: u64,
        /// Number of pages that were read.
        of: u64,
    },
}

impl Filled {
    /// Returns true if no data is left.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::Holes { bytes: 0, .. } | Self::Samples { pages: 0, .. })
    }
}

/// State of the two copies of a home drive's beginning, kept at its end while the volume is
/// attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beginning {
    /// Both copies are equal, and are not all zeroes.
    Kept,
    /// The copies differ: the first copy is valid.
    Differs,
    /// Both copies are zeroes: the copies were never written, or are lost.
    Zeroes,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// Proofs that the drive is the member.
    pub proofs: Vec<String>,
    /// Set if the newest superblock names another drive: the drive was replaced.
    pub was_replaced: bool,
    /// Kinds of content that another program may have written.
    pub foreign: Vec<String>,
    /// Set if the home drive has a state of the engine; `None` if the member needs no state.
    pub has_state: Option<bool>,
    /// Set if the header of the guard is at the beginning.
    pub has_header: bool,
    /// First sector of the header's place that another program has written.
    pub foreign_sector: Option<u64>,
    /// Copies of a guarded drive's beginning.
    pub beginning: Option<Beginning>,
    /// Amount of data that is left.
    pub filled: Filled,
}

/// Examines `drive`, which may be the member that carries `label`.
///
/// # Errors
/// Fails if the drive cannot be read.
pub fn look(label: &Label, layout: &Layout, probe: &Probe, drive: &File) -> io::Result<Evidence> {
    let size = label.own().size;
    let has_header = read(drive, 0, 4096)? == header(label, 4096);
    let area = label.area_of(label.index);
    let states = state_pages(label, layout, drive)?;
    let mut proofs = Vec::new();
    if area.is_some() && has_header {
        proofs.push("the header at its beginning names the volume and the member".to_owned());
    }
    if let Some(count @ 1..) = states {
        proofs.push(format!("{count} of the pages of its state name the volume"));
    }
    if let Some((count @ 1.., of)) = map_pages(label, layout, drive)? {
        proofs.push(format!("{count} of the first {of} pages of its map name the volume"));
    }
    let named = drive_named(label, layout, drive);
    if named == Some(label.own().uuid.drive()) {
        proofs.push("its superblock names the member's drive".to_owned());
    }
    let was_replaced = named.is_some_and(|named| named != label.own().uuid.drive());
    let mut foreign = Vec::new();
    for signature in signature::scan(drive, probe.size, probe.logical_sector)? {
        // The remains of a guarded drive's header may have a signature themselves.
        let own = matches!(signature.content, Content::Label(_)) || (area.is_some() && signature.name == "romfs");
        if !own {
            foreign.push(signature.name.to_owned());
        }
    }
    Ok(Evidence {
        proofs,
        was_replaced,
        foreign,
        has_state: states.map(|_| has_state(label, layout, drive)),
        has_header,
        foreign_sector: foreign_sector(label, drive),
        beginning: match area.filter(|_| matches!(label.guard, Some((_, Guard::Up)))) {
            Some(area) => Some(beginning(area, drive)?),
            None => None,
        },
        filled: if probe.is_file() { holes(drive, size)? } else { samples(drive, size)? },
    })
}

fn read(drive: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    drive.read_exact_at(&mut bytes, at).map(|()| bytes)
}

/// Counts the pages of `range` that belong to the volume of `label`. An unreadable page does not
/// count.
fn pages_of(label: &Label, drive: &File, range: SectorRange) -> u64 {
    let identity = label.volume.identity();
    let mut count = 0;
    for at in (range.start.0..range.end().0).step_by(PAGE_BYTES / SECTOR_BYTES as usize) {
        let mut page = [0; PAGE_BYTES];
        let is_read = drive.read_exact_at(&mut page, at * SECTOR_BYTES).is_ok();
        count += u64::from(is_read && page::volume_of(&page) == Some(identity));
    }
    count
}

/// Returns the place of the engine's state on the member of `label`, if the member is home of
/// blocks.
pub(super) fn state_place(label: &Label, layout: &Layout) -> Option<SectorRange> {
    let start = tail_start(label.member_infos()[usize::from(label.index.0)].capacity)?;
    // Each mirror has its own state, and a mirror without a state is restored from the other.
    let has_state = layout.homes().contains(&label.index) && !layout.is_mirrored();
    has_state.then(|| SectorRange::new(start.0, STATE_PAGES * PAGE_BYTES as u64 / SECTOR_BYTES))
}

fn state_pages(label: &Label, layout: &Layout, drive: &File) -> io::Result<Option<u64>> {
    Ok(state_place(label, layout).map(|place| pages_of(label, drive, place)))
}

/// Returns true if the newest state is certain: no turn has lost both of its copies. Version 1
/// wrote one copy of at least one turn.
fn has_state(label: &Label, layout: &Layout, drive: &File) -> bool {
    matches!(state::read(drive, label, layout, label.index).newest(), (Some(_), None))
}

/// Counts the pages of the volume at the beginning of the engine's metadata region. Returns the
/// count, and the number of pages read.
fn map_pages(label: &Label, layout: &Layout, drive: &File) -> io::Result<Option<(u64, u64)>> {
    let Some(region) = layout.metadata.filter(|region| region.member == label.index) else { return Ok(None) };
    let sectors = region.sectors.min(MAP_PAGES * PAGE_BYTES as u64 / SECTOR_BYTES);
    let count = pages_of(label, drive, SectorRange::new(region.first_sector, sectors));
    Ok(Some((count, sectors * SECTOR_BYTES / PAGE_BYTES as u64)))
}

/// Returns the number of the drive that the newest superblock names. Earlier programs wrote
/// superblocks without the number.
fn drive_named(label: &Label, layout: &Layout, drive: &File) -> Option<u32> {
    layout.slots.filter(|slots| slots.member == label.index)?;
    let turns = 0..TURNS as u64;
    let places = turns.flat_map(|turn| (0..COPIES).filter_map(move |copy| layout.superblock_place(turn, copy)));
    let superblocks = places.filter_map(|place| {
        let mut page = [0; PAGE_BYTES];
        drive.read_exact_at(&mut page, place.start.0 * SECTOR_BYTES).ok()?;
        Superblock::decode(&page).ok().filter(|superblock| superblock.volume == label.volume.identity())
    });
    let newest = superblocks.max_by_key(|superblock| superblock.sequence)?;
    Some(newest.life().drive).filter(|&drive| drive != 0)
}

fn beginning(area: Area, drive: &File) -> io::Result<Beginning> {
    let [first, second] = area.copies();
    let copy = |range: SectorRange| read(drive, range.start.0 * SECTOR_BYTES, GUARDED.bytes().0 as usize);
    // An unreadable copy is restored from the other when the volume is taken.
    let (first, second) = match (copy(first), copy(second)) {
        (Ok(first), Ok(second)) => (first, second),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => (one.clone(), one),
        (Err(error), Err(_)) => return Err(error),
    };
    Ok(match () {
        () if first != second => Beginning::Differs,
        () if first.iter().all(|&byte| byte == 0) => Beginning::Zeroes,
        () => Beginning::Kept,
    })
}

/// Measures the part of a file that is not holes.
fn holes(drive: &File, size: Sectors) -> io::Result<Filled> {
    let of = size.bytes().0;
    let (mut bytes, mut at) = (0, 0);
    while at < of {
        let from = match rustix::fs::seek(drive, SeekFrom::Data(at)) {
            Ok(from) => from.min(of),
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let to = rustix::fs::seek(drive, SeekFrom::Hole(from))?.min(of).max(from + 1);
        bytes += to - from;
        at = to;
    }
    Ok(Filled::Holes { bytes: bytes.min(of), of })
}

/// Reads pages evenly spread over a device.
fn samples(drive: &File, size: Sectors) -> io::Result<Filled> {
    let all = size.bytes().0 / PAGE_BYTES as u64;
    let of = SAMPLES.min(all);
    let mut pages = 0;
    for number in 0..of {
        let at = number * all / of * PAGE_BYTES as u64;
        pages += u64::from(read(drive, at, PAGE_BYTES)?.iter().any(|&byte| byte != 0));
    }
    Ok(Filled::Samples { pages, of })
}
