//! `bimetal convert`: writes a trace in another format.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::options::TraceOptions;
use crate::trace_file::{TraceReader, TraceWriter};

/// Convert a trace to another format
///
/// In the result, times start at 0 and requests are in order of time. Data for which the format has
/// no field (response times, flushes) is left out, and a note says so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal convert web_0.csv.gz web_0.bin.zst\n  \
    bimetal convert monday.bin.zst monday.txt --to disksim --limit 100000")]
pub(crate) struct Arguments {
    /// The trace to read, or - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The trace to write; its ending names the format: .bin.zst (compressed) or .csv
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of OUT, one of those that `bimetal formats` marks as written [default: by its ending]
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    #[command(flatten)]
    options: TraceOptions,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut reader = TraceReader::open(&arguments.input, &arguments.options)?;
    let mut writer = TraceWriter::create(&arguments.output, arguments.to.as_deref(), reader.content())?;
    while let Some(request) = reader.next()? {
        writer.write(&request)?;
    }
    reader.finish();
    writer.finish()
}
