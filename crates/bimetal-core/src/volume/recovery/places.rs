//! Recovery of the table that says where ranges lie: both copies of each page are read, the newer one counts, and a copy that is
//! older, torn or unreadable is written again before anything else may change.

use super::{Answer, Recovery, RecoveryError, Step, only_page};
use crate::journal::PAGE_SECTORS;
use crate::journal::page::{PAGE_BYTES, Page};
use crate::payload::Payload;
use crate::places;
use crate::units::SectorRange;

/// What was found of each copy of each page.
#[derive(Default)]
pub(super) struct PlacesRecovery {
    copies: Vec<Copy>,
    repairing: bool,
}

#[derive(Clone)]
enum Copy {
    /// Never written.
    Blank,
    /// Torn or rotten, or it cannot be read.
    Bad,
    Version(u64, Box<Page>),
}

impl<P: Payload> Recovery<P> {
    pub(super) fn read_places(&mut self) {
        let table = self.layout().metadata.expect("places have a table");
        let pages = self.layout().places.as_ref().map_or(0, |places| places.pages()) as u64;
        self.step = Step::Places(PlacesRecovery { copies: vec![Copy::Bad; 2 * pages as usize], repairing: false });
        for copy in 0..2 * pages {
            self.read(table.member, SectorRange::new(table.first_sector + copy * PAGE_SECTORS, PAGE_SECTORS), copy);
        }
    }

    pub(super) fn places_take(&mut self, answer: &Answer<P>) {
        let identity = self.volume.identity;
        let Step::Places(found) = &mut self.step else { return };
        if found.repairing {
            return;
        }
        let number = answer.purpose as usize / 2;
        found.copies[answer.purpose as usize] = match answer.payload.as_ref().and_then(only_page) {
            Some(page) if page.iter().all(|&byte| byte == 0) => Copy::Blank,
            Some(page) => match places::version_of(&page, number, identity) {
                Some(version) => Copy::Version(version, Box::new(page)),
                None => Copy::Bad,
            },
            None => Copy::Bad,
        };
    }

    /// Everything was read, or written again.
    pub(super) fn places_read(&mut self) {
        let Step::Places(found) = &mut self.step else { return };
        if std::mem::replace(&mut found.repairing, true) {
            return self.outcome = Some(Ok(()));
        }
        let copies = std::mem::take(&mut found.copies);
        let table = self.layout().metadata.expect("places have a table");
        let mut possible = true;
        for (number, pair) in copies.chunks_exact(2).enumerate() {
            let newest = match (&pair[0], &pair[1]) {
                (Copy::Bad, Copy::Bad) => return self.table_damaged(),
                (Copy::Version(first, page), Copy::Version(second, _)) if first >= second => Some((*first, &**page)),
                (_, Copy::Version(version, page)) | (Copy::Version(version, page), _) => Some((*version, &**page)),
                // The first copy is written first: where it is blank, so was the second, whatever became of it.
                (Copy::Blank | Copy::Bad, Copy::Blank) | (Copy::Blank, Copy::Bad) => None,
            };
            let places = self.volume.view.layout.places.as_mut().expect("this layout has places");
            possible &= places.load(number, newest.map(|(_, page)| page));
            let blank = [0; PAGE_BYTES];
            let (wanted, bytes) = (newest.map(|(version, _)| version), newest.map_or(&blank, |(_, page)| page));
            for (at, copy) in pair.iter().enumerate() {
                if copy.number() != wanted || matches!(copy, Copy::Bad) {
                    let start = table.first_sector + (2 * number + at) as u64 * PAGE_SECTORS;
                    self.write(SectorRange::new(start, PAGE_SECTORS), bytes, true);
                }
            }
        }
        let places = self.volume.view.layout.places.as_mut().expect("this layout has places");
        if !possible || !places.settle() {
            return self.table_damaged();
        }
        if self.in_flight.is_empty() {
            self.outcome = Some(Ok(()));
        }
    }

    fn table_damaged(&mut self) {
        let table = self.layout().metadata.expect("places have a table");
        let what = "the table that says where ranges lie cannot be read";
        self.fail(|member, role| RecoveryError::Damaged { member, role, what }, table.member);
    }
}

impl Copy {
    fn number(&self) -> Option<u64> {
        if let Copy::Version(version, _) = self { Some(*version) } else { None }
    }
}
