//! Grid: the file that lists traces, schemes, options and settings.
//!
//! Each key is the name of an option of `simulate`, and its value is one value or a list. Each list
//! is an axis of the grid. `traces` and `schemes` are lists of paths and of names; the table
//! `[set]` has a key for each setting.
//!
//! A combination is trimmed to the options that its scheme can use: a disk alone has no size of an
//! SSD. So equal simulations become one job.

use std::collections::{BTreeMap, BTreeSet};

use bimetal_core::layout::Role;
use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::schemes;
use bimetal_models::spelling::nearest;
use toml::{Table, Value};

use super::SweepError;

/// Largest number of jobs of a grid.
pub const JOBS_MAX: usize = 1_000_000;

/// Keys of a grid that are not options of `simulate`.
const OWN_KEYS: [&str; 3] = ["traces", "schemes", "set"];

/// Option that a grid may have as a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownOption {
    /// Name of the option, without dashes in front.
    pub name: String,
    /// Set if the option has a value; otherwise the value in the grid is `true` or `false`.
    pub takes_value: bool,
}

/// Axis: a name and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Axis {
    name: String,
    values: Vec<String>,
}

/// Grid, as its file describes it.
#[derive(Clone)]
pub struct Grid {
    /// Paths and patterns of the traces, in order.
    pub traces: Vec<String>,
    /// Schemes, in order.
    pub schemes: Vec<&'static SchemeInfo>,
    options: Vec<Axis>,
    flags: Vec<Axis>,
    settings: Vec<Axis>,
}

/// Job: one simulation.
#[derive(Clone)]
pub struct Job {
    /// Path of the trace, as the grid has it.
    pub trace: String,
    /// Scheme.
    pub scheme: &'static SchemeInfo,
    /// Options with a value, by name.
    pub options: BTreeMap<String, String>,
    /// Options without a value that are set.
    pub flags: BTreeSet<String>,
    /// Settings by key.
    pub settings: BTreeMap<String, String>,
}

impl Grid {
    /// Reads the text of a grid. `known` are the options that a grid may have.
    ///
    /// # Errors
    /// The text is not TOML. Or a key or scheme is unknown, missing, or has no value.
    pub fn parse(text: &str, known: &[KnownOption]) -> Result<Self, SweepError> {
        let table = text.parse::<Table>().map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            SweepError::new(format!("line {line}: {}", error.message()))
        })?;
        let mut grid =
            Self { traces: Vec::new(), schemes: Vec::new(), options: vec![], flags: vec![], settings: vec![] };
        for (key, value) in &table {
            grid.read(key, value, known).map_err(|message| SweepError::new(format!("key '{key}': {message}")))?;
        }
        if grid.traces.is_empty() {
            return Err(SweepError::new("key 'traces' is missing: expected a list of traces, like [\"web_0.csv.gz\"]"));
        }
        if grid.schemes.is_empty() {
            let expected = "expected a list of schemes, like [\"griffin\", \"smart-response\"], or \"all\"";
            return Err(SweepError::new(format!("key 'schemes' is missing: {expected}")));
        }
        Ok(grid)
    }

    fn read(&mut self, key: &str, value: &Value, known: &[KnownOption]) -> Result<(), String> {
        let name = key.replace('_', "-");
        match name.as_str() {
            "traces" => self.traces = unique(values(value)?),
            "schemes" => self.schemes = schemes_in(value)?,
            "set" => {
                let table = value.as_table().ok_or_else(|| format!("expected a table of settings, found {value}"))?;
                flatten("", table, &mut self.settings)?;
            }
            _ => {
                let Some(option) = known.iter().find(|option| option.name == name) else {
                    return Err(unknown_key(key, known));
                };
                if self.options.iter().chain(&self.flags).any(|axis| axis.name == name) {
                    return Err(format!("'{name}' has a second list: expected one, as '-' and '_' are equal in a key"));
                }
                let values = unique(values(value)?);
                if option.takes_value {
                    self.options.push(Axis { name, values });
                } else if let Some(wrong) = values.iter().find(|value| !["true", "false"].contains(&value.as_str())) {
                    return Err(format!("expected true or false, found {wrong}"));
                } else {
                    self.flags.push(Axis { name, values });
                }
            }
        }
        Ok(())
    }

    /// Returns the names of the settings.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|axis| axis.name.as_str())
    }

    /// Returns the first values of all settings, in order.
    pub fn first_settings(&self) -> Vec<(String, String)> {
        self.settings.iter().map(|axis| (axis.name.clone(), axis.values[0].clone())).collect()
    }

    /// Returns the number of combinations with `traces` traces, before equal combinations become
    /// one job.
    pub fn combinations(&self, traces: usize) -> usize {
        let axes = self.options.iter().chain(&self.flags).chain(&self.settings).map(|axis| axis.values.len());
        axes.fold(traces.saturating_mul(self.schemes.len()), usize::saturating_mul)
    }

    /// Returns the jobs over `traces`, trace by trace, without repetitions.
    ///
    /// # Errors
    /// The grid has too many combinations.
    pub fn jobs(&self, traces: &[String]) -> Result<Vec<Job>, SweepError> {
        let combinations = self.combinations(traces.len());
        if combinations > JOBS_MAX {
            return Err(SweepError::new(format!(
                "the grid has {combinations} combinations: expected at most {JOBS_MAX}; make several grids, which may \
                 share a folder"
            )));
        }
        let mut jobs = Vec::new();
        for trace in traces {
            let mut seen = BTreeSet::new();
            for scheme in &self.schemes {
                let options = combined(&self.options);
                for options in &options {
                    for flags in &combined(&self.flags) {
                        for settings in &combined(&self.settings) {
                            let job = job_of(trace, scheme, options, flags, settings);
                            if seen.insert(job.arguments()) {
                                jobs.push(job);
                            }
                        }
                    }
                }
            }
        }
        Ok(jobs)
    }
}

