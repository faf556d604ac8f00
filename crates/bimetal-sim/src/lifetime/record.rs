//! Recording of the commands to each flash drive of a volume while the volume runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bimetal_core::layout::{LABEL_SECTORS, Layout};
use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::{Body, Profile};
use bimetal_models::{DeviceModel, DeviceStatistics, Finished, Wear};

use super::chunks::Held;
use super::followed::{Followed, Marks};
use crate::setup::{Choices, Setup};

/// Largest number of commands that are recorded of a drive. More commands would only cost memory,
/// because no drive plays more commands ([`super::wear`]).
const RECORDED_MAX: usize = 2_000_000;

/// Commands to a drive, with their times.
pub(super) type Stream = Vec<(Nanoseconds, Command)>;

/// Recording of a drive: the first commands, and the amount of all commands.
#[derive(Debug, Default)]
pub(super) struct Tape {
    /// The first commands.
    pub(super) stream: Stream,
    written_sectors: u64,
    is_cut: bool,
}

impl Tape {
    /// Records a command, as long as the stream has fewer than `most`.
    fn push(&mut self, now: Nanoseconds, command: Command, most: usize) {
        self.written_sectors += if stores(&command) { command.range.len.0 } else { 0 };
        if self.stream.len() < most {
            self.stream.push((now, command));
        } else {
            self.is_cut = true;
        }
    }

    /// Returns the bytes that all commands, recorded or not, gave the drive to store.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_sectors * SECTOR_BYTES
    }

    /// Returns the time that the stream takes, out of `span` for all commands.
    pub(super) fn lasts(&self, span: Nanoseconds) -> Nanoseconds {
        match self.stream.last().filter(|_| self.is_cut) {
            Some((last, _)) => Nanoseconds(last.0 + last.0 / self.stream.len() as u64 + 1),
            None => span,
        }
    }
}

/// Returns true if `command` gives a drive data to store.
pub(super) fn stores(command: &Command) -> bool {
    matches!(command.kind, OpKind::Write | OpKind::WriteZeroes) && !command.range.is_empty()
}

/// Times at which rounds begin.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    /// Begin of the second round.
    pub(super) second: Nanoseconds,
    /// Begin of the first recorded round.
    pub(super) recorded: Nanoseconds,
    /// End of the recorded rounds.
    pub(super) end: Nanoseconds,
    /// Time from one round to the next.
    pub(super) each: Nanoseconds,
}

impl Rounds {
    /// Returns the number of rounds, from the first recorded round on, that have begun by `now`.
    fn begun(&self, now: Nanoseconds) -> u64 {
        if now < self.recorded { 0 } else { (now.0 - self.recorded.0) / self.each.0.max(1) + 1 }
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
    /// Size of the drives that are bought. The whole drives wear, even if a part of them is used.
    pub(super) bought: Sectors,
    /// Sectors that are full before the first request.
    pub(super) used: SectorRange,
    /// Number of sectors that may hold data in the long run: home addresses and slots.
    pub(super) in_use: Sectors,
    /// State of the sectors in `used` at time zero.
    pub(super) precondition: Precondition,
    /// Set if the drive is home to addresses of the volume.
    pub(super) is_home: bool,
    tape: Arc<Mutex<Tape>>,
    cold: Arc<Cold>,
    held: Arc<Mutex<Held>>,
    /// Counts at the begin of each round, if the volume's own drive is to be followed.
    pub(super) marks: Option<Arc<Mutex<Marks>>>,
}

impl Member {
    /// Creates a home drive that belongs to no volume.
    pub(super) fn home(profile: &Profile, size: Sectors) -> Self {
        Self {
            id: "ssd".to_owned(),
            profile: profile.clone(),
            size,
            bought: size,
            used: SectorRange::new(0, size.0),
            in_use: size,
            precondition: Precondition::Sequential,
            is_home: true,
            tape: Arc::default(),
            cold: Arc::default(),
            held: Arc::default(),
            marks: None,
        }
    }

