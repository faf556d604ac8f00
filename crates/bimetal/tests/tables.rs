//! `--csv` and `--markdown`: every table has a cell for each column of each row.

use std::path::Path;
use std::process::Command;

fn printed(line: &str, form: &str) -> String {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let trace = |name: &str| traces.join(format!("{name}.bin.zst")).display().to_string();
    let line = line.replace("SQLITE", &trace("sqlite")).replace("START", &trace("program-start"));
    let output = Command::new(env!("CARGO_BIN_EXE_bimetal"))
        .args(line.split_whitespace())
        .arg(form)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a table is UTF-8")
}

/// Returns the cells of a line of comma-separated values.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("a line has a cell").push(character),
        }
    }
    cells
}

/// Commands with the number of their rows in comma-separated values; a smallest number, if the
/// number follows from data that grow.
const TABLES: &[(&str, usize)] = &[
    ("analyze SQLITE --limit 2000", 1),
    ("mrc SQLITE --limit 2000 --policies lru,arc --sizes 1%,10%,64MiB", 6),
    ("simulate SQLITE --limit 500 --scheme bcache", 1),
    ("compare SQLITE START --limit 500 --runs 1 --schemes hdd-only,bcache --ssd-size 1GiB", 4),
    ("plan SQLITE --limit 500 --schemes ssd-only,hdd-only --latency p99<1s", 20),
    ("profiles", 20),
    ("catalog show", 40),
    ("validate SQLITE --limit 1000 --hdd seagate-barracuda-7200.12-1tb", 3),
    ("reproduce combo", 14),
];

#[test]
fn every_row_has_a_cell_for_each_column() {
    for (line, rows) in TABLES {
        let csv = printed(line, "--csv");
        let lines: Vec<Vec<String>> = csv.lines().map(cells).collect();
        let width = lines[0].len();
        assert!(lines.iter().all(|cells| cells.len() == width), "{line}: {csv}");
        assert!(lines[0].iter().all(|heading| !heading.is_empty() && !heading.contains(' ')), "{line}: {csv}");
        let found = lines.len() - 1;
        assert!(if *rows < 20 { found == *rows } else { found >= *rows }, "{line}: {found} rows");
        let markdown = printed(line, "--markdown");
        let tables: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(tables.len() > 2 && tables.iter().all(|line| bars(line) == bars(tables[0])), "{line}: {markdown}");
    }
}

#[test]
fn plan_has_a_row_with_figures_or_a_reason_for_each_option() {
    let csv = printed("plan SQLITE --limit 500 --schemes ssd-only,hdd-only --latency p99<1s", "--csv");
    let mut lines = csv.lines().map(cells);
    let headings = lines.next().expect("headings");
    let column = |name: &str| headings.iter().position(|heading| heading == name).unwrap_or_else(|| panic!("{name}"));
    let (p99, why, life) = (column("p99_ms"), column("why_not"), column("life_years"));
    let rows: Vec<Vec<String>> = lines.collect();
    assert!(rows[0][why].is_empty() && rows[0][p99].parse::<f64>().is_ok(), "{:?}", rows[0]);
    assert!(rows.iter().all(|row| !row[p99].is_empty() || !row[why].is_empty()));
    assert!(rows.iter().any(|row| row[life].parse::<f64>().is_ok_and(|years| years > 0.0)), "{csv}");
}

/// Regression: the text of a plan had the range of a response time, and its table had not.
#[test]
fn plan_has_the_range_of_a_time_with_a_budget() {
    let csv = printed("plan SQLITE --limit 500 --schemes hdd-only --latency p99<1s", "--csv");
    let rows: Vec<Vec<String>> = csv.lines().map(cells).collect();
    let column = |name: &str| rows[0].iter().position(|heading| heading == name).unwrap_or_else(|| panic!("{name}"));
    let number = |row: usize, name: &str| rows[row][column(name)].parse::<f64>().ok();
    let range = |row: usize| Some((number(row, "p99_least_ms")?, number(row, "p99_ms")?, number(row, "p99_most_ms")?));
    let ranges: Vec<(f64, f64, f64)> = (1..rows.len()).filter_map(range).collect();
    assert!(ranges.iter().all(|(least, p99, most)| least <= p99 && p99 <= most), "{ranges:?}");
    assert!(ranges.iter().any(|(least, _, most)| least < most), "{ranges:?}");
    let others = (number(1, "read_p99_least_ms"), number(1, "mean_most_ms"));
    assert_eq!(others, (None, None), "they have no budget");
}

#[test]
fn sweep_status_has_a_row_for_each_grid() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tables-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.bin.zst").display().to_string();
    for (name, schemes) in [("one", "['hdd-only']"), ("two", "['hdd-only', 'bcache']")] {
        let grid = folder.join(format!("{name}.toml"));
        std::fs::write(&grid, format!("traces = '{trace}'\nschemes = {schemes}\nlimit = 100\n")).expect("a grid");
        let answer = printed(&format!("sweep {} -o {}", grid.display(), folder.join("done").display()), "--json");
        assert!(answer.contains("\"done_before\": "), "{answer}");
    }
    let csv = printed(&format!("sweep status {}", folder.join("done").display()), "--csv");
    let rows: Vec<Vec<String>> = csv.lines().map(cells).collect();
    assert_eq!(rows[0], ["grid", "engine", "jobs", "done", "left_out", "failed", "open", "shards"]);
    let mut counts: Vec<&[String]> = rows[1..].iter().map(|row| &row[2..7]).collect();
    counts.sort();
    assert_eq!(counts, [["1", "1", "0", "0", "0"], ["2", "2", "0", "0", "0"]]);
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}

#[test]
fn tables_of_several_traces_begin_with_the_trace() {
    let csv = printed("compare SQLITE START --limit 500 --runs 1 --schemes hdd-only,bcache --ssd-size 1GiB", "--csv");
    let traces: Vec<String> = csv.lines().filter_map(|line| cells(line).into_iter().next()).collect();
    assert_eq!(traces[0], "trace");
    assert!(traces[1].ends_with("sqlite.bin.zst") && traces[1] == traces[2], "{traces:?}");
    assert!(traces[3].ends_with("program-start.bin.zst") && traces[3] == traces[4], "{traces:?}");
}
