//! Dates and ages of prices, as texts.

use std::time::{SystemTime, UNIX_EPOCH};

use bimetal_plan::answer::CatalogueNote;
use bimetal_plan::catalogue::Kind;
use bimetal_plan::drives::date::Date;
use bimetal_plan::drives::model::rise;
use bimetal_sim::results::{MemberFigures, Run};

/// Age in days from which on prices are noted as old.
const OLD_DAYS: i64 = 90;

/// Returns the seconds since 1970-01-01. `SOURCE_DATE_EPOCH` replaces them, so that equal inputs
/// give equal texts.
pub(crate) fn now_s() -> f64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse::<f64>().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()))
}

/// Returns the days from 1970-01-01 to today.
pub(crate) fn today() -> i64 {
    (now_s() / 86_400.0) as i64
}

/// Returns the name of a catalogue with the dates of its prices, like `common drives, of 2025-07-23
/// to 2026-08`.
pub(crate) fn source(catalogue: &CatalogueNote) -> String {
    let CatalogueNote { name, oldest_price, newest_price } = catalogue;
    if oldest_price.is_empty() { name.clone() } else { format!("{name}, {}", period(oldest_price, newest_price)) }
}

/// Returns the time between two dates, like `of 2025-07-23 to 2026-08`.
pub(crate) fn period(oldest: &str, newest: &str) -> String {
    if oldest == newest { format!("of {oldest}") } else { format!("of {oldest} to {newest}") }
}

/// Returns the dates of the prices of the drives in `runs`.
pub(crate) fn dates(runs: &[Run]) -> impl Iterator<Item = &str> {
    runs.iter().flat_map(|run| &run.members).filter_map(|member| member.provenance.price_date.as_deref())
}

/// Returns a note about prices of drives of `kinds` from `oldest` on, if they are old on `today`, a
/// number of days since 1970-01-01. The note tells how prices of such drives have changed since.
pub(crate) fn age_note(oldest: &str, kinds: &[Kind], today: i64) -> Option<String> {
    let date = oldest.parse::<Date>().ok()?;
    let age = date.age_days(today);
    (age >= OLD_DAYS).then(|| {
        let newer: String =
            kinds.iter().filter_map(|&kind| Some(format!("; {}", rise(kind, date)?.told(kind)))).collect();
        format!(
            "the oldest price is of {oldest}, {age} days ago{newer} (`bimetal catalog import` takes prices of your own)"
        )
    })
}

/// Returns the kinds of the drives in `runs`.
fn kinds_of(runs: &[Run]) -> Vec<Kind> {
    let members = || runs.iter().flat_map(|run| &run.members);
    let is_flash = |has: bool| members().any(|member| matches!(member.figures, MemberFigures::Ssd(_)) == has);
    let kinds = [(Kind::Ssd, is_flash(true)), (Kind::Hdd, is_flash(false))];
    kinds.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind).collect()
}

/// Days after which a price is of another time: of a drive of a paper, or of a list that nobody
/// keeps up to date.
const HISTORIC_DAYS: i64 = 1826;

/// Returns the note about old prices of the drives in `runs`: the age of the oldest price that may
/// still be paid, or otherwise the date of the oldest price.
pub(crate) fn age_note_of(runs: &[Run], today: i64) -> Option<String> {
    let is_recent = |date: &&str| date.parse::<Date>().is_ok_and(|date| date.age_days(today) < HISTORIC_DAYS);
    if let Some(oldest) = dates(runs).filter(is_recent).min() {
        return age_note(oldest, &kinds_of(runs), today);
    }
    let oldest = dates(runs).filter(|date| date.parse::<Date>().is_ok()).min()?;
    Some(format!("the prices are of {oldest}: compare them with each other, and not with prices of today"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_another_time_have_a_note_of_their_own() {
        let mut document = crate::report::fixture::document();
        let day = |text: &str| text.parse::<Date>().unwrap().first_day();
        let today = day("2026-06-01");
        assert!(age_note_of(&document.runs, today).is_some_and(|note| note.contains("2026-01-01")));
        let members = document.runs.iter_mut().flat_map(|run| &mut run.members);
        members.for_each(|member| member.provenance.price_date = Some("2008-09".to_owned()));
        let note = "the prices are of 2008-09: compare them with each other, and not with prices of today";
        assert_eq!(age_note_of(&document.runs, today).as_deref(), Some(note));
    }

    #[test]
    fn prices_are_old_after_a_quarter() {
        let day = |text: &str| text.parse::<Date>().unwrap().first_day();
        assert_eq!(age_note("2025-07-23", &[], day("2025-10-20")), None);
        let note = age_note("2025-07-23", &[], day("2025-10-21")).unwrap();
        assert!(note.starts_with("the oldest price is of 2025-07-23, 90 days ago ("), "{note}");
        assert_eq!((age_note("", &[], 0), age_note("some day", &[], i64::MAX)), (None, None));
    }

    #[test]
    fn newer_prices_are_told_with_their_ratio() {
        // Prices that are older than the prices of a list of one's own are not told.
        let note = |oldest| age_note(oldest, &[Kind::Ssd, Kind::Hdd], i64::from(u16::MAX)).unwrap();
        assert!(note("2025-07-23").contains("SSDs for sale") && note("2025-07-23").contains("disks for sale"));
        assert!(!note("2027-01").contains("for sale"), "{}", note("2027-01"));
    }

    #[test]
    fn one_date_is_no_period() {
        let of = |oldest: &str, newest: &str| {
            let (oldest_price, newest_price) = (oldest.to_owned(), newest.to_owned());
            source(&CatalogueNote { name: "shop".to_owned(), oldest_price, newest_price })
        };
        assert_eq!(of("2025", "2025"), "shop, of 2025");
        assert_eq!(of("2025-07-23", "2026-08"), "shop, of 2025-07-23 to 2026-08");
        assert_eq!(of("", ""), "shop");
    }
}
