//! Limits on response times that end a run early: once so many requests took too long that no others can make up for it,
//! the rest of the run would change nothing.
//!
//! They are exact in one direction: a run that a limit ends would have broken it, measured to its end.

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;

/// Which requests a limit is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Reads and writes.
    All,
    /// Reads.
    Reads,
    /// Writes.
    Writes,
}

impl Which {
    fn includes(self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read => self != Self::Writes,
            OpKind::Write | OpKind::WriteZeroes => self != Self::Reads,
            OpKind::Flush | OpKind::Discard | OpKind::Hint => false,
        }
    }
}

/// What is limited.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// The mean response time.
    Mean,
    /// The response time that this share of the requests does not exceed; 1 is the longest.
    Quantile(f64),
}

/// Every limit of a run, and how near it is.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    watched: Vec<Watched>,
    /// The first that is broken.
    broken: Option<usize>,
}

#[derive(Clone, Debug)]
struct Watched {
    which: Which,
    limit: Nanoseconds,
    /// What the user called it.
    name: String,
    /// Requests over the limit, or the sum of response times in nanoseconds.
    so_far: u128,
    /// The least of that with which the limit is broken.
    breaks_at: u128,
    sums: bool,
}

impl Limits {
    /// Adds a limit on `figure`, called `name`, for a run that will measure `requests` of the kind.
    pub fn add(&mut self, which: Which, figure: Figure, limit: Nanoseconds, requests: u64, name: String) {
        let (breaks_at, sums) = match figure {
            Figure::Mean => (u128::from(limit.0) * u128::from(requests) + 1, true),
            // One more than must be: which of two neighbours a quantile between them names may depend on rounding.
            Figure::Quantile(share) if share < 1.0 => {
                let within = (share * requests as f64).ceil() as u64;
                (u128::from(requests.saturating_sub(within)) + 2, false)
            }
            Figure::Quantile(_) => (1, false),
        };
        self.watched.push(Watched { which, limit, name, so_far: 0, breaks_at, sums });
    }

    /// Takes note of a request that was measured.
    #[inline]
    pub(crate) fn record(&mut self, kind: OpKind, response: Nanoseconds) {
        for (index, watched) in self.watched.iter_mut().enumerate() {
            if !watched.which.includes(kind) {
                continue;
            }
            watched.so_far += match watched.sums {
                true => u128::from(response.0),
                false => u128::from(response > watched.limit),
            };
            if watched.so_far >= watched.breaks_at {
                self.broken.get_or_insert(index);
            }
        }
    }

    /// The limit that is broken, if one is.
    #[inline]
    pub(crate) fn broken(&self) -> Option<String> {
        self.broken.map(|index| self.watched[index].name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(figure: Figure) -> Limits {
        let mut limits = Limits::default();
        limits.add(Which::Reads, figure, Nanoseconds(100), 1000, "the limit".to_owned());
        limits
    }

    /// How many reads of `response` break the limit; writes do not count.
    fn reads_until_broken(mut limits: Limits, response: u64) -> Option<u64> {
        (1..=1000).find(|_| {
            limits.record(OpKind::Write, Nanoseconds(1_000_000));
            limits.record(OpKind::Read, Nanoseconds(response));
            limits.broken().is_some()
        })
    }

    #[test]
    fn a_percentile_breaks_when_too_many_were_too_slow_and_a_mean_when_their_sum_is_too_large() {
        // 990 of 1000 must be within: with 11 outside it is broken, and one more makes it certain.
        assert_eq!(reads_until_broken(limits(Figure::Quantile(0.99)), 101), Some(12));
        assert_eq!(reads_until_broken(limits(Figure::Quantile(0.99)), 100), None);
        assert_eq!(reads_until_broken(limits(Figure::Quantile(1.0)), 101), Some(1));
        // The sum may be 100 000 ns.
        assert_eq!(reads_until_broken(limits(Figure::Mean), 1000), Some(101));
        assert_eq!(reads_until_broken(limits(Figure::Mean), 100), None);
    }
}
