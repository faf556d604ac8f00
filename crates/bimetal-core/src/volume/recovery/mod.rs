//! Recovery: makes a volume that serves from the content of its members.
//!
//! Recovery is a state machine like the volume itself: its outputs are operations, its inputs
//! completions, and its result is the [`Volume`]. The steps are:
//!
//! 1. Every member is flushed, so that nothing recovery builds on can be lost later.
//! 2. The state on home members tells whether a member was taken out, and whether a missing member
//!    is needed.
//! 3. A cache reads its slot table and at most one ring (`cache.rs`), a log the head of each of its
//!    segments (`log.rs`).
//! 4. Content that the last flush may not have covered is compared with its checksum, and is taken
//!    or dropped whole.
//! 5. If a power cut or damage left the pair of superblocks incomplete, recovery completes the pair
//!    before it writes any other page (`superblocks.rs`). After that, recovery writes lost heads
//!    and feet of a log again.
//! 6. A pair of superblocks of the next epoch ends the recovery. A recovery that is cut short at
//!    any point begins again and ends with the same result.
//!
//! Nothing is written on a read-only member, and entries of its block map count only in regions
//! that have not left it (`refusal.rs`).

mod anew;
mod bad_pages;
mod bounds;
mod cache;
mod chunks;
mod log;
mod mirror;
mod places;
mod salvage;
mod states;
mod superblocks;
mod torn;

use std::collections::{BTreeMap, VecDeque};

