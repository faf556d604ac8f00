//! Popularity of blocks: `uniform`, `zipf:0.9`, or `hot:0.2,0.8`.
//!
//! The unit of popularity is the *extent*. An extent is as large as the phase's largest request,
//! and at least 4 KiB. So if all requests have one size of whole blocks, a request touches one
//! extent. A request stays within its extent. Extents are ranked by popularity. A fixed
//! pseudo-random permutation scatters the ranks over the footprint, so that popular extents are
//! spread. Popular extents lie at the same places with every seed and in every phase of equal
//! footprint and extents.

use std::fmt;
use std::str::FromStr;

use bimetal_core::units::{Bytes, Sectors};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;

use super::random::{below, unit};
use super::spec::{SpecError, arguments};

/// Alignment of requests that are not sequential.
const ALIGNMENT: Sectors = Bytes::from_kib(4).sectors();

/// Distribution of accesses over the blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// All blocks are equally popular.
    Uniform,
    /// The block of popularity rank r is accessed in proportion to r to the power of minus this
    /// exponent.
    Zipf(f64),
    /// A share of the blocks, the hot blocks, gets a share of the accesses; the other blocks get
    /// the remaining accesses. Within each group all blocks are equally popular.
    Hot {
        /// Share of the blocks that are hot.
        blocks: f64,
        /// Share of the accesses to the hot blocks.
        accesses: f64,
    },
}

impl FromStr for Skew {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        const EXPECTED: &str = "uniform, zipf:THETA or hot:BLOCKS,ACCESSES, like zipf:0.9 or hot:0.2,0.8";
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let parsed = if text == "uniform" {
            Some(Self::Uniform)
        } else if let Some(theta) = arguments(text, "zipf") {
            number(theta).map(Self::Zipf)
        } else {
            arguments(text, "hot")
                .and_then(|shares| shares.split_once(','))
                .and_then(|(blocks, accesses)| Some(Self::Hot { blocks: number(blocks)?, accesses: number(accesses)? }))
        };
        let refused = |expected: &str| SpecError::new("skew", text, expected);
        match parsed.ok_or_else(|| refused(EXPECTED))? {
            Self::Zipf(theta) if !(0.0..=10.0).contains(&theta) => Err(refused("a zipf exponent from 0 to 10")),
            Self::Hot { blocks, .. } if !(blocks > 0.0 && blocks < 1.0) => {
                Err(refused("a share of hot blocks above 0 and below 1"))
            }
            Self::Hot { accesses, .. } if !(0.0..=1.0).contains(&accesses) => {
                Err(refused("a share of accesses from 0 to 1"))
            }
            skew => Ok(skew),
        }
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Hot { blocks, accesses } => write!(f, "hot:{blocks},{accesses}"),
        }
    }
}

enum Ranks {
    Uniform,
    Zipf(Zipf<f64>),
    Hot { extents: u64, accesses: f64 },
}

/// Source of the places at which requests start that are not sequential.
pub(super) struct PlaceSource {
    ranks: Ranks,
    footprint: Sectors,
    /// Size of all extents except the last, which also takes the remaining sectors of the
    /// footprint.
    extent: Sectors,
    extents: u64,
    scatter: Scatter,
}

impl PlaceSource {
    /// Creates a source for requests of up to `largest`, which `footprint` holds.
    pub(super) fn new(skew: Skew, footprint: Sectors, largest: Sectors) -> Self {
        let extent = Sectors(largest.get().next_multiple_of(ALIGNMENT.get()));
        let extents = footprint.get() / extent.get();
        assert!(extents > 0, "a checked footprint holds the largest request");
        let ranks = match skew {
            Skew::Uniform => Ranks::Uniform,
            Skew::Zipf(theta) => {
                Ranks::Zipf(Zipf::new(extents as f64, theta).expect("a checked exponent is no less than 0"))
            }
            Skew::Hot { blocks, accesses } => {
                Ranks::Hot { extents: ((extents as f64 * blocks).round() as u64).clamp(1, extents), accesses }
            }
        };
        Self { ranks, footprint, extent, extents, scatter: Scatter::over(extents) }
    }

    /// Returns a start for a request of `len`, which is no larger than the largest.
    #[inline]
    pub(super) fn draw(&self, len: Sectors, random: &mut Pcg64) -> Sectors {
        let extent = match self.ranks {
            Ranks::Uniform => below(self.extents, random),
            Ranks::Zipf(zipf) => self.scatter.place((zipf.sample(random) as u64 - 1).min(self.extents - 1)),
            Ranks::Hot { extents, accesses } => {
                let is_hot = extents == self.extents || unit(random) < accesses;
                let rank =
                    if is_hot { below(extents, random) } else { extents + below(self.extents - extents, random) };
                self.scatter.place(rank)
            }
        };
        let start = extent * self.extent.get();
        let end = if extent + 1 == self.extents { self.footprint.get() } else { start + self.extent.get() };
        let places = (end - start - len.get()) / ALIGNMENT.get() + 1;
        Sectors(start + if places == 1 { 0 } else { below(places, random) * ALIGNMENT.get() })
    }
}

