//! A migration that sorts itself by runs in the free part of its log: power cuts in each of its
//! phases, copies that are damaged, runs that cannot be written, and appends that want the room.

use std::collections::VecDeque;

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::Volume;

use crate::world::{Raw, World};

const HDD: u16 = 1;
const SECOND: Nanoseconds = Nanoseconds::from_seconds(1);
/// Half of the migration's memory is for content: 40 blocks with their records.
const SETTINGS: &[(&str, &str)] = &[("timeout", "1s"), ("read_threshold", "off"), ("move_memory", "336KiB")];
/// Blocks in the log: five runs.
const BLOCKS: u64 = 200;

/// Returns the address of the block that is written as number `at`: far from the blocks written
/// before.
fn address(at: u64) -> u64 {
    at * 79 % BLOCKS * 16
}

fn content(at: u64) -> u8 {
    at as u8 + 1
}

/// A migration with five runs, whose operations are answered one by one.
struct Sorting {
    world: World,
    volume: Volume<Raw>,
    under_way: VecDeque<Operation<Raw>>,
    /// Slots of the log's drive.
    slots: SectorRange,
    /// Content that unflushed writes have replaced: member, sector, content before.
    replaced: Vec<(u16, u64, Option<[u8; 512]>)>,
    /// Number of blocks written to runs, and home.
    in_runs: u64,
    home: u64,
    /// First blocks written home, in order.
    order: Vec<u64>,
    tokens: u64,
}

impl Sorting {
    /// Returns a migration that is about to begin. All of the log is stable.
    fn new(settings: &[(&'static str, &'static str)]) -> Self {
        let mut world = World::new("griffin", settings);
        let mut volume = world.recover(&[]).unwrap();
        (0..BLOCKS).for_each(|at| world.write(&mut volume, address(at), 8, content(at)));
        world.flush(&mut volume);
        let slots = volume.view().layout.slots.unwrap();
        let slots = SectorRange::new(slots.first_sector, u64::from(slots.count) * 8);
        let mut sorting = Self {
            world,
            volume,
            under_way: VecDeque::new(),
            slots,
            replaced: Vec::new(),
            in_runs: 0,
            home: 0,
            order: Vec::new(),
            tokens: 1 << 20,
        };
        sorting.world.now = SECOND;
        sorting.volume.advance(SECOND);
        assert!(sorting.volume.view().moving);
        sorting
    }

    /// Returns the next operation of a drive.
    fn next(&mut self) -> Option<Operation<Raw>> {
        while let Some(operation) = self.volume.next_operation() {
            self.under_way.push_back(operation);
        }
        self.under_way.pop_front()
    }

    fn is_in_slots(&self, operation: &Operation<Raw>) -> bool {
        let range = operation.command.range;
        operation.target == HDD && range.start >= self.slots.start && range.end() <= self.slots.end()
    }

    /// Returns true if an operation is on a run. The runs of the first migration lie in the last
    /// slots of the log.
    fn is_of_run(&self, operation: &Operation<Raw>) -> bool {
        self.is_in_slots(operation) && operation.command.range.start.0 >= self.slots.end().0 - BLOCKS * 8
    }

    fn note(&mut self, operation: &Operation<Raw>) {
        let Command { kind, range, .. } = operation.command;
        let blocks = range.len.0 / 8;
        match kind {
            OpKind::Write if self.is_of_run(operation) => self.in_runs += blocks,
            OpKind::Write if operation.target != HDD && range.start.0 < 16 * BLOCKS => {
                self.home += blocks;
                self.order.push(range.start.0);
            }
            OpKind::Flush => self.replaced.retain(|(member, ..)| *member != operation.target),
            _ => {}
        }
        if kind == OpKind::Write {
            let content = &self.world.content[usize::from(operation.target)];
            let sectors = range.start.0..range.end().0;
            self.replaced.extend(sectors.map(|sector| (operation.target, sector, content.get(&sector).copied())));
        }
    }

    fn answer(&mut self, operation: Operation<Raw>) {
        self.note(&operation);
        let completion = self.world.answer(operation);
        self.volume.complete(self.world.now, completion);
    }

    /// Answers one operation. Returns false if no operation is left.
    fn step(&mut self) -> bool {
        let Some(operation) = self.next() else { return false };
        self.answer(operation);
        true
    }

