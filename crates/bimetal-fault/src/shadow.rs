//! The shadow, a reference model: the values that a read of each sector may return.
//!
//! A read may return the newest change that arrived before the read and has succeeded. The read may
//! also return any change that arrived after that change and before the read ended. The engine
//! promises that changes of the same place take effect in order of arrival, and that a read sees
//! the changes that arrived before it. A failed change may or may not be visible to reads. A
//! discard leaves zeroes, or any older value of the sector. Once a read has returned a value of a
//! discarded sector, the value stays. The value that a read finds after a failed change stays until
//! the next change or power cut.
//!
//! A change is stable once it was acknowledged as forced, or was acknowledged before an
//! acknowledged flush began. A [cut](Shadow::cut) of the power puts every other change in doubt. A
//! change in doubt may be visible or not, in each sector on its own. So a sector may have any value
//! down to its newest stable change. The value that a read then finds is settled: the value stays,
//! across further cuts, until the next change. A write in doubt to a slot is visible in each block
//! as a whole or not at all ([`check_whole`](Shadow::check_whole)).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bimetal_core::block::{Block, BlockSize};
use bimetal_core::operation::{OpKind, Status};
use bimetal_core::units::{Nanoseconds, SectorRange};

use crate::payload::Sector;

/// Number of an event, the arrival or end of a request, in the order of events.
pub type Moment = u64;

/// A request, kept until the case ends.
#[derive(Clone, Debug)]
pub struct Request {
    /// Kind of the request.
    pub kind: OpKind,
    /// Range in the flat address space.
    pub range: SectorRange,
    /// Set if the request must be stable when it is done.
    pub fua: bool,
    /// Moment of arrival.
    pub began: Moment,
    /// Time of arrival, in virtual time.
    pub at: Nanoseconds,
    /// Moment and status of the end.
    pub ended: Option<(Moment, Status)>,
    /// Set if a power cut cannot undo the request.
    pub stable: bool,
    /// Set if the power was cut before the request was stable.
    pub doubtful: bool,
}

impl Request {
    fn is_done_before(&self, moment: Moment) -> bool {
        !self.doubtful && matches!(self.ended, Some((ended, Status::Done)) if ended < moment)
    }

    fn failed(&self) -> bool {
        !self.doubtful && matches!(self.ended, Some((_, status)) if status != Status::Done)
    }
}

/// Value that a read found in a sector whose newest change is in doubt or failed.
struct Pin {
    /// Link to the newest change of the sector at the time of the read.
    link: u32,
    value: Sector,
    /// Moment of the read.
    at: Moment,
    /// Set if the newest change failed. The change may be in the cache of a drive, so a power cut
    /// can change the value once more.
    until_cut: bool,
    /// Pin that holds again after the cut, if this pin ends with the cut.
    before: Option<Box<Pin>>,
}

/// Reason for which a value is permitted.
struct Finding {
    /// Set if the value need not be fixed for later reads.
    certain: bool,
    /// Discard that may have left the value.
    discard: Option<u32>,
}

/// Evidence of a write in doubt, from one sector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trace {
    Shows,
    Missing,
    /// No evidence: a newer change hides the write, or the value fits both cases.
    Unknown,
}

/// See the [module](self).
#[derive(Default)]
pub struct Shadow {
    requests: Vec<Request>,
    /// Index of the newest entry of `links` for each sector.
    newest: Vec<u32>,
    /// Links: a request, and the previous link of the sector; link 0 is the end.
    links: Vec<(u32, u32)>,
    /// Values that reads saw in discarded sectors: the discard, the value, and the moment at which
    /// the read ended.
    settled: BTreeMap<u64, (u32, Sector, Moment)>,
    /// Values that reads saw in sectors whose newest change is in doubt or failed.
    pins: BTreeMap<u64, Pin>,
    /// Sectors of rotten slots.
    rotten: BTreeSet<u64>,
    /// Sectors that may read as any value that they had up to a change; the change is given as a
    /// link.
    distrusted: BTreeMap<u64, u32>,
    /// Changes in flight, or done and not stable.
    unstable: Vec<u32>,
    /// Changes in doubt since the last cut.
    doubts: Vec<u32>,
    moment: Moment,
}

