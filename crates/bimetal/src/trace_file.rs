//! Traces that a command reads and writes. Assumptions of the readers go to standard error, a
//! progress bar shows the position, and a written file appears only when complete.

use std::path::Path;

use bimetal_trace::write::{Content, Writer, Written};
use bimetal_trace::{Format, Request, Trace, formats};
use serde::Serialize;

use crate::error::Error;
use crate::names::format_named;
use crate::options::TraceOptions;
use crate::output::note;
use crate::progress::Progress;

/// Number of requests between two steps of a progress bar.
const STEP: u64 = 8192;

/// A trace that is being read.
pub(crate) struct TraceReader {
    trace: Trace,
    progress: Progress,
    requests: u64,
}

impl TraceReader {
    /// Opens the trace at `path`, and shows the user the assumptions of the reader about the trace.
    ///
    /// # Errors
    /// The trace cannot be opened, or its format is not recognised.
    pub(crate) fn open(path: &Path, options: &TraceOptions) -> Result<Self, Error> {
        let trace = Trace::open(path, &options.to_open_options()?)?;
        for assumed in trace.notes() {
            note(format_args!("{}: {assumed}", trace.name()));
        }
        let progress = Progress::new(trace.bytes_total(), "bytes");
        Ok(Self { trace, progress, requests: 0 })
    }

    /// Returns the kinds of data that the trace records about its requests.
    pub(crate) fn content(&self) -> Content {
        Content::from(&self.trace)
    }

    /// Returns the next request; `None` at the end of the trace.
    ///
    /// # Errors
    /// A line cannot be read; the message names the line.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, Error> {
        let request = self.trace.next().transpose()?;
        self.requests += 1;
        if self.requests.is_multiple_of(STEP) {
            self.progress.set(self.trace.bytes_read());
        }
        Ok(request)
    }

    /// Reads the next requests into `requests`, as many as fit; reads no request at the end.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(crate) fn read(&mut self, requests: &mut Vec<Request>) -> Result<(), Error> {
        self.trace.read(requests)?;
        self.requests += requests.len() as u64;
        self.progress.set(self.trace.bytes_read());
        Ok(())
    }

    /// Tells the user how many lines were skipped, and returns the trace for its name and counts.
    pub(crate) fn finish(self) -> Trace {
        if self.trace.skipped_lines() > 0 {
            note(format_args!("{}: {} bad lines were skipped", self.trace.name(), self.trace.skipped_lines()));
        }
        self.trace
    }
}

/// Endings of compressed files.
const COMPRESSED: [&str; 4] = ["zst", "xz", "gz", "bz2"];

/// A trace that is being written.
pub(crate) struct TraceWriter {
    writer: Writer,
    format: &'static Format,
    name: String,
}

impl TraceWriter {
    /// Starts the trace at `path` in the format called `format`, or in the format that the ending
    /// of `path` names, or otherwise in the format `bin`.
    ///
    /// # Errors
    /// The format is unknown or cannot be written, or the file cannot be created.
    pub(crate) fn create(path: &Path, format: Option<&str>, content: Content) -> Result<Self, Error> {
        let format = match format {
            Some(name) => format_named(name)?,
            None => format_by_name(path)?,
        };
        Ok(Self { writer: Writer::create(path, format, content)?, format, name: path.display().to_string() })
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn write(&mut self, request: &Request) -> Result<(), Error> {
        Ok(self.writer.write(request)?)
    }

    /// Completes the file, and tells the user which data was left out of the file.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn finish(self) -> Result<WrittenTrace, Error> {
        let Self { writer, format, name } = self;
        let Written { requests, left_out, without_fua } = writer.finish()?;
        if left_out > 0 {
            note(format_args!("{name}: {left_out} requests were left out: {format} has no such operation"));
        }
        if without_fua > 0 {
            note(format_args!("{name}: {without_fua} writes lost their force-unit-access mark: {format} has none"));
        }
        Ok(WrittenTrace { file: name, format: format.name, requests, left_out })
    }
}

/// A complete trace, for programs.
#[derive(Serialize)]
pub(crate) struct WrittenTrace {
    file: String,
    format: &'static str,
    requests: u64,
    /// Number of requests that are not in the file, because the format lacks the operation.
    left_out: u64,
}

/// Returns the format that the ending of `path` names. Our binary is always compressed, and the
/// other formats never.
fn format_by_name(path: &Path) -> Result<&'static Format, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let mut endings = name.rsplit('.');
    let (last, before) = (endings.next().unwrap_or_default(), endings.next().unwrap_or_default());
    let ending = if COMPRESSED.contains(&last) { before } else { last };
    let is_written = |format: &Format| formats::writable().any(|other| other.name == format.name);
    if let Some(format) = formats::ALL.iter().find(|format| format.name == ending && !is_written(format)) {
        let written: Vec<&str> = formats::writable().map(|format| format.name).collect();
        return Err(Error::new(format!(
            "{}: traces of the format {} are only read: expected one of {}",
            path.display(),
            format.name,
            written.join(", ")
        )));
    }
    let format = formats::writable().find(|format| format.name == ending).unwrap_or(&formats::bin::INFO);
    let compressed = COMPRESSED.contains(&last) && (format != &formats::bin::INFO || last != "zst");
    if compressed {
        return Err(Error::new(format!(
            "{}: traces are written as .bin.zst, or uncompressed as .csv (and by --to or --format in others): expected \
             no ending .{last}",
            path.display()
        )));
    }
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_names_the_format() {
        let of = |name: &str| format_by_name(Path::new(name)).map_err(|error| error.to_string());
        for (name, format) in [
            ("a.csv", &formats::csv::INFO),
            ("a.bin", &formats::bin::INFO),
            ("a.bin.zst", &formats::bin::INFO),
            ("a.trace", &formats::bin::INFO),
            ("a", &formats::bin::INFO),
            ("dir.csv/a.MSR", &formats::msr::INFO),
        ] {
            assert_eq!(of(name), Ok(format), "{name}");
        }
        // Regression: the file got the binary format, without a word.
        assert!(of("a.spc").unwrap_err().contains("traces of the format spc are only read: expected one of"));
        for name in ["a.csv.zst", "a.bin.xz", "a.gz"] {
            assert!(of(name).unwrap_err().contains("expected no ending"), "{name}");
        }
    }
}
