//! `--config FILE.toml`: every flag of a command, in a file.
//!
//! A key is the name of a flag (`ssd-size = "32GiB"`; an underscore may stand for a dash). Values:
//!
//! - `true`: sets a flag that takes no value.
//! - a list: gives several values to a flag that may be repeated, and comma-separated values to any
//!   other flag.
//! - a table: gives `--set` its keys (`[set]`, `griffin.timeout = "30s"`).
//!
//! Tables that are not flags are read by the command itself (phases of `generate`, trees of volumes
//! of `simulate` and `compare`). The command line overrides the file.
//!
//! The flags of the file that are not typed are inserted in front of the typed flags. So each value
//! is parsed and checked in one way. A flag that may be repeated gets the values of the file first,
//! and then the typed values.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use crate::error::Error;
use crate::trees;

/// Keys of a file that are not flags, with their command: lists of tables that the command reads
/// itself.
const TABLE_KEYS: [(&str, &str); 5] = [
    ("generate", "phase"),
    ("simulate", trees::VOLUME),
    ("simulate", trees::DRIVE),
    ("compare", trees::VOLUME),
    ("compare", trees::DRIVE),
];

/// The flags that a configuration file gives.
#[derive(Debug)]
pub struct Config {
    path: PathBuf,
    keys: Vec<Key>,
}

/// A key of the file.
#[derive(Debug)]
struct Key {
    /// The key as the file spells it.
    key: String,
    /// The flag as it is typed: `--schemes`.
    long: String,
    /// The short form of the flag, if it has any: `-o`.
    short: Option<String>,
    /// Set if the flag may be repeated.
    is_repeatable: bool,
    /// The flags for which the key stands, with their values.
    flags: Vec<OsString>,
}

impl Key {
    /// Returns the key `key = value` of the file, or an error message.
    fn of(key: &str, value: &Value, command: &Command) -> Result<Self, String> {
        let argument = argument_of(key, command)?;
        Ok(Self {
            key: key.to_owned(),
            long: format!("--{}", argument.get_long().unwrap_or_default()),
            short: argument.get_short().map(|short| format!("-{short}")),
            is_repeatable: matches!(argument.get_action(), ArgAction::Append),
            flags: flags_of(value, argument)?,
        })
    }

    /// Returns true if the flag is among the typed arguments. Arguments after `--` belong to
    /// another program.
    fn is_typed(&self, arguments: &[OsString]) -> bool {
        let is_it = |argument: &str| {
            let is_long =
                argument.strip_prefix(&self.long).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
            is_long || self.short.as_ref().is_some_and(|short| argument.starts_with(short))
        };
        let typed = arguments.iter().take_while(|argument| *argument != "--");
        typed.filter_map(|argument| argument.to_str()).any(is_it)
    }
}

impl Config {
    /// Reads the file that `--config` names in `arguments` (the whole command line). Returns `None`
    /// if `--config` is absent or the command of `cli` has no such flag.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has a key that is not a flag of the command.
    pub fn named_in(arguments: &[OsString], cli: &Command) -> Result<Option<Self>, Error> {
        let Some(command) = arguments.get(1).and_then(|name| cli.find_subcommand(name)) else { return Ok(None) };
        if !command.get_arguments().any(|argument| argument.get_long() == Some("config")) {
            return Ok(None);
        }
        let Some(path) = value_of_config(&arguments[2..]) else { return Ok(None) };
        let path = PathBuf::from(path);
        let table = read(&path)?;
        let mut keys = Vec::new();
        for (key, value) in &table {
            if TABLE_KEYS.contains(&(command.get_name(), key.as_str())) {
                continue;
            }
            let key = Key::of(key, value, command)
                .map_err(|message| Error::new(format!("{}: key '{key}': {message}", path.display())))?;
            keys.push(key);
        }
        Ok(Some(Self { path, keys }))
    }

