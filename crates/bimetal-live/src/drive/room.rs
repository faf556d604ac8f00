//! Operations that wait for room: the file system below a file is full, or its owner's quota is
//! used up.
//!
//! Such a drive is not broken, so an operation that finds no room does not fail. It is tried again,
//! after 10 ms at first and each time twice as long up to a second, until there is room or the
//! server ends: nothing that was acknowledged can be lost by waiting, and when there is room again
//! all goes on. Whoever asked waits, as with thinly provisioned volumes of LVM that queue when they
//! are full. Reads are not held up.

use std::time::{Duration, Instant};

use rustix::io::Errno;

/// After how long an operation is tried again for the first time.
const FIRST: Duration = Duration::from_millis(10);
/// How often the pause is doubled.
const DOUBLINGS_MAX: u32 = 7;

/// Whether an error says that there is no room.
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
    /// Holds one back that has been tried so often.
    pub(super) fn hold(&mut self, one: T, errno: Errno, tries: u32) {
        let pause = FIRST * 2u32.pow(tries.saturating_sub(1).min(DOUBLINGS_MAX));
        self.held.push((Instant::now() + pause.min(Duration::from_secs(1)), one));
        self.errno = Some(errno);
    }

    /// Those that are to be tried again now.
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

    /// When the next is to be tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.iter().map(|&(at, _)| at).min()
    }

    pub(super) fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Something was carried out that needs room.
    pub(super) fn found_room(&mut self) {
        if self.held.is_empty() {
            self.errno = None;
        }
    }

    /// What the system said when it had no room, if it has none as far as anybody knows.
    pub(super) fn errno(&self) -> Option<Errno> {
        self.errno
    }
}
