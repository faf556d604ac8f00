//! `bimetal reproduce`: a paper's experiment again, its claim beside our figures.

use std::fmt::Write as _;

use bimetal_sim::wear_levelling;
use clap::Args;

use crate::error::Error;
use crate::output::print;

/// Repeat a paper's experiment and show its claim beside our figures
///
/// Without a name the experiments are listed; `all` repeats every one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bimetal reproduce\n  bimetal reproduce wear-leveling")]
pub(crate) struct Arguments {
    /// The name of an experiment, or `all`
    name: Option<String>,
}

/// An experiment of a paper.
struct Experiment {
    name: &'static str,
    /// What is shown, and where it is from.
    summary: &'static str,
    /// Does it again; gives what is shown.
    run: fn() -> Result<String, Error>,
}

/// Every experiment. To add one, add its line.
const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "wear-leveling",
    summary: "how translation layers spread erases over the blocks (Konanki, section 5.4, figures 5.7 and 5.8)",
    run: wear_levelling_figures,
}];

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
    for experiment in chosen {
        print(&format!("{}: {}\n\n{}", experiment.name, experiment.summary, (experiment.run)()?))?;
    }
    Ok(())
}

/// Characters of a full bar.
const BAR: f64 = 50.0;

/// Both figures of Konanki's section 5.4: for each layer the part of all blocks that was erased so often.
fn wear_levelling_figures() -> Result<String, Error> {
    let mut text = String::new();
    let figures = [
        (
            1,
            "Figure 5.7: an 85 MB file written once over a 100 MB partition",
            "no block is erased under ANAND and FMAX; 0, 1 or 2 times under page level",
        ),
        (
            15,
            "Figure 5.8: the file written fifteen times over 1 GB",
            "most blocks are erased once under ANAND and twice under FMAX; most not at all and a few many times under log \
             block and page level",
        ),
    ];
    for (times, title, claim) in figures {
        let _ = writeln!(text, "{title}\n  the paper: {claim}");
        for (name, ftl) in wear_levelling::LAYERS {
            let erases = wear_levelling::erases_of_blocks(ftl, times, 1)?;
            let all = erases.values().sum::<u64>() as f64;
            let _ = writeln!(text, "  {name} (ftl={ftl}): blocks by times erased");
            for (erases, blocks) in erases {
                let part = blocks as f64 / all;
                let bar = "#".repeat((part * BAR).round() as usize);
                let line = format!("    {erases:3}  {:7.3} %  {bar}", part * 100.0);
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_drawn_for_every_layer() {
        let text = wear_levelling_figures().unwrap();
        for (name, _) in wear_levelling::LAYERS {
            assert_eq!(text.matches(&format!("  {name} (")).count(), 2, "{text}");
        }
        assert!(text.contains("      0  100.000 %  ##################################################\n"), "{text}");
    }

    #[test]
    fn an_unknown_experiment_is_refused_with_the_nearest() {
        let error = run(Arguments { name: Some("wear-levelling".to_owned()) }).unwrap_err().to_string();
        assert!(error.contains("did you mean 'wear-leveling'?"), "{error}");
    }
}
