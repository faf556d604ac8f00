//! Feeds the codec as a client would: the first bytes say how the rest is cut and whether a good handshake comes before it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bimetal_live::nbd::fuzz::run(data));
