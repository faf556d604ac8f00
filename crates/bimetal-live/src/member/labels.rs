//! Labels on open drives: the two pages in a member's tail, read and written.
//!
//! What a label says and which of two pages holds is core's ([`bimetal_core::label`]); here are the system calls. Pages are
//! aligned in memory, so it does not matter whether the drive was opened for direct I/O.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bimetal_core::label::page::{self, Current, PAGE_BYTES, PageError, TooLongError};
use bimetal_core::label::{Label, places};
use bimetal_core::units::{SECTOR_BYTES, SectorRange, Sectors};

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

fn places_of(capacity: Sectors, path: &Path) -> Result<[SectorRange; 2], LabelError> {
    places(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })
}
