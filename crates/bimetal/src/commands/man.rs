//! `bimetal man`: writes the manual pages of the program and of its commands.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::definition;
use crate::error::Error;
use crate::output::{OutputFile, print};

/// Section of the manual that has the pages: commands of users.
const SECTION: &str = "1";

/// Exit status of every command, for the page of the program.
const EXIT_STATUS: [(&str, &str); 4] = [
    ("0", "The command has succeeded."),
    ("1", "The input or the configuration is wrong. One message says what and where."),
    ("2", "A command or flag is unknown."),
    (
        "3",
        "The command has an answer, and the answer is no: plan found nothing, check found damage, or a job of sweep failed.",
    ),
];

/// Write the manual pages of the program and of each command
///
/// The pages come from the same definitions as --help. Pages that exist in DIR are replaced.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal man ~/.local/share/man/man1      then: man bimetal-compare\n  \
    bimetal man pages && man -l pages/bimetal.1")]
pub(crate) struct Arguments {
    /// The folder of the pages; it is made if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let directory = arguments.directory;
    let shown = directory.display();
    fs::create_dir_all(&directory)
        .map_err(|error| Error::new(format!("{shown}: cannot be made: {error}; expected a folder for the pages")))?;
    let pages = pages();
    for (name, text) in &pages {
        let path = directory.join(name);
        let mut file = OutputFile::create(&path)?;
        file.write_all(text).map_err(|error| Error::new(format!("{}: cannot be written: {error}", path.display())))?;
        file.finish()?;
    }
    print(&format!("{} pages in {shown}\n", pages.len()))
}

/// Returns the file name and the text of every page.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut program = definition().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, None, &mut pages);
    pages
}

/// Adds the page of `command`, which belongs to the command with the page `parent`, and the pages
/// of all subcommands.
fn add_pages(command: &Command, parent: Option<&str>, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    // Writing to a vector in memory cannot fail.
    let text = page(command, parent).unwrap_or_default();
    pages.push((format!("{name}.{SECTION}"), text));
    for below in command.get_subcommands() {
        add_pages(below, Some(name), pages);
    }
}

/// Returns the page of `command`.
fn page(command: &Command, parent: Option<&str>) -> std::io::Result<Vec<u8>> {
    let source = concat!("bimetal ", env!("CARGO_PKG_VERSION"));
    let plain = command.clone().after_help(Resettable::Reset).version(Resettable::Reset);
    // An empty date would be left out, and the source would stand in its place.
    let man = Man::new(plain.subcommand_help_heading("COMMANDS").subcommand_value_name("COMMAND"))
        .section(SECTION)
        .date(" ")
        .source(source)
        .manual("Bimetal manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    if let Some(help) = command.get_after_help() {
        add_examples(&mut rest, &help.to_string());
    }
    match parent {
        None => {
            rest.control("SH", ["EXIT STATUS"]);
            for (status, meaning) in EXIT_STATUS {
                rest.control("TP", []).text([roman(status)]).text([roman(meaning)]);
            }
        }
        Some(parent) => {
            rest.control("SH", ["SEE ALSO"]).text([roman(format!("{parent}({SECTION})"))]);
        }
    }
    rest.to_writer(&mut text)?;
    Ok(text)
}

/// Returns the section with the forms of a command, as its help shows them.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]).control("nf", []);
    for form in usage.trim_start_matches("Usage:").trim().lines() {
        section.text([roman(form.trim_start())]);
    }
    section.control("fi", []);
    section
}

/// Adds the examples of a help text. Indented lines keep their form; other lines are filled.
fn add_examples(page: &mut Roff, help: &str) {
    page.control("SH", ["EXAMPLES"]);
    let mut verbatim = false;
    for line in help.lines().filter(|line| !["Example:", "Examples:"].contains(line)) {
        let indented = line.starts_with("  ");
        if indented != verbatim {
            page.control(if indented { "nf" } else { "fi" }, []);
            verbatim = indented;
        }
        match line {
            "" => page.control("PP", []),
            _ => page.text([roman(line)]),
        };
    }
    if verbatim {
        page.control("fi", []);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("bimetal-man-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let pages = pages();
        let page = |name: &str| {
            let (_, text) = pages.iter().find(|(file, _)| *file == format!("{name}.1"))?;
            Some(String::from_utf8(text.clone()).expect("a page is text"))
        };
        assert!(page("bimetal").is_some_and(|text| text.contains("EXIT STATUS")));
        for command in definition().get_subcommands() {
            let name = format!("bimetal-{}", command.get_name());
            let text = page(&name).unwrap_or_else(|| panic!("no page of {name}"));
            assert!(text.contains("EXAMPLES") && text.contains(".SH \"SEE ALSO\"\nbimetal(1)"), "{name}: {text}");
        }
        let compare = page("bimetal-compare").expect("there is a page of compare");
        assert!(compare.contains(".SH SYNOPSIS\n.nf\nbimetal compare [OPTIONS] [TRACE]...\n.fi\n"), "{compare}");
        assert!(page("bimetal-trace-start").is_some_and(|text| text.contains("bimetal\\-trace(1)")));
    }

    #[test]
    fn groff_formats_every_page_without_a_warning() {
        let directory = directory("groff");
        run(Arguments { directory: directory.clone() }).expect("the pages are written");
        for (name, _) in pages() {
            let arguments = ["-man", "-ww", "-Kutf8", "-Tutf8", "-z"];
            let Ok(output) = Process::new("groff").args(arguments).arg(directory.join(&name)).output() else {
                println!("skipped: no groff");
                break;
            };
            let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && warnings.is_empty(), "{name}: {warnings}");
        }
        fs::remove_dir_all(directory).expect("the folder is removed");
    }

    #[test]
    fn indented_lines_of_examples_keep_their_form() {
        let mut page = Roff::new();
        add_examples(&mut page, "Examples:\n  bimetal a \\\n    --b\n\nMore words\nof text.");
        let expected = ".SH EXAMPLES\n.nf\n  bimetal a \\\\\n    \\-\\-b\n.fi\n.PP\nMore words\nof text.\n";
        assert_eq!(page.to_roff(), expected);
    }

    #[test]
    fn unwritable_folder_is_refused_with_one_message() {
        let file = directory("file");
        fs::write(&file, "no folder").expect("a file");
        let message = run(Arguments { directory: file.join("man1") }).expect_err("a file is not a folder").to_string();
        assert!(message.starts_with(&format!("{}/man1: cannot be made: ", file.display())), "{message}");
        assert!(!message.contains('\n'), "{message}");
        fs::remove_file(file).expect("the file is removed");
    }
}
