//! Operations of the engine on drives that nobody serves from yet: one after the other, each waited for.

use std::path::Path;

use bimetal_core::operation::{Operation, Status};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::buffer::Buffers;
use crate::drive::file::DriveFile;
use crate::drive::{Drive, Engine, attach};

/// Carries out `operations` on the drives at `paths`, in the order of members.
///
/// # Errors
/// The place of the drive that fails first, and why. What comes after is not begun.
pub fn run_in_order<'a>(
    operations: impl IntoIterator<Item = Operation<Buffers>>,
    paths: impl IntoIterator<Item = &'a Path>,
) -> Result<(), (usize, String)> {
    let mut drives = Vec::new();
    for (member, path) in paths.into_iter().enumerate() {
        let file = DriveFile::open(path).map_err(|error| (member, error.to_string()))?;
        drives.push(attach(file, Engine::Pool).map_err(|error| (member, error.to_string()))?);
    }
    for operation in operations {
        let (member, kind) = (usize::from(operation.target), operation.command.kind);
        match run(drives[member].as_mut(), operation) {
            Ok(Status::Done) => {}
            Ok(status) => return Err((member, format!("{kind:?}: {status:?}"))),
            Err(error) => return Err((member, error.to_string())),
        }
    }
    Ok(())
}

fn run(drive: &mut dyn Drive, operation: Operation<Buffers>) -> Result<Status, Errno> {
    let mut ended = Vec::new();
    drive.submit(operation);
    drive.start();
    loop {
        drive.collect(&mut ended);
        if let Some(completion) = ended.pop() {
            return Ok(completion.status);
        }
        let event = drive.event();
        match poll(&mut [PollFd::new(&event, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
