//! Power cuts in the run of a case: the drives lose what they lose, the volume is gone, another recovers what is left, and
//! everything is read.
//!
//! A cut comes before or after an operation starts, or after it ended and before the engine hears of it. Recovery is cut
//! too, any number of times. Then every sector is read, twice: the first reading settles what each holds and shows
//! whether a block off its home holds a part of a write; the second, and every one after further cuts, must find the same.
//! In the end the home is used as a [plain disk](super::plain), and the volume recovered once more.

use std::collections::BTreeSet;

use bimetal_core::block::Block;
use bimetal_core::block_map::Slot;
use bimetal_core::journal::record::Kind;
use bimetal_core::layout::{MemberId, SlotKind, SlotRegion};
use bimetal_core::operation::{OpKind, Operation, Status};
use bimetal_core::scheme::{MemberState, Reason};
use bimetal_core::units::{Bytes, SectorRange};
use bimetal_core::volume::{self, Recovery, RecoveryError, Volume};

use super::{Report, Tester};
use crate::case::Faults;
use crate::drive::{Drive, Plan};
use crate::payload::{Sector, Tags};
use crate::regions::{Region, region_of};
use crate::shadow::Moment;

/// Recoveries of a case that are cut, at most.
const CUT_RECOVERIES_MAX: u64 = 8;
/// Recoveries in a row that fail because a drive fails, before loss is accepted.
const REFUSALS_MAX: u32 = 4;

/// What became of a recovery.
pub(super) enum Attempt {
    Cut,
    Refused(RecoveryError),
    Recovered(Box<Volume<Tags>>),
}

/// What a refusal leads to.
enum Refusal {
    /// There is no volume any more.
    Final,
    /// A drive failed: another attempt may succeed.
    Passing,
    /// Something is lost, and is let go.
    OfLoss,
}

/// When the power is cut, and what the checks after a cut need.
#[derive(Default)]
pub(super) struct Power {
    /// Starts and ends of operations until then; where `at_flush`, of flushes alone.
    countdown: Option<u64>,
    at_flush: bool,
    cut: bool,
    /// Everything is being read: no requests arrive meanwhile.
    checking: bool,
    /// What the last reading found.
    pub(super) seen: Option<Vec<Option<Sector>>>,
    /// Blocks of writes that went to their home in place.
    in_place: BTreeSet<(u32, Block)>,
    /// Blocks that slots ever held anything of.
    off_home: BTreeSet<Block>,
    home: HomeState,
    /// Others had the home as a plain disk since the volume was closed.
    home_is_plain: bool,
}

/// What home alone would show under a scheme with a log (Griffin 5.3): the state at the start of the last completed
/// migration; between that of one and its end each block has that state or a newer one.
#[derive(Default)]
struct HomeState {
    /// Of when home has the state.
    as_of: Moment,
    /// Whether a migration has changed some of it.
    mixed: bool,
    /// Whether the scheme ever let a write pass the log by: then home is not of one time.
    passed_by: bool,
    /// When the migration under way began, and how many there were.
    migration: Option<Moment>,
    migrations: u64,
}

impl Tester {
    /// Whether the power was cut.
    pub(super) fn is_cut(&self) -> bool {
        self.power.as_ref().is_some_and(|power| power.cut)
    }

    pub(super) fn is_checking(&self) -> bool {
        self.power.as_ref().is_some_and(|power| power.checking)
    }

    /// Counts the start or end of an operation of this kind; whether the power is cut at it, or was before.
    pub(super) fn is_cut_now(&mut self, kind: OpKind) -> bool {
        let Some(power) = &mut self.power else { return false };
        if let Some(countdown) = power.countdown.as_mut().filter(|_| !power.at_flush || kind == OpKind::Flush) {
            power.cut |= *countdown == 0;
            *countdown = countdown.saturating_sub(1);
        }
        power.cut
    }

    pub(super) fn power(&mut self) -> &mut Power {
        self.power.as_mut().expect("a case with power cuts")
    }

