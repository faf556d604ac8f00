//! Lifetime of an option's flash at steady state.
//!
//! A short trace never fills a large drive, so the wear of one run says little about the drive's
//! lifetime. To compute a lifetime, the workload is repeated:
//! 1. The volume serves the workload twice. Caches are warm in the second round. The commands to
//!    each flash member in the second round are recorded (`record`). If the trace is shorter than a
//!    timer of the scheme, enough further rounds follow to show the timer's effect. A run over a
//!    long trace can itself be the first round (`Recording`).
//! 2. The recorded stream is played again and again until the erases per written byte no longer
//!    change (`wear`). The stream is played to the drive or, if the drive is large, to a smaller
//!    drive that wears at the same rate (`die`, `small`).
//!
//! The rate of bytes written is the rate of the whole recorded stream.
//!
//! The stream of a scheme that watches its drives depends on the drives' wear. Such a volume serves
//! many rounds, and the wear of its own drives counts (`followed`).
//!
//! The maker's warranty may end a drive's life before its rated cycles are used up
//! ([`bimetal_models::endurance`]).
//!
//! A range of lifetimes covers the effects that a short trace cannot show. The lower end of the
//! range assumes writes at random over the part in use. The number of these writes is the number of
//! writes in the first round, when all data were new, or the number of blocks waiting in a log. The
//! lower end is that of every scheme, also of a scheme that watches its drives.

mod chunks;
mod die;
mod followed;
mod life;
mod record;
mod small;
mod wear;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;

use bimetal_core::operation::{Command, OpKind};
use bimetal_core::settings::Kind;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_models::endurance::Endurance;
use bimetal_models::flash::FlashProfile;
use bimetal_models::flash::geometry::Geometry;
use bimetal_models::profile::{Body, Profile};
use bimetal_trace::Request;

use crate::block_layer::BlockLayerSettings;
use crate::limits::Limits;
use crate::setup::{Choices, Drive, Setup};
use crate::simulator::{Play, Replay, SimulationError, Simulator};
use crate::survey::Survey;
use crate::workload::rounds::{period, postponed};
use crate::workload::{Requests, Workload, WorkloadError};
use followed::lengths;
pub use life::{Life, Unknown};
use record::{Member, Rounds, record_members};
use wear::Wear;

/// Amount of flash above which a smaller drive, of about this size, stands for the drive.
const PLAYED_BYTES: u64 = 256 << 20;

/// Number of times that each timer of a scheme fires while commands are recorded.
const TIMERS: u64 = 4;

/// Limits for the rounds after the first two: number of requests of all rounds, bytes that they
/// move, and time that the rounds may take.
const REQUESTS_MAX: u64 = 50_000;
const BYTES_MAX: u64 = 32 << 30;
const SPAN_MAX: Nanoseconds = Nanoseconds::from_seconds(50 * 365 * 86_400);

/// Pause between the warm-up rounds and the recorded rounds. During the pause, pending work of the
/// warm-up is done.
const GAP: Nanoseconds = Nanoseconds::from_seconds(10);

/// Workload that is repeated to find lifetimes.
#[derive(Clone, Copy)]
pub struct Repeated<'a> {
    /// The requests.
    pub workload: &'a dyn Workload,
    /// Number of requests.
    pub requests: u64,
    /// Bytes read, written and discarded by all requests.
    pub bytes: Bytes,
    /// Bytes read and written by all requests.
    pub moved_bytes: Bytes,
    /// Arrival of the first request.
    pub first: Nanoseconds,
    /// Time from the first arrival to the last.
    pub duration: Nanoseconds,
    /// Times at which requests are issued.
    pub replay: Replay,
    /// Wear figures of drives that are already known.
    pub known_wear: &'a KnownWear,
}

impl<'a> Repeated<'a> {
    /// Returns true if the requests have different times, so that their rate is known.
    pub(crate) fn has_times(&self) -> bool {
        self.duration > Nanoseconds::ZERO
    }

    /// Returns `requests` as a workload to repeat.
    pub fn of(requests: &'a Vec<Request>, replay: Replay, known_wear: &'a KnownWear) -> Self {
        let first = requests.first().map_or(Nanoseconds::ZERO, |request| request.arrival);
        let last = requests.last().map_or(Nanoseconds::ZERO, |request| request.arrival);
        let duration = last.saturating_sub(first);
        let bytes_of = |counts: fn(OpKind) -> bool| {
            let counted = requests.iter().filter(|request| counts(request.kind));
            counted.fold(Bytes(0), |sum, request| sum.saturating_add(request.range.len.bytes()))
        };
        let (bytes, moved_bytes) = (bytes_of(|_| true), bytes_of(|kind| kind != OpKind::Discard));
        let count = requests.len() as u64;
        Self { workload: requests, requests: count, bytes, moved_bytes, first, duration, replay, known_wear }
    }

    /// Returns a surveyed workload as a workload to repeat.
    ///
    /// # Errors
    /// Fails if the workload cannot be read.
    pub fn surveyed(
        workload: &'a dyn Workload,
        survey: &Survey,
        replay: Replay,
        known_wear: &'a KnownWear,
    ) -> Result<Self, WorkloadError> {
        let first = workload.open()?.next().transpose()?.map_or(Nanoseconds::ZERO, |request| request.arrival);
        let moved_bytes = survey.read_bytes.saturating_add(survey.write_bytes);
        let bytes = moved_bytes.saturating_add(survey.discarded_bytes);
        let (requests, duration) = (survey.requests, survey.duration);
        Ok(Self { workload, requests, bytes, moved_bytes, first, duration, replay, known_wear })
    }

