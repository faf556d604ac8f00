//! History of each block that a trace touched, in 16 bytes a block.
//!
//! Each device has a directory (a hash map) from groups of [`GROUP_BLOCKS`] neighbouring blocks to
//! the states of these blocks. The states of a group lie in one cache line of one array. Memory
//! grows with the blocks touched: about 25 bytes a block if dense (directory and spare room
//! included), about 100 bytes for a block without neighbours.
//!
//! A *region* of [`REGION_BLOCKS`] neighbouring blocks has one state for all of them if requests
//! touched only all of them together. The first access to a part of the region gives each block its
//! own state. So the memory for a few enormous requests is small.

use std::hint::black_box;
use std::iter::repeat_n;

use bimetal_core::units::Nanoseconds;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

const GROUP_SHIFT: u32 = 2;
/// Number of neighbouring blocks whose states lie side by side.
const GROUP_BLOCKS: u64 = 1 << GROUP_SHIFT;

const REGION_SHIFT: u32 = 10;
/// Number of neighbouring blocks, whole groups, that can have one state.
pub(super) const REGION_BLOCKS: u64 = 1 << REGION_SHIFT;
/// Number of groups of a region.
const REGION_GROUPS: u64 = REGION_BLOCKS / GROUP_BLOCKS;

const ACCESS_BITS: u64 = 0b11;
const READ: u64 = 1;
const WRITE: u64 = 2;

/// History of a block: its last access, and the numbers of its writes and reads.
///
/// Counts stop at 2^32 − 1 per block; times are kept for 146 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct BlockState {
    /// Time of the last access in nanoseconds, shifted left by two; the lower two bits are READ,
    /// WRITE, or 0 for a block that was never accessed.
    last: u64,
    writes: u32,
    reads: u32,
}

/// Effect of a write on the history of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriteEffect {
    /// Time since the previous access to the block, if that access was also a write.
    pub(super) after_write: Option<Nanoseconds>,
    /// Set if the block had been written before, with any accesses in between.
    pub(super) overwrite: bool,
}

impl BlockState {
    /// Records a write at `now`.
    #[inline]
    pub(super) fn write(&mut self, now: Nanoseconds) -> WriteEffect {
        let effect = WriteEffect { after_write: self.since_write(now), overwrite: self.writes > 0 };
        self.last = pack(now) | WRITE;
        self.writes = self.writes.saturating_add(1);
        effect
    }

    /// Records a read at `now`. Returns the time since the previous access, if that access was a
    /// write.
    #[inline]
    pub(super) fn read(&mut self, now: Nanoseconds) -> Option<Nanoseconds> {
        let after_write = self.since_write(now);
        self.last = pack(now) | READ;
        self.reads = self.reads.saturating_add(1);
        after_write
    }

    /// Returns the number of writes to the block.
    pub(super) fn writes(&self) -> u32 {
        self.writes
    }

    /// Returns the number of reads of the block.
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

/// Access of one request to the blocks of one group.
#[derive(Clone, Copy)]
pub(super) struct Access {
    /// Time of the access.
    pub(super) at: Nanoseconds,
    /// Set for a write; otherwise the access is a read.
    pub(super) is_write: bool,
    /// Dense index of the device.
    device: usize,
    /// Number of the group.
    group: u64,
    /// Position of the group in the table, once it was looked up.
    index: u32,
    /// First block within the group; `last` is the last block.
    first: u8,
    last: u8,
}

impl Access {
    /// Returns the accesses of a request to the blocks from `first` to `last`, both included, of
    /// the device with the dense index `device`.
    pub(super) fn split(
        at: Nanoseconds,
        is_write: bool,
        device: usize,
        first: u64,
        last: u64,
    ) -> impl Iterator<Item = Self> {
        let within_group = |block: u64| (block % GROUP_BLOCKS) as u8;
        let (first_group, last_group) = (first >> GROUP_SHIFT, last >> GROUP_SHIFT);
        (first_group..=last_group).map(move |group| Self {
            at,
            is_write,
            device,
            group,
            index: 0,
            first: if group == first_group { within_group(first) } else { 0 },
            last: if group == last_group { within_group(last) } else { within_group(GROUP_BLOCKS - 1) },
        })
    }
}

struct Device {
    number: u32,
    groups: HashMap<u64, u32, FixedState>,
    /// State of all blocks of a region, by the region's number. The blocks of these regions are in
    /// no group.
    regions: HashMap<u64, BlockState, FixedState>,
}

/// States of neighbouring blocks, in one cache line.
#[derive(Default)]
#[repr(align(64))]
struct Group([BlockState; GROUP_BLOCKS as usize]);

/// States of all blocks touched, on all devices.
pub(super) struct BlockTable {
    devices: Vec<Device>,
    index_of_device: HashMap<u32, usize, FixedState>,
    last_device: usize,
    groups: Vec<Group>,
}

impl BlockTable {
    /// Creates a table without blocks.
    pub(super) fn new() -> Self {
        Self { devices: Vec::new(), index_of_device: HashMap::default(), last_device: 0, groups: Vec::new() }
    }

