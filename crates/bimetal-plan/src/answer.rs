//! The answer as the document that `plan` prints.

use std::collections::BTreeMap;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::Role;
use bimetal_sim::results::TraceSummary;
use serde::Serialize;
use serde_json::Value;

use crate::advice::{Confidence, Sensitivity};
use crate::budget::{Budget, Metric, at, dollars, short};
use crate::closest;
use crate::create;
use crate::evaluate::Figures;
use crate::grid::Candidate;
use crate::kernel;
use crate::lifetime::Life;
use crate::search::Tried;

/// Figures that every option is described by, beside those that a budget limits.
const PREDICTED: [&str; 17] = [
    "response_time_ms.all.mean",
    "response_time_ms.all.p50",
    "response_time_ms.all.p99",
    "response_time_ms.all.p999",
    "response_time_ms.all.max",
    "response_time_ms.read.mean",
    "response_time_ms.read.p99",
    "response_time_ms.write.mean",
    "response_time_ms.write.p99",
    "throughput.mb_per_s",
    "write_savings",
    "ssd_hit_ratio.read",
    "ssd_hit_ratio.write",
    "devices.ssd.write_bytes",
    "devices.ssd.energy_j",
    "devices.ssd.flash.lifetime_years",
    "devices.hdd.energy_j",
];

/// What `plan --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The version of Bimetal that made it.
    pub bimetal: String,
    /// The command line that made it.
    pub command: Option<String>,
    /// The workload.
    pub trace: TraceSummary,
    /// The budgets, as they were given.
    pub budgets: Vec<String>,
    /// The price catalogue.
    pub catalogue: CatalogueNote,
    /// The cheapest option that keeps every budget; null when none does.
    pub best: Option<Described>,
    /// The next one of those that were run to their end.
    pub next_best: Option<Described>,
    /// Options that no other beats in cost, latency, lifetime and energy at once, of those that were run to their end.
    pub pareto: Vec<Described>,
    /// Every other option, and why it is not the best.
    pub rejected: Vec<Rejected>,
    /// Where no option keeps the budgets: those that break them least, and which would have to give way.
    pub closest: Vec<Closest>,
    /// How sure the best option is; null without one.
    pub confidence: Option<Confidence>,
    /// What more or less load and half the SSD would do to the best option.
    pub sensitivity: Vec<Sensitivity>,
    /// What it took.
    pub run: Effort,
}

/// What [`Answer::closest`] is, as the beginning of a sentence.
pub const CLOSEST: &str = "The closest, by how many times over its budgets an option is, multiplied";

/// An option that comes near.
#[derive(Clone, Debug, Serialize)]
pub struct Closest {
    /// The option.
    #[serde(flatten)]
    pub option: Described,
    /// Each budget that it breaks, what it would have to be, and how many times over it the option is.
    pub relax: Vec<String>,
    /// How many times over them it is, all multiplied; null where a limit of 0 leaves no such factor.
    pub times_over: Option<f64>,
}

/// Which prices were used.
#[derive(Clone, Debug, Serialize)]
pub struct CatalogueNote {
    /// Its file.
    pub name: String,
    /// Whether it is the built-in example, whose prices are old.
    pub example: bool,
}

/// An option.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// A name that `--ssd` accepts; null where there is none.
    pub ssd: Option<String>,
    /// Its size.
    pub ssd_bytes: Option<u64>,
    /// A name that `--hdd` accepts; null where there is none.
    pub hdd: Option<String>,
    /// Its size.
    pub hdd_bytes: Option<u64>,
    /// A drive of its own for the log, as `--member log=` takes it.
    pub log: Option<String>,
    /// The scheme.
    pub scheme: String,
    /// Its parameters, as `--set` takes them.
    pub settings: BTreeMap<String, String>,
    /// The price of its drives.
    pub cost_usd: f64,
    /// What `simulate` says of exactly these drives, sizes and settings.
    pub predicted: BTreeMap<String, Value>,
    /// The same when the load has grown; null without growth.
    pub predicted_when_grown: Option<BTreeMap<String, Value>>,
    /// How long each flash drive lasts.
    pub lifetime: Vec<Life>,
    /// The `bimetal create` line that builds it, with SSD, HDD and LOG for the paths of the drives; null for a scheme that is only
    /// simulated.
    pub create_command: Option<String>,
    /// Commands that set up what Linux itself has that is like it; empty where it has nothing.
    pub kernel_commands: Vec<String>,
    /// The option in words, as [`name`] has it.
    #[serde(skip)]
    pub name: String,
}

