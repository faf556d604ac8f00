//! How long the flash of an option lasts at steady state.
//!
//! A short trace never fills a large drive, so what a run wears says little. Here the workload goes round and round: the
//! volume sees it twice, and what each flash member is given in the second round (caches are warm then) is taken down (`record`). That
//! stream is played again and again, until the erases for each byte written no longer change (`wear`), to the drive or, where
//! it is large, to a smaller one that wears the same (`small`). How many bytes the host writes is that of the whole stream.

mod chunks;
mod record;
mod small;
mod wear;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bimetal_core::operation::Command;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES};
use bimetal_models::flash::FlashProfile;
use bimetal_models::flash::geometry::Geometry;
use bimetal_models::profile::{Body, Profile};
use bimetal_sim::limits::Limits;
use bimetal_sim::setup::{Choices, Setup};
use bimetal_sim::simulator::{Play, Replay, SimulationError, simulate_within};
use bimetal_trace::Request;
use serde::Serialize;

use crate::budget::years_of_wear;
use crate::evaluate::Evaluator;
use crate::grid::Candidate;
use record::{Member, record_members, stores};
use wear::Wear;

/// A drive with more flash than this is played by a smaller one, of about this size.
const PLAYED_BYTES: u64 = 256 << 20;

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
    pub scaled_down: f64,
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

    /// Widens the range by a life that a part of the trace says.
    pub(crate) fn may_be(&mut self, years: Option<f64>) {
        if let (Some((least, most)), Some(years)) = (&mut self.range_years, years) {
            (*least, *most) = (least.min(years), most.max(years));
        }
    }
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
    let timed = matches!(evaluator.replay, Replay::Timed { .. });
    let members = record_members(&mut setup, choices, &on, timed);
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
    Ok(members.iter().map(|member| life_of(member, span, evaluator.known_wear, choices.seed)).collect())
}

/// From one round to the next: the span of the requests, and a mean gap.
fn period_of(requests: &[Request]) -> Nanoseconds {
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else { return Nanoseconds::ZERO };
    let span = last.arrival.saturating_sub(first.arrival).0;
    Nanoseconds((span + span / requests.len() as u64).max(1_000_000))
}

/// The wear of random writes of drives that were asked about: the same for every scheme under which a drive is used alike.
#[derive(Default)]
pub struct KnownWear(Mutex<HashMap<(String, u64, u64), Option<f64>>>);

impl KnownWear {
    fn of_random_writes(&self, member: &Member, flash: (&FlashProfile, &Geometry), seed: u64) -> Option<f64> {
        let key = (member.profile.name.clone(), member.size.0, member.used.len.0);
        if let Some(known) = self.0.lock().expect("nobody panics while it is held").get(&key) {
            return *known;
        }
        let found = wear::of_random_writes(member, flash, PLAYED_BYTES, seed);
        self.0.lock().expect("nobody panics while it is held").insert(key, found);
        found
    }
}

/// The life of a member that was given its stream in `span`.
fn life_of(member: &Member, span: Nanoseconds, known: &KnownWear, seed: u64) -> Life {
    let stream = member.take_stream();
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
        scaled_down: 1.0,
        converged: true,
        trace_too_short: false,
    };
    let Body::Flash(flash) = &member.profile.body else { return life };
    let Ok(geometry) = flash.geometry(member.profile.capacity, Some(member.size)) else { return life };
    if written == 0 {
        return life;
    }
    let drive = (&**flash, &geometry);
    let physical = geometry.physical_bytes().0 as f64;
    life.trace_too_short = (written as f64) < physical;
    let Some(wear) = Wear::of(member, drive, &stream, span, PLAYED_BYTES, seed) else { return life };
    let years_with = |erased_per_written: f64| {
        years_of_wear(physical * f64::from(flash.rated_cycles), erased_per_written * life.written_bytes_per_s)
    };
    (life.scaled_down, life.converged) = (wear.factor, wear.converged);
    life.unlimited = wear.mean == 0.0;
    if !life.unlimited {
        life.erased_per_written = Some(wear.mean);
        life.years = Some(years_with(wear.mean));
        let random = life.trace_too_short.then(|| known.of_random_writes(member, drive, seed)).flatten();
        life.range_years = Some((years_with(wear.high.max(random.unwrap_or(0.0))), years_with(wear.low)));
    }
    life
}

