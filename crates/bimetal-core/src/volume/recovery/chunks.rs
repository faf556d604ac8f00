//! Metadata pages that are read many at a time. If a chunk cannot be read, its pages are read one
//! by one, so that a bad sector costs one page.

use std::collections::BTreeMap;

use super::{Answer, Recovery};
use crate::journal::PAGE_SECTORS;
use crate::journal::page::{self, PAGE_BYTES, Page};
use crate::layout::MemberId;
use crate::payload::Payload;
use crate::units::SectorRange;

/// Chunks that are being read, by the number of their first page and their copy.
#[derive(Default)]
pub(super) struct Chunks {
    open: BTreeMap<(u64, usize), Chunk>,
}

/// Pages that one operation reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chunk {
    /// Number of the first page.
    pub(super) first: u64,
    /// Number of the copy, 0 or 1, to which its pages belong.
    pub(super) copy: usize,
    bytes: Vec<u8>,
    readable: Vec<bool>,
    /// Operations that have not ended.
    waiting: usize,
}

impl Chunk {
    /// Returns the number of pages in the chunk.
    pub(super) fn count(&self) -> u64 {
        self.readable.len() as u64
    }

    /// Returns the number after the chunk's last page.
    pub(super) fn end(&self) -> u64 {
        self.first + self.count()
    }

    /// Returns a page by its number; `None` if it cannot be read or belongs to another chunk.
    pub(super) fn page(&self, number: u64) -> Option<&Page> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let readable = *self.readable.get(at)?;
        page::pages(&self.bytes).nth(at).filter(|_| readable)
    }

    fn fill(&mut self, number: u64, bytes: &[u8]) {
        let at = (number - self.first) as usize;
        for (into, page) in page::pages(bytes).enumerate() {
            let start = (at + into) * PAGE_BYTES;
            self.bytes[start..start + PAGE_BYTES].copy_from_slice(page);
            self.readable[at + into] = true;
        }
    }
}

/// Returns both copies of a page as read: the second copy only if it was read.
pub(super) fn copies_of<'a>(number: u64, first: &'a Chunk, second: Option<&'a Chunk>) -> [Option<&'a Page>; 2] {
    [first.page(number), second.and_then(|second| second.page(number))]
}

fn purpose(number: u64, copy: usize) -> u64 {
    number << 1 | copy as u64
}

impl<P: Payload> Recovery<P> {
    /// Reads the pages of a copy that lie in `range`. The first page has the number `first`.
    pub(super) fn read_chunk(&mut self, member: MemberId, range: SectorRange, first: u64, copy: usize) {
        let count = (range.len.0 / PAGE_SECTORS) as usize;
        let chunk = Chunk { first, copy, bytes: vec![0; count * PAGE_BYTES], readable: vec![false; count], waiting: 1 };
        self.chunks.open.insert((first, copy), chunk);
        self.read(member, range, purpose(first, copy));
    }

    /// Takes the completed read of a part of a chunk. Returns the chunk once all of it was read or
    /// found unreadable.
    pub(super) fn take_chunk(&mut self, answer: &Answer<P>) -> Option<Chunk> {
        let (number, copy) = (answer.purpose >> 1, (answer.purpose & 1) as usize);
        let mut before = self.chunks.open.range_mut(..=(number, copy)).rev();
        let (&key, chunk) = before.find(|((_, of), chunk)| *of == copy && number < chunk.end())?;
        let count = answer.range.len.0 / PAGE_SECTORS;
        match &answer.payload {
            Some(payload) => chunk.fill(number, &payload.to_metadata()),
            None if count > 1 => {
                chunk.waiting += count as usize - 1;
                for into in 0..count {
                    let start = answer.range.start.0 + into * PAGE_SECTORS;
                    self.read(answer.member, SectorRange::new(start, PAGE_SECTORS), purpose(number + into, copy));
                }
                return None;
            }
            None => {}
        }
        chunk.waiting -= 1;
        if chunk.waiting > 0 { None } else { self.chunks.open.remove(&key) }
    }
}
