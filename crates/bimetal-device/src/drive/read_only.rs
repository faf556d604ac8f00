//! Drive for inspection: reads are carried out; all other operations end as done, without effect.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use bimetal_core::operation::{Completion, OpKind, Operation, Status};
use bimetal_core::payload::Payload;

use rustix::io::Errno;

use super::{Drive, Failure};
use crate::buffer::Buffers;

/// See the [module](self).
pub struct ReadOnly {
    drive: Box<dyn Drive>,
    ended: Vec<Completion<Buffers>>,
}

impl ReadOnly {
    /// Wraps `drive`.
    pub fn new(drive: Box<dyn Drive>) -> Self {
        Self { drive, ended: Vec::new() }
    }
}

impl Drive for ReadOnly {
    fn submit(&mut self, operation: Operation<Buffers>) {
        if operation.command.kind == OpKind::Read {
            return self.drive.submit(operation);
        }
        self.ended.push(Completion { token: operation.token, status: Status::Done, payload: Buffers::empty() });
    }

    fn start(&mut self) {
        self.drive.start();
    }

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        ended.append(&mut self.ended);
        self.drive.collect(ended);
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty() || self.drive.has_ended()
    }

    fn under_way(&self) -> usize {
        self.ended.len() + self.drive.under_way()
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.drive.event()
    }

    fn take_failures(&mut self) -> Vec<Failure> {
        self.drive.take_failures()
    }

    fn no_room(&self) -> Option<Errno> {
        self.drive.no_room()
    }

    fn due(&self) -> Option<Instant> {
        self.drive.due()
    }

    fn logical_block(&self) -> u32 {
        self.drive.logical_block()
    }

    fn describe(&self) -> String {
        format!("{}, read only", self.drive.describe())
    }
}
