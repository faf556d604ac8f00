//! Requests with measured response times, and DiskSim's validation traces, which contain them.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

/// Request that was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Time at which the request was sent; 0 if only the think times are known.
    pub arrival: Nanoseconds,
    /// Operation of the request.
    pub kind: OpKind,
    /// Range of the request.
    pub range: SectorRange,
    /// Response time on the drive.
    pub measured: Nanoseconds,
    /// Time from the completion until the next request was sent.
    pub think: Nanoseconds,
}

/// Error in a line of a validation trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {field} '{value}': expected {expected}")]
pub struct SampleError {
    file: String,
    line: usize,
    field: &'static str,
    value: String,
    expected: &'static str,
}

/// Parses a trace in the format of DiskSim's validate mode: on each line `R` or `W`, the action of
/// the buffer, first sector, sectors, measured microseconds, microseconds until the next request.
/// Returns `None` if the first line shows that the format is different.
///
/// # Errors
/// Returns the first line that does not have this form; refuses a trace without lines of this form.
pub fn read_validate_trace(text: &str, file: &str) -> Result<Option<Vec<Sample>>, SampleError> {
    let mut samples = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |(field, value, expected): (&'static str, &str, &'static str)| SampleError {
            file: file.to_owned(),
            line: index + 1,
            field,
            value: value.chars().take(40).collect(),
            expected,
        };
        match sample(line) {
            Ok(sample) => samples.push(sample),
            Err(_) if samples.is_empty() && !looks_like_it(line) => return Ok(None),
            Err(reason) => return Err(bad(reason)),
        }
    }
    Ok(if samples.is_empty() { None } else { Some(samples) })
}

fn looks_like_it(line: &str) -> bool {
    let fields: Vec<_> = line.split_whitespace().collect();
    fields.len() == 6 && fields[0].starts_with(['R', 'W']) && fields[1].starts_with(|c: char| c.is_ascii_alphabetic())
}

fn sample(line: &str) -> Result<Sample, (&'static str, &str, &'static str)> {
    let mut fields = line.split_whitespace();
    let mut next = |field| fields.next().ok_or((field, "", "six fields"));
    let kind = match next("operation")? {
        word if word.starts_with('R') => OpKind::Read,
        word if word.starts_with('W') => OpKind::Write,
        word => return Err(("operation", word, "R or W")),
    };
    next("buffer action")?;
    let start = next("address")?;
    let start = start.parse().ok().filter(|start| *start < 1 << 40).ok_or(("address", start, "a sector"))?;
    let length = next("length")?;
    let length =
        length.parse().ok().filter(|l| (1..1 << 24).contains(l)).ok_or(("length", length, "1 sector or more"))?;
    let mut micros = |field| {
        let word = next(field)?;
        let value = word.parse().ok().filter(|us: &f64| (0.0..1e12).contains(us));
        value.map(|us| Nanoseconds((us * 1000.0).round() as u64)).ok_or((field, word, "0 or more microseconds"))
    };
    let measured = micros("response time")?;
    let think = micros("delay")?;
    if let Some(more) = fields.next() {
        return Err(("line", more, "six fields"));
    }
    Ok(Sample { arrival: Nanoseconds::ZERO, kind, range: SectorRange::new(start, length), measured, think })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_a_request_its_response_and_what_follows() {
        let samples =
            read_validate_trace("R Hit 17317516 4 13661.00000 26658.5\n\nWrite Doub 7 16 9 0\n", "t").unwrap().unwrap();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].kind, samples[0].range), (OpKind::Read, SectorRange::new(17_317_516, 4)));
        assert_eq!((samples[0].measured, samples[0].think), (Nanoseconds(13_661_000), Nanoseconds(26_658_500)));
        assert_eq!((samples[1].kind, samples[1].think), (OpKind::Write, Nanoseconds::ZERO));
    }

    #[test]
    fn another_format_is_left_to_others_and_a_wrong_line_is_named() {
        assert_eq!(read_validate_trace("128166372003061629,hm,0,Read,8,4096,5\n", "t"), Ok(None));
        assert_eq!(read_validate_trace("", "t"), Ok(None));
        for (line, field) in [
            ("R Hit x 4 1 1", "address"),
            ("R Hit 4 0 1 1", "length"),
            ("R Hit 4 4 -1 1", "response time"),
            ("R Hit 4 4 1 x", "delay"),
            ("R Hit 4 4 1", "delay"),
            ("R Hit 4 4 1 1 1", "line"),
            ("X Hit 4 4 1 1", "operation"),
        ] {
            let error = read_validate_trace(&format!("R Hit 1 1 1 1\n{line}\n"), "t.trace").unwrap_err().to_string();
            assert!(error.starts_with(&format!("t.trace:2: {field} ")), "{error}");
        }
    }
}
