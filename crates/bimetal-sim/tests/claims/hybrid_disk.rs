//! *Design and simulation of hybrid hard disks*, 3.2 and 3.3: flash inside the disk
//! (`hybrid-disk`), and flash and disk both visible (`os-managed`).

use std::collections::BTreeSet;

use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;
use bimetal_trace::Request;

use crate::common::{Bench, count, falls, read, rises, scattered, some, write};

const FLASH: Bytes = Bytes::from_mib(2);

fn flash_writes(run: &Run) -> f64 {
    count(run.devices.ssd.write_bytes)
}

fn migrations(run: &Run) -> f64 {
    count(run.migration.count)
}

/// Returns small writes, ten a second, over four times the size of the flash.
fn small_writes(seconds: u64) -> Vec<Request> {
    (0..10 * seconds).map(|at| write(100 * at, scattered(at, 2048), 1)).chain([read(0, 16_383, 1)]).collect()
}

/// "Write requests of size below a predefined threshold are treated as small writes and are
/// directed to the flash. Whereas, writes above the threshold are directly written to disk" (3.3).
#[test]
fn writes_below_the_threshold_go_to_flash() {
    // Two writes of each size, from 4 to 512 KiB.
    let writes = (0..16).map(|at| write(100 * at, 256 * at, 1 << (at % 8))).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("hybrid-disk", &[], writes.collect()).ssd(Bytes::from_mib(16));
    let large = |run: &Run| run.bypass.get("large").copied().unwrap_or(0) as f64;
    let figures = bench.sweep("write_threshold", &["8KiB", "64KiB", "512KiB", "off"], large);
    assert_eq!(figures, [508.0, 480.0, 256.0, 0.0], "blocks of requests at least as large");
}

/// "A complete cache cleanup delays the next cleanup operation as much as possible"; flushing "just
/// the required number of pages [...] eliminates the time consuming full flush operation" (3.3).
#[test]
fn full_flush_delays_the_next_and_partial_flush_waits_less() {
    let bench = Bench::new("hybrid-disk", &[], small_writes(200)).ssd(FLASH);
    let [full, partial] = ["full", "partial"].map(|flush| bench.run(&[("flush", flush)]));
    assert!(migrations(&full) * 10.0 < migrations(&partial), "{} {}", migrations(&full), migrations(&partial));
    let longest = |run: &Run| some(run.response_time_ms.write.max);
    assert!(longest(&full) > 3.0 * longest(&partial), "{} {} ms", longest(&full), longest(&partial));
}

/// "Other dirty pages can be flushed to disk periodically when the disk is idle" (3.3).
#[test]
fn an_idle_flush_waits_until_the_disk_is_idle() {
    let writes = (0..100).map(|at| write(500 * at, scattered(at, 400), 1));
    let reads = (0..250).map(|at| read(200 * at + 50, 8000 + scattered(at, 8000), 1));
    let bench = Bench::new("hybrid-disk", &[("flush", "idle")], writes.chain(reads).collect()).ssd(FLASH);
    let figures = bench.sweep("idle", &["50ms", "1s"], |run| count(run.devices.hdd.writes));
    assert!(figures[0] > 50.0 && figures[1] == 0.0, "{figures:?}");
}

