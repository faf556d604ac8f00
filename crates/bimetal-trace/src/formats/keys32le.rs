//! `keys32le`: bare block numbers of 32 bits, little-endian, one for each request: no header, no
//! times, no operations, no sizes.
//!
//! The block-reference streams that Caffeine's simulator ships have this format. Nothing in the
//! content identifies it, so the format is never recognised. A block becomes 4 KiB.

use bimetal_core::operation::OpKind;
use bimetal_core::units::SectorRange;

use super::lis::BLOCK_SECTORS;
use crate::entry::{Bad, Decoder, Entry, Fault};
use crate::error::Place;
use crate::format::Format;
use crate::input::Input;

/// Description of the `keys32le` format.
pub const INFO: Format = Format {
    name: "keys32le",
    summary: "bare little-endian 32-bit block numbers; no times, no operations; never recognised \
              by content",
    source: "the traces that come with Caffeine's simulator",
    lacks_block_size: true,
    ..Format::of_records::<Keys32le>()
};

const KEY_BYTES: usize = 4;

/// Reader of the `keys32le` format.
#[derive(Default)]
pub(crate) struct Keys32le {
    records: u64,
    offset: u64,
}

impl Decoder for Keys32le {
    fn next(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault> {
        self.offset = input.offset();
        let bytes = input.peek(KEY_BYTES)?;
        let Some(&key) = bytes.first_chunk::<KEY_BYTES>() else {
            let left = bytes.len();
            if left == 0 {
                return Ok(None);
            }
            let bad = Bad::form("key", bytes, "4 bytes: the last key is cut off");
            self.records += 1;
            input.consume(left);
            return Err(bad.into());
        };
        input.consume(KEY_BYTES);
        self.records += 1;
        let range = SectorRange::new(u64::from(u32::from_le_bytes(key)) * BLOCK_SECTORS, BLOCK_SECTORS);
        Ok(Some(Entry::request(0, 0, OpKind::Read, range)))
    }

    fn place(&self) -> Place {
        Place::Record { number: self.records, offset: self.offset }
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
    use super::*;

    /// Keys are little-endian numbers of blocks of 4 KiB. A key that is cut off is named with its
    /// place.
    #[test]
    fn keys_are_little_endian_and_a_cut_off_key_is_named() {
        let mut input = Input::new(&[0x0c, 0x0b, 0x0a, 0, 7][..]).unwrap();
        let mut keys = Keys32le::default();
        let entry = keys.next(&mut input).unwrap().unwrap();
        assert_eq!(entry.range, SectorRange::new(658_188 * 8, 8));
        assert!(matches!(keys.next(&mut input), Err(Fault::Bad(bad)) if bad.field == "key"));
        assert_eq!(keys.place(), Place::Record { number: 2, offset: 4 });
        assert!(matches!(keys.next(&mut input), Ok(None)));
    }
}
