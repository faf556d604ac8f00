//! The answer: the document that `plan` prints.

use std::collections::BTreeMap;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::Role;
use bimetal_core::units::{Bytes, significant};
use bimetal_measure::text::{decimal, price, short, short_years};
use bimetal_sim::findings::{FASTER_DEVICE, Finding};
use bimetal_sim::lifetime::Life;
use bimetal_sim::results::TraceSummary;
use serde::Serialize;
use serde_json::Value;

use crate::Planned;
use crate::advice::{Confidence, NOT_PROVEN, Sensitivity, Spread};
use crate::alternatives::YEARS_MAX;
use crate::break_even::BreakEven;
use crate::budget::{Budget, Metric};
use crate::catalogue::Kind;
use crate::catalogue::Offer;
use crate::closest;
use crate::create;
use crate::drives::model::{newer_price, rise};
use crate::evaluate::Figures;
use crate::grid::Candidate;
use crate::kernel;
use crate::search::Tried;
use crate::variation::Variation;

/// Figures that describe every option, in addition to the figures that a budget limits.
const PREDICTED: [&str; 18] = [
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
    "devices.ssd.flash.dwpd",
    "devices.hdd.energy_j",
];

/// Document that `plan --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Version of Bimetal that made the document.
    pub bimetal: String,
    /// Command line that made the document.
    pub command: Option<String>,
    /// The workload.
    pub trace: TraceSummary,
    /// Facts to know before the figures of the best option.
    pub findings: Vec<Finding>,
    /// The budgets, as they were given.
    pub budgets: Vec<String>,
    /// The price catalogue.
    pub catalogue: CatalogueNote,
    /// Cheapest option that keeps every budget; null if no option does.
    pub best: Option<Described>,
    /// Second-best option that keeps every budget, among the options run to their end.
    pub next_best: Option<Described>,
    /// Pareto front of the options run to their end. No other option beats these options in cost,
    /// latency, lifetime and energy at once.
    pub pareto: Vec<Described>,
    /// Every other option, with the reason for which it is not the best.
    pub rejected: Vec<Rejected>,
    /// Options that break the budgets least, if no option keeps them, with the budgets to relax.
    pub closest: Vec<Closest>,
    /// Number of options that may be closer than those in `closest` and were left out, because the
    /// catalogue has too many.
    pub closest_left_out: u64,
    /// Number of options that were not run and may keep the budgets for less money.
    pub not_run: u64,
    /// Hybrid that costs less than the best option and breaks the budgets least, with the budgets
    /// to relax, among the cheapest options of each scheme; null if the best option is a hybrid, if
    /// there is no best option, or if no hybrid costs less.
    pub closest_hybrid: Option<Closest>,
    /// Confidence in the best option; null without a best option.
    pub confidence: Option<Confidence>,
    /// Effects of more load, less load and an SSD of half the size on the best option.
    pub sensitivity: Vec<Sensitivity>,
    /// Cheapest option with a hard disk that costs less than the best option and keeps every budget
    /// if the trace is played with think times; null if there is none, or if the trace was not
    /// recorded on a device faster than a hard disk.
    pub with_think_times: Option<Described>,
    /// Number of options and runs, time and memory that the planner needed.
    pub run: Effort,
}

/// Meaning of [`Answer::closest`], as the beginning of a sentence.
pub const CLOSEST: &str = "The closest options, by the product of the factors by which they miss their budgets";

/// Remark on several drives of one kind.
pub const STRIPE: &str =
    "stripe the drives of one kind first (`mdadm --level=0`, or LVM): the lives count on equal wear";

/// An option that nearly keeps the budgets.
#[derive(Clone, Debug, Serialize)]
pub struct Closest {
    /// The option.
    #[serde(flatten)]
    pub option: Described,
    /// Each broken budget, with the limit that would keep it and the factor by which the option
    /// exceeds it.
    pub relax: Vec<String>,
    /// Product of all factors by which the option exceeds its budgets; null if a limit of 0 leaves
    /// no factor.
    pub times_over: Option<f64>,
    /// Reason for which the option is not the best.
    pub reason: String,
}

