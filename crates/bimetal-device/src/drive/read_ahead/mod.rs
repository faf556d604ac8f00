//! Read-ahead for sequential reads. Direct I/O has no read-ahead of the page cache. If a client
//! requests one part after the other, the drive would be idle while each answer is sent.
//!
//! `ReadAhead` is a drive that wraps a drive. `ReadAhead` follows a few runs: sequences of reads
//! that each begin at the end of the read before. `ReadAhead` reads ahead of each run, in pieces,
//! as far ahead as the run is long, within bounds. A read within pieces is answered from them,
//! without a copy, when they have arrived. Each sector is returned once.
//!
//! A change invalidates the pieces that it overlaps, whether they have arrived or not. Nothing is
//! read ahead of a run where a change is under way. So data from a piece was read after the last
//! acknowledged change. A failed read of a piece is not an error: the read that needs the piece
//! goes to the drive.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Bytes, SectorRange, Sectors};
use slab::Slab;

use rustix::io::Errno;

use super::emulated::Emulation;
use super::{Drive, Failure};
use crate::buffer::Buffers;

/// Size of one read of a run.
const PIECE: Sectors = Bytes::from_kib(512).sectors();
/// Maximum read ahead of a run, and maximum kept for all runs.
const AHEAD_MAX: Sectors = Bytes::from_mib(4).sectors();
const KEPT_MAX: Sectors = Bytes::from_mib(16).sectors();
/// Maximum of runs that are followed.
const RUNS_MAX: usize = 16;
/// Age from which a piece is no longer used, because another program may have changed the drive.
const KEPT_FOR: Duration = Duration::from_millis(500);

/// Reads that each begin where the read before ended.
struct Run {
    /// Start of the expected next read.
    next: u64,
    /// Number of sectors that were read in the run.
    come: u64,
    reads: u64,
    /// End of the range that was read ahead.
    ahead_to: u64,
}

/// Part of a run, read before it is requested.
struct Piece {
    range: SectorRange,
    /// Data of the piece, once it has arrived.
    content: Option<Buffers>,
    begun: Instant,
    /// Set while the piece may answer new reads.
    usable: bool,
    /// Number of sectors of the piece that no read has requested.
    unread: Sectors,
    /// Number of reads that wait for the piece.
    readers: u32,
}

/// Read within pieces of which some have not arrived.
struct Waiting {
    operation: Operation<Buffers>,
    pieces: Vec<usize>,
    missing: usize,
    failed: bool,
}

/// Operation of the user of this drive, under way. The drive below gets the operation's key in the
/// table as its token, so that tokens of operations and of pieces differ.
struct Passing {
    token: Token,
    /// Range that the operation changes.
    changes: Option<SectorRange>,
}

/// See the [module](self).
pub(super) struct ReadAhead {
    drive: Box<dyn Drive>,
    capacity: Sectors,
    /// Runs in order of each run's last read; the newest is last.
    runs: Vec<Run>,
    pieces: Slab<Piece>,
    kept: Sectors,
    waiting: Vec<Waiting>,
    passing: Slab<Passing>,
    /// Number of operations that were taken and not collected.
    under_way: usize,
    ended: Vec<Completion<Buffers>>,
    collected: Vec<Completion<Buffers>>,
}

impl ReadAhead {
    pub(super) fn new(drive: Box<dyn Drive>, capacity: Sectors) -> Self {
        Self {
            drive,
            capacity,
            runs: Vec::with_capacity(RUNS_MAX),
            pieces: Slab::new(),
            kept: Sectors::ZERO,
            waiting: Vec::new(),
            passing: Slab::new(),
            under_way: 0,
            ended: Vec::new(),
            collected: Vec::new(),
        }
    }

    /// Passes an operation to the drive below.
    fn pass(&mut self, mut operation: Operation<Buffers>) {
        let Command { kind, range, .. } = operation.command;
        let changes = kind.changes_content().then_some(range);
        let key = self.passing.insert(Passing { token: operation.token, changes });
        operation.token = Token((key as u64) << 1);
        self.drive.submit(operation);
    }

    fn is_changing(&self, range: SectorRange) -> bool {
        self.passing.iter().any(|(_, passing)| passing.changes.is_some_and(|changes| changes.overlaps(range)))
    }

