//! Tests of a flash drive's commands, with times that can be computed by hand.

mod configuration;
mod data_sheets;

use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::dies::{Dies, Job, NO_REQUEST};
use super::operation::{Cause, NandKind, NandOp};
use super::{Flash, Precondition};
use crate::profile::{Body, Profile};
use crate::{DeviceModel, Finished};

/// Profile of 2 channels × 1 die of 64 blocks of 16 pages of 16 KiB, 4 units a page. Sensing takes
/// 50 us, programming 500 us, erasing 3 ms, a unit on the channel 10 us; the link takes almost no
/// time.
const SMALL: &str = r#"
name = "small"
kind = "flash"
summary = "a drive for tests"
capacity = 0x100000
channels = 2
dies_per_channel = 1
planes_per_die = 1
blocks_per_plane = 64
pages_per_block = 16
page_size = "16KiB"
cell = "tlc"
spare_factor = 0.25
rated_cycles = 1000
read_us = 50
program_us = 500
erase_us = 3000
channel_mb_per_s = 409.6
link_mb_per_s = 1000000
write_buffer = "256KiB"
power_loss_protection = "off"
flush_us = 200
"#;

fn profile(changes: &[(&str, &str)]) -> Profile {
    let mut profile = Profile::parse(SMALL, "small.toml").unwrap();
    profile.set_all(changes.iter().copied()).unwrap();
    profile
}

/// Returns the figures of the drive for tests, with changes.
pub(crate) fn flash_profile(changes: &[(&str, &str)]) -> super::FlashProfile {
    match profile(changes).body {
        Body::Flash(flash) => *flash,
        Body::Hdd(_) | Body::Cloud(_) => panic!("a flash drive"),
    }
}

fn drive_in(changes: &[(&str, &str)], precondition: Precondition) -> Flash {
    let profile = profile(changes);
    let Body::Flash(flash) = &profile.body else { panic!("a flash drive") };
    let all = SectorRange { start: Sectors(0), len: profile.capacity };
    Flash::new(flash, profile.capacity, None, precondition, all, 1).unwrap()
}

fn drive(changes: &[(&str, &str)]) -> Flash {
    drive_in(changes, Precondition::Clean)
}

fn command(kind: OpKind, start: u64, len: u64) -> Command {
    Command { kind, range: SectorRange::new(start, len), fua: false }
}

fn us(microseconds: u64) -> Nanoseconds {
    Nanoseconds::from_micros(microseconds)
}

/// Submits all `commands` at `now`. Returns the times at which the commands finish, in whole
/// microseconds.
fn times(drive: &mut Flash, now: Nanoseconds, commands: &[Command]) -> Vec<u64> {
    let mut finished = Vec::new();
    drive.advance(now, &mut finished);
    assert!(finished.is_empty());
    for (number, command) in commands.iter().enumerate() {
        drive.submit(now, Token(number as u64), *command);
    }
    drain(drive, &mut finished);
    finished.sort_by_key(|finished| finished.token);
    finished.iter().map(|finished| (finished.at.0 + 500) / 1000).collect()
}

fn drain(drive: &mut Flash, finished: &mut Vec<Finished>) {
    while let Some(at) = drive.next_event() {
        drive.advance(at, finished);
    }
}

/// Settings for 8 channels × 4 dies, pages of one unit, so that after a sequential fill unit u lies
/// in die u % 32.
const WIDE: [(&str, &str); 6] = [
    ("channels", "8"),
    ("dies_per_channel", "4"),
    ("page_size", "4KiB"),
    ("blocks_per_plane", "32"),
    ("write_buffer", "off"),
    ("pages_per_block", "64"),
];

/// Reads on eight channels of four dies take the times that follow from the busy dies and channels.
#[test]
fn reads_on_eight_channels_take_the_sum_of_busy_times() {
    // A read alone takes 50 us to sense and 10 us on the channel.
    let read = |unit: u64| command(OpKind::Read, unit * 8, 8);
    let mut expected = Vec::new();
    for depth in [1u64, 4, 16, 64] {
        let mut drive = drive_in(&WIDE, Precondition::Sequential);
        let commands: Vec<_> = (0..depth).map(read).collect();
        let measured = times(&mut drive, Nanoseconds::ZERO, &commands);
        // Units 0 to 7 each have a channel; 8 to 15 share it with them and transfer second; 16 to
        // 31 third and fourth. A die senses its second page once it has sent its first: from 60 on,
        // ready at 110, and 10 us later for each of the dies after it on the channel.
        expected.clear();
        for unit in 0..depth {
            let on_channel = unit / 8 % 4;
            expected.push(if unit < 32 { 60 + 10 * on_channel } else { 120 + 10 * on_channel });
        }
        assert_eq!(measured, expected, "depth {depth}");
    }
}

