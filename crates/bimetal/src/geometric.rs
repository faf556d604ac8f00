//! A comparison over several traces: the geometric mean of each figure of each scheme. No trace
//! weighs more than another because its response times are long.

use std::fmt::Write as _;

use bimetal_sim::results::{Document, Run};
use serde::Serialize;

use crate::report::columns::significant;

/// JSON document that `--json` prints for several traces.
#[derive(Serialize)]
pub(crate) struct Comparison {
    bimetal: &'static str,
    /// One row per scheme, in the order of the runs.
    geometric_means: Vec<Means>,
    /// One document per trace, as a comparison over that trace alone prints it.
    traces: Vec<Document>,
}

/// Means of one scheme. A figure is null unless it is above zero over every trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Means {
    scheme: String,
    traces: usize,
    read_mean_ms: Option<f64>,
    write_mean_ms: Option<f64>,
    score: Option<f64>,
    score_per_usd: Option<f64>,
    score_per_controller_usd: Option<f64>,
    budget: Option<f64>,
}

impl Comparison {
    /// Returns the comparison of documents with the same schemes in the same order.
    pub(crate) fn of(traces: Vec<Document>) -> Self {
        let schemes = traces.first().map_or(0, |document| document.runs.len());
        let geometric_means = (0..schemes).map(|at| means_of(&traces, at)).collect();
        Self { bimetal: env!("CARGO_PKG_VERSION"), geometric_means, traces }
    }

    /// Returns the comparison over each trace alone.
    pub(crate) fn traces(&self) -> &[Document] {
        &self.traces
    }

    /// Returns the table of means as text.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("geometric means over {} traces\n", self.traces.len());
        let names = self.geometric_means.iter().map(|means| means.scheme.chars().count()).max().unwrap_or(0).max(6);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:names$}  {:>12}  {:>13}  {:>10}",
            "scheme", "read mean ms", "write mean ms", "score MB/s"
        );
        for means in &self.geometric_means {
            let cell = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), significant);
            let (read, write, score) = (cell(means.read_mean_ms), cell(means.write_mean_ms), cell(means.score));
            let _ = writeln!(text, "{:names$}  {read:>12}  {write:>13}  {score:>10}", means.scheme);
        }
        text
    }
}

fn means_of(traces: &[Document], at: usize) -> Means {
    let mean =
        |figure: fn(&Run) -> Option<f64>| geometric_mean(traces.iter().map(|document| figure(&document.runs[at])));
    Means {
        scheme: traces[0].runs[at].scheme.clone(),
        traces: traces.len(),
        read_mean_ms: mean(|run| run.response_time_ms.read.mean),
        write_mean_ms: mean(|run| run.response_time_ms.write.mean),
        score: mean(|run| run.cost.score),
        score_per_usd: mean(|run| run.cost.score_per_usd),
        score_per_controller_usd: mean(|run| run.cost.score_per_controller_usd),
        budget: mean(|run| run.cost.budget),
    }
}

/// Returns the nth root of the product of n figures; `None` where a figure is missing or not above
/// zero.
fn geometric_mean(figures: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = figures.len() as f64;
    let logarithms = figures.map(|figure| figure.filter(|figure| *figure > 0.0).map(f64::ln));
    logarithms.sum::<Option<f64>>().filter(|_| count > 0.0).map(|sum| (sum / count).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn geometric_mean_is_the_root_of_the_product() {
        let mean = |figures: &[f64]| geometric_mean(figures.iter().copied().map(Some)).unwrap();
        assert!((mean(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
        assert!((mean(&[1.0, 10.0, 100.0]) - 10.0).abs() < 1e-12);
        assert_eq!(geometric_mean([Some(2.0), None].into_iter()), None);
        assert_eq!(geometric_mean([Some(2.0), Some(0.0)].into_iter()), None);
        assert_eq!(geometric_mean([].into_iter()), None);
    }

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
