//! Dates of prices: a year, a month or a day.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A date that is known to the day, the month or the year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Date {
    year: i64,
    month: Option<u8>,
    day: Option<u8>,
}

impl Date {
    /// Returns the days from 1970-01-01 to the first day that the date can mean.
    pub fn first_day(self) -> i64 {
        days_before(self.year, self.month.unwrap_or(1)) + i64::from(self.day.unwrap_or(1)) - 1
    }

    /// Returns true if the date is known to the day.
    pub fn is_exact(self) -> bool {
        self.day.is_some()
    }

    /// Returns the days from this date to `today`, a number of days since 1970-01-01.
    pub fn age_days(self, today: i64) -> i64 {
        today - self.first_day()
    }
}

/// Returns the days from 1970-01-01 to the first day of a month, in the Gregorian calendar.
fn days_before(year: i64, month: u8) -> i64 {
    // Years begin in March here, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * i64::from(month) + 2) / 5 - 719_468
}

/// Returns the number of days of a month.
fn days_in(year: i64, month: u8) -> i64 {
    let next = if month == 12 { days_before(year + 1, 1) } else { days_before(year, month + 1) };
    next - days_before(year, month)
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: expected a date like 2026-11-22, 2026-11 or 2026");
        let parts: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let digits = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        if !digits || !([4, 2, 2].starts_with(&lengths)) {
            return Err(wrong());
        }
        let part = |at: usize| parts.get(at).map(|part| part.parse::<u8>().map_err(|_| wrong())).transpose();
        let date = Self { year: parts[0].parse().map_err(|_| wrong())?, month: part(1)?, day: part(2)? };
        let month = date.month.unwrap_or(1);
        let is_real = (1..=12).contains(&month)
            && date.day.is_none_or(|day| (1..=days_in(date.year, month)).contains(&i64::from(day)));
        if is_real { Ok(date) } else { Err(wrong()) }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}", self.year)?;
        for part in [self.month, self.day].into_iter().flatten() {
            write!(f, "-{part:02}")?;
        }
        Ok(())
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_1970_over_leap_years() {
        let days = |text: &str| text.parse::<Date>().unwrap().first_day();
        assert_eq!((days("1970-01-01"), days("1970"), days("1969-12-31")), (0, 0, -1));
        assert_eq!((days("2000-02-29"), days("2000-03"), days("2026-11-22")), (11_016, 11_017, 20_779));
        let age = "2025-07-23".parse::<Date>().unwrap().age_days(days("2026-07-23"));
        assert_eq!(age, 365);
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for text in
            ["", "26", "2026-13", "2026-00", "2026-02-29", "2026-2-1", "2026-11-22-1", "2026-11-31", "-026", "soon"]
        {
            let error = text.parse::<Date>().unwrap_err();
            assert_eq!(error, format!("{text}: expected a date like 2026-11-22, 2026-11 or 2026"));
        }
        for text in ["2026", "2026-11", "2024-02-29"] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
    }
}
