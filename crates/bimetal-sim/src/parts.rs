//! Parts of a trace whose response times are recorded apart, in the run over the whole trace.
//!
//! A part is a span of request numbers. The first request of a run has the number 1. Parts may
//! overlap. A request counts for a part by its number, whenever it finishes.

use std::ops::Range;

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;
use bimetal_measure::response_time::{ResponseTimeRecorder, ResponseTimes};

/// Response times of each part of a trace.
#[derive(Clone, Debug, Default)]
pub struct Parts(Vec<(Range<u64>, ResponseTimeRecorder)>);

impl Parts {
    /// Creates recorders for the requests with numbers in each of `spans`.
    pub fn new(spans: impl IntoIterator<Item = Range<u64>>) -> Self {
        Self(spans.into_iter().map(|span| (span, ResponseTimeRecorder::new())).collect())
    }

    /// Records the response time of request `number`.
    #[inline]
    pub(crate) fn record(&mut self, number: u64, kind: OpKind, response: Nanoseconds) {
        for (_, recorder) in self.0.iter_mut().filter(|(span, _)| span.contains(&number)) {
            match kind {
                OpKind::Read => recorder.record_read(response),
                OpKind::Write | OpKind::WriteZeroes => recorder.record_write(response),
                OpKind::Flush => recorder.record_flush(response),
                OpKind::Discard | OpKind::Hint => {}
            }
        }
    }

    /// Returns the response times of each part, in the order of the spans.
    pub fn response_times(&self) -> Vec<ResponseTimes> {
        self.0.iter().map(|(_, recorder)| recorder.response_times()).collect()
    }
}
