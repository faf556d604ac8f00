//! A volume over members in memory that answer at once, for tests that stop and recover the volume.

pub(crate) mod damage;

use std::collections::{BTreeMap, VecDeque};

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{Layout, LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{self, Drain, Recovery, RecoveryError, Volume, VolumeConfig};

/// Payload that owns its bytes, and whose clones have bytes of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

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

/// Members that answer at once, with the settings of their volume.
pub(crate) struct World {
    pub(crate) scheme: &'static str,
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    pub(crate) members: Vec<MemberInfo>,
    pub(crate) content: Vec<BTreeMap<u64, [u8; 512]>>,
    pub(crate) now: Nanoseconds,
    pub(crate) requests: u64,
    /// Number that names the volume in its metadata.
    pub(crate) identity: u64,
    /// For each member, true unless its drive has no volatile cache and supports no flush.
    pub(crate) supports_flush: [bool; 2],
    /// For each member, the first sector that cannot be read.
    pub(crate) ends: Vec<u64>,
    /// Number of operations that changed the content of a member.
    pub(crate) changes: u64,
}

impl World {
    pub(crate) fn new(scheme: &'static str, settings: &[(&'static str, &'static str)]) -> Self {
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
            identity: 42,
            supports_flush: [true; 2],
            ends: vec![u64::MAX; 2],
            changes: 0,
        };
        world.format(None);
        world
    }

    pub(crate) fn with_config<T>(&self, use_it: impl FnOnce(&VolumeConfig<'_>) -> T) -> T {
        let scheme = schemes::find(self.scheme).unwrap();
        let settings = Settings::new(scheme.name, scheme.parameters, self.settings.iter().copied()).unwrap();
        let layout = LayoutRequest { block: BlockSize::default(), members: &self.members, units: &[] };
        use_it(&VolumeConfig { scheme, settings: &settings, layout, identity: self.identity, drives: &[] })
    }

    pub(crate) fn with_layout<T>(&self, use_it: impl FnOnce(&Layout) -> T) -> T {
        self.with_config(|config| use_it(&(config.scheme.layout)(config.settings, &config.layout).unwrap()))
    }

    pub(crate) fn format(&mut self, only: Option<u16>) {
        self.format_again(only, 0);
    }

    pub(crate) fn format_again(&mut self, only: Option<u16>, life: u32) {
        let operations: Vec<Operation<Raw>> = self.with_config(|config| volume::format_again(config, life).unwrap());
        for operation in operations.into_iter().filter(|operation| only.is_none_or(|only| operation.target == only)) {
            self.answer(operation);
        }
    }

    pub(crate) fn answer(&mut self, operation: Operation<Raw>) -> Completion<Raw> {
        let Operation { token, target, command, payload } = operation;
        if command.kind == OpKind::Read && command.range.end().0 > self.ends[usize::from(target)] {
            return Completion { token, status: Status::MediaError, payload: Raw::empty() };
        }
        if command.kind == OpKind::Flush && !self.supports_flush[usize::from(target)] {
            return Completion { token, status: Status::Unsupported, payload: Raw::empty() };
        }
        self.changes += u64::from(command.kind.changes_content());
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

    pub(crate) fn recover(&mut self, absent: &[MemberId]) -> Result<Volume<Raw>, RecoveryError> {
        self.recover_with(absent, |recovery| recovery)
    }

    pub(crate) fn recover_with(
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

    pub(crate) fn serve(&mut self, volume: &mut Volume<Raw>) {
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

    pub(crate) fn request(
        &mut self,
        volume: &mut Volume<Raw>,
        kind: OpKind,
        start: u64,
        payload: Raw,
        len: u64,
    ) -> Raw {
        self.command(volume, Command { kind, range: SectorRange::new(start, len), fua: false }, payload)
    }

    fn command(&mut self, volume: &mut Volume<Raw>, command: Command, payload: Raw) -> Raw {
        self.requests += 1;
        volume.submit(self.now, Operation { token: Token(self.requests), target: 0, command, payload });
        self.serve(volume);
        let finished = volume.next_finished().expect("members that answer at once leave no request open");
        assert_eq!(finished.status, Status::Done, "{command:?}");
        finished.payload
    }

    /// Writes with FUA.
    pub(crate) fn force(&mut self, volume: &mut Volume<Raw>, start: u64, len: u64, byte: u8) {
        let command = Command { kind: OpKind::Write, range: SectorRange::new(start, len), fua: true };
        self.command(volume, command, Raw(vec![byte; len as usize * 512]));
    }

    pub(crate) fn write(&mut self, volume: &mut Volume<Raw>, start: u64, len: u64, byte: u8) {
        self.request(volume, OpKind::Write, start, Raw(vec![byte; len as usize * 512]), len);
    }

    pub(crate) fn flush(&mut self, volume: &mut Volume<Raw>) {
        self.request(volume, OpKind::Flush, 0, Raw::empty(), 0);
    }

    pub(crate) fn reads(&mut self, volume: &mut Volume<Raw>, start: u64, len: u64, byte: u8) {
        let read = self.request(volume, OpKind::Read, start, Raw::empty(), len);
        assert!(read.0.iter().all(|&found| found == byte), "sector {start}: {} instead of {byte}", read.0[0]);
    }

    pub(crate) fn pass(&mut self, volume: &mut Volume<Raw>, time: Nanoseconds) {
        let end = self.now + time;
        while let Some(at) = volume.next_timeout().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            volume.advance(self.now);
            self.serve(volume);
        }
        self.now = end;
    }

    pub(crate) fn drain(&mut self, volume: &mut Volume<Raw>, detach: bool) {
        volume.drain(self.now, detach);
        self.serve(volume);
        self.pass(volume, Nanoseconds::from_seconds(1));
        assert_eq!(volume.drain_progress(), Drain::Done);
    }
}

/// Schemes that keep content off home.
pub(crate) const CACHES: [(&str, &[(&str, &str)]); 7] = [
    ("smart-response", &[]),
    ("smart-response", &[("mode", "maximized")]),
    ("hybrid-disk", &[]),
    ("smq", &[]),
    ("bcache", &[]),
    ("writeboost", &[]),
    ("griffin", &[("timeout", "off"), ("read_threshold", "off")]),
];
