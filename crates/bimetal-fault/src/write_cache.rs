//! The volatile write cache of a drive: the changes that a power cut may lose, and the ways in
//! which a cut loses these changes.
//!
//! The drive has its newest content, and the cache has the stable content of the medium. The cache
//! also keeps, in order, every completed change that no flush has covered. At a power cut, any part
//! of those changes and of the changes in flight may reach the medium. So a newer change may reach
//! the medium without an older change. Of a write, all sectors, some sectors or no sectors may
//! reach the medium. After the power cut, all that reached the medium is stable.

use std::collections::VecDeque;

use crate::content::Content;
use crate::payload::{Sector, Tags};
use crate::random::Random;

/// Way in which a power cut loses changes: the changes that reach the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Nothing unflushed reaches the medium.
    LosesAll,
    /// Everything reaches the medium, including changes in flight.
    KeepsAll,
    /// All completed changes reach the medium, and no change in flight.
    KeepsCompleted,
    /// The first changes reach the medium, the last of them in part.
    KeepsFirst,
    /// All changes but one reach the medium.
    LosesOne,
    /// One change reaches the medium.
    KeepsOne,
    /// Each change reaches the medium whole, in part or not, by chance.
    Changes,
    /// Each sector reaches the medium or not, by chance.
    Sectors,
}

const MANNERS: [Manner; 8] = [
    Manner::LosesAll,
    Manner::KeepsAll,
    Manner::KeepsCompleted,
    Manner::KeepsFirst,
    Manner::LosesOne,
    Manner::KeepsOne,
    Manner::Changes,
    Manner::Sectors,
];

/// A change of content: runs of sectors, and sectors that were unreadable before the change.
#[derive(Default)]
pub(crate) struct Change {
    number: u64,
    pieces: Vec<(u64, Tags)>,
    pub(crate) repaired: Vec<u64>,
}

impl Change {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Adds `value` at sector `at`.
    pub(crate) fn push(&mut self, at: u64, value: Sector) {
        match self.pieces.last_mut() {
            Some((first, sectors)) if *first + sectors.len() == at => sectors.push(value, 1),
            _ => self.pieces.push((at, Tags::from_iter([value]))),
        }
    }

    /// Adds `sectors` from sector `first` on.
    pub(crate) fn push_all(&mut self, first: u64, sectors: Tags) {
        self.pieces.push((first, sectors));
    }

    fn len(&self) -> u64 {
        self.pieces.iter().map(|(_, sectors)| sectors.len()).sum()
    }

    fn sectors(&self) -> impl Iterator<Item = (u64, Sector)> {
        self.pieces.iter().flat_map(|(first, sectors)| (*first..).zip(sectors.iter()))
    }
}

/// Part of one change that reaches the medium.
#[derive(Clone, Copy)]
enum Share {
    Nothing,
    First(u64),
    Last(u64),
    BySector,
    All,
}

impl Share {
    fn draw(random: &mut Random, len: u64) -> Self {
        match random.below(8) {
            0..=2 => Self::Nothing,
            3..=4 => Self::All,
            5 => Self::First(random.below(len + 1)),
            6 => Self::Last(random.below(len + 1)),
            _ => Self::BySector,
        }
    }

