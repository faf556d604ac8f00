//! Speed of serving, compared with other servers on equal files: `make bench-live`.
//!
//! Each workload runs in rounds. In each round every server has its turn, one after the other, so
//! that other load on the machine affects all servers alike. The output has medians over the
//! rounds, and medians of each round's quotient of Bimetal and the better peer. Peers are qemu-nbd
//! with direct I/O and nbdkit's file plugin; the plain file with direct I/O is the ceiling. fio's
//! NBD engine makes the load.
//!
//! Durability: no server gets flushes. With every server but two, written data is on the drive at
//! once. nbdkit uses the page cache, so it forces every write to the drive and drops data that was
//! read; the kernel reads ahead for it. Griffin's log keeps up to some MiB in memory until a flush,
//! as a drive's volatile cache does (5.4).
//!
//! Words on the command line choose workloads and servers. BENCH_SECONDS, BENCH_ROUNDS and
//! BENCH_MIB change sizes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::volume::{self, Recovery, VolumeConfig};
use bimetal_device::drive::file::DriveFile;
use bimetal_device::drive::{Engine, attach};
use bimetal_serve::server::{Endpoint, Server, ServerOptions};
use bimetal_volumes::startup;
use rustix::fs::{Advice, fadvise};

/// Workload: its name, fio's arguments, set if it writes, and set if it reads the file once instead
/// of for a time.
///
/// nbdkit drops read data page by page, and the kernel keeps data in larger folios. Three quarters
/// of the file stayed in the page cache, and a second pass hardly read the drive. So sequential
/// reads go through the file once at a time.
const WORKLOADS: [(&str, &str, bool, bool); 7] = [
    ("read-1m-4", "--rw=read --bs=1m --iodepth=4", false, true),
    ("write-1m-4", "--rw=write --bs=1m --iodepth=4", true, false),
    ("randread-4k-1", "--rw=randread --bs=4k --iodepth=1", false, false),
    ("randread-4k-32", "--rw=randread --bs=4k --iodepth=32", false, false),
    ("randwrite-4k-1", "--rw=randwrite --bs=4k --iodepth=1", true, false),
    ("randwrite-4k-32", "--rw=randwrite --bs=4k --iodepth=32", true, false),
    (SCATTERED, "--rw=read --bs=1m --iodepth=4", false, true),
];

/// Workload before which every block of Bimetal's servers is written once, in random order. So the
/// content of each read lies in 256 places of a cache or log, and is read by as many operations.
const SCATTERED: &str = "read-1m-4-scattered";

/// Number of passes through the file in a turn.
const PASSES: u64 = 3;

const PEERS: [&str; 2] = ["qemu-nbd", "nbdkit"];
/// Server of Bimetal, with the name of its scheme.
struct Ours {
    scheme: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Share of the better peer's speed that the server should reach.
    target: f64,
}

const OURS: [Ours; 3] = [
    Ours { scheme: "ssd-only", settings: &[], target: 1.0 },
    // All requests should be hits, including streams.
    Ours { scheme: "smart-response", settings: &[("mode", "maximized"), ("stream_bypass", "off")], target: 0.9 },
    Ours { scheme: "griffin", settings: &[("timeout", "off"), ("read_threshold", "off")], target: 0.9 },
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [word, name, directory] = &arguments[..]
        && word == "serve"
    {
        return serve(name, Path::new(directory));
    }
    // `cargo test` runs benchmarks without this argument, to check that they build.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    for program in ["fio", "qemu-nbd", "nbdkit"] {
        if Command::new(program).arg("--version").output().is_err() {
            return println!("skipped: no {program}");
        }
    }
    let chosen = |name: &str, all: &[&str]| {
        let named: Vec<_> = arguments.iter().filter(|word| all.contains(&word.as_str())).collect();
        named.is_empty() || named.iter().any(|word| *word == name)
    };
    let workloads = WORKLOADS.map(|(name, ..)| name);
    let servers: Vec<&str> = ["file"].into_iter().chain(PEERS).chain(OURS.map(|ours| ours.scheme)).collect();
    let servers: Vec<&str> = servers.iter().copied().filter(|name| chosen(name, &servers)).collect();
    let bench = Bench::new(&servers);
    println!("load {}; medians of {} rounds of {} s each", load(), bench.rounds, bench.seconds);
    for (name, arguments, writes, once) in WORKLOADS {
        if chosen(name, &workloads) {
            bench.workload(name, arguments, writes, once);
        }
    }
    println!("load {}", load());
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

