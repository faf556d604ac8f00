//! Physical sectors that are longer than the sectors of the interface (drives called 512e).
//!
//! The medium is written in whole physical sectors. A write that begins or ends inside a physical
//! sector needs the other content of that sector. This content comes from the buffer, or otherwise
//! from the medium. If the content comes from the medium, the drive reads the sector, waits until
//! the sector passes the head again, and writes the sector.

use std::collections::VecDeque;

/// Division of the medium into physical sectors, and the physical sectors that the buffer holds
/// because a write has completed them.
#[derive(Clone, Debug)]
pub struct PhysicalSectors {
    /// Number of sectors of the interface in a physical sector.
    length: u64,
    /// First sectors of the held physical sectors, the oldest in front.
    held: VecDeque<u64>,
    /// Largest number of physical sectors that the buffer holds.
    room: usize,
}

impl PhysicalSectors {
    /// Creates a division into physical sectors of `length` sectors. The buffer holds the most
    /// recent edges of writes in `room_sectors` sectors, at least the two edges of one write.
    pub fn new(length: u64, room_sectors: u64) -> Self {
        let length = length.max(1);
        Self { length, held: VecDeque::new(), room: (room_sectors / length).max(2) as usize }
    }

    /// Returns the sectors from `start` to before `end`, extended to whole physical sectors.
    #[inline]
    pub fn around(&self, start: u64, end: u64) -> (u64, u64) {
        (start - start % self.length, end.next_multiple_of(self.length))
    }

    /// Returns the physical sectors that a write from `start` to before `end` writes in part, each
    /// by its first sector. The first physical sector of the write counts as its head, any other
    /// physical sector as its tail.
    #[inline]
    pub fn edges(&self, start: u64, end: u64) -> (Option<u64>, Option<u64>) {
        let (first, last) = self.around(start, end);
        let tail = last.saturating_sub(self.length).max(first);
        let head = (first < start || (tail == first && end < last)).then_some(first);
        (head, (end < last && tail != first).then_some(tail))
    }

    /// Returns the sectors of the physical sector at `edge` that a write from `start` to before
    /// `end` leaves as they are.
    pub fn rest(&self, edge: u64, start: u64, end: u64) -> impl Iterator<Item = u64> + use<> {
        (edge..edge + self.length).filter(move |sector| !(start..end).contains(sector))
    }

    /// Returns true if the buffer holds the physical sector at `edge`.
    pub fn holds(&self, edge: u64) -> bool {
        self.held.contains(&edge)
    }

    /// Notes that the buffer holds the physical sector at `edge`.
    pub fn hold(&mut self, edge: u64) {
        if self.holds(edge) {
            return;
        }
        if self.held.len() == self.room {
            self.held.pop_front();
        }
        self.held.push_back(edge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_the_physical_sectors_written_in_part() {
        let physical = PhysicalSectors::new(8, 64);
        let edges = |start, end| physical.edges(start, end);
        assert_eq!(edges(8, 24), (None, None));
        assert_eq!(edges(9, 24), (Some(8), None));
        assert_eq!(edges(8, 23), (None, Some(16)));
        assert_eq!(edges(9, 17), (Some(8), Some(16)));
        assert_eq!((edges(9, 10), edges(8, 9)), ((Some(8), None), (Some(8), None)));
        assert_eq!(physical.around(9, 17), (8, 24));
        assert_eq!(physical.rest(8, 9, 15).collect::<Vec<_>>(), [8, 15]);
        assert_eq!(PhysicalSectors::new(1, 64).edges(3, 5), (None, None));
    }

    #[test]
    fn full_buffer_forgets_the_oldest_edge() {
        let mut physical = PhysicalSectors::new(8, 16);
        [0, 8, 0, 16].into_iter().for_each(|edge| physical.hold(edge));
        assert_eq!([0, 8, 16].map(|edge| physical.holds(edge)), [false, true, true]);
    }
}
