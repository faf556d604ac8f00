//! Drives of a running server: a drive takes [`Operation`]s and returns [`Completion`]s, in any
//! order.
//!
//! A file for each kind of drive:
//!
//! - [`uring`] passes operations to the kernel's ring (io_uring).
//! - [`pool`] passes operations to threads, on systems without such a ring.
//! - [`emulated`] is a file that takes as long as the emulated drive would.
//! - [`absent`] stands for a missing member.
//! - `read_ahead` wraps a drive that is accessed without the page cache.
//!
//! The ring, the threads and the emulation run the same steps. `job` defines the next system call
//! of an operation and the meaning of its result. So errors, short transfers and fall-backs are
//! handled in a single place.
//!
//! [`mod@file`] is the open file or block device; [`read_only`] discards all changes. `queue`
//! connects a server with threads. A failure of a drive is a status, never a panic. Read `job.rs`
//! first.

pub mod absent;
pub mod emulated;
pub mod file;
pub mod guarded;
mod job;
pub mod pool;
mod queue;
mod read_ahead;
pub mod read_only;
mod room;
pub mod uring;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use bimetal_core::operation::{Command, Completion, Operation};
use bimetal_core::units::{SectorRange, Sectors};

use crate::buffer::Buffers;
use emulated::Emulation;
use file::DriveFile;
use rustix::io::Errno;

/// Failed operation, with the error of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Command as the drive received it: kind and range.
    pub command: Command,
    /// Error of the system.
    pub errno: Errno,
}

/// Carries out operations, without blocking the caller.
pub trait Drive: Send {
    /// Takes an operation. The operation need not begin before the next [`start`](Self::start).
    fn submit(&mut self, operation: Operation<Buffers>);

    /// Begins all operations taken so far.
    fn start(&mut self);

    /// Sets the caller's time, until the next call. A drive that emulates another drive counts an
    /// operation's time from this moment, and not from the moment at which the caller submits the
    /// operation.
    fn tell_time(&mut self, _now: Instant) {}

    /// Appends the operations that ended since the last call.
    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>);

    /// Returns true if [`collect`](Self::collect) would return an operation. Makes no system call.
    fn has_ended(&mut self) -> bool;

    /// Returns the number of operations that were taken and not collected.
    fn under_way(&self) -> usize;

    /// Returns the event that becomes readable when an operation ends after the last
    /// [`collect`](Self::collect); collecting clears the event. An operation that ends at once may
    /// leave the event unreadable: so callers must collect once after [`start`](Self::start),
    /// before sleeping.
    fn event(&self) -> BorrowedFd<'_>;

    /// Returns the size of the smallest part that can be written, in bytes.
    fn logical_block(&self) -> u32;

    /// Describes the way operations are carried out, for people.
    fn describe(&self) -> String;

    /// Returns true if `range` is known to begin with a hole, which reads as zeroes; and the number
    /// of sectors for which this answer holds. Most drives know of no holes.
    fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        (false, range.len)
    }

    /// Returns operations that failed since the last call, with the errors of the system. Only the
    /// newest failed operations are kept.
    fn take_failures(&mut self) -> Vec<Failure> {
        Vec::new()
    }

    /// Returns the error of the system, if operations wait because the file system below the drive
    /// is full.
    fn no_room(&self) -> Option<Errno> {
        None
    }

    /// Returns the time at which [`collect`](Self::collect) is to be called although no operation
    /// has ended: an operation is to be tried again.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Returns the accuracy of an emulated drive; `None` for other drives.
    fn emulation(&self) -> Option<Emulation> {
        None
    }
}

/// Way in which operations are carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// The kernel's ring (io_uring) if the kernel has one, and otherwise threads.
    #[default]
    Auto,
    /// The kernel's ring.
    Uring,
    /// Threads.
    Pool,
}

/// Makes a drive of an open file.
///
/// # Errors
///
/// Fails with [`Engine::Uring`] if the kernel has no ring or refuses one; with another engine, if
/// threads cannot be started.
pub fn attach(file: DriveFile, engine: Engine) -> io::Result<Box<dyn Drive>> {
    let (capacity, direct) = (file.capacity(), file.is_direct());
    let file = std::sync::Arc::new(file);
    let drive: Box<dyn Drive> = match engine {
        Engine::Pool => Box::new(pool::Pool::new(file)?),
        Engine::Uring => Box::new(uring::Uring::new(file)?),
        Engine::Auto => match uring::Uring::new(file.clone()) {
            Ok(drive) => Box::new(drive),
            Err(_) => Box::new(pool::Pool::new(file)?),
        },
    };
    // The page cache, if used, reads ahead itself.
    Ok(if direct { Box::new(read_ahead::ReadAhead::new(drive, capacity)) } else { drive })
}

/// Locks of the queues. The test of the queues replaces these locks with locks of shuttle.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(test)]
mod tests;
