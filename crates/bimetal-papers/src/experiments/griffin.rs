//! Claims of the Griffin paper.
//!
//! Our choices, where the paper leaves something open:
//! - The composite trigger is the timeout of 900 s with a read threshold of 1 %, the lowest
//!   threshold in figure 6. The paper does not state the threshold.
//! - Savings, penalties, sequentiality and erases come from migrations that take no time, as in the
//!   paper's policy simulator. Latencies come from migrations that take their time.
//! - The shipped traces are shorter than the timeout. After the end of each trace, one read follows
//!   2000 s later, so that the content of the log is migrated and counts.
//! - Griffin's figure 9 has a timeout of 900 s alone, as in the paper's section 6.4. A mean over
//!   traces is the geometric mean of the ratios of the traces.
//! - The drives are those of the paper's section 6.4: an X25-M of 80 GB, and a Barracuda of 7200
//!   rpm.

mod figures;

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;
use bimetal_sim::results::{MemberFigures, Run};
use bimetal_sim::simulator::Replay;
use bimetal_sim::workload::Workload as _;
use bimetal_sim::workload::aligned::aligned;
use bimetal_trace::Request;
use bimetal_trace::analysis::{Analysis, Analyzer};
use bimetal_trace::synthetic::{Generator, Interarrival, WorkloadSpec};
use rayon::prelude::*;

use super::{ExperimentsError, Note, Plan, TIMED, Values, geometric_mean, mean, percent, ratio};
use crate::claims::griffin::{P2P, SYS1};
use crate::traces::{DESKTOPS, Loaded, SERVERS, Traces, is_shipped};

pub(super) use figures::figures;

const MLC: &str = "intel-x25-m-80gb";
const SLC: &str = "intel-x25-e-32gb";
const LOG: &str = "seagate-barracuda-7200.12-1tb";

const INSTANT: (&str, &str) = ("migration", "instant");
/// Settings of the composite trigger.
const COMPOSITE: [(&str, &str); 3] = [INSTANT, ("timeout", "900s"), ("read_threshold", "0.01")];

/// Replay in which the host waits for answers as it did when the trace was recorded.
const THINK: Replay = Replay::Think { speedup: 1.0 };

/// Time after which a trace counts as over, longer than the timeout.
const SETTLING: Nanoseconds = Nanoseconds(2_000_000_000_000);

pub(super) fn measure(traces: &Traces) -> Result<Values, ExperimentsError> {
    let mut values = Values::new();
    let (desktops, servers) = (traces.all_shipped(&DESKTOPS)?, traces.all_shipped(&SERVERS)?);
    analysed(&mut values, &desktops, &servers)?;
    let settled = |traces: &[Loaded]| traces.iter().map(settled).collect::<Vec<_>>();
    shipped(&mut values, &settled(&desktops), &settled(&servers))?;
    latency(&mut values, &desktops)?;
    random_writes(&mut values)?;
    if is_shipped("desktop") {
        recorded(&mut values, traces)?;
    }
    if let Some(mayun) = traces.public("diskmon-mayun.tsv.xz")? {
        let claims =
            ["griffin-raw-900s", "griffin-timeout-savings", "griffin-timeout-penalty", "griffin-threshold-savings"];
        timeouts(&mut values, claims, &mayun)?;
        aligned_latency(&mut values, &mayun)?;
    }
    for (claim, name) in [("griffin-latency-p2p", P2P), ("griffin-latency-sys1", SYS1)] {
        if let Some(desktop) = traces.public(name)? {
            let ((timed, runs), (thinking, _)) = (relative(&desktop, TIMED)?, relative(&desktop, THINK)?);
            let thinking = change(thinking);
            let text =
                format!("{}; {thinking} if the host waits for answers as it did when recorded", directions(&runs));
            values.explain(claim, timed.map(|relative| relative - 1.0), text)?;
        }
    }
    if let Some(public) = traces.public_desktops()? {
        let runs = each(&public, || griffin(&COMPOSITE))?;
        composite(&mut values, ["griffin-savings-public", "griffin-penalty-public"], &runs, &public)?;
    }
    Ok(values)
}

fn griffin(settings: &[(&str, &str)]) -> Plan {
    Plan::new("griffin").ssd(MLC).hdd(LOG).set(settings)
}

/// Plays every trace, several at a time.
fn each(traces: &[Loaded], plan: impl Fn() -> Plan + Sync) -> Result<Vec<Run>, ExperimentsError> {
    traces.par_iter().with_max_len(1).map(|trace| plan().play(trace, TIMED)).collect()
}

