//! Maps of files: the extents of a map that a user names, with the lines of a list of files.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use bimetal_core::scheme::FileExtent;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange};
use bimetal_trace::analysis::{FileMap, MapCheck};

use crate::error::Error;
use crate::output::note;

/// Reads the map of files at `path`, which may be compressed.
pub(crate) fn file_map(path: &Path) -> Result<FileMap, Error> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Error::new(format!("{name}: cannot be opened: {error}")))?;
    Ok(FileMap::read(&name, BufReader::new(file))?)
}

/// Refuses the map of files at `path` if the map and the trace `trace` are of different devices.
/// `check` has counted the requests of the trace. Warns the user if the map is doubtful.
///
/// # Errors
/// The map cannot belong to the trace.
pub(crate) fn refuse_other_map(check: &MapCheck, path: &Path, trace: &str, device: Option<Bytes>) -> Result<(), Error> {
    let Some(mismatch) = check.mismatch(device) else { return Ok(()) };
    let shown = path.display();
    if !mismatch.is_refused() {
        note(format_args!("{shown}: {mismatch} ({trace}): it may be the map of another trace"));
        return Ok(());
    }
    Err(Error::new(format!(
        "{shown}: {mismatch} ({trace}): expected the map of the file system that was recorded, as `bimetal place PATH \
         -o MAP.csv` writes it; without --files no map is needed"
    )))
}

/// Returns `extents` of the map `files`, each with the number of the line in the file `list` that
/// names the extent's path.
fn listed(mut extents: Vec<FileExtent>, files: &Path, list: &Path) -> Result<Vec<FileExtent>, Error> {
    let shown = list.display();
    let text =
        std::fs::read_to_string(list).map_err(|error| Error::new(format!("{shown}: cannot be read: {error}")))?;
    let lines: HashMap<&str, u32> = text.lines().zip(0..).filter(|(path, _)| !path.is_empty()).collect();
    let known: HashSet<&str> = extents.iter().map(|extent| extent.path.as_str()).collect();
    if let Some((path, line)) = lines.iter().filter(|(path, _)| !known.contains(*path)).min_by_key(|(_, line)| **line) {
        let number = line + 1;
        return Err(Error::new(format!("{shown}:{number}: '{path}': expected a path in the map {}", files.display())));
    }
    for extent in &mut extents {
        extent.listed = lines.get(extent.path.as_str()).copied();
    }
    Ok(extents)
}

/// Returns the extents of all files, with their lines in a list, and free space as extents without
/// a path.
pub(crate) fn file_extents(path: &Path, list: Option<&Path>) -> Result<Vec<FileExtent>, Error> {
    let extent = |start: u64, end: u64, path: &str| {
        let first = start / SECTOR_BYTES;
        let sectors = SectorRange::new(first, end.div_ceil(SECTOR_BYTES) - first);
        FileExtent { path: path.to_owned(), sectors, listed: None }
    };
    let map = file_map(path)?;
    let files = map.extents().map(|(start, end, path)| extent(start, end, path));
    let extents = files.chain(map.free().map(|(start, end)| extent(start, end, ""))).collect();
    match list {
        None => Ok(extents),
        Some(list) => listed(extents, path, list),
    }
}

/// Returns the end of the last extent: a volume must have at least this size to have the files of a
/// map. `None` without a map.
pub(crate) fn end_of(extents: &[FileExtent]) -> Option<Bytes> {
    extents.iter().map(|extent| extent.sectors.end().bytes()).max()
}

/// Refuses the map of files at `path` if its `extents` reach beyond a volume of size `volume`.
///
/// # Errors
/// The map is of a larger file system.
pub(crate) fn refuse_map_beyond(extents: &[FileExtent], path: &Path, volume: Bytes) -> Result<(), Error> {
    match end_of(extents).filter(|end| *end > volume) {
        None => Ok(()),
        Some(end) => Err(Error::new(format!(
            "{}: the map ends at {} bytes, and the volume has {} bytes: expected the map of a file system on this volume, as \
             `bimetal place DIRECTORY -o MAP.csv` writes it",
            path.display(),
            end.0,
            volume.0
        ))),
    }
}
