//! The figures by which runs are compared: name, unit, meaning, and whether low or high is better.
//! The terminal's table and the report use the same figures.

use bimetal_measure::text::{dollars, half_interval, lifetime, percent, three_digits};
use bimetal_sim::results::Run;
use bimetal_sim::uncertainty::differ;

/// Bytes in a GiB.
pub(crate) const GIB: f64 = (1u64 << 30) as f64;

/// The end of a column, the highest or the lowest value, that is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// Neither end is better: the figure describes the run.
    Neither,
}

impl Better {
    /// Returns the order in which a reader sees the best first.
    pub(crate) fn word(self) -> &'static str {
        if self == Self::Higher { "higher" } else { "lower" }
    }
}

/// Heading of the lifetimes.
const LIFE: &str = "life";

/// Heading of the share of time in which a drive has work.
const BUSY: &str = "busy";

/// Function that returns the lower and the upper end of a figure of a run.
type Ends = fn(&Run) -> Option<(f64, f64)>;

/// A figure of a run.
pub(crate) struct Column {
    /// Heading over this column and its neighbours of the same kind.
    pub(crate) group: &'static str,
    /// Heading of this column.
    pub(crate) title: &'static str,
    /// Unit as the heading shows it; empty for a ratio without a unit.
    pub(crate) unit: &'static str,
    /// Meaning of the figure, in a sentence or two.
    pub(crate) meaning: &'static str,
    pub(crate) better: Better,
    /// Set if the terminal's table, which is 120 columns wide, shows the figure, too.
    pub(crate) in_terminal: bool,
    /// Returns the figure: `None` where the figure does not apply, infinite where it has no limit.
    pub(crate) value: fn(&Run) -> Option<f64>,
    /// Returns half the 95 % interval of the figure, in the unit of the figure; `None` for a figure
    /// without intervals.
    pub(crate) half: Option<fn(&Run) -> Option<f64>>,
    /// Returns the least and the greatest value that the trace leaves possible for the figure;
    /// `None` for a figure without such a range.
    pub(crate) range: Option<Ends>,
    /// Set if tables show the interval beside the figure.
    pub(crate) shows_half: bool,
    /// Returns the figure in words, in `unit`.
    pub(crate) text: fn(f64) -> String,
}

