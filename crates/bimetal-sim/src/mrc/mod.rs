//! Miss ratios of caches of any size under any replacement policy, over a trace and without drives.
//!
//! A trace becomes a sequence of accesses to numbered objects ([`numbering`]). LRU needs one pass
//! for all sizes ([`reuse`]). Every other policy is played once for each size ([`mod@play`]), by
//! the policies of `bimetal-core`. On request, a sample of the objects represents all of them
//! ([`sample`]). [`measure`] combines these steps. Accesses that are played again and again are in
//! a temporary file ([`mod@column`]), so memory grows with the objects, not with the length of the
//! trace. A few requests that access very many blocks are refused ([`limit`]).

pub mod column;
pub mod limit;
pub mod numbering;
pub mod play;
pub mod reuse;
pub mod sample;

use std::fmt;
use std::io;
use std::str::FromStr;

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::policies::replacement::{OFFLINE_NAME, ONLINE_NAMES, online};
use bimetal_core::units::Bytes;
use bimetal_trace::Request;
use rayon::prelude::*;
use serde::Serialize;

use crate::outside::{Outside, OutsidePolicies};
use column::{Column, Room};
use limit::Limit;
use numbering::Numbering;
use play::{Accesses, play, play_belady};
use reuse::{Histogram, ReuseDistances};
use sample::Sample;

/// Unit of caching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Blocks of one size; a request accesses each block that it touches.
    Block(BlockSize),
    /// Whole requests: one object for each address at which a request starts, with the size of the
    /// first such request.
    Request,
}

/// Size of a cache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CacheSize {
    /// Number of objects.
    Objects(u32),
    /// Share of the distinct objects of the trace, rounded down.
    Share(f64),
    /// Number of bytes, converted to objects of mean size.
    Bytes(Bytes),
}

/// A text that is not the size of a cache.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{0}' is not a cache size: expected objects like 4897, a share of the distinct objects like 10%, or bytes like \
     64MiB"
)]
pub struct CacheSizeError(String);

impl FromStr for CacheSize {
    type Err = CacheSizeError;

