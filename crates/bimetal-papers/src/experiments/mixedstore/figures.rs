//! MixedStore's figures 1, 4 and 8 to 11, and its table 5. `crate::mixcp` has figures 5 to 7.
//!
//! Our choices are those of the claims. Figure 4 serves the working set of the planned flash on
//! every size, and its runs are half as long. Figure 1 has requests of 4 KiB, one after another,
//! on flash of 125 MB that is full.

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_plan::mixcp::training::{footprint, sizes_around};
use bimetal_sim::results::Run;
use bimetal_trace::synthetic::{Generator, Interarrival, WorkloadSpec};
use rayon::prelude::*;

use super::{
    CLOSED, FASTER, FITTED, FLASH, HDD, Loaded, Plan, REQUESTS, SSD, THRESHOLDS, TIMED, UTILISATION, WARMUP, WORN_FLASH,
};
use super::{bursts, erases, financial, flash_share, mixedstore, response_ms};
use crate::claims::Paper;
use crate::experiments::{ExperimentsError, ratio};
use crate::figure::{Axis, Curve, Figure, Shape, bars, response_times};

/// Flash of table 4: under-provisioned, as MixCP planned, over-provisioned.
const PROVISIONED: [(&str, Bytes); 3] =
    [("0.5 GB", Bytes(500_000_000)), ("1 GB", Bytes(1_000_000_000)), ("2 GB", Bytes(2_000_000_000))];

/// Changes of erase rate, flash's share and response time in table 5: without regulation 0.16, 0.69
/// and 1.15 ms are 100 %.
const RED_25: [(f64, f64); 3] = [(0.0, 12.0 / 16.0 * 100.0), (1.0, 54.0 / 69.0 * 100.0), (2.0, 156.0 / 115.0 * 100.0)];
const RED_50: [(f64, f64); 3] = [(0.0, 9.0 / 16.0 * 100.0), (1.0, 40.0 / 69.0 * 100.0), (2.0, 198.0 / 115.0 * 100.0)];

/// Text for a figure without any point in the text of the paper.
const NO_POINT: &str = "The text of the paper has no point of this figure.";

/// A function that measures some figures.
type Part = fn() -> Result<Vec<Figure>, ExperimentsError>;

pub(in crate::experiments) fn figures() -> Result<Vec<Figure>, ExperimentsError> {
    let parts: [Part; 6] = [characteristics, provisioned, responses, busted, regulated, levelled];
    let parts = parts.par_iter().with_max_len(1).map(|part| part()).collect::<Result<Vec<_>, _>>()?;
    Ok(parts.concat())
}

fn figure(number: &'static str, title: &'static str, [x, y]: [Axis; 2], curves: Vec<Curve>, note: &str) -> Figure {
    Figure { paper: Paper::MixedStore, number, title, x, y, curves, note: note.to_owned() }
}

/// Requests of a run of figure 1.
const FEW: u64 = 10_000;

/// Full writes of the flash in a day, in figure 1(b).
const WRITES_A_DAY: [u64; 5] = [1, 3, 10, 30, 100];

/// Note of figures 1(a) and 1(d).
const NEAR: &str = "The text of the paper has no point of this figure. Our addresses span 114 MB, so the disk's seeks \
                    are short.";

/// Life of a disk in years in figure 1(b).
const LIFE_OF_A_DISK: f64 = 5.0;

/// MixedStore's figure 1: a disk and an SSD alone.
fn characteristics() -> Result<Vec<Figure>, ExperimentsError> {
    let axes = || [Axis::linear("% of writes"), Axis::logarithmic("mean response time, ms")];
    let throughput = || [Axis::linear("% of writes"), Axis::logarithmic("MB a second")];
    let mb_per_s = |run: &Run| run.throughput.mb_per_s;
    let random = both_drives(0.0)?;
    Ok(vec![
        figure("figure 1(a)", "Response times at random addresses", axes(), of_drives(&random, response_ms), NEAR),
        lives()?,
        figure("figure 1(c)", "Requests in order", throughput(), of_drives(&both_drives(1.0)?, mb_per_s), NO_POINT),
        figure("figure 1(d)", "Requests at random addresses", throughput(), of_drives(&random, mb_per_s), NEAR),
    ])
}

