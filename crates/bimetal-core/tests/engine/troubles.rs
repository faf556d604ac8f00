//! Bad content that a volume reports: found by reads, writes, moves and scrubs. A report of a block
//! ends when the block has good content again.

use std::collections::BTreeSet;

use crate::world::{CACHES, Raw, World};
use bimetal_core::block::{Block, BlockRun};
use bimetal_core::label::report::{Kind, State};
use bimetal_core::operation::{Command, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::{Trouble, Volume};

/// Schemes that leave content off home alone: only drains move it.
const LAZY: [(&str, &[(&str, &str)]); 2] = [
    ("smart-response", &[("mode", "maximized"), ("idle", "1h")]),
    ("griffin", &[("timeout", "off"), ("read_threshold", "off")]),
];

fn slots_member(world: &World) -> usize {
    world.with_layout(|layout| layout.slots.unwrap().member.0.into())
}

/// Zeroes the sectors of slots that hold `byte`. Returns their number.
pub(crate) fn rot(world: &mut World, byte: u8) -> usize {
    let member = slots_member(world);
    let mut sectors = world.content[member].values_mut().filter(|sector| **sector == [byte; 512]).peekable();
    assert!(sectors.peek().is_some(), "{byte} is in a slot");
    let mut count = 0;
    sectors.for_each(|sector| {
        *sector = [0; 512];
        count += 1;
    });
    count / 8
}

/// Returns the status of a request that may fail.
fn try_it(world: &mut World, volume: &mut Volume<Raw>, kind: OpKind, block: u64, blocks: u64, byte: u8) -> Status {
    world.requests += 1;
    let payload = if kind == OpKind::Write { Raw(vec![byte; blocks as usize * 4096]) } else { Raw::empty() };
    let command = Command { kind, range: SectorRange::new(block * 8, blocks * 8), fua: false };
    volume.submit(world.now, Operation { token: Token(world.requests), target: 0, command, payload });
    world.serve(volume);
    volume.next_finished().expect("it ends").status
}

/// Returns everything that the volume has to report: bad blocks with kind and state, and blocks
/// that have good content again.
fn told(volume: &mut Volume<Raw>) -> (Vec<(u64, Kind, State)>, BTreeSet<u64>) {
    let (mut found, mut over) = (Vec::new(), BTreeSet::new());
    while let Some(trouble) = volume.next_trouble() {
        match trouble {
            Trouble::Found { blocks, kind, state, .. } => {
                found.extend(blocks.blocks().map(|block| (block.0, kind, state)));
            }
            Trouble::Over { blocks } => over.extend(blocks.blocks().map(|block| block.0)),
        }
    }
    (found, over)
}

fn lost(blocks: impl IntoIterator<Item = u64>) -> Vec<(u64, Kind, State)> {
    blocks.into_iter().map(|block| (block, Kind::Checksum, State::Lost)).collect()
}

/// Regression: reads of zeroed slots failed, and nothing counted the errors: the status called the
/// volume safe.
#[test]
fn reads_of_rotten_dirty_slots_tell_each_block_once() {
    for (scheme, settings) in LAZY {
        let mut world = World::new(scheme, settings);
        let mut volume = world.recover(&[]).unwrap();
        (0..40).for_each(|block| world.write(&mut volume, block * 8, 8, if block < 30 { 7 } else { 9 }));
        world.flush(&mut volume);
        assert_eq!(told(&mut volume), (vec![], BTreeSet::new()), "{scheme}");
        assert_eq!(rot(&mut world, 7), 30);
        assert_eq!(try_it(&mut world, &mut volume, OpKind::Read, 0, 40, 0), Status::MediaError, "{scheme}");
        assert_eq!(told(&mut volume).0, lost(0..30), "{scheme}");
        assert_eq!((volume.lost_blocks(), volume.statistics().checksum_errors), (30, 30));
        assert_eq!(try_it(&mut world, &mut volume, OpKind::Read, 3, 1, 0), Status::MediaError);
        assert_eq!(told(&mut volume).0, lost([]), "known already");
        assert_eq!(volume.statistics().checksum_errors, 31);
        // Block 5 is written, blocks 6 and 7 are discarded, and a part of a block is written that
        // cannot be merged.
        world.write(&mut volume, 5 * 8, 8, 1);
        assert_eq!(try_it(&mut world, &mut volume, OpKind::Discard, 6, 2, 0), Status::Done);
        assert_eq!(told(&mut volume), (vec![], BTreeSet::from([5, 6, 7])), "{scheme}");
        assert_eq!(volume.lost_blocks(), 27);
        world.reads(&mut volume, 40, 8, 1);
    }
}

/// A read of several slots that fails as a whole does not show which slot is bad. Each slot is read
/// again alone.
#[test]
fn unreadable_slots_are_told_one_by_one() {
    let (scheme, settings) = LAZY[0];
    let mut world = World::new(scheme, settings);
    let mut volume = world.recover(&[]).unwrap();
    world.write(&mut volume, 0, 64, 3);
    world.flush(&mut volume);
    let member = slots_member(&world) as u16;
    let first =
        world.content[usize::from(member)].iter().find(|(_, sector)| **sector == [3; 512]).map(|(at, _)| *at).unwrap();
    let bad = first + 2 * 8;
    volume.submit(
        world.now,
        Operation {
            token: Token(9),
            target: 0,
            command: Command { kind: OpKind::Read, range: SectorRange::new(0, 64), fua: false },
            payload: Raw::empty(),
        },
    );
    while let Some(operation) = volume.next_operation() {
        let range = operation.command.range;
        let fails = operation.target == member
            && operation.command.kind == OpKind::Read
            && (range.start.0..range.end().0).contains(&bad);
        let mut completion = world.answer(operation);
        if fails {
            (completion.status, completion.payload) = (Status::MediaError, Raw::empty());
        }
        volume.complete(world.now, completion);
    }
    assert_eq!(volume.next_finished().unwrap().status, Status::MediaError);
    assert_eq!(told(&mut volume).0, [(2, Kind::Unreadable, State::Lost)]);
    // The slot can be read after all, so nothing is lost.
    world.reads(&mut volume, 0, 64, 3);
    assert_eq!(told(&mut volume), (vec![], BTreeSet::from([2])));
    assert_eq!(volume.lost_blocks(), 0);
}

#[test]
fn a_rotten_clean_slot_is_served_from_home_and_dropped() {
    let mut world = World::new("hybrid-disk", &[]);
    let mut volume = world.recover(&[]).unwrap();
    world.write(&mut volume, 80, 8, 5);
    world.flush(&mut volume);
    world.drain(&mut volume, false);
    volume.end_drain(world.now);
    (0..3).for_each(|_| world.reads(&mut volume, 80, 8, 5));
    let occupied = volume.view().map.len();
    assert!(occupied > 0, "a copy is off home");
    rot(&mut world, 5);
    world.reads(&mut volume, 80, 8, 5);
    assert_eq!(told(&mut volume).0, [(10, Kind::Checksum, State::Repaired)]);
    assert_eq!((volume.view().map.len(), volume.lost_blocks()), (occupied - 1, 0));
    let repaired = volume.statistics().reads_repaired;
    world.reads(&mut volume, 80, 8, 5);
    assert_eq!(volume.statistics().reads_repaired, repaired, "home serves, or a new copy");
}

/// The superblock has room for a limited number of lost blocks. Regression: a drain that found more
/// lost blocks reported only the blocks in the superblock.
#[test]
fn a_drain_tells_all_lost_blocks_beyond_the_superblocks_list() {
    for (scheme, settings) in LAZY {
        let mut world = World::new(scheme, settings);
        let mut volume = world.recover(&[]).unwrap();
        (0..400).for_each(|block| world.write(&mut volume, block * 16, 8, 7));
        world.flush(&mut volume);
        assert_eq!(rot(&mut world, 7), 400);
        volume.drain(world.now, false);
        world.serve(&mut volume);
        world.pass(&mut volume, Nanoseconds::from_seconds(2));
        assert_eq!(volume.lost_blocks(), 400, "{scheme}");
        let found: BTreeSet<u64> = told(&mut volume).0.into_iter().map(|(block, ..)| block).collect();
        assert_eq!(found, (0..400).map(|at| at * 2).collect(), "{scheme}");
        volume.end_drain(world.now);
        world.flush(&mut volume);
        drop(volume);
        // After a restart, `recall_lost` tells the volume of the lost blocks that the superblock
        // has no room for, and it finds them in their slots.
        let mut volume = world.recover(&[]).unwrap();
        let named = told(&mut volume).0.len() as u64;
        assert!(named > 0 && volume.lost_blocks() == named && named <= 251, "{scheme}: {named}");
        let run = |at: u64| BlockRun { first: Block(at * 2), count: 1 };
        let gone: Vec<BlockRun> = (0..401).flat_map(|at| volume.recall_lost(run(at))).collect();
        assert_eq!(gone, [run(400)], "it was written again, or never was");
        assert_eq!(volume.lost_blocks(), 400, "{scheme}");
    }
}

#[test]
fn a_scrub_tells_what_it_finds_and_what_is_well_again() {
    let (scheme, settings) = LAZY[0];
    let mut world = World::new(scheme, settings);
    let mut volume = world.recover(&[]).unwrap();
    (0..20).for_each(|block| world.write(&mut volume, block * 8, 8, block as u8 + 1));
    world.flush(&mut volume);
    rot(&mut world, 4);
    let saved = world.content[slots_member(&world)].clone();
    volume.scrub(world.now, None);
    world.serve(&mut volume);
    assert_eq!(told(&mut volume).0, [(3, Kind::Scrub, State::Lost)]);
    // The damage of another block appears and vanishes, as with a bad cable.
    rot(&mut world, 9);
    assert_eq!(try_it(&mut world, &mut volume, OpKind::Read, 8, 1, 0), Status::MediaError);
    assert_eq!(told(&mut volume).0, lost([8]));
    let member = slots_member(&world);
    world.content[member] = saved;
    volume.scrub(world.now, None);
    world.serve(&mut volume);
    assert_eq!(told(&mut volume), (vec![], BTreeSet::from([8])));
    assert_eq!(volume.lost_blocks(), 1);
}

/// Regression: a scrub dropped a bad clean copy and left the cache with a hole, which the next read
/// had to fill from home.
#[test]
fn a_scrub_fills_a_bad_clean_slot_again_from_home() {
    let (scheme, settings) = LAZY[0];
    let mut world = World::new(scheme, settings);
    let mut volume = world.recover(&[]).unwrap();
    (0..20).for_each(|block| world.write(&mut volume, block * 8, 8, block as u8 + 1));
    world.drain(&mut volume, false);
    volume.end_drain(world.now);
    assert_eq!(volume.view().map.slots_in_use(), 20);
    rot(&mut world, 4);
    volume.scrub(world.now, None);
    world.serve(&mut volume);
    assert_eq!(told(&mut volume).0, [(3, Kind::Scrub, State::Repaired)]);
    assert_eq!(volume.view().map.slots_in_use(), 20, "another slot has the block");
    // Home's copy is erased as well, so the next read returns the copy that the scrub filled in.
    let home = 1 - slots_member(&world);
    world.content[home].values_mut().filter(|sector| **sector == [4; 512]).for_each(|sector| *sector = [0; 512]);
    world.reads(&mut volume, 24, 8, 4);
}

/// A part of a block in a rotten slot is overwritten: the write fails, and the slot is reported.
#[test]
fn a_write_that_must_merge_with_a_rotten_slot_tells() {
    let (scheme, settings) = LAZY[0];
    let mut world = World::new(scheme, settings);
    let mut volume = world.recover(&[]).unwrap();
    world.write(&mut volume, 0, 8, 7);
    world.flush(&mut volume);
    world.drain(&mut volume, false);
    volume.end_drain(world.now);
    world.write(&mut volume, 0, 8, 6);
    world.flush(&mut volume);
    drop(volume);
    let mut volume = world.recover(&[]).unwrap();
    rot(&mut world, 6);
    world.requests += 1;
    let command = Command { kind: OpKind::Write, range: SectorRange::new(3, 1), fua: false };
    volume
        .submit(world.now, Operation { token: Token(world.requests), target: 0, command, payload: Raw(vec![1; 512]) });
    world.serve(&mut volume);
    assert_eq!(volume.next_finished().unwrap().status, Status::MediaError);
    assert_eq!(told(&mut volume).0, lost([0]));
}

/// A volume on sound drives reports nothing, whatever its requests are.
#[test]
fn a_sound_volume_tells_nothing() {
    for (scheme, settings) in CACHES {
        let mut world = World::new(scheme, settings);
        let mut volume = world.recover(&[]).unwrap();
        for step in 0..300u64 {
            let start = (step * 7919) % 900 * 8;
            world.write(&mut volume, start + step % 2, 8 - step % 2 * 3, step as u8);
            world.request(&mut volume, OpKind::Read, start, Raw::empty(), 64);
            if step % 50 == 49 {
                world.flush(&mut volume);
                volume.scrub(world.now, None);
                world.serve(&mut volume);
            }
        }
        world.drain(&mut volume, false);
        assert_eq!(told(&mut volume), (vec![], BTreeSet::new()), "{scheme}");
        assert_eq!(volume.statistics().checksum_errors, 0);
    }
}
