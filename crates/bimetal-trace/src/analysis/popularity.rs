//! Ranks blocks by overwrites, and measures the share of overwrites and reads of the most
//! overwritten (Griffin section 4.3).

use serde::Serialize;

use super::blocks::BlockTable;

/// Largest number of groups, with equal numbers of blocks, in the histogram of the most overwritten
/// blocks.
const HISTOGRAM_GROUPS: usize = 100;

/// Group of blocks of successive ranks among the most overwritten, with the accesses to all blocks
/// of the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct TopBlocks {
    /// Number of blocks in the group.
    pub blocks: u64,
    /// Number of writes to the blocks over the whole trace.
    pub writes: u64,
    /// Number of reads of the blocks over the whole trace.
    pub reads: u64,
}

/// Distribution of overwrites over the written blocks. Without written blocks all fields are
/// `None`.
#[derive(Default)]
pub(super) struct Popularity {
    /// Share of the overwrites in the most overwritten hundredth of the written blocks; `None`
    /// without overwrites.
    pub(super) overwrites_in_top: Option<f64>,
    /// Number of reads of the most overwritten hundredth.
    pub(super) reads_of_top: Option<u64>,
    /// Pairs of a share of the written blocks, most overwritten first, and the share of overwrites
    /// in these blocks.
    pub(super) overwrite_cdf: Option<Vec<[f64; 2]>>,
    /// Most overwritten hundredth by falling rank, in at most a hundred groups.
    pub(super) top_histogram: Option<Vec<TopBlocks>>,
}

impl Popularity {
    /// Ranks the written blocks of `table` by overwrites, equal blocks by device, then by block
    /// number.
    pub(super) fn of(table: &BlockTable) -> Self {
        let mut writes: Vec<u32> = table.touched().map(|state| state.writes()).filter(|writes| *writes > 0).collect();
        if writes.is_empty() {
            return Self::default();
        }
        writes.sort_unstable_by(|a, b| b.cmp(a));
        let top = top_blocks(table, &writes);
        Self {
            overwrites_in_top: overwrites_at(&writes, &[top.len()]).map(|shares| shares[0]),
            reads_of_top: Some(top.iter().map(|block| u64::from(block.reads)).sum()),
            overwrite_cdf: overwrite_cdf(&writes),
            top_histogram: Some(histogram(&top)),
        }
    }
}

#[derive(Clone, Copy)]
struct Counts {
    writes: u32,
    reads: u32,
}

/// Returns the ceil(1 %) most overwritten blocks, most overwritten first. `falling` holds the
/// number of writes of every written block.
fn top_blocks(table: &BlockTable, falling: &[u32]) -> Vec<Counts> {
    let count = falling.len().div_ceil(100);
    let least = falling[count - 1];
    let mut equals_left = count - falling.partition_point(|writes| *writes > least);
    let mut top: Vec<Counts> = Vec::with_capacity(count);
    for state in table.in_order() {
        let counts = Counts { writes: state.writes(), reads: state.reads() };
        if counts.writes > least {
            top.push(counts);
        } else if counts.writes == least && equals_left > 0 {
            equals_left -= 1;
            top.push(counts);
        }
    }
    assert_eq!(top.len(), count, "ranking by counts and walking the blocks agree");
    top.sort_by_key(|counts| std::cmp::Reverse(counts.writes));
    top
}

/// Returns the shares of all overwrites in the first `ranks[i]` blocks, for ascending ranks; `None`
/// without overwrites.
fn overwrites_at(falling: &[u32], ranks: &[usize]) -> Option<Vec<f64>> {
    let overwrites = |blocks: &[u32]| blocks.iter().map(|writes| u64::from(*writes) - 1).sum::<u64>();
    let total = overwrites(falling);
    let mut counted = 0;
    let mut sum = 0;
    let shares = ranks.iter().map(|&rank| {
        sum += overwrites(&falling[counted..rank]);
        counted = rank;
        sum as f64 / total as f64
    });
    (total > 0).then(|| shares.collect())
}

