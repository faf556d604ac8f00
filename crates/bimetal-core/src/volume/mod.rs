//! The volume: the mechanism that every scheme needs, as one state machine without I/O, threads or
//! a clock.
//!
//! The inputs of a volume are requests ([`submit`](Volume::submit)), completions
//! ([`complete`](Volume::complete)) and the time ([`advance`](Volume::advance)). The outputs are
//! operations for the members ([`next_operation`](Volume::next_operation)), finished requests
//! ([`next_finished`](Volume::next_finished)), and the time of the next call that the volume needs
//! ([`next_timeout`](Volume::next_timeout)). A request to a volume and an operation on a member
//! have the same shape, so a volume can be a member of another volume.
//!
//! A request becomes a *task* (at most [`ADMITTED_MAX`]; further requests queue).
//!
//! - A read looks each block up in the block map, joins content from slot and home, and may leave a
//!   promotion behind.
//! - A write asks the scheme for a place: home (in place), a free slot, or both. A slot needs a
//!   record of the block map, and the old slot is free once that record is durable.
//! - A part of a block takes a slot with only those eighths valid. If the block is already off
//!   home, a cache merges the part with the content of the block's slot, and a log adds the part as
//!   one more piece.
//! - A flush makes one *commit* for all waiting tasks: a log segment or journal pages, then one
//!   flush of each member.
//! - A move works in bounded batches: read slots in order, write home in order of address, flush
//!   home, then change the block map.
//!
//! Read `read.rs`, `write.rs`, `moves.rs` and `commit.rs` in this order. `refusal.rs` has the
//! effects of a read-only member on the other files.

mod announce;
mod bad_block;
mod close;
mod commit;
mod damage;
mod decider;
mod discard;
mod dispatch;
mod drain;
mod evictions;
mod fetch;
mod flush;
mod foresight;
mod hint;
mod home_first;
mod in_place;
mod invariants;
mod log_index;
mod log_tail;
mod members;
mod mend_pages;
mod metadata_pages;
mod mirror;
mod mover;
mod moves;
mod newest_gone;
mod note;
mod off_home;
mod operations;
mod promote;
mod range;
mod read;
mod recovery;
mod recovery_error;
mod refusal;
mod relocate;
mod requests;
mod scrub;
mod scrub_copies;
mod scrub_home;
mod scrub_pages;
mod settle;
mod shared_blocks;
mod slots;
mod space;
mod statistics;
mod store;
mod tasks;
mod timeouts;
mod trouble;
mod write;

use crate::block::{Block, BlockRun};
use crate::block_map::{BLOCK_LIMIT, BlockMap, Slot};
use crate::journal::superblock::Superblock;
use crate::layout::{Layout, LayoutRequest, MemberId, SlotRegion};
use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
use crate::payload::Payload;
use crate::scheme::{
    Access, MemberLoad, MemberState, PredictionError, Scheme, SchemeError, SchemeInfo, View, Wear, Work,
};
use crate::settings::{MOVE_MEMORY, MOVE_RATE, SettingError, Settings};
use crate::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use announce::Announcements;
pub use bad_block::{BadBlock, Outcome};
use close::Closing;
use commit::Commit;
use damage::Damage;
pub use damage::{GaveUp, Trouble};
use decider::Decider;
use discard::DiscardJob;
pub use drain::Drain;
use drain::Draining;
use fetch::FetchJob;
pub use log_tail::LOG_BLOCKS_IN_MEMORY_MAX;
use mover::Mover;
use mover::pace::Pace;
use moves::MoveJob;
use operations::Operations;
use promote::PromoteJob;
use range::RangeJob;
use read::ReadJob;
pub use recovery::{Recovery, format, format_again};
pub use recovery_error::RecoveryError;
use refusal::Departures;
use relocate::RelocateJob;
use requests::Requests;
pub use scrub::Scrub;
use scrub::{ScrubJob, Scrubber};
use scrub_copies::CopiesJob;
use scrub_home::HomeJob;
use scrub_pages::PagesJob;
pub use statistics::{Migrations, Statistics};
use store::Store;
use store::cache::checkpoint::Checkpoint;
use tasks::{TaskId, Tasks};
pub use timeouts::TimeoutReason;
use write::WriteJob;

