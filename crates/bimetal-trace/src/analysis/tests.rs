use bimetal_core::operation::OpKind::{Discard, Flush, Read, Write, WriteZeroes};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Analyses a trace of one device: (seconds, operation, start, sectors).
fn analyse(requests: &[(f64, OpKind, u64, u64)]) -> Analysis {
    analyse_devices(&requests.iter().map(|&(at, kind, start, len)| (at, 0, kind, start, len)).collect::<Vec<_>>())
}

/// Analyses a trace: (seconds, device, operation, start, sectors).
fn analyse_devices(requests: &[(f64, u32, OpKind, u64, u64)]) -> Analysis {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap();
    for &(seconds, device, kind, start, len) in requests {
        analyzer.request(&Request {
            arrival: Nanoseconds::from_seconds_f64(seconds),
            device,
            kind,
            fua: false,
            range: SectorRange::new(start, len),
            response: None,
        });
    }
    analyzer.finish()
}

#[test]
fn the_example_of_griffin_section_3_2_saves_sixty_percent() {
    let example = [Write, Write, Write, Read, Write, Write].map(|kind| (0.0, kind, 0, 8));
    assert_eq!(analyse(&example).max_write_savings, Some(0.6));
}

#[test]
fn a_read_of_a_neighbour_does_not_end_a_run_of_writes() {
    let analysis = analyse(&[(0.0, Write, 0, 8), (1.0, Read, 8, 8), (2.0, Write, 0, 8)]);
    assert_eq!(analysis.max_write_savings, Some(0.5));
    assert_eq!(analysis.waw.map(|waw| waw.s30), Some(1.0));
    assert_eq!(analysis.raw, None);
}

#[test]
fn intervals_lie_between_successive_accesses_of_a_block() {
    let analysis = analyse(&[
        (0.0, Write, 0, 8),
        (31.0, Write, 0, 8),
        (32.0, Read, 0, 8),
        (33.0, Read, 0, 8),
        (34.0, Write, 0, 8),
        (5000.0, Read, 0, 8),
    ]);
    assert_eq!(analysis.waw, Some(Within { s30: 0.0, s60: 1.0, s900: 1.0, s3600: 1.0 }));
    assert_eq!(analysis.raw, Some(Within { s30: 0.5, s60: 0.5, s900: 0.5, s3600: 0.5 }));
}

#[test]
fn an_overwrite_is_one_even_after_a_read() {
    let analysis = analyse(&[(0.0, Write, 0, 8), (1.0, Read, 0, 8), (2.0, Write, 0, 8)]);
    assert_eq!(analysis.overwrites_in_top_1pct, Some(1.0));
    assert_eq!(analysis.max_write_savings, Some(0.0));
}

#[test]
fn a_request_counts_once_per_block_it_touches() {
    let analysis = analyse(&[(0.0, Read, 7, 2), (1.0, Write, 8, 1), (2.0, Write, 0, 24)]);
    assert_eq!(analysis.block_ios, 6);
    assert_eq!(analysis.read_fraction, Some(2.0 / 6.0));
    assert_eq!(analysis.request_read_fraction, Some(1.0 / 3.0));
    assert_eq!(analysis.footprint_bytes, 3 * 4096);
    assert_eq!(analysis.aligned_fraction, Some(1.0 / 3.0));
    assert_eq!(analysis.mean_request_bytes, Some(27.0 * 512.0 / 3.0));
}

/// A request is sequential to the previous request of its device and direction.
#[test]
fn request_is_sequential_to_the_last_of_device_and_kind() {
    let analysis = analyse_devices(&[
        (0.0, 0, Write, 0, 8),
        (1.0, 0, Read, 8, 8),  // the first read
        (2.0, 1, Write, 8, 8), // the first on its device
        (3.0, 0, Write, 8, 8), // follows the first
        (4.0, 0, Read, 16, 4), // follows the second
        (5.0, 0, Write, 8, 8), // again the same place
    ]);
    assert_eq!(analysis.sequential_fraction, Some(2.0 / 6.0));
    assert_eq!(analysis.random_write_fraction, Some(3.0 / 4.0));
}

#[test]
fn the_first_request_is_random_even_at_address_zero() {
    assert_eq!(analyse(&[(0.0, Write, 0, 8)]).sequential_fraction, Some(0.0));
}

#[test]
fn sizes_are_counted_by_the_power_of_two_that_holds_them() {
    let analysis = analyse(&[
        (0.0, Read, 0, 3),
        (0.0, Read, 0, 4),
        (0.0, Read, 0, 5),
        (0.0, Write, 0, 16),
        (0.0, Write, 0, 17),
        (0.0, Discard, 0, 1000),
    ]);
    let counts: Vec<_> = analysis.request_size_sectors.into_iter().collect();
    assert_eq!(counts, [(4, 2), (8, 1), (16, 1), (32, 1)]);
    let apart = analyse(&[(0.0, Read, 0, 1), (0.0, Read, 0, 8)]);
    assert_eq!(apart.request_size_sectors.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 0), (4, 0), (8, 1)]);
}

