//! An invented document with plausible figures, for tests of code that shows a document.

use bimetal_measure::durations::Cdf;
use bimetal_measure::response_time::CdfByKind;
use bimetal_models::endurance::LimitedBy;
use bimetal_sim::results::{Document, LatencySeries, Member, MemberFigures, Provenance, Run, TimeSeries, TraceSummary};

/// Number of time buckets in the invented series.
const BUCKETS: usize = 300;

/// Figures from which the run of an invented scheme is drawn.
struct Shape {
    scheme: &'static str,
    /// Median response time of reads and of writes in milliseconds.
    median_ms: (f64, f64),
    /// Length of the tail: the standard deviation of the logarithm of response times.
    spread: f64,
    ssd_gib: f64,
    hdd_gib: f64,
    written_gib: f64,
    amplification: f64,
    life_years: f64,
    savings_and_penalty: Option<(f64, f64)>,
    read_hits: Option<f64>,
    cost: (f64, f64),
    dirty_mib: Option<f64>,
    queue: f64,
}

/// Returns a document with six schemes over an invented week of a server.
pub(crate) fn document() -> Document {
    let trace = TraceSummary {
        name: "traces/mail-server.csv.zst".into(),
        format: "msr".into(),
        requests: 1_433_655,
        reads: 585_000,
        writes: 848_000,
        flushes: 600,
        discards: 55,
        read_bytes: 18 << 30,
        write_bytes: 31 << 30,
        footprint_bytes: 12 << 30,
        duration_s: 604_800.5,
        skipped_lines: 3,
        address_end_bytes: Some((278 << 30) + 4096),
        devices: Some(1),
        capacity_bytes: None,
    };
    let command = "bimetal compare traces/mail-server.csv.zst --schemes all --report report.html".to_owned();
    let options =
        [("block", "4KiB"), ("replay", "timed, speedup 1")].map(|(key, value)| (key.into(), value.into())).into();
    let runs = shapes().iter().map(run).collect();
    let bimetal = "0.1.0".into();
    Document { bimetal, command: Some(command), options, trace, runs, ..Document::default() }
}

fn shapes() -> [Shape; 6] {
    let base = Shape {
        scheme: "ssd-only",
        median_ms: (0.09, 0.03),
        spread: 0.6,
        ssd_gib: 280.0,
        hdd_gib: 0.0,
        written_gib: 31.0,
        amplification: 1.31,
        life_years: 14.2,
        savings_and_penalty: Some((0.0, 0.0)),
        read_hits: None,
        cost: (31.2, 0.0),
        dirty_mib: None,
        queue: 0.02,
    };
    [
        Shape { ..base },
        Shape {
            scheme: "hdd-only",
            median_ms: (9.1, 7.4),
            spread: 1.1,
            ssd_gib: 0.0,
            hdd_gib: 280.0,
            written_gib: 0.0,
            savings_and_penalty: None,
            cost: (0.0, 6.1),
            queue: 140.0,
            ..base
        },
        Shape {
            scheme: "combo",
            median_ms: (4.0, 3.2),
            spread: 1.9,
            ssd_gib: 28.0,
            hdd_gib: 252.0,
            written_gib: 5.4,
            amplification: 1.8,
            life_years: 8.0,
            savings_and_penalty: None,
            read_hits: Some(0.31),
            cost: (3.1, 5.5),
            queue: 2.0,
            ..base
        },
        Shape {
            scheme: "smart-response",
            median_ms: (0.3, 0.05),
            spread: 1.6,
            ssd_gib: 1.2,
            hdd_gib: 280.0,
            written_gib: 44.0,
            amplification: 1.12,
            life_years: 0.3,
            savings_and_penalty: None,
            read_hits: Some(0.62),
            cost: (0.13, 6.1),
            dirty_mib: Some(700.0),
            queue: 0.8,
        },
        Shape {
            scheme: "hybrid-disk",
            median_ms: (6.2, 0.04),
            spread: 1.4,
            ssd_gib: 1.2,
            hdd_gib: 280.0,
            written_gib: 27.0,
            amplification: 1.0,
            life_years: 0.52,
            savings_and_penalty: None,
            read_hits: Some(0.18),
            cost: (0.13, 6.1),
            dirty_mib: Some(900.0),
            queue: 1.3,
        },
        Shape {
            scheme: "griffin",
            median_ms: (0.12, 0.02),
            spread: 1.2,
            hdd_gib: 16.0,
            written_gib: 12.6,
            amplification: 1.2,
            life_years: 38.0,
            savings_and_penalty: Some((0.594, 0.081)),
            cost: (31.2, 0.4),
            dirty_mib: Some(240.0),
            queue: 0.1,
            ..base
        },
    ]
}

