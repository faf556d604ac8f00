//! Lost and bad content in `status` and `check`: the documents made from a volume's report, and its
//! texts.

use bimetal_core::label::report::{self, Acknowledged, GivenUp, Kind, Report, State};
use bimetal_core::layout::MemberId;
use bimetal_core::units::{counted, counted_are};
use serde::{Deserialize, Serialize};

/// Maximum of findings in a document; further findings are counted.
const NAMED_MAX: usize = 4096;

/// Lost or bad content.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    /// Number of blocks whose newest content is on no drive, acknowledged or not: reads of them are
    /// errors.
    pub blocks: u64,
    /// Size of the lost blocks, in bytes.
    pub bytes: u64,
    /// Number of lost blocks that were acknowledged.
    pub acknowledged_blocks: u64,
    /// Number of blocks that were bad and are not lost: home had the same content, the blocks were
    /// written again, or their content was given up.
    pub other_blocks: u64,
    /// Number of losses that were accepted and are not acknowledged.
    #[serde(default)]
    pub accepted_losses: u64,
    /// Ranges of lost and of other blocks, in order of address.
    pub findings: Vec<Finding>,
    /// Number of blocks in findings that are not listed.
    pub unlisted_blocks: u64,
    /// Set if a newer report may have been damaged, so that findings are missing.
    pub incomplete: bool,
}

/// Range of content that was found bad.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Finding {
    /// Way in which the range was found:
    ///
    /// - `checksum`: a read found content without its checksum.
    /// - `scrub`: a scrub found the content.
    /// - `unreadable`: a read failed.
    /// - `copies-differ`: two copies differ.
    pub kind: String,
    /// State of the range:
    ///
    /// - `lost`: reads are errors.
    /// - `repaired`: home had the same content.
    /// - `rewritten`: the range has good content again.
    /// - `given-up`: home's older content is read.
    /// - `uncertain`: the range was lost before a crash. Home has served the range since then, with
    ///   rewritten or with older content.
    pub state: String,
    /// Drive with the bad content.
    pub drive: String,
    /// Number of the unit.
    pub unit: u16,
    /// Offset in the unit, in bytes.
    pub offset_bytes: u64,
    /// Size, in bytes.
    pub bytes: u64,
    /// First block, counted through all units.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Time of the first finding, in seconds since 1970.
    pub at_s: u64,
    /// Set once the finding was acknowledged.
    pub acknowledged: bool,
}

/// Start of a volume with `--accept-loss`, or rescue, at which content was given up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AcceptedLoss {
    /// Time, in seconds since 1970.
    pub at_s: u64,
    /// Drive whose content was given up.
    pub drive: String,
    /// Kind of content:
    ///
    /// - `content`: content of this drive only.
    /// - `part`: content known only to damaged metadata on this drive.
    /// - `foreign`: content of another program, which had overwritten the beginning of home.
    /// - `proof`: the proof of this home's content, whose overwritten label a rescue wrote again.
    pub what: String,
    /// Number of blocks; null if unknown.
    pub blocks: Option<u64>,
}

/// Last scrub that read all content off home.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LastScrub {
    /// Time of the scrub's end, in seconds since 1970.
    pub at_s: u64,
    /// Number of blocks that were read.
    pub blocks_read: u64,
    /// Number of bytes that were read.
    pub read_bytes: u64,
    /// Number of blocks that were bad.
    pub bad_blocks: u64,
    /// Number of bad blocks without a good copy, or with two copies that differ.
    #[serde(default)]
    pub lost_blocks: u64,
    /// Duration in seconds.
    pub took_s: f64,
}

/// Line of the history.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HistoryLine {
    /// Time, in seconds since 1970.
    pub at_s: u64,
    /// Description of the event.
    pub text: String,
}

/// Context of a report's numbers: names of members, first blocks of units, the size of a block.
pub struct Places<'a> {
    /// Function that returns the name of a member.
    pub name: &'a dyn Fn(MemberId) -> String,
    /// First block of each unit.
    pub units: &'a [u64],
    /// Size of a block, in bytes.
    pub block_bytes: u64,
}

