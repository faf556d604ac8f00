//! `bimetal dump`: prints every page of a volume's metadata as a line of JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt;

use bimetal_core::journal::page::{PAGE_BYTES, Page, pages};
use bimetal_core::journal::record::{self, Kind, Record};
use bimetal_core::journal::state::State;
use bimetal_core::journal::superblock::{Pair, Superblock};
use bimetal_core::journal::{PAGE_SECTORS, SLOTS_PER_TABLE_PAGE, marks_pages, marks_place, table};
use bimetal_core::label::lifetime::Lifetime;
use bimetal_core::label::page as label_page;
use bimetal_core::label::report::Report;
use bimetal_core::layout::{LABEL_SECTORS, Layout, MemberId, SlotKind};
use bimetal_core::places;
use bimetal_core::schemes;
use bimetal_core::units::{SECTOR_BYTES, SectorRange};
use bimetal_volumes::find::{Labelled, find};
use bimetal_volumes::lost::{kind_name, state_name};
use bimetal_volumes::plan::Plan;
use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 4 << 20;

/// Print all metadata of a volume as JSON lines
///
/// One line for each page that can be read, with the member and the sector of the page: labels,
/// reports, totals, states, superblocks, pages of the ring, the slot table, marks, places, the
/// log's index, and the heads and feet of its segments, in both copies. docs/on-disk-format.md
/// describes the fields. Nothing is written. A volume that is being served may change while it is
/// printed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal dump mail > mail.jsonl\n  \
    bimetal dump mail | jq 'select(.kind == \"superblock\")'")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let located = find(&arguments.volume)?;
    let label = &located.assembly.label;
    let scheme = schemes::find(&label.scheme)
        .ok_or_else(|| Error::new(format!("scheme '{}' is not known: use a newer bimetal", label.scheme)))?;
    let layout = Plan::of(label, scheme)
        .map_err(|error| Error::new(error.to_string()))?
        .lay_out()
        .map_err(|error| Error::new(error.to_string()))?;
    let mut out = BufWriter::new(io::stdout().lock());
    for (at, drive) in located.members().enumerate() {
        let Some(drive) = drive else { continue };
        let member = MemberId(at as u16);
        for part in parts(&layout, member, drive) {
            let name = label.member_name(member);
            dump(&part, &name, drive, &mut out).map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Error::OutputClosed,
                _ => Error::new(format!("{}: {error}", drive.probe.path.display())),
            })?;
        }
    }
    out.flush().map_err(|_| Error::OutputClosed)
}

/// A range of a drive, and the distance between the starts of its pages, both in sectors.
struct Part {
    range: SectorRange,
    step: u64,
    /// Set for marks, which are bits without a header.
    is_marks: bool,
}

fn parts(layout: &Layout, member: MemberId, drive: &Labelled) -> Vec<Part> {
    let page = PAGE_SECTORS;
    let mut parts = Vec::new();
    if let Some(slots) = layout.slots.filter(|slots| slots.member == member)
        && matches!(slots.kind, SlotKind::Log { .. })
    {
        let step = layout.block.sectors();
        parts.push(Part {
            range: SectorRange::new(slots.first_sector, u64::from(slots.count) * step),
            step,
            is_marks: false,
        });
    }
    if let Some(metadata) = layout.metadata.filter(|metadata| metadata.member == member) {
        let all = SectorRange::new(metadata.first_sector, metadata.sectors);
        parts.push(Part { range: all, step: page, is_marks: false });
        if let Some(slots) = layout.slots.filter(|slots| matches!(slots.kind, SlotKind::Cache)) {
            let pages = marks_pages(layout.total_blocks());
            let place = |turn| marks_place(metadata.first_sector, slots.count.into(), pages, turn);
            parts.extend([0, 1].map(|turn| Part { range: place(turn), step: page, is_marks: true }));
        }
    }
    let engine = layout.tails[usize::from(member.0)];
    let own = drive.found.size.0.saturating_sub(LABEL_SECTORS);
    let mut tails = vec![engine, own];
    tails.dedup();
    parts.extend(tails.into_iter().map(|start| Part {
        range: SectorRange::new(start, LABEL_SECTORS),
        step: page,
        is_marks: false,
    }));
    parts
}

fn dump(part: &Part, member: &str, drive: &Labelled, out: &mut impl io::Write) -> io::Result<()> {
    let file = File::open(&drive.probe.canonical)?;
    let (mut at, end) = (part.range.start.0, part.range.end().0);
    while at < end {
        let sectors = (end - at).min(CHUNK_BYTES as u64 / SECTOR_BYTES);
        let mut bytes = vec![0; (sectors * SECTOR_BYTES) as usize];
        if file.read_exact_at(&mut bytes, at * SECTOR_BYTES).is_err() {
            bytes = read_pages(&file, at, &bytes);
        }
        for (number, page) in pages(&bytes).enumerate() {
            let sector = at + number as u64 * PAGE_SECTORS;
            if !(sector - part.range.start.0).is_multiple_of(part.step) {
                continue;
            }
            let line = if part.is_marks { of_marks(page, number as u64) } else { describe(page) };
            if let Some(mut line) = line {
                (line["member"], line["sector"]) = (json!(member), json!(sector));
                writeln!(out, "{line}")?;
            }
        }
        at += sectors;
    }
    Ok(())
}

/// Reads page by page; a page that cannot be read becomes zeroes.
fn read_pages(file: &File, first: u64, whole: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(whole.len());
    for at in 0..whole.len() / PAGE_BYTES {
        let mut page = [0; PAGE_BYTES];
        let start = first * SECTOR_BYTES + (at * PAGE_BYTES) as u64;
        if file.read_exact_at(&mut page, start).is_err() {
            page = [0; PAGE_BYTES];
        }
        bytes.extend_from_slice(&page);
    }
    bytes
}