    fn read(&mut self, operation: Operation<Buffers>) {
        let range = operation.command.range;
        // The drive below answers a range outside it.
        if range.is_empty() || range.checked_end().is_none_or(|end| end > self.capacity) {
            return self.pass(operation);
        }
        self.follow(range);
        match self.pieces_of(range) {
            Some(pieces) => {
                let missing = pieces.iter().filter(|&&key| self.pieces[key].content.is_none()).count();
                pieces.iter().for_each(|&key| self.pieces[key].readers += 1);
                let read = Waiting { operation, pieces, missing, failed: false };
                if missing == 0 { self.hand_out(read) } else { self.waiting.push(read) }
            }
            None => self.pass(operation),
        }
        if !self.pieces.is_empty() {
            self.note_read(range);
        }
        self.read_on();
    }

    /// Records a read, and moves its run to the end of the list.
    fn follow(&mut self, range: SectorRange) {
        let (start, end, len) = (range.start.0, range.end().0, range.len.0);
        let run = match self.runs.iter().position(|run| run.next == start) {
            Some(at) => {
                let run = self.runs.remove(at);
                Run { next: end, come: run.come + len, reads: run.reads + 1, ahead_to: run.ahead_to.max(end) }
            }
            None => {
                if self.runs.len() == RUNS_MAX {
                    let forgotten = self.runs.remove(0);
                    self.drop_pieces(SectorRange::new(forgotten.next, forgotten.ahead_to - forgotten.next));
                }
                Run { next: end, come: len, reads: 1, ahead_to: end }
            }
        };
        self.runs.push(run);
    }

    /// Returns the pieces that hold `range`, in order; `None` if the pieces do not cover the range.
    fn pieces_of(&mut self, range: SectorRange) -> Option<Vec<usize>> {
        let mut found: Vec<usize> = Vec::new();
        let mut at = range.start.0;
        while at < range.end().0 {
            let holds = |piece: &Piece| piece.usable && (piece.range.start.0..piece.range.end().0).contains(&at);
            let (key, piece) = self.pieces.iter().find(|(_, piece)| holds(piece))?;
            if piece.begun.elapsed() > KEPT_FOR {
                self.drop_pieces(range);
                return None;
            }
            at = piece.range.end().0;
            found.push(key);
        }
        Some(found)
    }

    /// Records that `range` was requested. Pieces without unrequested sectors are dropped.
    fn note_read(&mut self, range: SectorRange) {
        let touched: Vec<usize> = self.touched(range);
        for key in touched {
            let piece = &mut self.pieces[key];
            let start = range.start.max(piece.range.start);
            let end = range.end().min(piece.range.end());
            piece.unread = Sectors(piece.unread.0.saturating_sub(end.0 - start.0));
            piece.usable &= piece.unread > Sectors::ZERO;
            self.drop_if_done(key);
        }
    }

    fn touched(&self, range: SectorRange) -> Vec<usize> {
        self.pieces.iter().filter(|(_, piece)| piece.range.overlaps(range)).map(|(key, _)| key).collect()
    }

    fn drop_pieces(&mut self, range: SectorRange) {
        for key in self.touched(range) {
            self.pieces[key].usable = false;
            self.drop_if_done(key);
        }
    }

    /// Drops a piece that is unusable and has no waiting readers, once its read has ended.
    fn drop_if_done(&mut self, key: usize) {
        let piece = &self.pieces[key];
        if !piece.usable && piece.readers == 0 && piece.content.is_some() {
            self.kept = Sectors(self.kept.0 - piece.range.len.0);
            self.pieces.remove(key);
        }
    }

    /// Reads ahead of the newest run, as far as the run is long.
    fn read_on(&mut self) {
        let Some(run) = self.runs.last().filter(|run| run.reads > 1) else { return };
        let (mut at, end) = (run.ahead_to, run.next + run.come.min(AHEAD_MAX.0));
        while at + PIECE.0 <= end.min(self.capacity.0) {
            let range = SectorRange::new(at, PIECE.0);
            if self.is_changing(range) || !self.has_room() {
                break;
            }
            self.read_piece(range);
            at = range.end().0;
        }
        if let Some(run) = self.runs.last_mut() {
            run.ahead_to = at;
        }
    }