use super::announce::{Announcements, OldTurns, SecondFirst};
use super::damage::{GaveUp, Lost};
use super::mover::age::DirtySince;
use super::recovery_error::RecoveryError;
use super::{Volume, VolumeConfig, VolumeError};
use crate::block::{Block, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::COPIES;
use crate::journal::page::{self, Page};
use crate::journal::state::{State, left_region_of};
use crate::journal::superblock::Superblock;
use crate::journal::turns::TURNS;
use crate::layout::{Layout, MemberId, Role};
use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
use crate::payload::Payload;
use crate::places::{Places, page_place};
use crate::scheme::SchemeError;
use crate::units::{Bytes, SectorRange, Sectors};

/// Tries of a read before its target counts as unreadable.
const TRIES: u8 = 6;
/// Purpose of a write that repairs a page whose other copy is sound: a failure of the write does no
/// harm.
const REPAIR: u64 = 1;

/// The recovery of a volume: a machine that asks for operations on its members, until the volume is
/// recovered or refused.
pub struct Recovery<P: Payload> {
    /// The volume that is being restored.
    volume: Volume<P>,
    absent: u64,
    /// Members that were found read-only now, a bit each.
    refusing: u64,
    /// Members that were taken out, and whose metadata was formatted or made anew, a bit each.
    attached: u64,
    accept_loss: bool,
    /// Set if other programs may have written to the homes since the volume was closed.
    home_was_plain: bool,
    step: Step<P>,
    state: State,
    home_states: BTreeMap<MemberId, states::HomeStates>,
    /// Set if a newer state than any that was found may be lost.
    state_in_doubt: bool,
    /// Turns in which a home lacks a fact of the state.
    old_turns: OldTurns,
    second_first: SecondFirst,
    /// Set if the newest state is of version 1 of the format.
    of_version_1: bool,
    /// The error after which the cache begins anew, once no operation is under way; and true if the
    /// cache may have had content that home lacks.
    anew: Option<(RecoveryError, bool)>,
    has_begun_anew: bool,
    superblocks: superblocks::Superblocks,
    chunks: chunks::Chunks,
    /// Pages that are torn, damaged or older than their other copy. The pages are written when the
    /// recovery has succeeded.
    repairs: Vec<PageRepair>,
    bad_pages: bad_pages::BadPages,
    outgoing: VecDeque<Operation<P>>,
    in_flight: BTreeMap<Token, Asked<P>>,
    tokens: u64,
    done: Bytes,
    total: Bytes,
    outcome: Option<Result<(), RecoveryError>>,
}

/// The present step of a recovery.
enum Step<P> {
    Flushing,
    States,
    Places(places::PlacesRecovery),
    Mirror(mirror::MirrorRecovery),
    Cache(cache::CacheRecovery),
    Anew(anew::Anew),
    Log(log::LogRecovery<P>),
}

/// A page that recovery writes again.
struct PageRepair {
    member: MemberId,
    range: SectorRange,
    bytes: Vec<u8>,
    /// Set if the page's other copy does not have this content, so recovery cannot go on without
    /// the write.
    is_needed: bool,
}

/// An operation under way.
struct Asked<P> {
    member: MemberId,
    command: Command,
    payload: P,
    /// Number by which the step tells its operations apart.
    purpose: u64,
    tries_left: u8,
}

impl<P> Asked<P> {
    /// Returns true if the recovery can go on without this operation.
    fn may_fail(&self) -> bool {
        match self.command.kind {
            OpKind::Read => true,
            kind => kind == OpKind::Write && self.purpose == REPAIR,
        }
    }
}

/// The result of an operation.
struct Answer<P> {
    purpose: u64,
    member: MemberId,
    range: SectorRange,
    /// The content that was read; `None` if it is unreadable.
    payload: Option<P>,
}

/// Returns the writes that make empty members a volume, in order; each member is flushed at the
/// end. The content of the volume's homes stays.
///
/// # Errors
/// Returns the errors of [`Volume::new`].
pub fn format<P: Payload>(config: &VolumeConfig<'_>) -> Result<Vec<Operation<P>>, VolumeError> {
    format_again(config, 0)
}

/// Works as [`format`](fn@format), for members that may have been part of this volume before. The
/// random number `life` below 2³¹ distinguishes old pages from new ones: epochs (called lives in
/// the format) count from it.
///
/// # Errors
/// Returns the errors of [`Volume::new`].
pub fn format_again<P: Payload>(config: &VolumeConfig<'_>, life: u32) -> Result<Vec<Operation<P>>, VolumeError> {
    assert!(life < 1 << 31, "lives are counted from there");
    let layout = (config.scheme.layout)(config.settings, &config.layout)?;
    let mut operations = Vec::new();
    let mut push = |target: MemberId, kind, range, payload| {
        let token = Token(operations.len() as u64);
        operations.push(Operation { token, target: target.0, command: Command { kind, range, fua: false }, payload });
    };
    let copies = |turn: u64| (0..COPIES).map(move |copy| (turn, copy));
    let all_places = || (0..TURNS as u64).flat_map(copies);
    for home in layout.homes() {
        for (turn, copy) in all_places() {
            push(home, OpKind::WriteZeroes, layout.state_place(home, turn, copy), P::empty());
        }
        for (turn, copy) in all_places() {
            let places = layout.places.as_ref().map_or(0, Places::digest);
            let state = State { sequence: turn, places, ..State::default() };
            let page = P::from_metadata(&state.encode(config.identity));
            push(home, OpKind::Write, layout.state_place(home, turn, copy), page);
        }
    }
    if let Some(metadata) = layout.metadata {
        let all = SectorRange::new(metadata.first_sector, metadata.sectors);
        push(metadata.member, OpKind::WriteZeroes, all, P::empty());
        for (number, copy, page) in layout.places.iter().flat_map(|places| places.pages_twice(config.identity)) {
            let place = page_place(metadata.first_sector, number, copy);
            push(metadata.member, OpKind::Write, place, P::from_metadata(&page));
        }
        for (turn, copy) in all_places() {
            let first = Superblock::first(config.identity, life, config.drive_of_metadata(&layout));
            let superblock = if turn == first.turn() { first } else { first.second() };
            if let Some(place) = layout.superblock_place(turn, copy) {
                push(metadata.member, OpKind::Write, place, P::from_metadata(&superblock.encode()));
            }
        }
    }
    for member in 0..config.layout.members.len() as u16 {
        push(MemberId(member), OpKind::Flush, SectorRange::default(), P::empty());
    }
    Ok(operations)
}

impl<P: Payload> Recovery<P> {
    /// Begins to recover a volume whose members `absent` are missing.
    ///
    /// # Errors
    /// Returns the errors of [`Volume::new`].
    pub fn new(config: &VolumeConfig<'_>, absent: &[MemberId]) -> Result<Self, VolumeError> {
        let volume = Volume::new(config)?;
        if config.layout.members.len() > 64 {
            return Err(VolumeError::Scheme(SchemeError::from(crate::layout::LayoutError::TooMany {
                role: config.layout.members[64].role,
                count: config.layout.members.len(),
            })));
        }
        let mut recovery = Self {
            volume,
            absent: absent.iter().fold(0, |mask, member| mask | 1 << member.0),
            refusing: 0,
            attached: 0,
            accept_loss: false,
            home_was_plain: false,
            step: Step::Flushing,
            state: State::default(),
            home_states: BTreeMap::new(),
            state_in_doubt: false,
            old_turns: OldTurns::default(),
            second_first: SecondFirst::new(),
            of_version_1: false,
            anew: None,
            has_begun_anew: false,
            superblocks: superblocks::Superblocks::default(),
            chunks: chunks::Chunks::default(),
            repairs: Vec::new(),
            bad_pages: bad_pages::BadPages::default(),
            outgoing: VecDeque::new(),
            in_flight: BTreeMap::new(),
            tokens: 0,
            done: Bytes::ZERO,
            total: Bytes::ZERO,
            outcome: None,
        };
        recovery.begin();
        Ok(recovery)
    }

    /// Lets the recovery go on with home's content where newer content is lost.
    pub fn accept_loss(mut self) -> Self {
        self.accept_loss = true;
        self
    }

    /// Records that home was a plain disk since the volume was closed, and other programs may have
    /// written to it: clean copies do not count. To be called at each recovery until the volume is
    /// served again, however often recovery is cut short before.
    pub fn home_was_plain(mut self) -> Self {
        self.home_was_plain = true;
        self
    }

    /// Lets `member` take part again, empty; `member` was taken out or replaced, and has just been
    /// formatted.
    pub fn attach(mut self, member: MemberId) -> Self {
        self.attached |= 1 << member.0;
        self
    }

    /// Returns the next operation to start on a member.
    pub fn next_operation(&mut self) -> Option<Operation<P>> {
        self.outgoing.pop_front()
    }

    /// Returns the bytes read so far, and a guess of all bytes to read.
    pub fn progress(&self) -> (Bytes, Bytes) {
        (self.done, self.total.max(self.done))
    }

    /// Returns true if nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.outcome.is_some() && self.in_flight.is_empty()
    }

    /// Returns the recovered volume.
    ///
    /// # Errors
    /// The reason for which no volume can be recovered.
    ///
    /// # Panics
    /// Panics before the recovery [is finished](Self::is_finished).
    pub fn finish(mut self) -> Result<Volume<P>, RecoveryError> {
        assert!(self.in_flight.is_empty(), "operations of the recovery are still under way");
        self.outcome.take().expect("a finished recovery has an outcome")?;
        self.volume.operations.begin_after(self.tokens);
        self.tell_bad_pages();
        if self.volume.view.map.dirty_blocks() > 0 {
            self.volume.mover.dirty_since = DirtySince::Before;
        }
        let members = [self.absent, self.refusing, self.attached];
        self.volume.begin_life(self.state, (self.old_turns, self.second_first), members);
        self.volume.announcements.may_lack_copies = self.of_version_1;
        Ok(self.volume)
    }

    /// Takes the completion of an operation.
    ///
    /// # Panics
    /// Panics if no operation with this token is under way.
    pub fn complete(&mut self, completion: Completion<P>) {
        self.take_completion(completion);
        if self.in_flight.is_empty()
            && let Some((error, lost)) = self.anew.take()
        {
            self.begin_anew(error, lost);
        }
    }

    fn take_completion(&mut self, completion: Completion<P>) {
        let Completion { token, status, payload } = completion;
        let mut asked = self.in_flight.remove(&token).expect("a completion answers an operation under way");
        asked.tries_left -= 1;
        if self.outcome.is_some() {
            return;
        }
        let unsupported = status == Status::Unsupported && asked.command.kind == OpKind::Flush;
        match status {
            Status::Done => {}
            _ if unsupported => {}
            _ if status != Status::Gone && asked.tries_left > 0 && self.may_try_again(&asked) => {
                if asked.command.kind == OpKind::Flush && self.layout().homes().contains(&asked.member) {
                    self.volume.note_untold(Status::MediaError);
                }
                return self.start(asked);
            }
            _ if asked.may_fail() && status != Status::Gone => {}
            _ => return self.member_failed(asked.member, status),
        }
        self.done += asked.command.range.len.bytes();
        let payload = (status == Status::Done).then_some(payload);
        let Asked { purpose, member, command, .. } = asked;
        self.take(Answer { purpose, member, range: command.range, payload });
    }

    /// Returns true if an operation that failed may be repeated. A failed flush may succeed the
    /// next time although the data that the failed flush was to make stable are lost. A flush at
    /// the beginning may be repeated on a drive without slots: only changes of home from before the
    /// recovery are in danger, and the next flush of the volume reports these changes. Any other
    /// flush covers content that was read from slots, or that the recovery has written.
    fn may_try_again(&self, asked: &Asked<P>) -> bool {
        let layout = self.layout();
        let is_slots = layout.slots.is_some_and(|slots| slots.member == asked.member);
        asked.command.kind != OpKind::Flush || (matches!(self.step, Step::Flushing) && !is_slots)
    }

    fn take(&mut self, answer: Answer<P>) {
        match &self.step {
            Step::Flushing => {}
            Step::States => self.take_state(&answer),
            Step::Places(_) => self.places_take(&answer),
            Step::Mirror(_) => return self.mirror_takes(answer),
            Step::Cache(_) => return self.cache_takes(answer),
            Step::Anew(_) => return self.anew_goes_on(),
            Step::Log(_) => return self.log_takes(answer),
        }
        if self.in_flight.is_empty() && self.outcome.is_none() {
            self.next_step();
        }
    }

    fn member_failed(&mut self, failed: MemberId, status: Status) {
        // Before the states are read it is unknown which copies were taken out: a readable copy may
        // be the only one that counts.
        let may_be_the_last = matches!(self.step, Step::Flushing) && status == Status::MediaError;
        let is_in_mirror = matches!(self.step, Step::Mirror(_)) && status != Status::Gone;
        if (self.can_spare(failed) || is_in_mirror) && !may_be_the_last {
            return self.go_on_without(failed, status);
        }
        if status == Status::MediaError {
            self.refusing |= 1 << failed.0;
            return self.go_on_reading();
        }
        if matches!(self.step, Step::Flushing) && !self.layout().homes().contains(&failed) {
            // The state will tell whether the failed member is needed.
            self.absent |= 1 << failed.0;
            if self.in_flight.is_empty() {
                self.next_step();
            }
            return;
        }
        self.fail(|member, role| RecoveryError::Failed { member, role }, failed);
    }

    /// Handles a member that fails a write or a flush: drops all queued operations that change
    /// content.
    fn go_on_reading(&mut self) {
        let Self { outgoing, in_flight, .. } = self;
        outgoing.retain(|operation| {
            let stays = !operation.command.kind.changes_content();
            if !stays {
                in_flight.remove(&operation.token);
            }
            stays
        });
        if !self.in_flight.is_empty() {
            return;
        }
        match self.step {
            Step::Cache(_) => self.end_cache(),
            Step::Log(_) => self.end_log(),
            _ => self.next_step(),
        }
    }

    /// Returns true if the member with the slots must not be written.
    fn slots_refuse(&self) -> bool {
        let slots = self.layout().slots;
        slots.is_some_and(|slots| self.state.refusing.is_some() || self.refusing & 1 << slots.member.0 != 0)
    }

    /// Removes the blocks of regions that have left the member with the slots.
    fn forget_what_has_left(&mut self, lost: &mut BTreeMap<u64, ValidMask>) {
        let Some(left) = &self.state.refusing else { return };
        let total = self.layout().total_blocks();
        let has_left = |block: Block| left.contains(left_region_of(block, total));
        lost.retain(|&block, _| !has_left(Block(block)));
        let map = &self.volume.view.map;
        let gone: Vec<Block> = map.occupied().map(|(_, entry)| entry.block).filter(|&block| has_left(block)).collect();
        // A block of a log is listed once for each of its pieces.
        gone.into_iter().for_each(|block| {
            self.volume.view.map.remove(block);
        });
    }

    fn begin(&mut self) {
        for home in self.layout().homes() {
            if self.is_out(home) && !self.can_spare(home) {
                return self.fail(|member, role| RecoveryError::HomeMissing { member, role }, home);
            }
        }
        for member in 0..self.volume.view.members.len() as u16 {
            if !self.is_out(MemberId(member)) {
                self.ask(MemberId(member), Command::FLUSH, P::empty(), 0);
            }
        }
    }

    fn next_step(&mut self) {
        if matches!(self.step, Step::Flushing) {
            self.step = Step::States;
            return self.read_states();
        }
        if matches!(self.step, Step::States) && !self.settle_states() {
            return;
        }
        if self.layout().is_mirrored() {
            return self.begin_mirror();
        }
        if matches!(self.step, Step::Places(_)) {
            return self.places_read();
        }
        if self.layout().places.is_some() {
            return self.read_places();
        }
        let Some(slots) = self.layout().slots else { return self.succeed() };
        if self.attached & 1 << slots.member.0 != 0 {
            self.state.refusing = None;
        }
        let given_up = (self.state.failed & !self.attached) & 1 << slots.member.0 != 0;
        if given_up && !self.volume.store.appends() && self.layout().homes().contains(&slots.member) {
            // The member has the only copy of its own blocks, which nobody changed meanwhile. Only
            // its slots are old.
            self.step = Step::Cache(cache::CacheRecovery::default());
            let what = "its cache is old: the other members went on without it";
            return self.fail(|member, role| RecoveryError::Damaged { member, role, what }, slots.member);
        }
        if given_up || self.is_out(slots.member) {
            let (is_needed, migrating) = (self.may_be_needed(), self.state.migrating);
            let error = |member, role| match is_needed {
                true => RecoveryError::Needed { member, role, migrating },
                false => RecoveryError::LeftOut { member, role },
            };
            return self.fail(error, slots.member);
        }
        self.step = if self.volume.store.appends() {
            Step::Log(log::LogRecovery::default())
        } else {
            Step::Cache(cache::CacheRecovery::default())
        };
        self.read_superblocks();
    }

    /// Ends the recovery with an error, unless the member held only copies or the loss is accepted:
    /// then the volume goes on without the member, or with an empty cache if the member is a home.
    fn fail(&mut self, error: impl FnOnce(MemberId, Role) -> RecoveryError, member: MemberId) {
        let role = self.volume.view.member(member).role;
        let error = error(member, role);
        let is_home = self.layout().homes().contains(&member);
        let dirty = self.may_be_needed();
        let outcome = if !is_home && (!dirty || self.accept_loss) {
            // Home alone serves; the member's content is forgotten.
            self.volume.view.map = self.volume.view.map.emptied();
            self.volume.damage.lost = Lost::default();
            self.absent |= 1 << member.0;
            self.forget_bad_pages(member);
            self.volume.damage.gave_up = dirty.then_some(GaveUp::All);
            self.volume.damage.began_without = Some(error);
            Ok(())
        } else {
            let is_given_up = error.is_of_content() && (!is_home || self.may_begin_anew(&error, member));
            if is_given_up && (!dirty || self.accept_loss) {
                self.anew = Some((error.clone(), dirty));
            }
            Err(if is_given_up { error.with_remedy() } else { error })
        };
        self.outgoing.drain(..).for_each(|operation| {
            self.in_flight.remove(&operation.token);
        });
        match outcome {
            Ok(()) => self.succeed(),
            refused => self.outcome = Some(refused),
        }
    }

    /// Returns true if slots may have content that home lacks.
    fn may_be_needed(&self) -> bool {
        self.state.dirty || self.state_in_doubt
    }

    fn layout(&self) -> &Layout {
        &self.volume.view.layout
    }

    fn is_out(&self, member: MemberId) -> bool {
        self.absent & 1 << member.0 != 0
    }

    fn read(&mut self, member: MemberId, range: SectorRange, purpose: u64) {
        self.ask(member, Command { kind: OpKind::Read, range, fua: false }, P::empty(), purpose);
    }

    /// Writes slot metadata.
    fn write(&mut self, range: SectorRange, bytes: &[u8], fua: bool) {
        let member = self.layout().metadata.expect("slots have metadata").member;
        self.ask(member, Command { kind: OpKind::Write, range, fua }, P::from_metadata(bytes), 0);
    }

    /// Writes a copy of the superblock of the next epoch.
    fn write_superblock(&mut self, superblock: &Superblock, copy: usize) {
        let place = self.layout().superblock_place(superblock.turn(), copy).expect("slots have superblocks");
        self.write(place, &superblock.encode(), true);
    }

    /// Completes a successful recovery. Damaged pages are written again; a failure of these writes
    /// does no harm.
    fn succeed(&mut self) {
        self.repair_states();
        let refused = self.slots_refuse();
        let slots = self.layout().slots.map(|slots| slots.member);
        for PageRepair { member, range, bytes, .. } in std::mem::take(&mut self.repairs) {
            let is_refused = self.refusing & 1 << member.0 != 0 || (refused && slots == Some(member));
            if !is_refused && !self.is_out(member) {
                let command = Command { kind: OpKind::Write, range, fua: true };
                self.ask(member, command, P::from_metadata(&bytes), 0);
            }
        }
        self.outcome = Some(Ok(()));
    }

    fn ask(&mut self, member: MemberId, command: Command, payload: P, purpose: u64) {
        self.start(Asked { member, command, payload, purpose, tries_left: TRIES });
    }

    fn start(&mut self, asked: Asked<P>) {
        self.tokens += 1;
        let token = Token(self.tokens << super::operations::OPERATION_INDEX_BITS);
        let payload = asked.payload.slice(Sectors::ZERO, asked.payload.sectors());
        self.outgoing.push_back(Operation { token, target: asked.member.0, command: asked.command, payload });
        self.in_flight.insert(token, asked);
    }

    /// Puts an entry that recovery found for a slot into the block map, in place of any other entry
    /// of the slot.
    fn restore(&mut self, slot: Slot, entry: Entry) {
        let map = &mut self.volume.view.map;
        if let Some(other) = map.in_slot(slot) {
            map.remove(other.block);
        }
        map.insert(slot, entry);
    }

    fn sectors_of_slot(&self, slot: Slot) -> SectorRange {
        self.volume.slot_sectors(slot, 1)
    }
}

