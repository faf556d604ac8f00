//! Writes traces: `csv` and `bin`, which keep everything, and `disksim`, `mqsim`, `msr` and `fio`
//! (version 2) for other programs.
//!
//! A trace is written under a temporary name in the target's folder and is renamed once it is
//! complete. So no partial trace is ever taken for a whole one. Whatever a format cannot express is
//! counted, never dropped silently.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bimetal_core::operation::OpKind;

use crate::Request;
use crate::error::TraceError;
use crate::format::{self, Format};
use crate::formats::{bin, csv, fio};
use crate::open::Trace;

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
}

impl Default for Content {
    /// Assumes that the trace has all fields.
    fn default() -> Self {
        Self { has_times: true, has_operations: true }
    }
}

impl From<&Trace> for Content {
    fn from(trace: &Trace) -> Self {
        Self { has_times: trace.has_times(), has_operations: trace.has_operations() }
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
    /// Number of writes in the file without their force-unit-access mark, because the format has
    /// none.
    pub without_fua: u64,
}

/// Writer of a trace. If dropped before [`finish`](Self::finish), it removes the partial file.
pub struct Writer {
    path: PathBuf,
    /// Temporary name of the file; `None` for a pipe or a device, or once finished.
    partial: Option<PathBuf>,
    sink: Option<Sink>,
    buffer: Vec<u8>,
    encoder: Encoder,
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

enum Encoder {
    Csv { has_times: bool },
    Bin(bin::Encoder),
    Disksim,
    Mqsim,
    Msr,
    Fio(Fio),
}

/// Shortest wait that fio keeps (documentation of `wait`); shorter gaps are added up.
const FIO_WAIT_US_MIN: u64 = 100;

/// Open files, in order of appearance, and the sum of the waits so far.
#[derive(Default)]
struct Fio {
    devices: Vec<u32>,
    waited_us: u64,
}

impl Writer {
    /// Starts a trace in `format` at `path`, whose folder must exist. An existing file is replaced
    /// at the end.
    ///
    /// # Errors
    /// Fails if the format has no writer or the output cannot be created.
    pub fn create(path: impl AsRef<Path>, format: Format, content: Content) -> Result<Self, TraceError> {
        let path = path.as_ref().to_path_buf();
        if !format.is_writable() {
            let (path, writable) = (path.display().to_string(), format::names(&Format::WRITABLE));
            return Err(TraceError::NotWritable { path, format, writable });
        }
        let failed = |source| TraceError::Write { path: path.display().to_string(), source };
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 256);
        let encoder = Encoder::new(format, content, &mut buffer);
        let (path, partial, file) = create(&path).map_err(failed)?;
        let mut writer = Self { path, partial, sink: None, buffer, encoder, written: Written::default() };
        writer.sink = Some(if format == Format::Bin {
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
            let keeps_fua = matches!(self.encoder, Encoder::Csv { .. } | Encoder::Bin(_));
            self.written.without_fua += u64::from(request.fua && !keeps_fua);
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

/// Creates the output: returns the final path, the temporary name (none for what is no regular
/// file), and the file.
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

impl Encoder {
    fn new(format: Format, content: Content, out: &mut Vec<u8>) -> Self {
        match format {
            Format::Bin => Encoder::Bin(bin::Encoder::new(content.has_times, content.has_operations, out)),
            Format::Disksim => Encoder::Disksim,
            Format::Mqsim => Encoder::Mqsim,
            Format::Msr => Encoder::Msr,
            Format::Fio => {
                out.extend_from_slice(fio::HEADER_2.as_bytes());
                out.push(b'\n');
                Encoder::Fio(Fio::default())
            }
            _ => {
                debug_assert_eq!(format, Format::Csv);
                out.extend_from_slice(csv::HEADER.as_bytes());
                out.push(b'\n');
                Encoder::Csv { has_times: content.has_times }
            }
        }
    }

    /// Appends `request` to `out`. Returns false, and appends nothing, if the format lacks the
    /// operation.
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        let Request { arrival, device, kind, range, response, .. } = *request;
        let (start, sectors) = (range.start.0, range.len.0);
        let is_read = kind == OpKind::Read;
        if let Encoder::Disksim | Encoder::Mqsim | Encoder::Msr = self
            && !matches!(kind, OpKind::Read | OpKind::Write)
        {
            return false;
        }
        match self {
            Encoder::Csv { has_times } => return csv_line(request, *has_times, out),
            Encoder::Bin(encoder) => return encoder.request(request, out),
            Encoder::Fio(fio) => return fio.request(request, out),
            Encoder::Disksim => {
                let (ms, ns) = (arrival.0 / 1_000_000, arrival.0 % 1_000_000);
                line(out, format_args!("{ms}.{ns:06} {device} {start} {sectors} {}", u8::from(is_read)));
            }
            Encoder::Mqsim => {
                line(out, format_args!("{} {device} {start} {sectors} {}", arrival.0, u8::from(is_read)));
            }
            Encoder::Msr => {
                let kind = if is_read { "Read" } else { "Write" };
                let (offset, size) = (range.start.bytes().0, range.len.bytes().0);
                // A response below one tick would read as not measured.
                let response = response.map_or(0, |response| (response.0 / 100).max(1));
                let ticks = arrival.0 / 100;
                line(out, format_args!("{ticks},bimetal,{device},{kind},{offset},{size},{response}"));
            }
        }
        true
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        match self {
            Encoder::Bin(encoder) => encoder.finish(out),
            Encoder::Fio(fio) => {
                for device in &fio.devices {
                    line(out, format_args!("device{device} close"));
                }
            }
            _ => {}
        }
    }
}

impl Fio {
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        let action = match request.kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Discard => "trim",
            OpKind::Flush => "sync",
            OpKind::WriteZeroes | OpKind::Hint => return false,
        };
        let device = request.device;
        if !self.devices.contains(&device) {
            self.devices.push(device);
            line(out, format_args!("device{device} add"));
            line(out, format_args!("device{device} open"));
        }
        let wait_us = (request.arrival.0 / 1_000).saturating_sub(self.waited_us);
        if wait_us >= FIO_WAIT_US_MIN {
            self.waited_us += wait_us;
            line(out, format_args!("device{device} wait {wait_us} 0"));
        }
        let (offset, length) = (request.range.start.bytes().0, request.range.len.bytes().0);
        line(out, format_args!("device{device} {action} {offset} {length}"));
        true
    }
}

fn csv_line(request: &Request, has_times: bool, out: &mut Vec<u8>) -> bool {
    let Some((name, _)) = csv::OPERATIONS.iter().find(|(_, kind)| *kind == request.kind) else { return false };
    if has_times {
        append(out, format_args!("{}", request.arrival.0));
    }
    let (start, sectors) = (request.range.start.0, request.range.len.0);
    append(out, format_args!(",{},{name},{start},{sectors},{},", request.device, u8::from(request.fua)));
    if let Some(response) = request.response {
        append(out, format_args!("{}", response.0));
    }
    out.push(b'\n');
    true
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}

fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    append(out, text);
    out.push(b'\n');
}
