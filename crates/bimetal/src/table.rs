//! The table that `compare` prints: a row per scheme, the best value of each column marked, at most
//! 120 columns wide.

use std::collections::BTreeSet;

use bimetal_sim::results::{Document, Run};

use crate::life::below_table;
use crate::prices;
use crate::report::columns::{COLUMNS, Column};
use crate::report::sections::label;

/// Mark of the best value of a column.
const BEST: char = '*';

/// Heading of the runs with drives on sale, in a table that also has runs with a share of the
/// working set.
const SOLD: &str = "drives on sale, at their whole prices:";

/// Heading of the runs with a share of the working set.
const SHARE: &str = "with an SSD of 10 % of the working set, at that share of its price (nobody sells such a drive):";

/// Longest name that stands in the line of its figures; a longer name has its own line above.
const NAME_MAX: usize = 28;

/// Largest number of columns of a line.
const WIDTH_MAX: usize = 120;

/// Columns that are left out of a table that is too wide; the first column of the list is left out
/// first. The price of the SSD goes last: a reader buys it.
const LEFT_OUT: [(&str, &str); 6] =
    [("SSD", "WA"), ("HDD", "busy"), ("write", "p99"), ("hits", "read"), ("SSD", "written"), ("cost", "SSD")];

/// Explanation of the intervals.
const UNCERTAINTY: &str =
    "± half a 95 % interval over what nobody knows: places on the drives, phase of the platters, ticks of the clock\n";

/// Explanation of the intervals that reach down to 0.
const DOWN_TO_ZERO: &str = "(…) the end of an interval that reaches down to 0\n";

/// Returns the explanation of the intervals in the shown figures of `runs`; empty if there are
/// none.
pub(crate) fn explanation<'a>(runs: &[Run], mut shown: impl Iterator<Item = &'a str>) -> String {
    if runs.iter().all(|run| run.response_time_ms.all.mean_pm.is_none()) {
        return String::new();
    }
    let down_to_zero = if shown.any(|shown| shown.contains('(')) { DOWN_TO_ZERO } else { "" };
    format!("{UNCERTAINTY}{down_to_zero}")
}

/// Returns the tables of a document, one for each block of runs that compare with each other, and
/// the drives behind them.
pub fn blocks(document: &Document) -> String {
    let tables = match document.blocks() {
        (runs, []) => comparison(runs),
        (sold, share) => {
            format!("{SOLD}\n{}\n{SHARE}\n{}{}", comparison(sold), comparison(share), whole_drives(sold, share))
        }
    };
    tables + &drives(&document.runs)
}

/// Returns a line with the schemes whose SSD is the whole drive also in the block `share`, as in
/// the block `sold`; an empty text if there are none.
fn whole_drives(sold: &[Run], share: &[Run]) -> String {
    let is_whole = |run: &&Run| {
        let is_equal = |other: &Run| (&other.label, other.ssd_bytes) == (&run.label, run.ssd_bytes);
        run.ssd_bytes.is_some() && sold.iter().any(is_equal)
    };
    let names: Vec<&str> = share.iter().filter(is_whole).map(|run| &*run.label).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("the SSD is a whole drive of {}: blocks whose home is the SSD need room there\n", names.join(", "))
}

/// Returns a line with the models of the drives and the dates of their prices; an empty text
/// without drives.
fn drives(runs: &[Run]) -> String {
    let mut models: Vec<&str> = Vec::new();
    for member in runs.iter().flat_map(|run| &run.members) {
        if !models.contains(&member.profile.as_str()) {
            models.push(&member.profile);
        }
    }
    let dates: BTreeSet<&str> = prices::dates(runs).collect();
    let period = dates.first().zip(dates.last()).map(|(oldest, newest)| prices::period(oldest, newest));
    let prices = period.map_or_else(String::new, |period| format!("; prices {period}"));
    if models.is_empty() { String::new() } else { format!("drives: {}{prices}\n", models.join(", ")) }
}

