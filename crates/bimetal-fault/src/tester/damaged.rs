//! Damage in the run of a case. The power is cut or the volume closed, data on the drives are
//! damaged, and a recovery starts from the damaged drives.
//!
//! After the recovery, everything is read twice. After these readings, requests continue, the power
//! is cut once more, and everything is read again.
//! - One damaged page of metadata costs nothing: it leads to no refusal, no error, no loss of a
//!   member, and no read of old content.
//! - A damaged page of a slot costs at most the data that only the slot has. A read of such data is
//!   an error.
//! - Several damaged pages of metadata may lead to a refusal or to errors, and never to wrong
//!   content.
//!
//! The exceptions, and the damage that no case has, are described in [`damage`](crate::damage) and
//! [`in_doubt`](Tester::in_doubt).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bimetal_core::block::{Block, BlockRun, ValidMask};
use bimetal_core::block_map::Slot;
use bimetal_core::journal::SEGMENT_PAGES;
use bimetal_core::journal::page;
use bimetal_core::journal::record::{self, Kind, PageHeader, Record};
use bimetal_core::journal::superblock::Superblock;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{OpKind, Status};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::RecoveryError;

use super::crash::{Attempt, Power};
use super::{Report, Tester};
use crate::atlas;
use crate::damage::{self, Damage, Page, Structure};
use crate::drive::Drive;
use crate::payload::Tags;

/// Time after the last request or flush, and after a close, from which on nothing is in doubt. By
/// this time the engine has written that everything is stable. The time covers the engine's own
/// delay, and the delays of timers and drives.
const DOUBT_MAX: Nanoseconds = Nanoseconds::from_seconds(5);
/// Largest number of recoveries that are begun before a damage.
const RECOVERIES_MAX: u64 = 3;
/// Largest number of requests after a damage.
const REQUESTS_AFTER: u64 = 60;

/// Damage of a case, and its effects.
#[derive(Default)]
pub(super) struct Damaged {
    damages: Vec<Damage>,
    /// Set if a power cut had torn the other copy of a damaged page.
    is_beside_torn_page: bool,
    /// Blocks that are read alone, because reads of them may fail.
    alone: BTreeSet<Block>,
    /// Set to read every block alone.
    all_alone: bool,
    /// Number of requests that ended with an error since the damage.
    errors: u64,
}

/// A page of records, decoded.
type RecordPage = (PageHeader, Vec<Record>);

/// Blocks whose newest content may be lost because damaged slots were in doubt, with the lost
/// eighths.
#[derive(Default)]
struct Doubted {
    /// Eighths whose newest content was in a damaged slot.
    cost: BTreeMap<Block, ValidMask>,
    /// Eighths whose newest content is in no slot, because of damage or of the power cut.
    missing: BTreeMap<Block, ValidMask>,
    /// Position in the log of the newest slot of each block.
    newest: BTreeMap<Block, u64>,
}

impl Doubted {
    /// Updates the blocks by a record of a slot; `is_there` is set if the slot has the record's
    /// content.
    fn take_slot(&mut self, block: Block, valid: ValidMask, is_there: bool, is_damaged: bool) {
        let missing = self.missing.entry(block).or_default();
        let cost = self.cost.entry(block).or_default();
        if is_there {
            (*missing, *cost) = (missing.without(valid), cost.without(valid));
        } else {
            *missing = missing.union(valid);
            *cost = if is_damaged { cost.union(valid) } else { *cost };
        }
    }

    /// Updates the blocks by a record that home has the newest content of `block`, for slots that
    /// lie before a position.
    fn take_home(&mut self, block: Block, before: u64) {
        if self.newest.get(&block).is_none_or(|&newest| newest < before) {
            self.missing.remove(&block);
            self.cost.remove(&block);
        }
    }
}

impl Damaged {
    /// Returns true if at most one page of metadata is damaged. Swapped pages are two damaged
    /// pages, even if one of them belongs to a slot. A page whose other copy is torn counts as two.
    fn is_of_one_page(&self) -> bool {
        let is_swap = |damage: &Damage| damage.pages.len() > 1 && damage.pages.iter().any(Page::is_metadata);
        damage::metadata_pages(&self.damages) < 2 && !self.damages.iter().any(is_swap) && !self.is_beside_torn_page
    }
}

