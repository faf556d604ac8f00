//! Reasons for bypasses: those that a scheme declares, and those that follow from its parameters
//! and members.

use crate::policies::admission;
use crate::scheme::{Holds, Reason, SchemeInfo};

impl SchemeInfo {
    /// Returns all reasons for which the scheme's bypasses can be counted, each with its meaning.
    /// One reason may have several meanings.
    pub fn reasons(&self) -> Vec<(Reason, &'static str)> {
        let off_home = self.memory_bytes_per_block > 0.0;
        let copies = off_home && !self.members.iter().any(|(_, holds)| *holds == Holds::Log);
        let admits = self.parameters.iter().any(|parameter| parameter.name == admission::PARAMETER.name);
        let mut reasons = self.bypass.to_vec();
        if admits {
            reasons.extend(admission::REASONS);
        }
        if copies {
            let busy = "too many copies were being made, or the block was being written";
            reasons.push((Reason::BUSY, busy));
        }
        if copies && !reasons.iter().any(|(reason, _)| *reason == Reason::NO_SPACE) {
            reasons.push((Reason::NO_SPACE, "no slot was free for a copy"));
        }
        if off_home {
            reasons.push((Reason::MEMBER_GONE, "the drive that the block would go to is missing or has failed"));
            reasons.push((Reason::MEMBER_READ_ONLY, "the drive that the block would go to is read-only"));
        }
        reasons.push((Reason::DRAINING, "the volume is being drained: all writes go to their home"));
        reasons
    }
}
