//! The table of a comparison for other programs: comma-separated values, and Markdown.

use bimetal_plan::answer::{counted, without_size};
use bimetal_sim::results::{Document, Member, Run};

use crate::report::columns::{COLUMNS, Column};
use crate::report::sections::label;
use crate::sheet::{Cell, Sheet, markdown_line};
use crate::table::explanation;

/// Headings of the ends of the range of a life.
const LIFE_ENDS: [&str; 2] = ["ssd_life_least_years", "ssd_life_most_years"];

/// Headings of what is built, of what it costs a year, and of how often it loses data.
const BUILT: [&str; 7] =
    ["ssd", "hdd", "hdd_size_gb", "capacity_gb", "usd_per_year", "usd_per_year_most", "loss_probability_per_year"];

/// Returns a row for each run of both blocks: plain numbers in the unit of their heading, shares
/// from 0 to 1, and an empty cell for a figure that does not apply. Half the 95 % interval of a
/// figure stands in the next column. A life has the figure of the JSON, and both ends of its range
/// in the next two columns.
pub(crate) fn csv(document: &Document) -> String {
    sheet(document).csv()
}

/// Returns the rows of [`csv`] for each trace, with the name of the trace in front.
pub(crate) fn csv_of_traces(documents: &[Document]) -> String {
    let mut all = Sheet::default();
    documents.iter().for_each(|document| {
        all.append(sheet(document).labelled("trace", &document.trace.name.as_str().into()));
    });
    all.csv()
}

fn sheet(document: &Document) -> Sheet {
    let headings = COLUMNS.iter().flat_map(|column| {
        let heading = heading(column);
        let half = column.half.map(|_| format!("{heading}_pm"));
        let ends = column.range.map(|_| LIFE_ENDS.map(str::to_owned));
        std::iter::once(heading).chain(half).chain(ends.into_iter().flatten())
    });
    let mut sheet = Sheet::new(
        ["scheme".to_owned(), "sizing".to_owned()].into_iter().chain(headings).chain(BUILT.map(str::to_owned)),
    );
    let (first, share) = document.blocks();
    for runs in [first, share] {
        for (at, run) in runs.iter().enumerate() {
            let sizing = format!("{:?}", run.sizing).to_lowercase();
            let figures = COLUMNS.iter().flat_map(|column| {
                let half = column.half.map(|half| Cell::from(half(run)));
                let ends = column.range.map(|range| range(run).unzip()).map(|(least, most)| [least, most]);
                let value = if ends.is_some() { run.devices.ssd.flash.lifetime_years } else { (column.value)(run) };
                std::iter::once(Cell::from(value)).chain(half).chain(ends.into_iter().flatten().map(Cell::from))
            });
            sheet.push([label(runs, at).into(), sizing.into()].into_iter().chain(figures).chain(built(run)));
        }
    }
    sheet
}

/// Returns the cells under [`BUILT`].
fn built(run: &Run) -> [Cell; 7] {
    let name = |drive: &Option<String>| Cell::from(drive.as_deref().unwrap_or_default());
    let gigabytes = |bytes: u64| Some(bytes as f64 / 1e9).filter(|size| *size > 0.0);
    let hdd_size = run.hdd_bytes.and_then(gigabytes);
    let capacity = gigabytes(run.exported_bytes);
    let cost = [run.cost.usd_per_year, run.cost.usd_per_year_most, run.cost.loss_probability_per_year];
    let [year, most, loss] = cost.map(Cell::from);
    [name(&run.ssd), name(&run.hdd), hdd_size.into(), capacity.into(), year, most, loss]
}

/// Returns the drives of a run, like `crucial-p310 500 GB and seagate-exos-x24 24 TB`.
fn drives(run: &Run) -> String {
    let drive = |member: &Member| counted(member.drives, without_size(&member.profile), member.bought_bytes);
    run.members.iter().map(drive).collect::<Vec<_>>().join(" and ")
}

/// Returns the tables of each trace under its name.
pub(crate) fn markdown_of_traces(documents: &[Document]) -> String {
    let tables = documents.iter().map(|document| format!("**{}**\n\n{}", document.trace.name, markdown(document)));
    tables.collect::<Vec<_>>().join("\n")
}

/// Returns both blocks as tables, with the columns and the marks of the terminal's table.
pub(crate) fn markdown(document: &Document) -> String {
    let (first, share) = document.blocks();
    let mut text = markdown_of(first);
    if !share.is_empty() {
        text +=
            &format!("\nWith an SSD of 10 % of the working set, at that share of its price:\n\n{}", markdown_of(share));
    }
    let explained = explanation(&document.runs, text.lines().filter(|line| line.starts_with("| `")));
    // Markdown joins lines, unless a line is empty.
    explained.lines().for_each(|line| text += &format!("\n{line}\n"));
    text
}

fn markdown_of(runs: &[Run]) -> String {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| column.in_terminal).collect();
    let heading = |column: &&Column| format!("{} {} {}", column.group, column.title, column.unit).trim_end().to_owned();
    let mut text = markdown_line(
        std::iter::once("scheme".to_owned()).chain(columns.iter().map(heading)).chain(["drives".to_owned()]),
    );
    text += &format!("|---|{}---|\n", "---:|".repeat(columns.len()));
    let best: Vec<Vec<bool>> = columns.iter().map(|column| column.best(runs)).collect();
    for (at, run) in runs.iter().enumerate() {
        let cells = columns.iter().zip(&best).map(|(column, best)| {
            let shown = column.shown_with_half(run);
            if best[at] { format!("**{shown}**") } else { shown }
        });
        text += &markdown_line(std::iter::once(format!("`{}`", label(runs, at))).chain(cells).chain([drives(run)]));
    }
    text
}

