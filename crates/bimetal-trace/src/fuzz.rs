//! Body of the fuzzer: for any bytes, a reader returns requests in order or an error, and never
//! panics.

use crate::error::TraceError;
use crate::format::Format;
use crate::hints::Hints;
use crate::open::{Event, OpenOptions, Trace};

/// Reads `data` as `format` (recognised by content if it is `None`): once up to the first bad line,
/// and once for each event, skipping bad lines. Returns the number of requests of the last run.
///
/// # Panics
/// If a reader violates its contract. The violations are: requests out of order, an empty range
/// that is not a flush, a range beyond 2^40 sectors, a first request not at 0, anything after an
/// error, or neither a request nor an error.
pub fn read_any(format: Option<&'static Format>, data: &[u8]) -> u64 {
    let options = |event, skip_bad_lines| OpenOptions { format, event, skip_bad_lines, ..OpenOptions::default() };
    read(data, &options(None, false));
    read(data, &options(Some(Event::Queue), true));
    read(data, &options(Some(Event::Issue), true))
}

fn read(data: &[u8], options: &OpenOptions) -> u64 {
    let Ok(mut trace) = Trace::from_reader("fuzz", std::io::Cursor::new(data.to_vec()), None, options) else {
        return 0;
    };
    let mut requests = 0;
    let mut last = None;
    while let Some(request) = trace.next() {
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(requests == 0 || !matches!(error, TraceError::NoRequests { .. }));
                assert!(trace.next().is_none(), "a trace goes on after an error");
                return requests;
            }
        };
        match last {
            None => assert_eq!(request.arrival.0, 0, "the first request is not at 0"),
            Some(last) => assert!(request.arrival >= last, "requests are out of order"),
        }
        last = Some(request.arrival);
        let is_flush = request.kind == bimetal_core::operation::OpKind::Flush;
        assert_eq!(request.range.is_empty(), is_flush, "only flushes are empty");
        assert!(request.range.checked_end().is_some_and(|end| end.0 <= 1 << 40), "a range is out of bounds");
        requests += 1;
    }
    assert!(requests > 0, "no request and no error");
    requests
}

/// Reads `data` as [hints](crate::hints), and returns their number.
///
/// # Panics
/// If the reader violates its contract: hints out of order, an empty range, a range beyond 2^40
/// sectors, or an error that does not name the file.
pub fn read_hints(data: &[u8]) -> u64 {
    match Hints::read("fuzz", std::io::Cursor::new(data.to_vec())) {
        Err(error) => {
            assert!(error.to_string().starts_with("fuzz:"), "{error}");
            0
        }
        Ok(hints) => {
            assert!(hints.is_sorted_by_key(|hint| hint.time), "hints are out of order");
            for hint in hints.iter() {
                assert!(!hint.range.is_empty() && hint.range.checked_end().is_some_and(|end| end.0 <= 1 << 40));
            }
            hints.len() as u64
        }
    }
}