/// An option that is not the best.
#[derive(Clone, Debug, Serialize)]
pub struct Rejected {
    /// The option.
    #[serde(flatten)]
    pub option: Described,
    /// Why.
    pub reason: String,
}

/// What a plan took.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Effort {
    /// Options in the grid.
    pub options: u64,
    /// Runs, those that were stopped included.
    pub simulations: u64,
    /// Seconds.
    pub wall_s: f64,
    /// Most memory that the process held.
    pub peak_rss_bytes: Option<u64>,
}

impl Closest {
    /// `tried`, which breaks some of `budgets`, as the document shows it; nothing where its figures are not known.
    pub(crate) fn of(tried: &Tried, budgets: &[Budget], block: BlockSize) -> Option<Self> {
        let broken = closest::broken(tried.figures()?, budgets);
        let relax = broken.iter().map(closest::Broken::relaxed).collect();
        Some(Self { option: Described::of(tried, budgets, block), relax, times_over: closest::off(&broken).times() })
    }
}

impl Described {
    /// `tried` as the document shows it; its volume has blocks of this size.
    pub fn of(tried: &Tried, budgets: &[Budget], block: BlockSize) -> Self {
        let Tried { candidate, .. } = tried;
        let figures = tried.figures();
        let (ssd, hdd) = (candidate.drive(Role::Ssd), candidate.drive(Role::Hdd));
        let log = candidate.drive(Role::Log).map(|log| format!("{}:{}", log.model, log.size));
        Self {
            ssd: ssd.map(|ssd| ssd.model.clone()),
            ssd_bytes: ssd.map(|ssd| ssd.size.0),
            hdd: hdd.map(|hdd| hdd.model.clone()),
            hdd_bytes: hdd.map(|hdd| hdd.size.0),
            log,
            scheme: candidate.scheme.name.to_owned(),
            settings: settings_of(candidate, figures),
            cost_usd: candidate.cost_usd,
            predicted: figures.map(|figures| predicted(figures, budgets)).unwrap_or_default(),
            predicted_when_grown: figures
                .and_then(|figures| figures.grown.as_deref())
                .map(|grown| predicted(grown, budgets)),
            lifetime: figures.and_then(|figures| figures.lives.clone()).unwrap_or_default(),
            create_command: create::command(candidate, block),
            kernel_commands: kernel::commands(candidate),
            name: name(candidate),
        }
    }
}

/// All parameters of the scheme.
fn settings_of(candidate: &Candidate, figures: Option<&Figures>) -> BTreeMap<String, String> {
    let of_run = figures.and_then(|figures| figures.run.get("settings")).and_then(Value::as_object);
    match of_run {
        Some(map) => {
            map.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
        }
        None => {
            let defaults =
                candidate.scheme.parameters.iter().map(|known| (known.name.to_owned(), known.default.to_owned()));
            defaults.chain(candidate.settings.iter().cloned()).collect()
        }
    }
}

fn predicted(figures: &Figures, budgets: &[Budget]) -> BTreeMap<String, Value> {
    let limited = budgets.iter().filter_map(|budget| match &budget.metric {
        // Prices are the catalogue's, and not those of the profiles that `simulate` knows.
        Metric::Path(path) if !path.starts_with("cost.") => Some(path.as_str()),
        _ => None,
    });
    let value = |path: &str| at(&figures.run, path).cloned().unwrap_or(Value::Null);
    PREDICTED.into_iter().chain(limited).map(|path| (path.to_owned(), value(path))).collect()
}

