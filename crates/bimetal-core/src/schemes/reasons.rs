//! Reasons for bypasses: the reasons that a scheme declares, and the reasons that follow from its
//! parameters and members. This file also puts the losses of a scheme into words.

use crate::policies::admission;
use crate::scheme::{Holds, Reason, SchemeInfo};
use crate::settings::{Kind, Parameter};

impl SchemeInfo {
    /// Returns a loss as a text for users. A part of the loss that holds under one value of a
    /// parameter ends with the setting: `nothing (mode=enhanced)`.
    pub fn loss_in_words(&self, loss: &str) -> String {
        let parameter_of = |value: &str| {
            let has = |parameter: &&Parameter| matches!(parameter.kind, Kind::Choice(words) if words.contains(&value));
            self.parameters.iter().find(has)
        };
        let clause = |clause: &str| {
            let found = clause.split_once(": ").and_then(|(value, lost)| Some((parameter_of(value)?, value, lost)));
            match found {
                Some((parameter, value, lost)) => format!("{lost} ({}={value})", parameter.name),
                None => clause.to_owned(),
            }
        };
        loss.split("; ").map(clause).collect::<Vec<_>>().join("; ")
    }

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

#[cfg(test)]
mod tests {
    use crate::schemes;

    /// Regression: `SSD lost loses enhanced: nothing; maximized: …` did not say which data are
    /// lost.
    #[test]
    fn loss_under_a_setting_has_the_setting_behind_it() {
        let info = schemes::find("smart-response").expect("a scheme");
        assert_eq!(
            info.loss_in_words(info.ssd_loss),
            "nothing (mode=enhanced); writes that were not written back yet (mode=maximized)"
        );
        // A colon without a setting in front stays.
        let info = schemes::find("hdd-only").expect("a scheme");
        assert_eq!(info.loss_in_words(info.ssd_loss), info.ssd_loss);
    }
}
