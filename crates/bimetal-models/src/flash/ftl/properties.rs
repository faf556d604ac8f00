//! Properties of every translation layer: one test for all layers.

use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::{ALL, Info, Setup, TranslationLayer};
use crate::flash::geometry::Geometry;
use crate::flash::operation::{NandKind, NandOp};
use crate::flash::precondition::Precondition;
use crate::flash::profile::{FlashProfile, SizeOrOff};
use crate::flash::state::archive::Archive;
use crate::flash::tests::flash_profile;

#[derive(Clone, Debug)]
enum Step {
    Write(u32, u32),
    Trim(u32, u32),
    Read(u32, u32),
    Flush,
}

/// Numbers from which a geometry is drawn. The capacity of the geometry depends on the layer.
#[derive(Clone, Copy, Debug)]
struct Shape {
    channels: u32,
    dies_per_channel: u32,
    planes_per_die: u32,
    blocks: u32,
    pages_per_block: u32,
    units_per_page: u32,
    fill: f64,
}

impl Shape {
    fn geometry(&self, info: &Info, profile: &FlashProfile) -> Geometry {
        let page_bytes = 4096 * self.units_per_page;
        let mut geometry = Geometry {
            channels: self.channels,
            dies_per_channel: self.dies_per_channel,
            planes_per_die: self.planes_per_die,
            blocks_per_plane: self.blocks,
            pages_per_block: self.pages_per_block,
            page_bytes,
            unit_bytes: if info.whole_pages { page_bytes } else { 4096 },
            logical_units: 0,
        };
        let closed = (self.blocks - (info.reserve)(profile)) * geometry.units_per_block();
        let most = if info.whole_pages { closed } else { closed - 2 * geometry.units_per_row() };
        geometry.logical_units = ((f64::from(most * geometry.dies()) * self.fill) as u32).max(1);
        geometry
    }
}

