//! Whether the map of the translation layer is in memory as a whole: where it is not, the first read of a place reads a part of the map
//! first, which the next read of that place finds in memory.

use super::Drive;
use crate::ExtractError;

/// Places all over the drive that are read twice.
const PLACES: usize = 64;
/// A read takes at least this in the flash.
const FLASH_NS: f64 = 2_000.0;
/// So many of them must show it: of a map half of which is in memory, half do.
const SHOWN_MIN: usize = 8;

impl Drive<'_, '_> {
    /// How many first reads of 64 took at least half a read of the flash longer than the second, which came from the flash as well;
    /// `None` where so few did that it is chance.
    pub(super) fn map_reads(&mut self) -> Result<Option<usize>, ExtractError> {
        let (mut shown, grain) = (0, self.prober.grain);
        for _ in 0..PLACES {
            let lbn = self.prober.anywhere(grain);
            let first = self.prober.read(lbn, grain)?.ns();
            let second = self.prober.read(lbn, grain)?.ns();
            // A second one that takes no read at all comes from a memory for data.
            let read = second - self.outside_ns(grain);
            shown += usize::from(read > FLASH_NS && first - second > 0.5 * read);
        }
        Ok(Some(shown).filter(|shown| *shown >= SHOWN_MIN))
    }
}
