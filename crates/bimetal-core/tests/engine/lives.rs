//! A volume over members in memory that is stopped, recovered, drained, detached and attached
//! again.

use std::collections::BTreeMap;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberId};
use bimetal_core::operation::{Command, OpKind, Operation, Status, Token};
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::{self, Recovery, RecoveryError, Volume, VolumeConfig};

use crate::troubles::rot;
use crate::world::{CACHES, Raw, World};

/// Flushed data can be read after each of several sudden stops.
#[test]
fn flushed_data_survives_repeated_sudden_stops() {
    for (scheme, settings) in CACHES {
        let mut world = World::new(scheme, settings);
        for life in 1..6u8 {
            let mut volume = world.recover(&[]).unwrap();
            for earlier in 1..life {
                world.reads(&mut volume, u64::from(earlier) * 1000, 8, earlier);
            }
            for block in 0..40 {
                let old = if life == 1 { 0 } else { life - 1 };
                world.reads(&mut volume, 20_000 + block * 24, 8, old);
                world.write(&mut volume, 20_000 + block * 24, 8, life);
            }
            world.write(&mut volume, u64::from(life) * 1000, 8, life);
            world.flush(&mut volume);
        }
    }
}

/// A write with FUA that was acknowledged keeps its sectors, although a later write of a block that
/// both touch was not flushed before the stop.
#[test]
fn forced_write_survives_later_changes_of_its_blocks() {
    for (scheme, settings) in CACHES {
        let mut world = World::new(scheme, settings);
        let mut volume = world.recover(&[]).unwrap();
        world.write(&mut volume, 0, 24, 1);
        world.flush(&mut volume);
        for round in 0..20u8 {
            let (forced, later) = (2 * round + 2, 2 * round + 3);
            world.force(&mut volume, 4, 8, forced);
            world.write(&mut volume, 6, 12, later);
            volume = world.recover(&[]).unwrap();
            world.reads(&mut volume, 4, 2, forced);
            world.reads(&mut volume, 0, 4, 1);
            world.write(&mut volume, 6, 12, later);
        }
    }
}

/// Data written to the plain home drive after a drain is the content of the volume, also after a
/// kill.
#[test]
fn writes_to_the_plain_disk_are_served_after_a_drain() {
    for (scheme, settings) in CACHES {
        let mut world = World::new(scheme, settings);
        let mut volume = world.recover(&[]).unwrap();
        for block in 0..40 {
            world.write(&mut volume, block * 8, 8, 1);
            world.flush(&mut volume);
            world.reads(&mut volume, block * 8, 8, 1);
            world.reads(&mut volume, block * 8, 8, 1);
        }
        world.drain(&mut volume, true);
        volume.close(world.now);
        world.serve(&mut volume);
        assert!(volume.is_closed());
        let home = usize::from(volume.view().layout.homes()[0].0);
        world.content[home]
            .iter_mut()
            .filter(|(sector, _)| **sector < 320)
            .for_each(|(_, content)| *content = [2; 512]);
        world.recover_with(&[], Recovery::home_was_plain).unwrap();
        // After that recovery the guard was raised, and the server was killed: clean copies still
        // do not count.
        let mut volume = world.recover(&[]).unwrap();
        for block in 0..40 {
            world.reads(&mut volume, block * 8, 8, 2);
        }
    }
}

#[test]
fn many_changes_go_through_checkpoints_and_a_ring_that_wraps() {
    for (scheme, settings) in CACHES {
        let mut world = World::new(scheme, settings);
        let mut expected = BTreeMap::new();
        for life in 0..3u64 {
            let mut volume = world.recover(&[]).unwrap();
            for step in 0..3000u64 {
                let block = (step * 7919 + life * 31) % 700;
                let byte = (step % 251) as u8 + 1;
                world.write(&mut volume, block * 8, 8, byte);
                expected.insert(block, byte);
                if step % 16 == 15 {
                    world.flush(&mut volume);
                }
            }
            world.flush(&mut volume);
        }
        let mut volume = world.recover(&[]).unwrap();
        for (block, byte) in expected {
            world.reads(&mut volume, block * 8, 8, byte);
        }
    }
}

