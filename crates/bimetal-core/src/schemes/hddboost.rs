//! SilverStone's HDDBoost (Lee, Cho, Kim, Won: *Performance Analysis of SSD/HDD Hybrid Storage
//! Manager*, section III C): the SSD mirrors the first addresses of the HDD, and the host never
//! writes to the SSD.
//!
//! Publicly known: when the drives are joined, the first area of the HDD, as large as the SSD, is
//! copied to the SSD. "If the data resides in the SSD, the request data is serviced with the data
//! in SSD, otherwise it fetches the data from the HDD". All writes go to the HDD, "there are no
//! write operations to the SSD from the host", and the changes of the mirrored addresses are "later
//! updated to SSD". The example in the paper's figure 5 is a test below.
//!
//! Our choices: *later* means: when the HDD has had no request for `idle`, in order of address, and
//! from the first address again after the last. A read of a block that is not mirrored yet makes no
//! copy, since the mirror copies it later. The copies lie in slots with their block map on the SSD,
//! so any SSD may be attached or detached. A few slots stay free, so that a copy is never
//! overwritten before its successor is durable.

use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, Role};
use crate::policies::mirror::{self, Mirror};
use crate::scheme::{Access, Holds, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{SettingError, Settings, parameters};
use crate::units::Nanoseconds;

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// written blocks are copied to the SSD when no request has used the HDD for this long (our
        /// figure)
        idle: Nanoseconds = "100ms" live,
    }
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "hddboost",
    summary: "the SSD mirrors the first addresses of the HDD; writes go to the HDD, and are copied to the SSD when \
              the HDD is idle",
    source: "SilverStone HDDBoost, as in Performance Analysis of SSD/HDD Hybrid Storage Manager, III C",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Ranges)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed, as on the bare HDD",
    ssd_loss: "nothing",
    hdd_loss: "all data; mirrored blocks stay readable until the volume stops",
    bypass: &[],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + mirror::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |_, request| Ok(request.ssd_caches_hdd()?),
    build,
};

struct HddBoost {
    mirror: Mirror,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let slots = u64::from(layout.slots.map_or(0, |slots| slots.count));
    // Slots beyond the mirror take new copies while the old copies are being evicted.
    let mirrored = (slots - (slots / 64).clamp(1, 4096)).min(layout.total_blocks());
    let mirror = Mirror::new(mirrored, layout.home[0].member, Parameters::of(settings).idle);
    Ok(Box::new(HddBoost { mirror }))
}

impl HddBoost {
    fn copy_at(&self, view: &View) -> Option<Nanoseconds> {
        if self.mirror.is_complete() { None } else { self.mirror.fetch.due_at(view, 0) }
    }
}

impl Scheme for HddBoost {
    fn place_write(&mut self, view: &View, _access: &Access, rest: BlockRun) -> (Placement, u64) {
        let reason = (!view.slots_online()).then_some(Reason::MEMBER_GONE);
        (Placement::Home(reason), rest.count)
    }

    fn mapped(&mut self, view: &View, slot: Slot, _valid: ValidMask, _replaced: Option<Slot>) {
        self.mirror.mapped(view, slot);
    }

    fn unmapped(&mut self, _slot: Slot, block: Block) {
        self.mirror.unmapped(block);
    }

    fn unmapped_run(&mut self, _first: Slot, run: BlockRun) {
        self.mirror.unmapped_run(run);
    }

    fn copied_at_first(&self, _view: &View) -> u64 {
        self.mirror.blocks()
    }

    fn began_with(&mut self, copies: u64) {
        self.mirror.began_with(copies);
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        self.copy_at(view)
    }

    fn work(&mut self, view: &View) -> Work {
        if self.copy_at(view).is_none_or(|at| at > view.now) {
            return Work::Nothing;
        }
        self.mirror.fetch.begin(view.now);
        Work::Fetch(self.mirror.next_run(view.free_slots).into_iter().collect())
    }

    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        self.mirror.fetch.idle = Parameters::of(settings).idle;
        Ok(Parameters::is_live(key))
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind;
    use crate::testing::Bench;
    use crate::units::Nanoseconds;

    /// Lee and others, figure 5: the HDD has data 1 to 8, and the SSD mirrors the first five. In
    /// this test, "data 6" of figure 5 is the first block beyond the mirror.
    #[test]
    fn the_example_of_figure_5() {
        let mut bench = Bench::new("hddboost", &[]);
        let beyond = bench.volume.view().map.len();
        let block = |data: u64| (beyond + data - 6) * 8;
        bench.mark(block(3), 8);
        // "If write request of {4, 5, 6, 7, 8, 9, 10} arrives, {4, 5} is directed to mirrored
        // region of the HDD which is later updated to SSD and {6, 7, 8, 9, 10} is directed
        // non-mirrored region of the HDD."
        bench.request(OpKind::Write, block(4), 7 * 8);
        assert_eq!(bench.take_log(), ["hdd write 56"]);
        bench.pass(Nanoseconds::from_seconds(1));
        assert_eq!(bench.take_log(), ["hdd read 16", "ssd write 16"]);
        // "If read operation on {4, 5, 6, 7, 8} is requested [...] Since {4, 5} is on the SSD, the
        // data is serviced from the SSD, and {6, 7, 8} is serviced from the HDD."
        bench.request(OpKind::Read, block(4), 5 * 8);
        assert_eq!(bench.take_log(), ["ssd read 16", "hdd read 24"]);
    }

    /// Data written to the HDD is read from there until an idle period mirrors it back to the SSD.
    #[test]
    fn written_data_is_read_from_the_hdd_until_mirrored_back() {
        let mut bench = Bench::new("hddboost", &[]);
        bench.request(OpKind::Read, 0, 64);
        assert_eq!(bench.take_log(), ["ssd read 64"], "the mirror is made before the first request");
        bench.mark(80, 8);
        bench.request(OpKind::Write, 9, 7);
        bench.request(OpKind::Read, 8, 16);
        assert_eq!(bench.take_log(), ["hdd write 7", "hdd read 8", "ssd read 8"]);
        bench.pass(Nanoseconds::from_seconds(1));
        bench.take_log();
        bench.request(OpKind::Read, 8, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    #[test]
    fn the_host_never_writes_the_ssd() {
        let mut bench = Bench::new("hddboost", &[]);
        (0..50).for_each(|at| bench.request(OpKind::Write, at * 24, 16));
        assert_eq!(bench.volume.statistics().written_blocks_by_member, [0, 100]);
    }

    #[test]
    fn a_new_ssd_gets_the_whole_mirror_again() {
        let mut bench = Bench::new("hddboost", &[]);
        let mirrored = bench.volume.view().map.len();
        bench.replace_slots();
        assert_eq!(bench.volume.view().map.len(), 0);
        bench.pass(Nanoseconds::from_seconds(60));
        assert_eq!(bench.volume.view().map.len(), mirrored);
    }
}
