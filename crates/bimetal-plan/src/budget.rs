//! Budgets: limits that an option must keep. A budget limits a response time (`p99<5ms`,
//! `read.p999<20ms`), any other figure of a run by its dotted path
//! (`devices.ssd.flash.write_amplification<3`), a lifetime, a price or energy.

use std::fmt;

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_measure::text::short;
use bimetal_models::spelling::nearest;
use bimetal_sim::limits::{Figure, Which};
use bimetal_sim::results::Run;
use serde_json::Value;

/// Names of the response times: the last part of their path.
const RESPONSE_TIMES: [(&str, Figure); 8] = [
    ("mean", Figure::Mean),
    ("p50", Figure::Quantile(0.5)),
    ("p90", Figure::Quantile(0.9)),
    ("p95", Figure::Quantile(0.95)),
    ("p99", Figure::Quantile(0.99)),
    ("p999", Figure::Quantile(0.999)),
    ("p9999", Figure::Quantile(0.9999)),
    ("max", Figure::Quantile(1.0)),
];

/// Path of the lifetime, which costs extra runs.
const LIFETIME: &str = "devices.ssd.flash.lifetime_years";

/// Path of the drive writes a day, which cost the same runs.
const DRIVE_WRITES: &str = "devices.ssd.flash.dwpd";

/// Longest lifetime that can be asked for, in years. No figure of wear says anything beyond it.
const LIFETIME_YEARS_MAX: f64 = 100.0;

/// Figure that a budget limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A figure of a run, by its dotted path in the JSON.
    Path(String),
    /// A figure of the cost, by its dotted path in the JSON, which begins with `cost.`: with the
    /// prices of the catalogue and the lives in steady state.
    Ownership(String),
    /// Years until the first flash drive is worn out, at steady state.
    Lifetime,
    /// Drive writes a day (DWPD) of the flash drive with the most drive writes a day, in the steady
    /// state that the lifetime is computed for.
    DriveWrites,
    /// US dollars for all drives.
    Cost,
    /// Joules that all drives use over the trace.
    Energy,
    /// Watts that all drives draw on average.
    Power,
}

/// Path of the carbon dioxide that making the drives set free.
pub(crate) const CARBON: &str = "cost.embodied_carbon_kg";

/// Paths of figures that only a closed replay has.
const SCORES: [&str; 4] = ["cost.score", "cost.score_per_usd", "cost.score_per_manager_usd", "cost.budget"];

/// Path of the cost of a year.
const USD_PER_YEAR: &str = "cost.usd_per_year";

/// Side of the limit that keeps the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Values below the limit.
    Below,
    /// Values up to the limit.
    AtMost,
    /// Values above the limit.
    Above,
    /// Values from the limit on.
    AtLeast,
}

/// A limit on a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Text of the budget as the user wrote it.
    pub text: String,
    /// Figure that is limited.
    pub metric: Metric,
    /// Side of the limit that keeps the budget.
    pub side: Side,
    /// The limit, in the unit of the figure.
    pub limit: f64,
}

/// Reasons for which a budget, or a combination of budgets, is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The text does not have the form `FIGURE<VALUE`.
    #[error("budget '{0}': expected FIGURE<VALUE or FIGURE>VALUE, like p99<5ms or write_savings>0.3")]
    Form(String),
    /// The figure does not exist.
    #[error(
        "budget '{text}': unknown figure '{name}'{hint}: expected {}, with read., write. or flush. in front for one kind \
         of request, dwpd, or the dotted path of a figure of `simulate --json`",
        RESPONSE_TIMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    )]
    Figure {
        /// The budget.
        text: String,
        /// Name in the budget.
        name: String,
        /// Most similar figure.
        hint: String,
    },
    /// A response time has a lower limit.
    #[error("budget '{text}' asks for slow responses: expected {wanted}")]
    Slow {
        /// The budget.
        text: String,
        /// Budget that was probably wanted.
        wanted: String,
    },
    /// The value of a flag is not valid.
    #[error("{flag} {value}: expected {expected}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// Value of the flag.
        value: String,
        /// Expected form of the value.
        expected: &'static str,
    },
    /// The value does not fit the figure.
    #[error("budget '{text}': value '{value}': expected {expected}")]
    Value {
        /// The budget.
        text: String,
        /// Value in the budget.
        value: String,
        /// Expected form of the value.
        expected: &'static str,
    },
    /// The value lacks the unit of its figure.
    #[error("budget '{text}': value '{value}': expected a unit: {text}{unit}")]
    Unit {
        /// The budget.
        text: String,
        /// Value in the budget.
        value: String,
        /// A unit of the figure.
        unit: &'static str,
    },
    /// No figure can keep both of two budgets.
    #[error("the budgets '{one}' and '{other}' contradict each other: no figure can keep both")]
    Contradiction {
        /// First budget.
        one: String,
        /// Second budget.
        other: String,
    },
}

