//! Drives that cannot keep up with the times of the trace: response times measure the queue. The
//! share of the time tells it, or the share of the requests: half of a day's requests may arrive in
//! one minute, and wait.

use bimetal_core::units::significant;

use super::Finding;
use crate::results::{Member, Run};
use crate::setup::Sizing;
use crate::simulator::Replay;

/// Smallest share of the time behind its trace with which a run counts as saturated.
const SATURATED_SHARE: f64 = 0.1;

/// Response time in milliseconds from which on a request must have waited for other requests.
const LONG_MS: f64 = 1000.0;

/// Returns the share of the time for which a run was behind, if the run was saturated: by its share
/// of the time, or because at least a tenth of its requests took long. `None` for a closed replay,
/// which has no times with which a drive must keep up.
pub(super) fn share_behind(run: &Run, replay: Replay) -> Option<f64> {
    if matches!(replay, Replay::Closed { .. }) {
        return None;
    }
    // One large request, or a disk that must spin up, takes long without a queue.
    if run.queue_depth_max.is_some_and(|most| most <= 1) {
        return None;
    }
    let share = run.behind_fraction.filter(|&share| share > 0.0)?;
    (share >= SATURATED_SHARE || long_requests(run).is_some()).then_some(share)
}

/// Returns the largest known share of requests that took long, in words.
fn long_requests(run: &Run) -> Option<&'static str> {
    let all = &run.response_time_ms.all;
    let is_long = |percentile: Option<f64>| percentile.is_some_and(|ms| ms >= LONG_MS);
    if is_long(all.p50) {
        Some("half of the requests")
    } else if is_long(all.p90) {
        Some("a tenth of the requests")
    } else {
        None
    }
}

/// Returns the name of a run. A scheme may run twice: with drives on sale, and with a share.
fn name(run: &Run) -> String {
    match run.sizing {
        Sizing::Share => format!("{} with 10 % of the working set", run.label),
        Sizing::Sold | Sizing::Given => run.label.clone(),
    }
}

/// Returns a share in per cent. A small share is not rounded to 0.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1.0 { format!("{} %", significant(percent, 2)) } else { format!("{percent:.0} %") }
}

/// Returns the sentence that names the busiest drive of a run.
fn busiest(run: &Run) -> String {
    let busy = |member: &Member| Some((member.figures.busy_fraction()?, member.id.clone()));
    let busiest = run.members.iter().filter_map(busy).max_by(|(one, _), (other, _)| one.total_cmp(other));
    busiest.map_or_else(String::new, |(share, id)| {
        format!(" Its {id} was busy for {:.0} % of the measured time.", share * 100.0)
    })
}

