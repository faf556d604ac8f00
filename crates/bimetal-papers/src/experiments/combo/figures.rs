//! Figures 1, 4, 7 and 8 of the Combo Drive paper. `crate::combo_hdtune` has figures 5 and 6.

use bimetal_core::operation::OpKind;
use bimetal_core::scheme::FileExtent;
use bimetal_core::units::{Bytes, SECTOR_BYTES};

use super::{BOOT_MARK, BUSY, EMULATED, FRAGMENTS, MARK, Recorded, Times, Traces, extents, is_program};
use crate::claims::Paper;
use crate::experiments::{ExperimentsError, analysis, ratio};
use crate::figure::{Axis, Curve, Figure, Shape, bars, in_percent};
use crate::traces::Loaded;

/// Places of the files in figures 7 and 8: the paper's a-HDD and c-HDD, the Combo Drive, SSD1, and
/// the Combo Drive after the file type optimizer.
const PLACES: [&str; 5] = ["aged HDD", "HDD", "Combo Drive", "SSD1", "optimized"];

/// Seconds of a start in sections 5.2 and 5.3, in the order of [`PLACES`].
const WINDOWS: [Option<f64>; 5] = [Some(224.0), Some(19.0), Some(20.0), Some(17.0), Some(17.0)];
const WORD: [Option<f64>; 5] = [Some(29.03), Some(4.15), None, Some(2.82), Some(2.79)];

/// Maps of files of figure 4.
const MAPS: [&str; 3] = ["program-start", "office-start", "desktop"];

/// File types of the disk in table 1.
const DATA: [&str; 8] = ["jpg", "pdf", "wmv", "wma", "mp3", "java", "doc", "xls"];

pub(in crate::experiments) fn figures(traces: &Traces) -> Result<Vec<Figure>, ExperimentsError> {
    Ok(vec![usage(traces)?, types(traces)?, boot(traces)?, office(traces)?])
}

/// Share of a laptop's disk that was modified within a week: 1.1 of 120 GB (section 2).
const MODIFIED: f64 = 1.1 / 120.0;

/// Combo Drive's figure 1: the share of the disk that is used.
fn usage(traces: &Traces) -> Result<Figure, ExperimentsError> {
    let (desktop, files) = (traces.shipped("desktop")?, extents(&traces.file_map("desktop")?));
    let stored = files.iter().map(|file| file.sectors.len.0 * SECTOR_BYTES).sum::<u64>();
    let share = |kind| -> Result<Option<f64>, ExperimentsError> {
        let requests = desktop.requests.iter().filter(|request| request.kind == kind).copied().collect();
        let touched = analysis(&Loaded::generated(requests))?.footprint_bytes;
        Ok(in_percent(ratio(Some(touched as f64), Some(stored as f64))))
    };
    let ours = [share(OpKind::Write)?, share(OpKind::Read)?];
    let curves = vec![
        Curve::paper("a week of a laptop", "section 2", 0, &[(0.0, MODIFIED * 100.0)]).drawn_as(Shape::Bars),
        Curve::ours("three hours of a desktop", 0, bars(&ours)).drawn_as(Shape::Bars),
    ];
    let note = "The paper has the share of the disk, and its text has no share of the reads. Ours is the share of the \
                bytes of all files.";
    Ok(Figure {
        paper: Paper::Combo,
        number: "figure 1",
        title: "Usage of a disk",
        x: Axis::names("", &["modified", "read"]),
        y: Axis::linear("% of the bytes"),
        curves,
        note: note.to_owned(),
    })
}

/// Combo Drive's figure 4.
fn types(traces: &Traces) -> Result<Figure, ExperimentsError> {
    let mut curves = Vec::new();
    for (colour, name) in (0..).zip(MAPS) {
        let files = extents(&traces.file_map(name)?);
        let gib = |is_wanted: &dyn Fn(&FileExtent) -> bool| {
            let sectors = files.iter().filter(|file| is_wanted(file)).map(|file| file.sectors.len.0).sum::<u64>();
            Some((sectors * SECTOR_BYTES) as f64 / Bytes::from_gib(1).0 as f64)
        };
        let is_data = |path: &str| path.rsplit_once('.').is_some_and(|(_, ending)| DATA.contains(&ending));
        let kinds = [
            gib(&|file| is_program(&file.path)),
            gib(&|file| !is_program(&file.path) && is_data(&file.path)),
            gib(&|file| !file.path.is_empty() && !is_program(&file.path) && !is_data(&file.path)),
        ];
        curves.push(Curve::ours(name, colour, bars(&kinds)).drawn_as(Shape::Bars));
    }
    let note = "The text of the paper has no bar of this figure. Ours are the maps of files of three recordings.";
    Ok(Figure {
        paper: Paper::Combo,
        number: "figure 4",
        title: "Distribution of file types",
        x: Axis::names("", &["programs, libraries", "data of table 1", "other files"]),
        y: Axis::linear("GiB"),
        curves,
        note: note.to_owned(),
    })
}

/// Returns the times of starts relative to SSD1, in the order of [`PLACES`].
fn relative(times: &Times, think: f64) -> [Option<f64>; 5] {
    let Times { hdd, ssd, plain, optimized, aged } = times;
    let ssd_s = ssd.seconds + think;
    [aged[1], hdd.seconds, plain.seconds, ssd.seconds, optimized.seconds].map(|seconds| Some((seconds + think) / ssd_s))
}

/// Returns a figure of starts: the paper's, and ours with each share of the think time.
fn starts(
    [number, title]: [&'static str; 2],
    (place, seconds): (&'static str, &[Option<f64>; 5]),
    (times, think, parts): (&Times, f64, [f64; 3]),
    note: &str,
) -> Figure {
    let ssd = seconds[3];
    let paper = seconds.map(|seconds| Some(seconds? / ssd?));
    let mut curves = vec![Curve::paper("start", place, 1, &bars(&paper)).drawn_as(Shape::Bars)];
    for (colour, part) in [0, 2, 3].into_iter().zip(parts) {
        let name = format!("{:.0} % of the think time", part * 100.0);
        let bars = bars(&relative(times, think * part));
        curves.push(Curve::ours(&name, colour, bars).drawn_as(Shape::Bars));
    }
    let y = Axis::logarithmic("time of a start, SSD1 = 1");
    Figure { paper: Paper::Combo, number, title, x: Axis::names("", &PLACES), y, curves, note: note.to_owned() }
}

/// Combo Drive's figure 7.
fn boot(traces: &Traces) -> Result<Figure, ExperimentsError> {
    let heads = ["figure 7", "Start of the system"];
    let paper = ("section 5.2", &WINDOWS);
    let recorded = Recorded::of(traces, "boot", Bytes::from_gib(4), BOOT_MARK)?;
    let times = recorded.times()?;
    Ok(starts(heads, paper, (&times, recorded.think, EMULATED), &of_fragments()))
}

/// Combo Drive's figure 8.
fn office(traces: &Traces) -> Result<Figure, ExperimentsError> {
    let recorded = Recorded::of(traces, "office-start", Bytes::from_gib(2), MARK)?;
    let times = recorded.times()?;
    let note = format!("The paper has no time of the Combo Drive without optimizer. {}", of_fragments());
    let ours = (&times, recorded.think, BUSY);
    Ok(starts(["figure 8", "Start of a word processor"], ("section 5.3", &WORD), ours, &note))
}

/// Returns the choice of an aged disk as text.
fn of_fragments() -> String {
    format!("Our aged disk has fragments of {} on average.", FRAGMENTS[1])
}
