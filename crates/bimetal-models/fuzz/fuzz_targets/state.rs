//! Feeds the reader of saved states: the input is a file, and its first byte and the rest the state of a small drive.
#![no_main]

use bimetal_models::flash::state::fuzz::restore_any;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| restore_any(data));
