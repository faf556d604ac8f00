//! Plays a sequence of accesses through a cache of a given number of objects under a policy.

use bimetal_core::block_map::Slot;
use bimetal_core::policies::belady::{Belady, NEVER};
use bimetal_core::policies::replacement::{Key, Replacement, Verdict};

use super::reuse::ReuseDistances;

/// Accesses in order, each with its object and bytes.
#[derive(Default)]
pub struct Accesses {
    objects: Vec<u32>,
    /// Bytes of each access, unless they are all equal.
    bytes: Vec<u32>,
    alike: u32,
}

impl Accesses {
    /// Adds an access. Bytes beyond 4 GiB are counted as 4 GiB.
    #[inline]
    pub fn push(&mut self, object: u32, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.objects.is_empty() {
            self.alike = bytes;
        }
        if self.bytes.is_empty() && bytes != self.alike {
            self.bytes = vec![self.alike; self.objects.len()];
            self.bytes.push(bytes);
        } else if !self.bytes.is_empty() {
            self.bytes.push(bytes);
        }
        self.objects.push(object);
    }

    #[inline]
    fn bytes(&self, at: usize) -> u64 {
        u64::from(self.bytes.get(at).copied().unwrap_or(self.alike))
    }

    /// Returns the accesses in order: the object of each, and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.objects.iter().enumerate().map(|(at, &object)| (object, self.bytes(at)))
    }

    /// Returns the number of objects; their numbers are dense.
    pub fn object_count(&self) -> usize {
        self.objects.iter().max().map_or(0, |&most| most as usize + 1)
    }

    /// Returns the reuse distance of each access.
    pub fn distances(&self) -> Vec<u32> {
        let mut reuse = ReuseDistances::default();
        self.objects.iter().map(|&object| reuse.access(object)).collect()
    }
}

const NONE: u32 = u32::MAX;

/// Returns the position of the next access to the object of each access, or [`u32::MAX`].
pub fn next_uses(accesses: &Accesses) -> Vec<u32> {
    let objects = accesses.object_count();
    let mut next_of = vec![NONE; objects];
    let mut next = vec![NONE; accesses.objects.len()];
    for (at, &object) in accesses.objects.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut next_of[object as usize], at as u32);
    }
    next
}

/// Plays `accesses` through a cache of `size` objects. Calls `miss` for each access that misses,
/// with the number of the object and the number of bytes accessed.
pub fn play<P: Replacement + ?Sized>(policy: &mut P, accesses: &Accesses, size: u32, miss: impl FnMut(u32, u64)) {
    play_with(policy, accesses, size, |_, _| (), miss);
}

/// Plays `accesses` under Belady's MIN.
pub fn play_belady(accesses: &Accesses, next_uses: &[u32], size: u32, miss: impl FnMut(u32, u64)) {
    let foresee = |policy: &mut Belady, at: usize| {
        policy.foresee(if next_uses[at] == NONE { NEVER } else { u64::from(next_uses[at]) });
    };
    play_with(&mut Belady::new(size), accesses, size, foresee, miss);
}

fn play_with<P: Replacement + ?Sized>(
    policy: &mut P,
    accesses: &Accesses,
    size: u32,
    mut before: impl FnMut(&mut P, usize),
    mut miss: impl FnMut(u32, u64),
) {
    let objects = accesses.object_count();
    let mut slots = vec![NONE; objects];
    let mut holds: Vec<u32> = Vec::with_capacity(objects.min(size as usize));
    for (at, &object) in accesses.objects.iter().enumerate() {
        before(policy, at);
        if slots[object as usize] != NONE {
            policy.touch(Slot(slots[object as usize]));
            continue;
        }
        miss(object, accesses.bytes(at));
        policy.expect(Key(object));
        let slot = if holds.len() < size as usize {
            holds.push(object);
            holds.len() as u32 - 1
        } else {
            let slot = victim(policy);
            let gone = std::mem::replace(&mut holds[slot as usize], object);
            slots[gone as usize] = NONE;
            slot
        };
        slots[object as usize] = slot;
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
