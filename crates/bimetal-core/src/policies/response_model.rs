//! MixedStore's short-term model of an SSD (section 5.1): the response time of a request by multiple linear regression over a sliding
//! window of requests,
//! R = c0 + c1 · W + c2 · S, where W are the window's read fraction, sequentiality and mean inter-arrival time and the
//! size of the request itself, and S is the mean of the most recent service times.
//!
//! The sums of the normal equations are kept, so learning is O(1) a request, and the coefficients are solved when asked for. A
//! ridge of one part in 10⁹ makes a characteristic that never varied harmless.

use std::collections::VecDeque;

use crate::operation::OpKind;
use crate::scheme::Access;
use crate::units::{Nanoseconds, Sectors};

/// The constant, four characteristics of the workload, and the device's recent service time.
const TERMS: usize = 6;
const SIZE: usize = 4;

/// What was known when a request arrived, except its size.
#[derive(Clone, Copy)]
struct Moment {
    at: Nanoseconds,
    terms: [f64; TERMS],
    last_ms: f64,
}

/// The sliding window, the regression, and how well it did.
pub(crate) struct ResponseModel {
    window: usize,
    arrivals: VecDeque<Arrival>,
    reads: u32,
    sequential: u32,
    last_end: u64,
    services_ms: VecDeque<f64>,
    services_sum_ms: f64,
    /// Arrivals whose operations may be under way.
    moments: VecDeque<Moment>,
    sums: Sums,
    coefficients: [f64; TERMS],
    errors: Errors,
}

#[derive(Clone, Copy)]
struct Arrival {
    at: Nanoseconds,
    read: bool,
    sequential: bool,
}

/// How many arrivals an operation may have been overtaken by.
const MOMENTS_MAX: usize = 1024;

/// How far predictions were off.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct PredictionError {
    /// Mean absolute error of the model.
    pub mean_ms: f64,
    /// Share of the variance that the model explains.
    pub r2: f64,
    /// Mean absolute error of the baseline that predicts the last value again (figure 9).
    pub last_value_mean_ms: f64,
}

#[derive(Default)]
struct Errors {
    count: u64,
    absolute: f64,
    last_absolute: f64,
    squared: f64,
    sum: f64,
    sum_squared: f64,
}

/// The normal equations.
#[derive(Default)]
struct Sums {
    xx: [[f64; TERMS]; TERMS],
    xy: [f64; TERMS],
}

impl ResponseModel {
    /// Over the last `window` requests and service times.
    pub(crate) fn new(window: usize) -> Self {
        Self {
            window: window.max(2),
            arrivals: VecDeque::new(),
            reads: 0,
            sequential: 0,
            last_end: u64::MAX,
            services_ms: VecDeque::new(),
            services_sum_ms: 0.0,
            moments: VecDeque::new(),
            sums: Sums::default(),
            coefficients: [0.0; TERMS],
            errors: Errors::default(),
        }
    }

    /// A request arrives.
    pub(crate) fn arrived(&mut self, now: Nanoseconds, access: &Access) {
        let sequential = access.sectors.start.0 == self.last_end;
        self.last_end = access.sectors.end().0;
        let read = access.kind == OpKind::Read;
        self.reads += u32::from(read);
        self.sequential += u32::from(sequential);
        self.arrivals.push_back(Arrival { at: now, read, sequential });
        if self.arrivals.len() > self.window
            && let Some(old) = self.arrivals.pop_front()
        {
            self.reads -= u32::from(old.read);
            self.sequential -= u32::from(old.sequential);
        }
        if self.moments.len() == MOMENTS_MAX {
            self.moments.pop_front();
        }
        let moment =
            Moment { at: now, terms: self.terms(now), last_ms: self.services_ms.back().copied().unwrap_or(0.0) };
        self.moments.push_back(moment);
    }

    fn terms(&self, now: Nanoseconds) -> [f64; TERMS] {
        let count = self.arrivals.len().max(1) as f64;
        let first = self.arrivals.front().map_or(now, |arrival| arrival.at);
        let gaps = (self.arrivals.len().max(2) - 1) as f64;
        let service = self.services_sum_ms / self.services_ms.len().max(1) as f64;
        let (reads, sequential) = (f64::from(self.reads) / count, f64::from(self.sequential) / count);
        [1.0, reads, sequential, ms(Nanoseconds(now.0 - first.0)) / gaps, 0.0, service]
    }

    /// What a request of `size` that arrived last will take.
    pub(crate) fn predict_ms(&self, size: Sectors) -> f64 {
        self.moments.back().map_or(0.0, |moment| self.at_ms(moment, size))
    }

    fn at_ms(&self, moment: &Moment, size: Sectors) -> f64 {
        let mut terms = moment.terms;
        terms[SIZE] = size.0 as f64;
        terms.iter().zip(&self.coefficients).map(|(term, coefficient)| term * coefficient).sum()
    }

