//! The totals of a drive since it became a member: two pages beside its label, written in turn,
//! with a second copy of each page. A new drive begins at zero.

use super::tail_start;
use crate::journal::PAGE_SECTORS;
use crate::journal::page::{self, Page, PageError, put, u64_at};
use crate::units::{Bytes, SectorRange, Sectors};

/// See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lifetime {
    /// Number of the writing; its lowest bit is its turn.
    pub sequence: u64,
    /// Bytes written to the drive, the engine's metadata included.
    pub written: Bytes,
    /// Seconds for which a server had the drive.
    pub served_s: u64,
}

const MAGIC: u32 = 0x666c_4942; // "BIlf"
/// Sectors from the tail's start: after the two label pages.
const PAGES_AT: u64 = 10 * PAGE_SECTORS;

/// Returns the place of each turn on a member of `capacity`, with the place of its second copy;
/// `None` if the member is smaller than a tail.
pub fn places(capacity: Sectors) -> Option<[[SectorRange; 2]; 2]> {
    let first = tail_start(capacity)?.0 + PAGES_AT;
    let page = |number: u64| SectorRange::new(first + number * PAGE_SECTORS, PAGE_SECTORS);
    Some([[page(0), page(2)], [page(1), page(3)]])
}

/// Returns the newest totals in the pages of a member of the volume `volume`, or zero if no page
/// can be read.
pub fn newest<'a>(pages: impl IntoIterator<Item = &'a Page>, volume: u64) -> Lifetime {
    let read = pages.into_iter().filter_map(|page| Lifetime::decode(page).ok());
    let own = read.filter(|&(of, _)| of == volume).map(|(_, lifetime)| lifetime);
    own.max_by_key(|lifetime| lifetime.sequence).unwrap_or_default()
}

impl Lifetime {
    /// Returns the turn of the totals, 0 or 1.
    pub fn turn(&self) -> usize {
        (self.sequence & 1) as usize
    }

    /// Returns the next totals, with these amounts added.
    pub fn and(&self, written: Bytes, served_s: u64) -> Self {
        Self {
            sequence: self.sequence.saturating_add(1),
            written: Bytes(self.written.0.saturating_add(written.0)),
            served_s: self.served_s.saturating_add(served_s),
        }
    }

    /// Returns the totals as a page of the volume `volume`.
    pub fn encode(&self, volume: u64) -> Page {
        let mut page = page::begin(MAGIC, volume);
        put(&mut page, 16, self.sequence.to_le_bytes());
        put(&mut page, 32, self.written.0.to_le_bytes());
        put(&mut page, 40, self.served_s.to_le_bytes());
        page::seal(&mut page);
        page
    }

    /// Returns the volume and the totals from a page.
    ///
    /// # Errors
    /// The page is not a page of totals, is torn, or of a later version.
    pub fn decode(page: &Page) -> Result<(u64, Self), PageError> {
        // The page is the same in both versions of the format.
        let (volume, _) = page::check_any(MAGIC, page)?;
        let lifetime =
            Self { sequence: u64_at(page, 16), written: Bytes(u64_at(page, 32)), served_s: u64_at(page, 40) };
        Ok((volume, lifetime))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_lifetime_reads_back(volume: u64, sequence: u64, written: u64, served_s: u64) {
            let lifetime = Lifetime { sequence, written: Bytes(written), served_s };
            prop_assert_eq!(Lifetime::decode(&lifetime.encode(volume)), Ok((volume, lifetime)));
        }
    }

    /// The newer page of totals counts. A torn page and a page of another volume do not count.
    /// Pages of totals never overlap a label.
    #[test]
    fn newest_whole_totals_page_of_the_volume_counts() {
        let first = Lifetime::default().and(Bytes(10), 1);
        let second = first.and(Bytes(20), 2);
        assert_eq!((second.written, second.served_s), (Bytes(30), 3));
        assert_ne!(first.turn(), second.turn());
        let (older, newer) = (first.encode(7), second.encode(7));
        assert_eq!(newest([&newer, &older], 7), second);
        let mut torn = newer;
        torn[40] ^= 1;
        assert_eq!(newest([&torn, &older], 7), first);
        assert_eq!(newest([&newer, &older], 8), Lifetime::default());
        let capacity = Bytes::from_mib(8).sectors();
        let label = super::super::tests::label();
        assert_eq!(label.own().size, capacity);
        let labels: Vec<SectorRange> = (0..2).flat_map(|turn| label.pages(capacity, turn)).collect();
        let own = places(capacity).unwrap().concat();
        assert!(own.iter().all(|page| page.end() <= capacity && labels.iter().all(|other| !page.overlaps(*other))));
    }
}
