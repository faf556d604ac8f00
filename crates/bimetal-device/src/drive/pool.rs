//! Drive whose operations are carried out by threads, with system calls that every kernel has.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bimetal_core::operation::{Completion, Operation, Status};
use bimetal_core::units::{SectorRange, Sectors};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::file::DriveFile;
use super::job::Job;
use super::queue::{Ended, Work};
use super::room::Waiting;
use super::{Drive, Failure};
use crate::buffer::Buffers;

/// Number of threads of a drive, and so of its concurrent operations.
const THREADS: usize = 8;

/// Drive whose operations are carried out by threads.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    under_way: usize,
    collected: Vec<Ending>,
    waiting: Waiting<Job>,
}

/// Result of a thread's work on a job.
enum Ending {
    /// Completion of an operation, and true if the operation needed room in the file system and has
    /// found room.
    Completion(Completion<Buffers>, bool),
    /// Job to be tried again when there is room, with the error and the number of tries.
    NoRoom(Job, Errno, u32),
}

struct Shared {
    file: Arc<DriveFile>,
    work: Work<Job>,
    ended: Ended<Ending>,
    event: OwnedFd,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no thread or event.
    pub fn new(file: Arc<DriveFile>) -> io::Result<Self> {
        Self::with_threads(file, THREADS)
    }

    pub(super) fn with_threads(file: Arc<DriveFile>, threads: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            file,
            work: Work::new(),
            ended: Ended::new(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let mut pool =
            Self { shared, threads: Vec::new(), under_way: 0, collected: Vec::new(), waiting: Waiting::default() };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("drive-{number}"));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    /// Takes a job that has found no room in the file system, to try it again later.
    pub(super) fn hold_job(&mut self, job: Job, errno: Errno, tries: u32) {
        self.under_way += 1;
        self.waiting.hold(job, errno, tries);
    }

    pub(super) fn submit_job(&mut self, job: Job) {
        self.under_way += 1;
        self.shared.work.push(job);
    }
}

impl Shared {
    fn work(&self) {
        while let Some(mut job) = self.work.pop() {
            let mut no_room = None;
            while no_room.is_none()
                && let Some(step) = job.step(&self.file)
            {
                let result = self.file.perform(step);
                job.note(result, &self.file);
                no_room = job.take_no_room();
            }
            let ending = match no_room {
                Some((errno, tries)) => Ending::NoRoom(job, errno, tries),
                None => {
                    let needed = job.needs_room();
                    let completion = job.end();
                    let found = needed && completion.status == Status::Done;
                    Ending::Completion(completion, found)
                }
            };
            self.ended.push(ending, || {
                // The write fails only if the counter would overflow; the event is readable then
                // anyway.
                let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
            });
        }
    }
}

impl Drive for Pool {
    fn submit(&mut self, operation: Operation<Buffers>) {
        self.submit_job(Job::new(operation, &self.shared.file));
    }

    fn start(&mut self) {}

    fn collect(&mut self, ended: &mut Vec<Completion<Buffers>>) {
        let clear = || {
            // A failed read is not an error: an earlier call has collected everything.
            let _ = rustix::io::read(&self.shared.event, &mut [0; 8]);
        };
        let mut collected = std::mem::take(&mut self.collected);
        self.shared.ended.collect(clear, &mut collected);
        for ending in collected.drain(..) {
            match ending {
                Ending::Completion(completion, found_room) => {
                    self.under_way -= 1;
                    if found_room {
                        self.waiting.found_room();
                    }
                    ended.push(completion);
                }
                Ending::NoRoom(job, errno, tries) => self.waiting.hold(job, errno, tries),
            }
        }
        self.collected = collected;
        for job in self.waiting.take_due() {
            self.shared.work.push(job);
        }
    }

    fn has_ended(&mut self) -> bool {
        !self.shared.ended.is_empty() || self.waiting.is_due()
    }

    fn take_failures(&mut self) -> Vec<Failure> {
        self.shared.file.take_failures()
    }

    fn no_room(&self) -> Option<Errno> {
        self.waiting.errno()
    }

    fn due(&self) -> Option<Instant> {
        self.waiting.due()
    }

    fn under_way(&self) -> usize {
        self.under_way
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        self.shared.file.hole(range)
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
    /// Waits for the end of operations under way.
    fn drop(&mut self) {
        self.shared.work.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
