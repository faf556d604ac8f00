//! Knowledge of the future for schemes that need it: the uses of each block, and idle times. A
//! first pass over the workload finds the uses and the idle times.

use bimetal_core::block::Block;
use bimetal_core::operation::OpKind;

use crate::belady::Foretold;
use crate::host::Planned;
use crate::setup::Setup;
use crate::simulator::Replay;
use crate::uses::Uses;
use crate::workload::{Requests, WorkloadError};

impl Setup {
    /// Returns true if the scheme needs knowledge of the requests that are still to come.
    pub(crate) fn needs_foresight(&self) -> bool {
        self.volume().lacks_policy() || self.volume().wants_idle_profile().is_some()
    }

    /// Gives the scheme the idle times of the workload, if the scheme needs them and `replay` has
    /// times: the gaps between arrivals, or the think times of the host.
    ///
    /// # Errors
    /// Fails if the workload cannot be read.
    pub fn foresee_idle<'a>(
        &mut self,
        replay: Replay,
        requests: impl FnOnce() -> Result<Requests<'a>, WorkloadError>,
    ) -> Result<(), WorkloadError> {
        let (Some(long), Some(speedup)) = (self.volume().wants_idle_profile(), replay.speedup()) else {
            return Ok(());
        };
        let thinks = matches!(replay, Replay::Think { .. });
        let (mut after, mut accesses, mut last) = (Vec::new(), 0u64, None);
        for request in requests()? {
            let request = request?;
            let gap = last.map_or(0, |last| request.arrival.saturating_sub(last).0);
            if gap as f64 / speedup >= long.0 as f64 {
                after.push(accesses);
            }
            // A host that thinks begins once all is answered.
            let answer = request.response.filter(|_| thinks).unwrap_or_default();
            last = last.max(Some(request.arrival.saturating_add(answer)));
            accesses += u64::from(is_access(request.kind));
        }
        self.tree.outermost_mut().take_host(Box::new(Planned::new(after)));
        Ok(())
    }

    /// Gives the scheme the times at which each block is used, if the scheme needs these times.
    /// `requests` returns the whole workload, from its beginning.
    ///
    /// # Errors
    /// Fails if the workload cannot be read.
    pub fn foresee_uses<'a>(
        &mut self,
        requests: impl FnOnce() -> Result<Requests<'a>, WorkloadError>,
    ) -> Result<(), WorkloadError> {
        if !self.volume().lacks_policy() {
            return Ok(());
        }
        let layout = &self.volume().view().layout;
        let (mut uses, mut number) = (Uses::default(), 0u32);
        for request in requests()? {
            let request = request?;
            if !is_access(request.kind) {
                continue;
            }
            let unit = self.units.get(&request.device).and_then(|&unit| layout.units.get(usize::from(unit)));
            let first = unit.map_or(0, |unit| unit.first.0);
            let blocks = layout.block.touched(request.range).blocks();
            blocks.for_each(|block| uses.add(number, Block(first + block.0).into()));
            number = number.saturating_add(1);
        }
        let volume = self.tree.outermost_mut();
        volume.take_policy(&mut |slots| Box::new(Foretold::new(slots, std::mem::take(&mut uses))));
        Ok(())
    }
}

/// Returns true if schemes decide on requests of this kind.
fn is_access(kind: OpKind) -> bool {
    matches!(kind, OpKind::Read | OpKind::Write | OpKind::WriteZeroes)
}
