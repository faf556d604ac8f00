//! Variations of a trace, which show what a verdict takes for granted.
//!
//! - A drive, or a buffer in memory, answers writes before they are stable. If the trace has no
//!   flushes, no response time shows how long a stable write takes. So each write is forced.
//! - A trace that accesses the first addresses of a much larger volume keeps the arm of a disk
//!   there. The data of a full volume lie everywhere. So the addresses are spread over the volume,
//!   in pieces as large as a block group of ext4 (our choice), in their order.

use bimetal_core::layout::Role;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, SectorRange};
use bimetal_sim::findings::address_end;
use bimetal_sim::setup::Choices;
use bimetal_sim::survey::Survey;
use bimetal_trace::Request;

use crate::catalogue::Kind;
use crate::evaluate::Load;
use crate::grid::Candidate;

/// Size of the pieces that are spread.
const PIECE: Bytes = Bytes::from_mib(128);
/// Smallest ratio of the volume's size to the addresses of the trace at which they are spread.
const LARGER: u64 = 2;

/// Change of the requests of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Variation {
    /// No change.
    #[default]
    Recorded,
    /// Each write waits until it is stable.
    ForcedWrites,
    /// The data are spread over the whole volume.
    Spread,
}

impl Variation {
    /// The variations with a change.
    pub const CHANGES: [Self; 2] = [Self::ForcedWrites, Self::Spread];

    /// Returns the condition under which figures of the recorded trace hold, as the end of a
    /// clause.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Recorded => "",
            Self::ForcedWrites => "a power cut may lose the last writes",
            Self::Spread => "the data lie together on the disk",
        }
    }

    /// Returns the change as a clause.
    pub fn change(self) -> &'static str {
        match self {
            Self::Recorded => "no change",
            Self::ForcedWrites => "writes that wait until they are stable",
            Self::Spread => "data spread over the whole volume, in pieces of 128 MiB",
        }
    }

    /// Returns true if the variation may change the figures of `candidate`.
    pub fn matters(self, candidate: &Candidate, load: &Load, choices: &Choices) -> bool {
        let is_unforced = |request: &Request| request.kind == OpKind::Write && !request.fua;
        match self {
            Self::Recorded => false,
            Self::ForcedWrites => load.survey.flushes == 0 && load.requests.iter().any(is_unforced),
            Self::Spread => {
                let has_disk = [Role::Hdd, Role::Log]
                    .iter()
                    .any(|&role| candidate.drive(role).is_some_and(|drive| drive.kind == Kind::Hdd));
                has_disk && Pieces::of(&load.survey, choices).is_some()
            }
        }
    }

    /// Returns the change of a request of a trace.
    pub(crate) fn of(self, survey: &Survey, choices: &Choices) -> impl Fn(Request) -> Request + use<> {
        let pieces = Pieces::of(survey, choices).filter(|_| self == Self::Spread);
        move |request| match (self, pieces) {
            (Self::ForcedWrites, _) => Request { fua: request.fua || request.kind == OpKind::Write, ..request },
            (Self::Spread, Some(pieces)) => Request { range: pieces.place(request.range), ..request },
            _ => request,
        }
    }
}

/// Pieces of a trace's addresses, and the pieces of the volume among which they are spread.
#[derive(Clone, Copy)]
struct Pieces {
    of_trace: u64,
    of_volume: u64,
}

impl Pieces {
    /// Returns the pieces; `None` if the addresses of the trace fill much of the volume, or are not
    /// those of one device.
    fn of(survey: &Survey, choices: &Choices) -> Option<Self> {
        let capacity = choices.capacity.filter(|_| !choices.compact && survey.address_end.len() == 1)?;
        let end = address_end(survey);
        let (of_trace, of_volume) = (end.0.div_ceil(PIECE.0), capacity.0 / PIECE.0);
        (of_trace > 0 && capacity.0 / LARGER > end.0 && of_volume > of_trace).then_some(Self { of_trace, of_volume })
    }

    /// Returns the place of a range. A range that begins in one piece and ends in the next stays
    /// whole.
    fn place(self, range: SectorRange) -> SectorRange {
        let piece = PIECE.sectors().0;
        let (number, within) = (range.start.0 / piece, range.start.0 % piece);
        let last = self.of_trace.saturating_sub(1).max(1);
        // The last piece of the volume may be cut off, and a range may reach into the piece after it.
        let to = number * (self.of_volume - 2).max(last) / last;
        SectorRange::new(to * piece + within, range.len.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::{Nanoseconds, Sectors};

    fn write(mib: u64) -> Request {
        let range = SectorRange::new(Bytes::from_mib(mib).sectors().0, 8);
        Request { arrival: Nanoseconds::ZERO, device: 0, kind: OpKind::Write, fua: false, range, response: None }
    }

    fn survey(mib: u64) -> Survey {
        Survey { address_end: [(0, Bytes::from_mib(mib).sectors())].into(), ..Survey::default() }
    }

    #[test]
    fn pieces_lie_over_the_whole_volume_in_order() {
        let capacity = |gib| Choices { capacity: Some(Bytes::from_gib(gib)), ..Choices::default() };
        let place = |mib, choices: &Choices| Variation::Spread.of(&survey(1024), choices)(write(mib)).range.start;
        let large = capacity(100);
        let at = [0, 127, 128, 1023].map(|mib| place(mib, &large).0 >> 11);
        assert_eq!(at[..2], [0, 127]);
        assert!(at[2] > 12_000 && at[3] > 90_000 && at[3] < 100 << 10, "{at:?}");
        assert_eq!(place(1000, &capacity(2)), Sectors(1000 << 11), "the trace accesses half of the volume");
        assert_eq!(place(1000, &Choices::default()), Sectors(1000 << 11), "nothing tells the size of the volume");
    }

    #[test]
    fn forced_writes_keep_their_places() {
        let forced = Variation::ForcedWrites.of(&survey(1024), &Choices::default())(write(7));
        assert!(forced.fua && forced.range == write(7).range);
        let read = Request { kind: OpKind::Read, ..write(7) };
        assert!(!Variation::ForcedWrites.of(&survey(1024), &Choices::default())(read).fua);
    }
}
