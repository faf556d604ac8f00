//! Fields of a line of text, parsed as bytes: without copies, and without allocations unless a
//! field is refused.

use crate::entry::Bad;

/// Line whose fields are taken from left to right.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    separator: Separator,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Comma,
    Blanks,
}

impl<'a> Fields<'a> {
    /// Splits `line` at single commas; blanks around a field do not belong to it.
    #[inline]
    pub(crate) fn of_csv(line: &'a [u8]) -> Self {
        Self { rest: line, separator: Separator::Comma, ended: false }
    }

    /// Splits `line` at runs of blanks and tabs.
    #[inline]
    pub(crate) fn of_words(line: &'a [u8]) -> Self {
        Self { rest: line, separator: Separator::Blanks, ended: false }
    }

    /// Takes the next field; `None` at the end of the line.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<&'a [u8]> {
        match self.separator {
            Separator::Comma => {
                if self.ended {
                    return None;
                }
                let end = self.rest.iter().position(|&byte| byte == b',');
                let field = &self.rest[..end.unwrap_or(self.rest.len())];
                match end {
                    Some(end) => self.rest = &self.rest[end + 1..],
                    None => self.ended = true,
                }
                Some(field.trim_ascii())
            }
            Separator::Blanks => {
                let rest = self.rest.trim_ascii_start();
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                let (field, rest) = rest.split_at(end);
                self.rest = rest;
                (!field.is_empty()).then_some(field)
            }
        }
    }

    /// Returns the part of the line that was not taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        if self.ended { &[] } else { self.rest }
    }

    /// Takes the next field, which must exist.
    #[inline]
    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a [u8], Box<Bad>> {
        self.take().ok_or_else(|| Bad::form(field, b"", "a value (the line ends before it)"))
    }

    /// Takes the next field as a whole number.
    #[inline]
    pub(crate) fn number(&mut self, field: &'static str) -> Result<u64, Box<Bad>> {
        number(field, self.text(field)?)
    }

    /// Takes the next field as a device number.
    #[inline]
    pub(crate) fn device(&mut self, field: &'static str) -> Result<u32, Box<Bad>> {
        let value = self.number(field)?;
        u32::try_from(value).map_err(|_| Bad::value(field, value, "a number below 2^32"))
    }

    /// Takes the next field, a decimal number of a unit of 10^`digits` nanoseconds, and returns it
    /// in nanoseconds.
    #[inline]
    pub(crate) fn time(&mut self, field: &'static str, digits: u32) -> Result<u64, Box<Bad>> {
        time(field, self.text(field)?, digits)
    }

    /// Checks that no field is left.
    #[inline]
    pub(crate) fn end(&mut self) -> Result<(), Box<Bad>> {
        match self.take() {
            None => Ok(()),
            Some(more) => Err(Bad::form("line", more, "no further field")),
        }
    }
}

/// Parses `text` as a whole number.
///
/// # Errors
/// Text with other characters than digits has the wrong form. A number of more than 64 bits, or a
/// negative number, is a bad value.
#[inline]
pub(crate) fn number(field: &'static str, text: &[u8]) -> Result<u64, Box<Bad>> {
    // 19 digits always fit into 64 bits.
    if (1..=19).contains(&text.len()) {
        let mut value = 0u64;
        let mut odd = 0u8;
        for &byte in text {
            let digit = byte.wrapping_sub(b'0');
            odd |= u8::from(digit > 9);
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        }
        if odd == 0 {
            return Ok(value);
        }
    }
    long_number(field, text)
}

#[cold]
fn long_number(field: &'static str, text: &[u8]) -> Result<u64, Box<Bad>> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Bad::form(field, text, "a whole number"));
    }
    let shown = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
    if digits.len() < text.len() {
        return Err(Bad::value(field, shown, "a number that is not negative"));
    }
    let value = digits.iter().try_fold(0u64, |value, &byte| value.checked_mul(10)?.checked_add((byte - b'0').into()));
    value.ok_or_else(|| Bad::value(field, shown, "a number below 2^64"))
}

/// Parses `text`, a decimal number of a unit of 10^`digits` nanoseconds, into nanoseconds. Digits
/// beyond nanoseconds are dropped.
///
/// # Errors
/// Text that is not a decimal number has the wrong form. A negative number, or a number beyond 64
/// bits, is a bad value.
#[inline]
pub(crate) fn time(field: &'static str, text: &[u8], digits: u32) -> Result<u64, Box<Bad>> {
    let mut value = 0u64;
    let mut behind_point: Option<u32> = None;
    if text.len() > 19 || text.is_empty() || !text[0].is_ascii_digit() {
        return odd_time(field, text, digits);
    }
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            match &mut behind_point {
                Some(places) if *places == digits => continue,
                Some(places) => *places += 1,
                None => {}
            }
            value = value * 10 + u64::from(digit);
        } else if byte == b'.' && behind_point.is_none() {
            behind_point = Some(0);
        } else {
            return odd_time(field, text, digits);
        }
    }
    match value.checked_mul(POWERS[(digits - behind_point.unwrap_or(0)) as usize]) {
        Some(time) => Ok(time),
        None => odd_time(field, text, digits),
    }
}

