//! Claims of the Combo Drive paper.
//!
//! Our choices, where the paper leaves something open:
//! - The start of a program is `program-start`: Python with its modules, three times from a cold
//!   disk. The trace is cut at its pauses of more than 3 s; the three longest pieces are the
//!   starts.
//! - Word is a part of `office-start`: a text program of today starts, opens a document and prints
//!   it to a file. The start of the system is `boot`: it ends when all services have started. In
//!   both recordings, each start lies between two marks. The SSD of these runs holds a quarter more
//!   than all programs of the map of files, since 32 GB are more than all programs of a system of
//!   that time.
//! - The processor of `boot` was emulated, and that of `office-start` was busy. So three shares of
//!   the recorded think time are tried. If the three verdicts differ, the claim is undecided.
//!   A fixed piece of work took 17 to 64 times as long in the guest of `boot` as outside.
//! - An aged disk has the files scattered by `bimetal_trace::age`, in fragments of 16, 64 and
//!   256 KiB on average. Each length of fragments is tried with each share of the think time.
//!   Fragments of 4 KiB, the clusters of NTFS, are tried as a change.
//! - Programs have the types of Combo Drive's table 1 and their counterparts under Linux. A list of
//!   the programs that the starts read, as Layout.ini has under Windows, is tried as a change.
//! - The time of a start is the think time, in which the recording had no request under way, plus
//!   the time of the requests, played one after another.
//! - The SSD holds 6 % of the recorded addresses, as in Combo Drive's section 5. Files move before
//!   the start, by strategy 1 with the trace's map. In the runs with the SSD alone or the disk
//!   alone, the drive holds the whole recording.

mod figures;

use bimetal_core::operation::OpKind;
use bimetal_core::scheme::FileExtent;
use bimetal_core::schemes::combo::is_program;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange};
use bimetal_trace::Request;
use bimetal_trace::age::Ageing;
use bimetal_trace::analysis::FileMap;

use super::{CLOSED, ExperimentsError, Note, Plan, Values, decide, percent, tried};
use crate::combo_hdtune::{self, SUBJECTS, Subject};
use crate::traces::{Loaded, MARK, Traces, extents, is_shipped};

pub(super) use figures::figures;

const SSD: &str = "combo-ssd1-32gb";
const HDD: &str = "hitachi-travelstar-5k500-500gb";

/// Share of the SSD in the Combo Drive: 32 GB beside 500 GB.
const SSD_SHARE: f64 = 0.06;

/// Factor by which an SSD is larger than the paper's, to show that its size limits the optimizer.
const LARGER: u64 = 4;

/// Alignment of the SSD's size.
const ALIGNMENT: u64 = 1 << 20;

/// Number of starts in the trace.
const STARTS: usize = 3;

/// Pause between the start of a program and the part of the recording that follows.
const PAUSE: Nanoseconds = Nanoseconds(3_000_000_000);

pub(super) fn measure(traces: &Traces) -> Result<Values, ExperimentsError> {
    let mut values = Values::new();
    let rates = [("combo-read-ssd1", 3, OpKind::Read), ("combo-write-ssd1", 3, OpKind::Write)];
    let faster = [("combo-read-ssd2", 4, OpKind::Read), ("combo-write-ssd2", 4, OpKind::Write)];
    for (claim, subject, kind) in rates.into_iter().chain(faster) {
        let subject: &Subject = &SUBJECTS[subject];
        values.note(claim, Some(combo_hdtune::measure(subject, kind, 1)?.mean_mb_per_s()))?;
    }
    values.note("combo-access", Some(combo_hdtune::measure(&SUBJECTS[0], OpKind::Read, 1)?.mean_access_ms()))?;
    starts(&mut values, traces)?;
    if is_shipped("office-start") {
        office(&mut values, traces)?;
    }
    if is_shipped("boot") {
        boot(&mut values, traces)?;
    }
    Ok(values)
}

/// Times of the starts on one drive, in seconds, and the share of the blocks that an SSD read.
#[derive(Clone, Copy)]
struct Started {
    seconds: f64,
    from_ssd: Option<f64>,
}

