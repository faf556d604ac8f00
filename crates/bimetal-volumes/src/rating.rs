//! The rating of a flash drive by its maker: the bytes that may be written to it, as terabytes
//! written or as drive writes a day.

use bimetal_core::units::{Bytes, Nanoseconds};

/// Years for which drive writes a day hold, if the rating names no number of years.
const YEARS: f64 = 5.0;

/// Days of a year, as makers convert drive writes a day into terabytes written.
const DAYS_A_YEAR: f64 = 365.0;

/// Text that describes the form of a rating.
const EXPECTED: &str = "expected terabytes written like 150TB, or drive writes a day like 1dwpd or 0.3dwpd/3y (5y \
                        without years)";

/// Returns the bytes that may be written to a drive of `size` by a rating: `150TB`, `1dwpd`,
/// `0.3dwpd/3y`.
///
/// # Errors
/// The text is not a rating; the error says what was expected.
pub fn rated_writes(text: &str, size: Bytes) -> Result<Bytes, String> {
    let wrong = || format!("'{text}': {EXPECTED}");
    let lower = text.trim().to_lowercase();
    let Some((writes, years)) = lower.split_once("dwpd") else {
        return text.trim().parse().map_err(|_| wrong());
    };
    let writes: f64 = writes.trim().parse().map_err(|_| wrong())?;
    let years = match years.trim() {
        "" => YEARS,
        years => {
            let span = years.strip_prefix('/').and_then(|years| years.trim().parse::<Nanoseconds>().ok());
            span.ok_or_else(wrong)?.as_years_f64()
        }
    };
    let bytes = writes * years * DAYS_A_YEAR * size.0 as f64;
    // 2^63 bytes are more than any drive takes.
    if bytes > 0.0 && bytes < 9e18 { Ok(Bytes(bytes as u64)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Bytes = Bytes(500_000_000_000);

    #[test]
    fn rating_is_terabytes_or_drive_writes_a_day() {
        for (text, bytes) in [
            ("150TB", 150_000_000_000_000),
            ("1dwpd", 912_500_000_000_000),
            ("1 DWPD", 912_500_000_000_000),
            ("0.5dwpd/5y", 456_250_000_000_000),
        ] {
            assert_eq!(rated_writes(text, SIZE), Ok(Bytes(bytes)), "{text}");
        }
        let three = rated_writes("1dwpd/3y", SIZE).unwrap().0 as f64;
        assert!((three / 547_500_000_000_000.0 - 1.0).abs() < 1e-9, "{three}");
    }

    #[test]
    fn what_is_no_rating_is_refused_with_examples() {
        for text in ["much", "dwpd", "-1dwpd", "0dwpd", "1dwpd/", "1dwpd/soon", "1dwpd5y", "nandwpd", "1e30dwpd", ""] {
            let error = rated_writes(text, SIZE).unwrap_err();
            assert!(error.starts_with(&format!("'{text}': expected terabytes written like 150TB")), "{error}");
        }
    }
}