impl Budget {
    /// Parses a budget such as `p99<5ms`.
    ///
    /// # Errors
    /// Returns an error if the form is wrong, the figure is unknown, or the value has the wrong
    /// unit, or no unit although the figure is a time.
    pub fn parse(text: &str) -> Result<Self, BudgetError> {
        let text = text.trim();
        let at = text.find(['<', '>']).ok_or_else(|| BudgetError::Form(text.to_owned()))?;
        let (name, rest) = text.split_at(at);
        let (operator, value) = if rest[1..].starts_with('=') { rest.split_at(2) } else { rest.split_at(1) };
        let side = match operator {
            "<" => Side::Below,
            "<=" => Side::AtMost,
            ">" => Side::Above,
            _ => Side::AtLeast,
        };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || value.is_empty() {
            return Err(BudgetError::Form(text.to_owned()));
        }
        let path = path_of(name);
        check_path(text, name, &path)?;
        if let Some(unit) = unit_of(&path).filter(|unit| lacks_unit(value, unit)) {
            return Err(BudgetError::Unit { text: text.to_owned(), value: value.to_owned(), unit });
        }
        let limit = value_of(&path, value).map_err(|expected| BudgetError::Value {
            text: text.to_owned(),
            value: value.to_owned(),
            expected,
        })?;
        let metric = match path.as_str() {
            LIFETIME => Metric::Lifetime,
            DRIVE_WRITES => Metric::DriveWrites,
            _ if path.starts_with("cost.") => Metric::Ownership(path),
            _ => Metric::Path(path),
        };
        let budget = Self { text: text.to_owned(), metric, side, limit };
        if !budget.is_upper() && budget.is_response_time() {
            let wanted = text.replace('>', "<");
            return Err(BudgetError::Slow { text: text.to_owned(), wanted });
        }
        match budget.response_limit() {
            Some((_, _, Nanoseconds(0))) => {
                let (text, value) = (text.to_owned(), value.to_owned());
                Err(BudgetError::Value { text, value, expected: "a time above 0, which every request takes" })
            }
            _ => Ok(budget),
        }
    }

    /// Creates a budget for a minimum lifetime, such as `5y`.
    ///
    /// # Errors
    /// Returns an error if the value is not a duration above 0 and up to 100 years.
    pub fn lifetime(value: &str) -> Result<Self, BudgetError> {
        let text = format!("lifetime>={value}");
        let years =
            value.parse::<Nanoseconds>().ok().map(years).filter(|years| *years > 0.0 && *years <= LIFETIME_YEARS_MAX);
        let expected = "a duration like 5y, at most 100y";
        let limit = years.ok_or(BudgetError::Flag { flag: "--lifetime", value: value.to_owned(), expected })?;
        Ok(Self { text, metric: Metric::Lifetime, side: Side::AtLeast, limit })
    }

    /// Creates a budget for a maximum price in US dollars.
    pub fn cost(usd: f64) -> Self {
        Self { text: format!("cost<={usd}"), metric: Metric::Cost, side: Side::AtMost, limit: usd }
    }

    /// Creates a budget for the energy over the trace (`500J`, `2kJ`, `0.1kWh`), or for the mean
    /// power (`6W`).
    ///
    /// # Errors
    /// Returns an error if the value is neither energy nor power.
    pub fn energy(value: &str) -> Result<Self, BudgetError> {
        let text = format!("energy<={value}");
        const UNITS: [(&str, f64, Metric); 7] = [
            ("kWh", 3.6e6, Metric::Energy),
            ("Wh", 3600.0, Metric::Energy),
            ("MJ", 1e6, Metric::Energy),
            ("kJ", 1e3, Metric::Energy),
            ("J", 1.0, Metric::Energy),
            ("mW", 1e-3, Metric::Power),
            ("W", 1.0, Metric::Power),
        ];
        let read = UNITS.into_iter().find_map(|(unit, factor, metric)| {
            let number = value.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()?;
            (number.is_finite() && number >= 0.0).then_some((metric, number * factor))
        });
        let expected = "energy over the trace like 500J or 0.2kWh, or mean power like 6W";
        let (metric, limit) = read.ok_or(BudgetError::Flag { flag: "--energy", value: value.to_owned(), expected })?;
        Ok(Self { text, metric, side: Side::AtMost, limit })
    }

