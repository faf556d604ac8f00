//! Parts of a trace in each of which an option must keep the budgets: windows of equally many
//! requests, and the second half. The first half is a part, too, and need not keep them.
//!
//! The response times of all parts are recorded in the run over the whole trace. So a proof of
//! budgets of response times costs no run of its own, and a search ends a run once one part breaks
//! a budget for certain. Other figures of a part need a run that measures from its first request
//! on.

use std::ops::Range;

use bimetal_core::operation::OpKind;
use bimetal_sim::limits::Which;
use bimetal_sim::parts;
use bimetal_trace::Request;

/// Numbers of windows into which a trace is cut, if it is long enough. Each number of windows has
/// beside it half the width of a 95 % interval in standard errors, for a spread estimated from this
/// number of windows (Student's t).
const WINDOWS: [(u64, f64); 2] = [(10, 2.262), (4, 3.182)];

/// Fewest measured requests in a window that give a useful figure.
const REQUESTS_MIN: u64 = 50;

/// Number of reads and of writes among requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    reads: u64,
    writes: u64,
}

impl Measured {
    /// Counts `requests`.
    pub(crate) fn of(requests: &[Request]) -> Self {
        let writes = |request: &&Request| matches!(request.kind, OpKind::Write | OpKind::WriteZeroes);
        let reads = requests.iter().filter(|request| request.kind == OpKind::Read).count() as u64;
        Self { reads, writes: requests.iter().filter(writes).count() as u64 }
    }

    /// Returns the number of requests of a kind.
    pub(crate) fn count(self, which: Which) -> u64 {
        match which {
            Which::All => self.reads + self.writes,
            Which::Reads => self.reads,
            Which::Writes => self.writes,
        }
    }
}

/// Parts of a trace.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Number of windows.
    pub(crate) count: u64,
    /// Half the width of a 95 % interval in standard errors.
    pub(crate) student: f64,
    /// First request and end of each window, of the first half and of the second half.
    pub(crate) spans: Vec<(u64, u64)>,
    /// Number of reads and writes in each part.
    pub(crate) measured: Vec<Measured>,
}

impl Parts {
    /// Cuts `requests` from number `first` on into parts; `None` if they are too few. The second
    /// half begins at request `half`.
    pub(crate) fn of(requests: &[Request], first: u64, half: u64) -> Option<Self> {
        let end = requests.len() as u64;
        let measured = end - first.min(end);
        let &(count, student) = WINDOWS.iter().find(|(count, _)| measured / count >= REQUESTS_MIN)?;
        let cut = |part: u64, of: u64| first + measured * part / of;
        let mut spans: Vec<(u64, u64)> = (0..count).map(|at| (cut(at, count), cut(at + 1, count))).collect();
        spans.extend([(first, half), (half, end)]);
        let measured = spans.iter().map(|&(from, to)| Measured::of(&requests[from as usize..to as usize])).collect();
        Some(Self { count, student, spans, measured })
    }

    /// Returns the number of the first half among the parts.
    pub(crate) fn first_half(&self) -> usize {
        self.spans.len() - 2
    }

    /// Returns the numbers of the parts that must keep the budgets, in the order of a proof.
    pub(crate) fn that_must_keep(&self) -> impl Iterator<Item = usize> {
        let first_half = self.first_half();
        (0..self.spans.len()).filter(move |part| *part != first_half)
    }

    /// Returns the name of a part: `window 3 of 10`, `the second half`.
    pub(crate) fn name(&self, part: usize) -> String {
        match part.checked_sub(self.first_half()) {
            None => format!("window {} of {}", part + 1, self.count),
            Some(0) => "the first half".to_owned(),
            Some(_) => "the second half".to_owned(),
        }
    }

    /// Returns the numbers that a run gives the requests of a part, from 1 on.
    pub(crate) fn numbers(&self, part: usize) -> Range<u64> {
        let (from, to) = self.spans[part];
        from + 1..to + 1
    }

    /// Returns recorders of the response times of each part.
    pub(crate) fn recorders(&self) -> parts::Parts {
        parts::Parts::new((0..self.spans.len()).map(|part| self.numbers(part)))
    }
}
