//! A hard disk with shingled tracks that it manages itself (drive-managed SMR).
//!
//! Shingled tracks overlap like tiles: a write to one track spoils the next track. So the addresses
//! are divided into *bands*, and a band can only be written in order from its first sector. A write
//! that does not continue a band in order goes to the *staging area*, which has conventional tracks
//! at the outer edge. When the drive has been idle for a while, or a write finds no room in the
//! staging area, bands are *cleaned*, the band of the oldest staged write first. The drive reads
//! the band and all staged sectors of this band, and writes the band anew.
//!
//! A write goes straight to its band if it covers the whole band. A write that continues an earlier
//! write also goes straight to its band, if it begins the band or continues sectors that went
//! straight to the band. To recognise writes that continue earlier writes, the drive remembers the
//! last `STREAMS` writes. A band that a stream left half written is cleaned, too.
//!
//! The arm, the buffer and the queue are those of an [`Hdd`], whose first sectors are the staging
//! area. Cleaning is a sequence of commands to this `Hdd`, one at a time, between the commands of
//! the host. The table of staged sectors costs no time.

use std::collections::{BTreeSet, HashMap, VecDeque};

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

use super::account::Account;
use super::drive::Hdd;
use super::pending::Pending;
use super::profile::HddProfile;
use super::staging::Staging;
use crate::profile::BadFigure;
use crate::statistics::DeviceStatistics;
use crate::{DeviceModel, Finished};

/// Number of sequential writers that the drive can tell apart.
const STREAMS: usize = 32;

/// Number of sectors that cleaning reads or writes at once: about a track. A read of the host waits
/// for at most one such step of cleaning.
const STEP_SECTORS: u64 = 4096;

/// Range on the arm that stands for a flush, a discard or a hint: no sectors.
const NOWHERE: SectorRange = SectorRange { start: Sectors(0), len: Sectors(0) };

/// Command of the host that has not finished, and the number of its parts that have not finished.
#[derive(Clone, Copy, Debug)]
struct Divided {
    whole: Pending,
    parts_left: usize,
}

/// Part of a write that waits for room in the staging area.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    token: Token,
    start: u64,
    end: u64,
}

/// Writes that continue one another.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Sector after the last write.
    end: u64,
    /// Set if the band has been written in order up to `end`.
    is_straight: bool,
}

/// Band that is being cleaned.
#[derive(Clone, Debug)]
struct Cleaning {
    band: u64,
    /// Number of sectors that the staging area had taken when cleaning began. Sectors that were
    /// staged after this number stay staged.
    until: u64,
    /// Commands of the cleaning that are left, as sectors of the arm.
    steps: VecDeque<(OpKind, SectorRange)>,
}

/// Model of a drive-managed shingled disk.
#[derive(Clone, Debug)]
pub struct ShingledHdd {
    capacity: Sectors,
    /// Number of sectors of a band.
    band: u64,
    /// Number of sectors of the staging area, which are the first of `hdd`.
    staging_sectors: u64,
    staging: Staging,
    hdd: Hdd,
    /// Sequential writers, the latest writer last.
    streams: VecDeque<Stream>,
    /// Bands that a stream left half written.
    half_written: BTreeSet<u64>,
    waiting: VecDeque<Waiting>,
    under_way: HashMap<Token, Divided>,
    /// Owner of each command of the arm; `None` for cleaning.
    owners: HashMap<Token, Option<Token>>,
    next_part: u64,
    cleaning: Option<Cleaning>,
    /// Set while the arm has a command of cleaning.
    is_at_work: bool,
    clean_after_ns: u64,
    /// Time since which no command of the host is under way.
    idle_since_ns: u64,
    account: Account,
    /// Ends of parts, collected in one step.
    ended: Vec<Finished>,
}

impl ShingledHdd {
    /// Builds the drive that `profile` describes with `own` sectors, for `capacity`: see
    /// [`Hdd::new`].
    ///
    /// # Errors
    /// A figure that no drive can have.
    pub fn new(profile: &HddProfile, own: Sectors, capacity: Sectors) -> Result<Self, BadFigure> {
        let staging = profile.staging_area.0.sectors();
        Ok(Self {
            capacity,
            band: profile.band.0.sectors().0,
            staging_sectors: staging.0,
            staging: Staging::new(staging.0),
            hdd: Hdd::new(profile, own + staging, capacity + staging)?,
            streams: VecDeque::new(),
            half_written: BTreeSet::new(),
            waiting: VecDeque::new(),
            under_way: HashMap::new(),
            owners: HashMap::new(),
            next_part: 0,
            cleaning: None,
            is_at_work: false,
            clean_after_ns: (profile.clean_after_s.unwrap_or(0.0) * 1e9) as u64,
            idle_since_ns: 0,
            account: Account::default(),
            ended: Vec::new(),
        })
    }

