//! `log-block`: block mapping with log blocks (Kim, Kim, Noh, Min and Cho, "A space-efficient flash
//! translation layer for CompactFlash systems", 2002: BAST), as described in Konanki's thesis,
//! section 4.1, figures 4.2 and 4.3.
//!
//! Each logical block has a data block, in which pages keep their offset. Writes go to a log block
//! of the logical block, page after page. When the log block is full, or free blocks run short, log
//! block and data block are merged. The sum of free and log blocks is constant: `log_blocks` of the
//! profile, or all spare blocks.
//!
//! Errors in the figures: `n = n - 2` is `n = n - 1`. `merge()` names no victim. Here a full log
//! block is merged itself. When free blocks are short, the log block that was assigned first is
//! merged. A data block that was never programmed needs no erase.

use std::collections::VecDeque;

use super::striped::{Striped, logical_blocks};
use super::{DieLayer, Info};
use crate::flash::mapping::NONE;
use crate::flash::nand::{Nand, Place};
use crate::flash::operation::Cause;
use crate::flash::state::archive::{Archive, Checked, ensure};
use crate::profile::BadFigure;

/// Number of free blocks below which a merge makes room: the log block to be assigned, and the
/// target of a full merge.
const FREE_BLOCKS_MIN: usize = 2;

pub(crate) const INFO: Info = Info {
    name: "log-block",
    whole_pages: true,
    reserve: |_| FREE_BLOCKS_MIN as u32,
    make: |setup| {
        let (geometry, logical) = (setup.geometry, logical_blocks(&setup.geometry));
        let logs = log_blocks_of_die(setup, FREE_BLOCKS_MIN as u32)?;
        Ok(Box::new(Striped::new(setup, || LogBlock::new(logical, logs, geometry.units_per_block()))))
    },
};

/// Returns the log blocks of each die: the profile's total divided by the dies, or every spare
/// block. Refuses fewer than `least` log blocks, and more log blocks than spare blocks.
pub(crate) fn log_blocks_of_die(setup: &super::Setup, least: u32) -> Result<u32, BadFigure> {
    let (dies, spare) = (setup.geometry.dies(), setup.geometry.blocks_per_plane - logical_blocks(&setup.geometry));
    let Some(asked) = setup.profile.log_blocks else { return Ok(spare) };
    if asked / dies < least || asked / dies > spare {
        let expected = format!("from {} to {}, the spare blocks of this drive", least * dies, spare * dies);
        return Err(BadFigure::new("log_blocks", asked, expected));
    }
    Ok(asked / dies)
}

/// Log block of a logical block.
struct Log {
    block: u32,
    /// First clean page of the log block.
    next: u32,
    /// Page with the newest version for each offset of the logical block, or [`NONE`].
    newest: Vec<u32>,
}

struct LogBlock {
    per_block: u32,
    log_blocks: u32,
    /// Data blocks by logical block.
    data: Vec<u32>,
    /// Log blocks by logical block.
    logs: Vec<Option<Box<Log>>>,
    free: VecDeque<u32>,
    /// Logical blocks with a log block, in the order of assignment.
    assigned: VecDeque<u32>,
}

impl LogBlock {
    fn new(logical: u32, log_blocks: u32, per_block: u32) -> Self {
        Self {
            per_block,
            log_blocks,
            data: (0..logical).collect(),
            logs: (0..logical).map(|_| None).collect(),
            free: (logical..logical + log_blocks).collect(),
            assigned: VecDeque::new(),
        }
    }

    fn take_free_block(&mut self) -> u32 {
        self.free.pop_front().unwrap_or_else(|| unreachable!("a merge keeps a block free"))
    }

    /// Merges the log block and the data block of `b` (Konanki, figure 4.3).
    fn merge(&mut self, b: u32, nand: &mut Nand) {
        let Some(log) = self.logs[b as usize].take() else { return };
        self.assigned.retain(|assigned| *assigned != b);
        let data = self.data[b as usize];
        let in_order = log.next == self.per_block && log.newest.iter().copied().eq(0..self.per_block);
        if in_order {
            // Switch merge.
            self.data[b as usize] = log.block;
            nand.erase(data, Cause::Merge);
            self.free.push_back(data);
            return;
        }
        // Full merge.
        let block = self.take_free_block();
        for (offset, newest) in (0..).zip(&log.newest) {
            let from = match *newest {
                NONE => Place { block: data, offset },
                newest => Place { block: log.block, offset: newest },
            };
            if !nand.is_clean(from) && nand.is_live(b * self.per_block + offset) {
                nand.copy(from, Place { block, offset }, Cause::Merge);
            }
        }
        self.data[b as usize] = block;
        for old in [data, log.block] {
            nand.erase(old, Cause::Merge);
            self.free.push_back(old);
        }
    }
}

