//! Chunks of a drive's addresses with their write counts, and a sample of chunks that represents
//! all chunks.

use std::collections::{BTreeMap, HashMap};

use bimetal_core::operation::{Command, OpKind};
use bimetal_core::units::{Nanoseconds, SectorRange};

use super::record::stores;

/// Mapping units of a chunk: 256 KiB with units of 4 KiB, so that neighbours in a file or a log
/// stay together.
pub(super) const CHUNK_UNITS: u64 = 64;

/// A range of a drive's addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    /// Number of the chunk.
    pub(super) number: u64,
    /// Bit mask of the units that are ever written.
    pub(super) units: u64,
    /// Number of sectors written to the chunk.
    pub(super) written: u64,
}

/// Every written chunk, in order of address.
pub(super) struct Chunks {
    pub(super) unit_sectors: u64,
    pub(super) all: Vec<Chunk>,
}

impl Chunks {
    /// Returns the chunks that `stream` writes on a drive with mapping units of `unit_sectors`. If
    /// `whole` is set, a chunk in which any unit is written counts as a chunk in which all units
    /// are written. Layers that map whole blocks need this flag, because in such layers a unit's
    /// place in its block matters.
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

    /// Returns the number of sectors of all written units.
    pub(super) fn sectors(&self) -> u64 {
        sectors(&self.all, self.unit_sectors)
    }

    /// Chooses `count` chunks whose writes together represent the writes to all chunks. Chunks are
    /// sorted by their written sectors and divided into `count` groups. Each group contributes the
    /// chunk nearest to its mean, corrected for the deviation of earlier groups. Sample number n
    /// takes the chunk that is the nth nearest.
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

/// Units of a drive that hold data: a bit mask for each chunk with data.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(BTreeMap<u64, u64>);

impl Held {
    /// Notes a command. A discard, or a write of zeroes, drops the units that it covers wholly.
    pub(super) fn note(&mut self, command: &Command, unit_sectors: u64) {
        if matches!(command.kind, OpKind::Discard | OpKind::WriteZeroes) {
            self.drop_units(command.range, unit_sectors);
        } else if stores(command) {
            for (number, within) in parts(command.range, unit_sectors) {
                *self.0.entry(number).or_default() |= bits(within, unit_sectors);
            }
        }
    }

    /// Drops the units that `range` covers wholly. The work is that of the chunks with data.
    fn drop_units(&mut self, range: SectorRange, unit_sectors: u64) {
        let chunk_sectors = CHUNK_UNITS * unit_sectors;
        let numbers = range.start.0 / chunk_sectors..range.end().0.div_ceil(chunk_sectors);
        let chunks: Vec<u64> = self.0.range(numbers).map(|(&number, _)| number).collect();
        for number in chunks {
            let first = number * chunk_sectors;
            let (start, end) = (range.start.0.max(first), range.end().0.min(first + chunk_sectors));
            let within = SectorRange::new(start - first, end - start);
            let left = self.of(number) & !whole_bits(within, unit_sectors);
            if left == 0 {
                self.0.remove(&number);
            } else {
                self.0.insert(number, left);
            }
        }
    }

    /// Returns the units of a chunk that hold data.
    pub(super) fn of(&self, chunk: u64) -> u64 {
        self.0.get(&chunk).copied().unwrap_or(0)
    }

    /// Returns the number of units that hold data, in all chunks.
    pub(super) fn units(&self) -> u64 {
        self.0.values().map(|held| u64::from(held.count_ones())).sum()
    }

    /// Returns the ranges of the drive that hold data.
    pub(super) fn ranges(&self, unit_sectors: u64) -> Vec<SectorRange> {
        let chunks = self.0.iter().flat_map(|(&number, &held)| {
            runs(held).map(move |(first, units)| (number * CHUNK_UNITS + u64::from(first), u64::from(units)))
        });
        chunks.map(|(first, units)| SectorRange::new(first * unit_sectors, units * unit_sectors)).collect()
    }
}

/// Returns the runs of set bits in `mask`: the first bit and the number of bits of each.
pub(super) fn runs(mut mask: u64) -> impl Iterator<Item = (u32, u32)> {
    std::iter::from_fn(move || {
        let first = (mask != 0).then(|| mask.trailing_zeros())?;
        let run = (mask >> first).trailing_ones();
        mask = if first + run == u64::BITS { 0 } else { mask & (u64::MAX << (first + run)) };
        Some((first, run))
    })
}

/// Returns the number of sectors of all written units of `chunks`.
pub(super) fn sectors(chunks: &[Chunk], unit_sectors: u64) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.units.count_ones())).sum::<u64>() * unit_sectors
}

/// Returns the chunks that `range` touches, and the touched part of each, relative to the chunk's
/// first sector.
pub(super) fn parts(range: SectorRange, unit_sectors: u64) -> impl Iterator<Item = (u64, SectorRange)> {
    let size = unit_sectors * CHUNK_UNITS;
    let (start, end) = (range.start.0, range.end().0);
    let chunks = if start < end { start / size..end.div_ceil(size) } else { 0..0 };
    chunks.map(move |number| {
        let (from, to) = (start.max(number * size), end.min((number + 1) * size));
        (number, SectorRange::new(from - number * size, to - from))
    })
}

/// Returns a bit for each unit that `within`, a part of a chunk, touches.
pub(super) fn bits(within: SectorRange, unit_sectors: u64) -> u64 {
    between(within.start.0 / unit_sectors, within.end().0.div_ceil(unit_sectors))
}

/// Returns a bit for each unit that `within`, a part of a chunk, covers wholly.
fn whole_bits(within: SectorRange, unit_sectors: u64) -> u64 {
    between(within.start.0.div_ceil(unit_sectors), within.end().0 / unit_sectors)
}

/// Returns a bit for each unit from `first` up to `end`.
fn between(first: u64, end: u64) -> u64 {
    let below = |unit: u64| if unit >= CHUNK_UNITS { u64::MAX } else { (1 << unit) - 1 };
    below(end) & !below(first)
}

/// Returns the SplitMix64 finaliser of `value`: neighbouring values have unrelated hashes.
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
        // Units have 8 sectors, chunks 512. The first write covers the last unit of chunk 0 and the
        // first two of chunk 1. The second writes one of these again.
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