    /// An operation of `size` has ended `now`, `took` after it began: the model learns from it if `learns`, and is held against it if
    /// `judged`.
    pub(crate) fn served(&mut self, now: Nanoseconds, size: Sectors, took: Nanoseconds, learns: bool, judged: bool) {
        let (took_ms, begun) = (ms(took), Nanoseconds(now.0 - took.0));
        let after = self.moments.partition_point(|moment| moment.at <= begun);
        if let Some(moment) = after.checked_sub(1).map(|at| self.moments[at]) {
            if judged {
                self.errors.add(took_ms, self.at_ms(&moment, size), moment.last_ms);
            }
            if learns {
                let mut terms = moment.terms;
                terms[SIZE] = size.0 as f64;
                self.sums.add(&terms, took_ms);
            }
        }
        self.services_sum_ms += took_ms;
        self.services_ms.push_back(took_ms);
        if self.services_ms.len() > self.window {
            self.services_sum_ms -= self.services_ms.pop_front().unwrap_or(0.0);
        }
    }

    /// Takes on the coefficients of everything learnt so far.
    pub(crate) fn solve(&mut self) {
        if let Some(coefficients) = self.sums.solve() {
            self.coefficients = coefficients;
        }
    }

    /// What was learnt long ago counts for less from now on.
    pub(crate) fn forget(&mut self, keep: f64) {
        self.sums.xx.iter_mut().flatten().chain(&mut self.sums.xy).for_each(|sum| *sum *= keep);
    }

    /// How it did, if it was held against anything.
    pub(crate) fn error(&self) -> Option<PredictionError> {
        self.errors.summary()
    }
}

fn ms(time: Nanoseconds) -> f64 {
    time.0 as f64 / 1e6
}

impl Errors {
    fn add(&mut self, took: f64, predicted: f64, last: f64) {
        self.count += 1;
        self.absolute += (took - predicted).abs();
        self.last_absolute += (took - last).abs();
        self.squared += (took - predicted).powi(2);
        self.sum += took;
        self.sum_squared += took * took;
    }

    fn summary(&self) -> Option<PredictionError> {
        let count = self.count as f64;
        let variance = self.sum_squared - self.sum * self.sum / count;
        (self.count > 1).then(|| PredictionError {
            mean_ms: self.absolute / count,
            r2: if variance > 0.0 { 1.0 - self.squared / variance } else { 0.0 },
            last_value_mean_ms: self.last_absolute / count,
        })
    }
}

impl Sums {
    fn add(&mut self, terms: &[f64; TERMS], value: f64) {
        for row in 0..TERMS {
            for column in 0..TERMS {
                self.xx[row][column] += terms[row] * terms[column];
            }
            self.xy[row] += terms[row] * value;
        }
    }

    /// By Gauss' elimination with the largest pivot first; `None` before anything was learnt.
    fn solve(&self) -> Option<[f64; TERMS]> {
        let (mut matrix, mut right) = (self.xx, self.xy);
        for (at, row) in matrix.iter_mut().enumerate() {
            row[at] += 1e-9 * (1.0 + row[at]);
        }
        if self.xx[0][0] < TERMS as f64 {
            return None;
        }
        for column in 0..TERMS {
            let pivot = (column..TERMS).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
            matrix.swap(column, pivot);
            right.swap(column, pivot);
            for row in column + 1..TERMS {
                let factor = matrix[row][column] / matrix[column][column];
                let pivot = matrix[column];
                matrix[row].iter_mut().zip(pivot).skip(column).for_each(|(at, above)| *at -= factor * above);
                right[row] -= factor * right[column];
            }
        }
        let mut solution = [0.0; TERMS];
        for row in (0..TERMS).rev() {
            let known: f64 = (row + 1..TERMS).map(|at| matrix[row][at] * solution[at]).sum();
            solution[row] = (right[row] - known) / matrix[row][row];
        }
        Some(solution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, BlockRun};
    use crate::units::SectorRange;

    fn access(kind: OpKind, start: u64, len: u64) -> Access {
        Access { kind, sectors: SectorRange::new(start, len), blocks: BlockRun { first: Block(start / 8), count: 1 } }
    }

    /// A device whose time follows the model exactly is learnt exactly, and beats the last value.
    #[test]
    fn a_linear_device_is_learnt() {
        let mut model = ResponseModel::new(8);
        let mut now = Nanoseconds::ZERO;
        for step in 0..4000u64 {
            let size = 8 + step * 7919 % 13 * 8;
            let kind = if step * 31 % 7 < 3 { OpKind::Read } else { OpKind::Write };
            now = Nanoseconds(now.0 + 1_000_000 + step * 104_729 % 997 * 1000);
            model.arrived(now, &access(kind, step * 1000, size));
            let took_us = 100 + size * 3 + u64::from(model.reads) * 20;
            now = Nanoseconds(now.0 + took_us * 1000);
            model.served(now, Sectors(size), Nanoseconds(took_us * 1000), step < 2000, step > 2000);
            if step == 2000 {
                model.solve();
            }
        }
        let error = model.error().unwrap();
        assert!(error.r2 > 0.999 && error.mean_ms < 2e-3, "{error:?}");
        assert!(error.last_value_mean_ms > 0.05, "{error:?}");
    }

    #[test]
    fn a_characteristic_that_never_varies_does_no_harm() {
        let mut model = ResponseModel::new(4);
        for step in 0..100u64 {
            let now = Nanoseconds(step * 1_000_000);
            model.arrived(now, &access(OpKind::Write, 0, 8));
            model.served(Nanoseconds(now.0 + 200_000), Sectors(8), Nanoseconds(200_000), true, false);
        }
        model.solve();
        assert!((model.predict_ms(Sectors(8)) - 0.2).abs() < 1e-3, "{}", model.predict_ms(Sectors(8)));
    }
}