    /// Returns the sectors of the arm for sectors that are not staged.
    fn on_tracks(&self, start: u64, end: u64) -> SectorRange {
        SectorRange::new(self.staging_sectors + start, end - start)
    }

    /// Gives the arm a command of `owner`, or of cleaning.
    fn send(&mut self, now: Nanoseconds, owner: Option<Token>, (kind, range): (OpKind, SectorRange), fua: bool) {
        let token = Token(self.next_part);
        self.next_part += 1;
        self.owners.insert(token, owner);
        self.hdd.submit(now, token, Command { kind, range, fua });
    }

    /// Returns the parts of a write, each with true if it goes straight to its band.
    fn parts_of_write(&mut self, start: u64, end: u64) -> Vec<(u64, u64, bool)> {
        let known = self.streams.iter().position(|stream| stream.end == start).and_then(|at| self.streams.remove(at));
        let (mut continues, mut is_straight) = (known.is_some(), known.is_some_and(|stream| stream.is_straight));
        let (mut parts, mut at) = (Vec::with_capacity(1), start);
        while at < end {
            let band = at / self.band;
            let (band_start, band_end) = (band * self.band, ((band + 1) * self.band).min(self.capacity.0));
            let part_end = end.min(band_end);
            let is_cleaned = self.cleaning.as_ref().is_some_and(|cleaning| cleaning.band == band);
            let is_whole = at == band_start && part_end == band_end;
            is_straight = !is_cleaned && (is_whole || continues && (is_straight || at == band_start));
            if is_straight && at == band_start {
                self.half_written.remove(&band);
            }
            parts.push((at, part_end, is_straight));
            (at, continues) = (part_end, true);
        }
        self.streams.push_back(Stream { end, is_straight });
        if self.streams.len() > STREAMS
            && let Some(left) = self.streams.pop_front()
            && left.is_straight
            && left.end % self.band != 0
        {
            self.half_written.insert(left.end / self.band);
        }
        parts
    }

    /// Sends the parts of a command, or lets them wait for room. Returns their number.
    fn divide(&mut self, now: Nanoseconds, whole: &Pending) -> usize {
        let (start, end, owner) = (whole.start, whole.end(), Some(whole.token));
        match whole.kind {
            OpKind::Read if whole.sectors > 0 => {
                let pieces = self.staging.pieces(start, end);
                for piece in &pieces {
                    let range = match piece.staged_at {
                        Some(at) => SectorRange::new(at, piece.end - piece.start),
                        None => self.on_tracks(piece.start, piece.end),
                    };
                    self.send(now, owner, (OpKind::Read, range), false);
                }
                pieces.len()
            }
            OpKind::Write | OpKind::WriteZeroes if whole.sectors > 0 => {
                let parts = self.parts_of_write(start, end);
                for &(start, end, is_straight) in &parts {
                    if is_straight {
                        self.staging.forget(start, end);
                        self.send(now, owner, (whole.kind, self.on_tracks(start, end)), whole.fua);
                    } else {
                        self.waiting.push_back(Waiting { token: whole.token, start, end });
                    }
                }
                parts.len()
            }
            kind => {
                self.send(now, owner, (kind, NOWHERE), whole.fua);
                1
            }
        }
    }

    /// Stages waiting writes while there is room, and continues to clean if cleaning is due.
    fn go_on(&mut self, now: Nanoseconds) {
        loop {
            while let Some(&Waiting { token, start, end }) = self.waiting.front()
                && self.staging.has_room(end - start)
            {
                self.waiting.pop_front();
                let Pending { kind, fua, .. } = self.under_way[&token].whole;
                let range = SectorRange::new(self.staging.append(start, end), end - start);
                self.account.hdd.staged_writes += 1;
                self.send(now, Some(token), (kind, range), fua);
            }
            if self.is_at_work || !self.wants_to_clean(now) {
                return;
            }
            let Some(cleaning) = &mut self.cleaning else {
                self.cleaning = self.begin_cleaning();
                if self.cleaning.is_none() {
                    return;
                }
                continue;
            };
            if let Some((kind, range)) = cleaning.steps.pop_front() {
                self.is_at_work = true;
                self.send(now, None, (kind, range), true);
                return;
            }
            self.end_cleaning();
        }
    }

