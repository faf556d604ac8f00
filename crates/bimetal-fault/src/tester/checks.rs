//! Checks after each step: of finished requests, of starting operations, and of the whole.

use bimetal_core::block::Block;
use bimetal_core::block_map::Slot;
use bimetal_core::journal::page;
use bimetal_core::journal::record::{self, Kind, Record};
use bimetal_core::layout::{MemberId, SlotKind};
use bimetal_core::operation::{OpKind, Operation, Status};
use bimetal_core::payload::Payload;
use bimetal_core::scheme::{MemberState, Reason};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

use super::Tester;
use crate::payload::{Sector, Tags};
use crate::regions::{Region, region_of};
use crate::shadow::Moment;

/// Virtual time within which every request must finish, not counting the time for which drives were
/// stuck. A long write through a cache of a few slots may meet a stuck drive hundreds of times.
const LATENCY_MAX: Nanoseconds = Nanoseconds::from_seconds(7200);
/// Largest number of operations that may follow each other without a finished request, while
/// requests are under way. More operations mean a livelock.
const OPERATIONS_WITHOUT_END_MAX: u64 = 300_000;
/// Sectors at each end of a request that are checked when a flush ends.
const STABLE_SECTORS: u64 = 160;
/// Number of recent requests whose content is checked on the drives when a flush ends.
const RECENT: usize = 24;

impl Tester {
    /// Checks that the scheme lists every reason for which blocks bypassed the scheme.
    pub(super) fn check_reasons(&self) -> Result<(), String> {
        let listed = self.setup.scheme.reasons();
        let unlisted = |counted: &&Reason| !listed.iter().any(|(reason, _)| reason == *counted);
        match self.volume.statistics().bypassed_blocks.keys().find(unlisted) {
            Some(reason) => {
                Err(format!("blocks bypassed the cache for the reason {:?}, which the scheme does not list", reason.0))
            }
            None => Ok(()),
        }
    }

    pub(super) fn check_whole(&mut self) -> Result<(), String> {
        let under_way = self.volume.requests_under_way();
        if under_way != self.open.len() as u64 {
            return Err(format!("{} requests are open, but the volume knows of {under_way}", self.open.len()));
        }
        let map = &self.volume.view().map;
        if u64::from(map.dirty_blocks()) > map.len() || map.slots_in_use() > u64::from(map.slots()) {
            return Err(format!("{} of {} blocks dirty in {} slots", map.dirty_blocks(), map.len(), map.slots()));
        }
        if !self.open.is_empty() && self.operations_since_end > OPERATIONS_WITHOUT_END_MAX {
            return Err(format!("{} requests are under way and none finishes", self.open.len()));
        }
        let oldest = self.shadow_oldest();
        let stuck_for = self.drives.iter().fold(Nanoseconds::ZERO, |sum, drive| sum + drive.stuck_for());
        if let Some((number, at)) = oldest.filter(|(_, at)| self.now > *at + LATENCY_MAX + stuck_for) {
            let request = self.shadow.request(number);
            return Err(format!("{request:?} is under way since {at}, now it is {}", self.now));
        }
        if let Some((timeout, why)) = self.volume.next_timeout_reason().filter(|&(timeout, _)| timeout <= self.now) {
            return Err(format!(
                "the volume was due at {timeout} ({why:?}), was called at {}, and is still due",
                self.now
            ));
        }
        Ok(())
    }

    fn shadow_oldest(&self) -> Option<(u32, Nanoseconds)> {
        // Tokens grow, so the first open request is the oldest.
        let number = self.open.values().find_map(|number| *number)?;
        Some((number, self.shadow.request(number).at))
    }

