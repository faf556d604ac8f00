//! Store: the folder of a sweep.
//!
//! | file | content |
//! |---|---|
//! | `sweep.json` | the form of the folder |
//! | `plans/GRID-I-of-N.json` | the keys of the jobs of a grid, or of a shard of it |
//! | `parts/NUMBER.jsonl` | results, in the order in which one process finished them |
//! | `runs/NUMBER.jsonl` | times and memory of the same process |
//! | `results.jsonl`, `results.csv`, `results.parquet` | results of all plans, sorted by key |
//!
//! A result is appended to its part with one write. A line that was cut short is not JSON, and is
//! passed over: its job counts as not done. So a killed process loses only the jobs under way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SweepError;
use super::shard::Shard;
use super::table::{self, Table};

/// Form of the folder.
const FOLDER: &str = "bimetal/sweep-folder/2";
/// Form of a plan.
const PLAN: &str = "bimetal/sweep-plan/2";
/// Form of a result.
pub const RESULT: &str = "bimetal/sweep/2";

const MARKER: &str = "sweep.json";
const PLANS: &str = "plans";
const PARTS: &str = "parts";
const RUNS: &str = "runs";
const RESULTS: &str = "results.jsonl";
const TABLE: &str = "results.csv";
const PARQUET: &str = "results.parquet";
const MERGED: &str = "merged.jsonl";

/// Folder of a sweep.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// Jobs of a grid, or of a shard of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    schema: String,
    /// Version of the engine.
    pub engine: String,
    /// Digest of the grid's jobs.
    pub grid: String,
    /// Name of the grid's file.
    pub name: String,
    /// Number of the shard, and number of shards.
    pub shard: (u64, u64),
    /// Number of jobs of the whole grid.
    pub jobs_in_grid: usize,
    /// Digest of each file that the jobs read, by path.
    pub files: BTreeMap<String, String>,
    /// Jobs of the shard.
    pub jobs: Vec<PlannedJob>,
}

/// Job of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedJob {
    /// Number of the job in the grid, from 0.
    pub number: usize,
    /// Path of the trace, as the grid has it.
    pub trace: String,
    /// Key of the job.
    pub key: String,
}

impl Plan {
    /// Returns an empty plan of the shard.
    pub fn new(engine: String, grid: String, name: String, shard: Shard, jobs_in_grid: usize) -> Self {
        let (files, jobs) = (BTreeMap::new(), Vec::new());
        let shard = (shard.index, shard.count);
        Self { schema: PLAN.to_owned(), engine, grid, name, shard, jobs_in_grid, files, jobs }
    }

    fn file_name(&self) -> String {
        format!("{}-{}-of-{}.json", self.grid, self.shard.0, self.shard.1)
    }

    /// Returns true if the plans have different engines, or different content of one path. The
    /// grids of the plans may differ: an edited grid counts as another grid.
    fn contradicts(&self, other: &Self) -> bool {
        let other_file = |(path, digest): (&String, &String)| other.files.get(path).is_some_and(|own| own != digest);
        self.engine != other.engine || self.files.iter().any(other_file)
    }
}

/// Result of a finished job.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Line of the part.
    pub line: String,
    /// The same, read.
    pub value: Value,
}

impl Finished {
    /// Reads a line of a part; `None` if the line was cut short or is not a result.
    fn read(line: &str) -> Option<(String, Self)> {
        let value: Value = serde_json::from_str(line).ok()?;
        let key = value.get("key")?.as_str()?.to_owned();
        let whole = line.starts_with(&front(&key));
        whole.then(|| (key, Self { line: line.to_owned(), value }))
    }

    /// Returns the message of a job that failed.
    pub fn error(&self) -> Option<&str> {
        self.value.get("error").and_then(Value::as_str)
    }

    /// Returns the reason for which the scheme cannot be built with the drives of the job.
    pub fn left_out(&self) -> Option<&str> {
        self.value.get("left_out").and_then(Value::as_str)
    }
}

/// Results by key.
pub type Results = BTreeMap<String, Finished>;

