//! A table for other programs: comma-separated values with plain numbers, or Markdown. Every
//! command with `--csv` and `--markdown` makes its table in this module; `compare` adds marks to
//! its Markdown.

use bimetal_measure::json::{FIGURE_DIGITS, round_to_digits};
use bimetal_measure::text::short;
use bimetal_sim::csv;

/// Mark of a figure that does not apply, in Markdown.
const NOTHING: &str = "–";

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Text.
    Text(String),
    /// A figure in the unit of its heading; `None` if the figure does not apply.
    Number(Option<f64>),
    /// A count, with all digits.
    Count(u64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<f64>> for Cell {
    fn from(figure: Option<f64>) -> Self {
        Self::Number(figure.filter(|figure| figure.is_finite()))
    }
}

impl From<f64> for Cell {
    fn from(figure: f64) -> Self {
        Some(figure).into()
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<Option<u64>> for Cell {
    fn from(count: Option<u64>) -> Self {
        count.map_or(Self::Number(None), Self::Count)
    }
}

impl Cell {
    /// Returns the cell with a plain number, of as many digits as the JSON has.
    fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(figure) => figure.map_or_else(String::new, number),
            Self::Count(count) => count.to_string(),
        }
    }

    /// Returns the cell for readers.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) if text.is_empty() => NOTHING.to_owned(),
            Self::Text(text) => escaped(text),
            Self::Number(figure) => figure.map_or_else(|| NOTHING.to_owned(), short),
            Self::Count(count) => count.to_string(),
        }
    }
}

/// A table: a name for each column, and a cell for each column of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sheet {
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// Creates a table without rows.
    pub(crate) fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        let row: Vec<Cell> = row.into_iter().collect();
        debug_assert_eq!(row.len(), self.headings.len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// Adds a column before the other columns, with the same `cell` in each row.
    pub(crate) fn labelled(mut self, heading: &str, cell: &Cell) -> Self {
        self.headings.insert(0, heading.to_owned());
        self.rows.iter_mut().for_each(|row| row.insert(0, cell.clone()));
        self
    }

    /// Adds the rows of `other`, which has the same columns.
    pub(crate) fn append(&mut self, other: Self) {
        if self.headings.is_empty() {
            self.headings = other.headings;
        }
        self.rows.extend(other.rows);
    }

    /// Returns the table with a row for each column, `figure` and `value`: for a table of one row.
    pub(crate) fn transposed(&self) -> Self {
        let mut turned = Self::new(["figure", "value"]);
        for (at, heading) in self.headings.iter().enumerate() {
            for row in &self.rows {
                turned.push([heading.as_str().into(), row[at].clone()]);
            }
        }
        turned
    }

    /// Returns the table as comma-separated values. A figure that does not apply is an empty cell.
    pub(crate) fn csv(&self) -> String {
        let mut text = csv::line(self.headings.iter().cloned());
        for row in &self.rows {
            text += &csv::line(row.iter().map(Cell::plain));
        }
        text
    }

    /// Returns the table in Markdown, with numbers aligned to the right.
    pub(crate) fn markdown(&self) -> String {
        let is_text = |at: usize| self.rows.iter().any(|row| matches!(row[at], Cell::Text(_)));
        let align = (0..self.headings.len()).map(|at| if is_text(at) { "---|" } else { "---:|" });
        let mut text = markdown_line(self.headings.iter().map(|heading| escaped(heading)));
        text += &format!("|{}\n", align.collect::<String>());
        for row in &self.rows {
            text += &markdown_line(row.iter().map(Cell::shown));
        }
        text
    }
}

/// Returns a line of a table in Markdown.
pub(crate) fn markdown_line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// Returns `text` in a form that ends neither its cell nor its line.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Returns a number with as many digits as the JSON has.
fn number(value: f64) -> String {
    round_to_digits(value, FIGURE_DIGITS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new(["name", "mean_ms", "bytes"]);
        sheet.push(["a,\"b\"|c".into(), Cell::from(0.123_456_789_12), Cell::from(1_000_204_886_016_u64)]);
        sheet.push(["".into(), Cell::from(f64::INFINITY), Cell::from(None::<u64>)]);
        sheet
    }

    #[test]
    fn csv_has_plain_numbers_and_empty_cells() {
        assert_eq!(sheet().csv(), "name,mean_ms,bytes\n\"a,\"\"b\"\"|c\",0.123456789,1000204886016\n,,\n");
    }

    #[test]
    fn markdown_escapes_text_and_puts_numbers_right() {
        assert_eq!(
            sheet().markdown(),
            "| name | mean_ms | bytes |\n|---|---:|---:|\n| a,\"b\"\\|c | 0.1235 | 1000204886016 |\n| – | – | – |\n"
        );
    }

    #[test]
    fn column_in_front_and_rows_of_another_table_are_added() {
        let mut all = Sheet::default();
        for trace in ["one", "two"] {
            all.append(sheet().labelled("trace", &trace.into()));
        }
        let csv = all.csv();
        assert!(csv.starts_with("trace,name,mean_ms,bytes\none,") && csv.contains("\ntwo,,,\n"), "{csv}");
        assert_eq!(csv.lines().count(), 5);
    }

    #[test]
    fn transposed_table_has_a_row_for_each_figure() {
        let mut one = Sheet::new(["requests", "share"]);
        one.push([Cell::from(7_u64), Cell::from(0.5)]);
        assert_eq!(one.transposed().csv(), "figure,value\nrequests,7\nshare,0.5\n");
    }
}