fn starts(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let trace = traces.shipped("program-start")?;
    let (requests, think) = cut(&trace.requests);
    let end = trace.requests.iter().map(|request| request.range.end().0).max().unwrap_or(0) * 512;
    let size = Bytes((end as f64 * SSD_SHARE) as u64 / ALIGNMENT * ALIGNMENT);
    let starts = Loaded { requests, queue_events: trace.queue_events, compact: false };
    let files = extents(&traces.file_map("program-start")?);
    let think = think.as_seconds_f64();
    let all = Program::of(&starts, &files, size, think)?;
    // A program's start also reads metadata, which no file has.
    let of_files = Program::of(&in_files(&starts, &files), &files, size, think)?;
    let Program { hdd, ssd, plain, optimized } = &all;
    let each = format!(
        "three starts: {:.1} s on the disk, {:.1} s on SSD1, {:.1} s on the Combo Drive, {:.1} s optimized; {think:.1} s of \
         each are think time",
        hdd.seconds, ssd.seconds, plain.seconds, optimized.seconds
    );
    let slower = vec![tried("without the reads of blocks in no file", Some(of_files.slower()))];
    values.explain("combo-start-hdd", Some(all.slower()), slower, each.clone())?;
    let (share, before) = (percent(optimized.from_ssd), percent(plain.from_ssd));
    // An SSD that holds more of the recorded addresses than the paper's.
    let larger = Program::of(&starts, &files, Bytes(size.get() * LARGER), think)?;
    let served = format!(
        "with an SSD of {LARGER} times the size, which serves {} optimized",
        percent(larger.optimized.from_ssd)
    );
    let text = format!("{each}; optimized, the SSD serves {share}");
    let removed = vec![tried(&served, Some(larger.removed()))];
    values.explain("combo-start-optimized", Some(all.removed()), removed, text)?;
    let modules = Program::of(&starts, &with_modules(files.clone()), size, think)?;
    let modules = tried("if the modules of Python count as program libraries", Some(modules.shorter()));
    let by_list = served_by_list(&starts, files, size)?;
    let by_list = (by_list.seconds + think) / plain.seconds - 1.0;
    values.explain(
        "combo-optimizer",
        Some(all.shorter()),
        vec![tried(served, Some(larger.shorter())), tried(LISTED, Some(by_list)), modules],
        format!("the SSD serves {before} of the blocks read without the optimizer, and {share} with it"),
    )
}

/// Times of a program's starts, with think time.
struct Program {
    hdd: Started,
    ssd: Started,
    plain: Started,
    optimized: Started,
}

impl Program {
    fn of(starts: &Loaded, files: &[FileExtent], size: Bytes, think: f64) -> Result<Self, ExperimentsError> {
        let time = |plan: Plan| -> Result<Started, ExperimentsError> {
            let served = served(starts, plan)?;
            Ok(Started { seconds: think + served.seconds, ..served })
        };
        Ok(Self {
            hdd: time(Plan::new("hdd-only").hdd(HDD))?,
            ssd: time(Plan::new("ssd-only").ssd(SSD))?,
            plain: time(combo("none", size, files))?,
            optimized: time(combo("type", size, files))?,
        })
    }

    /// Returns the time on the disk relative to the SSD.
    fn slower(&self) -> f64 {
        self.hdd.seconds / self.ssd.seconds
    }

    /// Returns the share of the disk's extra time that the optimizer removes.
    fn removed(&self) -> f64 {
        (self.hdd.seconds - self.optimized.seconds) / (self.hdd.seconds - self.ssd.seconds)
    }

    /// Returns the change of the time by the optimizer.
    fn shorter(&self) -> f64 {
        self.optimized.seconds / self.plain.seconds - 1.0
    }
}

/// Returns the files with the modules of Python named as libraries.
fn with_modules(mut files: Vec<FileExtent>) -> Vec<FileExtent> {
    let is_module = |file: &&mut FileExtent| [".py", ".pyc"].iter().any(|end| file.path.ends_with(end));
    files.iter_mut().filter(is_module).for_each(|file| file.path.push_str(".so"));
    files
}

/// Change of the optimizer that is tried (Combo Drive, section 3.1.1).
const LISTED: &str = "if the optimizer moves only the programs that the starts read, as Layout.ini lists them";

