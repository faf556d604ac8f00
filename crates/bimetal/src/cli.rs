//! The frame of the command line: the table of commands, parsing of arguments, error messages, exit
//! statuses.
//!
//! Exit status:
//!
//! - 0: the command has succeeded.
//! - 1: the input or configuration is wrong (one message).
//! - 2: a command or flag is unknown.
//! - 3: the command has an answer, and the answer is no (`check`: damage was found; `sweep`: a job
//!   failed).

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::OnceLock;

use bimetal_models::profile::Profile;
use bimetal_plan::drives::model::CATALOGUE;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::Config;
use crate::error::Error;
use crate::output::tell;
use crate::own_drives;

/// Exit status when the input or the configuration is wrong.
const WRONG_INPUT: u8 = 1;
/// Exit status when the command has an answer, and the answer is no.
const ANSWER_IS_NO: u8 = 3;
/// Exit status when the command line itself is wrong.
const WRONG_USAGE: u8 = 2;

/// What will an SSD and an HDD, combined into one device, do for this workload?
#[derive(Debug, Parser)]
#[command(name = "bimetal", version, max_term_width = 100)]
#[command(after_help = "Example:\n  bimetal analyze TRACE      describe a recorded workload\n\n\
    Every command has --help with an example.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Makes the commands out of the table below: one line per command, in the order of `--help`. A
/// command is a module in `commands/` with `Arguments` (whose doc comment is its help text) and
/// `run`.
macro_rules! commands {
    ($($name:ident => $module:ident),* $(,)?) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($name(crate::commands::$module::Arguments)),*
        }

        impl Command {
            fn run(self) -> Result<(), Error> {
                match self {
                    $(Self::$name(arguments) => crate::commands::$module::run(arguments)),*
                }
            }
        }
    };
}

commands! {
    Analyze => analyze,
    Simulate => simulate,
    Compare => compare,
    Plan => plan,
    Sweep => sweep,
    Mrc => mrc,
    Place => place,
    Optimize => optimize,
    Convert => convert,
    Formats => formats,
    Generate => generate,
    Record => record,
    Profiles => profiles,
    Catalog => catalog,
    Schemes => schemes,
    Schema => schema,
    Reproduce => reproduce,
    Fault => fault,
    Validate => validate,
    Extract => extract,
    Create => create,
    Serve => serve,
    Status => status,
    Drain => drain,
    Detach => detach,
    Attach => attach,
    Set => set,
    Resize => resize,
    Check => check,
    Rescue => rescue,
    Dump => dump,
    Upgrade => upgrade,
    Acknowledge => acknowledge,
    Trace => trace,
    Replay => replay,
    Completions => completions,
    Man => man,
}

/// Returns the definition of the whole command line.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Command line of a process that was not started as the program itself.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    ExitCode::from(status_of(std::env::args_os().collect()))
}

/// Runs a command line, which begins with the name of the program, as if it were the command line
/// of this process, and returns the exit status. For other programs that contain this program.
pub fn main_with(arguments: Vec<OsString>) -> u8 {
    status_of(ARGUMENTS.get_or_init(|| arguments).clone())
}

fn status_of(arguments: Vec<OsString>) -> u8 {
    match run(arguments) {
        Ok(()) | Err(Stop::Failed(Error::OutputClosed)) => 0,
        Err(Stop::Failed(Error::No)) => ANSWER_IS_NO,
        Err(Stop::Failed(error)) => {
            tell(format_args!("error: {error}"));
            WRONG_INPUT
        }
        Err(Stop::Arguments(error, hint)) => {
            // Help and version go to standard output, anything else to standard error. A closed
            // stream is not an error.
            let _ = error.print();
            if let Some(hint) = hint {
                tell(format_args!("\n  {hint}"));
            }
            exit_status(&error)
        }
    }
}

/// Reasons for which the program ends early.
#[derive(Debug)]
enum Stop {
    /// The arguments are wrong or ask for help. The text is a hint at the configuration file, if a
    /// wrong value comes from that file.
    Arguments(Box<clap::Error>, Option<String>),
    /// The command failed.
    Failed(Error),
}

fn run(arguments: Vec<OsString>) -> Result<(), Stop> {
    parse(arguments)?.run().map_err(Stop::Failed)
}

/// Reads a command line that begins with the name of the program.
///
/// # Errors
/// The command line is wrong, in one message.
pub(crate) fn command_of(arguments: Vec<OsString>) -> Result<Command, Error> {
    parse(arguments).map_err(|stop| match stop {
        Stop::Failed(error) => error,
        Stop::Arguments(error, hint) => {
            let text = error.to_string();
            let text = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            Error::new([Some(text.to_owned()), hint].into_iter().flatten().collect::<Vec<_>>().join(" "))
        }
    })
}

fn parse(mut arguments: Vec<OsString>) -> Result<Command, Stop> {
    Profile::add_further(CATALOGUE);
    own_drives::add();
    let config = Config::named_in(&arguments, &Cli::command()).map_err(Stop::Failed)?;
    if let Some(config) = &config {
        config.insert_into(&mut arguments);
    }
    let parsed = Cli::command().try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.map_err(|error| {
        let hint = config.as_ref().and_then(|config| config.explain(&error));
        Stop::Arguments(Box::new(error), hint)
    })?;
    Ok(cli.command)
}

/// Returns the exit status for an error of clap. A wrong value is wrong input; any other error
/// except help and version is wrong usage.
fn exit_status(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        ErrorKind::ValueValidation => WRONG_INPUT,
        // A flag without its required value has this kind, too, with an empty value.
        ErrorKind::InvalidValue => match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(value)) if !value.is_empty() => WRONG_INPUT,
            _ => WRONG_USAGE,
        },
        _ => WRONG_USAGE,
    }
}

/// Returns the command line of this process, quoted for a shell.
pub(crate) fn command_line() -> String {
    let own = || std::env::args_os().collect();
    let arguments = ARGUMENTS.get().cloned().unwrap_or_else(own);
    shell_line(arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned()))
}

/// Returns a command line of this program, quoted for a shell.
pub(crate) fn shell_line(arguments: impl Iterator<Item = String>) -> String {
    let quoted = arguments.map(|argument| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
        let quoted = || format!("'{}'", argument.replace('\'', r"'\''"));
        if !argument.is_empty() && argument.chars().all(plain) { argument } else { quoted() }
    });
    std::iter::once("bimetal".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
            assert!(command.get_about().is_some(), "{} says not what it does", command.get_name());
        }
    }
}
