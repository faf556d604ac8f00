//! Report on open drives: its pages in a member's tail, read and written.
//!
//! The core defines the meaning of a report and the copy that is valid
//! ([`bimetal_core::label::report`]). This module makes the system calls.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bimetal_core::journal::page::PAGE_BYTES;
use bimetal_core::label::Label;
use bimetal_core::label::report::Report;
use bimetal_core::label::report::page::{self, Pages};
use bimetal_core::units::{SECTOR_BYTES, SectorRange, Sectors};
use bimetal_device::page::Aligned;

use crate::find::Located;
use crate::labels::LabelError;
use crate::system::seconds_since_1970;

/// Reads the pages of the report on an open member of `capacity`. An unreadable page is `None`.
///
/// # Errors
/// Fails if the member is too small for a report.
pub fn read(drive: &File, capacity: Sectors, path: &Path) -> Result<Pages, LabelError> {
    let read = |place: SectorRange| {
        let mut page = Aligned([0; PAGE_BYTES]);
        drive.read_exact_at(&mut page.0, place.start.0 * SECTOR_BYTES).ok().map(|()| page.0)
    };
    Ok(places(capacity, path)?.map(|copies| copies.map(read)))
}

/// Writes `report` to an open member of `capacity`, in its turn: the first copy, then the second.
/// Each copy is stable before the next step.
///
/// # Errors
/// Fails if the drive fails. After an error the previous report is valid, or the first copy of this
/// report.
pub fn write(drive: &File, capacity: Sectors, path: &Path, volume: u64, report: &Report) -> Result<(), LabelError> {
    let page = Aligned(report.encode(volume));
    for place in places(capacity, path)?[report.turn()] {
        let written = drive.write_all_at(&page.0, place.start.0 * SECTOR_BYTES).and_then(|()| drive.sync_all());
        written.map_err(|error| LabelError::Io { path: path.to_owned(), doing: "written", error })?;
    }
    Ok(())
}

/// Writes `report` to an open member without a report, in both turns.
///
/// # Errors
/// Fails for the reasons of [`write()`].
pub fn place(drive: &File, capacity: Sectors, path: &Path, volume: u64, report: &Report) -> Result<(), LabelError> {
    let Some(before) = report.sequence.checked_sub(1) else { return Ok(()) };
    write(drive, capacity, path, volume, &report.numbered(before))?;
    write(drive, capacity, path, volume, report)
}

/// Returns the report of the volume with this label, from the pages of the present members.
pub fn newest(label: &Label, pages: &[Pages]) -> Report {
    page::newest(pages, label.volume.identity(), seconds_since_1970())
}

/// Returns the report of a volume that is not served.
pub fn of(located: &Located) -> Report {
    let label = &located.assembly.label;
    let there = located.members().zip(&label.members).filter_map(|(drive, member)| {
        let probe = &drive?.probe;
        let file = File::open(&probe.canonical).ok()?;
        read(&file, member.size, &probe.path).ok()
    });
    newest(label, &there.collect::<Vec<_>>())
}

fn places(capacity: Sectors, path: &Path) -> Result<[[SectorRange; 2]; 2], LabelError> {
    page::places(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })
}
