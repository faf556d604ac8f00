//! Greedy: chooses the block with the fewest valid units; among equal blocks the block that reached
//! this number last.

use super::VictimSelection;
use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::mapping::NONE;
use crate::flash::precondition::Layout;
use crate::flash::sparse::SparseArray;
use crate::flash::state::archive::{Archive, Checked};

/// Neighbours in a bucket's list.
#[derive(Clone, Copy)]
struct Links {
    previous: u32,
    next: u32,
}

/// Candidates in buckets by number of valid units, each a doubly linked list: O(1) for every
/// change. A choice searches from the lowest bucket that may be filled upwards. In total, the
/// lowest bucket rises by no more than changes have lowered it, plus the units of a block.
pub(crate) struct Greedy {
    units_per_block: u32,
    blocks_per_die: u32,
    links: SparseArray<Links>,
    /// First block of each bucket, die by die; buckets of 0 to one less than all units.
    heads: Vec<u32>,
    /// Bucket, for each die, below which no bucket is filled.
    lowest: Vec<u32>,
    /// Untouched blocks, die by die for each level of the layout: the next untouched block, and the
    /// first block after the last untouched block.
    untouched: Vec<(u32, u32)>,
    /// Level of the layout with this number of valid units, or [`NONE`].
    level_of: Vec<u32>,
    levels: u32,
}

impl Greedy {
    /// Returns the candidates of a drive in the state of `layout`.
    pub(crate) fn new(geometry: &Geometry, layout: &Layout) -> Self {
        let (dies, units) = (geometry.dies(), geometry.units_per_block());
        let mut level_of = vec![NONE; units as usize];
        let useful: Vec<_> = layout.levels().iter().filter(|level| level.valid < units).collect();
        for (number, level) in useful.iter().enumerate() {
            level_of[level.valid as usize] = number as u32;
        }
        let mut untouched = Vec::new();
        for die in 0..dies {
            let first = die * geometry.blocks_per_plane;
            untouched.extend(
                useful.iter().map(|level| (first + level.first_block, first + level.first_block + level.blocks)),
            );
        }
        Self {
            units_per_block: units,
            blocks_per_die: geometry.blocks_per_plane,
            links: SparseArray::new(geometry.blocks()),
            heads: vec![NONE; (dies * units) as usize],
            lowest: vec![0; dies as usize],
            untouched,
            level_of,
            levels: useful.len() as u32,
        }
    }

    #[inline]
    fn links(&mut self, block: u32) -> &mut Links {
        self.links.get_mut(block, |_| Links { previous: NONE, next: NONE })
    }

    #[inline]
    fn insert(&mut self, die: u32, block: u32, valid: u32) {
        let head = std::mem::replace(&mut self.heads[(die * self.units_per_block + valid) as usize], block);
        *self.links(block) = Links { previous: NONE, next: head };
        if head != NONE {
            self.links(head).previous = block;
        }
        let lowest = &mut self.lowest[die as usize];
        *lowest = (*lowest).min(valid);
    }

    #[inline]
    fn remove(&mut self, die: u32, block: u32, valid: u32) {
        let Links { previous, next } = *self.links(block);
        if previous == NONE {
            let head = &mut self.heads[(die * self.units_per_block + valid) as usize];
            debug_assert_eq!(*head, block, "block is not in the bucket of its valid units");
            *head = next;
        } else {
            self.links(previous).next = next;
        }
        if next != NONE {
            self.links(next).previous = previous;
        }
    }

    /// Returns the touched candidates of `die`, in an order in which they can be inserted again.
    fn order(&self, die: u32) -> Vec<u32> {
        let mut order = Vec::new();
        for valid in 0..self.units_per_block {
            let first = order.len();
            let mut block = self.heads[(die * self.units_per_block + valid) as usize];
            while block != NONE {
                order.push(block);
                block = self.links.get(block).map_or(NONE, |links| links.next);
            }
            order[first..].reverse();
        }
        order
    }

    fn pick_untouched(&mut self, die: u32, valid: u32, is_untouched: &dyn Fn(u32) -> bool) -> Option<u32> {
        let level = self.level_of[valid as usize];
        if level == NONE {
            return None;
        }
        let (next, end) = &mut self.untouched[(die * self.levels + level) as usize];
        while next < end {
            let block = *next;
            *next += 1;
            if is_untouched(block) {
                return Some(block);
            }
        }
        None
    }
}

impl VictimSelection for Greedy {
    fn closed(&mut self, die: u32, block: u32, valid: u32, _: bool) {
        debug_assert_eq!(block / self.blocks_per_die, die);
        if valid < self.units_per_block {
            self.insert(die, block, valid);
        }
    }

    #[inline]
    fn invalidated(&mut self, die: u32, block: u32, before: u32, after: u32) {
        if before < self.units_per_block {
            self.remove(die, block, before);
        }
        self.insert(die, block, after);
    }

    fn pick(&mut self, die: u32, is_untouched: &dyn Fn(u32) -> bool) -> Option<u32> {
        for valid in self.lowest[die as usize]..self.units_per_block {
            self.lowest[die as usize] = valid;
            let head = self.heads[(die * self.units_per_block + valid) as usize];
            if head != NONE {
                self.remove(die, head, valid);
                return Some(head);
            }
            if let Some(block) = self.pick_untouched(die, valid, is_untouched) {
                return Some(block);
            }
        }
        None
    }

    fn taken(&mut self, die: u32, block: u32, valid: u32) {
        if valid < self.units_per_block {
            self.remove(die, block, valid);
        }
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        for die in 0..known.dies {
            let mut order = self.order(die);
            archive.list(&mut order, known.blocks_per_die.into(), known.blocks_of(die).end)?;
            if !archive.is_reading() {
                continue;
            }
            // The last block of a sequential fill was inserted when the layer was made.
            self.heads[(die * self.units_per_block) as usize..][..self.units_per_block as usize].fill(NONE);
            let touched = known.candidates(die).filter(|(block, _)| !known.blocks.is_untouched(*block));
            Known::check_order(&order, touched.map(|(block, _)| block), "collectable")?;
            for block in order {
                self.insert(die, block, known.blocks.get(block, known.layout).1);
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.links.memory_bytes()
            + (self.heads.capacity() + self.lowest.capacity() + self.level_of.capacity()) as u64 * 4
            + self.untouched.capacity() as u64 * 8
    }
}
