//! Traces of the experiments: traces that are shipped inside the program, and public traces in a
//! folder of the user.

use std::io::BufReader;
use std::path::PathBuf;

use bimetal_core::operation::OpKind;
use bimetal_core::scheme::FileExtent;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange};
use bimetal_trace::analysis::FileMap;
use bimetal_trace::{Event, OpenOptions, Request, Trace};

use crate::experiments::ExperimentsError;

/// Shipped traces, with their bytes; `traces/README.md` describes the recordings.
const SHIPPED: [(&str, &[u8]); 12] = [
    ("application-mix", include_bytes!("../../../traces/application-mix.bin.zst")),
    ("boot", include_bytes!("../../../traces/boot.bin.zst")),
    ("browser", include_bytes!("../../../traces/browser.bin.zst")),
    ("desktop", include_bytes!("../../../traces/desktop.bin.zst")),
    ("media-copy", include_bytes!("../../../traces/media-copy.bin.zst")),
    ("office-server", include_bytes!("../../../traces/office-server.bin.zst")),
    ("office-start", include_bytes!("../../../traces/office-start.bin.zst")),
    ("package-install", include_bytes!("../../../traces/package-install.bin.zst")),
    ("pgbench", include_bytes!("../../../traces/pgbench.bin.zst")),
    ("program-start", include_bytes!("../../../traces/program-start.bin.zst")),
    ("source-tree", include_bytes!("../../../traces/source-tree.bin.zst")),
    ("sqlite", include_bytes!("../../../traces/sqlite.bin.zst")),
];

/// Maps of files of shipped traces.
const FILES: [(&str, &[u8]); 4] = [
    ("boot", include_bytes!("../../../traces/boot.files.csv.zst")),
    ("desktop", include_bytes!("../../../traces/desktop.files.csv.zst")),
    ("office-start", include_bytes!("../../../traces/office-start.files.csv.zst")),
    ("program-start", include_bytes!("../../../traces/program-start.files.csv.zst")),
];

/// Size of a mark, which stands between the pieces of a trace.
pub(crate) const MARK: Bytes = Bytes::from_kib(4);

/// Shipped traces that stand for the papers' desktops.
pub(crate) const DESKTOPS: [&str; 4] = ["browser", "media-copy", "package-install", "source-tree"];

/// Shipped traces that stand for the papers' servers.
pub(crate) const SERVERS: [&str; 3] = ["office-server", "pgbench", "sqlite"];

/// Public traces of three desktops.
pub(crate) const PUBLIC_DESKTOPS: [&str; 3] =
    ["diskmon-mayun.tsv.xz", "diskmon-p2pdownload.tsv.xz", "diskmon-sys1.tsv.xz"];

/// Returns true if a trace of this name is shipped.
pub(crate) fn is_shipped(name: &str) -> bool {
    SHIPPED.iter().any(|(shipped, _)| *shipped == name)
}

/// A trace in memory.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) requests: Vec<Request>,
    /// Set if the requests have not passed through a block layer.
    pub(crate) queue_events: bool,
    /// Set if the touched addresses are mapped densely, for a drive smaller than the recorded
    /// drive.
    pub(crate) compact: bool,
}

impl Loaded {
    /// Returns requests that a generator made.
    pub(crate) fn generated(requests: Vec<Request>) -> Self {
        Self { requests, queue_events: false, compact: false }
    }
}

/// Source of traces.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// Folder with public traces, under their usual names.
    pub folder: Option<PathBuf>,
}

impl Traces {
    /// Returns a shipped trace.
    pub(crate) fn shipped(&self, name: &str) -> Result<Loaded, ExperimentsError> {
        let found = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
        let (name, bytes) = found.ok_or_else(|| ExperimentsError::NotShipped(name.to_owned()))?;
        let trace = Trace::from_reader(*name, *bytes, Some(bytes.len() as u64), &OpenOptions::default())?;
        loaded(trace, false)
    }

    /// Returns several shipped traces.
    pub(crate) fn all_shipped(&self, names: &[&str]) -> Result<Vec<Loaded>, ExperimentsError> {
        names.iter().map(|name| self.shipped(name)).collect()
    }

    /// Returns a public trace; `None` if the folder does not have the trace.
    pub(crate) fn public(&self, file: &str) -> Result<Option<Loaded>, ExperimentsError> {
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(file)).filter(|path| path.exists()) else {
            return Ok(None);
        };
        // The P2P download begins with two lines of nonsense.
        let options = OpenOptions { skip_bad_lines: true, ..OpenOptions::default() };
        loaded(Trace::open(path, &options)?, true).map(Some)
    }

    /// Returns the three public desktops; `None` if a trace is missing.
    pub(crate) fn public_desktops(&self) -> Result<Option<Vec<Loaded>>, ExperimentsError> {
        PUBLIC_DESKTOPS.iter().map(|file| self.public(file)).collect()
    }

    /// Returns the map of files of a shipped trace.
    pub(crate) fn file_map(&self, name: &str) -> Result<FileMap, ExperimentsError> {
        let found = FILES.iter().find(|(shipped, _)| *shipped == name);
        let (name, bytes) = found.ok_or_else(|| ExperimentsError::NotShipped(format!("{name}.files.csv")))?;
        Ok(FileMap::read(&format!("{name}.files.csv"), BufReader::new(*bytes))?)
    }

    /// Returns the pieces of a shipped trace between its marks: reads of this size at the end of a
    /// disk of this size.
    pub(crate) fn pieces(&self, name: &str, disk: Bytes, mark: Bytes) -> Result<Vec<Loaded>, ExperimentsError> {
        let Loaded { requests, queue_events, compact } = self.shipped(name)?;
        let mark_sectors = mark.get() / SECTOR_BYTES;
        let marked = SectorRange::new(disk.get() / SECTOR_BYTES - mark_sectors, mark_sectors);
        let is_mark = |request: &Request| request.kind == OpKind::Read && request.range == marked;
        let pieces = requests.split(is_mark).map(|piece| Loaded { requests: piece.to_vec(), queue_events, compact });
        Ok(pieces.collect())
    }
}

/// Returns the extents of the files and of the free space of a map of files.
pub(crate) fn extents(map: &FileMap) -> Vec<FileExtent> {
    let extent = |start: u64, end: u64, path: &str| {
        let first = start / SECTOR_BYTES;
        let sectors = SectorRange::new(first, end.div_ceil(SECTOR_BYTES) - first);
        FileExtent { path: path.to_owned(), sectors, listed: None }
    };
    let files = map.extents().map(|(start, end, path)| extent(start, end, path));
    files.chain(map.free().map(|(start, end)| extent(start, end, ""))).collect()
}

fn loaded(trace: Trace, compact: bool) -> Result<Loaded, ExperimentsError> {
    let queue_events = trace.event() == Some(Event::Queue);
    Ok(Loaded { requests: trace.collect::<Result<_, _>>()?, queue_events, compact })
}
