//! Lifetime of an option's flash at steady state.
//!
//! A short trace never fills a large drive, so the wear of one run says little. Here the workload
//! is repeated:
//! 1. The volume serves the workload twice. Caches are warm in the second round. The commands to
//!    each flash member in the second round are recorded (`record`). If the trace is shorter than a
//!    timer of the scheme, enough further rounds follow to show the timer's effect.
//! 2. The recorded stream is played again and again until the erases per written byte no longer
//!    change (`wear`). It is played to the drive or, if the drive is large, to a smaller drive that
//!    wears the same (`small`).
//!
//! The rate of bytes written is that of the whole stream.
//!
//! A range covers what a short trace cannot show. Its short end assumes writes at random over the
//! part in use. Their number is that of the first round, when all data were new, or that of all
//! data waiting in a log.

mod chunks;
mod record;
mod small;
mod wear;

use std::collections::HashMap;
use std::sync::Mutex;

use bimetal_core::operation::Command;
use bimetal_core::settings::Kind;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES};
use bimetal_models::flash::FlashProfile;
use bimetal_models::flash::geometry::Geometry;
use bimetal_models::profile::{Body, Profile};
use bimetal_sim::block_layer::BlockLayerSettings;
use bimetal_sim::limits::Limits;
use bimetal_sim::setup::{Choices, Setup};
use bimetal_sim::simulator::{Play, Replay, SimulationError, simulate_within};
use bimetal_trace::Request;
use serde::Serialize;

use crate::budget::years_of_wear;
use crate::evaluate::Evaluator;
use crate::grid::Candidate;
use record::{Begins, Member, Rounds, record_members, stores};
use wear::Wear;

/// Amount of flash above which a drive is played by a smaller drive of about this size.
const PLAYED_BYTES: u64 = 256 << 20;

/// Number of times that each timer of a scheme fires while commands are recorded.
const TIMERS: u64 = 4;

/// Most requests of all rounds beyond the first two, and the longest time that the rounds may take.
const REQUESTS_MAX: u64 = 100_000;
const SPAN_MAX: Nanoseconds = Nanoseconds::from_seconds(50 * 365 * 86_400);

/// Pause between the warm-up rounds and the recorded rounds. Pending work of the warm-up is done by
/// then.
const GAP: Nanoseconds = Nanoseconds::from_seconds(10);

/// Lifetime of one flash drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Life {
    /// Name of the member: `ssd` or `log`.
    pub member: String,
    /// Name of the drive's profile.
    pub profile: String,
    /// Years until the rated cycles are used up; null if nothing is ever erased.
    pub years: Option<f64>,
    /// Set if `years` is null because nothing is ever erased.
    pub unlimited: bool,
    /// Shortest and longest lifetime that the trace leaves possible. The longest is infinite (in
    /// JSON null) if nothing was written while the stream was recorded.
    pub range_years: Option<(f64, f64)>,
    /// Bytes erased for each byte written to the drive, at steady state.
    pub erased_per_written: Option<f64>,
    /// Bytes written to the drive each second, once caches are warm.
    pub written_bytes_per_s: f64,
    /// Factor by which the played drive is smaller than the real drive.
    pub scaled_down: f64,
    /// Set if the wear settled within the played rounds.
    pub converged: bool,
    /// Set if the trace writes less than the drive's flash holds, so that it does not show the
    /// long-term wear.
    pub trace_too_short: bool,
}

impl Life {
    /// Returns the years; infinity if nothing is erased.
    pub fn years_or_more(&self) -> f64 {
        self.years.unwrap_or(f64::INFINITY)
    }

    /// Widens the range to include a lifetime computed from a part of the trace.
    pub(crate) fn may_be(&mut self, years: Option<f64>) {
        if let (Some((least, most)), Some(years)) = (&mut self.range_years, years) {
            (*least, *most) = (least.min(years), most.max(years));
        }
    }
}

