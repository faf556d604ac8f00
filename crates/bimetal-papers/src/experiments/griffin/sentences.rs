//! Sentences with a number in Griffin's sections 2, 3, 5, 6 and 7.
//!
//! Our choices, where the paper leaves something open:
//! - The write-lifetime is measured on an X25-M of 1 GB that is full: the bytes written for each
//!   block erased, relative to a block's bytes. The drive has one channel, because a small drive
//!   with ten channels has smaller blocks than the paper's 512 KB.
//! - The buffer cache of section 7 has 16, 64 or 256 MiB.
//! - Rates are measured at queue depth 32 over 8 GB. The place on a disk and the filling of flash
//!   are open: the outer edge, the middle and the inner edge are tried, and a filling in order and
//!   at random.
//! - A mean migration with a read threshold is the mean over the traces on which it migrates.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;
use bimetal_sim::results::Run;
use bimetal_sim::simulator::Replay;
use bimetal_trace::Request;
use bimetal_trace::synthetic::{Generator, Interarrival, WorkloadSpec};
use rayon::prelude::*;

use super::altered::Change;
use super::{FAST_LOG, INSTANT, LOG, MLC, SLC, THINK, WAITS};
use super::{alone, analysis, each, each_replayed, erases, griffin, in_order, life, life_text, logged_on};
use super::{megabytes, settled, timeouts, times, written_often};
use crate::claims::griffin::{CLOUD, P2P};
use crate::claims::short;
use crate::experiments::{CLOSED, ExperimentsError, Note, Plan, TIMED, Values, decide, mean, percent, ratio, tried};
use crate::traces::{DESKTOPS, Loaded, PUBLIC_DESKTOPS, SERVERS, Traces, is_shipped};

pub(super) fn measure(values: &mut Values, traces: &Traces) -> Result<(), ExperimentsError> {
    let names: Vec<&str> = DESKTOPS.into_iter().chain(SERVERS).collect();
    let shipped = traces.all_shipped(&names)?;
    write_lifetime(values)?;
    oracle(values, &shipped)?;
    policy(values, &names, &shipped)?;
    thresholds(values, &names, &shipped)?;
    rates(values)?;
    if is_shipped("desktop") {
        let desktop = traces.shipped("desktop")?;
        figure_9(values, &FIGURE_9_3H, &desktop)?;
        eviction(values, &desktop)?;
    }
    if let Some(mayun) = traces.public("diskmon-mayun.tsv.xz")? {
        figure_9(values, &FIGURE_9, &mayun)?;
    }
    if let Some(machine) = traces.public(CLOUD)? {
        let claims = [
            "griffin-timeout-savings-vm",
            "griffin-timeout-penalty-vm",
            "griffin-threshold-savings-vm",
            "griffin-timeout-sizes-vm",
        ];
        timeouts(values, claims, &machine)?;
    }
    if let Some(public) = traces.public_desktops()? {
        public_desktops(values, &public)?;
    }
    if let Some(p2p) = traces.public(P2P)? {
        halved(values, &p2p)?;
    }
    Ok(())
}

/// Flash of the experiments about the write-lifetime.
const WORN: Bytes = Bytes(1_000_000_000);

/// Returns the bytes written for each byte erased, with writes of one size.
fn written_for_erased(requests: u64, size: &str, sequential: f64, ftl: &str) -> Result<Option<f64>, ExperimentsError> {
    let spec = WorkloadSpec {
        read_fraction: 0.0,
        size: size.parse()?,
        sequential,
        ..WorkloadSpec::new(requests, Bytes(WORN.get() / 4096 * 4096))
    };
    let trace = Loaded::generated(Generator::new(&[spec], 1)?.collect());
    let bytes: u64 = trace.requests.iter().map(|request| request.range.len.0 * SECTOR_BYTES).sum();
    let settings = [("ssd.ftl", ftl), ("ssd.channels", "1"), ("ssd.planes_per_die", "1")];
    let mut plan = Plan::new("ssd-only").ssd(MLC).ssd_size(WORN).set(&settings);
    plan.choices.precondition = Some(Precondition::Sequential);
    let run = plan.play(&trace, CLOSED)?;
    Ok(erases(&run).zip(block_bytes(MLC)?).map(|(erases, block)| bytes as f64 / (erases * block)))
}

