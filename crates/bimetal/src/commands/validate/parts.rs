//! The figures of a validation, for all requests, for reads and for writes.

use std::fmt::Write as _;

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;
use bimetal_sim::validation::{Agreement, Sample};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::report::validation::Curves;
use crate::sheet::{Cell, Sheet};

/// Agreement over all requests, over reads and over writes.
pub(super) struct Parts {
    all: Agreement,
    reads: Option<Agreement>,
    writes: Option<Agreement>,
}

/// Returns the measured and the simulated responses of one kind, or of all kinds.
fn pairs(samples: &[Sample], simulated: &[Nanoseconds], kind: Option<OpKind>) -> (Vec<Nanoseconds>, Vec<Nanoseconds>) {
    let both = samples.iter().zip(simulated).filter(|(sample, _)| kind.is_none_or(|kind| sample.kind == kind));
    both.map(|(sample, response)| (sample.measured, *response)).unzip()
}

impl Parts {
    pub(super) fn of(samples: &[Sample], simulated: &[Nanoseconds]) -> Result<Self, Error> {
        let part = |kind| {
            let (measured, simulated) = pairs(samples, simulated, kind);
            Agreement::of(&measured, &simulated)
        };
        Ok(Self {
            all: part(None).ok_or_else(|| Error::new("the trace has no requests"))?,
            reads: part(Some(OpKind::Read)),
            writes: part(Some(OpKind::Write)),
        })
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &Agreement)> {
        [("all", Some(&self.all)), ("reads", self.reads.as_ref()), ("writes", self.writes.as_ref())]
            .into_iter()
            .filter_map(|(name, part)| Some((name, part?)))
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{:24}", "");
        for (name, _) in self.named() {
            let _ = write!(text, "{name:>12}");
        }
        text.push('\n');
        type Figure = (&'static str, fn(&Agreement) -> f64);
        let figures: [Figure; 7] = [
            ("rms demerit, ms", |part| part.rms_demerit_ms),
            ("per-request rms, ms", |part| part.per_request_rms_ms),
            ("median abs. error, ms", |part| part.median_abs_error_ms),
            ("mean error, ms", |part| part.mean_error_ms),
            ("KS distance", |part| part.ks_distance),
            ("measured mean, ms", |part| part.measured_mean_ms),
            ("simulated mean, ms", |part| part.simulated_mean_ms),
        ];
        let _ = write!(text, "{:24}", "requests");
        self.named().for_each(|(_, part)| {
            let _ = write!(text, "{:>12}", part.requests);
        });
        text.push('\n');
        for (name, figure) in figures {
            let _ = write!(text, "{name:24}");
            self.named().for_each(|(_, part)| {
                let _ = write!(text, "{:>12.4}", figure(part));
            });
            text.push('\n');
        }
        text
    }

    /// Returns a row for all requests, for reads and for writes. The columns have the names of the
    /// JSON's keys.
    pub(super) fn sheet(&self) -> Sheet {
        let headings = figures(&self.all).map(|(key, _)| key);
        let mut sheet = Sheet::new(std::iter::once("part").chain(headings));
        for (name, part) in self.named() {
            let cells =
                figures(part).map(|(_, value)| value.as_u64().map_or_else(|| value.as_f64().into(), Cell::from));
            sheet.push(std::iter::once(Cell::from(name)).chain(cells));
        }
        sheet
    }

    pub(super) fn json(&self) -> Map<String, Value> {
        let mut document = object(&self.all);
        for (name, part) in [("read", &self.reads), ("write", &self.writes)] {
            document.insert(name.to_owned(), part.as_ref().map_or(Value::Null, |part| Value::Object(object(part))));
        }
        document
    }

    pub(super) fn curves(&self, samples: &[Sample], simulated: &[Nanoseconds]) -> Vec<Curves> {
        [("All requests", None), ("Reads", Some(OpKind::Read)), ("Writes", Some(OpKind::Write))]
            .into_iter()
            .map(|(name, kind)| {
                let (measured, simulated) = pairs(samples, simulated, kind);
                (name, measured, simulated)
            })
            .filter(|(_, measured, _)| !measured.is_empty())
            .collect()
    }
}

fn object(part: &Agreement) -> Map<String, Value> {
    figures(part).into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn figures(part: &Agreement) -> [(&'static str, Value); 8] {
    [
        ("requests", Value::from(part.requests)),
        ("rms_demerit_ms", Value::from(part.rms_demerit_ms)),
        ("per_request_rms_ms", Value::from(part.per_request_rms_ms)),
        ("median_abs_error_ms", Value::from(part.median_abs_error_ms)),
        ("mean_error_ms", Value::from(part.mean_error_ms)),
        ("ks_distance", Value::from(part.ks_distance)),
        ("measured_mean_ms", Value::from(part.measured_mean_ms)),
        ("simulated_mean_ms", Value::from(part.simulated_mean_ms)),
    ]
}
