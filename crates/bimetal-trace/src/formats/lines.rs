//! Text formats: a line is an entry, holds nothing of interest, or is bad.

use std::io::Write as _;

use crate::entry::{Bad, Decoder, Entry, Fault};
use crate::error::{Place, shown};
use crate::input::{Input, Line};

/// Parser of the lines of a text format.
pub(crate) trait LineFormat: Send {
    /// Returns the entry of `line`, the next of the file. Returns `None` for a header, a comment,
    /// or an event that is no request, no completion, and no part of a request or completion.
    ///
    /// # Errors
    /// Returns the reason for which the line is refused.
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>>;

    /// Returns true if a header line has named the format.
    fn saw_header(&self) -> bool {
        false
    }

    /// Returns true if the lines so far contain times.
    fn has_times(&self) -> bool {
        true
    }

    /// Returns true if the format contains operations.
    fn has_operations(&self) -> bool {
        true
    }

    /// Returns the name of `device` in the lines so far, if `device` is not a number.
    fn device_name(&self, _device: u32) -> Option<String> {
        None
    }
}

/// State of a format whose first line must be a certain header.
#[derive(Default)]
pub(crate) struct Header {
    seen: bool,
}

impl Header {
    /// Returns true if `line` is the header `expected`, and false for later lines.
    ///
    /// # Errors
    /// Fails if the first line is not the header.
    pub(crate) fn takes(&mut self, line: &[u8], expected: &'static str) -> Result<bool, Box<Bad>> {
        if self.seen {
            return Ok(false);
        }
        if line.trim_ascii() != expected.as_bytes() {
            return Err(Bad::form("header", line, expected));
        }
        self.seen = true;
        Ok(true)
    }

    /// Returns true if the header of the file was read.
    pub(crate) fn was_seen(&self) -> bool {
        self.seen
    }
}

/// Decoder that reads a text format line by line.
pub(crate) struct Lines<F> {
    format: F,
    line: u64,
    first_ignored: Option<(u64, String)>,
}

impl<F: LineFormat> Lines<F> {
    pub(crate) fn new(format: F) -> Self {
        Self { format, line: 0, first_ignored: None }
    }

    /// Returns the format, with the properties that the lines read so far have shown.
    pub(crate) fn format(&self) -> &F {
        &self.format
    }

    /// Returns true if a header line has named the format.
    pub(crate) fn saw_header(&self) -> bool {
        self.format.saw_header()
    }

    #[cold]
    fn ignore(&mut self, text: String) {
        self.first_ignored = Some((self.line, text));
    }
}

impl<F: LineFormat> Decoder for Lines<F> {
    fn next(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault> {
        loop {
            let Some(line) = input.line()? else { return Ok(None) };
            self.line += 1;
            let mut line = match line {
                Line::Text(line) => line,
                Line::TooLong(head) => return Err(Bad::form("line", head, "a line of at most 64 KiB").into()),
            };
            if self.line == 1 {
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.format.entry(line)? {
                Some(entry) => return Ok(Some(entry)),
                None if self.first_ignored.is_none() => {
                    let text = shown(line);
                    self.ignore(text);
                }
                None => {}
            }
        }
    }

    fn place(&self) -> Place {
        Place::Line(self.line)
    }

    fn has_times(&self) -> bool {
        self.format.has_times()
    }

    fn has_operations(&self) -> bool {
        self.format.has_operations()
    }

    fn device_name(&self, device: u32) -> Option<String> {
        self.format.device_name(device)
    }

    fn first_ignored(&self) -> Option<(Place, &str)> {
        self.first_ignored.as_ref().map(|(line, text)| (Place::Line(*line), text.as_str()))
    }
}

/// Appends `text` to `out`.
pub(crate) fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}

/// Appends `text` and the end of the line to `out`.
pub(crate) fn append_line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    append(out, text);
    out.push(b'\n');
}