#[test]
fn random_reads_scale_with_depth_as_far_as_dies_collide() {
    // Closed loop of N reads over 32 equal dies: at most N at once, at least N / (1 + (N - 1) /
    // 32), which holds for service times that vary as much as their mean.
    let mut rates = Vec::new();
    for depth in [1u64, 4, 16, 64] {
        let mut drive = drive_in(&WIDE, Precondition::Sequential);
        let units = drive.capacity().0 / 8;
        let mut random = Pcg64::seed_from_u64(2);
        let mut finished = Vec::new();
        let mut submit = |drive: &mut Flash, now, token| {
            drive.submit(now, Token(token), command(OpKind::Read, random.next_u64() % units * 8, 8));
        };
        for token in 0..depth {
            submit(&mut drive, Nanoseconds::ZERO, token);
        }
        let (mut done, mut now) = (0, Nanoseconds::ZERO);
        while done < 20_000 {
            now = drive.next_event().unwrap();
            drive.advance(now, &mut finished);
            for _ in finished.drain(..) {
                done += 1;
                submit(&mut drive, now, depth + done);
            }
        }
        let scale = done as f64 / now.0 as f64 * 60_000.0;
        let n = depth as f64;
        assert!(scale <= n.min(32.0) * 1.001, "depth {depth}: {scale}");
        assert!(scale >= n / (1.0 + (n - 1.0) / 32.0) * 0.99, "depth {depth}: {scale}");
        rates.push(scale);
    }
    assert!((rates[0] - 1.0).abs() < 0.001, "depth 1 is 60 us each: {rates:?}");
}

#[test]
fn a_die_in_collection_delays_only_what_waits_for_it() {
    let drive = drive(&[("channels", "2"), ("dies_per_channel", "2"), ("blocks_per_plane", "64")]);
    let Body::Flash(figures) = profile(&[]).body else { panic!("a flash drive") };
    let mut dies = Dies::new(drive.geometry(), figures.nand_timing(drive.geometry()));
    let operation = |kind, die, commands| NandOp {
        die,
        commands,
        pages: commands,
        units: commands,
        ..NandOp::new(kind, Cause::Collection)
    };
    let job = |request, operation| Job { operation, request, epoch: 0 };
    // Die 0 reads 3 rows (150 + 30 us) and erases (3000 us) for its collector.
    dies.submit(us(0), job(NO_REQUEST, operation(NandKind::Read, 0, 3)), false);
    dies.submit(us(0), job(NO_REQUEST, operation(NandKind::Erase, 0, 1)), false);
    // Reads of the host at 100 us: two for die 0, one for die 1 (the other channel), one for die 2
    // (the same channel).
    for (request, die) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        dies.submit(us(100), job(request, operation(NandKind::Read, die, 1)), true);
    }
    let mut ends = Vec::new();
    while let Some(at) = dies.next_event() {
        if let Some(job) = dies.step() {
            ends.push((job.request, at.0 / 1000));
        }
    }
    // Die 0 ends its reads at 180 because its channel is free from 150 on, and the host precedes
    // the erase: 180 + 60, + 60. Die 2 is ready at 150 too, but its channel is occupied until 180.
    let erase = 300 + 3000;
    assert_eq!(ends, [(2, 160), (NO_REQUEST, 180), (3, 190), (0, 240), (1, 300), (NO_REQUEST, erase)]);
}

/// Writes finish in the buffer until it is full, then at the speed of the dies.
#[test]
fn writes_finish_in_the_buffer_until_it_is_full() {
    // A page of 4 units: 40 us on the channel, 500 us to program; two dies. The buffer holds 8
    // units, two pages.
    let mut drive = drive(&[("write_buffer", "32KiB")]);
    let writes: Vec<_> = (0..6).map(|page| command(OpKind::Write, page * 32, 32)).collect();
    // Both dies program at once and free their pages at 540; the next two pages at 1080; and so on.
    assert_eq!(times(&mut drive, us(0), &writes), [0, 0, 540, 540, 1080, 1080]);
}

