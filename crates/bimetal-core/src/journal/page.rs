//! What every page of metadata has in common: 4 KiB, a magic word, a version, the volume it belongs to, and a CRC32C over
//! all of it.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// A page.
pub type Page = [u8; PAGE_BYTES];

const VERSION: u16 = 1;
const CHECKSUM_AT: usize = 28;
const CHECKSUM_END: usize = 32;

/// Why a page is not one of ours, or is torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The page does not begin as this kind of page does: never written, or something else.
    #[error("not a page of this kind")]
    NotAPage,
    /// The page was written by a later version.
    #[error("a page of format version {0}; this program reads version 1")]
    Version(u16),
    /// The page's checksum does not match: torn or damaged.
    #[error("a page with a wrong checksum")]
    Checksum,
    /// A record that cannot be.
    #[error("record {0} of the page is of no known kind")]
    Record(u16),
}

/// An empty page of the kind `magic` of the volume `volume`; bytes 6 and 7, 16 to 27 and everything from 32 on are the kind's.
pub(crate) fn begin(magic: u32, volume: u64) -> Page {
    let mut page = [0; PAGE_BYTES];
    page[0..4].copy_from_slice(&magic.to_le_bytes());
    page[4..6].copy_from_slice(&VERSION.to_le_bytes());
    page[8..16].copy_from_slice(&volume.to_le_bytes());
    page
}

/// Puts the checksum into a page that is otherwise complete.
pub(crate) fn seal(page: &mut Page) {
    let checksum = checksum(page);
    page[CHECKSUM_AT..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks a page of the kind `magic`; gives its volume.
pub(crate) fn check(magic: u32, page: &Page) -> Result<u64, PageError> {
    if u32_at(page, 0) != magic {
        return Err(PageError::NotAPage);
    }
    if u32_at(page, CHECKSUM_AT) != checksum(page) {
        return Err(PageError::Checksum);
    }
    match u16_at(page, 4) {
        VERSION => Ok(u64_at(page, 8)),
        later => Err(PageError::Version(later)),
    }
}

fn checksum(page: &Page) -> u32 {
    let before = crc32c::crc32c(&page[..CHECKSUM_AT]);
    crc32c::crc32c_append(before, &page[CHECKSUM_END..])
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

pub(crate) fn put<const N: usize>(page: &mut [u8], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}

/// The pages in `bytes`, as many as are whole.
pub fn pages(bytes: &[u8]) -> impl Iterator<Item = &Page> {
    bytes.as_chunks::<PAGE_BYTES>().0.iter()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// For every kind: arbitrary bytes behind the right magic and checksum.
    pub(in super::super) fn disguise(magic: u32, bytes: &[u8]) -> Page {
        let mut page = [0; PAGE_BYTES];
        page.copy_from_slice(bytes);
        put(&mut page, 0, magic.to_le_bytes());
        seal(&mut page);
        page
    }
}
