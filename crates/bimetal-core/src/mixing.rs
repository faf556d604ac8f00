//! Mixtures of all bits of a number, equal on every machine and in every run: hashes of addresses,
//! and random numbers that are only as good as a simulation needs.

/// Odd number by which SplitMix64 advances: 2^64 divided by the golden ratio.
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number that SplitMix64 draws in the state `state`; the next state is larger by
/// [`GOLDEN_RATIO`]. Numbers drawn in neighbouring states are independent.
#[inline]
pub const fn splitmix64(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(GOLDEN_RATIO);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns a hash for a table: one multiplication and a fold, cheaper than [`splitmix64`].
#[inline]
pub const fn folded(number: u64) -> u64 {
    let product = (number ^ GOLDEN_RATIO) as u128 * 0xd6e8_feb8_6659_fd93_u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation (Vigna, splitmix64.c) for the seed
    /// 1234567.
    #[test]
    fn splitmix64_draws_the_numbers_of_the_reference() {
        let drawn = [0, 1, 2].map(|count| splitmix64(GOLDEN_RATIO.wrapping_mul(count).wrapping_add(1_234_567)));
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