impl Tester {
    /// Runs the case. Adds the damage to the `description`.
    pub(super) fn run_damaged(mut self, description: &mut String) -> Result<Report, String> {
        self.power = Some(Power::default());
        self.damaged = Some(Damaged::default());
        self.prepare_drives();
        self.format()?;
        if !self.recover()? {
            return Err("a fresh volume cannot be recovered".into());
        }
        if self.random.one_in(3) {
            self.run_to_a_cut()?;
            if !self.recover()? {
                return Err("a volume of sound drives cannot be recovered".into());
            }
        }
        let closes = self.random.one_in(4);
        if closes {
            self.run_and_close()?;
        } else {
            self.run_to_a_cut()?;
        }
        if self.random.one_in(3) {
            self.begin_recoveries()?;
        }
        self.damage(description);
        if !self.recover_damaged()? {
            self.report.damage.refusals += 1;
            return Ok(self.report);
        }
        self.check_damaged()?;
        self.workload.left = self.workload.left.clamp(REQUESTS_AFTER / 4, REQUESTS_AFTER);
        self.workload.wait_until(self.now);
        self.run_to_a_cut()?;
        if !self.recover_damaged()? {
            self.report.damage.refusals += 1;
            return Ok(self.report);
        }
        self.check_damaged()?;
        let errors = self.damaged.as_ref().map_or(0, |damaged| damaged.errors);
        let outcome = &mut self.report.damage;
        *(if errors > 0 { &mut outcome.errors } else { &mut outcome.right }) += 1;
        self.count_statistics();
        Ok(self.report)
    }

    /// Gives the drives write caches and a memory of older content.
    fn prepare_drives(&mut self) {
        let layout = &self.volume.view().layout;
        let homes: Vec<SectorRange> = (0..self.drives.len() as u16)
            .map(|member| match (&layout.places, layout.metadata) {
                (Some(_), Some(table)) if table.member.0 == member => SectorRange::new(0, table.first_sector),
                (Some(_), _) => SectorRange::new(0, layout.tails[usize::from(member)]),
                (None, _) => layout.home_on(MemberId(member)),
            })
            .collect();
        let drives = std::mem::take(&mut self.drives).into_iter().zip(homes);
        self.drives = drives.map(|(drive, home)| drive.with_write_cache().with_older_content(home)).collect();
    }

    fn run_to_a_cut(&mut self) -> Result<(), String> {
        self.plan_cut();
        while self.step()? {}
        if !self.is_cut() {
            self.idle()?;
        }
        self.cut_power();
        Ok(())
    }

