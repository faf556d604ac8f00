use crate::block::{Block, BlockSize};
use crate::layout::{LayoutRequest, MemberInfo, Role};
use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
use crate::payload::NoPayload;
use crate::scheme::{Access, Hints, Host, View};
use crate::settings::Settings;
use crate::testing::Bench;
use crate::units::{Bytes, Nanoseconds, SectorRange};
use crate::volume::Drain;

const ONLY_TIMEOUT: &[(&str, &str)] = &[("read_threshold", "off"), ("log_buffer", "0")];

#[test]
fn write_is_appended_between_head_and_foot_of_segment() {
    let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
    bench.request(OpKind::Write, 8000, 8);
    bench.request(OpKind::Write, 80, 24);
    assert_eq!(bench.take_log(), ["hdd write 24", "hdd write 40"]);
    bench.request(OpKind::Read, 80, 8);
    bench.request(OpKind::Read, 160, 8);
    assert_eq!(bench.take_log(), ["hdd read 8", "ssd read 8"]);
}

#[test]
fn writes_gather_until_the_buffer_is_full_or_the_log_idle() {
    let mut bench = Bench::new("griffin", &[("log_buffer", "16KiB")]);
    for block in 0..5 {
        bench.request(OpKind::Write, block * 80, 8);
    }
    assert_eq!(bench.take_log(), ["hdd write 48"], "a head, four blocks and a foot");
    bench.request(OpKind::Read, 4 * 80, 8);
    assert_eq!(bench.take_log(), [""; 0], "read from the buffer");
    bench.pass(Nanoseconds::from_millis(20));
    assert_eq!(bench.take_log(), ["hdd write 24"]);
}

#[test]
fn a_flush_writes_the_buffer_out() {
    let mut bench = Bench::new("griffin", &[]);
    bench.request(OpKind::Write, 80, 8);
    bench.request(OpKind::Flush, 0, 0);
    assert_eq!(bench.take_log(), ["hdd write 24", "hdd flush 0"]);
}

#[test]
fn partial_overwrite_appends_a_piece_and_reads_nothing() {
    let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
    (0..4).for_each(|write| bench.request(OpKind::Write, 84 + 8 * write, 8));
    assert_eq!(bench.take_log(), ["hdd write 32"; 4], "head, two blocks and foot");
    (0..40).for_each(|write| bench.request(OpKind::Write, 4004 + 80 * write, 4));
    bench.take_log();
    bench.request(OpKind::Write, 80, 4);
    bench.request(OpKind::Write, 82, 1);
    assert_eq!(bench.take_log(), ["hdd write 24"; 2]);
    bench.request(OpKind::Read, 80, 8);
    assert_eq!(bench.take_log(), ["hdd read 8", "hdd read 32"], "the last two pieces lie in segments that follow");
}

/// A stream of a partition that begins at sector 63 leaves two pieces of each block. The two pieces
/// are adjacent in the log.
#[test]
fn pieces_of_unaligned_writes_are_read_and_moved_together() {
    let mut bench = Bench::new("griffin", &[("read_threshold", "off")]);
    (0..4).for_each(|write| bench.request(OpKind::Write, 84 + 8 * write, 8));
    bench.request(OpKind::Flush, 0, 0);
    assert_eq!(bench.take_log(), ["hdd write 80", "hdd flush 0"], "eight pieces between head and foot");
    bench.request(OpKind::Read, 84, 32);
    assert_eq!(bench.take_log(), ["hdd read 64"]);
    bench.request(OpKind::Read, 80, 8);
    assert_eq!(bench.take_log(), ["ssd read 4", "hdd read 8"]);
    let view = bench.volume.view();
    assert_eq!((view.map.len(), view.map.slots_in_use(), view.map.dirty_blocks()), (5, 8, 5));
    bench.pass(Nanoseconds::from_seconds(900));
    let moved: Vec<String> = bench.take_log().into_iter().filter(|line| !line.ends_with(" 8")).collect();
    assert_eq!(
        moved,
        ["hdd read 64", "ssd write 4", "ssd write 24", "ssd write 4", "ssd flush 0"],
        "three whole blocks are one write, and what is logged of the first and the last are two"
    );
    assert!(bench.volume.view().map.is_empty());
}

