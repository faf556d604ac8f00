//! A report as it lies in the tails of members: a page in two turns, each in two copies.
//!
//! A writer takes the turn of the report's sequence, writes its first copy, then its second copy.
//! Of all readable copies on all members, the copy with the highest sequence counts. If a turn was
//! written and no copy of it can be read, the result is *doubtful*: a newer report may have been
//! there.

use super::{AcceptedLoss, Finding, GivenUp, Kind, LINES_MAX, LOSSES_MAX, LastScrub, Line, Report, State, Unlisted};
use crate::block::{Block, BlockRun};
use crate::journal::PAGE_SECTORS;
use crate::journal::page::{self, PAGE_BYTES, Page, PageError, put, u16_at, u32_at, u64_at};
use crate::label::tail_start;
use crate::layout::MemberId;
use crate::units::{SectorRange, Sectors};

/// Ranges that a page can list; further ranges are counted.
pub const LISTED_MAX: usize = 96;

const MAGIC: u32 = 0x7072_4942; // "BIrp"
const FINDINGS_AT: usize = 112;
const FINDING_BYTES: usize = 24;
const LOSSES_AT: usize = FINDINGS_AT + LISTED_MAX * FINDING_BYTES;
const LOSS_BYTES: usize = 24;
const LINES_AT: usize = LOSSES_AT + LOSSES_MAX * LOSS_BYTES;
/// Bytes of a line before its text: time and length.
const LINE_HEAD: usize = 9;
const _: () = assert!(LINES_AT + LINES_MAX * (LINE_HEAD + super::LINE_BYTES_MAX) <= PAGE_BYTES);

/// Sectors from the tail's start to the first copies of both turns, and to their second copies.
const COPIES_AT: [u64; 2] = [4 * PAGE_SECTORS, 6 * PAGE_SECTORS];

/// Returns the places of both copies of each turn on a member of `capacity`: `[turn][copy]`.
/// Returns `None` if the member is smaller than a tail.
pub fn places(capacity: Sectors) -> Option<[[SectorRange; 2]; 2]> {
    let tail = tail_start(capacity)?.0;
    let place = |turn: u64, copy: u64| SectorRange::new(tail + copy + turn * PAGE_SECTORS, PAGE_SECTORS);
    Some([0, 1].map(|turn| COPIES_AT.map(|copy| place(turn, copy))))
}

/// The four pages of a member as they were read, `[turn][copy]`; `None` for a page that could not
/// be read.
pub type Pages = [[Option<Page>; 2]; 2];

/// Returns the newest report in the pages of all members of the volume `volume`. The returned
/// report is marked doubtful if a page may have had a newer report; `now` is the time of the line
/// of history that records the doubt.
pub fn newest(members: &[Pages], volume: u64, now: u64) -> Report {
    let mut newest = Report::default();
    // For each turn: a copy can be read, and a member has a damaged copy that may have been stable.
    let (mut whole, mut damaged) = ([false; 2], [false; 2]);
    for (turn, copies) in members.iter().flat_map(|pages| pages.iter().enumerate()) {
        let (mut is_damaged, mut is_blank) = (false, false);
        for copy in copies {
            match copy.as_ref().map(Report::decode) {
                Some(Ok((of, report))) if of == volume => {
                    whole[turn] |= report.turn() == turn;
                    if report.sequence > newest.sequence {
                        newest = report;
                    }
                }
                // The page is of another volume.
                Some(Ok(_)) => {}
                Some(Err(_)) if copy.as_ref().is_some_and(|page| page.iter().all(|&byte| byte == 0)) => is_blank = true,
                Some(Err(_)) | None => is_damaged = true,
            }
        }
        // Beside a copy that was never written no report of this turn was complete on the member.
        damaged[turn] |= is_damaged && !is_blank;
    }
    // From the second writing on, both turns have been written.
    let is_doubtful = |turn: usize| !whole[turn] && (damaged[turn] || newest.sequence > 1);
    if is_doubtful(0) || is_doubtful(1) {
        newest.doubt(now);
    }
    newest
}

