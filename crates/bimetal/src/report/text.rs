//! Quantities in words, for readers.

use super::columns::{half_in_words, significant};

/// Returns a size in a suitable unit.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let number = if unit == 0 { value.to_string() } else { significant(scaled) };
    format!("{number} {}", UNITS[unit])
}

/// Returns a count with its thousands set apart.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space at which a line does not break.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a response time in milliseconds, or in seconds from 10,000 ms on.
pub(crate) fn milliseconds(value: f64) -> String {
    if value >= 10_000.0 { format!("{} s", significant(value / 1e3)) } else { format!("{} ms", significant(value)) }
}

/// Returns a response time with half its 95 % interval, if the interval is known.
pub(crate) fn milliseconds_with_half(value: f64, half: Option<f64>) -> String {
    let text = milliseconds(value);
    match (half, text.split_once(' ')) {
        (Some(half), Some((number, unit))) => {
            let half = if unit == "s" { half / 1e3 } else { half };
            format!("{number} ± {} {unit}", half_in_words(half, number))
        }
        _ => text,
    }
}

/// Returns a span of time in a suitable unit.
pub(crate) fn span(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        _ if seconds < 120.0 => (1.0, "s"),
        _ if seconds < 7200.0 => (60.0, "min"),
        _ if seconds < 172_800.0 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    };
    format!("{} {unit}", significant(seconds / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_take_the_unit_that_suits_them() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes((1 << 30) - 1), "1.00 GiB");
        assert_eq!(count(1_141_869), "1\u{202f}141\u{202f}869");
        assert_eq!(count(12), "12");
        assert_eq!(milliseconds(0.1234), "0.123 ms");
        assert_eq!(milliseconds(123_456.0), "123 s");
        assert_eq!(milliseconds_with_half(1369.0, Some(45.8)), "1369 ± 46 ms");
        assert_eq!(milliseconds_with_half(123_456.0, Some(2345.0)), "123 ± 2 s");
        assert_eq!(milliseconds_with_half(3.62, None), "3.62 ms");
        assert_eq!(span(90.0), "90.0 s");
        assert_eq!(span(604_800.0), "7.00 days");
    }
}
