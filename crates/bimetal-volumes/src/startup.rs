//! Work before serving: runs the core's recovery, or the formatting of empty members, over drives,
//! and waits for its end.

use std::time::Instant;

use bimetal_core::operation::{Completion, OpKind, Operation, Status};
use bimetal_core::units::Bytes;
use bimetal_core::volume::{Recovery, RecoveryError, Volume};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use bimetal_device::buffer::Buffers;
use bimetal_device::drive::Drive;

/// Reasons for which members do not become a volume.
#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    /// The content of the members does not make a volume.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// A member could not be written.
    #[error("member {member}: {kind:?} of its metadata failed with {status:?}: check the drive, and try again")]
    Format {
        /// Number of the member.
        member: u16,
        /// Kind of the operation that failed.
        kind: OpKind,
        /// Status of the operation.
        status: Status,
    },
    /// The system does not permit to wait for drives.
    #[error("cannot wait for drives: {0}")]
    Wait(Errno),
}

/// Runs a recovery over its members' drives, to its end. `progress` gets the bytes that were read,
/// and those that must be read.
///
/// # Errors
///
/// Fails with the reason for which the recovery ends without a volume.
pub fn recover(
    mut recovery: Recovery<Buffers>,
    drives: &mut [Box<dyn Drive>],
    mut progress: impl FnMut(Bytes, Bytes),
) -> Result<Volume<Buffers>, StartupError> {
    while !recovery.is_finished() {
        while let Some(operation) = recovery.next_operation() {
            drives[usize::from(operation.target)].submit(operation);
        }
        for completion in wait(drives)? {
            recovery.complete(completion);
        }
        let (done, total) = recovery.progress();
        progress(done, total);
    }
    Ok(recovery.finish()?)
}

/// Carries out the operations of [`format`](bimetal_core::volume::format), one after the other.
///
/// # Errors
///
/// Fails with the first operation that fails. A drive that needs no flush may report flushes as
/// unsupported.
pub fn format(operations: Vec<Operation<Buffers>>, drives: &mut [Box<dyn Drive>]) -> Result<(), StartupError> {
    for operation in operations {
        let (member, kind) = (operation.target, operation.command.kind);
        drives[usize::from(member)].submit(operation);
        for Completion { status, .. } in wait(drives)? {
            let unsupported = kind == OpKind::Flush && status == Status::Unsupported;
            if status != Status::Done && !unsupported {
                return Err(StartupError::Format { member, kind, status });
            }
        }
    }
    Ok(())
}

/// Waits for the next completions of any drive. Returns no completion if no operation is under way.
fn wait(drives: &mut [Box<dyn Drive>]) -> Result<Vec<Completion<Buffers>>, StartupError> {
    let mut ended = Vec::new();
    loop {
        for drive in drives.iter_mut() {
            drive.start();
            drive.collect(&mut ended);
        }
        if !ended.is_empty() || drives.iter().all(|drive| drive.under_way() == 0) {
            return Ok(ended);
        }
        let mut events: Vec<_> =
            drives.iter().map(|drive| PollFd::from_borrowed_fd(drive.event(), PollFlags::IN)).collect();
        let due = drives.iter().filter_map(|drive| drive.due()).min();
        let limit = due.and_then(|due| Timespec::try_from(due.saturating_duration_since(Instant::now())).ok());
        match poll(&mut events, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(StartupError::Wait(error)),
        }
    }
}
