//! Figures 5.1 to 5.6 and 5.9 to 5.13 of Konanki's thesis. `crate::wear_levelling` has figures 5.7
//! and 5.8.
//!
//! Our choices are those of the claims: requests with the sizes and the randomness of the thesis's
//! tables, one after another. 10,000 requests are drawn.

use bimetal_core::operation::OpKind;
use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;
use bimetal_sim::simulator::Replay;
use bimetal_trace::Request;
use rayon::prelude::*;

use super::{DIA, FIREFOX, Loaded, MP3, OF_STICK, Plan, REQUESTS, STICK, Table, WorkloadSpec};
use super::{Generator, disk, hybrid_on};
use crate::claims::Paper;
use crate::experiments::{CLOSED, ExperimentsError};
use crate::figure::{Axis, Curve, Figure, Shape, response_times};

/// Text for a figure without any point in the text of the thesis.
const NO_POINT: &str = "The text of the thesis has no point of this figure.";

/// Text for a figure of whose curves the text of the thesis has only some points.
const NO_OTHER: &str = "The text of the thesis has no other point of this figure.";

const UNTAR: Table = Table { sizes: [0.09, 0.05, 0.09, 0.16, 0.28, 0.20, 0.13], randomness: 0.947 };
const POSTMARK: Table = Table { sizes: [0.62, 0.23, 0.10, 0.04, 0.01, 0.0, 0.0], randomness: 0.998 };

/// Workloads of tables 5.1 and 5.2: shares of requests of up to 8, 16, 32, 64, 128 and 256 sectors,
/// and randomness.
const VALIDATION: [(&str, [f64; 6], f64); 5] = [
    ("Bonnie", [0.02, 0.0, 0.03, 0.0, 0.0, 0.95], 0.061),
    ("Download", [0.01, 0.0, 0.02, 0.0, 0.0, 0.97], 0.064),
    ("MP3", [0.01, 0.0, 0.01, 0.01, 0.02, 0.95], 0.105),
    ("Untar", [0.22, 0.03, 0.04, 0.07, 0.11, 0.53], 0.669),
    ("Postmark", [0.39, 0.24, 0.20, 0.10, 0.04, 0.03], 0.98),
];

/// Footprint of the workloads of table 5.1: half of the stick.
const VALIDATED: Bytes = Bytes::from_mib(512);

