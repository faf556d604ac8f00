//! Random order without a table: the places of units in a drive that was overwritten at random.

/// Permutation of 0..len that looks random and can be computed in both directions. The permutation
/// is a Feistel network over the next power of two, iterated until the result is inside (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
pub(crate) struct Permutation {
    /// Number of numbers that are permuted.
    pub(crate) len: u32,
    low_bits: u32,
    high_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// Creates a permutation of 0..`len`, at least 1, which depends on `seed`.
    pub(crate) fn new(len: u32, seed: u64) -> Self {
        let bits = (32 - (len - 1).leading_zeros()).max(2);
        // SplitMix64 generates the keys.
        let mut state = seed;
        let keys = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        });
        Self { len, low_bits: bits / 2, high_bits: bits - bits / 2, keys }
    }

    fn mix(value: u32, key: u64, bits: u32) -> u32 {
        let product = (u64::from(value) ^ key).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((product ^ (product >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> (64 - bits)) as u32
    }

    /// Returns the number to which the permutation maps `number`.
    pub(crate) fn forward(&self, number: u32) -> u32 {
        let mut value = number;
        loop {
            let (mut high, mut low) = (value >> self.low_bits, value & ((1 << self.low_bits) - 1));
            for keys in self.keys.chunks(2) {
                high ^= Self::mix(low, keys[0], self.high_bits);
                low ^= Self::mix(high, keys[1], self.low_bits);
            }
            value = high << self.low_bits | low;
            if value < self.len {
                return value;
            }
        }
    }

    /// Returns the number whose image is `number`.
    pub(crate) fn backward(&self, number: u32) -> u32 {
        let mut value = number;
        loop {
            let (mut high, mut low) = (value >> self.low_bits, value & ((1 << self.low_bits) - 1));
            for keys in self.keys.chunks(2).rev() {
                low ^= Self::mix(high, keys[1], self.low_bits);
                high ^= Self::mix(low, keys[0], self.high_bits);
            }
            value = high << self.low_bits | low;
            if value < self.len {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_goes_to_one_of_its_own_and_back() {
        for len in [1, 2, 3, 64, 1000, 4097] {
            let permutation = Permutation::new(len, 7);
            let mut seen = vec![false; len as usize];
            for number in 0..len {
                let to = permutation.forward(number);
                assert_eq!(permutation.backward(to), number);
                assert!(!std::mem::replace(&mut seen[to as usize], true));
            }
        }
    }
}