    pub(super) fn check_finished(&mut self, number: Option<u32>, status: Status, payload: &Tags) -> Result<(), String> {
        self.tell(|| format!("finished {number:?}: {status:?}"));
        self.report.requests += 1;
        self.report.failed += u64::from(status != Status::Done);
        self.last_request = Some(self.now);
        let Some(number) = number else {
            return if status == Status::OutOfRange {
                Ok(())
            } else {
                Err(format!("a request outside its unit ended with {status:?}"))
            };
        };
        self.shadow.end(number, status);
        let request = self.shadow.request(number).clone();
        let explained = || self.atlas.explains(self.volume.view(), &request, status, self.any_no_discard);
        if status != Status::Done && !explained() {
            return Err(format!("request {number} ended with {status:?} and no fault explains it: {request:?}"));
        }
        if request.kind == OpKind::Flush {
            self.atlas.note_flush(&request, status == Status::Done)?;
        }
        if status != Status::Done {
            self.count_error();
            return Ok(());
        }
        match request.kind {
            OpKind::Read => self.check_read(request.range, request.began, payload)?,
            OpKind::Flush => {
                self.note_promises_in_slots();
                for &recent in &self.recent {
                    let range = self.shadow.request(recent).range;
                    let len = Sectors(range.len.0.min(STABLE_SECTORS));
                    self.check_stable(SectorRange { len, ..range }, request.began)?;
                    self.check_stable(SectorRange { start: Sectors(range.end().0 - len.0), len }, request.began)?;
                }
            }
            _ => {}
        }
        if request.kind.changes_content() && request.kind != OpKind::Discard {
            if request.fua {
                self.check_blocks(request.range, self.shadow.now() + 1, |block| !self.may_be_merged(block, number))?;
            }
            self.recent.push_back(number);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
        Ok(())
    }

    /// Returns true if a change of the block that arrived after the request `number` may have
    /// merged the block into a place that is not stable yet. The earlier, stable place is kept. In
    /// a log, a forced change does not wait for another commit. In other stores, a later change of
    /// the block waits until the forced change is stable.
    fn may_be_merged(&self, block: Block, number: u32) -> bool {
        let view = self.volume.view();
        let is_log = view.layout.slots.is_some_and(|slots| matches!(slots.kind, SlotKind::Log { .. }));
        let size = view.block();
        is_log && self.shadow.has_newer(SectorRange::new(size.first_sector(block), size.sectors()), number)
    }

    fn check_read(&mut self, range: SectorRange, began: Moment, payload: &Tags) -> Result<(), String> {
        if payload.sectors() != range.len {
            return Err(format!("a read of {:?} returned {:?}", range.len, payload.sectors()));
        }
        let sectors = range.start.0..range.end().0;
        for (sector, value) in sectors.zip(payload.iter()) {
            self.shadow.check_read(sector, &value, began)?;
            if let Some(seen) = self.power.as_mut().and_then(|power| power.seen.as_mut()) {
                seen[sector as usize] = Some(value);
            }
        }
        Ok(())
    }

    /// Checks sectors of `range` whose content is certain since before `moment`. The certain
    /// content must be in the place that the block map names, and must be stable.
    fn check_stable(&self, range: SectorRange, moment: Moment) -> Result<(), String> {
        self.check_blocks(range, moment, |_| true)
    }

    /// Checks the same for the blocks of `range` for which `concerns` is true.
    fn check_blocks(&self, range: SectorRange, moment: Moment, concerns: impl Fn(Block) -> bool) -> Result<(), String> {
        if self.saboteur.is_at_work() {
            return Ok(());
        }
        let view = self.volume.view();
        let size = view.block();
        for block in size.touched(range).blocks() {
            // A later change may have taken the whole block to a place that is not stable yet. The
            // earlier place is kept until the new place is stable.
            let whole = SectorRange::new(size.first_sector(block), size.sectors());
            if !concerns(block) || !self.shadow.is_quiet(whole, moment) || self.atlas.is_suspect(view, whole) {
                continue;
            }
            let part = size.clip(range, block);
            for sector in part.start.0..part.end().0 {
                if let Some(expected) = self.shadow.certain(sector, moment) {
                    self.check_places(sector, &expected)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that each place that the block map names for `sector` has its content, and that the
    /// content is stable.
    fn check_places(&self, sector: u64, expected: &Sector) -> Result<(), String> {
        let view = self.volume.view();
        let size = view.block();
        if let (Some(slot), Some(region)) = (self.slot_of(sector), view.layout.slots) {
            let into = sector - size.first_sector(size.block_of(sector));
            let at = region.first_sector + u64::from(slot.0) * size.sectors() + into;
            return self.check_stable_at(sector, expected, region.member, at);
        }
        let (member, home) = self.home_of(sector);
        self.check_stable_at(sector, expected, member, home)?;
        let copies = view.layout.copies().filter(|&copy| copy != member);
        copies.into_iter().try_for_each(|copy| self.check_stable_at(sector, expected, copy, home))
    }

    /// Checks that `member`, if present, has the content of `sector`, and that the content is
    /// stable.
    fn check_stable_at(&self, sector: u64, expected: &Sector, member: MemberId, at: u64) -> Result<(), String> {
        let drive = &self.drives[usize::from(member.0)];
        if self.volume.view().member(member).state == MemberState::Failed || drive.is_gone() {
            return Ok(());
        }
        if !drive.holds(at, expected) {
            let found = drive.content(at);
            return Err(format!("sector {sector} was made stable as {expected:?}, but {member:?} has {found:?}"));
        }
        // A flush reported that forgotten content of a home is unreliable.
        let is_home = || self.volume.view().layout.homes().contains(&member);
        let is_excused = || drive.is_forgotten(at) && is_home() && !self.was_promised_in_slot(sector);
        if !drive.is_stable(at) && !is_excused() {
            return Err(format!("sector {sector} was acknowledged as stable, but {member:?} was not flushed"));
        }
        Ok(())
    }

    pub(super) fn check_operation(&mut self, operation: &Operation<Tags>) -> Result<(), String> {
        let Operation { target, command, ref payload, .. } = *operation;
        self.hash(&[u64::from(target), command.kind as u64, command.range.start.0, command.range.len.0]);
        self.hash(&[u64::from(command.fua)]);
        for (first, len) in payload.runs() {
            let first = Tags::from_iter([first.clone()]);
            self.hash(&[u64::from(first.checksum()), u64::from(len)]);
        }
        self.tell(|| format!("  member {target} starts {command:?}"));
        if command.kind == OpKind::Flush {
            return Ok(());
        }
        let wrong = |what: &str| Err(format!("{what}: member {target}, {command:?}"));
        let drive = &self.drives[usize::from(target)];
        if command.range.is_empty() || command.range.end().0 > drive.capacity() {
            return wrong("an operation of nothing, or beyond the drive");
        }
        let writes = command.kind == OpKind::Write;
        if payload.sectors() != if writes { command.range.len } else { Sectors::ZERO } {
            return wrong("an operation with a payload of another length");
        }
        let layout = &self.volume.view().layout;
        let Some(region) = region_of(layout, MemberId(target), drive.capacity(), command.range) else {
            return wrong("an operation across regions");
        };
        // A hint is a question. The range of a hint says where the answer may lie; a hint changes
        // nothing.
        if command.kind == OpKind::Hint {
            return Ok(());
        }
        if command.kind.changes_content() && drive.under_way(command.range, OpKind::changes_content).is_some() {
            return wrong("two changes of the same sectors at once");
        }
        // Only a scrub reads metadata, and it reads a page again that was written meanwhile.
        if matches!(region, Region::Slots(_)) {
            let changes = command.kind.changes_content();
            let collides = |other| other != OpKind::Hint && (changes || OpKind::changes_content(other));
            if drive.under_way(command.range, collides).is_some() {
                return wrong("a slot is read and written at once");
            }
        }
        if writes && !self.belongs(region, payload) {
            return wrong("a write of content that does not belong there");
        }
        Ok(())
    }

    /// Returns true if the payload of a write belongs to the region.
    fn belongs(&mut self, region: Region, payload: &Tags) -> bool {
        let layout = &self.volume.view().layout;
        let sectors = layout.block.sectors();
        match region {
            Region::Home(flat) => {
                let mut at = flat;
                payload.runs().all(|(first, len)| {
                    let here = at;
                    at += u64::from(len);
                    match *first {
                        Sector::Data { sector, .. } => u64::from(sector) == here,
                        ref other => *other == Sector::Zero,
                    }
                })
            }
            Region::Slots(into) => {
                let log = matches!(layout.slots, Some(slots) if matches!(slots.kind, SlotKind::Log { .. }));
                let whole = into.is_multiple_of(sectors) && payload.sectors().0.is_multiple_of(sectors);
                let len = payload.sectors().0;
                let segment = log && self.is_segment(payload, sectors);
                let run = log && !segment && self.is_unused(into / sectors, len / sectors);
                let pages = if segment { sectors } else { 0 };
                let data = payload.iter().enumerate().take((len - pages) as usize).skip(pages as usize);
                self.report.run_writes += u64::from(run);
                whole
                    && (!log || segment || run)
                    && data.into_iter().all(|(at, sector)| match sector {
                        Sector::Data { sector, .. } => u64::from(sector) % sectors == at as u64 % sectors,
                        other => other == Sector::Zero,
                    })
            }
            Region::Metadata | Region::Tail => payload.iter().all(|sector| sector.metadata().is_some()),
        }
    }

    /// Returns true if a migration is under way and no block of the block map lies in the slots.
    /// The migration may write its runs to such slots.
    fn is_unused(&self, first: u64, slots: u64) -> bool {
        let view = self.volume.view();
        let is_free = |slot| view.map.in_slot(Slot(slot as u32)).is_none();
        view.moving && (first..first + slots).all(is_free)
    }

    /// Returns true if a segment has its head in front and its foot behind.
    fn is_segment(&self, payload: &Tags, sectors: u64) -> bool {
        let len = payload.sectors().0;
        let foot = len.checked_sub(sectors).filter(|&foot| foot >= sectors);
        self.is_page(Kind::Head, &payload.slice(Sectors(0), Sectors(8)))
            && foot.is_some_and(|foot| self.is_page(Kind::Foot, &payload.slice(Sectors(foot), Sectors(8))))
    }

    /// Returns true if the page is a sound page of records that name existing blocks and slots.
    pub(super) fn is_page(&self, kind: Kind, payload: &Tags) -> bool {
        let bytes: Vec<u8> =
            payload.iter().flat_map(|sector| sector.metadata().map(<[u8]>::to_vec).unwrap_or_default()).collect();
        let Ok(page) = <[u8; page::PAGE_BYTES]>::try_from(bytes) else { return false };
        let view = self.volume.view();
        let total = view.layout.total_blocks();
        record::decode_page(kind, &page).is_ok_and(|(_, records)| {
            records.iter().all(|record| match *record {
                Record::Map { block, slot, .. } | Record::Void { block, slot, .. } => {
                    block.0 < total && slot.0 < view.map.slots()
                }
                Record::Dropped { first, count, .. } => first.0 + count <= total,
                Record::Home { block } | Record::Lost { block, .. } => block.0 < total,
                Record::Intent { .. } => true,
            })
        })
    }
}
