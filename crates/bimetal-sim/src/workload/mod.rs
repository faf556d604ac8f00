//! Source of requests: a trace or a generator, opened anew for every run that plays it.

pub mod aligned;
pub mod glance;
pub mod placed;
pub mod rounds;
pub mod spread;

use bimetal_trace::Request;

/// Error of reading requests: the reader's own error, which names file, line and field.
pub type WorkloadError = Box<dyn std::error::Error + Send + Sync>;

/// Requests in order of time.
pub type Requests<'a> = Box<dyn Iterator<Item = Result<Request, WorkloadError>> + 'a>;

/// Sequence of requests that can be played several times.
pub trait Workload: Sync {
    /// Returns the requests, from the first on, with drawing number `drawing` of what the workload
    /// does not tell, such as the times within a second of a recording in whole seconds. A workload
    /// that tells everything ignores the number.
    ///
    /// # Errors
    /// Fails if the workload cannot be opened.
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError>;

    /// Returns the requests, from the first on, with drawing 0.
    ///
    /// # Errors
    /// Fails if the workload cannot be opened.
    fn open(&self) -> Result<Requests<'_>, WorkloadError> {
        self.open_drawn(0)
    }

    /// Returns the sector of the recording at which a block of the volume begins: the addresses
    /// were moved, if the sector is not 0.
    fn grid(&self) -> u64;
}

/// Workload of requests in memory, for tests and for small generated workloads.
impl Workload for Vec<Request> {
    fn open_drawn(&self, _drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        Ok(Box::new(self.iter().copied().map(Ok)))
    }

    fn grid(&self) -> u64 {
        0
    }
}
