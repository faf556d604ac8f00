//! Limits that no run of an option can beat, known from one pass over the workload. An option that
//! certainly breaks a budget is left out without a run.
//!
//! The first read of an untouched block must come from the disk that is its home. The read takes at
//! least as long as the disk's electronics need for a command. Without an SSD, every request takes
//! at least this time.
//!
//! No cache serves more reads than a cache of its size under Belady's MIN with one extra block. The
//! extra block is needed because a cache may bypass a block. If there are many blocks, the
//! miss-ratio curve is measured on a sample of the blocks. The measured miss ratio is then lowered
//! by twice its stated error. Misses under Belady's MIN never grow with the size of the cache, so
//! bisection finds the smallest size that may suffice. The two end sizes are checked separately.
//!
//! Some writes of a burst are late for certain, whatever the scheme: see `bursts.rs`.
//!
//! The bounds on reads apply only to caches that store nothing but accessed blocks
//! (`takes_only_what_is_accessed` of the registry).

use std::collections::HashSet;
use std::io;

use bimetal_core::layout::Role;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_measure::text::short;
use bimetal_models::profile::Profile;
use bimetal_sim::limits::{Figure, Which};
use bimetal_sim::mrc::{CacheSize, OBJECTS_MAX, Options, Unit, measure};
use bimetal_sim::setup::Choices;
use bimetal_sim::simulator::Replay;
use bimetal_trace::Request;

use crate::budget::{Budget, Metric};
use crate::bursts::Bursts;
use crate::catalogue::Kind;
use crate::evaluate::Load;
use crate::grid::Candidate;

/// Number of block accesses above which a sample is measured.
const ACCESSES_MAX: f64 = 500_000.0;

/// Path of the share of reads that the SSD serves.
const HIT_RATIO: &str = "ssd_hit_ratio.read";

/// Bounds of an option's figures that the trace alone proves, before any run.
pub struct Bounds {
    /// Number of measured reads that touch a block for the first time.
    fresh_reads: u64,
    /// Number of measured block reads, and number of measured block reads that touch a block for
    /// the first time.
    block_reads: u64,
    fresh_block_reads: u64,
    /// Number of measured reads, number of measured reads and writes, and the same two numbers of
    /// requests that carry data.
    reads: u64,
    requests: u64,
    carrying_reads: u64,
    carrying_requests: u64,
    /// Set if the user changed no disk figure, so that the profile's command time holds.
    knows_disks: bool,
    /// Set if a block layer decides the order in which a cache gets the requests.
    reorders: bool,
    /// Writes that may arrive faster than drives can take writes. `None` if arrival times or drives
    /// are unknown.
    bursts: Option<Bursts>,
    /// Smallest SSD, in bytes, that may keep each hit-ratio budget. `None` if no size may keep the
    /// budget.
    least: Vec<(Budget, Option<u64>)>,
}

impl Bounds {
    /// Scans `load` once. For budgets of the hit ratio, also examines the SSD sizes of
    /// `candidates`.
    pub fn of(load: &Load, common: &Choices, replay: Replay, budgets: &[Budget], candidates: &[Candidate]) -> Self {
        let sets = |prefix: &str| common.settings.iter().any(|(key, _)| key.starts_with(prefix));
        let knows_drives = !["ssd.", "hdd.", "log."].into_iter().any(sets);
        let bursts = match replay {
            Replay::Timed { speedup } if knows_drives => Some(Bursts::of(load, common.block, speedup, candidates)),
            _ => None,
        };
        let mut bounds = Self {
            fresh_reads: 0,
            block_reads: 0,
            fresh_block_reads: 0,
            reads: load.measured(Which::Reads),
            requests: load.measured(Which::All),
            carrying_reads: 0,
            carrying_requests: 0,
            knows_disks: !sets("hdd."),
            reorders: common.merge,
            bursts,
            least: Vec::new(),
        };
        let block = common.block.sectors();
        let mut touched: HashSet<(u32, u64)> = HashSet::new();
        for (number, request) in load.requests.iter().enumerate() {
            let reads = request.kind == OpKind::Read;
            let writes = matches!(request.kind, OpKind::Write | OpKind::WriteZeroes);
            if request.range.is_empty() || !(reads || writes) {
                continue;
            }
            let blocks = request.range.start.0 / block..request.range.end().0.div_ceil(block);
            let all = blocks.end - blocks.start;
            let fresh = blocks.filter(|block| touched.insert((request.device, *block))).count() as u64;
            let measured = number as u64 >= load.warmup_requests;
            bounds.carrying_requests += u64::from(measured);
            if reads && measured {
                bounds.carrying_reads += 1;
                bounds.fresh_reads += u64::from(fresh > 0);
                bounds.block_reads += all;
                bounds.fresh_block_reads += fresh;
            }
        }
        let of_hits = |budget: &&Budget| budget.metric == Metric::Path(HIT_RATIO.to_owned()) && !budget.is_upper();
        for budget in budgets.iter().filter(of_hits) {
            let least = bounds.least_size(load, common, budget, candidates);
            bounds.least.push((budget.clone(), least));
        }
        bounds
    }

