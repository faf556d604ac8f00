//! Units of time, size and address. A bare number never crosses an interface of Bimetal: its unit
//! is in its type.
//!
//! [`Nanoseconds`] is both an instant (since the start of a run) and a duration. [`Sectors`] is
//! both an address and a length, always of 512 bytes; [`Bytes`] is a size. Values of each unit are
//! read and printed as on the command line (`900s`, `15min`, `64KiB`, `32GiB`).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// Bytes in a sector: the unit in which drives are addressed and below which no drive tears a
/// write.
pub const SECTOR_BYTES: u64 = 512;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value: "never", "unlimited".
            pub const MAX: Self = Self(u64::MAX);

            /// Returns the bare number, for arithmetic that mixes units on purpose.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Returns the difference, or zero if `other` is larger.
            #[inline]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Returns the sum, or [`Self::MAX`] if it would overflow.
            #[inline]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                Self(values.map(|value| value.0).sum())
            }
        }
    };
}

unit! {
    /// An instant since the start of a run, or a duration.
    Nanoseconds
}
unit! {
    /// An address or a length in sectors of 512 bytes ([`SECTOR_BYTES`]).
    Sectors
}
unit! {
    /// A size in bytes.
    Bytes
}

/// Returns the earlier of two times that may be unset.
#[inline]
pub fn sooner(one: Option<Nanoseconds>, other: Option<Nanoseconds>) -> Option<Nanoseconds> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Nanoseconds {
    /// Returns `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A year of 365.25 days.
    pub const YEAR: Self = Self::from_seconds(31_557_600);

    /// Returns `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Returns `seconds` seconds.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    /// Returns the nearest whole nanosecond to `seconds`; zero for negative numbers and
    /// not-a-number.
    pub fn from_seconds_f64(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }

    /// Returns the nearest whole nanosecond to `millis` milliseconds; zero for negative numbers and
    /// not-a-number.
    pub fn from_millis_f64(millis: f64) -> Self {
        Self((millis * 1e6).round() as u64)
    }

    /// Returns the time in seconds.
    pub fn as_seconds_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time in years of 365.25 days.
    pub fn as_years_f64(self) -> f64 {
        self.as_seconds_f64() / Self::YEAR.as_seconds_f64()
    }

    /// Returns the time in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Sectors {
    /// Returns the sectors that `bytes` fill; a partial sector counts whole.
    pub const fn covering(bytes: Bytes) -> Self {
        Self(bytes.0.div_ceil(SECTOR_BYTES))
    }

    /// Returns the size in bytes.
    #[inline]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * SECTOR_BYTES)
    }
}

impl Bytes {
    /// Returns `kib` KiB (1024 bytes each).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// Returns `mib` MiB.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// Returns `gib` GiB.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    /// Returns the number of whole sectors in the size; a partial sector is dropped.
    pub const fn sectors(self) -> Sectors {
        Sectors(self.0 / SECTOR_BYTES)
    }
}

/// A text that is not a duration or size, with the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{value}' is not a {kind}: expected {expected}")]
pub struct ParseUnitError {
    value: String,
    kind: &'static str,
    expected: &'static str,
}

/// Splits `text` into its number and its unit, and scales by the factor of that unit.
fn parse_scaled(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim())?.1;
    if let Ok(whole) = number.parse::<u64>() {
        // Whole numbers stay exact beyond the 53 bits of a float.
        return whole.checked_mul(factor as u64).filter(|_| factor >= 1.0);
    }
    let scaled = number.parse::<f64>().ok()? * factor;
    (scaled >= 0.0 && scaled < u64::MAX as f64).then_some(scaled.round() as u64)
}

impl FromStr for Nanoseconds {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const UNITS: [(&str, f64); 8] = [
            ("ns", 1.0),
            ("us", 1e3),
            ("ms", 1e6),
            ("s", 1e9),
            ("min", 60e9),
            ("h", 3600e9),
            ("d", 86_400e9),
            ("y", Nanoseconds::YEAR.0 as f64),
        ];
        parse_scaled(text, &UNITS).map(Nanoseconds).ok_or_else(|| ParseUnitError {
            value: text.to_owned(),
            kind: "duration",
            expected: "a number and ns, us, ms, s, min, h, d or y, like 900s",
        })
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        // Capitals do not matter: no two units differ in them alone.
        const UNITS: [(&str, f64); 17] = [
            ("", 1.0),
            ("b", 1.0),
            ("kib", 1024.0),
            ("mib", 1_048_576.0),
            ("gib", 1_073_741_824.0),
            ("tib", 1_099_511_627_776.0),
            ("pib", 1_125_899_906_842_624.0),
            ("kb", 1e3),
            ("mb", 1e6),
            ("gb", 1e9),
            ("tb", 1e12),
            ("pb", 1e15),
            ("k", 1024.0),
            ("m", 1_048_576.0),
            ("g", 1_073_741_824.0),
            ("t", 1_099_511_627_776.0),
            ("p", 1_125_899_906_842_624.0),
        ];
        parse_scaled(&text.to_ascii_lowercase(), &UNITS).map(Bytes).ok_or_else(|| ParseUnitError {
            value: text.to_owned(),
            kind: "size",
            expected: "a number and KiB, MiB, GiB, TiB, PiB, KB, MB, GB, TB or PB, like 32GiB (a bare number is bytes)",
        })
    }
}

