//! Queues between a server and the threads of a drive: jobs for the threads, and completions for
//! the server.
//!
//! No job is lost and no thread sleeps forever, under any schedule of threads. `tests/queues.rs`
//! compiles this file with shuttle's locks and tries schedules.

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::sync::{Condvar, Mutex, MutexGuard};

/// Locks a queue, even after a panic: each holder pushes or pops once, so no state is left
/// half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Jobs that wait for a thread.
pub(super) struct Work<T> {
    waiting: Mutex<Waiting<T>>,
    arrived: Condvar,
}

struct Waiting<T> {
    jobs: VecDeque<T>,
    closed: bool,
}

impl<T> Work<T> {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::new(Waiting { jobs: VecDeque::new(), closed: false }), arrived: Condvar::new() }
    }

    /// Passes a job to one of the threads.
    pub(super) fn push(&self, job: T) {
        lock(&self.waiting).jobs.push_back(job);
        self.arrived.notify_one();
    }

    /// Waits for a job and returns it; `None` when the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            } else if waiting.closed {
                return None;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the threads end when no job is left.
    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.arrived.notify_all();
    }
}

/// Queue of completions; its order of waking and collecting loses no completion.
pub(super) struct Ended<T>(Mutex<Vec<T>>);

impl<T> Ended<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Adds the completion of an operation to the queue. After that, `wake` wakes the server.
    pub(super) fn push(&self, one: T, wake: impl FnOnce()) {
        lock(&self.0).push(one);
        wake();
    }

    /// Calls `clear`, which clears the event that woke the server, then moves all completions to
    /// `all`. Returns their number.
    pub(super) fn collect(&self, clear: impl FnOnce(), all: &mut Vec<T>) -> usize {
        clear();
        let mut ended = lock(&self.0);
        let count = ended.len();
        all.append(&mut ended);
        count
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}
