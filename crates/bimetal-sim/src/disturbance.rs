//! Disturbances: facts about a run that nobody can know (places of data, phases, ticks of clocks),
//! drawn from a seed. The figures of a run depend on these facts by chance, and
//! [`uncertainty`](crate::uncertainty) computes by how much.
//!
//! - *Addresses.* All requests of a device move up by the same number of whole blocks, so that
//!   their alignment stays. The move is at most [`SHIFT_MAX`], at most a 64th of the addresses in
//!   use and of each drive that is home, and at most the free room of the drives. The move changes
//!   the places of track borders, of pages of flash, and of the border between concatenated drives.
//!   With a map of files or with hints, which name addresses, addresses do not move.
//! - *Phase.* The run starts up to [`START_MAX`] later. At that later time the platters have turned
//!   by a further random angle, and the timers of a scheme are at another point of their periods.
//! - *Pace.* All times are longer or shorter by up to a part of [`PACE_PART`]. So a timer of 900 s
//!   ends up to 0.9 s earlier or later in the trace, before or after a burst. With hints, which
//!   have times of their own, times stay.
//! - *Arrivals.* Each tick of the clock that recorded the trace is delayed by a random part of a
//!   tick. Requests of a tick stay together, and no request overtakes another. If a trace was
//!   recorded in whole seconds, its requests have other times within their seconds.
//!
//! A disturbed run issues the same requests in the same order as the undisturbed run. All schemes
//! of a comparison have the same disturbances.

use std::collections::BTreeMap;

use bimetal_core::block::BlockSize;
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};
use bimetal_trace::Request;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::setup::{Choices, Setup};
use crate::survey::Survey;
use crate::workload::Requests;
use crate::workload::spread::generator;

/// Largest move of addresses: a dozen tracks of a disk of today.
pub const SHIFT_MAX: Bytes = Bytes::from_mib(16);

/// Divisor of the addresses in use: addresses move by at most this part.
const SHIFT_PART: u64 = 64;

/// Largest delay of the start: a dozen turns of a platter.
pub const START_MAX: Nanoseconds = Nanoseconds::from_millis(100);

/// Divisor of the times: they are longer or shorter by at most this part.
pub const PACE_PART: i64 = 1000;

/// Smallest part by which times differ.
const PACE_STEPS: i64 = 1_000_000;

/// Sectors in a physical sector of 4 KiB, to which moves keep.
const PHYSICAL_SECTORS: u64 = 8;

/// Differences of a run from the undisturbed run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disturbance {
    /// Random number that determines the move of addresses.
    shift: u64,
    /// Delay of the start.
    start: Nanoseconds,
    /// Change of all times, in parts of [`PACE_STEPS`].
    pace: i64,
    /// Number of the drawing of the times that the recording does not tell.
    drawing: u64,
    /// Seed of the delays of ticks.
    jitter: u64,
}

impl Disturbance {
    /// Draws the disturbance of run `number` of an experiment with this seed.
    pub fn new(seed: u64, number: u32) -> Self {
        let mut random = generator(seed, number.into());
        let start = Nanoseconds(random.next_u64() % START_MAX.0);
        let (shift, jitter) = (random.next_u64(), random.next_u64());
        let most = PACE_STEPS / PACE_PART;
        let pace = (random.next_u64() % (2 * most as u64 + 1)) as i64 - most;
        Self { shift, start, pace, drawing: jitter, jitter }
    }

    /// Returns the delay of the start.
    pub fn start(&self) -> Nanoseconds {
        self.start
    }

    /// Returns this disturbance for a run with these choices. Hints have times of their own, so
    /// requests beside hints keep their pace, and their times within a second.
    pub(crate) fn with(self, choices: &Choices) -> Self {
        if choices.hints.is_empty() { self } else { Self { pace: 0, drawing: 0, ..self } }
    }

    /// Returns the number of the drawing of the times that the recording does not tell.
    pub fn drawing(&self) -> u64 {
        self.drawing
    }