/// The catalogue whose prices were used.
#[derive(Clone, Debug, Serialize)]
pub struct CatalogueNote {
    /// File of the catalogue, or the name of the built-in drives.
    pub name: String,
    /// Date of the oldest price: a year, a month or a day; empty if no price has a date.
    pub oldest_price: String,
    /// Date of the newest price.
    pub newest_price: String,
}

/// An option as the document describes it.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// Name of the SSD, as `--ssd` accepts it; null without an SSD.
    pub ssd: Option<String>,
    /// Size of the SSD, or of all SSDs that are used as one.
    pub ssd_bytes: Option<u64>,
    /// Number of equal SSDs that are bought and used as one.
    pub ssd_drives: Option<u64>,
    /// Name of the HDD, as `--hdd` accepts it; null without an HDD.
    pub hdd: Option<String>,
    /// Size of the HDD, or of all HDDs that are used as one.
    pub hdd_bytes: Option<u64>,
    /// Number of equal HDDs that are bought and used as one.
    pub hdd_drives: Option<u64>,
    /// Separate drive for the log, as `--member log=` takes it.
    pub log: Option<String>,
    /// The scheme.
    pub scheme: String,
    /// Parameters of the scheme, as `--set` takes them.
    pub settings: BTreeMap<String, String>,
    /// Price of the option in US dollars.
    pub cost_usd: f64,
    /// Mean cost of a year of ownership: drives, their successors, and energy; null if it is not
    /// known.
    pub usd_per_year: Option<f64>,
    /// Cost of a year with the shortest lives that the trace leaves possible; null if it is not
    /// known.
    pub usd_per_year_most: Option<f64>,
    /// Probability that data are lost in a year; null if it is not known.
    pub loss_probability_per_year: Option<f64>,
    /// Carbon dioxide (equivalent) that making the drives set free, in kg: the lowest and the
    /// highest that sources give; null if it is not known.
    pub embodied_carbon_kg: Option<[f64; 2]>,
    /// Figures that `simulate` gives for exactly these drives, sizes and settings.
    pub predicted: BTreeMap<String, Value>,
    /// Lowest and highest value that the whole trace and its parts give for each budgeted figure,
    /// by the figure's path.
    pub predicted_range: BTreeMap<String, (Option<f64>, Option<f64>)>,
    /// Number of windows of the trace that keep a budget, and number of windows, by budget.
    pub kept_in_windows: BTreeMap<String, (u64, u64)>,
    /// Set if every budget is kept at the worst end of the range of its figure; null if the ranges
    /// were not computed.
    pub proven: Option<bool>,
    /// Set if a budget breaks once writes wait until they are stable, so that the option keeps the
    /// budgets only if a power cut may lose the last writes; null if that was not found out.
    pub needs_volatile_cache: Option<bool>,
    /// Set if a budget breaks once the data are spread over the whole volume, so that the option
    /// keeps the budgets only if the data lie together on the disk; null if that was not found out.
    pub needs_data_together: Option<bool>,
    /// Prices at which another way to build costs the same; given for the best option only.
    pub break_even: Vec<BreakEven>,
    /// Figures under the grown load; null without growth.
    pub predicted_when_grown: Option<BTreeMap<String, Value>>,
    /// Lifetime of each flash drive.
    pub lifetime: Vec<Life>,
    /// The `bimetal create` line that builds the option, with SSD, HDD and LOG for the drives'
    /// paths. Null for a scheme that is only simulated.
    pub create_command: Option<String>,
    /// Commands that set up the most similar function of Linux; empty if Linux has no similar
    /// function.
    pub kernel_commands: Vec<String>,
    /// Text that names the option, from [`name`].
    #[serde(skip)]
    pub name: String,
}

/// An option that is not the best.
#[derive(Clone, Debug, Serialize)]
pub struct Rejected {
    /// The option.
    #[serde(flatten)]
    pub option: Described,
    /// Reason for which the option is not the best.
    pub reason: String,
}

/// Number of options and runs, time and memory that a plan needed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Effort {
    /// Number of options in the grid.
    pub options: u64,
    /// Number of runs, including runs that were stopped.
    pub simulations: u64,
    /// Wall-clock time in seconds.
    pub wall_s: f64,
    /// Largest amount of memory that the process held.
    pub peak_rss_bytes: Option<u64>,
}

