//! Griffin's tables 1 to 5, and the sentences of section 4 about the tables.
//!
//! Our choices, where the paper leaves something open:
//! - `cloudPhysicsIO`, a virtual machine over two hours, stands for a server over hours.
//! - `desktop` stands for the developer's Linux of tables 4 and 5. `office-server` stands for the
//!   server with source code: a source tree under git is a part of its work.
//! - Of table 2, a mailbox is `mail/`. Search index and registry do not exist in the recording:
//!   `profile/` (the browser's) and `system/var/` (the package manager's) take their place.
//!   Metadata of the file system is a block that is neither in a file nor free.
//! - Where a value differs, the trace is analysed again with one property changed (`altered`). The
//!   buffer caches have 64 MiB to 1 GiB; small writes have at most 16 KiB, four blocks.

use std::collections::{BTreeMap, HashSet};

use bimetal_core::operation::OpKind;
use bimetal_core::units::Bytes;
use bimetal_trace::analysis::{Analysis, Analyzer, FileFigures};

use super::altered::{Altered, Change, blocks};
use crate::claims::griffin::CLOUD;
use crate::experiments::{ExperimentsError, Note, Values, percent, tried};
use crate::traces::{DESKTOPS, Loaded, SERVERS, Traces, extents, is_shipped};

/// A figure of an analysis.
type Figure = fn(&Analysis) -> Option<f64>;

const SAVINGS: Figure = |trace| trace.max_write_savings;
const TOP: Figure = |trace| trace.overwrites_in_top_1pct;
const TOP_READS: Figure = |trace| trace.reads_in_top_1pct;

pub(super) fn measure(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    shipped(values, traces)?;
    server(values, traces)?;
    if let Some(public) = traces.public_desktops()? {
        public_desktops(values, &public)?;
    }
    if let Some(machine) = traces.public(CLOUD)? {
        of_machine(values, &machine)?;
    }
    if let Some(mayun) = traces.public("diskmon-mayun.tsv.xz")? {
        let writes = Altered::of(&mayun, &[Change::Small, Change::Pauses(10)])?;
        let reads = Altered::of(&mayun, &[Change::Cached(64), Change::WithoutMinutes(1), Change::WithoutMinutes(3)])?;
        cells(values, &MAYUN, &writes, &reads)?;
    }
    if is_shipped("desktop") {
        developer(values, traces)?;
    }
    Ok(())
}

/// Rule that makes one figure of the figures of several traces.
type Fold = fn(&[f64]) -> Option<f64>;

const AVERAGE: Fold = |figures| Some(figures.iter().sum::<f64>() / figures.len() as f64);
const LOWEST: Fold = |figures| figures.iter().copied().min_by(f64::total_cmp);
const HIGHEST: Fold = |figures| figures.iter().copied().max_by(f64::total_cmp);
/// The highest figure of all traces but one.
const HIGHEST_BUT_ONE: Fold = |figures| {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.iter().rev().nth(1).or(sorted.last()).copied()
};

/// Notes a figure over several traces, with its value for each change of the traces.
fn over(
    values: &mut Values,
    claim: &'static str,
    traces: &[Altered],
    fold: Fold,
    figure: Figure,
) -> Result<(), ExperimentsError> {
    let of = |analyses: Vec<&Analysis>| fold(&analyses.into_iter().filter_map(figure).collect::<Vec<_>>());
    let plain = of(traces.iter().map(|trace| &trace.plain).collect());
    let changes = traces.first().map_or(0, |trace| trace.changes().count());
    let each = (0..changes).filter_map(|at| {
        let changed: Vec<_> = traces.iter().filter_map(|trace| trace.changes().nth(at)).collect();
        let (change, _) = changed.first()?;
        Some(change.tried(of(changed.iter().map(|(_, analysis)| analysis).collect())))
    });
    values.explain(claim, plain, each.collect(), String::new())
}

fn altered(traces: &[Loaded], changes: &[Change]) -> Result<Vec<Altered>, ExperimentsError> {
    traces.iter().map(|trace| Altered::of(trace, changes)).collect()
}

