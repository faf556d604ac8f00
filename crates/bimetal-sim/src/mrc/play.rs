//! Plays a sequence of accesses through a cache of a given number of objects under a policy.

use std::io;

use bimetal_core::block_map::Slot;
use bimetal_core::policies::replacement::{Key, Replacement, Verdict};

use super::column::{BATCH, Column, Room};
use super::reuse::ReuseDistances;
use crate::belady::{Belady, NEVER};

/// Number of accesses whose slots are looked up together, so that their waits for memory overlap.
const LOOKED_UP_TOGETHER: usize = 64;

/// Accesses in order, each with its object and bytes.
#[derive(Default)]
pub struct Accesses {
    objects: Column,
    /// Bytes of each access, unless they are all equal.
    bytes: Column,
    alike: u32,
    /// Number of objects; their numbers are dense.
    object_count: usize,
}

/// Accesses that follow each other.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    objects: &'a [u32],
    bytes: &'a [u32],
    alike: u32,
}

impl Batch<'_> {
    #[inline]
    fn bytes(&self, at: usize) -> u64 {
        u64::from(self.bytes.get(at).copied().unwrap_or(self.alike))
    }

    /// Returns the accesses in order: the object of each, and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.objects.iter().enumerate().map(|(at, &object)| (object, self.bytes(at)))
    }
}

impl Accesses {
    /// Adds an access. Bytes beyond 4 GiB are counted as 4 GiB.
    ///
    /// # Errors
    /// As [`Column::push`].
    #[inline]
    pub fn push(&mut self, object: u32, bytes: u64) -> io::Result<()> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.objects.is_empty() {
            self.alike = bytes;
        }
        if !self.bytes.is_empty() || bytes != self.alike {
            while self.bytes.len() < self.objects.len() {
                self.bytes.push(self.alike)?;
            }
            self.bytes.push(bytes)?;
        }
        self.object_count = self.object_count.max(object as usize + 1);
        self.objects.push(object)
    }

    /// Returns the number of objects; their numbers are dense.
    pub fn object_count(&self) -> usize {
        self.object_count
    }

    /// Calls `each` with one batch of accesses after another, and the number of the batch.
    ///
    /// # Errors
    /// Returns an error of `each`, or of reading a [`Column`].
    pub fn each_batch(&self, mut each: impl FnMut(usize, Batch<'_>) -> io::Result<()>) -> io::Result<()> {
        let (mut room, mut room_of_bytes) = (Room::default(), Room::default());
        for number in 0..self.objects.batch_count() {
            let objects = self.objects.batch(number, &mut room)?;
            let bytes = if self.bytes.is_empty() { &[][..] } else { self.bytes.batch(number, &mut room_of_bytes)? };
            each(number, Batch { objects, bytes, alike: self.alike })?;
        }
        Ok(())
    }

    /// Returns the reuse distance of each access.
    ///
    /// # Errors
    /// As [`each_batch`](Self::each_batch).
    pub fn distances(&self) -> io::Result<Column> {
        let (mut reuse, mut distances) = (ReuseDistances::default(), Column::default());
        self.each_batch(|_, batch| batch.objects.iter().try_for_each(|&object| distances.push(reuse.access(object))))?;
        Ok(distances)
    }

    /// Returns the number of accesses from each access to the next access to its object. The number
    /// is [`u32::MAX`] if there is none, or if it is not smaller.
    ///
    /// # Errors
    /// A temporary file cannot be read or written.
    pub fn next_uses(&self) -> io::Result<Column> {
        let mut next_of = vec![u64::MAX; self.object_count];
        let mut at = self.objects.len() as u64;
        self.objects.mapped_backwards(|objects| {
            for object in objects.iter_mut().rev() {
                at -= 1;
                let next = std::mem::replace(&mut next_of[*object as usize], at);
                *object = u32::try_from(next - at).unwrap_or(NONE);
            }
        })
    }
}

const NONE: u32 = u32::MAX;