fn run(shape: &Shape) -> Run {
    let gib = |size: f64| (size * (1u64 << 30) as f64) as u64;
    let mut run = Run {
        ssd: (shape.ssd_gib > 0.0).then(|| "tlc-960".into()),
        hdd: (shape.hdd_gib > 0.0).then(|| "hdd-7200".into()),
        ssd_bytes: (shape.ssd_gib > 0.0).then(|| gib(shape.ssd_gib)),
        hdd_bytes: (shape.hdd_gib > 0.0).then(|| gib(shape.hdd_gib)),
        exported_bytes: gib(280.0),
        queue_depth_mean: Some(shape.queue),
        write_savings: shape.savings_and_penalty.map(|pair| pair.0),
        read_penalty: shape.savings_and_penalty.map(|pair| pair.1),
        ..Run::named(shape.scheme)
    };
    run.settings.insert("timeout".into(), "900s".into());
    run.settings.insert("migration_size".into(), "off".into());
    run.assumed.insert("precondition".into(), "sequential".into());
    run.assumed.insert("ssd".into(), "tlc-960".into());
    run.bypass.insert("sequential stream".into(), 12_345);
    run.ssd_hit_ratio.read = shape.read_hits;
    response_times(&mut run, shape);
    devices(&mut run, shape);
    over_time(&mut run, shape);
    run
}

fn response_times(run: &mut Run, shape: &Shape) {
    let read = curve(shape.median_ms.0, shape.spread, 585_000.0);
    let write = curve(shape.median_ms.1, shape.spread, 848_000.0);
    let mut all = Cdf::default();
    for ms in read.ms.iter().chain(&write.ms) {
        all.ms.push(*ms);
    }
    all.ms.sort_by(f64::total_cmp);
    let below =
        |cdf: &Cdf, ms: f64| cdf.ms.iter().rposition(|other| *other <= ms).map_or(0, |index| cdf.requests[index]);
    all.requests = all.ms.iter().map(|ms| below(&read, *ms) + below(&write, *ms)).collect();
    for (figures, cdf) in [
        (&mut run.response_time_ms.read, &read),
        (&mut run.response_time_ms.write, &write),
        (&mut run.response_time_ms.all, &all),
    ] {
        let total = *cdf.requests.last().expect("the curve has points") as f64;
        let at = |share: f64| {
            cdf.requests.iter().position(|requests| *requests as f64 >= share * total).map(|index| cdf.ms[index])
        };
        let mut before = 0;
        let mut sum = 0.0;
        for (ms, requests) in cdf.ms.iter().zip(&cdf.requests) {
            sum += ms * (requests - before) as f64;
            before = *requests;
        }
        figures.mean = Some(sum / total);
        (figures.p50, figures.p90, figures.p95) = (at(0.5), at(0.9), at(0.95));
        (figures.p99, figures.p999, figures.p9999, figures.max) = (at(0.99), at(0.999), at(0.9999), at(1.0));
    }
    run.series.response_time_cdf = CdfByKind { all, read, write };
}

