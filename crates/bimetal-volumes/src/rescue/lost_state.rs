//! The state that a rescue writes in place of a state that was lost.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bimetal_core::journal::state::State;
use bimetal_core::journal::turns::{COPIES, TURNS};
use bimetal_core::layout::{Layout, SlotKind};
use bimetal_core::units::SECTOR_BYTES;

use super::{Seated, evidence};
use crate::state;
use crate::volume_lock::VolumeLock;

/// Half the distance between the number of a new state and the number of the newest state that was
/// found: one newer state may be lost.
const SEQUENCES_AHEAD: u64 = 16;

/// Returns the number of the first state that is written. Where ranges change their homes, the new
/// states must be newer than the states on other drives: only one drive records the digest of the
/// table of places, and the digests on other drives are of an earlier table. In all other layouts
/// the state of another drive is to count.
pub(super) fn first_sequence(layout: &Layout, seated: &[Seated<'_>], lock: &VolumeLock) -> u64 {
    if layout.places.is_none() {
        return 0;
    }
    let newest = seated.iter().zip(&lock.drives).filter_map(|(seat, lock)| {
        evidence::state_place(&seat.label, layout)?;
        state::read(lock.file(), &seat.label, layout, seat.label.index).newest().0
    });
    newest
        .map(|state| state.sequence)
        .max()
        .map_or(0, |newest| (newest / 2).saturating_add(SEQUENCES_AHEAD).min(u64::MAX / 4) * 2)
}

/// Writes a state in place of a state that was lost; `first` is the number of its first turn.
pub(super) fn write(layout: &Layout, seat: &Seated<'_>, file: &File, first: u64) -> io::Result<()> {
    if evidence::state_place(&seat.label, layout).is_none() {
        return Ok(());
    }
    let label = &seat.located.assembly.label;
    let identity = label.volume.identity();
    // A volume goes on without the drive with the slots only if no content of that drive counts.
    let went_on = layout.slots.is_some_and(|slots| !label.was_there(slots.member));
    let known = state::read(file, &seat.label, layout, seat.label.index).newest().0;
    let rescued = rescued(layout, known.as_ref(), went_on);
    for turn in 0..TURNS as u64 {
        let state = State { sequence: first + turn, ..rescued.clone() };
        for copy in 0..COPIES {
            let place = layout.state_place(seat.label.index, turn, copy);
            file.write_all_at(&state.encode(identity), place.start.0 * SECTOR_BYTES)?;
        }
    }
    file.sync_all()
}

/// Returns the state that takes the place of one that was lost, while `known` is the state of the
/// other turn, if that turn is sound. The state says that every drive is needed: no content of the
/// drives can refute this statement. The labels refute it if the volume `went_on` without the drive
/// with the slots. Only the other turn tells which members have old content, and
/// it has each such fact, because these facts are written to both turns. A drive that had failed
/// was never written again, so its content is needed only if it was needed then. The digest of the
/// table of places is unknown.
fn rescued(layout: &Layout, known: Option<&State>, went_on: bool) -> State {
    let slots = layout.slots.map(|slots| (1 << slots.member.0, slots.kind));
    let mut state = State { dirty: slots.is_some(), ..State::default() };
    if let Some(known) = known {
        (state.failed, state.refusing) = (known.failed, known.refusing.clone());
        state.dirty &= known.dirty || slots.is_some_and(|(slots, _)| known.failed & slots == 0);
    }
    // A migration may have been under way: only the lost turn may have told so.
    let is_log = matches!(slots, Some((_, SlotKind::Log { .. })));
    state.migrating = is_log || known.is_some_and(|known| known.migrating);
    if let Some((slots, _)) = slots.filter(|_| went_on) {
        state.failed |= slots;
        (state.dirty, state.migrating) = (false, false);
    }
    state
}

#[cfg(test)]
mod tests {
    use bimetal_core::block::BlockSize;
    use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
    use bimetal_core::schemes;
    use bimetal_core::settings::Settings;
    use bimetal_core::units::Bytes;

    use super::*;

    fn layout(scheme: &str) -> Layout {
        let info = schemes::find(scheme).unwrap();
        let settings = Settings::new(info.name, info.parameters, []).unwrap();
        let member = |role, mib| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() };
        let members = [member(Role::Ssd, 64), member(Role::Hdd, 64)];
        (info.layout)(&settings, &LayoutRequest { block: BlockSize::default(), members: &members, units: &[] }).unwrap()
    }

    /// Regression: a rescue of one damaged turn forgot that the SSD had failed. The SSD was back,
    /// and its slots from before the failure were served in place of newer content at home.
    #[test]
    fn rescued_state_keeps_the_failure_of_the_ssd() {
        let cache = layout("smart-response");
        let failed = State { sequence: 7, failed: 1, ..State::default() };
        let state = rescued(&cache, Some(&failed), false);
        assert_eq!((state.failed, state.dirty), (1, false), "home has all content");
        let state = rescued(&cache, Some(&State { dirty: true, ..failed }), false);
        assert_eq!((state.failed, state.dirty), (1, true), "the SSD failed with content that home lacks");
        let sound = rescued(&cache, Some(&State::default()), false);
        assert_eq!((sound.failed, sound.dirty, sound.migrating), (0, true, false), "the lost turn may say so");
        let unknown = rescued(&cache, None, false);
        assert_eq!((unknown.failed, unknown.dirty, unknown.migrating), (0, true, false));
        let alone = rescued(&cache, None, true);
        assert_eq!((alone.failed, alone.dirty), (1, false), "the volume went on without the SSD");
        for known in [None, Some(&State::default())] {
            assert!(rescued(&layout("griffin"), known, false).migrating, "the lost turn may say so");
        }
    }
}
