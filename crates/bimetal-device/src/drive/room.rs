//! Operations that wait for room: the file system below a file is full, or its owner's quota is
//! used up.
//!
//! A drive whose file system is full is not broken, so an operation that finds no room does not
//! fail. The operation is repeated after 10 ms at first, and then after twice the last pause, up to
//! a second. Repetition ends when the operation finds room, or when the server ends. Waiting loses
//! no acknowledged data, and operations continue when there is room again. A client whose write
//! finds no room waits, as with thinly provisioned LVM volumes that queue when they are full. Reads
//! are not delayed.

use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Pause before the first repetition of an operation.
const FIRST: Duration = Duration::from_millis(10);
/// Maximum of doublings of the pause.
const DOUBLINGS_MAX: u32 = 7;

/// Returns true if an error means that there is no room.
pub(super) fn is_no_room(error: Errno) -> bool {
    [Errno::NOSPC, Errno::DQUOT].contains(&error)
}

/// Operations that are tried again later.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    held: Vec<(Instant, T)>,
    errno: Option<Errno>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { held: Vec::new(), errno: None }
    }
}

impl<T> Waiting<T> {
    /// Keeps an operation, tried `tries` times so far, for a later try.
    pub(super) fn hold(&mut self, one: T, errno: Errno, tries: u32) {
        let pause = FIRST * 2u32.pow(tries.saturating_sub(1).min(DOUBLINGS_MAX));
        self.held.push((Instant::now() + pause.min(Duration::from_secs(1)), one));
        self.errno = Some(errno);
    }

    /// Takes the operations whose pause has ended.
    pub(super) fn take_due(&mut self) -> Vec<T> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let (due, held) = std::mem::take(&mut self.held).into_iter().partition(|(at, _)| *at <= now);
        self.held = held;
        let due: Vec<(Instant, T)> = due;
        due.into_iter().map(|(_, one)| one).collect()
    }

    /// Returns the time at which the next operation is to be tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.iter().map(|&(at, _)| at).min()
    }

    pub(super) fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Clears the error, if no operation waits, because an operation that needs room has succeeded.
    pub(super) fn found_room(&mut self) {
        if self.held.is_empty() {
            self.errno = None;
        }
    }

    /// Returns the last error for lack of room, until an operation finds room again.
    pub(super) fn errno(&self) -> Option<Errno> {
        self.errno
    }
}
