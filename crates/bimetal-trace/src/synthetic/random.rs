//! Draws random numbers by formulas that this file contains, so that a seed always gives the same
//! stream.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// Returns a number from 0 up to but not including 1, in steps of 2^-53.
#[inline]
pub(super) fn unit(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a whole number below `bound`; all are equally likely to within `bound` / 2^64.
#[inline]
pub(super) fn below(bound: u64, random: &mut Pcg64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}
