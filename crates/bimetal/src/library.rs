//! The commands as functions, for programs that embed Bimetal.
//!
//! [`document`] takes a command line, as the program does, and traces in memory in place of its
//! files. [`document`] returns the JSON document that the program prints, and prints nothing.

use std::ffi::OsString;

use crate::cli::{Command, command_of, shell_line};
use crate::commands::{analyze, catalog, compare, fleet, mrc, plan, profiles, schemes, simulate, sweep};
use crate::error::Error;
use crate::exported_table;
use crate::in_memory::InMemory;
pub use crate::progress::Watch;
pub use bimetal_sim::outside::{OutsideDirector, OutsidePolicies, OutsidePolicy};

/// Policies and directors of the caller.
#[derive(Default)]
pub struct Outside {
    /// Policies, for `simulate` (one) and `mrc`.
    pub policies: Vec<OutsidePolicies>,
    /// Director of the cache, for `simulate`.
    pub director: Option<OutsideDirector>,
}

/// Result of a command.
#[derive(Debug)]
pub struct Answer {
    /// Document that the command prints with `--json`.
    pub json: String,
    /// Table that `compare` of one trace prints with `--csv`.
    pub csv: Option<String>,
}

/// Runs the command line `arguments`, which begins with the name of a command, over `traces`. The
/// traces stand for the files that the command line names, in order; without traces, files are
/// read. `outside` has the caller's own classes.
///
/// # Errors
/// The command line or a trace is wrong, or the command has no such document.
pub fn document(
    arguments: &[String],
    traces: &[InMemory],
    outside: Outside,
    watch: &dyn Watch,
) -> Result<Answer, Error> {
    let line = || Some(shell_line(arguments.iter().cloned()));
    let program = std::iter::once("bimetal").map(OsString::from);
    let command = command_of(program.chain(arguments.iter().map(OsString::from)).collect())?;
    let json = match command {
        Command::Simulate(mut arguments) => {
            let Outside { policies, director } = outside;
            let eviction = policies.first().map(|policies| ("eviction".to_owned(), policies.name.clone()));
            let directed = director.as_ref().map(|director| ("director".to_owned(), director.name.clone()));
            (arguments.options.outside, arguments.options.director) = (policies.into_iter().next(), director);
            let mut document = simulate::document(arguments, traces, watch)?;
            document.command = line();
            document.options.extend(eviction.into_iter().chain(directed));
            simulate::json(&document)
        }
        Command::Compare(arguments) => {
            let mut compared = compare::compared(arguments, traces, watch)?;
            compared.documents().for_each(|document| document.command = line());
            let csv = match &compared {
                compare::Compared::One(document) => Some(exported_table::csv(document)),
                compare::Compared::Several(_) => None,
            };
            return Ok(Answer { json: compared.json(), csv });
        }
        Command::Plan(arguments) => {
            if let Some(folder) = &arguments.fleet {
                return Ok(Answer { json: fleet::json(folder, arguments.max_cost)?, csv: None });
            }
            let mut planned = plan::planned(&arguments, traces, watch)?;
            planned.answer.command = line();
            plan::json(&planned)
        }
        Command::Mrc(arguments) => mrc::json_of(&arguments, first(traces)?, &outside.policies)?,
        Command::Analyze(arguments) => analyze::json_of(&arguments, first(traces)?)?,
        Command::Sweep(arguments) => sweep::json(&arguments, watch)?,
        Command::Schemes(arguments) => schemes::json(&arguments)?,
        Command::Profiles(arguments) => profiles::json(&arguments)?,
        Command::Catalog(arguments) => catalog::shown(&arguments)?,
        _ => return Err(Error::new("the command has no document for a library: run the program")),
    };
    Ok(Answer { json, csv: None })
}

fn first(traces: &[InMemory]) -> Result<&InMemory, Error> {
    traces.first().ok_or_else(|| Error::new("expected a trace"))
}
