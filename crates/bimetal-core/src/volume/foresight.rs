//! Facts about the workload that only a simulation knows before the first request.

use super::Volume;
use crate::payload::Payload;
use crate::scheme::Foresight;
use crate::units::Nanoseconds;

impl<P: Payload> Volume<P> {
    /// Supplies facts about the workload to the scheme; to be called before the first request.
    pub fn foresee(&mut self, foresight: &Foresight<'_>) {
        self.decider.scheme.foresee(&self.view, foresight);
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
