//! Detects whether the mapping table of the translation layer is completely in memory. If a part of
//! the table is on flash, the first read of a place also reads a part of the mapping table. The
//! next read of the place finds that part in memory.

use super::Drive;
use crate::ExtractError;

/// Number of places all over the drive that are read twice.
const PLACES: usize = 64;
/// Smallest time of a read in the flash.
const FLASH_NS: f64 = 2_000.0;
/// Number of places that must show a read of the mapping table. If half of the mapping table is in
/// memory, half of the places show such a read.
const SHOWN_MIN: usize = 8;

impl Drive<'_, '_> {
    /// Returns the number of places, of 64, whose first read took longer than the second by at
    /// least half a read of the flash. The second read reads the flash as well, not the buffer.
    /// `None` if the number is so small that it may be chance.
    pub(super) fn map_reads(&mut self) -> Result<Option<usize>, ExtractError> {
        let (mut shown, grain) = (0, self.prober.grain);
        for _ in 0..PLACES {
            let lbn = self.prober.anywhere(grain);
            let first = self.prober.read(lbn, grain)?.ns();
            let second = self.prober.read(lbn, grain)?.ns();
            // A second read that takes no read at all comes from a memory for data.
            let read = second - self.outside_ns(grain);
            shown += usize::from(read > FLASH_NS && first - second > 0.5 * read);
        }
        Ok(Some(shown).filter(|shown| *shown >= SHOWN_MIN))
    }
}
