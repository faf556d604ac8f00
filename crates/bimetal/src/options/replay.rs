//! Options for the replay of a trace: by its times, with a number of requests under way, or by the
//! think times of its host.

use bimetal_sim::simulator::Replay;

use crate::error::Error;
use crate::trace_workload::Header;

/// Reads a mode of replay.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn replay(text: &str) -> Result<Replay, String> {
    let depth = match text.split_once(':') {
        None if text == "timed" => return Ok(Replay::Timed { speedup: 1.0 }),
        None if text == "think" => return Ok(Replay::Think { speedup: 1.0 }),
        None if text == "closed" => Some(1),
        Some(("closed", depth)) => depth.parse().ok().filter(|&depth: &u32| depth > 0),
        _ => None,
    };
    depth
        .map(|depth| Replay::Closed { depth })
        .ok_or_else(|| "expected timed, closed, closed:DEPTH with a DEPTH from 1 on, or think".to_owned())
}

/// Reads a factor of speed.
///
/// # Errors
/// Returns a text that says what was expected.
pub(crate) fn speedup(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number above 0, like 2".to_owned()),
    }
}

/// Returns the replay that is asked for; by default timed if the trace has times, and otherwise
/// closed.
///
/// # Errors
/// The replay needs times and the trace has no times, or a speed is given for a closed replay.
pub(crate) fn choose_replay(wanted: Option<Replay>, speedup: f64, trace: &Header) -> Result<Replay, Error> {
    match wanted {
        Some(wanted @ (Replay::Timed { .. } | Replay::Think { .. })) if !trace.has_times => Err(Error::new(format!(
            "{}: {} has no times, so it cannot be replayed {}: use --replay closed",
            trace.name,
            trace.format,
            match wanted {
                Replay::Think { .. } => "with think times",
                _ => "timed",
            }
        ))),
        // The reader's notes report that there are no times, and its consequence.
        None if !trace.has_times => Ok(Replay::Closed { depth: 1 }),
        wanted => replay_with_times(wanted, speedup),
    }
}

/// Returns the replay that is asked for, of a workload with times.
///
/// # Errors
/// A speed is given for a closed replay.
pub(crate) fn replay_with_times(wanted: Option<Replay>, speedup: f64) -> Result<Replay, Error> {
    match wanted {
        Some(Replay::Closed { .. }) if speedup != 1.0 => Err(Error::new(
            "--speedup: a closed replay ignores the times of the trace: leave --speedup or --replay \
                            closed out",
        )),
        Some(Replay::Closed { depth }) => Ok(Replay::Closed { depth }),
        Some(Replay::Think { .. }) => Ok(Replay::Think { speedup }),
        Some(Replay::Timed { .. }) | None => Ok(Replay::Timed { speedup }),
    }
}
