//! Traces in memory, for programs that decode a trace once and run several commands over it.

use std::sync::Arc;

use bimetal_core::units::Bytes;
use bimetal_sim::workload::{Requests, Workload};
use bimetal_trace::{Event, Format, Request, Trace};

use crate::error::Error;
use crate::trace_workload::Header;

/// Requests in memory, with the properties that the reader of their trace found.
#[derive(Clone)]
pub struct InMemory {
    /// Name of the trace in documents and messages.
    pub name: String,
    /// Format from which the requests were read.
    pub format: &'static Format,
    /// Event that counts as a request, in formats that record several events for each request.
    pub event: Option<Event>,
    /// Set if requests have times.
    pub has_times: bool,
    /// Size of the device that was recorded, if the trace contains it.
    pub capacity: Option<Bytes>,
    /// Number of lines that could not be read and were skipped.
    pub skipped_lines: u64,
    /// The requests.
    pub requests: Arc<dyn Workload + Send + Sync>,
}

impl InMemory {
    /// Returns `requests`, which were read from `trace` to its end.
    pub fn of(trace: &Trace, requests: Arc<dyn Workload + Send + Sync>) -> Self {
        let Header { name, format, event, has_times, capacity } = Header::of(trace);
        Self { name, format, event, has_times, capacity, skipped_lines: trace.skipped_lines(), requests }
    }

    /// Returns the requests, from the first on.
    ///
    /// # Errors
    /// The requests cannot be opened.
    pub(crate) fn read(&self) -> Result<Reading<'_>, Error> {
        self.requests.open().map(Reading).map_err(|error| Error::new(error.to_string()))
    }

    pub(crate) fn header(&self) -> Header {
        let Self { name, format, event, has_times, capacity, .. } = self;
        Header { name: name.clone(), format, event: *event, has_times: *has_times, capacity: *capacity }
    }
}

/// Requests of a trace in memory, in order.
pub(crate) struct Reading<'a>(Requests<'a>);

impl Reading<'_> {
    /// Reads the next requests into `batch`, as many as fit; reads no request at the end.
    pub(crate) fn read(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let room = batch.capacity() - batch.len();
        self.take(room).try_for_each(|request| {
            batch.push(request?);
            Ok(())
        })
    }
}

impl Iterator for Reading<'_> {
    type Item = Result<Request, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|request| request.map_err(|error| Error::new(error.to_string())))
    }
}