    fn wants_to_clean(&self, now: Nanoseconds) -> bool {
        !self.waiting.is_empty() || self.clean_from_ns().is_some_and(|from_ns| from_ns <= now.0)
    }

    /// Returns the time from which the idle drive cleans, if there is anything to clean.
    fn clean_from_ns(&self) -> Option<u64> {
        let has_work = self.cleaning.is_some() || !self.half_written.is_empty() || !self.staging.is_empty();
        (has_work && self.under_way.is_empty()).then(|| self.idle_since_ns.saturating_add(self.clean_after_ns))
    }

    /// Chooses the next band: a band that is half written, or otherwise the band of the oldest
    /// staged write.
    fn begin_cleaning(&mut self) -> Option<Cleaning> {
        let half_written = self.half_written.pop_first();
        let band = half_written.or_else(|| self.staging.oldest().map(|oldest| oldest / self.band))?;
        let (start, end) = (band * self.band, ((band + 1) * self.band).min(self.capacity.0));
        for stream in self.streams.iter_mut().filter(|stream| stream.end > start && stream.end < end) {
            stream.is_straight = false;
        }
        let tracks = |kind: OpKind| {
            let steps = (start..end).step_by(STEP_SECTORS as usize);
            steps.map(move |at| (kind, SectorRange::new(at, STEP_SECTORS.min(end - at))))
        };
        let home = |(kind, range): (OpKind, SectorRange)| (kind, self.on_tracks(range.start.0, range.end().0));
        let pieces = self.staging.pieces(start, end);
        let mut staged: Vec<SectorRange> = pieces
            .iter()
            .filter_map(|piece| Some(SectorRange::new(piece.staged_at?, piece.end - piece.start)))
            .collect();
        staged.sort_by_key(|range| range.start);
        let steps = tracks(OpKind::Read)
            .map(home)
            .chain(staged.into_iter().map(|range| (OpKind::Read, range)))
            .chain(tracks(OpKind::Write).map(home))
            .collect();
        Some(Cleaning { band, until: self.staging.appended(), steps })
    }

    fn end_cleaning(&mut self) {
        if let Some(Cleaning { band, until, .. }) = self.cleaning.take() {
            self.staging.forget_older(band * self.band, (band + 1) * self.band, until);
            self.account.hdd.bands_cleaned += 1;
        }
    }

    /// Counts the end of a part, and appends its command if this was the last part.
    fn end_part(&mut self, part: Finished, finished: &mut Vec<Finished>) {
        let Some(owner) = self.owners.remove(&part.token).expect("a part that was sent") else {
            self.is_at_work = false;
            return;
        };
        let divided = self.under_way.get_mut(&owner).expect("a command under way");
        divided.parts_left -= 1;
        if divided.parts_left == 0 {
            let whole = divided.whole;
            self.under_way.remove(&owner);
            finished.push(self.account.finish(&whole, part.at.0));
            if self.under_way.is_empty() {
                self.idle_since_ns = part.at.0;
            }
        }
    }
}

impl DeviceModel for ShingledHdd {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        assert!(command.range.end() <= self.capacity, "{command:?} is not on a drive of {}", self.capacity);
        let Command { kind, range, fua } = command;
        let whole = Pending { token, kind, fua, start: range.start.0, sectors: range.len.0, ready_ns: now.0 };
        let known = self.under_way.insert(token, Divided { whole, parts_left: usize::MAX });
        assert!(known.is_none(), "{token:?} is under way already");
        let parts_left = self.divide(now, &whole);
        self.under_way.insert(token, Divided { whole, parts_left });
        self.go_on(now);
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        let cleans_at = self.clean_from_ns().filter(|_| !self.is_at_work).map(Nanoseconds);
        self.hdd.next_event().into_iter().chain(cleans_at).min()
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        while let Some(event) = self.next_event().filter(|&event| event <= now) {
            let mut ended = std::mem::take(&mut self.ended);
            self.hdd.advance(event, &mut ended);
            for part in ended.drain(..) {
                self.end_part(part, finished);
            }
            self.ended = ended;
            self.go_on(event);
        }
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        let of_arm = self.hdd.statistics(now);
        let mut all = self.account.counters_at(now, true);
        (all.busy, all.energy_joules) = (of_arm.busy, of_arm.energy_joules);
        all.hdd = of_arm.hdd;
        if let Some(hdd) = &mut all.hdd {
            hdd.staged_writes = self.account.hdd.staged_writes;
            hdd.bands_cleaned = self.account.hdd.bands_cleaned;
        }
        all
    }
}
