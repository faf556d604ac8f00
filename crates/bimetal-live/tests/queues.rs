//! The queues between a server and the threads of a drive, under every schedule that shuttle tries: nothing is lost, nothing
//! comes twice, and nobody sleeps for ever (shuttle tells a deadlock).

use shuttle::sync::Arc;
use shuttle::thread;

/// What the queues are made of here, and of std elsewhere.
mod sync {
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../src/drive/queue.rs"]
mod queue;

use queue::{Ended, Work};

const SCHEDULES: usize = 5000;

/// What an eventfd is to a server: it sleeps until somebody has written, and reading takes that back.
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

/// A server with `jobs` for as many `threads`, which collects until it has them all.
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
        // A look in between, as a server takes before it sleeps.
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

/// A server that looks first and takes the wake-up back afterwards can sleep for ever: were the test blind, this would pass.
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
