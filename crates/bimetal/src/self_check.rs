//! Lines above a table that show at a glance if a trace was read in the intended units.

use std::fmt::Write as _;

use bimetal_sim::results::{Document, TraceSummary};

/// Returns the text above a table: a summary of the trace, findings to know before the figures, and
/// the schemes that are left out.
pub(crate) fn head(document: &Document) -> String {
    let findings = document.findings.iter().map(|finding| format!("\n{}", finding.line()));
    let left_out = document.reasons_left_out();
    let left_out = left_out.iter().map(|scheme| format!("\nleft out: {}: {}", scheme.label, scheme.reason));
    std::iter::once(self_check(&document.trace)).chain(findings).chain(left_out).collect()
}

/// Returns one line that shows at a glance whether times, sizes and addresses were read in the
/// right units.
pub(crate) fn self_check(trace: &TraceSummary) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut line = format!(
        "{}: {} requests ({} reads, {} writes), {:.2} GiB moved, {:.2} GiB touched",
        trace.name,
        trace.requests,
        trace.reads,
        trace.writes,
        gib(trace.read_bytes + trace.write_bytes),
        gib(trace.footprint_bytes),
    );
    let end = trace.address_end_bytes.unwrap_or(0);
    // Writing to a string cannot fail.
    let seconds = trace.duration_s;
    let _ = write!(line, ", {seconds:.0} s, addresses up to {:.2} GiB", gib(end));
    if let Some(devices) = trace.devices.filter(|devices| *devices > 1) {
        let _ = write!(line, ", {devices} devices one behind the other");
    }
    line
}