#[test]
fn flushes_and_discards_are_requests_but_touch_no_block() {
    let half_a_day = 43_200.0;
    let analysis = analyse(&[
        (0.0, Write, 0, 8),
        (1.0, Flush, 0, 0),
        (2.0, Discard, 0, 8 << 20),
        (3.0, WriteZeroes, 0, 8 << 30),
        (half_a_day, Write, 0, 8),
    ]);
    assert_eq!((analysis.requests, analysis.writes, analysis.flushes, analysis.discards), (5, 2, 1, 2));
    assert_eq!((analysis.block_ios, analysis.footprint_bytes), (2, 4096));
    assert_eq!(analysis.max_write_savings, Some(0.5));
    assert_eq!(analysis.mean_interarrival_ms, Some(half_a_day * 1000.0 / 4.0));
    assert_eq!(analysis.mean_request_bytes, Some(4096.0));
    assert_eq!(analysis.address_end_bytes, 4 << 40);
}

#[test]
fn figures_that_do_not_apply_are_null_in_json() {
    let analysis = serde_json::to_value(analyse(&[(0.0, Read, 0, 8), (1.0, Read, 0, 8)])).unwrap();
    for key in [
        "random_write_fraction",
        "max_write_savings",
        "overwrites_in_top_1pct",
        "reads_in_top_1pct",
        "waw",
        "raw",
        "overwrite_cdf",
        "top1pct_histogram",
        "waw_cdf",
        "raw_cdf",
    ] {
        assert_eq!(analysis.get(key), Some(&Value::Null), "{key}");
    }
    assert_eq!(analysis["read_fraction"], json!(1.0));
    assert_eq!(analysis["request_size_sectors"], json!({"8": 2}));
}

#[test]
fn a_trace_without_times_has_no_intervals() {
    let analysis = serde_json::to_value(analyse(&[(0.0, Write, 0, 8), (0.0, Write, 0, 8), (0.0, Read, 0, 8)])).unwrap();
    for key in ["mean_interarrival_ms", "duration_s", "waw", "raw", "waw_cdf", "raw_cdf"] {
        assert_eq!(analysis.get(key), Some(&Value::Null), "{key}");
    }
    assert_eq!(analysis["max_write_savings"], json!(0.5));
}

#[test]
fn an_empty_trace_has_no_shares() {
    let analysis = analyse(&[]);
    assert_eq!((analysis.requests, analysis.footprint_bytes, analysis.devices), (0, 0, 0));
    assert_eq!((analysis.read_fraction, analysis.sequential_fraction), (None, None));
    assert!(analysis.request_size_sectors.is_empty());
}

#[test]
fn json_has_the_keys_of_the_contract() {
    let analysis =
        serde_json::to_value(analyse(&[(0.0, Write, 0, 8), (40.0, Write, 0, 8), (41.0, Read, 0, 8)])).unwrap();
    for key in [
        "requests",
        "block_ios",
        "read_fraction",
        "request_read_fraction",
        "mean_request_bytes",
        "mean_interarrival_ms",
        "duration_s",
        "footprint_bytes",
        "sequential_fraction",
        "random_write_fraction",
        "request_size_sectors",
        "aligned_fraction",
        "max_write_savings",
        "overwrites_in_top_1pct",
        "reads_in_top_1pct",
        "waw",
        "raw",
        "overwrite_cdf",
        "top1pct_histogram",
        "waw_cdf",
        "raw_cdf",
    ] {
        assert!(analysis.get(key).is_some_and(|value| !value.is_null()), "{key}");
    }
    assert_eq!(analysis["waw"], json!({"30": 0.0, "60": 1.0, "900": 1.0, "3600": 1.0}));
    assert_eq!(analysis["waw_cdf"], json!([[40.0, 1.0]]));
    assert_eq!(analysis["top1pct_histogram"], json!([{"blocks": 1, "writes": 2, "reads": 1}]));
    assert_eq!(analysis.get("files"), None);
}

#[test]
fn files_are_ranked_by_overwrites_with_their_intervals() {
    let map = FileMap::read("map.csv", "0,4096,/calm\n4096,8192,/busy\n".as_bytes()).unwrap();
    let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap().with_files(map);
    let accesses = [(0, Write, 0), (1, Write, 8), (2, Write, 16), (50, Write, 8), (60, Write, 16), (99, Read, 16)];
    for (seconds, kind, start) in accesses {
        let arrival = Nanoseconds::from_seconds(seconds);
        let range = SectorRange::new(start, 8);
        analyzer.request(&Request { arrival, device: 0, kind, fua: false, range, response: None });
    }
    let files = analyzer.finish().files.unwrap();
    assert_eq!(files.len(), 1, "a file without overwrites is not listed");
    assert_eq!((files[0].path.as_str(), files[0].overwrites), ("/busy", 2));
    assert_eq!((files[0].block_writes, files[0].block_reads), (4, 1));
    assert_eq!(files[0].waw, Some(Within { s30: 0.0, s60: 1.0, s900: 1.0, s3600: 1.0 }));
    assert_eq!(files[0].raw, Some(Within { s30: 0.0, s60: 1.0, s900: 1.0, s3600: 1.0 }));
}

