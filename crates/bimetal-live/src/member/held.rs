//! A volume in our hands: its drives are locked, its labels are ours to write, and its guard is ours to raise and lower.
//!
//! [`Held::take`] locks and changes nothing that matters, so that a recovery may still refuse; with leave to do so it puts the
//! header back that something else wrote over. [`Held::begin`] comes after it and before anything is served: it writes the next
//! generation of the labels, from which on a drive that was not there is behind, and raises the guard of the home drive. At the
//! end [`Held::close`] and, after a drain, with the drives flushed, [`Held::lower_guard`], which makes the home drive a plain one
//! again, write them too. The drives that operations go to are opened by the caller, who lets [`Held::wrap`] have each.
//!
//! Labels are written twice over each time. A label knows a drive by two writings, of which one may have been cut short; so a
//! copy of a drive from before, brought back later, carries none that the others know, and is not taken for the drive.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bimetal_core::guard::change::{Answer, Change, ChangeError, Step};
use bimetal_core::guard::header::header;
use bimetal_core::guard::{Area, GUARDED};
use bimetal_core::label::lifetime::Lifetime;
use bimetal_core::label::report::{AcceptedLoss, Report};
use bimetal_core::label::{Format, Guard, Label, Uuid, usable};
use bimetal_core::layout::MemberId;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange};
use rustix::io::Errno;

use super::create::{random, seconds_since_1970};
use super::find::{Labelled, Located};
use super::labels::{self, LabelError};
use super::lock::{DriveLock, LockError, VolumeLock};
use super::probe::Probe;
use super::{registry, report};
use crate::drive::Drive;
use crate::drive::absent::Absent;
use crate::drive::guarded::Guarded;

