//! Writes traces: Formats that are written: `csv` and `bin`, which keep all fields, and `disksim`,
//! `mqsim`, `msr` and `fio` (version 2) for other programs.
//!
//! A trace is written under a temporary name in the target's folder and is renamed once it is
//! complete. So no partial trace is ever taken for a complete trace. A request or field that a
//! format cannot express is counted, never dropped silently.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bimetal_core::units::{Bytes, Sectors};

use crate::Request;
use crate::error::TraceError;
use crate::format::{self, Encode, Encoding, Format};
use crate::formats;
use crate::open::{Event, Trace};

/// Number of bytes collected before they are written.
const BUFFER_BYTES: usize = 128 << 10;

/// Compression level, zstd's own default: `bin` shrinks by a half or more, and is written faster
/// than it can be read back.
const ZSTD_LEVEL: i32 = 3;

/// Fields that a trace has for its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// Set if the trace has times of arrival.
    pub has_times: bool,
    /// Set if the trace has operations.
    pub has_operations: bool,
    /// Size of the recorded device, if known.
    pub capacity: Option<Sectors>,
    /// Event that stands for a request; `None` if unknown.
    pub event: Option<Event>,
}

impl Default for Content {
    /// Assumes that the trace has all fields of requests, no size of its device and no event.
    fn default() -> Self {
        Self { has_times: true, has_operations: true, capacity: None, event: None }
    }
}

impl From<&Trace> for Content {
    fn from(trace: &Trace) -> Self {
        let capacity = trace.capacity().map(Bytes::sectors);
        let (has_times, has_operations) = (trace.has_times(), trace.has_operations());
        Self { has_times, has_operations, capacity, event: trace.event() }
    }
}

/// Counts of the requests handed to a [`Writer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Number of requests in the file.
    pub requests: u64,
    /// Number of requests left out because the format lacks the operation (flushes, discards,
    /// writes of zeroes).
    pub left_out: u64,
    /// Number of writes in the file without their force-unit-access mark, because the format has no
    /// such mark.
    pub without_fua: u64,
}

/// Writer of a trace. A writer that is dropped before [`finish`](Self::finish) removes the partial
/// file.
pub struct Writer {
    path: PathBuf,
    /// Temporary name of the file; `None` for a pipe or a device, or after the file was finished.
    partial: Option<PathBuf>,
    sink: Option<Sink>,
    buffer: Vec<u8>,
    encoder: Box<dyn Encode>,
    keeps_fua: bool,
    written: Written,
}

enum Sink {
    Plain(File),
    Zstd(Box<zstd::stream::write::Encoder<'static, File>>),
}

impl Sink {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(mut file) => file.flush(),
            Sink::Zstd(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl Writer {
    /// Starts a trace in `format` at `path`, whose folder must exist. An existing file is replaced
    /// at the end.
    ///
    /// # Errors
    /// Fails if the format has no writer or the output cannot be created.
    pub fn create(path: impl AsRef<Path>, format: &'static Format, content: Content) -> Result<Self, TraceError> {
        let path = path.as_ref().to_path_buf();
        let Some(Encoding { start, keeps_fua, is_compressed }) = format.encoding else {
            let (path, writable) = (path.display().to_string(), format::names(formats::writable()));
            return Err(TraceError::NotWritable { path, format, writable });
        };
        let failed = |source| TraceError::Write { path: path.display().to_string(), source };
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 256);
        let encoder = start(content, &mut buffer);
        let (path, partial, file) = create(&path).map_err(failed)?;
        let mut writer = Self { path, partial, sink: None, buffer, encoder, keeps_fua, written: Written::default() };
        writer.sink = Some(if is_compressed {
            let compressor = zstd::stream::write::Encoder::new(file, ZSTD_LEVEL).and_then(|mut compressor| {
                compressor.include_checksum(true)?;
                Ok(compressor)
            });
            Sink::Zstd(Box::new(compressor.map_err(|source| writer.failed(source))?))
        } else {
            Sink::Plain(file)
        });
        Ok(writer)
    }

    fn failed(&self, source: io::Error) -> TraceError {
        TraceError::Write { path: self.path.display().to_string(), source }
    }

    /// Adds `request`, which must not arrive before the previous request.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    ///
    /// # Panics
    /// If the request arrives before the previous request.
    pub fn write(&mut self, request: &Request) -> Result<(), TraceError> {
        if self.encoder.request(request, &mut self.buffer) {
            self.written.requests += 1;
            self.written.without_fua += u64::from(request.fua && !self.keeps_fua);
        } else {
            self.written.left_out += 1;
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let written = match &mut self.sink {
            Some(sink) => sink.write_all(&self.buffer),
            None => Ok(()),
        };
        self.buffer.clear();
        written.map_err(|source| self.failed(source))
    }

    /// Completes the file and gives it its final name.
    ///
    /// # Errors
    /// Fails if the output cannot be written or renamed.
    pub fn finish(mut self) -> Result<Written, TraceError> {
        self.encoder.finish(&mut self.buffer);
        self.flush()?;
        if let Some(sink) = self.sink.take() {
            sink.finish().map_err(|source| self.failed(source))?;
        }
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.path).map_err(|source| self.failed(source))?;
            self.partial = None;
        }
        Ok(self.written)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // A failed removal is ignored: the writer has no way to report it.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Creates the output: returns the final path, the temporary name (`None` if the output is not a
/// regular file), and the file.
fn create(path: &Path) -> io::Result<(PathBuf, Option<PathBuf>, File)> {
    let path = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
        Err(error) => return Err(error),
    };
    if let Ok(metadata) = fs::metadata(&path).as_ref() {
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            let file = File::options().write(true).open(&path)?;
            return Ok((path, None, file));
        }
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut partial_name = std::ffi::OsString::from(".");
    partial_name.push(name);
    partial_name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(partial_name);
    let file = File::create(&partial)?;
    Ok((path, Some(partial), file))
}
