//! Kim, Gupta, Urgaonkar, Berman, Sivasubramaniam: *MixedStore*, MixDC (5).

use bimetal_core::schemes;
use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;
use bimetal_sim::setup::{Choices, Setup};
use bimetal_sim::survey::Survey;
use bimetal_trace::Request;

use crate::common::{Bench, bypassed, count, disk_reads, read, scattered, some, write};

const SSD: Bytes = Bytes::from_mib(16);

fn error(run: &Run) -> f64 {
    run.prediction_error.as_ref().expect("mixedstore predicts").mean_ms
}

/// Returns small writes in the first half, and large writes among reads in the second half.
fn changing() -> Vec<Request> {
    let before = (0..3000).map(|at| write(20 * at, scattered(at, 2000), 1));
    let after = (0..1500).flat_map(|at| {
        let ms = 60_000 + 40 * at;
        [write(ms, scattered(at, 100) * 16, 16), read(ms + 20, scattered(at, 2000), 1)]
    });
    before.chain(after).chain([read(0, 16_383, 1)]).collect()
}

/// Coefficients "are estimated during a learning/training phase of our experiment which consists of
/// half of the workload. We believe [...] our learning-based prediction technique can be easily
/// adapted to operate online" (5.1).
#[test]
fn what_training_has_not_seen_is_learnt_online_only() {
    let alone = (0..4000).map(|at| write(20 * at, scattered(at, 1000) * 2, 1 + at % 2));
    // Then the writes come sixteen at a time, so that later writes of a group wait for the earlier.
    let bursts = (0..4000).map(|at| write(80_000 + 100 * (at / 16), scattered(at, 1000) * 2, 1 + at % 2));
    let bench = Bench::new("mixedstore", &[], alone.chain(bursts).chain([read(0, 16_383, 1)]).collect()).ssd(SSD);
    let figures = bench.sweep("learning", &["trained", "online"], error);
    assert!(figures[1] < figures[0], "{figures:?} ms");
}

/// "This sliding window acts as a short term history of requests and enable us to make fair short
/// term decisions" (5.1).
#[test]
fn a_short_window_notices_a_change_of_the_workload_sooner() {
    let bench = Bench::new("mixedstore", &[("learning", "online")], changing()).ssd(SSD);
    let figures = bench.sweep("window", &["8", "1000"], error);
    assert!(figures[0] < figures[1], "{figures:?} ms");
}

