//! Jobs of a grid, with options that were read and checked, and with their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use bimetal_plan::sweep::grid::{Grid, Job, KnownOption};
use bimetal_plan::sweep::key::{digest, key};
use bimetal_plan::sweep::shard::Shard;
use bimetal_plan::sweep::store::{Plan, PlannedJob};
use bimetal_sim::setup::{check_keys, check_settings};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser};
use rayon::prelude::*;

use super::ENGINE;
use crate::error::Error;
use crate::options::simulation::{SimulationOptions, choices};

/// Options of a job, as the command line of `simulate` has them.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct JobOptions {
    #[command(flatten)]
    options: SimulationOptions,
}

/// Job that is ready to be run.
pub(super) struct Prepared {
    /// Job of the grid.
    pub(super) job: Job,
    /// Options of the job.
    pub(super) options: SimulationOptions,
    /// Settings of the job, as its result has them: a key that can be written in two ways is
    /// written in one.
    pub(super) spelled: BTreeMap<String, String>,
    /// Digest of the trace.
    pub(super) trace: String,
    /// Digest of each further file, by path.
    pub(super) files: BTreeMap<String, String>,
    /// Key of the job.
    pub(super) key: String,
}

/// Jobs of a grid, or of a shard of it.
pub(super) struct Sweep {
    /// Jobs in order.
    pub(super) jobs: Vec<Prepared>,
    /// Keys of the jobs, for the folder.
    pub(super) plan: Plan,
}

impl Sweep {
    /// Reads the grid at `path`, and makes all checks that need no simulation.
    ///
    /// # Errors
    /// The grid, an option of the grid, or a trace is wrong. The message names the grid.
    pub(super) fn read(path: &Path, shard: Shard) -> Result<Self, Error> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            Error::new(format!("{name}: {error}: expected a grid in TOML; `bimetal sweep --help` shows one"))
        })?;
        Self::of_grid(&text, &name, shard).map_err(|error| Error::new(format!("{name}: {error}")))
    }

    fn of_grid(text: &str, name: &str, shard: Shard) -> Result<Self, Error> {
        let grid = Grid::parse(text, &known_options())?;
        let traces = found(&grid.traces)?;
        let jobs = grid.jobs(&traces)?;
        let (mut command, mut checked) = (JobOptions::command(), Vec::with_capacity(jobs.len()));
        for job in jobs {
            let options = options_of(&job, &mut command)?;
            checked.push((job, options));
        }
        let grid_id = digest(listing(&checked).as_bytes())?;
        let mut plan = Plan::new(ENGINE.to_owned(), grid_id[..16].to_owned(), name.to_owned(), shard, checked.len());
        let sizes = traces.iter().map(|trace| Ok((trace.clone(), fs::metadata(trace)?.len())));
        let sizes = sizes.collect::<Result<BTreeMap<String, u64>, std::io::Error>>()?;
        let weights: Vec<u64> = checked.iter().map(|(job, _)| sizes[&job.trace]).collect();
        let part = shard.part(&weights);
        let numbers = part.clone();
        let own: Vec<(Job, SimulationOptions)> = checked.drain(part).collect();
        plan.files = digests(&own)?;
        let jobs: Vec<Prepared> = own.into_iter().map(|job| Prepared::new(job, &plan.files)).collect();
        let planned = |(number, own): (usize, &Prepared)| PlannedJob {
            number,
            trace: own.job.trace.clone(),
            key: own.key.clone(),
        };
        plan.jobs = numbers.zip(&jobs).map(planned).collect();
        Ok(Self { jobs, plan })
    }

    /// Returns the jobs; of jobs with equal keys, only the first job.
    pub(super) fn distinct(&self) -> impl Iterator<Item = &Prepared> {
        let mut seen = BTreeSet::new();
        self.jobs.iter().filter(move |job| seen.insert(&job.key))
    }
}

impl Prepared {
    fn new((job, options): (Job, SimulationOptions), digests: &BTreeMap<String, String>) -> Self {
        let digest = |path: &String| digests.get(path).cloned().unwrap_or_default();
        let spelled = options.in_one_spelling();
        let trace = digest(&job.trace);
        let paths = options.named_files().into_iter().map(|path| path.display().to_string());
        let files: BTreeMap<String, String> = paths.map(|path| (path.clone(), digest(&path))).collect();
        let named = |kind: &'static str, pairs: &BTreeMap<String, String>| {
            pairs.iter().map(|(name, value)| (format!("{kind} {name}"), value.clone())).collect::<Vec<_>>()
        };
        let parts = [named("option", &spelled), named("set", &job.settings), named("file", &files)];
        let scheme = ("scheme".to_owned(), job.scheme.name.to_owned());
        let configuration = parts.into_iter().flatten().chain([scheme]).collect();
        let key = key(ENGINE, &trace, &configuration);
        Self { job, options, spelled, trace, files, key }
    }
}

