//! Admission: the rule that decides which uncached blocks may enter a cache. Every scheme that
//! caches blocks has the parameter `admission`.
//!
//! - `all`: every block.
//! - Rule `write-size:SIZE`: blocks of a write of at least SIZE may not enter.
//! - Rule `n-hit:N`: a block may enter once it was requested N times while it was not cached. The
//!   counts cover about as many blocks as the cache has slots. The counts lie in sets of four
//!   blocks; the block of the set that was requested longest ago is forgotten first. A read of
//!   several blocks brings all its blocks into the cache together, once each of the blocks was
//!   requested often enough.
//! - Rule `sequential:SIZE`: blocks of adjacent requests that together reach SIZE may not enter.
//! - Rule `wear-budget:SIZE/d`: at most SIZE is written to slots in a day, blocks that are already
//!   cached included. A write beyond the budget goes to home, and the block's copy is dropped. The
//!   budget is a token bucket that holds as much as an hour may write. So no day writes more than a
//!   twenty-fourth more than its budget, plus the writes that were under way when the bucket ran
//!   empty. A partial write to a block whose newest content lies only in a slot is written to a
//!   slot regardless of the budget.

use super::replacement::Key;
use super::streams::Streams;
use crate::block::{Block, BlockRun};
use crate::layout::Layout;
use crate::operation::OpKind;
use crate::scheme::{Access, Reason, View};
use crate::settings::{AdmissionRule as Rule, Parameter, Settings, parameters};
use crate::units::{Bytes, Nanoseconds};

parameters! {
    /// Parameters of every scheme that caches blocks.
    struct Parameters {
        /// rule for the blocks that may enter the cache; all: every block; write-size:SIZE: no
        /// write of at least SIZE; n-hit:N: blocks requested N times; sequential:SIZE: no stream of
        /// at least SIZE; wear-budget:SIZE/d: as many blocks as SIZE bytes written to the SSD in a
        /// day allow
        admission: Rule = "all",
    }
}

/// Parameter `admission` of every scheme that caches blocks.
pub const PARAMETER: Parameter = Parameters::LIST[0];

/// The block was not requested often enough.
pub const FEW_HITS: Reason = Reason("few-hits");
/// More would have been written to slots than the budget allows.
pub const WEAR_BUDGET: Reason = Reason("wear-budget");

/// Every reason of an admission rule, with its meaning.
pub const REASONS: [(Reason, &str); 4] = [
    (Reason::LARGE, "admission=write-size: the write has at least the rule's size"),
    (FEW_HITS, "admission=n-hit: the block was not requested often enough"),
    (Reason::SEQUENTIAL, "admission=sequential: the stream has at least the rule's size"),
    (WEAR_BUDGET, "admission=wear-budget: the SSD has taken all the writes that the budget allows"),
];

/// State of an admission rule, which gives the reason for which a block is not admitted.
trait Admission: Send {
    /// Notes that a request has arrived. Called once for each request, before any question about
    /// the request.
    fn arrived(&mut self, view: &View, access: &Access) {
        let _ = (view, access);
    }

    /// Returns the reason for which `block` of `access` is not admitted; `None` if the block is
    /// admitted. `cached` is true if the block has a copy in a slot.
    fn refuses(&self, view: &View, access: &Access, block: Block, cached: bool) -> Option<Reason>;

    /// Returns the largest number of blocks for which one answer holds.
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// Notes that a slot was written.
    fn wrote(&mut self) {}
}

/// Admission rule of a scheme. A gate without a rule (`None`) admits every block.
pub struct Gate(Option<Box<dyn Admission>>);

impl Gate {
    /// Returns the rule that `settings` name, for a cache with this layout.
    pub fn new(settings: &Settings, layout: &Layout) -> Self {
        let slots = layout.slots.map_or(0, |slots| slots.count);
        Self(match Parameters::of(settings).admission {
            Rule::All | Rule::NHit(1) => None,
            Rule::WriteSize(size) => Some(Box::new(WriteSize(size))),
            Rule::NHit(hits) => Some(Box::new(NHit::new(hits, slots))),
            Rule::Sequential(size) => Some(Box::new(Sequential { size, streams: Streams::default() })),
            Rule::WearBudget(day) => Some(Box::new(WearBudget::new(day, layout.block.bytes()))),
        })
    }

    /// [`Scheme::arrived`](crate::scheme::Scheme::arrived).
    #[inline]
    pub fn arrived(&mut self, view: &View, access: &Access) {
        if let Some(admission) = &mut self.0 {
            admission.arrived(view, access);
        }
    }

    /// [`Scheme::mapped`](crate::scheme::Scheme::mapped).
    #[inline]
    pub fn mapped(&mut self) {
        if let Some(admission) = &mut self.0 {
            admission.wrote();
        }
    }

