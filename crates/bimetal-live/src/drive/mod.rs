//! Where operations go: a drive takes [`Operation`]s and gives [`Completion`]s, in any order.
//!
//! One file a kind: [`uring`] hands them to the kernel's ring, [`pool`] to threads, where there is no ring; [`emulated`] is a
//! file that takes as long as a drive would, [`absent`] stands where a member is missing, `read_ahead` goes around what is
//! worked past the page cache. The others run the same steps: `job` says what the next system call of an operation is and
//! what its result means, so that errors, short transfers and fall-backs are told in one place. [`mod@file`] is what is open:
//! a file or a block device, [`read_only`] lets it be looked at. `queue` is between a server and threads. A failing drive is a status, never a panic. Read `job.rs` first.

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

/// An operation that failed, and what the system said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What was to be done, and where, as the drive was told.
    pub command: Command,
    /// What the system said.
    pub errno: Errno,
}

/// Something that carries out operations, without waiting.
pub trait Drive: Send {
    /// Takes an operation. It may begin only with the next [`start`](Self::start).
    fn submit(&mut self, operation: Operation<Buffers>);

    /// Lets everything begin that was taken.
    fn start(&mut self);

    /// Says what the time is for who asks, until it is told again: a drive that keeps the times of another one counts from
    /// then on, and not from when who asks has got round to it.
    fn tell_time(&mut self, _now: Instant) {}

    /// Appends what has ended since the last call.
    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>);

    /// Whether [`collect`](Self::collect) would find something; asks without a system call.
    fn has_ended(&mut self) -> bool;

    /// How many operations were taken and not collected.
    fn under_way(&self) -> usize;

    /// Becomes readable when something ends after the last [`collect`](Self::collect); collecting clears it. What ends without
    /// waiting may do so without it: so collect once after [`start`](Self::start), before sleeping.
    fn event(&self) -> BorrowedFd<'_>;

    /// The smallest part that can be written, in bytes.
    fn logical_block(&self) -> u32;

    /// How operations are carried out, for people.
    fn describe(&self) -> String;

    /// Whether the beginning of `range` is known to hold nothing and to read as zeroes, and for how many sectors that holds, one
    /// or another. Of most drives nothing is known.
    fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        (false, range.len)
    }

    /// The operations that failed since the last call, with what the system said; the newest of
    /// them.
    fn take_failures(&mut self) -> Vec<Failure> {
        Vec::new()
    }

    /// What the system said, if operations wait because there is no room in the file system below
    /// the drive.
    fn no_room(&self) -> Option<Errno> {
        None
    }

    /// When [`collect`](Self::collect) is to be called although nothing has ended: something is to
    /// be tried again.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// How well it keeps the times of another drive, if it plays one.
    fn emulation(&self) -> Option<Emulation> {
        None
    }
}

/// How operations are carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// The kernel's ring where there is one, else threads.
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
/// With [`Engine::Uring`] where the kernel has no ring or refuses it; else where threads cannot be started.
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
    // Where the page cache is used, it reads ahead itself.
    Ok(if direct { Box::new(read_ahead::ReadAhead::new(drive, capacity)) } else { drive })
}

/// What the queues are made of.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(test)]
mod tests;
