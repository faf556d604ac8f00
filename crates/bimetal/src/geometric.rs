//! Document and table of a comparison over several traces, with geometric means.

use std::fmt::Write as _;

use bimetal_measure::text::three_digits;
use bimetal_sim::geometric_means::Means;
use bimetal_sim::results::Document;
use bimetal_sim::setup::Sizing;
use serde::Serialize;

/// JSON document that `--json` prints for several traces.
#[derive(Serialize)]
pub(crate) struct Comparison {
    bimetal: &'static str,
    /// One row per scheme, in the order of the runs.
    geometric_means: Vec<Means>,
    /// One document per trace, as a comparison over that trace alone prints it.
    traces: Vec<Document>,
}

impl Comparison {
    /// Returns the comparison of documents with the same schemes in the same order.
    pub(crate) fn of(traces: Vec<Document>) -> Self {
        Self { bimetal: env!("CARGO_PKG_VERSION"), geometric_means: Means::of(&traces), traces }
    }

    /// Returns the comparison over each trace alone.
    pub(crate) fn traces(&self) -> &[Document] {
        &self.traces
    }

    /// Returns the comparison over each trace alone, to be completed.
    pub(crate) fn traces_mut(&mut self) -> &mut [Document] {
        &mut self.traces
    }

    /// Returns the table of means as text.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("geometric means over {} traces\n", self.traces.len());
        let names = self.geometric_means.iter().map(|means| means.label.chars().count()).max().unwrap_or(0).max(6);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:names$}  {:>12}  {:>13}  {:>10}",
            "scheme", "read mean ms", "write mean ms", "score MB/s"
        );
        let mut before = None;
        for means in &self.geometric_means {
            if means.sizing == Sizing::Share && before.is_some_and(|before| before != Sizing::Share) {
                text += "with an SSD of 10 % of each working set\n";
            }
            before = Some(means.sizing);
            let cell = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), three_digits);
            let (read, write, score) = (cell(means.read_mean_ms), cell(means.write_mean_ms), cell(means.score));
            let _ = writeln!(text, "{:names$}  {read:>12}  {write:>13}  {score:>10}", means.label);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn comparison_of_a_trace_with_itself_has_its_figures() {
        let document = fixture::document();
        let comparison = Comparison::of(vec![document.clone(), document.clone()]);
        for (means, run) in comparison.geometric_means.iter().zip(&document.runs) {
            assert_eq!((means.scheme.as_str(), means.traces), (run.scheme.as_str(), 2));
            match (means.read_mean_ms, run.response_time_ms.read.mean) {
                (Some(mean), Some(alone)) => assert!((mean / alone - 1.0).abs() < 1e-12),
                (mean, alone) => assert!(mean.is_none() && alone.is_none_or(|alone| alone == 0.0)),
            }
        }
        assert!(comparison.table().starts_with("geometric means over 2 traces\n"));
    }
}