/// Returns a curve shaped like a logistic distribution of logarithms.
fn curve(median_ms: f64, spread: f64, requests: f64) -> Cdf {
    let mut cdf = Cdf::default();
    for step in -60..=100 {
        let deviation = f64::from(step) / 10.0;
        cdf.ms.push(median_ms * (deviation * spread * 0.6).exp());
        cdf.requests.push((requests / (1.0 + (-deviation * 1.6).exp())).round() as u64);
    }
    *cdf.requests.last_mut().expect("the curve has points") = requests as u64;
    cdf
}

fn devices(run: &mut Run, shape: &Shape) {
    let ssd = &mut run.devices.ssd;
    if shape.ssd_gib > 0.0 {
        ssd.write_bytes = Some((shape.written_gib * (1u64 << 30) as f64) as u64);
        ssd.busy_fraction = Some(0.02);
        ssd.flash.write_amplification = Some(shape.amplification);
        ssd.flash.lifetime_years = Some(shape.life_years);
        ssd.flash.lifetime_unlimited = Some(false);
        ssd.flash.lifetime_limited_by = Some(LimitedBy::Warranty);
        ssd.flash.erases = Some(4000);
        ssd.flash.blocks_by_erases = Some([(0, 600), (1, 2400), (2, 700), (5, 40)].into());
        run.members.push(member("ssd", "home", MemberFigures::Ssd(Box::new(ssd.clone())), shape.ssd_gib, shape.cost.0));
        run.cost.ssd_usd = Some(shape.cost.0);
    }
    if shape.hdd_gib > 0.0 {
        let hdd = &mut run.devices.hdd;
        hdd.busy_fraction = Some((shape.queue / (1.0 + shape.queue)).min(0.99));
        hdd.seeks = Some(123_456);
        run.members.push(member("hdd", "home", MemberFigures::Hdd(*hdd), shape.hdd_gib, shape.cost.1));
        run.cost.hdd_usd = Some(shape.cost.1);
    }
    run.cost.total_usd = Some(shape.cost.0 + shape.cost.1);
    run.cost.usd_per_gb = Some((shape.cost.0 + shape.cost.1) / 300.6);
}

fn member(id: &str, role: &str, figures: MemberFigures, gib: f64, price: f64) -> Member {
    Member {
        id: id.into(),
        volume: None,
        role: role.into(),
        profile: format!("{id}-profile"),
        bytes: (gib * (1u64 << 30) as f64) as u64,
        drives: 1,
        bought_bytes: 0,
        metadata_bytes: 1 << 20,
        figures,
        provenance: Provenance {
            description: Some("A drive made up for tests".into()),
            source: Some("no data sheet".into()),
            price_usd: Some(price),
            price_source: Some("no shop".into()),
            price_date: Some("2026-01-01".into()),
        },
    }
}

fn over_time(run: &mut Run, shape: &Shape) {
    let bucket_s = 604_800.5 / BUCKETS as f64;
    let wave =
        |index: usize, phase: f64| 1.0 + 0.8 * (index as f64 / 21.0 + phase).sin() + 0.3 * (index as f64 / 2.3).sin();
    let mean = run.response_time_ms.all.mean.expect("set before");
    let values = |scale: f64| (0..BUCKETS).map(|index| (scale * wave(index, scale)).max(0.0)).collect::<Vec<_>>();
    run.series.latency = LatencySeries {
        start_s: 0.0,
        bucket_s,
        requests: vec![4778; BUCKETS],
        mean_ms: values(mean)
            .into_iter()
            .enumerate()
            .map(|(i, ms)| (i % 97 != 5).then_some(ms + mean / 10.0))
            .collect(),
        p99_ms: values(mean * 9.0).into_iter().map(|ms| Some(ms + mean)).collect(),
    };
    let series = |values: Vec<f64>| TimeSeries { start_s: 0.0, bucket_s, values };
    run.series.queue_depth = Some(series(values(shape.queue)));
    run.series.dirty = shape.dirty_mib.map(|mib| series(values(mib * 1_048_576.0)));
    run.series.ssd_written =
        (shape.ssd_gib > 0.0).then(|| series(values(shape.written_gib * (1u64 << 30) as f64 / BUCKETS as f64)));
}
