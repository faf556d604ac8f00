//! Commands on a thread of their own, while the thread of Python waits without the lock of the
//! interpreter, shows the progress, and notes Ctrl-C.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bimetal::library::Watch;
use bimetal_sim::experiment::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Time between two looks at signals.
const TICK: Duration = Duration::from_millis(20);

/// Longest wait for a command that was stopped. A command that does not stop within this time
/// continues in the background.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Progress of a command, and the request to stop the command.
#[derive(Default)]
pub struct Watcher {
    stopped: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    /// Exception that stopped the command.
    exception: Mutex<Option<PyErr>>,
}

/// Payload with which a stopped command unwinds.
struct Stopped;

impl Watcher {
    /// Unwinds the thread if the command was stopped.
    #[inline]
    pub fn check(&self) {
        if self.stopped.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Stops the command because of an exception in a part of it that is in Python.
    pub fn stop_by(&self, exception: PyErr) -> ! {
        self.stopped.store(true, Ordering::Relaxed);
        self.exception.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(exception);
        resume_unwind(Box::new(Stopped))
    }

    /// Notes progress.
    pub fn note(&self, done: u64, total: u64) {
        self.done.fetch_max(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Notes the progress of the next of several stages.
    fn note_stage(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.check();
    }
}

impl Progress for Watcher {
    fn surveyed(&self, _requests: u64) {
        self.check();
    }

    fn simulated(&self, requests: u64, total: u64) {
        self.note(requests, total);
        self.check();
    }
}

impl bimetal_plan::Progress for Watcher {
    fn read(&self, _requests: u64) {
        self.check();
    }

    fn stepped(&self, _stage: bimetal_plan::Stage, done: u64, of: u64) {
        self.note_stage(done, of);
    }
}

impl Watch for Watcher {
    fn jobs(&self, done: u64, total: u64) {
        self.note(done, total);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Place where a thread leaves its result.
struct Desk<T> {
    result: Mutex<Option<std::thread::Result<T>>>,
    done: Condvar,
}

/// Runs `work` on a thread of its own. Calls `progress` now and then with the numbers of steps done
/// and in all.
///
/// # Errors
/// An exception of a signal handler (`KeyboardInterrupt`) or of `progress`, which stops the work;
/// or a panic of the work.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    watcher: &Arc<Watcher>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let desk = Arc::new(Desk { result: Mutex::new(None), done: Condvar::new() });
    let of_thread = Arc::clone(&desk);
    std::thread::Builder::new().name("bimetal".to_owned()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        *of_thread.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        of_thread.done.notify_all();
    })?;
    let mut shown = 0;
    loop {
        if let Some(result) = py.detach(|| wait(&desk, TICK)) {
            let exception = watcher.exception.lock().unwrap_or_else(PoisonError::into_inner).take();
            return exception.map_or_else(|| result.map_err(|panic| panicked(panic.as_ref())), Err);
        }
        let steps = (watcher.done.load(Ordering::Relaxed), watcher.total.load(Ordering::Relaxed));
        let show = |progress: &Py<PyAny>| progress.call1(py, steps).map(|_| ());
        let is_new = std::mem::replace(&mut shown, steps.0) != steps.0;
        let shown = progress.filter(|_| is_new).map_or(Ok(()), show);
        if let Err(exception) = py.check_signals().and(shown) {
            watcher.stopped.store(true, Ordering::Relaxed);
            py.detach(|| wait(&desk, STOP_MAX));
            return Err(exception);
        }
    }
}

fn wait<T>(desk: &Desk<T>, most: Duration) -> Option<std::thread::Result<T>> {
    let until = Instant::now() + most;
    let mut result = desk.result.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if result.is_some() || left.is_zero() {
            return result.take();
        }
        result = desk.done.wait_timeout(result, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    PyRuntimeError::new_err(format!("a defect of Bimetal: {}", text.unwrap_or("no message")))
}