impl DieLayer for LogBlock {
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand) {
        for p in start..end {
            let b = p / self.per_block;
            if self.free.len() < FREE_BLOCKS_MIN
                && let Some(&victim) = self.assigned.front()
            {
                self.merge(victim, nand);
            }
            if self.logs[b as usize].is_none() {
                let block = self.take_free_block();
                self.assigned.push_back(b);
                self.logs[b as usize] =
                    Some(Box::new(Log { block, next: 0, newest: vec![NONE; self.per_block as usize] }));
            }
            let Some(log) = &mut self.logs[b as usize] else { unreachable!("it was assigned above") };
            nand.program(Place { block: log.block, offset: log.next }, p);
            log.newest[(p % self.per_block) as usize] = log.next;
            log.next += 1;
            if log.next == self.per_block {
                self.merge(b, nand);
            }
        }
    }

    fn locate(&self, page: u32, _: &Nand) -> Place {
        let (b, offset) = ((page / self.per_block) as usize, page % self.per_block);
        match self.logs[b].as_ref().map(|log| (log.block, log.newest[offset as usize])) {
            Some((block, newest)) if newest != NONE => Place { block, offset: newest },
            _ => Place { block: self.data[b], offset },
        }
    }

    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked {
        let (per_block, logical) = (self.per_block, self.data.len() as u32);
        archive.table(&mut self.data, u64::from(nand.blocks()) - 1)?;
        archive.queue(&mut self.free, nand.blocks().into(), nand.blocks())?;
        archive.queue(&mut self.assigned, logical.into(), logical)?;
        for b in &self.assigned {
            let log = self.logs[*b as usize]
                .get_or_insert_with(|| Box::new(Log { block: 0, next: 0, newest: vec![NONE; per_block as usize] }));
            archive.number(&mut log.block, u64::from(nand.blocks()) - 1)?;
            archive.number(&mut log.next, u64::from(per_block) - 1)?;
            archive.places(&mut log.newest, log.next)?;
        }
        Ok(())
    }

    fn check(&self, nand: &Nand) -> Checked {
        let logs = self.logs.iter().flatten();
        let used = self.data.iter().copied().chain(logs.clone().map(|log| log.block));
        check_uses(used, self.free.iter().copied(), nand)?;
        let (assigned, free) = (self.assigned.len(), self.free.len());
        ensure(assigned == logs.clone().count(), || format!("{assigned} log blocks are assigned"))?;
        ensure(free > 0 && free + assigned == self.log_blocks as usize, || format!("{free} blocks are free"))?;
        logs.into_iter().try_for_each(|log| check_frontier(log.block, log.next, nand))
    }

    fn memory_bytes(&self) -> u64 {
        let log = size_of::<Log>() as u64 + u64::from(self.per_block) * 4;
        (self.data.capacity() * 4 + self.logs.capacity() * 8 + (self.free.capacity() + self.assigned.capacity()) * 4)
            as u64
            + self.assigned.len() as u64 * log
    }
}

/// Checks that every block has at most one use, and that free blocks are clean.
pub(crate) fn check_uses(used: impl Iterator<Item = u32>, free: impl Iterator<Item = u32>, nand: &Nand) -> Checked {
    let mut uses = vec![0; nand.blocks() as usize];
    used.for_each(|block| uses[block as usize] += 1);
    for block in free {
        uses[block as usize] += 1;
        ensure(nand.dirty(block) == 0, || format!("block {block} is free and not clean"))?;
    }
    for (block, uses) in uses.iter().enumerate() {
        ensure(*uses <= 1, || format!("block {block} has {uses} uses"))?;
        let idle = *uses == 1 || nand.dirty(block as u32) == 0;
        ensure(idle, || format!("block {block} holds pages and has no use"))?;
    }
    Ok(())
}

/// Checks that `block` is clean from page `next` on, and that earlier pages are not clean.
pub(crate) fn check_frontier(block: u32, next: u32, nand: &Nand) -> Checked {
    let wrong = (0..nand.pages_per_block()).find(|&offset| nand.is_clean(Place { block, offset }) != (offset >= next));
    ensure(wrong.is_none(), || format!("block {block} is not written up to page {next}"))
}
