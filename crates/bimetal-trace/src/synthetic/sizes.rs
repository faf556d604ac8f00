//! Sizes of requests: `4KiB`, or a mix like `4KiB:0.7,64KiB:0.3`.

use std::fmt;
use std::str::FromStr;

use bimetal_core::units::{Bytes, SECTOR_BYTES, Sectors};
use rand_pcg::Pcg64;

use super::random::unit;
use super::spec::SpecError;

/// Sizes, and the share of the requests with each size.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeMix {
    /// Pairs of size and share; the shares add up to 1.
    parts: Vec<(Bytes, f64)>,
}

impl SizeMix {
    /// Returns a mix in which every request has this size.
    pub(super) fn one(size: Bytes) -> Self {
        Self { parts: vec![(size, 1.0)] }
    }

    /// Returns the largest size.
    pub fn largest(&self) -> Bytes {
        self.parts.iter().map(|(size, _)| *size).max().unwrap_or(Bytes::ZERO)
    }
}

impl FromStr for SizeMix {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        const EXPECTED: &str = "a size, or sizes with their shares, like 4KiB or 4KiB:0.7,64KiB:0.3";
        let malformed = || SpecError::new("size", text, EXPECTED);
        let mut parts = Vec::new();
        for part in text.split(',') {
            let (size, share) = match part.split_once(':') {
                Some((size, share)) => (size, share.trim().parse::<f64>().map_err(|_| malformed())?),
                None if !text.contains(',') => (part, 1.0),
                None => return Err(malformed()),
            };
            let size: Bytes = size.parse().map_err(|_| malformed())?;
            if size.get() == 0 || !size.get().is_multiple_of(SECTOR_BYTES) {
                return Err(SpecError::new("size", text, format!("sizes of whole sectors of 512 bytes, not {size}")));
            }
            if !(0.0..=1.0).contains(&share) {
                return Err(SpecError::new("size", text, format!("shares from 0 to 1, not {share}")));
            }
            parts.push((size, share));
        }
        let sum: f64 = parts.iter().map(|(_, share)| share).sum();
        if (sum - 1.0).abs() > 1e-6 {
            let rounded = (sum * 1e6).round() / 1e6;
            return Err(SpecError::new("size", text, format!("shares that add up to 1, not {rounded}")));
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for SizeMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(size, _)] = self.parts[..] {
            return write!(f, "{size}");
        }
        for (index, (size, share)) in self.parts.iter().enumerate() {
            write!(f, "{}{size}:{share}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Source of sizes drawn from a mix.
pub(super) struct SizeSource {
    /// Sizes, each with the sum of the shares up to and including the share of this size.
    cumulated: Vec<(f64, Sectors)>,
    last: Sectors,
}

impl SizeSource {
    pub(super) fn new(mix: &SizeMix) -> Self {
        let parts: Vec<_> = mix.parts.iter().filter(|(_, share)| *share > 0.0).collect();
        let mut sum = 0.0;
        let mut cumulated = Vec::with_capacity(parts.len());
        for (size, share) in &parts {
            sum += share;
            cumulated.push((sum, size.sectors()));
        }
        let (_, last) = cumulated.pop().expect("shares add up to 1, so one is above 0");
        Self { cumulated, last }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Pcg64) -> Sectors {
        if self.cumulated.is_empty() {
            return self.last;
        }
        let at = unit(random);
        self.cumulated.iter().find(|(sum, _)| at < *sum).map_or(self.last, |(_, size)| *size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_read_and_print_as_the_command_line_writes_them() {
        for text in ["4KiB", "512B", "4KiB:0.7,64KiB:0.3"] {
            assert_eq!(text.parse::<SizeMix>().unwrap().to_string(), text);
        }
        assert_eq!("4096".parse(), Ok(SizeMix::one(Bytes::from_kib(4))));
        assert_eq!("4KiB:0.7,64KiB:0.3".parse::<SizeMix>().unwrap().largest(), Bytes::from_kib(64));
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        for (text, expected) in [
            ("", "a size, or sizes with their shares, like 4KiB or 4KiB:0.7,64KiB:0.3"),
            ("4KiB,8KiB", "a size, or sizes with their shares, like 4KiB or 4KiB:0.7,64KiB:0.3"),
            ("4KiB:x", "a size, or sizes with their shares, like 4KiB or 4KiB:0.7,64KiB:0.3"),
            ("0", "sizes of whole sectors of 512 bytes, not 0B"),
            ("100B", "sizes of whole sectors of 512 bytes, not 100B"),
            ("4KiB:1.5,8KiB:-0.5", "shares from 0 to 1, not 1.5"),
            ("4KiB:0.1,8KiB:0.2", "shares that add up to 1, not 0.3"),
            ("4KiB:NaN", "shares from 0 to 1, not NaN"),
        ] {
            let error = text.parse::<SizeMix>().unwrap_err();
            assert_eq!(error, SpecError::new("size", text, expected));
        }
    }
}