/// Requests under way at once; further requests wait in order of arrival.
pub const ADMITTED_MAX: u32 = 256;

/// Idle time of a log's drive after which the log's buffer is written.
const LOG_IDLE: Nanoseconds = Nanoseconds::from_millis(10);

/// Steps without a drive's answer after which the state machine counts as looping.
const ROUNDS_MAX: u64 = 1 << 24;

/// A scheme over its members. See the [module](self).
pub struct Volume<P: Payload> {
    view: View,
    decider: Decider,
    store: Store<P>,
    commit: Commit,
    announcements: Announcements,
    departures: Departures,
    tasks: Tasks<Job<P>>,
    operations: Operations<P>,
    requests: Requests<P>,
    mover: Mover,
    damage: Damage,
    draining: Draining,
    closing: Closing,
    scrub: Scrubber,
    statistics: Statistics,
}

enum Job<P> {
    Read(ReadJob<P>),
    Write(WriteJob<P>),
    Range(RangeJob),
    Flush(Token, Status),
    Promote(PromoteJob<P>),
    Fetch(FetchJob<P>),
    Relocate(RelocateJob<P>),
    // Moves and checkpoints are few, and larger than all others. Jobs of requests are copied often,
    // and would be as large.
    Move(Box<MoveJob<P>>),
    Scrub(ScrubJob),
    ScrubPages(Box<PagesJob>),
    Compare(CopiesJob<P>),
    CompareHome(HomeJob<P>),
    /// A hint, with the answer of a drive that supports it.
    Hint(Option<Vec<Slot>>),
    Discard(DiscardJob),
    Segment(log_index::Position, u8),
    Commit,
    Checkpoint(Box<Checkpoint>),
    Announce,
    /// A write of pages of a log's index.
    Index,
    /// A write of a note: a page of a cache's ring with the number of the page up to which all
    /// pages are stable.
    Note {
        stable: u64,
        status: Status,
    },
    Close(Status),
    /// The function that runs the job holds the job.
    Running,
}

/// Reasons for which a volume cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum VolumeError {
    /// The scheme refuses.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// Only a simulation can follow the settings, for the given reason.
    #[error("only a simulation can follow this setting: {0}")]
    OnlySimulated(&'static str),
    /// More blocks than the block map can name.
    #[error(
        "the volume would have {}, and a volume with blocks of {block} has less than {limit}: expected a smaller \
         capacity or larger blocks", .wanted.rounded_down()
    )]
    TooLarge {
        /// Size of the volume that was asked for.
        wanted: Bytes,
        /// Size of its blocks.
        block: Bytes,
        /// Size that the volume would have to stay below.
        limit: Bytes,
    },
}

/// The parameters of a volume.
#[derive(Clone)]
pub struct VolumeConfig<'a> {
    /// The scheme.
    pub scheme: &'static SchemeInfo,
    /// The scheme's parameters.
    pub settings: &'a Settings,
    /// Block size, members and units.
    pub layout: LayoutRequest<'a>,
    /// Number that names the volume in its metadata, so that another volume's leftover pages are
    /// not taken for pages of this volume.
    pub identity: u64,
    /// Numbers that name the drives of the members; a drive without a number has the number 0. The
    /// superblock carries the number of its drive.
    pub drives: &'a [u32],
}

impl VolumeConfig<'_> {
    /// Returns the number of the drive with the metadata; 0 if there is none.
    fn drive_of_metadata(&self, layout: &Layout) -> u32 {
        let member = layout.metadata.map(|metadata| usize::from(metadata.member.0));
        member.and_then(|member| self.drives.get(member)).copied().unwrap_or_default()
    }
}

