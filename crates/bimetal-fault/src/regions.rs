//! Regions of members, from the layout: no operation may cross two regions or reach beyond the end
//! of a drive.

use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::units::SectorRange;

/// A region of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// Home: blocks at their own addresses. The number is the flat sector of the operation's first
    /// sector.
    Home(u64),
    /// Slots. The number is the operation's first sector within the region.
    Slots(u64),
    /// Ring, table and superblocks.
    Metadata,
    /// The space after all other regions: label and marks.
    Tail,
}

/// Returns the region of `member` that holds all of `range`; `None` if no single region does.
pub fn region_of(layout: &Layout, member: MemberId, capacity: u64, range: SectorRange) -> Option<Region> {
    if range.is_empty() {
        // The operation is a flush.
        return Some(Region::Tail);
    }
    let sectors = layout.block.sectors();
    let mut regions = Vec::new();
    for extent in layout.extents().iter().filter(|extent| extent.member == member) {
        let flat = extent.blocks.first.0 * sectors;
        regions.push((extent.first_sector, extent.blocks.count * sectors, Region::Home(flat)));
    }
    if let Some(slots) = layout.slots.filter(|slots| slots.member == member) {
        regions.push((slots.first_sector, u64::from(slots.count) * sectors, Region::Slots(0)));
    }
    if let Some(metadata) = layout.metadata.filter(|metadata| metadata.member == member) {
        regions.push((metadata.first_sector, metadata.sectors, Region::Metadata));
    }
    let behind = regions.iter().map(|(start, len, _)| start + len).max().unwrap_or(0);
    let behind = if layout.places.is_some() { layout.tails[usize::from(member.0)] } else { behind };
    regions.push((behind, capacity.checked_sub(behind)?, Region::Tail));
    let (start, _, region) =
        regions.into_iter().find(|(start, len, _)| range.start.0 >= *start && range.end().0 <= start + len)?;
    let into = range.start.0 - start;
    Some(match region {
        Region::Home(flat) => Region::Home(flat + into),
        Region::Slots(_) => Region::Slots(into),
        other => other,
    })
}
