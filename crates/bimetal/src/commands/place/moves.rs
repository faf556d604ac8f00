//! Moves of files: their plan, the moves themselves, and the moves back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bimetal_core::units::Bytes;
use bimetal_mover::file_system::{FOLDER, FileSystem};
use bimetal_mover::journal::Journal;
use bimetal_mover::mover::{Mover, Report, Request, Settings};
use bimetal_mover::pace::{Ended, Pace};
use bimetal_mover::plan::{Plan, Situation, plan};
use bimetal_mover::runs::Run;
use bimetal_mover::{BLOCK_BYTES, Side};
use bimetal_sim::file_places::{Entry, Place, Rule, Total, Uses};
use bimetal_trace::file_system::PlacedFile;
use serde::Serialize;

use super::Arguments;
use crate::error::Error;
use crate::progress::Stages;

/// Part of a drive that stays free, so that the file system has room for its own blocks: a 256th,
/// at most 16 MiB.
const SPARE_SHARE: u64 = 256;
const SPARE_BLOCKS_MAX: u64 = (16 << 20) / BLOCK_BYTES;

/// Planned moves.
#[derive(Debug, Serialize)]
pub(super) struct Planned {
    to_ssd: Total,
    to_hdd: Total,
    /// Files that belong on the SSD, but for which the SSD has no room.
    pub(super) no_room: Total,
    /// Time that the moves take; null if the rate is unknown.
    seconds: Option<f64>,
    /// Bytes a second by which the time is estimated.
    bytes_per_second: Option<f64>,
    #[serde(skip)]
    pub(super) requests: Vec<Request>,
}

/// Moves that were made.
#[derive(Debug, Serialize)]
pub(super) struct Moved {
    to_ssd: Total,
    to_hdd: Total,
    /// Files with more extents than before the move.
    split: u64,
    /// Files whose content was compared.
    verified: u64,
    /// Files that were removed since they moved.
    removed: u64,
    seconds: f64,
    bytes_per_second: Option<f64>,
    /// Reason for which the run ended early.
    ended: Option<&'static str>,
    skipped: Vec<Skipped>,
}

/// Files that did not move for the same reason.
#[derive(Debug, Serialize)]
struct Skipped {
    reason: String,
    files: u64,
    first: String,
}

/// Present places of the files, and the files that belong on the SSD.
pub(super) struct Files<'a> {
    pub(super) rule: &'a Rule,
    pub(super) files: &'a [PlacedFile],
    pub(super) uses: Option<&'a [Uses]>,
    pub(super) entries: &'a [Entry<'a>],
    /// First byte and length of each free range.
    pub(super) free: &'a [(u64, u64)],
}

fn run_of(&(start, length): &(u64, u64)) -> Run {
    Run::new(start / BLOCK_BYTES, length.div_ceil(BLOCK_BYTES))
}

impl Files<'_> {
    /// Returns the numbers of the files that belong on the SSD, the most important first.
    pub(super) fn chosen(&self) -> Vec<usize> {
        let order = self.rule.order(self.files, self.uses).into_iter();
        order.filter(|&number| self.entries[number].belongs == Some(Place::Ssd)).collect()
    }

    /// Returns the files that may leave the SSD: the least used first, then the largest, so that
    /// few files leave.
    fn others(&self) -> Vec<usize> {
        let belongs_elsewhere = |number: &usize| self.entries[*number].belongs == Some(Place::Hdd);
        let mut others: Vec<usize> = (0..self.files.len()).filter(belongs_elsewhere).collect();
        let accesses = |number: usize| self.uses.map_or(0, |uses| uses[number].accesses);
        others.sort_by_key(|&number| (accesses(number), std::cmp::Reverse(self.entries[number].bytes), number));
        others
    }

    /// Plans the moves for an SSD of `ssd` bytes. `rate` is the limit of `--rate`.
    pub(super) fn plan(&self, ssd: Bytes, file_system: &FileSystem, rate: Option<Bytes>) -> Planned {
        let boundary = ssd.0 / BLOCK_BYTES;
        let blocks: Vec<Vec<Run>> = self.files.iter().map(|file| file.extents.iter().map(run_of).collect()).collect();
        let spare = (boundary / SPARE_SHARE).min(SPARE_BLOCKS_MAX);
        let situation = Situation {
            boundary,
            files: &blocks,
            wanted: &self.chosen(),
            others: &self.others(),
            free: self.free.iter().map(run_of).collect(),
            spare: [spare, spare],
        };
        self.planned(plan(&situation), file_system, rate)
    }

    fn planned(&self, plan: Plan, file_system: &FileSystem, rate: Option<Bytes>) -> Planned {
        let sum = |side| {
            let moves = plan.moves.iter().filter(|moved| moved.to == side);
            moves.fold(Total::default(), |total, moved| Total {
                files: total.files + 1,
                bytes: total.bytes + moved.blocks * BLOCK_BYTES,
            })
        };
        let (to_ssd, to_hdd) = (sum(Side::Ssd), sum(Side::Hdd));
        let no_room = plan.no_room.iter().fold(Total::default(), |total, &file| Total {
            files: total.files + 1,
            bytes: total.bytes + self.entries[file].bytes,
        });
        let last = Journal::last_rate(&file_system.root.join(FOLDER)).filter(|last| last.seconds > 0.0);
        let rates = [rate.map(|rate| rate.0 as f64), last.map(|last| last.bytes as f64 / last.seconds)];
        let bytes_per_second = rates.into_iter().flatten().min_by(f64::total_cmp).filter(|&rate| rate > 0.0);
        let seconds = bytes_per_second.map(|rate| (to_ssd.bytes + to_hdd.bytes) as f64 / rate);
        let request = |moved: bimetal_mover::plan::Move| Request {
            path: PathBuf::from(&self.files[moved.file].path),
            inode: self.files[moved.file].inode,
            born: self.files[moved.file].born,
            to: moved.to,
            only: None,
            aims: moved.targets,
        };
        let requests = plan.moves.into_iter().map(request).collect();
        Planned { to_ssd, to_hdd, no_room, seconds, bytes_per_second, requests }
    }
}

