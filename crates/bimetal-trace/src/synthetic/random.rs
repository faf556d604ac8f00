//! Draws from the generator of random numbers, written out so that a seed gives the same stream for ever.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// A number from 0 up to but not including 1, in steps of 2^-53.
#[inline]
pub(super) fn unit(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A whole number below `bound`; each as likely as the others to within `bound` / 2^64.
#[inline]
pub(super) fn below(bound: u64, random: &mut Pcg64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}
