//! Wear of a drive under a repeated stream: bytes erased per byte written, once that ratio is
//! steady.

use std::ops::Range;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, SectorRange};
use bimetal_models::flash::geometry::Geometry;
use bimetal_models::flash::{FlashProfile, Precondition};
use bimetal_models::profile::Body;
use bimetal_models::{DeviceModel, Finished};

use super::chunks::{Chunks, hash};
use super::die::OneDie;
use super::record::{Member, Stream, stores};
use super::small::{Played, maps_pages};

/// Number of samples of one stream. The spread of the samples gives the error.
const SAMPLES: u64 = 2;

/// Relative difference between the wear of two windows below which the wear is steady.
const CONVERGED: f64 = 0.01;

/// Number of operations that a drive has at once; further operations wait. The single die of a
/// small drive may get all the operations that all dies of the large drive share. Operations that
/// are not done yet have erased nothing.
const QUEUE_DEPTH: u64 = 32;

/// Largest number of operations for one drive, and largest number of times that it is overwritten,
/// before its wear counts as not converged.
const OPERATIONS_MAX: u64 = 2_000_000;
const TIMES_WRITTEN_MAX: f64 = 64.0;

/// Time at which the repetition ends, before the clock of the simulation overflows: 146 years.
const TIME_MAX: Nanoseconds = Nanoseconds(u64::MAX / 4);

/// Bytes erased for each byte written, in rated cycles: blocks with one bit in each cell count as
/// [`cycles_of`](bimetal_models::endurance::cycles_of) counts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wear {
    pub(super) mean: f64,
    /// Lowest and highest wear of any sample.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Factor by which the real drive is larger than the played drive.
    pub(super) factor: f64,
    /// Set if the wear settled.
    pub(super) converged: bool,
}

impl Wear {
    /// Wear of a stream too small to fill the drive while it is played. All data that such a small
    /// stream writes are assumed to be erased once in the end.
    pub(super) const ONCE: Self = Self { mean: 1.0, low: 1.0, high: 1.0, factor: 1.0, converged: false };

    /// Computes the wear of `member` under `stream`, which lasts for `span`. A member larger than
    /// `bytes` is played by a drive of about that size. `None` if no drive can be built, or if
    /// nothing is written.
    pub(super) fn of(
        member: &Member,
        (flash, geometry): (&FlashProfile, &Geometry),
        stream: &[(Nanoseconds, Command)],
        span: Nanoseconds,
        bytes: u64,
        seed: u64,
    ) -> Option<Self> {
        let mut wears: Vec<(f64, bool)> = Vec::new();
        let mut factor = 1.0;
        if geometry.physical_bytes().0 > bytes {
            for sample in 0..SAMPLES {
                let smaller = smaller(member, (flash, geometry), stream, bytes, sample);
                let Some((played, stream, times)) = smaller else { continue };
                factor = times * played.factor;
                wears.extend(played.wear_of(&stream, span));
            }
        }
        if wears.is_empty() {
            let played = Played::as_it_is(member, geometry, seed).ok()?;
            factor = 1.0;
            wears.extend(played.wear_of(stream, span));
        }
        if wears.is_empty() {
            return None;
        }
        Some(Self {
            mean: wears.iter().map(|(wear, _)| wear).sum::<f64>() / wears.len() as f64,
            low: wears.iter().map(|(wear, _)| *wear).fold(f64::INFINITY, f64::min),
            high: wears.iter().map(|(wear, _)| *wear).fold(0.0, f64::max),
            factor,
            converged: wears.iter().all(|(_, settled)| *settled),
        })
    }
}