impl Planned {
    /// Returns true if each file lies on the drive on which it belongs.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.no_room.files == 0
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "plan         {} to the SSD; before, {} to the HDD", self.to_ssd, self.to_hdd);
        if self.no_room.files > 0 {
            let _ = writeln!(text, "no room      {}", self.no_room);
        }
        let _ = match (self.seconds, self.bytes_per_second) {
            _ if self.requests.is_empty() => writeln!(text, "time         none: nothing is to be moved"),
            (Some(seconds), Some(rate)) => {
                writeln!(text, "time         {} at {}/s", duration(seconds), Bytes(rate as u64).rounded_down())
            }
            _ => writeln!(text, "time         not known before a first run, or a limit (--rate)"),
        };
        text
    }
}

/// Returns a duration for people.
fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 100.0 => format!("{short:.1} s"),
        middle if middle < 6000.0 => format!("{:.0} min", middle / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}

impl Moved {
    /// Returns true if every file has moved, and the run came to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.skipped.is_empty() && self.ended.is_none()
    }

    fn of(report: &Report) -> Self {
        let total = |(files, blocks): (u64, u64)| Total { files, bytes: blocks * BLOCK_BYTES };
        let mut reasons: BTreeMap<&str, (u64, String)> = BTreeMap::new();
        for (path, reason) in &report.skipped {
            reasons.entry(reason).or_insert_with(|| (0, path.display().to_string())).0 += 1;
        }
        let skipped = reasons.into_iter();
        let skipped = skipped.map(|(reason, (files, first))| Skipped { reason: reason.to_owned(), files, first });
        let seconds = report.time.as_secs_f64();
        Self {
            to_ssd: total(report.to_ssd),
            to_hdd: total(report.to_hdd),
            split: report.split,
            verified: report.verified,
            removed: report.removed,
            seconds,
            bytes_per_second: (seconds > 0.0).then(|| report.bytes() as f64 / seconds),
            ended: report.ended.map(|ended| match ended {
                Ended::Stopped => "stopped by a signal",
                Ended::NeverIdle => "the device was not idle for ten minutes",
            }),
            skipped: skipped.collect(),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let rate =
            self.bytes_per_second.map_or_else(String::new, |rate| format!(", {}/s", Bytes(rate as u64).rounded_down()));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "moved        {} to the SSD; {} to the HDD; {}{rate}",
            self.to_ssd,
            self.to_hdd,
            duration(self.seconds)
        );
        if self.split > 0 {
            let _ = writeln!(text, "split        {} files have more extents than before", self.split);
        }
        if self.verified > 0 {
            let _ = writeln!(text, "verified     {} files have the content that they had before", self.verified);
        }
        if self.removed > 0 {
            let _ = writeln!(text, "removed      {} files since they moved", self.removed);
        }
        for Skipped { reason, files, first } in &self.skipped {
            let _ = writeln!(text, "not moved    {files} files: {reason}; the first is {first}");
        }
        if let Some(ended) = self.ended {
            let _ = writeln!(text, "ended early  {ended}; the next run continues");
        }
        text
    }
}

fn mover<'a>(
    arguments: &Arguments,
    file_system: &'a FileSystem,
    stop: &'a AtomicBool,
    ssd: Bytes,
) -> Result<Mover<'a>, Error> {
    let idle = arguments.idle.map(|idle| Duration::from_nanos(idle.get()));
    let rate = arguments.rate.map(|rate| rate.0);
    let pace = Pace::new(rate, idle, &file_system.device_folder(), stop);
    let settings = Settings { boundary: ssd.0 / BLOCK_BYTES, verify: arguments.verify, pace };
    Ok(Mover::open(file_system, settings)?)
}

/// Opens the journal, so that it has the time from which on all of its moves have notes.
pub(super) fn date_journal(file_system: &FileSystem) -> Result<(), Error> {
    let _lock = file_system.lock()?;
    Journal::open(&file_system.root.join(FOLDER))?;
    Ok(())
}

/// Makes the moves of a plan.
pub(super) fn apply(
    arguments: &Arguments,
    file_system: &FileSystem,
    ssd: Bytes,
    planned: &Planned,
    stop: &AtomicBool,
) -> Result<Moved, Error> {
    // A watch goes on: there may be room at a later time.
    if planned.requests.is_empty() && planned.no_room.files > 0 && arguments.watch.is_none() {
        let Total { files, bytes } = planned.no_room;
        return Err(Error::new(format!(
            "{}: {files} files of {} belong on the SSD, and none of them has room: expected free space, or files \
             that may leave the SSD, below the paths",
            file_system.root.display(),
            Bytes(bytes)
        )));
    }
    let mover = mover(arguments, file_system, stop, ssd)?;
    let (bar, total) = (Stages::default(), planned.to_ssd.bytes + planned.to_hdd.bytes);
    let report = mover.run(&planned.requests, &|moved| bar.show("bytes", Some(total), moved))?;
    Ok(Moved::of(&report))
}

/// Moves all files back that earlier runs have moved.
pub(super) fn undo(arguments: &Arguments, file_system: &FileSystem, stop: &AtomicBool) -> Result<Moved, Error> {
    let mover = mover(arguments, file_system, stop, Bytes(0))?;
    let bar = Stages::default();
    let report = mover.undo(&|moved| bar.show("bytes", None, moved))?;
    Ok(Moved::of(&report))
}
