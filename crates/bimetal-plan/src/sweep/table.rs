//! Table: a row for each job, with its options and its main figures, for spreadsheets (CSV) and
//! data frames (Parquet, [`parquet`](Table::parquet)).

use std::borrow::Cow;
use std::collections::BTreeSet;

use bimetal_sim::csv::line;
use serde_json::Value;

use crate::budget;

/// Main figures of a row, as dotted paths into the run of a result.
const FIGURES: [&str; 25] = [
    "ssd_bytes",
    "hdd_bytes",
    "exported_bytes",
    "response_time_ms.all.mean",
    "response_time_ms.all.p50",
    "response_time_ms.all.p99",
    "response_time_ms.all.p999",
    "response_time_ms.all.max",
    "response_time_ms.read.mean",
    "response_time_ms.read.p99",
    "response_time_ms.write.mean",
    "response_time_ms.write.p99",
    "throughput.iops",
    "throughput.mb_per_s",
    "behind_fraction",
    "ssd_hit_ratio.read",
    "ssd_hit_ratio.write",
    "write_savings",
    "devices.ssd.write_bytes",
    "devices.ssd.flash.write_amplification",
    "devices.ssd.flash.erases",
    "devices.ssd.flash.lifetime_years",
    "devices.ssd.energy_j",
    "devices.hdd.energy_j",
    "cost.total_usd",
];

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text.
    Text,
    /// Whole numbers that fit in 63 bits.
    Whole,
    /// Floating-point numbers.
    Number,
}

/// Column of a table. A cell without a value is `None`.
pub(super) struct Column<'a> {
    /// Heading.
    pub(super) name: String,
    /// Type of the values.
    pub(super) kind: Kind,
    /// Cell of each row.
    pub(super) cells: Vec<Option<Cow<'a, Value>>>,
}

/// Result with its key and the paths of its traces.
pub type Row<'a> = (&'a str, &'a BTreeSet<&'a str>, &'a Value);

/// Table of results.
pub struct Table<'a> {
    /// Columns, in order.
    pub(super) columns: Vec<Column<'a>>,
    rows: usize,
}

impl<'a> Table<'a> {
    /// Returns the table of `rows`. Each option and each setting of any row has a column.
    pub fn of(rows: &[Row<'a>]) -> Self {
        let mut table = Self { columns: Vec::new(), rows: rows.len() };
        table.add(Kind::Text, "key", rows, |(key, _, _)| Some(Cow::Owned(Value::from(*key))));
        table.add_path("engine", &["engine"], rows);
        table.add(Kind::Text, "traces", rows, |(_, traces, _)| Some(Cow::Owned(Value::from(joined(traces)))));
        table.add_path("trace_digest", &["job", "trace"], rows);
        table.add_path("scheme", &["job", "scheme"], rows);
        for name in names(rows, "/job/options") {
            table.add_path(name, &["job", "options", name], rows);
        }
        for name in names(rows, "/job/set") {
            table.add_path(&format!("set.{name}"), &["job", "set", name], rows);
        }
        table.add(Kind::Whole, "requests", rows, |(_, _, result)| at(result, &["trace", "requests"]));
        for path in FIGURES {
            let figure = |(_, _, result): &Row<'a>| {
                let value = result.get("run").and_then(|run| budget::at(run, path));
                value.filter(|value| !value.is_null()).map(Cow::Borrowed)
            };
            table.add(kind_of(path), path, rows, figure);
        }
        table.add_path("left_out", &["left_out"], rows);
        table.add_path("error", &["error"], rows);
        table
    }

    fn add(&mut self, kind: Kind, name: &str, rows: &[Row<'a>], cell: impl Fn(&Row<'a>) -> Option<Cow<'a, Value>>) {
        self.columns.push(Column { name: name.to_owned(), kind, cells: rows.iter().map(cell).collect() });
    }

    /// Adds a column of the texts at `path` of each result.
    fn add_path(&mut self, name: &str, path: &[&str], rows: &[Row<'a>]) {
        self.add(Kind::Text, name, rows, |(_, _, result)| at(result, path));
    }

    /// Returns the table as CSV with a heading.
    pub fn csv(&self) -> String {
        let heading = line(self.columns.iter().map(|column| column.name.clone()));
        let row = |row: usize| line(self.columns.iter().map(move |column| text(column.cells[row].as_deref())));
        (0..self.rows).map(row).fold(heading, |csv, line| csv + &line)
    }
}

/// Returns the type of a figure. Whole figures are bytes and counts.
fn kind_of(path: &str) -> Kind {
    if path.ends_with("_bytes") || path.ends_with("erases") { Kind::Whole } else { Kind::Number }
}

fn names<'a>(rows: &[Row<'a>], of: &str) -> BTreeSet<&'a str> {
    let keys = |result: &'a Value| result.pointer(of).and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
    rows.iter().flat_map(|&(_, _, result)| keys(result)).map(String::as_str).collect()
}

fn joined(traces: &BTreeSet<&str>) -> String {
    traces.iter().copied().collect::<Vec<_>>().join(" ")
}

fn at<'a>(result: &'a Value, path: &[&str]) -> Option<Cow<'a, Value>> {
    let value = path.iter().try_fold(result, |value, name| value.get(name))?;
    (!value.is_null()).then_some(Cow::Borrowed(value))
}

/// Returns a cell as text; empty without a value.
pub(super) fn text(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_sim::results::Run;

    #[test]
    fn row_has_options_settings_figures_and_errors() {
        let done = serde_json::json!({
            "engine": "0.1.0-e", "job": {"scheme": "griffin", "trace": "d1", "options": {"seed": "1"}, "set": {"timeout": "60s"}},
            "trace": {"requests": 7}, "run": {"response_time_ms": {"all": {"mean": 0.5}}}, "error": null,
        });
        let failed =
            serde_json::json!({"job": {"scheme": "smq", "options": {"ssd-size": "10%"}}, "error": "a \"b\", c"});
        let (one, other) = ("k1".to_owned(), "k2".to_owned());
        let traces = BTreeSet::from(["a", "b"]);
        let text = Table::of(&[(&one, &traces, &done), (&other, &traces, &failed)]).csv();
        let rows: Vec<&str> = text.lines().collect();
        assert!(
            rows[0].starts_with("key,engine,traces,trace_digest,scheme,seed,ssd-size,set.timeout,requests,"),
            "{text}"
        );
        assert!(rows[1].starts_with("k1,0.1.0-e,a b,d1,griffin,1,,60s,7,,,,0.5,,"), "{text}");
        assert!(rows[2].starts_with("k2,,a b,,smq,,10%,,") && rows[2].ends_with(",\"a \"\"b\"\", c\""), "{text}");
        assert_eq!(rows[0].split(',').count(), rows[1].split(',').count());
    }

    /// A figure that is renamed in the document would leave its column in this table empty.
    #[test]
    fn each_figure_of_the_table_is_a_key_of_a_run() {
        let run = serde_json::to_value(Run::default()).expect("JSON");
        for path in FIGURES {
            assert!(budget::at(&run, path).is_some(), "{path}");
        }
    }
}
