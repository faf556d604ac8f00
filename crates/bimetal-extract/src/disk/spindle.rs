//! Spindle: its period, and the angle at which a sector passes.
//!
//! A read from the medium ends when its last sector has passed. So reads of one sector end whole
//! revolutions apart, and the time at which a read ends, modulo a revolution, is the sector's
//! angle. The sectors must not be in the drive's buffer. An answer from the buffer is recognised by
//! its response time, once the time of such an answer is known.

use crate::ExtractError;
use crate::prober::{Prober, Timed};
use crate::statistics::{median, quantile};

/// Range of speeds that are searched, in revolutions per second.
const SPEEDS: (f64, f64) = (25.0, 420.0);

/// Measured rotation of the spindle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spindle {
    /// Nanoseconds of a revolution.
    pub(super) period: f64,
    /// Standard error of the period.
    pub(super) error: f64,
    /// Distance of the ends of reads of one sector from whole revolutions, root mean square, in
    /// nanoseconds.
    pub(super) noise: f64,
    /// Response time below which a read was served from the buffer.
    pub(super) hit_ns: f64,
    /// Response time of a read of a granule from the buffer; 0 without a buffer.
    pub(super) buffered_ns: f64,
    /// Number of reads that determined the period.
    pub(super) reads: usize,
}

impl Spindle {
    /// Returns `ns` as an angle from 0 to below a revolution.
    pub(super) fn angle(&self, ns: f64) -> f64 {
        ns.rem_euclid(self.period)
    }

    /// Returns the shortest way between two angles, from minus to plus half a revolution.
    pub(super) fn apart(&self, ns: f64) -> f64 {
        let angle = self.angle(ns);
        if angle > self.period / 2.0 { angle - self.period } else { angle }
    }
}

/// Measures the period by reads of the same few sectors, repeatedly in turn.
pub(super) fn measure(prober: &mut Prober<'_>) -> Result<Spindle, ExtractError> {
    let buffered_ns = buffered_ns(prober)?;
    let hit_ns = if buffered_ns > 0.0 { 2.0 * buffered_ns + 1e5 } else { 0.0 };
    // There are more places than the buffer has segments, or the buffer would answer.
    let mut places = 40;
    loop {
        let ends = ends_of_places(prober, places, hit_ns)?;
        let gaps = gaps(&ends);
        if gaps.len() >= places {
            return period_of(&gaps).map(|spindle| Spindle { hit_ns, buffered_ns, ..spindle });
        }
        if places > 4000 || prober.is_late() {
            let what =
                "the same sectors, read in turn, come from the buffer, so the rotation cannot be seen".to_owned();
            return Err(ExtractError::Unlike { what });
        }
        places *= 4;
    }
}

/// Returns the response time of a sector that was just read; 0 if the sector takes as long as the
/// first read.
fn buffered_ns(prober: &mut Prober<'_>) -> Result<f64, ExtractError> {
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let lbn = prober.anywhere(prober.grain);
        first.push(prober.read(lbn, prober.grain)?.ns());
        again.push(prober.read(lbn, prober.grain)?.ns());
    }
    let (first, again) = (median(&mut first), median(&mut again));
    Ok(if again < 0.4 * first { again } else { 0.0 })
}

/// Returns the times at which reads of `places` sectors ended, round after round, without reads
/// from the buffer.
fn ends_of_places(prober: &mut Prober<'_>, places: usize, hit_ns: f64) -> Result<Vec<Vec<f64>>, ExtractError> {
    const ROUNDS: usize = 7;
    let lbns: Vec<u64> = (0..places).map(|_| prober.anywhere(prober.grain)).collect();
    let mut ends = vec![Vec::new(); places];
    let mut order: Vec<usize> = (0..places).collect();
    for round in 0..ROUNDS {
        // In a constant order, every round would take the same number of revolutions, and its parts
        // would look like one revolution.
        for at in 1..places {
            order.swap(at, prober.random(at as u64 + 1) as usize);
        }
        for &place in &order {
            let timed = prober.read(lbns[place], prober.grain)?;
            if timed.ns() > hit_ns {
                ends[place].push(timed.to as f64);
            }
        }
        prober.done((round + 1) as f64 / ROUNDS as f64);
    }
    Ok(ends)
}