impl Shadow {
    /// Creates a volume of `sectors` that were never written.
    pub fn new(sectors: u64) -> Self {
        Self { newest: vec![0; sectors as usize], links: vec![(0, 0)], moment: 1, ..Self::default() }
    }

    /// Returns the number of sectors.
    pub fn sectors(&self) -> u64 {
        self.newest.len() as u64
    }

    /// Returns the present moment.
    pub fn now(&self) -> Moment {
        self.moment
    }

    /// Records the arrival of a request. Returns the number of the request, from 0 on.
    pub fn begin(&mut self, at: Nanoseconds, kind: OpKind, range: SectorRange, fua: bool) -> u32 {
        let number = self.requests.len() as u32;
        self.moment += 1;
        let began = self.moment;
        self.requests.push(Request { kind, range, fua, began, at, ended: None, stable: false, doubtful: false });
        if kind.changes_content() {
            self.unstable.push(number);
            for sector in range.start.0..range.end().0 {
                let before = std::mem::replace(&mut self.newest[sector as usize], self.links.len() as u32);
                self.links.push((number, before));
            }
        }
        number
    }

    /// Records the end of a request.
    pub fn end(&mut self, number: u32, status: Status) {
        self.moment += 1;
        let request = &mut self.requests[number as usize];
        request.ended = Some((self.moment, status));
        request.stable = request.fua && status == Status::Done;
        if request.kind == OpKind::Flush && status == Status::Done {
            let began = request.began;
            let requests = &mut self.requests;
            self.unstable.retain(|&change| {
                let change = &mut requests[change as usize];
                change.stable |= change.is_done_before(began);
                !change.stable && !change.failed()
            });
        }
    }

    /// Records a power cut. Requests in flight will not end, and changes that are not stable are in
    /// doubt.
    pub fn cut(&mut self) {
        self.moment += 1;
        self.doubts.clear();
        for sector in std::mem::take(&mut self.rotten) {
            self.distrusted.insert(sector, self.newest[sector as usize]);
        }
        for number in std::mem::take(&mut self.unstable) {
            let request = &mut self.requests[number as usize];
            if !request.stable && !request.failed() {
                request.doubtful = true;
                self.doubts.push(number);
            }
        }
        for request in self.requests.iter_mut().filter(|request| request.ended.is_none()) {
            request.ended = Some((self.moment, Status::Gone));
        }
        let requests = &self.requests;
        self.pins.retain(|_, pin| match pin.before.take() {
            _ if !pin.until_cut => true,
            Some(before) => {
                *pin = *before;
                true
            }
            None => false,
        });
        self.settled.retain(|_, (discard, ..)| !requests[*discard as usize].doubtful);
    }

    /// Records that a slot with the content of `range` rots. The slot's checksum detects the rot.
    /// If the power is cut before the slot's record is known to be stable, the slot looks as if it
    /// was never written. After such a cut, the sectors of the slot may read as any value that they
    /// ever held.
    pub fn distrust(&mut self, range: SectorRange) {
        self.rotten.extend(range.start.0..range.end().0);
    }

    /// Records rot of `range` while the power was off, after the [cut](Self::cut). Changes after
    /// the rot are trusted.
    pub fn distrust_at_rest(&mut self, range: SectorRange) {
        for sector in range.start.0..range.end().0 {
            self.distrusted.insert(sector, self.newest[sector as usize]);
        }
    }

    /// Returns true if `sector` may read as a value from before the change `number`.
    fn is_distrusted(&self, sector: u64, number: u32) -> bool {
        self.distrusted.get(&sector).is_some_and(|&link| link != 0 && self.links[link as usize].0 >= number)
    }

    /// Permits that parts of the writes that the last cut put in doubt are visible in a block.
    pub fn forget_doubts(&mut self) {
        self.doubts.clear();
    }

    /// Requires that `sector` reads as `value` until its next change, whatever was written before.
    /// Used when the drive with newer content is lost.
    pub fn fall_back(&mut self, sector: u64, value: Sector) {
        let link = self.newest[sector as usize];
        self.settled.remove(&sector);
        self.pins.insert(sector, Pin { link, value, at: self.moment, until_cut: false, before: None });
    }

