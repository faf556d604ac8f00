//! A drive worked by threads, with the system calls that every kernel has.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bimetal_core::operation::{Completion, Operation};
use rustix::event::{EventfdFlags, eventfd};

use super::Drive;
use super::file::DriveFile;
use super::job::Job;
use crate::buffer::Buffers;

/// Threads of one drive: how many operations are under way at once.
const THREADS: usize = 8;

/// A drive worked by threads.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    under_way: usize,
}

struct Shared {
    file: Arc<DriveFile>,
    queue: Mutex<Queue>,
    arrived: Condvar,
    ended: Mutex<Vec<Completion<Buffers>>>,
    event: OwnedFd,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// A thread that panicked left nothing half-done behind these locks: each holds them for one push or pop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// If the system gives no thread or event.
    pub fn new(file: Arc<DriveFile>) -> io::Result<Self> {
        Self::with_threads(file, THREADS)
    }

    pub(super) fn with_threads(file: Arc<DriveFile>, threads: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            file,
            queue: Mutex::default(),
            arrived: Condvar::new(),
            ended: Mutex::default(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let mut pool = Self { shared, threads: Vec::new(), under_way: 0 };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("drive-{number}"));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    pub(super) fn submit_job(&mut self, job: Job) {
        self.under_way += 1;
        lock(&self.shared.queue).jobs.push_back(job);
        self.shared.arrived.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(mut job) = self.next_job() {
            while let Some(step) = job.step(&self.file) {
                let result = self.file.perform(step);
                job.note(result, &self.file);
            }
            lock(&self.ended).push(job.end());
            // Fails only where the count would overflow, and then it is readable anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            } else if queue.closed {
                return None;
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drive for Pool {
    fn submit(&mut self, operation: Operation<Buffers>) {
        self.submit_job(Job::new(operation, &self.shared.file));
    }

    fn start(&mut self) {}

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        let mut count = [0; 8];
        // Nothing to read is no error: somebody collected before.
        let _ = rustix::io::read(&self.shared.event, &mut count);
        let mut fresh = lock(&self.shared.ended);
        self.under_way -= fresh.len();
        ended.append(&mut fresh);
    }

    fn has_ended(&mut self) -> bool {
        !lock(&self.shared.ended).is_empty()
    }

    fn under_way(&self) -> usize {
        self.under_way
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    fn logical_block(&self) -> u32 {
        self.shared.file.logical_block()
    }

    fn describe(&self) -> String {
        let cache = if self.shared.file.is_direct() { "O_DIRECT" } else { "the page cache" };
        format!("{} threads, {cache}", self.threads.len())
    }
}

impl Drop for Pool {
    /// Waits for what is under way.
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
