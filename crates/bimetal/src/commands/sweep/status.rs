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
    failures: Messages,
    /// Number of jobs with each reason for which they were left out.
    #[serde(skip)]
    left_out: Messages,
}

/// Jobs that have no figures, by their message.
pub(super) type Messages = BTreeMap<String, Jobs>;

/// Jobs with one message; in JSON, their number.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) count: u64,
    traces: BTreeSet<String>,
}

impl Serialize for Jobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.count)
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
    text += &(failures(&status.failures) + &reasons(&status.left_out));
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

/// Returns a line for each message of failed jobs.
pub(super) fn failures(messages: &Messages) -> String {
    by_message("failed", messages)
}

/// Returns a line for each reason for which jobs were left out.
pub(super) fn reasons(messages: &Messages) -> String {
    by_message("left out", messages)
}

/// Returns a line for each message, with the number of jobs that have it and the first trace.
fn by_message(outcome: &str, messages: &Messages) -> String {
    let mut text = String::new();
    for (message, Jobs { count, traces }) in messages.iter().take(MESSAGES_SHOWN) {
        let first = traces.first().map_or("", String::as_str);
        let others = match traces.len() {
            0 | 1 => String::new(),
            2 => " and another trace".to_owned(),
            count => format!(" and {} other traces", count - 1),
        };
        let _ = writeln!(text, "{} {outcome} on {first}{others}: {message}", jobs(*count));
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
    Status { grids, failures: failed_jobs(plans.iter(), results), left_out: left_out_jobs(plans.iter(), results) }
}

/// Returns the jobs of the plans that failed, by their messages.
pub(super) fn failed_jobs<'a>(plans: impl Iterator<Item = &'a Plan>, results: &Results) -> Messages {
    jobs_by_message(plans, |key| results.get(key)?.error())
}

/// Returns the jobs of the plans that were left out, by their reasons.
pub(super) fn left_out_jobs<'a>(plans: impl Iterator<Item = &'a Plan>, results: &Results) -> Messages {
    jobs_by_message(plans, |key| results.get(key)?.left_out())
}

/// Returns the jobs of the plans that have a message, by their messages. A job of several plans
/// counts once.
fn jobs_by_message<'a, 'b>(
    plans: impl Iterator<Item = &'a Plan>,
    message: impl Fn(&str) -> Option<&'b str>,
) -> Messages {
    let (mut messages, mut counted) = (Messages::new(), BTreeSet::new());
    for job in plans.flat_map(|plan| &plan.jobs) {
        let Some(message) = message(&job.key) else { continue };
        let jobs = messages.entry(message.to_owned()).or_default();
        jobs.traces.insert(job.trace.clone());
        jobs.count += u64::from(counted.insert(&job.key));
    }
    messages
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
