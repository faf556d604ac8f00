//! A scheme written from nothing: the SSD caches what is read from the HDD, and the copy that was
//! made first is evicted first. CONTRIBUTING.md explains it. The program shows where four reads are
//! served; the fault tester runs the scheme in `crates/bimetal-fault/tests/example_scheme.rs`.

use std::collections::BTreeMap;

use bimetal_core::block::{Block, BlockRun, BlockSize, ValidMask};
use bimetal_core::block_map::{self, Slot};
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::NoPayload;
use bimetal_core::scheme::{Access, Holds, Promotion, Reason, Scheme, SchemeInfo, View, Work};
use bimetal_core::settings::{Settings, Share, parameters};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// share of the cache that is kept free for the next copies
        reserve: Share = "1%",
    }
}

/// Description of the scheme.
pub(crate) static INFO: SchemeInfo = SchemeInfo {
    name: "fifo-cache",
    summary: "the SSD caches what is read from the HDD; the oldest copy is evicted first",
    source: "an example, without a paper",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed, as on the bare drive",
    ssd_loss: "nothing; the SSD has only copies",
    hdd_loss: "all data",
    bypass: &[],
    // Of each copy, 8 bytes in `age_of` and at most 40 in `oldest`.
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + 48.0,
    takes_only_what_is_accessed: true,
    linux_counterpart: |_| None,
    layout: |_, request| Ok(request.ssd_caches_hdd()?),
    build: |settings, layout| {
        let slots = layout.slots.map_or(0, |slots| slots.count);
        let reserve = Parameters::of(settings).reserve.0 * f64::from(slots);
        let age_of = vec![0; slots as usize];
        Ok(Box::new(FifoCache { reserve: (reserve as u64).max(1), oldest: BTreeMap::new(), age_of, copies: 0 }))
    },
};

struct FifoCache {
    /// Number of slots that are kept free.
    reserve: u64,
    /// Slots with copies, by the number of the copy.
    oldest: BTreeMap<u64, Slot>,
    /// Number of the copy in each slot.
    age_of: Vec<u64>,
    /// Number of copies made so far.
    copies: u64,
}

impl FifoCache {
    /// Returns the number of slots to free now.
    fn missing(&self, view: &View) -> u64 {
        let free = view.free_slots + view.freeing_slots;
        if view.slots_online() { self.reserve.saturating_sub(free).min(self.oldest.len() as u64) } else { 0 }
    }
}

// Writes need no method: by default they go to home, and the volume drops the copy that they
// outdate.
impl Scheme for FifoCache {
    fn promote(&mut self, view: &View, _access: &Access, _missing: BlockRun) -> Promotion {
        if view.slots_online() { Promotion::Admit } else { Promotion::Bypass(Reason::MEMBER_GONE) }
    }

    fn mapped(&mut self, _view: &View, slot: Slot, _valid: ValidMask, _replaced: Option<Slot>) {
        self.copies += 1;
        self.age_of[slot.0 as usize] = self.copies;
        self.oldest.insert(self.copies, slot);
    }

    fn unmapped(&mut self, slot: Slot, _block: Block) {
        self.oldest.remove(&self.age_of[slot.0 as usize]);
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        (self.missing(view) > 0).then_some(view.now)
    }

    fn work(&mut self, view: &View) -> Work {
        match self.missing(view) as usize {
            0 => Work::Nothing,
            missing => Work::Evict(self.oldest.values().copied().take(missing).collect()),
        }
    }
}

/// Reads a block and returns the role of the member that served it. Every operation takes 1 ms.
fn read(volume: &mut Volume<NoPayload>, members: &[MemberInfo], block: u64) -> Option<Role> {
    let mut now = volume.view().now;
    let command = Command { kind: OpKind::Read, range: SectorRange::new(8 * block, 8), fua: false };
    volume.submit(now, Operation { token: Token(block), target: 0, command, payload: NoPayload });
    let mut served_by = None;
    while let Some(operation) = volume.next_operation() {
        if operation.command.kind == OpKind::Read {
            served_by = Some(members[usize::from(operation.target)].role);
        }
        now += Nanoseconds::from_millis(1);
        volume.complete(now, Completion { token: operation.token, status: Status::Done, payload: NoPayload });
    }
    volume.next_finished().and(served_by)
}

fn main() -> Result<(), VolumeError> {
    let settings = Settings::new(INFO.name, INFO.parameters, []).map_err(bimetal_core::scheme::SchemeError::from)?;
    let member = |role, mib| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() };
    let members = [member(Role::Hdd, 64), member(Role::Ssd, 4)];
    let layout = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
    let mut volume =
        Volume::new(&VolumeConfig { scheme: &INFO, settings: &settings, layout, identity: 1, drives: &[] })?;
    let slots = volume.view().layout.slots.map_or(0, |slots| u64::from(slots.count));

    println!("block 0, first read: {:?}", read(&mut volume, &members, 0));
    println!("block 0, again: {:?}", read(&mut volume, &members, 0));
    for block in 1..=slots {
        read(&mut volume, &members, block);
    }
    println!("block 0, after {slots} other blocks: {:?}", read(&mut volume, &members, 0));
    println!("block {slots}, again: {:?}", read(&mut volume, &members, slots));
    Ok(())
}