/// Returns a drive that stands for `member`, the commands of `stream` that this drive gets, and the
/// number of dies for which a die stands. A drive with page mapping is played by one of its dies,
/// which is made smaller still if it is larger than `bytes`.
fn smaller(
    member: &Member,
    (flash, geometry): (&FlashProfile, &Geometry),
    stream: &[(Nanoseconds, Command)],
    bytes: u64,
    sample: u64,
) -> Option<(Played, Stream, f64)> {
    let unit_sectors = u64::from(geometry.unit_bytes) / SECTOR_BYTES;
    let small = |member: &Member, drive: (&FlashProfile, &Geometry), stream: &[(Nanoseconds, Command)]| {
        let chunks = Chunks::of(stream, unit_sectors, !maps_pages(flash));
        let played = (!chunks.all.is_empty()).then(|| Played::small(member, drive, &chunks, bytes, sample).ok());
        played.flatten().map(|played| (played.part_of(stream), played))
    };
    let die = OneDie::of(geometry, sample);
    let one = (maps_pages(flash) && geometry.dies() > 1).then(|| die.member(member, (flash, geometry))).flatten();
    let Some(one) = one else {
        return small(member, (flash, geometry), stream).map(|(stream, played)| (played, stream, 1.0));
    };
    let drive = flash;
    let Body::Flash(flash) = &one.profile.body else { return None };
    let of_die = flash.geometry(one.profile.capacity, None).ok()?;
    let whole = stream;
    let stream = die.part_of(whole);
    // A trace of few writes may leave the die without any.
    if !stream.iter().any(|(_, command)| stores(command)) {
        return small(member, (drive, geometry), whole).map(|(stream, played)| (played, stream, 1.0));
    }
    if of_die.physical_bytes().0 <= bytes {
        return Some((Played::one_die(&one, geometry, sample).ok()?, stream, 1.0));
    }
    let (stream, played) = small(&one, (flash, &of_die), &stream)?;
    Some((played, stream, f64::from(geometry.dies())))
}

/// Computes the wear under writes of single mapping units at random over the part of `member` in
/// use, in their steady state.
pub(super) fn of_random_writes(
    member: &Member,
    (flash, geometry): (&FlashProfile, &Geometry),
    bytes: u64,
    seed: u64,
) -> Option<f64> {
    let played = Played::for_random_writes(member, (flash, geometry), bytes, seed);
    let played = played.or_else(|_| Played::as_it_is(member, geometry, seed)).ok()?;
    let (units, unit_sectors) = played.units_in_use();
    let mut drive = Driven::new(played.build(Precondition::Random).ok()?);
    let half = ((played.physical_bytes / 2.0) as u64 / (unit_sectors * SECTOR_BYTES)).clamp(1, OPERATIONS_MAX);
    let mut write = |numbers: Range<u64>| {
        for number in numbers {
            let place = hash(number, seed) % units.max(1) * unit_sectors;
            let command = Command { kind: OpKind::Write, range: SectorRange::new(place, unit_sectors), fua: false };
            drive.submit(Nanoseconds::ZERO, command);
        }
        drive.erased_and_written()
    };
    let (before, after) = (write(0..half), write(half..2 * half));
    Some((after.0 - before.0) * played.physical_bytes / (after.1 - before.1) as f64)
}

impl Played {
    /// Returns the bytes erased per byte written once the ratio is steady, with true if the ratio
    /// became steady; `None` if nothing is written.
    fn wear_of(&self, stream: &[(Nanoseconds, Command)], span: Nanoseconds) -> Option<(f64, bool)> {
        if !stream.iter().any(|(_, command)| stores(command)) {
            return None;
        }
        let mut drive = Driven::new(self.build(self.precondition()).ok()?);
        drive.fill(self.held());
        let span = span.max(stream.last().map_or(Nanoseconds(1), |(at, _)| *at + Nanoseconds(1)));
        // Bytes written in the first window. If two windows differ, the next is twice as long.
        // Blocks are erased one by one, so the counts of short windows may alternate for ever.
        let mut window = (self.physical_bytes / 2.0) as u64;
        // Hardly anything is erased until the free part of the drive is full for the first time.
        let fill = self.physical_bytes as u64;
        let most = (self.physical_bytes * TIMES_WRITTEN_MAX) as u64;
        let (mut before, mut last, mut began) = (None, None, Nanoseconds::ZERO);
        while drive.operations < OPERATIONS_MAX && drive.written < most && began < TIME_MAX {
            for &(at, command) in stream {
                drive.submit(began.saturating_add(at), command);
            }
            began = began.saturating_add(span);
            if drive.written < fill {
                continue;
            }
            let (erased, written) = *before.get_or_insert_with(|| drive.erased_and_written());
            if drive.written - written < window {
                continue;
            }
            let now = drive.erased_and_written();
            let wear = (now.0 - erased) * self.physical_bytes / (now.1 - written) as f64;
            let previous = last.replace(wear);
            before = Some(now);
            if let Some(previous) = previous.filter(|previous: &f64| (previous - wear).abs() <= CONVERGED * wear) {
                return Some(((previous + wear) / 2.0, true));
            }
            if previous.is_some() {
                window *= 2;
            }
        }
        // The wear did not settle: return the last window's, or the overall ratio if there was no
        // window.
        let (erased, written) = drive.erased_and_written();
        Some((last.unwrap_or(erased * self.physical_bytes / written.max(1) as f64), false))
    }
}