/// Why a volume cannot be taken, or its labels or guard not changed.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// A drive is in use, mounted or part of another device.
    #[error("{}: is in use: {uses}", path.display())]
    InUse {
        /// The drive.
        path: PathBuf,
        /// By whom, and what ends it.
        uses: String,
    },
    /// A change of sizes was cut short.
    #[error("volume '{0}' is being resized, and that was cut short: finish it with `bimetal resize {0}`")]
    Resizing(String),
    /// Another program has written over the end of a drive.
    #[error(
        "{}: another program has written over its label as {member} of volume '{name}', and a second copy is left: `bimetal rescue \
         {name}` says what else it wrote over, and writes the label again", path.display()
    )]
    LabelLost {
        /// The volume.
        name: String,
        /// The member.
        member: String,
        /// The drive.
        path: PathBuf,
    },
    /// Somebody has the volume or one of its drives.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A label cannot be written.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The guard cannot be raised or lowered.
    #[error("{}: {error}", path.display())]
    Guard {
        /// The drive.
        path: PathBuf,
        /// Why not.
        error: ChangeError,
    },
    /// A drive or the system fails.
    #[error("{}: {error}", path.display())]
    Io {
        /// What fails.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// A member that is there.
#[derive(Debug)]
struct Present {
    id: MemberId,
    probe: Probe,
    next_turn: usize,
    /// The writing of labels that it carries.
    carried: u64,
    /// What it had done before it was taken.
    before: Lifetime,
}

/// See the [module](self). Lets go of everything when it is dropped; the guard stays where it is.
#[derive(Debug)]
pub struct Held {
    label: Label,
    present: Vec<Present>,
    lock: VolumeLock,
    /// The report as it lies on the members.
    report: Report,
    /// The report is doubtful only until it is known what this start gave up.
    expects_loss: bool,
    /// Whether what something else wrote over the guarded drive's header was overwritten.
    overwrote: bool,
    /// The first drive whose second copy of the label could not be written, and why.
    copy_failed: Option<String>,
}

impl Held {
    /// Locks the members that are there. Where the guard is up, its two copies are made equal.
    ///
    /// # Errors
    /// A drive is in use or fails, or something wrote to the guarded drive without the volume.
    pub fn take(located: &Located) -> Result<Self, HoldError> {
        Self::take_with(located, false)
    }

    /// As [`take`](Self::take); what something else wrote over the beginning of the guarded drive is given up.
    ///
    /// # Errors
    /// A drive is in use or fails.
    pub fn take_overwriting(located: &Located) -> Result<Self, HoldError> {
        Self::take_with(located, true)
    }

    fn take_with(located: &Located, overwrites: bool) -> Result<Self, HoldError> {
        let label = located.assembly.label.clone();
        if located.assembly.resizing {
            return Err(HoldError::Resizing(label.name));
        }
        let drives = located.members().enumerate().filter_map(|(at, drive)| Some((MemberId(at as u16), drive?)));
        let drives: Vec<(MemberId, &Labelled)> = drives.collect();
        if let Some((id, drive)) = drives.iter().find(|(_, drive)| drive.by_second_copy) {
            let (member, path) = (label.member_name(*id), drive.probe.path.clone());
            return Err(HoldError::LabelLost { name: label.name, member, path });
        }
        let present: Vec<Present> = drives
            .into_iter()
            .map(|(id, drive)| Present {
                id,
                probe: drive.probe.clone(),
                next_turn: drive.next_turn,
                carried: drive.found.label.writing,
                before: Lifetime::default(),
            })
            .collect();
        let lock = lock(&label.name, present.iter().map(|member| &member.probe))?;
        let mut held = Self {
            label,
            present,
            lock,
            report: Report::default(),
            expects_loss: false,
            overwrote: false,
            copy_failed: None,
        };
        for (member, lock) in held.present.iter_mut().zip(&held.lock.drives) {
            let size = held.label.members[usize::from(member.id.0)].size;
            let volume = held.label.volume.identity();
            // Figures that cannot be read are no reason not to serve.
            let before = labels::read_lifetime(lock.file(), size, &member.probe.path, volume);
            member.before = before.unwrap_or_default();
        }
        held.report = held.read_report();
        if held.guard_is_up() {
            held.move_guard(Guard::Up, overwrites)?;
        }
        Ok(held)
    }

    /// Whether something else had written over the beginning of the guarded drive, and that was given up.
    pub fn has_overwritten(&self) -> bool {
        self.overwrote
    }

    /// The first drive whose second copy of the label could not be written, and why: its first copy is all that it has.
    pub fn copy_failed(&self) -> Option<&str> {
        self.copy_failed.as_deref()
    }

    /// What stands on the drives; after [`take`](Self::take), on the newest of them.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Says from the next writing of the labels on that the engine's pages are in the newest form.
    pub(crate) fn use_newest_format(&mut self) {
        self.label.format = Format::NEWEST;
    }

    /// `drive`, which carries out the operations on `member`, as the volume is to see it: where the guard is up, without the
    /// header.
    pub fn wrap(&self, member: MemberId, drive: Box<dyn Drive>) -> Box<dyn Drive> {
        match self.label.area_of(member) {
            Some(area) if self.guard_is_up() => Box::new(Guarded::new(drive, area)),
            _ => drive,
        }
    }

    /// Writes the next generation of the labels and raises the guard, before anything is served. `drives` are those of
    /// all members, in order, with nothing under way; the one that is guarded from now on is wrapped.
    ///
    /// # Errors
    /// A drive fails. It can be tried again.
    pub fn begin(&mut self, drives: &mut [Box<dyn Drive>]) -> Result<(), HoldError> {
        match self.guarded() {
            Some((member, at)) if !self.guard_is_up() => self.raise_guard(member, at, drives)?,
            _ => self.relabel(|_| {})?,
        }
        // Where this fails, drives that have grown are found by their paths only.
        let _ = registry::remember_sizes(&self.label);
        self.relabel(|_| {})
    }

    fn raise_guard(&mut self, member: MemberId, at: usize, drives: &mut [Box<dyn Drive>]) -> Result<(), HoldError> {
        self.move_guard(Guard::Up, false)?;
        let Some(area) = self.label.area_of(member) else { return Ok(()) };
        let drive = &mut drives[usize::from(self.present[at].id.0)];
        let stand_in =
            Absent::new().map_err(|error| HoldError::Io { path: self.present[at].probe.path.clone(), error })?;
        let plain = std::mem::replace(drive, Box::new(stand_in));
        *drive = Box::new(Guarded::new(plain, area));
        Ok(())
    }

    /// Makes the home drive a plain one again. Only after a drain, with all drives flushed and closed.
    ///
    /// # Errors
    /// A drive fails. Nothing is lost; it can be tried again.
    pub fn lower_guard(&mut self) -> Result<(), HoldError> {
        self.move_guard(Guard::Down, false)?;
        self.relabel(|_| {})
    }

    /// Writes the labels after serving, with all drives flushed and closed. A copy of a drive that was made while the volume
    /// was being served is none of its drives from then on.
    ///
    /// # Errors
    /// A drive fails. Nothing is lost.
    pub fn close(&mut self) -> Result<(), HoldError> {
        self.relabel_twice()
    }

    /// After it no label knows what a drive carried that is not there, or a copy of one that is.
    fn relabel_twice(&mut self) -> Result<(), HoldError> {
        self.relabel(|_| {})?;
        self.relabel(|_| {})
    }

    /// Writes the next generation of the labels to all that are there, changed by `change`: settings, or a member.
    ///
    /// # Errors
    /// A label cannot be written; some may have been.
    pub fn relabel(&mut self, change: impl FnOnce(&mut Label)) -> Result<(), HoldError> {
        let there = self.present.iter().map(|member| (member.id, member.carried));
        let mut label = self.label.next(seconds_since_1970(), writing()?, there);
        change(&mut label);
        self.label = label;
        self.write_labels()
    }

    /// What a member that is there had done before it was taken.
    pub fn lifetime(&self, member: MemberId) -> Lifetime {
        self.present.iter().find(|present| present.id == member).map(|present| present.before).unwrap_or_default()
    }

    /// Writes down what members have done since they were taken: bytes written to each, in order, and for how many seconds
    /// they were served.
    ///
    /// # Errors
    /// A drive fails.
    pub fn keep_lifetimes(&self, written: &[Bytes], served_s: u64) -> Result<(), HoldError> {
        let mut kept = Ok(());
        for (member, lock) in self.present.iter().zip(&self.lock.drives) {
            let number = usize::from(member.id.0);
            let now = member.before.and(written.get(number).copied().unwrap_or_default(), served_s);
            // The same page each time until the next start: of two the other one is whole whenever this is cut short.
            let (size, volume) = (self.label.members[number].size, self.label.volume.identity());
            kept = kept.and(labels::write_lifetime(lock.file(), size, &member.probe.path, volume, now));
        }
        Ok(kept?)
    }

    /// The report as it lies on the members.
    pub fn report(&self) -> &Report {
        &self.report
    }

    fn read_report(&self) -> Report {
        let there = self.present.iter().zip(&self.lock.drives);
        let pages = there.filter_map(|(member, lock)| {
            report::read(lock.file(), self.label.members[usize::from(member.id.0)].size, &member.probe.path).ok()
        });
        report::newest(&self.label, &pages.collect::<Vec<_>>())
    }

    /// Writes `report` on every member that is there, as the newest.
    ///
    /// # Errors
    /// No member takes it. The report of before holds then.
    pub fn keep_report(&mut self, report: &Report) -> Result<(), HoldError> {
        let report = report.numbered(self.report.sequence.saturating_add(1));
        let volume = self.label.volume.identity();
        let (mut written, mut refused) = (false, None);
        for (member, lock) in self.present.iter().zip(&self.lock.drives) {
            let size = self.label.members[usize::from(member.id.0)].size;
            match report::write(lock.file(), size, &member.probe.path, volume, &report) {
                Ok(()) => written = true,
                Err(error) => refused = Some(error),
            }
        }
        match refused.filter(|_| !written) {
            Some(error) => Err(error.into()),
            None => {
                self.report = report;
                Ok(())
            }
        }
    }

    /// Says in the report that a recovery begins which may give something up. So a power cut behind the recovery leaves a doubt, and
    /// not a volume that has forgotten its loss.
    ///
    /// # Errors
    /// As [`keep_report`](Self::keep_report).
    pub(crate) fn expect_loss(&mut self) -> Result<(), HoldError> {
        let mut report = self.report.clone();
        self.expects_loss = report.expect_loss(seconds_since_1970());
        self.keep_report(&report)
    }

    /// Writes into the report what the recovery gave up.
    ///
    /// # Errors
    /// As [`keep_report`](Self::keep_report).
    pub(crate) fn keep_losses(&mut self, losses: &[AcceptedLoss]) -> Result<(), HoldError> {
        let mut report = self.report.clone();
        if std::mem::take(&mut self.expects_loss) {
            report.loss_is_known();
        }
        losses.iter().for_each(|&loss| report.accept(loss));
        self.keep_report(&report)
    }

    /// Nothing but what keeps others away.
    pub(super) fn into_lock(self) -> VolumeLock {
        self.lock
    }

    /// Lets go of a member that nobody needs any more, and says so on the other labels: whatever becomes of the drive, it is none of
    /// the volume's from now on.
    ///
    /// # Errors
    /// A drive fails. The member is let go all the same.
    pub fn let_go(&mut self, member: MemberId) -> Result<(), HoldError> {
        self.release(member);
        self.relabel_twice()
    }

    /// Lets go of a member that is to be replaced.
    pub fn release(&mut self, member: MemberId) {
        if let Some(at) = self.present.iter().position(|present| present.id == member) {
            self.present.remove(at);
            self.lock.drives.remove(at);
        }
    }

    /// Takes a formatted drive, at least as large, in the place of a member that is gone, under a UUID of its own, and writes
    /// that on all labels. A larger one has a second label at its own end, which points to the first.
    ///
    /// # Errors
    /// A label cannot be written.
    pub fn admit(&mut self, member: MemberId, probe: Probe, lock: DriveLock) -> Result<(), HoldError> {
        let bits = random().map_err(|error| HoldError::Io { path: PathBuf::from("/dev/urandom"), error })?;
        self.release(member);
        let at = self.present.iter().position(|present| present.id > member).unwrap_or(self.present.len());
        self.present.insert(at, Present { id: member, probe, next_turn: 0, carried: 0, before: Lifetime::default() });
        self.lock.drives.insert(at, lock);
        self.relabel(|label| label.members[usize::from(member.0)].uuid = Uuid::from_random(bits))?;
        let (file, path) = (self.lock.drives[at].file(), &self.present[at].probe.path);
        let size = self.label.members[usize::from(member.0)].size;
        // It is on the others, too.
        let _ = report::place(file, size, path, self.label.volume.identity(), &self.report);
        let own = usable(self.present[at].probe.size);
        if own != self.label.members[usize::from(member.0)].size {
            labels::place(file, own, path, &self.label.of(member))?;
        }
        Ok(())
    }

    fn guard_is_up(&self) -> bool {
        matches!(self.label.guard, Some((_, Guard::Up)))
    }

    /// The member with a guard, if there is one and it is there, and its place among those.
    fn guarded(&self) -> Option<(MemberId, usize)> {
        let (member, _) = self.label.guard?;
        Some((member, self.present.iter().position(|present| present.id == member)?))
    }

    /// The guarded drive's label first: what it says of itself is what counts when it is alone. Another one that
    /// refuses to be written keeps the label that it has: the others say which that is.
    fn write_labels(&mut self) -> Result<(), HoldError> {
        let guarded = self.label.guard.map(|(member, _)| member);
        let mut order: Vec<usize> = (0..self.present.len()).collect();
        order.sort_by_key(|&at| Some(self.present[at].id) != guarded);
        let (mut written, mut refused) = (false, None);
        for at in order {
            let Present { id, probe, next_turn, carried, .. } = &mut self.present[at];
            let (file, size) = (self.lock.drives[at].file(), self.label.members[usize::from(id.0)].size);
            let label = self.label.of(*id);
            let outcome = match *carried {
                // A drive that was none of this volume's may have anything where its label goes.
                0 => labels::place(file, size, &probe.path, &label),
                _ => labels::write(file, size, &probe.path, &label, *next_turn),
            };
            match outcome {
                Ok(label) => {
                    (*next_turn, *carried) = (label.next_turn, self.label.writing);
                    if let Some(error) = label.copy_failed {
                        self.copy_failed.get_or_insert_with(|| format!("{}: {error}", probe.path.display()));
                    }
                    written = true;
                }
                Err(error @ LabelError::Io { .. }) if *carried != 0 && Some(*id) != guarded => refused = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        refused.filter(|_| !written).map_or(Ok(()), |error| Err(error.into()))
    }

    /// With `overwrites`, what something else wrote over the header is given up.
    fn move_guard(&mut self, goal: Guard, overwrites: bool) -> Result<(), HoldError> {
        let (Some((_, now)), Some((member, at))) = (self.label.guard, self.guarded()) else { return Ok(()) };
        let Some(area) = self.label.area_of(member) else { return Ok(()) };
        let path = self.present[at].probe.path.clone();
        let mut change = begin(area, now, goal, &self.label.of(member));
        if overwrites {
            change = change.overwrite_foreign();
        }
        loop {
            let answer = match change.next() {
                Step::Finished => {
                    self.overwrote |= change.overwrote().is_some();
                    return Ok(());
                }
                Step::Label(guard) => {
                    self.relabel(|label| label.guard = Some((member, guard)))?;
                    Answer::Done
                }
                step => perform(self.lock.drives[at].file(), step)
                    .map_err(|error| HoldError::Io { path: path.clone(), error })?,
            };
            change.answer(answer).map_err(|error| HoldError::Guard { path: path.clone(), error })?;
        }
    }
}

/// That another process has the volume says more than that its drives are in use, and what a drive is used for more than
/// that it is.
pub(super) fn lock<'a>(name: &str, present: impl Iterator<Item = &'a Probe> + Clone) -> Result<VolumeLock, HoldError> {
    let lock = VolumeLock::take(name, present.clone());
    if !matches!(lock, Err(LockError::Volume { .. })) {
        for probe in present {
            if let Some(first) = probe.uses.first() {
                return Err(HoldError::InUse { path: probe.path.clone(), uses: first.describe() });
            }
        }
    }
    Ok(lock?)
}

fn begin(area: Area, now: Guard, goal: Guard, label: &Label) -> Change {
    let header = header(label, GUARDED.bytes().0 as usize);
    match goal {
        Guard::Up => Change::raise(area, now, header),
        Guard::Down => Change::lower(area, now, header),
    }
}

/// The first sector in the header's place that something else wrote, on the drive of the member that carries `label`. `None`
/// where nothing was, where the guard is down, and where that cannot be told.
pub(crate) fn foreign_sector(label: &Label, file: &File) -> Option<u64> {
    let (_, guard) = label.guard.filter(|&(member, guard)| member == label.index && guard == Guard::Up)?;
    let mut change = begin(label.area_of(label.index)?, guard, Guard::Up, label);
    loop {
        let step = change.next();
        if !matches!(step, Step::Read(_)) {
            return None;
        }
        match change.answer(perform(file, step).ok()?) {
            Ok(()) => {}
            Err(ChangeError::Changed(sector)) => return Some(sector),
            Err(ChangeError::Unreadable(_)) => return None,
        }
    }
}

fn perform(file: &File, step: Step) -> io::Result<Answer> {
    match step {
        Step::Read(SectorRange { start, len }) => {
            let mut bytes = vec![0; len.bytes().0 as usize];
            match file.read_exact_at(&mut bytes, start.bytes().0) {
                Ok(()) => Ok(Answer::Bytes(bytes)),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(Answer::Unreadable),
                Err(error) => Err(error),
            }
        }
        Step::Write(from, bytes) => file.write_all_at(&bytes, from * SECTOR_BYTES).map(|()| Answer::Done),
        Step::Flush => file.sync_all().map(|()| Answer::Done),
        Step::Label(_) | Step::Finished => Ok(Answer::Done),
    }
}

fn writing() -> Result<u64, HoldError> {
    let random = random().map_err(|error| HoldError::Io { path: PathBuf::from("/dev/urandom"), error })?;
    Ok(u64::from_le_bytes(random))
}