/// Plays `accesses` through a cache of `size` objects. Calls `miss` for each access that misses,
/// with the number of the object and the number of bytes accessed.
///
/// # Errors
/// As [`Accesses::each_batch`].
pub fn play<P: Replacement + ?Sized>(
    policy: &mut P,
    accesses: &Accesses,
    size: u32,
    mut miss: impl FnMut(u32, u64),
) -> io::Result<()> {
    let mut cache = Cache::new(accesses, size);
    accesses.each_batch(|_, batch| {
        cache.play(policy, batch, |_, _| (), &mut miss);
        Ok(())
    })
}

/// Plays `accesses` under Belady's MIN, with their [next uses](Accesses::next_uses).
///
/// # Errors
/// As [`Accesses::each_batch`].
pub fn play_belady(
    accesses: &Accesses,
    next_uses: &Column,
    size: u32,
    mut miss: impl FnMut(u32, u64),
) -> io::Result<()> {
    let (mut policy, mut cache, mut room) = (Belady::new(size), Cache::new(accesses, size), Room::default());
    accesses.each_batch(|number, batch| {
        let next_uses = next_uses.batch(number, &mut room)?;
        let start = (number * BATCH) as u64;
        let foresee = |policy: &mut Belady, at: usize| {
            let next = next_uses[at];
            policy.foresee(if next == NONE { NEVER } else { start + at as u64 + u64::from(next) });
        };
        cache.play(&mut policy, batch, foresee, &mut miss);
        Ok(())
    })
}

/// Objects in the slots of a cache.
struct Cache {
    /// Slot of each object, or [`NONE`].
    slots: Vec<u32>,
    /// Object in each slot that was used so far.
    holds: Vec<u32>,
    size: usize,
}

impl Cache {
    fn new(accesses: &Accesses, size: u32) -> Self {
        let (objects, size) = (accesses.object_count(), size as usize);
        Self { slots: vec![NONE; objects], holds: Vec::with_capacity(objects.min(size)), size }
    }

    /// Plays a batch. Calls `before` with the place of each access in the batch, and `miss` for
    /// each access that misses.
    fn play<P: Replacement + ?Sized>(
        &mut self,
        policy: &mut P,
        batch: Batch<'_>,
        mut before: impl FnMut(&mut P, usize),
        mut miss: impl FnMut(u32, u64),
    ) {
        for (part, objects) in batch.objects.chunks(LOOKED_UP_TOGETHER).enumerate() {
            self.fetch(objects);
            for (at, &object) in objects.iter().enumerate() {
                let at = part * LOOKED_UP_TOGETHER + at;
                before(policy, at);
                match self.slots[object as usize] {
                    NONE => {
                        miss(object, batch.bytes(at));
                        self.insert(policy, object);
                    }
                    slot => policy.touch(Slot(slot)),
                }
            }
        }
    }

    /// Loads the slots of `objects`, all at once instead of one after the other.
    fn fetch(&self, objects: &[u32]) {
        std::hint::black_box(objects.iter().fold(0, |all, &object| all ^ self.slots[object as usize]));
    }

    #[inline]
    fn insert<P: Replacement + ?Sized>(&mut self, policy: &mut P, object: u32) {
        policy.expect(Key(object));
        let slot = if self.holds.len() < self.size {
            self.holds.push(object);
            self.holds.len() as u32 - 1
        } else {
            let slot = victim(policy);
            let gone = std::mem::replace(&mut self.holds[slot as usize], object);
            self.slots[gone as usize] = NONE;
            slot
        };
        self.slots[object as usize] = slot;
        policy.insert(Slot(slot), Key(object));
    }
}

fn victim<P: Replacement + ?Sized>(policy: &mut P) -> u32 {
    let mut taken = None;
    policy.evict(&mut |slot| {
        taken = Some(slot.0);
        Verdict::TAKE_AND_STOP
    });
    taken.expect("a policy that holds slots offers one")
}
