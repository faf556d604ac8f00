//! Whole experiments, compared with figures that were computed independently, and with other
//! experiments.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bimetal_core::block::BlockSize;
use bimetal_core::layout::Role;
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::Holds;
use bimetal_core::schemes;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::flash::state::DriveState;
use bimetal_models::profile::{DEFAULT_HDD, DEFAULT_SSD, Price};
use bimetal_sim::experiment::{Experiment, ExperimentError, NoProgress};
use bimetal_sim::findings::NoChoice;
use bimetal_sim::market::{Market, OnSale};
use bimetal_sim::over_share::SHARES;
use bimetal_sim::ownership::Terms;
use bimetal_sim::results::{Document, FlashFigures, Member, MemberFigures, Run, RunSpeed};
use bimetal_sim::setup::{Choices, DefaultSize, DriveChoice, Size, Sizing};
use bimetal_sim::simulator::Replay;
use bimetal_sim::tree::{MemberChoice, NamedDrive, VolumeChoice};
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::hints::HEADER;
use bimetal_trace::synthetic::{Generator, WorkloadSpec};
use bimetal_trace::{Hints, OpenOptions, Request, Trace};

struct File(PathBuf);

impl Workload for File {
    fn open_drawn(&self, _drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        let trace = Trace::open(&self.0, &OpenOptions::default())?;
        Ok(Box::new(trace.map(|request| request.map_err(WorkloadError::from))))
    }

    fn grid(&self) -> u64 {
        0
    }
}

/// Returns a trace of `../shared`; `None` if the trace does not exist.
fn shared(name: &str) -> Option<File> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces")).join(name);
    if !path.exists() {
        eprintln!("skipped: no ../shared");
        return None;
    }
    Some(File(path))
}

