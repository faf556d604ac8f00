//! Traces with flushes. A host waits for its flushes as it waits for reads, and the table's columns
//! have reads and writes alone.

use bimetal_core::units::significant;

use super::Finding;
use crate::results::Run;
use crate::survey::Survey;

/// Share of the requests that are flushes from which on the flushes are told of.
const SHARE_MIN: f64 = 0.01;

pub(super) fn of(survey: &Survey, runs: &[Run]) -> Option<Finding> {
    let requests = survey.reads + survey.writes + survey.flushes;
    let share = survey.flushes as f64 / requests.max(1) as f64;
    let mean = |run: &Run| run.response_time_ms.flush.mean.map(|mean| (run.label.clone(), mean));
    let mut means: Vec<(String, f64)> = runs.iter().filter_map(mean).collect();
    means.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let (least, most) = (means.first()?, means.last()?);
    if share < SHARE_MIN {
        return None;
    }
    let of = |(label, mean): &(String, f64)| format!("{} ms under {label}", significant(*mean, 3));
    let means = if least.0 == most.0 { of(least) } else { format!("{} to {}", of(least), of(most)) };
    let text = format!(
        "{:.0} % of the requests are flushes, for which a host waits after its writes. The response times of the table \
         are of reads and writes. The mean flush takes {means}.",
        share * 100.0
    );
    let remedy = "response_time_ms.flush in --json, and a budget like flush.p99<10ms in a plan";
    Some(Finding::new("flushes", "note", text, remedy, Some(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheme: &str, mean: Option<f64>) -> Run {
        let mut run = Run::named(scheme);
        run.response_time_ms.flush.mean = mean;
        run
    }

    #[test]
    fn flushes_are_told_with_the_shortest_and_the_longest_mean() {
        let survey = |flushes| Survey { reads: 10, writes: 70, flushes, ..Survey::default() };
        let runs = [run("smq", Some(1.126)), run("hdd-only", Some(9.5)), run("ssd-only", Some(0.888))];
        let found = of(&survey(20), &runs).expect("a fifth of the requests");
        let means = "The mean flush takes 0.888 ms under ssd-only to 9.5 ms under hdd-only.";
        assert!(found.text.starts_with("20 % of the requests") && found.text.ends_with(means), "{}", found.text);
        let alone = of(&survey(20), &runs[..1]).expect("a fifth of the requests");
        assert!(alone.text.ends_with("The mean flush takes 1.13 ms under smq."), "{}", alone.text);
        assert_eq!(of(&survey(0), &[run("smq", None)]), None);
        assert_eq!(of(&Survey { reads: 9_000, flushes: 20, ..Survey::default() }, &runs), None, "few are flushes");
    }
}
