//! Relocation: moves a range of addresses to another home. The range is read, written to a free
//! place and made stable at the new place. Then the page of the table of places with the range's
//! new place is written, and the [state](super::announce) records that the page was written.
//! Requests for the range wait during the relocation, as for a write of the whole range. After a
//! cut at any point the range lies in its old or its new place, and both places have the same
//! content.

use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::block::BlockRun;
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::places::page_place;
use crate::scheme::MemberState;
use crate::units::SectorRange;

/// Sectors of one operation: 512 KiB limit the time for which a request waits behind the operation.
const OPERATION_SECTORS: u64 = 1024;
/// Tries of the write of a page of the table of places, before its member becomes read-only.
const TRIES: u8 = 4;

pub(crate) struct RelocateJob<P> {
    range: u32,
    to: u32,
    phase: Phase,
    /// The content that was read, in order of address.
    parts: Vec<P>,
    status: Status,
    tries_left: u8,
    /// Number of operations begun before the range was written to its new place.
    begun_before_writing: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Writing,
    Flushing,
    /// The first copy of the page of the table of places is being written; the second copy in the
    /// phase `Second`.
    First,
    Second,
    /// The new digest of the table of places is being recorded.
    Recording,
}

impl<P: Payload> RelocateJob<P> {
    pub(super) fn note(&mut self, purpose: u32, status: Status, payload: P) {
        if status != Status::Done && !(self.phase == Phase::Flushing && status == Status::Unsupported) {
            self.status = status;
        } else if self.phase == Phase::Reading {
            self.parts[(purpose & purpose::INDEX) as usize] = payload;
        }
    }
}

impl<P: Payload> Volume<P> {
    /// Begins to move `range` to `member`, if that member has a free place.
    pub(super) fn relocate(&mut self, range: u32, member: MemberId) {
        assert!(!self.view.relocating, "one relocation at a time");
        let table = self.view.layout.metadata.map_or(member, |table| table.member);
        let witness = self.view.layout.places_witness().unwrap_or(table);
        let online = [member, table, witness].map(|member| self.view.member(member).state) == [MemberState::Online; 3];
        let places = self.view.layout.places.as_mut().expect("a scheme relocates what has places");
        let oldest = self.tasks.oldest_serial();
        let ranges = self.store.ranges_mut().expect("a scheme relocates what has places");
        let Some(to) = places.free_on(member, range, |place| !ranges.may_be_read(place, oldest)).filter(|_| online)
        else {
            return;
        };
        if !P::CARRIES_DATA && self.decider.scheme.properties().moves_instantly {
            places.set(range, to);
            self.statistics.relocated_ranges += 1;
            return;
        }
        ranges.forget_read(oldest);
        places.set_copying(Some((range, to)));
        let blocks = places.blocks(range);
        self.view.relocating = true;
        let task = self.begin_task(Job::Running);
        let (phase, status) = (Phase::Reading, Status::Done);
        let job =
            RelocateJob { range, to, phase, parts: Vec::new(), status, tries_left: TRIES, begun_before_writing: 0 };
        let block = self.view.layout.block.sectors();
        let sectors = SectorRange::new(blocks.first.0 * block, blocks.count * block);
        if self.requests.ordering.enter(task, self.lane(sectors), blocks) {
            self.read_range(task, job);
        } else {
            self.park(task, Job::Relocate(job));
        }
    }

    fn read_range(&mut self, task: TaskId, mut job: RelocateJob<P>) {
        for range in self.pieces(job.range, None) {
            let purpose = purpose::BACKGROUND | job.parts.len() as u32;
            job.parts.push(P::empty());
            self.issue(task, purpose, range.0, Command { kind: OpKind::Read, range: range.1, fua: false }, P::empty());
        }
        self.put_job(task, Job::Relocate(job));
    }

    /// Returns the operations that cover `range` in its present place or in another place.
    fn pieces(&self, range: u32, place: Option<u32>) -> Vec<(MemberId, SectorRange)> {
        let places = self.view.layout.places.as_ref().expect("a scheme relocates what has places");
        let (member, first) = places.sector_of(place.unwrap_or_else(|| places.place(range)));
        let sectors = places.range_blocks() * self.view.layout.block.sectors();
        let starts = (0..sectors).step_by(OPERATION_SECTORS as usize);
        starts.map(|at| (member, SectorRange::new(first + at, OPERATION_SECTORS.min(sectors - at)))).collect()
    }

