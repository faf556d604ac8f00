//! Places of a label's pages on a member: two turns, each with a first page and a second copy
//! elsewhere.
//!
//! The first pages lie in the tail. Programs that make file systems wipe the last 64 KiB of a
//! drive, which are the tail. So the second copies lie before the tail wherever the engine leaves
//! room before the tail ([`CopyPlace`]). No other module knows the place of a label's page.

use super::{Area, Label, tail_start};
use crate::layout::LABEL_SECTORS;
use crate::units::{SectorRange, Sectors};

/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;
/// Sectors from the start of a tail to the pages of a label: the pages of the engine lie before.
const LABEL_AT: u64 = 8 * PAGE_SECTORS;
/// Sectors from the start of a tail to its last two pages.
const LAST_AT: u64 = 14 * PAGE_SECTORS;

/// A place for the two pages of a label, one for each turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyPlace {
    /// Pages 8 and 9 of the tail: the first copy.
    First,
    /// Pages 14 and 15 of the tail: the second copy where the engine leaves no room before the
    /// tail. These pages also have the second copy of a label at the end of a drive that is used
    /// only in part.
    InTail,
    /// Pages 8 and 9 of the 64 KiB before the tail: the second copy on members that have a second
    /// tail.
    BeforeTail,
    /// Pages 8 and 9 of the 64 KiB before the guard's area: the second copy on the member with the
    /// guard.
    BeforeGuard,
}

impl CopyPlace {
    /// Every place that a label may have, the first copy first.
    pub const ALL: [Self; 4] = [Self::First, Self::InTail, Self::BeforeGuard, Self::BeforeTail];

    /// Returns the pages of the two turns on a member of `size`, or `None` if the member is too
    /// small for them.
    pub fn pages(self, size: Sectors) -> Option<[SectorRange; 2]> {
        let tail = tail_start(size)?.0;
        let first = match self {
            Self::First => tail + LABEL_AT,
            Self::InTail => tail + LAST_AT,
            Self::BeforeTail => tail.checked_sub(LABEL_SECTORS)? + LABEL_AT,
            Self::BeforeGuard => Area::on(size)?.capacity().0.checked_sub(LABEL_SECTORS)? + LABEL_AT,
        };
        Some([first, first + PAGE_SECTORS].map(|at| SectorRange::new(at, PAGE_SECTORS)))
    }

    /// Returns the turn and the place of the page that begins at `sector` of a member of `size`, if
    /// a label may lie there.
    pub fn at(size: Sectors, sector: u64) -> Option<(usize, Self)> {
        Self::ALL.into_iter().find_map(|place| {
            let turn = place.pages(size)?.iter().position(|page| page.start.0 == sector)?;
            Some((turn, place))
        })
    }
}

impl Label {
    /// Returns the place of the second copy of this label at the end of `size`. A label at another
    /// end than the member's own end only points to the member's label, and has both copies within
    /// one tail.
    pub fn second_copy(&self, size: Sectors) -> CopyPlace {
        match () {
            () if self.own().size != size => CopyPlace::InTail,
            () if self.area_of(self.index).is_some() => CopyPlace::BeforeGuard,
            () if self.second_tail => CopyPlace::BeforeTail,
            () => CopyPlace::InTail,
        }
    }

    /// Returns the pages of a turn in a tail that ends at `size`, in order of writing: each page is
    /// stable before the next page is written.
    pub fn pages(&self, size: Sectors, turn: usize) -> impl Iterator<Item = SectorRange> {
        let places = [CopyPlace::First, self.second_copy(size)];
        places.into_iter().filter_map(move |place| Some(place.pages(size)?[turn & 1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::tests::label;
    use crate::label::{Guard, lifetime, usable};
    use crate::layout::MemberId;
    use crate::units::Bytes;

    #[test]
    fn copies_lie_outside_of_all_that_the_engine_uses() {
        let mut label = label();
        label.index = MemberId(1);
        let size = usable(Bytes(1_000_000_000));
        label.members[1].size = size;
        let tail = tail_start(size).unwrap().0;
        for (guard, second_tail, place) in [
            (None, false, CopyPlace::InTail),
            (None, true, CopyPlace::BeforeTail),
            (Some((MemberId(1), Guard::Up)), false, CopyPlace::BeforeGuard),
            (Some((MemberId(1), Guard::Down)), true, CopyPlace::BeforeGuard),
        ] {
            (label.guard, label.second_tail) = (guard, second_tail);
            assert_eq!(label.second_copy(size), place);
            let capacity = label.member_infos()[1].capacity.0;
            for turn in 0..2 {
                let pages: Vec<SectorRange> = label.pages(size, turn).collect();
                assert_eq!(pages[0], SectorRange::new(tail + 64 + 8 * turn as u64, 8));
                // The engine has the first eight pages of its own tail.
                assert!(pages[1].start.0 >= capacity - LABEL_SECTORS + 64 && pages[1].end() <= size, "{place:?}");
                assert_eq!(CopyPlace::at(size, pages[1].start.0), Some((turn, place)));
                // A program that wipes the last 64 KiB leaves a copy if there is room for one.
                assert_eq!(pages[1].end().0 <= tail, place != CopyPlace::InTail);
                let others = lifetime::places(size).unwrap().into_iter().flatten();
                assert!(
                    others
                        .chain(label.area_of(label.index).into_iter().flat_map(|area| area.copies()))
                        .all(|other| pages.iter().all(|page| !page.overlaps(other)))
                );
            }
        }
    }

    #[test]
    fn a_label_at_another_end_keeps_to_its_own_tail() {
        let mut label = label();
        label.second_tail = true;
        let larger = Sectors(label.own().size.0 + LABEL_SECTORS);
        assert_eq!(label.second_copy(larger), CopyPlace::InTail);
        let used: Vec<SectorRange> = (0..2).flat_map(|turn| label.pages(label.own().size, turn)).collect();
        let pages = (0..2).flat_map(|turn| label.pages(larger, turn).collect::<Vec<_>>());
        assert!(pages.into_iter().all(|page| used.iter().all(|other| !page.overlaps(*other))));
    }

    #[test]
    fn a_member_smaller_than_a_tail_has_no_place() {
        assert_eq!(CopyPlace::First.pages(Sectors(LABEL_SECTORS - 1)), None);
        assert_eq!(CopyPlace::BeforeTail.pages(Sectors(LABEL_SECTORS + 1)), None);
    }
}
