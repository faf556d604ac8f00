//! Measures the speed of analysis and of generation: 4 KiB requests over 10 GiB, in memory, on one
//! core.

use std::hint::black_box;
use std::time::Duration;

use bimetal_core::units::Bytes;
use bimetal_trace::Request;
use bimetal_trace::analysis::Analyzer;
use bimetal_trace::synthetic::{Generator, Skew, WorkloadSpec};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Specifies 4 KiB requests at random places of 10 GiB, 60 % of them writes.
fn spec(requests: u64, skew: Skew) -> WorkloadSpec {
    WorkloadSpec { read_fraction: 0.4, skew, ..WorkloadSpec::new(requests, Bytes::from_gib(10)) }
}

fn generator(requests: u64, skew: Skew) -> Generator {
    Generator::new(&[spec(requests, skew)], 1).expect("the specification is sound")
}

fn analyze(criterion: &mut Criterion) {
    const REQUESTS: u64 = 10_000_000;
    let requests: Vec<Request> = generator(REQUESTS, Skew::Uniform).collect();
    let mut group = criterion.benchmark_group("analyze");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10).measurement_time(Duration::from_secs(20));
    group.bench_function("4KiB random over 10GiB", |bencher| {
        bencher.iter(|| {
            let mut analyzer = Analyzer::new(Bytes::from_kib(4)).expect("a power of two");
            requests.iter().for_each(|request| analyzer.request(request));
            black_box(analyzer.finish())
        });
    });
    group.finish();
}

fn generate(criterion: &mut Criterion) {
    const REQUESTS: u64 = 1_000_000;
    let mut group = criterion.benchmark_group("generate");
    group.throughput(Throughput::Elements(REQUESTS));
    for skew in ["uniform", "zipf:0.9", "hot:0.2,0.8"] {
        group.bench_function(skew, |bencher| {
            let skew = skew.parse().expect("a skew");
            bencher.iter(|| {
                for request in generator(REQUESTS, skew) {
                    black_box(request);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, analyze, generate);
criterion_main!(benches);
