//! Measures how many requests a second the model of a hard disk serves, through the trait that the
//! simulator uses.

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_models::profile::{DEFAULT_HDD, Profile};
use bimetal_models::{DeviceModel, Finished};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const REQUESTS: u64 = 20_000;

fn drive(settings: &[(&str, &str)]) -> Box<dyn DeviceModel> {
    let mut profile = Profile::load(DEFAULT_HDD).expect("the default drive is built in");
    profile.set_all(settings.iter().copied()).expect("the benchmark sets keys that exist");
    profile.build(None, 0).expect("the default drive can be built")
}

/// Keeps `depth` random 4 KiB requests in the drive until all are served. Returns the last
/// completion.
fn closed_loop(mut drive: Box<dyn DeviceModel>, depth: u64, write_every: u64) -> Nanoseconds {
    let mut random = Pcg64Mcg::new(1);
    let blocks = drive.capacity().0 / 8;
    let mut finished: Vec<Finished> = Vec::with_capacity(64);
    let mut issue = |drive: &mut Box<dyn DeviceModel>, now, serial: u64| {
        let block = ((u128::from(random.next_u64()) * u128::from(blocks)) >> 64) as u64;
        let write = write_every != 0 && serial.is_multiple_of(write_every);
        let kind = if write { OpKind::Write } else { OpKind::Read };
        drive.submit(now, Token(serial), Command { kind, range: SectorRange::new(block * 8, 8), fua: false });
    };
    for serial in 0..depth {
        issue(&mut drive, Nanoseconds::ZERO, serial);
    }
    let (mut issued, mut served, mut now) = (depth, 0, Nanoseconds::ZERO);
    while served < REQUESTS {
        now = drive.next_event().expect("requests are outstanding");
        drive.advance(now, &mut finished);
        for _ in finished.drain(..) {
            served += 1;
            issue(&mut drive, now, issued);
            issued += 1;
        }
    }
    now
}

fn random_requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hdd, random 4 KiB");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(20);
    let no_cache: &[(&str, &str)] = &[("write_cache", "off"), ("read_ahead", "0")];
    for (name, settings, depth, write_every) in [
        ("closed loop, no cache", no_cache, 1, 0),
        ("closed loop, as shipped", &[], 1, 0),
        ("closed loop, half writes, write cache", &[], 1, 2),
        ("C-LOOK, depth 32", &[("scheduler", "clook")], 32, 0),
        ("C-LOOK, depth 1024", &[("scheduler", "clook"), ("queue_depth", "1024")], 1024, 0),
        ("SSTF, depth 32", &[("scheduler", "sstf")], 32, 0),
        ("SPTF, depth 32", &[("scheduler", "sptf")], 32, 0),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || drive(settings),
                |drive| closed_loop(drive, depth, write_every),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, random_requests);
criterion_main!(benches);
