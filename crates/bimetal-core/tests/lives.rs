//! A volume over members in memory that is stopped, recovered, drained, detached and attached again.

use std::collections::{BTreeMap, VecDeque};

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{self, Drain, Recovery, RecoveryError, Volume, VolumeConfig};

/// Bytes, copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Raw(Vec<u8>);

impl Payload for Raw {
    const CARRIES_DATA: bool = true;
    fn empty() -> Self {
        Self::default()
    }
    fn zeroes(len: Sectors) -> Self {
        Self(vec![0; len.bytes().0 as usize])
    }
    fn slice(&self, start: Sectors, len: Sectors) -> Self {
        let start = start.bytes().0 as usize;
        Self(self.0[start..start + len.bytes().0 as usize].to_vec())
    }
    fn join(&mut self, tail: Self) {
        self.0.extend(tail.0);
    }
    fn sectors(&self) -> Sectors {
        Sectors(self.0.len() as u64 / 512)
    }
    fn checksum(&self) -> u32 {
        crc32c::crc32c(&self.0)
    }
    fn from_metadata(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
    fn to_metadata(&self) -> Vec<u8> {
        self.0.clone()
    }
}

/// Members that answer at once.
struct World {
    scheme: &'static str,
    settings: Vec<(&'static str, &'static str)>,
    members: Vec<MemberInfo>,
    content: Vec<BTreeMap<u64, [u8; 512]>>,
    now: Nanoseconds,
    requests: u64,
}

impl World {
    fn new(scheme: &'static str, settings: &[(&'static str, &'static str)]) -> Self {
        let ssd_is_home = scheme == "griffin";
        let member = |role, mib| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() };
        let sizes = if ssd_is_home { [64, 4] } else { [4, 64] };
        let members = vec![member(Role::Ssd, sizes[0]), member(Role::Hdd, sizes[1])];
        let mut world = Self {
            scheme,
            settings: settings.to_vec(),
            members,
            content: vec![BTreeMap::new(), BTreeMap::new()],
            now: Nanoseconds::ZERO,
            requests: 0,
        };
        world.format(None);
        world
    }

    fn with_config<T>(&self, use_it: impl FnOnce(&VolumeConfig<'_>) -> T) -> T {
        let scheme = schemes::find(self.scheme).unwrap();
        let settings = Settings::new(scheme.name, scheme.parameters, self.settings.iter().copied()).unwrap();
        let layout = LayoutRequest { block: BlockSize::default(), members: &self.members, units: &[] };
        use_it(&VolumeConfig { scheme, settings: &settings, layout, identity: 42 })
    }

    fn format(&mut self, only: Option<u16>) {
        self.format_again(only, 0);
    }

    fn format_again(&mut self, only: Option<u16>, life: u32) {
        let operations: Vec<Operation<Raw>> = self.with_config(|config| volume::format_again(config, life).unwrap());
        for operation in operations.into_iter().filter(|operation| only.is_none_or(|only| operation.target == only)) {
            self.answer(operation);
        }
    }

    fn answer(&mut self, operation: Operation<Raw>) -> Completion<Raw> {
        let Operation { token, target, command, payload } = operation;
        let content = &mut self.content[usize::from(target)];
        let mut read = Vec::new();
        for (at, sector) in (command.range.start.0..command.range.end().0).enumerate() {
            match command.kind {
                OpKind::Read => read.extend(content.get(&sector).copied().unwrap_or([0; 512])),
                OpKind::Write => {
                    content.insert(sector, payload.0[at * 512..][..512].try_into().unwrap());
                }
                OpKind::WriteZeroes => {
                    content.remove(&sector);
                }
                _ => {}
            }
        }
        Completion { token, status: Status::Done, payload: Raw(read) }
    }

    fn recover(&mut self, absent: &[MemberId]) -> Result<Volume<Raw>, RecoveryError> {
        self.recover_with(absent, |recovery| recovery)
    }

    fn recover_with(
        &mut self,
        absent: &[MemberId],
        how: impl FnOnce(Recovery<Raw>) -> Recovery<Raw>,
    ) -> Result<Volume<Raw>, RecoveryError> {
        let mut recovery = how(self.with_config(|config| Recovery::new(config, absent).unwrap()));
        while let Some(operation) = recovery.next_operation() {
            assert!(!absent.contains(&MemberId(operation.target)), "{operation:?} on a member that is not there");
            let completion = self.answer(operation);
            recovery.complete(completion);
        }
        assert!(recovery.is_finished());
        self.now = Nanoseconds::ZERO;
        recovery.finish()
    }

    fn serve(&mut self, volume: &mut Volume<Raw>) {
        let mut operations = VecDeque::new();
        loop {
            while let Some(operation) = volume.next_operation() {
                operations.push_back(operation);
            }
            let Some(operation) = operations.pop_front() else { return };
            let completion = self.answer(operation);
            volume.complete(self.now, completion);
        }
    }

    fn request(&mut self, volume: &mut Volume<Raw>, kind: OpKind, start: u64, payload: Raw, len: u64) -> Raw {
        self.requests += 1;
        let command = Command { kind, range: SectorRange::new(start, len), fua: false };
        volume.submit(self.now, Operation { token: Token(self.requests), target: 0, command, payload });
        self.serve(volume);
        let finished = volume.next_finished().expect("members that answer at once leave no request open");
        assert_eq!(finished.status, Status::Done, "{kind:?} {start}+{len}");
        finished.payload
    }

    fn write(&mut self, volume: &mut Volume<Raw>, start: u64, len: u64, byte: u8) {
        self.request(volume, OpKind::Write, start, Raw(vec![byte; len as usize * 512]), len);
    }

    fn flush(&mut self, volume: &mut Volume<Raw>) {
        self.request(volume, OpKind::Flush, 0, Raw::empty(), 0);
    }

    fn reads(&mut self, volume: &mut Volume<Raw>, start: u64, len: u64, byte: u8) {
        let read = self.request(volume, OpKind::Read, start, Raw::empty(), len);
        assert!(read.0.iter().all(|&found| found == byte), "sector {start}: {} instead of {byte}", read.0[0]);
    }

    fn pass(&mut self, volume: &mut Volume<Raw>, time: Nanoseconds) {
        let end = self.now + time;
        while let Some(at) = volume.next_timeout().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            volume.advance(self.now);
            self.serve(volume);
        }
        self.now = end;
    }