/// All columns, in the order shown.
pub(crate) const COLUMNS: [Column; 17] = [
    Column {
        group: "read",
        title: "mean",
        unit: "ms",
        meaning: "Mean response time of the reads, from arrival to completion, waiting included.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.read.mean,
        half: Some(|run| run.response_time_ms.read.mean_pm),
        range: None,
        shows_half: true,
        text: three_digits,
    },
    Column {
        group: "read",
        title: "p99",
        unit: "ms",
        meaning: "99 % of the reads took no longer than this.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.read.p99,
        half: Some(|run| run.response_time_ms.read.p99_pm),
        range: None,
        shows_half: true,
        text: three_digits,
    },
    Column {
        group: "write",
        title: "mean",
        unit: "ms",
        meaning: "Mean response time of the writes, from arrival to completion, waiting included.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.write.mean,
        half: Some(|run| run.response_time_ms.write.mean_pm),
        range: None,
        shows_half: true,
        text: three_digits,
    },
    Column {
        group: "write",
        title: "p99",
        unit: "ms",
        meaning: "99 % of the writes took no longer than this.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.write.p99,
        half: Some(|run| run.response_time_ms.write.p99_pm),
        range: None,
        shows_half: true,
        text: three_digits,
    },
    Column {
        group: "all",
        title: "mean",
        unit: "ms",
        meaning: "Mean response time of reads and writes together.",
        better: Better::Lower,
        in_terminal: false,
        value: |run| run.response_time_ms.all.mean,
        half: Some(|run| run.response_time_ms.all.mean_pm),
        range: None,
        shows_half: true,
        text: three_digits,
    },
    Column {
        group: "all",
        title: "p99",
        unit: "ms",
        meaning: "99 % of reads and writes together took no longer than this.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.all.p99,
        half: Some(|run| run.response_time_ms.all.p99_pm),
        range: None,
        shows_half: true,
        text: three_digits,
    },
    Column {
        group: "SSD",
        title: "size",
        unit: "GB",
        meaning: "Size of the SSD: all SSDs of the scheme together.",
        better: Better::Neither,
        in_terminal: true,
        value: |run| run.ssd_bytes.map(|bytes| bytes as f64 / 1e9),
        half: None,
        range: None,
        shows_half: false,
        text: three_digits,
    },
    Column {
        group: "SSD",
        title: "written",
        unit: "GiB",
        meaning: "Bytes written to the SSD: the host's writes that go there, and blocks that the scheme moves there.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.devices.ssd.write_bytes.map(|bytes| bytes as f64 / GIB),
        half: Some(|run| run.devices.ssd.write_bytes_pm.map(|bytes| bytes / GIB)),
        range: None,
        shows_half: false,
        text: three_digits,
    },
    Column {
        group: "SSD",
        title: "WA",
        unit: "",
        meaning: "Write amplification: bytes that the SSD programmed into its flash, garbage collection included, \
        for each byte written to the SSD.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.devices.ssd.flash.write_amplification,
        half: Some(|run| run.devices.ssd.flash.write_amplification_pm),
        range: None,
        shows_half: false,
        text: three_digits,
    },
    Column {
        group: "SSD",
        title: LIFE,
        unit: "",
        meaning: "Lifetime of the flash if this load went on for ever, the shortest that the trace leaves possible: the \
                  lower of what the maker warrants (terabytes written) and of the rated cycles in steady state. Ten \
                  erases in an SLC cache are assumed to be one cycle. ? where it cannot be told.",
        better: Better::Higher,
        in_terminal: true,
        value: |run| run.devices.ssd.flash.possible_years().map(|(least, _)| least),
        half: None,
        range: Some(|run| run.devices.ssd.flash.possible_years()),
        shows_half: false,
        text: lifetime,
    },
    Column {
        group: "SSD",
        title: "saved",
        unit: "%",
        meaning: "Write savings: share of the blocks written by the host that never reached the SSD that is home, \
                  because they were overwritten first (Griffin, section 3.2).",
        better: Better::Higher,
        in_terminal: false,
        value: |run| run.write_savings,
        half: None,
        range: None,
        shows_half: false,
        text: percent,
    },
    Column {
        group: "SSD",
        title: "penalty",
        unit: "%",
        meaning: "Read penalty: share of the read blocks that came from the log on the slower drive (Griffin, section \
                  3.2).",
        better: Better::Lower,
        in_terminal: false,
        value: |run| run.read_penalty,
        half: None,
        range: None,
        shows_half: false,
        text: percent,
    },
    Column {
        group: "hits",
        title: "read",
        unit: "%",
        meaning: "Share of the read blocks that the SSD served.",
        better: Better::Higher,
        in_terminal: true,
        value: |run| run.ssd_hit_ratio.read,
        half: Some(|run| run.ssd_hit_ratio.read_pm),
        range: None,
        shows_half: false,
        text: percent,
    },
    Column {
        group: "hits",
        title: "write",
        unit: "%",
        meaning: "Share of the written blocks that the SSD took.",
        better: Better::Higher,
        in_terminal: false,
        value: |run| run.ssd_hit_ratio.write,
        half: Some(|run| run.ssd_hit_ratio.write_pm),
        range: None,
        shows_half: false,
        text: percent,
    },
    Column {
        group: "HDD",
        title: BUSY,
        unit: "%",
        meaning: "Share of the time in which the HDD had work. Near 100 %, the HDD may not keep up: response times \
                  then measure its queue. A write cache keeps a disk busy, too.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.devices.hdd.busy_fraction,
        half: Some(|run| run.devices.hdd.busy_fraction_pm),
        range: None,
        shows_half: false,
        text: percent,
    },
    Column {
        group: "cost",
        title: "SSD",
        unit: "$",
        meaning: "Price of the SSD. A drive costs the whole price of the smallest on sale that has its size; a share \
                  of the working set costs that share.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.cost.ssd_usd,
        half: None,
        range: None,
        shows_half: false,
        text: dollars,
    },
    Column {
        group: "cost",
        title: "total",
        unit: "$",
        meaning: "Price of all drives, and of the controller if one was given.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.cost.total_usd,
        half: None,
        range: None,
        shows_half: false,
        text: dollars,
    },
];

/// Figure of a run with its uncertainty.
#[derive(Clone, Copy)]
struct Figure {
    value: f64,
    /// Half the 95 % interval.
    half: Option<f64>,
    /// Least and greatest value that the trace leaves possible.
    range: Option<(f64, f64)>,
}

impl Figure {
    /// Returns true if the uncertainty does not explain the difference between both figures.
    fn differs_from(&self, other: &Self) -> bool {
        let ranges = self.range.zip(other.range);
        differ((self.value, self.half), (other.value, other.half))
            && ranges.is_none_or(|(own, other)| !ranges_overlap(own, other))
    }
}

