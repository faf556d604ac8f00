//! Numbers for people: digits, shares, prices, sizes, times and years.
//!
//! A table of figures has three digits ([`three_digits`]), a sentence has up to four without
//! trailing zeros ([`short`]).

use bimetal_core::units::significant;

/// Formats a number with at most four significant digits, without trailing zeros.
pub fn short(value: f64) -> String {
    significant(value, 4)
}

/// Formats a price: with cents only below 10 dollars and only if they are not 0.
pub fn price(usd: f64) -> String {
    let cents = (usd * 100.0).round() / 100.0;
    if cents < 10.0 && cents.fract() != 0.0 { format!("${cents:.2}") } else { format!("${usd:.0}") }
}

/// Formats years: rounded to a tenth, or `over 100`.
pub fn short_years(years: f64) -> String {
    if years >= 100.0 { "over 100".to_owned() } else { short((years * 10.0).round() / 10.0) }
}

/// Largest difference, as a share, between the size of a drive and the size as which it is sold:
/// 500.108 GB are sold as 500 GB.
const NOMINAL_SHARE: f64 = 0.001;

/// Formats a size as drives are sold: in powers of ten, with three digits if these are near.
pub fn decimal(bytes: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB")];
    let (factor, unit) = UNITS.into_iter().find(|(factor, _)| bytes as f64 >= *factor).unwrap_or((1.0, "B"));
    let size = bytes as f64 / factor;
    let nominal: f64 = significant(size, 3).parse().unwrap_or(size);
    let size = if (size - nominal).abs() <= NOMINAL_SHARE * size { nominal } else { size };
    format!("{} {unit}", short(size))
}

/// Returns half an interval with one significant digit below 10, because it is an estimate from a
/// few runs. The half-width has no more decimals than the figure to which it belongs.
pub fn half_interval(half: f64, figure: &str) -> String {
    if !figure.ends_with(|last: char| last.is_ascii_digit()) || figure.contains('e') {
        return three_digits(half);
    }
    let decimals_max = figure.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    let decimals = if half > 0.0 { -half.log10().floor() as i32 } else { decimals_max };
    format!("{half:.*}", decimals.clamp(0, decimals_max) as usize)
}

/// Returns `value` with three significant digits.
pub fn three_digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size < 0.0005 => format!("{value:.1e}"),
        _ if size < 0.09995 => format!("{value:.4}"),
        _ if size < 0.9995 => format!("{value:.3}"),
        _ if size < 9.995 => format!("{value:.2}"),
        _ if size < 99.95 => format!("{value:.1}"),
        _ if size < 99_999.5 => format!("{value:.0}"),
        _ if size < 999_500.0 => format!("{:.0}k", value / 1e3),
        _ if size < 99_950_000.0 => format!("{:.1}M", value / 1e6),
        _ => format!("{value:.1e}"),
    }
}

/// Returns a fraction as a percentage without the percent sign. A fraction below 1 is never shown
/// as 100.
pub fn percent(fraction: f64) -> String {
    let below = if fraction < 1.0 { 99.9 } else { f64::INFINITY };
    format!("{:.1}", (fraction * 100.0).min(below))
}

/// Returns a lifetime given in years, in a suitable unit. From a hundred years on the number has no
/// meaning and is not shown, as in [`short_years`].
pub fn lifetime(years: f64) -> String {
    const DAYS: f64 = 365.25;
    match years {
        _ if years >= 100.0 => ">100 y".to_owned(),
        _ if years * 12.0 >= 2.0 => format!("{} y", three_digits(years)),
        _ if years * DAYS >= 2.0 => format!("{} d", three_digits(years * DAYS)),
        _ => format!("{} h", three_digits(years * DAYS * 24.0)),
    }
}

/// Returns an amount in whole dollars from a hundred on, with cents below.
pub fn dollars(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Returns a size in a suitable unit.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let number = if unit == 0 { value.to_string() } else { three_digits(scaled) };
    format!("{number} {}", UNITS[unit])
}

/// Returns a count with its thousands set apart.
pub fn count(value: u64) -> String {
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
pub fn milliseconds(value: f64) -> String {
    if value >= 10_000.0 { format!("{} s", three_digits(value / 1e3)) } else { format!("{} ms", three_digits(value)) }
}

/// Returns a response time with half its 95 % interval, if the interval is known. An interval that
/// reaches down to 0 is given by its end: `0.110 ms (up to 8.11 ms)`.
pub fn milliseconds_with_half(value: f64, half: Option<f64>) -> String {
    let text = milliseconds(value);
    match (half, text.split_once(' ')) {
        (Some(half), _) if half >= value && half > 0.0 => format!("{text} (up to {})", milliseconds(value + half)),
        (Some(half), Some((number, unit))) => {
            let half = if unit == "s" { half / 1e3 } else { half };
            format!("{number} ± {} {unit}", half_interval(half, number))
        }
        _ => text,
    }
}

/// Returns a span of time in a suitable unit.
pub fn span(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        _ if seconds < 120.0 => (1.0, "s"),
        _ if seconds < 7200.0 => (60.0, "min"),
        _ if seconds < 172_800.0 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    };
    format!("{} {unit}", three_digits(seconds / scale))
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
        // `0.110 ± 8 ms` told of a response time below 0.
        assert_eq!(milliseconds_with_half(0.11, Some(8.0)), "0.110 ms (up to 8.11 ms)");
        assert_eq!(milliseconds_with_half(0.0, Some(0.0)), "0 ± 0 ms");
        assert_eq!(span(90.0), "90.0 s");
        assert_eq!(span(604_800.0), "7.00 days");
    }

    #[test]
    fn figures_keep_three_digits() {
        let texts: Vec<_> = [0.0, 0.000_12, 0.0123, 0.999_6, 1.234, 12.34, 123.4, 12_345.0, 123_456.0, 1.25e6, 1e12]
            .map(three_digits)
            .into();
        assert_eq!(texts, ["0", "1.2e-4", "0.0123", "1.00", "1.23", "12.3", "123", "12345", "123k", "1.2M", "1.0e12"]);
        assert_eq!(percent(0.3254), "32.5");
        assert_eq!([0.9994, 0.99996, 1.0, 1.5].map(percent), ["99.9", "99.9", "100.0", "150.0"]);
        let lives: Vec<_> = [2e4, 14.23, 0.5, 0.0134, 0.001].map(lifetime).into();
        assert_eq!(lives, [">100 y", "14.2 y", "0.500 y", "4.89 d", "8.77 h"]);
        assert_eq!((dollars(52.5), dollars(1234.5)), ("52.50".to_owned(), "1234".to_owned()));
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(3.1, "3.1"), (212.0, "212"), (0.012_341, "0.01234"), (9.4321, "9.432"), (0.0, "0")] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn price_has_cents_below_ten_dollars_alone() {
        let prices = [0.5, 3.0, 9.999, 12.4].map(price);
        assert_eq!(prices, ["$0.50", "$3", "$10", "$12"]);
        assert_eq!([decimal(960_000_000_000), decimal(1_500_000), decimal(12)], ["960 GB", "1.5 MB", "12 B"]);
        let sold = [500_107_862_016, 1_000_204_886_016, 8_001_563_222_016, 34_359_738_368].map(decimal);
        assert_eq!(sold, ["500 GB", "1 TB", "8 TB", "34.36 GB"]);
        assert_eq!([short_years(0.94), short_years(3.06), short_years(100.0)], ["0.9", "3.1", "over 100"]);
    }
}
