//! Approximate counts of uses: a count-min sketch of four-bit counters. All counters are halved now
//! and then, so that uses long ago count for less than recent uses (TinyLFU, section 3).

/// Resident bytes for each slot of the cache: at most eight counters of four bits in each of four
/// rows.
pub const BYTES_PER_SLOT: f64 = 16.0;

/// Sketch with sixteen counters in each word; the rows are quarters of each word. All counters of a
/// key, and of its neighbours, lie in one group of words. So a count touches one place in memory,
/// instead of four, and a sketch for many slots is resident only for keys that were used.
pub struct Sketch {
    words: Vec<u64>,
    /// Number of groups minus one, which serves as a bit mask. The number of groups is a power of
    /// two.
    mask: u32,
    uses: u64,
    uses_limit: u64,
}

const ROWS: u32 = 4;
/// Number of words in a group, which is also the number of neighbouring keys that share a group.
const GROUP: u32 = 64;
const COUNT_MAX: u64 = 15;

impl Sketch {
    /// Returns the sketch for a cache of `slots` slots. Counts are halved after ten uses for each
    /// slot.
    pub fn new(slots: u32) -> Self {
        // A word has four counters of each row, so one word for each slot gives four counters a
        // slot and row.
        let words = (u64::from(slots).next_power_of_two()).clamp(u64::from(GROUP), 1 << 31);
        let mask = (words / u64::from(GROUP)) as u32 - 1;
        Self { words: vec![0; words as usize], mask, uses: 0, uses_limit: 10 * u64::from(slots.max(1)) }
    }

    /// Returns the word and the shift of the counter of `key` in `row`.
    #[inline]
    fn place(&self, key: u32, row: u32) -> (usize, u32) {
        const SEEDS: [u64; 4] =
            [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0x27d4_eb2f_1656_67c5];
        let group = (u64::from(key / GROUP) + 1).wrapping_mul(SEEDS[0]);
        let group = (group ^ (group >> 32)) as u32 & self.mask;
        let hash = (u64::from(key) + 1).wrapping_mul(SEEDS[row as usize]);
        let word = group * GROUP + (hash >> 32) as u32 % GROUP;
        (word as usize, row * 16 + (hash >> 60) as u32 % 4 * 4)
    }

    /// Returns the number of recent uses of `key`, or more if other keys share all its counters.
    pub fn count(&self, key: u32) -> u64 {
        let counts = (0..ROWS).map(|row| {
            let (word, shift) = self.place(key, row);
            self.words[word] >> shift & COUNT_MAX
        });
        counts.min().unwrap_or(0)
    }

    /// Counts a use of `key`.
    pub fn add(&mut self, key: u32) {
        for row in 0..ROWS {
            let (word, shift) = self.place(key, row);
            if self.words[word] >> shift & COUNT_MAX < COUNT_MAX {
                self.words[word] += 1 << shift;
            }
        }
        self.uses += 1;
        if self.uses >= self.uses_limit {
            self.uses /= 2;
            self.words.iter_mut().for_each(|word| *word = *word >> 1 & 0x7777_7777_7777_7777);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_as_many_keys_as_slots_few_are_counted_too_high() {
        // Neighbouring keys, and keys far apart. Each key is used once.
        for apart in [1, 1009] {
            let mut uses = Sketch::new(4096);
            (0..4096).for_each(|key| uses.add(key * apart));
            let too_high = (0..4096).filter(|key| uses.count(key * apart) > 1).count();
            assert!(too_high < 4096 / 20, "{apart}: {too_high}");
            let strangers = (0..4096).filter(|key| uses.count(key * apart + 40_000_000) > 0).count();
            assert!(strangers < 4096 / 20, "{apart}: {strangers}");
        }
    }

    #[test]
    fn counts_are_halved_after_ten_uses_a_slot_and_end_at_fifteen() {
        let mut uses = Sketch::new(100);
        (0..40).for_each(|_| uses.add(7));
        assert_eq!(uses.count(7), 15);
        (0..12).for_each(|_| uses.add(9));
        (0..948).for_each(|at| uses.add(1000 + at));
        assert!(
            (7..=9).contains(&uses.count(7)) && (6..=8).contains(&uses.count(9)),
            "{} {}",
            uses.count(7),
            uses.count(9)
        );
    }
}