/// A flush waits for the programs of the buffer's pages unless the buffer survives a power cut.
#[test]
fn flush_waits_for_cells_without_power_loss_protection() {
    let commands = [command(OpKind::Write, 0, 8), command(OpKind::Flush, 0, 0)];
    let flush = [command(OpKind::Flush, 0, 0)];
    for (protection, expected) in [("off", 40 + 500 + 200), ("on", 200)] {
        let mut drive = drive(&[("power_loss_protection", protection)]);
        let mut finished = Vec::new();
        drive.submit(us(0), Token(0), commands[0]);
        drive.advance(us(10), &mut finished);
        assert_eq!(finished.len(), 1, "the write is done in the buffer");
        assert_eq!(times(&mut drive, us(10), &commands[1..]), [10 + expected]);
        let nothing_to_do = if protection == "on" { 200 } else { 0 };
        assert_eq!(times(&mut drive, us(5000), &flush), [5000 + nothing_to_do]);
    }
}

#[test]
fn a_forced_write_waits_for_the_cells() {
    let forced = Command { fua: true, ..command(OpKind::Write, 0, 8) };
    assert_eq!(times(&mut drive(&[]), us(0), &[forced]), [540]);
    assert_eq!(times(&mut drive(&[("power_loss_protection", "on")]), us(0), &[forced]), [0]);
    assert_eq!(times(&mut drive(&[("write_buffer", "off")]), us(0), &[forced]), [540]);
}

/// Without a buffer a small write programs a whole page. A write of a part of a unit reads the unit
/// first.
#[test]
fn unbuffered_small_write_programs_a_page() {
    let mut drive = drive(&[("write_buffer", "off")]);
    // The whole page crosses the channel, padding included.
    assert_eq!(times(&mut drive, us(0), &[command(OpKind::Write, 0, 8)]), [540]);
    // 512 bytes: the unit is read (50 + 10 us), then the page is written.
    assert_eq!(times(&mut drive, us(1000), &[command(OpKind::Write, 3, 1)]), [1000 + 60 + 540]);
    // A unit that was never written needs no read.
    assert_eq!(times(&mut drive, us(2000), &[command(OpKind::Write, 803, 1)]), [2000 + 540]);
    let statistics = drive.statistics(us(3000));
    let flash = statistics.flash.unwrap();
    assert_eq!(flash.partial_unit_writes, 2);
    assert_eq!(flash.pages_programmed_host, 3);
    assert_eq!(flash.host_bytes_written, Bytes(4096 + 512 + 512));
    assert_eq!(flash.bytes_programmed, Bytes(3 * 16384));
    assert_eq!(statistics.busy.0 / 1000, 540 + 600 + 540);
    assert_eq!((flash.lifetime_years, flash.lifetime_unlimited), (None, true));
}

#[test]
fn a_read_returns_what_is_in_memory_or_nowhere_without_a_die() {
    let mut drive = drive(&[]);
    assert_eq!(times(&mut drive, us(0), &[command(OpKind::Read, 0, 64)]), [0], "never written");
    times(&mut drive, us(0), &[command(OpKind::Write, 0, 8)]);
    assert_eq!(times(&mut drive, us(10), &[command(OpKind::Read, 0, 8)]), [10], "in the buffer");
    times(&mut drive, us(10), &[command(OpKind::Flush, 0, 0)]);
    assert_eq!(times(&mut drive, us(2000), &[command(OpKind::Read, 0, 8)]), [2060], "in the cells");
    times(&mut drive, us(3000), &[command(OpKind::Discard, 0, 8)]);
    assert_eq!(times(&mut drive, us(3000), &[command(OpKind::Read, 0, 8)]), [3000], "discarded");
}

