//! Groups of options that several commands share.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use bimetal_core::units::Bytes;
use bimetal_trace::OpenOptions;
use bimetal_trace::analysis::FileMap;
use clap::Args;

use crate::error::Error;

/// Reads a whole number, such as a number of requests or lines.
///
/// # Errors
/// A text that says what was expected.
pub fn whole_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, like 100000".to_owned())
}

/// Reads the number of a device.
///
/// # Errors
/// A text that says what was expected.
pub fn device_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected the number of a device, from 0 on".to_owned())
}

/// Reads a fraction from 0 to 1, such as a share or a probability.
///
/// # Errors
/// A text that says what was expected.
pub fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("expected a fraction from 0 to 1, like 0.7".to_owned()),
    }
}

/// Options for reading a trace.
#[derive(Debug, Clone, Args)]
pub struct TraceOptions {
    /// Format of the trace [default: recognised by content]; see `bimetal formats`
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Event that is the request, in formats that hold several [default: queue if there are any,
    /// else issue]
    #[arg(long, value_name = "queue|issue")]
    pub event: Option<String>,
    /// Read one device of a trace that holds several, by its number [default: all]
    #[arg(long, value_name = "N", value_parser = device_number, allow_hyphen_values = true)]
    pub device: Option<u32>,
    /// Read the first N requests only
    #[arg(long, value_name = "N", value_parser = whole_number, allow_hyphen_values = true)]
    pub limit: Option<u64>,
    /// Count lines that cannot be read, and go on
    #[arg(long)]
    pub skip_bad_lines: bool,
}

impl TraceOptions {
    /// Returns the options in the form that the readers of traces take.
    ///
    /// # Errors
    /// A name is no format or event; the nearest name is suggested.
    pub fn to_open_options(&self) -> Result<OpenOptions, Error> {
        Ok(OpenOptions {
            format: self.format.as_deref().map(str::parse).transpose()?,
            event: self.event.as_deref().map(str::parse).transpose()?,
            device: self.device,
            skip_bad_lines: self.skip_bad_lines,
            limit: self.limit,
        })
    }
}

/// Blocks in which a workload is counted or moved.
#[derive(Debug, Clone, Args)]
pub struct BlockOption {
    /// Size of a block
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub block: Bytes,
}

/// A file that sets options.
#[derive(Debug, Clone, Args)]
pub struct ConfigOption {
    /// A TOML file with any of these options as `key = value`; what stands on the command line wins
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
}

/// Option for the form of the result.
#[derive(Debug, Clone, Args)]
pub struct JsonOption {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Reads the map of files at `path`, which may be compressed.
pub(crate) fn file_map(path: &Path) -> Result<FileMap, Error> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Error::new(format!("{name}: cannot be opened: {error}")))?;
    Ok(FileMap::read(&name, BufReader::new(file))?)
}