    /// Returns true if `value` keeps the budget. A missing figure (the reads of a workload without
    /// reads) keeps an upper limit and breaks a lower limit.
    pub fn kept_by(&self, value: Option<f64>) -> bool {
        let Some(value) = value else { return self.is_upper() };
        match self.side {
            Side::Below => value < self.limit,
            Side::AtMost => value <= self.limit,
            Side::Above => value > self.limit,
            Side::AtLeast => value >= self.limit,
        }
    }

    /// Returns true for an upper limit.
    pub fn is_upper(&self) -> bool {
        matches!(self.side, Side::Below | Side::AtMost)
    }

    /// Returns the factor by which `value` exceeds an upper limit or falls below a lower limit; 1
    /// at the limit.
    pub fn excess(&self, value: Option<f64>) -> f64 {
        let Some(value) = value else {
            // Lifetimes are not computed for options that break other budgets.
            return if self.is_upper() || self.needs_lives() { 1.0 } else { f64::INFINITY };
        };
        let (above, below) = if self.is_upper() { (value, self.limit) } else { (self.limit, value) };
        if below > 0.0 {
            above / below
        } else if above > below {
            f64::INFINITY
        } else {
            1.0
        }
    }

    /// Returns true if the budget limits a figure of one run. Prices do not come from a run, and
    /// lifetimes cost extra runs.
    pub(crate) fn is_of_run(&self) -> bool {
        matches!(self.metric, Metric::Path(_) | Metric::Power)
    }

    /// Returns true if the figure of a part of the trace needs a run over this part.
    pub(crate) fn needs_runs_of_parts(&self) -> bool {
        self.is_of_run() && !self.is_response_time()
    }

    /// Returns true if the budget limits a figure that is known only with the life of flash.
    pub(crate) fn needs_lives(&self) -> bool {
        match &self.metric {
            Metric::Lifetime | Metric::DriveWrites => true,
            Metric::Ownership(path) => path == USD_PER_YEAR,
            _ => false,
        }
    }

    /// Returns true if the budget limits a figure that only a closed replay has.
    pub(crate) fn needs_closed_replay(&self) -> bool {
        matches!(&self.metric, Metric::Path(path) | Metric::Ownership(path) if SCORES.contains(&path.as_str()))
    }

    /// Returns true if the budget limits a figure of all years of ownership, so that a growing load
    /// is part of the figure.
    pub(crate) fn is_of_all_years(&self) -> bool {
        matches!(self.metric, Metric::Lifetime | Metric::Ownership(_))
    }

    /// Returns the budget with its limit relaxed by the factor `times`. The new limit itself keeps
    /// the budget.
    pub(crate) fn wider(&self, times: f64) -> Self {
        let limit = match (self.is_upper(), times.is_finite()) {
            // A limit of 0 or less has no multiple that is wider.
            (_, true) if self.limit <= 0.0 => self.limit,
            (true, true) => self.limit * times,
            (true, false) => f64::INFINITY,
            (false, true) => self.limit / times,
            (false, false) => f64::NEG_INFINITY,
        };
        let side = if self.is_upper() { Side::AtMost } else { Side::AtLeast };
        Self { side, limit, ..self.clone() }
    }

    /// Returns a text that names the figure that breaks the budget.
    pub(crate) fn broken_by(&self, value: Option<f64>) -> String {
        match (&self.metric, value) {
            (Metric::Cost, Some(usd)) => format!("{} over {self}", self.show(Some(usd - self.limit))),
            (_, None) => format!("no {} is known for this option, so {self} cannot be checked", self.name()),
            _ => format!("{} {} breaks {self}", self.name(), self.show(value)),
        }
    }

    /// Returns true if the budget limits a response time.
    pub(crate) fn is_response_time(&self) -> bool {
        self.response_time_path().is_some()
    }

    /// Returns the path of the budget's figure among the response times of a run: `all.p99`;
    /// `None` for other figures.
    pub(crate) fn response_time_path(&self) -> Option<&str> {
        let Metric::Path(path) = &self.metric else { return None };
        path.strip_prefix("response_time_ms.")
    }

