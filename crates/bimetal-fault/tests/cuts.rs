//! Bugs that crash cases found, each as the shortest story that shows it. A story runs many times, and each time its power
//! cut takes something else of what was not flushed.

use std::collections::{BTreeMap, VecDeque};

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{Recovery, Volume, VolumeConfig, format};
use bimetal_fault::drive::{Drive, Plan};
use bimetal_fault::payload::{Sector, Tags};
use bimetal_fault::random::Random;

/// How often a story runs.
const TIMES: u64 = 300;

/// A volume over drives that answer in order and lose power.
struct Story {
    settings: Settings,
    members: Vec<MemberInfo>,
    scheme: &'static str,
    drives: Vec<Drive>,
    volume: Option<Volume<Tags>>,
    /// Operations that were not answered yet.
    waiting: VecDeque<Operation<Tags>>,
    finished: BTreeMap<u64, Completion<Tags>>,
    now: Nanoseconds,
    tokens: u64,
    random: Random,
}

const SSD: u16 = 0;
const HDD: u16 = 1;

/// Which operations are answered.
type Answers = fn(&Operation<Tags>) -> bool;

const ALL: Answers = |_| true;

impl Story {
    /// `small` sectors for the drive that is no home.
    fn new(seed: u64, scheme: &'static str, settings: &[(&str, &str)], small: u64) -> Self {
        let info = schemes::find(scheme).unwrap();
        let settings = Settings::new(info.name, info.parameters, settings.iter().copied()).unwrap();
        let ssd_is_home = info.members[0].0 == Role::Ssd;
        let capacity = |is_home| if is_home { Bytes::from_mib(4).sectors() } else { Sectors(small) };
        let members = vec![
            MemberInfo { role: Role::Ssd, capacity: capacity(ssd_is_home) },
            MemberInfo { role: Role::Hdd, capacity: capacity(!ssd_is_home) },
        ];
        let drive =
            |member: &MemberInfo| Drive::new(member.capacity.0, Nanoseconds(1000), Plan::default()).with_write_cache();
        let drives = members.iter().map(drive).collect();
        let random = Random::new(seed);
        let (waiting, finished, now) = (VecDeque::new(), BTreeMap::new(), Nanoseconds::ZERO);
        let mut story =
            Self { settings, members, scheme, drives, volume: None, waiting, finished, now, tokens: 0, random };
        for operation in format::<Tags>(&story.config()).unwrap() {
            story.apply(operation);
        }
        story.recover();
        story
    }

    fn config(&self) -> VolumeConfig<'_> {
        let layout = LayoutRequest { block: BlockSize::default(), members: &self.members, units: &[] };
        let scheme = schemes::find(self.scheme).unwrap();
        VolumeConfig { scheme, settings: &self.settings, layout, identity: 5 }
    }

    fn volume(&mut self) -> &mut Volume<Tags> {
        self.volume.as_mut().expect("a volume is up")
    }

    fn apply(&mut self, operation: Operation<Tags>) -> Completion<Tags> {
        let drive = &mut self.drives[usize::from(operation.target)];
        drive.start(self.now, operation, &mut self.random);
        drive.end_next(&mut self.random).expect("one operation is under way").completion
    }

    fn recover(&mut self) {
        let mut recovery = Recovery::new(&self.config(), &[]).unwrap();
        while let Some(operation) = recovery.next_operation() {
            let completion = self.apply(operation);
            recovery.complete(completion);
        }
        self.volume = Some(recovery.finish().expect("no drive has failed"));
    }

    /// The power goes, and comes back.
    fn cut(&mut self) {
        self.volume = None;
        self.waiting.clear();
        for drive in &mut self.drives {
            drive.power_cut(&mut self.random);
        }
        self.recover();
    }

    /// Sends a request; its number is what a write leaves in its sectors.
    fn send(&mut self, kind: OpKind, start: u64, sectors: u64, fua: bool) -> u64 {
        self.tokens += 1;
        let number = self.tokens;
        let payload =
            if kind == OpKind::Write { Tags::written(number as u32, start, sectors) } else { Tags::default() };
        let command = Command { kind, range: SectorRange::new(start, sectors), fua };
        let now = self.now;
        self.volume().submit(now, Operation { token: Token(number), target: 0, command, payload });
        number
    }

    /// Lets drives answer what `answers` says; everything else waits.
    fn answer(&mut self, answers: Answers) {
        loop {
            while let Some(finished) = self.volume().next_finished() {
                self.finished.insert(finished.token.0, finished);
            }
            while let Some(operation) = self.volume().next_operation() {
                self.waiting.push_back(operation);
            }
            let next = self.waiting.iter().position(answers);
            let Some(operation) = next.and_then(|next| self.waiting.remove(next)) else { return };
            self.now += Nanoseconds(1000);
            let completion = self.apply(operation);
            let now = self.now;
            self.volume().complete(now, completion);
        }
    }

    fn run(&mut self, kind: OpKind, start: u64, sectors: u64, fua: bool) -> u64 {
        let number = self.send(kind, start, sectors, fua);
        self.answer(ALL);
        assert_eq!(self.finished[&number].status, Status::Done);
        number
    }

    fn write(&mut self, start: u64, sectors: u64) -> u64 {
        self.run(OpKind::Write, start, sectors, false)
    }

    fn flush(&mut self) {
        self.run(OpKind::Flush, 0, 0, false);
    }

    /// Which requests wrote the sectors; 0 where none did.
    fn read(&mut self, start: u64, sectors: u64) -> Vec<u64> {
        let number = self.run(OpKind::Read, start, sectors, false);
        let number_of = |sector| match sector {
            Sector::Data { request, .. } => u64::from(request),
            _ => 0,
        };
        self.finished[&number].payload.iter().map(number_of).collect()
    }

    /// Lets time pass.
    fn pass(&mut self, time: Nanoseconds, answers: Answers) {
        let end = self.now + time;
        while let Some(at) = self.volume().next_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            let now = self.now;
            self.volume().advance(now);
            self.answer(answers);
        }
        self.now = self.now.max(end);
    }
}

