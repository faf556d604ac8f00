//! Threads that run jobs. Jobs over one trace share its requests in memory.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bimetal_measure::json::to_compact_json;
use bimetal_plan::sweep::SweepError;
use bimetal_plan::sweep::store::{Part, RESULT, Store};
use bimetal_sim::experiment::{Experiment, ExperimentError, NoProgress, peak_rss_bytes};
use bimetal_sim::results::{Document, TraceSummary};
use bimetal_sim::setup::{Choices, SetupError};
use bimetal_trace::Event;
use bimetal_volumes::memory::free_bytes;
use serde::Serialize;
use serde_json::Value;

use super::ENGINE;
use super::jobs::Prepared;
use super::traces::{Loaded, name_of_requests};
use crate::error::Error;
use crate::experiment::{assumed, complete};
use crate::kept::{MEMORY_SHARE, bytes_max};
use crate::options::replay::choose_replay;
use crate::options::simulation::choices;
use crate::progress::Watch;

/// Trace that was read, or the error message of its reader.
type Read = Arc<Result<Loaded, String>>;

/// Jobs over the same requests.
struct Group<'a> {
    jobs: VecDeque<&'a Prepared>,
    state: State,
}

enum State {
    /// No thread has begun to read the trace.
    Unread,
    /// A thread reads the trace.
    Reading,
    /// The trace was read.
    Read(Read),
}

/// Next step of a thread.
enum Step<'a> {
    Read(&'a Prepared),
    Run(&'a Prepared, Read),
    End,
}

/// Shared state of the threads.
struct Desk<'a> {
    groups: Vec<Group<'a>>,
    part: Part,
    memory: Memory,
    done: u64,
    /// Reading and simulation time of all threads together.
    reading: Duration,
    simulating: Duration,
    /// Reason for which the sweep ends early.
    failed: Option<SweepError>,
}

/// Runs the jobs, and appends their results to a new part of the store. Returns their number.
///
/// # Errors
/// A result cannot be written.
pub(super) fn run(jobs: &[&Prepared], store: &Store, threads: usize, watch: &dyn Watch) -> Result<usize, Error> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let began = Instant::now();
    let part = store.begin_part()?;
    let (reading, simulating) = (Duration::ZERO, Duration::ZERO);
    let (groups, memory) = (grouped(jobs), Memory::of_system());
    let desk = Desk { groups, part, memory, done: 0, reading, simulating, failed: None };
    let (desk, changed) = (Mutex::new(desk), Condvar::new());
    let threads = threads.min(jobs.len());
    let worker = Worker { desk: &desk, changed: &changed, watch, total: jobs.len() as u64, began };
    let bytes_max = bytes_max(threads);
    watch.jobs(0, jobs.len() as u64);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| worker.work(bytes_max));
        }
    });
    let mut desk = desk.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = desk.failed {
        return Err(error.into());
    }
    let facts = serde_json::json!({
        "jobs": jobs.len(), "threads": threads, "wall_s": began.elapsed().as_secs_f64(),
        "simulating_s": desk.simulating.as_secs_f64(), "reading_s": desk.reading.as_secs_f64(),
        "peak_rss_bytes": peak_rss_bytes(),
    });
    desk.part.note(&to_compact_json(&facts))?;
    Ok(jobs.len())
}

/// Returns the jobs by their requests, in the order of the first job of each group.
fn grouped<'a>(jobs: &[&'a Prepared]) -> Vec<Group<'a>> {
    let (mut places, mut groups) = (BTreeMap::new(), Vec::<Group<'_>>::new());
    for job in jobs {
        let place = *places.entry(name_of_requests(job)).or_insert_with(|| {
            groups.push(Group { jobs: VecDeque::new(), state: State::Unread });
            groups.len() - 1
        });
        groups[place].jobs.push_back(job);
    }
    groups
}

impl<'a> Desk<'a> {
    /// Returns the next step, or `None` if a thread must wait for a trace.
    fn step(&mut self) -> Option<Step<'a>> {
        if self.failed.is_some() {
            return Some(Step::End);
        }
        // From here on, a group that was read has jobs.
        self.groups.retain(|group| !group.jobs.is_empty() || matches!(group.state, State::Reading));
        let mut waits = false;
        for group in &mut self.groups {
            let State::Read(read) = &group.state else { continue };
            if !self.memory.take(needed(read)) {
                waits = true;
                continue;
            }
            if let Some(job) = group.jobs.pop_front() {
                return Some(Step::Run(job, Arc::clone(read)));
            }
        }
        if waits {
            // A trace takes memory, too. The end of a job under way wakes the thread.
            return None;
        }
        let unread = self.groups.iter().position(|group| matches!(group.state, State::Unread));
        if let Some(place) = unread {
            let first = self.groups[place].jobs.front()?;
            let step = Step::Read(first);
            self.groups[place].state = State::Reading;
            return Some(step);
        }
        self.groups.is_empty().then_some(Step::End)
    }
}

