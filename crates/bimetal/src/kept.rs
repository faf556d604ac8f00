//! Requests of a trace that are kept in memory: the first run that reads the trace to its end keeps
//! them, and all later runs take them from there. So a trace is decoded once for all its runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::Request;
use bimetal_volumes::memory::free_bytes;

/// Memory for requests where the system does not tell how much is free.
const BYTES_DEFAULT: u64 = 1 << 30;
/// Share of the free memory for the requests of all traces that are kept at a time.
pub(crate) const MEMORY_SHARE: u64 = 4;

/// Returns the largest number of bytes that the kept requests of one trace may take, if each of
/// `threads` may hold another trace.
pub(crate) fn bytes_max(threads: usize) -> u64 {
    free_bytes().map_or(BYTES_DEFAULT, |free| free / MEMORY_SHARE / threads as u64)
}

/// Requests in memory, once a run has read them all; see the [module](self).
#[derive(Default)]
pub(crate) struct Kept {
    /// Largest number of requests that are kept. A trace with more is decoded anew for every run.
    most: usize,
    requests: OnceLock<Vec<Request>>,
    /// Set once a run had read more requests than are kept: no later run tries again.
    are_too_many: AtomicBool,
}

impl Kept {
    /// Returns room for requests of `bytes` in memory.
    pub(crate) fn up_to(bytes: u64) -> Self {
        let most = usize::try_from(bytes / size_of::<Request>() as u64).unwrap_or(usize::MAX);
        Self { most, ..Self::default() }
    }

    /// Returns the requests in memory, or else those that `decode` returns.
    ///
    /// # Errors
    /// Returns the error of `decode`.
    pub(crate) fn or_decode<'a, R>(
        &'a self,
        decode: impl FnOnce() -> Result<R, WorkloadError>,
    ) -> Result<Requests<'a>, WorkloadError>
    where
        R: Iterator<Item = Result<Request, WorkloadError>> + 'a,
    {
        if let Some(requests) = self.requests.get() {
            return requests.open();
        }
        let requests = decode()?;
        Ok(if self.most == 0 || self.are_too_many.load(Ordering::Relaxed) {
            Box::new(requests)
        } else {
            Box::new(Keeping { requests, read: Some(Vec::new()), kept: self })
        })
    }
}

/// Passes requests on, and keeps them at the end.
struct Keeping<'a, R> {
    requests: R,
    /// Requests so far; `None` if they are too many.
    read: Option<Vec<Request>>,
    kept: &'a Kept,
}

impl<R: Iterator<Item = Result<Request, WorkloadError>>> Iterator for Keeping<'_, R> {
    type Item = Result<Request, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.requests.next();
        match &next {
            Some(Ok(request)) => {
                if self.read.take_if(|read| read.len() == self.kept.most).is_some() {
                    self.kept.are_too_many.store(true, Ordering::Relaxed);
                }
                if let Some(read) = &mut self.read {
                    read.push(*request);
                }
            }
            // What was read before an error is not the whole trace.
            Some(Err(_)) => self.read = None,
            None => {
                if let Some(mut read) = self.read.take() {
                    read.shrink_to_fit();
                    // Another run may have kept the same requests meanwhile.
                    let _ = self.kept.requests.set(read);
                }
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    use bimetal_core::units::Bytes;
    use bimetal_trace::synthetic::{Generator, WorkloadSpec};

    fn requests() -> Vec<Request> {
        let spec = WorkloadSpec::new(10, Bytes::from_mib(1));
        Generator::new(&[spec], 1).expect("a workload").collect()
    }

    /// Returns the number of times that the requests are decoded for `runs` runs, of which each
    /// reads `read` requests.
    fn decoded(kept: &Kept, runs: usize, read: usize) -> usize {
        let all = requests();
        let times = Cell::new(0);
        for _ in 0..runs {
            let decode = || {
                times.set(times.get() + 1);
                Ok(all.clone().into_iter().map(Ok))
            };
            let opened = kept.or_decode(decode).expect("a workload").take(read);
            assert!(opened.map(|request| request.expect("a request")).eq(all.iter().copied().take(read)));
        }
        times.get()
    }

    #[test]
    fn requests_that_fit_are_decoded_once() {
        let bytes = |requests: usize| (requests * size_of::<Request>()) as u64;
        assert_eq!(decoded(&Kept::up_to(bytes(10)), 3, usize::MAX), 1);
        let few = Kept::up_to(bytes(9));
        assert_eq!(decoded(&few, 3, usize::MAX), 3);
        assert!(few.are_too_many.load(Ordering::Relaxed), "no run collects them again");
        assert_eq!(decoded(&Kept::default(), 3, usize::MAX), 3);
    }

    #[test]
    fn requests_are_kept_only_when_all_were_read() {
        let kept = Kept::up_to(1 << 20);
        assert_eq!(decoded(&kept, 2, 9), 2);
        assert_eq!(decoded(&kept, 2, usize::MAX), 1);
        let kept = Kept::up_to(1 << 20);
        let error = || Err(WorkloadError::from("a bad line"));
        let broken = || Ok(requests().into_iter().map(Ok).chain(std::iter::once_with(error)));
        assert_eq!(kept.or_decode(broken).expect("a workload").filter(Result::is_err).count(), 1);
        assert_eq!(decoded(&kept, 2, usize::MAX), 1);
    }
}
