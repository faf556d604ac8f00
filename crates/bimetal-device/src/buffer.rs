//! Payload of real drives: a scatter list of slices of shared, aligned memory. Cutting and joining
//! a payload copies no bytes.
//!
//! Small regions are runs of pages in chunks (`memory.rs`). Larger regions are mappings of their
//! own and are kept for their next use, so that serving maps nothing in the steady state. Every
//! region is aligned to [`ALIGNMENT`], as direct I/O requires. Zeroes are slices of one region that
//! is never written.

#![allow(unsafe_code, reason = "aligned memory shared with the kernel")]

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bimetal_core::payload::Payload;
use bimetal_core::units::{SECTOR_BYTES, Sectors};

use crate::memory;

pub(crate) mod arena;

/// Alignment of every region of memory.
pub const ALIGNMENT: usize = memory::PAGE_BYTES;

/// Largest region that is kept for its next use; larger regions are returned to the system at once.
/// The size of a region that is kept is a power of two, so that a buffer of about the same length
/// can use the region. Runs in chunks are not kept: one page in use keeps its whole chunk resident,
/// and a new run needs no call of the system.
const KEPT_REGION_BYTES_MAX: usize = 4 << 20;
/// Maximum of bytes in regions that are kept: eight requests of 1 MiB have room. If more were in
/// use at once a short time ago, more are kept, up to [`KEPT_BYTES_MAX`].
const KEPT_BYTES: usize = 8 << 20;
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Number of regions given back in which the recent maximum falls to about a third.
const RECENT_REGIONS: usize = 256;
/// Size of the region of zeroes. Memory of at least this size is a mapping of its own, whose bytes
/// are zero.
const ZERO_BYTES: usize = 1 << 20;
const _: () = assert!(ZERO_BYTES > memory::CHUNK_BYTES);

/// Aligned memory. The memory is always initialised: by the system with zeroes, or with old
/// content.
struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region owns its memory, as a box does.
unsafe impl Send for Region {}
// SAFETY: each byte of a region is either in one `Filling`, which alone reads and writes the byte,
// or is only read.
unsafe impl Sync for Region {}

impl Region {
    fn new(bytes: usize) -> Self {
        assert!(bytes > 0 && bytes.is_multiple_of(ALIGNMENT), "a region has whole pages");
        Self { start: memory::take(bytes / ALIGNMENT), bytes }
    }

    /// Returns the address of `len` bytes from `start` on.
    ///
    /// # Panics
    ///
    /// Panics if the bytes are not within the region.
    fn part(&self, start: u32, len: u32) -> *mut u8 {
        assert!(start as usize + len as usize <= self.bytes, "{len} bytes from {start} on of {}", self.bytes);
        // SAFETY: the bytes are within the region.
        unsafe { self.start.as_ptr().add(start as usize) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: taken in `new`, and given back once.
        unsafe { memory::give_back(self.start, self.bytes / ALIGNMENT) }
    }
}

/// Unused regions that are mappings of their own.
static KEPT: Mutex<Kept> = Mutex::new(Kept::NONE);

/// Regions that wait for their next use, in the order in which they were given back.
struct Kept {
    regions: VecDeque<Region>,
    /// Size of the regions together.
    bytes: usize,
    /// Size of the regions in use together.
    used: usize,
    /// Recent maximum of `used`, at most [`KEPT_BYTES_MAX`]. So a client with sixteen requests of 1
    /// MiB under way hardly maps a region anew.
    recent: usize,
}

impl Kept {
    const NONE: Self = Self { regions: VecDeque::new(), bytes: 0, used: 0, recent: 0 };

    /// Takes the region of `bytes` bytes that was given back last.
    fn take(&mut self, bytes: usize) -> Option<Region> {
        self.used += bytes;
        self.recent = self.recent.max(self.used.min(KEPT_BYTES_MAX));
        let at = self.regions.iter().rposition(|region| region.bytes == bytes)?;
        self.bytes -= bytes;
        self.regions.remove(at)
    }

