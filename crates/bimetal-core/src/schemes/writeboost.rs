//! dm-writeboost (Akira Hayakawa; `doc/dm-writeboost-readme.txt`): home on the HDD, a log of writes
//! on the SSD.
//!
//! Writes gather in a buffer in memory, and are written to the SSD in whole segments, each after
//! the segment before. A flush writes the buffer out. So small random writes become large
//! sequential writes, for the SSD too. The log is written back when the HDD is idle, in order of
//! address, and when the log fills up. Reads find the newest content in the buffer, in the log, or
//! at home. No read puts anything on the SSD.
//!
//! Our choices: the whole log is written back in one move, and its slots are freed at the move's
//! end; dm-writeboost takes a batch of the oldest segments at a time. The HDD is idle after `idle`
//! without a request; dm-writeboost looks at the share of time in which the HDD is in use. The
//! optional caching of reads of dm-writeboost is left out.

use crate::block::BlockRun;
use crate::block_map;
use crate::layout::{Layout, MemberId, Role, SlotKind};
use crate::scheme::{Access, Holds, LinuxCounterpart, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{MOVE_RATE, SettingError, Settings, Share, parameters};
use crate::units::{Bytes, Nanoseconds};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// memory that gathers writes before they go to the log (dm-writeboost: 127 blocks); 0:
        /// each write waits for the log itself
        log_buffer: Bytes = "508KiB",
        /// logged blocks are written back when no request has used the HDD for this long (our
        /// figure); off: only writeback_threshold writes blocks back
        idle: Option<Nanoseconds> = "1s" live,
        /// logged blocks are written back, idle or not, when this share of the log is in use (our
        /// figure); off: when the log is full
        writeback_threshold: Option<Share> = "0.7" live,
    }
    and MOVE_RATE
}

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "writeboost",
    summary: "home on the HDD; a log on the SSD takes all writes, sequentially, until the HDD is idle",
    source: "dm-writeboost",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Log)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each block is wholly old or wholly new",
    ssd_loss: "every write since the last completed write-back started; the remaining data is older than the lost data",
    hdd_loss: "all data",
    bypass: &[],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: true,
    linux_counterpart: |_| Some(LinuxCounterpart::DmWritecache),
    layout: |settings, request| {
        let home = request.concatenated(&[request.only(Role::Hdd)?])?;
        let buffer = Parameters::of(settings).log_buffer.0 / request.block.bytes().0;
        let buffer_blocks = u32::try_from(buffer).map_err(|_| settings.refuse(name::log_buffer, "at most 16TiB"))?;
        let log = request.first_of(&[Role::Log, Role::Ssd])?;
        Ok(request.with_slots(home, log, SlotKind::Log { buffer_blocks })?)
    },
    build,
};

struct Writeboost {
    idle: Option<Nanoseconds>,
    /// Number of free slots below which a write-back starts.
    free_min: u64,
    slots: u64,
    /// Time at which the last write-back started.
    started: Nanoseconds,
    hdd: MemberId,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let slots = layout.slots.map_or(0, |slots| u64::from(slots.count));
    let mut writeboost =
        Writeboost { idle: None, free_min: 0, slots, started: Nanoseconds::ZERO, hdd: layout.home[0].member };
    writeboost.take(&Parameters::of(settings));
    Ok(Box::new(writeboost))
}

impl Writeboost {
    /// Takes the settings that can change while the volume is served.
    fn take(&mut self, parameters: &Parameters) {
        self.idle = parameters.idle;
        let share = parameters.writeback_threshold.map_or(1.0, |Share(share)| share);
        self.free_min = ((1.0 - share) * self.slots as f64) as u64;
    }

    /// Returns the time from which the log may be written back; `None` if it may not be written
    /// back.
    fn write_back_at(&self, view: &View) -> Option<Nanoseconds> {
        if view.map.is_empty() || view.moving || !view.slots_online() {
            return None;
        }
        // Slots that are about to be freed count as free.
        if view.free_slots + view.freeing_slots < self.free_min {
            return Some(view.now);
        }
        let idle = self.idle?;
        view.member(self.hdd).idle_at(idle).map(|at| at.max(self.started.saturating_add(idle)))
    }
}