    /// Inserts the flags of the file after the name of the command, before the typed flags. A flag
    /// that is typed replaces the flag of the file, unless the flag may be repeated.
    pub fn insert_into(&self, arguments: &mut Vec<OsString>) {
        let used = self.keys.iter().filter(|key| key.is_repeatable || !key.is_typed(&arguments[2..]));
        let flags: Vec<OsString> = used.flat_map(|key| key.flags.iter().cloned()).collect();
        arguments.splice(2..2, flags);
    }

    /// Returns a hint at the key of the file, if the value that `error` names comes from the file.
    pub fn explain(&self, error: &clap::Error) -> Option<String> {
        let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
        let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
        let long = argument.split_whitespace().next()?;
        let flag = OsString::from(format!("{long}={value}"));
        let Key { key, .. } = self.keys.iter().find(|key| key.flags.contains(&flag))?;
        Some(format!("The value comes from {}, key '{key}'.", self.path.display()))
    }
}

/// Reads a TOML file.
///
/// # Errors
/// The file cannot be read or is not TOML; the message names file and line.
pub fn read(path: &Path) -> Result<Table, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    text.parse::<Table>().map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Error::new(format!("{}:{line}: {}", path.display(), error.message()))
    })
}

/// Returns the file that the arguments name after `--config`. Arguments after `--` belong to
/// another program and are not searched.
fn value_of_config(arguments: &[OsString]) -> Option<&OsStr> {
    let mut found = None;
    let mut rest = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = rest.next() {
        if argument == "--config" {
            found = rest.next().map(OsString::as_os_str);
        } else if let Some(value) = argument.to_str().and_then(|text| text.strip_prefix("--config=")) {
            found = Some(OsStr::new(value));
        }
    }
    found
}

/// Returns the argument of `command` that `key` stands for, or an error message.
fn argument_of<'a>(key: &str, command: &'a Command) -> Result<&'a Arg, String> {
    let name = key.replace('_', "-");
    let known = || command.get_arguments().filter_map(|argument| argument.get_long());
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(&name));
    let Some(argument) = argument.filter(|_| name != "config") else {
        let known: Vec<&str> = known().filter(|name| !["config", "help"].contains(name)).collect();
        return Err(Error::unknown("key", key, known).to_string());
    };
    Ok(argument)
}

/// Returns the flags with their values that stand for `value` of `argument`, or an error message.
fn flags_of(value: &Value, argument: &Arg) -> Result<Vec<OsString>, String> {
    let name = argument.get_long().unwrap_or_default();
    let repeatable = matches!(argument.get_action(), ArgAction::Append);
    let takes_value = argument.get_action().takes_values();
    let flag = |text: String| OsString::from(format!("--{name}={text}"));
    match value {
        Value::Boolean(on) if !takes_value => Ok(if *on { vec![format!("--{name}").into()] } else { vec![] }),
        _ if !takes_value => Err(format!("expected true or false, found {value}")),
        Value::Array(values) => {
            let values = values.iter().map(scalar).collect::<Result<Vec<_>, _>>()?;
            Ok(if repeatable { values.into_iter().map(flag).collect() } else { vec![flag(values.join(","))] })
        }
        Value::Table(table) if repeatable => {
            let mut pairs = Vec::new();
            flatten("", table, &mut pairs)?;
            Ok(pairs.into_iter().map(flag).collect())
        }
        _ => Ok(vec![flag(scalar(value)?)]),
    }
}

