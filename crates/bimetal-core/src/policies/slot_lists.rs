//! Doubly linked lists of slots, each slot in at most one list. Most replacement policies are built
//! from doubly linked lists.
//!
//! A list has a newest and an oldest end; every step is O(1).

use crate::block_map::Slot;

/// Resident bytes for each slot: two links and the number of its list.
pub(super) const BYTES_PER_SLOT: f64 = 9.0;

const NONE: u32 = u32::MAX;
/// Entry of `lists` for a slot that is in no list.
const NOWHERE: u8 = 0;

/// `N` lists over slots.
pub(super) struct SlotLists<const N: usize> {
    older: Vec<u32>,
    newer: Vec<u32>,
    /// For each slot, the number of its list plus one; 0: the slot is in no list.
    lists: Vec<u8>,
    ends: [Ends; N],
}

#[derive(Clone, Copy)]
struct Ends {
    oldest: u32,
    newest: u32,
    len: u32,
}

impl<const N: usize> SlotLists<N> {
    /// Returns `N` empty lists over `slots` slots.
    pub(super) fn new(slots: u32) -> Self {
        let slots = slots as usize;
        let ends = [Ends { oldest: NONE, newest: NONE, len: 0 }; N];
        Self { older: vec![0; slots], newer: vec![0; slots], lists: vec![NOWHERE; slots], ends }
    }

    /// Returns the number of slots in `list`.
    #[inline]
    pub(super) fn len(&self, list: usize) -> u32 {
        self.ends[list].len
    }

    /// Returns the list that holds `slot`.
    #[inline]
    pub(super) fn list_of(&self, slot: Slot) -> Option<usize> {
        (self.lists[slot.0 as usize] as usize).checked_sub(1)
    }

    /// Returns the oldest slot of `list`.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<Slot> {
        some(self.ends[list].oldest)
    }

    /// Returns the newest slot of `list`.
    #[inline]
    pub(super) fn newest(&self, list: usize) -> Option<Slot> {
        some(self.ends[list].newest)
    }

    /// Returns the neighbour of `slot` towards the newest end of its list.
    #[inline]
    pub(super) fn newer(&self, slot: Slot) -> Option<Slot> {
        some(self.newer[slot.0 as usize])
    }

    /// Puts `slot`, which is in no list, at the newest end of `list`.
    pub(super) fn push(&mut self, list: usize, slot: Slot) {
        debug_assert!(self.list_of(slot).is_none(), "slot {} is in a list already", slot.0);
        let newest = self.ends[list].newest;
        self.older[slot.0 as usize] = newest;
        self.newer[slot.0 as usize] = NONE;
        match newest {
            NONE => self.ends[list].oldest = slot.0,
            newest => self.newer[newest as usize] = slot.0,
        }
        self.ends[list].newest = slot.0;
        self.ends[list].len += 1;
        self.lists[slot.0 as usize] = list as u8 + 1;
    }

    /// Takes `slot` out of its list, and returns the list.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<usize> {
        let list = self.list_of(slot)?;
        let (older, newer) = (self.older[slot.0 as usize], self.newer[slot.0 as usize]);
        match older {
            NONE => self.ends[list].oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => self.ends[list].newest = older,
            newer => self.older[newer as usize] = older,
        }
        self.ends[list].len -= 1;
        self.lists[slot.0 as usize] = NOWHERE;
        Some(list)
    }

    /// Moves `slot` to the newest end of `list`, regardless of its present list.
    #[inline]
    pub(super) fn refresh(&mut self, list: usize, slot: Slot) {
        if self.ends[list].newest != slot.0 || self.list_of(slot) != Some(list) {
            self.remove(slot);
            self.push(list, slot);
        }
    }

    /// Puts slot `to` into the position of slot `from`, and takes `from` out of its list.
    pub(super) fn rename(&mut self, from: Slot, to: Slot) {
        let Some(list) = self.list_of(from) else { return };
        debug_assert!(self.list_of(to).is_none(), "slot {} is in a list already", to.0);
        let (older, newer) = (self.older[from.0 as usize], self.newer[from.0 as usize]);
        self.older[to.0 as usize] = older;
        self.newer[to.0 as usize] = newer;
        match older {
            NONE => self.ends[list].oldest = to.0,
            older => self.newer[older as usize] = to.0,
        }
        match newer {
            NONE => self.ends[list].newest = to.0,
            newer => self.older[newer as usize] = to.0,
        }
        self.lists[to.0 as usize] = self.lists[from.0 as usize];
        self.lists[from.0 as usize] = NOWHERE;
    }
}

#[inline]
fn some(slot: u32) -> Option<Slot> {
    (slot != NONE).then_some(Slot(slot))
}
