//! Plays measured requests over a model.

use bimetal_core::operation::{Command, Token};
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_models::{DeviceModel, Finished};

use super::sample::Sample;

/// Times at which requests are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// One request at a time: each request is sent its think time after the simulated completion of
    /// the request before it.
    Closed,
    /// Requests are sent at the times of the trace, even if earlier requests are still under way.
    Timed,
}

/// Returns the simulated response time of each sample. A request that extends beyond the drive is
/// moved down to its end.
pub fn replay(model: &mut dyn DeviceModel, samples: &[Sample], pace: Pace) -> Vec<Nanoseconds> {
    match pace {
        Pace::Closed => closed(model, samples),
        Pace::Timed => timed(model, samples),
    }
}

fn command(model: &dyn DeviceModel, sample: &Sample) -> Command {
    let capacity = model.capacity().0;
    let len = sample.range.len.0.min(capacity);
    let start = sample.range.start.0.min(capacity - len);
    Command { kind: sample.kind, range: SectorRange::new(start, len), fua: false }
}

fn closed(model: &mut dyn DeviceModel, samples: &[Sample]) -> Vec<Nanoseconds> {
    let (mut now, mut finished) = (Nanoseconds::ZERO, Vec::new());
    let mut responses = Vec::with_capacity(samples.len());
    for (serial, sample) in samples.iter().enumerate() {
        model.advance(now, &mut finished);
        finished.clear();
        model.submit(now, Token(serial as u64), command(model, sample));
        while finished.is_empty() {
            let event = model.next_event().expect("a request is under way");
            model.advance(event, &mut finished);
        }
        let done = finished.drain(..).next().expect("one has finished").at;
        responses.push(done - now);
        now = done + sample.think;
    }
    responses
}

fn timed(model: &mut dyn DeviceModel, samples: &[Sample]) -> Vec<Nanoseconds> {
    let mut responses = vec![Nanoseconds::ZERO; samples.len()];
    let (mut finished, mut open) = (Vec::new(), 0_usize);
    let first = samples.first().map_or(Nanoseconds::ZERO, |sample| sample.arrival);
    let mut settle = |finished: &mut Vec<Finished>, open: &mut usize| {
        for done in finished.drain(..) {
            let serial = done.token.0 as usize;
            responses[serial] = done.at - samples[serial].arrival.saturating_sub(first);
            *open -= 1;
        }
    };
    for (serial, sample) in samples.iter().enumerate() {
        let now = sample.arrival.saturating_sub(first);
        while let Some(event) = model.next_event().filter(|event| *event <= now) {
            model.advance(event, &mut finished);
        }
        model.advance(now, &mut finished);
        settle(&mut finished, &mut open);
        model.submit(now, Token(serial as u64), command(model, sample));
        open += 1;
    }
    while open > 0 {
        let event = model.next_event().expect("requests are under way");
        model.advance(event, &mut finished);
        settle(&mut finished, &mut open);
    }
    responses
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_models::profile::{DEFAULT_HDD, Profile};

    use super::*;

    fn samples(gap_ms: u64) -> Vec<Sample> {
        (0..200_u64)
            .map(|serial| Sample {
                arrival: Nanoseconds::from_millis(serial * gap_ms + 77),
                kind: if serial % 3 == 0 { OpKind::Write } else { OpKind::Read },
                range: SectorRange::new(serial * 7_919_003 % 1_900_000_000, 8),
                measured: Nanoseconds::from_millis(10),
                think: Nanoseconds::from_millis(gap_ms),
            })
            .collect()
    }

    /// With long gaps between requests, no requests queue in either mode. With short gaps, requests
    /// queue in an open replay.
    #[test]
    fn requests_queue_with_short_gaps_only() {
        let drive = || {
            let mut profile = Profile::load(DEFAULT_HDD).unwrap();
            profile.set_all([("write_cache", "off")]).unwrap();
            profile.build(None, 0).unwrap()
        };
        let mean = |responses: Vec<Nanoseconds>| responses.iter().map(|r| r.as_millis_f64()).sum::<f64>() / 200.0;
        let closed = mean(replay(&mut *drive(), &samples(0), Pace::Closed));
        let timed = mean(replay(&mut *drive(), &samples(200), Pace::Timed));
        assert!((closed / timed - 1.0).abs() < 0.15, "{closed} against {timed}");
        assert!(mean(replay(&mut *drive(), &samples(1), Pace::Timed)) > 5.0 * closed);
    }

    #[test]
    fn a_request_behind_the_end_is_moved_to_it() {
        let mut profile = Profile::load(DEFAULT_HDD).unwrap();
        profile.set_all([("write_cache", "off")]).unwrap();
        let mut drive = profile.build(None, 0).unwrap();
        let mut far = samples(1);
        far[0].range = SectorRange::new(u64::MAX / 4, 8);
        assert_eq!(replay(&mut *drive, &far[..1], Pace::Closed).len(), 1);
    }
}
