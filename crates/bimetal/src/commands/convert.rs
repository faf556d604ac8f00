//! `bimetal convert`: writes a trace in another format.

use std::path::{Path, PathBuf};

use bimetal_trace::age::{Ageing, FRAGMENT};
use bimetal_trace::analysis::MapCheck;
use clap::Args;

use crate::error::Error;
use crate::files::{file_map, refuse_other_map};
use crate::options::{JsonOption, TraceOptions};
use crate::output::{OutputFile, print_json};
use crate::trace_file::{TraceReader, TraceWriter};

/// Convert a trace to another format
///
/// In the result, times start at 0 and requests are in order of time. Data for which the format has
/// no field (response times, flushes) is left out, and a note says so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal convert web_0.csv.gz web_0.bin.zst\n  \
    bimetal convert monday.bin.zst monday.txt --to disksim --limit 100000\n  \
    bimetal convert start.bin.zst aged.bin.zst --files start.csv --age 1 --aged-files aged.csv")]
pub(crate) struct Arguments {
    /// The trace to read, or - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The trace to write; its ending names the format: .csv, or else .bin.zst (compressed)
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of OUT, which `bimetal formats` marks as written [default: by its ending]
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Scatter the files of --files over the device, as years of use do; the number chooses the
    /// places. Each file is cut into fragments of 64 KiB on average, which are put in random order
    /// over the space of all files and free space
    #[arg(long, value_name = "SEED", requires = "files")]
    age: Option<u64>,
    /// The map of files to scatter: lines `offset,length,path`, as `place -o` writes
    #[arg(long, value_name = "MAP.csv", requires = "age")]
    files: Option<PathBuf>,
    /// Write the map of the scattered files
    #[arg(long, value_name = "MAP.csv", requires = "age")]
    aged_files: Option<PathBuf>,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut ageing = ageing(&arguments)?;
    // The map is created first: a path that cannot be written must fail at once.
    let map = arguments.aged_files.as_deref().map(OutputFile::create).transpose()?;
    let mut reader = TraceReader::open(&arguments.input, &arguments.options)?;
    let mut writer = TraceWriter::create(&arguments.output, arguments.to.as_deref(), reader.content())?;
    let mut scattered = Vec::new();
    while let Some(request) = reader.next()? {
        match &mut ageing {
            Some((_, check, ageing)) => {
                check.count(&request);
                ageing.requests(&request, &mut scattered);
            }
            None => scattered.push(request),
        }
        for request in scattered.drain(..) {
            writer.write(&request)?;
        }
    }
    let trace = reader.finish();
    // An output that is not finished does not appear.
    if let Some((path, check, _)) = &ageing {
        refuse_other_map(check, path, trace.name(), trace.capacity())?;
    }
    let written = writer.finish()?;
    if let Some(((_, _, ageing), mut map)) = ageing.zip(map) {
        ageing.write_map(&mut map)?;
        map.finish()?;
    }
    if arguments.json.json { print_json("convert", &written) } else { Ok(()) }
}

/// Scatters the files of `--files`. Returns the path of the map, and a check of the map, too.
fn ageing(arguments: &Arguments) -> Result<Option<(&Path, MapCheck, Ageing)>, Error> {
    let Some((path, seed)) = arguments.files.as_deref().zip(arguments.age) else { return Ok(None) };
    let map = file_map(path)?;
    let ageing = Ageing::new(&map, seed, FRAGMENT);
    let ageing = ageing.map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    Ok(Some((path, MapCheck::new(&map), ageing)))
}