impl Report {
    /// Returns the report's turn, 0 or 1.
    pub fn turn(&self) -> usize {
        (self.sequence & 1) as usize
    }

    /// Returns the report as a page of the volume `volume`. If ranges do not fit, those that are
    /// not lost are left out first, and their blocks are counted.
    pub fn encode(&self, volume: u64) -> Page {
        let (listed, unlisted) = self.fitting();
        let mut page = page::begin(MAGIC, volume);
        put(&mut page, 6, (listed.len() as u16).to_le_bytes());
        put(&mut page, 16, self.sequence.to_le_bytes());
        put(&mut page, 24, [self.losses.len() as u8, self.history.len() as u8, u8::from(self.doubtful)]);
        let scrub = self.last_scrub.unwrap_or_default();
        put(&mut page, 27, [u8::from(self.last_scrub.is_some())]);
        let Unlisted { lost, acknowledged, over } = unlisted;
        let numbers = [self.checksum_errors, lost, acknowledged, over, self.losses_unlisted];
        let scrub = [scrub.at, scrub.blocks_read, scrub.blocks_bad, scrub.took_ms, scrub.blocks_lost];
        for (at, number) in numbers.into_iter().chain(scrub).enumerate() {
            put(&mut page, 32 + 8 * at, number.to_le_bytes());
        }
        for (place, finding) in page[FINDINGS_AT..LOSSES_AT].chunks_exact_mut(FINDING_BYTES).zip(&listed) {
            put_finding(place, finding);
        }
        for (place, loss) in page[LOSSES_AT..LINES_AT].chunks_exact_mut(LOSS_BYTES).zip(&self.losses) {
            put(place, 0, loss.at.to_le_bytes());
            put(place, 8, loss.blocks.unwrap_or_default().to_le_bytes());
            put(place, 16, loss.member.0.to_le_bytes());
            put(place, 18, [what_code(loss.what), u8::from(loss.blocks.is_some())]);
        }
        let mut at = LINES_AT;
        for line in &self.history {
            put(&mut page, at, line.at.to_le_bytes());
            page[at + 8] = line.text.len() as u8;
            page[at + LINE_HEAD..][..line.text.len()].copy_from_slice(line.text.as_bytes());
            at += LINE_HEAD + line.text.len();
        }
        page::seal(&mut page);
        page
    }

    /// Returns the volume and the report from a page.
    ///
    /// # Errors
    /// The page is not a report, is torn or damaged, or of a later version.
    pub fn decode(page: &Page) -> Result<(u64, Self), PageError> {
        let volume = page::check(MAGIC, page)?;
        let number = |at: usize| u64_at(page, 32 + 8 * at);
        let scrub = LastScrub {
            at: number(5),
            blocks_read: number(6),
            blocks_bad: number(7),
            took_ms: number(8),
            blocks_lost: number(9),
        };
        let mut report = Self {
            sequence: u64_at(page, 16),
            checksum_errors: number(0),
            last_scrub: (page[27] != 0).then_some(scrub),
            doubtful: page[26] != 0,
            unlisted: Unlisted { lost: number(1), acknowledged: number(2), over: number(3) },
            losses_unlisted: number(4),
            forgotten: Unlisted { lost: number(1), acknowledged: number(2), over: 0 },
            losses: losses(page),
            history: history(page),
            ..Self::default()
        };
        let places = page[FINDINGS_AT..LOSSES_AT].chunks_exact(FINDING_BYTES).take(usize::from(u16_at(page, 6)));
        for (at, place) in places.enumerate() {
            let finding = finding(place).ok_or(PageError::Record(at as u16))?;
            let overlaps = report.cut(finding.run).iter().any(|(_, old)| old.is_some());
            if overlaps {
                return Err(PageError::Record(at as u16));
            }
            report.insert(finding);
        }
        Ok((volume, report))
    }

