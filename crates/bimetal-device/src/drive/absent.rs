//! Drive that is missing: each operation ends with [`Status::Gone`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bimetal_core::operation::{Completion, Operation, Status};
use bimetal_core::payload::Payload;
use bimetal_core::units::SECTOR_BYTES;
use rustix::event::{EventfdFlags, eventfd};

use super::Drive;
use crate::buffer::Buffers;

/// Stands for a missing member.
pub struct Absent {
    ended: Vec<Completion<Buffers>>,
    /// An event that is never readable, because each operation has ended before the server waits.
    event: OwnedFd,
}

impl Absent {
    /// Makes a drive that is missing.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no event descriptor.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { ended: Vec::new(), event: eventfd(0, EventfdFlags::CLOEXEC)? })
    }
}

impl Drive for Absent {
    fn submit(&mut self, operation: Operation<Buffers>) {
        let Operation { token, .. } = operation;
        self.ended.push(Completion { token, status: Status::Gone, payload: Buffers::empty() });
    }

    fn start(&mut self) {}

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        ended.append(&mut self.ended);
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty()
    }

    fn under_way(&self) -> usize {
        self.ended.len()
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn logical_block(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn describe(&self) -> String {
        "missing".into()
    }
}
