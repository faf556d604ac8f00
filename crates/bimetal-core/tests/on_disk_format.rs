//! The manual's tables of bytes match the bytes that the program reads and writes.

use std::mem::offset_of;

use bimetal_core::journal::format::{
    DroppedBytes, EntryBytes, Head, LifeBytes, LostBytes, RecordBytes, RecordsPage, StatePage, SuperblockPage,
    TablePage,
};
use zerocopy::FromZeros;

/// Fields of a page in order: name, first byte and last byte.
macro_rules! fields {
    ($page:ty: $($field:ident),+) => {
        vec![$((
            offset_of!($page, $field),
            offset_of!($page, $field) + size_of_val(&<$page>::new_zeroed().$field) - 1,
            stringify!($field).to_owned(),
        )),+]
    };
}

/// Rows of the first table below a heading: the first and the last byte, and the field.
fn rows(manual: &str, heading: &str) -> Vec<(usize, usize, String)> {
    let section = manual.split(&format!("\n## {heading}\n")).nth(1).expect("the manual has the heading");
    let lines = section.lines().skip_while(|line| !line.starts_with("| bytes"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (first, last) = cells[1].split_once('–').unwrap_or((cells[1], cells[1]));
        let number = |text: &str| text.parse().expect("a row begins with its bytes");
        (number(first), number(last), cells[2].trim_matches('`').to_owned())
    };
    lines.take_while(|line| line.starts_with('|')).skip(2).map(row).collect()
}

#[test]
fn manual_has_offsets_of_every_page() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/on-disk-format.md");
    let manual = std::fs::read_to_string(path).expect("the manual is in the repository");
    let pages = [
        ("What every page begins with", fields!(Head: magic, version, count, volume, number, life, checksum)),
        ("A page of records", fields!(RecordsPage: head, stable, records)),
        ("A record", fields!(RecordBytes: kind, eighths, is_whole, slot, checksum, block)),
        ("A record of dropped blocks", fields!(DroppedBytes: kind, blocks, first, before)),
        (
            "A superblock",
            fields!(SuperblockPage: head, tail, index_tail, table, marks, has_marks, lives_count, pair, lives, lost),
        ),
        ("A life", fields!(LifeBytes: life, drive, began_at, index_began_at)),
        ("A lost block", fields!(LostBytes: block, eighths)),
        ("A page of the slot table", fields!(TablePage: head, previous, entries)),
        ("An entry of the slot table", fields!(EntryBytes: block, checksum, eighths, state, check)),
        ("A state", fields!(StatePage: head, failed, dirty, migrating, refusing, places, left)),
    ];
    for (heading, declared) in pages {
        assert_eq!(rows(&manual, heading), declared, "{heading}");
    }
}
