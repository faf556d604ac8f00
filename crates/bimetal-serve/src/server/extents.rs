//! Block status of a range, as far as the status is known without reading. A hole is a part that is
//! in no slot, and for which the home's file system reports that no data is stored.

use bimetal_core::block::Block;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{SECTOR_BYTES, SectorRange, Sectors};

use super::Server;
use crate::nbd::{Extent, StatusRequest};

/// Maximum of blocks looked up for one answer; clients send another request for the further blocks.
const LOOKUPS_MAX: u64 = 1 << 15;

impl Server {
    /// Returns the extents of a range, from its beginning.
    pub(super) fn extents(&self, request: &StatusRequest) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        let (mut at, end) = (request.range.start.0, request.range.end().0);
        let mut lookups = LOOKUPS_MAX;
        let unit = u64::from(self.exports[usize::from(request.export)].block_min_bytes) / SECTOR_BYTES;
        while at < end && lookups > 0 {
            let rest = SectorRange::new(at, end - at);
            let Extent { len, is_hole } = self.extent(request.export, rest, &mut lookups);
            // A unit that is partly data counts as data.
            let whole = if is_hole { len.0 / unit } else { len.0.div_ceil(unit) } * unit;
            let next = Extent { len: Sectors(whole.clamp(unit, end - at)), is_hole: is_hole && whole > 0 };
            at += next.len.0;
            let is_full = extents.len() == request.extents_max;
            match extents.last_mut() {
                Some(last) if last.is_hole == next.is_hole => last.len += next.len,
                _ if is_full => break,
                _ => extents.push(next),
            }
        }
        extents
    }

    /// Returns the first extent of a range, which must not be empty.
    fn extent(&self, unit: u16, range: SectorRange, lookups: &mut u64) -> Extent {
        let view = self.volume.view();
        let block_sectors = view.block().sectors();
        let first = view.layout.units[usize::from(unit)].first.0 + range.start.0 / block_sectors;
        let into = range.start.0 % block_sectors;
        let (member, sector, blocks) = view.layout.home_of(Block(first));
        let len = Sectors(range.len.0.min(blocks * block_sectors - into));
        *lookups -= 1;
        if self.volume.has_lost_content() || view.member(member).state != MemberState::Online {
            return Extent { len, is_hole: false };
        }
        let at_home = SectorRange::new(sector + into, len.0);
        let (is_hole, len) = self.drives[usize::from(member.0)].hole(at_home);
        if !is_hole {
            return Extent { len, is_hole };
        }
        // Counts the blocks in a row that are all in slots, or all in none.
        let touched = (into + len.0).div_ceil(block_sectors).min(*lookups + 1);
        let off_home = |block: u64| view.map.get(Block(first + block)).is_some();
        let is_off_home = off_home(0);
        let same = (1..touched).find(|&block| off_home(block) != is_off_home).unwrap_or(touched);
        *lookups = lookups.saturating_sub(same);
        Extent { len: Sectors(len.0.min(same * block_sectors - into)), is_hole: !is_off_home }
    }
}
