//! The ledger: the volume's report while the volume is served. Findings of the volume enter the
//! report, and each is printed on standard error. The report is written to the members outside the
//! loop, at most once a second.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::thread::JoinHandle;

use bimetal_core::block::BlockRun;
use bimetal_core::label::report::{Finding, Kind, LastScrub, Line, Report, State};
use bimetal_core::layout::MemberId;
use bimetal_core::units::{Nanoseconds, counted};
use bimetal_core::volume::{Scrub, Trouble};
use bimetal_volumes::lost::{self, Lost, Places};
use bimetal_volumes::system::seconds_since_1970;

use super::Server;
use super::control::Watch;
use super::label_pages::sum;
use crate::control::message::{Done, Reply};

/// Minimum interval between writes of the report.
const WRITE_EVERY: Nanoseconds = Nanoseconds::from_seconds(1);
/// Largest number of lines on standard error within [`LINES_EVERY`]. Further findings are counted
/// in one line.
const LINES_MAX: u32 = 10;
/// Time within which at most [`LINES_MAX`] lines are printed.
const LINES_EVERY: Nanoseconds = Nanoseconds::from_seconds(10);

/// See the [module](self).
#[derive(Default)]
pub(super) struct Ledger {
    report: Report,
    /// Number of checksum errors that were merged into the report.
    checksum_errors_taken: u64,
    /// Start of the last scrub whose findings were merged into the report.
    scrub_taken: Option<Nanoseconds>,
    /// Bad pages of the labels that the start found.
    bad_label_pages: BTreeMap<MemberId, u64>,
    /// Bad pages of metadata that the last scrub found, with the pages that the start found if it
    /// was the first scrub; `None` before the first scrub.
    pages_of_scrub: Option<BTreeMap<MemberId, u64>>,
    /// Beginning of the scrub that last found bad pages on each member, as noted in the history.
    pages_noted: BTreeMap<MemberId, Nanoseconds>,
    /// Set while the members lack the newest report.
    unwritten: bool,
    /// Thread that writes the report, while it runs.
    writing: Option<JoinHandle<()>>,
    /// Time from which the report may be written.
    write_at: Nanoseconds,
    /// Answer to an acknowledgement that waits until the report is written.
    acknowledged: Option<String>,
    lines: Lines,
}

/// Lines on standard error in the current period.
#[derive(Default)]
struct Lines {
    since: Nanoseconds,
    said: u32,
    /// Number of blocks in findings for which no line was printed.
    unsaid: u64,
}

impl Server {
    /// Returns the current report.
    pub(super) fn known_report(&self) -> &Report {
        &self.ledger.report
    }

    /// Returns lost and bad content, for requesters.
    pub(super) fn lost(&self) -> Lost {
        let view = self.volume.view();
        let units: Vec<u64> = view.layout.units.iter().map(|unit| unit.first.0).collect();
        let name = |member| self.name_of(member);
        let places = Places { name: &name, units: &units, block_bytes: view.block().bytes().0 };
        Lost::of(self.known_report(), self.volume.lost_blocks(), &places)
    }

    fn name_of(&self, member: MemberId) -> String {
        let about = self.control.about.as_ref();
        about.map_or_else(|| format!("member {}", member.0), |about| about.name_of(member))
    }

    /// Loads the report from the members, when the server begins.
    pub(super) fn open_ledger(&mut self) {
        let Some(held) = &self.control.held else { return };
        let held = held.lock().unwrap_or_else(PoisonError::into_inner);
        self.ledger.report = held.report().clone();
        self.ledger.bad_label_pages = held.bad_label_pages().clone();
        drop(held);
        let report = &mut self.ledger.report;
        self.ledger.unwritten |= report.doubtful;
        let lost: Vec<BlockRun> = report.findings().filter(|it| it.state == State::Lost).map(|it| it.run).collect();
        for gone in lost.into_iter().flat_map(|run| self.volume.recall_lost(run)).collect::<Vec<_>>() {
            self.ledger.report.unclear(gone);
            self.ledger.unwritten = true;
        }
        self.note_bad_pages();
        self.take_troubles();
    }

