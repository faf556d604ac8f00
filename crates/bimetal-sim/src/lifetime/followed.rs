//! Wear of a drive in the volume itself, under a scheme whose decisions depend on the drive.
//!
//! A scheme that watches its drive writes otherwise once the drive answers otherwise, or wears
//! otherwise: MixedStore regulates writes, halts wear levelling, and avoids flash that is slow. A
//! recording of one round does not show the rounds that follow, and no drive that plays the
//! recording changes the recording. So the volume serves many rounds, with the drive at its full
//! size, and the drive's own erases are counted.
//!
//! The scheme learns from the first half of all rounds, as it learns from half of a long trace. A
//! single round shows it a drive that is still filling, and data that is not yet hot: data that
//! each round reads once becomes hot after several rounds. A scheme that learns from one round
//! sends other writes to the drive ever after.
//!
//! The second half of all rounds is followed, and the last half of the followed rounds counts.
//! Nothing ends the rounds earlier, because two rounds in a row agree by chance soon after the
//! training phase. A short workload has as many rounds as fill the drive several times.
//!
//! Rounds that follow one another do not show how uncertain the life is: what the scheme has learnt
//! stays as it is, and so does the wear. A run that learns from fewer rounds wears the drive
//! otherwise. So the volume also serves half and a quarter of the rounds, each time from new
//! drives. The range of the life has the parts of all three runs. Rounds of a short trace show the
//! places of that trace alone, however many they are, so the range also has the low end of every
//! other scheme: writes at random.
//!
//! A drive may be too large to wear in these rounds. The lifetime of such a drive is computed as
//! for other schemes. The range of its lifetime then covers the writes that regulation would keep
//! from the drive.
//!
//! A round of a few large requests takes long, because flash is written page by page. If the rounds
//! that fill a drive would read and write more than [`BYTES_MAX`], the scheme learns from the
//! rounds within this limit, and the lifetime is computed as for other schemes.

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_models::DeviceStatistics;
use bimetal_models::endurance::Endurance;

use super::{Life, Recording, Repeated, SPAN_MAX, flash_drives};
use crate::setup::Setup;

/// Smallest number of erases of each block, on the average, within a window that counts.
const ERASES_MIN: f64 = 0.5;

/// Limits for the rounds of a run: number of requests, and of rounds. A long workload has three
/// rounds all the same: the first round trains the scheme, and the last round counts.
const REQUESTS_MAX: u64 = 1_000_000;
const ROUNDS_MIN: u64 = 3;
const ROUNDS_MAX: u64 = 64;

/// Number of times that all rounds of a short workload write the whole flash, and the largest
/// number of such rounds. A round takes time even with a few requests: timers fire, and drives are
/// idle.
const FILLS: u64 = 8;
const SHORT_ROUNDS_MAX: u64 = 1024;

/// Number of bytes that all rounds of a run read and write, at most. Three rounds may be more.
const BYTES_MAX: u64 = 32 << 30;

/// Factors by which the shorter runs are shorter than the longest run.
const SHORTER: [u64; 2] = [4, 2];

/// Largest number of parts of a run whose lives are compared.
const PARTS: usize = 4;

/// Relative difference between the lives of two runs below which the wear has settled.
const SETTLED: f64 = 0.1;

/// Counts of a drive when a round begins, or when the last round has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mark {
    /// Mean number of erases of a block, in rated cycles.
    erases: f64,
    written_bytes: u64,
}

impl Mark {
    pub(super) fn of(statistics: &DeviceStatistics) -> Self {
        let erases = statistics.flash.as_ref().map_or(0.0, |flash| flash.cycles_used);
        Self { erases, written_bytes: statistics.write_bytes.0 }
    }
}

/// Counts of a drive from the first recorded round on, at the begin of each round.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Vec<Mark>);

/// Work of a drive in each round of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// Mean number of erases of a block in a round.
    pub(super) erases: f64,
    pub(super) written_bytes: f64,
}

/// Wear of a drive in the volume itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Followed {
    /// Work in the last half of the rounds.
    pub(super) last: Window,
    /// Work in equal parts of the last half of the rounds, in order of time.
    pub(super) parts: Vec<Window>,
}