/// "On a workload with small bursts of I/O activity and large idle times, it results in the disk
/// being spun up several times" (3.3). The period limits how often the disk spins up.
#[test]
fn the_shorter_the_period_the_more_often_the_disk_is_flushed_to() {
    let writes = (0..600).map(|at| write(100 * at, scattered(at, 100), 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("hybrid-disk", &[("flush", "periodic")], writes.collect()).ssd(FLASH);
    let figures = bench.sweep("period", &["2s", "10s", "40s"], |run| count(run.devices.hdd.write_bytes));
    assert!(falls(&figures), "{figures:?}");
}

/// "Initiating a cleanup when the amount of free space in the flash drops below a low watermark"
/// (3.3).
#[test]
fn a_higher_low_watermark_flushes_earlier() {
    let dirty = |run: &Run| {
        let series = run.series.dirty.as_ref().expect("a cache has dirty blocks");
        series.values.iter().copied().fold(0.0, f64::max)
    };
    let bench = Bench::new("hybrid-disk", &[("flush", "watermark")], small_writes(200)).ssd(FLASH);
    let figures = bench.sweep("low_watermark", &["0.1", "0.4", "0.8"], dirty);
    assert!(falls(&figures), "{figures:?} bytes on flash alone");
}

/// The thesis's figures 5.9 to 5.13 show different translation layers behind a hybrid disk: a page
/// on flash is written again at its place. With `in_place=off` each write takes another slot, and
/// no translation layer has anything to erase before all slots were used.
#[test]
fn hot_pages_in_place_show_the_translation_layer() {
    let writes = (0..64 * 40).map(|at| write(20 * at, 4 * scattered(at, 64), 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("hybrid-disk", &[], writes.collect()).profile("sandisk-usb-1gb").ssd(Bytes::from_mib(256));
    let erases = |in_place: &'static str| {
        ["anand", "fmax", "log-block", "page-in-place"].map(|ftl| {
            let run = bench.run(&[("in_place", in_place), ("ssd.ftl", ftl)]);
            (count(run.devices.ssd.flash.erases) as u64, (some(run.response_time_ms.write.mean) * 1000.0) as u64)
        })
    };
    let shown: BTreeSet<(u64, u64)> = erases("on").into_iter().collect();
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert!(shown.iter().all(|&(erases, _)| erases > 500), "{shown:?}");
    let hidden: BTreeSet<(u64, u64)> = erases("off").into_iter().collect();
    assert_eq!(hidden.iter().map(|&(erases, _)| erases).collect::<Vec<_>>(), [0], "one figure for all: {hidden:?}");
}

/// "A request flag to indicate that a page must be pinned to the flash" (3.5). The pins are lines
/// in a file beside the trace.
#[test]
fn pinned_pages_are_read_from_flash_while_their_pin_lasts() {
    let mut requests = small_writes(100);
    requests.extend((0..200).map(|at| read(500 * at + 50, 4096 + at % 16, 1)));
    let disk_reads = |pins: &[(u64, u64, u64, u8)]| {
        let bench = Bench::new("hybrid-disk", &[("flush", "partial")], requests.clone()).ssd(FLASH);
        count(bench.pinning(pins).run(&[]).devices.hdd.reads)
    };
    let pin = (0, 4096, 16, 1);
    let figures = [disk_reads(&[pin]), disk_reads(&[pin, (4_000, 4096, 16, 0)]), disk_reads(&[])];
    assert!(rises(&figures), "{figures:?} reads of the disk");
    assert!(figures[2] - figures[0] > 150.0, "{figures:?}: 16 pages are read once each, and 200 times");
}

/// The host offloads selected writes (3.2). The rule of section 3.3 selects the writes by size.
#[test]
fn the_host_offloads_writes_below_the_threshold() {
    let writes = (0..16).map(|at| write(100 * at, 256 * at, 1 << (at % 8))).chain([read(0, 16_383, 1)]);
    let settings = [("flush_period", "off")];
    let bench = Bench::new("os-managed", &settings, writes.collect()).ssd(Bytes::from_mib(16));
    let figures = bench.sweep("write_threshold", &["off", "8KiB", "64KiB", "512KiB"], flash_writes);
    assert!(rises(&figures), "{figures:?}");
}

/// Offloaded pages are "later flushed by the operating system" (3.2). The period between two
/// flushes is a parameter of this project.
#[test]
fn the_host_flushes_once_in_a_period() {
    let writes = (0..600).map(|at| write(100 * at, scattered(at, 100), 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("os-managed", &[], writes.collect()).ssd(Bytes::from_mib(16));
    let figures = bench.sweep("flush_period", &["2s", "10s", "40s", "off"], |run| count(run.devices.hdd.write_bytes));
    assert!(falls(&figures) && figures[3] == 0.0, "{figures:?}");
}