impl Scheme for Writeboost {
    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = Parameters::is_live(key);
        if live {
            self.take(&Parameters::of(settings));
        }
        Ok(live)
    }

    fn place_write(&mut self, view: &View, _access: &Access, rest: BlockRun) -> (Placement, u64) {
        if view.slots_online() {
            (Placement::Slot, rest.count)
        } else {
            (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count)
        }
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        self.write_back_at(view)
    }

    fn work(&mut self, view: &View) -> Work {
        let full = view.waiting_for_slots > 0 && view.freeing_slots == 0 && !view.moving && view.slots_online();
        let due = self.write_back_at(view).is_some_and(|at| at <= view.now);
        if !(full || due) {
            return Work::Nothing;
        }
        self.started = view.now;
        Work::MigrateAll
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind::{Flush, Read, Write};
    use crate::testing::Bench;
    use crate::units::Nanoseconds;

    const WRITTEN_AT_ONCE: &[(&str, &str)] = &[("log_buffer", "0"), ("idle", "1h")];

    #[test]
    fn random_writes_become_one_sequential_write_of_a_segment() {
        let mut bench = Bench::new("writeboost", &[("log_buffer", "64KiB")]);
        (0..16).for_each(|block| bench.request(Write, (block * 7919 % 900) * 80, 8));
        assert_eq!(bench.take_log(), ["ssd write 144"], "head, sixteen blocks and foot");
    }

    #[test]
    fn a_flush_writes_the_buffer_out() {
        let mut bench = Bench::new("writeboost", &[]);
        bench.request(Write, 80, 8);
        assert_eq!(bench.take_log(), [""; 0]);
        bench.request(Flush, 0, 0);
        assert_eq!(bench.take_log(), ["ssd write 24", "ssd flush 0"]);
    }

    #[test]
    fn reads_find_the_newest_and_leave_nothing_on_the_ssd() {
        let mut bench = Bench::new("writeboost", WRITTEN_AT_ONCE);
        bench.request(Write, 80, 8);
        bench.take_log();
        bench.request(Read, 80, 8);
        bench.request(Read, 800, 8);
        bench.request(Read, 800, 8);
        assert_eq!(bench.take_log(), ["ssd read 8", "hdd read 8", "hdd read 8"]);
    }

    /// Logged blocks are written back in order of address once the disk is idle.
    #[test]
    fn idle_migration_writes_in_order_of_address() {
        let mut bench = Bench::new("writeboost", &[("log_buffer", "0")]);
        for block in [9, 5, 9, 4, 9] {
            bench.request(Write, block * 8, 8);
        }
        bench.take_log();
        bench.pass(Nanoseconds::from_millis(999));
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        bench.pass(Nanoseconds::from_millis(2));
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        let log = bench.take_log();
        let home: Vec<_> = log.iter().filter(|line| line.starts_with("hdd write")).collect();
        assert_eq!(
            home,
            ["hdd write 8", "hdd write 8", "hdd write 16", "hdd write 8", "hdd write 8", "hdd write 8"],
            "a mark, 4 and 5, 9, the mark, each mark in two copies: {log:?}"
        );
        assert!(bench.volume.view().map.is_empty());
    }

    /// A log that reaches its threshold is written back, although the disk is never idle.
    #[test]
    fn filling_log_is_written_back_without_an_idle_disk() {
        let mut bench = Bench::new("writeboost", &[("idle", "off"), ("writeback_threshold", "0.5")]);
        let slots = u64::from(bench.volume.view().map.slots());
        (0..slots * 2 / 5).for_each(|block| bench.request(Write, block * 16, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        (0..slots / 5).for_each(|block| bench.request(Write, block * 16, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 1);
    }

    #[test]
    fn a_full_log_makes_writes_wait_and_no_longer() {
        let mut bench = Bench::new("writeboost", &[("idle", "off"), ("writeback_threshold", "off")]);
        let slots = u64::from(bench.volume.view().map.slots());
        (0..3 * slots).for_each(|write| bench.request(Write, write % 50 * 8, 8));
        let count = bench.volume.statistics().migrations.count;
        assert!((2..=5).contains(&count), "{count}");
        assert_eq!(bench.volume.requests_under_way(), 0);
    }
}