/// Returns the options of `simulate` that a grid may have.
fn known_options() -> Vec<KnownOption> {
    let command = JobOptions::command();
    let options = command.get_arguments().filter_map(|argument| {
        let name = argument.get_long()?.to_owned();
        Some(KnownOption { name, takes_value: argument.get_action().takes_values() })
    });
    // Settings have a table of their own, and a file of options inside a file of options is none.
    options.filter(|option| !["set", "config", "help"].contains(&option.name.as_str())).collect()
}

/// Reads and checks the options of a job.
fn options_of(job: &Job, command: &mut clap::Command) -> Result<SimulationOptions, Error> {
    let matches = command.try_get_matches_from_mut(job.option_arguments()).map_err(|error| explained(&error))?;
    let options = JobOptions::from_arg_matches(&matches).map_err(|error| explained(&error))?.options;
    let choices = choices(&options)?;
    let scheme = job.scheme;
    check_keys(&[scheme], &choices)?;
    check_settings(scheme, &choices)?;
    options.trace.to_open_options()?;
    Ok(options)
}

/// Returns the message of the parser of options, with the key of the grid.
fn explained(error: &clap::Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = text(ContextKind::InvalidArg).and_then(|argument| argument.trim_start_matches('-').split(' ').next());
    let cause = std::error::Error::source(error).map(ToString::to_string);
    Error::new(match (option, text(ContextKind::InvalidValue), cause) {
        (Some(option), Some(value), Some(cause)) => format!("key '{option}': '{value}' is not possible: {cause}"),
        _ => {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    })
}

/// Returns the paths of the traces, each once. A `*` in the name of a file stands for any letters.
fn found(patterns: &[String]) -> Result<Vec<String>, Error> {
    let mut traces: Vec<String> = Vec::new();
    for pattern in patterns {
        let refuse = |reason: String| Error::new(format!("trace '{pattern}': {reason}"));
        let path = Path::new(pattern);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let paths = if name.contains('*') && !path.exists() {
            matching(path, &name).map_err(|error| refuse(error.to_string()))?
        } else {
            vec![pattern.clone()]
        };
        if paths.is_empty() {
            return Err(refuse(
                "no file has such a name: expected a path, or a pattern like traces/*.csv.gz".to_owned(),
            ));
        }
        for path in paths {
            match fs::metadata(&path) {
                Ok(file) if file.is_file() => {}
                Ok(_) => {
                    return Err(refuse(
                        "is not a file: expected a trace; traces/* stands for all files of a folder".to_owned(),
                    ));
                }
                Err(error) => {
                    return Err(refuse(format!("{error}: expected the path of a trace, from the working directory")));
                }
            }
            if !traces.contains(&path) {
                traces.push(path);
            }
        }
    }
    Ok(traces)
}

/// Returns the files in the directory of `path` whose names match `pattern`, sorted.
fn matching(path: &Path, pattern: &str) -> std::io::Result<Vec<String>> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut paths = Vec::new();
    for entry in fs::read_dir(read)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() || name.starts_with('.') || !matches(&name, pattern) {
            continue;
        }
        paths.push(folder.join(name).display().to_string());
    }
    paths.sort();
    Ok(paths)
}

