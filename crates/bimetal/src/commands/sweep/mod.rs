//! `bimetal sweep`: runs every combination of a grid, and keeps the results.
//!
//! `bimetal_plan::sweep` has the pure part: grid, keys, shards and the folder. In this module a
//! grid becomes jobs with the options of `simulate` (`jobs.rs`), traces are read once for several
//! jobs (`traces.rs`), and threads run the jobs (`workers.rs`).

mod jobs;
mod report;
mod sources;
mod status;
mod traces;
mod workers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bimetal_plan::sweep::shard::Shard;
use bimetal_plan::sweep::store::Store;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::shell_line;
use crate::error::Error;
use crate::memory::take_large_blocks_from_the_system;
use crate::options::parse::whole_number;
use crate::options::{JsonOption, TableForm};
use crate::output::{answer, note, print, print_json};
use crate::progress::{Stages, Watch};
use jobs::Sweep;

/// Version of the engine: program and sources. The version is a part of the key of each job.
pub(crate) const ENGINE: &str = env!("BIMETAL_ENGINE");

/// Run every combination of traces, schemes, sizes and settings, and keep the results
///
/// GRID.toml has options of `simulate` as keys, and each list of values is an axis. A job whose
/// result is in DIR is not run again: after an interruption, the same command continues. The exit
/// status is 3 if a job has failed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    bimetal sweep grid.toml -o results\n  \
    bimetal sweep grid.toml -o results --list\n  \
    bimetal sweep grid.toml -o results --shard 3/8\n  \
    bimetal sweep status results\n  \
    bimetal sweep merge results-1 results-2 -o results\n  \
    bimetal sweep report results --figure response_time_ms.all.p99\n\n\
    A grid:\n  \
    traces = [\"monday.bin.zst\", \"traces/*.csv.gz\"]\n  \
    schemes = [\"hdd-only\", \"griffin\", \"smart-response\"]\n  \
    ssd-size = [\"5%\", \"10%\", \"32GiB\"]\n  \
    seed = [1, 2, 3]\n  \
    [set]\n  \
    griffin.timeout = [\"60s\", \"900s\"]")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// The grid: `traces`, `schemes`, options of `simulate` as keys, and settings in the table
    /// [set]
    #[arg(value_name = "GRID.toml", required = true)]
    grid: Option<PathBuf>,
    /// The folder of the results; it is made if it does not exist. Several grids may share it
    #[arg(short, long, value_name = "DIR", required = true)]
    output: Option<PathBuf>,
    /// Run only shard I of N; env: the shard that Slurm (SLURM_ARRAY_TASK_ID) or Kubernetes
    /// (JOB_COMPLETION_INDEX, with BIMETAL_SHARDS) names
    #[arg(long, value_name = "I/N|env", value_parser = shard)]
    shard: Option<Shard>,
    /// Most jobs at a time [default: one on each core]
    #[arg(long, value_name = "N", value_parser = whole_number)]
    jobs: Option<u64>,
    /// Run jobs that have failed again
    #[arg(long)]
    retry: bool,
    /// Print the jobs with their states and commands, and run nothing
    #[arg(long, conflicts_with = "json")]
    list: bool,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how many jobs of each grid are done, failed and open
    #[command(after_help = "Example:\n  bimetal sweep status results")]
    Status {
        /// The folder of the results
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        #[command(flatten)]
        form: TableForm,
    },
    /// Put the results of several folders into one, sorted by key
    ///
    /// Also writes results.jsonl, results.csv and results.parquet of a folder into which several
    /// shards have written: name that folder twice.
    #[command(after_help = "Examples:\n  \
        bimetal sweep merge results-1 results-2 -o results\n  \
        bimetal sweep merge results -o results")]
    Merge {
        /// The folders
        #[arg(value_name = "DIR", required = true)]
        folders: Vec<PathBuf>,
        /// The folder into which the results are put
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        #[command(flatten)]
        json: JsonOption,
    },
    /// Write a page with small charts over two axes, a bar for each scheme
    #[command(after_help = "Examples:\n  \
        bimetal sweep report results\n  \
        bimetal sweep report results --figure cost.total_usd --rows traces --columns ssd-size -o cost.html")]
    Report(report::Arguments),
}

