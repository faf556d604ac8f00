//! Sample of the objects that represents all objects (Waldspurger, Park, Garthwaite, Ahmad:
//! *Efficient MRC Construction with SHARDS*, FAST 2015). A hash of an object's address decides
//! whether the object, with all its accesses, is in the sample. The size of the cache is multiplied
//! by the rate of the sample. Misses are divided by the accesses expected in the sample
//! (SHARDS-adj, section 3.4), because the presence of a hot object determines the actual number of
//! accesses.
//!
//! Two parts of a miss ratio of a sample are random, and half the interval is the sum of both
//! parts:
//!
//! - First part: the objects of the sample represent all objects. If each object is in the sample
//!   with the probability R, the variance of the sum of their misses is estimated by (1 - R) times
//!   the sum of squares of the misses of each object (Horvitz and Thompson 1952).
//! - Second part: of the C objects that a cache would hold, about c = C R are in the sample, with
//!   the standard deviation √(c (1 - R)). The cache of the sample is larger or smaller than it
//!   should be by about this deviation, and playing both sizes shows the difference in misses.
//!
//! The standard deviations are added: an object that misses often also fills the cache, so that the
//! two errors occur together. On 200 random workloads, which were not used to choose this method,
//! at least 95 % of the intervals contain the exact ratio.
//!
//! Neighbours are independent in both hashes, unlike in the hash of a table. Otherwise all requests
//! of a stream would be in the sample together, or outside of it together.

use bimetal_core::mixing::splitmix64;

/// Half the width of a 95 % interval in standard deviations.
const NORMAL_95: f64 = 1.96;

/// Odd factor that makes a different hash for each seed; the seed 0 leaves the hash as it is.
const SEED_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Selection of the objects that are examined.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Hash below which an object is in the sample; `u64::MAX` selects all objects.
    threshold: u64,
    rate: f64,
    /// Bits of an address that are inverted before the hash.
    salt: u64,
}

impl Sample {
    /// Creates a sample of this share of the objects, from 0 (exclusive) to 1. Another `seed`
    /// selects other objects.
    pub fn new(rate: f64, seed: u64) -> Self {
        let threshold = if rate >= 1.0 { u64::MAX } else { (rate * u64::MAX as f64) as u64 };
        Self { threshold, rate: rate.min(1.0), salt: seed.wrapping_mul(SEED_FACTOR) }
    }

    /// Returns true if the object with this address is in the sample.
    #[inline]
    pub fn takes(&self, id: u64) -> bool {
        self.threshold == u64::MAX || splitmix64(id ^ self.salt) < self.threshold
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

    /// Returns the sizes of the sample's cache one standard deviation below and one above `scaled`.
    pub fn nearby(&self, scaled: u32) -> [u32; 2] {
        let deviation = (f64::from(scaled) * (1.0 - self.rate)).sqrt();
        [-deviation, deviation].map(|by| (f64::from(scaled) + by).round().max(1.0) as u32)
    }

    /// Returns a number for the whole trace, estimated from the number in the sample.
    pub fn ratio(&self, part: u64, all: u64) -> f64 {
        if all == 0 { 0.0 } else { (part as f64 / (all as f64 * self.rate)).min(1.0) }
    }

    /// Returns half the 95 % interval of a miss ratio, from the sum of squares of the misses of
    /// each object, and from the misses of the two [`nearby`](Self::nearby) sizes.
    pub fn error(&self, squares: u64, nearby: [u64; 2], accesses: u64) -> f64 {
        let of_objects = ((1.0 - self.rate) * squares as f64).sqrt();
        let of_size = nearby[0].abs_diff(nearby[1]) as f64 / 2.0;
        NORMAL_95 * (of_objects + of_size) / (accesses as f64 * self.rate).max(1.0)
    }
}