#[test]
fn serial_timing_does_one_thing_at_a_time() {
    let mut changes = WIDE.to_vec();
    changes.push(("timing", "serial"));
    let mut drive = drive_in(&changes, Precondition::Sequential);
    let reads: Vec<_> = (0..4).map(|unit| command(OpKind::Read, unit * 8, 8)).collect();
    assert_eq!(times(&mut drive, us(0), &reads), [60, 120, 180, 240]);
    assert_eq!(times(&mut drive, us(1000), &[command(OpKind::Write, 0, 16)]), [1000 + 2 * 510]);
}

/// Settings of Konanki's module: 30 us before a read, 40 us before a write, 50 us for a page read,
/// 500 us for a page written, 3 ms for a block erased.
const SERIAL: [(&str, &str); 9] = [
    ("timing", "serial"),
    ("channels", "1"),
    ("page_size", "4KiB"),
    ("pages_per_block", "4"),
    ("write_buffer", "off"),
    ("channel_mb_per_s", "1000000"),
    ("read_overhead_us", "30"),
    ("write_overhead_us", "40"),
    ("ftl", "page-in-place"),
];

fn serial(changes: &[(&str, &str)], precondition: Precondition) -> Flash {
    drive_in(&[&SERIAL, changes].concat(), precondition)
}

#[test]
fn the_serial_module_takes_overhead_and_constant_latencies() {
    let mut drive = serial(&[], Precondition::Clean);
    assert_eq!(times(&mut drive, us(0), &[command(OpKind::Write, 0, 16)]), [40 + 2 * 500]);
    let reads = [command(OpKind::Read, 0, 16), command(OpKind::Read, 0, 8)];
    assert_eq!(times(&mut drive, us(10_000), &reads), [10_000 + 30 + 2 * 50, 10_000 + 30 + 2 * 50 + 30 + 50]);
    // Two dirty pages are read, the block is erased, and the page that stays and the two of the
    // request are written.
    let again = command(OpKind::Write, 8, 16);
    assert_eq!(times(&mut drive, us(20_000), &[again]), [20_000 + 40 + 2 * 50 + 3000 + 3 * 500]);
    assert_eq!(times(&mut drive, us(40_000), &[command(OpKind::Read, 512, 8)]), [40_000 + 30], "nothing is there");
}

/// A write to a drive that is not clean takes n page writes and k erases. The k erases take time
/// but are not counted.
#[test]
fn write_to_a_used_drive_takes_n_programs_and_k_erases() {
    let mut drive = serial(&[("erases_per_write_request", "0.25")], Precondition::Clean);
    for pages in 1..5 {
        let write = command(OpKind::Write, 64 * pages, 8 * pages);
        let now = us(100_000 * pages);
        assert_eq!(times(&mut drive, now, &[write]), [100_000 * pages + 40 + pages * 500 + 750]);
    }
    assert_eq!(drive.statistics(us(1_000_000)).flash.unwrap().erases, 0);
}

#[test]
fn a_drive_written_before_erases_before_it_writes() {
    for (probability, expected) in [("0", 40 + 500), ("1", 40 + 4 * 50 + 3000 + 4 * 500)] {
        let mut drive = serial(&[("prewrite_probability", probability)], Precondition::Clean);
        assert_eq!(times(&mut drive, us(0), &[command(OpKind::Write, 0, 8)]), [expected], "{probability}");
    }
}

/// Konanki, section 3.1: "the FTL might read several pages to find the right page to be returned to
/// a read request". After n writes of a page its chain has n units. A read then senses n pages, and
/// the clean page after the newest page ends the search.
#[test]
fn anand_read_pays_for_each_unit_of_its_chain() {
    let mut drive = serial(&[("ftl", "anand"), ("chain_length_max", "4")], Precondition::Clean);
    let page = |kind| command(kind, 64, 8);
    for units in 1..=4 {
        let now = us(100_000 * units);
        assert_eq!(times(&mut drive, now, &[page(OpKind::Write)]), [now.0 / 1000 + 40 + 500], "unit {units}");
        let now = now + us(10_000);
        assert_eq!(times(&mut drive, now, &[page(OpKind::Read)]), [now.0 / 1000 + 30 + 50 * units], "{units} units");
    }
    // Page 9 shares the chain. Page 9 lies in the first unit, and a look at the second unit shows
    // that no newer version follows.
    let other = |kind| command(kind, 72, 8);
    assert_eq!(times(&mut drive, us(600_000), &[other(OpKind::Write)]), [600_000 + 40 + 500]);
    assert_eq!(times(&mut drive, us(700_000), &[other(OpKind::Read)]), [700_000 + 30 + 2 * 50]);
}