impl Marks {
    /// Notes the counts for each of the first `begun` rounds for which there are none yet.
    pub(super) fn note(&mut self, begun: u64, statistics: impl FnOnce() -> DeviceStatistics) {
        if (self.0.len() as u64) < begun {
            self.0.resize(begun as usize, Mark::of(&statistics()));
        }
    }

    fn window(&self, from: usize, to: usize) -> Window {
        let (from, to, rounds) = (self.0[from], self.0[to], (to - from) as f64);
        Window {
            erases: (to.erases - from.erases) / rounds,
            written_bytes: (to.written_bytes - from.written_bytes) as f64 / rounds,
        }
    }

    /// Returns the wear; `None` if too few blocks were erased in the last half of the rounds.
    pub(super) fn wear(&self) -> Option<Followed> {
        let rounds = self.0.len().checked_sub(1).filter(|&rounds| rounds > 0)?;
        let half = rounds.div_ceil(2);
        let begin = rounds - half;
        let last = self.window(begin, rounds);
        if last.erases * half as f64 <= ERASES_MIN {
            return None;
        }
        let parts = |count: usize| -> Vec<Window> {
            (0..count).map(|at| self.window(begin + half * at / count, begin + half * (at + 1) / count)).collect()
        };
        let erases_of_part = last.erases * half as f64 / ERASES_MIN;
        let count = PARTS.min(half).min(erases_of_part as usize).max(1);
        // One round alone has no range: the round before it, in which training ends, bounds it.
        let before = (half == 1 && begin > 0).then(|| self.window(begin - 1, begin));
        Some(Followed { last, parts: before.into_iter().chain(parts(count)).collect() })
    }
}

/// Returns true if `rounds` rounds, of `written_bytes` each, write the `flash_bytes` of a drive.
fn can_fill(rounds: u64, written_bytes: f64, flash_bytes: u64) -> bool {
    written_bytes * rounds as f64 >= flash_bytes as f64
}

/// Returns the largest number of rounds of `requests` each, within `longest` in all, for a drive
/// that `needed` rounds fill often enough.
fn rounds_max(requests: u64, period: Nanoseconds, longest: Nanoseconds, needed: u64) -> u64 {
    let most = (REQUESTS_MAX / requests.max(1)).clamp(ROUNDS_MIN, needed.clamp(ROUNDS_MAX, SHORT_ROUNDS_MAX));
    most.min(longest.0 / period.0.max(1)).max(1)
}

/// Returns the numbers of rounds in the runs of a scheme that watches its drives, the longest run
/// last. Returns no run if no scheme watches a drive, or if no run fills a drive. If a run that
/// fills a drive would take too long, the only run is the one from which the scheme learns.
pub(super) fn lengths(setup: &Setup, load: &Repeated<'_>, played_in: Nanoseconds) -> Vec<u64> {
    let bytes = load.bytes.0.max(1);
    let smallest = flash_drives(setup).map(|drive| drive.size.0).min().unwrap_or(u64::MAX);
    let needed = smallest.saturating_mul(FILLS).div_ceil(bytes);
    let most = rounds_max(load.requests, played_in, SPAN_MAX, needed);
    if !setup.tree.watches_drives() || !can_fill(most, bytes as f64, smallest) {
        return Vec::new();
    }
    let most = most.min((BYTES_MAX / load.moved_bytes.0.max(1)).max(ROUNDS_MIN));
    if !can_fill(most, bytes as f64, smallest) {
        return vec![most];
    }
    let mut lengths: Vec<u64> = SHORTER.iter().map(|by| most / by).filter(|&rounds| rounds >= ROUNDS_MIN).collect();
    lengths.push(most);
    lengths
}

/// Further rounds for drives on which the scheme's decisions depend ([`followed`]).
impl Recording<'_> {
    /// Returns true if a drive is to be followed that `most` rounds can fill.
    pub(super) fn is_to_follow(&self, most: u64) -> bool {
        self.members.iter().any(|member| {
            let written_bytes = member.recorded_bytes() as f64 / self.recorded as f64;
            member.marks.is_some() && can_fill(most, written_bytes, member.size.bytes().0)
        })
    }

    /// Notes the drives' counts after `rounds` rounds.
    pub(super) fn note_end(&self, rounds: u64, end: Nanoseconds, setup: &Setup) {
        for member in &self.members {
            let drive = setup.drives.iter().find(|drive| drive.id == member.id);
            if let (Some(marks), Some(drive)) = (&member.marks, drive) {
                let mut marks = marks.lock().expect("no thread panics with the lock");
                marks.note(rounds + 1, || drive.model.statistics(end));
            }
        }
    }
}