fn shard(text: &str) -> Result<Shard, String> {
    if text == "env" { Shard::of_environment(|name| std::env::var(name).ok()) } else { text.parse() }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    match &arguments.action {
        Some(Action::Status { folder, form }) => status::show(folder, form),
        Some(Action::Merge { folders, output, json }) => merge(folders, output, json.json),
        Some(Action::Report(arguments)) => report::write(arguments),
        None if arguments.list => {
            let (sweep, folder, _) = arguments.of_grid()?;
            print_list(&sweep, folder)
        }
        None => sweep(&arguments),
    }
}

impl Arguments {
    /// Reads the grid. Returns the jobs of the grid, the folder of the results, and the shard.
    fn of_grid(&self) -> Result<(Sweep, &Path, Shard), Error> {
        let Self { action: None, grid: Some(grid), output: Some(folder), .. } = self else {
            return Err(Error::new("expected a grid and -o DIR; see `bimetal sweep --help`"));
        };
        if self.jobs == Some(0) {
            return Err(Error::new("--jobs 0: expected at least 1"));
        }
        let shard = self.shard.unwrap_or(Shard::ALL);
        Ok((Sweep::read(grid, shard)?, folder, shard))
    }
}

fn sweep(arguments: &Arguments) -> Result<(), Error> {
    take_large_blocks_from_the_system();
    let (sweep, folder, shard) = arguments.of_grid()?;
    let store = Store::create(folder)?;
    let swept = swept(&sweep, &store, arguments, &Stages::default())?;
    if shard == Shard::ALL {
        store.assemble()?;
    }
    let printed = if arguments.json.json {
        print_json("sweep-run", &swept)
    } else {
        let Swept { jobs, run, done_before, left_out, failures, reasons, .. } = &swept;
        let failed: u64 = failures.values().map(|failed| failed.count).sum();
        let done = *jobs as u64 - *left_out as u64 - failed;
        let of_shard = if shard == Shard::ALL { String::new() } else { format!("shard {shard}: ") };
        let of_jobs = format!("{run} run now, {done_before} before; {done} done, {left_out} left out, {failed} failed");
        let messages = status::failures(failures) + &status::reasons(reasons);
        let results = if shard == Shard::ALL { format!("results: {}\n", named(&store)) } else { String::new() };
        print(&format!("{of_shard}{}: {of_jobs}\n{messages}{results}", status::jobs(*jobs as u64)))
    };
    if shard != Shard::ALL {
        note(format_args!("when all shards have run: bimetal sweep merge {0} -o {0}", folder.display()));
    }
    answer(printed, !swept.failures.is_empty())
}

/// Runs the open jobs of a grid, and returns the numbers of jobs as JSON. After the run, the
/// outputs of the folder are complete.
///
/// # Errors
/// The grid, an option of the grid, or a trace is wrong, or a result cannot be written.
pub(crate) fn json(arguments: &Arguments, watch: &dyn Watch) -> Result<String, Error> {
    let (sweep, folder, _) = arguments.of_grid()?;
    let store = Store::create(folder)?;
    let swept = swept(&sweep, &store, arguments, watch)?;
    store.assemble()?;
    Ok(serde_json::to_string(&swept)?)
}

/// Numbers of jobs of a sweep, and the files of the results.
#[derive(Serialize)]
struct Swept {
    jobs: usize,
    run: usize,
    done_before: usize,
    left_out: usize,
    /// Number of failed jobs by their message.
    failures: status::Messages,
    /// Number of jobs that were left out, by their reason.
    #[serde(skip)]
    reasons: status::Messages,
    #[serde(flatten)]
    files: Files,
}

/// The files of the results. While shards still run, the files of a sweep are not complete.
#[derive(Serialize)]
struct Files {
    results: PathBuf,
    table: PathBuf,
    parquet: PathBuf,
}

impl Files {
    fn of(store: &Store) -> Self {
        let [results, table, parquet] = store.outputs();
        Self { results, table, parquet }
    }
}