    /// Returns the response times that the budget limits from above; `None` for other budgets.
    pub fn response_limit(&self) -> Option<(Which, Figure, Nanoseconds)> {
        let (which, name) = self.response_time_path()?.split_once('.')?;
        let which = match which {
            "all" => Which::All,
            "read" => Which::Reads,
            "write" => Which::Writes,
            _ => return None,
        };
        let figure = RESPONSE_TIMES.iter().find(|(known, _)| *known == name)?.1;
        // A response time is a whole number of nanoseconds. Rounding the limit up refuses no value
        // that keeps the limit.
        let limits = self.is_upper() && self.limit.is_finite();
        limits.then(|| (which, figure, Nanoseconds((self.limit * 1e6).ceil() as u64)))
    }

    /// Returns a short name of the figure: `p99`, `read p999`, `lifetime`.
    pub fn name(&self) -> String {
        match &self.metric {
            Metric::Path(path) => match path.strip_prefix("response_time_ms.") {
                Some(rest) => rest.strip_prefix("all.").unwrap_or(rest).replace('.', " "),
                None => path.clone(),
            },
            Metric::Ownership(path) => path.clone(),
            Metric::Lifetime => "lifetime".to_owned(),
            Metric::DriveWrites => "dwpd".to_owned(),
            Metric::Cost => "cost".to_owned(),
            Metric::Energy => "energy".to_owned(),
            Metric::Power => "power".to_owned(),
        }
    }

    /// Formats `value` with the unit of the figure.
    pub fn show(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "does not apply".to_owned() };
        let number = short(value);
        match &self.metric {
            Metric::Path(path) if path.contains("_ms") => format!("{number} ms"),
            Metric::Path(path) if path.ends_with("_years") => format!("{number} years"),
            Metric::Path(_) => number,
            Metric::Ownership(path) if path.contains("usd") => format!("${number}"),
            Metric::Ownership(_) => number,
            Metric::Lifetime => format!("{number} years"),
            Metric::DriveWrites => format!("{number} drive writes a day"),
            Metric::Cost => format!("${number}"),
            Metric::Energy => format!("{number} J"),
            Metric::Power => format!("{number} W"),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Refuses pairs of budgets that contradict each other, like `write_savings<0.5` beside
/// `write_savings>0.6`.
///
/// # Errors
/// Returns the first pair of budgets that contradict each other.
pub fn check(budgets: &[Budget]) -> Result<(), BudgetError> {
    for upper in budgets.iter().filter(|budget| budget.is_upper()) {
        for lower in budgets.iter().filter(|budget| !budget.is_upper() && budget.metric == upper.metric) {
            let open = upper.side == Side::Below || lower.side == Side::Above;
            if upper.limit < lower.limit || (open && upper.limit == lower.limit) {
                return Err(BudgetError::Contradiction { one: lower.text.clone(), other: upper.text.clone() });
            }
        }
    }
    Ok(())
}

/// Returns a duration in years of 365.25 days.
pub fn years(span: Nanoseconds) -> f64 {
    span.as_years_f64()
}

/// Returns the years in which a rate of `per_s` per second uses up `amount`.
pub fn years_of_wear(amount: f64, per_s: f64) -> f64 {
    amount / per_s * years(Nanoseconds::from_seconds(1))
}

/// Returns the dotted path for a short name, in capital or small letters.
fn path_of(name: &str) -> String {
    let is_response_time = |name: &str| RESPONSE_TIMES.iter().any(|(known, _)| *known == name);
    let small = name.to_ascii_lowercase();
    match small.split_once('.') {
        None if is_response_time(&small) => format!("response_time_ms.all.{small}"),
        Some(("all" | "read" | "write" | "flush", rest)) if is_response_time(rest) => {
            format!("response_time_ms.{small}")
        }
        None if small == "dwpd" => DRIVE_WRITES.to_owned(),
        _ => name.to_owned(),
    }
}

/// Keys of a run's maps whose own keys depend on the run.
const OPEN_MAPS: [&str; 3] =
    ["bypass.", "devices.ssd.flash.pages_programmed_by_cause.", "devices.ssd.flash.erases_by_cause."];

fn check_path(text: &str, name: &str, path: &str) -> Result<(), BudgetError> {
    let known = figures();
    if known.iter().any(|known| known == path) || OPEN_MAPS.iter().any(|map| path.starts_with(map)) {
        return Ok(());
    }
    let short = RESPONSE_TIMES.iter().map(|(name, _)| *name);
    let near = nearest(name, known.iter().map(String::as_str).chain(short));
    let hint = near.map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"));
    Err(BudgetError::Figure { text: text.to_owned(), name: name.to_owned(), hint })
}

/// Returns the dotted path of every figure of a run that can be a number.
pub fn figures() -> Vec<String> {
    // An empty run has every key, with null where a number would be.
    let run = serde_json::to_value(Run::default()).unwrap_or_default();
    let mut paths = Vec::new();
    leaves("", &run, &mut paths);
    paths.retain(|path| {
        !["scheme", "ssd", "hdd", "prediction_error"].contains(&path.as_str()) && !path.starts_with("series.")
    });
    paths.extend(["prediction_error.mean_ms", "prediction_error.r2"].map(str::to_owned));
    paths
}

fn leaves(prefix: &str, value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                leaves(&path, value, paths);
            }
        }
        Value::Null | Value::Number(_) => paths.push(prefix.to_owned()),
        _ => {}
    }
}

