//! Lines of comma-separated values, for tables that spreadsheets read.

/// Returns the cells as a line. A cell with a comma, a quote or a line end is quoted.
pub fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| {
        let is_plain = !cell.contains([',', '"', '\n', '\r']);
        if is_plain { cell } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
