//! Lines above a table that show at a glance if a trace was read in the intended units.

use std::fmt::Write as _;

use bimetal_core::units::counted;
use bimetal_sim::results::{Document, TraceSummary};

/// Returns the text above a table, with an empty line after each part: a summary of the trace, the
/// `answer` if there is one, and all facts to know before the figures.
pub(crate) fn head(document: &Document, answer: &str) -> String {
    let parts = [format!("{}\n", self_check(&document.trace)), answer.to_owned(), notes(document)];
    let parts = parts.iter().filter(|part| !part.is_empty());
    match answer.is_empty() {
        // The notes follow the summary at once.
        true => parts.map(String::as_str).chain(["\n"]).collect(),
        false => parts.map(|part| format!("{part}\n")).collect(),
    }
}

/// Returns the findings, and the schemes that are left out, as lines without ends.
pub(crate) fn lines(document: &Document) -> Vec<String> {
    let findings = document.findings.iter().map(bimetal_sim::findings::Finding::line);
    let left_out = document.reasons_left_out();
    let left_out = left_out.iter().map(|scheme| format!("left out: {}: {}", scheme.label, scheme.reason));
    findings.chain(left_out).collect()
}

fn notes(document: &Document) -> String {
    lines(document).into_iter().map(|line| line + "\n").collect()
}

/// Returns one line that shows at a glance whether times, sizes and addresses were read in the
/// right units.
pub(crate) fn self_check(trace: &TraceSummary) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut line = format!(
        "{}: {} ({}, {}), {:.2} GiB moved, {:.2} GiB touched",
        trace.name,
        counted(trace.requests, "request"),
        counted(trace.reads, "read"),
        counted(trace.writes, "write"),
        gib(trace.read_bytes + trace.write_bytes),
        gib(trace.footprint_bytes),
    );
    let end = trace.address_end_bytes.unwrap_or(0);
    // Writing to a string cannot fail.
    let is_timeless = trace.duration_s == 0.0 && trace.requests > 1;
    let time = if is_timeless { "no times".to_owned() } else { format!("{:.0} s", trace.duration_s) };
    let _ = write!(line, ", {time}, addresses up to {:.2} GiB", gib(end));
    if let Some(devices) = trace.devices.filter(|devices| *devices > 1) {
        let _ = write!(line, ", {devices} devices one behind the other");
    }
    line
}

#[cfg(test)]
mod tests {
    use bimetal_sim::findings::Finding;

    use super::*;

    /// Regression: the choices began at line 25 of a comparison, below 23 lines of findings.
    #[test]
    fn answer_comes_before_the_findings() {
        let finding = Finding {
            id: "cold-start".to_owned(),
            severity: "note".to_owned(),
            text: "Caches are cold.".to_owned(),
            remedy: None,
            share: None,
        };
        let document = Document { findings: vec![finding], ..Document::default() };
        let (trace, note) = (self_check(&document.trace), document.findings[0].line());
        assert_eq!(head(&document, "what to choose\n"), format!("{trace}\n\nwhat to choose\n\n{note}\n\n"));
        assert_eq!(head(&document, ""), format!("{trace}\n{note}\n\n"));
        assert_eq!(
            head(&Document::default(), "what\n"),
            format!("{}\n\nwhat\n\n", self_check(&Document::default().trace))
        );
    }
}
