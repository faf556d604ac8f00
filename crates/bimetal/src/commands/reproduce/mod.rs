//! `bimetal reproduce`: measures the papers' claims, or repeats an experiment of a paper.

mod chart;
mod claims;
mod combo_hdtune;
mod figures;
mod mixcp;
mod values;
mod wear_levelling;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use bimetal_papers::claims::Paper;
use bimetal_papers::experiments::figures;
use bimetal_papers::figure::Figure;
use bimetal_papers::mixcp::Cache;
use bimetal_papers::traces::Traces;
use clap::Args;

use crate::error::Error;
use crate::options::TableForm;
use crate::output::{OutputFile, print, print_json};
use crate::progress::Stages;
use crate::report::escape::html as escaped;
use crate::report::page;
use values::{Document, Value, sheet};

/// Measure the claims of the papers, and show the papers' figures beside Bimetal's
///
/// The name of a paper, or `all`, gives a table: each claim with the paper's figure, Bimetal's
/// figure, a verdict and the mechanism of a difference. The name of an experiment gives all of its
/// figures. Without a name, papers and experiments are listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bimetal reproduce\n  bimetal reproduce griffin\n  \
    bimetal reproduce all --json\n  bimetal reproduce griffin --report griffin.html\n  \
    bimetal reproduce combo-hdtune --json")]
pub(crate) struct Arguments {
    /// The name of a paper or of an experiment, or `all` papers
    name: Option<String>,
    /// Folder with public traces under their usual names (diskmon-mayun.tsv.xz), for claims that
    /// need them
    #[arg(long, value_name = "DIR", requires = "name")]
    traces: Option<PathBuf>,
    #[command(flatten)]
    form: TableForm,
    /// Write a page: for a paper, its table, and its figures with the paper's points; for an
    /// experiment, its figures and charts
    #[arg(long, value_name = "FILE.html", requires = "name")]
    report: Option<PathBuf>,
}

/// An experiment of a paper.
struct Experiment {
    name: &'static str,
    paper: Paper,
    /// The subject of the experiment, and its place in the paper.
    summary: &'static str,
    /// Repeats the experiment.
    run: fn() -> Result<Shown, Error>,
    /// Set if it takes more than seconds. The page of all papers then names its command.
    long: bool,
}

/// Results of an experiment.
#[derive(Clone, Default)]
struct Shown {
    text: String,
    /// Charts of a page, as HTML; empty where the text is enough.
    charts: String,
    /// All results, for `--json` and the tables.
    values: Vec<Value>,
}