#[test]
fn the_bare_medium_refuses_to_overwrite_until_a_block_is_erased() {
    let mut drive = serial(&[("ftl", "none")], Precondition::Clean);
    let mut finished = Vec::new();
    let commands = [
        command(OpKind::Write, 0, 8),
        command(OpKind::Write, 0, 8),
        command(OpKind::Discard, 0, 24),
        command(OpKind::Write, 0, 8),
        command(OpKind::Discard, 0, 32),
        command(OpKind::Write, 0, 8),
    ];
    for (token, command) in (0..).zip(commands) {
        let now = finished.last().map_or(us(0), |finished: &Finished| finished.at);
        drive.submit(now, Token(token), command);
        drain(&mut drive, &mut finished);
    }
    let statuses: Vec<_> = finished.iter().map(|finished| finished.status).collect();
    let (done, refused) = (Status::Done, Status::MediaError);
    assert_eq!(statuses, [done, refused, done, refused, done, done]);
    assert_eq!(drive.statistics(us(1_000_000)).flash.unwrap().erases_by_cause[0], ("host", 1));
}

#[test]
fn the_link_serves_one_command_after_another_each_way() {
    // At 409.6 MB/s, 4096 bytes take 10 us, and each command occupies the link for 5 us; overheads
    // overlap.
    let link = [("link_mb_per_s", "409.6"), ("command_us", "5"), ("read_overhead_us", "7"), ("write_overhead_us", "9")];
    let mut drive = drive(&link);
    let reads = [command(OpKind::Read, 0, 8), command(OpKind::Read, 8, 8)];
    assert_eq!(times(&mut drive, us(0), &reads), [15 + 7, 30 + 7]);
    let writes = [command(OpKind::Write, 0, 8), command(OpKind::Write, 8, 8)];
    assert_eq!(times(&mut drive, us(100), &writes), [115 + 9, 130 + 9]);
}

/// Rates of the two directions of a data sheet differ: reads keep their rate when writes have a
/// rate of their own.
#[test]
fn writes_have_a_link_of_their_own_where_it_is_given() {
    let link = [("link_mb_per_s", "409.6"), ("command_us", "5")];
    let mut drive = drive(&[link[0], link[1], ("write_link_mb_per_s", "204.8"), ("write_command_us", "2")]);
    let reads = [command(OpKind::Read, 0, 8), command(OpKind::Read, 8, 8)];
    assert_eq!(times(&mut drive, us(0), &reads), [15, 30]);
    let writes = [command(OpKind::Write, 0, 8), command(OpKind::Write, 8, 8)];
    assert_eq!(times(&mut drive, us(100), &writes), [122, 144]);
}

#[test]
fn hints_are_unsupported_and_empty_commands_finish() {
    let mut drive = drive(&[]);
    let mut finished = Vec::new();
    drive.submit(us(0), Token(1), command(OpKind::Hint, 0, 8));
    drive.submit(us(0), Token(2), command(OpKind::Write, 5, 0));
    drain(&mut drive, &mut finished);
    let statuses: Vec<_> = finished.iter().map(|finished| (finished.token.0, finished.status)).collect();
    assert_eq!(statuses, [(1, Status::Unsupported), (2, Status::Done)]);
}

