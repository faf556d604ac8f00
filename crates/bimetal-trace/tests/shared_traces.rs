//! Public samples in `../shared/traces`, if they exist: each is recognised by content and gives
//! exactly the counts that its description states.

use std::collections::HashSet;
use std::path::PathBuf;

use bimetal_core::operation::OpKind;
use bimetal_trace::{Event, Format, OpenOptions, Request, Trace, TraceError, formats};

/// Counts that the description of a sample states.
struct Sample {
    file: &'static str,
    format: &'static Format,
    requests: u64,
    /// Percentage of reads among the requests, to one digit; `None` if not stated.
    read_percent: Option<&'static str>,
    /// Number of distinct 4 KiB pages, on each device.
    footprint: Footprint,
    moved: Moved,
    /// Seconds, with as many digits as stated; `None` if the trace has no times.
    span_s: Option<&'static str>,
    /// Number of lines that must be skipped.
    bad_lines: u64,
    event: Option<Event>,
}

enum Footprint {
    Mib(&'static str),
    Blocks(u64),
    /// The value is not stated; the exact sums are tested below.
    NotStated,
}

enum Moved {
    Mib(&'static str),
    Blocks(u64),
    NotStated,
}

use Footprint as F;
use Moved as M;

const ISSUE: Option<Event> = Some(Event::Issue);
const QUEUE: Option<Event> = Some(Event::Queue);

/// The ext4 sample's description states 1238.9 MiB. That figure counts the pages of a line that the
/// same description says to drop.
#[rustfmt::skip]
const SAMPLES: [Sample; 19] = [
    sample("cloudPhysicsIO.csv.xz", &formats::cloudphysics_csv::INFO, 113_872, "41.3", F::Mib("1051.6"), M::Mib("4011"), Some("7200"), 0, None),
    sample("cloudPhysicsIO.vscsi.xz", &formats::vscsi::INFO, 113_872, "41.3", F::Mib("1051.6"), M::Mib("4011"), Some("7200.1"), 0, None),
    sample("caffeine-w106.trace.xz", &formats::keys32le::INFO, 5_292_456, "", F::Blocks(275_171), M::NotStated, None, 0, None),
    sample("financial1-first10k.ascii.xz", &formats::mqsim::INFO, 10_000, "40.8", F::Mib("28.6"), M::Mib("53"), Some("259.6"), 0, None),
    sample("msr-cut-randread-1006.trace.xz", &formats::linnos::INFO, 10_000, "83.2", F::Mib("113.4"), M::Mib("124"), Some("1.017"), 0, None),
    sample("ms-ssd-iozone.trace.xz", &formats::disksim::INFO, 100_000, "0.0", F::Mib("1059.8"), M::Mib("35148"), Some("936.4"), 0, None),
    sample("blkparse-ycsb-ext4.txt.xz", &formats::blkparse::INFO, 9_886, "91.4", F::Mib("1238.8"), M::Mib("1239"), Some("810.4"), 1, ISSUE),
    sample("blkparse-ycsb-btrfs.txt.xz", &formats::blkparse::INFO, 1_824, "71.3", F::Mib("1223.8"), M::Mib("1247"), Some("1071.3"), 0, ISSUE),
    sample("blkparse-java-10k-events.txt.xz", &formats::blkparse::INFO, 1_695, "100.0", F::Mib("189.0"), M::Mib("189"), Some("0.680"), 0, QUEUE),
    sample("sqlite-wal-ext4-events.txt.xz", &formats::wiscsee::INFO, 5_008, "0.1", F::Mib("8.5"), M::Mib("66"), Some("1.413"), 0, ISSUE),
    sample("diskmon-sys1.tsv.xz", &formats::diskmon::INFO, 58_818, "50.3", F::Mib("682.6"), M::Mib("1338"), Some("1204.6"), 0, None),
    sample("diskmon-p2pdownload.tsv.xz", &formats::diskmon::INFO, 11_053, "2.4", F::Mib("72.1"), M::Mib("156"), Some("1144.8"), 2, None),
    sample("diskmon-mayun.tsv.xz", &formats::diskmon::INFO, 24_844, "57.1", F::Mib("269.5"), M::Mib("341"), Some("6529.9"), 0, None),
    sample("hadoop-sdb-partial.csv.xz", &formats::hadoop_csv::INFO, 39_487, "99.8", F::Mib("11540.3"), M::Mib("11540"), Some("133.6"), 0, QUEUE),
    sample("ycsb-rocksdb-writes-notime.txt.xz", &formats::mqsim::INFO, 87_487, "0.0", F::Mib("1888.5"), M::Mib("6954"), None, 0, None),
    sample("arc-OLTP.lis.zst", &formats::lis::INFO, 914_145, "100.0", F::Blocks(186_880), M::Blocks(914_145), None, 0, None),
    sample("arc-P3.lis.zst", &formats::lis::INFO, 238_578, "100.0", F::Blocks(762_543), M::Blocks(3_912_296), None, 0, None),
    sample("mqsim/tpcc-small.trace", &formats::mqsim::INFO, 6_999, "62.6", F::NotStated, M::NotStated, Some("0.136489"), 0, None),
    sample("mqsim/wsrch-small.trace", &formats::mqsim::INFO, 24_783, "100.0", F::NotStated, M::NotStated, Some("60.055212"), 0, None),
];

#[expect(clippy::too_many_arguments, reason = "a row of the table above")]
const fn sample(
    file: &'static str,
    format: &'static Format,
    requests: u64,
    read_percent: &'static str,
    footprint: Footprint,
    moved: Moved,
    span_s: Option<&'static str>,
    bad_lines: u64,
    event: Option<Event>,
) -> Sample {
    let read_percent = if read_percent.is_empty() { None } else { Some(read_percent) };
    Sample { file, format, requests, read_percent, footprint, moved, span_s, bad_lines, event }
}

/// Returns the folder of the samples, if it exists.
fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no ../shared");
    None
}

fn options_of(sample: &Sample) -> OpenOptions {
    let format = (sample.format == &formats::keys32le::INFO).then_some(&formats::keys32le::INFO);
    OpenOptions { format, skip_bad_lines: sample.bad_lines > 0, ..OpenOptions::default() }
}

/// Formats `value` with as many digits after the point as `like` has.
fn rounded(value: f64, like: &str) -> String {
    let digits = like.split_once('.').map_or(0, |(_, digits)| digits.len());
    format!("{value:.digits$}")
}

#[test]
fn every_sample_gives_the_counts_its_description_states() {
    let Some(folder) = folder() else { return };
    const MIB: f64 = (1u64 << 20) as f64;
    for sample in SAMPLES {
        let file = sample.file;
        let mut trace = Trace::open(folder.join(file), &options_of(&sample)).unwrap();
        assert_eq!(trace.format(), sample.format, "{file}");
        assert_eq!(trace.event(), sample.event, "{file}");
        assert_eq!(trace.has_times(), sample.span_s.is_some(), "{file}");
        let (mut requests, mut reads, mut sectors, mut last) = (0u64, 0u64, 0u64, 0u64);
        let mut pages = HashSet::new();
        for request in &mut trace {
            let Request { arrival, device, kind, range, .. } = request.unwrap();
            requests += 1;
            reads += u64::from(kind == OpKind::Read);
            sectors += range.len.0;
            assert!(arrival.0 >= last, "{file}: out of order");
            last = arrival.0;
            pages.extend((range.start.0 / 8..range.end().0.div_ceil(8)).map(|page| (device, page)));
        }
        assert_eq!(requests, sample.requests, "{file}: requests");
        assert_eq!(trace.skipped_lines(), sample.bad_lines, "{file}: bad lines");
        if let Some(stated) = sample.read_percent {
            assert_eq!(rounded(100.0 * reads as f64 / requests as f64, stated), stated, "{file}: reads");
        }
        match sample.footprint {
            F::Mib(stated) => {
                assert_eq!(rounded(pages.len() as f64 * 4096.0 / MIB, stated), stated, "{file}: footprint")
            }
            F::Blocks(stated) => assert_eq!(pages.len() as u64, stated, "{file}: footprint"),
            F::NotStated => {}
        }
        match sample.moved {
            M::Mib(stated) => assert_eq!(rounded(sectors as f64 * 512.0 / MIB, stated), stated, "{file}: moved"),
            M::Blocks(stated) => assert_eq!(sectors / 8, stated, "{file}: moved"),
            M::NotStated => {}
        }
        if let Some(stated) = sample.span_s {
            assert_eq!(rounded(last as f64 / 1e9, stated), stated, "{file}: span");
        }
    }
}

#[test]
fn a_bad_line_of_a_sample_is_an_error_unless_it_is_skipped() {
    let Some(folder) = folder() else { return };
    for sample in SAMPLES.iter().filter(|sample| sample.bad_lines > 0) {
        let options = OpenOptions { skip_bad_lines: false, ..options_of(sample) };
        let errors: Vec<_> = Trace::open(folder.join(sample.file), &options).unwrap().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{}", sample.file);
        assert!(matches!(errors[0], TraceError::BadLine(_)), "{}: {}", sample.file, errors[0]);
    }
}

#[test]
fn the_exact_sums_of_the_mqsim_samples_hold() {
    let Some(folder) = folder() else { return };
    for (file, writes, write_sectors, reads, read_sectors, highest) in [
        ("tpcc-small.trace", 2_618, 45_710, 4_381, 70_928, 454_518_380),
        ("wsrch-small.trace", 4, 64, 24_779, 746_260, 34_966_256),
    ] {
        let (mut write, mut read, mut end) = ((0, 0), (0, 0), 0);
        for request in Trace::open(folder.join("mqsim").join(file), &OpenOptions::default()).unwrap() {
            let request = request.unwrap();
            let sums = if request.kind == OpKind::Read { &mut read } else { &mut write };
            *sums = (sums.0 + 1, sums.1 + request.range.len.0);
            end = end.max(request.range.end().0);
        }
        assert_eq!((write, read, end), ((writes, write_sectors), (reads, read_sectors), highest), "{file}");
    }
}

#[test]
fn completions_are_found_where_the_samples_have_them() {
    let Some(folder) = folder() else { return };
    for (file, answered) in [
        ("blkparse-ycsb-ext4.txt.xz", 9_886),
        ("blkparse-ycsb-btrfs.txt.xz", 1_824),
        ("blkparse-java-10k-events.txt.xz", 1_694),
        ("sqlite-wal-ext4-events.txt.xz", 4_992),
    ] {
        let options = OpenOptions { skip_bad_lines: true, ..OpenOptions::default() };
        let trace = Trace::open(folder.join(file), &options).unwrap();
        let responses: Vec<_> = trace.filter_map(|request| request.unwrap().response).collect();
        assert_eq!(responses.len(), answered, "{file}");
        assert!(responses.iter().all(|response| response.0 < 10_000_000_000), "{file}: a response of over 10 s");
    }
}

#[test]
fn one_device_of_several_is_read_alone() {
    let Some(folder) = folder() else { return };
    let open = |device| {
        let options = OpenOptions { device, ..OpenOptions::default() };
        Trace::open(folder.join("financial1-first10k.ascii.xz"), &options).unwrap().map(Result::unwrap)
    };
    let all: Vec<_> = open(None).collect();
    let second: Vec<_> = open(Some(1)).collect();
    assert_eq!(second.len(), all.iter().filter(|request| request.device == 1).count());
    assert!(second.iter().all(|request| request.device == 1));
    let options = OpenOptions { device: Some(99), ..OpenOptions::default() };
    let mut trace = Trace::open(folder.join("financial1-first10k.ascii.xz"), &options).unwrap();
    let error = trace.next().unwrap().unwrap_err().to_string();
    let devices = "only requests of device 99 were wanted (--device), and the trace has the devices ";
    assert!(error.contains(devices), "{error}");
    assert!(trace.next().is_none());
}

#[test]
fn the_blocks_that_requests_touch_add_up() {
    let Some(folder) = folder() else { return };
    for (file, block_ios) in [("cloudPhysicsIO.vscsi.xz", 1_141_869), ("financial1-first10k.ascii.xz", 22_511)] {
        let trace = Trace::open(folder.join(file), &OpenOptions::default()).unwrap();
        let blocks = |range: bimetal_core::units::SectorRange| range.end().0.div_ceil(8) - range.start.0 / 8;
        assert_eq!(trace.map(|request| blocks(request.unwrap().range)).sum::<u64>(), block_ios, "{file}");
    }
}
