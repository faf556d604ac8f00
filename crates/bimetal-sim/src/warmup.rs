//! Warm-up of a cache: the part of a run before its hits are steady, found from the run itself.
//!
//! A run is played once and cut into [`WINDOWS`] windows of equally many requests. Two curves show
//! when the cache is warm:
//!
//! - *Hits.* The share of the read blocks that the SSD served, window by window, is truncated where
//!   the standard error of its mean is least (MSER, White 1997). The requests before the truncation
//!   are the transient, and are left out. This rule has no parameter except the number of windows.
//! - *Allocation.* If the cache fills up at all, the run is not warm before `FULL` of its slots are
//!   in use. A cache that is larger than the footprint never fills, so only the rule for hits
//!   decides the warm-up.
//!
//! The later of the two points counts, but at most half of the requests. A longer warm-up cannot be
//! found from one trace; in this case the finding says that the run was not steady at the end of
//! the warm-up. Of several schemes the latest point counts, so that all schemes are measured over
//! the same requests.

use bimetal_core::layout::Role;

use crate::setup::Setup;

/// Number of windows of a run.
pub const WINDOWS: usize = 50;

/// Share of the slots from which on a cache counts as full.
const FULL: f64 = 0.95;

/// Reason for the length of a warm-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The cache was full only at this point.
    Filled,
    /// The hits were steady from this point on.
    SteadyHits,
    /// The hits were not steady by the middle of the trace.
    NeverSteady,
    /// The hits were steady from the first request on.
    Warm,
}

/// Warm-up of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WarmUp {
    /// Share of the requests.
    pub fraction: f64,
    /// Reason for this share.
    pub reason: Reason,
}

/// Counts of a run at the end of each window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    /// Numbers of blocks that were read and of blocks that SSDs served, since the beginning.
    reads: Vec<(u64, u64)>,
    /// Slots in use.
    in_use: Vec<u64>,
    /// Slots of the cache.
    slots: u64,
}

impl Curve {
    /// Notes the state of a run at the end of a window.
    pub(crate) fn note(&mut self, setup: &Setup) {
        let volume = setup.volume();
        let (view, statistics) = (volume.view(), volume.statistics());
        let is_fast = |at: usize| view.members.get(at).is_some_and(|member| member.role == Role::Ssd);
        let by_member = statistics.read_blocks_by_member.iter().enumerate();
        let hits = by_member.filter(|&(at, _)| is_fast(at)).map(|(_, blocks)| blocks).sum();
        self.reads.push((statistics.read_blocks, hits));
        self.in_use.push(view.map.slots_in_use());
        self.slots = u64::from(view.map.slots());
    }

    /// Returns the warm-up; see the [module](self).
    pub(crate) fn warm_up(&self) -> WarmUp {
        let full_at = (FULL * self.slots as f64) as u64;
        let filled = self.in_use.iter().position(|&in_use| self.slots > 0 && in_use >= full_at).map_or(0, |at| at + 1);
        let (steady, is_certain) = steady_from(&self.hit_ratios());
        // A cache that the trace fills at its very end is not what the hits depend on.
        let most = self.in_use.len() / 2;
        let at = steady.max(filled).min(most);
        let reason = match () {
            () if !is_certain || filled > most => Reason::NeverSteady,
            () if at == 0 => Reason::Warm,
            () if filled >= steady => Reason::Filled,
            () => Reason::SteadyHits,
        };
        WarmUp { fraction: at as f64 / self.in_use.len().max(1) as f64, reason }
    }

    /// Returns the hit ratio of each window; `None` in a window without reads.
    fn hit_ratios(&self) -> Vec<Option<f64>> {
        let mut before = (0, 0);
        let of_window = |&now: &(u64, u64)| {
            let (blocks, hits) = (now.0 - before.0, now.1 - before.1);
            before = now;
            (blocks > 0).then(|| hits as f64 / blocks as f64)
        };
        self.reads.iter().map(of_window).collect()
    }
}

/// Returns the window from which on the mean of `values` has the least standard error, in the first
/// half. Also returns false if the error still falls at the middle.
fn steady_from(values: &[Option<f64>]) -> (usize, bool) {
    let most = values.len() / 2;
    let error = |from: usize| {
        let rest: Vec<f64> = values[from..].iter().flatten().copied().collect();
        let mean = rest.iter().sum::<f64>() / rest.len().max(1) as f64;
        let squares: f64 = rest.iter().map(|value| (value - mean).powi(2)).sum();
        if rest.is_empty() { f64::INFINITY } else { squares / (rest.len() as f64).powi(2) }
    };
    let errors: Vec<f64> = (0..=most).map(error).collect();
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let at = errors.iter().position(|&error| error <= least).unwrap_or(0);
    (at, at < most || most == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a run with these hits among 100 read blocks of each window, and slots in use.
    fn curve(hits: impl Fn(usize) -> u64, in_use: impl Fn(usize) -> u64, slots: u64) -> Curve {
        let mut curve = Curve { slots, ..Curve::default() };
        let mut total = 0;
        for window in 0..WINDOWS {
            total += hits(window);
            curve.reads.push((100 * (window as u64 + 1), total));
            curve.in_use.push(in_use(window));
        }
        curve
    }

    #[test]
    fn warm_up_ends_where_the_hits_are_steady() {
        let ramp = |end: usize| move |window: usize| (80 * window.min(end) / end) as u64 + (window % 2) as u64;
        let found = curve(ramp(10), |_| 5, 1000).warm_up();
        assert_eq!(found.reason, Reason::SteadyHits);
        assert!((0.16..=0.22).contains(&found.fraction), "{found:?}");
        let warm = curve(|window| 50 + (window % 2) as u64, |_| 5, 1000).warm_up();
        assert_eq!(warm, WarmUp { fraction: 0.0, reason: Reason::Warm });
    }

    #[test]
    fn warm_up_lasts_until_a_cache_that_fills_is_full() {
        let found = curve(|_| 50, |window| 50 * (window as u64 + 1), 1000).warm_up();
        assert_eq!(found, WarmUp { fraction: 0.38, reason: Reason::Filled });
        let never = curve(|_| 50, |window| 5 * (window as u64 + 1), 1000).warm_up();
        assert_eq!(never.fraction, 0.0, "it never fills");
    }

    #[test]
    fn hits_that_rise_to_the_end_are_never_steady() {
        let found = curve(|window| window as u64, |_| 5, 1000).warm_up();
        assert_eq!(found, WarmUp { fraction: 0.5, reason: Reason::NeverSteady });
        assert_eq!(Curve::default().warm_up().fraction, 0.0);
    }
}
