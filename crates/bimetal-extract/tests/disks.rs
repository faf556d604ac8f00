//! Closed loop: the figures extracted from a model of a disk equal those of the model.

mod common;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, Sectors};
use bimetal_extract::figures::{Extraction, Kind};
use bimetal_extract::target::{ModelTarget, Target};
use bimetal_extract::{ExtractError, Options, extract};
use bimetal_models::Finished;
use bimetal_models::hdd::layout::Layout;
use bimetal_models::hdd::mechanics::Mechanics;
use bimetal_models::profile::Profile;
use common::{OPTIONS, mean_responses, model, random_below};
use proptest::prelude::*;

fn extracted(profile: &Profile, options: Options) -> (Extraction, Profile) {
    let extraction = extract(&mut model(profile), &options, &mut |_| {}).expect("a disk can be measured");
    assert_eq!(extraction.kind, Kind::Hdd);
    let text = extraction.to_toml("again", "extracted");
    let again = Profile::parse(&text, "again.toml").expect("what is extracted is a profile");
    (extraction, again)
}

fn mechanics(profile: &Profile) -> Mechanics {
    let hdd = profile.hdd().expect("a disk");
    let layout = Layout::new(hdd, profile.capacity, profile.capacity).expect("a layout");
    Mechanics::new(hdd, layout).expect("an arm")
}

/// Returns the largest difference in the rate of a track, as a fraction, and of a seek, in
/// milliseconds. The measured places are spread over the whole drive.
fn apart(one: &Profile, other: &Profile, write: bool) -> (f64, f64) {
    let (mut a, mut b) = (mechanics(one), mechanics(other));
    let (mut rate, mut seek) = (0.0_f64, 0.0_f64);
    for at in 0..600 {
        let (from, to) = (random_below(one.capacity.0, 2 * at), random_below(one.capacity.0, 2 * at + 1));
        let sectors =
            |mechanics: &Mechanics| f64::from(mechanics.layout().sectors_per_track(&mechanics.layout().place(to)));
        rate = rate.max((sectors(&b) / sectors(&a) - 1.0).abs());
        let time = |mechanics: &mut Mechanics| {
            mechanics.position(0, from, false);
            mechanics.arm_ns(to, write) as f64 / 1e6
        };
        seek = seek.max((time(&mut a) - time(&mut b)).abs());
    }
    (rate, seek)
}

fn check(profile: &Profile) -> Profile {
    let (extraction, again) = extracted(profile, OPTIONS);
    assert!(extraction.notes.is_empty(), "{:?}", extraction.notes);
    let (hdd, found) = (profile.hdd().unwrap(), again.hdd().unwrap());
    assert!((found.rpm / hdd.rpm - 1.0).abs() < 1e-3, "{} for {} rpm", found.rpm, hdd.rpm);
    let (rate, read) = apart(profile, &again, false);
    let (_, write) = apart(profile, &again, true);
    println!("{}: rates {:.3} %, seeks {read:.3} ms, of writes {write:.3} ms", profile.name, rate * 100.0);
    assert!(rate < 0.02 && read < 0.2 && write < 0.2, "{}", extraction.to_toml("again", ""));
    let overhead = hdd.command_overhead_ms.unwrap_or_default();
    assert!((found.command_overhead_ms.unwrap() - overhead).abs() < 0.01 + 0.02 * overhead);
    if hdd.read_segments > 0 && hdd.read_ahead.0.0 > 0 {
        assert_eq!((found.read_segments, found.read_ahead.0), (hdd.read_segments, hdd.read_ahead.0));
        assert!((found.bus_mb_per_s / hdd.bus_mb_per_s - 1.0).abs() < 0.02);
        let cache = found.cache.0.0 as f64 / hdd.cache.0.0 as f64;
        assert!(hdd.write_cache != found.write_cache || (0.9..1.1).contains(&cache), "cache {cache} of what it is");
    }
    assert_eq!(found.write_cache, hdd.write_cache);
    again
}

#[test]
fn built_in_disks_come_back() {
    for name in ["seagate-barracuda-7200.12-1tb", "hitachi-travelstar-5k500-500gb", "wd-velociraptor-300gb"] {
        let profile = Profile::load(name).unwrap();
        let again = check(&profile);
        let (hdd, found) = (profile.hdd().unwrap(), again.hdd().unwrap());
        assert_eq!((found.heads, found.scheduler, found.queue_depth), (hdd.heads, hdd.scheduler, hdd.queue_depth));
    }
}

