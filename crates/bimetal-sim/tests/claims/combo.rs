//! Payer, Sanvido, Bandic, Kirsch: *Combo Drive: Optimizing Cost and Performance in a Heterogeneous
//! Storage Device*, 3.1.

use std::io::BufReader;
use std::path::PathBuf;

use bimetal_core::scheme::FileExtent;
use bimetal_core::schemes;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange};
use bimetal_sim::experiment::{Experiment, NoProgress};
use bimetal_sim::setup::{Choices, DriveChoice, Size};
use bimetal_sim::simulator::Replay;
use bimetal_trace::analysis::FileMap;
use bimetal_trace::{OpenOptions, Request, Trace};

use crate::common::{Bench, disk_reads, read, rises};

const ONCE: (&str, &str) = ("repeat", "off");
const RANGE: (&str, &str) = ("range", "64KiB");
/// Number of blocks in a range.
const BLOCKS: u64 = 16;

/// Returns the first block of the `n`th of eight ranges, which lie far out on the disk.
fn far(n: u64) -> u64 {
    (512 + n * 32) * BLOCKS
}

/// Size of the SSD, which has the lowest addresses.
const SSD: Bytes = Bytes::from_kib(6560);

/// Adds a read of the block at 64 MiB, so that the volume has this address.
fn with_end(mut requests: Vec<Request>) -> Vec<Request> {
    requests.push(read(0, 16_383, 1));
    requests
}

/// Returns accesses to eight ranges, `n` accesses to the `n`th. After a period, each range is read
/// once more.
fn unequally_used() -> Vec<Request> {
    let used = (1..=8).flat_map(|n| (0..n).map(move |at| read(100 * n + 10 * at, far(n - 1) + at, 1)));
    let probes = (0..8).map(|n| read(30_000 + 100 * n, far(n), 1));
    with_end(used.chain(probes).collect())
}

/// "STRATEGY 3. Move the most frequently used files to the SSD and move all other files to the HDD"
/// (3.1.2).
#[test]
fn the_more_often_a_range_has_to_be_used_the_fewer_move() {
    let settings = [RANGE, ONCE, ("strategy", "frequency"), ("period", "10s")];
    let bench = Bench::new("combo", &settings, unequally_used()).ssd(SSD).last(8);
    let figures = bench.sweep("frequent", &["1", "3", "5", "9"], disk_reads);
    assert_eq!(figures, [0.0, 2.0, 4.0, 8.0], "ranges that were not used so often stay on the disk");
}

/// "STRATEGY 2. Move files that are randomly accessed to the SSD, move files that are contiguously
/// accessed to the HDD, and move files that are both randomly and contiguously accessed to the HDD"
/// (3.1.2).
#[test]
fn the_less_random_a_range_has_to_be_the_more_ranges_move() {
    // Of the eight accesses to the nth range, the first n + 1 are contiguous; the rest are not.
    let accesses = (0..8).flat_map(|n| {
        (0..8).map(move |at| {
            let block = if at <= n { at } else { BLOCKS - 1 - (at - n) };
            read(1000 * n + 100 * at, far(n) + block, 1)
        })
    });
    let probes = (0..8).map(|n| read(30_000 + 100 * n, far(n), 1));
    let settings = [RANGE, ONCE, ("strategy", "access"), ("period", "10s")];
    let bench = Bench::new("combo", &settings, with_end(accesses.chain(probes).collect())).ssd(SSD).last(8);
    let figures = bench.sweep("random", &["0.1", "0.3", "0.6", "0.9"], disk_reads);
    assert!(rises(&figures) && figures[0] == 0.0 && figures[3] == 7.0, "{figures:?}");
}

/// "Again, we run the Process Monitor Tool periodically and, after each period, apply the
/// optimizer" (3.1.2).
#[test]
fn the_optimizer_is_applied_after_each_period() {
    let settings = [RANGE, ("strategy", "frequency"), ("frequent", "1")];
    let bench = Bench::new("combo", &settings, unequally_used()).ssd(SSD).last(8);
    let figures = bench.sweep("period", &["10s", "20s", "60s"], disk_reads);
    assert_eq!(figures, [0.0, 0.0, 8.0], "before the first period has ended nothing moves");
}

/// "Moving virtual clusters (VC) of files [...] to other free logical clusters (LC)" (3.1). The
/// scheme moves all blocks of a range together.
#[test]
fn what_lies_in_a_range_with_it_moves_with_it() {
    let hot = (0..8).map(|at| read(100 * at, far(0), 1));
    // The probes read neighbours that are 8, 24, 56 and 120 blocks away.
    let probes = [8, 24, 56, 120].into_iter().zip(0..).map(|(away, at)| read(30_000 + 100 * at, far(0) + away, 1));
    let settings = [ONCE, ("strategy", "frequency"), ("period", "10s")];
    let bench = Bench::new("combo", &settings, with_end(hot.chain(probes).collect())).last(4);
    let figures = bench.sweep("range", &["64KiB", "128KiB", "256KiB", "512KiB"], disk_reads);
    assert_eq!(figures, [3.0, 2.0, 1.0, 0.0]);
}