/// A drained home has all content, so the other member may be missing. Old content of that member
/// never returns.
#[test]
fn drained_home_has_everything_without_the_other_member() {
    for (scheme, settings) in CACHES {
        let home = usize::from(scheme != "griffin");
        let other = MemberId(1 - home as u16);
        let mut world = World::new(scheme, settings);
        let mut volume = world.recover(&[]).unwrap();
        (0..50).for_each(|block| world.write(&mut volume, block * 80, 8, block as u8 + 1));
        world.flush(&mut volume);
        drop(volume);
        let dirty = settings.contains(&("mode", "maximized")) || scheme != "smart-response";
        if dirty {
            let error = world.recover(&[other]).err().unwrap();
            assert!(matches!(error, RecoveryError::Needed { member, .. } if member == other), "{error}");
        }
        let mut volume = world.recover(&[]).unwrap();
        world.drain(&mut volume, true);
        for block in 0..50u64 {
            let at_home = world.content[home].get(&(block * 80)).copied().unwrap_or([0; 512]);
            assert_eq!(at_home[0], block as u8 + 1, "{scheme}: block {block} is not at home");
        }
        drop(volume);
        let mut volume = world.recover(&[other]).unwrap();
        // The reason once said that the member was needed.
        let reason = volume.began_without();
        assert!(matches!(reason, Some(RecoveryError::LeftOut { member, .. }) if *member == other), "{reason:?}");
        (0..50).for_each(|block| world.reads(&mut volume, block * 80, 8, block as u8 + 1));
        world.write(&mut volume, 80, 8, 99);
        world.flush(&mut volume);
        drop(volume);
        // Content that the detached member still holds is never returned.
        let mut volume = world.recover(&[]).unwrap();
        world.reads(&mut volume, 80, 8, 99);
        drop(volume);
        world.format(Some(other.0));
        let mut volume = world.recover_with(&[], |recovery| recovery.attach(other)).unwrap();
        world.write(&mut volume, 160, 8, 77);
        world.flush(&mut volume);
        drop(volume);
        let mut volume = world.recover(&[]).unwrap();
        world.reads(&mut volume, 160, 8, 77);
        world.reads(&mut volume, 80, 8, 99);
    }
}

#[test]
fn a_cache_that_is_gone_is_replaced_while_serving_goes_on() {
    let mut world = World::new("smart-response", &[]);
    let mut volume = world.recover(&[]).unwrap();
    (0..50).for_each(|block| world.write(&mut volume, block * 80, 8, 1));
    volume.member_gone(world.now, MemberId(0));
    world.serve(&mut volume);
    (0..50).for_each(|block| world.write(&mut volume, block * 80, 8, 2));
    attach_again(&mut world, &mut volume);
    world.serve(&mut volume);
    (0..50).for_each(|block| world.reads(&mut volume, block * 80, 8, 2));
    let hits = volume.statistics().read_blocks_from_slots;
    (0..50).for_each(|block| world.reads(&mut volume, block * 80, 8, 2));
    assert!(volume.statistics().read_blocks_from_slots > hits, "the new cache takes part");
    world.flush(&mut volume);
    drop(volume);
    let mut volume = world.recover(&[]).unwrap();
    (0..50).for_each(|block| world.reads(&mut volume, block * 80, 8, 2));
}

/// Submits a write of a block, and serves all operations but those that `held` selects. Returns
/// those.
fn serve_but(
    world: &mut World,
    volume: &mut Volume<Raw>,
    write: Option<(u64, u8)>,
    held: impl Fn(&Operation<Raw>) -> bool,
) -> Vec<Operation<Raw>> {
    if let Some((start, byte)) = write {
        world.requests += 1;
        let command = Command { kind: OpKind::Write, range: SectorRange::new(start, 8), fua: false };
        let payload = Raw(vec![byte; 4096]);
        volume.submit(world.now, Operation { token: Token(world.requests), target: 0, command, payload });
    }
    let mut kept = Vec::new();
    while let Some(operation) = volume.next_operation() {
        if held(&operation) {
            kept.push(operation);
        } else {
            let completion = world.answer(operation);
            volume.complete(world.now, completion);
        }
    }
    kept
}

/// Attaches the SSD again, empty.
fn attach_again(world: &mut World, volume: &mut Volume<Raw>) {
    world.content[0].clear();
    world.format_again(Some(0), 1000);
    assert!(volume.attach(world.now, MemberId(0), 1000, 0));
}

/// Serves the held operations, checks that the one request under way is done, and flushes.
fn finish(world: &mut World, volume: &mut Volume<Raw>, held: Vec<Operation<Raw>>) {
    for operation in held {
        let completion = world.answer(operation);
        volume.complete(world.now, completion);
    }
    world.serve(volume);
    assert_eq!(volume.next_finished().map(|finished| finished.status), Some(Status::Done));
    world.flush(volume);
}

