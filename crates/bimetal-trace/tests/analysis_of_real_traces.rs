//! The analysis of public traces gives figures that were computed from the traces independently.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_trace::Request;
use bimetal_trace::analysis::{Analysis, Analyzer};

/// Returns the decompressed trace, or `None` if the shared traces are missing.
fn decompressed(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces")).join(name);
    if !path.exists() {
        eprintln!("skipped: no ../shared");
        return None;
    }
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

fn analyse(requests: impl Iterator<Item = Request>) -> Analysis {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4)).unwrap();
    requests.for_each(|request| analyzer.request(&request));
    analyzer.finish()
}

fn request(arrival: Nanoseconds, device: u32, read: bool, range: SectorRange) -> Request {
    let kind = if read { OpKind::Read } else { OpKind::Write };
    Request { arrival, device, kind, fua: false, range, response: None }
}

#[track_caller]
fn assert_digits(actual: Option<f64>, expected: &str) {
    assert_eq!(actual.map(|figure| format!("{figure:.5}")).as_deref(), Some(expected));
}

#[test]
fn the_cloud_physics_trace_gives_the_known_figures() {
    let Some(bytes) = decompressed("cloudPhysicsIO.vscsi.xz") else { return };
    let analysis = analyse(bytes.chunks_exact(32).map(|record| {
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
        let len = Sectors::covering(Bytes(word(4) & 0xffff_ffff));
        let range = SectorRange { start: Sectors(word(16)), len };
        request(Nanoseconds::from_micros(word(24)), 0, record[12] == 0x28, range)
    }));
    assert_eq!((analysis.requests, analysis.block_ios), (113_872, 1_141_869));
    assert_digits(analysis.read_fraction, "0.42536");
    assert_digits(analysis.max_write_savings, "0.40927");
    assert_digits(analysis.overwrites_in_top_1pct, "0.10362");
    assert_digits(analysis.waw.map(|waw| waw.s30), "0.61944");
    assert_digits(analysis.raw.map(|raw| raw.s30), "0.72447");
    assert_eq!(format!("{:.1}", analysis.footprint_bytes as f64 / 1048576.0), "1051.6");
    assert_eq!(format!("{:.1}", analysis.duration_s.unwrap()), "7200.1");
}

#[test]
fn financial_trace_keeps_addresses_of_devices_apart() {
    let Some(bytes) = decompressed("financial1-first10k.ascii.xz") else { return };
    let text = String::from_utf8(bytes).unwrap();
    let analysis = analyse(text.lines().map(|line| {
        let fields: Vec<u64> = line.split_ascii_whitespace().map(|field| field.parse().unwrap()).collect();
        request(Nanoseconds(fields[0]), fields[1] as u32, fields[4] == 1, SectorRange::new(fields[2], fields[3]))
    }));
    assert_eq!((analysis.requests, analysis.block_ios), (10_000, 22_511));
    assert_digits(analysis.max_write_savings, "0.65772");
    assert_digits(analysis.waw.map(|waw| waw.s30), "0.81885");
    assert_digits(analysis.raw.map(|raw| raw.s30), "0.95627");
    assert_eq!(format!("{:.1}", analysis.footprint_bytes as f64 / 1048576.0), "28.6");
}
