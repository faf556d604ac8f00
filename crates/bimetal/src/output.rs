//! Output of a command: standard output, and files that appear only when complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bimetal_measure::text::decimal;
use bimetal_sim::results::TraceSummary;
use serde::Serialize;

use crate::error::Error;

/// Prints `text` to standard output as it is.
///
/// # Errors
/// [`Error::OutputClosed`] when the reader has closed standard output.
pub fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::OutputClosed,
        _ => Error::new(format!("standard output: {error}")),
    })
}

/// Returns the result of a command that has printed its answer. The exit status tells the answer
/// also if nobody has read the output: a closed output does not turn a no into a yes.
pub fn answer(printed: Result<(), Error>, is_no: bool) -> Result<(), Error> {
    match printed {
        Ok(()) | Err(Error::OutputClosed) if is_no => Err(Error::No),
        printed => printed,
    }
}

/// The version of the JSON documents. A new key leaves the version unchanged; a key with a changed
/// meaning raises the version.
const SCHEMA_VERSION: u32 = 2;

/// A JSON document, with the name and version of its schema as its first key.
#[derive(Serialize)]
pub struct Versioned<'a, T> {
    schema: String,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    /// Returns `document`, an object, as a document of the command `name`.
    pub fn new(name: &str, document: &'a T) -> Self {
        Self { schema: format!("bimetal/{name}/{SCHEMA_VERSION}"), document }
    }
}

/// Prints `document`, an object, as the JSON document of the command `name`.
///
/// # Errors
/// [`Error::OutputClosed`] when the reader has closed standard output.
pub fn print_json(name: &str, document: &impl Serialize) -> Result<(), Error> {
    print(&json_text(name, document)?)
}

/// Returns `document`, an object, as the text of the JSON document of the command `name`.
///
/// # Errors
/// The document cannot be written as JSON, which is a defect of the program.
pub fn json_text(name: &str, document: &impl Serialize) -> Result<String, Error> {
    let mut text = serde_json::to_string_pretty(&Versioned::new(name, document))?;
    text.push('\n');
    Ok(text)
}

/// Result of a command that changes a volume.
#[derive(Serialize)]
struct Done<'a> {
    /// Name of the volume, or the path of a drive, as it was given.
    volume: &'a str,
    /// Result as text.
    message: &'a str,
}

/// Prints the result of the command `name`, which changed `volume`, as text or as JSON.
///
/// # Errors
/// [`Error::OutputClosed`] when the reader has closed standard output.
pub fn print_done(name: &str, volume: &str, message: &str, json: bool) -> Result<(), Error> {
    if json { print_json(name, &Done { volume, message }) } else { print(&format!("{message}\n")) }
}

/// Prints a list as the JSON document of the command `name`, under the key `name`.
///
/// # Errors
/// [`Error::OutputClosed`] when the reader has closed standard output.
pub fn print_json_list(name: &str, list: &impl Serialize) -> Result<(), Error> {
    print(&json_list(name, list)?)
}

/// Returns a list as the text of the JSON document of the command `name`, under the key `name`.
///
/// # Errors
/// As [`json_text`].
pub fn json_list(name: &str, list: &impl Serialize) -> Result<String, Error> {
    json_text(name, &std::collections::BTreeMap::from([(name, list)]))
}

/// Prints a message to the user on standard error, apart from the result.
pub fn note(message: impl std::fmt::Display) {
    tell(format_args!("note: {message}"));
}

/// Prints a line to the user on standard error, apart from the result.
pub(crate) fn tell(line: impl std::fmt::Display) {
    // When standard error is closed, no reader is left for the line.
    let _ = writeln!(io::stderr().lock(), "{}", printable(&line.to_string()));
}

/// Returns `text` without control characters other than the ends of lines. A message may quote a
/// file of any content, and must not control the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

/// Notes that no capacity is known, so that `holders`, which the user buys, are as small as the
/// addresses of the trace allow.
pub(crate) fn note_unknown_capacity(holders: &str) {
    note(format_args!(
        "nothing tells how large the volume must be: {holders} hold the addresses of the trace; --capacity SIZE asks for \
         more"
    ));
}

