//! Sequentiality of the writes to a drive, page by page (Griffin 6.2).

use bimetal_core::units::SectorRange;

/// Number of sectors in a page of 4 KiB.
const PAGE_SECTORS: u64 = 8;

/// Counter of the pages written to one drive, and of those that follow the adjacent page: "we count
/// a page write as sequential if the preceding write occurs to an adjacent page".
///
/// Each page of 4 KiB that a write touches is a page write. If a write continues in the page in
/// which the previous write ended, that page is written again, and does not count as following
/// itself.
#[derive(Debug, Clone, Default)]
pub struct WriteSequentiality {
    pages: u64,
    sequential: u64,
    /// Last page of the previous write.
    previous_page: Option<u64>,
}

impl WriteSequentiality {
    /// Records a write to the drive, in the order of the writes.
    #[inline]
    pub fn record(&mut self, range: SectorRange) {
        if range.is_empty() {
            return;
        }
        let (start, end) = (range.start.0, range.end().0);
        let pages = (end - 1) / PAGE_SECTORS - start / PAGE_SECTORS + 1;
        let follows = self.previous_page.is_some_and(|previous| start / PAGE_SECTORS == previous + 1);
        self.pages += pages;
        self.sequential += pages - 1 + u64::from(follows);
        self.previous_page = Some((end - 1) / PAGE_SECTORS);
    }

    /// Returns the counts of several drives. A page never follows a page on another drive.
    pub fn of_all<'a>(drives: impl Iterator<Item = &'a Self>) -> Self {
        drives.fold(Self::default(), |all, drive| Self {
            pages: all.pages + drive.pages,
            sequential: all.sequential + drive.sequential,
            previous_page: None,
        })
    }

    /// Returns pages that follow the adjacent page / pages written; `None` if nothing was written.
    pub fn fraction(&self) -> Option<f64> {
        (self.pages > 0).then(|| self.sequential as f64 / self.pages as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(writes: &[(u64, u64)]) -> Option<f64> {
        let mut writes_seen = WriteSequentiality::default();
        for (start, len) in writes {
            writes_seen.record(SectorRange::new(*start, *len));
        }
        writes_seen.fraction()
    }

    #[test]
    fn pages_inside_a_write_follow_each_other() {
        // Of four pages three follow the previous page.
        assert_eq!(fraction(&[(0, 32)]), Some(0.75));
    }

    #[test]
    fn the_first_page_counts_if_the_write_before_ended_beside_it() {
        assert_eq!(fraction(&[(0, 8), (8, 8), (16, 8), (0, 8)]), Some(0.5));
        // Descending order is not sequential, and a page written again does not follow itself.
        assert_eq!(fraction(&[(16, 8), (8, 8), (8, 8)]), Some(0.0));
    }

    /// Sectors 63 to 70 and 71 to 78 touch two pages each, and share page 8. The second write
    /// begins in that page, which is not adjacent to itself.
    #[test]
    fn page_shared_by_two_writes_does_not_follow_itself() {
        assert_eq!(fraction(&[(63, 8), (71, 8)]), Some(0.5));
    }

    #[test]
    fn nothing_written_no_fraction() {
        assert_eq!(fraction(&[]), None);
        assert_eq!(fraction(&[(5, 0)]), None);
    }

    #[test]
    fn drives_add_up_without_following_each_other() {
        let mut one = WriteSequentiality::default();
        one.record(SectorRange::new(0, 16));
        let mut other = WriteSequentiality::default();
        other.record(SectorRange::new(16, 16));
        assert_eq!(WriteSequentiality::of_all([&one, &other].into_iter()).fraction(), Some(0.5));
    }
}
