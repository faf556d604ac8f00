//! Power cuts in the run of a case. The drives lose unflushed changes, the volume is gone, a new
//! volume recovers the remaining content, and all addresses are read.
//!
//! A cut comes before or after an operation starts, or between its end and the engine's notice of
//! that end. A recovery is cut, too, any number of times. After the recovery every sector is read,
//! twice. The first reading settles the content of each sector, and shows whether a block off its
//! home has a part of a write. The second reading, and every reading after further cuts, must
//! return the same content. In the end the home is used as a [plain disk](super::plain), and the
//! volume is recovered once more.

use std::collections::{BTreeMap, BTreeSet};

use bimetal_core::block::{Block, BlockSize};
use bimetal_core::block_map::Slot;
use bimetal_core::journal::PAGE_SECTORS;
use bimetal_core::journal::record::{self, Kind, Record};
use bimetal_core::journal::state::State;
use bimetal_core::layout::{MemberId, SlotKind, SlotRegion};
use bimetal_core::operation::{Command, OpKind, Operation, Status};
use bimetal_core::payload::Payload;
use bimetal_core::scheme::{MemberState, Reason};
use bimetal_core::units::{Bytes, SectorRange, Sectors};
use bimetal_core::volume::{self, Recovery, RecoveryError, Volume};

use super::holds::Holds;
use super::{Report, Tester};
use crate::case::Faults;
use crate::drive::{Drive, Plan};
use crate::payload::{Sector, Tags};
use crate::regions::{Region, region_of};
use crate::shadow::Moment;

/// Largest number of recoveries of a case that are cut.
const CUT_RECOVERIES_MAX: u64 = 8;
/// Number of successive recoveries that may fail because a drive fails, before loss is accepted.
const REFUSALS_MAX: u32 = 4;

/// Result of a recovery.
pub(super) enum Attempt {
    Cut,
    Refused(RecoveryError),
    Recovered(Box<Volume<Tags>>),
}

/// Consequence of a refused recovery.
enum Refusal {
    /// The volume is lost.
    Final,
    /// A drive failed once, and another attempt may succeed.
    Passing,
    /// Data are lost, and the loss must be accepted.
    OfLoss,
}

/// State of the power, and values that the checks after a power cut need.
#[derive(Default)]
pub(super) struct Power {
    /// Number of starts and ends of operations until the cut. If `at_barrier` is set, only flushes
    /// and writes that are stable at their end (FUA) count.
    countdown: Option<u64>,
    at_barrier: bool,
    pub(super) cut: bool,
    /// Set while the tester reads every block for a check. No requests arrive while this flag is
    /// set.
    checking: bool,
    /// Set from the return of the member with the slots to the end of the next recovery.
    pub(super) slots_are_back: bool,
    /// Values that the last reading found.
    pub(super) seen: Option<Vec<Option<Sector>>>,
    /// Blocks of writes that were written home in place.
    in_place: BTreeSet<(u32, Block)>,
    /// Blocks whose data any slot has ever held.
    off_home: BTreeSet<Block>,
    /// Blocks whose content rotted in a log, with the moment of the last rot. A migration reports
    /// such a block as lost and leaves the block out.
    rotten: BTreeMap<Block, Moment>,
    home: HomeState,
    /// Set if other programs used the home as a plain disk since the volume was closed.
    home_is_plain: bool,
}

/// State that the home alone would show under a scheme with a log (Griffin 5.3). This state is the
/// state at the start of the last completed migration. Between the start and the end of a
/// migration, each block at home has the content of that start, or newer content.
#[derive(Default)]
struct HomeState {
    /// Moment in the order of requests, at which the home's content was the newest content.
    as_of: Moment,
    /// Set if a migration has changed a part of the home.
    mixed: bool,
    /// Set if a write ever bypassed the log. If a migration was under way, home does not have the
    /// content of a single moment.
    passed_by: bool,
    /// Moment at which the current migration began. `migrations` is the number of migrations so
    /// far.
    migration: Option<Moment>,
    migrations: u64,
}

impl Tester {
    /// Returns true if the power was cut.
    pub(super) fn is_cut(&self) -> bool {
        self.power.as_ref().is_some_and(|power| power.cut)
    }

    pub(super) fn is_checking(&self) -> bool {
        self.power.as_ref().is_some_and(|power| power.checking)
    }

