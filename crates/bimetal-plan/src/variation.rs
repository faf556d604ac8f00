//! Variations of a trace, which show what a verdict takes for granted.
//!
//! - A drive, or a buffer in memory, answers writes before they are stable. If the trace has no
//!   flushes, no response time shows how long a stable write takes. So each write is forced.
//! - A trace that accesses the first addresses of a much larger volume keeps the arm of a disk
//!   there. The data of a full volume lie everywhere. So the addresses are spread over the volume
//!   in their order, in sixteen pieces or more, which are at most as large as a block group of ext4
//!   (our choice).

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, SectorRange, Sectors};
use bimetal_sim::findings::{address_end, is_part};
use bimetal_sim::setup::Choices;
use bimetal_sim::survey::Survey;
use bimetal_trace::Request;

use crate::catalogue::Kind;
use crate::evaluate::Load;
use crate::grid::Candidate;

/// Largest size of the pieces that are spread.
const PIECE_MAX: Bytes = Bytes::from_mib(128);
/// Smallest number of pieces.
const PIECES_MIN: u64 = 16;
/// Sizes of pieces are multiples of this size.
const PIECE_STEP: Bytes = Bytes::from_mib(1);

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
            Self::Spread => "data spread over the whole volume",
        }
    }

    /// Returns true if the variation may change the figures of `candidate`.
    pub fn matters(self, candidate: &Candidate, load: &Load, choices: &Choices) -> bool {
        let is_unforced = |request: &Request| request.kind == OpKind::Write && !request.fua;
        match self {
            Self::Recorded => false,
            Self::ForcedWrites => load.survey.flushes == 0 && load.requests.iter().any(is_unforced),
            Self::Spread => {
                let has_disk = candidate.drives.iter().any(|(_, offer)| offer.kind == Kind::Hdd);
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
    /// Sectors of a piece.
    sectors: u64,
    of_trace: u64,
    of_volume: u64,
}

impl Pieces {
    /// Returns the pieces; `None` if the addresses of the trace fill much of the volume, or are not
    /// those of one device.
    fn of(survey: &Survey, choices: &Choices) -> Option<Self> {
        if choices.compact || survey.address_end.len() != 1 {
            return None;
        }
        // A volume may have a little less than the capacity that was asked for.
        let volume = Sectors(choices.least_sectors());
        let end = address_end(survey);
        if !is_part(volume.bytes(), end) {
            return None;
        }
        let (volume, end) = (volume.0, end.sectors().0);
        let step = PIECE_STEP.sectors().0;
        let sectors = end.div_ceil(PIECES_MIN).next_multiple_of(step).min(PIECE_MAX.sectors().0);
        let (of_trace, of_volume) = (end.div_ceil(sectors), volume / sectors);
        (of_trace > 1 && of_volume > of_trace + 1).then_some(Self { sectors, of_trace, of_volume })
    }

    /// Returns the place of a range. A range that begins in one piece and ends in the next stays
    /// whole.
    fn place(self, range: SectorRange) -> SectorRange {
        let (number, within) = (range.start.0 / self.sectors, range.start.0 % self.sectors);
        let last = self.of_trace - 1;
        // A range of the last piece may reach into the piece after it.
        let to = number * (self.of_volume - 2) / last;
        SectorRange::new(to * self.sectors + within, range.len.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::Nanoseconds;

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
        let at = [0, 63, 64, 1023].map(|mib| place(mib, &large).0 >> 11);
        assert_eq!(at[..2], [0, 63]);
        // A volume of 100 GiB may have 99.
        assert!(at[2] > 6_000 && at[3] > 98 << 10 && at[3] < 99 << 10, "{at:?}");
        let small = |mib| Variation::Spread.of(&survey(20), &large)(write(mib)).range.start.0 >> 11;
        assert!(small(1) == 1 && small(2) > 9 << 10 && small(19) > 97 << 10, "a small trace has small pieces");
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
