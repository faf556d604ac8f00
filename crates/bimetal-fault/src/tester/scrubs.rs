//! Scrubs in the run of a case. Scrubs begin at any time, at any rate, and must find no bad block
//! if nothing failed. The checks of every operation and every read cover all that scrubs rewrite or
//! drop.
//!
//! In a third of the cases with power cuts, a bit of one page of metadata flips from time to time
//! while the volume serves, and the scrub that finds the page writes it again. A page that is still
//! bad at a power cut gets its bit back. So a recovery fails only if a scrub wrote wrong content.

use std::sync::Arc;

use bimetal_core::journal::PAGE_SECTORS;
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange};
use bimetal_core::volume::Outcome;

use super::Tester;
use crate::damage::{Structure, survey};
use crate::payload::Sector;
use crate::random::Random;

/// Mean number of events until a scrub begins, or a running scrub may go faster.
const EVENTS: u64 = 60;
const RATES: [Bytes; 4] = [Bytes::from_kib(64), Bytes::from_mib(1), Bytes::from_mib(50), Bytes::from_gib(1)];

/// The scrubs of a case.
pub(super) struct Scrubs {
    /// A random generator that only the scrubs use, so that scrubs change no other random choice of
    /// the case.
    random: Random,
    /// Set if sectors may rot, which no operation shows.
    rots: bool,
    /// Set if the drives were formatted, so that every page of metadata was written.
    pub(super) formatted: bool,
    /// End of the last scrub that was checked.
    seen: Option<Nanoseconds>,
    /// Mean number of events until a bit of metadata flips; 0: never.
    flips: u64,
    flipped: Option<Flipped>,
    /// Set once a bit has flipped.
    any_flipped: bool,
}

/// A sector of metadata with a flipped bit, and its content before.
struct Flipped {
    member: usize,
    sector: u64,
    was: Sector,
    is: Sector,
    at: Nanoseconds,
}

impl Scrubs {
    pub(super) fn new(seed: u64, rots: bool) -> Self {
        let random = Random::new(seed ^ 0x7363_7275_6273);
        let flips = if random.fork().one_in(3) { 2 * EVENTS } else { 0 };
        Self { random, rots, formatted: false, seen: None, flips, flipped: None, any_flipped: false }
    }
}

impl Tester {
    /// Begins a scrub now and then, and checks a scrub that has ended.
    ///
    /// # Errors
    /// Returns an error if the scrub reported a bad block that cannot be bad, or left blocks out.
    pub(super) fn scrub(&mut self) -> Result<(), String> {
        let Some(scrubs) = &mut self.scrubs else { return Ok(()) };
        if scrubs.random.one_in(EVENTS) {
            let rate = scrubs.random.one_in(2).then(|| scrubs.random.pick(&RATES));
            self.volume.scrub(self.now, rate);
        }
        self.flip_a_bit();
        self.check_scrub()
    }

    /// Flips a bit of metadata at rest, if no other bit is flipped. The scrub must find the page.
    fn flip_a_bit(&mut self) {
        let Some(scrubs) = &mut self.scrubs else { return };
        if let Some(Flipped { member, sector, is, .. }) = &scrubs.flipped
            && self.drives[*member].content(*sector) != *is
        {
            self.report.pages_mended += 1;
            scrubs.flipped = None;
        }
        if scrubs.flipped.is_some() || scrubs.flips == 0 || !scrubs.formatted || !scrubs.random.one_in(scrubs.flips) {
            return;
        }
        let structures = [Structure::State, Structure::Superblock, Structure::Table, Structure::Places];
        let layout = &self.volume.view().layout;
        let mut pages = survey(layout, &self.drives);
        pages.retain(|page| structures.contains(&page.structure) && page.is_sound());
        if pages.is_empty() {
            return;
        }
        let page = pages.swap_remove(scrubs.random.below(pages.len() as u64) as usize);
        let drive = &mut self.drives[usize::from(page.member)];
        let sector = page.sector + scrubs.random.below(PAGE_SECTORS);
        let range = SectorRange::new(page.sector, PAGE_SECTORS);
        let is_at_rest = (page.sector..page.sector + PAGE_SECTORS).all(|at| drive.is_stable(at));
        let was = drive.content(sector);
        let Some(bytes) = was.metadata().filter(|_| is_at_rest && drive.under_way(range, |_| true).is_none()) else {
            return;
        };
        let mut bytes = bytes.to_vec();
        bytes[scrubs.random.below(512) as usize] ^= 1;
        let is = Sector::Metadata { bytes: Arc::new(bytes), at: 0 };
        drive.replace(sector, is.clone());
        if self.trace {
            eprintln!("{} a bit flips in {page}, sector {sector}", self.now);
        }
        scrubs.flipped = Some(Flipped { member: usize::from(page.member), sector, was, is, at: self.now });
        scrubs.any_flipped = true;
    }

    /// Gives a flipped bit back, unless the page was written since.
    pub(super) fn flip_back(&mut self) {
        let Some(Flipped { member, sector, was, is, .. }) =
            self.scrubs.as_mut().and_then(|scrubs| scrubs.flipped.take())
        else {
            return;
        };
        let drive = &mut self.drives[member];
        if drive.content(sector) == is {
            drive.replace(sector, was);
        }
    }

    fn check_scrub(&mut self) -> Result<(), String> {
        let Some(scrubs) = &mut self.scrubs else { return Ok(()) };
        let ended = self.volume.scrub_progress().filter(|found| found.finished && !found.interrupted);
        let Some(found) = ended.filter(|found| scrubs.seen != found.ended) else { return Ok(()) };
        scrubs.seen = found.ended;
        self.report.scrubs += 1;
        self.report.scrub_findings += found.bad_blocks;
        if found.blocks_left > 0 {
            return Err(format!("a scrub ended and left {} blocks out", found.blocks_left));
        }
        let nothing_failed = self.atlas.faults() == 0 && !scrubs.rots && !self.saboteur.is_at_work();
        let none_bad = scrubs.formatted && !scrubs.any_flipped;
        if none_bad && nothing_failed && !found.bad_pages.is_empty() {
            return Err(format!("a scrub reports bad pages {:?}, and nothing ever failed", found.bad_pages));
        }
        if let Some(flipped) = scrubs.flipped.as_ref().filter(|flipped| flipped.at < found.began) {
            let is_left = self.drives[flipped.member].content(flipped.sector) == flipped.is;
            // A read may return what a write under way has not stored yet.
            let sector = SectorRange::new(flipped.sector, 1);
            let is_left = is_left && self.drives[flipped.member].under_way(sector, OpKind::changes_content).is_none();
            // A scrub does not read a drive that was let go.
            let is_online = self.volume.view().members[flipped.member].state == MemberState::Online;
            if is_left && is_online && nothing_failed && !self.drives[flipped.member].is_gone() {
                return Err(format!("a scrub left a flipped bit in sector {}", flipped.sector));
            }
        }
        match found.bad.first() {
            Some(bad) if nothing_failed => Err(format!("a scrub reports {bad:?} as bad, and nothing ever failed")),
            Some(bad) if self.atlas.is_only_of_refusals() && bad.outcome != Outcome::OneCopyLeft => {
                Err(format!("a scrub reports {bad:?} as bad, and every read succeeded"))
            }
            _ => Ok(()),
        }
    }
}