    /// Returns the reason for which the first blocks of `rest`, which `access` writes, are not
    /// admitted, or `None`; and the number of leading blocks with the same answer.
    #[inline]
    pub fn of_write(&self, view: &View, access: &Access, rest: BlockRun) -> (Option<Reason>, u64) {
        let Some(admission) = &self.0 else { return (None, rest.count) };
        let answer = |block| admission.refuses(view, access, block, view.map.get(block).is_some());
        let first = answer(rest.first);
        let limit = if first.is_none() { admission.room().max(1) } else { u64::MAX };
        let alike = rest.blocks().take_while(|&block| answer(block) == first).count() as u64;
        (first, alike.min(limit))
    }

    /// Returns the reason for which `missing`, which `access` reads from home, is not admitted, or
    /// `None`.
    #[inline]
    pub fn of_read(&self, view: &View, access: &Access, missing: BlockRun) -> Option<Reason> {
        let admission = self.0.as_ref()?;
        missing.blocks().find_map(|block| admission.refuses(view, access, block, false))
    }
}

struct WriteSize(Bytes);

impl Admission for WriteSize {
    fn refuses(&self, _view: &View, access: &Access, _block: Block, cached: bool) -> Option<Reason> {
        let large = access.kind != OpKind::Read && access.sectors.len.bytes() >= self.0;
        (large && !cached).then_some(Reason::LARGE)
    }
}

struct Sequential {
    size: Bytes,
    streams: Streams,
}

impl Admission for Sequential {
    fn arrived(&mut self, _view: &View, access: &Access) {
        self.streams.note(access.kind, access.sectors);
    }

    fn refuses(&self, _view: &View, access: &Access, _block: Block, cached: bool) -> Option<Reason> {
        let long = !cached && self.streams.length(access.kind, access.sectors) >= self.size;
        long.then_some(Reason::SEQUENTIAL)
    }
}

const WAYS: usize = 4;

/// Requested blocks of one set, from the most recently to the least recently requested.
#[derive(Clone, Copy, Default)]
struct Asked {
    keys: [u32; WAYS],
    /// Number of requests of each block; 0 where the entry is empty.
    times: [u8; WAYS],
}

struct NHit {
    hits: u8,
    sets: Vec<Asked>,
}

impl NHit {
    fn new(hits: u8, slots: u32) -> Self {
        Self { hits, sets: vec![Asked::default(); (slots as usize).div_ceil(WAYS).max(1)] }
    }

    fn set_of(&self, key: Key) -> usize {
        ((u64::from(key.0.wrapping_mul(0x9e37_79b1)) * self.sets.len() as u64) >> 32) as usize
    }

    fn place(set: &Asked, key: Key) -> Option<usize> {
        (0..WAYS).find(|&way| set.times[way] > 0 && set.keys[way] == key.0)
    }

    fn count(&mut self, key: Key) {
        let at = self.set_of(key);
        let set = &mut self.sets[at];
        let way = Self::place(set, key);
        let times = way.map_or(0, |way| set.times[way]);
        let last = way.unwrap_or(WAYS - 1);
        set.keys[..=last].rotate_right(1);
        set.times[..=last].rotate_right(1);
        (set.keys[0], set.times[0]) = (key.0, times.saturating_add(1));
    }

    fn times(&self, key: Key) -> u8 {
        let set = &self.sets[self.set_of(key)];
        Self::place(set, key).map_or(0, |way| set.times[way])
    }
}

impl Admission for NHit {
    fn arrived(&mut self, view: &View, access: &Access) {
        for block in access.blocks.blocks() {
            if view.map.get(block).is_none() {
                self.count(Key::from(block));
            }
        }
    }

    fn refuses(&self, _view: &View, _access: &Access, block: Block, cached: bool) -> Option<Reason> {
        (!cached && self.times(Key::from(block)) < self.hits).then_some(FEW_HITS)
    }
}

const DAY: i128 = 24 * HOUR;
const HOUR: i128 = 3_600_000_000_000;

struct WearBudget {
    /// Budget of a day, in bytes.
    day: i128,
    /// Size of a block, in bytes.
    block: i128,
    /// Budget that is left, in bytes times the nanoseconds of a day. Negative if more than the
    /// budget was written.
    left: i128,
    /// Time of the last request; `None` before the first request. Slots that were filled before the
    /// first request cost no budget.
    last: Option<Nanoseconds>,
}

impl WearBudget {
    fn new(day: Bytes, block: Bytes) -> Self {
        let day = i128::from(day.0);
        Self { day, block: i128::from(block.0), left: day * HOUR, last: None }
    }
}

impl Admission for WearBudget {
    fn arrived(&mut self, view: &View, _access: &Access) {
        let passed = view.now.saturating_sub(self.last.unwrap_or(view.now));
        self.last = Some(view.now);
        self.left = (self.left + self.day * i128::from(passed.0)).min(self.day * HOUR);
    }