    /// Returns true if there is room for a piece of the newest run, if need be after other runs
    /// have lost their pieces.
    fn has_room(&mut self) -> bool {
        for at in 0..self.runs.len().saturating_sub(1) {
            if self.kept + PIECE <= KEPT_MAX {
                break;
            }
            let run = &mut self.runs[at];
            let ahead = SectorRange::new(run.next, run.ahead_to - run.next);
            run.ahead_to = run.next;
            self.drop_pieces(ahead);
        }
        self.kept + PIECE <= KEPT_MAX
    }

    fn read_piece(&mut self, range: SectorRange) {
        let begun = Instant::now();
        let piece = Piece { range, content: None, begun, usable: true, unread: range.len, readers: 0 };
        self.kept += range.len;
        let token = Token((self.pieces.insert(piece) as u64) << 1 | 1);
        let command = Command { kind: OpKind::Read, range, fua: false };
        self.drive.submit(Operation { token, target: 0, command, payload: Buffers::empty() });
    }

    /// Takes the read of a piece, done or failed. Returns true if a read goes to the drive instead.
    fn arrived(&mut self, completion: Completion<Buffers>) -> bool {
        let key = (completion.token.0 >> 1) as usize;
        let failed = completion.status != Status::Done;
        let piece = &mut self.pieces[key];
        piece.content = Some(completion.payload);
        piece.usable &= !failed;
        for read in self.waiting.iter_mut().filter(|read| read.pieces.contains(&key)) {
            read.missing -= 1;
            read.failed |= failed;
        }
        let mut asked = false;
        while let Some(at) = self.waiting.iter().position(|read| read.missing == 0) {
            let read = self.waiting.remove(at);
            asked |= read.failed;
            self.hand_out(read);
        }
        if self.pieces.contains(key) {
            self.drop_if_done(key);
        }
        asked
    }

    /// Answers a read whose pieces have all arrived.
    fn hand_out(&mut self, read: Waiting) {
        let Waiting { operation, pieces, failed, .. } = read;
        let range = operation.command.range;
        let mut payload = Buffers::empty();
        let mut at = range.start;
        for &key in &pieces {
            let piece = &mut self.pieces[key];
            // Pieces of two runs may overlap: each contributes the part after the end of the piece
            // before.
            let end = range.end().min(piece.range.end());
            if let Some(content) = piece.content.as_ref().filter(|_| !failed) {
                payload.join(content.slice(Sectors(at.0 - piece.range.start.0), Sectors(end.0 - at.0)));
            }
            at = end;
            piece.readers -= 1;
        }
        if failed {
            self.pass(operation);
        } else {
            assert_eq!(payload.sectors(), range.len, "pieces that do not make up a read");
            self.ended.push(Completion { token: operation.token, status: Status::Done, payload });
        }
        pieces.into_iter().for_each(|key| self.drop_if_done(key));
    }
}

impl Drive for ReadAhead {
    fn submit(&mut self, operation: Operation<Buffers>) {
        self.under_way += 1;
        let Command { kind, range, .. } = operation.command;
        if kind == OpKind::Read {
            return self.read(operation);
        }
        if kind.changes_content() && !self.pieces.is_empty() {
            self.drop_pieces(range);
        }
        self.pass(operation);
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
            let mut collected = std::mem::take(&mut self.collected);
            self.drive.collect(&mut collected);
            let mut asked = false;
            for completion in collected.drain(..) {
                if completion.token.0 & 1 == 1 {
                    asked |= self.arrived(completion);
                } else {
                    let Passing { token, .. } = self.passing.remove((completion.token.0 >> 1) as usize);
                    self.ended.push(Completion { token, ..completion });
                }
            }
            self.collected = collected;
            if !asked {
                break;
            }
            // Repeated reads may have ended at once.
            self.drive.start();
        }
        ended.append(&mut self.ended);
        self.under_way -= ended.len() - before;
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty() || self.drive.has_ended()
    }

    fn under_way(&self) -> usize {
        // Pieces that are read ahead are operations of the drive, too.
        self.under_way.max(self.drive.under_way())
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.drive.event()
    }

    fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        self.drive.hole(range)
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
        self.drive.describe()
    }

    fn emulation(&self) -> Option<Emulation> {
        self.drive.emulation()
    }
}

#[cfg(test)]
mod tests;