/// Returns the comparison of `runs` as text, with a line end after each line. A figure that does
/// not apply is "–".
pub fn comparison(runs: &[Run]) -> String {
    let mut columns: Vec<_> =
        COLUMNS.iter().filter(|column| column.in_terminal).map(|column| Cells::of(column, runs)).collect();
    let labels: Vec<_> = (0..runs.len()).map(|index| label(runs, index)).collect();
    let short = labels.iter().map(|name| name.chars().count()).filter(|length| *length <= NAME_MAX);
    let names = short.chain(["scheme".len()]).max().unwrap_or(0);
    let width = |columns: &[Cells]| names + columns.iter().map(|column| column.width + 3).sum::<usize>();
    let mut left_out = Vec::new();
    for (group, title) in LEFT_OUT {
        if width(&columns) > WIDTH_MAX {
            columns.retain(|column| (column.group, column.title) != (group, title));
            left_out.push(format!("{group} {title}"));
        }
    }

    let mut text = format!("{:names$}{}\n", "", groups(&columns));
    text += &line("scheme", names, columns.iter().map(|column| (column, column.title, false)));
    text += &line("", names, columns.iter().map(|column| (column, column.unit, false)));
    for (row, label) in labels.iter().enumerate() {
        let is_long = label.chars().count() > NAME_MAX;
        if is_long {
            text += &format!("{label}\n");
        }
        let name = if is_long { "" } else { label };
        text +=
            &line(name, names, columns.iter().map(|column| (column, column.rows[row].0.as_str(), column.rows[row].1)));
    }
    if columns.iter().any(|column| column.rows.iter().any(|(_, best)| *best)) {
        let among = if runs.iter().any(|run| run.no_choice.is_some()) { ", of the runs that are a choice" } else { "" };
        text += &format!("{BEST} best of its column{among}   – does not apply\n");
    }
    text += &explanation(runs, columns.iter().flat_map(|column| &column.rows).map(|(shown, _)| shown.as_str()));
    if !left_out.is_empty() {
        text += &format!("without {}, for which the line has no room (--csv, --markdown)\n", left_out.join(", "));
    }
    text + &below_table(runs)
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

/// A column prepared for printing: its headings, its width, and for each run the text and true if
/// the text is the best of the column.
struct Cells {
    group: &'static str,
    title: &'static str,
    unit: &'static str,
    width: usize,
    rows: Vec<(String, bool)>,
}

impl Cells {
    fn of(column: &Column, runs: &[Run]) -> Self {
        let rows: Vec<_> = runs.iter().map(|run| column.shown_with_half(run)).zip(column.best(runs)).collect();
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
    use bimetal_sim::findings::NoChoice;
    use bimetal_sim::lifetime::Unknown;
    use bimetal_sim::setup::Sizing;

    #[test]
    fn six_schemes_fit_120_columns() {
        let document = fixture::document();
        let table = comparison(&document.runs);
        for line in table.lines() {
            assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
        }
        // Headings, runs, the legend, the columns without room, and the limit of the lives.
        assert_eq!(table.lines().count(), 3 + document.runs.len() + 3);
    }

    #[test]
    fn each_scheme_has_a_row_and_what_does_not_apply_is_a_dash() {
        let mut griffin = Run { write_savings: Some(0.3254), ..Run::named("griffin") };
        griffin.response_time_ms.read.mean = Some(0.25);
        griffin.devices.ssd.flash.lifetime_unknown = Some(Unknown::NothingErased);
        let mut hdd_only = Run::named("hdd-only");
        hdd_only.response_time_ms.read.mean = Some(12.0);
        let table = comparison(&[griffin, hdd_only]);
        let lines: Vec<_> = table.lines().collect();
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(cells(lines[3]), ["griffin", "0.250*", "–", "–", "–", "–", "–", "–", "–", "?", "–", "–", "–", "–"]);
        assert_eq!(cells(lines[4])[..3], ["hdd-only", "12.0", "–"]);
        assert_eq!(lines[5], "* best of its column   – does not apply");
        assert!(lines[6].starts_with("? life of griffin: nothing was erased"), "{table}");
    }

    #[test]
    fn wide_table_leaves_columns_out_and_names_them() {
        let mut runs = fixture::document().runs;
        for run in &mut runs {
            let times = &mut run.response_time_ms;
            for times in [&mut times.all, &mut times.read, &mut times.write] {
                (times.mean_pm, times.p99_pm) = (times.mean.map(|mean| mean / 11.0), times.p99.map(|p99| p99 / 11.0));
            }
        }
        let table = comparison(&runs);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{table}");
        assert!(table.contains("\nwithout SSD WA, HDD busy") && table.contains(UNCERTAINTY), "{table}");
        assert!(!table.contains("  WA") && table.contains(" ± "), "{table}");
    }

    /// A star stood beside a life of 0.4 years, and another run of the column had 127 years.
    #[test]
    fn star_says_that_it_is_among_the_choices() {
        let run = |scheme: &str, mean| {
            let mut run = Run::named(scheme);
            run.response_time_ms.read.mean = Some(mean);
            run
        };
        let mut runs = [run("smq", 3.0), run("hdd-only", 5.0), run("griffin", 1.0)];
        assert!(comparison(&runs).contains("* best of its column   –"));
        runs[2].no_choice = Some(NoChoice::NothingWrittenHome);
        let table = comparison(&runs);
        assert!(
            table.contains("* best of its column, of the runs that are a choice   –") && table.contains("3.00*"),
            "{table}"
        );
    }

    /// Regression: the cheapest scheme of all was a tie of twelve shares of a drive.
    #[test]
    fn best_of_a_block_competes_within_the_block() {
        let run = |scheme: &str, sizing, usd| {
            let mut run = Run { sizing, ..Run::named(scheme) };
            run.cost.total_usd = Some(usd);
            run
        };
        let runs = vec![
            run("smq", Sizing::Sold, 170.0),
            run("hdd-only", Sizing::Sold, 150.0),
            run("smq", Sizing::Share, 81.0),
            run("combo", Sizing::Share, 82.0),
        ];
        let text = blocks(&Document { runs: runs.clone(), ..Document::default() });
        let (sold, share) = text.split_once(SHARE).expect("two blocks");
        assert!(sold.contains("150*") && !sold.contains("170*") && share.contains("81.00*"), "{text}");
        let one = blocks(&Document { runs: runs[..2].to_vec(), ..Document::default() });
        assert!(!one.contains(SOLD), "one block needs no heading: {one}");
    }

    /// Regression: below a heading of 10 %, two schemes had the figures of a whole drive, without a
    /// word.
    #[test]
    fn whole_drives_in_the_block_of_shares_are_named() {
        let run = |scheme: &str, sizing, ssd_bytes| Run { sizing, ssd_bytes, ..Run::named(scheme) };
        let block = |sizing, smq| {
            [run("hdd-only", sizing, None), run("griffin", sizing, Some(500)), run("smq", sizing, Some(smq))]
        };
        let runs = |smq| [block(Sizing::Sold, 500), block(Sizing::Share, smq)].concat();
        let text = blocks(&Document { runs: runs(20), ..Document::default() });
        assert!(text.contains("the SSD is a whole drive of griffin: "), "{text}");
        let text = blocks(&Document { runs: runs(500), ..Document::default() });
        assert!(text.contains("the SSD is a whole drive of griffin, smq: "), "{text}");
    }

    #[test]
    fn no_runs_give_headings_alone() {
        assert_eq!(comparison(&[]).lines().count(), 3);
    }
}
