//! Emulated drive: a file whose operations take as long as on a drive. Data goes through the page
//! cache, times come from a model.
//!
//! An operation begins in the file and in the model at once, and ends when both are done
//! (`pace.rs`). In the model an operation begins when the engine requested it: further delays of
//! the server do not count as drive time.
//!
//! A copy from or to the page cache is made on the calling thread: another thread takes longer to
//! wake than a fast drive needs for an operation. Operations that may block are carried out by
//! other threads. With a volatile cache (`volatile_cache.rs`), writes stay in this process until
//! they are flushed: killing the process loses them, as a power cut does.
//!
//! A timer wakes the loop shortly before the next operation ends, and stays readable, so that the
//! loop polls until the end. A sleeping thread would be late by tens of microseconds.

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

/// Maximum content of a volatile cache; one request may exceed this maximum.
const VOLATILE_CACHE: Bytes = Bytes::from_mib(16);
/// Time between the wake-up of the loop and the end of an operation.
const EARLY: Nanoseconds = Nanoseconds::from_micros(60);
/// Number of threads for operations that may block.
const THREADS: usize = 4;

/// Reasons for which a drive cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// The profile or one of its settings is not valid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The value is neither `on` nor `off`.
    #[error("volatile_cache={0}: expected on or off")]
    VolatileCache(String),
    /// The drive cannot be made with the file's size.
    #[error(
        "'{path}' has {file}, and {profile} can only be made with {model}: expected a file of that size, or a \
             smaller one"
    )]
    Size {
        /// Path of the file.
        path: String,
        /// Size of the file.
        file: Sectors,
        /// Name of the profile.
        profile: String,
        /// Size nearest to the file's size that the drive can have.
        model: Sectors,
    },
    /// The system gives no timer, event or thread.
    #[error("cannot emulate '{path}': {error}")]
    System {
        /// Path of the file.
        path: String,
        /// Error of the system.
        error: std::io::Error,
    },
}

/// Drive that a file emulates.
#[derive(Clone, Debug)]
pub struct Player {
    /// Drive with all its figures.
    pub profile: Profile,
    /// Set if unflushed writes stay in this process.
    pub volatile_cache: bool,
}

impl Player {
    /// Makes the drive of a profile (a built-in name or a TOML file), with settings:
    /// `volatile_cache`, and figures of the profile.
    ///
    /// # Errors
    ///
    /// Fails if the profile is unknown (the nearest is suggested), or does not have a setting.
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

    /// Makes the drive that a member emulates by its label; `None` if the member emulates no drive.
    ///
    /// # Errors
    ///
    /// Fails for the reasons of [`new`](Self::new).
    pub fn of_member(label: &Label, member: MemberId) -> Result<Option<Self>, EmulationError> {
        let member = &label.members[usize::from(member.0)];
        let player = member.emulates.as_deref().map(|profile| Self::new(profile, label.drive_settings(member.role)));
        player.transpose()
    }
}

/// Returns the part of a member that is home of addresses; empty if the member is home of no
/// addresses.
pub fn home_of(layout: &Layout, member: MemberId) -> SectorRange {
    let home = layout.home.iter().find(|extent| extent.member == member);
    let blocks = |extent: &HomeExtent| extent.blocks.count * layout.block.sectors();
    home.map_or(SectorRange::default(), |extent| SectorRange::new(extent.first_sector, blocks(extent)))
}

/// File that emulates a drive.
pub struct Emulated {
    pace: Pace,
    size: Sectors,
    file: Arc<DriveFile>,
    workers: Pool,
    volatile: Option<VolatileCache>,
    /// Cached content that overlaps reads under way in threads.
    over: HashMap<Token, Vec<(Sectors, Vec<u8>)>, foldhash::fast::RandomState>,
    begun: Instant,
    /// Time that the caller has set, if any.
    told: Option<Nanoseconds>,
    ended: Vec<Completion<Buffers>>,
    collected: Vec<Completion<Buffers>>,
    timer: OwnedFd,
    /// Time at which the timer fires.
    armed: Option<Nanoseconds>,
    /// Event that is readable when the timer fires or a thread has finished.
    event: OwnedFd,
}

impl Emulated {
    /// Makes a file emulate a drive of the file's size. Flash under `home` starts fully written, in
    /// order, as in a simulation; the rest of the drive starts clean.
    ///
    /// # Errors
    ///
    /// Fails if the drive cannot have the file's size, or the system refuses a resource.
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
            // Only the model takes hints; the file has none.
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

    /// Carries out at once the steps that need no waiting; passes all other steps to a thread.
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

    /// Takes the result of the file, and lays cached content over a read.
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
        // If the cache cannot be written out, no further write is taken.
        if self.make_room().is_err() {
            return Status::MediaError;
        }
        if let Some(cache) = &mut self.volatile {
            cache.write(start, data);
        }
        // If this fails, one request exceeds the cache; the next write is refused.
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

    /// Arms the timer for the next event of the model; and before this event if an operation waits
    /// for its end.
    fn arm(&mut self) {
        let due = self.pace.next_event().map(|(at, awaited)| if awaited { at.saturating_sub(EARLY) } else { at });
        if due == self.armed {
            return;
        }
        // A time of zero would stop the timer.
        let left = due.map_or(0, |due| due.saturating_sub(self.now()).0.max(1));
        let it_value = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        assert!(set.is_ok(), "a timer takes every time that is in order: {set:?}");
        self.armed = due;
    }
}

/// Makes a timer, and an event that covers the timer and the threads.
fn watch(workers: &Pool) -> Result<(OwnedFd, OwnedFd), Errno> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let event = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&event, &timer, EventData::new_u64(0), EventFlags::IN)?;
    epoll::add(&event, workers.event(), EventData::new_u64(1), EventFlags::IN)?;
    Ok((timer, event))
}

/// Writes a block of the cache to the file.
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
        // The model does not get these operations: they end where a drive's controller ends them.
        if outside || (command.range.is_empty() && command.kind != OpKind::Flush) {
            let status = if outside { Status::OutOfRange } else { Status::Done };
            return self.ended.push(Completion { token, status, payload: Buffers::empty() });
        }
        // Time in the engine and in the rest of the server does not count as drive time.
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
