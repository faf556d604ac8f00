//! Description of a trace format: its names, and the functions that recognise, read and write it.
//! Each file of [`formats`] declares one format.

use std::fmt;
use std::str::FromStr;

use crate::Request;
use crate::entry::Decoder;
use crate::formats::lines::{LineFormat, Lines};
use crate::formats::{self, ALL};
use crate::recognise::Recognised;
use crate::write::Content;

/// A trace format. Two formats are equal if their names are equal.
pub struct Format {
    /// Name that `--format` takes.
    pub name: &'static str,
    /// Content of a line or record, with units.
    pub summary: &'static str,
    /// Publisher of the description of the format that the reader follows.
    pub source: &'static str,
    pub(crate) recognition: Recognition,
    pub(crate) reader: Reader,
    pub(crate) events: Events,
    /// Set if the entries of every trace are in order of time.
    pub(crate) is_sorted: bool,
    /// Set if a trace counts blocks without stating their size.
    pub(crate) lacks_block_size: bool,
    /// Writer of the format; `None` if the format cannot be written.
    pub(crate) encoding: Option<Encoding>,
}

/// Evidence by which a trace's beginning shows its format.
pub(crate) enum Recognition {
    /// A magic number, which the function looks for.
    Magic(fn(&[u8]) -> bool),
    /// Records that agree with each other, if no format's magic number was found.
    Shape(fn(&[u8]) -> bool),
    /// Lines that the format's reader accepts.
    Lines,
    /// Lines that several formats' readers accept. The function chooses one of the formats that
    /// accept the lines.
    Choice(fn(&[&[u8]]) -> Recognised),
    /// The format is never recognised, so the user must name the format.
    Never,
}

/// Functions that make the reader of a format.
pub(crate) struct Reader {
    pub(crate) decoder: fn() -> Box<dyn Decoder>,
    /// Parser of single lines, if the format is text.
    pub(crate) lines: Option<fn() -> Box<dyn LineFormat>>,
}

/// Entries that a trace has for each request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Events {
    /// One entry.
    One,
    /// Queue and issue events.
    Several,
    /// Queue and issue events, completions, and flushes before writes.
    WithCompletions,
}

/// Description of the writer of a format.
#[derive(Clone, Copy)]
pub(crate) struct Encoding {
    /// Function that appends the header of a trace with this content, and returns the encoder.
    pub(crate) start: fn(Content, &mut Vec<u8>) -> Box<dyn Encode>,
    /// Set if the format has a mark for force unit access.
    pub(crate) keeps_fua: bool,
    /// Set if the file is compressed with zstd.
    pub(crate) is_compressed: bool,
}

/// Encoder of requests in one format.
pub(crate) trait Encode: Send {
    /// Appends `request` to `out`. Returns false, and appends nothing, if the format lacks the
    /// operation.
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool;

    /// Appends the end of the trace to `out`.
    fn finish(&mut self, _out: &mut Vec<u8>) {}
}

impl Format {
    /// Returns a text format that `F` reads line by line. The caller sets names and deviations.
    pub(crate) const fn of_lines<F: LineFormat + Default + 'static>() -> Self {
        Self::plain(
            Recognition::Lines,
            Reader { decoder: || Box::new(Lines::new(F::default())), lines: Some(|| Box::new(F::default())) },
        )
    }

    /// Returns a binary format that `D` reads. The caller sets names and deviations.
    pub(crate) const fn of_records<D: Decoder + Default + 'static>() -> Self {
        Self::plain(Recognition::Never, Reader { decoder: || Box::new(D::default()), lines: None })
    }

    /// Returns a format without names and without a writer, with one entry for each request.
    const fn plain(recognition: Recognition, reader: Reader) -> Self {
        Self {
            name: "",
            summary: "",
            source: "",
            recognition,
            reader,
            events: Events::One,
            is_sorted: false,
            lacks_block_size: false,
            encoding: None,
        }
    }

    /// Returns true if the format has a writer.
    pub fn is_writable(&self) -> bool {
        self.encoding.is_some()
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Format").field(&self.name).finish()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// A text that is not the name of a format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown trace format '{name}': expected one of {known}")]
pub struct UnknownFormatName {
    name: String,
    known: String,
}

impl FromStr for &'static Format {
    type Err = UnknownFormatName;

    fn from_str(name: &str) -> Result<Self, UnknownFormatName> {
        let unknown = || UnknownFormatName { name: name.to_owned(), known: names(ALL.iter().copied()) };
        formats::find(name).ok_or_else(unknown)
    }
}

/// Returns the names of `formats`, separated by spaces.
pub(crate) fn names(formats: impl Iterator<Item = &'static Format>) -> String {
    formats.map(|format| format.name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_name_is_refused_with_the_names_of_all_formats() {
        let error = "zzzz".parse::<&Format>().unwrap_err().to_string();
        assert!(error.starts_with("unknown trace format 'zzzz': expected one of msr spc disksim "), "{error}");
    }
}