    /// Returns the time from one round to the next: the span of the requests, plus the mean gap
    /// between requests.
    fn period(&self) -> Nanoseconds {
        period(self.duration, self.requests).max(Nanoseconds::from_millis(1))
    }

    /// Returns the time in which a round is played.
    fn played_in(&self, speedup: f64) -> Nanoseconds {
        Nanoseconds(((self.period().0 as f64 / speedup) as u64).max(1))
    }

    /// Reads the requests of a short workload, which has many rounds; `None` for a long workload.
    /// Regression: a trace of one request was opened 50,000 times.
    fn kept(&self) -> Result<Option<Vec<Request>>, WorkloadError> {
        let is_short = self.requests <= REQUESTS_MAX;
        is_short.then(|| self.workload.open()?.collect()).transpose()
    }

    /// Returns the requests of a round that arrive at most `later` after the first.
    fn round(&self, later: Nanoseconds) -> Requests<'a> {
        match self.workload.open() {
            Ok(requests) => Box::new(requests.map(move |request| request.map(|request| postponed(request, later)))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }
}

/// Returns the flash drives of `setup`.
fn flash_drives(setup: &Setup) -> impl Iterator<Item = &Drive> {
    setup.drives.iter().filter(|drive| matches!(drive.profile.body, Body::Flash(_)))
}

/// Computes the lifetimes of the flash drives of `setup`, which no request has reached yet; `again`
/// returns an equal setup for each further run. The lifetimes are unknown under a closed replay,
/// which ignores the times of the trace, and for a trace without times. Under a replay with think
/// times, the lifetimes are computed with the times of the trace: the load of a day is the load of
/// the recorded day, with drives of any speed.
///
/// # Errors
/// Returns an error if the workload cannot be read, or the totals of a run contradict each other.
pub fn lives(
    setup: Setup,
    again: &dyn Fn() -> Option<Setup>,
    choices: &Choices,
    load: Repeated<'_>,
) -> Result<Vec<Life>, SimulationError> {
    let (Replay::Timed { speedup } | Replay::Think { speedup }, true) = (load.replay, load.has_times()) else {
        let unknown = |drive: &Drive| Life::unknown(&drive.id, &drive.profile, Unknown::NeedsTimes);
        return Ok(flash_drives(&setup).map(unknown).collect());
    };
    let load = Repeated { replay: Replay::Timed { speedup }, ..load };
    let kept = load.kept()?;
    let load = kept.as_ref().map_or(load, |requests| Repeated { workload: requests, ..load });
    let lengths = lengths(&setup, &load, load.played_in(speedup));
    let Some((&longest, shorter)) = lengths.split_last() else { return played(setup, choices, load, speedup, None) };
    let watched = Watched { rounds: longest, alone: shorter.is_empty() };
    let mut lives = played(setup, choices, load, speedup, Some(watched))?;
    for &rounds in shorter.iter().rev() {
        let Some(setup) = again().filter(|_| lives.iter().any(|life| life.followed)) else { break };
        let shorter = played(setup, choices, load, speedup, Some(Watched { rounds, alone: false }))?;
        lives.iter_mut().zip(&shorter).for_each(|(life, shorter)| life.note_shorter(shorter));
    }
    Ok(lives)
}

/// Rounds of a run in which drives are followed.
#[derive(Clone, Copy)]
struct Watched {
    /// Number of rounds.
    rounds: u64,
    /// Set if no run of fewer rounds is made, too.
    alone: bool,
}

/// Plays the rounds of a workload, the `watched` rounds if the drives are followed, and returns the
/// lifetimes.
fn played(
    mut setup: Setup,
    choices: &Choices,
    load: Repeated<'_>,
    speedup: f64,
    watched: Option<Watched>,
) -> Result<Vec<Life>, SimulationError> {
    let recording = Recording::begin(&mut setup, choices, load, speedup, watched);
    if recording.members.is_empty() {
        return Ok(Vec::new());
    }
    // A scheme that learns from half of a workload learns from all warm-up rounds.
    setup.half = Some(recording.warm * load.requests);
    setup.foresee_idle(load.replay, || Ok(recording.requests(0)))?;
    let block_layer = BlockLayerSettings::chosen(choices, &setup).unwrap_or_default();
    let play = Play { replay: load.replay, warmup_requests: recording.warm * load.requests, block_layer };
    let mut simulator = Simulator::new(&mut setup, play, Limits::default())?;
    recording.lives(&mut simulator, 0, choices)
}

/// Recording of the rounds of a workload, with a recorder in front of each flash drive.
pub(crate) struct Recording<'a> {
    members: Vec<Member>,
    load: Repeated<'a>,
    /// Number of warm-up rounds, and of recorded rounds.
    warm: u64,
    recorded: u64,
    /// Number of rounds from the first recorded round on, if drives are followed.
    most: u64,
    /// Set if no run of fewer rounds is made, too.
    alone: bool,
    /// Time from one round to the next in the trace, and the time in which it is played.
    period: Nanoseconds,
    played_in: Nanoseconds,
    /// Pause before the recorded rounds, in the trace.
    gap: Nanoseconds,
    /// Longest time after which the scheme acts by itself.
    timer: Nanoseconds,
}

