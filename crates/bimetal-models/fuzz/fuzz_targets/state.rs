//! Feeds the reader of saved states. The input is read as a file of states. Then its first byte
//! chooses a small drive, and the rest is read as the drive's state.
#![no_main]

use bimetal_models::flash::state::fuzz::restore_any;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| restore_any(data));
