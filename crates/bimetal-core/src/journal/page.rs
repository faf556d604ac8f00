//! The frame of every page of metadata: 4 KiB, a magic word, a version, the volume's identity, and
//! a CRC32C over the whole page.

use zerocopy::{FromBytes, IntoBytes};

use super::format::Head;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// A page.
pub type Page = [u8; PAGE_BYTES];

/// The version of the format that this program writes.
pub const VERSION: u16 = 2;
/// The previous version: each page once, a table without generations, segments without a foot.
pub const VERSION_1: u16 = 1;
const CHECKSUM_AT: usize = core::mem::offset_of!(Head, checksum);
const CHECKSUM_END: usize = size_of::<Head>();

/// Reasons for which a page is foreign or torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The page does not begin as this kind of page does: it was never written, or has another
    /// content.
    #[error("not a page of the expected kind")]
    NotAPage,
    /// The page was written in another version of the format.
    #[error("a page of format version {0}; this program reads version {VERSION}")]
    Version(u16),
    /// The page's checksum does not match: torn or damaged.
    #[error("a page with a wrong checksum")]
    Checksum,
    /// The record has an unknown kind.
    #[error("record {0} of the page has an unknown kind")]
    Record(u16),
}

/// Returns an empty page of the kind `magic` of the volume `volume`. The caller writes the rest of
/// the page, and then seals the page.
pub(crate) fn begin(magic: u32, volume: u64) -> Page {
    let mut page = [0; PAGE_BYTES];
    let head = head_mut(&mut page);
    head.magic = magic.into();
    head.version = VERSION.into();
    head.volume = volume.into();
    page
}

/// Returns the header of a page.
pub(crate) fn head(page: &Page) -> Head {
    Head::read_from_bytes(&page[..CHECKSUM_END]).expect("a head has no alignment and fits a page")
}

/// Returns the header of a page for writing.
pub(crate) fn head_mut(page: &mut Page) -> &mut Head {
    Head::mut_from_bytes(&mut page[..CHECKSUM_END]).expect("a head has no alignment and fits a page")
}

/// Sets the checksum of a page that is otherwise complete.
pub(crate) fn seal(page: &mut Page) {
    let checksum = checksum(page);
    head_mut(page).checksum = checksum.into();
}

/// Checks a page of the kind `magic` in this version of the format. Returns its volume.
pub(crate) fn check(magic: u32, page: &Page) -> Result<u64, PageError> {
    match check_any(magic, page)? {
        (volume, VERSION) => Ok(volume),
        (_, other) => Err(PageError::Version(other)),
    }
}

/// Checks a page of a kind `magic` that is the same in both versions. Returns the volume and the
/// version of the page.
pub(crate) fn check_any(magic: u32, page: &Page) -> Result<(u64, u16), PageError> {
    let head = head(page);
    if head.magic.get() != magic {
        return Err(PageError::NotAPage);
    }
    if head.checksum.get() != checksum(page) {
        return Err(PageError::Checksum);
    }
    match head.version.get() {
        version @ (VERSION_1 | VERSION) => Ok((head.volume.get(), version)),
        other => Err(PageError::Version(other)),
    }
}

/// Returns true if a page was never written, or was erased.
pub(crate) fn is_blank(page: &Page) -> bool {
    page.as_bytes().iter().all(|&byte| byte == 0)
}

/// Returns the volume of an undamaged page of metadata of any kind and version; `None` for any
/// other page.
pub fn volume_of(page: &Page) -> Option<u64> {
    let is_whole = page.starts_with(b"BI") && u32_at(page, CHECKSUM_AT) == checksum(page);
    is_whole.then(|| u64_at(page, 8))
}

fn checksum(page: &Page) -> u32 {
    let before = crc32c::crc32c(&page[..CHECKSUM_AT]);
    crc32c::crc32c_append(before, &page[CHECKSUM_END..])
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

pub(crate) fn put<const N: usize>(page: &mut [u8], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}

/// Returns the whole pages in `bytes`.
pub fn pages(bytes: &[u8]) -> impl Iterator<Item = &Page> {
    bytes.as_chunks::<PAGE_BYTES>().0.iter()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns arbitrary bytes after the right magic and checksum, for tests of every kind of
    /// page.
    pub(in super::super) fn disguise(magic: u32, bytes: &[u8]) -> Page {
        let mut page = [0; PAGE_BYTES];
        page.copy_from_slice(bytes);
        head_mut(&mut page).magic = magic.into();
        seal(&mut page);
        page
    }
}
