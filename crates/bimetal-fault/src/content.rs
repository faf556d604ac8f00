//! Content of each sector of a drive, in memory that grows with the written sectors.

use crate::payload::Sector;

/// Number of sectors in a page.
const PAGE: u64 = 128;

/// Content of each sector, with the number of the change that wrote the content.
#[derive(Default)]
pub(crate) struct Content(Vec<Option<Vec<(Sector, u64)>>>);

impl Content {
    pub(crate) fn get(&self, sector: u64) -> Option<&(Sector, u64)> {
        let page = self.0.get((sector / PAGE) as usize)?.as_ref()?;
        Some(&page[(sector % PAGE) as usize])
    }

    /// Returns the content of a sector; zeroes if the sector was never written.
    pub(crate) fn sector(&self, sector: u64) -> Sector {
        self.get(sector).map(|(content, _)| content.clone()).unwrap_or_default()
    }

    /// Returns the number of the change that wrote the sector; 0 if the sector was never written.
    pub(crate) fn change(&self, sector: u64) -> u64 {
        self.get(sector).map_or(0, |(_, change)| *change)
    }

    /// Sets the content of a sector. Returns the previous content of the sector.
    pub(crate) fn set(&mut self, sector: u64, to: Sector, change: u64) -> Sector {
        let page = (sector / PAGE) as usize;
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        let page = self.0[page].get_or_insert_with(|| vec![(Sector::Zero, 0); PAGE as usize]);
        std::mem::replace(&mut page[(sector % PAGE) as usize], (to, change)).0
    }
}