impl<'a> Recording<'a> {
    /// Begins a recording of as many rounds as the timers of the scheme need, or of all `watched`
    /// rounds of a scheme that watches its drives.
    fn begin(setup: &mut Setup, choices: &Choices, load: Repeated<'a>, speedup: f64, watched: Option<Watched>) -> Self {
        let (period, played_in) = (load.period(), load.played_in(speedup));
        let (timer, rounds_max) = (timers(setup).max().unwrap_or(Nanoseconds::ZERO), rounds_max(played_in, &load));
        let (warm, recorded) = rounds_of(timers(setup), played_in, rounds_max);
        // A scheme that watches its drives learns from half of all rounds.
        let warm = watched.map_or(warm, |watched| warm.max(watched.rounds / 2));
        let most = watched.map_or(recorded, |watched| recorded.max(watched.rounds.saturating_sub(warm)));
        let alone = watched.is_some_and(|watched| watched.alone);
        // A long run, which is followed, has no pause.
        let pause = if watched.is_some() { Nanoseconds::ZERO } else { GAP };
        let gap = Nanoseconds((pause.0 as f64 / played_in.0 as f64 * period.0 as f64) as u64);
        let members = Vec::new();
        let mut recording = Self { members, load, warm, recorded, most, alone, period, played_in, gap, timer };
        let (second, first) = (recording.start(1), recording.start(warm));
        let end = first.saturating_add(Nanoseconds(played_in.0.saturating_mul(recorded)));
        let rounds = Rounds { second, recorded: first, end, each: played_in };
        recording.members = record_members(setup, choices, rounds, watched.is_some());
        recording
    }

    /// Begins the recording before a run over `setup`, if the run itself can be the first round: it
    /// is the same as a round of a recording, and only one warm-up round is needed. So a long
    /// workload is simulated twice instead of three times.
    pub(crate) fn beside_run(setup: &mut Setup, choices: &Choices, load: Repeated<'a>) -> Option<Self> {
        let (Replay::Timed { speedup }, true) = (load.replay, load.has_times()) else { return None };
        let foresees = setup.volume().lacks_policy() || setup.volume().wants_idle_profile().is_some();
        // A scheme that watches its drives learns from half of the run.
        let learns = setup.tree.watches_drives();
        // A drive that is alone is not simulated for a recording. A block layer joins requests of
        // neighbouring rounds. Policies of other programs expect a life of their own.
        let differs = foresees || learns || setup.drives.len() == 1 || choices.merge;
        let is_own = choices.outside.is_none() && choices.director.is_none();
        // A short workload may have many rounds, which cost little.
        let is_long = load.requests > REQUESTS_MAX;
        let recording = (is_long && is_own && !differs).then(|| Self::begin(setup, choices, load, speedup, None));
        // Without flash there is no life to be known, and no round to be played.
        recording.filter(|recording| !recording.members.is_empty())
    }

    /// Returns true if the run of `simulator`, which was the first round, ended before the second
    /// round begins.
    pub(crate) fn can_follow(&self, simulator: &Simulator<'_>) -> bool {
        self.warm == 1 && simulator.can_go_on_at(self.start(1))
    }

    /// Returns the start of a round in the trace, after the first round. Each round is a period
    /// after the previous round, and the recorded rounds are a gap later.
    fn later(&self, round: u64) -> Nanoseconds {
        let rounds = Nanoseconds(self.period.0.saturating_mul(round));
        if round < self.warm { rounds } else { rounds.saturating_add(self.gap) }
    }

    /// Returns the time at which a round starts.
    fn start(&self, round: u64) -> Nanoseconds {
        let arrival = self.load.first.saturating_add(self.later(round));
        Nanoseconds((arrival.0 as f64 * (self.played_in.0 as f64 / self.period.0 as f64)) as u64)
    }

    /// Returns the requests of all rounds from `round` on that may be played.
    fn requests(&self, round: u64) -> Requests<'a> {
        let (load, most) = (self.load, self.warm + self.most);
        let starts: Vec<Nanoseconds> = (round..most).map(|round| self.later(round)).collect();
        Box::new(starts.into_iter().flat_map(move |later| load.round(later)))
    }

    /// Plays the rounds from `round` on, and returns the lifetimes.
    ///
    /// # Errors
    /// As [`lives`].
    pub(crate) fn lives(
        &self,
        simulator: &mut Simulator<'_>,
        round: u64,
        choices: &Choices,
    ) -> Result<Vec<Life>, SimulationError> {
        let (recorded, most) = (self.warm + self.recorded, self.most);
        let is_wanted = |round: &u64| *round < recorded || self.is_to_follow(most);
        let played = Cell::new(round);
        let rounds = (round..self.warm + most).take_while(is_wanted).inspect(|round| played.set(round + 1));
        let requests = rounds.flat_map(|round| self.load.round(self.later(round)));
        simulator.play_all(Box::new(requests), &mut |_, _| {})?;
        let measured = simulator.finish()?;
        self.note_end(played.get() - self.warm, measured.end, simulator.setup());
        // The time from the last request to the next round is part of the span.
        let span = Nanoseconds(self.played_in.0.saturating_mul(self.recorded));
        let is_recorded = played.get() == recorded;
        let span = if is_recorded { span.max(measured.end - measured.start) } else { span };
        let volumes = simulator.setup().tree.volumes();
        let waiting: u64 = volumes.map(|volume| u64::from(volume.view().map.dirty_blocks())).sum();
        let waiting = waiting * choices.block.bytes().0;
        // Waiting data are written back once per timer period. Earlier write-backs would have been
        // recorded.
        let share = span.0 as f64 / span.max(self.timer).0.max(1) as f64;
        let waiting_bytes = (waiting as f64 * share).ceil() as u64;
        let volumes = simulator.setup().tree.volumes();
        let diverted = volumes.map(|volume| volume.diverted_max()).fold(0.0, f64::max);
        let (rounds, each, alone) = (self.recorded, self.played_in, self.alone);
        let seen = Seen { span, rounds, waiting_bytes, each, diverted, alone };
        let known = self.load.known_wear;
        Ok(self.members.iter().map(|member| life_of(member, seen, known, choices.seed)).collect())
    }
}

