//! Errors of traces name file, place, field, value and what was expected; notes on assumptions name
//! the flag that overrides them.

use std::io::Cursor;

use bimetal_core::operation::OpKind;
use bimetal_trace::error::Place;
use bimetal_trace::{Event, Format, OpenOptions, Request, Trace, TraceError, formats};

fn open(text: &str, options: &OpenOptions) -> Result<Trace, TraceError> {
    Trace::from_reader("t", Cursor::new(text.as_bytes().to_vec()), None, options)
}

fn all(text: &str, options: &OpenOptions) -> Result<(Vec<Request>, u64), TraceError> {
    let mut trace = open(text, options)?;
    let requests = trace.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((requests, trace.skipped_lines()))
}

fn error(text: &str) -> String {
    all(text, &OpenOptions::default()).unwrap_err().to_string()
}

fn as_format(format: &'static Format) -> OpenOptions {
    OpenOptions { format: Some(format), ..OpenOptions::default() }
}

fn skipping() -> OpenOptions {
    OpenOptions { skip_bad_lines: true, ..OpenOptions::default() }
}

const CSV: &str = "time_ns,device,op,lba,sectors,fua,response_ns\n";

#[test]
fn an_empty_file_is_refused_bare_and_compressed() {
    assert_eq!(error(""), "t: is empty, expected a trace of block I/O");
    let compressed = zstd::encode_all(&b""[..], 1).unwrap();
    let trace = Trace::from_reader("t", Cursor::new(compressed), None, &OpenOptions::default());
    assert!(matches!(trace, Err(TraceError::Empty { .. })));
}

#[test]
fn unknown_format_error_lists_tried_formats_and_first_line() {
    let message = error("\nDear diary,\ntoday I traced nothing.\n");
    assert!(message.contains("line 2 is 'Dear diary,'"), "{message}");
    assert!(message.contains("tried msr spc disksim"), "{message}");
    assert!(message.contains(" lis csv bin;"), "{message}");
    let blank = error("\n\n  \n");
    assert!(blank.contains("every line is blank"), "{blank}");
    let long = error(&"x".repeat(300_000));
    assert!(long.contains("no line ends within 65536 bytes"), "{long}");
}

#[test]
fn a_file_that_is_not_there_or_a_directory_is_named() {
    let message = |path: &str| Trace::open(path, &OpenOptions::default()).err().unwrap().to_string();
    assert!(message("/no/such/trace").starts_with("/no/such/trace: cannot be opened"));
    assert!(message("/").starts_with("/: cannot be opened"));
}

#[test]
fn a_bad_line_names_file_line_field_value_and_what_was_expected() {
    let text = format!("{CSV}0,0,read,8,8,0,\n5,0,read,8,0,0,\n");
    let error = all(&text, &OpenOptions::default()).unwrap_err();
    let remedy = "(--skip-bad-lines leaves such lines out and counts them)";
    assert_eq!(error.to_string(), format!("t:3: size '0': expected at least 1 sector {remedy}"));
    let bad = error.bad_line().unwrap();
    assert_eq!((bad.place, bad.field, bad.value.as_str()), (Place::Line(3), "size", "0"));
}

#[test]
fn bad_lines_are_counted_where_they_may_be_skipped() {
    let text = format!("{CSV}0,0,read,8,8,0,\n5,0,read,8,0,0,\n-1,0,read,8,8,0,\n7,0,write,8,8,0,\n9,0,wri");
    let (requests, skipped) = all(&text, &skipping()).unwrap();
    assert_eq!((requests.len(), skipped), (2, 3));
}

#[test]
fn a_trace_of_bad_lines_only_shows_the_first() {
    let text = format!("{CSV}0,0,read,8,0,0,\n");
    let message = all(&text, &skipping()).unwrap_err().to_string();
    let expected = "t: no request found when read as csv: the first rejected line is t:2: size '0': expected at least 1 \
                    sector";
    assert_eq!(message, expected);
}

#[test]
fn trace_without_requests_shows_the_first_skipped_line() {
    let text = "8,0 0 1 0.5 9 C R 8 + 8 [0]\n8,0 0 1 0.6 9 I R 8 + 8 [x]\n";
    let message = error(text);
    assert!(message.contains("no request found when read as blkparse"), "{message}");
    assert!(message.contains("t:2: '8,0 0 1 0.6 9 I R 8 + 8 [x]'"), "{message}");
}

