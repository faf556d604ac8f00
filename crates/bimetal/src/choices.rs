//! The choices of a comparison that no other run beats: the first answer, on the terminal and on
//! the page.
//!
//! A run is beaten if a run that costs no more is as fast and its SSD lasts as long. Speed is the
//! 99th percentile of the response times, or their mean. A gain counts from [`GAIN`] on, as in a
//! plan, and if it is larger than the ± of both figures. A life is longer if its shortest possible
//! years exceed those of the other life by a gain, and its longest are no fewer. No life beyond ten
//! years counts. A run whose figures hold for the trace, but would mislead a buyer, is not offered
//! as a choice ([`NoChoice`]).

use std::fmt;

use bimetal_core::schemes;
use bimetal_core::units::significant;
use bimetal_measure::text::{dollars, lifetime, milliseconds, milliseconds_with_half, three_digits};
use bimetal_models::cloud::RENT_YEARS;
use bimetal_plan::alternatives::{self, CHEAPER, GAIN, YEARS_MAX, is_longer};
use bimetal_plan::answer;
use bimetal_sim::findings::NoChoice;
use bimetal_sim::lifetime::Unknown;
use bimetal_sim::results::{CheaperRun, ChosenRun, Member, Run};
use bimetal_sim::setup::Sizing;
use bimetal_sim::uncertainty::differ;

use crate::life::until;

/// Runs of a comparison, sorted into those that no other run beats and all others.
pub(crate) struct Choices {
    /// Choices that no other run beats, cheapest first.
    pub(crate) best: Vec<Choice>,
    /// Run that is surely cheaper to own than the choice that is the cheapest to buy.
    pub(crate) cheaper_to_own: Option<CheaperToOwn>,
    /// Indices of the runs that gain nothing over the choices that cost no more.
    pub(crate) beaten: Vec<usize>,
    /// Indices of the runs that are not choices, with the reason.
    pub(crate) unsure: Vec<(usize, NoChoice)>,
}

/// Run that costs less a year than the run that is the cheapest to buy.
pub(crate) struct CheaperToOwn {
    /// Number of the run.
    pub(crate) run: usize,
    /// Cost of a year of both runs.
    pub(crate) gain: String,
}

/// Ratio of the longest possible life to the shortest from which on both are printed.
const WIDE: f64 = 1.05;

/// Gains that count, in words.
const RULE: &str = "a gain of less than 20 % or 0.05 ms, or within ±, counts as none";

/// Beginning of the text about the drives to buy.
const BUY: &str = "buy ";
/// Word before the drives of a choice that are all rented.
const RENT: &str = "rent ";
/// Remark on choices between schemes over the same drives.
pub(crate) const OTHER_DRIVES: &str =
    "all runs use one model of SSD and of HDD; bimetal plan chooses among drives on sale, and may find cheaper ones";

/// A choice that no other run beats.
pub(crate) struct Choice {
    /// Number of the run.
    pub(crate) run: usize,
    /// Purpose of the choice.
    pub(crate) purpose: Purpose,
    /// Price, speed, life of the SSD and capacity.
    pub(crate) figures: String,
    /// Drives to buy, cost of a year, and probability of a loss of data; empty if nothing of these
    /// is known.
    pub(crate) buy: String,
    /// Summary of the scheme; empty for a tree.
    pub(crate) scheme: &'static str,
}

/// Figures in which a choice is better than every choice that costs no more; none for the cheapest.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Purpose {
    /// The p99 is below this value, in milliseconds.
    p99_below_ms: Option<f64>,
    /// The mean is below this value, in milliseconds.
    mean_below_ms: Option<f64>,
    /// The SSD surely lasts longer than this value.
    outlasts_years: Option<f64>,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p99 = self.p99_below_ms.map(|ms| format!("a p99 below {}", milliseconds(ms)));
        let mean = self.mean_below_ms.map(|ms| format!("a mean below {}", milliseconds(ms)));
        let life = self.outlasts_years.map(|years| format!("an SSD that surely lasts longer than {}", lifetime(years)));
        let limits: Vec<String> = [p99, mean, life].into_iter().flatten().collect();
        match limits.is_empty() {
            true => f.write_str("the cheapest"),
            false => write!(f, "for {}", limits.join(" and ")),
        }
    }
}

