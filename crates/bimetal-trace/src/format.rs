//! Names of the trace formats. A line describes each format and names the source of its
//! description.

use std::fmt;
use std::str::FromStr;

use bimetal_core::nearest::nearest;

/// A trace format, by the name that `--format` takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// MSR Cambridge CSV.
    Msr,
    /// SPC trace file format, as the UMass repository uses it.
    Spc,
    /// DiskSim ASCII.
    Disksim,
    /// MQSim ASCII.
    Mqsim,
    /// SSDSim ASCII.
    Ssdsim,
    /// LinnOS ASCII.
    Linnos,
    /// Text printed by blkparse.
    Blkparse,
    /// Binary records of blktrace.
    Blktrace,
    /// Text of the block events of the kernel's tracing file system, or of trace-cmd.
    Tracefs,
    /// WiscSee events.
    Wiscsee,
    /// fio I/O log, version 2 or 3.
    Fio,
    /// Sysinternals DiskMon.
    Diskmon,
    /// CloudPhysics CSV.
    CloudphysicsCsv,
    /// CloudPhysics vSCSI records, version 1 or 2.
    Vscsi,
    /// blktrace decoded to CSV.
    HadoopCsv,
    /// FIU (I/O deduplication).
    Fiu,
    /// SYSTOR'17 CSV.
    Systor17,
    /// Alibaba block traces.
    Alibaba,
    /// Tencent block storage.
    Tencent,
    /// ARC `.lis`.
    Lis,
    /// Bare little-endian 32-bit block numbers.
    Keys32le,
    /// Bimetal's own CSV.
    Csv,
    /// Bimetal's own compact binary.
    Bin,
}

impl Format {
    /// All formats, in the order of the manual.
    pub const ALL: [Format; 23] = [
        Format::Msr,
        Format::Spc,
        Format::Disksim,
        Format::Mqsim,
        Format::Ssdsim,
        Format::Linnos,
        Format::Blkparse,
        Format::Blktrace,
        Format::Tracefs,
        Format::Wiscsee,
        Format::Fio,
        Format::Diskmon,
        Format::CloudphysicsCsv,
        Format::Vscsi,
        Format::HadoopCsv,
        Format::Fiu,
        Format::Systor17,
        Format::Alibaba,
        Format::Tencent,
        Format::Lis,
        Format::Keys32le,
        Format::Csv,
        Format::Bin,
    ];

    /// The formats that [`Writer`](crate::write::Writer) writes.
    pub const WRITABLE: [Format; 6] =
        [Format::Csv, Format::Bin, Format::Disksim, Format::Msr, Format::Mqsim, Format::Fio];