/// Memory of the jobs under way. A job begins if the memory that it is predicted to need is free,
/// or if no other job is under way.
struct Memory {
    /// Memory for all jobs, in bytes.
    bytes: u64,
    /// Predicted memory of the jobs under way, in bytes.
    in_use: u64,
    jobs: usize,
}

impl Memory {
    /// Takes what traces may not take: they may be kept in a quarter of the free memory.
    fn of_system() -> Self {
        Self { bytes: free_bytes().map_or(u64::MAX, |free| free - free / MEMORY_SHARE), in_use: 0, jobs: 0 }
    }

    /// Takes the memory of a job that begins. Returns false if the job must wait.
    fn take(&mut self, bytes: u64) -> bool {
        let fits = self.jobs == 0 || self.in_use.saturating_add(bytes) <= self.bytes;
        if fits {
            self.in_use = self.in_use.saturating_add(bytes);
            self.jobs += 1;
        }
        fits
    }

    /// Gives the memory of a job back that has ended.
    fn give_back(&mut self, bytes: u64) {
        self.in_use = self.in_use.saturating_sub(bytes);
        self.jobs -= 1;
    }
}

/// Returns the memory that a job over the trace is predicted to need, in bytes.
fn needed(read: &Read) -> u64 {
    read.as_ref().as_ref().map_or(0, |loaded| loaded.survey.predicted_memory().0)
}

/// Outcome of a job that did not fail.
enum Outcome {
    Done(Box<Document>),
    /// The scheme cannot be built with the drives; the value is the reason.
    LeftOut(String),
}

/// State of the sweep that a thread uses.
#[derive(Clone, Copy)]
struct Worker<'a, 'b> {
    desk: &'b Mutex<Desk<'a>>,
    changed: &'b Condvar,
    watch: &'b dyn Watch,
    total: u64,
    began: Instant,
}

impl<'a> Worker<'a, '_> {
    fn desk(&self) -> MutexGuard<'_, Desk<'a>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(self, bytes_max: u64) {
        loop {
            match self.next() {
                Step::End => return,
                Step::Read(job) => {
                    let began = Instant::now();
                    let read = caught(|| Loaded::read(job, bytes_max).map_err(|error| error.to_string()));
                    self.keep(job, Arc::new(read), began.elapsed());
                }
                Step::Run(job, read) => self.run(job, &read),
            }
        }
    }

    fn next(&self) -> Step<'a> {
        let mut desk = self.desk();
        loop {
            if self.watch.is_stopped() {
                return Step::End;
            }
            if let Some(step) = desk.step() {
                return step;
            }
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives the trace that was read for `job` to all jobs of its group.
    fn keep(&self, job: &Prepared, read: Read, took: Duration) {
        let mut desk = self.desk();
        desk.reading += took;
        let is_it = |group: &&mut Group<'_>| group.jobs.front().is_some_and(|first| std::ptr::eq(*first, job));
        if let Some(group) = desk.groups.iter_mut().find(is_it) {
            group.state = State::Read(read);
        }
        self.changed.notify_all();
    }

    fn run(&self, job: &Prepared, read: &Read) {
        let began = Instant::now();
        let outcome = match read.as_ref() {
            Ok(loaded) => caught(|| simulated(job, loaded).map_err(|error| error.to_string())),
            Err(message) => Err(message.clone()),
        };
        let took = began.elapsed();
        let line = line(job, outcome);
        let facts = serde_json::json!({
            "key": job.key, "trace": job.job.trace, "scheme": job.job.scheme.name,
            "ended_s": self.began.elapsed().as_secs_f64(), "wall_s": took.as_secs_f64(),
            "peak_rss_bytes": peak_rss_bytes(),
        });
        let facts = to_compact_json(&facts);
        let mut desk = self.desk();
        desk.simulating += took;
        desk.memory.give_back(needed(read));
        if let Err(error) = desk.part.append(&line, &facts) {
            desk.failed = Some(error);
        }
        desk.done += 1;
        let done = desk.done;
        drop(desk);
        self.watch.jobs(done, self.total);
        self.changed.notify_all();
    }
}

/// Calls `work`, and makes a panic a message: one defect must not stop a thousand jobs.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(panic.as_ref())))
}

fn of_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the simulation panicked, which is a defect of Bimetal: {}", text.unwrap_or("no message"))
}

