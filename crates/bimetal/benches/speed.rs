//! Prints the table of `make bench`: speed and memory, each figure beside its target.
//!
//! Every figure is the median of three runs of the program itself, on files in the system's folder
//! for temporary files, which are removed again. The workloads are generated from a fixed seed.
//! Other work on the machine changes the figures.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::Instant;

use bimetal_core::operation::{Command as DriveCommand, OpKind, Token};
use bimetal_core::schemes;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_models::profile::{DEFAULT_HDD, Profile};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const RUNS: usize = 3;
const REQUESTS: u64 = 3_000_000;
const MANY_REQUESTS: u64 = 100_000_000;

fn main() {
    // `cargo test` runs benchmarks, too, to check that they build; it omits this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    hard_disk_models();
    let folder = Folder::create();
    let workload = folder.file("uniform.bin.zst");
    generate(&workload, REQUESTS, "10GiB", &[]);
    let csv = folder.file("uniform.csv");
    bimetal(&["convert", text(&workload), text(&csv), "--to", "msr"]);

    println!("\n4 KiB requests, uniform over 10 GiB, 40 % reads; median of {RUNS} runs\n");
    println!("{:<52} {:>12} {:>12}", "", "measured", "to reach");
    let analyze = |path: &Path| REQUESTS as f64 / median(|| seconds(&["analyze", text(path), "--json"]));
    row("analyze, compact binary", analyze(&workload), 1.5e6, "requests/s");
    row("analyze, MSR CSV", analyze(&csv), 700e3, "requests/s");
    for scheme in schemes::ALL {
        let figure = median(|| simulated(&workload, scheme.name, "requests_per_s"));
        // A regression for every request takes much time.
        let wanted = if scheme.name == "mixedstore" { 200e3 } else { 500e3 };
        row(&format!("simulate {}", scheme.name), figure, wanted, "requests/s");
    }
    let one = median(|| seconds(&["compare", text(&workload), "--schemes", "griffin", "--json"]));
    let four =
        median(|| seconds(&["compare", text(&workload), "--schemes", "griffin,griffin,griffin,griffin", "--json"]));
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    row(&format!("compare: four runs at once against one, {cores} cores"), 4.0 * one / four, 0.8 * cores, "times");

    let sparse = folder.file("sparse.csv");
    write_sparse(&sparse);
    let mib = f64::from(1 << 20);
    let memory = simulated(&sparse, "griffin", "peak_rss_bytes") / mib;
    row_at_most("memory: 12 runs of blocks over 400 GiB, griffin", memory, 100.0, "MiB");
    let many = folder.file("many.bin.zst");
    generate(&many, MANY_REQUESTS, "4GiB", &[]);
    let memory = simulated(&many, "griffin", "peak_rss_bytes") / mib;
    row_at_most("memory: 100 million requests over 4 GiB, griffin", memory, 1024.0, "MiB");
}

/// Measures the hard-disk models on one core, through the trait that the simulator uses.
fn hard_disk_models() {
    println!("Hard disks alone, random 4 KiB; median of {RUNS} runs\n");
    println!("{:<52} {:>12} {:>12}", "", "measured", "to reach");
    let plain = [("write_cache", "off"), ("read_ahead", "0")];
    let sptf = [("scheduler", "sptf"), ("queue_depth", "32")];
    row("reads, closed loop, no cache", median(|| closed_loop(&plain, 1, false)), 2e6, "requests/s");
    row("reads, closed loop, cache and read-ahead", median(|| closed_loop(&[], 1, false)), 2e6, "requests/s");
    row("reads, cache, SPTF with 32 in the drive", median(|| closed_loop(&sptf, 32, false)), 500e3, "requests/s");
    row("half writes, cache, SPTF with 32 in the drive", median(|| closed_loop(&sptf, 32, true)), 500e3, "requests/s");
    for drive in ["disksim-cheetah9LP", DEFAULT_HDD] {
        let rate = median(|| open_arrivals(drive));
        // The target is fifty times the speed of DiskSim as it is distributed.
        row(&format!("open, 100,000 requests: {drive}"), rate, 50.0 * 27e3, "requests/s");
        println!("  DiskSim: 27 k, built with -O2 70 k: {:.0} and {:.0} times as fast", rate / 27e3, rate / 70e3);
    }
}

