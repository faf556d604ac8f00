//! How long the flash of an option lasts at steady state.
//!
//! A short trace never fills a large drive, so what a run wears says little. Here the workload goes round and round: the
//! volume sees it twice, and what each flash member is given in the second round (caches are warm then) is taken down. That
//! stream is played to the drive again and again until the erases for each byte written no longer change.
//!
//! A large drive would take thousands of rounds; in its place stands one made smaller by a whole number, with the same
//! spare factor, the same share of its addresses in use, and one chunk of every so many chunks of the stream: each address is
//! overwritten as often as on the large drive, which is what decides how much a collector must move. How many bytes the host
//! writes is not taken from the sample, but from the whole stream.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bimetal_core::layout::LABEL_SECTORS;
use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::{Body, Profile, ProfileError};
use bimetal_models::{DeviceModel, DeviceStatistics, Finished};
use bimetal_sim::limits::Limits;
use bimetal_sim::setup::{Choices, Setup};
use bimetal_sim::simulator::{Play, SimulationError, simulate_within};
use bimetal_trace::Request;
use serde::Serialize;

use crate::budget::years_of_wear;
use crate::evaluate::Evaluator;
use crate::grid::Candidate;

/// A drive larger than this is played by a smaller one of at least half this size.
const PLAYED_MAX: u64 = 256 << 20;

/// Addresses are sampled in chunks of this many sectors (256 KiB): a file's or a log's neighbours stay together.
const CHUNK_SECTORS: u64 = 512;

/// Chunks that must be in a sample: of a stream that touches few, a larger part is taken.
const CHUNKS_MIN: u64 = 48;

/// Samples of one stream, whose spread is the error.
const SAMPLES: u64 = 3;

/// Two windows whose wear differs by less are taken for the steady state.
const CONVERGED: f64 = 0.02;

/// Between the random writes that show the worst case: often enough that the drive fills whole pages.
const RANDOM_GAP: Nanoseconds = Nanoseconds(20_000);

/// Most operations for one drive before it counts as not converged.
const OPERATIONS_MAX: u64 = 2_000_000;

/// How long one flash drive lasts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Life {
    /// The member: `ssd`, `log`.
    pub member: String,
    /// Its profile.
    pub profile: String,
    /// Years until its rated cycles are used up; null where nothing is ever erased.
    pub years: Option<f64>,
    /// Whether `years` is null because nothing is ever erased.
    pub unlimited: bool,
    /// The shortest and the longest life that the trace leaves possible.
    pub range_years: Option<(f64, f64)>,
    /// Bytes erased for each byte written to the drive, at steady state.
    pub erased_per_written: Option<f64>,
    /// Bytes written to the drive each second, once caches are warm.
    pub written_bytes_per_s: f64,
    /// The drive that was played is smaller than the real one by this factor.
    pub scaled_down: u64,
    /// Whether the wear stopped changing before we stopped.
    pub converged: bool,
    /// Whether the trace writes less than the drive holds, so that how it goes on is not known from it.
    pub trace_too_short: bool,
}

impl Life {
    /// The years; infinite where nothing is erased.
    pub fn years_or_more(&self) -> f64 {
        self.years.unwrap_or(f64::INFINITY)
    }
}

/// What a member is given, and when, in one round of the workload.
type Stream = Vec<(Nanoseconds, Command)>;

/// A drive that takes down what it is told to store.
struct Recorder {
    inner: Box<dyn DeviceModel>,
    on: Arc<AtomicBool>,
    stream: Arc<Mutex<Stream>>,
}

impl DeviceModel for Recorder {
    fn capacity(&self) -> Sectors {
        self.inner.capacity()
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        if self.on.load(Ordering::Relaxed) && command.kind != OpKind::Read {
            self.stream.lock().expect("nobody panics while it is held").push((now, command));
        }
        self.inner.submit(now, token, command);
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        self.inner.next_event()
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        self.inner.advance(now, finished);
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        self.inner.statistics(now)
    }
}

/// A flash member of a volume.
struct Member {
    id: String,
    profile: Profile,
    size: Sectors,
    /// The sectors that are full before the first request.
    used: SectorRange,
    precondition: Precondition,
    stream: Arc<Mutex<Stream>>,
}

