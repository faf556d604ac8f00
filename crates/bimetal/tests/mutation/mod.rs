//! Mutants of sample traces, and a run of the program on a mutant; shared by the test and the soak.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bimetal_core::mixing::{GOLDEN_RATIO, splitmix64};
use bimetal_trace::write::{Content, Writer};
use bimetal_trace::{Format, OpenOptions, Trace, formats};

/// Number of requests that are taken from each shipped trace.
const HEAD_REQUESTS: u64 = 300;

/// Largest size of a mutant in bytes.
const BYTES_MAX: usize = 64 << 10;

/// Longest time of a command in a release build, which `make soak` runs: wall-clock time or
/// processor time, whichever is less. On a shared machine, wall-clock time includes other programs.
/// A command that uses several processors takes less wall-clock time.
#[allow(dead_code, reason = "the soak alone has this bound")]
pub(crate) const TIME_MAX: Duration = Duration::from_secs(10);

/// Time after which a command counts as hanging in a test: any build on any machine is faster. The
/// speed of a command is tested only by `make soak`.
#[allow(dead_code, reason = "the test alone has this bound")]
pub(crate) const HANGING: Duration = Duration::from_secs(100);

/// Largest resident memory of a command, in bytes.
pub(crate) const MEMORY_MAX: u64 = 1 << 30;

/// All schemes of a pair of drives.
const SCHEMES: &str = "ssd-only,hdd-only,combo,smart-response,dataplex,hybrid-disk,os-managed,griffin,mixedstore,smq,\
                       bcache,writeboost,hddboost,hyperduo";

/// The commands that read a trace, with the arguments after the trace.
pub(crate) const COMMANDS: [&[&str]; 5] = [
    &["analyze", "TRACE"],
    &["mrc", "TRACE", "--policies", "lru,arc,lirs"],
    &["simulate", "TRACE", "--scheme", "smart-response"],
    &["compare", "TRACE", "--schemes", SCHEMES],
    &["plan", "TRACE", "--latency", "mean<1000s"],
];