    /// Begins some recoveries of sound drives and cuts the power during each of them, or at its
    /// end. Damage then meets drives that an unfinished recovery has written.
    fn begin_recoveries(&mut self) -> Result<(), String> {
        for _ in 0..self.random.between(1, RECOVERIES_MAX) {
            let began = self.now;
            match self.try_to_recover(false)? {
                Attempt::Cut => {
                    self.cut_recovery();
                    // A recovery that was cut has recorded nothing as stable. Its time does not end
                    // the doubt.
                    self.last_request = self.last_request.map(|last| last + (self.now - began));
                }
                Attempt::Recovered(volume) => {
                    self.volume = *volume;
                    self.follow()?;
                    self.cut_power();
                }
                Attempt::Refused(error) => {
                    return Err(format!("a volume of sound drives cannot be recovered: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Runs some requests and closes the volume in order, which makes acknowledged changes stable.
    fn run_and_close(&mut self) -> Result<(), String> {
        let requests = self.random.below(self.workload.left);
        let later = std::mem::replace(&mut self.workload.left, requests);
        while self.step()? {}
        self.workload.left = later - requests;
        let flush = self.shadow.begin(self.now, OpKind::Flush, SectorRange::default(), false);
        self.volume.close(self.now);
        self.after_event()?;
        self.idle()?;
        if !self.volume.is_closed() {
            return Err("a volume on sound drives does not close".into());
        }
        self.shadow.end(flush, Status::Done);
        self.last_request = None;
        self.cut_power();
        Ok(())
    }

    /// Damages data on the drives while the power is off, and records the possible cost.
    fn damage(&mut self, description: &mut String) {
        let count = [1, 2, 3, 4][self.random.weighted(&[12, 4, 2, 2])];
        let pages = damage::survey(&self.volume.view().layout, &self.drives);
        let damages = damage::draw(count, &pages, &self.drives, &mut self.random);
        let in_doubt = self.in_doubt(&pages);
        let is_beside_torn_page = damage::is_beside_torn_page(&damages, &pages, &self.drives);
        for damage in &damages {
            damage.happen(&mut self.drives);
            let _ = write!(description, "\nDamage: {damage}");
            self.tell(|| format!("damage: {damage}"));
        }
        if self.saboteur.loses_copies() {
            let damaged = damages.iter().flat_map(|damage| &damage.pages);
            let copies = damaged.flat_map(|page| damage::copies_of(page, &pages));
            copies.for_each(|copy| copy.lose(&mut self.drives));
        }
        self.report.damage.count(&damages);
        let damaged = Damaged { damages, is_beside_torn_page, ..Damaged::default() };
        let one = damaged.is_of_one_page();
        let single = damaged.damages.iter().map(|damage| damage.pages.len()).sum::<usize>() == 1;
        self.atlas.damage(if one { atlas::Damaged::OnePage } else { atlas::Damaged::Pages });
        self.damaged = Some(damaged);
        self.suspect_what_slots_had();
        // A damaged page of metadata may be the only one that says that a damaged slot's record is
        // stable. The power cut may have taken its other copy before.
        if !single {
            self.distrust_slots(&self.in_doubt(&pages));
        }
        self.distrust_slots(&in_doubt);
    }

    fn damaged_slots(&self) -> BTreeSet<Slot> {
        let damages = self.damaged.iter().flat_map(|damaged| &damaged.damages);
        // An unreadable page stays unreadable until it is written, and may be a slot of a log by
        // then.
        let lost = damages.flat_map(|damage| damage.pages.iter().map(|page| (damage.kind.is_unreadable(), page)));
        lost.filter(|(unreadable, page)| *unreadable || !page.is_metadata()).filter_map(|(_, page)| page.slot).collect()
    }

    /// Marks the blocks whose only copy a damaged slot has, by the present map. Reads of the marked
    /// blocks may fail.
    fn suspect_what_slots_had(&mut self) {
        let map = &self.volume.view().map;
        let entries = self.damaged_slots().into_iter().filter_map(|slot| map.in_slot(slot));
        let blocks: Vec<Block> = entries.filter(|entry| entry.dirty).map(|entry| entry.block).collect();
        blocks.into_iter().for_each(|block| self.may_be_an_error(block));
    }

    fn may_be_an_error(&mut self, block: Block) {
        self.atlas.suspect(block);
        self.damaged.get_or_insert_default().alone.insert(block);
    }

    /// Permits any older value for sectors whose content was in damaged slots in doubt. A slot that
    /// is damaged before its write is known looks as if it was never written. So the sectors in the
    /// slot may read as any older value. Damage to a slot in doubt permits no older value if a
    /// later slot has the same eighths, unless the later slot has taken over sectors of the damaged
    /// slot.
    fn distrust_slots(&mut self, in_doubt: &[(u64, Record)]) {
        let damaged = self.damaged_slots();
        let size = self.volume.view().block();
        let mut doubted = Doubted::default();
        for &(position, record) in in_doubt {
            match record {
                Record::Map { block, slot, valid, is_whole, checksum, .. } => {
                    let missing = doubted.missing.get(&block).copied().unwrap_or_default();
                    let is_merged = self.has_log() && size.eighth_sectors() > 1 && !is_whole;
                    let lacks_sectors = is_merged && !missing.intersection(valid).is_empty();
                    let is_there =
                        self.content_of(slot).is_some_and(|content| content.checksum() == checksum) && !lacks_sectors;
                    let in_cache = if self.has_log() { valid } else { ValidMask::ALL };
                    doubted.newest.insert(block, position);
                    doubted.take_slot(block, in_cache, is_there, damaged.contains(&slot) || lacks_sectors);
                }
                Record::Home { block } => doubted.take_home(block, u64::MAX),
                Record::Dropped { first, count, before } => {
                    BlockRun { first, count }.blocks().for_each(|block| doubted.take_home(block, before));
                }
                Record::Intent { .. } | Record::Lost { .. } | Record::Void { .. } => {}
            }
        }
        for (block, eighths) in doubted.cost.into_iter().filter(|(_, eighths)| !eighths.is_empty()) {
            self.may_be_an_error(block);
            let first = size.first_sector(block);
            for eighth in (0..8).filter(|eighth| eighths.contains(ValidMask(1 << eighth))) {
                let start = first + eighth * size.eighth_sectors();
                self.shadow.distrust_at_rest(SectorRange::new(start, size.eighth_sectors()));
            }
        }
    }

    /// Returns the present content of a slot on its drive; `None` if it cannot be read.
    fn content_of(&self, slot: Slot) -> Option<Tags> {
        let view = self.volume.view();
        let slots = view.layout.slots.expect("a slot lies in a region of slots");
        let sectors = view.block().sectors();
        let start = slots.first_sector + u64::from(slot.0) * sectors;
        let mut content = Tags::default();
        let drive = &self.drives[usize::from(slots.member.0)];
        for sector in (start..start + sectors).filter(|&sector| !drive.is_unreadable(sector)) {
            content.push(drive.content(sector), 1);
        }
        (content.sectors().0 == sectors).then_some(content)
    }

    /// Returns the records, with the positions of their slots in a log, that recovery compares with
    /// the checksums of slots, because nothing on the drive says that the records are stable.
    /// Recovery takes a slot that does not match its record for a slot that was never written.
    fn in_doubt(&self, pages: &[Page]) -> Vec<(u64, Record)> {
        let layout = &self.volume.view().layout;
        let quiet = self.last_request.map_or(u64::MAX, |last| self.now.0.saturating_sub(last.0));
        let Some(slots) = layout.slots.filter(|_| quiet <= DOUBT_MAX.0) else {
            return Vec::new();
        };
        let drive = &self.drives[usize::from(slots.member.0)];
        let of = |wanted: &'static [Structure]| pages.iter().filter(move |page| wanted.contains(&page.structure));
        let superblocks =
            of(&[Structure::Superblock]).filter_map(|page| Superblock::decode(&bytes_of(drive, page)?).ok());
        let Some(newest) = superblocks.max_by_key(|superblock| superblock.sequence) else { return Vec::new() };
        let decode = |page: &Page| {
            let bytes = bytes_of(drive, page)?;
            [Kind::Ring, Kind::Head, Kind::Foot, Kind::Index]
                .into_iter()
                .find_map(|kind| record::decode_page(kind, &bytes).ok())
        };
        let life = newest.life();
        let decode_all = |wanted| of(wanted).filter_map(decode).filter(|(header, _)| header.life == life.number);
        let index = decode_all(&[Structure::Index]).map(|(header, _)| header.stable).max().unwrap_or(0);
        let begin = newest.tail.max(life.began_at);
        let records = decode_all(&[Structure::Ring, Structure::Segment]).filter(|(header, _)| header.number >= begin);
        let records = self.in_reach(begin, records.collect());
        let stable = records.iter().map(|(header, _)| header.stable).max().unwrap_or(0).max(index).max(begin);
        let in_doubt = records.into_iter().filter(|(header, _)| header.number >= stable);
        let positions = |(header, records): RecordPage| (header.number + 1..).zip(records);
        in_doubt.flat_map(positions).collect()
    }

    /// Returns the pages of records from number `begin` on, up to the first page that the power cut
    /// has lost. Pages after the first lost page count as never written.
    fn in_reach(&self, begin: u64, mut pages: Vec<RecordPage>) -> Vec<RecordPage> {
        let is_log = self.has_log();
        // A segment does not begin in the last slots, which have no room for one.
        let (gap, frame) = if is_log { (SEGMENT_PAGES, SEGMENT_PAGES) } else { (0, 1) };
        let mut end = begin;
        pages.sort_by_key(|(header, _)| header.number);
        let in_reach = |(header, records): &RecordPage| {
            let is_next = header.number <= end + gap;
            let blocks = records.iter().filter(|record| is_log && matches!(record, Record::Map { .. })).count() as u64;
            end = end.max(header.number + frame + blocks);
            is_next
        };
        pages.into_iter().take_while(in_reach).collect()
    }

    /// Recovers the volume, with cuts during recovery. Returns false if the recovery refused the
    /// volume for a reason that the tester accepts.
    fn recover_damaged(&mut self) -> Result<bool, String> {
        loop {
            let changes = self.changes();
            match self.try_to_recover(false)? {
                Attempt::Cut => self.cut_recovery(),
                Attempt::Recovered(volume) => {
                    self.volume = *volume;
                    self.suspect_what_slots_had();
                    self.follow()?;
                    return Ok(true);
                }
                Attempt::Refused(error) => {
                    self.tell(|| format!("refused: {error}"));
                    let of_one_page = self.damaged.as_ref().is_some_and(Damaged::is_of_one_page);
                    if of_one_page && !self.may_hide_a_segment(&error) {
                        return Err(format!("recovery refuses what one page of metadata cannot cost: {error}"));
                    }
                    if self.changes() != changes {
                        return Err(format!("recovery writes before it refuses: {error}"));
                    }
                    self.accept_the_loss()?;
                    return Ok(false);
                }
            }
        }
    }

    /// Recovers the volume with all losses accepted, and reads everything. A read may fail or
    /// return older content, but never content that its sector did not hold.
    fn accept_the_loss(&mut self) -> Result<(), String> {
        // The owner lets the member's content go, however few of its pages were damaged.
        self.atlas.damage(atlas::Damaged::Pages);
        loop {
            match self.try_to_recover(true)? {
                Attempt::Cut => self.cut_recovery(),
                Attempt::Refused(_) => return Ok(()),
                Attempt::Recovered(volume) => {
                    self.volume = *volume;
                    break;
                }
            }
        }
        let all = self.volume.view().layout.total_blocks() * self.volume.view().block().sectors();
        self.shadow.distrust_at_rest(SectorRange::new(0, all));
        self.shadow.forget_doubts();
        self.damaged.get_or_insert_default().all_alone = true;
        self.report.damage.accepted += 1;
        self.check_everything()
    }

    /// Returns true if recovery met two unreadable pages of a log, where a segment may begin and
    /// end. In this case recovery cannot know whether a segment lies at this place, and refuses the
    /// volume.
    fn may_hide_a_segment(&self, error: &RecoveryError) -> bool {
        let damages = self.damaged.iter().flat_map(|damaged| &damaged.damages);
        let unreadable = damages.filter(|damage| damage.kind.is_unreadable()).flat_map(|damage| &damage.pages);
        let in_slots = unreadable.filter(|page| page.slot.is_some()).count();
        self.has_log() && in_slots > 1 && matches!(error.cause(), RecoveryError::Unreadable { .. })
    }

    fn changes(&self) -> u64 {
        self.drives.iter().map(Drive::changes).sum()
    }

    /// Reads everything twice. If several pages are damaged, everything is read again after that,
    /// block by block.
    fn check_damaged(&mut self) -> Result<(), String> {
        self.check_everything()?;
        let damaged = self.damaged.get_or_insert_default();
        if !damaged.is_of_one_page() {
            damaged.all_alone = true;
            self.check_everything()?;
            self.damaged.get_or_insert_default().all_alone = false;
        }
        Ok(())
    }

    /// Counts a request that ended with an error.
    pub(super) fn count_error(&mut self) {
        if let Some(damaged) = &mut self.damaged {
            damaged.errors += 1;
        }
    }

    /// Returns the number of sectors, of `len` sectors from `sector` on, that one read covers. A
    /// block whose read may fail is read alone, so that all other blocks are checked.
    pub(super) fn readable_together(&self, sector: u64, len: u64) -> u64 {
        let Some(damaged) = &self.damaged else { return len };
        let size = self.volume.view().block();
        let block = size.block_of(sector);
        let end_of = |block: Block| size.first_sector(block) + size.sectors() - sector;
        if damaged.all_alone || damaged.alone.contains(&block) {
            return len.min(end_of(block));
        }
        let next = damaged.alone.range(block..).next();
        next.map_or(len, |next| len.min(size.first_sector(*next) - sector))
    }
}

fn bytes_of(drive: &Drive, page: &Page) -> Option<page::Page> {
    damage::bytes_of(drive, page.sector)?.try_into().ok()
}
