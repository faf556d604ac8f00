//! Properties of every hard disk, tried on random ones.

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_models::DeviceModel;
use bimetal_models::hdd::HddProfile;
use bimetal_models::hdd::layout::Layout;
use bimetal_models::hdd::mechanics::Mechanics;
use bimetal_models::hdd::seek_curve::SeekCurve;
use bimetal_models::profile::{DEFAULT_HDD, Profile};
use proptest::prelude::*;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Figures of a possible drive.
#[derive(Clone, Debug)]
struct Figures {
    rpm: u32,
    heads: u32,
    zones: u32,
    outer_mb_per_s: f64,
    inner_share: f64,
    capacity_gb: u64,
    shortest_ms: f64,
    stroke_ms: f64,
    /// Position of the average seek between the least and the most that a rising curve allows.
    average_share: f64,
    switch_ms: f64,
    mapping: &'static str,
}

fn figures() -> impl Strategy<Value = Figures> {
    let spindle = (3600u32..15_001, 1u32..21, 1u32..20, 20.0..280.0f64, 0.4..1.0f64, 20u64..20_000);
    let arm = (0.2..2.0f64, 4.0..25.0f64, 0.1..0.9f64, 0.1..2.0f64);
    let mapping = prop::sample::select(vec!["cylinder", "serpentine", "serpentine-in-zone", "head-major"]);
    (spindle, arm, mapping).prop_map(|(spindle, arm, mapping)| Figures {
        rpm: spindle.0,
        heads: spindle.1,
        zones: spindle.2,
        outer_mb_per_s: spindle.3,
        inner_share: spindle.4,
        capacity_gb: spindle.5,
        shortest_ms: arm.0,
        stroke_ms: arm.0 + arm.1,
        average_share: arm.2,
        switch_ms: arm.3,
        mapping,
    })
}

impl Figures {
    /// Returns the profile of the drive, with further figures set.
    fn profile(&self, more: &[(&str, &str)]) -> Profile {
        let rise_ms = self.stroke_ms - self.shortest_ms;
        let average_ms = self.shortest_ms + rise_ms * (0.34 + 0.38 * self.average_share);
        let figures = [
            ("rpm", self.rpm.to_string()),
            ("heads", self.heads.to_string()),
            ("zone_count", self.zones.to_string()),
            ("outer_mb_per_s", self.outer_mb_per_s.to_string()),
            ("inner_mb_per_s", (self.outer_mb_per_s * self.inner_share).to_string()),
            ("capacity", (self.capacity_gb * 1_000_000_000 / 512 * 512).to_string()),
            ("seek_track_to_track_ms", self.shortest_ms.to_string()),
            ("seek_average_ms", average_ms.to_string()),
            ("seek_full_stroke_ms", self.stroke_ms.to_string()),
            ("write_seek_track_to_track_ms", self.shortest_ms.to_string()),
            ("write_seek_average_ms", average_ms.to_string()),
            ("write_seek_full_stroke_ms", self.stroke_ms.to_string()),
            ("head_switch_ms", self.switch_ms.to_string()),
            ("mapping", self.mapping.to_owned()),
        ];
        let figures = figures.iter().map(|(key, value)| (*key, value.as_str()));
        let mut profile = Profile::load(DEFAULT_HDD).unwrap();
        profile.set_all(figures.chain(more.iter().copied())).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        profile
    }
}

