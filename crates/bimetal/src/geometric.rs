//! Document and table of a comparison over several traces, with geometric means.

use bimetal_measure::text::{lifetime, three_digits};
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

    /// Returns the table of means as text. A column without any figure is left out.
    pub(crate) fn table(&self) -> String {
        let (rows, traces) = (&self.geometric_means, self.traces.len());
        let cells = |figure: fn(&Means) -> Option<f64>, text: fn(f64) -> String| -> Vec<String> {
            rows.iter().map(|means| figure(means).map_or_else(|| NONE.to_owned(), text)).collect()
        };
        let choice = |means: &Means| match means.sizing {
            Sizing::Share => NONE.to_owned(),
            _ => format!("{} of {traces}", means.choice_of),
        };
        let columns = [
            ("read mean ms", cells(|means| means.read_mean_ms, three_digits)),
            ("write mean ms", cells(|means| means.write_mean_ms, three_digits)),
            ("all p99 ms", cells(|means| means.p99_ms, three_digits)),
            ("shortest life", cells(|means| means.shortest_life_years, lifetime)),
            ("score MB/s", cells(|means| means.score, three_digits)),
            ("a choice on", rows.iter().map(choice).collect()),
        ];
        let shown = columns.into_iter().filter(|(_, cells)| cells.iter().any(|cell| cell != NONE));
        let columns: Vec<(usize, &str, Vec<String>)> =
            shown.map(|(head, cells)| (widest(&cells).max(head.len()), head, cells)).collect();
        let names = rows.iter().map(|means| means.label.chars().count()).max().unwrap_or(0).max(6);
        let mut text = format!("geometric means over {traces} traces\n{:names$}", "scheme");
        columns.iter().for_each(|(width, head, _)| text += &format!("  {head:>width$}"));
        text.push('\n');
        let mut before = None;
        for (row, means) in rows.iter().enumerate() {
            if means.sizing == Sizing::Share && before.is_some_and(|before| before != Sizing::Share) {
                text += "with an SSD of 10 % of each working set\n";
            }
            before = Some(means.sizing);
            text += &format!("{:names$}", means.label);
            columns.iter().for_each(|(width, _, cells)| text += &format!("  {:>width$}", cells[row]));
            text.push('\n');
        }
        text
    }
}

/// Cell without a figure.
const NONE: &str = "–";

/// Returns the number of characters of the longest cell.
fn widest(cells: &[String]) -> usize {
    cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
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
        assert!(!comparison.table().contains("score"), "no run has a score");
    }
}
