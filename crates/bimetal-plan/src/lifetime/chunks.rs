//! Where a drive is written, and how often: the addresses in chunks, and a few of them that stand for all.

use std::collections::HashMap;

use bimetal_core::operation::Command;
use bimetal_core::units::{Nanoseconds, SectorRange};

use super::record::stores;

/// Mapping units of a chunk: with units of 4 KiB it is 256 KiB, so that a file's or a log's neighbours stay together.
pub(super) const CHUNK_UNITS: u64 = 64;

/// A part of a drive's addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    /// Which.
    pub(super) number: u64,
    /// A bit for each of its units that is ever written.
    pub(super) units: u64,
    /// Sectors written to it.
    pub(super) written: u64,
}

/// Every chunk that is written, in order of address.
pub(super) struct Chunks {
    pub(super) unit_sectors: u64,
    pub(super) all: Vec<Chunk>,
}

impl Chunks {
    /// The chunks that `stream` writes on a drive that maps units of `unit_sectors`. Where `whole` is set, a chunk that is written
    /// anywhere counts as written everywhere: of layers that map whole blocks, a unit's place in its block matters.
    pub(super) fn of(stream: &[(Nanoseconds, Command)], unit_sectors: u64, whole: bool) -> Self {
        let mut chunks: HashMap<u64, Chunk> = HashMap::new();
        for (_, command) in stream.iter().filter(|(_, command)| stores(command)) {
            for (number, within) in parts(command.range, unit_sectors) {
                let chunk = chunks.entry(number).or_insert(Chunk { number, ..Chunk::default() });
                chunk.units |= if whole { u64::MAX } else { bits(within, unit_sectors) };
                chunk.written += within.len.0;
            }
        }
        let mut all: Vec<Chunk> = chunks.into_values().collect();
        all.sort_unstable_by_key(|chunk| chunk.number);
        Self { unit_sectors, all }
    }

    /// Sectors of all units that are written.
    pub(super) fn sectors(&self) -> u64 {
        sectors(&self.all, self.unit_sectors)
    }

    /// So many chunks that together are written as all are: of chunks in order of how much is written to them, as many
    /// groups are made, and of each one chunk is taken, the nearest to the group's mean and to what earlier groups have left to be
    /// made up for. For another sample it is the next nearest, and so on.
    pub(super) fn stand_for_all(&self, count: usize, sample: u64) -> Vec<Chunk> {
        let mut by_written = self.all.clone();
        by_written.sort_by_key(|chunk| (std::cmp::Reverse(chunk.written), chunk.number));
        let total = by_written.len();
        let mut missing = 0.0;
        let mut chosen = Vec::new();
        for group in 0..count.min(total) {
            let group = &mut by_written[group * total / count..(group + 1) * total / count];
            let size = group.len() as f64;
            let written = group.iter().map(|chunk| chunk.written as f64).sum::<f64>() + missing;
            let distance = |chunk: &Chunk| (chunk.written as f64 - written / size).abs();
            group.sort_by(|one, other| distance(one).total_cmp(&distance(other)).then(one.number.cmp(&other.number)));
            let chunk = group[sample as usize % group.len()];
            missing = written - chunk.written as f64 * size;
            chosen.push(chunk);
        }
        chosen.sort_unstable_by_key(|chunk: &Chunk| chunk.number);
        chosen
    }
}

/// Sectors of all units of `chunks` that are written.
pub(super) fn sectors(chunks: &[Chunk], unit_sectors: u64) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.units.count_ones())).sum::<u64>() * unit_sectors
}

/// The chunks that `range` touches, and what of each, from its first sector on.
pub(super) fn parts(range: SectorRange, unit_sectors: u64) -> impl Iterator<Item = (u64, SectorRange)> {
    let size = unit_sectors * CHUNK_UNITS;
    let (start, end) = (range.start.0, range.end().0);
    let chunks = if start < end { start / size..end.div_ceil(size) } else { 0..0 };
    chunks.map(move |number| {
        let (from, to) = (start.max(number * size), end.min((number + 1) * size));
        (number, SectorRange::new(from - number * size, to - from))
    })
}

/// A bit for each unit that `within`, a part of a chunk, touches.
pub(super) fn bits(within: SectorRange, unit_sectors: u64) -> u64 {
    let (first, end) = (within.start.0 / unit_sectors, within.end().0.div_ceil(unit_sectors));
    let below = |unit: u64| if unit == CHUNK_UNITS { u64::MAX } else { (1 << unit) - 1 };
    below(end) & !below(first)
}

/// The finaliser of SplitMix64: neighbours have nothing in common.
pub(super) fn hash(value: u64, seed: u64) -> u64 {
    let mixed = value.wrapping_add(seed.wrapping_mul(0xD1B5_4A32_D192_ED03)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::operation::OpKind;

    fn write(start: u64, sectors: u64) -> (Nanoseconds, Command) {
        let command = Command { kind: OpKind::Write, range: SectorRange::new(start, sectors), fua: false };
        (Nanoseconds::ZERO, command)
    }

    #[test]
    fn a_chunk_knows_its_units_and_how_much_is_written() {
        // Units of 8 sectors, chunks of 512: the last unit of chunk 0 and the first two of chunk 1, then one of them again.
        let chunks = Chunks::of(&[write(504, 20), write(512, 4)], 8, false);
        let seen: Vec<(u64, u64, u64)> =
            chunks.all.iter().map(|chunk| (chunk.number, chunk.units, chunk.written)).collect();
        assert_eq!(seen, [(0, 1 << 63, 8), (1, 0b11, 16)]);
        assert_eq!(chunks.sectors(), 24);
    }

    #[test]
    fn the_chosen_are_written_as_all_are() {
        // Chunk n is written n times.
        let stream: Vec<_> = (1..=400).flat_map(|chunk| (0..chunk).map(move |_| write(chunk * 512, 8))).collect();
        let chunks = Chunks::of(&stream, 8, false);
        for sample in 0..3 {
            let chosen = chunks.stand_for_all(40, sample);
            assert_eq!(chosen.len(), 40);
            let written: u64 = chosen.iter().map(|chunk| chunk.written).sum();
            let expected = chunks.all.iter().map(|chunk| chunk.written).sum::<u64>() / 10;
            assert!(written.abs_diff(expected) * 200 < expected, "{written} for {expected}");
        }
    }
}