#[test]
fn a_workload_takes_as_long_on_the_extracted_disk() {
    for (name, most) in [
        ("seagate-barracuda-7200.12-1tb", 0.02),
        ("disksim-hp_c2247a", 0.12),
        ("disksim-cheetah9LP", 0.12),
        // Sectors of 4 KiB. Regression: writes of 512 bytes were timed, each with a read before.
        ("seagate-exos-x18-18tb", 0.05),
    ] {
        let profile = Profile::load(name).unwrap();
        let (_, again) = extracted(&profile, OPTIONS);
        let (before, after) = (mean_responses(&profile), mean_responses(&again));
        for ((what, before), (_, after)) in before.into_iter().zip(after) {
            println!("{name}, {what}: {before:.3} ms, extracted {after:.3} ms");
            assert!((after / before - 1.0).abs() < most, "{name}, {what}: {before} and {after}");
        }
    }
}

#[test]
fn reading_alone_shows_all_but_writes() {
    let profile = Profile::load("wd-velociraptor-300gb").unwrap();
    let (extraction, again) = extracted(&profile, Options { writes: false, ..OPTIONS });
    let (rate, seek) = apart(&profile, &again, false);
    assert!(rate < 0.02 && seek < 0.2, "{rate} {seek}");
    let assumed: Vec<_> = extraction.figures.iter().filter(|figure| figure.error.is_none()).collect();
    assert!(assumed.iter().any(|figure| figure.key == "write_cache"), "{assumed:?}");
}

#[test]
fn twice_the_same_is_the_same() {
    let profile = Profile::load("disksim-dec_rz26").unwrap();
    let once = extracted(&profile, OPTIONS).0.to_toml("a", "b");
    assert_eq!(once, extracted(&profile, OPTIONS).0.to_toml("a", "b"));
}

/// A short time budget leaves out figures and names them in the notes. A budget too short for any
/// figure is refused.
#[test]
fn short_time_budget_omits_figures_or_is_refused() {
    let profile = Profile::load("wd-velociraptor-300gb").unwrap();
    let budget = Nanoseconds::from_seconds(20);
    let (extraction, again) = extracted(&profile, Options { budget, ..OPTIONS });
    assert!(extraction.notes.iter().any(|note| note.contains("too short for")), "{:?}", extraction.notes);
    assert!(extraction.seconds < 40.0, "{} s", extraction.seconds);
    assert!((again.hdd().unwrap().rpm - 10_000.0).abs() < 10.0);
    let budget = Nanoseconds::from_millis(50);
    let error = extract(&mut model(&profile), &Options { budget, ..OPTIONS }, &mut |_| {}).unwrap_err();
    assert!(matches!(error, ExtractError::NoTime { .. }), "{error}");
}

/// Drive behind a machine that notices completions a little late, and now and then much later.
struct Late(ModelTarget, u64);

impl Target for Late {
    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }
    fn granularity(&self) -> Sectors {
        Sectors(8)
    }
    fn now(&self) -> Nanoseconds {
        self.0.now()
    }
    fn wait_until(&mut self, at: Nanoseconds) {
        self.0.wait_until(at);
    }
    fn submit(&mut self, token: Token, command: Command) {
        self.0.submit(token, command);
    }
    fn next_done(&mut self) -> Option<Finished> {
        let done = self.0.next_done()?;
        self.1 += 1;
        let usual = 5_000 + random_below(20_000, self.1);
        let late = if random_below(500, self.1 << 20) == 0 { 2_000_000 } else { usual };
        let at = done.at + Nanoseconds(late);
        self.0.wait_until(at);
        Some(Finished { at, ..done })
    }
}

#[test]
fn a_machine_that_notices_late_blurs_little() {
    let profile = Profile::load("seagate-barracuda-7200.9-250gb").unwrap();
    let extraction = extract(&mut Late(model(&profile), 0), &OPTIONS, &mut |_| {}).unwrap();
    let again = Profile::parse(&extraction.to_toml("again", "extracted"), "again.toml").unwrap();
    let (rate, seek) = apart(&profile, &again, false);
    println!("rates {:.2} %, seeks {seek:.3} ms, {:.0} s", rate * 100.0, extraction.seconds);
    assert!((again.hdd().unwrap().rpm / 7200.0 - 1.0).abs() < 1e-3);
    assert!(rate < 0.05 && seek < 0.5, "{}", extraction.to_toml("again", ""));
}

