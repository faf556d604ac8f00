//! Reuse distances: number of other objects accessed since an object's last access. An LRU cache of
//! `n` objects hits exactly if the distance is below `n`, so one pass gives the exact curve of all
//! sizes. (Mattson, Gecsei, Slutz, Traiger: *Evaluation Techniques for Storage Hierarchies*, 1970.)
//!
//! Each object has one mark, at the time of its last access; the distance is the number of later
//! marks, counted by a Fenwick tree over cache lines of bits. When time reaches the end of the
//! bits, the marks are compacted: memory grows with the objects, not with the length of the trace.

/// Distance of an object not accessed before: a miss in a cache of any size.
pub const FIRST: u32 = u32::MAX;

/// Number of bits counted by one node of the tree.
const LINE_BITS: u32 = 512;

/// Bits of one node, which fill one line of the processor's caches.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; (LINE_BITS / 64) as usize]);

impl Line {
    /// Returns the number of marks before the bit `end`.
    #[inline]
    fn marks_before(&self, end: u32) -> u32 {
        // All words are counted for any `end`, so that no branch depends on it.
        let part = |(at, word): (usize, &u64)| {
            let bits = end.saturating_sub(at as u32 * 64);
            let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
            (word & mask).count_ones()
        };
        self.0.iter().enumerate().map(part).sum()
    }

    fn marks(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    #[inline]
    fn flip(&mut self, bit: u32) {
        self.0[(bit / 64) as usize % 8] ^= 1 << (bit % 64);
    }
}

/// Times of the last accesses of all objects.
pub struct ReuseDistances {
    /// Time of the last access for each object, or [`FIRST`].
    last: Vec<u32>,
    marks: Vec<Line>,
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
    /// Records accesses to `objects` in their order, and puts the reuse distance of each into
    /// `distances`.
    pub fn access_all(&mut self, objects: &[u32], distances: &mut Vec<u32>) {
        self.fetch(objects);
        distances.clear();
        distances.extend(objects.iter().map(|&object| self.access(object)));
    }

    /// Loads the memory that accesses to `objects` need, for all of them at once, and not one after
    /// the other.
    fn fetch(&self, objects: &[u32]) {
        let last = objects.iter().filter_map(|&object| self.last.get(object as usize));
        let lines = last.filter_map(|&last| self.marks.get((last / LINE_BITS) as usize));
        std::hint::black_box(lines.fold(0, |all, line| all ^ line.0[0]));
    }

    /// Records an access to `object` (numbers are dense). Returns the reuse distance of the access,
    /// or [`FIRST`].
    #[inline]
    pub fn access(&mut self, object: u32) -> u32 {
        if (self.now / LINE_BITS) as usize == self.marks.len() {
            self.close_up();
        }
        if object as usize >= self.last.len() {
            self.last.resize(object as usize + 1, FIRST);
        }
        let now = self.now;
        self.now += 1;
        let last = std::mem::replace(&mut self.last[object as usize], now);
        self.marks[(now / LINE_BITS) as usize].flip(now % LINE_BITS);
        if last == FIRST {
            self.live += 1;
            self.add(now, 1);
            return FIRST;
        }
        let distance = self.live - self.rank(last);
        self.marks[(last / LINE_BITS) as usize].flip(last % LINE_BITS);
        // A mark that moves within its line, like the marks of the most recent objects, changes no
        // sum.
        if last / LINE_BITS != now / LINE_BITS {
            self.add(last, u32::MAX);
            self.add(now, 1);
        }
        distance
    }

    /// Returns the number of marks up to and including `time`.
    #[inline]
    fn rank(&self, time: u32) -> u32 {
        let mut node = (time / LINE_BITS) as usize;
        let mut sum = self.marks[node].marks_before(time % LINE_BITS + 1);
        while node > 0 {
            sum = sum.wrapping_add(self.sums[node]);
            node &= node - 1;
        }
        sum
    }

    #[inline]
    fn add(&mut self, time: u32, difference: u32) {
        let mut node = (time / LINE_BITS) as usize + 1;
        while node < self.sums.len() {
            self.sums[node] = self.sums[node].wrapping_add(difference);
            node += node & node.wrapping_neg();
        }
    }

