//! A file that takes as long as a drive would: the data goes through the page cache, the time comes from a model.
//!
//! An operation goes to the file and to the model of the drive at once, and ends when both are done (`pace.rs`). For the model
//! it begins when the engine asked for it: what the server takes besides is no part of a drive's time. What is
//! but a copy from or to the page cache is done on the spot, for a thread would take longer to wake than a fast drive
//! takes for the whole operation; what may wait goes to threads. With a volatile cache (`volatile_cache.rs`), writes stay
//! in this process until they are flushed: when it is killed they are lost, as in a power cut.
//!
//! A timer wakes the loop a little before the next end is due and stays readable, so that the loop looks again and again
//! until it is: a sleeping thread would be late by tens of microseconds.

mod pace;
mod volatile_cache;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use bimetal_core::label::{Label, usable};
use bimetal_core::layout::{HomeExtent, Layout, MemberId};
use bimetal_core::operation::{Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::{Profile, ProfileError};
use hashbrown::HashMap;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::file::{DriveFile, OpenError};
use super::job::Job;
use super::pool::Pool;
use super::{Drive, Failure};
use crate::buffer::{Buffers, Filling};
pub use pace::Emulation;
use pace::Pace;
use volatile_cache::VolatileCache;

/// What a volatile cache holds at most, but for one request more.
const VOLATILE_CACHE: Bytes = Bytes::from_mib(16);
/// How long before an end is due the loop is woken.
const EARLY: Nanoseconds = Nanoseconds::from_micros(60);
/// Threads for what may wait.
const THREADS: usize = 4;

/// Why a drive cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// The profile, or a setting of it.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A switch that is neither.
    #[error("volatile_cache={0}: expected on or off")]
    VolatileCache(String),
    /// No drive of this kind has the file's size.
    #[error("'{path}' has {file}, and {profile} can only be made with {model}: make the file that size, or smaller")]
    Size {
        /// The file.
        path: String,
        /// Its size.
        file: Sectors,
        /// The profile.
        profile: String,
        /// The nearest size that the drive can have.
        model: Sectors,
    },
    /// The system gives no timer, event or thread.
    #[error("cannot emulate '{path}': {error}")]
    System {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

/// Which drive a file plays.
#[derive(Clone, Debug)]
pub struct Player {
    /// The drive, with all its figures.
    pub profile: Profile,
    /// Whether writes that were not flushed stay in this process.
    pub volatile_cache: bool,
}

impl Player {
    /// The drive of a profile (a built-in name or a TOML file), with settings: `volatile_cache`, and figures of the
    /// profile.
    ///
    /// # Errors
    ///
    /// A profile that is unknown (the nearest is suggested), a setting that it does not have.
    pub fn new<'a>(
        profile: &str,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, EmulationError> {
        let mut player = Self { profile: Profile::load(profile)?, volatile_cache: false };
        let mut figures = Vec::new();
        for (key, value) in settings {
            match (key, value) {
                ("volatile_cache", "on") => player.volatile_cache = true,
                ("volatile_cache", "off") => player.volatile_cache = false,
                ("volatile_cache", other) => return Err(EmulationError::VolatileCache(other.to_owned())),
                figure => figures.push(figure),
            }
        }
        player.profile.set_all(figures)?;
        Ok(player)
    }

    /// The drive that a member plays by its label; none if it is a drive of its own.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn of_member(label: &Label, member: MemberId) -> Result<Option<Self>, EmulationError> {
        let member = &label.members[usize::from(member.0)];
        let player = member.emulates.as_deref().map(|profile| Self::new(profile, label.drive_settings(member.role)));
        player.transpose()
    }
}

/// The part of a member on which addresses have their home; empty if there is none.
pub fn home_of(layout: &Layout, member: MemberId) -> SectorRange {
    let home = layout.home.iter().find(|extent| extent.member == member);
    let blocks = |extent: &HomeExtent| extent.blocks.count * layout.block.sectors();
    home.map_or(SectorRange::default(), |extent| SectorRange::new(extent.first_sector, blocks(extent)))
}

/// A file that plays a drive.
pub struct Emulated {
    pace: Pace,
    size: Sectors,
    file: Arc<DriveFile>,
    workers: Pool,
    volatile: Option<VolatileCache>,
    /// What a volatile cache has of reads that threads carry out.
    over: HashMap<Token, Vec<(Sectors, Vec<u8>)>, foldhash::fast::RandomState>,
    begun: Instant,
    /// The time for who asks, if that was told.
    told: Option<Nanoseconds>,
    ended: Vec<Completion<Buffers>>,
    collected: Vec<Completion<Buffers>>,
    timer: OwnedFd,
    /// When the timer fires.
    armed: Option<Nanoseconds>,
    /// Readable when the timer or a thread has something.
    event: OwnedFd,
}

impl Emulated {
    /// Has a file play a drive, of the size that the file has. Flash under `home` is written full, in order, as in a
    /// simulation; the rest of it is clean.
    ///
    /// # Errors
    ///
    /// If the drive cannot have the file's size, or the system refuses what it needs.
    pub fn new(file: DriveFile, player: &Player, home: SectorRange) -> Result<Self, EmulationError> {
        let file = file.cached()?;
        let name = file.name().to_owned();
        let size = usable(file.capacity().bytes());
        let precondition = if home.is_empty() { Precondition::Clean } else { Precondition::Sequential };
        let used = if home.is_empty() { SectorRange::new(0, size.0) } else { home };
        let model = player.profile.build_preconditioned(Some(size), precondition, used, 0)?;
        if model.capacity() < size {
            let (profile, model) = (player.profile.name.clone(), model.capacity());
            return Err(EmulationError::Size { path: name, file: size, profile, model });
        }
        let system = |error| EmulationError::System { path: name.clone(), error };
        let file = Arc::new(file);
        let workers = Pool::with_threads(Arc::clone(&file), THREADS).map_err(system)?;
        let (timer, event) = watch(&workers).map_err(|error| system(error.into()))?;
        Ok(Self {
            pace: Pace::new(model, player.profile.name.clone()),
            size,
            file,
            workers,
            volatile: player.volatile_cache.then(|| VolatileCache::new(VOLATILE_CACHE)),
            over: HashMap::default(),
            begun: Instant::now(),
            told: None,
            ended: Vec::new(),
            collected: Vec::new(),
            timer,
            armed: None,
            event,
        })
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds(self.begun.elapsed().as_nanos() as u64)
    }

    /// Begins the real part of an operation.
    fn begin(&mut self, operation: Operation<Buffers>) {
        let Operation { token, command, .. } = operation;
        match (command.kind, &mut self.volatile) {
            // The file knows no hints; what the drive makes of one is its model's matter.
            (OpKind::Hint, _) => self.real_ended(token, Status::Done),
            (_, None) => self.begin_in_file(operation),
            (OpKind::Write, Some(_)) if !command.fua => {
                let status = self.write_volatile(command.range.start, &operation.payload);
                self.real_ended(token, status);
            }
            (OpKind::Write | OpKind::WriteZeroes | OpKind::Discard, Some(cache)) => {
                cache.forget(command.range);
                self.begin_in_file(operation);
            }
            (OpKind::Read, Some(cache)) => {
                let over = cache.over(command.range);
                if !over.is_empty() {
                    self.over.insert(token, over);
                }
                self.begin_in_file(operation);
            }
            (OpKind::Flush, Some(_)) => match self.write_out_all() {
                Ok(()) => self.begin_in_file(operation),
                Err(_) => self.real_ended(token, Status::MediaError),
            },
        }
    }

    /// At once as far as that is but a copy; the rest goes to a thread.
    fn begin_in_file(&mut self, operation: Operation<Buffers>) {
        let mut job = Job::new(operation, &self.file);
        loop {
            let result = match job.step(&self.file) {
                None => break,
                Some(step) => self.file.perform_at_once(step),
            };
            match result {
                Some(result) => {
                    job.note(result, &self.file);
                    if let Some((errno, tries)) = job.take_no_room() {
                        return self.workers.hold_job(job, errno, tries);
                    }
                }
                None => return self.workers.submit_job(job),
            }
        }
        self.file_ended(job.end());
    }

    /// The file has done its part; what a volatile cache had of a read is laid over it.
    fn file_ended(&mut self, mut completion: Completion<Buffers>) {
        if let Some(over) = self.over.remove(&completion.token)
            && completion.status == Status::Done
        {
            let mut filling = Filling::new(completion.payload.bytes() as usize);
            completion.payload.copy_to(filling.bytes_mut());
            for (offset, bytes) in over {
                filling.bytes_mut()[offset.bytes().0 as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            completion.payload = Buffers::from(filling.share());
        }
        self.pace.real_ended(self.now(), completion);
    }

    fn real_ended(&mut self, token: Token, status: Status) {
        self.pace.real_ended(self.now(), Completion { token, status, payload: Buffers::empty() });
    }

    fn write_volatile(&mut self, start: Sectors, data: &Buffers) -> Status {
        // Where nothing can go to the file, nothing more is taken.
        if self.make_room().is_err() {
            return Status::MediaError;
        }
        if let Some(cache) = &mut self.volatile {
            cache.write(start, data);
        }
        // One request more than there is room for is left where this fails; the next one is refused then.
        let _ = self.make_room();
        Status::Done
    }

    fn make_room(&mut self) -> Result<(), Errno> {
        while let Some(cache) = self.volatile.as_mut().filter(|cache| cache.is_full())
            && let Some(block) = cache.oldest()
        {
            write_out(&self.file, cache, block)?;
        }
        Ok(())
    }

    fn write_out_all(&mut self) -> Result<(), Errno> {
        while let Some(cache) = &mut self.volatile
            && let Some(block) = cache.first()
        {
            write_out(&self.file, cache, block)?;
        }
        Ok(())
    }

    /// Has the timer fire when the model has something next: early where somebody waits for it.
    fn arm(&mut self) {
        let due = self.pace.next_event().map(|(at, awaited)| if awaited { at.saturating_sub(EARLY) } else { at });
        if due == self.armed {
            return;
        }
        // Zero would stop the timer.
        let left = due.map_or(0, |due| due.saturating_sub(self.now()).0.max(1));
        let it_value = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        assert!(set.is_ok(), "a timer takes every time that is in order: {set:?}");
        self.armed = due;
    }
}

/// A timer, and an event that tells of it and of the threads.
fn watch(workers: &Pool) -> Result<(OwnedFd, OwnedFd), Errno> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let event = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&event, &timer, EventData::new_u64(0), EventFlags::IN)?;
    epoll::add(&event, workers.event(), EventData::new_u64(1), EventFlags::IN)?;
    Ok((timer, event))
}

/// Puts a block of the cache into the file.
fn write_out(file: &DriveFile, cache: &mut VolatileCache, block: u64) -> Result<(), Errno> {
    for (start, bytes) in cache.runs(block) {
        file.write_all_at(start.bytes().0, bytes)?;
    }
    cache.remove(block);
    Ok(())
}

impl Drive for Emulated {
    fn submit(&mut self, operation: Operation<Buffers>) {
        let Operation { token, command, .. } = operation;
        let outside = command.range.checked_end().is_none_or(|end| end > self.size);
        // Of these the model knows nothing: they end where a drive's controller ends them.
        if outside || (command.range.is_empty() && command.kind != OpKind::Flush) {
            let status = if outside { Status::OutOfRange } else { Status::Done };
            return self.ended.push(Completion { token, status, payload: Buffers::empty() });
        }
        // What the engine takes to decide and what the server takes besides are no part of a drive's time.
        self.pace.submit(self.told.unwrap_or_else(|| self.now()), token, command);
        self.pace.real_begins(self.now(), token);
        self.begin(operation);
    }

    fn start(&mut self) {}

    fn tell_time(&mut self, now: Instant) {
        self.told = Some(Nanoseconds(now.saturating_duration_since(self.begun).as_nanos() as u64));
    }

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        let mut collected = std::mem::take(&mut self.collected);
        self.workers.collect(&mut collected);
        collected.drain(..).for_each(|completion| self.file_ended(completion));
        self.collected = collected;
        ended.append(&mut self.ended);
        self.pace.advance(self.now(), ended);
        self.arm();
    }

    fn has_ended(&mut self) -> bool {
        let due = self.pace.next_event().is_some_and(|(at, awaited)| awaited && at <= self.now());
        due || !self.ended.is_empty() || self.workers.has_ended()
    }

    fn under_way(&self) -> usize {
        self.pace.under_way() + self.ended.len()
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn take_failures(&mut self) -> Vec<Failure> {
        self.file.take_failures()
    }

    fn no_room(&self) -> Option<Errno> {
        self.workers.no_room()
    }

    fn due(&self) -> Option<Instant> {
        self.workers.due()
    }

    fn logical_block(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn describe(&self) -> String {
        let cache = if self.volatile.is_some() { ", unflushed writes in memory" } else { "" };
        format!("as slow as {}{cache}", self.pace.counted().profile)
    }

    fn emulation(&self) -> Option<Emulation> {
        Some(self.pace.counted().clone())
    }
}

#[cfg(test)]
mod tests;
