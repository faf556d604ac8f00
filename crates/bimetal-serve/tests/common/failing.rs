//! Drive that fails the operations that a test chooses.

use std::os::fd::BorrowedFd;

use bimetal_core::operation::{Completion, Operation, Status};
use bimetal_core::payload::Payload;
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::Drive;

/// Function of a test that returns true for operations that fail.
type Fails = Box<dyn FnMut(&Operation<Buffers>) -> bool + Send>;

/// See the [module](self).
pub struct Failing {
    inner: Box<dyn Drive>,
    fails: Fails,
    ended: Vec<Completion<Buffers>>,
}

impl Failing {
    /// Wraps `inner`, and fails operations for which `fails` returns true.
    pub fn new(inner: Box<dyn Drive>, fails: impl FnMut(&Operation<Buffers>) -> bool + Send + 'static) -> Self {
        Self { inner, fails: Box::new(fails), ended: Vec::new() }
    }
}

impl Drive for Failing {
    fn submit(&mut self, operation: Operation<Buffers>) {
        if !(self.fails)(&operation) {
            return self.inner.submit(operation);
        }
        let Operation { token, .. } = operation;
        self.ended.push(Completion { token, status: Status::MediaError, payload: Buffers::empty() });
    }

    fn start(&mut self) {
        self.inner.start();
    }

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        ended.append(&mut self.ended);
        self.inner.collect(ended);
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty() || self.inner.has_ended()
    }

    fn under_way(&self) -> usize {
        self.inner.under_way() + self.ended.len()
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.inner.event()
    }

    fn logical_block(&self) -> u32 {
        self.inner.logical_block()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
