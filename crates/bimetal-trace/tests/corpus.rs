//! Replays the fuzzer's corpus, which the project wrote. Every file passes through every reader,
//! and each `good` file is recognised as the format of its folder.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use bimetal_trace::fuzz::{read_any, read_hints};
use bimetal_trace::{Format, OpenOptions, Trace, formats};

/// Returns the files of the corpus with the format of their folder.
fn corpus() -> Vec<(&'static Format, PathBuf)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz-corpus"));
    let mut files = Vec::new();
    for &format in formats::ALL {
        let entries = fs::read_dir(folder.join(format.name)).unwrap();
        files.extend(entries.map(|entry| (format, entry.unwrap().path())));
    }
    files.sort_by(|a, b| a.1.cmp(&b.1));
    files
}

fn is_good(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("good")
}

#[test]
fn no_file_breaks_any_reader() {
    for (format, path) in corpus() {
        let data = fs::read(&path).unwrap();
        let as_itself = read_any(Some(format), &data);
        assert!(as_itself > 0 || !is_good(&path), "{} gives no request", path.display());
        read_any(None, &data);
        for &other in formats::ALL {
            read_any(Some(other), &data);
        }
    }
}

#[test]
fn no_part_of_a_file_breaks_its_reader() {
    for (format, path) in corpus() {
        let data = fs::read(&path).unwrap();
        for length in 0..data.len().min(600) {
            read_any(Some(format), &data[..length]);
        }
    }
}

/// Reads the hints of the corpus, complete and cut at every byte.
#[test]
fn no_part_of_a_file_breaks_the_reader_of_hints() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz-corpus/hints"));
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        assert_eq!(read_hints(&data) > 0, is_good(&path), "{}", path.display());
        (0..data.len()).for_each(|length| assert!(read_hints(&data[..length]) <= read_hints(&data) || !is_good(&path)));
    }
}

#[test]
fn each_format_is_recognised_by_content_but_bare_keys() {
    for (format, path) in corpus().into_iter().filter(|(_, path)| is_good(path)) {
        let trace = Trace::from_reader("corpus", Cursor::new(fs::read(&path).unwrap()), None, &OpenOptions::default());
        if *format == formats::keys32le::INFO {
            let error = trace.err().unwrap().to_string();
            assert!(error.contains("--format keys32le"), "{error}");
            continue;
        }
        // The two formats are read in the same way; see the notes of the trace.
        let expected = if *format == formats::ssdsim::INFO { &formats::mqsim::INFO } else { format };
        assert_eq!(trace.unwrap().format(), expected, "{}", path.display());
    }
}