const POWERS: [u64; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Parses times that are long, signed, written with an exponent or too large, and refuses texts
/// that are not times.
#[cold]
fn odd_time(field: &'static str, text: &[u8], digits: u32) -> Result<u64, Box<Bad>> {
    let number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let parsed = std::str::from_utf8(text).ok().filter(|_| text.iter().all(number));
    let Some(float) = parsed.and_then(|text| text.parse::<f64>().ok()) else {
        return Err(Bad::form(field, text, "a decimal number"));
    };
    let shown = || String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
    if float < 0.0 || (float == 0.0 && text[0] == b'-') {
        return Err(Bad::value(field, shown(), "a time that is not negative"));
    }
    // Plain decimals stay exact beyond the 53 bits of a float.
    if text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
        let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
        let fraction = text.get(point + 1..).unwrap_or(&[]);
        let places = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(digits as usize);
        let exact = text[..point]
            .iter()
            .copied()
            .chain(places)
            .try_fold(0u64, |value, byte| value.checked_mul(10)?.checked_add((byte - b'0').into()));
        return exact.ok_or_else(|| Bad::value(field, shown(), "a time below 2^64 ns (584 years)"));
    }
    let scaled = (float * POWERS[digits as usize] as f64).round();
    if scaled < u64::MAX as f64 {
        Ok(scaled as u64)
    } else {
        Err(Bad::value(field, shown(), "a time below 2^64 ns (584 years)"))
    }
}

/// Returns the nanoseconds of `value` units, each of which has `factor` nanoseconds.
///
/// # Errors
/// Refuses a result of more than 64 bits.
#[inline]
pub(crate) fn scaled(field: &'static str, value: u64, factor: u64) -> Result<u64, Box<Bad>> {
    value.checked_mul(factor).ok_or_else(|| Bad::value(field, value, "a time below 2^64 ns (584 years)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_to_the_last_of_64_bits() {
        assert_eq!(number("n", b"0").unwrap(), 0);
        assert_eq!(number("n", b"18446744073709551615").unwrap(), u64::MAX);
        assert!(number("n", b"18446744073709551616").unwrap_err().formed);
        assert!(number("n", b"-1").unwrap_err().formed);
        for text in ["", "-", "x", "1x", "1.5", "+1", "9999999999999999999x"] {
            assert!(!number("n", text.as_bytes()).unwrap_err().formed, "{text}");
        }
    }

    #[test]
    fn decimal_times_are_exact() {
        assert_eq!(time("t", b"512.250417", 9).unwrap(), 512_250_417_000);
        assert_eq!(time("t", b"1234.567890123", 9).unwrap(), 1_234_567_890_123);
        assert_eq!(time("t", b"1900000000.123456789", 9).unwrap(), 1_900_000_000_123_456_789);
        assert_eq!(time("t", b"1234.567", 6).unwrap(), 1_234_567_000);
        assert_eq!(time("t", b"7", 0).unwrap(), 7);
        assert_eq!(time("t", b"0.1234567891239", 9).unwrap(), 123_456_789);
        assert_eq!(time("t", b"8.25e-05", 9).unwrap(), 82_500);
        assert_eq!(time("t", b"18446744073709551615", 0).unwrap(), u64::MAX);
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for text in ["-1", "-0.5", "1e300", "18446744073709551616", "99999999999999999999.5"] {
            assert!(time("t", text.as_bytes(), 9).unwrap_err().formed, "{text}");
        }
        for text in ["", ".", "1.2.3", "nan", "inf", "abc", "1,5", "--1"] {
            assert!(!time("t", text.as_bytes(), 9).unwrap_err().formed, "{text}");
        }
    }

    #[test]
    fn fields_are_taken_from_the_left() {
        let mut fields = Fields::of_csv(b"a, b,,d");
        assert_eq!(fields.take(), Some(&b"a"[..]));
        assert_eq!(fields.take(), Some(&b"b"[..]));
        assert_eq!(fields.take(), Some(&b""[..]));
        assert_eq!(fields.rest(), b"d");
        assert_eq!(fields.take(), Some(&b"d"[..]));
        assert!(fields.end().is_ok());
        let mut fields = Fields::of_words(b"  a \t b ");
        assert_eq!(fields.take(), Some(&b"a"[..]));
        assert_eq!(fields.take(), Some(&b"b"[..]));
        assert_eq!(fields.take(), None);
    }
}
