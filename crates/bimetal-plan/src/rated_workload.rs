//! Hard disks that the trace uses more than their makers allow: a disk is rated for an amount of
//! bytes that it reads and writes in a year.

use bimetal_core::layout::Role;
use bimetal_core::units::Nanoseconds;
use bimetal_measure::text::three_digits;
use bimetal_sim::findings::Finding;
use bimetal_sim::simulator::Replay;

use crate::answer::without_size;
use crate::drives::model::rated_tb_per_year;
use crate::evaluate::Figures;
use crate::grid::Candidate;

/// Returns the finding that the disk of an option is rated for less than the trace asks for; `None`
/// if the disk is rated for more, or no rating is known, or the run has no times.
pub(crate) fn of(candidate: &Candidate, figures: &Figures, replay: Replay) -> Option<Finding> {
    let offer = candidate.drive(Role::Hdd).filter(|_| !matches!(replay, Replay::Closed { .. }))?;
    let (rated_tb, is_unverified) = rated_tb_per_year(&offer.model, offer.each().0)?;
    let disk = &figures.run().devices.hdd;
    let bytes = (disk.read_bytes? + disk.write_bytes?) as f64 / offer.drives as f64;
    let tb = bytes / 1e12 * (Nanoseconds::YEAR.as_seconds_f64() / figures.span_s?);
    (tb > rated_tb).then(|| {
        let mark = if is_unverified { ", a figure without a source" } else { "" };
        Finding {
            id: "beyond-rated-workload".to_owned(),
            severity: "warning".to_owned(),
            text: format!(
                "If the load never pauses, {} reads and writes {} TB a year; its maker rates it for {} TB a year{mark}.",
                without_size(&offer.model),
                three_digits(tb),
                three_digits(rated_tb)
            ),
            remedy: Some("a disk with a higher rating (`bimetal catalog show`), or a trace of a day or more".to_owned()),
            share: Some(rated_tb / tb),
        }
    })
}

#[cfg(test)]
mod tests {
    use bimetal_core::schemes;
    use bimetal_core::units::Bytes;
    use bimetal_sim::results::Run;

    use super::*;
    use crate::catalogue::{Kind, Offer};

    /// A plan bought a disk rated for 180 TB a year for a load of 1,240 TB a year.
    #[test]
    fn disk_beyond_its_rating_is_told() {
        let offer = |drives| Offer {
            model: "wd-red-plus-4tb".to_owned(),
            kind: Kind::Hdd,
            size: Bytes(4_000_000_000_000 * drives),
            drives,
            usd: 100.0,
            date: String::new(),
            source: String::new(),
            cell: None,
        };
        let found = |drives, bytes: u64, replay| {
            let mut run = Run::named("hdd-only");
            (run.devices.hdd.read_bytes, run.devices.hdd.write_bytes) = (Some(0), Some(bytes));
            let span_s = Some(Nanoseconds::YEAR.as_seconds_f64() / 1e3);
            let figures = Figures { span_s, ..Figures::of_run(run) };
            let scheme = schemes::find("hdd-only").expect("a scheme");
            let drives = vec![(Role::Hdd, offer(drives))];
            let candidate = Candidate { index: 0, variant: 0, scheme, drives, settings: Vec::new(), cost_usd: 100.0 };
            of(&candidate, &figures, replay).map(|finding| finding.text)
        };
        let timed = Replay::Timed { speedup: 1.0 };
        let text = found(1, 200_000_000_000, timed).expect("200 TB a year are more than 180");
        assert!(text.contains("wd-red-plus reads and writes 200 TB a year") && text.contains("for 180 TB"), "{text}");
        assert_eq!(found(1, 170_000_000_000, timed), None);
        assert_eq!(found(2, 300_000_000_000, timed), None, "each of two disks has half");
        assert_eq!(found(1, 200_000_000_000, Replay::Closed { depth: 1 }), None, "no times");
    }
}
