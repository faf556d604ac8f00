//! Requests on their way through the volume, and the volume's operations on their way through the
//! drives.

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::Nanoseconds;
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::Failure;

use super::Server;
use super::event::Event;
use super::recorder::Recorded;
use super::traffic::Mishap;
use crate::nbd::{ReplyError, Request, Ticket};

/// Request in the volume.
pub(super) struct Open {
    token: Token,
    asker: Asker,
    command: Command,
    since: Nanoseconds,
    /// Unit to flush before the answer.
    flush_first: Option<u16>,
    /// Recording of the request, to be completed at its end.
    recorded: Option<Recorded>,
}

/// Requester that waits for the answer.
#[derive(Clone, Copy)]
pub(super) enum Asker {
    /// Client, by key and number, because another client may have the same key by the time of the
    /// answer.
    Client { key: usize, number: u64, ticket: Ticket },
    /// The server itself, which makes all data stable before it stops.
    Stop,
}

const INDEX_BITS: u32 = 24;

impl Server {
    /// Submits a client's request to the volume.
    pub(super) fn submit(&mut self, key: usize, number: u64, request: Request) {
        let Request { ticket, export, mut command, payload } = request;
        let asker = Asker::Client { key, number, ticket };
        // Records that a discard adds to the block map are stable only after a flush.
        let flush_first = (command.fua && command.kind != OpKind::Write).then_some(export);
        command.fua &= command.kind == OpKind::Write;
        let now = self.now;
        let recorded = self.control.recorder.as_mut().and_then(|recorder| recorder.arrives(now, export, command));
        self.ask(asker, export, command, payload, flush_first, recorded);
    }

    /// Requests a flush from the volume.
    pub(super) fn submit_flush(&mut self, asker: Asker, unit: u16) {
        self.submit_flush_of(asker, unit, None);
    }

    fn submit_flush_of(&mut self, asker: Asker, unit: u16, recorded: Option<Recorded>) {
        self.ask(asker, unit, Command::FLUSH, Buffers::empty(), None, recorded);
    }

    fn ask(
        &mut self,
        asker: Asker,
        unit: u16,
        command: Command,
        payload: Buffers,
        flush_first: Option<u16>,
        recorded: Option<Recorded>,
    ) {
        self.requests_begun += 1;
        let entry = self.open.vacant_entry();
        let index = entry.key();
        assert!(index < 1 << INDEX_BITS, "clients have bounded numbers of requests");
        let token = Token(self.requests_begun << INDEX_BITS | index as u64);
        entry.insert(Open { token, asker, command, since: self.now, flush_first, recorded });
        self.volume.submit(self.now, Operation { token, target: unit, command, payload });
    }

    /// Does all work that needs no waiting: receives from clients, runs the volume and the drives,
    /// sends to clients.
    pub(super) fn settle(&mut self) {
        if self.volume.next_timeout().is_some_and(|due| due <= self.now) {
            self.volume.advance(self.now);
        }
        // Receives once from each client; the next time is after a look at the events.
        self.look_at_clients();
        loop {
            self.work_drives();
            self.send_replies();
            if !(self.go_on_with_control() || self.go_on_stopping()) {
                break;
            }
        }
        self.take_troubles();
        self.tell_states();
        self.close_late_clients();
    }