/// Returns the unit in which the results show a figure that is a time; `None` for other figures.
fn unit_of(path: &str) -> Option<&'static str> {
    if path.contains("_ms") {
        Some("ms")
    } else if path.ends_with("_years") {
        Some("y")
    } else if path.ends_with("_s") && !path.ends_with("per_s") {
        Some("s")
    } else {
        None
    }
}

/// Returns true if `value` is a time once `unit` stands after it, and has no unit of its own.
fn lacks_unit(value: &str, unit: &str) -> bool {
    value.ends_with(|last: char| last.is_ascii_digit()) && format!("{value}{unit}").parse::<Nanoseconds>().is_ok()
}

/// Parses a value in the unit of its figure. A time needs a unit; a size without a unit is in
/// bytes.
fn value_of(path: &str, value: &str) -> Result<f64, &'static str> {
    let duration = |expected| value.parse::<Nanoseconds>().map_err(|_| expected);
    match unit_of(path) {
        Some("ms") => return duration("a duration like 5ms").map(Nanoseconds::as_millis_f64),
        Some("y") => return duration("a duration like 5y").map(years),
        Some(_) => return duration("a duration like 60s").map(Nanoseconds::as_seconds_f64),
        None => {}
    }
    if let Ok(number) = value.parse::<f64>() {
        return if number.is_finite() { Ok(number) } else { Err("a number") };
    }
    if path.ends_with("bytes") {
        return value.parse::<Bytes>().map(|bytes| bytes.0 as f64).map_err(|_| "a size like 10GiB");
    }
    if let Some(percent) = value.strip_suffix('%') {
        return percent
            .trim()
            .parse::<f64>()
            .map(|percent| percent / 100.0)
            .map_err(|_| "a number, or a share like 30%");
    }
    Err("a number")
}

