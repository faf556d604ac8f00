//! Path of flushes and of commands that change content: from the link through the write buffer to
//! the dies.

use bimetal_core::operation::{Command, OpKind, Status};
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};

use super::{Flash, Request, Stage};
use crate::flash::dies::NO_REQUEST;
use crate::flash::operation::NandKind;
use crate::flash::write_buffer::WriteBuffer;

impl Flash {
    /// Handles a command that changes content and has crossed the link.
    pub(super) fn arrive(&mut self, now: Nanoseconds, slot: u32) {
        match &mut self.buffer {
            // Earlier commands that wait for room go first.
            Some(buffer) if !buffer.waiting.is_empty() => buffer.waiting.push_back(slot),
            _ => self.execute(now, slot),
        }
    }

    fn execute(&mut self, now: Nanoseconds, slot: u32) {
        let command = self.requests[slot as usize].command;
        self.requests[slot as usize].stage = Stage::Working;
        if command.kind != OpKind::Write {
            return self.clear(now, slot, command);
        }
        self.count_host_bytes(now, command.range.len.bytes());
        self.set_up(NandKind::WriteSetup);
        self.read_partial_units(now, slot);
        if self.requests[slot as usize].parts > 0 {
            self.requests[slot as usize].stage = Stage::Modifying;
        } else {
            self.write_units(now, slot);
        }
    }

    fn count_host_bytes(&mut self, now: Nanoseconds, bytes: Bytes) {
        self.meter.host_bytes += bytes;
        if let Some(intense) = self.intensity.as_mut().and_then(|intensity| intensity.wrote(now, bytes)) {
            self.layer.set_intense(intense);
        }
    }

    /// Drops the units that a discard or write-zeroes covers wholly. Write-zeroes writes zeroes
    /// into the units at its ends.
    fn clear(&mut self, now: Nanoseconds, slot: u32, command: Command) {
        let (start, end) = self.whole_units_of(command.range);
        self.layer.trim(start, end, &mut self.operations);
        let Request { next: first, end: last, .. } = self.requests[slot as usize];
        if command.kind == OpKind::WriteZeroes {
            let whole = Sectors(u64::from(end - start) * self.sectors_per_unit());
            self.count_host_bytes(now, (command.range.len - whole).bytes());
            self.read_partial_units(now, slot);
            for unit in (first..start.min(last)).chain(end.max(first)..last) {
                self.write_request(slot, unit, unit + 1);
            }
        }
        self.requests[slot as usize].next = last;
        self.write_units(now, slot);
    }

    /// Reads the units that `slot` covers only in part. Without a buffer the request waits for the
    /// reads of these units.
    fn read_partial_units(&mut self, now: Nanoseconds, slot: u32) {
        let Request { command, next: first, end, .. } = self.requests[slot as usize];
        let (whole_start, whole_end) = self.whole_units_of(command.range);
        let last = end - 1;
        for (unit, other) in [(first, true), (last, last != first)] {
            if other && (unit < whole_start || unit >= whole_end) {
                self.meter.partial_writes += 1;
                self.layer.read(unit, unit + 1, &mut self.operations);
            }
        }
        self.hand_over(now, if self.buffer.is_none() { slot } else { NO_REQUEST });
    }

    fn write_request(&mut self, slot: u32, start: u32, end: u32) {
        let taken = self.layer.write_request(start, end, &mut self.operations);
        if let Some(buffer) = &mut self.buffer {
            buffer.take(taken);
        }
        if taken < end - start && self.layer.take_refused() > 0 {
            self.requests[slot as usize].status = Status::MediaError;
        }
    }

    /// Writes the remaining units of `slot`, as far as there is room.
    pub(super) fn write_units(&mut self, now: Nanoseconds, slot: u32) {
        let Request { command, end, .. } = self.requests[slot as usize];
        while self.requests[slot as usize].next < end {
            if self.buffer.as_ref().is_some_and(WriteBuffer::is_full) {
                if let Some(buffer) = &mut self.buffer {
                    buffer.waiting.push_front(slot);
                }
                self.hand_over(now, NO_REQUEST);
                return;
            }
            let start = self.requests[slot as usize].next;
            let stop = end.min(start.saturating_add(self.buffer.as_ref().map_or(u32::MAX, WriteBuffer::room)));
            self.requests[slot as usize].next = stop;
            self.write_request(slot, start, stop);
        }
        let through = command.fua && !self.protected;
        if self.buffer.is_none() || through {
            self.layer.flush(&mut self.operations);
        }
        self.hand_over(now, if self.buffer.is_none() { slot } else { NO_REQUEST });
        let waits =
            self.requests[slot as usize].parts > 0 || (self.buffer.is_some() && through && self.epochs.wait(slot));
        if !waits {
            self.respond(now, slot);
        }
    }

    pub(super) fn flush(&mut self, now: Nanoseconds, slot: u32) {
        self.requests[slot as usize].stage = Stage::Working;
        if self.buffer.is_none() {
            // Every write that completed is in the cells.
            return self.respond(now, slot);
        }
        if self.protected {
            return self.respond(now + self.timing.flush, slot);
        }
        self.layer.flush(&mut self.operations);
        self.hand_over(now, NO_REQUEST);
        if !self.epochs.wait(slot) {
            self.respond(now, slot);
        }
    }

    pub(super) fn host_data_programmed(&mut self, now: Nanoseconds, epoch: u64, units: u32) {
        let mut flushed = std::mem::take(&mut self.flushed);
        self.epochs.finish(epoch, &mut flushed);
        for slot in flushed.drain(..) {
            let after = if self.requests[slot as usize].command.kind == OpKind::Flush {
                self.timing.flush
            } else {
                Nanoseconds::ZERO
            };
            self.respond(now + after, slot);
        }
        self.flushed = flushed;
        let Some(buffer) = &mut self.buffer else { return };
        buffer.release(units);
        while let Some(buffer) = self.buffer.as_mut().filter(|buffer| !buffer.is_full()) {
            let Some(slot) = buffer.waiting.pop_front() else { break };
            match self.requests[slot as usize].stage {
                Stage::Arriving => self.execute(now, slot),
                _ => self.write_units(now, slot),
            }
        }
    }
}
