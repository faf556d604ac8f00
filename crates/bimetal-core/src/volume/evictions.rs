//! Evictions of a host's buffer cache, which a recording or a simulated host reports beside the
//! requests. From then on the host reads the evicted blocks from the volume.

use super::Volume;
use crate::block::{Block, BlockRun};
use crate::payload::Payload;
use crate::units::{Nanoseconds, SectorRange};

impl<P: Payload> Volume<P> {
    /// Returns true if the scheme uses reports of evictions.
    pub fn takes_evictions(&self) -> bool {
        self.scheme.takes_evictions()
    }

    /// Reports to the scheme that a host's buffer cache has evicted `range` of a unit. Sectors
    /// beyond the unit are ignored. The scheme's work is due then: [`advance`](Self::advance) does
    /// it, once for all reports before.
    pub fn tell_evicted(&mut self, now: Nanoseconds, unit: u16, range: SectorRange) {
        self.set_time(now);
        let Some(&unit) = self.view.layout.units.get(usize::from(unit)) else { return };
        let touched = self.view.layout.block.touched(range);
        let count = touched.end().min(unit.count).saturating_sub(touched.first.0);
        if count > 0 {
            let first = Block(unit.first.0 + touched.first.0);
            self.scheme.evicted(&self.view, BlockRun { first, count });
        }
    }
}
