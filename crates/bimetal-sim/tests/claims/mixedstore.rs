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

/// The first half is small writes, the second large ones among reads.
fn changing() -> Vec<Request> {
    let before = (0..3000).map(|at| write(20 * at, scattered(at, 2000), 1));
    let after = (0..1500).flat_map(|at| {
        let ms = 60_000 + 40 * at;
        [write(ms, scattered(at, 100) * 16, 16), read(ms + 20, scattered(at, 2000), 1)]
    });
    before.chain(after).chain([read(0, 16_383, 1)]).collect()
}

/// Coefficients "are estimated during a learning/training phase of our experiment which consists of half of the workload. We believe
/// [...] our learning-based prediction technique can be easily adapted to operate online" (5.1).
#[test]
fn what_training_has_not_seen_is_learnt_online_only() {
    let alone = (0..4000).map(|at| write(20 * at, scattered(at, 1000) * 2, 1 + at % 2));
    // Then sixteen at a time, of which the later ones wait for the earlier.
    let bursts = (0..4000).map(|at| write(80_000 + 100 * (at / 16), scattered(at, 1000) * 2, 1 + at % 2));
    let bench = Bench::new("mixedstore", &[], alone.chain(bursts).chain([read(0, 16_383, 1)]).collect()).ssd(SSD);
    let figures = bench.sweep("learning", &["trained", "online"], error);
    assert!(figures[1] < figures[0], "{figures:?} ms");
}

/// "This sliding window acts as a short term history of requests and enable us to make fair short term decisions" (5.1).
#[test]
fn a_short_window_notices_a_change_of_the_workload_sooner() {
    let bench = Bench::new("mixedstore", &[("learning", "online")], changing()).ssd(SSD);
    let figures = bench.sweep("window", &["8", "1000"], error);
    assert!(figures[0] < figures[1], "{figures:?} ms");
}

/// "During periods of higher-than-expected I/O intensity" 25 % or 50 % "of the requests being sent to flash" are redirected to
/// the HDD (5.4).
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

/// "Coordinates with the flash controller to prevent the extra erases caused by wear-leveling by temporarily halting the leveling
/// algorithm" (5.5).
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
fn small_data_that_is_read_often_moves_to_flash_in_idle_periods_only() {
    let reads = (0..400).map(|at| read(250 * at, 1000 + at % 10 * 8, 1)).chain([read(0, 16_383, 1)]);
    let bench = Bench::new("mixedstore", &[], reads.collect()).ssd(SSD);
    let figures = bench.sweep("idle", &["50ms", "5s"], disk_reads);
    assert!(figures[0] < 0.5 * figures[1] && figures[1] >= 400.0, "{figures:?}");
    assert!(some(bench.run(&[("idle", "50ms")]).ssd_hit_ratio.read) > 0.5);
    assert!(count(bench.run(&[("idle", "5s")]).devices.ssd.reads) == 0.0);
}
