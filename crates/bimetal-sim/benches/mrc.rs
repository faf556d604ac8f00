//! Miss-ratio curves of 20 million Zipf-distributed requests over two million blocks, in memory.
//! Measured are the exact LRU curve and the LRU curve of a 1 % sample. The other policies have one
//! cache size and 2 million requests.

use std::hint::black_box;
use std::io;

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_sim::mrc::{CacheSize, Options, Unit, measure, policies};
use bimetal_trace::Request;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const BLOCKS: usize = 2_000_000;

/// Returns Zipf-distributed requests: the chance of a block is its rank to the power of `-skew`.
fn zipf(requests: usize, skew: f64) -> Vec<Request> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=BLOCKS)
        .map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        })
        .collect();
    let mut state = 1u64;
    let request = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = (state >> 11) as f64 / (1u64 << 53) as f64 * sum;
        let rank = sums.partition_point(|&sum| sum < drawn) as u64;
        // Neighbouring ranks lie far apart on the drive.
        let block = rank * 7_368_787 % BLOCKS as u64;
        let range = SectorRange::new(block * 8, 8);
        Request { arrival: Nanoseconds(0), device: 0, kind: OpKind::Read, fua: false, range, response: None }
    };
    (0..requests).map(request).collect()
}

fn run(requests: &[Request], policy: &'static str, sample: f64) {
    let sizes = vec![CacheSize::Share(0.01), CacheSize::Share(0.1), CacheSize::Share(0.3)];
    let sizes = if policy == "lru" { sizes } else { sizes[1..2].to_vec() };
    let options = Options { policies: vec![policy], sizes, unit: Unit::Block(BlockSize::default()), sample, seed: 0 };
    let mut rest = requests.iter().copied();
    let read = |batch: &mut Vec<Request>| {
        batch.extend(rest.by_ref().take(batch.capacity()));
        Ok::<_, io::Error>(())
    };
    black_box(measure(&options, read).expect("a temporary file"));
}

fn curves(criterion: &mut Criterion) {
    let requests = zipf(20_000_000, 0.9);
    let mut group = criterion.benchmark_group("mrc");
    group.sample_size(10).throughput(Throughput::Elements(requests.len() as u64));
    group.bench_function("lru, exact", |bencher| bencher.iter(|| run(&requests, "lru", 1.0)));
    group.bench_function("lru, 1 % sample", |bencher| bencher.iter(|| run(&requests, "lru", 0.01)));
    let few = &requests[..2_000_000];
    group.throughput(Throughput::Elements(few.len() as u64));
    for policy in policies().filter(|&policy| policy != "lru") {
        group.bench_function(format!("{policy}, one size"), |bencher| bencher.iter(|| run(few, policy, 1.0)));
    }
    group.finish();
}

criterion_group!(benches, curves);
criterion_main!(benches);
