//! A trace on standard input, for commands that read their trace several times. The bytes of the
//! trace are kept in a temporary file without a name, which is gone when the program ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bimetal_sim::nameless_file::nameless_file;
use bimetal_trace::{OpenOptions as TraceOptions, Trace, TraceError};

use crate::error::Error;

/// Name of the trace in results and messages.
const NAME: &str = "standard input";

/// A copy of the bytes of standard input.
pub(crate) struct InputCopy {
    file: Arc<File>,
    bytes: u64,
}

impl InputCopy {
    /// Reads standard input to its end.
    ///
    /// # Errors
    /// Standard input cannot be read, or the folder for temporary files cannot be written.
    pub(crate) fn of_standard_input() -> Result<Self, Error> {
        Self::of(&mut io::stdin().lock())
    }

    fn of(input: &mut impl Read) -> Result<Self, Error> {
        let folder = std::env::temp_dir();
        let failed = |error| Error::new(format!("{NAME}: cannot be copied to {}: {error}", folder.display()));
        let mut file = nameless_file(&folder, "input").map_err(failed)?;
        let bytes = io::copy(input, &mut file).map_err(failed)?;
        Ok(Self { file: Arc::new(file), bytes })
    }

    /// Opens the trace from its beginning.
    ///
    /// # Errors
    /// As [`Trace::from_reader`].
    pub(crate) fn open(&self, options: &TraceOptions) -> Result<Trace, TraceError> {
        let reader = FromStart { file: Arc::clone(&self.file), offset: 0 };
        Trace::from_reader(NAME, reader, Some(self.bytes), options)
    }
}

/// Reader of a file that others read at the same time.
struct FromStart {
    file: Arc<File>,
    offset: u64,
}

impl Read for FromStart {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(room, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "time_ns,device,op,lba,sectors,fua,response_ns\n0,0,write,0,8,0,\n5,0,read,8,8,0,\n";

    #[test]
    fn copy_of_input_is_read_from_its_start_each_time() {
        let copy = InputCopy::of(&mut TRACE.as_bytes()).expect("a temporary file");
        // Two readers at the same time keep their own positions.
        let open = || copy.open(&TraceOptions::default()).expect("the trace opens");
        let (one, other) = (open(), open());
        assert_eq!((one.name(), one.bytes_total()), (NAME, Some(TRACE.len() as u64)));
        let pairs: Vec<_> = one.zip(other).map(|(one, other)| (one.expect("read"), other.expect("read"))).collect();
        assert_eq!(pairs.len(), 2);
        assert!(pairs.iter().all(|(one, other)| one == other));
    }

    #[test]
    fn empty_input_is_refused_by_its_name() {
        let copy = InputCopy::of(&mut io::empty()).expect("a temporary file");
        let message = copy.open(&TraceOptions::default()).err().expect("no trace").to_string();
        assert_eq!(message, "standard input: is empty, expected a trace of block I/O");
    }
}