/// Appends `[set]` with nested tables to `pairs`, as the `key=value` pairs that `--set` takes.
pub(crate) fn flatten(prefix: &str, table: &Table, pairs: &mut Vec<String>) -> Result<(), String> {
    for (key, value) in table {
        match value {
            Value::Table(inner) => flatten(&format!("{prefix}{key}."), inner, pairs)?,
            _ => pairs.push(format!("{prefix}{key}={}", scalar(value)?)),
        }
    }
    Ok(())
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err(format!("expected a text, a number or true or false, found {value}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn cli() -> Command {
        Command::new("bimetal").subcommand(
            Command::new("run")
                .arg(Arg::new("config").long("config"))
                .arg(Arg::new("ssd-size").long("ssd-size"))
                .arg(Arg::new("schemes").long("schemes"))
                .arg(Arg::new("limit").long("limit").value_parser(clap::value_parser!(u64)))
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue))
                .arg(Arg::new("set").long("set").action(ArgAction::Append)),
        )
    }

    fn config(name: &str, text: &str, typed: &[&str]) -> Result<Vec<String>, String> {
        let path = std::env::temp_dir().join(format!("bimetal-config-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let mut arguments: Vec<OsString> = ["bimetal", "run", "--config"].map(OsString::from).to_vec();
        arguments.push(path.clone().into());
        arguments.extend(typed.iter().map(OsString::from));
        let config = Config::named_in(&arguments, &cli());
        std::fs::remove_file(&path).unwrap();
        let config = config.map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))?.unwrap();
        config.insert_into(&mut arguments);
        cli()
            .try_get_matches_from(&arguments)
            .map(|matches| {
                let run = matches.subcommand_matches("run").unwrap();
                let mut seen = vec![];
                for id in ["ssd-size", "schemes"] {
                    seen.extend(run.get_one::<String>(id).map(|value| format!("{id}={value}")));
                }
                seen.extend(run.get_one::<u64>("limit").map(|value| format!("limit={value}")));
                seen.extend(run.get_flag("json").then(|| "json".to_owned()));
                seen.extend(run.get_many::<String>("set").into_iter().flatten().map(|value| format!("set {value}")));
                seen
            })
            .map_err(|error| config.explain(&error).unwrap_or_default().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn keys_are_flags_and_flags_that_are_typed_win() {
        let text = "ssd_size = \"32GiB\"\nschemes = [\"griffin\", \"combo\"]\nlimit = 7\njson = true\n\
            [set]\ngriffin.timeout = \"30s\"\n";
        let seen = config("win", text, &["--limit", "9", "--set", "griffin.timeout=60s"]).unwrap();
        let expected = [
            "ssd-size=32GiB",
            "schemes=griffin,combo",
            "limit=9",
            "json",
            "set griffin.timeout=30s",
            "set griffin.timeout=60s",
        ];
        assert_eq!(seen, expected);
    }

    /// Regression: of two typed values of a flag the first was dropped without a word.
    #[test]
    fn flag_that_is_typed_twice_is_refused() {
        let mut arguments = ["bimetal", "run", "--limit=7", "--limit=9"].map(OsString::from).to_vec();
        assert!(cli().try_get_matches_from(&arguments).is_err());
        arguments.pop();
        assert!(cli().try_get_matches_from(&arguments).is_ok());
        assert_eq!(config("typed", "limit = 7\n", &["--limit=9"]).unwrap(), ["limit=9"]);
    }

    #[test]
    fn a_misspelt_key_is_named_with_the_nearest() {
        let message = config("key", "ssd_sise = 3\n", &[]).unwrap_err();
        assert!(
            message.starts_with("FILE: key 'ssd_sise': unknown key 'ssd_sise': did you mean 'ssd-size'?"),
            "{message}"
        );
    }

    #[test]
    fn a_wrong_value_says_that_it_comes_from_the_file() {
        assert_eq!(config("value", "limit = -3\n", &[]).unwrap_err(), "The value comes from FILE, key 'limit'.");
        let message = config("type", "json = 3\n", &[]).unwrap_err();
        assert_eq!(message, "FILE: key 'json': expected true or false, found 3");
    }

    #[test]
    fn what_is_not_toml_is_named_with_its_line() {
        let message = config("toml", "limit = 3\nschemes = [\n", &[]).unwrap_err();
        assert!(message.starts_with("FILE:2: ") || message.starts_with("FILE:3: "), "{message}");
    }
}