/// Returns the figure at a dotted path of a run's JSON.
pub fn at<'a>(run: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(run, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_limit_keeps_what_the_limit_keeps() {
        for (text, value) in [("write_savings>-0.1", -0.08), ("write_savings>0.1", 0.2), ("mean<3ms", 2.0)] {
            let budget = Budget::parse(text).unwrap();
            assert!(budget.kept_by(Some(value)), "{text}");
            for times in [1.0, 2.0, f64::INFINITY] {
                assert!(budget.wider(times).kept_by(Some(value)), "{text}, {times} times as wide");
            }
        }
    }

    #[test]
    fn budget_parses_short_names_and_dotted_paths_with_units() {
        for (text, path, limit) in [
            ("p99<5ms", "response_time_ms.all.p99", 5.0),
            ("mean < 1ms", "response_time_ms.all.mean", 1.0),
            ("read.p999<=20ms", "response_time_ms.read.p999", 20.0),
            ("flush.p99<10ms", "response_time_ms.flush.p99", 10.0),
            ("response_time_ms.write.max<2s", "response_time_ms.write.max", 2000.0),
            ("write_savings>30%", "write_savings", 0.3),
            ("devices.ssd.flash.write_amplification<3", "devices.ssd.flash.write_amplification", 3.0),
            ("devices.ssd.write_bytes<1GiB", "devices.ssd.write_bytes", 1_073_741_824.0),
            ("migration.mean_interval_s>1min", "migration.mean_interval_s", 60.0),
            ("devices.ssd.flash.lifetime_worst_block_years>=5y", "devices.ssd.flash.lifetime_worst_block_years", 5.0),
            ("bypass.sequential<100", "bypass.sequential", 100.0),
        ] {
            let budget = Budget::parse(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((budget.metric, budget.limit), (Metric::Path(path.to_owned()), limit), "{text}");
        }
        // The lifetime of a run is that in steady state, which `--lifetime` limits.
        let life = Budget::parse("devices.ssd.flash.lifetime_years>=5y").unwrap();
        assert_eq!((life.metric, life.limit), (Metric::Lifetime, 5.0));
        for text in ["dwpd<0.3", "DWPD<0.3", "devices.ssd.flash.dwpd<0.3"] {
            let writes = Budget::parse(text).unwrap();
            assert_eq!((writes.metric, writes.limit), (Metric::DriveWrites, 0.3), "{text}");
        }
        for (text, path) in [("P99<5ms", "response_time_ms.all.p99"), ("Read.P999<5ms", "response_time_ms.read.p999")] {
            assert_eq!(Budget::parse(text).unwrap().metric, Metric::Path(path.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_budget_is_refused_with_what_was_expected() {
        let message = |text: &str| Budget::parse(text).unwrap_err().to_string();
        assert!(message("p99=5ms").contains("expected FIGURE<VALUE"));
        assert!(message("p98<5ms").contains("did you mean 'p9"), "{}", message("p98<5ms"));
        assert!(message("scheme<5").contains("unknown figure 'scheme'"));
        assert!(message("p99<5GiB").contains("a duration like 5ms"));
        assert!(Budget::lifetime("0y").is_err() && Budget::lifetime("5 apples").is_err());
        assert!(Budget::lifetime("100y").is_ok());
        let too_long = Budget::lifetime("500y").unwrap_err().to_string();
        assert_eq!(too_long, "--lifetime 500y: expected a duration like 5y, at most 100y");
        assert!(message("p99<0ms").contains("a time above 0") && message("max<=0s").contains("above 0"));
        assert!(Budget::parse("migration.mean_interval_s>=0s").is_ok());
        assert_eq!(message("p99>5ms"), "budget 'p99>5ms' asks for slow responses: expected p99<5ms");
        let without_unit = Budget::energy("6").unwrap_err().to_string();
        assert!(without_unit.starts_with("--energy 6: expected energy over the trace like 500J"), "{without_unit}");
        assert_eq!(Budget::energy("0.5kWh").unwrap().limit, 1.8e6);
        assert_eq!(Budget::energy("6W").unwrap().metric, Metric::Power);
    }

    /// Regression: `p99<5` was taken for 5 ms, and a user who meant seconds would not have noticed.
    #[test]
    fn time_without_a_unit_is_refused_with_an_example() {
        for (text, example) in [
            ("p99<5", "p99<5ms"),
            ("read.p999 <= 0.5", "read.p999 <= 0.5ms"),
            ("migration.mean_interval_s>60", "migration.mean_interval_s>60s"),
            ("devices.ssd.flash.lifetime_years>=5", "devices.ssd.flash.lifetime_years>=5y"),
        ] {
            let message = Budget::parse(text).unwrap_err().to_string();
            assert!(message.ends_with(&format!("expected a unit: {example}")), "{message}");
            assert!(Budget::parse(example).is_ok(), "{example}");
        }
        for text in ["p99<-5", "p99<NaN", "p99<inf", "p99<1e3", "p99<5m", "migration.mean_interval_s>5m"] {
            let message = Budget::parse(text).unwrap_err().to_string();
            assert!(message.contains("expected a duration like "), "{message}");
        }
    }

    #[test]
    fn count_share_and_size_need_no_unit() {
        for (text, limit) in
            [("write_savings>0.3", 0.3), ("bypass.sequential<100", 100.0), ("devices.ssd.write_bytes<4096", 4096.0)]
        {
            assert_eq!(Budget::parse(text).unwrap().limit, limit, "{text}");
        }
    }

    #[test]
    fn limits_that_exclude_each_other_are_refused() {
        let both = |one: &str, other: &str| check(&[Budget::parse(one).unwrap(), Budget::parse(other).unwrap()]);
        assert!(both("write_savings<0.5", "write_savings>0.6").is_err());
        assert!(both("write_savings<0.5", "write_savings>=0.5").is_err());
        assert!(both("write_savings<=0.5", "write_savings>=0.5").is_ok());
        assert!(both("write_savings<0.5", "read_penalty>0.6").is_ok());
    }

    #[test]
    fn what_is_missing_keeps_an_upper_limit_and_breaks_a_lower_one() {
        assert!(Budget::parse("read.p99<5ms").unwrap().kept_by(None));
        assert!(!Budget::parse("write_savings>0.3").unwrap().kept_by(None));
    }
}