impl Job {
    /// Returns the arguments of `bimetal simulate TRACE` that run this job.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--scheme={}", self.scheme.name)];
        arguments.extend(self.option_arguments());
        arguments
    }

    /// Returns the arguments without the scheme.
    pub fn option_arguments(&self) -> Vec<String> {
        let options = self.options.iter().flat_map(|(name, value)| match name.as_str() {
            // Several drives are separated by commas.
            "member" => value.split(',').map(|drive| format!("--member={drive}")).collect(),
            _ => vec![format!("--{name}={value}")],
        });
        let flags = self.flags.iter().map(|name| format!("--{name}"));
        let settings = self.settings.iter().map(|(key, value)| format!("--set={key}={value}"));
        options.chain(flags).chain(settings).collect()
    }
}

type Pairs = BTreeMap<String, String>;

/// Returns every combination of the values of `axes`; the last axis varies fastest.
fn combined(axes: &[Axis]) -> Vec<Pairs> {
    axes.iter().fold(vec![Pairs::new()], |before, axis| {
        let with = |pairs: &Pairs, value: &String| {
            let mut pairs = pairs.clone();
            pairs.insert(axis.name.clone(), value.clone());
            pairs
        };
        before.iter().flat_map(|pairs| axis.values.iter().map(move |value| with(pairs, value))).collect()
    })
}