/// Runs the job over its trace.
fn simulated(job: &Prepared, loaded: &Loaded) -> Result<Outcome, Error> {
    let (options, header) = (&job.options, &loaded.header);
    let replay = choose_replay(options.replay, options.speedup, header)?;
    let given = choices(options)?;
    let capacity = options.least_capacity(&given, options.recorded_capacity(header))?;
    let merge = options.merges(header.event == Some(Event::Queue));
    let choices = Choices { merge, capacity, ..given };
    let (schemes, trees) = (vec![job.job.scheme.into()], Vec::new());
    let experiment =
        Experiment { workload: loaded, schemes, trees, choices, replay, warmup: options.warmup()?, keep: None };
    let describe = |_: &_, summary: TraceSummary| TraceSummary {
        format: header.format.name.to_owned(),
        skipped_lines: loaded.skipped_lines,
        ..summary
    };
    let mut document = match experiment.run_surveyed(&loaded.survey, &NoProgress, describe) {
        // Another machine may have the memory: the job failed, and may run again.
        Err(ExperimentError::Setup(error))
            if error.is_of_the_drives() && !matches!(error, SetupError::Memory { .. }) =>
        {
            return Ok(Outcome::LeftOut(error.to_string()));
        }
        document => document?,
    };
    complete(&mut document, options, header, &assumed(options, header, replay), loaded.findings.clone());
    Ok(Outcome::Done(Box::new(document)))
}

/// Result of a job, as a line has it. No part of the result depends on the time, on other jobs, or
/// on the name of the trace.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    key: &'a str,
    engine: &'static str,
    job: LineJob<'a>,
    trace: Value,
    findings: Value,
    run: Value,
    left_out: Option<String>,
    error: Option<String>,
}

#[derive(Serialize)]
struct LineJob<'a> {
    scheme: &'static str,
    trace: &'a str,
    options: &'a BTreeMap<String, String>,
    set: &'a BTreeMap<String, String>,
    files: &'a BTreeMap<String, String>,
}

fn line(job: &Prepared, outcome: Result<Outcome, String>) -> String {
    let Prepared { job: of_grid, spelled, files, key, trace: digest, .. } = job;
    let (scheme, set) = (of_grid.scheme.name, &of_grid.settings);
    let job = LineJob { scheme, trace: digest, options: spelled, set, files };
    let (trace, findings, run) = (Value::Null, Value::Null, Value::Null);
    let mut line = Line { schema: RESULT, key, engine: ENGINE, job, trace, findings, run, left_out: None, error: None };
    match outcome {
        Ok(Outcome::Done(document)) => {
            line.trace = without(&document.trace, &["name"]);
            line.findings = without(&document.findings, &[]);
            line.run = document.runs.first().map_or(Value::Null, |run| without(run, &["run", "series"]));
        }
        Ok(Outcome::LeftOut(reason)) => line.left_out = Some(reason),
        Err(message) => line.error = Some(unnamed(&message, &of_grid.trace)),
    }
    to_compact_json(&line)
}

/// Returns a part of a document as JSON without some of its keys.
fn without(part: &impl Serialize, keys: &[&str]) -> Value {
    let mut value = serde_json::to_value(part).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        keys.iter().for_each(|key| {
            map.remove(*key);
        });
    }
    value
}

/// Returns a message without the path or the name of the trace in front: an equal trace with
/// another name has the same result. Messages name the trace as `NAME: ` or `NAME:LINE: `.
fn unnamed(message: &str, trace: &str) -> String {
    let name = std::path::Path::new(trace).file_name().unwrap_or_default().to_string_lossy();
    let behind = [trace, &*name].into_iter().find_map(|name| {
        let behind = message.strip_prefix(name)?;
        let after_line = behind.strip_prefix(':')?.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let has_line = after_line.starts_with(':') && !behind.starts_with("::");
        (behind.starts_with(": ") || has_line).then_some(behind)
    });
    behind.map_or_else(|| message.to_owned(), |behind| format!("the trace{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_waits_until_its_memory_is_free() {
        let mut memory = Memory { bytes: 100, in_use: 0, jobs: 0 };
        assert!(memory.take(150), "a job that is alone begins");
        assert!(!memory.take(1));
        memory.give_back(150);
        assert!(memory.take(60) && memory.take(40));
        assert!(!memory.take(1));
        memory.give_back(40);
        assert!(memory.take(40));
    }

    /// Regression: each 'a' of a message became 'the trace' if the trace had the name 'a'.
    #[test]
    fn message_loses_only_the_name_of_the_trace_in_front() {
        for (message, trace, expected) in [
            ("a: is empty, expected a trace", "a", "the trace: is empty, expected a trace"),
            ("x/a.csv:3: lba 'zero'", "x/a.csv", "the trace:3: lba 'zero'"),
            ("a.csv:3: lba 'zero'", "x/a.csv", "the trace:3: lba 'zero'"),
            ("an SSD has too little space", "a", "an SSD has too little space"),
            ("smq: the drive is too small", "m", "smq: the drive is too small"),
            ("smq: the drive is too small", "smq.csv", "smq: the drive is too small"),
            ("a:b is no setting", "a", "a:b is no setting"),
        ] {
            assert_eq!(unnamed(message, trace), expected, "{trace}");
        }
    }
}
