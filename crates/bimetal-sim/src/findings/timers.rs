//! Timers of a scheme that are longer than the trace: the effects of such timers are missing from
//! the figures.

use bimetal_core::schemes;
use bimetal_core::settings::Kind;
use bimetal_core::units::Nanoseconds;

use super::Finding;
use crate::results::Run;
use crate::survey::Survey;

pub(super) fn of(survey: &Survey, runs: &[Run]) -> Option<Finding> {
    let mut late: Vec<String> = Vec::new();
    for timer in runs.iter().flat_map(|run| longer_than(survey.duration, run)) {
        // A scheme may run twice, with drives on sale and with a share.
        if !late.contains(&timer) {
            late.push(timer);
        }
    }
    if late.is_empty() || survey.duration == Nanoseconds::ZERO {
        return None;
    }
    let seconds = survey.duration.as_seconds_f64();
    let text = format!("The trace ({seconds:.0} s) is shorter than timers of schemes: {}.", late.join(", "));
    Some(Finding::new("timers-longer-than-trace", "warning", text, "a longer trace, or --set PARAMETER=TIME", None))
}

/// Returns the timers of a run that are longer than `duration`, as `scheme: key=value`.
fn longer_than(duration: Nanoseconds, run: &Run) -> Vec<String> {
    // Without a strategy, combo has nothing to time.
    if run.settings.get("strategy").is_some_and(|strategy| strategy == "none") {
        return Vec::new();
    }
    let parameters = schemes::find(&run.scheme).map_or(&[][..], |scheme| scheme.parameters);
    let timers = parameters.iter().filter(|parameter| matches!(parameter.kind, Kind::Duration | Kind::DurationOrOff));
    let late = timers.filter_map(|parameter| {
        let value = run.settings.get(parameter.name)?;
        let is_late = value.parse::<Nanoseconds>().is_ok_and(|time| time > duration);
        is_late.then(|| format!("{} {}={value}", run.scheme, parameter.name))
    });
    late.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn timer_beyond_the_trace_is_named() {
        let survey = |seconds| Survey { duration: Nanoseconds::from_seconds(seconds), ..Survey::default() };
        let mut griffin = run("griffin", 1 << 30);
        griffin.settings.insert("timeout".into(), "900s".into());
        griffin.settings.insert("read_threshold".into(), "0.05".into());
        let found = of(&survey(40), &[run("hdd-only", 0), griffin.clone()]).unwrap();
        assert_eq!(found.text, "The trace (40 s) is shorter than timers of schemes: griffin timeout=900s.");
        assert_eq!(of(&survey(901), &[griffin.clone()]), None);
        griffin.settings.insert("timeout".into(), "off".into());
        assert_eq!(of(&survey(40), &[griffin]), None);
        let mut combo = run("combo", 1 << 30);
        combo.settings.extend([("strategy".into(), "none".into()), ("period".into(), "300s".into())]);
        assert_eq!(of(&survey(40), &[combo.clone()]), None, "nothing is timed without a strategy");
        combo.settings.insert("strategy".into(), "access".into());
        assert!(of(&survey(40), &[combo]).is_some());
    }
}