    /// Answers all operations. Time passes when the volume waits for a time.
    fn end(&mut self) {
        loop {
            while self.step() {}
            let Some(at) = self.volume.next_timeout().filter(|_| self.volume.view().moving) else { return };
            self.world.now = at.max(self.world.now);
            self.volume.advance(self.world.now);
        }
    }

    fn submit(&mut self, kind: OpKind, start: u64, byte: u8) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        let payload = if kind == OpKind::Write { Raw(vec![byte; 4096]) } else { Raw::empty() };
        let command = Command { kind, range: SectorRange::new(start, 8), fua: false };
        self.volume.submit(self.world.now, Operation { token, target: 0, command, payload });
        token
    }

    fn reads_all(mut self) {
        assert_eq!(self.volume.lost_blocks(), 0);
        (0..BLOCKS).for_each(|at| self.world.reads(&mut self.volume, address(at), 8, content(at)));
        assert_eq!(self.volume.statistics().checksum_errors, 0);
    }

    /// Cuts the power. With `forgets` the drives lose all that was not flushed.
    fn cut(mut self, forgets: bool) -> World {
        if forgets {
            for (member, sector, before) in self.replaced.drain(..).rev() {
                let content = &mut self.world.content[usize::from(member)];
                match before {
                    Some(before) => _ = content.insert(sector, before),
                    None => _ = content.remove(&sector),
                }
            }
        }
        self.world
    }
}

/// A migration that reads its log three times writes stretches of 120 blocks. If the migration
/// sorts by runs, all blocks are written in order.
#[test]
fn migration_by_runs_writes_all_in_order_of_address() {
    let mut sorting = Sorting::new(SETTINGS);
    sorting.end();
    assert_eq!((sorting.in_runs, sorting.home), (BLOCKS, BLOCKS));
    assert!(sorting.order.is_sorted());
    assert!(sorting.volume.view().map.is_empty());
    sorting.reads_all();
}

/// A power cut while a run is read, while it is written, between runs, while batches are read from
/// runs, and while they go home: the slots have everything, and a recovery sees no run.
#[test]
fn cut_in_each_phase_of_a_sort_loses_nothing() {
    let mut phases = [0; 3];
    // Blocks go home one by one, and one write is like another.
    let cuts = (0..40).chain((40..).step_by(7));
    for cut in cuts {
        let mut last = false;
        for forgets in [false, true] {
            let mut sorting = Sorting::new(SETTINGS);
            last = !(0..cut).all(|_| sorting.step());
            let phase = match (sorting.in_runs, sorting.home) {
                (0, _) => 0,
                (_, 0) => 1,
                _ => 2,
            };
            phases[phase] += 1;
            let mut world = sorting.cut(forgets);
            for life in 0..2 {
                let mut volume = world.recover(&[]).unwrap_or_else(|error| panic!("cut {cut}, {forgets}: {error}"));
                assert_eq!(volume.lost_blocks(), 0, "cut {cut}, life {life}");
                (0..BLOCKS).for_each(|at| world.reads(&mut volume, address(at), 8, content(at)));
                // The next life migrates, and leaves what it wrote to the next recovery.
                world.pass(&mut volume, SECOND);
            }
        }
        if last {
            break;
        }
    }
    assert!(phases.iter().all(|cuts| *cuts >= 10), "{phases:?}");
}

/// A recovery after a cut finds runs where the log continues. A new life appends over these runs,
/// is cut, and is recovered.
#[test]
fn log_appended_over_forgotten_runs_is_recovered() {
    let mut sorting = Sorting::new(SETTINGS);
    while sorting.in_runs < BLOCKS {
        assert!(sorting.step());
    }
    let mut world = sorting.cut(false);
    world.settings = vec![("timeout", "off"), ("read_threshold", "off")];
    for life in 1..4u64 {
        let mut volume = world.recover(&[]).unwrap();
        for at in 0..BLOCKS {
            world.write(&mut volume, address(at), 8, content(at + life));
            if at % 16 == 0 {
                world.flush(&mut volume);
            }
        }
        world.flush(&mut volume);
        drop(volume);
        let mut volume = world.recover(&[]).unwrap();
        (0..BLOCKS).for_each(|at| world.reads(&mut volume, address(at), 8, content(at + life)));
    }
}

