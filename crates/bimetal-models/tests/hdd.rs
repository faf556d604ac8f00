//! Tests of a whole hard disk, through the trait that the simulator uses.

use std::collections::{BTreeMap, BTreeSet};

use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_models::hdd::Hdd;
use bimetal_models::profile::{DEFAULT_HDD, Profile};
use bimetal_models::{DeviceModel, Finished};
use proptest::prelude::*;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

fn drive(name: &str, settings: &[(&str, &str)]) -> Hdd {
    let mut profile = Profile::load(name).unwrap();
    profile.set_all(settings.iter().copied()).unwrap();
    Hdd::new(profile.hdd().unwrap(), profile.capacity, profile.capacity).unwrap()
}

fn command(kind: OpKind, start: u64, sectors: u64) -> Command {
    Command { kind, range: SectorRange::new(start, sectors), fua: false }
}

/// Advances `drive` until no event is left, or only timers after `until`.
fn run_until(drive: &mut dyn DeviceModel, until: Nanoseconds, finished: &mut Vec<Finished>) {
    while let Some(event) = drive.next_event().filter(|event| *event <= until) {
        drive.advance(event, finished);
    }
}

/// Serves one command from `now` on. Returns the time at which it finished.
fn serve(drive: &mut dyn DeviceModel, now: Nanoseconds, command: Command) -> Nanoseconds {
    let mut finished = Vec::new();
    drive.advance(now, &mut finished);
    finished.clear();
    drive.submit(now, Token(1), command);
    while finished.is_empty() {
        drive.advance(drive.next_event().unwrap(), &mut finished);
    }
    assert_eq!(finished.len(), 1);
    finished[0].at
}

/// Returns megabytes a second of `requests` consecutive requests of 64 KiB from `start` on, each
/// sent when the previous one is done.
fn sequential_mb_per_s(drive: &mut dyn DeviceModel, kind: OpKind, start: u64, requests: u64) -> f64 {
    let (mut now, mut begin) = (Nanoseconds::ZERO, Nanoseconds::ZERO);
    // The first quarter fills the write cache, if there is one.
    for request in 0..requests {
        begin = if request == requests / 4 { now } else { begin };
        now = serve(drive, now, command(kind, start + request * 128, 128));
    }
    ((requests - requests / 4) * 65536) as f64 / 1e6 / (now - begin).as_seconds_f64()
}

/// Returns megabytes a second of consecutive requests of 64 KiB, of which `depth` are always in the
/// drive.
fn queued_sequential_mb_per_s(drive: &mut dyn DeviceModel, kind: OpKind, depth: u64) -> f64 {
    let (mut sent, mut finished, mut now) = (0, Vec::new(), Nanoseconds::ZERO);
    while finished.len() < 2000 {
        while sent < finished.len() as u64 + depth {
            drive.submit(now, Token(sent), command(kind, sent * 128, 128));
            sent += 1;
        }
        now = drive.next_event().unwrap();
        drive.advance(now, &mut finished);
    }
    (finished.len() * 65536) as f64 / 1e6 / now.as_seconds_f64()
}

/// Returns the mean response in milliseconds of random 4 KiB reads, of which `depth` are always in
/// the drive.
fn random_read_ms(drive: &mut dyn DeviceModel, depth: u64, requests: u64) -> f64 {
    let mut random = Pcg64Mcg::new(3);
    let blocks = drive.capacity().0 / 8;
    let (mut arrivals, mut finished, mut sum_ms, mut served) = (BTreeMap::new(), Vec::new(), 0.0, 0);
    let mut now = Nanoseconds::ZERO;
    for serial in 0..requests {
        while arrivals.len() as u64 == depth {
            now = drive.next_event().unwrap();
            drive.advance(now, &mut finished);
            for done in finished.drain(..) {
                let arrival: Nanoseconds = arrivals.remove(&done.token).unwrap();
                sum_ms += (done.at - arrival).as_millis_f64();
                served += 1;
            }
        }
        arrivals.insert(Token(serial), now);
        drive.submit(now, Token(serial), command(OpKind::Read, random.next_u64() % blocks * 8, 8));
    }
    sum_ms / f64::from(served)
}

