//! Makes the layer from a profile, in its initial state.

use std::sync::Arc;

use super::PageMapping;
use super::die::{Die, Stream};
use crate::flash::blocks::Blocks;
use crate::flash::ftl::{Counters, Setup, TranslationLayer as _};
use crate::flash::gc::{self, VictimSelection};
use crate::flash::geometry::{Geometry, RESERVED_BLOCKS_PER_DIE};
use crate::flash::mapping::{Mapping, NONE};
use crate::flash::precondition::{Layout, Precondition};
use crate::flash::wear::{self, WearLevellingKind};
use crate::profile::BadFigure;

/// Options of a page-mapped layer for collection and wear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Number of free blocks below which a die collects; at least 2.
    pub(crate) free_blocks: u32,
    /// Number of free blocks below which a die collects when the drive is idle.
    pub(crate) idle_free_blocks: u32,
    /// Wear levelling policy.
    pub(crate) levelling: WearLevellingKind,
    /// Number of erases by which a block may lag behind under static wear levelling.
    pub(crate) threshold: u32,
    /// Number of erases after which a block is not used again.
    pub(crate) cycles: Option<u32>,
    /// Number of blocks in a die that may be programmed with one bit in each cell; `slc_units` is
    /// the number of units in such a block.
    pub(crate) slc_blocks: u32,
    pub(crate) slc_units: u32,
    /// Largest number of blocks of a die that hold tables, including an open one; 0 if the layer
    /// has no tables on flash.
    pub(crate) table_blocks: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            free_blocks: 2,
            idle_free_blocks: 0,
            levelling: WearLevellingKind::None,
            threshold: 0,
            cycles: None,
            slc_blocks: 0,
            slc_units: 0,
            table_blocks: 0,
        }
    }
}

/// Checks that a steady state has closed blocks for all its data, with `free` blocks free.
fn check_room(geometry: &Geometry, units: u32, free: u32, asked: u32) -> Result<(), BadFigure> {
    let closed = u64::from(geometry.blocks_per_plane.saturating_sub(free)) * u64::from(geometry.units_per_block());
    if u64::from(units.div_ceil(geometry.dies())) > closed {
        let expected = "fewer free blocks or more spare area: the data do not fit into the closed blocks of a die";
        return Err(BadFigure::new("gc_free_blocks", asked, expected));
    }
    Ok(())
}

impl PageMapping {
    /// Makes the layer of `setup` over `geometry`, which may have logical units after the host's
    /// for tables. Each die keeps `table_blocks` blocks for these tables.
    ///
    /// # Errors
    /// Returns the key of the profile because of which there is no room.
    pub(in crate::flash::ftl) fn of(setup: &Setup, geometry: Geometry, table_blocks: u32) -> Result<Self, BadFigure> {
        let options = setup.profile.page_options(&geometry, table_blocks)?;
        let free = options.free_blocks + 1 + table_blocks + options.levelling.open_blocks();
        if setup.precondition == Precondition::Random {
            check_room(&geometry, setup.units, free, options.free_blocks)?;
        }
        let layout = Layout::new(setup.precondition, &geometry, setup.start, setup.units, free, setup.seed);
        let victims = gc::make(setup.profile.gc, &geometry, &layout, setup.seed);
        Ok(Self::new(geometry, layout, victims, options))
    }

    /// Makes the layer over `geometry` (which has passed its checks), in the state of `layout`.
    pub(crate) fn new(geometry: Geometry, layout: Layout, victims: Box<dyn VictimSelection>, options: Options) -> Self {
        let share = u64::from(geometry.logical_units.div_ceil(geometry.dies()));
        let (row, block) = (u64::from(geometry.units_per_row()), u64::from(geometry.units_per_block()));
        let reserved = RESERVED_BLOCKS_PER_DIE + u32::from(options.table_blocks > 0) + options.levelling.open_blocks();
        let closed = u64::from(geometry.blocks_per_plane - reserved) * block;
        assert!(share + 2 * row <= closed, "a geometry without its reserve");
        // A die may hold its share and an eighth of its spare room, so that uneven discards cost no
        // die its spare area. On a drive with less data, the share is the mean of all dies.
        let valid_max = (share + row).max(share + (closed - share) / 8).min(closed - row);
        let levelling = wear::make(options.levelling, &geometry, &layout, options.threshold);
        let mut ftl = Self {
            geometry,
            units_per_page: geometry.units_per_page(),
            units_per_row: geometry.units_per_row(),
            units_per_block: geometry.units_per_block(),
            blocks_per_die: geometry.blocks_per_plane,
            mapping: Mapping::new(geometry.logical_units),
            blocks: Blocks::new(&geometry),
            victims,
            levelling,
            dies: Vec::new(),
            open_die: [NONE; Stream::COUNT],
            next_die: 0,
            valid_units: 0,
            valid_max,
            above_mean_max: valid_max - share,
            retired_max: ((closed - row - valid_max) / block) as u32,
            worn_out: false,
            refused: 0,
            options,
            counters: Counters::default(),
            taken: Vec::new(),
            moved: None,
            layout: Arc::new(layout),
        };
        (0..geometry.dies()).for_each(|die| ftl.add_die(die));
        ftl.valid_units = ftl.dies.iter().map(|die| die.valid).sum();
        ftl
    }

    fn add_die(&mut self, die: u32) {
        let first = die * self.blocks_per_die;
        let programmed = self.layout.programmed_blocks(die);
        self.dies.push(Die::new(self.layout.units_of_die(die), first + programmed..first + self.blocks_per_die));
        // A die may hold a unit less than its share, or not the end of a sequential fill. The last
        // block of the die then holds less than its level, and the collector must know.
        let Some(last) = programmed.checked_sub(1).map(|last| first + last) else { return };
        let expected = self.layout.levels().last().map_or(self.units_per_block, |level| level.valid);
        let (_, valid) = self.blocks.get(last, &self.layout);
        if valid < expected && self.blocks.touch(last, &self.layout) {
            self.victims.closed(die, last, valid, false);
        }
    }

    /// Writes units of the layer's own tables before time zero, into blocks that are free at time
    /// zero.
    pub(in crate::flash::ftl) fn prepare_tables(&mut self, units: std::ops::Range<u32>) {
        let free_blocks = std::mem::replace(&mut self.options.free_blocks, 0);
        let mut operations = Vec::new();
        for unit in units {
            self.append(Stream::Translation, unit, &mut operations);
        }
        self.end_row(Stream::Translation, &mut operations);
        for operation in operations {
            self.programmed(&operation);
        }
        self.options.free_blocks = free_blocks;
        debug_assert_eq!(self.counters.blocks_erased.iter().sum::<u64>(), 0);
        self.counters = Counters::default();
    }
}