    /// Keeps a region that was in use. Regions that have waited longest are returned to the system.
    fn keep(&mut self, region: Region) {
        self.used -= region.bytes;
        self.recent -= self.recent.saturating_sub(self.used) / RECENT_REGIONS;
        self.bytes += region.bytes;
        self.regions.push_back(region);
        while self.bytes > KEPT_BYTES.max(self.recent.saturating_sub(self.used))
            && let Some(oldest) = self.regions.pop_front()
        {
            self.bytes -= oldest.bytes;
        }
    }
}

/// Returns true if a region of `bytes` bytes, or the region for a buffer of `bytes` bytes, is kept
/// for its next use.
fn is_kept(bytes: usize) -> bool {
    (memory::CHUNK_BYTES + 1..=KEPT_REGION_BYTES_MAX).contains(&bytes)
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_region(bytes: usize) -> Arc<Region> {
    if !is_kept(bytes) {
        return Arc::new(Region::new(bytes.max(1).next_multiple_of(ALIGNMENT)));
    }
    let bytes = bytes.next_power_of_two();
    let used_before = kept().take(bytes);
    Arc::new(used_before.unwrap_or_else(|| Region::new(bytes)))
}

/// Gives a region back when its last user has dropped it. A region whose length is not a power of
/// two was made for one buffer.
fn give_back(region: Arc<Region>) {
    if let Some(region) = Arc::into_inner(region)
        && is_kept(region.bytes)
        && region.bytes.is_power_of_two()
    {
        kept().keep(region);
    }
}

/// Memory with one owner, to be filled by a socket or by a drive.
///
/// Bytes that are not filled yet have old content of the memory, so only filled bytes may be passed
/// on.
pub struct Filling {
    region: ManuallyDrop<Arc<Region>>,
    start: u32,
    len: u32,
    /// Number of the region among those of a drive, if the memory is a part of such a region.
    arena: Option<u16>,
}

impl Filling {
    /// Takes memory for `len` bytes.
    ///
    /// # Panics
    ///
    /// Panics if `len` is 4 GiB or more: requests and operations are smaller.
    pub fn new(len: usize) -> Self {
        Self::whole(take_region(len), len)
    }

    fn whole(region: Arc<Region>, len: usize) -> Self {
        let len = u32::try_from(len).expect("a buffer is smaller than 4 GiB");
        Self { region: ManuallyDrop::new(region), start: 0, len, arena: None }
    }

    /// Returns a buffer of `len` bytes that is kept for a long time. The buffer takes `len` bytes
    /// of memory and no more; the region of another buffer may be twice as large.
    fn to_stay(len: usize) -> Self {
        let bytes = len.max(1).next_multiple_of(ALIGNMENT);
        let is_kept = is_kept(bytes) && bytes.is_power_of_two();
        Self::whole(if is_kept { take_region(bytes) } else { Arc::new(Region::new(bytes)) }, len)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.region.part(self.start, self.len);
        // SAFETY: the bytes are initialised. A region is either in one `Filling`, or is cut into
        // `Filling`s that do not overlap, and no `Slice` of these bytes exists yet.
        unsafe { std::slice::from_raw_parts_mut(start, self.len()) }
    }

    /// Returns the number of the region among those of a drive, if the memory is a part of such a
    /// region.
    pub(crate) fn arena(&self) -> Option<u16> {
        self.arena
    }

    /// Returns the filled bytes as a slice, shared from now on.
    pub fn share(self) -> Slice {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the region is taken once.
        let region = unsafe { ManuallyDrop::take(&mut this.region) };
        Slice { region: ManuallyDrop::new(region), start: this.start, len: this.len }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        // SAFETY: taken once, here, where `self` ends.
        give_back(unsafe { ManuallyDrop::take(&mut self.region) });
    }
}

/// Part of a shared region.
pub struct Slice {
    region: ManuallyDrop<Arc<Region>>,
    start: u32,
    len: u32,
}

impl Slice {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        let start = self.region.part(self.start, self.len);
        // SAFETY: the bytes are initialised, and nothing writes to bytes that are in a slice.
        unsafe { std::slice::from_raw_parts(start, self.len as usize) }
    }

    /// Returns true if `next` begins in memory at the end of this slice.
    fn is_followed_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.region, &next.region) && self.start + self.len == next.start
    }

    /// Returns `len` bytes from `start` on. The range must be within the slice.
    pub fn part(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len as usize, "{len} bytes from {start} on of {}", self.len);
        Self { region: self.region.clone(), start: self.start + start as u32, len: len as u32 }
    }
}

