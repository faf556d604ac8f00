//! The parts of the page that need no script: tables and lists, as HTML.

use std::collections::BTreeMap;

use bimetal_core::units::Bytes;
use bimetal_measure::text::{bytes, count, dollars, lifetime, milliseconds, percent, span, three_digits};
use bimetal_sim::findings::Finding;
use bimetal_sim::market::is_nominal;
use bimetal_sim::results::{Document, Member, MemberFigures, Run};

use crate::choices::cost_of_a_year;

use super::columns::{Better, COLUMNS, Column};
use super::escape::html;
use super::palette::inks;

/// Letters from which on a name may be broken into lines, as in `charts.js`.
const LONG: usize = 21;

/// Returns the name of a run's scheme with its colour beside it.
pub(crate) fn scheme(runs: &[Run], index: usize) -> String {
    let ink = inks(runs)[index];
    let hollow = if ink.dashed { " hollow" } else { "" };
    let label = label(runs, index);
    let mut name = html(&label);
    if label.chars().count() >= LONG {
        name = format!("<span class=\"long\">{name}</span>");
    }
    format!("<b class=\"scheme c{}{hollow}\">{name}</b>", ink.colour)
}

/// Returns the name of a run: its label, with a number if several runs have the label.
pub(crate) fn label(runs: &[Run], index: usize) -> String {
    let name = &runs[index].label;
    if runs.iter().filter(|run| run.label == *name).count() < 2 {
        return name.clone();
    }
    let number = runs[..index].iter().filter(|run| run.label == *name).count() + 1;
    format!("{name} {number}")
}

/// Findings that stand open.
const OPEN_MAX: usize = 2;

/// Returns findings as HTML: the first few open, the others for the reader to unfold. `lines` are
/// HTML, the most important first.
pub(crate) fn findings(lines: &[String]) -> String {
    let paragraphs = |lines: &[String]| -> String {
        lines.iter().map(|line| format!("<p class=\"caution\">{line}</p>\n")).collect()
    };
    let (open, folded) = lines.split_at(lines.len().min(OPEN_MAX));
    if folded.is_empty() {
        return paragraphs(open);
    }
    let plural = if folded.len() == 1 { "" } else { "s" };
    let warnings = match folded.iter().filter(|line| line.starts_with("warning: ")).count() {
        0 => String::new(),
        1 => ", with a warning".to_owned(),
        warnings => format!(", with {warnings} warnings"),
    };
    format!(
        "{}<details class=\"more\"><summary>{} more finding{plural}{warnings}</summary>\n{}</details>\n",
        paragraphs(open),
        folded.len(),
        paragraphs(folded)
    )
}

/// Returns the lines of the warnings and the lines of the notes, as HTML.
pub(crate) fn by_severity(findings: &[Finding]) -> (Vec<String>, Vec<String>) {
    let (notes, warnings): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.severity == "note");
    let lines = |findings: Vec<&Finding>| findings.iter().map(|finding| html(&finding.line())).collect();
    (lines(warnings), lines(notes))
}

/// Returns both blocks of runs, and the meaning of the columns.
pub(crate) fn comparisons(document: &Document) -> String {
    let (first, share) = document.blocks();
    let mut tables = comparison(first, "Comparison table");
    if !share.is_empty() {
        tables = format!("<h3>Drives on sale, at their whole prices</h3>\n{tables}");
        tables += &format!(
            "<h3>With an SSD of 10 % of the working set</h3>\n<p>An SSD that must give way to new blocks shows how the \
             schemes differ. Nobody sells a drive of that size: its price is that share of a drive’s price, and figures \
             compare within this table alone.</p>\n{}",
            comparison(share, "Comparison with a share of the working set")
        );
    }
    tables + &meanings(&document.runs)
}

/// Returns the columns for which at least one of the runs has a figure.
fn columns_of(runs: &[Run]) -> Vec<&'static Column> {
    let mut shown: Vec<_> =
        COLUMNS.iter().filter(|column| runs.iter().any(|run| (column.value)(run).is_some())).collect();
    // A wide table scrolls, and its price must be seen first.
    shown.sort_by_key(|column| column.group != "cost");
    shown
}

/// Text that explains the intervals.
const HALF: &str = "<dt>±</dt><dd>Half a 95 % interval: of 20 runs that differ only in what nobody can know (the places \
                    of the addresses on the drives, the phase of the platters, arrivals within a tick of the clock), 19 \
                    have a figure within it. 8.15 (17.2) is a figure whose interval reaches down to 0, with the end of \
                    the interval. A figure is marked as the best only if its lead is larger than the ± of \
                    both.</dd>";