#[test]
fn lifetime_follows_from_erases_and_rated_cycles() {
    let mut drive = drive_in(
        &[("active_watts", "2"), ("idle_watts", "1"), ("erase_microjoules", "1000")],
        Precondition::Sequential,
    );
    let pages = drive.capacity().0 / 32;
    let mut random = Pcg64::seed_from_u64(4);
    let mut finished = Vec::new();
    for token in 0..4 * pages {
        let now = drive.next_event().unwrap_or(us(0)).max(us(token));
        drive.advance(now, &mut finished);
        drive.submit(now, Token(token), command(OpKind::Write, random.next_u64() % pages * 32, 32));
    }
    drain(&mut drive, &mut finished);
    drive.check();
    let year = Nanoseconds::from_seconds(31_557_600);
    let statistics = drive.statistics(year);
    let flash = statistics.flash.unwrap();
    assert!(flash.erases > 100);
    assert_eq!(flash.erases, flash.erases_by_cause.iter().map(|(_, count)| count).sum::<u64>());
    let pages_programmed = flash.pages_programmed_by_cause.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(flash.bytes_programmed, Bytes(pages_programmed * 16384));
    assert_eq!(flash.host_bytes_written, statistics.write_bytes);
    let mean = 128.0 * 1000.0 / flash.erases as f64;
    assert!((flash.lifetime_years.unwrap() / mean - 1.0).abs() < 1e-9);
    let worst = 1000.0 / flash.erase_count.max as f64;
    assert!((flash.lifetime_worst_block_years.unwrap() / worst - 1.0).abs() < 1e-9);
    assert!((flash.erase_count.mean - flash.erases as f64 / 128.0).abs() < 1e-9);
    let seconds = statistics.busy.as_seconds_f64();
    let energy = 2.0 * seconds + (31_557_600.0 - seconds) + flash.erases as f64 * 1e-3;
    assert!((statistics.energy_joules.unwrap() / energy - 1.0).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_command_finishes_once_and_in_order_of_time(
        seed in any::<u64>(), buffer in prop_oneof![Just("off"), Just("32KiB"), Just("256KiB")],
        protection in prop_oneof![Just("on"), Just("off")], timing in prop_oneof![Just("serial"), Just("parallel")],
        state in prop_oneof![Just(Precondition::Clean), Just(Precondition::Sequential), Just(Precondition::Random)],
    ) {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut drive = drive_in(&[("write_buffer", buffer), ("power_loss_protection", protection), ("timing", timing)], state);
        let capacity = drive.capacity().0;
        let (mut finished, mut now, mut bytes) = (Vec::new(), Nanoseconds::ZERO, 0);
        for token in 0..1500 {
            let len = [1, 8, 8, 8, 32, 57, 2000][(random.next_u32() % 7) as usize];
            let start = random.next_u64() % (capacity - len);
            let kind = match random.next_u32() % 12 {
                0 => OpKind::Flush,
                1 => OpKind::Discard,
                2 => OpKind::WriteZeroes,
                3..=5 => OpKind::Read,
                _ => OpKind::Write,
            };
            let range = if kind == OpKind::Flush { SectorRange::default() } else { SectorRange::new(start, len) };
            bytes += if kind == OpKind::Write { len * 512 } else { 0 };
            drive.submit(now, Token(token), Command { kind, range, fua: random.next_u32() % 10 == 0 });
            now += us(u64::from(random.next_u32() % 2) * u64::from(random.next_u32() % 1000));
            drive.advance(now, &mut finished);
            if let Some(next) = drive.next_event() {
                prop_assert!(next > now);
            }
        }
        drain(&mut drive, &mut finished);
        drive.check();
        prop_assert!(finished.is_sorted_by_key(|finished| finished.at));
        let mut tokens: Vec<_> = finished.iter().map(|finished| finished.token.0).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, (0..1500).collect::<Vec<_>>());
        let statistics = drive.statistics(now.max(finished[finished.len() - 1].at));
        let flash = statistics.flash.unwrap();
        prop_assert!(flash.host_bytes_written >= Bytes(bytes));
        prop_assert_eq!(statistics.reads + statistics.writes + statistics.flushes + statistics.discards, 1500);
    }
}

#[test]
fn pages_take_the_time_of_their_type() {
    // Rows have one page of 4 units. Each write is a page, one after another, all to one die.
    let one_die = [("channels", "1"), ("write_buffer", "off"), ("program_us_by_type", "200,500,900")];
    let mut drive = drive(&one_die);
    for (nth, program) in [200, 500, 900, 200, 500].into_iter().enumerate() {
        let now = 10_000 * (nth as u64 + 1);
        let write = command(OpKind::Write, nth as u64 * 32, 32);
        assert_eq!(times(&mut drive, us(now), &[write]), [now + 40 + program], "page {nth}");
    }
}