/// A run that costs no more than the run that is judged.
struct Cheaper {
    merits: Merits,
    is_choice: bool,
}

/// Figure in which a run can be better than a cheaper run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merit {
    /// 99th percentile of the response times.
    P99,
    /// Mean of the response times.
    Mean,
    /// Life of the SSD.
    Life,
}

/// Figures by which runs are compared.
#[derive(Clone, Copy)]
struct Merits {
    usd: f64,
    /// 99th percentile of the response times in milliseconds, with half its 95 % interval.
    p99: (f64, Option<f64>),
    /// Mean of the response times in milliseconds, with half its 95 % interval.
    mean: Option<(f64, Option<f64>)>,
    /// Years that the SSD lasts, from the shortest life that the trace leaves possible to the
    /// longest, each at most [`YEARS_MAX`]; [`YEARS_MAX`] for a run without an SSD, or if no life
    /// of this comparison counts.
    years: (f64, f64),
    has_ssd: bool,
}

impl Choices {
    /// Returns the choices among `runs`; `None` if all runs may be choices, and at most one has a
    /// price and a speed. With `today`, a year with its fraction, a life has the year of its end.
    pub(crate) fn of(runs: &[Run], today: Option<f64>) -> Option<Self> {
        let why_not = |run: &Run| run.no_choice.or_else(|| NoChoice::of_price(run));
        let is_life_known = |run: &Run| {
            let flash = &run.devices.ssd.flash;
            run.ssd.is_none() || flash.possible_years().is_some() || flash.lifetime_unknown == Some(Unknown::Rented)
        };
        let lives_count = runs.iter().filter(|run| why_not(run).is_none()).all(is_life_known);
        let merits = |run: &Run| {
            let years =
                run.devices.ssd.flash.possible_years().filter(|_| lives_count).unwrap_or((YEARS_MAX, YEARS_MAX));
            let years = (years.0.min(YEARS_MAX), years.1.min(YEARS_MAX));
            let all = &run.response_time_ms.all;
            let (usd, p99) = (run.cost.total_usd?, (all.p99?, all.p99_pm));
            let mean = all.mean.map(|mean| (mean, all.mean_pm));
            Some(Merits { usd, p99, mean, years, has_ssd: run.ssd.is_some() })
        };
        let unsure: Vec<(usize, NoChoice)> =
            runs.iter().enumerate().filter_map(|(at, run)| Some((at, why_not(run)?))).collect();
        let sure = (0..runs.len()).filter(|at| unsure.iter().all(|(other, _)| other != at));
        let mut order: Vec<(usize, Merits)> = sure.filter_map(|at| Some((at, merits(&runs[at])?))).collect();
        let all: Vec<Merits> = order.iter().map(|(_, own)| *own).collect();
        let beaten_by = |own: &Merits| all.iter().filter(|other| other.usd == own.usd && other.is_better(own)).count();
        order.sort_by(|(_, a), (_, b)| {
            let by_merit = beaten_by(a).cmp(&beaten_by(b));
            let by_figures = a.p99.0.total_cmp(&b.p99.0).then(b.years.0.total_cmp(&a.years.0));
            a.usd.total_cmp(&b.usd).then(by_merit).then(by_figures)
        });
        if order.len() < 2 && unsure.is_empty() {
            return None;
        }
        let own: Vec<usize> = order.iter().map(|(run, _)| *run).collect();
        let cheaper_to_own = cheaper_to_own(runs, &own);
        let mut choices = Self { best: Vec::new(), cheaper_to_own, beaten: Vec::new(), unsure };
        let mut cheaper: Vec<Cheaper> = Vec::new();
        for (run, own) in order {
            let purpose = own.purpose_beside(&cheaper);
            cheaper.push(Cheaper { merits: own, is_choice: purpose.is_some() });
            match purpose {
                Some(purpose) => {
                    let figures = own.in_words(&runs[run], today);
                    let scheme = schemes::find(&runs[run].scheme).map_or("", |info| info.summary);
                    choices.best.push(Choice { run, purpose, figures, buy: buy(&runs[run]), scheme });
                }
                None => choices.beaten.push(run),
            }
        }
        choices.beaten.sort_unstable();
        Some(choices)
    }

