//! How many requests a second the model of a flash drive serves, through the trait that the simulator uses.

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::{DEFAULT_SSD, Profile};
use bimetal_models::{DeviceModel, Finished};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const REQUESTS: u64 = 200_000;

/// Requests in the drive at any time.
const DEPTH: u64 = 32;

/// A drive that goes on where the last round left it.
struct Loop {
    drive: Box<dyn DeviceModel>,
    kind: OpKind,
    random: Option<Pcg64Mcg>,
    blocks: u64,
    issued: u64,
    now: Nanoseconds,
    finished: Vec<Finished>,
}

impl Loop {
    fn new(size: Bytes, precondition: Precondition, kind: OpKind, random: bool) -> Self {
        let mut profile = Profile::load(DEFAULT_SSD).expect("the default drive is built in");
        profile.set("spare_factor", "0.07").expect("a flash drive has a spare factor");
        let used = SectorRange { len: size.sectors(), ..SectorRange::default() };
        let drive = profile.build_preconditioned(Some(size.sectors()), precondition, used, 1).expect("the size fits");
        let blocks = drive.capacity().0 / 8;
        let random = random.then(|| Pcg64Mcg::new(1));
        let mut run = Self { drive, kind, random, blocks, issued: 0, now: Nanoseconds::ZERO, finished: Vec::new() };
        for _ in 0..DEPTH {
            run.issue();
        }
        run
    }

    fn issue(&mut self) {
        let block = match &mut self.random {
            Some(random) => ((u128::from(random.next_u64()) * u128::from(self.blocks)) >> 64) as u64,
            None => self.issued % self.blocks,
        };
        let command = Command { kind: self.kind, range: SectorRange::new(block * 8, 8), fua: false };
        self.drive.submit(self.now, Token(self.issued), command);
        self.issued += 1;
    }

    /// Serves `requests` more.
    fn serve(&mut self, requests: u64) {
        let end = self.issued + requests;
        let mut finished = std::mem::take(&mut self.finished);
        while self.issued < end {
            self.now = self.drive.next_event().expect("requests are outstanding");
            self.drive.advance(self.now, &mut finished);
            for _ in finished.drain(..) {
                self.issue();
            }
        }
        self.finished = finished;
    }
}

fn flash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flash, 4 KiB, spare factor 0.07");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, gib, precondition, kind, random) in [
        ("uniform overwrites, 10 GiB", 10, Precondition::Random, OpKind::Write, true),
        ("uniform overwrites, 64 GiB", 64, Precondition::Random, OpKind::Write, true),
        ("sequential writes, 64 GiB", 64, Precondition::Sequential, OpKind::Write, false),
        ("random reads, 64 GiB", 64, Precondition::Sequential, OpKind::Read, true),
        ("random reads after random writes, 64 GiB", 64, Precondition::Random, OpKind::Read, true),
    ] {
        let mut run = Loop::new(Bytes::from_gib(gib), precondition, kind, random);
        // Makes resident what the run touches: the figures are those of a drive that has been in use for long.
        if kind == OpKind::Write {
            run.serve(run.blocks + run.blocks / 4);
        }
        group.bench_function(name, |bencher| bencher.iter(|| run.serve(REQUESTS)));
        if let Some(flash) = run.drive.statistics(run.now).flash.filter(|flash| flash.host_bytes_written > Bytes::ZERO)
        {
            let amplification = flash.bytes_programmed.0 as f64 / flash.host_bytes_written.0 as f64;
            eprintln!("{name}: write amplification {amplification:.2}");
        }
    }
    group.finish();
}

criterion_group!(benches, flash);
criterion_main!(benches);
