//! `bimetal completions`: prints a script with which a shell completes the command line.

use bimetal_core::schemes;
use bimetal_models::profile::Profile;
use bimetal_trace::formats;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command};
use clap_complete::{Shell, generate};

use crate::cli::definition;
use crate::error::Error;
use crate::output::print;

/// Print a script with which a shell completes commands, flags and names
///
/// The script has the commands and flags of this version. For bash, fish and zsh it also has the
/// names of schemes, trace formats and drive profiles. Write it where your shell looks for
/// completions, and open a new shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal completions bash > ~/.local/share/bash-completion/completions/bimetal\n  \
    bimetal completions fish > ~/.config/fish/completions/bimetal.fish\n  \
    bimetal completions zsh | sudo tee /usr/local/share/zsh/site-functions/_bimetal > /dev/null")]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    print(&String::from_utf8_lossy(&script(arguments.shell)))
}

/// Returns the script for `shell`.
fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut with_names(definition()), "bimetal", &mut script);
    script
}

/// Returns `definition` with the names that arguments take. The program itself reads any text in
/// place of these names, because its own messages suggest the nearest name.
fn with_names(definition: Command) -> Command {
    definition.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|argument| match names_for(&name, &argument) {
            Some(names) => argument.value_parser(PossibleValuesParser::new(names)),
            None => argument,
        })
    })
}

/// Returns the names that `argument` of `command` takes; `None` if it takes other values, too.
fn names_for(command: &str, argument: &Arg) -> Option<Vec<&'static str>> {
    match (command, argument.get_long()) {
        ("schemes", None) | (_, Some("scheme")) => Some(schemes::every().map(|info| info.name).collect()),
        ("formats", None) | (_, Some("format")) => Some(formats::ALL.iter().map(|format| format.name).collect()),
        ("convert", Some("to")) => Some(formats::writable().map(|format| format.name).collect()),
        ("profiles", None) => Some(Profile::builtin_names().collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command as Process, Stdio};

    use clap::ValueEnum as _;

    use super::*;

    fn text(shell: Shell) -> String {
        String::from_utf8(script(shell)).expect("a script is text")
    }

    /// Returns the words of a script.
    fn words(script: &str) -> Vec<&str> {
        script.split(|letter: char| !letter.is_alphanumeric() && !"_-".contains(letter)).collect()
    }

    #[test]
    fn script_of_each_shell_names_every_command() {
        for &shell in Shell::value_variants() {
            let script = text(shell);
            let words = words(&script);
            for command in definition().get_subcommands() {
                assert!(words.contains(&command.get_name()), "{shell}: no {}", command.get_name());
            }
        }
    }

    /// The scripts for elvish and PowerShell complete no values.
    #[test]
    fn scripts_that_complete_values_name_schemes_and_formats() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let script = text(shell);
            for name in ["hddboost", "blkparse", "writeboost", "cloudphysics-csv"] {
                assert!(words(&script).contains(&name), "{shell}: no {name}");
            }
        }
    }

    #[test]
    fn bash_accepts_its_script() {
        let mut bash = match Process::new("bash").arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(bash) => bash,
            Err(error) => {
                println!("skipped: no bash ({error})");
                return;
            }
        };
        bash.stdin.take().expect("a pipe").write_all(&script(Shell::Bash)).expect("bash reads its script");
        let output = bash.wait_with_output().expect("bash ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Bash runs the script's own function, as bash does when the user presses the tab key.
    #[test]
    fn bash_completes_a_command_a_flag_and_a_scheme() {
        for (typed, expected) in [
            ("bimetal simu", "simulate"),
            ("bimetal simulate --ssd-s", "--ssd-size"),
            ("bimetal simulate --scheme grif", "griffin"),
            ("bimetal trace st", "start"),
        ] {
            let words: Vec<&str> = typed.split(' ').collect();
            let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
            let asked = format!(
                "\nCOMP_WORDS=({typed}); COMP_CWORD={}; _bimetal bimetal '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\"",
                words.len() - 1
            );
            let Ok(output) = Process::new("bash").arg("-c").arg(text(Shell::Bash) + &asked).output() else {
                println!("skipped: no bash");
                return;
            };
            let offered = String::from_utf8_lossy(&output.stdout);
            assert!(offered.split_whitespace().any(|word| word == expected), "{typed}: {offered}");
        }
    }
}
