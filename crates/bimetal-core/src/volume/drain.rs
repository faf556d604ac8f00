//! Drain and detach: writes everything back until home has the newest content of every block and
//! records on home that the cache or log is empty. While a volume drains, writes go to home too, so
//! a drain ends under any load. Content that cannot be moved stays in its slot, readable, and is
//! tried again.
//!
//! A drain that was cut off continues where it stopped, because the blocks left to move are the
//! blocks off home. A *detach* takes the member with the slots out after the drain: home alone
//! serves, and nothing on the detached member is trusted again.

use super::{Job, Volume};
use crate::block_map::Slot;
use crate::layout::MemberId;
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::Nanoseconds;
use crate::volume::log_tail::LogTail;

/// Progress of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drain {
    /// No drain was requested.
    Idle,
    /// Blocks are still off home.
    UnderWay {
        /// Number of blocks still off home.
        blocks_left: u64,
        /// Number of the blocks off home that have been or are being written to home, and wait for
        /// the end of their batch.
        blocks_on_their_way: u64,
        /// Attempts in a row that could not move everything.
        failures: u32,
    },
    /// Home has everything, and the home members record this fact.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Draining {
    #[default]
    No,
    Yes {
        detach: bool,
    },
    /// Home has everything, and the drive with the slots is recording this fact.
    Settling {
        detach: bool,
    },
    /// Home has everything, and the state that records this fact is being written.
    Announcing,
    Done,
}

/// A step of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// No step is possible now.
    Wait,
    /// Move more content home.
    MoveHome,
    /// Record on the drive with the slots that home has everything.
    Settle,
    /// Record on the homes that home has everything. Take the member with the slots out, if a
    /// `detach` was requested.
    Announce { detach: bool },
    /// The drain has reached its next state, and no other step is needed.
    GoOn,
}

impl Draining {
    /// Returns the next state of the drain, and the step to take. `at_home` is true if home has
    /// everything. `is_settled` is true if the drive with the slots records this fact. `is_told` is
    /// true if the homes durably record all facts that they have to record.
    fn next(self, is_moving: bool, at_home: impl Fn() -> bool, is_settled: bool, is_told: bool) -> (Self, Step) {
        match self {
            Self::Yes { .. } if is_moving => (self, Step::Wait),
            Self::Yes { detach } if at_home() => (Self::Settling { detach }, Step::Settle),
            Self::Settling { detach } if !at_home() => (Self::Yes { detach }, Step::GoOn),
            Self::Settling { detach } if is_settled => (Self::Announcing, Step::Announce { detach }),
            Self::Yes { .. } => (self, Step::MoveHome),
            // Content may have left home before the record was durable.
            Self::Announcing if is_told && !at_home() => (Self::Yes { detach: false }, Step::GoOn),
            Self::Announcing if is_told => (Self::Done, Step::GoOn),
            Self::No | Self::Settling { .. } | Self::Announcing | Self::Done => (self, Step::Wait),
        }
    }
}

impl<P: Payload> Volume<P> {
    /// Begins to write everything back. With `detach`, the member with the slots is detached after
    /// the drain.
    pub fn drain(&mut self, now: Nanoseconds, detach: bool) {
        self.set_time(now);
        // The request for a drain suggests that failed operations may succeed now.
        self.mover.pauses.forget_failures();
        if self.mover.pauses.is_on() {
            self.end_pause();
        }
        if self.view.layout.slots.is_some() {
            self.set_draining(Draining::Yes { detach });
        } else {
            self.set_draining(Draining::Done);
        }
        self.pump();
    }

    /// Cancels a drain, or ends a completed one: the scheme places writes again.
    pub fn end_drain(&mut self, now: Nanoseconds) {
        self.set_time(now);
        self.set_draining(Draining::No);
        self.pump();
    }

    /// Returns the progress of a drain.
    pub fn drain_progress(&self) -> Drain {
        match self.draining {
            Draining::No => Drain::Idle,
            Draining::Done => Drain::Done,
            Draining::Yes { .. } | Draining::Settling { .. } | Draining::Announcing => {
                let blocks_left = u64::from(self.view.map.dirty_blocks());
                let blocks_on_their_way = self.blocks_on_their_way().min(blocks_left);
                Drain::UnderWay { blocks_left, blocks_on_their_way, failures: self.mover.pauses.failures() }
            }
        }
    }

    fn set_draining(&mut self, draining: Draining) {
        self.draining = draining;
        self.view.draining = draining != Draining::No;
    }

    /// Returns true if writes go to home because the volume drains.
    pub(super) fn is_draining(&self) -> bool {
        self.draining != Draining::No
    }

    /// Takes the next step of a drain. Returns true if there was a step to take.
    pub(super) fn drain_on(&mut self) -> bool {
        let is_told = self.announcements.are_durable();
        // A volume that closes settles nothing. The next start goes on with the drain.
        let is_settled = self.is_settled() && !self.is_closing();
        let (next, step) = self.draining.next(self.view.moving, || self.is_all_at_home(), is_settled, is_told);
        self.set_draining(next);
        match step {
            Step::Wait => false,
            Step::GoOn => true,
            Step::MoveHome => self.move_all_home(),
            Step::Settle => {
                self.settle();
                true
            }
            Step::Announce { detach } => {
                // The state without `dirty` is written first. Otherwise a power cut could leave a
                // home that records the member as detached and as needed.
                self.announce(|state| state.dirty = false);
                // A member that is also a home stays.
                if detach && self.view.slots_online() && !self.view.layout.homes().contains(&self.member_of_slots()) {
                    self.fail_member(self.member_of_slots());
                }
                true
            }
        }
    }