/// Runs of the disk and of the SSD, by the share of writes in per cent.
type OfDrives = Vec<(f64, [Run; 2])>;

/// Plays requests with more and more writes, of which a share is in order, on each drive alone.
fn both_drives(sequential: f64) -> Result<OfDrives, ExperimentsError> {
    let shares = [0.0, 25.0, 50.0, 75.0, 100.0].into_par_iter().with_max_len(1).map(|writes| {
        let spec = WorkloadSpec {
            read_fraction: 1.0 - writes / 100.0,
            sequential,
            ..WorkloadSpec::new(FEW, footprint(WORN_FLASH, UTILISATION))
        };
        let trace = Loaded::generated(Generator::new(&[spec], 1)?.collect());
        let disk = Plan::new("hdd-only").hdd(HDD).play(&trace, CLOSED)?;
        let ssd = Plan::new("ssd-only").ssd(SSD).ssd_size(WORN_FLASH).play(&trace, CLOSED)?;
        Ok((writes, [disk, ssd]))
    });
    shares.collect()
}

/// Returns a curve of each drive alone.
fn of_drives(runs: &OfDrives, value: fn(&Run) -> Option<f64>) -> Vec<Curve> {
    let curve = |(at, name): (usize, &str)| {
        let points = runs.iter().filter_map(|(writes, runs)| Some((*writes, value(&runs[at])?)));
        Curve::ours(name, at, points.collect())
    };
    ["disk", "SSD"].into_iter().enumerate().map(curve).collect()
}

/// MixedStore's figure 1(b): the life of the SSD over the writes.
fn lives() -> Result<Figure, ExperimentsError> {
    let day = Nanoseconds::from_seconds(24 * 3600).0;
    let life = |writes: u64| -> Result<Option<f64>, ExperimentsError> {
        let spec = WorkloadSpec {
            read_fraction: 0.0,
            interarrival: Interarrival::Constant(Nanoseconds(day / (writes * WORN_FLASH.get() / 4096))),
            ..WorkloadSpec::new(FEW, footprint(WORN_FLASH, UTILISATION))
        };
        let trace = Loaded::generated(Generator::new(&[spec], 1)?.collect());
        let plan = Plan::new("ssd-only").ssd(SSD).ssd_size(WORN_FLASH).set(&[("ssd.rated_cycles", "10000")]);
        Ok(plan.play(&trace, TIMED)?.devices.ssd.flash.lifetime_years_cycles)
    };
    let points = WRITES_A_DAY.into_par_iter().with_max_len(1).map(|writes| Ok((writes as f64, life(writes)?)));
    let points: Vec<(f64, Option<f64>)> = points.collect::<Result<_, ExperimentsError>>()?;
    let last = WRITES_A_DAY[WRITES_A_DAY.len() - 1] as f64;
    let disk = [(1.0, LIFE_OF_A_DISK), (last, LIFE_OF_A_DISK)];
    let curves = vec![
        Curve::paper("disk", "caption of figure 1", 0, &disk),
        Curve::ours("SSD", 1, points.into_iter().filter_map(|(writes, years)| Some((writes, years?))).collect()),
    ];
    let axes = [Axis::logarithmic("full writes a day, at random addresses"), Axis::logarithmic("years")];
    Ok(figure("figure 1(b)", "Life", axes, curves, "The text of the paper has no point of the SSD."))
}

/// MixedStore's figure 4: a static and a dynamic partition of the writes.
fn provisioned() -> Result<Vec<Figure>, ExperimentsError> {
    // Every size serves the working set that fills the planned flash.
    let trace = financial(FITTED[0])?;
    let of = |partition| -> Result<Vec<Option<f64>>, ExperimentsError> {
        let runs = PROVISIONED.iter().map(|(_, flash)| {
            let plan = mixedstore(*flash, &[("partition", partition)]).warmup(WARMUP);
            Ok(response_ms(&plan.play(&trace, TIMED)?))
        });
        runs.collect()
    };
    let curves = [("static", "static, over 4 KB to the disk", 1), ("dynamic", "by prediction", 0)];
    let curves = curves.map(|(partition, name, colour)| -> Result<Curve, ExperimentsError> {
        Ok(Curve::ours(name, colour, bars(&of(partition)?)).drawn_as(Shape::Bars))
    });
    let curves = curves.into_iter().collect::<Result<_, _>>()?;
    let axes = [Axis::names("flash", &PROVISIONED.map(|(name, _)| name)), Axis::linear("mean response time, ms")];
    Ok(vec![figure("figure 4", "Capacity planning for Financial", axes, curves, NO_POINT)])
}

