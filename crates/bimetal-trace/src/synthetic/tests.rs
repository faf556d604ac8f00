use bimetal_core::units::Bytes;

use super::*;
use crate::analysis::{Analysis, Analyzer};

fn spec(requests: u64, footprint: Bytes) -> WorkloadSpec {
    WorkloadSpec::new(requests, footprint)
}

fn generate(spec: WorkloadSpec, seed: u64) -> Generator {
    Generator::new(&[spec], seed).unwrap()
}

fn analyse(requests: impl Iterator<Item = Request>) -> Analysis {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap();
    requests.for_each(|request| analyzer.request(&request));
    analyzer.finish()
}

#[track_caller]
fn assert_near(actual: Option<f64>, expected: f64, tolerance: f64) {
    let actual = actual.expect("the figure applies");
    assert!((actual - expected).abs() <= tolerance, "{actual} is not within {tolerance} of {expected}");
}

/// Returns the FNV-1a hash of every field of the requests.
fn fingerprint(requests: impl Iterator<Item = Request>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for request in requests {
        let kind = u64::from(request.kind == OpKind::Write);
        let range = request.range;
        for field in [request.arrival.get(), request.device.into(), kind, range.start.get(), range.len.get()] {
            for byte in field.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    hash
}

/// Specifies a workload in which every kind of draw occurs.
fn everything(requests: u64) -> Vec<WorkloadSpec> {
    let zipf = WorkloadSpec {
        read_fraction: 0.3,
        size: "4KiB:0.7,64KiB:0.3".parse().unwrap(),
        sequential: 0.2,
        interarrival: "bursty:1ms,10,1s".parse().unwrap(),
        skew: "zipf:0.9".parse().unwrap(),
        ..spec(requests, Bytes::from_gib(1))
    };
    let hot = WorkloadSpec {
        interarrival: "poisson:1ms".parse().unwrap(),
        skew: "hot:0.2,0.8".parse().unwrap(),
        ..spec(requests, Bytes::from_mib(64))
    };
    vec![zipf, hot]
}

#[test]
fn the_stream_of_a_seed_stays_the_same_for_ever() {
    let first_thousand = Generator::new(&everything(500), 42).unwrap();
    assert_eq!(fingerprint(first_thousand), 0xfd5f_e46f_bc6f_4ad1);
}

#[test]
fn a_seed_gives_the_same_requests_again_and_another_seed_others() {
    let of_seed = |seed| fingerprint(Generator::new(&everything(200), seed).unwrap());
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
}

/// A phase with its own seed does not depend on the seed of the workload.
#[test]
fn phase_seed_overrides_the_workload_seed() {
    let seeded = WorkloadSpec { seed: Some(9), ..spec(100, Bytes::from_mib(64)) };
    assert_eq!(fingerprint(generate(seeded.clone(), 1)), fingerprint(generate(seeded, 2)));
}

#[test]
fn equal_phases_draw_different_requests() {
    let phase = spec(100, Bytes::from_gib(1));
    let requests: Vec<Request> = Generator::new(&[phase.clone(), phase], 5).unwrap().collect();
    let starts = |part: &[Request]| part.iter().map(|request| request.range.start).collect::<Vec<_>>();
    assert_ne!(starts(&requests[..100]), starts(&requests[100..]));
}

#[test]
fn generator_gives_the_requested_number_from_time_zero() {
    let mut generator = Generator::new(&everything(50), 3).unwrap();
    assert_eq!(generator.size_hint(), (100, Some(100)));
    assert_eq!(generator.next().map(|request| request.arrival), Some(Nanoseconds::ZERO));
    assert_eq!(generator.size_hint(), (99, Some(99)));
    assert_eq!(generator.count(), 99);
}

#[test]
fn phases_follow_each_other_without_a_step_back_in_time() {
    let writes = WorkloadSpec { read_fraction: 0.0, ..spec(10, Bytes::from_mib(1)) };
    let reads = WorkloadSpec {
        read_fraction: 1.0,
        interarrival: "constant:1s".parse().unwrap(),
        ..spec(5, Bytes::from_gib(1))
    };
    let requests: Vec<Request> = Generator::new(&[writes, reads], 0).unwrap().collect();
    assert!(requests[..10].iter().all(|request| request.kind == OpKind::Write));
    assert!(requests[10..].iter().all(|request| request.kind == OpKind::Read));
    assert!(requests[..10].iter().all(|request| request.range.end().bytes() <= Bytes::from_mib(1)));
    assert_eq!(requests[10].arrival, requests[9].arrival + Nanoseconds::from_seconds(1));
    assert!(requests.is_sorted_by_key(|request| request.arrival));
}

#[test]
fn analysis_finds_the_fractions_of_its_specification() {
    for (read_fraction, sequential) in [(0.0, 0.0), (0.3, 0.5), (0.65, 0.1), (1.0, 0.9)] {
        let spec = WorkloadSpec { read_fraction, sequential, ..spec(200_000, Bytes::from_gib(4)) };
        let analysis = analyse(generate(spec, 11));
        assert_near(analysis.request_read_fraction, read_fraction, 0.005);
        assert_near(analysis.read_fraction, read_fraction, 0.005);
        assert_near(analysis.sequential_fraction, sequential, 0.005);
        assert_eq!(analysis.aligned_fraction, Some(1.0));
    }
}

#[test]
fn analysis_finds_the_size_mix_of_its_specification() {
    let size = "4KiB:0.7,64KiB:0.2,1KiB:0.1".parse().unwrap();
    let analysis = analyse(generate(WorkloadSpec { size, ..spec(200_000, Bytes::from_gib(1)) }, 12));
    for (sectors, share) in [(2, 0.1), (8, 0.7), (128, 0.2)] {
        assert_near(Some(analysis.request_size_sectors[&sectors] as f64 / 200_000.0), share, 0.005);
    }
    assert_near(analysis.mean_request_bytes, 1024.0 * (4.0 * 0.7 + 64.0 * 0.2 + 0.1), 200.0);
}

#[test]
fn analysis_finds_the_mean_interarrival_of_its_specification() {
    for (text, mean_ms) in [("constant:250us", 0.25), ("poisson:2ms", 2.0), ("bursty:1ms,100,1s", 10.99)] {
        let interarrival: Interarrival = text.parse().unwrap();
        assert!((interarrival.mean_ns() - mean_ms * 1e6).abs() < 1.0);
        let spec = WorkloadSpec { interarrival, ..spec(100_000, Bytes::from_gib(1)) };
        assert_near(analyse(generate(spec, 13)).mean_interarrival_ms, mean_ms, mean_ms * 0.02);
    }
}

#[test]
fn bursts_have_their_length_and_their_pauses() {
    let spec = WorkloadSpec { interarrival: "bursty:1ms,7,10s".parse().unwrap(), ..spec(700, Bytes::from_mib(1)) };
    let arrivals: Vec<Nanoseconds> = generate(spec, 14).map(|request| request.arrival).collect();
    let pause = Nanoseconds::from_seconds(10);
    for (index, pair) in arrivals.windows(2).enumerate() {
        assert_eq!(pair[1] - pair[0] == pause, index % 7 == 6, "before request {}", index + 2);
        assert!(pair[1] - pair[0] <= pause);
    }
}

#[test]
fn poisson_gaps_vary_as_much_as_their_mean() {
    let spec = WorkloadSpec { interarrival: "poisson:1ms".parse().unwrap(), ..spec(100_000, Bytes::from_mib(1)) };
    let arrivals: Vec<f64> = generate(spec, 15).map(|request| request.arrival.as_millis_f64()).collect();
    let gaps: Vec<f64> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let variance = gaps.iter().map(|gap| (gap - 1.0).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert_near(Some(variance.sqrt()), 1.0, 0.02);
}

/// Returns the accesses of each 4 KiB block, most accessed first.
fn accesses_by_rank(requests: impl Iterator<Item = Request>, blocks: usize) -> Vec<u64> {
    let mut accesses = vec![0; blocks];
    for request in requests {
        for block in request.range.start.get() / 8..request.range.end().get().div_ceil(8) {
            accesses[block as usize] += 1;
        }
    }
    accesses.sort_unstable_by(|a, b| b.cmp(a));
    accesses
}

#[test]
fn hot_blocks_get_their_share_of_the_accesses() {
    for size in ["4KiB", "32KiB", "4KiB:0.5,16KiB:0.5"] {
        let skew = "hot:0.2,0.8".parse().unwrap();
        let spec = WorkloadSpec { skew, size: size.parse().unwrap(), ..spec(400_000, Bytes::from_mib(5)) };
        let accesses = accesses_by_rank(generate(spec, 16), 1280);
        let share = accesses[..1280 / 5].iter().sum::<u64>() as f64 / accesses.iter().sum::<u64>() as f64;
        assert_near(Some(share), 0.8, 0.01);
    }
}

#[test]
fn zipf_blocks_are_accessed_in_proportion_to_their_rank() {
    for theta in [0.5, 0.9, 1.0, 1.2] {
        let spec = WorkloadSpec { skew: Skew::Zipf(theta), ..spec(500_000, Bytes::from_mib(4)) };
        let accesses = accesses_by_rank(generate(spec, 17), 1024);
        let total: f64 = (1..=1024).map(|rank| f64::from(rank).powf(-theta)).sum();
        for ranks in [1, 10, 100] {
            let expected = (1..=ranks).map(|rank| f64::from(rank).powf(-theta)).sum::<f64>() / total;
            let held = accesses[..ranks as usize].iter().sum::<u64>() as f64 / 500_000.0;
            assert!((held / expected - 1.0).abs() < 0.1, "theta {theta}, {ranks} ranks: {held} of {expected}");
        }
    }
}

#[test]
fn uniform_accesses_reach_the_whole_footprint_alike() {
    let accesses = accesses_by_rank(generate(spec(1_024_000, Bytes::from_mib(4)), 18), 1024);
    assert!(accesses[0] < 1200 && accesses[1023] > 800, "{} to {}", accesses[0], accesses[1023]);
}

#[test]
fn a_workload_as_large_as_its_footprint_stays_within_it() {
    let size = "64KiB".parse().unwrap();
    let spec = WorkloadSpec { size, sequential: 1.0, ..spec(1000, Bytes::from_kib(64)) };
    assert!(generate(spec, 19).all(|request| request.range == SectorRange::new(0, 128)));
}

/// A sequential workload goes through the footprint and starts again at its end.
#[test]
fn sequential_workload_restarts_at_the_end_of_its_footprint() {
    let spec = WorkloadSpec { sequential: 1.0, read_fraction: 0.0, ..spec(10_000, Bytes::from_mib(16)) };
    let requests: Vec<Request> = generate(spec, 20).collect();
    for pair in requests.windows(2) {
        let at_end = pair[0].range.end().bytes() == Bytes::from_mib(16);
        assert!(at_end || pair[1].range.start == pair[0].range.end());
    }
}

#[test]
fn errors_name_the_phase_where_there_are_several() {
    let bad = WorkloadSpec { sequential: 2.0, ..spec(1, Bytes::from_mib(1)) };
    let message = |phases: &[WorkloadSpec]| Generator::new(phases, 0).err().expect("refused").to_string();
    assert_eq!(message(std::slice::from_ref(&bad)), "sequential '2': expected a fraction from 0 to 1");
    assert_eq!(
        message(&[spec(1, Bytes::from_mib(1)), bad]),
        "phase 2: sequential '2': expected a fraction from 0 to 1"
    );
    assert_eq!(message(&[]), "phase 'none': expected at least one [[phase]]");
}