    fn from_str(text: &str) -> Result<Self, CacheSizeError> {
        let error = || CacheSizeError(text.to_owned());
        if let Some(percent) = text.strip_suffix('%') {
            let share = percent.trim().parse::<f64>().map_err(|_| error())? / 100.0;
            return if share > 0.0 && share <= 1.0 { Ok(Self::Share(share)) } else { Err(error()) };
        }
        if let Ok(objects) = text.parse::<u32>() {
            return if objects > 0 && objects <= OBJECTS_MAX { Ok(Self::Objects(objects)) } else { Err(error()) };
        }
        match text.parse::<Bytes>() {
            Ok(bytes) if bytes > Bytes::ZERO && text.ends_with(|last: char| last.is_alphabetic()) => {
                Ok(Self::Bytes(bytes))
            }
            _ => Err(error()),
        }
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(objects) => write!(f, "{objects}"),
            Self::Share(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

/// Largest number of objects of a cache that is played.
pub const OBJECTS_MAX: u32 = 1 << 30;

/// Returns the names of all policies, in the order in which tables show them.
pub fn policies() -> impl Iterator<Item = &'static str> {
    ONLINE_NAMES.iter().copied().chain([OFFLINE_NAME])
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of [`policies`].
    pub policies: Vec<&'static str>,
    /// Sizes of the caches.
    pub sizes: Vec<CacheSize>,
    /// Unit of caching.
    pub unit: Unit,
    /// Share of the objects that represents all objects; with 1 the result is exact.
    pub sample: f64,
    /// Seed of the selection of the sampled objects.
    pub seed: u64,
}

/// Point of a curve.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Name of the policy.
    pub policy: String,
    /// Size of the cache in objects.
    pub size: u32,
    /// Share of the accesses that missed.
    pub miss_ratio: f64,
    /// Share of the bytes accessed that missed.
    pub byte_miss_ratio: f64,
    /// Half the width of the 95 % interval around `miss_ratio`, if the ratio comes from a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// Miss ratios of one trace.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MissRatios {
    /// Number of reads and writes of the trace. No other request accesses a cache.
    pub requests: u64,
    /// Unit: `block` or `request`.
    pub unit: &'static str,
    /// Number of distinct objects, estimated if only a sample was examined.
    pub objects: u64,
    /// Number of accesses to the objects.
    pub accesses: u64,
    /// Share of the objects that was examined, if not all objects were examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<f64>,
    /// Seed of the sample, if not all objects were examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Points for each policy and size, in the order in which they were requested.
    pub results: Vec<Point>,
}

/// Policy that is measured.
#[derive(Clone, Copy)]
enum Played<'a> {
    /// Name of [`policies`].
    Named(&'static str),
    /// Policy of another program.
    Outside(&'a OutsidePolicies),
}

/// Number of requests that are read at a time.
const READ_AT_A_TIME: usize = 512;

/// Number of accesses that are handled together, so that their waits (mostly for memory) overlap.
const LOOKED_AT_TOGETHER: usize = 256;

/// Measures the miss ratios of a trace. `read` appends the trace's next requests to a list while
/// the list has room, and appends nothing at the end of the trace.
///
/// # Errors
/// Fails with the error of reading the trace, or of a temporary file.
pub fn measure<E: From<io::Error>>(
    options: &Options,
    read: impl FnMut(&mut Vec<Request>) -> Result<(), E>,
) -> Result<MissRatios, E> {
    measure_with(options, &[], read)
}

/// Measures as [`measure`] does, also under policies of another program. The points of the other
/// program's policies come last.
///
/// # Errors
/// Returns the errors of [`measure`].
pub fn measure_with<E: From<io::Error>>(
    options: &Options,
    outside: &[OutsidePolicies],
    mut read: impl FnMut(&mut Vec<Request>) -> Result<(), E>,
) -> Result<MissRatios, E> {
    let mut gathering = Gathering::new(options, outside);
    let mut requests = Vec::with_capacity(READ_AT_A_TIME);
    loop {
        requests.clear();
        read(&mut requests)?;
        if requests.is_empty() {
            return Ok(gathering.finish(options, outside)?);
        }
        requests.iter().try_for_each(|request| gathering.request(request))?;
    }
}

/// State collected from a trace while it is read.
struct Gathering {
    unit: Unit,
    sample: Sample,
    numbering: Numbering,
    /// Reuse distances of LRU, if LRU is requested.
    reuse: Option<ReuseDistances>,
    histogram: Histogram,
    /// Accesses of the trace, if a policy must be played or the error of a sample be estimated.
    sequence: Option<Accesses>,
    /// Addresses of the accesses that are not handled yet; `waiting_bytes` are their bytes.
    waiting: Vec<u64>,
    waiting_bytes: Vec<u64>,
    /// Numbers of the objects of waiting accesses, and their reuse distances; the lists are kept to
    /// save allocations.
    numbers: Vec<u32>,
    distances: Vec<u32>,
    requests: u64,
    accesses: u64,
    /// Number of accesses to objects of the sample, and its limit.
    examined: u64,
    limit: Limit,
    bytes: u64,
    /// Sum of the sizes of the examined objects, each as of its first access.
    object_bytes: u64,
}

impl Gathering {
    fn new(options: &Options, outside: &[OutsidePolicies]) -> Self {
        let sample = Sample::new(options.sample, options.seed);
        let played = options.policies.iter().filter(|&&policy| policy != "lru").count() + outside.len();
        Self {
            unit: options.unit,
            sample,
            numbering: Numbering::default(),
            reuse: options.policies.contains(&"lru").then(ReuseDistances::default),
            histogram: Histogram::default(),
            sequence: (played > 0 || sample.is_partial()).then(Accesses::default),
            waiting: Vec::new(),
            waiting_bytes: Vec::new(),
            numbers: Vec::new(),
            distances: Vec::new(),
            requests: 0,
            accesses: 0,
            examined: 0,
            limit: Limit::new(played * options.sizes.len(), sample.is_partial()),
            bytes: 0,
            object_bytes: 0,
        }
    }

    fn request(&mut self, request: &Request) -> io::Result<()> {
        if !matches!(request.kind, OpKind::Read | OpKind::Write) {
            return Ok(());
        }
        self.requests += 1;
        let device = u64::from(request.device) << 40;
        match self.unit {
            Unit::Request => self.access(device ^ request.range.start.0, request.range.len.bytes().0),
            Unit::Block(size) => size.touched(request.range).blocks().try_for_each(|block| {
                let within = size.clip(request.range, block);
                self.access(device ^ block.0, within.len.bytes().0)
            }),
        }?;
        self.limit.check(self.requests, self.examined).map_err(io::Error::other)
    }

    #[inline]
    fn access(&mut self, id: u64, bytes: u64) -> io::Result<()> {
        self.accesses += 1;
        self.bytes += bytes;
        if !self.sample.takes(id) {
            return Ok(());
        }
        self.examined += 1;
        self.waiting.push(id);
        self.waiting_bytes.push(bytes);
        if self.waiting.len() == LOOKED_AT_TOGETHER { self.look() } else { Ok(()) }
    }

    /// Handles the waiting accesses, in their order.
    fn look(&mut self) -> io::Result<()> {
        let (unit, bytes, object_bytes) = (self.unit, &self.waiting_bytes, &mut self.object_bytes);
        self.numbering.number_all(&self.waiting, &mut self.numbers, |at| {
            *object_bytes += match unit {
                Unit::Block(size) => size.bytes().0,
                Unit::Request => bytes[at],
            };
        });
        if let Some(reuse) = &mut self.reuse {
            reuse.access_all(&self.numbers, &mut self.distances);
            self.distances.iter().zip(bytes).for_each(|(&distance, &bytes)| self.histogram.add(distance, bytes));
        }
        if let Some(sequence) = &mut self.sequence {
            self.numbers.iter().zip(bytes).try_for_each(|(&object, &bytes)| sequence.push(object, bytes))?;
        }
        self.waiting.clear();
        self.waiting_bytes.clear();
        Ok(())
    }

    fn finish(mut self, options: &Options, outside: &[OutsidePolicies]) -> io::Result<MissRatios> {
        self.look()?;
        let sizes: Vec<u32> = options.sizes.iter().map(|&size| self.objects_of(size)).collect();
        let looked_at = f64::from(self.numbering.len());
        let curves = Curves::new(&mut self, options)?;
        let named = options.policies.iter().copied().map(Played::Named);
        let policies = named.chain(outside.iter().map(Played::Outside));
        let pairs: Vec<(Played<'_>, u32)> =
            policies.flat_map(|policy| sizes.iter().map(move |&size| (policy, size))).collect();
        let results: io::Result<_> = pairs.into_par_iter().map(|(policy, size)| curves.point(policy, size)).collect();
        drop(curves);
        Ok(MissRatios {
            requests: self.requests,
            unit: match self.unit {
                Unit::Block(_) => "block",
                Unit::Request => "request",
            },
            objects: (looked_at / self.sample.rate()).round() as u64,
            accesses: self.accesses,
            sample: self.sample.is_partial().then(|| self.sample.rate()),
            seed: self.sample.is_partial().then_some(options.seed),
            results: results?,
        })
    }

    /// Returns a size in objects, at least one object.
    fn objects_of(&self, size: CacheSize) -> u32 {
        let looked_at = f64::from(self.numbering.len());
        let objects = match size {
            CacheSize::Objects(objects) => return objects,
            CacheSize::Share(share) => share * looked_at / self.sample.rate(),
            CacheSize::Bytes(bytes) => bytes.0 as f64 * looked_at / (self.object_bytes as f64).max(1.0),
        };
        // 29 % of 100 objects are 28.999999999999996 in binary.
        (objects * (1.0 + 4.0 * f64::EPSILON)).clamp(1.0, f64::from(OBJECTS_MAX)) as u32
    }
}

/// Input for the points of all curves.
struct Curves<'a> {
    gathering: &'a Gathering,
    whole: Accesses,
    whole_next_uses: Column,
    /// Reuse distance of each access, if LRU is measured by a sample.
    distances: Option<Column>,
}

impl<'a> Curves<'a> {
    fn new(gathering: &'a mut Gathering, options: &Options) -> io::Result<Self> {
        let whole = gathering.sequence.take().unwrap_or_default();
        let has_belady = options.policies.contains(&OFFLINE_NAME);
        let whole_next_uses = if has_belady { whole.next_uses()? } else { Column::default() };
        let has_lru = gathering.sample.is_partial() && gathering.reuse.is_some();
        let distances = has_lru.then(|| whole.distances()).transpose()?;
        Ok(Self { gathering, whole, whole_next_uses, distances })
    }

    fn point(&self, policy: Played<'_>, size: u32) -> io::Result<Point> {
        let Gathering { sample, accesses, bytes, .. } = self.gathering;
        let scaled = sample.scaled(size);
        let (missed, missed_bytes, error) = if sample.is_partial() {
            let (missed, missed_bytes, squares) = self.misses_of_objects(policy, scaled)?;
            let [below, above] = sample.nearby(scaled);
            let nearby = [self.misses(policy, below)?.0, self.misses(policy, above)?.0];
            (missed, missed_bytes, Some(sample.error(squares, nearby, *accesses)))
        } else {
            let (missed, missed_bytes) = self.misses(policy, scaled)?;
            (missed, missed_bytes, None)
        };
        Ok(Point {
            policy: match policy {
                Played::Named(name) => name.to_owned(),
                Played::Outside(policies) => policies.name.clone(),
            },
            size,
            miss_ratio: sample.ratio(missed, *accesses),
            byte_miss_ratio: sample.ratio(missed_bytes, *bytes),
            error,
        })
    }

    /// Returns the accesses and bytes that miss in a cache of `size` objects.
    fn misses(&self, policy: Played<'_>, size: u32) -> io::Result<(u64, u64)> {
        if let Played::Named("lru") = policy {
            return Ok(self.gathering.histogram.misses(size));
        }
        let mut missed = (0, 0);
        self.play(policy, size, |_, bytes| {
            missed.0 += 1;
            missed.1 += bytes;
        })?;
        Ok(missed)
    }

    /// Returns the accesses and bytes that miss in a cache of `size` objects of the sample, and the
    /// sum of squares of the misses of each object.
    fn misses_of_objects(&self, policy: Played<'_>, size: u32) -> io::Result<(u64, u64, u64)> {
        let mut of_objects = vec![0_u64; self.whole.object_count()];
        let (mut missed, mut missed_bytes) = (0, 0);
        self.play(policy, size, |object, bytes| {
            of_objects[object as usize] += 1;
            missed += 1;
            missed_bytes += bytes;
        })?;
        Ok((missed, missed_bytes, of_objects.iter().map(|misses| misses * misses).sum()))
    }

    /// Plays the accesses through a cache of `size` objects. Calls `miss` with the object and the
    /// bytes of each access that misses.
    fn play(&self, policy: Played<'_>, size: u32, mut miss: impl FnMut(u32, u64)) -> io::Result<()> {
        let accesses = &self.whole;
        let name = match (policy, &self.distances) {
            (Played::Named("lru"), Some(distances)) => {
                let mut room = Room::default();
                return accesses.each_batch(|number, batch| {
                    let far = batch.iter().zip(distances.batch(number, &mut room)?);
                    far.filter(|(_, distance)| **distance >= size).for_each(|((object, bytes), _)| miss(object, bytes));
                    Ok(())
                });
            }
            (Played::Named(name), _) => name,
            (Played::Outside(policies), _) => {
                return play(&mut Outside::new((policies.make)(size), size), accesses, size, miss);
            }
        };
        match online(name) {
            Some(info) => play(&mut *(info.build)(size), accesses, size, miss),
            None => play_belady(accesses, &self.whole_next_uses, size, miss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use bimetal_core::mixing::splitmix64;
    use bimetal_core::policies::replacement::Key;
    use bimetal_core::units::{Nanoseconds, SectorRange};

    use crate::outside::OutsidePolicy;

    fn read(start: u64, sectors: u64) -> Request {
        let range = SectorRange::new(start, sectors);
        Request { arrival: Nanoseconds(0), device: 0, kind: OpKind::Read, fua: false, range, response: None }
    }

    fn measured(options: &Options, requests: &[Request]) -> MissRatios {
        let mut rest = requests.iter().copied();
        let read = |batch: &mut Vec<Request>| {
            batch.extend(rest.by_ref().take(batch.capacity()));
            Ok::<_, io::Error>(())
        };
        measure(options, read).expect("a temporary file")
    }

    fn options(sizes: &[CacheSize], unit: Unit) -> Options {
        Options { policies: policies().collect(), sizes: sizes.to_vec(), unit, sample: 1.0, seed: 0 }
    }

    #[test]
    fn sizes_are_read_as_objects_shares_and_bytes() {
        assert_eq!("4897".parse(), Ok(CacheSize::Objects(4897)));
        assert_eq!("10%".parse(), Ok(CacheSize::Share(0.1)));
        assert_eq!("64MiB".parse(), Ok(CacheSize::Bytes(Bytes(64 << 20))));
        for wrong in ["", "0", "0%", "101%", "-1", "many", "1.5", "0MiB", "%"] {
            assert!(wrong.parse::<CacheSize>().is_err(), "{wrong}");
        }
    }

    /// Regression: 29 % of 100 objects were 28, because 0.29 is a little less than 29 % in binary.
    #[test]
    fn share_of_the_objects_is_exact() {
        let requests: Vec<Request> = (0..100).map(|number| read(number * 8, 8)).collect();
        for percent in 1..=100u32 {
            let size = format!("{percent}%").parse().unwrap();
            let found = measured(&options(&[size], Unit::Block(BlockSize::default())), &requests);
            assert_eq!(found.results[0].size, percent);
        }
    }

    /// Least-recently-used order, written as a policy of another program.
    struct OwnLru(Vec<u32>);

    impl OutsidePolicy for OwnLru {
        fn insert(&mut self, key: Key) {
            self.0.push(key.0);
        }

        fn touch(&mut self, key: Key) {
            self.remove(key);
            self.insert(key);
        }

        fn remove(&mut self, key: Key) {
            self.0.retain(|known| *known != key.0);
        }

        fn order(&mut self, offer: &mut dyn FnMut(Key) -> bool) {
            self.0.iter().take_while(|&&key| offer(Key(key))).for_each(drop);
        }
    }

    #[test]
    fn policy_of_another_program_is_measured_like_our_own() {
        let requests: Vec<_> = (0..3000).map(|at: u64| read(at * at % 97 * 8 + at % 5 * 8, 8)).collect();
        let options = Options { policies: vec!["lru"], ..options(&[CacheSize::Objects(20)], Unit::Request) };
        let outside = OutsidePolicies { name: "own".to_owned(), make: Arc::new(|_| Box::new(OwnLru(Vec::new()))) };
        let mut rest = requests.iter().copied();
        let read = |batch: &mut Vec<Request>| {
            batch.extend(rest.by_ref().take(batch.capacity()));
            Ok::<_, io::Error>(())
        };
        let measured = measure_with(&options, &[outside], read).expect("a temporary file");
        let [lru, own] = &measured.results[..] else { panic!("a point of each policy") };
        assert_eq!((lru.policy.as_str(), own.policy.as_str()), ("lru", "own"));
        assert_eq!((lru.miss_ratio, lru.byte_miss_ratio), (own.miss_ratio, own.byte_miss_ratio));
        assert!(0.0 < own.miss_ratio && own.miss_ratio < 1.0);
    }

    /// Regression: 250 requests of 256 MiB took 24 seconds and 948 MiB under two policies.
    #[test]
    fn few_requests_of_very_many_blocks_are_refused() {
        let requests: Vec<_> = (0..250).map(|at| read(at << 19, 1 << 19)).collect();
        let measured = |unit, sample, policies| {
            let (mut rest, mut taken) = (requests.iter().copied(), 0);
            let options = Options { policies, sample, ..options(&[CacheSize::Share(0.1)], unit) };
            let measured = measure(&options, |batch: &mut Vec<Request>| {
                batch.extend(rest.by_ref().take(10).inspect(|_| taken += 1));
                Ok::<_, io::Error>(())
            });
            (measured.map(|measured| measured.accesses).map_err(|error| error.to_string()), taken)
        };
        let block = Unit::Block(BlockSize::default());
        let (refused, taken) = measured(block, 1.0, vec!["lru", "arc"]);
        let message = refused.unwrap_err();
        assert!(message.starts_with("the first 131 requests access 8585216 blocks: expected at most"), "{message}");
        assert_eq!(taken, 140, "the rest of the trace is not read");
        assert_eq!(measured(block, 0.01, vec!["lru", "arc"]).0, Ok(250 << 16));
        assert_eq!(measured(Unit::Request, 1.0, policies().collect()).0, Ok(250));
    }

    /// In a cache that holds all objects every policy misses each object once. In a scan without
    /// repetitions every access misses.
    #[test]
    fn every_policy_misses_new_objects_only_if_all_fit() {
        let twice: Vec<_> = (0..200).map(|at| read(at % 100 * 8, 8)).collect();
        let all = measured(&options(&[CacheSize::Share(1.0)], Unit::Request), &twice);
        assert_eq!((all.requests, all.objects, all.accesses), (200, 100, 200));
        assert!(all.results.iter().all(|point| point.miss_ratio == 0.5 && point.byte_miss_ratio == 0.5), "{all:?}");
        let scan: Vec<_> = (0..200).map(|at| read(at * 8, 8)).collect();
        let none = measured(&options(&[CacheSize::Objects(10)], Unit::Request), &scan);
        assert!(none.results.iter().all(|point| point.miss_ratio == 1.0), "{none:?}");
    }

    #[test]
    fn a_request_touches_its_blocks_and_weighs_its_bytes() {
        // Sectors 4 to 20 are half of block 0, block 1, half of block 2; then block 1 alone, a hit.
        let requests = [read(4, 16), read(8, 8)];
        let blocks = measured(&options(&[CacheSize::Objects(100)], Unit::Block(BlockSize::default())), &requests);
        assert_eq!((blocks.objects, blocks.accesses), (3, 4));
        assert_eq!((blocks.results[0].miss_ratio, blocks.results[0].byte_miss_ratio), (0.75, 16.0 / 24.0));
        let whole = measured(&options(&[CacheSize::Bytes(Bytes(12 << 10))], Unit::Request), &requests);
        assert_eq!((whole.objects, whole.results[0].size), (2, 2), "two objects of 6 KiB on average");
    }

    /// No policy misses less often than Belady's MIN. LRU by reuse distances equals LRU played
    /// access by access.
    #[test]
    fn no_policy_beats_belady_and_lru_equals_its_replay() {
        let mut state = 1u64;
        let requests: Vec<_> = (0..20_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let uniform = (state >> 33) as f64 / (1u64 << 31) as f64;
                read((uniform.powi(3) * 2000.0) as u64 * 8, 8)
            })
            .collect();
        let measured = measured(&options(&[CacheSize::Share(0.1), CacheSize::Share(0.5)], Unit::Request), &requests);
        let of = |policy: &'static str| measured.results.iter().filter(move |point| point.policy == policy);
        for policy in policies() {
            for (bound, point) in of("belady").zip(of(policy)) {
                assert!(bound.miss_ratio <= point.miss_ratio, "{policy} at {}", point.size);
            }
        }
        let mut sequence = Accesses::default();
        requests
            .iter()
            .for_each(|request| sequence.push((request.range.start.0 / 8) as u32, 4096).expect("it is in memory"));
        for point in of("lru") {
            let mut misses = 0u64;
            let mut lru = bimetal_core::policies::lru::Lru::new(point.size);
            play(&mut lru, &sequence, point.size, |_, _| misses += 1).expect("it is in memory");
            assert_eq!(misses as f64 / 20_000.0, point.miss_ratio);
        }
    }

    /// Makes a workload for each number: workloads differ in addresses, popularity, scans and
    /// places.
    fn random_workload(number: u64) -> Vec<Request> {
        let mut state = splitmix64(number);
        let mut random = || {
            state = state.wrapping_add(1);
            (splitmix64(state) >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (base, objects, skew) = ((random() * 1e9) as u64, 3000.0 + random() * 12_000.0, 1.0 + 3.0 * random());
        let (scattered, scans) = (random() < 0.5, (random() - 0.5).max(0.0) / 50.0);
        let (mut requests, mut scanned) = (Vec::new(), 0);
        while requests.len() < 40_000 {
            if random() < scans {
                requests.extend((0..100).map(|_| {
                    scanned += 1;
                    read((base + 100_000 + scanned % 5000) * 8, 8)
                }));
            }
            let object = (random().powf(skew) * objects) as u64;
            let place = if scattered { splitmix64(object + number) % 60_000 } else { object };
            requests.push(read((base + place) * 8, 8));
        }
        requests
    }

    /// Regression: of the intervals that were reported as 95 %, only 90 % contained the exact
    /// ratio. The intervals came from eight parts of the sample, each of which had few important
    /// objects. All volumes of one size also had the same sample, which represented some sizes
    /// badly.
    #[test]
    fn intervals_of_samples_hold_for_random_workloads() {
        let (mut points, mut outside, mut width) = (0_u32, 0_u32, 0.0);
        for number in 0..200 {
            let requests = random_workload(number);
            let policies = if number % 4 == 0 { vec!["lru", "s3fifo"] } else { vec!["lru"] };
            let options = Options {
                policies,
                ..options(&[5, 10, 20, 50].map(|percent| CacheSize::Share(f64::from(percent) / 100.0)), Unit::Request)
            };
            let sampled = measured(&Options { sample: 0.1, seed: number, ..options.clone() }, &requests);
            // The exact ratios at the sizes that the sample says.
            let sizes = sampled.results[..4].iter().map(|point| CacheSize::Objects(point.size)).collect();
            let exact = measured(&Options { sizes, ..options }, &requests);
            for (sampled, exact) in sampled.results.iter().zip(&exact.results) {
                let error = sampled.error.expect("a sample");
                points += 1;
                outside += u32::from((sampled.miss_ratio - exact.miss_ratio).abs() > error);
                width += error;
            }
        }
        assert!(f64::from(outside) <= 0.05 * f64::from(points), "{outside} of {points} outside");
        // Intervals that hold everything would say nothing.
        let width = width / f64::from(points);
        assert!(width < 0.08, "{outside} of {points} outside, half width {width}");
    }

    #[test]
    fn seed_selects_other_objects() {
        let requests: Vec<_> = (0..5000).map(|at: u64| read(at * at % 1009 * 8, 8)).collect();
        let of_seed = |seed| {
            let options = Options {
                policies: vec!["lru"],
                sample: 0.2,
                seed,
                ..options(&[CacheSize::Objects(100)], Unit::Request)
            };
            measured(&options, &requests)
        };
        let objects: std::collections::BTreeSet<u64> = (0..8).map(|seed| of_seed(seed).objects).collect();
        assert!(objects.len() > 4, "{objects:?}");
        assert_eq!(of_seed(3), of_seed(3));
        assert_eq!(of_seed(3).seed, Some(3));
    }
}