    /// Counts the start or end of an operation. Returns true if the power is cut or was ever cut.
    pub(super) fn is_cut_now(&mut self, command: Command) -> bool {
        let Some(power) = &mut self.power else { return false };
        let is_barrier = command.kind == OpKind::Flush || command.fua;
        if let Some(countdown) = power.countdown.as_mut().filter(|_| !power.at_barrier || is_barrier) {
            power.cut |= *countdown == 0;
            *countdown = countdown.saturating_sub(1);
        }
        power.cut
    }

    pub(super) fn power(&mut self) -> &mut Power {
        self.power.as_mut().expect("a case with power cuts")
    }

    /// Updates the moment whose content the home has.
    pub(super) fn follow_home(&mut self) {
        let Some(power) = &mut self.power else { return };
        let view = self.volume.view();
        let home = &mut power.home;
        if view.layout.slots.is_some_and(|slots| view.member(slots.member).state == MemberState::ReadOnly) {
            // Blocks that are now written back do not show a single moment until all of them are
            // home.
            return home.migration = None;
        }
        let elsewhere = [Reason::MEMBER_GONE, Reason::MEMBER_READ_ONLY];
        let of_scheme = |reason: &Reason| !elsewhere.contains(reason);
        home.passed_by |= self.volume.statistics().bypassed_blocks.keys().any(of_scheme);
        // A migration may end and the next begin between two calls.
        let count = self.volume.statistics().migrations.count;
        let another = std::mem::replace(&mut home.migrations, count) != count;
        if let Some(began) = home.migration.filter(|_| !view.moving || another) {
            (home.as_of, home.mixed, home.migration) = (began, false, None);
        }
        if view.moving {
            home.migration.get_or_insert(self.shadow.now());
        }
        if view.map.is_empty() && !view.moving {
            (home.as_of, home.mixed) = (self.shadow.now(), false);
        }
    }

    /// Records the blocks of a request that are written home in place: not off home, and not by a
    /// move.
    pub(super) fn note_placement(&mut self, operation: &Operation<Tags>) {
        if self.power.is_none() || operation.command.kind != OpKind::Write {
            return;
        }
        let view = self.volume.view();
        let (layout, size) = (&view.layout, view.block());
        let member = MemberId(operation.target);
        let drive = &self.drives[usize::from(operation.target)];
        let region = region_of(layout, member, drive.capacity(), operation.command.range);
        if let Some(Region::Slots(_)) = region {
            let blocks = blocks_in(&operation.payload, size);
            self.power().off_home.extend(blocks);
            return;
        }
        let refusing = layout.slots.is_some_and(|slots| view.member(slots.member).state == MemberState::ReadOnly);
        let moving = view.moving && !refusing;
        let mixes = view.moving || refusing;
        let announces_an_end = || !state_of(&operation.payload).is_some_and(|state| state.migrating);
        let home = &mut self.power().home;
        match (region, home.migration) {
            (Some(Region::Home(_)), _) if mixes => home.mixed = true,
            // The end of a migration is announced once all of it is stable at home.
            (Some(Region::Tail), Some(began)) if home.mixed && announces_an_end() => {
                (home.as_of, home.mixed) = (began, false)
            }
            _ => {}
        }
        let Some(Region::Home(mut at)) = region else { return };
        let view = self.volume.view();
        let (layout, size) = (&view.layout, view.block());
        let mut placed = Vec::new();
        for (first, len) in operation.payload.runs() {
            let range = SectorRange::new(at, u64::from(len));
            at += u64::from(len);
            let Sector::Data { request, .. } = *first else { continue };
            // Data evacuated from a read-only member may have no record on the member. Evacuated
            // data are written home like a write in place.
            if self.shadow.request(request).ended.is_some() && !refusing {
                continue;
            }
            for block in size.touched(range).blocks() {
                let part = size.clip(range, block);
                let holds = |region: &SlotRegion, slot: Slot| {
                    let into = part.start.0 - size.first_sector(block);
                    let at = region.first_sector + u64::from(slot.0) * size.sectors() + into;
                    let there = self.drives[usize::from(region.member.0)].content(at);
                    matches!(there, Sector::Data { request: other, .. } if other == request)
                };
                let region = layout.slots.filter(|_| moving);
                let from_slot =
                    region.is_some_and(|region| view.map.pieces(block).iter().any(|(slot, _)| holds(&region, *slot)));
                if !from_slot {
                    placed.push((request, block));
                }
            }
        }
        self.power().in_place.extend(placed);
    }

