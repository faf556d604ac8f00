//! Hosts of simulated volumes. A host knows more than a device can see, and gives hints to the
//! scheme.
//!
//! Two parameters of `griffin` make a host that evicts blocks from a buffer cache, and the scheme
//! writes an evicted block back. Both are for simulations in which moves take no time:
//!
//! - `oracle=on`: the host evicts a block just before the host reads the block (Griffin, section
//!   3.2, the idealized cache).
//! - `eviction_hint=SIZE`: the host has a buffer cache of this size (Griffin, section 7). A block
//!   that is read or written is in the buffer cache until `SIZE` bytes of other blocks have been
//!   used since.
//!
//! `idle_periods=profiled` of `mixedstore` makes a host that knows its [idle periods](Planned).

use std::collections::HashMap;

use bimetal_core::block::{Block, BlockRun};
use bimetal_core::block_map::Slot;
use bimetal_core::operation::OpKind;
use bimetal_core::payload::NoPayload;
use bimetal_core::policies::lru::Lru;
use bimetal_core::scheme::{Access, Hints, Host, View};
use bimetal_core::settings::Settings;
use bimetal_core::units::Bytes;
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};

/// Parameter of schemes that move a block when a host evicts the block.
pub(crate) const EVICTION_HINT: &str = "eviction_hint";
const ORACLE: &str = "oracle";

/// Makes a simulated volume, with the host that its settings ask for.
///
/// # Errors
/// Returns the errors of [`Volume::new`].
pub(crate) fn volume_with_host(config: &VolumeConfig<'_>) -> Result<Volume<NoPayload>, VolumeError> {
    let mut volume = Volume::new(config)?;
    let oracle = config.settings.declared(ORACLE).unwrap_or(false);
    let block = config.layout.block.bytes();
    let cache = simulated_cache(config.settings).map(|size| BufferCache::new((size.0 / block.0).max(1) as u32));
    if oracle || cache.is_some() {
        volume.take_host(Box::new(Evicting { oracle, cache }));
    }
    Ok(volume)
}

/// Returns the size of the simulated buffer cache; `None` if no buffer cache is simulated.
pub(crate) fn simulated_cache(settings: &Settings) -> Option<Bytes> {
    settings.declared::<Option<Bytes>>(EVICTION_HINT).flatten()
}

/// Host that evicts blocks from its buffer cache.
struct Evicting {
    oracle: bool,
    cache: Option<BufferCache>,
}

impl Host for Evicting {
    fn requests(&mut self, view: &View, access: &Access, hints: &mut dyn Hints) {
        if self.oracle && access.kind == OpKind::Read {
            hints.evicted(view, access.blocks);
        }
        if let Some(cache) = &mut self.cache {
            let evicted = access.blocks.blocks().filter_map(|block| cache.use_block(block));
            evicted.for_each(|block| hints.evicted(view, BlockRun { first: block, count: 1 }));
        }
    }
}

/// Host that knows its idle periods, as a profile of the whole workload has them (MixedStore,
/// section 5.3).
pub(crate) struct Planned {
    /// For each idle period, the number of requests before the period, in order.
    idle_after: Vec<u64>,
    /// Index of the first idle period that has not begun.
    next: usize,
    requests: u64,
}

impl Planned {
    /// Returns a host with idle periods after these numbers of requests, in order.
    pub(crate) fn new(idle_after: Vec<u64>) -> Self {
        Self { idle_after, next: 0, requests: 0 }
    }
}

impl Host for Planned {
    fn requests(&mut self, _view: &View, _access: &Access, hints: &mut dyn Hints) {
        self.requests += 1;
        let over = self.idle_after[self.next..].iter().take_while(|&&after| after < self.requests);
        self.next += over.count();
        if self.idle_after.get(self.next) == Some(&self.requests) {
            hints.idle_follows();
        }
    }
}

/// Estimate of a host's buffer cache: the most recently used blocks, as far as a device sees the
/// uses in its requests.
struct BufferCache {
    /// Place of each block in the cache.
    places: HashMap<Block, Slot>,
    /// Block in each place that is in use.
    blocks: Vec<Block>,
    order: Lru,
    blocks_max: u32,
}

impl BufferCache {
    /// Returns an empty cache for `blocks_max` blocks.
    fn new(blocks_max: u32) -> Self {
        Self { places: HashMap::new(), blocks: Vec::new(), order: Lru::new(blocks_max), blocks_max }
    }