    /// Returns the reason for which `candidate` breaks one of `budgets` for certain, or `None`.
    pub fn excludes(&self, candidate: &Candidate, budgets: &[Budget]) -> Option<String> {
        let late = budgets.iter().find_map(|budget| Some((budget, self.too_many_late(candidate, budget)?)));
        if let Some((budget, late)) = late {
            return Some(format!("breaks {budget} for certain: its drives cannot take {late} of the writes in time"));
        }
        // A log may be flash, too.
        let only_a_disk = candidate.drives.iter().all(|(_, offer)| offer.kind == Kind::Hdd);
        if !only_a_disk && (self.reorders || !candidate.scheme.takes_only_what_is_accessed) {
            return None;
        }
        let disk = candidate.drive(Role::Hdd).filter(|_| self.knows_disks);
        if let Some(hdd) = disk.and_then(|hdd| Profile::load(&hdd.model).ok()) {
            let least_ms = hdd.hdd().and_then(|hdd| hdd.command_overhead_ms).unwrap_or(0.0);
            let slow = |budget: &&Budget| self.breaks(budget, only_a_disk, Nanoseconds((least_ms * 1e6) as u64));
            if let Some(budget) = budgets.iter().find(slow) {
                let what = if only_a_disk { "every request" } else { "the first read of a block" };
                return Some(format!(
                    "breaks {budget} for certain: {what} takes a disk at least {} ms",
                    short(least_ms)
                ));
            }
        }
        let size = candidate.drive(Role::Ssd)?.size.0;
        let asked = self.least.iter().filter(|(budget, _)| budgets.contains(budget));
        let (budget, _) = asked.into_iter().find(|(_, least)| least.is_none_or(|least| size < least))?;
        Some(format!("breaks {budget} for certain: no cache of this size serves enough of the reads"))
    }

    /// Returns the number of certainly late writes if there are too many of them for `budget`.
    fn too_many_late(&self, candidate: &Candidate, budget: &Budget) -> Option<u64> {
        let (which, figure, _) = budget.response_limit()?;
        let Figure::Quantile(share) = figure else { return None };
        let all = if which == Which::Writes { self.requests - self.reads } else { self.requests };
        let late = self.late(candidate, budget);
        is_too_many(late, share, all).then_some(late)
    }

    /// Returns the number of writes that are certainly over the limit of `budget`.
    pub(crate) fn late(&self, candidate: &Candidate, budget: &Budget) -> u64 {
        match (&self.bursts, budget.response_limit()) {
            (Some(bursts), Some((Which::All | Which::Writes, _, limit))) => bursts.late(candidate, limit),
            _ => 0,
        }
    }

    /// Returns true if slow requests of at least `least` each certainly break `budget`. All
    /// requests are slow if `all_slow` is set, and otherwise only first reads.
    fn breaks(&self, budget: &Budget, all_slow: bool, least: Nanoseconds) -> bool {
        let Some((which, figure, limit)) = budget.response_limit() else { return false };
        let (slow, all) = match which {
            Which::All if all_slow => (self.carrying_requests, self.requests),
            Which::All => (self.fresh_reads, self.requests),
            Which::Reads if all_slow => (self.carrying_reads, self.reads),
            Which::Reads => (self.fresh_reads, self.reads),
            Which::Writes => return false,
        };
        match figure {
            Figure::Mean => u128::from(slow) * u128::from(least.0) > u128::from(all) * u128::from(limit.0),
            Figure::Quantile(share) => least > limit && is_too_many(slow, share, all),
        }
    }