/// "During periods of higher-than-expected I/O intensity" 25 % or 50 % "of the requests being sent
/// to flash" are redirected to the HDD (5.4).
#[test]
fn writes_are_regulated_only_beyond_what_is_expected() {
    let writes = (0..4000).map(|at| write(20 * at, scattered(at, 2000), 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("mixedstore", &[("regulation", "50%")], writes.collect()).ssd(SSD);
    // 50 blocks a second are 17.7 GB a day.
    let figures = bench.sweep("expected_writes", &["1GB", "1TB"], |run| bypassed(run, "regulated") as f64);
    assert!(figures[0] > 500.0 && figures[1] == 0.0, "{figures:?} of 2000 writes after training");
    let figures = ["off", "25%", "50%"].map(|how| {
        let run = bench.run(&[("expected_writes", "1GB"), ("regulation", how)]);
        bypassed(&run, "regulated") as f64
    });
    assert!(figures[0] == 0.0 && figures[1] > 300.0 && figures[2] > 1.5 * figures[1], "{figures:?}");
}

/// Returns 40,000 requests of 4 KiB, 10 ms apart, scattered over `blocks`. Of these requests, 9 %
/// are reads.
fn steady(blocks: u64) -> Vec<Request> {
    let request = |at: u64| match scattered(at + 1_000_000, 100) < 9 {
        true => read(10 * at, scattered(at, blocks), 1),
        false => write(10 * at, scattered(at, blocks), 1),
    };
    (0..40_000).map(request).chain([write(400_000, blocks, 1)]).collect()
}

/// Regression: training sent one write in eight to the disk, and took the rate of the other writes
/// as the expected rate. So more than half of the writes of a steady workload were regulated: 4,219
/// and 8,407 writes were regulated.
#[test]
fn steady_workload_is_never_regulated() {
    for blocks in [4_000, 16_384, 262_144] {
        let bench = Bench::new("mixedstore", &[], steady(blocks));
        let figures = bench.sweep("regulation", &["25%", "50%"], |run| bypassed(run, "regulated") as f64);
        assert_eq!(figures, [0.0, 0.0], "{blocks} blocks");
    }
}

/// Returns 600,000 writes, 10 ms apart. Until the write `lost`, 15 of 16 go to 200 blocks and the
/// others to 3,600 blocks. From then on, all go to 3,600 blocks.
fn writes_that_lose_their_locality(lost: u64) -> Vec<Request> {
    let one = |at: u64| match at > lost || at.is_multiple_of(16) {
        true => write(10 * at, scattered(at, 3_600), 1),
        false => write(10 * at, at % 200, 1),
    };
    (0..600_000).map(one).chain([write(6_000_000, 16_383, 1)]).collect()
}

/// The drive reports its erase rate. At the same bytes per second, writes without locality cost
/// more erases, and count as more wear.
#[test]
fn lost_locality_is_regulated_at_equal_bytes() {
    let settings = [("regulation", "50%"), ("fragmentation_buster", "off")];
    let bench = |lost| Bench::new("mixedstore", &settings, writes_that_lose_their_locality(lost)).ssd(SSD);
    let regulated = |lost| bypassed(&bench(lost).run(&[]), "regulated");
    assert_eq!(regulated(u64::MAX), 0);
    assert!(regulated(450_000) > 10_000);
}

/// Regression: on 64 blocks of flash, the erases for each byte of steady skewed writes scatter by
/// 16 %. Chance took their mean beyond the margin again and again: 12,286 writes were regulated.
#[test]
fn scatter_of_erases_on_small_flash_is_not_regulated() {
    let settings = [("fragmentation_buster", "off"), ("hdd.write_cache", "off")];
    let bench = |lost| {
        let bench = Bench::new("mixedstore", &settings, writes_that_lose_their_locality(lost));
        bench.profile("super-talent-32gb").ssd(SSD)
    };
    let regulated = |lost| bench(lost).sweep("regulation", &["25%", "50%"], |run| bypassed(run, "regulated") as f64);
    assert_eq!(regulated(u64::MAX), [0.0, 0.0]);
    let of_lost = regulated(400_000);
    assert!(of_lost[0] > 10_000.0 && of_lost[1] > 10_000.0, "a change is still noticed: {of_lost:?}");
}

/// Idle periods start a buster run. Regression: these idle periods were the idle periods of the
/// disk, which MixedStore leaves idle by design: 79 runs started in 60,000 writes without a pause.
#[test]
fn writes_without_a_pause_start_no_buster_run() {
    let writes = (0..60_000).map(|at| write(2 * at, scattered(at, 3_000), 1)).chain([write(120_000, 16_383, 1)]);
    let bench = Bench::new("mixedstore", &[], writes.collect()).ssd(SSD);
    assert_eq!(bench.run(&[]).migration.count, Some(0));
}

/// "We use an offline profiling approach in which we are able to identify the idle periods in the
/// workloads" (5.3).
#[test]
fn profiled_idle_periods_are_used_from_their_beginning() {
    // The pauses are 90 ms, then 200 ms. Only the profile knows, before 200 ms have passed, that
    // the longer pauses are long enough.
    let reads =
        |gap_ms: u64| (0..400).map(move |at| read(gap_ms * at, 1000 + at % 10 * 8, 1)).chain([read(0, 16_383, 1)]);
    let fetched = |gap_ms: u64, how: &str| {
        let bench = Bench::new("mixedstore", &[("idle", "150ms")], reads(gap_ms).collect()).ssd(SSD);
        let run = bench.run(&[("idle_periods", how)]);
        (count(run.devices.ssd.writes) > 0.0, some(run.ssd_hit_ratio.read) > 0.5)
    };
    assert_eq!(fetched(90, "profiled"), (false, false));
    assert_eq!([fetched(200, "profiled"), fetched(200, "detected")], [(true, true); 2]);
}

/// Regression: the disk's mean of the training phase was kept when the disk was sent more than it
/// can serve. So 98 % of the writes went to the disk.
#[test]
fn overloaded_disk_is_not_preferred_for_ever() {
    let calm = (0..1000).map(|at| write(50 * at, scattered(at, 2_000) * 8, 1));
    let rush = (0..4000).map(|at| write(50_000 + at / 2, scattered(at, 2_000) * 8, 1));
    let requests: Vec<Request> = calm.chain(rush).collect();
    // The flash is slower than the disk while the disk is idle.
    let slow = [
        ("ssd.program_us", "20000"),
        ("ssd.write_buffer", "off"),
        ("ssd.channels", "1"),
        ("ssd.dies_per_channel", "1"),
    ];
    let run = Bench::new("mixedstore", &slow, requests).ssd(SSD).run(&[]);
    let (disk, all) = (bypassed(&run, "predicted-slower") as f64, 5000.0);
    assert!(disk < 0.9 * all, "{disk} of {all} writes went to the disk");
}

/// Regression: `adaptive` had no effect without `expected_writes`. Regression: on `dftl`, the
/// paper's drive, neither `adaptive` nor `static` had an effect.
#[test]
fn wear_is_levelled_by_default_on_page_and_dftl() {
    let cold = (0..900).map(|at| write(5 * at, at * 4, 4));
    let hot = (0..60_000).map(|at| write(5_000 + 5 * at, scattered(at, 150), 1));
    let requests: Vec<Request> = cold.chain(hot).collect();
    for ftl in ["page", "dftl"] {
        let settings = [("ssd.ftl", ftl), ("ssd.wear_threshold", "2"), ("fragmentation_buster", "off")];
        let bench = Bench::new("mixedstore", &settings, requests.clone()).ssd(SSD);
        let levelled = bench.sweep("wear_levelling", &["adaptive", "static"], |run| {
            run.devices.ssd.flash.erases_by_cause.get("wear_levelling").copied().unwrap_or(0) as f64
        });
        assert!(levelled.iter().all(|erases| *erases > 0.0), "{ftl}: {levelled:?}");
    }
}

/// Regression: a write to a buffer in memory was served in no time at all, while a drive of another
/// scheme needs time for such a write.
#[test]
fn copy_into_memory_takes_its_time() {
    let writes: Vec<Request> = (0..200).map(|at| write(100 * at, at, 1)).collect();
    let run = Bench::new("griffin", &[], writes).run(&[]);
    let fastest = some(run.response_time_ms.write.p50);
    assert!((0.0015..0.01).contains(&fastest), "{fastest} ms");
}

/// A setting without effect is refused. The error names the settings that work.
#[test]
fn wear_levelling_that_has_no_effect_is_refused() {
    let workload: Vec<Request> = (0..10).map(|at| write(at, at, 1)).collect();
    let survey = Survey::of(&workload, Default::default(), &|_| ()).expect("a workload");
    let scheme = schemes::find("mixedstore").expect("a scheme");
    let made = |settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let choices = Choices { settings, ..Choices::default() };
        Setup::new(scheme, &choices, &survey).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(made(&[("ssd.ftl", "fast")]), Ok(()), "the default is no choice");
    let error = made(&[("ssd.ftl", "fast"), ("wear_levelling", "static")]).unwrap_err();
    assert!(error.contains("wear_levelling=static") && error.contains("ssd.ftl=page or ssd.ftl=dftl"), "{error}");
    let error = made(&[("ssd.wear_levelling", "none"), ("mixedstore.wear_levelling", "static")]).unwrap_err();
    assert!(error.contains("leave one of them out"), "{error}");
}

/// "Coordinates with the flash controller to prevent the extra erases caused by wear-leveling by
/// temporarily halting the leveling algorithm" (5.5).
#[test]
fn the_drive_is_told_when_to_level_its_wear() {
    let workload: Vec<Request> = (0..10).map(|at| write(at, at, 1)).collect();
    let survey = Survey::of(&workload, Default::default(), &|_| ()).expect("a workload");
    let levelling = |how: &str| {
        let settings = [("wear_levelling", how), ("expected_writes", "10GB")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let choices = Choices { settings, ..Choices::default() };
        let scheme = schemes::find("mixedstore").expect("a scheme");
        let setup = Setup::new(scheme, &choices, &survey).unwrap_or_else(|error| panic!("{error}"));
        let ssd = setup.drives.iter().find(|drive| drive.role.name() == "ssd").expect("an SSD");
        let figure =
            ssd.profile.figures().find(|(key, ..)| *key == "wear_levelling").map(|(_, value, _)| value.to_string());
        figure.expect("flash levels its wear").trim_matches('"').to_owned()
    };
    assert_eq!(["adaptive", "static"].map(levelling), ["adaptive", "static"]);
}

/// "Frequently read small sized data is migrated" to flash (5.2), in idle periods.
#[test]
fn small_hot_data_moves_to_flash_in_idle_periods_only() {
    let reads = (0..400).map(|at| read(250 * at, 1000 + at % 10 * 8, 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("mixedstore", &[], reads.collect()).ssd(SSD);
    let figures = bench.sweep("idle", &["50ms", "5s"], disk_reads);
    assert!(figures[0] < 0.5 * figures[1] && figures[1] >= 400.0, "{figures:?}");
    assert!(some(bench.run(&[("idle", "50ms")]).ssd_hit_ratio.read) > 0.5);
    assert!(count(bench.run(&[("idle", "5s")]).devices.ssd.reads) == 0.0);
}
