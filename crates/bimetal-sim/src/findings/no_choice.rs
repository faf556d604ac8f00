//! Runs that are not offered as a choice: their figures are right for the trace, but would mislead
//! a buyer.

use bimetal_core::units::Bytes;
use serde::Serialize;

use super::part_of_addresses::depends_on_place;
use super::saturated::share_behind;
use crate::results::{Run, TraceSummary};
use crate::simulator::Replay;

/// Reason for which a run is not offered as a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoChoice {
    /// The figures hold only for the addresses that the trace accesses, and most addresses of the
    /// volume are unknown.
    TooFewAddresses,
    /// A timer of the scheme is longer than the replay, and the scheme wrote nothing home in the
    /// measured part.
    NothingWrittenHome,
    /// A drive cannot keep up with the times of the trace, so the response times measure the
    /// queue.
    Saturated,
    /// The price of a drive is not known.
    NoPrice,
}

impl NoChoice {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::TooFewAddresses, Self::NothingWrittenHome, Self::Saturated, Self::NoPrice];

    /// Returns the reason in the words of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::TooFewAddresses => {
                "they place data by its address, and the trace touches too few addresses of the volume"
            }
            Self::NothingWrittenHome => {
                "the trace ends before a timer of the scheme, and less than 1 % of the data was written home (a longer trace, or --set of the \
                 timer)"
            }
            Self::Saturated => "their drives fall behind this trace by more than a second",
            Self::NoPrice => "the price of a drive in dollars is not known",
        }
    }

    /// Returns the reason for which a run with a drive of unknown price is not a choice.
    pub fn of_price(run: &Run) -> Option<Self> {
        run.cost.total_usd.is_none().then_some(Self::NoPrice)
    }

    /// Returns the reason in the figures for which `run` over `trace` is not offered as a choice,
    /// if there is one. The run has the reason already if it
    /// [put off all its work](super::puts_off_all_work). A closed replay has no times with which a
    /// drive must keep up.
    pub(crate) fn of(run: &Run, trace: &TraceSummary, replay: Replay) -> Option<Self> {
        let bytes = |bytes: Option<u64>| Bytes(bytes.unwrap_or(0));
        if depends_on_place(&run.scheme, bytes(trace.capacity_bytes), bytes(trace.address_end_bytes)) {
            return Some(Self::TooFewAddresses);
        }
        run.no_choice.or_else(|| share_behind(run, replay).map(|_| Self::Saturated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_that_falls_behind_is_no_choice() {
        let mut run = Run { behind_fraction: Some(0.3), ..Run::named("hddboost") };
        let (trace, timed) = (TraceSummary::default(), Replay::Timed { speedup: 1.0 });
        assert_eq!(NoChoice::of(&run, &trace, timed), Some(NoChoice::Saturated));
        // In a closed replay, a disk with 512 requests at a time could not keep up with the trace.
        assert_eq!(NoChoice::of(&run, &trace, Replay::Closed { depth: 512 }), None);
        run.no_choice = Some(NoChoice::NothingWrittenHome);
        assert_eq!(NoChoice::of(&run, &trace, timed), Some(NoChoice::NothingWrittenHome));
        assert_eq!(NoChoice::of(&Run { behind_fraction: Some(0.01), ..Run::named("smq") }, &trace, timed), None);
    }
}