    /// Returns true if home has the newest content of every block, so that the slots are not
    /// needed.
    fn is_all_at_home(&self) -> bool {
        let placing = |job: &Job<P>| matches!(job, Job::Write(job) if job.writes_slots());
        // A lost block was off home: home has older content, and the volume reports the loss while
        // it is attached.
        self.view.map.dirty_blocks() == 0
            && !self.newest_is_gone()
            && self.damage.lost.is_empty()
            && (!self.log_is_in_use() || !self.view.slots_online())
            && !self.tasks.jobs().any(placing)
    }

    fn move_all_home(&mut self) -> bool {
        if !self.view.slots_online() {
            return false;
        }
        if self.store.appends() {
            // The last request that reads a part which was given up frees that part. Another
            // migration would find nothing to move.
            let more = self.store.log().is_some_and(LogTail::has_more_to_migrate);
            if more {
                self.begin_migration();
            }
            return more;
        }
        let first = self.view.map.next_dirty(Slot(0));
        let dirty = std::iter::successors(first, |last| self.view.map.next_dirty(Slot(last.0 + 1)));
        let dirty: Vec<Slot> = dirty.collect();
        if dirty.is_empty() {
            return false;
        }
        self.begin_move(dirty, true);
        true
    }

    /// Attaches the member with the slots again, empty: its metadata was just
    /// [formatted](super::format_again) with the epoch `life`, on the drive that the number `drive`
    /// names. Does nothing and returns false in
    /// three cases: the member serves already, a task still waits for the member, or only the
    /// member had the newest content of some block.
    pub fn attach(&mut self, now: Nanoseconds, member: MemberId, life: u32, drive: u32) -> bool {
        self.set_time(now);
        // Another member cannot replace a home's content.
        let at_home = self.view.layout.homes().contains(&member);
        let is_slots = self.view.layout.slots.is_some_and(|slots| slots.member == member) && !at_home;
        let in_use = self.commit.is_busy()
            || !self.mover.is_idle()
            || !self.requests.promotions.is_empty()
            || self.tasks.jobs().any(|job| match job {
                Job::Write(job) => job.writes_slots(),
                Job::Scrub(_) | Job::ScrubPages(_) | Job::Discard(_) => true,
                _ => false,
            });
        if !is_slots || self.view.slots_readable() || !self.view.map.is_empty() || in_use {
            return false;
        }
        self.store.begin_again(&self.view.layout, &self.decider.scheme.properties(), (life, drive));
        self.view.members[usize::from(member.0)].state = MemberState::Online;
        self.operations.forget_failures(member);
        // Home has all content, unless blocks are lost, and the report lists these. The first write
        // to a slot records that slots are needed anew, and so waits until home records that the
        // member has not failed.
        self.damage.newest_is_gone = false;
        let (is_mirrored, is_lost) = (self.view.layout.is_mirrored(), !self.damage.lost.is_empty());
        self.announce(|state| {
            state.failed &= !(1 << member.0);
            state.dirty &= is_mirrored || is_lost;
        });
        self.update_free_slots();
        self.pump();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAINS: Draining = Draining::Yes { detach: true };

    #[test]
    fn drain_moves_until_home_has_all_and_records_that() {
        let settling = Draining::Settling { detach: true };
        let next = |drain: Draining, at_home, is_settled, is_told| drain.next(false, || at_home, is_settled, is_told);
        assert_eq!(DRAINS.next(true, || false, true, true), (DRAINS, Step::Wait), "a move is under way");
        assert_eq!(next(DRAINS, false, true, true), (DRAINS, Step::MoveHome));
        assert_eq!(next(DRAINS, true, true, true), (settling, Step::Settle));
        assert_eq!(next(settling, true, false, true), (settling, Step::Wait));
        assert_eq!(next(settling, false, true, true), (DRAINS, Step::GoOn), "content left home meanwhile");
        assert_eq!(next(settling, true, true, true), (Draining::Announcing, Step::Announce { detach: true }));
        assert_eq!(next(Draining::Announcing, true, true, false), (Draining::Announcing, Step::Wait));
        assert_eq!(next(Draining::Announcing, true, true, true), (Draining::Done, Step::GoOn));
        assert_eq!(next(Draining::Done, false, true, true), (Draining::Done, Step::Wait));
        assert_eq!(next(Draining::No, true, true, true), (Draining::No, Step::Wait));
    }

    /// A write that was placed in a slot before the drain may end while the state is written.
    #[test]
    fn drain_goes_on_if_content_left_home_meanwhile() {
        let again = Draining::Yes { detach: false };
        assert_eq!(Draining::Announcing.next(false, || false, true, true), (again, Step::GoOn));
    }
}