    fn drain(&mut self, volume: &mut Volume<Raw>, detach: bool) {
        volume.drain(self.now, detach);
        self.serve(volume);
        self.pass(volume, Nanoseconds::from_seconds(1));
        assert_eq!(volume.drain_progress(), Drain::Done);
    }
}

const CACHES: [(&str, &[(&str, &str)]); 7] = [
    ("smart-response", &[]),
    ("smart-response", &[("mode", "maximized")]),
    ("hybrid-disk", &[]),
    ("smq", &[]),
    ("bcache", &[]),
    ("writeboost", &[]),
    ("griffin", &[("timeout", "off"), ("read_threshold", "off")]),
];

#[test]
fn what_was_flushed_is_there_after_a_stop_at_once_and_again_after_the_next() {
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

#[test]
fn a_drained_home_has_everything_and_the_other_member_may_be_missing() {
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
        (0..50).for_each(|block| world.reads(&mut volume, block * 80, 8, block as u8 + 1));
        world.write(&mut volume, 80, 8, 99);
        world.flush(&mut volume);
        drop(volume);
        // What the member that was let go still holds is never shown.
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
    world.content[0].clear();
    world.format_again(Some(0), 1000);
    assert!(volume.attach(world.now, MemberId(0), 1000));
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

/// The old segments lie just where the new log ends, and their lives were counted from the same number.
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
    assert!(volume.attach(world.now, log, 1000));
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

#[test]
fn a_closed_cache_is_warm_when_it_is_opened_again_and_a_crashed_one_drops_copies_in_doubt() {
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
    let config = VolumeConfig { scheme, settings: &settings, layout, identity: 43 };
    let mut recovery = Recovery::<Raw>::new(&config, &[]).unwrap();
    while let Some(operation) = recovery.next_operation() {
        let completion = world.answer(operation);
        recovery.complete(completion);
    }
    assert!(matches!(recovery.finish(), Err(RecoveryError::Unformatted { .. })));
}

#[test]
fn how_old_the_oldest_dirty_content_may_be_is_known_and_unknown_after_a_restart() {
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
    /// Flips a bit in each sector of a member that begins with `byte`; how many.
    fn flip(&mut self, member: usize, byte: u8, before: u64) -> usize {
        let sectors =
            self.content[member].iter_mut().filter(|(sector, content)| **sector < before && content[1] == byte);
        sectors.map(|(_, content)| content[300] ^= 4).count()
    }

    fn scrub(&mut self, volume: &mut Volume<Raw>) -> volume::Scrub {
        volume.scrub(self.now);
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
        let bad: Vec<_> = found.bad.iter().map(|bad| (bad.block.0, bad.home_has_it)).collect();
        assert_eq!(bad, [(60, !dirty)], "{scheme}");
        if !dirty {
            let repaired = volume.statistics().reads_repaired;
            world.reads(&mut volume, 480, 8, 7);
            assert_eq!(volume.statistics().reads_repaired, repaired, "home serves it from now on");
            assert_eq!(world.scrub(&mut volume).bad_blocks, 0);
        }
    }
}
