//! A volume over drives that answer in order and lose power, for scripted tests.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{Recovery, RecoveryError, Volume, VolumeConfig, format_again};
use bimetal_fault::damage::{Page, Structure, survey};
use bimetal_fault::drive::{Drive, Plan};
use bimetal_fault::payload::{Sector, Tags};
use bimetal_fault::random::Random;

/// A volume over drives that answer in order and lose power.
pub struct Story {
    pub settings: Settings,
    pub members: Vec<MemberInfo>,
    pub scheme: &'static str,
    pub block: BlockSize,
    pub drives: Vec<Drive>,
    pub volume: Option<Volume<Tags>>,
    /// Operations that were not answered yet.
    pub waiting: VecDeque<Operation<Tags>>,
    pub finished: BTreeMap<u64, Completion<Tags>>,
    pub now: Nanoseconds,
    pub tokens: u64,
    /// Number of records after which a log commits by itself; `None` for the engine's own number.
    pub records_until_commit: Option<usize>,
    /// Unit that requests address.
    pub unit: u16,
    pub random: Random,
}

/// Number of the SSD.
pub const SSD: u16 = 0;
/// Number of the HDD.
pub const HDD: u16 = 1;

/// Function that selects the operations that are answered.
pub type Answers = fn(&Operation<Tags>) -> bool;

/// Selects all operations.
pub const ALL: Answers = |_| true;

impl Story {
    /// Creates a volume; its drive that is not home has `small` sectors.
    pub fn new(seed: u64, scheme: &'static str, settings: &[(&str, &str)], small: u64) -> Self {
        Self::with_blocks(seed, scheme, settings, small, BlockSize::default())
    }

    /// Creates a volume with blocks of this size.
    pub fn with_blocks(
        seed: u64,
        scheme: &'static str,
        settings: &[(&str, &str)],
        small: u64,
        block: BlockSize,
    ) -> Self {
        Self::with_home(seed, scheme, settings, (small, Bytes::from_mib(4).sectors()), block)
    }

    /// Creates a volume; its drive that is not home has `small` sectors, and its home has `home`.
    pub fn with_home(
        seed: u64,
        scheme: &'static str,
        settings: &[(&str, &str)],
        (small, home): (u64, Sectors),
        block: BlockSize,
    ) -> Self {
        let info = schemes::find(scheme).unwrap();
        let settings = Settings::new(info.name, info.parameters, settings.iter().copied()).unwrap();
        let ssd_is_home = info.members[0].0 == Role::Ssd;
        let capacity = |is_home| if is_home { home } else { Sectors(small) };
        let members = vec![
            MemberInfo { role: Role::Ssd, capacity: capacity(ssd_is_home) },
            MemberInfo { role: Role::Hdd, capacity: capacity(!ssd_is_home) },
        ];
        let drive =
            |member: &MemberInfo| Drive::new(member.capacity.0, Nanoseconds(1000), Plan::default()).with_write_cache();
        let drives = members.iter().map(drive).collect();
        let random = Random::new(seed);
        let (waiting, finished, now) = (VecDeque::new(), BTreeMap::new(), Nanoseconds::ZERO);
        let mut story = Self {
            settings,
            members,
            scheme,
            block,
            drives,
            volume: None,
            waiting,
            finished,
            now,
            tokens: 0,
            records_until_commit: None,
            unit: 0,
            random,
        };
        story.format(0, usize::MAX);
        story.recover();
        story
    }

    /// Formats the drives with the first `count` operations of the format. Returns true if the
    /// format has no more operations.
    pub fn format(&mut self, life: u32, count: usize) -> bool {
        let operations = format_again::<Tags>(&self.config(), life).unwrap();
        let all = operations.len() <= count;
        for operation in operations.into_iter().take(count) {
            self.apply(operation);
        }
        all
    }

