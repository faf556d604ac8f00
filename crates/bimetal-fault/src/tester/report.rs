//! Options, report and failure of a case.

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
    /// Data on drives are damaged while the power is off.
    Damage,
    /// Scrubs begin again and again.
    Scrubs,
    /// Drives hold operations back, and requests arrive for the blocks of these operations.
    Holds,
    /// Members vanish and come back, in several lives of the volume.
    Returns,
}

impl CaseKind {
    /// All kinds, in the order in which a seed runs them.
    pub const ALL: [Self; 7] =
        [Self::Faults, Self::Cuts, Self::Refusals, Self::Damage, Self::Scrubs, Self::Holds, Self::Returns];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::Cuts => "cuts",
            Self::Refusals => "refusals",
            Self::Damage => "damage",
            Self::Scrubs => "scrubs",
            Self::Holds => "holds",
            Self::Returns => "returns",
        }
    }
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Set if drives fail. A replay needs faults on, because a seed without faults is a different
    /// case.
    pub faults: bool,
    /// Lie of every drive. The tester must notice the lie.
    pub lie: Option<Lie>,
    /// Sabotage of the engine. The tester must notice the sabotage.
    pub sabotage: Option<Sabotage>,
    /// Parameters of the scheme that are drawn, each with true if the drawn value is used; `None`
    /// if all parameters are drawn. So the seed of a failure still gives the same case after the
    /// scheme has got a further parameter.
    pub drawn: Option<&'static [(&'static str, bool)]>,
    /// Set to print every request and operation to standard error.
    pub trace: bool,
    /// The only kind of case that a seed runs; `None` for all kinds.
    pub only: Option<CaseKind>,
}

impl Default for Options {
    fn default() -> Self {
        Self { faults: true, lie: None, sabotage: None, drawn: None, trace: false, only: None }
    }
}

/// Report of a case without a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Number of finished requests, the requests of the final reading included.
    pub requests: u64,
    /// Number of requests that finished with an error.
    pub failed: u64,
    /// Number of operations that drives answered.
    pub operations: u64,
    /// Number of operations that failed.
    pub faults: u64,
    /// Hash of every operation in order. The hash is equal for equal scheme and seed.
    pub hash: u64,
    /// Number of migrations. Like checkpoints and evictions, the number of runs shows how much of
    /// the engine was exercised.
    pub migrations: u64,
    /// Number of writes of runs, by migrations that sort in the free part of their log.
    pub run_writes: u64,
    /// Number of checkpoints of the journal.
    pub checkpoints: u64,
    /// Number of commits that began while no task waited for a commit.
    pub unasked_commits: u64,
    /// Number of evicted copies.
    pub evictions: u64,
    /// Number of members that became read-only.
    pub read_only: u64,
    /// Number of scrubs that reached their end. `scrub_findings` is the number of bad blocks that
    /// these scrubs found.
    pub scrubs: u64,
    /// See [`scrubs`](Self::scrubs).
    pub scrub_findings: u64,
    /// Number of operations that drives held back.
    pub held: u64,
    /// Number of members that had vanished and came back.
    pub returns: u64,
    /// Number of damaged pages of metadata that were written again.
    pub pages_mended: u64,
    /// Number of power cuts.
    pub cuts: u64,
    /// Number of power cuts during a recovery.
    pub cut_recoveries: u64,
    /// Number of homes that were used as plain disks.
    pub plain_disks: u64,
    /// Damage and its outcomes.
    pub damage: DamageReport,
}

/// Coverage of damage cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DamageReport {
    /// Number of damage cases in which everything was right.
    pub right: u64,
    /// Number of damage cases in which some data could not be read.
    pub errors: u64,
    /// Number of damage cases in which the recovery refused.
    pub refusals: u64,
    /// Number of refusals after which the volume was recovered with all losses accepted, and read.
    pub accepted: u64,
    /// Number of damage cases with at most one damaged page of metadata. In these cases, only the
    /// content of slots may be lost.
    pub single: u64,
    by_structure: [u64; STRUCTURES.len()],
    by_kind: [u64; KINDS.len()],
}

impl DamageReport {
    /// Returns the number of cases.
    pub fn cases(&self) -> u64 {
        self.right + self.errors + self.refusals
    }

    /// Returns the number of damaged pages of this structure.
    pub fn of_structure(&self, structure: Structure) -> u64 {
        self.by_structure[structure as usize]
    }

    /// Returns the number of damages of this kind.
    pub fn of_kind(&self, kind: Kind) -> u64 {
        self.by_kind[kind as usize]
    }

    /// Counts the damages of a case.
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
        self.accepted += other.accepted;
        self.single += other.single;
        self.by_structure.iter_mut().zip(other.by_structure).for_each(|(sum, count)| *sum += count);
        self.by_kind.iter_mut().zip(other.by_kind).for_each(|(sum, count)| *sum += count);
    }

    /// Returns two lines: the damaged pages of each structure, and the damages of each kind.
    pub fn details(&self) -> String {
        let structures = STRUCTURES.map(|structure| format!("{} {}", structure.name(), self.of_structure(structure)));
        let kinds = KINDS.map(|kind| format!("{} {}", kind.name(), self.of_kind(kind)));
        format!("pages damaged: {}\ndamages: {}", structures.join(", "), kinds.join(", "))
    }
}

impl Report {
    /// Adds the report of another case. The hash becomes the hash over both reports.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.operations += other.operations;
        self.faults += other.faults;
        self.hash = self.hash.rotate_left(7) ^ other.hash;
        self.migrations += other.migrations;
        self.run_writes += other.run_writes;
        self.checkpoints += other.checkpoints;
        self.unasked_commits += other.unasked_commits;
        self.evictions += other.evictions;
        self.read_only += other.read_only;
        self.scrubs += other.scrubs;
        self.scrub_findings += other.scrub_findings;
        self.held += other.held;
        self.returns += other.returns;
        self.pages_mended += other.pages_mended;
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
        if self.run_writes > 0 {
            write!(f, ", {} writes of runs", self.run_writes)?;
        }
        if self.cuts > 0 {
            write!(f, ", {} power cuts ({} during a recovery)", self.cuts, self.cut_recoveries)?;
        }
        if self.scrubs > 0 {
            write!(
                f,
                ", {} scrubs ({} bad blocks, {} pages mended)",
                self.scrubs, self.scrub_findings, self.pages_mended
            )?;
        }
        if self.returns > 0 {
            write!(f, ", {} drives came back", self.returns)?;
        }
        if self.held > 0 {
            write!(f, ", {} operations held back", self.held)?;
        }
        if self.plain_disks > 0 {
            write!(f, ", {} homes used as plain disks", self.plain_disks)?;
        }
        let DamageReport { right, errors, refusals, accepted, single, .. } = self.damage;
        let cases = self.damage.cases();
        if cases > 0 {
            write!(f, ", {cases} volumes damaged ({single} in one page of metadata at most): {right} right, ")?;
            write!(f, "{errors} with errors, {refusals} refused ({accepted} of these read with accepted loss)")?;
        }
        Ok(())
    }
}

/// A failure, with the command that replays the failure.
#[derive(Debug, thiserror::Error)]
#[error("{message}\nThe case: {case}\nReplay: bimetal fault --scheme {scheme} --seed {seed}")]
pub struct Failure {
    /// The scheme.
    pub scheme: &'static str,
    /// The seed.
    pub seed: u64,
    /// Description of the case.
    pub case: String,
    /// Description of the violation, with the history of the sector, if the violation concerns a
    /// sector.
    pub message: String,
}