    /// Passes operations to the drives and completions to the volume, until neither has any left.
    fn work_drives(&mut self) {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            while let Some(operation) = self.volume.next_operation() {
                moved = true;
                let number = usize::from(operation.target);
                self.operations.insert(operation.token.0, (operation.command, self.now));
                self.drives[number].submit(operation);
                self.unstarted[number] = true;
            }
            for number in 0..self.drives.len() {
                if std::mem::take(&mut self.unstarted[number]) {
                    self.drives[number].start();
                    // Operations that needed no waiting have ended already.
                    self.collect(number);
                }
            }
            while let Some(completion) = self.volume.next_finished() {
                moved = true;
                self.finish(completion);
            }
        }
    }

    /// Takes the operations that a drive has ended.
    pub(super) fn collect(&mut self, drive: usize) {
        let mut completions = std::mem::take(&mut self.completions);
        self.drives[drive].collect(&mut completions);
        let failures = self.drives[drive].take_failures();
        self.apply(Event::Ended { drive, completions, failures });
    }

    /// Passes completions of a drive to the volume, and counts the completions.
    pub(super) fn note_ended(
        &mut self,
        number: usize,
        mut completions: Vec<Completion<Buffers>>,
        failures: &[Failure],
    ) {
        for completion in completions.drain(..) {
            if let Some((command, since)) = self.operations.remove(&completion.token.0) {
                self.latencies.note_member(number, command.kind, self.now.saturating_sub(since));
                let mishap = Mishap::of(command, completion.status, failures);
                self.traffic.1[number].note(command, completion.status, mishap);
                if let Some(mishap) = mishap {
                    self.note_error(number as u16, mishap);
                }
            }
            self.volume.complete(self.now, completion);
        }
        // The next completions need no new memory.
        self.completions = completions;
    }

    fn finish(&mut self, completion: Completion<Buffers>) {
        let index = (completion.token.0 & ((1 << INDEX_BITS) - 1)) as usize;
        let open = self.open.remove(index);
        assert_eq!(open.token, completion.token, "the volume answers what it was asked");
        if let Some(unit) = open.flush_first.filter(|_| completion.status == Status::Done) {
            return self.submit_flush_of(open.asker, unit, open.recorded);
        }
        self.latencies.note_request(open.command.kind, self.now.saturating_sub(open.since));
        self.traffic.0.note(open.command, completion.status, Mishap::of(open.command, completion.status, &[]));
        if let (Some(recorder), Some(recorded)) = (&self.control.recorder, open.recorded) {
            recorder.ends(self.now, recorded);
        }
        match open.asker {
            Asker::Client { key, number, ticket } => {
                self.answer(key, number, ticket, result(completion));
            }
            Asker::Stop => self.flushed(completion.status == Status::Done),
        }
    }
}

/// Returns the answer to a client.
fn result(completion: Completion<Buffers>) -> Result<Buffers, ReplyError> {
    match completion.status {
        Status::Done => Ok(completion.payload),
        Status::OutOfRange => Err(ReplyError::Invalid),
        Status::Unsupported => Err(ReplyError::Unsupported),
        Status::MediaError | Status::Short(_) | Status::Gone => Err(ReplyError::Io),
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::Status;

    use super::super::testing::{Answer, Bench, SSD, command};
    use super::*;

    /// The test follows a request on its whole path: an operation on the drive, and the reply when
    /// the operation has ended.
    #[test]
    fn write_is_answered_once_its_operation_has_ended() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        let write = command(OpKind::Write, 8, 16);
        let cookie = bench.ask(client, write, &[7; 8192]);
        assert_eq!(bench.waiting(SSD), [write]);
        assert_eq!(bench.answers(client), []);
        bench.end(SSD, Status::Done);
        assert_eq!(bench.answers(client), [Answer::done(cookie)]);
        let cookie = bench.ask(client, command(OpKind::Read, 16, 16), &[]);
        bench.end(SSD, Status::Done);
        let data = [[7; 4096], [0; 4096]].concat();
        assert_eq!(bench.answers(client), [Answer { cookie, error: 0, data }]);
        assert_eq!(bench.server.open.len(), 0);
        assert!(bench.server.operations.is_empty());
    }

    #[test]
    fn failed_operation_fails_its_request_alone() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        let bad = bench.ask(client, command(OpKind::Read, 0, 8), &[]);
        let good = bench.ask(client, command(OpKind::Read, 80, 8), &[]);
        bench.end(SSD, Status::MediaError);
        bench.end(SSD, Status::Done);
        assert_eq!(bench.answers(client), [Answer::failed(bad), Answer { data: vec![0; 4096], ..Answer::done(good) }]);
        assert_eq!(bench.server.traffic.1[SSD].errors, 1);
    }

    /// Case: a request with FUA and without data. Its records are stable only after a flush.
    #[test]
    fn zeroes_with_fua_are_answered_after_a_flush() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        let zeroes = Command { fua: true, ..command(OpKind::WriteZeroes, 0, 8) };
        let cookie = bench.ask(client, zeroes, &[]);
        bench.end(SSD, Status::Done);
        assert_eq!(bench.waiting(SSD), [Command::FLUSH]);
        assert_eq!(bench.answers(client), []);
        bench.end(SSD, Status::Done);
        assert_eq!(bench.answers(client), [Answer::done(cookie)]);
    }

    /// An error of this flush is the answer to the request, because the zeroes are on the drive but
    /// may be lost.
    #[test]
    fn failed_flush_fails_zeroes_with_fua() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        let zeroes = Command { fua: true, ..command(OpKind::WriteZeroes, 0, 8) };
        let cookie = bench.ask(client, zeroes, &[]);
        bench.end(SSD, Status::Done);
        bench.end(SSD, Status::MediaError);
        assert_eq!(bench.answers(client), [Answer::failed(cookie)]);
    }
}
