//! Metadata that cannot be, with checksums that are right: whatever comes of it is an error that says so, or a volume that
//! serves.

mod world;

use bimetal_core::volume::RecoveryError;
use proptest::prelude::*;
use world::CACHES;
use world::damage::{edit, pages, survive, written};

#[test]
fn a_position_beyond_all_that_can_be_is_an_error() {
    for (scheme, settings) in CACHES {
        let mut world = written(scheme, settings);
        let superblocks: Vec<_> =
            pages(&world).into_iter().filter(|&(member, at)| world.content[member][&at].starts_with(b"BIms")).collect();
        assert_eq!(superblocks.len(), 4, "{scheme}");
        // The highest byte of the tail.
        superblocks.iter().for_each(|page| edit(&mut world, page, 39, 1));
        let outcome = world.recover(&[]).map(|_| ());
        assert!(
            matches!(outcome, Err(RecoveryError::Damaged { .. })) || scheme == "smart-response",
            "{scheme}: {outcome:?}"
        );
    }
}

/// A log whose drive refuses writes, with content that cannot leave it: the next flush is an error at once, not when what
/// failed again and again is tried again by itself.
#[test]
fn a_flush_does_not_wait_for_what_cannot_leave() {
    let writeboost = CACHES.iter().position(|(scheme, _)| *scheme == "writeboost").unwrap();
    // A superblock, a page of the log's index, and the byte of the state that says that the drive refuses writes.
    survive(writeboost, [(0, 48, 0), (7, 0, 0), (17, 42, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn metadata_that_cannot_be_is_an_error_or_a_volume_that_serves(
        scheme: usize,
        edits in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 1..6),
        near_the_head: bool,
    ) {
        // Most of what steers recovery lies in the first bytes of a page.
        survive(scheme, edits.into_iter().map(|(page, byte, value)| {
            (page, if near_the_head { byte % 96 } else { byte }, value)
        }));
    }
}