    fn has(self, at: u64, len: u64, random: &mut Random) -> bool {
        match self {
            Self::Nothing => false,
            Self::First(count) => at < count,
            Self::Last(count) => at + count >= len,
            Self::BySector => random.one_in(2),
            Self::All => true,
        }
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct WriteCache {
    medium: Content,
    unstable: VecDeque<Change>,
}

impl WriteCache {
    /// Keeps a change that completed and is not flushed.
    pub(crate) fn keep(&mut self, change: Change) {
        self.unstable.push_back(change);
    }

    /// Puts a stable sector on the medium.
    pub(crate) fn set_stable(&mut self, sector: u64, value: Sector, number: u64) {
        self.medium.set(sector, value, number);
    }

    /// Applies a flush that covers every change up to `number`, except changes that the drive has
    /// lost.
    pub(crate) fn flush(&mut self, number: u64, is_forgotten: impl Fn(u64) -> bool) {
        let mut forgotten = Vec::new();
        while let Some(change) = self.unstable.pop_front_if(|change| change.number <= number) {
            if is_forgotten(change.number) {
                forgotten.push(change);
                continue;
            }
            for (at, value) in change.sectors() {
                if self.medium.change(at) <= change.number {
                    self.medium.set(at, value, change.number);
                }
            }
        }
        forgotten.into_iter().rev().for_each(|change| self.unstable.push_front(change));
    }

    /// Returns the sectors of which the medium lacks a change that `wanted` selects, or a newer
    /// change.
    pub(crate) fn missing(&self, wanted: impl Fn(u64) -> bool) -> impl Iterator<Item = u64> {
        let changes = self.unstable.iter().filter(move |change| wanted(change.number));
        changes.flat_map(|change| {
            let missing = |at: &u64| self.medium.change(*at) < change.number;
            change.sectors().map(|(at, _)| at).filter(missing)
        })
    }

    /// Cuts the power with the changes `under_way` in flight. Reduces `content` to the content that
    /// survives the cut. Returns the manner of the cut, and the sectors that are unreadable because
    /// the cut has lost the write that had repaired these sectors.
    pub(crate) fn cut(
        &mut self,
        content: &mut Content,
        under_way: Vec<Change>,
        random: &mut Random,
    ) -> (Manner, Vec<u64>) {
        let manner = random.pick(&MANNERS);
        let completed = self.unstable.len();
        let mut changes: Vec<Change> = std::mem::take(&mut self.unstable).into();
        changes.extend(under_way);
        let chosen = random.below(changes.len() as u64 + 1) as usize;
        for (index, change) in changes.iter().enumerate() {
            let len = change.len();
            let share = match manner {
                Manner::LosesAll => Share::Nothing,
                Manner::KeepsAll => Share::All,
                Manner::KeepsCompleted if index < completed => Share::All,
                Manner::KeepsFirst if index < chosen => Share::All,
                Manner::KeepsFirst if index == chosen => Share::First(random.below(len + 1)),
                Manner::KeepsCompleted | Manner::KeepsFirst => Share::Nothing,
                Manner::LosesOne => [Share::All, Share::Nothing][usize::from(index == chosen)],
                Manner::KeepsOne => [Share::Nothing, Share::All][usize::from(index == chosen)],
                Manner::Changes => Share::draw(random, len),
                Manner::Sectors => Share::BySector,
            };
            for (into, (at, value)) in change.sectors().enumerate() {
                if share.has(into as u64, len, random) && self.medium.change(at) <= change.number {
                    self.medium.set(at, value, change.number);
                }
            }
        }
        let mut unreadable = Vec::new();
        for change in &changes {
            let lost = |&at: &u64| self.medium.change(at) < change.number;
            unreadable.extend(change.repaired.iter().copied().filter(lost));
            for (at, _) in change.sectors() {
                content.set(at, self.medium.sector(at), 0);
            }
        }
        (manner, unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    /// Returns the writers of sectors 0..4 after writes 1, 2, ... to all four sectors, followed by
    /// a cut. Writes up to `flushed` are flushed.
    fn after_cut(seed: u64, flushed: u64, completed: u64, under_way: u64) -> Vec<u32> {
        let mut cache = WriteCache::default();
        let mut content = Content::default();
        let change = |number: u64| {
            let mut change = Change::new(number);
            change.push_all(0, Tags::written(number as u32, 0, 4));
            change
        };
        for number in 1..=completed {
            for at in 0..4 {
                content.set(at, Tags::written(number as u32, at, 1).at(0), number);
            }
            cache.keep(change(number));
        }
        cache.flush(flushed, |_| false);
        let under_way = (1..=under_way).map(|number| change(completed + number)).collect();
        cache.cut(&mut content, under_way, &mut Random::new(seed));
        let value = |sector: Sector| match sector {
            Sector::Data { request, .. } => request,
            _ => 0,
        };
        (0..4).map(|at| value(content.sector(at))).collect()
    }

    /// A power cut never takes flushed values. Every combination of later changes may be lost.
    #[test]
    fn cut_keeps_flushed_values_and_may_take_any_other() {
        let mut seen = BTreeSet::new();
        for seed in 0..5000 {
            let values = after_cut(seed, 2, 4, 1);
            assert!(values.iter().all(|value| (2..=5).contains(value)), "{values:?}");
            seen.insert(values);
        }
        for expected in
            [[2, 2, 2, 2], [3, 3, 3, 3], [4, 4, 4, 4], [5, 5, 5, 5], [3, 3, 2, 2], [2, 3, 4, 5], [4, 2, 3, 3]]
        {
            assert!(seen.contains(expected.as_slice()), "{expected:?} never happens");
        }
    }

    /// A write that was stable at once is not undone when a cut loses an older change.
    #[test]
    fn forced_write_is_not_undone_by_an_older_change() {
        for seed in 0..100 {
            let mut cache = WriteCache::default();
            let mut content = Content::default();
            let mut older = Change::new(1);
            older.push(0, Sector::Zero);
            cache.keep(older);
            let value = Tags::written(7, 0, 1).at(0);
            cache.set_stable(0, value.clone(), 2);
            cache.cut(&mut content, Vec::new(), &mut Random::new(seed));
            assert_eq!(content.sector(0), value);
        }
    }

    /// A sector is unreadable again after a cut that loses the write that had repaired the sector.
    #[test]
    fn repaired_sector_is_unreadable_again_if_its_write_is_lost() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..100 {
            let mut cache = WriteCache::default();
            let mut content = Content::default();
            let mut change = Change::new(1);
            change.push_all(3, Tags::written(1, 3, 1));
            change.repaired.push(3);
            cache.keep(change);
            let (_, unreadable) = cache.cut(&mut content, Vec::new(), &mut Random::new(seed));
            assert_eq!(unreadable.is_empty(), content.sector(3) != Sector::Zero);
            outcomes.insert(unreadable);
        }
        assert_eq!(outcomes.len(), 2);
    }
}