/// A figure of section 5.5: number, title, workload, and the points of the disk and of the hybrid
/// with ANAND in the text.
type Compared = (&'static str, &'static str, Table, [&'static [(f64, f64)]; 2], &'static str);

/// Figures of section 5.5.
const COMPARED: [Compared; 5] = [
    ("figure 5.9", "Response times, Firefox", FIREFOX, [&[(10.0, 30.0)], &[(10.0, 50.0)]], NO_OTHER),
    ("figure 5.10", "Response times, Dia", DIA, [&[(10.0, 91.0)], &[(10.0, 75.0)]], NO_OTHER),
    ("figure 5.11", "Response times, MP3", MP3, [&[], &[]], NO_POINT),
    (
        "figure 5.12",
        "Response times, Untar",
        UNTAR,
        [&[], &[]],
        "The text of the thesis has no point: 50 % of the requests are completed alike, within a time that it does not \
         name.",
    ),
    ("figure 5.13", "Response times, Postmark", POSTMARK, [&[], &[]], NO_POINT),
];

/// Size of the file of figure 5.6, and of its requests, in sectors.
const FILE: Bytes = Bytes(100_000_000 / 131_072 * 131_072);
const FILE_REQUEST: u64 = 256;

pub(in crate::experiments) fn figures() -> Result<Vec<Figure>, ExperimentsError> {
    let (validated, compared) = rayon::join(validated, || {
        COMPARED.par_iter().with_max_len(1).map(compared).collect::<Result<Vec<_>, ExperimentsError>>()
    });
    let mut figures = vec![validated?, offloaded()?];
    figures.extend(compared?);
    Ok(figures)
}

fn figure(number: &'static str, title: &'static str, curves: Vec<Curve>, note: &str) -> Figure {
    let (x, y) = (Axis::logarithmic("response time, ms"), Axis::linear("% of requests"));
    Figure { paper: Paper::Konanki, number, title, x, y, curves, note: note.to_owned() }
}

fn times(run: &Run) -> Vec<(f64, f64)> {
    response_times(&run.series.response_time_cdf.all)
}

/// Plays requests on the stick of the thesis's section 5.3.
fn on_stick(trace: &Loaded) -> Result<Run, ExperimentsError> {
    Plan::new("ssd-only").ssd(STICK).set(&[("ssd.ftl", "anand")]).play(trace, CLOSED)
}

/// Konanki's figures 5.1 to 5.5.
fn validated() -> Result<Figure, ExperimentsError> {
    let curve = |(colour, (name, sizes, randomness)): (usize, &(&str, [f64; 6], f64))| {
        let sizes = (0..).zip(sizes).filter(|(_, share)| **share > 0.0);
        let sizes: Vec<String> = sizes.map(|(power, share)| format!("{}KiB:{share}", 4_u64 << power)).collect();
        let spec = WorkloadSpec {
            read_fraction: 0.0,
            size: sizes.join(",").parse()?,
            sequential: 1.0 - randomness,
            ..WorkloadSpec::new(REQUESTS[1], VALIDATED)
        };
        let trace = Loaded::generated(Generator::new(&[spec], 1)?.collect());
        Ok(Curve::ours(name, colour, times(&on_stick(&trace)?)))
    };
    let curves = VALIDATION.par_iter().enumerate().with_max_len(1).map(curve);
    let curves = curves.collect::<Result<Vec<_>, ExperimentsError>>()?;
    let note = format!("{NO_POINT} It says that the measured and the simulated curves match closely.");
    Ok(figure("figures 5.1 to 5.5", "Response times of the stick", curves, &note))
}

/// Konanki's figure 5.6: a file is written to flash, read from flash, and written to the disk.
fn offloaded() -> Result<Figure, ExperimentsError> {
    let spec = |reads| WorkloadSpec {
        read_fraction: reads,
        sequential: 1.0,
        ..WorkloadSpec::new(FILE.sectors().0 / FILE_REQUEST, FILE)
    };
    let spec = |reads| -> Result<Vec<Request>, ExperimentsError> {
        let spec = WorkloadSpec { size: "128KiB".parse()?, ..spec(reads) };
        Ok(Generator::new(&[spec], 1)?.collect())
    };
    let written = spec(0.0)?;
    let read = written.iter().map(|request| Request { kind: OpKind::Read, ..*request });
    let both: Vec<Request> = written.iter().copied().chain(read).collect();
    let on_flash = on_stick(&Loaded::generated(both))?;
    let on_disk = disk(&Loaded::generated(written), 1)?;
    let cdf = &on_flash.series.response_time_cdf;
    let curves = vec![
        Curve::ours("written to the stick", 0, response_times(&cdf.write)),
        Curve::ours("read from the stick", 3, response_times(&cdf.read)),
        Curve::ours("written to the disk", 2, times(&on_disk)),
    ];
    Ok(figure("figure 5.6", "A file of 100 MB goes through flash to the disk", curves, NO_POINT))
}

/// Konanki's figures 5.9 to 5.13.
fn compared((number, title, table, [of_disk, of_hybrid], note): &Compared) -> Result<Figure, ExperimentsError> {
    let trace = table.requests(REQUESTS[1], OF_STICK)?;
    let hybrid = |ftl| hybrid_on(ftl).play(&trace, Replay::Closed { depth: 1 });
    let curves = [
        ("disk", 1, disk(&trace, 1)?, *of_disk),
        ("hybrid, ANAND", 0, hybrid("anand")?, *of_hybrid),
        ("hybrid, FMAX", 2, hybrid("fmax")?, &[]),
    ];
    let mut all = Vec::new();
    for (name, colour, run, points) in curves {
        all.push(Curve::ours(name, colour, times(&run)));
        if !points.is_empty() {
            all.push(Curve::paper(name, "section 5.5", colour, points).drawn_as(Shape::Points));
        }
    }
    Ok(figure(number, title, all, note))
}