/// Returns requests per second with `depth` requests always in the default drive.
fn closed_loop(settings: &[(&str, &str)], depth: u64, half_writes: bool) -> f64 {
    let mut profile = Profile::load(DEFAULT_HDD).expect("the default drive is built in");
    profile.set_all(settings.iter().copied()).expect("the benchmark sets keys that exist");
    let mut drive = profile.build(None, 0).expect("the default drive can be built");
    let mut requests = random_requests(drive.capacity().0, half_writes);
    let (mut finished, mut sent, mut now) = (Vec::with_capacity(64), 0, Nanoseconds::ZERO);
    let began = Instant::now();
    let mut served = 0;
    while served < REQUESTS / 3 {
        while sent < served + depth {
            drive.submit(now, Token(sent), requests());
            sent += 1;
        }
        now = drive.next_event().expect("requests are under way");
        drive.advance(now, &mut finished);
        served += finished.drain(..).len() as u64;
    }
    served as f64 / began.elapsed().as_secs_f64()
}

/// Returns requests per second of an open trace: a request every 10 ms, whatever is still under
/// way.
fn open_arrivals(drive: &str) -> f64 {
    const COUNT: u64 = 100_000;
    let mut drive = Profile::load(drive).expect("it is built in").build(None, 0).expect("it can be built");
    let mut requests = random_requests(drive.capacity().0, true);
    let mut finished = Vec::new();
    let began = Instant::now();
    for serial in 0..COUNT {
        let now = Nanoseconds::from_millis(serial * 10);
        drive.advance(now, &mut finished);
        drive.submit(now, Token(serial), requests());
    }
    while finished.len() < COUNT as usize {
        let event = drive.next_event().expect("requests are under way");
        drive.advance(event, &mut finished);
    }
    COUNT as f64 / began.elapsed().as_secs_f64()
}

fn random_requests(sectors: u64, half_writes: bool) -> impl FnMut() -> DriveCommand {
    let mut random = Pcg64Mcg::new(1);
    move || {
        let block = ((u128::from(random.next_u64()) * u128::from(sectors / 8)) >> 64) as u64;
        let kind = if half_writes && random.next_u64().is_multiple_of(2) { OpKind::Write } else { OpKind::Read };
        DriveCommand { kind, range: SectorRange::new(block * 8, 8), fua: false }
    }
}

fn row(name: &str, measured: f64, wanted: f64, unit: &str) {
    let mark = if measured >= wanted { "" } else { "  not reached" };
    println!("{name:<52} {:>12} {:>12} {unit}{mark}", figure(measured), figure(wanted));
}

fn row_at_most(name: &str, measured: f64, most: f64, unit: &str) {
    let mark = if measured <= most { "" } else { "  not reached" };
    println!("{name:<52} {:>12} {:>12} {unit}{mark}", figure(measured), format!("≤ {}", figure(most)));
}

fn figure(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 10_000.0 => format!("{:.0} k", value / 1e3),
        value => format!("{value:.1}"),
    }
}

fn median(measure: impl Fn() -> f64) -> f64 {
    let mut values: Vec<f64> = (0..RUNS).map(|_| measure()).collect();
    values.sort_by(f64::total_cmp);
    values[RUNS / 2]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the folder for temporary files has a name in UTF-8")
}

/// Runs the program and returns its output.
fn bimetal(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_bimetal")).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("bimetal does not start: {error}"));
    if !output.status.success() {
        eprintln!("bimetal {} failed:\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        exit(1);
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn seconds(arguments: &[&str]) -> f64 {
    let began = Instant::now();
    bimetal(arguments);
    began.elapsed().as_secs_f64()
}

/// Returns a figure of `run` in the document of one simulation.
fn simulated(workload: &Path, scheme: &str, key: &str) -> f64 {
    let json = bimetal(&["simulate", text(workload), "--scheme", scheme, "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json).expect("--json prints JSON");
    document["runs"][0]["run"][key].as_f64().expect("every run tells its speed and memory")
}

fn generate(path: &Path, requests: u64, footprint: &str, more: &[&str]) {
    let requests = requests.to_string();
    let mut arguments = vec!["generate", "--requests", &requests, "--footprint", footprint, "-o", text(path)];
    arguments.extend(["--read-fraction", "0.4", "--size", "4KiB", "--sequential", "0", "--seed", "1"]);
    arguments.extend(["--interarrival", "constant:20ms", "--skew", "uniform"]);
    arguments.extend(more);
    bimetal(&arguments);
}

/// Writes a trace with twelve runs of a thousand blocks, far apart, written three times.
fn write_sparse(path: &Path) {
    let mut csv = String::from("time_ns,device,op,lba,sectors,fua,response_ns\n");
    let mut time = 0u64;
    for _ in 0..3 {
        for run in 0..12u64 {
            for block in 0..1000 {
                let lba = run * (400 << 21) / 12 + block * 8;
                csv.push_str(&format!("{time},0,write,{lba},8,0,\n"));
                time += 5_000_000;
            }
        }
    }
    std::fs::write(path, csv).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// A folder that is removed with the benchmark.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Self {
        let path = std::env::temp_dir().join(format!("bimetal-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
