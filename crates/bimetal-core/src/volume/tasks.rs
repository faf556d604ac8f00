//! The tasks under way: the job of each, the operations that it waits for, and the tasks that can
//! go on.
//!
//! A task that may read slots has a serial number. The oldest serial under way limits the slots
//! that may be reused. A *parked* task waits for something other than its operations. A parked task
//! reads no slot until it runs again. So a parked task does not keep a slot from reuse. Otherwise
//! the task might wait for a slot that it keeps itself.

use std::collections::VecDeque;

use slab::Slab;

use super::space::{Epochs, Serial};

pub(crate) type TaskId = u32;

struct Task<J> {
    /// Serial number among the tasks that may read slots; `None` while the task is parked.
    serial: Option<Serial>,
    outstanding: u32,
    job: J,
}

/// The tasks of a volume, each with a job `J`.
pub(super) struct Tasks<J> {
    tasks: Slab<Task<J>>,
    epochs: Epochs,
    /// Tasks to run, in order.
    ready: VecDeque<TaskId>,
}

impl<J> Default for Tasks<J> {
    fn default() -> Self {
        Self { tasks: Slab::new(), epochs: Epochs::default(), ready: VecDeque::new() }
    }
}

impl<J> Tasks<J> {
    pub(super) fn begin(&mut self, job: J) -> TaskId {
        let serial = Some(self.epochs.start());
        self.tasks.insert(Task { serial, outstanding: 0, job }) as TaskId
    }

    /// Begins a task that reads no slot, so no slot is kept from reuse for the task.
    pub(super) fn begin_idle(&mut self, job: J) -> TaskId {
        self.tasks.insert(Task { serial: None, outstanding: 0, job }) as TaskId
    }

    /// Parks a task with its job. Returns true if slots may be free now.
    #[must_use]
    pub(super) fn park(&mut self, task: TaskId, job: J) -> bool {
        debug_assert_eq!(self.outstanding(task), 0, "task {task} is parked and waits for operations");
        let parked = &mut self.tasks[task as usize];
        parked.job = job;
        let serial = parked.serial.take();
        if let Some(serial) = serial {
            self.epochs.end(serial);
        }
        serial.is_some()
    }

    /// Gives a task that runs again its serial, and returns its job. `running` stands for the job
    /// while the task runs.
    pub(super) fn resume(&mut self, task: TaskId, running: J) -> J {
        let resumed = &mut self.tasks[task as usize];
        if resumed.serial.is_none() {
            resumed.serial = Some(self.epochs.start());
        }
        std::mem::replace(&mut resumed.job, running)
    }

    /// Takes a job out of its task. `running` stands for the job while the job is out.
    pub(super) fn take_job(&mut self, task: TaskId, running: J) -> J {
        std::mem::replace(&mut self.tasks[task as usize].job, running)
    }

    pub(super) fn put_job(&mut self, task: TaskId, job: J) {
        self.tasks[task as usize].job = job;
    }

    pub(super) fn job(&self, task: TaskId) -> &J {
        &self.tasks[task as usize].job
    }

    pub(super) fn job_mut(&mut self, task: TaskId) -> &mut J {
        &mut self.tasks[task as usize].job
    }

    /// Ends a task. The end of a task may free slots.
    pub(super) fn end(&mut self, task: TaskId) {
        let ended = self.tasks.remove(task as usize);
        debug_assert_eq!(ended.outstanding, 0, "task {task} ends and waits for operations");
        if let Some(serial) = ended.serial {
            self.epochs.end(serial);
        }
    }

    /// Returns the number of operations and segments that a task waits for.
    #[inline]
    pub(super) fn outstanding(&self, task: TaskId) -> u32 {
        self.tasks[task as usize].outstanding
    }

    /// Lets a task wait for `count` more operations or segments.
    pub(super) fn expect(&mut self, task: TaskId, count: u32) {
        self.tasks[task as usize].outstanding += count;
    }