    /// Continues a relocation when none of its operations is under way.
    pub(super) fn run_relocation(&mut self, task: TaskId, mut job: RelocateJob<P>) {
        if job.phase == Phase::Reading && job.parts.is_empty() {
            return self.read_range(task, job);
        }
        if job.status != Status::Done {
            return self.relocation_failed(task, job);
        }
        match job.phase {
            // The free place may still have the content of a range that has left it: the state must
            // record the table of places that says so, in both turns.
            Phase::Reading if !self.announcements.are_durable() => {
                self.put_job(task, Job::Relocate(job));
                return self.await_announcement(task);
            }
            Phase::Reading => {
                job.phase = Phase::Writing;
                job.begun_before_writing = self.operations.begun();
                let parts = std::mem::take(&mut job.parts);
                for ((member, range), part) in self.pieces(job.range, Some(job.to)).into_iter().zip(parts) {
                    let command = Command { kind: OpKind::Write, range, fua: false };
                    self.issue(task, purpose::BACKGROUND, member, command, part);
                }
            }
            Phase::Writing => {
                job.phase = Phase::Flushing;
                let (member, _) = self.pieces(job.range, Some(job.to))[0];
                self.issue(task, purpose::BACKGROUND, member, Command::FLUSH, P::empty());
            }
            // Another task's flush failed: the drive may have dropped the content of the new place.
            Phase::Flushing if self.homes_have_failed_since(job.begun_before_writing) => {
                return self.end_relocation(task);
            }
            // The state must record the table of places as it is before its next page is written.
            Phase::Flushing if !self.announcements.are_durable() => {
                self.put_job(task, Job::Relocate(job));
                return self.await_announcement(task);
            }
            // The witness may have become read-only while the move waited. It would not get the
            // digest of this page, and the table of places must not be two versions ahead of the
            // digest.
            Phase::Flushing if !self.records_places() => return self.end_relocation(task),
            Phase::Flushing if self.scrub.mended.is_under_way() => {
                self.put_job(task, Job::Relocate(job));
                return self.await_mending(task);
            }
            Phase::Flushing => {
                job.phase = Phase::First;
                self.write_table_page(task, &job);
            }
            Phase::First => {
                (job.phase, job.tries_left) = (Phase::Second, TRIES);
                self.write_table_page(task, &job);
            }
            Phase::Second => {
                job.phase = Phase::Recording;
                let places = self.view.layout.places.as_ref().expect("a scheme relocates what has places");
                let digest = places.digest_with(job.range);
                self.put_job(task, Job::Relocate(job));
                self.announce(|state| state.places = digest);
                return self.await_announcement(task);
            }
            Phase::Recording => {
                let places = self.view.layout.places.as_mut().expect("a scheme relocates what has places");
                let left = places.place(job.range);
                places.set(job.range, job.to);
                // Earlier reads may still use the old place.
                let next = self.tasks.next_serial();
                self.store.ranges_mut().expect("a scheme relocates what has places").leave(left, next);
                self.statistics.relocated_ranges += 1;
                return self.end_relocation(task);
            }
        }
        self.put_job(task, Job::Relocate(job));
    }

    fn write_table_page(&mut self, task: TaskId, job: &RelocateJob<P>) {
        let layout = &self.view.layout;
        let places = layout.places.as_ref().expect("a scheme relocates what has places");
        let table = layout.metadata.expect("places have a table");
        let (number, page) = places.page_with(job.range, job.to, self.store.identity());
        let range = page_place(table.first_sector, number, usize::from(job.phase == Phase::Second));
        let payload = P::from_metadata(&page);
        self.count_metadata(table.member, range.len);
        self.issue(task, purpose::BACKGROUND, table.member, Command { kind: OpKind::Write, range, fua: true }, payload);
    }

    /// Handles a failed relocation. Before the table of places is written, a failure has changed
    /// nothing. Once the table's page may have been written, it must be written again, because the
    /// place that the page names is unknown.
    fn relocation_failed(&mut self, task: TaskId, mut job: RelocateJob<P>) {
        if !matches!(job.phase, Phase::First | Phase::Second) {
            return self.end_relocation(task);
        }
        let table = self.view.layout.metadata.expect("places have a table");
        if job.tries_left > 0 && job.status == Status::MediaError {
            job.tries_left -= 1;
            job.status = Status::Done;
            self.write_table_page(task, &job);
            return self.put_job(task, Job::Relocate(job));
        }
        self.refuse_writes(table.member);
        let places = self.view.layout.places.as_mut().expect("a scheme relocates what has places");
        if job.phase == Phase::Second {
            // The first copy surely names the new place, and is the newer one. The state must
            // record it, because the older second copy fits the state before.
            (job.phase, job.status) = (Phase::Recording, Status::Done);
            let digest = places.digest_with(job.range);
            self.put_job(task, Job::Relocate(job));
            self.announce(|state| state.places = digest);
            return self.await_announcement(task);
        }
        // After a crash either place may count. Both places hold the same content, and no change of
        // the range is allowed any more.
        let blocks = places.blocks(job.range);
        self.store.ranges_mut().expect("a scheme relocates what has places").freeze(blocks);
        self.leave_ordering(task);
        self.end_task(task);
    }

    /// Returns true if `blocks` may lie in two places, so that neither place may change.
    pub(super) fn is_frozen(&self, blocks: BlockRun) -> bool {
        self.store.ranges().is_some_and(|ranges| ranges.is_frozen(blocks))
    }

    /// Returns true if the table of places and its witness can be written.
    fn records_places(&self) -> bool {
        let layout = &self.view.layout;
        let table = layout.metadata.map(|table| table.member);
        let mut members = table.into_iter().chain(layout.places_witness());
        members.all(|member| self.view.member(member).state == MemberState::Online)
    }

    fn end_relocation(&mut self, task: TaskId) {
        if let Some(places) = &mut self.view.layout.places {
            places.set_copying(None);
        }
        self.view.relocating = false;
        self.leave_ordering(task);
        self.end_task(task);
    }
}
