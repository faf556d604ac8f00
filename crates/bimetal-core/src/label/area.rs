//! The area at the end of a guarded drive, which holds the drive's beginning while the
//! [guard](crate::guard) is up.

use super::tail_start;
use crate::units::{Bytes, SectorRange, Sectors};

/// Size of the beginning of a home drive that lies elsewhere.
pub const GUARDED: Sectors = Bytes::from_mib(1).sectors();

/// The area that holds the beginning of a guarded drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Sectors of each copy.
    length: u64,
    /// First sector of the first copy; the second copy follows the first.
    first: u64,
}

impl Area {
    /// Returns the area on a drive of `size`: right before the tail. `None` if the drive has no
    /// room for the guard's area and a MiB of home.
    pub fn on(size: Sectors) -> Option<Self> {
        Self::of_length(size, GUARDED.0)
    }

    pub(crate) fn of_length(size: Sectors, length: u64) -> Option<Self> {
        let first = tail_start(size)?.0.checked_sub(2 * length)?;
        (first > length).then_some(Self { length, first })
    }

    /// Returns the part of the drive that is left for the volume.
    pub const fn capacity(self) -> Sectors {
        Sectors(self.first)
    }

    /// Returns the place at the drive's beginning that the header takes.
    pub const fn place(self) -> SectorRange {
        SectorRange::new(0, self.length)
    }

    /// Returns the two copies of the beginning.
    pub const fn copies(self) -> [SectorRange; 2] {
        [SectorRange::new(self.first, self.length), SectorRange::new(self.first + self.length, self.length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LABEL_SECTORS;

    #[test]
    fn both_copies_lie_between_the_volume_s_part_and_the_tail() {
        let size = Bytes::from_mib(100).sectors();
        let area = Area::on(size).unwrap();
        let [first, second] = area.copies();
        assert_eq!(area.capacity(), first.start);
        assert_eq!(first.end(), second.start);
        assert_eq!(second.end().0, size.0 - LABEL_SECTORS);
        assert_eq!(Area::on(Bytes::from_mib(3).sectors()), None);
    }
}