#[test]
fn a_log_begins_with_a_segment_after_a_migration_that_began_within_one() {
    for seed in 0..TIMES {
        let settings = [("timeout", "10s"), ("read_threshold", "off"), ("migration_size", "16KiB")];
        let mut story = Story::new(seed, "griffin", &settings, 4000);
        story.write(0, 8);
        // The fourth block starts the migration while the segment is filling; another one joins that segment.
        for block in 1..4 {
            story.send(OpKind::Write, block * 8, 8, false);
        }
        let later = story.send(OpKind::Write, 800, 8, false);
        story.answer(ALL);
        story.flush();
        story.cut();
        assert_eq!(story.read(800, 8), [later; 8]);
    }
}

#[test]
fn a_move_home_does_not_tear_a_block_whose_record_is_not_stable() {
    for seed in 0..TIMES {
        let settings = [("mode", "maximized"), ("idle", "1ms"), ("stream_bypass", "8KiB")];
        let mut story = Story::new(seed, "smart-response", &settings, 4000);
        let old = story.write(80, 16);
        story.flush();
        let new = story.write(80, 8);
        // The write home is on its way when the power goes.
        story.pass(Nanoseconds::from_millis(10), |operation| {
            operation.target == SSD || operation.command.kind != OpKind::Flush
        });
        story.cut();
        let read = story.read(80, 8);
        assert!(read == [old; 8] || read == [new; 8], "{seed}: {read:?}");
    }
}

#[test]
fn a_forced_write_in_place_is_stable_though_an_earlier_one_sent_the_block_home() {
    for seed in 0..TIMES {
        let settings = [("mode", "maximized"), ("stream_bypass", "8KiB"), ("idle", "1h")];
        let mut story = Story::new(seed, "smart-response", &settings, 4000);
        // Two other blocks are off home, too.
        for block in [0, 20, 40] {
            story.write(block * 8, 8);
        }
        story.flush();
        story.write(0, 16);
        let forced = story.run(OpKind::Write, 0, 16, true);
        story.cut();
        assert_eq!(story.read(0, 16), [forced; 16], "{seed}");
    }
}

#[test]
fn a_forced_write_fails_when_the_log_that_took_it_is_gone() {
    let mut story = Story::new(0, "griffin", &[("timeout", "off")], 4000);
    // The second one waits until the first is stable.
    story.send(OpKind::Write, 80, 8, true);
    story.answer(|operation| operation.target == SSD);
    let forced = story.send(OpKind::Write, 0, 8, true);
    story.answer(|operation| operation.target == SSD);
    let (now, log) = (story.now, bimetal_core::layout::MemberId(HDD));
    story.drives[usize::from(HDD)].vanish();
    story.volume().member_gone(now, log);
    story.answer(ALL);
    let status = story.finished.get(&forced).map(|finished| finished.status);
    assert_eq!(status, Some(Status::Gone), "it is on no drive");
}
