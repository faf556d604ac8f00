//! The times at which a volume acts by itself, and the reasons.

use super::Volume;
use crate::payload::Payload;
use crate::units::{Nanoseconds, sooner};

/// Reasons for which a volume acts at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TimeoutReason {
    /// The scheme has work: a timer of the scheme, an idle drive, slots to free.
    Scheme,
    /// The segment of the log that is being filled is written, because no more blocks arrived.
    Segment,
    /// The pause after an incomplete move ends.
    MoveAgain,
    /// The rate of the running move allows its next operation, or appends no longer delay the move.
    MoveGoesOn,
    /// Free slots are discarded on an idle drive.
    Discard,
    /// A note that the last flush has ended is written.
    Note,
    /// The drive with the slots records that home has everything.
    Settle,
    /// The rate of the scrub allows its next read.
    Scrub,
}

impl<P: Payload> Volume<P> {
    /// Returns the time by which [`advance`](Self::advance) must be called, unless another event
    /// happens first.
    pub fn next_timeout(&self) -> Option<Nanoseconds> {
        self.timeouts().into_iter().fold(None, |first, (at, _)| sooner(first, at))
    }

    /// Returns the time by which [`advance`](Self::advance) must be called, and the reason. Of
    /// several reasons with the same time, the returned reason is the first in the order of
    /// [`TimeoutReason`].
    pub fn next_timeout_reason(&self) -> Option<(Nanoseconds, TimeoutReason)> {
        self.timeouts().into_iter().filter_map(|(at, reason)| Some((at?, reason))).min()
    }

    #[inline]
    fn timeouts(&self) -> [(Option<Nanoseconds>, TimeoutReason); 8] {
        let scheme = if self.is_closing() { None } else { self.decider.scheme.next_timeout(&self.view) };
        [
            (scheme, TimeoutReason::Scheme),
            (self.log_idle_at(), TimeoutReason::Segment),
            (self.mover.pauses.until(), TimeoutReason::MoveAgain),
            (self.move_goes_on_at(), TimeoutReason::MoveGoesOn),
            (self.discard_at(), TimeoutReason::Discard),
            (self.note_at(), TimeoutReason::Note),
            (self.settles_at(), TimeoutReason::Settle),
            (self.scrub_goes_on_at(), TimeoutReason::Scrub),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OpKind;
    use crate::testing::Bench;

    /// A log wakes up for its timer, and once more in between while a segment waits for blocks.
    #[test]
    fn timeout_has_its_reason() {
        let settings = [("timeout", "900s"), ("read_threshold", "off"), ("log_buffer", "64KiB")];
        let mut bench = Bench::new("griffin", &settings);
        let timer = (Nanoseconds::from_seconds(900), TimeoutReason::Scheme);
        assert_eq!(bench.volume.next_timeout_reason(), Some(timer));
        bench.request(OpKind::Write, 0, 8);
        let (at, reason) = bench.volume.next_timeout_reason().expect("a segment waits");
        assert_eq!(reason, TimeoutReason::Segment);
        assert_eq!(bench.volume.next_timeout(), Some(at));
        bench.pass(at);
        assert_eq!(bench.volume.next_timeout_reason(), Some(timer));
    }
}