    /// Returns the request with this number.
    pub fn request(&self, number: u32) -> &Request {
        &self.requests[number as usize]
    }

    /// Returns the requests in flight, with their numbers.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, &Request)> {
        let all = self.requests.iter().enumerate().map(|(number, request)| (number as u32, request));
        all.filter(|(_, request)| request.ended.is_none())
    }

    /// Returns true if a sector was ever changed.
    pub fn is_touched(&self, sector: u64) -> bool {
        self.newest[sector as usize] != 0
    }

    /// Returns the changes of a sector, the newest first.
    fn changes(&self, sector: u64) -> impl Iterator<Item = u32> {
        self.links_of(sector).map(|(_, request)| request)
    }

    /// Returns the changes of a sector with their links, the newest first.
    fn links_of(&self, sector: u64) -> impl Iterator<Item = (u32, u32)> {
        let mut link = self.newest[sector as usize];
        std::iter::from_fn(move || {
            let here = link;
            let (request, before) = self.links[here as usize];
            (here != 0).then(|| {
                link = before;
                (here, request)
            })
        })
    }

    /// Returns the moment at which the change ended that gave `sector` the `value` of its home. A
    /// discard gives no value, and may touch no drive.
    pub fn answered(&self, sector: u64, value: &Sector) -> Option<Moment> {
        let is_done = |request: &Request| request.ended.is_some_and(|(_, status)| status == Status::Done);
        let gave = |number: &u32| {
            let request = self.request(*number);
            request.kind != OpKind::Discard && is_done(request)
        };
        let number = match value {
            Sector::Data { request, .. } => Some(*request),
            Sector::Zero => self.changes(sector).find(gave),
            _ => None,
        };
        let change = self.request(number.filter(|&number| matches(number, self.request(number), sector, value))?);
        change.ended.map(|(ended, _)| ended)
    }

    /// Returns the newest change of a sector, if the change must survive a power cut.
    pub fn promised(&self, sector: u64) -> Option<u32> {
        self.changes(sector).next().filter(|&newest| self.request(newest).stable)
    }

    /// Returns the required content of `sector`. The content is known if the newest change
    /// succeeded before `moment` and was not a discard.
    pub fn certain(&self, sector: u64, moment: Moment) -> Option<Sector> {
        let newest = self.changes(sector).next()?;
        let request = self.request(newest);
        match request.kind {
            _ if !request.is_done_before(moment) => None,
            OpKind::Write => Some(Sector::Data { request: newest, sector: sector as u32 }),
            OpKind::WriteZeroes => Some(Sector::Zero),
            _ => None,
        }
    }

    /// Returns true if every change of `range` ended before `moment`, with or without an error.
    pub fn is_quiet(&self, range: SectorRange, moment: Moment) -> bool {
        (range.start.0..range.end().0).all(|sector| {
            let newest = self.changes(sector).next();
            newest.is_none_or(|number| self.request(number).ended.is_some_and(|(ended, _)| ended < moment))
        })
    }

    /// Returns true if a sector of `range` has a change that arrived after the request `number`.
    pub fn has_newer(&self, range: SectorRange, number: u32) -> bool {
        (range.start.0..range.end().0).any(|sector| self.changes(sector).next().is_some_and(|newest| newest > number))
    }

    /// Checks the value of `sector` returned by a read that began at `began` and ends now.
    ///
    /// # Errors
    /// Returns an error that describes the violation.
    pub fn check_read(&mut self, sector: u64, value: &Sector, began: Moment) -> Result<(), String> {
        let Finding { certain, discard } = self.judge(sector, value, began)?;
        if certain {
            return Ok(());
        }
        self.pin(sector, value, began);
        discard.map_or(Ok(()), |number| self.settle(sector, value, number, began))
    }

    fn judge(&self, sector: u64, value: &Sector, began: Moment) -> Result<Finding, String> {
        let distrusted = self.distrusted.get(&sector).copied();
        let mut discard = None;
        let mut initial = true;
        // A read that began before may have seen an earlier value.
        let pin = self.pins.get(&sector).filter(|pin| pin.at <= began);
        for (link, number) in self.links_of(sector) {
            if distrusted == Some(link) {
                return self.judge_distrusted(sector, value);
            }
            if let Some(pin) = pin.filter(|pin| pin.link == link) {
                let remains = discard.is_some_and(|discard| self.may_remain(sector, value, discard));
                return if pin.value == *value || remains {
                    Ok(Finding { certain: discard.is_none(), discard })
                } else {
                    Err(self.changed_by_itself(sector, &pin.value, value))
                };
            }
            let request = self.request(number);
            if matches(number, request, sector, value) {
                return Ok(Finding { certain: false, discard: None });
            }
            if request.kind == OpKind::Discard {
                discard = discard.or(Some(number));
            }
            if request.began < began && request.is_done_before(Moment::MAX) {
                initial = false;
                break;
            }
        }
        if initial && *value == Sector::Zero {
            return Ok(Finding { certain: false, discard: None });
        }
        match discard {
            Some(number) if self.may_remain(sector, value, number) => Ok(Finding { certain: false, discard }),
            _ => Err(self.describe(sector, value)),
        }
    }

    /// Judges a value of a sector that may read as any value that it ever held.
    fn judge_distrusted(&self, sector: u64, value: &Sector) -> Result<Finding, String> {
        let held = |number| matches(number, self.request(number), sector, value);
        match *value == Sector::Zero || self.changes(sector).any(held) {
            true => Ok(Finding { certain: true, discard: None }),
            false => Err(self.describe(sector, value)),
        }
    }

    /// Returns true if `value` is the content of `sector` at `moment`, or the content of a change
    /// that was in flight at `moment`. If `or_newer` is set, newer values count too. A discard
    /// excuses any older value. If the only copy of the sector rotted at `rotted`, changes that
    /// began before may be lost, so that older values count too.
    pub fn is_state_of(
        &self,
        sector: u64,
        value: &Sector,
        moment: Moment,
        or_newer: bool,
        rotted: Option<Moment>,
    ) -> bool {
        let mut discarded = false;
        let pin = self.pins.get(&sector).filter(|pin| pin.at <= moment);
        for (link, number) in self.links_of(sector) {
            let request = self.request(number);
            let counts = or_newer || request.began <= moment;
            let may_be_lost = rotted.is_some_and(|rotted| request.began <= rotted);
            if let Some(pin) = pin.filter(|pin| pin.link == link && !may_be_lost) {
                return pin.value == *value || discarded;
            }
            if counts && matches(number, request, sector, value) {
                return true;
            }
            discarded |= counts && request.kind == OpKind::Discard;
            if request.is_done_before(moment) && !discarded && !may_be_lost {
                return false;
            }
        }
        *value == Sector::Zero
    }

    /// Fixes the value that a read returned for later reads, if the sector's newest change is in
    /// doubt and arrived before `began`, or failed before `began`.
    fn pin(&mut self, sector: u64, value: &Sector, began: Moment) {
        let Some((link, newest)) = self.links_of(sector).next() else { return };
        let request = self.request(newest);
        let until_cut = request.failed() && request.ended.is_some_and(|(ended, _)| ended < began);
        if (request.doubtful && request.began < began) || until_cut {
            let before = self.pins.remove(&sector).and_then(|pin| match pin.until_cut {
                true => pin.before,
                false => Some(Box::new(pin)),
            });
            let pin = Pin { link, value: value.clone(), at: self.moment, until_cut, before };
            self.pins.insert(sector, pin);
        }
    }

    /// Checks the values of all sectors after a cut. A write in doubt must be visible in each block
    /// as a whole or not at all, unless `is_in_place(write, block)` holds. A value of `None` stands
    /// for a sector that cannot be read.
    ///
    /// # Errors
    /// Returns an error that names a write of which only a part is visible in a block.
    pub fn check_whole<'a>(
        &self,
        size: BlockSize,
        value: impl Fn(u64) -> Option<&'a Sector>,
        is_in_place: impl Fn(u32, Block) -> bool,
    ) -> Result<(), String> {
        for &number in &self.doubts {
            let request = self.request(number);
            let blocks = size.touched(request.range);
            let trusted = |block: &Block| {
                let part = size.clip(request.range, *block);
                !(part.start.0..part.end().0).any(|sector| self.is_distrusted(sector, number))
            };
            for block in blocks.blocks().filter(|block| request.kind == OpKind::Write && trusted(block)) {
                let part = size.clip(request.range, block);
                let trace = |sector| value(sector).map_or(Trace::Unknown, |value| self.trace_of(number, sector, value));
                let find = |wanted| (part.start.0..part.end().0).find(|&sector| trace(sector) == wanted);
                let (Some(shows), Some(missing)) = (find(Trace::Shows), find(Trace::Missing)) else { continue };
                if !is_in_place(number, block) {
                    let detail = value(missing).map_or_else(String::new, |value| self.describe(missing, value));
                    return Err(format!(
                        "write {number} is torn in block {}, off its home: sector {shows} has it, and {detail}",
                        block.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the evidence that the sector's `value` gives of `write`, which changed the sector.
    fn trace_of(&self, write: u32, sector: u64, value: &Sector) -> Trace {
        let mut newer = true;
        let mut discarded = false;
        for number in self.changes(sector) {
            let request = self.request(number);
            if number == write {
                newer = false;
            }
            if matches(number, request, sector, value) {
                return match newer {
                    true => Trace::Unknown,
                    false if number == write => Trace::Shows,
                    false if discarded => Trace::Unknown,
                    false => Trace::Missing,
                };
            }
            discarded |= newer && request.kind == OpKind::Discard;
        }
        if discarded { Trace::Unknown } else { Trace::Missing }
    }

    fn changed_by_itself(&self, sector: u64, seen: &Sector, value: &Sector) -> String {
        format!("a sector changed by itself: {seen:?} was read before; {}", self.describe(sector, value))
    }

    /// Returns true if a discard may have left `value`: zeroes, or an older value of the sector.
    fn may_remain(&self, sector: u64, value: &Sector, discard: u32) -> bool {
        let end = self.request(discard).ended.map_or(Moment::MAX, |(ended, _)| ended);
        match value {
            Sector::Zero => true,
            Sector::Data { request, sector: at } => {
                let wrote = self.changes(sector).any(|number| number == *request);
                u64::from(*at) == sector && wrote && self.request(*request).began < end
            }
            _ => false,
        }
    }

    /// Settles the content of a discarded sector by a read that began after the discard.
    fn settle(&mut self, sector: u64, value: &Sector, discard: u32, began: Moment) -> Result<(), String> {
        let request = self.request(discard);
        if request.failed() || !request.is_done_before(began) {
            return Ok(());
        }
        match self.settled.get(&sector) {
            Some((number, seen, ended)) if *number == discard && *ended < began => {
                if seen == value {
                    return Ok(());
                }
                Err(self.changed_by_itself(sector, seen, value))
            }
            Some((number, ..)) if *number == discard => Ok(()),
            _ => {
                self.settled.insert(sector, (discard, value.clone(), self.moment));
                Ok(())
            }
        }
    }

    /// Describes a wrong value, with the full history of the sector.
    pub fn describe(&self, sector: u64, value: &Sector) -> String {
        let mut text = format!("sector {sector} reads as {value:?}; its history, the newest first:");
        for number in self.changes(sector) {
            let request = self.request(number);
            let _ = write!(
                text,
                "\n  request {number}: {:?} of {:?}+{:?} at {}, moment {}",
                request.kind, request.range.start, request.range.len, request.at, request.began
            );
            let _ = match request.ended {
                Some((moment, _)) if request.doubtful => {
                    write!(text, ", not stable when the power was cut at {moment}")
                }
                Some((moment, status)) => write!(text, ", ended {status:?} at moment {moment}"),
                None => write!(text, ", under way"),
            };
        }
        text.push_str("\n  never written before");
        text
    }
}

/// Returns true if change `number` puts `value` into the sector.
fn matches(number: u32, request: &Request, sector: u64, value: &Sector) -> bool {
    match (request.kind, value) {
        (OpKind::Write, Sector::Data { request, sector: at }) => *request == number && u64::from(*at) == sector,
        (OpKind::WriteZeroes, Sector::Zero) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 5;

    fn begin(shadow: &mut Shadow, kind: OpKind) -> u32 {
        shadow.begin(Nanoseconds::ZERO, kind, SectorRange::new(SECTOR, 1), false)
    }

    fn data(request: u32) -> Sector {
        Sector::Data { request, sector: SECTOR as u32 }
    }

    /// Returns the values that an instant read may return now: zeroes, or the values of the first
    /// few requests.
    fn allowed(shadow: &mut Shadow) -> Vec<bool> {
        let began = shadow.now() + 1;
        let mut values = vec![Sector::Zero];
        values.extend((0..3).map(data));
        values.iter().map(|value| shadow.check_read(SECTOR, value, began).is_ok()).collect()
    }

    #[test]
    fn only_the_newest_acknowledged_write_may_be_read() {
        let mut shadow = Shadow::new(10);
        assert_eq!(allowed(&mut shadow), [true, false, false, false]);
        let first = begin(&mut shadow, OpKind::Write);
        assert_eq!(allowed(&mut shadow), [true, true, false, false], "under way");
        shadow.end(first, Status::Done);
        assert_eq!(allowed(&mut shadow), [false, true, false, false]);
        let second = begin(&mut shadow, OpKind::Write);
        shadow.end(second, Status::MediaError);
        assert_eq!(allowed(&mut shadow), [false, true, false, false], "failed: the value that was read first stays");
        let third = begin(&mut shadow, OpKind::Write);
        shadow.end(third, Status::Done);
        assert_eq!(allowed(&mut shadow), [false, false, false, true]);
    }

    #[test]
    fn failed_write_may_be_read_until_its_value_is_fixed() {
        for (read, other) in [(0, 1), (1, 0)] {
            let mut shadow = Shadow::new(10);
            for status in [Status::Done, Status::MediaError] {
                let number = begin(&mut shadow, OpKind::Write);
                shadow.end(number, status);
            }
            let now = shadow.now() + 1;
            assert!(shadow.check_read(SECTOR, &data(read), now).is_ok());
            assert!(shadow.check_read(SECTOR, &data(other), now).is_err(), "{read} was read first");
        }
    }

    #[test]
    fn a_read_that_arrived_before_a_write_may_return_what_was_there() {
        let mut shadow = Shadow::new(10);
        let began = shadow.now();
        let write = begin(&mut shadow, OpKind::Write);
        shadow.end(write, Status::Done);
        assert!(shadow.check_read(SECTOR, &Sector::Zero, began).is_ok());
        assert!(shadow.check_read(SECTOR, &data(0), began).is_ok());
    }

    /// A discarded sector may hold any value that it held before. Once a value is read, the value
    /// stays.
    #[test]
    fn discarded_sector_reads_any_old_value_then_stays() {
        let mut shadow = Shadow::new(10);
        for kind in [OpKind::Write, OpKind::Write, OpKind::Discard] {
            let number = begin(&mut shadow, kind);
            shadow.end(number, Status::Done);
        }
        let now = shadow.now() + 1;
        assert!(shadow.check_read(SECTOR, &data(0), now).is_ok());
        shadow.moment += 5;
        let later = shadow.now();
        assert!(shadow.check_read(SECTOR, &data(0), later).is_ok());
        let error = shadow.check_read(SECTOR, &data(1), later).unwrap_err();
        assert!(error.contains("changed by itself") && error.contains("request 1"), "{error}");
    }

    #[test]
    fn content_of_another_sector_is_never_right() {
        let mut shadow = Shadow::new(10);
        let write = begin(&mut shadow, OpKind::Write);
        shadow.end(write, Status::Done);
        let now = shadow.now() + 1;
        let misplaced = Sector::Data { request: 0, sector: 6 };
        assert!(shadow.check_read(SECTOR, &misplaced, now).is_err());
        assert!(shadow.check_read(SECTOR, &Sector::Rotten(5), now).is_err());
    }

    fn end(shadow: &mut Shadow, kind: OpKind, fua: bool) -> u32 {
        let range = if kind == OpKind::Flush { SectorRange::default() } else { SectorRange::new(SECTOR, 1) };
        let number = shadow.begin(Nanoseconds::ZERO, kind, range, fua);
        shadow.end(number, Status::Done);
        number
    }

    /// Returns the values that a read after a cut may find: zeroes, or the values of the first few
    /// requests. A read fixes the value for later reads, so each possible value is tried alone.
    fn allowed_after_cut(prepare: impl Fn(&mut Shadow)) -> Vec<bool> {
        let mut values = vec![Sector::Zero];
        values.extend((0..4).map(data));
        let check = |value| {
            let mut shadow = Shadow::new(10);
            prepare(&mut shadow);
            shadow.cut();
            let began = shadow.now() + 1;
            shadow.check_read(SECTOR, value, began).is_ok()
        };
        values.iter().map(check).collect()
    }

    #[test]
    fn after_a_cut_anything_since_the_newest_stable_change_may_show() {
        let flushed = |shadow: &mut Shadow| {
            end(shadow, OpKind::Write, false);
            end(shadow, OpKind::Write, false);
            end(shadow, OpKind::Flush, false);
            end(shadow, OpKind::Write, false);
        };
        assert_eq!(allowed_after_cut(flushed), [false, false, true, false, true], "the flush is request 2");
        let forced = |shadow: &mut Shadow| {
            end(shadow, OpKind::Write, false);
            end(shadow, OpKind::Write, true);
            begin(shadow, OpKind::Write);
        };
        assert_eq!(allowed_after_cut(forced), [false, false, true, true, false]);
        let acknowledged = |shadow: &mut Shadow| {
            end(shadow, OpKind::Write, false);
            let flush = begin(shadow, OpKind::Flush);
            end(shadow, OpKind::Write, false);
            shadow.end(flush, Status::Done);
        };
        assert_eq!(allowed_after_cut(acknowledged), [false, true, false, true, false], "done after the flush began");
        assert_eq!(
            allowed_after_cut(|shadow| {
                end(shadow, OpKind::Write, false);
            }),
            [true, true, false, false, false]
        );
    }

    #[test]
    fn what_was_read_after_a_cut_stays_until_the_next_change() {
        let mut shadow = Shadow::new(10);
        end(&mut shadow, OpKind::Write, false);
        end(&mut shadow, OpKind::Write, false);
        shadow.cut();
        let now = shadow.now() + 1;
        assert!(shadow.check_read(SECTOR, &data(0), now).is_ok());
        assert!(shadow.check_read(SECTOR, &data(1), now).unwrap_err().contains("changed by itself"));
        shadow.cut();
        let now = shadow.now() + 1;
        assert!(shadow.check_read(SECTOR, &data(1), now).is_err(), "after another cut, too");
        let write = begin(&mut shadow, OpKind::Write);
        shadow.cut();
        let now = shadow.now() + 1;
        assert!(shadow.check_read(SECTOR, &Sector::Zero, now).is_err());
        assert!(shadow.check_read(SECTOR, &data(write), now).is_ok());
        assert!(shadow.check_read(SECTOR, &data(0), now).is_err());
    }

    #[test]
    fn a_block_off_its_home_shows_all_of_a_write_or_nothing() {
        let size = BlockSize::default();
        let mut shadow = Shadow::new(16);
        let old = shadow.begin(Nanoseconds::ZERO, OpKind::Write, SectorRange::new(0, 16), true);
        shadow.end(old, Status::Done);
        let torn = shadow.begin(Nanoseconds::ZERO, OpKind::Write, SectorRange::new(2, 10), false);
        shadow.end(torn, Status::Done);
        let newer = shadow.begin(Nanoseconds::ZERO, OpKind::Write, SectorRange::new(4, 1), false);
        shadow.cut();
        let check = |shows: &[u64], in_place: bool| {
            let values: Vec<Sector> = (0..16)
                .map(|sector| {
                    let request = if sector == 4 {
                        newer
                    } else if shows.contains(&sector) {
                        torn
                    } else {
                        old
                    };
                    Sector::Data { request, sector: sector as u32 }
                })
                .collect();
            shadow.check_whole(size, |sector| values.get(sector as usize), |_, _| in_place)
        };
        assert_eq!(check(&[2, 3, 5, 6, 7], false), Ok(()), "all of one block, nothing of the other");
        assert_eq!(check(&[], false), Ok(()));
        assert!(check(&[2, 3], false).unwrap_err().contains("torn in block 0"));
        assert_eq!(check(&[2, 3], true), Ok(()));
    }

    /// A log lost the newest write of a sector, and home still has an older write. The next write
    /// that goes home ends the excuse.
    #[test]
    fn rot_excuses_older_content_until_the_next_write() {
        let mut shadow = Shadow::new(10);
        let older = end(&mut shadow, OpKind::Write, false);
        let lost = end(&mut shadow, OpKind::Write, false);
        let rotted = shadow.now();
        end(&mut shadow, OpKind::Flush, false);
        let moment = shadow.now();
        let later = end(&mut shadow, OpKind::Write, false);
        let states = |shadow: &Shadow, moment, rotted| {
            [older, lost, later].map(|number| shadow.is_state_of(SECTOR, &data(number), moment, false, rotted))
        };
        assert_eq!(states(&shadow, moment, None), [false, true, false]);
        assert_eq!(states(&shadow, moment, Some(rotted)), [true, true, false]);
        end(&mut shadow, OpKind::Flush, false);
        assert_eq!(states(&shadow, shadow.now(), Some(rotted)), [false, false, true]);
    }

    /// A value that was fixed may rot as any other value.
    #[test]
    fn rot_excuses_content_older_than_a_fixed_value() {
        let mut shadow = Shadow::new(10);
        let [older, fixed] = [(); 2].map(|()| end(&mut shadow, OpKind::Write, false));
        shadow.fall_back(SECTOR, data(fixed));
        end(&mut shadow, OpKind::Flush, false);
        let moment = shadow.now();
        let may_be = |number, rotted| shadow.is_state_of(SECTOR, &data(number), moment, false, rotted);
        assert!(may_be(fixed, None) && !may_be(older, None));
        assert!(may_be(fixed, Some(moment)) && may_be(older, Some(moment)));
    }

    /// A failed write showed in a read, and the next cut undid the write. The value that was fixed
    /// before the failed write holds again.
    #[test]
    fn value_of_a_failed_write_hides_an_older_pin_until_the_cut() {
        let mut shadow = Shadow::new(10);
        let [settled, newer] = [(); 2].map(|()| end(&mut shadow, OpKind::Write, false));
        shadow.fall_back(SECTOR, data(settled));
        let failed = begin(&mut shadow, OpKind::Write);
        shadow.end(failed, Status::MediaError);
        let read = |shadow: &mut Shadow, number| {
            shadow.moment += 5;
            let began = shadow.now();
            shadow.check_read(SECTOR, &data(number), began).is_ok()
        };
        assert!(read(&mut shadow, failed));
        assert!(!read(&mut shadow, settled), "the value stays");
        shadow.cut();
        assert!(!read(&mut shadow, newer), "an accepted loss took this value");
        assert!(read(&mut shadow, settled));
    }

    /// A log may store a newer write and drop it for a discard. The home still has the older
    /// content.
    #[test]
    fn content_of_home_was_answered_when_its_own_change_was() {
        let mut shadow = Shadow::new(10);
        let first = begin(&mut shadow, OpKind::Write);
        shadow.end(first, Status::Done);
        let answered = shadow.now();
        for kind in [OpKind::Write, OpKind::Discard] {
            let number = begin(&mut shadow, kind);
            shadow.end(number, Status::Done);
        }
        assert_eq!(shadow.answered(SECTOR, &data(first)), Some(answered));
        assert_eq!(shadow.answered(SECTOR, &Sector::Zero), None, "a discard gives no content");
        let zeroes = begin(&mut shadow, OpKind::WriteZeroes);
        shadow.end(zeroes, Status::Done);
        assert_eq!(shadow.answered(SECTOR, &Sector::Zero), Some(shadow.now()));
    }
}
