//! Requests on their way through the volume, and the volume's operations on their way through the
//! drives.

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::Nanoseconds;

use super::Server;
use super::recorder::Recorded;
use super::traffic::Mishap;
use crate::buffer::Buffers;
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
    /// Client, by key and number: another client may have the key by the time of the answer.
    Client { key: usize, number: u64, ticket: Ticket },
    /// The server itself, which makes everything stable before it stops.
    Stop,
}

const INDEX_BITS: u32 = 24;

impl Server {
    /// Submits a client's request to the volume.
    pub(super) fn submit(&mut self, key: usize, number: u64, request: Request) {
        let Request { ticket, export, mut command, payload } = request;
        let asker = Asker::Client { key, number, ticket };
        // Records that a discard adds to the map are stable only after a flush.
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

    /// Passes operations to the drives and completions to the volume, until there are none.
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

    /// Takes the completions of a drive.
    pub(super) fn collect(&mut self, number: usize) {
        let mut ended = std::mem::take(&mut self.completions);
        self.drives[number].collect(&mut ended);
        let failures = self.drives[number].take_failures();
        for completion in ended.drain(..) {
            if let Some((command, since)) = self.operations.remove(&completion.token.0) {
                self.latencies.note_member(number, command.kind, self.now.saturating_sub(since));
                let mishap = Mishap::of(command, completion.status, &failures);
                self.traffic.1[number].note(command, completion.status, mishap);
                if let Some(mishap) = mishap {
                    self.note_error(number as u16, mishap);
                }
            }
            self.volume.complete(self.now, completion);
        }
        self.completions = ended;
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