/// Returns the milliseconds for each of random reads of 4 KiB, of which `depth` are always in the
/// drive: the inverse of its throughput. Checks that time never decreases and that no read takes
/// less than overhead and transfer.
fn service_ms(profile: &Profile, depth: u64, requests: u64) -> f64 {
    let mut drive = profile.build(None, 0).unwrap();
    let least = Nanoseconds::from_micros(100 + 13);
    let mut random = Pcg64Mcg::new(11);
    let blocks = drive.capacity().0 / 8;
    let mut issue = |drive: &mut dyn DeviceModel, now, serial| {
        let range = SectorRange::new(random.next_u64() % blocks * 8, 8);
        drive.submit(now, Token(serial), Command { kind: OpKind::Read, range, fua: false });
        now
    };
    let mut sent: Vec<Nanoseconds> = (0..depth).map(|serial| issue(&mut *drive, Nanoseconds::ZERO, serial)).collect();
    let (mut now, mut served, mut finished) = (Nanoseconds::ZERO, 0, Vec::new());
    while served < requests {
        let event = drive.next_event().expect("requests are under way");
        assert!(event >= now, "time runs backwards");
        now = event;
        drive.advance(now, &mut finished);
        for done in finished.drain(..) {
            let at = sent[done.token.0 as usize];
            assert!(done.at <= now && done.at - at >= least, "a read took {}", done.at - at);
            served += 1;
            let serial = sent.len() as u64;
            sent.push(issue(&mut *drive, now, serial));
        }
    }
    now.as_millis_f64() / served as f64
}

const NO_CACHE: [(&str, &str); 3] = [("read_ahead", "0"), ("write_cache", "off"), ("queue_depth", "32")];

fn queued(figures: &Figures, scheduler: &str, depth: u64) -> f64 {
    let settings: Vec<_> = NO_CACHE.into_iter().chain([("scheduler", scheduler)]).collect();
    service_ms(&figures.profile(&settings), depth, 4000)
}