#[test]
fn the_first_request_is_at_0_and_steps_back_are_sorted() {
    let text = "5,0 1 1 10.5 9 Q R 8 + 8 [x]\n5,0 2 1 10.25 9 Q W 16 + 8 [x]\n5,0 1 2 11.0 9 Q R 24 + 8 [x]\n";
    let (requests, _) = all(text, &OpenOptions::default()).unwrap();
    let seen: Vec<_> = requests.iter().map(|request| (request.arrival.0, request.range.start.0)).collect();
    assert_eq!(seen, [(0, 16), (250_000_000, 8), (750_000_000, 24)]);
}

/// A line whose time is more than 30 days ahead of both neighbours is refused, or skipped with
/// `--skip-bad-lines`.
#[test]
fn time_30_days_ahead_of_both_neighbours_is_a_bad_line() {
    let text = format!("{CSV}0,0,read,8,8,0,\n2700000000000000,0,read,8,8,0,\n5,0,read,8,8,0,\n");
    let message = error(&text);
    assert!(message.starts_with("t:3: time '2700000.000000000 s': expected a time at most 30 days"), "{message}");
    let (requests, skipped) = all(&text, &skipping()).unwrap();
    assert_eq!((requests.len(), skipped), (2, 1));
}

#[test]
fn a_step_back_beyond_the_window_is_a_bad_line() {
    let mut text = CSV.to_owned();
    for time in 1..=65_540 {
        text.push_str(&format!("{time},0,read,8,8,0,\n"));
    }
    text.push_str("1,0,read,8,8,0,\n65541,0,read,8,8,0,\n");
    let message = error(&text);
    assert!(message.starts_with("t:65542: time '0.000000001 s': expected no step back beyond"), "{message}");
    assert_eq!(all(&text, &skipping()).unwrap().1, 1);
}

#[test]
fn the_limit_counts_requests_and_the_device_is_the_only_one() {
    let text = format!("{CSV}0,0,read,8,8,0,\n1,7,read,16,8,0,\n2,7,read,24,8,0,\n3,0,read,32,8,0,\n");
    let options = OpenOptions { limit: Some(2), ..OpenOptions::default() };
    assert_eq!(all(&text, &options).unwrap().0.len(), 2);
    let options = OpenOptions { device: Some(7), ..OpenOptions::default() };
    let (requests, _) = all(&text, &options).unwrap();
    assert_eq!(requests.iter().map(|request| request.arrival.0).collect::<Vec<_>>(), [0, 1]);
}

/// Queue events are the requests if the trace has any. A note names the event that the reader takes
/// as the request.
#[test]
fn queue_events_are_preferred_over_issue_events() {
    let both = "8,0 0 1 0.5 9 Q R 8 + 8 [x]\n8,0 0 2 0.6 9 Q R 16 + 8 [x]\n8,0 0 3 0.7 9 D R 8 + 16 [x]\n";
    let trace = open(both, &OpenOptions::default()).unwrap();
    assert_eq!(trace.event(), Some(Event::Queue));
    assert!(trace.notes()[0].contains("--event issue"), "{:?}", trace.notes());
    assert_eq!(trace.count(), 2);
    let options = OpenOptions { event: Some(Event::Issue), ..OpenOptions::default() };
    assert_eq!(all(both, &options).unwrap().0.len(), 1);
    let issue = "8,0 0 3 0.7 9 D R 8 + 16 [x]\n";
    let trace = open(issue, &OpenOptions::default()).unwrap();
    assert_eq!(trace.event(), Some(Event::Issue));
    assert!(trace.notes()[0].contains("without queue events"), "{:?}", trace.notes());
    let options = OpenOptions { event: Some(Event::Queue), ..OpenOptions::default() };
    let message = all(issue, &options).unwrap_err().to_string();
    assert!(message.contains("only queue events were wanted"), "{message}");
}

/// In a format without events `--event` changes nothing, and a note reports that.
#[test]
fn event_option_is_noted_as_void_without_events() {
    let text = format!("{CSV}0,0,read,8,8,0,\n");
    let options = OpenOptions { event: Some(Event::Issue), ..OpenOptions::default() };
    let trace = open(&text, &options).unwrap();
    assert_eq!(
        (trace.event(), trace.notes()),
        (None, &["the trace has one entry a request: --event changes nothing".to_owned()][..])
    );
    assert_eq!(trace.count(), 1);
}

