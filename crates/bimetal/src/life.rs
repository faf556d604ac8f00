//! Lifetimes of flash in words: years, the year of the end, the limit that ends a life, and drive
//! writes a day.

use std::fmt::Write as _;

use bimetal_measure::text::{lifetime, three_digits};
use bimetal_models::endurance::LimitedBy;
use bimetal_sim::lifetime::Unknown;
use bimetal_sim::results::{FlashFigures, MemberFigures, Run};

use crate::prices::now_s;
use crate::report::sections::label;

/// Years beyond which a calendar year has no meaning.
const YEARS_MAX: f64 = 50.0;

const DAYS_OF_A_YEAR: f64 = 365.25;

/// Returns today's date as a year with its fraction.
pub(crate) fn today() -> f64 {
    1970.0 + now_s() / (365.2425 * 86_400.0)
}

/// Returns `, until 2031` for a life that begins at `today`; an empty text for a life whose end is
/// too far away for a calendar year.
pub(crate) fn until(years: f64, today: f64) -> String {
    if years < YEARS_MAX { format!(", until {}", (today + years) as u32) } else { String::new() }
}

/// Returns the name of a limit.
pub(crate) fn limit(limited_by: LimitedBy) -> &'static str {
    match limited_by {
        LimitedBy::Warranty => "the writes that the maker warrants",
        LimitedBy::Cycles => "the rated cycles",
    }
}

/// Returns the reason for which a lifetime is unknown, with the remedy.
pub(crate) fn unknown(reason: Unknown) -> &'static str {
    match reason {
        Unknown::NeedsTimes => "needs times: a trace with times, replayed at them (--replay timed or think)",
        Unknown::NothingWritten => "nothing is written in the long run",
        Unknown::OnlyNewData => "the SSD gets each piece of data once; the trace, played again, writes nothing",
        Unknown::Rented => "rented: the provider replaces worn flash",
        Unknown::NothingErased => {
            "nothing was erased, and the profile has neither warranted_terabytes_written nor warranted_drive_writes_per_day"
        }
    }
}

/// Returns a line for each flash drive of a run with its life; `today` is a year.
pub(crate) fn of_drives(run: &Run, today: f64) -> String {
    let mut text = String::new();
    for member in &run.members {
        if let MemberFigures::Ssd(figures) = &member.figures {
            let life = of_flash(&figures.flash, member.bought_bytes, today);
            text += &wrapped(&format!("life of {} ({}): {life}", member.id, member.profile));
        }
    }
    text
}

fn of_flash(flash: &FlashFigures, drive_bytes: u64, today: f64) -> String {
    let (Some(years), Some(limited_by)) = (flash.lifetime_years, flash.lifetime_limited_by) else {
        let reason = flash.lifetime_unknown.map_or("not computed", unknown);
        let least = flash.possible_years().zip(flash.shortest_limited_by());
        return least.map_or_else(
            || format!("? ({reason})"),
            |((least, _), by)| format!("{} or more, limited by {} ({reason})", lifetime(least), limit(by)),
        );
    };
    // Writing to a string cannot fail.
    let mut text = String::new();
    let range = flash.lifetime_range_years;
    if let Some((least, _)) = range.filter(|(least, _)| lifetime(*least) != lifetime(years)) {
        // A table has the least life. The limit may differ: the least life assumes writes at
        // random, which erase more.
        let by = flash.shortest_limited_by().map_or_else(String::new, |by| format!(", limited by {}", limit(by)));
        let _ = write!(text, "at least {}{}{by}; as measured ", lifetime(least), until(least, today));
    }
    let _ = write!(text, "{}{}, limited by {}", lifetime(years), until(years, today), limit(limited_by));
    let other = match limited_by {
        LimitedBy::Warranty => flash.lifetime_years_cycles.map(|years| (LimitedBy::Cycles, years)),
        LimitedBy::Cycles => flash.lifetime_years_warranted.map(|years| (LimitedBy::Warranty, years)),
    };
    if let Some((other, years)) = other {
        let _ = write!(text, ", while {} last {}", limit(other), lifetime(years));
    }
    if let Some((_, most)) = range.filter(|(_, most)| lifetime(*most) != lifetime(years)) {
        let most = if most.is_finite() { lifetime(most) } else { "not known".to_owned() };
        let _ = write!(text, "; longest life {most}");
    }
    if let Some(dwpd) = flash.dwpd {
        let terabytes = dwpd * DAYS_OF_A_YEAR * drive_bytes as f64 / 1e12;
        let _ = write!(text, "; {} drive writes a day, {} TB a year", three_digits(dwpd), three_digits(terabytes));
    }
    text
}