/// Regression: home still recorded slots as needed, and their member as failed. A write to a slot
/// was answered, and flushed, before home recorded the new member. After a power cut in between,
/// the flushed content could not be read.
#[test]
fn write_waits_until_home_records_the_new_cache() {
    let mut world = World::new("smart-response", &[("mode", "maximized")]);
    let mut volume = world.recover(&[]).unwrap();
    world.write(&mut volume, 80, 8, 1);
    world.flush(&mut volume);
    world.pass(&mut volume, Nanoseconds::from_seconds(600));
    assert_eq!(volume.view().map.dirty_blocks(), 0, "all is written back");
    volume.member_gone(world.now, MemberId(0));
    world.serve(&mut volume);
    attach_again(&mut world, &mut volume);
    let of_home = |operation: &Operation<Raw>| operation.target == 1;
    let held = serve_but(&mut world, &mut volume, Some((160, 2)), of_home);
    assert!(volume.next_finished().is_none(), "home does not record that the SSD serves again");
    finish(&mut world, &mut volume, held);
    assert_eq!(volume.view().map.dirty_blocks(), 1, "the block is on the SSD alone");
    drop(volume);
    let mut volume = world.recover(&[]).unwrap();
    world.reads(&mut volume, 160, 8, 2);
    world.reads(&mut volume, 80, 8, 1);
}

/// A block is lost, and its SSD vanishes: changes fail, because only the SSD records the loss. With
/// a new SSD changes go on, and the block stays lost.
#[test]
fn changes_go_on_beside_a_lost_block_with_a_new_cache() {
    let mut world = World::new("smart-response", &[("mode", "maximized")]);
    let mut volume = world.recover(&[]).unwrap();
    world.write(&mut volume, 80, 8, 7);
    world.flush(&mut volume);
    assert_eq!(rot(&mut world, 7), 1);
    world.pass(&mut volume, Nanoseconds::from_seconds(600));
    assert_eq!((volume.lost_blocks(), volume.view().map.len()), (1, 0), "its slot cannot be read");
    volume.member_gone(world.now, MemberId(0));
    serve_but(&mut world, &mut volume, Some((160, 1)), |_| false);
    assert_eq!(volume.next_finished().map(|finished| finished.status), Some(Status::MediaError));
    attach_again(&mut world, &mut volume);
    world.write(&mut volume, 160, 8, 2);
    world.flush(&mut volume);
    assert_eq!(volume.lost_blocks(), 1);
    drop(volume);
    let mut volume = world.recover(&[]).unwrap();
    world.reads(&mut volume, 160, 8, 2);
}

/// Regression: a drain was cancelled while home was being told that slots are not needed. A write
/// to a slot went on, and home then recorded that the slots are not needed. A start without the SSD
/// returned old content.
#[test]
fn write_after_a_cancelled_drain_waits_for_home_to_record_it() {
    let mut world = World::new("smart-response", &[("mode", "maximized"), ("idle", "1h")]);
    let layout = world.with_layout(Clone::clone);
    let of_state = |operation: &Operation<Raw>| {
        let places = (0..2).flat_map(|turn| [0, 1].map(|copy| layout.state_place(MemberId(1), turn, copy)));
        operation.target == 1
            && operation.command.kind == OpKind::Write
            && places.into_iter().any(|place| place == operation.command.range)
    };
    let mut volume = world.recover(&[]).unwrap();
    world.write(&mut volume, 80, 8, 1);
    world.flush(&mut volume);
    volume.drain(world.now, false);
    let mut held = serve_but(&mut world, &mut volume, None, of_state);
    assert_eq!((held.len(), volume.view().map.dirty_blocks()), (1, 0), "the state is being written");
    volume.end_drain(world.now);
    held.extend(serve_but(&mut world, &mut volume, Some((160, 2)), of_state));
    assert!(volume.next_finished().is_none(), "home is about to record that slots are not needed");
    finish(&mut world, &mut volume, held);
    drop(volume);
    assert!(matches!(world.recover(&[MemberId(0)]), Err(RecoveryError::Needed { .. })));
}