/// A drive under a stream of operations.
struct Driven {
    model: Box<dyn DeviceModel>,
    now: Nanoseconds,
    operations: u64,
    unfinished: u64,
    written: u64,
    /// Mean rated cycles that a block had used up before the stream began.
    erased_before: f64,
    finished: Vec<Finished>,
}

impl Driven {
    fn new(model: Box<dyn DeviceModel>) -> Self {
        let (now, finished) = (Nanoseconds::ZERO, Vec::new());
        Self { model, now, operations: 0, unfinished: 0, written: 0, erased_before: 0.0, finished }
    }

    /// Submits an operation at `at`, or once the queue has room.
    fn submit(&mut self, at: Nanoseconds, command: Command) {
        self.advance(at);
        while self.unfinished >= QUEUE_DEPTH
            && let Some(next) = self.model.next_event()
        {
            self.advance(next);
        }
        self.operations += 1;
        self.unfinished += 1;
        if stores(&command) {
            self.written += command.range.len.bytes().0;
        }
        self.model.submit(self.now, Token(self.operations), command);
    }

    /// Writes `ranges` before the stream begins. These writes are not counted.
    fn fill(&mut self, ranges: &[SectorRange]) {
        for &range in ranges {
            self.submit(self.now, Command { kind: OpKind::Write, range, fua: false });
        }
        self.written = 0;
        self.erased_before = self.erased_and_written().0;
    }

    fn advance(&mut self, to: Nanoseconds) {
        self.now = self.now.max(to);
        self.model.advance(self.now, &mut self.finished);
        self.unfinished -= self.finished.len() as u64;
        self.finished.clear();
    }

    /// Returns the mean rated cycles that a block has used up, and the bytes written.
    fn erased_and_written(&self) -> (f64, u64) {
        let flash = self.model.statistics(self.now).flash.unwrap_or_default();
        (flash.cycles_used - self.erased_before, self.written)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::Bytes;

    use bimetal_models::profile::Profile;

    use super::*;

    /// Case: long writes one after the other, repeated, with windows that alternate between one
    /// erase more and one erase less.
    #[test]
    fn erases_that_come_one_by_one_settle() {
        let profile = Profile::load("samsung-970-evo-plus-500gb").unwrap();
        let member = Member::home(&profile, Bytes::from_mib(200).sectors());
        let Body::Flash(flash) = &profile.body else { panic!("it is flash") };
        let geometry = flash.geometry(profile.capacity, Some(member.size)).unwrap();
        let write = |at: u64| Command { kind: OpKind::Write, range: SectorRange::new(at * 2048, 2048), fua: false };
        let stream: Vec<_> = (0..115).map(|at| (Nanoseconds::from_millis(at), write(at))).collect();
        let wear = Wear::of(&member, (flash, &geometry), &stream, Nanoseconds::from_millis(115), u64::MAX, 1).unwrap();
        assert!(wear.converged, "{wear:?}");
    }
}