/// Returns `command` for the mutant of `seed`. Every second mutant is read with
/// `--skip-bad-lines`: nearly all mutants of text have a bad line, and are refused otherwise.
pub(crate) fn with_options(command: &[&'static str], seed: u64) -> Vec<&'static str> {
    let skips = seed.is_multiple_of(2).then_some("--skip-bad-lines");
    command.iter().copied().chain(skips).collect()
}

/// A trace from which mutants are made.
pub(crate) struct Sample {
    /// Format and file of the trace.
    pub(crate) name: String,
    bytes: Vec<u8>,
    is_text: bool,
}

impl Sample {
    fn new(name: String, bytes: Vec<u8>) -> Self {
        let is_text = std::str::from_utf8(&bytes).is_ok() && !bytes.contains(&0);
        Self { name, bytes, is_text }
    }
}

/// Returns the corpus of the readers, and the heads of the shipped traces in three formats.
pub(crate) fn samples(scratch: &Path) -> Vec<Sample> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut samples = Vec::new();
    for format in entries(&root.join("crates/bimetal-trace/fuzz-corpus")) {
        for path in entries(&format) {
            let name = path.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>();
            samples.push(Sample::new(format!("{}/{}", name[1], name[0]), fs::read(&path).expect("a sample")));
        }
    }
    for path in entries(&root.join("traces")).iter().filter(|path| path.to_string_lossy().ends_with(".bin.zst")) {
        samples.extend(
            [&formats::bin::INFO, &formats::csv::INFO, &formats::msr::INFO].map(|format| head(path, format, scratch)),
        );
    }
    samples
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder of samples").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Returns the first requests of the trace at `path`, written as `format`, uncompressed.
fn head(path: &Path, format: &'static Format, scratch: &Path) -> Sample {
    let options = OpenOptions { limit: Some(HEAD_REQUESTS), ..OpenOptions::default() };
    let trace = Trace::open(path, &options).expect("a shipped trace");
    let written = scratch.join("head");
    let mut writer = Writer::create(&written, format, Content::from(&trace)).expect("room for a head");
    trace.for_each(|request| writer.write(&request.expect("a request")).expect("room for a request"));
    writer.finish().expect("room for a head");
    let bytes = fs::read(&written).expect("the head");
    let bytes =
        if format == &formats::bin::INFO { zstd::decode_all(&bytes[..]).expect("what was packed") } else { bytes };
    let stem = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Sample::new(format!("{}/{stem}", format.name), bytes)
}

/// Draws mutants; the same seed draws the same mutants.
pub(crate) struct Mutator(u64);

/// Numbers that a reader may meet for the first time in a mutant, such as limits of integer types.
const ODD_NUMBERS: [u64; 21] = [
    0,
    1,
    7,
    511,
    4097,
    1 << 20,
    1 << 19,
    (1 << 19) + 1,
    1 << 23,
    (1 << 31) - 1,
    1 << 32,
    1 << 33,
    1 << 39,
    (1 << 40) - 1,
    1 << 40,
    1 << 49,
    1 << 53,
    1_900_000_000_000_000_000,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

impl Mutator {
    /// Returns the source of the mutants of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of SplitMix64.
    fn next(&mut self) -> u64 {
        let drawn = splitmix64(self.0);
        self.0 = self.0.wrapping_add(GOLDEN_RATIO);
        drawn
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Returns a mutant of one of `samples`: the sample's index, and the mutated bytes.
    pub(crate) fn mutant(&mut self, samples: &[Sample]) -> (usize, Vec<u8>) {
        let number = self.below(samples.len());
        let sample = &samples[number];
        let mut bytes = sample.bytes.clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, sample.is_text, samples);
        }
        bytes.truncate(BYTES_MAX);
        (number, bytes)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, is_text: bool, samples: &[Sample]) {
        let len = bytes.len();
        let at = self.below(len);
        match self.below(8) {
            0 if len > 0 => bytes[at] ^= 1 << self.below(8),
            1 if len > 0 => bytes[at] = self.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = (at + 1 + self.below(64)).min(len);
                drop(bytes.drain(at.min(end)..end));
            }
            4 => self.copy_within(bytes, at),
            5 => {
                let other = &samples[self.below(samples.len())].bytes;
                let from = self.below(other.len());
                let piece = &other[from..(from + 1 + self.below(256)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            _ if is_text => self.change_number(bytes, at),
            _ => self.write_number(bytes, at),
        }
    }

    /// Copies a piece of the bytes, sometimes many times.
    fn copy_within(&mut self, bytes: &mut Vec<u8>, from: usize) {
        let end = (from + 1 + self.below(256)).min(bytes.len());
        let piece = bytes[from.min(end)..end].to_vec();
        let times = if self.below(8) == 0 { self.below(64) } else { 1 };
        let to = self.below(bytes.len());
        for _ in 0..times {
            bytes.splice(to..to, piece.iter().copied());
        }
    }

    fn odd_number(&mut self) -> u64 {
        if self.below(3) == 0 { self.next() >> self.below(64) } else { ODD_NUMBERS[self.below(ODD_NUMBERS.len())] }
    }

    /// Replaces the first decimal number at or after `at`.
    fn change_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|skipped| at + skipped) else { return };
        let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.odd_number().to_string();
        bytes.splice(start..start + digits, number.into_bytes());
    }

    /// Writes a number over the bytes at `at`: 4 or 8 bytes in either byte order, or 7 bits per
    /// byte.
    fn write_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let mut number = self.odd_number();
        let written = match self.below(5) {
            0 => (number as u32).to_le_bytes().to_vec(),
            1 => (number as u32).to_be_bytes().to_vec(),
            2 => number.to_le_bytes().to_vec(),
            3 => number.to_be_bytes().to_vec(),
            _ => {
                let mut sevens = Vec::new();
                while number >= 0x80 {
                    sevens.push(number as u8 | 0x80);
                    number >>= 7;
                }
                sevens.push(number as u8);
                bytes.splice(at..at, sevens);
                return;
            }
        };
        let end = (at + written.len()).min(bytes.len());
        bytes.splice(at..end, written);
    }
}

/// Outcome of a run of the program.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
    /// Wall-clock time or processor time, whichever is less.
    pub(crate) took: Duration,
    /// Largest resident memory in bytes.
    pub(crate) memory: u64,
}

