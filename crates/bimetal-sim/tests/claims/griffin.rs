//! Soundararajan, Prabhakaran, Balakrishnan, Wobber: *Extending SSD Lifetimes with Disk-Based Write
//! Caches*, sections 5 to 7.

use bimetal_core::units::SectorRange;
use bimetal_sim::results::Run;
use bimetal_trace::Request;

use crate::common::{Bench, count, falls, read, rises, scattered, some, write};

/// Settings that turn all triggers of a migration off. A test turns on the trigger that it shows.
const QUIET: &[(&str, &str)] = &[("timeout", "off"), ("read_threshold", "off"), ("migration_size", "off")];

fn savings(run: &Run) -> f64 {
    some(run.write_savings)
}

fn penalty(run: &Run) -> f64 {
    some(run.read_penalty)
}

fn migrations(run: &Run) -> f64 {
    count(run.migration.count)
}

/// Returns twenty writes a second over two hundred blocks, and ten reads a second over four hundred
/// blocks. Half of the blocks read are never written.
fn overwriting(seconds: u64) -> Vec<Request> {
    let writes = (0..20 * seconds).map(|at| write(50 * at, scattered(at, 200), 1));
    let reads = (0..10 * seconds).map(|at| read(100 * at + 25, scattered(at + 1_000_000, 400), 1));
    writes.chain(reads).collect()
}

/// "We observe that logging for 15 minutes (900 s) gives most of the write savings"; "read penalty
/// is much lower than the no-migration upper bound" (6.1.2).
#[test]
fn a_longer_timeout_saves_more_writes_and_costs_more_reads() {
    let bench = Bench::new("griffin", QUIET, overwriting(400));
    let values = ["5s", "20s", "100s", "off"];
    let (saved, read) = (bench.sweep("timeout", &values, savings), bench.sweep("timeout", &values, penalty));
    assert!(rises(&saved) && rises(&read), "{saved:?} {read:?}");
    let interval = bench.run(&[("timeout", "20s")]).migration.mean_interval_s;
    assert!((some(interval) - 20.0).abs() < 0.1, "{interval:?}");
}

/// "The drawback of a smaller read-threshold is frequent migration" (6.1.2); it "allows the read
/// penalty [...] to be bounded" (5.2).
#[test]
fn smaller_read_threshold_bounds_the_read_penalty() {
    let bench = Bench::new("griffin", &[QUIET, &[("read_window", "10")]].concat(), overwriting(200));
    let values = ["0.05", "0.2", "0.4", "off"];
    let figures = |figure: fn(&Run) -> f64| bench.sweep("read_threshold", &values, figure);
    let (count, read, saved) = (figures(migrations), figures(penalty), figures(savings));
    assert!(falls(&count) && rises(&read) && rises(&saved), "{count:?} {read:?} {saved:?}");
}

/// "The read penalty should never be more than 5 %" (5.2). A file of 256 MiB is written, and read
/// back at once. A migration that takes its time first moves the blocks that are about to be read.
#[test]
fn read_threshold_bounds_the_penalty_of_a_file_read_back() {
    let writes = (0..2048).map(|at| write(5 * at, 32 * at, 32));
    let reads = (0..2048).map(|at| read(11_000 + 5 * at, 32 * at, 32));
    let bench = Bench::new("griffin", QUIET, writes.chain(reads).collect());
    let run = bench.run(&[("read_threshold", "0.05")]);
    assert!(penalty(&run) < 0.075 && migrations(&run) >= 1.0, "{} in {} migrations", penalty(&run), migrations(&run));
    assert!(penalty(&bench.run(&[])) > 0.99);
}

/// "Write performance improves because of the excellent sequential throughput of the write caches"
/// (6.4).
///
/// A file is written and read back, so that the log migrates. During the migration 256 MiB are
/// written, at three quarters of the disk's write rate. Regression: these writes waited 403 ms on
/// average when the migration read between these writes. The remaining wait comes from the
/// migration's turns and its flush.
#[test]
fn writes_do_not_wait_for_a_migration_that_reads_began() {
    let file = (0..2048).map(|at| write(3 * at, 32 * at, 32));
    let back = (0..64).map(|at| read(7000 + 5 * at, 32 * at, 32));
    let burst = (0..2048).map(|at| write(7300 + 3 * at / 2, 100_000 + 32 * at, 32));
    let bench = Bench::new("griffin", QUIET, file.chain(back).chain(burst).collect());
    let of_writes = |run: &Run| some(run.response_time_ms.write.mean);
    let (with, without) = (bench.run(&[("read_threshold", "0.05")]), bench.run(&[]));
    assert!(migrations(&with) >= 1.0 && migrations(&without) == 0.0);
    assert!(of_writes(&with) < 10.0 && of_writes(&without) < 0.1, "{} {} ms", of_writes(&with), of_writes(&without));
}