    /// Returns the move of each device's addresses in a run of `setup`.
    pub(crate) fn shifts(&self, setup: &Setup, choices: &Choices, survey: &Survey) -> BTreeMap<u32, Sectors> {
        if !choices.files.is_empty() || !choices.hints.is_empty() {
            return BTreeMap::new();
        }
        let ends = match choices.compact {
            true => survey.compacted.address_end(choices.block),
            false => survey.address_end.clone(),
        };
        let sizes: Vec<Sectors> = setup.tree.units().collect();
        // A larger move would leave nothing of what a small drive among several is home of.
        let homes = setup.volume().view().layout.home.iter().map(|home| home.blocks.count * choices.block.sectors());
        let smallest = homes.min().unwrap_or(u64::MAX);
        let of_device = |(device, end): (u32, Sectors)| {
            let size = sizes.get(usize::from(*setup.units.get(&device)?))?;
            Some((device, self.shift_within(end, *size, smallest, choices.block)))
        };
        ends.into_iter().filter_map(of_device).collect()
    }

    /// Returns the move of addresses up to `end` on a unit of `size`; the smallest drive that is
    /// home is home of `home` sectors.
    fn shift_within(&self, end: Sectors, size: Sectors, home: u64, block: BlockSize) -> Sectors {
        let step = block.sectors().max(PHYSICAL_SECTORS);
        let room = size.0.saturating_sub(end.0.next_multiple_of(step));
        let most = SHIFT_MAX.sectors().0.min(end.0.min(home) / SHIFT_PART).min(room) / step;
        Sectors(self.shift % (most + 1) * step)
    }

    /// Returns a time at this disturbance's pace. The order of times stays.
    fn paced(&self, time: Nanoseconds) -> Nanoseconds {
        let paced = i128::from(time.0) * i128::from(PACE_STEPS + self.pace) / i128::from(PACE_STEPS);
        Nanoseconds(u64::try_from(paced).unwrap_or(u64::MAX))
    }