#[test]
fn sequential_reads_and_writes_run_at_the_data_sheets_rates() {
    for (name, outer, inner) in [
        ("seagate-barracuda-7200.12-1tb", 125.0, 60.0),
        ("seagate-cheetah-15k.5-73gb", 125.0, 73.0),
        ("seagate-exos-x18-18tb", 270.0, 125.0),
        ("hitachi-travelstar-5k500-500gb", 69.0, 33.0),
        ("ibm-ultrastar-36z15-36gb", 52.8, 36.1),
        ("seagate-barracuda-7200.9-250gb", 65.0, 48.0),
        ("wd-caviar-blue-wd10ealx-1tb", 126.0, 60.0),
        ("wd-velociraptor-300gb", 118.0, 73.0),
        ("toshiba-mg10-20tb", 281.0, 130.0),
    ] {
        for kind in [OpKind::Read, OpKind::Write] {
            for (start_share, expected) in [(0.0, outer), (0.99, inner)] {
                let settings =
                    [("write_cache", "on"), ("cache", "12MiB"), ("read_segments", "4"), ("read_ahead", "1MiB")];
                let mut drive = drive(name, &settings);
                let start = (drive.capacity().0 as f64 * start_share) as u64;
                let rate = sequential_mb_per_s(&mut drive, kind, start, 4000);
                assert!((rate / expected - 1.0).abs() < 0.04, "{name} {kind:?}: {rate} MB/s instead of {expected}");
            }
        }
    }
}

/// Drive with physical sectors of 4096 bytes.
const DRIVE_512E: &str = "seagate-exos-x18-18tb";

fn read_modify_writes(drive: &Hdd, now: Nanoseconds) -> u64 {
    drive.statistics(now).hdd.unwrap().read_modify_writes
}

/// A write that begins inside a physical sector takes as long as the whole physical sectors, and
/// one turn.
#[test]
fn misaligned_write_costs_one_turn() {
    let written_ns = |start, sectors| {
        let mut drive = drive(DRIVE_512E, &[("write_cache", "off"), ("read_ahead", "0")]);
        let at = serve(&mut drive, Nanoseconds(5_000_000), command(OpKind::Write, start, sectors));
        (at.0 as i64, read_modify_writes(&drive, at))
    };
    let turn_ns = 60e9 / 7200.0;
    let (whole_ns, none) = written_ns(800, 16);
    assert_eq!(none, 0);
    for (start, sectors) in [(801, 8), (801, 14), (800, 12), (804, 12)] {
        let (at_ns, count) = written_ns(start, sectors);
        let turns = (at_ns - whole_ns) as f64 / turn_ns;
        assert!((turns - 1.0).abs() < 0.001 && count == 1, "{sectors} at {start}: {turns} turns more, {count}");
    }
    // The two ends of a long write lie on two tracks: each takes a turn.
    let (long_ns, _) = written_ns(800, 8000);
    let turns = (written_ns(801, 7998).0 - long_ns) as f64 / turn_ns;
    assert!((turns - 2.0).abs() < 0.001, "{turns} turns");
}

/// The buffer completes a physical sector that was read, or written before.
#[test]
fn held_physical_sector_is_not_read_again() {
    let mut without_cache = drive(DRIVE_512E, &[("write_cache", "off")]);
    let mut now = serve(&mut without_cache, Nanoseconds::ZERO, command(OpKind::Read, 800, 64));
    now = serve(&mut without_cache, now, command(OpKind::Write, 801, 8));
    assert_eq!(read_modify_writes(&without_cache, now), 0, "the read has left the other sectors");
    now = serve(&mut without_cache, now, command(OpKind::Write, 809, 7));
    assert_eq!(read_modify_writes(&without_cache, now), 0, "the write before has left sector 808");
    now = serve(&mut without_cache, now, command(OpKind::Write, 80_001, 7));
    assert_eq!(read_modify_writes(&without_cache, now), 1);
    let mut plain = drive(DEFAULT_HDD, &[("write_cache", "off")]);
    now = serve(&mut plain, Nanoseconds::ZERO, command(OpKind::Write, 801, 8));
    assert_eq!(read_modify_writes(&plain, now), 0, "512 bytes are a whole physical sector");
}

/// Dirty data next to a write completes its physical sectors before the cache is written out.
#[test]
fn neighbouring_dirty_data_completes_a_physical_sector() {
    for (writes, destages, expected) in [
        (&[(800, 4), (804, 4)][..], 1, 0),
        (&[(801, 8), (809, 8), (817, 7), (800, 1)], 1, 0),
        // Sector 804 is missing; both writes leave together.
        (&[(800, 4), (805, 3)], 1, 1),
        (&[(801, 8), (8001, 8)], 2, 2),
    ] {
        let mut drive = drive(DRIVE_512E, &[]);
        // A read elsewhere keeps the arm until all writes are in the cache.
        drive.submit(Nanoseconds::ZERO, Token(0), command(OpKind::Read, 1_000_000_000, 8));
        for &(start, sectors) in writes {
            drive.submit(Nanoseconds::ZERO, Token(start), command(OpKind::Write, start, sectors));
        }
        run_until(&mut drive, Nanoseconds::from_seconds(9), &mut Vec::new());
        let figures = drive.statistics(Nanoseconds::from_seconds(9)).hdd.unwrap();
        assert_eq!((figures.destages, figures.read_modify_writes), (destages, expected), "{writes:?}");
        assert!(drive.is_stable(SectorRange::new(0, drive.capacity().0)));
    }
}