/// A program is suspended for a read and takes its remaining time after the read.
#[test]
fn program_is_suspended_for_a_read_and_resumes() {
    for (suspend, read_done, programmed) in [(None, 540 + 60, 540), (Some("20"), 100 + 20 + 60, 540 + 20 + 60)] {
        let mut changes = vec![("channels", "1"), ("write_buffer", "off")];
        changes.extend(suspend.map(|us| ("suspend_us", us)));
        let mut drive = drive_in(&changes, Precondition::Sequential);
        let mut finished = Vec::new();
        drive.submit(us(0), Token(0), command(OpKind::Write, 0, 32));
        drive.advance(us(100), &mut finished);
        drive.submit(us(100), Token(1), command(OpKind::Read, 320, 8));
        drain(&mut drive, &mut finished);
        finished.sort_by_key(|finished| finished.token);
        let ends: Vec<u64> = finished.iter().map(|finished| finished.at.0 / 1000).collect();
        assert_eq!(ends, [programmed, read_done], "suspend_us {suspend:?}");
    }
}

#[test]
fn what_a_read_waits_for_is_told_by_cause() {
    let mut drive = drive_in(&[("channels", "1"), ("write_buffer", "off")], Precondition::Sequential);
    drive.submit(us(0), Token(0), command(OpKind::Write, 0, 32));
    drive.advance(us(100), &mut Vec::new());
    drive.submit(us(100), Token(1), command(OpKind::Read, 320, 8));
    drive.submit(us(100), Token(2), command(OpKind::Read, 640, 8));
    drain(&mut drive, &mut Vec::new());
    let flash = drive.statistics(us(10_000)).flash.unwrap();
    // Both wait 440 us for the program, the second waits 60 us more for the first; the link takes
    // some nanoseconds.
    assert_eq!(flash.wait_by_cause[0].1.0 / 1000, 2 * 440 + 60);
    assert_eq!(flash.die_busy_by_cause[0].1.0 / 1000, 540 + 2 * 60);
    assert!(flash.wait_by_cause[1..].iter().all(|(_, time)| *time == us(0)));
}

/// Writes go fast into single-bit cells until the single-bit cells are full. An idle drive moves
/// the cached data and empties the single-bit cells.
#[test]
fn writes_are_fast_until_the_slc_cache_is_full() {
    // A block of 16 pages takes 5 of one bit: 80 KiB. The cache has one block in each of two dies.
    let slc = [("slc_cache", "160KiB"), ("slc_program_us", "100"), ("write_buffer", "off")];
    let mut drive = drive(&slc);
    // One write every 10 ms, so that the drive is never idle for long.
    let took = |page: u64| {
        let now = us(10_000 * page);
        let mut finished = Vec::new();
        drive.advance(now, &mut finished);
        drive.submit(now, Token(page), command(OpKind::Write, page * 32, 32));
        while finished.is_empty() {
            drive.advance(drive.next_event().unwrap(), &mut finished);
        }
        (finished[0].at - now).0 / 1000
    };
    let times: Vec<u64> = (0..12).map(took).collect();
    assert_eq!(times, [vec![140; 10], vec![540; 2]].concat());
    drive.check();
    // When the host is idle, the drive packs the cached data into blocks of all bits.
    let moved = |drive: &Flash| drive.statistics(us(100_000_000)).flash.unwrap().pages_programmed_gc;
    assert_eq!(moved(&drive), 0);
    drain(&mut drive, &mut Vec::new());
    assert_eq!(moved(&drive), 10);
    drive.check();
}

/// Regression: the erase of a block with one bit in each cell counted as a whole rated cycle. A
/// drive with such a cache seemed to last a quarter of its life.
#[test]
fn single_bit_erase_wears_a_tenth_of_an_erase_of_all_bits() {
    let slc = [("slc_cache", "160KiB"), ("slc_program_us", "100"), ("write_buffer", "off")];
    let (mut drive, mut finished) = (drive(&slc), Vec::new());
    for page in 0..10 {
        drive.advance(us(1_000 * page), &mut finished);
        drive.submit(us(1_000 * page), Token(page), command(OpKind::Write, page * 32, 32));
    }
    drain(&mut drive, &mut finished);
    drive.check();
    let flash = drive.statistics(Nanoseconds::from_seconds(31_557_600)).flash.unwrap();
    assert_eq!((flash.erases, flash.erase_count.max), (2, 1), "the two blocks of the cache, after a year");
    let is = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-9;
    assert!(is(flash.cycles_used, 0.2 / 128.0), "{}", flash.cycles_used);
    assert!(is(flash.lifetime_years.unwrap(), 128.0 * 1000.0 / 0.2));
    assert!(is(flash.lifetime_worst_block_years.unwrap(), 1000.0 / 0.1));
    assert_eq!(drive.wear().unwrap().erased.0, 16 * 16384 / 5, "two tenths of a block");
}