/// Returns the bytes of a block that is erased.
fn block_bytes(profile: &str) -> Result<Option<f64>, ExperimentsError> {
    let profile = Profile::load(profile)?;
    let of = |key: &str| profile.figures().find(|(found, ..)| *found == key).map(|(_, value, _)| value);
    let pages = of("pages_per_block").and_then(|pages| pages.parse::<f64>().ok());
    let page = of("page_size").and_then(|size| size.trim_matches('"').parse::<Bytes>().ok());
    Ok(pages.zip(page).map(|(pages, page)| pages * page.get() as f64))
}

/// Griffin, section 2: the write-lifetime in order, and in the worst case.
fn write_lifetime(values: &mut Values) -> Result<(), ExperimentsError> {
    let in_order = written_for_erased(30_000, "64KiB", 1.0, "page")?;
    let at_random = written_for_erased(100_000, "4KiB", 0.0, "page")?;
    let text = format!("×{} with writes of 4 KiB at random", at_random.map(short).unwrap_or_default());
    values.explain("griffin-write-lifetime", in_order, Vec::new(), text)?;
    let simple = written_for_erased(30_000, "64KiB", 1.0, "simple")?;
    let worst = written_for_erased(10_000, "512B", 0.0, "simple")?;
    let maps_pages = ratio(in_order, written_for_erased(100_000, "512B", 0.0, "page")?);
    let maps_pages = vec![tried("under a layer that maps pages", maps_pages)];
    values.explain("griffin-worst-case", ratio(simple, worst), maps_pages, String::new())
}

/// Griffin, section 2: the life where half of the writes are saved or more, relative to a life in
/// proportion to the writes that are left.
fn halved(values: &mut Values, p2p: &Loaded) -> Result<(), ExperimentsError> {
    let trace = [settled(p2p)];
    let saved = each(&trace, || griffin(&super::COMPOSITE))?.first().and_then(|run| run.write_savings);
    let gain = life(&trace, "ideal")?;
    let relative = gain.zip(saved).map(|(gain, saved)| gain * (1.0 - saved));
    let text = format!("{}: Griffin saves {} of the writes", gain.map(times).unwrap_or_default(), percent(saved));
    values.explain("griffin-halved-writes", relative, Vec::new(), text)
}

/// Settings of an ideal cache.
const ORACLE: [(&str, &str); 4] = [INSTANT, ("timeout", "off"), ("read_threshold", "off"), ("oracle", "on")];

/// Griffin, section 3.2: the idealized cache.
fn oracle(values: &mut Values, shipped: &[Loaded]) -> Result<(), ExperimentsError> {
    let request = |(number, letter): (u64, char)| Request {
        arrival: Nanoseconds::from_seconds(number),
        device: 0,
        kind: if letter == 'W' { OpKind::Write } else { OpKind::Read },
        fua: false,
        range: SectorRange::new(0, 8),
        response: None,
    };
    let sequence = Loaded::generated((0..).zip("WWWRWW".chars()).map(request).collect());
    values.note("griffin-wwwrww", griffin(&ORACLE).play(&sequence, TIMED)?.write_savings)?;
    let runs = each(shipped, || griffin(&ORACLE))?;
    let penalty = runs.iter().filter_map(|run| run.read_penalty).fold(0.0, f64::max);
    values.note("griffin-oracle-penalty", Some(penalty))?;
    let possible = shipped.iter().map(|trace| Ok(analysis(trace)?.max_write_savings));
    let possible = mean(possible.collect::<Result<Vec<_>, ExperimentsError>>()?);
    values.note("griffin-oracle-savings", ratio(mean(runs.iter().map(|run| run.write_savings)), possible))
}

/// Returns the greatest figure of the traces, and the name of its trace.
fn greatest<'a>(names: &[&'a str], runs: &[Run], figure: fn(&Run) -> Option<f64>) -> Option<(f64, &'a str)> {
    let figures = names.iter().zip(runs).filter_map(|(name, run)| Some((figure(run)?, *name)));
    figures.max_by(|(one, _), (other, _)| one.total_cmp(other))
}

/// Returns a trace whose requests are cut into pieces of at most 64 KiB.
fn in_pieces(trace: &Loaded) -> Loaded {
    let cut = |request: &Request| {
        let (request, all) = (*request, request.range);
        (0..all.len.0.max(1)).step_by(128).map(move |from| {
            let range = SectorRange::new(all.start.0 + from, (all.len.0 - from).min(128));
            Request { range, ..request }
        })
    };
    let requests = trace.requests.iter().flat_map(cut).collect();
    Loaded { requests, queue_events: false, compact: trace.compact }
}