#[test]
fn blocks_of_two_segments_are_read_with_what_lies_between() {
    let mut bench = Bench::new("griffin", &[("read_threshold", "off"), ("log_buffer", "16KiB")]);
    (0..2).for_each(|write| bench.request(OpKind::Write, 32 * write, 32));
    assert_eq!(bench.take_log(), ["hdd write 48"; 2]);
    bench.request(OpKind::Read, 0, 64);
    assert_eq!(bench.take_log(), ["hdd read 80"], "a foot and a head lie between");
}

/// A block may be joined from home and the log. A read of such a block counts as served by the log
/// only if the log was read.
#[test]
fn read_of_what_only_home_has_is_no_read_of_the_log() {
    let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
    bench.request(OpKind::Write, 800, 1);
    bench.request(OpKind::Read, 801, 7);
    bench.request(OpKind::Read, 8000, 8);
    assert_eq!(bench.take_log(), ["hdd write 24", "ssd read 7", "ssd read 8"]);
    assert_eq!(bench.volume.statistics().read_blocks_from_slots, 0);
    bench.request(OpKind::Read, 800, 2);
    assert_eq!(bench.take_log(), ["ssd read 1", "hdd read 8"]);
    assert_eq!(bench.volume.statistics().read_blocks_from_slots, 1);
}

#[test]
fn migration_writes_newest_versions_in_order_of_address() {
    let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
    for block in [9, 5, 9, 4, 9] {
        bench.request(OpKind::Write, block * 8, 8);
    }
    bench.take_log();
    bench.pass(Nanoseconds::from_seconds(900));
    let log = bench.take_log();
    // The expected operations, in order:
    // 1. a state that records the migration, in two copies;
    // 2. one read of the log over the three live blocks and the gaps between them;
    // 3. a flush that makes the moved blocks stable in the log before home changes;
    // 4. a write of blocks 4 and 5, a write of block 9, and a flush of home;
    // 5. a state that records the migration's end, in two copies;
    // 6. a pair of superblocks with the log's new tail, each in two copies.
    assert_eq!(
        log,
        [
            "ssd write 8",
            "ssd write 8",
            "hdd read 80",
            "hdd flush 0",
            "ssd write 16",
            "ssd write 8",
            "ssd flush 0",
            "ssd write 8",
            "ssd write 8",
            "hdd write 8",
            "hdd write 8",
            "hdd write 8",
            "hdd write 8"
        ]
    );
    assert_eq!(bench.volume.statistics().home_blocks_written, 3);
    assert!(bench.volume.view().map.is_empty());
}

/// Griffin, section 5.4: the migration "sorts the logged data by logical address". A batch has 256
/// blocks in this test, because half of the move's memory is for reads. The log's order leaves no
/// two adjacent addresses in one batch of log order.
#[test]
fn migration_of_many_batches_writes_in_order_of_address() {
    let mut bench = Bench::new("griffin", &[("read_threshold", "off"), ("move_memory", "2200KB")]);
    (0..700).for_each(|at| bench.request(OpKind::Write, at * 303 % 700 * 8, 8));
    bench.take_log();
    bench.pass(Nanoseconds::from_seconds(900));
    let log = bench.take_log();
    let of_content = |line: &&String| line.starts_with("ssd write") && *line != "ssd write 8";
    let writes: Vec<&String> = log.iter().filter(of_content).collect();
    let runs_of_128 = "ssd write 1024";
    assert_eq!(writes, [runs_of_128, runs_of_128, runs_of_128, runs_of_128, runs_of_128, "ssd write 480"]);
    let first = log.iter().position(|line| line == runs_of_128).unwrap();
    let flushes = |log: &[String]| log.iter().filter(|line| *line == "hdd flush 0").count();
    assert_eq!((flushes(&log[..first]), flushes(&log[first..])), (1, 0), "all that it moves is stable then");
}

