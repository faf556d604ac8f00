//! Claims of the Griffin paper. `tables` measures tables 1 to 5, and `sentences` the sentences of
//! the other sections. `altered` changes one property of a trace, to show what causes a difference.
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

mod altered;
mod figures;
mod sentences;
mod tables;

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_models::profile::Profile;
use bimetal_sim::results::{MemberFigures, Run};
use bimetal_sim::simulator::Replay;
use bimetal_sim::workload::Workload as _;
use bimetal_sim::workload::aligned::aligned;
use bimetal_trace::Request;
use bimetal_trace::analysis::{Analysis, Analyzer};
use rayon::prelude::*;

use altered::{Altered, Change, caused};

use super::{ExperimentsError, Note, Plan, TIMED, Values, geometric_mean, mean, percent, ratio};
use crate::claims::griffin::{P2P, SYS1};
use crate::traces::{DESKTOPS, Loaded, SERVERS, Traces, is_shipped};

pub(super) use figures::figures;

const MLC: &str = "intel-x25-m-80gb";
const SLC: &str = "intel-x25-e-32gb";
const LOG: &str = "seagate-barracuda-7200.12-1tb";

const INSTANT: (&str, &str) = ("migration", "instant");
/// Settings of the composite trigger.
const COMPOSITE: [(&str, &str); 3] = [INSTANT, ("timeout", "900s"), TIGHT];

/// The lowest read threshold in figure 6, and no threshold.
const TIGHT: (&str, &str) = ("read_threshold", "0.01");
const LOOSE: (&str, &str) = ("read_threshold", "off");

/// Disk of 10,000 rpm of figure 9.
const FAST_LOG: &str = "wd-velociraptor-300gb";

/// Replay in which the host waits for answers as it did when the trace was recorded.
const THINK: Replay = Replay::Think { speedup: 1.0 };

/// Time after which a trace counts as over, longer than the timeout.
const SETTLING: Nanoseconds = Nanoseconds(2_000_000_000_000);