/// Runs the open jobs, and with `--retry` the failed jobs.
fn swept(sweep: &Sweep, store: &Store, arguments: &Arguments, watch: &dyn Watch) -> Result<Swept, Error> {
    let results = store.results()?;
    let gone: BTreeSet<String> = store.write_plan(&sweep.plan)?.into_iter().map(|plan| plan.name).collect();
    for grid in gone.iter().filter(|grid| **grid != sweep.plan.name) {
        note(format_args!(
            "the older results of {grid} are of another engine, or of other content of a trace or profile, and were left \
             out of the results: `bimetal sweep {grid} -o {}` runs that grid again",
            store.folder().display()
        ));
    }
    let is_open = |key: &str| match results.get(key).map(|finished| finished.error()) {
        None => true,
        Some(error) => arguments.retry && error.is_some(),
    };
    let open = sweep.distinct().filter(|job| is_open(&job.key)).collect::<Vec<_>>();
    let run = workers::run(&open, store, thread_count(arguments.jobs), watch)?;
    let results = store.results()?;
    let plan = || std::iter::once(&sweep.plan);
    let (failures, reasons) = (status::failed_jobs(plan(), &results), status::left_out_jobs(plan(), &results));
    let is_left_out =
        |job: &&jobs::Prepared| results.get(&job.key).is_some_and(|finished| finished.left_out().is_some());
    let left_out = sweep.distinct().filter(is_left_out).count();
    let jobs = sweep.distinct().count();
    Ok(Swept { jobs, run, done_before: jobs - run, left_out, failures, reasons, files: Files::of(store) })
}

/// Prints the jobs with their states and commands.
fn print_list(sweep: &Sweep, folder: &Path) -> Result<(), Error> {
    if !folder.exists() {
        return print(&listed(sweep, |_| "open"));
    }
    let results = Store::open(folder)?.results()?;
    print(&listed(sweep, |key| match results.get(key).map(|finished| finished.error()) {
        None => "open",
        Some(None) => "done",
        Some(Some(_)) => "failed",
    }))
}

/// Returns the number of threads: at most one on each core.
fn thread_count(wanted: Option<u64>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    wanted.map_or(cores, |wanted| usize::try_from(wanted).unwrap_or(cores).min(cores))
}

/// Returns a line for each job: its key, its state, and the command that runs this job alone.
fn listed<'a>(sweep: &Sweep, state: impl Fn(&str) -> &'a str) -> String {
    let line = |job: &jobs::Prepared| {
        let arguments = ["simulate".to_owned(), job.job.trace.clone()].into_iter().chain(job.job.arguments());
        format!("{} {:6} {}\n", job.key, state(&job.key), shell_line(arguments))
    };
    sweep.jobs.iter().map(line).collect()
}

fn merge(folders: &[PathBuf], output: &Path, json: bool) -> Result<(), Error> {
    let sources = folders.iter().map(|folder| Store::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let target = Store::create(output)?;
    let own = output.canonicalize()?;
    let is_other = |store: &Store| store.folder().canonicalize().map_or(true, |folder| folder != own);
    let others: Vec<Store> = sources.into_iter().filter(is_other).collect();
    if !others.is_empty() {
        target.merge(&others)?;
    }
    let count = target.assemble()?;
    let grids = status::open_jobs(&target)?;
    for (grid, open) in &grids {
        note(format_args!(
            "{grid}: {} without a result: if the grid is still wanted, run the shards that are missing (`bimetal sweep status \
             {}` names those that have run), and merge again",
            status::jobs(*open as u64),
            output.display()
        ));
    }
    if json {
        let open = grids.iter().map(|(_, open)| open).sum();
        return print_json("sweep-merge", &Merged { count, open, files: Files::of(&target) });
    }
    print(&format!("{count} results: {}\n", named(&target)))
}

/// Result of a merge, for programs.
#[derive(Serialize)]
struct Merged {
    count: usize,
    /// Number of jobs without a result.
    open: usize,
    #[serde(flatten)]
    files: Files,
}

/// Returns the paths of the assembled results.
fn named(store: &Store) -> String {
    let Files { results, table, parquet } = Files::of(store);
    format!("{}, {} and {}", results.display(), table.display(), parquet.display())
}
