//! Queues between a server and the threads of a drive, under the schedules that shuttle tries. No
//! job is lost or duplicated, and no thread sleeps forever (shuttle reports a deadlock).

use shuttle::sync::Arc;
use shuttle::thread;

/// Locks of the queues in this test; elsewhere they are from std.
mod sync {
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../src/drive/queue.rs"]
mod queue;

use queue::{Ended, Work};

const SCHEDULES: usize = 5000;

/// Model of an eventfd: a server sleeps until a write, and a read clears the event.
struct Event {
    written: sync::Mutex<bool>,
    changed: sync::Condvar,
}

impl Event {
    fn new() -> Self {
        Self { written: sync::Mutex::new(false), changed: sync::Condvar::new() }
    }

    fn write(&self) {
        *self.written.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn clear(&self) {
        *self.written.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut written = self.written.lock().unwrap();
        while !*written {
            written = self.changed.wait(written).unwrap();
        }
    }
}

/// Runs a server with `jobs` for `threads`, which collects until all jobs have ended.
fn serve(threads: usize, jobs: u32) {
    let shared = Arc::new((Work::new(), Ended::new(), Event::new()));
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (work, ended, event) = &*shared;
                while let Some(job) = work.pop() {
                    ended.push(job, || event.write());
                }
            })
        })
        .collect();
    let (work, ended, event) = &*shared;
    let mut all = Vec::new();
    for job in 0..jobs {
        work.push(job);
        // A collection in between, as by a server before it sleeps.
        if job % 2 == 1 {
            ended.collect(|| event.clear(), &mut all);
        }
    }
    while all.len() < jobs as usize {
        event.wait();
        ended.collect(|| event.clear(), &mut all);
    }
    work.close();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    all.sort_unstable();
    assert_eq!(all, (0..jobs).collect::<Vec<_>>());
    assert!(ended.is_empty());
}

#[test]
fn every_job_ends_once_and_wakes_its_server() {
    shuttle::check_random(|| serve(3, 4), SCHEDULES);
    shuttle::check_pct(|| serve(2, 3), SCHEDULES, 3);
}

#[test]
fn threads_without_work_end_when_the_queue_is_closed() {
    shuttle::check_random(|| serve(3, 0), SCHEDULES);
}

/// A server that collects before it clears the event can sleep forever. If the test missed such
/// errors, this test would fail.
#[test]
#[should_panic(expected = "deadlock")]
fn the_other_order_would_be_noticed() {
    shuttle::check_random(
        || {
            let shared = Arc::new((Ended::new(), Event::new()));
            let worker = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (0..2).for_each(|job| shared.0.push(job, || shared.1.write())))
            };
            let mut all = Vec::new();
            while all.len() < 2 {
                shared.1.wait();
                shared.0.collect(|| {}, &mut all);
                shared.1.clear();
            }
            worker.join().unwrap();
        },
        SCHEDULES,
    );
}