#[test]
fn a_drive_too_small_is_refused() {
    let profile = Profile::load("seagate-barracuda-7200.12-1tb").unwrap();
    let mut target = ModelTarget::new(profile.build(Some(Sectors(1000)), 0).unwrap());
    let error = extract(&mut target, &OPTIONS, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("expected at least 16MiB"), "{error}");
}

/// Returns a disk that does not exist, as a profile.
#[allow(clippy::too_many_arguments)]
fn disk(
    rpm: u32,
    heads: u32,
    zones: &[(u32, u32)],
    seek: (f64, f64, f64),
    head_switch: f64,
    overhead: f64,
    buffer: (u32, u32),
    write_cache: bool,
) -> Option<Profile> {
    let (mut first, mut sectors, mut text) = (0, 0, String::new());
    let mut per_track = zones.iter().map(|zone| zone.1).sum::<u32>() + 60;
    for (cylinders, fewer) in zones {
        let last = first + cylinders - 1;
        text +=
            &format!("[[zones]]\nfirst_cylinder = {first}\nlast_cylinder = {last}\nsectors_per_track = {per_track}\n");
        sectors += u64::from(*cylinders) * u64::from(heads) * u64::from(per_track);
        (first, per_track) = (first + cylinders, per_track - fewer);
    }
    let (segments, ahead) = buffer;
    let cache = segments * ahead + if write_cache { 2048 } else { 0 };
    let text = format!(
        "name = 'random'\nkind = 'hdd'\nsummary = 'random'\ncapacity = {}\nrpm = {rpm}\nheads = {heads}\n\
         seek_track_to_track_ms = {}\nseek_average_ms = {}\nseek_full_stroke_ms = {}\nhead_switch_ms = {head_switch}\n\
         command_overhead_ms = {overhead}\nbus_mb_per_s = 150\ncache = '{cache}KiB'\nread_segments = {segments}\n\
         read_ahead = '{ahead}KiB'\nwrite_cache = '{}'\nscheduler = 'sstf'\nqueue_depth = 8\n{text}",
        sectors * 512,
        seek.0,
        seek.1,
        seek.2,
        if write_cache { "on" } else { "off" },
    );
    Profile::parse(&text, "random.toml").ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn random_disks_come_back(
        rpm in 3600u32..15_000,
        heads in 1u32..9,
        zones in proptest::collection::vec((900u32..4000, 20u32..120), 1..6),
        seek in (0.4f64..1.5, 4.0f64..9.0),
        head_switch in 0.2f64..1.0,
        overhead in 0.05f64..0.4,
        segments in 2u32..24,
        ahead in proptest::sample::select(vec![64u32, 128, 256]),
        write_cache: bool,
    ) {
        // The switch to a head takes less than to a cylinder: otherwise heads make no difference.
        let seek = (seek.0 + head_switch, seek.0 + head_switch + seek.1, 2.1 * (seek.0 + seek.1));
        let profile = disk(rpm, heads, &zones, seek, head_switch, overhead, (segments, ahead), write_cache);
        prop_assume!(profile.is_some());
        let again = check(&profile.unwrap());
        prop_assert_eq!(again.hdd().unwrap().heads, heads);
    }
}

#[test]
fn nothing_is_written_where_only_reading_is_allowed() {
    struct Watched(ModelTarget);
    impl Target for Watched {
        fn capacity(&self) -> Sectors {
            self.0.capacity()
        }
        fn granularity(&self) -> Sectors {
            self.0.granularity()
        }
        fn now(&self) -> Nanoseconds {
            self.0.now()
        }
        fn wait_until(&mut self, at: Nanoseconds) {
            self.0.wait_until(at);
        }
        fn submit(&mut self, token: Token, command: Command) {
            assert_eq!(command.kind, OpKind::Read);
            self.0.submit(token, command);
        }
        fn next_done(&mut self) -> Option<Finished> {
            self.0.next_done()
        }
    }
    let profile = Profile::load("disksim-dec_rz26").unwrap();
    extract(&mut Watched(model(&profile)), &Options { writes: false, ..OPTIONS }, &mut |_| {}).unwrap();
}
