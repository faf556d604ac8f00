//! Recording of the commands to each flash drive of a volume while the volume runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bimetal_core::layout::LABEL_SECTORS;
use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;
use bimetal_models::{DeviceModel, DeviceStatistics, Finished, Wear};
use bimetal_sim::setup::{Choices, Setup};

/// Commands to a drive, with their times.
pub(super) type Stream = Vec<(Nanoseconds, Command)>;

/// Returns true if `command` gives a drive data to store.
pub(super) fn stores(command: &Command) -> bool {
    matches!(command.kind, OpKind::Write | OpKind::WriteZeroes) && !command.range.is_empty()
}

/// Current round of the workload, shared between the player and the recorders.
#[derive(Clone)]
pub(super) struct Rounds {
    entered: Arc<AtomicU64>,
    warm: u64,
    begins: Option<Begins>,
}

/// Times at which rounds begin, if requests are timed.
#[derive(Clone, Copy)]
pub(super) struct Begins {
    /// Begin of the second round.
    pub(super) second: Nanoseconds,
    /// Begin of the first recorded round.
    pub(super) recorded: Nanoseconds,
}

impl Rounds {
    /// Creates rounds of which the first `warm` are not recorded. Without times, a round begins
    /// when its first request is issued.
    pub(super) fn new(warm: u64, begins: Option<Begins>) -> Self {
        Self { entered: Arc::default(), warm, begins }
    }

    pub(super) fn enter(&self, round: u64) {
        self.entered.store(round, Ordering::Relaxed);
    }

    fn is_first(&self, now: Nanoseconds) -> bool {
        self.begins.map_or_else(|| self.entered.load(Ordering::Relaxed) == 0, |begins| now < begins.second)
    }

    fn is_recorded(&self, now: Nanoseconds) -> bool {
        self.begins.map_or_else(|| self.entered.load(Ordering::Relaxed) >= self.warm, |begins| now >= begins.recorded)
    }
}

/// A flash drive of a volume.
pub(super) struct Member {
    /// Name of the drive's role.
    pub(super) id: String,
    /// Profile of the drive.
    pub(super) profile: Profile,
    /// Size of the drive.
    pub(super) size: Sectors,
    /// Sectors that are full before the first request.
    pub(super) used: SectorRange,
    /// State of these sectors.
    pub(super) precondition: Precondition,
    /// Set if the drive is home to addresses of the volume.
    pub(super) is_home: bool,
    stream: Arc<Mutex<Stream>>,
    cold_sectors: Arc<AtomicU64>,
}

impl Member {
    /// Creates a home drive that belongs to no volume.
    pub(super) fn home(profile: &Profile, size: Sectors) -> Self {
        Self {
            id: "ssd".to_owned(),
            profile: profile.clone(),
            size,
            used: SectorRange::new(0, size.0),
            precondition: Precondition::Sequential,
            is_home: true,
            stream: Arc::default(),
            cold_sectors: Arc::default(),
        }
    }

    /// Returns the bytes that the drive had to store in the first round.
    pub(super) fn cold_bytes(&self) -> u64 {
        self.cold_sectors.load(Ordering::Relaxed) * SECTOR_BYTES
    }

    /// Takes the recorded stream, shifted to begin at time zero.
    pub(super) fn take_stream(&self) -> Stream {
        let mut stream = std::mem::take(&mut *self.stream.lock().expect("nobody panics while it is held"));
        let start = stream.first().map_or(Nanoseconds::ZERO, |(at, _)| *at);
        stream.iter_mut().for_each(|(at, _)| *at -= start);
        stream
    }
}

/// A drive that records the commands to store, discard and flush.
struct Recorder {
    inner: Box<dyn DeviceModel>,
    rounds: Rounds,
    stream: Arc<Mutex<Stream>>,
    cold_sectors: Arc<AtomicU64>,
}

impl DeviceModel for Recorder {
    fn capacity(&self) -> Sectors {
        self.inner.capacity()
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        if self.rounds.is_first(now) && stores(&command) {
            self.cold_sectors.fetch_add(command.range.len.0, Ordering::Relaxed);
        }
        let changes = matches!(command.kind, OpKind::Discard | OpKind::Flush) || stores(&command);
        if changes && self.rounds.is_recorded(now) {
            self.stream.lock().expect("nobody panics while it is held").push((now, command));
        }
        self.inner.submit(now, token, command);
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        self.inner.next_event()
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        self.inner.advance(now, finished);
    }

    fn fragmented(&self, most: Sectors) -> Option<Vec<SectorRange>> {
        self.inner.fragmented(most)
    }

    fn wear(&self) -> Option<Wear> {
        self.inner.wear()
    }

    fn halt_wear_levelling(&mut self, halt: bool) {
        self.inner.halt_wear_levelling(halt);
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        self.inner.statistics(now)
    }
}

/// A drive that finishes every command at once. The commands to a drive that is alone do not depend
/// on its speed.
struct Instant {
    capacity: Sectors,
    now: Nanoseconds,
    done: Vec<Finished>,
    written: Bytes,
}

impl DeviceModel for Instant {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        if stores(&command) {
            self.written += command.range.len.bytes();
        }
        self.now = now;
        self.done.push(Finished { token, at: now, status: Status::Done });
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        (!self.done.is_empty()).then_some(self.now)
    }

    fn advance(&mut self, _: Nanoseconds, finished: &mut Vec<Finished>) {
        finished.append(&mut self.done);
    }

    fn statistics(&self, _: Nanoseconds) -> DeviceStatistics {
        DeviceStatistics { write_bytes: self.written, ..DeviceStatistics::default() }
    }
}

/// Puts a recorder in front of each flash drive; `rounds` decides what it records. If requests are
/// `timed`, a drive that is alone need not be simulated for that.
pub(super) fn record_members(setup: &mut Setup, choices: &Choices, rounds: &Rounds, timed: bool) -> Vec<Member> {
    let layout = setup.volume().view().layout.clone();
    let alone = timed && setup.drives.len() == 1;
    let mut members = Vec::new();
    for (id, drive) in setup.drives.iter_mut().enumerate() {
        let size = Sectors(drive.size.0 / SECTOR_BYTES);
        let blank = drive.profile.build(Some(size), choices.seed);
        let (None, Ok(blank)) = (drive.profile.hdd(), blank) else { continue };
        let home = layout.home.iter().find(|extent| usize::from(extent.member.0) == id);
        let full =
            home.map(|extent| SectorRange::new(extent.first_sector, extent.blocks.count * choices.block.sectors()));
        let default = if full.is_some() { Precondition::Sequential } else { Precondition::Clean };
        let (stream, cold_sectors) = (Arc::<Mutex<Stream>>::default(), Arc::<AtomicU64>::default());
        members.push(Member {
            id: drive.role.name().to_owned(),
            profile: drive.profile.clone(),
            size,
            used: full.unwrap_or(SectorRange::new(0, size.0.saturating_sub(LABEL_SECTORS))),
            precondition: choices.precondition.unwrap_or(default),
            is_home: full.is_some(),
            stream: stream.clone(),
            cold_sectors: cold_sectors.clone(),
        });
        let inner: Box<dyn DeviceModel> = match alone {
            true => {
                Box::new(Instant { capacity: size, now: Nanoseconds::ZERO, done: Vec::new(), written: Bytes::ZERO })
            }
            false => std::mem::replace(&mut drive.model, blank),
        };
        drive.model = Box::new(Recorder { inner, rounds: rounds.clone(), stream, cold_sectors });
    }
    members
}