/// Plays the starts behind an optimizer that moves only the programs that the starts read.
fn served_by_list(starts: &Loaded, mut files: Vec<FileExtent>, size: Bytes) -> Result<Started, ExperimentsError> {
    let reads: Vec<SectorRange> =
        starts.requests.iter().filter(|request| request.kind == OpKind::Read).map(|request| request.range).collect();
    let is_listed =
        |file: &&mut FileExtent| is_program(&file.path) && reads.iter().any(|read| read.overlaps(file.sectors));
    (0..).zip(files.iter_mut().filter(is_listed)).for_each(|(line, file)| file.listed = Some(line));
    served(starts, combo("list", size, &files))
}

/// Returns the requests without the reads that touch no file.
fn in_files(starts: &Loaded, files: &[FileExtent]) -> Loaded {
    let mut files: Vec<SectorRange> =
        files.iter().filter(|file| !file.path.is_empty()).map(|file| file.sectors).collect();
    files.sort_by_key(|file| file.start.0);
    let is_in_file = |request: &&Request| {
        let before = files.partition_point(|file| file.start.0 < request.range.end().0);
        before.checked_sub(1).is_some_and(|last| files[last].overlaps(request.range))
    };
    let stays = |request: &&Request| request.kind != OpKind::Read || is_in_file(request);
    let requests = starts.requests.iter().filter(stays).copied().collect();
    Loaded { requests, queue_events: starts.queue_events, compact: starts.compact }
}

/// Plays the requests one after another, which gives the time without any think time.
fn served(starts: &Loaded, plan: Plan) -> Result<Started, ExperimentsError> {
    let run = plan.play(starts, CLOSED)?;
    let figure = run.throughput.iops.ok_or_else(|| ExperimentsError::NoFigure("combo".to_owned()))?;
    let seconds = run.response_time_ms.all.mean.map(|_| starts.requests.len() as f64 / figure);
    Ok(Started { seconds: seconds.unwrap_or_default(), from_ssd: run.ssd_hit_ratio.read })
}

fn combo(strategy: &str, size: Bytes, files: &[FileExtent]) -> Plan {
    let mut plan = Plan::new("combo").ssd(SSD).ssd_size(size).hdd(HDD);
    plan.choices.files = files.to_vec();
    plan.set(&[("strategy", strategy), ("moves", "instant")])
}

/// A recording of starts that has marks.
struct Recorded {
    starts: Loaded,
    map: FileMap,
    /// Think time of all starts, in seconds.
    think: f64,
}

/// Times of the starts of a recording in each place, in seconds, without think time.
struct Times {
    hdd: Started,
    ssd: Started,
    plain: Started,
    optimized: Started,
    /// Times on the disk, with the files in fragments of each length of [`FRAGMENTS`].
    aged: [f64; 3],
}

impl Recorded {
    /// Joins the pieces of a recording that contain a start. Each start lies between two marks, and
    /// another piece follows: a film, or the stop of the system.
    fn of(traces: &Traces, name: &str, disk: Bytes, mark: Bytes) -> Result<Self, ExperimentsError> {
        let pieces = traces.pieces(name, disk, mark)?;
        let starts: Vec<&Loaded> = pieces.iter().skip(1).step_by(2).collect();
        let think = starts.iter().map(|piece| think(&piece.requests).as_seconds_f64()).sum();
        let requests = starts.iter().flat_map(|piece| piece.requests.iter().copied()).collect();
        let queue_events = starts.iter().any(|piece| piece.queue_events);
        Ok(Self { starts: Loaded { requests, queue_events, compact: false }, map: traces.file_map(name)?, think })
    }

    /// Returns the size of the SSD: a quarter more than all programs.
    fn ssd_size(files: &[FileExtent]) -> Bytes {
        let programs =
            files.iter().filter(|file| is_program(&file.path)).map(|file| file.sectors.len.0 * 512).sum::<u64>();
        Bytes((programs + programs / 4).next_multiple_of(ALIGNMENT))
    }