    /// Returns the ranges that a page lists, in order, and the count of all other ranges.
    fn fitting(&self) -> (Vec<Finding>, Unlisted) {
        let mut all: Vec<Finding> = self.findings.values().copied().collect();
        let mut rest = Self { unlisted: self.unlisted, ..Self::default() };
        if all.len() > LISTED_MAX {
            // Lost ranges come first, and the unacknowledged first among them; then the newest.
            all.sort_by_key(|finding| {
                (finding.state != State::Lost, finding.acknowledged, std::cmp::Reverse(finding.at), finding.run.first)
            });
            all.drain(LISTED_MAX..).for_each(|finding| rest.count_only(&finding));
            all.sort_by_key(|finding| finding.run.first);
        }
        (all, rest.unlisted)
    }
}

const KINDS: [Kind; 4] = [Kind::Checksum, Kind::Scrub, Kind::Unreadable, Kind::CopiesDiffer];
const STATES: [State; 5] = [State::Lost, State::Repaired, State::Rewritten, State::GivenUp, State::Uncertain];
const ACKNOWLEDGED: u8 = 0x80;

fn put_finding(place: &mut [u8], finding: &Finding) {
    let Finding { run, kind, state, member, at, acknowledged } = *finding;
    put(place, 0, run.first.0.to_le_bytes());
    // Volumes have fewer blocks than that.
    put(place, 8, (run.count.min(u64::from(u32::MAX)) as u32).to_le_bytes());
    let state = STATES.iter().position(|known| *known == state).unwrap_or_default() as u8;
    let kind = KINDS.iter().position(|known| *known == kind).unwrap_or_default() as u8;
    put(place, 12, [kind, state | if acknowledged { ACKNOWLEDGED } else { 0 }]);
    put(place, 14, member.0.to_le_bytes());
    put(place, 16, at.to_le_bytes());
}

fn finding(place: &[u8]) -> Option<Finding> {
    let (first, count) = (u64_at(place, 0), u64::from(u32_at(place, 8)));
    first.checked_add(count).filter(|_| count > 0)?;
    let state = *STATES.get(usize::from(place[13] & !ACKNOWLEDGED))?;
    Some(Finding {
        run: BlockRun { first: Block(first), count },
        kind: *KINDS.get(usize::from(place[12]))?,
        state,
        member: MemberId(u16_at(place, 14)),
        at: u64_at(place, 16),
        acknowledged: place[13] & ACKNOWLEDGED != 0 && state == State::Lost,
    })
}

fn what_code(what: GivenUp) -> u8 {
    match what {
        GivenUp::Content => 0,
        GivenUp::Foreign => 1,
        GivenUp::Part => 2,
        GivenUp::Proof => 3,
    }
}

fn what_of(code: u8) -> GivenUp {
    match code {
        0 => GivenUp::Content,
        2 => GivenUp::Part,
        3 => GivenUp::Proof,
        _ => GivenUp::Foreign,
    }
}

fn losses(page: &Page) -> Vec<AcceptedLoss> {
    let places = page[LOSSES_AT..LINES_AT].chunks_exact(LOSS_BYTES).take(usize::from(page[24]));
    let loss = |place: &[u8]| AcceptedLoss {
        at: u64_at(place, 0),
        blocks: (place[19] != 0).then(|| u64_at(place, 8)),
        member: MemberId(u16_at(place, 16)),
        what: what_of(place[18]),
    };
    places.map(loss).collect()
}

fn history(page: &Page) -> Vec<Line> {
    let mut rest = &page[LINES_AT..];
    let mut lines = Vec::new();
    for _ in 0..usize::from(page[25]).min(LINES_MAX) {
        let Some((head, behind)) = rest.split_at_checked(LINE_HEAD) else { break };
        let Some((text, behind)) = behind.split_at_checked(usize::from(head[8])) else { break };
        let Ok(text) = std::str::from_utf8(text) else { break };
        lines.push(Line { at: u64_at(head, 0), text: text.to_owned() });
        rest = behind;
    }
    lines
}