    /// Returns the name on the command line, the content of a line or record, and the publisher of
    /// the format's description.
    const fn description(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Format::Msr => (
                "msr",
                "CSV: timestamp (100 ns since 1601), hostname, disk number, Read or Write, offset (bytes), size (bytes), \
                 response time (100 ns)",
                "README of the MSR Cambridge traces; Narayanan et al., Write Off-Loading, FAST 2008",
            ),
            Format::Spc => (
                "spc",
                "CSV: application storage unit, sector, size (bytes), R or W, time (s)",
                "SPC Trace File Format Specification 1.0.1, Storage Performance Council 2002; UMass Trace Repository",
            ),
            Format::Disksim => (
                "disksim",
                "five columns: time (ms), device, sector, sectors, flags (bit 0: 1 = read)",
                "The DiskSim Simulation Environment 4.0 Reference Manual (CMU-PDL-08-101), section on ASCII traces",
            ),
            Format::Mqsim => (
                "mqsim",
                "five columns: time (ns), device, sector, sectors, type (0 = write, 1 = read)",
                "Tavakkol et al., MQSim, FAST 2018, and its README",
            ),
            Format::Ssdsim => (
                "ssdsim",
                "five columns: time (ns), device, sector, sectors, operation (0 = write, 1 = read)",
                "Hu et al., Performance Impact and Interplay of SSD Parallelism, ICS 2011 (SSDSim)",
            ),
            Format::Linnos => (
                "linnos",
                "five columns: time (ms), device, offset (bytes), size (bytes), type (0 = write, 1 = read)",
                "Hao et al., LinnOS, OSDI 2020, and its trace replayer",
            ),
            Format::Blkparse => (
                "blkparse",
                "blkparse's default text: major,minor, CPU, sequence, time (s), process, event, rwbs, sector + sectors",
                "blkparse(1)",
            ),
            Format::Blktrace => (
                "blktrace",
                "blktrace's binary records, version 7, of one CPU or merged by blkparse -d",
                "linux/blktrace_api.h; blktrace(8)",
            ),
            Format::Tracefs => (
                "tracefs",
                "text of trace_pipe or trace-cmd report with block_bio_queue, block_rq_issue, block_rq_complete",
                "Linux: Documentation/trace/ftrace.rst, events-block",
            ),
            Format::Wiscsee => (
                "wiscsee",
                "eight columns: process, D or C, operation, offset (bytes), size (bytes), time (s), wait (s), sync",
                "He et al., The Unwritten Contract of Solid State Drives, EuroSys 2017 (WiscSee)",
            ),
            Format::Fio => (
                "fio",
                "fio I/O log, version 2 (wait lines, µs) or 3 (a time in µs on each line)",
                "fio documentation, Trace file format",
            ),
            Format::Diskmon => (
                "diskmon",
                "seven columns: sequence, time (s), duration (s), disk, Read or Write, sector, sectors",
                "Sysinternals DiskMon for Windows",
            ),
            Format::CloudphysicsCsv => (
                "cloudphysics-csv",
                "CSV: version, time (s), SCSI operation code (hex), size (bytes), sector",
                "Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015; libCacheSim",
            ),
            Format::Vscsi => (
                "vscsi",
                "vSCSI trace records of 32 bytes (version 1) or 40 bytes (version 2), times in µs",
                "Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015; libCacheSim",
            ),
            Format::HadoopCsv => (
                "hadoop-csv",
                "CSV: time (ns), event (Q or D), operation, sector, bytes, CPU, process",
                "blktrace records decoded to CSV",
            ),
            Format::Fiu => (
                "fiu",
                "columns: time (ns), process id, process, sector, sectors, R or W, major, minor, MD5 of the content",
                "Koller and Rangaswami, I/O Deduplication, FAST 2010; SNIA IOTTA",
            ),
            Format::Systor17 => (
                "systor17",
                "CSV: timestamp (s), response (s), R or W, unit, offset (bytes), size (bytes)",
                "Lee et al., Understanding Storage Traffic Characteristics on Enterprise VDI, SYSTOR 2017",
            ),
            Format::Alibaba => (
                "alibaba",
                "CSV: device, R or W, offset (bytes), length (bytes), timestamp (µs)",
                "Li et al., An In-Depth Analysis of Cloud Block Storage Workloads, IISWC 2020",
            ),
            Format::Tencent => (
                "tencent",
                "CSV: timestamp (s), sector, sectors, 0 (read) or 1 (write), volume",
                "Zhang et al., OSCA, USENIX ATC 2020; SNIA IOTTA",
            ),
            Format::Lis => (
                "lis",
                "four columns: first page, pages, 0, request number; no times, no operations",
                "Megiddo and Modha, ARC, FAST 2003",
            ),
            Format::Keys32le => (
                "keys32le",
                "bare little-endian 32-bit block numbers; no times, no operations; never recognised by content",
                "the traces that Caffeine's simulator ships",
            ),
            Format::Csv => (
                "csv",
                "Bimetal's own CSV: time_ns,device,op,lba,sectors,fua,response_ns",
                "Bimetal manual, file formats",
            ),
            Format::Bin => ("bin", "Bimetal's own compact binary", "Bimetal manual, file formats"),
        }
    }

    /// Returns the name that `--format` takes.
    pub const fn name(self) -> &'static str {
        self.description().0
    }

    /// Returns the content of a line or record, with units.
    pub const fn summary(self) -> &'static str {
        self.description().1
    }

    /// Returns the publisher of the description that the format's reader follows.
    pub const fn source(self) -> &'static str {
        self.description().2
    }

    /// Returns whether the format has a writer.
    pub fn is_writable(self) -> bool {
        Self::WRITABLE.contains(&self)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Text that names no format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown trace format '{name}': {}{known}", suggestion(*nearest))]
pub struct UnknownFormatName {
    name: String,
    nearest: Option<&'static str>,
    known: String,
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or("expected one of ".to_owned(), |name| format!("did you mean '{name}'? Known are "))
}

impl FromStr for Format {
    type Err = UnknownFormatName;

    fn from_str(name: &str) -> Result<Self, UnknownFormatName> {
        if let Some(format) = Self::ALL.into_iter().find(|format| format.name() == name) {
            return Ok(format);
        }
        let nearest = nearest(name, Self::ALL.map(Format::name));
        Err(UnknownFormatName { name: name.to_owned(), nearest, known: names(&Self::ALL) })
    }
}

/// Returns the names of `formats`, separated by spaces.
pub(crate) fn names(formats: &[Format]) -> String {
    formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_names_read_back_and_match_the_command_line() {
        let contract = "msr spc disksim mqsim ssdsim linnos blkparse blktrace tracefs wiscsee fio diskmon \
                        cloudphysics-csv vscsi hadoop-csv fiu systor17 alibaba tencent lis keys32le csv bin";
        assert_eq!(names(&Format::ALL), contract);
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
            assert!(!format.summary().is_empty() && !format.source().is_empty());
        }
    }

    #[test]
    fn a_misspelt_name_suggests_the_nearest() {
        let error = "mqsmi".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("did you mean 'mqsim'?"), "{error}");
        let error = "mrs".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("did you mean 'msr'?"), "{error}");
        let error = "zzzz".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("'zzzz': expected one of msr spc"), "{error}");
        let error = "CloudPhysics".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("'cloudphysics-csv'"), "{error}");
    }
}