    /// Returns the starts without and with the optimizer, with all files moved behind the addresses
    /// of the SSD.
    fn behind_the_ssd(&self) -> Result<[Started; 2], ExperimentsError> {
        let mut files = extents(&self.map);
        let size = Self::ssd_size(&files);
        let moved = |range: SectorRange| SectorRange::new(range.start.0 + size.get() / SECTOR_BYTES, range.len.0);
        files.iter_mut().for_each(|file| file.sectors = moved(file.sectors));
        // The addresses of the SSD are free; a path of no length names free space.
        let free = SectorRange::new(0, size.get() / SECTOR_BYTES);
        files.insert(0, FileExtent { path: String::new(), sectors: free, listed: None });
        let requests = self.starts.requests.iter();
        let requests = requests.map(|request| Request { range: moved(request.range), ..*request }).collect();
        let starts = Loaded { requests, queue_events: self.starts.queue_events, compact: false };
        Ok([served(&starts, combo("none", size, &files))?, served(&starts, combo("type", size, &files))?])
    }

    /// Returns the time on the disk, with the files in fragments of this length.
    fn aged(&self, fragment: Bytes) -> Result<f64, ExperimentsError> {
        let ageing = Ageing::new(&self.map, SEED, fragment)?;
        let mut requests = Vec::new();
        self.starts.requests.iter().for_each(|request| ageing.requests(request, &mut requests));
        let starts = Loaded { requests, queue_events: self.starts.queue_events, compact: false };
        Ok(served(&starts, Plan::new("hdd-only").hdd(HDD))?.seconds)
    }

    fn times(&self) -> Result<Times, ExperimentsError> {
        let files = extents(&self.map);
        let size = Self::ssd_size(&files);
        let [small, medium, large] = FRAGMENTS;
        Ok(Times {
            hdd: served(&self.starts, Plan::new("hdd-only").hdd(HDD))?,
            ssd: served(&self.starts, Plan::new("ssd-only").ssd(SSD))?,
            plain: served(&self.starts, combo("none", size, &files))?,
            optimized: served(&self.starts, combo("type", size, &files))?,
            aged: [self.aged(small)?, self.aged(medium)?, self.aged(large)?],
        })
    }

    /// Returns a figure of the times with each share of the think time.
    fn each(&self, parts: [f64; 3], figure: impl Fn(f64) -> f64) -> [Option<f64>; 3] {
        parts.map(|part| Some(figure(self.think * part)))
    }
}

/// Mean lengths of the fragments of aged files, and the seed of their places.
const FRAGMENTS: [Bytes; 3] = [Bytes::from_kib(16), Bytes::from_kib(64), Bytes::from_kib(256)];
const SEED: u64 = 1;
/// Usual size of a cluster of NTFS: the shortest fragments that a file can have.
const CLUSTER: Bytes = Bytes::from_kib(4);

/// Shares of the think time of an office program that was recorded on a busy machine.
const BUSY: [f64; 3] = [0.1, 0.3, 1.0];
/// Shares of the think time of a system that was recorded on an emulated processor.
const EMULATED: [f64; 3] = [0.01, 0.03, 0.1];

fn of_all(times: &Times, think: f64, parts: [f64; 3]) -> String {
    let Times { hdd, ssd, plain, optimized, aged } = times;
    let [small, medium, large] = aged;
    format!(
        "with {}, {}, {} of the {think:.0} s of think time; requests take {:.1} s on the disk, {:.1} s on SSD1, {:.1} s on \
         the Combo Drive, {:.1} s optimized, and {small:.1}, {medium:.1}, {large:.1} s on the disk in fragments of 16, 64, \
         256 KiB; the SSD serves {} of the blocks read, optimized {}",
        percent(Some(parts[0])),
        percent(Some(parts[1])),
        percent(Some(parts[2])),
        hdd.seconds,
        ssd.seconds,
        plain.seconds,
        optimized.seconds,
        percent(plain.from_ssd),
        percent(optimized.from_ssd)
    )
}

/// Returns a figure for each length of the fragments with each share of the think time.
fn each_age(recorded: &Recorded, times: &Times, parts: [f64; 3], figure: impl Fn(f64, f64) -> f64) -> Vec<Option<f64>> {
    times.aged.iter().flat_map(|aged| recorded.each(parts, |think| figure(*aged, think))).collect()
}