/// Returns the mean milliseconds between the ends of random 4 KiB writes that begin `phase` sectors
/// after the start of a physical sector.
fn random_write_ms(write_cache: &str, phase: u64) -> f64 {
    let mut drive = drive(DRIVE_512E, &[("write_cache", write_cache)]);
    let (mut random, mut now, writes) = (Pcg64Mcg::new(3), Nanoseconds::ZERO, 3000);
    for _ in 0..writes {
        let start = random.next_u64() % (drive.capacity().0 / 8 - 1) * 8 + phase;
        now = serve(&mut drive, now, command(OpKind::Write, start, 8));
    }
    // The cache is written out within the time.
    now = serve(&mut drive, now, command(OpKind::Flush, 0, 0));
    now.as_millis_f64() / f64::from(writes)
}

/// Random misaligned writes pay a turn of 8.33 ms each: at once, or when the cache is written out.
/// The read in front needs no settling of a write: a long seek takes 0.8 ms less.
#[test]
fn misaligned_random_writes_pay_a_turn_cached_or_not() {
    for write_cache in ["off", "on"] {
        let (aligned, misaligned) = (random_write_ms(write_cache, 0), random_write_ms(write_cache, 1));
        println!("write cache {write_cache}: aligned {aligned:.2} ms, misaligned {misaligned:.2} ms");
        let more = misaligned - aligned;
        assert!((8.33 - 0.8 - 0.1..8.33 + 0.1).contains(&more), "{write_cache}: {aligned} and {misaligned} ms");
    }
}

#[test]
fn the_sequential_rate_falls_from_the_outer_to_the_inner_edge() {
    let rates: Vec<f64> = (0..10)
        .map(|tenth| {
            let mut drive = drive(DEFAULT_HDD, &[]);
            let start = drive.capacity().0 / 10 * tenth;
            sequential_mb_per_s(&mut drive, OpKind::Read, start, 2000)
        })
        .collect();
    assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
}

