//! Hard disks that the trace uses more than their makers allow: a disk is rated for an amount of
//! bytes that it reads and writes in a year.

use std::cmp::Ordering;

use bimetal_core::units::Nanoseconds;
use bimetal_measure::text::three_digits;
use bimetal_sim::findings::Finding;
use bimetal_sim::results::{Member, MemberFigures};
use bimetal_sim::simulator::Replay;

use crate::answer::without_size;
use crate::drives::model::rated_tb_per_year;
use crate::evaluate::Figures;

/// Returns the finding that a disk of an option is rated for less than the trace asks for: the disk
/// that is used most beyond its rating. `None` if every disk is rated for more, or no rating is
/// known, or the run has no times.
pub(crate) fn of(figures: &Figures, replay: Replay) -> Option<Finding> {
    let span_s = figures.span_s.filter(|_| !matches!(replay, Replay::Closed { .. }))?;
    let found = figures.run().members.iter().filter_map(|member| finding(member, span_s));
    found.min_by(|one, other| one.share.partial_cmp(&other.share).unwrap_or(Ordering::Equal))
}

fn finding(member: &Member, span_s: f64) -> Option<Finding> {
    let MemberFigures::Hdd(disk) = &member.figures else { return None };
    let (rated_tb, is_unverified) = rated_tb_per_year(&member.profile, member.bytes / member.drives.max(1))?;
    let bytes = (disk.read_bytes? + disk.write_bytes?) as f64 / member.drives.max(1) as f64;
    let tb = bytes / 1e12 * (Nanoseconds::YEAR.as_seconds_f64() / span_s);
    let (if_steady, or_longer_trace) = match span_s < DAY_S {
        true => ("If the load never pauses, ", ", or a trace of a day or more"),
        false => ("", ""),
    };
    (tb > rated_tb).then(|| {
        let mark = if is_unverified { ", a figure without a source" } else { "" };
        let model = without_size(&member.profile);
        let (tb_shown, rated_shown) = (three_digits(tb), three_digits(rated_tb));
        Finding {
            id: "beyond-rated-workload".to_owned(),
            severity: "warning".to_owned(),
            text: format!(
                "{if_steady}{model} reads and writes {tb_shown} TB a year; its maker rates it for {rated_shown} TB a \
                 year{mark}."
            ),
            remedy: Some(format!("a disk with a higher rating (`bimetal catalog show`){or_longer_trace}")),
            share: Some(rated_tb / tb),
        }
    })
}

/// Length of a trace from which on its pauses are those of the load. A recorded day ends with its
/// last request.
const DAY_S: f64 = 0.99 * 86_400.0;

#[cfg(test)]
mod tests {
    use bimetal_sim::results::{HddFigures, Provenance, Run};

    use super::*;

    fn disk(id: &str, drives: u64, write_bytes: u64) -> Member {
        Member {
            id: id.to_owned(),
            volume: None,
            role: "home".to_owned(),
            profile: "wd-red-plus-4tb".to_owned(),
            bytes: 4_000_000_000_000 * drives,
            drives,
            bought_bytes: 4_000_000_000_000 * drives,
            metadata_bytes: 0,
            figures: MemberFigures::Hdd(HddFigures {
                read_bytes: Some(0),
                write_bytes: Some(write_bytes),
                ..HddFigures::default()
            }),
            provenance: Provenance::default(),
        }
    }

    fn found(members: Vec<Member>, span_s: f64, replay: Replay) -> Option<Finding> {
        let run = Run { members, ..Run::named("raid1") };
        of(&Figures { span_s: Some(span_s), ..Figures::of_run(run) }, replay)
    }

    const TIMED: Replay = Replay::Timed { speedup: 1.0 };

    /// A plan bought a disk rated for 180 TB a year for a load of 1,240 TB a year.
    #[test]
    fn disk_beyond_its_rating_is_told() {
        let hour_s = 3600.0;
        let in_an_hour = |tb: f64| (tb * 1e12 * hour_s / Nanoseconds::YEAR.as_seconds_f64()) as u64;
        let told = found(vec![disk("hdd", 1, in_an_hour(200.0))], hour_s, TIMED).expect("200 TB are more than 180");
        let (text, remedy) = (&told.text, told.remedy.as_deref().unwrap_or_default());
        assert!(text.starts_with("If the load never pauses, wd-red-plus reads and writes 200 TB a year"), "{text}");
        assert!(text.contains("for 180 TB") && remedy.ends_with("or a trace of a day or more"), "{text} {remedy}");
        assert!(found(vec![disk("hdd", 1, in_an_hour(170.0))], hour_s, TIMED).is_none());
        assert!(found(vec![disk("hdd", 2, in_an_hour(300.0))], hour_s, TIMED).is_none(), "each of two has half");
        let closed = Replay::Closed { depth: 1 };
        assert!(found(vec![disk("hdd", 1, in_an_hour(200.0))], hour_s, closed).is_none(), "no times");
    }

    /// The load of a trace of days has its pauses.
    #[test]
    fn load_of_two_days_is_taken_as_it_is() {
        let told = found(vec![disk("hdd", 1, 2_000_000_000_000)], 2.0 * 86_400.0, TIMED).expect("365 TB");
        assert!(told.text.starts_with("wd-red-plus reads and writes 365 TB a year"), "{}", told.text);
        assert_eq!(told.remedy.as_deref(), Some("a disk with a higher rating (`bimetal catalog show`)"));
    }

    /// Regression: the writes of both disks of a mirror counted as those of one.
    #[test]
    fn each_disk_of_a_mirror_counts_alone() {
        let mirror = |bytes| vec![disk("hdd", 1, bytes), disk("hdd2", 1, bytes)];
        assert_eq!(found(mirror(800_000_000_000), 2.0 * 86_400.0, TIMED), None, "146 TB a year each");
        let told = found(mirror(1_200_000_000_000), 2.0 * 86_400.0, TIMED).expect("219 TB a year each");
        assert!(told.text.contains("writes 219 TB a year"), "{}", told.text);
    }
}
