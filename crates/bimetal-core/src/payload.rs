//! The content of a request, as a type parameter: real buffers when live, tags under the fault
//! tester, nothing in the simulator. The engine cuts and joins payloads; the engine copies a
//! payload only where a partial block must be merged.

use crate::units::Sectors;

/// The content of a range of sectors.
///
/// Slicing must be cheap (a reference count, not a copy); joining may produce a scatter list.
pub trait Payload: Sized {
    /// Set if the payload has content. If the constant is `false`, the engine keeps no parts and
    /// encodes no metadata, and the compiler removes that code.
    const CARRIES_DATA: bool;

    /// Returns a payload of no sectors.
    fn empty() -> Self;

    /// Returns `len` sectors of zeroes.
    fn zeroes(len: Sectors) -> Self;

    /// Returns `len` sectors from sector `start` on, which the payload must hold.
    fn slice(&self, start: Sectors, len: Sectors) -> Self;

    /// Returns the same content in memory of its own, as large as the content: the payload that it
    /// was sliced from can be freed. Content that has memory of its own is not copied.
    #[must_use]
    fn detached(self) -> Self {
        self
    }

    /// Appends `tail`.
    fn join(&mut self, tail: Self);

    /// Returns the number of sectors the payload holds.
    fn sectors(&self) -> Sectors;

    /// Returns the CRC32C of the content.
    fn checksum(&self) -> u32;

    /// Returns metadata of the engine as a payload; `bytes` is a whole number of sectors long.
    fn from_metadata(bytes: &[u8]) -> Self;

    /// Returns the bytes of a payload that was read from a place of metadata. For other content the
    /// method returns bytes with which no page begins.
    fn to_metadata(&self) -> Vec<u8>;
}

/// No content: the payload of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoPayload;

impl Payload for NoPayload {
    const CARRIES_DATA: bool = false;

    #[inline]
    fn empty() -> Self {
        Self
    }

    #[inline]
    fn zeroes(_len: Sectors) -> Self {
        Self
    }

    #[inline]
    fn slice(&self, _start: Sectors, _len: Sectors) -> Self {
        Self
    }

    #[inline]
    fn join(&mut self, _tail: Self) {}

    #[inline]
    fn sectors(&self) -> Sectors {
        Sectors::ZERO
    }

    #[inline]
    fn checksum(&self) -> u32 {
        0
    }

    #[inline]
    fn from_metadata(_bytes: &[u8]) -> Self {
        Self
    }

    #[inline]
    fn to_metadata(&self) -> Vec<u8> {
        Vec::new()
    }
}