/// Every experiment. To add an experiment, add a line to this table.
const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "wear-leveling",
        paper: Paper::Konanki,
        summary: "how translation layers spread erases over the blocks (Konanki, section 5.4, figures 5.7 and 5.8)",
        run: wear_levelling::figures,
        long: false,
    },
    Experiment {
        name: "combo-hdtune",
        paper: Paper::Combo,
        summary: "rates by position and access times by distance of a disk, two SSDs and both concatenations (Combo \
                  Drive, section 5.1, figures 5 and 6)",
        run: combo_hdtune::figures,
        long: false,
    },
    Experiment {
        name: "mixcp",
        paper: Paper::MixedStore,
        summary: "the response time and the lifetime of an SSD, by regression and by simulation (MixedStore, section \
                  4, tables 3 and 4, figures 5 to 7)",
        run: mixcp::figures,
        long: true,
    },
];

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let Some(name) = arguments.name else {
        return print(&listed());
    };
    let papers: Vec<Paper> = Paper::ALL.into_iter().filter(|paper| name == "all" || name == paper.name()).collect();
    let experiment = EXPERIMENTS.iter().find(|experiment| name == experiment.name);
    // The page is created first: a path that cannot be written must fail at once.
    let page = arguments.report.as_deref().map(OutputFile::create).transpose()?;
    let sections = match experiment {
        Some(_) if arguments.traces.is_some() => {
            return Err(Error::new(format!(
                "--traces: the experiment '{name}' has no such option; expected a paper or all, as `bimetal reproduce` \
                 lists"
            )));
        }
        Some(experiment) => shown(experiment, &arguments.form)?,
        None if papers.is_empty() => {
            let known = Paper::ALL.into_iter().map(Paper::name).chain(EXPERIMENTS.iter().map(|known| known.name));
            return Err(Error::unknown("paper or experiment", &name, known.chain(["all"])));
        }
        None => {
            if let Some(folder) = arguments.traces.as_deref().filter(|folder| !folder.is_dir()) {
                return Err(Error::new(format!(
                    "--traces: {}: is not a folder, expected a folder with public traces, as docs/papers.md names them",
                    folder.display()
                )));
            }
            let traces = Traces { folder: arguments.traces };
            let answers = claims::Answers::of(&papers, &traces, &cache())?;
            if arguments.form.json {
                print_json("reproduce", &answers.document())?;
            } else {
                print(&arguments.form.of(|| answers.sheet()).unwrap_or_else(|| answers.text()))?;
            }
            if page.is_none() {
                return Ok(());
            }
            answers.sections(&figures_of(&papers, &traces)?) + &experiments(&papers, |experiment| (experiment.run)())?
        }
    };
    let Some(mut file) = page else { return Ok(()) };
    let content = format!("</header>\n<main>\n{sections}</main>");
    file.write_all(page::html(&name, "experiments", "Papers' experiments, repeated", &content).as_bytes())?;
    file.finish()
}

/// Returns a line for each paper and each experiment.
fn listed() -> String {
    let papers = Paper::ALL
        .into_iter()
        .map(|paper| format!("{:16}  {} claims of {}\n", paper.name(), paper.claims().len(), paper.title()));
    let experiments = EXPERIMENTS.iter().map(|experiment| format!("{:16}  {}\n", experiment.name, experiment.summary));
    format!("papers:\n{}\nexperiments:\n{}", papers.collect::<String>(), experiments.collect::<String>())
}

/// Repeats an experiment, prints it, and returns its section of a page.
fn shown(experiment: &Experiment, form: &TableForm) -> Result<String, Error> {
    let shown = (experiment.run)()?;
    let Experiment { name, paper, summary, .. } = experiment;
    let values = &shown.values[..];
    if form.json {
        let document = Document { experiment: name, paper: paper.name(), summary, values };
        print_json("reproduce-experiment", &document)?;
    } else {
        let text = || format!("{name}: {summary}\n\n{}", shown.text);
        print(&form.of(|| sheet(values)).unwrap_or_else(text))?;
    }
    Ok(section(experiment, &results(&shown)))
}

/// Measures the figures of `papers`.
fn figures_of(papers: &[Paper], traces: &Traces) -> Result<Vec<Figure>, Error> {
    let bar = Stages::default();
    Ok(figures(papers, traces, &|done| bar.show("figures of papers", Some(papers.len() as u64), done))?)
}

/// Returns the sections of the experiments of `papers`, for a page of their claims. Each experiment
/// that is not long is repeated by `repeat`.
fn experiments(papers: &[Paper], repeat: impl Fn(&Experiment) -> Result<Shown, Error>) -> Result<String, Error> {
    let of_papers = EXPERIMENTS.iter().filter(|experiment| papers.contains(&experiment.paper));
    let sections = of_papers.map(|experiment| {
        let Experiment { name, long, .. } = experiment;
        let content = if *long {
            format!("<p>It has a page of its own: <code>bimetal reproduce {name} --report {name}.html</code></p>\n")
        } else {
            results(&repeat(experiment)?)
        };
        Ok(section(experiment, &content))
    });
    sections.collect()
}