/// The idle time is a parameter of this project. The paper's optimizer is started by hand, while no
/// program uses the drive.
#[test]
fn ranges_move_only_when_the_disk_is_idle() {
    // The disk is used every 200 ms throughout.
    let used = (0..200).map(|at| read(200 * at, far(at % 4), 1));
    let settings = [RANGE, ONCE, ("strategy", "frequency"), ("period", "10s")];
    let bench = Bench::new("combo", &settings, with_end(used.collect())).ssd(SSD).last(20);
    let figures = bench.sweep("idle", &["50ms", "1s"], disk_reads);
    assert_eq!(figures, [0.0, 20.0]);
}

/// Returns the trace of a program's cold starts on ext4, and the map of its files.
fn program_start() -> (Vec<Request>, Vec<FileExtent>) {
    let path = |name: &str| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces")).join(name);
    let trace = Trace::open(path("program-start.bin.zst"), &OpenOptions::default()).expect("the trace opens");
    let requests: Vec<Request> = trace.map(|request| request.expect("the trace is whole")).collect();
    let map = std::fs::File::open(path("program-start.files.csv.zst")).expect("the map opens");
    let map = FileMap::read("program-start.files.csv.zst", BufReader::new(map)).expect("the map is whole");
    let extent = |start: u64, end: u64, path: &str| FileExtent {
        path: path.into(),
        sectors: SectorRange::new(start / SECTOR_BYTES, (end - start) / SECTOR_BYTES),
        listed: None,
    };
    let files = map.extents().map(|(start, end, path)| extent(start, end, path));
    (requests, files.chain(map.free().map(|(start, end)| extent(start, end, ""))).collect())
}

/// Combo Drive's SSD1, its MiB, and its disk.
const COMBO_DRIVES: (&str, u64, &str) = ("combo-ssd1-32gb", 256, "hitachi-travelstar-5k500-500gb");

/// Returns the mean response time of reads, in ms, over the last third of three rounds of a trace.
/// The drives are the paper's SSD1 and HDD.
fn last_round(
    round: &[Request],
    files: &[FileExtent],
    (ssd, ssd_mib, hdd): (&str, u64, &str),
    scheme: &str,
    settings: &[(&str, &str)],
) -> f64 {
    let span = round.last().expect("requests").arrival + Nanoseconds::from_seconds(25);
    let rounds = (0..3).flat_map(|n| {
        round.iter().map(move |request| Request { arrival: request.arrival + Nanoseconds(n * span.0), ..*request })
    });
    let workload: Vec<Request> = rounds.collect();
    let drive = |profile: &str, size| DriveChoice { profile: Some(profile.to_owned()), size };
    let size = (scheme != "ssd-only").then_some(Size::Bytes(Bytes::from_mib(ssd_mib)));
    let choices = Choices {
        ssd: drive(ssd, size),
        hdd: drive(hdd, None),
        settings: settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
        files: files.to_vec(),
        ..Choices::default()
    };
    let (schemes, trees) = (vec![schemes::find(scheme).expect("a scheme").into()], Vec::new());
    let (replay, warmup) = (Replay::Timed { speedup: 1.0 }, 0.67);
    let experiment = Experiment { workload: &workload, schemes, trees, choices, replay, warmup, keep: None };
    let document = experiment.run(&NoProgress, |_, summary| summary).unwrap_or_else(|error| panic!("{error}"));
    document.runs[0].response_time_ms.read.mean.expect("there are reads")
}

/// Regression: with the strategies `type` and `access`, a combo was five and eight times as slow as
/// without an optimizer. Metadata, which lies low and belongs to no file, left the SSD first.
#[test]
fn strategies_by_files_are_better_than_no_optimizer() {
    let (round, files) = program_start();
    let mean = |scheme: &str, settings: &[(&str, &str)]| last_round(&round, &files, COMBO_DRIVES, scheme, settings);
    let (ssd, none) = (mean("ssd-only", &[]), mean("combo", &[]));
    let by_type = mean("combo", &[("strategy", "type")]);
    let access = mean("combo", &[("strategy", "access"), ("period", "90s")]);
    let frequency = mean("combo", &[("strategy", "frequency"), ("period", "90s"), ONCE]);
    eprintln!("ssd {ssd:.2} none {none:.2} type {by_type:.2} access {access:.2} frequency {frequency:.2} ms");
    assert!(by_type < 0.9 * none && access < 0.9 * none, "none {none}, type {by_type}, access {access}");
    assert!(frequency < 1.1 * ssd, "the SSD alone {ssd}, frequency {frequency}");
}

/// Smart Response with a map of files, on the drives of its paper. With room for the program, its
/// streams are read faster from the SSD. With less room, user data is evicted first.
#[test]
fn data_classes_keep_a_program_in_the_cache() {
    let (round, files) = program_start();
    let mean = |mib, files: &[FileExtent], classes| {
        let drives = ("ocz-solid-3-60gb", mib, "wd-caviar-blue-wd10ealx-1tb");
        last_round(&round, files, drives, "smart-response", &[("classes", classes)])
    };
    assert_eq!(mean(64, &[], "priority"), mean(64, &files, "off"), "without a map nothing changes");
    let [off, streams, priority] = ["off", "streams", "priority"].map(|classes| mean(64, &files, classes));
    assert!(priority < 0.9 * off && streams < 0.9 * off, "off {off}, streams {streams}, priority {priority} ms");
    let [streams, priority] = ["streams", "priority"].map(|classes| mean(48, &files, classes));
    assert!(priority < 0.6 * streams, "streams {streams}, priority {priority} ms");
}
