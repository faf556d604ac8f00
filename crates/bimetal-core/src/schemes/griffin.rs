//! Griffin (Soundararajan, Prabhakaran, Balakrishnan, Wobber: *Extending SSD Lifetimes with Disk-Based Write Caches*,
//! FAST 2010): home on the SSD, a log on the HDD as a write cache in front of it.
//!
//! *What* (5.1): full caching: every write goes to the log. *How long* (5.2): until a trigger fires, then everything in the
//! log migrates: read in the order of the log, older versions skipped, sorted by address, written to the SSD (5.4).
//! Triggers, alone and together: *timeout* bounds how old what is lost with the HDD can be, *read threshold* bounds the share
//! of reads that the slow log serves, *migration size* bounds how much is lost. A full log forces a migration. Writes
//! gather in a small buffer before the log (5.4), which counts as a drive's volatile cache.
//!
//! How the triggers count is fixed so that figures compare. The timer restarts when a migration starts, and when it fires
//! while nothing is logged. The read threshold is tested after each block read, once at least `read_window` blocks were
//! read since the last migration started; the migration size after each block written. A trigger during a
//! migration waits for its end.

use crate::block::BlockRun;
use crate::block_map;
use crate::layout::{Layout, Role, SlotKind};
use crate::scheme::{Access, Holds, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{Kind, MOVE_RATE, Parameter, SettingError, Settings};
use crate::units::Nanoseconds;

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "griffin",
    summary: "home on the SSD; a log on the HDD absorbs writes until they migrate",
    source: "Griffin (FAST 2010), sections 3 and 5",
    members: &[(Role::Ssd, Holds::Home), (Role::Hdd, Holds::Log)],
    parameters: &[
        Parameter {
            name: "timeout",
            kind: Kind::DurationOrOff,
            default: "900s",
            doc: "migrate when this long has passed since the last migration started (5.2; 900 s: 6.1.2)",
        },
        Parameter {
            name: "read_threshold",
            kind: Kind::FractionOrOff,
            default: "0.05",
            doc: "migrate when the log serves more than this share of the blocks read since the last migration (5.2)",
        },
        Parameter {
            name: "read_window",
            kind: Kind::Count,
            default: "100",
            doc: "blocks read since the last migration before the read threshold counts (our figure)",
        },
        Parameter {
            name: "migration_size",
            kind: Kind::SizeOrOff,
            default: "off",
            doc: "migrate when the distinct live blocks in the log reach this size (5.2)",
        },
        Parameter {
            name: "log_buffer",
            kind: Kind::Size,
            default: "128KiB",
            doc: "memory in which writes gather before they go to the log (5.4); 0: a write waits for the log itself",
        },
        Parameter {
            name: "overwrite_threshold",
            kind: Kind::Choice(&["0"]),
            default: "0",
            doc: "0: full caching, every write goes to the log (5.1)",
        },
        Parameter {
            name: "log_bypass",
            kind: Kind::Choice(&["off"]),
            default: "off",
            doc: "off: no write passes the log by, however fast they come",
        },
        Parameter {
            name: "migration",
            kind: Kind::Choice(&["timed", "instant"]),
            default: "timed",
            doc: "instant: migrations take no time, as in the paper's policy simulator (6.1); simulator only",
        },
        MOVE_RATE,
    ],
    worst_crash: "what was not flushed; each block whole, old or new",
    ssd_loss: "all data",
    hdd_loss: "every write since the last completed migration started; what is left is older than what is lost",
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK,
    layout: |settings, request| {
        let home = request.concatenated(&[request.only(Role::Ssd)?])?;
        let log = request.first_of(&[Role::Log, Role::Hdd])?;
        let buffer = settings.size("log_buffer").unwrap_or_default().0 / request.block.bytes().0;
        let buffer_blocks = u32::try_from(buffer).map_err(|_| settings.refuse("log_buffer", "at most 16TiB"))?;
        Ok(request.with_slots(home, log, SlotKind::Log { buffer_blocks })?)
    },
    build,
};

/// A timer that fires while nothing is logged starts anew: below this it would do nothing else.
const TIMEOUT_MIN: Nanoseconds = Nanoseconds::from_millis(1);