/// Returns true if `name` has the parts of `pattern` between its stars, in order.
fn matches(name: &str, pattern: &str) -> bool {
    let Some((front, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(behind) = name.strip_prefix(front) else { return false };
    (0..=behind.len()).filter(|at| behind.is_char_boundary(*at)).any(|at| matches(&behind[at..], rest))
}

/// Returns all jobs of a grid as text, in order.
fn listing(jobs: &[(Job, SimulationOptions)]) -> String {
    jobs.iter().map(|(job, _)| format!("{} {}\n", job.trace, job.arguments().join(" "))).collect()
}

/// Returns the digest of each file that the jobs read, by path.
fn digests(jobs: &[(Job, SimulationOptions)]) -> Result<BTreeMap<String, String>, Error> {
    let traces = jobs.iter().map(|(job, _)| PathBuf::from(&job.trace));
    let paths: BTreeSet<PathBuf> = traces.chain(jobs.iter().flat_map(|(_, options)| options.named_files())).collect();
    let paths: Vec<PathBuf> = paths.into_iter().collect();
    let digest_of = |path: &PathBuf| {
        let digest = File::open(path).and_then(digest);
        let digest = digest.map_err(|error| Error::new(format!("{}: cannot be read: {error}", path.display())))?;
        Ok((path.display().to_string(), digest))
    };
    paths.par_iter().with_max_len(1).map(digest_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_letters() {
        for (name, pattern, expected) in [
            ("web_0.csv.gz", "*.csv.gz", true),
            ("web_0.csv.gz", "web*", true),
            ("web_0.csv.gz", "w*0*gz", true),
            ("web_0.csv.gz", "*", true),
            ("web_0.csv.gz", "*.csv", false),
            ("web_0.csv.gz", "a*", false),
            ("für.csv", "f*r.csv", true),
        ] {
            assert_eq!(matches(name, pattern), expected, "{name} {pattern}");
        }
    }

    fn job(options: &str) -> Prepared {
        let text = format!("traces = 'a'\nschemes = 'griffin'\n{options}");
        let grid = Grid::parse(&text, &known_options()).expect("a grid");
        let job = grid.jobs(&grid.traces).expect("jobs").remove(0);
        let options = options_of(&job, &mut JobOptions::command()).unwrap_or_else(|error| panic!("{error}"));
        Prepared::new((job, options), &BTreeMap::from([("a".to_owned(), "d".to_owned())]))
    }

    #[test]
    fn equal_options_in_other_spelling_have_one_key() {
        let key = |options: &str| job(options).key;
        for (one, other) in [
            ("ssd-size = '32GiB'", "ssd_size = '32768MiB'"),
            ("ssd-size = '10%'", "ssd-size = '10.0%'"),
            ("seed = 0", ""),
            ("warmup = 0.5", "warmup = '0.50'"),
            ("block = '4KiB'", "compact = false"),
        ] {
            assert_eq!(key(one), key(other), "{one} and {other}");
        }
    }

    /// An option that was not part of the key would give a job the result of another job.
    #[test]
    fn each_option_changes_the_key() {
        let values = [
            ("format", "'msr'"),
            ("event", "'issue'"),
            ("device", "0"),
            ("limit", "7"),
            ("skip-bad-lines", "true"),
            ("block", "'8KiB'"),
            ("ssd", "'intel-x25-m-80gb'"),
            ("hdd", "'disksim-ibm18es'"),
            ("ssd-size", "'8GiB'"),
            ("hdd-size", "'8GiB'"),
            ("capacity", "'8GiB'"),
            ("price-per-gb", "true"),
            ("power-price", "0.3"),
            ("years", "3"),
            ("member", "'log=intel-x25-m-80gb'"),
            ("replay", "'timed'"),
            ("speedup", "2"),
            ("warmup", "0.25"),
            ("precondition", "'random'"),
            ("compact", "true"),
            ("merge", "'on'"),
            ("align", "63"),
            ("times", "'equal'"),
            ("seed", "1"),
        ];
        let not_here = ["files", "list"];
        let known: BTreeSet<String> = known_options().into_iter().map(|option| option.name).collect();
        let listed = values.iter().map(|(name, _)| *name).chain(not_here).map(str::to_owned).collect();
        assert_eq!(known, listed, "each option has a value here");
        let keys: BTreeSet<String> = values.iter().map(|(name, value)| job(&format!("{name} = {value}")).key).collect();
        assert_eq!(keys.len(), values.len());
        assert!(!keys.contains(&job("").key));
    }

    #[test]
    fn wrong_options_are_refused_with_their_key() {
        let refused = |options: &str| {
            let text = format!("traces = 'Cargo.toml'\nschemes = ['griffin', 'smart-response']\n{options}");
            Sweep::of_grid(&text, "grid.toml", Shard::ALL).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for (options, expected) in [
            ("ssd-size = ['10%', '5x']", "key 'ssd-size': '5x' is not possible: expected a size like 32GiB"),
            ("seed = -1", "key 'seed': '-1' is not possible: expected a whole number"),
            ("ssd = 'intle-x25-m-80gb'", "no profile or file 'intle-x25-m-80gb'; did you mean 'intel-x25-m-80gb'?"),
            ("[set]\ntimeot = '60s'", "--set timeot=60s: no scheme or drive of this run has that key"),
            ("[set]\ngriffin.timeout = 'long'", "griffin: timeout=long"),
            ("format = 'mrs'", "unknown trace format 'mrs': did you mean 'msr'?"),
        ] {
            let message = refused(options);
            assert!(message.contains(expected), "{options}: {message}");
        }
    }

    #[test]
    fn missing_trace_is_refused_by_its_name() {
        for (trace, expected) in [
            ("no.csv", "trace 'no.csv': No such file"),
            ("no/*.csv", "trace 'no/*.csv': No such file"),
            ("*.none", "trace '*.none': no file has such a name"),
            ("src", "trace 'src': is not a file"),
        ] {
            let error = found(&[trace.to_owned()]).expect_err("no trace").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