/// Returns true if two ranges have a value in common: then neither figure surely leads.
pub(crate) fn ranges_overlap(one: (f64, f64), other: (f64, f64)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

impl Column {
    /// Returns the figure of `run` in words; "–" where it does not apply, "?" for an unknown
    /// lifetime.
    pub(crate) fn shown(&self, run: &Run) -> String {
        let unknown = self.title == LIFE && run.devices.ssd.flash.lifetime_unknown.is_some();
        (self.value)(run).map_or_else(|| if unknown { "?" } else { "–" }.to_owned(), self.text)
    }

    /// Returns half the 95 % interval of the figure of `run`.
    pub(crate) fn half_of(&self, run: &Run) -> Option<f64> {
        self.half.and_then(|half| half(run))
    }

    /// Returns the figure of `run` in words, with its interval if tables show it: `12.3 ± 0.4`, or
    /// `8.15 (17.2)` for an interval that reaches down to 0.
    pub(crate) fn shown_with_half(&self, run: &Run) -> String {
        let shown = self.shown(run);
        match self.half_of(run).filter(|_| self.shows_half).zip((self.value)(run)) {
            Some((half, value)) if half >= value && half > 0.0 => format!("{shown} ({})", (self.text)(value + half)),
            Some((half, _)) => format!("{shown} ± {}", half_interval(half, &shown)),
            None => shown,
        }
    }

    /// Returns, for each run, true if the run has the best value of the column: a lead over every
    /// other run. No run is the best if another value looks equal, if only one run has a value, if
    /// luck explains the lead over the next value, or if the ranges of both values overlap. A run
    /// that is not a choice is never the best. A drive without work is never the best: nobody buys
    /// a drive that is not used.
    pub(crate) fn best(&self, runs: &[Run]) -> Vec<bool> {
        let none = vec![false; runs.len()];
        let is_idle = |value: f64| self.title == BUSY && value == 0.0;
        let value = |run: &Run| {
            let value = (self.value)(run).filter(|value| !is_idle(*value))?;
            Some(Figure { value, half: self.half_of(run), range: self.range.and_then(|range| range(run)) })
        };
        let of_choice = |run: &Run| value(run).filter(|_| run.no_choice.is_none());
        let values: Vec<Option<Figure>> = runs.iter().map(of_choice).collect();
        let better = |a: Figure, b: Figure| {
            let is_a = if self.better == Better::Higher { a.value >= b.value } else { a.value <= b.value };
            if is_a { a } else { b }
        };
        let best = values.iter().flatten().copied().reduce(better).filter(|_| self.better != Better::Neither);
        let Some(best) = best else { return none };
        let looks_equal = |other: &Figure| (self.text)(other.value) == (self.text)(best.value);
        let (equal, rest): (Vec<&Figure>, Vec<&Figure>) = values.iter().flatten().partition(|other| looks_equal(other));
        if equal.len() > 1 || rest.is_empty() || !rest.iter().all(|other| best.differs_from(other)) {
            return none;
        }
        values.iter().map(|value| value.as_ref().is_some_and(looks_equal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_sim::lifetime::Unknown;

    fn run_with_write_amplification(value: Option<f64>) -> Run {
        let mut run = Run::default();
        run.devices.ssd.flash.write_amplification = value;
        run
    }

    fn best_write_amplification(values: &[Option<f64>]) -> Vec<bool> {
        let runs: Vec<_> = values.iter().copied().map(run_with_write_amplification).collect();
        COLUMNS.iter().find(|column| column.title == "WA").expect("the column exists").best(&runs)
    }

    /// Regression: eight runs that wrote 0.00 GiB to their SSD all had the mark of the best.
    #[test]
    fn best_of_a_column_leads_alone() {
        let values = [Some(1.5), None, Some(1.1001), Some(1.1002)];
        assert_eq!(best_write_amplification(&values), [false; 4], "they look the same");
        let values = [Some(1.5), None, Some(1.1), Some(1.2)];
        assert_eq!(best_write_amplification(&values), [false, false, true, false]);
    }

    #[test]
    fn nothing_is_best_where_there_is_nothing_to_choose() {
        assert_eq!(best_write_amplification(&[Some(1.0), Some(1.0)]), [false, false]);
        assert_eq!(best_write_amplification(&[None, Some(1.0)]), [false, false]);
        assert_eq!(best_write_amplification(&[None, None]), [false, false]);
    }

    /// Regression: with two means of 318 and 123 ms, a few KiB more SSD decided which was the best.
    #[test]
    fn lead_within_the_interval_is_no_best() {
        let run = |mean, half| {
            let mut run = Run::default();
            (run.response_time_ms.read.mean, run.response_time_ms.read.mean_pm) = (Some(mean), half);
            run
        };
        let best = |runs: &[Run]| COLUMNS[0].best(runs);
        assert_eq!(best(&[run(10.0, Some(0.5)), run(11.0, Some(0.5)), run(12.0, Some(40.0))]), [false; 3]);
        // An unstable run far away is not a rival.
        assert_eq!(best(&[run(10.0, Some(0.5)), run(11.0, Some(0.5)), run(90.0, Some(400.0))]), [true, false, false]);
        assert_eq!(best(&[run(10.0, Some(0.5)), run(11.0, Some(0.5)), run(90.0, Some(4.0))]), [true, false, false]);
        assert_eq!(best(&[run(10.0, Some(0.5)), run(10.001, Some(0.5)), run(11.0, None)]), [false; 3]);
        assert_eq!(best(&[run(10.0, Some(0.5)), run(10.4, Some(0.5))]), [false; 2]);
    }

    /// Regression: the disk that Combo bought and never used had the star of the least busy drive.
    #[test]
    fn drive_without_work_is_no_best() {
        let run = |busy| {
            let mut run = Run::default();
            run.devices.hdd.busy_fraction = Some(busy);
            run
        };
        let column = COLUMNS.iter().find(|column| column.title == BUSY).expect("the column exists");
        assert_eq!(column.best(&[run(0.0), run(0.2), run(0.4)]), [false, true, false]);
        assert_eq!(column.best(&[run(0.0), run(0.2)]), [false, false]);
        assert_eq!(column.shown(&run(0.0)), "0.0");
    }

    /// Regression: a life of 31.3 to 42.6 years had the star beside a life of 29.7 to 40.4 years.
    #[test]
    fn overlapping_lives_have_no_best() {
        let run = |least, most| {
            let mut run = Run::default();
            run.devices.ssd.flash.lifetime_years = Some(most);
            run.devices.ssd.flash.lifetime_range_years = Some((least, most));
            run
        };
        let life = COLUMNS.iter().find(|column| column.title == LIFE).expect("the column exists");
        assert_eq!(life.best(&[run(31.3, 42.6), run(29.7, 40.4)]), [false, false]);
        assert_eq!(life.best(&[run(41.3, 42.6), run(29.7, 40.4)]), [true, false]);
    }

    #[test]
    fn interval_has_no_more_decimals_than_its_figure() {
        let shown = |mean, half| {
            let mut run = Run::default();
            (run.response_time_ms.read.mean, run.response_time_ms.read.mean_pm) = (Some(mean), half);
            COLUMNS[0].shown_with_half(&run)
        };
        assert_eq!(shown(12.34, Some(0.44)), "12.3 ± 0.4");
        assert_eq!(shown(8.44, Some(2.77)), "8.44 ± 3");
        assert_eq!(shown(0.327, Some(0.0513)), "0.327 ± 0.05");
        assert_eq!(shown(3.2, Some(0.0002)), "3.20 ± 0.00");
        assert_eq!(shown(318.2, Some(383.1)), "318 (701)");
        assert_eq!(shown(0.0792, Some(0.0)), "0.0792 ± 0.0000");
        assert_eq!(shown(1.25e6, Some(1234.0)), "1.2M ± 1234");
        assert_eq!((shown(12.34, None), COLUMNS[0].shown_with_half(&Run::default())), ("12.3".into(), "–".into()));
    }

    /// Regression: an SSD that erased nothing in a short run had the life ∞, and the star of the
    /// best.
    #[test]
    fn unknown_life_is_a_question_mark_and_never_the_best() {
        let mut idle = Run::default();
        idle.devices.ssd.flash.lifetime_unknown = Some(Unknown::NothingErased);
        let mut worn = Run::default();
        worn.devices.ssd.flash.lifetime_years = Some(3.0);
        let mut better = worn.clone();
        better.devices.ssd.flash.lifetime_years = Some(4.0);
        let life = COLUMNS.iter().find(|column| column.title == "life").expect("the column exists");
        assert_eq!(life.best(&[worn.clone(), idle.clone(), better]), [false, false, true]);
        assert_eq!(life.best(&[worn.clone(), idle.clone()]), [false, false]);
        assert_eq!((life.shown(&idle), life.shown(&worn)), ("?".to_owned(), "3.00 y".to_owned()));
        assert_eq!(life.shown(&Run::default()), "–");
    }
}