    /// Returns the number of bad pages of metadata that the start found on each member.
    pub(super) fn pages_bad_at_start(&self) -> BTreeMap<MemberId, u64> {
        sum(&self.volume.bad_pages().collect(), &self.ledger.bad_label_pages)
    }

    /// Adds the bad pages of metadata that the start found to the history.
    fn note_bad_pages(&mut self) {
        for (member, pages) in self.pages_bad_at_start() {
            self.note_pages_of(member, &bad_pages(pages));
        }
    }

    /// Adds a line about a drive's pages to the history. If the drive's newest line is the same, it
    /// is not repeated within a day: the history is short.
    fn note_pages_of(&mut self, member: MemberId, text: &str) {
        let (name, now) = (self.name_of(member), seconds_since_1970());
        let line = format!("{name}: {text}");
        let of_drive = |known: &&Line| known.text.starts_with(&format!("{name}: "));
        let newest = self.ledger.report.history().iter().rev().find(of_drive);
        if newest.is_some_and(|newest| newest.text == line && now.saturating_sub(newest.at) < 24 * 3600) {
            return;
        }
        self.ledger.report.note(now, &line);
        self.ledger.unwritten = true;
    }

    /// Prints the bad pages of metadata that the start found.
    pub(super) fn tell_bad_pages(&mut self) {
        for (member, pages) in self.pages_bad_at_start() {
            let line = format!("{}: {}", self.called(member.0), bad_pages(pages));
            self.say(&line);
        }
    }

    /// Adds the bad pages of metadata that a scrub found to the history, and prints them.
    pub(super) fn note_pages_of_scrub(&mut self, scrub: &Scrub) {
        let [bad, left_bad] = self.pages_of_scrub(scrub);
        if !scrub.interrupted || !bad.is_empty() {
            // A check also tells of the pages that the start found, and of those of the scrub for
            // which it waited, and refers to the status.
            let waited = self.control.checkup.as_ref().is_some_and(|checkup| checkup.pages_before > 0);
            let before = match self.is_first_scrub(scrub) {
                true => self.pages_bad_at_start(),
                false => self.ledger.pages_of_scrub.clone().filter(|_| waited).unwrap_or_default(),
            };
            self.ledger.pages_of_scrub = Some(sum(&bad, &before));
        }
        for (member, pages) in bad {
            let left = match left_bad.get(&member) {
                None => String::new(),
                Some(left) => format!(", and {left} of them still are"),
            };
            let found = format!("a scrub found {} of metadata bad{left}: check the drive", counted(pages, "page"));
            let line = format!("{}: {found}", self.called(member.0));
            self.say(&line);
        }
    }

    /// Adds to the history that a scrub under way finds bad pages on a member, once a scrub. The
    /// pages are written again before the scrub ends, so the end may be too late.
    pub(super) fn note_first_pages_of_scrub(&mut self) {
        let Some(scrub) = self.volume.scrub_progress() else { return };
        let began = scrub.began;
        let told = |member: &MemberId| self.ledger.pages_noted.get(member) == Some(&began);
        let [bad, _] = self.pages_of_scrub(scrub);
        let new: Vec<MemberId> = bad.into_keys().filter(|member| !told(member)).collect();
        for member in new {
            self.ledger.pages_noted.insert(member, began);
            self.note_pages_of(member, "a scrub found pages of metadata bad: check the drive");
        }
    }

    /// Returns the number of bad pages of metadata on each member: as of the start until the second
    /// scrub, with those of the first scrub, and then as of the last scrub.
    pub(super) fn bad_pages(&self) -> BTreeMap<MemberId, u64> {
        self.ledger.pages_of_scrub.clone().unwrap_or_else(|| self.pages_bad_at_start())
    }