/// Returns the job with the options that its scheme can use.
fn job_of(trace: &str, scheme: &'static SchemeInfo, options: &Pairs, flags: &Pairs, settings: &Pairs) -> Job {
    let keep = |pairs: &Pairs, is_used: &dyn Fn(&str) -> bool| {
        pairs.iter().filter(|(name, _)| is_used(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    Job {
        trace: trace.to_owned(),
        scheme,
        options: keep(options, &|name| uses_option(scheme, name)),
        flags: flags.iter().filter(|(_, value)| *value == "true").map(|(name, _)| name.clone()).collect(),
        settings: keep(settings, &|key| uses_setting(scheme, key, options)),
    }
}

fn uses(scheme: &SchemeInfo, role: Role) -> bool {
    scheme.members.iter().any(|(used, _)| *used == role)
}

/// Returns false if option `name` chooses a drive, or the size of a drive, for a role that the
/// scheme does not have.
fn uses_option(scheme: &SchemeInfo, name: &str) -> bool {
    match name {
        "ssd" | "ssd-size" => uses(scheme, Role::Ssd),
        "hdd" | "hdd-size" => uses(scheme, Role::Hdd),
        _ => true,
    }
}

/// Returns false for a setting of another scheme, or of a drive that the scheme does not have.
fn uses_setting(scheme: &SchemeInfo, key: &str, options: &Pairs) -> bool {
    let has_members = options.contains_key("member");
    match key.split_once('.') {
        Some(("ssd", _)) => uses(scheme, Role::Ssd) || has_members,
        Some(("hdd", _)) => uses(scheme, Role::Hdd) || has_members,
        Some(("log", _)) => scheme.members.iter().any(|(_, holds)| *holds == Holds::Log),
        Some((name, _)) => schemes::find(name).is_none_or(|other| other.name == scheme.name),
        None => {
            let knows = |info: &SchemeInfo| info.parameters.iter().any(|parameter| parameter.name == key);
            knows(scheme) || !schemes::every().any(knows)
        }
    }
}

fn schemes_in(value: &Value) -> Result<Vec<&'static SchemeInfo>, String> {
    let names = unique(values(value)?);
    if names == ["all"] {
        return Ok(schemes::ALL.to_vec());
    }
    let find = |name: &String| {
        schemes::find(name).ok_or_else(|| {
            let near = nearest(name, schemes::every().map(|info| info.name));
            let near = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
            format!("unknown scheme '{name}': {near}`bimetal schemes` lists all schemes")
        })
    };
    names.iter().map(find).collect()
}

fn unknown_key(key: &str, known: &[KnownOption]) -> String {
    let names = || OWN_KEYS.into_iter().chain(known.iter().map(|option| option.name.as_str()));
    match nearest(key, names()) {
        Some(near) => format!("is not a key of a grid: did you mean '{near}'? Known are {}", joined(names())),
        None => format!("is not a key of a grid: expected one of {}", joined(names())),
    }
}

fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" ")
}

/// Returns the values of a key: the values of a list, or the only value.
fn values(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(values) if values.is_empty() => Err("has an empty list: expected at least one value".to_owned()),
        Value::Array(values) => values.iter().map(scalar).collect(),
        value => Ok(vec![scalar(value)?]),
    }
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(on) => Ok(on.to_string()),
        other => Err(format!("expected a text, a number, or a list of them, found {other}")),
    }
}

/// Returns `values` without repetitions, in order.
fn unique(values: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    values.into_iter().filter(|value| seen.insert(value.clone())).collect()
}

