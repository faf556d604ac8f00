//! Timers of a scheme that are longer than the trace: the effects of such timers are missing from
//! the figures.

use std::collections::BTreeMap;

use bimetal_core::schemes;
use bimetal_core::settings::Kind;
use bimetal_core::units::Nanoseconds;

use super::Finding;
use crate::results::Run;
use crate::simulator::Replay;
use crate::survey::Survey;

/// Returns the finding about a replay of the trace that is shorter than a timer of a scheme; `None`
/// for a closed replay, which has no times.
pub(super) fn of(survey: &Survey, runs: &[Run], replay: Replay) -> Option<Finding> {
    let speedup = replay.speedup()?;
    let played = Nanoseconds::from_seconds_f64(survey.duration.as_seconds_f64() / speedup);
    let mut late: Vec<String> = Vec::new();
    for timer in runs.iter().flat_map(|run| longer_than(played, &run.scheme, &run.settings)) {
        // A scheme may run twice, with drives on sale and with a share.
        if !late.contains(&timer) {
            late.push(timer);
        }
    }
    if late.is_empty() || survey.duration == Nanoseconds::ZERO {
        return None;
    }
    let seconds = played.as_seconds_f64();
    let speed = if speedup == 1.0 { String::new() } else { format!(" at --speedup {speedup}") };
    let text = format!("The trace{speed} ({seconds:.0} s) is shorter than timers of schemes: {}.", late.join(", "));
    Some(Finding::new("timers-longer-than-trace", "warning", text, "a longer trace, or --set PARAMETER=TIME", None))
}

/// Share of the written blocks below which a scheme counts as not having begun to write home.
const BEGUN_SHARE: f64 = 0.01;

/// Part of a replay that was measured.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredPart {
    /// Times at which the requests were issued.
    pub replay: Replay,
    /// Time from the beginning of the replay to its end, warm-up included.
    pub replayed: Nanoseconds,
    /// Blocks that the host wrote, at least in part, in the measured part.
    pub host_blocks: u64,
    /// Blocks that home got, at least in part, in the measured part.
    pub home_blocks: u64,
}

/// Returns true if a scheme kept nearly all writes of the measured part from home, and a timer of
/// the scheme is longer than the whole replay: the work that the scheme put off is missing from the
/// figures. A closed replay has no times, so no timer is longer.
pub fn puts_off_all_work(scheme: &str, settings: &BTreeMap<String, String>, part: &MeasuredPart) -> bool {
    let has_begun = part.home_blocks as f64 >= BEGUN_SHARE * part.host_blocks as f64;
    let is_timed = !matches!(part.replay, Replay::Closed { .. });
    is_timed && !has_begun && !longer_than(part.replayed, scheme, settings).is_empty()
}

/// Returns the timers of a scheme that are longer than `duration`, as `scheme key=value`.
fn longer_than(duration: Nanoseconds, scheme: &str, settings: &BTreeMap<String, String>) -> Vec<String> {
    // Without a strategy, combo has nothing to time.
    if settings.get("strategy").is_some_and(|strategy| strategy == "none") {
        return Vec::new();
    }
    let parameters = schemes::find(scheme).map_or(&[][..], |scheme| scheme.parameters);
    let timers = parameters.iter().filter(|parameter| matches!(parameter.kind, Kind::Duration | Kind::DurationOrOff));
    let late = timers.filter_map(|parameter| {
        let value = settings.get(parameter.name)?;
        let is_late = value.parse::<Nanoseconds>().is_ok_and(|time| time > duration);
        is_late.then(|| format!("{scheme} {}={value}", parameter.name))
    });
    late.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    /// Griffin on a second of a trace wrote its SSD never, and its SSD was said to last 696 years.
    #[test]
    fn scheme_whose_timer_never_fired_puts_off_all_work() {
        let settings = BTreeMap::from([("timeout".to_owned(), "900s".to_owned())]);
        let timed = Replay::Timed { speedup: 20.0 };
        let part = |seconds, home_blocks, host_blocks| {
            let replayed = Nanoseconds::from_seconds(seconds);
            MeasuredPart { replay: timed, replayed, host_blocks, home_blocks }
        };
        let puts_off = |part| puts_off_all_work("griffin", &settings, &part);
        assert!(puts_off(part(40, 0, 1000)));
        assert!(puts_off(part(40, 9, 1000)));
        assert!(!puts_off(part(40, 10, 1000)), "a threshold began a migration");
        assert!(!puts_off(part(901, 0, 1000)), "the timer was due");
        assert!(!puts_off(part(40, 0, 0)), "nothing was written");
        assert!(!puts_off(MeasuredPart { replay: Replay::Closed { depth: 1 }, ..part(40, 0, 1000) }), "no times");
        assert!(!puts_off_all_work("ssd-only", &BTreeMap::new(), &part(0, 0, 1000)), "no timer");
    }

    #[test]
    fn timer_beyond_the_trace_is_named() {
        let survey = |seconds| Survey { duration: Nanoseconds::from_seconds(seconds), ..Survey::default() };
        let timed = |speedup| Replay::Timed { speedup };
        let mut griffin = run("griffin", 1 << 30);
        griffin.settings.insert("timeout".into(), "900s".into());
        griffin.settings.insert("read_threshold".into(), "0.05".into());
        let found = of(&survey(40), &[run("hdd-only", 0), griffin.clone()], timed(1.0)).unwrap();
        assert_eq!(found.text, "The trace (40 s) is shorter than timers of schemes: griffin timeout=900s.");
        assert_eq!(of(&survey(901), &[griffin.clone()], timed(1.0)), None);
        // The time of the trace counted, whatever its speed.
        assert_eq!(of(&survey(40), &[griffin.clone()], timed(0.04)), None);
        let fast = of(&survey(1800), &[griffin.clone()], timed(20.0)).unwrap();
        assert!(fast.text.starts_with("The trace at --speedup 20 (90 s) is shorter"), "{fast:?}");
        assert_eq!(of(&survey(40), &[griffin.clone()], Replay::Closed { depth: 1 }), None);
        griffin.settings.insert("timeout".into(), "off".into());
        assert_eq!(of(&survey(40), &[griffin], timed(1.0)), None);
        let mut combo = run("combo", 1 << 30);
        combo.settings.extend([("strategy".into(), "none".into()), ("period".into(), "300s".into())]);
        assert_eq!(of(&survey(40), &[combo.clone()], timed(1.0)), None, "nothing is timed without a strategy");
        combo.settings.insert("strategy".into(), "access".into());
        assert!(of(&survey(40), &[combo], timed(1.0)).is_some());
    }
}
