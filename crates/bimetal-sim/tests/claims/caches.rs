//! Lee, Cho, Kim, Won: *Performance Analysis of SSD/HDD Hybrid Storage Manager*, Smart Response
//! (section III D).

use bimetal_core::units::Bytes;

use crate::common::{Bench, bypassed, count, falls, read, scattered, some, write};

const SSD: Bytes = Bytes::from_mib(16);

/// "Performance difference between write-thru and write-back cache is clear, especially when the
/// main disk is slower".
#[test]
fn write_back_is_clearly_faster_than_write_through() {
    let writes = (0..500).map(|at| write(50 * at, scattered(at, 2000), 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("smart-response", &[("hdd.write_cache", "off")], writes.collect()).ssd(SSD);
    let figures = bench.sweep("mode", &["enhanced", "maximized"], |run| some(run.response_time_ms.write.mean));
    assert!(figures[1] < 0.2 * figures[0], "{figures:?} ms");
}

/// "Synchronize the data to HDD at system idle time".
#[test]
fn maximized_mode_synchronises_at_system_idle_time() {
    let writes = (0..100).map(|at| write(500 * at, at * 8, 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("smart-response", &[("mode", "maximized")], writes.collect()).ssd(SSD);
    let figures = bench.sweep("idle", &["100ms", "1s"], |run| count(run.devices.hdd.write_bytes));
    assert!(figures[0] > 90.0 * 4096.0 && figures[1] == 0.0, "{figures:?}");
}

/// "Distinguishes one-time accessed sequential data stream from application, user, and boot data".
#[test]
fn one_time_sequential_streams_are_told_apart_from_a_size_on() {
    let stream = (0..200).map(|at| read(20 * at, 4000 + at * 4, 4));
    let others = (0..200).map(|at| read(20 * at + 10, scattered(at, 500) * 2, 1));
    let bench = Bench::new("smart-response", &[], stream.chain(others).collect()).ssd(SSD);
    let passed = |run: &bimetal_sim::results::Run| bypassed(run, "sequential") as f64;
    let figures = bench.sweep("stream_bypass", &["64KiB", "512KiB", "2MiB", "off"], passed);
    assert!(falls(&figures) && figures[0] >= 780.0 && figures[3] == 0.0, "{figures:?} of 800 blocks");
}