/// The lives of the flash members of `candidate`.
///
/// # Errors
/// A run that does not add up.
pub fn lives(
    evaluator: &Evaluator<'_>,
    candidate: &Candidate,
    choices: &Choices,
) -> Result<Vec<Life>, SimulationError> {
    let Ok(mut setup) = Setup::new(candidate.scheme, choices, &evaluator.load.survey) else { return Ok(Vec::new()) };
    let on = Arc::new(AtomicBool::new(false));
    let members = record_members(&mut setup, choices, &on);
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let requests = &evaluator.load.requests;
    let period = period_of(requests);
    let second_round = requests.iter().enumerate().map(|(index, request)| {
        if index == 0 {
            on.store(true, Ordering::Relaxed);
        }
        Ok(Request { arrival: request.arrival.saturating_add(period), ..*request })
    });
    let both = Box::new(requests.iter().copied().map(Ok).chain(second_round));
    let play = Play { replay: evaluator.replay, warmup_requests: requests.len() as u64 };
    let measured = simulate_within(&mut setup, both, play, Limits::default(), &|_| {})?;
    let span = (measured.end - measured.start).max(Nanoseconds(1));
    Ok(members.iter().map(|member| life_of(member, span, choices.seed)).collect())
}

/// From one round to the next: the span of the requests, and a mean gap.
fn period_of(requests: &[Request]) -> Nanoseconds {
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else { return Nanoseconds::ZERO };
    let span = last.arrival.saturating_sub(first.arrival).0;
    Nanoseconds((span + span / requests.len() as u64).max(1_000_000))
}

/// Puts a recorder in front of each flash drive.
fn record_members(setup: &mut Setup, choices: &Choices, on: &Arc<AtomicBool>) -> Vec<Member> {
    let layout = setup.volume.view().layout.clone();
    let mut members = Vec::new();
    for (id, drive) in setup.drives.iter_mut().enumerate() {
        if drive.profile.hdd().is_some() {
            continue;
        }
        let home = layout.home.iter().find(|extent| usize::from(extent.member.0) == id);
        let size = Sectors(drive.size.0 / SECTOR_BYTES);
        let full =
            home.map(|extent| SectorRange::new(extent.first_sector, extent.blocks.count * choices.block.sectors()));
        let default = if full.is_some() { Precondition::Sequential } else { Precondition::Clean };
        let stream = Arc::new(Mutex::new(Stream::new()));
        members.push(Member {
            id: drive.role.name().to_owned(),
            profile: drive.profile.clone(),
            size,
            used: full.unwrap_or(SectorRange::new(0, size.0.saturating_sub(LABEL_SECTORS))),
            precondition: choices.precondition.unwrap_or(default),
            stream: stream.clone(),
        });
        let blank = drive.profile.build(Some(size), choices.seed);
        let Ok(blank) = blank else { continue };
        let inner = std::mem::replace(&mut drive.model, blank);
        drive.model = Box::new(Recorder { inner, on: on.clone(), stream });
    }
    members
}

/// The life of a member that was given its stream in `span`.
fn life_of(member: &Member, span: Nanoseconds, seed: u64) -> Life {
    let stream = member.stream.lock().expect("nobody panics while it is held");
    let start = stream.first().map_or(Nanoseconds::ZERO, |(at, _)| *at);
    let stream: Stream = stream.iter().map(|(at, command)| (*at - start, *command)).collect();
    let written: u64 =
        stream.iter().filter(|(_, command)| stores(command)).map(|(_, command)| command.range.len.0).sum();
    let written = written * SECTOR_BYTES;
    let mut life = Life {
        member: member.id.clone(),
        profile: member.profile.name.clone(),
        years: None,
        unlimited: written == 0,
        range_years: None,
        erased_per_written: None,
        written_bytes_per_s: written as f64 / span.as_seconds_f64(),
        scaled_down: 1,
        converged: true,
        trace_too_short: false,
    };
    let Body::Flash(flash) = &member.profile.body else { return life };
    let Ok(geometry) = flash.geometry(member.profile.capacity, Some(member.size)) else { return life };
    if written == 0 {
        return life;
    }
    let physical = geometry.physical_bytes().0 as f64;
    life.trace_too_short = (written as f64) < physical;
    let factor = factor_for(member, &stream);
    let wear = Wear::of(member, &stream, span, factor, seed);
    let years_with = |erased_per_written: f64| {
        years_of_wear(physical * f64::from(flash.rated_cycles), erased_per_written * life.written_bytes_per_s)
    };
    (life.scaled_down, life.converged) = (wear.factor, wear.converged);
    life.unlimited = wear.mean == 0.0;
    if !life.unlimited {
        life.erased_per_written = Some(wear.mean);
        life.years = Some(years_with(wear.mean));
        let worst = if life.trace_too_short { wear.high.max(wear.random.unwrap_or(0.0)) } else { wear.high };
        life.range_years = Some((years_with(worst), years_with(wear.low)));
    }
    life
}