/// Bytes erased for each byte written by a drive of `size`, full at first, under a stream of `span` round and round; played by a
/// drive of about `played` if it is larger. `None` where nothing is written or the profile cannot have that size.
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

    /// Writes with a skew, more than the drive holds.
    fn stream_of(size: Bytes, skew: &str, sequential: f64) -> Vec<(Nanoseconds, Command)> {
        let requests = size.0 * 2 / 4096;
        let skew = skew.parse::<Skew>().unwrap();
        let spec = WorkloadSpec { read_fraction: 0.0, skew, sequential, ..WorkloadSpec::new(requests, size) };
        let generator = Generator::new(&[spec], 1).unwrap();
        generator
            .map(|request| (request.arrival, Command { kind: request.kind, range: request.range, fua: false }))
            .collect()
    }

    /// The wear of a whole drive, and what one of a few parts in a hundred of it says it is.
    fn check(profile: &str, size: Bytes, skew: &str, sequential: f64) {
        let stream = stream_of(size, skew, sequential);
        let span = stream.last().unwrap().0 + Nanoseconds(1);
        let drive = Profile::load(profile).unwrap();
        let wear = |played| wear_of_stream(&drive, size, &stream, span, played).unwrap();
        let (whole, smaller) = (wear(Bytes(u64::MAX)), wear(Bytes(size.0 / 12)));
        assert!((smaller / whole - 1.0).abs() < 0.05, "{profile}, {skew}: {whole}, made smaller {smaller}");
        assert!(whole >= 0.99, "{whole}");
    }

    #[test]
    fn three_small_drives_wear_as_those_that_stand_for_them_within_five_percent() {
        check("intel-x25-e-32gb", Bytes::from_mib(768), "hot:0.2,0.8", 0.0);
        check("intel-x25-m-80gb", Bytes::from_mib(768), "uniform", 0.0);
        check("samsung-970-evo-plus-500gb", Bytes::from_mib(1536), "zipf:0.9", 0.3);
    }

    /// Lives of log and SSD in years under `griffin`, and its write savings: 16 MiB are written from end to end again and again, and every
    /// second time they are moved to the SSD.
    fn griffin_with_a_log_of(log: Bytes) -> (f64, f64, f64) {
        let write = |number: u64| Request {
            arrival: Nanoseconds::from_millis(10 * number),
            device: 0,
            kind: bimetal_core::operation::OpKind::Write,
            fua: false,
            range: SectorRange::new(number % 256 * 128, 128),
            response: None,
        };
        let requests: Vec<Request> = (0..256 * 40).map(write).collect();
        let set = [("ssd.spare_factor", "0.07"), ("log.spare_factor", "0.07"), ("griffin.timeout", "5120ms")];
        let settings = set.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let common = Choices { settings, ..Choices::default() };
        let survey = Survey::of(&requests, common.block, &|_| {}).unwrap();
        let load = Load::new(requests, survey, 0.0);
        let drive = |model: &str, size: Bytes| Offer {
            model: model.to_owned(),
            kind: Kind::Ssd,
            size,
            usd: 1.0,
            date: String::new(),
            source: String::new(),
            cell: None,
        };
        let candidate = Candidate {
            index: 0,
            variant: 0,
            scheme: bimetal_core::schemes::find("griffin").unwrap(),
            drives: vec![
                (Role::Ssd, drive("intel-x25-m-80gb", Bytes::from_mib(400))),
                (Role::Log, drive("intel-x25-e-32gb", log)),
            ],
            settings: Vec::new(),
            cost_usd: 2.0,
        };
        let (replay, known_wear) = (Replay::Timed { speedup: 1.0 }, KnownWear::default());
        let evaluator = Evaluator { load: &load, common: &common, replay, known_wear: &known_wear };
        let lives = lives(&evaluator, &candidate, &candidate.choices(&common)).unwrap();
        let Outcome::Done(figures) = evaluator.run(&candidate, Limits::default()).unwrap() else { panic!("it runs") };
        let years = |member: &str| lives.iter().find(|life| life.member == member).unwrap().years.unwrap();
        (years("log"), years("ssd"), figures.at("write_savings").unwrap())
    }

    /// Griffin, section 7: with ten times the cycles, and twice the writes at savings of a half, an SLC log must be a fifth of the
    /// MLC to last as long.
    #[test]
    fn an_slc_log_must_be_a_fifth_of_the_mlc_at_savings_of_a_half() {
        let (log, ssd, savings) = griffin_with_a_log_of(Bytes::from_mib(80));
        assert!((savings - 0.5).abs() < 0.05, "{savings}");
        assert!((log / ssd - 1.0).abs() < 0.1, "log {log}, SSD {ssd} years");
        let (log, ssd, _) = griffin_with_a_log_of(Bytes::from_mib(60));
        assert!((log / ssd - 0.75).abs() < 0.075, "log {log}, SSD {ssd} years");
    }
}