fn run(workload: &dyn Workload, names: &[&str], settings: &[(&str, &str)], replay: Replay) -> Document {
    try_run(workload, names, settings, replay, Choices::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn try_run(
    workload: &dyn Workload,
    names: &[&str],
    settings: &[(&str, &str)],
    replay: Replay,
    choices: Choices,
) -> Result<Document, ExperimentError> {
    let schemes = names.iter().map(|name| schemes::find(name).unwrap().into()).collect();
    let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let choices = Choices { settings, ..choices };
    Experiment { workload, schemes, trees: Vec::new(), choices, replay, warmup: 0.0, keep: None }
        .run(&NoProgress, |_, summary| summary)
}

const TIMED: Replay = Replay::Timed { speedup: 1.0 };

fn near(figure: Option<f64>, expected: f64) -> bool {
    figure.is_some_and(|figure| (figure - expected).abs() <= 0.00006)
}

fn griffin(settings: &[(&str, &str)]) -> Option<Run> {
    let workload = shared("cloudPhysicsIO.vscsi.xz")?;
    let mut all = vec![("migration", "instant"), ("read_threshold", "off")];
    all.extend(settings);
    run(&workload, &["griffin"], &all, TIMED).runs.pop()
}

/// The expected write savings and read penalty come from a policy simulator of a dozen lines, on
/// the same trace. A block counts as served by the log if the log has a sector of the part that is
/// read.
#[test]
fn griffin_matches_a_policy_simulator_with_a_timeout_alone() {
    let Some(run) = griffin(&[]) else { return };
    assert!(near(run.write_savings, 0.32537), "{:?}", run.write_savings);
    assert!(near(run.read_penalty, 0.63438), "{:?}", run.read_penalty);
    assert_eq!(run.migration.count, Some(8));
}

#[test]
fn griffin_matches_a_policy_simulator_without_triggers() {
    let Some(run) = griffin(&[("timeout", "off")]) else { return };
    assert!(near(run.write_savings, 0.68195), "{:?}", run.write_savings);
    assert!(near(run.read_penalty, 0.74697), "{:?}", run.read_penalty);
    assert_eq!(run.migration.count, Some(0));
}

fn generated(requests: u64) -> Vec<Request> {
    let mut spec = WorkloadSpec::new(requests, Bytes::from_mib(64));
    spec.read_fraction = 0.4;
    spec.interarrival = "poisson:2ms".parse().unwrap();
    Generator::new(&[spec], 7).unwrap().collect()
}

fn all_schemes() -> Vec<&'static str> {
    schemes::ALL.iter().map(|info| info.name).collect()
}

#[test]
fn the_same_workload_and_seed_give_the_same_bytes() {
    let workload = generated(4000);
    let text = || {
        let mut document = run(&workload, &all_schemes(), &[], TIMED);
        document.runs.iter_mut().for_each(|run| run.run = RunSpeed::default());
        document.to_json()
    };
    assert_eq!(text(), text());
}

#[test]
fn every_scheme_answers_and_counts_each_request_once() {
    let workload = generated(4000);
    for replay in [TIMED, Replay::Closed { depth: 16 }] {
        for run in run(&workload, &all_schemes(), &[], replay).runs {
            let cdf = &run.series.response_time_cdf;
            assert_eq!(cdf.all.requests.last(), Some(&4000), "{}", run.scheme);
            let answered = [&cdf.read, &cdf.write].map(|cdf| cdf.requests.last().copied().unwrap_or(0));
            assert_eq!(answered.iter().sum::<u64>(), 4000, "{}", run.scheme);
            assert_eq!(run.cost.score.is_some(), matches!(replay, Replay::Closed { .. }), "{}", run.scheme);
        }
    }
}

/// Regression: small writes counted as whole blocks of the host and as bytes of home, so a scheme
/// that wrote all of them home was said to write nothing home. The replay at half speed had its
/// timer compared with the time of the trace.
#[test]
fn work_put_off_counts_blocks_and_the_time_of_the_replay() {
    let small = |request: Request| Request {
        kind: OpKind::Write,
        range: SectorRange { len: Sectors(1), ..request.range },
        ..request
    };
    let workload: Vec<Request> = generated(4000).into_iter().map(small).collect();
    let reason = |scheme: &str, settings: &[(&str, &str)], speedup| {
        let choices = Choices { block: BlockSize::new(Bytes::from_kib(64)).unwrap(), ..Choices::default() };
        let document = try_run(&workload, &[scheme], settings, Replay::Timed { speedup }, choices).unwrap();
        let timers = document.findings.iter().any(|finding| finding.id == "timers-longer-than-trace");
        (document.runs[0].no_choice, timers)
    };
    let nothing_home = Some(NoChoice::NothingWrittenHome);
    assert_eq!(reason("hyperduo", &[], 1.0).0, None);
    assert_eq!(reason("griffin", &[("timeout", "10s")], 1.0), (nothing_home, true), "the replay takes 8 s");
    let (slow, timers) = reason("griffin", &[("timeout", "10s")], 0.5);
    assert!(slow != nothing_home && !timers, "the replay takes 16 s: {slow:?}");
}

#[test]
fn requests_of_a_kind_alone_leave_the_other_kind_null() {
    let range = |at: u64| SectorRange::new(at * 8, 8);
    let request = |kind, at: u64| Request {
        arrival: Nanoseconds::from_millis(at),
        device: 0,
        kind,
        fua: false,
        range: if kind == OpKind::Flush { SectorRange::default() } else { range(at) },
        response: None,
    };
    for kind in [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard] {
        let workload: Vec<Request> = (0..20).map(|at| request(kind, at)).collect();
        for run in run(&workload, &all_schemes(), &[], TIMED).runs {
            let times = run.response_time_ms;
            assert_eq!(times.read.mean.is_some(), kind == OpKind::Read, "{} {kind:?}", run.scheme);
            assert_eq!(times.write.mean.is_some(), kind == OpKind::Write, "{} {kind:?}", run.scheme);
        }
    }
}

#[test]
fn a_drive_too_small_for_the_addresses_is_an_error_and_no_run() {
    let workload = generated(100);
    let mut choices = Choices::default();
    choices.hdd.size = Some(Size::Bytes(Bytes::from_mib(10)));
    let error = try_run(&workload, &["hdd-only"], &[], TIMED, choices).unwrap_err().to_string();
    assert!(error.contains("the hdd drive of 10 MiB is too small") && error.contains("every address"), "{error}");
}

/// A plain drive has no label of Bimetal. Regression: a trace that fills a drive of 192 MiB was
/// refused, because room was kept for a label.
#[test]
fn plain_drive_takes_a_trace_that_fills_it() {
    let size = Bytes::from_mib(192);
    let last = SectorRange::new(size.sectors().0 - 8, 8);
    let mut workload = generated(100);
    workload[50].range = last;
    for (name, member) in [("ssd-only", "ssd"), ("hdd-only", "hdd")] {
        let mut choices = Choices { precondition: Some(Precondition::Clean), ..Choices::default() };
        choices.ssd.size = Some(Size::Bytes(size));
        choices.hdd.size = Some(Size::Bytes(size));
        let run = try_run(&workload, &[name], &[], TIMED, choices.clone()).unwrap().runs.pop().unwrap();
        assert_eq!(run.exported_bytes, size.0, "{name}");
        let mut beyond = workload.clone();
        beyond[50].range.start += Sectors(8);
        let error = try_run(&beyond, &[name], &[], TIMED, choices).unwrap_err().to_string();
        let needed = Bytes(size.0 + 4096);
        let (size, needed) = (size.rounded_down(), needed.rounded_up());
        let sizes = format!("the {member} drive of {size} is too small for its role: expected at least {needed}");
        assert!(error.contains(&sizes), "{error}");
    }
}

/// Regression: `controller_usd` for all schemes made a disk without a manager cost $33 more.
#[test]
fn drive_alone_has_no_manager_to_pay() {
    let settings = [("controller_usd", "5")];
    let runs = run(&generated(500), &["hdd-only", "ssd-only", "bcache"], &settings, TIMED).runs;
    assert_eq!(runs.iter().map(|run| run.cost.controller_usd).collect::<Vec<_>>(), [Some(0.0), Some(0.0), Some(5.0)]);
}

/// Storage managers, figure 8 and equation 1: each manager has its own price.
#[test]
fn each_scheme_has_the_price_of_its_own_manager() {
    let settings = [("controller_usd", "5"), ("hyperduo.controller_usd", "33"), ("hddboost.controller_usd", "0")];
    let names = ["hyperduo", "hddboost", "smart-response"];
    let runs = run(&generated(500), &names, &settings, Replay::Closed { depth: 1 }).runs;
    assert_eq!(runs.iter().map(|run| run.cost.controller_usd).collect::<Vec<_>>(), [Some(33.0), Some(0.0), Some(5.0)]);
    for run in &runs {
        let (cost, price) = (&run.cost, run.cost.controller_usd.unwrap());
        let score = cost.score.unwrap();
        assert_eq!(cost.score_per_manager_usd, (price > 0.0).then(|| score / price), "{}", run.scheme);
        assert_eq!(cost.budget, Some(score / (cost.ssd_usd.unwrap() + price)), "{}", run.scheme);
        assert!(!run.settings.contains_key("controller_usd"), "{}: a price is no parameter of the engine", run.scheme);
    }
}

/// Regression: 1 GiB of a drive of 500 GB cost as much as the drive, and was worn after the five
/// hundredth part of its warranted writes.
#[test]
fn part_of_a_drive_has_price_and_life_of_the_whole_drive() {
    let gib = Bytes::from_gib(1);
    // A file, because a built-in profile in a given size is a drive of this size.
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/samsung-970-evo-plus-500gb.toml").to_owned();
    let price = Price { usd: 90.0, date: String::new(), source: String::new() };
    let on_sale = OnSale { model: model.clone(), size: Bytes(500_000_000_000), price, profile: None };
    let part = |price_per_gb| {
        let ssd = DriveChoice { profile: Some(model.clone()), size: Some(Size::Bytes(gib)) };
        let market = Market { drives: vec![on_sale.clone()], ..Market::default() };
        let choices = Choices { ssd, price_per_gb, market: market.into(), ..Choices::default() };
        try_run(&generated(2000), &["smart-response"], &[], TIMED, choices).unwrap().runs.pop().unwrap()
    };
    let (whole, by_the_byte) = (part(false), part(true));
    let member = |run: &Run| run.members.iter().find(|member| member.role == "cache").unwrap().clone();
    let (drive, share) = (member(&whole), member(&by_the_byte));
    assert_eq!((drive.bytes, share.bytes, share.bought_bytes), (gib.0, gib.0, gib.0));
    assert!(drive.bought_bytes > 400_000_000_000, "{} bytes", drive.bought_bytes);
    assert!(whole.assumed["ssd_bought"].starts_with(&drive.bought_bytes.to_string()), "{:?}", whole.assumed);
    assert!(!by_the_byte.assumed.contains_key("ssd_bought"));
    let flash = |member: &Member| match &member.figures {
        MemberFigures::Ssd(figures) => figures.flash.clone(),
        MemberFigures::Hdd(_) => panic!("the cache is flash"),
    };
    let (drive_life, share_life) = (flash(&drive), flash(&share));
    let times = drive.bought_bytes as f64 / share.bytes as f64;
    let longer = |of: fn(&FlashFigures) -> Option<f64>| of(&drive_life).unwrap() / of(&share_life).unwrap() / times;
    assert!((longer(|flash| flash.lifetime_years_warranted) - 1.0).abs() < 1e-6);
    assert!((longer(|flash| flash.dwpd) * times * times - 1.0).abs() < 1e-6);
    assert!(whole.cost.ssd_usd.unwrap() > 100.0 * by_the_byte.cost.ssd_usd.unwrap());
}

/// The disk of $60 fails at 0.34 % a year, and its SSD at 0.58 %.
#[test]
fn cost_of_a_year_is_that_of_drives_failures_and_energy() {
    let ownership = Terms { years: 4.0, usd_per_kwh: 0.5 };
    let choices = || Choices { ownership, ..Choices::default() };
    let names = ["hdd-only", "smart-response", "ssd-only"];
    let maximized = [("smart-response.mode", "maximized")];
    let runs = try_run(&generated(2000), &names, &maximized, TIMED, choices()).unwrap().runs;
    let [disk, cache, flash] = &runs[..] else { panic!("three runs") };
    let seconds = 2000.0 / disk.throughput.iops.unwrap();
    let watts = disk.devices.hdd.energy_j.unwrap() / seconds;
    let drives = disk.cost.hdd_usd.unwrap() * (1.0 + 0.0034 * 4.0) / 4.0;
    let by_hand = drives + watts * 8.766 * 0.5;
    assert!((disk.cost.usd_per_year.unwrap() / by_hand - 1.0).abs() < 1e-6, "{:?} beside {by_hand}", disk.cost);
    assert!(watts > 3.0 && watts * 8.766 * 0.5 > 13.0, "{watts} W");

    let loss = |run: &Run| run.cost.loss_probability_per_year.unwrap();
    assert!((loss(disk) - 0.0034).abs() < 1e-9 && (loss(flash) - 0.0058).abs() < 1e-9);
    assert!((loss(cache) - (1.0 - 0.9966 * 0.9942)).abs() < 1e-9, "dirty blocks are on the SSD alone: {}", loss(cache));

    let head_time = |run: &Run| run.devices.hdd.disk_head_time.map(|time| time.mean.unwrap());
    assert!(head_time(disk).unwrap() > 0.0 && head_time(disk) <= Some(1.0), "{:?}", disk.devices.hdd);
    assert_eq!(head_time(flash), None);
    let closed = try_run(&generated(2000), &["smart-response"], &[], Replay::Closed { depth: 1 }, choices()).unwrap();
    assert_eq!(closed.runs[0].cost.usd_per_year, None, "without times, no lifetime is known");
}

#[test]
fn units_of_several_devices_are_kept_apart_on_the_same_drives() {
    let mut workload = generated(2000);
    workload.iter_mut().enumerate().for_each(|(at, request)| request.device = 3 + (at % 2) as u32);
    for run in run(&workload, &all_schemes(), &[], TIMED).runs {
        assert!(run.assumed["devices"].starts_with("2, each a unit"), "{}", run.scheme);
        let moved = run.devices.ssd.write_bytes.unwrap_or(0) + run.devices.hdd.write_bytes.unwrap_or(0);
        assert!(moved > 0, "{}", run.scheme);
    }
}

/// Returns the drive that `--member ID=PROFILE:SIZE` chooses.
fn member(id: &str, profile: &str, size: Option<u64>) -> (String, DriveChoice) {
    let size = size.map(|mib| Size::Bytes(Bytes::from_mib(mib)));
    (id.to_owned(), DriveChoice { profile: Some(profile.to_owned()), size })
}

/// Returns two named drives of the role `ssd`, as `--member` gives them.
fn two_ssds() -> Choices {
    let members = vec![member("ssd", "intel-x25-m-80gb", Some(512)), member("ssd2", "intel-x25-e-32gb", Some(768))];
    Choices { members, ..Choices::default() }
}

/// Runs the tree that describes the same drives.
fn tree_of_two_ssds(workload: &dyn Workload) -> Run {
    let drive = |name: &str, profile: &str, size| {
        let (name, profile, settings) = (name.to_owned(), profile.to_owned(), Vec::new());
        let size = Some(Size::Bytes(Bytes::from_mib(size)));
        MemberChoice::Drive(NamedDrive { name, profile, size, settings })
    };
    let members = vec![
        (Some(Role::Ssd), drive("a", "intel-x25-m-80gb", 512)),
        (Some(Role::Ssd), drive("b", "intel-x25-e-32gb", 768)),
        (Some(Role::Hdd), drive("c", DEFAULT_HDD, 953_869)),
    ];
    let scheme = schemes::find("griffin").unwrap();
    let tree = VolumeChoice { name: "pair".to_owned(), scheme, settings: Vec::new(), members };
    let settings = vec![("timeout".to_owned(), "2s".to_owned())];
    let choices = Choices { settings, ..Choices::default() };
    Experiment { workload, schemes: Vec::new(), trees: vec![tree], choices, replay: TIMED, warmup: 0.0, keep: None }
        .run(&NoProgress, |_, summary| summary)
        .unwrap_or_else(|error| panic!("{error}"))
        .runs
        .remove(0)
}

/// Returns the run without the figures that a tree names differently.
fn nameless(mut run: Run) -> Run {
    (run.scheme, run.label) = (String::new(), String::new());
    (run.assumed, run.run) = (Default::default(), RunSpeed::default());
    run.members.iter_mut().for_each(|member| (member.id, member.volume) = (String::new(), None));
    run
}

/// With one device, the addresses continue after the first SSD. With two devices, each has its own
/// SSD.
#[test]
fn numbered_ssds_behind_one_log_run_as_the_tree_does() {
    for devices in [1, 2] {
        let mut workload = generated(4000);
        let spread = |(at, request): (usize, &mut Request)| {
            request.device = at as u32 % devices;
            request.range.start.0 += if devices == 1 && at % 2 == 1 { (600 << 20) / 512 } else { 0 };
        };
        workload.iter_mut().enumerate().for_each(spread);
        let named = Choices {
            hdd: DriveChoice { profile: None, size: Some(Size::Bytes(Bytes::from_mib(953_869))) },
            ..two_ssds()
        };
        let settings = [("timeout", "2s")];
        let run = try_run(&workload, &["griffin"], &settings, TIMED, named).unwrap().runs.remove(0);
        let ids: Vec<&str> = run.members.iter().map(|member| member.id.as_str()).collect();
        assert_eq!(ids, ["ssd", "ssd2", "hdd"]);
        let written = |at: usize| match &run.members[at].figures {
            MemberFigures::Ssd(ssd) => ssd.write_bytes.unwrap(),
            MemberFigures::Hdd(hdd) => hdd.write_bytes.unwrap(),
        };
        assert!((0..3).all(|at| written(at) > 0), "{devices}: each has its part");
        assert!(run.assumed["homes"].starts_with("ssd from 0, ssd2 from 536805376"), "{}", run.assumed["homes"]);
        assert_eq!(nameless(run), nameless(tree_of_two_ssds(&workload)), "{devices} devices");
    }
}

/// A numbered member that no scheme, or not this scheme, can use is refused. The error names the
/// members that would be accepted.
#[test]
fn numbered_member_is_refused_where_it_has_no_place() {
    let workload = generated(50);
    let refused = |scheme: &str, members: Vec<(String, DriveChoice)>| {
        let choices = Choices { members, ..Choices::default() };
        try_run(&workload, &[scheme], &[], TIMED, choices).unwrap_err().to_string()
    };
    let x25e = |id: &str| member(id, "intel-x25-e-32gb", None);
    for scheme in schemes::ALL {
        let takes_several = ["griffin", "ssd-only"].contains(&scheme.name);
        let uses_one = scheme.members.iter().any(|(role, _)| *role == Role::Ssd);
        let choices = Choices { members: vec![x25e("ssd2")], ..Choices::default() };
        let run = try_run(&workload, &[scheme.name], &[], TIMED, choices);
        assert_eq!(run.is_ok(), takes_several, "{}", scheme.name);
        let message = run.err().map(|error| error.to_string()).unwrap_or_default();
        let expected = format!("--member ssd2: {} uses one ssd drive: leave ssd2 out, or choose", scheme.name);
        assert!(takes_several || message.starts_with(&expected) || !uses_one, "{message}");
    }
    let hdd = |id: &str| member(id, DEFAULT_HDD, None);
    assert!(refused("hdd-only", vec![x25e("ssd2")]).contains("a drive that a scheme of this run uses"));
    assert!(refused("griffin", vec![x25e("ssd3")]).contains("--member ssd3: expected ssd2 before it"));
    assert!(refused("griffin", vec![hdd("hdd2")]).contains("--member hdd2: griffin uses one hdd drive"));
    assert!(refused("griffin", vec![hdd("log"), hdd("log2")]).contains("--member log2: griffin uses one log drive"));
    assert!(refused("griffin", vec![hdd("log"), hdd("hdd2")]).contains("--member hdd2: griffin uses one hdd drive"));
    assert!(refused("griffin", vec![hdd("log2")]).contains("--member log2: expected log before it"));
    assert!(
        refused("griffin", vec![hdd("ssd2")])
            .contains("is a profile of kind hdd: expected kind flash for the ssd drive")
    );
}

/// A second SSD whose given size is too small is an error that names the drive. A second SSD
/// without a given size grows.
#[test]
fn second_ssd_grows_unless_its_size_is_given() {
    let mut workload = generated(200);
    workload.iter_mut().enumerate().for_each(|(at, request)| request.device = at as u32 % 2);
    let run = |size| {
        let members = vec![member("ssd2", "sandisk-usb-1gb", size)];
        let mut far = workload.clone();
        far[199].range.start.0 = (4 << 30) / 512;
        try_run(&far, &["griffin"], &[], TIMED, Choices { members, ..Choices::default() })
    };
    let grown = run(None).unwrap().runs.remove(0);
    let size = &grown.assumed["ssd2_size"];
    assert!(
        size.contains("(5 of 10") && size.ends_with("simulated as one drive with the profile's geometry extended)")
    );
    let message = run(Some(64)).unwrap_err().to_string();
    assert!(message.starts_with("griffin: drive ssd2 has 64 MiB: expected at least "), "{message}");
    assert!(message.ends_with("set a larger size (--member ssd2=PROFILE:SIZE)"), "{message}");
}

/// `ssd.KEY` sets every SSD; `ssd2.KEY` sets only the second.
#[test]
fn setting_of_a_role_is_of_all_its_drives_and_of_a_name_of_one() {
    let workload = generated(500);
    let written = |settings: &[(&str, &str)]| {
        let run = try_run(&workload, &["griffin"], settings, TIMED, two_ssds()).unwrap().runs.remove(0);
        ["ssd.write_buffer", "ssd2.write_buffer"].map(|key| run.assumed.contains_key(key))
    };
    assert_eq!(written(&[]), [true, true], "what is assumed is said of each");
    assert_eq!(written(&[("ssd2.write_buffer", "off")]), [true, false]);
    assert_eq!(written(&[("ssd.write_buffer", "off")]), [false, false]);
    let error = try_run(&workload, &["griffin"], &[("ssd3.write_buffer", "off")], TIMED, two_ssds());
    assert!(
        error.unwrap_err().to_string().contains("--set ssd3.write_buffer=off: no scheme or drive of this run has that")
    );
}

/// A hint is refused if its device is unknown, its range lies beyond the volume, or the scheme
/// takes no hints. The error names what is expected.
#[test]
fn hint_is_refused_where_it_cannot_be_of_the_run() {
    let workload = generated(50);
    let refused = |line: &str, scheme: &str, settings: &[(&str, &str)]| {
        let text = format!("{HEADER}\n0,0,0,8\n{line}\n");
        let hints = Hints::read("h.csv", std::io::Cursor::new(text.into_bytes())).unwrap();
        let choices = Choices { hints, ..Choices::default() };
        try_run(&workload, &[scheme], settings, TIMED, choices)
            .map(|_| String::new())
            .unwrap_or_else(|error| error.to_string())
    };
    let instant = [("migration", "instant")];
    assert_eq!(refused("5,0,8,8", "griffin", &instant), "");
    assert_eq!(refused("5,1,8,8", "griffin", &instant), "h.csv:3: device '1': expected a device of the trace (0)");
    let message = refused("5,0,8,1000000000000", "griffin", &instant);
    assert!(message.starts_with("h.csv:3: sectors '1000000000000': expected the range to end within"), "{message}");
    assert_eq!(refused("5,0,8,8", "griffin", &[]), "", "migrations that take their time take hints, too");
    let both = [("migration", "instant"), ("eviction_hint", "1MiB")];
    assert!(refused("5,0,8,8", "griffin", &both).contains("expected eviction_hint=off"));
    assert!(refused("5,0,8,8", "smq", &[]).contains("expected griffin"));
}

#[test]
fn a_warm_up_is_played_and_not_measured() {
    let workload = generated(4000);
    let schemes = vec![schemes::find("smart-response").unwrap().into()];
    let measure = |warmup| {
        let choices = Choices::default();
        let (schemes, trees) = (schemes.clone(), Vec::new());
        let experiment = Experiment { workload: &workload, schemes, trees, choices, replay: TIMED, warmup, keep: None };
        experiment.run(&NoProgress, |_, summary| summary)
    };
    let cold = measure(0.0).unwrap().runs.pop().unwrap();
    let warm = measure(0.75).unwrap().runs.pop().unwrap();
    assert_eq!(warm.series.response_time_cdf.all.requests.last(), Some(&1000));
    assert!(warm.devices.hdd.reads < cold.devices.hdd.reads);
    assert!(warm.ssd_hit_ratio.read > cold.ssd_hit_ratio.read, "a warm cache hits more");
    assert!(measure(1.0).unwrap_err().to_string().contains("warm-up"));
}

/// Replay of one request at a time. In any other replay, requests under way at the end of the first
/// half would overlap the second half in a run over both halves.
const ONE_AT_A_TIME: Replay = Replay::Closed { depth: 1 };

/// One of the drive's dies, so that a small drive is soon full.
const ONE_DIE: [(&str, &str); 2] = [("ssd.channels", "1"), ("ssd.dies_per_channel", "1")];

/// Runs `ssd-only` on a small drive that begins in the state `restored`. Returns the run and the
/// state of the drive at its end.
fn run_and_save(workload: &Vec<Request>, ftl: &str, restored: Arc<[DriveState]>) -> (Run, Vec<DriveState>) {
    let settings = [("ssd.ftl", ftl), ("ssd.spare_factor", "0.2"), ("ssd.map_cache", "16KiB")];
    let settings = settings.iter().chain(&ONE_DIE).map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let mut choices = Choices { settings, restored, ..Choices::default() };
    choices.ssd.size = Some(Size::Bytes(Bytes::from_mib(72)));
    let states = Mutex::new(Vec::new());
    let keep = |saved| *states.lock().unwrap() = saved;
    let schemes = vec![schemes::find("ssd-only").unwrap().into()];
    let (trees, replay) = (Vec::new(), ONE_AT_A_TIME);
    let experiment = Experiment { workload, schemes, trees, choices, replay, warmup: 0.0, keep: Some(&keep) };
    let run = experiment.run(&NoProgress, |_, summary| summary).unwrap().runs.pop().unwrap();
    (run, states.into_inner().unwrap())
}

/// A run wears flash as its two halves do if the state is saved between them.
#[test]
fn run_wears_flash_as_its_two_halves_with_saved_state() {
    let mut whole = generated(24_000);
    // Both halves touch the last address, so that their layout equals the layout of the whole.
    for at in [0, 12_000] {
        (whole[at].kind, whole[at].range) = (OpKind::Read, SectorRange::new(Bytes::from_mib(64).sectors().0 - 8, 8));
    }
    let mut halves = [whole[..12_000].to_vec(), whole[12_000..].to_vec()];
    let begin = halves[1][0].arrival;
    halves[1].iter_mut().for_each(|request| request.arrival -= begin);
    for ftl in ["page", "dftl", "fast", "anand"] {
        let (all, at_end) = run_and_save(&whole, ftl, Arc::default());
        let (first, between) = run_and_save(&halves[0], ftl, Arc::default());
        let (second, in_parts) = run_and_save(&halves[1], ftl, Arc::from(between));
        assert!(at_end == in_parts, "{ftl}: mapping and erases of each block");
        let [all, first, second] = [all, first, second].map(|run| run.devices.ssd.flash);
        assert!(first.erases > Some(0) && second.erases > first.erases.map(|erases| erases / 2), "{ftl}");
        assert_eq!(all.erases, Some(first.erases.unwrap() + second.erases.unwrap()), "{ftl}");
        assert_eq!(all.blocks_by_erases, second.blocks_by_erases, "{ftl}: a restored drive brings its wear with it");
    }
}

/// MixedStore, section 5.3: the fragmentation buster shortens the tail of response times. With the
/// buster, flash has less to copy, so write amplification and the tail of write times fall.
#[test]
fn fragmentation_buster_lowers_write_amplification() {
    let mut spec = WorkloadSpec::new(60_000, Bytes::from_mib(48));
    spec.read_fraction = 0.1;
    spec.interarrival = "bursty:0.2ms,500,3s".parse().unwrap();
    let workload: Vec<Request> = Generator::new(&[spec], 7).unwrap().collect();
    let figures = ["on", "off"].map(|buster| {
        let mut choices = Choices::default();
        choices.ssd.size = Some(Size::Bytes(Bytes::from_mib(40)));
        let settings = [&[("mixedstore.fragmentation_buster", buster)][..], &ONE_DIE].concat();
        let run = try_run(&workload, &["mixedstore"], &settings, TIMED, choices).unwrap().runs.pop().unwrap();
        let (write, flash) = (run.response_time_ms.write, run.devices.ssd.flash);
        eprintln!(
            "buster {buster}: write mean {:?} ms, p99.9 {:?}, write amplification {:?}, erases {:?}, hits {:?}",
            write.mean, write.p999, flash.write_amplification, flash.erases, run.ssd_hit_ratio.read
        );
        (flash.write_amplification.unwrap(), write.p999.unwrap())
    });
    let [on, off] = figures;
    assert!(on.0 < 0.7 * off.0 && on.1 < 0.7 * off.1, "amplification and tail with and without: {figures:?}");
}

/// A market with the default drives in the sizes of the planner's example.
fn market() -> Arc<Market> {
    let drive = |model: &str, size: &str, usd| OnSale {
        model: model.to_owned(),
        size: size.parse().unwrap(),
        price: Price { usd, date: "2026".to_owned(), source: "shop".to_owned() },
        profile: None,
    };
    let drives = vec![
        drive(DEFAULT_SSD, "500GB", 60.0),
        drive(DEFAULT_SSD, "250GB", 40.0),
        drive(DEFAULT_HDD, "1TB", 30.0),
        drive(DEFAULT_HDD, "8TB", 150.0),
    ];
    Arc::new(Market { drives, ..Market::default() })
}

fn on_sale() -> Choices {
    Choices { default_size: DefaultSize::OnSale, market: market(), ..Choices::default() }
}

/// Regression: the default cache was 10 % of the footprint at 10 % of a drive's price: 42 MiB for a
/// cent.
#[test]
fn drives_without_a_size_are_bought_whole() {
    let workload = generated(300);
    let names = all_schemes();
    let document = try_run(&workload, &names, &[], TIMED, Choices { also_share: true, ..on_sale() }).unwrap();
    assert_eq!(document.runs.len(), 2 * names.len());
    let (sold, share) = document.runs.split_at(names.len());
    for (run, again) in sold.iter().zip(share) {
        assert_eq!((run.sizing, again.sizing, &run.scheme), (Sizing::Sold, Sizing::Share, &again.scheme));
        assert!(run.ssd_bytes.is_none_or(|bytes| bytes == 250_000_000_000), "{} {:?}", run.scheme, run.ssd_bytes);
        assert!(run.cost.ssd_usd.is_none_or(|usd| usd == 40.0), "{} {:?}", run.scheme, run.cost);
        assert!(run.cost.hdd_usd.is_none_or(|usd| usd == 30.0), "{} {:?}", run.scheme, run.cost);
        let caches = schemes::find(&run.scheme)
            .unwrap()
            .members
            .iter()
            .any(|&member| member.0 == Role::Ssd && matches!(member.1, Holds::Cache | Holds::Ranges | Holds::Log));
        let usd = again.cost.ssd_usd;
        assert!(!caches || usd.is_some_and(|usd| usd < 1.0), "{} {usd:?}", run.scheme);
        assert_eq!(again.cost.hdd_usd, run.cost.hdd_usd, "{}: a home is bought whole", run.scheme);
        let same = Run { sizing: Sizing::Sold, ..again.clone() } == *run;
        assert_eq!(same, !caches, "{}: only shares are played again", run.scheme);
    }
}

#[test]
fn figures_over_the_share_are_those_of_ssds_of_that_size() {
    let workload = generated(4000);
    let names = ["ssd-only", "hdd-only", "smq"];
    let asked = Choices { also_share: true, over_share: true, ..on_sale() };
    let document = try_run(&workload, &names, &[], TIMED, asked.clone()).unwrap();
    let points: Vec<(&str, u64)> =
        document.over_share.iter().map(|point| (point.scheme.as_str(), point.percent)).collect();
    assert_eq!(points, names.iter().flat_map(|name| SHARES.map(|percent| (*name, percent))).collect::<Vec<_>>());
    for point in &document.over_share {
        // A drive that is home is whole, so the figures of its run with whole drives count.
        let share = Choices { default_size: DefaultSize::Share { percent: point.percent }, ..on_sale() };
        let run = try_run(&workload, &[&point.scheme], &[], TIMED, share).unwrap().runs.remove(0);
        assert_eq!((point.ssd_bytes, point.mean_ms), (run.ssd_bytes, run.response_time_ms.all.mean), "{point:?}");
    }
    let sizes: Vec<_> = document.over_share.iter().filter(|point| point.scheme == "smq").map(|p| p.ssd_bytes).collect();
    assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
    let flat = try_run(&workload, &["ssd-only", "hdd-only"], &[], TIMED, asked.clone()).unwrap();
    assert_eq!(flat.over_share.len(), 2 * SHARES.len(), "a scheme without a share has all points, too");
    let unasked = try_run(&workload, &names, &[], TIMED, Choices { over_share: false, ..asked }).unwrap();
    assert_eq!((unasked.over_share.len(), unasked.runs.len()), (0, document.runs.len()));
}

#[test]
fn given_size_costs_the_drive_that_has_it() {
    let workload = generated(4000);
    let cost = |choices: Choices, size: Size| {
        let choices = Choices { ssd: DriveChoice { size: Some(size), ..DriveChoice::default() }, ..choices };
        let run = try_run(&workload, &["smq"], &[], TIMED, choices).unwrap().runs.remove(0);
        assert_eq!(run.sizing, Sizing::Given);
        run.cost.ssd_usd.unwrap()
    };
    let gigabytes = |size: u64| Size::Bytes(Bytes(size * 1_000_000_000));
    assert_eq!(cost(on_sale(), Size::OfFootprint(0.5)), 40.0);
    assert_eq!(cost(on_sale(), gigabytes(300)), 60.0);
    assert_eq!(cost(on_sale(), gigabytes(700)), 120.0, "two of the largest");
    let by_size = cost(Choices { price_per_gb: true, ..on_sale() }, gigabytes(50));
    assert!((by_size - 13.0).abs() < 0.1, "a tenth of the profile's 130 dollars: {by_size}");
}

/// Regression: a scheme that did not fit its drives ended the comparison of all other schemes.
#[test]
fn scheme_that_cannot_be_built_is_left_out() {
    let workload = generated(4000);
    let small =
        Choices { ssd: DriveChoice { size: Some(Size::OfFootprint(0.2)), ..DriveChoice::default() }, ..on_sale() };
    let document = try_run(&workload, &["ssd-only", "smq", "hdd-only"], &[], TIMED, small.clone()).unwrap();
    let names: Vec<&str> = document.runs.iter().map(|run| run.scheme.as_str()).collect();
    assert_eq!(names, ["smq", "hdd-only"]);
    let [left] = &document.left_out[..] else { panic!("{:?}", document.left_out) };
    assert!(left.scheme == "ssd-only" && left.reason.contains("is too small for its role"), "{left:?}");
    let alone = try_run(&workload, &["ssd-only"], &[], TIMED, small.clone()).unwrap_err().to_string();
    assert_eq!(alone, format!("ssd-only: {}", left.reason), "nothing is left");
    let both = try_run(&workload, &["ssd-only", "griffin"], &[], TIMED, small).unwrap_err().to_string();
    assert!(both.starts_with("no scheme of this comparison can be built with these drives:\n  ssd-only: "), "{both}");
}

#[test]
fn capacity_is_held_whatever_the_trace_touches() {
    let workload = generated(100);
    let names = all_schemes();
    let choices = Choices { capacity: Some("7TB".parse().unwrap()), ..on_sale() };
    for run in try_run(&workload, &names, &[], TIMED, choices).unwrap().runs {
        assert!(run.exported_bytes >= 6_990_000_000_000, "{} {}", run.scheme, run.exported_bytes);
        let home_on_ssd = ["ssd-only", "griffin"].contains(&&*run.scheme);
        let expected = if home_on_ssd { (Some(14.0 * 60.0), 30.0) } else { (None, 150.0) };
        let dear = run.cost.ssd_usd.filter(|_| home_on_ssd);
        assert_eq!(dear, expected.0, "{}", run.scheme);
        assert!(run.cost.hdd_usd.is_none_or(|usd| usd == expected.1), "{} {:?}", run.scheme, run.cost);
    }
    let small = Choices {
        capacity: Some("7TB".parse().unwrap()),
        hdd: DriveChoice { size: Some(Size::Bytes("1TB".parse().unwrap())), ..DriveChoice::default() },
        ..on_sale()
    };
    let error = try_run(&workload, &["smq"], &[], TIMED, small).unwrap_err().to_string();
    assert!(
        error.contains("the hdd drive of 931 GiB is too small for its role: expected at least 6.36 TiB"),
        "{error}"
    );
}