fn stores(command: &Command) -> bool {
    matches!(command.kind, OpKind::Write | OpKind::WriteZeroes)
}

/// By how much a member is made smaller: until it is no larger than [`PLAYED_MAX`], but not so far that a sample of the stream
/// has too few chunks.
fn factor_for(member: &Member, stream: &[(Nanoseconds, Command)]) -> u64 {
    let wanted = member.size.bytes().0.div_ceil(PLAYED_MAX);
    wanted.min(chunks_of(stream) / CHUNKS_MIN).max(1)
}

/// Distinct chunks that are written.
fn chunks_of(stream: &[(Nanoseconds, Command)]) -> u64 {
    let stores = stream.iter().filter(|(_, command)| stores(command) && !command.range.is_empty());
    let chunks = stores
        .flat_map(|(_, Command { range, .. })| range.start.0 / CHUNK_SECTORS..=(range.end().0 - 1) / CHUNK_SECTORS);
    chunks.collect::<HashSet<u64>>().len() as u64
}

/// Bytes erased for each byte written.
#[derive(Clone, Copy, Debug)]
struct Wear {
    mean: f64,
    low: f64,
    high: f64,
    /// With addresses overwritten at random, the worst that can follow.
    random: Option<f64>,
    factor: u64,
    converged: bool,
}

impl Wear {
    /// What `stream`, round and round, does to `member` made smaller by `factor`; a drive that cannot be made smaller is
    /// played as it is.
    fn of(member: &Member, stream: &[(Nanoseconds, Command)], span: Nanoseconds, factor: u64, seed: u64) -> Self {
        let samples = if factor > 1 { SAMPLES } else { 1 };
        let played: Vec<Played> = (0..samples)
            .filter_map(|sample| Played::new(member, stream, factor, seed.wrapping_add(sample)).ok())
            .collect();
        if played.is_empty() && factor > 1 {
            return Self::of(member, stream, span, 1, seed);
        }
        let random = played.first().and_then(Played::wear_of_random_writes);
        let mut wears = Vec::new();
        let mut converged = true;
        for played in &played {
            let sampled = played.sample(stream);
            if let Some((wear, settled)) = played.wear_of(&sampled, span) {
                wears.push(wear);
                converged &= settled;
            }
        }
        if wears.is_empty() {
            // No chunk that is written is in a sample: what is certain is only what random writes would do.
            let random = random.unwrap_or(1.0);
            return Self {
                mean: random,
                low: random.min(1.0),
                high: random,
                random: Some(random),
                factor,
                converged: false,
            };
        }
        let mean = wears.iter().sum::<f64>() / wears.len() as f64;
        let low = wears.iter().copied().fold(f64::INFINITY, f64::min);
        let high = wears.iter().copied().fold(0.0, f64::max);
        Self { mean, low, high, random, factor, converged }
    }
}

/// A drive that stands for a larger one.
struct Played<'a> {
    member: &'a Member,
    factor: u64,
    seed: u64,
    size: Sectors,
    used: SectorRange,
    physical_bytes: f64,
}