/// Returns the times between all ends of reads of the same sector, from short to long.
fn gaps(ends: &[Vec<f64>]) -> Vec<f64> {
    let pairs = |ends: &Vec<f64>| -> Vec<f64> {
        ends.iter().enumerate().flat_map(|(at, from)| ends[at + 1..].iter().map(move |to| to - from)).collect()
    };
    let mut gaps: Vec<f64> = ends.iter().flat_map(pairs).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

/// Returns how well `gaps` are multiples of a period; 1 is perfect.
fn coherence(gaps: &[f64], period: f64) -> f64 {
    gaps.iter().map(|gap| (gap / period * std::f64::consts::TAU).cos()).sum::<f64>() / gaps.len().max(1) as f64
}

/// Returns the longest period of which all gaps are multiples.
fn period_of(gaps: &[f64]) -> Result<Spindle, ExtractError> {
    // The shortest gaps give a coarse but unambiguous period; longer gaps refine it.
    let short = &gaps[..gaps.len().div_ceil(8)];
    let longest_s = short[short.len() - 1] / 1e9;
    let step = 0.08 / longest_s;
    let steps = ((SPEEDS.1 - SPEEDS.0) / step) as usize;
    let speed = |at: usize| 1e9 / (SPEEDS.0 + at as f64 * step);
    let scores: Vec<f64> = (0..=steps).map(|at| coherence(short, speed(at))).collect();
    let best = scores.iter().copied().fold(0.0, f64::max);
    let Some(first) = scores.iter().position(|score| *score > 0.8 * best).filter(|_| best > 0.5) else {
        let what = format!("the ends of reads lie on no grid of revolutions (coherence {best:.2})");
        return Err(ExtractError::Unlike { what });
    };
    // Top of that peak, which may be wider than a step.
    let top = (first..scores.len().min(first + 8)).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(first);
    let mut period = climb(short, speed(top), longest_s * 1e9);
    for part in [4, 2, 1] {
        let longer = &gaps[..gaps.len().div_ceil(part)];
        period = through_zero(longer, period);
    }
    let off = |period: f64| -> Vec<f64> { gaps.iter().map(|gap| gap - (gap / period).round() * period).collect() };
    let mut squares: Vec<f64> = off(period).iter().map(|off| off * off).collect();
    // Both reads of a pair have noise. A few disturbed reads do not count.
    let noise = (quantile(&mut squares, 0.68) / 2.0).sqrt();
    let turns: f64 = gaps.iter().map(|gap| (gap / period).round().powi(2)).sum::<f64>().sqrt();
    let error = (noise * 1.5).max(0.5) / turns * 2.0;
    Ok(Spindle { period, error, noise, hit_ns: 0.0, buffered_ns: 0.0, reads: gaps.len() })
}

/// Returns the period with the best coherence near `period`.
fn climb(gaps: &[f64], period: f64, longest: f64) -> f64 {
    let mut step = period * period / longest / 8.0;
    let mut best = period;
    for _ in 0..40 {
        let near = [best - step, best, best + step];
        best = near.into_iter().max_by(|a, b| coherence(gaps, *a).total_cmp(&coherence(gaps, *b))).unwrap_or(best);
        step *= 0.7;
    }
    best
}

/// Returns the least squares fit through zero: gap = turns × period.
fn through_zero(gaps: &[f64], period: f64) -> f64 {
    let (mut up, mut down) = (0.0, 0.0);
    for gap in gaps {
        let turns = (gap / period).round();
        if (gap / period - turns).abs() < 0.1 {
            up += gap * turns;
            down += turns * turns;
        }
    }
    if down > 0.0 { up / down } else { period }
}

/// Prober of a drive whose spindle is measured.
pub(super) struct Turning<'p, 'a> {
    pub(super) prober: &'p mut Prober<'a>,
    pub(super) spindle: Spindle,
    /// Number of reads at other places that were needed, the last time, to make the buffer drop a
    /// sector.
    evict: usize,
}

impl<'p, 'a> Turning<'p, 'a> {
    pub(super) fn new(prober: &'p mut Prober<'a>, spindle: Spindle) -> Self {
        Self { prober, spindle, evict: 8 }
    }

    pub(super) fn is_hit(&self, timed: Timed) -> bool {
        timed.ns() < self.spindle.hit_ns
    }

    /// Reads at a place far from `lbn`, so that the arm has moved away and no read-ahead continues.
    pub(super) fn leave(&mut self, lbn: u64) -> Result<(), ExtractError> {
        let sectors = self.prober.sectors;
        let away = sectors / 4 + self.prober.random(sectors / 2);
        let far = self.prober.aligned((lbn + away) % sectors);
        self.prober.read(far, self.prober.grain).map(drop)
    }

    /// Returns the angle at which the granule at `lbn` has passed.
    pub(super) fn angle_of(&mut self, lbn: u64) -> Result<f64, ExtractError> {
        self.leave(lbn)?;
        let mut timed = self.prober.read(lbn, self.prober.grain)?;
        while self.is_hit(timed) && self.evict <= 4096 {
            for _ in 0..self.evict {
                self.leave(lbn)?;
            }
            timed = self.prober.read(lbn, self.prober.grain)?;
            if self.is_hit(timed) {
                self.evict *= 2;
            }
        }
        Ok(self.spindle.angle(timed.to as f64))
    }
}
