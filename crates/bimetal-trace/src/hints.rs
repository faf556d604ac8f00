//! Hints of a host: the blocks that its buffer cache evicted, with times. Hints are a stream beside
//! a trace (Griffin 7).
//!
//! The first line is [`HEADER`], the first columns of the `csv` format. `time_ns` counts from the
//! first request of the trace, as `bimetal convert TRACE out.csv` shows it, and never decreases.
//! `device` is the trace's number of the device. `lba` and `sectors` are sectors of 512 bytes. The
//! file may be compressed, as a trace may.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

use crate::entry::{Bad, Decoder, Entry, Fault, sector_range};
use crate::error::{BadLine, Place, TraceError};
use crate::fields::Fields;
use crate::formats::lines::{Header, LineFormat, Lines};
use crate::input::Input;

/// First line of a file of hints.
pub const HEADER: &str = "time_ns,device,lba,sectors";

/// Eviction of a range from the buffer cache of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// Time since the first request of the trace.
    pub time: Nanoseconds,
    /// Number of the device in the trace.
    pub device: u32,
    /// Range that the buffer cache evicted.
    pub range: SectorRange,
    /// Number of the line in the file, from 1.
    pub line: u64,
}

/// All hints of a file, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    name: String,
    hints: Arc<[Hint]>,
}

impl Hints {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read, or if a line is no hint.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| TraceError::Open { trace: name.clone(), source })?;
        Self::read(&name, file)
    }

    /// Reads hints from `reader`. Errors call the file `name`.
    ///
    /// # Errors
    /// Fails if `reader` cannot be read, or if a line is no hint.
    pub fn read(name: &str, reader: impl Read + Send + 'static) -> Result<Self, TraceError> {
        let read = |offset, source| TraceError::Read { trace: name.to_owned(), offset, source };
        let mut input = Input::new(reader).map_err(|source| read(0, source))?;
        let mut lines = Lines::new(HintLines::default());
        let mut hints = Vec::new();
        loop {
            match lines.next(&mut input) {
                Ok(Some(Entry { time, device, range, .. })) => {
                    let line = if let Place::Line(line) = lines.place() { line } else { 0 };
                    hints.push(Hint { time, device, range, line });
                }
                Ok(None) if !lines.saw_header() => {
                    return Err(refused(name, Place::Line(1), *Bad::form("header", b"", HEADER)));
                }
                Ok(None) => return Ok(Self { name: name.to_owned(), hints: hints.into() }),
                Err(Fault::Bad(bad)) => return Err(refused(name, lines.place(), *bad)),
                Err(Fault::Read(source)) => return Err(read(input.offset(), source)),
            }
        }
    }

    /// Returns the hints of one device.
    pub fn of_device(&self, device: u32) -> Self {
        Self { name: self.name.clone(), hints: self.iter().filter(|hint| hint.device == device).copied().collect() }
    }

    /// Returns the error that reports `field` of `hint` as invalid.
    pub fn refuse(&self, hint: &Hint, field: &'static str, value: impl ToString, expected: String) -> TraceError {
        refused(&self.name, Place::Line(hint.line), *Bad::value(field, value, expected))
    }
}

impl std::ops::Deref for Hints {
    type Target = [Hint];

    fn deref(&self) -> &[Hint] {
        &self.hints
    }
}

fn refused(name: &str, place: Place, bad: Bad) -> TraceError {
    let Bad { field, value, expected, .. } = bad;
    TraceError::BadLine(Box::new(BadLine { trace: name.to_owned(), place, field, value, expected }))
}

/// Parser of the lines of a file of hints.
#[derive(Default)]
struct HintLines {
    header: Header,
    last: u64,
}

impl LineFormat for HintLines {
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if self.header.takes(line, HEADER)? {
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let time = fields.number("time_ns")?;
        if time < self.last {
            let expected = format!("no time before that of the line before, {}", self.last);
            return Err(Bad::value("time_ns", time, expected));
        }
        self.last = time;
        let device = fields.device("device")?;
        let range = sector_range(fields.number("lba")?, fields.number("sectors")?)?;
        fields.end()?;
        Ok(Some(Entry::request(time, device, OpKind::Hint, range)))
    }

