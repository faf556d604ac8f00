//! Specification of a phase of a synthetic workload, under the names of the command line's flags.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use bimetal_core::units::Bytes;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::interarrival::Interarrival;
use super::sizes::SizeMix;
use super::skew::Skew;

/// Part of a specification that is impossible: its key, its value, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// Number of the phase, from 1, if the workload has several.
    pub phase: Option<usize>,
    /// Key, as the command line calls it.
    pub key: &'static str,
    /// Value of the key.
    pub value: String,
    /// Value that was expected instead.
    pub expected: String,
}

impl SpecError {
    pub(super) fn new(key: &'static str, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Self { phase: None, key, value: value.to_string(), expected: expected.into() }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(phase) = self.phase {
            write!(f, "phase {phase}: ")?;
        }
        write!(f, "{} '{}': expected {}", self.key, self.value, self.expected)
    }
}

/// Phase of a synthetic workload. [`WorkloadSpec::new`] gives the defaults. In TOML, a `[[phase]]`
/// has the same keys; only `requests` and `footprint` are required.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Number of requests.
    pub requests: u64,
    /// End of the addresses used, which begin at 0; a multiple of 4 KiB.
    #[serde(deserialize_with = "text_or_number")]
    pub footprint: Bytes,
    /// Probability that a request is a read and not a write.
    #[serde(alias = "read-fraction", default = "default_read_fraction")]
    pub read_fraction: f64,
    /// Sizes of requests.
    #[serde(default = "default_size")]
    pub size: SizeMix,
    /// Probability that a request starts where the previous request of its direction ended.
    #[serde(default)]
    pub sequential: f64,
    /// Time between requests.
    #[serde(default = "default_interarrival")]
    pub interarrival: Interarrival,
    /// Popularity of blocks among the requests that are not sequential.
    #[serde(default = "default_skew")]
    pub skew: Skew,
    /// Seed of this phase alone. Without a seed of its own, the phase's seed follows from the
    /// workload's seed and the phase's index.
    #[serde(default)]
    pub seed: Option<u64>,
}

fn default_read_fraction() -> f64 {
    0.5
}

fn default_size() -> SizeMix {
    SizeMix::one(Bytes::from_kib(4))
}

fn default_interarrival() -> Interarrival {
    Interarrival::Constant(bimetal_core::units::Nanoseconds::from_millis(1))
}

fn default_skew() -> Skew {
    Skew::Uniform
}

impl WorkloadSpec {
    /// Specifies `requests` requests over `footprint`: half of them reads, of 4 KiB each, none
    /// sequential, a millisecond apart, all blocks equally popular.
    pub fn new(requests: u64, footprint: Bytes) -> Self {
        Self {
            requests,
            footprint,
            read_fraction: default_read_fraction(),
            size: default_size(),
            sequential: 0.0,
            interarrival: default_interarrival(),
            skew: default_skew(),
            seed: None,
        }
    }

    /// Checks that the parts fit together; the parser has checked each part alone.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        if self.requests == 0 {
            return Err(SpecError::new("requests", 0, "at least 1"));
        }
        for (key, fraction) in [("read-fraction", self.read_fraction), ("sequential", self.sequential)] {
            if !(0.0..=1.0).contains(&fraction) {
                return Err(SpecError::new(key, fraction, "a fraction from 0 to 1"));
            }
        }
        if !self.footprint.get().is_multiple_of(4096) {
            return Err(SpecError::new("footprint", self.footprint, "a multiple of 4KiB"));
        }
        let largest = self.size.largest();
        if self.footprint < largest {
            let expected = format!("at least the largest request, {largest}");
            return Err(SpecError::new("footprint", self.footprint, expected));
        }
        let span_ns = self.requests as f64 * self.interarrival.mean_ns();
        if span_ns > (u64::MAX / 4) as f64 {
            let expected = format!("a time for which {} requests last less than 146 years", self.requests);
            return Err(SpecError::new("interarrival", self.interarrival, expected));
        }
        Ok(())
    }
}

/// Returns the part of `text` after `name:`.
pub(super) fn arguments<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.strip_prefix(':')
}