impl Outcome {
    /// Returns the rule that the run broke, of the rules for a run on any input; `None` if the run
    /// broke no rule.
    pub(crate) fn fault(&self, is_plan: bool, time_max: Duration) -> Option<String> {
        // Status 3 is the plan's answer that no option keeps the budgets; it is printed, and is not
        // a message.
        let answered = self.status.success() || is_plan && self.status.code() == Some(3);
        let refused = self.status.code() == Some(1);
        if self.said.contains("panicked") {
            Some("it panicked".to_owned())
        } else if self.took >= time_max {
            Some(format!("it took {:.1} s", self.took.as_secs_f64()))
        } else if !answered && !refused {
            Some(format!("it ended with {:?}, signal {:?}", self.status.code(), self.status.signal()))
        } else if refused && !self.said.lines().any(|line| line.starts_with("error: ") && line.len() > 20) {
            Some("it refused without a message".to_owned())
        } else if self.memory > MEMORY_MAX {
            Some(format!("it had {} MiB resident", self.memory >> 20))
        } else {
            None
        }
    }
}

/// Time after which a run counts as hanging, however busy the machine is.
const HANGS_AFTER: Duration = Duration::from_secs(600);

/// Runs `program` with `arguments`; `TRACE` among them stands for `trace`. The system ends a run
/// whose processor time is several times `time_max`.
#[expect(clippy::zombie_processes, reason = "`ended` waits for the child, and takes its usage")]
pub(crate) fn run(program: &Path, arguments: &[&str], trace: &Path, time_max: Duration) -> Outcome {
    let errors = trace.with_extension("err");
    let mut command = Command::new("sh");
    let limit = format!("ulimit -t {}; exec \"$0\" \"$@\"", 4 * time_max.as_secs());
    command.args(["-c", &limit]).arg(program);
    for &argument in arguments {
        if argument == "TRACE" {
            command.arg(trace)
        } else {
            command.arg(argument)
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors).expect("room for messages"));
    let began = Instant::now();
    let mut child = command.spawn().expect("the program starts");
    let mut nap = Duration::from_micros(200);
    let (status, of_processors, memory) = loop {
        if let Some(ended) = ended(&child) {
            break ended;
        }
        if began.elapsed() >= HANGS_AFTER {
            child.kill().expect("our own child");
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(5));
    };
    let took = of_processors.min(began.elapsed());
    let mut said = Vec::new();
    File::open(&errors).and_then(|mut file| file.read_to_end(&mut said)).expect("what it said");
    Outcome { status, said: String::from_utf8_lossy(&said).into_owned(), took, memory }
}

/// Returns the status of a child that has ended, its processor time, and its largest resident
/// memory.
fn ended(child: &Child) -> Option<(ExitStatus, Duration, u64)> {
    let mut status = 0;
    // SAFETY: all fields of the structure are numbers, and the call fills it in.
    #[expect(unsafe_code, reason = "nothing else tells the memory of one child")]
    let (ended, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id() as libc::pid_t, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    assert!(ended >= 0, "the child is ours");
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    let took = time(usage.ru_utime) + time(usage.ru_stime);
    (ended > 0).then(|| (ExitStatus::from_raw(status), took, usage.ru_maxrss as u64 * 1024))
}
