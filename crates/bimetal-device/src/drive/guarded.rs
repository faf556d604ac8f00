//! Drive whose beginning is stored elsewhere. The core redirects operations
//! ([`bimetal_core::guard`]); the drive below carries them out.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use bimetal_core::guard::redirect::Redirect;
use bimetal_core::guard::{Area, GUARDED};
use bimetal_core::operation::{Completion, Operation};
use bimetal_core::units::{SectorRange, Sectors};

use rustix::io::Errno;

use super::emulated::Emulation;
use super::{Drive, Failure};
use crate::buffer::Buffers;

/// See the [module](self).
pub struct Guarded {
    drive: Box<dyn Drive>,
    redirect: Redirect<Buffers>,
    under_way: usize,
    /// Completions of the drive below that were not yet translated to the addresses of the volume.
    ended: Vec<Completion<Buffers>>,
}

impl Guarded {
    /// Wraps `drive`, which has a guard.
    pub fn new(drive: Box<dyn Drive>, area: Area) -> Self {
        Self { drive, redirect: Redirect::new(area), under_way: 0, ended: Vec::new() }
    }

    /// Submits redirected operations to the drive below. Returns true if there was an operation.
    fn pass_on(&mut self) -> bool {
        let mut any = false;
        while let Some(operation) = self.redirect.next_operation() {
            self.drive.submit(operation);
            any = true;
        }
        any
    }
}

impl Drive for Guarded {
    fn submit(&mut self, operation: Operation<Buffers>) {
        self.under_way += 1;
        self.redirect.submit(operation);
        self.pass_on();
    }

    fn start(&mut self) {
        self.drive.start();
    }

    fn tell_time(&mut self, now: Instant) {
        self.drive.tell_time(now);
    }

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        let before = ended.len();
        loop {
            self.drive.collect(&mut self.ended);
            ended.extend(self.ended.drain(..).filter_map(|completion| self.redirect.complete(completion)));
            // A read that failed in the first copy continues at the second copy, and may end at
            // once.
            if !self.pass_on() {
                break;
            }
            self.drive.start();
        }
        self.under_way -= ended.len() - before;
    }

    fn has_ended(&mut self) -> bool {
        self.drive.has_ended()
    }

    fn under_way(&self) -> usize {
        self.under_way
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.drive.event()
    }

    fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        match GUARDED.0.saturating_sub(range.start.0) {
            0 => self.drive.hole(range),
            elsewhere => (false, Sectors(elsewhere.min(range.len.0))),
        }
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

    fn emulation(&self) -> Option<Emulation> {
        self.drive.emulation()
    }

    fn describe(&self) -> String {
        format!("{}, guarded", self.drive.describe())
    }
}
