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

    /// Tells the scheme that half of the workload has passed. Requests that follow are the second
    /// half.
    pub fn half_passed(&mut self) {
        if let Some(monitor) = self.decider.scheme.monitor_mut() {
            monitor.half_passed(self.requests.waiting());
        }
    }

    /// Returns the minimum length of an idle period, if the scheme must know idle periods in
    /// advance.
    pub fn wants_idle_profile(&self) -> Option<Nanoseconds> {
        self.decider.scheme.properties().idle_profile
    }
}
