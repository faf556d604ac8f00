//! Distribution of erases over the blocks under translation layers: the thesis's two experiments of
//! section 5.4 of Konanki's thesis.
//!
//! A file of 85 MB is written to a clean stick. The file is written once over a partition of 100 MB
//! (the thesis's figure 5.7), or fifteen times over the whole stick (Konanki, figure 5.8). The
//! partition starts at sector 63, as partitions did at the time, so that requests do not fall on
//! the boundaries of flash pages. Request sizes are the sizes of the thesis's downloads (table
//! 5.1).

use std::collections::BTreeMap;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_models::profile::{Profile, ProfileError};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Stick that the thesis measured.
pub const STICK: &str = "sandisk-usb-1gb";

/// Layers of the thesis's figures, by the thesis's names and by Bimetal's.
pub const LAYERS: [(&str, &str); 4] =
    [("ANAND", "anand"), ("FMAX", "fmax"), ("log block", "log-block"), ("page level", "page-in-place")];

/// A figure of section 5.4 of Konanki's thesis.
pub struct Figure {
    /// Number of the figure, and a description of the writes.
    pub title: &'static str,
    /// Number of times that the file is written.
    pub times: u32,
    /// Result in the thesis.
    pub claim: &'static str,
    /// Points of the thesis that its text has, for each of [`LAYERS`]: erases, and per cent of the
    /// blocks.
    pub paper: [Option<(f64, f64)>; LAYERS.len()],
}

/// Figures of section 5.4 of Konanki's thesis.
pub const FIGURES: [Figure; 2] = [
    Figure {
        title: "Figure 5.7: an 85 MB file written once over a 100 MB partition",
        times: 1,
        claim: "no block is erased under ANAND and FMAX; 0, 1 or 2 times under page level",
        paper: [Some((0.0, 100.0)), Some((0.0, 100.0)), None, None],
    },
    Figure {
        title: "Figure 5.8: the file written fifteen times over 1 GB",
        times: 15,
        claim: "most blocks are erased once under ANAND and twice under FMAX; most not at all and a few many times under \
                log block and page level",
        paper: [None; LAYERS.len()],
    },
];

impl Figure {
    /// Returns the percentage of all blocks by number of erases, under the layer `ftl`.
    ///
    /// # Errors
    /// Fails if the layer does not exist.
    pub fn percent_by_erases(&self, ftl: &str, seed: u64) -> Result<Vec<(u32, f64)>, ProfileError> {
        let blocks = erases_of_blocks(ftl, self.times, seed)?;
        let all = blocks.values().sum::<u64>() as f64;
        Ok(blocks.iter().map(|(erases, blocks)| (*erases, *blocks as f64 / all * 100.0)).collect())
    }
}

/// First sector of the partition.
const PARTITION_START: u64 = 63;

/// Number of sectors in the file: 85 MB.
const FILE_SECTORS: u64 = 85_000_000 / 512;

/// Sectors of a request, and percentage of requests with this size (Konanki, table 5.1,
/// "Download").
const SIZES: [(u64, u32); 3] = [(8, 1), (32, 2), (256, 97)];

/// Returns the number of the stick's blocks by number of erases, after the file was written `times`
/// times under the layer `ftl`.
///
/// # Errors
/// Fails if the layer does not exist.
pub fn erases_of_blocks(ftl: &str, times: u32, seed: u64) -> Result<BTreeMap<u32, u64>, ProfileError> {
    let mut profile = Profile::load(STICK)?;
    profile.set("ftl", ftl)?;
    let mut stick = profile.build(None, seed)?;
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut finished, mut now, mut token) = (Vec::new(), Nanoseconds::ZERO, 0);
    for _ in 0..times {
        let mut written = 0;
        while written < FILE_SECTORS {
            let len = size(random.next_u32() % 100).min(FILE_SECTORS - written);
            let range = SectorRange::new(PARTITION_START + written, len);
            stick.submit(now, Token(token), Command { kind: OpKind::Write, range, fua: false });
            while let Some(at) = stick.next_event() {
                stick.advance(at, &mut finished);
                now = at;
            }
            (written, token) = (written + len, token + 1);
        }
    }
    Ok(stick.statistics(now).flash.map(|flash| flash.erases_of_blocks).unwrap_or_default())
}

fn size(mut percent: u32) -> u64 {
    for (sectors, share) in SIZES {
        if percent < share {
            return sectors;
        }
        percent -= share;
    }
    SIZES[SIZES.len() - 1].0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shares of blocks that were erased 0, 1, 2 times, and the most erases of a block.
    fn parts(ftl: &str, times: u32) -> ([f64; 3], u32) {
        let erases = erases_of_blocks(ftl, times, 1).unwrap();
        let all = erases.values().sum::<u64>() as f64;
        let part = |erased| erases.get(&erased).map_or(0.0, |blocks| *blocks as f64 / all);
        ([part(0), part(1), part(2)], *erases.last_key_value().unwrap().0)
    }

    /// A file written once over a partition erases blocks only under a layer that keeps pages in
    /// place.
    #[test]
    fn file_written_once_erases_only_with_pages_in_place() {
        for ftl in ["anand", "fmax"] {
            assert_eq!(parts(ftl, 1).1, 0, "{ftl}");
        }
        let (parts, most) = parts("page-in-place", 1);
        assert!(most == 2 && parts[1] > 0.0 && parts[1] < 0.1, "{parts:?} {most}");
    }

    /// A file written fifteen times erases most blocks once (ANAND), twice (FMAX), or erases a few
    /// blocks often (log block, page in place).
    #[test]
    fn file_written_fifteen_times_wears_as_each_layer_levels() {
        let (anand, most) = parts("anand", 15);
        assert!(anand[1] > 0.8 && most <= 2, "{anand:?} {most}");
        let (fmax, most) = parts("fmax", 15);
        assert!(fmax[2] > 0.8 && most <= 3, "{fmax:?} {most}");
        for ftl in ["log-block", "page-in-place"] {
            let (parts, most) = parts(ftl, 15);
            assert!(parts[0] > 0.8 && most >= 14, "{ftl}: {parts:?} {most}");
        }
    }
}