impl<P: Payload> Volume<P> {
    /// Returns the reason for which recovery went on without the member with the slots, because
    /// home had everything or the loss was accepted.
    pub fn began_without(&self) -> Option<&RecoveryError> {
        self.damage.began_without.as_ref()
    }

    /// Returns the damage for which recovery emptied the cache. Home had everything, unless content
    /// [was given up](Self::gave_up).
    pub fn began_empty(&self) -> Option<&RecoveryError> {
        self.damage.began_empty.as_ref()
    }

    /// Begins to serve a recovered volume. The members that are absent, refuse writes, or were
    /// attached again have a bit each.
    fn begin_life(
        &mut self,
        mut state: State,
        (old_turns, second_first): (OldTurns, SecondFirst),
        [absent, refusing, attached]: [u64; 3],
    ) {
        if absent != 0 && self.view.layout.is_mirrored() {
            state.pass_by_absent();
        }
        let attached_again = state.failed & attached != 0;
        let slots = self.view.layout.slots.map_or(0, |slots| 1 << slots.member.0);
        let refusing = refusing | if state.refusing.is_some() { slots } else { 0 };
        self.announcements = Announcements::new(state, old_turns, second_first);
        if let Some(digest) = self.view.layout.places.as_ref().map(Places::digest) {
            self.announce(|state| state.places = digest);
        }
        let store = self.store.kind_mut();
        self.view.map.occupied().for_each(|(slot, _)| store.occupy(slot));
        for (slot, entry) in self.view.map.occupied() {
            self.decider.scheme.mapped(&self.view, slot, entry.valid, None);
        }
        self.update_free_slots();
        if attached_again {
            self.announce(|state| state.failed &= !attached);
        }
        let of = |mask: u64| (0..64).map(MemberId).filter(move |member| mask & 1 << member.0 != 0);
        of(absent).for_each(|member| self.fail_member(member));
        // From here on, the volume knows which of these members has another copy.
        of(refusing & !absent).for_each(|member| self.refuse_writes(member));
        self.owe_what_is_dirty();
        self.damage.tell_lost();
        if !self.view.slots_readable() {
            // The volume has no slots, or the content of its slots was given up.
            self.announce(|state| (state.dirty, state.migrating) = (false, false));
        }
        self.write_state();
    }
}

/// Returns the page in a payload of one page, or `None` if it could not be read or is too short.
fn only_page<P: Payload>(payload: &P) -> Option<Page> {
    page::pages(&payload.to_metadata()).next().copied()
}