/// Returns a trace with one more read, of the block that it read first, after the timeout.
fn settled(trace: &Loaded) -> Loaded {
    let mut requests = trace.requests.clone();
    let first = requests.iter().find(|request| request.kind == OpKind::Read).copied();
    if let Some((first, last)) = first.zip(requests.last().copied()) {
        requests.push(Request { arrival: last.arrival + SETTLING, ..first });
    }
    Loaded { requests, queue_events: trace.queue_events, compact: trace.compact }
}

fn analysis(trace: &Loaded) -> Result<Analysis, ExperimentsError> {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4))?;
    trace.requests.iter().for_each(|request| analyzer.request(request));
    Ok(analyzer.finish())
}

/// Measures Griffin's tables 1 and 3, and figures 1 and 2.
fn analysed(values: &mut Values, desktops: &[Loaded], servers: &[Loaded]) -> Result<(), ExperimentsError> {
    let all = |traces: &[Loaded]| traces.iter().map(analysis).collect::<Result<Vec<_>, _>>();
    let (desktops, servers) = (all(desktops)?, all(servers)?);
    let of = |traces: &[Analysis], figure: fn(&Analysis) -> Option<f64>| mean(traces.iter().map(figure));
    let by_trace = |names: &[&str], traces: &[Analysis], figure: fn(&Analysis) -> Option<f64>| -> String {
        let each = names.iter().zip(traces).map(|(name, trace)| format!("{name} {}", percent(figure(trace))));
        each.collect::<Vec<_>>().join(", ")
    };
    let savings = |trace: &Analysis| trace.max_write_savings;
    let top = |trace: &Analysis| trace.overwrites_in_top_1pct;
    values.explain(
        "griffin-ideal-savings-desktops",
        of(&desktops, savings),
        format!("by trace: {}", by_trace(&DESKTOPS, &desktops, savings)),
    )?;
    values.explain(
        "griffin-ideal-savings-servers",
        of(&servers, savings),
        format!("by trace: {}", by_trace(&SERVERS, &servers, savings)),
    )?;
    values.explain(
        "griffin-top-overwrites",
        of(&desktops, top),
        format!("by trace: {}", by_trace(&DESKTOPS, &desktops, top)),
    )?;
    let reads = |trace: &Analysis| trace.reads_in_top_1pct;
    values.explain(
        "griffin-top-reads",
        of(&desktops, reads),
        format!("by trace: {}; the paper's desktops have 1 to 6 %", by_trace(&DESKTOPS, &desktops, reads)),
    )?;
    let longest = desktops.iter().filter_map(|trace| trace.duration_s).fold(0.0, f64::max);
    values.explain(
        "griffin-waw-30s",
        of(&desktops, |trace| trace.waw.as_ref().map(|waw| waw.s30)),
        format!("the longest of these traces lasts {longest:.0} s, so no interval can be longer"),
    )
}

/// Savings, penalty, sequentiality, erases and the wear of a log of SLC flash.
fn shipped(values: &mut Values, desktops: &[Loaded], servers: &[Loaded]) -> Result<(), ExperimentsError> {
    let runs = each(desktops, || griffin(&COMPOSITE))?;
    composite(values, ["griffin-savings", "griffin-penalty"], &runs, desktops)?;
    let of_servers = each(servers, || griffin(&COMPOSITE))?;
    let alone = || Plan::new("ssd-only").ssd(MLC);
    let before: Vec<Run> = each(desktops, alone)?.into_iter().chain(each(servers, alone)?).collect();
    let pairs = || runs.iter().chain(&of_servers).zip(&before);
    let gains = pairs().map(|(with, without)| {
        with.ssd_write_sequentiality.zip(without.ssd_write_sequentiality).map(|(with, without)| with - without)
    });
    let each_gain = DESKTOPS.iter().chain(&SERVERS).zip(pairs()).map(|(name, (with, without))| {
        format!("{name} {} to {}", percent(without.ssd_write_sequentiality), percent(with.ssd_write_sequentiality))
    });
    let by_trace = each_gain.collect::<Vec<_>>().join(", ");
    values.explain("griffin-sequentiality", mean(gains), format!("share in order: {by_trace}"))?;
    let (ideal, simple) = (life(desktops, "ideal")?, life(desktops, "simple")?);
    let saved = percent(mean(runs.iter().map(|run| run.write_savings)));
    values.explain(
        "griffin-life-ideal",
        ideal,
        format!("erases follow the writes, and of these {saved} are saved on average"),
    )?;
    values.note("griffin-life-simple", ratio(simple, ideal))?;
    log_of_slc(values, "griffin-slc-log", desktops)
}