/// Returns overhead and transfer of a command, which no segment, bus or platter can shorten.
fn least_ns(hdd: &HddProfile, kind: OpKind, sectors: u64) -> u64 {
    let controller = hdd.controller.as_ref().unwrap();
    let over = controller.overheads_ms;
    let (overheads_ms, mb_per_s) = match kind {
        OpKind::Read => {
            let misses = [over.read_miss_after_read, over.read_miss_after_write];
            ([over.read_hit_after_read, over.read_hit_after_write, misses[0], misses[1]], hdd.bus_mb_per_s)
        }
        _ => {
            let extra_ms = controller.extra_write_disconnect.map_or(f64::MAX, |extra| extra.command_ms);
            let miss_ms = over.write_miss_after_read.min(over.write_miss_after_write).min(extra_ms);
            let bus = controller.write_bus_mb_per_s.unwrap_or(hdd.bus_mb_per_s);
            ([over.write_hit_after_read, over.write_hit_after_write, miss_ms, miss_ms], bus)
        }
    };
    let crosses = matches!(kind, OpKind::Read | OpKind::Write);
    let transfer_ns = if crosses { sectors as f64 * 512.0 / mb_per_s * 1e3 } else { 0.0 };
    // Times are whole nanoseconds.
    (overheads_ms.into_iter().fold(f64::MAX, f64::min) * 1e6 + transfer_ns) as u64 - 2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sector_that_is_tried_has_one_place_and_back(figures in figures(), seed: u64) {
        let profile = figures.profile(&[]);
        let layout = Layout::new(profile.hdd().unwrap(), profile.capacity, profile.capacity).unwrap();
        let mut random = Pcg64Mcg::new(u128::from(seed));
        let mut near_ends = vec![0, layout.sectors().0 - 1];
        near_ends.extend((0..2000).map(|_| random.next_u64() % layout.sectors().0));
        for lbn in near_ends {
            let place = layout.place(lbn);
            prop_assert_eq!(layout.lbn(place.cylinder, place.head, place.sector), Some(lbn));
            prop_assert!(place.cylinder < layout.cylinders() && layout.angle_ns(&place) < layout.revolution_ns());
        }
    }

    /// Random seeks take the mean of the seek curve. The rotation after a seek takes half a turn on
    /// average.
    #[test]
    fn random_seeks_take_the_mean_of_the_curve(figures in figures(), seed: u64) {
        let profile = figures.profile(&[]);
        let hdd = profile.hdd().unwrap();
        let layout = Layout::new(hdd, profile.capacity, profile.capacity).unwrap();
        let (cylinders, revolution) = (layout.cylinders(), layout.revolution_ns() as f64);
        let curve = SeekCurve::new(hdd, false, cylinders).unwrap();
        // All pairs of cylinders count, including equal ones: n at distance 0, 2 (n − d) at d.
        let n = f64::from(cylinders);
        let sum: f64 = (1..cylinders).map(|d| 2.0 * f64::from(cylinders - d) * curve.time_ns(d) as f64).sum();
        let expected_ns = sum / (n * n);
        let mut mechanics = Mechanics::new(hdd, layout).unwrap();
        let mut random = Pcg64Mcg::new(u128::from(seed));
        let (mut now_ns, mut rotation_ns, rounds) = (0, 0, 60_000);
        for _ in 0..rounds {
            let lbn = loop {
                // The first head alone is used, so that no head switch is included.
                let found = mechanics.layout().lbn(random.next_u32() % cylinders, 0, random.next_u32() % 50);
                if let Some(lbn) = found { break lbn }
            };
            let seek_before_ns = mechanics.seek_ns();
            let sweep = mechanics.position(now_ns, lbn, false);
            rotation_ns += sweep.at_ns - now_ns - (mechanics.seek_ns() - seek_before_ns);
            // The host pauses for a while, so that the phase is arbitrary.
            now_ns = sweep.at_ns + random.next_u64() % 50_000_000;
        }
        let seek_ns = mechanics.seek_ns() as f64 / f64::from(rounds);
        prop_assert!((seek_ns / expected_ns - 1.0).abs() < 0.01, "mean seek {seek_ns} ns, the curve's {expected_ns} ns");
        let turns = rotation_ns as f64 / revolution / f64::from(rounds);
        prop_assert!((turns / 0.5 - 1.0).abs() < 0.01, "mean rotation {turns} of a turn");
    }

    /// A command of a drive with a segmented buffer takes at least its overhead and transfer.
    /// Events never lie in the past.
    #[test]
    fn segmented_drive_takes_at_least_overhead_and_transfer(
        name in prop::sample::select(vec![
            "atlas10k", "atlas_III", "barracuda", "cheetah4LP", "cheetah9LP", "dec_rz26", "hp_c2247a", "hp_c2490a",
            "hp_c3323a", "ibm18es",
        ]),
        // Kind, place after the last or anywhere, length, and time since the last was done.
        steps in proptest::collection::vec((0u8..8, any::<u64>(), 1u64..200, 0u64..40_000_000), 1..200),
    ) {
        let profile = Profile::load(&format!("disksim-{name}")).unwrap();
        let mut drive = profile.build(None, 0).unwrap();
        let (mut now, mut next, mut finished) = (Nanoseconds::ZERO, 0, Vec::new());
        for (serial, (what, place, sectors, wait)) in steps.into_iter().enumerate() {
            let start = if what % 2 == 0 { next } else { place % drive.capacity().0 };
            let start = start.min(drive.capacity().0 - sectors);
            next = (start + sectors) % (drive.capacity().0 - sectors);
            let kind = [OpKind::Read, OpKind::Read, OpKind::Write, OpKind::Write, OpKind::Read, OpKind::Write, OpKind::Flush,
                OpKind::WriteZeroes][usize::from(what)];
            let range = if kind == OpKind::Flush { SectorRange::default() } else { SectorRange::new(start, sectors) };
            now += Nanoseconds(wait);
            drive.advance(now, &mut finished);
            prop_assert!(finished.is_empty());
            drive.submit(now, Token(serial as u64), Command { kind, range, fua: false });
            while finished.is_empty() {
                let event = drive.next_event().expect("a command is under way");
                prop_assert!(event >= now);
                drive.advance(event, &mut finished);
            }
            let done = finished.remove(0);
            prop_assert!(finished.is_empty() && done.token == Token(serial as u64));
            let least = least_ns(profile.hdd().unwrap(), kind, range.len.0);
            prop_assert!((done.at - now).0 >= least, "{kind:?} of {sectors} took {}, not {least} ns", done.at - now);
            now = done.at;
        }
    }

    /// Shortest positioning time first (SPTF) is the fastest scheduler. First come, first served
    /// (FCFS) is the slowest.
    #[test]
    fn sptf_is_fastest_and_fcfs_is_slowest(figures in figures()) {
        let [fcfs, sstf, sptf] = ["fcfs", "sstf", "sptf"].map(|scheduler| queued(&figures, scheduler, 32));
        prop_assert!(sptf <= sstf && sstf <= fcfs * 1.005, "SPTF {sptf} ms, SSTF {sstf} ms, FCFS {fcfs} ms");
    }

    /// A deeper queue never lowers the throughput of shortest positioning time first (SPTF).
    #[test]
    fn deeper_queue_never_lowers_sptf_throughput(figures in figures()) {
        let times = [1, 2, 4, 8, 16, 32].map(|depth| queued(&figures, "sptf", depth));
        prop_assert!(times.windows(2).all(|pair| pair[1] <= pair[0]), "ms a request at depth 1, 2, 4, …: {times:?}");
    }
}

