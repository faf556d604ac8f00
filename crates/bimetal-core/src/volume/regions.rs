//! Where runs of blocks are that a request might meet, roughly. Most requests meet nobody; so that they need not look at
//! everybody under way, runs are counted by region, and only where one is counted a list is searched.

use crate::block::BlockRun;

/// Blocks of a region, as a power of two: a small request lies in one or two of them.
const REGION_SHIFT: u32 = 4;
/// Regions that are counted apart: with as many runs as a volume admits requests, one in sixteen is busy.
const REGIONS: u64 = 4096;
/// After so many blocks regions are counted together with the first ones.
#[cfg(test)]
pub(crate) const SPAN_BLOCKS: u64 = REGIONS << REGION_SHIFT;
/// A run over more regions counts everywhere.
const REGIONS_OF_A_RUN_MAX: u64 = 64;

/// How many runs there may be in a region.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Regions {
    counts: Box<[u32]>,
    everywhere: u32,
}

impl Default for Regions {
    fn default() -> Self {
        Self { counts: vec![0; REGIONS as usize].into(), everywhere: 0 }
    }
}

impl Regions {
    /// The regions of a run, unless they are too many.
    fn of(run: BlockRun) -> Option<impl Iterator<Item = usize>> {
        let last = run.end().max(run.first.0 + 1) - 1;
        let regions = run.first.0 >> REGION_SHIFT..=last >> REGION_SHIFT;
        (regions.end() - regions.start() < REGIONS_OF_A_RUN_MAX)
            .then(|| regions.map(|region| (region % REGIONS) as usize))
    }

    /// Counts `run`.
    pub(crate) fn note(&mut self, run: BlockRun) {
        match Self::of(run) {
            Some(regions) => regions.for_each(|region| self.counts[region] += 1),
            None => self.everywhere += 1,
        }
    }

    /// Counts `run`, which was noted, no longer.
    pub(crate) fn forget(&mut self, run: BlockRun) {
        match Self::of(run) {
            Some(regions) => regions.for_each(|region| self.counts[region] -= 1),
            None => self.everywhere -= 1,
        }
    }

    /// Whether a run that was noted may overlap `run`.
    pub(crate) fn may_touch(&self, run: BlockRun) -> bool {
        self.everywhere > 0 || Self::of(run).is_none_or(|mut regions| regions.any(|region| self.counts[region] > 0))
    }
}