/// Returns the meaning of each column, as a part of the page that the reader unfolds.
fn meanings(runs: &[Run]) -> String {
    let meaning = |column: &&Column| {
        let better = match column.better {
            Better::Lower => " <i>Lower is better.</i>",
            Better::Higher => " <i>Higher is better.</i>",
            Better::Neither => "",
        };
        format!("<dt>{} {}</dt><dd>{}{better}</dd>", column.group, column.title, html(column.meaning))
    };
    let meanings: String = columns_of(runs).iter().map(meaning).collect();
    let with_half = runs.iter().any(|run| run.response_time_ms.all.mean_pm.is_some());
    let half = if with_half { HALF } else { "" };
    format!("<details><summary>What the columns mean</summary><dl class=\"meanings\">{meanings}{half}</dl></details>")
}

/// Returns every figure of every run, sortable by any column, with the best values marked.
fn comparison(runs: &[Run], name: &str) -> String {
    let columns = columns_of(runs);
    let groups: String = columns
        .chunk_by(|a, b| a.group == b.group)
        .map(|group| format!("<th scope=\"colgroup\" colspan=\"{}\">{}</th>", group.len(), group[0].group))
        .collect();
    let headings: String = columns
        .iter()
        .map(|column| {
            let unit = if column.unit.is_empty() { "&nbsp;" } else { column.unit };
            let better = column.better.word();
            format!(
                "<th scope=\"col\"><button type=\"button\" class=\"sort\" data-better=\"{better}\" title=\"{}\">{}\
                 </button><small>{unit}</small></th>",
                html(column.meaning),
                column.title
            )
        })
        .collect();
    let best: Vec<_> = columns.iter().map(|column| column.best(runs)).collect();
    let rows: String = runs
        .iter()
        .enumerate()
        .map(|(row, run)| {
            let cells = columns.iter().zip(&best).map(|(column, best)| {
                let value = (column.value)(run).map_or_else(String::new, |value| format!(" data-value=\"{value}\""));
                let text = small_half(&html(&column.shown_with_half(run)));
                if best[row] {
                    format!("<td class=\"best\"{value}>{text}<span class=\"visually-hidden\"> (best)</span></td>")
                } else {
                    format!("<td{value}>{text}</td>")
                }
            });
            let cells: String = cells.collect();
            format!("<tr data-run=\"{row}\"><th scope=\"row\">{}</th>{cells}</tr>\n", scheme(runs, row))
        })
        .collect();
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{name}\"><table class=\"comparison\">\n\
         <thead><tr><td></td>{groups}</tr><tr><th scope=\"col\"><button type=\"button\" class=\"sort\" \
         data-better=\"lower\">scheme</button></th>{headings}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// Returns a figure with its interval in small print, so that the table is narrower.
fn small_half(text: &str) -> String {
    let Some((figure, half)) = text.split_once(' ').filter(|(_, half)| half.starts_with(['±', '('])) else {
        return text.to_owned();
    };
    format!("{figure} <small>{half}</small>")
}

/// Returns a summary of the trace, which shows a wrong unit of time, size or address.
pub(crate) fn trace(document: &Document) -> String {
    let trace = &document.trace;
    let mut rows = vec![
        ("Trace", html(&trace.name)),
        ("Format", html(&trace.format)),
        (
            "Requests",
            format!(
                "{}: {} reads, {} writes, {} flushes, {} discards",
                count(trace.requests),
                count(trace.reads),
                count(trace.writes),
                count(trace.flushes),
                count(trace.discards)
            ),
        ),
        ("Read", bytes(trace.read_bytes)),
        ("Written", bytes(trace.write_bytes)),
        ("Touched", format!("{} of distinct blocks", bytes(trace.footprint_bytes))),
        ("Time", format!("{} from first to last arrival", span(trace.duration_s))),
    ];
    if let Some(end) = trace.address_end_bytes {
        let exported = || document.runs.iter().map(|run| run.exported_bytes).filter(|exported| *exported > 0);
        let of = match (exported().min(), exported().max()) {
            (Some(least), Some(most)) if least < most => format!(", of {} to {} exported", bytes(least), bytes(most)),
            (Some(exported), _) => format!(", of {} exported", bytes(exported)),
            _ => String::new(),
        };
        rows.push(("Highest address", format!("{}{of}", bytes(end))));
    }
    rows.push(("Lines left out", count(trace.skipped_lines)));
    definitions(&rows)
}

/// Returns one run in full: its settings, its assumptions, its drives, and the figures for which
/// the table has no room.
pub(crate) fn configuration(document: &Document, index: usize) -> String {
    let run = &document.runs[index];
    let mut parts = format!("<details class=\"run\"><summary>{}</summary>\n", scheme(&document.runs, index));
    parts += &strings("Settings", "--set", &run.settings);
    parts += &strings("Options, wherever they came from", "--", &document.options);
    parts += &strings("Assumed, because not given", "", &run.assumed);
    parts += &members(&run.members);
    parts += &format!("<h4>More figures</h4>{}", definitions(&figures(run)));
    parts + "</details>\n"
}

fn strings(heading: &str, option: &str, map: &BTreeMap<String, String>) -> String {
    if map.is_empty() {
        return format!("<h4>{heading}</h4><p class=\"none\">None.</p>");
    }
    let rows: String = map
        .iter()
        .map(|(key, value)| {
            let prefix = match option {
                "" | "--" => option.to_owned(),
                option => format!("{option} "),
            };
            format!("<li><code>{prefix}{}={}</code></li>", html(key), html(value))
        })
        .collect();
    format!("<h4>{heading}</h4><ul class=\"settings\">{rows}</ul>")
}

fn members(members: &[Member]) -> String {
    if members.is_empty() {
        return String::new();
    }
    let rows: String = members
        .iter()
        .map(|member| {
            let provenance = &member.provenance;
            let (busy, written) = match &member.figures {
                MemberFigures::Ssd(figures) => (figures.busy_fraction, figures.write_bytes),
                MemberFigures::Hdd(figures) => (figures.busy_fraction, figures.write_bytes),
            };
            let price = [
                provenance.price_usd.map(|price| format!("${}", dollars(price))),
                provenance.price_date.as_deref().map(html),
                provenance.price_source.as_deref().map(source),
            ];
            let price: Vec<_> = price.into_iter().flatten().collect();
            let about: Vec<_> = [provenance.description.as_deref().map(html), provenance.source.as_deref().map(source)]
                .into_iter()
                .flatten()
                .collect();
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                 <td class=\"words\">{}</td><td class=\"words\">{}</td></tr>",
                html(&member.id),
                html(&member.role),
                html(&member.profile),
                size(member),
                bytes(member.metadata_bytes),
                written.map_or_else(dash, bytes),
                busy.map_or_else(dash, |busy| format!("{} %", percent(busy))),
                if about.is_empty() { dash() } else { about.join("<br>") },
                if price.is_empty() { dash() } else { price.join("<br>") },
            )
        })
        .collect();
    format!(
        "<h4>Drives</h4><div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Drives\"><table class=\"drives\">\
         <thead><tr><th scope=\"col\">id</th><th scope=\"col\">role</th><th scope=\"col\">profile</th><th scope=\"col\">size\
         </th><th scope=\"col\">metadata written</th><th scope=\"col\">written</th><th scope=\"col\">busy</th><th scope=\"col\">drive \
         and source of its figures</th><th scope=\"col\">price, date, source</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// Returns the size of a drive, and of which size it is a part if more was bought than is used.
fn size(member: &Member) -> String {
    let (used, bought) = (Bytes(member.bytes), Bytes(member.bought_bytes));
    let part = bought > used && !is_nominal(used, bought);
    let of = if part { format!(" of {}", bytes(bought.0)) } else { String::new() };
    bytes(used.0) + &of
}

/// Returns a source as the profile states it. An address is shown without a link, so the page leads
/// to no network.
fn source(text: &str) -> String {
    format!("<span class=\"source\">{}</span>", html(text))
}

fn dash() -> String {
    "–".to_owned()
}

/// Returns the figures of a run that have a line in this section and no column in the table.
fn figures(run: &Run) -> Vec<(&'static str, String)> {
    let mut rows = vec![("Exported", bytes(run.exported_bytes))];
    let mut add = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    let all = &run.response_time_ms.all;
    add("Response time, median", all.p50.map(milliseconds));
    add("Response time, p99.9", all.p999.map(milliseconds));
    add("Response time, p99.99", all.p9999.map(milliseconds));
    add("Response time, longest", all.max.map(milliseconds));
    add("Throughput", run.throughput.iops.map(|iops| format!("{} requests/s", three_digits(iops))));
    add("Throughput, bytes", run.throughput.mb_per_s.map(|rate| format!("{} MB/s", three_digits(rate))));
    add("Queue depth, mean", run.queue_depth_mean.map(three_digits));
    add("Migrations", run.migration.count.map(count));
    add("Migrated", run.migration.bytes.map(bytes));
    add("Between migrations, mean", run.migration.mean_interval_s.map(span));
    add("Size of a migration, mean", run.migration.mean_bytes.map(|mean| bytes(mean as u64)));
    add(
        "Writes to the SSD in sequence (Griffin 6.2)",
        run.ssd_write_sequentiality.map(|share| format!("{} % of pages", percent(share))),
    );
    let flash = &run.devices.ssd.flash;
    add("Flash pages programmed for the host", flash.pages_programmed_host.map(count));
    add("Flash pages programmed by garbage collection", flash.pages_programmed_gc.map(count));
    add("Flash blocks erased", flash.erases.map(count));
    let erases = &flash.erase_count;
    if let (Some(min), Some(mean), Some(max), Some(deviation)) = (erases.min, erases.mean, erases.max, erases.stddev) {
        let text =
            format!("{min} to {max}, mean {}, standard deviation {}", three_digits(mean), three_digits(deviation));
        add("Erases of a block", Some(text));
    }
    let listed = |amounts: &BTreeMap<String, f64>, unit: &str| {
        let some = amounts.iter().filter(|(_, amount)| **amount > 0.0);
        let each: Vec<_> =
            some.map(|(name, amount)| format!("{} {unit} {}", three_digits(*amount), html(name))).collect();
        (!each.is_empty()).then(|| each.join(", "))
    };
    add("Waits for a flash die, by what it did", listed(&flash.wait_s_by_cause, "s"));
    add("SSD energy by operation", listed(&flash.energy_j_by_operation, "J"));
    add("Lifetime by the writes that the maker warrants", flash.lifetime_years_warranted.map(lifetime));
    add("Lifetime by the rated cycles, in steady state", flash.lifetime_years_cycles.map(lifetime));
    let span = |(least, most)| format!("{} to {}", lifetime(least), lifetime(most));
    add("Lifetimes that the trace leaves possible", flash.lifetime_range_years.map(span));
    add("Drive writes a day", flash.dwpd.map(three_digits));
    add("SSD busy", run.devices.ssd.busy_fraction.map(|busy| format!("{} %", percent(busy))));
    add("SSD energy", run.devices.ssd.energy_j.map(|joules| format!("{} J", three_digits(joules))));
    let head_time = run.devices.hdd.disk_head_time.unwrap_or_default();
    add("Head time of the HDD, in seconds a second", head_time.mean.map(three_digits));
    add("Head time in the busiest ten minutes", head_time.peak_10min.map(three_digits));
    add("HDD seeks", run.devices.hdd.seeks.map(count));
    add("HDD energy", run.devices.hdd.energy_j.map(|joules| format!("{} J", three_digits(joules))));
    add("Price of the SSD", run.cost.ssd_usd.map(|price| format!("${}", dollars(price))));
    add("Price of the HDD", run.cost.hdd_usd.map(|price| format!("${}", dollars(price))));
    add("Price of an exported GB", run.cost.usd_per_gb.map(|price| format!("${}", three_digits(price))));
    add("Cost of a year: drives, successors, energy", cost_of_a_year(run));
    let loss = run.cost.loss_probability_per_year.map(|loss| format!("{} %", three_digits(100.0 * loss)));
    add("Probability of a loss of data in a year", loss);
    let carbon = run.cost.embodied_carbon_kg.map(|kg| format!("{} to {} kg", three_digits(kg[0]), three_digits(kg[1])));
    add("Carbon dioxide of making the drives, by differing sources", carbon);
    add("Score (MB/s, closed replay)", run.cost.score.map(three_digits));
    add("Score per dollar", run.cost.score_per_usd.map(three_digits));
    add("Score per dollar of the manager alone", run.cost.score_per_manager_usd.map(three_digits));
    let bypass: Vec<_> =
        run.bypass.iter().map(|(reason, blocks)| format!("{} {}", count(*blocks), html(reason))).collect();
    add("Blocks that bypassed the cache", (!bypass.is_empty()).then(|| bypass.join(", ")));
    rows
}

/// Returns a list of pairs: a plain name and HTML.
fn definitions(rows: &[(&str, String)]) -> String {
    let rows: String = rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>")).collect();
    format!("<dl class=\"facts\">{rows}</dl>")
}

/// Returns text with a capital in front.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