    /// Returns the drive of `profile` that stands for a part of this drive.
    pub(super) fn part(&self, profile: Profile, size: Sectors, used: SectorRange, held: Held) -> Self {
        let (id, precondition, is_home) = (self.id.clone(), self.precondition, self.is_home);
        let (tape, cold, held) = (Arc::default(), Arc::default(), Arc::new(Mutex::new(held)));
        let (bought, in_use) = (size, used.len);
        Self { id, profile, size, bought, used, in_use, precondition, is_home, tape, cold, held, marks: None }
    }

    /// Returns the wear of the drive in the volume itself; `None` if the drive was not followed, or
    /// did not wear.
    pub(super) fn followed(&self) -> Option<Followed> {
        self.marks.as_ref()?.lock().expect("no thread panics while it holds the lock").wear()
    }

    /// Returns the units of a drive, clean at first, that held data when the recording began.
    pub(super) fn held(&self) -> Held {
        self.held.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Returns the bytes that the drive had to store in the first round.
    pub(super) fn cold_bytes(&self) -> u64 {
        self.cold.first_round_sectors.load(Ordering::Relaxed) * SECTOR_BYTES
    }

    /// Returns the bytes that the drive had to store before the recorded rounds.
    pub(super) fn warmup_bytes(&self) -> u64 {
        self.cold.warmup_sectors.load(Ordering::Relaxed) * SECTOR_BYTES
    }

    /// Returns the bytes that the recorded rounds gave the drive to store so far.
    pub(super) fn recorded_bytes(&self) -> u64 {
        self.tape.lock().expect("no thread panics while it holds the lock").written_bytes()
    }

    /// Takes the recording, shifted to begin at time zero.
    pub(super) fn take_tape(&self) -> Tape {
        let mut tape = std::mem::take(&mut *self.tape.lock().expect("no thread panics while it holds the lock"));
        let start = tape.stream.first().map_or(Nanoseconds::ZERO, |(at, _)| *at);
        tape.stream.iter_mut().for_each(|(at, _)| *at -= start);
        tape
    }
}

/// Sectors that a drive had to store while data was new to it.
#[derive(Default)]
struct Cold {
    first_round_sectors: AtomicU64,
    /// Sectors until the recorded rounds: the first round of a short trace ends before a cache is
    /// filled.
    warmup_sectors: AtomicU64,
}

/// A drive that records the commands to store, discard and flush.
struct Recorder {
    inner: Box<dyn DeviceModel>,
    rounds: Rounds,
    tape: Arc<Mutex<Tape>>,
    cold: Arc<Cold>,
    /// Sectors of a mapping unit of a drive that is clean at first; `None` for other drives.
    unit_sectors: Option<u64>,
    held: Arc<Mutex<Held>>,
    marks: Option<Arc<Mutex<Marks>>>,
}

impl DeviceModel for Recorder {
    fn capacity(&self) -> Sectors {
        self.inner.capacity()
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        if stores(&command) {
            if now < self.rounds.second {
                self.cold.first_round_sectors.fetch_add(command.range.len.0, Ordering::Relaxed);
            }
            if now < self.rounds.recorded {
                self.cold.warmup_sectors.fetch_add(command.range.len.0, Ordering::Relaxed);
            }
        }
        if let Some(unit_sectors) = self.unit_sectors.filter(|_| now < self.rounds.recorded) {
            self.held.lock().expect("no thread panics while it holds the lock").note(&command, unit_sectors);
        }
        let changes = matches!(command.kind, OpKind::Discard | OpKind::Flush) || stores(&command);
        if let Some(marks) = &self.marks {
            let mut marks = marks.lock().expect("no thread panics while it holds the lock");
            marks.note(self.rounds.begun(now), || self.inner.statistics(now));
        }
        if changes && now >= self.rounds.recorded && (self.marks.is_none() || now < self.rounds.end) {
            self.tape.lock().expect("no thread panics while it holds the lock").push(now, command, RECORDED_MAX);
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

    fn save_state(&mut self) -> Option<Vec<u8>> {
        self.inner.save_state()
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        self.inner.statistics(now)
    }
}

/// A drive that finishes every command at once. The commands to the only drive of a volume do not
/// depend on its speed.
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

/// Puts a recorder in front of each flash drive; `rounds` chooses the rounds that it records. The
/// only drive of a volume need not be simulated for a recording. If `watches` is set, the wear of
/// the drives themselves is counted.
pub(super) fn record_members(setup: &mut Setup, choices: &Choices, rounds: Rounds, watches: bool) -> Vec<Member> {
    let layouts: Vec<Layout> = setup.tree.volumes().map(|volume| volume.view().layout.clone()).collect();
    let alone = setup.drives.len() == 1;
    let mut members = Vec::new();
    for drive in &mut setup.drives {
        let size = Sectors(drive.size.0 / SECTOR_BYTES);
        let blank = drive.profile.build(Some(size), choices.seed);
        let (true, Ok(blank)) = (drive.profile.kind() == "flash", blank) else { continue };
        let home = layouts[drive.volume].home.iter().find(|extent| extent.member == drive.member);
        let full =
            home.map(|extent| SectorRange::new(extent.first_sector, extent.blocks.count * choices.block.sectors()));
        let default = if full.is_some() { Precondition::Sequential } else { Precondition::Clean };
        let precondition = choices.precondition.unwrap_or(default);
        let (tape, cold) = (Arc::<Mutex<Tape>>::default(), Arc::<Cold>::default());
        let held = Arc::<Mutex<Held>>::default();
        let unit_sectors = unit_sectors(&drive.profile, size).filter(|_| precondition == Precondition::Clean);
        let marks = (watches && full.is_none()).then(Arc::<Mutex<Marks>>::default);
        let used = full.unwrap_or(SectorRange::new(0, size.0.saturating_sub(LABEL_SECTORS)));
        let slots = layouts[drive.volume].slots.filter(|slots| full.is_some() && slots.member == drive.member);
        let slot_sectors = slots.map_or(0, |slots| u64::from(slots.count) * choices.block.sectors());
        members.push(Member {
            id: drive.id.clone(),
            profile: drive.profile.clone(),
            size,
            bought: drive.bought_size.sectors(),
            used,
            in_use: Sectors(used.len.0 + slot_sectors),
            precondition,
            is_home: full.is_some(),
            tape: tape.clone(),
            cold: cold.clone(),
            held: held.clone(),
            marks: marks.clone(),
        });
        let inner: Box<dyn DeviceModel> = match alone {
            true => {
                Box::new(Instant { capacity: size, now: Nanoseconds::ZERO, done: Vec::new(), written: Bytes::ZERO })
            }
            false => std::mem::replace(&mut drive.model, blank),
        };
        drive.model = Box::new(Recorder { inner, rounds, tape, cold, unit_sectors, held, marks });
    }
    members
}

/// Returns the sectors of a mapping unit of a flash drive of `size`.
fn unit_sectors(profile: &Profile, size: Sectors) -> Option<u64> {
    let Body::Flash(flash) = &profile.body else { return None };
    let geometry = flash.geometry(profile.capacity, Some(size)).ok()?;
    Some(u64::from(geometry.unit_bytes) / SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of a long trace keeps only the first commands, and still counts every byte.
    #[test]
    fn full_tape_counts_writes_without_keeping_them() {
        let write = Command { kind: OpKind::Write, range: SectorRange::new(0, 8), fua: false };
        let flush = Command { kind: OpKind::Flush, range: SectorRange::new(0, 0), fua: false };
        let mut tape = Tape::default();
        (0..4).for_each(|at| tape.push(Nanoseconds(at * 10), if at == 1 { flush } else { write }, 4));
        assert_eq!((tape.written_bytes(), tape.lasts(Nanoseconds(1000))), (3 * 4096, Nanoseconds(1000)));
        tape.push(Nanoseconds(40), write, 4);
        assert_eq!((tape.stream.len(), tape.written_bytes()), (4, 4 * 4096));
        assert_eq!(tape.lasts(Nanoseconds(1000)), Nanoseconds(30 + 30 / 4 + 1));
    }
}
