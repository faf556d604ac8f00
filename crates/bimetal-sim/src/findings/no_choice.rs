//! Runs that are not offered as a choice: their figures are right for the trace, but would mislead
//! a buyer.

use bimetal_core::units::{Bytes, Nanoseconds};

use super::part_of_addresses::depends_on_place;
use super::timers::puts_off_all_work;
use crate::results::{Run, TraceSummary};

/// Reason for which a run is not offered as a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// The figures hold only for the addresses that the trace accesses, and most addresses of the
    /// volume are unknown.
    TooFewAddresses,
    /// A timer of the scheme is longer than the trace, and the scheme wrote nothing home.
    NothingWrittenHome,
    /// The price of a drive is not known.
    NoPrice,
}

impl NoChoice {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::TooFewAddresses, Self::NothingWrittenHome, Self::NoPrice];

    /// Returns the reason in the words of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::TooFewAddresses => "the trace knows too few addresses",
            Self::NothingWrittenHome => "the trace ends before their timers, and they wrote nothing home",
            Self::NoPrice => "the price of a drive is not known",
        }
    }

    /// Returns the reason in the figures for which `run` over `trace` is not offered as a choice,
    /// if there is one.
    pub fn of(run: &Run, trace: &TraceSummary) -> Option<Self> {
        let bytes = |bytes: Option<u64>| Bytes(bytes.unwrap_or(0));
        if depends_on_place(&run.scheme, bytes(trace.capacity_bytes), bytes(trace.address_end_bytes)) {
            return Some(Self::TooFewAddresses);
        }
        let duration = Nanoseconds::from_seconds_f64(trace.duration_s);
        let written = (run.bytes_written_home(), trace.write_bytes);
        let puts_off = puts_off_all_work(&run.scheme, &run.settings, duration, written);
        puts_off.then_some(Self::NothingWrittenHome)
    }
}