    /// Returns the smallest SSD among `candidates` whose cache may keep `budget`.
    fn least_size(&self, load: &Load, common: &Choices, budget: &Budget, candidates: &[Candidate]) -> Option<u64> {
        let mut sizes: Vec<u64> =
            candidates.iter().filter_map(|candidate| Some(candidate.drive(Role::Ssd)?.size.0)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let may = |size: &u64| budget.kept_by(Some(self.most_hits(load, common, Bytes(*size))));
        let last = sizes.last()?;
        if !may(last) {
            return None;
        }
        if sizes.first().is_some_and(may) {
            return sizes.first().copied();
        }
        sizes.get(sizes.partition_point(|size| !may(size))).copied()
    }

    /// Returns the largest share of measured block reads that a cache of `size` can serve.
    fn most_hits(&self, load: &Load, common: &Choices, size: Bytes) -> f64 {
        let all = self.block_reads.max(1) as f64;
        let mut misses = self.fresh_block_reads as f64;
        let objects = (size.0 / common.block.bytes().0).min(u64::from(OBJECTS_MAX) - 1) as u32 + 1;
        // Misses during warm-up would count too, and writes may miss.
        if load.warmup_requests == 0 && u64::from(objects) < load.survey.footprint_blocks {
            let accesses = (load.survey.read_bytes + load.survey.write_bytes).0 / common.block.bytes().0;
            let options = Options {
                policies: vec!["belady"],
                sizes: vec![CacheSize::Objects(objects)],
                unit: Unit::Block(common.block),
                sample: (ACCESSES_MAX / accesses.max(1) as f64).min(1.0),
                seed: 0,
            };
            let mut left = load.requests.iter().copied();
            let read = |some: &mut Vec<Request>| {
                some.extend(left.by_ref().take(some.capacity()));
                Ok::<_, io::Error>(())
            };
            // Accesses as few as these need no temporary file, the only thing that could fail.
            if let Ok(measured) = measure(&options, read)
                && let Some(point) = measured.results.first()
            {
                let ratio = point.miss_ratio - 2.0 * point.error.unwrap_or(0.0);
                let writes = measured.accesses.saturating_sub(self.block_reads) as f64;
                misses = misses.max(ratio * measured.accesses as f64 - writes);
            }
        }
        1.0 - misses / all
    }
}

/// Returns true if `over` slow requests of `all` put a quantile above the limit. One slow request
/// more than that is required. The reason is that rounding may decide which of two neighbouring
/// response times is the quantile.
fn is_too_many(over: u64, share: f64, all: u64) -> bool {
    over >= all.saturating_sub((share * all as f64).ceil() as u64) + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::schemes;
    use bimetal_core::units::SectorRange;
    use bimetal_sim::limits::Limits;
    use bimetal_sim::survey::Survey;
    use bimetal_trace::synthetic::{Generator, Skew, WorkloadSpec};
    use proptest::prelude::*;

    use crate::catalogue::Catalogue;
    use crate::evaluate::{Evaluator, Outcome};
    use crate::grid::Grid;
    use bimetal_sim::lifetime::KnownWear;

    const TIMED: Replay = Replay::Timed { speedup: 1.0 };

    fn candidates(catalogue: &Catalogue) -> Vec<Candidate> {
        Grid::of(schemes::ALL, catalogue).candidates()
    }

    fn shop(mib: [u64; 3]) -> Catalogue {
        let sizes: Vec<String> = mib.iter().map(|mib| format!("\"{mib}MiB\"")).collect();
        let text = format!(
            "[[drive]]\nmodel = \"intel-x25-e-32gb\"\nsizes = [{}]\nprices_usd = [1, 2, 3]\ndate = \"d\"\nsource = \"s\"\n\
             [[drive]]\nmodel = \"seagate-barracuda-7200.12-1tb\"\nsizes = [\"1TB\"]\nprices_usd = [10]\ndate = \"d\"\nsource = \"s\"\n",
            sizes.join(", ")
        );
        Catalogue::parse(&text, "shop").unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

        /// Every excluded option breaks its budget when the option is run.
        #[test]
        fn what_is_excluded_breaks_its_budget(
            first in 16u64..40,
            read_fraction in 0.3..1.0f64,
            hits in 0.05..0.9f64,
            limit_us in 5u64..200,
            seed in 0u64..1000,
        ) {
            let spec = WorkloadSpec {
                read_fraction,
                skew: "zipf:0.9".parse::<Skew>().unwrap(),
                ..WorkloadSpec::new(1500, Bytes::from_mib(64))
            };
            let requests: Vec<Request> = Generator::new(&[spec], seed).unwrap().collect();
            let common = Choices::default();
            let survey = Survey::of(&requests, common.block, &|_| {}).unwrap();
            let load = Load::new(requests, survey, 0.0);
            let budgets = [
                Budget::parse(&format!("ssd_hit_ratio.read>{hits}")).unwrap(),
                Budget::parse(&format!("read.p90<{limit_us}us")).unwrap(),
            ];
            let catalogue = shop([first, first + 10, first + 50]);
            let candidates = candidates(&catalogue);
            excluded_ones_break_a_budget(&load, &common, &budgets, &candidates)?;
        }
    }

    /// Checks that excluded options break a budget when they are run. Returns the number of options
    /// checked.
    fn excluded_ones_break_a_budget(
        load: &Load,
        common: &Choices,
        budgets: &[Budget],
        candidates: &[Candidate],
    ) -> Result<u32, TestCaseError> {
        let mut excluded = 0;
        let bounds = Bounds::of(load, common, TIMED, budgets, candidates);
        let known_wear = KnownWear::default();
        let evaluator =
            Evaluator { load, common, replay: TIMED, known_wear: &known_wear, variation: Default::default() };
        for candidate in candidates {
            let Some(reason) = bounds.excludes(candidate, budgets) else { continue };
            if let Outcome::Done(figures) = evaluator.run(candidate, Limits::default()).unwrap() {
                let breaks = budgets.iter().any(|budget| figures.breaks(budget).is_some());
                prop_assert!(breaks, "{} {:?}: {reason}", candidate.scheme.name, candidate.settings);
                excluded += 1;
            }
        }
        Ok(excluded)
    }

    /// Returns requests in bursts, among them some sequential writes of up to 512 KiB.
    fn bursts(requests: u64, in_a_burst: u64, read_fraction: f64, seed: u64) -> Load {
        let spec = WorkloadSpec {
            read_fraction,
            skew: "zipf:0.9".parse::<Skew>().unwrap(),
            interarrival: format!("bursty:1us,{in_a_burst},1s").parse().unwrap(),
            size: "4KiB:0.5,64KiB:0.3,512KiB:0.2".parse().unwrap(),
            sequential: 0.2,
            ..WorkloadSpec::new(requests, Bytes::from_mib(1024))
        };
        let requests: Vec<Request> = Generator::new(&[spec], seed).unwrap().collect();
        let survey = Survey::of(&requests, Choices::default().block, &|_| {}).unwrap();
        Load::new(requests, survey, 0.0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

        /// An option excluded for its bursts breaks its budget when it is run, under every scheme.
        #[test]
        fn what_cannot_take_a_burst_breaks_its_budget(
            in_a_burst in 100u64..1200,
            read_fraction in 0.0..0.5f64,
            limit_ms in 1u64..200,
            quantile in proptest::sample::select(vec!["p50", "p90", "p99", "max"]),
            seed in 0u64..1000,
        ) {
            let (common, load) = (Choices::default(), bursts(1200, in_a_burst, read_fraction, seed));
            let budgets = [Budget::parse(&format!("{quantile}<{limit_ms}ms")).unwrap()];
            let candidates = candidates(&shop([64, 300, 2000]));
            excluded_ones_break_a_budget(&load, &common, &budgets, &candidates)?;
        }
    }

    /// A burst that no drives can take within the limit excludes all candidates. With a looser
    /// limit, the same burst excludes no candidate.
    #[test]
    fn burst_excludes_candidates_only_if_they_cannot_take_it() {
        let load = bursts(2000, 2000, 0.0, 1);
        let candidates = candidates(&shop([64, 300, 2000]));
        let excluded = |limit: &str| {
            let budgets = [Budget::parse(limit).unwrap()];
            let bounds = Bounds::of(&load, &Choices::default(), TIMED, &budgets, &candidates);
            candidates.iter().filter(|candidate| bounds.excludes(candidate, &budgets).is_some()).count()
        };
        assert_eq!((excluded("p99<10ms"), excluded("p99<60s")), (candidates.len(), 0));
        let budgets = [Budget::parse("p99<10ms").unwrap()];
        let broken = excluded_ones_break_a_budget(&load, &Choices::default(), &budgets, &candidates).unwrap();
        assert!(broken > 20, "{broken} of {} can be built and break it", candidates.len());
    }

    /// A cache that is too small for the required hit ratio is excluded. A cache that is large
    /// enough is not excluded.
    #[test]
    fn cache_too_small_for_the_hit_budget_is_excluded() {
        // The workload reads 40 MiB in turn five times. A cache of 16 MiB serves at most 40 % of
        // four rounds, a cache of 64 MiB all of them.
        let read = |number: u64| Request {
            arrival: Nanoseconds::from_millis(number),
            device: 0,
            kind: OpKind::Read,
            fua: false,
            range: SectorRange::new(number % (40 * 256) * 8, 8),
            response: None,
        };
        let requests: Vec<Request> = (0..5 * 40 * 256).map(read).collect();
        let common = Choices::default();
        let survey = Survey::of(&requests, common.block, &|_| {}).unwrap();
        let load = Load::new(requests, survey, 0.0);
        let budgets = [Budget::parse("ssd_hit_ratio.read>0.5").unwrap()];
        let catalogue = shop([16, 24, 64]);
        let candidates = candidates(&catalogue);
        let bounds = Bounds::of(&load, &common, TIMED, &budgets, &candidates);
        let excluded = |mib: u64| {
            let of_size = |candidate: &&Candidate| {
                candidate.scheme.name == "bcache" && candidate.drive(Role::Ssd).unwrap().size == Bytes::from_mib(mib)
            };
            candidates.iter().filter(of_size).all(|candidate| bounds.excludes(candidate, &budgets).is_some())
        };
        assert_eq!([16, 24, 64].map(excluded), [true, true, false]);
    }
}
