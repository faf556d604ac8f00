//! Hints: questions that only a drive's translation layer can answer. A scheme asks; the drive with
//! the slots answers, or does not support hints.

use super::{Job, Volume};
use crate::block_map::Slot;
use crate::operation::{Command, Completion, OpKind, Status, Token};
use crate::payload::Payload;
use crate::units::{Nanoseconds, SectorRange};

use super::operations::purpose;

impl<P: Payload> Volume<P> {
    /// Asks for up to `most` blocks in slots that lie in fragmented blocks of their drive.
    pub(super) fn ask_fragmented(&mut self, most: u64) {
        let region = self.slot_region();
        let range = self.slot_sectors(Slot(0), most.min(region.count.into()));
        let task = self.begin_idle_task(Job::Hint(None));
        let command = Command { kind: OpKind::Hint, range, fua: false };
        self.issue(task, purpose::BACKGROUND, region.member, command, P::empty());
    }

    /// Completes a [hint](OpKind::Hint) with a drive's answer: `fragmented` has the sectors that
    /// the drive names, the most fragmented first. A drive without hints completes the operation as
    /// any other.
    ///
    /// # Panics
    ///
    /// Panics as [`complete`](Self::complete).
    pub fn answer_hint(&mut self, now: Nanoseconds, token: Token, fragmented: &[SectorRange]) {
        self.set_time(now);
        let region = self.slot_region();
        let sectors = self.view.layout.block.sectors();
        let slots = fragmented.iter().flat_map(|range| {
            let behind = |sector: u64| sector.saturating_sub(region.first_sector) / sectors;
            behind(range.start.0)..behind(range.end().0).min(region.count.into())
        });
        let in_use = slots.map(|slot| Slot(slot as u32)).filter(|slot| self.view.map.in_slot(*slot).is_some());
        let answer = Some(in_use.collect());
        if let Some(task) = self.operations.task_of(token) {
            self.put_job(task, Job::Hint(answer));
        }
        self.end_operation(Completion { token, status: Status::Done, payload: P::empty() });
        self.pump();
    }

    /// Passes the answer to the scheme: `None` if the drive does not support hints.
    pub(super) fn end_hint(&mut self, task: super::TaskId, answer: Option<&[Slot]>) {
        self.end_task(task);
        if let Some(monitor) = self.decider.scheme.monitor_mut() {
            monitor.fragmented(&self.view, answer);
        }
    }
}
