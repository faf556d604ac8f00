//! The figures by which runs are compared: name, unit, meaning, and whether low or high is better.
//! The terminal's table and the report use the same figures.

use bimetal_sim::results::Run;

/// Bytes in a GiB.
pub(crate) const GIB: f64 = (1u64 << 30) as f64;

/// End of a column that is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

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
    /// Returns the figure: `None` where it does not apply, infinite where it has no limit.
    pub(crate) value: fn(&Run) -> Option<f64>,
    /// Returns the figure in words, in `unit`.
    pub(crate) text: fn(f64) -> String,
}

/// All columns, in the order shown.
pub(crate) const COLUMNS: [Column; 15] = [
    Column {
        group: "read",
        title: "mean",
        unit: "ms",
        meaning: "Mean response time of the reads, from arrival to completion, waiting included.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.read.mean,
        text: significant,
    },
    Column {
        group: "read",
        title: "p99",
        unit: "ms",
        meaning: "99 % of the reads took no longer than this.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.read.p99,
        text: significant,
    },
    Column {
        group: "write",
        title: "mean",
        unit: "ms",
        meaning: "Mean response time of the writes, from arrival to completion, waiting included.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.write.mean,
        text: significant,
    },
    Column {
        group: "write",
        title: "p99",
        unit: "ms",
        meaning: "99 % of the writes took no longer than this.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.response_time_ms.write.p99,
        text: significant,
    },
    Column {
        group: "all",
        title: "mean",
        unit: "ms",
        meaning: "Mean response time of reads and writes together.",
        better: Better::Lower,
        in_terminal: false,
        value: |run| run.response_time_ms.all.mean,
        text: significant,
    },
    Column {
        group: "all",
        title: "p99",
        unit: "ms",
        meaning: "99 % of reads and writes together took no longer than this.",
        better: Better::Lower,
        in_terminal: false,
        value: |run| run.response_time_ms.all.p99,
        text: significant,
    },
    Column {
        group: "SSD",
        title: "written",
        unit: "GiB",
        meaning: "What the scheme wrote to the SSD: the host's writes that go there, and blocks that it moved there itself.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.devices.ssd.write_bytes.map(|bytes| bytes as f64 / GIB),
        text: significant,
    },
    Column {
        group: "SSD",
        title: "WA",
        unit: "",
        meaning: "Write amplification: bytes that the SSD programmed into its flash, garbage collection included, for each \
                  byte written to it.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.devices.ssd.flash.write_amplification,
        text: significant,
    },
    Column {
        group: "SSD",
        title: "life",
        unit: "",
        meaning: "How long the flash lasts if this load went on for ever: blocks × rated cycles / erase rate. ∞ when the \
                  trace was too short or too light to erase anything.",
        better: Better::Higher,
        in_terminal: true,
        value: lifetime_years,
        text: lifetime,
    },
    Column {
        group: "SSD",
        title: "saved",
        unit: "%",
        meaning: "Write savings: share of the blocks that the host wrote which never had to be written to the SSD that is \
                  home, because they were overwritten first (Griffin, section 3.2).",
        better: Better::Higher,
        in_terminal: true,
        value: |run| run.write_savings,
        text: percent,
    },
    Column {
        group: "SSD",
        title: "penalty",
        unit: "%",
        meaning: "Read penalty: share of the blocks read that had to come from the log on the slower drive (Griffin, \
                  section 3.2).",
        better: Better::Lower,
        in_terminal: false,
        value: |run| run.read_penalty,
        text: percent,
    },
    Column {
        group: "hits",
        title: "read",
        unit: "%",
        meaning: "Share of the blocks read that the SSD served.",
        better: Better::Higher,
        in_terminal: true,
        value: |run| run.ssd_hit_ratio.read,
        text: percent,
    },
    Column {
        group: "hits",
        title: "write",
        unit: "%",
        meaning: "Share of the blocks written that the SSD took.",
        better: Better::Higher,
        in_terminal: false,
        value: |run| run.ssd_hit_ratio.write,
        text: percent,
    },
    Column {
        group: "HDD",
        title: "busy",
        unit: "%",
        meaning: "Share of the time in which the HDD had work. Near 100 % it does not keep up, and response times measure \
                  its queue.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.devices.hdd.busy_fraction,
        text: percent,
    },
    Column {
        group: "cost",
        title: "total",
        unit: "$",
        meaning: "Price of the drives at the sizes used, and of the controller if one was given.",
        better: Better::Lower,
        in_terminal: true,
        value: |run| run.cost.total_usd,
        text: dollars,
    },
];

impl Column {
    /// Returns the figure of `run` in words; "–" where it does not apply.
    pub(crate) fn shown(&self, run: &Run) -> String {
        (self.value)(run).map_or_else(|| "–".to_owned(), self.text)
    }

