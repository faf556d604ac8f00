//! Measures the cost of the model of a flash drive, through the trait that the simulator uses: one
//! table, with each figure beside its target. Rates are by the time that this thread had a core, if
//! the system reports it.

use std::time::Instant;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::{DEFAULT_SSD, Profile};
use bimetal_models::{DeviceModel, Finished};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Number of requests in the drive at any time.
const DEPTH: u64 = 32;

fn main() {
    // `cargo test` also runs benchmarks, to check that they build; it omits this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("flash, {DEFAULT_SSD}, 4 KiB, spare factor 0.07, {DEPTH} requests at a time, one core\n");
    println!("{:<58} {:>10} {:>10}", "", "measured", "to reach");
    // Memory comes first, while no memory of earlier measurements can be reused.
    memory();
    // A drive that has been in use for long: the pages that the run touches are resident.
    for (gib, wanted) in [(10, 400.0), (64, 400.0)] {
        let mut run = Run::new(gib, Precondition::Random, &[], OpKind::Write, true);
        run.serve(run.blocks + run.blocks / 4);
        run.report(&format!("uniform overwrites, {gib} GiB"), 3_000_000, wanted);
    }
    let mut run = Run::new(1024, Precondition::Random, &[], OpKind::Write, true);
    run.serve(1_000_000);
    run.report("uniform overwrites, 1 TiB, as constructed", 3_000_000, 150.0);
    for (name, precondition, kind, random) in [
        ("sequential writes, 64 GiB", Precondition::Sequential, OpKind::Write, false),
        ("random reads, 64 GiB", Precondition::Sequential, OpKind::Read, true),
        ("random reads after random writes, 64 GiB", Precondition::Random, OpKind::Read, true),
    ] {
        Run::new(64, precondition, &[], kind, random).report(name, 3_000_000, 400.0);
    }
    let dftl = [("ftl", "dftl"), ("map_cache", "16MiB")];
    Run::new(64, Precondition::Random, &dftl, OpKind::Write, true).report(
        "uniform overwrites, 64 GiB, dftl, 1/8 cached",
        1_000_000,
        57.0,
    );
    for ftl in ["fast", "log-block"] {
        merges(ftl);
    }
    ["64", "256"].into_iter().for_each(steady_state);
    discards();
}

/// Returns the default drive with little spare area.
fn profile(settings: &[(&str, &str)]) -> Profile {
    let mut profile = Profile::load(DEFAULT_SSD).expect("the default drive is built in");
    let settings = [&[("spare_factor", "0.07")], settings].concat();
    profile.set_all(settings).expect("a flash drive has these keys");
    profile
}

/// Drive that each round continues to use.
struct Run {
    drive: Box<dyn DeviceModel>,
    kind: OpKind,
    random: Option<Pcg64Mcg>,
    blocks: u64,
    issued: u64,
    now: Nanoseconds,
    finished: Vec<Finished>,
}

impl Run {
    fn new(gib: u64, precondition: Precondition, settings: &[(&str, &str)], kind: OpKind, random: bool) -> Self {
        let profile = profile(settings);
        let size = Bytes::from_gib(gib).sectors();
        let used = SectorRange { len: size, ..SectorRange::default() };
        Self::over(
            profile.build_preconditioned(Some(size), precondition, used, 1).expect("the size fits"),
            kind,
            random,
        )
    }

