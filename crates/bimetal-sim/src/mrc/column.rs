//! Column of numbers, for example the object of each access of a trace. The first numbers are in
//! memory, and all others in a temporary file without a name: a column of any length takes a
//! bounded amount of memory.

use std::env;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::nameless_file::nameless_file;

/// Number of numbers that are read and written at a time.
pub const BATCH: usize = 1 << 14;

/// Number of numbers that are kept in memory: 16 MiB of a column, in whole batches.
const KEPT: usize = 1 << 22;

const BYTES: usize = size_of::<u32>();

/// Numbers in order; see the [module](self).
pub struct Column {
    /// The first numbers, at most `kept`.
    memory: Vec<u32>,
    /// Numbers after those in `memory`, from the first on.
    file: Option<File>,
    /// Number of batches in `file`.
    batches: usize,
    /// The newest numbers, which are not in the file yet: less than a batch.
    newest: Vec<u32>,
    kept: usize,
}

impl Default for Column {
    fn default() -> Self {
        Self::with_memory(KEPT)
    }
}

impl Column {
    /// Returns an empty column that keeps `kept` numbers in memory, rounded down to batches.
    fn with_memory(kept: usize) -> Self {
        let kept = kept / BATCH * BATCH;
        Self { memory: Vec::new(), file: None, batches: 0, newest: Vec::new(), kept }
    }

    /// Returns the number of numbers.
    pub fn len(&self) -> usize {
        self.memory.len() + self.batches * BATCH + self.newest.len()
    }

    /// Returns true if the column has no number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of batches; the last batch may be shorter than the others.
    pub fn batch_count(&self) -> usize {
        self.len().div_ceil(BATCH)
    }

    /// Adds `number` at the end.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    #[inline]
    pub fn push(&mut self, number: u32) -> io::Result<()> {
        if self.memory.len() < self.kept {
            self.memory.push(number);
            return Ok(());
        }
        self.newest.push(number);
        if self.newest.len() == BATCH { self.write_newest() } else { Ok(()) }
    }

    #[cold]
    fn write_newest(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(temporary_file()?),
        };
        write(file, self.batches, &self.newest)?;
        self.batches += 1;
        self.newest.clear();
        Ok(())
    }

    /// Returns the numbers of a batch. A batch of the file is read into `room`.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn batch<'a>(&'a self, batch: usize, room: &'a mut Room) -> io::Result<&'a [u32]> {
        let start = batch * BATCH;
        if start < self.memory.len() {
            return Ok(&self.memory[start..(start + BATCH).min(self.memory.len())]);
        }
        let in_file = batch - self.memory.len() / BATCH;
        let Some(file) = self.file.as_ref().filter(|_| in_file < self.batches) else { return Ok(&self.newest) };
        room.bytes.resize(BATCH * BYTES, 0);
        file.read_exact_at(&mut room.bytes, (in_file * BATCH * BYTES) as u64).map_err(failed)?;
        let (numbers, _) = room.bytes.as_chunks::<BYTES>();
        room.numbers.clear();
        room.numbers.extend(numbers.iter().map(|&number| u32::from_le_bytes(number)));
        Ok(&room.numbers)
    }

    /// Returns a column with a number for each number of this column. `map` gets the numbers of a
    /// batch, the last batch first, and replaces them.
    ///
    /// # Errors
    /// The temporary file of a column cannot be read or written.
    pub fn mapped_backwards(&self, mut map: impl FnMut(&mut [u32])) -> io::Result<Self> {
        let file = self.file.as_ref().map(|_| temporary_file()).transpose()?;
        let mut mapped = Self { memory: vec![0; self.memory.len()], file, newest: Vec::new(), ..*self };
        let (mut room, mut numbers) = (Room::default(), Vec::with_capacity(BATCH));
        for batch in (0..self.batch_count()).rev() {
            numbers.clear();
            numbers.extend_from_slice(self.batch(batch, &mut room)?);
            map(&mut numbers);
            mapped.put(batch, &numbers)?;
        }
        Ok(mapped)
    }

    /// Sets the numbers of a batch.
    fn put(&mut self, batch: usize, numbers: &[u32]) -> io::Result<()> {
        let start = batch * BATCH;
        if start < self.memory.len() {
            self.memory[start..start + numbers.len()].copy_from_slice(numbers);
            return Ok(());
        }
        let in_file = batch - self.memory.len() / BATCH;
        match &self.file {
            Some(file) if in_file < self.batches => write(file, in_file, numbers)?,
            _ => self.newest = numbers.to_vec(),
        }
        Ok(())
    }
}

fn temporary_file() -> io::Result<File> {
    nameless_file(&env::temp_dir(), "accesses").map_err(failed)
}

fn write(file: &File, batch: usize, numbers: &[u32]) -> io::Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    file.write_all_at(&bytes, (batch * BATCH * BYTES) as u64).map_err(failed)
}

/// Returns an error of the temporary file with what the user can do about it.
fn failed(error: io::Error) -> io::Error {
    let folder = env::temp_dir();
    let message = format!(
        "accesses cannot be kept in {}: {error}: expected room for 12 bytes an access; TMPDIR names another folder",
        folder.display()
    );
    io::Error::new(error.kind(), message)
}

/// Room for a batch that is read from a file; kept to save allocations.
#[derive(Default)]
pub struct Room {
    bytes: Vec<u8>,
    numbers: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns that end in memory, at its end, within the first batch of the file, and behind
    /// several batches.
    #[test]
    fn numbers_return_from_memory_and_from_the_file() {
        for len in [0, 1, BATCH, 2 * BATCH, 2 * BATCH + 1, 3 * BATCH, 5 * BATCH + 7] {
            let numbers: Vec<u32> = (0..len as u32).map(|number| number.wrapping_mul(0x9e37_79b1)).collect();
            let mut column = Column::with_memory(2 * BATCH + 5);
            numbers.iter().for_each(|&number| column.push(number).expect("a temporary file"));
            assert_eq!((column.len(), column.is_empty()), (len, len == 0));
            assert_eq!(column.file.is_some(), len >= 3 * BATCH);
            assert_eq!(all(&column), numbers, "{len}");
        }
    }

    fn all(column: &Column) -> Vec<u32> {
        let mut room = Room::default();
        let batch = |batch| column.batch(batch, &mut room).expect("a temporary file").to_vec();
        (0..column.batch_count()).flat_map(batch).collect()
    }

    #[test]
    fn backwards_map_begins_with_the_last_number() {
        for len in [3, 2 * BATCH, 4 * BATCH + 3] {
            let mut column = Column::with_memory(BATCH);
            (0..len as u32).for_each(|number| column.push(number).expect("a temporary file"));
            let mut seen = 0;
            let mapped = column.mapped_backwards(|numbers| {
                numbers.iter_mut().rev().for_each(|number| {
                    *number += seen;
                    seen += 1;
                });
            });
            assert_eq!(all(&mapped.expect("a temporary file")), vec![len as u32 - 1; len]);
        }
    }
}
