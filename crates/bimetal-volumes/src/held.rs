//! Volume that this process holds: its drives are locked, and only this process may change its
//! labels and its guard.
//!
//! 1. [`Held::take`] locks the drives and changes no content of the volume, so that the recovery
//!    may still refuse to start it. With permission of the user, `take` restores a header that
//!    another program has overwritten.
//! 2. [`Held::begin`] follows, before the volume is served. `begin` writes the next generation of
//!    the labels, so that a drive that is missing now is outdated from then on. `begin` also raises
//!    the guard of the home drive.
//! 3. [`Held::close`] writes the labels at the end. [`Held::lower_guard`] also writes the labels,
//!    after a drain and with the drives flushed, and makes the home drive a plain disk again.
//!
//! The caller opens the drives for operations and passes each to [`Held::wrap`].
//!
//! Each time, the labels are written twice. Each label records two writings of a drive's label,
//! because a crash may have interrupted one of them. So an old copy of a drive, brought back later,
//! has no writing that the other labels know, and is not accepted as the current drive.

use std::collections::BTreeMap;
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
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange, Sectors, counted};
use bimetal_device::drive::Drive;
use bimetal_device::drive::absent::Absent;
use bimetal_device::drive::guarded::Guarded;
use bimetal_device::lock::DriveLock;
use bimetal_device::probe::Probe;
use rustix::io::Errno;

use crate::find::{Labelled, Located};
use crate::label_pages::{LabelPages, count_bad_at_start, has_label};
use crate::labels::{self, LabelError};
use crate::registry;
use crate::report;
use crate::system::{random, seconds_since_1970};
use crate::volume_lock::{VolumeLock, VolumeLockError};

