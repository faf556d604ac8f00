//! The queues between a server and the threads of a drive: work on its way there, and what has ended on its way back.
//!
//! Nothing is lost and nobody sleeps for ever, however threads are scheduled: `tests/queues.rs` compiles this very file with
//! shuttle's locks and tries.

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::sync::{Condvar, Mutex, MutexGuard};

/// A thread that panicked left nothing half-done behind these locks: each holds them for one push or pop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work that waits for a thread.
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

    /// Hands a job to one of the threads.
    pub(super) fn push(&self, job: T) {
        lock(&self.waiting).jobs.push_back(job);
        self.arrived.notify_one();
    }

    /// The next job, as soon as there is one; none when the queue is closed and empty.
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

    /// Lets threads end when nothing is left to do.
    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.arrived.notify_all();
    }
}

/// What has ended, and the order in which the other side is woken and looks.
pub(super) struct Ended<T>(Mutex<Vec<T>>);

impl<T> Ended<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Adds one; then `wake` wakes the other side.
    pub(super) fn push(&self, one: T, wake: impl FnOnce()) {
        lock(&self.0).push(one);
        wake();
    }

    /// After `clear`, which takes back what has woken us, moves all there is to `all`. How much that was.
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
