//! Labels on open drives: their pages, read and written.
//!
//! The core defines the content of a label, the places of its pages, and the page that is valid
//! ([`bimetal_core::label`]). This module makes the system calls.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bimetal_core::label::Label;
use bimetal_core::label::lifetime::{self, Lifetime};
use bimetal_core::label::page::{self, Current, PAGE_BYTES, PageError, TooLongError};
use bimetal_core::label::places::CopyPlace;
use bimetal_core::label::resize::own_ends;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange, Sectors};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use bimetal_device::page::{Aligned, LabelPageError, read_label};

/// Reasons for which a label cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// The drive fails.
    #[error("{}: its label cannot be {doing}: {error}", path.display())]
    Io {
        /// Path of the drive.
        path: PathBuf,
        /// Action that failed: `read` or `written`.
        doing: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// The drive has no label, or no label that this program reads.
    #[error("{}: {error}", path.display())]
    Page {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the page.
        error: PageError,
    },
    /// The drive is too small for a label.
    #[error("{}: is too small for the label of a volume: expected a drive of at least 64 KiB", path.display())]
    TooSmall {
        /// Path of the drive.
        path: PathBuf,
    },
    /// The label is too long.
    #[error(transparent)]
    TooLong(#[from] TooLongError),
}

/// Number of bytes read at once in the search for a label.
const RUMMAGE_BYTES: usize = 4 << 20;

/// Result of a written label, whose first page is stable.
#[derive(Debug)]
pub struct Written {
    /// Turn of the next label.
    pub next_turn: usize,
    /// Error for which the second copy could not be written.
    pub copy_failed: Option<io::Error>,
}

/// Reads the label of an open member of `capacity` (a multiple of 4 KiB); `path` is for messages.
/// An unreadable page counts as never written.
///
/// # Errors
/// Fails if there is no label that this program reads, or if the drive fails where a label may be.
pub fn read(drive: &File, capacity: Sectors, path: &Path) -> Result<Current, LabelError> {
    let path = || path.to_owned();
    read_label(drive, capacity).map_err(|error| match error {
        LabelPageError::TooSmall => LabelError::TooSmall { path: path() },
        LabelPageError::Io(error) => LabelError::Io { path: path(), doing: "read", error },
        LabelPageError::Page(error) => LabelError::Page { path: path(), error },
    })
}

/// Writes `label` to an open member of `capacity`, in the turn `turn`: the first page and, when it
/// is stable, the second copy.
///
/// # Errors
/// Fails if the first page cannot be written, or if the label does not fit on a page. After an
/// error the old label is still valid.
pub fn write(drive: &File, capacity: Sectors, path: &Path, label: &Label, turn: usize) -> Result<Written, LabelError> {
    first_pages(capacity, path)?;
    let page = Aligned(page::encode(label)?);
    let mut copy_failed = None;
    for (number, at) in label.pages(capacity, turn).enumerate() {
        match write_page(drive, at, &page) {
            Err(error) if number == 0 => return Err(written(path, error)),
            outcome => copy_failed = outcome.err(),
        }
    }
    Ok(Written { next_turn: 1 - (turn & 1), copy_failed })
}

/// Writes a page, and makes it stable.
pub(crate) fn write_page(drive: &File, at: SectorRange, page: &Aligned) -> io::Result<()> {
    drive.write_all_at(&page.0, at.start.0 * SECTOR_BYTES).and_then(|()| drive.sync_all())
}

fn written(path: &Path, error: io::Error) -> LabelError {
    LabelError::Io { path: path.to_owned(), doing: "written", error }
}

/// Zeroes every page that a label at the end of `capacity` may have in `places`.
///
/// # Errors
/// Fails if the drive fails.
pub fn erase(drive: &File, capacity: Sectors, path: &Path, places: &[CopyPlace]) -> Result<(), LabelError> {
    let zeroes = Aligned([0; PAGE_BYTES]);
    for at in places.iter().filter_map(|place| place.pages(capacity)).flatten() {
        drive.write_all_at(&zeroes.0, at.start.0 * SECTOR_BYTES).map_err(|error| written(path, error))?;
    }
    drive.sync_all().map_err(|error| written(path, error))
}

/// Reads the totals of an open member of `capacity`, for the volume with this identity.
///
/// # Errors
/// Fails if the drive fails.
pub fn read_lifetime(drive: &File, capacity: Sectors, path: &Path, volume: u64) -> Result<Lifetime, LabelError> {
    let places = lifetime::places(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })?;
    let (mut pages, mut failed) = (Vec::new(), None);
    for place in places.as_flattened() {
        let mut page = Box::new(Aligned([0; PAGE_BYTES]));
        match drive.read_exact_at(&mut page.0, place.start.0 * SECTOR_BYTES) {
            Ok(()) => pages.push(page),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let newest = lifetime::newest(pages.iter().map(|page| &page.0), volume);
    match failed {
        Some(error) if newest == Lifetime::default() => {
            Err(LabelError::Io { path: path.to_owned(), doing: "read", error })
        }
        _ => Ok(newest),
    }
}

/// Writes the totals of a member.
///
/// # Errors
/// Fails if the drive fails. After an error the previous totals are still valid.
pub fn write_lifetime(
    drive: &File,
    capacity: Sectors,
    path: &Path,
    volume: u64,
    lifetime: Lifetime,
) -> Result<(), LabelError> {
    let places = lifetime::places(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })?;
    let page = Aligned(lifetime.encode(volume));
    let [first, second] = places[lifetime.turn()];
    write_page(drive, first, &page)
        .and_then(|()| write_page(drive, second, &page))
        .map_err(|error| written(path, error))
}

/// Writes `label` at the end of `capacity` of an open member. The label takes the next turn if
/// there is a label of this volume; otherwise any other content is overwritten.
///
/// # Errors
/// Fails for the reasons of [`write()`].
pub fn place(drive: &File, capacity: Sectors, path: &Path, label: &Label) -> Result<Written, LabelError> {
    let turn = match read(drive, capacity, path) {
        Ok(current) if current.label.volume == label.volume => current.next_turn,
        _ => {
            erase(drive, capacity, path, &[CopyPlace::First, label.second_copy(capacity)])?;
            0
        }
    };
    write(drive, capacity, path, label, turn)
}

/// Searches for a label near the end of an open drive of `size`, at most `within` bytes from that
/// end. Holes of a file are not read. The search ends at the time `until`, but reads at least
/// `at_least` bytes: on a busy machine, the time may be over at once. Returns the size at whose end
/// the label is.
pub fn rummage(drive: &File, size: Sectors, within: Bytes, until: Option<Instant>, at_least: Bytes) -> Option<Sectors> {
    let mut chunk = vec![0; RUMMAGE_BYTES];
    let mut end = size.bytes().0;
    let last = end.saturating_sub(within.0);
    let mut left = at_least.0;
    while end > last && (left > 0 || until.is_none_or(|until| Instant::now() < until)) {
        let start = end.saturating_sub(RUMMAGE_BYTES as u64);
        let bytes = &mut chunk[..(end - start) as usize];
        // A hole contains no label, and neither does an unreadable part.
        let data = (!is_hole(drive, start, end)).then(|| drive.read_exact_at(bytes, start));
        left = match data {
            None => left,
            Some(Ok(())) => left.saturating_sub(end - start),
            // A drive that fails a read may take seconds for each.
            Some(Err(_)) => 0,
        };
        if matches!(data, Some(Ok(()))) {
            for (at, page) in bytes.chunks_exact(PAGE_BYTES).enumerate().rev() {
                let Some(label) = page.try_into().ok().and_then(|page| page::decode(page).ok()) else { continue };
                let sector = start / SECTOR_BYTES + (at * PAGE_BYTES) as u64 / SECTOR_BYTES;
                let lies_at_end = |&size: &Sectors| {
                    let places = [CopyPlace::First, label.second_copy(size)];
                    CopyPlace::at(size, sector).is_some_and(|(_, place)| places.contains(&place))
                };
                if let Some(size) = own_ends(&label).find(lies_at_end) {
                    return Some(size);
                }
            }
        }
        end = start;
    }
    None
}

fn is_hole(drive: &File, start: u64, end: u64) -> bool {
    match rustix::fs::seek(drive, SeekFrom::Data(start)) {
        Ok(data) => data >= end,
        Err(error) => error == Errno::NXIO,
    }
}

fn first_pages(capacity: Sectors, path: &Path) -> Result<[SectorRange; 2], LabelError> {
    CopyPlace::First.pages(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })
}
