//! The shadow: which values a read of each sector may return.
//!
//! A read may return the newest change that arrived before the read and has ended well, or any change that arrived after
//! that one and before the read ended: the engine promises that changes of one place run in order of arrival, and that a
//! read sees those that arrived before it. A change that failed may show or not, until it is overwritten. A discard leaves any value the sector
//! had before, or zeroes; but once read, that value stays.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bimetal_core::operation::{OpKind, Status};
use bimetal_core::units::{Nanoseconds, SectorRange};

use crate::payload::Sector;

/// Numbers the arrivals and ends of requests in the order in which they came.
pub type Moment = u64;

/// A request, for as long as the case runs.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it does.
    pub kind: OpKind,
    /// Where, in the flat address space.
    pub range: SectorRange,
    /// Must be stable when it is done.
    pub fua: bool,
    /// When it arrived.
    pub began: Moment,
    /// When it arrived, in virtual time.
    pub at: Nanoseconds,
    /// When and how it ended.
    pub ended: Option<(Moment, Status)>,
}

impl Request {
    fn is_done_before(&self, moment: Moment) -> bool {
        matches!(self.ended, Some((ended, Status::Done)) if ended < moment)
    }

    fn failed(&self) -> bool {
        matches!(self.ended, Some((_, status)) if status != Status::Done)
    }
}

/// See the [module](self).
#[derive(Default)]
pub struct Shadow {
    requests: Vec<Request>,
    /// For each sector the newest of its links.
    newest: Vec<u32>,
    /// (request, the link before it); link 0 is the end.
    links: Vec<(u32, u32)>,
    /// What a read saw of a discarded sector: (the discard, the value, when the read ended).
    settled: BTreeMap<u64, (u32, Sector, Moment)>,
    moment: Moment,
}

impl Shadow {
    /// A volume of `sectors` that were never written.
    pub fn new(sectors: u64) -> Self {
        Self { newest: vec![0; sectors as usize], links: vec![(0, 0)], moment: 1, ..Self::default() }
    }

    /// The present.
    pub fn now(&self) -> Moment {
        self.moment
    }

    /// A request arrives; gives its number, from 0 on.
    pub fn begin(&mut self, at: Nanoseconds, kind: OpKind, range: SectorRange, fua: bool) -> u32 {
        let number = self.requests.len() as u32;
        self.moment += 1;
        self.requests.push(Request { kind, range, fua, began: self.moment, at, ended: None });
        if kind.changes_content() {
            for sector in range.start.0..range.end().0 {
                let before = std::mem::replace(&mut self.newest[sector as usize], self.links.len() as u32);
                self.links.push((number, before));
            }
        }
        number
    }

    /// A request ends.
    pub fn end(&mut self, number: u32, status: Status) {
        self.moment += 1;
        self.requests[number as usize].ended = Some((self.moment, status));
    }

    /// The request with this number.
    pub fn request(&self, number: u32) -> &Request {
        &self.requests[number as usize]
    }

    /// Requests under way, by number.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, &Request)> {
        let all = self.requests.iter().enumerate().map(|(number, request)| (number as u32, request));
        all.filter(|(_, request)| request.ended.is_none())
    }

    /// Whether a sector was ever changed.
    pub fn is_touched(&self, sector: u64) -> bool {
        self.newest[sector as usize] != 0
    }

    /// Changes of a sector, the newest first.
    fn changes(&self, sector: u64) -> impl Iterator<Item = u32> {
        let mut link = self.newest[sector as usize];
        std::iter::from_fn(move || {
            let (request, before) = self.links[link as usize];
            (link != 0).then(|| {
                link = before;
                request
            })
        })
    }

    /// What `sector` must hold if nothing is in doubt: its newest change ended well before `moment`, and was no discard.
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

    /// Whether every change of `range` ended before `moment`, well or with an error.
    pub fn is_quiet(&self, range: SectorRange, moment: Moment) -> bool {
        (range.start.0..range.end().0).all(|sector| {
            let newest = self.changes(sector).next();
            newest.is_none_or(|number| self.request(number).ended.is_some_and(|(ended, _)| ended < moment))
        })
    }

    /// Holds what a read that began at `began` and ends now returned for `sector` against the model.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_read(&mut self, sector: u64, value: &Sector, began: Moment) -> Result<(), String> {
        let mut discard = None;
        let mut initial = true;
        for number in self.changes(sector) {
            let request = self.request(number);
            let matches = match (request.kind, value) {
                (OpKind::Write, Sector::Data { request, sector: at }) => *request == number && u64::from(*at) == sector,
                (OpKind::WriteZeroes, Sector::Zero) => true,
                _ => false,
            };
            if matches {
                return Ok(());
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
            return Ok(());
        }
        match discard {
            Some(number) if self.may_remain(sector, value, number) => self.settle(sector, value, number, began),
            _ => Err(self.describe(sector, value)),
        }
    }

    /// Whether a discard may have left `value`: zeroes, or what the sector had before.
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

    /// A read that began after the discard settles what the sector holds.
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
                let seen = format!("a discarded sector changed by itself: {seen:?} was read before; ");
                Err(seen + &self.describe(sector, value))
            }
            Some((number, ..)) if *number == discard => Ok(()),
            _ => {
                self.settled.insert(sector, (discard, value.clone(), self.moment));
                Ok(())
            }
        }
    }

    /// The wrong value and the full history of the sector.
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
                Some((moment, status)) => write!(text, ", ended {status:?} at moment {moment}"),
                None => write!(text, ", under way"),
            };
        }
        text.push_str("\n  never written before");
        text
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

    /// What a read that begins now and takes no time may return, of zeroes and the first few requests.
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
        assert_eq!(allowed(&mut shadow), [false, true, true, false], "failed: old or new");
        let third = begin(&mut shadow, OpKind::Write);
        shadow.end(third, Status::Done);
        assert_eq!(allowed(&mut shadow), [false, false, false, true]);
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

    #[test]
    fn a_discarded_sector_holds_anything_it_held_but_stays_as_it_was_read() {
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
}