impl Closest {
    /// Describes `tried`, which breaks some of `budgets`; `None` if its figures are unknown.
    pub(crate) fn of(tried: &Tried, budgets: &[Budget], block: BlockSize) -> Option<Self> {
        let broken = closest::broken(tried.figures()?, budgets);
        let relax = broken.iter().filter(|broken| broken.has_figure()).map(closest::Broken::relaxed).collect();
        let (option, times_over) = (Described::of(tried, budgets, block), closest::off(&broken).times());
        Some(Self { option, relax, times_over, reason: tried.reasons.join("; ") })
    }

    /// Returns the budgets to relax. An option that keeps all budgets, but is not proven, has the
    /// reason instead.
    pub fn advice(&self) -> String {
        if self.relax.is_empty() { self.reason.clone() } else { format!("relax {}", self.relax.join(", ")) }
    }
}

impl Described {
    /// Returns the cost of owning the option, and the probability that it loses data, as a line;
    /// `None` if neither is known.
    pub fn ownership(&self) -> Option<String> {
        let most = self.usd_per_year_most.zip(self.usd_per_year).filter(|(most, usd)| price(*most) != price(*usd));
        let most = most.map_or_else(String::new, |(most, _)| format!(" to {}", price(most)));
        let cost = self.usd_per_year.map(|usd| format!("{}{most} a year (drives, successors, energy)", price(usd)));
        let loss = self
            .loss_probability_per_year
            .map(|loss| format!("chance of losing data {} % a year", significant(loss * 100.0, 2)));
        let parts: Vec<String> = [cost, loss].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("own: {}", parts.join(", ")))
    }

    /// Describes `tried`, whose volume has blocks of size `block`.
    pub fn of(tried: &Tried, budgets: &[Budget], block: BlockSize) -> Self {
        let Tried { candidate, .. } = tried;
        let figures = tried.figures();
        let confidence = figures.and_then(|figures| figures.confidence.as_deref());
        let cost = figures.map(|figures| figures.run().cost).unwrap_or_default();
        let (ssd, hdd) = (candidate.drive(Role::Ssd), candidate.drive(Role::Hdd));
        let log = candidate.drive(Role::Log).map(|log| format!("{}:{}", log.model, log.size));
        Self {
            ssd: ssd.map(|ssd| ssd.model.clone()),
            ssd_bytes: ssd.map(|ssd| ssd.size.0),
            ssd_drives: ssd.map(|ssd| ssd.drives),
            hdd: hdd.map(|hdd| hdd.model.clone()),
            hdd_bytes: hdd.map(|hdd| hdd.size.0),
            hdd_drives: hdd.map(|hdd| hdd.drives),
            log,
            scheme: candidate.scheme.name.to_owned(),
            settings: settings_of(candidate, figures),
            cost_usd: candidate.cost_usd,
            usd_per_year: cost.usd_per_year,
            usd_per_year_most: figures.and_then(Figures::usd_per_year_most),
            loss_probability_per_year: cost.loss_probability_per_year,
            embodied_carbon_kg: cost.embodied_carbon_kg,
            predicted: figures.map(|figures| predicted(figures, budgets)).unwrap_or_default(),
            predicted_range: figures.map(|figures| ranges(figures, budgets)).unwrap_or_default(),
            kept_in_windows: confidence.map(kept_in_windows).unwrap_or_default(),
            proven: tried.is_proven(),
            needs_volatile_cache: tried.needs(Variation::ForcedWrites),
            needs_data_together: tried.needs(Variation::Spread),
            break_even: Vec::new(),
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

/// Returns the finding that the function of Linux that is most similar to `scheme` breaks budgets.
pub(crate) fn linux_breaks_budgets(broken: &kernel::BrokenInLinux, scheme: &str) -> Finding {
    Finding {
        id: "similar-in-linux-breaks-budgets".to_owned(),
        severity: "note".to_owned(),
        text: format!(
            "The function of Linux that is most similar to {scheme} is not a replacement: on the same drives, {}'s {}.",
            broken.model,
            broken.reasons.join("; ")
        ),
        remedy: None,
        share: None,
    }
}

/// Returns the finding that newer prices of drives for sale differ from the prices of the
/// catalogue, whose oldest price is of `oldest`; `None` if no newer price is known.
pub(crate) fn prices_have_changed(oldest: &str, kinds: &[Kind]) -> Option<Finding> {
    let date = oldest.parse().ok()?;
    let told: Vec<String> = kinds.iter().filter_map(|&kind| Some(rise(kind, date)?.told(kind))).collect();
    (!told.is_empty()).then(|| Finding {
        id: "prices-have-changed".to_owned(),
        severity: "warning".to_owned(),
        text: format!("The prices are old: {}.", told.join("; ")),
        remedy: Some("`bimetal catalog import` takes prices of your own".to_owned()),
        share: None,
    })
}

/// Returns all parameters of the scheme.
fn settings_of(candidate: &Candidate, figures: Option<&Figures>) -> BTreeMap<String, String> {
    let of_run = figures.map(|figures| &figures.run().settings).filter(|settings| !settings.is_empty());
    of_run.cloned().unwrap_or_else(|| candidate.all_settings())
}

fn predicted(figures: &Figures, budgets: &[Budget]) -> BTreeMap<String, Value> {
    let limited = budgets.iter().filter_map(|budget| match &budget.metric {
        Metric::Path(path) | Metric::Ownership(path) => Some(path.as_str()),
        _ => None,
    });
    let value = |path: &str| figures.value(path).cloned().unwrap_or(Value::Null);
    // Without the lifetimes in steady state, the figure of the run alone would mislead.
    let known = |path: &&str| {
        let of_life = ["devices.ssd.flash.lifetime_", "devices.ssd.flash.dwpd"];
        figures.lives.is_some() || !of_life.iter().any(|of_life| path.starts_with(of_life))
    };
    PREDICTED.into_iter().chain(limited).filter(known).map(|path| (path.to_owned(), value(path))).collect()
}

/// Path of the lifetime.
const LIFETIME: &str = "devices.ssd.flash.lifetime_years";

/// Returns the range of the lifetime and, if it was computed, of every budgeted figure of a run.
fn ranges(figures: &Figures, budgets: &[Budget]) -> BTreeMap<String, (Option<f64>, Option<f64>)> {
    let mut ranges = BTreeMap::new();
    for budget in budgets {
        let spread = figures.confidence.as_ref().and_then(|confidence| confidence.of(budget));
        if let (Metric::Path(path), Some(spread)) = (&budget.metric, spread) {
            ranges.insert(path.clone(), spread.range());
        }
    }
    if let (Some(least), most) = figures.life_range() {
        let finite = |years: Option<f64>| years.filter(|years| years.is_finite());
        ranges.insert(LIFETIME.to_owned(), (finite(Some(least)), finite(most)));
    }
    ranges
}

fn kept_in_windows(confidence: &Confidence) -> BTreeMap<String, (u64, u64)> {
    let kept = confidence.budgets.iter().filter_map(|spread| Some((spread.budget.clone(), spread.kept_in_windows?)));
    kept.collect()
}

/// Returns scheme, parameters that are not at their defaults, drives and price:
/// `griffin (timeout=225s) on MODEL 500 GB and MODEL 1 TB for $212`.
pub fn name(candidate: &Candidate) -> String {
    let settings: Vec<String> = candidate.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let settings = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
    let bought = |offer: &Offer| counted(offer.drives, without_size(&offer.model), offer.bought.0);
    let drive = |role| candidate.drive(role).map(bought);
    let drives: Vec<String> = [Role::Ssd, Role::Log, Role::Hdd].into_iter().filter_map(drive).collect();
    let (scheme, drives) = (candidate.scheme.name, drives.join(" and "));
    format!("{scheme}{settings} on {drives} for {}", price(candidate.cost_usd))
}

/// Returns what is bought of a model with price and date, like `4 × crucial-p310 2 TB ($448,
/// 2025-07-23)`: a number of drives that have `bytes` together. An unknown date is empty. A newer
/// price of this size that is known is named, too.
pub fn purchase(model: &str, drives: u64, bytes: u64, usd: f64, date: &str) -> String {
    let newer = date.parse().ok().and_then(|date| newer_price(model, bytes / drives.max(1), date));
    let newer = newer.map(|(each, date)| format!("; {} on {date}", price(each * drives as f64)));
    let date = if date.is_empty() { String::new() } else { format!(", {date}") };
    format!("{} ({}{date}{})", counted(drives, without_size(model), bytes), price(usd), newer.unwrap_or_default())
}

/// Returns the drives of an option with price and date: `samsung-990-pro 1 TB ($218, 2026-02) and
/// seagate-exos-x18 18 TB ($290, 2025-07)`.
pub fn purchases(candidate: &Candidate) -> String {
    let of_role = |role| candidate.drives.iter().filter(move |(own, _)| *own == role).map(|(_, offer)| offer);
    let mut bought: Vec<(&Offer, u64)> = Vec::new();
    // An array has several members with one role.
    for offer in [Role::Ssd, Role::Log, Role::Hdd].into_iter().flat_map(of_role) {
        let is_same =
            |known: &Offer| (&known.model, known.bought, known.drives) == (&offer.model, offer.bought, offer.drives);
        match bought.iter_mut().find(|(known, _)| is_same(known)) {
            Some((_, count)) => *count += 1,
            None => bought.push((offer, 1)),
        }
    }
    let text = bought.into_iter().map(|(Offer { model, drives, bought, usd, date, .. }, count)| {
        purchase(model, drives * count, bought.0 * count, usd * count as f64, date)
    });
    text.collect::<Vec<_>>().join(" and ")
}

/// Returns `name` and size of what is bought: `MODEL 1 TB`, or `4 × MODEL 2 TB`.
pub fn counted(drives: u64, name: &str, bytes: u64) -> String {
    format!("{}{name} {}", count(drives), decimal(bytes / drives.max(1)))
}

/// Returns the number of drives that are used as one, in front of one drive: `4 × `.
fn count(drives: u64) -> String {
    if drives > 1 { format!("{drives} × ") } else { String::new() }
}

/// Returns a model's name without the size at its end: an option has its own, and
/// `samsung-970-evo-plus-500gb 250 GB` names two.
pub fn without_size(model: &str) -> &str {
    let is_size = |part: &str| part.ends_with(['b', 'B']) && part.to_uppercase().parse::<Bytes>().is_ok();
    model.rsplit_once(['-', ' ']).filter(|(_, last)| is_size(last)).map_or(model, |(rest, _)| rest)
}

/// Returns an option as a sentence with the ranges of its figures, and the verdict on its budgets:
/// `500 GB TLC (MODEL), griffin, p99 3.1 ms (0.6 to 10), life 0.9 to 3.8 years, $212: not proven`.
pub fn sentence(tried: &Tried, budget: &Budget) -> String {
    let verdict = verdict(tried).map_or_else(String::new, |verdict| format!(": {verdict}"));
    without_verdict(tried, budget) + &verdict
}

fn without_verdict(tried: &Tried, budget: &Budget) -> String {
    let candidate = &tried.candidate;
    let flash = |role: Role| {
        let offer = candidate.drive(role).filter(|offer| offer.cell.is_some())?;
        let log = if role == Role::Log { " log" } else { "" };
        let (each, cell) = (decimal(offer.each().0), offer.cell.as_deref().unwrap_or_default());
        Some(format!("{}{each} {cell}{log} ({})", count(offer.drives), without_size(&offer.model)))
    };
    let mut parts: Vec<String> = [Role::Ssd, Role::Log].into_iter().filter_map(flash).collect();
    if parts.is_empty() {
        parts.extend(candidate.drives.first().map(|(_, offer)| disk_of(offer)));
    }
    parts.push(candidate.scheme.name.to_owned());
    parts.extend(candidate.settings.iter().map(|(key, value)| format!("{key}={value}")));
    if let Some(figures) = tried.figures() {
        let spread = figures.confidence.as_ref().and_then(|confidence| confidence.of(budget));
        let ends = spread.map(Spread::range).and_then(|(least, most)| least.zip(most));
        let ends = ends.map(|(least, most)| format!(" ({} to {})", significant(least, 2), significant(most, 2)));
        let shown = budget.show(figures.predicted(budget));
        parts.push(format!("{} {shown}{}", budget.name(), ends.unwrap_or_default()));
        // A mean hides the slow requests.
        let tail = figures.at("response_time_ms.all.p99").filter(|_| budget.name() == "mean");
        parts.extend(tail.map(|tail| format!("p99 {} ms", short(tail))));
        if figures.lives.as_ref().is_some_and(|lives| !lives.is_empty()) {
            parts.push(life(figures));
        }
    }
    parts.push(price(candidate.cost_usd));
    parts.join(", ")
}

/// Returns a disk in words: `2 × 4 TB disk (MODEL)`.
pub(crate) fn disk_of(offer: &Offer) -> String {
    format!("{}{} disk ({})", count(offer.drives), decimal(offer.each().0), without_size(&offer.model))
}

/// Returns the verdict on the budgets of an option; `None` if it was not proved.
pub fn verdict(tried: &Tried) -> Option<String> {
    let refuted = || (tried.is_proven() == Some(false)).then(|| NOT_PROVEN.to_owned());
    confidence_in(tried).map(Confidence::verdict).or_else(refuted)
}

/// Returns the verdict with each budget that is not proven, and the reason.
fn explained(tried: &Tried) -> Option<String> {
    let refuted = || Some(format!("{NOT_PROVEN} ({})", tried.figures()?.refuted.as_ref()?.0));
    confidence_in(tried).map(Confidence::explained).or_else(refuted)
}

/// Returns the confidence in an option; `None` if there is nothing to be sure of.
fn confidence_in(tried: &Tried) -> Option<&Confidence> {
    let confidence = tried.figures()?.confidence.as_deref();
    confidence.filter(|confidence| !confidence.budgets.is_empty() || !confidence.proven)
}

impl Planned {
    /// Returns the best option as a sentence, with its verdict; `None` if no option keeps the
    /// budgets. Budgets that are kept by a trace of a faster device are kept as recorded: a host
    /// that waits for its reads sends its requests at other times.
    pub fn headline(&self) -> Option<String> {
        let best = self.tried.first().filter(|_| self.kept > 0)?;
        let is_of_faster = self.answer.findings.iter().any(|finding| finding.id == FASTER_DEVICE);
        let verdict = explained(best).map(|verdict| match verdict.strip_prefix("kept").filter(|_| is_of_faster) {
            Some(rest) => format!(": kept as recorded{rest}; a host that waits for its reads may change it"),
            None => format!(": {verdict}"),
        });
        Some(without_verdict(best, &self.latency) + &verdict.unwrap_or_default())
    }
}

/// Returns the life of an option's flash: `life 0.9 to 3.8 years`.
fn life(figures: &Figures) -> String {
    let (Some(least), Some(most)) = figures.life_range() else {
        return "life ? (needs times)".to_owned();
    };
    match (short_years(least), short_years(most)) {
        _ if least.is_infinite() => "flash unlimited (nothing is erased)".to_owned(),
        (least, _) if most.is_infinite() => format!("life {least} years or more"),
        (least, most) if least == most => format!("life {least} years"),
        (least, most) => format!("life {least} to {most} years"),
    }
}

/// Share of a figure by which options on the Pareto front must differ: nobody would notice less.
const NOTICED: f64 = 0.01;

/// Returns the Pareto front of `tried`, the cheapest first: no other option of the front is at
/// least as good in cost, latency, lifetime and energy at once. Figures within 1 % are equal, and
/// so are lives beyond [`YEARS_MAX`]; the prices are exact.
pub fn pareto<'t>(tried: &[&'t Tried], latency: &Budget) -> Vec<&'t Tried> {
    let key = |tried: &Tried| {
        let figures = tried.figures();
        let value = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
        [
            tried.candidate.cost_usd,
            value(figures.and_then(|figures| figures.of(latency))),
            -figures.and_then(Figures::life_years).unwrap_or(0.0).min(YEARS_MAX),
            value(figures.and_then(|figures| figures.energy_j)),
        ]
    };
    let keys: Vec<[f64; 4]> = tried.iter().map(|tried| key(tried)).collect();
    let is_near = |one: f64, other: f64| one <= other || one - other <= NOTICED * other.abs();
    let beats = |one: &[f64; 4], other: &[f64; 4]| {
        one[0] <= other[0] && one[1..].iter().zip(&other[1..]).all(|(one, other)| is_near(*one, *other))
    };
    let mut order: Vec<usize> = (0..tried.len()).collect();
    order.sort_by(|&one, &other| keys[one][0].total_cmp(&keys[other][0]).then(keys[one][1].total_cmp(&keys[other][1])));
    // Options that are nearly equal can beat each other in a circle. So each option is compared
    // with those that are on the front so far, and the front is never empty.
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        if !front.iter().any(|&rival| beats(&keys[rival], &keys[index])) {
            front.retain(|&rival| !beats(&keys[index], &keys[rival]));
            front.push(index);
        }
    }
    front.into_iter().map(|index| tried[index]).collect()
}