/// Returns requests with the averages of TPC-H in table 2.
fn tpc_h() -> Result<Loaded, ExperimentsError> {
    let spec = WorkloadSpec {
        read_fraction: 0.95,
        // 12.82 KB.
        size: sizes_around(25.64)?,
        sequential: 0.18,
        interarrival: Interarrival::Poisson(Nanoseconds(155_560_000)),
        ..WorkloadSpec::new(FITTED[0], footprint(FLASH, UTILISATION))
    };
    Ok(Loaded::generated(Generator::new(&[spec], 5)?.collect()))
}

/// MixedStore's figures 8 and 9.
fn responses() -> Result<Vec<Figure>, ExperimentsError> {
    let trace = financial(REQUESTS)?;
    let plans = [
        Plan::new("hdd-only").hdd(HDD),
        Plan::new("ssd-only").ssd(SSD).ssd_size(FLASH).set(&[("ssd.map_cache", "4MiB")]),
        mixedstore(FLASH, &[]),
    ];
    let runs = plans.map(|plan| plan.warmup(WARMUP).play(&trace, TIMED));
    let runs = runs.into_iter().collect::<Result<Vec<Run>, _>>()?;
    let names = ["disk alone", "SSD alone", "MixedStore"];
    let curves = [1, 2, 0].into_iter().zip(names).zip(&runs);
    let curves = curves
        .map(|((colour, name), run)| Curve::ours(name, colour, response_times(&run.series.response_time_cdf.all)));
    let axes = [Axis::logarithmic("response time, ms"), Axis::linear("% of requests")];
    let note = "The paper draws the response time of each request; its text has no such point, only the mean.";
    let each = figure("figure 8", "Response times of Financial", axes, curves.collect(), note);
    let disk = response_ms(&runs[0]);
    let relative: Vec<Option<f64>> = runs.iter().map(|run| Some(ratio(response_ms(run), disk)? * 100.0)).collect();
    let curves = vec![
        Curve::paper("mean", "section 5.2", 1, &[(0.0, 100.0), (2.0, 29.0)]).drawn_as(Shape::Bars),
        Curve::ours("mean", 0, bars(&relative)).drawn_as(Shape::Bars),
    ];
    let axes = [Axis::names("", &names), Axis::linear("mean response time, disk = 100 %")];
    let note = "The text of the paper has no mean of the SSD alone.";
    let mean = figure("figure 8(a)", "Mean response time of Financial", axes, curves, note);
    Ok(vec![each, mean, predicted(&runs[2])?])
}

/// MixedStore's figure 9: the predictor and the last value. `financial` is a run of Financial.
fn predicted(financial: &Run) -> Result<Figure, ExperimentsError> {
    let tpc_h = mixedstore(FLASH, &[]).warmup(WARMUP).play(&tpc_h()?, TIMED)?;
    let errors = [financial, &tpc_h].map(|run| run.prediction_error.clone());
    let of = |pick: fn(&bimetal_sim::results::PredictionError) -> f64| {
        bars(&errors.each_ref().map(|error| error.as_ref().map(pick)))
    };
    let curves = vec![
        Curve::ours("last value", 1, of(|error| error.last_value_mean_ms)).drawn_as(Shape::Bars),
        Curve::ours("predictor", 0, of(|error| error.mean_ms)).drawn_as(Shape::Bars),
    ];
    let axes = [Axis::names("", &["Financial", "TPC-H"]), Axis::linear("mean error, ms")];
    let note = "The text of the paper has no point of this figure. It says that the predictor's error is far smaller.";
    Ok(figure("figure 9", "Error of the predictor of the SSD's response time", axes, curves, note))
}