    /// Returns `requests` with this disturbance; `clock` is the tick of the trace's clock.
    pub fn disturb<'a>(
        &self,
        requests: Requests<'a>,
        shifts: BTreeMap<u32, Sectors>,
        clock: Nanoseconds,
    ) -> Requests<'a> {
        let mut random = Pcg64Mcg::new(u128::from(self.jitter) << 1 | 1);
        let (mut tick, mut later) = (None, Nanoseconds::ZERO);
        let disturbance = *self;
        let mut disturbed = move |mut request: Request| {
            if tick != Some(request.arrival) {
                tick = Some(request.arrival);
                later = Nanoseconds(random.next_u64() % clock.0.max(1));
            }
            request.arrival = disturbance.paced(request.arrival.saturating_add(later));
            if let Some(shift) = shifts.get(&request.device).filter(|_| !request.range.is_empty()) {
                request.range.start += *shift;
            }
            request
        };
        Box::new(requests.map(move |request| request.map(&mut disturbed)))
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::schemes;
    use bimetal_core::units::SectorRange;
    use proptest::prelude::*;

    use super::*;
    use crate::workload::Workload;

    fn request((arrival, device, start, len): (u64, u32, u64, u64)) -> Request {
        let kind = [OpKind::Read, OpKind::Write, OpKind::Flush][(start % 3) as usize];
        let range = if kind == OpKind::Flush { SectorRange::new(0, 0) } else { SectorRange::new(start, len) };
        Request { arrival: Nanoseconds(arrival), device, kind, fua: false, range, response: None }
    }

    /// Returns the requests of a disturbed run over the drives of `scheme`.
    fn disturbed(workload: &Vec<Request>, number: u32, scheme: &str) -> (Survey, Vec<Request>) {
        let choices = Choices::default();
        let survey = Survey::of(workload, choices.block, &|_| {}).unwrap();
        let setup = Setup::new(schemes::find(scheme).unwrap(), &choices, &survey).unwrap();
        let disturbance = Disturbance::new(7, number);
        let shifts = disturbance.shifts(&setup, &choices, &survey);
        let sizes: Vec<Sectors> = setup.tree.units().collect();
        for (device, shift) in &shifts {
            let size = sizes[usize::from(setup.units[device])];
            assert!(survey.address_end[device] + *shift <= size, "the addresses stay on the drive");
        }
        let requests = disturbance.disturb(workload.open().unwrap(), shifts, survey.clock());
        (survey, requests.map(Result::unwrap).collect())
    }

    proptest! {
        /// The requests are the same and in the same order. The times of the two runs differ by
        /// less than a tick and a thousandth, and no request overtakes another. Addresses of a
        /// device all move by the same number of whole blocks.
        #[test]
        fn disturbed_run_has_the_same_requests_in_order(
            requests in prop::collection::vec((0u64..400, 0u32..3, 0u64..1 << 24, 1u64..64), 1..80),
            tick in prop::sample::select(vec![1u64, 100, 1_000_000, 15_625_000]),
            number in 1u32..6,
            scheme in prop::sample::select(vec!["hdd-only", "griffin", "combo"]),
        ) {
            let mut workload: Vec<Request> = requests.into_iter().map(request).collect();
            workload.iter_mut().for_each(|request| request.arrival.0 *= tick);
            workload.sort_by_key(|request| request.arrival);
            let (survey, disturbed) = disturbed(&workload, number, scheme);
            prop_assert_eq!(workload.len(), disturbed.len());
            prop_assert!(disturbed.is_sorted_by_key(|request| request.arrival));
            let mut shifts = BTreeMap::new();
            for (before, after) in workload.iter().zip(&disturbed) {
                prop_assert_eq!(
                    (before.device, before.kind, before.range.len), (after.device, after.kind, after.range.len)
                );
                let apart = after.arrival.0.abs_diff(before.arrival.0);
                prop_assert!(apart <= survey.clock().0.max(1) + after.arrival.0 / 999 + 1);
                let shift = after.range.start.0 - before.range.start.0;
                prop_assert!(shift % 8 == 0 && shift <= SHIFT_MAX.sectors().0);
                if !before.range.is_empty() {
                    prop_assert_eq!(*shifts.entry(before.device).or_insert(shift), shift);
                }
            }
        }
    }

    #[test]
    fn disturbances_differ_by_run_and_by_seed() {
        let drawn: Vec<Disturbance> =
            (1..5).flat_map(|number| [0, 1].map(|seed| Disturbance::new(seed, number))).collect();
        for (at, one) in drawn.iter().enumerate() {
            assert!(one.start < START_MAX);
            assert!(!drawn[..at].contains(one), "{one:?} twice");
        }
        assert_eq!(Disturbance::new(3, 2), Disturbance::new(3, 2));
    }

    /// Regression: ± of griffin was 0.11 ms, and a trace whose times were cut to whole seconds had
    /// another mean by 6 ms: a migration began before a burst in one run, and after it in the
    /// other.
    #[test]
    fn timer_ends_at_another_time_of_the_trace() {
        let timer = Nanoseconds::from_seconds(900);
        let ends: Vec<f64> = (1..200).map(|number| Disturbance::new(0, number).paced(timer).as_seconds_f64()).collect();
        let (first, last) =
            ends.iter().fold((f64::MAX, 0.0_f64), |(first, last), &end| (first.min(end), last.max(end)));
        assert!((899.1..899.2).contains(&first) && (900.8..=900.9).contains(&last), "{first} {last}");
    }

    /// Regression: addresses moved by more than the SSD of a concatenation holds, so that no
    /// address in use was left on the SSD.
    #[test]
    fn addresses_move_by_a_64th_of_those_in_use() {
        let moves = |end: u64, size: u64, home: u64| {
            let (end, size, block) = (Sectors(end), Sectors(size), BlockSize::default());
            let shift = |number| Disturbance::new(0, number).shift_within(end, size, home, block);
            (1..200).map(|number| shift(number).0).max().unwrap()
        };
        let whole = u64::MAX;
        assert!((15_000..=16_384).contains(&moves(1 << 20, 1 << 30, whole)), "{}", moves(1 << 20, 1 << 30, whole));
        assert!((30_000..=32_768).contains(&moves(1 << 30, 1 << 40, whole)), "{}", moves(1 << 30, 1 << 40, whole));
        assert!((200..=256).contains(&moves(1 << 30, 1 << 40, 1 << 14)), "{}", moves(1 << 30, 1 << 40, 1 << 14));
        assert_eq!(moves(1 << 20, (1 << 20) + 7, whole), 0, "no room");
        assert_eq!(moves(400, 1 << 30, whole), 0, "no address in use is worth a block");
    }
}
