//! Volumes of many drives without copies of each other: each drive that fails costs data.

use bimetal_core::units::significant;

use super::Finding;
use crate::results::Run;

/// Probability of a loss of data in a year from which on a run is named.
const PER_YEAR_MIN: f64 = 0.05;

pub(super) fn of(runs: &[Run]) -> Option<Finding> {
    let per_year = |run: &Run| run.cost.loss_probability_per_year.filter(|&loss| loss >= PER_YEAR_MIN);
    let mut risky: Vec<(&str, f64)> = runs.iter().filter_map(|run| Some((&*run.label, per_year(run)?))).collect();
    risky.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    risky.dedup();
    let named = risky.iter().map(|(label, loss)| format!("{label} {} %", significant(loss * 100.0, 2)));
    let named = named.collect::<Vec<_>>().join(", ");
    let (_, most) = risky.first()?;
    let text = format!(
        "Data are lost within a year with this probability: {named}. The volume is spread over many drives, and the loss of \
         one drive is a loss of data."
    );
    let remedy = "fewer and larger drives, or a mirror like raid1";
    Some(Finding::new("loss-of-data", "warning", text, remedy, Some(*most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheme: &str, loss: Option<f64>) -> Run {
        let mut run = Run::named(scheme);
        run.cost.loss_probability_per_year = loss;
        run
    }

    #[test]
    fn volume_that_loses_data_is_named_with_its_probability() {
        let runs =
            [run("hdd-only", Some(0.0088)), run("ssd-only", Some(0.77)), run("smq", Some(0.89)), run("bcache", None)];
        let found = of(&runs).expect("two are risky");
        assert!(found.text.contains("probability: smq 89 %, ssd-only 77 %. The volume is"), "{}", found.text);
        assert!(found.text.ends_with("the loss of one drive is a loss of data."), "{}", found.text);
        assert_eq!((found.severity.as_str(), found.share), ("warning", Some(0.89)));
        assert_eq!(of(&runs[..1]), None);
        assert_eq!(of(&[run("ssd-only", Some(0.0499))]), None);
    }
}
