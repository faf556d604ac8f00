//! Free ranges of a mounted file system on its device, from the kernel (GETFSMAP: ext4, xfs).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `struct fsmap` of `linux/fsmap.h`: a range of the device and its owner. Positions and lengths
/// are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// Number of records that one call returns at most.
const RECORDS: usize = 1024;

/// `struct fsmap_head`, followed by its records.
#[repr(C)]
struct Query {
    input_flags: u32,
    output_flags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    /// Lowest and highest record that the query asks for.
    keys: [Record; 2],
    records: [Record; RECORDS],
}

/// `FS_IOC_GETFSMAP`: read and written, 192 bytes, group X, number 59.
const GETFSMAP: u64 = 0xc0c0_583b;
/// Flag of a record whose owner is a special kind, such as `OWNER_FREE`.
const SPECIAL_OWNER: u32 = 0x10;
const LAST: u32 = 0x20;
const OWNER_FREE: u64 = 1;

/// Returns first byte and length of each free range of the device below the file system of `path`,
/// in order of address. The file system is synchronized first, because ext4 counts the blocks of a
/// deleted file as used until the deletion is committed, up to five seconds later.
///
/// # Errors
/// The file system cannot be synchronized, or does not report its ranges.
pub fn free_space(path: &Path) -> io::Result<Vec<(u64, u64)>> {
    let file = File::open(path)?;
    rustix::fs::syncfs(&file)?;
    let mut free: Vec<(u64, u64)> = Vec::new();
    let mut first = Record::default();
    loop {
        let last = Record {
            device: u32::MAX,
            flags: u32::MAX,
            physical: u64::MAX,
            owner: u64::MAX,
            offset: u64::MAX,
            ..Record::default()
        };
        let mut query = Box::new(Query {
            input_flags: 0,
            output_flags: 0,
            count: RECORDS as u32,
            entries: 0,
            reserved: [0; 6],
            keys: [first, last],
            records: [Record::default(); RECORDS],
        });
        // SAFETY: the kernel reads and writes the head and at most `count` records after it;
        // `Query` has room for `count` records.
        #[expect(unsafe_code, reason = "this question to a file system has no other way in")]
        let asked = unsafe { libc::ioctl(file.as_raw_fd(), GETFSMAP as _, std::ptr::from_mut(query.as_mut())) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        let records = &query.records[..(query.entries as usize).min(RECORDS)];
        for record in records.iter().filter(|record| record.flags & SPECIAL_OWNER != 0 && record.owner == OWNER_FREE) {
            match free.last_mut() {
                Some((start, length)) if *start + *length == record.physical => *length += record.length,
                _ => free.push((record.physical, record.length)),
            }
        }
        match records.last() {
            // The next call begins behind this record, so its first key carries the record's
            // length.
            Some(record) if record.flags & LAST == 0 => first = *record,
            _ => return Ok(free),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_is_as_long_as_the_kernel_expects() {
        assert_eq!((size_of::<Record>(), size_of::<Query>()), (64, 192 + 64 * RECORDS));
        assert_eq!(GETFSMAP >> 16 & 0x3fff, 192);
    }
}
