//! Scrubs in the run of a case. Scrubs begin at any time, at any rate, and must find no bad block
//! if nothing failed. The checks of every operation and every read cover all that scrubs rewrite or
//! drop.

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Outcome;

use super::Tester;
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
}

impl Scrubs {
    pub(super) fn new(seed: u64, rots: bool) -> Self {
        Self { random: Random::new(seed ^ 0x7363_7275_6273), rots, formatted: false, seen: None }
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
        self.check_scrub()
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
        if scrubs.formatted && nothing_failed && !found.bad_pages.is_empty() {
            return Err(format!("a scrub reports bad pages {:?}, and nothing ever failed", found.bad_pages));
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