/// Measures columns 6 to 8 of table 1 over the shipped servers, and the mean of column 6.
fn shipped(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let changes = [Change::Small, Change::WithoutOnce, Change::WithoutTwice];
    let servers = altered(&traces.all_shipped(&SERVERS)?, &changes)?;
    over(values, "griffin-ideal-savings-servers", &servers, AVERAGE, SAVINGS)?;
    over(values, "griffin-ideal-least-server", &servers, LOWEST, SAVINGS)?;
    over(values, "griffin-ideal-most-server", &servers, HIGHEST, SAVINGS)?;
    over(values, "griffin-top-overwrites-servers", &servers, AVERAGE, TOP)?;
    over(values, "griffin-top-reads-servers", &servers, HIGHEST_BUT_ONE, TOP_READS)?;
    let desktops = altered(&traces.all_shipped(&DESKTOPS)?, &changes)?;
    let all: Vec<Altered> = desktops.into_iter().chain(servers).collect();
    over(values, "griffin-ideal-savings-all", &all, AVERAGE, SAVINGS)
}

/// Measures columns 6 to 8 of table 1 over the public desktops.
fn public_desktops(values: &mut Values, traces: &[Loaded]) -> Result<(), ExperimentsError> {
    let desktops = altered(traces, &[Change::Small, Change::Cached(256)])?;
    over(values, "griffin-ideal-savings-public", &desktops, AVERAGE, SAVINGS)?;
    over(values, "griffin-ideal-least-public", &desktops, LOWEST, SAVINGS)?;
    over(values, "griffin-ideal-most-public", &desktops, HIGHEST, SAVINGS)?;
    over(values, "griffin-top-overwrites-public", &desktops, AVERAGE, TOP)?;
    let desktops = altered(traces, &[Change::Small, Change::Cached(256), Change::WithoutUnwritten])?;
    over(values, "griffin-top-reads-public", &desktops, AVERAGE, TOP_READS)
}

/// Measures table 3 over a virtual machine. Twice in two hours, some program writes for three
/// minutes and reads what it wrote.
fn of_machine(values: &mut Values, machine: &Loaded) -> Result<(), ExperimentsError> {
    let changes = [
        Change::Small,
        Change::Cached(1024),
        Change::WithoutMinutes(3),
        Change::Slower(10),
        Change::WithoutMinutes(6),
        Change::Backup,
    ];
    let machine = Altered::of(machine, &changes)?;
    cells(values, &MACHINE, &machine.first(4), &machine)
}

/// Measures tables 4 and 5 over a server with source code.
fn server(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let server = altered(
        &[traces.shipped("office-server")?],
        &[Change::Small, Change::WithoutOnce, Change::Cached(256), Change::Slower(10)],
    )?;
    over(values, "griffin-svn-savings", &server, AVERAGE, SAVINGS)?;
    over(values, "griffin-svn-top-overwrites", &server, AVERAGE, TOP)?;
    over(values, "griffin-svn-top-reads", &server, AVERAGE, TOP_READS)?;
    cells(values, &SERVER, &server[0], &server[0])
}

/// Measures tables 4 and 5 over a developer's Linux, and table 2 over its files.
fn developer(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let desktop = traces.shipped("desktop")?;
    let savings = Altered::of(&desktop, &[Change::Small, Change::WithoutOnce, Change::Cached(256)])?;
    let written = format!(
        "{} MiB are written; most overwrites: {}",
        savings.plain.write_bytes >> 20,
        most_overwritten(traces, &desktop)?
    );
    for (claim, figure) in [("griffin-dev-savings", SAVINGS), ("griffin-dev-top-overwrites", TOP)] {
        values.explain(claim, figure(&savings.plain), savings.figures(figure), written.clone())?;
    }
    over(values, "griffin-dev-top-reads", &[savings], AVERAGE, TOP_READS)?;
    let writes = Altered::of(&desktop, &[Change::Pauses(20), Change::Parts(4), Change::Slower(10)])?;
    let reads = Altered::of(&desktop, &[Change::Cached(256), Change::Pauses(20), Change::Pauses(10)])?;
    cells(values, &DEVELOPER, &writes, &reads)?;
    overwritten_files(values, traces, &desktop)
}