/// Griffin, section 5.2: three triggers in concert.
fn policy(values: &mut Values, names: &[&str], shipped: &[Loaded]) -> Result<(), ExperimentsError> {
    let policy = |traces: &[Loaded], replay| {
        let triggers = [INSTANT, ("timeout", "300s"), ("read_threshold", "0.05"), ("migration_size", "100MB")];
        each_replayed(traces, replay, || griffin(&triggers))
    };
    let runs = policy(shipped, TIMED)?;
    let worst = greatest(names, &runs, |run| run.read_penalty);
    let text = format!("on {}", worst.map_or("–", |(_, name)| name));
    let waits = policy(shipped, THINK)?;
    let waits = tried(WAITS, greatest(names, &waits, |run| run.read_penalty).map(|(share, _)| share));
    values.explain("griffin-policy-penalty", worst.map(|(share, _)| share), vec![waits], text)?;
    let largest = greatest(names, &runs, megabytes);
    let of_largest = names.iter().position(|name| largest.is_some_and(|(_, largest)| largest == *name));
    let pieces: Vec<Loaded> = of_largest.map(|at| in_pieces(&shipped[at])).into_iter().collect();
    let pieces = tried("if each request has at most 64 KiB", policy(&pieces, TIMED)?.first().and_then(megabytes));
    let text =
        format!("on {}; a request that is under way is logged to its end", largest.map_or("–", |(_, name)| name));
    values.explain("griffin-policy-size", largest.map(|(size, _)| size), vec![pieces], text)
}

/// Returns the mean bytes of all migrations of some runs in MB.
fn of_all(runs: &[Run]) -> Option<f64> {
    let sizes = runs.iter().filter_map(|run| Some((run.migration.count? as f64, megabytes(run)?)));
    let (count, bytes) = sizes.fold((0.0, 0.0), |(all, bytes), (count, size)| (all + count, bytes + count * size));
    (count > 0.0).then(|| bytes / count)
}

/// Plays every trace with read thresholds of 1 % and of 10 %.
fn with_thresholds(traces: &[Loaded]) -> Result<[Vec<Run>; 2], ExperimentsError> {
    let with = |threshold| each(traces, || griffin(&alone("off", threshold)));
    Ok([with("0.01")?, with("0.1")?])
}

/// Notes the mean migration with a read threshold of 10 % relative to one of 1 %. Returns the runs
/// with 1 %.
fn threshold_sizes(values: &mut Values, claim: &'static str, traces: &[Loaded]) -> Result<Vec<Run>, ExperimentsError> {
    let size = |runs: &[Run]| mean(runs.iter().map(megabytes));
    let count = |runs: &[Run]| runs.iter().filter_map(|run| run.migration.count).sum::<u64>();
    let [tight, loose] = with_thresholds(traces)?;
    let counts = format!("{} migrations with 1 %, {} with 10 %", count(&tight), count(&loose));
    let alike = tried("if all migrations count alike, and not all traces", ratio(of_all(&loose), of_all(&tight)));
    let shuffled: Vec<Loaded> = traces.iter().map(|trace| Change::Shuffled.of(trace)).collect();
    let [steady_tight, steady_loose] = with_thresholds(&shuffled)?;
    let shuffled = Change::Shuffled.tried(ratio(size(&steady_loose), size(&steady_tight)));
    values.explain(claim, ratio(size(&loose), size(&tight)), vec![shuffled, alike], counts)?;
    Ok(tight)
}

/// Griffin, section 6.1.2: the migrations of a read threshold.
fn thresholds(values: &mut Values, names: &[&str], shipped: &[Loaded]) -> Result<(), ExperimentsError> {
    let runs = threshold_sizes(values, "griffin-threshold-sizes", shipped)?;
    let intervals = names.iter().zip(&runs).filter_map(|(name, run)| Some((run.migration.mean_interval_s?, *name)));
    let shortest = intervals.min_by(|(one, _), (other, _)| one.total_cmp(other));
    let at_once = each(shipped, || griffin(&alone("off", "0.01")).set(&[("read_window", "1")]))?;
    let at_once = at_once.iter().filter_map(|run| run.migration.mean_interval_s).min_by(f64::total_cmp);
    let at_once = tried("if the threshold counts from the first read on, and not after 100 reads", at_once);
    let on = format!("on {}", shortest.map_or("–", |(_, name)| name));
    values.explain("griffin-threshold-interval", shortest.map(|(seconds, _)| seconds), vec![at_once], on)?;
    let never = runs.iter().filter(|run| run.migration.count.unwrap_or_default() == 0).count();
    let counts =
        names.iter().zip(&runs).map(|(name, run)| format!("{name} {}", run.migration.count.unwrap_or_default()));
    let counts = counts.collect::<Vec<_>>().join(", ");
    values.explain("griffin-threshold-never", Some(never as f64), Vec::new(), format!("migrations: {counts}"))
}