/// Returns the name of a column with its unit, like `read_mean_ms`.
fn heading(column: &Column) -> String {
    let unit = match (column.unit, column.title) {
        ("%", _) => "share",
        ("$", _) => "usd",
        ("", "life") => "years",
        (unit, _) => unit,
    };
    [column.group, column.title, unit]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("_")
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_sim::setup::Sizing;

    fn document() -> Document {
        let run = |scheme: &str, sizing, mean, usd| {
            let mut run = Run { sizing, ..Run::named(scheme) };
            (run.response_time_ms.read.mean, run.cost.total_usd) = (mean, Some(usd));
            run.ssd_hit_ratio.read = Some(0.25);
            run
        };
        let mut runs = vec![
            run("smq", Sizing::Sold, Some(0.123_456_789_12), 170.0),
            run("a,\"b\"", Sizing::Sold, None, 80.0),
            run("smq", Sizing::Share, Some(2.0), 80.5),
        ];
        (runs[0].response_time_ms.read.mean_pm, runs[0].response_time_ms.all.mean_pm) = (Some(0.01), Some(0.01));
        (runs[0].ssd, runs[0].hdd, runs[0].hdd_bytes) = (Some("p".into()), Some("q".into()), Some(8_000_000_000_000));
        Document { runs, ..Document::default() }
    }

    #[test]
    fn csv_has_plain_numbers_and_a_row_for_each_run() {
        let text = csv(&document());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "scheme,sizing,read_mean_ms,read_mean_ms_pm,read_p99_ms,read_p99_ms_pm,write_mean_ms,write_mean_ms_pm,\
             write_p99_ms,write_p99_ms_pm,all_mean_ms,all_mean_ms_pm,all_p99_ms,all_p99_ms_pm,ssd_size_gb,\
             ssd_written_gib,ssd_written_gib_pm,ssd_wa,ssd_wa_pm,ssd_life_years,ssd_life_least_years,\
             ssd_life_most_years,ssd_saved_share,ssd_penalty_share,hits_read_share,hits_read_share_pm,hits_write_share,hits_write_share_pm,hdd_busy_share,\
             hdd_busy_share_pm,cost_ssd_usd,cost_total_usd,ssd,hdd,hdd_size_gb,capacity_gb,usd_per_year,\
             usd_per_year_most,loss_probability_per_year"
        );
        assert_eq!(lines[1], "smq,sold,0.123456789,0.01,,,,,,,,0.01,,,,,,,,,,,,,0.25,,,,,,,170,p,q,8000,,,,");
        assert_eq!(lines[2], "\"a,\"\"b\"\"\",sold,,,,,,,,,,,,,,,,,,,,,,,0.25,,,,,,,80,,,,,,,");
        assert_eq!((lines[3], lines.len()), ("smq,share,2,,,,,,,,,,,,,,,,,,,,,,0.25,,,,,,,80.5,,,,,,,", 4));
    }

    /// Regression: the life in the table was the short end of the range, the life in the JSON was
    /// not, and the long end stood nowhere.
    #[test]
    fn csv_has_the_life_of_the_json_and_both_its_ends() {
        let mut document = document();
        let flash = &mut document.runs[0].devices.ssd.flash;
        (flash.lifetime_years, flash.lifetime_range_years) = (Some(40.2), Some((29.7, 40.4)));
        document.runs[1].devices.ssd.flash.lifetime_years = Some(3.5);
        let text = csv(&document);
        assert!(text.contains(",40.2,29.7,40.4,") && text.contains(",3.5,3.5,3.5,"), "{text}");
    }

    /// Regression: the JSON had the upper end of the cost of a year and the probability of a loss,
    /// and the table had not.
    #[test]
    fn csv_has_both_costs_of_a_year_and_the_loss_of_data() {
        let mut document = document();
        let cost = &mut document.runs[0].cost;
        (cost.usd_per_year, cost.usd_per_year_most, cost.loss_probability_per_year) =
            (Some(20.5), Some(31.0), Some(0.01));
        let text = csv(&document);
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with(",20.5,31,0.01")), "{text}");
    }

    #[test]
    fn markdown_marks_the_best_of_each_block() {
        let text = markdown(&document());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("| scheme | read mean ms | read p99 ms |"), "{text}");
        assert_eq!(lines[0].matches('|').count(), lines[1].matches('|').count());
        assert!(lines[2].starts_with("| `smq` | 0.123 ± 0.01 |") && lines[2].ends_with(" 170 |  |"), "{text}");
        assert!(lines[3].ends_with(" **80.00** |  |"), "{text}");
        assert!(text.contains("With an SSD of 10 %") && text.contains(" 80.50 |"), "{text}");
        assert!(text.contains("\n\n± half a 95 % interval") && !text.contains("(…)"), "{text}");
    }

    /// Regression: nothing below a table in Markdown said what a figure in brackets is.
    #[test]
    fn markdown_explains_intervals_that_reach_down_to_zero() {
        let mut document = document();
        document.runs[0].response_time_ms.read.mean_pm = Some(0.2);
        let text = markdown(&document);
        assert!(text.contains("| `smq` | 0.123 (0.323) |") && text.ends_with("reaches down to 0\n"), "{text}");
    }
}
