//! What a case is run with, what it did, and what went wrong.

use std::fmt;

use crate::drive::Lie;
use crate::sabotage::Sabotage;

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
}

impl Default for Options {
    fn default() -> Self {
        Self { faults: true, lie: None, sabotage: None, drawn: None, trace: false }
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
    /// How often the power was cut.
    pub cuts: u64,
    /// Cuts that came during a recovery.
    pub cut_recoveries: u64,
    /// Homes that were used as plain disks.
    pub plain_disks: u64,
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
        self.cuts += other.cuts;
        self.cut_recoveries += other.cut_recoveries;
        self.plain_disks += other.plain_disks;
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
        if self.plain_disks > 0 {
            write!(f, ", {} homes used as plain disks", self.plain_disks)?;
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