/// Returns the meaning of a metadata page, `None` for other content. A page with the first bytes of
/// metadata that cannot be decoded is reported as damaged.
fn describe(page: &Page) -> Option<Value> {
    match &page[..4] {
        b"BIms" => Some(Superblock::decode(page).map_or_else(damaged, |superblock| of_superblock(&superblock))),
        b"BImt" => Some(State::decode(page).map_or_else(damaged, |(_, state, version)| of_state(&state, version))),
        b"BItb" => Some(of_table(page)),
        b"BIml" => Some(label_page::decode(page).map_or_else(damaged, |label| {
            json!({"kind": "label", "name": label.name, "generation": label.generation, "scheme": label.scheme,
                   "index": label.index.0, "format": label.format.number()})
        })),
        b"BImj" => Some(of_records("ring", Kind::Ring, page)),
        b"BImh" => Some(of_records("head", Kind::Head, page)),
        b"BImf" => Some(of_records("foot", Kind::Foot, page)),
        b"BImx" => Some(of_records("index", Kind::Index, page)),
        b"BIpl" => Some(places::decode_page(page).map_or_else(
            damaged,
            |page| json!({"kind": "places", "number": page.number, "version": page.version, "places": page.places}),
        )),
        b"BIlf" => Some(Lifetime::decode(page).map_or_else(damaged, |(_, totals)| {
            json!({"kind": "lifetime", "sequence": totals.sequence, "written_bytes": totals.written.0,
                   "served_s": totals.served_s})
        })),
        b"BIrp" => Some(Report::decode(page).map_or_else(damaged, |(_, report)| of_report(&report))),
        _ => None,
    }
}

/// Returns the marked regions of page `number` of an area of marks; `None` if the page has no
/// marked region.
fn of_marks(page: &Page, number: u64) -> Option<Value> {
    let bits = page
        .iter()
        .enumerate()
        .flat_map(|(at, byte)| (0..8).filter(move |bit| byte & 1 << bit != 0).map(move |bit| 8 * at + bit));
    let first = number * 8 * PAGE_BYTES as u64;
    let regions: Vec<u64> = bits.map(|bit| first + bit as u64).collect();
    (!regions.is_empty()).then(|| json!({"kind": "marks", "regions": regions}))
}

fn damaged(error: impl ToString) -> Value {
    json!({"kind": "damaged", "error": error.to_string()})
}

fn of_superblock(superblock: &Superblock) -> Value {
    let lives = superblock.lives.iter().map(|life| {
        json!({"life": life.number, "drive": life.drive, "began_at": life.began_at,
               "index_began_at": life.index_began_at})
    });
    let lost = superblock.lost.iter().map(|(block, eighths)| json!({"block": block.0, "eighths": eighths.0}));
    let pair = match superblock.pair {
        Pair::First => Some("first"),
        Pair::Second => Some("second"),
        Pair::Unknown => None,
    };
    json!({"kind": "superblock", "sequence": superblock.sequence, "pair": pair, "tail": superblock.tail,
           "index_tail": superblock.index_tail, "table": superblock.table, "marks": superblock.marks,
           "lives": lives.collect::<Vec<_>>(), "lost": lost.collect::<Vec<_>>()})
}

fn of_state(state: &State, version: u16) -> Value {
    json!({"kind": "state", "version": version, "sequence": state.sequence, "failed": state.failed,
           "dirty": state.dirty, "migrating": state.migrating, "refusing": state.refusing.is_some(),
           "places": state.places})
}

fn of_report(report: &Report) -> Value {
    let findings = report.findings().map(|finding| {
        json!({"block": finding.run.first.0, "blocks": finding.run.count, "kind": kind_name(finding.kind),
               "state": state_name(finding.state), "member": finding.member.0,
               "acknowledged": finding.acknowledged})
    });
    json!({"kind": "report", "sequence": report.sequence, "checksum_errors": report.checksum_errors,
           "doubtful": report.doubtful, "findings": findings.collect::<Vec<_>>()})
}

fn of_table(page: &Page) -> Value {
    let header = match table::decode_header(page) {
        Ok(header) => header,
        Err(error) => return damaged(error),
    };
    let first = u64::from(header.index) * SLOTS_PER_TABLE_PAGE;
    let entries = (first..).zip(table::decode_entries(page)).filter_map(|(slot, entry)| {
        let entry = entry.ok()??;
        Some(json!({"slot": slot, "block": entry.block.0, "eighths": entry.valid.0, "dirty": entry.dirty,
                    "checksum": entry.checksum}))
    });
    json!({"kind": "table", "index": header.index, "generation": header.generation, "previous": header.previous,
           "entries": entries.collect::<Vec<_>>()})
}

fn of_records(kind: &str, of: Kind, page: &Page) -> Value {
    let (header, records) = match record::decode_page(of, page) {
        Ok(found) => found,
        Err(error) => return damaged(error),
    };
    let records = records.iter().map(|record| match *record {
        Record::Map { block, slot, valid, dirty, checksum, .. } => {
            json!({"map": block.0, "slot": slot.0, "eighths": valid.0, "dirty": dirty, "checksum": checksum})
        }
        Record::Home { block } => json!({"home": block.0}),
        Record::Dropped { first, count, before } => json!({"dropped": first.0, "blocks": count, "before": before}),
        Record::Intent { region } => json!({"intent": region}),
        Record::Lost { block, eighths } => json!({"lost": block.0, "eighths": eighths.0}),
        Record::Void { block, slot, valid } => json!({"void": block.0, "slot": slot.0, "eighths": valid.0}),
    });
    json!({"kind": kind, "number": header.number, "life": header.life, "stable": header.stable,
           "records": records.collect::<Vec<_>>()})
}