    /// Switches the power on for the first time: formats the drives, and recovers the volume.
    /// Returns false if failing drives do not let the volume recover.
    pub(super) fn switch_on(&mut self) -> Result<bool, String> {
        self.power = Some(Power::default());
        self.drives = std::mem::take(&mut self.drives).into_iter().map(Drive::with_write_cache).collect();
        self.format()?;
        let is_recovered = self.recover()?;
        if !is_recovered && self.atlas.faults() == 0 {
            return Err("a fresh volume cannot be recovered".into());
        }
        Ok(is_recovered)
    }

    /// Runs the case from the moment at which the power is first switched on.
    pub(super) fn run_crashes(mut self) -> Result<Report, String> {
        if !self.switch_on()? {
            return Ok(self.report);
        }
        let cuts = self.random.pick(&[1, 1, 1, 2, 3]);
        let faults = self.faults;
        for _ in 0..cuts {
            self.plan_cut();
            self.faults = faults;
            while self.step()? {}
            if !self.is_cut() {
                self.idle()?;
            }
            self.cut_power();
            if !self.recover()? {
                return Ok(self.report);
            }
            self.check_everything()?;
            self.workload.wait_until(self.now);
        }
        self.faults = faults;
        while self.step()? {}
        self.settle()?;
        self.check_let_go()?;
        self.check_everything()?;
        if self.use_home_as_plain_disk()? {
            self.report.plain_disks += 1;
            self.power().home_is_plain = true;
            self.cut_power();
            if self.recover()? {
                self.check_everything()?;
            }
        }
        self.count_statistics();
        Ok(self.report)
    }

    /// Checks that a read-only member was evacuated and detached in the end.
    fn check_let_go(&mut self) -> Result<(), String> {
        while let Some(member) = self.kept_read_only() {
            let dirty = self.volume.view().map.dirty_blocks();
            // A rate of moves lets an evacuation take longer than the tester waits at once. The
            // evacuation must then write back blocks in every such time.
            self.idle()?;
            if self.kept_read_only().is_some() && self.volume.view().map.dirty_blocks() >= dirty {
                return Err(format!("{member:?} is read-only and was not detached"));
            }
        }
        Ok(())
    }

    /// Returns the member with the slots if the member is read-only, although nothing prevents its
    /// evacuation.
    fn kept_read_only(&self) -> Option<MemberId> {
        let view = self.volume.view();
        let slots = view.layout.slots.filter(|slots| !view.layout.homes().contains(&slots.member))?;
        let kept = view.member(slots.member).state == MemberState::ReadOnly;
        let home_takes = view.layout.homes().iter().all(|&home| view.member(home).state == MemberState::Online);
        (self.atlas.is_only_of_refusals() && kept && home_takes).then_some(slots.member)
    }

    /// Draws the time of the power cut. Most defects appear near a flush or a forced write.
    pub(super) fn plan_cut(&mut self) {
        let at_barrier = self.random.one_in(2);
        let bits = if at_barrier { self.random.between(0, 6) } else { self.random.between(1, 11) };
        let countdown = self.random.below(1 << bits);
        let power = self.power();
        (power.countdown, power.at_barrier) = (Some(countdown), at_barrier);
    }

    /// Lets the power fail soon in half of the cases, while a read-only member is evacuated.
    pub(super) fn cut_soon(&mut self) {
        let planned = self.power.as_ref().is_some_and(|power| power.countdown.is_some());
        if planned && !self.is_checking() && self.random.one_in(2) {
            let bits = self.random.between(0, 7);
            let countdown = self.random.below(1 << bits);
            let power = self.power();
            (power.countdown, power.at_barrier) = (Some(countdown), false);
        }
    }

    /// Records that the content of `block` rotted in a log.
    pub(super) fn note_rot_in_log(&mut self, block: Block) {
        if let Some(power) = &mut self.power {
            power.rotten.insert(block, self.shadow.now());
        }
    }

