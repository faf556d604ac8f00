//! Traces whose requests look as if they were recorded above the block layer. The trace does not
//! say which event a request is, and many short requests continue the one before them.
//!
//! Of this project's seven recordings of queue events, six have a share of 38 % and more, and
//! `pgbench` has 4 %. Their headers name the event, so they have no such finding. Of the eight of
//! issue events, seven have at most 14 %, and `unpack` has 60 %: Linux did not merge its requests.
//! The public traces, which are left out of the choice, have at most 14 %. So the finding is a
//! question, and not a proof.

use super::Finding;
use crate::survey::Survey;

/// Name of the finding. Who reads the trace removes the finding if the event is known, or if
/// requests are merged.
pub const MAYBE_QUEUE_EVENTS: &str = "maybe-queue-events";

/// Share of the reads and writes that continue the one before, from which on the finding is told.
const SHARE_MIN: f64 = 0.3;

pub(super) fn of(survey: &Survey) -> Option<Finding> {
    let requests = survey.reads + survey.writes;
    let share = survey.continuing as f64 / requests.max(1) as f64;
    if share < SHARE_MIN {
        return None;
    }
    let text = format!(
        "{:.0} % of the reads and writes are short and continue the one before them within a millisecond. Linux may \
         merge such requests before a drive gets them, and here the drives get them unmerged.",
        share * 100.0
    );
    let remedy = "--merge on, if the trace was recorded above the block layer (queue events)";
    Some(Finding::new(MAYBE_QUEUE_EVENTS, "warning", text, remedy, Some(share)))
}

#[cfg(test)]
mod tests {
    use bimetal_core::block::BlockSize;
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::{Nanoseconds, SectorRange};
    use bimetal_trace::Request;

    use super::*;
    use crate::survey::Surveyor;

    fn request(at_us: u64, kind: OpKind, start: u64, sectors: u64) -> Request {
        let (arrival, range) = (Nanoseconds::from_micros(at_us), SectorRange::new(start, sectors));
        Request { arrival, device: 0, kind, fua: false, range, response: None }
    }

    fn found(requests: impl Iterator<Item = Request>) -> Option<Finding> {
        let mut surveyor = Surveyor::new(BlockSize::default());
        requests.for_each(|request| surveyor.note(&request));
        of(&surveyor.finish())
    }

    #[test]
    fn short_requests_that_continue_each_other_are_told() {
        let short = |gap_us: u64, sectors: u64| {
            (0..100).map(move |at| request(at * gap_us, OpKind::Write, at * sectors, sectors))
        };
        let finding = found(short(10, 8)).expect("99 of 100 continue the one before");
        assert!(finding.text.starts_with("99 % of the reads and writes"), "{}", finding.text);
        assert_eq!(found(short(10, 128)), None, "long requests");
        assert_eq!(found(short(1001, 8)), None, "the first is on its way before the next arrives");
        let apart = (0..100).map(|at| request(at, OpKind::Write, at * 9, 8));
        assert_eq!(found(apart), None);
        let kinds = [OpKind::Write, OpKind::Read];
        assert_eq!(found((0..100).map(|at| request(at, kinds[at as usize % 2], at * 8, 8))), None);
    }
}
