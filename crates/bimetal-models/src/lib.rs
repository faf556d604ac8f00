//! Models of drives: how long an operation takes on an HDD or on flash, and what it does to the drive.
//!
//! A model takes operations with the time at which they arrive and says when each finishes; it keeps its own queue,
//! scheduler and state. It knows nothing of schemes and carries no data.
//!
//! Read first: [`DeviceModel`] below, then [`profile`], which makes a model of a named drive, then [`hdd`] and
//! [`flash`].

pub mod flash;
pub mod hdd;
pub mod profile;
pub mod statistics;

use bimetal_core::operation::{Command, Status, Token};
pub use bimetal_core::scheme::Wear;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

pub use statistics::DeviceStatistics;

/// An operation that a model has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Which operation.
    pub token: Token,
    /// When it finished.
    pub at: Nanoseconds,
    /// How it ended.
    pub status: Status,
}

/// A drive in virtual time.
///
/// The caller hands over operations in order of time ([`submit`](Self::submit)), asks when something will happen next
/// ([`next_event`](Self::next_event)) and lets the model get there ([`advance`](Self::advance)). Time never runs
/// backwards between calls, and before the caller submits at a time it has advanced the model to that time.
pub trait DeviceModel: Send {
    /// How many sectors it has.
    fn capacity(&self) -> Sectors;

    /// Takes `command` at time `now`, which is never earlier than in the call before. The range lies within the
    /// capacity.
    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command);

    /// When the next operation finishes, or a timer inside the drive (idle collection, spin-down) is due; `None`
    /// when nothing will happen without a new operation. Never earlier than the last `now`.
    fn next_event(&self) -> Option<Nanoseconds>;

    /// Lets time pass up to and including `now`, and appends what finished to `finished`, in order of time.
    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>);

    /// The answer to a [hint](bimetal_core::operation::OpKind::Hint), which a completion cannot carry: up to `most` sectors, worst
    /// first, whose leaving would make room without a copy: on flash the data that lie in blocks of which the most is outdated. A
    /// scheme that moves such data away when the drive is idle does what MixedStore calls fragmentation busting (section 5.3).
    /// `None` where the drive does not know. Looks through the whole drive, so it is meant for once an idle period.
    fn fragmented(&self, _most: Sectors) -> Option<Vec<SectorRange>> {
        None
    }

    /// The wear of flash since time zero; `None` of a drive that does not wear. Cheap, for every operation.
    fn wear(&self) -> Option<Wear> {
        None
    }

    /// Halts wear levelling, or lets it go on, where the drive has one that can be halted (`wear_levelling=adaptive`). From the
    /// first call on the host decides, and no longer the drive's own watch over the rate of writes.
    fn halt_wear_levelling(&mut self, _halt: bool) {}

    /// What of the drive outlives the run: on flash where data lie and how often each block was erased, for
    /// [`Profile::restore`](profile::Profile::restore). `None` where a drive has nothing of the kind.
    fn save_state(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// What the drive has done from time zero up to `now`, which is not earlier than the last call. Meant for the end
    /// of a run or a progress line, not for every operation.
    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics;
}
