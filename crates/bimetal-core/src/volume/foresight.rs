//! Facts about the workload that only a simulation knows before the first request.

use super::Volume;
use crate::payload::Payload;
use crate::scheme::Foresight;
use crate::units::Nanoseconds;
use crate::uses::Uses;

impl<P: Payload> Volume<P> {
    /// Supplies facts about the workload to the scheme; to be called before the first request.
    pub fn foresee(&mut self, foresight: &Foresight<'_>) {
        self.decider.scheme.foresee(&self.view, foresight);
    }

    /// Returns true if the scheme must know when each block is used, and was not given the uses
    /// yet.
    pub fn lacks_foresight(&self) -> bool {
        self.decider.scheme.lacks_foresight()
    }

    /// Tells the scheme when each block is used, if the scheme needs the uses; to be called before
    /// the first request.
    pub fn foresee_uses(&mut self, uses: Uses) {
        self.decider.scheme.foresee_uses(uses);
    }

    /// Returns the minimum length of an idle period, if the scheme needs a profile of all idle
    /// periods before the first request.
    pub fn wants_idle_profile(&self) -> Option<Nanoseconds> {
        self.decider.scheme.properties().idle_profile
    }

    /// Tells the scheme the number of reads and writes before each idle period.
    pub fn foresee_idle(&mut self, after: Vec<u64>) {
        if let Some(monitor) = self.decider.scheme.monitor_mut() {
            monitor.foresee_idle(after);
        }
    }
}