    /// Adds new findings of the volume to the report, and prints the findings.
    pub(super) fn take_troubles(&mut self) {
        let errors = self.volume.statistics().checksum_errors;
        if errors != self.ledger.checksum_errors_taken {
            let report = &mut self.ledger.report;
            report.checksum_errors += errors - self.ledger.checksum_errors_taken;
            self.ledger.checksum_errors_taken = errors;
            self.ledger.unwritten = true;
        }
        while let Some(trouble) = self.volume.next_trouble() {
            match trouble {
                Trouble::Found { blocks, kind, state, member } => {
                    let at = seconds_since_1970();
                    let finding = Finding { run: blocks, kind, state, member, at, acknowledged: false };
                    if self.ledger.report.found(finding) {
                        self.ledger.unwritten = true;
                        self.tell_finding(&finding);
                    }
                }
                Trouble::Over { blocks } => self.ledger.unwritten |= self.ledger.report.over(blocks),
            }
        }
        self.take_scrub();
    }

    /// Adds a scrub that has ended completely since the last call.
    fn take_scrub(&mut self) {
        let Some(scrub) = self.volume.scrub_progress().filter(|scrub| scrub.finished && !scrub.interrupted) else {
            return;
        };
        if self.ledger.scrub_taken == Some(scrub.began) {
            return;
        }
        let took = scrub.ended.map_or(Nanoseconds::ZERO, |ended| ended.saturating_sub(scrub.began));
        let (blocks_read, blocks_bad, blocks_lost) = (scrub.blocks_read, scrub.bad_blocks, scrub.lost_blocks);
        self.ledger.scrub_taken = Some(scrub.began);
        let took_ms = took.as_millis_f64() as u64;
        let at = seconds_since_1970();
        self.ledger.report.scrubbed(LastScrub { at, blocks_read, blocks_bad, blocks_lost, took_ms });
        self.ledger.unwritten = true;
    }

    fn tell_finding(&mut self, finding: &Finding) {
        let lines = &mut self.ledger.lines;
        if self.now.saturating_sub(lines.since) >= LINES_EVERY {
            *lines = Lines { since: self.now, ..Lines::default() };
        }
        lines.said += 1;
        if lines.said > LINES_MAX {
            let first = lines.unsaid == 0;
            lines.unsaid = lines.unsaid.saturating_add(finding.run.count);
            if first {
                self.say("more bad blocks were found than are printed here: `bimetal status` lists them");
            }
            return;
        }
        let drive = self.called(finding.member.0);
        let place = self.place_of(finding.run);
        let line = format!("{drive}: {place} {}", in_words(finding.kind, finding.state, finding.run.count));
        self.say(&line);
    }

    /// Describes blocks for people: their numbers, and their bytes in the unit.
    fn place_of(&self, run: BlockRun) -> String {
        let layout = &self.volume.view().layout;
        let unit = layout.units.iter().rposition(|unit| unit.first <= run.first).unwrap_or_default();
        let first = layout.units.get(unit).map_or(0, |unit| unit.first.0);
        let bytes = layout.block.bytes().0;
        let (from, to) = ((run.first.0 - first) * bytes, (run.end() - first) * bytes - 1);
        let of_unit = if layout.units.len() > 1 { format!(" of unit {unit}") } else { String::new() };
        match run.count {
            1 => format!("block {} (bytes {from} to {to}{of_unit})", run.first.0),
            _ => format!("blocks {} to {} (bytes {from} to {to}{of_unit})", run.first.0, run.end() - 1),
        }
    }

    /// Returns the time at which the report is to be written; `None` if it need not be written.
    pub(super) fn ledger_deadline(&self) -> Option<Nanoseconds> {
        let wanted = self.ledger.unwritten && self.ledger.writing.is_none() && self.control.held.is_some();
        wanted.then_some(self.ledger.write_at)
    }

