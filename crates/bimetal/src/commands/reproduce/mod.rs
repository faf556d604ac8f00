//! `bimetal reproduce`: repeats a paper's experiment and shows its claim beside our figures.

mod combo_hdtune;
mod mixcp;
mod wear_levelling;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::output::{OutputFile, print};
use crate::report::escape::html as escaped;
use crate::report::page;

/// Repeat a paper's experiment and show its claim beside our figures
///
/// Without a name the experiments are listed; `all` repeats every one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bimetal reproduce\n  bimetal reproduce wear-leveling\n  \
    bimetal reproduce combo-hdtune --report combo.html")]
pub(crate) struct Arguments {
    /// The name of an experiment, or `all`
    name: Option<String>,
    /// Write a page with the figures, and the charts where there are any
    #[arg(long, value_name = "FILE.html", requires = "name")]
    report: Option<PathBuf>,
}

/// An experiment of a paper.
struct Experiment {
    name: &'static str,
    /// The subject of the experiment, and its place in the paper.
    summary: &'static str,
    /// Repeats the experiment.
    run: fn() -> Result<Shown, Error>,
}

/// Results of an experiment.
#[derive(Default)]
struct Shown {
    text: String,
    /// Charts of a page, as HTML; empty where the text is enough.
    charts: String,
}

/// Every experiment. To add one, add a line here.
const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "wear-leveling",
        summary: "how translation layers spread erases over the blocks (Konanki, section 5.4, figures 5.7 and 5.8)",
        run: wear_levelling::figures,
    },
    Experiment {
        name: "combo-hdtune",
        summary: "rates by position and access times by distance of a disk, two SSDs and both concatenations (Combo \
                  Drive, section 5.1, figures 5 and 6)",
        run: combo_hdtune::figures,
    },
    Experiment {
        name: "mixcp",
        summary: "what an SSD does and how long it lasts, by regression and by simulation (MixedStore, section 4, tables 3 and \
                  4, figures 5 to 7)",
        run: mixcp::figures,
    },
];

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let Some(name) = arguments.name else {
        let lines = EXPERIMENTS.iter().map(|experiment| format!("{:16}  {}\n", experiment.name, experiment.summary));
        return print(&lines.collect::<String>());
    };
    let chosen: Vec<_> = EXPERIMENTS.iter().filter(|experiment| name == "all" || name == experiment.name).collect();
    if chosen.is_empty() {
        let known = EXPERIMENTS.iter().map(|experiment| experiment.name).chain(["all"]);
        return Err(Error::unknown("experiment", &name, known));
    }
    let mut sections = String::new();
    for Experiment { name, summary, run } in chosen {
        let Shown { text, charts } = run()?;
        print(&format!("{name}: {summary}\n\n{text}"))?;
        let _ = write!(
            sections,
            "<section aria-labelledby=\"{name}\"><h2 id=\"{name}\">{name}</h2>\n<p>{}</p>\n<div class=\"scroll\"><pre \
             tabindex=\"0\">{}</pre></div>\n{charts}</section>\n",
            escaped(summary),
            escaped(&text)
        );
    }
    let Some(path) = arguments.report else { return Ok(()) };
    let content = format!("</header>\n<main>\n{sections}</main>");
    let mut file = OutputFile::create(&path)?;
    file.write_all(page::html(&name, "experiments", "Papers' experiments, repeated", &content).as_bytes())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_experiment_is_refused_with_the_nearest() {
        let error = run(Arguments { name: Some("wear-levelling".to_owned()), report: None }).unwrap_err().to_string();
        assert!(error.contains("did you mean 'wear-leveling'?"), "{error}");
    }
}