/// Computes the lifetimes of the flash members of `candidate`.
///
/// # Errors
/// Returns an error if the totals of a run contradict each other.
pub fn lives(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    choices: &Choices,
) -> Result<Vec<Life>, SimulationError> {
    let Ok(mut setup) = Setup::new(candidate.scheme, choices, &evaluator.load.survey) else { return Ok(Vec::new()) };
    let requests = &evaluator.load.requests;
    let period = period_of(requests);
    let played_in = match evaluator.replay {
        Replay::Timed { speedup } => Nanoseconds(((period.0 as f64 / speedup) as u64).max(1)),
        _ => Nanoseconds(1),
    };
    let timer = longest_timer(&setup);
    let (warm, recorded) = rounds_of(timer, played_in, requests.len() as u64);
    let timed = matches!(evaluator.replay, Replay::Timed { .. });
    let gap = if timed { Nanoseconds((GAP.0 as f64 / played_in.0 as f64 * period.0 as f64) as u64) } else { GAP };
    // Start of a round: each is `period` after the previous round, and the recorded rounds are a
    // gap later.
    let later = move |round: u64| {
        let rounds = Nanoseconds(period.0.saturating_mul(round));
        if round < warm { rounds } else { rounds.saturating_add(gap) }
    };
    let begins = timed.then(|| {
        let first = requests.first().map_or(Nanoseconds::ZERO, |request| request.arrival);
        let at = |round| {
            let arrival = first.saturating_add(later(round));
            Nanoseconds((arrival.0 as f64 * (played_in.0 as f64 / period.0 as f64)) as u64)
        };
        Begins { second: at(1), recorded: at(warm) }
    });
    let rounds = Rounds::new(warm, begins);
    let members = record_members(&mut setup, choices, &rounds, timed);
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let all = (0..warm + recorded).flat_map(|round| {
        let (rounds, later) = (rounds.clone(), later(round));
        requests.iter().enumerate().map(move |(index, request)| {
            if index == 0 {
                rounds.enter(round);
            }
            Ok(Request { arrival: request.arrival.saturating_add(later), ..*request })
        })
    });
    let block_layer = BlockLayerSettings::chosen(choices, &setup).unwrap_or_default();
    let play = Play { replay: evaluator.replay, warmup_requests: warm * requests.len() as u64, block_layer };
    let measured = simulate_within(&mut setup, Box::new(all), play, Limits::default(), &|_| {})?;
    // The time from the last request to the next round is part of the span.
    let span = Nanoseconds(played_in.0.saturating_mul(recorded)).max(measured.end - measured.start);
    let waiting = u64::from(setup.volume().view().map.dirty_blocks()) * choices.block.bytes().0;
    // Waiting data are written back once per timer period. Earlier write-backs would have been
    // recorded.
    let share = span.0 as f64 / span.max(timer).0.max(1) as f64;
    let seen = Seen { span, rounds: recorded, waiting_bytes: (waiting as f64 * share).ceil() as u64 };
    Ok(members.iter().map(|member| life_of(member, seen, evaluator.known_wear, choices.seed)).collect())
}

/// Observations that all members share.
#[derive(Clone, Copy)]
struct Seen {
    /// Duration and number of the recorded rounds.
    span: Nanoseconds,
    rounds: u64,
    /// Bytes off home at the end of the rounds that may be written back in an equally long time.
    waiting_bytes: u64,
}

/// Returns the number of warm-up rounds and of recorded rounds. They are long enough for each timer
/// of the scheme, within the limits.
fn rounds_of(timer: Nanoseconds, period: Nanoseconds, requests: u64) -> (u64, u64) {
    let most = (REQUESTS_MAX / (TIMERS + 1) / requests.max(1)).min(SPAN_MAX.0 / (TIMERS + 1) / period.0.max(1));
    let one = timer.0.div_ceil(period.0.max(1)).min(most).max(1);
    let all = timer.0.saturating_mul(TIMERS).div_ceil(period.0.max(1)).min(most * TIMERS).max(1);
    (one, all)
}

/// Returns the longest time after which a scheme acts by itself.
fn longest_timer(setup: &Setup) -> Nanoseconds {
    let timers = setup.scheme.parameters.iter().filter(|it| matches!(it.kind, Kind::Duration | Kind::DurationOrOff));
    timers.filter_map(|timer| setup.settings.duration(timer.name)).max().unwrap_or(Nanoseconds::ZERO)
}

/// Returns the time from one round to the next: the span of the requests, plus a mean gap.
fn period_of(requests: &[Request]) -> Nanoseconds {
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else { return Nanoseconds::ZERO };
    let span = last.arrival.saturating_sub(first.arrival).0;
    Nanoseconds((span + span / requests.len() as u64).max(1_000_000))
}

/// Wear of drives under random writes, computed once. It is the same for every scheme that uses a
/// drive alike.
#[derive(Default)]
pub struct KnownWear(Mutex<HashMap<Use, Option<f64>>>);

