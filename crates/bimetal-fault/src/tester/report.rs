//! What a case is run with, what it did, and what went wrong.

use std::fmt;

use crate::damage::{self, Damage, KINDS, Kind, STRUCTURES, Structure};
use crate::drive::Lie;
use crate::sabotage::Sabotage;

/// A kind of case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaseKind {
    /// Drives fail, without power cuts.
    Faults,
    /// The power is cut.
    Cuts,
    /// A member refuses writes.
    Refusals,
    /// What lies on drives is damaged while the power is off.
    Damage,
    /// Scrubs begin again and again.
    Scrubs,
}

impl CaseKind {
    /// All of them, in the order in which a seed runs them.
    pub const ALL: [Self; 5] = [Self::Faults, Self::Cuts, Self::Refusals, Self::Damage, Self::Scrubs];

    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::Cuts => "cuts",
            Self::Refusals => "refusals",
            Self::Damage => "damage",
            Self::Scrubs => "scrubs",
        }
    }
}

/// What to run besides the ordinary.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether drives fail. What replays a failure runs with faults: without them a seed is another case.
    pub faults: bool,
    /// A lie that every drive tells: the tester must notice.
    pub lie: Option<Lie>,
    /// How the engine is broken on purpose: the tester must notice.
    pub sabotage: Option<Sabotage>,
    /// Which of the scheme's parameters are drawn, if not all, and whether they take the value that was drawn: so the seed of a
    /// failure stays the case that it was when the scheme gets a parameter.
    pub drawn: Option<&'static [(&'static str, bool)]>,
    /// Whether to print every request and operation to standard error.
    pub trace: bool,
    /// The only kind of case that a seed runs, if not all.
    pub only: Option<CaseKind>,
}

impl Default for Options {
    fn default() -> Self {
        Self { faults: true, lie: None, sabotage: None, drawn: None, trace: false, only: None }
    }
}

/// What a case that went well did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Requests that finished, those of the final reading included.
    pub requests: u64,
    /// Requests that finished with an error.
    pub failed: u64,
    /// Operations that drives answered.
    pub operations: u64,
    /// Operations that failed.
    pub faults: u64,
    /// A number made of every operation in order: the same for the same scheme and seed.
    pub hash: u64,
    /// Migrations, checkpoints and evictions: how much of the engine was exercised.
    pub migrations: u64,
    /// Checkpoints of the journal.
    pub checkpoints: u64,
    /// Copies given up.
    pub evictions: u64,
    /// Members that were found to refuse writes.
    pub read_only: u64,
    /// Scrubs that came to their end, and the bad blocks that they found.
    pub scrubs: u64,
    /// See [`scrubs`](Self::scrubs).
    pub scrub_findings: u64,
    /// How often the power was cut.
    pub cuts: u64,
    /// Cuts that came during a recovery.
    pub cut_recoveries: u64,
    /// Homes that were used as plain disks.
    pub plain_disks: u64,
    /// What was damaged, and what came of it.
    pub damage: DamageReport,
}

/// What damage cases covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DamageReport {
    /// Damage cases in which everything was right.
    pub right: u64,
    /// Those in which something could not be read.
    pub errors: u64,
    /// Those in which the recovery refused.
    pub refusals: u64,
    /// Those of one damaged page of metadata at most, of which everything but slots must be right.
    pub single: u64,
    by_structure: [u64; STRUCTURES.len()],
    by_kind: [u64; KINDS.len()],
}

impl DamageReport {
    /// How many cases there were.
    pub fn cases(&self) -> u64 {
        self.right + self.errors + self.refusals
    }

    /// How often a page of this structure was damaged.
    pub fn of_structure(&self, structure: Structure) -> u64 {
        self.by_structure[structure as usize]
    }

    /// How often a page was damaged in this way.
    pub fn of_kind(&self, kind: Kind) -> u64 {
        self.by_kind[kind as usize]
    }

    /// Counts what was done.
    pub(super) fn count(&mut self, damages: &[Damage]) {
        self.single += u64::from(damage::metadata_pages(damages) < 2);
        for damage in damages {
            self.by_kind[damage.kind as usize] += 1;
            damage.pages.iter().for_each(|page| self.by_structure[page.structure as usize] += 1);
        }
    }

    fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.errors += other.errors;
        self.refusals += other.refusals;
        self.single += other.single;
        self.by_structure.iter_mut().zip(other.by_structure).for_each(|(sum, count)| *sum += count);
        self.by_kind.iter_mut().zip(other.by_kind).for_each(|(sum, count)| *sum += count);
    }

    /// Two lines: pages damaged of each structure, and damages of each kind.
    pub fn details(&self) -> String {
        let structures = STRUCTURES.map(|structure| format!("{} {}", structure.name(), self.of_structure(structure)));
        let kinds = KINDS.map(|kind| format!("{} {}", kind.name(), self.of_kind(kind)));
        format!("pages damaged: {}\ndamages: {}", structures.join(", "), kinds.join(", "))
    }
}

impl Report {
    /// Adds what another case did; the hash becomes one of both.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.operations += other.operations;
        self.faults += other.faults;
        self.hash = self.hash.rotate_left(7) ^ other.hash;
        self.migrations += other.migrations;
        self.checkpoints += other.checkpoints;
        self.evictions += other.evictions;
        self.read_only += other.read_only;
        self.scrubs += other.scrubs;
        self.scrub_findings += other.scrub_findings;
        self.cuts += other.cuts;
        self.cut_recoveries += other.cut_recoveries;
        self.plain_disks += other.plain_disks;
        self.damage.add(&other.damage);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, failed, operations, faults, migrations, checkpoints, evictions, .. } = self;
        write!(f, "{requests} requests ({failed} ended with an error), {operations} operations ")?;
        write!(f, "({faults} failed), {migrations} moves, {checkpoints} checkpoints, {evictions} evictions")?;
        if self.cuts > 0 {
            write!(f, ", {} power cuts ({} during a recovery)", self.cuts, self.cut_recoveries)?;
        }
        if self.scrubs > 0 {
            write!(f, ", {} scrubs ({} bad blocks)", self.scrubs, self.scrub_findings)?;
        }
        if self.plain_disks > 0 {
            write!(f, ", {} homes used as plain disks", self.plain_disks)?;
        }
        let DamageReport { right, errors, refusals, single, .. } = self.damage;
        let cases = self.damage.cases();
        if cases > 0 {
            write!(f, ", {cases} volumes damaged ({single} in one page of metadata at most): {right} right, ")?;
            write!(f, "{errors} with errors, {refusals} refused")?;
        }
        Ok(())
    }
}

/// What went wrong, and how to see it again.
#[derive(Debug, thiserror::Error)]
#[error("{message}\nThe case: {case}\nReplay: bimetal fault --scheme {scheme} --seed {seed}")]
pub struct Failure {
    /// The scheme.
    pub scheme: &'static str,
    /// The seed.
    pub seed: u64,
    /// What the case was made of.
    pub case: String,
    /// What is wrong, with the history of the sector where there is one.
    pub message: String,
}