impl Clone for Slice {
    fn clone(&self) -> Self {
        Self { region: self.region.clone(), ..*self }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        // SAFETY: taken once, here, where `self` ends.
        give_back(unsafe { ManuallyDrop::take(&mut self.region) });
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// Returns zeroes, at most [`ZERO_BYTES`].
fn zero_slice(len: usize) -> Slice {
    static ZEROES: OnceLock<Arc<Region>> = OnceLock::new();
    let region = ZEROES.get_or_init(|| Arc::new(Region::new(ZERO_BYTES))).clone();
    Slice { region: ManuallyDrop::new(region), start: 0, len: len as u32 }
}

/// Content of a range of sectors: a scatter list.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    parts: Parts,
    bytes: u64,
}

/// Parts of a scatter list. A payload almost always has one part, which needs no list.
#[derive(Clone, Debug, Default)]
enum Parts {
    #[default]
    None,
    One(Slice),
    Many(Vec<Slice>),
}

impl Buffers {
    /// Returns the parts in order.
    pub fn parts(&self) -> &[Slice] {
        match &self.parts {
            Parts::None => &[],
            Parts::One(slice) => std::slice::from_ref(slice),
            Parts::Many(slices) => slices,
        }
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a slice. An empty slice adds no part, and a slice that follows the last part in
    /// memory extends this part.
    pub fn push(&mut self, slice: Slice) {
        if slice.len == 0 {
            return;
        }
        self.bytes += u64::from(slice.len);
        if let Some(last) = self.last_part()
            && last.is_followed_by(&slice)
        {
            last.len += slice.len;
            return;
        }
        self.parts = match std::mem::take(&mut self.parts) {
            Parts::None => Parts::One(slice),
            Parts::One(first) => Parts::Many(vec![first, slice]),
            Parts::Many(mut slices) => {
                slices.push(slice);
                Parts::Many(slices)
            }
        };
    }

    fn last_part(&mut self) -> Option<&mut Slice> {
        match &mut self.parts {
            Parts::None => None,
            Parts::One(slice) => Some(slice),
            Parts::Many(slices) => slices.last_mut(),
        }
    }

    /// Copies everything into `target`, which must have the same length.
    pub fn copy_to(&self, target: &mut [u8]) {
        assert_eq!(target.len() as u64, self.bytes, "the target is as long as what it is to hold");
        let mut at = 0;
        for part in self.parts() {
            target[at..at + part.bytes().len()].copy_from_slice(part.bytes());
            at += part.bytes().len();
        }
    }

    fn copied_from(bytes: &[u8]) -> Self {
        let mut filling = Filling::new(bytes.len());
        filling.bytes_mut().copy_from_slice(bytes);
        Self::from(filling.share())
    }
}

impl From<Slice> for Buffers {
    fn from(slice: Slice) -> Self {
        let mut buffers = Self::default();
        buffers.push(slice);
        buffers
    }
}

impl PartialEq for Buffers {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |buffers: &Self| buffers.parts().iter().flat_map(Slice::bytes).copied().collect::<Vec<u8>>();
        self.bytes == other.bytes && bytes(self) == bytes(other)
    }
}

impl Eq for Buffers {}

impl Payload for Buffers {
    const CARRIES_DATA: bool = true;

    fn empty() -> Self {
        Self::default()
    }

    fn zeroes(len: Sectors) -> Self {
        let mut buffers = Self::default();
        let mut left = len.bytes().0;
        while left > 0 {
            let part = left.min(ZERO_BYTES as u64);
            buffers.push(zero_slice(part as usize));
            left -= part;
        }
        buffers
    }

    fn slice(&self, start: Sectors, len: Sectors) -> Self {
        let (mut skip, mut left) = (start.bytes().0, len.bytes().0);
        assert!(skip + left <= self.bytes, "{len:?} from {start:?} on of {} bytes", self.bytes);
        let mut buffers = Self::default();
        for part in self.parts() {
            let part_bytes = u64::from(part.len);
            if left == 0 {
                break;
            } else if skip >= part_bytes {
                skip -= part_bytes;
                continue;
            }
            let taken = left.min(part_bytes - skip);
            buffers.push(part.part(skip as usize, taken as usize));
            left -= taken;
            skip = 0;
        }
        buffers
    }

