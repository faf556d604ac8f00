//! Readers read back everything that a writer writes, if the format can express it; whatever it
//! cannot express is counted.

use std::path::PathBuf;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_trace::fuzz::read_any;
use bimetal_trace::write::{Content, Writer, Written};
use bimetal_trace::{Event, Format, OpenOptions, Request, Trace, formats};
use proptest::prelude::*;

/// Unique file name in the folder for temporary files; the file is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("bimetal-trace-{name}-{}", std::process::id())))
    }

    fn write(&self, format: &'static Format, content: Content, requests: &[Request]) -> Written {
        let mut writer = Writer::create(&self.0, format, content).unwrap();
        for request in requests {
            writer.write(request).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(&self, options: &OpenOptions) -> (Trace, Vec<Request>) {
        let mut trace = Trace::open(&self.0, options).unwrap();
        let requests = trace.by_ref().map(Result::unwrap).collect();
        (trace, requests)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Draws requests in order of time from 0 on, with any operation, on a few devices.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let kind = prop::sample::select(vec![
        OpKind::Read,
        OpKind::Write,
        OpKind::Write,
        OpKind::Flush,
        OpKind::Discard,
        OpKind::WriteZeroes,
    ]);
    // Gaps stay far below the 30 days beyond which a time is rejected.
    let gap = prop_oneof![0u64..5, 0u64..1_000_000, 0u64..1_000_000_000_000];
    let sector = prop_oneof![0u64..4096, 0u64..(1 << 40) - 70_000];
    let one = (gap, 0u32..4, kind, any::<bool>(), sector, 1u64..70_000, prop::option::of(0u64..1_000_000_000_000));
    prop::collection::vec(one, 1..200).prop_map(|all| {
        let mut now = 0;
        let mut requests = Vec::new();
        for (gap, device, kind, fua, start, sectors, response) in all {
            now += if requests.is_empty() { 0 } else { gap };
            let range = if kind == OpKind::Flush { SectorRange::default() } else { SectorRange::new(start, sectors) };
            let fua = fua && kind == OpKind::Write;
            let response = response.map(Nanoseconds);
            requests.push(Request { arrival: Nanoseconds(now), device, kind, fua, range, response });
        }
        requests
    })
}

/// Numbers the devices of `requests` in order of appearance, as formats with named devices do.
fn renumbered(requests: &[Request]) -> Vec<Request> {
    let mut seen = Vec::new();
    let number = |seen: &mut Vec<u32>, device| match seen.iter().position(|&other| other == device) {
        Some(number) => number as u32,
        None => {
            seen.push(device);
            seen.len() as u32 - 1
        }
    };
    requests.iter().map(|request| Request { device: number(&mut seen, request.device), ..*request }).collect()
}

fn data_only(requests: &[Request]) -> Vec<Request> {
    requests.iter().copied().filter(|request| matches!(request.kind, OpKind::Read | OpKind::Write)).collect()
}

/// Moves the first request to time 0.
fn rebased(mut requests: Vec<Request>, tick_ns: u64) -> Vec<Request> {
    let first = requests.first().map_or(0, |first| first.arrival.0 / tick_ns);
    for request in &mut requests {
        request.arrival = Nanoseconds((request.arrival.0 / tick_ns - first) * tick_ns);
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn csv_and_bin_keep_everything(requests in requests()) {
        for format in [&formats::csv::INFO, &formats::bin::INFO] {
            let scratch = Scratch::new(&format!("keep-{format}"));
            let written = scratch.write(format, Content::default(), &requests);
            prop_assert_eq!(written, Written { requests: requests.len() as u64, ..Written::default() });
            let (trace, read) = scratch.read(&OpenOptions::default());
            prop_assert_eq!(trace.format(), format);
            prop_assert_eq!(&read, &requests);
        }
    }

    #[test]
    fn disksim_and_mqsim_keep_reads_and_writes_to_the_nanosecond(requests in requests()) {
        let data = data_only(&requests);
        prop_assume!(!data.is_empty());
        for format in [&formats::disksim::INFO, &formats::mqsim::INFO] {
            let scratch = Scratch::new(&format!("five-{format}"));
            let written = scratch.write(format, Content::default(), &requests);
            prop_assert_eq!(written.requests, data.len() as u64);
            prop_assert_eq!(written.left_out, (requests.len() - data.len()) as u64);
            let (_, read) = scratch.read(&OpenOptions { format: Some(format), ..OpenOptions::default() });
            let kept = |request: &Request| Request { fua: false, response: None, ..*request };
            let expected: Vec<_> = rebased(data.clone(), 1).iter().map(kept).collect();
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn msr_keeps_reads_and_writes_to_the_tick(requests in requests()) {
        let data = data_only(&requests);
        prop_assume!(!data.is_empty());
        let scratch = Scratch::new("msr");
        scratch.write(&formats::msr::INFO, Content::default(), &requests);
        let (trace, read) = scratch.read(&OpenOptions::default());
        prop_assert_eq!(trace.format(), &formats::msr::INFO);
        let kept = |request: &Request| Request {
            fua: false,
            response: request.response.map(|response| Nanoseconds((response.0 / 100).max(1) * 100)),
            ..*request
        };
        let expected: Vec<_> = rebased(data, 100).iter().map(kept).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn fio_keeps_times_to_a_tenth_of_a_millisecond(requests in requests()) {
        let kept: Vec<_> =
            requests.iter().copied().filter(|request| request.kind != OpKind::WriteZeroes).collect();
        prop_assume!(kept.last().is_some_and(|last| last.arrival.0 > 100_000));
        let scratch = Scratch::new("fio");
        scratch.write(&formats::fio::INFO, Content::default(), &requests);
        let (trace, read) = scratch.read(&OpenOptions::default());
        prop_assert_eq!(trace.format(), &formats::fio::INFO);
        prop_assert_eq!(read.len(), kept.len());
        let first = kept[0].arrival.0;
        for (read, kept) in read.iter().zip(renumbered(&kept)) {
            prop_assert_eq!((read.device, read.kind, read.range), (kept.device, kept.kind, kept.range));
            prop_assert!(read.arrival.0.abs_diff(kept.arrival.0 - first) <= 101_000);
        }
    }

    #[test]
    fn arbitrary_bytes_break_no_reader(data in prop::collection::vec(any::<u8>(), 0..600)) {
        read_any(None, &data);
        for &format in formats::ALL {
            read_any(Some(format), &data);
        }
    }

    #[test]
    fn arbitrary_text_of_the_right_letters_breaks_no_reader(data in "[0-9QDCRWFS ,.+\\[\\]\n-]{0,300}") {
        read_any(None, data.as_bytes());
        for &format in formats::ALL {
            read_any(Some(format), data.as_bytes());
        }
    }
}

#[test]
fn a_trace_without_times_or_operations_stays_one_in_csv_and_bin() {
    let content = Content { has_times: false, has_operations: false, ..Content::default() };
    let range = SectorRange::new(8, 8);
    let request =
        Request { arrival: Nanoseconds::ZERO, device: 0, kind: OpKind::Read, fua: false, range, response: None };
    for format in [&formats::csv::INFO, &formats::bin::INFO] {
        let scratch = Scratch::new(&format!("untimed-{format}"));
        scratch.write(format, content, &[request; 3]);
        let (trace, read) = scratch.read(&OpenOptions::default());
        assert!(!trace.has_times(), "{format}");
        assert_eq!(trace.has_operations(), format == &formats::csv::INFO, "{format}");
        assert_eq!(read, [request; 3]);
    }
}

/// Regression: a `bin` file of a recording did not say that its requests were queue events, so the
/// simulator did not merge them, as it does when it reads the recording itself.
#[test]
fn event_of_a_recording_is_kept_in_bin() {
    let range = SectorRange::new(8, 8);
    let request =
        Request { arrival: Nanoseconds::ZERO, device: 0, kind: OpKind::Read, fua: false, range, response: None };
    for event in [None, Some(Event::Queue), Some(Event::Issue)] {
        let scratch = Scratch::new(&format!("event-{event:?}"));
        scratch.write(&formats::bin::INFO, Content { event, ..Content::default() }, &[request; 3]);
        let (trace, read) = scratch.read(&OpenOptions::default());
        assert_eq!((trace.event(), Content::from(&trace).event), (event, event));
        assert_eq!(read, [request; 3]);
        scratch.write(&formats::csv::INFO, Content::from(&trace), &read);
        assert_eq!(scratch.read(&OpenOptions::default()).0.event(), None, "csv names no event");
    }
}

/// A writer that is dropped leaves no new file, and the old file stays as it was.
#[test]
fn dropped_writer_leaves_only_the_old_file() {
    let folder = Scratch::new("folder");
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("trace.csv");
    std::fs::write(&path, "old").unwrap();
    drop(Writer::create(&path, &formats::csv::INFO, Content::default()).unwrap());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    let names: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["trace.csv"]);
    Writer::create(&path, &formats::csv::INFO, Content::default()).unwrap().finish().unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("time_ns,"));
    std::fs::remove_dir_all(&folder.0).unwrap();
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_that_names_it() {
    let error = |path: &str, format| Writer::create(path, format, Content::default()).err().unwrap().to_string();
    let missing = error("/no-such-folder/trace.csv", &formats::csv::INFO);
    assert!(missing.starts_with("/no-such-folder/trace.csv: cannot be written"), "{missing}");
    let directory = error("/", &formats::csv::INFO);
    assert!(directory.contains("cannot be written"), "{directory}");
    let format = error("trace", &formats::vscsi::INFO);
    assert!(format.contains("vscsi can be read but not written, expected one of csv bin"), "{format}");
    let full = Writer::create("/dev/full", &formats::csv::INFO, Content::default()).unwrap().finish().unwrap_err();
    assert!(full.to_string().starts_with("/dev/full: cannot be written"), "{full}");
}