/// "If data is never read from the device, the measured read penalty will stay at zero and the data
/// will never be moved" (5.2).
#[test]
fn data_that_is_never_read_is_never_moved_by_the_read_threshold() {
    let writes = (0..2000).map(|at| write(10 * at, scattered(at, 200), 1)).collect();
    let run = Bench::new("griffin", QUIET, writes).run(&[("read_threshold", "0.01")]);
    assert_eq!(run.migration.count, Some(0));
}

/// The window is a parameter of this project: the number of reads from which the read penalty is
/// measured.
#[test]
fn the_read_threshold_is_tested_once_the_window_is_full() {
    let bench = Bench::new("griffin", &[QUIET, &[("read_threshold", "0.05")]].concat(), overwriting(200));
    let figures = bench.sweep("read_window", &["10", "100", "1000"], migrations);
    assert!(falls(&figures) && figures[2] <= 2.0, "{figures:?}: 2000 blocks are read");
}

/// "Useful in bounding the quantity of data lost on HDD failure" (5.2).
#[test]
fn the_migration_size_bounds_what_waits_in_the_log() {
    let bench = Bench::new("griffin", QUIET, overwriting(200));
    for (size, bytes) in [("80KiB", 80.0 * 1024.0), ("400KiB", 400.0 * 1024.0)] {
        let run = bench.run(&[("migration_size", size)]);
        let mean = some(run.migration.mean_bytes);
        assert!(migrations(&run) > 1.0 && mean >= bytes * 0.99 && mean < bytes * 1.2, "{size}: {mean}");
    }
    let figures = bench.sweep("migration_size", &["80KiB", "400KiB", "700KiB"], savings);
    assert!(rises(&figures), "{figures:?}");
}

/// "Such rotational latencies can be minimized [...] by using a small buffer (e.g., 128 KB) to
/// cache writes before writing them to the HDD" (5.4).
#[test]
fn a_small_buffer_hides_the_rotational_latency_of_the_log() {
    let bench = Bench::new("griffin", &[QUIET, &[("hdd.write_cache", "off")]].concat(), overwriting(20));
    let figures = bench.sweep("log_buffer", &["128KiB", "0B"], |run| some(run.response_time_ms.write.mean));
    assert!(figures[0] < 0.1 * figures[1], "{figures:?} ms");
}

/// "Using an overwrite threshold can lower write savings, sometimes substantially"; "a high
/// overwrite threshold has the advantage of eliminating a large fraction of HDD reads" (6.1.1,
/// without migrations).
#[test]
fn higher_overwrite_threshold_saves_less_and_reads_less() {
    // The nth of eight groups of blocks is written 2^n times; then all blocks are read.
    let writes = (0..8u32).flat_map(|group| {
        let of = move |at: u64| write(5 * at, u64::from(group) * 32 + at % 32, 1);
        (0..32 * (1u64 << group)).map(of)
    });
    let reads = (0..256).map(|block| read(60_000 + 10 * block, block, 1));
    let bench = Bench::new("griffin", QUIET, writes.chain(reads).collect());
    let values = ["0", "0.6", "0.8", "0.95"];
    let figures = |figure: fn(&Run) -> f64| bench.sweep("overwrite_threshold", &values, figure);
    let (saved, read) = (figures(savings), figures(penalty));
    assert!(falls(&saved) && falls(&read), "{saved:?} {read:?}");
}

/// "Disabling caching whenever the data rate of the combined workloads exceeds HDD speed" (7).
#[test]
fn writes_that_come_faster_than_the_log_sustains_pass_it_by() {
    // The rate is 40 MB/s for a second, then 0.4 MB/s.
    let fast = (0..1000).map(|at| write(at, scattered(at, 4000), 10));
    let slow = (0..100).map(|at| write(2000 + 100 * at, scattered(at, 4000), 10));
    let bench = Bench::new("griffin", QUIET, fast.chain(slow).collect());
    let off = bench.run(&[]);
    assert!(off.bypass.is_empty(), "{:?}", off.bypass);
    let of = |rate| bench.run(&[("log_bypass", "on"), ("log_rate", rate)]).bypass.values().sum::<u64>() as f64;
    let figures = ["1MB", "10MB", "70MB"].map(of);
    assert!(falls(&figures) && figures[2] == 0.0, "{figures:?}");
}

/// "An idealized HDD-based write cache" (3.2): writes are written home just before they are read.
#[test]
fn the_ideal_cache_saves_most_without_any_read_from_the_log() {
    let bench = Bench::new("griffin", &[QUIET, &[("migration", "instant")]].concat(), overwriting(200));
    let ideal = bench.run(&[("oracle", "on")]);
    assert_eq!(ideal.read_penalty, Some(0.0));
    let real = bench.run(&[("read_threshold", "0.001"), ("read_window", "1")]);
    assert!(
        savings(&ideal) > savings(&real) && penalty(&real) > 0.0,
        "{:?} {:?}",
        ideal.write_savings,
        real.write_savings
    );
}