/// Reasons for which a volume cannot be held, or its labels or guard cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// A drive is in use, mounted or part of another device.
    #[error("{}: is in use: {uses}", path.display())]
    InUse {
        /// Path of the drive.
        path: PathBuf,
        /// Use of the drive, and the command that ends it.
        uses: String,
    },
    /// A change of sizes was interrupted.
    #[error("volume '{0}' is being resized, and the resize was interrupted: finish it with `bimetal resize {0}`")]
    Resizing(String),
    /// Another program has overwritten the end of a drive.
    #[error(
        "{}: another program has written over its label as {member} of volume '{name}', and the second copy is \
         intact: `bimetal rescue {name}` reports the other damage, and writes the label again", path.display()
    )]
    LabelLost {
        /// Name of the volume.
        name: String,
        /// Name of the member.
        member: String,
        /// Path of the drive.
        path: PathBuf,
    },
    /// Another command has written the labels meanwhile.
    #[error("volume '{0}' was changed by another command meanwhile: run this command again")]
    Changed(String),
    /// Another process holds the volume or one of its drives.
    #[error(transparent)]
    Lock(#[from] VolumeLockError),
    /// A label cannot be written.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The guard cannot be raised or lowered.
    #[error("{}: {error}", path.display())]
    Guard {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the change.
        error: ChangeError,
    },
    /// A drive or the system fails.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path that fails.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Member whose drive is present.
#[derive(Debug)]
struct Present {
    id: MemberId,
    probe: Probe,
    next_turn: usize,
    /// Writing of the label that the drive has.
    carried: u64,
    /// Totals of the drive before it was taken.
    before: Lifetime,
}

/// See the [module](self). Releases all locks when it is dropped; the guard is not changed.
#[derive(Debug)]
pub struct Held {
    label: Label,
    present: Vec<Present>,
    lock: VolumeLock,
    /// Report on the members.
    report: Report,
    /// Set while the report is doubtful only because the losses of this start are not known yet.
    expects_loss: bool,
    /// Set if foreign content in the place of the guarded drive's header was overwritten.
    overwrote: bool,
    /// Sectors of the guarded drive's beginning whose two copies differed at a change of the guard.
    differing: Vec<u64>,
    /// First drive whose second copy of the label could not be written, with the error.
    copy_failed: Option<String>,
    /// Number of label pages on each member that were bad when the volume was taken.
    bad_label_pages: BTreeMap<MemberId, u64>,
}

impl Held {
    /// Locks the members that are present. If the guard is up, the two copies of the drive's
    /// beginning are made equal.
    ///
    /// # Errors
    /// Fails if a drive is in use or fails, or if another program has written to the guarded drive.
    pub fn take(located: &Located) -> Result<Self, HoldError> {
        Self::take_with(located, false)
    }

    /// Does the same as [`take`](Self::take), and overwrites foreign content at the beginning of
    /// the guarded drive.
    ///
    /// # Errors
    /// Fails if a drive is in use or fails.
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
            .iter()
            .map(|&(id, drive)| Present {
                id,
                probe: drive.probe.clone(),
                next_turn: drive.next_turn,
                carried: drive.found.label.writing,
                before: Lifetime::default(),
            })
            .collect();
        let lock = lock_unchanged(&label.name, drives.iter().map(|&(_, drive)| drive))?;
        let mut held = Self {
            label,
            present,
            lock,
            report: Report::default(),
            expects_loss: false,
            overwrote: false,
            differing: Vec::new(),
            copy_failed: None,
            bad_label_pages: BTreeMap::new(),
        };
        held.bad_label_pages = held.count_bad_at_start();
        for (member, lock) in held.present.iter_mut().zip(&held.lock.drives) {
            let size = held.label.members[usize::from(member.id.0)].size;
            let volume = held.label.volume.identity();
            // Unreadable totals do not prevent serving.
            let before = labels::read_lifetime(lock.file(), size, &member.probe.path, volume);
            member.before = before.unwrap_or_default();
        }
        held.report = held.read_report();
        if held.guard_is_up() {
            held.move_guard(Guard::Up, overwrites)?;
        }
        Ok(held)
    }

    /// Returns true if foreign content at the beginning of the guarded drive was overwritten.
    pub fn has_overwritten(&self) -> bool {
        self.overwrote
    }

    /// Tells of the sectors of the guarded drive's beginning whose two copies differed when the
    /// guard was raised or lowered; `None` if there were none.
    pub fn copies_that_differed(&self) -> Option<String> {
        let first = self.differing.first()?;
        Some(format!(
            "'{}': the two copies of the home drive's first MiB differed in {}, from sector {first} on, and the \
             first copy was taken. This is normal after a crash amid writes. Otherwise one of the copies is damaged, and \
             nothing tells which: check the file systems on the volume",
            self.label.name,
            counted(self.differing.len() as u64, "sector")
        ))
    }

    /// Returns the first drive whose second copy of the label could not be written, with the error.
    /// On this drive only the first copy of the label is valid.
    pub fn copy_failed(&self) -> Option<&str> {
        self.copy_failed.as_deref()
    }

    /// Returns the label on the drives; after [`take`](Self::take), the newest label.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Records in the next labels that the engine's pages have the newest format.
    pub(crate) fn use_newest_format(&mut self) {
        self.label.format = Format::NEWEST;
    }

    /// Returns `drive`, which carries out the operations on `member`, as the volume sees it:
    /// without the header if the guard is up.
    pub fn wrap(&self, member: MemberId, drive: Box<dyn Drive>) -> Box<dyn Drive> {
        match self.label.area_of(member) {
            Some(area) if self.guard_is_up() => Box::new(Guarded::new(drive, area)),
            _ => drive,
        }
    }

    /// Writes the next generation of the labels and raises the guard, before the volume is served.
    /// `drives` are the drives of all members, in order, without operations under way; the drive
    /// that becomes guarded is wrapped.
    ///
    /// # Errors
    /// Fails if a drive fails. After an error the call can be repeated.
    pub fn begin(&mut self, drives: &mut [Box<dyn Drive>]) -> Result<(), HoldError> {
        match self.guarded() {
            Some((member, at)) if !self.guard_is_up() => self.raise_guard(member, at, drives)?,
            _ => self.relabel(|_| {})?,
        }
        // If this fails, drives that have grown are found by their paths only.
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

    /// Makes the home drive a plain disk again. Call it only after a drain, with all drives flushed
    /// and closed.
    ///
    /// # Errors
    /// Fails if a drive fails. After an error nothing is lost, and the call can be repeated.
    pub fn lower_guard(&mut self) -> Result<(), HoldError> {
        self.move_guard(Guard::Down, false)?;
        self.relabel(|_| {})
    }

    /// Writes the labels after serving, with all drives flushed and closed. After the labels were
    /// written, a drive's image that was copied while the volume was served is no longer accepted
    /// as that drive.
    ///
    /// # Errors
    /// Fails if a drive fails. Nothing is lost.
    pub fn close(&mut self) -> Result<(), HoldError> {
        self.relabel_twice()
    }

    /// Writes the labels of all present members twice. After these two writings, no label knows the
    /// writing on a missing drive, or on a copy of a present drive.
    fn relabel_twice(&mut self) -> Result<(), HoldError> {
        self.relabel(|_| {})?;
        self.relabel(|_| {})
    }

    /// Writes the next generation of the labels to all present members, changed by `change`:
    /// settings, or a member.
    ///
    /// # Errors
    /// Fails if a label cannot be written; others may have been written.
    pub fn relabel(&mut self, change: impl FnOnce(&mut Label)) -> Result<(), HoldError> {
        let there = self.present.iter().map(|member| (member.id, member.carried));
        let mut label = self.label.next(seconds_since_1970(), writing()?, there);
        change(&mut label);
        self.label = label;
        self.write_labels()
    }

    /// Counts the bad label pages of each present member. Members without any are left out. Format
    /// 1 has first pages only.
    fn count_bad_at_start(&self) -> BTreeMap<MemberId, u64> {
        let there = self.present.iter().zip(&self.lock.drives).map(|(member, lock)| {
            let (label, size) = (self.label.of(member.id), self.size_of(member));
            let copies = if label.format == Format::NEWEST { 2 } else { 1 };
            (member.id, count_bad_at_start(lock.file(), &label, size, 1 - member.next_turn, copies))
        });
        there.filter(|(_, bad)| *bad > 0).collect()
    }

    fn size_of(&self, member: &Present) -> Sectors {
        self.label.members[usize::from(member.id.0)].size
    }

    /// Returns the number of label pages on each member that were bad when the volume was taken.
    /// [`begin`](Self::begin) writes them again.
    pub fn bad_label_pages(&self) -> &BTreeMap<MemberId, u64> {
        &self.bad_label_pages
    }

    /// Returns the label pages of those of `members` that are present, after
    /// [`begin`](Self::begin). A drive that cannot be opened once more is left out.
    pub fn label_pages(&self, members: &[MemberId]) -> Vec<(MemberId, LabelPages)> {
        let there = self.present.iter().zip(&self.lock.drives).filter(|(member, _)| members.contains(&member.id));
        let pages = there.filter_map(|(member, lock)| {
            let (label, size) = (self.label.of(member.id), self.size_of(member));
            let pages = LabelPages::new(lock.file(), label, size, 1 - member.next_turn, member.carried);
            Some((member.id, pages.ok()?))
        });
        pages.collect()
    }

    /// Reads the label pages of `members`, and writes the bad pages again. Returns the numbers of
    /// bad pages on each member, before and after.
    pub fn mend_labels(&self, members: &[MemberId]) -> [BTreeMap<MemberId, u64>; 2] {
        let pages = self.label_pages(members);
        let count = || -> BTreeMap<MemberId, u64> {
            pages.iter().map(|(member, pages)| (*member, pages.count_bad())).filter(|(_, bad)| *bad > 0).collect()
        };
        let bad = count();
        let there = self.present.iter().zip(&self.lock.drives).filter(|(member, _)| bad.contains_key(&member.id));
        for (member, lock) in there {
            pages.iter().filter(|(id, _)| *id == member.id).for_each(|(_, pages)| pages.mend(lock.file()));
        }
        let left = count();
        [bad, left]
    }

    /// Returns the totals of a present member before it was taken.
    pub fn lifetime(&self, member: MemberId) -> Lifetime {
        self.present.iter().find(|present| present.id == member).map(|present| present.before).unwrap_or_default()
    }

    /// Writes the totals of members. The written totals are the totals before the members were
    /// taken, plus the bytes written to each, in order, and the seconds of service.
    ///
    /// # Errors
    /// Fails if a drive fails.
    pub fn keep_lifetimes(&self, written: &[Bytes], served_s: u64) -> Result<(), HoldError> {
        let mut kept = Ok(());
        for (member, lock) in self.present.iter().zip(&self.lock.drives) {
            let number = usize::from(member.id.0);
            let now = member.before.and(written.get(number).copied().unwrap_or_default(), served_s);
            // The same page is written each time until the next start, so that the other page stays
            // whole if a write is interrupted.
            let (size, volume) = (self.label.members[number].size, self.label.volume.identity());
            kept = kept.and(labels::write_lifetime(lock.file(), size, &member.probe.path, volume, now));
        }
        Ok(kept?)
    }

    /// Returns the report on the members.
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

    /// Writes `report` to every present member, as the newest.
    ///
    /// # Errors
    /// Fails if no member takes the report. After such an error the previous report stays valid.
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

    /// Records in the report that a recovery with accepted losses begins. So a power cut after the
    /// recovery leaves a doubt about losses, and no loss is forgotten.
    ///
    /// # Errors
    /// Fails for the reasons of [`keep_report`](Self::keep_report).
    pub(crate) fn expect_loss(&mut self) -> Result<(), HoldError> {
        let mut report = self.report.clone();
        self.expects_loss = report.expect_loss(seconds_since_1970());
        self.keep_report(&report)
    }

    /// Records the losses of the recovery in the report.
    ///
    /// # Errors
    /// Fails for the reasons of [`keep_report`](Self::keep_report).
    pub(crate) fn keep_losses(&mut self, losses: &[AcceptedLoss]) -> Result<(), HoldError> {
        let mut report = self.report.clone();
        if std::mem::take(&mut self.expects_loss) {
            report.loss_is_known();
        }
        losses.iter().for_each(|&loss| report.accept(loss));
        self.keep_report(&report)
    }

    /// Returns the locks without the labels and the guard.
    pub(super) fn into_lock(self) -> VolumeLock {
        self.lock
    }

    /// Detaches a member that is no longer needed, and records the detachment in the other labels.
    /// From this record on, the drive does not belong to the volume, even if the drive returns.
    ///
    /// # Errors
    /// Fails if a drive fails. Even after such an error the member is detached.
    pub fn let_go(&mut self, member: MemberId) -> Result<(), HoldError> {
        self.release(member);
        self.relabel_twice()
    }

    /// Returns the name of the present member that has bytes of the drive `found`.
    pub fn overlapping(&self, found: &Probe) -> Option<String> {
        let same = |member: &&Present| member.probe.overlaps(found) || found.overlaps(&member.probe);
        Some(self.label.member_name(self.present.iter().find(same)?.id))
    }

    /// Unlocks a member that is to be replaced.
    pub fn release(&mut self, member: MemberId) {
        if let Some(at) = self.present.iter().position(|present| present.id == member) {
            self.present.remove(at);
            self.lock.drives.remove(at);
        }
    }

    /// Adds a formatted drive, at least as large, in the place of a missing or detached member. The
    /// new UUID of the member is written to all labels. A larger drive has a second label at
    /// its own end, which points to the label at the member's end.
    ///
    /// # Errors
    /// Fails if a label cannot be written.
    pub fn admit(&mut self, (member, uuid): (MemberId, Uuid), probe: Probe, lock: DriveLock) -> Result<(), HoldError> {
        self.release(member);
        let at = self.present.iter().position(|present| present.id > member).unwrap_or(self.present.len());
        self.present.insert(at, Present { id: member, probe, next_turn: 0, carried: 0, before: Lifetime::default() });
        self.lock.drives.insert(at, lock);
        self.relabel(|label| label.members[usize::from(member.0)].uuid = uuid)?;
        // The new drive has its label in one turn alone.
        self.relabel(|_| {})?;
        let (file, path) = (self.lock.drives[at].file(), &self.present[at].probe.path);
        let size = self.label.members[usize::from(member.0)].size;
        // An error is ignored: other members have the report, too.
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

    /// Returns the guarded member, if it is present, with its index among the present members.
    fn guarded(&self) -> Option<(MemberId, usize)> {
        let (member, _) = self.label.guard?;
        Some((member, self.present.iter().position(|present| present.id == member)?))
    }

    /// Writes the labels, first on the guarded drive: if the guarded drive is alone later, only its
    /// own label counts. If another drive fails the write, that drive keeps its old label, and the
    /// other labels prove that its label is old.
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
                // A drive that is new in this volume may have any content in the place of its
                // label.
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
                Err(error @ LabelError::Io { .. }) if *carried != 0 && Some(*id) != guarded => {
                    // The drive may have stored the page, and failed after it.
                    if has_label(file, &label, size, *next_turn) {
                        (*next_turn, *carried) = (1 - *next_turn, self.label.writing);
                    }
                    refused = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        refused.filter(|_| !written).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Raises or lowers the guard. With `overwrites`, foreign content in the header's place is
    /// overwritten.
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
                    self.differing.extend(change.differing());
                    self.differing.sort_unstable();
                    self.differing.dedup();
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

/// Locks a volume. The most specific reason is reported: another process holds the volume, then the
/// use of a drive, then the lock of a drive.
pub(super) fn lock<'a>(name: &str, present: impl Iterator<Item = &'a Probe> + Clone) -> Result<VolumeLock, HoldError> {
    let lock = VolumeLock::take(name, present.clone());
    if !matches!(lock, Err(VolumeLockError::InUse { .. })) {
        for probe in present {
            if let Some(first) = probe.uses.first() {
                return Err(HoldError::InUse { path: probe.path.clone(), uses: first.describe() });
            }
        }
    }
    Ok(lock?)
}

/// Locks a volume on these drives, and refuses it if another command has written their labels since
/// they were found: labels are read before drives are locked.
pub(super) fn lock_unchanged<'a>(
    name: &str,
    drives: impl Iterator<Item = &'a Labelled> + Clone,
) -> Result<VolumeLock, HoldError> {
    let lock = lock(name, drives.clone().map(|drive| &drive.probe))?;
    for (drive, lock) in drives.zip(&lock.drives) {
        let now = labels::read(lock.file(), drive.found.size, &drive.probe.path)?;
        if now.label.writing != drive.found.label.writing || now.by_second_copy != drive.by_second_copy {
            return Err(HoldError::Changed(name.to_owned()));
        }
    }
    Ok(lock)
}

fn begin(area: Area, now: Guard, goal: Guard, label: &Label) -> Change {
    let header = header(label, GUARDED.bytes().0 as usize);
    match goal {
        Guard::Up => Change::raise(area, now, header),
        Guard::Down => Change::lower(area, now, header),
    }
}

/// Returns the first foreign sector in the header's place, on the drive of the member that carries
/// `label`. Returns `None` if no sector is foreign, if the guard is down, or if the drive cannot be
/// read.
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