    /// Cuts the power, whether operations are in flight or not.
    pub(super) fn cut_power(&mut self) {
        self.report.cuts += 1;
        self.count_statistics();
        // Content of a log's buffer has not begun its way to a slot, so its blocks are recorded as
        // off home now.
        let dirty = self.volume.view().map.occupied().filter(|(_, entry)| entry.dirty);
        let dirty: Vec<Block> = dirty.map(|(_, entry)| entry.block).collect();
        self.power().off_home.extend(dirty);
        self.distrust_what_homes_forgot();
        self.shadow.cut();
        self.open.clear();
        self.recent.clear();
        self.holds.iter_mut().for_each(Holds::forget);
        let home = &mut self.power().home;
        (home.migration, home.migrations) = (None, 0);
        self.bring_slots_back();
        self.cut_drives();
        self.flip_back();
        if self.damaged.is_none() {
            self.lose_a_drive();
        }
    }

    /// Brings the member with the slots back that had vanished, in half of the cases. If it had
    /// content that home lacks, nothing is lost.
    fn bring_slots_back(&mut self) {
        let Some(slots) = self.volume.view().layout.slots else { return };
        let number = usize::from(slots.member.0);
        if !self.drives[number].is_gone() || self.random.one_in(2) || !self.may_slots_come_back() {
            return;
        }
        self.drives[number].come_back();
        self.report.returns += 1;
        self.power().slots_are_back = true;
    }

    /// Returns true if the member with the slots may come back. If its content was given up, a home
    /// that takes no writes could not record that, so its content would replace home's.
    pub(super) fn may_slots_come_back(&self) -> bool {
        let view = self.volume.view();
        let is_online = |home: &MemberId| view.member(*home).state == MemberState::Online;
        self.volume.gave_up().is_none() || view.layout.homes().iter().all(is_online)
    }

    /// Makes a drive vanish at a power cut in some cases.
    fn lose_a_drive(&mut self) {
        let layout = &self.volume.view().layout;
        let member = match layout.slots {
            Some(slots) if self.random.one_in(6) => slots.member,
            _ if layout.is_mirrored() && self.random.one_in(6) => {
                MemberId(self.random.below(self.drives.len() as u64) as u16)
            }
            _ if self.random.one_in(60) => layout.homes()[0],
            _ => return,
        };
        self.tell(|| format!("{member:?} does not come back"));
        self.drives[usize::from(member.0)].vanish();
    }

    /// Cuts the power of the drives in a recovery.
    pub(super) fn cut_recovery(&mut self) {
        self.report.cut_recoveries += 1;
        self.cut_drives();
    }

    pub(super) fn cut_drives(&mut self) {
        self.saboteur.forget();
        for member in 0..self.drives.len() {
            let (manner, unreadable) = self.drives[member].power_cut(&mut self.random);
            self.tell(|| format!("power cut: member {member} {manner:?}"));
            for sector in unreadable {
                self.suspect_home(member, sector);
            }
        }
        let power = self.power();
        (power.cut, power.countdown) = (false, None);
    }

    /// Formats the empty drives as a volume.
    pub(super) fn format(&mut self) -> Result<(), String> {
        if let Some(scrubs) = &mut self.scrubs {
            scrubs.formatted = true;
        }
        let operations = volume::format::<Tags>(&self.setup.config()).map_err(|error| error.to_string())?;
        let plans: Vec<Plan> = self.drives.iter_mut().map(|drive| drive.replace_plan(Plan::default())).collect();
        for operation in operations {
            let member = usize::from(operation.target);
            self.drives[member].start(self.now, operation, &mut self.random);
            let ended = self.drives[member].end_next(&mut self.random);
            let status = ended.map(|ended| ended.completion.status);
            if status != Some(Status::Done) {
                return Err(format!("making a volume of sound drives ended with {status:?}"));
            }
        }
        for (drive, plan) in self.drives.iter_mut().zip(plans) {
            drive.replace_plan(plan);
        }
        Ok(())
    }

    /// Recovers the volume, with cuts during recovery. Returns false if the volume is lost for a
    /// reason that the tester accepts.
    pub(super) fn recover(&mut self) -> Result<bool, String> {
        let mut accept_loss = false;
        let mut refusals = 0;
        loop {
            match self.try_to_recover(accept_loss)? {
                Attempt::Cut => self.cut_recovery(),
                Attempt::Refused(error) => {
                    self.tell(|| format!("refused: {error}"));
                    refusals += 1;
                    self.check_migrating(&error)?;
                    match self.judge_refusal(&error)? {
                        Refusal::Final => return Ok(false),
                        Refusal::Passing if refusals < REFUSALS_MAX => {}
                        _ if accept_loss => return Err(format!("recovery fails even where loss is accepted: {error}")),
                        _ => accept_loss = true,
                    }
                }
                // The remaining copies were marked failed before, so they have older content.
                Attempt::Recovered(_) if self.all_copies_are_out() => return Ok(false),
                Attempt::Recovered(volume) => {
                    self.volume = *volume;
                    self.atlas.follow_recovery(self.volume.view());
                    self.power().slots_are_back = false;
                    self.suspect_damaged_slots();
                    if accept_loss {
                        self.fall_back()?;
                    }
                    return Ok(true);
                }
            }
        }
    }

