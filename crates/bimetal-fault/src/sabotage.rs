//! Sabotage: a defect that a test of the fault tester inserts between engine and drives, such as a
//! flush that never reaches its drive. To the tester, the sabotage looks like a defect of the
//! engine. The tester must notice the sabotage.

use std::cell::Cell;
use std::collections::BTreeSet;

use bimetal_core::journal::PAGE_SECTORS;
use bimetal_core::operation::{OpKind, Operation, Status, Token};

use crate::drive::{Drive, Ended};
use crate::payload::{Sector, Tags};
use crate::random::Random;

/// Kind of sabotage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// One flush in this number never reaches its drive, and succeeds.
    SkipsFlushes(u64),
    /// Every checksum is the same, so any content of a slot passes.
    ChecksumsPass,
    /// One read page of metadata in this number has the content from before its last write.
    ServesOlderPages(u64),
    /// Damage to a page of metadata at rest also destroys the page's copies.
    LosesCopies,
    /// One write in this number is acknowledged early and lands only after the next write on its
    /// drive.
    SwapsWrites(u64),
}

thread_local! {
    static CHECKSUMS_PASS: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if every checksum is the same in this thread.
pub(crate) fn checksums_pass() -> bool {
    CHECKSUMS_PASS.get()
}

/// Value that ends [`Sabotage::ChecksumsPass`] when it is dropped.
pub(crate) struct Scope(());

impl Scope {
    /// Begins sabotage that does not act between engine and drives.
    pub(crate) fn enter(sabotage: Option<Sabotage>) -> Self {
        CHECKSUMS_PASS.set(sabotage == Some(Sabotage::ChecksumsPass));
        Self(())
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        CHECKSUMS_PASS.set(false);
    }
}

/// Saboteur between the engine and its drives.
#[derive(Default)]
pub(crate) struct Saboteur {
    sabotage: Option<Sabotage>,
    /// Operations that never reach the drive, and whose success is pretended.
    pretended: BTreeSet<Token>,
    held: Option<Operation<Tags>>,
    landed_late: u64,
}

impl Saboteur {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..Self::default() }
    }

    /// Returns true if there is sabotage. With sabotage, the checks ignore the content of the
    /// drives.
    pub(crate) fn is_at_work(&self) -> bool {
        self.sabotage.is_some()
    }

    /// Returns the operations that reach the drive in place of `operation`.
    pub(crate) fn pass(&mut self, operation: Operation<Tags>, random: &mut Random) -> Vec<Operation<Tags>> {
        match (self.sabotage, operation.command.kind) {
            (Some(Sabotage::SkipsFlushes(n)), OpKind::Flush) if random.one_in(n) => vec![self.pretend(&operation)],
            (Some(Sabotage::SwapsWrites(n)), OpKind::Write) => match self.held.take() {
                Some(held) if held.target == operation.target => {
                    // The engine never uses this token.
                    self.landed_late += 1;
                    let late = Operation { token: Token(u64::MAX - self.landed_late), ..held };
                    vec![operation, late]
                }
                Some(held) => {
                    self.held = Some(held);
                    vec![operation]
                }
                None if random.one_in(n) => {
                    let pretence = self.pretend(&operation);
                    self.held = Some(operation);
                    vec![pretence]
                }
                None => vec![operation],
            },
            _ => vec![operation],
        }
    }

    /// Returns an operation without effect, in place of `operation`.
    fn pretend(&mut self, operation: &Operation<Tags>) -> Operation<Tags> {
        self.pretended.insert(operation.token);
        let mut pretence = operation.clone();
        pretence.command.kind = OpKind::Hint;
        pretence.payload = Tags::default();
        pretence
    }

    /// Returns the completion to be given to the engine; `None` for an operation that the engine
    /// did not issue.
    pub(crate) fn ended(&mut self, mut ended: Ended) -> Option<Ended> {
        if self.landed_late > 0 && ended.operation.token.0 >= u64::MAX - self.landed_late {
            return None;
        }
        if self.pretended.remove(&ended.operation.token) && ended.completion.status == Status::Unsupported {
            ended.completion.status = Status::Done;
        }
        Some(ended)
    }

    /// Returns true if copies of damaged pages are destroyed.
    pub(crate) fn loses_copies(&self) -> bool {
        self.sabotage == Some(Sabotage::LosesCopies)
    }

    /// Replaces the result of a read by the content that the engine is given.
    pub(crate) fn serve(&self, ended: &mut Ended, drive: &Drive, random: &mut Random) {
        let Some(Sabotage::ServesOlderPages(n)) = self.sabotage else { return };
        let start = ended.operation.command.range.start.0;
        let mut serves_older = false;
        let serve = |(at, sector): (u64, Sector)| {
            if at.is_multiple_of(PAGE_SECTORS) {
                serves_older = sector.metadata().is_some() && random.one_in(n);
            }
            let older = drive.older(start + at, 1).filter(|older| serves_older && older.metadata().is_some());
            older.cloned().unwrap_or(sector)
        };
        let payload = &ended.completion.payload;
        ended.completion.payload = (0..).zip(payload.iter()).map(serve).collect();
    }

    /// Forgets all pretended and delayed operations, because the power is cut.
    pub(crate) fn forget(&mut self) {
        self.pretended.clear();
        self.held = None;
    }
}