/// The whole profile of a drive as text, its sectors, and the number of sectors in use.
type Use = (String, u64, u64);

impl KnownWear {
    fn of_random_writes(&self, member: &Member, flash: (&FlashProfile, &Geometry), seed: u64) -> Option<f64> {
        let key = (format!("{:?}", member.profile), member.size.0, member.used.len.0);
        if let Some(known) = self.0.lock().expect("nobody panics while it is held").get(&key) {
            return *known;
        }
        let found = wear::of_random_writes(member, flash, PLAYED_BYTES, seed);
        self.0.lock().expect("nobody panics while it is held").insert(key, found);
        found
    }
}

/// Computes the lifetime of a member.
fn life_of(member: &Member, seen: Seen, known: &KnownWear, seed: u64) -> Life {
    let stream = member.take_stream();
    let written: u64 =
        stream.iter().filter(|(_, command)| stores(command)).map(|(_, command)| command.range.len.0).sum();
    let written = written * SECTOR_BYTES;
    let seconds = seen.span.as_seconds_f64();
    // Data that wait off home may be written to a home drive in the same time. A drive that is
    // written at all may get as much as in the first round.
    let waiting = if member.is_home { seen.waiting_bytes } else { 0 };
    let mut life = Life {
        member: member.id.clone(),
        profile: member.profile.name.clone(),
        years: None,
        unlimited: written == 0 && waiting == 0,
        range_years: None,
        erased_per_written: None,
        written_bytes_per_s: written as f64 / seconds,
        scaled_down: 1.0,
        converged: true,
        trace_too_short: false,
    };
    let Body::Flash(flash) = &member.profile.body else { return life };
    let Ok(geometry) = flash.geometry(member.profile.capacity, Some(member.size)) else { return life };
    if life.unlimited {
        return life;
    }
    let drive = (&**flash, &geometry);
    let physical = geometry.physical_bytes().0 as f64;
    let years_with = |erased_per_written: f64, bytes: u64| {
        years_of_wear(physical * f64::from(flash.rated_cycles), erased_per_written * bytes as f64 / seconds)
    };
    life.trace_too_short = (written as f64) < physical;
    let random = life.trace_too_short.then(|| known.of_random_writes(member, drive, seed)).flatten().unwrap_or(0.0);
    if written == 0 {
        // The data that may be written back are all that is known.
        let shortest = years_with(random.max(1.0), waiting);
        (life.years, life.range_years) = (Some(shortest), Some((shortest, f64::INFINITY)));
        return life;
    }
    let wear = Wear::of(member, drive, &stream, seen.span, PLAYED_BYTES, seed).filter(|wear| wear.mean > 0.0);
    let wear = wear.unwrap_or(Wear::ONCE);
    (life.scaled_down, life.converged) = (wear.factor, wear.converged);
    life.erased_per_written = Some(wear.mean);
    life.years = Some(years_with(wear.mean, written));
    let cold = if life.trace_too_short { member.cold_bytes() * seen.rounds } else { 0 };
    let shortest = years_with(wear.high.max(random), written.max(cold).max(waiting));
    life.range_years = Some((shortest, years_with(wear.low, written)));
    life
}