/// Formats a number with at most `digits` significant digits, without trailing zeros.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let decimals = (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Writes `value` in the largest unit that divides it exactly, so that the text reads back as the
/// same value.
fn write_exact(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let (factor, name) =
        units.iter().find(|(factor, _)| value.is_multiple_of(*factor) && value > 0).unwrap_or(&units[units.len() - 1]);
    write!(f, "{}{name}", value / factor)
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")])
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0, &[(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")])
    }
}

impl Bytes {
    /// Returns the size for people, rounded down to three digits: `55.9 MiB`.
    pub fn rounded_down(self) -> String {
        self.rounded(f64::floor)
    }

    /// Returns the size for people, rounded up to three digits, so that a size given as this text
    /// is large enough.
    pub fn rounded_up(self) -> String {
        self.rounded(f64::ceil)
    }

    fn rounded(self, round: fn(f64) -> f64) -> String {
        let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let Some((unit, name)) = units.into_iter().find(|(unit, _)| self.0 >= *unit) else {
            return format!("{} B", self.0);
        };
        let value = self.0 as f64 / unit as f64;
        let scale = [100.0, 10.0].into_iter().find(|scale| value * scale < 1000.0).unwrap_or(1.0);
        format!("{} {name}", significant(round(value * scale) / scale, 4))
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}

macro_rules! debug_with_unit {
    ($name:ident, $unit:literal) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{}", $unit), self.0)
            }
        }
    };
}
debug_with_unit!(Nanoseconds, "ns");
debug_with_unit!(Sectors, "sec");
debug_with_unit!(Bytes, "B");

/// A run of sectors: `len` sectors from `start` on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SectorRange {
    /// The first sector.
    pub start: Sectors,
    /// Number of sectors.
    pub len: Sectors,
}

impl SectorRange {
    /// Returns `len` sectors from `start` on.
    #[inline]
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start: Sectors(start), len: Sectors(len) }
    }

    /// Returns the first sector after the range.
    #[inline]
    pub const fn end(self) -> Sectors {
        Sectors(self.start.0 + self.len.0)
    }

    /// Returns the first sector after the range, or `None` if that number does not exist; for
    /// ranges that come from outside the program.
    pub const fn checked_end(self) -> Option<Sectors> {
        match self.start.0.checked_add(self.len.0) {
            Some(end) => Some(Sectors(end)),
            None => None,
        }
    }

    /// Returns true if the range has no sector.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len.0 == 0
    }

    /// Returns true if the ranges share a sector.
    #[inline]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end().0 && other.start.0 < self.end().0
    }
}

/// Returns a number with its noun, in the plural unless the number is 1.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = match noun {
        _ if count == 1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}

/// Returns a number, its noun and the verb, for a sentence.
pub fn counted_are(count: u64, noun: &str) -> String {
    format!("{} {}", counted(count, noun), if count == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a message printed "57249KiB", and "at least 2256441KiB".
    #[test]
    fn rounded_size_has_three_digits_in_its_own_direction() {
        let (small, large) = (Bytes(57_249 << 10), Bytes(2_256_441 << 10));
        assert_eq!((small.rounded_down(), small.rounded_up()), ("55.9 MiB".to_owned(), "56 MiB".to_owned()));
        assert_eq!((large.rounded_down(), large.rounded_up()), ("2.15 GiB".to_owned(), "2.16 GiB".to_owned()));
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1 << 10, "1 KiB"), (64 << 20, "64 MiB"), (1 << 40, "1 TiB")]
        {
            assert_eq!((Bytes(bytes).rounded_down(), Bytes(bytes).rounded_up()), (text.to_owned(), text.to_owned()));
        }
        assert_eq!(Bytes((1000 << 20) + 1).rounded_up(), "1001 MiB");
    }

    #[test]
    fn durations_and_sizes_read_as_the_command_line_writes_them() {
        assert_eq!("900s".parse(), Ok(Nanoseconds::from_seconds(900)));
        assert_eq!("15min".parse(), Ok(Nanoseconds::from_seconds(900)));
        assert_eq!("0.5ms".parse(), Ok(Nanoseconds::from_micros(500)));
        assert_eq!("32GiB".parse(), Ok(Bytes::from_gib(32)));
        assert_eq!("1.5KiB".parse(), Ok(Bytes(1536)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        assert_eq!("18TB".parse(), Ok(Bytes(18_000_000_000_000)));
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        for text in ["", "s", "-3s", "5 parsecs", "1e99s", "99999999999999999999s"] {
            assert!(text.parse::<Nanoseconds>().is_err(), "{text}");
        }
        for text in ["GiB", "-1", "3XB", "99999999999TiB"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains("like 32GiB"), "{error}");
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for value in [0, 1, 1000, 1_000_000, 900_000_000_000, 1_234_567] {
            assert_eq!(Nanoseconds(value).to_string().parse(), Ok(Nanoseconds(value)));
            assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
        }
    }
}
