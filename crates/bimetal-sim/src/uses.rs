//! Future uses of each block, by the number of the request. A first pass over a workload collects
//! the uses; Belady's MIN needs the uses.

use bimetal_core::block::Key;
use hashbrown::HashTable;

/// A use of a block, and the position of the block's next use.
#[derive(Clone, Copy)]
struct Use {
    request: u32,
    next: u32,
}

/// Chain of a block's uses: the first use that is not known to be over, and the last use.
struct Chain {
    key: u32,
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

/// Uses of all blocks, in order: 8 bytes for each use.
#[derive(Default)]
pub(crate) struct Uses {
    chains: HashTable<Chain>,
    uses: Vec<Use>,
}

fn hash(key: u32) -> u64 {
    let product = (u64::from(key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

impl Uses {
    /// Adds a use of the block `key` by the request with this number (the first request is 0).
    /// Requests must be added in order. Uses after the first 2^32 - 1 are ignored.
    pub(crate) fn add(&mut self, request: u32, key: Key) {
        let Some(at) = u32::try_from(self.uses.len()).ok().filter(|&at| at != NONE) else { return };
        self.uses.push(Use { request, next: NONE });
        match self.chains.find_mut(hash(key.0), |chain| chain.key == key.0) {
            Some(chain) => {
                self.uses[chain.last as usize].next = at;
                chain.last = at;
            }
            None => {
                let chain = Chain { key: key.0, first: at, last: at };
                self.chains.insert_unique(hash(key.0), chain, |chain| hash(chain.key));
            }
        }
    }

    /// Returns the first request from number `from` on that uses the block `key`. `from` must not
    /// be smaller than in the call before.
    pub(crate) fn next(&mut self, key: Key, from: u32) -> Option<u32> {
        let chain = self.chains.find_mut(hash(key.0), |chain| chain.key == key.0)?;
        while let Some(found) = self.uses.get(chain.first as usize) {
            if found.request >= from {
                return Some(found.request);
            }
            chain.first = found.next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_use_is_the_first_that_has_not_passed() {
        let mut uses = Uses::default();
        for (request, key) in [(0, 5), (1, 6), (1, 5), (4, 5), (7, 6)] {
            uses.add(request, Key(key));
        }
        assert_eq!([0, 1, 2, 4, 5].map(|from| uses.next(Key(5), from)), [Some(0), Some(1), Some(4), Some(4), None]);
        assert_eq!([2, 8].map(|from| uses.next(Key(6), from)), [Some(7), None]);
        assert_eq!(uses.next(Key(7), 0), None);
    }
}