/// Returns the bytes erased per byte written by a drive of `size`, full at first. The drive serves
/// `stream`, which lasts for `span`, again and again. If it is larger than `played`, a drive of
/// about that size is played. `None`: nothing is written, or the profile cannot have that size.
pub fn wear_of_stream(
    profile: &Profile,
    size: Bytes,
    stream: &[(Nanoseconds, Command)],
    span: Nanoseconds,
    played: Bytes,
) -> Option<f64> {
    let member = Member::home(profile, size.sectors());
    let Body::Flash(flash) = &profile.body else { return None };
    let geometry = flash.geometry(profile.capacity, Some(member.size)).ok()?;
    Wear::of(&member, (flash, &geometry), stream, span, played.0, 0).map(|wear| wear.mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::layout::Role;
    use bimetal_core::units::SectorRange;
    use bimetal_sim::survey::Survey;

    use crate::catalogue::{Kind, Offer};
    use crate::evaluate::{Load, Outcome};
    use bimetal_trace::synthetic::{Generator, Skew, WorkloadSpec};

    /// Returns skewed writes of twice the size of the drive.
    fn stream_of(size: Bytes, skew: &str, sequential: f64) -> Vec<(Nanoseconds, Command)> {
        let requests = size.0 * 2 / 4096;
        let skew = skew.parse::<Skew>().unwrap();
        let spec = WorkloadSpec { read_fraction: 0.0, skew, sequential, ..WorkloadSpec::new(requests, size) };
        let generator = Generator::new(&[spec], 1).unwrap();
        generator
            .map(|request| (request.arrival, Command { kind: request.kind, range: request.range, fua: false }))
            .collect()
    }

    /// Compares the wear of a whole drive with that of a drive a twelfth as large.
    fn check(profile: &str, size: Bytes, skew: &str, sequential: f64) {
        let stream = stream_of(size, skew, sequential);
        let span = stream.last().unwrap().0 + Nanoseconds(1);
        let drive = Profile::load(profile).unwrap();
        let wear = |played| wear_of_stream(&drive, size, &stream, span, played).unwrap();
        let (whole, smaller) = (wear(Bytes(u64::MAX)), wear(Bytes(size.0 / 12)));
        assert!((smaller / whole - 1.0).abs() < 0.05, "{profile}, {skew}: {whole}, made smaller {smaller}");
        assert!(whole >= 0.99, "{whole}");
    }

    /// Three small drives wear as the drives that stand for them, within five percent.
    #[test]
    fn stand_ins_of_small_drives_wear_within_five_percent() {
        check("intel-x25-e-32gb", Bytes::from_mib(768), "hot:0.2,0.8", 0.0);
        check("intel-x25-m-80gb", Bytes::from_mib(768), "uniform", 0.0);
        check("samsung-970-evo-plus-500gb", Bytes::from_mib(1536), "zipf:0.9", 0.3);
    }

    fn drive(model: &str, size: Bytes) -> Offer {
        Offer {
            model: model.to_owned(),
            kind: if model.starts_with("intel") { Kind::Ssd } else { Kind::Hdd },
            size,
            usd: 1.0,
            date: String::new(),
            source: String::new(),
            cell: None,
        }
    }

    /// Returns the lifetimes of the flash of these drives under a scheme, and the run's write
    /// savings.
    fn lives_of(
        scheme: &str,
        drives: &[(Role, &str, Bytes)],
        requests: Vec<Request>,
        settings: &[(&str, &str)],
    ) -> (Vec<Life>, Option<f64>) {
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let common = Choices { settings, ..Choices::default() };
        let survey = Survey::of(&requests, common.block, &|_| {}).unwrap();
        let load = Load::new(requests, survey, 0.0);
        let candidate = Candidate {
            index: 0,
            variant: 0,
            scheme: bimetal_core::schemes::find(scheme).unwrap(),
            drives: drives.iter().map(|&(role, model, size)| (role, drive(model, size))).collect(),
            settings: Vec::new(),
            cost_usd: 2.0,
        };
        let (replay, known_wear) = (Replay::Timed { speedup: 1.0 }, KnownWear::default());
        let evaluator = Evaluator { load: &load, common: &common, replay, known_wear: &known_wear };
        let lives = lives(&evaluator, &candidate, &candidate.choices(&common)).unwrap();
        let Outcome::Done(figures) = evaluator.run(&candidate, Limits::default()).unwrap() else { panic!("it runs") };
        (lives, figures.at("write_savings"))
    }

    /// Returns `count` random writes of 4 KiB over `footprint`.
    fn random_writes(count: u64, gap: Nanoseconds, footprint: Bytes) -> Vec<Request> {
        let interarrival = bimetal_trace::synthetic::Interarrival::Constant(gap);
        let spec = WorkloadSpec { read_fraction: 0.0, interarrival, ..WorkloadSpec::new(count, footprint) };
        Generator::new(&[spec], 1).unwrap().collect()
    }

    /// 16 MiB that are overwritten again and again lie on all dies of a drive. The small drive that
    /// stands for it has one die, so it must get the time that it needs. Otherwise queued commands
    /// would count as written, and have erased nothing.
    #[test]
    fn the_wear_of_a_write_does_not_depend_on_how_fast_writes_come() {
        let ssd = [(Role::Ssd, "intel-x25-m-80gb", Bytes(80_000_000_000))];
        let erased = |gap| {
            let writes = random_writes(20_000, gap, Bytes::from_mib(16));
            lives_of("ssd-only", &ssd, writes, &[]).0[0].erased_per_written.unwrap()
        };
        let (fast, slow) = (erased(Nanoseconds::from_micros(200)), erased(Nanoseconds::from_millis(4)));
        assert!((fast / slow - 1.0).abs() < 0.02, "{fast} against {slow}");
        assert!((0.95..1.05).contains(&slow), "{slow}");
    }

    /// A drive that cannot keep up at all wears the same, too.
    #[test]
    fn a_drive_that_cannot_keep_up_wears_all_the_same() {
        let ssd = [(Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(2048))];
        let (lives, _) = lives_of("ssd-only", &ssd, random_writes(20_000, Nanoseconds(500), Bytes::from_mib(16)), &[]);
        assert!(!lives[0].unlimited);
        assert!(lives[0].erased_per_written.unwrap() > 0.9, "{lives:?}");
    }

    /// A short trace does not show the wear of many writes of its kind. Its range covers that wear.
    #[test]
    fn the_range_of_a_short_trace_holds_the_life_under_a_long_one() {
        let ssd = [(Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(256))];
        let life = |count| {
            let writes = random_writes(count, Nanoseconds::from_millis(20), Bytes::from_mib(250));
            lives_of("ssd-only", &ssd, writes, &[]).0.remove(0)
        };
        let (short, long) = (life(1_000), life(200_000));
        assert!(short.trace_too_short && !long.trace_too_short, "{short:?} {long:?}");
        let (least, most) = short.range_years.unwrap();
        let long = long.years.unwrap();
        assert!(least <= 1.05 * long && long < most, "{least} to {most} years, and {long}");
        assert!(least > 0.5 * long, "{least} years, and {long}");
    }

    /// A log emptied every 15 minutes writes nothing back within a minute. The write-back shows
    /// when the minute is repeated for an hour. It does not show when a millisecond is repeated,
    /// but the lifetime is still finite.
    #[test]
    fn what_waits_in_a_log_wears_the_flash_that_it_goes_to() {
        let drives = [
            (Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(512)),
            (Role::Hdd, "seagate-barracuda-7200.12-1tb", Bytes(1_000_000_000_000)),
        ];
        let life =
            |count, gap| lives_of("griffin", &drives, random_writes(count, gap, Bytes::from_mib(64)), &[]).0.remove(0);
        let minute = life(3_000, Nanoseconds::from_millis(20));
        assert!(!minute.unlimited && minute.written_bytes_per_s > 0.0, "{minute:?}");
        let instant = life(1_000, Nanoseconds::from_micros(1));
        assert!(!instant.unlimited && instant.years.unwrap().is_finite(), "{instant:?}");
        assert_eq!(instant.written_bytes_per_s, 0.0, "{instant:?}");
    }

    /// Returns the lifetimes of log and SSD in years under `griffin`, and its write savings. The
    /// workload writes 16 MiB from end to end again and again. Every second round is migrated to
    /// the SSD.
    fn griffin_with_a_log_of(log: Bytes) -> (f64, f64, f64) {
        let write = |number: u64| Request {
            arrival: Nanoseconds::from_millis(10 * number),
            device: 0,
            kind: bimetal_core::operation::OpKind::Write,
            fua: false,
            range: SectorRange::new(number % 256 * 128, 128),
            response: None,
        };
        let drives = [(Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(400)), (Role::Log, "intel-x25-e-32gb", log)];
        let set = [("ssd.spare_factor", "0.07"), ("log.spare_factor", "0.07"), ("griffin.timeout", "5120ms")];
        let (lives, savings) = lives_of("griffin", &drives, (0..256 * 40).map(write).collect(), &set);
        let years = |member: &str| lives.iter().find(|life| life.member == member).unwrap().years.unwrap();
        (years("log"), years("ssd"), savings.unwrap())
    }

    /// Griffin, section 7: an SLC log has ten times the cycles. At savings of a half it takes twice
    /// the writes, so it lasts as long with a fifth of the MLC's size. The paper counts data alone.
    /// Here each request of 16 blocks is a segment with a head and a foot.
    #[test]
    fn an_slc_log_must_be_a_fifth_of_the_mlc_at_savings_of_a_half() {
        let data = 16.0 / 18.0;
        let (log, ssd, savings) = griffin_with_a_log_of(Bytes::from_mib(80));
        assert!((savings - 0.5).abs() < 0.05, "{savings}");
        assert!((log / ssd / data - 1.0).abs() < 0.1, "log {log}, SSD {ssd} years");
        let (log, ssd, _) = griffin_with_a_log_of(Bytes::from_mib(60));
        assert!((log / ssd / data - 0.75).abs() < 0.075, "log {log}, SSD {ssd} years");
    }
}
