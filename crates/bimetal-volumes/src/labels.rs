//! Labels on open drives: their pages, read and written.
//!
//! The core defines the content of a label, the places of its pages, and the page that is valid
//! ([`bimetal_core::label`]). This module makes the system calls.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use bimetal_core::label::Label;
use bimetal_core::label::lifetime::{self, Lifetime};
use bimetal_core::label::page::{self, Current, PAGE_BYTES, PageError, TooLongError};
use bimetal_core::label::places::CopyPlace;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange, Sectors};

use bimetal_device::page::{Aligned, LabelPageError, read_label};
use rustix::fs::OFlags;

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

/// Counts the pages in `places` that are bad: a page cannot be read, or has no label of the member
/// that `label` names. With `may_be_blank`, a page of zeroes is not bad.
pub fn bad_pages(
    drive: &File,
    places: impl IntoIterator<Item = SectorRange>,
    label: &Label,
    may_be_blank: bool,
) -> u64 {
    let is_sound = |at: SectorRange| {
        let mut page = Box::new(Aligned([0; PAGE_BYTES]));
        if drive.read_exact_at(&mut page.0, at.start.0 * SECTOR_BYTES).is_err() {
            return false;
        }
        match page::decode(&page.0) {
            Ok(found) => (found.volume, found.own().uuid) == (label.volume, label.own().uuid),
            Err(_) => may_be_blank && page.0 == [0; PAGE_BYTES],
        }
    };
    places.into_iter().filter(|at| !is_sound(*at)).count() as u64
}

/// Opens a drive so that reads come from the drive itself, and not from the system's memory, where
/// the file system below can do so.
pub fn open_direct(path: &Path) -> io::Result<File> {
    let direct = OFlags::DIRECT.bits() as i32;
    File::options().read(true).custom_flags(direct).open(path).or_else(|_| File::open(path))
}

fn write_page(drive: &File, at: SectorRange, page: &Aligned) -> io::Result<()> {
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
/// end. Returns the size at whose end the label is.
pub fn rummage(drive: &File, size: Sectors, within: Bytes) -> Option<Sectors> {
    rummage_until(drive, size, within, None)
}

/// Does the same as [`rummage`], until the time `until`.
pub fn rummage_until(drive: &File, size: Sectors, within: Bytes, until: Option<Instant>) -> Option<Sectors> {
    let mut chunk = vec![0; RUMMAGE_BYTES];
    let mut end = size.bytes().0;
    let last = end.saturating_sub(within.0);
    while end > last && until.is_none_or(|until| Instant::now() < until) {
        let start = end.saturating_sub(RUMMAGE_BYTES as u64);
        let bytes = &mut chunk[..(end - start) as usize];
        // An unreadable part contains no label.
        if drive.read_exact_at(bytes, start).is_ok() {
            for (at, page) in bytes.chunks_exact(PAGE_BYTES).enumerate().rev() {
                let Some(label) = page.try_into().ok().and_then(|page| page::decode(page).ok()) else { continue };
                let own = label.own().size;
                let sector = start / SECTOR_BYTES + (at * PAGE_BYTES) as u64 / SECTOR_BYTES;
                let places = [CopyPlace::First, label.second_copy(own)];
                if CopyPlace::at(own, sector).is_some_and(|(_, place)| places.contains(&place)) {
                    return Some(own);
                }
            }
        }
        end = start;
    }
    None
}

fn first_pages(capacity: Sectors, path: &Path) -> Result<[SectorRange; 2], LabelError> {
    CopyPlace::First.pages(capacity).ok_or_else(|| LabelError::TooSmall { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use bimetal_core::block::BlockSize;
    use bimetal_core::label::{Format, MemberLabel, Uuid};
    use bimetal_core::layout::{MemberId, Role};

    use super::*;

    fn label() -> Label {
        let member = |at: u8, role| MemberLabel {
            uuid: Uuid([at; 16]),
            role,
            size: Bytes::from_mib(1).sectors(),
            emulates: None,
            seen_in: 1,
            carried: 1,
            last_seen: 0,
        };
        Label {
            volume: Uuid([9; 16]),
            name: "box".to_owned(),
            index: MemberId(0),
            members: vec![member(1, Role::Hdd), member(2, Role::Ssd)],
            scheme: "bcache".to_owned(),
            settings: Vec::new(),
            block: BlockSize::default(),
            units: Vec::new(),
            guard: None,
            resizing: false,
            format: Format::NEWEST,
            second_tail: true,
            compatible: 0,
            generation: 3,
            writing: 1,
            written: 0,
            created_by: "test".to_owned(),
        }
    }

    #[test]
    fn page_of_a_label_is_bad_unless_it_is_that_of_its_member() {
        let path = std::env::temp_dir().join(format!("bimetal-labels-{}", std::process::id()));
        let drive = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let own = label();
        let size = own.own().size;
        drive.set_len(size.bytes().0).unwrap();
        let older = Label { generation: 1, ..own.clone() };
        let other_volume = Label { volume: Uuid([8; 16]), ..own.clone() };
        let mut torn = page::encode(&own).unwrap();
        torn[2000] ^= 1;
        let [first, second] = [0, 1].map(|turn| own.pages(size, turn).collect::<Vec<_>>());
        for (name, content, bad, bad_if_blank_is_not) in [
            ("own", page::encode(&own).unwrap(), 0, 0),
            ("older", page::encode(&older).unwrap(), 0, 0),
            ("of another member", page::encode(&own.of(MemberId(1))).unwrap(), 1, 1),
            ("of another volume", page::encode(&other_volume).unwrap(), 1, 1),
            ("torn", torn, 1, 1),
            ("blank", [0; PAGE_BYTES], 1, 0),
        ] {
            write(&drive, size, &path, &own, 0).unwrap();
            drive.write_all_at(&content, first[1].start.0 * SECTOR_BYTES).unwrap();
            let found = [false, true].map(|blank| bad_pages(&drive, first.clone(), &own, blank));
            assert_eq!(found, [bad, bad_if_blank_is_not], "{name}");
        }
        assert_eq!(bad_pages(&drive, second.clone(), &own, false), 2, "this turn was never written");
        let beyond = SectorRange::new(size.0, 8);
        assert_eq!(bad_pages(&drive, [beyond], &own, true), 1, "it cannot be read");
        std::fs::remove_file(&path).unwrap();
    }
}