/// Deserialises a value in the form of the command line, or a bare number.
fn text_or_number<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    struct TextOrNumber<T>(PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextOrNumber<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text as the command line takes it, or a number of bytes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }

    deserializer.deserialize_any(TextOrNumber(PhantomData))
}

/// Implements `Deserialize` for each mini-language, from the text that its `FromStr` takes.
macro_rules! deserialize_from_text {
    ($($name:ty),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text_or_number(deserializer)
            }
        }
    )*};
}
deserialize_from_text!(SizeMix, Interarrival, Skew);

#[cfg(test)]
mod tests {
    use bimetal_core::units::Nanoseconds;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Config {
        phase: Vec<WorkloadSpec>,
    }

    #[test]
    fn phases_read_from_toml_with_the_keys_of_the_flags() {
        let config: Config = toml::from_str(
            r#"
            [[phase]]
            requests = 1000
            footprint = "1GiB"

            [[phase]]
            requests = 10
            footprint = 1048576
            read-fraction = 1
            size = "4KiB:0.7,64KiB:0.3"
            sequential = 0.25
            interarrival = "bursty:1ms,100,1s"
            skew = "hot:0.2,0.8"
            seed = 7
            "#,
        )
        .unwrap();
        assert_eq!(config.phase[0], WorkloadSpec::new(1000, Bytes::from_gib(1)));
        let expected = WorkloadSpec {
            requests: 10,
            footprint: Bytes::from_mib(1),
            read_fraction: 1.0,
            size: "4KiB:0.7,64KiB:0.3".parse().unwrap(),
            sequential: 0.25,
            interarrival: Interarrival::Bursty {
                gap: Nanoseconds::from_millis(1),
                requests: 100,
                pause: Nanoseconds::from_seconds(1),
            },
            skew: Skew::Hot { blocks: 0.2, accesses: 0.8 },
            seed: Some(7),
        };
        assert_eq!(config.phase[1], expected);
    }

    #[test]
    fn mistakes_in_toml_are_named() {
        for (line, part) in [
            ("size = \"4KiB:0.7\"", "size '4KiB:0.7': expected shares that add up to 1, not 0.7"),
            ("skew = \"zipf\"", "skew 'zipf': expected uniform, zipf:THETA"),
            ("footprint = \"4 parsecs\"", "'4 parsecs' is not a size"),
            ("read_fration = 0.5", "unknown field `read_fration`, expected one of"),
        ] {
            let rest = if line.starts_with("footprint") { "" } else { "footprint = \"1GiB\"" };
            let error = toml::from_str::<Config>(&format!("[[phase]]\nrequests = 1\n{rest}\n{line}\n")).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn parts_that_do_not_fit_together_are_refused() {
        let good = WorkloadSpec::new(100, Bytes::from_mib(1));
        let cases = [
            (WorkloadSpec { requests: 0, ..good.clone() }, "requests '0': expected at least 1"),
            (
                WorkloadSpec { read_fraction: 1.5, ..good.clone() },
                "read-fraction '1.5': expected a fraction from 0 to 1",
            ),
            (
                WorkloadSpec { sequential: f64::NAN, ..good.clone() },
                "sequential 'NaN': expected a fraction from 0 to 1",
            ),
            (WorkloadSpec { footprint: Bytes(5000), ..good.clone() }, "footprint '5000B': expected a multiple of 4KiB"),
            (
                WorkloadSpec { footprint: Bytes(0), ..good.clone() },
                "footprint '0B': expected at least the largest request, 4KiB",
            ),
            (
                WorkloadSpec { size: "2MiB".parse().unwrap(), ..good.clone() },
                "footprint '1MiB': expected at least the largest request, 2MiB",
            ),
            (
                WorkloadSpec { interarrival: "poisson:2y".parse().unwrap(), ..good.clone() },
                "interarrival 'poisson:63115200s': expected a time for which 100 requests last less than 146 years",
            ),
        ];
        assert_eq!(good.check(), Ok(()));
        for (spec, message) in cases {
            assert_eq!(spec.check().unwrap_err().to_string(), message);
        }
    }
}