    /// Counts the end of an operation or segment that a task waited for. Returns true if the task
    /// waits for no other operation or segment.
    pub(super) fn arrived(&mut self, task: TaskId) -> bool {
        let outstanding = &mut self.tasks[task as usize].outstanding;
        *outstanding -= 1;
        *outstanding == 0
    }

    /// Queues a task to run.
    pub(super) fn wake(&mut self, task: TaskId) {
        self.ready.push_back(task);
    }

    /// Queues tasks to run, in order.
    pub(super) fn wake_all(&mut self, tasks: impl IntoIterator<Item = TaskId>) {
        self.ready.extend(tasks);
    }

    /// Returns the next task to run.
    pub(super) fn next_ready(&mut self) -> Option<TaskId> {
        self.ready.pop_front()
    }

    /// Returns true if a task can run now.
    pub(super) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the number of places for tasks, which a look at all tasks passes over. The number
    /// never falls.
    pub(super) fn places(&self) -> usize {
        self.tasks.capacity()
    }

    /// Returns the jobs of all tasks.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &J> {
        self.tasks.iter().map(|(_, task)| &task.job)
    }

    /// Returns the first task that waits for no operation and whose job matches.
    pub(super) fn find_waiting(&self, fits: impl Fn(&J) -> bool) -> Option<TaskId> {
        let found = self.tasks.iter().find(|(_, task)| fits(&task.job) && task.outstanding == 0);
        found.map(|(task, _)| task as TaskId)
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn contains(&self, task: TaskId) -> bool {
        self.tasks.contains(task as usize)
    }

    /// Returns the serial of the oldest task that may read slots, or of the next task to start.
    pub(super) fn oldest_serial(&self) -> Serial {
        self.epochs.oldest()
    }

    /// Returns the serial of the next task to start.
    pub(super) fn next_serial(&self) -> Serial {
        self.epochs.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that waits for slots must not keep these slots from reuse.
    #[test]
    fn parked_task_keeps_no_slot_from_reuse() {
        let mut tasks = Tasks::default();
        let reader = tasks.begin("read");
        let waiting = tasks.begin("write");
        assert_eq!((tasks.oldest_serial(), tasks.next_serial()), (0, 2));
        tasks.end(reader);
        assert_eq!(tasks.oldest_serial(), 1);
        assert!(tasks.park(waiting, "write"));
        assert_eq!(tasks.oldest_serial(), 2);
        assert!(!tasks.park(waiting, "write"), "it is parked already, and frees nothing");
        assert_eq!(tasks.resume(waiting, ""), "write");
        assert_eq!((tasks.oldest_serial(), tasks.next_serial()), (2, 3), "it may read slots again");
        assert_eq!(tasks.take_job(waiting, "again"), "");
        tasks.end(waiting);
        assert_eq!((tasks.len(), tasks.oldest_serial()), (0, 3));
    }

    #[test]
    fn idle_task_keeps_no_slot_from_reuse() {
        let mut tasks = Tasks::default();
        let idle = tasks.begin_idle(());
        assert_eq!(tasks.oldest_serial(), tasks.next_serial());
        tasks.end(idle);
    }

    #[test]
    fn tasks_run_in_the_order_in_which_they_woke() {
        let mut tasks = Tasks::default();
        let [first, second] = [1, 2].map(|job| tasks.begin(job));
        tasks.wake(second);
        tasks.wake_all([first, second]);
        assert_eq!(std::iter::from_fn(|| tasks.next_ready()).collect::<Vec<_>>(), [second, first, second]);
        assert!(!tasks.any_ready());
    }

    #[test]
    fn task_waits_for_each_of_its_operations() {
        let mut tasks = Tasks::default();
        let task = tasks.begin("commit");
        tasks.expect(task, 2);
        assert_eq!(tasks.find_waiting(|job| *job == "commit"), None);
        assert!(!tasks.arrived(task));
        assert!(tasks.arrived(task));
        assert_eq!(tasks.find_waiting(|job| *job == "commit"), Some(task));
        assert_eq!(tasks.find_waiting(|job| *job == "read"), None);
    }
}
