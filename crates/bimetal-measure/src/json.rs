//! Form of a document in JSON, and the digits of its numbers.
//!
//! Figures keep [`FIGURE_DIGITS`] significant digits, and points of a curve [`CURVE_DIGITS`]. The
//! digits are more precise than any model, and hide differences in the last bit of a logarithm
//! between machines. A number that is not finite is null.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

/// Number of significant digits of a figure in JSON.
pub const FIGURE_DIGITS: usize = 9;

/// Number of significant digits of an element of an array (a point of a curve) in JSON.
pub const CURVE_DIGITS: usize = 6;

/// Returns a document as JSON on one line, for programs.
///
/// # Panics
/// If the document has keys that are not strings, the function panics.
pub fn to_compact_json(document: &impl Serialize) -> String {
    to_json_with(document, RoundingFormatter::new(serde_json::ser::CompactFormatter))
}

/// Returns a document as JSON: objects indented, arrays on one line, floats rounded, and a line end
/// at the end.
///
/// # Panics
/// If the document has keys that are not strings, the function panics.
pub fn to_json(document: &impl Serialize) -> String {
    let mut text = to_json_with(document, RoundingFormatter::new(PrettyFormatter::new()));
    text.push('\n');
    text
}

fn to_json_with<F: Formatter>(document: &impl Serialize, formatter: RoundingFormatter<F>) -> String {
    let mut bytes = Vec::new();
    document
        .serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))
        .expect("a document has string keys and is written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Returns `value` with `digits` significant digits; a negative zero loses its sign.
pub fn round_to_digits(value: f64, digits: usize) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { 0.0 } else { value };
    }
    // Decimal formatting rounds correctly on every machine; scaling by a power of ten does not.
    format!("{value:.*e}", digits - 1).parse().expect("a formatted float reads back")
}

/// Formatter that rounds floats, and keeps arrays on one line however `inner` formats.
struct RoundingFormatter<F> {
    inner: F,
    /// Open containers, with `true` for an array.
    open: Vec<bool>,
}

impl<F> RoundingFormatter<F> {
    fn new(inner: F) -> Self {
        Self { inner, open: Vec::new() }
    }
}

impl<F: Formatter> Formatter for RoundingFormatter<F> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let in_array = self.open.last().copied().unwrap_or(false);
        let rounded = round_to_digits(value, if in_array { CURVE_DIGITS } else { FIGURE_DIGITS });
        self.inner.write_f64(writer, rounded)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.push(true);
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.pop();
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.push(false);
        self.inner.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.pop();
        self.inner.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.inner.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_the_digits_asked_for() {
        assert_eq!(round_to_digits(123.456, 4), 123.5);
        assert_eq!(round_to_digits(-0.000_123_456, 3), -0.000_123);
        assert_eq!(round_to_digits(9.999_96, 5), 10.0);
        assert_eq!(round_to_digits(f64::MAX, 17), f64::MAX);
        assert!(round_to_digits(-0.0, 3).is_sign_positive());
    }
}
