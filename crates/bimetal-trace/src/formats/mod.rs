//! Formats of traces, one file each. Each file's head describes the format, names the source of the
//! description, and warns of the traps in its traces. The `INFO` of a file declares the format.
//!
//! A text format implements `LineFormat` and is read through `Lines`; a binary format implements
//! `Decoder`. A new format needs its file in this folder, its line in [`ALL`], and a corpus for the
//! fuzzer. Formats do not deal with order of time, pairing with completions, options or counting.

pub mod alibaba;
pub mod bin;
pub mod blkparse;
pub mod blktrace;
pub mod cloudphysics_csv;
pub mod csv;
mod devices;
pub mod diskmon;
pub mod disksim;
pub mod fio;
pub mod fiu;
mod five_columns;
pub mod hadoop_csv;
pub mod keys32le;
pub(crate) mod lines;
pub mod linnos;
pub mod lis;
pub mod mqsim;
pub mod msr;
mod rwbs;
pub mod spc;
pub mod ssdsim;
pub mod systor17;
pub mod tencent;
pub mod tracefs;
pub mod vscsi;
pub mod wiscsee;

use crate::format::Format;

pub(crate) use lines::LineFormat;

/// All formats, in the order of the manual. Of two formats that fit a text equally well, the first
/// is recognised.
#[rustfmt::skip]
pub const ALL: &[&Format] = &[
    &msr::INFO,
    &spc::INFO,
    &disksim::INFO,
    &mqsim::INFO,
    &ssdsim::INFO,
    &linnos::INFO,
    &blkparse::INFO,
    &blktrace::INFO,
    &tracefs::INFO,
    &wiscsee::INFO,
    &fio::INFO,
    &diskmon::INFO,
    &cloudphysics_csv::INFO,
    &vscsi::INFO,
    &hadoop_csv::INFO,
    &fiu::INFO,
    &systor17::INFO,
    &alibaba::INFO,
    &tencent::INFO,
    &lis::INFO,
    &keys32le::INFO,
    &csv::INFO,
    &bin::INFO,
];

/// Returns the format that `--format` calls `name`.
pub fn find(name: &str) -> Option<&'static Format> {
    ALL.iter().find(|format| format.name == name).copied()
}

/// Returns the formats that [`Writer`](crate::write::Writer) writes: first the formats that keep
/// all fields of a request.
pub fn writable() -> impl Iterator<Item = &'static Format> {
    let keeping = |fua: bool| {
        ALL.iter().copied().filter(move |format| format.encoding.is_some_and(|encoding| encoding.keeps_fua == fua))
    };
    keeping(true).chain(keeping(false))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::format::names;

    #[test]
    fn format_names_match_the_command_line() {
        let contract = "msr spc disksim mqsim ssdsim linnos blkparse blktrace tracefs wiscsee fio diskmon \
                        cloudphysics-csv vscsi hadoop-csv fiu systor17 alibaba tencent lis keys32le csv bin";
        assert_eq!(names(ALL.iter().copied()), contract);
        for format in ALL {
            assert_eq!(format.name.parse(), Ok(*format));
            assert!(!format.summary.is_empty() && !format.source.is_empty(), "{format}");
        }
    }

    /// Each file that declares an `INFO` is in the list, once, under the name of the file.
    #[test]
    fn every_declared_format_is_listed_once() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/formats"));
        let declares = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().any(|line| line.starts_with("pub const INFO: Format ="))
        };
        let declared: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| declares(path))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().replace('_', "-"))
            .collect();
        let listed: BTreeSet<String> = ALL.iter().map(|format| format.name.to_owned()).collect();
        assert_eq!(listed, declared);
        assert_eq!(listed.len(), ALL.len(), "two formats share a name");
    }
}