/// Griffin, section 7: blocks migrate when the host's buffer cache evicts the blocks. The recorded
/// host had a cache of its own; the reads that the simulated cache serves are left out as a change.
fn eviction(values: &mut Values, desktop: &Loaded) -> Result<(), ExperimentsError> {
    let figures = |trace: &Loaded, mib: usize| -> Result<[Option<f64>; 2], ExperimentsError> {
        let cache = format!("{mib}MiB");
        let run = griffin(&alone("off", "off")).set(&[("eviction_hint", &cache)]).play(trace, TIMED)?;
        Ok([ratio(run.write_savings, analysis(trace)?.max_write_savings), run.read_penalty])
    };
    let sizes = [16, 64, 256];
    let plain = sizes.map(|mib| figures(desktop, mib)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let served = sizes.map(|mib| figures(&Change::Cached(mib).of(desktop), mib));
    let served = served.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (figure, claim) in ["griffin-eviction-savings", "griffin-eviction-penalty"].into_iter().enumerate() {
        let each = "with a buffer cache of 16, 64, 256 MiB";
        let unread = tried("with 64 MiB, without the reads that such a cache serves", served[1][figure]);
        decide(values, claim, &plain.iter().map(|run| run[figure]).collect::<Vec<_>>(), each, vec![unread])?;
    }
    Ok(())
}

/// Griffin, sections 6.2 and 6.3, over the public desktops.
fn public_desktops(values: &mut Values, traces: &[Loaded]) -> Result<(), ExperimentsError> {
    threshold_sizes(values, "griffin-threshold-sizes-public", traces)?;
    let traces: Vec<Loaded> = traces.iter().map(settled).collect();
    let logged = each(&traces, || griffin(&super::COMPOSITE))?;
    let names = PUBLIC_DESKTOPS.map(|file| file.trim_start_matches("diskmon-").trim_end_matches(".tsv.xz"));
    in_order(values, "griffin-sequentiality-public", &names, &traces, &logged)?;
    let (ideal, simple) = (life(&traces, "ideal")?, life(&traces, "simple")?);
    let by_trace = names.iter().zip(traces.chunks(1)).map(|(name, trace)| life_text(name, trace));
    let by_trace = by_trace.collect::<Result<Vec<_>, ExperimentsError>>()?.join(", ");
    let written_often = Change::WithoutOnce.tried(life(&written_often(&traces), "ideal")?);
    values.explain("griffin-life-ideal-public", ideal, vec![written_often], by_trace)?;
    values.note("griffin-life-simple-public", ratio(simple, ideal))
}

/// Claims about figure 9: logs on a 10,000 rpm disk, an X25-M and an X25-E; reads with a log on a
/// 7200 rpm disk; and the X25-M relative to the 7200 rpm disk.
const FIGURE_9: [&str; 5] =
    ["griffin-fig9-10k", "griffin-fig9-mlc", "griffin-fig9-slc", "griffin-fig9-reads", "griffin-fig9-order"];
const FIGURE_9_3H: [&str; 5] = [
    "griffin-fig9-10k-3h",
    "griffin-fig9-mlc-3h",
    "griffin-fig9-slc-3h",
    "griffin-fig9-reads-3h",
    "griffin-fig9-order-3h",
];

/// Measures the logs of figure 9, with a timeout of 900 s.
fn figure_9(values: &mut Values, claims: &[&'static str; 5], trace: &Loaded) -> Result<(), ExperimentsError> {
    let logs = [LOG, FAST_LOG, MLC, SLC];
    let waiting = [LOG, MLC].map(|log| logged_on(log).play(trace, THINK));
    let alone = Plan::new("ssd-only").ssd(MLC).play(trace, TIMED)?;
    let runs = logs.par_iter().with_max_len(1).map(|log| logged_on(log).play(trace, TIMED));
    let runs: Vec<Run> = runs.collect::<Result<_, ExperimentsError>>()?;
    let all = |run: &Run| run.response_time_ms.all.mean;
    let reads = |run: &Run| ratio(run.response_time_ms.read.mean, alone.response_time_ms.read.mean);
    let text = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), times);
    for (claim, run) in claims.iter().zip(&runs[1..4]) {
        let served = format!("reads {}; the log serves {} of the reads", text(reads(run)), percent(run.read_penalty));
        values.explain(claim, ratio(all(run), all(&alone)), Vec::new(), served)?;
    }
    let at_once = logged_on(LOG).set(&[INSTANT]).play(trace, TIMED)?;
    let causes =
        vec![tried("if migrations take no time", reads(&at_once)), tried("with a log on an X25-M", reads(&runs[2]))];
    let served = format!("the log serves {} of the reads", percent(runs[0].read_penalty));
    values.explain(claims[3], reads(&runs[0]), causes, served)?;
    let [of_disk, of_flash] = waiting;
    let faster = logged_on(MLC).set(&[("log.program_us", "450")]).play(trace, TIMED)?;
    let causes = vec![
        tried(WAITS, ratio(all(&of_flash?), all(&of_disk?))),
        tried("if the log's X25-M writes its pages in half the time", ratio(all(&faster), all(&runs[0]))),
    ];
    values.explain(claims[4], ratio(all(&runs[2]), all(&runs[0])), causes, String::new())
}

