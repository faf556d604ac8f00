//! Summary of a trace in four figures, which show a wrong unit before the trace is used.

use std::fmt;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};

use crate::Request;

/// Number of requests, amount moved, span of time, and highest address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Number of requests of every kind.
    pub requests: u64,
    /// Number of reads among the requests.
    pub reads: u64,
    /// Amount that reads and writes move.
    pub moved: Bytes,
    /// Time from the first arrival to the last.
    pub span: Nanoseconds,
    /// First sector after every request, on the largest device.
    pub highest: Sectors,
}

impl Summary {
    /// Takes the next request, in order of time, into account.
    pub fn add(&mut self, request: &Request) {
        self.requests += 1;
        self.reads += u64::from(request.kind == OpKind::Read);
        if matches!(request.kind, OpKind::Read | OpKind::Write) {
            self.moved = self.moved.saturating_add(request.range.len.bytes());
        }
        self.span = request.arrival;
        self.highest = self.highest.max(request.range.end());
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GIB: f64 = (1u64 << 30) as f64;
        let Self { requests, reads, moved, span, highest } = self;
        write!(f, "{requests} requests ({reads} reads), {:.3} GiB moved, ", moved.0 as f64 / GIB)?;
        write!(f, "{:.3} s, highest address {:.3} GiB", span.as_seconds_f64(), highest.bytes().0 as f64 / GIB)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn flushes_count_as_requests_and_move_nothing() {
        let request = |arrival, kind, start, len| Request {
            arrival: Nanoseconds(arrival),
            device: 0,
            kind,
            fua: false,
            range: SectorRange::new(start, len),
            response: None,
        };
        let mut summary = Summary::default();
        summary.add(&request(0, OpKind::Read, 2048, 2048));
        summary.add(&request(1, OpKind::Flush, 0, 0));
        summary.add(&request(1_500_000_000, OpKind::Write, 0, 8));
        let text = "3 requests (1 reads), 0.001 GiB moved, 1.500 s, highest address 0.002 GiB";
        assert_eq!(summary.to_string(), text);
    }
}