impl<'a> Played<'a> {
    /// Where the sample must be large, and most of the drive is never touched, a part of the untouched rest is left out: what it
    /// would add to the spare area is beyond what still matters.
    fn new(
        member: &'a Member,
        stream: &[(Nanoseconds, Command)],
        factor: u64,
        seed: u64,
    ) -> Result<Self, ProfileError> {
        let whole_chunks =
            |sectors: u64| if factor == 1 { sectors } else { sectors / factor / CHUNK_SECTORS * CHUNK_SECTORS };
        let touched = match member.precondition {
            Precondition::Clean => chunks_of(stream) * CHUNK_SECTORS,
            _ => member.used.len.0,
        };
        let enough = (PLAYED_MAX / SECTOR_BYTES).max(2 * touched / factor);
        let size = Sectors(whole_chunks(member.size.0).clamp(CHUNK_SECTORS, enough));
        let used = SectorRange::new(whole_chunks(member.used.start.0), whole_chunks(member.used.len.0).min(size.0));
        let played = Self { member, factor, seed, size, used, physical_bytes: 0.0 };
        // Whether it can be built is known only by building it.
        played.build(member.precondition)?;
        let Body::Flash(flash) = &member.profile.body else { return Ok(played) };
        let geometry = flash.geometry(member.profile.capacity, Some(size)).ok();
        Ok(Self { physical_bytes: geometry.map_or(0.0, |geometry| geometry.physical_bytes().0 as f64), ..played })
    }

    fn build(&self, precondition: Precondition) -> Result<Box<dyn DeviceModel>, ProfileError> {
        self.member.profile.build_preconditioned(Some(self.size), precondition, self.used, self.seed)
    }

    /// What of `stream` falls on the chunks that stand for all: one of each `factor` neighbours, chosen by a hash. Of the
    /// flushes as large a part is kept.
    fn sample(&self, stream: &[(Nanoseconds, Command)]) -> Stream {
        if self.factor == 1 && self.size == self.member.size {
            return stream.to_vec();
        }
        // What lies behind the part that is played (metadata at a drive's end) goes to its beginning.
        let chunks = self.size.0 / CHUNK_SECTORS;
        let mut sampled = Stream::new();
        let mut flushes = 0;
        for &(at, command) in stream {
            if command.kind == OpKind::Flush {
                flushes += 1;
                if flushes % self.factor == 0 {
                    sampled.push((at, command));
                }
                continue;
            }
            let (mut sector, end) = (command.range.start.0, command.range.end().0);
            while sector < end {
                let chunk = sector / CHUNK_SECTORS;
                let stop = end.min((chunk + 1) * CHUNK_SECTORS);
                let group = chunk / self.factor;
                let place = group % chunks * CHUNK_SECTORS + sector % CHUNK_SECTORS;
                if chunk % self.factor == hash(group, self.seed) % self.factor {
                    let range = SectorRange::new(place, stop - sector);
                    sampled.push((at, Command { range, ..command }));
                }
                sector = stop;
            }
        }
        sampled
    }

    /// Bytes erased for each byte written once that no longer changes, and whether it stopped changing; `None` where
    /// nothing is written.
    fn wear_of(&self, stream: &[(Nanoseconds, Command)], span: Nanoseconds) -> Option<(f64, bool)> {
        if !stream.iter().any(|(_, command)| stores(command)) {
            return None;
        }
        let mut drive = Driven::new(self.build(self.member.precondition).ok()?);
        let span = span.max(stream.last().map_or(Nanoseconds(1), |(at, _)| *at + Nanoseconds(1)));
        let window = (self.physical_bytes / 4.0) as u64;
        // Until the free part of the drive is full for the first time, hardly anything is erased.
        let fill = self.physical_bytes as u64;
        let (mut before, mut last, mut began) = (None, None, Nanoseconds::ZERO);
        while drive.operations < OPERATIONS_MAX {
            for &(at, command) in stream {
                drive.submit(began + at, command);
            }
            began += span;
            if drive.written < fill {
                continue;
            }
            let (erased, written) = *before.get_or_insert_with(|| drive.erased_and_written());
            if drive.written - written < window {
                continue;
            }
            let now = drive.erased_and_written();
            let wear = (now.0 - erased) * self.physical_bytes / (now.1 - written) as f64;
            let previous = last.replace(wear);
            before = Some(now);
            if let Some(previous) = previous.filter(|previous: &f64| (previous - wear).abs() <= CONVERGED * wear) {
                return Some(((previous + wear) / 2.0, true));
            }
        }
        // Not even filled: what was erased until now for what was written.
        let (erased, written) = drive.erased_and_written();
        Some((last.unwrap_or(erased * self.physical_bytes / written.max(1) as f64), false))
    }

