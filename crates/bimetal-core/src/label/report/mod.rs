//! The report: lost or bad content, recorded on every member until a user acknowledges it.
//!
//! A [`Finding`] is a range of blocks with the kind of damage, its present [`State`] and the time.
//! Findings of lost blocks stay in the report, acknowledged or not, until the blocks have good
//! content again. All other findings stay until a user acknowledges them. The report also has a
//! count of checksum errors, the last scrub, the losses that were accepted with `--accept-loss`,
//! and a short history of lines. The size of the report is bounded: findings, losses and lines that
//! have no room in a [`page`] are counted in the page. The engine finds bad content
//! ([`Trouble`](crate::volume::Trouble)); a server writes the report. This module does no I/O, and
//! callers pass times in.

pub mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::block::{Block, BlockRun};
use crate::layout::MemberId;
use crate::units::counted;

/// Ranges that are kept in memory; blocks of further ranges are counted.
pub const RANGES_MAX: usize = 1 << 16;
/// Accepted losses that are kept; older losses are counted.
pub const LOSSES_MAX: usize = 8;
/// Lines of the history that are kept.
pub const LINES_MAX: usize = 8;
/// Bytes of a line of the history.
pub const LINE_BYTES_MAX: usize = 160;
/// The line of history while a recovery may give up content.
const LOSS_EXPECTED: &str = "a start with --accept-loss was interrupted: the content that it gave up is not in the \
                             list";

/// The way in which damage was noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A read found content in a slot that fails its checksum.
    Checksum,
    /// A scrub found content in a slot that cannot be read or fails its checksum.
    Scrub,
    /// A slot could not be read.
    Unreadable,
    /// Two copies of the same block differ.
    CopiesDiffer,
}

/// The present state of a range that was found bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No member has the newest content: reads are errors.
    Lost,
    /// Home had the same content: nothing was lost.
    Repaired,
    /// The range was lost, and has good content again: it was written, discarded, or read after
    /// all.
    Rewritten,
    /// The range was lost, and after a crash its slot is no longer in the block map. There are two
    /// possible reasons: the range was written again and written back, or recovery dropped its last
    /// write as a write that never happened. In the second case, home's older content is read. In a
    /// mirror: two copies differ, and reads return either.
    Uncertain,
    /// The range was lost, and was given up with `--accept-loss`: reads return home's older
    /// content.
    GivenUp,
}

/// A range of blocks that was found bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The blocks, in the volume's flat address space.
    pub run: BlockRun,
    /// The way in which the damage was noticed.
    pub kind: Kind,
    /// The present state of the blocks.
    pub state: State,
    /// The member that had the bad content.
    pub member: MemberId,
    /// The time of the first finding, in seconds since 1970.
    pub at: u64,
    /// Set once a user acknowledged the finding. A finding that is acknowledged stays only while
    /// its content is still lost.
    pub acknowledged: bool,
}

/// The content that was given up with `--accept-loss`, or by a rescue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GivenUp {
    /// Content that only one member had.
    Content,
    /// Content that another program had written over the beginning of a guarded home.
    Foreign,
    /// Content of one member that only damaged metadata named.
    Part,
    /// The proof of a drive's content: another program had overwritten the label or other metadata
    /// of the drive, and a rescue wrote them again.
    Proof,
}

/// A start with `--accept-loss`, or a rescue, that gave up content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedLoss {
    /// The time, in seconds since 1970.
    pub at: u64,
    /// The member whose content was given up.
    pub member: MemberId,
    /// The content that was given up.
    pub what: GivenUp,
    /// The number of blocks, if it is known.
    pub blocks: Option<u64>,
}

/// The last scrub that read everything off home.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LastScrub {
    /// The time of the scrub's end, in seconds since 1970.
    pub at: u64,
    /// Blocks that were read.
    pub blocks_read: u64,
    /// Blocks that were bad.
    pub blocks_bad: u64,
    /// Bad blocks without a good copy, or with two copies that differ.
    pub blocks_lost: u64,
    /// The duration of the scrub, in milliseconds.
    pub took_ms: u64,
}

/// A line of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The time, in seconds since 1970.
    pub at: u64,
    /// The event, in words.
    pub text: String,
}

/// Blocks of findings that have no room in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unlisted {
    /// Lost blocks.
    pub lost: u64,
    /// Lost blocks that were acknowledged.
    pub acknowledged: u64,
    /// Blocks that are not lost.
    pub over: u64,
}