/// Measures Combo Drive's figure 8 with an office program.
fn office(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let recorded = Recorded::of(traces, "office-start", Bytes::from_gib(2), MARK)?;
    let times = recorded.times()?;
    let each = of_all(&times, recorded.think, BUSY);
    let Times { hdd, ssd, optimized, .. } = &times;
    let slower = recorded.each(BUSY, |think| (hdd.seconds + think) / (ssd.seconds + think));
    decide(values, "combo-office-hdd", &slower, &each, Vec::new())?;
    let removed = (hdd.seconds - optimized.seconds) / (hdd.seconds - ssd.seconds);
    values.explain("combo-office-optimized", Some(removed), Vec::new(), each.clone())?;
    let aged = each_age(&recorded, &times, BUSY, |aged, think| (aged + think) / (ssd.seconds + think));
    decide(values, "combo-start-aged", &aged, &format!("for each length of fragments {each}"), Vec::new())
}

/// Size of a mark of `boot`: a system that starts reads the last 4 KiB itself.
const BOOT_MARK: Bytes = Bytes::from_kib(6);

/// Measures Combo Drive's figure 7 with the start of a system.
fn boot(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let recorded = Recorded::of(traces, "boot", Bytes::from_gib(4), BOOT_MARK)?;
    let times = recorded.times()?;
    let each = of_all(&times, recorded.think, EMULATED);
    let Times { hdd, ssd, plain, optimized, .. } = &times;
    let slower = |think: f64| (hdd.seconds + think) / (ssd.seconds + think);
    let all = vec![tried("with all of the emulated processor's think time", Some(slower(recorded.think)))];
    decide(values, "combo-boot-hdd", &recorded.each(EMULATED, slower), &each, all)?;
    let shorter = |plain: &Started, optimized: &Started| {
        recorded.each(EMULATED, |think| (optimized.seconds + think) / (plain.seconds + think) - 1.0)
    };
    let [plain_behind, optimized_behind] = recorded.behind_the_ssd()?;
    let moved = format!(
        "with all files moved behind the SSD's addresses, where the SSD serves {} of the blocks read, optimized {}",
        percent(plain_behind.from_ssd),
        percent(optimized_behind.from_ssd)
    );
    let files = extents(&recorded.map);
    let size = Recorded::ssd_size(&files);
    let by_list = served_by_list(&recorded.starts, files, size)?;
    let changes =
        vec![tried(moved, shorter(&plain_behind, &optimized_behind)[1]), tried(LISTED, shorter(plain, &by_list)[1])];
    decide(values, "combo-boot-optimizer", &shorter(plain, optimized), &each, changes)?;
    let slower = |aged: f64, think: f64| (aged + think) / (hdd.seconds + think);
    let scattered = recorded.aged(CLUSTER)?;
    let scattered = recorded.each(EMULATED, |think| slower(scattered, think))[1];
    let scattered = vec![tried("in fragments of 4 KiB, the clusters of NTFS, with 3 % of the think time", scattered)];
    let aged = each_age(&recorded, &times, EMULATED, slower);
    decide(values, "combo-boot-aged", &aged, &format!("for each length of fragments {each}"), scattered)
}

/// Returns the time in which no request was under way.
fn think(requests: &[Request]) -> Nanoseconds {
    let mut busy_until = requests.first().map(|request| request.arrival).unwrap_or_default();
    requests.iter().fold(Nanoseconds::ZERO, |sum, request| {
        let gap = request.arrival.saturating_sub(busy_until);
        busy_until = busy_until.max(request.arrival + request.response.unwrap_or_default());
        sum + gap
    })
}