/// Returns the results of an experiment, as HTML.
fn results(Shown { text, charts, .. }: &Shown) -> String {
    format!("<div class=\"scroll\"><pre tabindex=\"0\">{}</pre></div>\n{charts}", escaped(text))
}

fn section(Experiment { name, summary, .. }: &Experiment, content: &str) -> String {
    let summary = escaped(summary);
    format!(
        "<section aria-labelledby=\"{name}\"><h2 id=\"{name}\">{name}</h2>\n<p>{summary}</p>\n{content}</section>\n"
    )
}

/// Returns the folder of the user in which training sets are kept: `bimetal/mixcp` of
/// `XDG_CACHE_HOME`, or of `~/.cache`.
fn cache() -> Cache {
    Cache { folder: cache_folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) }
}

fn cache_folder(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The specification of these folders tells programs to ignore a path that is not absolute.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let caches = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))?;
    Some(caches.join("bimetal/mixcp"))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    #[test]
    fn an_unknown_experiment_is_refused_with_the_nearest() {
        let error = run(of("wear-levelling")).unwrap_err().to_string();
        assert!(error.contains("did you mean 'wear-leveling'?"), "{error}");
    }

    fn of(name: &str) -> Arguments {
        Arguments { name: Some(name.to_owned()), traces: None, form: TableForm::default(), report: None }
    }

    /// The results of each experiment that is not long, by name. Both tests of results use these.
    static SHOWN: LazyLock<Vec<(&str, Shown)>> = LazyLock::new(|| {
        let short = EXPERIMENTS.iter().filter(|experiment| !experiment.long);
        short.map(|experiment| (experiment.name, (experiment.run)().unwrap())).collect()
    });

    /// Regression: the figures of an experiment could only be read from its text.
    #[test]
    fn experiments_have_values_with_unit_and_place() {
        for (name, Shown { values, .. }) in SHOWN.iter() {
            assert!(values.iter().any(|value| value.paper.is_some()), "{name}");
            assert!(values.iter().all(|value| value.ours.is_some() && !value.place.is_empty()), "{values:?}");
        }
    }

    #[test]
    fn training_is_kept_in_the_users_cache_folder() {
        let folder = |xdg: Option<&str>, home: Option<&str>| cache_folder(xdg.map(Into::into), home.map(Into::into));
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(folder(Some("/cache"), Some("/mine")), path("/cache/bimetal/mixcp"));
        for no_cache in [None, Some(""), Some("relative")] {
            assert_eq!(folder(no_cache, Some("/mine")), path("/mine/.cache/bimetal/mixcp"));
        }
        assert_eq!(folder(None, None), None);
    }

    #[test]
    fn page_of_all_papers_has_every_experiment() {
        let known = |experiment: &Experiment| {
            let (_, shown) = SHOWN.iter().find(|(name, _)| *name == experiment.name).unwrap();
            Ok(shown.clone())
        };
        let sections = experiments(&Paper::ALL, known).unwrap();
        for Experiment { name, long, .. } in EXPERIMENTS {
            let section = sections.split("<section ").find(|section| section.contains(&format!("id=\"{name}\"")));
            let section = section.unwrap();
            assert_eq!(section.contains("<svg"), !long, "{name}");
            assert_eq!(section.contains(&format!("bimetal reproduce {name} --report")), *long, "{name}");
        }
        let of_combo = experiments(&[Paper::Combo], known).unwrap();
        assert!(of_combo.contains("id=\"combo-hdtune\"") && of_combo.matches("<section ").count() == 1);
    }

    #[test]
    fn folder_of_traces_that_does_not_exist_is_refused() {
        let nowhere = Some(PathBuf::from("/nowhere"));
        for (name, expected) in [("combo", "expected a folder"), ("mixcp", "expected a paper or all")] {
            let error = run(Arguments { traces: nowhere.clone(), ..of(name) }).unwrap_err().to_string();
            assert!(error.starts_with("--traces: ") && error.contains(expected), "{error}");
        }
    }
}