    fn over(drive: Box<dyn DeviceModel>, kind: OpKind, random: bool) -> Self {
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

    /// Serves `requests` more requests.
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

    /// Returns bytes programmed and written by the host, and pages read or programmed, so far.
    fn done(&self) -> (f64, f64, f64) {
        let Some(flash) = self.drive.statistics(self.now).flash else { return (0.0, 0.0, 0.0) };
        let programmed: u64 = flash.pages_programmed_by_cause.iter().map(|(_, pages)| pages).sum();
        // Each page that is moved is read.
        let pages = 2 * programmed - flash.pages_programmed_host;
        (flash.bytes_programmed.0 as f64, flash.host_bytes_written.0 as f64, pages as f64)
    }

    /// Returns the write amplification over `requests` more requests.
    fn amplification(&mut self, requests: u64) -> f64 {
        let before = self.done();
        self.serve(requests);
        let after = self.done();
        (after.0 - before.0) / (after.1 - before.1)
    }

    /// Serves `requests` requests, and prints how many thousand a second the model can serve.
    fn report(&mut self, name: &str, requests: u64, wanted: f64) {
        let before = self.done();
        let seconds = seconds(|| self.serve(requests));
        let after = self.done();
        let host = after.1 - before.1;
        let name = match host > 0.0 {
            true => format!("{name}, amplification {:.2}", (after.0 - before.0) / host),
            false => name.to_owned(),
        };
        row(&name, requests as f64 / seconds / 1e3, wanted, "k/s");
    }
}

/// Measures page reads and programs a second under uniform overwrites, with an FTL that merges
/// blocks.
fn merges(ftl: &str) {
    let mut run = Run::new(1, Precondition::Sequential, &[("ftl", ftl)], OpKind::Write, true);
    let before = run.done();
    let seconds = seconds(|| run.serve(50_000));
    let pages = run.done().2 - before.2;
    row(&format!("page operations of {ftl}, uniform overwrites, 1 GiB"), pages / seconds / 1e3, 200.0, "k/s");
}

/// Compares the write amplification of a constructed steady state with that of a simulated one:
/// 1024 blocks of one die.
fn steady_state(pages_per_block: &str) {
    let shape = [("channels", "1"), ("dies_per_channel", "1"), ("planes_per_die", "1"), ("blocks_per_plane", "1024")];
    let pages = [("pages_per_block", pages_per_block), ("page_size", "4KiB")];
    let profile = profile(&[shape.as_slice(), &pages].concat());
    let used = SectorRange { len: profile.capacity, ..SectorRange::default() };
    let run = |precondition| {
        let drive = profile.build_preconditioned(None, precondition, used, 1).expect("a small drive");
        Run::over(drive, OpKind::Write, true)
    };
    let mut simulated = run(Precondition::Sequential);
    simulated.serve(4 * simulated.blocks);
    let simulated = simulated.amplification(5 * simulated.blocks);
    let mut constructed = run(Precondition::Random);
    let constructed = constructed.amplification(constructed.blocks);
    let off = (constructed / simulated - 1.0).abs() * 100.0;
    let mark = if off <= 1.0 { "" } else { "  not reached" };
    let name = format!("steady state, P={pages_per_block}, constructed {constructed:.3}, simulated {simulated:.3}");
    println!("{name:<58} {off:>10.2} {:>10} % off{mark}", "<= 1");
}

/// Measures the memory of a drive that was fully written, for each physical page.
fn memory() {
    let profile = profile(&[]);
    let before = resident_bytes();
    let size = Bytes::from_gib(64).sectors();
    let used = SectorRange { len: size, ..SectorRange::default() };
    let mut drive = profile.build_preconditioned(Some(size), Precondition::Sequential, used, 1).expect("the size fits");
    let (mut finished, mut now) = (Vec::new(), Nanoseconds::ZERO);
    // Two passes, a MiB at a time, make all of it resident and collect blocks.
    for token in 0..2 * size.0 / 2048 {
        drive.submit(
            now,
            Token(token),
            Command { kind: OpKind::Write, range: SectorRange::new(token % (size.0 / 2048) * 2048, 2048), fua: false },
        );
        while finished.is_empty() {
            now = drive.next_event().expect("a write is under way");
            drive.advance(now, &mut finished);
        }
        finished.clear();
    }
    let pages = size.bytes().0 as f64 / 4096.0 / 0.93;
    let each = resident_bytes().saturating_sub(before) as f64 / pages;
    let mark = if each <= 12.0 { "" } else { "  not reached" };
    println!("{:<58} {each:>10.1} {:>10} bytes{mark}", "memory of a physical page in use, 64 GiB", "<= 12");
}

/// Measures a discard of the whole drive.
fn discards() {
    for (name, precondition) in
        [("written in order", Precondition::Sequential), ("written at random", Precondition::Random)]
    {
        let mut run = Run::new(1024, precondition, &[], OpKind::Read, true);
        let (all, before) = (SectorRange::new(0, run.blocks * 8), resident_bytes());
        let seconds = seconds(|| {
            run.drive.submit(run.now, Token(u64::MAX), Command { kind: OpKind::Discard, range: all, fua: false });
            run.serve(1000);
        });
        let memory = resident_bytes().saturating_sub(before) as f64 / 1e6;
        println!("{:<58} {seconds:>10.3} {:>10} s, {memory:.1} MB", format!("a discard of 1 TiB, {name}"), "");
    }
}

fn row(name: &str, measured: f64, wanted: f64, unit: &str) {
    let mark = if measured >= wanted { "" } else { "  not reached" };
    println!("{name:<58} {measured:>10.0} {wanted:>10.0} {unit}{mark}");
}

/// Returns the seconds of a core that `work` takes.
fn seconds(work: impl FnOnce()) -> f64 {
    let (clock, core) = (Instant::now(), core_nanoseconds());
    work();
    match (core, core_nanoseconds()) {
        (Some(before), Some(after)) => (after - before) as f64 / 1e9,
        _ => clock.elapsed().as_secs_f64(),
    }
}

/// Returns the nanoseconds for which this thread had a core so far, as Linux counts them.
fn core_nanoseconds() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Returns the memory of this process, as Linux counts it.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 4096
}