/// Access after a write whose intervals tables 3 and 5 have.
#[derive(Clone, Copy)]
enum After {
    Write,
    Read,
}

/// A cell of table 3 or 5: the claim, and the column, from 0, of 30, 60, 900 and 3600 s.
type Cell = (&'static str, After, usize);

const MAYUN: [Cell; 8] = [
    ("griffin-waw-30s-mayun", After::Write, 0),
    ("griffin-waw-60s-mayun", After::Write, 1),
    ("griffin-waw-900s-mayun", After::Write, 2),
    ("griffin-waw-3600s-mayun", After::Write, 3),
    ("griffin-raw-30s-mayun", After::Read, 0),
    ("griffin-raw-60s-mayun", After::Read, 1),
    ("griffin-raw-900s", After::Read, 2),
    ("griffin-raw-3600s-mayun", After::Read, 3),
];

/// Cells of D-DEV in table 5, and the sentence about an hour.
const DEVELOPER: [Cell; 9] = [
    ("griffin-dev-waw-30s", After::Write, 0),
    ("griffin-dev-waw-60s", After::Write, 1),
    ("griffin-dev-waw-900s", After::Write, 2),
    ("griffin-dev-waw-3600s", After::Write, 3),
    ("griffin-dev-raw-30s", After::Read, 0),
    ("griffin-dev-raw-60s", After::Read, 1),
    ("griffin-dev-raw-900s", After::Read, 2),
    ("griffin-dev-raw-3600s", After::Read, 3),
    ("griffin-linux-hour", After::Write, 3),
];

const MACHINE: [Cell; 8] = [
    ("griffin-waw-30s-vm", After::Write, 0),
    ("griffin-waw-60s-vm", After::Write, 1),
    ("griffin-waw-900s-vm", After::Write, 2),
    ("griffin-waw-3600s-vm", After::Write, 3),
    ("griffin-raw-30s-vm", After::Read, 0),
    ("griffin-raw-60s-vm", After::Read, 1),
    ("griffin-raw-900s-vm", After::Read, 2),
    ("griffin-raw-3600s-vm", After::Read, 3),
];

const SERVER: [Cell; 4] = [
    ("griffin-svn-waw-30s", After::Write, 0),
    ("griffin-svn-waw-60s", After::Write, 1),
    ("griffin-svn-raw-30s", After::Read, 0),
    ("griffin-svn-raw-60s", After::Read, 1),
];

fn within(trace: &Analysis, after: After, column: usize) -> Option<f64> {
    let within = match after {
        After::Write => trace.waw.as_ref()?,
        After::Read => trace.raw.as_ref()?,
    };
    [within.s30, within.s60, within.s900, within.s3600].get(column).copied()
}

/// Notes cells of table 3 or 5, with the changes that bear on overwrites or on reads.
fn cells(values: &mut Values, cells: &[Cell], writes: &Altered, reads: &Altered) -> Result<(), ExperimentsError> {
    for (claim, after, column) in cells {
        let (trace, left) = match after {
            After::Write => (writes, String::new()),
            After::Read => (reads, reads.left()),
        };
        let figure = |trace: &Analysis| within(trace, *after, *column);
        values.explain(claim, figure(&trace.plain), trace.figures(figure), left)?;
    }
    Ok(())
}

/// Kind of a place on the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A place that the paper's sentence lists: mailboxes, what stands for search index and
    /// registry, and metadata of the file system.
    Listed,
    /// Results of a program that is built again.
    Build,
    Other,
}

impl Kind {
    fn of_path(path: &str) -> Self {
        let path = path.trim_start_matches("./");
        if ["mail/", "profile/", "system/var/"].iter().any(|folder| path.starts_with(folder)) {
            Self::Listed
        } else if path.starts_with("project/") {
            Self::Build
        } else {
            Self::Other
        }
    }
}