    /// Returns, for each run, whether it has the best value of the column. Values that look equal
    /// tie. Where all values tie, or only one run has a value, no run is best.
    pub(crate) fn best(&self, runs: &[Run]) -> Vec<bool> {
        let values: Vec<_> = runs.iter().map(self.value).collect();
        let best = values.iter().flatten().copied().reduce(|a, b| match self.better {
            Better::Lower => a.min(b),
            Better::Higher => a.max(b),
        });
        let Some(best) = best.map(self.text) else { return vec![false; runs.len()] };
        let ties: Vec<_> = values.iter().map(|value| value.map(|value| (self.text)(value) == best)).collect();
        let contested = ties.contains(&Some(false));
        ties.into_iter().map(|tie| contested && tie == Some(true)).collect()
    }
}

/// Returns the lifetime of the SSD in years, infinite when nothing was erased.
pub(crate) fn lifetime_years(run: &Run) -> Option<f64> {
    let flash = &run.devices.ssd.flash;
    flash.lifetime_years.or((flash.lifetime_unlimited == Some(true)).then_some(f64::INFINITY))
}

/// Returns `value` with three significant digits.
pub(crate) fn significant(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size < 0.0005 => format!("{value:.1e}"),
        _ if size < 0.09995 => format!("{value:.4}"),
        _ if size < 0.9995 => format!("{value:.3}"),
        _ if size < 9.995 => format!("{value:.2}"),
        _ if size < 99.95 => format!("{value:.1}"),
        _ if size < 99_999.5 => format!("{value:.0}"),
        _ if size < 999_500.0 => format!("{:.0}k", value / 1e3),
        _ if size < 99_950_000.0 => format!("{:.1}M", value / 1e6),
        _ => format!("{value:.1e}"),
    }
}

/// Returns a fraction as a percentage without the percent sign.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1}", fraction * 100.0)
}

/// Returns a lifetime given in years, in a suitable unit. Beyond a thousand years the number has no
/// meaning and is not shown.
pub(crate) fn lifetime(years: f64) -> String {
    const DAYS: f64 = 365.25;
    match years {
        _ if years.is_infinite() => "∞".to_owned(),
        _ if years >= 1000.0 => ">1000 y".to_owned(),
        _ if years >= 1.0 => format!("{} y", significant(years)),
        _ if years * 12.0 >= 2.0 => format!("{} mo", significant(years * 12.0)),
        _ if years * DAYS >= 2.0 => format!("{} d", significant(years * DAYS)),
        _ => format!("{} h", significant(years * DAYS * 24.0)),
    }
}

/// Returns an amount in whole dollars from a hundred on, with cents below.
pub(crate) fn dollars(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with_write_amplification(value: Option<f64>) -> Run {
        let mut run = Run::default();
        run.devices.ssd.flash.write_amplification = value;
        run
    }

    fn best_write_amplification(values: &[Option<f64>]) -> Vec<bool> {
        let runs: Vec<_> = values.iter().copied().map(run_with_write_amplification).collect();
        COLUMNS.iter().find(|column| column.title == "WA").expect("the column exists").best(&runs)
    }

    #[test]
    fn the_best_of_a_column_is_marked_and_what_looks_the_same_ties() {
        assert_eq!(
            best_write_amplification(&[Some(1.5), None, Some(1.1001), Some(1.1002)]),
            [false, false, true, true]
        );
    }

    #[test]
    fn nothing_is_best_where_there_is_nothing_to_choose() {
        assert_eq!(best_write_amplification(&[Some(1.0), Some(1.0)]), [false, false]);
        assert_eq!(best_write_amplification(&[None, Some(1.0)]), [false, false]);
        assert_eq!(best_write_amplification(&[None, None]), [false, false]);
    }

    #[test]
    fn an_ssd_that_nothing_wears_out_lives_longest() {
        let mut idle = Run::default();
        idle.devices.ssd.flash.lifetime_unlimited = Some(true);
        let mut worn = Run::default();
        worn.devices.ssd.flash.lifetime_years = Some(3.0);
        worn.devices.ssd.flash.lifetime_unlimited = Some(false);
        let life = COLUMNS.iter().find(|column| column.title == "life").expect("the column exists");
        assert_eq!(life.best(&[worn.clone(), idle.clone(), Run::default()]), [false, true, false]);
        assert_eq!(life.shown(&idle), "∞");
        assert_eq!(life.shown(&Run::default()), "–");
    }

    #[test]
    fn figures_keep_three_digits() {
        let texts: Vec<_> = [0.0, 0.000_12, 0.0123, 0.999_6, 1.234, 12.34, 123.4, 12_345.0, 123_456.0, 1.25e6, 1e12]
            .map(significant)
            .into();
        assert_eq!(texts, ["0", "1.2e-4", "0.0123", "1.00", "1.23", "12.3", "123", "12345", "123k", "1.2M", "1.0e12"]);
        assert_eq!(percent(0.3254), "32.5");
        let lives: Vec<_> = [2e4, 14.23, 0.5, 0.0134, 0.001].map(lifetime).into();
        assert_eq!(lives, [">1000 y", "14.2 y", "6.00 mo", "4.89 d", "8.77 h"]);
        assert_eq!((dollars(52.5), dollars(1234.5)), ("52.50".to_owned(), "1234".to_owned()));
    }
}
