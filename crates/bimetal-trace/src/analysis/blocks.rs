//! What is remembered of every block a trace touched, in 16 bytes a block.
//!
//! Each device has a directory (a hash map) from groups of [`GROUP_BLOCKS`] neighbouring blocks to their states, which
//! lie side by side in one array: one hash and about one cache line for a small request, and memory that follows the
//! blocks touched, dense (about 20 bytes a block) or sparse (at worst about 155 bytes for a lone block).

use bimetal_core::units::Nanoseconds;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

const GROUP_SHIFT: u32 = 3;
/// Neighbouring blocks whose states lie side by side.
const GROUP_BLOCKS: usize = 1 << GROUP_SHIFT;

const ACCESS_BITS: u64 = 0b11;
const READ: u64 = 1;
const WRITE: u64 = 2;

/// The past of one block: its last access and how often it was written and read.
///
/// Counts stop at 2^32 − 1 per block; times are kept for 146 years.
#[derive(Clone, Copy, Default)]
pub(super) struct BlockState {
    /// Time of the last access in nanoseconds, shifted left by two; below it READ, WRITE, or 0 for never accessed.
    last: u64,
    writes: u32,
    reads: u32,
}

/// What a write meant for its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriteEffect {
    /// The time since the access before, where that was a write too.
    pub(super) after_write: Option<Nanoseconds>,
    /// The block had been written before, whatever came in between.
    pub(super) overwrite: bool,
}

impl BlockState {
    /// Notes a write at `now`.
    #[inline]
    pub(super) fn write(&mut self, now: Nanoseconds) -> WriteEffect {
        let effect = WriteEffect { after_write: self.since_write(now), overwrite: self.writes > 0 };
        self.last = pack(now) | WRITE;
        self.writes = self.writes.saturating_add(1);
        effect
    }

    /// Notes a read at `now`; gives the time since the access before, where that was a write.
    #[inline]
    pub(super) fn read(&mut self, now: Nanoseconds) -> Option<Nanoseconds> {
        let after_write = self.since_write(now);
        self.last = pack(now) | READ;
        self.reads = self.reads.saturating_add(1);
        after_write
    }

    /// How often it was written.
    pub(super) fn writes(&self) -> u32 {
        self.writes
    }

    /// How often it was read.
    pub(super) fn reads(&self) -> u32 {
        self.reads
    }

    #[inline]
    fn since_write(&self, now: Nanoseconds) -> Option<Nanoseconds> {
        (self.last & ACCESS_BITS == WRITE).then(|| now.saturating_sub(Nanoseconds(self.last >> 2)))
    }
}

#[inline]
fn pack(time: Nanoseconds) -> u64 {
    time.get().min(u64::MAX >> 2) << 2
}

struct Device {
    number: u32,
    groups: HashMap<u64, u32, FixedState>,
}

/// The states of all blocks touched, of all devices.
pub(super) struct BlockTable {
    devices: Vec<Device>,
    index_of_device: HashMap<u32, usize, FixedState>,
    last_device: usize,
    groups: Vec<[BlockState; GROUP_BLOCKS]>,
}

impl BlockTable {
    /// A table of no blocks.
    pub(super) fn new() -> Self {
        Self { devices: Vec::new(), index_of_device: HashMap::default(), last_device: 0, groups: Vec::new() }
    }

    /// The dense index of the device that the trace calls `number`.
    #[inline]
    pub(super) fn device_index(&mut self, number: u32) -> usize {
        if self.devices.get(self.last_device).is_none_or(|device| device.number != number) {
            self.last_device = *self.index_of_device.entry(number).or_insert_with(|| {
                self.devices.push(Device { number, groups: HashMap::default() });
                self.devices.len() - 1
            });
        }
        self.last_device
    }

    /// How many devices were seen.
    pub(super) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Calls `visit` with the number and the state of each block from `first` to `last`, both included, of the device
    /// with the dense index `device`.
    #[inline]
    pub(super) fn visit(&mut self, device: usize, first: u64, last: u64, mut visit: impl FnMut(u64, &mut BlockState)) {
        let directory = &mut self.devices[device].groups;
        let (first_group, last_group) = (first >> GROUP_SHIFT, last >> GROUP_SHIFT);
        for group in first_group..=last_group {
            let index = *directory.entry(group).or_insert_with(|| {
                let index = u32::try_from(self.groups.len()).expect("fewer than 2^32 groups of blocks fit in memory");
                self.groups.push(Default::default());
                index
            });
            let group_start = group << GROUP_SHIFT;
            let from = first.max(group_start) - group_start;
            let to = last.min(group_start | (GROUP_BLOCKS as u64 - 1)) - group_start;
            let states = &mut self.groups[index as usize][from as usize..=to as usize];
            for (offset, state) in states.iter_mut().enumerate() {
                visit(group_start + from + offset as u64, state);
            }
        }
    }

    /// The blocks that were read or written, by device number, then by block number.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &BlockState> {
        let mut order: Vec<(u32, u64, u32)> = Vec::with_capacity(self.groups.len());
        for device in &self.devices {
            order.extend(device.groups.iter().map(|(&group, &index)| (device.number, group, index)));
        }
        order.sort_unstable();
        order.into_iter().flat_map(|(_, _, index)| &self.groups[index as usize]).filter(|state| state.last != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_sixteen_bytes() {
        assert_eq!(size_of::<BlockState>(), 16);
    }

    #[test]
    fn a_range_visits_each_of_its_blocks_once_across_group_borders() {
        let mut table = BlockTable::new();
        let device = table.device_index(7);
        let mut seen = Vec::new();
        table.visit(device, 5, 18, |block, state| {
            seen.push(block);
            state.read(Nanoseconds(1));
        });
        assert_eq!(seen, (5..=18).collect::<Vec<_>>());
        assert_eq!(table.in_order().count(), 14, "neighbours in the same groups stay untouched");
    }

    #[test]
    fn devices_keep_their_address_spaces_apart_and_come_in_order_of_their_numbers() {
        let mut table = BlockTable::new();
        for (number, writes) in [(9, 1), (2, 2), (9, 3)] {
            let device = table.device_index(number);
            for _ in 0..writes {
                table.visit(device, 4, 4, |_, state| {
                    state.write(Nanoseconds(0));
                });
            }
        }
        assert_eq!(table.device_count(), 2);
        assert_eq!(table.in_order().map(BlockState::writes).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn the_last_block_number_there_is_can_be_visited() {
        let mut table = BlockTable::new();
        let device = table.device_index(0);
        table.visit(device, u64::MAX, u64::MAX, |block, _| assert_eq!(block, u64::MAX));
    }
}