prop_compose! {
    fn shapes()(
        channels in 1..4u32, dies_per_channel in 1..3u32, planes_per_die in 1..3u32, blocks in 8..20u32,
        pages_per_block in 2..12u32, unit_shift in 0..3u32, fill in prop_oneof![Just(1.0), 0.05..1.0f64],
    ) -> Shape {
        Shape {
            channels, dies_per_channel, planes_per_die, blocks, pages_per_block, units_per_page: 1 << unit_shift, fill,
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (any::<u32>(), prop_oneof![Just(1u32), 1..20u32, 1..500u32]);
    let step = prop_oneof![
        8 => range().prop_map(|(start, len)| Step::Write(start, len)),
        2 => range().prop_map(|(start, len)| Step::Trim(start, len)),
        3 => range().prop_map(|(start, len)| Step::Read(start, len)),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..40)
}

fn states() -> impl Strategy<Value = Precondition> {
    prop_oneof![Just(Precondition::Clean), Just(Precondition::Sequential), Just(Precondition::Random)]
}

type Settings = &'static [(&'static str, &'static str)];

/// Returns every layer, and every policy of collection and wear levelling with the layers that have
/// such a policy.
fn kinds() -> impl Iterator<Item = (&'static Info, Settings)> {
    let (page, dftl) = (&super::page::INFO, &super::dftl::INFO);
    let policies: [(_, Settings); 13] = [
        (page, &[("gc", "cost-benefit")]),
        (page, &[("gc", "fifo")]),
        (page, &[("gc", "d-choices:3")]),
        (page, &[("wear_levelling", "dynamic")]),
        (page, &[("wear_levelling", "static"), ("wear_threshold", "1")]),
        (page, &[("wear_levelling", "static"), ("wear_threshold", "0"), ("gc", "cost-benefit")]),
        (page, &[("wear_levelling", "static"), ("wear_threshold", "0"), ("gc", "fifo")]),
        (page, &[("wear_levelling", "static"), ("wear_threshold", "2"), ("gc", "d-choices:2")]),
        (page, &[("wear_levelling", "adaptive"), ("wear_threshold", "1"), ("expected_write_mb_per_s", "1")]),
        (
            page,
            &[("slc_cache", "1MiB"), ("slc_program_us", "100"), ("wear_levelling", "static"), ("wear_threshold", "1")],
        ),
        (dftl, &[("map_cache", "16"), ("gc", "cost-benefit")]),
        (dftl, &[("map_cache", "512"), ("wear_levelling", "static"), ("wear_threshold", "1")]),
        (dftl, &[("map_cache", "4096"), ("slc_cache", "1MiB"), ("slc_program_us", "100")]),
    ];
    ALL.iter().map(|info| (*info, [].as_slice())).chain(policies)
}

/// Layer beside a reference model of its content.
struct Shadowed {
    info: &'static Info,
    profile: FlashProfile,
    geometry: Geometry,
    precondition: Precondition,
    seed: u64,
    layer: Box<dyn TranslationLayer>,
    /// Set if the layer is the raw medium, which refuses some writes.
    raw: bool,
    /// Version that was written last, by unit.
    newest: Vec<Option<u32>>,
    version: u32,
    host_units: u64,
    pages_programmed: u64,
    pages_read: u64,
    blocks_erased: u64,
}

impl Shadowed {
    fn new(info: &'static Info, settings: Settings, shape: &Shape, precondition: Precondition, seed: u64) -> Self {
        let mut profile = flash_profile(&[&[("ftl", info.name)], settings].concat());
        // A cache has at least a block of single-bit cells in each die.
        if shape.pages_per_block < 3 {
            profile.slc_cache = SizeOrOff(None);
        }
        // The medium refuses random writes.
        let precondition = if info.name == "none" { Precondition::Clean } else { precondition };
        let geometry = shape.geometry(info, &profile);
        let units = geometry.logical_units;
        let layer = make(info, &profile, geometry, precondition, seed, false);
        let filled = precondition != Precondition::Clean;
        let newest = (0..units).map(|unit| (filled && unit >= units / 4 && unit - units / 4 < units / 2).then_some(0));
        Self {
            info,
            profile,
            geometry,
            precondition,
            seed,
            layer,
            raw: info.name == "none",
            newest: newest.collect(),
            version: 0,
            host_units: 0,
            pages_programmed: 0,
            pages_read: 0,
            blocks_erased: 0,
        }
    }

    /// Returns a description of the layer, for messages.
    fn what(&self) -> String {
        format!("{} gc={} wear_levelling={:?}", self.info.name, self.profile.gc, self.profile.wear_levelling)
    }

    /// Returns true if the host wrote more than planned with its last write.
    fn is_intense(&self) -> bool {
        (1..=3).contains(&(self.version % 8))
    }

    /// Returns a copy with a layer that was restored from the saved state of this layer.
    fn restored(&mut self) -> Self {
        let tables = save(self.layer.as_mut());
        let mut layer = make(self.info, &self.profile, self.geometry, self.precondition, self.seed, true);
        let mut archive = Archive::Reading(&tables);
        layer.transfer(&mut archive).unwrap();
        assert!(matches!(archive, Archive::Reading([])), "bytes are left");
        layer.check().unwrap();
        assert_eq!(save(layer.as_mut()), tables, "what was restored is saved as it was");
        // The host's rate of writes is not part of a state.
        layer.set_intense(self.is_intense());
        let (profile, newest) = (self.profile.clone(), self.newest.clone());
        Self { layer, profile, newest, ..*self }
    }

    /// Runs one step. Returns the operations requested from the dies.
    fn run(&mut self, step: &Step) -> Vec<NandOp> {
        let units = self.newest.len() as u32;
        let (start, len) = match *step {
            Step::Write(start, len) | Step::Trim(start, len) | Step::Read(start, len) => (start % units, len),
            Step::Flush => (0, 0),
        };
        let end = units.min(start + len);
        let range = start as usize..end as usize;
        let mut operations = Vec::new();
        match step {
            Step::Write(..) => {
                self.version += 1;
                self.layer.set_version(self.version);
                self.layer.set_intense(self.is_intense());
                self.layer.write_request(start, end, &mut operations);
                let refused = self.newest[range.clone()].iter().filter(|newest| self.raw && newest.is_some()).count();
                assert_eq!(self.layer.take_refused(), refused as u64, "{step:?}");
                self.host_units += u64::from(end - start) - refused as u64;
                for newest in &mut self.newest[range.clone()] {
                    *newest = newest.filter(|_| self.raw).or(Some(self.version));
                }
            }
            Step::Trim(..) => {
                self.layer.trim(start, end, &mut operations);
                for unit in start..end {
                    // The medium erases whole blocks only.
                    if !self.raw || self.layer.locate(unit).is_none() {
                        self.newest[unit as usize] = None;
                    }
                }
            }
            Step::Read(..) => {
                let holding = self.newest[range.clone()].iter().flatten().count();
                self.layer.look_up(start, end, &mut operations);
                let looked_up = operations.len();
                self.layer.read(start, end, &mut operations);
                let fetched: u32 = operations[looked_up..].iter().map(|operation| operation.units).sum();
                assert!(fetched as usize <= holding, "{fetched} units read of {holding}");
            }
            Step::Flush => {
                self.layer.flush(&mut operations);
                while self.layer.wants_idle_time() && self.layer.use_idle_time(&mut operations) {}
            }
        }
        for operation in &operations {
            match operation.kind {
                NandKind::Read => self.pages_read += u64::from(operation.pages),
                NandKind::Program => {
                    self.pages_programmed += u64::from(operation.pages);
                    self.layer.programmed(operation);
                }
                NandKind::Erase => self.blocks_erased += u64::from(operation.pages),
                NandKind::ReadSetup | NandKind::WriteSetup => unreachable!("a layer asks for no setup"),
            }
        }
        self.check_units(start, end);
        operations
    }

    fn check_units(&mut self, start: u32, end: u32) {
        let versions = self.layer.set_version(self.version);
        for unit in start..end {
            let newest = self.newest[unit as usize];
            assert_eq!(self.layer.locate(unit).is_some(), newest.is_some(), "unit {unit}");
            if versions {
                assert_eq!(self.layer.version(unit), newest, "the version of unit {unit}");
            }
        }
    }

    fn finish(&mut self) {
        self.check_units(0, self.newest.len() as u32);
        self.layer.check().unwrap();
        let counters = self.layer.counters();
        assert_eq!(counters.host_units + counters.replaced_units, self.host_units, "units of the host");
        assert_eq!(counters.pages_programmed.iter().sum::<u64>(), self.pages_programmed, "pages programmed");
        assert_eq!(counters.pages_read.iter().sum::<u64>(), self.pages_read, "pages read");
        assert_eq!(counters.blocks_erased.iter().sum::<u64>(), self.blocks_erased, "blocks erased");
    }
}

/// Makes the layer `info`. The units of its second and third quarter are in the state
/// `precondition`.
fn make(
    info: &Info,
    profile: &FlashProfile,
    geometry: Geometry,
    precondition: Precondition,
    seed: u64,
    restored: bool,
) -> Box<dyn TranslationLayer> {
    let units = geometry.logical_units;
    let setup = Setup { profile, geometry, precondition, start: units / 4, units: units / 2, seed, restored };
    (info.make)(&setup).unwrap()
}

/// Runs `steps` on `layer` and on a layer restored from its state, and checks that both do the same
/// and are equal at the end.
fn goes_on_when_restored(mut layer: Shadowed, steps: &[Step]) {
    let mut restored = layer.restored();
    for step in steps {
        assert_eq!(restored.run(step), layer.run(step), "{}: {step:?}", layer.what());
    }
    restored.layer.check().unwrap();
    assert_eq!(restored.layer.erases_of_blocks(), layer.layer.erases_of_blocks(), "{}", layer.what());
    assert!(save(restored.layer.as_mut()) == save(layer.layer.as_mut()), "{}: tables at the end", layer.what());
}

/// Returns the saved state of a layer.
fn save(layer: &mut dyn TranslationLayer) -> Vec<u8> {
    let mut archive = Archive::Writing(Vec::new());
    layer.transfer(&mut archive).unwrap();
    let Archive::Writing(tables) = archive else { unreachable!("it was written") };
    tables
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_layer_finds_the_newest_version_whatever_happens(
        shape in shapes(), state in states(), seed in any::<u64>(), steps in steps(),
    ) {
        for (info, settings) in kinds() {
            let mut layer = Shadowed::new(info, settings, &shape, state, seed);
            steps.iter().for_each(|step| drop(layer.run(step)));
            layer.finish();
        }
    }

    /// Every translation layer goes on from a saved state as it would have without the save.
    #[test]
    fn every_layer_continues_unchanged_from_a_saved_state(
        shape in shapes(), state in states(), seed in any::<u64>(), steps in steps(), at in any::<prop::sample::Index>(),
    ) {
        for (info, settings) in kinds() {
            let mut layer = Shadowed::new(info, settings, &shape, state, seed);
            let mut random = Pcg64::seed_from_u64(seed);
            let units = layer.newest.len() as u32;
            for _ in 0..units / 2 {
                layer.run(&Step::Write(random.next_u32() % units, 1 + random.next_u32() % 6));
            }
            let (before, after) = steps.split_at(at.index(steps.len()));
            before.iter().for_each(|step| drop(layer.run(step)));
            goes_on_when_restored(layer, after);
        }
    }

    #[test]
    fn every_layer_takes_ten_times_its_capacity(shape in shapes(), state in states(), seed in any::<u64>()) {
        for (info, settings) in kinds() {
            let mut layer = Shadowed::new(info, settings, &shape, state, seed);
            let mut random = Pcg64::seed_from_u64(seed);
            let units = layer.newest.len() as u32;
            let mut written = 0;
            while written < 10 * units {
                let len = 1 + random.next_u32() % 8;
                // Half of the writes go to a tenth of the units, so that blocks wear unevenly.
                let start = random.next_u32() % units;
                layer.run(&Step::Write(if random.next_u32() % 2 == 0 { start / 10 } else { start }, len));
                if random.next_u32() % 50 == 0 {
                    layer.run(&Step::Trim(random.next_u32(), random.next_u32() % units));
                }
                written += len;
            }
            layer.finish();
        }
    }
}

/// Shape of two dies of 12 blocks of 8 pages.
const TWO_DIES: Shape = Shape {
    channels: 2,
    dies_per_channel: 1,
    planes_per_die: 1,
    blocks: 12,
    pages_per_block: 8,
    units_per_page: 1,
    fill: 0.88,
};

/// Regression: a die that holds one unit less than another collects the same blocks after its state
/// is restored.
#[test]
fn restored_uneven_dies_collect_the_same_blocks() {
    let mut uneven = 0;
    for fill in [0.88, 0.89] {
        for (info, settings) in kinds() {
            let layer = Shadowed::new(info, settings, &Shape { fill, ..TWO_DIES }, Precondition::Random, 1);
            let units = layer.newest.len() as u32;
            // Half of the units are filled.
            uneven += units / 2 % 2;
            let mut random = Pcg64::seed_from_u64(2);
            let writes: Vec<Step> = (0..3 * units).map(|_| Step::Write(random.next_u32(), 1)).collect();
            goes_on_when_restored(layer, &writes);
        }
    }
    assert!(uneven >= 10, "{uneven} drives with uneven dies");
}

#[test]
fn a_discard_of_what_holds_nothing_leaves_no_trace() {
    for (info, settings) in kinds() {
        let mut layer = Shadowed::new(info, settings, &TWO_DIES, Precondition::Sequential, 1);
        let units = layer.newest.len() as u32;
        layer.run(&Step::Trim(0, units / 8));
        goes_on_when_restored(layer, &[Step::Trim(0, units), Step::Write(0, units)]);
    }
}

/// Returns copies and erases of one die of 16 blocks of 8 pages under `ftl`, after `runs` of pages
/// (each as its first page and the page after its last).
fn after(ftl: &str, runs: &[(u32, u32)]) -> (u64, u64) {
    after_units(ftl, 1, runs)
}

/// Works as [`after`], with pages of `units_per_page` times 4 KiB.
fn after_units(ftl: &str, units_per_page: u32, runs: &[(u32, u32)]) -> (u64, u64) {
    let shape = Shape {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks: 16,
        pages_per_block: 8,
        units_per_page,
        fill: 0.75,
    };
    let info = ALL.iter().find(|info| info.name == ftl).unwrap();
    let mut layer = Shadowed::new(info, &[], &shape, Precondition::Clean, 1);
    runs.iter().for_each(|(start, end)| drop(layer.run(&Step::Write(*start, end - start))));
    layer.finish();
    (layer.layer.counters().moved_units, layer.blocks_erased)
}

/// A block that is written again in order costs each layer the moves and erases that its paper
/// states.
#[test]
fn sequential_block_rewrite_costs_what_each_paper_states() {
    // Block 1 is written three times as a whole. `block` and `page-in-place`: an erase for each
    // overwriting request. Log block: switch merges, of which the first finds an erased data block.
    // FAST: writes in place, then switches. ANAND: adds units up to 4. FMAX: a fold at the third
    // round. Ideal: pages / 8. Simple: an erase for each overwriting run.
    let thrice = [(8, 16), (8, 16), (8, 16)];
    for (ftl, expected) in [
        ("page-in-place", (0, 2)),
        ("block", (0, 2)),
        ("log-block", (0, 2)),
        ("fast", (0, 2)),
        ("anand", (0, 0)),
        ("fmax", (7, 2)),
        ("ideal", (0, 3)),
        ("simple", (0, 2)),
    ] {
        assert_eq!(after(ftl, &thrice), expected, "{ftl}");
    }
}

/// Griffin 6.3: a write to a page that cannot be overwritten erases its block. The pages after the
/// written page are clean after the erase: a run erases a block once, whether the run is one
/// request or many. The pages that the run did not reach are programmed again when the run ends.
#[test]
fn simple_erases_once_for_a_run_of_requests() {
    let page_by_page = |pages: std::ops::Range<u32>| pages.map(|page| (page, page + 1)).collect::<Vec<_>>();
    let filled = vec![(8, 16)];
    assert_eq!(after("simple", &[filled.clone(), page_by_page(8..16)].concat()), (0, 1));
    // Three pages are copied in front of the run at once, and three after it when it ends.
    assert_eq!(after("simple", &[filled.clone(), page_by_page(11..13)].concat()), (3, 1));
    assert_eq!(after("simple", &[filled.clone(), page_by_page(11..13), vec![(0, 1)]].concat()), (6, 1));
    // A page that is written again and again erases its block each time.
    assert_eq!(after("simple", &[filled.clone(), vec![(12, 13); 5]].concat()).1, 5);
    // Pages written in descending order form no run.
    let backwards: Vec<(u32, u32)> = page_by_page(8..16).into_iter().rev().collect();
    assert_eq!(after("simple", &[filled, backwards].concat()).1, 8);
}

/// A page of 16 KiB takes four requests of 4 KiB. Regression: the second to fourth of the four
/// requests erased the block.
#[test]
fn simple_erases_once_for_a_run_of_parts_of_pages() {
    let parts: Vec<(u32, u32)> = (8..16).flat_map(|page| [(page, page + 1); 4]).collect();
    assert_eq!(after_units("simple", 4, &[vec![(8, 16)], parts].concat()).1, 1);
    // A fifth request writes the page again.
    assert_eq!(after_units("simple", 4, &[vec![(8, 16)], vec![(9, 10); 5]].concat()).1, 2);
}

#[test]
fn fast_merges_a_block_begun_in_order_by_copying_its_rest() {
    // Block 1 is written again up to its fourth page, then block 0's first page: SW changes its
    // owner, four pages are copied.
    assert_eq!(after("fast", &[(0, 16), (8, 12), (0, 1)]), (4, 1));
    // One page of each of five blocks is written repeatedly: all are in RW blocks, and no merge
    // occurs until they run out.
    let spread: Vec<(u32, u32)> = (0..5).map(|b| (8 * b + 3, 8 * b + 4)).collect();
    assert_eq!(after("fast", &[vec![(0, 40)], spread].concat()), (0, 0));
}

/// The manual shows `block.rs` as it is compiled and names every translation layer.
#[test]
fn manual_shows_the_compiled_layer_and_names_all_layers() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/flash-model.md")).unwrap();
    assert!(manual.contains(include_str!("block.rs")), "docs/flash-model.md shows another block.rs");
    for info in ALL {
        assert!(manual.contains(&format!("`{}`", info.name)), "docs/flash-model.md lacks {}", info.name);
    }
}
