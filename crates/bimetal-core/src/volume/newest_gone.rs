//! A member with slots that vanishes while its slots hold content that home lacks.
//!
//! Home must not change any more in this life of the volume. So the member can come back: to the
//! next recovery, all is as if the power had failed when the member vanished. The order of steps:
//!
//! 1. The member vanishes. It is not recorded as failed, and home still records that slots hold
//!    content that home lacks.
//! 2. Reads of content that only the member has fail. All other reads go on at home.
//! 3. Writes, zeroes, discards and flushes fail. Changes of home that were under way may end. The
//!    newest records of these changes are not on the member, so a forced change fails, too.
//! 4. At the next start with the member, the slots count. At the next start without the member, the
//!    volume is refused, unless the loss is accepted.
//!
//! A member that vanishes while home has everything is recorded as failed and as not needed. The
//! volume then goes on without the member.

use super::Volume;
use crate::layout::MemberId;
use crate::payload::Payload;

impl<P: Payload> Volume<P> {
    /// Returns true if a member is gone with content that home lacks. The volume then fails changes
    /// of content and flushes until its next start.
    pub fn newest_is_gone(&self) -> bool {
        self.damage.newest_is_gone
    }

    /// Records that the member with the slots is gone, in memory and on the homes. Content of lost
    /// blocks counts as content that home lacks: only the member records that home's content of
    /// these blocks is older.
    pub(super) fn note_gone_slots(&mut self, member: MemberId) {
        if !P::CARRIES_DATA {
            return;
        }
        if self.view.map.dirty_blocks() > 0 || !self.damage.lost.is_empty() {
            self.damage.newest_is_gone = true;
            return;
        }
        self.announce(|state| {
            state.failed |= 1 << member.0;
            (state.dirty, state.migrating, state.refusing) = (false, false, None);
        });
    }
}
