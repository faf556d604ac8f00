//! Feeds the reader of labels with pages whose magic, version and checksum are right and whose rest
//! is the input. A label that passes reads back after it was written.
#![no_main]

use bimetal_core::label::page::{PAGE_BYTES, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut page = [0; PAGE_BYTES];
    let length = data.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&data[..length]);
    let _ = decode(&page);
    for version in 1..=2 {
        page[..6].copy_from_slice(&[b'B', b'I', b'm', b'l', version, 0]);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&page[..28]), &page[32..]);
        page[28..32].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(label) = decode(&page) {
            // A label without features is written as version 1, which is shorter.
            let again = encode(&label).expect("what fitted a page fits it again");
            assert_eq!(decode(&again).as_ref(), Ok(&label));
        }
    }
});
