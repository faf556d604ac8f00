//! Tasks that wait for something other than their operations and each other: for free slots, for
//! room in a log's buffer, for the batch of a move, or for a claim of a block.
//!
//! A task that waits for slots also makes the scheme look for work that frees slots.

use std::collections::VecDeque;

use crate::block::Block;
use crate::volume::tasks::TaskId;

#[derive(Default)]
pub(in crate::volume) struct Waiters {
    for_slots: VecDeque<TaskId>,
    for_buffer: VecDeque<TaskId>,
    for_move: Vec<TaskId>,
    for_claim: Vec<(Block, TaskId)>,
    /// Set when something changed for the tasks that wait for slots, so that the scheme may find
    /// work that frees slots.
    work_requested: bool,
}

impl Waiters {
    /// Queues a task until slots are free.
    pub(in crate::volume) fn await_slots(&mut self, task: TaskId) {
        self.for_slots.push_back(task);
        self.work_requested = true;
    }

    /// Queues a task until a segment of the log was written.
    pub(in crate::volume) fn await_buffer(&mut self, task: TaskId) {
        self.for_buffer.push_back(task);
    }

    /// Queues a task until the batch of the running move has ended.
    pub(in crate::volume) fn await_move(&mut self, task: TaskId) {
        self.for_move.push(task);
    }

    /// Queues a task until a change ends its claim of `block`.
    pub(in crate::volume) fn await_claim(&mut self, task: TaskId, block: Block) {
        self.for_claim.push((block, task));
    }

    /// Takes the tasks that wait for the claim of `block`.
    pub(in crate::volume) fn take_for_claim(&mut self, block: Block) -> Vec<TaskId> {
        self.for_claim.extract_if(.., |&mut (claimed, _)| claimed == block).map(|(_, task)| task).collect()
    }

    /// Takes the tasks that wait for slots.
    pub(in crate::volume) fn take_for_slots(&mut self) -> VecDeque<TaskId> {
        std::mem::take(&mut self.for_slots)
    }

    /// Takes the tasks that wait for room in the log's buffer.
    pub(in crate::volume) fn take_for_buffer(&mut self) -> VecDeque<TaskId> {
        std::mem::take(&mut self.for_buffer)
    }

    /// Takes the tasks that wait for the batch of a move.
    pub(in crate::volume) fn take_for_move(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.for_move)
    }

    /// Returns the number of tasks that wait for slots.
    pub(in crate::volume) fn for_slots(&self) -> usize {
        self.for_slots.len()
    }

    /// Returns true if a task waits for slots.
    #[inline]
    pub(in crate::volume) fn any_for_slots(&self) -> bool {
        !self.for_slots.is_empty()
    }

    /// Asks the scheme for work, because an event may let the scheme free slots.
    pub(in crate::volume) fn request_work(&mut self) {
        self.work_requested = true;
    }

    /// Asks the scheme for work if a task waits for slots: content that was mapped can be moved or
    /// evicted for that task.
    pub(in crate::volume) fn request_work_for_slots(&mut self) {
        self.work_requested |= self.any_for_slots();
    }

    /// Clears the request for work. Returns true if work was requested and a task waits for slots.
    pub(in crate::volume) fn take_work_request(&mut self) -> bool {
        std::mem::take(&mut self.work_requested) && self.any_for_slots()
    }

    /// Returns all waiting tasks.
    pub(in crate::volume) fn all(&self) -> impl Iterator<Item = TaskId> {
        let queues = self.for_slots.iter().chain(&self.for_buffer);
        queues.chain(&self.for_move).copied().chain(self.for_claim.iter().map(|&(_, task)| task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_is_asked_once_for_each_change_while_a_task_waits() {
        let mut waiters = Waiters::default();
        waiters.request_work();
        assert!(!waiters.take_work_request(), "no task waits");
        waiters.await_slots(1);
        assert!(waiters.take_work_request());
        assert!(!waiters.take_work_request(), "nothing has changed since");
        waiters.request_work_for_slots();
        assert!(waiters.take_work_request());
        assert_eq!((waiters.for_slots(), waiters.take_for_slots()), (1, [1].into()));
        waiters.request_work_for_slots();
        assert!(!waiters.take_work_request() && !waiters.any_for_slots());
    }

    #[test]
    fn each_queue_gives_its_own_tasks_in_order() {
        let mut waiters = Waiters::default();
        waiters.await_buffer(2);
        waiters.await_move(3);
        waiters.await_slots(1);
        waiters.await_buffer(4);
        waiters.await_claim(5, Block(7));
        waiters.await_claim(6, Block(8));
        assert_eq!(waiters.all().collect::<Vec<_>>(), [1, 2, 4, 3, 5, 6]);
        assert_eq!(waiters.take_for_buffer(), [2, 4]);
        assert_eq!(waiters.take_for_move(), [3]);
        assert_eq!(waiters.take_for_claim(Block(8)), [6]);
        assert_eq!(waiters.take_for_claim(Block(7)), [5]);
        assert_eq!(waiters.all().collect::<Vec<_>>(), [1]);
    }
}
