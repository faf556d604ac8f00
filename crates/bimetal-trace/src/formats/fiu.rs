//! `fiu`: the block traces of Florida International University (Koller and Rangaswami, I/O
//! Deduplication, FAST 2010; README at SNIA IOTTA).
//!
//! `time (ns) pid process sector sectors W|R major minor md5`: the process name may contain blanks,
//! so fields are counted from the right; the hash of the content may be missing. The device is a
//! number by first appearance of major and minor.

use bimetal_core::operation::OpKind;

use super::LineFormat;
use super::devices::DeviceNames;
use crate::entry::{Bad, Entry, sector_range};
use crate::fields::{Fields, number};
use crate::format::Format;

/// Description of the `fiu` format.
pub const INFO: Format = Format {
    name: "fiu",
    summary: "columns: time (ns), process id, process, sector, sectors, R or W, major, minor, MD5 \
              of the content",
    source: "Koller and Rangaswami, I/O Deduplication, FAST 2010; SNIA IOTTA",
    ..Format::of_lines::<Fiu>()
};

/// Number of words of a line after the process name, with the hash.
const WORDS_BEHIND: usize = 6;

/// Reader of the `fiu` format.
#[derive(Default)]
pub(crate) struct Fiu {
    devices: DeviceNames,
}

impl LineFormat for Fiu {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let mut fields = Fields::of_words(line);
        let time = fields.number("time")?;
        fields.number("pid")?;
        fields.text("process")?;
        let mut words = fields.rest().rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        // Words from the right: hash, minor, major, operation, sectors, sector.
        let mut last = [&[][..]; WORDS_BEHIND];
        for word in &mut last {
            *word = words.next().unwrap_or(&[]);
        }
        let [hash, minor, major, operation, sectors, sector] = last;
        let is_hash = hash.len() >= 16 && hash.iter().all(u8::is_ascii_hexdigit);
        let (minor, major, operation, sectors, sector) =
            if is_hash { (minor, major, operation, sectors, sector) } else { (hash, minor, major, operation, sectors) };
        let kind = match operation {
            b"R" | b"r" => OpKind::Read,
            b"W" | b"w" => OpKind::Write,
            other => return Err(Bad::form("operation", other, "W or R before major, minor and the hash")),
        };
        let range = sector_range(number("sector", sector)?, number("sectors", sectors)?)?;
        let (major, minor) = (number("major", major)?, number("minor", minor)?);
        let mut name = [0; 40];
        let length = write_name(&mut name, major, minor);
        let device = self.devices.number("device", &name[..length])?;
        Ok(Some(Entry::request(time, device, kind, range)))
    }

    fn device_name(&self, device: u32) -> Option<String> {
        self.devices.name(device)
    }
}

/// Writes `major,minor` to `name` and returns its length.
pub(crate) fn write_name(name: &mut [u8; 40], major: u64, minor: u64) -> usize {
    use std::io::Write;
    let mut rest = &mut name[..];
    // Two numbers of at most 20 digits and a comma would not fit, but device numbers have 12 and 20
    // bits.
    let _ = write!(rest, "{},{}", major as u32, minor as u32);
    let left = rest.len();
    name.len() - left
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    /// Fields are as described, with and without a hash, and with blanks in the name of the
    /// process.
    #[test]
    fn fields_read_with_and_without_hash_and_with_blanks() {
        let mut fiu = Fiu::default();
        let hash = "0123456789abcdef0123456789abcdef";
        for line in [
            format!("71234567890123 3141 tar 150994944 8 R 6 0 {hash}"),
            format!("71234567890123 3141 kjournald 2 150994944 8 R 6 0 {hash}"),
            "71234567890123 3141 tar 150994944 8 R 6 0".to_owned(),
        ] {
            let entry = fiu.entry(line.as_bytes()).unwrap().unwrap();
            let expected = Entry::request(71_234_567_890_123, 0, OpKind::Read, SectorRange::new(150_994_944, 8));
            assert_eq!(entry, expected, "{line}");
        }
        assert_eq!(fiu.device_name(0).as_deref(), Some("6,0"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("x 1 p 8 8 R 6 0", "time"),
            ("1 1 p 8 8 Z 6 0", "operation"),
            ("1 1 p 8 0 R 6 0", "size"),
            ("1 1 p 8 8 R 6", "operation"),
            ("1 1", "process"),
        ];
        for (line, field) in named {
            assert_eq!(Fiu::default().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
