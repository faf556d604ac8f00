//! The table that `compare` prints: a row per scheme, the best value of each column marked, at most
//! 120 columns wide.

use bimetal_sim::results::Run;

use crate::report::columns::{COLUMNS, Column};
use crate::report::sections::label;

/// Mark of the best value of a column.
const BEST: char = '*';

/// Returns the comparison of `runs` as text, with a line end behind each line. A figure that does
/// not apply is "–".
pub fn comparison(runs: &[Run]) -> String {
    let columns: Vec<_> =
        COLUMNS.iter().filter(|column| column.in_terminal).map(|column| Cells::of(column, runs)).collect();
    let labels: Vec<_> = (0..runs.len()).map(|index| label(runs, index)).collect();
    let names = labels.iter().map(|name| name.chars().count()).chain(["scheme".len()]).max().unwrap_or(0);

    let mut text = format!("{:names$}{}\n", "", groups(&columns));
    text += &line("scheme", names, columns.iter().map(|column| (column, column.title, false)));
    text += &line("", names, columns.iter().map(|column| (column, column.unit, false)));
    for (row, name) in labels.iter().enumerate() {
        text +=
            &line(name, names, columns.iter().map(|column| (column, column.rows[row].0.as_str(), column.rows[row].1)));
    }
    if columns.iter().any(|column| column.rows.iter().any(|(_, best)| *best)) {
        text += &format!("{BEST} best of its column   – does not apply\n");
    }
    text
}

/// Returns a line of the table: a name, then each column's text and, if the text is the best, the
/// mark.
fn line<'a>(name: &str, names: usize, cells: impl Iterator<Item = (&'a Cells, &'a str, bool)>) -> String {
    let mut line = format!("{name:names$}");
    for (column, text, best) in cells {
        line += &format!("  {text:>width$}{}", if best { BEST } else { ' ' }, width = column.width);
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// A column prepared for printing: its headings, its width, and for each run the text and whether
/// it is the best.
struct Cells {
    group: &'static str,
    title: &'static str,
    unit: &'static str,
    width: usize,
    rows: Vec<(String, bool)>,
}

impl Cells {
    fn of(column: &Column, runs: &[Run]) -> Self {
        let rows: Vec<_> = runs.iter().map(|run| column.shown(run)).zip(column.best(runs)).collect();
        let texts = rows.iter().map(|(text, _)| text.as_str()).chain([column.group, column.title, column.unit]);
        let width = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        Self { group: column.group, title: column.title, unit: column.unit, width, rows }
    }
}

/// Returns the line of group headings, each centred over its columns.
fn groups(columns: &[Cells]) -> String {
    let mut line = String::new();
    for group in columns.chunk_by(|a, b| a.group == b.group) {
        let width = group.iter().map(|column| column.width + 3).sum::<usize>() - 3;
        line += &match group {
            [alone] => format!("  {:>width$} ", alone.group),
            several => format!("  {:-^width$} ", format!(" {} ", several[0].group)),
        };
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn six_schemes_fit_120_columns() {
        let document = fixture::document();
        let table = comparison(&document.runs);
        for line in table.lines() {
            assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
        }
        assert_eq!(table.lines().count(), 3 + document.runs.len() + 1);
    }

    #[test]
    fn each_scheme_has_a_row_and_what_does_not_apply_is_a_dash() {
        let mut griffin = Run { scheme: "griffin".into(), write_savings: Some(0.3254), ..Run::default() };
        griffin.response_time_ms.read.mean = Some(0.25);
        griffin.devices.ssd.flash.lifetime_unlimited = Some(true);
        let mut hdd_only = Run { scheme: "hdd-only".into(), ..Run::default() };
        hdd_only.response_time_ms.read.mean = Some(12.0);
        let table = comparison(&[griffin, hdd_only]);
        let lines: Vec<_> = table.lines().collect();
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(cells(lines[3]), ["griffin", "0.250*", "–", "–", "–", "–", "–", "∞", "32.5", "–", "–", "–"]);
        assert_eq!(cells(lines[4])[..3], ["hdd-only", "12.0", "–"]);
        assert_eq!(lines[5], "* best of its column   – does not apply");
    }

    #[test]
    fn no_runs_give_headings_alone() {
        assert_eq!(comparison(&[]).lines().count(), 3);
    }
}