impl Lost {
    /// Lists the lost and bad content of `report`; at least `lost_blocks` are lost.
    pub fn of(report: &Report, lost_blocks: u64, places: &Places<'_>) -> Self {
        let blocks = report.lost_blocks().max(lost_blocks);
        let unlisted = report.unlisted();
        let unnamed: u64 = report.findings().skip(NAMED_MAX).map(|finding| finding.run.count).sum();
        Self {
            blocks,
            bytes: blocks.saturating_mul(places.block_bytes),
            acknowledged_blocks: report.acknowledged_blocks(),
            other_blocks: report.other_blocks(),
            accepted_losses: (report.losses().len() as u64).saturating_add(report.losses_unlisted()),
            findings: report.findings().take(NAMED_MAX).map(|finding| places.finding(finding)).collect(),
            unlisted_blocks: unnamed
                .saturating_add(unlisted.lost)
                .saturating_add(unlisted.acknowledged)
                .saturating_add(unlisted.over),
            incomplete: report.doubtful,
        }
    }

    /// Returns true if nothing is listed.
    pub fn is_empty(&self) -> bool {
        let Self { blocks, other_blocks, accepted_losses, findings, incomplete, .. } = self;
        (*blocks, *other_blocks, *accepted_losses) == (0, 0, 0) && findings.is_empty() && !incomplete
    }
}

impl Places<'_> {
    fn finding(&self, finding: &report::Finding) -> Finding {
        let first = finding.run.first.0;
        let unit = self.units.iter().rposition(|&begin| begin <= first).unwrap_or_default();
        let begin = self.units.get(unit).copied().unwrap_or_default();
        Finding {
            kind: kind_name(finding.kind).to_owned(),
            state: state_name(finding.state).to_owned(),
            drive: (self.name)(finding.member),
            unit: unit as u16,
            offset_bytes: first.saturating_sub(begin).saturating_mul(self.block_bytes),
            bytes: finding.run.count.saturating_mul(self.block_bytes),
            block: first,
            blocks: finding.run.count,
            at_s: finding.at,
            acknowledged: finding.acknowledged,
        }
    }

    /// Returns the losses that were accepted and are not acknowledged.
    pub fn losses(&self, report: &Report) -> Vec<AcceptedLoss> {
        let loss = |loss: &report::AcceptedLoss| AcceptedLoss {
            at_s: loss.at,
            drive: (self.name)(loss.member),
            what: match loss.what {
                GivenUp::Content => "content",
                GivenUp::Foreign => "foreign",
                GivenUp::Part => "part",
                GivenUp::Proof => "proof",
            }
            .to_owned(),
            blocks: loss.blocks,
        };
        report.losses().iter().map(loss).collect()
    }

    /// Returns the last scrub.
    pub fn last_scrub(&self, report: &Report) -> Option<LastScrub> {
        report.last_scrub.map(|scrub| LastScrub {
            at_s: scrub.at,
            blocks_read: scrub.blocks_read,
            read_bytes: scrub.blocks_read.saturating_mul(self.block_bytes),
            bad_blocks: scrub.blocks_bad,
            lost_blocks: scrub.blocks_lost,
            took_s: scrub.took_ms as f64 / 1e3,
        })
    }
}

/// Returns the history of a volume, oldest line first.
pub fn history(report: &Report) -> Vec<HistoryLine> {
    report.history().iter().map(|line| HistoryLine { at_s: line.at, text: line.text.clone() }).collect()
}

/// Returns the name of a way in which damage is found.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Checksum => "checksum",
        Kind::Scrub => "scrub",
        Kind::Unreadable => "unreadable",
        Kind::CopiesDiffer => "copies-differ",
    }
}

/// Returns the name of a state.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Lost => "lost",
        State::Repaired => "repaired",
        State::Rewritten => "rewritten",
        State::GivenUp => "given-up",
        State::Uncertain => "uncertain",
    }
}

/// Consequence of serving with `--accept-loss` without a drive that was needed.
pub(crate) const GAVE_UP: &str = "content that only a lost drive had was given up (--accept-loss): home has older \
                                  content there, of different times; check the file systems on the volume";

const GAVE_UP_A_PART: &str = "content that only damaged metadata listed was given up (--accept-loss): some blocks \
                              read as older content, and which ones is unknown; check the file systems on the volume";

