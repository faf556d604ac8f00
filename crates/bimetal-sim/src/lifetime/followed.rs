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
//! The second half of all rounds is followed. The last half of the followed rounds counts; its wear
//! is steady if the quarter before wears equally. Nothing ends the rounds earlier, because two
//! rounds in a row agree by chance soon after the training phase. A drive too large to wear in
//! these rounds is played as for any scheme; the range of its lifetime then covers the writes that
//! regulation would keep from it.

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_models::DeviceStatistics;
use bimetal_models::endurance::Endurance;

use super::{Life, Recording, Repeated, SPAN_MAX, flash_drives};
use crate::setup::Setup;

/// Relative difference between two windows of rounds below which the wear is steady.
const STEADY: f64 = 0.03;

/// Smallest number of erases of each block, on the average, within a window that counts.
const ERASES_MIN: f64 = 0.5;

/// Limits for all rounds together: number of requests, and of rounds. A long workload has two
/// rounds all the same, so that there is a round to compare with.
const REQUESTS_MAX: u64 = 1_000_000;
const ROUNDS_MIN: u64 = 2;
const ROUNDS_MAX: u64 = 64;

/// Counts of a drive when a round begins, or when the last round has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mark {
    /// Mean number of erases of a block.
    erases: f64,
    written_bytes: u64,
}

impl Mark {
    pub(super) fn of(statistics: &DeviceStatistics) -> Self {
        let erases = statistics.flash.as_ref().map_or(0.0, |flash| flash.erase_count.mean);
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

/// Wear in steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Followed {
    /// The last half of the rounds, and the quarter before.
    pub(super) windows: [Window; 2],
    /// Set if both windows agree.
    pub(super) is_steady: bool,
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
        let rounds = self.0.len().checked_sub(1).filter(|&rounds| rounds as u64 >= ROUNDS_MIN)?;
        let half = rounds / 2;
        let (middle, quarter) = (rounds - half, (half / 2).max(1));
        let (last, before) = (self.window(middle, rounds), self.window(middle - quarter, middle));
        if last.erases * (half as f64) < ERASES_MIN {
            return None;
        }
        let agree = |last: f64, before: f64| (last - before).abs() <= STEADY * last;
        let is_steady = agree(last.erases, before.erases) && before.erases * quarter as f64 >= ERASES_MIN;
        Some(Followed { windows: [last, before], is_steady })
    }
}

/// Returns true if `rounds` rounds, of `written_bytes` each, write the `flash_bytes` of a drive.
fn can_fill(rounds: u64, written_bytes: f64, flash_bytes: u64) -> bool {
    written_bytes * rounds as f64 >= flash_bytes as f64
}

/// Returns the largest number of rounds of `requests` each, within `longest` in all.
pub(super) fn rounds_max(requests: u64, period: Nanoseconds, longest: Nanoseconds) -> u64 {
    let most = (REQUESTS_MAX / requests.max(1)).clamp(ROUNDS_MIN, ROUNDS_MAX);
    most.min(longest.0 / period.0.max(1)).max(1)
}

/// Returns the number of rounds from which a scheme that watches its drives learns: half of all
/// rounds. `None` if the scheme watches no drive, or if all rounds cannot fill a drive.
pub(super) fn training_rounds(setup: &Setup, load: &Repeated<'_>, played_in: Nanoseconds) -> Option<u64> {
    let most = rounds_max(load.requests, played_in, SPAN_MAX);
    let fills = flash_drives(setup).any(|drive| can_fill(most, load.bytes.0 as f64, drive.size.0));
    (setup.volume().watches_drives() && fills).then_some((most / 2).max(1))
}

/// Further rounds for drives on which the scheme's decisions depend ([`followed`]).
impl Recording<'_> {
    /// Returns the number of rounds from the first recorded round on, if all are played.
    pub(super) fn followed_max(&self) -> u64 {
        let follows = self.members.iter().any(|member| member.marks.is_some());
        let most = rounds_max(self.load.requests, self.played_in, SPAN_MAX).saturating_sub(self.warm);
        if follows { most.max(ROUNDS_MIN).max(self.recorded) } else { self.recorded }
    }

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
        let [last, before] = &followed.windows;
        self.note_load(last.written_bytes / seconds, size);
        self.erased_per_written = Some(last.erases * flash.0 as f64 / last.written_bytes);
        self.note(of(last));
        let years = [last, before].map(|window| of(window).years().unwrap_or(f64::INFINITY));
        self.range_years = Some((years[0].min(years[1]), years[0].max(years[1])));
        self.converged = followed.is_steady;
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;
    use bimetal_trace::Request;

    use super::super::KnownWear;
    use super::super::chunks;
    use super::*;
    use crate::experiment::{Experiment, NoProgress};
    use crate::results::FlashFigures;
    use crate::setup::{Choices, DriveChoice, Size};
    use crate::simulator::Replay;
    use crate::survey::Survey;
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

    fn marks(erases: &[f64]) -> Marks {
        let mut total = 0.0;
        let all = erases.iter().map(|more| {
            total += more;
            Mark { erases: total, written_bytes: (total * 1e6) as u64 }
        });
        Marks(std::iter::once(Mark::default()).chain(all).collect())
    }

    #[test]
    fn wear_is_steady_once_half_and_quarter_agree() {
        assert_eq!(marks(&[1.0]).wear(), None, "nothing to compare with");
        assert!(!marks(&[1.0, 2.0]).wear().unwrap().is_steady);
        let steady = marks(&[1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]).wear().unwrap();
        assert_eq!((steady.is_steady, steady.windows[0].erases), (true, 4.0));
        assert!(!marks(&[4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.0, 4.0]).wear().unwrap().is_steady);
        assert_eq!(marks(&[0.1, 0.1]).wear(), None, "too few erases");
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
            let recording = Recording::begin(&mut setup, &choices, load, 1.0);
            (recording.warm, recording.followed_max(), recording.gap)
        };
        assert_eq!(begun(Bytes::from_mib(16)), (16, 17, Nanoseconds::ZERO), "33 rounds are a million requests");
        assert_eq!(begun(Bytes::from_gib(64)).0, 1, "all rounds do not fill the drive");
    }
}
