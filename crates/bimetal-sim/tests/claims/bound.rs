//! Parameters that several schemes have: replacement and its bound, admission, and the rate of
//! moves.

use bimetal_core::policies::replacement::{OFFLINE_NAME, ONLINE_NAMES};
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_core::units::Bytes;
use bimetal_trace::Request;

use crate::common::{Bench, bypassed, count, read, scattered, some, write};

const SSD: Bytes = Bytes::from_mib(8);

fn having(key: &str) -> impl Iterator<Item = &'static SchemeInfo> {
    schemes::ALL.iter().copied().filter(move |info| info.parameters.iter().any(|parameter| parameter.name == key))
}

/// Returns reads that hit some blocks far more often than others, mixed with sequential passes over
/// many blocks.
fn reads() -> Vec<Request> {
    let uneven = |at: u64| scattered(at, 64) * scattered(at + 1_000_000, 64);
    let hot = (0..12_000).map(|at| read(40 * at, uneven(at), 1));
    let pass = (0..6000).map(|at| read(80 * at + 20, 4096 + at * 2 % 8192, 1));
    hot.chain(pass).chain([read(0, 16_383, 1)]).collect()
}

/// Belady's MIN in a plain read cache: "the optimal replacement" (Belady 1966; Mattson et al.
/// 1970).
#[test]
fn no_policy_beats_belady_in_a_read_cache() {
    let bench = Bench::new("smart-response", &[("stream_bypass", "off")], reads()).ssd(SSD);
    let hits = |policy: &str| some(bench.run(&[("replacement", policy)]).ssd_hit_ratio.read);
    let bound = hits(OFFLINE_NAME);
    for policy in ONLINE_NAMES {
        let hits = hits(policy);
        eprintln!("{policy} {hits:.4} of {bound:.4}");
        assert!(hits < bound, "{policy} hits {hits}, the bound {bound}");
    }
}

/// Belady's MIN bounds each scheme that replaces blocks, and the policies differ from each other.
#[test]
fn no_policy_beats_belady_in_any_scheme_that_replaces_blocks() {
    for info in having("replacement") {
        let settings: &[(&str, &str)] = match info.name {
            "smart-response" => &[("stream_bypass", "off")],
            // A partial flush frees only the pages that a write needs; a full flush would empty the
            // flash.
            "hybrid-disk" => &[("flush", "partial")],
            "dataplex" => &[("learning", "off")],
            "bcache" => &[("sequential_cutoff", "off"), ("bucket_size", "4KiB")],
            other => panic!("{other} has a replacement that this test does not know"),
        };
        // The hybrid disk caches only writes.
        let mut workload = reads();
        if info.name == "hybrid-disk" {
            workload = workload
                .iter()
                .flat_map(|read| {
                    let (at, block) = (read.arrival.0 / 1_000_000, read.range.start.0 / 8);
                    [*read, write(at + 5, block, 1)]
                })
                .collect();
        }
        let bench = Bench::new(info.name, settings, workload).ssd(SSD);
        let hits = |policy: &str| some(bench.run(&[("replacement", policy)]).ssd_hit_ratio.read);
        let figures: Vec<f64> = ONLINE_NAMES.iter().map(|policy| hits(policy)).collect();
        eprintln!("{} {figures:.4?}", info.name);
        let mut distinct = figures.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        assert!(distinct.len() > 7, "{}: {figures:?}", info.name);
        // The bound is unknown for buckets: Belady's MIN knows the next use of a block, not of a
        // bucket.
        if info.name != "bcache" {
            let bound = hits(OFFLINE_NAME);
            assert!(figures.iter().all(|&hits| hits < bound), "{}: {figures:?}, the bound {bound}", info.name);
        }
    }
}

/// Each admission rule keeps blocks out of the SSD, and counts them under its own reason.
#[test]
fn every_admission_rule_keeps_its_blocks_out() {
    let large = (0..100).map(|at| write(100 * at, 8192 + at * 64, 32));
    let stream = (0..400).map(|at| write(25 * at + 5, 4000 + at * 4, 4));
    let small = (0..400).map(|at| write(25 * at + 15, scattered(at, 800) * 2, 1));
    let workload: Vec<Request> = large.chain(stream).chain(small).chain([read(0, 16_383, 1)]).collect();
    let rules = [
        ("write-size:64KiB", "large"),
        ("n-hit:3", "few-hits"),
        ("sequential:256KiB", "sequential"),
        ("wear-budget:1MiB/d", "wear-budget"),
    ];
    for info in having("admission") {
        let own: &[(&str, &str)] = match info.name {
            "smart-response" => &[("stream_bypass", "off")],
            "bcache" => &[("sequential_cutoff", "off")],
            "hybrid-disk" => &[("write_threshold", "off")],
            _ => &[],
        };
        let bench = Bench::new(info.name, own, workload.clone()).ssd(SSD);
        let all = bench.run(&[]);
        for (rule, reason) in rules {
            let run = bench.run(&[("admission", rule)]);
            let (kept_out, before) = (bypassed(&run, reason), bypassed(&all, reason));
            assert!(
                kept_out > before && kept_out > 100,
                "{} {rule}: {kept_out} blocks, {before} without it",
                info.name
            );
            let written = |run: &bimetal_sim::results::Run| count(run.devices.ssd.write_bytes);
            assert!(written(&run) < written(&all), "{} {rule}", info.name);
        }
    }
}

/// "Moves home write no more than this in a second."
#[test]
fn moves_home_are_no_faster_than_their_rate_in_every_scheme() {
    // 16 MiB are written in eight seconds. In the minute after, a block is read now and then.
    let burst = (0..4096).map(|at| write(2 * at, at * 2, 1));
    let after = (0..60).map(|at| read(9000 + 1000 * at, 16_383, 1));
    let workload: Vec<Request> = burst.chain(after).collect();
    for info in having("move_rate") {
        let own: &[(&str, &str)] = match info.name {
            "smart-response" => &[("mode", "maximized")],
            "hybrid-disk" => &[("flush", "idle"), ("idle", "100ms")],
            "os-managed" => &[("flush_period", "10s")],
            "griffin" => &[("timeout", "10s")],
            "bcache" => &[("writeback_percent", "0"), ("writeback_delay", "1s")],
            "writeboost" | "smq" => &[("idle", "100ms")],
            // MixedStore moves home only cold pages from fragmented flash. The volume limits these
            // moves by the same mechanism that the other schemes show.
            "mixedstore" => continue,
            other => panic!("{other} has a move_rate that this test does not know"),
        };
        let bench = Bench::new(info.name, own, workload.clone());
        // Griffin's SSD is home, so it is as large as the addresses.
        let bench = if info.name == "griffin" { bench } else { bench.ssd(Bytes::from_mib(48)) };
        // The only writes to home are moves: all writes of the host go to the other drive.
        let moved = |rate: &str| {
            let run = bench.run(&[("move_rate", rate)]);
            count(if info.name == "griffin" { run.devices.ssd.write_bytes } else { run.devices.hdd.write_bytes })
        };
        let figures = ["off", "128KiB", "64KiB"].map(moved);
        // Most that 68 s allow, and 1 MiB that one batch may be ahead.
        let most = |kib: f64| kib * 1024.0 * 68.0 + 1_048_576.0;
        assert!(figures[0] > 15e6, "{} moves only {figures:?}", info.name);
        assert!(figures[1] <= most(128.0) && figures[2] <= most(64.0), "{} moves {figures:?}", info.name);
        assert!(figures[0] > figures[1] && figures[1] > figures[2], "{} moves {figures:?}", info.name);
    }
}
