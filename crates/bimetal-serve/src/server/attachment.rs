//! Attaching a drive: a new drive replaces the missing or detached drive off home, while the server
//! serves.
//!
//! The new drive is examined, formatted and labelled on another thread. After that, once no
//! operation waits for the old drive, the volume attaches the new drive.

use std::path::PathBuf;
use std::sync::PoisonError;

use bimetal_core::layout::MemberId;
use bimetal_core::units::Nanoseconds;
use bimetal_volumes::replace::{ReplaceError, Replacement, nothing_to_attach, replace};

use super::Server;
use super::control::Watch;
use super::select::Source;
use super::traffic::Traffic;
use crate::control::message::{Done, Reply};

/// Maximum wait for operations of the old drive to end.
const PATIENCE: Nanoseconds = Nanoseconds::from_seconds(30);

/// Drive to be attached.
pub(super) struct Attachment {
    /// Path of the drive, as it was asked for.
    path: PathBuf,
    /// The drive, once another thread has prepared it, and the end of the wait for the old drive.
    ready: Option<(Replacement, Nanoseconds)>,
}

impl Server {
    pub(super) fn hear_attach(&mut self, key: usize, path: PathBuf, force: bool) -> Option<Reply> {
        if let Some(Attachment { path: other, .. }) =
            self.control.attachment.as_ref().filter(|known| known.path != path)
        {
            let other = other.display();
            return Some(Reply::error(format!("{other} is being attached: wait until it is attached, and try again")));
        }
        if self.control.attachment.is_none() {
            if let Some(message) = nothing_to_attach(self.volume.view()) {
                return Some(Reply::error(message));
            }
            let Some(held) = self.control.held.clone() else {
                return Some(Reply::error("this server has no labels to write, so it cannot attach a drive"));
            };
            let least = self.exports.first().map_or(512, |export| export.block_min_bytes);
            let asked = path.clone();
            let work = move || {
                // A panic while the lock was held leaves the labels as they are on the drives.
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                replace(&mut held, &path, force, least)
            };
            if let Err(error) = self.outside(work, Server::drive_prepared) {
                return Some(Reply::error(format!("no thread to examine the drive: {error}")));
            }
            self.control.attachment = Some(Attachment { path: asked, ready: None });
        }
        self.watch(key, Watch::Attach);
        None
    }

    fn drive_prepared(&mut self, prepared: Result<Replacement, ReplaceError>) {
        match prepared {
            Ok(replacement) => {
                let until = self.now.saturating_add(PATIENCE);
                if let Some(attachment) = &mut self.control.attachment {
                    attachment.ready = Some((replacement, until));
                }
            }
            Err(error) => self.end_attachment(&Reply::error(error.to_string())),
        }
    }

    fn end_attachment(&mut self, reply: &Reply) {
        self.control.attachment = None;
        self.tell_watchers(Watch::Attach, reply);
    }

    /// Attaches the new drive if the volume can take the drive now. Returns true if the drive was
    /// attached.
    pub(super) fn go_on_attaching(&mut self) -> bool {
        let ready = self.control.attachment.as_ref().and_then(|attachment| attachment.ready.as_ref());
        let Some((replacement, until)) = ready else { return false };
        let Replacement { member, life, number: drive, .. } = *replacement;
        let until = *until;
        let free = self.drives[usize::from(member.0)].under_way() == 0;
        if free && self.volume.attach(self.now, member, life, drive) {
            self.take_in(member);
            return true;
        }
        if until <= self.now {
            let message = "the missing drive still has operations that do not end: try again, or restart the server";
            self.end_attachment(&Reply::error(message));
        }
        false
    }

    fn take_in(&mut self, member: MemberId) {
        let ready = self.control.attachment.take().and_then(|attachment| attachment.ready);
        let Some((Replacement { drive, path, .. }, _)) = ready else { return };
        let number = usize::from(member.0);
        self.selector.remove(self.drives[number].event());
        self.drives[number] = drive;
        self.traffic.1[number] = Traffic::default();
        // A drive whose event cannot be watched counts as gone.
        if self.selector.add(Source::Drive(number), self.drives[number].event()).is_err() {
            self.volume.member_gone(self.now, member);
        }
        if let Some(known) = self.control.about.as_mut().and_then(|about| about.members.get_mut(number)) {
            known.path = Some(path.display().to_string());
        }
        let message = format!("{} is attached, and empty", path.display());
        self.end_attachment(&Reply::Done(Done::new(message)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    /// Regression: a second drive got the answer about the first, `is attached, and empty`.
    #[test]
    fn second_drive_is_refused_while_another_is_attached() {
        let mut bench = Bench::new("smart-response");
        bench.server.control.attachment = Some(Attachment { path: "/dev/sdx".into(), ready: None });
        let refused = bench.server.hear_attach(0, "/dev/sdy".into(), false);
        assert!(matches!(refused, Some(Reply::Error { message }) if message.starts_with("/dev/sdx is being attached")));
        assert!(bench.server.hear_attach(0, "/dev/sdx".into(), false).is_none(), "the same drive is awaited");
    }
}
