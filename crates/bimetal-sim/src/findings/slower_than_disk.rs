//! Schemes that are slower than the disk alone. Either their own operations keep the disk busy, or
//! requests wait until a full SSD has room.

use bimetal_core::units::significant;

use super::Finding;
use crate::results::{MemberFigures, Run};

/// Factor between the mean response time of a scheme and of the disk alone from which on the scheme
/// is named.
const SLOWER: f64 = 2.0;

/// Returns the mean response time of all reads and writes of a run, in milliseconds.
fn mean_ms(run: &Run) -> Option<f64> {
    run.response_time_ms.all.mean.filter(|&mean| mean > 0.0)
}

/// Returns the share of the measured time for which the busiest disk of a run was busy.
fn busy(run: &Run) -> Option<f64> {
    let disks = run.members.iter().filter(|member| matches!(member.figures, MemberFigures::Hdd(_)));
    disks.filter_map(|member| member.figures.busy_fraction()).max_by(f64::total_cmp)
}

pub(super) fn of(runs: &[Run]) -> Option<Finding> {
    let disk = runs.iter().find(|run| run.scheme == "hdd-only")?;
    let (alone, alone_busy) = (mean_ms(disk)?, busy(disk)?);
    let times = |run: &Run| Some((mean_ms(run)? / alone, busy(run)?));
    let mut slower: Vec<(&Run, f64, f64)> = runs
        .iter()
        .filter(|run| run.sizing == disk.sizing)
        .filter_map(|run| times(run).map(|(times, busy)| (run, times, busy)))
        .filter(|&(_, times, _)| times >= SLOWER)
        .collect();
    slower.sort_by(|(.., one, _), (.., other, _)| other.total_cmp(one));
    let named = slower.iter().map(|(run, times, busy)| {
        format!(
            "{} {} times (its disk was busy for {:.0} % of the time)",
            run.label,
            significant(*times, 2),
            busy * 100.0
        )
    });
    let named = named.collect::<Vec<_>>().join(", ");
    if named.is_empty() {
        return None;
    }
    let text = format!(
        "Slower than the disk alone, by the mean response time: {named}. Alone, the disk was busy for {:.0} %. These \
         schemes move data between the drives, and requests wait for the disk or for room on the SSD meanwhile.",
        alone_busy * 100.0
    );
    Some(Finding::new("slower-than-disk", "note", text, "another scheme, or a larger SSD", None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{HddFigures, Member};
    use crate::sizing::Sizing;

    fn run(scheme: &str, mean: f64, busy: f64) -> Run {
        let mut run = Run::named(scheme);
        run.response_time_ms.all.mean = Some(mean);
        run.members = vec![Member::of_disk(HddFigures { busy_fraction: Some(busy), ..HddFigures::default() })];
        run
    }

    #[test]
    fn scheme_that_delays_requests_is_told_with_both_shares() {
        let runs = [run("bcache", 1.0, 0.1), run("os-managed", 120.0, 0.9), run("hdd-only", 10.0, 0.3)];
        let found = of(&runs).expect("one is slower");
        let named = "os-managed 12 times (its disk was busy for 90 % of the time). Alone, the disk was busy for 30 %.";
        assert!(found.text.contains(named), "{}", found.text);
        assert!(!found.text.contains("bcache"));
    }

    #[test]
    fn scheme_is_compared_with_the_disk_of_its_own_sizes() {
        let disk = run("hdd-only", 10.0, 0.3);
        assert_eq!(of(&[disk.clone(), run("smq", 19.9, 0.9)]), None, "less than twice as slow");
        let waits = of(&[disk.clone(), run("hybrid-disk", 2650.0, 0.2)]).expect("it waits for room");
        assert!(waits.text.contains("hybrid-disk 265 times"), "{}", waits.text);
        let share = Run { sizing: Sizing::Share, ..run("smq", 40.0, 0.9) };
        assert_eq!(of(&[disk, share]), None);
        assert_eq!(of(&[run("smq", 40.0, 0.9)]), None, "the disk alone was not simulated");
    }
}