    fn refuses(&self, _view: &View, _access: &Access, _block: Block, _cached: bool) -> Option<Reason> {
        (self.left <= 0).then_some(WEAR_BUDGET)
    }

    fn room(&self) -> u64 {
        u64::try_from(self.left / (self.block * DAY)).unwrap_or(0)
    }

    fn wrote(&mut self) {
        if self.last.is_some() {
            self.left -= self.block * DAY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OpKind::{Read, Write};
    use crate::testing::Bench;

    /// Schemes of the test: all schemes with the parameter `admission`, so that a new scheme is
    /// tested without a change of this test.
    fn schemes() -> impl Iterator<Item = &'static str> {
        let has = |info: &&&crate::scheme::SchemeInfo| {
            info.parameters.iter().any(|known| known.kind == crate::settings::Kind::Admission)
        };
        crate::schemes::ALL.iter().filter(has).map(|info| info.name)
    }

    fn bypassed(bench: &Bench, reason: Reason) -> u64 {
        bench.volume.statistics().bypassed_blocks.get(&reason).copied().unwrap_or(0)
    }

    #[test]
    fn a_large_write_passes_by_and_a_small_one_comes_in() {
        for scheme in schemes() {
            let mut bench = Bench::new(scheme, &[("admission", "write-size:64KiB")]);
            bench.request(Write, 0, 128);
            assert_eq!(bench.take_log(), ["hdd write 128"], "{scheme}");
            assert_eq!(bypassed(&bench, Reason::LARGE), 16, "{scheme}");
            bench.request(Write, 8000, 8);
            assert_eq!(bypassed(&bench, Reason::LARGE), 16, "{scheme}");
        }
    }

    #[test]
    fn a_block_comes_in_when_it_is_asked_for_the_third_time() {
        for scheme in schemes() {
            let mut bench = Bench::new(scheme, &[("admission", "n-hit:3")]);
            for times in 1..=2 {
                bench.request(Write, 80, 8);
                assert_eq!(bench.take_log(), ["hdd write 8"], "{scheme}");
                assert_eq!(bypassed(&bench, FEW_HITS), times, "{scheme}");
            }
            bench.request(Write, 80, 8);
            assert_eq!(bypassed(&bench, FEW_HITS), 2, "{scheme}");
        }
    }

    #[test]
    fn a_long_stream_of_writes_passes_by_from_the_size_on() {
        for scheme in schemes() {
            let mut bench = Bench::new(scheme, &[("admission", "sequential:64KiB")]);
            (0..40).for_each(|at| bench.request(Write, 8000 + at * 8, 8));
            assert_eq!(bypassed(&bench, Reason::SEQUENTIAL), 25, "{scheme}");
        }
    }

    /// In one day every scheme writes at most the daily budget and an hour's share of it to slots.
    #[test]
    fn wear_budget_bounds_slot_writes_in_a_day() {
        for scheme in schemes() {
            let mut bench = Bench::new(scheme, &[("admission", "wear-budget:24MiB/d")]);
            let second = Nanoseconds::from_seconds(1);
            for request in 0..24 * 3600 {
                bench.request(Write, request % 100 * 80, 8);
                bench.pass(second);
            }
            let written = bench.volume.statistics().written_blocks_to_slots * 4096;
            let (least, most) = (Bytes::from_mib(20).0, Bytes::from_mib(25).0);
            assert!(written <= most, "{scheme}: {written}");
            // A scheme may have other reasons not to cache some of the writes.
            assert!(written >= least || bypassed(&bench, WEAR_BUDGET) == 0, "{scheme}: {written}");
            assert!(bypassed(&bench, WEAR_BUDGET) > 0 || written < least, "{scheme}: nothing was refused");
        }
    }

    /// The table of uncached blocks keeps the keys of the blocks that were requested most recently.
    #[test]
    fn n_hit_memory_keeps_the_most_recent_keys() {
        let mut memory = NHit::new(2, 4);
        assert_eq!(memory.sets.len(), 1);
        (1..=5).for_each(|key| memory.count(Key(key)));
        assert_eq!([1, 2, 5].map(|key| memory.times(Key(key))), [0, 1, 1]);
        memory.count(Key(2));
        memory.count(Key(6));
        assert_eq!([2, 3, 6].map(|key| memory.times(Key(key))), [2, 0, 1]);
    }

    #[test]
    fn a_read_is_admitted_by_the_same_rules() {
        let mut bench = Bench::new("smart-response", &[("admission", "n-hit:2")]);
        bench.request(Read, 80, 16);
        assert_eq!(bench.take_log(), ["hdd read 16"]);
        bench.request(Read, 80, 8);
        assert_eq!(bench.take_log(), ["hdd read 8", "ssd write 8"], "asked for twice");
        bench.request(Read, 88, 16);
        assert_eq!(bench.take_log(), ["hdd read 16"], "one of the two was not");
        assert_eq!(bypassed(&bench, FEW_HITS), 4);
    }
}