    /// Follows of when home has the state.
    pub(super) fn follow_home(&mut self) {
        let Some(power) = &mut self.power else { return };
        let view = self.volume.view();
        let home = &mut power.home;
        if view.layout.slots.is_some_and(|slots| view.member(slots.member).state == MemberState::ReadOnly) {
            // What goes home now makes no state of one time before all of it has.
            return home.migration = None;
        }
        let elsewhere = [Reason::DRAINING, Reason::MEMBER_GONE, Reason::MEMBER_READ_ONLY];
        let of_scheme = |reason: &Reason| !elsewhere.contains(reason);
        home.passed_by |= self.volume.statistics().bypassed_blocks.keys().any(of_scheme);
        // One may end and the next begin between two looks.
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

    /// Remembers where a write of a request goes to its home in place: not off home, and not by a move.
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
            let blocks = operation.payload.runs().filter_map(|(first, len)| match first {
                Sector::Data { sector, .. } => Some(size.touched(SectorRange::new(u64::from(*sector), u64::from(len)))),
                _ => None,
            });
            let blocks: Vec<Block> = blocks.flat_map(|run| run.blocks()).collect();
            self.power().off_home.extend(blocks);
            return;
        }
        let refusing = layout.slots.is_some_and(|slots| view.member(slots.member).state == MemberState::ReadOnly);
        let moving = view.moving && !refusing;
        let mixes = view.moving || refusing;
        let home = &mut self.power().home;
        match (region, home.migration) {
            (Some(Region::Home(_)), _) if mixes => home.mixed = true,
            // The end of a migration is announced when all of it is stable at home.
            (Some(Region::Tail), Some(began)) if home.mixed => (home.as_of, home.mixed) = (began, false),
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
            // What leaves a member that refuses writes may have no record there: it goes home as a write in place does.
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

    /// Runs the case from the first power-on on.
    pub(super) fn run_crashes(mut self) -> Result<Report, String> {
        self.power = Some(Power::default());
        self.drives = std::mem::take(&mut self.drives).into_iter().map(Drive::with_write_cache).collect();
        self.format()?;
        if !self.recover()? {
            let fair = self.atlas.faults() > 0;
            return if fair { Ok(self.report) } else { Err("a fresh volume cannot be recovered".into()) };
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

    /// What a member has that refuses writes is at home in the end, and the volume is as without it.
    fn check_let_go(&self) -> Result<(), String> {
        let view = self.volume.view();
        let Some(slots) = view.layout.slots.filter(|slots| !view.layout.homes().contains(&slots.member)) else {
            return Ok(());
        };
        let kept = view.member(slots.member).state == MemberState::ReadOnly;
        let home_takes = view.layout.homes().iter().all(|&home| view.member(home).state == MemberState::Online);
        if self.atlas.is_only_of_refusals() && kept && home_takes {
            return Err(format!("{:?} refuses writes and was not let go", slots.member));
        }
        Ok(())
    }

    /// Draws when the power is cut. Most of what can go wrong goes wrong around a flush.
    pub(super) fn plan_cut(&mut self) {
        let at_flush = self.random.one_in(2);
        let bits = if at_flush { self.random.between(0, 6) } else { self.random.between(1, 11) };
        let countdown = self.random.below(1 << bits);
        let power = self.power();
        (power.countdown, power.at_flush) = (Some(countdown), at_flush);
    }

    /// As often as not the power is cut while what a member has that refuses writes is on its way home.
    pub(super) fn cut_soon(&mut self) {
        let planned = self.power.as_ref().is_some_and(|power| power.countdown.is_some());
        if planned && !self.is_checking() && self.random.one_in(2) {
            let bits = self.random.between(0, 7);
            let countdown = self.random.below(1 << bits);
            let power = self.power();
            (power.countdown, power.at_flush) = (Some(countdown), false);
        }
    }

    /// The power is cut, whether anything is under way or not.
    pub(super) fn cut_power(&mut self) {
        self.report.cuts += 1;
        self.count_statistics();
        // What a log's buffer holds never began on its way to a slot.
        let dirty = self.volume.view().map.occupied().filter(|(_, entry)| entry.dirty);
        let dirty: Vec<Block> = dirty.map(|(_, entry)| entry.block).collect();
        self.power().off_home.extend(dirty);
        self.distrust_what_homes_forgot();
        self.shadow.cut();
        self.open.clear();
        self.recent.clear();
        let home = &mut self.power().home;
        (home.migration, home.migrations) = (None, 0);
        self.cut_drives();
        if self.damaged.is_none() {
            self.lose_a_drive();
        }
    }

    /// Sometimes a drive does not come back with the power.
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

    /// Makes the empty drives a volume.
    pub(super) fn format(&mut self) -> Result<(), String> {
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

    /// Recovers what is left, cut again and again; false where there is no volume any more, and may be none.
    pub(super) fn recover(&mut self) -> Result<bool, String> {
        let mut accept_loss = false;
        let mut refusals = 0;
        loop {
            match self.try_to_recover(accept_loss)? {
                Attempt::Cut => {
                    self.report.cut_recoveries += 1;
                    self.cut_drives();
                }
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
                // What is left was given up before: it has what there was then.
                Attempt::Recovered(_) if self.all_copies_are_out() => return Ok(false),
                Attempt::Recovered(volume) => {
                    self.volume = *volume;
                    self.suspect_damaged_slots();
                    if accept_loss {
                        self.fall_back()?;
                    }
                    return Ok(true);
                }
            }
        }
    }

    /// Whether of every copy the drive is gone, or the engine had given it up.
    fn all_copies_are_out(&self) -> bool {
        let out = |home: &MemberId| self.drives[usize::from(home.0)].is_gone() || self.atlas.has_given_up(*home);
        let layout = &self.volume.view().layout;
        layout.is_mirrored() && layout.homes().iter().all(out)
    }

    /// A write that failed and could not be tried again before the power went leaves slots that
    /// cannot be read. Whether what they held was promised is not known: an error is right, and
    /// what was there before would not be. The same of a slot that rotted while home had its
    /// content too, where the power cut has taken back the record that said so.
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

    /// One recovery, from its beginning to its end or to a cut.
    pub(super) fn try_to_recover(&mut self, accept_loss: bool) -> Result<Attempt, String> {
        let gone = (0..self.drives.len()).filter(|&member| self.drives[member].is_gone());
        let gone: Vec<MemberId> = gone.map(|member| MemberId(member as u16)).collect();
        let recovery = Recovery::new(&self.setup.config(), &gone).map_err(|error| error.to_string())?;
        let recovery = if accept_loss { recovery.accept_loss() } else { recovery };
        let plain = self.power().home_is_plain;
        let mut recovery = if plain { recovery.home_was_plain() } else { recovery };
        let bits = self.random.between(0, 7);
        let countdown = (self.random.one_in(3) && self.report.cut_recoveries < CUT_RECOVERIES_MAX)
            .then(|| self.random.below(1 << bits));
        let power = self.power();
        (power.countdown, power.at_flush) = (countdown, false);
        let mut done = Bytes::ZERO;
        loop {
            while let Some(operation) = recovery.next_operation() {
                self.check_recovery(&operation)?;
                let kind = operation.command.kind;
                if self.is_cut_now(kind) {
                    return Ok(Attempt::Cut);
                }
                self.start(operation);
                if self.is_cut_now(kind) {
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
                return Err(format!("recovery waits for nothing after {done} of {total}"));
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
            Ok(volume) => Attempt::Recovered(Box::new(volume)),
            Err(error) => Attempt::Refused(error),
        })
    }

    /// Recovery writes metadata, and to one of several copies what another has, and nothing else.
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
        // The head of a segment is written again from its foot, and the foot from its head.
        let head = matches!(region, Some(Region::Slots(_)))
            && [Kind::Head, Kind::Foot].into_iter().any(|kind| self.is_page(kind, payload));
        if command.kind.changes_content() && !metadata && !equal && !head {
            return Err(format!("recovery writes where no metadata is: member {target}, {command:?}"));
        }
        Ok(())
    }

    /// Whether a refusal is right: a home that is gone ends the case; content that only a lost or broken drive has may
    /// be let go; what an error of a drive explains passes.
    fn judge_refusal(&self, error: &RecoveryError) -> Result<Refusal, String> {
        let layout = &self.volume.view().layout;
        let is_gone = |home: &MemberId| self.drives[usize::from(home.0)].is_gone();
        let home_gone = layout.homes().iter().any(is_gone);
        let home_gone = if layout.is_mirrored() { self.all_copies_are_out() } else { home_gone };
        let broken = layout.slots.is_some_and(|slots| {
            self.atlas.has_given_up(slots.member) || self.drives[usize::from(slots.member.0)].is_gone()
        });
        let passing = matches!(error, RecoveryError::Unreadable { .. } | RecoveryError::Failed { .. });
        // Without its map a drive that is home too can neither take part nor be let go.
        let lost_map = layout.slots.is_some_and(|slots| layout.homes().contains(&slots.member));
        let lost_map = lost_map && matches!(error, RecoveryError::Unreadable { .. } | RecoveryError::Damaged { .. });
        match error {
            _ if home_gone || (lost_map && self.atlas.faults() > 0) => Ok(Refusal::Final),
            RecoveryError::Needed { .. } if broken && (self.may_be_dirty() || self.is_state_damaged()) => {
                Ok(Refusal::OfLoss)
            }
            _ if passing && self.atlas.faults() > 0 => Ok(Refusal::Passing),
            _ => Err(format!("recovery fails and no fault explains it: {error}")),
        }
    }

    /// Whether a home may not know whether the slots are needed.
    fn is_state_damaged(&self) -> bool {
        let layout = &self.volume.view().layout;
        layout.homes().iter().any(|home| {
            let drive = &self.drives[usize::from(home.0)];
            (layout.tails[usize::from(home.0)]..drive.capacity()).any(|sector| drive.is_unreadable(sector))
        })
    }

    /// Whether the slots may ever hold what home does not: not where the scheme promises that the loss of the SSD, in
    /// general or with these settings, loses nothing.
    fn may_be_dirty(&self) -> bool {
        let set = |word: &str| self.setup.settings.iter().any(|(_, value)| value == word);
        let clauses = self.setup.scheme.ssd_loss.split("; ");
        let mut of_nothing = clauses.filter_map(|clause| clause.strip_suffix("nothing"));
        !of_nothing.any(|when| when.is_empty() || when.strip_suffix(": ").is_some_and(set))
    }

    /// A log that is gone says whether home is between two states. Where the scheme let writes pass the log by it
    /// is of no one time anyhow, and nothing is checked.
    fn check_migrating(&self, error: &RecoveryError) -> Result<(), String> {
        let RecoveryError::Needed { migrating, .. } = *error else { return Ok(()) };
        let mixed = self.power.as_ref().is_some_and(|power| power.home.mixed && !power.home.passed_by);
        let fair = self.atlas.faults() == 0 || self.atlas.is_only_of_refusals();
        if self.has_log() && fair && mixed && !migrating {
            return Err(format!("a migration was writing home, and nothing says so: {error}"));
        }
        Ok(())
    }

    pub(super) fn has_log(&self) -> bool {
        let slots = self.volume.view().layout.slots;
        slots.is_some_and(|slots| matches!(slots.kind, SlotKind::Log { .. }))
    }

    /// Loss was accepted: from now on home is all there is. Blocks of which a slot may have had something newer read as home
    /// has them; all others must read as before.
    fn fall_back(&mut self) -> Result<(), String> {
        let passed_by = self.power.as_ref().is_some_and(|power| power.home.passed_by);
        let exact = self.has_log() && self.atlas.faults() == 0 && !passed_by;
        let view = self.volume.view();
        let size = view.block();
        let power = self.power.as_ref().expect("a case with power cuts");
        let HomeState { as_of, mixed, .. } = power.home;
        // A move may have been writing home what is lost.
        self.shadow.forget_doubts();
        for &block in &power.off_home {
            let (home, first, _) = view.layout.home_of(block);
            for into in 0..size.sectors() {
                let sector = size.first_sector(block) + into;
                let value = self.drives[usize::from(home.0)].content(first + into);
                if exact && !self.shadow.is_state_of(sector, &value, as_of, mixed) {
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
