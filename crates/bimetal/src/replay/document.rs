//! The results of a replay: the measured response times, the simulated response times, and the
//! distance between both.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_measure::durations::Distribution;
use bimetal_measure::response_time::{ResponseTimeRecorder, ResponseTimes};
use bimetal_measure::throughput::Throughput;
use bimetal_serve::replay::{Answered, LATE};
use bimetal_sim::results::TraceSummary;
use bimetal_volumes::status::Emulation;
use serde::Serialize;

/// Document that `bimetal replay --json` prints.
#[derive(Serialize)]
pub(crate) struct Document {
    pub(crate) bimetal: String,
    pub(crate) command: String,
    pub(crate) options: BTreeMap<String, String>,
    /// The workload as it was read, including requests that the replay leaves out.
    pub(crate) trace: TraceSummary,
    pub(crate) volume: Volume,
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Figures of the emulated members during the replay; null where the server does not report
    /// them.
    pub(crate) emulation: Option<BTreeMap<String, Emulation>>,
    /// Simulation of the same workload on the same volume.
    pub(crate) simulated: Option<Simulated>,
}

/// The volume to which the requests were sent.
#[derive(Serialize)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) scheme: String,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) exported_bytes: u64,
}

/// Measured results.
#[derive(Serialize)]
pub(crate) struct Measured {
    /// Number of requests that were issued.
    pub(crate) issued: u64,
    /// Number of requests that the server answered with each error number.
    pub(crate) errors: BTreeMap<u32, u64>,
    /// Requests that were issued late.
    pub(crate) late: Late,
    pub(crate) response_time_ms: ResponseTimes,
    pub(crate) throughput: Throughput,
    /// Time from the first issue to the last answer.
    pub(crate) duration_s: f64,
}

/// Delay with which this program issued requests, caused by this program itself.
#[derive(Serialize, Default)]
pub(crate) struct Late {
    /// Number of requests issued more than 0.1 ms late.
    pub(crate) requests: u64,
    pub(crate) max_ms: f64,
}

/// Results of the simulation.
#[derive(Serialize)]
pub(crate) struct Simulated {
    pub(crate) response_time_ms: ResponseTimes,
    /// Largest vertical distance between the two distributions (Kolmogorov and Smirnov).
    pub(crate) ks_distance: KsDistance,
}

#[derive(Serialize)]
pub(crate) struct KsDistance {
    pub(crate) all: Option<f64>,
    pub(crate) read: Option<f64>,
    pub(crate) write: Option<f64>,
}

/// Counts answers as they arrive.
#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) response: ResponseTimeRecorder,
    pub(crate) answered: u64,
    errors: BTreeMap<u32, u64>,
    late: u64,
    late_max: Nanoseconds,
    bytes: u64,
}

impl Counter {
    pub(crate) fn note(&mut self, answered: &Answered) {
        self.answered += 1;
        self.late += u64::from(answered.late > LATE);
        self.late_max = self.late_max.max(answered.late);
        if answered.error != 0 {
            *self.errors.entry(answered.error).or_default() += 1;
            return;
        }
        self.bytes += answered.bytes;
        match answered.kind {
            OpKind::Read => self.response.record_read(answered.response),
            OpKind::Write | OpKind::WriteZeroes => self.response.record_write(answered.response),
            OpKind::Flush => self.response.record_flush(answered.response),
            OpKind::Discard | OpKind::Hint => {}
        }
    }

    pub(crate) fn measured(&self, duration_s: f64) -> Measured {
        Measured {
            issued: self.answered,
            errors: self.errors.clone(),
            late: Late { requests: self.late, max_ms: self.late_max.as_millis_f64() },
            response_time_ms: self.response.response_times(),
            throughput: Throughput::of(self.answered, Bytes(self.bytes), Nanoseconds::from_seconds_f64(duration_s)),
            duration_s,
        }
    }
}

impl Simulated {
    pub(crate) fn of(simulated: &ResponseTimeRecorder, measured: &ResponseTimeRecorder) -> Self {
        let [all, read, write] = measured.ks_distances(simulated);
        Self { response_time_ms: simulated.response_times(), ks_distance: KsDistance { all, read, write } }
    }
}

/// Returns the meaning of an error number of the NBD protocol.
fn error_name(number: u32) -> &'static str {
    match number {
        1 => "not permitted (EPERM)",
        5 => "input or output error (EIO)",
        12 => "no memory (ENOMEM)",
        22 => "invalid (EINVAL)",
        28 => "beyond the end (ENOSPC)",
        75 => "too long (EOVERFLOW)",
        95 => "not supported (ENOTSUP)",
        108 => "shutting down (ESHUTDOWN)",
        _ => "unknown to the protocol",
    }
}

