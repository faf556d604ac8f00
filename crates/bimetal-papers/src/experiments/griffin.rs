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
use bimetal_core::units::Nanoseconds;
use bimetal_models::profile::Profile;
use bimetal_sim::results::{MemberFigures, Run};
use bimetal_sim::simulator::Replay;
use bimetal_sim::workload::Workload as _;
use bimetal_sim::workload::aligned::aligned;
use bimetal_trace::Request;
use rayon::prelude::*;

use altered::Change;

use super::{CLOSED, ExperimentsError, Note, Plan, TIMED, Tried, Values};
use super::{analysis, geometric_mean, mean, percent, ratio, tried};
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

/// Change by which the work of a short recording recurs, as work does in days.
const AGAIN: Change = Change::Repeated(4);

/// Share of writes in order from which on a trace leaves a log little to gain.
const LITTLE_TO_GAIN: f64 = 0.95;

/// Time after which a trace counts as over, longer than the timeout.
const SETTLING: Nanoseconds = Nanoseconds(2_000_000_000_000);

pub(super) fn measure(traces: &Traces) -> Result<Values, ExperimentsError> {
    let mut values = Values::new();
    let (desktops, servers) = (traces.all_shipped(&DESKTOPS)?, traces.all_shipped(&SERVERS)?);
    tables::measure(&mut values, traces)?;
    sentences::measure(&mut values, traces)?;
    let often = OftenSaved::of("sqlite", traces)?;
    shipped(&mut values, &desktops, &servers, &often)?;
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
    latencies_of_others(&mut values, traces)?;
    if let Some(public) = traces.public_desktops()? {
        let runs = each(&public, || griffin(&COMPOSITE))?;
        composite(&mut values, ["griffin-savings-public", "griffin-penalty-public"], &runs, &public)?;
    }
    Ok(values)
}

fn griffin(settings: &[(&str, &str)]) -> Plan {
    Plan::new("griffin").ssd(MLC).hdd(LOG).set(settings)
}

/// Returns the settings of one trigger alone, with migrations that take no time.
const fn alone<'a>(timeout: &'a str, threshold: &'a str) -> [(&'a str, &'a str); 3] {
    [INSTANT, ("timeout", timeout), ("read_threshold", threshold)]
}

/// Returns the plan of a run for figure 9: a log on a drive, with a timeout of 900 s.
fn logged_on(log: &str) -> Plan {
    let drives = match log {
        LOG | FAST_LOG => Plan::new("griffin").ssd(MLC).hdd(log),
        log => Plan::new("griffin").ssd(MLC).member("log", log),
    };
    drives.set(&[("timeout", "900s"), LOOSE])
}

/// Returns the mean bytes of a migration in MB.
fn megabytes(run: &Run) -> Option<f64> {
    run.migration.mean_bytes.map(|bytes| bytes / 1e6)
}

/// Plays every trace, several at a time.
fn each(traces: &[Loaded], plan: impl Fn() -> Plan + Sync) -> Result<Vec<Run>, ExperimentsError> {
    each_replayed(traces, TIMED, plan)
}