struct Griffin {
    block_bytes: u64,
    timeout: Option<Nanoseconds>,
    read_threshold: Option<f64>,
    read_window: u64,
    migration_blocks: Option<u64>,
    instant: bool,
    /// When the timer was last started.
    timer_started: Nanoseconds,
    /// Blocks read since the last migration started, and how many of them the log served.
    blocks_read: u64,
    blocks_read_from_log: u64,
    /// Whether the read threshold has been passed.
    fired: bool,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let mut griffin = Griffin {
        block_bytes: layout.block.bytes().0,
        timeout: None,
        read_threshold: None,
        read_window: 0,
        migration_blocks: None,
        instant: settings.text("migration") == "instant",
        timer_started: Nanoseconds::ZERO,
        blocks_read: 0,
        blocks_read_from_log: 0,
        fired: false,
    };
    griffin.take_triggers(settings)?;
    Ok(Box::new(griffin))
}

impl Griffin {
    /// All triggers as the settings have them.
    fn take_triggers(&mut self, settings: &Settings) -> Result<(), SettingError> {
        let timeout = settings.duration("timeout");
        if timeout.is_some_and(|timeout| timeout < TIMEOUT_MIN) {
            return Err(settings.refuse("timeout", format!("at least {TIMEOUT_MIN}, or off")));
        }
        self.timeout = timeout;
        self.read_threshold = settings.fraction("read_threshold");
        self.read_window = settings.count("read_window");
        self.migration_blocks = settings.size("migration_size").map(|size| size.0.div_ceil(self.block_bytes).max(1));
        Ok(())
    }

    /// Whether the share of reads from the log is above the threshold after `log` of `all` blocks.
    fn is_above_threshold(&self, log: u64, all: u64) -> bool {
        let window = all >= self.read_window && all > 0;
        window && self.read_threshold.is_some_and(|threshold| log as f64 / all as f64 > threshold)
    }

    /// Whether what is in the log now has reached the migration size. While a migration runs this is not asked: then the map
    /// still holds what is on its way home, and only what comes later belongs to the next one.
    fn is_large(&self, view: &View) -> bool {
        self.migration_blocks.is_some_and(|limit| view.map.len() >= limit)
    }

    fn restart(&mut self, now: Nanoseconds) {
        self.timer_started = now;
        self.blocks_read = 0;
        self.blocks_read_from_log = 0;
        self.fired = false;
    }
}

impl Scheme for Griffin {
    fn place_write(&mut self, view: &View, _access: &Access, rest: BlockRun) -> (Placement, u64) {
        if view.slots_online() {
            (Placement::Slot, rest.count)
        } else {
            (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count)
        }
    }

    fn read(&mut self, _view: &View, blocks: BlockRun, from_slots: bool) {
        let before = self.blocks_read;
        self.blocks_read += blocks.count;
        if from_slots {
            self.blocks_read_from_log += blocks.count;
            // The share rises block by block: the last one decides.
            self.fired |= self.is_above_threshold(self.blocks_read_from_log, self.blocks_read);
        } else {
            // The share falls block by block: the first one that counts decides.
            let first = (before + 1).max(self.read_window).min(self.blocks_read);
            self.fired |= self.is_above_threshold(self.blocks_read_from_log, first);
        }
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        if view.moving || !view.slots_online() {
            return None;
        }
        if self.fired || self.is_large(view) {
            return Some(view.now);
        }
        self.timeout.map(|timeout| self.timer_started.saturating_add(timeout))
    }

    fn work(&mut self, view: &View) -> Work {
        if view.moving || !view.slots_online() {
            return Work::Nothing;
        }
        let timer = self.timeout.is_some_and(|timeout| self.timer_started.saturating_add(timeout) <= view.now);
        // Room that is on its way will do.
        let full = view.waiting_for_slots > 0 && view.freeing_slots == 0;
        if view.map.is_empty() && !full {
            if timer || self.fired {
                self.restart(view.now);
            }
            return Work::Nothing;
        }
        if !(timer || self.fired || self.is_large(view) || full) {
            return Work::Nothing;
        }
        self.restart(view.now);
        Work::MigrateAll
    }

    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = ["timeout", "read_threshold", "read_window", "migration_size"].contains(&key);
        if live {
            self.take_triggers(settings)?;
        }
        Ok(live)
    }

    fn migrates_instantly(&self) -> bool {
        self.instant
    }
}