/// Returns the beginning of the line with the result of the job `key`. In the assembled results,
/// the paths of the traces follow this beginning.
fn front(key: &str) -> String {
    format!("{{\"schema\":\"{RESULT}\",\"key\":\"{key}\",")
}

/// Part of the results, to which one process appends.
#[derive(Debug)]
pub struct Part {
    results: File,
    runs: File,
    path: PathBuf,
}

impl Part {
    /// Appends a result, and the facts of its run.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn append(&mut self, line: &str, facts: &str) -> Result<(), SweepError> {
        let refuse = |error: io::Error| unwritable(&self.path, &error);
        self.results.write_all(format!("{line}\n").as_bytes()).map_err(refuse)?;
        self.note(facts)
    }

    /// Appends facts about the process.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn note(&mut self, facts: &str) -> Result<(), SweepError> {
        self.runs.write_all(format!("{facts}\n").as_bytes()).map_err(|error| unwritable(&self.path, &error))
    }
}

impl Store {
    /// Opens the folder of a sweep, and makes it if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be made, has another form, or has other files.
    pub fn create(folder: &Path) -> Result<Self, SweepError> {
        let make = |folder: &Path| fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error));
        make(folder)?;
        Self::mark(folder)?;
        [PLANS, PARTS, RUNS].iter().try_for_each(|name| make(&folder.join(name)))?;
        Self::open(folder)
    }

    /// Opens the folder of a sweep.
    ///
    /// # Errors
    /// The folder does not exist, or has another form.
    pub fn open(folder: &Path) -> Result<Self, SweepError> {
        let marker = folder.join(MARKER);
        let shown = folder.display();
        let text = fs::read_to_string(&marker).map_err(|error| {
            SweepError::new(format!(
                "{shown}: is not a folder of a sweep ({MARKER}: {error}): expected a folder that `bimetal sweep \
                 GRID.toml -o DIR` has made"
            ))
        })?;
        let form: Value = serde_json::from_str(&text).unwrap_or_default();
        match form.get("schema").and_then(Value::as_str) {
            Some(FOLDER) => Ok(Self { folder: folder.to_owned() }),
            other => Err(SweepError::new(format!(
                "{}: has the form '{}': expected '{FOLDER}'; choose another folder with -o, or the version of Bimetal that \
                 made this one",
                marker.display(),
                other.unwrap_or("unknown")
            ))),
        }
    }

    /// Marks an empty folder as the folder of a sweep.
    fn mark(folder: &Path) -> Result<(), SweepError> {
        if folder.join(MARKER).exists() {
            return Ok(());
        }
        let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
        // Another shard may be marking the folder at this moment.
        let other = entries.flatten().map(|entry| entry.file_name()).find(|name| {
            let name = name.to_string_lossy();
            !name.starts_with(MARKER) && ![PLANS, PARTS, RUNS].contains(&name.as_ref())
        });
        if let Some(other) = other {
            return Err(SweepError::new(format!(
                "{}: has other files ({}) and is not a folder of a sweep: expected an empty folder, or a new one",
                folder.display(),
                other.display()
            )));
        }
        let marker = folder.join(MARKER);
        let written = write_whole(&marker, format!("{{\"schema\":\"{FOLDER}\"}}\n").as_bytes());
        // Another shard may have marked the folder in the meantime.
        written.or_else(|error| if marker.exists() { Ok(()) } else { Err(error) })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the files of the assembled results: JSON lines, CSV and Parquet.
    pub fn outputs(&self) -> [PathBuf; 3] {
        [RESULTS, TABLE, PARQUET].map(|name| self.folder.join(name))
    }

    /// Returns every finished job. Of a job that failed once and succeeded later, the success
    /// counts.
    ///
    /// # Errors
    /// A part cannot be read, or two parts have different results of one job.
    pub fn results(&self) -> Result<Results, SweepError> {
        let mut results = Results::new();
        for path in self.files(PARTS, ".jsonl")? {
            let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
            for line in bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
                if let Some((key, finished)) = Finished::read(line) {
                    add(&mut results, key, finished, &path)?;
                }
            }
        }
        Ok(results)
    }

    /// Returns the plans of the folder, sorted by name. Another shard may remove an old plan
    /// meanwhile.
    ///
    /// # Errors
    /// A plan cannot be read.
    pub fn plans(&self) -> Result<Vec<Plan>, SweepError> {
        let plans = self.files(PLANS, ".json")?.into_iter().map(|path| read_plan(&path));
        plans.filter_map(Result::transpose).collect()
    }

    /// Writes a plan. Plans of any grid that were made by another engine version, or of files whose
    /// content has changed, are removed. Returns the plans that went.
    ///
    /// # Errors
    /// A plan cannot be read or written.
    pub fn write_plan(&self, plan: &Plan) -> Result<Vec<Plan>, SweepError> {
        let (gone, _): (Vec<Plan>, Vec<Plan>) = self.plans()?.into_iter().partition(|old| plan.contradicts(old));
        for old in &gone {
            let path = self.folder.join(PLANS).join(old.file_name());
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(&path, &error)),
                _ => {}
            }
        }
        let text = serde_json::to_string(plan).map_err(|error| SweepError::new(error.to_string()))?;
        write_whole(&self.folder.join(PLANS).join(plan.file_name()), format!("{text}\n").as_bytes())?;
        Ok(gone)
    }

    /// Begins a part under a number that no other process has.
    ///
    /// # Errors
    /// The part cannot be written.
    pub fn begin_part(&self) -> Result<Part, SweepError> {
        let mut number = 1;
        loop {
            let name = format!("{number:04}.jsonl");
            let path = self.folder.join(PARTS).join(&name);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(results) => {
                    let log = self.folder.join(RUNS).join(&name);
                    let runs = OpenOptions::new().append(true).create(true).open(&log);
                    return Ok(Part { results, runs: runs.map_err(|error| unwritable(&log, &error))?, path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(unwritable(&path, &error)),
            }
        }
    }

    /// Writes the results of all plans as JSON lines and as tables, sorted by key. Returns their
    /// number.
    ///
    /// # Errors
    /// A file of the folder cannot be read or written.
    pub fn assemble(&self) -> Result<usize, SweepError> {
        let (results, plans) = (self.results()?, self.plans()?);
        let traces = traces_by_key(&plans);
        let rows: Vec<(&String, &BTreeSet<&str>, &Finished)> =
            traces.iter().filter_map(|(key, traces)| Some((*key, traces, results.get(*key)?))).collect();
        let mut lines = String::new();
        for (key, traces, finished) in &rows {
            let front = front(key);
            let traces = serde_json::to_string(traces).map_err(|error| SweepError::new(error.to_string()))?;
            lines += &format!("{front}\"traces\":{traces},{}\n", &finished.line[front.len()..]);
        }
        let rows: Vec<table::Row<'_>> =
            rows.iter().map(|(key, traces, finished)| (key.as_str(), *traces, &finished.value)).collect();
        let table = Table::of(&rows);
        let [lines_path, table_path, parquet_path] = self.outputs();
        let parquet =
            table.parquet().map_err(|error| SweepError::new(format!("{}: {error}", parquet_path.display())))?;
        write_whole(&lines_path, lines.as_bytes())?;
        write_whole(&table_path, table.csv().as_bytes())?;
        write_whole(&parquet_path, &parquet)?;
        Ok(rows.len())
    }

    /// Takes over the results and plans of other folders.
    ///
    /// # Errors
    /// A file cannot be read or written. A further error is that the folders contradict each other:
    /// one job with two results, two engines, or two contents of one file.
    pub fn merge(&self, others: &[Self]) -> Result<(), SweepError> {
        let mut results = self.results()?;
        let mut plans = self.plans()?;
        for other in others {
            for (key, finished) in other.results()? {
                add(&mut results, key, finished, &other.folder)?;
            }
            for plan in other.plans()? {
                if let Some(known) = plans.iter().find(|known| known.contradicts(&plan)) {
                    return Err(SweepError::new(format!(
                        "{}: grid {} was run there with engine {} and elsewhere with {}, or with other content of a file: \
                         expected one engine and the same files; run the older shards again, and merge into a new folder",
                        other.folder.display(),
                        plan.name,
                        plan.engine,
                        known.engine
                    )));
                }
                if !plans.contains(&plan) {
                    plans.push(plan);
                }
            }
        }
        let lines: String = results.values().map(|finished| format!("{}\n", finished.line)).collect();
        write_whole(&self.folder.join(PARTS).join(MERGED), lines.as_bytes())?;
        for plan in &plans {
            self.write_plan(plan)?;
        }
        self.merge_runs(others)
    }

    /// Takes over the records of times and memory use from other folders.
    fn merge_runs(&self, others: &[Self]) -> Result<(), SweepError> {
        let mut lines = BTreeSet::new();
        for store in others.iter().chain([self]) {
            for path in store.files(RUNS, ".jsonl")? {
                let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
                lines.extend(text.lines().map(str::to_owned));
            }
        }
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        write_whole(&self.folder.join(RUNS).join(MERGED), text.as_bytes())
    }

    /// Returns the files with this ending in a folder of the store, sorted by name.
    fn files(&self, folder: &str, ending: &str) -> Result<Vec<PathBuf>, SweepError> {
        let folder = self.folder.join(folder);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&folder, &error)),
        };
        let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
        let mut paths = paths.map_err(|error| unreadable(&folder, &error))?;
        paths.retain(|path| path.to_string_lossy().ends_with(ending));
        paths.sort();
        Ok(paths)
    }
}

