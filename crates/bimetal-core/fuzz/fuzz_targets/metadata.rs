//! Feeds recovery with metadata in which the input changes bytes, with the checksums made right
//! again. The first byte of the input chooses the scheme; each change takes five bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the tests of the engine use more of this world")]
#[path = "../../tests/engine/world/mod.rs"]
mod world;

fuzz_target!(|data: &[u8]| {
    let Some((scheme, edits)) = data.split_first() else { return };
    let number = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let edits = edits.chunks_exact(5).take(8).map(|edit| (number(edit), number(&edit[2..]), edit[4]));
    world::damage::survive(usize::from(*scheme), edits);
});