#[cfg(test)]
mod tests {
    use bimetal_core::schemes;
    use bimetal_sim::results::Run;

    use super::*;
    use crate::evaluate::Outcome;

    fn option(index: usize, cost_usd: f64, mean_ms: f64, joules: f64) -> Tried {
        let mut run = Run::named("hdd-only");
        run.response_time_ms.all.mean = Some(mean_ms);
        let figures = Figures { energy_j: Some(joules), ..Figures::of_run(run) };
        let scheme = schemes::find("hdd-only").unwrap();
        let candidate = Candidate { index, variant: 0, scheme, drives: Vec::new(), settings: Vec::new(), cost_usd };
        Tried { candidate, outcome: Some(Outcome::Done(Box::new(figures))), reasons: Vec::new(), judged: true }
    }

    /// A disk for $105 stood beside a disk for $100 among the options that nothing beats: it used
    /// 0.01 % less energy.
    #[test]
    fn gain_that_nobody_notices_is_not_on_the_front() {
        let options = [
            option(0, 105.0, 15.3, 3334.6),
            option(1, 100.0, 15.24, 3335.0),
            option(2, 100.0, 15.25, 3330.0),
            option(3, 112.0, 0.11, 3335.0),
        ];
        let mean = Budget::parse("mean<1s").unwrap();
        let front = pareto(&options.iter().collect::<Vec<_>>(), &mean);
        assert_eq!(front.iter().map(|tried| tried.candidate.index).collect::<Vec<_>>(), [1, 3]);
    }

