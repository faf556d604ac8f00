//! Requests: their admission, their order, and the things for which each request waits.
//!
//! A request that arrives is queued. At most a fixed number of requests are *admitted*: each of
//! these requests is a task. A change enters the [order](ordering) of changes, and cancels the
//! promotions of its blocks. A task that cannot go on joins the [waiters](waiters) for the thing
//! that it needs.

pub(super) mod ordering;
pub(super) mod promotions;
pub(super) mod recent;
mod regions;
pub(super) mod waiters;

use std::collections::VecDeque;

use super::tasks::TaskId;
use crate::block::BlockRun;
use crate::operation::{Completion, Operation, Status, Token};
use crate::payload::Payload;
use ordering::Ordering;
use promotions::Promotions;
use recent::Recent;
use waiters::Waiters;

/// The requests of a volume.
pub(super) struct Requests<P> {
    /// Requests that are not admitted yet, in order of arrival. Each has the number of answers
    /// before its arrival.
    queue: VecDeque<(Operation<P>, u64)>,
    /// Number of requests that were answered.
    answered: u64,
    admitted: u32,
    admitted_max: u32,
    /// Completions for the driver.
    finished: VecDeque<Completion<P>>,
    pub(super) ordering: Ordering,
    pub(super) promotions: Promotions,
    pub(super) waiters: Waiters,
    pub(super) recent: Recent<P>,
}

impl<P: Payload> Requests<P> {
    /// Returns the number of requests that are not admitted yet.
    pub(super) fn waiting(&self) -> u64 {
        self.queue.len() as u64
    }

    /// Makes the part of a volume that holds requests; `admitted_max` requests are admitted at
    /// once.
    pub(super) fn new(admitted_max: u32) -> Self {
        Self {
            queue: VecDeque::new(),
            answered: 0,
            admitted: 0,
            admitted_max,
            finished: VecDeque::new(),
            ordering: Ordering::default(),
            promotions: Promotions::default(),
            waiters: Waiters::default(),
            recent: Recent::default(),
        }
    }

    pub(super) fn arrive(&mut self, request: Operation<P>) {
        self.queue.push_back((request, self.answered));
    }

    /// Returns the request to admit next, if another may be admitted, and true if a request was
    /// answered since its arrival.
    pub(super) fn next(&mut self) -> Option<(Operation<P>, bool)> {
        let (request, answered) = self.queue.pop_front_if(|_| self.admitted < self.admitted_max)?;
        Some((request, answered < self.answered))
    }

    /// Returns true if a request can be admitted now.
    #[inline]
    pub(super) fn any_to_admit(&self) -> bool {
        self.admitted < self.admitted_max && !self.queue.is_empty()
    }

    /// Counts a request as admitted, until it [finishes](Self::finish_admitted).
    pub(super) fn admit(&mut self) {
        self.admitted += 1;
    }

    /// Answers a request that was admitted.
    pub(super) fn finish_admitted(&mut self, token: Token, status: Status, payload: P) {
        self.admitted -= 1;
        self.finish(token, status, payload);
    }

    /// Answers a request that needed no task.
    pub(super) fn finish(&mut self, token: Token, status: Status, payload: P) {
        self.answered += 1;
        self.finished.push_back(Completion { token, status, payload });
    }

    /// Returns the next answer.
    #[inline]
    pub(super) fn next_finished(&mut self) -> Option<Completion<P>> {
        self.finished.pop_front()
    }

    /// Adds `task` as a change of `blocks`, which conflicts with other changes in its `lane`.
    /// Promotions of content from before the change are cancelled. Returns true if the change may
    /// start at once.
    pub(super) fn begin_change(&mut self, task: TaskId, lane: BlockRun, blocks: BlockRun) -> bool {
        self.promotions.cancel(blocks);
        self.ordering.enter(task, lane, blocks)
    }

    /// Returns the number of requests that are admitted and not answered.
    pub(super) fn admitted(&self) -> u32 {
        self.admitted
    }

    /// Returns true if every request that arrived was answered.
    pub(super) fn are_all_answered(&self) -> bool {
        self.admitted == 0 && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::operation::{Command, OpKind};
    use crate::payload::NoPayload;
    use crate::units::SectorRange;

    fn request(token: u64) -> Operation<NoPayload> {
        let command = Command { kind: OpKind::Read, range: SectorRange::new(0, 8), fua: false };
        Operation { token: Token(token), target: 0, command, payload: NoPayload }
    }

    #[test]
    fn request_beyond_the_admitted_waits_for_an_answer() {
        let mut requests = Requests::new(2);
        (1..=3).for_each(|token| requests.arrive(request(token)));
        for token in [1, 2] {
            assert_eq!(requests.next().map(|(next, _)| next.token), Some(Token(token)));
            requests.admit();
        }
        assert!(!requests.any_to_admit() && requests.next().is_none());
        requests.finish_admitted(Token(2), Status::Done, NoPayload);
        assert_eq!(requests.next().map(|(next, _)| next.token), Some(Token(3)));
        requests.finish(Token(3), Status::OutOfRange, NoPayload);
        assert!(!requests.are_all_answered(), "the first one is open");
        requests.finish_admitted(Token(1), Status::Done, NoPayload);
        assert!(requests.are_all_answered());
        let answered = std::iter::from_fn(|| requests.next_finished()).map(|answer| answer.token.0);
        assert_eq!(answered.collect::<Vec<_>>(), [2, 3, 1]);
    }

    /// A promotion of content from before a change would leave a copy older than home.
    #[test]
    fn change_cancels_the_promotions_of_its_blocks() {
        let run = |first, count| BlockRun { first: Block(first), count };
        let mut requests = Requests::<NoPayload>::new(1);
        requests.promotions.announce(1, run(0, 4));
        requests.promotions.announce(2, run(8, 4));
        assert!(requests.begin_change(3, run(3, 1), run(3, 1)));
        assert_eq!(requests.promotions.take(1), Some((run(0, 4), true)));
        assert_eq!(requests.promotions.take(2), Some((run(8, 4), false)));
        assert!(!requests.begin_change(4, run(0, 8), run(0, 8)), "it waits for the change before it");
    }
}
