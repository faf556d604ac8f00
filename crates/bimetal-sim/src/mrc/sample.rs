//! Sample of the objects that represents all (Waldspurger, Park, Garthwaite, Ahmad: *Efficient MRC
//! Construction with SHARDS*, FAST 2015). A hash of its address decides whether an object is in the
//! sample, and with it all its accesses; a cache of the sample is smaller by the rate of the
//! sample. Misses are divided by the accesses expected in the sample (section 3.4, SHARDS-adj), as
//! the presence of a hot object determines the actual number.
//!
//! The error is estimated from the sample itself: another hash divides its objects into eight
//! groups, each of which is measured as a sample of its own. The spread of the groups gives the
//! standard error of their mean.
//!
//! Neighbours are independent in both hashes, unlike in the hash of a table: requests of a stream
//! must not be in the sample or out of it together.

use bimetal_core::mixing::splitmix64;

/// Number of groups from which the error is estimated.
pub const GROUPS: usize = 8;

/// Half the width of a 95 % interval in standard errors, for a spread estimated from eight groups
/// (Student's t).
const STUDENT_95: f64 = 2.365;

/// Selection of the objects that are examined.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Hash below which an object is in the sample; `u64::MAX` is all.
    threshold: u64,
    rate: f64,
}

impl Sample {
    /// Creates a sample of this share of the objects, from 0 (exclusive) to 1.
    pub fn new(rate: f64) -> Self {
        let threshold = if rate >= 1.0 { u64::MAX } else { (rate * u64::MAX as f64) as u64 };
        Self { threshold, rate: rate.min(1.0) }
    }

    /// Returns whether the object with this address is in the sample.
    #[inline]
    pub fn takes(&self, id: u64) -> bool {
        self.threshold == u64::MAX || splitmix64(id) < self.threshold
    }

    /// Returns true if some objects are left out.
    pub fn is_partial(&self) -> bool {
        self.threshold != u64::MAX
    }

    /// Returns the share of the objects.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the size of the cache that represents a cache of `size` objects.
    pub fn scaled(&self, size: u32) -> u32 {
        ((f64::from(size) * self.rate).round() as u32).max(1)
    }

    /// Returns the size of the cache that represents a cache of `size` objects, for one group of
    /// the sample.
    pub fn scaled_for_group(&self, size: u32) -> u32 {
        ((f64::from(size) * self.rate / GROUPS as f64).round() as u32).max(1)
    }

    /// Returns the group of an object in the sample.
    pub fn group(object: u32) -> usize {
        (splitmix64(u64::from(object)) >> 61) as usize
    }

    /// Returns a part of the whole trace, estimated from the part of the sample.
    pub fn ratio(&self, part: u64, all: u64) -> f64 {
        if all == 0 { 0.0 } else { (part as f64 / (all as f64 * self.rate)).min(1.0) }
    }

    /// Returns half the 95 % interval of a miss ratio, from the misses of each group.
    pub fn error(&self, misses: &[u64], accesses: u64) -> f64 {
        let expected = accesses as f64 * self.rate / GROUPS as f64;
        let groups = misses.len() as f64;
        let mean = misses.iter().sum::<u64>() as f64 / groups;
        let spread: f64 = misses.iter().map(|&misses| (misses as f64 - mean).powi(2)).sum();
        STUDENT_95 * (spread / (groups - 1.0) / groups).sqrt() / expected.max(1.0)
    }
}
