//! Groups of options that several commands share, and the readers of their values.

pub(crate) mod heading;
pub mod parse;
pub(crate) mod replay;
pub(crate) mod simulation;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bimetal_core::block::BlockSize;
use bimetal_core::units::Bytes;
use bimetal_trace::OpenOptions;
use clap::Args;

use crate::error::Error;
use crate::names::format_named;
use crate::sheet::Sheet;
use parse::{at_least_one, device_number};

/// Options for reading a trace.
#[derive(Debug, Clone, Args)]
pub struct TraceOptions {
    /// Format of the trace [default: recognised by content]; see `bimetal formats`
    #[arg(long, help_heading = heading::TRACE, value_name = "NAME")]
    pub format: Option<String>,
    /// Event that counts as a request, in formats that record several [default: queue if there are
    /// any, else issue]
    #[arg(long, help_heading = heading::TRACE, value_name = "queue|issue")]
    pub event: Option<String>,
    /// Read the requests of this device only, by its number in the trace [default: all]
    #[arg(long, help_heading = heading::TRACE, value_name = "N", value_parser = device_number, allow_hyphen_values = true)]
    pub device: Option<u32>,
    /// Read only the first N requests
    #[arg(long, help_heading = heading::TRACE, value_name = "N", value_parser = at_least_one, allow_hyphen_values = true)]
    pub limit: Option<u64>,
    /// Skip and count lines that cannot be read, instead of failing
    #[arg(long, help_heading = heading::TRACE)]
    pub skip_bad_lines: bool,
}

impl TraceOptions {
    /// Returns the options in the form that the readers of traces take.
    ///
    /// # Errors
    /// No format or event has the name; the nearest name is suggested.
    pub fn to_open_options(&self) -> Result<OpenOptions, Error> {
        Ok(OpenOptions {
            format: self.format.as_deref().map(format_named).transpose()?,
            event: self.event.as_deref().map(str::parse).transpose()?,
            device: self.device,
            skip_bad_lines: self.skip_bad_lines,
            limit: self.limit,
        })
    }

    /// Returns the options that select a part of the trace, for a document.
    pub(crate) fn selection(&self) -> BTreeMap<String, String> {
        let Self { event, device, limit, .. } = self;
        let device = device.map(|device| device.to_string());
        let limit = limit.map(|limit| limit.to_string());
        let given = [("event", event.clone()), ("device", device), ("limit", limit)];
        given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

/// Blocks in which a workload is counted or moved.
#[derive(Debug, Clone, Args)]
pub struct BlockOption {
    /// Size of a block, like 4KiB
    #[arg(long, help_heading = heading::TRACE, value_name = "SIZE", default_value = "4KiB")]
    pub block: Bytes,
}

impl BlockOption {
    /// Returns the size of a block.
    ///
    /// # Errors
    /// A block cannot have that size.
    pub(crate) fn size(&self) -> Result<BlockSize, Error> {
        BlockSize::new(self.block).map_err(|error| Error::new(error.to_string().replacen("block size", "--block", 1)))
    }
}

/// A file that sets options.
#[derive(Debug, Clone, Args)]
pub struct ConfigOption {
    /// A TOML file with any of these options as `key = value`; options on the command line take
    /// precedence
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
}

/// Options for the form of a table.
#[derive(Debug, Clone, Default, Args)]
pub struct TableForm {
    /// Print one JSON document instead of text
    #[arg(long, help_heading = heading::OUTPUT)]
    pub json: bool,
    /// Print the table as comma-separated values, with plain numbers
    #[arg(long, help_heading = heading::OUTPUT, conflicts_with_all = ["json", "markdown"])]
    pub csv: bool,
    /// Print the table in Markdown
    #[arg(long, help_heading = heading::OUTPUT, conflicts_with = "json")]
    pub markdown: bool,
}

impl TableForm {
    /// Returns the table in the form that was asked for; `None` for text and JSON.
    pub(crate) fn of(&self, sheet: impl FnOnce() -> Sheet) -> Option<String> {
        match self {
            Self { csv: true, .. } => Some(sheet().csv()),
            Self { markdown: true, .. } => Some(sheet().markdown()),
            _ => None,
        }
    }
}

/// Option for the form of the result.
#[derive(Debug, Clone, Args)]
pub struct JsonOption {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