    fn saw_header(&self) -> bool {
        self.header.was_seen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn read(text: impl Into<Vec<u8>>) -> Result<Hints, String> {
        Hints::read("h", Cursor::new(text.into())).map_err(|error| error.to_string())
    }

    fn with_header(lines: &str) -> String {
        format!("{HEADER}\n{lines}")
    }

    #[test]
    fn hint_has_a_time_a_device_and_a_range() {
        let hints = read(with_header("1500,3,64,8\n\n1500, 0, 0, 1\n")).unwrap();
        let hint = |device, range, line| Hint { time: Nanoseconds(1500), device, range, line };
        let expected = [hint(3, SectorRange::new(64, 8), 2), hint(0, SectorRange::new(0, 1), 4)];
        assert_eq!(&*hints, expected);
        assert_eq!(&*hints.of_device(0), &expected[1..]);
        assert!(read(with_header("")).unwrap().is_empty(), "a host that evicts nothing is one");
    }

    #[test]
    fn wrong_line_is_named_with_its_field_and_value() {
        let refused = [
            ("-1,0,0,8", "h:2: time_ns '-1': expected a number that is not negative"),
            ("5,0,0,8\n4,0,0,8", "h:3: time_ns '4': expected no time before that of the line before, 5"),
            ("5,4294967296,0,8", "h:2: device '4294967296': expected a number below 2^32"),
            ("5,0,1099511627776,8", "h:2: sector '1099511627776': expected a sector below 2^40"),
            ("5,0,1099511627775,2", "h:2: size '2': expected 1099511627775 and the size to stay below sector 2^40"),
            ("5,0,8,0", "h:2: size '0': expected at least 1 sector"),
            ("5,0,8", "h:2: sectors '': expected a value (the line ends before it)"),
            ("5,0,8,8,1", "h:2: line '1': expected no further field"),
            ("5,0,x,8", "h:2: lba 'x': expected a whole number"),
        ];
        for (lines, expected) in refused {
            assert_eq!(read(with_header(lines)).unwrap_err(), expected);
        }
        assert_eq!(read("0,0,0,8\n").unwrap_err(), "h:1: header '0,0,0,8': expected time_ns,device,lba,sectors");
        assert_eq!(read("").unwrap_err(), "h:1: header '': expected time_ns,device,lba,sectors");
    }

    #[test]
    fn compressed_hints_are_read_as_bare_ones_are() {
        let text = with_header("7,0,8,8\n");
        let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        assert_eq!(*read(packed).unwrap(), *read(text).unwrap());
    }

    proptest! {
        /// Checks that hints are read back as they were written.
        #[test]
        fn hints_that_are_written_are_read_back(
            hints in prop::collection::vec((0u64..1 << 50, any::<u32>(), 0u64..1 << 39, 1u64..1 << 39), 0..40),
        ) {
            let mut hints = hints;
            hints.sort_by_key(|hint| hint.0);
            let lines = hints.iter().map(|(time, device, lba, sectors)| format!("{time},{device},{lba},{sectors}\n"));
            let found = read(with_header(&lines.collect::<String>())).unwrap();
            let found: Vec<_> =
                found.iter().map(|hint| (hint.time.0, hint.device, hint.range.start.0, hint.range.len.0)).collect();
            prop_assert_eq!(found, hints);
        }

        /// Checks that any text gives hints in order of time and within bounds, or an error that
        /// names the file.
        #[test]
        fn any_text_gives_hints_in_order_or_an_error(
            lines in prop::collection::vec(r"[0-9,.\-+a-z ]{0,30}|[0-9]{1,20},[0-9]{1,10},[0-9]{1,20},[0-9]{1,20}", 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let text = with_header(&lines.join("\n")).into_bytes();
            crate::fuzz::read_hints(&text);
            crate::fuzz::read_hints(&text[..cut.index(text.len())]);
        }

        #[test]
        fn any_bytes_give_hints_in_order_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            crate::fuzz::read_hints(&bytes);
        }
    }
}