/// Returns points at every thousandth of the blocks up to the first hundredth, then at every
/// hundredth.
fn overwrite_cdf(falling: &[u32]) -> Option<Vec<[f64; 2]>> {
    let thousandths: Vec<usize> = (0..10).chain((10..=1000).step_by(10)).collect();
    let ranks: Vec<usize> = thousandths.iter().map(|part| (falling.len() * part).div_ceil(1000)).collect();
    let shares = overwrites_at(falling, &ranks)?;
    Some(thousandths.iter().zip(shares).map(|(&part, share)| [part as f64 / 1000.0, share]).collect())
}

fn histogram(top: &[Counts]) -> Vec<TopBlocks> {
    let groups = top.len().min(HISTOGRAM_GROUPS);
    (0..groups)
        .map(|group| &top[group * top.len() / groups..(group + 1) * top.len() / groups])
        .map(|blocks| TopBlocks {
            blocks: blocks.len() as u64,
            writes: blocks.iter().map(|counts| u64::from(counts.writes)).sum(),
            reads: blocks.iter().map(|counts| u64::from(counts.reads)).sum(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::Nanoseconds;

    use super::*;

    /// Returns a table of one device whose block `i` has `accesses[i]` writes and reads.
    fn table(accesses: &[(u32, u32)]) -> BlockTable {
        let mut table = BlockTable::new();
        for (block, &(writes, reads)) in accesses.iter().enumerate() {
            table.visit_range(0, block as u64, block as u64, |_, state| {
                (0..writes).for_each(|_| {
                    state.write(Nanoseconds::ZERO);
                });
                (0..reads).for_each(|_| {
                    state.read(Nanoseconds::ZERO);
                });
            });
        }
        table
    }

    #[test]
    fn one_percent_of_the_written_blocks_is_rounded_up() {
        let mut accesses = vec![(1, 0); 101];
        accesses[50] = (5, 1);
        accesses[60] = (3, 2);
        accesses[70] = (2, 4);
        let popularity = Popularity::of(&table(&accesses));
        assert_eq!(popularity.overwrites_in_top, Some(6.0 / 7.0));
        assert_eq!(popularity.reads_of_top, Some(3));
    }

    #[test]
    fn equally_overwritten_blocks_rank_by_their_number() {
        let popularity = Popularity::of(&table(&[(1, 0), (2, 10), (2, 20)]));
        assert_eq!(popularity.reads_of_top, Some(10));
    }

    #[test]
    fn blocks_only_read_are_no_written_blocks() {
        let popularity = Popularity::of(&table(&[(0, 5), (2, 0), (0, 1)]));
        assert_eq!(popularity.overwrites_in_top, Some(1.0));
        assert_eq!(popularity.reads_of_top, Some(0));
    }

    #[test]
    fn without_overwrites_shares_of_them_do_not_apply() {
        let popularity = Popularity::of(&table(&[(1, 1), (1, 0)]));
        assert_eq!((popularity.overwrites_in_top, popularity.overwrite_cdf), (None, None));
        assert_eq!(popularity.reads_of_top, Some(1));
        assert!(Popularity::of(&table(&[(0, 1)])).top_histogram.is_none());
    }

    #[test]
    fn the_curve_rises_to_one_and_passes_the_top_hundredth() {
        let accesses: Vec<(u32, u32)> = (0..5000).map(|block| (1 + block % 37, 0)).collect();
        let popularity = Popularity::of(&table(&accesses));
        let cdf = popularity.overwrite_cdf.unwrap();
        assert!(cdf.is_sorted_by(|a, b| a[0] < b[0] && a[1] <= b[1]));
        assert_eq!((cdf[0], *cdf.last().unwrap()), ([0.0, 0.0], [1.0, 1.0]));
        let top = cdf.iter().find(|point| point[0] == 0.01).unwrap()[1];
        assert_eq!(Some(top), popularity.overwrites_in_top);
    }

    #[test]
    fn the_histogram_holds_every_access_to_the_top_blocks() {
        let accesses: Vec<(u32, u32)> = (0..25_000).map(|block| (1 + block % 50, block % 3)).collect();
        let popularity = Popularity::of(&table(&accesses));
        let histogram = popularity.top_histogram.unwrap();
        assert_eq!(histogram.len(), 100);
        assert_eq!(histogram.iter().map(|group| group.blocks).sum::<u64>(), 250);
        assert_eq!(histogram.iter().map(|group| group.writes).sum::<u64>(), 250 * 50);
        assert_eq!(Some(histogram.iter().map(|group| group.reads).sum()), popularity.reads_of_top);
    }
}