/// Measures table 2, and the sentence of section 4.4 about the files in table 2.
fn overwritten_files(values: &mut Values, traces: &Traces, desktop: &Loaded) -> Result<(), ExperimentsError> {
    let of_kind = overwrites_by_kind(traces, desktop)?;
    let count = |kind| of_kind.get(&kind).copied().unwrap_or_default() as f64;
    let all: f64 = of_kind.values().map(|overwrites| *overwrites as f64).sum();
    let without_builds = count(Kind::Listed) / (all - count(Kind::Build));
    let without = tried("without the overwrites of a program that is built again and again", Some(without_builds));
    values.explain("griffin-files", Some(count(Kind::Listed) / all), vec![without], String::new())?;
    let cached = Change::Cached(256);
    let behind = tried(cached.text(), raw_of_six_files(traces, &cached.of(desktop))?);
    values.explain("griffin-files-raw", raw_of_six_files(traces, desktop)?, vec![behind], String::new())
}

/// Returns the files with the most overwrites, each with its share of all overwrites in files.
fn most_overwritten(traces: &Traces, desktop: &Loaded) -> Result<String, ExperimentsError> {
    let files = by_file(traces, desktop)?;
    let all = files.iter().map(|file| file.overwrites).sum::<u64>().max(1) as f64;
    let first = files.iter().take(3).map(|file| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        format!("{name} {}", percent(Some(file.overwrites as f64 / all)))
    });
    Ok(first.collect::<Vec<_>>().join(", "))
}

/// Analyses the files of the recorded desktop, most overwrites first.
fn by_file(traces: &Traces, desktop: &Loaded) -> Result<Vec<FileFigures>, ExperimentsError> {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4))?.with_files(traces.file_map("desktop")?);
    desktop.requests.iter().for_each(|request| analyzer.request(request));
    Ok(analyzer.finish().files.unwrap_or_default())
}

/// Counts the overwrites of blocks by the kind of their place.
fn overwrites_by_kind(traces: &Traces, desktop: &Loaded) -> Result<BTreeMap<Kind, u64>, ExperimentsError> {
    let mut files = extents(&traces.file_map("desktop")?);
    files.sort_by_key(|file| file.sectors.start.0);
    let kind = |block: u64| {
        let sector = block * 8;
        let before = files.partition_point(|file| file.sectors.start.0 <= sector);
        let file = before.checked_sub(1).map(|at| &files[at]).filter(|file| sector < file.sectors.end().0);
        match file {
            // The map names free space by an empty path.
            Some(file) if file.path.is_empty() => Kind::Other,
            Some(file) => Kind::of_path(&file.path),
            None => Kind::Listed,
        }
    };
    let (mut written, mut counts) = (HashSet::new(), BTreeMap::new());
    for request in desktop.requests.iter().filter(|request| request.kind == OpKind::Write) {
        for block in blocks(request).filter(|block| !written.insert(*block)) {
            *counts.entry(kind(block)).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Returns the share of reads after a write within 900 s, over the six most overwritten files.
fn raw_of_six_files(traces: &Traces, desktop: &Loaded) -> Result<Option<f64>, ExperimentsError> {
    let files = by_file(traces, desktop)?;
    let shares: Vec<f64> = files.iter().take(6).filter_map(|file| Some(file.raw.as_ref()?.s900)).collect();
    Ok(if shares.is_empty() { None } else { AVERAGE(&shares) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_traces_but_one_may_be_above_the_highest() {
        assert_eq!(HIGHEST_BUT_ONE(&[0.1, 0.63, 0.02]), Some(0.1));
        assert_eq!(HIGHEST_BUT_ONE(&[0.1]), Some(0.1));
        assert_eq!(HIGHEST_BUT_ONE(&[]), None);
        assert_eq!((LOWEST(&[0.1, 0.02]), HIGHEST(&[0.1, 0.02])), (Some(0.02), Some(0.1)));
    }

    #[test]
    fn kind_follows_from_the_folder() {
        assert!(
            Kind::of_path("./mail/inbox") == Kind::Listed && Kind::of_path("profile/Default/Cookies") == Kind::Listed
        );
        assert!(
            Kind::of_path("./project/part11.o") == Kind::Build && Kind::of_path("./photographs/1.jpg") == Kind::Other
        );
    }
}
