//! Decoders of the formats, one file each. Each file's head describes the format, names the source
//! of the description, and warns of the traps in its traces.
//!
//! A text format implements [`LineFormat`] and is read through [`Lines`]; a binary format
//! implements [`Decoder`]. A new format needs its file here, its name in [`format`](crate::format),
//! its line in [`line_format`] or [`decoder`] below, and a corpus for the fuzzer. Formats do not
//! deal with order of time, pairing with completions, options or counting.

mod alibaba;
pub(crate) mod bin;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
mod cloudphysics_csv;
pub(crate) mod csv;
mod devices;
mod diskmon;
mod disksim;
pub(crate) mod fio;
mod fiu;
pub(crate) mod five_columns;
mod hadoop_csv;
mod keys32le;
pub(crate) mod lines;
mod linnos;
mod lis;
mod mqsim;
mod msr;
mod rwbs;
mod spc;
mod ssdsim;
mod systor17;
mod tencent;
pub(crate) mod tracefs;
pub(crate) mod vscsi;
mod wiscsee;

use crate::entry::Decoder;
use crate::format::Format;
use lines::Lines;

pub(crate) use lines::LineFormat;

/// Returns the reader of a text format's lines, `None` if `format` is binary.
pub(crate) fn line_format(format: Format) -> Option<Box<dyn LineFormat>> {
    Some(match format {
        Format::Msr => Box::new(msr::Msr::default()),
        Format::Spc => Box::new(spc::Spc),
        Format::Disksim => Box::new(disksim::reader()),
        Format::Mqsim => Box::new(mqsim::reader()),
        Format::Ssdsim => Box::new(ssdsim::reader()),
        Format::Linnos => Box::new(linnos::reader()),
        Format::Blkparse => Box::new(blkparse::Blkparse::default()),
        Format::Tracefs => Box::new(tracefs::Tracefs::default()),
        Format::Wiscsee => Box::new(wiscsee::Wiscsee),
        Format::Fio => Box::new(fio::Fio::default()),
        Format::Diskmon => Box::new(diskmon::Diskmon),
        Format::CloudphysicsCsv => Box::new(cloudphysics_csv::CloudphysicsCsv::default()),
        Format::HadoopCsv => Box::new(hadoop_csv::HadoopCsv::default()),
        Format::Fiu => Box::new(fiu::Fiu::default()),
        Format::Systor17 => Box::new(systor17::Systor17::default()),
        Format::Alibaba => Box::new(alibaba::Alibaba::default()),
        Format::Tencent => Box::new(tencent::Tencent::default()),
        Format::Lis => Box::new(lis::Lis),
        Format::Csv => Box::new(csv::Csv::default()),
        Format::Blktrace | Format::Vscsi | Format::Keys32le | Format::Bin => return None,
    })
}

/// Returns the reader of `format`.
pub(crate) fn decoder(format: Format) -> Box<dyn Decoder> {
    match format {
        Format::Blktrace => Box::new(blktrace::Blktrace::default()),
        Format::Vscsi => Box::new(vscsi::Vscsi::default()),
        Format::Keys32le => Box::new(keys32le::Keys32le::default()),
        Format::Bin => Box::new(bin::Bin::default()),
        // MSR traces must be read fast, so without a second indirection.
        Format::Msr => Box::new(Lines::new(msr::Msr::default())),
        text => match line_format(text) {
            Some(lines) => Box::new(Lines::new(lines)),
            None => unreachable!("every format but the binary ones above is read by lines"),
        },
    }
}

/// Returns whether `format` records completions, and flushes before writes, beside requests.
pub(crate) fn has_completions(format: Format) -> bool {
    matches!(format, Format::Blkparse | Format::Blktrace | Format::Tracefs | Format::Wiscsee)
}

/// Returns whether `format` distinguishes queue events from issue events.
pub(crate) fn has_events(format: Format) -> bool {
    has_completions(format) || format == Format::HadoopCsv
}