/// Observations that are the same for all members.
#[derive(Clone, Copy)]
struct Seen {
    /// Duration and number of the recorded rounds.
    span: Nanoseconds,
    rounds: u64,
    /// Time from one round to the next.
    each: Nanoseconds,
    /// Largest share of the writes that the scheme keeps from flash once flash wears.
    diverted: f64,
    /// Bytes off home at the end of the recorded rounds, which may be written back in an equally
    /// long time.
    waiting_bytes: u64,
    /// Set if a followed drive has no run of fewer rounds, too.
    alone: bool,
}

/// Returns the number of rounds that the limits allow.
fn rounds_max(period: Nanoseconds, load: &Repeated<'_>) -> u64 {
    let limits = [(REQUESTS_MAX, load.requests), (BYTES_MAX, load.bytes.0), (SPAN_MAX.0, period.0)];
    limits.map(|(most, of_round)| most / of_round.max(1)).into_iter().fold(u64::MAX, u64::min)
}

/// Returns the number of warm-up rounds and of recorded rounds. The rounds are long enough for each
/// of `timers` that fires at all within `rounds_max` rounds, if `rounds_max` rounds are enough:
/// once in the warm-up, and `TIMERS` times while commands are recorded. No round is played for a
/// timer that would not fire.
fn rounds_of(timers: impl Iterator<Item = Nanoseconds>, period: Nanoseconds, rounds_max: u64) -> (u64, u64) {
    let each = rounds_max / (TIMERS + 1);
    let reach = period.0.saturating_mul(each * (TIMERS + 1)).saturating_add(GAP.0);
    let Some(timer) = timers.filter(|timer| timer.0 <= reach).max() else { return (1, 1) };
    let one = timer.0.div_ceil(period.0.max(1)).min(each).max(1);
    let all = timer.0.saturating_mul(TIMERS).div_ceil(period.0.max(1)).min(each * TIMERS).max(1);
    (one, all)
}

/// Returns the times after which a scheme acts by itself.
fn timers(setup: &Setup) -> impl Iterator<Item = Nanoseconds> {
    let timers = setup.scheme.parameters.iter().filter(|it| matches!(it.kind, Kind::Duration | Kind::DurationOrOff));
    timers.filter_map(|timer| setup.settings.declared::<Option<Nanoseconds>>(timer.name)?)
}

/// Wear of drives under random writes, computed once. The wear is the same for every scheme that
/// uses a drive in the same way.
#[derive(Default)]
pub struct KnownWear(Mutex<HashMap<Use, Option<f64>>>);

/// The whole profile of a drive as text, its sectors, and the number of sectors in use.
type Use = (String, u64, u64);

impl KnownWear {
    fn of_random_writes(&self, member: &Member, flash: (&FlashProfile, &Geometry), seed: u64) -> Option<f64> {
        let key = (format!("{:?}", member.profile), member.size.0, member.in_use.0);
        if let Some(known) = self.0.lock().expect("no thread panics while it holds the lock").get(&key) {
            return *known;
        }
        let found = wear::of_random_writes(member, flash, PLAYED_BYTES, seed);
        self.0.lock().expect("no thread panics while it holds the lock").insert(key, found);
        found
    }
}

/// Computes the lifetime of a member.
fn life_of(member: &Member, seen: Seen, known: &KnownWear, seed: u64) -> Life {
    let tape = member.take_tape();
    let (written, seconds) = (tape.written_bytes(), seen.span.as_seconds_f64());
    // Data that wait off home may be written to a home drive in the same time. A drive that is
    // written at all may get as much as in the first round.
    let waiting = if member.is_home { seen.waiting_bytes } else { 0 };
    let mut life = Life::unknown(&member.id, &member.profile, Unknown::NothingWritten);
    life.note_load(written as f64 / seconds, member.bought.bytes());
    let Body::Flash(flash) = &member.profile.body else { return life };
    let Ok(geometry) = flash.geometry(member.profile.capacity, Some(member.size)) else { return life };
    let Some(endurance) = Endurance::of(&member.profile, member.bought) else { return life };
    let new_bytes = if written == 0 && waiting == 0 { member.warmup_bytes() * seen.rounds } else { 0 };
    if written.max(waiting).max(new_bytes) == 0 {
        return life;
    }
    let drive = (&**flash, &geometry);
    let with = |erased_per_written: f64, bytes: u64| {
        let rate = bytes as f64 / seconds;
        endurance.lifetime(rate, erased_per_written * rate)
    };
    let years_with = |erased_per_written, bytes| with(erased_per_written, bytes).years().unwrap_or(f64::INFINITY);
    life.trace_too_short = written < geometry.physical_bytes().0;
    let random = life.trace_too_short.then(|| known.of_random_writes(member, drive, seed)).flatten().unwrap_or(0.0);
    let cold = if life.trace_too_short { member.cold_bytes() * seen.rounds } else { 0 };
    // The shortest life assumes the same of every scheme, however the wear was found.
    let shortest = |high: f64, written: u64| with(high.max(random), written.max(cold).max(waiting));
    if let Some(followed) = member.followed() {
        life.note_followed(&followed, (seen.each, member.bought.bytes()), geometry.physical_bytes(), &endurance);
        if seen.alone {
            life.note_alone();
        }
        let wear = life.erased_per_written.unwrap_or(0.0);
        let shortest = shortest(wear, (followed.last.written_bytes * seen.rounds as f64) as u64);
        life.may_be(shortest.years(), shortest.limited_by());
        return life;
    }
    if new_bytes > 0 {
        life.note_load(new_bytes as f64 / seconds, member.bought.bytes());
        return life.of_only_new_data(shortest(1.0, new_bytes));
    }
    if written == 0 {
        // The data that may be written back are all that is known.
        life.note(with(random.max(1.0), waiting));
        life.range_years = life.years.map(|shortest| (shortest, f64::INFINITY));
        life.shortest_limited_by = life.limited_by;
        return life;
    }
    let wear = Wear::of(member, drive, &tape.stream, tape.lasts(seen.span), PLAYED_BYTES, seed);
    let wear = wear.filter(|wear| wear.mean > 0.0).unwrap_or(Wear::ONCE);
    (life.scaled_down, life.converged) = (wear.factor, wear.converged);
    life.erased_per_written = Some(wear.mean);
    life.note(with(wear.mean, written));
    let diverted = if member.is_home { 0.0 } else { seen.diverted };
    let shortest = shortest(wear.high, written);
    life.shortest_limited_by = shortest.limited_by();
    let longest = years_with(wear.low, written) / (1.0 - diverted);
    life.range_years = Some((shortest.years().unwrap_or(f64::INFINITY), longest));
    life
}