    /// Moves all marks to the front, in their order, and makes room for three times as many marks.
    #[cold]
    fn close_up(&mut self) {
        let mut before = 0;
        let starts: Vec<u32> = self
            .marks
            .iter()
            .map(|line| {
                before += line.marks();
                before - line.marks()
            })
            .collect();
        for time in self.last.iter_mut().filter(|time| **time != FIRST) {
            let line = (*time / LINE_BITS) as usize;
            *time = starts[line] + self.marks[line].marks_before(*time % LINE_BITS);
        }
        let lines = (self.live.saturating_mul(4).max(1 << 16)).div_ceil(LINE_BITS) as usize;
        self.marks.clear();
        self.marks.resize(lines, Line::default());
        for at in 0..self.live {
            self.marks[(at / LINE_BITS) as usize].flip(at % LINE_BITS);
        }
        self.sums.clear();
        self.sums.push(0);
        self.sums.extend(self.marks.iter().map(Line::marks));
        for node in 1..self.sums.len() {
            let parent = node + (node & node.wrapping_neg());
            if parent < self.sums.len() {
                self.sums[parent] += self.sums[node];
            }
        }
        self.now = self.live;
    }
}

/// Numbers of accesses and their bytes by reuse distance.
#[derive(Default)]
pub struct Histogram {
    accesses: Vec<u64>,
    /// Bytes by distance, unless the bytes of all accesses are equal.
    bytes: Option<Vec<u64>>,
    alike: u64,
    first: (u64, u64),
}

impl Histogram {
    /// Adds an access.
    #[inline]
    pub fn add(&mut self, distance: u32, bytes: u64) {
        if bytes != self.alike && self.bytes.is_none() {
            self.differ(bytes);
        }
        if distance == FIRST {
            self.first.0 += 1;
            self.first.1 += bytes;
            return;
        }
        let distance = distance as usize;
        if distance >= self.accesses.len() {
            self.accesses.resize(distance + 1, 0);
            if let Some(all) = &mut self.bytes {
                all.resize(distance + 1, 0);
            }
        }
        self.accesses[distance] += 1;
        if let Some(all) = &mut self.bytes {
            all[distance] += bytes;
        }
    }

    /// Handles an access with another size than all earlier accesses, or the first access.
    #[cold]
    fn differ(&mut self, bytes: u64) {
        if self.first.0 == 0 {
            self.alike = bytes;
        } else {
            self.bytes = Some(self.accesses.iter().map(|accesses| accesses * self.alike).collect());
        }
    }

    /// Returns the accesses and bytes that miss in a cache of `size` objects.
    pub fn misses(&self, size: u32) -> (u64, u64) {
        let beyond = |of: &[u64]| of.iter().skip(size as usize).sum::<u64>();
        let accesses = beyond(&self.accesses);
        let bytes = self.bytes.as_ref().map_or(accesses * self.alike, |bytes| beyond(bytes));
        (self.first.0 + accesses, self.first.1 + bytes)
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
    fn bytes_are_counted_whether_alike_or_not() {
        let mut histogram = Histogram::default();
        for (distance, bytes) in [(FIRST, 8), (0, 8), (2, 8)] {
            histogram.add(distance, bytes);
        }
        assert_eq!([0, 1, 3].map(|size| histogram.misses(size)), [(3, 24), (2, 16), (1, 8)]);
        for (distance, bytes) in [(0, 1), (FIRST, 2), (5, 4)] {
            histogram.add(distance, bytes);
        }
        assert_eq!([0, 1, 3, 6].map(|size| histogram.misses(size)), [(6, 31), (4, 22), (3, 14), (2, 10)]);
    }

    #[test]
    fn closing_up_keeps_the_order() {
        let mut reuse = ReuseDistances::default();
        // Three rounds access more objects than a window has room for.
        for round in 0..3 {
            for object in 0..100_000 {
                assert_eq!(reuse.access(object), if round == 0 { FIRST } else { 99_999 });
            }
        }
        // A stretch of accesses to one object fills windows alone.
        for at in 0..500_000 {
            assert_eq!(reuse.access(7), if at == 0 { 99_992 } else { 0 });
        }
        assert_eq!(reuse.access(8), 99_992);
    }
}