/// A queue event after a long beginning without any is an error, so that queue and issue events
/// never mix.
#[test]
fn late_queue_event_is_an_error() {
    let mut text = String::new();
    for number in 0..10_000 {
        text.push_str(&format!("8,0 0 {number} {number}.5 9 D R 8 + 16 [some process]\n"));
    }
    text.push_str("8,0 0 1 99999.5 9 Q R 8 + 8 [x]\n");
    let mut trace = open(&text, &OpenOptions::default()).unwrap();
    let error = trace.find_map(Result::err).unwrap();
    assert!(matches!(error, TraceError::LateQueueEvent { place: Place::Line(10_001), .. }), "{error}");
    let options = OpenOptions { event: Some(Event::Issue), ..OpenOptions::default() };
    assert_eq!(all(&text, &options).unwrap().0.len(), 10_000);
}

#[test]
fn a_write_with_a_flush_before_it_is_a_flush_and_a_write() {
    let text = "8,0 0 1 0.5 9 Q FWFSM 64 + 8 [j]\n8,0 0 2 0.6 0 C WFSM 64 + 8 [0]\n";
    let (requests, _) = all(text, &OpenOptions::default()).unwrap();
    let seen: Vec<_> = requests.iter().map(|request| (request.kind, request.fua, request.response.is_some())).collect();
    assert_eq!(seen, [(OpKind::Flush, false, false), (OpKind::Write, true, true)]);
}

#[test]
fn what_content_cannot_tell_is_assumed_aloud() {
    let note = |text: &str| open(text, &OpenOptions::default()).unwrap().notes().join("\n");
    assert!(note("0.5 0 63 8 1\n").contains("read as disksim"));
    assert!(note("0.5 0 8192 4096 1\n").contains("read as linnos"));
    assert!(note("500000 0 63 8 1\n").contains("read as mqsim"));
    let counting: String = (0..40).map(|index| format!("{} 0 {} 8 0\n", index * 20, index * 8 + 63)).collect();
    let trace = open(&counting, &OpenOptions::default()).unwrap();
    assert!(!trace.has_times());
    assert!(trace.notes().join("\n").contains("an index, not a time"));
    assert!(trace.map(Result::unwrap).all(|request| request.arrival.0 == 0));
    assert!(open(&counting, &as_format(&formats::mqsim::INFO)).unwrap().has_times());
    let pages = open("5 1 0 0\n6 2 0 1\n", &OpenOptions::default()).unwrap();
    assert!(!pages.has_times() && !pages.has_operations());
    let notes = pages.notes().join("\n");
    assert!(
        notes.contains("only the order of its requests is known")
            && notes.contains("counts as a read")
            && notes.contains("4 KiB")
    );
}

#[test]
fn a_format_that_is_given_is_held_to() {
    let message = all("hello\n", &as_format(&formats::msr::INFO)).unwrap_err().to_string();
    assert!(message.starts_with("t:1: Timestamp 'hello': expected a whole number (--skip-bad-lines"), "{message}");
    let message = all("hello\n", &as_format(&formats::bin::INFO)).unwrap_err().to_string();
    assert!(message.starts_with("t:record 0 (byte 0): header 'hello"), "{message}");
    assert!(!message.contains("--skip-bad-lines"), "nothing can be read after a wrong header: {message}");
}

#[test]
fn a_cut_off_compressed_trace_is_an_error_at_its_end() {
    let mut text = CSV.to_owned();
    for time in 0..100_000u64 {
        text.push_str(&format!("{time},0,read,{},8,0,\n", time * 7919 % 1_000_003));
    }
    let compressed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let cut = compressed[..compressed.len() / 2].to_vec();
    let errors = Trace::from_reader("t", Cursor::new(cut), None, &skipping()).unwrap().filter_map(Result::err);
    let errors: Vec<_> = errors.map(|error| error.to_string()).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("t: cannot be read after byte"), "{}", errors[0]);
    assert!(errors[0].ends_with(": the compressed file ends too soon, so copy it again"), "{}", errors[0]);
}

#[test]
fn the_bytes_of_the_file_are_counted_for_progress() {
    let text = format!("{CSV}0,0,read,8,8,0,\n");
    let size = text.len() as u64;
    let mut trace =
        Trace::from_reader("t", Cursor::new(text.into_bytes()), Some(size), &OpenOptions::default()).unwrap();
    assert!(trace.next().is_some());
    assert_eq!((trace.bytes_read(), trace.bytes_total()), (size, Some(size)));
}

#[test]
fn devices_with_names_keep_them() {
    let text = "8,0 0 1 0.5 9 Q R 8 + 8 [x]\n8,16 0 1 0.6 9 Q R 8 + 8 [x]\n";
    let mut trace = open(text, &OpenOptions::default()).unwrap();
    assert_eq!(trace.by_ref().map(|request| request.unwrap().device).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(trace.device_name(1).as_deref(), Some("8,16"));
}
