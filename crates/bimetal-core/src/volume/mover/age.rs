//! The time since which some block has always been dirty.

use crate::units::Nanoseconds;

/// Time since which some block has always been dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::volume) enum DirtySince {
    /// Nothing is dirty.
    Clean,
    /// Since this time.
    At(Nanoseconds),
    /// Some block was dirty before this epoch began, and has been dirty since.
    Before,
}

impl DirtySince {
    /// Updates the age, given whether a block is `dirty` at `now`. Returns true if the last dirty
    /// block has come home.
    #[inline]
    pub(in crate::volume) fn note(&mut self, dirty: bool, now: Nanoseconds) -> bool {
        let ends = !dirty && *self != Self::Clean;
        *self = match *self {
            _ if !dirty => Self::Clean,
            Self::Clean => Self::At(now),
            since => since,
        };
        ends
    }

    /// Returns the time since which content may be dirty, if that time is within this epoch.
    pub(in crate::volume) fn time(self) -> Option<Nanoseconds> {
        if let Self::At(since) = self { Some(since) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_begins_with_the_first_dirty_block_and_ends_with_the_last() {
        let at = Nanoseconds::from_seconds;
        let mut since = DirtySince::Before;
        since.note(true, at(1));
        assert_eq!((since, since.time()), (DirtySince::Before, None));
        since.note(false, at(2));
        assert_eq!(since, DirtySince::Clean);
        let ends = [(true, 3), (true, 4)].map(|(dirty, now)| since.note(dirty, at(now)));
        assert_eq!(ends, [false, false]);
        assert_eq!(since.time(), Some(at(3)));
    }
}
