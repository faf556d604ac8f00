//! Writes: the scheme places them run by run, and the volume carries them out in parts of bounded
//! size.
//!
//! Each part goes through four steps, one part after another:
//!
//! 1. the part is planned, which takes places and slots;
//! 2. content to merge with is read;
//! 3. everything is written;
//! 4. the map changes.
//!
//! In a log, only an eighth of a block that is written in part is merged; the remaining eighths
//! stay in older pieces. A part may have to wait for a condition: a free slot, the end of a move, a
//! durable mark. The part then waits before it takes any room, so that no part holds room that
//! another part needs.

mod assemble;
mod forced;
mod home;

use super::log_tail::{NoRoom, Piece};
use super::operations::purpose;
use super::refusal::Departure;
use super::{Job, TaskId, Volume, access};
use crate::block::{Block, BlockRun, BlockSize, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::label::report::Kind;
use crate::operation::{Command, OpKind, Status, Token};
use crate::payload::Payload;
use crate::scheme::{Access, Placement, Reason};
use crate::units::{SectorRange, Sectors};

/// Largest number of blocks of a part, which bounds the slots and buffers that a large write holds
/// at once.
const PART_BLOCKS_MAX: u64 = 1024;

/// Number of times that a part is planned anew after its slots could not be written.
const RETRIES_MAX: u8 = 3;

pub(crate) struct WriteJob<P> {
    token: Token,
    sectors: SectorRange,
    fua: bool,
    payload: P,
    /// Number of the first block that has no place yet.
    next: u64,
    phase: Phase,
    homes: Vec<HomeWrite>,
    pieces: Vec<SlotWrite<P>>,
    /// Number of pieces that are in the log.
    appended: usize,
    pub(super) home_status: Status,
    /// Set once home was sent a part: home may have it even if home is gone.
    pub(super) is_sent_home: bool,
    slot_status: Status,
    retries: u8,
    changed_map: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Placing,
    Merging,
    Writing,
    Committing,
}

/// A run of blocks that is written home.
#[derive(Clone, Copy)]
struct HomeWrite {
    blocks: BlockRun,
    /// Set if the blocks are written to slots as well.
    with_copy: bool,
}

/// A block that is written to a slot.
struct SlotWrite<P> {
    block: Block,
    /// Slot of the block, in a cache. A log takes slots only when it appends.
    slot: Option<Slot>,
    /// Set if the slot is the present slot of the block, which is overwritten in place.
    in_place: bool,
    /// Set if the block is written home as well.
    both: bool,
    /// Eighths that the slot will hold.
    valid: ValidMask,
    /// The block's present slots with content that is merged into the new slot.
    from_slots: [Option<OldSlot<P>>; OLD_SLOTS_MAX],
    /// Eighths whose content is merged from home.
    from_home: ValidMask,
    /// Set if a slot had content of the block that home lacks.
    was_dirty: bool,
    home_content: Option<P>,
    content: Option<P>,
    /// Set if home must be read because an old slot could not be read.
    home_wanted: bool,
}

/// Largest number of slots that a write of a block merges with. In a cache, the block has one slot.
/// In a log, the first and the last eighth of the write may each lie in a slot.
const OLD_SLOTS_MAX: usize = 2;

/// A present slot of a block, with which a write of the block merges.
struct OldSlot<P> {
    slot: Slot,
    entry: Entry,
    /// Eighths that are merged from the slot.
    taken: ValidMask,
    content: Option<P>,
}

/// Reasons for which a part cannot be planned now.
enum Obstacle {
    Slots,
    Buffer,
    Move,
    Mark,
    State,
    /// Another change has claimed this block.
    Claim(Block),
    /// The regions of these blocks must be evacuated from a read-only member first.
    Departure(BlockRun),
    /// The part can never be carried out.
    Refused,
}

impl From<NoRoom> for Obstacle {
    fn from(reason: NoRoom) -> Self {
        match reason {
            NoRoom::Buffer => Self::Buffer,
            NoRoom::Log => Self::Slots,
        }
    }
}

impl<P: Payload> WriteJob<P> {
    /// Returns the old slot that a read to merge found bad, with the kind of error.
    pub(super) fn bad_slot(&self, purpose: u32, status: Status, payload: &P) -> Option<(Slot, Entry, Kind)> {
        let (piece, old) = old_slot(purpose)?;
        let OldSlot { slot, entry, .. } = *self.pieces.get(piece)?.from_slots[old].as_ref()?;
        let kind = match status {
            Status::Gone => return None,
            Status::Done if P::CARRIES_DATA && payload.checksum() != entry.checksum => Kind::Checksum,
            Status::Done => return None,
            _ => Kind::Unreadable,
        };
        Some((slot, entry, kind))
    }

    pub(super) fn note(&mut self, size: BlockSize, purpose: u32, status: Status, payload: P) {
        let sectors = self.sectors;
        let worse = |old: Status| if old == Status::Done { status } else { old };
        if let Some((piece, number)) = old_slot(purpose) {
            let piece = &mut self.pieces[piece];
            let Some(old) = &mut piece.from_slots[number] else { return };
            if status == Status::Done && (!P::CARRIES_DATA || old.entry.checksum == payload.checksum()) {
                old.content = Some(payload);
            } else if !old.entry.dirty {
                let (touched, _) = access_masks(size, sectors, piece.block);
                piece.give_up_old(number, touched);
            } else {
                self.slot_status = if status == Status::Done { Status::MediaError } else { status };
            }
        } else if purpose & purpose::MERGE_HOME != 0 {
            self.home_status = worse(self.home_status);
            self.pieces[(purpose & purpose::INDEX) as usize].home_content = Some(payload);
        } else if purpose & purpose::HOME != 0 {
            self.home_status = worse(self.home_status);
        } else {
            self.slot_status = worse(self.slot_status);
        }
    }
}

impl<P> SlotWrite<P> {
    /// Leaves out an old slot that cannot be read, although home has all its content. After that,
    /// the new slot holds no eighth of this old slot, except eighths that are written now. Eighths
    /// that are written in part are completed from home. Home is read after this, also if it was
    /// read before: a move may have brought the content home since.
    fn give_up_old(&mut self, number: usize, touched: ValidMask) {
        let Some(OldSlot { taken, .. }) = self.from_slots[number].take() else { return };
        self.valid = self.valid.without(taken.without(touched));
        let written_in_part = taken.intersection(touched);
        self.from_home = self.from_home.union(written_in_part);
        self.home_wanted |= !written_in_part.is_empty();
    }

    fn taken_from_slots(&self) -> ValidMask {
        self.from_slots.iter().flatten().fold(ValidMask::NONE, |taken, old| taken.union(old.taken))
    }
}

/// Returns the purpose of a read of a slot to merge with: the number of the piece and of its old
/// slot.
fn purpose_of_old_slot(piece: usize, old: usize) -> u32 {
    purpose::MERGE_SLOT | (piece * OLD_SLOTS_MAX + old) as u32
}

/// Returns the piece and the old slot of a read with `purpose`, if it is a read of a slot to merge
/// with.
fn old_slot(purpose: u32) -> Option<(usize, usize)> {
    let number = (purpose & purpose::INDEX) as usize;
    (purpose & purpose::MERGE_SLOT != 0).then_some((number / OLD_SLOTS_MAX, number % OLD_SLOTS_MAX))
}

impl<P: Payload> Volume<P> {
    pub(super) fn start_write(&mut self, token: Token, sectors: SectorRange, command: Command, payload: P) {
        let job = self.arrived_write(token, sectors, command, payload);
        let blocks = self.view.layout.block.touched(sectors);
        let task = self.begin_task(Job::Running);
        if self.requests.begin_change(task, self.lane(sectors), blocks) {
            self.run_write(task, job);
        } else {
            self.statistics.waited += 1;
            self.park(task, Job::Write(job));
        }
    }

    /// Notes the write in the scheme and the statistics, and returns its job, which has no places
    /// yet.
    pub(super) fn arrived_write(
        &mut self,
        token: Token,
        sectors: SectorRange,
        command: Command,
        payload: P,
    ) -> WriteJob<P> {
        let access = access(&self.view.layout, OpKind::Write, sectors);
        self.decider.arrived(&self.view, &access, token);
        self.statistics.written_blocks += access.blocks.count;
        WriteJob {
            token,
            sectors,
            fua: command.fua,
            payload,
            next: access.blocks.first.0,
            phase: Phase::Placing,
            homes: Vec::new(),
            pieces: Vec::new(),
            appended: 0,
            home_status: Status::Done,
            is_sent_home: false,
            slot_status: Status::Done,
            retries: 0,
            changed_map: false,
        }
    }

    /// Continues a write until the write has to wait or is done.
    pub(super) fn run_write(&mut self, task: TaskId, mut job: WriteJob<P>) {
        while self.outstanding(task) == 0 {
            match job.phase {
                Phase::Placing if job.next == self.view.layout.block.touched(job.sectors).end() => {
                    if self.must_tell_who_is_out() {
                        self.park(task, Job::Write(job));
                        return self.await_announcement(task);
                    }
                    if !(job.fua && job.changed_map) {
                        let status = self.status_if_told(self.status_if_forced(&job), job.fua);
                        return self.end_write(task, job, status);
                    }
                    job.phase = Phase::Committing;
                    self.end_forced_change(task);
                    self.park(task, Job::Write(job));
                    return self.await_commit(task, false);
                }
                Phase::Placing => {
                    match self.place_part(task, &mut job) {
                        Ok(()) => self.claim_shared_blocks(task, &job),
                        Err(Obstacle::Refused) => return self.end_write(task, job, Status::MediaError),
                        Err(obstacle) => return self.park_before(task, job, &obstacle),
                    }
                    job.phase = Phase::Merging;
                    let in_place = job.pieces.iter().any(|piece| piece.in_place);
                    self.changes_home(task, in_place || !job.homes.is_empty());
                    self.read_what_must_be_merged(task, &mut job);
                }
                Phase::Merging => {
                    self.read_homes_wanted(task, &mut job);
                    if self.outstanding(task) > 0 {
                        break;
                    }
                    if job.worst() != Status::Done {
                        let status = job.worst();
                        self.drop_part(&mut job);
                        return self.end_write(task, job, status);
                    }
                    job.phase = Phase::Writing;
                    self.write_homes(task, &mut job);
                    if !self.is_log() {
                        self.write_slots(task, &mut job);
                    }
                }
                Phase::Writing if self.is_log() && job.appended < job.pieces.len() => {
                    if let Err(obstacle) = self.append_pieces(task, &mut job)
                        && self.outstanding(task) == 0
                    {
                        return self.park_before(task, job, &obstacle);
                    }
                }
                Phase::Writing => {
                    if let Err(status) = self.apply_part(&mut job) {
                        return self.end_write(task, job, status);
                    }
                    self.changes_home(task, false);
                    self.end_claims(task, job.fua);
                    job.phase = Phase::Placing;
                }
                Phase::Committing => {
                    if self.must_tell_who_is_out() {
                        self.park(task, Job::Write(job));
                        return self.await_announcement(task);
                    }
                    let status = self.status_if_told(self.status_if_forced(&job), true);
                    return self.end_write(task, job, status);
                }
            }
        }
        self.put_job(task, Job::Write(job));
    }

    fn is_log(&self) -> bool {
        self.store.appends()
    }

    /// Parks a write until `obstacle` is gone. The task joins the queue before
    /// it is parked: parking can free slots for the task, and only tasks in the queue are woken.
    fn park_before(&mut self, task: TaskId, job: WriteJob<P>, obstacle: &Obstacle) {
        self.await_obstacle(task, obstacle);
        self.park(task, Job::Write(job));
    }

    fn await_obstacle(&mut self, task: TaskId, obstacle: &Obstacle) {
        match obstacle {
            Obstacle::Slots => self.await_slots(task),
            Obstacle::Buffer => self.await_buffer(task),
            Obstacle::Move => {
                self.statistics.waited += 1;
                self.requests.waiters.await_move(task);
            }
            Obstacle::Mark => self.await_commit(task, false),
            Obstacle::Claim(block) => self.await_claim(task, *block),
            Obstacle::State => self.await_announcement(task),
            Obstacle::Departure(blocks) => self.await_departure(task, *blocks),
            Obstacle::Refused => unreachable!("no request waits for a write that will never be possible"),
        }
    }

    fn await_buffer(&mut self, task: TaskId) {
        self.statistics.waited += 1;
        self.requests.waiters.await_buffer(task);
        self.write_segment();
    }

    pub(super) fn end_write(&mut self, task: TaskId, job: WriteJob<P>, status: Status) {
        self.leave_ordering(task);
        self.end_request(task, job.token, status, P::empty());
    }

    /// Asks the scheme for places until the part is large enough or meets an obstacle.
    fn place_part(&mut self, task: TaskId, job: &mut WriteJob<P>) -> Result<(), Obstacle> {
        let access = access(&self.view.layout, OpKind::Write, job.sectors);
        let first = job.next;
        let left = BlockRun { first: Block(first), count: access.blocks.end() - first };
        // Any placement waits for the claims for which a write at home waits.
        let end = self.unclaimed(task, left, Placement::Wait).map_err(Obstacle::Claim)?.end();
        while job.next < end && job.next - first < PART_BLOCKS_MAX {
            // The scheme gets only the blocks of this part. Otherwise a scheme that looks at each
            // block would look at all of a long write for every part.
            let room = PART_BLOCKS_MAX - (job.next - first);
            let rest = BlockRun { first: Block(job.next), count: room.min(end - job.next) };
            let (placement, blocks) = if self.is_draining() {
                (Placement::Home(Some(Reason::DRAINING)), rest.count)
            } else if self.slots_refuse() {
                (Placement::Home(Some(Reason::MEMBER_READ_ONLY)), rest.count)
            } else {
                self.decider.place_write(&self.view, job.token, &access, rest)
            };
            assert!(blocks >= 1 && blocks <= rest.count, "a scheme places 1 to {} blocks, not {blocks}", rest.count);
            let run = match self.unclaimed(task, BlockRun { count: blocks, ..rest }, placement) {
                Ok(run) => run,
                Err(block) if job.next == first => return Err(Obstacle::Claim(block)),
                Err(_) => break,
            };
            match self.place_whole_run(job, &access, run, placement) {
                Err(obstacle) if job.next == first => return Err(obstacle),
                Err(_) if job.next == run.first.0 => break,
                // After a partial success, the scheme may choose another place for the rest.
                Err(_) | Ok(()) => {}
            }
            if self.is_log() {
                break;
            }
        }
        Ok(())
    }

    /// Places `run` as the scheme decided, in several steps if its slots are not adjacent. The
    /// scheme is not asked again for each step.
    fn place_whole_run(
        &mut self,
        job: &mut WriteJob<P>,
        access: &Access,
        run: BlockRun,
        placement: Placement,
    ) -> Result<(), Obstacle> {
        while job.next < run.end() {
            let left = BlockRun { first: Block(job.next), count: run.end() - job.next };
            job.next += self.place_run(job, access, left, placement)?;
            if self.is_log() {
                // Blocks written home must not wait for a full log: the migration that makes room
                // waits for changes of home.
                break;
            }
        }
        Ok(())
    }

    /// Places up to `run.count` blocks as the scheme decided. Returns the number of blocks placed.
    fn place_run(
        &mut self,
        job: &mut WriteJob<P>,
        access: &Access,
        run: BlockRun,
        placement: Placement,
    ) -> Result<u64, Obstacle> {
        match placement {
            Placement::Wait => Err(Obstacle::Slots),
            Placement::Home(reason) => {
                let count = self.place_home(job, access, run)?;
                if let Some(reason) = reason {
                    self.statistics.bypassed(reason, count);
                }
                Ok(count)
            }
            Placement::Slot => self.place_slots(job, run, false),
            Placement::Both => {
                self.may_change_home(run)?;
                self.place_slots(job, run, true)
            }
        }
    }

    /// Places blocks at home. A block with dirty content in slots that this write does not replace
    /// cannot go home alone. A block that cannot go home alone gets a new slot, in which a cache
    /// merges old and new content.
    fn place_home(&mut self, job: &mut WriteJob<P>, access: &Access, run: BlockRun) -> Result<u64, Obstacle> {
        self.may_change_home(run)?;
        let must_merge = |this: &Self, block: Block| {
            let (touched, covered) = access_masks(this.view.layout.block, access.sectors, block);
            let replaces_all = || covered == touched && touched.contains(this.view.map.valid_of(block));
            let is_dirty = this.view.map.get(block).is_some_and(|(_, entry)| entry.dirty);
            this.view.slots_online() && is_dirty && !replaces_all()
        };
        if must_merge(self, run.first) {
            return self.place_slots(job, BlockRun { count: 1, ..run }, false);
        }
        // Of the remaining blocks, only the last can be written in part.
        let last = Block(run.end() - 1);
        let count = run.count - u64::from(run.count > 1 && must_merge(self, last));
        let run = BlockRun { count, ..run };
        job.homes.push(HomeWrite { blocks: run, with_copy: false });
        self.count_by_home(run, true);
        self.statistics.home_blocks_written += count;
        Ok(count)
    }

    /// Checks that content at home may change now: no move writes to the same place, and no clean
    /// copy could survive a crash with older content.
    fn may_change_home(&mut self, run: BlockRun) -> Result<(), Obstacle> {
        if self.newest_is_gone() {
            return Err(Obstacle::Refused);
        }
        if self.is_moving(run) {
            return Err(Obstacle::Move);
        }
        if self.must_await_state() {
            return Err(Obstacle::State);
        }
        if self.view.layout.is_mirrored() && self.must_announce_dirty() {
            return Err(Obstacle::State);
        }
        if self.is_frozen(run) {
            return Err(Obstacle::Refused);
        }
        match self.departure_of(run) {
            Departure::Over => {}
            Departure::Awaited => return Err(Obstacle::Departure(run)),
            Departure::Never => return Err(Obstacle::Refused),
        }
        if self.marks_needed(run) { Err(Obstacle::Mark) } else { Ok(()) }
    }

    fn place_slots(&mut self, job: &mut WriteJob<P>, run: BlockRun, both: bool) -> Result<u64, Obstacle> {
        if !both && !self.may_become_dirty() {
            return Err(Obstacle::Refused);
        }
        if !both && self.must_announce_dirty() {
            return Err(Obstacle::State);
        }
        let (in_place, count) = self.leading_in_place(run);
        let run = BlockRun { count, ..run };
        if in_place && self.is_moving(run) {
            return Err(Obstacle::Move);
        }
        let (slot, count) = if in_place { (None, count) } else { self.take_room(run.count)? };
        for at in 0..count {
            let slot = slot.map(|first| Slot(first.0 + at as u32));
            let piece = self.slot_write(Block(run.first.0 + at), slot, job.sectors, both);
            if let Some(slot) = piece.slot.filter(|_| in_place) {
                self.mark_in_place(slot, piece.valid);
            }
            job.pieces.push(piece);
        }
        let run = BlockRun { count, ..run };
        let member = usize::from(self.member_of_slots().0);
        self.statistics.written_blocks_by_member[member] += count;
        self.statistics.written_blocks_to_slots += count;
        if both {
            job.homes.push(HomeWrite { blocks: run, with_copy: true });
            self.count_by_home(run, true);
            self.statistics.home_blocks_written += count;
        }
        job.changed_map = true;
        Ok(count)
    }

    /// Takes room in the store for up to `count_max` blocks.
    fn take_room(&mut self, count_max: u64) -> Result<(Option<Slot>, u64), Obstacle> {
        let online = self.view.slots_online();
        let store = self.store.kind_mut();
        let taken = store.take_room(count_max, online)?;
        if taken.0.is_some() {
            self.view.free_slots = store.free();
        }
        Ok(taken)
    }

    fn slot_write(&self, block: Block, slot: Option<Slot>, sectors: SectorRange, both: bool) -> SlotWrite<P> {
        let (touched, covered) = access_masks(self.view.layout.block, sectors, block);
        let old = self.view.map.get(block);
        let had = self.view.map.valid_of(block);
        // In a log, eighths that are not touched stay in older pieces.
        let valid = if self.is_log() { touched } else { touched.union(had) };
        let mut from_slots = [const { None }; OLD_SLOTS_MAX];
        let in_place = slot.is_none() && !self.is_log();
        let slot = slot.or_else(|| old.map(|(slot, _)| slot).filter(|_| in_place));
        // A write in place needs no merge: sectors that are not written stay as they are.
        let wanted = if in_place { ValidMask::NONE } else { valid.without(covered).intersection(had) };
        if !wanted.is_empty() {
            let pieces = self.view.map.pieces(block);
            let of = |&(slot, entry): &(Slot, Entry)| {
                let taken = wanted.intersection(entry.valid);
                (!taken.is_empty()).then_some(OldSlot { slot, entry, taken, content: None })
            };
            let found = pieces.iter().filter_map(of);
            from_slots.iter_mut().zip(found).for_each(|(place, old)| *place = Some(old));
        }
        SlotWrite {
            block,
            slot,
            in_place,
            both,
            valid,
            from_slots,
            from_home: touched.without(covered).without(had),
            was_dirty: old.is_some_and(|(_, entry)| entry.dirty),
            home_content: None,
            content: None,
            home_wanted: false,
        }
    }

    fn read_what_must_be_merged(&mut self, task: TaskId, job: &mut WriteJob<P>) {
        if !P::CARRIES_DATA && self.decider.scheme.properties().migrates_instantly {
            return;
        }
        for index in 0..job.pieces.len() {
            for (number, old) in job.pieces[index].from_slots.iter_mut().enumerate() {
                let Some(old) = old else { continue };
                if let Some(buffered) = self.store.kind().in_memory(old.slot) {
                    let whole = Sectors(self.view.layout.block.sectors());
                    old.content = P::CARRIES_DATA.then(|| buffered.content.slice(Sectors::ZERO, whole));
                } else if let Some(content) = self.requests.recent.content(old.slot, &old.entry) {
                    old.content = Some(content);
                } else {
                    let command = Command { kind: OpKind::Read, range: self.slot_sectors(old.slot, 1), fua: false };
                    self.issue(task, purpose_of_old_slot(index, number), self.member_of_slots(), command, P::empty());
                }
            }
            let piece = &job.pieces[index];
            if !piece.from_home.is_empty() {
                self.read_home_to_merge(task, index, piece.block);
            }
        }
    }

    fn read_home_to_merge(&mut self, task: TaskId, index: usize, block: Block) {
        let (member, range) = self.home_piece(self.whole_block(block));
        let command = Command { kind: OpKind::Read, range, fua: false };
        self.issue(task, purpose::MERGE_HOME | index as u32, member, command, P::empty());
    }

    /// Reads from home the content that old slots turned out to lack.
    fn read_homes_wanted(&mut self, task: TaskId, job: &mut WriteJob<P>) {
        for index in 0..job.pieces.len() {
            let piece = &mut job.pieces[index];
            if std::mem::take(&mut piece.home_wanted) {
                let block = piece.block;
                self.read_home_to_merge(task, index, block);
            }
        }
    }

    pub(super) fn whole_block(&self, block: Block) -> SectorRange {
        let size = self.view.layout.block;
        SectorRange::new(size.first_sector(block), size.sectors())
    }

    fn write_slots(&mut self, task: TaskId, job: &mut WriteJob<P>) {
        for piece in &mut job.pieces {
            piece.content = P::CARRIES_DATA.then(|| piece.assemble(self.view.layout.block, job.sectors, &job.payload));
        }
        let mut first = 0;
        while first < job.pieces.len() {
            let start = job.pieces[first].slot.expect("cache slots are taken when planned");
            let mut end = first + 1;
            while end < job.pieces.len() && job.pieces[end].slot == Some(Slot(start.0 + (end - first) as u32)) {
                end += 1;
            }
            let mut payload = P::empty();
            for piece in &job.pieces[first..end] {
                if let Some(content) = &piece.content {
                    payload.join(content.slice(Sectors::ZERO, content.sectors()));
                }
            }
            let mut range = self.slot_sectors(start, (end - first) as u64);
            if self.slots_keep_blocks() {
                range = job.touched_only(self.view.layout.block, range, first..end);
            }
            let command = Command { kind: OpKind::Write, range, fua: job.fua };
            self.issue(task, first as u32, self.member_of_slots(), command, payload);
            first = end;
        }
    }

    /// Appends pieces to the log as long as there is room. A piece in the log's buffer counts as
    /// written.
    fn append_pieces(&mut self, task: TaskId, job: &mut WriteJob<P>) -> Result<(), Obstacle> {
        if !self.view.slots_online() {
            // The log never has room again: the part is placed anew.
            job.slot_status = Status::Gone;
            job.appended = job.pieces.len();
            return Ok(());
        }
        while job.appended < job.pieces.len() {
            let Some(log) = self.store.log_mut() else { unreachable!("only a log is appended to") };
            log.room()?;
            let piece = &mut job.pieces[job.appended];
            let content = if P::CARRIES_DATA {
                piece.assemble(self.view.layout.block, job.sectors, &job.payload)
            } else {
                P::empty()
            };
            let checksum = if P::CARRIES_DATA { content.checksum() } else { 0 };
            let (block, valid) = (piece.block, piece.valid);
            let is_whole = piece.from_slots.iter().all(Option::is_none);
            log.open_for(job.pieces.len() as u64 - job.appended as u64);
            let (_, covered) = access_masks(self.view.layout.block, job.sectors, block);
            let slot = log.append(Piece { block, valid, checksum, is_whole, content });
            if !log.is_buffered() {
                let segment = log.open();
                if segment.waiting.last() != Some(&task) {
                    segment.waiting.push(task);
                    self.tasks.expect(task, 1);
                }
            }
            let full = log.is_full();
            job.appended += 1;
            log.note_append(self.view.now);
            self.map_block(slot, Entry { block, valid, dirty: true, checksum });
            // The loss ends here and not at the end of the part: a migration that makes room for
            // the rest may lose the block again.
            self.find_again(block, covered);
            if full {
                self.write_segment();
            }
        }
        if self.store.log().is_some_and(|log| !log.is_buffered() && log.filling.is_some()) {
            self.write_segment();
        }
        self.update_free_slots();
        Ok(())
    }

    /// Changes the map for a part that is written. An error of the part is an error of the request.
    fn apply_part(&mut self, job: &mut WriteJob<P>) -> Result<(), Status> {
        let slots_gone = !self.view.slots_online();
        // Content that the drive stored just before it refused further writes, or was taken out,
        // has no record.
        if (job.slot_status != Status::Done || slots_gone) && !job.pieces.is_empty() {
            return self.slots_failed(job, slots_gone);
        }
        if job.home_status != Status::Done {
            let status = job.home_status;
            self.give_up_copies_of(job);
            self.drop_part(job);
            return Err(status);
        }
        let size = self.view.layout.block;
        for piece in std::mem::take(&mut job.pieces) {
            if let Some(slot) = piece.slot {
                let checksum = piece.content.as_ref().map_or(0, P::checksum);
                let dirty = !piece.both || piece.was_dirty;
                let entry = Entry { block: piece.block, valid: piece.valid, dirty, checksum };
                if piece.in_place {
                    self.map_in_place(slot, entry)
                } else {
                    self.map_block(slot, entry)
                }
                let (_, covered) = access_masks(size, job.sectors, piece.block);
                if covered != ValidMask::ALL {
                    self.requests.recent.keep(slot, piece.block, piece.content.unwrap_or_else(P::empty));
                }
                job.changed_map |= self.find_again(piece.block, covered);
            }
        }
        for home in std::mem::take(&mut job.homes) {
            if !home.with_copy {
                for block in home.blocks.blocks() {
                    job.changed_map |= self.replaced_at_home(size, job.sectors, block);
                }
                // An earlier change may have sent the blocks home, but it is not durable: after a
                // crash they may be in their slots again.
                job.changed_map |=
                    self.replaced_in_log(home.blocks) || self.store.pending.could_come_back(home.blocks, true);
            }
        }
        job.appended = 0;
        job.is_sent_home = false;
        job.retries = 0;
        Ok(())
    }

    /// Makes home the newest place of `sectors` of `block`. Returns true if the journal, which
    /// names an older slot, must record the change before home is stable.
    fn replaced_at_home(&mut self, size: BlockSize, sectors: SectorRange, block: Block) -> bool {
        let (_, covered) = access_masks(size, sectors, block);
        let found = self.find_again(block, covered);
        if self.view.map.is_empty() {
            return found;
        }
        let Some((_, entry)) = self.view.map.get(block) else { return found };
        let (touched, _) = access_masks(size, sectors, block);
        if self.view.map.valid_of(block).intersection(touched).is_empty() {
            // The slots of the block hold other eighths of it.
            return found;
        }
        if self.view.map.valid_of(block).without(covered).is_empty() || !entry.dirty {
            self.send_home(block);
            self.update_free_slots();
            return entry.dirty || found;
        }
        // The block's slots are on a drive that is gone: reads of content that only it had fail
        // until the content is written again.
        for &(slot, piece) in self.view.map.pieces(block).iter() {
            match piece.valid.without(covered) {
                ValidMask::NONE => self.take_piece(slot, block),
                rest => self.view.map.narrow(slot, rest, piece.checksum),
            }
        }
        true
    }

    /// Drops the content of `blocks` from a log in use, even if the block map no longer has the
    /// content. Returns true if the log must record the change.
    pub(super) fn replaced_in_log(&mut self, blocks: BlockRun) -> bool {
        let old = P::CARRIES_DATA && self.log_is_in_use() && self.view.slots_readable();
        if old {
            self.drop_from_log(blocks);
        }
        old
    }

    /// Handles slots that could not be written. If home was written too, home has the content;
    /// otherwise the part is placed anew.
    fn slots_failed(&mut self, job: &mut WriteJob<P>, slots_gone: bool) -> Result<(), Status> {
        // If an old slot has more content that home lacks, it would remain the newest place of
        // eighths that home got only in part.
        let home_has_all =
            |piece: &SlotWrite<P>| piece.both && (piece.taken_from_slots().is_empty() || !piece.was_dirty);
        let both = job.pieces.iter().all(home_has_all);
        let home_done = job.home_status == Status::Done;
        let first =
            job.pieces.iter().map(|piece| piece.block.0).chain(job.homes.iter().map(|home| home.blocks.first.0)).min();
        let sectors = job.sectors;
        let homes = job.homes.clone();
        // The write may end with an error before it is written again.
        self.give_up_copies_of(job);
        self.drop_part(job);
        if both && home_done {
            let size = self.view.layout.block;
            for block in homes.iter().flat_map(|home| home.blocks.blocks()) {
                self.replaced_at_home(size, sectors, block);
            }
            return Ok(());
        }
        if job.retries >= RETRIES_MAX && !slots_gone {
            // Writes failed in slot after slot, so the rest of the content is written home.
            self.refuse_writes(self.member_of_slots());
        }
        job.retries = job.retries.saturating_add(1);
        job.next = first.unwrap_or(job.next);
        Ok(())
    }

    /// Frees the slots and places that a part took.
    fn drop_part(&mut self, job: &mut WriteJob<P>) {
        for piece in std::mem::take(&mut job.pieces) {
            if let Some(slot) = piece.slot.filter(|_| !piece.in_place) {
                self.give_back_unused(slot);
            }
        }
        job.homes.clear();
        job.appended = 0;
        job.home_status = Status::Done;
        job.is_sent_home = false;
        job.slot_status = Status::Done;
        self.update_free_slots();
    }
}

impl<P: Payload> WriteJob<P> {
    pub(super) fn sectors(&self) -> SectorRange {
        self.sectors
    }

    /// Returns true if the present part places `block` in a slot.
    pub(super) fn places_in_slot(&self, block: Block) -> bool {
        self.pieces.iter().any(|piece| piece.block == block)
    }

    /// Returns the runs that the present part places at home.
    pub(super) fn homes(&self) -> impl Iterator<Item = BlockRun> {
        self.homes.iter().map(|home| home.blocks)
    }

    fn worst(&self) -> Status {
        if self.home_status == Status::Done { self.slot_status } else { self.home_status }
    }

    /// Returns true if blocks of the write are being written to slots.
    pub(super) fn writes_slots(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Returns the part of `range`, the sectors of the slots of `pieces`, that this write changes.
    /// Only the first and the last block of a write can be partial.
    fn touched_only(&self, size: BlockSize, range: SectorRange, pieces: std::ops::Range<usize>) -> SectorRange {
        let part = |at: usize| {
            let SlotWrite { block, from_home, .. } = &self.pieces[at];
            let (part, first) = (size.clip(self.sectors, *block), size.first_sector(*block));
            // An eighth with content merged from home is written whole.
            let step = if from_home.is_empty() { 1 } else { size.eighth_sectors() };
            ((part.start.0 - first) / step * step, (part.end().0 - first).div_ceil(step) * step)
        };
        let (head, last) = (part(pieces.start).0, part(pieces.end - 1).1);
        SectorRange::new(range.start.0 + head, range.len.0 - head - (size.sectors() - last))
    }

    /// Records the failure of the commit that this write waited for.
    pub(super) fn commit_failed(&mut self, status: Status) {
        if self.phase == Phase::Committing {
            self.slot_status = status;
        }
    }
}

fn access_masks(size: BlockSize, sectors: SectorRange, block: Block) -> (ValidMask, ValidMask) {
    size.masks(size.clip(sectors, block))
}