/// Returns the lines below a table of runs: the limit that ends each life of the table, and the
/// reasons of unknown lives. The table has the shortest possible life.
pub(crate) fn below_table(runs: &[Run]) -> String {
    let flash = |run: &Run| (run.devices.ssd.flash.shortest_limited_by(), run.devices.ssd.flash.lifetime_unknown);
    let named = |wanted: &dyn Fn(&Run) -> bool| -> Vec<String> {
        (0..runs.len()).filter(|&at| wanted(&runs[at])).map(|at| label(runs, at)).collect()
    };
    let [warranty, cycles] = [LimitedBy::Warranty, LimitedBy::Cycles].map(|by| named(&|run| flash(run).0 == Some(by)));
    let mut text = String::new();
    let (by_warranty, by_cycles) = (limit(LimitedBy::Warranty), limit(LimitedBy::Cycles));
    match (warranty.is_empty(), cycles.is_empty()) {
        (true, true) => {}
        (false, true) => text += &format!("life: limited by {by_warranty}\n"),
        (true, false) => text += &format!("life: limited by {by_cycles}\n"),
        // The smaller group is named.
        (false, false) => {
            let (rule, names, exception) = match cycles.len() > warranty.len() {
                true => (by_cycles, warranty, by_warranty),
                false => (by_warranty, cycles, by_cycles),
            };
            text += &wrapped(&format!("life: limited by {rule}; of {} by {exception}", names.join(", ")));
        }
    }
    let at_least = named(&|run| flash(run).1 == Some(Unknown::OnlyNewData));
    if !at_least.is_empty() {
        text += &wrapped(&format!("least life of {}: {}", at_least.join(", "), unknown(Unknown::OnlyNewData)));
    }
    for reason in [Unknown::NeedsTimes, Unknown::NothingWritten, Unknown::NothingErased, Unknown::Rented] {
        let names = named(&|run| flash(run) == (None, Some(reason)));
        if !names.is_empty() {
            text += &wrapped(&format!("? life of {}: {}", names.join(", "), unknown(reason)));
        }
    }
    text
}