/// Returns the bytes erased per byte written by a drive of `size`, which is full at first. The
/// drive serves `stream`, which lasts for `span`, again and again. If the drive is larger than
/// `played`, a drive of about that size is played. `None` if nothing is written, or if the profile
/// cannot have this size.
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

    use bimetal_models::endurance::LimitedBy;
    use bimetal_models::profile::DEFAULT_HDD;

    use crate::experiment::{Experiment, NoProgress};
    use crate::results::Run;
    use crate::setup::{DriveChoice, Size};
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

    /// Plays `requests` under a scheme as a run that may be the first round of a recording. Returns
    /// the lifetimes; `None` if the run cannot be the first round.
    fn lives_beside_run(scheme: &str, requests: &Vec<Request>, choices: &Choices) -> Option<Vec<Life>> {
        let survey = Survey::of(requests, choices.block, &|_| {}).unwrap();
        let (replay, known_wear) = (Replay::Timed { speedup: 1.0 }, KnownWear::default());
        let load = Repeated::of(requests, replay, &known_wear);
        let setup = || Setup::new(bimetal_core::schemes::find(scheme).unwrap(), choices, &survey).unwrap();
        let mut run = setup();
        let recording = Recording::beside_run(&mut run, choices, load)?;
        let play = Play { replay, warmup_requests: 1000, block_layer: None };
        let mut simulator = Simulator::new(&mut run, play, Limits::default()).unwrap();
        simulator.play_all(requests.open().unwrap(), &mut |_, _| {}).unwrap();
        assert_eq!(simulator.finish().unwrap().requests, load.requests - 1000);
        if !recording.can_follow(&simulator) {
            return None;
        }
        let lives = recording.lives(&mut simulator, 1, choices).unwrap();
        assert_eq!(lives, super::lives(setup(), &|| None, choices, load).unwrap(), "{scheme}");
        Some(lives)
    }

    /// The lifetimes of the recording alone are compared in `lives_beside_run`.
    #[test]
    fn run_is_the_first_round_of_a_long_recording() {
        let long = random_writes(REQUESTS_MAX + 1, Nanoseconds::from_millis(20), Bytes::from_mib(64));
        let choices = Choices::default();
        for scheme in ["griffin", "smart-response"] {
            let lives = lives_beside_run(scheme, &long, &choices).expect("the run is the first round");
            assert!(lives.iter().all(|life| life.written_bytes_per_s > Some(0.0)), "{lives:?}");
        }
        assert!(lives_beside_run("ssd-only", &long, &choices).is_none(), "its drive is not simulated");
        let short = random_writes(1000, Nanoseconds::from_millis(20), Bytes::from_mib(64));
        assert!(lives_beside_run("griffin", &short, &choices).is_none(), "it may have many rounds");
        // Requests that still wait when the second round begins are served beside it.
        let dense = random_writes(REQUESTS_MAX + 1, Nanoseconds(20_000), Bytes::from_mib(512));
        assert!(lives_beside_run("hddboost", &dense, &choices).is_none(), "the drives cannot follow");
    }

    /// Regression: 300 requests that write 1.2 GiB within 30 s were played 25 times for a log whose
    /// timer of 900 s did not fire in any of them.
    #[test]
    fn no_round_is_played_for_a_timer_that_cannot_fire() {
        let rounds = |seconds: &[u64], rounds_max| {
            let timers = seconds.iter().map(|&seconds| Nanoseconds::from_seconds(seconds));
            rounds_of(timers, Nanoseconds::from_seconds(30), rounds_max)
        };
        assert_eq!(rounds(&[], 27), (1, 1));
        assert_eq!(rounds(&[900], 27), (1, 1), "25 rounds take 760 s");
        assert_eq!(rounds(&[760], 27), (5, 20), "it fires at the end");
        assert_eq!(rounds(&[900, 60], 27), (2, 8), "the shorter timer fires");
        assert_eq!(rounds(&[900], 1000), (30, 120));
        assert_eq!(rounds(&[900], 1), (1, 1));
    }

    /// One request, or several at one time, have no rate, so a life of 0.6 years after three
    /// requests was made up.
    #[test]
    fn requests_without_times_have_no_life() {
        let mut writes = random_writes(3, Nanoseconds::from_millis(1), Bytes(4096));
        writes.iter_mut().for_each(|write| write.arrival = Nanoseconds::ZERO);
        let choices = Choices { steady_wear: true, ..Choices::default() };
        let survey = Survey::of(&writes, choices.block, &|_| {}).unwrap();
        let setup = Setup::new(bimetal_core::schemes::find("ssd-only").unwrap(), &choices, &survey).unwrap();
        let known_wear = KnownWear::default();
        let load = Repeated::of(&writes, Replay::Timed { speedup: 1.0 }, &known_wear);
        let life = lives(setup, &|| None, &choices, load).unwrap().remove(0);
        assert_eq!((life.years, life.unknown), (None, Some(Unknown::NeedsTimes)));
    }

    /// Regression: a comparison of twelve schemes over a trace of few writes took 15 s of processor
    /// time, because the trace was opened and read for each of some 50,000 rounds.
    #[test]
    fn short_workload_is_opened_once_for_all_rounds() {
        struct Opened(Vec<Request>, std::sync::atomic::AtomicU32);
        impl Workload for Opened {
            fn open_drawn(&self, _drawing: u64) -> Result<Requests<'_>, WorkloadError> {
                self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                self.0.open()
            }

            fn grid(&self) -> u64 {
                self.0.grid()
            }
        }
        let write = random_writes(2, Nanoseconds::from_millis(1), Bytes(4096));
        let settings = vec![("timeout".to_owned(), "1s".to_owned())];
        let choices = Choices { settings, steady_wear: true, ..Choices::default() };
        let survey = Survey::of(&write, choices.block, &|_| {}).unwrap();
        let griffin = bimetal_core::schemes::find("griffin").unwrap();
        let setup = Setup::new(griffin, &choices, &survey).unwrap();
        let (workload, known_wear) = (Opened(write.clone(), 0.into()), KnownWear::default());
        let load = Repeated::of(&write, Replay::Timed { speedup: 1.0 }, &known_wear);
        let (_, recorded) = rounds_of(timers(&setup), load.period(), rounds_max(load.period(), &load));
        assert!(recorded > 1, "several rounds show the timer of a log");
        lives(setup, &|| None, &choices, Repeated { workload: &workload, ..load }).unwrap();
        assert_eq!(workload.1.into_inner(), 1);
    }

    /// Regression: three requests within 81 days were repeated until the clock overflowed.
    #[test]
    fn wear_of_a_stream_of_months_ends_before_the_clock() {
        let write = Command { kind: OpKind::Write, range: SectorRange::new(0, 8), fua: false };
        let drive = Profile::load("intel-x25-e-32gb").unwrap();
        let months = Nanoseconds::from_seconds(7_000_000);
        let stream = [(Nanoseconds(0), write)];
        let wear = wear_of_stream(&drive, Bytes(128 << 20), &stream, months, Bytes(u64::MAX));
        assert!(wear.is_some_and(f64::is_finite), "{wear:?}");
    }

    /// Compares the wear of a whole drive with the wear of a drive a twelfth as large.
    fn check(profile: &str, size: Bytes, skew: &str, sequential: f64, error: f64) {
        let stream = stream_of(size, skew, sequential);
        let span = stream.last().unwrap().0 + Nanoseconds(1);
        let drive = Profile::load(profile).unwrap();
        let wear = |played| wear_of_stream(&drive, size, &stream, span, played).unwrap();
        let (whole, smaller) = (wear(Bytes(u64::MAX)), wear(Bytes(size.0 / 12)));
        assert!((smaller / whole - 1.0).abs() < error, "{profile}, {skew}: {whole}, made smaller {smaller}");
        assert!(whole >= 0.99, "{whole}");
    }

    /// Three small drives wear at the rate of the drives for which they stand, within 5 %. Within
    /// 12 % if a die stands for sixteen dies of 69 MiB, which do not all hold equally much.
    #[test]
    fn stand_ins_of_small_drives_wear_within_twelve_percent() {
        check("intel-x25-e-32gb", Bytes::from_mib(768), "hot:0.2,0.8", 0.0, 0.05);
        check("intel-x25-m-80gb", Bytes::from_mib(768), "uniform", 0.0, 0.05);
        check("samsung-970-evo-plus-500gb", Bytes::from_mib(1536), "zipf:0.9", 0.3, 0.12);
    }

    /// Regression: a die got long writes whole, and wore less than the dies of a drive, among which
    /// the drive spreads each write.
    #[test]
    fn die_wears_as_the_drive_under_long_writes() {
        let (size, drive) = (Bytes::from_mib(640), Profile::load("intel-x25-m-80gb").unwrap());
        let write = |at: u64| {
            let place = chunks::hash(at, 1) % (size.0 >> 16);
            (
                Nanoseconds::from_millis(at),
                Command { kind: OpKind::Write, range: SectorRange::new(place * 128, 128), fua: false },
            )
        };
        let stream: Vec<_> = (0..2 * (size.0 >> 16)).map(write).collect();
        let wear = |played| wear_of_stream(&drive, size, &stream, stream.last().unwrap().0, Bytes(played)).unwrap();
        let (whole, die) = (wear(u64::MAX), wear(256 << 20));
        assert!((die / whole - 1.0).abs() < 0.05, "{whole}, one die {die}");
    }

    /// Returns the lifetimes of the flash of these drives under a scheme, and the run's write
    /// savings.
    fn lives_of(
        scheme: &str,
        drives: &[(Role, &str, Bytes)],
        requests: Vec<Request>,
        settings: &[(&str, &str)],
    ) -> (Vec<Life>, Option<f64>) {
        let (lives, run) = lives_and_run_of(scheme, drives, requests, settings);
        (lives, run.write_savings)
    }

    fn lives_and_run_of(
        scheme: &str,
        drives: &[(Role, &str, Bytes)],
        requests: Vec<Request>,
        settings: &[(&str, &str)],
    ) -> (Vec<Life>, Run) {
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut choices = Choices { settings, steady_wear: true, ..Choices::default() };
        for &(role, model, size) in drives {
            let choice = DriveChoice { profile: Some(model.to_owned()), size: Some(Size::Bytes(size)) };
            match role {
                Role::Ssd => choices.ssd = choice,
                Role::Hdd => choices.hdd = choice,
                _ => choices.members.push((role.name().to_owned(), choice)),
            }
        }
        let scheme = bimetal_core::schemes::find(scheme).unwrap();
        let (replay, known_wear) = (Replay::Timed { speedup: 1.0 }, KnownWear::default());
        let survey = Survey::of(&requests, choices.block, &|_| {}).unwrap();
        let setup = Setup::new(scheme, &choices, &survey).unwrap();
        let load = Repeated::of(&requests, replay, &known_wear);
        let lives = lives(setup, &|| None, &choices, load).unwrap();
        let trees = Vec::new();
        let (schemes, workload) = (vec![scheme.into()], &requests);
        let experiment = Experiment { workload, schemes, trees, choices, replay, warmup: 0.0, keep: None };
        (lives, experiment.run(&NoProgress, |_, trace| trace).unwrap().runs.remove(0))
    }

    /// Returns `count` random writes of 4 KiB over `footprint`.
    fn random_writes(count: u64, gap: Nanoseconds, footprint: Bytes) -> Vec<Request> {
        let interarrival = bimetal_trace::synthetic::Interarrival::Constant(gap);
        let spec = WorkloadSpec { read_fraction: 0.0, interarrival, ..WorkloadSpec::new(count, footprint) };
        Generator::new(&[spec], 1).unwrap().collect()
    }

    /// 16 MiB that are overwritten again and again lie on all dies of a drive. The small drive that
    /// stands for it has one die, so the die must get the time that it needs. If the small drive
    /// got less time, queued commands would count as written, and have erased nothing.
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

    /// A block of three bits a cell takes a third of its bytes with one bit a cell. So each byte
    /// erases three bytes of the cache, which count as 0.3, and a byte of the other blocks.
    /// Regression: the erases of the cache counted in full, and the life was a quarter.
    #[test]
    fn single_bit_cache_takes_a_small_part_of_the_life() {
        let ssd = [(Role::Ssd, "samsung-970-evo-plus-500gb", Bytes::from_mib(256))];
        let erased = |cache| {
            let writes = random_writes(20_000, Nanoseconds::from_millis(4), Bytes::from_mib(16));
            let settings = [("ssd.slc_cache", cache), ("ssd.slc_program_us", "200")];
            lives_of("ssd-only", &ssd, writes, &settings).0[0].erased_per_written.unwrap()
        };
        let (without, with) = (erased("off"), erased("64MiB"));
        assert!((1.2..2.0).contains(&(with / without)), "{with} with the cache, {without} without");
    }

    /// A drive that cannot keep up with its commands wears at the same rate, too.
    #[test]
    fn a_drive_that_cannot_keep_up_wears_all_the_same() {
        let ssd = [(Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(2048))];
        let (lives, _) = lives_of("ssd-only", &ssd, random_writes(20_000, Nanoseconds(500), Bytes::from_mib(16)), &[]);
        assert!(!lives[0].unlimited);
        assert!(lives[0].erased_per_written.unwrap() > 0.9, "{lives:?}");
    }

    /// A short trace does not show the wear of many writes of its kind. The range of the lifetime
    /// covers that wear.
    #[test]
    fn the_range_of_a_short_trace_holds_the_life_under_a_long_one() {
        let ssd = [(Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(256))];
        // The test is about wear, so the warranty does not limit it.
        let set = [("ssd.warranted_terabytes_written", "1000000")];
        let life = |count| {
            let writes = random_writes(count, Nanoseconds::from_millis(20), Bytes::from_mib(250));
            lives_of("ssd-only", &ssd, writes, &set).0.remove(0)
        };
        let (short, long) = (life(1_000), life(200_000));
        assert!(short.trace_too_short && !long.trace_too_short, "{short:?} {long:?}");
        let (least, most) = short.range_years.unwrap();
        let long = long.years.unwrap();
        assert!(least <= 1.05 * long && long < most, "{least} to {most} years, and {long}");
        assert!(least > 0.5 * long, "{least} years, and {long}");
    }

    /// A log emptied every 15 minutes writes nothing back within a minute. The write-back shows
    /// when the minute is repeated for an hour. The write-back does not show when a millisecond is
    /// repeated, but the lifetime is still finite.
    #[test]
    fn what_waits_in_a_log_wears_the_flash_that_it_goes_to() {
        let drives = [
            (Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(512)),
            (Role::Hdd, "seagate-barracuda-7200.12-1tb", Bytes(1_000_000_000_000)),
        ];
        let life =
            |count, gap| lives_of("griffin", &drives, random_writes(count, gap, Bytes::from_mib(64)), &[]).0.remove(0);
        let minute = life(3_000, Nanoseconds::from_millis(20));
        assert!(!minute.unlimited && minute.written_bytes_per_s > Some(0.0), "{minute:?}");
        let instant = life(1_000, Nanoseconds::from_micros(1));
        assert!(!instant.unlimited && instant.years.unwrap().is_finite(), "{instant:?}");
        assert_eq!(instant.written_bytes_per_s, Some(0.0), "{instant:?}");
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
        let years = |member: &str| lives.iter().find(|life| life.member == member).unwrap().cycles_years.unwrap();
        (years("log"), years("ssd"), savings.unwrap())
    }

    /// Griffin, section 7: an SLC log has ten times the cycles. At savings of a half the log takes
    /// twice as many writes as the MLC drive, so it lasts as long with a fifth of the MLC's size.
    /// The paper counts data alone. In this test each request of 16 blocks is a segment with a head
    /// and a foot.
    #[test]
    fn an_slc_log_must_be_a_fifth_of_the_mlc_at_savings_of_a_half() {
        let data = 16.0 / 18.0;
        let (log, ssd, savings) = griffin_with_a_log_of(Bytes::from_mib(80));
        assert!((savings - 0.5).abs() < 0.05, "{savings}");
        assert!((log / ssd / data - 1.0).abs() < 0.1, "log {log}, SSD {ssd} years");
        let (log, ssd, _) = griffin_with_a_log_of(Bytes::from_mib(60));
        assert!((log / ssd / data - 0.75).abs() < 0.075, "log {log}, SSD {ssd} years");
    }

    /// A drive of 500 GB that is written 1 GiB in 1000 s: the 300 TB that its maker warrants limit
    /// its life, and no block is erased within the trace. Regression: the life of such a drive was
    /// reported as unlimited.
    #[test]
    fn warranty_limits_the_life_of_a_drive_that_erases_nothing() {
        let ssd = [(Role::Ssd, "samsung-970-evo-plus-500gb", Bytes(500_107_862_016))];
        let writes = random_writes(10_000, Nanoseconds::from_millis(10), Bytes::from_mib(64));
        let life = lives_of("ssd-only", &ssd, writes, &[]).0.remove(0);
        let expected = 300e12 / 4096.0 / 100.0 / (365.25 * 86_400.0);
        assert!((life.years.unwrap() / expected - 1.0).abs() < 0.01, "{life:?}");
        assert_eq!((life.limited_by, life.warranted_years), (Some(LimitedBy::Warranty), life.years));
        assert!(life.cycles_years > life.years && life.unknown.is_none(), "{life:?}");
        assert!((life.dwpd.unwrap() / (4096.0 * 100.0 * 86_400.0 / 500_107_862_016.0) - 1.0).abs() < 0.01, "{life:?}");
        let (least, most) = life.range_years.unwrap();
        assert!(least <= life.years.unwrap() && most <= life.warranted_years.unwrap() * 1.001, "{life:?}");
    }

    /// The life in the document of `simulate` and `compare` is the life that `plan` computes.
    #[test]
    fn run_has_the_life_that_the_planner_computes() {
        let drives =
            [(Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(512)), (Role::Hdd, DEFAULT_HDD, Bytes::from_mib(1024))];
        let writes = random_writes(3_000, Nanoseconds::from_millis(20), Bytes::from_mib(64));
        for scheme in ["griffin", "bcache"] {
            let (lives, run) = lives_and_run_of(scheme, &drives, writes.clone(), &[]);
            let flash = &run.devices.ssd.flash;
            assert_eq!((flash.lifetime_years, flash.lifetime_limited_by), (lives[0].years, lives[0].limited_by));
            assert_eq!((flash.lifetime_years_cycles, flash.dwpd), (lives[0].cycles_years, lives[0].dwpd));
            assert!(lives[0].years.is_some(), "{scheme}: {lives:?}");
        }
    }

    /// Regression: the low end of the range took only the home addresses of an SSD for the part in
    /// use, and not the slots beside them. Writes at random seemed to wear an SSD of `os-managed`
    /// no faster than its own writes, and its life was called sure.
    #[test]
    fn low_end_of_an_ssd_with_addresses_and_slots_counts_both() {
        let drives =
            [(Role::Ssd, "super-talent-32gb", Bytes::from_gib(8)), (Role::Hdd, DEFAULT_HDD, Bytes::from_mib(1024))];
        let writes = random_writes(3_000, Nanoseconds::from_millis(20), Bytes::from_mib(64));
        let (lives, _) = lives_of("os-managed", &drives, writes, &[]);
        let (years, (least, _)) = (lives[0].years.unwrap(), lives[0].range_years.unwrap());
        assert!(least < 0.9 * years, "at least {least} of {years} years");
    }

    /// Regression: a cache that gets each block once had an unlimited life.
    #[test]
    fn cache_that_gets_only_new_data_has_no_longest_life() {
        let drives =
            [(Role::Ssd, "intel-x25-m-80gb", Bytes::from_mib(512)), (Role::Hdd, DEFAULT_HDD, Bytes::from_mib(1024))];
        let mut reads = random_writes(3_000, Nanoseconds::from_millis(20), Bytes::from_mib(64));
        reads.iter_mut().for_each(|read| read.kind = OpKind::Read);
        let (lives, run) = lives_and_run_of("smart-response", &drives, reads, &[]);
        let (life, flash) = (&lives[0], &run.devices.ssd.flash);
        assert_eq!((life.years, life.unknown, life.unlimited), (None, Some(Unknown::OnlyNewData), false));
        assert!(life.range_years.is_some_and(|(least, most)| least < 100.0 && most.is_infinite()), "{life:?}");
        assert_eq!((flash.lifetime_unlimited, flash.possible_years()), (Some(false), life.range_years));
    }

    /// Without times there is no rate of writes. Regression: a life was computed from the speed of
    /// the replay.
    #[test]
    fn life_without_times_is_unknown() {
        let writes = random_writes(1_000, Nanoseconds::from_millis(20), Bytes::from_mib(16));
        let choices = Choices { steady_wear: true, ..Choices::default() };
        let schemes = vec![bimetal_core::schemes::find("bcache").unwrap().into()];
        let (workload, trees, replay) = (&writes, Vec::new(), Replay::Closed { depth: 4 });
        for steady_wear in [true, false] {
            let choices = Choices { steady_wear, ..choices.clone() };
            let (schemes, trees) = (schemes.clone(), trees.clone());
            let experiment = Experiment { workload, schemes, trees, choices, replay, warmup: 0.0, keep: None };
            let run = experiment.run(&NoProgress, |_, trace| trace).unwrap().runs.remove(0);
            let flash = &run.devices.ssd.flash;
            assert_eq!((flash.lifetime_years, flash.lifetime_unknown), (None, Some(Unknown::NeedsTimes)));
            assert_eq!((flash.lifetime_years_warranted, flash.lifetime_worst_block_years), (None, None));
        }
    }
}
