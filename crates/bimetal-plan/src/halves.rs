//! Differences between the two halves of a workload: reasons for which a plan for the first half
//! may fail on the second half.

use bimetal_core::block::BlockSize;
use bimetal_measure::text::{bytes, short};
use bimetal_sim::survey::Surveyor;
use bimetal_trace::Request;

/// Ratio below which a difference is not reported.
const NOTABLE: f64 = 1.1;

/// Figures of one half.
struct Half {
    requests_per_s: f64,
    read_fraction: f64,
    mean_bytes: f64,
    blocks: u64,
}

impl Half {
    fn of(requests: &[Request], block: BlockSize) -> Self {
        let mut surveyor = Surveyor::new(block);
        requests.iter().for_each(|request| surveyor.note(request));
        let survey = surveyor.finish();
        let carrying = (survey.reads + survey.writes).max(1) as f64;
        Self {
            requests_per_s: survey.requests as f64 / survey.duration.as_seconds_f64().max(1e-9),
            read_fraction: survey.reads as f64 / carrying,
            mean_bytes: (survey.read_bytes.0 + survey.write_bytes.0) as f64 / carrying,
            blocks: survey.footprint_blocks,
        }
    }
}

/// Returns the differences of the second half from the first half, as the end of a sentence. The
/// halves are cut in front of request number `cut`.
pub fn difference(requests: &[Request], cut: usize, block: BlockSize) -> String {
    let (first, second) = requests.split_at(cut.min(requests.len()));
    let all = Half::of(requests, block).blocks;
    let (first, second) = (Half::of(first, block), Half::of(second, block));
    let mut differences = Vec::new();
    let rate = second.requests_per_s / first.requests_per_s;
    if !(1.0 / NOTABLE..NOTABLE).contains(&rate) {
        differences.push(format!("{} times the requests a second", short((rate * 100.0).round() / 100.0)));
    }
    if (second.read_fraction - first.read_fraction).abs() > NOTABLE - 1.0 {
        let percent = |half: &Half| (half.read_fraction * 100.0).round();
        differences.push(format!("{} % reads after {} %", percent(&second), percent(&first)));
    }
    let size = second.mean_bytes / first.mean_bytes;
    if !(1.0 / NOTABLE..NOTABLE).contains(&size) {
        let size = |half: &Half| bytes(half.mean_bytes as u64);
        differences.push(format!("requests of {} after {} on average", size(&second), size(&first)));
    }
    let new = (all - first.blocks) as f64 / second.blocks.max(1) as f64;
    if new > NOTABLE - 1.0 {
        differences.push(format!("{} % of its blocks are new", (new * 100.0).round()));
    }
    match differences.is_empty() {
        true => "it is like the first half in rate, mix, sizes and addresses, so bursts or the order of requests make \
                 the difference"
            .to_owned(),
        false => format!("compared with the first half: {}", differences.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::{Nanoseconds, SectorRange};

    fn request(at_ms: u64, kind: OpKind, block: u64) -> Request {
        let range = SectorRange::new(block * 8, 8);
        Request { arrival: Nanoseconds::from_millis(at_ms), device: 0, kind, fua: false, range, response: None }
    }

    #[test]
    fn what_differs_is_said_and_nothing_else() {
        let slow_writes = (0..100).map(|i| request(i * 10, OpKind::Write, i % 10));
        let fast_reads = (0..100).map(|i| request(1000 + i * 2, OpKind::Read, 5 + i % 10));
        let requests: Vec<Request> = slow_writes.chain(fast_reads).collect();
        let text = difference(&requests, 100, BlockSize::default());
        assert_eq!(
            text,
            "compared with the first half: 5 times the requests a second, 100 % reads after 0 %, 50 % of its blocks are new"
        );
        let alike: Vec<Request> = (0..200).map(|i| request(i * 10, OpKind::Write, i % 10)).collect();
        assert!(difference(&alike, 100, BlockSize::default()).starts_with("it is like the first"));
    }
}