    /// Notes a read or write of `block`. Returns the block that is evicted for `block`.
    fn use_block(&mut self, block: Block) -> Option<Block> {
        if let Some(&place) = self.places.get(&block) {
            self.order.touch(place);
            return None;
        }
        let is_full = self.order.len() == self.blocks_max;
        let oldest = self.order.oldest_first().next().filter(|_| is_full);
        let evicted = oldest.map(|place| std::mem::replace(&mut self.blocks[place.0 as usize], block));
        let place = oldest.unwrap_or(Slot(self.blocks.len() as u32));
        match evicted {
            Some(evicted) => _ = self.places.remove(&evicted),
            None => self.blocks.push(block),
        }
        self.places.insert(block, place);
        self.order.touch(place);
        evicted
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::block::BlockSize;
    use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
    use bimetal_core::operation::{Command, Completion, Operation, Status, Token};
    use bimetal_core::schemes;
    use bimetal_core::units::{Nanoseconds, SectorRange};
    use bimetal_core::volume::Statistics;

    use super::*;

    fn griffin(settings: &[(&str, &str)]) -> Volume<NoPayload> {
        let scheme = schemes::find("griffin").unwrap();
        let settings = Settings::new(scheme.name, scheme.parameters, settings.iter().copied()).unwrap();
        let members = [Role::Ssd, Role::Hdd].map(|role| MemberInfo { role, capacity: Bytes::from_mib(16).sectors() });
        let layout = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        volume_with_host(&VolumeConfig { scheme, settings: &settings, layout, identity: 0, drives: &[] }).unwrap()
    }

    #[derive(Default)]
    struct Idles(u32);

    impl Hints for Idles {
        fn idle_follows(&mut self) {
            self.0 += 1;
        }
    }

    #[test]
    fn idle_period_is_reported_with_the_request_before_it() {
        let volume = griffin(&[]);
        let blocks = BlockRun { first: Block(0), count: 1 };
        let access = Access { kind: OpKind::Read, sectors: SectorRange::new(0, 8), blocks };
        let mut host = Planned::new(vec![0, 2, 2, 3, 5]);
        let reported = [1, 2, 3, 4, 5, 6].map(|_| {
            let mut idles = Idles::default();
            host.requests(volume.view(), &access, &mut idles);
            idles.0
        });
        assert_eq!(reported, [0, 1, 1, 0, 1, 0]);
    }

    /// Plays reads (`R`) and writes (`W`), each with the number of its block, on drives that answer
    /// at once. Returns the counters of the volume, and the number of blocks in the log.
    fn play(settings: &[(&str, &str)], requests: &[(char, u64)]) -> (Statistics, u64) {
        let instant = [("timeout", "off"), ("read_threshold", "off"), ("migration", "instant")];
        let mut volume = griffin(&[&instant, settings].concat());
        for (&(kind, block), token) in requests.iter().zip(1..) {
            let kind = if kind == 'R' { OpKind::Read } else { OpKind::Write };
            let command = Command { kind, range: SectorRange::new(block * 8, 8), fua: false };
            let request = Operation { token: Token(token), target: 0, command, payload: NoPayload };
            volume.submit(Nanoseconds::ZERO, request);
            while let Some(Operation { token, .. }) = volume.next_operation() {
                let done = Completion { token, status: Status::Done, payload: NoPayload };
                volume.complete(Nanoseconds::ZERO, done);
            }
            assert!(volume.next_finished().is_some());
        }
        (volume.statistics().clone(), volume.view().map.len())
    }

    /// Griffin, section 3.2: "WWW RWW [...] a sequence of operations to the SSD that contains two
    /// writes and one read".
    #[test]
    fn oracle_writes_back_before_each_read() {
        let requests = ['W', 'W', 'W', 'R', 'W', 'W'].map(|kind| (kind, 10));
        for (oracle, from_log, written) in [("on", 0, 2), ("off", 1, 1)] {
            let (statistics, in_log) = play(&[("oracle", oracle)], &requests);
            assert_eq!(statistics.read_blocks_from_slots, from_log);
            assert_eq!(statistics.home_blocks_written + in_log, written);
        }
    }

    #[test]
    fn block_that_leaves_the_buffer_cache_is_written_back() {
        let requests = [('W', 1), ('W', 2), ('W', 3), ('R', 1)];
        let (statistics, in_log) = play(&[("eviction_hint", "8KiB")], &requests);
        assert_eq!(statistics.read_blocks_from_slots, 0);
        assert_eq!((statistics.home_blocks_written, in_log), (2, 1), "the read evicts the second block");
        let (statistics, in_log) = play(&[], &requests);
        assert_eq!((statistics.read_blocks_from_slots, statistics.home_blocks_written, in_log), (1, 0, 3));
    }

    #[test]
    fn least_recently_used_block_leaves_the_buffer_cache() {
        let mut cache = BufferCache::new(2);
        let evicted: Vec<_> =
            [1, 2, 1, 3, 2, 2, 1].map(|block| cache.use_block(Block(block)).map(|block| block.0)).into();
        assert_eq!(evicted, [None, None, None, Some(2), Some(1), None, Some(3)]);
    }
}
