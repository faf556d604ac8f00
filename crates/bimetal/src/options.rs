//! Groups of options that several commands share.

use std::path::PathBuf;

use bimetal_core::units::Bytes;
use clap::Args;

/// How a trace is read.
#[derive(Debug, Clone, Args)]
pub struct TraceOptions {
    /// Format of the trace [default: recognised by content]; see `bimetal formats`
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Which event is the request, in formats that hold several [default: queue if there are any, else issue]
    #[arg(long, value_name = "queue|issue")]
    pub event: Option<String>,
    /// Read one device of a trace that holds several, by its number [default: all]
    #[arg(long, value_name = "N")]
    pub device: Option<u32>,
    /// Read the first N requests only
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Count lines that cannot be read, and go on
    #[arg(long)]
    pub skip_bad_lines: bool,
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

/// How the result is shown.
#[derive(Debug, Clone, Args)]
pub struct JsonOption {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
