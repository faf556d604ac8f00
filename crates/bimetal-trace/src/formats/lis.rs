//! `lis`: the traces of the ARC paper (Megiddo and Modha, FAST 2003).
//!
//! `first_page pages 0 request_number`: page references, without times and operations. The page's
//! size depends on the trace and is not in the file; a page becomes a block of 4 KiB.

use bimetal_core::operation::OpKind;

use super::LineFormat;
use crate::entry::{Bad, Entry, SECTORS_MAX, sector_range};
use crate::fields::Fields;
use crate::format::Format;

/// Description of the `lis` format.
pub const INFO: Format = Format {
    name: "lis",
    summary: "four columns: first page, pages, 0, request number; no times, no operations",
    source: "Megiddo and Modha, ARC, FAST 2003",
    lacks_block_size: true,
    ..Format::of_lines::<Lis>()
};

/// Number of sectors for a page or key of unknown size.
pub(crate) const BLOCK_SECTORS: u64 = 8;

/// Reader of the `lis` format.
#[derive(Default)]
pub(crate) struct Lis;

impl LineFormat for Lis {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let mut fields = Fields::of_words(line);
        let (first, pages) = (fields.number("first page")?, fields.number("pages")?);
        fields.number("third column")?;
        fields.number("request number")?;
        fields.end()?;
        if first > SECTORS_MAX || pages > SECTORS_MAX {
            return Err(Bad::value("first page", first, "pages below sector 2^40"));
        }
        let range = sector_range(first * BLOCK_SECTORS, pages * BLOCK_SECTORS)?;
        Ok(Some(Entry::request(0, 0, OpKind::Read, range)))
    }

    fn has_times(&self) -> bool {
        false
    }

    fn has_operations(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn a_page_is_a_block_of_4_kib() {
        let entry = Lis.entry(b"1500007 64 0 1").unwrap().unwrap();
        assert_eq!(entry, Entry::request(0, 0, OpKind::Read, SectorRange::new(12_000_056, 512)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("x 1 0 0", "first page"),
            ("1 0 0 0", "size"),
            ("1 1 0", "request number"),
            ("18446744073709551615 1 0 0", "first page"),
            ("1 18446744073709551615 0 0", "first page"),
        ];
        for (line, field) in named {
            assert_eq!(Lis.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