    /// Returns true if the drive of every copy is gone, or the engine marked it failed.
    fn all_copies_are_out(&self) -> bool {
        let out = |home: &MemberId| self.drives[usize::from(home.0)].is_gone() || self.atlas.has_given_up(*home);
        let layout = &self.volume.view().layout;
        layout.is_mirrored() && layout.homes().iter().all(out)
    }

    /// Marks blocks of damaged slots as suspect. A write that failed, and could not be retried
    /// before the power cut, leaves slots that cannot be read. The tester does not know whether the
    /// content of such slots was promised, so an error is accepted, and older content is not. An
    /// error is right also for a slot that rotted while home had the same content, if the power cut
    /// took back the record that home had the content.
    fn suspect_damaged_slots(&mut self) {
        let view = self.volume.view();
        let Some(region) = view.layout.slots else { return };
        let sectors = view.block().sectors();
        let drive = &self.drives[usize::from(region.member.0)];
        for (slot, entry) in view.map.occupied() {
            let first = region.first_sector + u64::from(slot.0) * sectors;
            let is_rotten = |sector: u64| entry.dirty && matches!(drive.content(sector), Sector::Rotten(_));
            if (first..first + sectors).any(|sector| drive.is_unreadable(sector) || is_rotten(sector)) {
                self.atlas.suspect(entry.block);
            }
        }
    }

    /// Runs one recovery to its end or to a cut.
    pub(super) fn try_to_recover(&mut self, accept_loss: bool) -> Result<Attempt, String> {
        let gone = (0..self.drives.len()).filter(|&member| self.drives[member].is_gone());
        let gone: Vec<MemberId> = gone.map(|member| MemberId(member as u16)).collect();
        let recovery = Recovery::new(&self.setup.config(), &gone).map_err(|error| error.to_string())?;
        let recovery = if accept_loss { recovery.accept_loss() } else { recovery };
        let plain = self.power().home_is_plain;
        let mut recovery = if plain { recovery.home_was_plain() } else { recovery };
        let at_barrier = self.random.one_in(2);
        let bits = self.random.between(0, if at_barrier { 4 } else { 7 });
        let countdown = (self.random.one_in(3) && self.report.cut_recoveries < CUT_RECOVERIES_MAX)
            .then(|| self.random.below(1 << bits));
        let power = self.power();
        (power.countdown, power.at_barrier) = (countdown, at_barrier);
        let mut done = Bytes::ZERO;
        loop {
            while let Some(operation) = recovery.next_operation() {
                self.check_recovery(&operation)?;
                let command = operation.command;
                if self.is_cut_now(command) {
                    return Ok(Attempt::Cut);
                }
                self.start(operation);
                if self.is_cut_now(command) {
                    return Ok(Attempt::Cut);
                }
            }
            let (progress, total) = recovery.progress();
            if progress < done || progress > total {
                return Err(format!("recovery went from {done} to {progress} of {total}"));
            }
            done = progress;
            if recovery.is_finished() {
                break;
            }
            let due = (0..self.drives.len()).filter_map(|member| Some((self.drives[member].next_due()?, member))).min();
            let Some((due, member)) = due else {
                return Err(format!("recovery is stuck after {done} of {total}"));
            };
            self.now = self.now.max(due);
            if let Some(completion) = self.end_next(member) {
                recovery.complete(completion);
            }
            if self.is_cut() {
                return Ok(Attempt::Cut);
            }
        }
        self.power().countdown = None;
        Ok(match recovery.finish() {
            Ok(mut volume) => {
                self.setup.commit_early(&mut volume);
                Attempt::Recovered(Box::new(volume))
            }
            Err(error) => Attempt::Refused(error),
        })
    }