/// Returns the rate of writes at queue depth 32 over 8 GB that begin at an address.
fn rate(
    mut plan: Plan,
    writes: (&str, f64),
    start: Bytes,
    fill: Precondition,
) -> Result<Option<f64>, ExperimentsError> {
    let (size, sequential) = writes;
    let spec = WorkloadSpec {
        read_fraction: 0.0,
        size: size.parse()?,
        sequential,
        interarrival: Interarrival::Constant(Nanoseconds(1000)),
        ..WorkloadSpec::new(40_000, Bytes(8_000_000_000 / 4096 * 4096))
    };
    let moved = |request: Request| {
        let range = SectorRange::new(request.range.start.0 + start.get() / SECTOR_BYTES, request.range.len.0);
        Request { range, ..request }
    };
    let trace = Loaded::generated(Generator::new(&[spec], 1)?.map(moved).collect());
    if plan.choices.ssd.profile.is_some() {
        plan.choices.precondition = Some(fill);
    }
    Ok(plan.play(&trace, Replay::Closed { depth: 32 })?.throughput.mb_per_s)
}

const IN_ORDER: (&str, f64) = ("64KiB", 1.0);
const AT_RANDOM: (&str, f64) = ("4KiB", 0.0);
/// More spare area than the drive's profile has.
const SPARED: [(&str, &str); 1] = [("ssd.spare_factor", "0.12")];

/// Griffin, sections 2, 6.4 and 7: the rates of the four drives.
fn rates(values: &mut Values) -> Result<(), ExperimentsError> {
    let disk = |profile, start| rate(Plan::new("hdd-only").hdd(profile), IN_ORDER, start, Precondition::Sequential);
    let flash = |profile, writes, fill| rate(Plan::new("ssd-only").ssd(profile), writes, Bytes(0), fill);
    let spared = rate(Plan::new("ssd-only").ssd(MLC).set(&SPARED), AT_RANDOM, Bytes(0), Precondition::Random)?;
    let end = (Profile::load(LOG)?.capacity.bytes().get() - 8_000_000_000) / 4096 * 4096;
    let places = [disk(LOG, Bytes(0))?, disk(LOG, Bytes(end / 8192 * 4096))?, disk(LOG, Bytes(end))?];
    decide(values, "griffin-rate-7200", &places, PLACES, Vec::new())?;
    values.note("griffin-rate-10k", disk(FAST_LOG, Bytes(0))?)?;
    let in_order = flash(MLC, IN_ORDER, Precondition::Sequential)?;
    values.note("griffin-rate-mlc", in_order)?;
    values.note("griffin-rate-slc", flash(SLC, IN_ORDER, Precondition::Sequential)?)?;
    let at_random = [Precondition::Sequential, Precondition::Random].map(|fill| flash(MLC, AT_RANDOM, fill));
    let [ordered, filled] = at_random;
    let at_random = [ordered?, filled?];
    let spared = vec![tried("behind a filling at random, with 12 % of the flash as spare area", spared)];
    decide(values, "griffin-rate-random", &at_random, FILLS, spared)?;
    let numbers: Vec<_> = at_random.iter().flat_map(|rate| places.map(|place| ratio(place, *rate))).collect();
    decide(values, "griffin-shared-log", &numbers, &format!("{PLACES}, each {FILLS}"), Vec::new())?;
    let slower = at_random.map(|rate| ratio(in_order, rate));
    decide(values, "griffin-random-writes", &slower, FILLS, Vec::new())
}

/// Text for rates at three places of a disk, and behind two fillings of flash.
const PLACES: &str = "at the outer edge, in the middle and at the inner edge of the disk";
const FILLS: &str = "behind a filling in order and behind a filling at random";