/// A block was logged, written again while a migration ran, discarded, and written once more. The
/// migration wrote the oldest of these versions home, because the block was in the log again. A
/// read after a failure of the last write then found that version.
#[test]
fn discarded_block_does_not_go_home_in_its_old_version() {
    for (discards, moved) in [(false, 10), (true, 9)] {
        let mut bench = Bench::new("griffin", &[("read_threshold", "off"), ("move_memory", "4KiB")]);
        (0..10).for_each(|block| bench.request(OpKind::Write, block * 80, 8));
        bench.volume.advance(Nanoseconds::from_seconds(900));
        assert!(bench.volume.view().moving);
        let submit = |bench: &mut Bench, kind| {
            let command = Command { kind, range: SectorRange::new(720, 8), fua: false };
            let operation = Operation { token: Token(1000), target: 0, command, payload: NoPayload };
            bench.volume.submit(Nanoseconds::from_seconds(900), operation);
        };
        submit(&mut bench, OpKind::Write);
        if discards {
            submit(&mut bench, OpKind::Discard);
        }
        submit(&mut bench, OpKind::Write);
        while let Some(operation) = bench.volume.next_operation() {
            let completion = Completion { token: operation.token, status: Status::Done, payload: NoPayload };
            bench.volume.complete(Nanoseconds::from_seconds(900), completion);
        }
        let statistics = bench.volume.statistics();
        assert_eq!((statistics.migrations.count, statistics.migrations.blocks), (1, moved), "discards: {discards}");
    }
}

/// The policy simulator of section 6.1 knows no drives, so the times of drives do not affect when a
/// trigger fires.
#[test]
fn instant_migration_ends_before_the_drives_answer() {
    let settings =
        [("timeout", "off"), ("read_threshold", "off"), ("migration", "instant"), ("migration_size", "8KiB")];
    let mut bench = Bench::new("griffin", &settings);
    for block in 0..6 {
        bench.submit(0, OpKind::Write, block * 80, 8);
        let statistics = bench.volume.statistics();
        assert_eq!(
            (statistics.migrations.count, statistics.home_blocks_written),
            (block.div_ceil(2), block.div_ceil(2) * 2)
        );
        assert!(!bench.volume.view().moving);
    }
    bench.serve();
    assert_eq!(bench.take_log().iter().filter(|line| *line == "ssd write 8").count(), 6);
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

/// Regression: a trace of a few requests with centuries in between reached the end of the clock. A
/// timeout that began at the end of the clock was due as soon as it had begun, and the volume
/// stopped for want of work.
#[test]
fn timeout_behind_the_end_of_the_clock_never_fires() {
    let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
    bench.pass(Nanoseconds(u64::MAX - Nanoseconds::from_seconds(1).0));
    bench.request(OpKind::Write, 80, 8);
    bench.pass(Nanoseconds::from_seconds(1));
    bench.request(OpKind::Read, 80, 8);
    assert_eq!(bench.take_log(), ["hdd write 24", "hdd read 8"]);
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
        let settings = Settings::new("griffin", super::INFO.parameters, given).map_err(|error| error.to_string())?;
        let now = bench.volume.view().now;
        bench.volume.set(now, key, &settings).map_err(|error| error.to_string())
    };
    let refused = set(&mut bench, "log_buffer", "0").unwrap_err();
    assert!(refused.contains("log_buffer cannot change while the volume is served: run `bimetal drain"), "{refused}");
    assert!(set(&mut bench, "timeout", "0s").unwrap_err().contains("at least 1ms"));
    assert!(set(&mut bench, "move_rate", "1").unwrap_err().contains("at least 64KiB"));
    set(&mut bench, "move_rate", "1MiB").unwrap();
    set(&mut bench, "migration_size", "16KiB").unwrap();
    bench.pass(Nanoseconds::from_seconds(1));
    assert_eq!(bench.volume.statistics().migrations.blocks, 4, "what is there is enough at once");
}

