//! Feeds the readers. The first byte chooses the format (0, or beyond the last: recognised by
//! content); the rest is the trace.
#![no_main]

use bimetal_trace::formats;
use bimetal_trace::fuzz::read_any;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some((&choice, trace)) = data.split_first() {
        let format = usize::from(choice).checked_sub(1).and_then(|at| formats::ALL.get(at).copied());
        read_any(format, trace);
    }
});