    fn detached(self) -> Self {
        if let Parts::One(slice) = &self.parts
            && slice.region.bytes == slice.len as usize
        {
            return self;
        }
        let mut filling = Filling::to_stay(self.bytes as usize);
        self.copy_to(filling.bytes_mut());
        Self::from(filling.share())
    }

    fn join(&mut self, tail: Self) {
        match tail.parts {
            Parts::None => {}
            Parts::One(slice) => self.push(slice),
            Parts::Many(slices) => slices.into_iter().for_each(|slice| self.push(slice)),
        }
    }

    fn sectors(&self) -> Sectors {
        debug_assert!(self.bytes.is_multiple_of(SECTOR_BYTES), "{} bytes are no whole sectors", self.bytes);
        Sectors(self.bytes / SECTOR_BYTES)
    }

    fn checksum(&self) -> u32 {
        self.parts().iter().fold(0, |before, part| crc32c::crc32c_append(before, part.bytes()))
    }

    fn from_metadata(bytes: &[u8]) -> Self {
        assert!(bytes.len().is_multiple_of(SECTOR_BYTES as usize), "{} bytes are no whole sectors", bytes.len());
        Self::copied_from(bytes)
    }

    fn to_metadata(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes as usize];
        self.copy_to(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(sectors: u8) -> Buffers {
        let bytes: Vec<u8> = (0..sectors).flat_map(|sector| [sector; SECTOR_BYTES as usize]).collect();
        Buffers::from_metadata(&bytes)
    }

    #[test]
    fn cut_and_rejoined_payload_keeps_content_and_checksum() {
        let mut whole = numbered(10);
        whole.join(Buffers::zeroes(Sectors(4)));
        whole.join(numbered(2));
        for cut in 0..=16 {
            let mut joined = whole.slice(Sectors(0), Sectors(cut));
            joined.join(whole.slice(Sectors(cut), Sectors(16 - cut)));
            assert_eq!(joined, whole);
            assert_eq!(joined.checksum(), whole.checksum());
        }
        let middle = whole.slice(Sectors(9), Sectors(2));
        assert_eq!(middle.parts().len(), 2);
        assert_eq!(middle.parts()[0].bytes(), [9; 512]);
        assert_eq!(middle.parts()[1].bytes(), [0; 512]);
    }

    /// Content of 320 KiB is read into a region of 512 KiB. A migration that kept such memory after
    /// its reads had ended had up to twice its bound.
    #[test]
    fn detached_content_has_no_more_memory_than_it_needs() {
        let filled = |bytes: usize| Buffers::from(Filling::new(bytes).share());
        let region = |buffers: &Buffers| (buffers.parts()[0].region.bytes, buffers.parts()[0].bytes().as_ptr());
        let (five, eight) = (filled(5 << 16), filled(8 << 16));
        assert_eq!((region(&five).0, region(&eight).0), (8 << 16, 8 << 16));
        let of_eight = region(&eight);
        assert_eq!(region(&five.detached()).0, 5 << 16);
        assert_eq!(region(&eight.detached()), of_eight, "nothing is copied");
        assert_eq!(region(&filled(8 << 16).slice(Sectors(0), Sectors(8)).detached()).0, 1 << 12);
        assert_eq!(region(&filled(5 << 12)).0, 5 << 12, "a run in a chunk has no more pages than it needs");
    }

    #[test]
    fn cutting_copies_nothing() {
        let whole = numbered(8);
        let part = whole.slice(Sectors(3), Sectors(1));
        assert_eq!(part.parts()[0].bytes().as_ptr(), whole.parts()[0].bytes()[3 * 512..].as_ptr());
    }

    /// A migration keeps a third of the content that it reads, in memory of exactly that length.
    /// The next user of 16 KiB must not get these 12 KiB.
    #[test]
    fn detached_content_takes_no_more_than_its_length() {
        let mut spread = numbered(40).slice(Sectors(0), Sectors(8));
        spread.join(numbered(40).slice(Sectors(16), Sectors(16)));
        let detached = spread.clone().detached();
        assert_eq!(detached, spread);
        let region = |buffers: &Buffers| buffers.parts()[0].region.bytes;
        assert_eq!((detached.parts().len(), region(&detached)), (1, 12 << 10));
        drop(detached);
        assert_eq!(Filling::new(16 << 10).bytes_mut().len(), 16 << 10);
        assert_eq!(region(&numbered(1).detached()), 4096);
    }

    #[test]
    fn what_was_cut_out_of_one_memory_is_one_part_again() {
        let whole = numbered(8);
        let mut joined = whole.slice(Sectors(0), Sectors(3));
        joined.join(whole.slice(Sectors(3), Sectors(5)));
        assert_eq!(joined.parts().len(), 1);
        joined.join(whole.slice(Sectors(0), Sectors(1)));
        assert_eq!(joined.parts().len(), 2, "that does not go on where the last one ended");
    }

    #[test]
    fn every_buffer_is_aligned_as_direct_io_wants_it() {
        for len in [1, 512, 4096, 5000, 1 << 20, 33 << 20] {
            let mut filling = Filling::new(len);
            assert_eq!(filling.bytes_mut().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(filling.bytes_mut().len(), len);
        }
    }

    /// Regression: sixteen MiB of each of four sizes were kept, and up to 32 MiB of the largest.
    #[test]
    fn kept_regions_have_one_bound_for_all_sizes() {
        let mut kept = Kept::NONE;
        for bytes in [4 << 20, 2 << 20, 512 << 10, 1 << 20, 4 << 20, 512 << 10, 2 << 20] {
            (kept.used, kept.recent) = (bytes, bytes);
            kept.keep(Region::new(bytes));
            assert_eq!(kept.bytes, kept.regions.iter().map(|region| region.bytes).sum::<usize>());
            assert!(kept.bytes <= KEPT_BYTES, "{} bytes", kept.bytes);
        }
        let sizes = |kept: &Kept| kept.regions.iter().map(|region| region.bytes >> 10).collect::<Vec<_>>();
        assert_eq!(sizes(&kept), [512, 1024, 4096, 512, 2048], "what waited longest went first");
        assert_eq!(kept.take(4 << 20).map(|region| region.bytes), Some(4 << 20));
        assert!(kept.take(256 << 10).is_none());
        assert_eq!((sizes(&kept), kept.bytes >> 10), (vec![512, 1024, 512, 2048], 4096));
    }

    /// Regression: with a fixed bound, each request of 1 MiB at depth 16 mapped its memory anew and
    /// took twice the processor time.
    #[test]
    fn as_many_regions_are_kept_as_were_in_use_recently() {
        let mut kept = Kept::NONE;
        // Returns the number of new regions for `depth` requests under way at once.
        let mut requests = |depth: usize| {
            let taken: Vec<_> = (0..depth).map(|_| kept.take(1 << 20)).collect();
            let new = taken.iter().filter(|region| region.is_none()).count();
            taken.into_iter().for_each(|region| kept.keep(region.unwrap_or_else(|| Region::new(1 << 20))));
            (new, kept.bytes >> 20)
        };
        assert_eq!(requests(16).0, 16);
        let news: usize = (0..100).map(|_| requests(16).0).sum();
        assert!(news <= 160, "{news} of 1600 regions are new");
        assert_eq!(requests(60).1, 15, "the content of a migration is not kept");
        let (_, kept) = (0..5000).map(|_| requests(1)).last().unwrap();
        assert_eq!(kept, 8, "MiB are kept");
    }

    /// Memory is used again only once no buffer holds a part of it.
    #[test]
    fn memory_is_kept_for_its_next_use_after_its_last_part() {
        // A size that no other test uses, so that only this test takes regions of this size.
        let len = 2 << 20;
        let mut filling = Filling::new(len);
        let address = filling.bytes_mut().as_ptr();
        let whole = Buffers::from(filling.share());
        let part = whole.slice(Sectors(1), Sectors(1));
        drop(whole);
        assert_ne!(Filling::new(len).bytes_mut().as_ptr(), address);
        drop(part);
        let mut both = [Filling::new(len), Filling::new(len)];
        assert!(both.iter_mut().any(|filling| filling.bytes_mut().as_ptr() == address));
    }

    #[test]
    fn many_zeroes_share_one_region() {
        let zeroes = Buffers::zeroes(Sectors(10_000));
        assert_eq!(zeroes.sectors(), Sectors(10_000));
        assert!(zeroes.parts().iter().all(|part| part.bytes().iter().all(|&byte| byte == 0)));
        assert_eq!(zeroes.parts()[0].bytes().as_ptr(), zeroes.parts()[1].bytes().as_ptr());
    }
}