pub(super) fn of(runs: &[Run], replay: Replay) -> Option<Finding> {
    // A scheme without a cache has the same figures in both blocks of a comparison.
    let is_sold_too = |run: &Run| {
        let same = |other: &Run| other.label == run.label && other.behind_fraction == run.behind_fraction;
        run.sizing == Sizing::Share && runs.iter().any(|other| other.sizing != Sizing::Share && same(other))
    };
    let once = runs.iter().filter(|run| !is_sold_too(run));
    let mut saturated: Vec<(&Run, f64)> = once.filter_map(|run| Some((run, share_behind(run, replay)?))).collect();
    // Whole drives come before shares of drives.
    let key = |run: &Run| run.sizing == Sizing::Share;
    saturated.sort_by(|(one, a), (other, b)| key(one).cmp(&key(other)).then(b.total_cmp(a)));
    let &(worst, share) = saturated.first()?;
    let others: Vec<String> =
        saturated[1..].iter().map(|(run, share)| format!("{} {}", name(run), percent(*share))).collect();
    let others = if others.is_empty() { String::new() } else { format!(" Behind, too: {}.", others.join(", ")) };
    let burst = if share < SATURATED_SHARE { ", for they came in a burst" } else { "" };
    let long = |share| format!(" At least {share} took more than 1 s{burst}.");
    let long = long_requests(worst).map_or_else(String::new, long);
    let text = format!(
        "{} was behind for {} of the time, first {:.0} s after the beginning: a request had waited for more than \
         a second, and up to {} waited at once.{long}{} The trace was recorded on faster drives.{others}",
        name(worst),
        percent(share),
        worst.behind_since_s.unwrap_or(0.0),
        worst.queue_depth_max.unwrap_or(0),
        busiest(worst)
    );
    Some(Finding::new("saturated", "warning", text, "--replay think or closed, or --speedup below 1", Some(share)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::HddFigures;

    const TIMED: Replay = Replay::Timed { speedup: 1.0 };

    fn run(scheme: &str, share: Option<f64>) -> Run {
        Run {
            behind_fraction: share,
            behind_since_s: share.map(|share| share * 100.0),
            queue_depth_max: share.map(|share| (share * 1000.0) as u64),
            ..Run::named(scheme)
        }
    }

    fn member(id: &str, busy_fraction: f64) -> Member {
        let figures = HddFigures { busy_fraction: Some(busy_fraction), ..HddFigures::default() };
        Member { id: id.to_owned(), ..Member::of_disk(figures) }
    }

    #[test]
    fn saturated_run_tells_since_when_and_which_drive() {
        let mut slow = run("smq", Some(0.4));
        slow.members = vec![member("ssd", 0.2), member("hdd", 0.98)];
        let line = of(&[slow], TIMED).expect("it is saturated").line();
        assert!(line.contains("40 % of the time, first 40 s after the beginning: a request"), "{line}");
        assert!(line.contains("Its hdd was busy for 98 % of the measured time. The trace"), "{line}");
    }

    /// 10,000 of 16,000 requests arrived in a twentieth of the time: the median was 1 s, and
    /// nothing was said.
    #[test]
    fn run_whose_requests_took_long_is_saturated_in_a_short_time() {
        let with = |p50, p90, behind| {
            let mut run = run("hdd-only", Some(behind));
            (run.response_time_ms.all.p50, run.response_time_ms.all.p90) = (Some(p50), Some(p90));
            of(&[run], TIMED).map(|finding| finding.text)
        };
        let half = with(1041.0, 5272.0, 0.0046).expect("half of the requests waited");
        assert!(half.contains("behind for 0.46 % of the time"), "{half}");
        assert!(half.contains("At least half of the requests took more than 1 s, for they came in a burst."), "{half}");
        let tenth = with(5.0, 1000.0, 0.07).expect("a tenth waited");
        assert!(tenth.contains("At least a tenth of the requests took more than 1 s, for"), "{tenth}");
        assert_eq!(with(5.0, 999.0, 0.07), None);
        assert_eq!(with(1041.0, 5272.0, 0.0), None, "large requests alone take long, and nothing waits");
    }

    #[test]
    fn worst_saturated_run_is_named_first_with_its_queue() {
        let runs = [
            run("ssd-only", Some(0.02)),
            run("griffin", Some(0.1)),
            run("hdd-only", Some(0.43)),
            run("smq", Some(0.2)),
            run("raid0", None),
        ];
        let found = of(&runs, TIMED).expect("three are saturated");
        let line = found.line();
        assert!(line.starts_with("warning: hdd-only was behind for 43 % of the time"), "{line}");
        assert!(line.contains("up to 430 waited at once") && line.contains("recorded on faster drives"), "{line}");
        assert!(line.contains("Behind, too: smq 20 %, griffin 10 %. ("), "{line}");
        assert_eq!(found.share, Some(0.43));
        assert!(!of(&runs[1..2], TIMED).expect("griffin is").text.contains("too"));
        assert_eq!(of(&runs[..1], TIMED), None);
    }

    #[test]
    fn run_that_stands_in_both_blocks_is_named_once() {
        let share = |share| Run { sizing: Sizing::Share, ..run("hdd-only", Some(share)) };
        let text = |runs: &[Run]| of(runs, TIMED).expect("a finding").text;
        assert!(!text(&[run("hdd-only", Some(0.4)), share(0.4)]).contains("too"));
        let both = text(&[run("hdd-only", Some(0.3)), share(0.4)]);
        assert!(both.ends_with("Behind, too: hdd-only with 10 % of the working set 40 %."), "{both}");
        assert!(text(&[share(0.3)]).starts_with("hdd-only with 10 % of the working set was behind"));
    }
}
