//! Random draws from PCG-64, so that a seed gives the same case for ever.

use bimetal_core::units::Nanoseconds;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Generator with the draws that cases need.
pub struct Random(Pcg64);

impl Random {
    /// Creates the generator of the stream named by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// Creates a generator of its own. The draws of `self` stay as they would be without this call,
    /// so a case with a further draw is otherwise the same case.
    pub fn fork(&self) -> Self {
        let mut copy = self.0.clone();
        Self::new(copy.next_u64() ^ 0x666f_726b)
    }

    /// Returns a whole number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a whole number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns true once in `n` times; never if `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// Returns one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns an index of `weights`, drawn with a probability that is proportional to the weight.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut drawn = self.below(weights.iter().sum());
        weights
            .iter()
            .position(|&weight| {
                let here = drawn < weight;
                drawn = drawn.saturating_sub(weight);
                here
            })
            .unwrap_or(0)
    }

    /// Returns a time around `scale`: from one nanosecond to twice the scale.
    pub fn around(&mut self, scale: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.between(1, 2 * scale.0.max(1)))
    }
}
