//! How the erases lie over the blocks of a flash drive.

use crate::results::{EraseCount, EraseHistogram};

/// Bins of the histogram at most.
const BINS: u64 = 64;

/// Minimum, mean, maximum, standard deviation and histogram of erase counts, from pairs (times erased, how many blocks)
/// in any order. Bins are one erase wide up to 64 of them, then the least power of two that needs no more.
/// Without any block every figure is `None`.
pub fn erase_counts(blocks_by_erases: impl IntoIterator<Item = (u64, u64)>) -> (EraseCount, EraseHistogram) {
    let counts: Vec<_> = blocks_by_erases.into_iter().filter(|(_, blocks)| *blocks > 0).collect();
    let (Some(min), Some(max)) = (counts.iter().map(|c| c.0).min(), counts.iter().map(|c| c.0).max()) else {
        return Default::default();
    };
    let blocks: u128 = counts.iter().map(|(_, blocks)| u128::from(*blocks)).sum();
    // Exact sums, so that the order of the blocks does not show.
    let sum: u128 = counts.iter().map(|(erases, blocks)| u128::from(*erases) * u128::from(*blocks)).sum();
    let squares: u128 = counts.iter().map(|(erases, n)| u128::from(*erases).pow(2) * u128::from(*n)).sum();
    let variance = (blocks * squares - sum * sum) as f64 / (blocks as f64).powi(2);

    let first = min;
    let width = (max - first + 1).div_ceil(BINS).next_power_of_two();
    let bins = (max - first) / width + 1;
    let mut histogram = EraseHistogram {
        erases_from: (0..bins).map(|bin| first + bin * width).collect(),
        blocks: vec![0; bins as usize],
    };
    for (erases, blocks) in counts {
        histogram.blocks[((erases - first) / width) as usize] += blocks;
    }
    let mean = sum as f64 / blocks as f64;
    (EraseCount { min: Some(min), mean: Some(mean), max: Some(max), stddev: Some(variance.sqrt()) }, histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_over_blocks() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, standard deviation 2.
        let (count, histogram) = erase_counts([(9, 1), (2, 1), (4, 3), (5, 2), (7, 1)]);
        assert_eq!(count, EraseCount { min: Some(2), mean: Some(5.0), max: Some(9), stddev: Some(2.0) });
        assert_eq!(histogram.erases_from, [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(histogram.blocks, [1, 0, 3, 2, 0, 1, 0, 1]);
    }

    #[test]
    fn a_wide_spread_widens_the_bins() {
        let (_, histogram) = erase_counts([(0, 1), (63, 1), (64, 1), (200, 5)]);
        assert_eq!(histogram.erases_from[..3], [0, 4, 8]);
        assert_eq!((histogram.blocks[15], histogram.blocks[16], histogram.blocks[50]), (1, 1, 5));
        assert!(histogram.blocks.len() <= 64);
    }

    #[test]
    fn no_blocks_no_figures() {
        assert_eq!(erase_counts([]), (EraseCount::default(), EraseHistogram::default()));
    }
}