    /// Writes the report outside the loop, if its time has come.
    pub(super) fn keep_ledger(&mut self) {
        if self.ledger_deadline().is_none_or(|at| at > self.now) {
            return;
        }
        let Some(keep) = self.keeping_report() else { return };
        self.ledger.write_at = self.now.saturating_add(WRITE_EVERY);
        let acknowledged = self.ledger.acknowledged.take();
        let waiting = acknowledged.clone();
        // If no thread can be started, the report is written the next time.
        self.ledger.writing = self.outside(keep, move |server, kept| server.ledger_kept(kept, waiting)).ok();
        self.ledger.unwritten = self.ledger.writing.is_none();
        if self.ledger.unwritten {
            self.ledger.acknowledged = acknowledged;
        }
    }

    fn ledger_kept(&mut self, kept: Result<(), String>, acknowledged: Option<String>) {
        self.ledger.writing = None;
        if let Err(error) = &kept {
            self.ledger.unwritten = true;
            self.say(&format!("the report of lost and bad content cannot be written: {error}"));
        }
        let Some(message) = acknowledged else { return };
        let reply = match kept {
            Ok(()) => Reply::Done(Done::new(message)),
            Err(error) => Reply::error(format!(
                "{message}; the report cannot be written, so the finding may be forgotten when the server ends: {error}"
            )),
        };
        self.tell_watchers(Watch::Acknowledge, &reply);
    }

    fn keeping_report(&self) -> Option<impl FnOnce() -> Result<(), String> + Send + 'static> {
        let (held, report) = (self.control.held.clone()?, self.ledger.report.clone());
        Some(move || {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            held.keep_report(&report).map_err(|error| error.to_string())
        })
    }

    /// Writes the report when the server ends, if the members lack the newest report.
    pub(super) fn close_ledger(&mut self) {
        self.close_scrubs();
        self.take_troubles();
        if let Some(writing) = self.ledger.writing.take() {
            // After a panic of the thread, the report is written again.
            self.ledger.unwritten |= writing.join().is_err();
        }
        if self.ledger.unwritten {
            // An error is ignored, as no requester is left; the report that was written before
            // stays valid.
            self.keeping_report().into_iter().for_each(|keep| drop(keep()));
        }
    }

    pub(super) fn hear_acknowledge(&mut self, key: usize, by: &str) -> Option<Reply> {
        self.take_troubles();
        let Some(cleared) = self.ledger.report.acknowledge(seconds_since_1970(), by) else {
            return Some(Reply::Done(Done::new(lost::NOTHING_TO_ACKNOWLEDGE)));
        };
        let message = lost::acknowledged(&cleared);
        self.ledger.unwritten = true;
        if self.control.held.is_none() {
            return Some(Reply::Done(Done::new(message)));
        }
        self.ledger.acknowledged = Some(message);
        self.ledger.write_at = self.now;
        self.watch(key, Watch::Acknowledge);
        None
    }
}

/// Describes bad pages of metadata on a drive, as the part of a sentence after the drive.
pub(super) fn bad_pages(pages: u64) -> String {
    let were = if pages == 1 { "was" } else { "were" };
    let pages = counted(pages, "page");
    format!("{pages} of metadata {were} bad at the start: normal after a power cut, otherwise check the drive")
}

/// Describes a finding of `count` blocks, as the part of a sentence after their place.
fn in_words(kind: Kind, state: State, count: u64) -> String {
    let is_one = count == 1;
    let found = match kind {
        Kind::Checksum if is_one => "does not match its checksum",
        Kind::Checksum => "do not match their checksums",
        Kind::Scrub if is_one => "was found bad by a scrub",
        Kind::Scrub => "were found bad by a scrub",
        Kind::Unreadable => "cannot be read",
        Kind::CopiesDiffer if is_one => "has two copies that differ",
        Kind::CopiesDiffer => "have two copies that differ",
    };
    let means = match state {
        State::Uncertain if kind == Kind::CopiesDiffer => "which copy is right is unknown, and reads return either",
        State::Lost => "home has only older content, so reads fail until new content is written, or a discard",
        State::Repaired => "home has the same content and serves it: nothing is lost",
        State::Rewritten => "there is good content again",
        State::GivenUp | State::Uncertain => "reads may return home's older content",
    };
    format!("{found}; {means}")
}
