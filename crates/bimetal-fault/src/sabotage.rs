//! The engine broken on purpose, from outside: between it and the drives something goes wrong that a mistake in the
//! engine would look like. The tester must notice.

use std::cell::Cell;
use std::collections::BTreeSet;

use bimetal_core::journal::PAGE_SECTORS;
use bimetal_core::operation::{OpKind, Operation, Status, Token};

use crate::drive::{Drive, Ended};
use crate::payload::{Sector, Tags};
use crate::random::Random;

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// One flush in so many never reaches its drive, and succeeds.
    SkipsFlushes(u64),
    /// The checksum of every content is the same: whatever a slot holds passes for what was written.
    ChecksumsPass,
    /// One page of metadata in so many is read as what it was before it was last written.
    ServesOlderPages(u64),
    /// What damages a page of metadata at rest takes its copies along.
    LosesCopies,
    /// One write in so many changes places with the next one on its drive: it succeeds, and lands after that.
    SwapsWrites(u64),
}

thread_local! {
    static CHECKSUMS_PASS: Cell<bool> = const { Cell::new(false) };
}

/// Whether every checksum is the same in this thread.
pub(crate) fn checksums_pass() -> bool {
    CHECKSUMS_PASS.get()
}

/// Ends [`Sabotage::ChecksumsPass`] when it goes.
pub(crate) struct Scope(());

impl Scope {
    /// Begins what has no place between engine and drives.
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

/// What stands between the engine and its drives.
#[derive(Default)]
pub(crate) struct Saboteur {
    sabotage: Option<Sabotage>,
    /// Operations that the drive does not know of, and whose success is a pretence.
    pretended: BTreeSet<Token>,
    held: Option<Operation<Tags>>,
    landed_late: u64,
}

impl Saboteur {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..Self::default() }
    }

    /// Whether something is broken: what lies on the drives is then no business of the checks.
    pub(crate) fn is_at_work(&self) -> bool {
        self.sabotage.is_some()
    }

    /// What reaches the drive instead of `operation`.
    pub(crate) fn pass(&mut self, operation: Operation<Tags>, random: &mut Random) -> Vec<Operation<Tags>> {
        match (self.sabotage, operation.command.kind) {
            (Some(Sabotage::SkipsFlushes(n)), OpKind::Flush) if random.one_in(n) => vec![self.pretend(&operation)],
            (Some(Sabotage::SwapsWrites(n)), OpKind::Write) => match self.held.take() {
                Some(held) if held.target == operation.target => {
                    // Not a name that the engine uses.
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

    /// An operation that does nothing, in place of `operation`.
    fn pretend(&mut self, operation: &Operation<Tags>) -> Operation<Tags> {
        self.pretended.insert(operation.token);
        let mut pretence = operation.clone();
        pretence.command.kind = OpKind::Hint;
        pretence.payload = Tags::default();
        pretence
    }

    /// What the engine hears of an operation that ended; `None` where it never asked.
    pub(crate) fn ended(&mut self, mut ended: Ended) -> Option<Ended> {
        if self.landed_late > 0 && ended.operation.token.0 >= u64::MAX - self.landed_late {
            return None;
        }
        if self.pretended.remove(&ended.operation.token) && ended.completion.status == Status::Unsupported {
            ended.completion.status = Status::Done;
        }
        Some(ended)
    }

    /// Whether copies of damaged pages are lost.
    pub(crate) fn loses_copies(&self) -> bool {
        self.sabotage == Some(Sabotage::LosesCopies)
    }

    /// What the engine is given of a read of `drive`.
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

    /// The power is cut: what was held back is gone.
    pub(crate) fn forget(&mut self) {
        self.pretended.clear();
        self.held = None;
    }
}
