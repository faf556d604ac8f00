//! Reads of content that no earlier request of the trace accessed. A cache that begins empty misses
//! all such reads under every policy.

use super::Finding;
use super::holds_everything::has_cache;
use crate::results::Run;
use crate::survey::Survey;

/// Share of first reads from which on the finding is reported.
const COLD_SHARE: f64 = 0.5;

pub(super) fn of(survey: &Survey, runs: &[Run]) -> Option<Finding> {
    let found = of_trace(survey).filter(|_| runs.iter().any(has_cache))?;
    // The share is of the whole trace: after a warm-up, it tells how long the trace is too short.
    let transfers = survey.reads + survey.writes;
    let measured = |run: &Run| run.series.response_time_cdf.all.requests.last().copied();
    let is_warmed_up = runs.iter().filter_map(measured).any(|requests| requests < transfers);
    let remedy = if is_warmed_up { Some("a longer trace".to_owned()) } else { found.remedy };
    Some(Finding { remedy, ..found })
}

/// Returns the finding about a choice among options, some of which have a cache. Only a run finds
/// its warm-up itself, so the remedy of a choice is a share of the trace.
pub(super) fn of_choice(survey: &Survey) -> Option<Finding> {
    let remedy = "a longer trace, or --warmup 0.5, so that the first half of the trace fills the caches";
    of_trace(survey).map(|found| Finding { remedy: Some(remedy.to_owned()), ..found })
}

/// Returns the finding for whoever may simulate a cache.
pub(super) fn of_trace(survey: &Survey) -> Option<Finding> {
    let share = survey.first_read_blocks as f64 / survey.read_blocks.max(1) as f64;
    if share < COLD_SHARE {
        return None;
    }
    let text = format!(
        "{:.0} % of the read blocks were not accessed before: a cache that begins empty has none of them.",
        share * 100.0
    );
    Some(Finding::new("cold-start", "note", text, "a longer trace, or --warmup auto", Some(share)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn first_reads_count_where_there_is_a_cache() {
        let survey = |first_read_blocks| Survey { read_blocks: 200, first_read_blocks, ..Survey::default() };
        let cache = [run("hdd-only", 0), run("smart-response", 1 << 20)];
        let found = of(&survey(150), &cache).unwrap();
        assert!(found.text.starts_with("75 % of the read blocks") && found.share == Some(0.75), "{found:?}");
        assert_eq!(of(&survey(99), &cache), None);
        // Regression: a comparison with --warmup auto was told to use --warmup auto.
        let remedy = |measured| {
            let mut cache = run("smart-response", 1 << 20);
            cache.series.response_time_cdf.all.requests = vec![1, measured];
            of(&Survey { reads: 5, writes: 2, ..survey(150) }, &[cache]).unwrap().remedy.unwrap()
        };
        assert_eq!([7, 6].map(remedy), ["a longer trace, or --warmup auto", "a longer trace"]);
        assert_eq!(of(&survey(150), &[run("hdd-only", 0), run("combo", 1 << 20)]), None);
        assert_eq!(of(&Survey::default(), &cache), None);
    }
}
