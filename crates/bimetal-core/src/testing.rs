//! A test bench for schemes: a volume over drives that answer at once, with a list of the
//! operations that the drives received.

use std::collections::BTreeMap;

use crate::block::BlockSize;
use crate::layout::{LayoutRequest, MemberInfo, Role};
use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
use crate::payload::NoPayload;
use crate::schemes;
use crate::settings::Settings;
use crate::units::{Bytes, Nanoseconds, SectorRange};
use crate::volume::{Volume, VolumeConfig};

pub(crate) struct Bench {
    pub(crate) volume: Volume<NoPayload>,
    members: Vec<MemberInfo>,
    now: Nanoseconds,
    requests: u64,
    log: Vec<String>,
    /// Time that an operation on each member takes.
    pub(crate) takes: [Nanoseconds; 2],
    /// Answer of the drives to a hint; `None` if they do not support hints.
    pub(crate) fragmented: Option<Vec<SectorRange>>,
    /// Sectors of a member that cannot be read.
    pub(crate) unreadable: Option<(u16, SectorRange)>,
}

impl Bench {
    /// Returns a bench of a scheme over a 4 MiB SSD and a 64 MiB HDD. If the SSD is home, it has 64
    /// MiB and the HDD has 4 MiB.
    pub(crate) fn new(scheme: &str, settings: &[(&str, &str)]) -> Self {
        let info = schemes::find(scheme).unwrap();
        let settings = Settings::new(info.name, info.parameters, settings.iter().copied()).unwrap();
        let ssd_is_home = info.members[0].0 == Role::Ssd && scheme != "combo";
        let (ssd, hdd) = if ssd_is_home { (64, 4) } else { (4, 64) };
        let member = |role, mib| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() };
        let members = vec![member(Role::Ssd, ssd), member(Role::Hdd, hdd)];
        let layout = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        let config = VolumeConfig { scheme: info, settings: &settings, layout, identity: 0, drives: &[] };
        let volume = Volume::new(&config).unwrap();
        let (now, takes) = (Nanoseconds::ZERO, [Nanoseconds::ZERO; 2]);
        Self { volume, members, now, requests: 0, log: Vec::new(), takes, fragmented: None, unreadable: None }
    }

    pub(crate) fn blocks_on(&self, member: u16) -> u64 {
        let extents = self.volume.view().layout.home.iter();
        extents.filter(|extent| extent.member.0 == member).map(|extent| extent.blocks.count).sum()
    }

    /// Submits a request, lets the drives answer, and checks that the request is done.
    pub(crate) fn request(&mut self, kind: OpKind, start: u64, sectors: u64) {
        self.request_to(0, kind, start, sectors);
    }

    /// Like [`request`](Self::request), for the unit with this number.
    pub(crate) fn request_to(&mut self, target: u16, kind: OpKind, start: u64, sectors: u64) {
        let token = self.submit(target, kind, start, sectors);
        self.serve();
        let finished = self.volume.next_finished().expect("drives that answer at once leave no request open");
        assert_eq!((finished.token, finished.status), (token, Status::Done));
    }

    /// Submits a request. The drives answer when [`serve`](Self::serve) is called.
    pub(crate) fn submit(&mut self, target: u16, kind: OpKind, start: u64, sectors: u64) -> Token {
        self.requests += 1;
        let command = Command { kind, range: SectorRange::new(start, sectors), fua: false };
        let token = Token(self.requests);
        self.volume.submit(self.now, Operation { token, target, command, payload: NoPayload });
        token
    }

    /// Takes the member with the slots away, and attaches an empty member in its place.
    pub(crate) fn replace_slots(&mut self) {
        let member = self.volume.view().layout.slots.unwrap().member;
        self.volume.member_gone(self.now, member);
        self.serve();
        assert!(self.volume.attach(self.now, member, 1, 0));
        self.serve();
    }

    /// Writes to a region with clean copies, so that its dirty-region mark exists, and clears the
    /// list of operations.
    pub(crate) fn mark(&mut self, start: u64, sectors: u64) {
        self.request(OpKind::Write, start, sectors);
        self.pass(Nanoseconds::from_seconds(1));
        self.take_log();
    }

    /// Lets the drives answer all operations.
    pub(crate) fn serve(&mut self) {
        while let Some(operation) = self.volume.next_operation() {
            let names: BTreeMap<u16, &str> =
                self.members.iter().enumerate().map(|(id, member)| (id as u16, member.role.name())).collect();
            let kind = match operation.command.kind {
                OpKind::Read => "read",
                OpKind::Write => "write",
                OpKind::Flush => "flush",
                OpKind::Discard => "discard",
                OpKind::Hint => "hint",
                other @ OpKind::WriteZeroes => panic!("{other:?}"),
            };
            let Command { range, .. } = operation.command;
            assert!(range.end() <= self.members[usize::from(operation.target)].capacity);
            self.log.push(format!("{} {kind} {}", names[&operation.target], range.len.0));
            self.now += self.takes[usize::from(operation.target)];
            let (token, hint) = (operation.token, operation.command.kind == OpKind::Hint);
            match &self.fragmented {
                Some(fragmented) if hint => self.volume.answer_hint(self.now, token, fragmented),
                _ => {
                    let is_bad = self.unreadable.is_some_and(|(member, bad)| {
                        kind == "read" && member == operation.target && bad.overlaps(range)
                    });
                    let status = match () {
                        () if hint => Status::Unsupported,
                        () if is_bad => Status::MediaError,
                        () => Status::Done,
                    };
                    self.volume.complete(self.now, Completion { token, status, payload: NoPayload });
                }
            }
        }
    }

    /// Does the same as [`submit`](Self::submit), at a later time.
    pub(crate) fn submit_at(&mut self, now: Nanoseconds, kind: OpKind, start: u64, sectors: u64) -> Token {
        self.now = now;
        self.submit(0, kind, start, sectors)
    }

    /// Does the same as [`answer`](Self::answer), at a later time.
    pub(crate) fn answer_at(&mut self, now: Nanoseconds, token: Token) {
        self.now = now;
        self.answer(token);
    }

    /// Completes one operation that a test took from the volume itself.
    pub(crate) fn answer(&mut self, token: Token) {
        self.volume.complete(self.now, Completion { token, status: Status::Done, payload: NoPayload });
    }

    /// Lets time pass, and wakes the volume at each of its timeouts.
    pub(crate) fn pass(&mut self, time: Nanoseconds) {
        let end = self.now + time;
        while let Some(at) = self.volume.next_timeout().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            self.volume.advance(self.now);
            self.serve();
        }
        self.now = end;
        self.volume.advance(end);
        self.serve();
    }

    /// Returns the operations that the drives received since the last call.
    pub(crate) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}
