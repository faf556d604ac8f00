//! dm-cache's smq, bcache and dm-writeboost: the effects of parameters that their documentation
//! states.

use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;
use bimetal_trace::Request;

use crate::common::{Bench, bypassed, count, disk_reads, falls, read, scattered, write};

const SSD: Bytes = Bytes::from_mib(8);

fn sent_home(run: &Run) -> f64 {
    count(run.devices.hdd.write_bytes)
}

/// Returns writes over 4 MiB, two a second, for 100 s. A read of the disk at 64 MiB comes first.
fn writes() -> Vec<Request> {
    (0..200).map(|at| write(500 * at, scattered(at, 1000), 1)).chain([read(0, 16_383, 1)]).collect()
}

/// dm-cache-target.c: "migrations are only done when the origin is idle", for a second.
#[test]
fn dirty_blocks_of_smq_go_home_when_the_disk_is_idle() {
    let figures = Bench::new("smq", &[], writes()).ssd(SSD).sweep("idle", &["100ms", "1d"], sent_home);
    assert!(figures[0] > 100.0 * 4096.0 && figures[0] > 2.0 * figures[1], "{figures:?}");
}

/// bcache.rst: "the cache is divided up into buckets". A bucket is evicted whole.
#[test]
fn larger_buckets_are_given_up_with_more_in_them() {
    // The working set just fits. Between its reads, other blocks are read once, and take their room
    // in whole buckets.
    let hot = (0..4000).map(|at| read(20 * at, scattered(at, 1200), 1));
    let once = (0..2000).map(|at| read(40 * at + 10, 4000 + at * 2, 1));
    let bench = Bench::new("bcache", &[], hot.chain(once).chain([read(0, 16_383, 1)]).collect()).ssd(SSD);
    let figures = bench.sweep("bucket_size", &["1MiB", "64KiB"], disk_reads);
    assert!(falls(&figures), "{figures:?}");
}

/// bcache.rst, sequential_cutoff: "A sequential IO will bypass the cache once it passes this
/// threshold".
#[test]
fn streams_pass_bcache_by_from_the_cutoff_on() {
    let stream = (0..200).map(|at| read(20 * at, 4000 + at * 4, 4)).chain([read(4010, 16_383, 1)]);
    let bench = Bench::new("bcache", &[], stream.collect()).ssd(SSD);
    let figures =
        bench.sweep("sequential_cutoff", &["64KiB", "512KiB", "2MiB", "off"], |run| bypassed(run, "sequential") as f64);
    assert!(falls(&figures) && figures[3] == 0.0, "{figures:?} of 800 blocks");
}

/// bcache.rst, writeback_delay: "When dirty data is written to the cache and it previously did not
/// contain any, waits some number of seconds before initiating writeback".
#[test]
fn nothing_goes_home_before_the_delay() {
    let bench = Bench::new("bcache", &[("writeback_percent", "0")], writes()).ssd(SSD);
    let figures = bench.sweep("writeback_delay", &["5s", "60s", "1d"], sent_home);
    assert!(falls(&figures) && figures[2] == 0.0, "{figures:?}");
}

/// dm-writeboost: "random writes are converted to sequential writes of a log", in segments.
#[test]
fn a_larger_buffer_makes_fewer_and_longer_writes_of_the_log() {
    let burst = (0..2000).map(|at| write(at, scattered(at, 4000), 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("writeboost", &[("idle", "off")], burst.collect()).ssd(Bytes::from_mib(32));
    let figures = bench.sweep("log_buffer", &["0B", "32KiB", "508KiB"], |run| count(run.devices.ssd.writes));
    assert!(falls(&figures) && figures[2] < 0.1 * figures[0], "{figures:?}");
}

/// Writing back on idle is a parameter of this project: no request waits for the disk then.
#[test]
fn what_is_logged_goes_home_when_the_disk_is_idle() {
    let bench = Bench::new("writeboost", &[("log_buffer", "0B")], writes()).ssd(SSD);
    let figures = bench.sweep("idle", &["100ms", "off"], sent_home);
    assert!(figures[0] > 100.0 * 4096.0 && figures[1] == 0.0, "{figures:?}");
}

/// dm-writeboost, writeback_threshold: "writeback starts when the rate of the used caching device
/// exceeds" it.
#[test]
fn a_lower_threshold_sends_home_earlier() {
    let bench = Bench::new("writeboost", &[("idle", "off"), ("log_buffer", "0B")], writes()).ssd(SSD);
    let figures = bench.sweep("writeback_threshold", &["0.02", "0.05", "off"], sent_home);
    assert!(falls(&figures) && figures[2] == 0.0, "{figures:?}");
}