impl<P: Payload> Volume<P> {
    /// Makes a volume on empty members, with every block at its home.
    pub fn new(config: &VolumeConfig<'_>) -> Result<Self, VolumeError> {
        let layout = (config.scheme.layout)(config.settings, &config.layout)?;
        if layout.total_blocks() >= BLOCK_LIMIT {
            let block = layout.block.bytes();
            let of = |blocks: u64| Bytes(block.0.saturating_mul(blocks));
            return Err(VolumeError::TooLarge { wanted: of(layout.total_blocks()), block, limit: of(BLOCK_LIMIT) });
        }
        let scheme = (config.scheme.build)(config.settings, &layout).map_err(SchemeError::from)?;
        if let (true, Some(reason)) = (P::CARRIES_DATA, scheme.why_only_simulated()) {
            return Err(VolumeError::OnlySimulated(reason));
        }
        let mut volume = Self::assemble(config, layout, scheme);
        volume.mover.pace.take(config.settings);
        if !P::CARRIES_DATA {
            volume.copy_at_first();
        }
        Ok(volume)
    }

    /// Makes a volume with every block at its home.
    fn assemble(config: &VolumeConfig<'_>, layout: Layout, scheme: Box<dyn Scheme>) -> Self {
        let first = Superblock::first(config.identity, 0, config.drive_of_metadata(&layout));
        let mut store = Store::new(&layout, &scheme.properties(), &first);
        if !P::CARRIES_DATA && store.cache().is_some() {
            store.pending.count_alone();
        }
        // Where migrations take no time, decisions do not wait either: each is made when its
        // request arrives.
        let admitted_max = if scheme.properties().migrates_instantly { u32::MAX } else { ADMITTED_MAX };
        let members = config.layout.members;
        let loads = members.iter().map(|member| MemberLoad {
            role: member.role,
            state: MemberState::Online,
            foreground: 0,
            background: 0,
            idle_since: Nanoseconds::ZERO,
        });
        let mut map = BlockMap::of_volume(layout.slots.map_or(0, |slots| slots.count), layout.total_blocks());
        if P::CARRIES_DATA {
            map.reserve_all();
        }
        let damage = Damage::new(layout.slots.map_or(MemberId(0), |slots| slots.member));
        let view = View {
            now: Nanoseconds::ZERO,
            map,
            members: loads.collect(),
            layout,
            free_slots: 0,
            freeing_slots: 0,
            moving: false,
            waiting_for_slots: 0,
            fetching: 0,
            relocating: false,
            draining: false,
        };
        let mut volume = Self {
            view,
            decider: Decider::new(scheme),
            store,
            commit: Commit::default(),
            announcements: Announcements::default(),
            departures: Departures::default(),
            tasks: Tasks::default(),
            operations: Operations::new(members.len()),
            requests: Requests::new(admitted_max),
            mover: Mover::new(Pace::default()),
            damage,
            draining: Draining::No,
            closing: Closing::No,
            scrub: Scrubber::default(),
            statistics: Statistics::new(members.len()),
        };
        volume.update_free_slots();
        volume
    }

    /// Returns the scheme's view of the volume.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the counters so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the size of each unit.
    pub fn units(&self) -> impl Iterator<Item = Sectors> {
        self.view.layout.units.iter().map(|unit| Sectors(unit.count * self.view.layout.block.sectors()))
    }

    /// Returns the number of requests that arrived and are not finished.
    pub fn requests_under_way(&self) -> u64 {
        self.statistics.arrived - self.statistics.finished
    }