    /// The same for writes of single mapping units all over the used part, from the steady state of such writes on.
    fn wear_of_random_writes(&self) -> Option<f64> {
        let Body::Flash(flash) = &self.member.profile.body else { return None };
        let unit = (flash.mapping_unit.0.0.min(flash.page_size.0.0) / SECTOR_BYTES).max(1);
        let units = self.used.len.0 / unit;
        if units == 0 {
            return None;
        }
        let mut drive = Driven::new(self.build(Precondition::Random).ok()?);
        let writes = (self.physical_bytes / 2.0) as u64 / (unit * SECTOR_BYTES);
        for number in 0..writes {
            let place = self.used.start.0 + hash(number, self.seed) % units * unit;
            let command = Command { kind: OpKind::Write, range: SectorRange::new(place, unit), fua: false };
            drive.submit(Nanoseconds(number * RANDOM_GAP.0), command);
        }
        let (erased, written) = drive.erased_and_written();
        Some(erased * self.physical_bytes / written.max(1) as f64)
    }
}

/// A drive under a stream of operations.
struct Driven {
    model: Box<dyn DeviceModel>,
    now: Nanoseconds,
    operations: u64,
    written: u64,
    finished: Vec<Finished>,
}

impl Driven {
    fn new(model: Box<dyn DeviceModel>) -> Self {
        Self { model, now: Nanoseconds::ZERO, operations: 0, written: 0, finished: Vec::new() }
    }

    fn submit(&mut self, at: Nanoseconds, command: Command) {
        self.now = self.now.max(at);
        self.model.advance(self.now, &mut self.finished);
        self.finished.clear();
        self.operations += 1;
        if stores(&command) {
            self.written += command.range.len.bytes().0;
        }
        self.model.submit(self.now, Token(self.operations), command);
    }

    /// Erases of a block on average, and bytes written.
    fn erased_and_written(&self) -> (f64, u64) {
        let flash = self.model.statistics(self.now).flash.unwrap_or_default();
        (flash.erase_count.mean, self.written)
    }
}

/// The finaliser of SplitMix64: neighbours have nothing in common.
fn hash(value: u64, seed: u64) -> u64 {
    let mixed = value.wrapping_add(seed.wrapping_mul(0xD1B5_4A32_D192_ED03)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A drive of `size` under a stream, for whoever has one without a volume.
///
/// # Errors
/// The profile cannot have that size.
pub fn wear_of_stream(
    profile: &Profile,
    size: Bytes,
    stream: &[(Nanoseconds, Command)],
    span: Nanoseconds,
    scaled_down: u64,
) -> Result<Option<f64>, ProfileError> {
    let size = size.sectors();
    let member = Member {
        id: "ssd".to_owned(),
        profile: profile.clone(),
        size,
        used: SectorRange::new(0, size.0),
        precondition: Precondition::Sequential,
        stream: Arc::default(),
    };
    Played::new(&member, stream, scaled_down, 0)?;
    let wear = Wear::of(&member, stream, span, scaled_down, 0);
    Ok((wear.mean > 0.0).then_some(wear.mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_trace::synthetic::{Generator, Skew, WorkloadSpec};

    /// Writes with a skew, more than the drive holds, and the erases of the whole drive against those of one a fourth as large.
    fn both(profile: &str, size: Bytes, skew: Skew) -> (f64, f64) {
        let requests = size.0 * 2 / 4096;
        let spec = WorkloadSpec { read_fraction: 0.0, skew, ..WorkloadSpec::new(requests, size) };
        let generator = Generator::new(&[spec], 1).unwrap();
        let stream: Stream = generator
            .map(|request| (request.arrival, Command { kind: request.kind, range: request.range, fua: false }))
            .collect();
        let span = stream.last().unwrap().0 + Nanoseconds(1);
        let profile = Profile::load(profile).unwrap();
        let wear = |factor| wear_of_stream(&profile, size, &stream, span, factor).unwrap().unwrap();
        (wear(1), wear(4))
    }

    #[test]
    fn a_drive_made_smaller_wears_as_the_whole_one_within_five_percent() {
        let (whole, smaller) = both("intel-x25-e-32gb", Bytes(256 << 20), Skew::Uniform);
        assert!((whole / smaller - 1.0).abs() < 0.05, "{whole} and {smaller} bytes erased for a byte written");
        assert!(whole > 1.0, "{whole}");
    }
}
