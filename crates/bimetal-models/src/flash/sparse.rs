//! Array whose chunks of elements are allocated when an element is first changed.

/// Number of elements in a chunk.
const CHUNK: usize = 64;

/// Array of `len` elements; an untouched chunk takes one pointer.
pub(crate) struct SparseArray<T> {
    chunks: Vec<Option<Box<[T; CHUNK]>>>,
    len: u32,
    resident: u64,
}

impl<T: Copy> SparseArray<T> {
    /// Creates an array of `len` elements, none of them resident.
    pub(crate) fn new(len: u32) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((len as usize).div_ceil(CHUNK), || None);
        Self { chunks, len, resident: 0 }
    }

    /// Returns element `index`, or `None` while its chunk is untouched.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.chunks[index as usize / CHUNK].as_ref().map(|chunk| &chunk[index as usize % CHUNK])
    }

    /// Returns element `index` to be changed, or `None` while its chunk is untouched.
    #[inline]
    pub(crate) fn get_resident_mut(&mut self, index: u32) -> Option<&mut T> {
        self.chunks[index as usize / CHUNK].as_mut().map(|chunk| &mut chunk[index as usize % CHUNK])
    }

    /// Returns element `index` to be changed. An untouched chunk is first made resident from
    /// `initial`.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32, initial: impl Fn(u32) -> T) -> &mut T {
        let chunk = &mut self.chunks[index as usize / CHUNK];
        if chunk.is_none() {
            let first = index / CHUNK as u32 * CHUNK as u32;
            // Elements after the end repeat the last element.
            let last = self.len - 1;
            *chunk = Some(Box::new(std::array::from_fn(|offset| initial((first + offset as u32).min(last)))));
            self.resident += 1;
        }
        match chunk {
            Some(chunk) => &mut chunk[index as usize % CHUNK],
            None => unreachable!("the chunk was made above"),
        }
    }

    /// Returns the resident elements, in order.
    pub(crate) fn resident(&self) -> impl Iterator<Item = &T> {
        let len = self.len as usize;
        self.chunks.iter().enumerate().flat_map(move |(number, chunk)| {
            chunk.iter().flat_map(move |chunk| chunk.iter().take(len - number * CHUNK))
        })
    }

    /// Returns the resident elements from `start` up to `end`, in order, each with its index.
    pub(crate) fn resident_in(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, &T)> {
        let chunks = start as usize / CHUNK..(end as usize).div_ceil(CHUNK);
        let elements = chunks.filter_map(|number| Some((number, self.chunks[number].as_ref()?)));
        let numbered = elements.flat_map(|(number, chunk)| (number as u32 * CHUNK as u32..).zip(chunk.iter()));
        numbered.filter(move |(index, _)| (start..end).contains(index))
    }

    /// Returns every resident element with its index.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        self.resident_in(0, self.len)
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.chunks.capacity() as u64 * size_of::<Option<Box<[T; CHUNK]>>>() as u64
            + self.resident * size_of::<[T; CHUNK]>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_touched_chunks_take_memory() {
        let mut array = SparseArray::new(1 << 20);
        let empty = array.memory_bytes();
        assert_eq!(array.get(70), None);
        *array.get_mut(70, |index| u64::from(index) * 2) += 1;
        assert_eq!(
            (array.get(70), array.get(71), array.get(64), array.get(63)),
            (Some(&141), Some(&142), Some(&128), None)
        );
        assert_eq!(array.memory_bytes(), empty + 64 * 8);
        assert_eq!(array.resident().count(), 64);
    }
}
