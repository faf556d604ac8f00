//! Feeds the codec as a client would: the first bytes choose the sizes of pieces, and whether a
//! valid handshake comes first.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bimetal_serve::nbd::fuzz::run(data));
