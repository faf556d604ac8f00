//! Labels on open drives: the two pages in a member's tail, read and written.
//!
//! What a label says and which of two pages holds is core's ([`bimetal_core::label`]); here are the system calls. Pages are
//! aligned in memory, so it does not matter whether the drive was opened for direct I/O.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bimetal_core::label::lifetime::{self, Lifetime};
use bimetal_core::label::page::{self, Current, PAGE_BYTES, PageError, TooLongError};
use bimetal_core::label::{Label, places};
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange, Sectors};

/// Why a label cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// The drive fails.
    #[error("{}: its label cannot be {doing}: {error}", path.display())]
    Io {
        /// Which drive.
        path: PathBuf,
        /// `read` or `written`.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// There is none, or none for us.
    #[error("{}: {error}", path.display())]
    Page {
        /// Which drive.
        path: PathBuf,
        /// Why not.
        error: PageError,
    },
    /// It is too small to have one.
    #[error("{}: is too small to be a drive of a volume", path.display())]
    TooSmall {
        /// Which drive.
        path: PathBuf,
    },
    /// The label is too long.
    #[error(transparent)]
    TooLong(#[from] TooLongError),
}

/// Read at once in the search for a label.
const RUMMAGE_BYTES: usize = 4 << 20;

/// A page at an address that direct I/O takes.
#[repr(align(4096))]
struct Aligned([u8; PAGE_BYTES]);

/// The label of an open member of `capacity` (a multiple of 4 KiB); `path` is for messages.
///
/// # Errors
/// The drive fails, or there is no label that this program reads.
pub fn read(drive: &File, capacity: Sectors, path: &Path) -> Result<Current, LabelError> {
    let mut pages = [Aligned([0; PAGE_BYTES]), Aligned([0; PAGE_BYTES])];
    for (page, place) in pages.iter_mut().zip(places_of(capacity, path)?) {
        let io = |error| LabelError::Io { path: path.to_owned(), doing: "read", error };
        drive.read_exact_at(&mut page.0, place.start.0 * SECTOR_BYTES).map_err(io)?;
    }
    let [first, second] = &pages;
    page::read([&first.0, &second.0]).map_err(|error| LabelError::Page { path: path.to_owned(), error })
}

/// Writes `label` to an open member of `capacity`, into its page number `next_page`, and waits until it is stable. Gives
/// the page for the next one.
///
/// # Errors
/// The drive fails, or the label does not fit its page; the old one holds then.
pub fn write(
    drive: &File,
    capacity: Sectors,
    path: &Path,
    label: &Label,
    next_page: usize,
) -> Result<usize, LabelError> {
    let place = places_of(capacity, path)?[next_page];
    let page = Aligned(page::encode(label)?);
    let written = drive.write_all_at(&page.0, place.start.0 * SECTOR_BYTES).and_then(|()| drive.sync_all());
    written.map_err(|error| LabelError::Io { path: path.to_owned(), doing: "written", error })?;
    Ok(1 - next_page)
}

/// What an open member of `capacity` has done for the volume with this identity.
///
/// # Errors
/// The drive fails.
pub fn read_lifetime(drive: &File, capacity: Sectors, path: &Path, volume: u64) -> Result<Lifetime, LabelError> {
    let mut pages = [Aligned([0; PAGE_BYTES]), Aligned([0; PAGE_BYTES])];
    let places = lifetime::places(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })?;
    for (page, place) in pages.iter_mut().zip(places) {
        let io = |error| LabelError::Io { path: path.to_owned(), doing: "read", error };
        drive.read_exact_at(&mut page.0, place.start.0 * SECTOR_BYTES).map_err(io)?;
    }
    let [first, second] = &pages;
    Ok(lifetime::newest([&first.0, &second.0], volume))
}

/// Writes that down.
///
/// # Errors
/// The drive fails; what was written before holds then.
pub fn write_lifetime(
    drive: &File,
    capacity: Sectors,
    path: &Path,
    volume: u64,
    lifetime: Lifetime,
) -> Result<(), LabelError> {
    let places = lifetime::places(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })?;
    let page = Aligned(lifetime.encode(volume));
    let written = drive.write_all_at(&page.0, places[lifetime.turn()].start.0 * SECTOR_BYTES);
    let io = |error| LabelError::Io { path: path.to_owned(), doing: "written", error };
    written.and_then(|()| drive.sync_all()).map_err(io)
}

/// Writes `label` in the tail of `capacity` of an open member, beside what is there of this volume, or in the place of anything
/// else.
///
/// # Errors
/// As [`write()`].
pub fn place(drive: &File, capacity: Sectors, path: &Path, label: &Label) -> Result<(), LabelError> {
    let next_page = match read(drive, capacity, path) {
        Ok(current) if current.label.volume == label.volume => current.next_page,
        _ => {
            let zeroes = Aligned([0; PAGE_BYTES]);
            for place in places_of(capacity, path)? {
                let io = |error| LabelError::Io { path: path.to_owned(), doing: "written", error };
                drive.write_all_at(&zeroes.0, place.start.0 * SECTOR_BYTES).map_err(io)?;
            }
            0
        }
    };
    write(drive, capacity, path, label, next_page).map(|_| ())
}

/// Looks for a label `within` so much of the end of an open drive of `size`. Gives the size at whose end it lies.
pub fn rummage(drive: &File, size: Sectors, within: Bytes) -> Option<Sectors> {
    let mut chunk = vec![0; RUMMAGE_BYTES];
    let mut end = size.bytes().0;
    let last = end.saturating_sub(within.0);
    while end > last {
        let start = end.saturating_sub(RUMMAGE_BYTES as u64);
        let bytes = &mut chunk[..(end - start) as usize];
        // What cannot be read is no label.
        if drive.read_exact_at(bytes, start).is_ok() {
            for (at, page) in bytes.chunks_exact(PAGE_BYTES).enumerate().rev() {
                let Some(label) = page.try_into().ok().and_then(|page| page::decode(page).ok()) else { continue };
                let (own, sector) =
                    (label.own().size, (start / SECTOR_BYTES) + (at * PAGE_BYTES) as u64 / SECTOR_BYTES);
                if places(own).is_some_and(|places| places.iter().any(|place| place.start.0 == sector)) {
                    return Some(own);
                }
            }
        }
        end = start;
    }
    None
}

fn places_of(capacity: Sectors, path: &Path) -> Result<[SectorRange; 2], LabelError> {
    places(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })
}