/// Fixed pseudo-random permutation of the numbers below a count.
struct Scatter {
    count: u64,
    /// Mask of the least power of two that is no less than `count`.
    mask: u64,
    /// Half the number of bits of the mask, at least 1.
    shift: u32,
}

impl Scatter {
    fn over(count: u64) -> Self {
        let mask = count.next_power_of_two() - 1;
        Self { count, mask, shift: (mask.count_ones() / 2).max(1) }
    }

    /// Returns the place of `rank`, which is below the count.
    #[inline]
    fn place(&self, rank: u64) -> u64 {
        let mut place = self.mix(rank);
        // The orbit of a permutation returns to its beginning, which is below the count, so the
        // loop ends.
        while place >= self.count {
            place = self.mix(place);
        }
        place
    }

    /// Permutes the numbers up to the mask: each step is invertible. The constants are
    /// SplitMix64's.
    #[inline]
    fn mix(&self, number: u64) -> u64 {
        let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15) & self.mask;
        mixed ^= mixed >> self.shift;
        mixed = mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9) & self.mask;
        mixed ^= mixed >> self.shift;
        mixed = mixed.wrapping_mul(0x94D0_49BB_1331_11EB) & self.mask;
        mixed ^ (mixed >> self.shift)
    }
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn skews_read_and_print_as_the_command_line_writes_them() {
        for text in ["uniform", "zipf:0.9", "zipf:0", "hot:0.2,0.8"] {
            assert_eq!(text.parse::<Skew>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        for text in ["", "zipf", "zipf:x", "hot:0.2", "hot:0.2,0.8,1", "random"] {
            let error = text.parse::<Skew>().unwrap_err();
            assert!(error.expected.starts_with("uniform, zipf:THETA or hot:BLOCKS,ACCESSES"), "{text}: {error}");
        }
        for (text, expected) in [
            ("zipf:-1", "a zipf exponent from 0 to 10"),
            ("zipf:NaN", "a zipf exponent from 0 to 10"),
            ("hot:0,0.5", "a share of hot blocks above 0 and below 1"),
            ("hot:1,0.5", "a share of hot blocks above 0 and below 1"),
            ("hot:0.5,1.1", "a share of accesses from 0 to 1"),
        ] {
            assert_eq!(text.parse::<Skew>().unwrap_err(), SpecError::new("skew", text, expected));
        }
    }

    #[test]
    fn scattering_gives_every_rank_a_place_of_its_own() {
        for count in (1..200).chain([1000, 65_535, 65_536, 65_537]) {
            let scatter = Scatter::over(count);
            let mut places: Vec<u64> = (0..count).map(|rank| scatter.place(rank)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count), "of {count}");
        }
    }

    #[test]
    fn scattering_spreads_the_popular_as_chance_would() {
        for count in [10_000_u64, 65_536, 100_003] {
            let scatter = Scatter::over(count);
            let mut popular: Vec<u64> = (0..count / 10).map(|rank| scatter.place(rank)).collect();
            popular.sort_unstable();
            let neighbours = popular.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
            assert!(neighbours < popular.len() * 15 / 100, "of {count}: {neighbours} side by side");
            for eighth in 0..8 {
                let part = count * eighth / 8..count * (eighth + 1) / 8;
                let held = popular.iter().filter(|place| part.contains(place)).count() as f64 / popular.len() as f64;
                assert!((0.1..0.15).contains(&held), "of {count}: {held} in eighth {eighth}");
            }
        }
    }

    #[test]
    fn starts_leave_room_for_requests_and_reach_every_block() {
        // 100 blocks with extents of 7: the last takes the rest.
        let places = PlaceSource::new(Skew::Uniform, Sectors(800), Sectors(51));
        let mut random = Pcg64::seed_from_u64(1);
        let mut touched = [false; 100];
        for _ in 0..20_000 {
            let start = places.draw(Sectors(8), &mut random);
            assert!(start.get().is_multiple_of(8) && start.get() + 8 <= 800);
            touched[start.get() as usize / 8] = true;
            let start = places.draw(Sectors(51), &mut random);
            assert!(start.get().is_multiple_of(8) && start.get() + 51 <= 800);
        }
        assert!(touched.iter().all(|touched| *touched));
    }
}
