//! The block layer of the simulator against Linux's own. The traces hold both the queue events and
//! the issue events that Linux made of these queue events.
//!
//! `block-layer/*.zst` were recorded by tracefs (`block_bio_queue`, `block_rq_issue`) on Linux
//! 6.18. The device was a loop device over a file, served by a virtual SSD, with `mq-deadline`,
//! `max_sectors_kb` 1280 and a queue of 256 requests.
//!
//! `file-system`: on ext4, source files were copied in, a film was written and read back, and files
//! were searched with a cold cache. Then 4 KiB were written and 16 KiB read at random.
//!
//! `block-device`: pieces of 4 to 256 KiB and runs of 8 MiB were written through the page cache
//! without a file system. The page cache then queues every page as a request of its own.

use std::path::PathBuf;

use bimetal_core::schemes;
use bimetal_sim::experiment::{Experiment, ExperimentError, NoProgress};
use bimetal_sim::results::Run;
use bimetal_sim::setup::Choices;
use bimetal_sim::simulator::Replay;
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::{Event, OpenOptions, Trace, formats};

struct Recorded {
    name: &'static str,
    event: Event,
}

impl Workload for Recorded {
    fn open_drawn(&self, _drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/block-layer").join(self.name);
        let options =
            OpenOptions { format: Some(&formats::tracefs::INFO), event: Some(self.event), ..OpenOptions::default() };
        Ok(Box::new(Trace::open(path, &options)?.map(|request| request.map_err(WorkloadError::from))))
    }

    fn grid(&self) -> u64 {
        0
    }
}

fn run(name: &'static str, event: Event, scheme: &str, settings: &[(&str, &str)], merge: bool) -> Run {
    try_run(name, event, scheme, settings, (merge, 0.0)).unwrap()
}

fn try_run(
    name: &'static str,
    event: Event,
    scheme: &str,
    settings: &[(&str, &str)],
    (merge, warmup): (bool, f64),
) -> Result<Run, ExperimentError> {
    let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let choices = Choices { settings, merge, ..Choices::default() };
    let schemes = vec![schemes::find(scheme).unwrap().into()];
    let replay = Replay::Timed { speedup: 1.0 };
    let workload = Recorded { name, event };
    let experiment =
        Experiment { workload: &workload, schemes, trees: Vec::new(), choices, replay, warmup, keep: None };
    Ok(experiment.run(&NoProgress, |_, summary| summary)?.runs.remove(0))
}

/// Scheduler and queue depth of the recorded loop device.
const LOOP: [(&str, &str); 2] = [("block.scheduler", "mq-deadline"), ("block.queue_depth", "256")];

fn near(ours: f64, expected: f64, tolerance: f64) {
    assert!((ours / expected - 1.0).abs() <= tolerance, "{ours} against {expected}");
}

/// Linux made 5,628 requests of 58.7 KiB from the 6,660 requests that the file system queued; the
/// simulator makes 5,608 requests of 58.8 KiB. Linux made 827 requests of 110 KiB from the 19,914
/// requests queued on the block device; the simulator makes 791 requests of 115.5 KiB.
#[test]
fn queue_events_become_the_requests_that_linux_issued() {
    for (name, issued, mean_kib) in [("file-system.zst", 5628.0, 58.73), ("block-device.zst", 827.0, 110.39)] {
        let merged = run(name, Event::Queue, "ssd-only", &LOOP, true).block_layer.unwrap();
        assert!(merged.queued as f64 > issued * 1.15);
        near(merged.issued as f64, issued, 0.06);
        near(merged.mean_issued_bytes.unwrap(), mean_kib * 1024.0, 0.06);
    }
}

/// Regression: a simulated disk that got every page as a request of its own looked many times
/// slower than it is.
#[test]
fn disk_behind_the_block_layer_is_as_fast_as_under_issue_events() {
    let name = "block-device.zst";
    let truth = run(name, Event::Issue, "hdd-only", &[], false);
    let bare = run(name, Event::Queue, "hdd-only", &[], false);
    let merged = run(name, Event::Queue, "hdd-only", &[], true);
    let mean = |run: &Run| run.response_time_ms.all.mean.unwrap();
    let read = |run: &Run| run.response_time_ms.read.mean.unwrap();
    near(read(&merged), read(&truth), 0.06);
    assert!(read(&bare) > 3.0 * read(&truth), "{} {}", read(&bare), read(&truth));
    near(merged.block_layer.as_ref().unwrap().mean_ms.unwrap(), mean(&truth), 0.15);
    let busy = |run: &Run| run.devices.hdd.busy_fraction.unwrap();
    near(busy(&merged), busy(&truth), 0.1);
    assert!(bare.queue_depth_max.unwrap() > 1000, "{:?}", bare.queue_depth_max);
    assert!(truth.queue_depth_max.unwrap() < 200, "{:?}", truth.queue_depth_max);
}

/// Regression: all other figures left out the warm-up, and those of the block layer did not.
#[test]
fn requests_of_the_warm_up_are_not_counted() {
    let issued = |warmup| {
        let run = try_run("file-system.zst", Event::Queue, "hdd-only", &LOOP, (true, warmup)).unwrap();
        let counts = run.block_layer.unwrap();
        (counts.queued, counts.issued)
    };
    let ((queued, all), (later, part)) = (issued(0.0), issued(0.5));
    assert_eq!(later, queued.div_ceil(2), "{queued} requests in all");
    assert!(part < all && part > 0, "{part} of {all}");
}

/// Regression: the uses that belady foresaw were those of the trace's requests, of which several
/// become one request, so the policy went by uses that were long over.
#[test]
fn knowledge_of_requests_is_refused_behind_a_block_layer() {
    let with = |scheme, key, value, merge| {
        try_run("file-system.zst", Event::Queue, scheme, &[(key, value)], (merge, 0.0)).map(|run| run.scheme)
    };
    for (scheme, key, value) in
        [("smart-response", "replacement", "belady"), ("mixedstore", "idle_periods", "profiled")]
    {
        let error = with(scheme, key, value, true).expect_err("requests are merged").to_string();
        assert!(error.starts_with(&format!("{scheme}: ")) && error.ends_with("expected --merge off"), "{error}");
        assert_eq!(with(scheme, key, value, false).unwrap(), scheme);
    }
}
