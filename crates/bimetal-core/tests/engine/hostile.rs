//! Recovery from arbitrary members: impossible metadata with right checksums; noise; members of
//! another volume, of another version, or cut short. The result is either an error, before anything
//! is written, or a volume that serves. A recovery takes no more memory than a sound volume.

use crate::counting::{IN_USE, PEAK};
use crate::world::damage::{OTHERS, answer_comes, edit, forge, noise, pages, put, survive, written, written_by};
use crate::world::{CACHES, World};
use bimetal_core::journal::PAGE_SECTORS;
use bimetal_core::volume::RecoveryError;
use proptest::prelude::*;

/// Bound on the memory that a recovery of these volumes of 64 MiB takes at once, including the data
/// that the tests keep for the recovery.
const MEMORY_MAX: usize = 16 << 20;

/// Returns the result of [`answer_comes`], and checks that it stays within the bound of memory.
fn answer(world: &mut World) -> Result<(), RecoveryError> {
    let before = IN_USE.get();
    PEAK.set(before);
    let answer = answer_comes(world);
    let peak = PEAK.get() - before;
    assert!(peak < MEMORY_MAX, "{}: {peak} bytes in memory", world.scheme);
    answer
}

/// Returns all sectors that a recovery may read: all of the small member, and the end of the large
/// member.
fn read_by_recovery(world: &World) -> Vec<(usize, std::ops::Range<u64>)> {
    let tails = world.with_layout(|layout| layout.tails.clone());
    let sectors = world.members.iter().map(|member| member.capacity.0).zip(tails).enumerate();
    sectors.map(|(member, (end, tail))| (member, if end < 20_000 { 0..end } else { tail..end })).collect()
}

#[test]
fn a_position_beyond_all_that_can_be_is_an_error() {
    for (scheme, settings) in CACHES {
        let mut world = written(scheme, settings);
        let superblocks: Vec<_> =
            pages(&world).into_iter().filter(|&(member, at)| world.content[member][&at].starts_with(b"BIms")).collect();
        assert_eq!(superblocks.len(), 4, "{scheme}");
        // Byte 39 is the highest byte of the tail.
        superblocks.iter().for_each(|page| edit(&mut world, page, 39, 1));
        let outcome = world.recover(&[]).map(|volume| volume.view().map.len());
        // Home has all content of a write-through cache, so its damaged map costs nothing.
        let is_written_through = (scheme, settings) == ("smart-response", &[][..]);
        match outcome.as_ref().map_err(RecoveryError::cause) {
            Ok(&blocks) => assert!(is_written_through && blocks == 0, "{scheme} {settings:?}: {blocks} blocks"),
            Err(RecoveryError::Damaged { .. }) => assert!(!is_written_through, "{scheme} {settings:?}"),
            Err(error) => panic!("{scheme} {settings:?}: {error}"),
        }
    }
}

/// A log whose drive is read-only has content that cannot be written back. The next flush fails at
/// once, and does not wait until the failed moves are repeated.
#[test]
fn a_flush_does_not_wait_for_what_cannot_leave() {
    let writeboost = CACHES.iter().position(|(scheme, _)| *scheme == "writeboost").unwrap();
    // The changes hit a superblock, a page of the log's index, and the byte of the state that marks
    // the drive as read-only.
    survive(writeboost, [(0, 48, 0), (7, 0, 0), (17, 42, 1)]);
}

proptest! {
    #[test]
    fn metadata_that_cannot_be_is_an_error_or_a_volume_that_serves(
        scheme: usize,
        edits in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 1..6),
        near_the_head: bool,
    ) {
        // Most fields that steer recovery lie in the first bytes of a page.
        survive(scheme, edits.into_iter().map(|(page, byte, value)| {
            (page, if near_the_head { byte % 96 } else { byte }, value)
        }));
    }

    /// Whole pages of any kind are put in any place, with right checksums.
    #[test]
    fn forged_pages_are_an_error_or_a_volume_that_serves(
        scheme: usize,
        forged in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u64>(), any::<bool>()), 1..6),
    ) {
        let mut world = written_by(scheme);
        let pages = pages(&world);
        for (place, kind, seed, near) in forged {
            let place = pages[place % pages.len()];
            let page = forge(&world, place, kind, seed, near);
            put(&mut world, &place, page);
        }
        let _ = answer(&mut world);
    }

    /// Noise replaces everything that a recovery reads of one member.
    #[test]
    fn noise_as_a_member_is_an_error_or_a_volume_that_serves(scheme: usize, seed: u64, which in 0..2usize) {
        let mut world = written_by(scheme);
        let (member, sectors) = read_by_recovery(&world).swap_remove(which);
        let noise = noise(seed, (sectors.end - sectors.start) as usize * 512);
        world.content[member].extend(sectors.zip(noise.as_chunks::<512>().0.iter().copied()));
        let _ = answer(&mut world);
    }

    /// A member ends early: sectors after its end cannot be read, or are zeroes.
    #[test]
    fn truncated_member_is_an_error_or_a_volume_that_serves(
        scheme: usize,
        which in 0..2usize,
        at: prop::sample::Index,
        zeroes: bool,
    ) {
        let mut world = written_by(scheme);
        let (member, sectors) = read_by_recovery(&world).swap_remove(which);
        let end = sectors.start + at.index((sectors.end - sectors.start) as usize) as u64;
        if zeroes {
            world.content[member].split_off(&end);
        } else {
            world.ends[member] = end;
        }
        let _ = answer(&mut world);
    }
}

/// Some or all members belong to another volume. No content of members of another volume is used,
/// and nothing is written.
#[test]
fn members_of_another_volume_are_refused_untouched() {
    for (scheme, settings) in CACHES.into_iter().chain(OTHERS) {
        let mut world = written(scheme, settings);
        world.identity += 1;
        let error = answer(&mut world).unwrap_err();
        assert!(matches!(error.cause(), RecoveryError::Unformatted { .. }), "{scheme}: {error}");
    }
    for (scheme, settings) in CACHES {
        let (mut world, mut other) = (written(scheme, settings), written(scheme, settings));
        other.identity += 1;
        other.format(None);
        let slots = world.with_layout(|layout| layout.slots.expect("a cache has slots").member);
        world.content[usize::from(slots.0)] = other.content.swap_remove(usize::from(slots.0));
        let outcome = answer(&mut world);
        let cause = outcome.as_ref().map_err(RecoveryError::cause);
        let refused = matches!(cause, Err(RecoveryError::Unformatted { member, .. }) if *member == slots);
        // A write-through cache has no content that home lacks.
        assert!(refused || (outcome.is_ok() && settings.is_empty()), "{scheme}: {outcome:?}");
    }
}

/// Pages have right checksums and a version that this program does not know.
#[test]
fn members_of_another_version_are_refused_untouched() {
    for (scheme, settings) in CACHES.into_iter().chain(OTHERS) {
        let mut world = written(scheme, settings);
        pages(&world).iter().for_each(|page| edit(&mut world, page, 4, 99));
        assert!(answer(&mut world).is_err(), "{scheme}");
    }
}

/// Recovery of sound volumes stays within the same bound, so the bound is meaningful.
#[test]
fn sound_volumes_recover_within_the_bound_of_memory() {
    for (scheme, settings) in CACHES.into_iter().chain(OTHERS) {
        assert_eq!(answer(&mut written(scheme, settings)), Ok(()), "{scheme}");
        assert!(PEAK.get() > 8 * PAGE_SECTORS as usize * 512, "{scheme}: nothing is counted");
    }
}