/// Returns the traces of each job, as the plans name them.
fn traces_by_key(plans: &[Plan]) -> BTreeMap<&String, BTreeSet<&str>> {
    let mut traces: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
    for job in plans.iter().flat_map(|plan| &plan.jobs) {
        traces.entry(&job.key).or_default().insert(&job.trace);
    }
    traces
}

/// Adds a result. A success replaces a failure; two different successes are an error.
fn add(results: &mut Results, key: String, finished: Finished, place: &Path) -> Result<(), SweepError> {
    if let Some(known) = results.get(&key) {
        match (known.error(), finished.error()) {
            _ if known.line == finished.line => return Ok(()),
            (None, Some(_)) => return Ok(()),
            (Some(_), None) => {}
            // The order of the parts must not matter.
            (Some(_), Some(_)) if known.line < finished.line => return Ok(()),
            (Some(_), Some(_)) => {}
            (None, None) => {
                return Err(SweepError::new(format!(
                    "{}: job {key} has another result than elsewhere: expected equal results of equal jobs; delete one of \
                     the two, and run the sweep again",
                    place.display()
                )));
            }
        }
    }
    results.insert(key, finished);
    Ok(())
}

/// Writes a file that appears under its name only when it is complete.
fn write_whole(path: &Path, content: &[u8]) -> Result<(), SweepError> {
    let refuse = |error: io::Error| unwritable(path, &error);
    let (partial, mut file) = create_partial(path).map_err(refuse)?;
    let written = file.write_all(content).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        refuse(error)
    })
}

