//! Pages of labels on open drives, read.
//!
//! The core defines the content of a label, the places of its pages, and the page that is valid
//! ([`bimetal_core::label`]). This module makes the system calls. Pages are aligned in memory, as
//! drives that were opened for direct I/O require.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bimetal_core::label::page::{self, Current, PAGE_BYTES, PageError, Seen};
use bimetal_core::label::places::CopyPlace;
use bimetal_core::units::{SECTOR_BYTES, Sectors};

/// Page at an address that direct I/O accepts.
#[repr(align(4096))]
pub struct Aligned(pub [u8; PAGE_BYTES]);

/// Reasons for which an open drive gives no label.
#[derive(Debug)]
pub enum LabelPageError {
    /// The drive is too small for a label.
    TooSmall,
    /// The drive fails where a label may be.
    Io(io::Error),
    /// The drive has no label, or no label that this program reads.
    Page(PageError),
}

/// Reads the label of an open drive of `capacity` (a multiple of 4 KiB). An unreadable page counts
/// as never written.
///
/// # Errors
/// Fails if there is no label that this program reads, or if the drive fails where a label may be.
pub fn read_label(drive: &File, capacity: Sectors) -> Result<Current, LabelPageError> {
    let (mut pages, mut failed) = (Vec::new(), None);
    CopyPlace::First.pages(capacity).ok_or(LabelPageError::TooSmall)?;
    for place in CopyPlace::ALL {
        for (turn, range) in place.pages(capacity).into_iter().flatten().enumerate() {
            let mut page = Box::new(Aligned([0; PAGE_BYTES]));
            match drive.read_exact_at(&mut page.0, range.start.0 * SECTOR_BYTES) {
                Ok(()) => pages.push((turn, place, page)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }
    let seen = pages.iter().map(|(turn, place, page)| Seen { turn: *turn, place: *place, page: &page.0 });
    page::read(capacity, seen).map_err(|error| match failed {
        Some(error) => LabelPageError::Io(error),
        None => LabelPageError::Page(error),
    })
}
