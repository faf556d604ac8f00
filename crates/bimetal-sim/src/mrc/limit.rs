//! Limit of the accesses that a few large requests make.
//!
//! A request of 256 MiB touches 65,536 blocks, and each block is an object with an entry in every
//! table. So a trace of a few hundred lines would take minutes and gigabytes. A trace whose
//! requests have ordinary sizes is never refused, however long it is: each request adds
//! `EACH_REQUEST` accesses to the limit.

/// Number of accesses that each request adds to the limit: a mean size of 4 MiB in blocks of 4 KiB.
const EACH_REQUEST: u64 = 1024;

/// Number of accesses that the limit allows from the first request on, over all caches that are
/// played.
const PLAYED_MAX: u64 = 1 << 25;

/// Number of accesses that the limit allows from the first request on, however few caches are
/// played: the tables take some 60 bytes for each of as many objects.
const NUMBERED_MAX: u64 = 1 << 23;

/// Number of times that a sample is played for each point, to estimate its error.
const PLAYS_OF_A_SAMPLE: u64 = 3;

/// A few requests that access too many blocks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the first {requests} requests access {accesses} blocks: expected at most {limit} for these policies and sizes. \
     A larger block (--block 1MiB), a sample (--sample 0.01) or whole requests (--unit request) need fewer accesses"
)]
pub struct TooManyAccesses {
    /// Number of requests so far.
    pub requests: u64,
    /// Number of accesses of these requests that are examined.
    pub accesses: u64,
    /// Largest number of accesses.
    pub limit: u64,
}

/// Limit of the accesses.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    at_first: u64,
}

impl Limit {
    /// Returns the limit for accesses that are played through `caches` caches, as a sample if
    /// `is_sample` is set.
    pub fn new(caches: usize, is_sample: bool) -> Self {
        let plays = caches as u64 * if is_sample { PLAYS_OF_A_SAMPLE } else { 1 };
        Self { at_first: (PLAYED_MAX / (1 + plays)).min(NUMBERED_MAX) }
    }

    /// Checks the number of examined `accesses` of the first `requests` requests.
    ///
    /// # Errors
    /// Returns an error if the accesses are too many.
    pub fn check(self, requests: u64, accesses: u64) -> Result<(), TooManyAccesses> {
        let limit = self.at_first.saturating_add(requests.saturating_mul(EACH_REQUEST));
        if accesses > limit { Err(TooManyAccesses { requests, accesses, limit }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long traces, such as a hundred million requests of 64 KiB, are measured under all policies.
    #[test]
    fn requests_of_ordinary_size_are_never_refused() {
        for requests in [1, 1000, 100_000_000] {
            assert_eq!(Limit::new(60, false).check(requests, requests * EACH_REQUEST), Ok(()));
        }
    }

    /// The copy of large files among the sample traces: 602 accesses for each request.
    #[test]
    fn copy_of_large_files_is_not_refused_under_all_policies() {
        assert_eq!(Limit::new(54, false).check(1862, 1_121_613), Ok(()));
    }

    #[test]
    fn limit_is_lower_the_more_caches_are_played() {
        let of = |caches, is_sample| Limit::new(caches, is_sample).at_first;
        assert_eq!([of(0, false), of(1, false), of(12, false), of(60, false)], [1 << 23, 1 << 23, 2_581_110, 550_072]);
        assert_eq!(of(4, true), of(12, false));
    }
}
