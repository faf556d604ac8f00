//! Properties of the first requests of a workload that decide how it is played: the alignment of
//! its addresses, and the resolution of its times.

use bimetal_core::block::BlockSize;
use bimetal_core::units::Nanoseconds;

use super::{Workload, WorkloadError};

/// Number of requests that are examined.
pub(crate) const REQUESTS_MAX: usize = 1 << 16;
/// Share of times from which on times count as whole seconds.
const WHOLE_SHARE: f64 = 0.9;
/// Share of requests at the time of the request before, from which on requests share their seconds.
const SHARED_SHARE: f64 = 0.1;

/// See the [module](self).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Glance {
    /// Sector at which the grid of blocks of most requests begins, below the sectors of a block.
    pub phase: u64,
    /// Set if the times are whole seconds and several requests share a second.
    pub in_whole_seconds: bool,
}

impl Glance {
    /// Looks at the first requests of `workload`.
    ///
    /// # Errors
    /// Fails with the error of the reader.
    pub fn of(workload: &dyn Workload, block: BlockSize) -> Result<Self, WorkloadError> {
        let (mut phases, mut times) = (vec![0u64; block.sectors() as usize], Vec::new());
        for request in workload.open()?.take(REQUESTS_MAX) {
            let request = request?;
            times.push(request.arrival);
            if let Some(phase) = phase_of(request.range.start.0, request.range.len.0, block) {
                phases[phase as usize] += 1;
            }
        }
        Ok(Self { phase: dominant(&phases).0, in_whole_seconds: are_whole_seconds(&times) })
    }
}

/// Returns the phase of a request: its first sector within a block. A request that is not a
/// multiple of a block long has no phase.
pub(crate) fn phase_of(start: u64, sectors: u64, block: BlockSize) -> Option<u64> {
    (sectors > 0 && sectors.is_multiple_of(block.sectors())).then_some(start % block.sectors())
}

/// Returns the most frequent phase, or the lowest of equally frequent phases, and its share of all
/// requests with a phase.
pub(crate) fn dominant(phases: &[u64]) -> (u64, f64) {
    let all: u64 = phases.iter().sum();
    let most = phases.iter().enumerate().max_by_key(|&(phase, count)| (count, std::cmp::Reverse(phase)));
    most.map_or((0, 0.0), |(phase, &count)| (phase as u64, count as f64 / all.max(1) as f64))
}

/// Returns true if `times` are whole seconds, and several requests share a second.
pub(crate) fn are_whole_seconds(times: &[Nanoseconds]) -> bool {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return false };
    let whole = times.iter().filter(|time| time.0.abs_diff(first.0).is_multiple_of(1_000_000_000)).count();
    let shared = times.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let share = |count: usize| count as f64 / times.len() as f64;
    first != last && share(whole) > WHOLE_SHARE && share(shared) > SHARED_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;
    use bimetal_trace::Request;

    fn glance(requests: &[(u64, u64, u64)]) -> Glance {
        let request = |&(ms, start, len): &(u64, u64, u64)| Request {
            arrival: Nanoseconds::from_millis(ms),
            device: 0,
            kind: OpKind::Write,
            fua: false,
            range: SectorRange::new(start, len),
            response: None,
        };
        let workload: Vec<Request> = requests.iter().map(request).collect();
        Glance::of(&workload, BlockSize::default()).unwrap()
    }

    #[test]
    fn phase_is_that_of_most_whole_blocks() {
        let requests = [(0, 63, 8), (1, 71, 16), (2, 0, 8), (3, 4, 1), (4, 12, 1), (5, 20, 3)];
        assert_eq!(glance(&requests).phase, 7);
        assert_eq!(glance(&[(0, 5, 1)]).phase, 0);
    }

    #[test]
    fn whole_seconds_need_requests_that_share_one() {
        let seconds = |each: u64| (0..40).map(move |at| (7 + at / each * 1000, 0, 8)).collect::<Vec<_>>();
        assert!(glance(&seconds(4)).in_whole_seconds);
        assert!(!glance(&seconds(1)).in_whole_seconds, "a constant second");
        assert!(!glance(&seconds(40)).in_whole_seconds, "no times");
        assert!(!glance(&[(5000, 0, 8), (3000, 0, 8)]).in_whole_seconds, "times that step back");
        let milliseconds: Vec<_> = (0..40).map(|at| (at / 4 * 3, 0, 8)).collect();
        assert!(!glance(&milliseconds).in_whole_seconds);
    }
}
