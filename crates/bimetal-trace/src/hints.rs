//! Hints of a host, a stream that accompanies a trace: the blocks that the host's buffer cache
//! evicted, with times (Griffin 7); or the blocks that the host pins to the flash of a hybrid disk,
//! and the times at which it unpins them (Konanki's thesis, 3.5).
//!
//! The first line is [`HEADER`], the first columns of the `csv` format, or [`PIN_HEADER`].
//! `time_ns` counts from the first request of the trace, as `bimetal convert TRACE out.csv` shows
//! it, and never decreases. `device` is the trace's number of the device. `lba` and `sectors` are
//! sectors of 512 bytes. `pin` is 1 for a pin, and 0 for the end of a pin. The file may be
//! compressed, as a trace may.

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

/// First line of a file of evictions.
pub const HEADER: &str = "time_ns,device,lba,sectors";

/// First line of a file of pins.
pub const PIN_HEADER: &str = "time_ns,device,lba,sectors,pin";

const HEADERS: &str = "time_ns,device,lba,sectors (evictions) or time_ns,device,lba,sectors,pin";

/// Kind of a hint about a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HintKind {
    /// The host's buffer cache evicted the range.
    Evicted,
    /// The host pins the range to flash.
    Pinned,
    /// The host ends the pin of the range.
    Unpinned,
}

/// Hint of a host: a line of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// Time since the first request of the trace.
    pub time: Nanoseconds,
    /// Number of the device in the trace.
    pub device: u32,
    /// Kind of the hint.
    pub kind: HintKind,
    /// Range that the hint is about.
    pub range: SectorRange,
    /// Number of the line in the file, from 1.
    pub line: u64,
}

/// All hints of a file, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    name: String,
    are_pins: bool,
    hints: Arc<[Hint]>,
}

impl Hints {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read, or if a line is not a hint.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| TraceError::Open { trace: name.clone(), source })?;
        Self::read(&name, file)
    }

    /// Reads hints from `reader`. Errors use `name` as the name of the file.
    ///
    /// # Errors
    /// Fails if `reader` cannot be read, or if a line is not a hint.
    pub fn read(name: &str, reader: impl Read + Send + 'static) -> Result<Self, TraceError> {
        let read = |offset, source| TraceError::Read { trace: name.to_owned(), offset, source };
        let mut input = Input::new(reader).map_err(|source| read(0, source))?;
        let mut lines = Lines::new(HintLines::default());
        let mut hints = Vec::new();
        loop {
            match lines.next(&mut input) {
                Ok(Some(Entry { time, device, range, fua, .. })) => {
                    let line = if let Place::Line(line) = lines.place() { line } else { 0 };
                    let kind = match (lines.format().are_pins, fua) {
                        (false, _) => HintKind::Evicted,
                        (true, true) => HintKind::Pinned,
                        (true, false) => HintKind::Unpinned,
                    };
                    hints.push(Hint { time, device, kind, range, line });
                }
                Ok(None) if !lines.saw_header() => {
                    return Err(refused(name, Place::Line(1), *Bad::form("header", b"", HEADERS)));
                }
                Ok(None) => {
                    let are_pins = lines.format().are_pins;
                    return Ok(Self { name: name.to_owned(), are_pins, hints: hints.into() });
                }
                Err(Fault::Bad(bad)) => return Err(refused(name, lines.place(), *bad)),
                Err(Fault::Read(source)) => return Err(read(input.offset(), source)),
            }
        }
    }

    /// Returns the hints of one device.
    pub fn of_device(&self, device: u32) -> Self {
        let hints = self.iter().filter(|hint| hint.device == device).copied().collect();
        Self { name: self.name.clone(), are_pins: self.are_pins, hints }
    }

    /// Returns true if the hints are pins, and false if they are evictions.
    pub fn are_pins(&self) -> bool {
        self.are_pins
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
    TraceError::BadLine(Box::new(BadLine {
        trace: name.to_owned(),
        place,
        field,
        value,
        expected,
        can_be_skipped: false,
    }))
}

/// Parser of the lines of a file of hints.
#[derive(Default)]
struct HintLines {
    header: Header,
    are_pins: bool,
    last: u64,
}

impl LineFormat for HintLines {
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if !self.header.was_seen() && line.trim_ascii() == PIN_HEADER.as_bytes() {
            self.are_pins = true;
        }
        if self.header.takes(line, if self.are_pins { PIN_HEADER } else { HEADER }).map_err(one_of_two)? {
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let time = fields.number("time_ns")?;
        if time < self.last {
            let expected = format!("a time not before the time of the previous line, {}", self.last);
            return Err(Bad::value("time_ns", time, expected));
        }
        self.last = time;
        let device = fields.device("device")?;
        let range = sector_range(fields.number("lba")?, fields.number("sectors")?)?;
        let mut entry = Entry::request(time, device, OpKind::Hint, range);
        if self.are_pins {
            // An entry has one flag.
            entry.fua = match fields.text("pin")? {
                b"0" => false,
                b"1" => true,
                other => return Err(Bad::form("pin", other, "0 or 1")),
            };
        }
        fields.end()?;
        Ok(Some(entry))
    }

    fn saw_header(&self) -> bool {
        self.header.was_seen()
    }
}

fn one_of_two(mut bad: Box<Bad>) -> Box<Bad> {
    bad.expected = HEADERS.into();
    bad
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
        let hint = |device, range, line| Hint { time: Nanoseconds(1500), device, kind: HintKind::Evicted, range, line };
        let expected = [hint(3, SectorRange::new(64, 8), 2), hint(0, SectorRange::new(0, 1), 4)];
        assert_eq!(&*hints, expected);
        assert_eq!(&*hints.of_device(0), &expected[1..]);
        assert!(read(with_header("")).unwrap().is_empty(), "a host that evicts nothing is one");
    }

    #[test]
    fn wrong_line_is_named_with_its_field_and_value() {
        let refused = [
            ("-1,0,0,8", "h:2: time_ns '-1': expected a number that is not negative"),
            ("5,0,0,8\n4,0,0,8", "h:3: time_ns '4': expected a time not before the time of the previous line, 5"),
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
        let of_header = |header| format!("h:1: header '{header}': expected {HEADERS}");
        assert_eq!(read("0,0,0,8\n").unwrap_err(), of_header("0,0,0,8"));
        assert_eq!(read("").unwrap_err(), of_header(""));
        let pins = |lines| read(format!("{PIN_HEADER}\n{lines}")).unwrap_err();
        assert_eq!(pins("5,0,8,8,2"), "h:2: pin '2': expected 0 or 1");
        assert_eq!(pins("5,0,8,8"), "h:2: pin '': expected a value (the line ends before it)");
    }

    #[test]
    fn pin_has_a_fifth_column() {
        let pins = read(format!("{PIN_HEADER}\n5,0,8,8,1\n6,1,8,8,0\n")).unwrap();
        let kinds: Vec<HintKind> = pins.iter().map(|hint| hint.kind).collect();
        assert_eq!((pins.are_pins(), kinds), (true, vec![HintKind::Pinned, HintKind::Unpinned]));
        assert!(pins.of_device(1).are_pins() && pins.of_device(1).len() == 1);
        assert!(!read(with_header("5,0,8,8\n")).unwrap().are_pins());
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