/// Adds the settings of a table; a table inside a table has a dotted key.
fn flatten(prefix: &str, table: &Table, axes: &mut Vec<Axis>) -> Result<(), String> {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            Value::Table(inner) => flatten(&format!("{name}."), inner, axes)?,
            _ if axes.iter().any(|axis| axis.name == name) => {
                return Err(format!("setting '{name}' has a second list: expected one, in quotes or as a table"));
            }
            value => {
                let values = unique(values(value).map_err(|message| format!("setting '{name}': {message}"))?);
                axes.push(Axis { name, values });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<KnownOption> {
        let option = |(name, takes_value): (&str, bool)| KnownOption { name: name.to_owned(), takes_value };
        [("ssd-size", true), ("hdd-size", true), ("member", true), ("seed", true), ("compact", false)]
            .map(option)
            .to_vec()
    }

    fn jobs(text: &str) -> Vec<Vec<String>> {
        let grid = Grid::parse(text, &known()).expect("a grid");
        let jobs = grid.jobs(&grid.traces).expect("jobs");
        jobs.iter().map(|job| [vec![job.trace.clone()], job.arguments()].concat()).collect()
    }

    fn refused(text: &str) -> String {
        Grid::parse(text, &known()).err().expect("a message").to_string()
    }

    #[test]
    fn jobs_are_all_combinations_trace_by_trace() {
        let jobs = jobs(
            "traces = ['a', 'b']\nschemes = ['smart-response']\nssd_size = ['5%', '10%']\nseed = [1, 2]\n\
             compact = true\n[set]\nmode = 'maximized'\n",
        );
        assert_eq!(jobs.len(), 8);
        let first = ["a", "--scheme=smart-response", "--seed=1", "--ssd-size=5%", "--compact", "--set=mode=maximized"];
        assert_eq!(jobs[0], first);
        assert!(jobs[..4].iter().all(|job| job[0] == "a") && jobs[4..].iter().all(|job| job[0] == "b"));
    }

    /// Regression: a disk alone was run once for every size of the SSD, and for every timeout of
    /// Griffin.
    #[test]
    fn options_without_use_make_no_further_jobs() {
        let jobs = jobs(
            "traces = 'a'\nschemes = ['hdd-only', 'ssd-only', 'griffin']\nssd-size = ['8GiB', '9GiB', '10GiB']\n\
             [set]\ngriffin.timeout = ['60s', '900s']\n'hdd.scheduler' = ['fcfs', 'sptf']\n",
        );
        let of = |scheme: &str| jobs.iter().filter(|job| job[1] == format!("--scheme={scheme}")).count();
        assert_eq!([of("hdd-only"), of("ssd-only"), of("griffin")], [2, 3, 12]);
        let plain = "traces = 'a'\nschemes = ['hdd-only', 'griffin']\n[set]\ntimeout = ['60s', '900s']\n";
        assert_eq!(self::jobs(plain).len(), 3);
    }

    #[test]
    fn repeated_values_make_one_job() {
        assert_eq!(jobs("traces = ['a', 'a']\nschemes = ['hdd-only', 'hdd-only']\nseed = [1, 1]").len(), 1);
    }

    #[test]
    fn several_members_are_several_arguments() {
        let jobs = jobs("traces = 'a'\nschemes = 'griffin'\nmember = ['log=x,ssd2=y']");
        assert_eq!(jobs[0][2..], ["--member=log=x", "--member=ssd2=y"]);
    }

    #[test]
    fn wrong_grid_is_refused_with_the_thing_and_the_remedy() {
        for (text, expected) in [
            ("schemes = 'all'", "key 'traces' is missing: expected a list of traces"),
            ("traces = 'a'", "key 'schemes' is missing: expected a list of schemes"),
            ("traces = []", "key 'traces': has an empty list"),
            ("traces = 'a'\nschemes = ['grifin']", "key 'schemes': unknown scheme 'grifin': did you mean 'griffin'?"),
            ("traces = 'a'\nschemes = ['zzzzzz']", "key 'schemes': unknown scheme 'zzzzzz': `bimetal schemes`"),
            ("seeds = 1", "key 'seeds': is not a key of a grid: did you mean 'seed'? Known are traces schemes set"),
            ("compact = 3", "key 'compact': expected true or false, found 3"),
            ("seed = [[1]]", "key 'seed': expected a text, a number, or a list of them, found [1]"),
            ("[set]\ntimeout = []", "key 'set': setting 'timeout': has an empty list"),
            // A regression: one of two lists for a key was lost in silence.
            ("ssd-size = '1GiB'\nssd_size = '2GiB'", "key 'ssd_size': 'ssd-size' has a second list: expected one"),
            (
                "[set]\n'griffin.timeout' = '60s'\n[set.griffin]\ntimeout = '900s'",
                "key 'set': setting 'griffin.timeout' has a second list: expected one",
            ),
            ("traces = 'a'\nschemes = = 2", "line 2: "),
        ] {
            let message = refused(text);
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }

    #[test]
    fn grid_without_bounds_is_refused() {
        let seeds: Vec<String> = (0..2000).map(|seed| seed.to_string()).collect();
        let text = format!("traces = 'a'\nschemes = 'all'\nseed = [{0}]\nssd-size = [{0}]", seeds.join(","));
        let grid = Grid::parse(&text, &known()).expect("a grid");
        let message = grid.jobs(&grid.traces).err().expect("too many").to_string();
        assert!(message.contains("combinations: expected at most 1000000"), "{message}");
    }
}