/// Scheme, what of it is not at its default, drives and price: `griffin (timeout=225s) on MODEL 500 GB and MODEL 1 TB for 212 $`.
pub fn name(candidate: &Candidate) -> String {
    let settings: Vec<String> = candidate.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let settings = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
    let drive = |role| candidate.drive(role).map(|offer| format!("{} {}", offer.model, decimal(offer.size.0)));
    let drives: Vec<String> = [Role::Ssd, Role::Log, Role::Hdd].into_iter().filter_map(drive).collect();
    let (scheme, drives) = (candidate.scheme.name, drives.join(" and "));
    format!("{scheme}{settings} on {drives} for {}", dollars(candidate.cost_usd))
}

/// An option in a sentence: `500 GB TLC, griffin, p99 3.1 ms, 9.4 years, 212 $`.
pub fn sentence(tried: &Tried, budget: &Budget) -> String {
    let candidate = &tried.candidate;
    let flash = |role: Role| {
        let offer = candidate.drive(role).filter(|offer| offer.cell.is_some())?;
        let log = if role == Role::Log { " log" } else { "" };
        Some(format!("{} {}{log}", decimal(offer.size.0), offer.cell.as_deref().unwrap_or_default()))
    };
    let mut parts: Vec<String> = [Role::Ssd, Role::Log].into_iter().filter_map(flash).collect();
    if parts.is_empty() {
        let disk = candidate.drives.first().map(|(_, offer)| format!("{} disk", decimal(offer.size.0)));
        parts.extend(disk);
    }
    parts.push(candidate.scheme.name.to_owned());
    parts.extend(candidate.settings.iter().map(|(key, value)| format!("{key}={value}")));
    if let Some(figures) = tried.figures() {
        parts.push(format!("{} {}", budget.name(), budget.show(figures.of(budget))));
        if figures.lives.as_ref().is_some_and(|lives| !lives.is_empty()) {
            let years = figures.life_years().filter(|years| years.is_finite());
            parts.push(years.map_or_else(
                || "flash unlimited (nothing is erased)".to_owned(),
                |years| format!("{} years", short_years(years)),
            ));
        }
    }
    parts.push(dollars(candidate.cost_usd));
    parts.join(", ")
}

/// Years as people say them.
pub fn short_years(years: f64) -> String {
    if years >= 100.0 { "over 100".to_owned() } else { short((years * 10.0).round() / 10.0) }
}

/// A size as drives are sold: in powers of ten.
pub fn decimal(bytes: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB")];
    let (factor, unit) = UNITS.into_iter().find(|(factor, _)| bytes as f64 >= *factor).unwrap_or((1.0, "B"));
    format!("{} {unit}", short(bytes as f64 / factor))
}

/// The options of `tried` that no other beats in cost, latency, lifetime and energy at once, the cheapest first.
pub fn pareto<'t>(tried: &[&'t Tried], latency: &Budget) -> Vec<&'t Tried> {
    let key = |tried: &Tried| {
        let figures = tried.figures();
        let value = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
        [
            tried.candidate.cost_usd,
            value(figures.and_then(|figures| figures.of(latency))),
            -figures.and_then(Figures::life_years).unwrap_or(0.0),
            value(figures.and_then(|figures| figures.energy_j)),
        ]
    };
    let keys: Vec<[f64; 4]> = tried.iter().map(|tried| key(tried)).collect();
    let beats = |one: &[f64; 4], other: &[f64; 4]| one.iter().zip(other).all(|(one, other)| one <= other);
    let on_front = |index: usize| {
        !keys
            .iter()
            .enumerate()
            .any(|(rival, key)| rival != index && beats(key, &keys[index]) && (*key != keys[index] || rival < index))
    };
    let mut front: Vec<usize> = (0..tried.len()).filter(|&index| on_front(index)).collect();
    front.sort_by(|&one, &other| keys[one][0].total_cmp(&keys[other][0]).then(keys[one][1].total_cmp(&keys[other][1])));
    front.into_iter().map(|index| tried[index]).collect()
}
