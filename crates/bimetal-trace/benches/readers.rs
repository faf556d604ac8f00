//! Measures the speed of reading: requests a second from MSR CSV and from the compact binary, on
//! one core.

use std::io::Cursor;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_trace::write::{Content, Writer};
use bimetal_trace::{Format, OpenOptions, Request, Trace, formats};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const REQUESTS: u64 = 1_000_000;

/// Returns a trace of 4 KiB requests over 10 GiB, as the bytes of a file in `format`.
fn trace(format: &'static Format) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("bimetal-bench-readers-{format}-{}", std::process::id()));
    let mut writer = Writer::create(&path, format, Content::default()).unwrap();
    let mut state = 1u64;
    for number in 0..REQUESTS {
        // Knuth's MMIX generator; any even spread is good enough here.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (state >> 33) % (10 << 18);
        let kind = if state >> 63 == 0 { OpKind::Read } else { OpKind::Write };
        let arrival = Nanoseconds(number * 100_000 + (state >> 50));
        let range = SectorRange::new(block * 8, 8);
        writer.write(&Request { arrival, device: 0, kind, fua: false, range, response: None }).unwrap();
    }
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

fn read(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, format, bare) in [
        ("msr", &formats::msr::INFO, false),
        ("bin", &formats::bin::INFO, false),
        ("bin, bare", &formats::bin::INFO, true),
    ] {
        let mut bytes = trace(format);
        if bare {
            bytes = zstd::decode_all(&bytes[..]).unwrap();
        }
        group.bench_function(name, |b| {
            b.iter(|| {
                let options = OpenOptions::default();
                let trace = Trace::from_reader(name, Cursor::new(bytes.clone()), None, &options).unwrap();
                assert_eq!(
                    trace.map(Result::unwrap).filter(|request| request.range.len.0 == 8).count() as u64,
                    REQUESTS
                );
            });
        });
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
