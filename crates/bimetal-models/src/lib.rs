//! Models of drives: the time that an operation takes on an HDD, on flash or on a cloud volume, and
//! its effect on the drive.
//!
//! A model takes operations with the time at which they arrive, and returns the time at which each
//! finishes; it keeps its own queue, scheduler and state. A model knows nothing of schemes and
//! carries no data.
//!
//! Read first: [`DeviceModel`] below, then [`profile`], which makes a model of a named drive, then
//! [`hdd`], [`flash`] and [`cloud`].

pub mod cloud;
pub mod endurance;
pub mod flash;
pub mod hdd;
pub mod profile;
pub mod spelling;
pub mod statistics;

use bimetal_core::operation::{Command, Status, Token};
pub use bimetal_core::scheme::Wear;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

pub use statistics::DeviceStatistics;

/// Operation that a model has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Token of the operation.
    pub token: Token,
    /// Time at which the operation finished.
    pub at: Nanoseconds,
    /// Status with which the operation finished.
    pub status: Status,
}

/// Model of a drive in virtual time.
///
/// The caller submits operations in order of time ([`submit`](Self::submit)), asks for the time of
/// the next event ([`next_event`](Self::next_event)) and advances the model to that time
/// ([`advance`](Self::advance)). Time never decreases between calls, and before the caller submits
/// at a time it has advanced the model to that time.
pub trait DeviceModel: Send {
    /// Returns the number of sectors.
    fn capacity(&self) -> Sectors;

    /// Takes `command` at time `now`, which is never earlier than the time of the previous call.
    /// The range lies within the capacity.
    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command);

    /// Returns the time at which the next operation finishes, or a timer inside the drive (idle
    /// collection, spin-down) is due. Returns `None` if nothing happens without a new operation.
    /// The time is never earlier than the last `now`.
    fn next_event(&self) -> Option<Nanoseconds>;

    /// Lets time pass up to and including `now`, and appends the finished operations to `finished`,
    /// in order of time.
    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>);

    /// Returns the answer to a [hint](bimetal_core::operation::OpKind::Hint), which a completion
    /// cannot carry: up to `most` sectors, worst first, whose removal would free space without a
    /// copy. On flash the answer is data in the blocks with the most outdated content. A scheme
    /// that moves such data away when the drive is idle works like MixedStore's fragmentation
    /// busting (section 5.3). Returns `None` if the drive does not know. The call examines the
    /// whole drive, so it is meant to be made once in an idle period.
    fn fragmented(&self, _most: Sectors) -> Option<Vec<SectorRange>> {
        None
    }

    /// Returns the wear of flash since time zero; `None` for a drive that does not wear. The call
    /// is cheap enough to be made at every operation.
    fn wear(&self) -> Option<Wear> {
        None
    }

    /// Halts or resumes wear levelling, if the drive's wear levelling can be halted
    /// (`wear_levelling=adaptive`). From the first call on the host decides, and the drive no
    /// longer decides by its own measurement of the rate of writes.
    fn halt_wear_levelling(&mut self, _halt: bool) {}

    /// Returns the state of the drive that outlives the run, for
    /// [`Profile::restore`](profile::Profile::restore): on flash the places of the data and the
    /// erases of each block. Returns `None` for a drive without such state.
    fn save_state(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Returns the statistics of the drive from time zero up to `now`, which is not earlier than in
    /// the last call. The call is meant for the end of a run or for a line of progress, and not for
    /// every operation.
    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics;
}