/// Returns the lifetime of flash with a log, relative to the lifetime without a log, computed from
/// the erases of a translation layer.
fn life(traces: &[Loaded], ftl: &str) -> Result<Option<f64>, ExperimentsError> {
    let setting = [("ssd.ftl", ftl)];
    let with = each(traces, || griffin(&COMPOSITE).set(&setting))?;
    let without = each(traces, || Plan::new("ssd-only").ssd(MLC).set(&setting))?;
    Ok(geometric_mean(with.iter().zip(&without).map(|(with, without)| ratio(erases(without), erases(with)))))
}

/// Griffin, section 7: a log of SLC flash that lasts as long as the SSD.
fn log_of_slc(values: &mut Values, claim: &'static str, traces: &[Loaded]) -> Result<(), ExperimentsError> {
    let logged = each(traces, || griffin(&COMPOSITE[1..]).member("log", SLC))?;
    let cycles = ratio(rated_cycles(MLC)?, rated_cycles(SLC)?);
    let written = geometric_mean(logged.iter().map(|run| ratio(written(run, "log"), written(run, "ssd"))));
    let share = written.zip(cycles).map(|(written, cycles)| written * cycles);
    let times = written.map_or_else(String::new, |times| format!("{times:.2}"));
    values.explain(claim, share, format!("the log takes {times} times the SSD's bytes, here not twice"))
}

fn composite(
    values: &mut Values,
    [savings, penalty]: [&'static str; 2],
    runs: &[Run],
    traces: &[Loaded],
) -> Result<(), ExperimentsError> {
    let analyses = traces.iter().map(analysis).collect::<Result<Vec<_>, _>>()?;
    let possible = mean(analyses.iter().map(|trace| trace.max_write_savings));
    let soon = mean(analyses.iter().map(|trace| trace.raw.as_ref().map(|raw| raw.s60)));
    let each =
        |figure: fn(&Run) -> Option<f64>| runs.iter().map(|run| percent(figure(run))).collect::<Vec<_>>().join(", ");
    let (saved, read) = (each(|run| run.write_savings), each(|run| run.read_penalty));
    values.explain(
        savings,
        mean(runs.iter().map(|run| run.write_savings)),
        format!("an ideal cache saves {} of the writes; by trace Griffin saves {saved}", percent(possible)),
    )?;
    values.explain(
        penalty,
        mean(runs.iter().map(|run| run.read_penalty)),
        format!("by trace {read}; {} of the reads after a write come within 60 s", percent(soon)),
    )
}

fn erases(run: &Run) -> Option<f64> {
    run.devices.ssd.flash.erases.map(|erases| erases as f64)
}

/// Returns the bytes written to a member.
fn written(run: &Run, id: &str) -> Option<f64> {
    let member = run.members.iter().find(|member| member.id == id)?;
    match &member.figures {
        MemberFigures::Ssd(figures) => figures.write_bytes.map(|bytes| bytes as f64),
        MemberFigures::Hdd(figures) => figures.write_bytes.map(|bytes| bytes as f64),
    }
}

fn rated_cycles(profile: &str) -> Result<Option<f64>, ExperimentsError> {
    let profile = Profile::load(profile)?;
    let found = profile.figures().find(|(key, ..)| *key == "rated_cycles");
    Ok(found.and_then(|(_, value, _)| value.trim_matches('"').parse().ok()))
}

/// Returns the mean latency with a log on a disk relative to the SSD alone, and the latencies of
/// reads and writes.
fn relative(trace: &Loaded, replay: Replay) -> Result<(Option<f64>, [Run; 2]), ExperimentsError> {
    let with = griffin(&[("timeout", "900s"), ("read_threshold", "off")]).play(trace, replay)?;
    let without = Plan::new("ssd-only").ssd(MLC).play(trace, replay)?;
    Ok((ratio(with.response_time_ms.all.mean, without.response_time_ms.all.mean), [with, without]))
}

/// Returns a ratio as a change in per cent.
fn change(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| crate::claims::Unit::Difference.text(ratio - 1.0))
}