#[cfg(test)]
mod tests {
    use crate::block::BlockSize;
    use crate::layout::{LayoutRequest, MemberInfo, Role};
    use crate::operation::OpKind;
    use crate::settings::Settings;
    use crate::testing::Bench;
    use crate::units::{Bytes, Nanoseconds};

    const ONLY_TIMEOUT: &[(&str, &str)] = &[("read_threshold", "off"), ("log_buffer", "0")];

    #[test]
    fn every_write_is_appended_to_the_log_behind_its_page() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        bench.request(OpKind::Write, 8000, 8);
        bench.request(OpKind::Write, 80, 24);
        assert_eq!(bench.take_log(), ["hdd write 16", "hdd write 32"]);
        bench.request(OpKind::Read, 80, 8);
        bench.request(OpKind::Read, 160, 8);
        assert_eq!(bench.take_log(), ["hdd read 8", "ssd read 8"]);
    }

    #[test]
    fn writes_gather_in_the_buffer_until_it_is_full_or_the_log_is_idle() {
        let mut bench = Bench::new("griffin", &[("log_buffer", "16KiB")]);
        for block in 0..5 {
            bench.request(OpKind::Write, block * 80, 8);
        }
        assert_eq!(bench.take_log(), ["hdd write 40"], "a page and four blocks");
        bench.request(OpKind::Read, 4 * 80, 8);
        assert_eq!(bench.take_log(), [""; 0], "read from the buffer");
        bench.pass(Nanoseconds::from_millis(20));
        assert_eq!(bench.take_log(), ["hdd write 16"]);
    }

    #[test]
    fn a_flush_writes_the_buffer_out() {
        let mut bench = Bench::new("griffin", &[]);
        bench.request(OpKind::Write, 80, 8);
        bench.request(OpKind::Flush, 0, 0);
        assert_eq!(bench.take_log(), ["hdd write 16", "hdd flush 0"]);
    }

    #[test]
    fn a_migration_reads_the_log_in_order_skips_older_versions_and_writes_in_order_of_address() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        for block in [9, 5, 9, 4, 9] {
            bench.request(OpKind::Write, block * 8, 8);
        }
        bench.take_log();
        bench.pass(Nanoseconds::from_seconds(900));
        let log = bench.take_log();
        // A mark, the three live blocks from where they lie, which are stable there before home changes, blocks 4 and 5
        // together, then 9; then the mark and the log's tail.
        assert_eq!(
            log,
            [
                "ssd write 8",
                "hdd read 8",
                "hdd read 8",
                "hdd read 8",
                "hdd flush 0",
                "ssd write 16",
                "ssd write 8",
                "ssd flush 0",
                "ssd write 8",
                "hdd write 8"
            ]
        );
        assert_eq!(bench.volume.statistics().home_blocks_written, 3);
        assert!(bench.volume.view().map.is_empty());
    }

    #[test]
    fn a_migration_leaves_no_records_for_a_full_log() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        (0..400).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        bench.pass(Nanoseconds::from_seconds(900));
        assert!(bench.volume.view().map.is_empty());
        bench.take_log();
        bench.request(OpKind::Flush, 0, 0);
        assert_eq!(bench.take_log(), ["ssd flush 0", "hdd flush 0"]);
    }

    #[test]
    fn the_timer_restarts_when_nothing_is_logged_and_counts_nothing() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        bench.pass(Nanoseconds::from_seconds(5000));
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        bench.request(OpKind::Write, 80, 8);
        bench.pass(Nanoseconds::from_seconds(399));
        assert_eq!(bench.volume.statistics().migrations.count, 0, "the timer started anew at 4500 s");
        bench.pass(Nanoseconds::from_seconds(2));
        assert_eq!(bench.volume.statistics().migrations.count, 1);
    }

    #[test]
    fn a_timeout_of_nothing_is_refused() {
        let info = super::INFO;
        let settings = Settings::new(info.name, info.parameters, [("timeout", "0s")]).unwrap();
        let capacity = Bytes::from_mib(64).sectors();
        let members = [Role::Ssd, Role::Hdd].map(|role| MemberInfo { role, capacity });
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        let layout = (info.layout)(&settings, &request).unwrap();
        let refused = (info.build)(&settings, &layout).err().unwrap().to_string();
        assert_eq!(refused, "griffin: timeout=0s is not possible: expected at least 1ms, or off");
    }

    #[test]
    fn triggers_change_while_it_serves_and_the_log_does_not() {
        let mut bench = Bench::new("griffin", &[("timeout", "off"), ("read_threshold", "off")]);
        (1..5).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        let set = |bench: &mut Bench, key, value| {
            let given = [("timeout", "off"), ("read_threshold", "off"), (key, value)];
            let settings = Settings::new("griffin", super::INFO.parameters, given).unwrap();
            let now = bench.volume.view().now;
            bench.volume.set(now, key, &settings).map_err(|error| error.to_string())
        };
        let refused = set(&mut bench, "log_buffer", "0").unwrap_err();
        assert!(refused.contains("log_buffer cannot change while the volume is served: drain it"), "{refused}");
        assert!(set(&mut bench, "timeout", "0s").unwrap_err().contains("at least 1ms"));
        assert!(set(&mut bench, "move_rate", "1").unwrap_err().contains("at least 64KiB"));
        set(&mut bench, "move_rate", "1MiB").unwrap();
        set(&mut bench, "migration_size", "16KiB").unwrap();
        bench.pass(Nanoseconds::from_seconds(1));
        assert_eq!(bench.volume.statistics().migrations.blocks, 4, "what is there is enough at once");
    }

    #[test]
    fn a_migration_is_no_faster_than_its_rate() {
        let mut bench =
            Bench::new("griffin", &[("timeout", "100s"), ("read_threshold", "off"), ("move_rate", "64KiB")]);
        // 64 runs of 4 KiB.
        (0..64).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        bench.pass(Nanoseconds::from_seconds(100));
        bench.take_log();
        let written = |bench: &mut Bench| bench.take_log().iter().filter(|line| **line == "ssd write 8").count();
        bench.pass(Nanoseconds::from_seconds(1));
        let first = written(&mut bench);
        assert!((14..=18).contains(&first), "{first} writes of 4 KiB in a second");
        bench.pass(Nanoseconds::from_seconds(4));
        assert!(bench.volume.view().map.is_empty(), "it comes to its end");
    }

    #[test]
    fn the_read_threshold_fires_once_the_window_is_full() {
        let settings = [("timeout", "off"), ("read_threshold", "0.05"), ("read_window", "20"), ("log_buffer", "0")];
        let mut bench = Bench::new("griffin", &settings);
        bench.request(OpKind::Write, 80, 8);
        bench.request(OpKind::Read, 80, 8);
        (0..18).for_each(|_| bench.request(OpKind::Read, 8000, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 0, "1 of 19 is above, but the window is not full");
        bench.request(OpKind::Read, 8000, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 0, "1 of 20 is not above 5 %");
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 1, "2 of 21 is");
    }

    #[test]
    fn the_migration_size_fires_when_distinct_live_blocks_reach_it() {
        let settings = [("timeout", "off"), ("read_threshold", "off"), ("migration_size", "16KiB")];
        let mut bench = Bench::new("griffin", &settings);
        for block in [1, 2, 3, 3, 3] {
            bench.request(OpKind::Write, block * 8, 8);
        }
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        bench.request(OpKind::Write, 4 * 8, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        assert_eq!(bench.volume.statistics().migrations.blocks, 4);
    }

    #[test]
    fn a_full_log_forces_a_migration() {
        let mut bench = Bench::new("griffin", &[("timeout", "off"), ("read_threshold", "off")]);
        let slots = u64::from(bench.volume.view().map.slots());
        for write in 0..3 * slots {
            bench.request(OpKind::Write, write % 50 * 8, 8);
        }
        let count = bench.volume.statistics().migrations.count;
        assert!((2..=5).contains(&count), "{count}");
        assert_eq!(bench.volume.requests_under_way(), 0);
    }
}