impl Life {
    /// Takes over the wear of the drive in the volume itself, in rounds that each take `round`.
    pub(super) fn note_followed(
        &mut self,
        followed: &Followed,
        (round, size): (Nanoseconds, Bytes),
        flash: Bytes,
        endurance: &Endurance,
    ) {
        let seconds = round.as_seconds_f64();
        let of = |window: &Window| {
            endurance.lifetime(window.written_bytes / seconds, window.erases * flash.0 as f64 / seconds)
        };
        let last = &followed.last;
        self.note_load(last.written_bytes / seconds, size);
        self.erased_per_written = Some(last.erases * flash.0 as f64 / last.written_bytes);
        self.note(of(last));
        self.range_years = Some((f64::INFINITY, 0.0));
        for lifetime in followed.parts.iter().map(of) {
            self.may_be(Some(lifetime.years().unwrap_or(f64::INFINITY)), lifetime.limited_by());
        }
        self.followed = true;
    }

    /// Notes that no shorter run was made. The wear has settled if all parts of this run have
    /// nearly the same life.
    pub(super) fn note_alone(&mut self) {
        let range = self.range_years.filter(|_| self.followed);
        self.converged &= range.is_none_or(|(least, most)| most - least <= SETTLED * self.years_or_more());
    }

    /// Takes over the range of the life in a shorter run of the same drive. The wear has settled if
    /// both runs have nearly the same life.
    pub(super) fn note_shorter(&mut self, shorter: &Life) {
        let Some((least, most)) = shorter.range_years.filter(|_| self.followed && shorter.followed) else { return };
        self.may_be(Some(least), shorter.shortest_limited_by);
        self.may_be(Some(most), None);
        let (years, other) = (self.years_or_more(), shorter.years_or_more());
        self.converged &= (years - other).abs() <= SETTLED * years;
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::layout::Role;
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;
    use bimetal_models::profile::DEFAULT_HDD;
    use bimetal_trace::Request;

    use super::super::{GAP, KnownWear, Watched, chunks};
    use super::*;
    use crate::experiment::{Experiment, NoProgress};
    use crate::results::FlashFigures;
    use crate::setup::{Choices, DriveChoice, Size};
    use crate::simulator::Replay;
    use crate::survey::Survey;
    use crate::tree::{MemberChoice, NamedDrive, VolumeChoice};
    use crate::workload::rounds::Rounds;

    /// Returns writes of 4 KiB: each block of a range once, and then nineteen of twenty writes to a
    /// tenth of the range.
    fn skewed_writes() -> Vec<Request> {
        const BLOCKS: u64 = 3200;
        let place = |at: u64| match at < BLOCKS {
            true => at,
            false => {
                let (drawn, hot) = (chunks::hash(at, 1), !chunks::hash(at, 2).is_multiple_of(20));
                drawn % if hot { BLOCKS / 10 } else { BLOCKS }
            }
        };
        let write = |at: u64| Request {
            arrival: Nanoseconds::from_millis(10 * at),
            device: 0,
            kind: OpKind::Write,
            fua: false,
            range: SectorRange::new(place(at) * 8, 8),
            response: None,
        };
        (0..30_000).map(write).collect()
    }

    /// Returns the years until the rated cycles are used up, of the workload or of the last quarter
    /// of `rounds` rounds.
    fn years(requests: &Vec<Request>, rounds: u64, settings: &[(&str, &str)]) -> f64 {
        run(requests, rounds, Bytes::from_mib(16), settings).lifetime_years_cycles.unwrap()
    }

    fn run(requests: &Vec<Request>, rounds: u64, size: Bytes, settings: &[(&str, &str)]) -> FlashFigures {
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let size = Some(Size::Bytes(size));
        let ssd = DriveChoice { profile: Some("super-talent-32gb".to_owned()), size };
        let choices = Choices { settings, ssd, steady_wear: rounds == 1, ..Choices::default() };
        let workload = Rounds::of(requests, rounds).unwrap();
        let schemes = vec![bimetal_core::schemes::find("mixedstore").unwrap().into()];
        let (trees, replay, warmup) =
            (Vec::new(), Replay::Timed { speedup: 1.0 }, if rounds == 1 { 0.0 } else { 0.75 });
        let experiment = Experiment { workload: &workload, schemes, trees, choices, replay, warmup, keep: None };
        experiment.run(&NoProgress, |_, trace| trace).unwrap().runs.remove(0).devices.ssd.flash
    }

    /// 30,000 writes do not wear 2 GiB of flash, so no erases are regulated yet.
    #[test]
    fn range_covers_regulation_that_a_large_drive_hides() {
        let requests = skewed_writes();
        let most = |regulation| {
            let run = run(&requests, 1, Bytes::from_gib(2), &[("regulation", regulation)]);
            let (years, range) = (run.lifetime_years.unwrap(), run.lifetime_range_years.unwrap());
            range.1 / years
        };
        assert!((most("50%") / most("off") - 2.0).abs() < 0.01);
    }

    /// The drive halts its levelling as the scheme requests, in every round. Regression: a
    /// recording of one round was played to a drive that always levelled its wear, and the life was
    /// a fifth longer than the life in a long run.
    #[test]
    fn life_of_a_watched_drive_is_that_of_a_long_run() {
        let requests = skewed_writes();
        for levelling in ["static", "adaptive"] {
            let settings = [
                ("wear_levelling", levelling),
                ("expected_writes", "1MB"),
                ("fragmentation_buster", "off"),
                ("ssd.wear_threshold", "2"),
                ("hdd.write_cache", "off"),
            ];
            let (reported, long) = (years(&requests, 1, &settings), years(&requests, 8, &settings));
            assert!((reported / long - 1.0).abs() < 0.06, "{levelling}: {reported} years, and {long} in a long run");
        }
    }

    /// Regression: the range of a followed drive had the spread of its own rounds alone, so its low
    /// end left out random writes, which the low end of every other scheme has.
    #[test]
    fn range_of_a_followed_drive_covers_random_writes() {
        let requests = skewed_writes().split_off(26_000);
        let settings = [("fragmentation_buster", "off"), ("hdd.write_cache", "off")];
        let run = run(&requests, 1, Bytes::from_mib(16), &settings);
        let (years, least) = (run.lifetime_years.unwrap(), run.lifetime_range_years.unwrap().0);
        assert!(least < 0.8 * years, "{least} of {years} years");
    }

    /// Returns bursts of skewed writes with idle periods between them. Each block of another range
    /// is read a few times.
    fn bursts() -> Vec<Request> {
        let mut requests = skewed_writes();
        for (at, request) in requests.iter_mut().enumerate() {
            let at = at as u64;
            request.arrival = Nanoseconds::from_millis(2 * at + at / 200 * 2_000);
            if at % 4 == 3 {
                request.kind = OpKind::Read;
                request.range = SectorRange::new((10_000 + chunks::hash(at, 3) % 500) * 8, 8);
            }
        }
        requests
    }

    /// Regression: the rounds that measure a life had no idle periods, so the work of idle periods
    /// did not wear the flash.
    #[test]
    fn profiled_idle_periods_are_in_every_round() {
        let requests = bursts();
        let settings = [("idle_periods", "profiled"), ("hdd.write_cache", "off")];
        let (reported, long) = (years(&requests, 1, &settings), years(&requests, 8, &settings));
        assert!((reported / long - 1.0).abs() < 0.06, "{reported} years, and {long} in a long run");
    }

    /// Regression: eight writes of 256 MiB were repeated until they had filled the drive eight
    /// times. The rounds of such a trace of a few hundred bytes took a minute and a half.
    #[test]
    fn few_large_writes_do_not_fill_a_large_drive() {
        let write = |at: u64| Request {
            arrival: Nanoseconds::from_seconds(at),
            device: 0,
            kind: OpKind::Write,
            fua: false,
            range: SectorRange::new(at * (1 << 19), 1 << 19),
            response: None,
        };
        let requests: Vec<Request> = (0..8).map(write).collect();
        let lengths = |size| {
            let ssd = DriveChoice { profile: Some("super-talent-32gb".to_owned()), size: Some(Size::Bytes(size)) };
            let choices = Choices { ssd, ..Choices::default() };
            let survey = Survey::of(&requests, choices.block, &|_| {}).unwrap();
            let setup = Setup::new(bimetal_core::schemes::find("mixedstore").unwrap(), &choices, &survey).unwrap();
            let known_wear = KnownWear::default();
            let load = Repeated::of(&requests, Replay::Timed { speedup: 1.0 }, &known_wear);
            lengths(&setup, &load, load.played_in(1.0))
        };
        assert_eq!(lengths(Bytes::from_gib(500)), [16], "16 rounds are 32 GiB");
        assert_eq!(lengths(Bytes::from_gib(32)), [4, 8, 16]);
        assert_eq!(lengths(Bytes::from_gib(1)), [4, 8, 16], "more rounds would move more bytes");
    }

    /// Returns the life of flash under `mixedstore`; `inner` puts the scheme inside another volume.
    fn life(requests: &Vec<Request>, inner: bool, settings: &[(&str, &str)]) -> Result<Life, String> {
        let drive = |name: &str, profile: &str, size| {
            let size = Some(Size::Bytes(size));
            MemberChoice::Drive(NamedDrive {
                name: name.to_owned(),
                profile: profile.to_owned(),
                size,
                settings: Vec::new(),
            })
        };
        let members = vec![
            (Some(Role::Ssd), drive("ssd", "super-talent-32gb", Bytes::from_mib(16))),
            (Some(Role::Hdd), drive("hdd", DEFAULT_HDD, Bytes::from_gib(1))),
        ];
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let scheme = |name| bimetal_core::schemes::find(name).unwrap();
        let mut tree = VolumeChoice { name: "inside".to_owned(), scheme: scheme("mixedstore"), settings, members };
        if inner {
            let members = vec![(Some(Role::Hdd), MemberChoice::Volume(tree))];
            tree =
                VolumeChoice { name: "outside".to_owned(), scheme: scheme("hdd-only"), settings: Vec::new(), members };
        }
        let settings = vec![("hdd.write_cache".to_owned(), "off".to_owned())];
        let choices = Choices { settings, ..Choices::default() };
        let survey = Survey::of(requests, choices.block, &|_| {}).unwrap();
        let known_wear = KnownWear::default();
        let load = Repeated::of(requests, Replay::Timed { speedup: 1.0 }, &known_wear);
        let setup = Setup::of_tree(&tree, &choices, &survey).map_err(|error| error.to_string())?;
        let lives = super::super::lives(setup, &|| None, &choices, load).unwrap();
        Ok(lives.into_iter().find(|life| life.member == "ssd").unwrap())
    }

    /// Regression: a volume inside another volume learnt from its first 10,000 requests, and its
    /// drive was not followed.
    #[test]
    fn life_inside_a_volume_is_that_of_the_volume_alone() {
        let requests = skewed_writes();
        let [alone, inside] = [false, true].map(|inner| life(&requests, inner, &[("regulation", "50%")]).unwrap());
        assert!(alone.followed && inside.followed);
        let (alone, inside) = (alone.cycles_years.unwrap(), inside.cycles_years.unwrap());
        assert!((inside / alone - 1.0).abs() < 0.02, "{inside} years inside, {alone} alone");
    }

    /// Regression: a volume inside another volume took the setting, and had no idle period at all.
    #[test]
    fn inner_volume_refuses_a_profile_of_idle_periods() {
        let requests = skewed_writes()[..100].to_vec();
        let profiled = [("idle_periods", "profiled")];
        assert!(life(&requests, false, &profiled).is_ok());
        let refused = life(&requests, true, &profiled).unwrap_err();
        assert!(refused.contains("inside.idle_periods=profiled: expected idle_periods=detected"), "{refused}");
    }

    /// Regression: a short trace whose 64 rounds do not fill the drive was played from a recording
    /// of one round, in which regulation and levelling do not act.
    #[test]
    fn short_trace_has_as_many_rounds_as_fill_the_drive() {
        let requests = skewed_writes()[..50].to_vec();
        let life = life(&requests, false, &[]).unwrap();
        assert!(life.followed && life.trace_too_short, "{life:?}");
    }

    /// Regression: a trace of two requests was played half a million times, which took minutes.
    #[test]
    fn few_requests_are_not_played_for_hours() {
        let most = |requests, needed| rounds_max(requests, Nanoseconds(1), SPAN_MAX, needed);
        assert_eq!([most(2, 1_000_000), most(50, 655), most(50, 9)], [1024, 655, 64]);
        assert_eq!([most(20_000, 655), most(10_000_000, 1)], [50, 3]);
    }

    fn marks(erases: &[f64]) -> Marks {
        let mut total = 0.0;
        let all = erases.iter().map(|more| {
            total += more;
            Mark { erases: total, written_bytes: (total * 1e6) as u64 }
        });
        Marks(std::iter::once(Mark::default()).chain(all).collect())
    }

    #[test]
    fn parts_are_equal_and_have_enough_erases() {
        let erases = |erases: &[f64]| -> Option<(f64, Vec<f64>)> {
            let (wear, rounded) = (marks(erases).wear()?, |erases: f64| (erases * 100.0).round() / 100.0);
            Some((rounded(wear.last.erases), wear.parts.iter().map(|part| rounded(part.erases)).collect()))
        };
        assert_eq!(erases(&[9.0, 1.0]), Some((1.0, vec![9.0, 1.0])), "one round that counts, and the one before");
        assert_eq!(erases(&[1.0]), Some((1.0, vec![1.0])));
        assert_eq!(erases(&[9.0, 9.0, 9.0, 4.0, 2.0, 6.0]), Some((4.0, vec![4.0, 2.0, 6.0])));
        assert_eq!(erases(&[9.0, 9.0, 0.4, 0.8]), Some((0.6, vec![0.4, 0.8])));
        assert_eq!(erases(&[9.0, 9.0, 0.2, 0.6]), Some((0.4, vec![0.4])), "too few erases for two parts");
        assert_eq!(erases(&[9.0, 9.0, 0.1, 0.1]), None, "too few erases");
    }

    /// Regression: the life of a long trace, which has time for one run of three rounds, was a
    /// point that counted as certain.
    #[test]
    fn life_of_a_single_run_settles_only_if_its_parts_agree() {
        let profile = bimetal_models::profile::Profile::load("super-talent-32gb").unwrap();
        let alone = |range_years| {
            let mut life = Life::at_rates("ssd", &profile, profile.capacity.bytes(), 1.0, 1.0);
            (life.years, life.range_years, life.followed, life.converged) = (Some(2.0), Some(range_years), true, true);
            life.note_alone();
            life.converged
        };
        assert!(alone((1.9, 2.05)) && !alone((1.5, 2.0)));
    }

    #[test]
    fn rounds_end_if_the_drive_cannot_fill() {
        assert!(!can_fill(4, 250e3, 2_000_000) && can_fill(4, 250e3, 900_000));
    }

    /// Regression: the scheme learnt from one round, and was followed until two windows agreed.
    /// Under a recorded desktop, flash seemed to last a quarter longer than in a long run.
    /// Regression: in a pause that a long run does not have, hot data filled the flash.
    #[test]
    fn scheme_learns_from_half_of_all_rounds_without_a_pause() {
        let requests = skewed_writes();
        let begun = |size| {
            let ssd = DriveChoice { profile: Some("super-talent-32gb".to_owned()), size: Some(Size::Bytes(size)) };
            let choices = Choices { ssd, ..Choices::default() };
            let survey = Survey::of(&requests, choices.block, &|_| {}).unwrap();
            let scheme = bimetal_core::schemes::find("mixedstore").unwrap();
            let mut setup = Setup::new(scheme, &choices, &survey).unwrap();
            let known_wear = KnownWear::default();
            let load = Repeated::of(&requests, Replay::Timed { speedup: 1.0 }, &known_wear);
            let lengths = lengths(&setup, &load, load.played_in(1.0));
            let watched = lengths.last().map(|&rounds| Watched { rounds, alone: false });
            let recording = Recording::begin(&mut setup, &choices, load, 1.0, watched);
            (lengths, recording.warm, recording.most, recording.gap)
        };
        let short = begun(Bytes::from_mib(16));
        assert_eq!(short, (vec![8, 16, 33], 16, 17, Nanoseconds::ZERO), "33 rounds are a million requests");
        let large = begun(Bytes::from_gib(64));
        assert_eq!(large, (Vec::new(), 1, 1, GAP), "all rounds do not fill the drive");
    }
}