    /// Returns the reason for which the scheme's settings are impossible for a volume with data; to
    /// be called before the first request.
    pub fn why_only_simulated(&self) -> Option<&'static str> {
        self.decider.scheme.why_only_simulated()
    }

    /// Returns true if the scheme's decisions depend on what its drives report: their times, and
    /// the wear of the flash.
    pub fn watches_drives(&self) -> bool {
        self.decider.scheme.monitor().is_some()
    }

    /// Returns the largest share of the writes meant for the drive with the slots that go elsewhere
    /// while this drive wears too fast.
    pub fn diverted_max(&self) -> f64 {
        self.decider.scheme.monitor().map_or(0.0, |monitor| monitor.diverted_max())
    }

    /// Passes a drive's wear to the scheme, if `member` holds the slots.
    pub fn tell_wear(&mut self, now: Nanoseconds, member: MemberId, wear: Wear) {
        if self.view.layout.slots.is_some_and(|slots| slots.member == member) {
            self.set_time(now);
            if let Some(monitor) = self.decider.scheme.monitor_mut() {
                monitor.wear_told(wear);
            }
        }
    }

    /// Returns true if the drive with the slots must not move data for wear levelling now.
    pub fn halts_wear_levelling(&self) -> bool {
        self.decider.scheme.monitor().is_some_and(|monitor| monitor.halts_wear_levelling())
    }

    /// Returns the error of the scheme's own forecast of response times; `None` if the scheme makes
    /// no forecast.
    pub fn prediction_error(&self) -> Option<PredictionError> {
        self.decider.scheme.monitor()?.prediction_error()
    }

    /// Returns true if the newest content of some blocks is lost, so that reading them is an error.
    pub fn has_lost_content(&self) -> bool {
        !self.damage.lost.is_empty()
    }

    /// Returns the content that only the member with the slots had, and that is missing since the
    /// start of this epoch. Home has older content in the place of the missing content.
    pub fn gave_up(&self) -> Option<GaveUp> {
        self.damage.gave_up
    }

    /// Returns a time since which all dirty content became dirty; `None` if nothing is dirty, or if
    /// some dirty content is from an earlier epoch.
    pub fn dirty_since(&self) -> Option<Nanoseconds> {
        self.mover.dirty_since.time()
    }

    /// Applies the value in `settings` for the parameter `key`, at once.
    ///
    /// # Errors
    /// The parameter can only change while the volume is not served, or the value makes no sense.
    /// After an error the parameter is unchanged.
    pub fn set(&mut self, now: Nanoseconds, key: &str, settings: &Settings) -> Result<(), SettingError> {
        self.set_time(now);
        let of_moves = [MOVE_RATE.name, MOVE_MEMORY.name].contains(&key);
        let taken = if of_moves && settings.get(key).is_some() {
            self.mover.pace.take(settings);
            true
        } else {
            self.decider.scheme.set(key, settings)?
        };
        self.pump();
        if taken { Ok(()) } else { Err(SettingError::NotLive { scheme: settings.scheme(), key: key.to_owned() }) }
    }

    /// Takes a request to the unit `request.target`. The completion of the request carries the
    /// request's token; the caller does not reuse the token. A range outside the unit completes
    /// with [`Status::OutOfRange`].
    pub fn submit(&mut self, now: Nanoseconds, request: Operation<P>) {
        self.set_time(now);
        self.statistics.arrived += 1;
        self.decider.submitted(now, request.token);
        self.requests.arrive(request);
        self.pump();
    }

    /// Takes the completion of an operation from [`next_operation`](Self::next_operation).
    ///
    /// # Panics
    ///
    /// Panics if no operation with this token is under way. A completion without its operation
    /// means that the driver mixes up drives or requests, and going on could corrupt data.
    pub fn complete(&mut self, now: Nanoseconds, completion: Completion<P>) {
        self.set_time(now);
        self.end_operation(completion);
        self.pump();
    }

    /// Lets time pass: due timers fire.
    pub fn advance(&mut self, now: Nanoseconds) {
        self.set_time(now);
        self.pump();
    }

    /// Records that a member is gone. Operations under way on the member still have to be
    /// completed, as [`Status::Gone`].
    pub fn member_gone(&mut self, now: Nanoseconds, member: MemberId) {
        self.set_time(now);
        self.fail_member(member);
        self.pump();
    }

    /// Returns the next operation to start on a member (`target` is its [`MemberId`]).
    #[inline]
    pub fn next_operation(&mut self) -> Option<Operation<P>> {
        self.operations.next_outgoing()
    }

    /// Returns the next finished request.
    #[inline]
    pub fn next_finished(&mut self) -> Option<Completion<P>> {
        self.requests.next_finished()
    }

    fn set_time(&mut self, now: Nanoseconds) {
        assert!(now >= self.view.now, "time went back from {:?} to {now:?}", self.view.now);
        self.view.now = now;
    }

    /// Does everything that can be done now.
    fn pump(&mut self) {
        for round in 0.. {
            debug_assert!(round < ROUNDS_MAX, "the volume goes round in circles");
            if let Some(completion) = self.operations.next_refused() {
                self.end_operation(completion);
            } else if let Some(task) = self.tasks.next_ready() {
                self.run(task);
            } else if self.requests.any_to_admit() && !self.is_telling_who_is_out() {
                self.admit();
            } else if self.commit_is_due() {
                self.begin_commit();
            } else if self.checkpoint_is_due() {
                self.begin_checkpoint();
            } else if self.log_idle_at().is_some_and(|at| at <= self.view.now) {
                self.write_segment();
            } else if self.mover.pauses.until().is_some_and(|at| at <= self.view.now) {
                self.end_pause();
            } else if self.move_goes_on_at().is_some_and(|at| at <= self.view.now) {
                self.go_on_moving();
            } else if self.discard_at().is_some_and(|at| at <= self.view.now) {
                self.begin_discard();
            } else if self.note_at().is_some_and(|at| at <= self.view.now) {
                self.begin_note();
            } else if !(self.refusal_on()
                || self.settle_on()
                || self.drain_on()
                || self.close_on()
                || self.scrub_on()
                || self.work())
            {
                break;
            }
        }
        if self.mover.dirty_since.note(self.view.map.dirty_blocks() > 0, self.view.now) {
            self.settle_later();
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// Asks the scheme for work if the work is due. Returns true if any room was lent.
    fn work(&mut self) -> bool {
        // A commit that found no room in a log waits for work, even while the volume closes.
        if self.is_closing() && !self.requests.waiters.any_for_slots() {
            return false;
        }
        let due = |this: &Self| this.decider.scheme.next_timeout(&this.view).is_some_and(|at| at <= this.view.now);
        let wanted = self.requests.waiters.take_work_request();
        if !wanted && !due(self) {
            return false;
        }
        match self.decider.scheme.work(&self.view) {
            Work::Nothing => {
                assert!(!due(self), "the scheme is due for work and has none");
                self.assert_slots_will_come();
                return false;
            }
            Work::MigrateAll => self.begin_migration(),
            Work::MoveHome { slots, keep } => self.begin_move(slots, keep),
            Work::Evict(slots) => self.evict(&slots),
            Work::AskFragmented(most) => self.ask_fragmented(most),
            Work::Relocate { range, to } => self.relocate(range, to),
            Work::Fetch(runs) => runs.into_iter().for_each(|run| self.fetch(run)),
        }
        true
    }

    /// Panics if a request waits for slots that will never be free, because such a request would be
    /// lost silently.
    fn assert_slots_will_come(&self) {
        let nothing_under_way = self.operations.is_empty() && !self.tasks.any_ready() && !self.commit_is_due();
        let nothing_under_way = nothing_under_way && !self.mover.pauses.is_on();
        let lost = nothing_under_way && self.requests.waiters.any_for_slots();
        assert!(
            !lost,
            "{} requests wait for slots in vain: {} free, {} being freed, {} in use, moving: {}",
            self.requests.waiters.for_slots(),
            self.view.free_slots,
            self.view.freeing_slots,
            self.view.map.slots_in_use(),
            self.view.moving
        );
    }

    /// Makes a task of the request that has waited longest.
    fn admit(&mut self) {
        let Some((request, has_waited)) = self.requests.next() else { return };
        let Operation { token, target, command, payload } = request;
        let Some(sectors) = self.flat_range(target, command) else {
            self.finish(token, Status::OutOfRange, P::empty());
            return;
        };
        if sectors.is_empty() && command.kind != OpKind::Flush {
            self.finish(token, Status::Done, P::empty());
            return;
        }
        self.requests.admit();
        match command.kind {
            OpKind::Read => self.start_read(token, sectors),
            OpKind::Write => self.start_write(token, sectors, command, payload),
            OpKind::Discard | OpKind::WriteZeroes => self.start_range(token, sectors, command),
            OpKind::Flush => {
                let task = self.begin_task(Job::Running);
                self.park(task, Job::Flush(token, Status::Done));
                self.await_flush(task, has_waited);
            }
            OpKind::Hint => {
                self.count_finished(token, Status::Unsupported);
                self.requests.finish_admitted(token, Status::Unsupported, P::empty());
            }
        }
    }

    /// Returns the range in the flat address space; `None` if it lies outside the unit.
    fn flat_range(&self, unit: u16, command: Command) -> Option<SectorRange> {
        let unit = self.view.layout.units.get(usize::from(unit))?;
        let sectors = self.view.layout.block.sectors();
        let end = command.range.checked_end()?;
        (end.0 <= unit.count * sectors)
            .then(|| SectorRange { start: Sectors(command.range.start.0 + unit.first.0 * sectors), ..command.range })
    }

    fn begin_task(&mut self, job: Job<P>) -> TaskId {
        self.tasks.begin(job)
    }

    /// Begins a task that reads no slot, so no slot is kept from reuse for the task.
    fn begin_idle_task(&mut self, job: Job<P>) -> TaskId {
        self.tasks.begin_idle(job)
    }

    /// Stores a job that waits for an event other than the end of its operations. The task reads no
    /// slot until it runs again, so no slot is kept from reuse for the task: the task might wait
    /// for these very slots.
    fn park(&mut self, task: TaskId, job: Job<P>) {
        if self.tasks.park(task, job) {
            self.release_slots();
        }
    }

    /// Takes a job out of its task, to run it with the volume at hand.
    fn take_job(&mut self, task: TaskId) -> Job<P> {
        self.tasks.take_job(task, Job::Running)
    }

    fn put_job(&mut self, task: TaskId, job: Job<P>) {
        self.tasks.put_job(task, job);
    }

    fn outstanding(&self, task: TaskId) -> u32 {
        self.tasks.outstanding(task)
    }

    fn end_task(&mut self, task: TaskId) {
        self.tasks.end(task);
        self.release_slots();
    }

    /// Ends the task of a request and answers the request.
    fn end_request(&mut self, task: TaskId, token: Token, status: Status, payload: P) {
        self.end_task(task);
        self.count_finished(token, status);
        self.requests.finish_admitted(token, status, payload);
    }

    fn finish(&mut self, token: Token, status: Status, payload: P) {
        self.count_finished(token, status);
        self.requests.finish(token, status, payload);
    }

    fn count_finished(&mut self, token: Token, status: Status) {
        self.decider.finished(self.view.now, token);
        self.statistics.finished += 1;
        self.statistics.failed += u64::from(status != Status::Done);
    }

    fn run(&mut self, task: TaskId) {
        match self.tasks.resume(task, Job::Running) {
            Job::Read(job) => self.run_read(task, job),
            Job::Write(job) => self.run_write(task, job),
            Job::Range(job) => self.run_range(task, job),
            Job::Flush(token, status) if self.must_tell_who_is_out() => {
                self.park(task, Job::Flush(token, status));
                self.await_announcement(task);
            }
            Job::Flush(token, status) => {
                let status = self.status_if_told(status, true);
                self.end_request(task, token, status, P::empty());
            }
            Job::Promote(job) => self.end_promotion(task, job),
            Job::Fetch(job) => self.end_fetch(task, job),
            Job::Relocate(job) => self.run_relocation(task, job),
            Job::Compare(job) => self.run_comparison(task, job),
            Job::CompareHome(job) => self.run_home_comparison(task, job),
            Job::Move(job) => self.run_move(task, job),
            Job::Commit => self.run_commit(task),
            Job::Announce => self.run_announcement(task),
            Job::Close(status) => self.run_close(task, status),
            Job::Checkpoint(job) => self.run_checkpoint(task, job),
            Job::Note { stable, status } => self.end_note(task, stable, status),
            Job::Scrub(_)
            | Job::ScrubPages(_)
            | Job::Hint(_)
            | Job::Discard(_)
            | Job::Segment(..)
            | Job::Index
            | Job::Running => {
                unreachable!("task {task} runs already")
            }
        }
    }

    fn fail_member(&mut self, member: MemberId) {
        let load = &mut self.view.members[usize::from(member.0)];
        if load.state == MemberState::Failed {
            return;
        }
        load.state = MemberState::Failed;
        self.note_loss_of_home(member);
        if self.view.layout.slots.is_some_and(|slots| slots.member == member) {
            self.note_gone_slots(member);
            self.note_loss();
            self.end_departures();
            self.give_up_clean_copies();
            self.store.kind_mut().drive_gone();
        } else if P::CARRIES_DATA && (self.view.layout.slots.is_some() || self.view.layout.is_mirrored()) {
            self.announce(|state| state.failed |= 1 << member.0);
        }
        self.update_free_slots();
        // Tasks that wait for slots get another place.
        self.wake_slot_waiters();
        let waiters = self.requests.waiters.take_for_buffer();
        self.tasks.wake_all(waiters);
    }

    /// Drops all clean copies, because their drive is gone: home has their content.
    fn give_up_clean_copies(&mut self) {
        let clean: Vec<Block> =
            self.view.map.occupied().filter(|(_, entry)| !entry.dirty).map(|(_, entry)| entry.block).collect();
        for block in clean {
            self.send_home(block);
        }
    }

    fn member_of_slots(&self) -> MemberId {
        self.slot_region().member
    }

    fn slot_region(&self) -> SlotRegion {
        self.view.layout.slots.expect("this layout has slots")
    }

    /// Returns the sectors of `count` slots from `slot` on, on their member.
    fn slot_sectors(&self, slot: Slot, count: u64) -> SectorRange {
        let region = self.slot_region();
        let sectors = self.view.layout.block.sectors();
        SectorRange::new(region.first_sector + u64::from(slot.0) * sectors, count * sectors)
    }

    /// Returns the first part of `range` whose home is one run: the member and its sectors.
    #[inline]
    fn home_piece(&self, range: SectorRange) -> (MemberId, SectorRange) {
        let layout = &self.view.layout;
        let block = layout.block.block_of(range.start.0);
        let (member, first_sector, blocks) = layout.home_of(block);
        let into = range.start.0 - layout.block.first_sector(block);
        let len = (blocks * layout.block.sectors() - into).min(range.len.0);
        (member, SectorRange::new(first_sector + into, len))
    }

    /// Counts `blocks` for the members that hold their home.
    fn count_by_home(&mut self, blocks: BlockRun, written: bool) {
        if self.view.layout.is_mirrored() {
            return self.count_by_copy(blocks, written);
        }
        let mut first = blocks.first.0;
        while first < blocks.end() {
            let (member, _, run) = self.view.layout.home_of(Block(first));
            let count = run.min(blocks.end() - first);
            let counts = if written {
                &mut self.statistics.written_blocks_by_member
            } else {
                &mut self.statistics.read_blocks_by_member
            };
            counts[usize::from(member.0)] += count;
            first += count;
        }
    }

    fn count_metadata(&mut self, member: MemberId, sectors: Sectors) {
        self.statistics.metadata_bytes[usize::from(member.0)] += sectors.bytes();
    }

    fn log_idle_at(&self) -> Option<Nanoseconds> {
        let since = self.store.log()?.waits_since().filter(|_| self.view.slots_online())?;
        let load = self.view.member(self.member_of_slots());
        let busy = load.foreground + load.background > 0;
        (!busy).then(|| load.idle_since.max(since).saturating_add(LOG_IDLE))
    }
}

/// Returns the size of `blocks` blocks in bytes.
fn blocks_bytes(layout: &Layout, blocks: u64) -> Bytes {
    Bytes(blocks * layout.block.bytes().0)
}

fn access(layout: &Layout, kind: OpKind, sectors: SectorRange) -> Access {
    Access { kind, sectors, blocks: layout.block.touched(sectors) }
}
