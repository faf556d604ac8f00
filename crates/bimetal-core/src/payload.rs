//! What a request carries, as a type parameter: real buffers when live, tags under the fault tester, nothing at all in
//! the simulator. The engine cuts and joins payloads; it copies one only where a partial block must be merged.

use crate::units::Sectors;

/// The content of a range of sectors.
///
/// Slicing must be cheap (a reference count, not a copy); joining may produce a scatter list.
pub trait Payload: Sized {
    /// Whether there is content at all. Where it is `false` the engine keeps no parts and encodes no metadata, and the
    /// compiler removes the code that would.
    const CARRIES_DATA: bool;

    /// No sectors.
    fn empty() -> Self;

    /// `len` sectors of zeroes.
    fn zeroes(len: Sectors) -> Self;

    /// `len` sectors from the `start`th on. The caller stays within what the payload holds.
    fn slice(&self, start: Sectors, len: Sectors) -> Self;

    /// The same content in memory of its own: what it was sliced from need not stay for it.
    #[must_use]
    fn detached(self) -> Self {
        self
    }

    /// Appends `tail`.
    fn join(&mut self, tail: Self);

    /// How many sectors it holds.
    fn sectors(&self) -> Sectors;

    /// CRC32C of the content.
    fn checksum(&self) -> u32;

    /// Metadata of the engine as a payload; `bytes` is a whole number of sectors long.
    fn from_metadata(bytes: &[u8]) -> Self;

    /// The bytes of a payload that was read where metadata lies. What is no metadata gives bytes that no page begins with.
    fn to_metadata(&self) -> Vec<u8>;
}

/// Nothing: the payload of the simulator.
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