/// Regression: one part of home that could not be written made all waiting writes fail, although
/// the same move had freed all other slots.
#[test]
fn waiting_writes_get_the_slots_that_a_failed_move_has_freed() {
    let mut world = World::new("hybrid-disk", &[]);
    let mut volume = world.recover(&[]).unwrap();
    let mut block = 0;
    while volume.view().free_slots > 0 {
        world.write(&mut volume, block * 16, 8, 1);
        block += 1;
    }
    for more in 0..5 {
        world.requests += 1;
        let command = Command { kind: OpKind::Write, range: SectorRange::new((block + more) * 16, 8), fua: false };
        let payload = Raw(vec![2; 4096]);
        volume.submit(world.now, Operation { token: Token(world.requests), target: 0, command, payload });
    }
    let mut failures = 1;
    while let Some(operation) = volume.next_operation() {
        let is_home = operation.target == 1 && operation.payload.0.first() == Some(&1);
        let fails = failures > 0 && is_home && operation.command.kind == OpKind::Write;
        let mut completion = world.answer(operation);
        if fails {
            (completion.status, failures) = (Status::MediaError, 0);
        }
        volume.complete(world.now, completion);
    }
    assert_eq!(failures, 0, "a move has written home");
    world.pass(&mut volume, Nanoseconds::from_seconds(2));
    let ended: Vec<_> = std::iter::from_fn(|| volume.next_finished()).map(|finished| finished.status).collect();
    assert_eq!(ended, [Status::Done; 5]);
    world.reads(&mut volume, block * 16, 8, 2);
    world.reads(&mut volume, 0, 8, 1);
}

/// Regression: a drive without a volatile cache may support no flush. Moves to such a home took
/// that for an error, so nothing was ever written back.
#[test]
fn home_that_supports_no_flush_gets_what_is_written_back() {
    let mut world = World::new("smart-response", &[("mode", "maximized")]);
    let mut volume = world.recover(&[]).unwrap();
    world.supports_flush[1] = false;
    world.write(&mut volume, 80, 8, 1);
    world.flush(&mut volume);
    world.drain(&mut volume, false);
    assert_eq!(volume.view().map.dirty_blocks(), 0);
}

/// The old segments lie exactly where the new log ends, and their epochs were counted from the same
/// number.
#[test]
fn a_log_that_comes_back_shows_nothing_of_what_it_held_before() {
    let mut world = World::new("griffin", &[]);
    let log = MemberId(1);
    let mut volume = world.recover(&[]).unwrap();
    for block in 0..8 {
        world.write(&mut volume, block * 8, 8, 1);
        world.flush(&mut volume);
    }
    world.drain(&mut volume, false);
    volume.member_gone(world.now, log);
    world.serve(&mut volume);
    (0..8).for_each(|block| world.write(&mut volume, block * 8, 8, 2));
    world.format_again(Some(1), 1000);
    assert!(volume.attach(world.now, log, 1000, 0));
    world.serve(&mut volume);
    world.write(&mut volume, 0, 8, 3);
    world.flush(&mut volume);
    for _ in 0..3 {
        drop(volume);
        volume = world.recover(&[]).unwrap();
        world.reads(&mut volume, 0, 8, 3);
        (1..8).for_each(|block| world.reads(&mut volume, block * 8, 8, 2));
    }
}

/// A closed cache keeps its clean copies for the next start. After a crash, copies in doubt are
/// dropped.
#[test]
fn closed_cache_is_warm_and_crashed_one_drops_doubtful_copies() {
    for (close, warm) in [(true, true), (false, false)] {
        let mut world = World::new("smart-response", &[]);
        let mut volume = world.recover(&[]).unwrap();
        for round in 0..2 {
            (0..50).for_each(|block| world.write(&mut volume, block * 80, 8, round + 1));
        }
        world.flush(&mut volume);
        if close {
            volume.close(world.now);
            world.serve(&mut volume);
            assert!(volume.is_closed());
        }
        drop(volume);
        let mut volume = world.recover(&[]).unwrap();
        (0..50).for_each(|block| world.reads(&mut volume, block * 80, 8, 2));
        assert_eq!(volume.statistics().read_blocks_from_slots > 0, warm);
    }
}

#[test]
fn what_another_volume_left_on_a_drive_is_not_taken_for_its_own() {
    let mut world = World::new("hybrid-disk", &[]);
    let mut volume = world.recover(&[]).unwrap();
    world.write(&mut volume, 80, 8, 1);
    world.flush(&mut volume);
    drop(volume);
    let scheme = schemes::find("hybrid-disk").unwrap();
    let settings = Settings::new(scheme.name, scheme.parameters, []).unwrap();
    let layout = LayoutRequest { block: BlockSize::default(), members: &world.members.clone(), units: &[] };
    let config = VolumeConfig { scheme, settings: &settings, layout, identity: 43, drives: &[] };
    let mut recovery = Recovery::<Raw>::new(&config, &[]).unwrap();
    while let Some(operation) = recovery.next_operation() {
        let completion = world.answer(operation);
        recovery.complete(completion);
    }
    assert!(matches!(recovery.finish(), Err(error) if matches!(error.cause(), RecoveryError::Unformatted { .. })));
}

