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
pub(super) enum Attachment {
    /// The drive is being prepared on another thread.
    Preparing,
    /// The drive is ready.
    Ready { replacement: Replacement, until: Nanoseconds },
}

impl Server {
    pub(super) fn hear_attach(&mut self, key: usize, path: PathBuf, force: bool) -> Option<Reply> {
        if self.control.attachment.is_none() {
            if let Some(message) = nothing_to_attach(self.volume.view()) {
                return Some(Reply::error(message));
            }
            let Some(held) = self.control.held.clone() else {
                return Some(Reply::error("this server has no labels to write, so it cannot attach a drive"));
            };
            let least = self.exports.first().map_or(512, |export| export.block_min_bytes);
            let work = move || {
                // A panic while the lock was held leaves the labels as they are on the drives.
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                replace(&mut held, &path, force, least)
            };
            if let Err(error) = self.outside(work, Server::drive_prepared) {
                return Some(Reply::error(format!("no thread to examine the drive: {error}")));
            }
            self.control.attachment = Some(Attachment::Preparing);
        }
        self.watch(key, Watch::Attach);
        None
    }

    fn drive_prepared(&mut self, prepared: Result<Replacement, ReplaceError>) {
        match prepared {
            Ok(replacement) => {
                let until = self.now.saturating_add(PATIENCE);
                self.control.attachment = Some(Attachment::Ready { replacement, until });
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
        let Some(Attachment::Ready { replacement, until }) = &self.control.attachment else { return false };
        let (member, life, until) = (replacement.member, replacement.life, *until);
        let number = usize::from(member.0);
        let free = self.drives[number].under_way() == 0;
        if free && self.volume.attach(self.now, member, life) {
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
        let Some(Attachment::Ready { replacement, .. }) = self.control.attachment.take() else { return };
        let Replacement { drive, path, .. } = replacement;
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
