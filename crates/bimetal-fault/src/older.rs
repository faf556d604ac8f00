//! Older content of a drive's sectors, from before their last few writes. A drive returns older
//! content if it lost a write, or stored a write at the place of another.

use std::collections::{BTreeMap, VecDeque};

use bimetal_core::units::SectorRange;

use crate::payload::Sector;

/// Number of older contents kept per sector.
pub(crate) const DEPTH: usize = 4;

/// See the [module](self).
pub(crate) struct Older {
    /// Sectors whose older content is not kept.
    home: SectorRange,
    /// Older contents per sector, the newest first.
    sectors: BTreeMap<u64, VecDeque<Sector>>,
}

impl Older {
    /// Keeps the older content of all sectors outside of `home`.
    pub(crate) fn outside(home: SectorRange) -> Self {
        Self { home, sectors: BTreeMap::new() }
    }

    /// Adds `old`, the content that `sector` had until now.
    pub(crate) fn push(&mut self, sector: u64, old: Sector) {
        if (self.home.start.0..self.home.end().0).contains(&sector) {
            return;
        }
        let held = self.sectors.entry(sector).or_default();
        held.truncate(DEPTH - 1);
        held.push_front(old);
    }

    /// Returns the content of `sector` before its last `writes` writes, from 1 on.
    pub(crate) fn get(&self, sector: u64, writes: usize) -> Option<&Sector> {
        self.sectors.get(&sector)?.get(writes.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_content_is_kept_outside_of_home() {
        let mut older = Older::outside(SectorRange::new(0, 10));
        for write in 0..6 {
            older.push(9, Sector::Rotten(write));
            older.push(10, Sector::Rotten(write));
        }
        assert_eq!(older.get(9, 1), None);
        let kept = [0, 1, 4, 5].map(|writes| older.get(10, writes).cloned());
        assert_eq!(kept, [None, Some(Sector::Rotten(5)), Some(Sector::Rotten(2)), None]);
    }
}