#[test]
fn a_map_of_files_does_not_apply_to_several_devices() {
    let map = FileMap::read("map.csv", "0,4096,/a\n".as_bytes()).unwrap();
    let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap().with_files(map);
    for device in [0, 1] {
        let range = SectorRange::new(0, 8);
        let arrival = Nanoseconds::ZERO;
        analyzer.request(&Request { arrival, device, kind: Write, fua: false, range, response: None });
    }
    assert_eq!(analyzer.finish().files, None);
}

#[test]
fn block_sizes_that_are_no_power_of_two_are_refused() {
    for bytes in [0, 256, 1000, 5000, 6144] {
        let error = Analyzer::new(Bytes(bytes)).err().expect("refused").to_string();
        assert!(error.contains("expected a power of two of at least 512 bytes"), "{error}");
    }
    let mut analyzer = Analyzer::new(Bytes(512)).unwrap();
    let range = SectorRange::new(0, 8);
    let arrival = Nanoseconds::ZERO;
    analyzer.request(&Request { arrival, device: 0, kind: Write, fua: false, range, response: None });
    assert_eq!(analyzer.finish().block_ios, 8);
}

/// Access of the property test: device, set for a write, first block, number of blocks.
fn accesses() -> impl Strategy<Value = Vec<(u32, bool, u64, u64)>> {
    let near = |border: u64| border.saturating_sub(2)..border + 3;
    let first = prop_oneof![
        0u64..5000,
        (0u64..5).prop_map(|region| region * 1024),
        (0u64..5).prop_flat_map(move |r| near(r * 1024))
    ];
    let count = prop_oneof![1u64..20, 1020u64..1030, 2000u64..4200];
    prop::collection::vec((0u32..2, any::<bool>(), first, count), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Figures, files and histories equal those of a table with an entry for each block. Blocks are
    /// sectors, so that a region is no larger than it must be.
    #[test]
    fn blocks_that_share_a_state_count_like_single_ones(accesses in accesses()) {
        let map = || FileMap::read("map.csv", "0,614400,/a\n614400,700000,/b\n1900000,512,/c\n".as_bytes()).unwrap();
        let mut analyzer = Analyzer::new(Bytes(512)).unwrap().with_files(map());
        let mut plain = Analyzer::new(Bytes(512)).unwrap().with_files(map()).effects;
        let mut states = std::collections::BTreeMap::new();
        for (second, &(device, is_write, first, count)) in accesses.iter().enumerate() {
            let (arrival, kind) = (Nanoseconds::from_seconds(7 * second as u64), if is_write { Write } else { Read });
            let range = SectorRange::new(first, count);
            analyzer.request(&Request { arrival, device, kind, fua: false, range, response: None });
            for block in first..first + count {
                let state = states.entry((device, block)).or_insert_with(BlockState::default);
                plain.access(arrival, is_write, (block, 1), state);
            }
        }
        analyzer.access_blocks();
        prop_assert!(analyzer.blocks.in_order().eq(states.values()));
        prop_assert_eq!(analyzer.blocks.touched().count(), states.len());
        prop_assert_eq!(analyzer.effects.write_runs, plain.write_runs);
        prop_assert_eq!(analyzer.effects.waw.cdf(), plain.waw.cdf());
        prop_assert_eq!(analyzer.effects.raw.cdf(), plain.raw.cdf());
        prop_assert_eq!(analyzer.effects.files.unwrap().finish(true), plain.files.unwrap().finish(true));
    }
}

/// Regression: each block had its own state, so that 1,260 reads of 165 MiB each took 1.3 GiB.
#[test]
fn enormous_requests_share_states_until_a_part_is_accessed() {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap();
    let mut request = |second: u64, start: u64, len: u64| {
        let (arrival, range) = (Nanoseconds::from_seconds(second), SectorRange::new(start, len));
        analyzer.request(&Request { arrival, device: 0, kind: Write, fua: false, range, response: None });
        analyzer.access_blocks();
        analyzer.blocks.groups_in_memory()
    };
    // 165 regions of 4 MiB, twice.
    assert_eq!(request(0, 0, 165 * 8192), 0);
    assert_eq!(request(1, 0, 165 * 8192), 0);
    assert_eq!(request(2, 8192, 8), 256, "one region has its blocks apart");
    assert_eq!(request(3, 0, 165 * 8192), 256);
    assert_eq!(analyzer.finish().footprint_bytes, 165 << 22);
}
