//! What each sector of a drive holds, in memory that follows what was written.

use crate::payload::Sector;

/// Sectors in a page.
const PAGE: u64 = 128;

/// For each sector its content, and the number of the change that wrote it.
#[derive(Default)]
pub(crate) struct Content(Vec<Option<Vec<(Sector, u64)>>>);

impl Content {
    pub(crate) fn get(&self, sector: u64) -> Option<&(Sector, u64)> {
        let page = self.0.get((sector / PAGE) as usize)?.as_ref()?;
        Some(&page[(sector % PAGE) as usize])
    }

    /// The content alone; zeroes where nothing was written.
    pub(crate) fn sector(&self, sector: u64) -> Sector {
        self.get(sector).map(|(content, _)| content.clone()).unwrap_or_default()
    }

    /// The number of the change that wrote it; 0 where there was none.
    pub(crate) fn change(&self, sector: u64) -> u64 {
        self.get(sector).map_or(0, |(_, change)| *change)
    }

    /// Gives what was there before.
    pub(crate) fn set(&mut self, sector: u64, to: Sector, change: u64) -> Sector {
        let page = (sector / PAGE) as usize;
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        let page = self.0[page].get_or_insert_with(|| vec![(Sector::Zero, 0); PAGE as usize]);
        std::mem::replace(&mut page[(sector % PAGE) as usize], (to, change)).0
    }
}