const UNPROVEN: &str = "the label, the header or the state of a drive was lost, and `bimetal rescue` wrote it again: \
                        home's own content has no checksums, so nothing proves that it is whole, and nothing proves \
                        that a drive off home is no older copy, or, if an earlier version of bimetal served it last, \
                        no drive that was replaced; check the file systems on the volume, and compare them with a \
                        backup";

const OVERWROTE: &str =
    "content that another program had written over the beginning of home was given up (--accept-loss)";

/// Describes a report's meaning for the data of volume `name`: one sentence for each subject.
/// `refuses` is set if a drive refuses writes.
pub fn meaning(report: &Report, lost_blocks: u64, name: &str, refuses: bool) -> Vec<String> {
    let mut troubles = Vec::new();
    let (lost, acknowledged) = (report.lost_blocks().max(lost_blocks), report.acknowledged_blocks());
    if lost > 0 {
        let until = if refuses {
            "while a drive is read-only, writes near a lost block fail, too: once nothing else is off home, stop the \
             server, take that drive out, and run `bimetal serve` with --accept-loss"
        } else {
            "reads of a lost block fail until it is written or discarded"
        };
        let known = match acknowledged {
            0 => String::new(),
            all if all >= lost => ", all acknowledged".to_owned(),
            some => format!(", {some} of them acknowledged"),
        };
        troubles.push(format!(
            "{} lost{known}: no drive has the newest content; {until} (`bimetal check {name}` lists them)",
            counted_are(lost, "block")
        ));
    }
    if report.losses().iter().any(|loss| loss.what == GivenUp::Content) {
        troubles.push(GAVE_UP.to_owned());
    }
    if report.losses().iter().any(|loss| loss.what == GivenUp::Part) {
        troubles.push(GAVE_UP_A_PART.to_owned());
    }
    if report.losses().iter().any(|loss| loss.what == GivenUp::Foreign) {
        troubles.push(OVERWROTE.to_owned());
    }
    if report.losses().iter().any(|loss| loss.what == GivenUp::Proof) {
        troubles.push(UNPROVEN.to_owned());
    }
    let differ = |it: &&report::Finding| (it.kind, it.state) == (Kind::CopiesDiffer, State::Uncertain);
    let differing: u64 = report.findings().filter(differ).map(|it| it.run.count).sum();
    if differing > 0 {
        troubles.push(format!(
            "{} of the mirror had two copies that differed: which copy is right is unknown, and reads return either \
             until new content is written",
            counted(differing, "block")
        ));
    }
    let uncertain = report.blocks_in(State::Uncertain).saturating_sub(differing);
    if uncertain > 0 {
        troubles.push(format!(
            "{} had been lost before a crash, and reads return home's content since: a newer write, or older content",
            counted(uncertain, "block")
        ));
    }
    let other = report.other_blocks().saturating_sub(uncertain + differing);
    if other > 0 {
        troubles.push(format!(
            "{} had bad content, and none of it is lost now: home had the same content, or the content was \
             replaced or given up",
            counted(other, "block")
        ));
    }
    if report.doubtful {
        troubles.push("the report may lack findings, as its history says: more blocks may be lost".to_owned());
    }
    if !report.is_empty() {
        troubles.push(format!("`bimetal acknowledge {name}` clears the report"));
    }
    troubles
}

/// Answer to an acknowledgement when nothing is listed.
pub const NOTHING_TO_ACKNOWLEDGE: &str = "the report is empty: there is nothing to acknowledge";

/// Describes an acknowledgement.
pub fn acknowledged(cleared: &Acknowledged) -> String {
    let Acknowledged { lost_blocks, other_blocks, losses } = *cleared;
    let lost = match lost_blocks {
        0 => String::new(),
        _ => "; lost blocks stay lost, and `status` shows them, until they are written or discarded".to_owned(),
    };
    let [lost_blocks, other] =
        [(lost_blocks, "lost block"), (other_blocks, "other bad block")].map(|(count, noun)| counted(count, noun));
    format!("acknowledged: {lost_blocks}, {other}, {losses}{lost}", losses = counted(losses, "accepted loss"))
}
