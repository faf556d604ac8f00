//! The state on home drives: its pages in the drives' tails, read, and their meaning for the drives
//! that are missing.
//!
//! The core defines the meaning of a state and the copy that is valid
//! ([`bimetal_core::journal::state`]).

use std::fs::File;
use std::os::unix::fs::FileExt;

use bimetal_core::journal::page::PAGE_BYTES;
use bimetal_core::journal::state::{State, StateCopies};
use bimetal_core::journal::turns::{COPIES, TURNS};
use bimetal_core::label::Label;
use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::scheme::Holds;
use bimetal_core::schemes;
use bimetal_core::units::SECTOR_BYTES;

use crate::find::Located;
use crate::plan::Plan;

/// Returns the copies of the state on `drive`, which is the member `member` of the volume. A page
/// that cannot be read counts as a missing copy.
pub(crate) fn read(drive: &File, label: &Label, layout: &Layout, member: MemberId) -> StateCopies {
    let mut copies = StateCopies::default();
    for (turn, copy) in (0..TURNS).flat_map(|turn| (0..COPIES).map(move |copy| (turn, copy))) {
        let mut page = [0; PAGE_BYTES];
        let place = layout.state_place(member, turn as u64, copy);
        let is_read = drive.read_exact_at(&mut page, place.start.0 * SECTOR_BYTES).is_ok();
        copies.note(turn, copy, is_read.then_some(&page), label.volume.identity());
    }
    copies
}

/// Returns the newest state on the home members that are present. Returns `None` if a newer state
/// may be lost.
pub(crate) fn newest_state(located: &Located) -> Option<State> {
    let label = &located.assembly.label;
    let scheme = schemes::find(&label.scheme)?;
    let is_home = |at: usize| {
        let kept = scheme.members.iter().find(|&&(role, _)| role == label.members[at].role);
        kept.is_some_and(|&(_, holds)| matches!(holds, Holds::Home | Holds::Copy | Holds::Ranges))
    };
    let layout = Plan::of_label(label)?.lay_out().ok()?;
    let homes = located.members().enumerate().filter(|&(at, _)| is_home(at));
    let copies = homes.filter_map(|(at, drive)| {
        let drive = File::open(&drive?.probe.canonical).ok()?;
        Some(read(&drive, label, &layout, MemberId(at as u16)))
    });
    let copies: Vec<StateCopies> = copies.collect();
    let newest = copies.iter().filter_map(|copies| copies.newest().0).max_by_key(|state| state.sequence)?;
    // As in a recovery, another member of a mirror may have the newer state.
    let may_be_newer = |copies: &StateCopies| copies.newest().1.is_some_and(|most| most > newest.sequence);
    (layout.is_mirrored() || !copies.iter().any(may_be_newer)).then_some(newest)
}

/// Returns true if content may be off home only, by the state on the home members; `None` if the
/// state cannot be read.
pub(crate) fn is_dirty(located: &Located) -> Option<bool> {
    Some(newest_state(located)?.dirty)
}

/// Returns members that failed or were detached and whose content is not needed, as a mask with one
/// bit for each member. Only caches and logs count, and only while home has all content. A mirrored
/// drive that failed counts as missing.
pub(crate) fn given_up(located: &Located) -> u64 {
    given_up_in(&located.assembly.label, newest_state(located).as_ref())
}

/// Returns the result of [`given_up`], for a volume with this label and this newest state.
pub(crate) fn given_up_in(label: &Label, kept: Option<&State>) -> u64 {
    let slots = Plan::of_label(label).and_then(|plan| plan.slots_member()).map_or(0, |member| 1 << member.0);
    kept.filter(|state| !state.dirty).map_or(0, |state| state.failed & slots)
}
