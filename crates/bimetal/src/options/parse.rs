//! Readers of the values of options. The error of each reader says what was expected.

use bimetal_core::units::Bytes;
use bimetal_models::flash::Precondition;
use bimetal_sim::setup::{DriveChoice, Size};

/// Reads a whole number, such as a number of requests or lines.
///
/// # Errors
/// Returns a text that says what was expected.
pub fn whole_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, like 100000".to_owned())
}

/// Reads a number of requests or runs.
///
/// # Errors
/// Returns a text that says what was expected.
pub fn at_least_one(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|&number: &u64| number > 0);
    number.ok_or_else(|| "expected a whole number of at least 1, like 100000".to_owned())
}

/// Reads a number above 0, such as a number of years.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0, like 5".to_owned())
}

/// Reads a number that is not negative, such as a price.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn zero_or_more(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected 0 or more, like 0.15".to_owned())
}

/// Most runs of a scheme.
const RUNS_MAX: u32 = 1000;

/// Reads a number of runs.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn runs(text: &str) -> Result<u32, String> {
    let runs = text.parse().ok().filter(|runs| (1..=RUNS_MAX).contains(runs));
    runs.ok_or_else(|| format!("expected a number of runs from 1 to {RUNS_MAX}, like 5"))
}

/// Most rounds of a trace.
const ROUNDS_MAX: u64 = 1_000_000;

/// Reads a number of rounds.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn rounds(text: &str) -> Result<u64, String> {
    let rounds = text.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
    rounds.ok_or_else(|| format!("expected a number of rounds from 1 to {ROUNDS_MAX}, like 10"))
}

/// Reads the number of a device.
///
/// # Errors
/// Returns a text that says what was expected.
pub fn device_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected the number of a device, from 0 on".to_owned())
}

/// Reads a fraction from 0 to 1, such as a share or a probability.
///
/// # Errors
/// Returns a text that says what was expected.
pub fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("expected a fraction from 0 to 1, like 0.7".to_owned()),
    }
}

/// Share of the requests that is played before the measurement begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WarmUpOption {
    /// A share that is given.
    Fraction(f64),
    /// A share that is found from the run itself.
    Auto,
}

/// Reads a warm-up.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn warmup(text: &str) -> Result<WarmUpOption, String> {
    if text == "auto" {
        return Ok(WarmUpOption::Auto);
    }
    let expected = || "expected a share of the requests, like 0.7 or 70%, or auto".to_owned();
    let share = match text.strip_suffix('%').map(str::parse::<f64>) {
        Some(percent) => percent.ok().map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share)),
        None => fraction(text).ok(),
    };
    share.map(WarmUpOption::Fraction).ok_or_else(expected)
}

/// Reads the state of flash before a trace.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn precondition(text: &str) -> Result<Precondition, String> {
    text.parse().map_err(|_| "expected clean, sequential or random".to_owned())
}

/// Reads a day, as a year with its fraction. Month and day may be left out.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn day(text: &str) -> Result<f64, String> {
    let expected = || "expected a day, like 2026-11-23".to_owned();
    let mut parts = [f64::NAN, 1.0, 1.0];
    let mut texts = text.splitn(3, '-');
    for (part, most) in parts.iter_mut().zip([9999, 12, 31]) {
        let Some(number) = texts.next() else { break };
        let number = number.parse::<i32>().ok().filter(|number| (1..=most).contains(number)).ok_or_else(expected)?;
        *part = f64::from(number);
    }
    let [year, month, day] = parts;
    Ok(year + (month - 1.0) / 12.0 + (day - 1.0) / 372.0)
}

/// Bytes below which a bare number is not a size of a drive.
const BARE_BYTES_MIN: u64 = 1 << 20;

/// Returns the error of a bare number as the size of a drive; `None` if the number is valid. A bare
/// number is in bytes, and a small bare number lacks its unit.
pub(crate) fn without_unit(text: &str) -> Option<String> {
    let number = text.trim().parse::<u64>().ok().filter(|number| (1..BARE_BYTES_MIN).contains(number))?;
    Some(format!("{number} without a unit is {number} bytes: expected a unit: {number}GiB"))
}

/// Reads a size of a drive.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn drive_size(text: &str) -> Result<Bytes, String> {
    match (text.parse::<Bytes>(), without_unit(text)) {
        (_, Some(message)) => Err(message),
        (Ok(Bytes(0)), None) => Err("expected a size above 0, like 32GiB".to_owned()),
        (read, None) => read.map_err(|_| "expected a size with its unit, like 8TB, 8TiB or 32GiB".to_owned()),
    }
}

/// Reads the capacity of a volume. A letter alone is refused, because it means powers of ten on the
/// labels of drives, and powers of two in most programs: 10 % of 8 TB.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn capacity(text: &str) -> Result<Bytes, String> {
    let text = text.trim();
    let letter = text.chars().last().filter(|last| "mgtpMGTP".contains(*last)).map(|last| last.to_ascii_uppercase());
    if let Some(letter) = letter {
        let number = text[..text.len() - 1].trim();
        return Err(format!("{text} may mean {number}{letter}B or {number}{letter}iB: expected one of these"));
    }
    drive_size(text)
}