/// MixedStore's figure 10.
fn busted() -> Result<Vec<Figure>, ExperimentsError> {
    let trace = bursts(REQUESTS, FLASH, FASTER[1], None)?;
    let run = |settings: &[(&str, &str)]| mixedstore(FLASH, settings).warmup(0.5).play(&trace, TIMED);
    let (off, on) = (run(&[("fragmentation_buster", "off")])?, run(&[("idle_periods", "profiled")])?);
    let both = [("without buster", 1, &off), ("with buster", 0, &on)];
    let cdf =
        both.map(|(name, colour, run)| Curve::ours(name, colour, response_times(&run.series.response_time_cdf.all)));
    let over_time = both.map(|(name, colour, run)| {
        let of = &run.series.latency;
        let hours = (0_u32..).zip(&of.p99_ms).map(|(at, ms)| ((of.start_s + f64::from(at) * of.bucket_s) / 3600.0, ms));
        Curve::ours(name, colour, hours.filter_map(|(at, ms)| Some((at, (*ms)?))).collect())
    });
    let note = "The text of the paper has no point of the curves: about 2 % more requests are served, at a time that it \
                does not name.";
    let axes = [Axis::logarithmic("response time, ms"), Axis::linear("% of requests")];
    let distribution = figure("figure 10(a)", "Response times with the fragmentation buster", axes, cdf.into(), note);
    let axes = [Axis::linear("time, hours"), Axis::logarithmic("99th percentile, ms")];
    let spikes = figure("figure 10(b)", "Response times over time", axes, over_time.into(), NO_POINT);
    Ok(vec![distribution, spikes])
}

/// MixedStore's table 5.
fn regulated() -> Result<Vec<Figure>, ExperimentsError> {
    let trace = bursts(REQUESTS, FLASH, FASTER[1], None)?;
    let run = |share| mixedstore(FLASH, &[("regulation", share)]).warmup(0.5).play(&trace, TIMED);
    let (off, quarter, half) = (run("off")?, run("25%")?, run("50%")?);
    let relative = |run: &Run| {
        let figures: [fn(&Run) -> Option<f64>; 3] = [erases, flash_share, response_ms];
        bars(&figures.map(|figure| Some(ratio(figure(run), figure(&off))? * 100.0)))
    };
    let curves = vec![
        Curve::paper("Red25", "table 5", 0, &RED_25).drawn_as(Shape::Bars),
        Curve::ours("Red25", 0, relative(&quarter)).drawn_as(Shape::Bars),
        Curve::paper("Red50", "table 5", 2, &RED_50).drawn_as(Shape::Bars),
        Curve::ours("Red50", 2, relative(&half)).drawn_as(Shape::Bars),
    ];
    let axes =
        [Axis::names("", &["erases", "flash's share", "response time"]), Axis::linear("without regulation = 100 %")];
    let note = "Bursts come four times as fast as the rest, the middle of the three rates of the claims.";
    Ok(vec![figure("table 5", "Write regulation", axes, curves, note)])
}

/// MixedStore's figure 11.
fn levelled() -> Result<Vec<Figure>, ExperimentsError> {
    let trace = bursts(REQUESTS / 2, WORN_FLASH, FASTER[1], Some("hot:0.2,0.8".parse()?))?;
    let life = |threshold: &str| -> Result<Option<f64>, ExperimentsError> {
        let run = |levelling| {
            let settings = [("wear_levelling", levelling), ("ssd.wear_threshold", threshold)];
            mixedstore(WORN_FLASH, &settings).warmup(0.5).play(&trace, TIMED)
        };
        Ok(ratio(erases(&run("static")?), erases(&run("adaptive")?)).map(|ratio| ratio * 100.0))
    };
    let mut curves = vec![Curve::paper("life", "section 5.5", 1, &[(0.0, 100.0), (1.0, 133.0)]).drawn_as(Shape::Bars)];
    for (colour, threshold) in [0, 2, 3].into_iter().zip(THRESHOLDS) {
        let lives = [Some(100.0), life(threshold)?];
        let name = format!("levelling from {threshold} erases on");
        curves.push(Curve::ours(&name, colour, bars(&lives)).drawn_as(Shape::Bars));
    }
    let axes = [Axis::names("wear levelling", &["static", "adaptive"]), Axis::linear("life, static = 100 %")];
    let note = "Life is compared by the erases of the same requests. The curve over time is not in the paper's text.";
    Ok(vec![figure("figure 11", "Adaptive wear levelling", axes, curves, note)])
}