/// The time since which content is dirty is known while the volume runs. After a restart this time
/// is unknown until all older content is written back.
#[test]
fn age_of_dirty_content_is_unknown_after_a_restart() {
    let mut world = World::new("griffin", &[("timeout", "900s"), ("read_threshold", "off")]);
    let mut volume = world.recover(&[]).unwrap();
    assert_eq!(volume.dirty_since(), None, "nothing is dirty");
    let second = Nanoseconds::from_seconds;
    world.pass(&mut volume, second(10));
    world.write(&mut volume, 80, 8, 1);
    world.pass(&mut volume, second(10));
    world.write(&mut volume, 160, 8, 1);
    assert_eq!(volume.dirty_since(), Some(second(10)));
    world.flush(&mut volume);
    drop(volume);
    let mut volume = world.recover(&[]).unwrap();
    assert_eq!(volume.dirty_since(), None, "it is of the life before");
    world.pass(&mut volume, second(901));
    assert_eq!((volume.view().map.dirty_blocks(), volume.dirty_since()), (0, None));
    world.write(&mut volume, 80, 8, 1);
    assert_eq!(volume.dirty_since(), Some(second(901)));
}

impl World {
    /// Flips a bit in each sector of a member that begins with `byte`. Returns the number of
    /// sectors.
    fn flip(&mut self, member: usize, byte: u8, before: u64) -> usize {
        let sectors =
            self.content[member].iter_mut().filter(|(sector, content)| **sector < before && content[1] == byte);
        sectors.map(|(_, content)| content[300] ^= 4).count()
    }

    fn scrub(&mut self, volume: &mut Volume<Raw>) -> volume::Scrub {
        volume.scrub(self.now, None);
        self.serve(volume);
        let found = volume.scrub_progress().unwrap().clone();
        assert!(found.finished && !found.interrupted, "{found:?}");
        found
    }
}

#[test]
fn a_scrub_finds_flipped_bits_and_gives_up_copies_that_home_has() {
    for (scheme, settings) in CACHES {
        let slots = usize::from(scheme == "griffin");
        let mut world = World::new(scheme, settings);
        let mut volume = world.recover(&[]).unwrap();
        (0..50).for_each(|block| world.write(&mut volume, block * 80, 8, block as u8 + 1));
        (0..50).for_each(|block| world.reads(&mut volume, block * 80, 8, block as u8 + 1));
        world.flush(&mut volume);
        let found = world.scrub(&mut volume);
        assert_eq!((found.blocks_read, found.bad_blocks), (volume.view().map.len(), 0), "{scheme}");
        assert_eq!(volume.check_slots(bimetal_core::block_map::Slot(0), u32::MAX), [""; 0]);
        let region = volume.view().layout.slots.unwrap();
        let end = region.first_sector + u64::from(region.count) * 8;
        let dirty = volume.view().map.dirty_blocks() > 0;
        assert!(world.flip(slots, 7, end) > 0, "{scheme}");
        let found = world.scrub(&mut volume);
        let bad: Vec<_> = found.bad.iter().map(|bad| (bad.block.0, bad.home_has_it())).collect();
        assert_eq!(bad, [(60, !dirty)], "{scheme}");
        if !dirty {
            let repaired = volume.statistics().reads_repaired;
            world.reads(&mut volume, 480, 8, 7);
            assert_eq!(volume.statistics().reads_repaired, repaired, "home serves it from now on");
            assert_eq!(world.scrub(&mut volume).bad_blocks, 0);
        }
    }
}

/// Regression: a migration that `move_rate` slowed down kept a volume from closing: a stop of the
/// server took as long as its log at that rate.
#[test]
fn closing_volume_finishes_a_migration_at_full_speed() {
    let mut world = World::new("griffin", &[("timeout", "1s"), ("move_rate", "64KiB"), ("move_memory", "1MiB")]);
    let mut volume = world.recover(&[]).unwrap();
    (0..400).for_each(|block| world.write(&mut volume, block * 8, 8, 7));
    world.flush(&mut volume);
    world.pass(&mut volume, Nanoseconds::from_seconds(3));
    // One write of a move has 128 blocks at most.
    let left = volume.view().map.len();
    assert!(left > 400 - 48 - 128, "{left} of 400 blocks at 16 a second");
    volume.close(world.now);
    world.serve(&mut volume);
    world.pass(&mut volume, Nanoseconds::from_seconds(1));
    assert!(volume.is_closed(), "the migration goes on at {:?}", volume.next_timeout());
}