    pub fn config(&self) -> VolumeConfig<'_> {
        let layout = LayoutRequest { block: self.block, members: &self.members, units: &[] };
        let scheme = schemes::find(self.scheme).unwrap();
        VolumeConfig { scheme, settings: &self.settings, layout, identity: 5, drives: &[] }
    }

    pub fn volume(&mut self) -> &mut Volume<Tags> {
        self.volume.as_mut().expect("a volume is up")
    }

    pub fn apply(&mut self, operation: Operation<Tags>) -> Completion<Tags> {
        let drive = &mut self.drives[usize::from(operation.target)];
        drive.start(self.now, operation, &mut self.random);
        drive.end_next(&mut self.random).expect("one operation is under way").completion
    }

    pub fn recover(&mut self) {
        self.volume = Some(self.try_to_recover(&[]).expect("no drive has failed"));
    }

    /// Recovers and accepts the loss of content that only damaged metadata locates.
    pub fn recover_giving_up(&mut self) {
        let recovered = self.recover_by(Recovery::accept_loss, &[]);
        self.volume = Some(recovered.unwrap_or_else(|error| panic!("{error}")));
    }

    /// Recovers without the members `absent`.
    pub fn try_to_recover(&mut self, absent: &[MemberId]) -> Result<Volume<Tags>, RecoveryError> {
        self.recover_by(|recovery| recovery, absent)
    }

    fn recover_by(
        &mut self,
        how: impl FnOnce(Recovery<Tags>) -> Recovery<Tags>,
        absent: &[MemberId],
    ) -> Result<Volume<Tags>, RecoveryError> {
        let mut recovery = how(Recovery::new(&self.config(), absent).unwrap());
        while let Some(operation) = recovery.next_operation() {
            let completion = self.apply(operation);
            recovery.complete(completion);
        }
        let mut volume = recovery.finish()?;
        if let Some(records) = self.records_until_commit {
            volume.commit_log_after(records);
        }
        Ok(volume)
    }

    /// Lets the log commit by itself after `records` records, from now on.
    pub fn commit_log_after(&mut self, records: usize) {
        self.records_until_commit = Some(records);
        self.volume().commit_log_after(records);
    }

    /// Recovers and accepts the loss, on drives that fail the operations that `fails` selects,
    /// before they answer any other operation.
    pub fn recover_giving_up_failing(&mut self, fails: impl Fn(&Operation<Tags>) -> bool) -> Result<(), RecoveryError> {
        let mut recovery = Recovery::new(&self.config(), &[]).unwrap().accept_loss();
        let mut waiting = Vec::new();
        loop {
            waiting.extend(std::iter::from_fn(|| recovery.next_operation()));
            let failing = waiting.iter().position(&fails);
            if waiting.is_empty() {
                return recovery.finish().map(|volume| self.volume = Some(volume));
            }
            let operation = waiting.remove(failing.unwrap_or(0));
            let token = operation.token;
            let completion = match failing {
                Some(_) => Completion { token, status: Status::MediaError, payload: Tags::default() },
                None => self.apply(operation),
            };
            recovery.complete(completion);
        }
    }

    /// Recovers with at most `count` operations answered. Returns true if the recovery ended.
    pub fn recover_some(&mut self, count: u64, how: impl FnOnce(Recovery<Tags>) -> Recovery<Tags>) -> bool {
        let mut recovery = how(Recovery::new(&self.config(), &[]).unwrap());
        for _ in 0..count {
            let Some(operation) = recovery.next_operation() else { return true };
            let completion = self.apply(operation);
            recovery.complete(completion);
        }
        recovery.next_operation().is_none()
    }

    /// Cuts the power and recovers.
    pub fn cut(&mut self) {
        self.cut_power();
        self.recover();
    }

    /// Cuts the power.
    pub fn cut_power(&mut self) {
        self.volume = None;
        self.waiting.clear();
        for drive in &mut self.drives {
            drive.power_cut(&mut self.random);
        }
    }

    /// Sends a request. Returns the number of the request, which a write leaves in its sectors.
    pub fn send(&mut self, kind: OpKind, start: u64, sectors: u64, fua: bool) -> u64 {
        self.tokens += 1;
        let number = self.tokens;
        let payload =
            if kind == OpKind::Write { Tags::written(number as u32, start, sectors) } else { Tags::default() };
        let command = Command { kind, range: SectorRange::new(start, sectors), fua };
        let (now, target) = (self.now, self.unit);
        self.volume().submit(now, Operation { token: Token(number), target, command, payload });
        number
    }

    /// Lets time pass until `steps` operations were answered, at most. Returns true if all
    /// operations were answered.
    pub fn pass_some(&mut self, time: Nanoseconds, mut steps: u64) -> bool {
        let end = self.now + time;
        loop {
            while !self.answer_some(ALL, steps.min(1)) {
                if steps == 0 {
                    return false;
                }
                steps -= 1;
            }
            let Some(at) = self.volume().next_timeout().filter(|&at| at <= end) else { return true };
            self.now = self.now.max(at);
            let now = self.now;
            self.volume().advance(now);
        }
    }

    /// Lets drives answer the operations that `answers` selects. All other operations wait.
    pub fn answer(&mut self, answers: Answers) {
        self.answer_some(answers, u64::MAX);
    }

    /// Lets drives answer at most `count` operations that `answers` selects. Returns true if no
    /// selected operation is left.
    pub fn answer_some(&mut self, answers: Answers, mut count: u64) -> bool {
        loop {
            while let Some(finished) = self.volume().next_finished() {
                self.finished.insert(finished.token.0, finished);
            }
            while let Some(operation) = self.volume().next_operation() {
                self.waiting.push_back(operation);
            }
            let next = self.waiting.iter().position(answers);
            let Some(operation) = next.and_then(|next| self.waiting.remove(next)) else { return true };
            if count == 0 {
                self.waiting.push_front(operation);
                return false;
            }
            count -= 1;
            self.now += Nanoseconds(1000);
            let completion = self.apply(operation);
            let now = self.now;
            self.volume().complete(now, completion);
        }
    }

    /// Lets drives answer all operations: the operations that `fails` selects end with an error of
    /// the medium.
    pub fn answer_failing(&mut self, mut fails: impl FnMut(&Operation<Tags>) -> bool) {
        while !self.answer_some(ALL, 0) {
            let Some(operation) = self.waiting.pop_front() else { return };
            self.now += Nanoseconds(1000);
            let completion = if fails(&operation) {
                Completion { token: operation.token, status: Status::MediaError, payload: Tags::default() }
            } else {
                self.apply(operation)
            };
            let now = self.now;
            self.volume().complete(now, completion);
        }
    }

    pub fn run(&mut self, kind: OpKind, start: u64, sectors: u64, fua: bool) -> u64 {
        let number = self.send(kind, start, sectors, fua);
        self.answer(ALL);
        assert_eq!(self.finished[&number].status, Status::Done);
        number
    }

    pub fn write(&mut self, start: u64, sectors: u64) -> u64 {
        self.run(OpKind::Write, start, sectors, false)
    }

    pub fn flush(&mut self) {
        self.run(OpKind::Flush, 0, 0, false);
    }

    /// Returns the numbers of the requests that wrote the sectors; 0 for sectors that were never
    /// written.
    pub fn read(&mut self, start: u64, sectors: u64) -> Vec<u64> {
        let number = self.run(OpKind::Read, start, sectors, false);
        self.found_by(number)
    }

    /// Reads, and returns the status of the read.
    pub fn status_of_read(&mut self, start: u64, sectors: u64) -> Status {
        let read = self.send(OpKind::Read, start, sectors, false);
        self.answer(ALL);
        self.finished[&read].status
    }

    /// Returns the writers that the finished read `number` found, like [`read`](Self::read).
    pub fn found_by(&self, number: u64) -> Vec<u64> {
        let number_of = |sector| match sector {
            Sector::Data { request, .. } => u64::from(request),
            _ => 0,
        };
        self.finished[&number].payload.iter().map(number_of).collect()
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Nanoseconds, answers: Answers) {
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

/// Number of blocks of [`flushed`].
pub const BLOCKS: u64 = 12;

/// Returns a volume whose blocks were each written and flushed alone, and the numbers of the
/// writes.
pub fn flushed(scheme: &'static str, settings: &[(&str, &str)]) -> (Story, Vec<u64>) {
    let mut story = Story::new(1, scheme, settings, 8000);
    let write = |block: u64| {
        let number = story.write(block * 8, 8);
        story.flush();
        number
    };
    let written = (0..BLOCKS).map(write).collect();
    (story, written)
}

/// Returns the pages of `structure` on the drives.
pub fn pages(story: &mut Story, structure: Structure) -> Vec<Page> {
    let layout = story.volume().view().layout.clone();
    survey(&layout, &story.drives).into_iter().filter(|page| page.structure == structure).collect()
}

/// Flips the lowest bit of a byte of a page.
pub fn flip_bit(story: &mut Story, page: &Page, byte: u64) {
    let drive = &mut story.drives[usize::from(page.member)];
    let sector = page.sector + byte / 512;
    let content = drive.content(sector);
    let mut bytes = content.metadata().expect("a page of metadata").to_vec();
    bytes[byte as usize % 512] ^= 1;
    drive.replace(sector, Sector::Metadata { bytes: Arc::new(bytes), at: 0 });
}

/// Recovers the volume and checks that each block reads as `written`.
pub fn reads_back(story: &mut Story, written: &[u64], what: &str) {
    match story.try_to_recover(&[]) {
        Ok(volume) => story.volume = Some(volume),
        Err(error) => panic!("{what}: {error}"),
    }
    for (block, &number) in (0..).zip(written) {
        assert_eq!(story.read(block * 8, 8), [number; 8], "{what}: block {block} is old");
    }
}

/// Content of pages, to be put back later.
pub type Kept = Vec<(Page, Vec<Sector>)>;

/// Returns the content of the pages of `structure`.
pub fn keep(story: &mut Story, structure: Structure) -> Kept {
    pages(story, structure).into_iter().map(|page| (page.clone(), sectors(story, &page))).collect()
}

/// Returns the content of a page.
pub fn sectors(story: &Story, page: &Page) -> Vec<Sector> {
    (page.sector..page.sector + 8).map(|at| story.drives[usize::from(page.member)].content(at)).collect()
}

/// Gives a page back its content.
pub fn put_back(story: &mut Story, page: &Page, content: &[Sector]) {
    let drive = &mut story.drives[usize::from(page.member)];
    (page.sector..).zip(content).for_each(|(at, sector)| drive.replace(at, sector.clone()));
}