fn directions([with, without]: &[Run; 2]) -> String {
    let ms = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.3}"));
    format!(
        "reads {} ms instead of {}, writes {} instead of {}; the log serves {} of the reads",
        ms(with.response_time_ms.read.mean),
        ms(without.response_time_ms.read.mean),
        ms(with.response_time_ms.write.mean),
        ms(without.response_time_ms.write.mean),
        percent(with.read_penalty)
    )
}

/// Measures Griffin's figure 9 over the shipped desktops.
fn latency(values: &mut Values, desktops: &[Loaded]) -> Result<(), ExperimentsError> {
    let play = |replay| -> Result<Vec<_>, ExperimentsError> {
        desktops.par_iter().with_max_len(1).map(|trace| relative(trace, replay)).collect()
    };
    let (runs, thinking) = (play(TIMED)?, play(THINK)?);
    let all = geometric_mean(runs.iter().map(|(relative, _)| *relative));
    let each = DESKTOPS.iter().zip(&runs).map(|(name, (relative, runs))| {
        format!("{name} {}, the log serves {} of the reads", change(*relative), percent(runs[0].read_penalty))
    });
    let thinking = change(geometric_mean(thinking.iter().map(|(relative, _)| *relative)));
    let each = each.collect::<Vec<_>>().join("; ");
    let text = format!("{each}; {thinking} if the host waits for answers as it did when recorded");
    values.explain("griffin-latency", all.map(|relative| relative - 1.0), text)
}

/// Measures Griffin's figure 9 over the public desktop, whose partition does not begin at the
/// border of a block.
fn aligned_latency(values: &mut Values, mayun: &Loaded) -> Result<(), ExperimentsError> {
    let (as_recorded, runs) = relative(mayun, TIMED)?;
    // The partition begins at sector 63, so most requests start at 7 modulo 8.
    let moved = aligned(mayun.requests.open().map_err(wrong)?, BlockSize::default(), 7);
    let requests = moved.collect::<Result<_, _>>().map_err(wrong)?;
    let (moved, _) = relative(&Loaded { requests, queue_events: mayun.queue_events, compact: mayun.compact }, TIMED)?;
    let change = change(moved);
    values.explain(
        "griffin-latency-public",
        as_recorded.map(|relative| relative - 1.0),
        format!("{}; with the partition aligned to blocks {change}", directions(&runs)),
    )
}

fn wrong(error: bimetal_sim::workload::WorkloadError) -> ExperimentsError {
    ExperimentsError::Run(bimetal_sim::experiment::ExperimentError::Workload(error))
}

