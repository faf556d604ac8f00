//! A volume exports the interface that it uses, so volumes can form a tree. Here the "SSD" of a
//! hybrid is itself a Griffin volume over an SSD and a log on an HDD. The tree stands for a chain
//! of QLC flash, a log in front of the flash, and a cache in front of both.

use std::collections::HashMap;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::{NoPayload, Payload};
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{Volume, VolumeConfig};

fn volume(scheme: &str, members: &[MemberInfo], given: &[(&str, &str)]) -> Volume<NoPayload> {
    let scheme = schemes::find(scheme).unwrap();
    let settings = Settings::new(scheme.name, scheme.parameters, given.iter().copied()).unwrap();
    let layout = LayoutRequest { block: BlockSize::default(), members, units: &[] };
    Volume::new(&VolumeConfig { scheme, settings: &settings, layout, identity: 0, drives: &[] }).unwrap()
}

fn member(role: Role, mib: u64) -> MemberInfo {
    MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() }
}

/// A tree of two volumes over three leaves that answer at once. Member 0 of `outer` is `inner`.
struct Tree {
    outer: Volume<NoPayload>,
    inner: Volume<NoPayload>,
    now: Nanoseconds,
    /// Number of operations on each leaf: the outer HDD, the inner SSD, the inner log.
    leaves: HashMap<(&'static str, OpKind), u64>,
    requests: u64,
}

impl Tree {
    fn new() -> Self {
        let griffin = [("read_threshold", "off"), ("timeout", "60s")];
        let inner = volume("griffin", &[member(Role::Ssd, 16), member(Role::Hdd, 8)], &griffin);
        // The size that the inner volume exports is the size of the outer volume's member.
        let exported = MemberInfo { role: Role::Ssd, capacity: inner.units().next().unwrap() };
        let outer = volume("smart-response", &[exported, member(Role::Hdd, 256)], &[("mode", "maximized")]);
        Self { outer, inner, now: Nanoseconds::ZERO, leaves: HashMap::new(), requests: 0 }
    }

    fn serve(&mut self) {
        loop {
            if let Some(operation) = self.outer.next_operation() {
                match operation.target {
                    // The operation itself becomes a request to the inner volume's first unit.
                    0 => self.inner.submit(self.now, Operation { target: 0, ..operation }),
                    _ => {
                        self.count("outer hdd", operation.command.kind);
                        let token = operation.token;
                        self.outer.complete(self.now, Completion { token, status: Status::Done, payload: NoPayload });
                    }
                }
            } else if let Some(operation) = self.inner.next_operation() {
                self.count(["inner ssd", "inner log"][usize::from(operation.target)], operation.command.kind);
                let token = operation.token;
                self.inner.complete(self.now, Completion { token, status: Status::Done, payload: NoPayload });
            } else if let Some(completion) = self.inner.next_finished() {
                self.outer.complete(self.now, completion);
            } else {
                return;
            }
        }
    }

    fn count(&mut self, leaf: &'static str, kind: OpKind) {
        *self.leaves.entry((leaf, kind)).or_default() += 1;
    }

    fn request(&mut self, kind: OpKind, start: u64, sectors: u64) {
        self.requests += 1;
        let command = Command { kind, range: SectorRange::new(start, sectors), fua: false };
        let token = Token(self.requests);
        self.outer.submit(self.now, Operation { token, target: 0, command, payload: NoPayload::empty() });
        self.serve();
        let finished = self.outer.next_finished().expect("leaves that answer at once leave nothing open");
        assert_eq!((finished.token, finished.status), (token, Status::Done));
    }

    fn pass(&mut self, time: Nanoseconds) {
        let end = self.now + time;
        loop {
            let due = [self.outer.next_timeout(), self.inner.next_timeout()].into_iter().flatten().min();
            let Some(at) = due.filter(|&at| at <= end) else { break };
            self.now = self.now.max(at);
            self.outer.advance(self.now);
            self.serve();
            self.inner.advance(self.now);
            self.serve();
        }
        self.now = end;
    }
}

#[test]
fn a_volume_can_be_a_member_of_another() {
    let mut tree = Tree::new();
    for block in 0..500 {
        tree.request(OpKind::Write, block * 24, 8);
    }
    tree.request(OpKind::Flush, 0, 0);
    let inner_log = tree.leaves[&("inner log", OpKind::Write)];
    assert!(inner_log > 10, "cached writes go to the inner volume's log: {:?}", tree.leaves);
    assert!(!tree.leaves.contains_key(&("inner ssd", OpKind::Write)), "and not to its flash: {:?}", tree.leaves);
    assert!(!tree.leaves.contains_key(&("outer hdd", OpKind::Write)), "nor to the outer disk: {:?}", tree.leaves);
    assert!(tree.leaves[&("inner log", OpKind::Flush)] > 0, "a flush reaches the leaves");

    tree.pass(Nanoseconds::from_seconds(100));
    assert!(tree.leaves[&("outer hdd", OpKind::Write)] > 0, "idle, the outer volume synchronises: {:?}", tree.leaves);
    assert!(tree.leaves[&("inner ssd", OpKind::Write)] > 0, "after a minute the inner one migrates: {:?}", tree.leaves);
    assert_eq!(tree.outer.view().map.dirty_blocks(), 0);

    let before = tree.leaves.get(&("outer hdd", OpKind::Read)).copied();
    (0..500).for_each(|block| tree.request(OpKind::Read, block * 24, 8));
    assert_eq!(tree.leaves.get(&("outer hdd", OpKind::Read)).copied(), before, "everything is still cached");
    assert_eq!((tree.outer.requests_under_way(), tree.inner.requests_under_way()), (0, 0));
}

/// A request beyond the end of the unit fails as out of range. No drive gets an operation.
#[test]
fn request_beyond_the_unit_fails_without_drive_access() {
    let mut tree = Tree::new();
    let end: Sectors = tree.outer.units().next().unwrap();
    for (start, sectors) in [(end.0, 8), (end.0 - 4, 8), (u64::MAX - 4, 8)] {
        let command = Command { kind: OpKind::Write, range: SectorRange::new(start, sectors), fua: false };
        tree.outer.submit(tree.now, Operation { token: Token(start), target: 0, command, payload: NoPayload });
        assert_eq!(tree.outer.next_finished().unwrap().status, Status::OutOfRange);
    }
    assert!(tree.outer.next_operation().is_none());
}