    /// Returns the choices as lines for a terminal.
    pub(crate) fn lines(&self, name: impl Fn(usize) -> String) -> String {
        let names: Vec<String> = self.best.iter().map(|choice| name(choice.run)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut text = match self.best.is_empty() {
            true => "what to choose: no run is a choice\n".to_owned(),
            false => format!("what to choose ({RULE}):\n"),
        };
        for (Choice { purpose, figures, buy, scheme, .. }, name) in self.best.iter().zip(names) {
            text += &format!("  {name:width$}  {purpose}: {figures}\n");
            for line in [scheme, buy.as_str()].into_iter().filter(|line| !line.is_empty()) {
                text += &format!("  {:width$}  {line}\n", "");
            }
        }
        if let Some(CheaperToOwn { run, gain }) = &self.cheaper_to_own {
            text += &format!("  {gain}: {}\n", name(*run));
        }
        if !self.beaten.is_empty() {
            let beaten: Vec<String> = self.beaten.iter().map(|&run| name(run)).collect();
            text += &format!("  nothing is gained by {}\n", beaten.join(", "));
        }
        for (reason, runs) in self.no_choices() {
            let names: Vec<String> = runs.into_iter().map(&name).collect();
            text += &format!("  no choice, because {}: {}\n", reason.words(), names.join(", "));
        }
        if self.names_purchases() {
            text += &format!("  {OTHER_DRIVES}\n");
        }
        text
    }

    /// Returns the choices among `runs` as the document has them.
    pub(crate) fn as_data(&self, runs: &[Run]) -> Vec<ChosenRun> {
        let data = |Choice { run, purpose, .. }: &Choice| ChosenRun {
            run: *run,
            label: runs[*run].label.clone(),
            purpose: purpose.to_string(),
            p99_below_ms: purpose.p99_below_ms,
            mean_below_ms: purpose.mean_below_ms,
            outlasts_years: purpose.outlasts_years,
        };
        self.best.iter().map(data).collect()
    }

    /// Returns the run that is cheaper to own as the document has it.
    pub(crate) fn cheaper_as_data(&self, runs: &[Run]) -> Option<CheaperRun> {
        let run = self.cheaper_to_own.as_ref()?.run;
        Some(CheaperRun { run, label: runs[run].label.clone() })
    }

    /// Returns true if a choice names drives to buy.
    pub(crate) fn names_purchases(&self) -> bool {
        self.best.iter().any(|choice| [BUY, RENT].iter().any(|verb| choice.buy.starts_with(verb)))
    }

    /// Returns each reason for which runs are not choices, with these runs.
    pub(crate) fn no_choices(&self) -> Vec<(NoChoice, Vec<usize>)> {
        let of = |reason| self.unsure.iter().filter(move |(_, other)| *other == reason).map(|(run, _)| *run);
        let all = NoChoice::ALL.into_iter().map(|reason| (reason, of(reason).collect::<Vec<usize>>()));
        all.filter(|(_, runs)| !runs.is_empty()).collect()
    }
}

impl Merits {
    /// Returns the purpose for which this run is a choice beside the runs that cost no more; `None`
    /// if this run is not a choice. Each cheaper run must be worse in a figure of the purpose, and
    /// each cheaper choice by a gain that counts. Of several possible purposes, the purpose with
    /// the fewest figures is returned.
    fn purpose_beside(&self, cheaper: &[Cheaper]) -> Option<Purpose> {
        if cheaper.is_empty() {
            return Some(Purpose::default());
        }
        let all = [Merit::P99, Merit::Mean, Merit::Life];
        let sets = [&all[..1], &all[1..2], &all[2..], &all[..2], &[Merit::P99, Merit::Life], &all[1..], &all];
        let (merits, beaten) = sets.into_iter().find_map(|merits| {
            let first = |other: &Cheaper| merits.iter().copied().find(|merit| self.beats(other, *merit));
            let beaten = cheaper.iter().map(|other| Some((first(other)?, other))).collect::<Option<Vec<_>>>()?;
            // A figure in which this run beats no choice is no purpose.
            let counts = |merit: &Merit| beaten.iter().any(|(by, other)| by == merit && other.is_choice);
            merits.iter().all(counts).then_some((merits, beaten))
        })?;
        let of = |merit: Merit| beaten.iter().filter(move |(by, _)| *by == merit).map(|(_, other)| &other.merits);
        let least = |merit: Merit, figure: fn(&Self) -> f64| of(merit).map(figure).min_by(f64::total_cmp);
        let mean = |other: &Self| other.mean.map_or(f64::INFINITY, |(mean, _)| mean);
        let longest = || of(Merit::Life).map(|other| other.years.0).max_by(f64::total_cmp);
        let if_it_counts =
            |merit: Merit, limit: &dyn Fn() -> Option<f64>| merits.contains(&merit).then(limit).flatten();
        Some(Purpose {
            p99_below_ms: if_it_counts(Merit::P99, &|| least(Merit::P99, |other| other.p99.0)),
            mean_below_ms: if_it_counts(Merit::Mean, &|| least(Merit::Mean, mean)),
            outlasts_years: if_it_counts(Merit::Life, &longest),
        })
    }

