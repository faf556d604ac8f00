//! Shingled disks (SMR). A staging area takes their random writes, until it is full and bands must
//! be written anew. A short trace never fills the area, so its figures promise too much. A disk
//! that is idle writes bands anew, too, which tells nothing about the area.

use std::collections::BTreeMap;

use super::{Finding, size};
use crate::results::{HddFigures, MemberFigures, Run};

/// Returns the figures of the shingled disks of a run, with the profiles of the disks.
fn shingled(run: &Run) -> impl Iterator<Item = (&str, &HddFigures)> {
    run.members.iter().filter_map(|member| match &member.figures {
        MemberFigures::Hdd(disk) if disk.staging_area_bytes.is_some() => Some((member.profile.as_str(), disk)),
        MemberFigures::Hdd(_) | MemberFigures::Ssd(_) => None,
    })
}

pub(super) fn of(runs: &[Run]) -> Option<Finding> {
    // Of each profile, the run that wrote the most bytes, and then the most bands anew.
    let mut most: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for (profile, disk) in runs.iter().flat_map(shingled) {
        let known = most.entry(profile).or_default();
        let figures = [disk.write_bytes, disk.bands_cleaned, disk.staging_area_bytes].map(Option::unwrap_or_default);
        *known = (*known).max(figures.into());
    }
    let text = most.iter().map(|(profile, &(bytes, bands, area))| {
        let what = match (bytes > area, bands) {
            (true, 1..) => format!("It wrote up to {bands} bands anew, which delays requests."),
            (true, 0) => format!(
                "It got {} of writes, which it wrote in order; random writes beyond its staging area of {} are ten times \
                 slower, or more.",
                size(bytes),
                size(area)
            ),
            (false, _) => format!(
                "It got {} of writes, which its staging area of {} can take; random writes beyond the area are ten times \
                 slower, or more.",
                size(bytes),
                size(area)
            ),
        };
        format!("{profile} is a shingled disk (SMR). {what}")
    });
    let text = text.collect::<Vec<_>>().join(" ");
    let remedy = "for random writes that last, a disk with conventional recording (CMR)";
    (!text.is_empty()).then(|| Finding::new("shingled", "warning", text, remedy, None))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use crate::results::Member;

    fn disk(write_bytes: u64, staging_area_bytes: Option<u64>, bands_cleaned: Option<u64>) -> Run {
        let figures =
            HddFigures { write_bytes: Some(write_bytes), staging_area_bytes, bands_cleaned, ..HddFigures::default() };
        let member = Member { profile: "barracuda".to_owned(), ..Member::of_disk(figures) };
        Run { members: vec![member], ..run("hdd-only", 0) }
    }

    #[test]
    fn shingled_disk_is_named_with_what_the_trace_shows() {
        assert_eq!(of(&[disk(1 << 30, None, None)]), None, "conventional recording");
        let staged = disk(1 << 30, Some(24 << 30), Some(0));
        let text = of(std::slice::from_ref(&staged)).expect("it is shingled").text;
        assert!(text.contains("barracuda is a shingled disk (SMR). It got 1.0 GiB of writes"), "{text}");
        assert!(text.contains("staging area of 24.0 GiB"), "{text}");
        // An idle disk empties its area before the area is full.
        let idle = disk(1 << 30, Some(24 << 30), Some(7));
        assert_eq!(of(&[staged.clone(), idle]).expect("it is shingled").text, text);
        // Regression: "it wrote up to 0 bands anew, which delays requests".
        let in_order = of(&[disk(25 << 30, Some(24 << 30), Some(0))]).expect("it is shingled").text;
        assert!(in_order.contains("25.0 GiB of writes, which it wrote in order"), "{in_order}");
        let text = of(&[staged, disk(25 << 30, Some(24 << 30), Some(7))]).expect("it is shingled").text;
        assert_eq!(text, "barracuda is a shingled disk (SMR). It wrote up to 7 bands anew, which delays requests.");
    }
}