    /// Three options that were nearly equal beat each other in a circle, and none was left.
    #[test]
    fn front_of_nearly_equal_options_is_not_empty() {
        let options =
            [(100.0, 102.0), (102.0, 101.0), (101.0, 100.0)].map(|(mean, joules)| option(0, 100.0, mean, joules));
        let front = pareto(&options.iter().collect::<Vec<_>>(), &Budget::parse("mean<1s").unwrap());
        assert_eq!(front.len(), 1);
    }

    /// A plan said "buy: seagate-exos-x24 24 TB ($480, 2025-07-23)", and the catalogue had $1,080
    /// of a year later.
    #[test]
    fn newer_price_is_named_beside_the_price_that_counts() {
        let bought = |date| purchase("seagate-exos-x24-24tb", 2, 48_000_000_000_000, 960.0, date);
        assert_eq!(bought("2025-07-23"), "2 × seagate-exos-x24 24 TB ($960, 2025-07-23; $2160 on 2026-09-24)");
        assert_eq!(bought("2026-10-01"), "2 × seagate-exos-x24 24 TB ($960, 2026-10-01)");
        assert_eq!(bought(""), "2 × seagate-exos-x24 24 TB ($960)");
    }

    #[test]
    fn name_of_a_drive_has_one_size() {
        for (model, name) in [
            ("samsung-970-evo-plus-500gb", "samsung-970-evo-plus"),
            ("seagate-barracuda-7200.12-1tb", "seagate-barracuda-7200.12"),
            ("aws-gp3", "aws-gp3"),
            ("disksim-atlas10k", "disksim-atlas10k"),
            ("drives/shop.toml", "drives/shop.toml"),
        ] {
            assert_eq!(without_size(model), name);
        }
    }
}
