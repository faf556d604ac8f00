//! Lee, Cho, Kim, Won: *Performance Analysis of SSD/HDD Hybrid Storage Manager*, HyperDuo and
//! HDDBoost (III B and C).

use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;

use crate::common::{Bench, count, read, rises, scattered, some, write};

const SSD: Bytes = Bytes::from_mib(8);
/// A block far beyond the addresses that an SSD of this size mirrors, at the start of a range of
/// any size.
const FAR: u64 = 8192;
/// The block at 64 MiB: the first of the last MiB. A read of this block extends the address space
/// up to it.
const END: u64 = 16_384;

fn hits(run: &Run) -> f64 {
    some(run.ssd_hit_ratio.read)
}

/// "Safe mode duplicates first few GBytes of the HDD to SSD": reads of these addresses are served
/// by the SSD.
#[test]
fn mirrored_first_addresses_are_read_from_the_ssd() {
    let reads = (0..1000).map(|at| read(100 + 20 * at, scattered(at, 2048), 1)).chain([read(0, END, 1)]);
    let bench = Bench::new("hyperduo", &[("period", "1d")], reads.collect()).ssd(SSD);
    let figures = bench.sweep("mirrored", &["off", "0.25", "0.5", "0.9"], hits);
    assert!(figures[0] == 0.0 && rises(&figures) && figures[3] > 0.7, "{figures:?}");
}

/// "Safe mode or mirror mode using RAID 1 scheme, and second mode is capacity mode".
#[test]
fn safe_mode_writes_both_drives_and_capacity_mode_one() {
    let writes = (0..200).map(|at| write(20 * at, scattered(at, 512), 1)).chain([read(0, END, 1)]);
    let bench = Bench::new("hyperduo", &[("period", "1d")], writes.collect()).ssd(SSD);
    let [safe, capacity] = ["safe", "capacity"].map(|mode| bench.run(&[("mode", mode)]));
    let written = |run: &Run| (count(run.devices.ssd.writes) >= 200.0, count(run.devices.hdd.writes) >= 200.0);
    assert_eq!([written(&safe), written(&capacity)], [(true, true), (true, false)]);
    assert!(capacity.exported_bytes > safe.exported_bytes);
}

/// "MRU data structure periodically identifies hot and cold LBA ranges and pin the hot to SSD".
#[test]
fn a_hot_range_is_pinned_whole() {
    let hot = (0..40).map(|at| read(100 * at, FAR, 1));
    let probes = [8, 24, 56, 120].into_iter().zip(0..).map(|(away, at)| read(8000 + 100 * at, FAR + away, 1));
    let workload = hot.chain(probes).chain([read(0, END, 1)]).collect();
    let bench = Bench::new("hyperduo", &[("period", "5s")], workload).ssd(SSD).last(4);
    let figures = bench.sweep("range", &["64KiB", "128KiB", "256KiB", "512KiB"], hits);
    assert!(rises(&figures) && figures[3] == 1.0, "{figures:?}");
}

/// "Periodically identifies hot and cold LBA ranges".
#[test]
fn hot_and_cold_are_told_apart_once_in_a_period() {
    let hot = (0..100).map(|at| read(200 * at, FAR, 1)).chain([read(0, END, 1)]);
    let bench = Bench::new("hyperduo", &[("range", "64KiB"), ("idle", "50ms")], hot.collect()).ssd(SSD);
    let figures = bench.sweep("period", &["30s", "10s", "2s"], hits);
    assert!(figures[0] == 0.0 && rises(&figures), "{figures:?}");
}

/// The idle time is a parameter of this project: copies are made in the background, when the disk
/// is not used.
#[test]
fn hot_ranges_are_copied_only_when_the_disk_is_idle() {
    let hot = (0..40).map(|at| read(100 * at, FAR, 1));
    // From before the end of the period on, the disk is used every 200 ms, each time elsewhere.
    // Then the rest of the hot range is read.
    let cold = (0..30).map(|at| read(4000 + 200 * at, FAR + 64 + 64 * at, 1));
    let probes = (1..9).map(|at| read(9900 + 10 * at, FAR + at, 1));
    let workload = hot.chain(cold).chain(probes).chain([read(0, END, 1)]).collect();
    let bench = Bench::new("hyperduo", &[("range", "64KiB"), ("period", "5s")], workload).ssd(SSD).last(8);
    let figures = bench.sweep("idle", &["1s", "50ms"], hits);
    assert_eq!(figures, [0.0, 1.0]);
}

/// "It mirrors the data back to SSD": until then, written blocks are read from the disk.
#[test]
fn what_was_written_is_mirrored_back_when_the_disk_is_idle() {
    let rounds = (0..50).flat_map(|at| [write(2000 * at, at * 8, 1), read(2000 * at + 1000, at * 8, 1)]);
    let bench = Bench::new("hddboost", &[], rounds.chain([read(1, END, 1)]).collect()).ssd(SSD);
    let figures = bench.sweep("idle", &["5s", "100ms"], hits);
    assert!(figures[0] < 0.1 && figures[1] > 0.9, "{figures:?}");
    // "There are no write operations to the SSD from the host": only the map is written there.
    let without_mirroring = bench.run(&[("idle", "1d")]);
    assert!(count(without_mirroring.devices.ssd.writes) < 5.0, "{:?}", without_mirroring.devices.ssd.writes);
}
