//! Lives that are extrapolated from a trace of less than a day, in which the idle hours of a day
//! are missing.

use bimetal_core::units::Nanoseconds;
use bimetal_measure::text::{lifetime, three_digits};

use super::Finding;
use crate::results::Run;
use crate::sizing::Sizing;
use crate::survey::Survey;

/// Time after which most loads repeat: a day, because people sleep.
const DAY: Nanoseconds = Nanoseconds::from_seconds(86_400);

/// Time below which a trace may be one burst or one pause of its load.
const HOUR: Nanoseconds = Nanoseconds::from_seconds(3600);

/// Years from which on a lifetime is long enough not to be reported, unless the trace is quiet.
const LONG: f64 = 10.0;

const HOURS_A_DAY: f64 = 24.0;

pub(super) fn of(survey: &Survey, runs: &[Run]) -> Option<Finding> {
    if survey.duration == Nanoseconds::ZERO || survey.duration >= DAY {
        return None;
    }
    // Nobody buys a share of a drive.
    let whole = runs.iter().filter(|run| run.sizing != Sizing::Share);
    let lives = whole.filter_map(|run| Some((run.devices.ssd.flash.possible_years()?.0, run)));
    let (years, run) = lives.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let seconds = survey.duration.as_seconds_f64();
    let severity = if survey.duration < HOUR { "warning" } else { "note" };
    let time = match survey.duration < HOUR {
        true => format!("{} s", three_digits(seconds)),
        false => format!("{} h", three_digits(seconds / HOUR.as_seconds_f64())),
    };
    let doubt = match years < LONG {
        true => format!(
            "The shortest, {} of {}, is {} if the load lasts one hour a day.",
            lifetime(years),
            run.label,
            lifetime(years * HOURS_A_DAY)
        ),
        false => "Busier hours, which the trace may lack, shorten them.".to_owned(),
    };
    let text =
        format!("Lives are extrapolated from {time} of trace, as if the drives were written like this always. {doubt}");
    Some(Finding::new("life-of-short-trace", severity, text, "a trace of a day or more", None))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    fn lasting(scheme: &str, years: Option<f64>) -> Run {
        let mut run = run(scheme, 1 << 30);
        run.devices.ssd.flash.lifetime_years = years;
        run
    }

    #[test]
    fn life_from_less_than_a_day_is_doubted() {
        let survey = |seconds| Survey { duration: Nanoseconds::from_seconds(seconds), ..Survey::default() };
        let runs = [lasting("hdd-only", None), lasting("smq", Some(3.0)), lasting("bcache", Some(0.5))];
        let share = Run { sizing: Sizing::Share, ..lasting("bcache", Some(0.001)) };
        assert_eq!(of(&survey(36), std::slice::from_ref(&share)), None, "nobody buys a share");
        let runs = [runs.as_slice(), &[share]].concat();
        let found = of(&survey(36), &runs).expect("36 s are no day");
        assert_eq!(found.severity, "warning");
        assert!(found.text.contains(&format!("from {} s of trace", three_digits(36.0))), "{}", found.text);
        let (short, long) = (lifetime(0.5), lifetime(12.0));
        let shortest = format!("The shortest, {short} of bcache, is {long} if the load lasts one hour a day.");
        assert!(found.text.ends_with(&shortest), "{}", found.text);
        // Regression: a life of 1 to 3 years was longer than a life of 2 years.
        let mut ranged = lasting("griffin", Some(3.0));
        ranged.devices.ssd.flash.lifetime_range_years = Some((1.0, 3.0));
        let found = of(&survey(36), &[lasting("smq", Some(2.0)), ranged]).expect("36 s are no day");
        assert!(found.text.contains(&format!("The shortest, {} of griffin,", lifetime(1.0))), "{}", found.text);
        let severity = |seconds| of(&survey(seconds), &runs).map(|found| found.severity);
        assert_eq!(severity(3599).as_deref(), Some("warning"));
        assert_eq!(severity(3600).as_deref(), Some("note"));
        assert_eq!(severity(86_399).as_deref(), Some("note"));
        assert_eq!(severity(86_400), None);
        assert_eq!(severity(0), None, "without times there is no life");
        assert_eq!(of(&survey(36), &runs[..1]), None, "no life is stated");
        let long = of(&survey(36), &[lasting("smq", Some(10.0))]).expect("36 s are no day");
        assert!(long.text.ends_with("Busier hours, which the trace may lack, shorten them."), "{}", long.text);
    }
}