    /// Returns the dense index of the device that the trace calls `number`.
    #[inline]
    pub(super) fn device_index(&mut self, number: u32) -> usize {
        if self.devices.get(self.last_device).is_none_or(|device| device.number != number) {
            self.last_device = *self.index_of_device.entry(number).or_insert_with(|| {
                self.devices.push(Device { number, groups: HashMap::default(), regions: HashMap::default() });
                self.devices.len() - 1
            });
        }
        self.last_device
    }

    /// Returns the number of devices seen.
    pub(super) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Returns the number of the region of `block`.
    pub(super) fn region_of(block: u64) -> u64 {
        block >> REGION_SHIFT
    }

    /// Returns true if the blocks of a region have one state.
    #[inline]
    pub(super) fn is_alike(&self, device: usize, region: u64) -> bool {
        let regions = &self.devices[device].regions;
        !regions.is_empty() && regions.contains_key(&region)
    }

    /// Returns the state of all blocks of a region, to access all of them; `None` if they have
    /// states of their own. All earlier accesses must have been visited.
    pub(super) fn region(&mut self, device: usize, region: u64) -> Option<&mut BlockState> {
        let Device { groups, regions, .. } = &mut self.devices[device];
        let first = region * REGION_GROUPS;
        if !regions.contains_key(&region) && (first..first + REGION_GROUPS).any(|group| groups.contains_key(&group)) {
            return None;
        }
        Some(regions.entry(region).or_default())
    }

    /// Gives each block of a region whose blocks have one state a state of its own. All earlier
    /// accesses must have been visited.
    pub(super) fn split(&mut self, device: usize, region: u64) {
        let Device { groups, regions, .. } = &mut self.devices[device];
        let Some(state) = regions.remove(&region) else { return };
        for group in region * REGION_GROUPS..(region + 1) * REGION_GROUPS {
            groups.insert(group, next_index(&self.groups));
            self.groups.push(Group([state; GROUP_BLOCKS as usize]));
        }
    }

    /// Calls `visit` with each block of `accesses`, in order: the access, the block's number and
    /// its state. No block is in a region whose blocks have one state.
    ///
    /// Each call first finds the states of all accesses, then loads the states, and then visits
    /// them. So the cache misses of a batch overlap, and one miss need not end before the next
    /// begins.
    pub(super) fn visit(&mut self, accesses: &mut [Access], mut visit: impl FnMut(&Access, u64, &mut BlockState)) {
        for access in accesses.iter_mut() {
            access.index = *self.devices[access.device].groups.entry(access.group).or_insert_with(|| {
                let index = next_index(&self.groups);
                self.groups.push(Group::default());
                index
            });
        }
        let loaded =
            |loaded, access: &Access| loaded ^ self.groups[access.index as usize].0[access.first as usize].last;
        black_box(accesses.iter().fold(0, loaded));
        for access in accesses.iter() {
            let states = &mut self.groups[access.index as usize].0[access.first as usize..=access.last as usize];
            let first_block = (access.group << GROUP_SHIFT) + u64::from(access.first);
            for (offset, state) in states.iter_mut().enumerate() {
                visit(access, first_block + offset as u64, state);
            }
        }
    }

    /// Returns the blocks that were read or written, in arbitrary order.
    pub(super) fn touched(&self) -> impl Iterator<Item = &BlockState> {
        let regions = self.devices.iter().flat_map(|device| device.regions.values());
        let in_groups = self.groups.iter().flat_map(|group| &group.0).filter(|state| state.last != 0);
        regions.flat_map(|state| repeat_n(state, REGION_BLOCKS as usize)).chain(in_groups)
    }