/// A copy in a run is damaged, or cannot be read. Its slot has the content, and no error is
/// counted.
#[test]
fn damaged_copy_in_a_run_is_read_from_its_slot() {
    for is_unreadable in [false, true] {
        let mut sorting = Sorting::new(SETTINGS);
        let mut damaged = 0;
        while let Some(operation) = sorting.next() {
            let Command { kind, range, .. } = operation.command;
            if sorting.is_of_run(&operation) && kind == OpKind::Write {
                sorting.answer(operation);
                let at = range.start.0;
                sorting.world.content[usize::from(HDD)].entry(at).and_modify(|sector| sector[7] ^= 1);
                continue;
            }
            if sorting.is_of_run(&operation) {
                damaged += 1;
                if is_unreadable {
                    let token = operation.token;
                    let failed = Completion { token, status: Status::MediaError, payload: Raw::empty() };
                    sorting.volume.complete(sorting.world.now, failed);
                    continue;
                }
            }
            sorting.answer(operation);
        }
        sorting.end();
        assert!(damaged >= 10 && sorting.home == BLOCKS, "{damaged} damaged, {} home", sorting.home);
        sorting.reads_all();
    }
}

/// The move continues from the slots, in the order that memory allows, and makes no more runs. The
/// log still takes writes.
#[test]
fn migration_goes_on_without_a_run_that_cannot_be_written() {
    let mut sorting = Sorting::new(SETTINGS);
    let mut failed = 0;
    while let Some(operation) = sorting.next() {
        if sorting.is_of_run(&operation) && operation.command.kind == OpKind::Write {
            failed += 1;
            let token = operation.token;
            let completion = Completion { token, status: Status::MediaError, payload: Raw::empty() };
            sorting.volume.complete(sorting.world.now, completion);
        } else {
            sorting.answer(operation);
        }
    }
    sorting.end();
    assert!((1..=4).contains(&failed), "{failed} writes of runs");
    assert_eq!((sorting.home, sorting.order.is_sorted()), (BLOCKS, false));
    sorting.world.write(&mut sorting.volume, 0, 8, content(0));
    sorting.reads_all();
}

/// Appends fill the log while its free part holds runs. The first append that finds no room gets
/// the room of the runs, and no run lies over the append.
#[test]
fn append_without_room_gets_that_of_the_runs() {
    for after_runs in [1, 100, BLOCKS] {
        let mut sorting = Sorting::new(SETTINGS);
        while sorting.in_runs < after_runs {
            assert!(sorting.step());
        }
        let free = sorting.volume.view().free_slots;
        let mut written = 0;
        // The drives answer appends, and nothing else.
        let mut of_move = Vec::new();
        while sorting.volume.view().waiting_for_slots == 0 {
            written += 1;
            sorting.submit(OpKind::Write, (1 << 14) + written * 8, 7);
            while let Some(operation) = sorting.next() {
                let is_of_move = sorting.is_of_run(&operation) || operation.command.kind != OpKind::Write;
                if is_of_move { of_move.push(operation) } else { sorting.answer(operation) }
            }
        }
        sorting.under_way.extend(of_move);
        assert!(written < free, "{written} of {free}");
        let home = sorting.home;
        while sorting.volume.view().waiting_for_slots > 0 {
            assert!(sorting.step());
        }
        assert!(sorting.home - home <= 80, "the append waited for two batches at most");
        assert!(sorting.volume.view().free_slots + written > free, "the room of the runs is the log's");
        (0..150).for_each(|at| _ = sorting.submit(OpKind::Write, (1 << 15) + at * 8, 8));
        sorting.end();
        while sorting.volume.next_finished().is_some() {}
        (1..=written).for_each(|at| sorting.world.reads(&mut sorting.volume, (1 << 14) + at * 8, 8, 7));
        (0..150).for_each(|at| sorting.world.reads(&mut sorting.volume, (1 << 15) + at * 8, 8, 8));
        sorting.reads_all();
    }
}

/// Reads of the log make a move urgent. An urgent move makes no more runs, and writes home the
/// content that was read.
#[test]
fn urgent_migration_makes_no_more_runs() {
    let settings = [("timeout", "1s"), ("read_window", "1"), ("move_memory", "336KiB")];
    let mut sorting = Sorting::new(&settings);
    while sorting.in_runs < 50 {
        assert!(sorting.step());
    }
    sorting.submit(OpKind::Read, address(3), 0);
    while sorting.home == 0 {
        assert!(sorting.step());
    }
    assert!(sorting.in_runs < 100, "{} blocks", sorting.in_runs);
    sorting.end();
    assert_eq!(sorting.home, BLOCKS);
    while sorting.volume.next_finished().is_some() {}
    sorting.reads_all();
}
