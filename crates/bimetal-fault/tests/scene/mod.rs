//! A volume over drives whose answers a test scripts, one operation at a time.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part of it")]

use std::collections::BTreeMap;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};
use bimetal_fault::payload::{Sector, Tags};

/// Reaction of a drive to an operation.
#[derive(Clone, Copy, PartialEq)]
pub enum Verdict {
    Done,
    Fails(Status),
    Waits,
}

/// A volume over scripted drives.
pub struct Scene {
    pub volume: Volume<Tags>,
    pub content: Vec<BTreeMap<u64, Sector>>,
    pub waiting: Vec<Operation<Tags>>,
    pub finished: BTreeMap<u64, Completion<Tags>>,
    pub now: Nanoseconds,
    pub tokens: u64,
    pub answered: u64,
}

pub const SSD: u16 = 0;
pub const HDD: u16 = 1;

pub fn volume(
    scheme: &str,
    settings: &[(&str, &str)],
    block_kib: u64,
    small: u64,
) -> Result<Volume<Tags>, VolumeError> {
    let scheme = schemes::find(scheme).unwrap();
    let settings = Settings::new(scheme.name, scheme.parameters, settings.iter().copied()).unwrap();
    let ssd_is_home = scheme.members[0].0 == Role::Ssd;
    let capacity = |is_home| if is_home { Bytes::from_mib(32).sectors() } else { Sectors(small) };
    let members = [
        MemberInfo { role: Role::Ssd, capacity: capacity(ssd_is_home) },
        MemberInfo { role: Role::Hdd, capacity: capacity(!ssd_is_home) },
    ];
    let block = BlockSize::new(Bytes::from_kib(block_kib)).unwrap();
    let layout = LayoutRequest { block, members: &members, units: &[] };
    Volume::new(&VolumeConfig { scheme, settings: &settings, layout, identity: 0, drives: &[] })
}

impl Scene {
    /// Creates a volume; its drive that is not home has `small` sectors.
    pub fn new(scheme: &str, settings: &[(&str, &str)], block_kib: u64, small: u64) -> Self {
        Self {
            volume: volume(scheme, settings, block_kib, small).unwrap(),
            content: vec![BTreeMap::new(), BTreeMap::new()],
            waiting: Vec::new(),
            finished: BTreeMap::new(),
            now: Nanoseconds::ZERO,
            tokens: 0,
            answered: 0,
        }
    }

    /// Sends a request. Returns the number of the request, which a write leaves in its sectors.
    pub fn send(&mut self, kind: OpKind, start: u64, sectors: u64) -> u64 {
        self.tokens += 1;
        let writes = kind == OpKind::Write;
        let payload = if writes { Tags::written(self.tokens as u32, start, sectors) } else { Tags::empty() };
        let command = Command { kind, range: SectorRange::new(start, sectors), fua: false };
        self.volume.submit(self.now, Operation { token: Token(self.tokens), target: 0, command, payload });
        self.tokens
    }

    /// Lets the drives answer as `judge` says until nothing more happens.
    pub fn answer(&mut self, judge: impl Fn(&Operation<Tags>) -> Verdict) {
        loop {
            self.waiting.extend(std::iter::from_fn(|| self.volume.next_operation()));
            while let Some(finished) = self.volume.next_finished() {
                self.finished.insert(finished.token.0, finished);
            }
            let Some(next) = self.waiting.iter().position(|operation| judge(operation) != Verdict::Waits) else {
                return;
            };
            let operation = self.waiting.remove(next);
            let verdict = judge(&operation);
            self.answered += 1;
            self.now += Nanoseconds(1000);
            let (status, payload) = match verdict {
                Verdict::Fails(status) => (status, Tags::empty()),
                _ => (Status::Done, self.apply(&operation)),
            };
            self.volume.complete(self.now, Completion { token: operation.token, status, payload });
        }
    }

    /// Lets an operation that waited fail, and the drives answer what follows.
    pub fn fail(&mut self, token: Token) {
        self.volume.complete(self.now, Completion { token, status: Status::MediaError, payload: Tags::empty() });
        self.answer(|_| Verdict::Done);
    }

    pub fn apply(&mut self, operation: &Operation<Tags>) -> Tags {
        let content = &mut self.content[usize::from(operation.target)];
        let range = operation.command.range.start.0..operation.command.range.end().0;
        match operation.command.kind {
            OpKind::Read => range.map(|at| content.get(&at).cloned().unwrap_or_default()).collect(),
            OpKind::Flush => Tags::empty(),
            _ => {
                content.extend(range.clone().map(|at| (at, operation.payload.at(at - range.start))));
                Tags::empty()
            }
        }
    }

    pub fn run(&mut self, kind: OpKind, start: u64, sectors: u64) -> Status {
        let token = self.send(kind, start, sectors);
        self.answer(|_| Verdict::Done);
        self.finished[&token].status
    }

    pub fn read(&mut self, start: u64, sectors: u64) -> Result<Vec<Sector>, Status> {
        let status = self.run(OpKind::Read, start, sectors);
        let payload = self.finished[&self.tokens].payload.iter().collect();
        if status == Status::Done { Ok(payload) } else { Err(status) }
    }

    /// Lets time pass, while the drives answer as `judge` says.
    pub fn pass(&mut self, time: Nanoseconds, judge: impl Fn(&Operation<Tags>) -> Verdict) {
        let end = self.now + time;
        while let Some(at) = self.volume.next_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.volume.advance(self.now);
            self.answer(&judge);
        }
        self.now = self.now.max(end);
        self.volume.advance(self.now);
        self.answer(&judge);
    }
}

pub fn touches(operation: &Operation<Tags>, member: u16, kind: OpKind, start: u64, sectors: u64) -> bool {
    let range = SectorRange::new(start, sectors);
    operation.target == member && operation.command.kind == kind && operation.command.range.overlaps(range)
}
