//! Checks of a volume: of the consistency of the block map, and of the content off home against its
//! checksums. The block map is checked a part at a time, between other events. The volume reads the
//! content off home in the background ([`Volume::scrub`](bimetal_core::volume::Volume::scrub)).

use bimetal_core::block_map::Slot;
use bimetal_core::units::{counted, counted_are};
use bimetal_core::volume::{BadBlock as Found, Outcome, Scrub};
use bimetal_volumes::status::Progress;

use super::Server;
use super::control::Watch;
use super::ledger::bad_pages;
use crate::control::message::{BadBlock, CheckReport, Done, Reply};

/// Number of slots that are checked between other events: some milliseconds.
const SLOTS_AT_ONCE: u32 = 1 << 16;
/// Maximum of faults of the block map that are reported.
const WRONG_MAX: usize = 100;

/// Check under way.
#[derive(Default)]
pub(super) struct Checkup {
    scrub: bool,
    /// Next slot to check; `None` when the block map is done.
    next: Option<u32>,
    wrong: Vec<String>,
    /// Set while the check waits for the end of a scrub that began before the check: that scrub has
    /// read content from before the check.
    awaits_other: bool,
    /// Number of bad pages of metadata that the other scrub found.
    pub(super) pages_before: u64,
}

impl Checkup {
    fn new(scrub: bool) -> Self {
        Self { scrub, next: Some(0), ..Self::default() }
    }

    /// Returns true while slots of the block map are left to check.
    pub(super) fn is_looking(&self) -> bool {
        self.next.is_some()
    }
}

impl Server {
    /// Begins a check, or joins the check under way. A check whose scrub is reading has read
    /// content from before this request, so another check follows it.
    pub(super) fn hear_check(&mut self, key: usize, scrub: bool) -> Option<Reply> {
        let checkup = self.control.checkup.get_or_insert_with(|| Checkup::new(scrub));
        let is_reading = checkup.scrub && checkup.next.is_none() && !checkup.awaits_other;
        if is_reading && scrub {
            self.watch(key, Watch::NextCheck);
            return None;
        }
        // A request for a scrub widens a check under way.
        checkup.scrub |= scrub;
        self.watch(key, Watch::Check);
        None
    }

    /// Begins the check after the one that has ended, if a requester waits for it.
    fn begin_next_check(&mut self) {
        let waiting = self.control.visitors.iter().filter(|(_, visitor)| visitor.watch == Some(Watch::NextCheck));
        let waiting: Vec<usize> = waiting.map(|(key, _)| key).collect();
        if !waiting.is_empty() {
            self.control.checkup = Some(Checkup::new(true));
        }
        waiting.into_iter().for_each(|key| self.watch(key, Watch::Check));
    }

    /// Checks the next part of the block map, or the progress of the scrub. Returns true if the
    /// volume has new work.
    pub(super) fn go_on_checking(&mut self) -> bool {
        let (slots, is_scrubbing) = (self.volume.view().map.slots(), self.is_scrubbing());
        let Some(checkup) = &mut self.control.checkup else { return false };
        if let Some(from) = checkup.next {
            checkup.wrong.extend(self.volume.check_slots(Slot(from), SLOTS_AT_ONCE));
            let next = from.saturating_add(SLOTS_AT_ONCE);
            let done = next >= slots || checkup.wrong.len() >= WRONG_MAX;
            checkup.next = (!done).then_some(next);
            if done && checkup.scrub {
                checkup.awaits_other = is_scrubbing;
                self.begin_scrub(None);
                return true;
            }
        }
        let Some(checkup) = &self.control.checkup else { return false };
        if checkup.next.is_some() {
            return false;
        }
        if checkup.scrub && is_scrubbing {
            return false;
        }
        let found = self.volume.scrub_progress().filter(|_| checkup.scrub).cloned();
        if let Some(found) = found.as_ref().filter(|found| checkup.awaits_other && !self.is_interrupted(found)) {
            let pages_before = self.pages_to_tell(found);
            let checkup = self.control.checkup.as_mut().expect("a check is under way");
            (checkup.awaits_other, checkup.pages_before) = (false, pages_before);
            self.begin_scrub(None);
            return true;
        }
        self.take_troubles();
        let Some(checkup) = self.control.checkup.take() else { return false };
        let report = self.report_of(&checkup, found.as_ref());
        let is_mirrored = self.volume.view().layout.is_mirrored();
        let message = in_words(&report, is_mirrored);
        self.tell_watchers(Watch::Check, &Reply::Done(Done { message, check: Some(report) }));
        self.begin_next_check();
        self.control.checkup.is_some()
    }

    fn report_of(&self, checkup: &Checkup, found: Option<&Scrub>) -> CheckReport {
        let left = found.map_or(0, |found| self.pages_of_scrub(found)[1].values().sum());
        // A server without a listener was started for this check alone.
        let of_start = found.is_none() && self.listeners.is_empty();
        let at_start = if of_start { self.pages_bad_at_start().values().sum() } else { 0 };
        CheckReport {
            metadata: checkup.wrong.clone(),
            blocks_read: found.map(|found| found.blocks_read),
            bad: found.map(|found| found.bad.iter().map(|bad| self.bad_block(bad)).collect()).unwrap_or_default(),
            bad_blocks: found.map_or(0, |found| found.bad_blocks),
            bad_metadata_pages: checkup.pages_before + found.map_or(at_start, |found| self.pages_to_tell(found)),
            bad_metadata_pages_left: left,
            interrupted: found.is_some_and(|found| self.is_interrupted(found)),
            lost: self.lost(),
        }
    }