/// Share of a capacity by which the addresses of a trace may exceed it: the labels of the volume
/// that was recorded.
const BEYOND: f64 = 0.01;

/// Notes that the trace accesses addresses beyond the capacity asked for, so that `holders` are
/// larger than the user asked.
pub(crate) fn note_small_capacity(trace: &TraceSummary, holders: &str) {
    if let (Some(capacity), Some(end)) = (trace.capacity_bytes, trace.address_end_bytes)
        && capacity as f64 * (1.0 + BEYOND) < end as f64
    {
        let (capacity, end) = (decimal(capacity), decimal(end));
        note(format_args!(
            "the trace accesses addresses up to {end}, beyond the capacity of {capacity}: {holders} hold {end}; --compact leaves \
             out the addresses that the trace does not access"
        ));
    }
}

/// A file that appears under its name only when it is complete. Until [`finish`](Self::finish) the
/// file is called `NAME.partial`; if the value is dropped unfinished, the file is removed.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// Path of the unfinished file; `None` where the path is not a regular file (a pipe,
    /// `/dev/stdout`) and is written directly.
    partial: Option<PathBuf>,
    writer: BufWriter<File>,
}

impl OutputFile {
    /// Opens `path` for writing.
    ///
    /// # Errors
    /// The directory is missing or not writable, or `path` is a directory.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let regular = fs::metadata(path).map_or(true, |metadata| metadata.is_file() || metadata.is_dir());
        if path.is_dir() {
            return Err(Error::new(format!("{}: is a directory, expected a file to write", path.display())));
        }
        let partial = regular.then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(".partial");
            PathBuf::from(name)
        });
        let file = File::create(partial.as_deref().unwrap_or(path)).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), partial, writer: BufWriter::with_capacity(1 << 16, file) })
    }

    /// Writes out the buffered bytes and gives the file its name.
    ///
    /// # Errors
    /// The disk is full, or the file cannot be renamed; in both cases the file is removed.
    pub fn finish(mut self) -> Result<(), Error> {
        self.writer.flush().map_err(|error| unwritable(&self.path, &error))?;
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.path).map_err(|error| unwritable(&self.path, &error))?;
            self.partial = None;
        }
        Ok(())
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::new(format!("{}: cannot be written: {error}", path.display()))
}

impl Write for OutputFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.writer.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(partial) = self.partial.take() {
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `check --scrub | head -1` could end with 0 although content was lost.
    #[test]
    fn closed_output_does_not_hide_the_answer_no() {
        let status = |printed, is_no| answer(printed, is_no).map_err(|error| error.to_string());
        let no = Err(Error::No.to_string());
        assert_eq!([status(Ok(()), true), status(Err(Error::OutputClosed), true)], [no.clone(), no]);
        assert_eq!(status(Ok(()), false), Ok(()));
        assert_eq!(status(Err(Error::OutputClosed), false), Err(Error::OutputClosed.to_string()));
        let failed = || Err(Error::new("standard output: no space".to_owned()));
        assert_eq!(status(failed(), true), Err("standard output: no space".to_owned()));
    }

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("bimetal-output-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    /// Regression: an error that quoted a binary file sent its control bytes to the terminal.
    #[test]
    fn messages_do_not_control_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\u{7}\r\nnext\u{9b}é\u{7f}"), "a [2Jb  \nnext é ");
    }

    #[test]
    fn a_file_appears_only_when_it_is_finished() {
        let directory = directory("finish");
        let path = directory.join("a.csv");
        fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn nothing_is_left_of_a_file_that_was_not_finished() {
        let directory = directory("drop");
        let mut file = OutputFile::create(&directory.join("a.csv")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_unwritable_path_is_named() {
        let message = OutputFile::create(Path::new("/nowhere/a.csv")).unwrap_err().to_string();
        assert!(message.starts_with("/nowhere/a.csv: cannot be written: "), "{message}");
        let message = OutputFile::create(Path::new("/")).unwrap_err().to_string();
        assert!(message.contains("is a directory"), "{message}");
    }
}
