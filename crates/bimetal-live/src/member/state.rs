//! The state on an open home drive: its pages in the drive's tail, read.
//!
//! The core defines the meaning of a state and the copy that is valid
//! ([`bimetal_core::journal::state`]).

use std::fs::File;
use std::os::unix::fs::FileExt;

use bimetal_core::journal::page::PAGE_BYTES;
use bimetal_core::journal::state::StateCopies;
use bimetal_core::journal::turns::{COPIES, TURNS};
use bimetal_core::label::Label;
use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::units::SECTOR_BYTES;

/// Returns the copies of the state on `drive`, which is the member `member` of the volume. A page
/// that cannot be read counts as no copy.
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