pub(super) fn measure(traces: &Traces) -> Result<Values, ExperimentsError> {
    let mut values = Values::new();
    let (desktops, servers) = (traces.all_shipped(&DESKTOPS)?, traces.all_shipped(&SERVERS)?);
    analysed(&mut values, &desktops)?;
    tables::measure(&mut values, traces)?;
    sentences::measure(&mut values, traces)?;
    let settled = |traces: &[Loaded]| traces.iter().map(settled).collect::<Vec<_>>();
    let servers = settled(&servers);
    let often = OftenSaved::of(&servers[SERVERS.len() - 1])?;
    shipped(&mut values, &settled(&desktops), &servers, &often)?;
    latency(&mut values, &desktops)?;
    if is_shipped("desktop") {
        recorded(&mut values, traces, &often)?;
    }
    if let Some(mayun) = traces.public("diskmon-mayun.tsv.xz")? {
        let claims = [
            "griffin-timeout-savings",
            "griffin-timeout-penalty",
            "griffin-threshold-savings",
            "griffin-timeout-sizes",
        ];
        timeouts(&mut values, claims, &mayun)?;
        aligned_latency(&mut values, &mayun)?;
    }
    // On p2pdownload the latency falls more than in the paper, on sys1 less.
    let causes = [
        ("griffin-latency-p2p", P2P, ("log_buffer", "0"), "if each write waits for the log"),
        ("griffin-latency-sys1", SYS1, TIGHT, "with a read threshold of 1 %"),
    ];
    for (claim, name, cause, text) in causes {
        if let Some(desktop) = traces.public(name)? {
            let ((timed, runs), (thinking, _)) = (relative(&desktop, TIMED)?, relative(&desktop, THINK)?);
            let caused = relative_with(&desktop, cause, &runs)?;
            let text = format!("{}; {}; {} {text}", directions(&runs), waits(thinking), change(caused));
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

/// Measures Griffin's figure 2, and the first column of table 3.
fn analysed(values: &mut Values, desktops: &[Loaded]) -> Result<(), ExperimentsError> {
    let cache = Change::Cached(256);
    let all = desktops.iter().map(|trace| Altered::of(trace, &[cache])).collect::<Result<Vec<_>, _>>()?;
    let reads = |trace: &Altered| trace.plain.reads_in_top_1pct;
    let cached = all.iter().flat_map(|trace| trace.changes().map(|(_, changed)| changed.reads_in_top_1pct));
    let by_trace = DESKTOPS.iter().zip(&all).map(|(name, trace)| format!("{name} {}", percent(reads(trace))));
    values.explain(
        "griffin-top-reads",
        mean(all.iter().map(reads)),
        format!("by trace: {}; {} {}", by_trace.collect::<Vec<_>>().join(", "), percent(mean(cached)), cache.text()),
    )?;
    let longest = all.iter().filter_map(|trace| trace.plain.duration_s).fold(0.0, f64::max);
    values.explain(
        "griffin-waw-30s",
        mean(all.iter().map(|trace| trace.plain.waw.as_ref().map(|waw| waw.s30))),
        format!("the longest of these traces lasts {longest:.0} s, so no interval can be longer"),
    )
}

/// Savings, penalty, sequentiality, erases and the wear of a log of SLC flash.
fn shipped(
    values: &mut Values,
    desktops: &[Loaded],
    servers: &[Loaded],
    often: &OftenSaved,
) -> Result<(), ExperimentsError> {
    let all: Vec<Loaded> = desktops.iter().chain(servers).cloned().collect();
    let names = DESKTOPS.into_iter().chain(SERVERS).collect::<Vec<_>>();
    let logged = each(&all, || griffin(&COMPOSITE))?;
    let runs = &logged[..DESKTOPS.len()];
    composite(values, ["griffin-savings", "griffin-penalty"], runs, desktops)?;
    let (gain, text) = in_order(&names, &all, &logged)?;
    values.explain("griffin-sequentiality", gain, text)?;
    let (ideal, simple) = (life(desktops, "ideal")?, life(desktops, "simple")?);
    let saved = percent(mean(runs.iter().map(|run| run.write_savings)));
    values.explain(
        "griffin-life-ideal",
        ideal,
        format!("erases follow the writes, and of these {saved} are saved on average; {}", often.life),
    )?;
    values.note("griffin-life-simple", ratio(simple, ideal))?;
    log_of_slc(values, "griffin-slc-log", desktops, often)
}

/// Figures of `sqlite`, the shipped trace of which a log saves most writes.
struct OftenSaved {
    /// Gain of life under the ideal translation layer, as text.
    life: String,
    /// Bytes written to a log of SLC flash, relative to the SSD's.
    logged: Option<f64>,
}

impl OftenSaved {
    fn of(sqlite: &Loaded) -> Result<Self, ExperimentsError> {
        let sqlite = std::slice::from_ref(sqlite);
        let logged = logged(sqlite)?;
        let saved = each(sqlite, || griffin(&COMPOSITE))?.first().and_then(|run| run.write_savings);
        let gain = life(sqlite, "ideal")?.map(times).unwrap_or_default();
        Ok(Self { life: format!("{gain} on sqlite, where {} are saved", percent(saved)), logged })
    }
}

/// Returns the mean gain of writes in order that a log brings, and the share of writes in order on
/// each trace, as text. `with` has the runs with the log.
fn in_order(names: &[&str], traces: &[Loaded], with: &[Run]) -> Result<(Option<f64>, String), ExperimentsError> {
    let alone = || Plan::new("ssd-only").ssd(MLC);
    let gain = |with: &Run, without: &Run| Some(with.ssd_write_sequentiality? - without.ssd_write_sequentiality?);
    let without = each(traces, alone)?;
    let small: Vec<Loaded> = traces.iter().map(|trace| Change::Small.of(trace)).collect();
    let (small_with, small_without) = (each(&small, || griffin(&COMPOSITE))?, each(&small, alone)?);
    let small = mean(small_with.iter().zip(&small_without).map(|(with, without)| gain(with, without)));
    let shares = names.iter().zip(with.iter().zip(&without)).map(|(name, (with, without))| {
        format!("{name} {} to {}", percent(without.ssd_write_sequentiality), percent(with.ssd_write_sequentiality))
    });
    let shares = shares.collect::<Vec<_>>().join(", ");
    let small = change(small.map(|gain| gain + 1.0));
    let text = format!("share in order: {shares}; {small} {}", Change::Small.text());
    Ok((mean(with.iter().zip(&without).map(|(with, without)| gain(with, without))), text))
}

/// Returns the lifetime of flash with a log, relative to the lifetime without a log, computed from
/// the erases of a translation layer.
fn life(traces: &[Loaded], ftl: &str) -> Result<Option<f64>, ExperimentsError> {
    let setting = [("ssd.ftl", ftl)];
    let with = each(traces, || griffin(&COMPOSITE).set(&setting))?;
    let without = each(traces, || Plan::new("ssd-only").ssd(MLC).set(&setting))?;
    Ok(geometric_mean(with.iter().zip(&without).map(|(with, without)| ratio(erases(without), erases(with)))))
}

/// Returns the bytes written to a log of SLC flash, relative to the SSD's.
fn logged(traces: &[Loaded]) -> Result<Option<f64>, ExperimentsError> {
    let runs = each(traces, || griffin(&COMPOSITE[1..]).member("log", SLC))?;
    Ok(geometric_mean(runs.iter().map(|run| ratio(written(run, "log"), written(run, "ssd")))))
}

/// Griffin, section 7: a log of SLC flash that lasts as long as the SSD.
fn log_of_slc(
    values: &mut Values,
    claim: &'static str,
    traces: &[Loaded],
    often: &OftenSaved,
) -> Result<(), ExperimentsError> {
    let cycles = ratio(rated_cycles(MLC)?, rated_cycles(SLC)?);
    let ours = logged(traces)?;
    let share = |written: Option<f64>| written.zip(cycles).map(|(written, cycles)| written * cycles);
    let text = |written: Option<f64>| written.map_or_else(String::new, |times| format!("{times:.2}"));
    let text = format!(
        "the log takes {} times the SSD's bytes, here not twice; on sqlite {} times, and then the share is {}",
        text(ours),
        text(often.logged),
        percent(share(often.logged))
    );
    values.explain(claim, share(ours), text)
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
    let unread =
        mean(self::each(traces, || griffin(&COMPOSITE[..2]).set(&[LOOSE]))?.iter().map(|run| run.write_savings));
    values.explain(
        savings,
        mean(runs.iter().map(|run| run.write_savings)),
        format!(
            "an ideal cache saves {} of the writes; by trace Griffin saves {saved}; {} on average without a read threshold",
            percent(possible),
            percent(unread)
        ),
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
/// reads and writes. The log has the timeout of section 6.4 alone.
fn relative(trace: &Loaded, replay: Replay) -> Result<(Option<f64>, [Run; 2]), ExperimentsError> {
    let with = griffin(&[("timeout", "900s"), LOOSE]).play(trace, replay)?;
    let without = Plan::new("ssd-only").ssd(MLC).play(trace, replay)?;
    Ok((ratio(with.response_time_ms.all.mean, without.response_time_ms.all.mean), [with, without]))
}

/// Returns the mean latency with one more setting of the log, relative to that of the SSD alone.
fn relative_with(
    trace: &Loaded,
    setting: (&str, &str),
    [_, without]: &[Run; 2],
) -> Result<Option<f64>, ExperimentsError> {
    let with = griffin(&[("timeout", "900s"), LOOSE]).set(&[setting]).play(trace, TIMED)?;
    Ok(ratio(with.response_time_ms.all.mean, without.response_time_ms.all.mean))
}

/// Returns a factor as text.
fn times(factor: f64) -> String {
    crate::claims::Unit::Times.text(factor)
}

/// Returns the change of the latency in a replay with think times, as text.
fn waits(thinking: Option<f64>) -> String {
    format!("{} if the host waits for answers as it did when recorded", change(thinking))
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
    let tight = desktops.par_iter().zip(&runs).with_max_len(1);
    let tight = tight.map(|(trace, (_, runs))| relative_with(trace, TIGHT, runs));
    let tight = geometric_mean(tight.collect::<Result<Vec<_>, ExperimentsError>>()?);
    let all = |runs: &[(Option<f64>, [Run; 2])]| geometric_mean(runs.iter().map(|(relative, _)| *relative));
    let each = DESKTOPS.iter().zip(&runs).map(|(name, (relative, runs))| {
        format!("{name} {}, the log serves {} of the reads", change(*relative), percent(runs[0].read_penalty))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let tight = change(tight);
    let text = format!("{each}; {}; {tight} with a read threshold of 1 %", waits(all(&thinking)));
    values.explain("griffin-latency", all(&runs).map(|relative| relative - 1.0), text)
}

/// Measures Griffin's figure 9 over the public desktop, whose partition does not begin at the
/// border of a block.
fn aligned_latency(values: &mut Values, mayun: &Loaded) -> Result<(), ExperimentsError> {
    let (as_recorded, runs) = relative(mayun, TIMED)?;
    // The partition begins at sector 63, so most requests start at 7 modulo 8.
    let moved = aligned(mayun.requests.open().map_err(wrong)?, BlockSize::default(), 7);
    let requests = moved.collect::<Result<_, _>>().map_err(wrong)?;
    let moved = Loaded { requests, queue_events: mayun.queue_events, compact: mayun.compact };
    let (moved, _) = relative(&moved, TIMED)?;
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

/// Measures Griffin's figures 5 and 6 over one long trace.
fn timeouts(
    values: &mut Values,
    [savings, penalty, threshold_claim, sizes]: [&'static str; 4],
    trace: &Loaded,
) -> Result<(), ExperimentsError> {
    let analysis = analysis(trace)?;
    let seconds = analysis.duration_s.unwrap_or_default();
    let run = |timeout: &str, threshold| {
        griffin(&[INSTANT, ("timeout", timeout), ("read_threshold", threshold)]).play(trace, TIMED)
    };
    let (none, timeout, threshold) = (run("off", "off")?, run("900s", "off")?, run("off", "0.01")?);
    let kept = |run: &Run| ratio(run.write_savings, none.write_savings);
    let waw = analysis.waw.as_ref().map(|waw| waw.s900);
    let (later, latest) = (run("1800s", "off")?, run("3600s", "off")?);
    values.explain(
        savings,
        kept(&timeout),
        format!(
            "{} of the overwrites come within 900 s, and a migration can fall between them; {} with 1800 s, {} with 3600 s",
            percent(waw),
            percent(kept(&later)),
            percent(kept(&latest))
        ),
    )?;
    let megabytes = |run: &Run| run.migration.mean_bytes.map(|bytes| bytes / 1e6);
    values.explain(
        sizes,
        ratio(megabytes(&latest), megabytes(&timeout)),
        format!("{:.0} and {:.0} MB", megabytes(&latest).unwrap_or_default(), megabytes(&timeout).unwrap_or_default()),
    )?;
    let cache = Change::Cached(1024);
    let behind = cache.of(trace);
    let cached = |timeout, threshold| {
        griffin(&[INSTANT, ("timeout", timeout), ("read_threshold", threshold)]).play(&behind, TIMED)
    };
    let (cached_timeout, cached_threshold) = (cached("900s", "off")?, cached("off", "0.01")?);
    let soon = percent(analysis.raw.as_ref().map(|raw| raw.s900));
    values.explain(
        penalty,
        timeout.read_penalty,
        format!(
            "{soon} of the reads after a write come within 900 s, before the log is emptied; {} {}",
            percent(cached_timeout.read_penalty),
            cache.text()
        ),
    )?;
    let count = threshold.migration.count.unwrap_or_default();
    let as_often = match count {
        0 => ratio(threshold.write_savings, none.write_savings),
        _ => {
            let interval = format!("{}s", (seconds / (count + 1) as f64).ceil());
            ratio(threshold.write_savings, run(&interval, "off")?.write_savings)
        }
    };
    values.explain(
        threshold_claim,
        ratio(threshold.write_savings, timeout.write_savings),
        format!(
            "the threshold alone migrates {count} times in the trace's {:.1} hours, and the timeout {}; {} relative to a \
             timeout that fires as often as the threshold; {} {}",
            seconds / 3600.0,
            timeout.migration.count.unwrap_or_default(),
            as_often.map(times).unwrap_or_default(),
            ratio(cached_threshold.write_savings, cached_timeout.write_savings).map(times).unwrap_or_default(),
            cache.text()
        ),
    )
}

/// Measures all figures over the recorded desktop of three hours.
fn recorded(values: &mut Values, traces: &Traces, often: &OftenSaved) -> Result<(), ExperimentsError> {
    let desktop = traces.shipped("desktop")?;
    let of = Altered::of(&desktop, &[Change::Small, Change::Cached(256), Change::Played(4)])?;
    let files = overwritten(traces, &desktop)?;
    let savings = |trace: &Analysis| trace.max_write_savings;
    let top = |trace: &Analysis| trace.overwrites_in_top_1pct;
    let written = format!("; {} MiB are written; most overwrites: {files}", of.plain.write_bytes >> 20);
    caused(values, "griffin-ideal-savings-3h", savings(&of.plain), &of.figures(savings), &written)?;
    caused(values, "griffin-top-overwrites-3h", top(&of.plain), &of.figures(top), &written)?;
    let reads = |trace: &Analysis| trace.reads_in_top_1pct;
    caused(values, "griffin-top-reads-3h", reads(&of.plain), &of.figures(reads), "")?;
    let claims = [
        "griffin-timeout-savings-3h",
        "griffin-timeout-penalty-3h",
        "griffin-threshold-savings-3h",
        "griffin-timeout-sizes-3h",
    ];
    timeouts(values, claims, &desktop)?;
    let desktop = [settled(&desktop)];
    let runs = each(&desktop, || griffin(&COMPOSITE))?;
    composite(values, ["griffin-savings-3h", "griffin-penalty-3h"], &runs, &desktop)?;
    let (gain, text) = in_order(&["desktop"], &desktop, &runs)?;
    values.explain("griffin-sequentiality-3h", gain, text)?;
    let saved = percent(mean(runs.iter().map(|run| run.write_savings)));
    values.explain(
        "griffin-life-ideal-3h",
        life(&desktop, "ideal")?,
        format!("erases follow the writes, and of these {saved} are saved; {}", often.life),
    )?;
    log_of_slc(values, "griffin-slc-log-3h", &desktop, often)?;
    let (latency, runs) = relative(&desktop[0], TIMED)?;
    let (thinking, _) = relative(&desktop[0], THINK)?;
    let text = format!("{}; {}", directions(&runs), waits(thinking));
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