/// Runs the drive under SPTF with this ageing, with 32 reads always in the drive. Returns the
/// tokens with their times of finishing, and the longest response.
fn aged(ageing: &str) -> (Vec<(u64, Nanoseconds)>, Nanoseconds) {
    let mut profile = Profile::load(DEFAULT_HDD).unwrap();
    let settings = [("scheduler", "sptf"), ("sptf_ageing", ageing)];
    profile.set_all(NO_CACHE.into_iter().chain(settings)).unwrap();
    let mut drive = profile.build(None, 0).unwrap();
    let mut random = Pcg64Mcg::new(5);
    let blocks = drive.capacity().0 / 8;
    let (mut sent, mut ended, mut finished, mut longest) = (Vec::new(), Vec::new(), Vec::new(), Nanoseconds::ZERO);
    let mut now = Nanoseconds::ZERO;
    while ended.len() < 20_000 {
        while sent.len() < ended.len() + 32 {
            // Nine of ten reads are close together, so that the tenth is never the nearest.
            let block = random.next_u64() % if sent.len() % 10 == 0 { blocks } else { blocks / 1000 };
            let command = Command { kind: OpKind::Read, range: SectorRange::new(block * 8, 8), fua: false };
            drive.submit(now, Token(sent.len() as u64), command);
            sent.push(now);
        }
        now = drive.next_event().unwrap();
        drive.advance(now, &mut finished);
        for done in finished.drain(..) {
            longest = longest.max(done.at - sent[done.token.0 as usize]);
            ended.push((done.token.0, done.at));
        }
    }
    (ended, longest)
}

#[test]
fn ageing_shortens_the_longest_wait_and_costs_throughput() {
    let (plain, some, much) = (aged("0"), aged("0.1"), aged("1"));
    assert!(some.1.as_millis_f64() < 0.7 * plain.1.as_millis_f64(), "longest {} and {}", plain.1, some.1);
    assert!(much.1 < some.1, "longest {} and {}", some.1, much.1);
    let end = |run: &(Vec<(u64, Nanoseconds)>, Nanoseconds)| run.0[run.0.len() - 1].1;
    assert!(end(&plain) < end(&some) && end(&some) < end(&much), "the last ends later the more it ages");
}

#[test]
fn with_all_the_weight_on_waiting_the_order_is_that_of_arrival() {
    // The first 32 arrive together.
    let tokens: Vec<u64> = aged("1000000").0.into_iter().map(|(token, _)| token).filter(|token| *token >= 32).collect();
    assert!(tokens.is_sorted());
    assert!(!aged("0.1").0.is_sorted());
}