/// Breaks a line at 120 columns, with an indent after each break.
fn wrapped(line: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in line.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > 120 {
            text += "\n ";
            column = 1;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_models::endurance::Lifetime;
    use bimetal_sim::results::{Member, Provenance, SsdFigures};

    fn run(lifetime: Lifetime, unknown: Option<Unknown>) -> Run {
        let mut run = Run::named("griffin");
        let flash = &mut run.devices.ssd.flash;
        (flash.lifetime_years, flash.lifetime_limited_by) = (lifetime.years(), lifetime.limited_by());
        (flash.lifetime_years_warranted, flash.lifetime_years_cycles) =
            (lifetime.warranted_years, lifetime.cycles_years);
        flash.lifetime_unknown = unknown;
        let figures = MemberFigures::Ssd(Box::new(SsdFigures { flash: flash.clone(), ..SsdFigures::default() }));
        let (id, profile, role, provenance) = ("ssd".into(), "p".into(), "home".into(), Provenance::default());
        run.members = vec![Member {
            id,
            profile,
            role,
            figures,
            provenance,
            volume: None,
            bytes: 1,
            drives: 1,
            bought_bytes: 500_000_000_000,
            metadata_bytes: 0,
        }];
        run
    }

    #[test]
    fn life_names_its_limit_and_the_year_of_its_end() {
        let lifetime = Lifetime { warranted_years: Some(3.84), cycles_years: Some(10.8) };
        let mut run = run(lifetime, None);
        let MemberFigures::Ssd(figures) = &mut run.members[0].figures else { panic!("it is an SSD") };
        (figures.flash.lifetime_range_years, figures.flash.dwpd) = (Some((0.9, 3.84)), Some(0.43));
        assert_eq!(
            of_drives(&run, 2026.9),
            "life of ssd (p): at least 0.900 y, until 2027; as measured 3.84 y, until 2030, limited by the writes that the \
             maker\n  warrants, while the rated cycles last 10.8 y; 0.430 drive writes a day, 78.5 TB a year\n"
        );
        assert_eq!((until(4.2, 2026.9), until(60.0, 2026.9)), (", until 2031".to_owned(), String::new()));
    }

    /// Regression: a trace without times gave a life of 4.64 hours, from the speed of an invented
    /// replay.
    #[test]
    fn unknown_life_is_a_question_mark_with_its_reason() {
        let run = run(Lifetime::default(), Some(Unknown::NeedsTimes));
        assert!(of_drives(&run, 2026.9).starts_with("life of ssd (p): ? (needs times"), "{}", of_drives(&run, 2026.9));
        assert!(below_table(&[run]).starts_with("? life of griffin: needs times"));
    }

    #[test]
    fn life_of_a_drive_that_gets_only_new_data_has_a_least_value() {
        let mut run = run(Lifetime::default(), Some(Unknown::OnlyNewData));
        let MemberFigures::Ssd(figures) = &mut run.members[0].figures else { panic!("it is an SSD") };
        figures.flash.lifetime_range_years = Some((1.85, f64::INFINITY));
        figures.flash.lifetime_shortest_limited_by = Some(LimitedBy::Warranty);
        run.devices.ssd.flash = figures.flash.clone();
        let text = of_drives(&run, 2026.9);
        assert!(text.starts_with("life of ssd (p): 1.85 y or more, limited by the writes that the maker"), "{text}");
        let text = below_table(&[run]);
        assert!(text.contains("\nleast life of griffin: the SSD gets each piece of data once;"), "{text}");
    }

    /// The table has the shortest possible life. Regression: below the table stood the limit of the
    /// longer life, which the measured writes give.
    #[test]
    fn limit_below_a_table_is_that_of_the_shortest_life() {
        let mut run = run(Lifetime { warranted_years: Some(3.84), cycles_years: Some(10.8) }, None);
        let MemberFigures::Ssd(figures) = &mut run.members[0].figures else { panic!("it is an SSD") };
        figures.flash.lifetime_range_years = Some((1.85, 3.84));
        figures.flash.lifetime_shortest_limited_by = Some(LimitedBy::Cycles);
        run.devices.ssd.flash = figures.flash.clone();
        let text = of_drives(&run, 2026.9);
        assert!(
            text.contains("at least 1.85 y, until 2028, limited by the rated cycles; as measured 3.84 y"),
            "{text}"
        );
        assert_eq!(below_table(std::slice::from_ref(&run)), "life: limited by the rated cycles\n");
        run.devices.ssd.flash.lifetime_range_years = Some((3.84, 9.0));
        assert_eq!(below_table(&[run]), "life: limited by the writes that the maker warrants\n");
    }

    #[test]
    fn schemes_below_a_table_are_named_by_their_limit() {
        let warranty = run(Lifetime { warranted_years: Some(1.0), cycles_years: Some(2.0) }, None);
        let mut cycles = run(Lifetime { warranted_years: None, cycles_years: Some(2.0) }, None);
        cycles.label = "bcache".into();
        assert_eq!(
            below_table(&[warranty.clone(), cycles, Run::default()]),
            "life: limited by the writes that the maker warrants; of bcache by the rated cycles\n"
        );
        assert_eq!(below_table(&[warranty]), "life: limited by the writes that the maker warrants\n");
        assert!(wrapped(&"word ".repeat(60)).lines().all(|line| line.chars().count() <= 120));
    }
}
