//! `bimetal sweep status`: the number of jobs of each grid that are done, left out, failed and
//! open.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use bimetal_plan::sweep::store::{Plan, Results, Store};
use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::options::TableForm;
use crate::output::{print, print_json};
use crate::sheet::{Cell, Sheet};

/// Number of messages of failed jobs that are shown.
const MESSAGES_SHOWN: usize = 10;

/// State of a folder.
#[derive(Serialize)]
struct Status {
    grids: Vec<GridStatus>,
    /// Number of jobs with each message.
    failures: BTreeMap<String, Failure>,
}

/// Jobs that failed with one message; in JSON, their number.
#[derive(Default)]
pub(super) struct Failure {
    pub(super) jobs: u64,
    traces: BTreeSet<String>,
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.jobs)
    }
}

/// State of a grid.
#[derive(Serialize)]
struct GridStatus {
    name: String,
    engine: String,
    jobs: usize,
    done: usize,
    left_out: usize,
    failed: usize,
    open: usize,
    /// Shards that have begun, as I/N.
    shards: Vec<String>,
}

/// Prints the state of the sweep in `folder`.
///
/// # Errors
/// The folder is not the folder of a sweep.
pub(super) fn show(folder: &Path, form: &TableForm) -> Result<(), Error> {
    let store = Store::open(folder)?;
    let status = status(&store.plans()?, &store.results()?);
    if form.json {
        return print_json("sweep-status", &status);
    }
    if let Some(table) = form.of(|| sheet(&status.grids)) {
        return print(&table);
    }
    let mut text = String::new();
    for GridStatus { name, jobs: all, done, left_out, failed, open, shards, .. } in &status.grids {
        let shards = if shards == &["1/1"] { String::new() } else { format!("; shards {}", shards.join(" ")) };
        // Writing to a string cannot fail.
        let all = self::jobs(*all as u64);
        let _ = writeln!(text, "{name}: {all}: {done} done, {left_out} left out, {failed} failed, {open} open{shards}");
    }
    if status.grids.is_empty() {
        text += "no grid was run with this folder yet\n";
    }
    text += &failures(&status.failures);
    print(&text)
}

/// Returns a row for each grid.
fn sheet(grids: &[GridStatus]) -> Sheet {
    let mut sheet = Sheet::new(["grid", "engine", "jobs", "done", "left_out", "failed", "open", "shards"]);
    for GridStatus { name, engine, jobs, done, left_out, failed, open, shards } in grids {
        let counts = [jobs, done, left_out, failed, open].map(|count| Cell::from(*count as u64));
        let [name, engine] = [name, engine].map(|text| Cell::from(text.as_str()));
        sheet.push([name, engine].into_iter().chain(counts).chain([shards.join(" ").into()]));
    }
    sheet
}

/// Returns a line for each message of failed jobs, with the number of jobs that have it and the
/// first trace.
pub(super) fn failures(messages: &BTreeMap<String, Failure>) -> String {
    let mut text = String::new();
    for (message, failure) in messages.iter().take(MESSAGES_SHOWN) {
        let first = failure.traces.first().map_or("", String::as_str);
        let others = match failure.traces.len() {
            0 | 1 => String::new(),
            2 => " and another trace".to_owned(),
            count => format!(" and {} other traces", count - 1),
        };
        let _ = writeln!(text, "{} failed on {first}{others}: {message}", jobs(failure.jobs));
    }
    if messages.len() > MESSAGES_SHOWN {
        let _ = writeln!(
            text,
            "and {} other messages: `bimetal sweep status DIR --json` has all",
            messages.len() - MESSAGES_SHOWN
        );
    }
    text
}

/// Returns a number of jobs in words.
pub(super) fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

fn status(plans: &[Plan], results: &Results) -> Status {
    let mut grids: BTreeMap<&str, Vec<&Plan>> = BTreeMap::new();
    plans.iter().for_each(|plan| grids.entry(&plan.grid).or_default().push(plan));
    let grids = grids.values().map(|plans| of_grid(plans, results)).collect();
    Status { grids, failures: failed_jobs(plans.iter(), results) }
}

/// Returns the jobs of the plans that failed, by their messages. A job of several plans counts
/// once.
pub(super) fn failed_jobs<'a>(plans: impl Iterator<Item = &'a Plan>, results: &Results) -> BTreeMap<String, Failure> {
    let (mut failures, mut counted) = (BTreeMap::<String, Failure>::new(), BTreeSet::new());
    for job in plans.flat_map(|plan| &plan.jobs) {
        let Some(message) = results.get(&job.key).and_then(|finished| finished.error()) else { continue };
        let failure = failures.entry(message.to_owned()).or_default();
        failure.traces.insert(job.trace.clone());
        failure.jobs += u64::from(counted.insert(&job.key));
    }
    failures
}

/// Returns the grids of `store` that have jobs without a result, with the numbers of these jobs.
///
/// # Errors
/// The plans or the results cannot be read.
pub(super) fn open_jobs(store: &Store) -> Result<Vec<(String, usize)>, Error> {
    let status = status(&store.plans()?, &store.results()?);
    let open = status.grids.into_iter().filter(|grid| grid.open > 0);
    Ok(open.map(|grid| (grid.name, grid.open)).collect())
}

fn of_grid(plans: &[&Plan], results: &Results) -> GridStatus {
    let first = plans[0];
    // Whole grid and shards may both have been run in one folder.
    let jobs: BTreeMap<usize, &String> =
        plans.iter().flat_map(|plan| plan.jobs.iter().map(|job| (job.number, &job.key))).collect();
    let finished: Vec<_> = jobs.values().filter_map(|key| results.get(*key)).collect();
    let failed = finished.iter().filter(|finished| finished.error().is_some()).count();
    let left_out = finished.iter().filter(|finished| finished.left_out().is_some()).count();
    let all = first.jobs_in_grid;
    GridStatus {
        name: first.name.clone(),
        engine: first.engine.clone(),
        jobs: all,
        done: finished.len() - failed - left_out,
        left_out,
        failed,
        open: all.saturating_sub(finished.len()),
        shards: plans.iter().map(|plan| format!("{}/{}", plan.shard.0, plan.shard.1)).collect(),
    }
}