/// Measures Griffin's figures 5 and 6 and table 3 over one long desktop.
fn timeouts(
    values: &mut Values,
    [raw_claim, savings, penalty, threshold_claim]: [&'static str; 4],
    desktop: &Loaded,
) -> Result<(), ExperimentsError> {
    let analysis = analysis(desktop)?;
    let raw = analysis.raw.as_ref();
    let hours = analysis.duration_s.map_or_else(String::new, |seconds| format!("{:.1}", seconds / 3600.0));
    let later = percent(raw.map(|raw| raw.s3600 - raw.s900));
    values.explain(
        raw_claim,
        raw.map(|raw| raw.s900),
        format!("{later} more come within 3600 s, and all others later, in a trace of {hours} hours"),
    )?;
    let run = |timeout, threshold| {
        griffin(&[INSTANT, ("timeout", timeout), ("read_threshold", threshold)]).play(desktop, TIMED)
    };
    let (none, timeout, threshold) = (run("off", "off")?, run("900s", "off")?, run("off", "0.01")?);
    let waw = analysis.waw.as_ref().map(|waw| waw.s900);
    values.explain(
        savings,
        ratio(timeout.write_savings, none.write_savings),
        format!("{} of the overwrites come within 900 s, and a migration can fall between them", percent(waw)),
    )?;
    let soon = percent(raw.map(|raw| raw.s900));
    values.explain(
        penalty,
        timeout.read_penalty,
        format!("{soon} of the reads after a write come within 900 s, before the log is emptied"),
    )?;
    let count = threshold.migration.count.unwrap_or_default();
    values.explain(
        threshold_claim,
        ratio(threshold.write_savings, timeout.write_savings),
        format!("the threshold alone migrates {count} times in the trace's {hours} hours"),
    )
}

/// Measures all figures over the recorded desktop of three hours.
fn recorded(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let desktop = traces.shipped("desktop")?;
    let of = analysis(&desktop)?;
    let writes =
        format!("{} MiB are written; most overwrites: {}", of.write_bytes >> 20, overwritten(traces, &desktop)?);
    values.explain("griffin-ideal-savings-3h", of.max_write_savings, writes.clone())?;
    values.explain("griffin-top-overwrites-3h", of.overwrites_in_top_1pct, writes)?;
    let raw = percent(of.raw.as_ref().map(|raw| raw.s900));
    let early = format!("{raw} of the reads after a write come within 900 s of it");
    values.explain("griffin-top-reads-3h", of.reads_in_top_1pct, early)?;
    let waw = of.waw.as_ref();
    let later = percent(waw.map(|waw| waw.s900 - waw.s30));
    values.explain("griffin-waw-30s-3h", waw.map(|waw| waw.s30), format!("{later} more come within 900 s"))?;
    let claims = [
        "griffin-raw-900s-3h",
        "griffin-timeout-savings-3h",
        "griffin-timeout-penalty-3h",
        "griffin-threshold-savings-3h",
    ];
    timeouts(values, claims, &desktop)?;
    let desktop = [settled(&desktop)];
    let (runs, alone) = (each(&desktop, || griffin(&COMPOSITE))?, each(&desktop, || Plan::new("ssd-only").ssd(MLC))?);
    composite(values, ["griffin-savings-3h", "griffin-penalty-3h"], &runs, &desktop)?;
    let in_order = |runs: &[Run]| runs.first().and_then(|run| run.ssd_write_sequentiality);
    let (with, without) = (in_order(&runs), in_order(&alone));
    values.explain(
        "griffin-sequentiality-3h",
        with.zip(without).map(|(with, without)| with - without),
        format!("share in order: {} to {}", percent(without), percent(with)),
    )?;
    let saved = percent(mean(runs.iter().map(|run| run.write_savings)));
    values.explain(
        "griffin-life-ideal-3h",
        life(&desktop, "ideal")?,
        format!("erases follow the writes, and of these {saved} are saved"),
    )?;
    log_of_slc(values, "griffin-slc-log-3h", &desktop)?;
    let (latency, runs) = relative(&desktop[0], TIMED)?;
    let (thinking, _) = relative(&desktop[0], THINK)?;
    let text =
        format!("{}; {} if the host waits for answers as it did when recorded", directions(&runs), change(thinking));
    values.explain("griffin-latency-3h", latency.map(|latency| latency - 1.0), text)
}

/// Returns the files with the most overwrites, each with its share of all overwrites in files.
fn overwritten(traces: &Traces, desktop: &Loaded) -> Result<String, ExperimentsError> {
    let mut analyzer = Analyzer::new(Bytes::from_kib(4))?.with_files(traces.file_map("desktop")?);
    desktop.requests.iter().for_each(|request| analyzer.request(request));
    let files = analyzer.finish().files.unwrap_or_default();
    let all = files.iter().map(|file| file.overwrites).sum::<u64>().max(1) as f64;
    let first = files.iter().take(3).map(|file| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        format!("{name} {}", percent(Some(file.overwrites as f64 / all)))
    });
    Ok(first.collect::<Vec<_>>().join(", "))
}

/// Griffin, section 2: the X25-M's data sheet measures at queue depth 32 over 8 GB.
fn random_writes(values: &mut Values) -> Result<(), ExperimentsError> {
    let rate = |size: &str, sequential: f64, fill: Precondition| -> Result<Option<f64>, ExperimentsError> {
        let spec = WorkloadSpec {
            read_fraction: 0.0,
            size: size.parse()?,
            sequential,
            interarrival: Interarrival::Constant(Nanoseconds(1000)),
            ..WorkloadSpec::new(40_000, Bytes(8_000_000_000 / 4096 * 4096))
        };
        let trace = Loaded::generated(Generator::new(&[spec], 1)?.collect());
        let mut plan = Plan::new("ssd-only").ssd(MLC);
        plan.choices.precondition = Some(fill);
        Ok(plan.play(&trace, Replay::Closed { depth: 32 })?.throughput.mb_per_s)
    };
    let (sequential, random) =
        (rate("64KiB", 1.0, Precondition::Sequential)?, rate("4KiB", 0.0, Precondition::Sequential)?);
    let filled = rate("4KiB", 0.0, Precondition::Random)?;
    let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!("{rate:.1}"));
    values.explain(
        "griffin-random-writes",
        ratio(sequential, random),
        format!(
            "{} MB/s in order, {} MB/s at random, {} MB/s at random behind a random fill: the model's layer maps pages",
            rate(sequential),
            rate(random),
            rate(filled)
        ),
    )
}