    /// Checks that recovery writes only metadata, and in a mirror the content of another copy.
    fn check_recovery(&mut self, operation: &Operation<Tags>) -> Result<(), String> {
        let Operation { target, command, .. } = operation;
        self.hash(&[u64::from(*target), command.kind as u64, command.range.start.0, command.range.len.0]);
        self.tell(|| format!("  member {target} recovers: {command:?}"));
        let layout = &self.volume.view().layout;
        let capacity = self.drives[usize::from(*target)].capacity();
        let region = region_of(layout, MemberId(*target), capacity, command.range);
        let metadata = matches!(region, Some(Region::Metadata | Region::Tail));
        let payload = &operation.payload;
        let is_another = |drive: &Drive| {
            !drive.is_gone()
                && payload.iter().zip(command.range.start.0..).all(|(value, sector)| drive.content(sector) == value)
        };
        let equal =
            layout.is_mirrored() && matches!(region, Some(Region::Home(_))) && self.drives.iter().any(is_another);
        // Recovery rewrites the head of a segment from its foot, and the foot from its head.
        let head = matches!(region, Some(Region::Slots(_)))
            && [Kind::Head, Kind::Foot].into_iter().any(|kind| self.is_page(kind, payload));
        if command.kind.changes_content() && !metadata && !equal && !head {
            return Err(format!("recovery writes where no metadata is: member {target}, {command:?}"));
        }
        Ok(())
    }

    /// Judges a refused recovery. A home that is gone ends the case. Content that only a lost or
    /// broken drive has may count as lost. A drive's error explains a passing refusal.
    fn judge_refusal(&self, error: &RecoveryError) -> Result<Refusal, String> {
        let layout = &self.volume.view().layout;
        let is_gone = |home: &MemberId| self.drives[usize::from(home.0)].is_gone();
        let home_gone = layout.homes().iter().any(is_gone);
        let home_gone = if layout.is_mirrored() { self.all_copies_are_out() } else { home_gone };
        let is_back = self.power.as_ref().is_some_and(|power| power.slots_are_back);
        let broken = layout.slots.is_some_and(|slots| {
            let is_given_up = self.atlas.has_given_up(slots.member) && !is_back;
            is_given_up || self.drives[usize::from(slots.member.0)].is_gone()
        });
        let cause = error.cause();
        let passing = matches!(cause, RecoveryError::Unreadable { .. } | RecoveryError::Failed { .. });
        // A drive that is also home is not detached without its block map. The cache on such a
        // drive begins anew, unless the drive takes no writes.
        let lost_map = layout.slots.is_some_and(|slots| layout.homes().contains(&slots.member));
        let lost_map = lost_map && matches!(cause, RecoveryError::Unreadable { .. } | RecoveryError::Damaged { .. });
        match error {
            _ if home_gone => Ok(Refusal::Final),
            RecoveryError::Unusable { .. } if lost_map && self.atlas.faults() > 0 => Ok(Refusal::OfLoss),
            _ if lost_map && self.atlas.faults() > 0 => Ok(Refusal::Final),
            RecoveryError::Needed { .. } if broken && (self.may_be_dirty() || self.is_state_damaged()) => {
                Ok(Refusal::OfLoss)
            }
            _ if passing && self.atlas.faults() > 0 => Ok(Refusal::Passing),
            _ => Err(format!("recovery fails and no fault explains it: {error}")),
        }
    }

    /// Returns true if a home's state may be unreadable. Without a readable state, the home does
    /// not tell whether the slots are needed.
    fn is_state_damaged(&self) -> bool {
        let layout = &self.volume.view().layout;
        layout.homes().iter().any(|home| {
            let drive = &self.drives[usize::from(home.0)];
            (layout.tails[usize::from(home.0)]..drive.capacity()).any(|sector| drive.is_unreadable(sector))
        })
    }

    /// Returns true if the slots may hold data that home lacks. Some schemes promise, in general or
    /// with these settings, that the loss of the SSD loses nothing.
    fn may_be_dirty(&self) -> bool {
        let set = |word: &str| self.setup.settings.iter().any(|(_, value)| value == word);
        let clauses = self.setup.scheme.ssd_loss.split("; ");
        let mut of_nothing = clauses.filter_map(|clause| clause.strip_suffix("nothing"));
        !of_nothing.any(|when| when.is_empty() || when.strip_suffix(": ").is_some_and(set))
    }

