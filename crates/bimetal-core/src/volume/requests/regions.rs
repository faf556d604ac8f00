//! A coarse index of the runs of blocks that a request might overlap. Most requests overlap no run.
//! Runs are counted by region, and only a region with a count makes the caller search its list.

use crate::block::BlockRun;

/// Blocks of a region, as a power of two: a small request lies in one or two regions.
const REGION_SHIFT: u32 = 4;
/// Regions with counts of their own: with as many runs as a volume admits requests, one region in
/// sixteen has a run.
const REGIONS: u64 = 4096;
/// Number of blocks after which the regions use the same counters again.
#[cfg(test)]
pub(crate) const SPAN_BLOCKS: u64 = REGIONS << REGION_SHIFT;
/// Regions of a run at most; a larger run counts in every region.
const REGIONS_OF_A_RUN_MAX: u64 = 64;

/// Number of runs in each region, or a larger number.
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
    /// Returns the regions of a run, unless the run has too many regions.
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

    /// Removes `run`, which was counted, from the counts.
    pub(crate) fn forget(&mut self, run: BlockRun) {
        match Self::of(run) {
            Some(regions) => regions.for_each(|region| self.counts[region] -= 1),
            None => self.everywhere -= 1,
        }
    }

    /// Returns true if a counted run may overlap `run`.
    pub(crate) fn may_touch(&self, run: BlockRun) -> bool {
        self.everywhere > 0 || Self::of(run).is_none_or(|mut regions| regions.any(|region| self.counts[region] > 0))
    }
}