    /// Returns the blocks that were read or written, by device number, then by block number.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &BlockState> {
        let mut order: Vec<(u32, u64, Place<'_>)> = Vec::with_capacity(self.groups.len());
        for Device { number, groups, regions } in &self.devices {
            let of_region = |(region, state)| (*number, region * REGION_GROUPS, Place::Region(state));
            order.extend(groups.iter().map(|(&group, &index)| (*number, group, Place::Group(index))));
            order.extend(regions.iter().map(of_region));
        }
        order.sort_unstable_by_key(|&(number, group, _)| (number, group));
        order.into_iter().flat_map(|(.., place)| {
            let (states, times) = match place {
                Place::Group(index) => (&self.groups[index as usize].0[..], 1),
                Place::Region(state) => (std::slice::from_ref(state), REGION_BLOCKS as usize),
            };
            states.iter().filter(|state| state.last != 0).flat_map(move |state| repeat_n(state, times))
        })
    }
}

/// Place of the states of neighbouring blocks.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Position of a group in the table.
    Group(u32),
    /// State of all blocks of a region.
    Region(&'a BlockState),
}

/// Returns the position of the next group after `groups`.
fn next_index(groups: &[Group]) -> u32 {
    u32::try_from(groups.len()).expect("fewer than 2^32 groups of blocks fit in memory")
}

#[cfg(test)]
impl BlockTable {
    /// Returns the number of groups whose blocks have states of their own.
    pub(super) fn groups_in_memory(&self) -> usize {
        self.groups.len()
    }

    /// Calls `visit` with the blocks from `first` to `last` of the device that the trace calls
    /// `number`.
    pub(super) fn visit_range(
        &mut self,
        number: u32,
        first: u64,
        last: u64,
        mut visit: impl FnMut(u64, &mut BlockState),
    ) {
        let device = self.device_index(number);
        let mut accesses: Vec<Access> = Access::split(Nanoseconds::ZERO, true, device, first, last).collect();
        self.visit(&mut accesses, |_, block, state| visit(block, state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_sixteen_bytes() {
        assert_eq!(size_of::<BlockState>(), 16);
        assert_eq!(size_of::<Group>() as u64, 16 * GROUP_BLOCKS);
    }

    #[test]
    fn a_range_visits_each_of_its_blocks_once_across_group_borders() {
        for (first, last) in [(5, 18), (0, 7), (3, 3), (8, 9), (7, 8), (4, 15)] {
            let mut table = BlockTable::new();
            let mut seen = Vec::new();
            table.visit_range(7, first, last, |block, state| {
                seen.push(block);
                state.read(Nanoseconds(1));
            });
            assert_eq!(seen, (first..=last).collect::<Vec<_>>());
            assert_eq!(table.in_order().count(), seen.len(), "neighbours in the same groups stay untouched");
        }
    }

    #[test]
    fn accesses_of_a_batch_to_the_same_block_come_in_order() {
        let mut table = BlockTable::new();
        let device = table.device_index(0);
        let mut accesses: Vec<Access> =
            (0..10).flat_map(|second| Access::split(Nanoseconds(second), true, device, 6, 9)).collect();
        let mut intervals = Vec::new();
        table.visit(&mut accesses, |access, _, state| intervals.extend(state.write(access.at).after_write));
        assert_eq!(intervals, [Nanoseconds(1); 9 * 4]);
    }

    /// Devices keep their address spaces apart and come in order of their numbers.
    #[test]
    fn devices_have_separate_addresses_in_order_of_number() {
        let mut table = BlockTable::new();
        for (number, writes) in [(9, 1), (2, 2), (9, 3)] {
            for _ in 0..writes {
                table.visit_range(number, 4, 4, |_, state| {
                    state.write(Nanoseconds(0));
                });
            }
        }
        assert_eq!(table.device_count(), 2);
        assert_eq!(table.in_order().map(BlockState::writes).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn the_last_block_number_there_is_can_be_visited() {
        BlockTable::new().visit_range(0, u64::MAX, u64::MAX, |block, _| assert_eq!(block, u64::MAX));
    }
}