struct Bench {
    directory: PathBuf,
    servers: Vec<(String, Option<Child>)>,
    seconds: u64,
    rounds: u64,
    mib: u64,
}

impl Drop for Bench {
    fn drop(&mut self) {
        for (_, child) in &mut self.servers {
            if let Some(child) = child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Bench {
    fn new(servers: &[&str]) -> Self {
        let mib = number("BENCH_MIB", 256);
        let base = std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let directory = base.join(format!("bimetal-bench-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the bench can be made");
        let seconds = number("BENCH_SECONDS", 2);
        let mut bench = Self { directory, servers: Vec::new(), seconds, rounds: number("BENCH_ROUNDS", 7), mib };
        for &name in servers {
            let child = bench.start(name);
            bench.servers.push((name.to_owned(), child));
            // Everything is written once, so that the caches are filled.
            if name != "file" {
                bench.fio(name, "--rw=write --bs=1m --iodepth=4", false);
            }
        }
        bench
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.sock"))
    }

    fn start(&self, name: &str) -> Option<Child> {
        let file = self.directory.join(format!("{name}.ssd"));
        // Room for the engine's metadata, with a reserve.
        filled(&file, self.mib * 5 / 4 + 16);
        let (file, socket) = (file.display().to_string(), self.socket(name).display().to_string());
        let mut command = match name {
            "file" => return None,
            "qemu-nbd" => {
                let mut command = Command::new("qemu-nbd");
                command.args(["-f", "raw", "-t", "-e", "8", "--cache=none", "--aio=io_uring", "-k", &socket, &file]);
                command
            }
            "nbdkit" => {
                let mut command = Command::new("nbdkit");
                command.args(["-f", "-U", &socket, "--filter=fua", "file", &file, "cache=none", "fuamode=force"]);
                command
            }
            _ => {
                // Griffin's log has room for the writes of all rounds, so that it never migrates.
                let hdd_mib = if name == "griffin" { self.mib * 24 } else { self.mib + 16 };
                filled(&self.directory.join(format!("{name}.hdd")), hdd_mib);
                let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
                command.args(["serve", name]).arg(&self.directory);
                command
            }
        };
        let child = command.stdout(Stdio::null()).spawn().expect("the server starts");
        let limit = Instant::now() + Duration::from_secs(60);
        while !self.socket(name).exists() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(child)
    }

    /// Drops cached data of a server's file: data written by nbdkit is cached as a whole, and
    /// partial reads do not drop it.
    fn forget(&self, name: &str) {
        let file = fs::File::open(self.directory.join(format!("{name}.ssd"))).expect("the file is there");
        file.sync_all().expect("it can be written out");
        fadvise(&file, 0, None, Advice::DontNeed).expect("the page cache takes advice");
    }

    /// Runs fio once on a server. Returns operations a second.
    fn fio(&self, name: &str, arguments: &str, timed: bool) -> f64 {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "60", "fio", "--name=x", "--randrepeat=0", "--output-format=json"]);
        command.args(arguments.split(' ')).arg(format!("--size={}m", self.mib));
        if timed {
            command.args(["--norandommap", "--time_based"]).arg(format!("--runtime={}", self.seconds));
        }
        if name == "file" {
            let file = self.directory.join("file.ssd");
            command.args(["--ioengine=io_uring", "--direct=1"]).arg(format!("--filename={}", file.display()));
        } else {
            command.arg("--ioengine=nbd").arg(format!("--uri=nbd+unix:///?socket={}", self.socket(name).display()));
        }
        let output = command.output().expect("fio runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let json = &text[text.find('{').unwrap_or(0)..];
        let result: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
        let job = &result["jobs"][0];
        let iops = |kind: &str| job[kind]["iops"].as_f64().unwrap_or(0.0);
        let iops = iops("read") + iops("write");
        assert!(iops > 0.0, "fio on {name}: {text}{}", String::from_utf8_lossy(&output.stderr));
        iops
    }

    /// Runs one turn of a server. Returns operations a second.
    fn turn(&self, name: &str, arguments: &str, once: bool) -> f64 {
        if !once {
            self.forget(name);
            return self.fio(name, arguments, true);
        }
        let passes = (0..PASSES).map(|_| {
            self.forget(name);
            self.fio(name, arguments, false)
        });
        median(&passes.collect::<Vec<_>>())
    }

    fn workload(&self, workload: &str, arguments: &str, writes: bool, once: bool) {
        let mut turns: Vec<(&str, Vec<f64>)> = Vec::new();
        if workload == SCATTERED {
            for (name, _) in self.servers.iter().filter(|(name, _)| OURS.iter().any(|ours| ours.scheme == *name)) {
                self.fio(name, "--rw=randwrite --bs=4k --iodepth=32", false);
            }
        }
        for _ in 0..self.rounds {
            for (name, _) in &self.servers {
                if name == "griffin" && !writes && workload != SCATTERED {
                    continue;
                }
                let iops = self.turn(name, arguments, once);
                match turns.iter_mut().find(|(other, _)| other == name) {
                    Some((_, all)) => all.push(iops),
                    None => turns.push((name, vec![iops])),
                }
            }
        }
        print!("{workload:16} load {}:", load());
        for (name, all) in &turns {
            print!(" {name} {:.0}", median(all));
        }
        let peers: Vec<&Vec<f64>> = turns.iter().filter(|(name, _)| PEERS.contains(name)).map(|(_, all)| all).collect();
        for (name, all) in &turns {
            let Some(ours) = OURS.iter().find(|ours| ours.scheme == *name).filter(|_| !peers.is_empty()) else {
                continue;
            };
            let better = |round: usize| peers.iter().map(|all| all[round]).fold(0.0, f64::max);
            let quotients: Vec<f64> = all.iter().enumerate().map(|(round, iops)| iops / better(round)).collect();
            print!("; {name} {:.2} x the better peer (wanted {})", median(&quotients), ours.target);
        }
        println!();
        let _ = std::io::stdout().flush();
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Makes a file whose blocks are all allocated on the drive.
fn filled(path: &Path, mib: u64) {
    let file = fs::File::create(path).expect("a file for the bench can be made");
    let chunk = vec![0x5a; 1 << 20];
    for at in 0..mib {
        file.write_all_at(&chunk, at << 20).expect("there is room for the bench");
    }
    file.sync_all().expect("there is room for the bench");
}

/// Serves until the process is killed.
fn serve(name: &str, directory: &Path) {
    let ours = OURS.into_iter().find(|ours| ours.scheme == name).expect("the bench knows its servers");
    let scheme = schemes::find(ours.scheme).expect("the bench knows its schemes");
    let settings = ours.settings.iter().copied();
    let settings = Settings::new(scheme.name, scheme.parameters, settings).expect("they are possible");
    let paths = [("ssd", Role::Ssd), ("hdd", Role::Hdd)]
        .map(|(ending, role)| (directory.join(format!("{name}.{ending}")), role));
    let count = if name == "ssd-only" { 1 } else { 2 };
    let open = |(path, role): &(PathBuf, Role)| (DriveFile::open(path).expect("the file is there"), *role);
    let files: Vec<_> = paths[..count].iter().map(open).collect();
    let members: Vec<MemberInfo> =
        files.iter().map(|(file, role)| MemberInfo { role: *role, capacity: file.capacity() }).collect();
    let layout = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
    let config = VolumeConfig { scheme, settings: &settings, layout, identity: 1, drives: &[] };
    let mut drives: Vec<_> =
        files.into_iter().map(|(file, _)| attach(file, Engine::Auto).expect("a drive can be worked")).collect();
    startup::format(volume::format(&config).expect("the drives are large enough"), &mut drives).expect("it is written");
    let recovery = Recovery::new(&config, &[]).expect("the drives are large enough");
    let volume = startup::recover(recovery, &mut drives, |_, _| {}).expect("it was just made");
    let mut server = Server::new(volume, drives, ServerOptions::default()).expect("a server can be made");
    server.listen(&Endpoint::Unix(directory.join(format!("{name}.sock")))).expect("the socket is ours");
    server.run().expect("it serves");
}
