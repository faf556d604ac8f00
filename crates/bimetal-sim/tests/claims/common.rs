//! Workloads that are written down request by request, and runs of a scheme over them with one
//! parameter changed.

use bimetal_core::operation::OpKind;
use bimetal_core::schemes;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_sim::experiment::{Experiment, NoProgress};
use bimetal_sim::results::Run;
use bimetal_sim::setup::{Choices, DriveChoice, Size};
use bimetal_sim::simulator::Replay;
use bimetal_trace::hints::{HEADER, PIN_HEADER};
use bimetal_trace::{Hints, Request};

fn request(kind: OpKind, at_ms: u64, block: u64, blocks: u64) -> Request {
    let range = SectorRange::new(block * 8, blocks * 8);
    Request { arrival: Nanoseconds::from_millis(at_ms), device: 0, kind, fua: false, range, response: None }
}

/// Returns a read of `blocks` blocks of 4 KiB.
pub(crate) fn read(at_ms: u64, block: u64, blocks: u64) -> Request {
    request(OpKind::Read, at_ms, block, blocks)
}

/// Returns a write of `blocks` blocks of 4 KiB.
pub(crate) fn write(at_ms: u64, block: u64, blocks: u64) -> Request {
    request(OpKind::Write, at_ms, block, blocks)
}

/// Returns number `n` of a scattered sequence of numbers below `below`.
pub(crate) fn scattered(n: u64, below: u64) -> u64 {
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33) % below
}

/// A scheme with its workload and fixed settings, to run while one parameter changes.
pub(crate) struct Bench {
    scheme: &'static str,
    settings: Vec<(String, String)>,
    workload: Vec<Request>,
    ssd: Option<Size>,
    profile: Option<&'static str>,
    warmup: f64,
    hints: Hints,
}

impl Bench {
    /// Makes a bench from a scheme, fixed settings and requests. The requests are put in order of
    /// time.
    pub(crate) fn new(scheme: &'static str, settings: &[(&str, &str)], mut workload: Vec<Request>) -> Self {
        workload.sort_by_key(|request| request.arrival);
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        Self { scheme, settings, workload, ssd: None, profile: None, warmup: 0.0, hints: Hints::default() }
    }

    /// Adds hints: the evictions of a host's buffer cache of `blocks` blocks. A least-recently-used
    /// list makes these evictions, which pass through the text format of `--hints`.
    pub(crate) fn evicting(mut self, blocks: usize) -> Self {
        let (mut cached, mut text) = (Vec::new(), format!("{HEADER}\n"));
        for request in &self.workload {
            for block in request.range.start.0 / 8..request.range.end().0.div_ceil(8) {
                cached.retain(|other| *other != block);
                cached.push(block);
                if cached.len() > blocks {
                    text += &format!("{},0,{},8\n", request.arrival.0, cached.remove(0) * 8);
                }
            }
        }
        self.hints = Hints::read("hints", std::io::Cursor::new(text.into_bytes())).expect("hints are well formed");
        self
    }

    /// Sets the size of the SSD.
    pub(crate) fn ssd(mut self, size: Bytes) -> Self {
        self.ssd = Some(Size::Bytes(size));
        self
    }

    /// Sets the SSD to a built-in profile.
    pub(crate) fn profile(mut self, name: &'static str) -> Self {
        self.profile = Some(name);
        self
    }

    /// Adds hints: pins of a host, each given as milliseconds, block, blocks, and 1 (pin) or 0
    /// (unpin). These pins pass through the text format of `--hints`.
    pub(crate) fn pinning(mut self, pins: &[(u64, u64, u64, u8)]) -> Self {
        let line = |&(at_ms, block, blocks, pin): &(u64, u64, u64, u8)| {
            format!("{},0,{},{},{pin}\n", at_ms * 1_000_000, block * 8, blocks * 8)
        };
        let text = format!("{PIN_HEADER}\n{}", pins.iter().map(line).collect::<String>());
        self.hints = Hints::read("hints", std::io::Cursor::new(text.into_bytes())).expect("hints are well formed");
        self
    }

    /// Counts only the last `requests` requests in the figures; the requests before are warm-up.
    pub(crate) fn last(mut self, requests: usize) -> Self {
        let all = self.workload.len();
        // Half a request more makes sure that rounding down gives the intended number.
        self.warmup = ((all - requests) as f64 + 0.5) / all as f64;
        self
    }

    /// Runs the scheme with further settings.
    pub(crate) fn run(&self, settings: &[(&str, &str)]) -> Run {
        let given = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let choices = Choices {
            ssd: DriveChoice { profile: self.profile.map(str::to_owned), size: self.ssd },
            settings: self.settings.iter().cloned().chain(given).collect(),
            hints: self.hints.clone(),
            ..Choices::default()
        };
        let schemes = vec![schemes::find(self.scheme).expect("a scheme").into()];
        let replay = Replay::Timed { speedup: 1.0 };
        let (workload, trees, warmup) = (&self.workload, Vec::new(), self.warmup);
        let experiment = Experiment { workload, schemes, trees, choices, replay, warmup, keep: None };
        let document = experiment.run(&NoProgress, |_, summary| summary);
        let mut document = document.unwrap_or_else(|error| panic!("{} {settings:?}: {error}", self.scheme));
        document.runs.pop().expect("a run for the scheme")
    }

    /// Runs the scheme with each of `values` for one parameter, and returns a figure of each run.
    pub(crate) fn sweep(&self, key: &str, values: &[&str], figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        values.iter().map(|value| figure(&self.run(&[(key, value)]))).collect()
    }
}

/// Returns true if each figure is larger than the figure before it.
pub(crate) fn rises(figures: &[f64]) -> bool {
    figures.is_sorted_by(|one, next| one < next)
}

/// Returns true if each figure is smaller than the figure before it.
pub(crate) fn falls(figures: &[f64]) -> bool {
    figures.is_sorted_by(|one, next| one > next)
}

/// Returns a figure that the run is expected to have.
pub(crate) fn some(figure: Option<f64>) -> f64 {
    figure.expect("the figure applies")
}

/// Returns a count that the run is expected to have.
pub(crate) fn count(figure: Option<u64>) -> f64 {
    figure.expect("the figure applies") as f64
}

/// Returns the number of blocks that were bypassed for `reason`.
pub(crate) fn bypassed(run: &Run, reason: &str) -> u64 {
    run.bypass.get(reason).copied().unwrap_or(0)
}

/// Returns the number of reads that the disk served.
pub(crate) fn disk_reads(run: &Run) -> f64 {
    count(run.devices.hdd.reads)
}
