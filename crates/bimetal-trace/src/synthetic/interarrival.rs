//! Time between requests: `constant:1ms`, `poisson:1ms`, or `bursty:1ms,100,1s`.

use std::fmt;
use std::str::FromStr;

use bimetal_core::units::Nanoseconds;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

use super::spec::{SpecError, arguments};

/// Distribution of the times between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interarrival {
    /// Constant time.
    Constant(Nanoseconds),
    /// Exponentially distributed times with this mean: arrivals are independent of each other.
    Poisson(Nanoseconds),
    /// Bursts of requests. Times between the requests of a burst are exponentially distributed, and
    /// a pause follows each burst.
    Bursty {
        /// Mean time between two requests of a burst.
        gap: Nanoseconds,
        /// Number of requests in a burst.
        requests: u64,
        /// Time from the last request of a burst to the first request of the next burst.
        pause: Nanoseconds,
    },
}

impl Interarrival {
    /// Returns the mean time between requests in nanoseconds.
    pub fn mean_ns(self) -> f64 {
        match self {
            Self::Constant(gap) | Self::Poisson(gap) => gap.get() as f64,
            Self::Bursty { gap, requests, pause } => {
                (gap.get() as f64 * (requests - 1) as f64 + pause.get() as f64) / requests as f64
            }
        }
    }
}

impl FromStr for Interarrival {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        const EXPECTED: &str =
            "constant:TIME, poisson:TIME or bursty:GAP,REQUESTS,PAUSE, like poisson:1ms or bursty:1ms,100,1s";
        let parsed = if let Some(gap) = arguments(text, "constant") {
            gap.parse().map(Self::Constant).ok()
        } else if let Some(mean) = arguments(text, "poisson") {
            mean.parse().map(Self::Poisson).ok()
        } else {
            arguments(text, "bursty").and_then(parse_bursty)
        };
        let refused = |expected: &str| SpecError::new("interarrival", text, expected);
        match parsed.ok_or_else(|| refused(EXPECTED))? {
            Self::Bursty { requests: 0, .. } => Err(refused("at least 1 request a burst")),
            some if some.mean_ns() == 0.0 => Err(refused("a time above 0")),
            some => Ok(some),
        }
    }
}

fn parse_bursty(text: &str) -> Option<Interarrival> {
    let mut parts = text.split(',');
    let gap = parts.next()?.parse().ok()?;
    let requests = parts.next()?.trim().parse().ok()?;
    let pause = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Interarrival::Bursty { gap, requests, pause })
}

impl fmt::Display for Interarrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(gap) => write!(f, "constant:{gap}"),
            Self::Poisson(mean) => write!(f, "poisson:{mean}"),
            Self::Bursty { gap, requests, pause } => write!(f, "bursty:{gap},{requests},{pause}"),
        }
    }
}

/// Source of the times between the requests of a phase, one before each request.
pub(super) struct GapSource {
    interarrival: Interarrival,
    /// Number of requests of the current burst that already arrived.
    arrived: u64,
}

impl GapSource {
    pub(super) fn new(interarrival: Interarrival) -> Self {
        Self { interarrival, arrived: 0 }
    }

    /// Returns the time from the previous request to the next. The first call returns the time
    /// after a burst that just ended.
    #[inline]
    pub(super) fn draw(&mut self, random: &mut Pcg64) -> Nanoseconds {
        match self.interarrival {
            Interarrival::Constant(gap) => gap,
            Interarrival::Poisson(mean) => exponential(mean, random),
            Interarrival::Bursty { gap, requests, pause } => {
                let first_of_burst = self.arrived == 0;
                self.arrived = (self.arrived + 1) % requests;
                if first_of_burst { pause } else { exponential(gap, random) }
            }
        }
    }
}

#[inline]
fn exponential(mean: Nanoseconds, random: &mut Pcg64) -> Nanoseconds {
    let draw: f64 = Exp1.sample(random);
    Nanoseconds((draw * mean.get() as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_and_print_as_the_command_line_writes_them() {
        for text in ["constant:1ms", "poisson:250us", "bursty:1ms,100,1s", "bursty:0ns,1,1s"] {
            assert_eq!(text.parse::<Interarrival>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        for text in
            ["", "1ms", "poisson", "poisson:", "poisson:-1ms", "bursty:1ms,100", "bursty:1ms,100,1s,1s", "constant1ms"]
        {
            let error = text.parse::<Interarrival>().unwrap_err();
            assert!(error.expected.starts_with("constant:TIME, poisson:TIME or"), "{text}: {error}");
        }
        assert_eq!("bursty:1ms,0,1s".parse::<Interarrival>().unwrap_err().expected, "at least 1 request a burst");
        for text in ["constant:0s", "poisson:0ms", "bursty:0s,5,0s"] {
            assert_eq!(text.parse::<Interarrival>().unwrap_err().expected, "a time above 0", "{text}");
        }
    }
}