/// "Evictions from the buffer cache" as "a hint to migrate" (7).
#[test]
fn a_larger_buffer_cache_of_the_host_saves_more_writes() {
    let bench = Bench::new("griffin", &[QUIET, &[("migration", "instant")]].concat(), overwriting(200));
    let figures = bench.sweep("eviction_hint", &["64KiB", "256KiB", "512KiB", "off"], savings);
    assert!(rises(&figures), "{figures:?}");
}

/// "At the file system level, evictions of blocks from the buffer cache can be used to signal
/// impending reads" (7). Evictions from a file give exactly the figures of a simulated cache, down
/// to the last write.
#[test]
fn recorded_evictions_count_as_those_of_the_simulated_cache() {
    let quiet = [QUIET, &[("migration", "instant")]].concat();
    let simulated = Bench::new("griffin", &quiet, overwriting(200)).run(&[("eviction_hint", "256KiB")]);
    let told = Bench::new("griffin", &quiet, overwriting(200)).evicting(64).run(&[]);
    let figures = |run: &Run| {
        let ssd = &run.devices.ssd;
        (savings(run), penalty(run), ssd.writes, ssd.write_bytes, run.ssd_write_sequentiality)
    };
    assert_eq!(figures(&told), figures(&simulated));
    assert_eq!(told.response_time_ms, simulated.response_time_ms);
    let deaf = Bench::new("griffin", &quiet, overwriting(200)).run(&[]);
    assert!(savings(&deaf) > savings(&told) + 0.1 && penalty(&deaf) > penalty(&told) + 0.1, "evictions matter");
}

/// "The maximum write savings with no read penalty" (7): the host's cache reads blocks that it has
/// evicted, and these reads come from the SSD.
#[test]
fn evictions_of_a_host_leave_no_read_to_the_log() {
    let quiet = [QUIET, &[("migration", "instant")]].concat();
    // Each block is written, and read once it was evicted. The host reads no block that its cache
    // still has.
    let writes = (0..400).map(|at| write(20 * at, at, 1));
    let reads = (0..300).map(|at| read(20 * at + 2010, at, 1));
    let workload: Vec<Request> = writes.chain(reads).collect();
    let told = Bench::new("griffin", &quiet, workload.clone()).evicting(64).run(&[]);
    assert_eq!((penalty(&told), count(told.devices.ssd.reads)), (0.0, 300.0));
    assert_eq!(penalty(&Bench::new("griffin", &quiet, workload).run(&[])), 1.0);
}

/// Migrations that take their time also leave no read that the log must serve: the host reads each
/// block some 700 ms after it has evicted it.
#[test]
fn evicted_blocks_are_home_in_time_when_moves_take_theirs() {
    let writes = (0..400).map(|at| write(20 * at, at, 1));
    let reads = (0..300).map(|at| read(20 * at + 2010, at, 1));
    let bench = Bench::new("griffin", QUIET, writes.chain(reads).collect()).evicting(64);
    let [timed, instant] = ["timed", "instant"].map(|how| bench.run(&[("migration", how)]));
    assert_eq!((penalty(&timed), savings(&timed)), (0.0, savings(&instant)));
    assert!(count(timed.devices.hdd.reads) > 0.0, "what goes home is read from the log");
}

/// The paper's own policy simulator lets migrations take no time (6.1). If the drives have time to
/// spare, timed migrations give the same counts.
#[test]
fn a_migration_that_takes_no_time_counts_as_one_that_does() {
    let bench = Bench::new("griffin", &[QUIET, &[("timeout", "20s")]].concat(), overwriting(200));
    let [timed, instant] = ["timed", "instant"].map(|how| bench.run(&[("migration", how)]));
    assert_eq!(timed.migration.count, instant.migration.count);
    assert!(
        (savings(&timed) - savings(&instant)).abs() < 0.01,
        "{:?} {:?}",
        timed.write_savings,
        instant.write_savings
    );
    let slowest = |run: &Run| some(run.response_time_ms.read.max);
    assert!(slowest(&timed) >= slowest(&instant), "{} {}", slowest(&timed), slowest(&instant));
}

/// Regression: writes with FUA that shared a block at their borders waited for each other's commit.
/// Each was appended alone, so the mean was 759 times the mean of aligned writes.
#[test]
fn forced_writes_that_share_blocks_become_stable_together() {
    let mean = |offset: u64| {
        let forced = (0..500).map(|at| Request {
            fua: true,
            range: SectorRange::new(at * 8 + offset, 8),
            ..write(2 * at, 0, 1)
        });
        some(Bench::new("griffin", QUIET, forced.collect()).run(&[]).response_time_ms.write.mean)
    };
    let (aligned, shifted) = (mean(0), mean(1));
    assert!(shifted < 2.0 * aligned, "{shifted} ms shifted, {aligned} ms aligned");
}
