//! Queue: number of commands that the drive takes, and the order in which it serves them, by the
//! best fit among the models.

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;
use bimetal_models::profile::Profile;

use crate::figures::Extraction;
use crate::prober::{Prober, Timed};
use crate::target::ModelTarget;
use crate::{ExtractError, Options};

/// Number of commands at each depth.
const COMMANDS: usize = 192;
/// Numbers of commands at a time.
const DEPTHS: [usize; 4] = [1, 4, 32, 128];

/// Best fit.
pub(super) struct Fit {
    pub(super) scheduler: &'static str,
    pub(super) depth: usize,
    /// Mean error of the ends of commands, as a fraction of the time that all commands took.
    pub(super) off: f64,
}

/// Submits batches of random reads to the drive, and to the extracted model under each scheduler
/// and queue.
pub(super) fn measure(prober: &mut Prober<'_>, extraction: &Extraction) -> Result<Fit, ExtractError> {
    let grain = prober.grain;
    let commands: Vec<_> = (0..COMMANDS).map(|_| (OpKind::Read, prober.anywhere(grain), grain)).collect();
    let mut measured = Vec::new();
    for (at, depth) in DEPTHS.into_iter().enumerate() {
        measured.push(ends(&prober.batch(&commands, depth)?));
        prober.done((at + 1) as f64 / DEPTHS.len() as f64);
    }
    let profile = crate::read_back(extraction)?;
    let mut best: Option<Fit> = None;
    // A drive that serves commands in order of arrival finishes them in this order, too.
    let in_order = measured.iter().all(|ends: &Vec<f64>| ends.is_sorted());
    let schedulers: &[&'static str] = if in_order { &["fcfs"] } else { &["sstf", "clook", "sptf"] };
    for scheduler in schedulers {
        for depth in [1, 2, 4, 8, 16, 32, 64, 128] {
            let off = off(&profile, scheduler, depth, &commands, &measured)?;
            // Of two equal fits, the simpler wins. For service in order the queue makes little
            // difference, so that chance decides.
            let better = if in_order { 0.8 } else { 0.99 };
            if best.as_ref().is_none_or(|best| off < best.off * better) {
                best = Some(Fit { scheduler, depth, off });
            }
        }
    }
    best.ok_or_else(|| ExtractError::Unlike { what: "no order of service fits".to_owned() })
}

/// Returns the end of each command, in nanoseconds since the first was submitted.
fn ends(times: &[Timed]) -> Vec<f64> {
    let first = times.iter().map(|timed| timed.from).min().unwrap_or(0);
    times.iter().map(|timed| (timed.to - first) as f64).collect()
}

/// Returns the mean error of the ends of commands on the model, as a fraction of the time of their
/// batch.
fn off(
    profile: &Profile,
    scheduler: &str,
    depth: usize,
    commands: &[(OpKind, u64, u64)],
    measured: &[Vec<f64>],
) -> Result<f64, ExtractError> {
    let mut profile = profile.clone();
    let depth = depth.to_string();
    profile.set_all([("scheduler", scheduler), ("queue_depth", &depth)]).map_err(crate::unreadable)?;
    let mut target = ModelTarget::new(profile.build(None, 0).map_err(crate::unreadable)?);
    let mut report = |_| {};
    let options = Options { writes: false, budget: Nanoseconds::MAX, seed: 0 };
    let mut prober = Prober::new(&mut target, &options, &mut report);
    let mut off = 0.0;
    for (depth, measured) in DEPTHS.into_iter().zip(measured) {
        let simulated = ends(&prober.batch(commands, depth)?);
        let length = measured.iter().copied().fold(1.0, f64::max);
        let apart: f64 = simulated.iter().zip(measured).map(|(one, other)| (one - other).abs()).sum();
        off += apart / length / measured.len() as f64 / DEPTHS.len() as f64;
    }
    Ok(off)
}