    /// Returns true if this run is better than `other` in a figure, and worse in none, by gains
    /// that count.
    fn is_better(&self, other: &Self) -> bool {
        let gains = |own: &Self, other: &Self| {
            let other = Cheaper { merits: *other, is_choice: true };
            [Merit::P99, Merit::Mean, Merit::Life].into_iter().any(|merit| own.beats(&other, merit))
        };
        gains(self, other) && !gains(other, self)
    }

    /// Returns true if this run is better than a cheaper run in one figure: than a choice by a gain
    /// that counts.
    fn beats(&self, Cheaper { merits: other, is_choice }: &Cheaper, merit: Merit) -> bool {
        let is_lower = |own: (f64, Option<f64>), other: (f64, Option<f64>)| match is_choice {
            true => is_gain(own, other),
            false => own.0 < other.0 && milliseconds(own.0) != milliseconds(other.0),
        };
        match merit {
            Merit::P99 => is_lower(self.p99, other.p99),
            Merit::Mean => self.mean.zip(other.mean).is_some_and(|(own, other)| is_lower(own, other)),
            // A dearer disk without an SSD serves nobody who asks for an SSD that lasts.
            Merit::Life => self.has_ssd && is_longer(self.years, other.years, if *is_choice { GAIN } else { 0.0 }),
        }
    }