/// Reads a size, or a share of the footprint.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn size(text: &str) -> Result<Size, String> {
    match text.strip_suffix('%') {
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent.is_finite() => Ok(Size::OfFootprint(percent / 100.0)),
            _ => Err("expected a share of the footprint like 20%, or a size like 32GiB".to_owned()),
        },
        None => match (text.parse::<Bytes>(), without_unit(text)) {
            (_, Some(message)) => Err(message),
            (Ok(bytes), None) if bytes > Bytes::ZERO => Ok(Size::Bytes(bytes)),
            _ => Err("expected a size like 32GiB, or a share of the footprint like 20%".to_owned()),
        },
    }
}

/// Reads the key and the value of a setting.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected KEY=VALUE, like griffin.timeout=30s".to_owned()),
    }
}

/// Reads a drive for a role: its id, its profile, and its size if one is given.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn member(text: &str) -> Result<(String, DriveChoice), String> {
    let (id, drive) = text.split_once('=').ok_or("expected ID=PROFILE[:SIZE], like log=intel-x25-m-80gb:16GiB")?;
    if drive.is_empty() {
        return Err("expected a profile after the =, like log=intel-x25-m-80gb".to_owned());
    }
    let (profile, size) = match drive.rsplit_once(':') {
        // A path may have a colon. A text after the last colon that begins with a digit is a size.
        Some((profile, text)) if text.starts_with(|c: char| c.is_ascii_digit()) => (profile, Some(size(text)?)),
        _ => (drive, None),
    };
    Ok((id.to_owned(), DriveChoice { profile: Some(profile.to_owned()), size }))
}

/// Reads a switch.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_is_a_year_with_its_fraction() {
        assert_eq!(day("2026"), Ok(2026.0));
        assert_eq!(day("2026-07"), Ok(2026.5));
        assert!(day("2026-12-31").is_ok_and(|day| (2026.99..2027.0).contains(&day)));
        for text in ["", "2026-13", "2026-1-32", "-1", "2026-11-23-1", "soon"] {
            assert!(day(text).is_err(), "{text}");
        }
    }

    /// Regression: `--capacity 8T` was 8.8 TB, for which another drive is needed than for 8 TB.
    #[test]
    fn capacity_says_which_power_it_means() {
        assert_eq!(capacity("8T"), Err("8T may mean 8TB or 8TiB: expected one of these".to_owned()));
        assert_eq!(capacity("8000M"), Err("8000M may mean 8000MB or 8000MiB: expected one of these".to_owned()));
        assert_eq!(capacity(" 500 g").unwrap_err(), "500 g may mean 500GB or 500GiB: expected one of these");
        assert_eq!((capacity("8TB"), capacity("8TiB")), (Ok(Bytes(8_000_000_000_000)), Ok(Bytes(8 << 40))));
        assert!(capacity("T").is_err() && capacity("8").is_err());
    }

    /// Regression: `8` was refused because it has no unit, and `8XB` with the advice that a bare
    /// number is bytes.
    #[test]
    fn capacity_with_an_unknown_unit_is_told_to_have_a_unit() {
        let message = capacity("8XB").unwrap_err();
        assert_eq!(message, "expected a size with its unit, like 8TB, 8TiB or 32GiB");
        assert!(capacity("8").unwrap_err().contains("expected a unit"));
    }

    /// Regression: the message had the value twice, once with the name of a key of a profile.
    #[test]
    fn unknown_precondition_is_told_the_words() {
        assert_eq!(precondition("dirty"), Err("expected clean, sequential or random".to_owned()));
        assert_eq!(precondition("clean"), Ok(Precondition::Clean));
    }

    /// Regression: a bare number is in bytes, so `--ssd-size 32` was a drive of 32 bytes, and the
    /// message came from the layout: "the ssd drive of 0B is too small".
    #[test]
    fn small_bare_number_is_refused_as_a_size_of_a_drive() {
        for text in ["32", " 500 ", "1048575"] {
            let message = size(text).expect_err("no drive is that small");
            assert!(message.ends_with(&format!("expected a unit: {}GiB", text.trim())), "{message}");
            assert_eq!(drive_size(text), Err(message.clone()));
            assert_eq!(member(&format!("log=intel-x25-m-80gb:{}", text.trim())).map(|_| ()), Err(message));
        }
        for (text, bytes) in [("1048576", 1 << 20), ("34359738368", 32 << 30), ("512B", 512), ("32KiB", 32 << 10)] {
            assert_eq!(size(text), Ok(Size::Bytes(Bytes(bytes))), "{text}");
            assert_eq!(drive_size(text), Ok(Bytes(bytes)), "{text}");
        }
        assert_eq!(size("20%"), Ok(Size::OfFootprint(0.2)));
        assert!(size("0").is_err() && drive_size("0").is_err());
    }
}
