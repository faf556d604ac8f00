//! Feeds the reader of hints.
#![no_main]

use bimetal_trace::fuzz::read_hints;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    read_hints(data);
});
