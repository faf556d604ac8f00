//! Recovery of the table of places. Both copies of each page are read, and the newer copy counts. A
//! copy that is older, torn or unreadable is written again before any other page may change. The
//! digest in the state proves that no page of the table is older than the state.
//!
//! Version 1 of the format left a page blank until a range of it moved. Only in version 1 can a
//! page without an undamaged copy mean that its ranges lie at their first places.

use super::{Answer, Recovery, RecoveryError, Step, only_page};
use crate::journal::page::{self, Page};
use crate::payload::Payload;
use crate::places;

/// The copies of all pages, as they were found on the drive.
#[derive(Default)]
pub(super) struct PlacesRecovery {
    copies: Vec<Copy>,
    repairing: bool,
}

#[derive(Clone)]
enum Copy {
    /// Never written.
    Blank,
    /// The copy is torn, damaged or unreadable.
    Bad,
    Version(u64, Box<Page>),
}

impl<P: Payload> Recovery<P> {
    pub(super) fn read_places(&mut self) {
        let table = self.layout().metadata.expect("places have a table");
        let pages = self.layout().places.as_ref().map_or(0, |places| places.pages()) as u64;
        self.step = Step::Places(PlacesRecovery { copies: vec![Copy::Bad; 2 * pages as usize], repairing: false });
        for copy in 0..2 * pages {
            let place = places::page_place(table.first_sector, copy as usize / 2, copy as usize % 2);
            self.read(table.member, place, copy);
        }
    }

    pub(super) fn places_take(&mut self, answer: &Answer<P>) {
        let identity = self.volume.store.identity();
        let Step::Places(found) = &mut self.step else { return };
        if found.repairing {
            return;
        }
        let number = answer.purpose as usize / 2;
        found.copies[answer.purpose as usize] = match answer.payload.as_ref().and_then(only_page) {
            Some(page) if page::is_blank(&page) => Copy::Blank,
            Some(page) => match places::version_of(&page, number, identity) {
                Some(version) => Copy::Version(version, Box::new(page)),
                None => Copy::Bad,
            },
            None => Copy::Bad,
        };
        if found.copies[answer.purpose as usize].number().is_none() && !self.of_version_1 {
            self.note_bad_page(answer.member, answer.range);
        }
    }

    /// Takes the newest copies once everything was read, and ends the recovery once the repairs are
    /// written.
    pub(super) fn places_read(&mut self) {
        let Step::Places(found) = &mut self.step else { return };
        if std::mem::replace(&mut found.repairing, true) {
            return self.succeed();
        }
        let copies = std::mem::take(&mut found.copies);
        let table = self.layout().metadata.expect("places have a table");
        let mut possible = true;
        for (number, pair) in copies.chunks_exact(2).enumerate() {
            let newest = match (&pair[0], &pair[1]) {
                (Copy::Version(first, page), Copy::Version(second, _)) if first >= second => Some((*first, &**page)),
                (_, Copy::Version(version, page)) | (Copy::Version(version, page), _) => Some((*version, &**page)),
                // The first copy is written first: if it is blank, the second was blank as well,
                // however damaged it is now.
                (Copy::Blank | Copy::Bad, Copy::Blank) | (Copy::Blank, Copy::Bad) if self.of_version_1 => None,
                _ => return self.table_damaged(),
            };
            let places = self.volume.view.layout.places.as_mut().expect("this layout has places");
            possible &= places.load(number, newest.map(|(_, page)| page));
            let page = newest.map_or_else(|| places.page(number, self.volume.store.identity()), |(_, page)| *page);
            let wanted = newest.map(|(version, _)| version);
            for (at, copy) in pair.iter().enumerate() {
                if wanted.is_none() || copy.number() != wanted {
                    self.write(places::page_place(table.first_sector, number, at), &page, true);
                }
            }
        }
        let places = self.volume.view.layout.places.as_mut().expect("this layout has places");
        if !possible || !places.settle() {
            return self.table_damaged();
        }
        if !places.fits(self.state.places) {
            return self.table_refused(
                "the table of places does not match the version that the state records: both copies of a page are \
                 from an earlier time",
            );
        }
        if self.in_flight.is_empty() {
            self.succeed();
        }
    }

    fn table_damaged(&mut self) {
        self.table_refused("the table of places, which records where ranges lie, cannot be read");
    }

    fn table_refused(&mut self, what: &'static str) {
        let table = self.layout().metadata.expect("places have a table");
        self.fail(|member, role| RecoveryError::Damaged { member, role, what }, table.member);
    }
}

impl Copy {
    fn number(&self) -> Option<u64> {
        if let Copy::Version(version, _) = self { Some(*version) } else { None }
    }
}