/// Plays each trace with a kind of replay.
fn each_replayed(
    traces: &[Loaded],
    replay: Replay,
    plan: impl Fn() -> Plan + Sync,
) -> Result<Vec<Run>, ExperimentsError> {
    traces.par_iter().with_max_len(1).map(|trace| plan().play(trace, replay)).collect()
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

/// Returns the traces without the blocks that are written only once.
fn written_often(traces: &[Loaded]) -> Vec<Loaded> {
    traces.iter().map(|trace| Change::WithoutOnce.of(trace)).collect()
}

/// Savings, penalty, sequentiality, erases and the wear of a log of SLC flash.
fn shipped(
    values: &mut Values,
    desktops: &[Loaded],
    servers: &[Loaded],
    often: &OftenSaved,
) -> Result<(), ExperimentsError> {
    let repeated: Vec<Loaded> = desktops.iter().map(|trace| settled(&AGAIN.of(trace))).collect();
    let [desktops, servers] = [desktops, servers].map(|traces| traces.iter().map(settled).collect::<Vec<_>>());
    let (desktops, servers) = (desktops.as_slice(), servers.as_slice());
    let all: Vec<Loaded> = desktops.iter().chain(servers).cloned().collect();
    let names = DESKTOPS.into_iter().chain(SERVERS).collect::<Vec<_>>();
    let logged = each(&all, || griffin(&COMPOSITE))?;
    let runs = &logged[..DESKTOPS.len()];
    composite(values, ["griffin-savings", "griffin-penalty"], runs, desktops)?;
    in_order(values, "griffin-sequentiality", &names, &all, &logged)?;
    let (ideal, simple) = (life(desktops, "ideal")?, life(desktops, "simple")?);
    let written_often = Change::WithoutOnce.tried(life(&written_often(desktops), "ideal")?);
    let repeated = AGAIN.tried(life(&repeated, "ideal")?);
    values.explain("griffin-life-ideal", ideal, vec![written_often, repeated], erased(runs, often))?;
    values.note("griffin-life-simple", ratio(simple, ideal))?;
    log_of_slc(values, "griffin-slc-log", desktops, often)
}

/// Returns the writes that a log saves, in proportion to which the ideal layer erases, as text.
fn erased(runs: &[Run], often: &OftenSaved) -> String {
    let saved = percent(mean(runs.iter().map(|run| run.write_savings)));
    format!("the ideal layer erases in proportion to the writes, of which {saved} are saved; {}", often.life)
}

/// Figures of a shipped trace of which a log saves many writes.
struct OftenSaved {
    name: &'static str,
    /// Gain of life under the ideal translation layer, as text.
    life: String,
    /// Bytes written to a log of SLC flash, relative to the SSD's.
    logged: Option<f64>,
}

impl OftenSaved {
    fn of(name: &'static str, traces: &Traces) -> Result<Self, ExperimentsError> {
        let trace = [settled(&traces.shipped(name)?)];
        Ok(Self { name, life: life_text(name, &trace)?, logged: logged(&trace)? })
    }
}

/// Returns the gain of life under the ideal translation layer over one trace, as text.
fn life_text(name: &str, trace: &[Loaded]) -> Result<String, ExperimentsError> {
    let saved = each(trace, || griffin(&COMPOSITE))?.first().and_then(|run| run.write_savings);
    let gain = life(trace, "ideal")?.map(times).unwrap_or_default();
    Ok(format!("{gain} on {name}, where {} are saved", percent(saved)))
}

/// Notes the mean gain of writes in order that a log brings. `with` has the runs with the log.
fn in_order(
    values: &mut Values,
    claim: &'static str,
    names: &[&str],
    traces: &[Loaded],
    with: &[Run],
) -> Result<(), ExperimentsError> {
    let alone = || Plan::new("ssd-only").ssd(MLC);
    let gain = |with: &Run, without: &Run| Some(with.ssd_write_sequentiality? - without.ssd_write_sequentiality?);
    let without = each(traces, alone)?;
    let small: Vec<Loaded> = traces.iter().map(|trace| Change::Small.of(trace)).collect();
    let (small_with, small_without) = (each(&small, || griffin(&COMPOSITE))?, each(&small, alone)?);
    let small = mean(small_with.iter().zip(&small_without).map(|(with, without)| gain(with, without)));
    let often = written_often(traces);
    let (often_with, often_without) = (each(&often, || griffin(&COMPOSITE))?, each(&often, alone)?);
    let often = mean(often_with.iter().zip(&often_without).map(|(with, without)| gain(with, without)));
    let shares = names.iter().zip(with.iter().zip(&without)).map(|(name, (with, without))| {
        format!("{name} {} to {}", percent(without.ssd_write_sequentiality), percent(with.ssd_write_sequentiality))
    });
    let shares = format!("share in order: {}", shares.collect::<Vec<_>>().join(", "));
    let pairs = || with.iter().zip(&without);
    let mut changes = vec![Change::Small.tried(small), Change::WithoutOnce.tried(often)];
    let with_room =
        || pairs().filter(|(_, without)| without.ssd_write_sequentiality.is_some_and(|at| at < LITTLE_TO_GAIN));
    if with_room().count() < names.len() {
        let text = format!("without the traces that are in order to {} and more", percent(Some(LITTLE_TO_GAIN)));
        changes.push(tried(text, mean(with_room().map(|(with, without)| gain(with, without)))));
    }
    values.explain(claim, mean(pairs().map(|(with, without)| gain(with, without))), changes, shares)
}

/// Returns the lifetime of flash with a log, relative to the lifetime without a log, computed from
/// the erases of a translation layer. A trace that erases nothing has no lifetime.
fn life(traces: &[Loaded], ftl: &str) -> Result<Option<f64>, ExperimentsError> {
    let setting = [("ssd.ftl", ftl)];
    let with = each(traces, || griffin(&COMPOSITE).set(&setting))?;
    let without = each(traces, || Plan::new("ssd-only").ssd(MLC).set(&setting))?;
    let pairs = with.iter().zip(&without).filter(|(_, without)| erases(without) != Some(0.0));
    Ok(geometric_mean(pairs.map(|(with, without)| ratio(erases(without), erases(with)))))
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
        "the log takes {} times the SSD's bytes, in the paper twice; on {} {} times, and then the share is {}",
        text(ours),
        often.name,
        text(often.logged),
        percent(share(often.logged))
    );
    let written_often = Change::WithoutOnce.tried(share(logged(&written_often(traces))?));
    values.explain(claim, share(ours), vec![written_often], text)
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
    let unread = self::each(traces, || griffin(&COMPOSITE[..2]).set(&[LOOSE]))?;
    let unread = tried("without a read threshold", mean(unread.iter().map(|run| run.write_savings)));
    let often = self::each(&written_often(traces), || griffin(&COMPOSITE))?;
    let often = Change::WithoutOnce.tried(mean(often.iter().map(|run| run.write_savings)));
    values.explain(
        savings,
        mean(runs.iter().map(|run| run.write_savings)),
        vec![unread, often],
        format!("an ideal cache saves {} of the writes; by trace Griffin saves {saved}", percent(possible)),
    )?;
    let thinking = each_replayed(traces, THINK, || griffin(&COMPOSITE))?;
    let thinking = tried(WAITS, mean(thinking.iter().map(|run| run.read_penalty)));
    values.explain(
        penalty,
        mean(runs.iter().map(|run| run.read_penalty)),
        vec![thinking],
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
    let with = logged_on(LOG).play(trace, replay)?;
    let without = Plan::new("ssd-only").ssd(MLC).play(trace, replay)?;
    Ok((ratio(with.response_time_ms.all.mean, without.response_time_ms.all.mean), [with, without]))
}

/// Returns the mean latency with one more setting of the log, relative to that of the SSD alone.
fn relative_with(
    trace: &Loaded,
    setting: (&str, &str),
    [_, without]: &[Run; 2],
) -> Result<Option<f64>, ExperimentsError> {
    let with = logged_on(LOG).set(&[setting]).play(trace, TIMED)?;
    Ok(ratio(with.response_time_ms.all.mean, without.response_time_ms.all.mean))
}

/// Returns a factor as text.
fn times(factor: f64) -> String {
    crate::claims::Unit::Times.text(factor)
}

/// Changes of the replay that are tried: the host waits, and does nothing else than wait.
const WAITS: &str = "if the host waits for answers as it did when recorded";
const ONE_BY_ONE: &str = "if each request follows at once the answer to the request before";

/// Returns a latency relative to another latency as a change that was tried.
fn tried_latency(change: &str, relative: Option<f64>) -> Tried {
    tried(change, less_1(relative))
}

/// Returns the change that belongs to a ratio.
fn less_1(ratio: Option<f64>) -> Option<f64> {
    ratio.map(|ratio| ratio - 1.0)
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
    let causes = vec![tried_latency(WAITS, all(&thinking)), tried_latency("with a read threshold of 1 %", tight)];
    values.explain("griffin-latency", less_1(all(&runs)), causes, each)
}

/// Measures Griffin's figure 9 over the other two public desktops, each with a change of its own.
fn latencies_of_others(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let causes = [
        ("griffin-latency-p2p", P2P, ("log_buffer", "0"), "if each write waits for the log"),
        ("griffin-latency-sys1", SYS1, TIGHT, "with a read threshold of 1 %"),
    ];
    for (claim, name, cause, text) in causes {
        let Some(desktop) = traces.public(name)? else { continue };
        let ((timed, runs), (thinking, _)) = (relative(&desktop, TIMED)?, relative(&desktop, THINK)?);
        let caused = relative_with(&desktop, cause, &runs)?;
        let (one_by_one, _) = relative(&desktop, CLOSED)?;
        let causes =
            vec![tried_latency(WAITS, thinking), tried_latency(text, caused), tried_latency(ONE_BY_ONE, one_by_one)];
        values.explain(claim, less_1(timed), causes, directions(&runs))?;
    }
    Ok(())
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
    let moved = tried_latency("with the partition aligned to blocks", moved);
    values.explain("griffin-latency-public", less_1(as_recorded), vec![moved], directions(&runs))
}

fn wrong(error: bimetal_sim::workload::WorkloadError) -> ExperimentsError {
    ExperimentsError::Run(bimetal_sim::experiment::ExperimentError::Workload(error))
}

/// Measures Griffin's figures 5 and 6 over one long trace.
fn timeouts(
    values: &mut Values,
    [savings, penalty, threshold, sizes]: [&'static str; 4],
    trace: &Loaded,
) -> Result<(), ExperimentsError> {
    let run = |timeout: &str| griffin(&alone(timeout, "off")).play(trace, TIMED);
    let (none, timeout, later, latest) = (run("off")?, run("900s")?, run("1800s")?, run("3600s")?);
    let analysis = analysis(trace)?;
    let kept = |run: &Run| ratio(run.write_savings, none.write_savings);
    let longer = vec![tried("with 1800 s", kept(&later)), tried("with 3600 s", kept(&latest))];
    let waw = percent(analysis.waw.as_ref().map(|waw| waw.s900));
    let soon = format!("{waw} of the overwrites come within 900 s");
    values.explain(savings, kept(&timeout), longer, soon)?;
    values.explain(
        sizes,
        ratio(megabytes(&latest), megabytes(&timeout)),
        Vec::new(),
        format!("{:.0} and {:.0} MB", megabytes(&latest).unwrap_or_default(), megabytes(&timeout).unwrap_or_default()),
    )?;
    let cache = Change::Cached(1024);
    let behind = cache.of(trace);
    let cached = griffin(&alone("900s", "off")).play(&behind, TIMED)?;
    let soon = percent(analysis.raw.as_ref().map(|raw| raw.s900));
    values.explain(
        penalty,
        timeout.read_penalty,
        vec![tried(cache.text(), cached.read_penalty)],
        format!("{soon} of the reads after a write come within 900 s"),
    )?;
    let fired = griffin(&alone("off", "0.01")).play(trace, TIMED)?;
    let behind = ratio(griffin(&alone("off", "0.01")).play(&behind, TIMED)?.write_savings, cached.write_savings);
    // A timeout saves the same writes, whatever is read.
    let calm = Change::WithoutMinutes(3);
    let calmer = griffin(&alone("off", "0.01")).play(&calm.of(trace), TIMED)?;
    let (seconds, count) = (analysis.duration_s.unwrap_or_default(), fired.migration.count.unwrap_or_default());
    let as_often = if count == 0 { none } else { run(&format!("{}s", (seconds / (count + 1) as f64).ceil()))? };
    let as_often = ratio(fired.write_savings, as_often.write_savings);
    values.explain(
        threshold,
        ratio(fired.write_savings, timeout.write_savings),
        vec![
            tried("relative to a timeout that fires as often as the threshold", as_often),
            tried(cache.text(), behind),
            calm.tried(ratio(calmer.write_savings, timeout.write_savings)),
        ],
        format!(
            "the threshold alone migrates {count} times in the trace's {:.1} hours, and the timeout {}",
            seconds / 3600.0,
            timeout.migration.count.unwrap_or_default()
        ),
    )
}

/// Measures the figures after section 4 over the recorded desktop of three hours.
fn recorded(values: &mut Values, traces: &Traces, often: &OftenSaved) -> Result<(), ExperimentsError> {
    let desktop = traces.shipped("desktop")?;
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
    in_order(values, "griffin-sequentiality-3h", &["desktop"], &desktop, &runs)?;
    let written_often = Change::WithoutOnce.tried(life(&written_often(&desktop), "ideal")?);
    values.explain("griffin-life-ideal-3h", life(&desktop, "ideal")?, vec![written_often], erased(&runs, often))?;
    log_of_slc(values, "griffin-slc-log-3h", &desktop, often)?;
    let (latency, runs) = relative(&desktop[0], TIMED)?;
    let (thinking, _) = relative(&desktop[0], THINK)?;
    values.explain("griffin-latency-3h", less_1(latency), vec![tried_latency(WAITS, thinking)], directions(&runs))
}
