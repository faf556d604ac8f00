//! Reuse distances: how many other objects were accessed since an object's last access. An LRU cache of `n` objects hits
//! exactly where that is below `n` (Mattson, Gecsei, Slutz, Traiger: *Evaluation Techniques for Storage Hierarchies*, 1970), so
//! one pass gives the exact curve of all sizes.
//!
//! Each object has one mark, at the time of its last access; the distance is the number of later marks, counted by a Fenwick tree
//! over cache lines of bits. When time reaches the end of the bits, the marks are closed up: memory follows the objects, not
//! the length of the trace.

/// "Not accessed before": a miss in a cache of any size.
pub const FIRST: u32 = u32::MAX;

/// Bits counted by one node of the tree: a cache line.
const LINE_BITS: u32 = 512;
const LINE_WORDS: usize = (LINE_BITS / 64) as usize;

/// The last accesses of all objects.
pub struct ReuseDistances {
    /// For each object the time of its last access, or [`FIRST`].
    last: Vec<u32>,
    marks: Vec<u64>,
    /// Sums of marks by line, as a Fenwick tree (from index 1).
    sums: Vec<u32>,
    now: u32,
    live: u32,
}

impl Default for ReuseDistances {
    fn default() -> Self {
        let mut new = Self { last: Vec::new(), marks: Vec::new(), sums: Vec::new(), now: 0, live: 0 };
        new.close_up();
        new
    }
}

impl ReuseDistances {
    /// Notes an access to `object` (numbers are dense) and gives its reuse distance, or [`FIRST`].
    #[inline]
    pub fn access(&mut self, object: u32) -> u32 {
        if self.now as usize == self.marks.len() * 64 {
            self.close_up();
        }
        if object as usize >= self.last.len() {
            self.last.resize(object as usize + 1, FIRST);
        }
        let last = std::mem::replace(&mut self.last[object as usize], self.now);
        let distance = if last == FIRST {
            self.live += 1;
            FIRST
        } else {
            let distance = self.live - self.rank(last);
            self.marks[last as usize / 64] &= !(1 << (last % 64));
            // A mark that moves within its line, as those of the most recent do, changes no sum.
            if last / LINE_BITS == self.now / LINE_BITS {
                self.marks[self.now as usize / 64] |= 1 << (self.now % 64);
                self.now += 1;
                return distance;
            }
            self.add(last, u32::MAX);
            distance
        };
        self.marks[self.now as usize / 64] |= 1 << (self.now % 64);
        self.add(self.now, 1);
        self.now += 1;
        distance
    }

    /// How many marks there are up to `time`, itself included.
    #[inline]
    fn rank(&self, time: u32) -> u32 {
        let mut node = (time / LINE_BITS) as usize;
        let mut sum = 0u32;
        while node > 0 {
            sum = sum.wrapping_add(self.sums[node]);
            node &= node - 1;
        }
        sum + self.rank_in_line(time)
    }

    #[inline]
    fn rank_in_line(&self, time: u32) -> u32 {
        let word = time as usize / 64;
        let line = word / LINE_WORDS * LINE_WORDS;
        let before: u32 = self.marks[line..word].iter().map(|word| word.count_ones()).sum();
        before + (self.marks[word] & (u64::MAX >> (63 - time % 64))).count_ones()
    }

    #[inline]
    fn add(&mut self, time: u32, difference: u32) {
        let mut node = (time / LINE_BITS) as usize + 1;
        while node < self.sums.len() {
            self.sums[node] = self.sums[node].wrapping_add(difference);
            node += node & node.wrapping_neg();
        }
    }

    /// Moves all marks to the front, in their order, and makes room for three times as many.
    #[cold]
    fn close_up(&mut self) {
        let mut before = 0;
        let starts: Vec<u32> = self
            .marks
            .chunks(LINE_WORDS)
            .map(|line| {
                let start = before;
                before += line.iter().map(|word| word.count_ones()).sum::<u32>();
                start
            })
            .collect();
        let mut last = std::mem::take(&mut self.last);
        for time in last.iter_mut().filter(|time| **time != FIRST) {
            *time = starts[(*time / LINE_BITS) as usize] + self.rank_in_line(*time) - 1;
        }
        self.last = last;
        let lines = (self.live.saturating_mul(4).max(1 << 16)).div_ceil(LINE_BITS) as usize;
        self.marks.clear();
        self.marks.resize(lines * LINE_WORDS, 0);
        for at in 0..self.live {
            self.marks[at as usize / 64] |= 1 << (at % 64);
        }
        self.sums.clear();
        self.sums.push(0);
        self.sums
            .extend(self.marks.chunks(LINE_WORDS).map(|line| line.iter().map(|word| word.count_ones()).sum::<u32>()));
        for node in 1..self.sums.len() {
            let parent = node + (node & node.wrapping_neg());
            if parent < self.sums.len() {
                self.sums[parent] += self.sums[node];
            }
        }
        self.now = self.live;
    }
}

/// Accesses and their bytes by reuse distance.
#[derive(Default)]
pub struct Histogram {
    by_distance: Vec<(u64, u64)>,
    first: (u64, u64),
}

impl Histogram {
    /// Adds an access.
    #[inline]
    pub fn add(&mut self, distance: u32, bytes: u64) {
        let cell = if distance == FIRST {
            &mut self.first
        } else {
            if distance as usize >= self.by_distance.len() {
                self.by_distance.resize(distance as usize + 1, (0, 0));
            }
            &mut self.by_distance[distance as usize]
        };
        cell.0 += 1;
        cell.1 += bytes;
    }

    /// Accesses and bytes that miss in a cache of `size` objects.
    pub fn misses(&self, size: u32) -> (u64, u64) {
        let beyond = self.by_distance.iter().skip(size as usize);
        beyond.fold(self.first, |sum, cell| (sum.0 + cell.0, sum.1 + cell.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn are_the_distinct_objects_since_the_last_access(objects in proptest::collection::vec(0u32..60, 0..600)) {
            let mut reuse = ReuseDistances::default();
            let mut stack: Vec<u32> = Vec::new();
            for object in objects {
                let expected = stack.iter().rev().position(|&other| other == object);
                prop_assert_eq!(reuse.access(object), expected.map_or(FIRST, |distance| distance as u32));
                stack.retain(|&other| other != object);
                stack.push(object);
            }
        }
    }

    #[test]
    fn closing_up_keeps_the_order() {
        let mut reuse = ReuseDistances::default();
        // Three rounds over more objects than a window has room for.
        for round in 0..3 {
            for object in 0..100_000 {
                assert_eq!(reuse.access(object), if round == 0 { FIRST } else { 99_999 });
            }
        }
        // And a stretch of one object that fills windows alone.
        for at in 0..500_000 {
            assert_eq!(reuse.access(7), if at == 0 { 99_992 } else { 0 });
        }
        assert_eq!(reuse.access(8), 99_992);
    }
}