#[test]
fn a_migration_is_no_faster_than_its_rate() {
    let mut bench = Bench::new("griffin", &[("timeout", "100s"), ("read_threshold", "off"), ("move_rate", "64KiB")]);
    // Writes of 64 runs of 4 KiB.
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

/// The log has served two of ten blocks when a read of forty blocks from home begins. The tenth
/// block of the read fills the window: two of twenty is above 5 %, two of fifty is not.
#[test]
fn read_that_crosses_the_window_fires_at_its_end() {
    let settings = [("timeout", "off"), ("read_threshold", "0.05"), ("read_window", "20"), ("log_buffer", "0")];
    for (from_log, migrations) in [(2, 1), (1, 0)] {
        let mut bench = Bench::new("griffin", &settings);
        bench.request(OpKind::Write, 80, 8);
        (0..from_log).for_each(|_| bench.request(OpKind::Read, 80, 8));
        (from_log..10).for_each(|_| bench.request(OpKind::Read, 8000, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 0, "the window is not full");
        bench.request(OpKind::Read, 8000, 8 * 40);
        assert_eq!(bench.volume.statistics().migrations.count, migrations, "{from_log} of 20 blocks");
    }
}

/// A burst reads fifty blocks of the log in five milliseconds, after sixteen hundred from home. The
/// share of reads from the log is 3 %. At this rate the share would pass 5 % before three megabytes
/// have been written home.
#[test]
fn read_threshold_counts_ahead_what_a_migration_will_meet() {
    let fires = |gap: Nanoseconds, migration: &str| {
        let mut bench =
            Bench::new("griffin", &[("timeout", "off"), ("read_threshold", "0.05"), ("migration", migration)]);
        (0..700).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
        (0..4).for_each(|_| bench.request(OpKind::Read, 80_000, 8 * 400));
        for block in 0..50 {
            bench.request(OpKind::Read, block * 8, 8);
            bench.pass(gap);
        }
        bench.volume.statistics().migrations.count > 0
    };
    assert!(fires(Nanoseconds(100_000), "timed"));
    assert!(!fires(Nanoseconds::from_seconds(1), "timed"), "at this rate a migration meets no read");
    assert!(!fires(Nanoseconds(100_000), "instant"), "nothing is met by what takes no time");
}

/// Reads from the log during a migration count against the threshold when the migration has ended.
/// Until the share is below the threshold again, each read from the log begins a migration.
#[test]
fn reads_during_a_migration_count_behind_its_end() {
    let settings = [("timeout", "off"), ("read_threshold", "0.05"), ("read_window", "20"), ("log_buffer", "0")];
    let mut bench = Bench::new("griffin", &settings);
    (0..40).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
    // The second read from the log, of twenty blocks in all, fires. Thirty more blocks are read
    // before the drives answer.
    bench.request(OpKind::Read, 80_000, 8 * 18);
    bench.submit(0, OpKind::Read, 0, 8 * 2);
    assert!(bench.volume.view().moving);
    bench.submit(0, OpKind::Read, 0, 8 * 30);
    bench.serve();
    while bench.volume.next_finished().is_some() {}
    bench.pass(Nanoseconds::from_seconds(1));
    assert!(bench.volume.view().map.is_empty() && !bench.volume.view().moving);
    let begun = bench.volume.statistics().migrations.count;
    let write_and_read = |bench: &mut Bench, block: u64| {
        bench.request(OpKind::Write, block * 8, 8);
        bench.request(OpKind::Read, block * 8, 8);
        bench.pass(Nanoseconds::from_seconds(1));
        bench.volume.statistics().migrations.count - begun
    };
    assert_eq!((write_and_read(&mut bench, 50), write_and_read(&mut bench, 51)), (1, 2), "30 of 31 blocks and more");
    // Thirty-two blocks are five per cent of 640.
    (0..2).for_each(|_| bench.request(OpKind::Read, 80_000, 8 * 400));
    assert_eq!(write_and_read(&mut bench, 52), 2, "the share is below the threshold");
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

/// Host that evicts each block just before it reads the block.
struct Forgetful;

impl Host for Forgetful {
    fn requests(&mut self, view: &View, access: &Access, hints: &mut dyn Hints) {
        if access.kind == OpKind::Read {
            hints.evicted(view, access.blocks);
        }
    }
}

/// Evictions for a request come before the request: a read that evicts its block finds the block at
/// home. A scheme without use for evictions has no harm of them.
#[test]
fn read_finds_at_home_what_its_host_evicts_for_it() {
    for (told, from_log, home) in [(true, 0, 1), (false, 1, 0)] {
        let mut bench = Bench::new("griffin", &[("timeout", "off"), ("migration", "instant")]);
        if told {
            bench.volume.take_host(Box::new(Forgetful));
        }
        [OpKind::Write, OpKind::Read, OpKind::Write].into_iter().for_each(|kind| bench.request(kind, 80, 8));
        let statistics = bench.volume.statistics();
        assert_eq!((statistics.read_blocks_from_slots, statistics.home_blocks_written), (from_log, home));
        assert_eq!(bench.volume.view().map.len(), 1);
    }
    let mut bench = Bench::new("smart-response", &[]);
    bench.volume.take_host(Box::new(Forgetful));
    [OpKind::Write, OpKind::Read].into_iter().for_each(|kind| bench.request(kind, 80, 8));
}

/// The blocks that a host evicts from its buffer cache may be a whole device at once, part of a
/// block, or blocks that the log does not have.
#[test]
fn block_goes_home_when_its_host_tells_of_its_eviction() {
    let mut bench = Bench::new("griffin", &[("timeout", "off"), ("migration", "instant")]);
    let home = |bench: &Bench| bench.volume.statistics().home_blocks_written;
    (0..6).for_each(|block| bench.request(OpKind::Write, block * 80, 8));
    let mut evict = |range, blocks| {
        bench.volume.tell_evicted(Nanoseconds::ZERO, 0, range);
        bench.pass(Nanoseconds::ZERO);
        assert_eq!(home(&bench), blocks, "{range:?}");
    };
    evict(SectorRange::new(87, 1), 1);
    evict(SectorRange::new(88, 8), 1);
    evict(SectorRange::new(72, 96), 2);
    evict(SectorRange::new(1 << 30, 8), 2);
    evict(SectorRange::new(240, 1 << 39), 5);
    bench.volume.tell_evicted(Nanoseconds::ZERO, 7, SectorRange::new(0, 8));
    bench.pass(Nanoseconds::ZERO);
    assert_eq!((home(&bench), bench.volume.view().map.len()), (5, 1), "there is no unit 7");
    bench.request(OpKind::Read, 80, 8);
    assert_eq!(bench.volume.statistics().read_blocks_from_slots, 0);
}

/// Returns a volume on which a host has written `blocks` blocks of 4 KiB, eighty sectors apart.
fn written(settings: &[(&str, &str)], blocks: u64) -> Bench {
    let mut bench = Bench::new("griffin", &[&[("read_threshold", "off"), ("log_buffer", "0")], settings].concat());
    (0..blocks).for_each(|block| bench.request(OpKind::Write, block * 80, 8));
    bench.take_log();
    bench
}

fn is_logged(bench: &Bench, block: u64) -> bool {
    bench.volume.view().map.get(Block(block * 10)).is_some()
}

/// Regression: a timed move of an evicted block was refused, because the move could not begin while
/// another move was under way.
#[test]
fn evicted_block_goes_home_in_a_move_that_takes_its_time() {
    let mut bench = written(&[("timeout", "off")], 3);
    bench.volume.tell_evicted(Nanoseconds::ZERO, 0, SectorRange::new(80, 8));
    bench.pass(Nanoseconds::ZERO);
    assert_eq!(bench.take_log(), ["hdd read 8", "hdd flush 0", "ssd write 8", "ssd flush 0"]);
    assert_eq!([0, 1, 2].map(|block| is_logged(&bench, block)), [true, false, true]);
    assert_eq!(bench.volume.statistics().migrations.count, 0, "the log keeps its room");
}

#[test]
fn evictions_gather_while_a_move_is_under_way() {
    let mut bench = written(&[("timeout", "off")], 6);
    let evict = |bench: &mut Bench, block: u64| {
        bench.volume.tell_evicted(Nanoseconds::ZERO, 0, SectorRange::new(block * 80, 8));
    };
    evict(&mut bench, 0);
    bench.volume.advance(Nanoseconds::ZERO);
    assert!(bench.volume.view().moving);
    [1, 2, 3, 1].into_iter().for_each(|block| evict(&mut bench, block));
    // The host writes one of the evicted blocks again, so the block is in the host's cache again.
    bench.submit(0, OpKind::Write, 160, 8);
    bench.serve();
    let flushes = bench.take_log().into_iter().filter(|line| line == "ssd flush 0").count();
    assert_eq!([0, 1, 2, 3, 4].map(|block| is_logged(&bench, block)), [false, false, true, false, true]);
    assert_eq!(flushes, 2, "one move, and one for all that was told meanwhile");
}

/// Moves of evicted blocks free no slots of the log. A full log whose moves are only moves of
/// evicted blocks would wait for ever.
#[test]
fn full_log_migrates_before_evicted_blocks_go_home() {
    let mut bench = written(&[("timeout", "off")], 1);
    let slots = u64::from(bench.volume.view().map.slots());
    for write in 1..3 * slots {
        bench.volume.tell_evicted(Nanoseconds::ZERO, 0, SectorRange::new((write - 1) % 400 * 80, 8));
        bench.request(OpKind::Write, write % 400 * 80, 8);
    }
    assert!(bench.volume.statistics().migrations.count >= 2);
    assert_eq!(bench.volume.requests_under_way(), 0);
}

#[test]
fn trigger_that_is_due_comes_before_evictions() {
    let mut bench = written(&[("timeout", "10s")], 4);
    bench.volume.tell_evicted(Nanoseconds::from_seconds(10), 0, SectorRange::new(80, 8));
    bench.volume.advance(Nanoseconds::from_seconds(10));
    assert_eq!(bench.volume.statistics().migrations.count, 1);
}

#[test]
fn what_knows_more_than_a_device_does_is_for_the_simulator() {
    let info = super::INFO;
    let capacity = Bytes::from_mib(64).sectors();
    let members = [Role::Ssd, Role::Hdd].map(|role| MemberInfo { role, capacity });
    let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
    for (key, value) in [("oracle", "on"), ("eviction_hint", "1MiB"), ("overwrite_threshold", "0.999")] {
        let settings = Settings::new(info.name, info.parameters, [(key, value)]).unwrap();
        let layout = (info.layout)(&settings, &request).unwrap();
        let error = (info.build)(&settings, &layout).err().unwrap().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn migration_size_of_nothing_is_refused_and_changes_nothing() {
    let info = super::INFO;
    let settings = |size| Settings::new(info.name, info.parameters, [("migration_size", size)]).unwrap();
    let mut bench = Bench::new("griffin", &[("migration_size", "1MiB")]);
    let error = bench.volume.set(Nanoseconds::ZERO, "migration_size", &settings("0")).unwrap_err().to_string();
    assert!(error.contains("migration_size=0") && error.contains("more than 0, or off"), "{error}");
    bench.volume.set(Nanoseconds::ZERO, "migration_size", &settings("4KiB")).unwrap();
}

/// Griffin, section 5.1: only "blocks which have a higher overwrite ratio [...] are cached".
#[test]
fn selective_caching_logs_what_is_overwritten_often() {
    let mut bench = Bench::new("griffin", &[ONLY_TIMEOUT, &[("overwrite_threshold", "0.6")]].concat());
    (0..4).for_each(|_| bench.request(OpKind::Write, 80, 8));
    // The share of overwrites is 0 after one write, a half after two, and two thirds after three.
    assert_eq!(bench.take_log(), ["ssd write 8", "ssd write 8", "hdd write 24", "hdd write 24"]);
    bench.request(OpKind::Write, 72, 24);
    assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 24", "ssd write 8"]);
}

/// Griffin, section 7: "disabling caching whenever the data rate of the combined workloads exceeds
/// HDD speed".
#[test]
fn writes_that_come_faster_than_the_log_sustains_pass_it_by() {
    let mut bench = Bench::new("griffin", &[ONLY_TIMEOUT, &[("log_bypass", "on"), ("log_rate", "16KiB")]].concat());
    (0..10).for_each(|at| bench.request(OpKind::Write, at * 80, 8));
    let log = bench.take_log();
    assert_eq!(log.iter().filter(|line| line.starts_with("ssd")).count(), 6, "{log:?}");
    bench.pass(Nanoseconds::from_seconds(60));
    bench.request(OpKind::Write, 80, 8);
    assert_eq!(bench.take_log().last().unwrap(), "hdd write 24");
}

/// Progress is reported after each of a drain's operations. Counting the blocks anew over the whole
/// batch each time took 18 s of a processor for a drain of 182,000 blocks.
#[test]
fn progress_of_a_drain_counts_blocks_as_their_writes_begin() {
    let settings = [("timeout", "off"), ("read_threshold", "off"), ("log_buffer", "0")];
    let mut bench = Bench::new("griffin", &settings);
    // The log gets two adjacent blocks, one alone, and two separate parts of one block.
    for (start, sectors) in [(0, 16), (80, 8), (160, 1), (164, 1)] {
        bench.request(OpKind::Write, start, sectors);
    }
    bench.volume.drain(Nanoseconds::ZERO, false);
    let (mut begun, mut seen) = (0, Vec::new());
    while let Some(operation) = bench.volume.next_operation() {
        let home = operation.target == 0 && operation.command.kind == OpKind::Write;
        begun += u64::from(home && operation.command.range.start.0 < 1000);
        let done = Completion { token: operation.token, status: Status::Done, payload: NoPayload };
        if let Drain::UnderWay { blocks_left: 4, blocks_on_their_way, .. } = bench.volume.drain_progress() {
            seen.push((begun, blocks_on_their_way));
        }
        bench.volume.complete(Nanoseconds::ZERO, done);
    }
    assert_eq!(bench.volume.drain_progress(), Drain::Done);
    assert_eq!(begun, 4, "two blocks, one, and two parts of one");
    // All four writes begin at once.
    assert!(seen.contains(&(0, 0)) && seen.contains(&(4, 4)), "{seen:?}");
    assert!(seen.iter().all(|&(_, on_their_way)| on_their_way == 0 || on_their_way == 4), "{seen:?}");
}

/// A log is full, and its migration has ended. The slots of the log are freed once a read has ended
/// that began before the migration's end. A write waits for the slots, and no other migration
/// begins during the wait.
#[test]
fn full_log_waits_for_room_that_is_on_its_way() {
    let mut bench = Bench::new("griffin", &[("timeout", "off"), ("log_buffer", "0")]);
    bench.request(OpKind::Write, 0, 8);
    bench.submit(0, OpKind::Read, 0, 8);
    let read = bench.volume.next_operation().unwrap();
    let done = |token| Completion { token, status: Status::Done, payload: NoPayload };
    let (mut blocks, mut operations) = (0, 0);
    while bench.volume.view().freeing_slots == 0 {
        blocks += 1;
        bench.submit(0, OpKind::Write, 80 * blocks, 8);
        while let Some(operation) = bench.volume.next_operation() {
            bench.volume.complete(Nanoseconds::ZERO, done(operation.token));
            operations += 1;
            assert!(operations < 20_000, "one migration after the other");
        }
        assert!(blocks < 2000, "the log is never full");
    }
    assert_eq!((bench.volume.statistics().migrations.count, bench.volume.view().waiting_for_slots), (1, 1));
    bench.take_log();
    bench.pass(Nanoseconds::from_seconds(100));
    assert_eq!(bench.take_log(), [""; 0], "nothing but the read is in the way");
    bench.volume.complete(Nanoseconds::from_seconds(100), done(read.token));
    bench.serve();
    assert_eq!((bench.volume.requests_under_way(), bench.volume.view().map.len()), (0, 1));
}
