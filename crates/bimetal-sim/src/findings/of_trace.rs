//! Findings about a trace that is not played: what a simulation over the trace would have to
//! respect.

use bimetal_core::block::BlockSize;
use bimetal_core::units::Nanoseconds;
use bimetal_trace::Request;

use super::{Finding, cold_start, faster_device, misaligned, no_accesses, no_times, partial_blocks};
use crate::survey::Surveyor;
use crate::workload::glance::{REQUESTS_MAX, are_whole_seconds};

/// Counter of requests that finds what qualifies the figures of a trace.
pub struct OfTrace {
    block: BlockSize,
    surveyor: Surveyor,
    /// Arrivals of the first requests.
    arrivals: Vec<Nanoseconds>,
}

impl OfTrace {
    /// Creates a counter for volumes with blocks of this size.
    pub fn new(block: BlockSize) -> Self {
        Self { block, surveyor: Surveyor::new(block), arrivals: Vec::new() }
    }

    /// Counts a request.
    pub fn note(&mut self, request: &Request) {
        if self.arrivals.len() < REQUESTS_MAX {
            self.arrivals.push(request.arrival);
        }
        self.surveyor.note(request);
    }

    /// Returns the findings. `queue_events` is true if the requests were recorded before the block
    /// layer.
    pub fn finish(self, queue_events: bool) -> Vec<Finding> {
        let survey = self.surveyor.finish();
        let found = [
            are_whole_seconds(&self.arrivals).then(Finding::recorded_in_whole_seconds),
            queue_events.then(Finding::recorded_as_queue_events),
            no_accesses::of(&survey),
            no_times::of(&survey),
            misaligned::of(&survey, self.block),
            partial_blocks::of(&survey, self.block),
            cold_start::of_trace(&survey),
            faster_device::of_trace(&survey),
        ];
        found.into_iter().flatten().map(with_command).collect()
    }
}

/// Names the commands that have the option with which a remedy begins.
fn with_command(finding: Finding) -> Finding {
    let name = |remedy: String| match remedy.starts_with("--") {
        true => format!("simulate, compare or plan with {remedy}"),
        false => remedy,
    };
    Finding { remedy: finding.remedy.map(name), ..finding }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::{SectorRange, Sectors};

    use super::*;

    /// Returns the findings about writes of 4 KiB at these milliseconds and sectors.
    fn found(writes: impl Iterator<Item = (u64, u64)>, queue_events: bool) -> Vec<Finding> {
        let mut of_trace = OfTrace::new(BlockSize::default());
        for (millis, start) in writes {
            of_trace.note(&Request {
                arrival: Nanoseconds::from_millis(millis),
                device: 0,
                kind: OpKind::Write,
                range: SectorRange { start: Sectors(start), len: Sectors(8) },
                fua: false,
                response: None,
            });
        }
        of_trace.finish(queue_events)
    }

    fn ids(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.id.as_str()).collect()
    }

    #[test]
    fn aligned_writes_at_exact_times_have_no_finding() {
        assert_eq!(found((0..100).map(|number| (7 * number, 8 * number)), false), []);
    }

    #[test]
    fn remedy_of_a_trace_names_the_commands_with_its_option() {
        let old_partition = found((0..100).map(|number| (7 * number, 63 + 8 * number)), false);
        assert_eq!(ids(&old_partition), ["misaligned"]);
        let remedy = old_partition[0].remedy.as_deref().unwrap();
        assert!(remedy.starts_with("simulate, compare or plan with --align 7: 100 % begin"), "{remedy}");
    }

    #[test]
    fn clock_and_events_of_a_trace_are_found() {
        let seconds = found((0..100).map(|number| (number / 10 * 1000, 8 * number)), true);
        assert_eq!(ids(&seconds), ["whole-seconds", "queue-events"]);
        assert_eq!(ids(&found((0..100).map(|number| (0, 8 * number)), false)), ["no-times"]);
    }
}