    /// Returns the number of bad pages that a scrub found. The first scrub also has those that the
    /// start found: a check of a stopped volume starts it.
    fn pages_to_tell(&self, found: &Scrub) -> u64 {
        let at_start: u64 = match self.is_first_scrub(found) {
            true => self.pages_bad_at_start().values().sum(),
            false => 0,
        };
        at_start + self.pages_of_scrub(found)[0].values().sum::<u64>()
    }

    fn bad_block(&self, found: &Found) -> BadBlock {
        let layout = &self.volume.view().layout;
        let unit = layout.units.iter().rposition(|unit| unit.first <= found.block).unwrap_or_default();
        let bytes = layout.block.bytes().0;
        BadBlock {
            unit: unit as u16,
            offset_bytes: (found.block.0 - layout.units[unit].first.0) * bytes,
            bytes,
            home_has_it: found.home_has_it(),
            outcome: match found.outcome {
                Outcome::GivenUp => "given-up",
                Outcome::Rewritten => "rewritten",
                Outcome::OneCopyLeft => "one-copy-left",
                Outcome::NoGoodCopy => "no-good-copy",
                Outcome::CopiesDiffer => "copies-differ",
            }
            .to_owned(),
        }
    }

    /// Returns the progress of the check.
    pub(super) fn check_progress(&self) -> Option<Progress> {
        let checkup = self.control.checkup.as_ref()?;
        let block = self.volume.view().block().bytes().0;
        let scrub = self.volume.scrub_progress().filter(|_| checkup.scrub && checkup.next.is_none());
        Some(Progress {
            task: "check".into(),
            done_bytes: scrub.map_or(0, |scrub| scrub.blocks_read) * block,
            left_bytes: scrub.map_or(0, |scrub| scrub.blocks_left) * block,
            ..Progress::default()
        })
    }
}

/// Returns the number of listed bad blocks with an outcome.
fn with_outcome(report: &CheckReport, outcome: &str) -> usize {
    report.bad.iter().filter(|bad| bad.outcome == outcome).count()
}

/// Describes the bad blocks of a cache or log, and of its home. `read` blocks off home were read.
fn bad_in_words(report: &CheckReport, read: u64) -> String {
    let mut text = format!("{} off home read, {}", counted(read, "block"), counted(report.bad_blocks, "bad block"));
    for (outcome, meaning) in [
        ("given-up", "read from home, which has the content"),
        ("no-good-copy", "without a good copy"),
        ("rewritten", "at home, written again from the copy off home"),
        ("one-copy-left", "at home, which cannot be written again from the copy off home"),
    ] {
        let count = with_outcome(report, outcome);
        if count > 0 {
            text += &format!("; {count} {meaning}");
        }
    }
    text
}

fn in_words(report: &CheckReport, is_mirrored: bool) -> String {
    let metadata = match report.metadata.len() {
        0 => "the map is consistent".to_owned(),
        count => format!("the map has {}: drain the volume, and report this", counted(count as u64, "fault")),
    };
    let listed = match (report.lost.blocks, report.lost.other_blocks) {
        _ if report.lost.is_empty() => String::new(),
        (lost, other) => format!(
            "; listed: {}, {}, {}",
            counted(lost, "lost block"),
            counted(other, "other bad block"),
            counted(report.lost.accepted_losses, "accepted loss")
        ),
    };
    let Some(read) = report.blocks_read else { return metadata + &pages_in_words(report) + &listed };
    let blocks = match report.bad_blocks {
        0 if is_mirrored => format!("{} the same on each drive", counted_are(read, "block")),
        bad if is_mirrored => {
            let [differ, lost] = ["copies-differ", "no-good-copy"].map(|outcome| with_outcome(report, outcome));
            format!(
                "{bad} of {read} blocks failed the check: {differ} with copies that differ, {lost} without a good copy"
            )
        }
        0 => format!("{} off home: all checksums match", counted(read, "block")),
        _ => bad_in_words(report, read),
    };
    let end = if report.interrupted {
        "; not all was read: a drive failed, or the server is ending: start the scrub again"
    } else {
        ""
    };
    format!("{metadata}; {blocks}{}{listed}{end}", pages_in_words(report))
}

fn pages_in_words(report: &CheckReport) -> String {
    let (pages, left) = (report.bad_metadata_pages, report.bad_metadata_pages_left);
    if pages == 0 {
        return String::new();
    }
    if report.blocks_read.is_none() {
        return format!("; {}", bad_pages(pages));
    }
    let were = if pages == 1 { "was" } else { "were" };
    let left = if left > 0 { format!(", and {left} of them still are") } else { String::new() };
    let pages = counted(pages, "page");
    format!("; {pages} of metadata {were} bad{left}: `bimetal status` names the drive, check it")
}