    fn in_words(&self, run: &Run, today: Option<f64>) -> String {
        let mut text = format!("${}", dollars(self.usd));
        for (name, figure) in [("mean", self.mean), ("p99", Some(self.p99))] {
            let shown = figure.map(|(value, half)| milliseconds_with_half(value, half));
            text += &shown.map_or_else(String::new, |shown| format!(", {name} {shown}"));
        }
        if let Some((least, most)) = run.devices.ssd.flash.possible_years() {
            let end = today.map_or_else(String::new, |today| until(least, today));
            let (shortest, longest) = (lifetime(least), lifetime(most));
            let is_wide = least * WIDE < most && shortest != longest;
            let from = if is_wide { format!("{shortest} to ") } else { String::new() };
            text += &format!(", the SSD lasts {from}{longest}{end}");
        }
        if run.exported_bytes > 0 {
            text += &format!(", holds {}", capacity(run.exported_bytes));
        }
        text
    }
}

/// Returns true if a response time is lower than another by a gain that counts. Each has half its
/// 95 % interval, if it is known.
fn is_gain(own: (f64, Option<f64>), other: (f64, Option<f64>)) -> bool {
    alternatives::is_gain(own.0, other.0) && differ(own, other)
}

/// Returns the drives to buy with prices and dates, the cost of a year of ownership, and the
/// probability that data are lost in a year.
fn buy(run: &Run) -> String {
    let drives: Vec<String> = run.members.iter().filter_map(purchase).collect();
    let drives = (run.sizing == Sizing::Sold && !drives.is_empty() && drives.len() == run.members.len())
        .then(|| format!("{}{}", if run.members.iter().all(is_rented) { RENT } else { BUY }, drives.join(" and ")));
    let year = cost_of_a_year(run).map(|usd| format!("{usd} a year"));
    let loss = run.cost.loss_probability_per_year;
    let loss = loss.map(|loss| format!("chance of losing data {} % a year", significant(loss * 100.0, 2)));
    [drives, year, loss].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns the run with the lowest cost of a year, if even its highest possible cost is well below
/// the lowest possible cost of the first of `order`, which is the cheapest to buy.
fn cheaper_to_own(runs: &[Run], order: &[usize]) -> Option<CheaperToOwn> {
    let most = |run: usize| runs[run].cost.usd_per_year_most.or(runs[run].cost.usd_per_year);
    let (first, others) = order.split_first()?;
    let costs = others.iter().filter_map(|&run| Some((run, most(run)?)));
    let (run, usd) = costs.min_by(|one, other| one.1.total_cmp(&other.1))?;
    let (own, instead) = (cost_of_a_year(&runs[run])?, cost_of_a_year(&runs[*first])?);
    let gain = format!("cheaper to own, {own} a year instead of {instead}");
    (usd < CHEAPER * runs[*first].cost.usd_per_year?).then_some(CheaperToOwn { run, gain })
}

/// Returns the cost of a year of ownership: `$107`, or `$107 to $640` if the trace leaves shorter
/// lives possible.
pub(crate) fn cost_of_a_year(run: &Run) -> Option<String> {
    let usd = run.cost.usd_per_year?;
    // Less than a per cent is no range.
    let most = run.cost.usd_per_year_most.filter(|most| *most > 1.01 * usd);
    let most = most.map_or_else(String::new, |most| format!(" to ${}", dollars(most)));
    Some(format!("${}{most}", dollars(usd)))
}

/// Returns a drive to buy, like `4 × crucial-p310 2 TB ($448, 2025-07-23)`.
fn purchase(member: &Member) -> Option<String> {
    let price = &member.provenance;
    let date = price.price_date.as_deref().unwrap_or_default();
    let date = if is_rented(member) { format!("rent of {RENT_YEARS} years, {date}") } else { date.to_owned() };
    Some(answer::purchase(&member.profile, member.drives, member.bought_bytes, price.price_usd?, &date))
}

/// Returns true if the price of a drive is the rent of [`RENT_YEARS`] years.
fn is_rented(member: &Member) -> bool {
    member.provenance.price_source.as_deref().is_some_and(|source| source.starts_with("rent of "))
}

/// Returns a capacity in the units in which drives are sold.
fn capacity(bytes: u64) -> String {
    let gb = bytes as f64 / 1e9;
    if gb < 999.5 { format!("{} GB", three_digits(gb)) } else { format!("{} TB", three_digits(gb / 1e3)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheme: &str, usd: f64, p99_ms: f64, years: Option<f64>) -> Run {
        let mut run = Run::named(scheme);
        (run.cost.total_usd, run.response_time_ms.all.p99) = (Some(usd), Some(p99_ms));
        run.ssd = years.map(|_| "p".into());
        run.devices.ssd.flash.lifetime_years = years;
        run.exported_bytes = 250_000_000_000;
        run
    }

    fn said(runs: &[Run]) -> String {
        Choices::of(runs, None).unwrap().lines(|at| runs[at].scheme.clone())
    }

    #[test]
    fn choice_serves_a_purpose_that_no_cheaper_one_serves() {
        let runs = [
            run("dear", 300.0, 4.0, Some(2.0)),
            run("flash", 90.0, 4.0, Some(2.0)),
            run("disk", 80.0, 900.0, None),
            run("lasting", 170.0, 40.0, Some(5.0)),
            run("hardly-faster", 100.0, 3.9, Some(2.05)),
        ];
        assert_eq!(
            said(&runs),
            "what to choose (a gain of less than 20 % or 0.05 ms, or within ±, counts as none):\n\
             \x20 disk     the cheapest: $80.00, p99 900 ms, holds 250 GB\n\
             \x20 flash    for a p99 below 900 ms: $90.00, p99 4.00 ms, the SSD lasts 2.00 y, holds 250 GB\n\
             \x20 lasting  for a p99 below 900 ms and an SSD that surely lasts longer than 2.05 y: $170, p99 40.0 ms, the SSD lasts 5.00 y, holds 250 GB\n\
             \x20 nothing is gained by dear, hardly-faster\n"
        );
    }

    /// Regression: a life of 0.4 to 3.3 years had the cost of a year with the longer life alone.
    #[test]
    fn cost_of_a_year_has_both_ends_of_the_life() {
        let mut griffin = run("griffin", 328.0, 4.0, Some(3.27));
        (griffin.cost.usd_per_year, griffin.cost.usd_per_year_most) = (Some(107.0), Some(640.0));
        assert_eq!(cost_of_a_year(&griffin).as_deref(), Some("$107 to $640"));
        griffin.cost.usd_per_year_most = Some(107.5);
        assert_eq!(cost_of_a_year(&griffin).as_deref(), Some("$107"));
    }

    /// A disk that fails often is the cheapest to buy, and dear to own.
    #[test]
    fn run_that_is_surely_cheaper_to_own_is_named() {
        let owned = |scheme: &str, usd: f64, year: f64, most: Option<f64>| {
            let mut run = run(scheme, usd, 4.0, None);
            (run.cost.usd_per_year, run.cost.usd_per_year_most) = (Some(year), most);
            run
        };
        let runs =
            [owned("disk", 50.0, 20.0, None), owned("flash", 60.0, 15.0, None), owned("cache", 90.0, 9.0, Some(17.0))];
        let text = said(&runs);
        assert!(text.contains("\n  cheaper to own, $15.00 a year instead of $20.00: flash\n"), "{text}");
        let text = said(&[owned("disk", 50.0, 20.0, None), owned("cache", 90.0, 9.0, Some(17.0))]);
        assert!(!text.contains("cheaper to own"), "$17 may be all of what is gained: {text}");
    }

    /// combo was the advice for 8 TB because a trace of 10 GB fitted into the SSD.
    #[test]
    fn scheme_that_hangs_on_unknown_addresses_is_no_choice() {
        let mut runs =
            [run("bcache", 90.0, 4.0, None), run("combo", 80.0, 1.0, None), run("hdd-only", 70.0, 9.0, None)];
        let sure = Choices::of(&runs, None).unwrap();
        assert_eq!(sure.best.iter().map(|choice| choice.run).collect::<Vec<_>>(), [2, 1]);
        runs[1].no_choice = Some(NoChoice::TooFewAddresses);
        let choices = Choices::of(&runs, None).unwrap();
        assert_eq!(choices.best.iter().map(|choice| choice.run).collect::<Vec<_>>(), [2, 0]);
        let data = choices.as_data(&runs);
        assert_eq!((data[0].run, data[0].purpose.as_str(), data[0].p99_below_ms), (2, "the cheapest", None));
        let fast = (data[1].run, data[1].purpose.as_str(), data[1].p99_below_ms, data[1].outlasts_years);
        assert_eq!(fast, (0, "for a p99 below 9.00 ms", Some(9.0), None));
        let text = choices.lines(|at| runs[at].scheme.clone());
        assert!(text.ends_with("touches too few addresses of the volume: combo\n"), "{text}");
    }

    /// Regression: a comparison of two runs, of which one was no choice, had no word about either.
    #[test]
    fn reason_is_given_even_if_one_choice_or_none_is_left() {
        let mut runs = [run("griffin", 90.0, 4.0, Some(99.0)), run("disk", 80.0, 9.0, None)];
        runs[0].no_choice = Some(NoChoice::NothingWrittenHome);
        assert!(said(&runs).contains("  disk  the cheapest: $80.00"), "{}", said(&runs));
        assert!(said(&runs).ends_with("of the timer): griffin\n"), "{}", said(&runs));
        runs[1].no_choice = Some(NoChoice::Saturated);
        assert!(said(&runs).starts_with("what to choose: no run is a choice\n  no choice, because"), "{}", said(&runs));
    }

    /// Regression: an SSD with a life of 6.2 to 7.9 years was beaten by a dearer drive with a life
    /// of 7.4 years, because the shorter ends were compared.
    #[test]
    fn life_within_the_range_of_a_cheaper_run_gains_nothing() {
        let mut runs = [run("flash", 45.0, 4.0, Some(7.85)), run("dear", 245.0, 4.0, Some(7.36))];
        runs[0].devices.ssd.flash.lifetime_range_years = Some((6.24, 7.85));
        assert_eq!(Choices::of(&runs, None).unwrap().beaten, [1]);
        runs[0].devices.ssd.flash.lifetime_range_years = Some((5.0, 6.5));
        runs[0].devices.ssd.flash.lifetime_years = Some(6.0);
        runs[1].devices.ssd.flash.lifetime_years = Some(8.0);
        assert!(said(&runs).contains("for an SSD that surely lasts longer than 5.00 y"), "{}", said(&runs));
    }

    /// Regression: a cache that its scheme hardly used was recommended for its long life, although
    /// the disk alone was as fast and cheaper.
    #[test]
    fn hybrid_no_faster_than_a_cheaper_disk_gains_nothing() {
        let runs = [
            run("flash", 45.0, 4.0, Some(1.0)),
            run("disk", 200.0, 5113.0, None),
            run("hybrid", 245.0, 5046.0, Some(9.0)),
        ];
        assert_eq!(Choices::of(&runs, None).unwrap().beaten, [1, 2]);
    }

    #[test]
    fn only_drives_on_sale_can_be_bought() {
        let mut run = crate::report::fixture::document().runs.remove(0);
        run.sizing = Sizing::Given;
        assert!(!buy(&run).contains("buy"), "{}", buy(&run));
        run.sizing = Sizing::Sold;
        assert!(buy(&run).starts_with("buy ssd-profile"), "{}", buy(&run));
    }

    /// A life of 505 years was praised that could as well be 9 days.
    #[test]
    fn shortest_possible_life_decides_and_is_printed() {
        let mut runs = [run("cheap", 80.0, 4.0, Some(5.0)), run("dear", 90.0, 4.0, Some(505.0))];
        runs[1].devices.ssd.flash.lifetime_range_years = Some((0.025, 505.0));
        assert!(said(&runs).ends_with("  nothing is gained by dear\n"), "{}", said(&runs));
        runs[0].response_time_ms.all.p99 = Some(40.0);
        assert!(said(&runs).contains("the SSD lasts 9.13 d to >100 y, holds"), "{}", said(&runs));
        // The year of the end is that of the shortest life, so this life is printed, too.
        runs[1].devices.ssd.flash.lifetime_range_years = Some((400.0, 505.0));
        assert!(said(&runs).contains("the SSD lasts >100 y, holds"), "{}", said(&runs));
    }

    /// Regression: a life of 29.7 to 40.4 years ended at 40.2, the figure in the middle.
    #[test]
    fn longest_possible_life_is_printed() {
        let mut runs = [run("disk", 80.0, 40.0, None), run("flash", 90.0, 4.0, Some(6.2))];
        runs[1].devices.ssd.flash.lifetime_range_years = Some((5.1, 7.4));
        assert!(said(&runs).contains("the SSD lasts 5.10 y to 7.40 y, holds"), "{}", said(&runs));
    }

    /// Two runs that are each better than the other by a little once could beat each other, so that
    /// none was left.
    #[test]
    fn one_of_two_equal_runs_stays() {
        let runs = [run("a", 90.0, 4.0, Some(2.0)), run("b", 90.0, 4.1, Some(2.05))];
        let choices = Choices::of(&runs, None).unwrap();
        assert_eq!((choices.best.len(), choices.best[0].run, &choices.beaten[..]), (1, 0, &[1][..]));
    }

    /// Regression: two runs whose tails differed only by luck were two choices, the more expensive
    /// run for its speed.
    #[test]
    fn gain_within_the_interval_is_no_choice() {
        let mut runs = [run("cheap", 80.0, 10.0, None), run("dear", 90.0, 8.0, None)];
        assert_eq!(Choices::of(&runs, None).unwrap().best.len(), 2);
        (runs[0].response_time_ms.all.p99_pm, runs[1].response_time_ms.all.p99_pm) = (Some(1.6), Some(1.6));
        let choices = Choices::of(&runs, None).unwrap();
        assert_eq!(choices.best.len(), 1);
        assert_eq!(choices.best[0].figures, "$80.00, p99 10.0 ± 2 ms, holds 250 GB");
        runs[0].response_time_ms.all.p99_pm = Some(0.5);
        assert_eq!(Choices::of(&runs, None).unwrap().best.len(), 2);
        (runs[1].response_time_ms.all.p99, runs[1].response_time_ms.all.p99_pm) = (Some(9.95), Some(0.0));
        runs[0].response_time_ms.all.p99_pm = Some(0.0);
        assert_eq!(Choices::of(&runs, None).unwrap().best.len(), 1, "half a percent, though certain");
    }

    /// Regression: a run that was faster than the only choice by 28 % was beaten by a run that was
    /// no choice, because its gains over both were compared with the same limit.
    #[test]
    fn chain_of_small_gains_hides_no_large_gain() {
        let runs = [run("a", 80.0, 10.0, None), run("b", 81.0, 8.5, None), run("c", 82.0, 7.2, None)];
        let choices = Choices::of(&runs, None).unwrap();
        assert_eq!((&choices.beaten[..], choices.best[1].run), (&[1][..], 2));
        assert_eq!(choices.best[1].purpose.to_string(), "for a p99 below 8.50 ms", "b keeps a limit of 9 ms for less");
    }

    /// Regression: a run with the best percentile and the best mean was beaten, because one cheaper
    /// run had the same percentile and another the same mean.
    #[test]
    fn run_that_is_good_in_both_figures_is_a_choice() {
        let mut runs = [run("a", 100.0, 10.0, None), run("b", 110.0, 100.0, None), run("c", 120.0, 10.0, None)];
        for (run, mean) in runs.iter_mut().zip([5.0, 1.0, 1.0]) {
            run.response_time_ms.all.mean = Some(mean);
        }
        let choices = Choices::of(&runs, None).unwrap();
        assert_eq!(choices.best.iter().map(|choice| choice.run).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(choices.best[2].purpose.to_string(), "for a p99 below 100 ms and a mean below 5.00 ms");
    }

    /// Regression: of two runs of one price, the one with the shorter tail was a choice, although
    /// its tail was shorter by less than counts, and the other had a lower mean and a longer life.
    #[test]
    fn of_one_price_the_better_run_is_the_choice() {
        let mut runs =
            [run("disk", 100.0, 671.0, None), run("a", 145.0, 14.7, Some(2.8)), run("b", 145.0, 15.9, Some(5.0))];
        for (run, mean) in runs.iter_mut().zip([90.0, 3.0, 0.3]) {
            run.response_time_ms.all.mean = Some(mean);
        }
        let choices = Choices::of(&runs, None).unwrap();
        assert_eq!(choices.best.iter().map(|choice| choice.run).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn life_ends_in_a_year_if_today_is_known() {
        let runs = [run("flash", 90.0, 4.0, Some(4.2)), run("disk", 80.0, 900.0, None)];
        let choices = Choices::of(&runs, Some(2026.9)).unwrap();
        assert_eq!(choices.best[1].figures, "$90.00, p99 4.00 ms, the SSD lasts 4.20 y, until 2031, holds 250 GB");
    }

    #[test]
    fn life_counts_only_if_it_is_known_of_every_ssd() {
        let mut runs = [run("flash", 90.0, 4.0, Some(2.0)), run("lasting", 170.0, 40.0, Some(5.0))];
        assert_eq!(Choices::of(&runs, None).unwrap().best.len(), 2);
        runs[0].devices.ssd.flash.lifetime_years = None;
        assert_eq!(Choices::of(&runs, None).unwrap().best.len(), 1);
    }

    /// Regression: "an SSD that lasts longer than 132 y" recommended a drive of twice the price.
    #[test]
    fn lives_beyond_ten_years_are_equal() {
        let runs = [run("flash", 90.0, 4.0, Some(132.0)), run("dear", 170.0, 4.0, Some(157.0))];
        assert_eq!(Choices::of(&runs, None).unwrap().beaten, [1]);
        let runs = [run("flash", 90.0, 4.0, Some(8.0)), run("dear", 170.0, 4.0, Some(157.0))];
        assert_eq!(Choices::of(&runs, None).unwrap().best.len(), 2);
        let runs = [run("flash", 80.0, 4.0, Some(2.0)), run("dear-disk", 170.0, 4.0, None)];
        assert_eq!(Choices::of(&runs, None).unwrap().beaten, [1]);
    }

    #[test]
    fn run_without_a_price_is_no_choice() {
        let mut runs = [run("flash", 90.0, 4.0, None), run("disk", 80.0, 900.0, None)];
        runs[1].cost.total_usd = None;
        let choices = Choices::of(&runs, None).unwrap();
        assert_eq!((choices.best.len(), &choices.unsure[..]), (1, &[(1, NoChoice::NoPrice)][..]));
        assert!(said(&runs).ends_with("  no choice, because the price of a drive in dollars is not known: disk\n"));
        assert!(Choices::of(&runs[..1], None).is_none(), "nothing to choose from");
    }
}