type Figure = (&'static str, fn(&Distribution) -> Option<f64>);

const FIGURES: [Figure; 6] = [
    ("mean", |times| times.mean),
    ("p50", |times| times.p50),
    ("p90", |times| times.p90),
    ("p95", |times| times.p95),
    ("p99", |times| times.p99),
    ("max", |times| times.max),
];

impl Document {
    /// Returns the results as text for people.
    pub(crate) fn text(&self) -> String {
        let Measured { issued, errors, late, throughput, duration_s, .. } = &self.measured;
        // Writing to a string cannot fail.
        let mut text = format!("{issued} requests in {duration_s:.1} s");
        if let (Some(iops), Some(mb_per_s)) = (throughput.iops, throughput.mb_per_s) {
            let _ = write!(text, ", {iops:.0} a second, {mb_per_s:.2} MB/s");
        }
        text.push_str("\n\n");
        self.put_times(&mut text);
        for (number, count) in errors {
            let _ = writeln!(text, "\n{count} requests failed: {}", error_name(*number));
        }
        if late.requests > 0 {
            let _ = writeln!(
                text,
                "\n{} requests were issued more than 0.1 ms late (at most {:.1} ms), because this machine was too busy",
                late.requests, late.max_ms
            );
        }
        self.put_emulation(&mut text);
        text
    }

    fn put_times(&self, text: &mut String) {
        let measured = &self.measured.response_time_ms;
        let _ = write!(text, "{:26}", "response time, ms");
        for (name, _) in FIGURES {
            let _ = write!(text, "{name:>10}");
        }
        if self.simulated.is_some() {
            let _ = write!(text, "{:>8}", "KS");
        }
        text.push('\n');
        let of = |times: &ResponseTimes| [times.read, times.write, times.all];
        let names = ["reads", "writes", "all"];
        let simulated = self.simulated.as_ref();
        for (at, (name, measured)) in names.into_iter().zip(of(measured)).enumerate() {
            if measured.mean.is_none() {
                continue;
            }
            put_line(text, name, &measured);
            if let Some(Simulated { response_time_ms, ks_distance }) = simulated {
                let distance = [ks_distance.read, ks_distance.write, ks_distance.all][at];
                let _ = write!(text, "{:>8}", distance.map_or_else(|| "–".to_owned(), |it| format!("{it:.3}")));
                text.push('\n');
                put_line(text, "  simulated", &of(response_time_ms)[at]);
            }
            text.push('\n');
        }
    }

    fn put_emulation(&self, text: &mut String) {
        for (id, kept) in self.emulation.iter().flatten() {
            let share = 100.0 * kept.overruns as f64 / kept.operations.max(1) as f64;
            let _ = write!(text, "\n{id}: {} operations, {} overruns ({share:.2} %)", kept.operations, kept.overruns);
            if let Some(mean) = kept.overrun_mean_ms {
                let _ = write!(text, " by {mean:.3} ms on average");
            }
            let _ = write!(
                text,
                "; completed after the drive's time by {:.3} ms (median), {:.3} ms (99 %)",
                kept.late_p50_ms, kept.late_p99_ms
            );
        }
        if self.emulation.as_ref().is_some_and(|kept| !kept.is_empty()) {
            text.push('\n');
        }
    }
}

fn put_line(text: &mut String, name: &str, times: &Distribution) {
    let _ = write!(text, "{name:26}");
    for (_, figure) in FIGURES {
        let shown = figure(times).map_or_else(|| "–".to_owned(), |ms| format!("{ms:.3}"));
        let _ = write!(text, "{shown:>10}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: OpKind, micros: u64, error: u32) -> Answered {
        let (response, late) = (Nanoseconds::from_micros(micros), Nanoseconds::from_micros(micros / 10));
        Answered { kind, response, late, bytes: 4096, error }
    }

    fn document(simulated: bool) -> Document {
        let mut counter = Counter::default();
        for micros in [1000, 2000, 3000] {
            counter.note(&answer(OpKind::Read, micros, 0));
        }
        counter.note(&answer(OpKind::Write, 50, 5));
        counter.note(&answer(OpKind::Flush, 50, 0));
        let mut model = ResponseTimeRecorder::new();
        for micros in [1000, 2000, 4000] {
            model.record_read(Nanoseconds::from_micros(micros));
        }
        Document {
            bimetal: String::new(),
            command: String::new(),
            options: BTreeMap::new(),
            trace: TraceSummary::default(),
            volume: Volume { name: "v".into(), scheme: "griffin".into(), settings: BTreeMap::new(), exported_bytes: 1 },
            measured: counter.measured(2.0),
            emulation: None,
            simulated: simulated.then(|| Simulated::of(&model, &counter.response)),
        }
    }

    /// Failed requests and late requests are counted. A failed request has no response time.
    #[test]
    fn failed_requests_count_as_errors_without_response_time() {
        let document = document(false);
        let measured = &document.measured;
        assert_eq!((measured.issued, measured.errors.clone()), (5, BTreeMap::from([(5, 1)])));
        assert_eq!((measured.late.requests, measured.late.max_ms), (2, 0.3));
        assert_eq!(measured.response_time_ms.read.mean, Some(2.0));
        assert_eq!(measured.response_time_ms.write.mean, None);
        assert_eq!(measured.response_time_ms.flush.mean, Some(0.05));
        assert_eq!(measured.throughput.iops, Some(2.5));
        let text = document.text();
        assert!(text.contains("1 requests failed: input or output error (EIO)"), "{text}");
        assert!(!text.contains("simulated") && !text.contains("\nwrites"), "{text}");
    }

    #[test]
    fn the_simulation_stands_beside_what_was_measured() {
        let text = document(true).text();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[3][..4], ["reads", "2.000", "2.001", "3.000"], "{text}");
        assert_eq!(lines[3].last(), Some(&"0.333"), "{text}");
        assert_eq!(lines[4][..4], ["simulated", "2.333", "2.001", "4.000"], "{text}");
    }
}