/// Creates a file beside `path` under a name that no other writer uses. Shards may write the same
/// file at one time, and in containers all shards may have the same process id.
fn create_partial(path: &Path) -> io::Result<(PathBuf, File)> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let partial = path.with_added_extension(format!("partial-{}-{nanos}-{count}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (partial, file)),
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> SweepError {
    SweepError::new(format!(
        "{}: cannot be written: {error}: expected a folder with room; choose it with -o",
        path.display()
    ))
}

fn unreadable(path: &Path, error: &io::Error) -> SweepError {
    SweepError::new(format!("{}: cannot be read: {error}", path.display()))
}

/// Reads a plan; `None` if the file is gone.
fn read_plan(path: &Path) -> Result<Option<Plan>, SweepError> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| unreadable(path, &error))?,
    };
    let plan = serde_json::from_str::<Plan>(&text).ok().filter(|plan| plan.schema == PLAN);
    plan.map(Some).ok_or_else(|| {
        SweepError::new(format!(
            "{}: is not a plan of the form '{PLAN}': delete the file, and run the sweep again",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed on drop.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("bimetal-sweep-store-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn line(key: &str, rest: &str) -> String {
        format!("{}\"job\":{{\"scheme\":\"x\"}},{rest}}}", front(key))
    }

    fn plan(engine: &str, shard: (u64, u64), jobs: &[(&str, &str)]) -> Plan {
        let shard = Shard { index: shard.0, count: shard.1 };
        let mut plan = Plan::new(engine.to_owned(), "g".to_owned(), "grid.toml".to_owned(), shard, 3);
        let job = |(number, (trace, key)): (usize, &(&str, &str))| PlannedJob {
            number,
            trace: (*trace).to_owned(),
            key: (*key).to_owned(),
        };
        plan.jobs = jobs.iter().enumerate().map(job).collect();
        plan
    }

    fn text(store: &Store) -> String {
        fs::read_to_string(&store.outputs()[0]).expect("results")
    }

    #[test]
    fn torn_line_counts_as_not_done() {
        let place = Place::new("torn");
        let store = Store::create(&place.0).expect("a folder");
        let mut part = store.begin_part().expect("a part");
        part.append(&line("a", "\"error\":null"), "{}").expect("written");
        drop(part);
        let whole = line("b", "\"error\":null");
        for cut in 0..whole.len() {
            fs::write(place.0.join(PARTS).join("0002.jsonl"), &whole[..cut]).expect("written");
            assert_eq!(store.results().expect("read").keys().collect::<Vec<_>>(), ["a"], "cut at {cut}");
        }
        fs::write(place.0.join(PARTS).join("0002.jsonl"), &whole).expect("written");
        assert_eq!(store.results().expect("read").len(), 2);
        // The next process does not write behind the torn line.
        assert!(store.begin_part().expect("a part").path.ends_with("0003.jsonl"));
    }

    #[test]
    fn results_have_their_traces_and_the_order_of_keys() {
        let place = Place::new("assemble");
        let store = Store::create(&place.0).expect("a folder");
        let mut part = store.begin_part().expect("a part");
        for key in ["c", "a", "b"] {
            part.append(&line(key, "\"error\":null"), "{}").expect("written");
        }
        store.write_plan(&plan("1", (1, 1), &[("t2", "a"), ("t", "c"), ("t1", "a"), ("t", "d")])).expect("written");
        assert_eq!(store.assemble().expect("assembled"), 2);
        let expected = |key, traces| {
            format!(
                "{{\"schema\":\"{RESULT}\",\"key\":\"{key}\",\"traces\":{traces},\"job\":{{\"scheme\":\"x\"}},\"error\":null}}\n"
            )
        };
        assert_eq!(text(&store), expected("a", "[\"t1\",\"t2\"]") + &expected("c", "[\"t\"]"));
    }

    #[test]
    fn success_replaces_failure_in_any_order() {
        let (failed, done) = (line("a", "\"error\":\"x\""), line("a", "\"error\":null"));
        for (name, lines) in [("one", [&failed, &done]), ("other", [&done, &failed])] {
            let place = Place::new(name);
            let store = Store::create(&place.0).expect("a folder");
            let mut part = store.begin_part().expect("a part");
            lines.iter().for_each(|line| part.append(line, "{}").expect("written"));
            assert_eq!(store.results().expect("read")["a"].line, done);
        }
    }

    #[test]
    fn different_results_of_one_job_are_refused() {
        let places = [Place::new("left"), Place::new("right")];
        let stores = places.each_ref().map(|place| Store::create(&place.0).expect("a folder"));
        for (at, store) in stores.iter().enumerate() {
            let mut part = store.begin_part().expect("a part");
            part.append(&line("a", &format!("\"error\":null,\"n\":{at}")), "{}").expect("written");
        }
        let message = stores[0].merge(&stores[1..]).expect_err("a contradiction").to_string();
        assert!(message.contains("job a has another result than elsewhere"), "{message}");
    }

    #[test]
    fn engines_of_one_grid_are_not_mixed() {
        let places = [Place::new("old"), Place::new("new")];
        let stores = places.each_ref().map(|place| Store::create(&place.0).expect("a folder"));
        stores[0].write_plan(&plan("1", (1, 2), &[("t", "a")])).expect("written");
        stores[1].write_plan(&plan("2", (2, 2), &[("t", "b")])).expect("written");
        let message = stores[0].merge(&stores[1..]).expect_err("two engines").to_string();
        assert!(message.contains("grid grid.toml was run there with engine 2 and elsewhere with 1"), "{message}");
        // In one folder, the newer plan counts.
        stores[0].write_plan(&plan("2", (2, 2), &[("t", "b")])).expect("written");
        assert_eq!(stores[0].plans().expect("plans").len(), 1);
    }

    /// An edited grid is another grid. Regression: the plan of the grid's older form kept the rows
    /// of the older engine or trace, and the report averaged old and new rows.
    #[test]
    fn plan_of_other_engine_or_content_goes_whatever_its_grid() {
        let place = Place::new("edited");
        let store = Store::create(&place.0).expect("a folder");
        let of = |engine: &str, grid: &str, file: (&str, &str)| {
            let mut plan = plan(engine, (1, 1), &[(file.0, "a")]);
            plan.grid = grid.to_owned();
            plan.files = BTreeMap::from([(file.0.to_owned(), file.1.to_owned())]);
            plan
        };
        for (plan, expected, gone) in [
            (of("1", "g", ("t", "old")), 1, vec![]),
            (of("1", "h", ("t", "old")), 2, vec![]),
            (of("1", "i", ("u", "old")), 3, vec![]),
            // Other content of t: the two plans with t go.
            (of("1", "j", ("t", "new")), 2, vec!["g", "h"]),
            // Another engine: all go.
            (of("2", "k", ("v", "new")), 1, vec!["i", "j"]),
        ] {
            let left: Vec<String> =
                store.write_plan(&plan).expect("written").into_iter().map(|plan| plan.grid).collect();
            assert_eq!(left, gone, "grid {}", plan.grid);
            let plans = store.plans().expect("plans");
            assert_eq!(plans.len(), expected, "grid {}", plan.grid);
            assert!(plans.contains(&plan), "grid {}", plan.grid);
        }
    }

    /// Regression: the name of a temporary file had only the process id, which is 1 in each
    /// container.
    #[test]
    fn partial_files_of_one_process_have_different_names() {
        let place = Place::new("partial");
        fs::create_dir_all(&place.0).expect("a folder");
        let path = place.0.join(MARKER);
        let (one, _) = create_partial(&path).expect("created");
        let (other, _) = create_partial(&path).expect("created");
        assert_ne!(one, other);
        // A partial file of another shard is no other file.
        Store::create(&place.0).expect("a folder");
    }

    #[test]
    fn shards_create_one_folder_at_one_time() {
        for round in 0..20 {
            let place = Place::new(&format!("race-{round}"));
            std::thread::scope(|scope| {
                let create = || Store::create(&place.0).map(|_| ());
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
                threads.into_iter().for_each(|thread| thread.join().expect("no panic").expect("a folder"));
            });
        }
    }

    #[test]
    fn folder_of_another_form_is_refused() {
        let place = Place::new("form");
        fs::create_dir_all(&place.0).expect("a folder");
        fs::write(place.0.join("thesis.tex"), "").expect("written");
        let message = Store::create(&place.0).expect_err("other files").to_string();
        assert!(message.contains("has other files (thesis.tex) and is not a folder of a sweep"), "{message}");
        fs::write(place.0.join(MARKER), "{\"schema\":\"bimetal/sweep-folder/1\"}").expect("written");
        let message = Store::create(&place.0).expect_err("another form").to_string();
        assert!(
            message.contains("has the form 'bimetal/sweep-folder/1': expected 'bimetal/sweep-folder/2'"),
            "{message}"
        );
        let message = Store::open(&place.0.join("missing")).expect_err("no folder").to_string();
        assert!(message.contains("is not a folder of a sweep"), "{message}");
    }
}