/// Returns the requests of the starts, and the time in which none of them was under way.
fn cut(requests: &[Request]) -> (Vec<Request>, Nanoseconds) {
    let (mut segments, mut busy_until): (Vec<(Vec<Request>, Nanoseconds)>, _) = (Vec::new(), Nanoseconds::ZERO);
    for request in requests {
        let gap = request.arrival.saturating_sub(busy_until);
        match segments.last_mut().filter(|_| gap <= PAUSE) {
            Some((segment, think)) => {
                segment.push(*request);
                *think += gap;
            }
            None => segments.push((vec![*request], Nanoseconds::ZERO)),
        }
        busy_until = busy_until.max(request.arrival + request.response.unwrap_or_default());
    }
    // Between the starts are films, and the file system's own work.
    segments.sort_by_key(|(segment, _)| std::cmp::Reverse(segment.len()));
    segments.truncate(STARTS);
    segments.sort_by_key(|(segment, _)| segment.first().map(|request| request.arrival));
    let think = segments.iter().map(|(_, think)| *think).fold(Nanoseconds::ZERO, |sum, think| sum + think);
    (segments.into_iter().flat_map(|(segment, _)| segment).collect(), think)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Regression: the first recording had marks of 4 KiB. But a system that starts looks for a
    /// superblock in the last 4 KiB of its disk, so pieces of starts were taken for starts.
    #[test]
    fn each_start_of_the_system_reads_the_whole_kernel() {
        let traces = Traces::default();
        let pieces = traces.pieces("boot", Bytes::from_gib(4), BOOT_MARK).unwrap();
        let files = extents(&traces.file_map("boot").unwrap());
        let kernel: Vec<_> = files.iter().filter(|file| file.path.contains("/vmlinuz-")).collect();
        assert!(!kernel.is_empty());
        let sectors = |range: bimetal_core::units::SectorRange| range.start.0..range.end().0;
        let of_kernel: HashSet<u64> = kernel.iter().flat_map(|file| sectors(file.sectors)).collect();
        let reads_kernel = |piece: &Loaded| {
            let reads = piece.requests.iter().filter(|request| request.kind == OpKind::Read);
            let read: HashSet<u64> = reads.flat_map(|request| sectors(request.range)).collect();
            // The loader leaves out what is behind the kernel in its last block.
            of_kernel.difference(&read).count() < 8
        };
        let found: Vec<bool> = pieces.iter().map(reads_kernel).collect();
        assert_eq!(found, [false, true, false, true, false]);
        let recorded = Recorded::of(&traces, "boot", Bytes::from_gib(4), BOOT_MARK).unwrap();
        assert_eq!(recorded.starts.requests.len(), pieces[1].requests.len() + pieces[3].requests.len());
    }

    /// Regression: writes outside of files were left out, too, and the row spoke of reads.
    #[test]
    fn reads_outside_of_files_are_left_out_and_writes_stay() {
        let request = |(kind, start)| {
            let range = SectorRange::new(start, 8);
            Request { arrival: Nanoseconds::ZERO, device: 0, kind, fua: false, range, response: None }
        };
        let all = [(OpKind::Read, 0), (OpKind::Read, 64), (OpKind::Write, 64)];
        let files = [FileExtent { path: "program".to_owned(), sectors: SectorRange::new(0, 8), listed: None }];
        let left = in_files(&Loaded::generated(all.map(request).into()), &files).requests;
        let left: Vec<_> = left.iter().map(|request| (request.kind, request.range.start.0)).collect();
        assert_eq!(left, [(OpKind::Read, 0), (OpKind::Write, 64)]);
    }

    /// The recording script starts the program three times, and watches twenty pieces of a film
    /// after each start. Regression: every second piece of the trace was taken for a start. But the
    /// file system's own requests make further pieces, so pieces of films were taken for starts.
    #[test]
    fn starts_are_cut_out_without_the_films() {
        let traces = Traces::default();
        let trace = traces.shipped("program-start").unwrap();
        let (starts, think) = cut(&trace.requests);
        let left = trace.requests.len() - starts.len();
        assert!((60..100).contains(&left), "{left} requests belong to films and file system");
        assert!(think > Nanoseconds(1_000_000_000) && think < Nanoseconds(60_000_000_000), "{think:?}");
        let files = extents(&traces.file_map("program-start").unwrap());
        let films: Vec<_> = files.iter().filter(|file| file.path.ends_with(".mp4")).collect();
        let in_film = |request: &&Request| {
            let of = |range: bimetal_core::units::SectorRange| (range.start.0, range.end().0);
            let (start, end) = of(request.range);
            films.iter().any(|film| start < of(film.sectors).1 && of(film.sectors).0 < end)
        };
        assert!(films.len() >= 6 && trace.requests.iter().any(|request| in_film(&request)));
        // The map of files counts a few blocks as film that each start reads, 4 to 16 KiB at a
        // time.
        let large = |request: &&Request| in_film(request) && request.range.len.0 > 32;
        assert_eq!(starts.iter().filter(large).count(), 0);
        assert!(trace.requests.iter().filter(large).count() > 10);
    }
}