#[test]
fn without_read_ahead_each_sequential_read_loses_a_turn() {
    let mut drive = drive(DEFAULT_HDD, &[("read_ahead", "0")]);
    let rate = sequential_mb_per_s(&mut drive, OpKind::Read, 0, 500);
    // Each turn of 8.33 ms reads 64 KiB, and a little more.
    assert!((7.0..8.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn a_queue_of_consecutive_requests_streams_without_any_cache() {
    for scheduler in ["fcfs", "clook", "sstf", "sptf"] {
        for kind in [OpKind::Read, OpKind::Write] {
            let settings = [("scheduler", scheduler), ("read_ahead", "0"), ("write_cache", "off")];
            let rate = queued_sequential_mb_per_s(&mut drive(DEFAULT_HDD, &settings), kind, 8);
            assert!((rate / 125.0 - 1.0).abs() < 0.04, "{scheduler} {kind:?}: {rate} MB/s");
        }
    }
}

#[test]
fn a_slow_stream_of_reads_is_served_from_the_buffer() {
    let mut drive = drive(DEFAULT_HDD, &[]);
    let mut now = serve(&mut drive, Nanoseconds::ZERO, command(OpKind::Read, 0, 128));
    for request in 1..500 {
        let sent = now + Nanoseconds::from_millis(20);
        now = serve(&mut drive, sent, command(OpKind::Read, request * 128, 128));
        assert!(now - sent < Nanoseconds::from_micros(400), "request {request} took {:?}", now - sent);
    }
    assert_eq!(drive.statistics(now).hdd.unwrap().cache_read_hits, 499);
}

#[test]
fn as_many_streams_as_segments_are_kept_apart() {
    let time_of = |streams: u64| {
        let mut drive = drive(DEFAULT_HDD, &[("read_segments", "8"), ("read_ahead", "1MiB"), ("write_cache", "off")]);
        let mut now = Nanoseconds::ZERO;
        for request in 0..100 {
            for stream in 0..streams {
                // The drive has enough time to read ahead.
                now += Nanoseconds::from_millis(30);
                now = serve(&mut drive, now, command(OpKind::Read, stream * 100_000_000 + request * 8, 8));
            }
        }
        drive.statistics(now).hdd.unwrap().cache_read_hits as f64 / (100 * streams) as f64
    };
    assert!(time_of(8) > 0.98, "{}", time_of(8));
    assert!(time_of(9) < 0.5, "{}", time_of(9));
}

#[test]
fn the_travelstar_is_as_fast_as_the_combo_drive_paper_measured() {
    // Table 2: 18 ms random, 53 MB/s on average; section 5.1: 69 MB/s at the fast edge.
    let name = "hitachi-travelstar-5k500-500gb";
    let random_ms = random_read_ms(&mut drive(name, &[]), 1, 20_000);
    assert!((random_ms / 18.0 - 1.0).abs() < 0.1, "{random_ms} ms");
    let average = average_mb_per_s(name);
    assert!((average / 53.0 - 1.0).abs() < 0.1, "{average} MB/s");
}

/// Returns the rate of sequential reads, on average over the drive.
fn average_mb_per_s(name: &str) -> f64 {
    let rate = |tenth: u64| {
        let mut drive = drive(name, &[]);
        let start = drive.capacity().0 / 20 * (2 * tenth + 1);
        sequential_mb_per_s(&mut drive, OpKind::Read, start, 1000)
    };
    (0..10).map(rate).sum::<f64>() / 10.0
}

#[test]
fn the_barracuda_is_as_fast_on_average_as_was_measured() {
    // HD Tach measured 57 MB/s.
    let average = average_mb_per_s("seagate-barracuda-7200.9-250gb");
    assert!((average / 57.0 - 1.0).abs() < 0.03, "{average} MB/s");
}

#[test]
fn the_exos_serves_the_random_reads_of_its_data_sheet() {
    // The data sheet gives 170 a second at queue depth 16.
    let mean_ms = random_read_ms(&mut drive("seagate-exos-x18-18tb", &[]), 16, 20_000);
    let per_second = 16.0 / mean_ms * 1e3;
    assert!((per_second / 170.0 - 1.0).abs() < 0.03, "{per_second} a second");
}

#[test]
fn a_random_read_takes_overhead_seek_half_a_turn_and_transfer() {
    let mut drive = drive(DEFAULT_HDD, &[]);
    let mean_ms = random_read_ms(&mut drive, 1, 50_000);
    // The average seek over random sectors is a little below the average over random cylinders:
    // there are more sectors outside.
    let expected = 0.1 + 8.5 + 8.333 / 2.0 + 0.03;
    assert!((mean_ms / expected - 1.0).abs() < 0.03, "{mean_ms} ms instead of {expected}");
}

#[test]
fn a_better_order_of_a_deep_queue_is_faster() {
    let mean_ms = |scheduler: &str| {
        let settings = [("scheduler", scheduler), ("queue_depth", "32"), ("read_ahead", "0")];
        random_read_ms(&mut drive(DEFAULT_HDD, &settings), 32, 20_000)
    };
    let [fcfs, clook, sstf, sptf] = ["fcfs", "clook", "sstf", "sptf"].map(mean_ms);
    assert!(clook < 0.75 * fcfs, "C-LOOK {clook} ms, FCFS {fcfs} ms");
    assert!(sstf < 1.01 * clook && sptf < 0.8 * sstf, "SPTF {sptf} ms, SSTF {sstf} ms, C-LOOK {clook} ms");
}

#[test]
fn a_deeper_queue_never_lowers_the_throughput_of_sptf() {
    let throughput = |depth: u64| {
        let settings = [("scheduler", "sptf"), ("queue_depth", "64"), ("read_ahead", "0")];
        depth as f64 / random_read_ms(&mut drive(DEFAULT_HDD, &settings), depth, 10_000)
    };
    let rates = [1, 2, 4, 8, 16, 32, 64].map(throughput);
    assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{rates:?}");
}

/// A write finishes in the cache, and a flush waits for the medium. A second flush has nothing to
/// do.
#[test]
fn write_finishes_in_the_cache_and_flush_on_the_medium() {
    let mut drive = drive(DEFAULT_HDD, &[]);
    let written = command(OpKind::Write, 1_000_000_000, 8);
    let now = serve(&mut drive, Nanoseconds::ZERO, written);
    assert!(now < Nanoseconds::from_micros(200), "{now}");
    assert!(!drive.is_stable(written.range));
    let read = serve(&mut drive, now, command(OpKind::Read, 1_000_000_002, 4));
    assert!(read - now < Nanoseconds::from_micros(200), "a read of what waits in the cache hits");
    let flushed = serve(&mut drive, read, command(OpKind::Flush, 0, 0));
    assert!(flushed - read > Nanoseconds::from_millis(3), "{flushed}");
    assert!(drive.is_stable(written.range));
    let again = serve(&mut drive, flushed, command(OpKind::Flush, 0, 0));
    assert!(again - flushed < Nanoseconds::from_micros(200), "nothing is left to flush");
}

#[test]
fn a_small_write_and_a_flush_behind_the_last_one_take_a_turn() {
    let mut drive = drive(DEFAULT_HDD, &[]);
    let mut now = Nanoseconds::ZERO;
    for commit in 0..200 {
        let begin = now;
        now = serve(&mut drive, now, command(OpKind::Write, commit * 8, 8));
        now = serve(&mut drive, now, command(OpKind::Flush, 0, 0));
        let milliseconds = (now - begin).as_millis_f64();
        // The sector after it has just passed; at the end of a track the next one is rotated a
        // little further.
        assert!(commit == 0 || (8.2..9.8).contains(&milliseconds), "commit {commit}: {milliseconds} ms");
    }
}

#[test]
fn two_flushes_in_a_row_both_finish() {
    let mut drive = drive(DEFAULT_HDD, &[]);
    let mut finished = Vec::new();
    drive.submit(Nanoseconds::ZERO, Token(0), command(OpKind::Write, 1_000_000, 8));
    for token in 1..4 {
        drive.submit(Nanoseconds::ZERO, Token(token), command(OpKind::Flush, 0, 0));
    }
    run_until(&mut drive, Nanoseconds::MAX, &mut finished);
    let tokens: Vec<u64> = finished.iter().map(|done| done.token.0).collect();
    assert_eq!(tokens, [0, 1, 2, 3]);
}

/// Cache room that another write frees is given to the write that waits for room.
#[test]
fn write_waiting_for_cache_room_gets_room_of_another_write() {
    // The cache has room for 160 sectors, a track has 2291. The third write is in the cache, and
    // its first ten sectors are written out up to the end of their track. The second write, too
    // large for the cache, replaces the rest.
    let mut drive = small_drive("fcfs", 4, true, false);
    let mut finished = Vec::new();
    for (token, start, sectors) in [(0, 5000, 214), (1, 2200, 290), (2, 2281, 150), (3, 0, 80)] {
        drive.submit(Nanoseconds::ZERO, Token(token), command(OpKind::Write, start, sectors));
    }
    run_until(&mut drive, Nanoseconds::MAX, &mut finished);
    assert_eq!(finished.len(), 4);
}

#[test]
fn fua_and_uncached_writes_wait_for_the_medium() {
    let fua = Command { fua: true, ..command(OpKind::Write, 1_000_000_000, 8) };
    let mut cached = drive(DEFAULT_HDD, &[]);
    let first = serve(&mut cached, Nanoseconds::ZERO, command(OpKind::Write, 1_000_000_000, 8));
    let done = serve(&mut cached, first, fua);
    assert!(done > Nanoseconds::from_millis(3) && cached.is_stable(fua.range));
    let mut uncached = drive(DEFAULT_HDD, &[("write_cache", "off")]);
    let done = serve(&mut uncached, Nanoseconds::ZERO, command(OpKind::Write, 1_000_000_000, 8));
    assert!(done > Nanoseconds::from_millis(3), "{done}");
    let flushed = serve(&mut uncached, done, command(OpKind::Flush, 0, 0));
    assert!(flushed - done < Nanoseconds::from_micros(200));
}

#[test]
fn writes_that_outrun_the_medium_wait_for_room() {
    let settings = [("cache", "8MiB"), ("read_segments", "4"), ("read_ahead", "1MiB"), ("queue_depth", "1")];
    let mut drive = drive(DEFAULT_HDD, &settings);
    let mut random = Pcg64Mcg::new(5);
    let mut now = Nanoseconds::ZERO;
    let mut late = Nanoseconds::ZERO;
    for request in 0..4000 {
        let block = random.next_u64() % (drive.capacity().0 / 8);
        let done = serve(&mut drive, now, command(OpKind::Write, block * 8, 8));
        late = if request >= 3000 { late + (done - now) } else { late };
        now = done;
    }
    // 4 MiB hold 1024 blocks. Once they are full, a write takes as long as a destage, in C-LOOK
    // order of a thousand.
    let mean_ms = late.as_millis_f64() / 1000.0;
    assert!((3.0..8.0).contains(&mean_ms), "{mean_ms} ms");
}

/// A drive that chooses among eight runs waits for a ninth of a turn instead of half a turn. Data
/// sheets have 550 random writes a second for drives that do 170 random reads.
#[test]
fn wider_window_of_destages_writes_faster() {
    let rate = |window: &str| {
        let settings = [("destage_window", window), ("cache", "128MiB"), ("read_segments", "8")];
        let mut drive = drive("seagate-exos-x18-18tb", &settings);
        let (mut now, mut finished, mut sent, mut half) = (Nanoseconds::ZERO, Vec::new(), 0_u64, Nanoseconds::ZERO);
        let sectors = drive.capacity().0 / 8;
        let mut random = Pcg64Mcg::new(3);
        while finished.len() < 60_000 {
            while sent < finished.len() as u64 + 16 {
                drive.submit(now, Token(sent), command(OpKind::Write, random.next_u64() % sectors * 8, 8));
                sent += 1;
            }
            now = drive.next_event().unwrap();
            drive.advance(now, &mut finished);
            if finished.len() <= 55_000 {
                half = now;
            }
        }
        5000.0 / (now - half).as_seconds_f64()
    };
    let (one, six) = (rate("1"), rate("6"));
    assert!((190.0..230.0).contains(&one) && six > 2.2 * one, "{one} and {six} a second");
}

#[test]
fn a_write_makes_what_was_read_ahead_stale() {
    let mut drive = drive(DEFAULT_HDD, &[("write_cache", "off")]);
    let now = serve(&mut drive, Nanoseconds::ZERO, command(OpKind::Read, 0, 8));
    let now = serve(&mut drive, now + Nanoseconds::from_millis(50), command(OpKind::Read, 64, 8));
    let hits = |drive: &Hdd| drive.statistics(now).hdd.unwrap().cache_read_hits;
    assert_eq!(hits(&drive), 1);
    let now = serve(&mut drive, now, command(OpKind::Write, 100, 8));
    let now = serve(&mut drive, now, command(OpKind::Read, 104, 8));
    assert_eq!(hits(&drive), 1, "written over since it was read");
    serve(&mut drive, now, command(OpKind::Read, 8, 8));
    assert_eq!(hits(&drive), 2, "what lies before the write is still right");
}

/// A discard takes only the command overhead. A hint is unsupported, and zeroes are written as
/// data.
#[test]
fn disk_ignores_discards_refuses_hints_and_writes_zeroes() {
    let mut drive = drive(DEFAULT_HDD, &[("write_cache", "off")]);
    let now = serve(&mut drive, Nanoseconds::ZERO, command(OpKind::Discard, 0, 1 << 30));
    assert_eq!(now, Nanoseconds::from_micros(100), "the command overhead");
    let mut finished = Vec::new();
    drive.submit(now, Token(2), command(OpKind::Hint, 0, 8));
    run_until(&mut drive, Nanoseconds::MAX, &mut finished);
    assert_eq!(finished[0].status, Status::Unsupported);
    let now = finished[0].at;
    let zeroed = serve(&mut drive, now, command(OpKind::WriteZeroes, 0, 1 << 21));
    assert!(zeroed - now > Nanoseconds::from_seconds(8), "1 GiB at 125 MB/s, not {}", zeroed - now);
    let statistics = drive.statistics(zeroed);
    assert_eq!((statistics.discards, statistics.writes, statistics.write_bytes.0), (1, 1, 1 << 30));
}

#[test]
fn idle_spindle_stops_and_its_start_costs_time_and_energy() {
    let mut drive = drive(DEFAULT_HDD, &[("spin_down", "60s")]);
    let first = serve(&mut drive, Nanoseconds::ZERO, command(OpKind::Read, 0, 8));
    assert_eq!(drive.next_event(), Some(first + Nanoseconds::from_seconds(60)), "the timer");
    let now = Nanoseconds::from_seconds(1000);
    let mut finished = Vec::new();
    drive.advance(now, &mut finished);
    assert_eq!(drive.next_event(), None);
    let hdd = |drive: &Hdd, now| drive.statistics(now).hdd.unwrap();
    assert_eq!((hdd(&drive, now).spin_downs, hdd(&drive, now).spin_ups), (1, 0));
    // The energy is 60 s at 5.0 W and 940 s at 0.8 W.
    let joules = drive.statistics(now).energy_joules.unwrap();
    assert!((joules - 1052.0).abs() < 1.0, "{joules} J");
    // A read from the buffer needs no spindle.
    let hit = serve(&mut drive, now, command(OpKind::Read, 0, 8));
    assert!(hit - now < Nanoseconds::from_millis(1));
    let woken = serve(&mut drive, hit, command(OpKind::Read, 1_000_000_000, 8));
    assert!((10.0..10.1).contains(&(woken - hit).as_seconds_f64()), "{}", woken - hit);
    assert_eq!(hdd(&drive, woken).spin_ups, 1);
    let joules = drive.statistics(woken).energy_joules.unwrap() - joules;
    assert!((joules - 240.0).abs() < 1.0, "10 s at 24 W, not {joules} J");
    assert!(drive.statistics(woken).busy < Nanoseconds::from_seconds(11));
}

/// Regression: a spindle that had stopped went on reading ahead, so a stream of reads with long
/// pauses was served from a buffer that nothing filled.
#[test]
fn stopped_spindle_reads_nothing_ahead() {
    let mut drive = drive(DEFAULT_HDD, &[("spin_down", "10s")]);
    let mut now = Nanoseconds::ZERO;
    let mut woken = 0;
    for read in 0..64 {
        let done = serve(&mut drive, now, command(OpKind::Read, read * 128, 128));
        woken += u32::from(done - now > Nanoseconds::from_seconds(5));
        now = done + Nanoseconds::from_seconds(20);
        drive.advance(now, &mut Vec::new());
    }
    let spin_ups = drive.statistics(now).hdd.unwrap().spin_ups;
    assert!(woken >= 3 && spin_ups >= 3, "4 MiB beside a buffer of less: {woken} slow reads, {spin_ups} starts");
}

/// Regression: the arm of a drive with a segmented buffer never worked.
#[test]
fn arm_of_each_drive_works_no_longer_than_the_drive() {
    for name in ["disksim-cheetah9LP", "disksim-atlas10k", "disksim-hp_c2247a", DEFAULT_HDD] {
        let mut drive = Profile::load(name).unwrap().build(None, 0).unwrap();
        let (mut now, mut place) = (Nanoseconds::ZERO, 1u64);
        for number in 0..500 {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = (place >> 20) % (drive.capacity().0 - 16);
            let kind = if number % 3 == 0 { OpKind::Write } else { OpKind::Read };
            drive.submit(now, Token(number), command(kind, start, 8));
            let mut finished = Vec::new();
            while finished.is_empty() {
                let event = drive.next_event().unwrap();
                drive.advance(event, &mut finished);
            }
            now = finished[0].at + Nanoseconds::from_millis(1);
            drive.advance(now, &mut Vec::new());
        }
        let head = drive.statistics(now).hdd.unwrap().head_time;
        let share = head.as_seconds_f64() / now.as_seconds_f64();
        assert!((0.5..=1.0).contains(&share), "{name}: {share}");
    }
}

/// A drive made larger keeps its seek times. A drive made smaller keeps its geometry.
#[test]
fn larger_drive_keeps_seek_times_and_smaller_one_geometry() {
    let profile = Profile::load(DEFAULT_HDD).unwrap();
    let mean_ms = |capacity: u64| {
        let mut drive = profile.build(Some(Sectors(capacity)), 0).unwrap();
        assert_eq!(drive.capacity(), Sectors(capacity));
        random_read_ms(drive.as_mut(), 1, 5000)
    };
    let own = profile.capacity.0;
    assert!((mean_ms(own * 7 / 2) / mean_ms(own) - 1.0).abs() < 0.02);
    assert!(mean_ms(own / 100) < 0.7 * mean_ms(own));
    assert!(profile.build(Some(Sectors(1 << 62)), 0).err().unwrap().to_string().contains("capacity"));
}

/// Draws commands of a host to a small drive, with the time since the previous step.
fn steps() -> impl Strategy<Value = Vec<(u8, u64, u64, bool, u64)>> {
    proptest::collection::vec((0u8..20, 0u64..6000, 1u64..300, any::<bool>(), 0u64..5_000_000), 1..150)
}

/// Returns a drive of a few tracks whose cache fills at once.
fn small_drive(scheduler: &str, depth: u32, write_cache: bool, spin_down: bool) -> Hdd {
    let mut profile = Profile::load(DEFAULT_HDD).unwrap();
    let depth = depth.to_string();
    let settings = [
        ("capacity", "4000000"),
        ("cache", "200KiB"),
        ("read_segments", "3"),
        ("read_ahead", "40KiB"),
        ("zone_count", "2"),
        ("seek_average_ms", "7"),
        ("scheduler", scheduler),
        ("queue_depth", depth.as_str()),
        ("write_cache", if write_cache { "on" } else { "off" }),
        ("spin_down", if spin_down { "4ms" } else { "off" }),
    ];
    profile.set_all(settings).unwrap_or_else(|error| panic!("{error}"));
    Hdd::new(profile.hdd().unwrap(), profile.capacity, profile.capacity).unwrap()
}

/// Runs the steps on a drive and checks, from outside, all properties on which a host relies.
fn check_steps(steps: &[(u8, u64, u64, bool, u64)], mut drive: Hdd) -> Result<Vec<Finished>, TestCaseError> {
    let mut host = Host::default();
    let mut now = Nanoseconds::ZERO;
    let mut finished = Vec::new();
    for (serial, &(kind, start, sectors, fua, wait)) in steps.iter().enumerate() {
        now += Nanoseconds(wait);
        let before = finished.len();
        drive.advance(now, &mut finished);
        host.check(&finished[before..], &drive)?;
        let kind = match kind {
            0..8 => OpKind::Read,
            8..16 => OpKind::Write,
            16 => OpKind::Discard,
            17 => OpKind::WriteZeroes,
            _ => OpKind::Flush,
        };
        let sectors = if kind == OpKind::Flush { 0 } else { sectors.min(drive.capacity().0 - start) };
        let command = Command { kind, range: SectorRange::new(start, sectors), fua };
        host.sent.insert(Token(serial as u64), (now, command, host.answered.clone()));
        drive.submit(now, Token(serial as u64), command);
        prop_assert!(drive.next_event().is_some_and(|event| event >= now));
    }
    while let Some(event) = drive.next_event() {
        prop_assert!(event >= now, "time runs forwards");
        now = event;
        let before = finished.len();
        drive.advance(now, &mut finished);
        host.check(&finished[before..], &drive)?;
    }
    prop_assert!(host.sent.is_empty(), "never finished: {:?}", host.sent);
    let statistics = drive.statistics(now);
    let served = statistics.reads + statistics.writes + statistics.flushes + statistics.discards;
    prop_assert_eq!(served, steps.len() as u64);
    prop_assert!(statistics.busy <= now);
    prop_assert!(drive.is_stable(SectorRange::new(0, drive.capacity().0)), "an idle drive has written everything");
    Ok(finished)
}

/// Host's view: commands sent and not finished, and sectors answered but not flushed.
#[derive(Default)]
struct Host {
    sent: BTreeMap<Token, (Nanoseconds, Command, BTreeSet<u64>)>,
    answered: BTreeSet<u64>,
    last: Nanoseconds,
}

impl Host {
    fn check(&mut self, finished: &[Finished], drive: &Hdd) -> Result<(), TestCaseError> {
        for done in finished {
            let sent = self.sent.remove(&done.token);
            prop_assert!(sent.is_some(), "{:?} finished twice", done.token);
            let (at, command, answered_before) = sent.unwrap();
            prop_assert!(done.at >= self.last, "in order of time");
            self.last = done.at;
            // The overhead is 0.1 ms, the bus takes 1.7 µs a sector and is no slower than the
            // medium.
            let bus = if matches!(command.kind, OpKind::Read | OpKind::Write) { command.range.len.0 * 1706 } else { 0 };
            prop_assert!(done.at - at >= Nanoseconds(100_000 + bus), "{command:?} took {}", done.at - at);
            prop_assert_eq!(done.status, Status::Done);
            let sectors = || command.range.start.0..command.range.end().0;
            match command.kind {
                OpKind::Write | OpKind::WriteZeroes => self.answered.extend(sectors()),
                OpKind::Flush => {
                    // A write to the same sectors that arrived after the flush may already be in
                    // the cache again.
                    let later: BTreeSet<u64> = self
                        .sent
                        .iter()
                        .filter(|(token, (_, command, _))| **token > done.token && command.kind.changes_content())
                        .flat_map(|(_, (_, command, _))| command.range.start.0..command.range.end().0)
                        .collect();
                    for sector in answered_before.iter().filter(|sector| !later.contains(sector)) {
                        prop_assert!(drive.is_stable(SectorRange::new(*sector, 1)), "{sector} was flushed");
                        self.answered.remove(sector);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every command finishes once, in order of time, and a flush leaves no write behind. The same
    /// input gives the same times.
    #[test]
    fn every_command_finishes_once_in_order_of_time(
        steps in steps(),
        scheduler in prop::sample::select(vec!["fcfs", "sstf", "clook", "sptf"]),
        depth in 1u32..6,
        write_cache: bool,
        spin_down: bool,
    ) {
        let drive = small_drive(scheduler, depth, write_cache, spin_down);
        let first = check_steps(&steps, drive.clone())?;
        let second = check_steps(&steps, drive)?;
        prop_assert_eq!(first, second, "the same input gives the same times");
    }
}