/// The findings that an acknowledgement cleared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    /// Blocks that are lost; they stay in the report until they have good content again.
    pub lost_blocks: u64,
    /// Blocks that were bad and are not lost.
    pub other_blocks: u64,
    /// Accepted losses.
    pub losses: u64,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Number of the writing; its lowest bit is its turn.
    pub sequence: u64,
    /// Blocks read from slots that failed their checksum, in all.
    pub checksum_errors: u64,
    /// The last scrub.
    pub last_scrub: Option<LastScrub>,
    /// Set if a newer report may have been damaged, so that this report may lack findings. An
    /// acknowledgement clears the flag.
    pub doubtful: bool,
    /// Findings by first block; no two overlap.
    findings: BTreeMap<u64, Finding>,
    unlisted: Unlisted,
    /// Unlisted blocks whose places a restart forgot: they may be found again.
    forgotten: Unlisted,
    losses: Vec<AcceptedLoss>,
    losses_unlisted: u64,
    history: Vec<Line>,
}

impl Report {
    /// Returns all findings, in order of block.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.values()
    }

    /// Returns the same report under another number.
    pub fn numbered(&self, sequence: u64) -> Self {
        Self { sequence, ..self.clone() }
    }

    /// Returns the blocks of findings that are not in the list.
    pub fn unlisted(&self) -> Unlisted {
        self.unlisted
    }

    /// Returns the accepted losses that were not acknowledged, oldest first.
    pub fn losses(&self) -> &[AcceptedLoss] {
        &self.losses
    }

    /// Returns the number of older accepted losses that are not kept.
    pub fn losses_unlisted(&self) -> u64 {
        self.losses_unlisted
    }

    /// Returns the history, oldest line first.
    pub fn history(&self) -> &[Line] {
        &self.history
    }

    /// Returns true if nothing is to be acknowledged.
    pub fn is_empty(&self) -> bool {
        let Unlisted { lost, over, .. } = self.unlisted;
        let any = self.findings.values().any(|finding| !finding.acknowledged);
        !any && lost == 0 && over == 0 && self.losses.is_empty() && self.losses_unlisted == 0 && !self.doubtful
    }

    /// Returns the number of blocks whose newest content no member has, acknowledged or not.
    pub fn lost_blocks(&self) -> u64 {
        let listed = self.blocks_with(|finding| finding.state == State::Lost);
        listed.saturating_add(self.unlisted.lost).saturating_add(self.unlisted.acknowledged)
    }

    /// Returns the number of lost blocks that were acknowledged.
    pub fn acknowledged_blocks(&self) -> u64 {
        self.blocks_with(|finding| finding.acknowledged).saturating_add(self.unlisted.acknowledged)
    }

    /// Returns the number of blocks with a finding that are not lost.
    pub fn other_blocks(&self) -> u64 {
        self.blocks_with(|finding| finding.state != State::Lost).saturating_add(self.unlisted.over)
    }

    /// Returns the number of blocks of listed findings in the state `state`.
    pub fn blocks_in(&self, state: State) -> u64 {
        self.blocks_with(|finding| finding.state == state)
    }

    fn blocks_with(&self, is: impl Fn(&Finding) -> bool) -> u64 {
        let each = self.findings.values().filter(|finding| is(finding)).map(|finding| finding.run.count);
        each.fold(0, u64::saturating_add)
    }

    /// Records a finding. Returns true if the finding adds anything new. Blocks already known to be
    /// in the state `state` stay as they are: the time of the first finding and an acknowledgement
    /// hold.
    pub fn found(&mut self, new: Finding) -> bool {
        let mut news = false;
        for (run, old) in self.cut(new.run) {
            match old {
                Some(old) if old.state == new.state => self.insert(old),
                Some(_) => {
                    news = true;
                    self.insert(Finding { run, ..new });
                }
                None => news |= self.add(Finding { run, ..new }),
            }
        }
        news
    }

    /// Records that blocks have good content again: they were written, discarded or read
    /// successfully. Returns true if any of these blocks was lost.
    pub fn over(&mut self, run: BlockRun) -> bool {
        let mut changed = false;
        for (part, old) in self.cut(run) {
            match old {
                Some(old) if old.state == State::Lost => {
                    changed = true;
                    if !old.acknowledged {
                        self.insert(Finding { state: State::Rewritten, ..old });
                    }
                }
                Some(old) => self.insert(old),
                None => {
                    let lost = self.unlisted.lost.min(part.count);
                    let acknowledged = self.unlisted.acknowledged.min(part.count - lost);
                    self.unlisted.lost -= lost;
                    self.unlisted.over = self.unlisted.over.saturating_add(lost);
                    self.unlisted.acknowledged -= acknowledged;
                    self.forgotten.lost = self.forgotten.lost.min(self.unlisted.lost);
                    self.forgotten.acknowledged = self.forgotten.acknowledged.min(self.unlisted.acknowledged);
                    changed |= lost + acknowledged > 0;
                }
            }
        }
        changed
    }

    /// Records that lost blocks have no slot after a restart, for an unknown reason.
    pub fn unclear(&mut self, run: BlockRun) {
        for (_, old) in self.cut(run) {
            match old {
                Some(old) if old.state == State::Lost => {
                    self.insert(Finding { state: State::Uncertain, acknowledged: false, ..old });
                }
                Some(old) => self.insert(old),
                None => {}
            }
        }
    }

    /// Records that the owner gave up content: nothing is lost any more, and lost blocks count as
    /// given up.
    pub fn accept(&mut self, loss: AcceptedLoss) {
        if loss.what == GivenUp::Content {
            for finding in std::mem::take(&mut self.findings).into_values() {
                let lost = finding.state == State::Lost;
                let state = if lost { State::GivenUp } else { finding.state };
                self.insert(Finding { state, acknowledged: false, ..finding });
            }
            let Unlisted { lost, acknowledged, over } = self.unlisted;
            let over = over.saturating_add(lost).saturating_add(acknowledged);
            self.unlisted = Unlisted { over, ..Unlisted::default() };
            self.forgotten = Unlisted::default();
        }
        self.losses.push(loss);
        if self.losses.len() > LOSSES_MAX {
            self.losses.remove(0);
            self.losses_unlisted = self.losses_unlisted.saturating_add(1);
        }
    }

    /// Records a scrub that has read everything off home. The scrub has found again every lost
    /// block whose place was forgotten.
    pub fn scrubbed(&mut self, scrub: LastScrub) {
        self.last_scrub = Some(scrub);
        let Unlisted { lost, acknowledged, .. } = std::mem::take(&mut self.forgotten);
        self.unlisted.lost -= lost;
        self.unlisted.acknowledged -= acknowledged;
        self.unlisted.over = self.unlisted.over.saturating_add(lost);
    }

    /// Clears the list at the time `at`, on behalf of `by`; `None` if nothing is to be
    /// acknowledged. Blocks that are still lost stay, as acknowledged.
    pub fn acknowledge(&mut self, at: u64, by: &str) -> Option<Acknowledged> {
        if self.is_empty() {
            return None;
        }
        let cleared = Acknowledged {
            lost_blocks: self.lost_blocks() - self.acknowledged_blocks(),
            other_blocks: self.other_blocks(),
            losses: self.losses.len() as u64 + self.losses_unlisted,
        };
        let old = std::mem::take(&mut self.findings).into_values();
        for finding in old.filter(|finding| finding.state == State::Lost).collect::<Vec<_>>() {
            self.insert(Finding { acknowledged: true, ..finding });
        }
        let acknowledged = self.unlisted.acknowledged.saturating_add(self.unlisted.lost);
        self.unlisted = Unlisted { acknowledged, ..Unlisted::default() };
        let forgotten = self.forgotten.acknowledged.saturating_add(self.forgotten.lost);
        self.forgotten = Unlisted { acknowledged: forgotten, ..Unlisted::default() };
        self.losses.clear();
        self.losses_unlisted = 0;
        let doubt =
            if std::mem::take(&mut self.doubtful) { ", and a warning that the report may lack findings" } else { "" };
        let Acknowledged { lost_blocks, other_blocks, losses } = cleared;
        self.note(
            at,
            &format!(
                "{by} acknowledged {}, {} and {}{doubt}",
                counted(lost_blocks, "lost block"),
                counted(other_blocks, "other bad block"),
                counted(losses, "accepted loss")
            ),
        );
        Some(cleared)
    }

    /// Marks the report as doubtful, because a newer report may have been damaged.
    pub fn doubt(&mut self, at: u64) {
        self.doubt_because(
            at,
            "the newest report could not be read: an older report is used, and findings may be \
                                missing",
        );
    }

    /// Makes the report doubtful, with the reason in its history. Returns true if the report was
    /// not doubtful before.
    fn doubt_because(&mut self, at: u64, reason: &str) -> bool {
        let is_new = !std::mem::replace(&mut self.doubtful, true);
        if is_new {
            self.note(at, reason);
        }
        is_new
    }

    /// Marks the report as doubtful before a recovery that may give up content, until the loss is
    /// known. Returns true if the report was not doubtful before.
    pub fn expect_loss(&mut self, at: u64) -> bool {
        self.doubt_because(at, LOSS_EXPECTED)
    }

    /// Withdraws the mark of [`expect_loss`](Self::expect_loss): the recovery has ended, and the
    /// report has its losses.
    pub fn loss_is_known(&mut self) {
        self.history.retain(|line| line.text != LOSS_EXPECTED);
        self.doubtful = false;
    }

    /// Adds a line to the history; the oldest line is dropped if there are too many.
    pub fn note(&mut self, at: u64, text: &str) {
        let mut line: String = text.chars().filter(|letter| !letter.is_control()).collect();
        let fits = (0..=LINE_BYTES_MAX.min(line.len())).rev().find(|&end| line.is_char_boundary(end));
        line.truncate(fits.unwrap_or_default());
        self.history.push(Line { at, text: line });
        if self.history.len() > LINES_MAX {
            self.history.remove(0);
        }
    }

    /// Adds blocks that are not in the list. Returns true if the report had nothing about some of
    /// the blocks. Blocks that the list lacks may be among the blocks that were only counted.
    fn add(&mut self, new: Finding) -> bool {
        let mut rest = new.run;
        if new.state == State::Lost {
            let lost = self.forgotten.lost.min(rest.count);
            self.forgotten.lost -= lost;
            self.unlisted.lost -= lost;
            self.insert(Finding { run: take(&mut rest, lost), ..new });
            let acknowledged = self.forgotten.acknowledged.min(rest.count);
            self.forgotten.acknowledged -= acknowledged;
            self.unlisted.acknowledged -= acknowledged;
            self.insert(Finding { run: take(&mut rest, acknowledged), acknowledged: true, ..new });
        }
        self.insert(Finding { run: rest, ..new });
        rest.count > 0
    }

    /// Removes `run` from the list. Returns the listed parts of `run` in order, each with its
    /// finding.
    fn cut(&mut self, run: BlockRun) -> Vec<(BlockRun, Option<Finding>)> {
        let end = run.first.0.saturating_add(run.count);
        let before = self.findings.range(..run.first.0).next_back().map(|(&first, _)| first);
        let within = self.findings.range(run.first.0..end.max(run.first.0)).map(|(&first, _)| first);
        let touched: Vec<u64> = before.into_iter().chain(within).collect();
        let (mut parts, mut at) = (Vec::new(), run.first.0);
        for first in touched {
            let Some(old) = self.findings.remove(&first) else { continue };
            let (from, to) = (first.max(run.first.0), old.run.end().min(end));
            if from >= to {
                self.findings.insert(first, old);
                continue;
            }
            for (from, to) in [(first, from), (to, old.run.end())] {
                if from < to {
                    self.findings.insert(from, Finding { run: run_of(from, to), ..old });
                }
            }
            if at < from {
                parts.push((run_of(at, from), None));
            }
            parts.push((run_of(from, to), Some(Finding { run: run_of(from, to), ..old })));
            at = to;
        }
        if at < end {
            parts.push((run_of(at, end), None));
        }
        parts
    }

    /// Adds a finding for blocks without a finding, and joins the new finding with equal
    /// neighbours.
    fn insert(&mut self, mut new: Finding) {
        if new.run.count == 0 {
            return;
        }
        let joins = |one: &Finding, other: &Finding| {
            let say = |finding: &Finding| (finding.kind, finding.state, finding.member, finding.acknowledged);
            one.run.end() == other.run.first.0 && say(one) == say(other)
        };
        let before = self.findings.range(..new.run.first.0).next_back().map(|(_, finding)| *finding);
        if let Some(before) = before.filter(|before| joins(before, &new)) {
            self.findings.remove(&before.run.first.0);
            new.run = run_of(before.run.first.0, new.run.end());
            new.at = new.at.min(before.at);
        }
        if let Some(after) = self.findings.get(&new.run.end()).copied().filter(|after| joins(&new, after)) {
            self.findings.remove(&after.run.first.0);
            new.run = run_of(new.run.first.0, after.run.end());
            new.at = new.at.min(after.at);
        }
        if self.findings.len() >= RANGES_MAX {
            return self.count_only(&new);
        }
        self.findings.insert(new.run.first.0, new);
    }

    fn count_only(&mut self, finding: &Finding) {
        let counter = match (finding.state, finding.acknowledged) {
            (State::Lost, false) => &mut self.unlisted.lost,
            (State::Lost, true) => &mut self.unlisted.acknowledged,
            _ => &mut self.unlisted.over,
        };
        *counter = counter.saturating_add(finding.run.count);
    }
}

/// Takes the first `count` blocks off `run`.
fn take(run: &mut BlockRun, count: u64) -> BlockRun {
    let taken = BlockRun { first: run.first, count };
    *run = BlockRun { first: Block(run.first.0 + count), count: run.count - count };
    taken
}

fn run_of(first: u64, end: u64) -> BlockRun {
    BlockRun { first: Block(first), count: end - first }
}
