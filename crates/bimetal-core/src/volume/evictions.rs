//! Hints that a recording or a simulated host reports beside the requests: evictions of its buffer
//! cache, and pins. From an eviction on, the host reads the evicted blocks from the volume. Pinned
//! blocks stay on flash. The third part is a policy in place of the scheme's own policy: of the
//! simulator, or of another program.

use super::Volume;
use crate::block::{Block, BlockRun};
use crate::payload::Payload;
use crate::scheme::{Host, Replacement};
use crate::units::{Nanoseconds, SectorRange};

impl<P: Payload> Volume<P> {
    /// Returns true if a simulation must supply the scheme's replacement policy, and has not done
    /// so yet.
    pub fn lacks_policy(&self) -> bool {
        self.decider.scheme.lacks_policy()
    }

    /// Takes a policy in place of the scheme's own replacement policy; to be called before the
    /// first request of a simulation. `make` makes the policy for a number of slots. Returns false
    /// if the scheme has no replacement policy that can be replaced.
    pub fn take_policy(&mut self, make: &mut dyn FnMut(u32) -> Box<dyn Replacement>) -> bool {
        self.decider.scheme.take_policy(make)
    }

    /// Takes a simulated host, which gives hints to the scheme as each request begins; to be called
    /// before the first request of a simulation.
    pub fn take_host(&mut self, host: Box<dyn Host>) {
        self.decider.take_host(host);
    }

    /// Reports to the scheme that a host's buffer cache has evicted `range` of a unit. Sectors
    /// beyond the unit are ignored. The scheme's work is due after the report:
    /// [`advance`](Self::advance) does the work, once for all earlier reports.
    pub fn tell_evicted(&mut self, now: Nanoseconds, unit: u16, range: SectorRange) {
        self.set_time(now);
        let blocks = self.blocks_of_unit(unit, range);
        if let (Some(hints), Some(blocks)) = (self.decider.scheme.hints(), blocks) {
            hints.evicted(&self.view, blocks);
        }
    }

    /// Pins the blocks of `range` of a unit to flash, or ends their pins. Sectors beyond the unit
    /// are ignored. Returns false, and changes nothing, if more blocks would be pinned than the
    /// scheme allows.
    pub fn pin(&mut self, now: Nanoseconds, unit: u16, range: SectorRange, pinned: bool) -> bool {
        self.set_time(now);
        match (self.blocks_of_unit(unit, range), self.decider.scheme.hints()) {
            (Some(blocks), Some(hints)) => hints.pin(&self.view, blocks, pinned),
            _ => true,
        }
    }

    /// Returns the blocks of a unit that `range` touches; `None` if it touches no block.
    fn blocks_of_unit(&self, unit: u16, range: SectorRange) -> Option<BlockRun> {
        let unit = self.view.layout.units.get(usize::from(unit))?;
        let touched = self.view.layout.block.touched(range);
        let count = touched.end().min(unit.count).saturating_sub(touched.first.0);
        (count > 0).then_some(BlockRun { first: Block(unit.first.0 + touched.first.0), count })
    }
}