    /// Checks that the error of a missing log says whether the home has a part of a migration only.
    /// If writes bypassed the log, the home never has the content of a single moment, and nothing
    /// is checked.
    fn check_migrating(&self, error: &RecoveryError) -> Result<(), String> {
        let RecoveryError::Needed { migrating, .. } = *error else { return Ok(()) };
        let mixed = self.power.as_ref().is_some_and(|power| power.home.mixed && !power.home.passed_by);
        let fair = self.atlas.faults() == 0 || self.atlas.is_only_of_refusals();
        if self.has_log() && fair && mixed && !migrating {
            return Err(format!("a migration was under way, and the error does not mention it: {error}"));
        }
        Ok(())
    }

    pub(super) fn has_log(&self) -> bool {
        let slots = self.volume.view().layout.slots;
        slots.is_some_and(|slots| matches!(slots.kind, SlotKind::Log { .. }))
    }

    /// Adapts the model to an accepted loss, after which only the homes' content is left. Blocks
    /// that slots have ever held now read as the content at home. All other blocks must read as
    /// before. A block that rotted in a log may have missed a migration, so home may have older
    /// content of the block.
    fn fall_back(&mut self) -> Result<(), String> {
        let passed_by = self.power.as_ref().is_some_and(|power| power.home.passed_by);
        let exact = self.has_log() && self.atlas.faults() == 0 && !passed_by;
        let view = self.volume.view();
        let size = view.block();
        let power = self.power.as_ref().expect("a case with power cuts");
        let HomeState { as_of, mixed, .. } = power.home;
        // A move may have been writing the lost data home.
        self.shadow.forget_doubts();
        for &block in &power.off_home {
            let (home, first, _) = view.layout.home_of(block);
            for into in 0..size.sectors() {
                let sector = size.first_sector(block) + into;
                let value = self.drives[usize::from(home.0)].content(first + into);
                let rotted = power.rotten.get(&block).copied();
                let is_right = self.shadow.is_state_of(sector, &value, as_of, mixed, rotted);
                if exact && !is_right {
                    let wrong = self.shadow.describe(sector, &value);
                    let or_newer = if mixed { " or newer" } else { "" };
                    return Err(format!("home without the log is not as of moment {as_of}{or_newer}: {wrong}"));
                }
                self.shadow.fall_back(sector, value);
            }
        }
        Ok(())
    }

    /// Reads every sector twice.
    pub(super) fn check_everything(&mut self) -> Result<(), String> {
        let sectors = (self.volume.view().layout.total_blocks() * self.volume.view().block().sectors()) as usize;
        let faults = std::mem::replace(&mut self.faults, Faults { decay: 0, vanishes: None });
        let power = self.power();
        power.checking = true;
        power.seen = Some(vec![None; sectors]);
        self.read_back()?;
        let size = self.volume.view().block();
        let power = self.power();
        let seen = power.seen.take().unwrap_or_default();
        let in_place = std::mem::take(&mut power.in_place);
        self.shadow.check_whole(
            size,
            |sector| seen.get(sector as usize).and_then(Option::as_ref),
            |write, block| in_place.contains(&(write, block)),
        )?;
        self.read_back()?;
        let power = self.power();
        (power.checking, power.in_place) = (false, in_place);
        self.faults = faults;
        Ok(())
    }
}

/// Returns the blocks with content in `payload`, which is written to slots. Data name their
/// sectors. Zeroes name nothing, but the head of a log's segment names every block of the segment.
fn blocks_in(payload: &Tags, size: BlockSize) -> Vec<Block> {
    let runs = payload.runs().filter_map(|(first, len)| match first {
        Sector::Data { sector, .. } => Some(size.touched(SectorRange::new(u64::from(*sector), u64::from(len)))),
        _ => None,
    });
    let mut blocks: Vec<Block> = runs.flat_map(|run| run.blocks()).collect();
    if payload.sectors() >= Sectors(PAGE_SECTORS)
        && let Ok(page) = payload.slice(Sectors::ZERO, Sectors(PAGE_SECTORS)).to_metadata().try_into()
        && let Ok((_, records)) = record::decode_page(Kind::Head, &page)
    {
        blocks.extend(records.iter().filter_map(|record| match *record {
            Record::Map { block, .. } => Some(block),
            _ => None,
        }));
    }
    blocks
}

/// Returns the state in a page that is being written.
fn state_of(payload: &Tags) -> Option<State> {
    let page = payload.to_metadata().try_into().ok()?;
    State::decode(&page).ok().map(|(_, state, _)| state)
}