/// Regression: each erase counted once for every plane of the die, at the size of the block in all
/// planes. A drive with four planes seemed to wear four times as fast, to MixedStore's lifetime.
#[test]
fn wear_counts_a_block_once_however_many_planes_it_has() {
    for planes in [1, 2, 4] {
        let changes = [("planes_per_die", &*planes.to_string()), ("ftl", "page-in-place"), ("write_buffer", "off")];
        let mut drive = drive_in(&changes, Precondition::Sequential);
        assert_eq!(drive.wear().unwrap().erased, Bytes(0));
        // This layer erases a block to overwrite a page of it.
        times(&mut drive, us(0), &[command(OpKind::Write, 0, 32)]);
        let (wear, block) = (drive.wear().unwrap(), Bytes::from_kib(16 * 16 * planes));
        assert_eq!((wear.erased, wear.block), (block, block), "{planes} planes");
        assert_eq!((wear.flash, wear.endurance), (Bytes(128 * block.0), Bytes(128_000 * block.0)));
    }
}

/// An idle drive collects blocks until it has the number of free blocks in its profile.
#[test]
fn idle_drive_collects_up_to_gc_idle_free_blocks() {
    let mut drive = drive_in(&[("gc_idle_free_blocks", "20")], Precondition::Sequential);
    let pages = drive.capacity().0 / 32;
    let mut random = Pcg64::seed_from_u64(4);
    let mut finished = Vec::new();
    let mut now = us(0);
    for token in 0..pages {
        drive.submit(now, Token(token), command(OpKind::Write, random.next_u64() % pages * 32, 32));
        // The drive is never idle for as long as 0.1 s.
        while finished.len() as u64 <= token {
            now = drive.next_event().unwrap();
            drive.advance(now, &mut finished);
        }
    }
    let erases = |drive: &Flash| drive.statistics(us(1_000_000_000)).flash.unwrap().erases;
    let before = erases(&drive);
    let busy_until = now;
    drain(&mut drive, &mut finished);
    drive.check();
    assert!(erases(&drive) > before, "{before} erases");
    assert!(drive.next_event().is_none() && finished.len() as u64 == pages);
    assert!(busy_until < us(1_000_000_000));
}

#[test]
fn uncached_map_entry_delays_a_read_by_a_page_read() {
    // 24 MiB in units of 4 KiB: 6144 entries, of which two are cached.
    let mut drive = drive_in(&[("ftl", "dftl"), ("map_cache", "16")], Precondition::Sequential);
    let read = |unit: u64| [command(OpKind::Read, unit * 8, 8)];
    assert_eq!(times(&mut drive, us(0), &read(0)), [60 + 60]);
    assert_eq!(times(&mut drive, us(1000), &read(0)), [1000 + 60], "the entry is cached");
    assert_eq!(times(&mut drive, us(2000), &read(3000)), [2000 + 60 + 60]);
}

#[test]
fn the_data_of_blocks_that_are_mostly_outdated_are_named_first() {
    let mut drive = drive_in(&[("channels", "1"), ("write_buffer", "off")], Precondition::Sequential);
    assert_eq!(drive.fragmented(Sectors(1 << 20)), Some(Vec::new()), "nothing is outdated");
    // Blocks of 16 pages of 4 units: all but one unit of block 2 and half of block 5 are written
    // again.
    let mut now = us(0);
    for range in [(2 * 64 + 1, 63), (5 * 64, 32)] {
        let write = command(OpKind::Write, range.0 * 8, range.1 * 8);
        times(&mut drive, now, &[write]);
        now += us(1_000_000);
    }
    assert_eq!(drive.fragmented(Sectors(8)), Some(vec![SectorRange::new(2 * 64 * 8, 8)]));
    let expected = [SectorRange::new(2 * 64 * 8, 8), SectorRange::new((5 * 64 + 32) * 8, 256)];
    assert_eq!(drive.fragmented(Sectors(1 << 20)).unwrap()[..2], expected);
}
